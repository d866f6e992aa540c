//! Compares the graph algorithms with the installed networkx, on graphs beyond those whose results are stored
//! (crates/graph/tests/networkx.rs).
//!
//! `SINEW_PYTHON` names the Python (default `python3`), `SINEW_NETWORKX_GRAPHS` the number of graphs to compute
//! (default 100); `SINEW_NETWORKX_GRAPHS=10000 cargo test -p lab --release --test networkx` does it for all stored
//! ones.

#[path = "../../graph/tests/networkx/compare.rs"]
mod compare;

use compare::{GRAPHS, check, parse};
use std::io::Write;
use std::process::Command;

const LIVE: &str = "100";

/// Prints a text that is visible even if the test passes.
fn say(text: &str) {
    // An error of standard error cannot be reported.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

#[test]
fn networkx_says_the_same_today_where_it_is_installed() {
    let python = std::env::var("SINEW_PYTHON").unwrap_or_else(|_| "python3".into());
    let count = std::env::var("SINEW_NETWORKX_GRAPHS").unwrap_or_else(|_| LIVE.into());
    let there = Command::new(&python)
        .args(["-c", "import networkx"])
        .output();
    if !there.is_ok_and(|output| output.status.success()) {
        say(&format!(
            "SKIPPED: {python} has no networkx, so only its stored results were compared; \
             `pip install networkx` and name that Python by SINEW_PYTHON"
        ));
        return;
    }
    // The graphs are beyond the stored ones, unless all are requested.
    let first = if count == LIVE {
        GRAPHS.to_string()
    } else {
        "0".into()
    };
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../graph/tests/networkx/corpus.py"
    );
    let output = Command::new(&python)
        .args([script, "live", &first, &count])
        .output();
    let output = output.expect("it has just run");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{python} {script} live: {complaint}"
    );
    let text = String::from_utf8(output.stdout).expect("plain text");
    let cases = parse(&text);
    assert_eq!(cases.len().to_string(), count);
    cases.iter().for_each(check);
    say(&format!(
        "networkx: {count} graphs computed now by {python}, all equal"
    ));
}
