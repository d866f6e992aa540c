//! The build that measured a row.

/// Returns the version, and a digest of its sources: `0.1.0+3f9c…`. Rows of two builds are not combined, since they may
/// differ for other reasons than the measured ones.
#[must_use]
pub fn build() -> &'static str {
    concat!(env!("CARGO_PKG_VERSION"), "+", env!("LAB_SOURCES"))
}
