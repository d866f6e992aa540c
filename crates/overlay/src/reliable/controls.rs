//! The window of a lane. It consists of one control of the family, or of as many as the lane carries flows.
//!
//! For n flows there are n controls side by side. They share an acknowledgement in proportion to their windows. A loss
//! cuts the window of one control and not of the whole lane, as with n separate flows, for every member of the family
//! alike (MulTCP, Crowcroft and Oechslin 1998).
//!
//! Choice: the loss cuts the widest window of those that were not cut in this round trip. n separate flows send in
//! bursts, lose more than packets that are paced among others, and sometimes lose the clock of their acknowledgements.
//! If a lane spread its losses evenly, it would take a third more than they do.
//!
//! A loss that is not congestion ([`Causes`]) cuts no window, if the settings say so.
//!
//! With BBR there is one control, whatever the lane carries: its model describes the path, not a share of the path.

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
    /// The window was already cut for losses of transmissions before this one.
    cut_at: u64,
    recovering: bool,
    /// The window and threshold from before the last timeout, until it is known that the timeout was right.
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
    /// Creates the controls of one flow. `next` is the number of its next transmission: losses of earlier ones do not
    /// count.
    pub(super) fn new(settings: Settings, next: u64) -> Controls {
        Controls {
            flows: vec![One::new(&settings, next)],
            causes: Causes::default(),
            settings,
        }
    }

    /// Sets the number of flows that the lane carries now; `next` is the number of its next transmission.
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

    /// Returns the number of packets that may be in flight: whole packets of each flow. If the n flows added their
    /// fractions, each would gain half a packet, which is much if windows are small.
    pub(super) fn window(&self) -> f64 {
        self.flows.iter().map(One::window).sum()
    }

    /// Returns the rate at which to send, in packets per second, if the controls give one.
    pub(super) fn pace(&self) -> Option<f64> {
        self.flows.iter().map(|one| one.control.pace()).sum()
    }

    /// Takes in what an acknowledgement shows about the path.
    pub(super) fn on_delivered(&mut self, told: &Delivered) {
        self.causes.on_delivered(told);
        for one in &mut self.flows {
            one.control.on_delivered(told);
        }
    }

    /// Reacts to a standing queue of the lane's own packets, which makes other traffic late. `without` is the number of
    /// packets that could be in flight without the queue. Every control that was not cut in this round trip gives up a
    /// part of its window. `next` is the number of the next transmission.
    pub(super) fn on_own_queue(&mut self, now: Time, without: f64, next: u64) {
        // Choice: at most half of the window at once. The rate at which a queue drains is measured to within a few
        // packets.
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

    /// Takes in that something new has arrived; `highest` is the latest transmission that has.
    pub(super) fn on_ack(&mut self, ack: &Acked, highest: Option<u64>) {
        let window: f64 = self.flows.iter().map(|one| one.control.window()).sum();
        for one in &mut self.flows {
            let is_past = highest.is_some_and(|order| order >= one.cut_at);
            if one.recovering && is_past {
                one.recovering = false;
                one.control.on_recovered(ack.now);
            }
            // A packet that was sent after the timeout has arrived first, so the timeout was right.
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

    /// Takes in that the transmission `order` is lost; `next` is the number of the next one. Returns true if a window
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
        // Choice: the cut starts from the window and not from the packets in flight, because a window that an
        // application does not fill does not grow either.
        let in_flight = one.window() * at_least;
        one.control.on_congestion(now, in_flight, Congestion::Loss);
        one.cut_at = next;
        one.recovering = true;
        true
    }

    /// Returns the factor by which to enlarge a window before the control cuts it, so that the control keeps the share
    /// that it may keep. None if it may keep all.
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

    /// Whether all controls know that the path has room. Then the timer is not backed off.
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

    /// Takes back the last timeout: the packets that it took for lost have arrived, so the path was only slow.
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
