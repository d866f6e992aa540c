//! Operators on other hosts: `sinew status --node ams.operator.remote`.
//!
//! ```text
//!   operator, observer ═══ TLS: lines ═══ gate ─── operator's socket ─── node
//! ```
//! The token decides what a connection may do. Each kind has a token of its own: with a client's token nobody can look at the
//! node, and with an observer's nobody can change it. For an observer, the gate gives up the right to change anything before it
//! carries a line ([`Operators::observing`]).

use super::Shared;
use crate::slots::Slot;
use client::remote::TOKEN_BYTES;
use core::time::Duration;
use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use subtle::{Choice, ConstantTimeEq};

/// Operators at once, and as many observers. Choice: together half of what the operator's socket takes, so that somebody on
/// the node's own host finds room.
pub(super) const OPERATORS_MAX: usize = 4;
/// How long the operator's socket may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who may look at the node from other hosts, and who may operate it.
#[derive(Clone, Default)]
pub struct Operators {
    /// The operator's socket; none if the node has none.
    pub socket: Option<PathBuf>,
    /// The line by which a connection to it gives up the right to change anything, and the answer.
    pub observing: (&'static str, &'static str),
    /// The token of those who may look.
    pub observer: Option<[u8; TOKEN_BYTES]>,
    /// The token of those who may do everything that the socket can.
    pub operator: Option<[u8; TOKEN_BYTES]>,
}

impl fmt::Debug for Operators {
    /// Without the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operators")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

/// Whose token it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    Client,
    Observer,
    Operator,
}

impl Shared {
    /// Whose token this is. It takes as long for each, and for none.
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

    /// A connection to the operator's socket with the rights of this holder, and the place that it takes. An error of kind
    /// `Other` has a text for the client.
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
            // Nothing else comes before the answer, so nothing is read ahead.
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
