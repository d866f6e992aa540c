//! Addresses that have failed to get in: an attacker who guesses tokens must wait.

use core::time::Duration;
use net::places::Origin;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

/// Maximum number of failures of an address within [`SPAN`]. A token has 256 bits, so this limit is not against
/// guessing, but against the work of handshakes.
pub(super) const MAX_FAILURES: u32 = 8;
/// How long failures count.
pub(super) const SPAN: Duration = Duration::from_secs(60);
/// Maximum number of addresses that are remembered. Beyond it, the one with the oldest failures is forgotten.
pub(super) const MAX_ADDRESSES: usize = 1_024;

/// The failed addresses, with the number of failures and the time of the first one.
#[derive(Debug, Default)]
pub(super) struct Failures(BTreeMap<Origin, (u32, Instant)>);

impl Failures {
    /// Returns whether an address must wait.
    pub(super) fn is_blocked(&self, from: IpAddr, now: Instant) -> bool {
        self.0
            .get(&Origin::of(from))
            .is_some_and(|&(count, since)| count >= MAX_FAILURES && now < since + SPAN)
    }

    /// Records a failure.
    pub(super) fn note(&mut self, from: IpAddr, now: Instant) {
        self.0.retain(|_, (_, since)| now < *since + SPAN);
        if self.0.len() >= MAX_ADDRESSES
            && let Some(oldest) = self.0.iter().min_by_key(|(_, (_, since))| *since)
        {
            let oldest = *oldest.0;
            self.0.remove(&oldest);
        }
        let (count, _) = self.0.entry(Origin::of(from)).or_insert((0, now));
        *count = count.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_fails_too_often_waits_and_others_do_not() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        let (bad, good): (IpAddr, IpAddr) =
            ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        for _ in 0..MAX_FAILURES {
            assert!(!failures.is_blocked(bad, now));
            failures.note(bad, now);
        }
        assert!(failures.is_blocked(bad, now) && !failures.is_blocked(good, now));
        assert!(!failures.is_blocked(bad, now + SPAN));
        failures.note(bad, now + SPAN);
        assert!(!failures.is_blocked(bad, now + SPAN), "it begins anew");
        let neighbors = ["2001:db8::1", "2001:db8::2"].map(|ip| ip.parse::<IpAddr>().unwrap());
        (0..MAX_FAILURES).for_each(|_| failures.note(neighbors[0], now + SPAN));
        assert!(failures.is_blocked(neighbors[1], now + SPAN));
    }

    #[test]
    fn no_more_are_remembered_than_the_bound() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        for i in 0..MAX_ADDRESSES as u32 + 50 {
            let ip = std::net::Ipv4Addr::from_bits(0x0a00_0000 + i);
            failures.note(ip.into(), now + Duration::from_micros(i.into()));
        }
        assert_eq!(failures.0.len(), MAX_ADDRESSES);
        assert!(
            !failures
                .0
                .contains_key(&Origin::of("10.0.0.1".parse().unwrap()))
        );
    }
}
