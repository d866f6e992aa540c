//! Engines are sans-IO: their code does not even name what it must not use.
//!
//! clippy.toml bans calls and types with the compiler's knowledge. This rule bans the *names*, also
//! in code that a `cfg` hides from clippy, and the attributes that would silence clippy.

use super::source::Source;
use super::table::{Side, WALLS};
use super::{Finding, Tree};

/// A name that an engine must not use, and what to do instead.
struct Banned {
    name: &'static str,
    instead: &'static str,
}

/// Modules of `std`.
const MODULES: &[Banned] = &[
    banned("env", "take the configuration as a value"),
    banned(
        "fs",
        "take and return bytes; `host` and `lab` have the files",
    ),
    banned(
        "net",
        "sockets live in `net`; for addresses use `core::net`",
    ),
    banned("os", "the system is reached through `net`"),
    banned(
        "process",
        "return an error; only the binary ends or starts a process",
    ),
    banned(
        "thread",
        "one thread owns the engine; `host` or `lab` runs it",
    ),
    banned(
        "time",
        "take `now: base::Time`; for spans `core::time::Duration`",
    ),
];

const MACROS: &[Banned] = &[
    banned("dbg!", "report a typed event, or remove it"),
    banned("eprint!", "report a typed event"),
    banned("eprintln!", "report a typed event"),
    banned("print!", "report a typed event"),
    banned("println!", "report a typed event"),
    banned("thread_local!", "keep the state in the engine"),
];

/// The names that a test may use in order to print.
const PRINTING: &[&str] = &["clippy::disallowed_macros", "eprintln!", "println!"];

const NAMES: &[Banned] = &[
    banned("WavReader::open", "take the bytes: `WavReader::new`"),
    banned("WavWriter::create", "return the bytes: `WavWriter::new`"),
    banned("OsRng", "take a seed or `base::Rng`"),
    banned("RandomState", "use `base::Map`, whose hasher is fixed"),
    banned("SystemRandom", "take the entropy as an argument"),
    banned(
        "clippy::disallowed_macros",
        "the wall has no gate: do it outside",
    ),
    banned(
        "clippy::disallowed_methods",
        "the wall has no gate: do it outside",
    ),
    banned(
        "clippy::disallowed_types",
        "the wall has no gate: do it outside",
    ),
    banned("from_entropy", "take a seed or `base::Rng`"),
    banned("from_os_rng", "take a seed or `base::Rng`"),
    banned("getrandom", "take a seed or `base::Rng`"),
    banned("thread_rng", "take a seed or `base::Rng`"),
];

const fn banned(name: &'static str, instead: &'static str) -> Banned {
    Banned { name, instead }
}

/// No engine names a socket, clock, thread, file, environment, terminal or global randomness.
pub(super) fn purity(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for wall in WALLS.iter().filter(|wall| wall.side == Side::Engine) {
        for path in tree.below(&format!("crates/{}", wall.name)) {
            if !path.ends_with(".rs") {
                continue;
            }
            let source = Source::parse(tree.text(path).unwrap_or_default());
            // Integration tests are programs of their own, and may print measurements.
            let is_test = path.starts_with(&format!("crates/{}/tests/", wall.name));
            for (line, text) in impurities(&source.code, is_test) {
                findings.push(Finding::error(path, line, "purity", text));
            }
        }
    }
    findings
}

/// Returns the line and the text of each banned name in code without comments and literals. A test
/// may print.
fn impurities(code: &str, may_print: bool) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, line) in code.lines().enumerate() {
        for banned in MACROS.iter().chain(NAMES) {
            let is_printing = PRINTING.contains(&banned.name);
            if names(line, banned.name) && !(may_print && is_printing) {
                found.push((
                    at + 1,
                    format!("no `{}` in an engine: {}", banned.name, banned.instead),
                ));
            }
        }
    }
    for (at, module) in std_modules(code) {
        if let Some(banned) = MODULES.iter().find(|banned| banned.name == module) {
            let line = 1 + code[..at].bytes().filter(|&b| b == b'\n').count();
            found.push((
                line,
                format!("no `std::{module}` in an engine: {}", banned.instead),
            ));
        }
    }
    found
}

/// Returns whether `line` contains `name` as whole words.
fn names(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + name.len()..].chars().next();
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !is_word(before) && (name.ends_with('!') || !is_word(after))
    })
}

/// Returns the positions and names of `std`'s modules in code: `std::fs` and each of `std::{fs,
/// net::X}`.
fn std_modules(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("std::") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let start = at + "std::".len();
        if code[start..].starts_with('{') {
            found.extend(heads_of_group(code, start + 1));
        } else {
            found.push((at, word(&code[start..])));
        }
    }
    found
}

/// Returns the first word of each item of a `{…}` group whose inside begins at `start`.
fn heads_of_group(code: &str, start: usize) -> Vec<(usize, &str)> {
    let mut heads = Vec::new();
    let mut depth = 0;
    let mut expects_head = true;
    for (offset, c) in code[start..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => expects_head = true,
            c if expects_head && !c.is_whitespace() => {
                heads.push((start + offset, word(&code[start + offset..])));
                expects_head = false;
            }
            _ => {}
        }
    }
    heads
}

fn word(text: &str) -> &str {
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    &text[..end]
}
