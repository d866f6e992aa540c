//! The options of a client's packets.

use super::{RouteBy, Scheme, StreamControl};
use crate::bytes::{Reader, Writer};
use crate::data::{Class, Routing, TTL_MAX};
use crate::{Aim, Full, Malformed};
use base::Duration;

/// The order in which packets are delivered to a client. A group or a socket sets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// In the order of arrival.
    #[default]
    AsItComes,
    /// In the sender's order; a gap delays the following packets until their deadline.
    InOrder,
    /// In the sender's order and at its pace: a fixed time after they were sent, or, without a given time, as late as
    /// repairs have recently needed. So repaired packets are not delivered in a burst.
    AsSent(Option<Duration>),
}

impl Delivery {
    /// Returns a short stable word.
    pub const fn label(self) -> &'static str {
        match self {
            Delivery::AsItComes => "as-it-comes",
            Delivery::InOrder => "in-order",
            Delivery::AsSent(_) => "as-sent",
        }
    }
}

/// The options of a socket, all at once.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +---------------+---------------+-------------------------------+
/// |    type 3     |     class     |         deadline, us ..       |
/// +---------------+---------------+---------------+---------------+
/// |       .. deadline, us         |   delivery    |      ttl      |
/// +---------------+---------------+---------------+---------------+
/// |                   give up after, ms; 0: the node's own        |
/// +---------------+---------------+-------------------------------+
/// |E|   control   |    scheme     |   the second only with routing "stamped": 1 best,
/// +---------------+---------------+   2 disjoint, 3 disjoint-3, 4 flooding, 5 targeted
/// +---------------+-----------------------------------------------+
/// |              release after, us: only with delivery 3          |
/// +-------------------------------+---------------+---------------+
/// | target, millionths; only      |  most, 255 -  |
/// | with 64 added to the delivery |               |
/// +-------------------------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The link protocol, the routing and the priority.
    pub class: Class,
    /// The scheme by which the node stamps packets of routing "stamped"; `None` for other routings.
    pub scheme: Option<Scheme>,
    /// How long after its sending a packet is useful; whole microseconds on the wire, 0 for no deadline.
    pub deadline: Option<Duration>,
    /// The order in which packets are delivered to this socket.
    pub delivery: Delivery,
    /// The maximum number of hops of a packet: 1 to [`TTL_MAX`].
    pub ttl: u8,
    /// How long the peer may be silent before a stream of this socket ends; whole milliseconds on the wire, `None` for
    /// the node's setting.
    pub give_up: Option<Duration>,
    /// The congestion control of a stream of this socket; `None` for the node's setting.
    pub control: Option<StreamControl>,
    /// E: a stream of this socket to a node that knows this one is open at once, and the bytes written to it are sent
    /// with its opening.
    pub early: bool,
    /// The share of its packets that may stay lost, and the maximum cost of their repair, on each link of their path.
    pub aim: Aim,
}

/// A flag in the byte of the control.
const EARLY: u8 = 0x80;
/// A flag in the byte of the delivery: an aim comes last.
const AIMS: u8 = 0x40;

impl Options {
    /// The time to live for clients that do not set one.
    ///
    /// `// Choice:` the longest possible. A chain of sites may well be 40 hops long, and a node that is farther away
    /// than the time to live is unreachable without any error. The time to live need not limit loops of changing
    /// routes: these last for less than a flooding.
    pub const TTL_DEFAULT: u8 = TTL_MAX;

    /// Returns the routing choice: `None` for stamped packets without a scheme.
    pub fn route_by(&self) -> Option<RouteBy> {
        match (self.class.routing, self.scheme) {
            (Routing::Stamped, scheme) => scheme.map(RouteBy::Stamp),
            (routing, _) => Some(RouteBy::Table(routing)),
        }
    }

    /// Returns the same options with this routing choice.
    pub fn routed_by(mut self, by: impl Into<RouteBy>) -> Options {
        let by = by.into();
        self.class.routing = by.routing();
        self.scheme = by.scheme();
        self
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Options, Malformed> {
        let class = Class::from_byte(r.u8()?)?;
        let deadline_us = r.u32()?;
        let delivery = r.u8()?;
        let ttl = r.u8()?;
        if ttl == 0 || ttl > TTL_MAX {
            return Err(Malformed::Value);
        }
        let give_up_ms = r.u32()?;
        let control = r.u8()?;
        let early = control & EARLY != 0;
        let control = StreamControl::from_byte(control & !EARLY)?;
        let scheme = match class.routing {
            Routing::Stamped => Some(Scheme::from_byte(r.u8()?).ok_or(Malformed::Value)?),
            _ => None,
        };
        let aims = delivery & AIMS != 0;
        let delivery = match delivery & !AIMS {
            0 => Delivery::AsItComes,
            1 => Delivery::InOrder,
            2 => Delivery::AsSent(None),
            3 => Delivery::AsSent(Some(Duration::from_micros(r.u32()?.into()))),
            _ => return Err(Malformed::Value),
        };
        let aim = match aims {
            // An empty aim must not be sent.
            true => Some(Aim::read(r)?)
                .filter(|aim| aim.is_said())
                .ok_or(Malformed::Value)?,
            false => Aim::default(),
        };
        Ok(Options {
            class,
            scheme,
            deadline: (deadline_us != 0).then(|| Duration::from_micros(deadline_us.into())),
            delivery,
            ttl,
            give_up: (give_up_ms != 0).then(|| Duration::from_millis(give_up_ms.into())),
            control,
            early,
            aim,
        })
    }

    pub(super) fn write(self, w: &mut Writer<'_>) -> Result<(), Full> {
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
            Delivery::AsSent(None) => 2,
            Delivery::AsSent(Some(_)) => 3,
        };
        let delivery = delivery | if self.aim.is_said() { AIMS } else { 0 };
        let ttl = self.ttl.clamp(1, TTL_MAX);
        w.put(&[self.class.to_byte(), d0, d1, d2, d3, delivery, ttl])?;
        w.u32(self.give_up.map_or(0, |give_up| {
            let ms = give_up.as_micros() / 1_000;
            u32::try_from(ms).unwrap_or(u32::MAX).max(1)
        }))?;
        w.u8(StreamControl::to_byte(self.control) | if self.early { EARLY } else { 0 })?;
        match (self.class.routing, self.scheme) {
            // There is no scheme, so the node refuses the options.
            (Routing::Stamped, None) => w.u8(0),
            (Routing::Stamped, Some(scheme)) => w.u8(scheme.to_byte()),
            _ => Ok(()),
        }?;
        match self.delivery {
            Delivery::AsSent(Some(after)) => {
                w.u32(u32::try_from(after.as_micros()).unwrap_or(u32::MAX))
            }
            _ => Ok(()),
        }?;
        match self.aim.is_said() {
            true => w.put(&self.aim.to_bytes()),
            false => Ok(()),
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            class: Class::default(),
            scheme: None,
            deadline: None,
            delivery: Delivery::default(),
            ttl: Options::TTL_DEFAULT,
            give_up: None,
            control: None,
            early: false,
            aim: Aim::default(),
        }
    }
}
