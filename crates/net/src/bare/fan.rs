//! The forwarder to several destinations: a node of a tree, without a protocol.

use super::batch::{Inbox, MESSAGES, Outbox, prepare};
use super::{Meter, Report};
use crate::epoll::{Interest, Poller, Waker};
use base::pool::SMALL_BYTES;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

const TOKEN_SOCKET: u64 = 0;
const TOKEN_STOP: u64 = 1;

/// Sends a copy of each received datagram by each socket of `onward`, which are connected, until `stop` is woken. It
/// waits by epoll, like a node that has more than one thing to wait for. It uses recvmmsg and sendmmsg, with one
/// datagram of at most 2 KiB per message, and copies or rewrites nothing. The report counts copies.
pub fn fan(socket: &UdpSocket, onward: &[UdpSocket], stop: &Waker) -> io::Result<Report> {
    prepare(socket, false)?;
    socket.set_nonblocking(true)?;
    for branch in onward {
        crate::udp::grow(branch.as_fd());
    }
    let mut poller = Poller::new()?;
    poller.add(socket, TOKEN_SOCKET, Interest::READ)?;
    poller.add(stop, TOKEN_STOP, Interest::READ)?;
    let (mut inbox, mut outbox) = (Inbox::new(SMALL_BYTES), Outbox::new());
    let (mut ready, mut report) = (Vec::new(), Report::default());
    let meter = Meter::start();
    loop {
        poller.wait(None, &mut ready)?;
        if ready.iter().any(|event| event.token == TOKEN_STOP) {
            break;
        }
        let mut count = MESSAGES;
        while count == MESSAGES {
            count = inbox.receive(socket.as_fd())?;
            for branch in onward {
                for i in 0..count {
                    let (len, _) = inbox.lengths(i);
                    outbox.push(inbox.bytes_mut(i, len), len, false);
                    report.packets += 1;
                    report.bytes += len as u64;
                }
                // SAFETY: the inbox is not touched between the pushes and this.
                report.lost += unsafe { outbox.send(branch.as_fd()) };
            }
        }
    }
    meter.stop(&mut report);
    Ok(report)
}
