//! The second baseline: a bare epoll forwarder in every host, with unicast UDP between them. Their cost is the cost of
//! waking this many processes one after the other.

use super::site::{ANY, PORT, Site};
use super::talk::{Ends, Sink};
use crate::experiment::CellError;
use net::bare::{Report, fan};
use net::epoll::Waker;
use std::net::UdpSocket;
use std::thread::JoinHandle;

/// The priority of the nodes.
const PRIORITY: u8 = 10;

/// Running forwarders; they end when this is dropped.
pub(super) struct Bare {
    forwarders: Vec<Forwarder>,
}

struct Forwarder {
    stop: Waker,
    thread: Option<JoinHandle<std::io::Result<Report>>>,
}

impl Bare {
    /// Starts a forwarder in every host of the site.
    pub(super) fn start(site: &Site) -> Result<Bare, CellError> {
        let mut bare = Bare {
            forwarders: Vec::new(),
        };
        for host in 0..site.shape.hosts().len() {
            let children = site.shape.children(host);
            let mut to: Vec<_> = children.map(|child| site.up(child)).collect();
            if to.is_empty() {
                to.push(site.sink_address(host));
            }
            let (socket, onward) = Site::within(site.node(host), move || {
                let onward: Result<Vec<_>, _> = to.iter().map(|ip| connected(*ip)).collect();
                Ok((UdpSocket::bind(ANY)?, onward?))
            })?;
            let forwarder = Forwarder::start(socket, onward);
            bare.forwarders
                .push(forwarder.map_err(|error| CellError(error.to_string()))?);
        }
        Ok(bare)
    }

    /// Ends them, and returns each one's report.
    pub(super) fn stop(mut self) -> Vec<Report> {
        let reports = self.forwarders.iter_mut().map(Forwarder::stop);
        reports.map(Option::unwrap_or_default).collect()
    }
}

/// Returns the sender at the source, sending to the first host, and a socket at each sink.
pub(super) fn ends(site: &Site) -> Result<Ends, CellError> {
    let sender = Site::within(site.source(), || connected(site.up(0)))?;
    let mut sinks = Vec::new();
    for (leaf, space) in site.shape.leaves().into_iter().zip(site.sinks()) {
        let socket = Site::within(space, || UdpSocket::bind(ANY))?;
        let name = site.shape.hosts()[leaf].name;
        sinks.push(Sink { name, socket });
    }
    Ends::new(sender, sinks)
}

fn connected(to: std::net::Ipv4Addr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect((to, PORT))?;
    Ok(socket)
}

impl Forwarder {
    fn start(socket: UdpSocket, onward: Vec<UdpSocket>) -> std::io::Result<Forwarder> {
        let stop = Waker::new()?;
        let stopping = stop.clone();
        let thread = std::thread::Builder::new().name("bare".into());
        let thread = thread.spawn(move || {
            let _ = net::sched::real_time(PRIORITY);
            fan(&socket, &onward, &stopping)
        })?;
        Ok(Forwarder {
            stop,
            thread: Some(thread),
        })
    }
}

impl Forwarder {
    /// Returns its report, if it has not failed and was not stopped before.
    fn stop(&mut self) -> Option<Report> {
        self.stop.wake();
        self.thread.take()?.join().ok()?.ok()
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.stop();
    }
}
