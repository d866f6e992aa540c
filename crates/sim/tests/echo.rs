//! Worlds of a toy engine that echoes datagrams and reports when they arrive.

use base::impair::{Model, Reason};
use base::{Burst, ClientId, Duration, Engine, Input, Outbox, Time, UnderlayAddr};
use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};
use sim::{Arrivals, HostId, World, underlay};

const MS: Duration = Duration::from_millis(1);
const PING: u8 = 0;
const PONG: u8 = 1;

/// Answers pings, reports pongs, and optionally pings a peer at an interval.
#[derive(Default)]
struct Echo {
    /// The peer to ping, the interval, and the time of the next ping.
    beat: Option<(UnderlayAddr, Duration, Time)>,
    /// A burst that is never released.
    hoard: Option<Burst>,
    hoards: bool,
}

/// The request to send pings: address, number and size.
struct Ping(UnderlayAddr, usize, usize);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// The engine's clock when a datagram with this number came, and the datagram's bytes.
    Ping(Time, u8, usize),
    Pong(Time, u8, usize),
    Flush(usize),
}

impl Echo {
    fn beating(peer: UnderlayAddr, every: Duration) -> Echo {
        Echo {
            beat: Some((peer, every, Time::ZERO)),
            ..Echo::default()
        }
    }

    fn ping(out: &mut impl Outbox<Echo>, to: UnderlayAddr, count: usize, bytes: usize) {
        let mut burst = out.pool().large().expect("the pool is large enough");
        for number in 0..count {
            let mut datagram = vec![0; bytes];
            datagram[..2].copy_from_slice(&[PING, number as u8]);
            assert!(burst.append(&datagram));
        }
        out.send(to, burst);
    }
}

impl Engine for Echo {
    type Request = Ping;
    type Reply = usize;
    type Event = Seen;

    fn handle(&mut self, now: Time, input: Input<Ping>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Datagrams { from, mut burst } => {
                while !burst.is_empty() {
                    let mut one = burst.split_front(1);
                    let (kind, number, bytes) = (one.bytes()[0], one.bytes()[1], one.len());
                    one.bytes_mut()[0] = PONG;
                    if kind == PING {
                        out.report(Seen::Ping(now, number, bytes));
                        out.send(from, one);
                    } else {
                        out.report(Seen::Pong(now, number, bytes));
                        self.hoard = self.hoards.then_some(one);
                    }
                }
            }
            Input::Request { client, request } => {
                let Ping(to, count, bytes) = request;
                Echo::ping(out, to, count, bytes);
                out.deliver(client, count);
            }
            Input::TooLong { .. } => {}
            Input::Timeout => {
                if let Some((peer, every, next)) = &mut self.beat
                    && *next <= now
                {
                    Echo::ping(out, *peer, 1, 20);
                    *next = now + *every;
                }
            }
        }
    }

    fn flush(&mut self, _now: Time, out: &mut impl Outbox<Self>) {
        out.report(Seen::Flush(out.pool().in_use().0));
    }

    fn next_timeout(&self) -> Option<(Time, &'static str)> {
        self.beat.map(|(_, _, at)| (at, "beat"))
    }
}

fn model(text: &str) -> Model {
    text.parse().expect("a model")
}

/// Two hosts with a link between them.
fn pair(seed: u64, text: &str) -> (World<Echo>, HostId, HostId) {
    let mut world = World::new(seed);
    let a = world.add_host(Echo::default());
    let b = world.add_host(Echo::default());
    world.link(a, b, &model(text));
    (world, a, b)
}

fn pings(world: &mut World<Echo>, from: HostId, to: HostId, count: usize) {
    let to = world.addr(to);
    world.request(from, ClientId(1), Ping(to, count, 100));
}

/// Returns what was seen, without flushes, with host and time.
fn seen(world: &mut World<Echo>) -> Vec<(HostId, Time, Seen)> {
    world
        .take_events()
        .into_iter()
        .filter(|report| !matches!(report.event, Seen::Flush(_)))
        .map(|report| (report.host, report.at, report.event))
        .collect()
}

#[test]
fn a_ping_takes_the_delay_each_way() {
    let (mut world, a, b) = pair(1, "delay=10ms");
    pings(&mut world, a, b, 2);
    world.run_until(Time::ZERO + MS * 19);
    let [there, back] = [10, 20].map(|ms| Time::ZERO + MS * ms);
    let ping = |number| (b, there, Seen::Ping(there, number, 100));
    assert_eq!(seen(&mut world), [ping(0), ping(1)]);
    assert_eq!(world.now(), Time::ZERO + MS * 19);
    world.run_for(MS);
    let pong = |number| (a, back, Seen::Pong(back, number, 100));
    assert_eq!(seen(&mut world), [pong(0), pong(1)]);

    let replies = world.take_replies();
    assert_eq!(
        (replies[0].host, replies[0].client, replies[0].reply),
        (a, ClientId(1), 2)
    );
    let counters = world.close().expect("every buffer is back");
    assert_eq!(
        (counters.sent, counters.delivered, counters.inputs),
        (4, 4, 2)
    );
}

#[test]
fn a_flush_follows_all_inputs_of_a_moment() {
    let (mut world, a, b) = pair(1, "delay=10ms");
    world.run_until(Time::ZERO + MS);
    world.take_events();
    for _ in 0..3 {
        pings(&mut world, a, b, 1);
    }
    world.run_until(Time::ZERO + MS * 15);
    let flushes = world
        .take_events()
        .into_iter()
        .filter_map(|report| match report.event {
            Seen::Flush(_) => Some((report.host, report.at)),
            _ => None,
        });
    let expected = [(a, Time::ZERO + MS), (b, Time::ZERO + MS * 11)];
    assert_eq!(flushes.collect::<Vec<_>>(), expected);
}

#[test]
fn timers_fire_by_the_hosts_own_clock() {
    let mut world = World::new(1);
    let a = world.add_host_at(underlay(0), MS * 5_000, Echo::beating(underlay(1), MS * 20));
    let b = world.add_host(Echo::default());
    world.link(a, b, &model("delay=1ms"));
    world.run_until(Time::ZERO + MS * 50);
    let all = seen(&mut world);
    let at_b: Vec<Time> = all.iter().filter(|s| s.0 == b).map(|s| s.1).collect();
    assert_eq!(at_b, [1, 21, 41].map(|ms| Time::ZERO + MS * ms));
    let at_a: Vec<Seen> = all.into_iter().filter(|s| s.0 == a).map(|s| s.2).collect();
    let pong = |ms| Seen::Pong(Time::ZERO + MS * ms, 0, 20);
    assert_eq!(at_a, [5_002, 5_022, 5_042].map(pong));
}

#[test]
fn equal_seeds_run_equally_and_others_do_not() {
    let digest = |seed| {
        let (mut world, a, b) = pair(seed, "loss=20% burst=50% delay=5ms jitter=3ms");
        for _ in 0..50 {
            pings(&mut world, a, b, 7);
            world.run_for(MS);
        }
        world.run_for(MS * 100);
        (world.digest(), world.close())
    };
    assert_eq!(digest(7), digest(7));
    assert_ne!(digest(7).0, digest(8).0);
}

#[test]
fn another_host_changes_nothing_for_the_others() {
    let pongs = |more: bool| {
        let (mut world, a, b) = pair(3, "loss=30% delay=5ms jitter=1ms");
        if more {
            let c = world.add_host(Echo::default());
            world.link(c, a, &model("loss=50%"));
            pings(&mut world, c, a, 40);
        }
        pings(&mut world, a, b, 60);
        world.run_for(MS * 100);
        seen(&mut world)
            .into_iter()
            .filter(|s| s.1 > Time::ZERO)
            .collect::<Vec<_>>()
    };
    assert_eq!(pongs(false), pongs(true));
}

#[test]
fn drops_are_counted_where_they_happen() {
    let (mut world, a, b) = pair(5, "loss=100% delay=1ms");
    pings(&mut world, a, b, 10);
    world.request(a, ClientId(1), Ping(underlay(99), 3, 50));
    world.run_for(MS * 5);
    assert_eq!(world.counts(a, b).lost, 10);
    assert_eq!(world.counters().no_path, 3);
    assert_eq!(Reason::Loss.as_str(), "loss");

    world.link(a, b, &model("delay=2ms"));
    pings(&mut world, a, b, 4);
    world.run_for(MS);
    assert!(world.crash(b).is_some());
    world.run_for(MS * 5);
    assert_eq!(
        (world.counters().host_down, world.counters().delivered),
        (4, 0)
    );
    pings(&mut world, b, a, 1);
    world.run_for(MS * 5);
    assert_eq!(world.counters().requests_lost, 1);

    world.restart(b, Echo::beating(underlay(0), MS * 1000));
    world.run_for(MS * 5);
    assert_eq!(seen(&mut world).len(), 2, "a ping and its pong");
    assert!(world.close().is_ok());
}

#[test]
fn partitions_and_outages_cut_and_heal() {
    let mut world = World::new(1);
    let [a, b, c] = [0; 3].map(|_| world.add_host(Echo::default()));
    for (from, to) in [(a, b), (b, c), (a, c)] {
        world.link(from, to, &model("delay=1ms"));
    }
    let arrive = |world: &mut World<Echo>| {
        for (from, to) in [(a, b), (b, c), (a, c)] {
            pings(world, from, to, 1);
        }
        world.run_for(MS * 3);
        let pongs = seen(world)
            .into_iter()
            .filter(|s| matches!(s.2, Seen::Pong(..)));
        pongs.map(|s| s.0).collect::<Vec<_>>()
    };
    assert_eq!(arrive(&mut world), [a, b, a]);
    world.partition(&[a]);
    assert_eq!(arrive(&mut world), [b]);
    assert_eq!(world.counters().cut, 2);
    world.heal();
    world.set_outage(b, c, true);
    assert_eq!(arrive(&mut world), [a, a]);
    assert_eq!(world.counts(b, c).outage, 1);
    world.set_outage(b, c, false);
    assert_eq!(arrive(&mut world), [a, b, a]);
}

#[test]
fn datagrams_that_arrive_together_are_one_burst_if_asked_for() {
    for (arrivals, inputs) in [(Arrivals::Bursts, 2), (Arrivals::Single, 24)] {
        let (mut world, a, b) = pair(1, "delay=1ms");
        world.set_arrivals(arrivals);
        for _ in 0..3 {
            pings(&mut world, a, b, 4);
        }
        world.run_for(MS * 5);
        assert_eq!(world.counters().inputs, inputs, "{arrivals:?}");
        assert_eq!(world.close().map(|counters| counters.delivered), Ok(24));
    }
}

#[test]
fn datagrams_of_different_size_are_not_merged() {
    let (mut world, a, b) = pair(1, "delay=1ms");
    let to = world.addr(b);
    for bytes in [100, 100, 60, 100, 200] {
        world.request(a, ClientId(1), Ping(to, 1, bytes));
    }
    world.run_until(Time::ZERO + MS);
    let sizes: Vec<usize> = seen(&mut world)
        .into_iter()
        .map(|s| match s.2 {
            Seen::Ping(_, _, bytes) | Seen::Pong(_, _, bytes) | Seen::Flush(bytes) => bytes,
        })
        .collect();
    assert_eq!(sizes, [100, 100, 60, 100, 200]);
    assert_eq!(world.counters().inputs, 3, "100 100 60 | 100 | 200");
}

#[test]
fn a_buffer_that_is_kept_is_found() {
    let mut world = World::new(1);
    let a = world.add_host(Echo {
        hoards: true,
        ..Echo::default()
    });
    let b = world.add_host(Echo::default());
    world.link(a, b, &model("delay=1ms"));
    pings(&mut world, a, b, 1);
    world.run_for(MS * 5);
    let hoarder = world.crash(a);
    let leak = world.close().expect_err("the crashed engine is still here");
    assert_eq!((leak.large, leak.small), (1, 0));
    drop(hoarder);
}

#[test]
#[should_panic(
    expected = "time stands still at 0.000000s (seed 1): timer Some(\"beat\") of host 0"
)]
fn a_world_that_stands_still_is_found() {
    let mut world = World::new(1);
    world.add_host(Echo::beating(underlay(9), Duration::ZERO));
    world.run_for(MS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The same datagrams arrive at the same moments, whether handed over singly or as bursts.
    #[test]
    fn bursts_and_single_datagrams_come_to_the_same(
        text in "(loss=20% burst=40% )?delay=[1-5]ms( jitter=2ms)?( rate=100mbit queue=30)?",
        steps in proptest::collection::vec((0u64..3_000_000, 1usize..9, any::<bool>()), 1..30),
        seed: u64,
    ) {
        let run = |arrivals| {
            let (mut world, a, b) = pair(seed, &text);
            world.set_arrivals(arrivals);
            for &(wait, count, there) in &steps {
                let (from, to) = if there { (a, b) } else { (b, a) };
                pings(&mut world, from, to, count);
                world.run_for(Duration::from_nanos(wait));
            }
            world.run_for(MS * 200);
            let all = seen(&mut world);
            (all, world.close().map(|counters| counters.delivered))
        };
        let (bursts, single) = (run(Arrivals::Bursts), run(Arrivals::Single));
        prop_assert_eq!(bursts.0, single.0);
        prop_assert_eq!(bursts.1, single.1);
    }
}
