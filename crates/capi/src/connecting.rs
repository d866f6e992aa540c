//! Connecting while the program does other things.
//!
//! ```text
//!   program ── descriptor ══ pair ══ other end ── two threads ── stream
//! ```
//!
//! The program watches the descriptor for being writable, perhaps by epoll, which knows files and
//! not numbers; so it has to stay the same file. Until the stream is open the pair is full, and what
//! it is full of is taken out before the threads begin to carry.

use crate::errno::Errno;
use crate::socket::Socket;
use crate::sys;
use client::{Accepted, Stream};
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

/// Opens a stream in the background, and carries between it and `other` from then on.
pub(crate) fn start(
    socket: &Arc<Socket>,
    other: OwnedFd,
    open: impl FnOnce() -> Result<Accepted, Errno> + Send + 'static,
) -> Result<(), Errno> {
    let junk = sys::fill(socket.number());
    let socket = Arc::downgrade(socket);
    let background = thread::Builder::new().name("sinew-connect".into());
    let started = background.spawn(move || {
        let opened = open().map(Arc::new);
        let Some(socket) = socket.upgrade() else {
            // Closed in the meantime.
            return;
        };
        let stream = opened.as_ref().ok().cloned();
        let show = || {
            if stream.is_some() {
                // No more: behind it may be what the program has written by now.
                sys::drain(&other, junk);
            }
        };
        socket.connected(opened, show);
        drop(socket);
        // Whoever fails sees the pair's end.
        if let Some(stream) = stream
            && let Accepted::Bytes(stream) = &*stream
        {
            carry(&UnixStream::from(other), stream);
        }
    });
    started.map(drop).map_err(|_| libc::EAGAIN)
}

/// Carries both ways until both have ended.
fn carry(program: &UnixStream, stream: &Stream) {
    let (mut to_program, mut from_program) = (program, program);
    let (mut to_stream, mut from_stream) = (stream, stream);
    thread::scope(|scope| {
        let outward = thread::Builder::new().spawn_scoped(scope, move || {
            match io::copy(&mut from_program, &mut to_stream) {
                Ok(_) => stream.shutdown(Shutdown::Write),
                Err(_) => program.shutdown(Shutdown::Both),
            }
        });
        // An end is an end; why it is one the socket asks the stream.
        let end = match (outward, io::copy(&mut from_stream, &mut to_program)) {
            (Ok(_), Ok(_)) => Shutdown::Write,
            _ => Shutdown::Both,
        };
        let _ = program.shutdown(end);
    });
}
