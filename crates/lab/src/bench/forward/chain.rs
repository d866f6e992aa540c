//! The chain: an engine that sends, the middle node as a process, and an engine that receives.

use super::{Arena, BenchError, Shape, Trial};
use crate::bench::credentials::address;
use crate::bench::endpoint::{Endpoint, Setup, socket};
use crate::bench::fleet::{Beside, Fleet, Spec};
use crate::bench::go_on;
use crate::bench::volley::{Sink, volley};
use crate::ports;
use base::impair::Model;
use base::{Burst, ClientId, Duration, UnderlayAddr, VirtualPort};
use net::Clock;
use std::collections::VecDeque;
use wire::data::{Class, LinkProtocol, Routing};
use wire::ipc;

/// Positions in the row.
const SENDER: usize = 0;
const MIDDLE: usize = 1;
const RECEIVER: usize = 2;

const PORT: VirtualPort = VirtualPort(5_000);
const RECEIVING: ClientId = ClientId(1);
/// How long to wait: sessions, links and routes take a second; a loaded machine takes longer.
const START_PATIENCE: Duration = Duration::from_secs(20);
/// Time between two trials: hellos pass, queues empty.
const REST: Duration = Duration::from_millis(20);
/// Number of packets sealed between two bursts that are sent early, so that the middle node receives something from its
/// neighbour: 20 ms of sealing.
const SEALED_IN_A_ROW: u64 = 32_768;
/// The longest time of a packet on the emulated link, recovery included.
pub(super) const PATIENCE: Duration = Duration::from_millis(150);
/// The emulated link's own delay, one way.
pub(super) const OUT_DELAY: Duration = Duration::from_millis(10);
/// How long voice is useful; the receiving engine drops later packets.
const DEADLINE: Duration = Duration::from_millis(100);

/// The running chain.
pub(super) struct Chain {
    fleet: Fleet,
    sender: Endpoint,
    receiver: Endpoint,
    middle: UnderlayAddr,
    payload: Vec<u8>,
}

/// Repair packets per packet of a coded lane, whatever is lost.
pub(super) const CODED: f64 = 0.3;
/// After a coded lane, one packet of this many is lost.
const LOST_OF: u64 = 20;

/// What follows the middle node.
pub(super) enum Behind {
    /// A link without losses.
    Clean,
    /// The same, between ends that seal by hops only.
    PlainEnds,
    /// A link that loses and delays packets.
    Lossy(Box<Lossy>),
    /// A receiver that loses packets, to which the lane is coded.
    Coded,
}

/// The models of the path out of the middle node and the path back to it.
pub(super) struct Lossy {
    out: Model,
    back: Model,
}

/// Returns 1 % loss and 20 ms there and back.
pub(super) fn lossy() -> Result<Lossy, BenchError> {
    let model = |text: &str| {
        text.parse::<Model>()
            .map_err(|error| BenchError::Start(error.to_string()))
    };
    Ok(Lossy {
        out: model(&format!("loss=1% delay={}ms", OUT_DELAY.as_millis()))?,
        back: model(&format!("delay={}ms", OUT_DELAY.as_millis()))?,
    })
}

impl Chain {
    /// Starts the middle node and both ends, and waits until packets can be sent.
    pub(super) fn start(arena: &Arena<'_>, behind: Behind) -> Result<Chain, BenchError> {
        let row = &arena.row;
        let mut fleet = Fleet::new(arena.options.program.as_deref())?;
        let listen = row.within(MIDDLE, || ports::free(row.any().ip()))??;
        let is_coded = matches!(behind, Behind::Coded);
        let has_plain_ends = matches!(behind, Behind::PlainEnds);
        let most = CODED.to_string();
        let coded = [
            ("protect", "hop"),
            ("protect_most", &most),
            ("protect_most_single", &most),
        ];
        let coded = coded.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let (out, back) = match behind {
            Behind::Lossy(lossy) => (Some(lossy.out), Some(lossy.back)),
            Behind::Clean | Behind::PlainEnds | Behind::Coded => (None, None),
        };
        let neighbors = [(SENDER, None), (RECEIVER, out)];
        let neighbors = neighbors.map(|(index, impair)| Beside {
            index,
            dial: None,
            impair,
        });
        fleet.start(
            MIDDLE,
            &Spec {
                listen,
                neighbors: neighbors.into(),
                cpu: arena.cpus.map(|[forwarder, _]| forwarder),
                inside: row.space(MIDDLE),
                realtime: true,
                paper: false,
                settings: if is_coded { &coded } else { &[] },
                reliable: crate::scenario::ReliableLinks::default(),
                bridge: None,
                transfers: None,
            },
        )?;
        let mut ends = Vec::new();
        for index in [SENDER, RECEIVER] {
            let at = (row.ip(index, MIDDLE), 0).into();
            let dial = (row.ip(MIDDLE, index), listen.port()).into();
            let setup = Setup {
                index,
                socket: row.within(index, || socket(at))??,
                neighbor: MIDDLE,
                dial: Some(net::addr::underlay(dial, 0)),
                loses_one_of: (is_coded && index == RECEIVER).then_some(LOST_OF),
                seals_ends: !has_plain_ends,
            };
            ends.push((Endpoint::new(&mut fleet.issuer, setup)?, dial));
        }
        let (Some((mut receiver, _)), Some((sender, dial))) = (ends.pop(), ends.pop()) else {
            return Err(BenchError::Start("a chain has two ends".into()));
        };
        receiver.bind(RECEIVING, PORT, voice());
        if let Some(back) = back {
            receiver.impair(MIDDLE, back);
        }
        let middle = net::addr::underlay(dial, 0);
        let mut chain = Chain {
            fleet,
            sender,
            receiver,
            middle,
            payload: Vec::new(),
        };
        chain.wait(arena)?;
        for client in 1..=arena.options.flows {
            chain.sender.bind(ClientId(client), VirtualPort(0), voice());
        }
        Ok(chain)
    }

    /// Waits until both ends have a route to each other.
    pub(super) fn wait(&mut self, arena: &Arena<'_>) -> Result<(), BenchError> {
        let clock = Clock::new();
        let until = clock.now() + START_PATIENCE;
        while !(self.sender.has_route(RECEIVER) && self.receiver.has_route(SENDER)) {
            go_on(&arena.interrupt)?;
            self.fleet.check()?;
            if clock.now() >= until {
                return Err(self
                    .fleet
                    .node(MIDDLE)
                    .error("has no links or no route after 20 s"));
            }
            self.rest();
        }
        Ok(())
    }

    /// Sends one volley through the middle node.
    pub(super) fn trial(
        &mut self,
        shape: Shape,
        flows: u32,
        patience: Duration,
    ) -> Result<Trial, BenchError> {
        let bursts = self.seal(shape, flows)?;
        let before = self.fleet.node(MIDDLE).usage()?;
        let (sender, middle) = (&mut self.sender, self.middle);
        let fire = |burst| sender.fire(middle, burst);
        let outcome = volley(bursts, shape.rate_pps, patience, fire, &mut self.receiver);
        let used = self.fleet.node(MIDDLE).usage()?.since(before);
        self.rest();
        self.fleet.check()?;
        Ok(Trial {
            outcome,
            cpu_ns: used.cpu_ns,
            wakeups: used.wakeups,
        })
    }

    /// Lets both ends do their other work as nodes.
    pub(super) fn rest(&mut self) {
        Endpoint::run(&mut [&mut self.sender, &mut self.receiver], REST);
    }

    /// Lets both ends send hellos while something else is measured.
    pub(super) fn attend(&mut self) {
        self.sender.step();
        self.receiver.step();
    }

    /// Returns the number of datagrams that the emulated link after the middle node has lost.
    pub(super) fn lost_on_link(&self) -> Result<u64, BenchError> {
        let status = self.fleet.node(MIDDLE).snapshot()?;
        let lost = status["counters"]["drops"]["impaired_loss"].as_u64();
        lost.ok_or_else(|| BenchError::Start("the node does not tell what it dropped".into()))
    }

    /// Returns the number of repair packets that the middle node has made for the receiver, and why there are no more.
    pub(super) fn repairs(&self) -> Result<(u64, String), BenchError> {
        let status = self.fleet.node(MIDDLE).snapshot()?;
        let mut links = status["snapshot"]["links"].as_array().into_iter().flatten();
        let receiver = address(RECEIVER).to_string();
        let link = links.find(|link| link["peer"] == *receiver);
        let lane = link.map(|link| &link["realtime"]);
        let repairs = lane.and_then(|lane| lane["repairs"].as_u64());
        let reason = lane.and_then(|lane| lane["protection"]["reason"].as_str());
        match (repairs, reason) {
            (Some(repairs), Some(reason)) => Ok((repairs, reason.to_owned())),
            _ => Err(BenchError::Start(
                "the node does not tell its repairs".into(),
            )),
        }
    }

    /// Seals a volley. The middle node gets a burst of it from time to time, in order, so that it does not consider its
    /// neighbour dead.
    fn seal(&mut self, shape: Shape, flows: u32) -> Result<VecDeque<Burst>, BenchError> {
        self.payload.resize(shape.payload, 0x5a);
        let (mut ready, mut sealed) = (VecDeque::new(), 0);
        let chunk = SEALED_IN_A_ROW.next_multiple_of(shape.burst as u64);
        // Additional packets replace those that are sent early.
        let early = (shape.packets / chunk) * shape.burst as u64;
        while sealed < shape.packets + early {
            let packets = chunk.min(shape.packets + early - sealed);
            let to = (RECEIVER, PORT);
            let (count, payload) = (packets as usize, &self.payload);
            let more = self.sender.seal(count, shape.burst, payload, flows, to)?;
            ready.extend(more);
            sealed += packets;
            if sealed < shape.packets + early
                && let Some(first) = ready.pop_front()
            {
                self.sender.fire(self.middle, first);
            }
            while Sink::step(&mut self.receiver) > 0 {}
        }
        Ok(ready)
    }
}

/// Returns the options of voice packets.
fn voice() -> ipc::Options {
    ipc::Options {
        class: Class {
            link: LinkProtocol::RealTime,
            routing: Routing::ExpectedLatency,
            priority: 4,
        },
        deadline: Some(DEADLINE),
        ..ipc::Options::default()
    }
}
