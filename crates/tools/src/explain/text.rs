//! Explanations as text for users.

use super::held::Price;
use super::protected::missed;
use super::{Choice, Class, Held, PathNumbers, View, Why, deciding, repeats};
use crate::table::align_with;
use graph::Metric;
use graph::explain::{Answer, Question, Route};
use graph::width::Width;
use overlay::snapshot::{DampingRule, NetworkSnapshot};
use std::fmt;

/// Returns the reason for the choice of the path, in a sentence.
pub(super) fn reason(view: &View, answer: &Answer) -> String {
    let class = answer.question.class;
    let Some(first) = answer.chosen.first() else {
        return "there is no path".to_owned();
    };
    let next = answer.runners_up.first();
    let path = |route: &Route| {
        route
            .nodes()
            .map(|node| view.name(node))
            .collect::<Vec<_>>()
            .join("-")
    };
    match class {
        Class::Disjoint(k) => disjoint(answer, k),
        Class::Targeted => targeted(view, answer),
        _ => {
            let mut text = format!("{}: {}", superlative(class), number(class, first));
            if class == Class::Best
                && let Some(most) = answer.upper
            {
                let most = (most.min(1.0) * 100.0).max(deciding(class, first));
                text += &format!(" by the deadline, and no path delivers more than {most:.3} %");
            }
            match next {
                None if answer.question.runners_up == 0 => {}
                None => text += "; there is no other path",
                Some(next) => {
                    text += &format!("; next is {} with {}", path(next), number(class, next));
                    text += &difference(class, first, next);
                }
            }
            text
        }
    }
}

fn superlative(class: Class) -> &'static str {
    match class {
        Class::Metric(Metric::Hops) => "fewest hops",
        Class::Metric(Metric::Latency) => "least latency",
        Class::Metric(Metric::Loss) => "least loss",
        Class::Metric(Metric::ExpectedLatency) => "least expected latency",
        Class::Width => "widest, and of the widest the least expected latency",
        Class::Best => "delivers the most as routing reckons",
        Class::Disjoint(_) => "least expected latency together",
        Class::Targeted => "least expected latency while all is well",
    }
}

fn disjoint(answer: &Answer, k: usize) -> String {
    let found = answer.chosen.len();
    let together: f64 = answer
        .chosen
        .iter()
        .map(|route| deciding(Class::Disjoint(k), route))
        .sum();
    let paths = match found {
        1 => "one path; there are no two without a common node".to_owned(),
        _ if found < k => format!("{found} paths without a common node, all that there are"),
        _ => format!("{found} paths without a common node"),
    };
    format!("{paths}; of the least expected latency together: {together:.2} ms")
}

/// Describes what a call would miss on the chosen paths.
pub(super) fn call(choice: &Choice, deadline_ms: f64) -> String {
    let share = choice.missed_pct;
    let paths = match choice.chosen.as_slice() {
        [path] => return missed(path, deadline_ms),
        paths => paths,
    };
    match repeats(paths.iter().flat_map(|path| path.addresses.windows(2))) {
        true => format!(
            "at most {share:.3} % of a call's packets are expected to be lost or late by {deadline_ms} ms: that is the \
             share of the best path, and the other paths use some of its links"
        ),
        false => format!(
            "{share:.3} % of a call's packets are expected to be lost or late by {deadline_ms} ms on all {} paths",
            paths.len()
        ),
    }
}

/// Describes the paths that targeted copies take now, and how many links they take in each case of
/// trouble.
fn targeted(view: &View, answer: &Answer) -> String {
    let Some(told) = answer.targeted else {
        return String::new();
    };
    let Question { src, dst, .. } = answer.question;
    let [src, dst] = [src, dst].map(|node| view.name(node));
    let trouble = told.trouble;
    let places = [
        (trouble.source, src.as_str()),
        (trouble.destination, dst.as_str()),
        (trouble.middle, "the middle of the path"),
    ];
    let places: Vec<&str> = places
        .into_iter()
        .filter_map(|(is_there, place)| is_there.then_some(place))
        .collect();
    let now = match places.is_empty() {
        true => "one path, as all is well".to_owned(),
        false => format!(
            "{} paths, as there is trouble at {}",
            answer.chosen.len(),
            places.join(" and ")
        ),
    };
    let [middle, source, destination, both] = told.links;
    format!(
        "{now}; links taken with trouble in the middle: {middle}, at {src}: {source}, at {dst}: {destination}, at both: \
         {both}"
    )
}

fn number(class: Class, route: &Route) -> String {
    let value = deciding(class, route);
    match class {
        Class::Metric(Metric::Hops) => format!("{value:.0}"),
        Class::Metric(Metric::Loss) => format!("{value:.2} %"),
        Class::Best => format!("{value:.3} %"),
        Class::Width => Width(value as u64).to_string(),
        Class::Metric(_) | Class::Disjoint(_) | Class::Targeted => format!("{value:.2} ms"),
    }
}

fn difference(class: Class, first: &Route, next: &Route) -> String {
    let (mine, other) = (deciding(class, first), deciding(class, next));
    if (mine - other).abs() <= 1e-9 * mine.abs().max(other.abs()) {
        return match class {
            Class::Metric(_) => ", the same: lower addresses go first".to_owned(),
            Class::Width => ", as wide and longer".to_owned(),
            Class::Best | Class::Disjoint(_) | Class::Targeted => ", the same".to_owned(),
        };
    }
    let (less, more) = if mine < other {
        (mine, other)
    } else {
        (other, mine)
    };
    let by = more - less;
    match class {
        Class::Metric(Metric::Hops) => format!(", {by:.0} more"),
        Class::Metric(Metric::Loss) => format!(", {by:.2} points more"),
        Class::Metric(_) => format!(", {by:.2} ms more"),
        Class::Width => format!(", {:.0} % less", by / more * 100.0),
        Class::Best => format!(", {by:.3} points less"),
        Class::Disjoint(_) | Class::Targeted => String::new(),
    }
}

/// Describes the timer that ends first.
pub(super) fn timer(snapshot: &NetworkSnapshot, links: &[Held]) -> String {
    let rule = rule(&snapshot.rule);
    let pending = links
        .iter()
        .flat_map(|link| link.pending.iter().map(move |change| (link, change)));
    let first = pending.min_by(|a, b| a.1.due_in_s.total_cmp(&b.1.due_in_s));
    if let Some((link, change)) = first {
        let (announced, measured) = match change.what.as_str() {
            "loss" => (
                format!("{:.2} %", link.announced_loss_pct),
                format!("{:.2} %", link.measured_loss_pct),
            ),
            _ => (
                format!("{:.2} ms", link.announced_latency_ms),
                format!("{:.2} ms", link.measured_latency_ms),
            ),
        };
        return format!(
            "{} of {}-{} is announced as {announced} and measured as {measured}: reported in {:.1} s \
             if that lasts; {rule}",
            change.what, link.from, link.to, change.due_in_s
        );
    }
    match links {
        [] => rule,
        links => {
            let soonest = links
                .iter()
                .map(|link| link.may_announce_in_s)
                .fold(f64::MAX, f64::min);
            let when = if soonest > 0.0 {
                format!("in {soonest:.1} s at the earliest")
            } else {
                "as soon as it has lasted".to_owned()
            };
            format!("no change is pending; the next can be reported {when}; {rule}")
        }
    }
}

fn rule(rule: &DampingRule) -> String {
    let lasting = |s: f64| {
        if s > 0.0 {
            format!("after {s} s")
        } else {
            "at once".to_owned()
        }
    };
    let mut text = format!(
        "a link is reported at most every {} s: a worse one {}, a better one {}",
        rule.spacing_s,
        lasting(rule.worse_s),
        lasting(rule.better_s)
    );
    if rule.better_max_s > rule.better_s {
        text += &format!(", up to {} s after relapses", rule.better_max_s);
    }
    text + "; up and down at once"
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.forwarding {
            "table" => "by table, hop by hop",
            _ => "source-routed",
        };
        writeln!(
            f,
            "{} to {} by {} ({how}), deadline {} ms\n",
            self.from.name, self.to.name, self.class, self.deadline_ms
        )?;
        f.write_str(&table(&self.choice))?;
        writeln!(
            f,
            "\nlinks of the chosen path{}",
            plural(self.choice.chosen.len())
        )?;
        f.write_str(&links(&self.choice))?;
        writeln!(f, "\nwhy   {}", self.choice.reason)?;
        if let Some(diverted) = &self.diverted {
            writeln!(f, "now   {diverted}")?;
        }
        if let Some(refused) = &self.refused {
            writeln!(f, "none  {refused}; until then, packets are dropped")?;
        }
        writeln!(f, "call  {}", call(&self.choice, self.deadline_ms))?;
        for link in &self.protection {
            writeln!(f, "link  {link}")?;
        }
        if !self.assumed.is_empty() {
            writeln!(f, "given {}", self.assumed)?;
        }
        if !self.help.is_empty() {
            let words = self.help.iter().map(|help| help.words(self.deadline_ms));
            writeln!(f, "help  {}", words.collect::<Vec<_>>().join("; "))?;
        }
        for price in &self.held_by.prices {
            writeln!(f, "price {price}")?;
        }
        write!(f, "held  {}", self.held_by.timer)
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}: ", self.from, self.to)?;
        let Some(price_ms) = self.price_ms else {
            return f.write_str("the other end is silent; packets that have no other way try it");
        };
        if self.over_tcp {
            write!(f, "runs over TCP, as UDP gets no answer; that ")?;
            return match self.ends_in_s {
                Some(_) => write!(f, "and recent outages cost {price_ms:.0} ms more"),
                None => write!(f, "costs {price_ms:.0} ms more"),
            };
        }
        write!(f, "recent outages cost {price_ms:.0} ms more")?;
        match self.ends_in_s {
            Some(left) => write!(f, "; the price halves every minute and ends in {left:.0} s"),
            None => Ok(()),
        }
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Headings in two lines: the name, and its unit or kind. `unrecovered` stands below `in time`,
/// because it is the share that arrives in time if nothing is recovered, and not a loss.
const NUMBERS: [[&str; 2]; 6] = [
    ["expected", "ms"],
    ["latency", "ms"],
    ["loss", "%"],
    ["", "width"],
    ["in time %", "recovered"],
    ["in time %", "unrecovered"],
];

/// Width of the gap between columns, so that a path of four nodes fits 80 columns.
const GAP: usize = 2;

fn numbers(path: &PathNumbers) -> [String; 6] {
    [
        format!("{:.2}", path.expected_latency_ms),
        format!("{:.2}", path.latency_ms),
        format!("{:.2}", path.loss_pct),
        Width(path.width_bps).to_string(),
        format!("{:.3}", path.in_time_pct),
        format!("{:.3}", path.in_time_unrecovered_pct),
    ]
}

fn headings(first: &str) -> [Vec<String>; 2] {
    [0, 1].map(|line| {
        let first = if line == 0 { "" } else { first };
        let titles = NUMBERS.iter().map(|titles| titles[line]);
        [first]
            .into_iter()
            .chain(titles)
            .map(str::to_owned)
            .collect()
    })
}

/// Lists the chosen paths and the runners-up in a table.
pub(super) fn table(choice: &Choice) -> String {
    let mut rows = headings("  path").to_vec();
    let chosen = choice.chosen.iter().map(|path| ("*", path));
    let next = choice.runners_up.iter().map(|path| (" ", path));
    for (mark, path) in chosen.chain(next) {
        let mut row = vec![format!("{mark} {}", path.path.join("-"))];
        row.extend(numbers(path));
        rows.push(row);
    }
    align_with(&rows, GAP)
}

fn links(choice: &Choice) -> String {
    let titles = [
        "  link",
        "expected ms",
        "latency ms",
        "loss %",
        "after recovery %",
        "width",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for link in choice.chosen.iter().flat_map(|path| &path.links) {
        rows.push(vec![
            format!("  {}-{}", link.from, link.to),
            format!("{:.2}", link.expected_latency_ms),
            format!("{:.2}", link.latency_ms),
            format!("{:.2}", link.loss_pct),
            format!("{:.3}", link.plan.left_pct),
            Width(link.width_bps).to_string(),
        ]);
    }
    align_with(&rows, GAP)
}

#[cfg(test)]
mod tests;
