//! The certificates that both sides of a tunnel exchange before the first datagram.

use crate::relay::socket::Data;
use std::io::{self, ErrorKind, Read, Write};
use wire::tunnel::{HEAD_BYTES, RECORD_BYTES_MAX, Record};

/// Reads the other side's certificate. It waits as long as the socket does.
pub(crate) fn read_hello(data: &mut Data) -> io::Result<Vec<u8>> {
    let mut bytes = [0; RECORD_BYTES_MAX];
    data.read_exact(&mut bytes[..HEAD_BYTES])?;
    let malformed = |why: wire::Malformed| io::Error::new(ErrorKind::InvalidData, why);
    // An impossible length is detected before the function waits for the body.
    Record::read(&bytes[..HEAD_BYTES]).map_err(malformed)?;
    let whole = HEAD_BYTES + usize::from(u16::from_be_bytes([bytes[1], bytes[2]]));
    data.read_exact(&mut bytes[HEAD_BYTES..whole])?;
    match Record::read(&bytes[..whole]).map_err(malformed)? {
        Some((Record::Hello(certificate), _)) => Ok(certificate.to_vec()),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

/// Sends a certificate.
pub(crate) fn write_hello(data: &mut Data, certificate: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::new();
    let appended = Record::Hello(certificate).append(&mut bytes);
    appended.map_err(|full| io::Error::new(ErrorKind::InvalidInput, full))?;
    data.write_all(&bytes)
}
