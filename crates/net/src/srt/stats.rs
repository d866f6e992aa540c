//! libsrt's counters of a connection.

use super::Socket;
use core::mem::offset_of;
use libc::{c_double, c_int};

/// The counters and state of a connection. Totals are since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// The smoothed round trip.
    pub rtt_ms: f64,
    /// Data packets sent, including retransmissions.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Data packets received, including retransmissions.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets that the peer reported as lost.
    pub send_lost: u64,
    /// Packets that were missing here when a later one arrived.
    pub receive_lost: u64,
    /// Packets that were retransmitted.
    pub retransmitted: u64,
    /// Packets that were too late to be sent.
    pub send_dropped: u64,
    /// Packets that were still missing when their time came.
    pub receive_dropped: u64,
    /// Packets that could not be decrypted.
    pub undecrypted: u64,
    /// Bits per second sent since the last call.
    pub send_rate_bps: u64,
    /// Bits per second received since the last call.
    pub receive_rate_bps: u64,
    /// The capacity of the path, as the library estimates it.
    pub bandwidth_bps: u64,
    /// Time span of the sent data that is not yet acknowledged.
    pub send_buffer_ms: u64,
    /// Number of packets of that data.
    pub send_buffer_packets: u64,
    /// Time span of the data in the receive buffer.
    pub receive_buffer_ms: u64,
    /// Number of packets of that data.
    pub receive_buffer_packets: u64,
    /// The latency that both ends agreed on for received data.
    pub receive_latency_ms: u64,
    /// The latency that both ends agreed on for sent data.
    pub send_latency_ms: u64,
}

/// `CBytePerfMon`, with the names of srt.h, and extra room at the end, because a later library may write more.
#[repr(C)]
struct Raw {
    ms_time_stamp: i64,
    sent_total: i64,
    received_total: i64,
    send_loss_total: c_int,
    receive_loss_total: c_int,
    retransmitted_total: c_int,
    acks: [c_int; 4],
    send_duration_total_us: i64,
    send_drop_total: c_int,
    receive_drop_total: c_int,
    undecrypted_total: c_int,
    sent_bytes_total: u64,
    received_bytes_total: u64,
    bytes_total: [u64; 5],
    sent: i64,
    received: i64,
    counts: [c_int; 8],
    send_mbps: c_double,
    receive_mbps: c_double,
    send_duration_us: i64,
    reorder_distance: c_int,
    belated_ms: c_double,
    belated: i64,
    drops: [c_int; 3],
    bytes: [u64; 7],
    send_period_us: c_double,
    windows: [c_int; 3],
    rtt_ms: c_double,
    bandwidth_mbps: c_double,
    available: [c_int; 2],
    max_mbps: c_double,
    mss: c_int,
    send_buffer_packets: c_int,
    send_buffer_bytes: c_int,
    send_buffer_ms: c_int,
    send_delay_ms: c_int,
    receive_buffer_packets: c_int,
    receive_buffer_bytes: c_int,
    receive_buffer_ms: c_int,
    receive_delay_ms: c_int,
    filter: [c_int; 9],
    unique: [u64; 8],
    room: [u64; 64],
}

/// The layout that a C compiler gives version 1.5.1 (`sizeof(SRT_TRACEBSTATS)`).
const RAW_BYTES: usize = 496;
const _: () = assert!(size_of::<Raw>() == RAW_BYTES + 8 * 64);
const _: () = assert!(offset_of!(Raw, sent_bytes_total) == 80);
const _: () = assert!(offset_of!(Raw, send_mbps) == 184);
const _: () = assert!(offset_of!(Raw, rtt_ms) == 328);
const _: () = assert!(offset_of!(Raw, receive_delay_ms) == 392);

impl Socket {
    /// Returns the counters; `None` if the connection is over. Rates are measured from one call to the next.
    pub fn stats(&self) -> Option<Stats> {
        const CLEAR: c_int = 1;
        const INSTANT: c_int = 1;
        // SAFETY: numbers, of which all zeros are valid.
        let mut raw: Raw = unsafe { std::mem::zeroed() };
        // SAFETY: the library writes its own structure, which is no longer than this one.
        let got =
            unsafe { (self.library.srt_bistats)(self.id, (&raw mut raw).cast(), CLEAR, INSTANT) };
        (got == 0).then(|| raw.told())
    }
}

impl Raw {
    fn told(&self) -> Stats {
        let count = |value: c_int| u64::try_from(value).unwrap_or(0);
        let total = |value: i64| u64::try_from(value).unwrap_or(0);
        // The conversion from floating point turns negative values and NaN into 0.
        let bps = |mbps: c_double| (mbps * 1e6) as u64;
        Stats {
            rtt_ms: self.rtt_ms,
            sent_packets: total(self.sent_total),
            sent_bytes: self.sent_bytes_total,
            received_packets: total(self.received_total),
            received_bytes: self.received_bytes_total,
            send_lost: count(self.send_loss_total),
            receive_lost: count(self.receive_loss_total),
            retransmitted: count(self.retransmitted_total),
            send_dropped: count(self.send_drop_total),
            receive_dropped: count(self.receive_drop_total),
            undecrypted: count(self.undecrypted_total),
            send_rate_bps: bps(self.send_mbps),
            receive_rate_bps: bps(self.receive_mbps),
            bandwidth_bps: bps(self.bandwidth_mbps),
            send_buffer_ms: count(self.send_buffer_ms),
            send_buffer_packets: count(self.send_buffer_packets),
            receive_buffer_ms: count(self.receive_buffer_ms),
            receive_buffer_packets: count(self.receive_buffer_packets),
            receive_latency_ms: count(self.receive_delay_ms),
            send_latency_ms: count(self.send_delay_ms),
        }
    }
}
