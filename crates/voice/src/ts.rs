//! MPEG transport streams, watched: the first-priority counts of ETSI TR 101 290.
//!
//! ```text
//!   datagram (7 × 188 bytes, with an RTP header in front or without) ──▶ Monitor::on_datagram ──▶ Counts
//! ```
//! The datagrams themselves are neither changed nor kept. What the report checks in a bit stream is checked
//! here packet by packet: a datagram's packets begin where it begins. Time is that of arrival, and looked at
//! when something arrives; so a source that stops has one interval that was too long, and not ever more of them.

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
/// The first byte of each.
pub const SYNC: u8 = 0x47;
/// The payload type of RTP for transport streams (RFC 3551).
pub const RTP_PAYLOAD_TYPE: u8 = 33;
/// Within this time the program association table and each program map table are sent again (TR 101 290,
/// 1.3.a and 1.5.a).
pub const TABLE_INTERVAL: Duration = Duration::from_millis(500);
/// Within this time something of each referred stream comes. The report leaves the time to the user.
/// Choice: five seconds, as most analysers.
pub const PID_INTERVAL: Duration = Duration::from_secs(5);
/// Correct packets after which a stream is in step, and wrong ones after which it is not (TR 101 290, 1.1).
const IN_STEP_AFTER: u8 = 5;
const OUT_OF_STEP_AFTER: u8 = 2;
/// Programs of one stream. A table of associations has 253 at most in one section.
const PROGRAMS_MAX: usize = 256;
/// Streams that are referred to, of all programs. Choice: eight for each program.
const REFERRED_MAX: usize = 2_048;
/// The associations' own stream, and that of stuffing.
const PID_ASSOCIATIONS: u16 = 0;
const PID_STUFFING: u16 = 0x1fff;

/// What was seen. The names are those of TR 101 290, first priority, and what else tells what a count means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams.
    pub datagrams: u64,
    /// Packets of the transport stream.
    pub packets: u64,
    /// 1.1: two or more sync bytes in a row were wrong.
    pub ts_sync_loss: u64,
    /// 1.2: packets that do not begin with 47, or are cut.
    pub sync_byte_error: u64,
    /// 1.3.a: no program association table for half a second, another table in its place, or it is scrambled.
    pub pat_error: u64,
    /// 1.4: packets that are missing, or came in another order, or more than twice.
    pub continuity_count_error: u64,
    /// 1.5.a: the same for the program map tables.
    pub pmt_error: u64,
    /// 1.6: nothing of a stream that a program map refers to, for five seconds.
    pub pid_error: u64,
    /// 2.1: packets that say themselves that they are damaged. They count for nothing else.
    pub transport_error: u64,
    /// 2.2: tables whose checksum is wrong. They count for nothing else.
    pub crc_error: u64,
    /// Datagrams of RTP that carry something else.
    pub foreign: u64,
}

impl Counts {
    /// The sum of the first-priority counts.
    pub fn first_priority(&self) -> u64 {
        self.ts_sync_loss
            + self.sync_byte_error
            + self.pat_error
            + self.continuity_count_error
            + self.pmt_error
            + self.pid_error
    }
}

/// Watches one stream.
#[derive(Debug)]
pub struct Monitor {
    counts: Counts,
    is_in_step: bool,
    /// Correct packets in a row while out of step, wrong ones while in step.
    run: u8,
    pids: BTreeMap<u16, Continuity>,
    associations: Table,
    /// The maps of the programs, by their stream.
    maps: BTreeMap<u16, Map>,
    /// When something of each referred stream came last.
    referred: BTreeMap<u16, Time>,
    next_look: Time,
}

/// A table that is to come again and again.
#[derive(Debug, Default)]
struct Table {
    sections: Assembler,
    /// When it came last, or was missed last; none before the stream is in step.
    seen: Option<Time>,
}

/// The map of a program, and the streams that it refers to.
#[derive(Debug, Default)]
struct Map {
    table: Table,
    streams: Vec<u16>,
}

impl Table {
    /// True, once for each interval, when it has not come for longer.
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
    /// Has seen nothing.
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

    /// What was seen so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Looks at a datagram that has come, or goes.
    pub fn on_datagram(&mut self, now: Time, datagram: &[u8]) {
        self.counts.datagrams += 1;
        let Some(stream) = transport_stream(datagram) else {
            self.counts.foreign += 1;
            return;
        };
        for packet in stream.chunks(PACKET_BYTES) {
            self.on_packet(now, packet);
        }
        // Choice: tables are looked for every 20 ms, a small part of the shortest interval.
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
            // The second copy of a packet says nothing new.
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

    /// Follows whether sync bytes are where they should be.
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
            // What continued before need not after.
            self.pids.clear();
        }
    }

    fn table(&mut self, pid: u16) -> Option<&mut Table> {
        match pid {
            PID_ASSOCIATIONS => Some(&mut self.associations),
            pid => self.maps.get_mut(&pid).map(|map| &mut map.table),
        }
    }

    /// The tables of a packet, if it is of a stream that has some.
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
        // Streams of maps may have other tables; that of associations may not.
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

    /// Streams that some map refers to, with the time from which they are missed.
    fn learn_referred(&mut self, now: Time) {
        let all = self.maps.values().flat_map(|map| &map.streams);
        let known = core::mem::take(&mut self.referred);
        let seen = |pid: &u16| known.get(pid).copied().unwrap_or(now);
        self.referred = all
            .take(REFERRED_MAX)
            .map(|pid| (*pid, seen(pid)))
            .collect();
    }

    /// Counts what has not come in time.
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

/// The transport stream in a datagram, without the RTP header that may be in front; `None` for RTP that carries
/// something else. What is neither is given as it is, and found wrong packet by packet.
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

/// What a packet carries behind its adaptation field; `None` if nothing.
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
