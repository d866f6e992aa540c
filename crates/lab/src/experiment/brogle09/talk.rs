//! One sender, a recorder of all sinks, one clock: the functions for which the paper had a SmartBits.
//!
//! ```text
//!   sender ── numbered, with the time of sending, at an even pace ──▶ … ──▶ sinks
//!                                                                            │ kernel: time of arrival
//!   recorder ◀── every millisecond, all that waits at all sinks ─────────────┘
//! ```
//!
//! The kernel notes when a packet arrives at a sink's interface, as the SmartBits did. So the recorder need not wake
//! for each packet, and takes no processor time from the measured programs. The sender sleeps between packets for the
//! same reason. If packets are due faster than it can wake (some 20 000 packets/s), it sends the two or three that are
//! due one after the other.

use super::site::GROUP;
use crate::experiment::CellError;
use net::bare::{Recorder, unix_ns};
use std::net::{Ipv4Addr, UdpSocket};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// Number of the talk, number of the packet, time of sending: 8 bytes each.
const HEADER_BYTES: usize = 24;
/// Size of a sink's buffer until the recorder reads it: 78 000 short packets a second for 0.3 s.
const SINK_BUFFER_BYTES: i32 = 32 << 20;
/// How often the recorder reads.
const LOOK: Duration = Duration::from_millis(1);
/// Packets that have not arrived after this time without arrivals since the last was sent count as lost. The longest
/// deadline here is 600 ms.
const SILENCE_NS: u64 = 800_000_000;
/// The shortest sleep that is worthwhile.
const NAP_NS: u64 = 4_000;
/// If the sender is delayed for longer than this, missed packets are not sent all at once, which would be another load
/// than the requested one. The schedule moves, and the achieved rate shows it.
const STALL_NS: u64 = 2_000_000;
/// Time from the start of the threads to the first packet.
const LEAD_NS: u64 = 5_000_000;
/// The sender's priority: above nodes and forwarders (10), which share its processors.
const PRIORITY: u8 = 30;
/// The longest time until packets arrive at every sink.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often this is tried.
const TRY_EVERY: Duration = Duration::from_millis(5);
/// A path counts as open after it has carried this many packets in a row to every sink.
const OPEN_PACKETS: u64 = 20;

/// The packets to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stream {
    pub(super) payload: usize,
    pub(super) rate_pps: f64,
    pub(super) packets: u64,
}

/// Both ends of what is measured.
pub(super) struct Ends {
    /// The sender, connected to the address to which it sends.
    sender: UdpSocket,
    sinks: Vec<Sink>,
}

/// The receiving end of a path.
pub(super) struct Sink {
    /// The leaf's name.
    pub(super) name: &'static str,
    pub(super) socket: UdpSocket,
}

/// The result of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    pub(super) sent: u64,
    /// Packets per second, from the time when the first was due until the last was sent.
    pub(super) achieved_pps: f64,
    /// Packets that the sender's kernel refused.
    pub(super) refused: u64,
    /// Processor time of the sender: with native multicast it includes all forwarding.
    pub(super) sender_cpu_ns: u64,
    pub(super) sinks: Vec<Arrivals>,
}

/// The arrivals at one sink.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    pub(super) name: &'static str,
    /// Time from sending to arrival, packet by packet; [`ABSENT`] for packets that did not arrive.
    pub(super) latencies_ns: Vec<u32>,
    pub(super) arrived: u64,
    pub(super) duplicates: u64,
}

/// Marks a packet that did not arrive: no packet is under way for four seconds.
pub(super) const ABSENT: u32 = u32::MAX;

/// Returns a socket that sends to the group; the network in which it is opened has a route for it.
pub(super) fn group_sender(to: (Ipv4Addr, u16)) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_multicast_ttl_v4(64)?;
    socket.set_multicast_loop_v4(false)?;
    socket.connect(to)?;
    Ok(socket)
}

/// Returns a socket that has joined the group on the interface with this address.
pub(super) fn group_sink(port: u16, interface: Ipv4Addr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind((GROUP, port))?;
    socket.join_multicast_v4(&GROUP, &interface)?;
    Ok(socket)
}

impl Ends {
    pub(super) fn new(sender: UdpSocket, sinks: Vec<Sink>) -> Result<Ends, CellError> {
        for sink in &sinks {
            Recorder::prepare(&sink.socket, SINK_BUFFER_BYTES).map_err(io)?;
        }
        Ok(Ends { sender, sinks })
    }

    /// Sends until packets arrive at every sink. Returns how long that took.
    pub(super) fn open(&self, who: &str) -> Result<Duration, CellError> {
        let (talk, begun) = (unix_ns(), std::time::Instant::now());
        let mut recorder = Recorder::new();
        let mut counts = vec![0; self.sinks.len()];
        let mut packet = vec![0; HEADER_BYTES + 8];
        let mut first = None;
        for seq in 0.. {
            write(&mut packet, talk, seq);
            // The kernel may refuse it until routes and neighbours are known.
            let _ = self.sender.send(&packet);
            sleep(TRY_EVERY);
            for (sink, count) in self.sinks.iter().zip(&mut counts) {
                let each = |bytes: &[u8], _| *count += u64::from(read(bytes, talk).is_some());
                recorder.take(&sink.socket, each).map_err(io)?;
            }
            if counts.iter().all(|count| *count > 0) {
                first.get_or_insert(begun.elapsed());
            }
            if counts.iter().all(|count| *count >= OPEN_PACKETS) {
                break;
            }
            if begun.elapsed() > PATIENCE {
                let silent = self
                    .sinks
                    .iter()
                    .zip(&counts)
                    .filter(|(_, count)| **count == 0);
                let names: Vec<&str> = silent.map(|(sink, _)| sink.name).collect();
                let names = names.join(", ");
                let why = format!("{who}: nothing arrives behind {names} after 20 s");
                return Err(CellError(why));
            }
        }
        Ok(first.unwrap_or_default())
    }

    /// Sends a stream and waits for the last of it to arrive.
    pub(super) fn run(&self, stream: &Stream) -> Result<Told, CellError> {
        let talk = unix_ns();
        let (done, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        let told = std::thread::scope(|scope| {
            let (done, sent) = (&done, &sent);
            let recording = scope.spawn(move || record(&self.sinks, stream, talk, done, sent));
            let sending = scope.spawn(move || {
                let told = send(&self.sender, stream, talk);
                sent.store(told.as_ref().map_or(0, |told| told.sent), Ordering::Relaxed);
                done.store(true, Ordering::Release);
                told
            });
            let told = sending.join().unwrap_or_else(|panic| resume_unwind(panic));
            let sinks = recording
                .join()
                .unwrap_or_else(|panic| resume_unwind(panic));
            Ok(Told {
                sinks: sinks?,
                ..told?
            })
        });
        told.map_err(io)
    }
}

fn send(socket: &UdpSocket, stream: &Stream, talk: u64) -> std::io::Result<Told> {
    let _ = net::sched::real_time(PRIORITY);
    let _ = net::sched::timer_slack(base::Duration::from_nanos(1));
    let mut packet = vec![0x5a; stream.payload.max(HEADER_BYTES)];
    let mut told = Told::default();
    let cpu = net::sched::thread_cpu();
    let mut origin = unix_ns() + LEAD_NS;
    let begin = origin;
    let (mut last, mut late) = (origin, 0);
    for seq in 0..stream.packets {
        let due = origin + (seq as f64 * 1e9 / stream.rate_pps) as u64;
        let mut now = unix_ns();
        while now < due {
            if due - now > NAP_NS {
                sleep(Duration::from_nanos(due - now));
            }
            now = unix_ns();
        }
        let missed = now.saturating_sub(due).saturating_sub(late);
        if missed > STALL_NS {
            origin += missed;
        } else {
            late = now.saturating_sub(due);
        }
        write(&mut packet, talk, seq);
        told.refused += u64::from(socket.send(&packet).is_err());
        last = now;
    }
    told.sent = stream.packets;
    told.sender_cpu_ns = net::sched::thread_cpu().saturating_sub(cpu).as_nanos();
    let span_ns = last.saturating_sub(begin).max(1);
    told.achieved_pps = stream.packets.saturating_sub(1) as f64 * 1e9 / span_ns as f64;
    Ok(told)
}

fn record(
    sinks: &[Sink],
    stream: &Stream,
    talk: u64,
    done: &AtomicBool,
    sent: &AtomicU64,
) -> std::io::Result<Vec<Arrivals>> {
    let _ = net::sched::real_time(PRIORITY);
    let mut recorder = Recorder::new();
    let mut all: Vec<Arrivals> = sinks
        .iter()
        .map(|sink| Arrivals::new(sink.name, stream.packets))
        .collect();
    let mut heard = unix_ns();
    loop {
        // This is read before the sinks, so that a packet missing then was missing when all had been sent.
        let is_over = done.load(Ordering::Acquire);
        let mut taken = 0;
        for (sink, arrivals) in sinks.iter().zip(&mut all) {
            taken += recorder.take(&sink.socket, |bytes, at| {
                if let Some((seq, sent_ns)) = read(bytes, talk) {
                    arrivals.note(seq, at.saturating_sub(sent_ns));
                }
            })?;
        }
        let now = unix_ns();
        if taken > 0 || !is_over {
            heard = now;
        }
        let sent = sent.load(Ordering::Relaxed);
        let is_complete = is_over && all.iter().all(|arrivals| arrivals.arrived >= sent);
        if is_complete || now.saturating_sub(heard) > SILENCE_NS {
            return Ok(all);
        }
        sleep(LOOK);
    }
}

impl Arrivals {
    fn new(name: &'static str, packets: u64) -> Arrivals {
        Arrivals {
            name,
            latencies_ns: vec![ABSENT; packets as usize],
            arrived: 0,
            duplicates: 0,
        }
    }

    fn note(&mut self, seq: u64, latency_ns: u64) {
        let Some(place) = self.latencies_ns.get_mut(seq as usize) else {
            return;
        };
        if *place != ABSENT {
            self.duplicates += 1;
            return;
        }
        *place = latency_ns.min(u64::from(ABSENT) - 1) as u32;
        self.arrived += 1;
    }
}

fn write(packet: &mut [u8], talk: u64, seq: u64) {
    packet[..8].copy_from_slice(&talk.to_be_bytes());
    packet[8..16].copy_from_slice(&seq.to_be_bytes());
    packet[16..24].copy_from_slice(&unix_ns().to_be_bytes());
}

/// Returns number and time of sending, if the packet belongs to this talk.
fn read(packet: &[u8], talk: u64) -> Option<(u64, u64)> {
    let (numbers, _) = packet.as_chunks::<8>();
    let mut numbers = numbers.iter().map(|bytes| u64::from_be_bytes(*bytes));
    let (its, seq, sent_ns) = (numbers.next()?, numbers.next()?, numbers.next()?);
    (its == talk).then_some((seq, sent_ns))
}

fn io(error: std::io::Error) -> CellError {
    CellError(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_other_talks_are_not() {
        let mut packet = [0; 32];
        write(&mut packet, 7, 99);
        let (seq, sent_ns) = read(&packet, 7).unwrap();
        assert_eq!(seq, 99);
        assert!(sent_ns <= unix_ns());
        assert_eq!(read(&packet, 8), None);
        for len in 0..HEADER_BYTES {
            assert_eq!(read(&packet[..len], 7), None);
        }
    }

    #[test]
    fn the_first_arrival_counts_and_strange_numbers_do_not() {
        let mut arrivals = Arrivals::new("P4", 3);
        for (seq, latency) in [(0, 5), (0, 6), (2, u64::MAX), (3, 1), (u64::MAX, 1)] {
            arrivals.note(seq, latency);
        }
        assert_eq!(arrivals.latencies_ns, [5, ABSENT, ABSENT - 1]);
        assert_eq!((arrivals.arrived, arrivals.duplicates), (2, 1));
    }

    #[test]
    fn a_stream_over_loopback_arrives_whole_at_the_rate_asked_for() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(socket.local_addr().unwrap()).unwrap();
        let ends = Ends::new(sender, vec![Sink { name: "P4", socket }]).unwrap();
        ends.open("loopback").unwrap();
        let stream = Stream {
            payload: 32,
            rate_pps: 5_000.0,
            packets: 100,
        };
        let told = ends.run(&stream).unwrap();
        assert_eq!((told.sent, told.refused), (100, 0));
        assert_eq!(told.sinks[0].arrived, 100);
        assert!(told.achieved_pps <= 5_001.0, "never faster than asked for");
    }
}
