//! A scenario with blanks: `{loss}` where a cell of the grid has a value.
//!
//! ```text
//!   path = "delay=20ms loss={loss}%"     ── loss=5 ──▶   path = "delay=20ms loss=5%"
//!   nodes = "{nodes}"                    ── nodes=4 ─▶   nodes = 4
//!   class = "{class}"                    ── class=best ▶ class = "best"
//! ```
//! A text that is nothing but a blank becomes the value itself, so a number stays one. A coordinate of the grid called
//! `settings.KEY` needs no blank: it is a setting of all nodes.

use super::Value;
use crate::scenario::{Files, Mistake, Scenario};
use overlay::Settings;
use overlay::settings::SetError;
use tools::spelling::nearest;

/// Before the name of a setting.
pub(super) const SETTINGS: &str = "settings.";

/// The values of a cell, by the names of their coordinates.
pub(super) type Values = [(&'static str, Value)];

/// A scenario that is the same for all cells, but for its blanks.
pub(super) struct Template {
    /// What errors call it.
    pub(super) file: String,
    pub(super) text: String,
    pub(super) files: Files,
}

impl Template {
    /// The scenario of a cell.
    pub(super) fn filled(&self, values: &Values) -> Result<Scenario, Mistake> {
        let text = fill(&self.text, values);
        if let Some((at, name)) = blanks(&text).next() {
            let known: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
            let what = match nearest(name, &known) {
                Some(meant) => {
                    format!("`{{{name}}}`: no such coordinate; did you mean `{{{meant}}}`?")
                }
                None => format!("`{{{name}}}`: the grid has no such coordinate"),
            };
            return Err(Mistake {
                file: self.file.clone(),
                line: text[..at].matches('\n').count() + 1,
                key: String::new(),
                what,
            });
        }
        let mut scenario =
            Scenario::parse_experiment(&self.file, &text, &self.files, &[super::read::TABLE])?;
        for (name, value) in values {
            if let Some(key) = name.strip_prefix(SETTINGS) {
                scenario.settings.push((key.to_owned(), value.plain()));
            }
        }
        Ok(scenario)
    }

    /// Whether a coordinate changes anything.
    pub(super) fn has(&self, name: &str) -> bool {
        name.starts_with(SETTINGS) || blanks(&self.text).any(|(_, blank)| blank == name)
    }
}

/// That a setting takes a value.
pub(super) fn setting(key: &str, value: &Value) -> Result<(), String> {
    match Settings::modern().set(key, &value.plain()) {
        Ok(()) => Ok(()),
        Err(SetError::Unknown { known, .. }) => Err(match nearest(key, &known) {
            Some(meant) => format!("no such setting; did you mean `{SETTINGS}{meant}`?"),
            None => format!("no such setting; there are {}", known.join(", ")),
        }),
        Err(SetError::Value { expected, .. }) => {
            Err(format!("{}: expected {expected}", value.plain()))
        }
    }
}

fn fill(text: &str, values: &Values) -> String {
    let mut filled = text.to_owned();
    for (name, value) in values {
        for quote in ['"', '\''] {
            let whole = format!("{quote}{{{name}}}{quote}");
            filled = filled.replace(&whole, &value.toml());
        }
        filled = filled.replace(&format!("{{{name}}}"), &value.plain());
    }
    filled
}

/// Where blanks are, and their names. An inline table of TOML is none: it has an equals sign.
fn blanks(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    text.match_indices('{').filter_map(move |(at, _)| {
        let (name, _) = text[at + 1..].split_once('}')?;
        let is_blank = !name.is_empty() && name.chars().all(is_name);
        // What a comment says of blanks is for readers.
        let line = text[..at].rsplit('\n').next().unwrap_or_default();
        (is_blank && !line.trim_start().starts_with('#')).then_some((at, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_become_values_and_a_blank_alone_keeps_its_kind() {
        let values = [
            ("n", Value::Number(4.0)),
            ("loss", Value::Number(0.5)),
            ("class", Value::Word("best \"x\"".to_owned())),
        ];
        let text =
            "nodes = \"{n}\"\npath = 'loss={loss}%'\nclass = '{class}'\nx = { a = 1 }\n# {n}\n";
        assert_eq!(
            fill(text, &values),
            "nodes = 4\npath = 'loss=0.5%'\nclass = \"best \\\"x\\\"\"\nx = { a = 1 }\n# 4\n"
        );
        let found: Vec<&str> = blanks(text).map(|(_, name)| name).collect();
        assert_eq!(found, ["n", "loss", "class"]);
    }

    #[test]
    fn a_setting_that_is_none_is_answered_with_the_nearest() {
        let word = |text: &str| Value::Word(text.to_owned());
        assert_eq!(setting("hello_interval", &word("50ms")), Ok(()));
        let error = setting("hello_intervall", &word("50ms")).unwrap_err();
        assert!(
            error.contains("did you mean `settings.hello_interval`?"),
            "{error}"
        );
        assert!(
            setting("hello_interval", &word("soon"))
                .unwrap_err()
                .contains("expected")
        );
    }
}
