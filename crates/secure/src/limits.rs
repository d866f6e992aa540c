//! How many handshakes a node answers, and whom it asks for a cookie first.
//!
//! ```text
//!   Init with a good mac1
//!      |-- no cookie shown --> UNPROVEN bucket --empty--> "come again with this cookie"
//!      |                           | token
//!      '-- cookie shown ------> bucket of the source --empty--> refused
//!                                  | token
//!                               PROVEN bucket --empty--> refused
//!                                  | token
//!                               answered: one half-open handshake
//! ```
//!
//! Who cannot receive at the address that he writes as his own gets at most a trickle, and cannot
//! use up anybody's share but that trickle. Answering an Init costs three scalar multiplications
//! and their hashing, some 0.3 ms of one core; 200 per second are 6 % of it. Who shows a certificate then may have a
//! key answered, for some 0.1 ms more. Refusing one costs a
//! MAC, asking for a cookie three, and neither allocates.

use base::map::FixedHasher;
use base::token_bucket::TokenBucket;
use base::{Duration, Time, UnderlayAddr};
use core::hash::Hasher;

/// Handshakes per second answered without a cookie.
pub const UNPROVEN_PER_S: u32 = 20;
/// As many at once: the neighbours of a node that has just started.
pub const UNPROVEN_BURST: u32 = 64;
/// Handshakes per second answered to those who showed a cookie.
pub const PROVEN_PER_S: u32 = 200;
/// As many at once: all neighbours of a large node after an outage.
pub const PROVEN_BURST: u32 = 256;
/// Handshakes per second answered to one source with a cookie: a quarter of all, so that several
/// nodes on one host, or behind one NAT, find room.
pub const SOURCE_PER_S: u32 = 50;
/// As many at once.
pub const SOURCE_BURST: u32 = 64;
/// Buckets that sources share by a secret hash of their address: 256 × 40 bytes = 10 KiB, made
/// when the first cookie is shown. A shared bucket is filled by both, never by neither.
pub const SOURCE_BUCKETS: usize = 256;

/// How long an answered handshake may stay unfinished: more than two repetitions of a lost Finish.
pub const HALF_OPEN_LIFETIME: Duration = Duration::from_secs(4);
/// The most unfinished handshakes: both bursts and both rates over the lifetime; 64 + 256 + (20 +
/// 200) × 4 = 1200, at about 4 KiB each 4.7 MiB in the worst flood. As many of members, who have shown certificates, may
/// have been answered with a ciphertext in that time: 1.3 KiB each until they speak.
pub const MAX_HALF_OPEN: usize =
    (UNPROVEN_BURST + PROVEN_BURST + (UNPROVEN_PER_S + PROVEN_PER_S) * 4) as usize;

/// The most dials at once: four for each of 256 neighbours.
pub const MAX_DIALS: usize = 1024;
/// The most indices in use: 2^16 of 2^24, so a random one is free at the first try 255 times in 256.
pub const MAX_INDICES: usize = 1 << 16;

/// What to do with an Init.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Answer,
    AskForCookie,
    TooMany,
    TooManyOfSource,
}

pub(crate) struct Limits {
    unproven: TokenBucket,
    proven: TokenBucket,
    sources: Vec<TokenBucket>,
    secret: u32,
}

impl Limits {
    pub(crate) fn new(secret: u32, now: Time) -> Limits {
        Limits {
            unproven: bucket(UNPROVEN_PER_S, UNPROVEN_BURST, now),
            proven: bucket(PROVEN_PER_S, PROVEN_BURST, now),
            sources: Vec::new(),
            secret,
        }
    }

    /// Decides on an Init from `from`, and takes what it costs.
    pub(crate) fn admit(&mut self, now: Time, from: UnderlayAddr, proven: bool) -> Verdict {
        if !proven {
            return if self.unproven.try_take(now, 1.0) {
                Verdict::Answer
            } else {
                Verdict::AskForCookie
            };
        }
        if !self.source(now, from).try_take(now, 1.0) {
            Verdict::TooManyOfSource
        } else if !self.proven.try_take(now, 1.0) {
            Verdict::TooMany
        } else {
            Verdict::Answer
        }
    }

    /// A source is an IPv4 address, or 64 bits of an IPv6 one: what one customer is given.
    fn source(&mut self, now: Time, from: UnderlayAddr) -> &mut TokenBucket {
        if self.sources.is_empty() {
            self.sources = vec![bucket(SOURCE_PER_S, SOURCE_BURST, now); SOURCE_BUCKETS];
        }
        let source = if from.is_ipv4() {
            &from.ip[..]
        } else {
            &from.ip[..8]
        };
        let mut hasher = FixedHasher::default();
        hasher.write_u32(self.secret);
        hasher.write(source);
        &mut self.sources[hasher.finish() as usize % SOURCE_BUCKETS]
    }
}

fn bucket(per_s: u32, burst: u32, now: Time) -> TokenBucket {
    TokenBucket::new(per_s.into(), burst.into(), now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(n: u8) -> UnderlayAddr {
        let mut ip = [0; 16];
        ip[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, n]);
        UnderlayAddr {
            ip,
            port: 1,
            socket: 0,
            local: 0,
        }
    }

    fn answered(limits: &mut Limits, now: Time, from: UnderlayAddr, proven: bool) -> u32 {
        (0..1000)
            .map(|_| u32::from(limits.admit(now, from, proven) == Verdict::Answer))
            .sum()
    }

    #[test]
    fn a_flood_from_spoofed_addresses_leaves_room_for_proven_ones() {
        let mut limits = Limits::new(1, Time::ZERO);
        assert_eq!(answered(&mut limits, Time::ZERO, source(1), false), 64);
        assert_eq!(answered(&mut limits, Time::ZERO, source(1), true), 64);
        assert_eq!(answered(&mut limits, Time::ZERO, source(2), true), 64);
        let later = Time::ZERO + Duration::from_secs(1);
        assert_eq!(answered(&mut limits, later, source(1), false), 20);
        assert_eq!(answered(&mut limits, later, source(1), true), 50);
    }

    #[test]
    fn all_sources_together_have_a_limit() {
        let mut limits = Limits::new(1, Time::ZERO);
        let all: u32 = (0..64)
            .map(|n| answered(&mut limits, Time::ZERO, source(n), true))
            .sum();
        assert_eq!(all, 256);
        // Some share a bucket with one of those before.
        let mut fresh = (64..=255).map(|n| limits.admit(Time::ZERO, source(n), true));
        assert!(fresh.any(|verdict| verdict == Verdict::TooMany));
    }

    #[test]
    fn the_bound_of_half_open_handshakes_is_what_its_comment_says() {
        assert_eq!(MAX_HALF_OPEN, 1200);
        assert_eq!(HALF_OPEN_LIFETIME, Duration::from_secs(4));
    }
}
