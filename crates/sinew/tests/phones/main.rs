//! The SIP gateway with real phones, proxies and load: what issues are accepted by.
//!
//! ```text
//!   alice ── veth ── ams ══ overlay ══ mid ══ overlay ══ fra ── veth ── bob
//!     └────────────────── emulated link, for comparison ────────────────┘
//! ```
//!
//! Each of them is a network namespace. Phones are Debian's baresip, load is its sipp, registrar and
//! proxy its kamailio; a test installs what it needs when it may, else it says `SKIPPED` and why.
//! Long ones are ignored; run them with `cargo test -p sinew --test phones -- --ignored --nocapture`.

// A test fails by panicking, in its own functions too.
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
mod phone;
mod plain;
mod programs;
mod quality;
mod sip;
mod sipp;
mod speech;
mod talk;
mod torture;
