//! Connects in the background, while the program does other things.
//!
//! ```text
//!   program ── descriptor ══ pair ══ other end ── two threads ── stream
//! ```
//!
//! The program waits until the descriptor is writable, perhaps by epoll, which identifies files and not numbers; so the
//! descriptor has to stay the same file. Until the stream is open, the pair is full of junk bytes. They are removed
//! before the threads begin to carry data.

use crate::errno::Errno;
use crate::socket::Socket;
use crate::sys;
use client::{Accepted, Stream};
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// The other ends of descriptors from which threads carry data, and the condition for waiting until they are done.
static CARRIED: Mutex<Vec<Weak<UnixStream>>> = Mutex::new(Vec::new());
static DONE: Condvar = Condvar::new();

/// Opens a stream in the background, and then carries data between it and `other`.
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
            // The socket was closed in the meantime.
            return;
        };
        let stream = opened.as_ref().ok().cloned();
        let other = Arc::new(UnixStream::from(other));
        // This happens before the program can write.
        let carried = Carried::enter(&other);
        let show = || {
            if stream.is_some() {
                // Remove no more than the junk: behind it may already be data of the program.
                sys::drain(&*other, junk);
            }
        };
        socket.connected(opened, show);
        drop(socket);
        // If connecting has failed, the program sees the end of the pair.
        if let Some(stream) = stream
            && let Accepted::Bytes(stream) = &*stream
        {
            carry(&other, stream, carried);
        }
    });
    started.map(drop).map_err(|_| libc::EAGAIN)
}

/// Waits until the data that the program has written has been carried, up to `timeout`. It is for the end of the
/// program: the descriptors accept nothing afterwards.
pub(crate) fn settle(timeout: Duration) {
    let end = Instant::now() + timeout;
    let mut all = carried();
    for program in all.iter().filter_map(Weak::upgrade) {
        // Data in the buffer is still read, followed by the end.
        let _ = program.shutdown(Shutdown::Read);
    }
    while !all.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        let waited = DONE.wait_timeout(all, left);
        all = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

fn carried() -> MutexGuard<'static, Vec<Weak<UnixStream>>> {
    CARRIED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A descriptor from which a thread carries data, until this value is dropped.
struct Carried(Weak<UnixStream>);

impl Carried {
    fn enter(program: &Arc<UnixStream>) -> Carried {
        let this = Arc::downgrade(program);
        carried().push(this.clone());
        Carried(this)
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        carried().retain(|other| !other.ptr_eq(&self.0));
        DONE.notify_all();
    }
}

/// Carries data in both directions until both have ended.
fn carry(program: &UnixStream, stream: &Stream, carried: Carried) {
    let (mut to_program, mut from_program) = (program, program);
    let (mut to_stream, mut from_stream) = (stream, stream);
    thread::scope(|scope| {
        let outward = thread::Builder::new().spawn_scoped(scope, move || {
            let _carried = carried;
            match io::copy(&mut from_program, &mut to_stream) {
                Ok(_) => stream.shutdown(Shutdown::Write),
                Err(_) => program.shutdown(Shutdown::Both),
            }
        });
        // Only the fact of the end is passed on; the socket asks the stream for the reason.
        let end = match (outward, io::copy(&mut from_stream, &mut to_program)) {
            (Ok(_), Ok(_)) => Shutdown::Write,
            _ => Shutdown::Both,
        };
        let _ = program.shutdown(end);
    });
}
