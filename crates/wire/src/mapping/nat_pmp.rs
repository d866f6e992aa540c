//! NAT-PMP, the NAT Port Mapping Protocol. [RFC 6886 §3]
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+
//! |  version = 0  | operation = 0 |                    the router's address outside?
//! +---------------+---------------+-------------------------------+
//! |  version = 0  | operation = 1 |           reserved            | map a UDP port
//! +---------------+---------------+-------------------------------+
//! |         internal port         |         external port         |
//! +-------------------------------+-------------------------------+
//! |                         lifetime, s                           |
//! +---------------------------------------------------------------+
//!
//! +---------------+---------------+-------------------------------+
//! |  version = 0  |128 + operation|            result             | answers
//! +---------------+---------------+-------------------------------+
//! |                           epoch, s                            |
//! +---------------------------------------------------------------+
//! |  operation 0: the address; 1: both ports and the lifetime     |
//! +---------------------------------------------------------------+
//! ```
//! A router also sends the first answer without a request when it has restarted. An answer with a result other than 0
//! may end after the epoch.

use super::ANSWER;
use crate::bytes::{Reader, Writer};
use crate::{Full, Malformed};

/// The version of these messages.
pub const VERSION: u8 = 0;
/// The maximum length of a message.
pub const MESSAGE_BYTES: usize = 16;
const ADDRESS: u8 = 0;
const MAP_UDP: u8 = 1;

/// A request of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A request for the router's outside address.
    Address,
    /// A request for a mapping.
    Map(Map),
}

/// A UDP port of the node, and the port outside: the requested one, 0 for any, or the assigned one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    /// The node's port.
    pub internal_port: u16,
    /// The router's port.
    pub external_port: u16,
    /// The lifetime of the mapping; 0 releases it.
    pub lifetime_s: u32,
}

impl Request {
    /// Writes the request. Returns its length, at most [`MESSAGE_BYTES`].
    pub fn emit(self, buffer: &mut [u8]) -> Result<usize, Full> {
        let mut w = Writer::new(buffer);
        match self {
            Request::Address => w.put(&[VERSION, ADDRESS])?,
            Request::Map(map) => {
                w.put(&[VERSION, MAP_UDP, 0, 0])?;
                map.append(&mut w)?;
            }
        }
        Ok(w.len())
    }

    /// Reads a request, as a router does; tests contain routers.
    pub fn parse(bytes: &[u8]) -> Result<Request, Malformed> {
        let mut r = Reader::new(bytes);
        if r.u8()? != VERSION {
            return Err(Malformed::Version);
        }
        match r.u8()? {
            ADDRESS => Ok(Request::Address),
            MAP_UDP => {
                r.u16()?;
                Map::read(&mut r).map(Request::Map)
            }
            _ => Err(Malformed::Kind),
        }
    }
}

/// An answer or an announcement of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 0 for success, or the reason of the failure: see [`reason`].
    pub result: u16,
    /// How long the router has known its mappings.
    pub epoch_s: u32,
    /// The result of the request; `None` if the result code is not 0.
    pub given: Option<Given>,
}

/// The content of a successful answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// The router's outside address.
    Address([u8; 4]),
    /// A mapping.
    Map(Map),
}

impl Answer {
    /// Reads a datagram; bytes after the answer are skipped.
    pub fn parse(bytes: &[u8]) -> Result<Answer, Malformed> {
        let mut r = Reader::new(bytes);
        if r.u8()? != VERSION {
            return Err(Malformed::Version);
        }
        let operation = r.u8()?.checked_sub(ANSWER).ok_or(Malformed::Kind)?;
        let (result, epoch_s) = (r.u16()?, r.u32()?);
        let given = match (result, operation) {
            (0, ADDRESS) => Some(Given::Address(r.array()?)),
            (0, MAP_UDP) => Some(Given::Map(Map::read(&mut r)?)),
            (0, _) => return Err(Malformed::Kind),
            _ => None,
        };
        Ok(Answer {
            result,
            epoch_s,
            given,
        })
    }

    /// Writes the answer; a refusal is written as one of a mapping. Returns its length, at most [`MESSAGE_BYTES`].
    pub fn emit(self, buffer: &mut [u8]) -> Result<usize, Full> {
        let operation = match self.given {
            Some(Given::Address(_)) => ADDRESS,
            Some(Given::Map(_)) | None => MAP_UDP,
        };
        let mut w = Writer::new(buffer);
        w.put(&[VERSION, ANSWER | operation])?;
        w.u16(self.result)?;
        w.u32(self.epoch_s)?;
        match self.given {
            Some(Given::Address(address)) => w.put(&address)?,
            Some(Given::Map(map)) => map.append(&mut w)?,
            None => {}
        }
        Ok(w.len())
    }
}

impl Map {
    fn read(r: &mut Reader<'_>) -> Result<Map, Malformed> {
        Ok(Map {
            internal_port: r.u16()?,
            external_port: r.u16()?,
            lifetime_s: r.u32()?,
        })
    }

    fn append(self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.u16(self.internal_port)?;
        w.u16(self.external_port)?;
        w.u32(self.lifetime_s)
    }
}

/// Returns the meaning of a result other than 0. [RFC 6886 §3.5]
pub fn reason(result: u16) -> &'static str {
    match result {
        1 => "it does not speak this version",
        2 => "it does not allow that",
        3 => "its network has failed",
        4 => "it has no room for another mapping",
        5 => "it does not map ports",
        _ => "it gives no known reason",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emitted(emit: impl Fn(&mut [u8]) -> Result<usize, Full>) -> Vec<u8> {
        let mut buffer = [0xa5; MESSAGE_BYTES];
        let len = emit(&mut buffer).unwrap();
        assert_eq!(emit(&mut buffer[..len - 1]), Err(Full));
        buffer[..len].to_vec()
    }

    #[test]
    fn requests_are_these_bytes() {
        let map = Request::Map(Map {
            internal_port: 7_700,
            external_port: 40_001,
            lifetime_s: 7_200,
        });
        let bytes = [0, 1, 0, 0, 0x1e, 0x14, 0x9c, 0x41, 0, 0, 0x1c, 0x20];
        assert_eq!(emitted(|b| map.emit(b)), bytes);
        assert_eq!(Request::parse(&bytes), Ok(map));
        for length in 2..bytes.len() {
            assert_eq!(Request::parse(&bytes[..length]), Err(Malformed::Short));
        }
        assert_eq!(emitted(|b| Request::Address.emit(b)), [0, 0]);
        assert_eq!(Request::parse(&[0, 0]), Ok(Request::Address));
        assert_eq!(Request::parse(&[0, 2]), Err(Malformed::Kind), "of TCP");
    }

    #[test]
    fn answers_are_these_bytes() {
        let address = [0, 128, 0, 0, 0, 0, 0, 5, 198, 51, 100, 7];
        let map = [
            0, 129, 0, 0, 0, 0, 0, 6, 0x1e, 0x14, 0x9c, 0x41, 0, 0, 0x1c, 0x20,
        ];
        let refusal = [0, 129, 0, 2, 0, 0, 0, 7];
        let of = |result, epoch_s, given| Answer {
            result,
            epoch_s,
            given,
        };
        let given = Map {
            internal_port: 7_700,
            external_port: 40_001,
            lifetime_s: 7_200,
        };
        for (bytes, answer) in [
            (
                &address[..],
                of(0, 5, Some(Given::Address([198, 51, 100, 7]))),
            ),
            (&map[..], of(0, 6, Some(Given::Map(given)))),
            (&refusal[..], of(2, 7, None)),
        ] {
            assert_eq!(Answer::parse(bytes), Ok(answer));
            assert_eq!(emitted(|b| answer.emit(b)), bytes);
            for length in 0..bytes.len() {
                assert_eq!(Answer::parse(&bytes[..length]), Err(Malformed::Short));
            }
            let longer = [bytes, &[0xa5; 3]].concat();
            assert_eq!(Answer::parse(&longer), Ok(answer));
        }
        assert_eq!(Answer::parse(&[0, 1, 0, 0]), Err(Malformed::Kind));
        assert_eq!(
            Answer::parse(&[0, 130, 0, 0, 0, 0, 0, 0]),
            Err(Malformed::Kind)
        );
    }
}
