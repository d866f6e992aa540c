//! The advice as text for users.

use super::super::protected::missed;
use super::{Advice, Candidate, NewLink};
use crate::table::align_with;
use std::fmt;

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (&self.from.name, &self.to.name);
        writeln!(
            f,
            "a call from {from} to {to}, deadline {} ms\n",
            self.deadline_ms
        )?;
        f.write_str(&self.table())?;
        writeln!(f, "\ntoday {}", missed(&self.today, self.deadline_ms))?;
        if self.candidates.is_empty() {
            return match self.is_reached {
                true => write!(
                    f,
                    "more  no further node helps: this path reaches the target, and no node that is not slower saves \
                     repair"
                ),
                false => write!(
                    f,
                    "more  no further node helps: calls would not take it, or would miss about as much"
                ),
            };
        }
        for candidate in &self.candidates {
            writeln!(f, "{}", candidate.needs())?;
        }
        write!(f, "note  {}", self.estimated)
    }
}

impl Advice {
    /// Lists today's path, and the paths over further nodes, in a table.
    fn table(&self) -> String {
        let titles = ["  further node", "path", "missed %", "delay ms", "repair %"];
        let today = &self.today;
        let row =
            |name: String, path: &[String], [missed_pct, latency_ms, repair_pct]: [f64; 3]| {
                let numbers = [
                    format!("{missed_pct:.3}"),
                    format!("{latency_ms:.1}"),
                    format!("{repair_pct:.0}"),
                ];
                let words = [name, path.join("-")];
                words.into_iter().chain(numbers).collect::<Vec<String>>()
            };
        let repairs = today.links.iter().map(|link| link.plan.repair_pct);
        let repair_pct = repairs.fold(0.0, f64::max);
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        rows.push(row(
            "  none: today".into(),
            &today.path,
            [today.missed_pct, today.latency_ms, repair_pct],
        ));
        for (rank, candidate) in (1..).zip(&self.candidates) {
            rows.push(row(
                format!("{rank} {}", candidate.called()),
                &candidate.path,
                [
                    candidate.missed_pct,
                    candidate.latency_ms,
                    candidate.repair_pct,
                ],
            ));
        }
        align_with(&rows, 2)
    }
}

impl Candidate {
    fn called(&self) -> String {
        match self.kind {
            "city" => format!("a node in {}", self.name),
            "half-way" => format!("a node {}", self.name),
            "link" => format!("no node, a link {}", self.name),
            "paths" => format!("no node, {}", self.name),
            _ => self.name.clone(),
        }
    }

    /// Describes the links that the candidate needs, and how calls are sent over them.
    fn needs(&self) -> String {
        let links: Vec<String> = self.links.iter().map(NewLink::text).collect();
        let asked = match self.class.as_str() {
            "best" if self.kind != "paths" => "; calls take it with --paths best only",
            _ => "",
        };
        match links.is_empty() {
            true => "link  none more; sockets of calls ask for --paths best".to_owned(),
            false => format!("link  {}{asked}", links.join(", ")),
        }
    }
}

impl NewLink {
    fn text(&self) -> String {
        let about = match self.estimated_by {
            "links" => "at most",
            _ => "about",
        };
        format!(
            "{}-{} would be new: {about} {:.1} ms and {:.2} % loss",
            self.from, self.to, self.latency_ms, self.loss_pct
        )
    }
}
