//! The text form of a model, as used on the command line and in scenario files: `loss=5% burst=25% delay=10ms
//! jitter=2ms rate=10mbit queue=50 mtu=1300 outage`.
//!
//! | word | means |
//! |---|---|
//! | `loss=5%` | share of packets lost, `0.05` is the same |
//! | `burst=25%` | with `loss`: chance that the packet after a lost one is lost too |
//! | `gilbert=1%/20%/0%/50%` | instead of `loss`: enter bad, leave bad, loss in good, loss in bad |
//! | `trace=00100` | instead of `loss`: packet by packet, 1 = lost, repeated |
//! | `delay=10ms` `jitter=2ms` | units ns, us, ms, s |
//! | `reorder` | jitter may change the order of packets |
//! | `duplicate=1%` | share of arriving packets that arrive a second time |
//! | `rate=10mbit` | units bit, kbit, mbit, gbit, per second |
//! | `queue=50` `queue=64kB` | with `rate`: packets, or bytes by the units B, kB, MB |
//! | `mtu=1300` | longer packets are dropped silently |
//! | `outage` `outage=10s..12s` | down until further notice; down from 10 s until 12 s |
//! | `clean` | alone: a perfect path |
//!
//! The text that [`Model`] prints reads back as the same model.

use super::model::{BadModel, LossModel, Model, QUEUE_DEFAULT, Queue};
use crate::time::{Duration, Time};
use core::fmt;
use core::str::FromStr;

/// Why a text is no model.
#[derive(Clone, Debug, PartialEq)]
pub enum BadText {
    /// An unknown word.
    Unknown(String),
    /// A word that occurs twice.
    Twice(&'static str),
    /// A value that is not of the expected kind.
    Value {
        /// The word before the equals sign.
        key: &'static str,
        /// The value.
        value: String,
        /// The expected kind of value.
        expected: &'static str,
    },
    /// A word that needs another one.
    Needs(&'static str, &'static str),
    /// Two words that exclude each other.
    Conflict(&'static str, &'static str),
    /// The text can be parsed, but such a path is impossible.
    Model(BadModel),
}

/// The parsed words, before they are combined.
#[derive(Default)]
struct Words {
    loss: Option<f64>,
    burst: Option<f64>,
    gilbert: Option<[f64; 4]>,
    trace: Option<Vec<bool>>,
    delay: Option<Duration>,
    jitter: Option<Duration>,
    reorder: Option<()>,
    duplicate: Option<f64>,
    rate: Option<u64>,
    queue: Option<Queue>,
    mtu: Option<usize>,
    outage: Option<()>,
    outages: Vec<(Time, Time)>,
}

const SHARE: &str = "a share such as 5% or 0.05";
const SPAN: &str = "a time such as 10ms (ns, us, ms, s)";

impl FromStr for Model {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Model, BadText> {
        let mut words = Words::default();
        if text.trim() != "clean" {
            text.split_whitespace()
                .try_for_each(|word| words.read(word))?;
        }
        words.into_model()
    }
}

impl Words {
    fn read(&mut self, word: &str) -> Result<(), BadText> {
        let (key, value) = match word.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (word, None),
        };
        match (key, value) {
            ("loss", Some(v)) => set(&mut self.loss, "loss", v, share(v), SHARE),
            ("burst", Some(v)) => set(&mut self.burst, "burst", v, share(v), SHARE),
            ("gilbert", Some(v)) => set(
                &mut self.gilbert,
                "gilbert",
                v,
                gilbert(v),
                "four shares such as 1%/20%/0%/50%: enter bad, leave bad, loss good, loss bad",
            ),
            ("trace", Some(v)) => set(
                &mut self.trace,
                "trace",
                v,
                trace(v),
                "a row of 0 (arrives) and 1 (lost)",
            ),
            ("delay", Some(v)) => set(&mut self.delay, "delay", v, span(v), SPAN),
            ("jitter", Some(v)) => set(&mut self.jitter, "jitter", v, span(v), SPAN),
            ("reorder", None) => set(&mut self.reorder, "reorder", "", Some(()), ""),
            ("duplicate", Some(v)) => set(&mut self.duplicate, "duplicate", v, share(v), SHARE),
            ("rate", Some(v)) => set(
                &mut self.rate,
                "rate",
                v,
                rate(v),
                "a rate such as 10mbit (bit, kbit, mbit, gbit)",
            ),
            ("queue", Some(v)) => set(
                &mut self.queue,
                "queue",
                v,
                queue(v),
                "packets such as 50, or bytes such as 64kB (B, kB, MB)",
            ),
            ("mtu", Some(v)) => set(
                &mut self.mtu,
                "mtu",
                v,
                v.parse().ok().filter(|bytes| *bytes > 0),
                "bytes such as 1300",
            ),
            ("outage", None) => set(&mut self.outage, "outage", "", Some(()), ""),
            ("outage", Some(v)) => {
                let mut one = None;
                let expected = "nothing, or two times such as 10s..12s";
                set(&mut one, "outage", v, outage(v), expected)?;
                self.outages.extend(one);
                Ok(())
            }
            _ => Err(BadText::Unknown(word.to_owned())),
        }
    }

    fn into_model(self) -> Result<Model, BadText> {
        let loss = match (self.loss, self.burst, self.gilbert, self.trace) {
            (None, Some(_), ..) => return Err(BadText::Needs("burst", "loss")),
            (Some(_), _, Some(_), _) => return Err(BadText::Conflict("loss", "gilbert")),
            (Some(_), _, _, Some(_)) => return Err(BadText::Conflict("loss", "trace")),
            (_, _, Some(_), Some(_)) => return Err(BadText::Conflict("gilbert", "trace")),
            (Some(p), Some(burstiness), ..) => LossModel::Conditional { p, burstiness },
            (Some(p), None, ..) => LossModel::Bernoulli { p },
            (_, _, Some([enter, leave, loss_good, loss_bad]), _) => LossModel::GilbertElliott {
                enter,
                leave,
                loss_good,
                loss_bad,
            },
            (.., Some(lost)) => LossModel::Trace(lost),
            (None, None, None, None) => LossModel::None,
        };
        let mut model = Model::default()
            .with_loss(loss)?
            .with_delay(self.delay.unwrap_or_default())?
            .with_jitter(self.jitter.unwrap_or_default())?
            .with_reordering(self.reorder.is_some())
            .with_duplicates(self.duplicate.unwrap_or_default())?
            .with_mtu(self.mtu)
            .with_outage(self.outage.is_some())
            .with_outages(self.outages)?;
        match (self.rate, self.queue) {
            (Some(rate), queue) => model = model.with_rate(rate, queue.unwrap_or(QUEUE_DEFAULT))?,
            (None, Some(_)) => return Err(BadText::Needs("queue", "rate")),
            (None, None) => {}
        }
        Ok(model)
    }
}

fn set<T>(
    place: &mut Option<T>,
    key: &'static str,
    text: &str,
    value: Option<T>,
    expected: &'static str,
) -> Result<(), BadText> {
    if place.is_some() {
        return Err(BadText::Twice(key));
    }
    *place = Some(value.ok_or_else(|| BadText::Value {
        key,
        value: text.to_owned(),
        expected,
    })?);
    Ok(())
}

fn number(text: &str) -> Option<f64> {
    // `parse` would also take `inf`, `nan`, signs and exponents.
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if plain { text.parse().ok() } else { None }
}

fn share(text: &str) -> Option<f64> {
    let p = match text.strip_suffix('%') {
        Some(percent) => number(percent)? / 100.0,
        None => number(text)?,
    };
    (p <= 1.0).then_some(p)
}

fn gilbert(text: &str) -> Option<[f64; 4]> {
    let mut parts = text.split('/').map(share);
    let four = [
        parts.next()??,
        parts.next()??,
        parts.next()??,
        parts.next()??,
    ];
    parts.next().is_none().then_some(four)
}

fn trace(text: &str) -> Option<Vec<bool>> {
    text.bytes()
        .map(|b| match b {
            b'0' => Some(false),
            b'1' => Some(true),
            _ => None,
        })
        .collect()
}

const RATE_UNITS: [(&str, u64); 7] = [
    ("gbit", 1_000_000_000),
    ("mbit", 1_000_000),
    ("kbit", 1_000),
    ("bit", 1),
    ("g", 1_000_000_000),
    ("m", 1_000_000),
    ("k", 1_000),
];
const SPAN_UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];
/// Units that are also used for output: one for each magnitude, up to seconds.
const WRITTEN_RATES: &[(&str, u64)] = RATE_UNITS.split_at(4).0;
const WRITTEN_SPANS: &[(&str, u64)] = SPAN_UNITS.split_at(4).0;
const BYTE_UNITS: [(&str, u64); 3] = [("mb", 1_000_000), ("kb", 1_000), ("b", 1)];

/// Parses a number with one of the units behind it. If a unit ends in another unit, it comes before it in the list.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let (digits, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    match digits.parse::<u64>() {
        Ok(whole) => whole.checked_mul(factor),
        Err(_) => Some((number(digits)? * factor as f64).round() as u64),
    }
}

/// Parses a time such as `10ms`, in the units ns, us, ms, s, m or min, h and d.
pub fn span(text: &str) -> Option<Duration> {
    scaled(text, &SPAN_UNITS).map(Duration::from_nanos)
}

/// Parses bits per second, such as `10mbit`, `10Mbit/s` or `10M`, in the units bit, kbit, mbit and gbit.
pub fn rate(text: &str) -> Option<u64> {
    scaled(text.strip_suffix("/s").unwrap_or(text), &RATE_UNITS)
}

fn queue(text: &str) -> Option<Queue> {
    match text.parse::<usize>() {
        Ok(packets) => Some(Queue::Packets(packets)),
        Err(_) => Some(Queue::Bytes(scaled(text, &BYTE_UNITS)?.try_into().ok()?)),
    }
}

fn outage(text: &str) -> Option<(Time, Time)> {
    let (from, until) = text.split_once("..")?;
    let moment = |text| Some(Time::ZERO + span(text)?);
    Some((moment(from)?, moment(until)?))
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        match self.loss() {
            LossModel::None => {}
            LossModel::Bernoulli { p } => words.push(format!("loss={}", Share(*p))),
            LossModel::Conditional { p, burstiness } => {
                words.push(format!("loss={} burst={}", Share(*p), Share(*burstiness)));
            }
            LossModel::GilbertElliott {
                enter,
                leave,
                loss_good,
                loss_bad,
            } => {
                let [a, b, c, d] = [*enter, *leave, *loss_good, *loss_bad].map(Share);
                words.push(format!("gilbert={a}/{b}/{c}/{d}"));
            }
            LossModel::Trace(lost) => {
                let bits: String = lost.iter().map(|&l| if l { '1' } else { '0' }).collect();
                words.push(format!("trace={bits}"));
            }
        }
        for (key, span) in [("delay", self.delay()), ("jitter", self.jitter())] {
            if span > Duration::ZERO {
                words.push(format!("{key}={}", exact(span.as_nanos(), WRITTEN_SPANS)));
            }
        }
        if self.reorders() {
            words.push("reorder".to_owned());
        }
        if self.duplicates() > 0.0 {
            words.push(format!("duplicate={}", Share(self.duplicates())));
        }
        if let Some((rate_bps, queue)) = self.rate() {
            words.push(format!("rate={}", exact(rate_bps, WRITTEN_RATES)));
            words.push(match queue {
                Queue::Packets(n) => format!("queue={n}"),
                Queue::Bytes(n) => format!("queue={n}B"),
            });
        }
        if let Some(bytes) = self.mtu() {
            words.push(format!("mtu={bytes}"));
        }
        if self.outage() {
            words.push("outage".to_owned());
        }
        for (from, until) in self.outages() {
            let [from, until] = [from, until].map(|t| exact(t.as_nanos(), WRITTEN_SPANS));
            words.push(format!("outage={from}..{until}"));
        }
        if words.is_empty() {
            words.push("clean".to_owned());
        }
        f.write_str(&words.join(" "))
    }
}

/// Formats a number in the largest unit that needs no fraction.
fn exact(n: u64, units: &[(&str, u64)]) -> String {
    let fits = |(_, factor): &&(&str, u64)| n.is_multiple_of(*factor);
    let (unit, factor) = units
        .iter()
        .filter(fits)
        .max_by_key(|(_, factor)| *factor)
        .expect("each table has a unit of one");
    format!("{}{unit}", n / factor)
}

/// Prints a share as percent if that is short and exact, or else as a fraction.
struct Share(f64);

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = self.0.to_string();
        let percent = format!("{}%", self.0 * 100.0);
        let exact = share(&percent) == Some(self.0);
        f.write_str(if exact && percent.len() <= fraction.len() + 1 {
            &percent
        } else {
            &fraction
        })
    }
}

impl From<BadModel> for BadText {
    fn from(bad: BadModel) -> BadText {
        BadText::Model(bad)
    }
}

impl fmt::Display for BadText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadText::Unknown(word) => write!(
                f,
                "`{word}` is no impairment: expected words like loss=5% burst=25% delay=10ms \
                 jitter=2ms reorder duplicate=1% rate=10mbit queue=50 mtu=1300 outage, or clean"
            ),
            BadText::Twice(key) => write!(f, "`{key}` is given twice: keep one"),
            BadText::Value {
                key,
                value,
                expected,
            } => write!(f, "`{key}={value}`: expected {expected}"),
            BadText::Needs(key, other) => {
                write!(f, "`{key}` says nothing without `{other}`: give both")
            }
            BadText::Conflict(key, other) => {
                write!(f, "`{key}` and `{other}` exclude each other: keep one")
            }
            BadText::Model(bad) => bad.fmt(f),
        }
    }
}

impl core::error::Error for BadText {}
