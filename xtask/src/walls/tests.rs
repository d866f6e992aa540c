//! Every rule fires on a bad sample, and does not fire on a good one.

use super::text::{FOREIGN_MAX, foreign_of};
use super::{Finding, Severity, Tree, check};

/// Returns the rules and lines that fire in one file.
fn fired(tree: &Tree, file: &str) -> Vec<(&'static str, usize)> {
    let findings = check(tree);
    findings
        .iter()
        .filter(|found| found.file == file)
        .map(|found| (found.rule, found.line))
        .collect()
}

/// Returns what fires if a single file is added to a sound crate of each kind.
fn fired_in(path: &str, text: &str) -> Vec<(&'static str, usize)> {
    let files = sound_files();
    let files = files
        .each_ref()
        .map(|(path, text)| (path.as_str(), text.as_str()));
    let [a, b, c, d, e, f] = files;
    fired(&Tree::of([a, b, c, d, e, f, (path, text)]), path)
}

fn manifest(name: &str, dependencies: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\n\n[lints]\nworkspace = true\n\n[dependencies]\n{dependencies}"
    )
}

/// Makes an engine, `wire`, and an outer crate, `host`.
fn sound_files() -> [(String, String); 6] {
    let lib = "//! It.\n#![forbid(unsafe_code)]\n";
    [
        (
            "crates/wire/Cargo.toml",
            manifest("wire", "base.workspace = true\n"),
        ),
        ("crates/wire/src/lib.rs", lib.to_owned()),
        (
            "crates/host/Cargo.toml",
            manifest("host", "net.workspace = true\n"),
        ),
        ("crates/host/src/lib.rs", lib.to_owned()),
        ("crates/host/clippy.toml", String::new()),
        (
            "docs/a.md",
            "See [b](../crates/wire/src/lib.rs#l1), [c](https://example.org/x).\n".into(),
        ),
    ]
    .map(|(path, text)| (path.to_owned(), text))
}

#[test]
fn a_sound_tree_has_no_findings() {
    assert_eq!(
        check(&Tree::of(
            sound_files()
                .each_ref()
                .map(|(p, t)| (p.as_str(), t.as_str()))
        )),
        []
    );
}

#[test]
fn an_edge_upwards_is_an_error_at_its_line() {
    let text = manifest("wire", "base.workspace = true\noverlay.workspace = true\n");
    assert_eq!(fired_in("crates/wire/Cargo.toml", &text), [("edges", 9)]);
    let tree = Tree::of([("crates/wire/Cargo.toml", &text)]);
    let shown = check(&tree)[0].to_string();
    assert!(
        shown.starts_with("crates/wire/Cargo.toml:9: [edges] `wire` may not"),
        "{shown}"
    );
}

#[test]
fn no_way_around_the_edges() {
    for dependencies in [
        "[build-dependencies]\nhost = { path = \"../host\" }\n",
        "[target.'cfg(unix)'.dependencies]\nnet.workspace = true\n",
        "[dependencies]\ninnocent = { package = \"net\", path = \"../net\" }\n",
        "[dev-dependencies]\nhost.workspace = true\n",
        "[dependencies.host]\nworkspace = true\n",
    ] {
        let text = manifest("wire", "").replace("[dependencies]\n", dependencies);
        let rules = fired_in("crates/wire/Cargo.toml", &text);
        assert!(
            matches!(rules.as_slice(), [("edges", _)]),
            "{text}\n{rules:?}"
        );
    }
}

#[test]
fn a_rename_in_the_workspace_is_seen_through() {
    let root = "[workspace.dependencies]\nsockets = { package = \"net\", path = \"crates/net\" }\n";
    let crate_text = manifest("wire", "sockets.workspace = true\n");
    let tree = Tree::of([
        ("Cargo.toml", root),
        ("crates/wire/Cargo.toml", &crate_text),
    ]);
    assert_eq!(fired(&tree, "crates/wire/Cargo.toml"), [("edges", 8)]);
}

#[test]
fn tests_of_engines_may_use_the_simulator_and_the_engines_themselves_may_not() {
    let in_tests = manifest("wire", "\n[dev-dependencies]\nsim.workspace = true\n");
    assert_eq!(fired_in("crates/wire/Cargo.toml", &in_tests), []);
    let in_code = manifest("wire", "sim.workspace = true\n");
    assert_eq!(fired_in("crates/wire/Cargo.toml", &in_code), [("edges", 8)]);
    let outside = manifest("host", "\n[dev-dependencies]\nsim.workspace = true\n");
    assert_eq!(
        fired_in("crates/host/Cargo.toml", &outside),
        [("edges", 10)]
    );
}

#[test]
fn an_engine_uses_listed_external_crates_only() {
    for (name, count) in [
        ("tokio", 1),
        ("libc", 1),
        ("rand", 1),
        ("snow", 1),
        ("thiserror", 0),
    ] {
        let text = manifest("wire", &format!("{name} = \"1\"\n"));
        let expected = vec![("externals", 8); count];
        assert_eq!(
            fired_in("crates/wire/Cargo.toml", &text),
            expected,
            "{name}"
        );
    }
    // A crate for tests may be used only in tests. Outside the wall, every crate is permitted.
    let proptest = manifest("wire", "proptest = \"1\"\n");
    assert_eq!(
        fired_in("crates/wire/Cargo.toml", &proptest),
        [("externals", 8)]
    );
    let tests = manifest("wire", "\n[dev-dependencies]\nproptest = \"1\"\n");
    assert_eq!(fired_in("crates/wire/Cargo.toml", &tests), []);
    assert_eq!(
        fired_in(
            "crates/host/Cargo.toml",
            &manifest("host", "libc = \"0.2\"\n")
        ),
        []
    );
}

#[test]
fn a_manifest_is_in_the_table_well_named_and_linted() {
    assert_eq!(
        fired_in("crates/common/Cargo.toml", &manifest("common", "")),
        [("manifests", 1)]
    );
    let misnamed = manifest("wires", "");
    assert_eq!(
        fired_in("crates/wire/Cargo.toml", &misnamed),
        [("manifests", 2)]
    );
    assert_eq!(
        fired_in("crates/wire/Cargo.toml", "[package]\nname = \"wire\"\n"),
        [("manifests", 1)]
    );
    let broken = "[package]\nname = \"wire\"\n[lints\n";
    assert_eq!(
        fired_in("crates/wire/Cargo.toml", broken),
        [("manifests", 3)]
    );
}

#[test]
fn clippy_files_are_strict_inside_and_loose_outside() {
    assert_eq!(
        fired_in("crates/wire/clippy.toml", ""),
        [("clippy-files", 1)]
    );
    let text = manifest("host", "");
    let tree = Tree::of([("crates/host/Cargo.toml", &text)]);
    assert_eq!(
        fired(&tree, "crates/host/clippy.toml"),
        [("clippy-files", 1)]
    );
}

#[test]
fn unsafe_code_is_forbidden_at_every_root() {
    assert_eq!(
        fired_in("crates/wire/src/lib.rs", "//! It.\n"),
        [("unsafe", 1)]
    );
    assert_eq!(
        fired_in("crates/wire/src/lib.rs", "// #![forbid(unsafe_code)]\n"),
        [("unsafe", 1)]
    );
    assert_eq!(
        fired_in("crates/host/src/main.rs", "fn main() {}\n"),
        [("unsafe", 1)]
    );
    assert_eq!(
        fired_in("crates/host/src/bin/x.rs", "fn main() {}\n"),
        [("unsafe", 1)]
    );
    assert_eq!(fired_in("crates/wire/src/view.rs", "//! It.\n"), []);
}

#[test]
fn base_may_be_unsafe_in_its_pool_only() {
    let toml = manifest("base", "");
    let allowed = "//! It.\n#![allow(unsafe_code)]\n";
    let in_base = |lib: &str, other: &str| {
        let tree = Tree::of([
            ("crates/base/Cargo.toml", &toml),
            ("crates/base/src/lib.rs", lib),
            (other, allowed),
        ]);
        check(&tree)
            .into_iter()
            .map(|found| (found.file, found.line))
            .collect::<Vec<_>>()
    };
    let deny = "#![deny(unsafe_code)]\n";
    assert_eq!(in_base(deny, "crates/base/src/pool.rs"), []);
    assert_eq!(in_base(deny, "crates/base/src/pool/slot.rs"), []);
    assert_eq!(
        in_base(deny, "crates/base/src/time.rs"),
        [("crates/base/src/time.rs".to_owned(), 2)]
    );
    assert_eq!(
        in_base("", "crates/base/src/pool.rs"),
        [("crates/base/src/lib.rs".to_owned(), 1)]
    );
    let at_module = "#![deny(unsafe_code)]\n#[allow(unsafe_code)]\npub mod pool;\n";
    assert_eq!(in_base(at_module, "crates/base/src/pool.rs"), []);
    let at_other = "#![deny(unsafe_code)]\n#[allow(unsafe_code)]\npub mod time;\n";
    assert_eq!(
        in_base(at_other, "crates/base/src/pool.rs"),
        [("crates/base/src/lib.rs".to_owned(), 2)]
    );
}

#[test]
fn engines_name_nothing_impure() {
    for line in [
        "use std::net::UdpSocket;",
        "let now = std::time::Instant::now();",
        "use ::std::thread;",
        "let text = std::fs::read_to_string(path)?;",
        "let home = std::env::var(name);",
        "println!();",
        "eprintln!();",
        "let mut rng = rand::thread_rng();",
        "let rng = SystemRandom::new();",
        "#[allow(clippy::disallowed_types)]",
        "use std::{fmt, net::{IpAddr, Ipv4Addr}};",
    ] {
        let text = format!("//! It.\n{line}\n");
        assert_eq!(
            fired_in("crates/wire/src/view.rs", &text),
            [("purity", 2)],
            "{line}"
        );
        // The rules apply to a test as well, but it may print its measurements.
        let in_test = fired_in("crates/wire/tests/view.rs", &text);
        let prints = line.contains("println!");
        assert_eq!(in_test.is_empty(), prints, "{line}");
        assert_eq!(fired_in("crates/host/src/view.rs", &text), [], "{line}");
    }
    let group = "use std::{\n    fmt,\n    fs::File,\n    sync::Arc,\n    thread,\n};\n";
    assert_eq!(
        fired_in("crates/wire/src/view.rs", group),
        [("purity", 3), ("purity", 5)]
    );
}

#[test]
fn engines_may_speak_of_what_they_must_not_do() {
    for line in [
        "// No std::net here.",
        "const A: &str = \"std::fs\";",
        "use core::{net::Ipv4Addr, time::Duration};",
        "use std::{fmt::{self, Write}, sync::Arc};",
        "writeln!(out)?;",
        "use crate::time::Time; use self::net::X;",
    ] {
        assert_eq!(fired_in("crates/wire/src/view.rs", line), [], "{line}");
    }
}

#[test]
fn long_files_warn_and_then_fail() {
    let severities = |lines: usize| {
        let text = "//! It.\n".repeat(lines);
        let found = check(&Tree::of([("xtask/src/x.rs", &text)]));
        found
            .into_iter()
            .map(|found| (found.rule, found.severity))
            .collect::<Vec<_>>()
    };
    assert_eq!(severities(800), []);
    assert_eq!(severities(801), [("length", Severity::Warning)]);
    assert_eq!(severities(1200), [("length", Severity::Warning)]);
    assert_eq!(severities(1201), [("length", Severity::Error)]);
}

#[test]
fn empty_names_are_errors() {
    for line in [
        "pub struct PeerManager;",
        "mod utils;",
        "pub(crate) enum LinkHelper {}",
        "trait Common {}",
        "pub fn get_rate(&self) -> u64 { 0 }",
    ] {
        let text = format!("//! It.\n{line}\n");
        assert_eq!(
            fired_in("crates/host/src/x.rs", &text),
            [("names", 2)],
            "{line}"
        );
    }
    for line in [
        "fn get_mut() {}",
        "// the window manager",
        "struct Commonwealth;",
        "get_rate();",
    ] {
        assert_eq!(fired_in("crates/host/src/x.rs", line), [], "{line}");
    }
    assert_eq!(fired_in("crates/host/src/utils.rs", ""), [("names", 1)]);
    assert_eq!(
        fired_in("crates/host/src/link_helpers/x.rs", ""),
        [("names", 1)]
    );
}

#[test]
fn unfinished_work_is_an_error() {
    for (path, line) in [
        ("crates/host/src/x.rs", "// FIXME: later"),
        ("crates/host/src/x.rs", "/// XXX"),
        ("crates/host/src/x.rs", "fn f() { todo!() }"),
        ("crates/host/src/x.rs", "fn f() { unimplemented!() }"),
        ("docs/x.md", "TODO: describe"),
        ("check", "# FIXME"),
    ] {
        assert_eq!(fired_in(path, line), [("leftovers", 1)], "{line}");
    }
    assert_eq!(
        fired_in("crates/host/src/x.rs", "const A: &str = \"FIXME\";"),
        []
    );
}

#[test]
fn a_citation_names_a_paper_that_there_is() {
    for line in [
        "// [Amir05 §IV-A]",
        "//! x [Amir06 §III, Smith99 §2]",
        "// [amir06 §II]",
    ] {
        assert_eq!(
            fired_in("crates/host/src/x.rs", line),
            [("citations", 1)],
            "{line}"
        );
    }
    assert_eq!(
        fired_in("docs/x.md", "by loss [Liu05 §III]"),
        [("citations", 1)]
    );
    for line in [
        "// [Amir06 §IV-A], [Liu04 §III, Amir03 §IV]",
        "// RFC 3550 [RFC3550 §6.4], [G.107], [`Word16`]",
        "let a: [Word16; 4] = [x];",
    ] {
        assert_eq!(fired_in("crates/host/src/x.rs", line), [], "{line}");
    }
}

#[test]
fn paths_of_one_machine_are_errors() {
    for folder in ["work/x", "root/", "tmp/target-x"] {
        let line = format!("cd \"/{folder}\"");
        assert_eq!(fired_in("check", &line), [("machine-paths", 1)], "{line}");
        assert_eq!(
            fired_in("docs/x.md", &line),
            [("machine-paths", 1)],
            "{line}"
        );
    }
    for line in [
        "lab/work/x",
        "https://example.org/work/x",
        "/working/x",
        "/tmp/x",
        "as /root user",
    ] {
        assert_eq!(fired_in("check", line), [], "{line}");
    }
}

#[test]
fn links_lead_somewhere() {
    for line in [
        "[x](nowhere.md)",
        "[x](../../outside.md)",
        "[x]: nowhere.md",
        "![x](x.svg \"t\")",
    ] {
        assert_eq!(fired_in("docs/x.md", line), [("links", 1)], "{line}");
    }
    for line in [
        "[x](a.md#part), [y](#here), [z](mailto:a@b.c), [d](../crates/wire)",
        "`[x](nowhere.md)`",
        "```\n[x](nowhere.md)\n```",
        "[x]: a.md",
    ] {
        assert_eq!(fired_in("docs/x.md", line), [], "{line}");
    }
}

#[test]
fn packages_come_from_the_public_registry() {
    let text = "name = \"a\"\nsource = \"git+https://example.org/a#1\"\n";
    assert_eq!(fired_in("Cargo.lock", text), [("lock", 2)]);
}

#[test]
fn fuzz_targets_are_listed_replayed_and_fed() {
    let targets = "const TARGETS: &[(&str, fn(&[u8]))] = &[\n    (\"wire_a\", a),\n];\n";
    let list = "targets::wire::TARGETS";
    let replay = "#[path = \"../../../fuzz/src/targets/wire.rs\"]\nmod targets;\n";
    let rules = |list: &str, replay: &str, corpus: &str| {
        let tree = Tree::of([
            ("fuzz/src/lib.rs", list),
            ("fuzz/src/targets/wire.rs", targets),
            ("crates/wire/tests/fuzz_replay.rs", replay),
            (corpus, "x"),
        ]);
        let findings = check(&tree);
        let is_fuzzing = |found: &&Finding| found.rule == "fuzzing";
        findings
            .iter()
            .filter(is_fuzzing)
            .map(|found| found.line)
            .collect::<Vec<_>>()
    };
    assert!(rules(list, replay, "fuzz/corpus/wire_a/1").is_empty());
    assert_eq!(rules("", replay, "fuzz/corpus/wire_a/1"), [1]);
    assert_eq!(rules(list, "", "fuzz/corpus/wire_a/1"), [1]);
    assert_eq!(rules(list, replay, "README.md"), [2]);
    assert_eq!(rules(list, replay, "fuzz/corpus/wire_b/1"), [1, 2]);
}

#[test]
fn comments_have_sentences() {
    for comment in [
        "/// Of two the newer one counts.",
        "fn f() {} // Whoever asks is told.",
        "//! It sends. It waits.\n//! So long it waits.",
        "/// It sends.\n///\n/// Who asks.",
    ] {
        let at = comment.lines().count();
        assert_eq!(
            fired_in("crates/host/src/x.rs", comment),
            [("comments", at)]
        );
    }
    for comment in [
        "/// Offers the newer one.",
        "/// Of two, the newer one counts.",
        "/// Number of packets\n/// Of all links.",
        "/// ```text\n/// Of\n/// Of A\n/// ```",
        "const A: &str = \"Of one\";",
        "/// Who?",
    ] {
        let fired = fired_in("crates/host/src/x.rs", comment);
        assert_eq!(fired, [], "{comment}");
    }
}

#[test]
fn packages_of_others_become_no_more() {
    let most =
        "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n".repeat(FOREIGN_MAX);
    assert_eq!(fired_in("Cargo.lock", &most), []);
    let more = most.clone() + most.lines().next().unwrap() + "\n";
    assert_eq!(fired_in("Cargo.lock", &more), [("foreign", 1)]);
    // If a package is removed, the maximum must be lowered.
    let lock = include_str!("../../../Cargo.lock");
    assert_eq!(foreign_of(lock), FOREIGN_MAX);
}

#[test]
fn a_verdict_is_not_written_down() {
    let written = "fn f() {\n    let a = Verdict::of(\n        \"key\",\n        true,\n        text,\n    );\n}\n";
    let path = "crates/lab/src/experiment/a.rs";
    assert_eq!(fired_in(path, written), [("verdicts", 2)]);
    let measured = "fn f() { Verdict::of(claim, x > 1.0, \"true, measured\"); }\n";
    assert_eq!(fired_in(path, measured), []);
    let elsewhere = "crates/lab/src/experiment/mod.rs";
    assert_eq!(fired_in(elsewhere, written), []);
    for made in [
        "fn f() { Verdict::by_construction(\"setup\", text); }\n",
        "// ΔΔΔΔ\nfn f() {\n    Verdict::of(\n        \"setup-links\", x == 6, text) }\n",
        "fn f() { Verdict::made(\"setup-links\", x == 6, text) }\n",
    ] {
        assert_eq!(fired_in(path, made).len(), 1, "{made}");
    }
    let setup = "fn f() { Verdict::setup(\"setup-links\", &[(\"links\", x, 6.0)]); Verdict::of(\"links\", x > 6.0, text) }\n";
    assert_eq!(fired_in(path, setup), []);
}

#[test]
fn commands_of_users_do_without_the_laboratory() {
    let uses = "use base::Time;\nuse lab::scenario::Scenario;\n";
    assert_eq!(
        fired_in("crates/sinew/src/cp/route.rs", uses),
        [("laboratory", 2)]
    );
    assert_eq!(fired_in("crates/sinew/src/bench/relay.rs", uses), []);
    for renamed in [
        "fn f() { ::lab::scenario::run() }\n",
        "use lab as laboratory;\n",
        "use ::lab;\n",
        "use {lab as l};\n",
        "extern crate lab;\n",
    ] {
        let found = fired_in("crates/sinew/src/call.rs", renamed);
        assert_eq!(found, [("laboratory", 1)], "{renamed}");
    }
    let other = "use tools::call;\n/// As `lab::call` was.\nfn f() { crate::lab::x() }\n";
    assert_eq!(fired_in("crates/sinew/src/call.rs", other), []);
}
