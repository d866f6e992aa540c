//! The multicast bridge: programs that speak IP multicast, across an overlay.
#![allow(missing_docs)]

pub mod bridge;
pub mod digest;
pub mod drops;
pub mod flood;
pub mod hello;
pub mod igmp;
pub mod notice;
pub mod packet;
pub mod rules;
