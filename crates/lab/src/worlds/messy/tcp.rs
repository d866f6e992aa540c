//! The twin of a reliable stream: the simulator's TCP over the direct path, in a separate world in which the path and
//! both ends have the faults of the scene.

use crate::scenario::{Call, Fault, FaultKind, Flow, Place, SOCKET_DATAGRAMS, Scenario};
use base::{Duration, Time};
use congestion::Family;
use sim::tcp::{Network, Settings, Traffic};
use sim::traffic::Pattern;
use sim::{HostId, World};

/// Number of segments of a window: more than a stream of voice has under way in seconds.
const WINDOW: u32 = 256;
/// How long packets under way may take to arrive after the end.
const DRAIN: Duration = Duration::from_secs(1);

/// Returns the messages of the flow's streams, each over a separate connection on one path.
pub(super) fn twin(scenario: &Scenario, flow: &Flow, link: usize, seed: u64) -> Vec<Call> {
    let mut network = Network::default();
    let (from, to) = (network.host(), network.host());
    let ends = Ends {
        link,
        from,
        to,
        is_turned: scenario.links[link].a != flow.from,
    };
    let [there, back] = ends.models(&scenario.links[link].path);
    network.link_one_way(from, to, there);
    network.link_one_way(to, from, back);
    let settings = Settings::ns2(Family::Sack).with_window(WINDOW);
    let (Pattern::Cbr { interval } | Pattern::OnOff { interval, .. }) = flow.pattern;
    let rate_bps = (flow.packet as u64 * 8 * 1_000_000_000) / interval.as_nanos();
    let zero = scenario.settle;
    let traffic = |n: usize| {
        let phase = (interval * n as u64).div(flow.count as u64);
        let traffic = Traffic::cbr(rate_bps, flow.packet);
        traffic.between(zero + flow.start + phase, zero + flow.stop)
    };
    let connect = |n| network.connect(from, to, settings.clone(), traffic(n));
    let connections: Vec<_> = (0..flow.count).map(connect).collect();
    let mut world = network.build(seed);
    for fault in &scenario.faults {
        world.run_until(Time::ZERO + zero + fault.at);
        ends.suffer(&mut world, scenario, flow, fault);
    }
    world.run_until(Time::ZERO + zero + scenario.duration + DRAIN);
    let call = |(n, connection): (usize, &sim::tcp::Flow)| -> Call {
        let writes = connection.writes(&world, traffic(n)).count();
        let delivered = connection.deliveries(&world).iter();
        let delays = delivered.map(|delivery| u32::try_from(delivery.delay().as_micros()).ok());
        delays
            .chain(core::iter::repeat(None))
            .take(writes)
            .collect()
    };
    connections.iter().enumerate().map(call).collect()
}

/// The hosts of the twin, and the link whose faults it has.
struct Ends {
    link: usize,
    from: HostId,
    to: HostId,
    /// Whether it runs from the link's second end to its first.
    is_turned: bool,
}

impl Ends {
    fn models(&self, path: &crate::scenario::BothWays) -> [base::impair::Model; 2] {
        let (there, back) = (path.there.clone(), path.back.clone());
        match self.is_turned {
            false => [there, back],
            true => [back, there],
        }
    }

    fn suffer(
        &self,
        world: &mut World<sim::tcp::TcpHost>,
        scenario: &Scenario,
        flow: &Flow,
        fault: &Fault,
    ) {
        let is_mine = |place: &Place| *place == Place::Link(self.link);
        match &fault.kind {
            FaultKind::Down(place) if is_mine(place) => world.set_outage(self.from, self.to, true),
            FaultKind::Up(place) if is_mine(place) => world.set_outage(self.from, self.to, false),
            FaultKind::Set(place, path) if is_mine(place) => {
                let [there, back] = self.models(path);
                world.link_one_way(self.from, self.to, there);
                world.link_one_way(self.to, self.from, back);
            }
            FaultKind::Stall(node, span) => {
                let until = Time::ZERO + scenario.settle + fault.at + *span;
                for (at, host) in [(flow.from, self.from), (flow.to, self.to)] {
                    if at == *node {
                        world.stall(host, until, SOCKET_DATAGRAMS);
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_twin_suffers_the_links_outages_and_delivers_all_in_the_end() {
        let text = "[scenario]\nname = 'pair'\nduration = '20s'\n[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n\
                    [[link]]\na = 'b'\nb = 'a'\npath = 'delay=10ms'\nback = 'delay=30ms'\n\
                    [[flow]]\nfrom = 'a'\nto = 'b'\nstream = true\nclass = 'reliable'\n\
                    [[fault]]\nat = '5s'\nkind = 'link-down'\na = 'a'\nb = 'b'\n\
                    [[fault]]\nat = '8s'\nkind = 'link-up'\na = 'a'\nb = 'b'\n";
        let scenario = Scenario::parse("pair", text).unwrap();
        let calls = twin(&scenario, &scenario.flows[0], 0, 1);
        assert_eq!(calls[0].len(), 1_000);
        let delays: Vec<u32> = calls[0].iter().copied().flatten().collect();
        assert_eq!(delays.len(), 1_000);
        // The first delay is that of its own direction, the second one that of the outage.
        assert!((30_000..40_000).contains(&delays[100]), "{}", delays[100]);
        assert!(delays[260] > 2_500_000, "{}", delays[260]);
        assert!(delays[999] < 40_000, "{}", delays[999]);
    }
}
