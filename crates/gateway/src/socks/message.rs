//! The messages of a SOCKS client and the answers to it. [RFC 1928, RFC 1929]
//!
//! ```text
//!   greeting   05 n method..          ──▶      chosen      05 method
//!   user       01 n name.. n word..   ──▶      verdict     01 status      (method 2 only)
//!   request    05 command 00 address  ──▶      reply       05 code 00 address
//!   datagram   00 00 fragment address payload  (over UDP, both ways)
//! ```
//!
//! The bytes of a message may arrive in parts, so each parser returns how many bytes it used, or that it needs more.

use wire::Malformed;
use wire::bytes::{Reader, Writer};
use wire::exit::{ADDRESS_BYTES_MAX, Address, Code};

/// The version of SOCKS.
const VERSION: u8 = 5;
/// The version of the exchange of user and password.
const USER_VERSION: u8 = 1;
/// Maximum length of a message of a client before bytes are carried: a name and a password of 255 bytes each.
pub const SAID_BYTES_MAX: usize = 3 + 2 * 255;
/// Maximum length of a reply.
pub const REPLY_BYTES_MAX: usize = 3 + ADDRESS_BYTES_MAX;
/// Maximum length of the header before a datagram's payload.
pub const UDP_HEADER_BYTES_MAX: usize = 3 + ADDRESS_BYTES_MAX;

/// The method by which a client authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// No authentication.
    None,
    /// User and password.
    User,
}

/// The command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Opens a connection.
    Connect,
    /// Accepts a connection from outside: not supported.
    Bind,
    /// Carries datagrams.
    UdpAssociate,
}

/// The client does not speak SOCKS 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nonsense {
    /// The version is not 5.
    #[error("version {0} where SOCKS 5 is spoken")]
    Version(u8),
    /// The command is unknown.
    #[error("the unknown command {0}")]
    Command(u8),
    /// A reserved byte is not zero.
    #[error("a reserved byte that is not zero")]
    Reserved,
    /// A field contradicts the others.
    #[error("{0}")]
    Malformed(#[from] Malformed),
}

/// The parsed value and its number of bytes; `None` if more bytes are needed.
pub type Read<T> = Result<Option<(T, usize)>, Nonsense>;

/// Converts the result of a parser to [`Read`].
fn read<'a, T>(
    bytes: &'a [u8],
    parse: impl FnOnce(&mut Reader<'a>) -> Result<T, Nonsense>,
) -> Read<T> {
    let mut r = Reader::new(bytes);
    match parse(&mut r) {
        Ok(value) => Ok(Some((value, bytes.len() - r.rest().len()))),
        Err(Nonsense::Malformed(Malformed::Short)) => Ok(None),
        Err(nonsense) => Err(nonsense),
    }
}

fn version(r: &mut Reader<'_>, expected: u8) -> Result<(), Nonsense> {
    match r.u8()? {
        version if version == expected => Ok(()),
        version => Err(Nonsense::Version(version)),
    }
}

/// Parses a greeting, and returns the numbers of the methods that it offers.
pub fn greeting(bytes: &[u8]) -> Read<&[u8]> {
    read(bytes, |r| {
        version(r, VERSION)?;
        let count = r.u8()?;
        Ok(r.take(count.into())?)
    })
}

/// Returns the answer to a greeting; without a method the client must leave.
pub fn chosen(method: Option<Method>) -> [u8; 2] {
    [VERSION, method.map_or(0xff, Method::to_byte)]
}

/// Parses user and password.
pub fn user(bytes: &[u8]) -> Read<(&[u8], &[u8])> {
    read(bytes, |r| {
        version(r, USER_VERSION)?;
        let len = r.u8()?;
        let name = r.take(len.into())?;
        let len = r.u8()?;
        Ok((name, r.take(len.into())?))
    })
}

/// Returns the answer to user and password.
pub fn verdict(good: bool) -> [u8; 2] {
    [USER_VERSION, u8::from(!good)]
}

/// Parses a request.
pub fn request(bytes: &[u8]) -> Read<(Command, Address<'_>)> {
    read(bytes, |r| {
        version(r, VERSION)?;
        let command = match r.u8()? {
            1 => Command::Connect,
            2 => Command::Bind,
            3 => Command::UdpAssociate,
            other => return Err(Nonsense::Command(other)),
        };
        if r.u8()? != 0 {
            return Err(Nonsense::Reserved);
        }
        Ok((command, Address::read(r)?))
    })
}

/// Returns the reply to a request, and its length.
pub fn reply(code: Code, bound: &Address<'_>) -> ([u8; REPLY_BYTES_MAX], usize) {
    let mut bytes = [0; REPLY_BYTES_MAX];
    let mut w = Writer::new(&mut bytes);
    let written = w
        .put(&[VERSION, code.to_byte(), 0])
        .and_then(|()| bound.write(&mut w));
    let len = w.len();
    // An address of this server is never too long; if one were, the client would run into its timeout.
    debug_assert!(written.is_ok());
    (bytes, len)
}

/// Parses a datagram, and returns its address and payload. Fragments are not reassembled: the result is `None` for
/// them.
pub fn datagram(bytes: &[u8]) -> Result<Option<(Address<'_>, &[u8])>, Nonsense> {
    let mut r = Reader::new(bytes);
    if r.u16()? != 0 {
        return Err(Nonsense::Reserved);
    }
    if r.u8()? != 0 {
        return Ok(None);
    }
    let address = Address::read(&mut r)?;
    Ok(Some((address, r.rest())))
}

/// Returns the header before a datagram's payload, and its length.
pub fn datagram_header(from: &Address<'_>) -> ([u8; UDP_HEADER_BYTES_MAX], usize) {
    let (mut bytes, len) = reply(Code::Granted, from);
    bytes[..3].fill(0);
    (bytes, len)
}

impl Method {
    /// Returns the number of the method.
    pub fn to_byte(self) -> u8 {
        match self {
            Method::None => 0,
            Method::User => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;
    use wire::exit::Host;

    /// Checks that a parser uses all of `bytes`, whatever follows, and accepts no shorter prefix.
    fn exact<T: PartialEq + core::fmt::Debug>(
        bytes: &[u8],
        read: impl Fn(&[u8]) -> Option<(T, usize)>,
        value: T,
    ) {
        let more = [bytes, b"and more"].concat();
        assert_eq!(read(&more), Some((value, bytes.len())));
        for short in 0..bytes.len() {
            assert_eq!(read(&bytes[..short]), None, "{short} of {bytes:?}");
        }
    }

    #[test]
    fn what_clients_say_is_read_at_every_length() {
        exact(
            &[5, 2, 0, 2],
            |b| greeting(b).unwrap().map(|(m, n)| (m.to_vec(), n)),
            vec![0, 2],
        );
        exact(
            b"\x01\x03ann\x04word",
            |b| {
                let read = user(b).unwrap();
                read.map(|((u, w), n)| ((u.to_vec(), w.to_vec()), n))
            },
            (b"ann".to_vec(), b"word".to_vec()),
        );
        let text = |b: &[u8]| {
            let read = request(b).unwrap();
            read.map(|((command, to), n)| ((command, to.to_string()), n))
        };
        exact(
            b"\x05\x01\0\x03\x09web.sinew\0\x50",
            text,
            (Command::Connect, "web.sinew:80".to_owned()),
        );
        exact(
            &[5, 3, 0, 1, 0, 0, 0, 0, 0, 0],
            text,
            (Command::UdpAssociate, "0.0.0.0:0".to_owned()),
        );
    }

    #[test]
    fn nonsense_has_a_name() {
        assert_eq!(greeting(b"GET / HTTP/1.1"), Err(Nonsense::Version(b'G')));
        assert_eq!(greeting(&[4, 1]), Err(Nonsense::Version(4)));
        assert_eq!(user(&[5]), Err(Nonsense::Version(5)));
        assert_eq!(request(&[5, 9]), Err(Nonsense::Command(9)));
        assert_eq!(request(&[5, 1, 1]), Err(Nonsense::Reserved));
        assert_eq!(
            request(&[5, 1, 0, 2]),
            Err(Nonsense::Malformed(Malformed::Kind))
        );
        assert_eq!(datagram(&[0, 1, 0]), Err(Nonsense::Reserved));
        assert_eq!(datagram(&[0, 0, 7, 1]), Ok(None), "a fragment");
        assert_eq!(
            datagram(&[0, 0, 0, 1, 10]),
            Err(Nonsense::Malformed(Malformed::Short))
        );
    }

    #[test]
    fn answers_are_these_bytes() {
        assert_eq!(chosen(Some(Method::None)), [5, 0]);
        assert_eq!(chosen(Some(Method::User)), [5, 2]);
        assert_eq!(chosen(None), [5, 0xff]);
        assert_eq!((verdict(true), verdict(false)), ([1, 0], [1, 1]));
        let bound = Address {
            host: Host::Ip(Ipv4Addr::new(127, 0, 0, 1).into()),
            port: 1080,
        };
        let (bytes, len) = reply(Code::NotAllowed, &bound);
        assert_eq!(bytes[..len], [5, 2, 0, 1, 127, 0, 0, 1, 4, 0x38]);
        let (mut header, len) = datagram_header(&bound);
        assert_eq!(header[..len], [0, 0, 0, 1, 127, 0, 0, 1, 4, 0x38]);
        header[len] = b'x';
        assert_eq!(
            datagram(&header[..=len]),
            Ok(Some((bound, &b"x"[..]))),
            "comes back"
        );
    }

    proptest! {
        #[test]
        fn nothing_panics_and_nothing_is_taken_that_is_not_there(bytes in prop::collection::vec(any::<u8>(), 0..80), first in 0u8..7) {
            let mut bytes = bytes;
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            for used in [
                greeting(&bytes).map(|read| read.map(|(_, used)| used)),
                user(&bytes).map(|read| read.map(|(_, used)| used)),
                request(&bytes).map(|read| read.map(|(_, used)| used)),
            ].into_iter().flatten().flatten() {
                prop_assert!(used <= bytes.len());
            }
            let _ = datagram(&bytes);
        }
    }
}
