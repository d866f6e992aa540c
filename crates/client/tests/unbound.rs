//! Tests discovery against a name server of others, unbound.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use client::discover::{Discover, Error, Settings, Transport};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the server may take to start. Only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(30);

struct Unbound {
    child: Child,
    dir: PathBuf,
    at: SocketAddr,
}

impl Unbound {
    /// Starts a server that knows `records`. If it is not installed, reports this clearly and returns `None`.
    fn start(records: &[&str]) -> Option<Unbound> {
        let places = ["/usr/sbin/unbound", "/usr/local/sbin/unbound"];
        let Some(program) = places.into_iter().find(|path| Path::new(path).exists()) else {
            eprintln!("SKIPPED: discovery by a foreign name server: install the package unbound");
            return None;
        };
        let dir = std::env::temp_dir().join(format!("client-unbound-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        // The port was free a moment ago; if it has been taken since, another attempt follows.
        for _ in 0..10 {
            let at = UdpSocket::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap();
            let data: String = records
                .iter()
                .map(|r| format!("  local-data: '{r}'\n"))
                .collect();
            let config = format!(
                "server:\n  interface: 127.0.0.1@{}\n  do-ip6: no\n  do-daemonize: no\n  \
                 username: \"\"\n  chroot: \"\"\n  directory: \"{}\"\n  pidfile: \"\"\n  \
                 use-syslog: no\n  logfile: \"\"\n  module-config: \"iterator\"\n  \
                 local-zone: \"example.org.\" static\n  local-zone: \"test.\" static\n{data}\
                 remote-control:\n  control-enable: no\n",
                at.port(),
                dir.display()
            );
            fs::write(dir.join("unbound.conf"), config).unwrap();
            let mut command = Command::new(program);
            command.arg("-d").arg("-c").arg(dir.join("unbound.conf"));
            let child = command.stderr(Stdio::null()).spawn().unwrap();
            let mut unbound = Unbound {
                child,
                dir: dir.clone(),
                at,
            };
            if unbound.answers() {
                return Some(unbound);
            }
        }
        panic!("unbound does not start: see {}", dir.display());
    }

    /// Waits until the server answers. Returns false if it has ended instead.
    fn answers(&mut self) -> bool {
        // A question for the address of test., encoded by hand.
        let question = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x04test\0\0\x01\0\x01";
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until && self.child.try_wait().unwrap().is_none() {
            let _ = socket.send_to(question, self.at);
            if socket
                .recv_from(&mut [0; 512])
                .is_ok_and(|(_, from)| from == self.at)
            {
                return true;
            }
        }
        false
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn unbound_is_understood() {
    let Some(unbound) = Unbound::start(&[
        "_sinew._udp.example.org. 120 IN SRV 10 60 7443 ams.example.org.",
        "_sinew._udp.example.org. 120 IN SRV 20 0 7444 fra.example.org.",
        "ams.example.org. 60 IN A 192.0.2.1",
        "ams.example.org. 60 IN AAAA 2001:db8::1",
        "fra.example.org. 60 IN A 192.0.2.2",
        "_sip._udp.example.org. 60 IN SRV 0 0 0 .",
        "_sip._tcp.example.org. 60 IN SRV 1 1 5062 fra.example.org.",
        "pbx.example.org. 60 IN A 192.0.2.3",
    ]) else {
        return;
    };
    let discover = Discover::new(Settings {
        server: Some(unbound.at),
        patience: PATIENCE,
        ..Settings::default()
    })
    .unwrap();
    let at = |found: client::discover::Found| {
        let at = found
            .addresses()
            .map(|(service, at)| format!("{service} {at}"));
        at.collect::<Vec<String>>()
    };
    let nodes = discover.nodes("example.org").unwrap();
    assert!(nodes.ttl <= Duration::from_secs(60));
    let expected = ["192.0.2.1:7443", "[2001:db8::1]:7443", "192.0.2.2:7444"];
    assert_eq!(at(nodes), expected.map(|at| format!("_sinew._udp {at}")));
    let sip = |domain: &str, transport| discover.sip(domain, transport);
    let tcp = sip("example.org", None).unwrap();
    assert_eq!(at(tcp), ["_sip._tcp 192.0.2.2:5062"]);
    let refused = Err(Error::NoService("example.org".into()));
    assert_eq!(sip("example.org", Some(Transport::Udp)), refused);
    assert_eq!(
        at(sip("pbx.example.org", None).unwrap()),
        ["_sip._udp 192.0.2.3:5060"]
    );
    let nothing = Err(Error::NotFound("gone.example.org".into()));
    assert_eq!(sip("gone.example.org", None), nothing);
}
