//! A stream out of the overlay, which one thread passes to a [`Sink`].

use super::line::{Core, Event, Shared};
use super::pace::Pace;
use super::{Inlet, Watch};
use base::{Duration, Time};
use client::Error;
use net::epoll::{Interest, Poller};
use std::io;
use std::sync::Arc;
use std::thread;

/// Maximum number of messages of the node per turn: each contains up to 64 packets.
const MESSAGES_PER_TURN: usize = 8;
/// The time between checks for the end and for a lost node.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Takes the packets of a stream.
pub(crate) trait Sink {
    /// The counters of the protocol.
    type Counts;

    /// Sends a packet on. Returns how many sends failed.
    fn send(&mut self, now: Time, payload: &[u8]) -> u64;

    /// Reports events, and returns the counters.
    fn look(&mut self, tell: &dyn Fn(Event)) -> Self::Counts;
}

/// Receives a stream from the overlay and passes it to a [`Sink`].
pub(crate) struct Outward<S: Sink> {
    shared: Arc<Shared<S::Counts>>,
    poller: Poller,
    inlet: Inlet,
    sink: S,
    watch: Watch,
    pace: Pace,
    failed: u64,
}

impl<S: Sink> Outward<S> {
    pub(crate) fn new(
        shared: Arc<Shared<S::Counts>>,
        inlet: Inlet,
        sink: S,
    ) -> io::Result<Outward<S>> {
        let this = Outward {
            shared,
            poller: Poller::new()?,
            inlet,
            sink,
            watch: Watch::default(),
            pace: Pace::default(),
            failed: 0,
        };
        this.wait_for_node()?;
        Ok(this)
    }

    fn wait_for_node(&self) -> io::Result<()> {
        match self.inlet.fd() {
            Some(fd) => self.poller.add(fd, 0, Interest::READ),
            None => Ok(()),
        }
    }

    /// Passes on the packets that arrived together. Returns false if there are none.
    fn pass(&mut self, now: Time) -> Result<bool, Error> {
        let Outward {
            shared,
            inlet,
            sink,
            watch,
            pace,
            failed,
            ..
        } = self;
        let mut leaves_at = shared.clock.now();
        inlet.receive(now, |packet| {
            watch.on_packet(now, packet.payload, packet.recovered);
            let wait = pace.wait(leaves_at);
            if wait > Duration::ZERO {
                // The thread has nothing else to do, and the node keeps what does not fit into this socket.
                thread::sleep(core::time::Duration::from_nanos(wait.as_nanos()));
                leaves_at = shared.clock.now();
            }
            *failed += sink.send(leaves_at, packet.payload);
        })
    }
}

impl<S: Sink> Core for Outward<S> {
    fn turn(&mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        self.poller.wait(Some(LOOK_EVERY), &mut ready)?;
        let now = self.shared.clock.now();
        for _ in 0..MESSAGES_PER_TURN {
            match self.pass(now) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.shared.tell_node(Err(error));
                    break;
                }
            }
        }
        if self.inlet.look(now) {
            self.shared.tell_node(Ok(true));
            self.wait_for_node()?;
        }
        let more = self.sink.look(&self.shared.tell);
        let mut report = self.shared.report();
        report.seen = self.watch.seen();
        report.dropped = self.failed;
        report.more = more;
        Ok(())
    }
}
