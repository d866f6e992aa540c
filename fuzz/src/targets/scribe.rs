//! Fuzz targets of `scribe`: a node whose neighbours send anything keeps its limits and its order.

use base::{Duration, NodeAddr, Time};
use scribe::{Config, Event, Id, Outlet, Scribe, Settings};
use wire::scribe::{MESSAGE_BYTES_MAX, Message};

use crate::Target;

pub(crate) const TARGETS: &[Target] = &[("scribe_node", node)];

const OWN: NodeAddr = NodeAddr(0x0a07_0001);
/// Most messages of one input.
const MESSAGES_MAX: usize = 64;

#[derive(Default)]
struct Outside {
    sent: usize,
}

impl Outlet for Outside {
    fn send(&mut self, to: NodeAddr, bytes: &[u8]) {
        assert!(to.is_node() && to != OWN && bytes.len() <= MESSAGE_BYTES_MAX);
        Message::parse(bytes).expect("what a node says is understood");
        self.sent += 1;
    }
    fn branches(
        &mut self,
        group: NodeAddr,
        parent: Option<NodeAddr>,
        children: &[NodeAddr],
        _: bool,
    ) {
        let closer = |a: NodeAddr, b: NodeAddr| {
            let key = Id::of_group(group);
            key.closer(Id::of_node(a), Id::of_node(b)).is_lt()
        };
        assert!(parent.is_none_or(|parent| closer(parent, OWN)));
        assert!(children.iter().all(|child| closer(OWN, *child)));
    }
    fn root(&mut self, _: NodeAddr, _: NodeAddr) {}
    fn proximity_us(&self, to: NodeAddr) -> Option<u32> {
        (to.0 & 3 > 0).then_some(to.0 % 1_000)
    }
    fn report(&mut self, _: Event) {}
}

/// The input is a list of: the sender, a further event, a length, and a message.
fn node(data: &[u8]) {
    let settings = Settings {
        groups_max: 20,
        groups_per_child_max: 10,
        children_max: 3,
        ..Settings::default()
    };
    let mut node = Scribe::new(Config {
        own: OWN,
        seed: 1,
        settings,
    });
    let mut out = Outside::default();
    let mut now = Time::ZERO + Duration::from_secs(1);
    let mut rest = data;
    for _ in 0..MESSAGES_MAX {
        let [who, what, len, tail @ ..] = rest else {
            break;
        };
        let from = NodeAddr(0x0a07_0000 + u32::from(*who));
        let group = NodeAddr(0xef00_0000 + u32::from(*what >> 3));
        let (message, tail) = tail.split_at(usize::from(*len).min(tail.len()));
        rest = tail;
        match what & 7 {
            0 => node.enter(now, from, &mut out),
            1 => node.on_peer_gone(now, from, &mut out),
            2 => node.on_peer_seen(now, from, &mut out),
            3 => _ = node.join(now, group, &mut out),
            4 => node.leave(now, group, &mut out),
            5 => _ = node.locate(now, group, &mut out),
            6 => now += Duration::from_millis(700),
            _ => {}
        }
        node.on_message(now, from, message, &mut out);
        for _ in 0..8 {
            match node.next_timeout() {
                Some((at, _)) if at <= now => node.on_timeout(now, &mut out),
                _ => break,
            }
        }
        let due = node.next_timeout();
        assert!(
            due.is_none_or(|(at, _)| at > now),
            "a timeout that comes back"
        );
        assert!(node.group_count() <= 20 && node.leaves().count() <= 16);
        assert!(node.peer_count() <= 2 * 256);
    }
    // There are at most 16 leaves, a page for each neighbour, and the answers to one message each.
    assert!(out.sent <= 64 * 2_000, "{} messages", out.sent);
}
