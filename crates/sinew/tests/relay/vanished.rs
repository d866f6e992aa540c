//! A host that goes without a word is noticed by those who have a transfer with it, and the same
//! command goes on when it is back. In network namespaces; needs root, says so and skips without.
//!
//! ```text
//!   ams 10.99.1.1 ──── 10.99.1.2 fra 10.99.2.2 ──── 10.99.2.1 lon
//! ```

use crate::chain::{noise, part};
use crate::world::{World, failure};
use net::netns::{Namespace, available};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// More than what may be on its way.
const BYTES: usize = 60_000_000;
const NAMES: [&str; 3] = ["ams", "fra", "lon"];

/// A process that ends with the test.
struct Running(Child);

impl Running {
    fn signal(&self, signal: &str) {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Three hosts in a row, each a namespace with a node.
struct Row {
    world: World,
    hosts: [Namespace; 3],
    nodes: Vec<Running>,
}

impl Row {
    fn new(test: &str) -> Row {
        let hosts = [(); 3].map(|()| Namespace::new().unwrap());
        let [ams, fra, lon] = &hosts;
        ams.veth("fra", fra, "ams").unwrap();
        lon.veth("fra", fra, "lon").unwrap();
        for (host, address, interface) in [
            (ams, "10.99.1.1/24", "fra"),
            (fra, "10.99.1.2/24", "ams"),
            (fra, "10.99.2.2/24", "lon"),
            (lon, "10.99.2.1/24", "fra"),
        ] {
            host.ip(&["address", "add", address, "dev", interface])
                .unwrap();
        }
        let world = World::new(test);
        world.sinew("net add net ams --address 10.99.1.1:7701");
        world.sinew("net add net fra --address 10.99.1.2:7702 --link ams");
        world.sinew("net add net lon --address 10.99.2.1:7703 --link fra");
        let mut row = Row {
            world,
            hosts,
            nodes: Vec::new(),
        };
        let root = row.root();
        fs::create_dir(&root).unwrap();
        let config = row.world.node("lon").join("node.toml");
        let text = fs::read_to_string(&config).unwrap();
        // The node of the middle has an address on either side.
        let text = text.replace("10.99.1.2:", "10.99.2.2:");
        fs::write(&config, format!("{text}\n[relay]\nroots = [{root:?}]\n")).unwrap();
        for (host, name) in row.hosts.iter().zip(NAMES) {
            let mut node = host.command(env!("CARGO_BIN_EXE_sinew")).unwrap();
            node.current_dir(&row.world.dir).arg("node").arg("--config");
            node.arg(row.world.node(name).join("node.toml"));
            node.stdin(Stdio::null()).stdout(Stdio::null());
            let log = fs::File::create(row.world.dir.join(format!("{name}.log")));
            node.stderr(log.unwrap());
            row.nodes.push(Running(node.spawn().unwrap()));
        }
        row.wait_until_ready();
        row
    }

    fn wait_until_ready(&self) {
        for name in NAMES {
            let asked = format!("status --node net/{name}");
            self.world.wait("the node answers", || {
                self.world.try_sinew(&asked).status.success()
            });
        }
        self.world.wait_for_link("ams", "fra");
        self.world.wait_for_link("fra", "lon");
        let last = self.world.overlay_address("lon");
        self.world.wait("ams knows a way to lon", || {
            self.world.has_route("ams", &last)
        });
    }

    fn root(&self) -> PathBuf {
        self.world.dir.join("lon-data")
    }

    fn begin_cp(&self) -> Child {
        let mut command = self.cp();
        command.args(["--give-up", "0"]).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// The copy, with as much patience as it has by itself.
    fn cp(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
        command.current_dir(&self.world.dir);
        command.args(["cp", "data", "lon:copy", "--json", "--node", "net/ams"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    fn end_of(&self, mut child: Child) -> Output {
        self.world
            .wait("the command ends", || child.try_wait().unwrap().is_some());
        child.wait_with_output().unwrap()
    }

    /// Pulls the cables of the host in the middle, or puts them in again.
    fn set_middle(&self, state: &str) {
        for interface in ["ams", "lon"] {
            self.hosts[1]
                .ip(&["link", "set", interface, state])
                .unwrap();
        }
    }
}

#[test]
fn a_relay_that_vanishes_is_noticed_on_both_sides_and_the_copy_goes_on() {
    let test = "a_relay_that_vanishes_is_noticed";
    if let Err(why) = available() {
        println!("SKIPPED: {test}: {why}");
        return;
    }
    let row = Row::new("cp-vanished");
    fs::write(row.world.dir.join("data"), noise(BYTES)).unwrap();
    let target = row.root().join("copy");
    let child = row.begin_cp();
    let is_under_way = || fs::metadata(part(&target)).is_ok_and(|part| part.len() > 1_000_000);
    row.world.wait("a part of it is there", is_under_way);
    // The last node takes nothing any more, so it cannot be over; its host is well.
    row.nodes[2].signal("-STOP");
    assert!(!target.exists(), "the copy was over too soon");
    row.set_middle("down");
    let (status, text) = failure(&row.end_of(child));
    assert!(
        status == 1 && text.contains("the connection to 10.7.0.2"),
        "{text}"
    );
    row.nodes[2].signal("-CONT");
    let is_idle = |name: &str| row.world.status(name)["bulk"]["active"] == 0;
    for name in NAMES {
        row.world.wait("nobody has a part in it", || is_idle(name));
        let bulk = &row.world.status(name)["bulk"];
        assert_eq!(bulk["failed"]["broken"], 1, "{name}: {bulk}");
    }
    assert!(!target.exists());
    row.set_middle("up");
    row.wait_until_ready();
    let output = row.end_of(row.begin_cp());
    assert!(output.status.success(), "{}", failure(&output).1);
    let done: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(done["resumed_bytes"].as_u64() > Some(0), "{done}");
    assert_eq!(fs::read(&target).unwrap(), noise(BYTES));
}

#[test]
fn one_command_lives_through_an_outage() {
    let test = "one_command_lives_through_an_outage";
    if let Err(why) = available() {
        println!("SKIPPED: {test}: {why}");
        return;
    }
    let row = Row::new("cp-outage");
    fs::write(row.world.dir.join("data"), noise(BYTES)).unwrap();
    let target = row.root().join("copy");
    let said = row.world.dir.join("said");
    let log = fs::File::create(&said).unwrap();
    let mut child = row.cp().stderr(log).spawn().unwrap();
    let is_under_way = || fs::metadata(part(&target)).is_ok_and(|part| part.len() > 1_000_000);
    row.world.wait("a part of it is there", is_under_way);
    // So it cannot be over before the cable is out.
    row.nodes[2].signal("-STOP");
    assert!(!target.exists(), "the copy was over too soon");
    row.set_middle("down");
    row.nodes[2].signal("-CONT");
    let has_said = |text: &str| fs::read_to_string(&said).is_ok_and(|all| all.contains(text));
    row.world.wait("it waits", || has_said("waits: "));
    assert!(child.try_wait().unwrap().is_none(), "it has ended");
    row.set_middle("up");
    let output = row.end_of(child);
    let all = fs::read_to_string(&said).unwrap();
    assert!(output.status.success(), "{all}");
    let done: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(done["attempts"].as_u64() > Some(1), "{done}");
    // The last attempt has sent what was missing.
    let sent = done["segments"][0]["bytes"].as_u64().unwrap();
    assert!(sent < BYTES as u64 - 1_000_000, "{done}");
    assert_eq!(fs::read(&target).unwrap(), noise(BYTES));
}

#[test]
#[ignore = "a minute: a receiver that takes nothing for so long, and lives"]
fn a_receiver_that_stalls_is_waited_for() {
    available().unwrap();
    let row = Row::new("cp-stalled");
    fs::write(row.world.dir.join("data"), noise(BYTES)).unwrap();
    let target = row.root().join("copy");
    let child = row.begin_cp();
    row.world.wait("it has begun", || part(&target).exists());
    row.nodes[2].signal("-STOP");
    assert!(!target.exists(), "the copy was over too soon");
    std::thread::sleep(std::time::Duration::from_secs(60));
    row.nodes[2].signal("-CONT");
    let output = row.end_of(child);
    assert!(output.status.success(), "{}", failure(&output).1);
    assert_eq!(fs::read(&target).unwrap(), noise(BYTES));
}
