//! The overlay header of a data packet. It has a fixed size, and every hop rewrites it in place.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---+-----+-----+-+-+-----------+-------------------------------+
//! |lnk|route|prior|X|T|    ttl    | remaining, units of 100 us    |   0
//! +---+-----+-----+-+-+-----------+-------------------------------+
//! |                          source node                          |   4
//! +---------------------------------------------------------------+
//! |                       destination node                        |   8
//! +-------------------------------+-------------------------------+
//! |          source port          |        destination port       |  12
//! +-------------------------------+-------------------------------+
//! |                     flow sequence number                      |  16
//! +-----------------------------------------------+---------------+
//! |             lane sequence number              |  payload ...  |  20
//! +-----------------------------------------------+---------------+
//! ```
//!
//! X: an extension (the source's [stamp](crate::stamp)) follows the fixed header, as a u16 length and that many bytes;
//! hops forward it unchanged. T: the payload begins with a transport header, whose first byte is its kind (a fragment
//! of a long datagram, a segment of a stream). Only the two ends use it. A relay forwards such a packet like any other
//! packet; an exit that does not know the kind drops and counts it.
//!
//! lnk 3 means "reliable, congestion experienced": a relay whose buffer fills changes 2 to 3, and the exit's session
//! reports it to the source. [Amir03 §II, §IV]
//!
//! route 5 and 6 mean "real-time, recovered": a hop that got the packet by a retransmission sets them, and the exit
//! informs the receiver. So the packets themselves show the receiver what the links lost and what was recovered.
//! [Amir06 §IV-A] No bit was left, but codes were: route 5 has the routing (0 to 3) in the place of lnk, and route 6
//! has lnk 0 for width and 1 for stamped.
//!
//! A hop changes only these marks, ttl, remaining time and lane sequence number. The lane sequence number belongs to
//! the link protocol's lane on this hop. The flow sequence number is the source's, and it is used for duplicate
//! suppression and reordering at the exit.

mod class;
mod remaining;

pub use class::{Class, LinkProtocol, Routing};
pub use remaining::Remaining;

use crate::link::CLEAR_BYTES;
use crate::{Full, Malformed};
use base::{NodeAddr, VirtualPort, seq};

/// Number of bytes of the fixed overlay header.
pub const HEADER_BYTES: usize = 23;
/// Number of bytes before the payload of a packet without an extension: clear header and overlay header.
pub const HEADROOM: usize = CLEAR_BYTES + HEADER_BYTES;
/// The largest time to live.
pub const TTL_MAX: u8 = 0x3f;
/// Number of bytes from the source to the flow sequence number, which a seal from end to end covers.
pub const BOUND_BYTES: usize = field::LANE_SEQ - field::SOURCE;
/// Number of bytes before the payload of a packet without an extension that is sealed from end to end. A sender leaves
/// this room before the data.
pub const SEALED_HEADROOM: usize = HEADROOM + CLEAR_BYTES;
/// Number of bytes of the length in front of an extension.
pub const EXTENSION_LENGTH_BYTES: usize = 2;

const EXTENSION: u8 = 0x80;
const TRANSPORT: u8 = 0x40;
/// The link protocol of a reliable packet that has met congestion.
const CONGESTED: u8 = 0b11;
/// The bit that distinguishes it from other reliable packets.
const CONGESTED_BIT: u8 = 0x40;
/// The link protocol of the packets that can be marked as recovered.
const REAL_TIME: u8 = 0b01;
/// The routing code of a recovered packet with its routing in the bits of the link protocol.
const RECOVERED: u8 = 5;
/// The routing code of a recovered packet whose link protocol bits select its routing in [`RECOVERED_FAR`].
const RECOVERED_MORE: u8 = 6;
/// The routings that do not fit two bits.
const RECOVERED_FAR: [u8; 2] = [4, 7];

mod field {
    pub(super) const CLASS: usize = 0;
    pub(super) const FLAGS_TTL: usize = 1;
    pub(super) const REMAINING: usize = 2;
    pub(super) const SOURCE: usize = 4;
    pub(super) const DESTINATION: usize = 8;
    pub(super) const SOURCE_PORT: usize = 12;
    pub(super) const DESTINATION_PORT: usize = 14;
    pub(super) const FLOW_SEQ: usize = 16;
    pub(super) const LANE_SEQ: usize = 20;
}

/// The sequence number of a packet within its flow, as the source counts; wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowSeq(pub u32);

/// The low 24 bits of the sequence number of a packet within a lane of one link; wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LaneSeq(u32);

impl FlowSeq {
    /// Returns the number nearest to `near` with these low bits.
    pub const fn widen(self, near: u64) -> u64 {
        seq::widen(self.0 as u64, 32, near)
    }
    /// Returns the low bits of a full number.
    pub const fn of(full: u64) -> FlowSeq {
        FlowSeq(full as u32)
    }
}

impl LaneSeq {
    /// Number of bits on the wire.
    pub const BITS: u32 = 24;

    /// Returns the low 24 bits of `value`.
    pub const fn new(value: u32) -> LaneSeq {
        LaneSeq(value & 0x00ff_ffff)
    }
    /// Returns the low bits of a full number.
    pub const fn of(full: u64) -> LaneSeq {
        LaneSeq::new(full as u32)
    }
    /// Returns the number on the wire.
    pub const fn value(self) -> u32 {
        self.0
    }
    /// Returns the number nearest to `near` with these low bits.
    pub const fn widen(self, near: u64) -> u64 {
        seq::widen(self.0 as u64, LaneSeq::BITS, near)
    }
    /// Returns the number that is `step` higher.
    pub const fn plus(self, step: u32) -> LaneSeq {
        LaneSeq::new(self.0.wrapping_add(step))
    }
}

/// A view of a packet: the fixed header at the front of `bytes`, which end with the payload. Accessors read in place.
/// With mutable bytes, setters write in place.
#[derive(Clone, Copy, Debug)]
pub struct Header<B> {
    bytes: B,
}

impl<B: AsRef<[u8]>> Header<B> {
    /// Creates a view of an opened packet. Checks everything that the accessors rely on: the length, the class, that a
    /// stamped packet has an extension, and that the extension ends within the packet.
    pub fn parse(bytes: B) -> Result<Header<B>, Malformed> {
        let packet = bytes.as_ref();
        if packet.len() < HEADER_BYTES {
            return Err(Malformed::Short);
        }
        let class = Class::from_byte(unmarked(packet[field::CLASS]))?;
        if packet[field::FLAGS_TTL] & EXTENSION != 0 {
            let length: &[u8; EXTENSION_LENGTH_BYTES] = packet[HEADER_BYTES..]
                .first_chunk()
                .ok_or(Malformed::Short)?;
            let end =
                HEADER_BYTES + EXTENSION_LENGTH_BYTES + usize::from(u16::from_be_bytes(*length));
            if packet.len() < end {
                return Err(Malformed::Short);
            }
        } else if class.routing == Routing::Stamped {
            return Err(Malformed::Value);
        }
        Ok(Header { bytes })
    }

    /// Creates a view of a packet that this node wrote or has parsed before. Accessors panic on a packet that is
    /// shorter than its headers.
    pub const fn trusted(bytes: B) -> Header<B> {
        Header { bytes }
    }

    fn at<const N: usize>(&self, offset: usize) -> [u8; N] {
        *self.bytes.as_ref()[offset..]
            .first_chunk()
            .expect("parse has seen the whole fixed header")
    }

    /// Returns the class.
    pub fn class(&self) -> Class {
        Class::from_byte(self.class_byte()).expect("parse has seen a valid class")
    }
    /// Returns the class as its byte, without marks of congestion or recovery, as an index for tables.
    pub fn class_byte(&self) -> u8 {
        unmarked(self.at::<1>(field::CLASS)[0])
    }
    /// Returns true if the buffer of a reliable lane was filling at a relay on the path.
    pub fn is_congested(&self) -> bool {
        let class = self.at::<1>(field::CLASS)[0];
        class >> 6 == CONGESTED && !is_recovered(class)
    }
    /// Returns true if a hop on the path got the packet by a retransmission of the real-time protocol.
    pub fn is_recovered(&self) -> bool {
        is_recovered(self.at::<1>(field::CLASS)[0])
    }
    /// Returns how many more hops the packet may take.
    pub fn ttl(&self) -> u8 {
        self.at::<1>(field::FLAGS_TTL)[0] & TTL_MAX
    }
    /// Returns true if an extension follows the fixed header.
    pub fn has_extension(&self) -> bool {
        self.at::<1>(field::FLAGS_TTL)[0] & EXTENSION != 0
    }
    /// Returns true if the payload begins with a transport header.
    pub fn has_transport(&self) -> bool {
        self.at::<1>(field::FLAGS_TTL)[0] & TRANSPORT != 0
    }
    /// Returns the time left to the deadline.
    pub fn remaining(&self) -> Remaining {
        Remaining(u16::from_be_bytes(self.at(field::REMAINING)))
    }
    /// Returns the node where the packet entered the overlay.
    pub fn source(&self) -> NodeAddr {
        NodeAddr(u32::from_be_bytes(self.at(field::SOURCE)))
    }
    /// Returns the node or group that the packet is for.
    pub fn destination(&self) -> NodeAddr {
        NodeAddr(u32::from_be_bytes(self.at(field::DESTINATION)))
    }
    /// Returns the sender's virtual port.
    pub fn source_port(&self) -> VirtualPort {
        VirtualPort(u16::from_be_bytes(self.at(field::SOURCE_PORT)))
    }
    /// Returns the receiver's virtual port.
    pub fn destination_port(&self) -> VirtualPort {
        VirtualPort(u16::from_be_bytes(self.at(field::DESTINATION_PORT)))
    }
    /// Returns the source's number for this packet of the flow.
    pub fn flow_seq(&self) -> FlowSeq {
        FlowSeq(u32::from_be_bytes(self.at(field::FLOW_SEQ)))
    }
    /// Returns the packet's number in the lane of the hop over which it came.
    pub fn lane_seq(&self) -> LaneSeq {
        let [a, b, c] = self.at(field::LANE_SEQ);
        LaneSeq(u32::from_be_bytes([0, a, b, c]))
    }
    /// Returns the bytes that no hop changes: source, destination, ports and flow sequence number.
    pub fn bound(&self) -> [u8; BOUND_BYTES] {
        self.at(field::SOURCE)
    }
    /// Returns where the payload begins.
    pub fn payload_offset(&self) -> usize {
        if self.has_extension() {
            let length = u16::from_be_bytes(self.at(HEADER_BYTES));
            HEADER_BYTES + EXTENSION_LENGTH_BYTES + usize::from(length)
        } else {
            HEADER_BYTES
        }
    }
    /// Returns the source's stamp, without its length.
    pub fn extension(&self) -> Option<&[u8]> {
        self.has_extension().then(|| {
            &self.bytes.as_ref()[HEADER_BYTES + EXTENSION_LENGTH_BYTES..self.payload_offset()]
        })
    }
    /// Returns the data that the client sent.
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[self.payload_offset()..]
    }
    /// Returns the extension, writable.
    pub fn extension_mut(&mut self) -> Option<&mut [u8]>
    where
        B: AsMut<[u8]>,
    {
        let offset = self.payload_offset();
        self.has_extension()
            .then(|| &mut self.bytes.as_mut()[HEADER_BYTES + EXTENSION_LENGTH_BYTES..offset])
    }
    /// Returns the viewed bytes.
    pub fn into_inner(self) -> B {
        self.bytes
    }
    /// Returns all fields as values.
    pub fn repr(&self) -> Repr {
        Repr {
            class: self.class(),
            ttl: self.ttl(),
            has_extension: self.has_extension(),
            congested: self.is_congested(),
            recovered: self.is_recovered(),
            has_transport: self.has_transport(),
            remaining: self.remaining(),
            source: self.source(),
            destination: self.destination(),
            source_port: self.source_port(),
            destination_port: self.destination_port(),
            flow_seq: self.flow_seq(),
            lane_seq: self.lane_seq(),
        }
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Header<B> {
    fn put<const N: usize>(&mut self, offset: usize, value: [u8; N]) {
        self.bytes.as_mut()[offset..offset + N].copy_from_slice(&value);
    }

    /// Marks a reliable packet as having met congestion; other packets have no room for the mark.
    pub fn set_congested(&mut self) {
        let class = self.at::<1>(field::CLASS)[0];
        if class >> 6 == CONGESTED & !1 && !is_recovered(class) {
            self.put(field::CLASS, [class | CONGESTED_BIT]);
        }
    }
    /// Marks a real-time packet as recovered on a hop; other packets have no room for the mark.
    pub fn set_recovered(&mut self) {
        let class = self.at::<1>(field::CLASS)[0];
        if class >> 6 != REAL_TIME {
            return;
        }
        let priority = class & Class::PRIORITY_MAX;
        let marked = match routing(class) {
            near @ 0..=3 => near << 6 | RECOVERED << 3 | priority,
            far => match RECOVERED_FAR.iter().position(|&routing| routing == far) {
                Some(place) => (place as u8) << 6 | RECOVERED_MORE << 3 | priority,
                None => class,
            },
        };
        self.put(field::CLASS, [marked]);
    }
    /// Changes the class; marks of congestion or recovery are removed.
    pub fn set_class(&mut self, class: Class) {
        self.put(field::CLASS, [class.to_byte()]);
    }
    /// Sets whether the payload begins with a transport header.
    pub fn set_transport(&mut self, has: bool) {
        let flags = self.at::<1>(field::FLAGS_TTL)[0] & !TRANSPORT;
        let transport = if has { TRANSPORT } else { 0 };
        self.put(field::FLAGS_TTL, [flags | transport]);
    }
    /// Changes the time to live, which is limited to [`TTL_MAX`]. The flags stay unchanged.
    pub fn set_ttl(&mut self, ttl: u8) {
        let flags = self.at::<1>(field::FLAGS_TTL)[0] & !TTL_MAX;
        self.put(field::FLAGS_TTL, [flags | ttl.min(TTL_MAX)]);
    }
    /// Changes the time left to the deadline.
    pub fn set_remaining(&mut self, remaining: Remaining) {
        self.put(field::REMAINING, remaining.0.to_be_bytes());
    }
    /// Changes the source.
    pub fn set_source(&mut self, node: NodeAddr, port: VirtualPort) {
        self.put(field::SOURCE, node.0.to_be_bytes());
        self.put(field::SOURCE_PORT, port.0.to_be_bytes());
    }
    /// Changes the destination.
    pub fn set_destination(&mut self, node: NodeAddr, port: VirtualPort) {
        self.put(field::DESTINATION, node.0.to_be_bytes());
        self.put(field::DESTINATION_PORT, port.0.to_be_bytes());
    }
    /// Changes the flow sequence number.
    pub fn set_flow_seq(&mut self, seq: FlowSeq) {
        self.put(field::FLOW_SEQ, seq.0.to_be_bytes());
    }
    /// Changes the lane sequence number.
    pub fn set_lane_seq(&mut self, seq: LaneSeq) {
        let [_, a, b, c] = seq.0.to_be_bytes();
        self.put(field::LANE_SEQ, [a, b, c]);
    }
    /// Returns the payload, writable.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let offset = self.payload_offset();
        &mut self.bytes.as_mut()[offset..]
    }
}

/// Returns the class byte of a packet without the marks of congestion and recovery.
const fn unmarked(class: u8) -> u8 {
    let (link, priority) = (class >> 6, class & Class::PRIORITY_MAX);
    match (link, routing(class)) {
        (routing, RECOVERED) => REAL_TIME << 6 | routing << 3 | priority,
        (place @ 0..=1, RECOVERED_MORE) => {
            REAL_TIME << 6 | RECOVERED_FAR[place as usize] << 3 | priority
        }
        (CONGESTED, 0..=4 | 7) => class & !CONGESTED_BIT,
        _ => class,
    }
}

/// Returns the routing bits of a class byte.
const fn routing(class: u8) -> u8 {
    class >> 3 & 7
}

const fn is_recovered(class: u8) -> bool {
    matches!(
        (class >> 6, routing(class)),
        (_, RECOVERED) | (0 | 1, RECOVERED_MORE)
    )
}

/// The fixed header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Link protocol, routing, priority.
    pub class: Class,
    /// How many more hops the packet may take, at most [`TTL_MAX`].
    pub ttl: u8,
    /// True if an extension follows; the writer appends it.
    pub has_extension: bool,
    /// True for a reliable packet that has met congestion.
    pub congested: bool,
    /// True for a real-time packet that was lost on a hop and recovered there.
    pub recovered: bool,
    /// True if the payload begins with a transport header, which the writer puts there.
    pub has_transport: bool,
    /// The time left to the deadline.
    pub remaining: Remaining,
    /// The node where the packet entered the overlay.
    pub source: NodeAddr,
    /// The node or group that the packet is for.
    pub destination: NodeAddr,
    /// The sender's virtual port.
    pub source_port: VirtualPort,
    /// The receiver's virtual port.
    pub destination_port: VirtualPort,
    /// The source's number for this packet of the flow.
    pub flow_seq: FlowSeq,
    /// The packet's number in the lane of the next hop.
    pub lane_seq: LaneSeq,
}

impl Repr {
    /// Writes the fixed header at the front of `packet`.
    pub fn emit(&self, packet: &mut [u8]) -> Result<(), Full> {
        let header: &mut [u8; HEADER_BYTES] = packet.first_chunk_mut().ok_or(Full)?;
        let extension = if self.has_extension { EXTENSION } else { 0 };
        let transport = if self.has_transport { TRANSPORT } else { 0 };
        header[field::FLAGS_TTL] = extension | transport;
        let mut view = Header::trusted(header);
        view.set_class(self.class);
        if self.congested {
            view.set_congested();
        }
        if self.recovered {
            view.set_recovered();
        }
        view.set_ttl(self.ttl);
        view.set_remaining(self.remaining);
        view.set_source(self.source, self.source_port);
        view.set_destination(self.destination, self.destination_port);
        view.set_flow_seq(self.flow_seq);
        view.set_lane_seq(self.lane_seq);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
