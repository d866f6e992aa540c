//! The control messages between two neighbors: one or several messages in one sealed datagram.
//!
//! ```text
//!  0                   1                   2
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3
//! +-+-------------+-------------------------------+
//! |C|    type     |         length of body        |
//! +-+-------------+-------------------------------+
//! | body ...                                      |
//! +-----------------------------------------------+
//! | next message ...                              |
//! ```
//!
//! C: the message is critical. If it is unknown, the rest of the datagram is dropped and counted. Other unknown
//! messages are skipped, so that networks can be upgraded node by node. A known message has a fixed length, so
//! additions use new messages.
//!
//! [`Messages`] reads without allocation. [`Builder`] appends to a datagram and returns [`Full`](crate::Full) when a
//! message does not fit.

mod aims;
mod builder;
mod clock;
mod doubt;
mod hello;
mod hold;
mod mtu;
mod nack;
mod reliable;
mod repair;
mod report;
mod stream_seen;

pub use aims::{FLOW_AIM_LASTS, FlowAim, FlowAims};
pub use builder::Builder;
pub use clock::ClockOffset;
pub use doubt::LinkDoubt;
pub use hello::{Echo, Hello};
pub use hold::{Hold, LaneHolds};
pub use mtu::{MtuAnswer, MtuProbe};
pub use nack::{Nack, RANGE_SEQS};
pub use reliable::{AckHead, ReliableAck, ReliableRate, ReliableSkip};
pub use repair::{
    LaneReport, REPAIR_AGE_UNKNOWN, REPAIR_AGES, REPAIR_FRONT_BYTES, REPAIR_SPAN, Repair,
};
pub use report::{GroupReport, RECEPTIONS_MAX, Reception};
pub use stream_seen::StreamSeenAt;

use crate::bytes::Reader;
use crate::data::LaneSeq;
use crate::record::{Acks, Records};
use crate::{Endpoint, Malformed};

/// Number of bytes in front of a message's body.
pub const MESSAGE_HEADER_BYTES: usize = 3;
/// The bit of a type that makes an unknown message, record or option critical.
pub const CRITICAL: u8 = 0x80;

/// The types of messages.
pub mod kind {
    /// [`super::Hello`].
    pub const HELLO: u8 = 1;
    /// [`super::Nack`].
    pub const NACK: u8 = 2;
    /// [`super::TailProbe`].
    pub const TAIL_PROBE: u8 = 3;
    /// [`crate::record::Records`].
    pub const RECORDS: u8 = 4;
    /// [`crate::record::Acks`].
    pub const RECORD_ACK: u8 = 5;
    /// [`super::ReliableAck`].
    pub const RELIABLE_ACK: u8 = 6;
    /// [`super::ReliableSkip`].
    pub const RELIABLE_SKIP: u8 = 7;
    /// [`super::MtuProbe`].
    pub const MTU_PROBE: u8 = 8;
    /// [`super::MtuAnswer`].
    pub const MTU_ANSWER: u8 = 9;
    /// [`super::GroupReport`].
    pub const GROUP_REPORT: u8 = 10;
    /// [`super::ReliableRate`].
    pub const RELIABLE_RATE: u8 = 11;
    /// [`super::LaneHolds`].
    pub const LANE_HOLDS: u8 = 12;
    /// [`super::LinkDoubt`].
    pub const LINK_DOUBT: u8 = 13;
    /// [`super::Repair`].
    pub const REPAIR: u8 = 14;
    /// [`super::LaneReport`].
    pub const LANE_REPORT: u8 = 15;
    /// [`crate::Endpoint`]: the address from which the receiver's datagrams arrive.
    pub const SEEN_AT: u8 = 16;
    /// [`super::ClockOffset`].
    pub const CLOCK_OFFSET: u8 = 17;
    /// [`super::FlowAims`].
    pub const FLOW_AIMS: u8 = 18;
    /// [`super::StreamSeenAt`].
    pub const STREAM_SEEN_AT: u8 = 19;
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// The state of the link, and a clock stamp to echo.
    Hello(Hello),
    /// A request for packets that are missing.
    Nack(Nack<'a>),
    /// The end of a lane.
    TailProbe(TailProbe),
    /// Flooded records.
    Records(Records<'a>),
    /// Records that have arrived and are stored.
    RecordAck(Acks<'a>),
    /// The packets that have arrived over the reliable lane.
    ReliableAck(ReliableAck<'a>),
    /// The packets that will never arrive over the reliable lane.
    ReliableSkip(ReliableSkip),
    /// A datagram whose length may be too long for the path.
    MtuProbe(MtuProbe),
    /// The answer that an [`MtuProbe`] has arrived.
    MtuAnswer(MtuAnswer),
    /// The reception of a group's receivers.
    GroupReport(GroupReport<'a>),
    /// The rate at which data of the reliable lane arrives.
    ReliableRate(ReliableRate),
    /// How many packets to some destinations the node accepts.
    LaneHolds(LaneHolds<'a>),
    /// A link that may have failed.
    LinkDoubt(LinkDoubt),
    /// A combination of packets of the real-time lane.
    Repair(Repair<'a>),
    /// The reception of the packets of the real-time lane.
    LaneReport(LaneReport),
    /// The address from which the receiver's datagrams arrive, as seen by the sender of this message.
    SeenAt(Endpoint),
    /// The offset between the sender's clock and the network's.
    ClockOffset(ClockOffset),
    /// The repair targets of flows, set by their senders.
    FlowAims(FlowAims<'a>),
    /// The address of the receiver of this message, seen through a byte stream.
    StreamSeenAt(StreamSeenAt),
    /// A message of a type that this program does not know, which is counted and skipped.
    Unknown {
        /// Its type.
        kind: u8,
        /// Its body.
        body: &'a [u8],
    },
}

impl<'a> Message<'a> {
    fn parse(kind: u8, body: &'a [u8]) -> Result<Message<'a>, Malformed> {
        match kind {
            kind::HELLO => Hello::parse(body).map(Message::Hello),
            kind::NACK => Nack::parse(body).map(Message::Nack),
            kind::TAIL_PROBE => TailProbe::parse(body).map(Message::TailProbe),
            kind::RECORDS => Records::parse(body).map(Message::Records),
            kind::RECORD_ACK => Acks::parse(body).map(Message::RecordAck),
            kind::RELIABLE_ACK => ReliableAck::parse(body).map(Message::ReliableAck),
            kind::RELIABLE_SKIP => ReliableSkip::parse(body).map(Message::ReliableSkip),
            kind::MTU_PROBE => MtuProbe::parse(body).map(Message::MtuProbe),
            kind::MTU_ANSWER => MtuAnswer::parse(body).map(Message::MtuAnswer),
            kind::GROUP_REPORT => GroupReport::parse(body).map(Message::GroupReport),
            kind::RELIABLE_RATE => ReliableRate::parse(body).map(Message::ReliableRate),
            kind::LANE_HOLDS => LaneHolds::parse(body).map(Message::LaneHolds),
            kind::LINK_DOUBT => LinkDoubt::parse(body).map(Message::LinkDoubt),
            kind::REPAIR => Repair::parse(body).map(Message::Repair),
            kind::LANE_REPORT => LaneReport::parse(body).map(Message::LaneReport),
            kind::SEEN_AT => Endpoint::parse(body).map(Message::SeenAt),
            kind::CLOCK_OFFSET => ClockOffset::parse(body).map(Message::ClockOffset),
            kind::FLOW_AIMS => FlowAims::parse(body).map(Message::FlowAims),
            kind::STREAM_SEEN_AT => StreamSeenAt::parse(body).map(Message::StreamSeenAt),
            _ if kind & CRITICAL != 0 => Err(Malformed::Critical),
            _ => Ok(Message::Unknown { kind, body }),
        }
    }
}

/// The messages of a datagram, in order. After an error there is no next message: bytes after an unreadable part are
/// not examined.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    reader: Reader<'a>,
}

impl<'a> Messages<'a> {
    /// Returns the messages in an opened control datagram.
    pub const fn new(plaintext: &'a [u8]) -> Messages<'a> {
        Messages {
            reader: Reader::new(plaintext),
        }
    }

    fn read(&mut self) -> Result<Message<'a>, Malformed> {
        let kind = self.reader.u8()?;
        let length = self.reader.u16()?;
        Message::parse(kind, self.reader.take(usize::from(length))?)
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let message = self.read();
        if message.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(message)
    }
}

/// The end of a lane: the sender has sent everything before `next`. It is sent when a lane falls silent after data, so
/// that the receiver also detects the loss of the last packets.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-----------------------------------------------+---------------+
/// |       lane sequence number of the next        |     count     |
/// +-----------------------------------------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailProbe {
    /// The number of the lane's next packet.
    pub next: LaneSeq,
    /// The number of the probe within this silence, from 0.
    pub count: u8,
}

impl TailProbe {
    /// Number of bytes of the body.
    pub const BYTES: usize = 4;

    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<TailProbe, Malformed> {
        let mut r = Reader::new(body);
        let probe = TailProbe {
            next: LaneSeq::new(r.u24()?),
            count: r.u8()?,
        };
        r.finish()?;
        Ok(probe)
    }

    /// Returns the wire format of the body.
    pub const fn to_bytes(self) -> [u8; TailProbe::BYTES] {
        let [_, a, b, c] = self.next.value().to_be_bytes();
        [a, b, c, self.count]
    }
}

#[cfg(test)]
mod tests;
