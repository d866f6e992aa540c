//! Worlds of plain UDP hosts: a direct path, traces, clocks that drift, and two kinds of engine in one world.

use base::impair::Model;
use base::{ClientId, Duration, Engine, Input, Outbox, Time};
use sim::trace::{Fate, Packet, json_line, pcap};
use sim::traffic::{Pattern, Source, VOICE_BYTES};
use sim::{Clock, Either, HostId, UdpHost, World, udp, underlay};
use std::cell::RefCell;
use std::rc::Rc;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn model(text: &str) -> Model {
    text.parse().expect("a model")
}

/// Builds `hops` links in a row; the first host sends voice to the last, the others forward it.
fn chain(seed: u64, hops: u32, link: &str) -> (World<UdpHost>, Vec<HostId>) {
    let mut world = World::new(seed);
    let voice = Source::new(Pattern::voice(), world.rng_of(&[0]));
    let first = UdpHost::default().sending(voice, underlay(1), VOICE_BYTES, SECOND);
    let mut hosts = vec![world.add_host(first)];
    for n in 1..=hops {
        let host = UdpHost::default();
        let relay = n < hops;
        hosts.push(world.add_host(if relay {
            host.forwarding(underlay(n + 1))
        } else {
            host
        }));
    }
    for pair in hosts.windows(2) {
        world.link(pair[0], pair[1], &model(link));
    }
    (world, hosts)
}

/// Returns the trace of a run.
fn traced(seed: u64, link: &str) -> (String, Vec<u8>) {
    let (mut world, hosts) = chain(seed, 3, link);
    let written = Rc::new(RefCell::new((String::new(), pcap::header().to_vec())));
    let out = written.clone();
    world.set_trace(move |packet: &Packet<'_>| {
        let (json, pcap) = &mut *out.borrow_mut();
        json_line(packet, json);
        pcap::record(packet, pcap);
    });
    world.run_for(MS * 400);
    world.partition(&hosts[..1]);
    world.run_for(MS * 200);
    world.heal();
    drop(world.crash(hosts[3]));
    world.run_for(SECOND);
    drop(world);
    Rc::into_inner(written)
        .expect("the world is gone")
        .into_inner()
}

#[test]
fn a_chain_passes_packets_on() {
    let (mut world, hosts) = chain(1, 5, "delay=10ms");
    world.run_for(SECOND * 2);
    let last = world.engine(hosts[5]).expect("it is up").received();
    assert_eq!((last.datagrams, last.bytes), (50, 50 * 160));
    assert_eq!(world.bytes(hosts[0], hosts[1]), 50 * 160);
    assert_eq!(world.bytes(hosts[1], hosts[0]), 0);
    let counters = world.close().expect("every buffer is back");
    assert_eq!((counters.sent, counters.delivered), (250, 250));
    // The events are 51 timers of the source, one first timeout of each other host, and the arrivals.
    assert!((300..320).contains(&counters.events), "{counters:?}");
}

#[test]
fn what_is_lost_reordered_and_doubled_is_counted() {
    let link = "delay=10ms jitter=50ms reorder loss=10% burst=50% duplicate=20%";
    let (mut world, hosts) = chain(3, 1, link);
    world.run_for(SECOND * 2);
    let counts = world.counts(hosts[0], hosts[1]);
    assert_eq!(counts.admitted(), 50);
    assert!(counts.lost > 0 && counts.duplicated > 0, "{counts:?}");
    let arrived = world.engine(hosts[1]).expect("it is up").received();
    assert_eq!(arrived.datagrams, counts.delivered + counts.duplicated);
}

#[test]
fn equal_seeds_leave_equal_traces_byte_for_byte() {
    let link = "delay=5ms jitter=30ms reorder loss=20% burst=40% duplicate=10%";
    assert_eq!(traced(1, link), traced(1, link));
    assert_ne!(traced(1, link).0, traced(2, link).0);
}

/// A change of this number is a change of the meaning of every seed. The number is the same in every build and on every
/// machine.
#[test]
fn a_run_is_pinned() {
    let mut world = World::new(7);
    let link = "rate=2mbit queue=20 delay=5ms jitter=9ms reorder loss=5% burst=30% duplicate=3%";
    let patterns = [
        Pattern::cbr(300_000, 500),
        Pattern::pareto(500_000, 500),
        Pattern::talkspurts(),
    ];
    let mut sender = UdpHost::default();
    for (n, pattern) in patterns.into_iter().cycle().take(12).enumerate() {
        let source = Source::new(pattern, world.rng_of(&[n as u64]));
        sender = sender.sending(source, underlay(1), 500, SECOND * 20);
    }
    let sender = world.add_host(sender);
    let receiver = world.add_host(UdpHost::default());
    world.set_clock(sender, Clock::new(MS * 7, -37));
    world.link(sender, receiver, &model(link));
    world.run_for(SECOND * 21);
    assert_eq!(world.digest(), 13_590_212_667_205_426_127);
}

#[test]
fn a_trace_tells_of_each_packet_what_became_of_it() {
    let (json, pcap) = traced(1, "delay=10ms");
    let count = |part: &str| json.matches(part).count();
    // Of 50 packets, 21 arrive at the end, up to the one at 400 ms; 10 are cut off on the first link, and the last host
    // is down for 19.
    assert_eq!(count("\"why\":\"cut\""), 10);
    assert_eq!(count("\"why\":\"host-down\""), 19);
    assert_eq!(count("\"event\":\"sent\""), 40 * 3);
    assert_eq!(count("\"event\":\"arrived\""), 40 * 2 + 21);
    assert_eq!(json.lines().count(), 10 + 40 * 3 * 2);
    let record = 16 + 20 + 8 + VOICE_BYTES;
    assert_eq!(pcap.len(), 24 + (10 + 40 * 3) * record);
}

#[test]
fn a_clock_that_drifts_sends_early_by_the_worlds_time() {
    let (mut world, hosts) = chain(1, 1, "clean");
    world.set_clock(hosts[0], Clock::new(SECOND * 9, 1_000));
    let times = Rc::new(RefCell::new(Vec::new()));
    let out = times.clone();
    world.set_trace(move |packet: &Packet<'_>| {
        if packet.fate == Fate::Arrived {
            out.borrow_mut().push(packet.at.as_micros());
        }
    });
    world.run_for(SECOND * 2);
    // The 50th packet leaves when the clock has gained 980 us.
    let times = times.borrow();
    assert_eq!((times.len(), times[0], times[49]), (50, 0, 979_020));
}

#[test]
fn several_islands_are_cut_from_each_other() {
    let mut world = World::new(1);
    let hosts: Vec<HostId> = (0..5)
        .map(|_| world.add_host(UdpHost::default().listening(ClientId(1))))
        .collect();
    for (i, a) in hosts.iter().enumerate() {
        for b in &hosts[..i] {
            world.link(*a, *b, &model("clean"));
        }
    }
    let reached = |world: &mut World<UdpHost>| {
        for (i, a) in hosts.iter().enumerate() {
            for (j, _) in hosts.iter().enumerate().filter(|(j, _)| *j != i) {
                let to = underlay(j as u32);
                let payload = world.pool().copy_of(0, &[i as u8, j as u8]);
                let payload = payload.expect("the pool is large enough");
                world.request(*a, ClientId(2), udp::Send { to, payload });
            }
        }
        world.run_for(MS);
        let arrived = world.take_replies().into_iter();
        let mut pairs: Vec<(u8, u8)> = arrived
            .flat_map(|answer| {
                let bytes = answer.reply.payload.bytes().to_vec();
                bytes.chunks(2).map(|p| (p[0], p[1])).collect::<Vec<_>>()
            })
            .collect();
        pairs.sort_unstable();
        pairs
    };
    world.partition(&hosts[..2]);
    world.partition(&hosts[2..4]);
    assert_eq!(reached(&mut world), [(0, 1), (1, 0), (2, 3), (3, 2)]);
    world.heal();
    assert_eq!(reached(&mut world).len(), 20);
}

/// Answers every datagram with its length, and counts flushes.
#[derive(Default)]
struct Counting(u32);

impl Engine for Counting {
    type Request = ();
    type Reply = u32;
    type Event = usize;

    fn handle(&mut self, _now: Time, input: Input<()>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Datagrams { from, burst } => {
                out.report(burst.len());
                out.send(from, burst);
            }
            Input::Request { client, .. } => out.deliver(client, self.0),
            Input::TooLong { .. } | Input::Timeout => {}
        }
    }

    fn flush(&mut self, _now: Time, _out: &mut impl Outbox<Self>) {
        self.0 += 1;
    }

    fn next_timeout(&self) -> Option<(Time, &'static str)> {
        None
    }
}

#[test]
fn engines_of_two_kinds_share_a_world() {
    let mut world: World<Either<Counting, UdpHost>> = World::new(1);
    let counting = world.add_host(Either::A(Counting::default()));
    let voice = Source::new(Pattern::voice(), world.rng_of(&[0]));
    let plain = UdpHost::default().sending(voice, underlay(0), 100, MS * 100);
    let plain = world.add_host(Either::B(plain));
    world.link(counting, plain, &model("delay=1ms"));
    world.run_for(MS * 500);
    let host = world
        .engine(plain)
        .and_then(Either::b)
        .expect("a plain one");
    assert_eq!(host.received().datagrams, 5, "all came back");
    let events: Vec<_> = world.take_events().into_iter().map(|r| r.event).collect();
    assert_eq!(events, [Either::A(100); 5]);
    world.request(counting, ClientId(1), Either::A(()));
    world.run_for(MS);
    let replies = world.take_replies();
    assert!(
        matches!(replies[0].reply, Either::A(6)),
        "five and the first"
    );
    assert!(world.engine(counting).and_then(Either::a).is_some());
    assert!(world.close().is_ok());
}

#[test]
#[should_panic(expected = "a request goes to an engine of its kind")]
fn a_request_to_the_wrong_kind_is_found() {
    let mut world: World<Either<Counting, UdpHost>> = World::new(1);
    let plain = world.add_host(Either::B(UdpHost::default()));
    world.request(plain, ClientId(1), Either::A(()));
    world.run_for(MS);
}

#[test]
fn forged_datagrams_come_from_where_they_say() {
    let mut world = World::new(1);
    let host = world.add_host(UdpHost::default().listening(ClientId(1)));
    let from = underlay(99);
    let at = Time::ZERO + Duration::from_millis(3);
    let burst = world.pool().copy_of(0, b"forged").expect("there is room");
    world.forge_at(at, from, host, burst);
    world.run_for(Duration::from_millis(10));
    let replies = world.take_replies();
    assert_eq!(replies.len(), 1);
    assert_eq!((replies[0].at, replies[0].reply.from), (at, from));
    assert_eq!(replies[0].reply.payload.bytes(), b"forged");
    drop(replies);
    assert!(world.close().is_ok());
}
