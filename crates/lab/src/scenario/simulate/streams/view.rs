//! The results of the traffic at any moment: packet by packet, flow by flow.

use super::super::Call;
use super::super::network::{Network, Party};
use super::{Stream, Streams};
use crate::scenario::custom::FlowSoFar;
use crate::scenario::meter::Meter;
use crate::scenario::record::PacketRecord;
use base::Time;
use sim::World;

impl Streams<'_> {
    /// Returns the packets of each flow's streams; for a group, those of each member in turn.
    pub(in super::super) fn calls(
        &self,
        world: &World<Party>,
        network: &Network<'_>,
    ) -> Vec<Vec<Call>> {
        let mut calls: Vec<Vec<Call>> = vec![Vec::new(); self.scenario.flows.len()];
        for stream in &self.streams {
            let received = stream.meters.iter().map(Meter::delays_us);
            calls[stream.flow].extend(received);
        }
        for connection in &network.connections {
            let meter = connection.meter(world, self.scenario);
            calls[connection.flow()].push(meter.delays_us());
        }
        calls
    }

    /// Returns the result of each packet that was kept, stream by stream and receiver by receiver.
    pub(in super::super) fn packets(&self) -> Vec<PacketRecord> {
        let zero = Time::ZERO + self.scenario.settle;
        let record = |stream: &Stream, place: usize, meter: &Meter| {
            let flow = &self.scenario.flows[stream.flow];
            let receiver = flow.receivers().nth(place).unwrap_or(flow.to);
            let delays = meter.delays_us().into_iter();
            PacketRecord {
                flow: flow.name.clone(),
                stream: stream.number,
                receiver: self.scenario.nodes[receiver].name.clone(),
                sent_s: stream
                    .sent_at
                    .iter()
                    .map(|at| at.since(zero).as_secs_f64())
                    .collect(),
                delay_ms: delays.map(|us| us.map(|us| f64::from(us) / 1e3)).collect(),
            }
        };
        let kept = self.streams.iter().filter(|_| self.keeps_packets);
        let streams = kept.filter(|stream| !self.scenario.flows[stream.flow].is_bulk);
        streams
            .flat_map(|stream| {
                let meters = stream.meters.iter().enumerate();
                meters.map(move |(place, meter)| record(stream, place, meter))
            })
            .collect()
    }

    /// Returns the counts of each flow so far.
    pub(in super::super) fn so_far(
        &self,
        world: &World<Party>,
        network: &Network<'_>,
    ) -> Vec<FlowSoFar> {
        let flows = self.scenario.flows.iter();
        let mut flows: Vec<FlowSoFar> =
            flows.map(|flow| FlowSoFar::of(flow.name.clone())).collect();
        for stream in &self.streams {
            for meter in &stream.meters {
                flows[stream.flow].add(meter);
            }
        }
        for connection in &network.connections {
            flows[connection.flow()].add(&connection.meter(world, self.scenario));
        }
        flows
    }
}
