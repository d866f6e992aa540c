//! Checks what a node needs from this host.

use super::Finding;
use crate::node;
use net::sched::{self, Scheduling};
use net::udp::{LARGER_BUFFERS, Options, SMALL_BUFFER_BYTES, Socket};
use std::net::SocketAddr;

/// The real-time priority that a node asks for.
const PRIORITY: u8 = 10;

pub(super) fn look() -> Vec<Finding> {
    vec![priority(), descriptors(), udp("0.0.0.0:0"), udp("[::]:0")]
}

fn priority() -> Finding {
    // The check runs in a thread of its own, so that this command keeps its priority.
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
        // A host without IPv6 is all right.
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
    judge_udp(what, (socket.gso(), socket.gro()), (receive, send))
}

/// Rates what the kernel does for a UDP socket: whether it sends and receives bursts in one call, and how many bytes it
/// buffers.
fn judge_udp(
    what: &'static str,
    (gso, gro): (bool, bool),
    (receive, send): (usize, usize),
) -> Finding {
    let offload = match (gso, gro) {
        (true, true) => "bursts sent and received whole",
        (true, false) => "bursts sent whole (GSO), received packet by packet (no GRO)",
        (false, true) => "bursts received whole (GRO), sent packet by packet (no GSO)",
        (false, false) => "packets sent and received one by one (no GSO, no GRO)",
    };
    let seen = format!(
        "{offload}; kernel holds {} kB in, {} kB out",
        receive / 1_000,
        send / 1_000
    );
    let mut next = Vec::new();
    if receive < SMALL_BUFFER_BYTES {
        next.push(format!(
            "{LARGER_BUFFERS}: packets are lost while the host is busy"
        ));
    }
    if !(gso && gro) {
        next.push(
            "run Linux 5.0 or newer, without a sandbox that has its own network: a node then needs a fraction of the \
             processor time for streams and copies; calls do not need it"
                .to_owned(),
        );
    }
    match next.is_empty() {
        true => Finding::good(what, seen),
        false => Finding::weak(what, seen, next.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn what_the_kernel_lacks_for_bursts_has_a_next_step() {
        let room = (SMALL_BUFFER_BYTES, SMALL_BUFFER_BYTES);
        assert_eq!(judge_udp("UDP", (true, true), room).state, State::Good);
        for offload in [(false, true), (true, false), (false, false)] {
            let found = judge_udp("UDP", offload, room);
            assert_eq!(found.state, State::Weak, "{found:?}");
            assert!(found.next.starts_with("run Linux 5.0"), "{found:?}");
        }
        let both = judge_udp("UDP", (false, false), (1_000, 1_000)).next;
        assert!(both.contains(LARGER_BUFFERS) && both.contains("Linux 5.0"));
    }
}
