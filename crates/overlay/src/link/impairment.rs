//! The emulated network in front of a link (lab mode): the decisions of `base::impair`, applied to sealed datagrams,
//! separately for each segment of a burst. Packets under way take no slot of the pool.

use crate::event::{Drop, Event};
use crate::node::Node;
use base::impair::{Model, Pipe, Reason, Verdict};
use base::{Burst, Outbox, Pool, Rng, Time, UnderlayAddr};
use std::collections::VecDeque;

/// Maximum number of bursts under way in one direction. 100 ms at 600 000 packets/s in bursts of 16 are 3 750.
const MAX_IN_FLIGHT: usize = 8_192;

/// An emulated path and the packets under way on it.
#[derive(Debug)]
pub struct Impairment {
    pipe: Pipe,
    /// The randomness for the other paths.
    others: Rng,
    /// The delayed bursts, in order of release.
    in_flight: VecDeque<(Time, Burst)>,
}

impl Impairment {
    /// Returns a path that behaves as `model` says.
    pub fn new(model: Model, rng: Rng) -> Impairment {
        Impairment {
            others: rng.clone(),
            pipe: Pipe::new(model, rng),
            in_flight: VecDeque::new(),
        }
    }

    /// Returns the same network for another path of the link.
    pub(crate) fn of_other_path(&mut self) -> Impairment {
        Impairment::new(self.model().clone(), self.others.fork())
    }

    /// Returns the path's model.
    pub fn model(&self) -> &Model {
        self.pipe.model()
    }

    /// Changes the model; packets under way stay under way.
    pub fn set_model(&mut self, model: Model) {
        self.pipe.set_model(model);
    }

    /// Sends a burst into the emulated network. Survivors with the same time of release stay together. `dropped` is
    /// called with the reason of each loss.
    pub fn push(
        &mut self,
        now: Time,
        mut burst: Burst,
        pool: &Pool,
        mut dropped: impl FnMut(Drop),
    ) {
        let mut copies = Vec::new();
        let mut judge = |pipe: &mut Pipe, datagram: &[u8]| {
            let verdict = pipe.admit(now, datagram.len());
            if let Verdict::Deliver(at) = verdict
                && let Some(again) = pipe.copy_of(at)
            {
                copies.extend(pool.copy_of(0, datagram).map(|copy| (again, copy)));
            }
            verdict
        };
        while !burst.is_empty() {
            let first = judge(&mut self.pipe, burst.segment(0));
            let mut count = 1;
            let mut next = None;
            while count < burst.segments() {
                let verdict = judge(&mut self.pipe, burst.segment(count));
                if verdict != first {
                    next = Some(verdict);
                    break;
                }
                count += 1;
            }
            let run = burst.split_front(count);
            self.settle(first, run, pool, &mut dropped);
            // The packet that ended the run has been judged. It is settled alone, so that no packet is judged twice.
            if let Some(verdict) = next {
                let one = burst.split_front(1);
                self.settle(verdict, one, pool, &mut dropped);
            }
        }
        for (at, copy) in copies {
            if self.in_flight.len() < MAX_IN_FLIGHT {
                self.insert(at, copy);
            }
        }
    }

    fn settle(
        &mut self,
        verdict: Verdict,
        mut run: Burst,
        pool: &Pool,
        dropped: &mut impl FnMut(Drop),
    ) {
        let reason = match verdict {
            Verdict::Deliver(_) if self.in_flight.len() >= MAX_IN_FLIGHT => Drop::ImpairedQueue,
            Verdict::Deliver(at) => {
                pool.keep(&mut run);
                return self.insert(at, run);
            }
            Verdict::Drop(Reason::Loss) => Drop::ImpairedLoss,
            Verdict::Drop(Reason::Outage) => Drop::ImpairedOutage,
            Verdict::Drop(Reason::Mtu) => Drop::ImpairedMtu,
            Verdict::Drop(Reason::Queue | Reason::Full) => Drop::ImpairedQueue,
        };
        for _ in 0..run.segments() {
            dropped(reason);
        }
    }

    /// Inserts a run behind everything that is released no later. The search begins at the back, because only a path
    /// that reorders lets packets overtake others.
    fn insert(&mut self, at: Time, run: Burst) {
        let later = |other: &&(Time, Burst)| other.0 > at;
        let overtaken = self.in_flight.iter().rev().take_while(later).count();
        let place = self.in_flight.len() - overtaken;
        self.in_flight.insert(place, (at, run));
    }

    /// Sends a burst towards `to`, together with the bursts that have reached the end meanwhile. It counts what the
    /// emulated network drops.
    pub(super) fn transmit(
        &mut self,
        now: Time,
        to: UnderlayAddr,
        burst: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        let mut drops = [0u32; Drop::ALL.len()];
        let pool = out.pool().clone();
        self.push(now, burst, &pool, |reason| drops[reason as usize] += 1);
        for reason in Drop::ALL {
            let packets = drops[reason as usize];
            if packets > 0 {
                out.report(Event::Dropped { reason, packets });
            }
        }
        self.release(now, to, out);
    }

    /// Returns a burst that has reached the end of the path.
    pub fn pop_due(&mut self, now: Time) -> Option<Burst> {
        match self.in_flight.front() {
            Some((at, _)) if *at <= now => self.in_flight.pop_front().map(|(_, burst)| burst),
            _ => None,
        }
    }

    /// Sends everything to `to` that has reached the end of the path.
    pub fn release(&mut self, now: Time, to: UnderlayAddr, out: &mut impl Outbox<Node>) {
        while let Some(burst) = self.pop_due(now) {
            out.send(to, burst);
        }
    }

    /// When the next burst reaches the end.
    pub fn next_timeout(&self) -> Option<Time> {
        self.in_flight.front().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Duration;

    #[test]
    fn a_path_that_reorders_lets_packets_overtake_others() {
        let model: Model = "delay=10ms jitter=5ms reorder".parse().unwrap();
        let mut path = Impairment::new(model, Rng::new(5));
        let pool = Pool::new(64, 1_024);
        for n in 0..200u32 {
            let at = Time::ZERO + Duration::from_micros(u64::from(n) * 100);
            let one = pool.copy_of(0, &n.to_be_bytes()).unwrap();
            path.push(at, one, &pool, |_| panic!("nothing is lost"));
        }
        let mut arrived = Vec::new();
        while let Some(at) = path.next_timeout() {
            let burst = path.pop_due(at).unwrap();
            let n = u32::from_be_bytes(burst.bytes().try_into().unwrap());
            let delay = at.since(Time::ZERO + Duration::from_micros(u64::from(n) * 100));
            assert!((10_000..=15_000).contains(&delay.as_micros()), "{delay}");
            arrived.push(n);
        }
        assert_eq!(arrived.len(), 200);
        assert!(!arrived.is_sorted());
    }

    #[test]
    fn a_path_that_duplicates_brings_packets_twice() {
        let model: Model = "delay=10ms duplicate=50%".parse().unwrap();
        let mut path = Impairment::new(model, Rng::new(5));
        let pool = Pool::new(64, 1_024);
        let mut burst = pool.large().unwrap();
        (0..100u32).for_each(|n| assert!(burst.append(&n.to_be_bytes())));
        path.push(Time::ZERO, burst, &pool, |_| panic!("nothing is lost"));
        let mut arrived = [0; 100];
        while let Some(burst) = path.pop_due(Time::ZERO + Duration::from_millis(10)) {
            for i in 0..burst.segments() {
                let n = u32::from_be_bytes(burst.segment(i).try_into().unwrap());
                arrived[n as usize] += 1;
            }
        }
        assert!(arrived.iter().all(|n| (1..=2).contains(n)));
        let twice = arrived.iter().filter(|n| **n == 2).count();
        assert!((30..70).contains(&twice), "{twice} came twice");
        assert_eq!(pool.in_use(), (0, 0));
    }

    #[test]
    fn losses_act_on_segments_and_survivors_keep_their_order() {
        let model: Model = "loss=30% delay=10ms".parse().unwrap();
        let mut path = Impairment::new(model, Rng::new(5));
        let pool = Pool::new(64, 64);
        let (mut lost, mut sent) = (0, 0u32);
        for _ in 0..20 {
            let mut burst = pool.large().unwrap();
            for _ in 0..16 {
                burst.append(&sent.to_be_bytes());
                sent += 1;
            }
            path.push(Time::ZERO, burst, &pool, |_| lost += 1);
        }
        assert!(path.pop_due(Time::from_nanos(9_999_999)).is_none());
        let mut arrived = Vec::new();
        while let Some(burst) = path.pop_due(Time::ZERO + Duration::from_millis(10)) {
            for i in 0..burst.segments() {
                arrived.push(u32::from_be_bytes(burst.segment(i).try_into().unwrap()));
            }
        }
        assert_eq!(arrived.len() + lost, sent as usize);
        assert!(
            arrived.is_sorted() && (50..150).contains(&lost),
            "{lost} lost"
        );
        drop(arrived);
        assert_eq!(pool.in_use(), (0, 0));
    }
}
