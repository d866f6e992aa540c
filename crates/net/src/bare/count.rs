//! The sink.

use super::batch::{Inbox, prepare};
use super::{Meter, Report};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Counts what `socket` receives until `stop`, without copying any of it.
pub fn count(socket: &UdpSocket, stop: &AtomicBool) -> io::Result<Report> {
    prepare(socket, true)?;
    let mut inbox = Inbox::new(0);
    let mut report = Report::default();
    let meter = Meter::start();
    while !stop.load(Ordering::Relaxed) {
        for i in 0..inbox.receive(socket.as_fd())? {
            let (len, stride) = inbox.lengths(i);
            report.packets += len.div_ceil(stride.max(1)) as u64;
            report.bytes += len as u64;
        }
    }
    meter.stop(&mut report);
    Ok(report)
}
