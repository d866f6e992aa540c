//! Which code measured a row.

/// The version, and a digest of the sources behind it: `0.1.0+3f9c…`. Rows of two builds are not put
/// together, since they may differ for another reason than what they measure.
#[must_use]
pub fn build() -> &'static str {
    concat!(env!("CARGO_PKG_VERSION"), "+", env!("LAB_SOURCES"))
}
