//! The sequential test of one path: does it lose more than its links promise?
//!
//! ```text
//!   under test    p0 = max(2 · promised, 1 %)                 at most this is no reproach
//!   against       p1 = 3 · p0, 25 %, 80 %                     a leak, half a hole, a hole
//!
//!   per packet    lost:  + ln(p1 / p0)       arrived: + ln((1 - p1) / (1 - p0)) < 0
//!
//!   S ▲                          .─ bad: S >= 16
//!     │                .──.   .─'
//!     │   .─.      .──'    '─'       never below 0 (Page's test, CUSUM)
//!   0 └──'───'────'──────────────▶
//! ```
//! The likelihood ratio is a martingale under p0, so from any moment on it reaches e^16 with a chance
//! of e^-16 at most, whatever the packets depend on each other, as long as none is lost with more than p0
//! given those before it. Over all starts and the three alternatives that is one false alarm in
//! e^16 / 3, three million packets at the least: 16 hours of a call whose path loses all that is no
//! reproach.
//!
//! Links lose in bursts, and fail, before they say so. So one slot of 250 ms adds at most 6.4 to S: what
//! is bad was so for more than half a second. A path that only fails is judged bad too if its link
//! state is slower than that; what that leads to is harmless, and ends when it is over.
//!
//! The test of the other direction (*good*) is the same with the roles changed: S' grows with what
//! arrives, against 3 · p0 or against 25 %, from 0 up to 7 (e^-7: one bad path in a thousand passes).

use base::{Duration, Time};
use core::cmp::Ordering;
use wire::data::LinkProtocol;

/// What a path promises: the share that is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Promise {
    pub(crate) loss: f64,
}

/// How much evidence makes a path bad.
const BAD: f64 = 16.0;
/// Nothing counts beyond this, so that what is over is soon no reproach any more.
const BAD_MOST: f64 = 20.0;
/// How much makes it good.
const GOOD: f64 = 7.0;
/// What one slot adds at most.
const PER_SLOT: f64 = 6.4;
const SLOT: Duration = Duration::from_millis(250);
/// What is no reproach: so many times the promise, and never less than this share. Choice: estimates of small losses
/// are off by half of them, and recovery has its bad moments.
const TOLERANCE: f64 = 2.0;
const TOLERATED: f64 = 0.01;
/// The alternatives: as many times what is tolerated, and shares.
const LEAK: f64 = 3.0;
const HALF: f64 = 0.25;
const HOLE: f64 = 0.8;
/// A path that promises more loss than this cannot be told from one that swallows.
const LOSS_MOST: f64 = 0.3;
/// A path that has delivered so many packets since it lost one loses no longer, until it does.
const RECENT: u64 = 40;
/// A path that has lost so much is a hole, not a leak.
pub(crate) const HEAVY: f64 = 0.3;

/// One link protocol has a fair share if it has one in so many packets.
const SHARE: u64 = 10;

/// What is known of a path since a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Evidence {
    bad: [f64; 3],
    /// Against a leak, and against half a hole.
    good: [f64; 2],
    /// The present slot, and how bad things were before it.
    slot: u64,
    before: [f64; 3],
    sent: u64,
    lost: u64,
    /// What has arrived since something was lost.
    arrived: u64,
}

impl Evidence {
    /// Takes in `sent` packets that left about `at`, and how many of them never arrived.
    pub(crate) fn take(&mut self, at: Time, sent: u32, lost: u32, promise: Promise) {
        let lost = lost.min(sent);
        self.sent += u64::from(sent);
        self.lost += u64::from(lost);
        self.arrived = match lost {
            0 => self.arrived + u64::from(sent),
            _ => 0,
        };
        let p0 = (promise.loss * TOLERANCE).max(TOLERATED);
        if p0 > LOSS_MOST {
            return;
        }
        let slot = at.as_nanos() / SLOT.as_nanos();
        if slot != self.slot {
            (self.slot, self.before) = (slot, self.bad);
        }
        let (lost, arrived) = (f64::from(lost), f64::from(sent - lost));
        let ratio = |p1: f64| {
            let p1 = p1.max(1.5 * p0);
            lost * (p1 / p0).ln() + arrived * ((1.0 - p1) / (1.0 - p0)).ln()
        };
        for (i, p1) in [LEAK * p0, HALF, HOLE].into_iter().enumerate() {
            let most = (self.before[i] + PER_SLOT).min(BAD_MOST);
            self.bad[i] = (self.bad[i] + ratio(p1)).clamp(0.0, most);
        }
        for (good, p1) in self.good.iter_mut().zip([LEAK * p0, HALF]) {
            *good = (*good - ratio(p1)).clamp(0.0, GOOD);
        }
    }

    /// It loses more than its links promise.
    pub(crate) fn is_bad(&self) -> bool {
        self.bad.iter().any(|s| *s >= BAD)
    }

    /// The same, and it is not over.
    pub(crate) fn is_bad_still(&self) -> bool {
        self.is_bad() && self.arrived < RECENT
    }

    /// What it has delivered before says nothing any more; what it has lost still does.
    pub(crate) fn doubt(&mut self) {
        self.good = [0.0; 2];
    }

    /// It is no hole.
    pub(crate) fn carries(&self) -> bool {
        self.is_good(1.0)
    }

    /// Returns the number of packets that were judged.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// It delivers what they promise, by comparison with a path that loses `rival`.
    pub(crate) fn is_good(&self, rival: f64) -> bool {
        let enough = match rival.partial_cmp(&HEAVY) {
            Some(Ordering::Greater | Ordering::Equal) => self.good[1],
            _ => self.good[0],
        };
        !self.is_bad() && enough >= GOOD
    }

    /// The share lost, as far as it is known: of nothing it is a half.
    pub(crate) fn loss(&self) -> f64 {
        (self.lost + 1) as f64 / (self.sent + 2) as f64
    }
}

/// What is known of a path, apart for each link protocol: its links promise different things to them. In one sum
/// the packets of a best-effort stream, which may lose what lossy links lose, would speak for a relay that swallows
/// as much of a call whose losses its links repair.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidences {
    best_effort: Evidence,
    real_time: Evidence,
    reliable: Evidence,
}

impl Evidences {
    pub(super) fn of(&self, link: LinkProtocol) -> &Evidence {
        match link {
            LinkProtocol::BestEffort => &self.best_effort,
            LinkProtocol::RealTime => &self.real_time,
            LinkProtocol::Reliable => &self.reliable,
        }
    }

    pub(super) fn of_mut(&mut self, link: LinkProtocol) -> &mut Evidence {
        match link {
            LinkProtocol::BestEffort => &mut self.best_effort,
            LinkProtocol::RealTime => &mut self.real_time,
            LinkProtocol::Reliable => &mut self.reliable,
        }
    }

    fn each(&self) -> [&Evidence; 3] {
        [&self.best_effort, &self.real_time, &self.reliable]
    }

    /// The link protocol that suffers most, of those that lose more than their links promise.
    pub(super) fn worst(&self) -> Option<LinkProtocol> {
        let bad = LinkProtocol::ALL.into_iter();
        let bad = bad.filter(|link| self.of(*link).is_bad());
        bad.max_by(|a, b| self.of(*a).loss().total_cmp(&self.of(*b).loss()))
    }

    /// Some link protocol loses more than its links promise.
    pub(super) fn is_bad(&self) -> bool {
        self.worst().is_some()
    }

    /// All link protocols that have a fair share of the packets get what they were promised.
    pub(super) fn is_good(&self) -> bool {
        self.all_with_a_share(|evidence| evidence.is_good(0.0))
    }

    /// It is no hole, as the packets of all link protocols with a fair share of them have shown.
    pub(super) fn carries(&self) -> bool {
        self.all_with_a_share(Evidence::carries)
    }

    /// It holds for all link protocols that have a fair share of the packets, and there are such.
    fn all_with_a_share(&self, holds: impl Fn(&Evidence) -> bool) -> bool {
        let sent = self.sent();
        let counts = |evidence: &&Evidence| evidence.sent() * SHARE >= sent.max(1);
        let mut counted = self.each().into_iter().filter(counts).peekable();
        !self.is_bad() && counted.peek().is_some() && counted.all(holds)
    }

    /// As [`Evidence::doubt`].
    pub(super) fn doubt(&mut self) {
        for link in LinkProtocol::ALL {
            self.of_mut(link).doubt();
        }
    }

    pub(super) fn sent(&self) -> u64 {
        self.each().into_iter().map(Evidence::sent).sum()
    }

    /// The share lost of all.
    pub(super) fn loss(&self) -> f64 {
        let lost: u64 = self.each().into_iter().map(|evidence| evidence.lost).sum();
        (lost + 1) as f64 / (self.sent() + 2) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    const CLEAN: Promise = Promise { loss: 0.0 };
    /// Packets of a call.
    const EVERY: Duration = Duration::from_millis(20);

    /// After how many packets of a path that loses this share it is bad, of `most`.
    fn bad_after(rng: &mut Rng, loss: f64, promise: Promise, most: u32) -> Option<u32> {
        let mut evidence = Evidence::default();
        (0..most).find(|i| {
            let lost = u32::from(rng.chance(loss));
            evidence.take(Time::ZERO + EVERY * u64::from(*i), 1, lost, promise);
            evidence.is_bad()
        })
    }

    #[test]
    fn holes_are_found_in_their_time() {
        let mut rng = Rng::new(1);
        // The bars leave 2, 10 and 120 s; questions and the trial take their part of them.
        for (loss, within) in [(1.0, 45), (0.5, 100), (0.05, 2_000)] {
            for _ in 0..200 {
                let after = bad_after(&mut rng, loss, CLEAN, within);
                assert!(after.is_some(), "{loss}: not within {within} packets");
            }
        }
    }

    #[test]
    fn false_alarms_are_as_rare_as_designed() {
        let mut rng = Rng::new(2);
        // At the bound itself one alarm in three million packets is allowed for: 0.7 expected at most in
        // two million, so more than four are one chance in a thousand.
        let alarms = (0..100)
            .filter(|_| bad_after(&mut rng, TOLERATED, CLEAN, 20_000).is_some())
            .count();
        assert!(alarms <= 4, "{alarms}");
        let promise = Promise { loss: 0.04 };
        let alarms = (0..100)
            .filter(|_| bad_after(&mut rng, 0.08, promise, 20_000).is_some())
            .count();
        assert!(alarms <= 4, "{alarms}");
    }

    #[test]
    fn one_burst_of_half_a_second_is_not_enough() {
        let mut evidence = Evidence::default();
        let mut at = Time::ZERO;
        for i in 0..500u32 {
            let lost = u32::from((100..125).contains(&i));
            evidence.take(at, 1, lost, CLEAN);
            assert!(!evidence.is_bad(), "{i}");
            at += EVERY;
        }
        assert!(evidence.is_good(0.0) && evidence.is_good(1.0));
    }

    #[test]
    fn good_is_what_delivers_and_a_hole_needs_few_packets_to_be_told_from_it() {
        let mut evidence = Evidence::default();
        for i in 0..30 {
            evidence.take(Time::ZERO + EVERY * i, 1, 0, CLEAN);
        }
        assert!(evidence.is_good(0.9) && !evidence.is_good(0.05));
        for i in 30..400 {
            evidence.take(Time::ZERO + EVERY * i, 1, 0, CLEAN);
        }
        assert!(evidence.is_good(0.05));
        let mut rng = Rng::new(3);
        let passes = (0..1000).filter(|_| {
            let mut evidence = Evidence::default();
            (0..500u64).any(|i| {
                let lost = u32::from(rng.chance(0.05));
                evidence.take(Time::ZERO + EVERY * i, 1, lost, CLEAN);
                evidence.is_good(0.05)
            })
        });
        assert!(passes.count() <= 20);
    }

    #[test]
    fn what_promises_nothing_is_not_judged() {
        let mut rng = Rng::new(4);
        let promise = Promise { loss: 0.2 };
        assert_eq!(bad_after(&mut rng, 1.0, promise, 1_000), None);
    }
}
