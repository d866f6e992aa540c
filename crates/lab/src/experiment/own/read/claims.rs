//! The claims about the measures, and their figures: `[[experiment.claim]]` and `[[experiment.figure]]`.

use super::super::check::Check;
use super::super::figure::Figure;
use super::super::{Claim, Coordinate, Value, intern};
use super::text_of;
use crate::experiment::ClaimText;
use crate::scenario::Mistake;
use crate::scenario::table::{self, Table};
use tools::spelling::nearest;

/// The names that checks and figures may use.
pub(super) struct Known {
    pub(super) coordinates: Vec<&'static str>,
    pub(super) measures: Vec<&'static str>,
    /// Measures that are means over runs.
    pub(super) means: Vec<&'static str>,
    /// Coordinates whose values are numbers.
    pub(super) numeric: Vec<&'static str>,
    pub(super) seeds: u32,
}

impl Known {
    /// Checks that a name is one of a measure, or of a coordinate with numbers.
    fn number(&self, name: &str) -> Result<(), String> {
        let known = [self.measures.as_slice(), &self.numeric].concat();
        one_of("measure or coordinate of numbers", name, &known)
    }
}

fn one_of(what: &str, name: &str, known: &[&str]) -> Result<(), String> {
    if known.contains(&name) {
        return Ok(());
    }
    Err(match nearest(name, known) {
        Some(meant) => format!("no {what} `{name}`; did you mean `{meant}`?"),
        None => format!("no {what} `{name}`; there are {}", table::listed(known)),
    })
}

/// Reads the claims.
pub(super) fn claims(
    table: &Table<'_>,
    id: &'static str,
    known: &Known,
    grid: &[Coordinate],
) -> Result<Vec<Claim>, Mistake> {
    const KEYS: [&str; 5] = ["key", "text", "source", "check", "where"];
    let Some(value) = table.optional("claim") else {
        return Ok(Vec::new());
    };
    let mut claims: Vec<Claim> = Vec::new();
    for (n, table) in value
        .tables(|n| format!("claim {}", n + 1), &KEYS)?
        .iter()
        .enumerate()
    {
        let value = table.required("check", "a check such as \"lost_pct <= 0.5\"")?;
        let text = value.text("a check such as \"lost_pct <= 0.5\"")?;
        let check = Check::read(text).map_err(|why| value.mistake(why))?;
        for name in check.names() {
            known.number(name).map_err(|why| value.mistake(why))?;
        }
        if let Some(over) = check.over() {
            one_of("coordinate of numbers", over, &known.numeric)
                .map_err(|why| value.mistake(why))?;
        }
        if check.wants_errors() && known.seeds < 2 {
            return Err(value.mistake("`beyond errors` needs `seeds` of 2 or more"));
        }
        let only = conditions(table, known, grid)?;
        let has_error = |name: &&str| known.means.contains(name) || known.numeric.contains(name);
        if check.wants_errors()
            && let Some(name) = check.names().iter().find(|name| !has_error(name))
        {
            let what = format!("`beyond errors`: `{name}` is no mean, so its error is not known");
            return Err(value.mistake(what));
        }
        if check.is_trend_of_a_sum() && known.seeds > 1 {
            return Err(value.mistake(
                "it follows one measure, because of its errors: put the sum into the `take` of a measure",
            ));
        }
        if let Some(over) = check.over() {
            let of = grid.iter().find(|of| of.name == over);
            let all = of.map_or(0, |of| of.values.len());
            let chosen = only.iter().find(|(name, _)| *name == over);
            if chosen.map_or(all, |(_, values)| values.len()) < 2 {
                let what = format!("`{over}` has one value here: nothing goes over it");
                return Err(value.mistake(what));
            }
        }
        let conditions: Vec<String> = only
            .iter()
            .map(|(name, values)| {
                let values: Vec<String> = values.iter().map(Value::plain).collect();
                format!("{name} is {}", values.join(" or "))
            })
            .collect();
        let expected = match conditions.is_empty() {
            true => check.to_string(),
            false => format!("{check} where {}", conditions.join(" and ")),
        };
        let key = match text_of(table, "key")? {
            Some(key) => intern(&key),
            None => intern(&format!("claim-{}", n + 1)),
        };
        if claims.iter().any(|claim| claim.text.key == key) {
            return Err(table.mistake(format!("there are two claims `{key}`")));
        }
        let words = text_of(table, "text")?.unwrap_or_else(|| expected.clone());
        let source = text_of(table, "source")?.unwrap_or_default();
        claims.push(Claim {
            text: ClaimText {
                experiment: id,
                key,
                source: intern(&source),
                text: intern(&words),
                expected: intern(&expected),
            },
            check,
            only,
        });
    }
    Ok(claims)
}

/// Reads which rows a claim concerns.
fn conditions(
    table: &Table<'_>,
    known: &Known,
    grid: &[Coordinate],
) -> Result<Vec<(&'static str, Vec<Value>)>, Mistake> {
    let Some(value) = table.optional("where") else {
        return Ok(Vec::new());
    };
    let mut conditions = Vec::new();
    for (name, value) in value.entries()? {
        one_of("coordinate", name, &known.coordinates).map_err(|why| value.mistake(why))?;
        let of = grid.iter().find(|of| of.name == name);
        let of = of.expect("it is one of the grid's coordinates");
        let mut values = Vec::new();
        for one in value.one_or_more() {
            let read = match one.as_text() {
                Some(word) => Value::Word(word.to_owned()),
                None => Value::Number(one.number_or(super::WORD)?),
            };
            if !of.values.contains(&read) {
                let known: Vec<String> = of.values.iter().map(Value::toml).collect();
                let known = known.join(", ");
                let what = format!("`{name}` is never {}; it is {known}", read.toml());
                return Err(one.mistake(what));
            }
            values.push(read);
        }
        conditions.push((of.name, values));
    }
    Ok(conditions)
}

/// Reads the figures; without any, there is one of all measures over the first numeric coordinate.
pub(super) fn figures(table: &Table<'_>, known: &Known) -> Result<Vec<Figure>, Mistake> {
    const KEYS: [&str; 6] = ["title", "x", "y", "by", "x_label", "y_label"];
    let Some(value) = table.optional("figure") else {
        let x = known.numeric.first();
        return Ok(x
            .map(|x| Figure::of_all(x, &known.measures))
            .into_iter()
            .collect());
    };
    let mut figures = Vec::new();
    for table in value.tables(|n| format!("figure {}", n + 1), &KEYS)? {
        let name = |key: &str, expected: &str| {
            let value = table.required(key, expected)?;
            let text = value.text(expected)?;
            known.number(text).map_err(|why| value.mistake(why))?;
            Ok(text.to_owned())
        };
        let x = name("x", "a coordinate or a measure")?;
        let mut y = Vec::new();
        for value in table.required("y", "one or more measures")?.one_or_more() {
            let text = value.text("a measure")?;
            known.number(text).map_err(|why| value.mistake(why))?;
            y.push(text.to_owned());
        }
        let by = table.optional("by").map(|value| {
            let text = value.text("a coordinate")?;
            one_of("coordinate", text, &known.coordinates).map_err(|why| value.mistake(why))?;
            Ok(text.to_owned())
        });
        figures.push(Figure {
            title: text_of(&table, "title")?,
            x_label: text_of(&table, "x_label")?.unwrap_or_else(|| x.clone()),
            y_label: text_of(&table, "y_label")?.unwrap_or_else(|| y.join(", ")),
            x,
            y,
            by: by.transpose()?,
        });
    }
    Ok(figures)
}
