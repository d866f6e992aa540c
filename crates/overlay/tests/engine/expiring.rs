//! Messages that expire, sent between nodes. Over every service class, with losses, queues and outages, the messages
//! that arrive are in order, complete and delivered once. Both ends know how many messages are missing, and no end
//! waits for them.
#![allow(clippy::unwrap_used)]

use crate::world::sessions::Sessions;
use crate::world::{Nodes, chain};
use base::{Duration, Time};
use overlay::request::Options;
use overlay::stream::{DEFAULT_CLASS, Framing};
use wire::data::{Class, LinkProtocol};

const LIFETIME: Duration = Duration::from_millis(150);

/// The result of a stream of messages, one message every 20 ms.
struct Fate {
    written: u64,
    came: u64,
    given_up: u64,
    longest: Duration,
}

fn options(link: LinkProtocol) -> Option<Options> {
    let class = Class {
        link,
        ..DEFAULT_CLASS
    };
    Some(Options {
        class,
        deadline: Some(LIFETIME),
        ..Options::default()
    })
}

fn message(number: u64, at: Time, bytes: usize) -> Vec<u8> {
    let mut message = vec![number as u8; bytes];
    message[..8].copy_from_slice(&number.to_be_bytes());
    message[8..16].copy_from_slice(&at.as_nanos().to_be_bytes());
    message
}

/// Sends messages for `seconds` from the first node of a chain of three to the last one. Calls `trouble` every 20 ms.
fn run(
    seed: u64,
    path: &str,
    link: LinkProtocol,
    (seconds, bytes): (u64, usize),
    mut trouble: impl FnMut(&mut Nodes, u64),
) -> Fate {
    let mut nodes = Nodes::new(seed, 3, &chain(3), path);
    nodes.run_ms(3_000);
    let mut sessions = Sessions::default();
    sessions.listen(&mut nodes, 2, options(link));
    sessions.run_ms(&mut nodes, 5);
    let caller = sessions.connect(&mut nodes, (0, 2), Framing::Messages, options(link));
    assert!(sessions.run_until(&mut nodes, 10_000, |s| s.called > 0));
    // The called end stays open: the caller reports the messages that it has given up when the other direction ends.
    sessions.called(0).finishes = false;
    sessions.run_ms(&mut nodes, 300);
    let written = seconds * 50;
    for number in 0..written {
        trouble(&mut nodes, number * 20);
        let now = nodes.world.now();
        let message = message(number, now, bytes);
        sessions.end(caller).messages.push_back(message);
        sessions.run_ms(&mut nodes, 20);
    }
    sessions.end(caller).finishes = true;
    let key = (sessions.accepted[0].0, sessions.accepted[0].1);
    let come = |s: &Sessions| s.ends[&key].finished.is_some();
    assert!(
        sessions.run_until(&mut nodes, 60_000, come),
        "{:#?}",
        sessions.ends
    );
    sessions.called(0).finishes = true;
    let over = |s: &Sessions| s.ends.values().all(|end| end.finished.is_some());
    assert!(
        sessions.run_until(&mut nodes, 60_000, over),
        "{:#?}",
        sessions.ends
    );
    let (mut last, mut longest) = (None, Duration::ZERO);
    let received = core::mem::take(&mut sessions.called(0).received);
    for (at, bytes) in &received {
        let word = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
        let (number, sent) = (word(0), Time::from_nanos(word(8)));
        assert!(
            last.is_none_or(|last| last < number),
            "{number} after {last:?}"
        );
        assert_eq!(*bytes, message(number, sent, bytes.len()));
        last = Some(number);
        longest = longest.max(at.since(sent));
    }
    let came = received.len() as u64;
    assert_eq!(sessions.called(0).expired, (0, written - came));
    let given_up = sessions.end(caller).expired.0;
    let possible = written - came..=written;
    assert!(possible.contains(&given_up), "{given_up} of {possible:?}");
    Fate {
        written,
        came,
        given_up,
        longest,
    }
}

#[test]
fn without_trouble_all_come_and_none_is_given_up() {
    for link in LinkProtocol::ALL {
        let fate = run(1, "delay=10ms", link, (10, 160), |_, _| {});
        assert_eq!((fate.came, fate.given_up), (fate.written, 0), "{link:?}");
        assert!(fate.longest < Duration::from_millis(30));
    }
}

#[test]
fn losses_cost_few_and_delay_none_for_long() {
    for link in LinkProtocol::ALL {
        // Without retransmissions, 94.1 and 90.3 % of the messages would arrive over two hops.
        for (path, least) in [
            ("delay=10ms loss=3%", 0.98),
            ("delay=15ms jitter=5ms reorder loss=5% burst=30%", 0.92),
        ] {
            let fates = (0..10).map(|seed| run(seed, path, link, (20, 300), |_, _| {}));
            let fates: Vec<Fate> = fates.collect();
            let written: u64 = fates.iter().map(|fate| fate.written).sum();
            let came: u64 = fates.iter().map(|fate| fate.came).sum();
            let share = came as f64 / written as f64;
            assert!(share > least, "{share} {link:?} {path}");
            let longest = fates.iter().map(|fate| fate.longest).max().unwrap();
            let most = Duration::from_millis(600);
            assert!(longest < most, "{longest} {link:?} {path}");
        }
    }
}

#[test]
fn an_outage_is_passed_over_and_not_caught_up_with() {
    for seed in 0..5 {
        for link in LinkProtocol::ALL {
            let path = "delay=10ms";
            let fate = run(seed, path, link, (20, 160), |nodes, ms| match ms {
                5_000 => nodes.set_outage(1, 2, true),
                10_000 => nodes.set_outage(1, 2, false),
                _ => {}
            });
            // Five seconds are 250 messages. The node needs a while to get back into the network.
            let missed = fate.written - fate.came;
            assert!((200..=400).contains(&missed), "{missed} {link:?} {seed}");
        }
    }
}
