//! RIST into and out of the overlay, for encoders and decoders.
//!
//! ```text
//!   encoder ──RIST──▶ Inward ──▶ node ══ overlay ══ node ──▶ Outward ──RIST──▶ decoders
//! ```
//! The gateway is an ordinary client of its node, with one stream and one thread; librist has threads of its own. Each
//! packet of RIST becomes a datagram of the overlay, unchanged. RIST does retransmissions and holds packets back on the
//! short path to the gateway, and the overlay does so on each of its hops.

use crate::video::line::{self, Core, Event, Shared, Tell};
use crate::video::{Inlet, Outlet, Outward, Place, Sink, Watch};
use base::Time;
use client::{Node, Target};
use net::rist::{self, Context, End, Receiver, Sender, Stats};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of packets per turn, so that the node is also handled: 0.1 s of 70 Mbit/s.
const PACKETS_PER_TURN: usize = 512;
/// How long a turn waits for the first packet. The gateway checks for its end as often.
const WAIT: Duration = Duration::from_millis(100);

/// The work of a gateway.
#[derive(Clone, Debug)]
pub enum Work {
    /// From RIST into the overlay.
    In(Target),
    /// From the overlay to RIST.
    Out(Place),
}

/// The counters of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Number of peers that are connected, according to the library.
    pub connected: u64,
    /// The counters of the library.
    pub stats: Stats,
}

impl Counts {
    /// Takes over the events and counters of the library.
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

/// The report of the gateway.
pub type Report = line::Report<Counts>;

/// A running gateway.
pub type Service = line::Service<Counts>;

/// The reason why a gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node cannot be reached.
    #[error("the gateway's node: {0}")]
    Node(#[from] client::Error),
    /// librist cannot be loaded, or refuses.
    #[error(transparent)]
    Rist(#[from] rist::Error),
    /// The kernel refused something else.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Starts a gateway.
///
/// # Errors
/// librist cannot be loaded, the node cannot be reached, or an end cannot be used. Ends to which the gateway connects
/// need not be present yet.
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

/// Maximum length of a packet that a sender of RIST can have, including jumbo frames.
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
            // The other packets that have already arrived share a message.
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

/// The receivers of the stream over RIST.
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
