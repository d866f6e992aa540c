//! Every number of the settings under a key, for files: `[settings]` of a node and of a scenario.
//!
//! A key has the value of the profile until a file sets it. Times are texts with a unit.

use super::Settings;
use crate::hello::Pace;
use crate::realtime::Protect;
use base::Duration;
use core::fmt;

/// A number of the settings, to be read or set.
#[derive(Debug)]
pub enum Field<'a> {
    /// A span of time.
    Span(&'a mut Duration),
    /// A small count.
    Count(&'a mut u32),
    /// How many of something there are at most; none is possible.
    Most(&'a mut u32),
    /// The same in a byte.
    Few(&'a mut u8),
    /// A share.
    Share(&'a mut f64),
    /// What is done about losses.
    Protect(&'a mut Protect),
}

/// Why a setting was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// No setting has this key; these there are.
    Unknown {
        /// What was asked for.
        key: String,
        /// All keys.
        known: Vec<&'static str>,
    },
    /// The value is not what the key takes.
    Value {
        /// The key.
        key: &'static str,
        /// What it takes.
        expected: &'static str,
    },
}

/// The longest span that a setting takes: timers stay within what a [`base::Time`] can add.
const SPAN_MOST: Duration = Duration::from_secs(86_400);
/// The shortest span of what a timer repeats: below, a node would do nothing else.
const INTERVAL_LEAST: Duration = Duration::from_millis(1);

impl Settings {
    /// All keys with what they stand for, in the order in which the documentation has them.
    pub fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        let Pace {
            interval,
            probe_after,
            probe_interval,
            hurry_after,
            hurry_interval,
            down_after,
        } = &mut self.hello.active;
        let idle = &mut self.hello.idle;
        let price = &mut self.hello.price;
        let announce = &mut self.announce;
        let streams = &mut self.streams;
        vec![
            ("hello_interval", Field::Span(interval)),
            ("hello_probe_after", Field::Span(probe_after)),
            ("hello_probe_interval", Field::Span(probe_interval)),
            ("hello_hurry_after", Field::Span(hurry_after)),
            ("hello_hurry_interval", Field::Span(hurry_interval)),
            ("hello_down_after", Field::Span(down_after)),
            ("hello_idle_interval", Field::Span(&mut idle.interval)),
            ("hello_idle_probe_after", Field::Span(&mut idle.probe_after)),
            ("hello_idle_down_after", Field::Span(&mut idle.down_after)),
            ("doubt_after", Field::Span(&mut self.hello.doubt_after)),
            ("node_doubt_after", Field::Span(&mut self.node_doubt_after)),
            ("link_up_hellos", Field::Count(&mut self.hello.up_hellos)),
            ("link_up_after", Field::Span(&mut self.hello.up_after)),
            ("link_try_for", Field::Span(&mut self.hello.try_for)),
            ("outage_price", Field::Span(&mut price.first)),
            ("outage_price_most", Field::Span(&mut price.most)),
            ("outage_price_halves", Field::Span(&mut price.halves_every)),
            ("stall", Field::Span(&mut self.hello.stall)),
            ("announce_spacing", Field::Span(&mut announce.spacing)),
            ("announce_worse_after", Field::Span(&mut announce.confirm)),
            ("announce_better_after", Field::Span(&mut announce.hold)),
            ("announce_better_most", Field::Span(&mut announce.hold_max)),
            ("announce_relapse", Field::Span(&mut announce.relapse)),
            ("metric_late", Field::Span(&mut self.codec_threshold)),
            ("metric_detection", Field::Span(&mut self.detection)),
            ("metric_loss", Field::Span(&mut self.loss_burden)),
            ("recovery_strikes", Field::Few(&mut self.realtime.strikes)),
            ("recovery_history", Field::Span(&mut self.realtime.cover)),
            (
                "recovery_ratio",
                Field::Share(&mut self.realtime.retransmit_ratio),
            ),
            ("protect", Field::Protect(&mut self.realtime.aims.protect)),
            (
                "protect_target",
                Field::Share(&mut self.realtime.aims.target),
            ),
            ("protect_most", Field::Share(&mut self.realtime.aims.most)),
            (
                "protect_most_single",
                Field::Share(&mut self.realtime.aims.most_single),
            ),
            ("prepared_ends", Field::Most(&mut self.prepared_ends)),
            ("stream_keep_alive", Field::Span(&mut streams.keep_alive)),
            ("stream_give_up", Field::Span(&mut streams.give_up)),
        ]
    }

    /// Sets what `key` stands for.
    ///
    /// # Errors
    /// [`SetError`]; nothing has changed then.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SetError> {
        let mut fields = self.fields();
        let Some(at) = fields.iter().position(|(name, _)| *name == key) else {
            return Err(SetError::Unknown {
                key: key.to_owned(),
                known: fields.iter().map(|(name, _)| *name).collect(),
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
            Field::Share(share) => put(*share, value.parse().ok(), |n| (0.0..=10.0).contains(n)),
        };
        let expected = match field {
            Field::Span(_) => {
                "a time like \"250ms\", a day at the most, for intervals at least 1ms"
            }
            Field::Count(_) => "a number from 1 to 100",
            Field::Most(_) => "a number from 0 to 1024",
            Field::Few(_) => "a number from 0 to 5",
            Field::Share(_) => "a number from 0 to 10",
            Field::Protect(_) => "`auto`, `off`, `requests` or `hop`",
        };
        match is_set {
            true => Ok(()),
            false => Err(SetError::Value { key, expected }),
        }
    }
}

/// Puts a value that was read in its place if it `fits`; whether it was.
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
mod tests {
    use super::*;

    #[test]
    fn every_key_can_be_set_and_is_the_one_that_changes() {
        let keys: Vec<_> = Settings::modern().fields().iter().map(|f| f.0).collect();
        for key in &keys {
            let mut settings = Settings::modern();
            let before = format!("{settings:?}");
            let is_set = ["77ms", "4", "0.25", "hop"]
                .iter()
                .any(|value| settings.set(key, value).is_ok());
            assert!(is_set, "{key}");
            assert_ne!(format!("{settings:?}"), before, "{key}");
            let changed = settings.fields();
            let mut profile = Settings::modern();
            let other = changed
                .iter()
                .zip(profile.fields())
                .filter(|((_, a), (_, b))| format!("{a:?}") != format!("{b:?}"));
            assert_eq!(other.count(), 1, "{key}");
        }
    }

    #[test]
    fn the_documentation_has_every_key() {
        let page = include_str!("../../../../docs/operation.md");
        for (key, _) in Settings::modern().fields() {
            assert!(page.contains(&format!("`{key}`")), "{key}");
        }
    }

    #[test]
    fn what_is_not_a_setting_is_told_with_all_there_are() {
        let mut settings = Settings::modern();
        let unknown = settings
            .set("hello_intervall", "1s")
            .unwrap_err()
            .to_string();
        assert!(unknown.contains("`hello_intervall`") && unknown.contains("hello_interval,"));
        for (key, value) in [
            ("hello_interval", "0ms"),
            ("hello_interval", "fast"),
            ("link_up_hellos", "0"),
            ("recovery_strikes", "6"),
            ("recovery_ratio", "NaN"),
            ("protect", "always"),
            ("outage_price", "2000000s"),
        ] {
            let before = format!("{settings:?}");
            assert!(settings.set(key, value).is_err(), "{key} {value}");
            assert_eq!(format!("{settings:?}"), before);
        }
    }
}
