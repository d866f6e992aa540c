//! What a node needs of this host.

use super::Finding;
use crate::node;
use net::sched::{self, Scheduling};
use net::udp::{LARGER_BUFFERS, Options, SMALL_BUFFER_BYTES, Socket};
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

/// The real-time priority that a node asks for.
const PRIORITY: u8 = 10;
/// This code is younger than any clock that shows less: 2026-01-01.
const NOT_BEFORE_S: u64 = 1_767_225_600;

pub(super) fn look() -> Vec<Finding> {
    vec![
        clock(),
        priority(),
        descriptors(),
        udp("0.0.0.0:0"),
        udp("[::]:0"),
    ]
}

fn clock() -> Finding {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_s = now_s.map_or(0, |since| since.as_secs());
    let seen = format!(
        "{} {} UTC",
        host::date::day(now_s),
        host::date::clock(now_s)
    );
    match now_s < NOT_BEFORE_S {
        false => Finding::good("clock", seen),
        true => Finding::bad(
            "clock",
            seen,
            "set it, by NTP best: certificates do not count yet for a clock that is behind",
        ),
    }
}

fn priority() -> Finding {
    // Of a thread of its own: this command is to stay as it is.
    let taken = std::thread::spawn(|| sched::real_time(PRIORITY)).join();
    match taken {
        Ok(Scheduling::RealTime { priority }) => {
            Finding::good("priority", format!("real time, {priority}"))
        }
        Ok(Scheduling::Normal { why }) => Finding::weak(
            "priority",
            format!("no real time: {why}"),
            "run the node as a service or as root, or give CAP_SYS_NICE: packets wait when the host is busy",
        ),
        Err(_) => Finding::weak("priority", "not known", "run this command again"),
    }
}

fn descriptors() -> Finding {
    match sched::raise_descriptors() {
        Ok(granted) if granted >= node::DESCRIPTORS => {
            Finding::good("descriptors", format!("{granted} permitted"))
        }
        Ok(granted) => Finding::weak(
            "descriptors",
            format!(
                "{granted} permitted, {} are for 4096 clients",
                node::DESCRIPTORS
            ),
            "raise LimitNOFILE of the service, or `ulimit -n`",
        ),
        Err(error) => Finding::weak("descriptors", error.to_string(), "see `ulimit -n`"),
    }
}

fn udp(at: &str) -> Finding {
    let addr: SocketAddr = at.parse().expect("it is an address");
    let what = if addr.is_ipv4() {
        "UDP, IPv4"
    } else {
        "UDP, IPv6"
    };
    let options = Options {
        gro: true,
        gso: true,
        ..Options::default()
    };
    let socket = match Socket::bind(addr, options) {
        Ok(socket) => socket,
        // A host without IPv6 is a good host.
        Err(error) if addr.is_ipv6() => return Finding::good(what, format!("none: {error}")),
        Err(error) => {
            return Finding::bad(
                what,
                error.to_string(),
                "a node cannot run without: see the firewall and limits",
            );
        }
    };
    let (receive, send) = socket.kernel_buffers().unwrap_or((0, 0));
    let offload = match (socket.gso(), socket.gro()) {
        (true, true) => "bursts sent and received whole",
        (true, false) => "bursts sent whole",
        (false, true) => "bursts received whole",
        (false, false) => "no bursts",
    };
    let seen = format!(
        "{offload}; kernel holds {} kB in, {} kB out",
        receive / 1_000,
        send / 1_000
    );
    match receive < SMALL_BUFFER_BYTES {
        false => Finding::good(what, seen),
        true => Finding::weak(
            what,
            seen,
            format!("{LARGER_BUFFERS}: packets are lost while the host is busy"),
        ),
    }
}
