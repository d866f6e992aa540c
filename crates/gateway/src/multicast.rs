//! The multicast bridge: programs that speak IP multicast, across an overlay.
#![allow(missing_docs)]

pub mod drops;
pub mod igmp;
pub mod packet;
pub mod rules;
