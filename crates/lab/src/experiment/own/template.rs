//! A scenario with placeholders: `{loss}` where a cell of the grid has a value.
//!
//! ```text
//!   path = "delay=20ms loss={loss}%"     ── loss=5 ──▶   path = "delay=20ms loss=5%"
//!   nodes = "{nodes}"                    ── nodes=4 ─▶   nodes = 4
//!   class = "{class}"                    ── class=best ▶ class = "best"
//! ```
//! A text that is only a placeholder becomes the value itself, so a number stays a number. A coordinate of the grid
//! with a name such as `settings.KEY` needs no placeholder: it is a setting of all nodes.

use super::Value;
use crate::scenario::{Files, Mistake, Scenario};
use overlay::Settings;
use overlay::settings::SetError;
use tools::spelling::nearest;

/// The prefix of a setting's name.
pub(super) const SETTINGS: &str = "settings.";

/// Returns a text without the table of the experiment: its lines are empty, so that those of the scenario keep their
/// numbers.
pub(super) fn scenario_of(text: &str) -> String {
    let mut is_ours = false;
    let mut scenario = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start();
        let name = trimmed.trim_start_matches('[').trim_start();
        // A line in brackets is a header only if it has a possible name; an array over several lines has values or
        // another bracket.
        let fits = |c: char| c.is_ascii_alphanumeric() || "_-.\"' ".contains(c);
        let is_header = trimmed.starts_with('[')
            && name
                .split_once(']')
                .is_some_and(|(name, _)| name.chars().all(fits));
        if is_header {
            let name = name.split([']', '.']).next().unwrap_or_default().trim();
            is_ours = name == super::read::TABLE;
        }
        scenario += match is_ours {
            true if line.ends_with('\n') => "\n",
            true => "",
            false => line,
        };
    }
    scenario
}

/// The values of a cell, by the names of their coordinates.
pub(super) type Values = [(&'static str, Value)];

/// A scenario that is the same for all cells, except for its placeholders.
pub(super) struct Template {
    /// Its name in errors.
    pub(super) file: String,
    pub(super) text: String,
    pub(super) files: Files,
}

impl Template {
    /// Returns the scenario of a cell.
    pub(super) fn filled(&self, values: &Values) -> Result<Scenario, Mistake> {
        let text = fill(&self.text, values);
        let mut scenario = Scenario::parse_with(&self.file, &text, &self.files)?;
        for (name, value) in values {
            if let Some(key) = name.strip_prefix(SETTINGS) {
                scenario.settings.push((key.to_owned(), value.plain()));
            }
        }
        Ok(scenario)
    }

    /// Checks that every placeholder is the name of a coordinate.
    pub(super) fn check_blanks(&self, known: &[&str]) -> Result<(), Mistake> {
        let unknown = |(_, name): &(usize, &str)| !known.contains(name);
        let Some((at, name)) = blanks(&self.text).find(unknown) else {
            return Ok(());
        };
        Err(Mistake {
            file: self.file.clone(),
            line: self.text[..at].matches('\n').count() + 1,
            key: String::new(),
            what: match nearest(name, known) {
                Some(meant) => {
                    format!("`{{{name}}}`: no such coordinate; did you mean `{{{meant}}}`?")
                }
                None => format!("`{{{name}}}`: the grid has no such coordinate"),
            },
        })
    }

    /// Returns whether a coordinate has any effect.
    pub(super) fn has(&self, name: &str) -> bool {
        name.starts_with(SETTINGS) || blanks(&self.text).any(|(_, blank)| blank == name)
    }
}

/// Checks that a setting accepts a value.
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

/// Returns the positions of placeholders, and their names. An inline table of TOML is none, because it has an equals
/// sign.
fn blanks(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    text.match_indices('{').filter_map(move |(at, _)| {
        let (name, _) = text[at + 1..].split_once('}')?;
        let is_blank = !name.is_empty() && name.chars().all(is_name);
        // Placeholders in comments are ignored; `#` within quotes does not begin a comment.
        let line = text[..at].rsplit('\n').next().unwrap_or_default();
        let comment = line.match_indices('#').any(|(at, _)| {
            let quotes = |quote: char| line[..at].matches(quote).count() % 2;
            quotes('"') == 0 && quotes('\'') == 0
        });
        (is_blank && !comment).then_some((at, name))
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
    fn the_experiments_lines_are_cut_and_the_others_keep_their_numbers() {
        let text = "# {x}\n[experiment]\nx = [\n 1,\n]\n[experiment.grid]\nloss = 1\n[scenario]\na = '{loss}'\n\
                    [[ experiment.claim ]]\ntext = '{loss}'\n[[fault]]\ngroups = [\n[\"a\"],\n]\n";
        let expected =
            "# {x}\n\n\n\n\n\n\n[scenario]\na = '{loss}'\n\n\n[[fault]]\ngroups = [\n[\"a\"],\n]\n";
        assert_eq!(scenario_of(text), expected);
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
