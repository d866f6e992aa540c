//! RIST, the Video Services Forum's protocol for live video over lossy networks (TR-06-1, TR-06-2), by librist.
//!
//! ```text
//!   Receiver::open(ends, options) ──librist's threads repair──▶ receive ──▶ packets, when their time has come
//!   Sender::open(ends, options) ──send──▶ librist's threads, which send again what is asked for
//! ```
//! An end listens or calls, independently of the direction of the stream. The library has threads of its own, which
//! report through [`Stats`] and [`Context::events`]. It is loaded when it is first used ([`LoadError`]).

mod library;

use core::fmt;
use core::time::Duration;
use libc::{c_char, c_int, c_void};
use library::{Library, Logging, PeerConfig, RawBlock, RawStats, library};
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use library::LoadError;

/// Largest size of a packet: 1500 less the headers of IP, UDP, GRE and RTP.
pub const PAYLOAD_BYTES_MAX: usize = 1_440;
/// Largest length of a secret: the library stores 128 bytes with the zero at the end.
pub const SECRET_BYTES_MAX: usize = 127;
/// Number of packets that may wait to be taken; the library needs a power of two. Choice: 8192 of 1316 bytes are 11 MB,
/// and 0.9 s of 100 Mbit/s.
const WAITING_PACKETS: u32 = 8_192;
/// Number of events that may wait to be taken; later ones are lost.
const EVENTS_MAX: usize = 64;
/// Number of callers whose address is known; of later ones it is not known. Choice: 4096 of 32 bytes are 128 kB.
const CALLERS_MAX: usize = 4_096;
/// How often the library reports its counters.
const STATS_EVERY_MS: c_int = 1_000;

/// The RIST profile that both ends use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// RTP and RTCP (TR-06-1): the sender calls, at an even port.
    Simple,
    /// One tunnel with a single port, perhaps encrypted (TR-06-2).
    Main,
}

/// The parameters of connections.
#[derive(Clone)]
pub struct Options {
    /// The profile that both ends use.
    pub profile: Profile,
    /// How long packets are held, so that lost packets can be retransmitted.
    pub latency: Duration,
    /// Encrypts with a key of this many bits (128 or 256) from this secret; only with the main profile.
    pub secret: Option<(String, u16)>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("profile", &self.profile)
            .field("latency", &self.latency)
            .field("is_encrypted", &self.secret.is_some())
            .finish()
    }
}

/// One end of the connection to the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Waits for a call at this address.
    Listen(SocketAddr),
    /// Calls this host and port repeatedly until it answers.
    Call(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Listen(at) => write!(f, "rist://@{at}"),
            End::Call(to) => write!(f, "rist://{to}"),
        }
    }
}

/// Why there is no connection.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// There is no librist.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It does not accept an end.
    #[error("{end}: librist does not take it{}", if *.is_simple { ": the simple profile needs an even port, and its sender calls" } else { ": is the port in use, or the host unknown?" })]
    End {
        /// The end.
        end: String,
        /// True for the simple profile.
        is_simple: bool,
    },
    /// The secret is empty, too long, or has a zero in it.
    #[error("a secret has 1 to {SECRET_BYTES_MAX} bytes, no zero, and needs the main profile")]
    Secret,
    /// The library refused something else.
    #[error("librist: {0} failed")]
    Failed(&'static str),
}

/// Something that has happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The other side has connected.
    Connected(Peer),
    /// The other side was silent for too long.
    Lost(Peer),
}

/// The other side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The library's number of the connection; a later connection may have the same.
    id: usize,
    /// The address of a caller; none if this side calls. It has no port, because librist 0.2.7 reports a wrong one: two
    /// bytes of the address in text.
    pub address: Option<IpAddr>,
}

impl Peer {
    /// Returns whether a packet came over this connection.
    pub fn has_sent(&self, packet: &Received) -> bool {
        self.id == packet.peer
    }

    /// Returns whether both are the same connection.
    pub fn is(&self, other: &Peer) -> bool {
        self.id == other.id
    }
}

/// A received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Number of bytes in the buffer.
    pub len: usize,
    /// The flow: each sender has one of its own, and draws a new number when it starts.
    pub flow: u32,
    /// The library's number of the connection: see [`Context::peer`].
    peer: usize,
}

/// The library's counters. Totals are since the beginning, the other values are of the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// The round trip; with several ends that of the one reported last.
    pub rtt_ms: u32,
    /// Bits per second, without retransmissions.
    pub rate_bps: u64,
    /// Bits per second of retransmissions.
    pub retry_rate_bps: u64,
    /// Packets sent, or received.
    pub packets: u64,
    /// For a sender: packets that were retransmitted.
    pub retransmitted: u64,
    /// For a receiver: packets that were missing when a later one arrived.
    pub missing: u64,
    /// For a receiver: missing packets that were recovered.
    pub recovered: u64,
    /// For a receiver: missing packets that were not recovered.
    pub lost: u64,
}

/// The reports of the library's threads.
#[derive(Debug, Default)]
struct Watch {
    stats: Mutex<Stats>,
    events: Mutex<Vec<Event>>,
    /// The addresses of callers, by the library's number of the connection.
    callers: Mutex<HashMap<usize, IpAddr>>,
}

impl Watch {
    fn peer(&self, id: usize) -> Peer {
        Peer {
            id,
            address: lock(&self.callers).get(&id).copied(),
        }
    }
}

/// The common part of a [`Receiver`] and a [`Sender`].
pub struct Context {
    library: &'static Library,
    handle: *mut c_void,
    /// The library's threads use it until the context is destroyed.
    watch: Box<Watch>,
}

// SAFETY: the library's functions may be called from any thread, and lock by themselves.
unsafe impl Send for Context {}

/// Receives a stream.
pub struct Receiver(Context);

/// Sends a stream to all who listen or call.
pub struct Sender(Context);

/// Loads the library. Returns its version, such as `0.2.7`.
pub fn load() -> Result<String, LoadError> {
    let library = library()?;
    // SAFETY: no arguments, and a string that ends in zero comes back, which stays.
    let version = unsafe { CStr::from_ptr((library.librist_version)()) };
    Ok(version.to_string_lossy().into_owned())
}

impl Context {
    fn open(
        create: impl FnOnce(&Library, *mut *mut c_void, c_int, *mut Logging) -> c_int,
        prepare: impl FnOnce(&Library, *mut c_void) -> c_int,
        ends: &[End],
        options: &Options,
    ) -> Result<Context, Error> {
        let library = library()?;
        let mut handle = core::ptr::null_mut();
        let profile = match options.profile {
            Profile::Simple => 0,
            Profile::Main => 1,
        };
        // It is never freed, because the library keeps the address.
        let silent = Box::into_raw(Box::new(Logging::SILENT));
        if create(library, &raw mut handle, profile, silent) != 0 || handle.is_null() {
            return Err(Error::Failed("rist_create"));
        }
        let context = Context {
            library,
            handle,
            watch: Box::default(),
        };
        let watch: *const Watch = &raw const *context.watch;
        let arg = watch.cast_mut().cast();
        // SAFETY: the functions have the types of the library's header, and `arg` is there until the
        // context is destroyed.
        let set = unsafe {
            (library.rist_connection_status_callback_set)(handle, on_status, arg)
                | (library.rist_auth_handler_set)(handle, on_caller, on_gone, arg)
                | (library.rist_stats_callback_set)(handle, STATS_EVERY_MS, on_stats, arg)
        };
        if set != 0 || prepare(library, handle) != 0 {
            return Err(Error::Failed("a setting"));
        }
        for end in ends {
            context.add(end, options)?;
        }
        // SAFETY: the context is whole.
        match unsafe { (library.rist_start)(handle) } {
            0 => Ok(context),
            _ => Err(Error::Failed("rist_start")),
        }
    }

    fn add(&self, end: &End, options: &Options) -> Result<(), Error> {
        let refused = || Error::End {
            end: end.to_string(),
            is_simple: options.profile == Profile::Simple,
        };
        let url = CString::new(end.to_string()).map_err(|_| refused())?;
        let mut config: *mut PeerConfig = core::ptr::null_mut();
        // SAFETY: the string ends in zero, and the library makes the structure.
        let parsed = unsafe { (self.library.rist_parse_address2)(url.as_ptr(), &raw mut config) };
        // SAFETY: null, or a structure of the library that is ours until it is freed.
        let Some(of) = (unsafe { config.as_mut() }).filter(|_| parsed == 0) else {
            return Err(refused());
        };
        let ms = u32::try_from(options.latency.as_millis()).unwrap_or(u32::MAX);
        (of.recovery_length_min_ms, of.recovery_length_max_ms) = (ms, ms);
        let is_secret_good = match &options.secret {
            None => true,
            Some((secret, bits)) => {
                of.key_bits = c_int::from(*bits);
                write_text(&mut of.secret, secret) && options.profile == Profile::Main
            }
        };
        let mut peer = core::ptr::null_mut();
        let added = match is_secret_good {
            // SAFETY: the context is not started, and the structure is whole; the library copies it.
            true => unsafe { (self.library.rist_peer_create)(self.handle, &raw mut peer, config) },
            false => -1,
        };
        // SAFETY: it is the library's own, and not used again.
        unsafe { (self.library.rist_peer_config_free2)(&raw mut config) };
        match (added, is_secret_good) {
            (0, _) => Ok(()),
            (_, false) => Err(Error::Secret),
            (_, true) => Err(refused()),
        }
    }

    /// Returns the counters up to the last second.
    pub fn stats(&self) -> Stats {
        *lock(&self.watch.stats)
    }

    /// Returns the sender of a packet.
    pub fn peer(&self, of: &Received) -> Peer {
        self.watch.peer(of.peer)
    }

    /// Returns the events since the last call.
    pub fn events(&self) -> Vec<Event> {
        core::mem::take(&mut *lock(&self.watch.events))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is not used again; its threads, which read `watch`, have ended after this.
        unsafe { (self.library.rist_destroy)(self.handle) };
    }
}

impl Receiver {
    /// Receives a stream at these ends. They need not be reachable yet.
    pub fn open(ends: &[End], options: &Options) -> Result<Receiver, Error> {
        let context = Context::open(
            // SAFETY: `handle` and `log` are good for what the library writes and keeps.
            |library, handle, profile, log| unsafe {
                (library.rist_receiver_create)(handle, profile, log)
            },
            // SAFETY: the context is not started.
            |library, handle| unsafe {
                (library.rist_receiver_set_output_fifo_size)(handle, WAITING_PACKETS)
            },
            ends,
            options,
        )?;
        Ok(Receiver(context))
    }

    /// Waits for a packet, and copies it into `buffer` as far as it fits. Returns its length and its sender, or `None`
    /// if there was none in time.
    pub fn receive(&self, buffer: &mut [u8], wait: Duration) -> Result<Option<Received>, Error> {
        let Context {
            library, handle, ..
        } = &self.0;
        let mut block: *mut RawBlock = core::ptr::null_mut();
        let ms = c_int::try_from(wait.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: `block` has room for the address.
        let got = unsafe { (library.rist_receiver_data_read2)(*handle, &raw mut block, ms) };
        if got < 0 {
            return Err(Error::Failed("rist_receiver_data_read2"));
        }
        // SAFETY: null, or a block of the library that is ours until it is freed.
        let Some(of) = (unsafe { block.as_ref() }) else {
            return Ok(None);
        };
        let len = of.payload_bytes.min(buffer.len());
        if len > 0 {
            // SAFETY: the block has this many bytes, and the buffer too.
            unsafe { core::ptr::copy_nonoverlapping(of.payload.cast(), buffer.as_mut_ptr(), len) };
        }
        let (flow, peer) = (of.flow, of.peer.addr());
        // SAFETY: it is the library's own, and not used again.
        unsafe { (library.rist_receiver_data_block_free2)(&raw mut block) };
        Ok(Some(Received { len, flow, peer }))
    }

    /// Returns the state of its connections.
    pub fn context(&self) -> &Context {
        &self.0
    }
}

impl Sender {
    /// Sends a stream to these ends. They need not be reachable yet.
    pub fn open(ends: &[End], options: &Options) -> Result<Sender, Error> {
        let context = Context::open(
            // SAFETY: `handle` and `log` are good for what the library writes and keeps; 0 is for a flow of
            // the library's choice.
            |library, handle, profile, log| unsafe {
                (library.rist_sender_create)(handle, profile, 0, log)
            },
            |_, _| 0,
            ends,
            options,
        )?;
        Ok(Sender(context))
    }

    /// Passes a packet to the library, which sends it now. Returns false if the library does not accept it.
    pub fn send(&self, packet: &[u8]) -> bool {
        if packet.len() > PAYLOAD_BYTES_MAX {
            return false;
        }
        let block = RawBlock::of(packet);
        let Context {
            library, handle, ..
        } = &self.0;
        // SAFETY: the library copies the block and its payload.
        unsafe { (library.rist_sender_data_write)(*handle, &raw const block) >= 0 }
    }

    /// Returns the state of its connections.
    pub fn context(&self) -> &Context {
        &self.0
    }
}

/// Writes text with a zero at its end. Returns false if it is empty, too long, or contains a zero.
fn write_text(to: &mut [c_char], text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.is_empty() || bytes.len() >= to.len() || bytes.contains(&0) {
        return false;
    }
    to.fill(0);
    for (to, byte) in to.iter_mut().zip(bytes) {
        *to = c_char::from_ne_bytes([*byte]);
    }
    true
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `connection_status_callback_t`.
unsafe extern "C" fn on_status(arg: *mut c_void, peer: *mut c_void, status: c_int) {
    // SAFETY: `arg` is the context's `Watch`, which is there until the library's threads have ended.
    let watch = unsafe { &*arg.cast::<Watch>() };
    let peer = watch.peer(peer.addr());
    let event = match status {
        // RIST_CONNECTION_ESTABLISHED, RIST_CLIENT_CONNECTED.
        0 | 2 => Event::Connected(peer),
        _ => Event::Lost(peer),
    };
    let mut events = lock(&watch.events);
    if events.len() < EVENTS_MAX {
        events.push(event);
    }
}

/// Notes the address of a caller, and lets it in: the secret decides, if there is one.
unsafe extern "C" fn on_caller(
    arg: *mut c_void,
    ip: *const c_char,
    _port: u16,
    _local_ip: *const c_char,
    _local_port: u16,
    peer: *mut c_void,
) -> c_int {
    // SAFETY: `arg` is the context's `Watch`, which is there until the library's threads have ended.
    let watch = unsafe { &*arg.cast::<Watch>() };
    if ip.is_null() {
        return 0;
    }
    // SAFETY: the library gives a string that ends in zero.
    let ip = unsafe { CStr::from_ptr(ip) }.to_str();
    if let Some(ip) = ip.ok().and_then(|ip| ip.parse::<IpAddr>().ok()) {
        let mut callers = lock(&watch.callers);
        if callers.len() < CALLERS_MAX || callers.contains_key(&peer.addr()) {
            callers.insert(peer.addr(), ip.to_canonical());
        }
    }
    0
}

/// Forgets the address of a caller.
unsafe extern "C" fn on_gone(arg: *mut c_void, peer: *mut c_void) -> c_int {
    // SAFETY: `arg` is the context's `Watch`, which is there until the library's threads have ended.
    let watch = unsafe { &*arg.cast::<Watch>() };
    lock(&watch.callers).remove(&peer.addr());
    0
}

/// The type of `rist_stats_callback_set`.
unsafe extern "C" fn on_stats(arg: *mut c_void, raw: *const RawStats) -> c_int {
    // SAFETY: `arg` is the context's `Watch`, which is there until the library's threads have ended.
    let watch = unsafe { &*arg.cast::<Watch>() };
    // SAFETY: the library gives its structure, which is ours until it is freed.
    if let Some(of) = unsafe { raw.as_ref() } {
        let mut stats = lock(&watch.stats);
        of.tell(&mut stats);
    }
    if let Ok(library) = library() {
        // SAFETY: it is the library's own, and not used again.
        unsafe { (library.rist_stats_free)(raw) };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_written_as_the_library_reads_them() {
        let listen = End::Listen("[::1]:1968".parse().unwrap());
        assert_eq!(listen.to_string(), "rist://@[::1]:1968");
        assert_eq!(
            End::Call("a.example:1968".to_owned()).to_string(),
            "rist://a.example:1968"
        );
    }

    #[test]
    fn texts_end_in_zero_and_fit() {
        let mut to = [1; 4];
        assert!(write_text(&mut to, "abc"));
        assert_eq!(to.map(|c| c as u8), *b"abc\0");
        for bad in ["", "abcd", "a\0b"] {
            assert!(!write_text(&mut to, bad), "{bad:?}");
        }
    }

    #[test]
    fn a_stream_passes_encrypted_and_one_with_another_secret_does_not() {
        if let Err(why) = load() {
            eprintln!("SKIPPED: RIST is not tested: {why}");
            return;
        }
        let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = port.local_addr().unwrap();
        drop(port);
        let options = |secret: &str| Options {
            profile: Profile::Main,
            latency: Duration::from_millis(50),
            secret: Some((secret.to_owned(), 128)),
        };
        let receiver = Receiver::open(&[End::Listen(at)], &options("a good secret")).unwrap();
        let call = [End::Call(at.to_string())];
        let stranger = Sender::open(&call, &options("another secret")).unwrap();
        let sender = Sender::open(&call, &options("a good secret")).unwrap();
        let mut buffer = [0; PAYLOAD_BYTES_MAX];
        let mut got = 0;
        let mut from = Vec::new();
        // Repeat until ten have arrived, which takes as long as the ends need to meet.
        for number in 0..2_000u32 {
            stranger.send(&[0xee; 188]);
            sender.send(&[number.to_be_bytes(), [7; 4]].concat());
            while let Some(packet) = receiver
                .receive(&mut buffer, Duration::from_millis(5))
                .unwrap()
            {
                assert_eq!(
                    (packet.len, &buffer[4..8]),
                    (8, &[7; 4][..]),
                    "of the stranger"
                );
                from.push((packet.flow, receiver.context().peer(&packet)));
                got += 1;
            }
            if got >= 10 {
                break;
            }
        }
        assert!(got >= 10, "{got}");
        let events = receiver.context().events();
        // All are of one flow, and of the caller that has connected, whose address is known.
        from.dedup();
        let [(_, peer)] = from[..] else {
            panic!("{from:?}");
        };
        assert!(events.contains(&Event::Connected(peer)), "{events:?}");
        assert_eq!(peer.address, Some(at.ip()));
        assert!(!sender.send(&[0; PAYLOAD_BYTES_MAX + 1]));
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_word() {
        if let Err(why) = load() {
            eprintln!("SKIPPED: RIST is not tested: {why}");
            return;
        }
        let options = Options {
            profile: Profile::Simple,
            latency: Duration::from_millis(50),
            secret: Some(("x".to_owned(), 128)),
        };
        let end = [End::Listen("127.0.0.1:2".parse().unwrap())];
        let refused = Receiver::open(&end, &options).map(drop);
        assert!(matches!(refused, Err(Error::Secret)), "{refused:?}");
    }
}
