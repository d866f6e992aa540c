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
//! The likelihood ratio is a martingale under p0. So from any moment on it reaches e^16 with a probability of at most
//! e^-16, however the packets depend on each other, if none is lost with more than p0 given the packets before it. Over
//! all starts and the three alternatives, that is one false alarm in at least e^16 / 3, or three million, packets: 16
//! hours of a call whose path loses exactly the share that is tolerated.
//!
//! Links lose packets in bursts, and fail, before they report it. So one slot of 250 ms adds at most 6.4 to S: a path
//! that is judged bad was bad for more than half a second. A path that only fails is judged bad, too, if its link state
//! is slower than that. The consequences are harmless, and end when the failure ends.
//!
//! The test in the other direction (*good*) is the same with the roles changed: S' grows with the packets that arrive,
//! against 3 · p0 or against 25 %, from 0 up to 7 (e^-7: one bad path in a thousand passes).

use base::{Duration, Time};
use core::cmp::Ordering;
use wire::data::LinkProtocol;

/// What a path promises: the share of packets that get lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Promise {
    pub(crate) loss: f64,
}

/// How much evidence makes a path bad.
const BAD: f64 = 16.0;
/// The most evidence against a path that counts, so that a path recovers soon when its problem is over.
const BAD_MOST: f64 = 20.0;
/// How much evidence makes a path good.
const GOOD: f64 = 7.0;
/// How much evidence one slot adds at most.
const PER_SLOT: f64 = 6.4;
const SLOT: Duration = Duration::from_millis(250);
/// The tolerated packet loss: this many times the promise, and never less than [`TOLERATED`]. Choice: estimates of
/// small losses are wrong by up to a half, and recovery sometimes works less well.
const TOLERANCE: f64 = 2.0;
const TOLERATED: f64 = 0.01;
/// The alternatives: a leak as a multiple of the tolerated packet loss, half a hole and a hole as shares.
const LEAK: f64 = 3.0;
const HALF: f64 = 0.25;
const HOLE: f64 = 0.8;
/// If the tolerated packet loss of a path is more than this, the path cannot be distinguished from one that drops
/// packets on purpose.
const LOSS_MOST: f64 = 0.3;
/// A path that has delivered this many packets since its last loss counts as recovered, until it loses another packet.
const RECENT: u64 = 40;
/// A path that has lost this share of its packets is a hole, not a leak.
pub(crate) const HEAVY: f64 = 0.3;

/// A link protocol has a fair share if it has at least one in this many packets.
const SHARE: u64 = 10;

/// The evidence about a path since a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Evidence {
    bad: [f64; 3],
    /// Evidence against a leak, and against half a hole.
    good: [f64; 2],
    /// The present slot, and the value of `bad` before it.
    slot: u64,
    before: [f64; 3],
    sent: u64,
    lost: u64,
    /// Number of packets that have arrived since the last loss.
    arrived: u64,
}

impl Evidence {
    /// Takes in `sent` packets that left at about `at`, of which `lost` never arrived.
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

    /// Returns whether the path loses more than its links promise.
    pub(crate) fn is_bad(&self) -> bool {
        self.bad.iter().any(|s| *s >= BAD)
    }

    /// Returns whether the path is bad and has not recovered since.
    pub(crate) fn is_bad_still(&self) -> bool {
        self.is_bad() && self.arrived < RECENT
    }

    /// Discards the evidence of deliveries, and keeps the evidence of losses.
    pub(crate) fn doubt(&mut self) {
        self.good = [0.0; 2];
    }

    /// Returns whether the path is not a hole.
    pub(crate) fn carries(&self) -> bool {
        self.is_good(1.0)
    }

    /// Returns the number of packets that were judged.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns whether the path delivers what its links promise, in comparison with a path that loses the share
    /// `rival`.
    pub(crate) fn is_good(&self, rival: f64) -> bool {
        let enough = match rival.partial_cmp(&HEAVY) {
            Some(Ordering::Greater | Ordering::Equal) => self.good[1],
            _ => self.good[0],
        };
        !self.is_bad() && enough >= GOOD
    }

    /// Returns an estimate of the share lost. Without any packets it is a half.
    pub(crate) fn loss(&self) -> f64 {
        (self.lost + 1) as f64 / (self.sent + 2) as f64
    }
}

/// The evidence about a path, separate for each link protocol, because the links promise each of them something else.
/// In one common sum, a best-effort stream, which may lose what lossy links lose, would hide a relay that drops as much
/// of a call whose losses the links repair.
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

    /// Returns the link protocol with the most packet loss among those that lose more than their links promise.
    pub(super) fn worst(&self) -> Option<LinkProtocol> {
        let bad = LinkProtocol::ALL.into_iter();
        let bad = bad.filter(|link| self.of(*link).is_bad());
        bad.max_by(|a, b| self.of(*a).loss().total_cmp(&self.of(*b).loss()))
    }

    /// Returns whether some link protocol loses more than its links promise.
    pub(super) fn is_bad(&self) -> bool {
        self.worst().is_some()
    }

    /// Returns whether all link protocols that have a fair share of the packets get what they were promised.
    pub(super) fn is_good(&self) -> bool {
        self.all_with_a_share(|evidence| evidence.is_good(0.0))
    }

    /// Returns whether the packets of all link protocols with a fair share of them have shown that the path is not a
    /// hole.
    pub(super) fn carries(&self) -> bool {
        self.all_with_a_share(Evidence::carries)
    }

    /// Returns whether the path is not bad, `holds` is true for all link protocols that have a fair share of the
    /// packets, and there is at least one such.
    fn all_with_a_share(&self, holds: impl Fn(&Evidence) -> bool) -> bool {
        let sent = self.sent();
        let counts = |evidence: &&Evidence| evidence.sent() * SHARE >= sent.max(1);
        let mut counted = self.each().into_iter().filter(counts).peekable();
        !self.is_bad() && counted.peek().is_some() && counted.all(holds)
    }

    /// Discards the evidence of deliveries for all link protocols. See [`Evidence::doubt`].
    pub(super) fn doubt(&mut self) {
        for link in LinkProtocol::ALL {
            self.of_mut(link).doubt();
        }
    }

    pub(super) fn sent(&self) -> u64 {
        self.each().into_iter().map(Evidence::sent).sum()
    }

    /// Returns an estimate of the share lost, over all link protocols.
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
    /// The interval between two packets of a call.
    const EVERY: Duration = Duration::from_millis(20);

    /// Returns after how many of at most `most` packets a path that loses the share `loss` is judged bad.
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
        // The limits allow 2, 10 and 120 s. Questions and the trial take part of that time.
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
        // At the bound itself, one alarm in three million packets is permitted. At most 0.7 are expected in two million
        // packets, so more than four have a probability of one in a thousand.
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
