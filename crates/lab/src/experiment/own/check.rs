//! Checks: the meaning of a claim as numbers, in a sentence that a program can judge.
//!
//! ```text
//!   lost_pct <= udp_lost_pct + 0.3            in every row; also <, >, >=, and chains: a < b < c
//!   lost_pct < udp_lost_pct beyond errors     by two standard errors of the difference, or more where runs are few
//!   lost_pct rises with loss                  falls with; by as much in all, and never back by so much
//!   p50_ms varies by at most 10 % over loss   from the least to the most, of their mean
//!   lost_pct crosses udp_lost_pct at loss from 2 to 5
//! ```
//! Rows that differ only in the coordinate after `with`, `over` or `at` are judged together; each such group must hold.

mod judge;

use super::expression::Expression;
use std::fmt;

pub(super) use judge::shown;

/// The meaning of a claim.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Check {
    Compare {
        first: Expression,
        then: Vec<(Relation, Expression)>,
        beyond_errors: bool,
    },
    Trend {
        of: Expression,
        rises: bool,
        with: String,
    },
    Steady {
        of: Expression,
        within_pct: f64,
        over: String,
    },
    Crosses {
        a: Expression,
        b: Expression,
        at: String,
        from: f64,
        to: f64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    AtMost,
    Below,
    AtLeast,
    Above,
}

const RELATIONS: [(&str, Relation); 4] = [
    ("<=", Relation::AtMost),
    ("<", Relation::Below),
    (">=", Relation::AtLeast),
    (">", Relation::Above),
];

impl Check {
    /// Reads a check.
    pub(super) fn read(text: &str) -> Result<Check, String> {
        // A share may be written without a space before the percent sign.
        let text = text.replace('%', " % ");
        let words: Vec<&str> = text.split_whitespace().collect();
        let at = |word: &str| words.iter().position(|w| *w == word);
        let side = |words: &[&str]| Expression::read(&words.join(" "));
        let number = |word: &str| {
            let number = word.parse::<f64>().ok().filter(|n| n.is_finite());
            number.ok_or_else(|| format!("`{word}`: expected a number"))
        };
        for (word, rises) in [("rises", true), ("falls", false)] {
            if let Some(at) = at(word) {
                let [_, "with", with] = words[at..] else {
                    return Err(format!("after `{word}` expected `with` and a coordinate"));
                };
                let (of, with) = (side(&words[..at])?, with.to_owned());
                return Ok(Check::Trend { of, rises, with });
            }
        }
        if let Some(at) = at("varies") {
            let [_, "by", "at", "most", number_pct, "%", "over", over] = words[at..] else {
                return Err(
                    "after `varies` expected `by at most 10 % over` and a coordinate".to_owned(),
                );
            };
            return Ok(Check::Steady {
                of: side(&words[..at])?,
                within_pct: number(number_pct)?,
                over: over.to_owned(),
            });
        }
        if let Some(crosses) = at("crosses") {
            let rest = &words[crosses + 1..];
            let Some((b, [_, at, "from", from, "to", to])) =
                rest.len().checked_sub(6).map(|at| rest.split_at(at))
            else {
                return Err("after `crosses` expected what, and `at loss from 2 to 5`".to_owned());
            };
            let (from, to) = (number(from)?, number(to)?);
            if from >= to {
                return Err(format!(
                    "from {from} to {to}: expected the smaller one first"
                ));
            }
            return Ok(Check::Crosses {
                a: side(&words[..crosses])?,
                b: side(b)?,
                at: (*at).to_owned(),
                from,
                to,
            });
        }
        if words.contains(&"%") {
            return Err("write numbers without `%`: the unit is in the measure's name".to_owned());
        }
        let (words, beyond_errors) = match words.as_slice() {
            [compared @ .., "beyond", "errors"] => (compared, true),
            compared => (compared, false),
        };
        let relation = |word: &&str| RELATIONS.iter().find(|(sign, _)| sign == word);
        let mut sides = words.split(|word| relation(word).is_some());
        let first = side(sides.next().unwrap_or_default())?;
        let relations = words.iter().filter_map(relation);
        let then = relations.zip(sides);
        let then: Result<Vec<_>, String> = then
            .map(|((_, relation), words)| Ok((*relation, side(words)?)))
            .collect();
        let then = then?;
        if then.is_empty() && text.contains(['<', '>']) {
            return Err("write spaces around `<`, `<=`, `>` and `>=`".to_owned());
        }
        if then.is_empty() {
            return Err("expected a comparison such as `lost_pct <= 0.5`, or one of `rises with`, `falls with`, \
                        `varies by at most`, `crosses`"
                .to_owned());
        }
        let sides = || {
            [&first]
                .into_iter()
                .chain(then.iter().map(|(_, side)| side))
        };
        if sides().all(Expression::is_number) {
            return Err("it compares numbers only: name what was measured".to_owned());
        }
        if beyond_errors && !sides().all(|side| side.name().is_some() || side.is_number()) {
            return Err("`beyond errors` compares single names and numbers".to_owned());
        }
        Ok(Check::Compare {
            first,
            then,
            beyond_errors,
        })
    }

    /// Returns all names of measures and coordinates in it.
    pub(super) fn names(&self) -> Vec<&str> {
        match self {
            Check::Compare { first, then, .. } => {
                let then = then.iter().flat_map(|(_, side)| side.names());
                first.names().chain(then).collect()
            }
            Check::Trend { of, .. } | Check::Steady { of, .. } => of.names().collect(),
            Check::Crosses { a, b, .. } => a.names().chain(b.names()).collect(),
        }
    }

    /// Returns the coordinate over which rows are judged together.
    pub(super) fn over(&self) -> Option<&str> {
        match self {
            Check::Compare { .. } => None,
            Check::Trend { with: over, .. }
            | Check::Steady { over, .. }
            | Check::Crosses { at: over, .. } => Some(over),
        }
    }

    /// Returns whether it follows an expression of several names, for which there is no standard error.
    pub(super) fn is_trend_of_a_sum(&self) -> bool {
        matches!(self, Check::Trend { of, .. } if of.name().is_none())
    }

    /// Returns whether it has no meaning without standard errors.
    pub(super) fn wants_errors(&self) -> bool {
        matches!(self, Check::Compare { beyond_errors, .. } if *beyond_errors)
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Check::Compare {
                first,
                then,
                beyond_errors,
            } => {
                write!(f, "{first}")?;
                for (relation, side) in then {
                    let sign = RELATIONS.iter().find(|(_, known)| known == relation);
                    let (sign, _) = sign.expect("every relation has a sign");
                    write!(f, " {sign} {side}")?;
                }
                match beyond_errors {
                    true => f.write_str(" beyond errors"),
                    false => Ok(()),
                }
            }
            Check::Trend { of, rises, with } => {
                let word = if *rises { "rises" } else { "falls" };
                write!(f, "{of} {word} with {with}")
            }
            Check::Steady {
                of,
                within_pct,
                over,
            } => write!(f, "{of} varies by at most {within_pct} % over {over}"),
            Check::Crosses { a, b, at, from, to } => {
                write!(f, "{a} crosses {b} at {at} from {from} to {to}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_answered() {
        for (text, answer) in [
            ("a", "expected a comparison"),
            ("1 < 2", "numbers only"),
            ("a rises", "`with` and a coordinate"),
            ("a varies by 3 % over x", "by at most"),
            ("a crosses b", "`at loss from 2 to 5`"),
            ("a crosses b at x from 1 to y", "`y`: expected a number"),
            ("a + b < 3 beyond errors", "single names"),
            ("a <= ", "at its end"),
        ] {
            let error = Check::read(text).unwrap_err();
            assert!(error.contains(answer), "{text}: {error}");
        }
    }
}
