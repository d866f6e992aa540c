//! Measures one stream's packets: it counts them on arrival and judges them at the end.

use base::{Duration, Time};
use serde::Serialize;

/// Marks a packet that has not arrived; more than an hour.
const MISSING: u32 = u32::MAX;

/// One stream of packets, from its sender to its receiver.
#[derive(Debug)]
pub(crate) struct Meter {
    /// The time between two packets of a spurt: the duration of one missed packet.
    interval: Duration,
    /// The due time of each judged packet, if the interval does not determine it.
    moments: Option<Vec<Time>>,
    deadline: Option<Duration>,
    /// The first packet that is judged.
    first: u32,
    sent: u32,
    /// One bit per judged packet: whether it has arrived in time.
    in_time: Bits,
    /// The delay of each judged packet in microseconds, [`MISSING`] if it has not arrived.
    delays_us: Vec<u32>,
    received: u64,
    received_bytes: u64,
    duplicates: u64,
    reordered: u64,
    highest: Option<u32>,
    /// The jitter of RFC 3550 §6.4.1, in nanoseconds times 16.
    jitter_16: u64,
    last_transit: Option<u64>,
    /// Requests that the node refused.
    pub(crate) refused: u64,
    /// Connections that ended early and were reopened.
    pub(crate) reopened: u64,
    /// For bulk, which has no packets: bytes that arrived in the judged span.
    pub(crate) bulk_bytes: u64,
}

/// The result of a flow's streams together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Judgement {
    /// Packets sent.
    pub sent: u64,
    /// Packets that arrived, each counted once.
    pub received: u64,
    /// Packets that never arrived.
    pub lost: u64,
    /// Percentage of the sent packets that never arrived.
    pub lost_pct: f64,
    /// Packets that arrived after the deadline.
    pub late: u64,
    /// Percentage of the sent packets that arrived after the deadline.
    pub late_pct: f64,
    /// One-way delay of all packets that arrived.
    pub delay_ms: DelayMs,
    /// Interarrival jitter (RFC 3550 §6.4.1), mean over the streams.
    pub jitter_ms: f64,
    /// Packets that arrived again.
    pub duplicates: u64,
    /// Packets that arrived after one that was sent later (RFC 4737).
    pub reordered: u64,
    /// Runs of missed packets that are as long as a gap.
    pub gaps: u64,
    /// The longest run of missed packets.
    pub longest_gap_ms: f64,
    /// Requests that the sending or receiving node refused.
    pub refused: u64,
    /// Reliable streams that ended early and were reopened.
    pub reopened: u64,
    /// For bulk: bytes that arrived in the judged span.
    pub bulk_bytes: u64,
    /// Payload of the packets that arrived, each counted once.
    #[serde(skip)]
    pub received_bytes: u64,
}

/// One-way delay; `None` if no packet arrived. Percentiles are nearest-rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DelayMs {
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

impl Meter {
    pub(crate) fn new(interval: Duration, deadline: Option<Duration>) -> Meter {
        Meter {
            interval,
            moments: None,
            deadline,
            first: 0,
            sent: 0,
            in_time: Bits::default(),
            delays_us: Vec::new(),
            received: 0,
            received_bytes: 0,
            duplicates: 0,
            reordered: 0,
            highest: None,
            jitter_16: 0,
            last_transit: None,
            refused: 0,
            reopened: 0,
            bulk_bytes: 0,
        }
    }

    /// Notes a sent packet and returns its number. Packets that are not judged come first.
    pub(crate) fn on_sent(&mut self, judged: bool) -> u32 {
        let number = self.sent;
        self.sent += 1;
        if !judged {
            self.first = self.sent;
        }
        number
    }

    /// Notes a sent packet, and when it is due.
    pub(crate) fn on_sent_at(&mut self, judged: bool, due: Time) -> u32 {
        if let Some(moments) = self.moments.as_mut().filter(|_| judged) {
            moments.push(due);
        }
        self.on_sent(judged)
    }

    /// Prepares for packets without a pattern: gaps last until the next packet.
    pub(crate) fn keep_moments(&mut self) {
        self.moments = Some(Vec::new());
    }

    /// Returns the index of a sent packet among the judged ones, as in [`Meter::delays_us`].
    pub(super) fn place(&self, number: u32) -> Option<u32> {
        let place = number.checked_sub(self.first)?;
        (number < self.sent).then_some(place)
    }

    /// Notes the arrival of a packet with `bytes` of payload. Returns false if it had already arrived, or is not
    /// judged.
    pub(crate) fn on_arrival(&mut self, number: u32, sent: Time, at: Time, bytes: usize) -> bool {
        // A packet that is not judged has no bit.
        let Some(judged) = self.place(number) else {
            return false;
        };
        let place = judged as usize;
        if place >= self.delays_us.len() {
            self.delays_us.resize(place + 1, MISSING);
        }
        let delay = at.since(sent);
        let us = u32::try_from(delay.as_micros()).unwrap_or(MISSING);
        if self.delays_us[place] != MISSING {
            self.duplicates += 1;
            return false;
        }
        // Any delay beyond an hour counts as an hour.
        self.delays_us[place] = us.min(MISSING - 1);
        self.received += 1;
        self.received_bytes += bytes as u64;
        if self.deadline.is_none_or(|deadline| delay <= deadline) {
            self.in_time.set(judged);
        }
        let transit = delay.as_nanos();
        if let Some(last) = self.last_transit.replace(transit) {
            // J += (|D| − J) / 16, as the RFC's example computes it in whole numbers.
            let difference = transit.abs_diff(last);
            self.jitter_16 = self.jitter_16 + difference - (self.jitter_16 + 8) / 16;
        }
        match self.highest {
            Some(highest) if number < highest => self.reordered += 1,
            _ => self.highest = Some(number),
        }
        true
    }

    /// Returns the delay of each judged packet in microseconds, in the order of sending.
    pub(super) fn delays_us(&self) -> Vec<Option<u32>> {
        let known = self.delays_us.iter();
        let known = known.map(|us| Some(*us).filter(|us| *us != MISSING));
        let judged = (self.sent - self.first) as usize;
        known.chain(core::iter::repeat(None)).take(judged).collect()
    }

    /// Returns the numbers of judged packets so far: sent, received, and received in time.
    pub(crate) fn so_far(&self) -> [u64; 3] {
        let sent = u64::from(self.sent - self.first);
        [sent, self.received, self.in_time.count]
    }

    /// Returns the lengths of all runs of missed packets, each until the next packet that is in time.
    fn misses(&self) -> impl Iterator<Item = Duration> + '_ {
        let mut row = 0;
        let judged = self.sent - self.first;
        (0..=judged).filter_map(move |n| {
            if n < judged && !self.in_time.is_set(n) {
                row += 1;
                return None;
            }
            let missed = core::mem::take(&mut row);
            (missed > 0).then(|| self.span(n - missed, n))
        })
    }

    /// Returns the time from one judged packet to another one.
    fn span(&self, from: u32, to: u32) -> Duration {
        let evenly = self.interval * u64::from(to - from);
        let moment = |n: u32| self.moments.as_ref()?.get(n as usize).copied();
        match (moment(from), moment(to), moment(to.saturating_sub(1))) {
            (Some(from), Some(to), _) => to.since(from),
            // After the last packet, one interval is assumed.
            (Some(from), None, Some(last)) => last.since(from) + self.interval,
            _ => evenly,
        }
    }
}

impl Judgement {
    /// Judges the streams of one flow together; a run of missed packets as long as `gap` is a gap.
    pub(crate) fn of(meters: &[Meter], gap: Duration) -> Judgement {
        let mut judgement = Judgement::default();
        let (mut delays, mut jitter_ns, mut longest) = (Vec::new(), 0.0, Duration::ZERO);
        for meter in meters {
            judgement.sent += u64::from(meter.sent - meter.first);
            judgement.received += meter.received;
            judgement.late += meter.received - meter.in_time.count;
            judgement.duplicates += meter.duplicates;
            judgement.reordered += meter.reordered;
            judgement.refused += meter.refused;
            judgement.reopened += meter.reopened;
            judgement.bulk_bytes += meter.bulk_bytes;
            judgement.received_bytes += meter.received_bytes;
            jitter_ns += meter.jitter_16 as f64 / 16.0 / meters.len() as f64;
            for span in meter.misses() {
                longest = longest.max(span);
                judgement.gaps += u64::from(span >= gap);
            }
            delays.extend(meter.delays_us.iter().filter(|us| **us != MISSING));
        }
        judgement.lost = judgement.sent - judgement.received;
        let percent = |count: u64| 100.0 * count as f64 / (judgement.sent as f64).max(1.0);
        judgement.lost_pct = rounded(percent(judgement.lost), 4);
        judgement.late_pct = rounded(percent(judgement.late), 4);
        judgement.jitter_ms = rounded(jitter_ns / 1e6, 4);
        judgement.longest_gap_ms = rounded(longest.as_secs_f64() * 1e3, 3);
        judgement.delay_ms = DelayMs::of(delays);
        judgement
    }
}

impl DelayMs {
    fn of(mut delays_us: Vec<u32>) -> DelayMs {
        delays_us.sort_unstable();
        let count = delays_us.len();
        let sum: u64 = delays_us.iter().map(|us| u64::from(*us)).sum();
        let ms = |us: f64| rounded(us / 1e3, 4);
        let rank = |percent: usize| {
            let rank = (count * percent).div_ceil(100).max(1);
            delays_us.get(rank - 1).map(|us| ms(f64::from(*us)))
        };
        DelayMs {
            mean: (count > 0).then(|| ms(sum as f64 / count as f64)),
            p50: rank(50),
            p95: rank(95),
            p99: rank(99),
            max: rank(100),
        }
    }
}

/// Rounds a value to its significant digits, so that the JSON is readable.
pub(crate) fn rounded(value: f64, digits: i32) -> f64 {
    tools::quality::round(value, digits)
}

/// A growing list of bits.
#[derive(Debug, Default)]
struct Bits {
    words: Vec<u64>,
    count: u64,
}

impl Bits {
    fn set(&mut self, n: u32) {
        let (word, bit) = (n as usize / 64, 1 << (n % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let was_set = self.words[word] & bit != 0;
        self.words[word] |= bit;
        self.count += u64::from(!was_set);
    }

    fn is_set(&self, n: u32) -> bool {
        let word = self.words.get(n as usize / 64).copied().unwrap_or_default();
        word & (1 << (n % 64)) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns a meter for a packet every 20 ms; `fates` are delays in milliseconds, in the order of sending.
    fn meter(unjudged: usize, fates: &[Option<u64>]) -> Meter {
        let mut meter = Meter::new(MS * 20, Some(MS * 100));
        let mut arrivals = Vec::new();
        for (n, fate) in fates.iter().enumerate() {
            let number = meter.on_sent(n >= unjudged);
            let sent = Time::ZERO + MS * (20 * n as u64);
            arrivals.extend(fate.map(|ms| (sent + MS * ms, number, sent)));
        }
        arrivals.sort_unstable();
        for (at, number, sent) in arrivals {
            meter.on_arrival(number, sent, at, 160);
        }
        meter
    }

    #[test]
    fn fates_are_counted() {
        let fates = [
            Some(10),
            None,
            None,
            Some(150),
            Some(10),
            None,
            Some(30),
            None,
        ];
        let judgement = Judgement::of(&[meter(0, &fates)], MS * 60);
        assert_eq!(
            (judgement.sent, judgement.received, judgement.lost),
            (8, 4, 4)
        );
        assert_eq!(
            (judgement.lost_pct, judgement.late, judgement.late_pct),
            (50.0, 1, 12.5)
        );
        // The fourth packet arrives after the fifth and the seventh.
        assert_eq!((judgement.reordered, judgement.duplicates), (1, 0));
        // The missed packets are 2-4, 6 and 8.
        assert_eq!((judgement.gaps, judgement.longest_gap_ms), (1, 60.0));
        let delay = judgement.delay_ms;
        assert_eq!(
            (delay.mean, delay.p50, delay.p95),
            (Some(50.0), Some(10.0), Some(150.0))
        );
    }

    #[test]
    fn what_is_sent_before_is_not_judged() {
        let judgement = Judgement::of(&[meter(2, &[None, Some(500), Some(10), None])], MS * 20);
        assert_eq!((judgement.sent, judgement.lost, judgement.late), (2, 1, 0));
        assert_eq!(judgement.gaps, 1);
    }

    #[test]
    fn copies_and_nonsense_change_nothing_else() {
        let mut twice = meter(0, &[Some(10), Some(10)]);
        twice.on_arrival(1, Time::ZERO, Time::ZERO + MS * 900, 160);
        twice.on_arrival(7, Time::ZERO, Time::ZERO + MS * 900, 160);
        let judgement = Judgement::of(&[twice], MS);
        assert_eq!((judgement.duplicates, judgement.received), (1, 2));
        assert_eq!(judgement.delay_ms.max, Some(10.0));
        let nothing = Judgement::of(&[meter(0, &[])], MS);
        assert_eq!(
            (nothing.lost_pct, nothing.delay_ms),
            (0.0, DelayMs::default())
        );
    }

    #[test]
    fn delays_are_kept_by_number() {
        let meter = meter(1, &[Some(5), Some(30), None, Some(10), None]);
        let expected = [Some(30_000), None, Some(10_000), None];
        assert_eq!(meter.delays_us(), expected);
    }

    #[test]
    fn jitter_is_that_of_the_rfc() {
        let fates: Vec<Option<u64>> = (0..200).map(|n| Some(10 + 8 * (n % 2))).collect();
        let judgement = Judgement::of(&[meter(0, &fates)], MS);
        assert!((judgement.jitter_ms - 8.0).abs() < 0.01, "{judgement:?}");
    }
}
