//! RIST into and out of the overlay, for encoders and decoders.
//!
//! ```text
//!   encoder ──RIST──▶ Inward ──▶ node ══ overlay ══ node ──▶ Outward ──RIST──▶ decoders
//! ```
//! The gateway is an ordinary client of its node, with one stream and one thread; librist has threads of its own. Each
//! packet of RIST becomes a datagram of the overlay, unchanged. RIST does retransmissions and holds packets back on the
//! short path to the gateway, and the overlay does so on each of its hops. One encoder at a time has the stream
//! (`holder`).

mod holder;

use crate::video::line::{self, Core, Event, Shared, Tell};
use crate::video::{Inlet, Outlet, Outward, Place, Sink, Watch};
use base::Time;
use client::{Node, Target};
use holder::{Holder, Verdict};
use net::rist::{self, Context, End, Peer, Receiver, Sender, Stats};
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
    /// Packets that were dropped because another encoder has the stream.
    pub second_sender: u64,
    /// The counters of the library.
    pub stats: Stats,
}

impl Counts {
    /// Takes over the events and counters of the library. Calls `on_lost` for each lost connection.
    fn look(&mut self, context: &Context, tell: &dyn Fn(Event), mut on_lost: impl FnMut(Peer)) {
        for event in context.events() {
            match event {
                rist::Event::Connected(peer) => {
                    self.connected += 1;
                    tell(Event::Connected(peer.address));
                }
                rist::Event::Lost(peer) => {
                    self.connected = self.connected.saturating_sub(1);
                    on_lost(peer);
                    tell(Event::Disconnected(peer.address));
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
                holder: Holder::default(),
                peer: None,
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
    holder: Holder,
    /// The connection of the encoder that has the stream.
    peer: Option<Peer>,
    watch: Watch,
    counts: Counts,
    buffer: Vec<u8>,
}

impl Core for Inward {
    fn turn(&mut self) -> io::Result<()> {
        let mut wait = WAIT;
        for _ in 0..PACKETS_PER_TURN {
            let got = self.receiver.receive(&mut self.buffer, wait);
            let Some(received) = got.map_err(io::Error::other)? else {
                break;
            };
            // The other packets that have already arrived share a message.
            wait = Duration::ZERO;
            let now = self.shared.clock.now();
            if self.has_stream(now, &received) {
                let packet = &self.buffer[..received.len];
                self.watch.on_packet(now, packet, false);
                self.outlet.push(self.target, packet);
            }
        }
        self.outlet.flush();
        let heard = self.outlet.look(self.shared.clock.now());
        self.shared.tell_node(heard);
        let Inward {
            holder,
            peer,
            receiver,
            shared,
            counts,
            ..
        } = self;
        counts.look(receiver.context(), &shared.tell, |lost| {
            if peer.is_some_and(|peer| peer.is(&lost)) {
                *peer = None;
                holder.release();
            }
        });
        let mut report = self.shared.report();
        report.seen = self.watch.seen();
        report.dropped = self.outlet.dropped();
        report.more = self.counts;
        Ok(())
    }
}

impl Inward {
    /// Returns whether a packet is of the encoder that has the stream. Reports other encoders.
    fn has_stream(&mut self, now: Time, packet: &rist::Received) -> bool {
        match self.holder.on_packet(now, packet.flow) {
            Verdict::Passes => {
                // An encoder may come back over another connection before the former one counts as lost.
                if self.peer.is_none_or(|peer| !peer.has_sent(packet)) {
                    self.peer = Some(self.receiver.context().peer(packet));
                }
                true
            }
            Verdict::Drops { is_first } => {
                self.counts.second_sender += 1;
                if is_first {
                    let peer = self.receiver.context().peer(packet).address;
                    (self.shared.tell)(Event::Refused(peer));
                }
                false
            }
        }
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
        self.counts.look(self.sender.context(), tell, |_| {});
        self.counts
    }
}
