//! One node between neighbours that are driven by hand.
