//! The SIP gateway with real phones, proxies and load: the acceptance tests.
//!
//! ```text
//!   alice ── veth ── ams ══ overlay ══ mid ══ overlay ══ fra ── veth ── bob
//!     └────────────────── emulated link, for comparison ────────────────┘
//! ```
//!
//! Each of them is a network namespace. The phones are Debian's baresip, the load is its sipp, registrar and proxy its
//! kamailio. A test installs the programs that it needs if it may; otherwise it prints `SKIPPED` and the reason. Long
//! tests are ignored. Run them with `cargo test -p sinew --test phones -- --ignored --nocapture`.

// A test fails by panicking, also in its helper functions.
#![allow(clippy::unwrap_used)]
#![allow(
    clippy::print_stdout,
    reason = "the numbers are what these tests are for"
)]

#[path = "../world/mod.rs"]
mod world;

mod aware;
mod direct;
mod faults;
mod gateway;
mod hostile;
mod kamailio;
mod land;
mod load;
mod paths;
mod phone;
mod plain;
mod programs;
mod quality;
mod sip;
mod sipp;
mod speech;
mod talk;
mod torture;
