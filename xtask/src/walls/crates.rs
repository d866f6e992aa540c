//! Rules about crates: edges, external dependencies, manifests, clippy files, `unsafe`.

use toml::{Table, Value};

use super::source::Source;
use super::table::{ENGINE_EXTERNALS, ENGINE_TEST_EXTERNALS, Side, Unsafe, WALLS, Wall};
use super::{Finding, Tree};

/// Arrows point down only: a crate depends only on the crates that the table of walls permits.
pub(super) fn edges(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for_each_wall(tree, |wall, manifest| {
        let may_use = wall.may_use();
        for dependency in manifest.dependencies() {
            let Some(other) = Wall::of(&dependency.package) else {
                continue;
            };
            let for_tests = dependency.of_tests && wall.tests_may_use().contains(&other.name);
            if !may_use.contains(&other.name) && !for_tests {
                let whom = if may_use.is_empty() {
                    "nothing".to_owned()
                } else {
                    may_use.join(", ")
                };
                findings.push(manifest.error(
                    &dependency.key,
                    "edges",
                    format!(
                        "`{}` may not depend on `{}` (it may on {whom}): move what you need down, \
                         or bring the two together above both",
                        wall.name, other.name
                    ),
                ));
            }
        }
    });
    findings
}

/// An external crate of an engine must be pure, so it must be in the list.
pub(super) fn externals(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for_each_wall(tree, |wall, manifest| {
        if wall.side != Side::Engine {
            return;
        }
        for dependency in manifest.dependencies() {
            let name = dependency.package.as_str();
            let listed = ENGINE_EXTERNALS.iter().any(|external| {
                external.name == name
                    && (external.only.is_empty() || external.only.contains(&wall.name))
            });
            let for_tests = dependency.of_tests && ENGINE_TEST_EXTERNALS.contains(&name);
            if Wall::of(name).is_none() && !listed && !for_tests {
                findings.push(manifest.error(
                    &dependency.key,
                    "externals",
                    format!(
                        "the engine `{}` may not use `{name}`: do without, or, if it has no IO, \
                         clock or entropy of its own, add it to xtask/src/walls/table.rs",
                        wall.name
                    ),
                ));
            }
        }
    });
    findings
}

/// Every crate is in the table, has the name of its folder and obeys the lints of the workspace.
pub(super) fn manifests(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in tree.crates() {
        let path = format!("crates/{name}/Cargo.toml");
        if Wall::of(name).is_none() {
            findings.push(Finding::error(
                &path,
                1,
                "manifests",
                format!(
                    "`{name}` has no row in the table of walls: a crate exists only where a wall \
                     must be enforced; make it a module, or add the row to \
                     xtask/src/walls/table.rs"
                ),
            ));
        }
        match Manifest::read(tree, &path) {
            Err(finding) => findings.push(finding),
            Ok(manifest) => {
                let called = manifest
                    .table
                    .get("package")
                    .and_then(|package| package.get("name"));
                if called.and_then(Value::as_str) != Some(name) {
                    findings.push(manifest.error(
                        "name",
                        "manifests",
                        format!("call the package `{name}`, like its folder"),
                    ));
                }
                let lints = manifest
                    .table
                    .get("lints")
                    .and_then(|lints| lints.get("workspace"));
                if lints.and_then(Value::as_bool) != Some(true) {
                    findings.push(manifest.error(
                        "[lints]",
                        "manifests",
                        "add `[lints]` with `workspace = true`",
                    ));
                }
            }
        }
    }
    findings
}

/// Engines use the strict clippy.toml of the root. The other crates have a looser one of their own.
pub(super) fn clippy_files(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for wall in present(tree) {
        let path = format!("crates/{}/clippy.toml", wall.name);
        match (wall.side, tree.has(&path)) {
            (Side::Engine, true) => findings.push(Finding::error(
                &path,
                1,
                "clippy-files",
                "it hides the strict clippy.toml of the root from an engine: remove it",
            )),
            (Side::Outer, false) => findings.push(Finding::error(
                &path,
                1,
                "clippy-files",
                "missing, so the rules of the engines apply here: copy crates/net/clippy.toml",
            )),
            _ => {}
        }
    }
    findings
}

/// `unsafe` is forbidden, except where the table of walls permits it.
pub(super) fn unsafe_code(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for wall in present(tree) {
        let src = format!("crates/{}/src", wall.name);
        let (wanted, modules) = match wall.may_unsafe {
            Unsafe::Forbidden => ("#![forbid(unsafe_code)]", &[][..]),
            Unsafe::In(modules) => ("#![deny(unsafe_code)]", modules),
            Unsafe::Free => continue,
        };
        for path in tree.below(&src).filter(|path| path.ends_with(".rs")) {
            let source = Source::parse(tree.text(path).unwrap_or_default());
            let code = source.code.as_str();
            let inside = path
                .strip_prefix(&src)
                .unwrap_or(path)
                .trim_start_matches('/');
            let is_root = matches!(inside, "lib.rs" | "main.rs") || inside.starts_with("bin/");
            if is_root && !code.contains(wanted) && !code.contains("#![forbid(unsafe_code)]") {
                findings.push(Finding::error(
                    path,
                    1,
                    "unsafe",
                    format!("add `{wanted}` below the header"),
                ));
            }
            if modules.iter().any(|&module| is_of_module(inside, module)) {
                continue;
            }
            for line in lifted_denials(code, modules) {
                findings.push(Finding::error(
                    path,
                    line,
                    "unsafe",
                    format!(
                        "`unsafe` has no place here: write it without, or move it to {}",
                        if modules.is_empty() {
                            "`base`'s pool or `net`".to_owned()
                        } else {
                            format!("the module `{}`", modules.join("` or `"))
                        }
                    ),
                ));
            }
        }
    }
    findings
}

/// Returns the lines with `allow(unsafe_code)`, except those that open one of `modules`.
fn lifted_denials(code: &str, modules: &[&str]) -> Vec<usize> {
    /// An attribute with a reason, formatted, and the line of the module.
    const LINES_TO_MODULE: usize = 6;
    let lines: Vec<&str> = code.lines().collect();
    let lifts = |line: &str| {
        line.contains("unsafe_code")
            && !["forbid(", "deny("]
                .iter()
                .any(|level| line.contains(level))
    };
    let opens = |line: &str| {
        modules
            .iter()
            .any(|module| line.trim_end().ends_with(&format!("mod {module};")))
    };
    (0..lines.len())
        .filter(|&at| lifts(lines[at]))
        .filter(|&at| {
            !lines[at..]
                .iter()
                .take(LINES_TO_MODULE)
                .any(|line| opens(line))
        })
        .map(|at| at + 1)
        .collect()
}

/// Returns whether `pool.rs`, `pool/mod.rs` or `pool/slot.rs` belongs to the module `pool`.
fn is_of_module(inside: &str, module: &str) -> bool {
    inside
        .strip_prefix(module)
        .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// Returns the rows of the table whose crate exists. The table may contain crates that do not exist
/// yet.
fn present(tree: &Tree) -> impl Iterator<Item = &'static Wall> {
    WALLS
        .iter()
        .filter(|wall| tree.has(&format!("crates/{}/Cargo.toml", wall.name)))
}

fn for_each_wall(tree: &Tree, mut rule: impl FnMut(&Wall, &Manifest<'_>)) {
    for wall in present(tree) {
        // `manifests` reports an unreadable manifest once.
        if let Ok(manifest) = Manifest::read(tree, &format!("crates/{}/Cargo.toml", wall.name)) {
            rule(wall, &manifest);
        }
    }
}

/// A Cargo.toml, with its text for the line numbers.
struct Manifest<'a> {
    path: String,
    text: &'a str,
    table: Table,
    /// `[workspace.dependencies]` of the root.
    workspace: Table,
}

/// One entry of a `[dependencies]` section.
struct Dependency {
    /// The key in the manifest.
    key: String,
    /// The package, whatever its key is.
    package: String,
    of_tests: bool,
}

impl<'a> Manifest<'a> {
    fn read(tree: &'a Tree, path: &str) -> Result<Manifest<'a>, Finding> {
        let text = tree.text(path).unwrap_or_default();
        let table = text.parse::<Table>().map_err(|error| {
            let line = error.span().map_or(1, |span| line_at(text, span.start));
            let what = format!("not a manifest, {}: mend it", error.message());
            Finding::error(path, line, "manifests", what)
        })?;
        let workspace = tree
            .text("Cargo.toml")
            .and_then(|root| root.parse::<Table>().ok())
            .and_then(|root| {
                root.get("workspace")?
                    .get("dependencies")?
                    .as_table()
                    .cloned()
            })
            .unwrap_or_default();
        Ok(Manifest {
            path: path.to_owned(),
            text,
            table,
            workspace,
        })
    }

    /// Returns the dependencies of all kinds, also those of `[target.…]`.
    fn dependencies(&self) -> Vec<Dependency> {
        let targets = self.table.get("target").and_then(Value::as_table);
        let targets = targets
            .into_iter()
            .flatten()
            .filter_map(|(_, target)| target.as_table());
        let mut dependencies = Vec::new();
        for table in targets.chain([&self.table]) {
            for (kind, of_tests) in [
                ("dependencies", false),
                ("build-dependencies", false),
                ("dev-dependencies", true),
            ] {
                for (key, entry) in table
                    .get(kind)
                    .and_then(Value::as_table)
                    .into_iter()
                    .flatten()
                {
                    let package = self.package(key, entry);
                    dependencies.push(Dependency {
                        key: key.clone(),
                        package,
                        of_tests,
                    });
                }
            }
        }
        dependencies
    }

    /// Returns the package behind a key, here or in the workspace's table.
    fn package(&self, key: &str, entry: &Value) -> String {
        let inherited = entry.get("workspace").and_then(|_| self.workspace.get(key));
        inherited
            .unwrap_or(entry)
            .get("package")
            .and_then(Value::as_str)
            .unwrap_or(key)
            .to_owned()
    }

    /// An error at the first line that begins with `key`.
    fn error(&self, key: &str, rule: &'static str, text: impl Into<String>) -> Finding {
        let line = self.text.lines().position(|line| {
            let rest = line.trim_start().trim_start_matches('"').strip_prefix(key);
            rest.is_some_and(|rest| {
                !rest.starts_with(|c: char| c.is_alphanumeric() || "-_".contains(c))
            })
        });
        Finding::error(&self.path, line.map_or(1, |line| line + 1), rule, text)
    }
}

fn line_at(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|&b| b == b'\n').count()
}
