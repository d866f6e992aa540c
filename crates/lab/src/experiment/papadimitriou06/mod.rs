//! Papadimitriou06: Assessment of Internet voice transport with TCP.

#[allow(dead_code)] // Until the experiments that judge them are in the catalogue.
pub(super) mod claims;
