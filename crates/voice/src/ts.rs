//! Monitors MPEG transport streams: the first-priority counts of ETSI TR 101 290.
//!
//! ```text
//!   datagram (7 × 188 bytes, with an RTP header in front or without) ──▶ Monitor::on_datagram ──▶ Counts
//! ```
//! The monitor neither changes nor keeps the datagrams. It makes the report's checks of a bit stream packet by packet:
//! a datagram's first packet begins where the datagram begins. Time is that of arrival, and the monitor checks it only
//! when something arrives. So a source that stops has one interval that was too long, and not ever more of them.

mod continuity;
mod psi;
#[cfg(test)]
mod tests;

use crate::rtp::Packet;
use base::{Duration, Time};
use continuity::Continuity;
use psi::{Assembler, Section};
use std::collections::BTreeMap;

/// Bytes of a packet of a transport stream.
pub const PACKET_BYTES: usize = 188;
/// The first byte of each packet.
pub const SYNC: u8 = 0x47;
/// The payload type of RTP for transport streams (RFC 3551).
pub const RTP_PAYLOAD_TYPE: u8 = 33;
/// Within this time the program association table and each program map table must be repeated (TR 101 290, 1.3.a and
/// 1.5.a).
pub const TABLE_INTERVAL: Duration = Duration::from_millis(500);
/// Within this time each referred stream must send something. The report leaves the time to the user. Choice: five
/// seconds, as most analysers.
pub const PID_INTERVAL: Duration = Duration::from_secs(5);
/// Number of correct packets after which a stream is in sync, and of wrong ones after which it is not (TR 101 290,
/// 1.1).
const IN_STEP_AFTER: u8 = 5;
const OUT_OF_STEP_AFTER: u8 = 2;
/// Most programs of one stream. A program association table has at most 253 in one section.
const PROGRAMS_MAX: usize = 256;
/// Most streams that the programs refer to, in total. Choice: eight for each program.
const REFERRED_MAX: usize = 2_048;
/// The stream of the program association table, and the stream of stuffing.
const PID_ASSOCIATIONS: u16 = 0;
const PID_STUFFING: u16 = 0x1fff;

/// What the monitor has seen. The names are those of TR 101 290, first priority. The other counts help to interpret
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams.
    pub datagrams: u64,
    /// Packets of the transport stream.
    pub packets: u64,
    /// 1.1: two or more sync bytes in a row were wrong.
    pub ts_sync_loss: u64,
    /// 1.2: packets that do not begin with 47, or are truncated.
    pub sync_byte_error: u64,
    /// 1.3.a: no program association table for half a second, another table in its stream, or a scrambled table.
    pub pat_error: u64,
    /// 1.4: packets that are missing, or arrived in another order, or more than twice.
    pub continuity_count_error: u64,
    /// 1.5.a: the same for the program map tables.
    pub pmt_error: u64,
    /// 1.6: no packet of a stream that a program map refers to, for five seconds.
    pub pid_error: u64,
    /// 2.1: packets that are marked as damaged. They count for nothing else.
    pub transport_error: u64,
    /// 2.2: tables with a wrong checksum. They count for nothing else.
    pub crc_error: u64,
    /// Datagrams of RTP with another payload.
    pub foreign: u64,
}

impl Counts {
    /// Returns the sum of the first-priority counts.
    pub fn first_priority(&self) -> u64 {
        self.ts_sync_loss
            + self.sync_byte_error
            + self.pat_error
            + self.continuity_count_error
            + self.pmt_error
            + self.pid_error
    }
}

/// Monitors one stream.
#[derive(Debug)]
pub struct Monitor {
    counts: Counts,
    is_in_step: bool,
    /// Number of consecutive correct packets while out of sync, of wrong ones while in sync.
    run: u8,
    pids: BTreeMap<u16, Continuity>,
    associations: Table,
    /// The maps of the programs, by the stream that carries them.
    maps: BTreeMap<u16, Map>,
    /// When each referred stream last sent something.
    referred: BTreeMap<u16, Time>,
    next_look: Time,
}

/// A table that must be repeated.
#[derive(Debug, Default)]
struct Table {
    sections: Assembler,
    /// When it last arrived, or was last missed; `None` before the stream is in sync.
    seen: Option<Time>,
}

/// The map of a program, and the streams that it refers to.
#[derive(Debug, Default)]
struct Map {
    table: Table,
    streams: Vec<u16>,
}

impl Table {
    /// Returns true, once for each interval, if the table is overdue.
    fn is_missed(&mut self, now: Time) -> bool {
        let seen = *self.seen.get_or_insert(now);
        let is_missed = now.since(seen) > TABLE_INTERVAL;
        if is_missed {
            self.seen = Some(now);
        }
        is_missed
    }
}

impl Default for Monitor {
    fn default() -> Monitor {
        Monitor::new()
    }
}

impl Monitor {
    /// Creates a monitor that has seen nothing.
    pub fn new() -> Monitor {
        Monitor {
            counts: Counts::default(),
            is_in_step: false,
            run: 0,
            pids: BTreeMap::new(),
            associations: Table::default(),
            maps: BTreeMap::new(),
            referred: BTreeMap::new(),
            next_look: Time::ZERO,
        }
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Examines a datagram that arrived or is being sent.
    pub fn on_datagram(&mut self, now: Time, datagram: &[u8]) {
        self.counts.datagrams += 1;
        let Some(stream) = transport_stream(datagram) else {
            self.counts.foreign += 1;
            return;
        };
        for packet in stream.chunks(PACKET_BYTES) {
            self.on_packet(now, packet);
        }
        // Choice: the monitor checks for missing tables every 20 ms, a small part of the shortest interval.
        if now >= self.next_look {
            self.next_look = now + Duration::from_millis(20);
            self.look(now);
        }
    }

    fn on_packet(&mut self, now: Time, bytes: &[u8]) {
        let packet = <&[u8; PACKET_BYTES]>::try_from(bytes).ok();
        let packet = packet.filter(|packet| packet[0] == SYNC);
        if packet.is_none() {
            self.counts.sync_byte_error += 1;
        }
        self.step(packet.is_some());
        let Some(packet) = packet.filter(|_| self.is_in_step) else {
            return;
        };
        self.counts.packets += 1;
        if packet[1] & 0x80 != 0 {
            self.counts.transport_error += 1;
            return;
        }
        let pid = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
        if pid == PID_STUFFING {
            return;
        }
        if let Some(seen) = self.referred.get_mut(&pid) {
            *seen = now;
        }
        match self.pids.entry(pid).or_default().judge(packet) {
            continuity::Verdict::New => {}
            // The second copy of a packet contains nothing new.
            continuity::Verdict::Copy => return,
            continuity::Verdict::Error => {
                self.counts.continuity_count_error += 1;
                if let Some(table) = self.table(pid) {
                    table.sections.lose();
                }
            }
        }
        self.read_table(now, pid, packet);
    }

    /// Tracks whether sync bytes are at their positions.
    fn step(&mut self, is_right: bool) {
        if is_right == self.is_in_step {
            self.run = 0;
            return;
        }
        self.run += 1;
        let enough = match self.is_in_step {
            true => OUT_OF_STEP_AFTER,
            false => IN_STEP_AFTER,
        };
        if self.run < enough {
            return;
        }
        self.run = 0;
        self.is_in_step = !self.is_in_step;
        if !self.is_in_step {
            self.counts.ts_sync_loss += 1;
            // The counters may start anew after the loss of sync.
            self.pids.clear();
        }
    }

    fn table(&mut self, pid: u16) -> Option<&mut Table> {
        match pid {
            PID_ASSOCIATIONS => Some(&mut self.associations),
            pid => self.maps.get_mut(&pid).map(|map| &mut map.table),
        }
    }

    /// Reads the tables of a packet, if its stream carries tables.
    fn read_table(&mut self, now: Time, pid: u16, packet: &[u8; PACKET_BYTES]) {
        let Some(table) = self.table(pid) else { return };
        if packet[3] & 0xc0 != 0 {
            self.count_table_error(pid);
            return;
        }
        let Some(payload) = payload(packet) else {
            return;
        };
        let starts = packet[1] & 0x40 != 0;
        for section in table.sections.push(payload, starts) {
            self.on_section(now, pid, &section);
        }
    }

    fn on_section(&mut self, now: Time, pid: u16, bytes: &[u8]) {
        const ASSOCIATIONS: u8 = 0;
        const MAP: u8 = 2;
        // Streams of maps may carry other tables; that of associations may not.
        match (pid, bytes.first()) {
            (PID_ASSOCIATIONS, Some(&ASSOCIATIONS)) | (1.., Some(&MAP)) => {}
            (PID_ASSOCIATIONS, _) => return self.count_table_error(pid),
            _ => return,
        }
        let Some(section) = Section::parse(bytes) else {
            self.counts.crc_error += 1;
            return;
        };
        if let Some(table) = self.table(pid) {
            table.seen = Some(now);
        }
        match pid {
            PID_ASSOCIATIONS => self.learn_programs(now, &section),
            pid => self.learn_streams(now, pid, &section),
        }
    }

    fn learn_programs(&mut self, now: Time, section: &Section<'_>) {
        let programs = || section.programs().take(PROGRAMS_MAX);
        if section.is_whole() {
            self.maps
                .retain(|pid, _| programs().any(|known| known == *pid));
        }
        for pid in programs() {
            if self.maps.len() < PROGRAMS_MAX {
                let map = self.maps.entry(pid).or_default();
                map.table.seen.get_or_insert(now);
            }
        }
        self.learn_referred(now);
    }

    fn learn_streams(&mut self, now: Time, pid: u16, section: &Section<'_>) {
        let streams: Vec<u16> = section.streams().collect();
        if let Some(map) = self.maps.get_mut(&pid)
            && map.streams != streams
        {
            map.streams = streams;
            self.learn_referred(now);
        }
    }

    /// Lists the streams that some map refers to, with the time from which they count as missing.
    fn learn_referred(&mut self, now: Time) {
        let all = self.maps.values().flat_map(|map| &map.streams);
        let known = core::mem::take(&mut self.referred);
        let seen = |pid: &u16| known.get(pid).copied().unwrap_or(now);
        self.referred = all
            .take(REFERRED_MAX)
            .map(|pid| (*pid, seen(pid)))
            .collect();
    }

    /// Counts the tables and streams that are overdue.
    fn look(&mut self, now: Time) {
        if !self.is_in_step {
            return;
        }
        self.counts.pat_error += u64::from(self.associations.is_missed(now));
        for map in self.maps.values_mut() {
            self.counts.pmt_error += u64::from(map.table.is_missed(now));
        }
        for seen in self.referred.values_mut() {
            if now.since(*seen) > PID_INTERVAL {
                self.counts.pid_error += 1;
                *seen = now;
            }
        }
    }

    fn count_table_error(&mut self, pid: u16) {
        match pid {
            PID_ASSOCIATIONS => self.counts.pat_error += 1,
            _ => self.counts.pmt_error += 1,
        }
    }
}

/// Returns the transport stream in a datagram, without the RTP header that may precede it; `None` for RTP with another
/// payload. Other datagrams are returned unchanged, and their packets count as wrong one by one.
pub fn transport_stream(datagram: &[u8]) -> Option<&[u8]> {
    // The first two bits of RTP are 10, those of a transport stream 01.
    let Ok(packet) = Packet::parse(datagram) else {
        return Some(datagram);
    };
    let payload = packet.payload().ok()?;
    let is_stream = packet.header().payload_type == RTP_PAYLOAD_TYPE
        || payload.len().is_multiple_of(PACKET_BYTES) && payload.first() == Some(&SYNC);
    is_stream.then_some(payload)
}

/// Returns the payload of a packet after its adaptation field; `None` if there is none.
fn payload(packet: &[u8; PACKET_BYTES]) -> Option<&[u8]> {
    if packet[3] & 0x10 == 0 {
        return None;
    }
    let has_adaptation = packet[3] & 0x20 != 0;
    let skipped = if has_adaptation {
        1 + usize::from(packet[4])
    } else {
        0
    };
    packet.get(4 + skipped..).filter(|rest| !rest.is_empty())
}
