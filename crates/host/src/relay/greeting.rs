//! Reads what a connection wants: TLS between nodes, a preamble, and the first control message.
//!
//! ```text
//!   TCP ──▶ 0x16: TLS ─┬─▶ preamble: control ─▶ the first message
//!       │              └─▶ preamble: link ────▶ a certificate, then datagrams ([`crate::tunnel`])
//!       └─▶ 'S': ─────────▶ preamble: data ────▶ a stripe
//!   Unix (mode 0600) ──▶ the same, without TLS: the operator
//! ```
//! All of this blocks without a limit of its own. A connection that takes too long is shut down from outside
//! ([`net::places`]).

use super::dial::watch;
use super::door::Guest;
use super::duplex::{Duplex, Received};
use super::ledger::TurnedAway;
use super::socket::{Data, Socket};
use super::stripes::Stripe;
use super::tls::Trust;
use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::sync::Arc;
use wire::relay::{CONTROL_PREAMBLE_BYTES, DATA_PREAMBLE_BYTES, Preamble};

/// The first byte of TLS: a handshake record.
const TLS_FIRST: u8 = 0x16;

/// The purpose of a connection.
pub(super) enum Wish {
    /// Control. The first request comes with it.
    Control {
        control: Arc<Duplex>,
        /// The key that the peer has proved to have; the operator has none.
        key: Option<[u8; 32]>,
        asked: Received,
    },
    /// The connection is a stripe of a transfer.
    Data(Stripe),
    /// The connection carries a link. The key is the one that the peer has proved to have; its certificate is still to
    /// come.
    Link(Data, [u8; 32]),
}

/// Reads what the connection wants.
pub(super) fn hear(trust: &Trust, guest: &Guest) -> Result<Wish, TurnedAway> {
    ask(trust, guest).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => TurnedAway::Malformed,
        _ => TurnedAway::Ended,
    })
}

fn ask(trust: &Trust, guest: &Guest) -> io::Result<Wish> {
    let mut data = begin(trust, guest)?;
    let is_local = data.socket.tcp().is_none();
    match read_preamble(&mut data)? {
        // Between nodes, control is always encrypted.
        Preamble::Control if data.is_plain() && !is_local => Err(ErrorKind::InvalidData.into()),
        Preamble::Control => {
            if let Some(tcp) = data.socket.tcp() {
                watch(tcp)?;
            }
            let key = data.peer_key();
            let control = Arc::new(Duplex::new(data)?);
            let asked = control.receive(None)?.ok_or(ErrorKind::UnexpectedEof)?;
            Ok(Wish::Control {
                control,
                key,
                asked,
            })
        }
        // The data itself is already encrypted, or is meant to be plain.
        Preamble::Data { .. } if !data.is_plain() => Err(ErrorKind::InvalidData.into()),
        // Without a key there is no TLS.
        Preamble::Link => match data.peer_key() {
            Some(key) => Ok(Wish::Link(data, key)),
            None => Err(ErrorKind::InvalidData.into()),
        },
        Preamble::Data {
            transfer,
            stripe,
            proof,
        } => Ok(Wish::Data(Stripe {
            data,
            is_local,
            transfer,
            stripe,
            proof,
        })),
    }
}

fn begin(trust: &Trust, guest: &Guest) -> io::Result<Data> {
    let socket = Arc::clone(&guest.socket);
    socket.set_nonblocking(false)?;
    let Socket::Tcp(tcp) = &*guest.socket else {
        return Ok(Data::plain(socket));
    };
    tcp.set_nodelay(true)?;
    let first = first_byte(tcp)?;
    guest.spoke();
    if first != TLS_FIRST {
        return Ok(Data::plain(socket));
    }
    let mut data = Data::sealed(socket, trust.acceptor().map_err(io::Error::other)?);
    data.shake_hands()?;
    Ok(data)
}

/// Returns the first byte of a connection without consuming it.
fn first_byte(tcp: &TcpStream) -> io::Result<u8> {
    let mut first = [0];
    match tcp.peek(&mut first)? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(first[0]),
    }
}

/// Reads the preamble. From here on the connection uses the version that the preamble names.
fn read_preamble(data: &mut Data) -> io::Result<Preamble> {
    let malformed = |error| io::Error::new(ErrorKind::InvalidData, error);
    let mut bytes = [0; DATA_PREAMBLE_BYTES];
    let (first, rest) = bytes.split_at_mut(CONTROL_PREAMBLE_BYTES);
    data.read_exact(first)?;
    let first: &[u8; CONTROL_PREAMBLE_BYTES] = (&*first).try_into().expect("it was split so");
    let len = Preamble::bytes(first).map_err(malformed)?;
    data.read_exact(&mut rest[..len - CONTROL_PREAMBLE_BYTES])?;
    let (version, preamble) = Preamble::parse(&bytes[..len]).map_err(malformed)?;
    data.speak(version)?;
    Ok(preamble)
}
