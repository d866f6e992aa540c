//! A stream that leaves the overlay by one thread, to whatever takes it.

use super::line::{Core, Event, Shared};
use super::{Inlet, Watch};
use base::{Duration, Time};
use client::Error;
use net::epoll::{Interest, Poller};
use std::io;
use std::sync::Arc;

/// Messages of the node in a turn: each brings up to 64 packets.
const MESSAGES_PER_TURN: usize = 8;
/// How often the end is looked for, and a node that is away.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What takes the packets of a stream.
pub(crate) trait Sink {
    /// What the protocol counts.
    type Counts;

    /// Sends a packet on; how often that failed.
    fn send(&mut self, now: Time, payload: &[u8]) -> u64;

    /// What has happened, and what was counted so far.
    fn look(&mut self, tell: &dyn Fn(Event)) -> Self::Counts;
}

/// Takes a stream out of the overlay and gives it to a [`Sink`].
pub(crate) struct Outward<S: Sink> {
    shared: Arc<Shared<S::Counts>>,
    poller: Poller,
    inlet: Inlet,
    sink: S,
    watch: Watch,
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

    /// Passes on what came together; false when there is nothing.
    fn pass(&mut self, now: Time) -> Result<bool, Error> {
        let Outward {
            inlet,
            sink,
            watch,
            failed,
            ..
        } = self;
        inlet.receive(now, |packet| {
            watch.on_packet(now, packet.payload, packet.recovered);
            *failed += sink.send(now, packet.payload);
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
