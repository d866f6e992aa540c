//! Verdicts from the rows on the claims, paper section by section.

pub(super) mod compare;
pub(super) mod native;
pub(super) mod overlay;
