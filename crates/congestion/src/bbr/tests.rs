//! These tests run BBR on a path of its own: one bottleneck with a buffer, random losses, and acknowledgements after a
//! round trip.

use super::*;
use crate::delivery::{Sampler, Stamp};
use std::collections::VecDeque;

/// A path. Segments have no size here: rates are in segments.
struct Link {
    rate: f64,
    rtt: Duration,
    buffer: f64,
    loss: f64,
}

/// The results of a sender on the path.
#[derive(Debug)]
struct Came {
    /// The rate of segments that arrived, per second.
    goodput: f64,
    /// The average of the queue, in segments.
    queue: f64,
    /// The lost share of everything that was sent.
    lost: f64,
}

struct World {
    link: Link,
    bbr: Bbr,
    sampler: Sampler,
    now: Time,
    /// When the bottleneck is free again.
    busy: Time,
    /// When the sender learns the result of each segment, and whether the segment has arrived. It learns of a loss with
    /// the next segment.
    flying: VecDeque<(Time, Stamp, Time, bool)>,
    in_flight: f64,
    due: Time,
    noise: u64,
    sent: f64,
    arrived: f64,
    lost: f64,
    queue: f64,
}

impl World {
    fn new(link: Link) -> World {
        World {
            link,
            bbr: Bbr::new(Settings::default()),
            sampler: Sampler::default(),
            now: Time::ZERO,
            busy: Time::ZERO,
            flying: VecDeque::new(),
            in_flight: 0.0,
            due: Time::ZERO,
            noise: 0x9e37_79b9_7f4a_7c15,
            sent: 0.0,
            arrived: 0.0,
            lost: 0.0,
            queue: 0.0,
        }
    }

    fn chance(&mut self) -> f64 {
        self.noise ^= self.noise << 13;
        self.noise ^= self.noise >> 7;
        self.noise ^= self.noise << 17;
        (self.noise >> 11) as f64 / (1u64 << 53) as f64
    }

    fn send(&mut self) {
        let stamp = self.sampler.on_sent(self.now, self.in_flight, 1.0);
        self.in_flight += 1.0;
        self.sent += 1.0;
        let queue = self.busy.since(self.now).as_secs_f64() * self.link.rate;
        self.queue += queue;
        let fits = queue < self.link.buffer;
        if fits {
            let step = Duration::from_secs_f64(1.0 / self.link.rate);
            self.busy = self.busy.max(self.now) + step;
        }
        let arrives = fits && self.chance() >= self.link.loss;
        let heard = self.busy.max(self.now) + self.link.rtt;
        self.flying.push_back((heard, stamp, self.now, arrives));
        let pace = self.bbr.pace().unwrap_or(1e6);
        self.due = self.due.max(self.now) + Duration::from_secs_f64(1.0 / pace);
    }

    fn hear(&mut self) {
        let Some((at, stamp, sent_at, arrives)) = self.flying.pop_front() else {
            return;
        };
        self.now = self.now.max(at);
        self.in_flight -= 1.0;
        if !arrives {
            self.lost += 1.0;
            return self.sampler.on_lost(1.0);
        }
        self.arrived += 1.0;
        self.sampler.on_arrived(self.now, Some(&stamp), 1.0);
        let limited = self.in_flight + 1.0 >= self.bbr.window().floor();
        let rtt = Some(self.now.since(sent_at));
        let told = self.sampler.take(self.now, rtt, self.in_flight, limited);
        self.bbr.on_delivered(&told);
    }

    fn run_ms(&mut self, ms: u64) {
        let end = self.now + Duration::from_millis(ms);
        while self.now < end {
            let is_open = self.in_flight < self.bbr.window().floor().max(1.0);
            let next = self.flying.front().map(|(at, ..)| *at);
            if is_open && next.is_none_or(|at| self.due.max(self.now) <= at) {
                self.now = self.now.max(self.due);
                self.send();
            } else {
                self.hear();
            }
        }
    }

    fn run(&mut self, seconds: u64) -> Came {
        let (sent, arrived, lost, queue) = (self.sent, self.arrived, self.lost, self.queue);
        self.run_ms(seconds * 1_000);
        let sent = self.sent - sent;
        Came {
            goodput: (self.arrived - arrived) / seconds as f64,
            queue: (self.queue - queue) / sent,
            lost: (self.lost - lost) / sent,
        }
    }
}

/// 1000 segments per second are 12 Mbit/s.
fn link(rate: f64, rtt_ms: u64, buffer: f64, loss: f64) -> Link {
    let rtt = Duration::from_millis(rtt_ms);
    Link {
        rate,
        rtt,
        buffer: buffer * rate * rtt.as_secs_f64(),
        loss,
    }
}

#[test]
fn it_fills_a_path_whatever_the_path_loses_and_leaves_its_queue_short() {
    for rate in [1_000.0, 4_000.0, 8_000.0] {
        for rtt_ms in [10, 50, 100] {
            for loss in [0.0, 0.01, 0.02, 0.05] {
                let mut world = World::new(link(rate, rtt_ms, 1.0, loss));
                world.run(5);
                let came = world.run(20);
                let product = rate * rtt_ms as f64 / 1e3;
                let what = format!("{rate}/s {rtt_ms} ms {loss}: {came:?}");
                assert!(came.goodput >= 0.9 * rate * (1.0 - loss), "{what}");
                assert!(came.queue <= 0.5 * product + QUANTUM, "{what}");
                assert!(came.lost <= loss + 0.02, "{what}");
            }
        }
    }
}

#[test]
fn a_buffer_of_few_segments_is_not_flooded() {
    let mut world = World::new(link(4_000.0, 50, 0.05, 0.0));
    world.run(5);
    let came = world.run(20);
    assert!(came.goodput >= 0.8 * 4_000.0, "{came:?}");
    assert!(came.lost < 0.03, "{came:?}");
}

#[test]
fn it_follows_a_path_that_becomes_faster_slower_and_longer() {
    let mut world = World::new(link(1_000.0, 40, 1.0, 0.0));
    world.run(5);
    world.link.rate = 4_000.0;
    world.link.buffer *= 4.0;
    world.run(12);
    let faster = world.run(5);
    assert!(faster.goodput >= 0.9 * 4_000.0, "{faster:?}");
    world.link.rate = 500.0;
    world.link.buffer = 40.0;
    world.run(10);
    let slower = world.run(10);
    assert!(slower.goodput >= 0.9 * 500.0, "{slower:?}");
    assert!(slower.lost <= 0.05, "{slower:?}");
    world.link.rtt = Duration::from_millis(120);
    world.run(25);
    let longer = world.run(10);
    assert!(longer.goodput >= 0.85 * 500.0, "{longer:?}");
}

#[test]
fn a_timeout_leaves_one_segment_and_the_next_answers_bring_the_window_back() {
    let mut world = World::new(link(1_000.0, 50, 1.0, 0.0));
    world.run(5);
    let before = world.bbr.window();
    world.bbr.on_timeout(world.now, before);
    assert_eq!(world.bbr.window(), 1.0);
    world.run(1);
    assert!(world.bbr.window() > 0.8 * before);
    assert!(world.run(2).goodput > 900.0);
}

#[test]
fn marks_bound_it_as_losses_do() {
    let mut world = World::new(link(1_000.0, 50, 4.0, 0.0));
    world.run(8);
    // This path marks packets whenever something waits.
    let mut most: f64 = 0.0;
    for _ in 0..200 {
        world.run_ms(50);
        let waits = world.busy.since(world.now).as_secs_f64() * 1_000.0;
        most = most.max(waits);
        if waits > 5.0 {
            world
                .bbr
                .on_congestion(world.now, 0.0, Congestion::Explicit);
        }
    }
    assert!(most < 30.0, "{most}");
    assert!(world.run(4).goodput > 850.0);
}
