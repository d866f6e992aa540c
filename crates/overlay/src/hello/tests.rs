use super::*;
use base::Rng;
use std::collections::VecDeque;

/// One direction: delay and losses as [Amir06 §II-C] defines burstiness, by the probability of a
/// loss behind a loss.
struct Direction {
    delay: Duration,
    p: f64,
    burst: f64,
    dead: bool,
    was_lost: bool,
    rng: Rng,
    in_flight: VecDeque<(Time, Option<Message>)>,
    sent: u64,
}

impl Direction {
    fn new(seed: u64, delay_ms: u64, p: f64, burst: f64) -> Direction {
        Direction {
            delay: Duration::from_millis(delay_ms),
            p,
            burst,
            dead: false,
            was_lost: false,
            rng: Rng::new(seed),
            in_flight: VecDeque::new(),
            sent: 0,
        }
    }

    fn send(&mut self, now: Time, what: Option<Message>) {
        let behind_delivered = self.p * (1.0 - self.burst) / (1.0 - self.p);
        let p = if self.was_lost {
            self.burst
        } else {
            behind_delivered
        };
        self.was_lost = self.rng.chance(p);
        self.sent += 1;
        if !self.was_lost && !self.dead {
            self.in_flight.push_back((now + self.delay, what));
        }
    }

    fn next(&self) -> Time {
        self.in_flight.front().map_or(Time::FAR, |(at, _)| *at)
    }
}

/// Two ends and the network between them. `directions[0]` leads from end 0 to end 1.
struct World {
    now: Time,
    ends: [Hello; 2],
    directions: [Direction; 2],
    /// The data that each end sends: the interval, and when the next packet is sent.
    data: [Option<(Duration, Time)>; 2],
    events: Vec<(Time, usize, Event)>,
    hellos: [u64; 2],
}

impl World {
    fn new(settings: Settings, delay_ms: u64, p: f64, burst: f64, seed: u64) -> World {
        World {
            now: Time::ZERO,
            ends: [0, 1].map(|_| Hello::new(Time::ZERO, settings)),
            directions: [0, 1].map(|k| Direction::new(seed * 2 + k, delay_ms, p, burst)),
            data: [None, None],
            events: Vec::new(),
            hellos: [0, 0],
        }
    }

    fn send_data(&mut self, end: usize, every_ms: Option<u64>) {
        self.data[end] = every_ms.map(|ms| (Duration::from_millis(ms), self.now));
    }

    fn run(&mut self, span: Duration) {
        let until = self.now + span;
        loop {
            let timeouts = self.ends.each_ref().map(Hello::next_timeout);
            let arrivals = self.directions.each_ref().map(Direction::next);
            let data = self.data.map(|d| d.map_or(Time::FAR, |(_, at)| at));
            let next = [timeouts, arrivals, data].into_iter().flatten().min();
            let next = next.unwrap_or(Time::FAR).max(self.now);
            if next > until {
                self.now = until;
                return;
            }
            self.now = next;
            (0..2).for_each(|end| self.step(end));
        }
    }

    fn step(&mut self, end: usize) {
        let now = self.now;
        while self.directions[1 - end].next() <= now {
            let arrived = self.directions[1 - end].in_flight.pop_front();
            let event = match arrived.and_then(|(_, what)| what) {
                Some(hello) => self.ends[end].on_hello(now, Duration::ZERO, &hello),
                None => {
                    self.ends[end].on_data_received(now);
                    None
                }
            };
            self.events.extend(event.map(|e| (now, end, e)));
        }
        if let Some((every, at)) = self.data[end]
            && at <= now
        {
            self.data[end] = Some((every, now + every));
            if self.ends[end].is_usable() || self.ends[end].is_tried() {
                self.ends[end].on_data_sent(now);
                self.directions[end].send(now, None);
            }
        }
        if self.ends[end].next_timeout() <= now {
            let output = self.ends[end].on_timeout(now, Loss::NONE);
            if let Some(hello) = output.hello {
                self.hellos[end] += 1;
                self.directions[end].send(now, Some(hello));
            }
            self.events.extend(output.event.map(|e| (now, end, e)));
        }
    }

    fn set_dead(&mut self, dead: bool) {
        self.directions.iter_mut().for_each(|d| d.dead = dead);
    }

    fn states(&self) -> [State; 2] {
        self.ends.each_ref().map(Hello::state)
    }

    fn downs(&self) -> Vec<(Time, usize, Why)> {
        let down = |&(at, end, event): &(Time, usize, Event)| match event {
            Event::Down { why, .. } => Some((at, end, why)),
            Event::Up | Event::GivenUp => None,
        };
        self.events.iter().filter_map(down).collect()
    }
}

const SECOND: Duration = Duration::from_secs(1);
/// A hello under IPv6: 24 bytes, sealing 24, UDP and IPv6 48.
const HELLO_BITS: f64 = 96.0 * 8.0;

#[test]
fn a_link_comes_up_within_half_a_second_and_knows_its_round_trip() {
    let mut world = World::new(Settings::modern(), 20, 0.0, 0.0, 1);
    world.run(SECOND.div(2));
    assert_eq!(world.states(), [State::Up, State::Up]);
    for end in &world.ends {
        assert_eq!(end.rtt().smoothed(), Some(Duration::from_millis(40)));
    }
}

#[test]
fn a_silently_dead_active_link_is_down_within_450_ms() {
    for phase_ms in 0..130 {
        let mut world = World::new(Settings::modern(), 20, 0.0, 0.0, 1);
        world.run(SECOND);
        world.send_data(0, Some(20));
        world.run(SECOND * 3 + Duration::from_millis(phase_ms));
        world.set_dead(true);
        let died = world.now;
        world.run(SECOND);
        let downs = world.downs();
        assert_eq!(downs.len(), 2, "{downs:?}");
        for (at, _, why) in downs {
            assert!(
                at.since(died) < Duration::from_millis(450),
                "{}",
                at.since(died)
            );
            assert!(matches!(why, Why::Silence(_)));
        }
    }
}

/// A host that is not scheduled for short times continues to ask, and reports to the other end that it hears nothing.
#[test]
fn a_path_that_falls_silent_is_asked_at_the_fast_pace_whatever_the_host_stalls() {
    let mut world = World::new(Settings::modern(), 20, 0.0, 0.0, 1);
    world.run(SECOND * 10);
    let (end, began) = (&mut world.ends[0], world.now);
    end.watch_closely(began);
    let mut now = began;
    let (mut doubts, mut down) = (0, None);
    while down.is_none() && now.since(began) < SECOND * 10 {
        let late = if doubts < 6 { 120 } else { 0 };
        now = end.next_timeout().max(now) + Duration::from_millis(late);
        let output = end.on_timeout(now, Loss::NONE);
        doubts += u32::from(output.hello.is_some_and(|hello| hello.doubts));
        down = output.event;
    }
    assert!(matches!(down, Some(Event::Down { .. })), "{down:?}");
    let took = now.since(began);
    assert!(took < SECOND * 2, "{took}, {doubts} hellos told of it");
    assert!(doubts >= 3, "{doubts}");
}

#[test]
fn a_link_that_dies_while_idle_is_down_450_ms_after_it_is_used() {
    let mut world = World::new(Settings::modern(), 20, 0.0, 0.0, 1);
    world.run(SECOND * 10);
    world.set_dead(true);
    world.run(SECOND.div(2));
    world.send_data(1, Some(20));
    let used = world.now;
    world.run(SECOND);
    let (at, end, _) = world.downs()[0];
    assert_eq!(end, 1);
    assert!(at.since(used) < Duration::from_millis(450));
    world.run(SECOND * 4);
    assert_eq!(world.states(), [State::Down, State::Down]);
}

#[test]
fn an_idle_dead_link_is_down_within_four_intervals() {
    let mut world = World::new(Settings::modern(), 20, 0.0, 0.0, 1);
    world.run(SECOND * 10);
    world.set_dead(true);
    world.run(SECOND * 4);
    assert_eq!(world.states(), [State::Down, State::Down]);
}

#[test]
fn a_link_dead_in_one_direction_is_down_at_both_ends() {
    for (dead, other) in [(0, 1), (1, 0)] {
        let mut world = World::new(Settings::modern(), 20, 0.0, 0.0, 1);
        world.run(SECOND);
        world.send_data(0, Some(20));
        world.run(SECOND * 3);
        world.directions[dead].dead = true;
        let died = world.now;
        world.run(SECOND * 20);
        assert_eq!(world.states(), [State::Down, State::Down]);
        let downs = world.downs();
        assert_eq!(
            downs.len(),
            2,
            "no flapping while one direction is dead: {downs:?}"
        );
        assert!(downs[1].0.since(died) < Duration::from_millis(500));
        assert_eq!((downs[0].1, downs[1].1), (other, dead));
        assert_eq!(downs[1].2, Why::NotHeard);
        world.directions[dead].dead = false;
        world.run(SECOND * 4);
        assert_eq!(world.states(), [State::Up, State::Up]);
    }
}

#[test]
fn an_hour_of_bursty_loss_does_not_take_the_link_down() {
    // The worst case: one direction has data, the other one has hellos only. The last case has no data at all.
    for (p, data, seed) in [(0.2, Some(20), 1), (0.1, Some(20), 2), (0.2, None, 3)] {
        let mut world = World::new(Settings::modern(), 20, p, 0.5, seed);
        world.run(SECOND * 5);
        assert_eq!(world.states(), [State::Up, State::Up]);
        world.send_data(0, data);
        let before = world.hellos;
        world.run(SECOND * 3600);
        assert_eq!(world.downs(), [], "loss {p}, data {data:?}");
        let limit = if data.is_some() { 12_000.0 } else { 1_500.0 };
        for (hellos, before) in world.hellos.iter().zip(before) {
            let bps = (hellos - before) as f64 * HELLO_BITS / 3600.0;
            assert!(bps < limit, "at loss {p}, data {data:?}: {bps} bit/s");
        }
    }
}

#[test]
fn hellos_are_cheap_and_cheaper_when_idle() {
    let mut world = World::new(Settings::modern(), 20, 0.0, 0.0, 1);
    world.run(SECOND * 5);
    let before = world.hellos;
    world.run(SECOND * 100);
    let idle = world.hellos[0] - before[0];
    assert!((99..=101).contains(&idle), "{idle}");
    world.send_data(0, Some(100));
    world.run(SECOND * 100);
    let active = world.hellos[1] - before[1] - idle;
    assert!((990..1030).contains(&active), "{active}");
    // Both ends become idle again: neither keeps the other one active.
    world.send_data(0, None);
    world.run(SECOND * 5);
    assert!(!world.ends[0].is_active() && !world.ends[1].is_active());
}

#[test]
fn a_silent_link_is_tried_and_up_two_round_trips_after_it_is_back() {
    for outage_ms in [500, 2_000, 10_000, 60_000] {
        let mut world = World::new(Settings::modern(), 20, 0.0, 0.0, outage_ms);
        world.run(SECOND);
        world.send_data(0, Some(20));
        world.run(SECOND);
        world.set_dead(true);
        world.run(Duration::from_millis(outage_ms));
        assert!(
            world
                .ends
                .iter()
                .all(|end| !end.is_usable() && end.is_tried())
        );
        world.set_dead(false);
        let healed = world.now;
        // The next hello at the active pace, one way, and an answer take 100 + 2 · 20 ms. One more way is for the other
        // end.
        while world.states() != [State::Up, State::Up] {
            world.run(Duration::from_millis(1));
            assert!(world.now.since(healed) < SECOND.div(5), "{outage_ms}");
        }
        assert!(world.ends.iter().all(|end| !end.is_tried()));
    }
}

#[test]
fn a_link_that_stays_silent_is_given_up() {
    let mut world = World::new(Settings::modern(), 20, 0.0, 0.0, 1);
    world.run(SECOND * 5);
    world.set_dead(true);
    world.run(SECOND * 310);
    let given_up = |&&(_, _, event): &&(Time, usize, Event)| event == Event::GivenUp;
    assert_eq!(world.events.iter().filter(given_up).count(), 2);
    assert!(world.ends.iter().all(|end| !end.is_tried()));
    // The link still comes back, by a row of hellos.
    world.set_dead(false);
    world.run(SECOND * 3);
    assert_eq!(world.states(), [State::Up, State::Up]);
}

#[test]
fn outages_have_a_price_that_ends() {
    let mut world = World::new(Settings::modern(), 20, 0.0, 0.0, 1);
    world.run(SECOND);
    world.send_data(0, Some(20));
    world.run(SECOND);
    let mut prices = Vec::new();
    for _ in 0..9 {
        world.set_dead(true);
        world.run(SECOND);
        world.set_dead(false);
        world.run(SECOND * 9);
        assert_eq!(world.states(), [State::Up, State::Up]);
        prices.push(world.ends[0].price_us(world.now) / 1_000);
    }
    // Each outage adds 64 ms, and a minute in use halves the price. It is reported as a power of four.
    assert_eq!(prices, [64, 256, 256, 256, 256, 256, 256, 256, 256]);
    let ends = world.ends[0].price_ends(world.now).expect("it has a price");
    world.run(ends.since(world.now) - Duration::from_millis(1));
    assert_eq!(world.ends[0].price_us(world.now), 4_000);
    world.run(SECOND);
    assert_eq!(world.ends[0].price_us(world.now), 0);
    assert_eq!(world.ends[0].price_ends(world.now), None);
}

#[test]
fn a_host_that_slept_does_not_blame_the_link() {
    let mut end = Hello::new(Time::ZERO, Settings::modern());
    let at = |ms| Time::ZERO + Duration::from_millis(ms);
    for ms in (0..1000).step_by(100) {
        end.on_timeout(at(ms), Loss::NONE);
        let hello = Message {
            i_hear_you: true,
            interval_ms: 100,
            stamp_us: ms as u32,
            boot: 1,
            ..Message::default()
        };
        end.on_hello(at(ms), Duration::ZERO, &hello);
        end.on_data_sent(at(ms));
    }
    assert_eq!(end.state(), State::Up);
    let output = end.on_timeout(at(5_000), Loss::NONE);
    assert_eq!(output.event, None);
    assert!(end.is_usable());
    let mut ms = 5_000;
    while end.is_usable() && ms < 10_000 {
        ms += 5;
        end.on_data_sent(at(ms));
        end.on_timeout(at(ms), Loss::NONE);
    }
    assert!(
        (5_300..5_500).contains(&ms),
        "and is not blind for ever: {ms}"
    );
}

#[test]
fn closing_takes_the_link_down_without_holding_it_against_the_peer() {
    let mut world = World::new(Settings::modern(), 20, 0.0, 0.0, 1);
    world.run(SECOND);
    let now = world.now;
    let bye = world.ends[0].close(now, Loss::NONE);
    let event = world.ends[1].on_hello(now + SECOND.div(100), Duration::ZERO, &bye);
    let (why, tried) = (Why::Closing, false);
    assert_eq!(event, Some(Event::Down { why, tried }));
    assert_eq!(world.ends[1].price_us(now), 0);
}

#[test]
fn an_overtaken_hello_says_nothing() {
    let mut world = World::new(Settings::modern(), 20, 0.0, 0.0, 1);
    world.run(SECOND);
    let old = Message {
        stamp_us: 5,
        boot: 1,
        ..Message::default()
    };
    let now = world.now;
    assert_eq!(world.ends[0].on_hello(now, Duration::ZERO, &old), None);
    world.ends[0].on_restart(now);
    let event = world.ends[0].on_hello(now, Duration::ZERO, &old);
    assert_eq!(
        event,
        Some(Event::Down {
            why: Why::NotHeard,
            tried: true
        }),
        "a peer that restarted"
    );
}

#[test]
fn the_paper_says_hello_once_per_second_and_gives_up_after_ten() {
    let mut world = World::new(Settings::paper(), 20, 0.0, 0.0, 1);
    world.run(SECOND * 5);
    assert_eq!(world.states(), [State::Up, State::Up]);
    world.send_data(0, Some(20));
    let before = world.hellos;
    world.run(SECOND * 100);
    assert!((99..=101).contains(&(world.hellos[0] - before[0])));
    world.set_dead(true);
    let died = world.now;
    world.run(SECOND * 20);
    for (at, _, _) in world.downs() {
        let after = at.since(died).as_secs_f64();
        assert!((8.9..10.0).contains(&after), "{after}");
    }
    assert_eq!(world.downs().len(), 2);
}

#[test]
fn an_end_that_is_still_down_asks_the_other_that_is_up_and_idle() {
    let mut world = World::new(Settings::modern(), 10, 0.0, 0.0, 1);
    while world.ends[0].row == 0 {
        world.run(Duration::from_millis(1));
    }
    // The hellos that would have completed the row are lost. The other end continues at its idle pace.
    world.directions[1].dead = true;
    while !world.ends[1].is_usable() {
        world.run(Duration::from_millis(1));
    }
    world.run(Duration::from_millis(50));
    world.directions[1].dead = false;
    assert!(!world.ends[0].is_usable());
    world.run(Duration::from_millis(400));
    assert!(world.ends[0].is_usable());
}
