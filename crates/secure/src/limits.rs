//! Limits how many handshakes a node answers, and decides when it requires a cookie first.
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
//! A sender that cannot receive at the source address it uses gets at most a trickle of answers, and can use up
//! nobody's share but that trickle. To answer an Init costs three scalar multiplications and their hashing, some 0.3 ms
//! of one core; 200 per second are 6 % of it. A peer that then shows a certificate may have a key answered, for some
//! 0.1 ms more. To refuse an Init costs one MAC, to request a cookie three, and neither allocates.

use base::map::FixedHasher;
use base::token_bucket::TokenBucket;
use base::{Duration, Time, UnderlayAddr};
use core::hash::Hasher;

/// Number of handshakes per second that are answered without a cookie.
pub const UNPROVEN_PER_S: u32 = 20;
/// The maximum burst of these: the neighbors of a node that has just started.
pub const UNPROVEN_BURST: u32 = 64;
/// Number of handshakes per second that are answered to peers that showed a cookie.
pub const PROVEN_PER_S: u32 = 200;
/// The maximum burst of these: all neighbors of a large node after an outage.
pub const PROVEN_BURST: u32 = 256;
/// Number of handshakes per second that are answered to one source with a cookie: a quarter of all, so that several
/// nodes on one host, or behind one NAT, find room.
pub const SOURCE_PER_S: u32 = 50;
/// The maximum burst of these.
pub const SOURCE_BURST: u32 = 64;
/// Number of buckets, which sources share by a secret hash of their address: 256 × 40 bytes = 10 KiB, allocated when
/// the first cookie is shown. Sources that share a bucket share its rate.
pub const SOURCE_BUCKETS: usize = 256;

/// How long an answered handshake may stay unfinished: more than two repetitions of a lost Finish.
pub const HALF_OPEN_LIFETIME: Duration = Duration::from_secs(4);
/// The maximum number of unfinished handshakes: both bursts and both rates over the lifetime; 64 + 256 + (20 + 200) × 4
/// = 1200, at about 4 KiB each 4.7 MiB in the worst flood. The same number of members, who have shown certificates, may
/// have been answered with a ciphertext in that time: 1.3 KiB each until they use the session.
pub const MAX_HALF_OPEN: usize =
    (UNPROVEN_BURST + PROVEN_BURST + (UNPROVEN_PER_S + PROVEN_PER_S) * 4) as usize;

/// The maximum number of dials at once: four for each of 256 neighbors.
pub const MAX_DIALS: usize = 1024;
/// The maximum number of indices in use: 2^16 of 2^24, so a random one is free at the first try 255 times in 256.
pub const MAX_INDICES: usize = 1 << 16;

/// The decision about an Init.
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

    /// Decides about an Init from `from`, and takes its tokens.
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

    /// Returns the bucket of a source. A source is an IPv4 address, or the first 64 bits of an IPv6 address, which is
    /// what one customer gets.
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
        // Some of these share a bucket with an earlier source.
        let mut fresh = (64..=255).map(|n| limits.admit(Time::ZERO, source(n), true));
        assert!(fresh.any(|verdict| verdict == Verdict::TooMany));
    }

    #[test]
    fn the_bound_of_half_open_handshakes_is_what_its_comment_says() {
        assert_eq!(MAX_HALF_OPEN, 1200);
        assert_eq!(HALF_OPEN_LIFETIME, Duration::from_secs(4));
    }
}
