//! Coded repair between the two ends of a path: the sender asks, the receiver reports the losses, and repair packets
//! follow.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |    kind 6     |  what: 0 ask  |          reserved 0           |   0
//! +---------------+---------------+-------------------------------+
//! |  reserved 0   |           session, chosen by the exit         |   4
//! +---------------+-----------------------------------------------+
//!
//! what 0, the question, has behind these:
//! +---------------------------------------------------------------+
//! |        low 32 bits of the first counter in question           |   8
//! +---------------------------------------------------------------+
//! | one bit per counter from there on, the highest first: it is   |  12
//! | of a packet that may be repaired; at most 128 bytes           |
//! +---------------------------------------------------------------+
//!
//! what 1, the report, has behind these:
//! +-------------------------------+-------------------------------+
//! |     loss, shares of 65 536    |   mean run of losses, 1/256   |   8
//! +-------------------------------+-------------------------------+
//! |      named by questions, and received or restored             |  12
//! +---------------------------------------------------------------+
//! |      named by questions, and neither                          |  16
//! +---------------------------------------------------------------+
//!
//! what 2, a repair packet, the body of a repair packet of a lane ([`Repair`]) from offset 8 on
//! ```
//!
//! The numbers of a repair packet are the low 24 bits of the counters under which its packets were sealed. For each
//! packet it uses the header and the sealed payload in the form that both ends know: the class without a mark of
//! recovery, the time to live 0, no remaining time, and the lane's number as in [`Repair`].
//!
//! A node that does not know this kind drops it and does not report, so it gets no repair packets.

use super::END_REPAIR;
use crate::bytes::{Reader, Writer};
use crate::control::Repair;
use crate::link::SessionIndex;
use crate::{Full, Malformed};

/// Number of bytes in front of the body of a repair packet.
pub const END_REPAIR_FRONT: usize = 8;
/// Number of bytes in front of the bits of a question.
pub const END_ASK_FRONT: usize = 12;
/// The maximum number of bytes of bits.
pub const END_ASKED_MAX: usize = 128;
/// Number of bytes of a report.
pub const END_REPORT_BYTES: usize = 20;

const ASK: u8 = 0;
const REPORT: u8 = 1;
const REPAIR: u8 = 2;

/// A message of kind 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndRepair<'a> {
    /// A question how much is lost of what is sealed under this session.
    Ask {
        /// The session index, which its receiver has chosen.
        session: SessionIndex,
        /// The low bits of the first counter in question.
        first: u32,
        /// One bit per counter, the highest of a byte first: set if the counter is in question.
        named: &'a [u8],
    },
    /// The answer to a question.
    Report(EndReport),
    /// A combination of packets that were sealed under this session.
    Repair {
        /// The session index, which its receiver has chosen.
        session: SessionIndex,
        /// The packets.
        repair: Repair<'a>,
    },
}

/// The reception of the packets that the receiver of this message has sent. Totals wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndReport {
    /// The session that the question was about.
    pub session: SessionIndex,
    /// The share of packets lost on the path, before repair, in shares of 65 536.
    pub loss: u16,
    /// The mean length of a run of losses, in 256ths of a packet.
    pub run_256ths: u16,
    /// Number of packets that questions have named, and that arrived or were restored.
    pub received: u32,
    /// Number of packets that questions have named, and that neither arrived nor were restored.
    pub lost: u32,
}

impl<'a> EndRepair<'a> {
    /// Reads a message of kind 6.
    pub fn parse(payload: &'a [u8]) -> Result<EndRepair<'a>, Malformed> {
        let mut r = Reader::new(payload);
        if r.u8()? != END_REPAIR {
            return Err(Malformed::Kind);
        }
        let what = r.u8()?;
        if r.u16()? != 0 {
            return Err(Malformed::Value);
        }
        let session = r.u32()?;
        if session > SessionIndex::MAX.value() {
            return Err(Malformed::Value);
        }
        let session = SessionIndex::new(session);
        let message = match what {
            ASK => {
                let (first, named) = (r.u32()?, r.rest());
                if named.len() > END_ASKED_MAX {
                    return Err(Malformed::Length);
                }
                return Ok(EndRepair::Ask {
                    session,
                    first,
                    named,
                });
            }
            REPORT => EndRepair::Report(EndReport {
                session,
                loss: r.u16()?,
                run_256ths: r.u16()?,
                received: r.u32()?,
                lost: r.u32()?,
            }),
            REPAIR => {
                let repair = Repair::parse(r.rest())?;
                return Ok(EndRepair::Repair { session, repair });
            }
            _ => return Err(Malformed::Kind),
        };
        match r.rest().is_empty() {
            true => Ok(message),
            false => Err(Malformed::Length),
        }
    }

    /// Writes a question about counters from `first` on.
    pub fn ask(
        session: SessionIndex,
        (first, named): (u32, &[u8]),
        out: &mut [u8],
    ) -> Result<usize, Full> {
        let len = front(ASK, session, out)?;
        let mut w = Writer::new(&mut out[len..]);
        w.u32(first)?;
        w.put(named)?;
        Ok(len + w.len())
    }

    /// Writes the bytes in front of the body of a repair packet.
    pub fn begin_repair(session: SessionIndex, out: &mut [u8]) -> Result<usize, Full> {
        front(REPAIR, session, out)
    }
}

impl EndReport {
    /// Writes the report.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, Full> {
        let len = front(REPORT, self.session, out)?;
        let mut w = Writer::new(&mut out[len..]);
        w.u16(self.loss)?;
        w.u16(self.run_256ths)?;
        w.u32(self.received)?;
        w.u32(self.lost)?;
        Ok(len + w.len())
    }
}

fn front(what: u8, session: SessionIndex, out: &mut [u8]) -> Result<usize, Full> {
    let mut w = Writer::new(out);
    w.u8(END_REPAIR)?;
    w.u8(what)?;
    w.u16(0)?;
    w.u32(session.value())?;
    Ok(w.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HEADER_BYTES;
    use crate::data::LaneSeq;

    const SESSION: SessionIndex = SessionIndex::new(0xabcdef);
    const ASKED: [u8; END_ASK_FRONT + 1] =
        [6, 0, 0, 0, 0, 0xab, 0xcd, 0xef, 0, 1, 0, 2, 0b1010_0000];
    const TOLD: [u8; END_REPORT_BYTES] = [
        6, 1, 0, 0, 0, 0xab, 0xcd, 0xef, 0x0c, 0xcc, 0x02, 0, 0, 1, 0, 0, 0, 0, 0, 9,
    ];
    const REPORTED: EndReport = EndReport {
        session: SESSION,
        loss: 0x0ccc,
        run_256ths: 0x200,
        received: 0x1_0000,
        lost: 9,
    };

    /// Returns a repair packet with packets 10 and 8 and a sum of zeros.
    fn repaired() -> Vec<u8> {
        let mut bytes = vec![6, 2, 0, 0, 0, 0xab, 0xcd, 0xef];
        bytes.extend([0, 0, 10, 0x82, 7, 0b101, 3, 43]);
        bytes.extend([0; HEADER_BYTES]);
        bytes
    }

    #[test]
    fn bytes_and_messages_agree() {
        let session = SESSION;
        let (first, named) = (0x1_0002, &[0b1010_0000][..]);
        let asked = EndRepair::Ask {
            session,
            first,
            named,
        };
        assert_eq!(EndRepair::parse(&ASKED), Ok(asked));
        assert_eq!(EndRepair::parse(&TOLD), Ok(EndRepair::Report(REPORTED)));
        let bytes = repaired();
        let Ok(EndRepair::Repair { session, repair }) = EndRepair::parse(&bytes) else {
            panic!("a repair packet");
        };
        assert_eq!((session, repair.newest), (SESSION, LaneSeq::new(10)));
        assert_eq!((repair.members, repair.ages), (0b101, &[3, 43][..]));
        let mut out = [0xa5; END_REPORT_BYTES];
        assert_eq!(REPORTED.emit(&mut out), Ok(END_REPORT_BYTES));
        assert_eq!(out, TOLD);
        let mut out = [0xa5; END_ASK_FRONT + 1];
        let len = EndRepair::ask(SESSION, (first, named), &mut out);
        assert_eq!((len, out), (Ok(ASKED.len()), ASKED));
        let mut out = [0xa5; END_REPAIR_FRONT];
        let len = EndRepair::begin_repair(SESSION, &mut out);
        assert_eq!(
            (len, &out[..]),
            (Ok(END_REPAIR_FRONT), &bytes[..END_REPAIR_FRONT])
        );
        for room in 0..END_REPORT_BYTES {
            let mut out = TOLD;
            assert_eq!(REPORTED.emit(&mut out[..room]), Err(Full));
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for bytes in [&ASKED[..], &TOLD[..], &repaired()[..]] {
            // A question may have no bits.
            let least = bytes.len() - usize::from(bytes == ASKED);
            for cut in 0..least {
                assert_eq!(EndRepair::parse(&bytes[..cut]), Err(Malformed::Short));
            }
        }
        let bad = |bytes: &[u8], at: usize, to: u8| {
            let mut bytes = bytes.to_vec();
            bytes[at] = to;
            EndRepair::parse(&bytes).unwrap_err()
        };
        assert_eq!(bad(&ASKED, 0, 5), Malformed::Kind);
        assert_eq!(bad(&ASKED, 1, 3), Malformed::Kind);
        assert_eq!(bad(&ASKED, 3, 1), Malformed::Value);
        assert_eq!(bad(&TOLD, 4, 1), Malformed::Value);
        assert_eq!(bad(&repaired(), 11, 0xc2), Malformed::Value);
        let longer = [&TOLD[..], &[0]].concat();
        assert_eq!(EndRepair::parse(&longer), Err(Malformed::Length));
        let longer = [&ASKED[..END_ASK_FRONT], &[0; END_ASKED_MAX + 1]].concat();
        assert_eq!(EndRepair::parse(&longer), Err(Malformed::Length));
    }
}
