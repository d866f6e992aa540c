//! Every number of the settings under a key, for the `[settings]` section of the files of a node and of a scenario.
//!
//! A key has the value of the profile until a file sets it. Times are strings with a unit.

use super::{MetricOf, Sealing, Settings, Uplinks};
use crate::announce::Threshold;
use crate::hello::Pace;
use crate::realtime::Protect;
use base::Duration;
use congestion::Family;
use core::fmt;
use secure::PostQuantum;
use wire::Aim;

/// A value of the settings, to read or to set.
#[derive(Debug)]
pub enum Field<'a> {
    /// A span of time.
    Span(&'a mut Duration),
    /// A small count.
    Count(&'a mut u32),
    /// A maximum count; 0 is possible.
    Most(&'a mut u32),
    /// A maximum count in a byte.
    Few(&'a mut u8),
    /// A share.
    Share(&'a mut f64),
    /// The share of packets that may stay lost.
    Target(&'a mut f64),
    /// Repair packets per packet.
    Repair(&'a mut f64),
    /// Any amount, including fractions.
    Amount(&'a mut f64),
    /// Any whole amount: packets, bytes, shares of 65 536.
    Whole(Whole<'a>),
    /// Whether something is done.
    Flag(&'a mut bool),
    /// How losses are handled.
    Protect(&'a mut Protect),
    /// A congestion control.
    Family(&'a mut Family),
    /// The packets that are sealed from end to end.
    Sealing(&'a mut Sealing),
    /// Whether keys also come from ML-KEM.
    PostQuantum(&'a mut PostQuantum),
    /// How many paths links have.
    Uplinks(&'a mut Uplinks),
    /// The measurements from which a metric is computed.
    Metric(&'a mut MetricOf),
}

/// A whole amount, by its type.
#[derive(Debug)]
pub enum Whole<'a> {
    /// A number in a byte.
    U8(&'a mut u8),
    /// A number in four bytes.
    U32(&'a mut u32),
    /// A number in eight bytes.
    U64(&'a mut u64),
    /// A number in as many bytes as a pointer has.
    Usize(&'a mut usize),
}

/// Why a setting was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// No setting has this key; `known` lists the keys that exist.
    Unknown {
        /// The requested key.
        key: String,
        /// All keys that exist.
        known: Vec<&'static str>,
    },
    /// The key does not accept the value.
    Value {
        /// The key.
        key: &'static str,
        /// The values that the key accepts.
        expected: String,
    },
}

/// The longest span that a setting accepts: timers stay within what a [`base::Time`] can add.
const SPAN_MOST: Duration = Duration::from_secs(86_400);
/// The shortest span of a repeating timer: with a shorter one, a node would do nothing else.
const INTERVAL_LEAST: Duration = Duration::from_millis(1);

/// Whether real-time lanes give way to congestion.
const BRAKE: &str = "brake";
/// The maximum of an amount: packets of a window, and of savings.
const AMOUNT_MOST: f64 = 1e6;
const SEALING: [(&str, Sealing); 3] = [
    ("off", Sealing::Off),
    ("on", Sealing::On),
    ("always", Sealing::Always),
];
const POST_QUANTUM: [(&str, PostQuantum); 3] = [
    ("off", PostQuantum::Off),
    ("prefer", PostQuantum::Prefer),
    ("require", PostQuantum::Require),
];
const UPLINKS: [(&str, Uplinks); 3] = [
    ("off", Uplinks::Off),
    ("one", Uplinks::One),
    ("copies", Uplinks::Copies),
];
const METRICS: [(&str, MetricOf); 2] =
    [("paper", MetricOf::Paper), ("measured", MetricOf::Measured)];

impl Settings {
    /// Returns all keys with the values that they set, in the order of the documentation. Every field of the settings
    /// has a key, except the profile's name, and the brake if there is none: `brake` is a further key.
    pub fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        let Settings {
            name: _,
            hello,
            realtime,
            brake,
            reliable,
            announce,
            node_doubt_after,
            streams,
            sealing,
            post_quantum,
            audit,
            prepared_ends,
            direct_links,
            host_addresses,
            find_links,
            alarms,
            uplinks,
            spread_bulk,
            metric,
            codec_threshold,
            detection,
            loss_burden,
        } = self;
        let (price, aims) = (&mut hello.price, &mut realtime.aims);
        let Pace {
            interval: idle_interval,
            probe_after: idle_probe_after,
            probe_interval: idle_probe_interval,
            hurry_after: idle_hurry_after,
            hurry_interval: idle_hurry_interval,
            down_after: idle_down_after,
        } = &mut hello.idle;
        let active = &mut hello.active;
        let mut fields = vec![
            ("hello_interval", Field::Span(&mut active.interval)),
            ("hello_probe_after", Field::Span(&mut active.probe_after)),
            (
                "hello_probe_interval",
                Field::Span(&mut active.probe_interval),
            ),
            ("hello_hurry_after", Field::Span(&mut active.hurry_after)),
            (
                "hello_hurry_interval",
                Field::Span(&mut active.hurry_interval),
            ),
            ("hello_down_after", Field::Span(&mut active.down_after)),
            ("hello_idle_interval", Field::Span(idle_interval)),
            ("hello_idle_probe_after", Field::Span(idle_probe_after)),
            (
                "hello_idle_probe_interval",
                Field::Span(idle_probe_interval),
            ),
            ("hello_idle_hurry_after", Field::Span(idle_hurry_after)),
            (
                "hello_idle_hurry_interval",
                Field::Span(idle_hurry_interval),
            ),
            ("hello_idle_down_after", Field::Span(idle_down_after)),
            ("hello_active_for", Field::Span(&mut hello.active_for)),
            ("hello_answer_for", Field::Span(&mut hello.answer_for)),
            ("hello_spacing", Field::Span(&mut hello.spacing)),
            ("rtt_initial", Field::Span(&mut hello.rtt_initial)),
            (
                "rtt_allowance_least",
                Field::Span(&mut hello.rtt_allowance_min),
            ),
            (
                "rtt_allowance_most",
                Field::Span(&mut hello.rtt_allowance_max),
            ),
            ("doubt_after", Field::Span(&mut hello.doubt_after)),
            ("node_doubt_after", Field::Span(node_doubt_after)),
            ("link_up_hellos", Field::Count(&mut hello.up_hellos)),
            ("link_up_after", Field::Span(&mut hello.up_after)),
            ("link_try_for", Field::Span(&mut hello.try_for)),
            ("outage_price", Field::Span(&mut price.first)),
            ("outage_price_most", Field::Span(&mut price.most)),
            ("outage_price_halves", Field::Span(&mut price.halves_every)),
            ("stall", Field::Span(&mut hello.stall)),
            ("announce_spacing", Field::Span(&mut announce.spacing)),
            ("announce_worse_after", Field::Span(&mut announce.confirm)),
            ("announce_better_after", Field::Span(&mut announce.hold)),
            ("announce_better_most", Field::Span(&mut announce.hold_max)),
            ("announce_relapse", Field::Span(&mut announce.relapse)),
            (
                "announce_unclear",
                Field::Whole(Whole::U64(&mut announce.unclear)),
            ),
            ("metric", Field::Metric(metric)),
            ("metric_late", Field::Span(codec_threshold)),
            ("metric_detection", Field::Span(detection)),
            ("metric_loss", Field::Span(loss_burden)),
            ("recovery_strikes", Field::Few(&mut realtime.strikes)),
            (
                "recovery_last_thrice",
                Field::Flag(&mut realtime.redundant_last),
            ),
            (
                "recovery_tail_probes",
                Field::Whole(Whole::U8(&mut realtime.tail_probes)),
            ),
            (
                "recovery_copies_ahead",
                Field::Flag(&mut realtime.copies_ahead),
            ),
            (
                "recovery_ratio",
                Field::Share(&mut realtime.retransmit_ratio),
            ),
            (
                "recovery_burst",
                Field::Amount(&mut realtime.retransmit_burst),
            ),
            ("recovery_history", Field::Span(&mut realtime.cover)),
            (
                "recovery_history_most",
                Field::Span(&mut realtime.cover_most),
            ),
            (
                "recovery_history_bytes",
                Field::Whole(Whole::Usize(&mut realtime.history_bytes)),
            ),
            (
                "recovery_history_packets",
                Field::Whole(Whole::U64(&mut realtime.history_packets)),
            ),
            ("protect", Field::Protect(&mut aims.protect)),
            ("protect_target", Field::Target(&mut aims.target)),
            ("protect_most", Field::Repair(&mut aims.most)),
            ("protect_most_single", Field::Repair(&mut aims.most_single)),
            ("reliable_congestion", Field::Family(&mut reliable.family)),
            (
                "reliable_flows",
                Field::Whole(Whole::Usize(&mut reliable.flows_max)),
            ),
            (
                "reliable_window",
                Field::Amount(&mut reliable.initial_window),
            ),
            (
                "reliable_spares_random",
                Field::Flag(&mut reliable.spares_random_losses),
            ),
            ("seal_ends", Field::Sealing(sealing)),
            ("post_quantum", Field::PostQuantum(post_quantum)),
            ("audit_paths", Field::Flag(audit)),
            ("prepared_ends", Field::Most(prepared_ends)),
            ("direct_links", Field::Flag(direct_links)),
            ("host_addresses", Field::Flag(host_addresses)),
            ("find_links", Field::Flag(find_links)),
            ("alarms", Field::Flag(alarms)),
            ("paths", Field::Uplinks(uplinks)),
            ("spread_bulk", Field::Flag(spread_bulk)),
            ("stream_congestion", Field::Family(&mut streams.congestion)),
            ("stream_keep_alive", Field::Span(&mut streams.keep_alive)),
            ("stream_give_up", Field::Span(&mut streams.give_up)),
        ];
        fields.extend(threshold(
            [
                "announce_latency_worse",
                "announce_latency_clearly_worse",
                "announce_latency_better",
                "announce_latency_clearly_better",
                "announce_latency_floor",
            ],
            &mut announce.latency,
        ));
        fields.extend(threshold(
            [
                "announce_loss_worse",
                "announce_loss_clearly_worse",
                "announce_loss_better",
                "announce_loss_clearly_better",
                "announce_loss_floor",
            ],
            &mut announce.loss,
        ));
        if let Some(brake) = brake {
            fields.extend([
                ("brake_gamma", Field::Share(&mut brake.gamma)),
                ("brake_alpha", Field::Amount(&mut brake.alpha)),
                ("brake_queue_floor", Field::Span(&mut brake.queue_floor)),
                ("brake_queue_share", Field::Share(&mut brake.queue_share)),
            ]);
        }
        fields
    }

    /// Returns all keys.
    pub fn keys() -> Vec<&'static str> {
        let mut settings = Settings::modern();
        let fields = settings.fields();
        let brake = [BRAKE].into_iter();
        brake.chain(fields.iter().map(|(key, _)| *key)).collect()
    }

    /// Sets the value of `key`.
    ///
    /// # Errors
    /// [`SetError`]; in this case nothing has changed.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SetError> {
        if key == BRAKE {
            self.brake = match value {
                "on" => Some(self.brake.unwrap_or_default()),
                "off" => None,
                _ => {
                    let (key, expected) = (BRAKE, "`on` or `off`".to_owned());
                    return Err(SetError::Value { key, expected });
                }
            };
            return Ok(());
        }
        if key.starts_with("brake_") && Settings::keys().contains(&key) {
            // A user who chooses the brake's numbers wants the brake.
            self.brake.get_or_insert_default();
        }
        let mut fields = self.fields();
        let Some(at) = fields.iter().position(|(name, _)| *name == key) else {
            return Err(SetError::Unknown {
                key: key.to_owned(),
                known: Settings::keys(),
            });
        };
        let (key, field) = &mut fields[at];
        let is_set = match field {
            Field::Span(span) => put(*span, base::impair::span(value), |span| {
                let repeats = ["interval", "halves", "keep_alive", "give_up"];
                let least = match repeats.iter().any(|end| key.ends_with(end)) {
                    true => INTERVAL_LEAST,
                    false => Duration::ZERO,
                };
                (least..=SPAN_MOST).contains(span)
            }),
            Field::Count(count) => put(*count, value.parse().ok(), |n| (1..=100).contains(n)),
            Field::Most(most) => put(*most, value.parse().ok(), |n| {
                *n as usize <= crate::link_state::MAX_ORIGINS
            }),
            Field::Few(count) => put(*count, value.parse().ok(), |n| {
                *n <= crate::realtime::MAX_STRIKES
            }),
            Field::Protect(protect) => put(*protect, Protect::of_label(value), |_| true),
            Field::Family(family) => put(*family, value.parse().ok(), |_| true),
            Field::Sealing(sealing) => put(*sealing, word(value, &SEALING), |_| true),
            Field::PostQuantum(wish) => put(*wish, word(value, &POST_QUANTUM), |_| true),
            Field::Uplinks(uplinks) => put(*uplinks, word(value, &UPLINKS), |_| true),
            Field::Metric(metric) => put(*metric, word(value, &METRICS), |_| true),
            Field::Flag(flag) => put(*flag, value.parse().ok(), |_| true),
            Field::Amount(amount) => put(*amount, value.parse().ok(), |n| {
                (0.0..=AMOUNT_MOST).contains(n)
            }),
            Field::Whole(Whole::U8(whole)) => put(*whole, value.parse().ok(), |_| true),
            Field::Whole(Whole::U32(whole)) => put(*whole, value.parse().ok(), |_| true),
            Field::Whole(Whole::U64(whole)) => put(*whole, value.parse().ok(), |_| true),
            Field::Whole(Whole::Usize(whole)) => put(*whole, value.parse().ok(), |_| true),
            Field::Share(share) => put(*share, value.parse().ok(), |n| (0.0..=10.0).contains(n)),
            // Both have the range that the sender of a flow has, so that a node can be set as a flow can.
            Field::Target(target) => put(*target, value.parse().ok(), |share| {
                Aim::new(Some(*share), None).is_ok()
            }),
            Field::Repair(most) => put(*most, value.parse().ok(), |most| {
                Aim::new(None, Some(*most)).is_ok()
            }),
        };
        match is_set {
            true => Ok(()),
            false => Err(SetError::Value {
                key,
                expected: field.expected(),
            }),
        }
    }
}

impl Field<'_> {
    /// Returns the values that can be set, for an error.
    fn expected(&self) -> String {
        let kinds = Protect::ALL.map(|kind| format!("`{}`", kind.label()));
        let kinds = format!("one of {}", kinds.join(", "));
        let expected = match self {
            Field::Span(_) => {
                "a time like \"250ms\", a day at the most, for intervals at least 1ms"
            }
            Field::Count(_) => "a number from 1 to 100",
            Field::Most(_) => "a number from 0 to 1024",
            Field::Few(_) => "a number from 0 to 5",
            Field::Share(_) => "a number from 0 to 10",
            Field::Target(_) => "a share of packets from 0.000001 to 0.065 (6.5 %)",
            Field::Repair(_) => "a number of repair packets per packet from 0 to 2.54",
            Field::Protect(_) => &kinds,
            Field::Family(_) => "a congestion control such as `cubic` or `bbr`",
            Field::Sealing(_) => "`off`, `on` or `always`",
            Field::PostQuantum(_) => "`off`, `prefer` or `require`",
            Field::Uplinks(_) => "`off`, `one` or `copies`",
            Field::Metric(_) => "`paper` or `measured`",
            Field::Flag(_) => "`true` or `false`",
            Field::Amount(_) => "a number from 0 to 1000000",
            Field::Whole(Whole::U8(_)) => "a whole number from 0 to 255",
            Field::Whole(_) => "a whole number from 0 up",
        };
        expected.to_owned()
    }
}

/// Returns the fields of a threshold, under these keys.
fn threshold<'a>(keys: [&'static str; 5], of: &'a mut Threshold) -> [(&'static str, Field<'a>); 5] {
    let [worse, clearly_worse, better, clearly_better, floor] = keys;
    [
        (worse, Field::Share(&mut of.worse)),
        (clearly_worse, Field::Share(&mut of.clearly_worse)),
        (better, Field::Share(&mut of.better)),
        (clearly_better, Field::Share(&mut of.clearly_better)),
        (floor, Field::Whole(Whole::U32(&mut of.floor))),
    ]
}

/// Returns the value that a word stands for.
fn word<T: Copy>(word: &str, words: &[(&str, T)]) -> Option<T> {
    let found = words.iter().find(|(known, _)| *known == word);
    found.map(|(_, of)| *of)
}

/// Stores a value that was read if it `fits`. Returns true if it was stored.
fn put<T>(place: &mut T, value: Option<T>, fits: impl FnOnce(&T) -> bool) -> bool {
    let value = value.filter(|value| fits(value));
    value.map(|value| *place = value).is_some()
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::Unknown { key, known } => {
                write!(f, "no setting `{key}`: use one of {}", known.join(", "))
            }
            SetError::Value { key, expected } => write!(f, "`{key}`: expected {expected}"),
        }
    }
}

impl core::error::Error for SetError {}

#[cfg(test)]
mod tests;
