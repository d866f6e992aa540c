//! PCP, the Port Control Protocol: the operation MAP for UDP, and announcements. [RFC 6887 §7, §11, §14.1]
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-+-------------+---------------+---------------+
//! |  version = 2  |R|  operation  |   reserved    | result, if R  |
//! +---------------+-+-------------+---------------+---------------+
//! |                         lifetime, s                           |
//! +---------------------------------------------------------------+
//! |  request: the client's address (16 bytes), IPv4 as ::ffff:... |
//! |  answer:  epoch, s (4), reserved (12)                         |
//! +---------------------------------------------------------------+
//! |                       nonce (12 bytes)                        | MAP only
//! +---------------+-----------------------------------------------+
//! |   protocol    |                   reserved                    |
//! +---------------+---------------+-------------------------------+
//! |         internal port         |         external port         |
//! +-------------------------------+-------------------------------+
//! |                 external address (16 bytes)                   |
//! +---------------------------------------------------------------+
//! ```
//! A request contains the wanted external port and address, or zeros for any; an answer contains the assigned ones.
//! Lifetime 0 releases a mapping.

use super::{ANSWER, MESSAGE_MAX, UDP};
use crate::bytes::{Reader, Writer};
use crate::{Endpoint, Full, Malformed};

/// The version of these messages.
pub const VERSION: u8 = 2;
/// Number of bytes of a nonce.
pub const NONCE_BYTES: usize = 12;
/// Number of bytes of a request.
pub const REQUEST_BYTES: usize = HEADER_BYTES + MAP_BYTES;
const HEADER_BYTES: usize = 24;
const MAP_BYTES: usize = 36;
const ANNOUNCE: u8 = 0;
const MAP: u8 = 1;

/// A request for a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The lifetime of the mapping; 0 releases it.
    pub lifetime_s: u32,
    /// The address from which this message is sent.
    pub client: [u8; 16],
    /// The nonce, which permits its holder to change the mapping.
    pub nonce: [u8; NONCE_BYTES],
    /// The UDP port of the client.
    pub internal_port: u16,
    /// The wanted external address and port.
    pub external: Endpoint,
}

impl Request {
    /// Returns the wire format.
    pub fn to_bytes(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        let mut w = Writer::new(&mut bytes);
        self.emit(&mut w)
            .expect("the length is the sum of its fields");
        bytes
    }

    fn emit(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.put(&[VERSION, MAP, 0, 0])?;
        w.u32(self.lifetime_s)?;
        w.put(&self.client)?;
        let map = Map {
            nonce: self.nonce,
            internal_port: self.internal_port,
            external: self.external,
        };
        map.append(w)
    }

    /// Reads a request, as a router does; tests contain routers.
    pub fn parse(bytes: &[u8]) -> Result<Request, Malformed> {
        let mut r = Reader::new(bytes);
        if r.u8()? != VERSION {
            return Err(Malformed::Version);
        }
        if r.u8()? != MAP {
            return Err(Malformed::Kind);
        }
        r.u16()?;
        let (lifetime_s, client) = (r.u32()?, r.array()?);
        let map = Map::read(&mut r)?;
        Ok(Request {
            lifetime_s,
            client,
            nonce: map.nonce,
            internal_port: map.internal_port,
            external: map.external,
        })
    }
}

/// An answer or an announcement of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 0 for success, or the reason of the failure: see [`reason`].
    pub result: u8,
    /// How long the mapping, or the error, is valid.
    pub lifetime_s: u32,
    /// How long the router has known its mappings.
    pub epoch_s: u32,
    /// The mapping; `None` in an announcement.
    pub map: Option<Map>,
}

/// A mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    /// The nonce of the request.
    pub nonce: [u8; NONCE_BYTES],
    /// The UDP port of the client.
    pub internal_port: u16,
    /// The external address and port that lead to it.
    pub external: Endpoint,
}

impl Answer {
    /// Reads a datagram; options after it are skipped.
    pub fn parse(bytes: &[u8]) -> Result<Answer, Malformed> {
        // [RFC 6887 §8.3]
        if bytes.len() > MESSAGE_MAX || !bytes.len().is_multiple_of(4) {
            return Err(Malformed::Length);
        }
        let mut r = Reader::new(bytes);
        if r.u8()? != VERSION {
            return Err(Malformed::Version);
        }
        let operation = r.u8()?;
        r.u8()?;
        let (result, lifetime_s, epoch_s) = (r.u8()?, r.u32()?, r.u32()?);
        r.array::<12>()?;
        let map = match operation.checked_sub(ANSWER) {
            Some(ANNOUNCE) => None,
            Some(MAP) => Some(Map::read(&mut r)?),
            _ => return Err(Malformed::Kind),
        };
        Ok(Answer {
            result,
            lifetime_s,
            epoch_s,
            map,
        })
    }

    /// Writes the answer. Returns its length, at most [`REQUEST_BYTES`].
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, Full> {
        let mut w = Writer::new(buffer);
        let operation = self.map.map_or(ANNOUNCE, |_| MAP);
        w.put(&[VERSION, ANSWER | operation, 0, self.result])?;
        w.u32(self.lifetime_s)?;
        w.u32(self.epoch_s)?;
        w.put(&[0; 12])?;
        if let Some(map) = self.map {
            map.append(&mut w)?;
        }
        Ok(w.len())
    }
}

impl Map {
    fn append(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.put(&self.nonce)?;
        w.put(&[UDP, 0, 0, 0])?;
        w.u16(self.internal_port)?;
        w.u16(self.external.port)?;
        w.put(&self.external.ip)
    }

    fn read(r: &mut Reader<'_>) -> Result<Map, Malformed> {
        let nonce = r.array()?;
        if r.u8()? != UDP {
            return Err(Malformed::Kind);
        }
        r.u24()?;
        let (internal_port, port) = (r.u16()?, r.u16()?);
        Ok(Map {
            nonce,
            internal_port,
            external: Endpoint {
                ip: r.array()?,
                port,
            },
        })
    }
}

/// Returns the meaning of a result other than 0. [RFC 6887 §7.4]
pub fn reason(result: u8) -> &'static str {
    match result {
        1 => "it does not speak this version",
        2 => "it does not allow that",
        3 => "it calls the request malformed",
        4 => "it does not map ports",
        5 | 6 => "it does not understand an option",
        7 => "its network has failed",
        8 => "it has no room for another mapping",
        9 => "it does not map UDP",
        10 => "this host has as many mappings as it may",
        11 => "it cannot give that port",
        12 => "it sees this host at another address: there is a second NAT in between",
        _ => "it gives no known reason",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: [u8; NONCE_BYTES] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

    fn ipv4(address: [u8; 4]) -> [u8; 16] {
        let mut ip = [0; 16];
        ip[10..12].fill(0xff);
        ip[12..].copy_from_slice(&address);
        ip
    }

    /// A request of 192.168.1.2 for port 7700 for an hour, and the answer: 198.51.100.7, port 40001, for half an hour.
    #[rustfmt::skip]
    const REQUEST: [u8; REQUEST_BYTES] = [
        2, 1, 0, 0,  0, 0, 0x0e, 0x10,
        0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0xff, 0xff,  192, 168, 1, 2,
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
        17, 0, 0, 0,  0x1e, 0x14,  0x1e, 0x14,
        0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0xff, 0xff,  0, 0, 0, 0,
    ];
    #[rustfmt::skip]
    const GIVEN: [u8; REQUEST_BYTES] = [
        2, 0x81, 0, 0,  0, 0, 0x07, 0x08,
        0, 1, 0x51, 0x80,  0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
        17, 0, 0, 0,  0x1e, 0x14,  0x9c, 0x41,
        0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0xff, 0xff,  198, 51, 100, 7,
    ];

    fn emitted(answer: Answer) -> Vec<u8> {
        let mut buffer = [0xa5; REQUEST_BYTES];
        let len = answer.emit(&mut buffer).unwrap();
        assert_eq!(answer.emit(&mut buffer[..len - 1]), Err(Full));
        buffer[..len].to_vec()
    }

    #[test]
    fn a_request_is_these_bytes() {
        let request = Request {
            lifetime_s: 3_600,
            client: ipv4([192, 168, 1, 2]),
            nonce: NONCE,
            internal_port: 7_700,
            external: Endpoint {
                ip: ipv4([0; 4]),
                port: 7_700,
            },
        };
        assert_eq!(request.to_bytes(), REQUEST);
        assert_eq!(Request::parse(&REQUEST), Ok(request));
        for length in 0..REQUEST.len() {
            assert_eq!(Request::parse(&REQUEST[..length]), Err(Malformed::Short));
        }
    }

    #[test]
    fn an_answer_is_these_bytes() {
        let answer = Answer {
            result: 0,
            lifetime_s: 1_800,
            epoch_s: 86_400,
            map: Some(Map {
                nonce: NONCE,
                internal_port: 7_700,
                external: Endpoint {
                    ip: ipv4([198, 51, 100, 7]),
                    port: 40_001,
                },
            }),
        };
        assert_eq!(Answer::parse(&GIVEN), Ok(answer));
        assert_eq!(emitted(answer), GIVEN);
        for length in 0..GIVEN.len() {
            let cut = Answer::parse(&GIVEN[..length]).unwrap_err();
            let expected = match length % 4 {
                0 => Malformed::Short,
                _ => Malformed::Length,
            };
            assert_eq!(cut, expected);
        }
        // This is an option that was not requested.
        let longer = [&GIVEN[..], &[0x80, 0, 0, 4, 1, 2, 3, 4]].concat();
        assert_eq!(Answer::parse(&longer), Ok(answer));
        let too_long = [&GIVEN[..], &[0; MESSAGE_MAX]].concat();
        assert_eq!(Answer::parse(&too_long), Err(Malformed::Length));
        let mut tcp = GIVEN;
        tcp[36] = 6;
        assert_eq!(Answer::parse(&tcp), Err(Malformed::Kind));
        assert_eq!(Answer::parse(&REQUEST), Err(Malformed::Kind), "a request");
    }

    #[test]
    fn an_announcement_is_these_bytes() {
        let mut bytes = [0; HEADER_BYTES];
        (bytes[0], bytes[1], bytes[11]) = (2, 0x80, 5);
        let announced = Answer {
            result: 0,
            lifetime_s: 0,
            epoch_s: 5,
            map: None,
        };
        assert_eq!(Answer::parse(&bytes), Ok(announced));
        assert_eq!(emitted(announced), bytes);
    }
}
