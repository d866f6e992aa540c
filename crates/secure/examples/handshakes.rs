//! Handshakes per second of one core, both sides, classic and hybrid in turn: `cargo run --release -p secure --example
//! handshakes`.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a program that measures"
)]

use base::{NodeAddr, Time, UnderlayAddr};
use secure::{Authority, Handshakes, Identity, Keys, Outcome, PostQuantum, Validity};
use std::time::Instant;

const ROUNDS: u32 = 10;
const PER_ROUND: u32 = 300;

fn main() {
    let mut authority = Authority::generate(&[1; 32]);
    let identities = [1, 2].map(|n| {
        let keys = Keys::generate(&[n; 64]);
        let id = authority.network().id();
        let request = keys.request(id, NodeAddr(n.into()), &format!("node-{n}"), &[]);
        let forever = Validity {
            not_before_s: 0,
            not_after_s: u64::MAX,
        };
        let certificate = authority.issue(&request.expect("a good name"), forever);
        Identity::new(keys, certificate.expect("a free address")).expect("they fit")
    });
    let mut spent_us = [0.0; 2];
    let mut bytes = [0; 2];
    for round in 0..ROUNDS {
        for (kind, wish) in [PostQuantum::Off, PostQuantum::Prefer]
            .into_iter()
            .enumerate()
        {
            let begin = Instant::now();
            for number in 0..PER_ROUND {
                // New nodes each time: limits are for those who come again.
                let seed = [(round * PER_ROUND + number) as u8; 32];
                let mut nodes = identities.clone().map(|identity| {
                    let network = authority.network();
                    let mut node = Handshakes::new(identity, network, seed, Time::ZERO);
                    node.set_post_quantum(wish);
                    node
                });
                bytes[kind] = shake(&mut nodes);
            }
            spent_us[kind] += begin.elapsed().as_secs_f64() * 1e6;
        }
    }
    let count = f64::from(ROUNDS * PER_ROUND);
    let [classic, hybrid] = spent_us.map(|us| us / count);
    println!(
        "classic: {classic:.0} us, {:.0} per second, {} bytes",
        1e6 / classic,
        bytes[0]
    );
    println!(
        "hybrid:  {hybrid:.0} us, {:.0} per second, {} bytes",
        1e6 / hybrid,
        bytes[1]
    );
    println!("hybrid costs {:.2} times as much", hybrid / classic);
}

/// Two nodes make a session; how many bytes they have said.
fn shake([a, b]: &mut [Handshakes; 2]) -> usize {
    let now = Time::ZERO;
    let at = UnderlayAddr {
        ip: [0; 16],
        port: 1,
        socket: 0,
        local: 0,
    };
    let mut said = vec![a.dial(now, at, None).expect("the first dial")];
    let (mut bytes, mut sessions, mut is_from_a) = (0, 0, true);
    while !said.is_empty() {
        let mut answers = Vec::new();
        for datagram in said {
            bytes += datagram.len();
            let hears = if is_from_a { &mut *b } else { &mut *a };
            match hears.on_datagram(now, 0, at, &datagram) {
                Outcome::Reply(datagrams) => answers.extend(datagrams),
                Outcome::Established(made) => {
                    sessions += 1;
                    answers.extend(made.reply);
                }
                other => panic!("{other:?}"),
            }
        }
        said = answers;
        is_from_a = !is_from_a;
    }
    assert_eq!(sessions, 2);
    bytes
}
