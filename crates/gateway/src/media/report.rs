//! The plane's reports on calls and on itself: plain values, for records, metrics and people.

use base::Duration;
use client::Error as NodeError;
use core::fmt;
use core::net::SocketAddr;
use std::time::SystemTime;
use voice::live::{Quality, Reported, Window};
use voice::media::{CallId, Carrier, Drop, Expired};

/// A call so far, or at its end.
#[derive(Clone, Debug)]
pub struct Report {
    /// The call.
    pub call: CallId,
    /// When the call was opened, by the host's clock.
    pub since: SystemTime,
    /// How long ago that was, by a monotonic clock.
    pub age: Duration,
    /// The call's streams, in the order of the description. A stream that ended before the call is included in its last
    /// state.
    pub streams: Vec<StreamReport>,
}

/// One stream of a call.
#[derive(Clone, Debug)]
pub struct StreamReport {
    /// The stream's position in the description.
    pub media: u8,
    /// The traffic from the caller's side, and from the callee's.
    pub sides: [SideReport; 2],
}

/// The traffic from one side of a stream.
#[derive(Clone, Debug)]
pub struct SideReport {
    /// The carrier of the side.
    pub carrier: Carrier,
    /// The quality of the RTP that came from the side, since the beginning. Over the overlay, it includes the loss
    /// before and after recovery, and the one-way delay.
    pub quality: Quality,
    /// The quality of the last completed 5 s.
    pub window: Option<Window>,
    /// The report of the end on this side about the stream that it receives, which is the other side's.
    pub reported: Reported,
    /// The round trip between here and the end on this side, by its reports.
    pub round_trip: Option<Duration>,
    /// Number of packets from the side that were forwarded, including RTCP.
    pub packets: u64,
    /// Number of their bytes.
    pub bytes: u64,
    /// Number of RTCP packets among them.
    pub rtcp_packets: u64,
    /// Packets that arrived at the side's ports and were not forwarded.
    pub drops: Drops,
    /// The address from which the end on this side really sends, once it is learned.
    pub remote: Option<SocketAddr>,
    /// How long ago the last RTP packet of the side arrived.
    pub silence: Option<Duration>,
    /// The quality that the same RTP would have had without the overlay, measured on the copies that arrived directly
    /// over UDP, if the sending gateway mirrors this call.
    pub direct: Option<Quality>,
}

/// Numbers of packets that were not forwarded, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops([u64; Drop::ALL.len()]);

impl Drops {
    pub(super) fn count(&mut self, reason: Drop) {
        self.0[reason as usize] += 1;
    }

    /// Returns the number for one reason.
    pub fn of(&self, reason: Drop) -> u64 {
        self.0[reason as usize]
    }

    /// Returns the number for all reasons.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns every reason with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Drop, u64)> + '_ {
        Drop::ALL
            .into_iter()
            .map(|reason| (reason, self.of(reason)))
    }
}

/// The counters of the whole plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of calls that are open.
    pub calls: usize,
    /// Number of calls opened so far.
    pub opened: u64,
    /// Number of calls that ended by themselves.
    pub expired: u64,
    /// Number of calls that ended because a node was lost.
    pub nodes_lost: u64,
    /// Number of free UDP ports of the range.
    pub udp_ports_free: usize,
    /// Number of free virtual ports of the range.
    pub overlay_ports_free: usize,
    /// Number of ports that another program of this host used.
    pub ports_taken: u64,
    /// True if the node is connected.
    pub connected: bool,
    /// Number of datagrams received over UDP, and from the overlay.
    pub received: [u64; 2],
    /// Number of their bytes.
    pub received_bytes: [u64; 2],
    /// Number of datagrams sent over UDP, and over the overlay.
    pub sent: [u64; 2],
    /// Numbers of datagrams that were not forwarded, by the carrier of their arrival.
    pub drops: Drops,
    /// Number of datagrams for UDP that the kernel refused.
    pub udp_failed: u64,
    /// Number of datagrams that the node did not accept, because it hangs or is gone.
    pub overlay_failed: u64,
    /// Number of mirrored packets sent directly.
    pub mirrored: u64,
    /// Number of mirrored packets that arrived and were counted for a call.
    pub mirrored_received: u64,
    /// Number of datagrams at the shadow port that belonged to no call, or were not authentic.
    pub mirrored_refused: u64,
}

/// Why a call ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The call was not answered, its media stopped, or its dialog became silent.
    Expired(Expired),
    /// A node on its path is lost: the node of the far side, or this gateway's own.
    NodeLost(base::NodeAddr),
}

/// An event that no request caused.
#[derive(Debug)]
pub enum Event {
    /// A call ended by itself: its ports are free, and its dialog must be ended by BYE.
    Ended {
        /// The call.
        call: CallId,
        /// The reason.
        why: Why,
        /// The call's last report.
        report: Box<Report>,
    },
    /// The connection to this gateway's node was lost; the gateway tries to reconnect.
    NodeAway(NodeError),
    /// The node is back.
    NodeBack,
    /// Real-time priority was requested and refused, or another fact that the operator should know.
    Warning(String),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Ended { call, why, .. } => write!(f, "call {} ended: {why}", call.0),
            Event::NodeAway(error) => write!(f, "the node is away: {error}"),
            Event::NodeBack => f.write_str("the node is back"),
            Event::Warning(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Expired(Expired::NoAnswer) => f.write_str("nobody answered"),
            Why::Expired(Expired::NoMedia) => f.write_str("no media came from either side"),
            Why::Expired(Expired::NoDialog) => f.write_str("its dialog fell silent"),
            Why::NodeLost(node) => write!(f, "node {node} is lost"),
        }
    }
}
