//! The packets that are sent twice at once, because no request would save them.
//!
//! ```text
//!   sent ──T──▶ (lost)
//!        next ──T──▶ gap ──T──▶ request ──T──▶ answer       interval + 3 T, each T with its jitter
//!   |──────── can be in time ──|·····|── mostly is in time ──
//!   by the least round trip:   low   high  :by the usual one
//! ```
//!
//! A packet whose time left is between the two values is one that a request would save on a path of the same length
//! without jitter. Choice: among packets that are new on this hop, only these are sent twice. A packet that would be
//! too late even with the shortest round trip is left to a code that covers more than one packet.
//!
//! A packet that an earlier hop has repaired has spent its slack there. It is sent three times wherever a request would
//! not save it, because it is one of few: on three hops of 200 ms that lose 2 %, with a slack of 300 ms, one packet in
//! 800 is lost twice, and the copies cost 2 % to 4 %. This also holds if the link is not known to lose packets: that
//! takes hellos, and a flow's first packets are as important as others.

use super::RoundTrip;
use base::{Duration, Time};

/// The smallest loss for which copies are sent: they cost as much as the packets.
const LOSS_LEAST: f64 = 0.003;
/// The largest loss for which copies are sent: above it, the losses may come from a queue, which copies would fill
/// further.
const LOSS_MOST: f64 = 0.3;

/// The times left to the deadline, after subtracting the rest of the path, with which a packet is sent twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    low: Duration,
    high: Duration,
    /// Round trips vary, and the link loses packets.
    varies: bool,
}

impl Ahead {
    /// Returns the limits for a link with this loss whose packets are this far apart; `None` if no packet is to be sent
    /// more than once.
    pub fn of(rtt: RoundTrip, loss: f64, interval: Duration) -> Option<Ahead> {
        let takes = |rtt: Duration| interval + rtt + rtt.div(2);
        let (low, high) = (takes(rtt.least), takes(rtt.usual));
        let varies = loss >= LOSS_LEAST && high > low + low.div(8);
        (loss < LOSS_MOST).then_some(Ahead { low, high, varies })
    }

    /// Returns whether such a packet may be sent twice at all.
    pub fn concerns(&self, is_recovered: bool) -> bool {
        self.varies || is_recovered
    }

    /// Returns whether a packet with this time left is sent twice; `is_recovered` if an earlier hop has repaired it.
    pub fn suits(&self, left: Duration, is_recovered: bool) -> bool {
        match is_recovered {
            true => left < self.high,
            false => self.varies && (self.low..self.high).contains(&left),
        }
    }
}

/// Stops copies that have filled a queue.
///
/// A link may have room for its packets but not for all of them twice. The resulting queue grows to its limit, and
/// jitter hides it. So a path that has become longer while copies were sent is taken for a queue. If it was not a
/// queue, the path is still longer without copies; copies start again after a rest, and the longer path is the usual
/// one by then.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    until: Time,
    next: Duration,
    /// When the present period of copies began.
    since: Option<Time>,
}

/// The rest of copies, at first and at most. Choice: a queue makes a second of packets late, which is what copies save
/// in a minute if one packet in fifty is late; a path that was only longer costs half of that.
const REST: Duration = Duration::from_secs(30);
const REST_MAX: Duration = Duration::from_secs(600);

impl Default for Rest {
    fn default() -> Rest {
        Rest {
            until: Time::ZERO,
            next: REST,
            since: None,
        }
    }
}

impl Rest {
    /// Returns whether copies may be sent. `sends` if they were sent until now, `is_longer` if the path has recently
    /// become longer.
    pub fn allows(&mut self, now: Time, sends: bool, is_longer: bool) -> bool {
        let since = *self.since.get_or_insert(now);
        if !sends {
            self.since = None;
        } else if is_longer {
            self.until = now + self.next;
            self.next = (self.next * 2).min(REST_MAX);
            self.since = None;
        } else if now.since(since) >= self.next {
            self.next = REST;
        }
        now >= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_that_have_filled_a_queue_rest_ever_longer() {
        let mut rest = Rest::default();
        let mut rests = Vec::new();
        let (mut sends, mut from) = (true, None);
        for tenth in 0..3_000u64 {
            let now = Time::ZERO + ms(tenth * 100);
            // The queue is there half a second after the first copy.
            let queued = from.is_some_and(|from| tenth - from > 5);
            let allows = rest.allows(now, sends, sends && queued);
            if sends && !allows {
                rests.push(tenth);
            }
            if allows && !sends || from.is_none() {
                from = Some(tenth);
            }
            sends = allows;
        }
        let gaps: Vec<u64> = rests.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(gaps.len(), 3);
        assert!(
            gaps.windows(2).all(|pair| pair[1] > pair[0] * 3 / 2),
            "{gaps:?}"
        );
        // After some minutes without a queue, the state is as at first.
        let later = |s: u64| Time::ZERO + Duration::from_secs(1_000 + s);
        assert!((0..700).all(|s| rest.allows(later(s), true, false)));
        assert!(!rest.allows(later(701), true, true));
        assert!(!rest.allows(later(730), false, false));
        assert!(rest.allows(later(732), false, false));
    }

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn only_what_jitter_keeps_from_being_saved_is_sent_twice() {
        let varying = RoundTrip {
            least: ms(44),
            usual: ms(130),
        };
        let ahead = Ahead::of(varying, 0.02, ms(20)).unwrap();
        assert!(ahead.suits(ms(150), false) && ahead.suits(ms(90), false));
        assert!(!ahead.suits(ms(60), false), "no request could ever save it");
        assert!(!ahead.suits(ms(250), false), "a request saves it mostly");
        // A clean link, a queue, and a long path without jitter.
        let clean = Ahead::of(varying, 0.0, ms(20)).unwrap();
        assert!((0..500).all(|left| !clean.suits(ms(left), false)));
        assert_eq!(Ahead::of(varying, 0.5, ms(20)), None);
        let level = Ahead::of(ms(160).into(), 0.02, ms(20)).unwrap();
        assert!((0..500).all(|left| !level.suits(ms(left), false)));
    }

    #[test]
    fn what_was_repaired_before_is_sent_twice_where_it_could_not_be_again() {
        let ahead = Ahead::of(ms(160).into(), 0.02, ms(4)).unwrap();
        assert!(ahead.suits(ms(98), true));
        assert!(!ahead.suits(ms(250), true), "there is time for a request");
        let not_known = Ahead::of(ms(160).into(), 0.0, ms(4)).unwrap();
        assert!(not_known.suits(ms(98), true));
    }
}
