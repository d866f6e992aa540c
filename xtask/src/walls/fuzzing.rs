//! The fuzz targets: their list, and the rule that `cargo test` replays each (fuzz/README.md).
//!
//! ```text
//!   fuzz/src/targets/wire.rs     one file per crate: bodies, and TARGETS with their names
//!   fuzz/src/targets/wire/…      parts of that file
//!   fuzz/src/lib.rs              lists the files
//!   fuzz/corpus/NAME/…           the inputs of one target
//!   crates/wire/tests/fuzz_replay.rs   runs the corpora in an ordinary test
//! ```

use super::{Finding, Tree};

const TARGETS: &str = "fuzz/src/targets";

/// The name of every target, sorted.
pub(crate) fn target_names(tree: &Tree) -> Vec<String> {
    let mut names: Vec<String> = target_files(tree)
        .flat_map(|(path, _)| names_in(tree, path))
        .map(|(name, _)| name)
        .collect();
    names.sort();
    names
}

/// A file of targets is listed and replayed, a target has a corpus, and a corpus has a target.
pub(super) fn fuzzing(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let list = tree.text("fuzz/src/lib.rs").unwrap_or_default();
    for (path, name) in target_files(tree) {
        if !list.contains(&format!("targets::{name}::TARGETS")) {
            findings.push(Finding::error(
                path,
                1,
                "fuzzing",
                format!("add `targets::{name}::TARGETS` to the list in fuzz/src/lib.rs"),
            ));
        }
        let replay = format!("crates/{name}/tests/fuzz_replay.rs");
        let replayed = tree.text(&replay).unwrap_or_default();
        if !replayed.contains(&format!("{TARGETS}/{name}.rs")) {
            findings.push(Finding::error(
                path,
                1,
                "fuzzing",
                format!("add {replay}, which replays these corpora (fuzz/README.md has its text)"),
            ));
        }
        for (target, line) in names_in(tree, path) {
            if !tree.has(&format!("fuzz/corpus/{target}")) {
                findings.push(Finding::error(
                    path,
                    line,
                    "fuzzing",
                    format!("add at least one input for `{target}` to fuzz/corpus/{target}"),
                ));
            }
        }
    }
    let names = target_names(tree);
    for path in tree.below("fuzz/corpus") {
        let folder = path
            .trim_start_matches("fuzz/corpus/")
            .split('/')
            .next()
            .unwrap_or_default();
        if !names.iter().any(|name| name == folder) {
            findings.push(Finding::error(
                path,
                1,
                "fuzzing",
                format!(
                    "no target is called `{folder}`: add it to {TARGETS}, or remove the corpus"
                ),
            ));
        }
    }
    findings
}

/// Returns the path of each file of targets, and the crate that it belongs to. Files in folders are parts of them.
fn target_files(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.below(TARGETS).filter_map(|path| {
        let name = path
            .strip_prefix(TARGETS)?
            .trim_start_matches('/')
            .strip_suffix(".rs")?;
        (!name.contains('/')).then_some((path, name))
    })
}

/// Returns the names in a file's `TARGETS: … = &[("name", body), …];`, with their lines.
fn names_in(tree: &Tree, path: &str) -> Vec<(String, usize)> {
    let text = tree.text(path).unwrap_or_default();
    let Some(start) = text.find("const TARGETS") else {
        return Vec::new();
    };
    let end = text[start..]
        .find(';')
        .map_or(text.len(), |length| start + length);
    let mut names = Vec::new();
    for (at, _) in text[start..end].match_indices("(\"") {
        let at = start + at + 2;
        if let Some((name, _)) = text[at..end].split_once('"') {
            names.push((name.to_owned(), 1 + text[..at].matches('\n').count()));
        }
    }
    names
}
