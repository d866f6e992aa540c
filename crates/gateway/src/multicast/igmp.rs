//! IGMP: how hosts of a network say which groups they want, to routers that ask.
//!
//! ```text
//!   host ──report──▶ Querier: one table of groups and sources per network
//!   host ◀──query─── Querier, if it has the lowest address of all that ask
//!   Host ──report──▶ another querier, and switches that look on: what this bridge wants
//! ```
//! Version 3 (RFC 3376, 9776) with hosts of versions 2 (RFC 2236) and 1 (RFC 1112) among the
//! others. Messages are read by `etherparse`; what is written is written here.
//!
//! MLD is the same for IPv6, word for word but for the messages: version 2 (RFC 3810) is IGMPv3, version 1
//! (RFC 2710) is IGMPv2. So tables and timers are of any [`Address`], and [`mld`] has the messages.

pub mod address;
pub mod emit;
pub mod group;
pub mod host;
pub mod message;
pub mod mld;
pub mod querier;

#[cfg(test)]
mod model;

pub use address::Address;
pub use host::Host;
pub use message::{Message, Record, RecordKind};
pub use querier::{Outlet, Querier, Query};

use base::Duration;
use core::net::Ipv4Addr;

/// All hosts of a network: where general queries go.
pub const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// All routers of a network: where hosts of version 2 say that they leave.
pub const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// All routers that speak version 3: where its reports go.
pub const ALL_V3_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
/// Switches that look on: where a router says that it is one. [RFC 4286]
pub const ALL_SNOOPERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 106);

/// How often, and how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How often what may be lost is said. [RFC 3376 §8.1]
    pub robustness: u8,
    /// From one general query to the next.
    pub query_interval: Duration,
    /// Within how long hosts answer one.
    pub response_interval: Duration,
    /// Within how long they answer the first ones.
    pub startup_response: Duration,
    /// From one query of a group that somebody left to the next, and how long they may take to
    /// answer it.
    pub last_member_interval: Duration,
}

impl Default for Timing {
    /// Choice: general queries four times as often as RFC 3376 has it, so that a host that vanished
    /// costs 65 s of traffic and not 260; last-member queries every 200 ms and not every second, so
    /// that a leave takes effect after 400 ms.
    fn default() -> Timing {
        Timing {
            robustness: 2,
            query_interval: Duration::from_secs(30),
            response_interval: Duration::from_secs(5),
            startup_response: Duration::from_secs(1),
            last_member_interval: Duration::from_millis(200),
        }
    }
}

impl Timing {
    /// How long a report holds. [RFC 3376 §8.4]
    #[must_use]
    pub fn membership(&self) -> Duration {
        self.query_interval * u64::from(self.robustness) + self.response_interval
    }

    /// How long another querier is believed to be there. [RFC 3376 §8.5]
    #[must_use]
    pub fn other_querier(&self) -> Duration {
        self.query_interval * u64::from(self.robustness) + self.response_interval.div(2)
    }

    /// How long somebody may still want what another has left. [RFC 3376 §8.10]
    #[must_use]
    pub fn last_member(&self) -> Duration {
        self.last_member_interval * u64::from(self.robustness)
    }
}
