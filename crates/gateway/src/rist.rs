//! RIST into the overlay and out of it, for encoders and decoders.
//!
//! ```text
//!   encoder ──RIST──▶ Inward ──▶ node ══ overlay ══ node ──▶ Outward ──RIST──▶ decoders
//! ```
//! An ordinary client of its node, with one stream and one thread; librist has threads of its own. A packet of
//! RIST is a datagram of the overlay, as it is. RIST repairs and holds back on the short way to the gateway, the
//! overlay on each of its hops.

use crate::video::line::{self, Core, Event, Shared, Tell};
use crate::video::{Inlet, Outlet, Outward, Place, Sink, Watch};
use base::Time;
use client::{Node, Target};
use net::rist::{self, Context, End, Receiver, Sender, Stats};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Packets after which a turn ends, so that the node is heard: 0.1 s of 70 Mbit/s.
const PACKETS_PER_TURN: usize = 512;
/// How long a turn waits for the first one; the end is looked for as often.
const WAIT: Duration = Duration::from_millis(100);

/// What a gateway is to do.
#[derive(Clone, Debug)]
pub enum Work {
    /// From RIST into the overlay.
    In(Target),
    /// Out of the overlay to RIST.
    Out(Place),
}

/// What the protocol counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Others that are there, as far as the library has told.
    pub connected: u64,
    /// What the library has counted.
    pub stats: Stats,
}

impl Counts {
    /// Takes in what the library has told.
    fn look(&mut self, context: &Context, tell: &dyn Fn(Event)) {
        for event in context.events() {
            match event {
                rist::Event::Connected => {
                    self.connected += 1;
                    tell(Event::Connected);
                }
                rist::Event::Lost => {
                    self.connected = self.connected.saturating_sub(1);
                    tell(Event::Disconnected);
                }
            }
        }
        self.stats = context.stats();
    }
}

/// The gateway so far.
pub type Report = line::Report<Counts>;

/// A running gateway.
pub type Service = line::Service<Counts>;

/// Why there is no gateway.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node cannot be had.
    #[error("the gateway's node: {0}")]
    Node(#[from] client::Error),
    /// librist cannot be had, or refuses.
    #[error(transparent)]
    Rist(#[from] rist::Error),
    /// The kernel refused something else.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Starts a gateway.
///
/// # Errors
/// When librist or the node cannot be had, or an end cannot be. Those that are called need not be there yet.
pub fn start(
    node: &Node,
    work: Work,
    (ends, of_rist): (&[End], &rist::Options),
    overlay: client::Options,
    tell: Tell,
) -> Result<Service, Error> {
    Service::begin("rist", tell, |shared| {
        Ok(match work {
            Work::In(target) => Box::new(Inward {
                shared,
                outlet: Outlet::open(node.clone(), overlay)?,
                receiver: Receiver::open(ends, of_rist)?,
                target,
                watch: Watch::default(),
                counts: Counts::default(),
                buffer: vec![0; BUFFER_BYTES],
            }) as Box<dyn Core + Send>,
            Work::Out(place) => {
                let inlet = Inlet::open(node.clone(), place, overlay)?;
                let sink = Players {
                    sender: Sender::open(ends, of_rist)?,
                    counts: Counts::default(),
                };
                Box::new(Outward::new(shared, inlet, sink)?)
            }
        })
    })
}

/// The longest packet that a sender of RIST can have, jumbo frames included.
const BUFFER_BYTES: usize = 10_000;

struct Inward {
    shared: Arc<Shared<Counts>>,
    receiver: Receiver,
    outlet: Outlet,
    target: Target,
    watch: Watch,
    counts: Counts,
    buffer: Vec<u8>,
}

impl Core for Inward {
    fn turn(&mut self) -> io::Result<()> {
        let mut wait = WAIT;
        for _ in 0..PACKETS_PER_TURN {
            let got = self.receiver.receive(&mut self.buffer, wait);
            let Some(len) = got.map_err(io::Error::other)? else {
                break;
            };
            let packet = &self.buffer[..len];
            self.watch.on_packet(self.shared.clock.now(), packet, false);
            self.outlet.push(self.target, packet);
            // The rest of what is there already shares a message.
            wait = Duration::ZERO;
        }
        self.outlet.flush();
        let heard = self.outlet.look(self.shared.clock.now());
        self.shared.tell_node(heard);
        self.counts.look(self.receiver.context(), &self.shared.tell);
        let mut report = self.shared.report();
        report.seen = self.watch.seen();
        report.dropped = self.outlet.dropped();
        report.more = self.counts;
        Ok(())
    }
}

/// Those who receive the stream by RIST.
struct Players {
    sender: Sender,
    counts: Counts,
}

impl Sink for Players {
    type Counts = Counts;

    fn send(&mut self, _now: Time, payload: &[u8]) -> u64 {
        u64::from(!self.sender.send(payload))
    }

    fn look(&mut self, tell: &dyn Fn(Event)) -> Counts {
        self.counts.look(self.sender.context(), tell);
        self.counts
    }
}
