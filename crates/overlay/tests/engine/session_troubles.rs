//! Streams when things go wrong: relays that die, peers that restart, stop reading, or go away.
#![allow(clippy::unwrap_used)]

use crate::world::script::{Script, WEST, header};
use crate::world::sessions::{STREAM_PORT, Sessions};
use crate::world::{Nodes, addr, chain};
use base::{ClientId, Duration};
use overlay::request::Options;
use overlay::stream::{DEFAULT_CLASS, Framing, ResetReason, StreamRequest};
use overlay::{Reply, Request};
use wire::data::{Class, LinkProtocol, Repr};
use wire::transport::{Flags, SEGMENT_BYTES, Segment};

fn class(link: LinkProtocol) -> Option<Options> {
    let class = Class {
        link,
        ..DEFAULT_CLASS
    };
    Some(Options {
        class,
        ..Options::default()
    })
}

/// Opens a stream from the first node to `to` that always has data to send.
fn busy(nodes: &mut Nodes, to: usize, link: LinkProtocol) -> (Sessions, (usize, ClientId)) {
    busy_with(nodes, to, class(link))
}

fn busy_with(
    nodes: &mut Nodes,
    to: usize,
    options: Option<Options>,
) -> (Sessions, (usize, ClientId)) {
    let mut sessions = Sessions::default();
    sessions.listen(nodes, to, options);
    sessions.run_ms(nodes, 5);
    let caller = sessions.connect(nodes, (0, to), Framing::Bytes, options);
    sessions.end(caller).to_write = u64::MAX >> 1;
    sessions.run_ms(nodes, 500);
    assert!(sessions.called(0).read > 0);
    (sessions, caller)
}

#[test]
fn a_stream_goes_on_over_another_relay_within_a_second() {
    for (seed, link) in [
        (1, LinkProtocol::BestEffort),
        (2, LinkProtocol::RealTime),
        (3, LinkProtocol::Reliable),
    ] {
        if link == LinkProtocol::Reliable && !crate::world::sessions::RELIABLE_LANES {
            continue;
        }
        let edges = [(0, 1), (1, 3), (0, 2), (2, 3)];
        let mut nodes = Nodes::new(seed, 4, &edges, "delay=10ms rate=20mbit");
        nodes.run_ms(3_000);
        let (mut sessions, caller) = busy(&mut nodes, 3, link);
        sessions.run_ms(&mut nodes, 2_000);
        let way = nodes.running(0).unwrap();
        let relay = way.next_hop(graph::metric::Metric::ExpectedLatency, addr(3));
        let relay = [1, 2]
            .into_iter()
            .find(|i| Some(addr(*i)) == relay)
            .unwrap();
        sessions.called(0).longest_pause = Duration::ZERO;
        nodes.crash(relay);
        sessions.run_ms(&mut nodes, 4_000);
        let called = sessions.called(0);
        let pause = called.longest_pause;
        assert!(pause < Duration::from_secs(1), "{link:?}: {pause}");
        assert!(
            pause > Duration::from_millis(100),
            "the relay was on the way"
        );
        let before = called.read;
        sessions.run_ms(&mut nodes, 2_000);
        let mbit = (sessions.called(0).read - before) as f64 * 8.0 / 2e6;
        assert!(mbit > 8.0, "{link:?}: {mbit}");
        assert_eq!(sessions.end(caller).reset, None);
    }
}

#[test]
fn a_peer_that_restarts_is_an_error_and_not_silence() {
    for idle in [false, true] {
        let mut nodes = Nodes::new(4, 3, &chain(3), "delay=5ms rate=20mbit");
        nodes.run_ms(2_000);
        let (mut sessions, caller) = busy(&mut nodes, 2, LinkProtocol::BestEffort);
        if idle {
            sessions.end(caller).to_write = 0;
            sessions.run_ms(&mut nodes, 2_000);
        }
        nodes.crash(2);
        sessions.run_ms(&mut nodes, 300);
        nodes.restart(2);
        let within = if idle { 17_000 } else { 6_000 };
        let told = sessions.run_until(&mut nodes, within, |s| s.ends[&caller].reset.is_some());
        assert!(told, "idle: {idle}");
        assert_eq!(sessions.end(caller).reset, Some(ResetReason::Unknown));
        assert_eq!(nodes.snapshot(0).streams.len(), 0);
    }
}

#[test]
fn a_peer_that_is_gone_is_noticed_and_so_is_a_missing_route() {
    for (cut, why) in [(2, ResetReason::NoRoute), (1, ResetReason::NoRoute)] {
        let mut nodes = Nodes::new(5, 3, &chain(3), "delay=5ms rate=20mbit");
        nodes.run_ms(2_000);
        let options = class(LinkProtocol::BestEffort).map(|options| Options {
            give_up: Some(Duration::from_secs(60)),
            ..options
        });
        let (mut sessions, caller) = busy_with(&mut nodes, 2, options);
        nodes.crash(cut);
        sessions.run_ms(&mut nodes, 55_000);
        assert_eq!(sessions.end(caller).reset, None);
        sessions.run_ms(&mut nodes, 7_000);
        assert_eq!(sessions.end(caller).reset, Some(why));
        assert_eq!(nodes.snapshot(0).streams.len(), 0);
    }
}

/// Lets bytes flow in both directions, and then interrupts the middle for `gone_ms`. All bytes arrive, once.
fn interrupted(seed: u64, link: LinkProtocol, gone_ms: u64, mut cut: impl FnMut(&mut Nodes, bool)) {
    let mut nodes = Nodes::new(seed, 3, &chain(3), "delay=5ms rate=20mbit");
    nodes.run_ms(2_000);
    let mut sessions = Sessions {
        answer_bytes: 6_000_000,
        ..Sessions::default()
    };
    sessions.listen(&mut nodes, 2, class(link));
    sessions.run_ms(&mut nodes, 5);
    let busy = sessions.connect(&mut nodes, (0, 2), Framing::Bytes, class(link));
    // The second stream has nothing to send when the interruption begins.
    let idle = sessions.connect(&mut nodes, (0, 2), Framing::Bytes, class(link));
    for caller in [busy, idle] {
        sessions.end(caller).to_write = 5_000_000;
    }
    sessions.end(busy).finishes = true;
    sessions.end(idle).to_write = 1_000;
    sessions.run_ms(&mut nodes, 1_000);
    cut(&mut nodes, true);
    sessions.run_ms(&mut nodes, gone_ms);
    cut(&mut nodes, false);
    assert!(
        sessions.end(busy).finished.is_none(),
        "it was cut in the midst, seed {seed}"
    );
    let end = sessions.end(idle);
    (end.to_write, end.finishes) = (1_000_000, true);
    let done = sessions.run_until(&mut nodes, 30_000, |s| {
        s.ends.len() == 4 && s.ends.values().all(|end| end.finished.is_some())
    });
    let resets: Vec<_> = sessions.ends.values().map(|end| end.reset).collect();
    assert!(done, "seed {seed}, {link:?}, {gone_ms} ms: {resets:?}");
    let mut came: Vec<u64> = (0..2).map(|i| sessions.called(i).read).collect();
    came.sort_unstable();
    assert_eq!(came, [1_001_000, 5_000_000]);
    for caller in [busy, idle] {
        assert_eq!(sessions.end(caller).read, 6_000_000);
    }
    // The last acknowledgements are still on their way.
    sessions.run_ms(&mut nodes, 1_000);
    assert!((0..3).all(|i| nodes.snapshot(i).streams.is_empty()));
}

#[test]
fn a_partition_of_five_minutes_loses_no_stream_and_no_byte() {
    for (seed, link) in (11..).zip(LinkProtocol::ALL) {
        interrupted(seed, link, 300_000, |nodes, gone| {
            nodes.set_outage(1, 2, gone);
        });
    }
}

#[test]
fn a_relay_that_restarts_resets_no_stream_whose_ends_live() {
    for (seed, link) in (21..).zip(LinkProtocol::ALL) {
        for gone_ms in [100, 2_000, 90_000] {
            interrupted(seed, link, gone_ms, |nodes, gone| match gone {
                true => nodes.crash(1),
                false => nodes.restart(1),
            });
        }
    }
}

/// Interrupts a random part of the path for a random time.
fn survived(seed: u64) {
    let mut rng = base::Rng::new(seed);
    let link = LinkProtocol::ALL[rng.below(3) as usize];
    let gone_ms = match rng.below(3) {
        0 => 100 + rng.below(3_000),
        1 => 3_000 + rng.below(60_000),
        _ => 60_000 + rng.below(240_000),
    };
    let kind = rng.below(4);
    interrupted(seed, link, gone_ms, |nodes, gone| match (kind, gone) {
        (0, _) => nodes.set_outage(0, 1, gone),
        (1, _) => nodes.set_outage(1, 2, gone),
        (2, true) => nodes.crash(1),
        (2, false) => nodes.restart(1),
        // A node behind NAT, or with another uplink: its packets come from another address.
        (_, true) => nodes.move_to_another_address(0, &[(1, "delay=5ms rate=20mbit outage")]),
        (_, false) => nodes.set_outage(0, 1, false),
    });
}

#[test]
fn partitions_restarts_and_moves_lose_no_stream_and_no_byte() {
    (100..112).for_each(survived);
}

#[test]
#[ignore = "takes minutes"]
fn partitions_restarts_and_moves_lose_no_stream_and_no_byte_full() {
    (1_000..1_200).for_each(survived);
}

#[test]
fn a_node_that_says_farewell_ends_its_streams_at_once() {
    let mut nodes = Nodes::new(31, 3, &chain(3), "delay=5ms rate=20mbit");
    nodes.run_ms(2_000);
    let (mut sessions, caller) = busy(&mut nodes, 2, LinkProtocol::BestEffort);
    nodes.operate(2, overlay::request::Operation::Farewell);
    sessions.run_ms(&mut nodes, 100);
    assert_eq!(sessions.end(caller).reset, Some(ResetReason::Peer));
    assert!(nodes.snapshot(0).streams.is_empty());
}

#[test]
fn who_has_ended_in_peace_answers_after_five_minutes_too() {
    let mut nodes = Nodes::new(32, 3, &chain(3), "delay=5ms rate=20mbit");
    nodes.run_ms(2_000);
    let mut sessions = Sessions::default();
    sessions.listen(&mut nodes, 2, None);
    sessions.run_ms(&mut nodes, 5);
    let caller = sessions.connect(&mut nodes, (0, 2), Framing::Bytes, None);
    sessions.end(caller).to_write = 1_000;
    sessions.run_ms(&mut nodes, 100);
    // The last acknowledgement of the stream is lost with the path.
    sessions.end(caller).finishes = true;
    sessions.run_ms(&mut nodes, 12);
    nodes.set_outage(0, 1, true);
    sessions.run_ms(&mut nodes, 300_000);
    nodes.set_outage(0, 1, false);
    sessions.run_ms(&mut nodes, 30_000);
    let ends: Vec<_> = sessions.ends.values().collect();
    assert!(
        ends.iter()
            .all(|end| end.reset.is_none() && end.finished.is_some()),
        "{ends:?}"
    );
    assert!((0..3).all(|i| nodes.snapshot(i).streams.is_empty()));
}

#[test]
fn a_reader_that_sleeps_for_a_minute_stops_its_own_stream_only() {
    let mut nodes = Nodes::new(6, 2, &chain(2), "delay=5ms loss=1% rate=20mbit");
    nodes.run_ms(2_000);
    let (mut sessions, caller) = busy(&mut nodes, 1, LinkProtocol::BestEffort);
    let other = sessions.connect(&mut nodes, (0, 1), Framing::Bytes, None);
    sessions.end(other).to_write = u64::MAX >> 1;
    sessions.called(0).reads = false;
    sessions.run_ms(&mut nodes, 2_000);
    let stopped_at = sessions.called(0).read;
    let held = sessions.called(0).unread;
    // A window grows to what its path and its reader use, which is 25 kB here.
    assert!(held <= 1 << 20, "{held}");
    let before = sessions.called(1).read;
    // Both ends of the other stream go on with little data, to keep the test short.
    sessions.end(other).to_write = 0;
    sessions.run_ms(&mut nodes, 60_000);
    assert!(sessions.called(1).read > before || before > 1_000_000);
    assert_eq!(sessions.called(0).read, stopped_at);
    assert_eq!(sessions.end(caller).reset, None);
    sessions.called(0).reads = true;
    sessions.run_ms(&mut nodes, 6_000);
    assert!(sessions.called(0).read > stopped_at + 1_000_000);
}

#[test]
fn who_leaves_does_not_wait_for_ever_for_a_reader_that_sleeps() {
    let mut nodes = Nodes::new(9, 2, &chain(2), "delay=5ms rate=20mbit");
    nodes.run_ms(2_000);
    let (mut sessions, caller) = busy(&mut nodes, 1, LinkProtocol::BestEffort);
    sessions.called(0).reads = false;
    sessions.run_ms(&mut nodes, 10_000);
    // The client has gone. The data that it has written cannot be delivered, because there is no credit.
    let leave = Request::Stream(StreamRequest::Leave);
    nodes.request(caller.0, caller.1, leave);
    sessions.run_ms(&mut nodes, 45_000);
    assert_eq!(sessions.end(caller).reset, None);
    sessions.run_ms(&mut nodes, 20_000);
    assert_eq!(sessions.end(caller).reset, Some(ResetReason::Timeout));
    assert_eq!(sessions.called(0).reset, Some(ResetReason::Timeout));
}

#[test]
fn what_a_closed_client_wrote_arrives_however_slow_the_reader_is() {
    let mut nodes = Nodes::new(10, 2, &chain(2), "delay=5ms rate=20mbit");
    nodes.run_ms(2_000);
    let (mut sessions, caller) = busy(&mut nodes, 1, LinkProtocol::BestEffort);
    sessions.called(0).reads = false;
    sessions.run_ms(&mut nodes, 10_000);
    let finish = Request::Stream(StreamRequest::Finish);
    nodes.request(caller.0, caller.1, finish);
    let written = sessions.close(&mut nodes, caller).written;
    // The reader sleeps for ten seconds, and then reads for a moment.
    for _ in 0..40 {
        let called = sessions.called(0);
        called.reads = called.unread > 0 && !called.reads;
        let ms = if called.reads { 20 } else { 10_000 };
        sessions.run_ms(&mut nodes, ms);
    }
    sessions.called(0).reads = true;
    sessions.run_ms(&mut nodes, 10_000);
    let called = sessions.called(0);
    assert_eq!((called.reset, called.read), (None, written));
    assert!(called.finished.is_some());
}

#[test]
fn ten_thousand_connections_leave_nothing_behind() {
    let mut nodes = Nodes::new(7, 2, &chain(2), "delay=1ms");
    nodes.run_ms(2_000);
    let mut sessions = Sessions::default();
    sessions.listen(&mut nodes, 1, None);
    sessions.run_ms(&mut nodes, 5);
    let mut connected = 0;
    // Three in four callers write something, every second caller waits for the answer, and some close during the call.
    // Half of the called ends close first.
    for round in 0..200u32 {
        let mut callers = Vec::new();
        for i in 0..50 {
            let caller = sessions.connect(&mut nodes, (0, 1), Framing::Bytes, None);
            let end = sessions.end(caller);
            end.to_write = [0, 10, 1_000, 3_000][i % 4];
            end.finishes = i % 3 == 0;
            callers.push(caller);
        }
        sessions.run_ms(&mut nodes, u64::from(round % 7));
        for caller in callers.drain(..25) {
            connected += u32::from(sessions.close(&mut nodes, caller).connected.is_some());
        }
        sessions.run_ms(&mut nodes, 10);
        for caller in callers {
            connected += u32::from(sessions.close(&mut nodes, caller).connected.is_some());
        }
        for (node, client, ..) in core::mem::take(&mut sessions.accepted) {
            sessions.close(&mut nodes, (node, client));
        }
        sessions.run_ms(&mut nodes, 5);
    }
    assert!(connected > 7_000, "{connected}");
    sessions.run_ms(&mut nodes, 62_000);
    // These ends were called too late to be closed above.
    for (node, client, ..) in core::mem::take(&mut sessions.accepted) {
        nodes.request(node, client, Request::Close);
    }
    sessions.run_ms(&mut nodes, 62_000);
    for i in 0..2 {
        let snapshot = nodes.snapshot(i);
        assert!(snapshot.streams.is_empty(), "{:#?}", snapshot.streams);
        assert_eq!(snapshot.sockets, i, "the listener's alone");
    }
    drop(nodes.world.take_replies());
    nodes.world.close().unwrap();
}

#[test]
fn what_a_client_must_not_do_ends_its_stream() {
    let mut nodes = Nodes::new(8, 2, &chain(2), "delay=1ms rate=20mbit");
    nodes.run_ms(2_000);
    let (_, caller) = busy(&mut nodes, 1, LinkProtocol::BestEffort);
    // The client writes more than its credit.
    let payload = nodes.world.pool().copy_of(0, &[0; 60_000]).unwrap();
    for _ in 0..400 {
        let payload = nodes.world.pool().copy_burst(&payload).unwrap();
        let write = StreamRequest::Write { payload };
        nodes.request(caller.0, caller.1, Request::Stream(write));
    }
    drop(payload);
    nodes.run_ms(500);
    let mut resets = Vec::new();
    for answer in nodes.world.take_replies() {
        if let Reply::Stream(overlay::stream::StreamReply::Reset(why)) = answer.reply {
            resets.push((answer.client == caller.1, why));
        }
    }
    resets.sort();
    // If the reset was lost in the queue, the peer hears that its stream is unknown.
    let [(false, peers), (true, ResetReason::Protocol)] = resets[..] else {
        panic!("{resets:?}");
    };
    assert!(
        matches!(peers, ResetReason::Protocol | ResetReason::Unknown),
        "{peers}"
    );
}

#[test]
fn a_call_that_was_held_up_does_not_open_again_what_has_ended() {
    let mut script = Script::new();
    let mut sessions = Sessions::default();
    sessions.listen(&mut script.nodes, 0, class(LinkProtocol::BestEffort));
    sessions.run_ms(&mut script.nodes, 5);
    let say = |script: &mut Script, seq, flags, acknowledged| {
        let header = Repr {
            has_transport: true,
            destination_port: STREAM_PORT,
            ..header(addr(WEST), addr(0), seq)
        };
        let segment = Segment {
            flags,
            connection: 7,
            acknowledged,
            window: 100_000,
            ..Segment::default()
        };
        let mut payload = [0; SEGMENT_BYTES];
        segment.emit(&[], &mut payload).unwrap();
        script.say(WEST, &header, &payload);
    };
    say(&mut script, 1, Flags::SYN, 0);
    sessions.run_ms(&mut script.nodes, 30);
    assert_eq!(sessions.accepted.len(), 1);
    assert_eq!(script.nodes.snapshot(0).streams.len(), 1);
    say(&mut script, 2, Flags::ACK.with(Flags::FIN), 1);
    sessions.run_ms(&mut script.nodes, 30);
    assert!(script.nodes.snapshot(0).streams.is_empty());
    // The caller had sent its call twice.
    say(&mut script, 3, Flags::SYN, 0);
    sessions.run_ms(&mut script.nodes, 30);
    assert_eq!(sessions.accepted.len(), 1);
    assert_eq!(script.drops(overlay::event::Drop::StreamUnknown), 1);
}
