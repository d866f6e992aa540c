//! Datagrams longer than a packet: the entry fragments them, and the exit reassembles them ([`super::handover`]).
//! Relays never look at this.

use super::Node;
use super::receive::drop_some;
use super::send::{around_bytes, emit, seal_kind};
use crate::ends::SEAL_FRONT;
use crate::event::Drop;
use base::{Burst, Outbox, Time};
use wire::CLEAR_BYTES;
use wire::data::{EXTENSION_LENGTH_BYTES, FlowSeq, HEADER_BYTES, Repr};
use wire::transport::{FRAGMENT_BYTES, Fragment};

/// The longest datagram of a client: as long as the payload of an IPv4 UDP datagram.
pub const MAX_DATAGRAM: usize = 65_507;

impl Node {
    /// Sends a client's datagram in fragments of at most `max` bytes, header included. Each fragment has a number of
    /// its own in the flow, which `numbers` makes.
    pub(super) fn send_in_fragments(
        &mut self,
        now: Time,
        header: &Repr,
        (stamp, seals): (&[u8], bool),
        (payload, max): (Burst, usize),
        mut numbers: impl FnMut(&mut Node) -> FlowSeq,
        out: &mut impl Outbox<Node>,
    ) {
        let (bytes, step) = (payload.bytes(), max - FRAGMENT_BYTES);
        let around = around_bytes(stamp, seals) + FRAGMENT_BYTES;
        let id = header.flow_seq.0;
        let mut first = true;
        let mut rest = bytes.chunks(step).enumerate().peekable();
        while rest.peek().is_some() {
            let Some(mut burst) = out.pool().large() else {
                let packets = rest.len() as u32;
                return drop_some(Drop::NoBuffer, packets, out);
            };
            let (mut used, capacity) = (0, burst.capacity());
            while let Some((i, chunk)) =
                rest.next_if(|(_, chunk)| used + around + chunk.len() <= capacity)
            {
                let flow_seq = match core::mem::take(&mut first) {
                    true => header.flow_seq,
                    false => numbers(self),
                };
                let fragment = Fragment {
                    offset: (i * step) as u16,
                    id,
                    total: bytes.len() as u16,
                };
                let header = Repr {
                    flow_seq,
                    has_transport: true,
                    ..*header
                };
                let packet = &mut burst.spare_mut()[used + CLEAR_BYTES..];
                write(packet, &header, (stamp, seals), &fragment, chunk);
                used += around + chunk.len();
            }
            burst.fill(used, around + step);
            self.originate(now, header, burst, out);
        }
    }
}

/// Writes a packet with one fragment, from the overlay header on.
fn write(
    packet: &mut [u8],
    header: &Repr,
    (stamp, seals): (&[u8], bool),
    fragment: &Fragment,
    bytes: &[u8],
) {
    emit(header, seals, packet);
    let mut at = HEADER_BYTES;
    if !stamp.is_empty() {
        let length = (stamp.len() as u16).to_be_bytes();
        packet[at..at + EXTENSION_LENGTH_BYTES].copy_from_slice(&length);
        at += EXTENSION_LENGTH_BYTES;
        packet[at..at + stamp.len()].copy_from_slice(stamp);
        at += stamp.len();
    }
    if seals {
        packet[at] = seal_kind(header).byte();
        at += SEAL_FRONT;
    }
    let payload = &mut packet[at..];
    fragment
        .emit(payload)
        .expect("a large buffer holds a fragment's header");
    payload[FRAGMENT_BYTES..FRAGMENT_BYTES + bytes.len()].copy_from_slice(bytes);
}
