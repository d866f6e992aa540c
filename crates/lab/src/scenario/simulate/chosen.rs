//! Applies the parts of a simulation that a program decides, and calls its observer.

use super::Simulation;
use crate::scenario::custom::{Custom, Look, Moment};
use base::{Duration, Time};

/// An observer that is called from time to time.
pub(super) struct Looks {
    every: Duration,
    /// The next call, counted from the scenario's zero.
    next: Duration,
    look: Look,
}

impl Simulation<'_> {
    /// Applies the program's parts to a simulation at its beginning, of the same scenario.
    pub(crate) fn customise(&mut self, custom: Custom<'_>) {
        for (of, source) in custom.sources {
            self.streams.choose(of, source);
        }
        let zero_s = self.zero().as_secs_f64();
        for ((from, to), mut rule) in custom.loss_rules {
            let hosts = &self.network.hosts;
            let rule = move |at: Time, bytes| rule(at.as_secs_f64() - zero_s, bytes);
            self.world
                .set_loss_rule(hosts[from], hosts[to], Box::new(rule));
        }
        self.look = custom.look.map(|(every, look)| Looks {
            every,
            next: every,
            look,
        });
        if custom.keeps_packets {
            self.streams.keep_packets();
        }
    }

    /// Calls the observer if it is time. The call is at the end of a slice, some milliseconds late, so that it changes
    /// nothing.
    pub(super) fn show(&mut self) {
        let now = self.world.now();
        let last = self.scenario.duration;
        let is_due = |looks: &Looks| looks.next <= last && self.zero() + looks.next <= now;
        if !self.look.as_ref().is_some_and(is_due) {
            return;
        }
        let moment = Moment {
            at_s: now.since(self.zero()).as_secs_f64(),
            links: self.links(),
            flows: self.streams.so_far(&self.world, &self.network),
        };
        if let Some(looks) = &mut self.look {
            (looks.look)(&moment);
            while self.scenario.settle + looks.next <= now.since(Time::ZERO) {
                looks.next += looks.every;
            }
        }
    }
}
