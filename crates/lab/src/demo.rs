//! `sinew demo`: the same calls over a lossy path, directly by UDP and over the overlay.
//!
//! ```text
//!   phones ── client socket ── A ── B ── C ═══ D ── E ── F ── client socket ── phones   overlay
//!     │                          10 ms each; C-D loses                             │
//!     └───────── UDP ───────── emulator: 50 ms, the same loss ──────── UDP ────────┘   direct
//! ```

mod error;
mod options;
mod result;

pub use error::DemoError;
pub use options::DemoOptions;
pub use result::{Ceiling, DelayMs, DemoResult, PathResult, Scenario, Score};

/// Runs the demonstration and writes its files.
///
/// # Errors
/// [`DemoError`]; whatever was started has ended then.
pub fn run(options: &DemoOptions) -> Result<DemoResult, DemoError> {
    options.check()?;
    Err(DemoError::Start(
        "this version does not have the chain".into(),
    ))
}
