//! The messages of a gateway to an exit, over the overlay: the gateway asks the exit to carry a connection, or
//! datagrams, on to a target on the Internet.
//!
//! ```text
//!   gateway                                        exit
//!     | == stream to port 1080 ====================> |
//!     | -- Ask(version, address) ------------------> |
//!     | <--------------------- Answer(version, code) |
//!     | <================= bytes ==================> |
//!
//!     | == datagrams to and from port 1081: an address, then the payload
//! ```
//!
//! An address is encoded as in SOCKS [RFC 1928 §5]: a type (1 IPv4, 3 name, 4 IPv6), the address (4 bytes; length and
//! name; 16 bytes), the port. Codes are SOCKS's replies [RFC 1928 §6].

use crate::bytes::{Reader, Writer};
use crate::{Full, Malformed};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The supported version.
pub const VERSION: u8 = 1;
/// The virtual port at which an exit accepts streams.
pub const STREAM_PORT: u16 = 1080;
/// The virtual port at which an exit accepts datagrams.
pub const DATAGRAM_PORT: u16 = 1081;
/// The longest address: type, length, 255 characters, port.
pub const ADDRESS_BYTES_MAX: usize = 1 + 1 + 255 + 2;
/// The length of the longest request.
pub const ASK_BYTES_MAX: usize = 1 + ADDRESS_BYTES_MAX;
/// The length of an answer.
pub const ANSWER_BYTES: usize = 2;

const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// A host: by address, or by a name that the exit resolves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host<'a> {
    /// An address.
    Ip(IpAddr),
    /// A name: 1 to 255 printable characters, without spaces.
    Name(&'a str),
}

/// A host and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address<'a> {
    /// The host.
    pub host: Host<'a>,
    /// The port.
    pub port: u16,
}

/// The answer of an exit, and of a gateway to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The connection is open.
    Granted,
    /// The connection failed for another reason than those below.
    Failed,
    /// The target is not on the list of allowed targets.
    NotAllowed,
    /// There is no route to the network, the overlay's or another.
    NetworkUnreachable,
    /// The host does not exist, or there is no route to it.
    HostUnreachable,
    /// Nothing listens at the port.
    Refused,
    /// The host has not answered in time.
    TimedOut,
    /// The requested function is not supported.
    NotSupported,
    /// Addresses of this type are not supported.
    AddressType,
    /// A code that this program does not know.
    Other(u8),
}

impl Code {
    const ALL: [Code; 9] = [
        Code::Granted,
        Code::Failed,
        Code::NotAllowed,
        Code::NetworkUnreachable,
        Code::HostUnreachable,
        Code::Refused,
        Code::TimedOut,
        Code::NotSupported,
        Code::AddressType,
    ];

    /// Returns the number on the wire.
    pub fn to_byte(self) -> u8 {
        match self {
            Code::Other(byte) => byte,
            known => Code::ALL
                .iter()
                .position(|code| *code == known)
                .map_or(1, |place| place as u8),
        }
    }

    /// Returns the code for a number on the wire.
    pub fn from_byte(byte: u8) -> Code {
        let known = Code::ALL.get(usize::from(byte));
        known.copied().unwrap_or(Code::Other(byte))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Code::Granted => "granted",
            Code::Failed => "it failed",
            Code::NotAllowed => "the exit does not list the target: see `[[exit]] allow` there",
            Code::NetworkUnreachable => "the network is unreachable",
            Code::HostUnreachable => "the host is unreachable, or unknown",
            Code::Refused => "the target refuses connections",
            Code::TimedOut => "the target has not answered in time",
            Code::NotSupported => "this is not offered",
            Code::AddressType => "addresses of this type are not understood",
            Code::Other(code) => return write!(f, "code {code}"),
        })
    }
}

impl<'a> Address<'a> {
    /// Reads an address and leaves the rest. Returns [`Malformed::Short`] if more bytes are needed.
    pub fn read(r: &mut Reader<'a>) -> Result<Address<'a>, Malformed> {
        let host = match r.u8()? {
            IPV4 => Host::Ip(Ipv4Addr::from(r.array::<4>()?).into()),
            IPV6 => Host::Ip(Ipv6Addr::from(r.array::<16>()?).into()),
            NAME => {
                let len = r.u8()?;
                let name = core::str::from_utf8(r.take(len.into())?);
                let name = name.map_err(|_| Malformed::Text)?;
                if !is_name(name) {
                    return Err(Malformed::Text);
                }
                Host::Name(name)
            }
            _ => return Err(Malformed::Kind),
        };
        Ok(Address {
            host,
            port: r.u16()?,
        })
    }

    /// Writes the address.
    pub fn write(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        match self.host {
            Host::Ip(IpAddr::V4(ip)) => {
                w.u8(IPV4)?;
                w.put(&ip.octets())?;
            }
            Host::Ip(IpAddr::V6(ip)) => {
                w.u8(IPV6)?;
                w.put(&ip.octets())?;
            }
            Host::Name(name) => {
                w.put(&[NAME, u8::try_from(name.len()).map_err(|_| Full)?])?;
                w.put(name.as_bytes())?;
            }
        }
        w.u16(self.port)
    }

    /// Reads a request at the front of the bytes of a stream. Returns the address and the number of bytes taken, or
    /// [`Malformed::Short`] if more bytes are needed.
    pub fn parse_ask(bytes: &'a [u8]) -> Result<(Address<'a>, usize), Malformed> {
        let mut r = Reader::new(bytes);
        if r.u8()? != VERSION {
            return Err(Malformed::Version);
        }
        let address = Address::read(&mut r)?;
        Ok((address, bytes.len() - r.rest().len()))
    }

    /// Writes a request at the front of `bytes` and returns its length.
    pub fn emit_ask(&self, bytes: &mut [u8]) -> Result<usize, Full> {
        let mut w = Writer::new(bytes);
        w.u8(VERSION)?;
        self.write(&mut w)?;
        Ok(w.len())
    }
}

impl From<SocketAddr> for Address<'static> {
    fn from(addr: SocketAddr) -> Address<'static> {
        Address {
            host: Host::Ip(addr.ip().to_canonical()),
            port: addr.port(),
        }
    }
}

/// Reads an exit's answer.
pub fn parse_answer(bytes: [u8; ANSWER_BYTES]) -> Result<Code, Malformed> {
    match bytes {
        [VERSION, code] => Ok(Code::from_byte(code)),
        _ => Err(Malformed::Version),
    }
}

/// Returns an exit's answer as bytes.
pub fn emit_answer(code: Code) -> [u8; ANSWER_BYTES] {
    [VERSION, code.to_byte()]
}

/// Returns true for a valid host name, which is safe in a log and in a question to a name server.
fn is_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

impl fmt::Display for Address<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            Host::Ip(ip) => SocketAddr::new(ip, self.port).fmt(f),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vectors() -> [(Address<'static>, &'static [u8]); 3] {
        let address = |host, port| Address { host, port };
        [
            (
                address(Host::Ip(Ipv4Addr::new(10, 7, 0, 3).into()), 443),
                &[1, 1, 10, 7, 0, 3, 1, 0xbb],
            ),
            (
                address(Host::Name("web.sinew"), 80),
                b"\x01\x03\x09web.sinew\0\x50",
            ),
            (
                address(Host::Ip(Ipv6Addr::LOCALHOST.into()), 1),
                &[1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1],
            ),
        ]
    }

    #[test]
    fn questions_are_these_bytes_at_every_length() {
        for (address, bytes) in vectors() {
            let mut room = [0; ASK_BYTES_MAX];
            let len = address.emit_ask(&mut room).unwrap();
            assert_eq!(&room[..len], bytes, "{address}");
            assert_eq!(Address::parse_ask(bytes), Ok((address, len)));
            let more = [bytes, b"more"].concat();
            assert_eq!(Address::parse_ask(&more), Ok((address, len)));
            for short in 0..len {
                assert_eq!(Address::parse_ask(&bytes[..short]), Err(Malformed::Short));
                assert_eq!(address.emit_ask(&mut room[..short]), Err(Full));
            }
        }
    }

    #[test]
    fn nonsense_is_refused_and_answers_keep_their_code() {
        assert_eq!(Address::parse_ask(&[2, 1]), Err(Malformed::Version));
        assert_eq!(Address::parse_ask(&[1, 2]), Err(Malformed::Kind));
        for name in [
            &b"\0"[..],
            b"\x01 ",
            b"\x01\n",
            b"\x02\xc3\xa9",
            b"\x01\xff",
        ] {
            let bytes = [&[1, 3], name, &[0, 80]].concat();
            assert_eq!(Address::parse_ask(&bytes), Err(Malformed::Text), "{name:?}");
        }
        for byte in 0..=255 {
            let code = Code::from_byte(byte);
            assert_eq!(parse_answer(emit_answer(code)), Ok(code));
            assert_eq!(code.to_byte(), byte);
        }
        assert_eq!(parse_answer([0, 0]), Err(Malformed::Version));
    }

    proptest! {
        #[test]
        fn whatever_is_understood_is_written_alike(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            if let Ok((address, used)) = Address::parse_ask(&bytes) {
                let mut room = [0; ASK_BYTES_MAX];
                let len = address.emit_ask(&mut room).unwrap();
                prop_assert_eq!(&room[..len], &bytes[..used]);
            }
        }
    }
}
