//! The options of a connection, and how libsrt gets them.

use super::{Error, Socket};
use core::time::Duration;
use libc::c_int;

/// Largest size of a message: a packet of 1500 less the headers of IP, UDP and SRT.
pub const PAYLOAD_BYTES_MAX: usize = 1_456;
/// Size of a message with seven packets of an MPEG transport stream.
pub const PAYLOAD_BYTES_TS: usize = 1_316;
/// Largest length of a stream's name.
pub const STREAM_ID_BYTES_MAX: usize = 512;
/// Permitted length of a passphrase.
pub const PASSPHRASE_BYTES: core::ops::RangeInclusive<usize> = 10..=79;

/// The options of a connection.
#[derive(Clone)]
pub struct Options {
    /// How long each end holds packets, so that lost packets can be retransmitted. The larger value of both ends is
    /// used.
    pub latency: Duration,
    /// Encrypts, and admits only callers who know the passphrase.
    pub passphrase: Option<String>,
    /// Size of the key: 16, 24 or 32; none for the peer's choice, or 16.
    pub key_bytes: Option<u8>,
    /// The stream that a caller requests.
    pub stream_id: Option<String>,
    /// Largest size of a message.
    pub payload_bytes: usize,
    /// How long a caller waits for an answer.
    pub connect_timeout: Duration,
    /// The silence of the peer after which the connection is over.
    pub idle_timeout: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            latency: Duration::from_millis(120),
            passphrase: None,
            key_bytes: None,
            stream_id: None,
            payload_bytes: PAYLOAD_BYTES_MAX,
            connect_timeout: Duration::from_secs(3),
            idle_timeout: Duration::from_secs(5),
        }
    }
}

impl core::fmt::Debug for Options {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Options")
            .field("latency", &self.latency)
            .field("is_encrypted", &self.passphrase.is_some())
            .field("stream_id", &self.stream_id)
            .finish_non_exhaustive()
    }
}

/// The part of `SRT_SOCKOPT` that is used.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(super) enum Name {
    SendSynchronous = 1,
    ReceiveSynchronous = 2,
    ReuseAddress = 15,
    Passphrase = 26,
    KeyBytes = 27,
    ConnectTimeout = 36,
    ReceiveLatency = 43,
    PeerLatency = 44,
    StreamId = 46,
    PayloadBytes = 49,
    V6Only = 54,
    PeerIdleTimeout = 55,
}

impl Options {
    /// Sets all options that have to be set before a socket listens or calls.
    pub(super) fn apply(&self, socket: &Socket, is_caller: bool) -> Result<(), Error> {
        let ms = |span: Duration| c_int::try_from(span.as_millis()).unwrap_or(c_int::MAX);
        socket.set(Name::ReceiveSynchronous, 0)?;
        socket.set(Name::SendSynchronous, 0)?;
        socket.set(Name::ReceiveLatency, ms(self.latency))?;
        socket.set(Name::PeerLatency, ms(self.latency))?;
        socket.set(Name::PayloadBytes, self.payload_bytes as c_int)?;
        socket.set(Name::PeerIdleTimeout, ms(self.idle_timeout))?;
        if let Some(passphrase) = &self.passphrase {
            socket.set_bytes(Name::Passphrase, passphrase.as_bytes())?;
        }
        if let Some(bytes) = self.key_bytes {
            socket.set(Name::KeyBytes, c_int::from(bytes))?;
        }
        if is_caller {
            socket.set(Name::ConnectTimeout, ms(self.connect_timeout))?;
            if let Some(id) = &self.stream_id {
                socket.set_bytes(Name::StreamId, id.as_bytes())?;
            }
        }
        Ok(())
    }
}
