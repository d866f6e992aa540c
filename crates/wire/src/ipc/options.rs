//! How a client wants its packets carried.

use crate::Malformed;
use crate::bytes::Reader;
use crate::data::{Class, TTL_MAX};
use base::Duration;

/// In which order packets reach a client. A group or socket chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// As they come.
    #[default]
    AsItComes,
    /// In the sender's order; a gap is waited for until the deadline of what follows it.
    InOrder,
}

/// The options of a socket, all of them at once.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +---------------+---------------+-------------------------------+
/// |    type 3     |     class     |         deadline, us ..       |
/// +---------------+---------------+---------------+---------------+
/// |       .. deadline, us         |   delivery    |      ttl      |
/// +-------------------------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Link protocol, routing, priority.
    pub class: Class,
    /// How long after its sending a packet is of use; whole microseconds on the wire, 0 for none.
    pub deadline: Option<Duration>,
    /// In which order packets are delivered to this socket.
    pub delivery: Delivery,
    /// How many hops a packet may take: 1 to [`TTL_MAX`].
    pub ttl: u8,
}

impl Options {
    /// The time to live of a client that does not choose.
    pub const TTL_DEFAULT: u8 = 32;
    /// Bytes of the body.
    pub(super) const BYTES: usize = 7;

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Options, Malformed> {
        let class = Class::from_byte(r.u8()?)?;
        let deadline_us = r.u32()?;
        let delivery = match r.u8()? {
            0 => Delivery::AsItComes,
            1 => Delivery::InOrder,
            _ => return Err(Malformed::Value),
        };
        let ttl = r.u8()?;
        if ttl == 0 || ttl > TTL_MAX {
            return Err(Malformed::Value);
        }
        Ok(Options {
            class,
            deadline: (deadline_us != 0).then(|| Duration::from_micros(deadline_us.into())),
            delivery,
            ttl,
        })
    }

    pub(super) fn to_bytes(self) -> [u8; Options::BYTES] {
        let deadline_us = self.deadline.map_or(0, |deadline| {
            // A deadline that is shorter than the unit must not become "none".
            u32::try_from(deadline.as_micros())
                .unwrap_or(u32::MAX)
                .max(1)
        });
        let [d0, d1, d2, d3] = deadline_us.to_be_bytes();
        let delivery = match self.delivery {
            Delivery::AsItComes => 0,
            Delivery::InOrder => 1,
        };
        let ttl = self.ttl.clamp(1, TTL_MAX);
        [self.class.to_byte(), d0, d1, d2, d3, delivery, ttl]
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            class: Class::default(),
            deadline: None,
            delivery: Delivery::default(),
            ttl: Options::TTL_DEFAULT,
        }
    }
}
