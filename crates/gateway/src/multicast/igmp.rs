//! IGMP: how hosts of a network tell the routers that query them which groups they want.
//!
//! ```text
//!   host ──report──▶ Querier: one table of groups and sources per network
//!   host ◀──query─── Querier, if it has the lowest address of all that ask
//!   Host ──report──▶ another querier, and switches that look on: what this bridge wants
//! ```
//! Version 3 (RFC 3376, 9776), together with hosts of versions 2 (RFC 2236) and 1 (RFC 1112). `etherparse` parses
//! messages; this module writes them.
//!
//! MLD is the same protocol for IPv6, and differs only in its messages: version 2 (RFC 3810) is IGMPv3, version 1 (RFC
//! 2710) is IGMPv2. So tables and timers work for any [`Address`], and [`mld`] contains the messages.

pub mod address;
pub mod emit;
pub mod group;
pub mod host;
pub mod message;
pub mod mld;
mod places;
pub mod querier;

#[cfg(test)]
mod model;

pub use address::Address;
pub use host::Host;
pub use message::{Message, Record, RecordKind};
pub use querier::{Outlet, Querier, Query};

use base::Duration;
use core::net::Ipv4Addr;

/// All hosts of a network: the destination of general queries.
pub const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// All routers of a network: the destination of leaves of version 2.
pub const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// All routers that speak version 3: the destination of its reports.
pub const ALL_V3_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
/// Switches that snoop: the destination of router advertisements. [RFC 4286]
pub const ALL_SNOOPERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 106);

/// The timers of the protocol, and the number of repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How often messages that may be lost are sent. [RFC 3376 §8.1]
    pub robustness: u8,
    /// The time between general queries.
    pub query_interval: Duration,
    /// The time within which hosts answer a general query.
    pub response_interval: Duration,
    /// The time within which hosts answer the first general queries.
    pub startup_response: Duration,
    /// The time between queries of a group that a host left, and the time within which hosts answer such a query.
    pub last_member_interval: Duration,
}

impl Default for Timing {
    /// Choice: general queries are four times as frequent as in RFC 3376, so that a host that vanished costs 65 s of
    /// traffic and not 260 s. Last-member queries go out every 200 ms and not every second, so that a leave takes
    /// effect after 400 ms.
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
    /// Returns how long a report is valid. [RFC 3376 §8.4]
    #[must_use]
    pub fn membership(&self) -> Duration {
        self.query_interval * u64::from(self.robustness) + self.response_interval
    }

    /// Returns how long another querier is assumed to be present after its last query. [RFC 3376 §8.5]
    #[must_use]
    pub fn other_querier(&self) -> Duration {
        self.query_interval * u64::from(self.robustness) + self.response_interval.div(2)
    }

    /// Returns how long after a leave another host may still report that it wants the group. [RFC 3376 §8.10]
    #[must_use]
    pub fn last_member(&self) -> Duration {
        self.last_member_interval * u64::from(self.robustness)
    }
}
