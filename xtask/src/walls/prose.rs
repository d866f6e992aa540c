//! Rules about sentences in comments. `docs/style.md` has the rules for people; a program can hold only a few of them.

use super::source::Source;
use super::{Finding, Tree};

/// Words with which a sentence begins that has its verb at the end, or none. [docs/style.md, rule 4]
const OPENINGS: &[&str] = &[
    "Of", "So far", "So long", "So many", "So much", "So often", "Who", "Whoever", "Whose",
];

/// A comment begins with a subject, a verb, or the name of a thing.
pub(super) fn comments(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".rs")) {
        let comments = Source::parse(text).comments;
        let (mut begins, mut is_example) = (true, false);
        for (at, line) in comments.lines().enumerate() {
            let Some(said) = line.trim().strip_prefix("//") else {
                (begins, is_example) = (true, false);
                continue;
            };
            let said = said.trim_start_matches(['/', '!']).trim();
            if said.starts_with("```") {
                is_example = !is_example;
            }
            // "Of 50 packets, 21 arrive" has both.
            let said = if said.contains(", ") {
                said.trim_start_matches("Of ")
            } else {
                said
            };
            let opening = OPENINGS.iter().find(|opening| opens(said, opening));
            if let Some(opening) = opening.filter(|_| begins && !is_example) {
                let what =
                    format!("a sentence begins with `{opening}`: give it a subject and a verb");
                findings.push(Finding::error(path, at + 1, "comments", what));
            }
            // The next line continues the sentence, unless this one ends it or is no prose.
            begins = said.is_empty() || said.ends_with(['.', ':', '`', '!']);
        }
    }
    findings
}

/// Whether `said` begins with the word or words of `opening`, and something follows.
fn opens(said: &str, opening: &str) -> bool {
    said.strip_prefix(opening)
        .is_some_and(|rest| rest.starts_with(' '))
}
