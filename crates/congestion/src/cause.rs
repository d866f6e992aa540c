//! Which losses are congestion, for a control that would take each of them for it.
//!
//! ```text
//!   a loss while a queue stands                             congestion
//!   more in a round trip than is usual and 2 %, beyond      congestion: of a queue too short to be seen,
//!     what chance makes of that                               of a policer
//!   any other                                               the path's own: it is sent again, no more
//! ```
//!
//! Beside TCP a bottleneck loses packets when its queue is full, so a control that asks here cuts where TCP
//! cuts, and keeps its fair share. What a radio or a bad cable loses costs it nothing but the
//! repetition; and if that happens while a short queue stands, no more than this queue ([`Causes::kept`]).
//!
//! State: the least round trip of the last minutes, the last few ones, and what the path is used to lose ([`crate::bbr`] judges losses alike).

use crate::bbr::Losses;
use crate::delivery::Delivered;
use base::{Duration, Time};

/// The least round trip is forgotten after one to two of these: routes change. Choice: long beside the
/// times for which several flows keep a queue from ever being empty, as what is forgotten sooner takes that queue
/// for the path, and its losses for the path's own.
const MEMORY: Duration = Duration::from_secs(120);
/// A queue stands when the shortest of the last [`RECENT`] round trips is longer by this share, and by [`QUEUE`].
const QUEUE_SHARE: f64 = 1.0 / 8.0;
const QUEUE: Duration = Duration::from_millis(1);
/// Choice: few, so that a queue is seen in the round trip in which it grows.
const RECENT: usize = 8;

/// The watch over the losses of one sender.
#[derive(Clone, Debug)]
pub struct Causes {
    least: [Option<Duration>; 2],
    span_ends: Time,
    recent: [Duration; RECENT],
    count: usize,
    /// The round ends when what was sent after so much had arrived is answered.
    round_ends: f64,
    losses: Losses,
}

impl Default for Causes {
    fn default() -> Causes {
        Causes {
            least: [None; 2],
            span_ends: Time::ZERO,
            recent: [Duration::MAX; RECENT],
            count: 0,
            round_ends: 0.0,
            losses: Losses::default(),
        }
    }
}

impl Causes {
    /// An acknowledgement of something new.
    pub fn on_delivered(&mut self, told: &Delivered) {
        self.losses.on_delivered(told.segments, told.lost);
        if let Some(rtt) = told.rtt {
            if told.now >= self.span_ends {
                self.least = [None, self.least[0]];
                self.span_ends = told.now + MEMORY;
            }
            self.least[0] = Some(self.least[0].map_or(rtt, |known| known.min(rtt)));
            self.recent[self.count % RECENT] = rtt;
            self.count += 1;
        }
        if told
            .sample
            .is_some_and(|sample| sample.prior >= self.round_ends)
        {
            self.round_ends = told.total;
            let learns = !self.is_queued();
            self.losses.end_round(learns);
        }
    }

    /// Something is lost: what share of the window may be kept at most, of a control that keeps `kept` after
    /// congestion. All of it if this is none; if a queue stands that is shorter than what the control gives
    /// up, what is on the path beside it.
    pub fn kept(&self, kept: f64) -> f64 {
        match (self.least(), self.shortest()) {
            _ if self.losses.are_too_many() => kept,
            (Some(_), Some(_)) if !self.is_queued() => 1.0,
            (Some(least), Some(shortest)) => {
                let on_path = least.as_secs_f64() / shortest.as_secs_f64().max(1e-9);
                on_path.clamp(kept, 1.0)
            }
            _ => kept,
        }
    }

    fn shortest(&self) -> Option<Duration> {
        let shortest = self.recent.iter().min().copied();
        shortest.filter(|rtt| *rtt != Duration::MAX)
    }

    fn least(&self) -> Option<Duration> {
        let known = self.least.into_iter().flatten();
        known.min()
    }

    fn is_queued(&self) -> bool {
        match (self.least(), self.shortest()) {
            (Some(least), Some(shortest)) => {
                shortest > least + least.mul_f64(QUEUE_SHARE).max(QUEUE)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::Sample;

    /// Rounds of 20 acknowledgements each, with this round trip, of which each brings 5 segments and so many are
    /// lost in the round.
    struct Script {
        causes: Causes,
        now: Time,
        total: f64,
    }

    impl Script {
        fn new() -> Script {
            Script {
                causes: Causes::default(),
                now: Time::ZERO,
                total: 0.0,
            }
        }

        fn rounds(&mut self, count: usize, rtt_ms: u64, lost: f64) {
            for _ in 0..count {
                let prior = self.total;
                for n in 0..20 {
                    self.now += Duration::from_millis(rtt_ms).div(20);
                    self.total += 5.0;
                    self.causes.on_delivered(&Delivered {
                        now: self.now,
                        segments: 5.0,
                        lost: if n == 10 { lost } else { 0.0 },
                        total: self.total,
                        rtt: Some(Duration::from_millis(rtt_ms)),
                        in_flight: 100.0,
                        limited: true,
                        sample: Some(Sample {
                            segments: 5.0,
                            interval: Duration::from_millis(rtt_ms),
                            prior,
                            in_flight: 100.0,
                            of_application: false,
                        }),
                    });
                }
            }
        }
    }

    #[test]
    fn nothing_is_known_so_a_loss_is_congestion() {
        assert_eq!(Causes::default().kept(0.7), 0.7);
    }

    #[test]
    fn a_loss_without_a_queue_is_the_paths_own_and_one_with_a_queue_is_not() {
        let mut script = Script::new();
        script.rounds(5, 20, 1.0);
        assert_eq!(script.causes.kept(0.7), 1.0);
        script.rounds(3, 40, 0.0);
        assert_eq!(script.causes.kept(0.3), 0.5, "the queue goes");
        assert_eq!(script.causes.kept(0.7), 0.7, "a long one is congestion");
        script.rounds(3, 21, 0.0);
        assert_eq!(script.causes.kept(0.7), 1.0);
    }

    #[test]
    fn many_losses_are_congestion_until_the_path_is_known_to_lose_as_many() {
        let mut script = Script::new();
        script.rounds(5, 20, 0.0);
        script.causes.losses.on_delivered(80.0, 20.0);
        assert_eq!(script.causes.kept(0.7), 0.7);
        // 5 of 105 in each round: a bad radio.
        script.rounds(100, 20, 5.0);
        script.causes.losses.on_delivered(95.0, 5.0);
        assert_eq!(script.causes.kept(0.7), 1.0);
    }

    #[test]
    fn a_queue_that_stands_for_a_minute_is_a_queue_and_a_longer_route_is_none_in_the_end() {
        let mut script = Script::new();
        script.rounds(5, 20, 0.0);
        script.rounds(1_500, 40, 0.0);
        assert_eq!(script.causes.kept(0.7), 0.7);
        script.rounds(6_000, 40, 0.0);
        assert_eq!(script.causes.kept(0.7), 1.0);
    }
}
