//! The messages between a gateway and a relay of AMT. [RFC 7450 §5.1]
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+-----------------------------------------------+
//! |  V=0  | type  |  as the type has it                           |
//! +-------+-------+-----------------------------------------------+
//!  1 Discovery      | 0 (3) | nonce (4) |
//!  2 Advertisement  | 0 (3) | nonce (4) | relay's address (4 or 16) |
//!  3 Request        | bit 0: asks for MLD (1) | 0 (2) | nonce (4) |
//!  4 Query          | bit 1: limit, bit 0: names the gateway (1) | MAC (6) | nonce (4) | IP packet |
//!                   then port (2), address (16), with bit 0
//!  5 Update         | 0 (1) | MAC (6) | nonce (4) | IP packet |
//!  6 Data           | 0 (1) | IP packet |
//!  7 Teardown       | 0 (1) | MAC (6) | nonce (4) | port (2) | address (16) |
//! ```
//! An address of version 4 is written in 16 bytes as the version 6 address that maps it.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The UDP port of relays.
pub const PORT: u16 = 2_268;
/// Number of bytes of a response MAC.
pub const MAC_BYTES: usize = 6;
/// Number of bytes in front of the packet in Data.
pub const DATA_BYTES: usize = 2;

/// The MAC that makes a gateway's update credible.
pub type Mac = [u8; MAC_BYTES];

/// The bytes are not an AMT message, or are cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no message of AMT")]
pub struct Malformed;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A gateway searches for a relay.
    Discovery {
        /// The gateway's nonce.
        nonce: u32,
    },
    /// A relay answers a Discovery.
    Advertisement {
        /// The nonce of the Discovery.
        nonce: u32,
        /// The address at which to ask the relay.
        relay: IpAddr,
    },
    /// A gateway wants to report its memberships.
    Request {
        /// True if it asks for MLD, not for IGMP.
        is_mld: bool,
        /// The gateway's nonce.
        nonce: u32,
    },
    /// The relay's question, with the values that the answer needs.
    Query {
        /// True if the relay accepts no further members.
        is_full: bool,
        /// The MAC to repeat in updates.
        mac: Mac,
        /// The nonce of the Request.
        nonce: u32,
        /// A general query of IGMP or MLD, with its IP header.
        packet: &'a [u8],
        /// The address at which the relay sees the gateway.
        gateway: Option<SocketAddr>,
    },
    /// A gateway reports its memberships.
    Update {
        /// The MAC of the query.
        mac: Mac,
        /// The gateway's nonce.
        nonce: u32,
        /// A report of IGMP or MLD, with its IP header.
        packet: &'a [u8],
    },
    /// A packet that was sent to a group.
    Data {
        /// A whole packet.
        packet: &'a [u8],
    },
    /// A gateway has got another address: data to the former address must end.
    Teardown {
        /// The MAC of the query to the former address.
        mac: Mac,
        /// The nonce at that time.
        nonce: u32,
        /// The former address.
        gateway: SocketAddr,
    },
}

/// Takes bytes from the front.
fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Result<&'a [u8; N], Malformed> {
    let (front, rest) = bytes.split_first_chunk::<N>().ok_or(Malformed)?;
    *bytes = rest;
    Ok(front)
}

fn nonce(bytes: &mut &[u8]) -> Result<u32, Malformed> {
    take::<4>(bytes).map(|nonce| u32::from_be_bytes(*nonce))
}

fn gateway(bytes: &mut &[u8]) -> Result<SocketAddr, Malformed> {
    let port = u16::from_be_bytes(*take::<2>(bytes)?);
    let address = Ipv6Addr::from(*take::<16>(bytes)?);
    Ok(SocketAddr::new(IpAddr::V6(address).to_canonical(), port))
}

impl<'a> Message<'a> {
    /// Reads a datagram.
    ///
    /// # Errors
    /// The bytes are not a message of this version.
    pub fn parse(mut bytes: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let [first] = *take::<1>(&mut bytes)?;
        if first >> 4 != 0 {
            return Err(Malformed);
        }
        let message = match first & 0xf {
            1 => {
                take::<3>(&mut bytes)?;
                let nonce = nonce(&mut bytes)?;
                Message::Discovery { nonce }
            }
            2 => {
                take::<3>(&mut bytes)?;
                let nonce = nonce(&mut bytes)?;
                let relay = match bytes.len() {
                    4 => IpAddr::from(*take::<4>(&mut bytes)?),
                    _ => IpAddr::from(*take::<16>(&mut bytes)?),
                };
                Message::Advertisement { nonce, relay }
            }
            3 => {
                let [flags, ..] = *take::<3>(&mut bytes)?;
                let is_mld = flags & 1 != 0;
                let nonce = nonce(&mut bytes)?;
                Message::Request { is_mld, nonce }
            }
            4 => {
                let [flags] = *take::<1>(&mut bytes)?;
                let mac = *take::<MAC_BYTES>(&mut bytes)?;
                let nonce = nonce(&mut bytes)?;
                let mut packet = core::mem::take(&mut bytes);
                let mut seen = None;
                if flags & 1 != 0 {
                    let at = packet.len().checked_sub(18).ok_or(Malformed)?;
                    let mut end;
                    (packet, end) = packet.split_at(at);
                    seen = Some(gateway(&mut end)?);
                }
                Message::Query {
                    is_full: flags & 2 != 0,
                    mac,
                    nonce,
                    packet,
                    gateway: seen,
                }
            }
            5 => {
                take::<1>(&mut bytes)?;
                Message::Update {
                    mac: *take::<MAC_BYTES>(&mut bytes)?,
                    nonce: nonce(&mut bytes)?,
                    packet: core::mem::take(&mut bytes),
                }
            }
            6 => {
                take::<1>(&mut bytes)?;
                let packet = core::mem::take(&mut bytes);
                Message::Data { packet }
            }
            7 => {
                take::<1>(&mut bytes)?;
                Message::Teardown {
                    mac: *take::<MAC_BYTES>(&mut bytes)?,
                    nonce: nonce(&mut bytes)?,
                    gateway: gateway(&mut bytes)?,
                }
            }
            _ => return Err(Malformed),
        };
        match bytes.is_empty() {
            true => Ok(message),
            false => Err(Malformed),
        }
    }

    /// Appends the message to `bytes`.
    pub fn emit(&self, bytes: &mut Vec<u8>) {
        let whole = |address: IpAddr| match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        match *self {
            Message::Discovery { nonce } => {
                bytes.extend([1, 0, 0, 0]);
                bytes.extend(nonce.to_be_bytes());
            }
            Message::Advertisement { nonce, relay } => {
                bytes.extend([2, 0, 0, 0]);
                bytes.extend(nonce.to_be_bytes());
                match relay {
                    IpAddr::V4(address) => bytes.extend(address.octets()),
                    IpAddr::V6(address) => bytes.extend(address.octets()),
                }
            }
            Message::Request { is_mld, nonce } => {
                bytes.extend([3, is_mld.into(), 0, 0]);
                bytes.extend(nonce.to_be_bytes());
            }
            Message::Query {
                is_full,
                mac,
                nonce,
                packet,
                gateway,
            } => {
                let flags = u8::from(is_full) << 1 | u8::from(gateway.is_some());
                bytes.extend([4, flags]);
                bytes.extend(mac);
                bytes.extend(nonce.to_be_bytes());
                bytes.extend_from_slice(packet);
                if let Some(gateway) = gateway {
                    bytes.extend(gateway.port().to_be_bytes());
                    bytes.extend(whole(gateway.ip()));
                }
            }
            Message::Update { mac, nonce, packet } => {
                bytes.extend([5, 0]);
                bytes.extend(mac);
                bytes.extend(nonce.to_be_bytes());
                bytes.extend_from_slice(packet);
            }
            Message::Data { packet } => {
                bytes.extend([6, 0]);
                bytes.extend_from_slice(packet);
            }
            Message::Teardown {
                mac,
                nonce,
                gateway,
            } => {
                bytes.extend([7, 0]);
                bytes.extend(mac);
                bytes.extend(nonce.to_be_bytes());
                bytes.extend(gateway.port().to_be_bytes());
                bytes.extend(whole(gateway.ip()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = [1, 2, 3, 4, 5, 6];
    const NONCE: u32 = 0x0a0b_0c0d;

    fn all() -> Vec<(Message<'static>, Vec<u8>)> {
        let gateway: SocketAddr = "192.0.2.7:40000".parse().unwrap();
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7];
        let packet = &[0x45, 0][..];
        let (mac, nonce) = (MAC, NONCE);
        let query = |is_full, gateway| Message::Query {
            is_full,
            mac,
            nonce,
            packet,
            gateway,
        };
        let sealed =
            |kind: u8, flags: u8| [&[kind, flags][..], &MAC, &NONCE.to_be_bytes()].concat();
        vec![
            (
                Message::Discovery { nonce },
                vec![1, 0, 0, 0, 10, 11, 12, 13],
            ),
            (
                Message::Advertisement {
                    nonce,
                    relay: "192.0.2.1".parse().unwrap(),
                },
                vec![2, 0, 0, 0, 10, 11, 12, 13, 192, 0, 2, 1],
            ),
            (
                Message::Request {
                    is_mld: true,
                    nonce,
                },
                vec![3, 1, 0, 0, 10, 11, 12, 13],
            ),
            (query(true, None), [&sealed(4, 2)[..], packet].concat()),
            (
                query(false, Some(gateway)),
                [&sealed(4, 1)[..], packet, &[0x9c, 0x40], &mapped].concat(),
            ),
            (
                Message::Update { mac, nonce, packet },
                [&sealed(5, 0)[..], packet].concat(),
            ),
            (Message::Data { packet }, vec![6, 0, 0x45, 0]),
            (
                Message::Teardown {
                    mac,
                    nonce,
                    gateway,
                },
                [&sealed(7, 0)[..], &[0x9c, 0x40], &mapped].concat(),
            ),
        ]
    }

    #[test]
    fn bytes_and_messages_agree_both_ways() {
        for (message, bytes) in all() {
            assert_eq!(Message::parse(&bytes), Ok(message));
            let mut written = Vec::new();
            message.emit(&mut written);
            assert_eq!(written, bytes, "{message:?}");
        }
    }

    #[test]
    fn what_is_cut_or_of_another_version_is_refused() {
        for (message, bytes) in all() {
            let has_tail = matches!(
                message,
                Message::Query { .. } | Message::Update { .. } | Message::Data { .. }
            );
            for len in 0..bytes.len() {
                let read = Message::parse(&bytes[..len]);
                // A message that ends with a packet may have a shorter one.
                assert!(has_tail || read.is_err(), "{len} {read:?}");
            }
            let mut other = bytes.clone();
            other[0] |= 0x10;
            assert_eq!(Message::parse(&other), Err(Malformed));
            let long = [&bytes[..], &[0]].concat();
            assert!(has_tail || Message::parse(&long).is_err(), "{message:?}");
        }
        assert_eq!(Message::parse(&[8, 0, 0, 0, 0, 0, 0, 0]), Err(Malformed));
    }
}
