//! Two phones with only an IP path between them, which loses packets: the baseline for the gateway,
//! and a test of the phones.

use crate::phone::{Phone, Setup};
use crate::programs::{BARESIP, Running, missing, quiet};
use crate::speech::Speech;
use net::netns::Namespace;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use voice::score::RawPesq;

/// The interface that the emulator makes at both ends.
const INTERFACE: &str = "emu0";

/// A directory of a test. It is removed after the test, unless the test fails.
#[derive(Debug)]
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(test: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("sinew-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// Makes an emulated path between two networks. It ends when it is dropped.
pub(crate) fn emulate(between: [&Namespace; 2], link: &str, addresses: [&str; 2]) -> Running {
    let [a, b] = between.map(|network| network.path());
    let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
    command
        .args([
            "emulate",
            "--interface",
            INTERFACE,
            "--address-a",
            addresses[0],
        ])
        .args(["--address-b", addresses[1], "--between"])
        .args([a, b])
        .arg(link)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut running = Running(command.spawn().unwrap());
    // The path exists when both interfaces have their addresses.
    let until = std::time::Instant::now() + Duration::from_secs(20);
    for (network, address) in between.into_iter().zip(addresses) {
        let has_address = || {
            let mut ip = network.command("ip").unwrap();
            let said = ip.args(["-o", "addr", "show", "up"]).output().unwrap();
            String::from_utf8_lossy(&said.stdout).contains(address)
        };
        while !has_address() {
            if std::time::Instant::now() > until {
                let _ = running.0.kill();
                let mut said = String::new();
                let mut errors = BufReader::new(running.0.stderr.take().unwrap());
                let _ = errors.read_line(&mut said);
                panic!("no emulated path: {said}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    running
}

/// Makes a call from one phone to the other over a path like `link`. Returns the quality of the
/// received speech.
pub(crate) fn call_directly(dir: &Path, speech: &Speech, link: &str) -> RawPesq {
    let [alice_at, bob_at] = [0; 2].map(|_| Namespace::new().unwrap());
    let _path = emulate([&alice_at, &bob_at], link, ["10.66.0.1/24", "10.66.0.2/24"]);
    let mut alice = Setup::new("alice", [10, 66, 0, 1], INTERFACE);
    alice.says = Some(speech.write(dir));
    let bob = Setup::new("bob", [10, 66, 0, 2], INTERFACE);
    let mut bob = Phone::start(&bob_at, dir, &bob);
    let mut alice = Phone::start(&alice_at, dir, &alice);
    alice.dial("sip:bob@10.66.0.2");
    alice.wait_for("CALL_ESTABLISHED");
    bob.wait_for("CALL_ESTABLISHED");
    let ended = bob.wait_within("CALL_CLOSED", Duration::from_secs(60));
    assert!(ended.is_some(), "{}", bob.log());
    speech.score(&bob.heard())
}

#[test]
#[ignore = "listens: wants a machine that does nothing else"]
fn phones_speak_with_each_other_and_loss_is_heard() {
    if missing("phones_speak_with_each_other", &[BARESIP]) {
        return;
    }
    let _quiet = quiet();
    let speech = Speech::of(1);
    let scratch = Scratch::new("phones-direct");
    let call = |name: &str, link: &str| {
        let dir = scratch.0.join(name);
        fs::create_dir_all(&dir).unwrap();
        call_directly(&dir, &speech, link)
    };
    let (clean, lossy) = std::thread::scope(|scope| {
        let clean = scope.spawn(|| call("clean", "delay=20ms"));
        let lossy = call("lossy", "delay=20ms loss=5% burst=25%");
        (clean.join().unwrap(), lossy)
    });
    let ceiling = speech.ceiling();
    println!("phones directly: ceiling {ceiling}, clean {clean}, 5 % lost {lossy}");
    assert!(clean.0 > ceiling.0 - 0.3, "{clean}");
    assert!(lossy.0 < clean.0 - 0.2, "{clean} {lossy}");
}
