//! The forwarders.

use super::batch::{Inbox, Outbox, prepare};
use super::{CLEAR_BYTES, DATAGRAM_BYTES_MIN, Key, Meter, Report};
use base::pool::{LARGE_BYTES, SMALL_BYTES};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// The kind of forwarder.
pub enum Forwarder {
    /// recvmmsg and sendmmsg, one datagram per message; datagrams of at most 2 KiB.
    Batched,
    /// GRO in, rewritten in place, GSO out. Datagrams that arrived singly are gathered into one message.
    Offloaded,
    /// The same, and each datagram is decrypted with one key and encrypted with the other.
    Sealed {
        /// The key that incoming datagrams are encrypted with.
        from: Key,
        /// The key that outgoing datagrams are encrypted with.
        to: Key,
    },
}

/// Forwards the datagrams that `socket` receives by `onward`, which is connected, until `stop`. Each hop writes its own
/// session and counter, and decrements the time to live, as a node would.
pub fn forward(
    forwarder: &Forwarder,
    socket: &UdpSocket,
    onward: &UdpSocket,
    stop: &AtomicBool,
) -> io::Result<Report> {
    let mut counter = 0u64;
    match forwarder {
        Forwarder::Batched => run(socket, onward, stop, false, |datagram| {
            counter += 1;
            datagram[4..8].copy_from_slice(&(counter as u32).to_be_bytes());
            rewrite(datagram);
            true
        }),
        Forwarder::Offloaded => run(socket, onward, stop, true, |datagram| {
            counter += 1;
            datagram[4..8].copy_from_slice(&(counter as u32).to_be_bytes());
            rewrite(datagram);
            true
        }),
        Forwarder::Sealed { from, to } => run(socket, onward, stop, true, |datagram| {
            counter += 1;
            from.open(datagram) && {
                rewrite(datagram);
                to.seal(datagram, counter)
            }
        }),
    }
}

/// Writes the next hop's session, and decrements the time to live.
fn rewrite(datagram: &mut [u8]) {
    datagram[1..4].copy_from_slice(&[0, 0, 7]);
    datagram[CLEAR_BYTES + 1] = datagram[CLEAR_BYTES + 1].wrapping_sub(1);
}

/// The loop. `onto` turns a datagram of the last hop into one of the next, or rejects it.
#[inline]
fn run(
    socket: &UdpSocket,
    onward: &UdpSocket,
    stop: &AtomicBool,
    offload: bool,
    mut onto: impl FnMut(&mut [u8]) -> bool,
) -> io::Result<Report> {
    prepare(socket, offload)?;
    crate::udp::grow(onward.as_fd());
    let mut inbox = Inbox::new(if offload { LARGE_BYTES } else { SMALL_BYTES });
    let mut outbox = Outbox::new();
    let mut report = Report::default();
    let meter = Meter::start();
    while !stop.load(Ordering::Relaxed) {
        let count = inbox.receive(socket.as_fd())?;
        for i in 0..count {
            let (len, stride) = inbox.lengths(i);
            let message = inbox.bytes_mut(i, len);
            let segments = message.len().div_ceil(stride.max(1)) as u64;
            // Either all datagrams of a message are forwarded or none: forgery does not occur in a benchmark, and the
            // loop stays lean.
            let sound = len >= DATAGRAM_BYTES_MIN
                && message
                    .chunks_mut(stride)
                    .all(|datagram| datagram.len() >= DATAGRAM_BYTES_MIN && onto(datagram));
            if sound {
                outbox.push(message, stride, offload);
                report.packets += segments;
                report.bytes += len as u64;
            } else {
                report.lost += segments;
            }
        }
        // SAFETY: the inbox is not touched between the pushes and this.
        report.lost += unsafe { outbox.send(onward.as_fd()) };
    }
    meter.stop(&mut report);
    Ok(report)
}
