//! Real hosts: a network namespace for each, emulated links between them, the kernel's TCP, and a node
//! in every host.
//!
//! ```text
//!   site    namespaces, links, routes, the kernel's congestion control
//!   relays  a node process in every host; copies by `sinew cp` among them
//!   stream  plain connections between hosts
//!   pings   round trips over each link, all the time
//! ```

mod pings;
mod relays;
mod site;
mod stream;

pub(super) use pings::Pings;
pub(super) use relays::{Copy, Relays, Spans, number, payload_bps};
pub(super) use site::{Link, Site};
pub(super) use stream::{Connection, Stream, rates};
