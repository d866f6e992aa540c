//! What a router says, judged: how its clock goes, and where it is.

use base::Time;
use std::net::Ipv4Addr;

/// An epoch goes on as clocks do, which may differ by a sixteenth. [RFC 6887 §8.5]
pub(super) fn fits((before_s, at): (u32, Time), epoch_s: u32, now: Time) -> bool {
    let here_s = now.since(at).as_millis() / 1_000;
    let there_s = u64::from(epoch_s.saturating_sub(before_s));
    epoch_s.saturating_add(1) >= before_s
        && here_s + 2 >= there_s - there_s / 16
        && there_s + 2 >= here_s - here_s / 16
}

/// Whether any host on the Internet can send to this address. Choice: addresses reserved for examples count as public. No
/// router has one, and test networks use them.
pub(super) fn is_public(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let is_shared = a == 100 && b & 0xc0 == 64;
    let is_of_protocols = (a, b, c) == (192, 0, 0);
    let is_benchmark = a == 198 && b & 0xfe == 18;
    !(a == 0
        || a >= 224
        || ip.is_loopback()
        || ip.is_private()
        || ip.is_link_local()
        || is_shared
        || is_of_protocols
        || is_benchmark)
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

    #[test]
    fn addresses_that_only_some_networks_have_are_not_public() {
        for ip in [
            [1, 1, 1, 1],
            [100, 128, 0, 1],
            [172, 32, 0, 1],
            [198, 51, 100, 1],
        ] {
            assert!(is_public(ip.into()), "{ip:?}");
        }
        for ip in [
            [0, 1, 2, 3],
            [10, 0, 0, 1],
            [100, 64, 0, 1],
            [100, 127, 255, 255],
            [127, 0, 0, 1],
            [169, 254, 1, 1],
            [172, 16, 0, 1],
            [192, 0, 0, 8],
            [192, 168, 0, 1],
            [198, 19, 0, 1],
            [224, 0, 0, 1],
            [240, 0, 0, 1],
        ] {
            assert!(!is_public(ip.into()), "{ip:?}");
        }
    }
}
