//! The meaning of an entry of the error queue for a probe.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                             errno                             |   0
//! +---------------+---------------+---------------+---------------+
//! |    origin     |   ICMP type   |   ICMP code   |       0       |   4
//! +---------------+---------------+---------------+---------------+
//! |                             info                              |   8
//! +---------------------------------------------------------------+
//! |                             data                              |  12
//! +---------------------------------------------------------------+
//! |    who said it: a sockaddr_in (16) or sockaddr_in6 (28)       |  16
//! +---------------------------------------------------------------+
//! ```
//! The picture shows the kernel's `struct sock_extended_err`, in the host's byte order, followed by the address of "the
//! network node the error originated from" [ip(7)].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Number of bytes before the address.
const FIXED_BYTES: usize = 16;

// Types and codes of ICMP, for IPv4 [RFC 792] and for IPv6 [RFC 4443].
const V4_UNREACHABLE: u8 = 3;
const V4_PORT: u8 = 3;
const V4_TIME_EXCEEDED: u8 = 11;
const V6_UNREACHABLE: u8 = 1;
const V6_PORT: u8 = 4;
const V6_TIME_EXCEEDED: u8 = 3;
/// Time exceeded in transit. The other code concerns fragments.
const IN_TRANSIT: u8 = 0;

/// The result of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It reached a router.
    Passed,
    /// It reached the host that was asked.
    Arrived,
    /// A node on the way lets nothing through.
    Refused,
}

impl Answer {
    /// Reads an error about a datagram that was sent to `sent_to`, for the host `target`. Returns `None` if it shows
    /// nothing about the path.
    pub(super) fn of(target: IpAddr, sent_to: IpAddr, error: &[u8]) -> Option<Answer> {
        let (fixed, address) = error.split_at_checked(FIXED_BYTES)?;
        let [origin, kind, code] = [fixed[4], fixed[5], fixed[6]];
        let (unreachable, port, time_exceeded) = match origin {
            libc::SO_EE_ORIGIN_ICMP => (V4_UNREACHABLE, V4_PORT, V4_TIME_EXCEEDED),
            libc::SO_EE_ORIGIN_ICMP6 => (V6_UNREACHABLE, V6_PORT, V6_TIME_EXCEEDED),
            _ => return None,
        };
        if sent_to.to_canonical() != target {
            return None;
        }
        if (kind, code) == (time_exceeded, IN_TRANSIT) {
            return Some(Answer::Passed);
        }
        // Choice: only the host knows its ports, or a node that answers on its behalf (NAT), whichever of its addresses
        // the answer comes from. Any other reason is the host's own if the host reports it, which is how some hosts
        // reject what they filter.
        let is_end = code == port || offender(address) == Some(target);
        match (kind == unreachable, is_end) {
            (true, true) => Some(Answer::Arrived),
            (true, false) => Some(Answer::Refused),
            (false, _) => None,
        }
    }
}

/// Returns the address in a `sockaddr`.
fn offender(address: &[u8]) -> Option<IpAddr> {
    let (family, rest) = address.split_first_chunk()?;
    match i32::from(u16::from_ne_bytes(*family)) {
        // The address follows the port.
        libc::AF_INET => {
            let ip: &[u8; 4] = rest.get(2..)?.first_chunk()?;
            Some(IpAddr::V4(Ipv4Addr::from(*ip)))
        }
        // The address follows the port and the flow.
        libc::AF_INET6 => {
            let ip: &[u8; 16] = rest.get(6..)?.first_chunk()?;
            Some(IpAddr::V6(Ipv6Addr::from(*ip)).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds an error as the kernel writes it.
    fn error(origin: u8, kind: u8, code: u8, offender: &str) -> Vec<u8> {
        let mut bytes = 113u32.to_ne_bytes().to_vec();
        bytes.extend([origin, kind, code, 0]);
        bytes.extend([0; 8]);
        match offender.parse() {
            Ok(IpAddr::V4(v4)) => {
                bytes.extend((libc::AF_INET as u16).to_ne_bytes());
                bytes.extend([0; 2]);
                bytes.extend(v4.octets());
                bytes.extend([0; 8]);
            }
            Ok(IpAddr::V6(v6)) => {
                bytes.extend((libc::AF_INET6 as u16).to_ne_bytes());
                bytes.extend([0; 6]);
                bytes.extend(v6.octets());
                bytes.extend([0; 4]);
            }
            // AF_UNSPEC: no address is given.
            Err(_) => bytes.extend([0; 16]),
        }
        bytes
    }

    fn read(target: &str, error: &[u8]) -> Option<Answer> {
        let target = target.parse().unwrap();
        Answer::of(target, target, error)
    }

    const HERE: &str = "192.0.2.7";
    const ROUTER: &str = "198.51.100.1";
    const HERE6: &str = "2001:db8::7";
    const ROUTER6: &str = "2001:db8:1::1";

    #[test]
    fn routers_hosts_and_filters_are_told_apart() {
        let [v4, v6] = [libc::SO_EE_ORIGIN_ICMP, libc::SO_EE_ORIGIN_ICMP6];
        for (origin, kind, code, offender, expected) in [
            (v4, 11, 0, ROUTER, Some(Answer::Passed)),
            (v4, 11, 0, "", Some(Answer::Passed)),
            (v4, 11, 1, ROUTER, None),
            (v4, 3, 3, HERE, Some(Answer::Arrived)),
            (v4, 3, 3, ROUTER, Some(Answer::Arrived)),
            (v4, 3, 10, HERE, Some(Answer::Arrived)),
            (v4, 3, 13, ROUTER, Some(Answer::Refused)),
            (v4, 3, 1, "", Some(Answer::Refused)),
            (v4, 12, 0, ROUTER, None),
            // Errors of the local kernel, and the types of the other family.
            (libc::SO_EE_ORIGIN_LOCAL, 3, 3, HERE, None),
            (v6, 11, 0, ROUTER, None),
        ] {
            let bytes = error(origin, kind, code, offender);
            assert_eq!(
                read(HERE, &bytes),
                expected,
                "{origin} {kind}/{code} {offender}"
            );
        }
        for (kind, code, offender, expected) in [
            (3, 0, ROUTER6, Some(Answer::Passed)),
            (3, 1, ROUTER6, None),
            (1, 4, HERE6, Some(Answer::Arrived)),
            (1, 1, HERE6, Some(Answer::Arrived)),
            (1, 1, ROUTER6, Some(Answer::Refused)),
            (2, 0, ROUTER6, None),
        ] {
            let bytes = error(v6, kind, code, offender);
            assert_eq!(read(HERE6, &bytes), expected, "{kind}/{code} {offender}");
        }
    }

    #[test]
    fn what_is_cut_short_or_about_another_packet_says_nothing() {
        let whole = error(libc::SO_EE_ORIGIN_ICMP, 3, 10, HERE);
        let [target, other] = [HERE, ROUTER].map(|text| text.parse().unwrap());
        assert_eq!(Answer::of(target, other, &whole), None);
        for cut in 0..whole.len() {
            let expected = match cut {
                ..FIXED_BYTES => None,
                // The address of the sender is incomplete.
                16..24 => Some(Answer::Refused),
                _ => Some(Answer::Arrived),
            };
            assert_eq!(read(HERE, &whole[..cut]), expected, "{cut}");
        }
        let whole = error(libc::SO_EE_ORIGIN_ICMP6, 1, 1, HERE6);
        for cut in FIXED_BYTES..whole.len() {
            let is_whole = cut >= FIXED_BYTES + 24;
            let expected = if is_whole {
                Answer::Arrived
            } else {
                Answer::Refused
            };
            assert_eq!(read(HERE6, &whole[..cut]), Some(expected), "{cut}");
        }
    }
}
