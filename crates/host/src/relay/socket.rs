//! The connections of a transfer: sockets, and TLS on those between nodes.
//!
//! A data connection ([`Data`]) carries bytes in one direction, so one thread owns it and may block in it. To end the
//! wait, another thread, which also holds the socket, shuts it down.
//!
//! ```text
//!   cp ══ Unix ══▶ node ══ TCP ══▶ next        a node that would only pass the bytes on lends its connection:
//!   cp ◀── TCP ─── node                        cp sends on it by itself, and the node's processor has no part in that
//! ```
//! A connection belongs to the network namespace in which it was made, and its holder can do more there than send. So
//! it is lent only within that namespace.
//!
//! A process that accepts a lent connection shuts its own down without having sent a byte. A process that does not
//! accept it, such as an earlier version, sends on its own.

use net::unix::{self, give, peek, peer};
use rustls::Connection;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use wire::relay::VERSIONS;

/// Number of bytes that are read from a socket at once for TLS, which itself would read a quarter of a record.
const INBOX_BYTES: usize = 128 * 1024;

/// A socket: TCP between nodes, Unix within one host.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    pub(crate) fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        match self {
            Socket::Tcp(tcp) => tcp.set_nonblocking(on),
            Socket::Unix(unix) => unix.set_nonblocking(on),
        }
    }

    /// Sets how long a read or write may block; none means no limit.
    pub(crate) fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Tcp(tcp) => {
                tcp.set_read_timeout(patience)?;
                tcp.set_write_timeout(patience)
            }
            Socket::Unix(unix) => {
                unix.set_read_timeout(patience)?;
                unix.set_write_timeout(patience)
            }
        }
    }

    /// Shuts it down, or its outgoing half. This fails only if it has already ended.
    pub(crate) fn shutdown(&self, how: Shutdown) {
        let _ = match self {
            Socket::Tcp(tcp) => tcp.shutdown(how),
            Socket::Unix(unix) => unix.shutdown(how),
        };
    }

    pub(crate) fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Socket::Tcp(tcp) => Some(tcp),
            Socket::Unix(_) => None,
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(tcp) => tcp.as_fd(),
            Socket::Unix(unix) => unix.as_fd(),
        }
    }
}

impl Read for &Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(tcp) => (&*tcp).read(buf),
            Socket::Unix(unix) => (&*unix).read(buf),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(tcp) => (&*tcp).write(buf),
            Socket::Unix(unix) => (&*unix).write(buf),
        }
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(tcp) => (&*tcp).write_vectored(bufs),
            Socket::Unix(unix) => (&*unix).write_vectored(bufs),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A data connection.
pub(crate) struct Data {
    pub(crate) socket: Arc<Socket>,
    tls: Option<Box<Sealed>>,
    /// The version in the preamble, once it is known.
    said: Option<u8>,
    /// The other end may send on another connection, over which this many bytes have already gone.
    offered: Option<u64>,
}

struct Sealed {
    tls: Connection,
    /// Bytes that were received from the socket and not yet taken by TLS.
    inbox: Box<[u8]>,
    taken: usize,
    filled: usize,
}

impl Data {
    pub(crate) fn plain(socket: impl Into<Arc<Socket>>) -> Data {
        let socket = socket.into();
        Data {
            socket,
            tls: None,
            said: None,
            offered: None,
        }
    }

    /// Wraps a socket with TLS, whose handshake may or may not be over.
    pub(crate) fn sealed(socket: impl Into<Arc<Socket>>, mut tls: Connection) -> Data {
        // Written data is sent at once: the writer has its own bound.
        tls.set_buffer_limit(None);
        let sealed = Sealed {
            tls,
            inbox: vec![0; INBOX_BYTES].into(),
            taken: 0,
            filled: 0,
        };
        Data {
            socket: socket.into(),
            tls: Some(Box::new(sealed)),
            said: None,
            offered: None,
        }
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    /// Completes the TLS handshake.
    pub(crate) fn shake_hands(&mut self) -> io::Result<()> {
        if let Some(sealed) = &mut self.tls {
            while sealed.tls.is_handshaking() {
                sealed.send(&self.socket)?;
                if sealed.tls.is_handshaking() && sealed.receive(&self.socket)? == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
            }
            sealed.send(&self.socket)?;
        }
        Ok(())
    }

    /// Returns the key that the other side has proved to have.
    pub(crate) fn peer_key(&self) -> Option<[u8; 32]> {
        let sealed = self.tls.as_ref()?;
        super::tls::peer_key(&sealed.tls)
    }

    /// Returns the version to use with the other side after the handshake: the one that TLS has agreed on. Without TLS,
    /// the preamble says it. Before there is a preamble, the highest version is used, because the other side is on this
    /// host.
    pub(crate) fn version(&self) -> io::Result<u8> {
        let version = match &self.tls {
            Some(sealed) => super::tls::version_of(&sealed.tls),
            None => self.said.or(Some(*VERSIONS.end())),
        };
        version.ok_or_else(|| ErrorKind::InvalidData.into())
    }

    /// Sets the version of the preamble, which must be the one that TLS has agreed on.
    pub(crate) fn speak(&mut self, version: u8) -> io::Result<()> {
        if self.tls.is_some() && self.version()? != version {
            return Err(ErrorKind::InvalidData.into());
        }
        self.said = Some(version);
        Ok(())
    }

    /// Ends the outgoing direction: nothing more will be written.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        if let Some(sealed) = &mut self.tls {
            sealed.tls.send_close_notify();
            sealed.send(&self.socket)?;
        }
        self.socket.shutdown(Shutdown::Write);
        Ok(())
    }

    /// Offers `onward` to the other end of a connection within the host, if that end may have it. The caller must not
    /// have sent anything yet that lets the other end begin to send.
    pub(crate) fn offer(&mut self, onward: &Data) {
        let (Socket::Unix(near), true) = (&*self.socket, onward.is_plain()) else {
            return;
        };
        let Some(tcp) = onward.socket.tcp().filter(|_| is_in_own_namespace(near)) else {
            return;
        };
        let gone = net::tcp::info(tcp).map(|info| info.acked);
        // If the other end does not get it, it sends here.
        let given = gone.and_then(|gone| give(near.as_fd(), tcp.as_fd()).map(|()| gone));
        self.offered = given.ok();
    }

    /// Waits for the other end's reaction to the offer. If that end sends on the offered connection from now on,
    /// returns the number of bytes sent on it before. If something has arrived here, or nothing was offered, returns
    /// none.
    pub(crate) fn taken(&self) -> io::Result<Option<u64>> {
        match (&*self.socket, self.offered) {
            (Socket::Unix(near), Some(gone)) => {
                let has_ended = peek(near.as_fd())? == 0;
                Ok(has_ended.then_some(gone))
            }
            _ => Ok(None),
        }
    }

    /// Returns the connection that the node at the other end has lent, if it has. Then this one is over.
    pub(crate) fn lent(&self) -> io::Result<Option<Data>> {
        let Socket::Unix(near) = &*self.socket else {
            return Ok(None);
        };
        let lent = unix::taken(near.as_fd())?.map(TcpStream::from);
        if lent.is_some() {
            self.socket.shutdown(Shutdown::Write);
        }
        Ok(lent.map(|tcp| Data::plain(Socket::Tcp(tcp))))
    }

    /// Separates the socket and TLS, for control, and returns what arrived together with the end of the handshake.
    pub(crate) fn into_parts(self) -> (Arc<Socket>, Option<(Connection, Vec<u8>)>) {
        let tls = self.tls.map(|sealed| {
            let sealed = *sealed;
            let rest = sealed.inbox[sealed.taken..sealed.filled].to_vec();
            (sealed.tls, rest)
        });
        (self.socket, tls)
    }
}

/// Returns true if the peer is in the network namespace of this process, as far as this process may know.
fn is_in_own_namespace(near: &UnixStream) -> bool {
    let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net"));
    let peer = peer(near.as_fd()).and_then(|peer| of(&peer.pid.to_string()));
    matches!((peer, of("self")), (Ok(peer), Ok(own)) if peer == own)
}

impl Sealed {
    fn send(&mut self, socket: &Socket) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut &*socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                // TLS already has the bytes: a caller that saw this error would write them again.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    /// Gives TLS more received bytes; returns 0 at the end of the connection.
    fn receive(&mut self, socket: &Socket) -> io::Result<usize> {
        if self.taken == self.filled {
            self.taken = 0;
            self.filled = 0;
            self.filled = loop {
                match (&mut &*socket).read(&mut self.inbox) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    other => break other?,
                }
            };
        }
        let mut rest = &self.inbox[self.taken..self.filled];
        let took = self.tls.read_tls(&mut rest)?;
        self.taken += took;
        if let Err(error) = self.tls.process_new_packets() {
            // Try to inform the other side why.
            let _ = self.send(socket);
            return Err(io::Error::new(ErrorKind::InvalidData, error));
        }
        Ok(took)
    }
}

impl Read for Data {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let Some(sealed) = &mut self.tls else {
            return (&mut &*self.socket).read(buf);
        };
        // Take as many records as have already arrived: each call after this one costs a system call.
        let mut len = 0;
        loop {
            match sealed.tls.reader().read(&mut buf[len..]) {
                Ok(0) => return Ok(len),
                Ok(more) if len + more == buf.len() => return Ok(len + more),
                Ok(more) => {
                    len += more;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The error will occur again at the next call.
                Err(_) if len > 0 => return Ok(len),
                Err(error) => return Err(error),
            }
            if len > 0 && sealed.taken == sealed.filled {
                return Ok(len);
            }
            // If a connection ends without a close alert, the reader above returns the error.
            sealed.receive(&self.socket)?;
        }
    }
}

impl Write for Data {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let Some(sealed) = &mut self.tls else {
            return (&mut &*self.socket).write(buf);
        };
        let written = sealed.tls.writer().write(buf)?;
        sealed.send(&self.socket)?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn who_was_lent_a_connection_sends_on_it_and_who_was_not_on_its_own() {
        let (onward, mut far) = connected();
        let onward = Data::plain(Socket::Tcp(onward));
        let (near, cp) = UnixStream::pair().unwrap();
        let [mut near, cp] = [near, cp].map(|unix| Data::plain(Socket::Unix(unix)));
        assert!(cp.lent().unwrap().is_none(), "nothing is lent yet");
        near.offer(&onward);
        let mut lent = cp.lent().unwrap().expect("it is there at once");
        assert!(near.taken().unwrap().is_some());
        lent.write_all(b"all").unwrap();
        lent.end().unwrap();
        let mut came = String::new();
        far.read_to_string(&mut came).unwrap();
        assert_eq!(came, "all");
        // A process that does not know about lending sends on its own connection.
        let (near, cp) = UnixStream::pair().unwrap();
        let mut near = Data::plain(Socket::Unix(near));
        near.offer(&onward);
        (&cp).write_all(b"x").unwrap();
        assert_eq!(near.taken().unwrap(), None);
        // Between nodes, and if control uses TLS, nothing is lent.
        let (tcp, _far) = connected();
        let mut tcp = Data::plain(Socket::Tcp(tcp));
        tcp.offer(&onward);
        assert!(tcp.taken().unwrap().is_none() && tcp.lent().unwrap().is_none());
        let (near, _far) = UnixStream::pair().unwrap();
        let mut near = Data::plain(Socket::Unix(near));
        near.offer(&Data::plain(Socket::Unix(cp)));
        assert_eq!(near.taken().unwrap(), None);
    }
}
