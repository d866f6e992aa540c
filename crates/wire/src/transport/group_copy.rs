//! A packet to a group that its source sends to only one receiver, in the form that it has on the tree.
//!
//! ```text
//! +---------------+---------------------------------------
//! |    kind 5     |  a whole packet: header, stamp, payload ...
//! +---------------+---------------------------------------
//! ```
//!
//! The packet is to a multicast group, and sealed for all its receivers. Its only possible extension is a stamp: no
//! edge of a shared tree leads to its receiver. Its remaining time is the time at its source.

use super::{GROUP_COPY, Kind};
use crate::Malformed;
use crate::bytes::Reader;
use crate::data::{Header, Routing};
use crate::groups::is_group;

/// Number of bytes in front of the packet.
pub const GROUP_COPY_BYTES: usize = 1;

/// Returns the packet in a payload of kind 5, from its header on.
pub fn group_copy(payload: &[u8]) -> Result<&[u8], Malformed> {
    let mut r = Reader::new(payload);
    if r.u8()? != GROUP_COPY {
        return Err(Malformed::Kind);
    }
    let packet = r.rest();
    let header = Header::parse(packet)?;
    let group = header.destination();
    let is_stamped = header.class().routing == Routing::Stamped;
    let is_to_group = group.is_multicast() && is_group(group);
    if !is_to_group || !header.has_transport() || header.has_extension() != is_stamped {
        return Err(Malformed::Value);
    }
    match Kind::of(header.payload())? {
        Kind::End(kind) if kind.is_sealed() => Ok(packet),
        _ => Err(Malformed::Value),
    }
}

/// Writes the bytes in front of the packet.
pub fn begin_group_copy(payload: &mut [u8; GROUP_COPY_BYTES]) {
    *payload = [GROUP_COPY];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HEADER_BYTES;

    /// A packet to 239.1.2.3, sealed.
    const VECTOR: [u8; 1 + HEADER_BYTES + 9] = [
        5, 0x40, 0x60, 0xff, 0xff, 10, 7, 0, 1, 239, 1, 2, 3, 0x1f, 0x90, 0x13, 0x88, 0, 0, 0, 7,
        0, 0, 0, 0x18, 0xab, 0xcd, 0xef, 0, 0, 0, 9, 0x77,
    ];

    #[test]
    fn bytes_and_packet_agree() {
        assert_eq!(group_copy(&VECTOR), Ok(&VECTOR[1..]));
        assert_eq!(Kind::of(&VECTOR), Ok(Kind::GroupCopy));
        let mut front = [0xa5; GROUP_COPY_BYTES];
        begin_group_copy(&mut front);
        assert_eq!(front[..], VECTOR[..1]);
        for cut in 0..=1 + HEADER_BYTES {
            assert_eq!(group_copy(&VECTOR[..cut]), Err(Malformed::Short), "{cut}");
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let bad = |at: usize, to: u8| {
            let mut bytes = VECTOR;
            bytes[at] = to;
            group_copy(&bytes).unwrap_err()
        };
        assert_eq!(bad(0, 4), Malformed::Kind);
        assert_eq!(bad(9, 10), Malformed::Value, "to a node");
        assert_eq!(bad(2, 0x20), Malformed::Value, "not sealed");
        assert_eq!(bad(24, 1), Malformed::Value, "not sealed either");
        assert_eq!(bad(24, 0x10), Malformed::Value, "a handshake");
        let mut edge = VECTOR.to_vec();
        edge[2] |= 0x80;
        edge.splice(24..24, [0, 1, 7]);
        assert_eq!(group_copy(&edge), Err(Malformed::Value));
    }
}
