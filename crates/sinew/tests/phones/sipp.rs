//! Load by Debian's sipp: a number of calls per second, each with speech in both directions.

use crate::programs::{Running, SIPP, alone, missing};
use net::netns::Namespace;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// The result of a load.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Borne {
    pub(crate) created: u64,
    pub(crate) successful: u64,
    pub(crate) failed: u64,
    /// Requests that had to be sent again.
    pub(crate) retransmissions: u64,
}

/// A load for a gateway.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    /// The callers' network and address.
    pub(crate) from: (&'a Namespace, Ipv4Addr),
    /// The destination of their requests.
    pub(crate) by: SocketAddr,
    /// The callees' network and address.
    pub(crate) to: (&'a Namespace, Ipv4Addr),
    pub(crate) domain: &'a str,
    pub(crate) calls_per_s: u32,
    pub(crate) calls: u32,
    /// How long each call is.
    pub(crate) length: Duration,
}

/// Returns the directory in which the traces of long runs stay.
pub(crate) fn kept(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("phones")
        .join(test);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

impl Load<'_> {
    /// Runs the load. Traces, logs and statistics go to `dir`.
    pub(crate) fn run(&self, dir: &Path) -> Borne {
        // Four minutes of noise without silence; each call begins at its start.
        let noise: Vec<u8> = (0..240 * 8000_u32)
            .map(|n| (n.wrapping_mul(n) >> 7) as u8 | 1)
            .collect();
        fs::write(dir.join("speech.pcmu"), noise).unwrap();
        let callees = self.sipp("uas", self.to, dir, &["-rtp_echo", "-mp", "7000"]);
        let callees = Running(callees);
        let (rate, calls) = (self.calls_per_s.to_string(), self.calls.to_string());
        let length = self.length.as_millis().to_string();
        let by = self.by.to_string();
        let callers = [
            &by,
            "-key",
            "domain",
            self.domain,
            "-s",
            "callee",
            "-r",
            &rate,
            "-m",
            &calls,
            "-d",
            &length,
            "-mp",
            "30000",
            "-trace_stat",
            "-stf",
            "stat.csv",
            "-timeout",
            "300s",
        ];
        let mut callers = Running(self.sipp("uac", self.from, dir, &callers));
        let status = callers.0.wait().unwrap();
        drop(callees);
        let borne = statistics(&fs::read_to_string(dir.join("stat.csv")).unwrap());
        let log = || fs::read_to_string(dir.join("uac.errors")).unwrap_or_default();
        assert!(
            matches!(status.code(), Some(0 | 1)),
            "sipp: {status}: {borne:?}\n{}",
            log()
        );
        borne
    }

    fn sipp(
        &self,
        scenario: &str,
        (network, ip): (&Namespace, Ipv4Addr),
        dir: &Path,
        more: &[&str],
    ) -> std::process::Child {
        let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/phones/sipp");
        let ip = ip.to_string();
        let mut command = network.command("sipp").unwrap();
        command
            .current_dir(dir)
            .arg("-sf")
            .arg(scenarios.join(format!("{scenario}.xml")))
            .args(["-i", &ip, "-mi", &ip, "-p", "5060", "-nostdin"])
            .args(["-trace_err", "-error_file", &format!("{scenario}.errors")])
            .args(["-trace_msg", "-message_file", &format!("{scenario}.trace")])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().unwrap()
    }
}

/// Reads the last line of sipp's statistics.
fn statistics(csv: &str) -> Borne {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().unwrap_or("").split(';').collect();
    let last: Vec<&str> = lines.next_back().unwrap_or("").split(';').collect();
    let value = |name: &str| {
        let at = names.iter().position(|other| *other == name);
        let value = at.and_then(|at| last.get(at)?.parse().ok());
        value.unwrap_or_else(|| panic!("sipp tells no {name}:\n{csv}"))
    };
    Borne {
        created: value("TotalCallCreated"),
        successful: value("SuccessfulCall(C)"),
        failed: value("FailedCall(C)"),
        retransmissions: value("Retransmissions(C)"),
    }
}

#[test]
fn the_load_itself_is_borne_without_a_gateway() {
    if missing("the_load_itself", &[SIPP]) {
        return;
    }
    let _alone = alone();
    let (networks, [here, there]) = crate::plain::pair();
    let load = Load {
        from: (&networks[0], here),
        by: (there, 5060).into(),
        to: (&networks[1], there),
        domain: "b.example",
        calls_per_s: 50,
        calls: 50,
        length: Duration::from_millis(500),
    };
    let borne = load.run(&kept("plain"));
    assert_eq!((borne.created, borne.successful, borne.failed), (50, 50, 0));
}
