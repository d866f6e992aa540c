//! Tables of a TOML file, read key by key. Each value has its line, each error names the key and the item that it
//! concerns, and an error about an unknown key suggests the intended one.

use super::error::Mistake;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The text of the file, in which errors locate lines.
#[derive(Clone, Copy)]
pub(crate) struct Text<'t> {
    pub(crate) file: &'t str,
    pub(crate) text: &'t str,
}

/// A table whose keys are all known.
#[derive(Clone)]
pub(crate) struct Table<'t> {
    text: Text<'t>,
    /// The item that the table describes, as errors name it.
    pub(crate) what: String,
    fields: &'t DeTable<'t>,
    span: Range<usize>,
}

/// A value of a table, with its position.
#[derive(Clone)]
pub(crate) struct Value<'t> {
    text: Text<'t>,
    key: String,
    value: &'t DeValue<'t>,
    span: Range<usize>,
}

impl<'t> Text<'t> {
    pub(crate) fn mistake(self, span: &Range<usize>, key: String, what: String) -> Mistake {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        Mistake {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            key,
            what,
        }
    }

    /// Makes an error for a text that is not TOML.
    pub(crate) fn malformed(self, error: &toml::de::Error) -> Mistake {
        let span = error.span().unwrap_or(0..0);
        // The parser reports what it found and what it expected on separate lines.
        let what = error.message().trim().replace('\n', "; ");
        self.mistake(&span, String::new(), what)
    }
}

impl<'t> Table<'t> {
    /// Creates a table in which only the keys `known` are expected.
    pub(crate) fn new(
        text: Text<'t>,
        what: impl Into<String>,
        span: Range<usize>,
        fields: &'t DeTable<'t>,
        known: &[&str],
    ) -> Result<Table<'t>, Mistake> {
        let table = Table {
            text,
            what: what.into(),
            fields,
            span,
        };
        for (key, _) in fields {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let what = match tools::spelling::nearest(name, known) {
                    Some(meant) => format!("no such key; did you mean `{meant}`?"),
                    None => format!("no such key; there are {}", listed(known)),
                };
                return Err(text.mistake(&key.span(), table.key(name), what));
            }
        }
        Ok(table)
    }

    /// Returns the value of `key`, if it is present.
    pub(crate) fn optional(&self, key: &str) -> Option<Value<'t>> {
        let value: &'t Spanned<DeValue<'t>> = self.fields.get(key)?;
        Some(Value {
            text: self.text,
            key: self.key(key),
            value: value.get_ref(),
            span: value.span(),
        })
    }

    /// Returns the value of `key`, which must be present; `expected` describes it.
    pub(crate) fn required(&self, key: &str, expected: &str) -> Result<Value<'t>, Mistake> {
        self.optional(key)
            .ok_or_else(|| self.mistake(format!("`{key}` is missing: expected {expected}")))
    }

    /// Returns those of these keys that are present.
    pub(crate) fn present<'k>(&self, keys: &'k [&'k str]) -> impl Iterator<Item = &'k str> {
        keys.iter()
            .copied()
            .filter(|key| self.fields.contains_key(*key))
    }

    /// Makes an error about the table as a whole.
    pub(crate) fn mistake(&self, what: String) -> Mistake {
        self.text.mistake(&self.span, self.what.clone(), what)
    }

    fn key(&self, key: &str) -> String {
        if self.what.is_empty() {
            key.to_owned()
        } else {
            format!("{}: {key}", self.what)
        }
    }
}

impl<'t> Value<'t> {
    /// Makes an error about the value.
    pub(crate) fn mistake(&self, what: impl Into<String>) -> Mistake {
        self.text.mistake(&self.span, self.key.clone(), what.into())
    }

    /// Returns the value as text.
    pub(crate) fn text(&self, expected: &str) -> Result<&'t str, Mistake> {
        self.value
            .as_str()
            .ok_or_else(|| self.mistake(format!("expected {expected} in quotes")))
    }

    /// Returns a text that `read` accepts.
    pub(crate) fn read<T>(
        &self,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Mistake> {
        let text = self.text(expected)?;
        read(text).ok_or_else(|| self.mistake(format!("`{text}`: expected {expected}")))
    }

    /// Returns a text after parsing; the error contains `expected`.
    pub(crate) fn parse<T>(&self, expected: &str) -> Result<T, Mistake>
    where
        T: std::str::FromStr<Err: std::fmt::Display>,
    {
        let text = self.text(expected)?;
        text.parse()
            .map_err(|error| self.mistake(format!("{error}")))
    }

    /// Returns the meaning of one of some words.
    pub(crate) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, Mistake> {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        let expected = format!("one of {}", listed(&names));
        let text = self.text(&expected)?;
        let found = words.iter().find(|(name, _)| *name == text);
        found.map(|(_, word)| *word).ok_or_else(|| {
            let meant = tools::spelling::nearest(text, &names).map_or_else(
                || format!("expected {expected}"),
                |meant| format!("did you mean `{meant}`?"),
            );
            self.mistake(format!("`{text}`: {meant}"))
        })
    }

    /// Returns a whole number from `low` to `high`.
    pub(crate) fn integer(&self, low: i64, high: i64) -> Result<i64, Mistake> {
        let expected = format!("a whole number from {low} to {high}");
        let Some(number) = self.value.as_integer() else {
            return Err(self.mistake(format!("expected {expected}, without quotes")));
        };
        let value = i64::from_str_radix(number.as_str(), number.radix());
        match value {
            Ok(value) if (low..=high).contains(&value) => Ok(value),
            _ => Err(self.mistake(format!("{}: expected {expected}", number.as_str()))),
        }
    }

    /// Returns a number, whole or not.
    pub(crate) fn number(&self, expected: &str) -> Result<f64, Mistake> {
        let text = match (self.value.as_float(), self.value.as_integer()) {
            (Some(float), _) => float.as_str(),
            (None, Some(whole)) if whole.radix() == 10 => whole.as_str(),
            _ => return Err(self.mistake(format!("expected {expected}, without quotes"))),
        };
        let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
        value.ok_or_else(|| self.mistake(format!("{text}: expected {expected}")))
    }

    /// Returns true or false.
    pub(crate) fn bool(&self) -> Result<bool, Mistake> {
        self.value
            .as_bool()
            .ok_or_else(|| self.mistake("expected true or false, without quotes"))
    }

    /// Returns a list.
    pub(crate) fn list(&self, expected: &str) -> Result<Vec<Value<'t>>, Mistake> {
        let Some(array) = self.value.as_array() else {
            return Err(self.mistake(format!("expected {expected}")));
        };
        let values = array.iter().map(|value| Value {
            text: self.text,
            key: self.key.clone(),
            value: value.get_ref(),
            span: value.span(),
        });
        Ok(values.collect())
    }

    /// Returns a table with these keys.
    pub(crate) fn table(
        &self,
        what: impl Into<String>,
        known: &[&str],
    ) -> Result<Table<'t>, Mistake> {
        match self.value.as_table() {
            Some(fields) => Table::new(self.text, what, self.span.clone(), fields, known),
            None => {
                let key = self.key.replace(": ", ".");
                Err(self.mistake(format!("expected a table: write [{key}]")))
            }
        }
    }

    /// Returns the values of a table with keys of any name, in the file's order.
    pub(crate) fn entries(&self) -> Result<Vec<(&'t str, Value<'t>)>, Mistake> {
        let Some(fields) = self.value.as_table() else {
            return Err(self.mistake(format!("expected a table: write [{}]", self.key)));
        };
        let mut entries: Vec<_> = fields.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let value = |(key, value): (&'t Spanned<_>, &'t Spanned<DeValue<'t>>)| {
            let name: &'t std::borrow::Cow<'t, str> = key.get_ref();
            let value = Value {
                text: self.text,
                key: format!("{}: {name}", self.key),
                value: value.get_ref(),
                span: value.span(),
            };
            (name.as_ref(), value)
        };
        Ok(entries.into_iter().map(value).collect())
    }

    /// Returns the values of a list, or the single value.
    pub(crate) fn one_or_more(&self) -> Vec<Value<'t>> {
        self.list("").unwrap_or_else(|_| vec![self.clone()])
    }

    /// Returns whether it is a table.
    pub(crate) fn is_table(&self) -> bool {
        self.value.as_table().is_some()
    }

    /// Returns a number, or an error that also mentions the alternatives.
    pub(crate) fn number_or(&self, expected: &str) -> Result<f64, Mistake> {
        let number = self.number("");
        number.map_err(|_| self.mistake(format!("expected {expected}")))
    }

    /// Returns the text, if it is one.
    pub(crate) fn as_text(&self) -> Option<&'t str> {
        self.value.as_str()
    }

    /// Returns tables with these keys; `name` names each by its number.
    pub(crate) fn tables(
        &self,
        name: impl Fn(usize) -> String,
        known: &[&str],
    ) -> Result<Vec<Table<'t>>, Mistake> {
        let expected = format!("tables: write [[{}]]", self.key.replace(": ", "."));
        let values = self.list(&expected)?.into_iter().enumerate();
        values
            .map(|(n, value)| match value.value.as_table() {
                Some(_) => value.table(name(n), known),
                None => Err(value.mistake(format!("expected {expected}"))),
            })
            .collect()
    }
}

/// Formats names as `` `a`, `b` and `c` ``.
pub(crate) fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_as_one_says_them() {
        assert_eq!(listed(&["a", "b", "c"]), "`a`, `b` and `c`");
    }
}
