//! The results of checks in rows: whether they hold, how near the limit is, and the numbers for a reader.

use super::super::expression::Expression;
use super::super::spread_of;
use super::{Check, Relation};
use crate::experiment::Row;
use std::collections::BTreeMap;

/// Student's t, two-sided at 95 %, by the number of runs minus one: equal values differ by this many standard errors
/// with a probability of one in twenty. Beyond the last entry the value is two.
const ERRORS: [f64; 29] = [
    12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13,
    2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05,
];

/// Returns the number of standard errors that a difference must have with this many runs.
fn errors(runs: u32) -> f64 {
    let degree = runs.max(2) as usize - 2;
    ERRORS.get(degree).copied().unwrap_or(2.0)
}

/// The result of a claim in some rows.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Judgement {
    pub(in super::super) holds: bool,
    pub(in super::super) measured: String,
    /// The labels of the parts in which it does not hold, if there is more than one part.
    pub(in super::super) missed: Vec<String>,
}

/// One row, or one group of them.
struct Part {
    label: String,
    holds: bool,
    /// The distance from not holding, as a share: if it is negative, the part does not hold.
    margin: f64,
    text: String,
}

impl Check {
    /// Judges the check in rows with this many runs each; without rows it does not hold.
    pub(in super::super) fn judge(&self, rows: &[&Row], runs: u32) -> Judgement {
        let errors = errors(runs);
        let parts: Vec<Part> = match self.over() {
            None => rows.iter().map(|row| self.compare(row, errors)).collect(),
            Some(over) => groups(rows, over)
                .into_iter()
                .map(|(label, group)| self.together(label, over, &group, errors))
                .collect(),
        };
        let missed = parts.iter().filter(|part| !part.holds && parts.len() > 1);
        let missed: Vec<String> = missed.map(|part| part.label.clone()).collect();
        let worst = parts.iter().min_by(|a, b| a.margin.total_cmp(&b.margin));
        let Some(worst) = worst else {
            return Judgement {
                holds: false,
                measured: "nothing".to_owned(),
                missed,
            };
        };
        Judgement {
            holds: parts.iter().all(|part| part.holds),
            measured: match parts.len() {
                1 => worst.text.clone(),
                all => format!(
                    "in {} of {all}; the nearest to the bar is {}: {}",
                    all - missed.len(),
                    worst.label,
                    worst.text
                ),
            },
            missed,
        }
    }

    fn compare(&self, row: &Row, errors: f64) -> Part {
        let Check::Compare {
            first,
            then,
            beyond_errors,
        } = self
        else {
            unreachable!("rows are compared one by one only for a comparison");
        };
        let (mut margin, mut left) = (f64::INFINITY, first);
        for (relation, right) in then {
            let (a, b) = (value(left, row), value(right, row));
            let needed = match beyond_errors {
                true => errors * error(left, row).hypot(error(right, row)),
                false => 0.0,
            };
            let ahead = match relation {
                Relation::AtMost | Relation::Below => b - a,
                Relation::AtLeast | Relation::Above => a - b,
            };
            let is_strict = matches!(relation, Relation::Below | Relation::Above);
            let over = ahead - needed;
            let scale = a.abs().max(b.abs()).max(1e-9);
            let share = match over > 0.0 || (over == 0.0 && !is_strict) {
                true => over / scale,
                // This includes values that are not numbers, and equal values where a difference is required.
                false if over.is_nan() => f64::NEG_INFINITY,
                false => (over / scale).min(-f64::MIN_POSITIVE),
            };
            (margin, left) = (margin.min(share), right);
        }
        let sides = [first].into_iter().chain(then.iter().map(|(_, side)| side));
        let sides = sides.filter(|side| !side.is_number());
        let text = sides.map(|side| {
            let spread = error(side, row);
            let spread = match spread > 0.0 {
                true => format!(" ± {}", shown(spread)),
                false => String::new(),
            };
            format!("{side} {}{spread}", shown(value(side, row)))
        });
        Part {
            label: row.cell.clone(),
            holds: margin >= 0.0,
            margin,
            text: text.collect::<Vec<_>>().join(", "),
        }
    }

    fn together(&self, label: String, over: &str, rows: &[&Row], errors: f64) -> Part {
        let points = |of: &Expression| -> Vec<(f64, f64, f64)> {
            let point = |row: &&Row| (row.parameter(over), value(of, row), error(of, row));
            rows.iter().map(point).collect()
        };
        let (margin, text) = match self {
            Check::Compare { .. } => unreachable!("a comparison has no coordinate to go over"),
            Check::Trend { of, rises, .. } => trend(&points(of), *rises, errors),
            Check::Steady { of, within_pct, .. } => steady(&points(of), *within_pct),
            Check::Crosses { a, b, from, to, .. } => {
                let points = points(a).into_iter().zip(points(b));
                let apart = points.map(|((x, a, _), (_, b, _))| (x, a - b));
                crossing(&apart.collect::<Vec<_>>(), over, *from, *to)
            }
        };
        Part {
            label,
            holds: margin >= 0.0,
            margin,
            text,
        }
    }
}

/// Judges whether points rise or fall: from the first to the last, and without a step back.
fn trend(points: &[(f64, f64, f64)], rises: bool, errors: f64) -> (f64, String) {
    let sign = if rises { 1.0 } else { -1.0 };
    let step =
        |a: &(f64, f64, f64), b: &(f64, f64, f64)| (sign * (b.1 - a.1), errors * a.2.hypot(b.2));
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return (f64::NEG_INFINITY, "nothing".to_owned());
    };
    let values: Vec<String> = points.iter().map(|point| shown(point.1)).collect();
    let text = values.join(", ");
    let scale = points.iter().map(|p| p.1.abs()).fold(1e-9, f64::max);
    let (all, noise) = step(first, last);
    let mut margin = match all > noise {
        true => (all - noise) / scale,
        false if all.is_nan() => f64::NEG_INFINITY,
        false => ((all - noise) / scale).min(-f64::MIN_POSITIVE),
    };
    for pair in points.windows(2) {
        let (ahead, noise) = step(&pair[0], &pair[1]);
        if ahead.is_nan() {
            margin = f64::NEG_INFINITY;
        } else if ahead < -noise {
            margin = margin.min((ahead + noise) / scale).min(-f64::MIN_POSITIVE);
        }
    }
    (margin, text)
}

/// Judges whether points stay near their mean.
fn steady(points: &[(f64, f64, f64)], within_pct: f64) -> (f64, String) {
    let values = || points.iter().map(|point| point.1);
    let mean = values().sum::<f64>() / points.len() as f64;
    let (least, most) = (
        values().fold(f64::INFINITY, f64::min),
        values().fold(f64::NEG_INFINITY, f64::max),
    );
    let spread_pct = match most - least {
        0.0 => 0.0,
        spread => 100.0 * spread / mean.abs(),
    };
    let text = format!(
        "from {} to {}: {} %",
        shown(least),
        shown(most),
        shown(spread_pct)
    );
    match spread_pct.is_nan() || values().any(f64::is_nan) {
        true => (f64::NEG_INFINITY, text),
        false => ((within_pct - spread_pct) / within_pct.max(1e-9), text),
    }
}

/// Finds where a difference first changes its sign, by a straight line between points; touching zero is no change.
fn crossing(apart: &[(f64, f64)], over: &str, from: f64, to: f64) -> (f64, String) {
    let mut before: Option<(f64, f64)> = None;
    let mut at = None;
    for &(x, y) in apart.iter().filter(|(_, y)| *y != 0.0) {
        match before {
            Some((x0, y0)) if y0.signum() != y.signum() => {
                at = Some(x0 + (x - x0) * y0 / (y0 - y));
                break;
            }
            _ => before = Some((x, y)),
        }
    }
    let Some(at) = at.filter(|at| at.is_finite()) else {
        return (f64::NEG_INFINITY, "they do not cross".to_owned());
    };
    let room = (at - from).min(to - at);
    let text = format!("at {over} {}", shown(at));
    (room / (to - from).max(1e-9), text)
}

/// Returns the groups of rows that differ only in one coordinate, in its order; each group with a label.
fn groups<'r>(rows: &[&'r Row], over: &str) -> Vec<(String, Vec<&'r Row>)> {
    let mut groups: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let numbers = row.parameters.iter().filter(|(name, _)| *name != over);
        let numbers = numbers.map(|(name, value)| format!("{name}={value}"));
        let words = row
            .words
            .iter()
            .map(|(name, word)| format!("{name}={word}"));
        let label: Vec<String> = numbers.chain(words).collect();
        groups.entry(label.join(" ")).or_default().push(row);
    }
    for group in groups.values_mut() {
        group.sort_by(|a, b| a.parameter(over).total_cmp(&b.parameter(over)));
    }
    groups.into_iter().collect()
}

/// Returns the value of an expression in a row: names are those of measures, then of coordinates.
fn value(of: &Expression, row: &Row) -> f64 {
    let known = |name: &str| Ok::<f64, ()>(row.known(name).unwrap_or_else(|| row.parameter(name)));
    of.value(known).unwrap_or(f64::NAN)
}

/// Returns the standard error of a measure; zero for numbers and sums.
fn error(of: &Expression, row: &Row) -> f64 {
    let error = of.name().map(|name| row.value(&spread_of(name)));
    error.filter(|error| error.is_finite()).unwrap_or(0.0)
}

/// Formats a value with four significant digits.
pub(in super::super) fn shown(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    format!("{}", tools::quality::round(value, digits.clamp(0, 9)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Cell;

    /// Returns rows over `x` with `a`, its error and `b`; all in a group `g=1`.
    fn rows(points: &[(f64, f64, f64, f64)]) -> Vec<Row> {
        let row = |&(x, a, error, b): &(f64, f64, f64, f64)| {
            let mut row = Row::of(&Cell::at(&[("x", x)]));
            row.words.insert("g".to_owned(), "1".to_owned());
            row.set("a", a);
            row.set(spread_of("a"), error);
            row.set("b", b);
            row
        };
        points.iter().map(row).collect()
    }

    fn judged(check: &str, points: &[(f64, f64, f64, f64)]) -> Judgement {
        let rows = rows(points);
        let check = Check::read(check).unwrap();
        check.judge(&rows.iter().collect::<Vec<_>>(), 100)
    }

    #[test]
    fn few_runs_must_differ_by_more_and_a_touch_is_no_crossing() {
        let rows = rows(&[(1.0, 1.0, 0.1, 1.9)]);
        let holds = |runs| {
            let check = Check::read("a < b beyond errors").unwrap();
            check.judge(&rows.iter().collect::<Vec<_>>(), runs).holds
        };
        assert_eq!((holds(2), holds(3), holds(1_000)), (false, true, true));
        let zero = [
            (0.0, 0.0, 0.0, 0.0),
            (1.0, 1.0, 0.0, 0.0),
            (2.0, 1.0, 0.0, 2.0),
        ];
        assert!(judged("a crosses b at x from 1.4 to 1.6", &zero).holds);
        assert!(!judged("a crosses b at x from 0 to 1", &zero[..2]).holds);
        assert!(!judged("c crosses b at x from 0 to 2", &zero).holds);
    }

    #[test]
    fn every_kind_holds_and_fails() {
        let rising = [
            (1.0, 1.0, 0.1, 2.0),
            (2.0, 2.0, 0.1, 2.5),
            (3.0, 4.0, 0.1, 3.0),
        ];
        for (check, holds) in [
            ("a <= 4", true),
            ("a < 4", false),
            ("a <= b + 1", true),
            ("a <= b", false),
            ("a > 0.9", true),
            ("a >= 1.1", false),
            ("0 < a < 5", true),
            ("0 < a < 3", false),
            ("a < 4.3 beyond errors", true),
            ("a < 4.1 beyond errors", false),
            ("a rises with x", true),
            ("a falls with x", false),
            ("b varies by at most 45 % over x", true),
            ("a varies by at most 45 % over x", false),
            ("a crosses b at x from 2 to 3", true),
            ("a crosses b at x from 1 to 2", false),
            ("a + 9 crosses b at x from 1 to 3", false),
            ("c <= 4", false),
            ("c rises with x", false),
            ("c varies by at most 9 % over x", false),
            ("c crosses b at x from 1 to 3", false),
        ] {
            let judgement = judged(check, &rising);
            assert_eq!(judgement.holds, holds, "{check}: {judgement:?}");
            assert_eq!(Check::read(check).unwrap().to_string(), check);
        }
        assert!(!judged("a <= 4", &[]).holds);
    }

    #[test]
    fn a_trend_forgives_noise_and_nothing_else() {
        let points = |second: f64| {
            [
                (1.0, 1.0, 0.1, 0.0),
                (2.0, second, 0.1, 0.0),
                (3.0, 2.0, 0.1, 0.0),
            ]
        };
        assert!(judged("a rises with x", &points(0.8)).holds);
        assert!(!judged("a rises with x", &points(0.5)).holds);
        let level = [(1.0, 1.0, 0.1, 0.0), (2.0, 1.2, 0.1, 0.0)];
        assert!(!judged("a rises with x", &level).holds);
    }

    #[test]
    fn the_row_nearest_to_the_bar_is_told() {
        let judgement = judged(
            "a <= 3",
            &[
                (1.0, 1.0, 0.0, 0.0),
                (2.0, 3.5, 0.0, 0.0),
                (3.0, 2.0, 0.0, 0.0),
            ],
        );
        assert_eq!(judgement.missed, ["x=2"]);
        assert_eq!(
            judgement.measured,
            "in 2 of 3; the nearest to the bar is x=2: a 3.5"
        );
    }
}
