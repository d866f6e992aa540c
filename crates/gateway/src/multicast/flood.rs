//! What one source may send: enough for any program, and not for one that has gone mad.

use base::token_bucket::TokenBucket;
use base::{Duration, Map, Time};
use core::net::IpAddr;

/// Sources that have a measure of their own; those beyond share one. Each takes some 100 bytes.
pub const SOURCES_MAX: usize = 4_096;
/// A source that is silent for so long is forgotten.
const IDLE: Duration = Duration::from_secs(10);
/// What may come at once: a quarter of a second's worth. An `ffmpeg -re` sends 127 kB at once.
const BURST_S: f64 = 0.25;

/// What one source may send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// In a second.
    pub packets: f64,
    /// Of whole packets.
    pub bits_per_s: f64,
}

impl Default for Limit {
    /// More than a gateway on common hardware carries, so that only a source gone mad meets it.
    fn default() -> Limit {
        Limit {
            packets: 200_000.0,
            bits_per_s: 1e9,
        }
    }
}

/// The measures of all sources.
#[derive(Debug)]
pub struct Flood {
    limit: Limit,
    sources: Map<IpAddr, Meter>,
    /// Of those that have none of their own.
    others: Meter,
}

#[derive(Debug)]
struct Meter {
    packets: TokenBucket,
    bytes: TokenBucket,
    seen: Time,
}

impl Flood {
    /// No source has sent anything.
    #[must_use]
    pub fn new(limit: Limit, now: Time) -> Flood {
        Flood {
            limit,
            sources: Map::default(),
            others: Meter::new(limit, now),
        }
    }

    /// Whether a packet of so many bytes is within its source's limit.
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

    /// Forgets sources that are silent. To be called from time to time.
    pub fn tidy(&mut self, now: Time) {
        self.sources.retain(|_, meter| meter.seen + IDLE > now);
    }
}

impl Meter {
    fn new(limit: Limit, now: Time) -> Meter {
        let bytes = limit.bits_per_s / 8.0;
        Meter {
            packets: TokenBucket::new(limit.packets, limit.packets * BURST_S, now),
            // Any one packet has room, however low the limit.
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
