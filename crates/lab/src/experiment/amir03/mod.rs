//! Amir03: Reliable Communication in Overlay Networks.

#[allow(dead_code)] // Until the experiments that judge them are in the catalogue.
pub(super) mod claims;
