//! A member that announces somebody else's address as its own. The tests count what the nodes that believe it send to
//! that address.
//!
//! ```text
//!   1 (the liar) ── 0 ── 2, 3, 4      they have traffic for 1, and dial where it says that it is
//!                        └──▶ the victim, who is no node and has proved nothing
//! ```
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::world::party::{Party, Traffic};
use crate::world::streams::{Stream, Streams};
use crate::world::{Nodes, addr, voice};
use base::Duration;
use overlay::Settings;
use overlay::request::Operation;
use wire::Endpoint;

const LIAR: usize = 1;
const DIALLERS: [usize; 3] = [2, 3, 4];
/// The address of the victim, from the range for documentation.
const VICTIM: [u8; 4] = [203, 0, 113, 5];

fn victim(port: u16) -> Endpoint {
    let mut ip = [0; 16];
    ip[10..12].fill(0xff);
    ip[12..].copy_from_slice(&VICTIM);
    Endpoint { ip, port }
}

/// Returns all that a node has sent to the victim.
fn sent(nodes: &Nodes, i: usize) -> Traffic {
    let party: &Party = nodes.world.engine(nodes.hosts[i]).unwrap();
    let mut all = Traffic::default();
    for (_, traffic) in party
        .sent
        .iter()
        .filter(|((to, _), _)| to.ip == victim(0).ip)
    {
        all.datagrams += traffic.datagrams;
        all.bytes += traffic.bytes;
    }
    all
}

/// Runs an hour of traffic for the liar. Every `every`, the liar announces another port of the victim, or as many ports
/// as a record holds.
fn an_hour(ports: u16, every: Duration, is_many: bool) -> Vec<Traffic> {
    let settings = Settings {
        direct_links: true,
        ..Settings::modern()
    };
    let edges = [(1, 0), (2, 0), (3, 0), (4, 0)];
    let mut nodes = Nodes::with(7, 5, &edges, "delay=30ms", settings);
    nodes.run_ms(5_000);
    // This traffic is enough for all nodes to want a direct link the whole time.
    let stream = |from| Stream {
        from,
        to: LIAR,
        interval: Duration::from_secs(4),
        phase: Duration::ZERO,
        options: voice(),
    };
    let mut traffic = Streams::begin(&mut nodes, DIALLERS.map(stream).to_vec());
    let end = nodes.world.now() + Duration::from_secs(3_600);
    let mut port = 0;
    while nodes.world.now() < end {
        let at = victim(40_000 + port % ports);
        nodes.operate(LIAR, Operation::Mapped(Some(at)));
        if is_many {
            let more = [10_000, 20_000, 30_000].map(|from| victim(from + port % ports));
            nodes.operate(LIAR, Operation::Hosts(more.to_vec()));
        }
        traffic.run(&mut nodes, every);
        port += 1;
    }
    let known = nodes.running(2).unwrap().database();
    let known = known.endpoints_of(addr(LIAR));
    assert!(
        known.iter().any(|it| it.ip == victim(0).ip),
        "nobody heard the lie"
    );
    DIALLERS.map(|i| sent(&nodes, i)).to_vec()
}

/// Maximum number of Inits that one node sends for one lie. A node makes two dials of six Inits each in the 5 s for
/// which it dials an endpoint. There are six such turns in the first hour, because the rest between them is 60 s at
/// first and twice as long each time.
const INITS_MAX: u64 = 2 * 6 * 6;
/// The same maximum for several lies: a dial every 250 ms in these 5 s.
const INITS_OF_MANY_MAX: u64 = 20 * 6 * 6;

#[test]
fn a_victim_gets_few_handshakes_however_often_a_member_lies_about_its_address() {
    // The liar announces one address for the whole hour, or another port every 3 s, so that no two dials go to the same
    // port.
    for (ports, every, is_many, most) in [
        (1, 600, false, INITS_MAX),
        (3_000, 3, false, INITS_MAX),
        (3_000, 3, true, INITS_OF_MANY_MAX),
    ] {
        let all = an_hour(ports, Duration::from_secs(every), is_many);
        for sent in &all {
            assert!(sent.datagrams > 0, "nobody has believed the lie: {sent:?}");
            assert!(sent.datagrams <= most, "{ports} ports: {sent:?}");
            assert!(
                sent.bytes <= most * overlay::mtu::DEFAULT as u64,
                "{sent:?}"
            );
        }
    }
}
