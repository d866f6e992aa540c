//! A bridge without a thread: it lives in the loop of its node, and so reaches the node without a socket and without
//! waking anybody.
//!
//! ```text
//!   loop of the node: ready, or packets came ──▶ Inside::turn ──▶ joins, packets ──▶ Sink
//! ```
//! It is the same bridge with the same work loop, but the overlay consists of two queues.

use super::bridge::Settings;
use super::device::Device;
use super::overlay::{Link, Overlay};
use super::report::Report;
use super::run::Loop;
use super::{Error, Place, Shared, Tell};
use base::NodeAddr;
use client::{Error as ClientError, Told};
use net::epoll::Waker;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of bytes of packets that leave in one turn: 256 packets of 9000 bytes.
const LEAVING_BYTES_MAX: usize = 4 << 20;

/// Receives what a bridge requests from the node in which it lives.
pub trait Sink {
    /// Joins a group, to get packets for it.
    fn join(&mut self, group: NodeAddr);
    /// Leaves a group.
    fn leave(&mut self, group: NodeAddr);
    /// Sends a packet to a group.
    fn send(&mut self, group: NodeAddr, packet: &[u8]);
}

/// A bridge that lives in a node's loop.
pub struct Inside {
    data: Loop<Queues>,
    queues: Queues,
}

impl std::fmt::Debug for Inside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Inside")
    }
}

/// Packets back to back, and the end of each one.
#[derive(Default)]
struct Packets {
    bytes: Vec<u8>,
    ends: Vec<(NodeAddr, usize)>,
}

impl Packets {
    fn push(&mut self, group: NodeAddr, packet: &[u8]) {
        self.bytes.extend_from_slice(packet);
        self.ends.push((group, self.bytes.len()));
    }

    fn iter(&self) -> impl Iterator<Item = (NodeAddr, &[u8])> {
        let mut from = 0;
        self.ends.iter().map(move |&(group, end)| {
            let packet = &self.bytes[from..end];
            from = end;
            (group, packet)
        })
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// The queues between the bridge and its node. Nothing ever waits for the lock, because both run on one thread.
#[derive(Default)]
struct Exchange {
    came: Packets,
    leaving: Packets,
    /// Joins (true) and leaves (false).
    members: Vec<(NodeAddr, bool)>,
    told: VecDeque<Told>,
}

#[derive(Clone)]
struct Queues {
    node: NodeAddr,
    exchange: Arc<Mutex<Exchange>>,
    /// A descriptor that never becomes ready. It exists because a connection has one.
    waker: Waker,
}

impl Queues {
    fn exchange(&self) -> MutexGuard<'_, Exchange> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Overlay for Queues {
    type Link = QueueLink;

    fn connect(&self) -> Result<QueueLink, ClientError> {
        Ok(QueueLink {
            queues: self.clone(),
            came: Packets::default(),
            gathered: 0,
        })
    }
}

struct QueueLink {
    queues: Queues,
    /// The packets that were received.
    came: Packets,
    gathered: usize,
}

impl Link for QueueLink {
    fn node(&self) -> NodeAddr {
        self.queues.node
    }

    fn join(&self, group: NodeAddr) -> Result<(), ClientError> {
        self.queues.exchange().members.push((group, true));
        Ok(())
    }

    fn leave(&self, group: NodeAddr) -> Result<(), ClientError> {
        self.queues.exchange().members.push((group, false));
        Ok(())
    }

    fn max_packet(&self) -> usize {
        wire::ipc::PAYLOAD_BYTES_MAX
    }

    fn push(&mut self, group: NodeAddr, packet: &[u8]) -> bool {
        let mut exchange = self.queues.exchange();
        let bytes = exchange.leaving.bytes.len() + packet.len();
        let has_room = packet.len() <= self.max_packet() && bytes <= LEAVING_BYTES_MAX;
        if has_room {
            exchange.leaving.push(group, packet);
        }
        has_room
    }

    fn gathered(&self) -> usize {
        self.gathered
    }

    fn flush(&mut self) -> Result<(), ClientError> {
        Ok(())
    }

    fn receive(&mut self) -> Result<bool, ClientError> {
        self.came.clear();
        core::mem::swap(&mut self.came, &mut self.queues.exchange().came);
        Ok(!self.came.ends.is_empty())
    }

    fn received(&self) -> impl Iterator<Item = (NodeAddr, &[u8])> {
        self.came.iter()
    }

    fn take_told(&mut self) -> Option<Told> {
        self.queues.exchange().told.pop_front()
    }
}

impl AsFd for QueueLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queues.waker.as_fd()
    }
}

impl Inside {
    /// Opens the interface. `tell` receives the events on the loop's thread: it must not wait.
    ///
    /// # Errors
    /// The interface cannot be used.
    pub fn open(
        node: NodeAddr,
        place: Place,
        tell: Tell,
        settings: impl FnOnce(u64) -> Settings,
    ) -> Result<Inside, Error> {
        let name = place.name().to_owned();
        let refused = |error| Error::Interface { name, error };
        let device = Device::open(place).map_err(refused)?;
        let [a, b, c, d, e, f, g, h, ..] = net::sched::entropy()?;
        let settings = settings(u64::from_be_bytes([a, b, c, d, e, f, g, h]));
        let queues = Queues {
            node,
            exchange: Arc::default(),
            waker: Waker::new()?,
        };
        let link = queues.connect()?;
        let shared = Arc::new(Shared::new(queues.clone(), node, tell)?);
        let data = Loop::new(shared, device, link, settings)?;
        Ok(Inside { data, queues })
    }

    /// Returns a descriptor that is ready when the bridge has work.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.data.fd()
    }

    /// Returns how long the bridge can wait.
    pub fn wait(&self) -> core::time::Duration {
        self.data.wait()
    }

    /// Returns how long packets gather at the interface before the next check; `None` unless packets come fast.
    pub fn gather(&self) -> Option<core::time::Duration> {
        self.data.gather()
    }

    /// Queues a message of the node; the next turn handles it.
    pub fn hear(&mut self, told: Told) {
        self.queues.exchange().told.push_back(told);
    }

    /// Does a bounded amount of work, and takes the packets of `came`; the results go to `sink`. `is_ready` states
    /// whether the interface may have frames; it may also be empty.
    pub fn turn<'a>(
        &mut self,
        is_ready: bool,
        came: impl Iterator<Item = (NodeAddr, &'a [u8])>,
        sink: &mut impl Sink,
    ) {
        {
            let mut exchange = self.queues.exchange();
            came.for_each(|(group, packet)| exchange.came.push(group, packet));
        }
        self.data.step(is_ready);
        let mut exchange = self.queues.exchange();
        for (group, joins) in exchange.members.drain(..) {
            match joins {
                true => sink.join(group),
                false => sink.leave(group),
            }
        }
        exchange
            .leaving
            .iter()
            .for_each(|(group, packet)| sink.send(group, packet));
        exchange.leaving.clear();
    }

    /// Returns the state and the counters of the bridge, as of its last check of the interface.
    pub fn report(&self) -> Report {
        self.data.report()
    }

    /// Announces to the network that the bridge ends.
    pub fn leave(&mut self) {
        self.data.leave();
    }
}
