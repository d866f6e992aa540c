//! `sinew cp` with real nodes on loopback: files and directories in both directions, through relays; refused copies;
//! the remains when a process is killed in the middle, and how the copy continues; and the report of a node about its
//! service.

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
