//! Operators on other hosts: `sinew status --node ams.operator.remote`.
//!
//! ```text
//!   operator, observer ═══ TLS: lines ═══ gate ─── operator's socket ─── node
//! ```
//! The token decides what a connection may do. Each kind has a token of its own: a client's token gives no view of the
//! node, and an observer's token permits no change of it. For an observer, the gate gives up the right to change
//! anything before it forwards a line ([`Operators::observing`]).

use super::Shared;
use crate::slots::Slot;
use client::remote::TOKEN_BYTES;
use core::time::Duration;
use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use subtle::{Choice, ConstantTimeEq};

/// Maximum number of operators at once, and of observers. Choice: together half of what the operator's socket takes, so
/// that an operator on the node's own host finds room.
pub(super) const OPERATORS_MAX: usize = 4;
/// The time within which the operator's socket must answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The access to the node for observers and operators on other hosts.
#[derive(Clone, Default)]
pub struct Operators {
    /// The operator's socket; none if the node has none.
    pub socket: Option<PathBuf>,
    /// The line by which a connection to this socket gives up the right to change anything, and the expected answer.
    pub observing: (&'static str, &'static str),
    /// The token of observers.
    pub observer: Option<[u8; TOKEN_BYTES]>,
    /// The token of operators, who may do everything that the socket permits.
    pub operator: Option<[u8; TOKEN_BYTES]>,
}

impl fmt::Debug for Operators {
    /// Omits the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operators")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

/// The kind of user to which a token belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    Client,
    Observer,
    Operator,
}

impl Shared {
    /// Returns to whom this token belongs. The comparison takes the same time for every token, and for an unknown one.
    pub(super) fn holder(&self, token: &[u8]) -> Option<Holder> {
        let is = |of: &[u8; TOKEN_BYTES]| token.ct_eq(of);
        let is_some = |of: &Option<[u8; TOKEN_BYTES]>| of.as_ref().map_or(Choice::from(0), is);
        let operators = &self.operators;
        let found = [
            (Holder::Client, is(&self.token)),
            (Holder::Observer, is_some(&operators.observer)),
            (Holder::Operator, is_some(&operators.operator)),
        ];
        let found = found.into_iter().filter(|(_, it)| bool::from(*it));
        found.map(|(holder, _)| holder).next_back()
    }

    /// Connects to the operator's socket with the rights of this holder. Returns the connection and the place that it
    /// takes. An error of kind `Other` has a text for the client.
    pub(super) fn operate(&self, holder: Holder) -> io::Result<(UnixStream, Slot)> {
        let socket = self.operators.socket.as_ref();
        let socket = socket.ok_or_else(|| io::Error::other("this node has no control socket"))?;
        let (places, they) = match holder {
            Holder::Observer => (&self.observing, "observers"),
            Holder::Operator | Holder::Client => (&self.operating, "operators"),
        };
        let slot = places.take().ok_or_else(|| {
            io::Error::other(format!(
                "{OPERATORS_MAX} {they} are connected from other hosts: end one, or ask on the node's own host"
            ))
        })?;
        let mut stream = UnixStream::connect(socket)?;
        if holder == Holder::Observer {
            stream.set_read_timeout(Some(PATIENCE))?;
            let (line, done) = self.operators.observing;
            stream.write_all(format!("{line}\n").as_bytes())?;
            // Nothing else comes before the answer, so the reader takes no bytes beyond it.
            let mut answer = String::new();
            let longest = done.len() as u64 + 1;
            BufReader::new((&stream).take(longest)).read_line(&mut answer)?;
            if answer.trim_end() != done {
                return Err(ErrorKind::ConnectionRefused.into());
            }
            stream.set_read_timeout(None)?;
        }
        Ok((stream, slot))
    }
}
