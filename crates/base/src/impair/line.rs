//! A pipe together with what is under way in it.

use super::{LossRule, Model, Pipe, Reason, Verdict};
use crate::pool::{Burst, Pool};
use crate::rng::Rng;
use crate::time::Time;
use std::collections::VecDeque;

/// Most packets under way in a line. 131 072 packets of 160 bytes cover 168 ms at 1 Gbit/s; full
/// ones of 1500 bytes, 1.6 s. Their buffers are bounded by their pool before that.
pub const LINE_PACKETS_MAX: usize = 1 << 17;

/// One direction of an impaired path, with the packets under way.
#[derive(Debug)]
pub struct Line<T> {
    pipe: Pipe,
    /// In the order of arrival.
    under_way: VecDeque<(Time, T)>,
}

impl<T> Line<T> {
    /// An empty line after `model`.
    pub fn new(model: Model, rng: Rng) -> Line<T> {
        Line {
            pipe: Pipe::new(model, rng),
            under_way: VecDeque::new(),
        }
    }

    /// The pipe, to look at its model and counts.
    pub fn pipe(&self) -> &Pipe {
        &self.pipe
    }

    /// Changes what the path is like; what is under way arrives as it would have.
    pub fn set_model(&mut self, model: Model) {
        self.pipe.set_model(model);
    }

    /// The same, bit by bit; see [`Pipe::follow`].
    pub fn follow(&mut self, model: Model) {
        self.pipe.follow(model);
    }

    /// Loses packets by a rule; see [`Pipe::set_loss_rule`].
    pub fn set_loss_rule(&mut self, rule: LossRule) {
        self.pipe.set_loss_rule(rule);
    }

    /// Lets two lines change their pipes: what is under way stays where it is. So what is pushed in
    /// between goes through the other's rate, queue and losses.
    pub fn swap_pipes(&mut self, other: &mut Line<T>) {
        core::mem::swap(&mut self.pipe, &mut other.pipe);
    }

    /// Takes the path down, or up again.
    pub fn set_outage(&mut self, outage: bool) {
        self.pipe.set_outage(outage);
    }

    /// The next packet that has arrived by `now`.
    pub fn pop_due(&mut self, now: Time) -> Option<T> {
        match self.under_way.front() {
            Some((at, _)) if *at <= now => self.under_way.pop_front().map(|(_, item)| item),
            _ => None,
        }
    }

    /// When the next packet arrives.
    pub fn next(&self) -> Option<Time> {
        self.under_way.front().map(|(at, _)| *at)
    }

    /// Packets under way.
    pub fn len(&self) -> usize {
        self.under_way.len()
    }

    /// True when nothing is under way.
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

    /// Behind everything that arrives no later. From the back: without reordering that is the end,
    /// with it the few packets that are overtaken are passed.
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
    /// Sends `item`, a packet of `bytes`. If it does not arrive it is dropped here and now.
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

/// What becomes of a datagram on its way into a line: its bytes, its fate, and when a copy of it
/// arrives, if one does.
pub type Witness<'a> = &'a mut dyn FnMut(&[u8], Verdict, Option<Time>);

impl Line<Burst> {
    /// Sends the datagrams of `burst`, each with a fate of its own. Those that follow each other
    /// and arrive at the same moment stay together. Copies take their buffers from `pool`.
    pub fn push_burst(&mut self, now: Time, burst: Burst, pool: &Pool) {
        self.push_burst_before(now, burst, pool, None);
    }

    /// The same before a witness, who sees each datagram in turn.
    pub fn push_burst_before(
        &mut self,
        now: Time,
        mut burst: Burst,
        pool: &Pool,
        mut witness: Option<Witness<'_>>,
    ) {
        // The first `run` datagrams of what is left of the burst arrive together.
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
            // A network without a buffer for the copy makes none.
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
                // What came before the copy arrives before it.
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
