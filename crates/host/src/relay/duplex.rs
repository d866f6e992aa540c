//! A control connection: few small messages in both directions.
//!
//! Any thread may send; one at a time receives. The socket does not block: a thread waits in poll(2), without the lock
//! on TLS.

use super::failure::Failure;
use super::socket::{Data, Socket};
use base::NodeAddr;
use net::poll::{Polled, poll};
use rustls::Connection;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wire::relay::{MESSAGE_HEAD_BYTES, Message, head, is_optional};

/// How long a message may wait if the other side does not read and there is no room. Choice: a stopped terminal delays
/// a command for this long; between nodes the kernel ends the connection earlier.
const PATIENCE: Duration = Duration::from_secs(30);

/// The same limit for a failure, after which nothing follows.
const FAIL_PATIENCE: Duration = Duration::from_secs(1);

/// A control connection.
pub(super) struct Duplex {
    socket: Arc<Socket>,
    tls: Mutex<Option<Connection>>,
    inbox: Mutex<Vec<u8>>,
    /// Only one message is sent at a time.
    sending: Mutex<()>,
    /// The version that both sides use.
    version: u8,
}

/// A message as it was received.
pub(super) struct Received {
    kind: u8,
    body: Vec<u8>,
}

impl Received {
    pub(super) fn message(&self) -> io::Result<Message<'_>> {
        let parsed = Message::parse(self.kind, &self.body);
        parsed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }
}

impl Duplex {
    /// Wraps a connection after its handshake and preamble.
    pub(super) fn new(data: Data) -> io::Result<Duplex> {
        let version = data.version()?;
        let (socket, sealed) = data.into_parts();
        socket.set_patience(None)?;
        socket.set_nonblocking(true)?;
        let (tls, early) = match sealed {
            None => (None, Vec::new()),
            Some((mut tls, rest)) => {
                let mut rest = &rest[..];
                let mut plain = Vec::new();
                while !rest.is_empty() {
                    tls.read_tls(&mut rest)?;
                    process(&mut tls)?;
                    read_plain(&mut tls, &mut plain)?;
                }
                read_plain(&mut tls, &mut plain)?;
                (Some(tls), plain)
            }
        };
        Ok(Duplex {
            socket,
            tls: Mutex::new(tls),
            inbox: Mutex::new(early),
            sending: Mutex::new(()),
            version,
        })
    }

    /// Returns the socket.
    pub(super) fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// Returns the version that both sides use here, and on the stripes that belong to it.
    pub(super) fn version(&self) -> u8 {
        self.version
    }

    /// Returns true if those data connections use the version of this connection.
    pub(super) fn is_in_version_of(&self, stripes: &[Data]) -> bool {
        let is_same =
            |data: &Data| matches!(data.version(), Ok(version) if version == self.version);
        stripes.iter().all(is_same)
    }

    /// Closes the connection. Both sides see the end.
    pub(super) fn close(&self) {
        self.socket.shutdown(Shutdown::Both);
    }

    pub(super) fn send(&self, message: &Message<'_>) -> io::Result<()> {
        self.send_within(PATIENCE, message)
    }

    fn send_within(&self, patience: Duration, message: &Message<'_>) -> io::Result<()> {
        let mut bytes = vec![0; Message::BYTES_MAX];
        let len = message.emit(&mut bytes);
        let len = len.map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        self.send_bytes(&bytes[..len], Instant::now() + patience)
    }

    /// Passes on a message that was received on another connection.
    pub(super) fn pass_on(&self, received: &Received) -> io::Result<()> {
        self.send(&received.message()?)
    }

    /// Sends a failure if the other side is still there. It does not wait long, because other nodes have to be
    /// informed, too.
    pub(super) fn fail(&self, failure: &Failure) {
        let _ = self.send_within(FAIL_PATIENCE, &failure.message());
    }

    fn send_bytes(&self, mut bytes: &[u8], until: Instant) -> io::Result<()> {
        let _alone = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tls) = self.tls().as_mut() {
            tls.writer().write_all(bytes)?;
        }
        loop {
            let tried = match self.tls().as_mut() {
                Some(tls) if tls.wants_write() => tls.write_tls(&mut &*self.socket).map(drop),
                Some(_) => return Ok(()),
                None if bytes.is_empty() => return Ok(()),
                None => (&mut &*self.socket)
                    .write(bytes)
                    .map(|len| bytes = &bytes[len..]),
            };
            match tried {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(false, Some(until))?;
                }
                other => other?,
            }
        }
    }

    /// Returns the next message, or none at the end of the connection.
    pub(super) fn receive(&self, until: Option<Instant>) -> io::Result<Option<Received>> {
        loop {
            match self.receive_any(until)? {
                // Only hosts that have asked an issuer use this message.
                Some(received) if matches!(received.message(), Ok(Message::Issuers(_))) => {
                    left(until)?;
                }
                received => return Ok(received),
            }
        }
    }

    /// Returns the next message, including an issuer's list of other issuers.
    pub(super) fn receive_any(&self, until: Option<Instant>) -> io::Result<Option<Received>> {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(first) = inbox.first_chunk::<MESSAGE_HEAD_BYTES>() {
                let (kind, len) =
                    head(*first).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
                let whole = MESSAGE_HEAD_BYTES + len;
                if inbox.len() >= whole {
                    let body = inbox[MESSAGE_HEAD_BYTES..whole].to_vec();
                    inbox.drain(..whole);
                    let received = Received { kind, body };
                    // Later versions send more messages than this version knows or needs. Messages that only ends
                    // exchange are not for relays.
                    if is_optional(kind)
                        && matches!(
                            received.message(),
                            Ok(Message::Unknown { .. } | Message::Speaks(..) | Message::Gone(..))
                        )
                    {
                        // A peer that sends only such messages does not extend the wait.
                        left(until)?;
                        continue;
                    }
                    return Ok(Some(received));
                }
            }
            match self.read_more(&mut inbox) {
                Ok(0) if inbox.is_empty() => return Ok(None),
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(true, until)?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads what is there; returns 0 at the end.
    fn read_more(&self, inbox: &mut Vec<u8>) -> io::Result<usize> {
        let mut guard = self.tls();
        let Some(tls) = guard.as_mut() else {
            let mut bytes = [0; 4_096];
            let len = (&mut &*self.socket).read(&mut bytes)?;
            inbox.extend_from_slice(&bytes[..len]);
            return Ok(len);
        };
        let taken = tls.read_tls(&mut &*self.socket)?;
        process(tls)?;
        read_plain(tls, inbox)?;
        Ok(taken)
    }

    fn wait(&self, read: bool, until: Option<Instant>) -> io::Result<()> {
        let left = left(until)?;
        poll(&mut [Polled::new(self.socket.as_fd(), read, !read)], left)?;
        Ok(())
    }

    fn tls(&self) -> MutexGuard<'_, Option<Connection>> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns how much time is left; none means no limit.
fn left(until: Option<Instant>) -> io::Result<Option<Duration>> {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    match left.is_some_and(|left| left.is_zero()) {
        true => Err(ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

fn process(tls: &mut Connection) -> io::Result<()> {
    let processed = tls.process_new_packets();
    processed
        .map(drop)
        .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

fn read_plain(tls: &mut Connection, inbox: &mut Vec<u8>) -> io::Result<()> {
    let mut bytes = [0; 4_096];
    loop {
        match tls.reader().read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(len) => inbox.extend_from_slice(&bytes[..len]),
            // The socket itself reports the end of the connection: the next read returns it.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// The node at the other end of a control connection, and the connection.
pub(super) struct Peer {
    pub(super) node: NodeAddr,
    pub(super) control: Arc<Duplex>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn stripes_in_another_version_are_told_from_its_own() {
        let plain = || Data::plain(Socket::Unix(UnixStream::pair().unwrap().0));
        let (mut control, mut stripe) = (plain(), plain());
        control.speak(7).unwrap();
        stripe.speak(7).unwrap();
        let control = Duplex::new(control).unwrap();
        assert!(control.is_in_version_of(&[]));
        let mut stripes = vec![stripe];
        assert!(control.is_in_version_of(&stripes));
        let mut other = plain();
        other.speak(6).unwrap();
        stripes.push(other);
        assert!(!control.is_in_version_of(&stripes));
    }

    #[test]
    fn who_sends_nothing_but_optional_messages_is_not_waited_for_longer() {
        let (mut far, near) = UnixStream::pair().unwrap();
        let control = Duplex::new(Data::plain(Socket::Unix(near))).unwrap();
        let ack = Message::Ack(NodeAddr(0x0a07_0001), 7);
        let mut bytes = [0; 64];
        let len = ack.emit(&mut bytes).unwrap();
        far.write_all(&[64, 0, 0, 0]).unwrap();
        far.write_all(&bytes[..len]).unwrap();
        let late = control.receive(Some(Instant::now())).map(drop).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        let received = control.receive(None).unwrap().unwrap();
        assert_eq!(received.message().unwrap(), ack);
    }

    #[test]
    fn messages_that_a_later_version_made_optional_are_stepped_over_and_others_end_it() {
        let (mut far, near) = UnixStream::pair().unwrap();
        let control = Duplex::new(Data::plain(Socket::Unix(near))).unwrap();
        let ack = Message::Ack(NodeAddr(0x0a07_0001), 7);
        let mut bytes = [0; 64];
        let len = ack.emit(&mut bytes).unwrap();
        let bare = [96, 0, 0, 6, 10, 7, 0, 1, 1, 3];
        for later in [&[64, 0, 0, 2, 1, 2][..], &[127, 0, 0, 0], &bare] {
            far.write_all(later).unwrap();
        }
        far.write_all(&bytes[..len]).unwrap();
        let received = control.receive(None).unwrap().unwrap();
        assert_eq!(received.message().unwrap(), ack);
        far.write_all(&[17, 0, 0, 0]).unwrap();
        let refused = control.receive(None).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidData);
    }
}
