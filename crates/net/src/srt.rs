//! SRT, the protocol by which video encoders send over lossy networks, implemented by libsrt.
//!
//! ```text
//!   Listener::bind(addr, options, admit) ──accept──▶ Socket ──receive──▶ messages, when their time has come
//!   Socket::call(addr, options) ──▶ Poll: ready to send once it is connected ──send──▶
//!   Poll: libsrt's own, because a connection has no descriptor
//! ```
//! The library has threads of its own, which send, receive, repair and hold packets back until their time. Calls here
//! never block except [`Poll::wait`]. It is loaded when it is first used ([`LoadError`]).

mod library;
mod options;
mod stats;

use crate::addr::{NAME_BYTES, Name as Address, socket_addr};
use core::time::Duration;
use libc::{c_char, c_int, c_void, sockaddr};
use library::{Library, MessageControl, PollEvent, library};
use options::Name;
use std::ffi::CStr;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use library::LoadError;
pub use options::{
    Options, PASSPHRASE_BYTES, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_TS, STREAM_ID_BYTES_MAX,
};
pub use stats::Stats;

/// Number of connections that may wait after their handshake until they are accepted.
const BACKLOG: c_int = 64;
/// Largest number of events of one wait.
const EVENTS_MAX: usize = 64;

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Nothing can be done now.
    #[error("nothing to do now")]
    WouldBlock,
    /// The connection is over.
    #[error("the connection is over")]
    Broken,
    /// The peer refused the call.
    #[error("{0}")]
    Rejected(String),
    /// Another error of libsrt.
    #[error("libsrt: {0}")]
    Other(String),
    /// There is no libsrt.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Why a listener refuses a caller, as numbers that the caller gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Refusal {
    /// The request cannot be understood.
    BadRequest = 1_400,
    /// The largest number of connections is reached.
    Overload = 1_402,
    /// The requested stream does not exist here.
    NotFound = 1_404,
    /// The caller wants to send a stream that it could only receive, or the other way round.
    BadMode = 1_405,
    /// Another caller already sends this stream.
    Conflict = 1_409,
}

/// Decides on a caller, by its address and its request. It runs on a thread of the library, and must be quick.
pub type Admit = dyn Fn(SocketAddr, &str) -> Result<(), Refusal> + Send + Sync;

/// A connection that is established or being established. Several threads may use it.
pub struct Socket {
    library: &'static Library,
    id: c_int,
}

/// Accepts calls.
pub struct Listener(Socket);

/// Loads the library. Returns its version, such as `1.5.1`.
pub fn load() -> Result<String, LoadError> {
    let library = library()?;
    // SAFETY: no arguments, and a number comes back.
    let [_, major, minor, patch] = unsafe { (library.srt_getversion)() }.to_be_bytes();
    Ok(format!("{major}.{minor}.{patch}"))
}

/// Returns the library's clock, in microseconds.
pub fn now_us() -> i64 {
    // SAFETY: no arguments, and a number comes back.
    library().map_or(0, |library| unsafe { (library.srt_time_now)() })
}

impl Listener {
    /// Accepts calls at `addr`. `admit` is kept for the life of the process, because a thread of the library may still
    /// be running it when the listener is dropped.
    pub fn bind(addr: SocketAddr, options: &Options, admit: Box<Admit>) -> Result<Listener, Error> {
        let socket = Socket::new()?;
        options.apply(&socket, false)?;
        socket.set(Name::ReuseAddress, 1)?;
        if addr.is_ipv6() {
            socket.set(Name::V6Only, 0)?;
        }
        let (name, len) = Address::of(addr);
        // SAFETY: `name` holds an address of `len` bytes.
        socket.check(unsafe {
            (socket.library.srt_bind)(socket.id, (&raw const name).cast(), len as c_int)
        })?;
        let opaque = Box::into_raw(Box::new(admit)).cast();
        let listen_callback = socket.library.srt_listen_callback;
        // SAFETY: `on_caller` has the type of srt_listen_callback_fn, and `opaque`, which it reads as what it
        // was made of, is never freed.
        socket.check(unsafe { listen_callback(socket.id, on_caller, opaque) })?;
        // SAFETY: numbers only.
        socket.check(unsafe { (socket.library.srt_listen)(socket.id, BACKLOG) })?;
        Ok(Listener(socket))
    }

    /// Returns the address that it listens on.
    pub fn local(&self) -> Result<SocketAddr, Error> {
        let (mut name, mut len) = (Address::EMPTY, NAME_BYTES as c_int);
        // SAFETY: `name` has room for `len` bytes.
        self.0.check(unsafe {
            (self.0.library.srt_getsockname)(self.0.id, (&raw mut name).cast(), &raw mut len)
        })?;
        name.read(0).map(socket_addr).ok_or(Error::Broken)
    }

    /// Accepts a caller that was admitted and has completed the handshake.
    pub fn accept(&self) -> Result<(Socket, SocketAddr), Error> {
        let (mut name, mut len) = (Address::EMPTY, NAME_BYTES as c_int);
        // SAFETY: `name` has room for `len` bytes.
        let id = self.0.check(unsafe {
            (self.0.library.srt_accept)(self.0.id, (&raw mut name).cast(), &raw mut len)
        })?;
        let socket = Socket {
            library: self.0.library,
            id,
        };
        // The socket inherits the listener's options, except that its calls do not block.
        socket.set(Name::ReceiveSynchronous, 0)?;
        socket.set(Name::SendSynchronous, 0)?;
        let peer = name.read(0).map(socket_addr).ok_or(Error::Broken)?;
        Ok((socket, peer))
    }

    /// Returns the socket, to wait for callers.
    pub fn socket(&self) -> &Socket {
        &self.0
    }
}

/// Asks the listener's `Admit`, and passes the answer to the library.
unsafe extern "C" fn on_caller(
    opaque: *mut c_void,
    socket: c_int,
    _version: c_int,
    peer: *const sockaddr,
    stream_id: *const c_char,
) -> c_int {
    /// SRT_REJX_ISE, the code for a server error.
    const FAILED: c_int = 1_500;
    let decide = || {
        // SAFETY: `opaque` is what `Listener::bind` has given, which is never freed.
        let admit = unsafe { &*opaque.cast::<Box<Admit>>() };
        // SAFETY: the library gives an address of an IP family, as long as its family says.
        let peer = unsafe { address_at(peer) }.ok_or(FAILED)?;
        let id = match stream_id.is_null() {
            true => String::new(),
            // SAFETY: the library gives a string that ends in zero.
            false => unsafe { CStr::from_ptr(stream_id) }
                .to_string_lossy()
                .into_owned(),
        };
        admit(peer, &id).map_err(|refusal| refusal as c_int)
    };
    // A panic must not enter the library: it refuses the caller.
    let decided = catch_unwind(AssertUnwindSafe(decide)).unwrap_or(Err(FAILED));
    let Err(reason) = decided else {
        return 0;
    };
    if let Ok(library) = library() {
        // SAFETY: the socket is the one that this is about, and numbers only.
        unsafe { (library.srt_setrejectreason)(socket, reason) };
    }
    -1
}

/// Reads an address in the kernel's format.
///
/// # Safety
/// `name` is null or points to an address that is as long as its family says.
unsafe fn address_at(name: *const sockaddr) -> Option<SocketAddr> {
    // SAFETY: promised by the caller; the family is in front of every address.
    let family = unsafe { name.as_ref() }?.sa_family;
    let len = match i32::from(family) {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        _ => return None,
    };
    let mut ours = Address::EMPTY;
    // SAFETY: `len` bytes are there, as promised, and `ours` has room for the longer kind.
    unsafe { core::ptr::copy_nonoverlapping(name.cast::<u8>(), (&raw mut ours).cast(), len) };
    ours.read(0).map(socket_addr)
}

impl Socket {
    fn new() -> Result<Socket, Error> {
        let library = library()?;
        // SAFETY: no arguments, and a number comes back.
        let id = unsafe { (library.srt_create_socket)() };
        let socket = Socket { library, id };
        socket.check(id)?;
        Ok(socket)
    }

    /// Begins a call. It becomes ready to send when it is connected; a failed call is reported as failed.
    pub fn call(addr: SocketAddr, options: &Options) -> Result<Socket, Error> {
        let socket = Socket::new()?;
        options.apply(&socket, true)?;
        let (name, len) = Address::of(addr);
        // SAFETY: `name` holds an address of `len` bytes.
        socket.check(unsafe {
            (socket.library.srt_connect)(socket.id, (&raw const name).cast(), len as c_int)
        })?;
        Ok(socket)
    }

    /// Returns the id that its events of [`Poll`] have.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Returns the stream that the caller requests.
    pub fn stream_id(&self) -> String {
        let mut bytes = [0; STREAM_ID_BYTES_MAX + 1];
        let mut len = bytes.len() as c_int;
        let name = Name::StreamId as c_int;
        // SAFETY: `bytes` has room for `len` bytes.
        let got = unsafe {
            (self.library.srt_getsockflag)(self.id, name, bytes.as_mut_ptr().cast(), &raw mut len)
        };
        let len = usize::try_from(len).unwrap_or(0).min(bytes.len());
        match got {
            0 => String::from_utf8_lossy(&bytes[..len])
                .trim_end_matches('\0')
                .to_owned(),
            _ => String::new(),
        }
    }

    /// Returns true from the end of the handshake until the connection is over.
    pub fn is_connected(&self) -> bool {
        const CONNECTED: c_int = 5;
        self.state() == CONNECTED
    }

    /// Returns true while a call is not answered.
    pub fn is_connecting(&self) -> bool {
        const CONNECTING: c_int = 4;
        self.state() == CONNECTING
    }

    fn state(&self) -> c_int {
        // SAFETY: numbers only.
        unsafe { (self.library.srt_getsockstate)(self.id) }
    }

    /// Returns why a call was rejected.
    pub fn why_rejected(&self) -> Error {
        // SAFETY: numbers only.
        let reason = unsafe { (self.library.srt_getrejectreason)(self.id) };
        Error::Rejected(rejection(self.library, reason))
    }

    /// Takes a message whose time has come.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        let len = c_int::try_from(buffer.len()).unwrap_or(c_int::MAX);
        let mut control = control(0);
        // SAFETY: `buffer` has room for `len` bytes, and `control` is a SRT_MSGCTRL.
        let got = unsafe {
            (self.library.srt_recvmsg2)(self.id, buffer.as_mut_ptr().cast(), len, &raw mut control)
        };
        match self.check(got)? {
            // The library returns 0 at the end.
            0 => Err(Error::Broken),
            got => Ok(got as usize),
        }
    }

    /// Sends a message. It is played the connection's latency after `source_time_us`, a time of [`now_us`] since the
    /// connection began; 0 means now.
    pub fn send(&self, message: &[u8], source_time_us: i64) -> Result<(), Error> {
        let len = c_int::try_from(message.len()).unwrap_or(c_int::MAX);
        let mut control = control(source_time_us);
        // SAFETY: `message` has `len` bytes, and `control` is a SRT_MSGCTRL.
        let sent = unsafe {
            (self.library.srt_sendmsg2)(self.id, message.as_ptr().cast(), len, &raw mut control)
        };
        self.check(sent).map(drop)
    }

    fn set(&self, name: Name, value: c_int) -> Result<(), Error> {
        self.set_bytes(name, &value.to_ne_bytes())
    }

    fn set_bytes(&self, name: Name, value: &[u8]) -> Result<(), Error> {
        let (at, len) = (value.as_ptr().cast(), value.len() as c_int);
        // SAFETY: `value` has `len` bytes, which the library copies; an `int` is read as bytes.
        self.check(unsafe { (self.library.srt_setsockflag)(self.id, name as c_int, at, len) })
            .map(drop)
    }

    fn check(&self, result: c_int) -> Result<c_int, Error> {
        match result {
            -1 => Err(failure(self.library)),
            result => Ok(result),
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: numbers only. The library's numbers are not used again while it runs.
        unsafe { (self.library.srt_close)(self.id) };
    }
}

fn control(source_time_us: i64) -> MessageControl {
    MessageControl {
        flags: 0,
        ttl_ms: -1,
        in_order: 1,
        boundary: 0,
        source_time_us,
        packet: -1,
        number: -1,
        group: core::ptr::null_mut(),
        group_len: 0,
    }
}

/// Returns the error of this thread's last call to the library.
fn failure(library: &Library) -> Error {
    let mut errno = 0;
    // SAFETY: `errno` is an `int`.
    let code = unsafe { (library.srt_getlasterror)(&raw mut errno) };
    match code {
        // SRT_EASYNCFAIL and its kinds.
        6_000..7_000 => Error::WouldBlock,
        // SRT_ECONNFAIL and its kinds, SRT_ESCLOSED, SRT_EINVSOCK.
        2_000..3_000 | 1_005 | 5_004 => Error::Broken,
        code => {
            // SAFETY: numbers only.
            let text = unsafe { (library.srt_strerror)(code, errno) };
            // SAFETY: a string of the library that ends in zero, or null.
            Error::Other(unsafe { said(text) })
        }
    }
}

fn rejection(library: &Library, reason: c_int) -> String {
    const BAD_SECRET: c_int = 10;
    const UNSECURE: c_int = 11;
    const TIMEOUT: c_int = 16;
    match reason {
        BAD_SECRET => "the passphrase is not the other end's".to_owned(),
        UNSECURE => "one end has a passphrase, and the other has none".to_owned(),
        TIMEOUT => "nobody answers".to_owned(),
        1_400..1_600 => format!("the other end refused with code {}", reason - 1_000),
        // SAFETY: numbers only, and a string of the library that ends in zero comes back.
        reason => unsafe { said((library.srt_rejectreason_str)(reason)) },
    }
}

/// # Safety
/// `text` is null or a string that ends in zero.
unsafe fn said(text: *const c_char) -> String {
    match text.is_null() {
        true => "no reason given".to_owned(),
        // SAFETY: promised by the caller.
        false => unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .trim()
            .to_owned(),
    }
}

/// Waits for events of connections.
pub struct Poll {
    library: &'static Library,
    id: c_int,
}

/// The events to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// A message, or a caller.
    pub readable: bool,
    /// There is room for a message; for a call, it is connected.
    pub writable: bool,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The id of the socket: [`Socket::id`].
    pub id: i32,
    /// There is a message, or a caller.
    pub readable: bool,
    /// There is room for a message; for a call, it is connected.
    pub writable: bool,
    /// The connection is over, or a call has failed.
    pub failed: bool,
}

const IN: c_int = 1;
const OUT: c_int = 4;
const ERROR: c_int = 8;

impl Poll {
    /// Creates a poll that waits for nothing yet.
    pub fn new() -> Result<Poll, Error> {
        const ENABLE_EMPTY: i32 = 1;
        let library = library()?;
        // SAFETY: no arguments, and a number comes back.
        let id = unsafe { (library.srt_epoll_create)() };
        if id < 0 {
            return Err(failure(library));
        }
        let poll = Poll { library, id };
        // SAFETY: numbers only.
        unsafe { (library.srt_epoll_set)(id, ENABLE_EMPTY) };
        Ok(poll)
    }

    /// Waits for this socket, too, or for something else of it than before. A listener has to be added before callers
    /// arrive. If a call or connection was over before, nothing is reported: see [`Socket::is_connected`].
    pub fn add(&self, socket: &Socket, wanted: Wanted) -> Result<(), Error> {
        let readable = if wanted.readable { IN } else { 0 };
        let writable = if wanted.writable { OUT } else { 0 };
        let events = readable | writable | ERROR;
        // SAFETY: `events` is an `int`.
        socket
            .check(unsafe {
                (self.library.srt_epoll_add_usock)(self.id, socket.id, &raw const events)
            })
            .map(drop)
    }

    /// Stops waiting for this socket.
    pub fn remove(&self, socket: &Socket) {
        // SAFETY: numbers only; that it is not there is no matter.
        unsafe { (self.library.srt_epoll_remove_usock)(self.id, socket.id) };
    }

    /// Waits until something is ready, or for at most this long.
    pub fn wait(&self, timeout: Duration, ready: &mut Vec<Ready>) -> Result<(), Error> {
        ready.clear();
        let none = PollEvent {
            socket: 0,
            events: 0,
        };
        let mut events = [none; EVENTS_MAX];
        let ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
        // SAFETY: `events` has room for EVENTS_MAX of them.
        let count = unsafe {
            (self.library.srt_epoll_uwait)(self.id, events.as_mut_ptr(), EVENTS_MAX as c_int, ms)
        };
        let Ok(count) = usize::try_from(count) else {
            return match failure(self.library) {
                Error::WouldBlock => Ok(()),
                error => Err(error),
            };
        };
        ready.extend(events.iter().take(count).map(|event| Ready {
            id: event.socket,
            readable: event.events & IN != 0,
            writable: event.events & OUT != 0,
            failed: event.events & ERROR != 0,
        }));
        Ok(())
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        // SAFETY: numbers only.
        unsafe { (self.library.srt_epoll_release)(self.id) };
    }
}
