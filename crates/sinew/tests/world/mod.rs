//! Real node processes on loopback, and the commands that ask them.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod c;
pub(crate) mod nft;
pub(crate) mod streams;

use net::netns::Namespace;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// How long a test waits for anything. Only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(30);
/// The test also makes at least this many checks: after a virtual machine was suspended, the time
/// may be over without any check.
const LOOKS: u32 = 250;
/// The time between two checks.
const PACE: Duration = Duration::from_millis(20);

/// A network in its own directory and with its own address of the loopback range, so that tests
/// that run at the same time do not meet.
pub(crate) struct World {
    pub(crate) dir: PathBuf,
    host: Ipv4Addr,
    nodes: Vec<Node>,
}

/// A running node.
pub(crate) struct Node {
    pub(crate) name: String,
    child: Child,
}

impl World {
    pub(crate) fn new(test: &str) -> World {
        static TESTS: AtomicU8 = AtomicU8::new(1);
        let pid = std::process::id().to_be_bytes();
        let host = Ipv4Addr::new(127, pid[2], pid[3], TESTS.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(format!("sinew-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        let world = World {
            dir,
            host,
            nodes: Vec::new(),
        };
        world.sinew("net init net --name test");
        world
    }

    /// Returns the endpoint of the node with this number.
    pub(crate) fn endpoint(&self, number: u16) -> SocketAddr {
        SocketAddr::new(self.host.into(), 7700 + number)
    }

    /// Adds a node to the network. It dials the nodes that were added before.
    pub(crate) fn add(&self, name: &str, number: u16, more: &str) {
        let endpoint = self.endpoint(number);
        self.sinew(&format!("net add net {name} --address {endpoint} {more}"));
    }

    /// Starts a node and waits until it answers.
    pub(crate) fn start(&mut self, name: &str) {
        self.launch(name);
        let socket = self.control(name);
        self.wait(&format!("{name} answers"), || {
            UnixStream::connect(&socket).is_ok()
        });
    }

    /// Starts a node.
    pub(crate) fn launch(&mut self, name: &str) {
        let command = self.command();
        self.launch_by(name, command);
    }

    /// Starts a node with these variables in its environment.
    pub(crate) fn launch_with(&mut self, name: &str, variables: &[(&str, &str)]) {
        let mut command = self.command();
        command.envs(variables.iter().copied());
        self.launch_by(name, command);
    }

    /// Starts a node with another program than the tested one.
    pub(crate) fn launch_as(&mut self, name: &str, program: &Path) {
        let mut command = Command::new(program);
        self.prepare(&mut command);
        self.launch_by(name, command);
    }

    /// Starts a node in a network namespace.
    pub(crate) fn launch_in(&mut self, name: &str, inside: &Namespace) {
        let mut command = inside.command(env!("CARGO_BIN_EXE_sinew")).unwrap();
        self.prepare(&mut command);
        self.launch_by(name, command);
    }

    fn launch_by(&mut self, name: &str, mut command: Command) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.log_path(name));
        let log = log.unwrap();
        let config = self.node(name).join("node.toml");
        command
            .arg("node")
            .arg("--config")
            .arg(config)
            .stderr(log)
            .stdout(Stdio::null());
        self.nodes.push(Node {
            name: name.to_owned(),
            child: command.spawn().unwrap(),
        });
    }

    /// Ends a node as an operator would, and waits for its end.
    pub(crate) fn stop(&mut self, name: &str) {
        self.ask(name, "{\"cmd\":\"stop\"}\n");
        assert!(self.wait_for_end(name).success(), "{}", self.log(name));
    }

    /// Ends a node as a crash would.
    pub(crate) fn kill(&mut self, name: &str) {
        let i = self.position(name);
        let mut node = self.nodes.remove(i);
        node.child.kill().unwrap();
        node.child.wait().unwrap();
    }

    /// Sends SIGTERM to a node.
    pub(crate) fn terminate(&self, name: &str) {
        self.signal(name, "-TERM");
    }

    /// Sends SIGHUP to a node.
    pub(crate) fn hang_up(&self, name: &str) {
        self.signal(name, "-HUP");
    }

    fn signal(&self, name: &str, signal: &str) {
        let pid = self.nodes[self.position(name)].child.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Waits until a node has ended.
    pub(crate) fn wait_for_end(&mut self, name: &str) -> std::process::ExitStatus {
        let i = self.position(name);
        let mut node = self.nodes.remove(i);
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = node.child.try_wait().unwrap() {
                return status;
            }
            if Instant::now() > deadline {
                let _ = node.child.kill();
                panic!("{name} does not end: {}", self.log(name));
            }
            std::thread::sleep(PACE);
        }
    }

    /// Waits until the node that was started last has ended.
    pub(crate) fn wait_for_end_of_last(&mut self) -> std::process::ExitStatus {
        let last = self.nodes.len() - 1;
        let name = std::mem::replace(&mut self.nodes[last].name, "last".into());
        let status = self.wait_for_end("last");
        assert!(self.nodes.iter().any(|node| node.name == name));
        status
    }

    /// Runs `sinew` with these words, which must succeed, and returns its output.
    pub(crate) fn sinew(&self, words: &str) -> String {
        let output = self.try_sinew(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "sinew {words}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `sinew` with these words.
    pub(crate) fn try_sinew(&self, words: &str) -> Output {
        self.command()
            .args(words.split_whitespace())
            .output()
            .unwrap()
    }

    /// Starts `sinew` with these words, with its output in a pipe. The caller must end it.
    pub(crate) fn begin(&self, words: &str) -> Child {
        let mut command = self.command();
        command.args(words.split_whitespace());
        command.stdout(Stdio::piped()).spawn().unwrap()
    }

    /// Runs `sinew` with these words, and returns its output as JSON.
    pub(crate) fn json(&self, words: &str) -> Value {
        serde_json::from_str(&self.sinew(&format!("{words} --json"))).unwrap()
    }

    /// Pings until every request of one run is answered, and returns the output of that run. A run
    /// may fail on a busy machine.
    pub(crate) fn ping(&self, words: &str) -> Value {
        let mut last = Value::Null;
        self.wait(&format!("`ping {words}` is answered"), || {
            let output =
                self.try_sinew(&format!("ping {words} --interval 5ms --timeout 5s --json"));
            last = serde_json::from_slice(&output.stdout).unwrap_or_default();
            last["received"].is_u64() && last["received"] == last["sent"]
        });
        last
    }

    /// Returns the status of a node.
    pub(crate) fn status(&self, name: &str) -> Value {
        self.json(&format!("status --node net/{name}"))
    }

    /// Returns the state of a node's link to a neighbour.
    pub(crate) fn link(&self, name: &str, neighbor: &str) -> String {
        let status = self.status(name);
        let links = status["snapshot"]["links"].as_array().unwrap();
        let link = links.iter().find(|link| link["name"] == neighbor);
        link.map_or("none".into(), |link| {
            link["state"].as_str().unwrap().to_owned()
        })
    }

    /// Waits until the links of two nodes to each other are up.
    pub(crate) fn wait_for_link(&self, a: &str, b: &str) {
        self.wait(&format!("{a} and {b} have a link"), || {
            self.link(a, b) == "up" && self.link(b, a) == "up"
        });
    }

    /// Waits until `holds` returns true.
    pub(crate) fn wait(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut looks = 0;
        while !holds() {
            looks += 1;
            if looks > LOOKS && Instant::now() > deadline {
                let logs = self.nodes.iter().map(|node| self.log(&node.name));
                panic!("waited in vain until {what}\n{}", logs.collect::<String>());
            }
            std::thread::sleep(PACE);
        }
    }

    /// Sends a line to a node's control socket. The answer may not come.
    pub(crate) fn ask(&self, name: &str, line: &str) -> String {
        let mut stream = UnixStream::connect(self.control(name)).unwrap();
        std::io::Write::write_all(&mut stream, line.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    /// Waits until a node has logged a line that contains `text`, and returns that line.
    pub(crate) fn wait_for_line(&self, name: &str, text: &str) -> String {
        let mut found = None;
        self.wait(&format!("{name} logs `{text}`"), || {
            found = self
                .log(name)
                .lines()
                .find(|line| line.contains(text))
                .map(str::to_owned);
            found.is_some()
        });
        found.unwrap_or_default()
    }

    /// Returns what a node has logged so far. Another thread of the node writes the log.
    pub(crate) fn log(&self, name: &str) -> String {
        fs::read_to_string(self.log_path(name)).unwrap_or_default()
    }

    /// Returns the directory of a node.
    pub(crate) fn node(&self, name: &str) -> PathBuf {
        self.dir.join("net").join(name)
    }

    /// Returns the control socket of a node.
    pub(crate) fn control(&self, name: &str) -> PathBuf {
        self.node(name).join(format!("{name}.ctl"))
    }

    /// Returns the clients' socket of a node.
    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.node(name).join(format!("{name}.sock"))
    }

    /// Adds lines to the front of a node's configuration.
    pub(crate) fn configure(&self, name: &str, lines: &str) {
        let path = self.node(name).join("node.toml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{lines}\n{text}")).unwrap();
    }

    /// Makes a node listen at `addr` only.
    pub(crate) fn listen(&self, name: &str, addr: &str) {
        let path = self.node(name).join("node.toml");
        let text = fs::read_to_string(&path).unwrap();
        let lines = text
            .lines()
            .map(|line| match line.starts_with("listen = ") {
                true => format!("listen = [\"{addr}\"]\n"),
                false => format!("{line}\n"),
            });
        fs::write(&path, lines.collect::<String>()).unwrap();
    }

    /// Sets the impairment of the link between two nodes from the start, in both directions.
    pub(crate) fn impair(&self, a: &str, b: &str, model: &str) {
        for (here, there) in [(a, b), (b, a)] {
            let path = self.node(here).join("node.toml");
            let mut text = fs::read_to_string(&path).unwrap();
            let entry = format!("name = \"{there}\"\n");
            if !text.contains(&entry) {
                // The other node dials.
                let address = self.overlay_address(there);
                text += &format!("\n[[neighbor]]\n{entry}address = \"{address}\"\n");
            }
            let impaired = format!("{entry}impair = \"{model}\"\n");
            fs::write(&path, text.replace(&entry, &impaired)).unwrap();
        }
    }

    /// Returns the overlay address of a node.
    pub(crate) fn overlay_address(&self, name: &str) -> String {
        let list = self.json("net list net");
        let nodes = list["nodes"].as_array().unwrap();
        let node = nodes.iter().find(|node| node["name"] == name).unwrap();
        node["address"].as_str().unwrap().to_owned()
    }

    /// Returns true if `name` has a route to the node at `address`.
    pub(crate) fn has_route(&self, name: &str, address: &str) -> bool {
        let routes = self.json(&format!("routes --node net/{name}"));
        routes.to_string().contains(&format!("\"{address}\""))
    }

    /// Returns the metrics that a node serves at `addr`.
    pub(crate) fn get(&self, addr: SocketAddr) -> String {
        let mut stream = std::net::TcpStream::connect(addr).unwrap();
        std::io::Write::write_all(&mut stream, b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        page
    }

    /// Returns the process id of a node. A node that was restarted has another id.
    pub(crate) fn pid(&self, name: &str) -> u32 {
        self.nodes[self.position(name)].child.id()
    }

    /// Panics unless the process of every node runs.
    pub(crate) fn assert_all_run(&mut self) {
        for i in 0..self.nodes.len() {
            if let Some(status) = self.nodes[i].child.try_wait().unwrap() {
                let name = &self.nodes[i].name;
                panic!("{name} has ended, {status}: {}", self.log(name));
            }
        }
    }

    fn log_path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.log"))
    }

    fn position(&self, name: &str) -> usize {
        self.nodes
            .iter()
            .position(|node| node.name == name)
            .unwrap()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
        self.prepare(&mut command);
        command
    }

    fn prepare(&self, command: &mut Command) {
        command
            .current_dir(&self.dir)
            .env_remove("SINEW_NODE")
            .stdin(Stdio::null());
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.child.kill();
            let _ = node.child.wait();
        }
        if !std::thread::panicking() {
            fs::remove_dir_all(&self.dir).unwrap();
        }
    }
}

/// Returns a command's exit status, and its text on standard error.
pub(crate) fn failure(output: &Output) -> (i32, String) {
    (
        output.status.code().unwrap(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// Copies a file of one node's directory over that of another.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap();
}
