//! `sinew cp` with real nodes on loopback: files and directories there and back, through relays; what
//! is refused; what is left when somebody dies in the middle, and how it goes on; what a node tells of it.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that cannot go on says where, and shows what it measured"
)]

#[path = "../world/mod.rs"]
mod world;

mod chain;
mod checked;
mod copies;
mod detached;
mod faults;
mod goals;
mod outage;
mod planned;
mod rates;
mod refusals;
mod resume;
mod row;
mod sealed;
mod several;
mod status;
mod strangers;
mod trees;
mod vanished;
