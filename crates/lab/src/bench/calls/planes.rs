//! The gateways: two nodes as processes, a media plane at each, and the calls between them.

use super::Options;
use super::phones::{Phones, Plan, Trial};
use super::report::Heard;
use crate::bench::BenchError;
use crate::bench::credentials::address;
use crate::bench::fleet::{Beside, Fleet, Spec};
use crate::bench::usage::Usage;
use crate::control;
use crate::ports;
use base::VirtualPort;
use gateway::media::{Plane, Settings};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use tools::interrupt::Interrupt;
use voice::media::{CallId, Carrier, Expected, LocalPorts, Need, Remote, StreamId};
use voice::sdp::Side;

/// How long voice is useful [Amir06 §V-B].
const DEADLINE: Duration = Duration::from_millis(100);

/// Number of UDP ports of each gateway: both are on one host.
const PORTS: u16 = 5_000;
const FIRST_PORT: u16 = 20_000;

/// Two gateways with calls.
pub(super) struct Planes {
    // This field is dropped first: clients leave before their nodes end.
    planes: [Plane; 2],
    calls: Vec<Call>,
    fleet: Fleet,
}

/// One call at both gateways.
struct Call {
    ids: [CallId; 2],
    /// The address to which the phone of each side sends.
    at: [SocketAddr; 2],
}

impl Planes {
    /// Starts nodes and planes, and opens the calls.
    pub(super) fn start(
        options: &Options,
        interrupt: &Interrupt,
        phones: &Phones,
    ) -> Result<Planes, BenchError> {
        let fleet = start_nodes(options, interrupt)?;
        let start = |index: usize| -> Result<Plane, BenchError> {
            let node = client::Node::at(fleet.node(index).client_socket());
            let first = FIRST_PORT + index as u16 * PORTS;
            let settings = Settings {
                udp: first..=first + PORTS - 1,
                bind: vec![Ipv4Addr::LOCALHOST.into()],
                options: client::Options::voice(DEADLINE),
                // A trial shows what it would report.
                ..Settings::new(node, Box::new(|_| {}))
            };
            Plane::start(settings).map_err(|error| BenchError::Start(error.to_string()))
        };
        let mut planes = Planes {
            planes: [start(0)?, start(1)?],
            calls: Vec::new(),
            fleet,
        };
        for _ in 0..options.calls {
            let call = planes.open(phones).map_err(|error| {
                BenchError::Start(format!("call {}: {error}", planes.calls.len()))
            })?;
            planes.calls.push(call);
        }
        Ok(planes)
    }

    fn open(&self, phones: &Phones) -> Result<Call, gateway::media::Error> {
        let mut opened = Vec::new();
        for (plane, phone) in self.planes.iter().zip(Side::BOTH) {
            let id = plane.open()?;
            let mut sides = [
                (Carrier::Udp, Need::Single),
                (Carrier::Overlay, Need::Single),
            ];
            if phone == Side::Callee {
                sides.reverse();
            }
            opened.push((id, plane.add_stream(stream(id), sides)?));
        }
        let local = |gateway: usize, side: Side| -> LocalPorts { opened[gateway].1[side.index()] };
        for (gateway, phone) in Side::BOTH.into_iter().enumerate() {
            let (plane, id) = (&self.planes[gateway], opened[gateway].0);
            let rtp = Expected {
                signalled: phones.at(gateway),
                via: None,
                lan: false,
            };
            let remote = Remote::Udp {
                rtp,
                rtcp: None,
                dtls: false,
            };
            plane.signal(stream(id), phone, remote)?;
            // At this gateway, the far side's phone is on the other side of the call.
            let far = local(1 - gateway, phone);
            let remote = Remote::Overlay {
                node: self.planes[1 - gateway].node(),
                rtp: VirtualPort(far.rtp),
                rtcp: VirtualPort(far.rtcp),
            };
            plane.signal(stream(id), phone.other(), remote)?;
            plane.answered(id, true)?;
        }
        let at = |gateway: usize, phone: Side| -> SocketAddr {
            (Ipv4Addr::LOCALHOST, local(gateway, phone).rtp).into()
        };
        Ok(Call {
            ids: [opened[0].0, opened[1].0],
            at: [at(0, Side::Caller), at(1, Side::Callee)],
        })
    }

    /// Lets all phones talk through the gateways.
    pub(super) fn trial(&mut self, phones: &Phones, plan: &Plan) -> Result<Trial, BenchError> {
        let before = self.used()?;
        let ran = phones.trial(plan, |side, call| self.calls[call as usize].at[side]);
        self.fleet.check()?;
        let mut trial = ran?;
        let after = self.used()?;
        trial.cpu_ns = Some([after[0] - before[0], after[1] - before[1]]);
        Ok(trial)
    }

    /// Returns the processor time of the planes' threads, and of the nodes.
    fn used(&self) -> Result<[u64; 2], BenchError> {
        let planes = Usage::of_threads(std::process::id(), "media")?;
        let nodes = [0, 1].map(|index| self.fleet.node(index).usage());
        let [one, other] = nodes;
        Ok([planes.cpu_ns, one?.cpu_ns + other?.cpu_ns])
    }

    /// Returns what the planes themselves received over the overlay, in all trials together.
    pub(super) fn quality(&self) -> Heard {
        let mut heard = Heard::default();
        for call in &self.calls {
            for (gateway, phone) in Side::BOTH.into_iter().enumerate() {
                let report = self.planes[gateway].report(call.ids[gateway]);
                let streams = report.map(|report| report.streams).unwrap_or_default();
                for stream in streams {
                    heard.add(&stream.sides[phone.other().index()].quality);
                }
            }
        }
        for plane in &self.planes {
            let counters = plane.counters();
            heard.dropped += counters.drops.total();
            heard.failed += counters.udp_failed + counters.overlay_failed;
        }
        heard
    }

    /// Returns the scheduling of the nodes.
    pub(super) fn scheduling(&self) -> Result<String, BenchError> {
        let status = self.fleet.node(0).snapshot()?;
        let scheduling = status["host"]["scheduling"].as_str();
        Ok(scheduling.unwrap_or("unknown").to_owned())
    }
}

fn start_nodes(options: &Options, interrupt: &Interrupt) -> Result<Fleet, BenchError> {
    let mut fleet = Fleet::new(options.program.as_deref())?;
    let own = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let listen = [ports::free(own)?, ports::free(own)?];
    for index in [0, 1] {
        let beside = Beside {
            index: 1 - index,
            dial: (index == 1).then_some(listen[0]),
            impair: None,
        };
        let spec = Spec {
            listen: listen[index],
            neighbors: vec![beside],
            cpu: None,
            inside: None,
            realtime: true,
            paper: false,
            settings: &[],
            reliable: crate::scenario::ReliableLinks::default(),
            bridge: None,
            transfers: None,
        };
        fleet.start(index, &spec)?;
    }
    fleet.wait(interrupt, |index, status| {
        let other = address(1 - index).to_string();
        control::links_up(status, 1) && control::has_route(status, &other)
    })?;
    Ok(fleet)
}

fn stream(call: CallId) -> StreamId {
    StreamId { call, media: 0 }
}
