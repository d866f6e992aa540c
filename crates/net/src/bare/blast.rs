//! The sender.

use super::batch::Outbox;
use super::{CLEAR_BYTES, DATAGRAM_BYTES_MIN, Key, Meter, Report};
use crate::{clock, sched, udp};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The parameters of a blast.
pub struct Blast {
    /// Datagrams per second; 0 sends as fast as possible.
    pub rate_pps: u64,
    /// Datagrams per GSO message; 1 sends them one by one.
    pub burst: usize,
    /// Bytes of each datagram, including clear bytes and tag.
    pub datagram_bytes: usize,
    /// Total number of datagrams.
    pub packets: u64,
    /// Key that encrypts each datagram, if there is one.
    pub key: Option<Key>,
}

/// Sends by `socket`, which is connected, at an even pace: a burst every `burst / rate`. If it falls behind, it catches
/// up at once. It ends after all packets, or at `stop`.
pub fn blast(plan: &Blast, socket: &UdpSocket, stop: &AtomicBool) -> io::Result<Report> {
    let bytes = plan.datagram_bytes;
    let burst = plan.burst.clamp(1, udp::GSO_SEGMENTS_MAX);
    if bytes < DATAGRAM_BYTES_MIN || bytes * burst > udp::DATAGRAM_BYTES_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    udp::grow(socket.as_fd());
    sched::timer_slack(base::Duration::from_nanos(1))?;
    let mut datagrams = vec![0; bytes * burst];
    let mut outbox = Outbox::new();
    let mut report = Report::default();
    let meter = Meter::start();
    let start_ns = clock::read(libc::CLOCK_MONOTONIC);
    while report.packets < plan.packets && !stop.load(Ordering::Relaxed) {
        let segments = burst.min((plan.packets - report.packets) as usize);
        let run = &mut datagrams[..segments * bytes];
        for datagram in run.chunks_mut(bytes) {
            write(datagram, report.packets, plan.key.as_ref());
            report.packets += 1;
        }
        if let Some(after_ns) = (report.packets * 1_000_000_000).checked_div(plan.rate_pps) {
            sleep_until(start_ns + after_ns);
        }
        outbox.push(run, bytes, true);
        report.bytes += run.len() as u64;
        // SAFETY: the datagrams are not touched between the push and this.
        report.lost += unsafe { outbox.send(socket.as_fd()) };
    }
    meter.stop(&mut report);
    Ok(report)
}

/// Writes a data datagram of version 1, with some content.
fn write(datagram: &mut [u8], counter: u64, key: Option<&Key>) {
    datagram[0] = 0x18;
    datagram[4..8].copy_from_slice(&(counter as u32).to_be_bytes());
    if let Some(key) = key {
        // The last encryption left ciphertext; only the time to live must be plain again.
        datagram[CLEAR_BYTES + 1] = 32;
        key.seal(datagram, counter);
    }
}

fn sleep_until(at_ns: u64) {
    if clock::read(libc::CLOCK_MONOTONIC) >= at_ns {
        return;
    }
    let at = libc::timespec {
        tv_sec: (at_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (at_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `at` outlives the call; with TIMER_ABSTIME the remainder is not used and may be
    // null. Being woken early by a signal does no harm here.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const at,
            ptr::null_mut(),
        );
    }
}
