//! The cost of a link. [Amir06 §IV-B]
//!
//! | metric | cost of a link | unit of [`Cost`] |
//! |---|---|---|
//! | hops | 1 | one hop |
//! | latency | T | nanosecond |
//! | loss | −log(1−p) | 10⁻⁹ neper |
//! | expected latency | (1−p)·T + (p−2p²+3p³)·(3T+Δ) + (2p²−3p³)·Tmax | nanosecond |
//!
//! T is the one-way latency, p the loss rate. All arithmetic is on integers: two nodes that know
//! the same records compute the same costs whatever their processor and library, so they never
//! disagree about a tie. Every cost is at least 1.

use crate::protection::{ALL, Lane, Left, left};
use core::fmt;
use core::ops::Add;
use core::str::FromStr;

/// The measure by which paths are compared. The order is that of the routing codes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Fewest links.
    Hops,
    /// Least latency.
    Latency,
    /// Least loss.
    Loss,
    /// Least expected latency under real-time recovery.
    ExpectedLatency,
}

/// The known properties of a link, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LinkCost {
    /// One-way latency in microseconds.
    pub latency_us: u32,
    /// Packets lost, as a share of 65 536.
    pub loss: u16,
    /// The price of recent outages, in microseconds of latency; [`SILENT`] while the other end is not heard. A path
    /// uses a link with a price if every path without the link is worse by at least the price. It uses a silent link
    /// only if there is no other path.
    pub price_us: u32,
    /// The protection in force, if it is known. Otherwise the paper's single request is assumed.
    pub repair: Option<Repair>,
    /// Whether packets are being lost on the link right now, if its far end watches that. Otherwise the loss rate
    /// decides. No metric depends on it.
    pub alarm: Option<bool>,
}

/// The protection in force on a link: the receiver requests lost packets, several times if there is time, and coded
/// repair replaces requests where there is no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repair {
    /// How often the receiver requests a lost packet.
    pub strikes: u8,
    /// The chance that the request or its answer is lost, as a share of 65 536.
    pub fails: u16,
    /// The report of the sender's end about its lane. If `None`, requests are the only protection.
    pub lane: Option<Lane>,
}

/// The price of a link whose other end is not heard.
pub const SILENT: u32 = u32::MAX;

/// The amount that a silent link adds to the cost of a path, in the unit of any metric.
///
/// A path of [`u16::MAX`] links that are not silent costs less: each link has at most 2^32 µs of latency and as much of
/// price, so 65 535 · 2 · 4.3·10^12 ns = 5.6·10^17. The cost of fifteen silent links fits a [`Cost`].
pub const SILENT_COST: u64 = 1 << 60;

/// The price that counts as one more hop where hops are counted. Choice: with this value, the price of one outage (75
/// ms) equals three hops.
const PRICE_PER_HOP_US: u32 = 25_000;
/// The cost of one microsecond of price, in 10⁻⁹ neper. Choice: the price of one outage (75 ms) weighs as much as 5 %
/// of loss, −ln(0.95) = 0.0513.
const PRICE_NEPER_PER_US: u64 = 684;

/// The parameters of the expected latency besides the link. The default is that of [Amir06 §IV-B]: Δ = 2 ms, Tmax = 100
/// ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Δ: the time that a receiver takes to detect a loss, which is the time between packets on the link.
    pub detect_us: u32,
    /// Tmax: the delay that a packet counts with if it was not recovered. It is the threshold of the codec.
    pub late_us: u32,
    /// The additional cost that the loss of every packet would have, beside the time that repair takes; 0 in [Amir06
    /// §IV-B].
    pub loss_us: u32,
}

/// The cost of a link or a path under one metric, in that metric's unit. Costs of different metrics are not comparable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(pub u64);

/// Returns the cost of a link under `metric`; at least 1.
pub fn cost(metric: Metric, link: LinkCost, parameters: &Parameters) -> Cost {
    let price = u64::from(link.price_us);
    let (cost, price) = match metric {
        Metric::Hops => (1, u64::from(link.price_us.div_ceil(PRICE_PER_HOP_US))),
        Metric::Latency => (latency_ns(link), price * 1_000),
        Metric::Loss => (minus_log_of_delivery(link.loss), price * PRICE_NEPER_PER_US),
        Metric::ExpectedLatency => {
            let expected = expected_latency_ns(link, parameters);
            bounded(link, (expected, price * 1_000), parameters)
        }
    };
    let price = if link.is_silent() { SILENT_COST } else { price };
    let cost = cost.saturating_add(price);
    // Choice: at least 1, so that a perfect link is not free. Otherwise endless paths would cost nothing either, and of
    // equally good paths the shorter one is to be preferred.
    Cost(cost.max(1))
}

/// Returns the cost of a link and the price on top of it, in nanoseconds, from its expected latency and the price of
/// its outages. A link that is in time but loses packets or fails is no worse than a path that is always late: its
/// whole cost is at most Tmax. So a path that is late because of its length never replaces it.
///
/// ```text
///   room = Tmax - latency   |- - - - - - - - - - -
///                           |          .------
///          room / 2         |      .-'
///                           |    /    dearer by more than half of the room: room - room^2 / (4 * dearer)
///                           '--/----------------> dearer than its latency, for losses and outages
/// ```
/// Choice: the curve bends instead of ending at a limit, so that of two bad links the better one still costs less.
/// Losses up to half of the room keep their full cost. The paper's metric, which has no burden of losses, stays
/// unchanged.
fn bounded(link: LinkCost, (expected, price): (u64, u64), parameters: &Parameters) -> (u64, u64) {
    let late = u64::from(parameters.late_us) * 1_000;
    let latency = latency_ns(link);
    let room = late.saturating_sub(latency);
    let dearer = (expected + price).saturating_sub(latency);
    // Choice: this returns the full cost. So among links that are late anyway, the steady one is preferred, for longer
    // deadlines.
    if room == 0 || parameters.loss_us == 0 || dearer <= room / 2 {
        return (expected, price);
    }
    let squared = u128::from(room) * u128::from(room);
    let left = squared / (4 * u128::from(dearer));
    let bent = room - u64::try_from(left).expect("at most half of the room");
    (latency + bent, 0)
}

fn latency_ns(link: LinkCost) -> u64 {
    u64::from(link.latency_us) * 1_000
}

/// Returns −ln(1−p) in units of 10⁻⁹, plus 1 per link.
///
/// Choice: the 1 makes the shorter of two loss-free paths the cheaper one. It is 1/15 000 of the smallest loss that a
/// record can express, so it never outweighs any loss.
fn minus_log_of_delivery(loss: u16) -> u64 {
    /// 10⁹ · ln 2, with 32 fractional bits.
    const LN_2: u128 = 2_977_044_471_819_572_071;
    let delivered = 65_536 - u32::from(loss);
    let log2 = u128::from((16u64 << LOG_BITS) - log2_fixed(delivered));
    // log2 has 32 fractional bits, the constant 32 more.
    let ln = (log2 * LN_2 + (1 << 63)) >> 64;
    ln as u64 + 1
}

/// Fractional bits of [`log2_fixed`].
const LOG_BITS: u32 = 32;

/// Returns the binary logarithm of `n` > 0 with 32 fractional bits, one bit per squaring.
fn log2_fixed(n: u32) -> u64 {
    let whole = n.ilog2();
    // The mantissa is in 1.0 .. 2.0 and has 62 fractional bits.
    let mut mantissa = u64::from(n) << (62 - whole);
    let mut log = u64::from(whole);
    for _ in 0..LOG_BITS {
        let square = (u128::from(mantissa) * u128::from(mantissa)) >> 62;
        let doubled = square >> 63 == 1;
        mantissa = (square >> u32::from(doubled)) as u64;
        log = log << 1 | u64::from(doubled);
    }
    log
}

/// Returns (1−p)·T + (p−l)·(3T+Δ) + l·Tmax with l = 2p²−3p³, the share that recovery cannot repair. [Amir06 §IV-B]
///
/// The code computes it as T + p·(2T+Δ) + l·(Tmax−3T−Δ), which grows with p wherever l does. If the protection in force
/// is known, l is the loss that this protection leaves.
fn expected_latency_ns(link: LinkCost, parameters: &Parameters) -> u64 {
    if let Some(repair) = link.repair {
        return repaired_latency_ns(link, repair, parameters);
    }
    let direct = i128::from(latency_ns(link));
    let recovered = 3 * direct + i128::from(parameters.detect_us) * 1_000;
    let late = i128::from(parameters.late_us) * 1_000;
    let share = i128::from(link.loss);
    let (low, beyond) = unrepaired(link.loss);

    // Choice: beyond the range of the paper's approximation, a lost packet counts as arriving no earlier than a
    // recovered one. Otherwise a link of 3T+Δ > Tmax would get cheaper as it gets worse.
    let excess = low * (late - recovered) + beyond * (late - recovered).max(0);
    let scaled = (direct << 48) + ((share * (recovered - direct)) << 32) + excess;
    ((scaled + (1 << 47)) >> 48) as u64
}

/// Returns T + a·(2T+Δ) + c·C + l·(Tmax−T) plus the burden of the link's losses. The share p is lost. Requests recover
/// a of it, coded repair recovers c, which arrives C later, and l stays lost ([`left`]).
///
/// Choice: a packet that stays lost counts as arriving no earlier than a requested one, as above.
fn repaired_latency_ns(link: LinkCost, repair: Repair, parameters: &Parameters) -> u64 {
    let direct = latency_ns(link);
    let late = u64::from(parameters.late_us) * 1_000;
    let room = late.saturating_sub(direct);
    let answered = 2 * direct + u64::from(parameters.detect_us) * 1_000;
    let coded = room.min(u64::from(parameters.detect_us) * 1_000 * CODED_PACKETS);
    let left = left_in_time(link, parameters);
    let by_answers = (u64::from(link.loss) << 16) - left.requests;
    let by_code = left.requests - left.compared();
    let parts = [
        (by_answers, answered),
        (by_code, coded),
        (left.compared(), room.max(answered)),
    ];
    let extra = parts.map(|(share, ns)| u128::from(share) * u128::from(ns));
    let extra: u128 = extra.iter().sum();
    direct + ((extra + (1 << 31)) >> 32) as u64 + burden_ns(link, repair, left, parameters)
}

/// Returns what stays lost if everything later than Tmax counts as late.
fn left_in_time(link: LinkCost, parameters: &Parameters) -> Left {
    let room = parameters.late_us.saturating_sub(link.latency_us);
    left(link, room.into(), parameters)
}

/// The number of packets after which coded repair arrives. Choice: a repair packet follows each packet or two, and a
/// run of losses takes as many repair packets as it is long.
const CODED_PACKETS: u64 = 2;

/// Returns the cost of a link beside the average time that its packets take.
///
/// Choice: a repaired loss is not free. Its packet has no time left for another loss, losses occur together, and
/// estimates of them lag. A reliable lane slows down with the square root of the loss: a stream starves on a link that
/// loses 8 %, however well its calls are repaired. So everything that is lost has its price. What stays lost counts a
/// second time if the protection of the lane is reported. And on a link that is as long as Tmax, every packet is late:
/// it is as bad as a link that has just failed twice, or no path would use the failed link again.
fn burden_ns(link: LinkCost, repair: Repair, left: Left, parameters: &Parameters) -> u64 {
    let lost = u64::from(link.loss) << 16;
    let weighs = match repair.lane {
        Some(_) => lost + left.compared(),
        None => lost,
    };
    let losses = u128::from(weighs) * u128::from(parameters.loss_us) * 1_000 / u128::from(ALL);
    let is_late = link.latency_us >= parameters.late_us && parameters.loss_us > 0;
    let late = u64::from(is_late) * u64::from(parameters.late_us) * 2_000;
    losses as u64 + late
}

/// Returns l = 2p²−3p³ as shares of 2^48: the value up to p = 4/9, and the additional amount beyond.
///
/// Choice: 2p²−3p³ approximates the residual loss for small p; it peaks at p = 4/9 and is −1 at p = 1. From its peak
/// on, a straight line to 1 takes its place, so that a worse link always costs more and a link that loses everything
/// costs Tmax.
pub(crate) fn unrepaired(loss: u16) -> (i128, i128) {
    /// 4/9 of 65 536, rounded down.
    const PEAK: i128 = 29_127;
    let formula = |q: i128| 2 * q * q * 65_536 - 3 * q * q * q;
    let q = i128::from(loss);
    let low = formula(q.min(PEAK));
    let beyond = (q - PEAK).max(0) * ((1 << 48) - low) / (65_536 - PEAK);
    (low, beyond)
}

impl Metric {
    /// Every metric.
    pub const ALL: [Metric; 4] = [
        Metric::Hops,
        Metric::Latency,
        Metric::Loss,
        Metric::ExpectedLatency,
    ];

    /// Returns the metric's position in [`Metric::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the metric's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Metric::Hops => "hops",
            Metric::Latency => "latency",
            Metric::Loss => "loss",
            Metric::ExpectedLatency => "expected-latency",
        }
    }

    /// Converts a cost under this metric to the unit that people use: hops, milliseconds, or the share of packets lost.
    pub fn in_natural_unit(self, cost: Cost) -> f64 {
        match self {
            Metric::Hops => cost.0 as f64,
            Metric::Latency | Metric::ExpectedLatency => cost.0 as f64 / 1e6,
            Metric::Loss => -(-(cost.0 as f64) / 1e9).exp_m1(),
        }
    }
}

impl LinkCost {
    /// Returns a link of `latency_us` that loses the share `loss`. A loss outside 0.0 to 1.0 is limited to this range.
    pub fn new(latency_us: u32, loss: f64) -> LinkCost {
        // The cast saturates: a loss of 1 becomes 65 535/65 536.
        LinkCost::of_share(latency_us, (loss * 65_536.0).round() as u16)
    }

    /// Returns the same link, with the loss as a share of 65 536.
    pub const fn of_share(latency_us: u32, loss: u16) -> LinkCost {
        LinkCost {
            latency_us,
            loss,
            price_us: 0,
            repair: None,
            alarm: None,
        }
    }

    /// Returns the same link with another loss rate. The loss also applies to the answers to requests.
    pub fn with_loss(self, loss: u16) -> LinkCost {
        let repair = self.repair.map(|repair| {
            // The share of requests that arrive, without the loss of the forward direction.
            let arrives = |share: u16| 65_536 - u64::from(share);
            let requests = arrives(repair.fails) * 65_536 / arrives(self.loss);
            let fails = 65_536 - (requests.min(65_536) * arrives(loss)) / 65_536;
            Repair {
                fails: u16::try_from(fails).unwrap_or(u16::MAX),
                ..repair
            }
        });
        LinkCost {
            loss,
            repair,
            ..self
        }
    }

    /// Returns true if the other end is not heard. Such a link is used only where there is no other path.
    pub fn is_silent(&self) -> bool {
        self.price_us == SILENT
    }

    /// Returns the share of packets lost.
    pub fn loss_share(&self) -> f64 {
        f64::from(self.loss) / 65_536.0
    }
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            detect_us: 2_000,
            late_us: 100_000,
            loss_us: 0,
        }
    }
}

impl Repair {
    /// Returns the protection by `strikes` requests, for a link with these loss rates in the forward and in the
    /// backward direction, as shares of 65 536.
    pub fn new(strikes: u8, loss: u16, back: u16) -> Repair {
        let arrives = |share: u16| 65_536 - u64::from(share);
        let fails = 65_536 - arrives(loss) * arrives(back) / 65_536;
        Repair {
            strikes,
            fails: u16::try_from(fails).unwrap_or(u16::MAX),
            lane: None,
        }
    }

    /// Returns the same protection with the sender's report of its lane.
    pub const fn with_lane(self, lane: Option<Lane>) -> Repair {
        Repair { lane, ..self }
    }
}

impl Cost {
    /// Returns true if a path with this cost includes a silent link, so that there is no evidence that anything
    /// arrives.
    pub fn is_silent(self) -> bool {
        self.0 >= SILENT_COST
    }
}

impl Add for Cost {
    type Output = Cost;
    fn add(self, other: Cost) -> Cost {
        Cost(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not the name of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownMetric;

impl fmt::Display for UnknownMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such metric: use hops, latency, loss or expected-latency")
    }
}

impl core::error::Error for UnknownMetric {}

impl FromStr for Metric {
    type Err = UnknownMetric;
    fn from_str(text: &str) -> Result<Metric, UnknownMetric> {
        Metric::ALL
            .into_iter()
            .find(|metric| metric.as_str() == text)
            .ok_or(UnknownMetric)
    }
}

#[cfg(test)]
mod tests;
