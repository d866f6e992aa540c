//! The echo service at a node's virtual port 7, for `sinew ping` and `sinew trace`.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-------------------------------+---------------+
//! |     kind      |              id               |    seq ..     |
//! +---------------+-------------------------------+---------------+
//! |    .. seq     |                 stamp, us ..                  |
//! +---------------+-----------------------------------------------+
//! | .. stamp, us  |                  node ..                      |
//! +---------------+---------------+-------------------------------+
//! |   .. node     |      hop      | filler ...                    |
//! +---------------+---------------+-------------------------------+
//! ```
//!
//! Kind 1 is a request, 2 is a reply, and 3 means that the packet's time to live ended here. A reply returns id,
//! sequence number, stamp and filler unchanged. `node` is the node that answers, and `hop` is the number of hops that
//! the request had taken. The format is the payload of a data packet; [`crate::data`] comes before it.

use crate::bytes::{Reader, Writer};
use crate::{Full, Malformed};
use base::{NodeAddr, VirtualPort};

/// The virtual port at which every node answers.
pub const PORT: VirtualPort = VirtualPort(7);
/// Number of bytes without filler.
pub const ECHO_BYTES: usize = 14;

/// The kind of an echo packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A request, which must be answered.
    Request,
    /// The answer of its destination.
    Reply,
    /// The answer of the node where the request's time to live ended.
    TtlExceeded,
}

/// An echo packet, without filler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// The kind: a request, or one of the answers.
    pub kind: Kind,
    /// The sender's own number, returned unchanged.
    pub id: u16,
    /// The number of the request, returned unchanged.
    pub seq: u16,
    /// The sender's clock, returned unchanged.
    pub stamp_us: u32,
    /// The node that answers. In a request: the node that asks.
    pub node: NodeAddr,
    /// Number of hops that the request had taken to `node`; 0 in a request.
    pub hop: u8,
}

impl Echo {
    /// Reads the front of a payload; the rest is filler.
    pub fn parse(payload: &[u8]) -> Result<Echo, Malformed> {
        let mut r = Reader::new(payload);
        let kind = match r.u8()? {
            1 => Kind::Request,
            2 => Kind::Reply,
            3 => Kind::TtlExceeded,
            _ => return Err(Malformed::Kind),
        };
        Ok(Echo {
            kind,
            id: r.u16()?,
            seq: r.u16()?,
            stamp_us: r.u32()?,
            node: NodeAddr(r.u32()?),
            hop: r.u8()?,
        })
    }

    /// Writes the front of a payload; the filler stays unchanged.
    pub fn emit(&self, payload: &mut [u8]) -> Result<(), Full> {
        if payload.len() < ECHO_BYTES {
            return Err(Full);
        }
        let mut w = Writer::new(payload);
        w.u8(match self.kind {
            Kind::Request => 1,
            Kind::Reply => 2,
            Kind::TtlExceeded => 3,
        })?;
        w.u16(self.id)?;
        w.u16(self.seq)?;
        w.u32(self.stamp_us)?;
        w.u32(self.node.0)?;
        w.u8(self.hop)
    }

    /// Returns the answer of `node` to this request after `hop` hops.
    pub const fn answer(self, kind: Kind, node: NodeAddr, hop: u8) -> Echo {
        Echo {
            kind,
            node,
            hop,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VECTOR: [u8; ECHO_BYTES] = [2, 0x12, 0x34, 0, 9, 0x01, 0x02, 0x03, 0x04, 10, 7, 0, 3, 2];
    const ECHO: Echo = Echo {
        kind: Kind::Reply,
        id: 0x1234,
        seq: 9,
        stamp_us: 0x0102_0304,
        node: NodeAddr(0x0a07_0003),
        hop: 2,
    };

    #[test]
    fn bytes_and_values_agree_both_ways() {
        let mut payload = [0xa5; ECHO_BYTES + 3];
        assert_eq!(ECHO.emit(&mut payload), Ok(()));
        assert_eq!(payload[..ECHO_BYTES], VECTOR);
        assert_eq!(payload[ECHO_BYTES..], [0xa5; 3], "filler stays");
        assert_eq!(Echo::parse(&payload), Ok(ECHO));
    }

    #[test]
    fn truncation_is_short_and_other_kinds_are_refused() {
        for cut in 0..ECHO_BYTES {
            assert_eq!(Echo::parse(&VECTOR[..cut]), Err(Malformed::Short), "{cut}");
            assert_eq!(ECHO.emit(&mut [0; ECHO_BYTES][..cut]), Err(Full), "{cut}");
        }
        for kind in (0..=255).filter(|kind| !(1..=3).contains(kind)) {
            let mut bytes = VECTOR;
            bytes[0] = kind;
            assert_eq!(Echo::parse(&bytes), Err(Malformed::Kind), "{kind}");
        }
    }

    #[test]
    fn an_answer_returns_what_the_asker_sent() {
        let request = Echo {
            kind: Kind::Request,
            node: NodeAddr(1),
            hop: 0,
            ..ECHO
        };
        assert_eq!(request.answer(Kind::Reply, ECHO.node, 2), ECHO);
    }

    proptest! {
        #[test]
        fn what_parses_is_written_back_byte_for_byte(mut bytes: [u8; ECHO_BYTES], kind in 1u8..4) {
            bytes[0] = kind;
            let mut written = [0xa5; ECHO_BYTES];
            Echo::parse(&bytes).unwrap().emit(&mut written).unwrap();
            prop_assert_eq!(written, bytes);
        }
    }
}
