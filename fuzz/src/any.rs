//! The fuzz binary: runs the target that `SINEW_FUZZ_TARGET` names.
#![no_main]

use std::sync::LazyLock;

static BODY: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let wanted = std::env::var("SINEW_FUZZ_TARGET").unwrap_or_default();
    match sinew_fuzz::targets().find(|(name, _)| *name == wanted) {
        Some((_, body)) => body,
        None => {
            eprintln!(
                "SINEW_FUZZ_TARGET names no target: `{wanted}`; run `cargo xtask fuzz --list`"
            );
            std::process::exit(2)
        }
    }
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| BODY(data));
