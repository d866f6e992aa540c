//! `cargo xtask walls`: enforces the walls of the design by a tool instead of by prose.
//!
//! ```text
//!   repository --read--> Tree --rules--> findings --print--> file:line: [rule] what; what to do
//! ```
//!
//! A rule is a function from a [`Tree`] to [`Finding`]s. It sees only text, so that its tests can
//! build a bad tree in memory and assert that the rule fires.

mod crates;
pub(crate) mod fuzzing;

mod prose;
mod purity;
mod source;
mod table;
mod text;
mod tree;

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;

pub(crate) use tree::Tree;

use crate::Outcome;

/// Reads the repository, checks every rule and prints the findings.
pub(crate) fn run(root: &Path) -> Outcome {
    let tree = match Tree::read(root) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("walls: cannot read the repository: {error}");
            return Outcome::Failed;
        }
    };
    let findings = check(&tree);
    let errors = findings
        .iter()
        .filter(|found| found.severity == Severity::Error)
        .count();
    for found in &findings {
        println!("{found}");
    }
    println!(
        "walls: {} files, {errors} errors, {} warnings",
        tree.len(),
        findings.len() - errors
    );
    if errors == 0 {
        Outcome::Done
    } else {
        Outcome::Failed
    }
}

/// Checks every rule on one tree. Returns the findings in the order of the files.
fn check(tree: &Tree) -> Vec<Finding> {
    let rules: [fn(&Tree) -> Vec<Finding>; 18] = [
        crates::edges,
        crates::externals,
        crates::manifests,
        crates::clippy_files,
        crates::unsafe_code,
        purity::purity,
        text::length,
        text::names,
        text::leftovers,
        text::citations,
        text::machine_paths,
        text::links,
        text::lock,
        text::foreign,
        text::laboratory,
        text::verdicts,
        prose::comments,
        fuzzing::fuzzing,
    ];
    let mut findings: Vec<Finding> = rules.iter().flat_map(|rule| rule(tree)).collect();
    findings.sort_by(|a, b| (&a.file, a.line, a.rule).cmp(&(&b.file, b.line, b.rule)));
    findings
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    Warning,
    Error,
}

/// One place where the repository breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    file: String,
    /// The line, counted from 1.
    line: usize,
    rule: &'static str,
    severity: Severity,
    /// What is wrong, and what to do.
    text: String,
}

impl Finding {
    fn error(file: &str, line: usize, rule: &'static str, text: impl Into<String>) -> Finding {
        Finding {
            file: file.to_owned(),
            line,
            rule,
            severity: Severity::Error,
            text: text.into(),
        }
    }

    fn warning(file: &str, line: usize, rule: &'static str, text: impl Into<String>) -> Finding {
        Finding {
            severity: Severity::Warning,
            ..Finding::error(file, line, rule, text)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding {
            file,
            line,
            rule,
            severity,
            text,
        } = self;
        let note = if *severity == Severity::Warning {
            "warning: "
        } else {
            ""
        };
        write!(f, "{file}:{line}: {note}[{rule}] {text}")
    }
}
