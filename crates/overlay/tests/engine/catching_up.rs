//! A stalled host and the streams beside a call catch up with their packets all at once. These packets queue in front
//! of the next narrow link, and packets that the call sends meanwhile wait behind them.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::world::sessions::Sessions;
use crate::world::streams::{Stream, Streams};
use crate::world::{Nodes, chain, voice};
use base::{Duration, Time};
use overlay::Settings;
use overlay::request::Options;
use overlay::stream::Framing;
use wire::data::LinkProtocol;

const MS: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_millis(150);

fn call() -> Stream {
    Stream {
        from: 0,
        to: 1,
        interval: MS * 20,
        phase: Duration::ZERO,
        options: Options {
            deadline: Some(LIMIT),
            ..voice()
        },
    }
}

/// A call, and with it a stream with as many messages on the same path.
struct Pair {
    nodes: Nodes,
    streams: Streams,
    sessions: Sessions,
    caller: (usize, base::ClientId),
    written: Time,
    taken: usize,
    /// When each packet of the call was sent that came in time.
    in_time: Vec<Time>,
}

impl Pair {
    fn new(seed: u64, path: &str) -> Pair {
        let mut nodes = Nodes::with(seed, 2, &chain(2), path, Settings::modern());
        nodes.run_ms(3_000);
        let mut sessions = Sessions::default();
        sessions.listen(&mut nodes, 1, None);
        let mut options = Options::default();
        options.class.link = LinkProtocol::Reliable;
        let caller = sessions.connect(&mut nodes, (0, 1), Framing::Messages, Some(options));
        let streams = Streams::begin(&mut nodes, vec![call()]);
        Pair {
            written: nodes.world.now(),
            streams,
            sessions,
            nodes,
            caller,
            taken: 0,
            in_time: Vec::new(),
        }
    }

    fn run_ms(&mut self, ms: u64) {
        for _ in 0..ms {
            let now = self.nodes.world.now();
            self.streams.schedule(&mut self.nodes, now + MS);
            while self.written <= now {
                let messages = &mut self.sessions.end(self.caller).messages;
                messages.push_back(vec![7; 160]);
                self.written += MS * 20;
            }
            self.sessions.run_ms(&mut self.nodes, 1);
        }
        for (at, (_, sent)) in &self.sessions.datagrams[self.taken..] {
            if at.since(*sent) <= LIMIT {
                self.in_time.push(*sent);
            }
        }
        self.taken = self.sessions.datagrams.len();
    }

    /// Returns how many packets of the call that were sent in this time were not there in time.
    fn missed(&self, from: Time, ms: u64) -> u64 {
        let until = from + MS * ms;
        let there = self.in_time.iter().filter(|at| (from..until).contains(at));
        ms / 20 - (there.count() as u64).min(ms / 20)
    }
}

#[test]
fn a_stream_that_makes_up_for_a_stall_yields_to_the_call_beside_it() {
    let narrow = "delay=12ms jitter=18ms rate=426kbit";
    let wider = "delay=13ms jitter=17ms reorder rate=633kbit";
    // Behind the call's own backlog, packets of a tenth of a second and more are late whatever the stream does.
    for (path, stall_ms, most) in [(narrow, 500, 18), (narrow, 1_300, 22), (wider, 1_300, 11)] {
        for seed in 1..=3 {
            let mut pair = Pair::new(seed, path);
            pair.run_ms(10_000);
            let back = pair.nodes.world.now() + MS * stall_ms;
            let host = pair.nodes.hosts[0];
            pair.nodes.world.stall(host, back, 512);
            pair.run_ms(stall_ms + 3_000);
            let missed = pair.missed(back, 2_500);
            assert!(missed <= most, "{path}, {stall_ms}, {seed}: {missed}");
            // The stream has caught up.
            let read = pair.sessions.called(0).received.len() as u64;
            let written = (13_000 + stall_ms) / 20;
            assert!(
                read + 5 >= written,
                "{path}, {stall_ms}, {seed}: {read} of {written}"
            );
        }
    }
}

/// The acknowledgements that waited in the socket of the stalled host do not make the path longer, and on a long path the
/// stream yields to the call no more than on a short one.
#[test]
fn a_stream_makes_up_for_a_stall_soon_on_a_long_path() {
    for seed in 1..=3 {
        let mut pair = Pair::new(seed, "delay=200ms jitter=2ms");
        pair.run_ms(10_000);
        let back = pair.nodes.world.now() + MS * 3_000;
        let host = pair.nodes.hosts[0];
        pair.nodes.world.stall(host, back, 512);
        pair.run_ms(3_000 + 1_300);
        let read = pair.sessions.called(0).received.len() as u64;
        // All messages that were written 300 ms ago.
        let written = (10_000 + 3_000 + 1_000) / 20;
        assert!(read + 1 >= written, "{seed}: {read} of {written}");
    }
}

#[test]
fn what_a_stalled_host_sends_late_is_not_sent_with_repair() {
    for path in [
        "delay=56ms jitter=8ms reorder loss=8% burst=50% rate=285kbit",
        "delay=56ms loss=8% burst=50% rate=285kbit",
    ] {
        for seed in 1..=3 {
            let mut nodes = Nodes::with(seed, 2, &chain(2), path, Settings::modern());
            nodes.run_ms(3_000);
            let mut streams = Streams::begin(&mut nodes, vec![call()]);
            streams.run(&mut nodes, Duration::from_secs(20));
            let back = nodes.world.now() + MS * 750;
            let host = nodes.hosts[0];
            nodes.world.stall(host, back, 512);
            streams.run(&mut nodes, Duration::from_secs(5));
            streams.finish(&mut nodes);
            let missed = streams
                .fates_of(0)
                .filter(|(at, _)| (back..back + MS * 2_000).contains(at))
                .filter(|(_, delay)| delay.is_none_or(|delay| delay > LIMIT))
                .count();
            assert!(missed <= 30, "{path}, {seed}: {missed}");
        }
    }
}
