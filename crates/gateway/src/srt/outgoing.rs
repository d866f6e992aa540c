//! The thread that receives streams from the overlay and sends them to the connections of receivers.

use super::report::Event;
use super::routes::ROUTES_MAX;
use super::{OUTLET, Shared};
use crate::video::Inlet;
use base::{Duration, Time};
use client::Error;
use net::epoll::{Interest, Poller, Ready};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum number of messages of one stream per turn: each contains up to 64 packets.
const MESSAGES_PER_TURN: usize = 8;
/// The time between checks for a lost node.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The tokens of streams are lower.
const TOKEN_WAKE: u64 = ROUTES_MAX as u64;

pub(super) struct Outgoing {
    shared: Arc<Shared>,
    inlets: Vec<Inlet>,
    poller: Poller,
}

impl Outgoing {
    pub(super) fn new(shared: Arc<Shared>, inlets: Vec<Inlet>) -> io::Result<Outgoing> {
        let poller = Poller::new()?;
        poller.add(&shared.waker, TOKEN_WAKE, Interest::READ)?;
        let this = Outgoing {
            shared,
            inlets,
            poller,
        };
        for index in 0..this.inlets.len() {
            this.wait_for(index)?;
        }
        Ok(this)
    }

    fn wait_for(&self, index: usize) -> io::Result<()> {
        match self.inlets[index].fd() {
            Some(fd) => self.poller.add(fd, index as u64, Interest::READ),
            None => Ok(()),
        }
    }

    pub(super) fn run(mut self) {
        let mut ready = Vec::new();
        while !self.shared.stop.load(Ordering::Acquire) {
            let away = self.inlets.iter().any(Inlet::has_to_look);
            let timeout = away.then_some(LOOK_EVERY);
            if let Err(error) = self.poller.wait(timeout, &mut ready) {
                (self.shared.tell)(Event::Warning(format!("the gateway stops: {error}")));
                return;
            }
            self.turn(&ready);
        }
    }

    fn turn(&mut self, ready: &[Ready]) {
        for event in ready.iter().filter(|event| event.token != TOKEN_WAKE) {
            self.serve(event.token as usize);
        }
        let now = self.shared.clock.now();
        for index in 0..self.inlets.len() {
            if self.inlets[index].look(now) {
                self.shared.tell_back(OUTLET + 1 + index);
                // If this stream cannot be watched now, the next check tries again.
                let _ = self.wait_for(index);
            }
        }
    }

    /// Sends the packets of a stream that have arrived.
    fn serve(&mut self, index: usize) {
        for _ in 0..MESSAGES_PER_TURN {
            let now = self.shared.clock.now();
            match self.pass(now, index) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    let is_refusal = matches!(error, Error::Refused { .. });
                    self.shared.tell_away(OUTLET + 1 + index, error);
                    if !is_refusal {
                        return;
                    }
                }
            }
        }
    }

    fn pass(&mut self, now: Time, index: usize) -> Result<bool, Error> {
        let outlet = &self.shared.outputs[index];
        let receivers = outlet.receivers();
        let mut watch = outlet.watch();
        self.inlets[index].receive(now, |packet| {
            watch.on_packet(now, packet.payload, packet.recovered);
            for receiver in &*receivers {
                receiver.send(packet.payload, packet.behind);
            }
        })
    }
}
