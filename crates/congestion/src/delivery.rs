//! The rate at which sent data arrives, measured by acknowledgements (the delivery rate of draft-ietf-ccwg-bbr §4.1). A
//! control that uses a model of its path needs it.
//!
//! ```text
//!   sent       | | | | P            send interval: since the packet of which was heard last
//!   heard of     | | | | | | P      ack interval:  what arrived from P's departure to its arrival
//!              rate = what arrived in between / the longer of both
//! ```
//!
//! The longer of both intervals is used, because acknowledgements come in clusters, and bursts leave in one. A sample
//! of a sender that had nothing more to send shows what it sent, and not what the path carries.
//!
//! A sender keeps a [`Stamp`] with each transmission and returns it with the acknowledgement of that transmission.

use base::{Duration, Time};

/// The state that was known when a transmission left.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stamp {
    sent_at: Time,
    /// Number of segments that had arrived, and when the last acknowledgement of one came.
    delivered: f64,
    delivered_at: Time,
    /// When the transmission left that was acknowledged last.
    first_sent_at: Time,
    in_flight: f32,
    of_application: bool,
}

/// The data of one acknowledgement for a control that uses a model.
#[derive(Clone, Copy, Debug)]
pub struct Delivered {
    /// When the acknowledgement arrived.
    pub now: Time,
    /// Number of segments that it reports as arrived.
    pub segments: f64,
    /// Number of segments that were declared lost since the previous acknowledgement.
    pub lost: f64,
    /// Number of all segments that have arrived so far.
    pub total: f64,
    /// The round trip of a segment that was sent only once.
    pub rtt: Option<Duration>,
    /// Number of segments in flight now.
    pub in_flight: f64,
    /// The window limits the sender.
    pub limited: bool,
    /// The rate, if it could be measured.
    pub sample: Option<Sample>,
}

/// A measurement of the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Number of segments that arrived in `interval`.
    pub segments: f64,
    /// The time in which `segments` arrived.
    pub interval: Duration,
    /// The number of segments that had arrived when the newest of them left.
    pub prior: f64,
    /// The number of segments in flight when it had left.
    pub in_flight: f64,
    /// The sender had nothing more to send at that time.
    pub of_application: bool,
}

impl Sample {
    /// Returns the rate in segments per second.
    pub fn rate(&self) -> f64 {
        self.segments / self.interval.as_secs_f64().max(1e-9)
    }
}

/// The measurement of one sender.
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    delivered: f64,
    delivered_at: Time,
    first_sent_at: Time,
    /// Samples belong to the application until this number of segments has arrived.
    of_application_until: f64,
    /// Number of segments since the last acknowledgement was taken in.
    fresh: f64,
    lost: f64,
    newest: Option<Stamp>,
}

impl Sampler {
    /// Records that a transmission leaves, with `in_flight` segments before it.
    pub fn on_sent(&mut self, now: Time, in_flight: f64, segments: f64) -> Stamp {
        if in_flight <= 0.0 {
            // Silence does not count as slow arrival.
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        Stamp {
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            in_flight: (in_flight + segments) as f32,
            of_application: self.of_application_until > self.delivered,
        }
    }

    /// Records that there is nothing to send, although window and pace would allow it.
    pub fn on_nothing_to_send(&mut self, in_flight: f64) {
        self.of_application_until = self.delivered + in_flight.max(1e-3);
    }

    /// Records that a transmission has arrived. It is not known which one if it may have been an earlier transmission
    /// of the same data.
    pub fn on_arrived(&mut self, now: Time, stamp: Option<&Stamp>, segments: f64) {
        self.delivered += segments;
        self.delivered_at = now;
        self.fresh += segments;
        let Some(stamp) = stamp else {
            return;
        };
        let later =
            |newest: &Stamp| (stamp.delivered, stamp.sent_at) >= (newest.delivered, newest.sent_at);
        if self.newest.as_ref().is_none_or(later) {
            self.newest = Some(*stamp);
            self.first_sent_at = self.first_sent_at.max(stamp.sent_at);
        }
    }

    /// Records that a transmission is declared lost.
    pub fn on_lost(&mut self, segments: f64) {
        self.lost += segments;
    }

    /// Records that everything is declared lost after a timeout, which does not count as a rate of losses.
    pub fn on_timeout(&mut self) {
        self.newest = None;
        self.lost = 0.0;
    }

    /// Returns the data of an acknowledgement after all its segments have been recorded.
    pub fn take(
        &mut self,
        now: Time,
        rtt: Option<Duration>,
        in_flight: f64,
        limited: bool,
    ) -> Delivered {
        let sample = self.newest.take().and_then(|newest| {
            let sending = newest.sent_at.since(newest.first_sent_at);
            let interval = sending.max(now.since(newest.delivered_at));
            (interval > Duration::ZERO).then(|| Sample {
                segments: self.delivered - newest.delivered,
                interval,
                prior: newest.delivered,
                in_flight: newest.in_flight.into(),
                of_application: newest.of_application,
            })
        });
        Delivered {
            now,
            segments: core::mem::take(&mut self.fresh),
            lost: core::mem::take(&mut self.lost),
            total: self.delivered,
            rtt,
            in_flight,
            limited,
            sample,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// Sends segments every `gap_ms`, which arrive 100 ms later, with acknowledgements for `cluster` at once.
    fn rates(gap_ms: u64, cluster: u64) -> Vec<f64> {
        let mut sampler = Sampler::default();
        let mut stamps = Vec::new();
        let mut rates = Vec::new();
        let mut arrived = 0;
        for now in 0..2_000 {
            while arrived < stamps.len() as u64
                && (arrived / cluster + 1) * cluster * gap_ms + 100 <= now
            {
                sampler.on_arrived(ms(now), Some(&stamps[arrived as usize]), 1.0);
                arrived += 1;
            }
            if now % gap_ms == 0 {
                let in_flight = stamps.len() as u64 - arrived;
                stamps.push(sampler.on_sent(ms(now), in_flight as f64, 1.0));
            }
            let told = sampler.take(ms(now), None, 1.0, true);
            if let Some(sample) = told.sample
                && now > 400
            {
                rates.push(sample.rate());
            }
        }
        rates
    }

    #[test]
    fn the_rate_is_that_of_arrival_also_in_clusters() {
        for (gap, cluster) in [(2, 1), (2, 5), (10, 1), (1, 20)] {
            let rates = rates(gap, cluster);
            let right = 1_000.0 / gap as f64;
            assert!(rates.len() > 50 / cluster as usize);
            for rate in rates {
                assert!(
                    rate <= right * 1.001 && rate > right * 0.75,
                    "{gap} {cluster}: {rate}"
                );
            }
        }
    }

    #[test]
    fn a_sender_with_nothing_to_send_measures_itself() {
        let mut sampler = Sampler::default();
        let first = sampler.on_sent(ms(0), 0.0, 1.0);
        sampler.on_nothing_to_send(1.0);
        let second = sampler.on_sent(ms(50), 1.0, 1.0);
        sampler.on_arrived(ms(100), Some(&first), 1.0);
        let told = sampler.take(ms(100), None, 1.0, false);
        assert!(!told.sample.unwrap().of_application);
        sampler.on_arrived(ms(150), Some(&second), 1.0);
        let sample = sampler.take(ms(150), None, 0.0, false).sample.unwrap();
        assert!(sample.of_application);
        // All of that has arrived, so what follows is not limited by the application.
        let third = sampler.on_sent(ms(150), 0.0, 1.0);
        sampler.on_arrived(ms(250), Some(&third), 1.0);
        let told = sampler.take(ms(250), None, 0.0, true);
        assert!(!told.sample.unwrap().of_application);
    }

    #[test]
    fn losses_are_counted_between_acknowledgements_and_silence_is_no_slow_arrival() {
        let mut sampler = Sampler::default();
        let first = sampler.on_sent(ms(0), 0.0, 1.0);
        sampler.on_lost(2.0);
        sampler.on_arrived(ms(100), Some(&first), 1.0);
        assert_eq!(sampler.take(ms(100), None, 0.0, true).lost, 2.0);
        let late = sampler.on_sent(ms(9_000), 0.0, 1.0);
        sampler.on_arrived(ms(9_100), Some(&late), 1.0);
        let told = sampler.take(ms(9_100), None, 0.0, true);
        assert_eq!((told.lost, told.segments, told.total), (0.0, 1.0, 2.0));
        let sample = told.sample.unwrap();
        assert_eq!(
            (sample.segments, sample.interval),
            (1.0, Duration::from_millis(100))
        );
    }
}
