//! The class of a packet: the link protocol of each hop, the routing, and the priority.
//!
//! ```text
//!   7   6   5   4   3   2   1   0
//! +-------+-----------+-----------+
//! | link  |  routing  | priority  |
//! +-------+-----------+-----------+
//! ```

use crate::Malformed;

/// The protocol that carries a packet over each link. [Amir06 §III-A], [Amir03 §IV]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkProtocol {
    /// No order, no recovery, no buffer.
    #[default]
    BestEffort,
    /// Recovery within the deadline. [Amir06 §IV-A]
    RealTime,
    /// Recovery until it arrives, with congestion control. [Amir03 §IV]
    Reliable,
}

/// The rule that decides the path of a packet. [Amir06 §IV-B]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Routing {
    /// The fewest hops.
    #[default]
    Hops,
    /// The least latency.
    Latency,
    /// The least loss.
    Loss,
    /// The least expected latency, recovery included. [Amir06 §IV-B]
    ExpectedLatency,
    /// The widest path. [Liu04 §IV]
    Width,
    /// The path in the source's stamp.
    Stamped,
}

/// Link protocol, routing and priority in one byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class {
    /// The protocol of each hop.
    pub link: LinkProtocol,
    /// The rule for the path.
    pub routing: Routing,
    /// The priority: 0, the lowest, to [`Class::PRIORITY_MAX`]. Higher values count as the highest.
    pub priority: u8,
}

impl LinkProtocol {
    /// All protocols, in wire order.
    pub const ALL: [LinkProtocol; 3] = [
        LinkProtocol::BestEffort,
        LinkProtocol::RealTime,
        LinkProtocol::Reliable,
    ];

    /// Returns a short stable word for people and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            LinkProtocol::BestEffort => "best-effort",
            LinkProtocol::RealTime => "real-time",
            LinkProtocol::Reliable => "reliable",
        }
    }
}

impl Routing {
    /// All routings, in wire order.
    pub const ALL: [Routing; 6] = [
        Routing::Hops,
        Routing::Latency,
        Routing::Loss,
        Routing::ExpectedLatency,
        Routing::Width,
        Routing::Stamped,
    ];

    /// Returns a short stable word for people and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Routing::Hops => "hops",
            Routing::Latency => "latency",
            Routing::Loss => "loss",
            Routing::ExpectedLatency => "expected-latency",
            Routing::Width => "width",
            Routing::Stamped => "stamped",
        }
    }
}

impl Class {
    /// The highest priority.
    pub const PRIORITY_MAX: u8 = 7;

    /// Returns the class as its byte on the wire.
    pub const fn to_byte(self) -> u8 {
        let link = match self.link {
            LinkProtocol::BestEffort => 0,
            LinkProtocol::RealTime => 1,
            LinkProtocol::Reliable => 2,
        };
        let routing = match self.routing {
            Routing::Hops => 0,
            Routing::Latency => 1,
            Routing::Loss => 2,
            Routing::ExpectedLatency => 3,
            Routing::Width => 4,
            Routing::Stamped => 7,
        };
        let priority = if self.priority > Class::PRIORITY_MAX {
            Class::PRIORITY_MAX
        } else {
            self.priority
        };
        link << 6 | routing << 3 | priority
    }

    /// Reads a class. Reserved values give [`Malformed::Value`].
    pub const fn from_byte(byte: u8) -> Result<Class, Malformed> {
        let link = match byte >> 6 {
            0 => LinkProtocol::BestEffort,
            1 => LinkProtocol::RealTime,
            2 => LinkProtocol::Reliable,
            _ => return Err(Malformed::Value),
        };
        let routing = match byte >> 3 & 7 {
            0 => Routing::Hops,
            1 => Routing::Latency,
            2 => Routing::Loss,
            3 => Routing::ExpectedLatency,
            4 => Routing::Width,
            7 => Routing::Stamped,
            _ => return Err(Malformed::Value),
        };
        Ok(Class {
            link,
            routing,
            priority: byte & 7,
        })
    }
}

impl From<Class> for u8 {
    fn from(class: Class) -> u8 {
        class.to_byte()
    }
}

impl TryFrom<u8> for Class {
    type Error = Malformed;
    fn try_from(byte: u8) -> Result<Class, Malformed> {
        Class::from_byte(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_exactly_one_class_or_reserved() {
        let mut valid = 0;
        for byte in 0..=255u8 {
            let reserved = byte >> 6 == 3 || matches!(byte >> 3 & 7, 5 | 6);
            match Class::from_byte(byte) {
                Ok(class) => {
                    assert_eq!(class.to_byte(), byte);
                    valid += 1;
                }
                Err(error) => assert_eq!((error, reserved), (Malformed::Value, true), "{byte:#x}"),
            }
        }
        assert_eq!(valid, LinkProtocol::ALL.len() * Routing::ALL.len() * 8);
    }

    #[test]
    fn bits_stand_where_the_figure_says() {
        let class = Class {
            link: LinkProtocol::RealTime,
            routing: Routing::ExpectedLatency,
            priority: 5,
        };
        assert_eq!(class.to_byte(), 0b01_011_101);
        let highest = Class {
            priority: 200,
            ..Class::default()
        };
        assert_eq!(highest.to_byte(), 7);
    }
}
