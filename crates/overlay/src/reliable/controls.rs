//! The window of a lane: one member of the family, or as many as the lane carries flows.
//!
//! n flows are n controls side by side. An acknowledgement is shared out by their windows; a loss
//! costs one flow's share and not the lane's, as n flows beside each other would do, for every
//! member of the family alike (MulTCP, Crowcroft and Oechslin 1998).
//!
//! Choice: it costs the widest of those that have not answered a loss in this round trip. n flows of
//! their own send in bursts, lose more than one packet paced among others does, and now and then
//! the clock of their acknowledgements; a lane that spread its losses evenly would take a third
//! more than they do.
//!
//! A loss that is no congestion ([`Causes`]) costs nobody anything, where the settings say so.
//!
//! BBR is one, whatever the lane carries: a model of the path is not that of a share of it.

use super::Settings;
use base::{Duration, Time};
use congestion::delivery::Delivered;
use congestion::{Acked, Causes, Congestion, Control, Family};

/// The controls of a lane.
#[derive(Debug)]
pub(super) struct Controls {
    settings: Settings,
    flows: Vec<One>,
    causes: Causes,
}

#[derive(Debug)]
struct One {
    control: Box<dyn Control + Send>,
    /// Losses of transmissions before this one have been answered already.
    cut_at: u64,
    recovering: bool,
    /// Window and threshold of before the last timeout, as long as it is not known to have been right.
    before: Option<(f64, f64)>,
}

impl One {
    fn window(&self) -> f64 {
        self.control.window().floor()
    }

    fn new(settings: &Settings, next: u64) -> One {
        One {
            control: settings.family.control(settings.control()),
            cut_at: next,
            recovering: false,
            before: None,
        }
    }
}

impl Controls {
    /// One flow. `next` is the number of its next transmission: losses of earlier ones are not its own.
    pub(super) fn new(settings: Settings, next: u64) -> Controls {
        Controls {
            flows: vec![One::new(&settings, next)],
            causes: Causes::default(),
            settings,
        }
    }

    /// The lane carries so many flows now; `next` is the number of its next transmission.
    pub(super) fn set_flows(&mut self, count: usize, next: u64) {
        let most = match self.settings.family {
            Family::Bbr => 1,
            _ => self.settings.flows_max.max(1),
        };
        let count = count.clamp(1, most);
        self.flows.truncate(count);
        while self.flows.len() < count {
            self.flows.push(One::new(&self.settings, next));
        }
    }

    pub(super) fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Packets that may be in flight: whole ones of each flow. Fractions that n flows lend each other
    /// are half a packet for each, which is much where windows are small.
    pub(super) fn window(&self) -> f64 {
        self.flows.iter().map(One::window).sum()
    }

    /// Packets per second at which to send, if the controls say so.
    pub(super) fn pace(&self) -> Option<f64> {
        self.flows.iter().map(|one| one.control.pace()).sum()
    }

    /// What an acknowledgement tells of the path.
    pub(super) fn on_delivered(&mut self, told: &Delivered) {
        self.causes.on_delivered(told);
        for one in &mut self.flows {
            one.control.on_delivered(told);
        }
    }

    /// A queue of the own packets stands, and makes others late who do not wait; so many packets could be in flight
    /// without it. Every control gives up a part of its window, those that have not in this round trip; `next` is the
    /// number of the next transmission.
    pub(super) fn on_own_queue(&mut self, now: Time, without: f64, next: u64) {
        // Choice: half of it at once at most. What leaves a queue is measured to within a few packets.
        let left = (without / self.window().max(1.0)).clamp(0.5, 1.0);
        for one in self.flows.iter_mut().filter(|one| !one.recovering) {
            let in_flight = one.window() * left;
            one.control
                .on_congestion(now, in_flight, Congestion::Explicit);
            (one.cut_at, one.recovering) = (next, true);
        }
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.flows
            .iter()
            .any(|one| !one.recovering && one.control.in_slow_start())
    }

    /// Something new has arrived; `highest` is the latest transmission that did.
    pub(super) fn on_ack(&mut self, ack: &Acked, highest: Option<u64>) {
        let window: f64 = self.flows.iter().map(|one| one.control.window()).sum();
        for one in &mut self.flows {
            let is_past = highest.is_some_and(|order| order >= one.cut_at);
            if one.recovering && is_past {
                one.recovering = false;
                one.control.on_recovered(ack.now);
            }
            // What was sent after the timeout has come first: it was right.
            one.before = one.before.filter(|_| !is_past);
            let share = one.control.window() / window;
            if one.recovering {
                one.control.on_arrived(ack.now, ack.segments * share);
            } else {
                one.control.on_ack(&Acked {
                    segments: ack.segments * share,
                    bytes: (ack.bytes as f64 * share) as u64,
                    in_flight: ack.in_flight * share,
                    ..*ack
                });
            }
        }
    }

    /// The transmission `order` is lost; `next` is the number of the next one. True when a window
    /// was cut.
    pub(super) fn on_loss(&mut self, now: Time, order: u64, next: u64) -> bool {
        let Some(at_least) = self.left_by_loss() else {
            return false;
        };
        let is_open = |one: &&mut One| order >= one.cut_at;
        let widest = |a: &&mut One, b: &&mut One| a.control.window().total_cmp(&b.control.window());
        let Some(one) = self.flows.iter_mut().filter(is_open).max_by(widest) else {
            return false;
        };
        // Choice: cut from the window and not from what is in flight: a window that an application
        // does not fill does not grow either.
        let in_flight = one.window() * at_least;
        one.control.on_congestion(now, in_flight, Congestion::Loss);
        one.cut_at = next;
        one.recovering = true;
        true
    }

    /// By how much more than its window a control is to be cut from, so that it keeps what it may; none where it
    /// may keep all.
    fn left_by_loss(&self) -> Option<f64> {
        let kept = self.settings.family.kept_on_loss(&self.settings.control());
        match kept.filter(|_| self.settings.spares_random_losses) {
            None => Some(1.0),
            Some(kept) => {
                let may_keep = self.causes.kept(kept);
                (may_keep < 1.0).then_some(may_keep / kept)
            }
        }
    }

    /// The path has room by what all of them know: the timer is not to be backed off.
    pub(super) fn aborts_timeout(&self) -> bool {
        self.flows.iter().all(|one| one.control.aborts_timeout())
    }

    pub(super) fn on_timeout(&mut self, now: Time, next: u64) {
        for one in &mut self.flows {
            let in_flight = one.window();
            let before = (one.control.window(), one.control.threshold());
            one.before.get_or_insert(before);
            one.control.on_timeout(now, in_flight);
            one.cut_at = next;
            one.recovering = false;
        }
    }

    /// What the last timeout took for lost has come: the path was slow, and no more.
    pub(super) fn undo_timeout(&mut self) {
        for one in &mut self.flows {
            if let Some((window, threshold)) = one.before.take() {
                one.control.undo_timeout(window, threshold);
            }
        }
    }

    pub(super) fn on_idle(&mut self, idle: Duration, rto: Duration) {
        for one in &mut self.flows {
            one.control.on_idle(idle, rto);
        }
    }
}
