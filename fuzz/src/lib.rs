//! The fuzz targets of every crate, by name.
//!
//! ```text
//!   targets/voice.rs --TARGETS--> lib.rs --by name--> any.rs (libFuzzer)
//!                    `----------> crates/voice/tests/fuzz_replay.rs (cargo test)
//! ```
#![forbid(unsafe_code)]

mod targets {
    pub(crate) mod gateway;
    pub(crate) mod overlay;
    pub(crate) mod relay;
    pub(crate) mod scribe;
    pub(crate) mod secure;
    pub(crate) mod voice;
    pub(crate) mod wire;
}

/// A name, and a function that must not panic whatever the bytes are.
pub type Target = (&'static str, fn(&[u8]));

/// Every target of the project.
pub fn targets() -> impl Iterator<Item = Target> {
    [
        targets::gateway::TARGETS,
        targets::overlay::TARGETS,
        targets::relay::TARGETS,
        targets::scribe::TARGETS,
        targets::secure::TARGETS,
        targets::voice::TARGETS,
        targets::wire::TARGETS,
    ]
    .into_iter()
    .flatten()
    .copied()
}
