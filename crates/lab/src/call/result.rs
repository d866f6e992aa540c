//! What the calls found: the documented JSON, and the table.

use crate::quality::{self, Quality};
use crate::table;
use serde::Serialize;
use std::fmt;

/// What the calls found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallResult {
    /// What was done.
    pub scenario: CallScenario,
    /// Over the overlay.
    pub overlay: BothWays,
    /// By plain UDP, if a host was given.
    pub direct: Option<BothWays>,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallScenario {
    /// The node that was called.
    pub to: String,
    /// Host and port of the direct path.
    pub direct: Option<String>,
    /// Calls in parallel, on each path.
    pub calls: u32,
    /// Their length.
    pub seconds: u32,
    /// How long after its sending a packet is played.
    pub deadline_ms: f64,
    /// Asked to end before the calls were over; what was sent until then is judged.
    pub interrupted: bool,
}

/// One path, in both directions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BothWays {
    /// From the caller to the answerer.
    pub there: Quality,
    /// From the answerer to the caller, of the packets that it answered.
    pub back: Quality,
}

impl CallResult {
    /// The documented JSON, on lines of its own.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data with text keys")
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
        let mut rows = vec![head];
        rows.extend(quality::rows(&paths, self.scenario.deadline_ms));
        f.write_str(table::align(&rows).trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Duration;

    fn example(direct: bool) -> CallResult {
        let quality = Quality::of(&[vec![Some(40_000), None]], Duration::from_millis(100));
        let path = BothWays {
            there: quality.clone(),
            back: quality,
        };
        CallResult {
            scenario: CallScenario {
                to: "10.7.0.3".into(),
                direct: direct.then(|| "fra.example.net:7717".into()),
                calls: 1,
                seconds: 1,
                deadline_ms: 100.0,
                interrupted: false,
            },
            overlay: path.clone(),
            direct: direct.then_some(path),
        }
    }

    #[test]
    fn the_table_has_two_columns_per_path() {
        let heads = |direct| {
            example(direct)
                .to_string()
                .lines()
                .next()
                .unwrap()
                .to_owned()
        };
        assert_eq!(heads(true).matches("there").count(), 2);
        assert!(heads(true).contains("direct back"));
        assert!(!heads(false).contains("direct"));
    }

    #[test]
    fn the_json_has_the_documented_keys() {
        let json: serde_json::Value = serde_json::from_str(&example(false).json()).unwrap();
        assert!(json["direct"].is_null());
        let there = json["overlay"]["there"].as_object().unwrap();
        let keys: Vec<&str> = there.keys().map(String::as_str).collect();
        let expected = [
            "delay_ms",
            "jitter_ms",
            "late_pct",
            "lost_pct",
            "mos",
            "r_factor",
            "sent",
        ];
        assert_eq!(keys, expected);
        assert_eq!(json["overlay"]["back"]["lost_pct"], 50.0);
    }
}
