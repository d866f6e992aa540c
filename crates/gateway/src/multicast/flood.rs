//! The limit on what one source may send: it is enough for any program, and stops a faulty one.

use base::token_bucket::TokenBucket;
use base::{Duration, Map, Time};
use core::net::IpAddr;

/// Number of sources that have a meter of their own; further sources share one. Each takes some 100 bytes.
pub const SOURCES_MAX: usize = 4_096;
/// The time of silence after which a source is forgotten.
const IDLE: Duration = Duration::from_secs(10);
/// The burst that a source may send at once, in seconds of its rate. An `ffmpeg -re` sends 127 kB at once.
const BURST_S: f64 = 0.25;

/// The limit on what one source may send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Packets per second.
    pub packets: f64,
    /// Bits per second, counted over whole packets.
    pub bits_per_s: f64,
}

impl Default for Limit {
    /// The default is more than a gateway on common hardware carries, so that only a faulty source reaches it.
    fn default() -> Limit {
        Limit {
            packets: 200_000.0,
            bits_per_s: 1e9,
        }
    }
}

/// The meters of all sources.
#[derive(Debug)]
pub struct Flood {
    limit: Limit,
    sources: Map<IpAddr, Meter>,
    /// The shared meter of sources that have none of their own.
    others: Meter,
}

#[derive(Debug)]
struct Meter {
    packets: TokenBucket,
    bytes: TokenBucket,
    seen: Time,
}

impl Flood {
    /// Creates the meters; no source has sent anything.
    #[must_use]
    pub fn new(limit: Limit, now: Time) -> Flood {
        Flood {
            limit,
            sources: Map::default(),
            others: Meter::new(limit, now),
        }
    }

    /// Returns whether a packet of `bytes` bytes is within its source's limit.
    pub fn allows(&mut self, now: Time, source: IpAddr, bytes: usize) -> bool {
        if let Some(meter) = self.sources.get_mut(&source) {
            return meter.take(now, bytes);
        }
        if self.sources.len() >= SOURCES_MAX {
            return self.others.take(now, bytes);
        }
        let mut meter = Meter::new(self.limit, now);
        let allowed = meter.take(now, bytes);
        self.sources.insert(source, meter);
        allowed
    }

    /// Forgets silent sources. The caller calls this from time to time.
    pub fn tidy(&mut self, now: Time) {
        self.sources.retain(|_, meter| meter.seen + IDLE > now);
    }
}

impl Meter {
    fn new(limit: Limit, now: Time) -> Meter {
        let bytes = limit.bits_per_s / 8.0;
        Meter {
            packets: TokenBucket::new(limit.packets, limit.packets * BURST_S, now),
            // Any single packet fits, however low the limit.
            bytes: TokenBucket::new(bytes, (bytes * BURST_S).max(65_536.0), now),
            seen: now,
        }
    }

    fn take(&mut self, now: Time, bytes: usize) -> bool {
        self.seen = now;
        self.packets.try_take(now, 1.0) && self.bytes.try_take(now, bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(n: u32) -> IpAddr {
        core::net::Ipv4Addr::from_bits(0x0a00_0000 + n).into()
    }

    #[test]
    fn a_source_has_its_burst_then_its_rate_and_takes_nothing_from_others() {
        let limit = Limit {
            packets: 1_000.0,
            bits_per_s: 1e9,
        };
        let mut flood = Flood::new(limit, Time::ZERO);
        let mut sent = |now, n| {
            (0..5_000)
                .filter(|_| flood.allows(now, source(n), 100))
                .count()
        };
        assert_eq!(sent(Time::ZERO, 1), 250);
        assert_eq!(sent(Time::ZERO, 2), 250);
        assert_eq!(sent(Time::ZERO + Duration::from_millis(100), 1), 100);
        let limit = Limit {
            packets: 1e6,
            bits_per_s: 8e6,
        };
        let mut flood = Flood::new(limit, Time::ZERO);
        let sent = (0..5_000)
            .filter(|_| flood.allows(Time::ZERO, source(1), 1_000))
            .count();
        assert_eq!(sent, 250, "bytes count too");
    }

    #[test]
    fn sources_are_bounded_and_forgotten() {
        let limit = Limit {
            packets: 40.0,
            bits_per_s: 1e9,
        };
        let mut flood = Flood::new(limit, Time::ZERO);
        let each = (0..10_000).filter(|&n| flood.allows(Time::ZERO, source(n), 100));
        assert_eq!(each.count(), SOURCES_MAX + 10, "the rest share one measure");
        assert_eq!(flood.sources.len(), SOURCES_MAX);
        flood.tidy(Time::ZERO + IDLE);
        assert!(flood.sources.is_empty());
    }
}
