//! The values that a node announces about the real-time lane of a link: the length of its runs of losses, and the
//! amount of repair that is sent.
//!
//! Both values are damped like latency and loss, each on its own. The length of runs is announced in steps, and not at
//! all for a link with hardly any loss: an estimate that varies within a step floods nothing. When repair pauses,
//! others are told after a moment; when it continues, they are told after a longer while.

use super::{Announce, Damped, Threshold};
use base::Time;
use graph::protection::Lane;
use wire::link_state::Protection;

/// Change of the mean run, in 256ths. Choice: the mean of 50 runs of random length is off by a tenth; the values that
/// can be announced have steps of a quarter and more.
const RUN: Threshold = Threshold {
    worse: 0.25,
    clearly_worse: 0.6,
    better: 0.25,
    clearly_better: 0.5,
    floor: 64,
};
/// Change of the repair that is missing, in 16ths: every change counts. A queue counts as one more.
const BARE: Threshold = Threshold {
    worse: 0.0,
    clearly_worse: 0.0,
    better: 0.0,
    clearly_better: 0.0,
    floor: 0,
};
/// Runs are not announced for links with less loss than this (shares of 65 536: 0.1 %).
const LOSS_LEAST: u32 = 66;
/// No repair, because packets are lost in a queue. Without a queue, the most that can be missing is one less.
const QUEUE: u32 = u8::MAX as u32 + 1;

/// The lane of one link under damping.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    run: Damped,
    /// How much repair is missing from the maximum that can be announced. So a larger value is worse; [`QUEUE`] is the
    /// worst.
    bare: Damped,
    /// When a value was last announced since the link came up. Separate from the cost: when both become worse, one must
    /// not wait for the other.
    pub(super) last: Option<Time>,
    knows_run: bool,
}

impl Lanes {
    pub(super) fn new(damped: Damped) -> Lanes {
        Lanes {
            run: damped.clone(),
            bare: damped,
            last: None,
            knows_run: false,
        }
    }

    /// The link comes up: announcements from before it was down no longer apply.
    pub(super) fn begin(&mut self) {
        self.last = None;
        self.knows_run = false;
    }

    /// Returns the damped values.
    pub(super) fn both(&self) -> [&Damped; 2] {
        [&self.run, &self.bare]
    }

    fn told(&self) -> Lane {
        Lane {
            run_256ths: match self.knows_run {
                true => self.run.announced as u16,
                false => 0,
            },
            // A queue allows no repair.
            repair_16ths: u8::MAX - self.bare.announced.min(u8::MAX.into()) as u8,
        }
    }
}

impl Announce {
    /// Returns what is announced of the lane; `asks` says whether this end requests what it misses. `None` before
    /// anything is known.
    pub fn protection(&self, asks: bool) -> Option<Protection> {
        self.last.and(self.lanes.last)?;
        let lane = self.lanes.told();
        let run = match self.loss.announced < LOSS_LEAST {
            true => 0,
            false => lane.run_256ths,
        };
        let is_queued = self.lanes.bare.announced == QUEUE;
        Some(Protection::new(run, lane.repair_16ths, asks).with_queue(is_queued))
    }

    /// Takes in the lane's present state; the run is 0 while the neighbour has not reported it, and `is_queued` if a
    /// queue may drop packets. Returns true if the lane is to be announced again. To be called with
    /// [`Announce::on_measure`].
    pub fn on_lane(&mut self, now: Time, lane: Lane, is_queued: bool) -> bool {
        if self.last.is_none() || self.is_silent {
            return false;
        }
        let before = self.protection(true);
        let last = self.lanes.last;
        let spaced = last.is_none_or(|last| now.since(last) >= self.settings.spacing);
        let (run, bare) = match lane.repair_16ths {
            0 if is_queued => (lane.run_256ths, QUEUE),
            repair => (lane.run_256ths, u32::from(u8::MAX - repair)),
        };
        let Lanes {
            run: runs,
            bare: bares,
            knows_run,
            ..
        } = &mut self.lanes;
        match *knows_run {
            true if run > 0 => {
                runs.follow(now, run.into(), RUN, spaced, &self.settings);
            }
            false if run > 0 => {
                runs.set(run.into());
                *knows_run = true;
            }
            // A spell from before the neighbour's restart ends: nothing follows it, and its end would stay due.
            _ => runs.set(runs.announced),
        }
        match last {
            Some(_) => {
                bares.follow(now, bare, BARE, spaced, &self.settings);
            }
            None => {
                bares.set(bare);
                self.lanes.last = Some(now);
            }
        }
        let is_news = self.protection(true) != before;
        if is_news {
            self.lanes.last = Some(now);
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;
    use base::{Duration, Rng};
    use graph::LinkCost;

    fn at(s: u64) -> Time {
        Time::ZERO + Duration::from_secs(s)
    }

    fn lane(run: f64, repair_16ths: u8) -> Lane {
        Lane {
            run_256ths: (run * 256.0) as u16,
            repair_16ths,
        }
    }

    fn up(loss: f64) -> Announce {
        let mut announce = Announce::new(Settings::modern());
        announce.on_link_up(at(100), LinkCost::new(60_000, loss));
        announce
    }

    #[test]
    fn a_lane_is_told_once_it_is_known_and_runs_of_a_link_that_loses() {
        let mut announce = up(0.05);
        assert_eq!(announce.protection(true), None);
        assert!(announce.on_lane(at(101), lane(0.0, 16), false));
        let told = |announce: &Announce| announce.protection(true).unwrap();
        assert_eq!(told(&announce), Protection::new(0, 16, true));
        assert!(
            announce.on_lane(at(102), lane(2.0, 16), false),
            "now it is known"
        );
        assert_eq!(told(&announce), Protection::new(512, 16, true));
        let mut clean = up(0.0);
        assert!(clean.on_lane(at(101), lane(1.0, 16), false));
        assert!(!clean.on_lane(at(102), lane(5.0, 16), false));
        assert_eq!(told(&clean), Protection::new(0, 16, true));
        announce.on_link_down();
        assert_eq!(announce.protection(true), None);
        assert!(!announce.on_lane(at(103), lane(2.0, 0), false));
    }

    #[test]
    fn an_estimate_that_wanders_floods_nothing_and_one_that_has_changed_is_told() {
        let mut announce = up(0.05);
        let mut rng = Rng::new(7);
        announce.on_lane(at(101), lane(2.0, 16), false);
        let mut told = 0;
        for s in 102..3_700 {
            // Off by a tenth, one standard deviation, and independent each second.
            let off: f64 = (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
            told += u32::from(announce.on_lane(at(s), lane(2.0 + 0.2 * off, 16), false));
        }
        assert_eq!(told, 0);
        let began = at(3_700);
        let s = (3_700..3_800).find(|s| announce.on_lane(at(*s), lane(5.0, 16), false));
        let s = s.expect("it has changed");
        assert!(at(s).since(began) <= Duration::from_secs(2), "{s}");
        assert_eq!(announce.protection(true).unwrap().run_256ths(), Some(1_024));
    }

    #[test]
    fn a_neighbor_that_restarts_leaves_no_spell_behind() {
        let mut announce = up(0.05);
        announce.on_lane(at(101), lane(2.0, 16), false);
        announce.on_lane(at(102), lane(5.0, 16), false);
        assert!(announce.next_timeout().is_some(), "a change waits");
        // The restarted neighbour has reported no run yet.
        announce.on_lane(at(103), lane(0.0, 16), false);
        assert_eq!(announce.next_timeout(), None);
        assert_eq!(announce.protection(true).unwrap().run_256ths(), Some(512));
    }

    #[test]
    fn repair_that_rests_is_told_soon_and_that_it_is_back_when_it_lasts() {
        let mut announce = up(0.05);
        announce.on_lane(at(101), lane(2.0, 16), false);
        let changes: Vec<(u64, u8)> = (102..300)
            .filter_map(|s| {
                // Repair pauses for a minute, and for a moment later.
                let rests = (120..180).contains(&s) || s == 250;
                let is_news = announce.on_lane(at(s), lane(2.0, if rests { 0 } else { 16 }), rests);
                is_news.then(|| (s, announce.protection(true).unwrap().repair_16ths()))
            })
            .collect();
        assert_eq!(changes, [(121, 0), (200, 16)]);
    }

    #[test]
    fn a_queue_is_announced_for_a_lane_without_repair() {
        let mut announce = up(0.05);
        announce.on_lane(at(101), lane(2.0, 0), false);
        let queued = |announce: &Announce| announce.protection(true).unwrap().is_queued();
        assert!(!queued(&announce));
        let changes: Vec<(u64, bool)> = (102..300)
            .filter_map(|s| {
                let is_queued = (120..180).contains(&s);
                let is_news = announce.on_lane(at(s), lane(2.0, 0), is_queued);
                is_news.then(|| (s, queued(&announce)))
            })
            .collect();
        assert_eq!(changes, [(121, true), (200, false)]);
        // A lane that repairs is not queued.
        let mut repairs = up(0.05);
        repairs.on_lane(at(101), lane(2.0, 16), true);
        assert_eq!(
            repairs.protection(true),
            Some(Protection::new(512, 16, true))
        );
    }
}
