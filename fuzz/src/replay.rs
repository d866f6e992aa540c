//! Runs fuzz targets in an ordinary test, with each stored input and small mutations of it.
//!
//! Crates include this file by `#[path]` in `tests/fuzz_replay.rs`. The mutations are the same on
//! every run, so a failure is reproducible. They find a decoder that trusts a length or a flag even
//! if the developer has no fuzzer.
#![allow(
    clippy::disallowed_methods,
    reason = "a test outside the engine that reads its inputs from files"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// The folder of the corpora, relative to the folder of a crate, where cargo starts its tests.
const CORPUS: &str = "../../fuzz/corpus";

/// Most prefixes of an input that are tried: every one, for an input of the usual size.
const PREFIXES_MAX: usize = 1024;

/// Most positions whose byte is changed, with 10 values each. Together with the prefixes, an input
/// needs at most 2305 runs: some 10 ms for a decoder, one or two seconds for a target that runs a
/// handshake.
const POSITIONS_MAX: usize = 128;

/// A name, and a function that must not panic whatever the bytes are.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// Replays the corpora of all targets of one crate.
pub(crate) fn all(targets: &[Target]) {
    for &(name, body) in targets {
        let folder = Path::new(CORPUS).join(name);
        let inputs = read_inputs(&folder);
        assert!(
            !inputs.is_empty(),
            "{name}: put at least one input into {}",
            folder.display()
        );
        for (file, input) in inputs {
            run(name, &file, "as stored", body, &input);
            for_each_mutation(&input, |what, data| run(name, &file, what, body, data));
        }
    }
}

/// Returns the inputs sorted by name, so that every run has the same order.
fn read_inputs(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut inputs: Vec<(String, Vec<u8>)> = entries
        .map(|entry| entry.expect("a folder of the repository can be listed"))
        .map(|entry| {
            let bytes = std::fs::read(entry.path()).expect("a file of the repository can be read");
            (entry.file_name().to_string_lossy().into_owned(), bytes)
        })
        .collect();
    inputs.sort();
    inputs
}

fn run(name: &str, file: &str, what: &str, body: fn(&[u8]), data: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| body(data))).is_err() {
        panic!("{name} failed on fuzz/corpus/{name}/{file}, {what}; the bytes: {data:02x?}");
    }
}

/// Runs truncations, bit flips, extreme bytes, and one byte too many.
fn for_each_mutation(input: &[u8], mut run: impl FnMut(&str, &[u8])) {
    for length in (0..input.len()).step_by(stride(input, PREFIXES_MAX)) {
        run("truncated", &input[..length]);
    }
    let mut data = input.to_vec();
    for at in (0..input.len()).step_by(stride(input, POSITIONS_MAX)) {
        let flips = (0..8).map(|bit| input[at] ^ (1 << bit));
        for byte in flips.chain([0x00, 0xff]) {
            data[at] = byte;
            run("one byte changed", &data);
        }
        data[at] = input[at];
    }
    data.push(0xa5);
    run("one byte longer", &data);
}

/// Returns the step with which at most `places` positions of the input are tried.
fn stride(input: &[u8], places: usize) -> usize {
    input.len().div_ceil(places).max(1)
}
