//! The functions of librist that are used. They are looked up when the first one is needed.
//!
//! Choice: the library is loaded at run time, so that a program without it does everything except RIST. Only version 4
//! of the interface is used, whose file name promises that it does not change (`librist.so.4`).

use super::Stats;
use crate::library::functions;
use core::mem::offset_of;
use libc::{c_char, c_double, c_int, c_void};
use std::sync::OnceLock;

const FILE: &str = "librist.so.4";

/// The library is missing, or this program cannot use it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoadError {
    /// Its file is not found.
    #[error(
        "RIST needs the library librist, and {FILE} is not found ({0}): install it, `apt-get install librist4`"
    )]
    Missing(String),
    /// It lacks a function.
    #[error(
        "{FILE} lacks a function ({0}): install librist 0.2.7 or later, `apt-get install librist4`"
    )]
    Foreign(String),
}

/// `struct rist_logging_settings`.
#[repr(C)]
pub(super) struct Logging {
    level: c_int,
    callback: *const c_void,
    arg: *const c_void,
    socket: c_int,
    stream: *const c_void,
}

impl Logging {
    /// RIST_LOG_DISABLE: the caller reports what fails.
    pub(super) const SILENT: Logging = Logging {
        level: -1,
        callback: core::ptr::null(),
        arg: core::ptr::null(),
        socket: -1,
        stream: core::ptr::null(),
    };
}

/// `struct rist_data_block`.
#[repr(C)]
pub(super) struct RawBlock {
    pub(super) payload: *const c_void,
    pub(super) payload_bytes: usize,
    time_ntp: u64,
    virtual_source_port: u16,
    virtual_destination_port: u16,
    pub(super) peer: *mut c_void,
    pub(super) flow: u32,
    seq: u64,
    flags: u32,
    reference: *mut c_void,
}

impl RawBlock {
    /// Creates a block that is to be sent now.
    pub(super) fn of(packet: &[u8]) -> RawBlock {
        RawBlock {
            payload: packet.as_ptr().cast(),
            payload_bytes: packet.len(),
            time_ntp: 0,
            virtual_source_port: 0,
            virtual_destination_port: 0,
            peer: core::ptr::null_mut(),
            flow: 0,
            seq: 0,
            flags: 0,
            reference: core::ptr::null_mut(),
        }
    }
}

/// `struct rist_peer_config`, version 0.
#[repr(C)]
pub(super) struct PeerConfig {
    version: c_int,
    address_family: c_int,
    initiates: c_int,
    address: [c_char; 256],
    interface: [c_char; 128],
    physical_port: u16,
    virtual_port: u16,
    recovery_mode: c_int,
    recovery_kbps: u32,
    recovery_return_kbps: u32,
    pub(super) recovery_length_min_ms: u32,
    pub(super) recovery_length_max_ms: u32,
    reorder_buffer_ms: u32,
    rtt_min_ms: u32,
    rtt_max_ms: u32,
    weight: u32,
    pub(super) secret: [c_char; 128],
    pub(super) key_bits: c_int,
    key_rotation: u32,
    compression: c_int,
    cname: [c_char; 128],
    congestion_control: c_int,
    retries_min: u32,
    retries_max: u32,
    session_timeout_ms: u32,
    keepalive_ms: u32,
    timing_mode: u32,
    user: [c_char; 256],
    password: [c_char; 256],
}

/// `struct rist_stats_sender_peer`.
#[repr(C)]
#[derive(Clone, Copy)]
struct OfSender {
    cname: [c_char; 128],
    peer: u32,
    bandwidth: usize,
    retry_bandwidth: usize,
    sent: u64,
    received: u64,
    retransmitted: u64,
    quality: c_double,
    rtt_ms: u32,
}

/// `struct rist_stats_receiver_flow`.
#[repr(C)]
#[derive(Clone, Copy)]
struct OfReceiver {
    peers: u32,
    cname: [c_char; 256],
    flow: u32,
    status: c_int,
    bandwidth: usize,
    retry_bandwidth: usize,
    sent: u64,
    received: u64,
    missing: u32,
    reordered: u32,
    recovered: u32,
    recovered_once: u32,
    lost: u32,
    quality: c_double,
    spacing_us: [u64; 3],
    rtt_ms: u32,
}

#[repr(C)]
union Of {
    sender: OfSender,
    receiver: OfReceiver,
}

/// `struct rist_stats`, version 0.
#[repr(C)]
pub(super) struct RawStats {
    json_bytes: u32,
    json: *const c_char,
    version: u16,
    kind: c_int,
    of: Of,
}

// The layout that a C compiler gives version 0.2.7 on 64 bits.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<RawBlock>() == 72 && offset_of!(RawBlock, seq) == 48);
    assert!(size_of::<PeerConfig>() == 1_240 && offset_of!(PeerConfig, secret) == 436);
    assert!(offset_of!(PeerConfig, recovery_length_min_ms) == 412);
    assert!(size_of::<RawStats>() == 392 && offset_of!(RawStats, of) == 24);
    assert!(size_of::<Logging>() == 40);
};

impl RawStats {
    /// Adds the library's counters, which count since its last report, for a receiver and for a sender alike.
    pub(super) fn tell(&self, stats: &mut Stats) {
        const SENDER: c_int = 0;
        if self.version != 0 {
            return;
        }
        if self.kind == SENDER {
            // SAFETY: the kind says which one it is.
            let of = unsafe { self.of.sender };
            stats.rtt_ms = of.rtt_ms;
            (stats.rate_bps, stats.retry_rate_bps) =
                (of.bandwidth as u64, of.retry_bandwidth as u64);
            stats.packets += of.sent;
            stats.retransmitted += of.retransmitted;
        } else {
            // SAFETY: the kind says which one it is.
            let of = unsafe { self.of.receiver };
            stats.rtt_ms = of.rtt_ms;
            (stats.rate_bps, stats.retry_rate_bps) =
                (of.bandwidth as u64, of.retry_bandwidth as u64);
            stats.packets += of.received;
            stats.missing += u64::from(of.missing);
            stats.recovered += u64::from(of.recovered);
            stats.lost += u64::from(of.lost);
        }
    }
}

pub(super) type OnStatus = unsafe extern "C" fn(*mut c_void, *mut c_void, c_int);
/// `rist_auth_handler_connect_cb`.
pub(super) type OnCaller = unsafe extern "C" fn(
    arg: *mut c_void,
    ip: *const c_char,
    port: u16,
    local_ip: *const c_char,
    local_port: u16,
    peer: *mut c_void,
) -> c_int;
/// `rist_auth_handler_disconnect_cb`.
pub(super) type OnGone = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
pub(super) type OnStats = unsafe extern "C" fn(*mut c_void, *const RawStats) -> c_int;

functions! {
    /// The functions that are used, under their own names.
    Library of "rist.h of librist 0.2.7":
    librist_version: fn() -> *const c_char;
    rist_receiver_create: fn(*mut *mut c_void, c_int, *mut Logging) -> c_int;
    rist_receiver_set_output_fifo_size: fn(*mut c_void, u32) -> c_int;
    rist_receiver_data_read2: fn(*mut c_void, *mut *mut RawBlock, c_int) -> c_int;
    rist_receiver_data_block_free2: fn(*mut *mut RawBlock) -> ();
    rist_sender_create: fn(*mut *mut c_void, c_int, u32, *mut Logging) -> c_int;
    rist_sender_data_write: fn(*mut c_void, *const RawBlock) -> c_int;
    rist_parse_address2: fn(*const c_char, *mut *mut PeerConfig) -> c_int;
    rist_peer_config_free2: fn(*mut *mut PeerConfig) -> c_int;
    rist_peer_create: fn(*mut c_void, *mut *mut c_void, *const PeerConfig) -> c_int;
    rist_connection_status_callback_set: fn(*mut c_void, OnStatus, *mut c_void) -> c_int;
    rist_auth_handler_set: fn(*mut c_void, OnCaller, OnGone, *mut c_void) -> c_int;
    rist_stats_callback_set: fn(*mut c_void, c_int, OnStats, *mut c_void) -> c_int;
    rist_stats_free: fn(*const RawStats) -> c_int;
    rist_start: fn(*mut c_void) -> c_int;
    rist_destroy: fn(*mut c_void) -> c_int;
}

/// Returns the library, which is loaded once for the whole process. It stays loaded, because its threads run its code.
pub(super) fn library() -> Result<&'static Library, LoadError> {
    static LIBRARY: OnceLock<Result<Library, LoadError>> = OnceLock::new();
    LIBRARY.get_or_init(load).as_ref().map_err(LoadError::clone)
}

fn load() -> Result<Library, LoadError> {
    // SAFETY: the initializers of librist set up its globals and start nothing.
    let found = unsafe { libloading::Library::new(FILE) };
    let found = found.map_err(|error| LoadError::Missing(error.to_string()))?;
    let library =
        Library::resolve(&found).map_err(|error| LoadError::Foreign(error.to_string()))?;
    // It is never unloaded: a thread of the library would lose its code.
    std::mem::forget(found);
    Ok(library)
}
