//! The effect of edits as text for users.

use super::super::PathNumbers;
use super::super::text::{call, table};
use super::{Pair, PairChange, Pairs, WhatIf};
use crate::table::{COLUMNS, fold};
use graph::width::Width;
use std::fmt;

impl fmt::Display for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = format!("by {}, deadline {} ms", self.class, self.deadline_ms);
        writeln!(f, "if {}", self.edits.join(", "))?;
        if let Some(pair) = &self.pair {
            pair.tell(f, (&about, self.deadline_ms))?;
        }
        if let Some(pairs) = &self.pairs {
            pairs.tell(f, &about, self.decided_by)?;
        }
        Ok(())
    }
}

impl Pair {
    fn tell(&self, f: &mut fmt::Formatter<'_>, (about, deadline_ms): (&str, f64)) -> fmt::Result {
        let (from, to) = (&self.from.name, &self.to.name);
        let verdict = match (self.changes, &self.before, &self.after) {
            (_, None, None) => "there is no path, before and after",
            (_, Some(_), None) => "the path is lost",
            (_, None, Some(_)) => "there is a path only then",
            (true, ..) => "the path changes",
            (false, ..) => "the path stays",
        };
        writeln!(f, "{from} to {to} {about}: {verdict}")?;
        for (when, choice) in [("before", &self.before), ("after", &self.after)] {
            match choice {
                None => write!(f, "\n{when}\n  no path\n")?,
                Some(choice) => {
                    writeln!(f, "\n{when}  {}", choice.reason)?;
                    f.write_str(&table(choice))?;
                    writeln!(f, "call  {}", call(choice, deadline_ms))?;
                }
            }
        }
        Ok(())
    }
}

impl Pairs {
    fn tell(&self, f: &mut fmt::Formatter<'_>, about: &str, decided_by: &str) -> fmt::Result {
        writeln!(
            f,
            "{} of {} paths {about} change: {} lost, {} gained",
            self.changed, self.compared, self.lost, self.gained
        )?;
        if self.listed.is_empty() {
            return Ok(());
        }
        let number = title(decided_by);
        let mut rows = vec![
            ["from-to", "before", number, "after", number]
                .map(str::to_owned)
                .to_vec(),
        ];
        rows.extend(self.listed.iter().map(|pair| pair.row(decided_by)));
        write!(f, "\n{}", fold(&rows, COLUMNS))?;
        if self.listed.len() < self.changed {
            writeln!(f, "and {} more", self.changed - self.listed.len())?;
        }
        Ok(())
    }
}

impl PairChange {
    fn row(&self, decided_by: &str) -> Vec<String> {
        let path = |paths: &[PathNumbers]| {
            let paths: Vec<String> = paths.iter().map(|path| path.path.join("-")).collect();
            if paths.is_empty() {
                "no path".to_owned()
            } else {
                paths.join(" + ")
            }
        };
        let number = |paths: &[PathNumbers]| match paths.first() {
            None => "-".to_owned(),
            Some(first) => number_of(decided_by, first),
        };
        vec![
            format!("{}-{}", self.from.name, self.to.name),
            path(&self.before),
            number(&self.before),
            path(&self.after),
            number(&self.after),
        ]
    }
}

/// Returns the number of a key of the JSON, with its unit.
fn number_of(key: &str, path: &PathNumbers) -> String {
    match key {
        "expected_latency_ms" => format!("{:.2} ms", path.expected_latency_ms),
        "loss_pct" => format!("{:.2} %", path.loss_pct),
        "hops" => path.hops.to_string(),
        "width_bps" => Width(path.width_bps).to_string(),
        "in_time_reckoned_pct" => format!("{:.3} %", path.in_time_reckoned_pct),
        _ => format!("{:.2} ms", path.latency_ms),
    }
}

/// Returns the heading of the column that shows a key of the JSON.
fn title(key: &str) -> &'static str {
    match key {
        "expected_latency_ms" => "expected",
        "loss_pct" => "loss",
        "hops" => "hops",
        "width_bps" => "width",
        "in_time_reckoned_pct" => "in time",
        _ => "latency",
    }
}
