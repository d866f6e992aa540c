//! The hello: it shows that a link is up, measures its round trip, and reports to the other end how much is lost in the
//! direction to the sender. [Amir06 §III-A]
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-------------------------------+---------------+
//! |W|D|P|R|A|C|N|H|         interval, ms          |  stamp, us .. |
//! +-------+-+-+-+-+-------------------------------+---------------+
//! |              .. stamp, us                     | echo stamp .. |
//! +-----------------------------------------------+---------------+
//! |              .. echo stamp, us                |  echo hold .. |
//! +-----------------------------------------------+---------------+
//! |              .. echo hold, us                 |    loss in .. |
//! +---------------+-------------------------------+---------------+
//! |   .. loss in  |               boot ..                          |
//! +---------------+-----------------------------------------------+
//! |    .. boot    |                 arrived ..                     |
//! +---------------+-----------------------------------------------+
//! |  .. arrived   |                   lost ..                      |
//! +---------------+-----------------------------------------------+
//! |    .. lost    |
//! +---------------+
//! ```
//!
//! H: the sender hears the receiver. N: answer at once. C: the sender is closing. A: the link is active. R: the sender
//! accepts [repair packets](super::Repair). P: a link may have several paths, each with a session of its own. D: the
//! sender has heard nothing for suspiciously long. W: acknowledgements of the sender's reliable lane may wait for the
//! next packet, if one is expected.
//!
//! The boot number is drawn when the sender starts. If it changes, the sender has restarted, and its lanes begin anew.
//!
//! The echo returns the newest stamp of the other end and how long it was held here. So the other end can compute the
//! round trip without correct clocks: now - echo stamp - echo hold.

use crate::bytes::Reader;
use crate::{Loss, Malformed};

const I_HEAR_YOU: u8 = 0x01;
const ANSWER_NOW: u8 = 0x02;
const CLOSING: u8 = 0x04;
const ACTIVE: u8 = 0x08;
const TAKES_REPAIR: u8 = 0x10;
const KNOWS_PATHS: u8 = 0x20;
const DOUBTS: u8 = 0x40;
const LETS_WAIT: u8 = 0x80;
/// The hold value that means that there is nothing to echo.
const NO_ECHO: u32 = u32::MAX;

/// The state of a link as one end sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The sender hears the receiver.
    pub i_hear_you: bool,
    /// The receiver must answer without waiting for its interval.
    pub answer_now: bool,
    /// The sender is going away.
    pub closing: bool,
    /// The link carries data; hellos are frequent.
    pub active: bool,
    /// The sender accepts repair packets of the real-time lane.
    pub takes_repair: bool,
    /// The sender supports sessions of further paths, and does not take them for a move.
    pub knows_paths: bool,
    /// The sender has heard nothing on this path for suspiciously long, but has not given it up.
    pub doubts: bool,
    /// Acknowledgements of the sender's reliable lane may wait for the next packet at present, because its windows have
    /// room.
    pub lets_wait: bool,
    /// The sender's present interval between hellos.
    pub interval_ms: u16,
    /// The sender's clock.
    pub stamp_us: u32,
    /// The receiver's newest stamp, if one has arrived.
    pub echo: Option<Echo>,
    /// The share lost in the direction from the receiver to the sender, as measured by the sender.
    pub loss_in: Loss,
    /// The number of the sender's present start.
    pub boot: u32,
    /// Number of the receiver's datagrams that have arrived at the sender since its start; wraps.
    pub arrived: u32,
    /// Number of the receiver's datagrams that were lost, and are not just late; wraps.
    pub lost: u32,
}

/// A clock stamp that is returned to its maker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    /// The stamp, by the clock of its maker.
    pub stamp_us: u32,
    /// How long the stamp was held before it was returned; saturates one below 2^32.
    pub hold_us: u32,
}

impl Hello {
    /// Number of bytes of the body.
    pub const BYTES: usize = 29;

    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<Hello, Malformed> {
        let mut r = Reader::new(body);
        let flags = r.u8()?;
        let interval_ms = r.u16()?;
        let stamp_us = r.u32()?;
        let echo = Echo {
            stamp_us: r.u32()?,
            hold_us: r.u32()?,
        };
        let loss_in = Loss(r.u16()?);
        let boot = r.u32()?;
        let (arrived, lost) = (r.u32()?, r.u32()?);
        r.finish()?;
        Ok(Hello {
            i_hear_you: flags & I_HEAR_YOU != 0,
            answer_now: flags & ANSWER_NOW != 0,
            closing: flags & CLOSING != 0,
            active: flags & ACTIVE != 0,
            takes_repair: flags & TAKES_REPAIR != 0,
            knows_paths: flags & KNOWS_PATHS != 0,
            doubts: flags & DOUBTS != 0,
            lets_wait: flags & LETS_WAIT != 0,
            interval_ms,
            stamp_us,
            echo: (echo.hold_us != NO_ECHO).then_some(echo),
            loss_in,
            boot,
            arrived,
            lost,
        })
    }

    /// Returns the wire format of the body.
    pub fn to_bytes(&self) -> [u8; Hello::BYTES] {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let (echo_stamp_us, echo_hold_us) = match self.echo {
            Some(echo) => (echo.stamp_us, echo.hold_us.min(NO_ECHO - 1)),
            None => (0, NO_ECHO),
        };
        let mut body = [0; Hello::BYTES];
        body[0] = flag(self.i_hear_you, I_HEAR_YOU)
            | flag(self.answer_now, ANSWER_NOW)
            | flag(self.closing, CLOSING)
            | flag(self.active, ACTIVE)
            | flag(self.takes_repair, TAKES_REPAIR)
            | flag(self.knows_paths, KNOWS_PATHS)
            | flag(self.doubts, DOUBTS)
            | flag(self.lets_wait, LETS_WAIT);
        body[1..3].copy_from_slice(&self.interval_ms.to_be_bytes());
        body[3..7].copy_from_slice(&self.stamp_us.to_be_bytes());
        body[7..11].copy_from_slice(&echo_stamp_us.to_be_bytes());
        body[11..15].copy_from_slice(&echo_hold_us.to_be_bytes());
        body[15..17].copy_from_slice(&self.loss_in.0.to_be_bytes());
        body[17..21].copy_from_slice(&self.boot.to_be_bytes());
        body[21..25].copy_from_slice(&self.arrived.to_be_bytes());
        body[25..29].copy_from_slice(&self.lost.to_be_bytes());
        body
    }
}
