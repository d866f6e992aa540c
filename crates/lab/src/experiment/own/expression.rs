//! Sums over names: the expressions that a measure takes from a report, and that a check compares.
//!
//! ```text
//!   flows.call.lost_pct + flows.call.late_pct        udp_lost_pct * 0.3
//!   └────── name ─────┘ operators stand between spaces, because names have hyphens
//! ```

use std::fmt;

/// A sum of products of names and numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expression {
    text: String,
    /// The terms, each with its sign and a product: the first factor, then operators and factors.
    terms: Vec<(f64, Vec<(Operator, Factor)>)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Times,
    By,
}

#[derive(Clone, Debug, PartialEq)]
enum Factor {
    Number(f64),
    Name(String),
}

impl Expression {
    /// Reads an expression.
    pub(super) fn read(text: &str) -> Result<Expression, String> {
        let mut words = text.split_whitespace();
        let factor = |word: Option<&str>| {
            let word = word.ok_or("expected a name or a number at its end")?;
            match word.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Factor::Number(number)),
                Ok(_) => Err("expected numbers that are finite".to_owned()),
                Err(_) if word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') => {
                    Ok(Factor::Name(word.to_owned()))
                }
                Err(_) => Err(format!(
                    "`{word}`: expected a name or a number, without a unit"
                )),
            }
        };
        let mut terms = vec![(1.0, vec![(Operator::Times, factor(words.next())?)])];
        while let Some(word) = words.next() {
            let product = &mut terms
                .last_mut()
                .expect("there is a term from the beginning on")
                .1;
            match word {
                "*" => product.push((Operator::Times, factor(words.next())?)),
                "/" => product.push((Operator::By, factor(words.next())?)),
                "+" | "-" => {
                    let sign = if word == "+" { 1.0 } else { -1.0 };
                    terms.push((sign, vec![(Operator::Times, factor(words.next())?)]));
                }
                _ => {
                    return Err(format!(
                        "`{word}`: expected one of `+`, `-`, `*`, `/`, or in a check `<`, `<=`, `>`, `>=`, between spaces"
                    ));
                }
            }
        }
        Ok(Expression {
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
            terms,
        })
    }

    /// Returns its value; `value` resolves names. The result is NaN if one of them is.
    pub(super) fn value<E>(&self, value: impl Fn(&str) -> Result<f64, E>) -> Result<f64, E> {
        let mut sum = 0.0;
        for (sign, product) in &self.terms {
            let mut term = *sign;
            for (operator, factor) in product {
                let factor = match factor {
                    Factor::Number(number) => *number,
                    Factor::Name(name) => value(name)?,
                };
                term = match operator {
                    Operator::Times => term * factor,
                    Operator::By => term / factor,
                };
            }
            sum += term;
        }
        Ok(sum)
    }

    /// Returns all names in it.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let factors = self.terms.iter().flat_map(|(_, product)| product);
        factors.filter_map(|(_, factor)| match factor {
            Factor::Name(name) => Some(name.as_str()),
            Factor::Number(_) => None,
        })
    }

    /// Returns the name, if the expression is only a name.
    pub(super) fn name(&self) -> Option<&str> {
        match self.terms.as_slice() {
            [(_, product)] => match product.as_slice() {
                [(_, Factor::Name(name))] => Some(name),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns whether it does not depend on any measurement.
    pub(super) fn is_number(&self) -> bool {
        self.names().next().is_none()
    }
}

/// Writes the expression as the user wrote it, except for spaces.
impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str) -> f64 {
        let known = |name: &str| match name {
            "a-b.lost" => Ok(6.0),
            "two" => Ok(2.0),
            other => Err(other.to_owned()),
        };
        Expression::read(text).unwrap().value(known).unwrap()
    }

    #[test]
    fn products_bind_closer_than_sums() {
        assert_eq!(value("a-b.lost"), 6.0);
        assert_eq!(value("a-b.lost + two  * 3 - 1 / 2"), 11.5);
        assert_eq!(value("two / 4 / 8 * a-b.lost"), 0.375);
        assert_eq!(value("-1.5 + two"), 0.5);
        let names = Expression::read("two * a-b.lost + 3").unwrap();
        assert_eq!(names.names().collect::<Vec<_>>(), ["two", "a-b.lost"]);
        assert_eq!((names.name(), names.is_number()), (None, false));
        assert_eq!(Expression::read("two").unwrap().name(), Some("two"));
    }

    #[test]
    fn nonsense_is_answered() {
        for (text, answer) in [
            ("", "at its end"),
            ("a +", "at its end"),
            ("a b", "`b`: expected one of"),
            ("* a", "`*`: expected a name"),
            ("inf", "finite"),
        ] {
            let error = Expression::read(text).unwrap_err();
            assert!(error.contains(answer), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-c0-9.+*/ -]{0,20}") {
            if let Ok(read) = Expression::read(&text) {
                let again = Expression::read(&read.to_string()).unwrap();
                prop_assert_eq!(&read, &again);
                let _ = read.value(|_| Ok::<f64, ()>(1.0));
            }
        }
    }
}
