//! The model of a path. Every [`Model`] is valid: the setters refuse impossible values.

use crate::time::{Duration, Time};
use core::fmt;

/// Longest delay, and longest jitter: a round trip of half an hour reaches Mars; nothing here is farther, and sums of
/// times stay far from saturation.
pub const DELAY_MAX: Duration = Duration::from_secs(15 * 60);
/// Largest number of packets that wait in front of a transmitter: 65 536 of 1500 bytes are 0.8 s at 1 Gbit/s.
pub const QUEUE_PACKETS_MAX: usize = 65_536;
/// The default queue of a path with a rate: ns-2's default limit.
pub const QUEUE_DEFAULT: Queue = Queue::Packets(50);
/// Longest loss trace: 2^20 packets are 5.8 h of 20 ms voice frames, 1 MiB of memory.
pub const TRACE_PACKETS_MAX: usize = 1 << 20;
/// Largest number of scheduled outages of one path.
pub const OUTAGES_MAX: usize = 1024;

/// The properties of a path in one direction. The default is perfect: no loss, no delay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    delay: Duration,
    jitter: Duration,
    reorders: bool,
    loss: LossModel,
    duplicates: f64,
    rate: Option<(u64, Queue)>,
    mtu: Option<usize>,
    outage: bool,
    outages: Vec<(Time, Time)>,
}

/// Which packets are lost on the wire. All probabilities are per packet.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LossModel {
    /// No packet is lost.
    #[default]
    None,
    /// Each packet is lost with probability `p`, independently of the others.
    Bernoulli {
        /// Probability of loss.
        p: f64,
    },
    /// A share `p` is lost in the long run, and after a lost packet the next one is lost with probability `burstiness`.
    /// [Amir06 §II-C] A burstiness of zero means independent losses (not that two in a row never happen).
    Conditional {
        /// Marginal probability of loss.
        p: f64,
        /// Probability of loss if the previous packet was lost.
        burstiness: f64,
    },
    /// A path that changes between a good and a bad state.
    GilbertElliott {
        /// Probability of a change to the bad state after a packet in the good state.
        enter: f64,
        /// Probability of a change to the good state after a packet in the bad state.
        leave: f64,
        /// Probability of loss in the good state.
        loss_good: f64,
        /// Probability of loss in the bad state.
        loss_bad: f64,
    },
    /// Packets are lost as recorded, true = lost. The record is repeated.
    Trace(Vec<bool>),
}

/// The limit of the queue in front of the transmitter of a path with a rate. Further packets are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Number of packets, not counting the one in transmission.
    Packets(usize),
    /// Number of bytes, not counting the packet in transmission.
    Bytes(usize),
}

/// Why a path is impossible.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BadModel {
    /// A value that is no probability: it must lie between 0 and 1.
    Probability(f64),
    /// Losses of this frequency cannot have so little burstiness: p(1−b)/(1−p) would exceed 1.
    Burstiness {
        /// The requested marginal probability of loss.
        p: f64,
        /// The requested burstiness.
        burstiness: f64,
    },
    /// A burstiness of 1: a burst would never end.
    EndlessBurst,
    /// A delay or jitter above [`DELAY_MAX`].
    Delay(Duration),
    /// A rate of zero. Use `outage` for an outage.
    Rate,
    /// A queue above [`QUEUE_PACKETS_MAX`] packets.
    Queue(usize),
    /// A loss trace without packets, or with more than [`TRACE_PACKETS_MAX`].
    Trace(usize),
    /// An outage that ends before it begins.
    Outage(Time, Time),
    /// More than [`OUTAGES_MAX`] outages.
    Outages(usize),
}

impl Model {
    /// Delays every packet by `delay`.
    pub fn with_delay(mut self, delay: Duration) -> Result<Model, BadModel> {
        self.delay = checked_delay(delay)?;
        Ok(self)
    }

    /// Adds up to `jitter` to the delay of every packet, with a uniform distribution.
    pub fn with_jitter(mut self, jitter: Duration) -> Result<Model, BadModel> {
        self.jitter = checked_delay(jitter)?;
        Ok(self)
    }

    /// Lets packets overtake each other if their jitter causes it. By default, order is kept.
    pub fn with_reordering(mut self, reorders: bool) -> Model {
        self.reorders = reorders;
        self
    }

    /// Loses packets as `loss` says.
    pub fn with_loss(mut self, loss: LossModel) -> Result<Model, BadModel> {
        loss.check()?;
        self.loss = loss;
        Ok(self)
    }

    /// Duplicates this share of the arriving packets.
    pub fn with_duplicates(mut self, share: f64) -> Result<Model, BadModel> {
        probability(share)?;
        self.duplicates = share;
        Ok(self)
    }

    /// Transmits at most `rate_bps` bits per second, behind a drop-tail queue.
    pub fn with_rate(mut self, rate_bps: u64, queue: Queue) -> Result<Model, BadModel> {
        if rate_bps == 0 {
            return Err(BadModel::Rate);
        }
        if let Queue::Packets(n) = queue
            && n > QUEUE_PACKETS_MAX
        {
            return Err(BadModel::Queue(n));
        }
        self.rate = Some((rate_bps, queue));
        Ok(self)
    }

    /// Drops packets of more than this many bytes silently.
    pub fn with_mtu(mut self, bytes: Option<usize>) -> Model {
        self.mtu = bytes;
        self
    }

    /// Takes the path down until further notice, or up again.
    pub fn with_outage(mut self, outage: bool) -> Model {
        self.outage = outage;
        self
    }

    /// Takes the path down from each first time until just before the second.
    pub fn with_outages(mut self, outages: Vec<(Time, Time)>) -> Result<Model, BadModel> {
        if outages.len() > OUTAGES_MAX {
            return Err(BadModel::Outages(outages.len()));
        }
        if let Some(&(from, until)) = outages.iter().find(|(from, until)| from >= until) {
            return Err(BadModel::Outage(from, until));
        }
        self.outages = outages;
        Ok(self)
    }

    /// Returns the delay of every packet.
    pub fn delay(&self) -> Duration {
        self.delay
    }
    /// Returns the largest addition to the delay.
    pub fn jitter(&self) -> Duration {
        self.jitter
    }
    /// Returns true if packets may overtake each other.
    pub fn reorders(&self) -> bool {
        self.reorders
    }
    /// Returns which packets are lost.
    pub fn loss(&self) -> &LossModel {
        &self.loss
    }
    /// Returns the share of packets that arrive twice.
    pub fn duplicates(&self) -> f64 {
        self.duplicates
    }
    /// Returns bits per second and queue, if there is a limit.
    pub fn rate(&self) -> Option<(u64, Queue)> {
        self.rate
    }
    /// Returns the length of the longest packet, in bytes as handed in, if there is a limit.
    pub fn mtu(&self) -> Option<usize> {
        self.mtu
    }
    /// Returns true if the path is down until further notice.
    pub fn outage(&self) -> bool {
        self.outage
    }
    /// Returns the scheduled outages.
    pub fn outages(&self) -> &[(Time, Time)] {
        &self.outages
    }
    /// Returns true if packets cannot enter at `now`.
    pub fn is_out(&self, now: Time) -> bool {
        self.outage
            || self
                .outages
                .iter()
                .any(|&(from, until)| from <= now && now < until)
    }
}

impl LossModel {
    /// Returns the share of packets that are lost in the long run.
    pub fn marginal(&self) -> f64 {
        match self {
            LossModel::None => 0.0,
            LossModel::Bernoulli { p } | LossModel::Conditional { p, .. } => *p,
            LossModel::GilbertElliott {
                enter,
                leave,
                loss_good,
                loss_bad,
            } => {
                let bad = if *enter > 0.0 {
                    enter / (enter + leave)
                } else {
                    0.0
                };
                bad * loss_bad + (1.0 - bad) * loss_good
            }
            LossModel::Trace(lost) => {
                lost.iter().filter(|&&l| l).count() as f64 / lost.len().max(1) as f64
            }
        }
    }

    fn check(&self) -> Result<(), BadModel> {
        match *self {
            LossModel::None => Ok(()),
            LossModel::Bernoulli { p } => probability(p),
            LossModel::Conditional { p, burstiness } => {
                probability(p)?;
                probability(burstiness)?;
                if burstiness == 0.0 {
                    return Ok(());
                }
                if burstiness == 1.0 {
                    return Err(BadModel::EndlessBurst);
                }
                // P(lost | previous arrived) = p(1−b)/(1−p) must not exceed 1.
                if p * (1.0 - burstiness) > 1.0 - p {
                    return Err(BadModel::Burstiness { p, burstiness });
                }
                Ok(())
            }
            LossModel::GilbertElliott {
                enter,
                leave,
                loss_good,
                loss_bad,
            } => [enter, leave, loss_good, loss_bad]
                .into_iter()
                .try_for_each(probability),
            LossModel::Trace(ref lost) => match lost.len() {
                1..=TRACE_PACKETS_MAX => Ok(()),
                n => Err(BadModel::Trace(n)),
            },
        }
    }
}

fn probability(p: f64) -> Result<(), BadModel> {
    if (0.0..=1.0).contains(&p) {
        Ok(())
    } else {
        Err(BadModel::Probability(p))
    }
}

fn checked_delay(delay: Duration) -> Result<Duration, BadModel> {
    if delay <= DELAY_MAX {
        Ok(delay)
    } else {
        Err(BadModel::Delay(delay))
    }
}

impl fmt::Display for BadModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            BadModel::Probability(p) => {
                write!(
                    f,
                    "a probability lies between 0 and 1 (0% and 100%), not {p}"
                )
            }
            BadModel::Burstiness { p, burstiness } => write!(
                f,
                "a loss of {}% needs a burstiness of at least {:.2}%, or 0 for independent \
                 losses; {}% is too little",
                p * 100.0,
                (2.0 - 1.0 / p) * 100.0,
                burstiness * 100.0
            ),
            BadModel::EndlessBurst => f.write_str(
                "a burstiness of 100% never ends: choose less, or `outage` for a dead path",
            ),
            BadModel::Delay(delay) => {
                write!(
                    f,
                    "a delay or jitter of {delay} is above the limit of {DELAY_MAX}"
                )
            }
            BadModel::Rate => f.write_str("a rate of zero: use `outage` for a dead path"),
            BadModel::Queue(n) => write!(
                f,
                "a queue of {n} packets is above the limit of {QUEUE_PACKETS_MAX}"
            ),
            BadModel::Trace(n) => write!(
                f,
                "a loss trace has 1 to {TRACE_PACKETS_MAX} packets, this one {n}"
            ),
            BadModel::Outage(from, until) => {
                write!(
                    f,
                    "an outage from {from} until {until} ends before it begins"
                )
            }
            BadModel::Outages(n) => {
                write!(f, "{n} outages are more than the limit of {OUTAGES_MAX}")
            }
        }
    }
}

impl core::error::Error for BadModel {}
