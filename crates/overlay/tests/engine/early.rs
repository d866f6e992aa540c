//! Bytes sent with the opening of a stream, between nodes that have met before.
#![allow(clippy::unwrap_used)]

use crate::world::script::{Script, WEST, header};
use crate::world::sessions::{STREAM_PORT, Sessions};
use crate::world::{Nodes, addr, chain};
use base::{ClientId, Duration, Rng, Time};
use overlay::request::Options;
use overlay::stream::{DEFAULT_CLASS, Framing, ResetReason, StreamRequest};
use overlay::{Reply, Request};
use std::collections::BTreeMap;
use wire::data::{Class, LinkProtocol, Repr};
use wire::transport::{Flags, Segment, Ticket};

fn early(link: LinkProtocol) -> Option<Options> {
    let class = Class {
        link,
        ..DEFAULT_CLASS
    };
    Some(Options {
        class,
        early: true,
        ..Options::default()
    })
}

/// Returns how long a request of this length takes until all of it has been read, and how long until its answer.
fn ask(nodes: &mut Nodes, sessions: &mut Sessions, link: LinkProtocol, bytes: u64) -> [f64; 2] {
    let began = nodes.world.now();
    let before = sessions.accepted.len();
    let caller = sessions.connect(nodes, (0, 1), Framing::Bytes, early(link));
    let end = sessions.end(caller);
    (end.to_write, end.finishes) = (bytes, true);
    let done = sessions.run_until(nodes, 5_000, |s| {
        let ends: Vec<_> = s.ends.values().collect();
        s.accepted.len() > before && ends.iter().all(|end| end.finished.is_some())
    });
    assert!(done, "{:?}", sessions.ends);
    let ms = |at: Option<Time>| at.unwrap().since(began).as_secs_f64() * 1e3;
    assert_eq!(sessions.called(before).read, bytes);
    let read = ms(sessions.called(before).finished);
    [read, ms(sessions.end(caller).finished)]
}

#[test]
fn who_has_met_before_is_read_after_half_a_round_trip() {
    for (seed, link) in (1..).zip(LinkProtocol::ALL) {
        let mut nodes = Nodes::new(seed, 2, &chain(2), "delay=50ms rate=20mbit");
        nodes.run_ms(2_000);
        let mut sessions = Sessions {
            answer_bytes: 500,
            ..Sessions::default()
        };
        sessions.listen(&mut nodes, 1, early(link));
        sessions.run_ms(&mut nodes, 5);
        let [read, _] = ask(&mut nodes, &mut sessions, link, 1_000);
        assert!((150.0..162.0).contains(&read), "{link:?}: {read}");
        for bytes in [1, 1_000, 10_000] {
            let [read, answered] = ask(&mut nodes, &mut sessions, link, bytes);
            assert!((50.0..65.0).contains(&read), "{link:?}, {bytes}: {read}");
            assert!(
                (100.0..120.0).contains(&answered),
                "{link:?}, {bytes}: {answered}"
            );
        }
        // The part that is longer than may be sent at once follows when the answer has arrived.
        let [read, _] = ask(&mut nodes, &mut sessions, link, 20_000);
        assert!((145.0..200.0).contains(&read), "{link:?}: {read}");
        // No socket listens: this is reported later.
        let caller = sessions.connect(&mut nodes, (1, 0), Framing::Bytes, early(link));
        sessions.run_ms(&mut nodes, 400);
        assert_eq!(sessions.end(caller).reset, Some(ResetReason::Refused));
    }
}

#[test]
fn a_peer_that_has_restarted_opens_in_the_ordinary_way_and_gives_a_new_ticket() {
    for (seed, link) in (11..).zip(LinkProtocol::ALL) {
        let mut nodes = Nodes::new(seed, 2, &chain(2), "delay=50ms rate=20mbit");
        nodes.run_ms(2_000);
        let mut sessions = Sessions::default();
        sessions.listen(&mut nodes, 1, early(link));
        sessions.run_ms(&mut nodes, 5);
        ask(&mut nodes, &mut sessions, link, 1_000);
        for node in [1, 0] {
            nodes.crash(node);
            sessions.run_ms(&mut nodes, 300);
            nodes.restart(node);
            sessions.run_ms(&mut nodes, 3_000);
            if node == 1 {
                sessions.listen(&mut nodes, 1, early(link));
                sessions.run_ms(&mut nodes, 5);
            }
            sessions.ends.clear();
            let [read, _] = ask(&mut nodes, &mut sessions, link, 1_000);
            assert!(read > 145.0, "{link:?}: {read}");
            let [read, _] = ask(&mut nodes, &mut sessions, link, 1_000);
            assert!(read < 65.0, "{link:?}: {read}");
        }
    }
}

/// Messages, each on a stream of its own that is opened with it, over a bad path, while the listener's node restarts
/// from time to time. Returns how often each message was delivered in all lives of the listener, and the fate of its
/// stream.
fn storm(seed: u64, lives: u64) -> (BTreeMap<u64, u64>, BTreeMap<u64, bool>) {
    let mut rng = Rng::new(seed);
    let link = LinkProtocol::ALL[rng.below(3) as usize];
    let path = format!(
        "delay={}ms jitter=20ms rate=20mbit loss={}% duplicate={}%",
        5 + rng.below(60),
        rng.below(25),
        rng.below(20)
    );
    let mut nodes = Nodes::new(seed, 2, &chain(2), &path);
    nodes.run_ms(2_000);
    let mut sessions = Sessions::default();
    let (mut delivered, mut whole) = (BTreeMap::new(), BTreeMap::new());
    let mut callers: Vec<(u64, (usize, ClientId))> = Vec::new();
    let mut number = 0u64;
    for life in 0..lives {
        if life > 0 {
            nodes.crash(1);
            sessions.run_ms(&mut nodes, rng.below(400));
            nodes.restart(1);
            // Deliveries in the former life count, and its clients have gone.
            for (node, client, ..) in core::mem::take(&mut sessions.accepted) {
                let end = sessions.ends.remove(&(node, client)).unwrap();
                count(&mut delivered, &end.received);
            }
        }
        sessions.listen(&mut nodes, 1, early(link));
        for _ in 0..20 {
            number += 1;
            let key = sessions.connect(&mut nodes, (0, 1), Framing::Messages, early(link));
            let end = sessions.end(key);
            end.messages.push_back(number.to_be_bytes().to_vec());
            end.finishes = true;
            callers.push((number, key));
            sessions.run_ms(&mut nodes, rng.below(60));
        }
    }
    // Keep-alives find a peer that has restarted, and may be lost.
    sessions.run_until(&mut nodes, 200_000, |s| {
        let is_over = |key| {
            let end = &s.ends[key];
            end.finished.is_some() || end.reset.is_some()
        };
        callers.iter().all(|(_, key)| is_over(key))
    });
    sessions.run_ms(&mut nodes, 20_000);
    for (node, client, ..) in core::mem::take(&mut sessions.accepted) {
        count(&mut delivered, &sessions.ends[&(node, client)].received);
    }
    for (number, key) in callers {
        let end = sessions.end(key);
        assert!(end.finished.is_some() || end.reset.is_some(), "{end:?}");
        whole.insert(number, end.finished.is_some());
    }
    (delivered, whole)
}

fn count(delivered: &mut BTreeMap<u64, u64>, received: &[(Time, Vec<u8>)]) {
    for (_, message) in received {
        let number = u64::from_be_bytes(message[..].try_into().unwrap());
        *delivered.entry(number).or_default() += 1;
    }
}

fn nothing_comes_twice(seed: u64) {
    let lives = 1 + seed % 4;
    let (delivered, whole) = storm(seed, lives);
    for (number, is_whole) in &whole {
        let times = delivered.get(number).copied().unwrap_or(0);
        assert!(times <= 1, "seed {seed}: {number} came {times} times");
        // Without a restart nothing is lost, and no stream ends before its time.
        let is_right = *is_whole && times == 1;
        assert!(lives > 1 || is_right, "seed {seed}: {number} is lost");
    }
}

#[test]
fn what_goes_with_an_opening_comes_once_over_bad_paths_and_restarts() {
    (0..24).for_each(nothing_comes_twice);
}

#[test]
#[ignore = "takes minutes"]
fn what_goes_with_an_opening_comes_once_over_bad_paths_and_restarts_full() {
    (1_000..1_400).for_each(nothing_comes_twice);
}

#[test]
fn an_opening_that_is_said_again_is_not_read_again() {
    let mut script = Script::new();
    let mut sessions = Sessions::default();
    sessions.listen(&mut script.nodes, 0, early(LinkProtocol::BestEffort));
    sessions.run_ms(&mut script.nodes, 5);
    let say = |script: &mut Script, seq, segment: Segment, bytes: &[u8]| {
        let header = Repr {
            has_transport: true,
            destination_port: STREAM_PORT,
            ..header(addr(WEST), addr(0), seq)
        };
        let mut payload = vec![0; 200];
        let segment = Segment {
            window: 100_000,
            ..segment
        };
        let len = segment.emit(&[], &mut payload).unwrap();
        payload.truncate(len);
        payload.extend_from_slice(bytes);
        script.say(WEST, &header, &payload);
    };
    let opening = |connection, ticket| Segment {
        flags: Flags::SYN,
        connection,
        ticket,
        ..Segment::default()
    };
    let answer = |script: &Script, connection| {
        let packets = script.packets(WEST);
        let mut segments = packets.iter().filter_map(|(_, payload)| {
            let segment = Segment::parse(payload).ok()?.segment;
            (segment.connection == connection).then_some(segment)
        });
        segments.next()
    };
    // Without a valid ticket, nothing is read before the stream is open.
    let wrong = Ticket {
        secret: 5,
        number: 1,
    };
    say(&mut script, 1, opening(1, Some(wrong)).asking(), b"hello");
    sessions.run_ms(&mut script.nodes, 30);
    let first = answer(&script, 1).unwrap();
    assert!(first.ticket.is_some());
    assert!(!first.takes_early && first.acknowledged == 0);
    assert_eq!((sessions.accepted.len(), sessions.called(0).read), (1, 0));
    let given = first.ticket.unwrap();
    assert_eq!(given.number, 0);
    let ticket = Some(Ticket { number: 1, ..given });
    say(
        &mut script,
        2,
        opening(2, ticket),
        &[crate::world::sessions::byte(0, 1)],
    );
    sessions.run_ms(&mut script.nodes, 30);
    let second = answer(&script, 2).unwrap();
    assert!(second.takes_early && second.acknowledged == 1 && second.ticket.is_none());
    assert_eq!((sessions.accepted.len(), sessions.called(1).read), (2, 1));
    // The peer gives the stream up, and a delayed opening arrives: it is not read again.
    let reset = Segment {
        reason: Some(ResetReason::Peer),
        ..Segment {
            flags: Flags::RST,
            ..opening(2, None)
        }
    };
    say(&mut script, 3, reset, b"");
    say(
        &mut script,
        4,
        opening(2, ticket),
        &[crate::world::sessions::byte(0, 1)],
    );
    sessions.run_ms(&mut script.nodes, 30);
    assert_eq!(sessions.accepted.len(), 2);
    let is_refused = |(_, payload): &(Repr, Vec<u8>)| {
        let segment = Segment::parse(payload).unwrap().segment;
        (segment.connection, segment.reason) == (2, Some(ResetReason::Unknown))
    };
    assert!(script.packets(WEST).iter().any(is_refused));
}

#[test]
fn a_client_that_writes_before_the_answer_may_end_before_it() {
    let mut nodes = Nodes::new(31, 2, &chain(2), "delay=50ms rate=20mbit");
    nodes.run_ms(2_000);
    let mut sessions = Sessions::default();
    let link = LinkProtocol::Reliable;
    sessions.listen(&mut nodes, 1, early(link));
    sessions.run_ms(&mut nodes, 5);
    ask(&mut nodes, &mut sessions, link, 1_000);
    let caller = sessions.connect(&mut nodes, (0, 1), Framing::Bytes, early(link));
    (sessions.end(caller).to_write, sessions.end(caller).finishes) = (30_000, true);
    sessions.run_ms(&mut nodes, 3);
    let (node, client) = caller;
    nodes.request(node, client, Request::Stream(StreamRequest::Finish));
    sessions.close(&mut nodes, caller);
    sessions.run_ms(&mut nodes, 500);
    assert_eq!(sessions.called(1).read, 30_000);
    assert!(sessions.called(1).finished.is_some());
    sessions.run_ms(&mut nodes, 1_000);
    assert!((0..2).all(|i| nodes.snapshot(i).streams.is_empty()));
    let late = nodes.world.take_replies();
    assert!(
        !late
            .iter()
            .any(|late| matches!(late.reply, Reply::Refused(_)))
    );
    assert!(nodes.world.now() > Time::ZERO + Duration::from_secs(3));
}
