//! Datagrams of a link inside a byte stream: TLS over TCP, for networks that do not let UDP through.
//!
//! ```text
//!   dialler                                             acceptor
//!     | == TLS 1.3, both sides with their nodes' keys ==== |
//!     | -- relay::Preamble::Link, Hello(certificate) ----> |   judged: a member of the network?
//!     | <------------------------ Hello(certificate) ----- |   judged: the node that was meant?
//!     | <============ Datagram, both ways ===============> |   each as it would be in UDP: sealed by the link
//! ```
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-------------------------------+---------------+
//! |     kind      |  length of what follows       |  body ...
//! +---------------+-------------------------------+---------------+
//! ```
//!
//! The stream adds no trust: each datagram is authenticated by its own seal. The certificates only prevent strangers
//! from sending datagrams at all.

use crate::certificate::MAX_CERTIFICATE_BYTES;
use crate::{Full, Malformed};

/// Number of bytes before the body of each record.
pub const HEAD_BYTES: usize = 3;
/// The longest datagram. It is longer than all datagrams of a link: 1439 bytes with data, and handshakes with their
/// certificates.
pub const DATAGRAM_BYTES_MAX: usize = 2_048;
/// The longest record.
pub const RECORD_BYTES_MAX: usize = HEAD_BYTES + DATAGRAM_BYTES_MAX;

const _: () = assert!(crate::handshake::MAX_RESPONSE_BYTES <= DATAGRAM_BYTES_MAX);
const _: () = assert!(MAX_CERTIFICATE_BYTES <= DATAGRAM_BYTES_MAX);

const HELLO: u8 = 1;
const DATAGRAM: u8 = 2;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// The first record in each direction, and only the first: the certificate of the sender. Kind 1.
    Hello(&'a [u8]),
    /// A datagram of the link. Kind 2.
    Datagram(&'a [u8]),
}

impl<'a> Record<'a> {
    /// Returns the record at the front and its length in bytes, or `None` if a part is still missing. An impossible
    /// head is refused as soon as it has arrived.
    pub fn read(bytes: &'a [u8]) -> Result<Option<(Record<'a>, usize)>, Malformed> {
        let Some(&[kind, a, b]) = bytes.first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let len = usize::from(u16::from_be_bytes([a, b]));
        let longest = match kind {
            HELLO => MAX_CERTIFICATE_BYTES,
            DATAGRAM => DATAGRAM_BYTES_MAX,
            _ => return Err(Malformed::Kind),
        };
        if !(1..=longest).contains(&len) {
            return Err(Malformed::Length);
        }
        let whole = HEAD_BYTES + len;
        let Some(body) = bytes.get(HEAD_BYTES..whole) else {
            return Ok(None);
        };
        let record = match kind {
            HELLO => Record::Hello(body),
            _ => Record::Datagram(body),
        };
        Ok(Some((record, whole)))
    }

    /// Appends the record. If its body is empty or too long, returns [`Full`] and appends nothing.
    pub fn append(&self, to: &mut Vec<u8>) -> Result<(), Full> {
        let (kind, body, longest) = match self {
            Record::Hello(body) => (HELLO, body, MAX_CERTIFICATE_BYTES),
            Record::Datagram(body) => (DATAGRAM, body, DATAGRAM_BYTES_MAX),
        };
        if !(1..=longest).contains(&body.len()) {
            return Err(Full);
        }
        let [a, b] = (body.len() as u16).to_be_bytes();
        to.extend_from_slice(&[kind, a, b]);
        to.extend_from_slice(body);
        Ok(())
    }
}

/// A decoder that assembles records from a stream that arrives in pieces of any length.
///
/// It holds less than [`RECORD_BYTES_MAX`] bytes beyond the last piece, if all records are taken before the next piece.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    taken: usize,
}

impl Decoder {
    /// Adds a piece of the stream.
    pub fn push(&mut self, piece: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(piece);
    }

    /// Returns the next record, or `None` if it is incomplete. After an error the stream must not be used any more.
    pub fn take(&mut self) -> Result<Option<Record<'_>>, Malformed> {
        let Some((record, len)) = Record::read(&self.bytes[self.taken..])? else {
            return Ok(None);
        };
        self.taken += len;
        Ok(Some(record))
    }

    /// Returns the number of received bytes that belong to no record yet.
    pub fn pending(&self) -> usize {
        self.bytes.len() - self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO_BYTES: [u8; 6] = [1, 0, 3, b'c', b'r', b't'];
    const DATAGRAM_BYTES: [u8; 5] = [2, 0, 2, 0xab, 0xcd];

    fn appended(record: Record<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        record.append(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn records_are_these_bytes_both_ways() {
        for (record, bytes) in [
            (Record::Hello(b"crt"), &HELLO_BYTES[..]),
            (Record::Datagram(&[0xab, 0xcd]), &DATAGRAM_BYTES[..]),
        ] {
            assert_eq!(appended(record), bytes);
            assert_eq!(Record::read(bytes), Ok(Some((record, bytes.len()))));
            for len in 0..bytes.len() {
                assert_eq!(Record::read(&bytes[..len]), Ok(None), "{len}");
            }
        }
    }

    #[test]
    fn a_head_that_cannot_be_is_refused_at_once() {
        for (bytes, why) in [
            ([0, 0, 1], Malformed::Kind),
            ([3, 0, 1], Malformed::Kind),
            ([0x16, 3, 1], Malformed::Kind),
            ([1, 0, 0], Malformed::Length),
            ([1, 4, 1], Malformed::Length),
            ([2, 0, 0], Malformed::Length),
            ([2, 8, 1], Malformed::Length),
        ] {
            assert_eq!(Record::read(&bytes), Err(why), "{bytes:?}");
        }
        let mut bytes = vec![7];
        let long = [0; DATAGRAM_BYTES_MAX + 1];
        assert_eq!(Record::Datagram(&long).append(&mut bytes), Err(Full));
        assert_eq!(Record::Datagram(&[]).append(&mut bytes), Err(Full));
        let long = &long[..MAX_CERTIFICATE_BYTES + 1];
        assert_eq!(Record::Hello(long).append(&mut bytes), Err(Full));
        assert_eq!(bytes, [7]);
        assert!(
            Record::Datagram(&[0; DATAGRAM_BYTES_MAX])
                .append(&mut bytes)
                .is_ok()
        );
    }

    #[test]
    fn pieces_of_any_length_give_the_same_records() {
        let mut stream = appended(Record::Hello(b"certificate"));
        for len in [1, 2, 100, DATAGRAM_BYTES_MAX] {
            stream.extend(appended(Record::Datagram(&vec![len as u8; len])));
        }
        for piece in [1, 2, 3, 7, 1_000, stream.len()] {
            let (mut decoder, mut again) = (Decoder::default(), Vec::new());
            for piece in stream.chunks(piece) {
                decoder.push(piece);
                while let Some(record) = decoder.take().unwrap() {
                    record.append(&mut again).unwrap();
                }
                assert!(decoder.pending() < RECORD_BYTES_MAX);
            }
            assert_eq!((again, decoder.pending()), (stream.clone(), 0));
        }
    }
}
