//! A phone: Debian's baresip, controlled by commands, with WAV files as microphone and loudspeaker.
//!
//! baresip 1.0 plays a file in (`aufile`), but has no module that plays out into one. A phone that
//! only listens therefore connects its output to its input (`aubridge`). `sndfile` records what it
//! sends, which is what it received at the pace of a sound card, including gaps. A phone that
//! speaks hears itself at the end of its file. A call ends when the file ends.

use crate::programs::Running;
use net::netns::Namespace;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long the test waits for anything except speech. Only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(20);
/// The address for commands, in the phone's own network.
const CONTROL: ([u8; 4], u16) = ([127, 0, 0, 1], 4444);
/// The default port for SIP.
const SIP_PORT: u16 = 5060;

/// The settings of a phone.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// The phone's user.
    pub(crate) user: &'static str,
    /// The phone's domain; by default, its own address.
    pub(crate) domain: Option<&'static str>,
    /// The phone's address, which an interface of its network has.
    pub(crate) ip: IpAddr,
    /// The name of this interface.
    pub(crate) interface: &'static str,
    /// The destination of all requests, such as `sip:10.1.0.1:5060;transport=udp`.
    pub(crate) outbound: Option<String>,
    /// Whether it registers at its domain.
    pub(crate) registers: bool,
    /// Whether it answers by itself.
    pub(crate) answers: bool,
    /// The file that it plays; without one, it returns what it hears.
    pub(crate) says: Option<PathBuf>,
    /// The phone's name server.
    pub(crate) dns: Option<SocketAddr>,
}

impl Setup {
    pub(crate) fn new(user: &'static str, ip: impl Into<IpAddr>, interface: &'static str) -> Setup {
        Setup {
            user,
            domain: None,
            ip: ip.into(),
            interface,
            outbound: None,
            registers: false,
            answers: true,
            says: None,
            dns: None,
        }
    }

    fn config(&self, dir: &Path) -> String {
        let source = match &self.says {
            Some(path) => format!("aufile,{}", path.display()),
            None => "aubridge,ear".to_owned(),
        };
        let modules = [
            "module g711.so",
            "module aufile.so",
            "module aubridge.so",
            "module sndfile.so",
            "module plc.so",
            "module ctrl_tcp.so",
            "module_app account.so",
            "module_app menu.so",
        ]
        .join("\n");
        let dns = self.dns.map(|dns| format!("dns_server {dns}\n"));
        format!(
            "poll_method epoll\nsip_listen {sip}\ncall_max_calls 4\n\
             audio_player aubridge,ear\naudio_source {source}\naudio_alert aubridge,alert\n\
             audio_level no\naudio_buffer 60-400\nrtp_ports 20000-20999\nrtcp_mux no\n\
             jitter_buffer_delay 5-10\nrtp_stats yes\nnet_interface {interface}\n\
             module_path /usr/lib/baresip/modules\n{modules}\n\
             ctrl_tcp_listen {control}\nsnd_path {dir}\n{dns}",
            sip = SocketAddr::new(self.ip, SIP_PORT),
            interface = self.interface,
            control = SocketAddr::from(CONTROL),
            dir = dir.display(),
            dns = dns.unwrap_or_default(),
        )
    }

    fn account(&self) -> String {
        let host = self.domain.map_or(self.ip.to_string(), str::to_owned);
        let outbound = self.outbound.as_ref();
        let outbound = outbound.map_or(String::new(), |to| format!(";outbound=\"{to}\""));
        let interval = if self.registers { 300 } else { 0 };
        let secret = if self.registers {
            ";auth_pass=secret"
        } else {
            ""
        };
        let answers = if self.answers { "auto" } else { "manual" };
        format!(
            "<sip:{}@{host}>;regint={interval};answermode={answers};audio_codecs=pcmu;ptime=20;\
             mwi=no{secret}{outbound}\n",
            self.user
        )
    }
}

/// Returns the command that runs a phone's program with real-time priority, or else the nearest
/// possible priority.
fn hardware(at: &Namespace) -> Command {
    let real_time = ["-r", "20"];
    let permitted = Command::new("chrt").args(real_time).arg("true").status();
    let mut command = match permitted {
        Ok(status) if status.success() => at.command("chrt").unwrap(),
        _ => return at.command("env").unwrap(),
    };
    command.args(real_time);
    command
}

/// A phone that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Phone {
    dir: PathBuf,
    process: Running,
    control: TcpStream,
    /// Output of the phone that is not parsed yet, and the parsed events.
    buffer: Vec<u8>,
    events: Vec<Value>,
    name: &'static str,
}

impl Phone {
    /// Starts a phone, and waits until it accepts commands. Its files are below `dir`.
    pub(crate) fn start(at: &Namespace, dir: &Path, setup: &Setup) -> Phone {
        let dir = dir.join(setup.user);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("config"), setup.config(&dir)).unwrap();
        fs::write(dir.join("accounts"), setup.account()).unwrap();
        let log = fs::File::create(dir.join("log")).unwrap();
        let mut command = hardware(at);
        command.args(["baresip", "-v", "-s", "-f"]).arg(&dir);
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap());
        command.stderr(log);
        let process = Running(command.spawn().unwrap());
        let until = Instant::now() + PATIENCE;
        let control = loop {
            let tried = at
                .run(|| TcpStream::connect(SocketAddr::from(CONTROL)))
                .unwrap();
            match tried {
                Ok(control) => break control,
                Err(error) => assert!(
                    Instant::now() < until,
                    "{} does not start: {error}\n{}",
                    setup.user,
                    fs::read_to_string(dir.join("log")).unwrap_or_default()
                ),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        Phone {
            dir,
            process,
            control,
            buffer: Vec::new(),
            events: Vec::new(),
            name: setup.user,
        }
    }

    /// Waits until the registrar has confirmed the registration.
    pub(crate) fn wait_until_registered(&self) {
        let until = Instant::now() + PATIENCE;
        // The registration may be older than the connection for commands, so there may be no event.
        while !self.log().contains("[1 binding]") {
            assert!(Instant::now() < until, "{}:\n{}", self.name, self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Calls a URI.
    pub(crate) fn dial(&mut self, uri: &str) {
        self.tell("dial", uri);
    }

    /// Sends a command, such as `reinvite`.
    pub(crate) fn tell(&mut self, command: &str, with: &str) {
        let said = match with {
            "" => json!({"command": command}),
            with => json!({"command": command, "params": with}),
        };
        let said = said.to_string();
        let framed = format!("{}:{said},", said.len());
        self.control.write_all(framed.as_bytes()).unwrap();
    }

    /// Waits for an event, such as `CALL_ESTABLISHED`. Earlier events are dropped.
    pub(crate) fn wait_for(&mut self, kind: &str) -> Value {
        self.wait_within(kind, PATIENCE)
            .unwrap_or_else(|| panic!("{} waited in vain for {kind}:\n{}", self.name, self.log()))
    }

    /// Waits for an event, for at most `patience`.
    pub(crate) fn wait_within(&mut self, kind: &str, patience: Duration) -> Option<Value> {
        let until = Instant::now() + patience;
        loop {
            if let Some(at) = self.events.iter().position(|event| event["type"] == kind) {
                return self.events.drain(..=at).next_back();
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.read(left);
        }
    }

    /// Returns what the phone heard. The phone must not be in a call, because the file is complete
    /// only after the call.
    pub(crate) fn heard(&self) -> Vec<i16> {
        let kept = fs::read_dir(&self.dir).unwrap();
        let mut kept: Vec<PathBuf> = kept.map(|entry| entry.unwrap().path()).collect();
        kept.retain(|path| path.to_string_lossy().ends_with("-enc.wav"));
        kept.sort();
        let last = kept
            .last()
            .unwrap_or_else(|| panic!("nothing was heard:\n{}", self.log()));
        voice::wav::read_speech(&fs::read(last).unwrap())
            .unwrap()
            .pcm
    }

    /// Returns the phone's log: its SIP messages and its own lines.
    pub(crate) fn log(&self) -> String {
        let log = fs::read(self.dir.join("log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&log).into_owned();
        // The phone overwrites its lines about a running call.
        let lines = text
            .lines()
            .map(|line| line.rsplit('\r').next().unwrap_or(line));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Reads output, and waits for it for at most `patience`.
    fn read(&mut self, patience: Duration) {
        let patience = patience.max(Duration::from_millis(1));
        self.control.set_read_timeout(Some(patience)).unwrap();
        let mut bytes = [0; 4096];
        match self.control.read(&mut bytes) {
            Ok(0) => panic!("{} has ended:\n{}", self.name, self.log()),
            Ok(len) => self.buffer.extend(&bytes[..len]),
            Err(_) => return,
        }
        while let Some(colon) = self.buffer.iter().position(|&byte| byte == b':') {
            let len = std::str::from_utf8(&self.buffer[..colon]).unwrap();
            let end = colon + 1 + len.parse::<usize>().unwrap();
            if self.buffer.len() <= end {
                return;
            }
            let said = serde_json::from_slice::<Value>(&self.buffer[colon + 1..end]);
            self.buffer.drain(..=end);
            self.events
                .extend(said.into_iter().filter(|said| said["event"] == true));
        }
    }
}

impl Drop for Phone {
    fn drop(&mut self) {
        // The phone ends in order, so that it ends its calls.
        if self.process.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.process.signal("TERM");
            let until = Instant::now() + Duration::from_secs(2);
            while Instant::now() < until
                && self.process.0.try_wait().is_ok_and(|ended| ended.is_none())
            {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}
