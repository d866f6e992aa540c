//! What the plane tells of calls and of itself: plain values, for records, metrics and people.

use base::Duration;
use client::Error as NodeError;
use core::fmt;
use core::net::SocketAddr;
use std::time::SystemTime;
use voice::live::{Quality, Reported, Window};
use voice::media::{CallId, Carrier, Drop, Expired};

/// A call so far, or as it was when it ended.
#[derive(Clone, Debug)]
pub struct Report {
    /// The call.
    pub call: CallId,
    /// When it was opened, by the host's clock.
    pub since: SystemTime,
    /// How long ago that was, by a clock that nobody sets.
    pub age: Duration,
    /// Its streams, in the order of the description. One that was ended before the call is among
    /// them, as it was then.
    pub streams: Vec<StreamReport>,
}

/// One stream of a call.
#[derive(Clone, Debug)]
pub struct StreamReport {
    /// Its place in the description.
    pub media: u8,
    /// What came from the caller's side, and from the callee's.
    pub sides: [SideReport; 2],
}

/// What came from one side of a stream.
#[derive(Clone, Debug)]
pub struct SideReport {
    /// What carries the side.
    pub carrier: Carrier,
    /// Of the RTP that came from the side, since the beginning. Over the overlay loss is known
    /// before and after recovery, and the one-way delay.
    pub quality: Quality,
    /// Of the last 5 s that ended.
    pub window: Option<Window>,
    /// What the end on this side reports of what it hears, which is the other side's stream.
    pub reported: Reported,
    /// From here to the end on this side and back, by its reports.
    pub round_trip: Option<Duration>,
    /// Packets from the side that went on, RTCP among them.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// RTCP packets among them.
    pub rtcp_packets: u64,
    /// Packets that came to the side's ports and did not go on.
    pub drops: Drops,
    /// Where the end on this side really sends from, once learned.
    pub remote: Option<SocketAddr>,
    /// How long ago its last RTP packet came.
    pub silence: Option<Duration>,
    /// Of the same RTP as it would have been without the overlay: by the copies that came directly
    /// over UDP, if the sending gateway mirrors this call.
    pub direct: Option<Quality>,
}

/// Packets that did not go on, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops([u64; Drop::ALL.len()]);

impl Drops {
    pub(super) fn count(&mut self, reason: Drop) {
        self.0[reason as usize] += 1;
    }

    /// For one reason.
    pub fn of(&self, reason: Drop) -> u64 {
        self.0[reason as usize]
    }

    /// For all reasons.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Every reason with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Drop, u64)> + '_ {
        Drop::ALL
            .into_iter()
            .map(|reason| (reason, self.of(reason)))
    }
}

/// The plane as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls that are open.
    pub calls: usize,
    /// Calls opened so far.
    pub opened: u64,
    /// Calls that ended by themselves.
    pub expired: u64,
    /// Calls that ended because a node was lost.
    pub nodes_lost: u64,
    /// UDP ports that are free, of the range.
    pub udp_ports_free: usize,
    /// Virtual ports that are free, of the range.
    pub overlay_ports_free: usize,
    /// Ports that another program of this host had.
    pub ports_taken: u64,
    /// The node is connected.
    pub connected: bool,
    /// Datagrams that came over UDP, from the overlay.
    pub received: [u64; 2],
    /// Their bytes.
    pub received_bytes: [u64; 2],
    /// Datagrams that went out over UDP, over the overlay.
    pub sent: [u64; 2],
    /// Datagrams that did not go on, by what came.
    pub drops: Drops,
    /// Datagrams that the kernel did not take for UDP.
    pub udp_failed: u64,
    /// Datagrams that the node did not take: it hangs, or is gone.
    pub overlay_failed: u64,
    /// Mirrored packets sent directly.
    pub mirrored: u64,
    /// Mirrored packets that came and were counted for a call.
    pub mirrored_received: u64,
    /// Datagrams at the shadow port that were of no call, or not authentic.
    pub mirrored_refused: u64,
}

/// Why a call ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Nobody answered, media stopped, or the dialog fell silent.
    Expired(Expired),
    /// A node that it goes through is lost: that of the far side, or this gateway's own.
    NodeLost(base::NodeAddr),
}

/// Something that happened without being asked for.
#[derive(Debug)]
pub enum Event {
    /// A call ended by itself: its ports are free, and its dialog is to be ended by BYE.
    Ended {
        /// The call.
        call: CallId,
        /// Why.
        why: Why,
        /// As it was.
        report: Box<Report>,
    },
    /// This gateway's node went away; it is looked for.
    NodeAway(NodeError),
    /// It is back.
    NodeBack,
    /// Real-time priority was asked for and refused, or another thing that the operator should
    /// know.
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
