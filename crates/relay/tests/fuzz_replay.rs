//! Replays the stored fuzz inputs of this crate, and mutations of them (fuzz/README.md).

#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../fuzz/src/targets/relay.rs"]
mod targets;

use replay::Target;

#[test]
fn corpora_are_replayed() {
    replay::all(targets::TARGETS);
}
