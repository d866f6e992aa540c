//! A pipe together with the packets under way in it.

use super::{LossRule, Model, Pipe, Reason, Verdict};
use crate::pool::{Burst, Pool};
use crate::rng::Rng;
use crate::time::Time;
use std::collections::VecDeque;

/// Largest number of packets under way in a line. 131 072 packets of 160 bytes cover 168 ms at 1 Gbit/s; full ones of
/// 1500 bytes, 1.6 s. The pool bounds their buffers before that.
pub const LINE_PACKETS_MAX: usize = 1 << 17;

/// One direction of an impaired path, with the packets under way.
#[derive(Debug)]
pub struct Line<T> {
    pipe: Pipe,
    /// The packets in the order of arrival.
    under_way: VecDeque<(Time, T)>,
}

impl<T> Line<T> {
    /// Creates an empty line for `model`.
    pub fn new(model: Model, rng: Rng) -> Line<T> {
        Line {
            pipe: Pipe::new(model, rng),
            under_way: VecDeque::new(),
        }
    }

    /// Returns the pipe, to read its model and counts.
    pub fn pipe(&self) -> &Pipe {
        &self.pipe
    }

    /// Changes the model of the path; packets under way arrive at their original times.
    pub fn set_model(&mut self, model: Model) {
        self.pipe.set_model(model);
    }

    /// Does the same gradually; see [`Pipe::follow`].
    pub fn follow(&mut self, model: Model) {
        self.pipe.follow(model);
    }

    /// Loses packets by a rule; see [`Pipe::set_loss_rule`].
    pub fn set_loss_rule(&mut self, rule: LossRule) {
        self.pipe.set_loss_rule(rule);
    }

    /// Exchanges the pipes of two lines; packets under way stay in their line. Packets that are pushed until the pipes
    /// are exchanged again are subject to the other line's rate, queue and losses.
    pub fn swap_pipes(&mut self, other: &mut Line<T>) {
        core::mem::swap(&mut self.pipe, &mut other.pipe);
    }

    /// Takes the path down, or up again.
    pub fn set_outage(&mut self, outage: bool) {
        self.pipe.set_outage(outage);
    }

    /// Returns the next packet that has arrived by `now`.
    pub fn pop_due(&mut self, now: Time) -> Option<T> {
        match self.under_way.front() {
            Some((at, _)) if *at <= now => self.under_way.pop_front().map(|(_, item)| item),
            _ => None,
        }
    }

    /// Returns when the next packet arrives.
    pub fn next(&self) -> Option<Time> {
        self.under_way.front().map(|(at, _)| *at)
    }

    /// Returns the number of packets under way.
    pub fn len(&self) -> usize {
        self.under_way.len()
    }

    /// Returns true if nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Drops everything under way.
    pub fn clear(&mut self) {
        self.under_way.clear();
    }

    fn admit(&mut self, now: Time, bytes: usize) -> Verdict {
        if self.under_way.len() >= LINE_PACKETS_MAX {
            self.pipe.counts.count(Reason::Full);
            return Verdict::Drop(Reason::Full);
        }
        self.pipe.admit(now, bytes)
    }

    /// Inserts a packet behind all that arrive no later. It searches from the back: without reordering that is the
    /// position, with reordering it passes the few packets that are overtaken.
    fn insert(&mut self, at: Time, item: T) {
        let overtaken = self
            .under_way
            .iter()
            .rev()
            .take_while(|(other, _)| *other > at)
            .count();
        match overtaken {
            0 => self.under_way.push_back((at, item)),
            n => self.under_way.insert(self.under_way.len() - n, (at, item)),
        }
    }
}

impl<T: Clone> Line<T> {
    /// Sends `item`, a packet of `bytes`. If it will not arrive, it is dropped at once.
    pub fn push(&mut self, now: Time, bytes: usize, item: T) -> Verdict {
        let verdict = self.admit(now, bytes);
        if let Verdict::Deliver(at) = verdict {
            let again = self.pipe.copy_of(at);
            let copy = again.map(|again| (again, item.clone()));
            self.insert(at, item);
            if let Some((again, copy)) = copy {
                self.insert(again, copy);
            }
        }
        verdict
    }
}

/// Observes a datagram on its way into a line: its bytes, its fate, and when a copy of it arrives, if there is one.
pub type Witness<'a> = &'a mut dyn FnMut(&[u8], Verdict, Option<Time>);

impl Line<Burst> {
    /// Sends the datagrams of `burst`, each with a fate of its own. Consecutive datagrams that arrive at the same time
    /// stay together. Copies take their buffers from `pool`.
    pub fn push_burst(&mut self, now: Time, burst: Burst, pool: &Pool) {
        self.push_burst_before(now, burst, pool, None);
    }

    /// Does the same with a witness, which sees each datagram in turn.
    pub fn push_burst_before(
        &mut self,
        now: Time,
        mut burst: Burst,
        pool: &Pool,
        mut witness: Option<Witness<'_>>,
    ) {
        // The first `run` datagrams of the rest of the burst arrive together.
        let (mut run, mut run_at) = (0, now);
        for _ in 0..burst.segments() {
            let datagram = burst.segment(run);
            let verdict = self.admit(now, datagram.len());
            let again = match verdict {
                Verdict::Deliver(at) => self.pipe.copy_of(at),
                Verdict::Drop(_) => None,
            };
            if let Some(witness) = &mut witness {
                witness(datagram, verdict, again);
            }
            // Without a buffer, there is no copy.
            let copy = again.and_then(|at| Some((at, pool.copy_of(0, datagram)?)));
            if run > 0 && verdict != Verdict::Deliver(run_at) {
                self.insert(run_at, burst.split_front(run));
                run = 0;
            }
            match verdict {
                Verdict::Deliver(at) => (run, run_at) = (run + 1, at),
                Verdict::Drop(_) => drop(burst.split_front(1)),
            }
            if let Some((at, copy)) = copy {
                // Datagrams that were sent before the copy arrive before it.
                let before = burst.split_front(run);
                self.insert(run_at, before);
                run = 0;
                self.insert(at, copy);
            }
        }
        if run > 0 {
            self.insert(run_at, burst);
        }
    }
}
