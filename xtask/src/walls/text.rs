//! Rules about text: length of files, names, leftovers, citations, paths, links, sources.

use super::source::Source;
use super::{Finding, Tree};

const LINES_WARN: usize = 800;
const LINES_FAIL: usize = 1200;

/// A file must be short enough to be read at once.
pub(super) fn length(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".rs")) {
        let lines = text.lines().count();
        let what = format!("{lines} lines, aim at 150 to 400: split it along its own headings");
        if lines > LINES_FAIL {
            findings.push(Finding::error(path, LINES_FAIL, "length", what));
        } else if lines > LINES_WARN {
            findings.push(Finding::warning(path, LINES_WARN, "length", what));
        }
    }
    findings
}

/// Words that say nothing about a type or a module.
const EMPTY_WORDS: &[&str] = &[
    "common", "helper", "helpers", "manager", "misc", "util", "utils",
];

/// What may follow `get_`, by the conventions of the standard library.
const GET_ALLOWED: &[&str] = &[
    "get_mut",
    "get_or_init",
    "get_or_insert",
    "get_or_insert_with",
];

/// Modules and types have the terms of the field as names, without `get_`.
pub(super) fn names(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".rs")) {
        let in_path = path
            .trim_end_matches(".rs")
            .split('/')
            .find(|part| is_empty_name(part));
        if let Some(part) = in_path {
            findings.push(Finding::error(path, 1, "names", name_advice(part)));
        }
        for (at, line) in Source::parse(text).code.lines().enumerate() {
            let words: Vec<&str> = line
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .collect();
            for pair in words.windows(2) {
                let (keyword, name) = (pair[0], pair[1]);
                let is_type = matches!(keyword, "mod" | "struct" | "enum" | "trait" | "type");
                if is_type && is_empty_name(name) {
                    findings.push(Finding::error(path, at + 1, "names", name_advice(name)));
                }
                if keyword == "fn" && name.starts_with("get_") && !GET_ALLOWED.contains(&name) {
                    let better = name.trim_start_matches("get_");
                    let what = format!("`{name}`: drop the `get_`, call it `{better}`");
                    findings.push(Finding::error(path, at + 1, "names", what));
                }
            }
        }
    }
    findings
}

fn is_empty_name(name: &str) -> bool {
    words_of(name)
        .iter()
        .any(|word| EMPTY_WORDS.contains(&word.as_str()))
}

fn name_advice(name: &str) -> String {
    format!("`{name}` says nothing: name it by what it holds or does")
}

/// Splits a name into words: `PeerManager` and `peer_manager` are `peer` and `manager`.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        if c == '_' || c == '-' || c.is_uppercase() {
            words.push(String::new());
        }
        if c.is_alphanumeric() {
            words
                .last_mut()
                .expect("it began with one word")
                .extend(c.to_lowercase());
        }
    }
    words
}

/// Finds unfinished work in code and comments of Rust, and in every line of other text.
pub(super) fn leftovers(tree: &Tree) -> Vec<Finding> {
    const ADVICE: &str = "finish it, or open an issue and say in the text what is not there";
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        let (code, prose) = if path.ends_with(".rs") {
            let source = Source::parse(text);
            (source.code, source.comments)
        } else {
            (String::new(), text.to_owned())
        };
        for (at, line) in prose.lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if let Some(word) = words.find(|word| ["FIXME", "TODO", "XXX"].contains(word)) {
                let what = format!("`{word}`: {ADVICE}");
                findings.push(Finding::error(path, at + 1, "leftovers", what));
            }
        }
        for (at, line) in code.lines().enumerate() {
            for word in ["todo!", "unimplemented!"] {
                if line.contains(word) {
                    let what = format!("`{word}`: {ADVICE}");
                    findings.push(Finding::error(path, at + 1, "leftovers", what));
                }
            }
        }
    }
    findings
}

/// The papers, by their keys.
const PAPERS: &[&str] = &[
    "Amir03",
    "Amir06",
    "Babay17",
    "Brogle09",
    "Liu04",
    "Papadimitriou06",
];

/// A citation like `[Amir06 §IV-A]` names one of the papers.
pub(super) fn citations(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        let prose = if path.ends_with(".rs") {
            Source::parse(text).comments
        } else if path.ends_with(".md") {
            text.to_owned()
        } else {
            continue;
        };
        for (at, line) in prose.lines().enumerate() {
            for key in cited_keys(line) {
                if !PAPERS.contains(&key) {
                    let what = format!("no paper `{key}`; the keys are {}", PAPERS.join(", "));
                    findings.push(Finding::error(path, at + 1, "citations", what));
                }
            }
        }
    }
    findings
}

/// Returns every key in brackets on a line: of `[Amir06 §III, Amir03 §IV]`, both.
fn cited_keys(line: &str) -> impl Iterator<Item = &str> {
    line.split('[')
        .skip(1)
        .filter_map(|rest| rest.split_once(']').map(|(inside, _)| inside))
        .flat_map(|inside| inside.split([',', ';']))
        .filter_map(|part| part.split_whitespace().next())
        .filter(|key| is_citation_key(key))
}

/// Returns true for a surname and two digits of a year, in any case: `Amir06`, and the mistake `amir06`.
fn is_citation_key(key: &str) -> bool {
    let name = key.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_surname = name.chars().skip(1).all(|c| c.is_ascii_lowercase())
        && name.starts_with(|c: char| c.is_ascii_uppercase());
    let is_slip = PAPERS.iter().any(|paper| paper.eq_ignore_ascii_case(key));
    key.len() == name.len() + 2 && (is_surname && name.len() > 2 || is_slip)
}

/// Folders that exist only on one developer's machine, without the slashes around them.
const MACHINE_FOLDERS: &[&str] = &["work", "root", "tmp/target"];

/// The repository must work wherever it is cloned.
pub(super) fn machine_paths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        for (at, line) in text.lines().enumerate() {
            for folder in MACHINE_FOLDERS {
                if holds_absolute(line, folder) {
                    let what = format!(
                        "`/{folder}` is a folder of one machine: write a path relative to the \
                         repository, or a placeholder"
                    );
                    findings.push(Finding::error(path, at + 1, "machine-paths", what));
                }
            }
        }
    }
    findings
}

/// Returns whether `line` contains the absolute path of `folder`, or of something in it.
fn holds_absolute(line: &str, folder: &str) -> bool {
    line.match_indices(&format!("/{folder}"))
        .any(|(at, found)| {
            let before = line[..at].chars().next_back();
            let after = line[at + found.len()..].chars().next();
            let begins = !before.is_some_and(|c| c.is_alphanumeric() || "._-*/}".contains(c));
            // A longer name below `/tmp` counts as well. `/working` does not count, nor does a bare `/work`.
            let goes_on = after == Some('/') || folder.contains('/');
            begins && goes_on
        })
}

/// A link in a document must lead to a file of the repository.
pub(super) fn links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut in_code = false;
        for (at, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
            }
            if in_code {
                continue;
            }
            for link in links_of(line) {
                let target = link.split('#').next().unwrap_or_default();
                if target.is_empty() || target.contains(':') {
                    continue;
                }
                let found = resolve(folder, target).is_some_and(|target| tree.has(&target));
                if !found {
                    let what = format!("`{target}` does not exist: mend the link");
                    findings.push(Finding::error(path, at + 1, "links", what));
                }
            }
        }
    }
    findings
}

/// Returns the targets of `[text](target "title")` and `[name]: target`, outside `code`.
fn links_of(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    if line.starts_with('[')
        && let Some((_, target)) = line.split_once("]: ")
    {
        found.extend(target.split_whitespace().next());
    }
    for (at, _) in line.match_indices("](") {
        let is_code = line[..at].matches('`').count() % 2 == 1;
        let inside = line[at + 2..].split(')').next().unwrap_or_default();
        if !is_code {
            found.extend(inside.split_whitespace().next());
        }
    }
    found
}

/// Returns the path from the root, or `None` if it leads out of the repository.
fn resolve(folder: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    if target.starts_with('/') {
        parts.clear();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Every locked package must come from the public registry.
pub(super) fn lock(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree
        .texts()
        .filter(|(path, _)| path.ends_with("Cargo.lock"))
    {
        for (at, line) in text.lines().enumerate() {
            let source = line
                .strip_prefix("source = \"")
                .map(|rest| rest.trim_end_matches('"'));
            if let Some(source) = source.filter(|source| *source != REGISTRY) {
                let what = format!("`{source}`: use a release from crates.io");
                findings.push(Finding::error(path, at + 1, "lock", what));
            }
        }
    }
    findings
}

/// Most third-party packages in the lock file, including those of tests and of other systems. The number may only fall:
/// a new package replaces an old one, or comes with a reason to raise this number. The last such package was
/// `multiversion`, which selects vector instructions at run time, so that engines need no `unsafe` of their own for it.
pub(super) const FOREIGN_MAX: usize = 210;

/// The number of third-party packages must not grow.
pub(super) fn foreign(tree: &Tree) -> Vec<Finding> {
    let locked = tree.texts().find(|(path, _)| *path == "Cargo.lock");
    let count = locked.map_or(0, |(_, text)| foreign_of(text));
    let what = format!("{count} third-party packages, {FOREIGN_MAX} at most: do without one");
    let finding = || Finding::error("Cargo.lock", 1, "foreign", what);
    (count > FOREIGN_MAX).then(finding).into_iter().collect()
}

/// Counts the third-party packages in a lock file.
pub(super) fn foreign_of(lock: &str) -> usize {
    let lines = lock.lines();
    lines.filter(|line| line.starts_with("source = ")).count()
}

/// The commands that belong to the laboratory; `lib.rs` names the module of one of them.
const LABORATORY: &[&str] = &["bench", "demo", "lab", "lib", "record", "sim"];

/// No other command may depend on the laboratory: it uses `tools`, or crates below.
pub(super) fn laboratory(tree: &Tree) -> Vec<Finding> {
    const COMMANDS: &str = "crates/sinew/src/";
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        let Some(command) = path.strip_prefix(COMMANDS) else {
            continue;
        };
        let name = command.split(['/', '.']).next().unwrap_or_default();
        if LABORATORY.contains(&name) {
            continue;
        }
        let code = Source::parse(text).code;
        for (at, line) in code.lines().enumerate() {
            if names_laboratory(line) {
                let what =
                    "the laboratory is a leaf: take it from `tools`, or move it there".to_owned();
                findings.push(Finding::error(path, at + 1, "laboratory", what));
            }
        }
    }
    findings
}

/// Returns true if the line names the laboratory: by a path into it, also from the root, or by another name for it.
fn names_laboratory(line: &str) -> bool {
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let is_lab = |word: &str| word.trim_start_matches("::") == "lab";
    let is_within = |word: &&str| word.trim_start_matches("::").starts_with("lab::");
    let is_renamed = words.windows(2).any(|pair| {
        (matches!(pair[0], "use" | "crate") && is_lab(pair[1]))
            || (is_lab(pair[0]) && pair[1] == "as")
    });
    words.iter().any(is_within) || is_renamed
}

/// The file that makes the laboratory's verdicts. Only there may a verdict hold without a measurement.
const VERDICTS: &str = "crates/lab/src/experiment/mod.rs";

/// A verdict must come from a measurement: a fixed verdict would hold whatever happens.
pub(super) fn verdicts(tree: &Tree) -> Vec<Finding> {
    const OPENS: &str = "Verdict::of(";
    /// The calls that do not compare the run's own parameters with the paper's.
    const NO_SETUP: [&str; 3] = [
        "Verdict::of(",
        "Verdict::by_construction(",
        "Verdict::made(",
    ];
    let mut findings = Vec::new();
    let of_lab = |path: &str| path.starts_with("crates/lab/src/") && path != VERDICTS;
    for (path, text) in tree.texts().filter(|(path, _)| of_lab(path)) {
        let code = Source::parse(text).code;
        for (at, _) in code.match_indices(OPENS) {
            let mut arguments = code[at + OPENS.len()..].split(',');
            let decides = arguments.nth(1).unwrap_or_default();
            let decides = decides.trim().trim_end_matches(')');
            if matches!(decides, "true" | "false") {
                let line = code[..at].lines().count();
                let what = format!(
                    "a verdict that is `{decides}` whatever is measured: compare, or say `by_construction`, `setup` or `untested`"
                );
                findings.push(Finding::error(path, line, "verdicts", what));
            }
        }
        // The claim's name is a literal. It is blank in `code`, but has the same position in the text.
        for opens in NO_SETUP {
            for (at, _) in code.match_indices(opens) {
                let from = code[..at + opens.len()].chars().count();
                let argument = text.chars().skip(from).skip_while(|c| c.is_whitespace());
                if argument.take(6).eq("\"setup".chars()) {
                    let line = code[..at].lines().count();
                    let what = "how the experiment is made is compared with the paper's parameters by `setup`";
                    findings.push(Finding::error(path, line, "verdicts", what));
                }
            }
        }
    }
    findings
}
