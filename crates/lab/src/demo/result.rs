//! The results of the demonstration: the documented JSON, and the table.
//!
//! docs/demo.md defines every number; the keys are a contract.

use super::layout::Way;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fmt;
use std::path::PathBuf;
use tools::quality::{self, Quality, round};
use tools::table;

/// All results of the demonstration.
#[derive(Clone, Debug, PartialEq)]
pub struct DemoResult {
    /// The parameters of the run.
    pub scenario: Scenario,
    /// The same calls on every path; plain UDP is the first, the overlay without settings the last.
    pub(super) ways: Vec<(&'static Way, PathResult)>,
    /// The same speech through the codec alone.
    pub ceiling: Ceiling,
    /// Where the report was written.
    pub report: PathBuf,
}

/// Serializes each path as a separate object.
impl Serialize for DemoResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.ways.len() + 2))?;
        map.serialize_entry("scenario", &self.scenario)?;
        for (way, result) in &self.ways {
            map.serialize_entry(way.key, result)?;
        }
        map.serialize_entry("ceiling", &self.ceiling)?;
        map.end()
    }
}

/// The parameters of a run.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Scenario {
    /// Nodes of each overlay, each a process.
    pub nodes: u32,
    /// The chain that they form.
    pub chain: String,
    /// Delay of each of its links.
    pub hop_delay_ms: f64,
    /// The lossy link.
    pub lossy_link: String,
    /// Delay of the direct path.
    pub direct_delay_ms: f64,
    /// Loss in percent, on the lossy link and on the direct path.
    pub loss_pct: f64,
    /// Probability in percent that the datagram after a lost one is lost too.
    pub burst_pct: f64,
    /// Number of parallel calls on each path.
    pub calls: u32,
    /// Their length.
    pub seconds: u32,
    /// Time from sending a packet to playing it.
    pub deadline_ms: f64,
    /// The codec.
    pub codec: String,
    /// Duration of the speech in each packet.
    pub packet_ms: f64,
    /// The recording.
    pub speech: String,
}

/// The calls of one path, evaluated together.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct PathResult {
    /// The measures that do not depend on speech; their keys are on the same level as the others.
    #[serde(flatten)]
    pub quality: Quality,
    /// Raw P.862 scores.
    pub pesq: Score,
    /// P.862.1 scores.
    pub mos_lqo: Score,
    /// Bytes on the wire per byte of payload.
    pub wire_bytes_ratio: f64,
}

/// A score over the segments of all calls.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Score {
    /// Arithmetic mean.
    pub mean: f64,
    /// 5th percentile.
    pub p5: f64,
}

/// The score that no call with this codec can exceed.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Ceiling {
    /// Raw P.862 scores.
    pub pesq: Score,
}

impl DemoResult {
    /// Returns the documented JSON, with line breaks.
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

/// Most columns of paths with which the table has room for a column of the codec alone.
const WAYS_BESIDE_CODEC: usize = 2;

impl DemoResult {
    /// Returns the result in a sentence.
    pub(super) fn headline(&self) -> String {
        let [(_, direct), between @ .., (_, overlay)] = self.ways.as_slice() else {
            return String::new();
        };
        let mos = format!(
            "MOS {:.2} \u{2192} {:.2}",
            direct.quality.mos, overlay.quality.mos
        );
        let (before, after) = (missed_pct(direct), missed_pct(overlay));
        if before <= 0.0 {
            return format!("The direct path lost nothing that could be repaired: {mos}");
        }
        match (repaired_pct(before, after), between) {
            (Some(share), []) => format!("The overlay repaired {share:.1} % of the losses: {mos}"),
            (Some(share), [(_, requests), ..]) => format!(
                "Protection repaired {share:.1} % of the losses, requests alone {:.1} %: {mos}",
                repaired_pct(before, missed_pct(requests)).unwrap_or(0.0)
            ),
            (None, _) => format!(
                "The overlay repaired nothing here: {after:.2} % missed instead of {before:.2} %: {mos}"
            ),
        }
    }

    /// Returns the table, row by row, its head first.
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let row = |what: &str, show: &dyn Fn(&PathResult) -> String| -> Vec<String> {
            let cells = self.ways.iter().map(|(_, result)| show(result));
            std::iter::once(what.to_owned()).chain(cells).collect()
        };
        let heads = self.ways.iter().map(|(way, _)| way.head.to_owned());
        let mut rows = vec![std::iter::once(String::new()).chain(heads).collect()];
        let qualities: Vec<_> = self.ways.iter().map(|(_, r)| &r.quality).collect();
        rows.extend(quality::rows(&qualities, self.scenario.deadline_ms));
        let mut pesq = row("PESQ mean / p5 (raw P.862)", &|p| p.pesq.show());
        if self.codec_has_column() {
            rows[0].push("codec alone".into());
            pesq.push(self.ceiling.pesq.show());
        }
        rows.push(pesq);
        rows.push(row("MOS-LQO mean / p5 (P.862.1)", &|p| p.mos_lqo.show()));
        let ratio = |p: &PathResult| format!("{:.2}", p.wire_bytes_ratio);
        rows.push(row("bytes on the wire per payload byte", &ratio));
        rows
    }

    fn codec_has_column(&self) -> bool {
        self.ways.len() <= WAYS_BESIDE_CODEC
    }

    /// Returns the best possible score, if the table has no column for it.
    pub(super) fn codec_line(&self) -> Option<String> {
        let score = self.ceiling.pesq.show();
        (!self.codec_has_column()).then(|| format!("PESQ of the codec alone: {score}"))
    }
}

impl Score {
    fn show(self) -> String {
        format!("{:.2} / {:.2}", self.mean, self.p5)
    }
}

fn missed_pct(result: &PathResult) -> f64 {
    result.quality.lost_pct + result.quality.late_pct
}

/// Returns the share of the missed packets that is repaired, in percent, never rounded up to all of it; `None` if it is
/// zero.
fn repaired_pct(before: f64, after: f64) -> Option<f64> {
    let share = 100.0 * (1.0 - after / before);
    (share > 0.0).then(|| (share * 10.0).floor() / 10.0)
}

impl fmt::Display for DemoResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", table::align(&self.rows()))?;
        if let Some(line) = self.codec_line() {
            writeln!(f, "{line}")?;
        }
        write!(f, "{}\nreport: {}", self.headline(), self.report.display())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::demo::layout::{CHAIN, LONG};
    use tools::quality::DelayMs;

    /// Returns the result of a demonstration with a third path.
    pub(in crate::demo) fn example_long() -> DemoResult {
        let mut result = example();
        let requests = result.ways[0].1.clone();
        result.ways.insert(1, (&LONG.ways[1], requests));
        result.ways[2].0 = &LONG.ways[2];
        result
    }

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
            ways: CHAIN.ways.iter().zip([direct, overlay]).collect(),
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
        result.ways[1].1.quality.mos = 4.34;
        result.ways[0].1.quality.lost_pct = 5.0;
        let headline = "The overlay repaired 99.4 % of the losses: MOS 3.95 \u{2192} 4.34";
        assert_eq!(result.headline(), headline);
        result.ways[1].1.quality.lost_pct = 0.0001;
        assert!(result.headline().contains("repaired 99.9 %"), "never all");
        result.ways[1].1.quality.lost_pct = 6.0;
        assert!(result.headline().contains("repaired nothing"));
        result.ways[0].1.quality.lost_pct = 0.0;
        assert!(result.headline().contains("lost nothing"));
    }

    #[test]
    fn a_third_way_is_an_object_a_column_and_a_part_of_the_headline() {
        let result = example_long();
        let json: serde_json::Value = serde_json::from_str(&result.json()).unwrap();
        assert_eq!(json["requests"]["lost_pct"], 5.02);
        assert_eq!(json["overlay"]["lost_pct"], 0.03);
        let text = result.to_string();
        let heads: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(heads, ["direct", "requests", "protected"]);
        assert!(text.contains("\nPESQ of the codec alone: 4.35 / 4.30\n"));
        let headline = "Protection repaired 99.4 % of the losses, requests alone 0.0 %: MOS 3.95 \u{2192} 3.95";
        assert_eq!(result.headline(), headline);
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
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
