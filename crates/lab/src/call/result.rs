//! What the calls found: the documented JSON, and the tables.

use super::tally::{Direction, Tally};
use crate::quality::round;
use crate::table;
use serde::Serialize;
use std::fmt;
use voice::emodel::satisfaction;

/// What the calls found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallResult {
    /// What was done.
    pub scenario: CallScenario,
    /// Over the overlay.
    pub overlay: BothWays,
    /// By plain UDP, if a host was given.
    pub direct: Option<BothWays>,
    /// What the overlay is better by.
    pub gain: Option<Gain>,
    /// Why the calls ended before their time, if not because that was asked.
    pub error: Option<String>,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallScenario {
    /// The node that was called.
    pub to: String,
    /// Host and port of the direct path.
    pub direct: Option<String>,
    /// The codec that the packets are of.
    pub codec: &'static str,
    /// Calls in parallel, on each path.
    pub calls: u32,
    /// Their length.
    pub seconds: u32,
    /// How long after its sending a packet is played.
    pub deadline_ms: f64,
    /// Asked to end before the calls were over; what was sent until then is judged.
    pub interrupted: bool,
}

/// A part of the calls, told while they last.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// From this second of the calls on.
    pub from_s: u64,
    /// Up to this one.
    pub until_s: u64,
    /// Over the overlay.
    pub overlay: BothWays,
    /// By plain UDP, if a host was given.
    pub direct: Option<BothWays>,
    /// What the overlay is better by.
    pub gain: Option<Gain>,
}

/// One path, in both directions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BothWays {
    /// From the caller to the answerer.
    pub there: Direction,
    /// From the answerer to the caller, of the packets that it answered.
    pub back: Direction,
}

/// What the overlay is better by than the direct path, in both directions; negative where it is worse.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// From the caller to the answerer.
    pub there: Better,
    /// From the answerer to the caller.
    pub back: Better,
}

/// What the overlay is better by in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Better {
    /// So many percent of the packets less are lost.
    pub lost_pct: f64,
    /// So many less are lost or late.
    pub missed_pct: f64,
    /// The E-model's rating is higher by so much.
    pub r_factor: f64,
    /// The mean opinion score is.
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
    pub(crate) fn of(overlay: &BothWays, direct: Option<&BothWays>) -> Option<Gain> {
        let direct = direct?;
        Some(Gain {
            there: Better::of(&overlay.there, &direct.there),
            back: Better::of(&overlay.back, &direct.back),
        })
    }
}

impl Better {
    fn of(overlay: &Direction, direct: &Direction) -> Better {
        let missed = |direction: &Direction| direction.lost_pct + direction.late_pct;
        Better {
            lost_pct: round(direct.lost_pct - overlay.lost_pct, 3),
            missed_pct: round(missed(direct) - missed(overlay), 3),
            r_factor: round(overlay.r_factor - direct.r_factor, 2),
            mos: round(overlay.mos - direct.mos, 3),
        }
    }
}

impl CallResult {
    /// The documented JSON, on lines of its own.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data with text keys")
    }
}

impl Interval {
    /// The documented JSON, on one line.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("plain data with text keys")
    }
}

impl fmt::Display for CallResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut head, mut paths) = (vec![String::new()], Vec::new());
        for (name, path) in [
            ("direct", self.direct.as_ref()),
            ("overlay", Some(&self.overlay)),
        ] {
            let Some(path) = path else { continue };
            head.extend([format!("{name} there"), format!("{name} back")]);
            paths.extend([&path.there, &path.back]);
        }
        if self.gain.is_some() {
            head.extend(["gain there".to_owned(), "gain back".to_owned()]);
        }
        let mut rows = vec![head];
        rows.extend(self.rows(&paths));
        f.write_str(table::align(&rows).trim_end())
    }
}

impl CallResult {
    fn rows(&self, paths: &[&Direction]) -> Vec<Vec<String>> {
        type Show<'a> = &'a dyn Fn(&Direction) -> String;
        type Gained<'a> = Option<&'a dyn Fn(&Better) -> String>;
        let row = |what: &str, show: Show<'_>, gained: Gained<'_>| {
            let cells = paths.iter().map(|direction| show(direction));
            let mut row: Vec<String> = core::iter::once(what.to_owned()).chain(cells).collect();
            if let (Some(gain), Some(gained)) = (&self.gain, gained) {
                row.extend([gained(&gain.there), gained(&gain.back)]);
            }
            row
        };
        let late = format!("late, after {} ms", self.scenario.deadline_ms);
        vec![
            row("packets sent", &|d| d.sent.to_string(), None),
            row(
                "lost before recovery",
                &|d| format!("{:.2} %", d.lost_before_recovery_pct),
                None,
            ),
            row(
                "lost",
                &|d| format!("{:.2} %", d.lost_pct),
                Some(&|b| format!("{:+.2} %", 0.0 - b.lost_pct)),
            ),
            row(&late, &|d| format!("{:.2} %", d.late_pct), None),
            row("delay mean / p95 / p99, ms", &|d| d.delay_ms.text(), None),
            row("jitter, ms", &|d| format!("{:.2}", d.jitter_ms), None),
            row("burst ratio", &|d| format!("{:.2}", d.burst_ratio), None),
            row(
                "R-factor (G.107)",
                &|d| format!("{:.1}", d.r_factor),
                Some(&|b| format!("{:+.1}", b.r_factor)),
            ),
            row(
                "by R, users would be",
                &|d| satisfaction(d.r_factor).to_owned(),
                None,
            ),
            row(
                "MOS (G.107)",
                &|d| format!("{:.2}", d.mos),
                Some(&|b| format!("{:+.2}", b.mos)),
            ),
        ]
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
                let Direction {
                    lost_pct,
                    late_pct,
                    r_factor,
                    ..
                } = direct;
                write!(
                    f,
                    "  direct: lost {lost_pct:.2} %, late {late_pct:.2} %, R {r_factor:.1}"
                )?;
            }
            let Direction {
                lost_before_recovery_pct: before,
                lost_pct,
                late_pct,
                ..
            } = of(&self.overlay);
            let (r, mos) = (of(&self.overlay).r_factor, of(&self.overlay).mos);
            write!(
                f,
                "  overlay: lost {lost_pct:.2} % of {before:.2} %, late {late_pct:.2} %"
            )?;
            write!(f, ", R {r:.1}, MOS {mos:.2}")?;
            if let Some(gain) = &self.gain {
                let better = if i == 0 { gain.there } else { gain.back };
                write!(f, "  gain: R {:+.1}", better.r_factor)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Codec;
    use crate::call::clocks::Sample;

    fn both(delays: &[Option<u64>]) -> BothWays {
        let mut tally = Tally::new(1, Codec::Pcmu);
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
                deadline_ms: 100.0,
                interrupted: false,
            },
            gain: Gain::of(&overlay, direct.as_ref()),
            overlay,
            direct,
            error: None,
        }
    }

    #[test]
    fn the_table_has_two_columns_per_path_and_for_the_gain() {
        let table = |direct| example(direct).to_string();
        let head = |direct| table(direct).lines().next().unwrap().to_owned();
        assert_eq!(head(true).matches("there").count(), 3);
        assert!(head(true).contains("direct back") && head(true).contains("gain back"));
        assert!(!head(false).contains("direct") && !head(false).contains("gain"));
        let whole = table(true);
        let lost = whole
            .lines()
            .find(|line| line.starts_with("lost  "))
            .unwrap();
        assert!(
            lost.contains("50.00 %") && lost.contains("-50.00 %"),
            "{lost}"
        );
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
            lines[1].contains("lost 0.00 % of 50.00 %") && lines[1].contains("gain: R +"),
            "{text}"
        );
        assert!(!interval.json().contains('\n'));
    }
}
