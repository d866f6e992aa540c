//! What the demonstration found: the documented JSON, and the table.
//!
//! docs/demo.md defines every number; the keys are a contract.

use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use tools::quality::{self, Quality, round};
use tools::table;

/// Everything that the demonstration found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DemoResult {
    /// What was done.
    pub scenario: Scenario,
    /// The calls over plain UDP.
    pub direct: PathResult,
    /// The same calls over the overlay.
    pub overlay: PathResult,
    /// The same speech through the codec alone.
    pub ceiling: Ceiling,
    /// Where the report was written.
    #[serde(skip)]
    pub report: PathBuf,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// Nodes, each a process.
    pub nodes: u32,
    /// The chain that they form.
    pub chain: String,
    /// Delay of each of its links.
    pub hop_delay_ms: f64,
    /// The link that loses.
    pub lossy_link: String,
    /// Delay of the direct path.
    pub direct_delay_ms: f64,
    /// Loss in percent, on the lossy link and on the direct path.
    pub loss_pct: f64,
    /// Chance in percent that the datagram after a lost one is lost too.
    pub burst_pct: f64,
    /// Calls in parallel, on each path.
    pub calls: u32,
    /// Their length.
    pub seconds: u32,
    /// How long after its sending a packet is played.
    pub deadline_ms: f64,
    /// The codec.
    pub codec: String,
    /// Speech in each packet.
    pub packet_ms: f64,
    /// The recording.
    pub speech: String,
}

/// One path's calls, judged together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathResult {
    /// What can be said without speech; its keys stand beside the others.
    #[serde(flatten)]
    pub quality: Quality,
    /// Raw P.862.
    pub pesq: Score,
    /// P.862.1.
    pub mos_lqo: Score,
    /// Bytes on the wire per byte of payload.
    pub wire_bytes_ratio: f64,
}

/// A score over the segments of all calls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Arithmetic mean.
    pub mean: f64,
    /// 5th percentile.
    pub p5: f64,
}

/// What no call over this codec can exceed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ceiling {
    /// Raw P.862.
    pub pesq: Score,
}

impl DemoResult {
    /// The documented JSON, on lines of its own.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data with text keys")
    }
}

impl Score {
    pub(super) fn rounded(self) -> Score {
        Score {
            mean: round(self.mean, 3),
            p5: round(self.p5, 3),
        }
    }
}

/// Heads of the table's columns.
const HEADS: [&str; 4] = ["", "direct", "overlay", "codec alone"];

impl DemoResult {
    /// What it comes to, in a sentence.
    pub(super) fn headline(&self) -> String {
        let (direct, overlay) = (&self.direct.quality, &self.overlay.quality);
        let mos = format!("MOS {:.2} \u{2192} {:.2}", direct.mos, overlay.mos);
        let missed = |quality: &Quality| quality.lost_pct + quality.late_pct;
        let (before, after) = (missed(direct), missed(overlay));
        if before <= 0.0 {
            return format!("The direct path lost nothing that could be repaired: {mos}");
        }
        match 100.0 * (1.0 - after / before) {
            share if share > 0.0 => {
                // Never rounded up to all of them.
                let share = (share * 10.0).floor() / 10.0;
                format!("The overlay repaired {share:.1} % of the losses: {mos}")
            }
            _ => format!(
                "The overlay repaired nothing here: {after:.2} % missed instead of {before:.2} %: {mos}"
            ),
        }
    }

    /// The table, row by row, its head first.
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let (direct, overlay) = (&self.direct, &self.overlay);
        let row = |what: &str, show: &dyn Fn(&PathResult) -> String, ceiling: &str| {
            vec![
                what.to_owned(),
                show(direct),
                show(overlay),
                ceiling.to_owned(),
            ]
        };
        let score = |score: Score| format!("{:.2} / {:.2}", score.mean, score.p5);
        let mut rows = vec![HEADS.map(str::to_owned).to_vec()];
        let qualities = [&direct.quality, &overlay.quality];
        rows.extend(quality::rows(&qualities, self.scenario.deadline_ms));
        let ceiling = score(self.ceiling.pesq);
        rows.push(row(
            "PESQ mean / p5 (raw P.862)",
            &|p| score(p.pesq),
            &ceiling,
        ));
        rows.push(row(
            "MOS-LQO mean / p5 (P.862.1)",
            &|p| score(p.mos_lqo),
            "",
        ));
        let ratio = |p: &PathResult| format!("{:.2}", p.wire_bytes_ratio);
        rows.push(row("bytes on the wire per payload byte", &ratio, ""));
        rows
    }
}

impl fmt::Display for DemoResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\n{}\nreport: {}",
            table::align(&self.rows()),
            self.headline(),
            self.report.display()
        )
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use tools::quality::DelayMs;

    pub(in crate::demo) fn example() -> DemoResult {
        let score = |mean, p5| Score { mean, p5 };
        let delay_ms = DelayMs {
            mean: Some(50.1),
            p50: Some(50.1),
            p95: Some(50.2),
            p99: Some(50.4),
        };
        let quality = Quality {
            sent: 18_000,
            lost_pct: 5.02,
            late_pct: 0.0,
            delay_ms,
            jitter_ms: 0.04,
            r_factor: 78.2,
            mos: 3.95,
        };
        let direct = PathResult {
            quality: quality.clone(),
            pesq: score(3.02, 2.51),
            mos_lqo: score(2.84, 2.2),
            wire_bytes_ratio: 1.0,
        };
        let overlay = PathResult {
            quality: Quality {
                lost_pct: 0.03,
                ..quality
            },
            wire_bytes_ratio: 1.41,
            ..direct.clone()
        };
        DemoResult {
            scenario: Scenario {
                nodes: 6,
                chain: "A-B-C-D-E-F".into(),
                hop_delay_ms: 10.0,
                lossy_link: "C-D".into(),
                direct_delay_ms: 50.0,
                loss_pct: 5.0,
                burst_pct: 25.0,
                calls: 10,
                seconds: 36,
                deadline_ms: 100.0,
                codec: "G.711 mu-law".into(),
                packet_ms: 20.0,
                speech: "the sample".into(),
            },
            direct,
            overlay,
            ceiling: Ceiling {
                pesq: score(4.35, 4.3),
            },
            report: PathBuf::from("sinew-demo/report.html"),
        }
    }

    #[test]
    fn the_json_has_exactly_the_documented_keys() {
        let json: serde_json::Value = serde_json::from_str(&example().json()).unwrap();
        let keys = |value: &serde_json::Value| -> Vec<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        let sorted = |words: &str| -> Vec<String> {
            let mut words: Vec<_> = words.split(' ').map(str::to_owned).collect();
            words.sort();
            words
        };
        assert_eq!(keys(&json), sorted("scenario direct overlay ceiling"));
        for path in ["direct", "overlay"] {
            let all = "sent lost_pct late_pct delay_ms jitter_ms r_factor mos pesq mos_lqo \
                       wire_bytes_ratio";
            assert_eq!(keys(&json[path]), sorted(all));
            assert_eq!(keys(&json[path]["delay_ms"]), sorted("mean p50 p95 p99"));
            assert_eq!(keys(&json[path]["pesq"]), sorted("mean p5"));
            assert_eq!(keys(&json[path]["mos_lqo"]), sorted("mean p5"));
        }
        assert_eq!(keys(&json["ceiling"]), ["pesq"]);
        assert_eq!(keys(&json["ceiling"]["pesq"]), sorted("mean p5"));
        assert_eq!(json["direct"]["lost_pct"], 5.02);
    }

    #[test]
    fn the_headline_is_computed() {
        let mut result = example();
        result.overlay.quality.mos = 4.34;
        result.direct.quality.lost_pct = 5.0;
        let headline = "The overlay repaired 99.4 % of the losses: MOS 3.95 \u{2192} 4.34";
        assert_eq!(result.headline(), headline);
        result.overlay.quality.lost_pct = 0.0001;
        assert!(result.headline().contains("repaired 99.9 %"), "never all");
        result.overlay.quality.lost_pct = 6.0;
        assert!(result.headline().contains("repaired nothing"));
        result.direct.quality.lost_pct = 0.0;
        assert!(result.headline().contains("lost nothing"));
    }

    #[test]
    fn the_table_has_one_column_per_path_and_ends_with_the_report() {
        let text = example().to_string();
        let lines: Vec<&str> = text.lines().collect();
        let heads: Vec<&str> = lines[0].split_whitespace().collect();
        assert_eq!(heads, ["direct", "overlay", "codec", "alone"]);
        let pesq = lines.iter().find(|line| line.starts_with("PESQ")).unwrap();
        let words: Vec<&str> = pesq
            .split("   ")
            .map(str::trim)
            .filter(|w| !w.is_empty())
            .collect();
        assert_eq!(
            words,
            [
                "PESQ mean / p5 (raw P.862)",
                "3.02 / 2.51",
                "3.02 / 2.51",
                "4.35 / 4.30"
            ]
        );
        assert_eq!(lines.last(), Some(&"report: sinew-demo/report.html"));
        assert!(
            lines
                .iter()
                .all(|line| line.chars().count() <= 80 && line.trim_end() == *line)
        );
    }
}
