//! What a relay can see of the data that it passes on.

use crate::chain::{Chain, part};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::process::{Command, Stdio};

/// A text that occurs nowhere else.
const MARKER: &[u8] = b"<seen-by-a-relay-that-was-captured>";
/// Bytes that pass through before the test searches.
const BYTES: usize = 4_000_000;

/// Returns how often the marker is in the memory of a process; `None` if the memory may not be
/// read.
fn found_in(pid: u32) -> Option<usize> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut found = 0;
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let range = line.split_whitespace().next().unwrap();
        let (from, to) = range.split_once('-').unwrap();
        let from = u64::from_str_radix(from, 16).unwrap();
        let to = u64::from_str_radix(to, 16).unwrap();
        memory.seek(SeekFrom::Start(from)).unwrap();
        let mut bytes = Vec::new();
        // Some ranges cannot be read by anybody.
        let _ = (&memory).take(to - from).read_to_end(&mut bytes);
        found += bytes
            .windows(MARKER.len())
            .filter(|window| *window == MARKER)
            .count();
    }
    Some(found)
}

/// Counts what the relay's memory contains of a stream that it is passing on, and of the name of
/// its target.
fn captured(chain: &Chain, words: &str) -> Option<usize> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
    command.current_dir(&chain.world.dir).args(["cp", "-"]);
    // One connection on one side and two on the other: the frames pass through the relay's memory.
    let more = ["--stripes", "1,2", "--quiet", "--node", "net/ams"];
    command.args(words.split_whitespace()).args(more);
    let mut copy = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = copy.stdin.take().unwrap();
    let stream = MARKER.repeat(BYTES / MARKER.len());
    input.write_all(&stream).unwrap();
    input.flush().unwrap();
    let target = chain.root("lon").join("copy");
    chain.world.wait("all of it has come", || {
        fs::metadata(part(&target)).is_ok_and(|about| about.len() == stream.len() as u64)
    });
    let found = found_in(chain.world.pid("fra"));
    drop(input);
    assert!(copy.wait().unwrap().success());
    assert_eq!(fs::read(&target).unwrap(), stream);
    fs::remove_file(&target).unwrap();
    found
}

#[test]
fn a_captured_relay_has_nothing_of_what_it_passes_on() {
    let chain = Chain::new("cp-sealed", 3);
    let Some(sealed) = captured(&chain, "lon:copy") else {
        eprintln!("SKIPPED: the memory of another process may not be read here: run it as root");
        return;
    };
    // The plain stream proves that the search works.
    let plain = captured(&chain, "lon:copy --plain").unwrap();
    assert!(plain > 0, "a plain stream has left nothing in memory");
    assert_eq!(sealed, 0, "of a plain stream there are {plain}");
}
