//! The results of the calls: the documented JSON, and the tables.

use super::tally::{Direction, Tally};
use crate::quality::round;
use serde::Serialize;
use std::fmt;
use voice::emodel::satisfaction;

/// The results of the calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallResult {
    /// What was measured.
    pub scenario: CallScenario,
    /// Results over the overlay.
    pub overlay: BothWays,
    /// Results over plain UDP, if a host was given.
    pub direct: Option<BothWays>,
    /// How much better the overlay is than the direct path.
    pub gain: Option<Gain>,
    /// Why the calls ended early, if an error ended them.
    pub error: Option<String>,
    /// Why there are no results of the direct path, if nobody has answered there.
    pub direct_error: Option<String>,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallScenario {
    /// The node that was called.
    pub to: String,
    /// Host and port of the direct path.
    pub direct: Option<String>,
    /// The codec whose packets the calls imitate.
    pub codec: &'static str,
    /// Calls in parallel, on each path.
    pub calls: u32,
    /// Length of the calls in seconds.
    pub seconds: u32,
    /// How long after its sending a packet is played.
    pub deadline_ms: f64,
    /// The process was asked to end before the calls were over. The results cover the packets sent until then.
    pub interrupted: bool,
}

/// The results of a part of the calls, reported while they last.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The second of the calls at which this part begins.
    pub from_s: u64,
    /// The second at which this part ends.
    pub until_s: u64,
    /// Results over the overlay.
    pub overlay: BothWays,
    /// Results over plain UDP, if a host was given.
    pub direct: Option<BothWays>,
    /// How much better the overlay is than the direct path.
    pub gain: Option<Gain>,
}

/// One path, in both directions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BothWays {
    /// From the caller to the answerer.
    pub there: Direction,
    /// From the answerer to the caller, for the packets that it answered.
    pub back: Direction,
}

/// How much better the overlay is than the direct path, in both directions; negative if it is worse.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// From the caller to the answerer.
    pub there: Better,
    /// From the answerer to the caller.
    pub back: Better,
}

/// How much better the overlay is in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Better {
    /// Percent of packets lost on the direct path minus percent lost over the overlay.
    pub lost_pct: f64,
    /// The same difference for packets that are lost or late.
    pub missed_pct: f64,
    /// How much higher the E-model's rating is.
    pub r_factor: f64,
    /// How much higher the mean opinion score is.
    pub mos: f64,
}

impl BothWays {
    pub(crate) fn of([there, back]: &[Tally; 2]) -> BothWays {
        BothWays {
            there: there.direction(),
            back: back.direction(),
        }
    }
}

impl Gain {
    /// Returns `None` if nothing arrived on a path in at least one direction: then there is nothing to compare.
    pub(crate) fn of(overlay: &BothWays, direct: Option<&BothWays>) -> Option<Gain> {
        let direct = direct?;
        Some(Gain {
            there: Better::of(&overlay.there, &direct.there)?,
            back: Better::of(&overlay.back, &direct.back)?,
        })
    }
}

impl Better {
    fn of(overlay: &Direction, direct: &Direction) -> Option<Better> {
        let missed = |direction: &Direction| direction.lost_pct + direction.late_pct;
        Some(Better {
            lost_pct: round(direct.lost_pct - overlay.lost_pct, 3),
            missed_pct: round(missed(direct) - missed(overlay), 3),
            r_factor: round(overlay.r_factor? - direct.r_factor?, 2),
            mos: round(overlay.mos? - direct.mos?, 3),
        })
    }
}

impl CallResult {
    /// Returns the documented JSON, on several lines.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data with text keys")
    }
}

impl Interval {
    /// Returns the documented JSON, on one line.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("plain data with text keys")
    }
}

/// The width of a column of numbers: `overlay` is the longest heading.
const CELL: usize = 7;

impl fmt::Display for CallResult {
    /// A table that fits 80 columns: numbers there, numbers back; below it the conclusion.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows();
        let label = rows.iter().map(|(what, _)| what.chars().count()).max();
        let label = label.unwrap_or(0);
        let names = self.columns();
        let width = names.len() * (CELL + 2);
        let heads = ["there", "back"].map(|head| format!("{head:>width$}"));
        writeln!(f, "{:label$}{}{}", "", heads[0], heads[1])?;
        let line = |f: &mut fmt::Formatter<'_>, what: &str, cells: &[String]| {
            write!(f, "{what:label$}")?;
            for cell in cells {
                write!(f, "  {cell:>CELL$}")?;
            }
            writeln!(f)
        };
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        line(f, "", &[names.clone(), names].concat())?;
        for (what, cells) in &rows {
            line(f, what, cells)?;
        }
        writeln!(f)?;
        f.write_str(&self.verdict())
    }
}

impl CallResult {
    fn columns(&self) -> Vec<&'static str> {
        let mut columns = vec!["overlay"];
        if self.direct.is_some() {
            columns.insert(0, "direct");
        }
        if self.gain.is_some() {
            columns.push("gain");
        }
        columns
    }

    /// Returns the label and the cells of each row: there, then back.
    fn rows(&self) -> Vec<(String, Vec<String>)> {
        type Show<'a> = &'a dyn Fn(&Direction) -> Option<String>;
        type Gained<'a> = Option<&'a dyn Fn(&Better) -> String>;
        type Of = fn(&BothWays) -> &Direction;
        type GainOf = fn(&Gain) -> &Better;
        let ways: [(Of, GainOf); 2] = [
            (|path| &path.there, |gain| &gain.there),
            (|path| &path.back, |gain| &gain.back),
        ];
        let row = |what: &str, show: Show<'_>, gained: Gained<'_>| {
            let mut cells = Vec::new();
            for (way, better) in ways {
                let paths = self.direct.iter().chain([&self.overlay]);
                cells.extend(paths.map(|path| show(way(path)).unwrap_or_else(|| "-".to_owned())));
                cells.extend(self.gain.iter().map(|gain| match gained {
                    Some(gained) => gained(better(gain)),
                    None => String::new(),
                }));
            }
            (what.to_owned(), cells)
        };
        let number = |value: Option<f64>, digits: usize| value.map(|v| format!("{v:.digits$}"));
        // If no packet was sent, there is no share of lost packets.
        let share = |d: &Direction, pct: f64| (d.sent > 0).then(|| format!("{pct:.2}"));
        let late = format!("late (after {} ms), %", self.scenario.deadline_ms);
        vec![
            row("packets sent", &|d| Some(d.sent.to_string()), None),
            row(
                "lost before recovery, %",
                &|d| share(d, d.lost_before_recovery_pct),
                None,
            ),
            row(
                "lost, %",
                &|d| share(d, d.lost_pct),
                Some(&|b| format!("{:+.2}", 0.0 - b.lost_pct)),
            ),
            row(&late, &|d| share(d, d.late_pct), None),
            row("delay, mean, ms", &|d| number(d.delay_ms.mean, 1), None),
            row("delay, p95, ms", &|d| number(d.delay_ms.p95, 1), None),
            row("delay, p99, ms", &|d| number(d.delay_ms.p99, 1), None),
            row("jitter, ms", &|d| number(d.jitter_ms, 2), None),
            row(
                "burst ratio",
                &|d| d.r_factor.map(|_| format!("{:.2}", d.burst_ratio)),
                None,
            ),
            row(
                "R-factor (G.107)",
                &|d| number(d.r_factor, 1),
                Some(&|b| format!("{:+.1}", b.r_factor)),
            ),
            row(
                "MOS (G.107)",
                &|d| number(d.mos, 2),
                Some(&|b| format!("{:+.2}", b.mos)),
            ),
        ]
    }

    /// Returns the conclusion, a line for each direction.
    fn verdict(&self) -> String {
        let line = |way: &str, of: fn(&BothWays) -> &Direction| {
            let overlay = of(&self.overlay);
            let (Some(mos), Some(r)) = (overlay.mos, overlay.r_factor) else {
                return format!("{way}: nothing was heard over the overlay");
            };
            let direct = self.direct.as_ref().map(of).and_then(|direct| direct.mos);
            let direct = direct.map_or_else(String::new, |mos| format!("MOS {mos:.2} directly, "));
            let users = satisfaction(r);
            format!("{way}: {direct}MOS {mos:.2} over the overlay (users: {users})")
        };
        let mut lines = vec![
            line("there", |path| &path.there),
            line("back", |path| &path.back),
        ];
        lines.extend(self.direct_error.clone());
        lines.join("\n")
    }
}

impl fmt::Display for Interval {
    /// Two lines: there, and back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = |s: u64| format!("{:02}:{:02}:{:02}", s / 3_600, s / 60 % 60, s % 60);
        let (time, blank) = (clock(self.until_s), " ".repeat(8));
        type Of = fn(&BothWays) -> &Direction;
        let ways: [(&str, &str, Of); 2] = [
            (&time, "there", |path| &path.there),
            (&blank, "back ", |path| &path.back),
        ];
        for (i, (time, name, of)) in ways.into_iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{time}  {name}")?;
            if let Some(direct) = self.direct.as_ref().map(of) {
                write!(f, "  direct: {}", heard(direct))?;
            }
            let overlay = of(&self.overlay);
            let before = overlay.lost_before_recovery_pct;
            write!(
                f,
                "  overlay: {}, before recovery {before:.2} %",
                heard(overlay)
            )?;
            if let Some(gain) = &self.gain {
                let better = if i == 0 { gain.there } else { gain.back };
                write!(f, "  gain: R {:+.1}", better.r_factor)?;
            }
        }
        Ok(())
    }
}

/// Returns a direction in short.
fn heard(direction: &Direction) -> String {
    let Direction {
        lost_pct, late_pct, ..
    } = direction;
    match (direction.r_factor, direction.mos) {
        (Some(r), Some(mos)) => {
            format!("lost {lost_pct:.2} %, late {late_pct:.2} %, R {r:.1}, MOS {mos:.2}")
        }
        _ => "nothing heard".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::clocks::Sample;
    use crate::call::{Codec, DEADLINE};

    fn both(delays: &[Option<u64>]) -> BothWays {
        let mut tally = Tally::new(1, Codec::Pcmu, DEADLINE);
        let samples: Vec<Sample> = (0_u64..)
            .zip(delays)
            .map(|(i, delay)| Sample {
                sent_us: i * 20_000,
                delay_us: *delay,
                recovered: i == 0,
            })
            .collect();
        tally.push(0, &samples);
        BothWays::of(&[tally.clone(), tally])
    }

    fn example(direct: bool) -> CallResult {
        let overlay = both(&[Some(40_000), Some(40_000)]);
        let direct = direct.then(|| both(&[Some(40_000), None]));
        CallResult {
            scenario: CallScenario {
                to: "10.7.0.3".into(),
                direct: direct.as_ref().map(|_| "fra.example.net:7717".into()),
                codec: Codec::Pcmu.name(),
                calls: 1,
                seconds: 1,
                deadline_ms: 150.0,
                interrupted: false,
            },
            gain: Gain::of(&overlay, direct.as_ref()),
            overlay,
            direct,
            error: None,
            direct_error: None,
        }
    }

    #[test]
    fn the_table_has_a_column_per_path_and_for_the_gain_there_and_back() {
        let table = |direct| example(direct).to_string();
        let head = |direct| table(direct).lines().nth(1).unwrap().to_owned();
        assert_eq!(head(true).matches("overlay").count(), 2);
        assert!(head(true).contains("direct") && head(true).contains("gain"));
        assert!(!head(false).contains("direct") && !head(false).contains("gain"));
        let whole = table(true);
        assert!(
            whole.lines().all(|line| line.chars().count() <= 80),
            "{whole}"
        );
        let row = |what: &str| whole.lines().find(|line| line.starts_with(what)).unwrap();
        let lost: Vec<&str> = row("lost, %").split_whitespace().collect();
        assert_eq!(
            lost,
            [
                "lost,", "%", "50.00", "0.00", "-50.00", "50.00", "0.00", "-50.00"
            ]
        );
        assert!(row("there:").contains("directly, MOS 4."), "{whole}");
    }

    #[test]
    fn a_path_that_never_answered_has_no_score_and_no_gain() {
        let mut silent = example(true);
        let nothing = Tally::new(1, Codec::Pcmu, DEADLINE);
        let mut unheard = Tally::new(1, Codec::Pcmu, DEADLINE);
        let lost = Sample {
            sent_us: 0,
            delay_us: None,
            recovered: false,
        };
        unheard.push(0, &[lost]);
        silent.direct = Some(BothWays::of(&[unheard, nothing]));
        silent.gain = Gain::of(&silent.overlay, silent.direct.as_ref());
        silent.direct_error = Some("nobody answers directly".to_owned());
        assert_eq!(silent.gain, None);
        let text = silent.to_string();
        assert!(!text.contains("-0.0") && !text.contains("gain"), "{text}");
        assert!(text.ends_with("nobody answers directly"), "{text}");
        assert!(!text.contains("directly, MOS"), "{text}");
        let json: serde_json::Value = serde_json::from_str(&silent.json()).unwrap();
        assert!(json["direct"]["back"]["mos"].is_null() && json["gain"].is_null());
    }

    #[test]
    fn the_json_has_the_documented_keys() {
        let json: serde_json::Value = serde_json::from_str(&example(false).json()).unwrap();
        assert!(json["direct"].is_null() && json["gain"].is_null());
        let there = json["overlay"]["there"].as_object().unwrap();
        let keys: Vec<&str> = there.keys().map(String::as_str).collect();
        let expected = [
            "burst_ratio",
            "delay_ms",
            "jitter_ms",
            "late_pct",
            "lost_before_recovery_pct",
            "lost_pct",
            "mos",
            "r_factor",
            "sent",
        ];
        assert_eq!(keys, expected);
        assert_eq!(json["overlay"]["back"]["lost_before_recovery_pct"], 50.0);
        let json: serde_json::Value = serde_json::from_str(&example(true).json()).unwrap();
        assert_eq!(json["gain"]["there"]["lost_pct"], 50.0);
        assert!(json["gain"]["back"]["r_factor"].as_f64().unwrap() > 10.0);
        assert_eq!(json["scenario"]["codec"], "pcmu");
    }

    #[test]
    fn an_interval_is_a_line_in_each_direction() {
        let CallResult {
            overlay,
            direct,
            gain,
            ..
        } = example(true);
        let interval = Interval {
            from_s: 3_600,
            until_s: 3_661,
            overlay,
            direct,
            gain,
        };
        let text = interval.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].starts_with("01:01:01  there  direct: lost 50.00 %"),
            "{text}"
        );
        assert!(
            lines[1].contains("overlay: lost 0.00 %")
                && lines[1].contains("before recovery 50.00 %")
                && lines[1].contains("gain: R +"),
            "{text}"
        );
        assert!(!interval.json().contains('\n'));
    }
}
