//! Checks whether this host's clock can be right.
//!
//! ```text
//!   not before   the program, the node's files, its certificate     they were made before now
//!   the same     the clocks of the other nodes                      a running node has their records
//!   in doubt     the certificate has ended                          it may have, or the clock is ahead
//! ```
//! Certificates, tokens and TLS depend on the clock. With a clock that is wrong by a year, a certificate seems to have
//! expired or not to be valid yet, and a new certificate would not help. So this check comes first, and the finding
//! about the certificate refers to it.

use super::Finding;
use crate::config::Config;
use crate::date::day;
use crate::identity;
use crate::show::list;
use net::clock;
use secure::network::CLOCK_SKEW_S;
use secure::{Certificate, Delegation};
use serde_json::Value;
use std::path::Path;
use std::time::UNIX_EPOCH;

const WHAT: &str = "clock";
/// The date of this code, 2026-01-01. A clock that shows an earlier time is wrong.
const NOT_BEFORE_S: u64 = 1_767_225_600;
/// How to set the clock.
const SET: &str = "set the clock first, by NTP best (`timedatectl set-ntp true`), restart the node, and then look again: \
                   certificates, tokens and TLS go by the clock";

/// What the host reports about the time.
#[derive(Clone, Copy, Debug)]
pub struct HostClock {
    /// Seconds since 1970.
    pub now_s: u64,
    /// A program such as an NTP daemon keeps the clock right; `None` if that is not known.
    pub is_synchronised: Option<bool>,
}

impl HostClock {
    /// Reads the clock of this host.
    pub fn read() -> HostClock {
        HostClock {
            now_s: net::Clock::new().unix_s(),
            is_synchronised: clock::is_synchronised(),
        }
    }

    /// Returns true if the clock may be ahead. Then a certificate that seems to have expired may still be valid.
    pub(super) fn may_be_ahead(self) -> bool {
        self.is_synchronised != Some(true)
    }
}

/// Something that was made at a known time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Made {
    at_s: u64,
    what: String,
}

/// Evidence of the time besides the clock.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Things that were made before now, with the time that they carry.
    made: Vec<Made>,
    /// The modification time of the node's newest file.
    youngest_file_s: Option<u64>,
    /// When the node's certificate expires.
    ends_s: Option<u64>,
    /// How far the clocks of other nodes are ahead.
    others_ahead_s: Vec<i64>,
    /// How far the clock was set back since the node started.
    set_back_s: Option<i64>,
}

/// Rates the clock by the node's files and by the status of the running node.
pub(super) fn look(at: HostClock, config: Option<&Config>, status: Option<&Value>) -> Finding {
    let mut known = Known::default();
    known.program();
    if let Some(config) = config {
        known.files(config);
    }
    if let Some(status) = status {
        known.node(status);
    }
    judge(at, &known)
}

impl Known {
    fn program(&mut self) {
        self.made.push(Made {
            at_s: NOT_BEFORE_S,
            what: "this program is younger".to_owned(),
        });
        if let Some(at_s) = std::env::current_exe().ok().and_then(|at| written_s(&at)) {
            let what = format!("this program was built or installed on {}", day(at_s));
            self.made.push(Made { at_s, what });
        }
    }

    fn files(&mut self, config: &Config) {
        let optional = [&config.revocations, &config.log_file];
        let always = [&config.certificate, &config.key, &config.network];
        let files = always.into_iter().chain(optional.into_iter().flatten());
        for file in files {
            let Some(at_s) = written_s(file) else {
                continue;
            };
            self.youngest_file_s = self.youngest_file_s.max(Some(at_s));
            let what = format!("{} was written on {}", file.display(), day(at_s));
            self.made.push(Made { at_s, what });
        }
        if let Ok(certificate) = identity::read_as(&config.certificate, Certificate::from_text) {
            let fields = certificate.fields();
            self.ends_s = Some(fields.not_after_s);
            self.signed("the node's certificate", fields.not_before_s);
        }
        let delegation = config.issuer.as_ref().map(|issuer| &issuer.delegation);
        let delegation = delegation.map(|file| identity::read_as(file, Delegation::from_text));
        if let Some(Ok(delegation)) = delegation {
            self.signed("the node's delegation", delegation.fields().not_before_s);
        }
    }

    /// Adds a signature. The signer's clock was right within [`CLOCK_SKEW_S`], as nodes assume, too.
    fn signed(&mut self, what: &str, from_s: u64) {
        self.made.push(Made {
            at_s: from_s,
            what: format!("{what} was signed on {}", day(from_s)),
        });
    }

    fn node(&mut self, status: &Value) {
        let own = &status["snapshot"]["address"];
        for node in list(&status["nodes"]) {
            let Some(ahead_s) = node["clock_ahead_s"].as_i64() else {
                continue;
            };
            match node["address"] == *own {
                true => self.set_back_s = Some(ahead_s),
                false => self.others_ahead_s.push(ahead_s),
            }
        }
    }
}

fn written_s(file: &Path) -> Option<u64> {
    let written = std::fs::metadata(file).and_then(|it| it.modified()).ok()?;
    Some(written.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

fn judge(at: HostClock, known: &Known) -> Finding {
    let now_s = at.now_s;
    let shown = crate::date::until(now_s);
    let youngest = known.made.iter().max_by_key(|made| made.at_s);
    if let Some(made) = youngest.filter(|made| made.at_s > now_s + CLOCK_SKEW_S) {
        let seen = format!("{shown}, but {}: the clock is behind", made.what);
        return Finding::bad(WHAT, seen, SET);
    }
    if let Some(ahead_s) = most_say(&known.others_ahead_s) {
        let others = match known.others_ahead_s.len() {
            1 => "that of the only other node".to_owned(),
            many => format!("those of {many} other nodes"),
        };
        let direction = if ahead_s > 0 { "behind" } else { "ahead of" };
        let seen = format!("{shown}: {} {direction} {others}", span(ahead_s));
        return Finding::bad(WHAT, seen, SET);
    }
    if let Some(set_back_s) = known.set_back_s.filter(|it| is_much(*it)) {
        let seen = format!(
            "{shown}; it was set by {} since the node started, which goes by the old time",
            span(set_back_s)
        );
        return Finding::weak(WHAT, seen, "restart the node");
    }
    let ended = known.ends_s.filter(|ends_s| now_s > *ends_s);
    if let Some(ends_s) = ended.filter(|_| at.may_be_ahead()) {
        let youngest = known.youngest_file_s.map_or_else(String::new, |at_s| {
            format!("; the node wrote its youngest file on {}", day(at_s))
        });
        let seen = format!(
            "{shown}: by it the node's certificate ended {} ago{youngest}",
            span(now_s.cast_signed() - ends_s.cast_signed())
        );
        let next = "compare it with another clock first: if this one is ahead, set it, preferably by NTP (`timedatectl \
                    set-ntp true`), and nothing else is wrong";
        return Finding::weak(WHAT, seen, next);
    }
    let kept = match at.is_synchronised {
        Some(true) => ", kept by NTP",
        Some(false) => ", not kept by NTP",
        None => "",
    };
    Finding::good(WHAT, format!("{shown}{kept}"))
}

/// Returns true if the difference is more than nodes tolerate.
fn is_much(seconds: i64) -> bool {
    seconds.unsigned_abs() > CLOCK_SKEW_S
}

/// Returns how far the clocks of most other nodes are ahead: the smallest of these differences. `None` if most agree
/// with this clock. So a few wrong clocks do not count.
fn most_say(all: &[i64]) -> Option<i64> {
    let (ahead, behind): (Vec<i64>, Vec<i64>) = all
        .iter()
        .filter(|it| is_much(**it))
        .partition(|it| **it > 0);
    [ahead, behind]
        .into_iter()
        .find(|side| side.len() * 2 > all.len())
        .and_then(|side| side.into_iter().min_by_key(|it| it.unsigned_abs()))
}

fn span(seconds: i64) -> String {
    crate::date::span(seconds.unsigned_abs() as f64)
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    const NOW_S: u64 = 1_795_000_000;
    const YEAR_S: u64 = 365 * 86_400;

    fn at(now_s: u64) -> HostClock {
        HostClock {
            now_s,
            is_synchronised: Some(false),
        }
    }

    fn known() -> Known {
        let made = Made {
            at_s: NOW_S - 86_400,
            what: "the node's certificate was signed yesterday".into(),
        };
        Known {
            made: vec![made],
            youngest_file_s: Some(NOW_S - 3_600),
            ends_s: Some(NOW_S + 29 * 86_400),
            ..Known::default()
        }
    }

    #[test]
    fn a_clock_is_held_against_what_was_made_before_now() {
        let known = known();
        assert_eq!(judge(at(NOW_S), &known).state, State::Good);
        let behind = judge(at(NOW_S - YEAR_S), &known);
        assert_eq!(behind.state, State::Bad);
        assert!(
            behind
                .seen
                .contains("was signed yesterday: the clock is behind")
        );
        let ahead = judge(at(NOW_S + YEAR_S), &known);
        assert_eq!(ahead.state, State::Weak);
        assert!(ahead.seen.contains("ended 336d"), "{}", ahead.seen);
        assert!(
            ahead
                .next
                .starts_with("compare it with another clock first")
        );
        // With NTP, the certificate has really expired.
        let kept = HostClock {
            is_synchronised: Some(true),
            ..at(NOW_S + YEAR_S)
        };
        assert_eq!(judge(kept, &known).state, State::Good);
        assert!(!kept.may_be_ahead());
    }

    #[test]
    fn a_clock_is_held_against_those_of_the_other_nodes() {
        let with = |others_ahead_s: &[i64]| Known {
            others_ahead_s: others_ahead_s.to_vec(),
            ..known()
        };
        // One wrong clock among several is a fault of that node.
        for agree in [
            &[0, 2, 90_000][..],
            &[0, 90_000],
            &[-90_000, 0],
            &[-90_000, 90_000],
        ] {
            assert_eq!(
                judge(at(NOW_S), &with(agree)).state,
                State::Good,
                "{agree:?}"
            );
        }
        let behind = judge(at(NOW_S), &with(&[90_000, 90_001, 0]));
        assert_eq!(behind.state, State::Bad);
        assert!(behind.seen.contains("1d 01h behind those of 3 other nodes"));
        let ahead = judge(at(NOW_S), &with(&[-7_200]));
        assert!(
            ahead
                .seen
                .contains("2h 00m ahead of that of the only other")
        );
        let set = Known {
            set_back_s: Some(-86_400),
            ..known()
        };
        assert_eq!(judge(at(NOW_S), &set).next, "restart the node");
    }
}
