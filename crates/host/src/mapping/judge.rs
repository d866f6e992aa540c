//! Checks a router's answers: whether its clock is consistent, and whether its address is public.

use base::Time;
use std::net::Ipv4Addr;

/// Returns true if an epoch has advanced as fast as the local clock. The clocks may differ by a sixteenth. [RFC 6887
/// §8.5]
pub(super) fn fits((before_s, at): (u32, Time), epoch_s: u32, now: Time) -> bool {
    let here_s = now.since(at).as_millis() / 1_000;
    let there_s = u64::from(epoch_s.saturating_sub(before_s));
    epoch_s.saturating_add(1) >= before_s
        && here_s + 2 >= there_s - there_s / 16
        && there_s + 2 >= here_s - here_s / 16
}

/// Returns true if any host of the Internet can send to this address.
pub(super) fn is_public(ip: Ipv4Addr) -> bool {
    wire::Endpoint::of_ipv4(ip.octets(), 1).is_public()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Duration;

    #[test]
    fn an_epoch_that_does_not_go_as_the_clock_does_is_another_one() {
        let before = (1_000, Time::ZERO);
        let after_s = |s: u64| Time::ZERO + Duration::from_secs(s);
        for (epoch_s, s) in [
            (1_000, 0),
            (999, 0),
            (1_600, 600),
            (1_564, 600),
            (1_640, 600),
        ] {
            assert!(fits(before, epoch_s, after_s(s)), "{epoch_s} after {s} s");
        }
        for (epoch_s, s) in [
            (998, 0),
            (5, 600),
            (1_500, 600),
            (1_700, 600),
            (u32::MAX, 600),
        ] {
            assert!(!fits(before, epoch_s, after_s(s)), "{epoch_s} after {s} s");
        }
    }
}
