//! A chain of links with ordinary flows on each, and transfers over the whole of it: end to end, or
//! through relays. [Liu04 §V-A, Figure 7]
//!
//! ```text
//!   v0 ═══ v1 ═══ v2 ═══ v3 ═══ v4 ═══ v5 ═══ v6      ═══ 20 Mbit/s, 10 ms
//!      40     80     120    …                         ordinary flows, from one end of a link to the
//!   └──────────────┘└────┘└─────────────────┘         other; the transfer's connections between relays
//! ```
//! A relay is a host of the chain. Data that one connection has delivered in order waits in its receive buffer until
//! the next one's send buffer accepts it; both are limited, and a full receive buffer closes the window of the sender
//! before it. [Liu04 §V]
//!
//! Choice: the paper does not mention queues, segments and windows. Here links have room for 100 ms, TCP is ns-2's Reno
//! (its FullTCP) with segments of 1000 bytes, and windows do not limit the rate.

use base::impair::{LossModel, Model, Queue};
use base::{Duration, Time};
use congestion::Family;
use sim::tcp::{Flow, Forward, Network, Relay, Settings, TcpHost, Traffic};
use sim::{HostId, World};

/// The rate of a link. [Liu04 §V-A]
pub(super) const LINK_BPS: u64 = 20_000_000;
/// Its propagation delay. [Liu04 §V-A]
pub(super) const LINK_MS: u64 = 10;
/// Number of packets that wait for a link: 100 ms of full segments.
const QUEUE_PACKETS: usize = 240;
/// Number of segments in a relay's receive buffer and in its send buffer, each. A segment on a full link waits 100 ms
/// and travels 20: 290 segments are under way there at 20 Mbit/s.
pub(super) const BUFFER_SEGMENTS: u32 = 320;
/// Largest window: the capacity of the buffers.
const WINDOW: u32 = BUFFER_SEGMENTS;
/// Largest random addition to the propagation delay: some packet times. Without it, phases decide: a full queue has
/// room for one packet each time one leaves, and packets that are clocked by this very queue would always get this
/// room. (ns-2 has `overhead_` against this.)
const JITTER_US: u64 = 2_000;
/// Flows begin within this time, evenly distributed, not all at one moment.
const ENTER_MS: u64 = 2_000;
/// Transfers begin this much later: by then the links are as full as they stay.
///
/// Choice: a connection that is among the first on an empty link opens its window to hundreds of segments, and loses
/// most of them when the others begin. ns-2's Reno then waits for the timer at each further loss until it is beyond
/// them, and measures no round trip before that, so each wait is twice as long as the last, up to a minute: it carries
/// next to nothing for many minutes. That result would concern the first two seconds, not the chain.
const AFTER_MS: u64 = 4_000;
/// Probes for the round trip of a link: 100 bytes, 20 per second.
const PROBE_BYTES: usize = 100;
const PROBE_BPS: u64 = 16_000;

/// A chain and the traffic on it.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    /// Number of ordinary flows on each link.
    pub(super) ordinary: Vec<u32>,
    /// Error rate of each link, in the direction of the data.
    pub(super) errors: Vec<f64>,
    /// Number of transfers over the whole chain.
    pub(super) transfers: u32,
    /// The hosts at which their connections begin and end.
    pub(super) cuts: Vec<usize>,
    /// Seconds that are not counted.
    pub(super) warm_up_s: u64,
    /// Seconds that are counted.
    pub(super) seconds: u64,
}

/// The results after the warm-up.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// Goodput of each transfer.
    pub(super) transfers_kbps: Vec<f64>,
    /// Goodput of each ordinary flow, by link.
    pub(super) ordinary_kbps: Vec<Vec<f64>>,
    /// Share of the packets that each link lost, in the direction of the data.
    pub(super) losses: Vec<f64>,
    /// Mean round trip of each link, queue included.
    pub(super) rtts_ms: Vec<f64>,
    /// Number of packets that entered all links in the direction of the data.
    pub(super) entered: f64,
    /// Number of packets that would have entered if none were lost: for each link, the segments that arrived for the
    /// first time at the end of the connection over it.
    pub(super) needed: f64,
    /// The largest number of segments that relays of one transfer held at the end of a second.
    pub(super) held_most: f64,
}

impl Chain {
    /// Creates a chain with these numbers of ordinary flows on its links, and one transfer end to end.
    pub(super) fn new(ordinary: &[u32]) -> Chain {
        Chain {
            ordinary: ordinary.to_vec(),
            errors: vec![0.0; ordinary.len()],
            transfers: 1,
            cuts: vec![0, ordinary.len()],
            warm_up_s: 10,
            seconds: 60,
        }
    }

    /// Runs the chain. Equal chains and seeds have equal outcomes.
    pub(super) fn run(&self, seed: u64) -> Outcome {
        let mut network = Network::default();
        let hosts: Vec<HostId> = (0..=self.ordinary.len()).map(|_| network.host()).collect();
        for (pair, errors) in hosts.windows(2).zip(&self.errors) {
            network.link_one_way(pair[0], pair[1], link(*errors));
            network.link_one_way(pair[1], pair[0], link(0.0));
        }
        let mut rng = base::Rng::new(seed);
        let mut enter = |network: &mut Network, from: HostId, to: HostId, after_ms: u64| {
            let start = Duration::from_micros(after_ms * 1_000 + rng.below(ENTER_MS * 1_000));
            let traffic = Traffic::unlimited().between(start, Duration::MAX);
            let flow = network.connect(from, to, settings(), traffic);
            network.count_only(flow);
            flow
        };
        let transfers: Vec<Vec<Flow>> = (0..self.transfers)
            .map(|_| {
                let places = |at: usize| hosts[self.cuts[at]];
                let mut stages = vec![enter(&mut network, places(0), places(1), AFTER_MS)];
                for at in 2..self.cuts.len() {
                    let before = stages[stages.len() - 1];
                    stages.push(relayed(&mut network, before, places(at), settings()));
                }
                stages
            })
            .collect();
        let pairs = hosts.windows(2);
        let ordinary: Vec<Vec<Flow>> = pairs
            .zip(&self.ordinary)
            .map(|(pair, count)| {
                let flows = (0..*count).map(|_| enter(&mut network, pair[0], pair[1], 0));
                flows.collect()
            })
            .collect();
        let probe = |pair: &[HostId]| {
            let traffic = Traffic::cbr(PROBE_BPS, PROBE_BYTES);
            network.datagrams(pair[0], pair[1], traffic)
        };
        let probes: Vec<Flow> = hosts.windows(2).map(probe).collect();
        let world = network.build(seed);
        Run {
            hosts,
            transfers,
            ordinary,
            probes,
        }
        .measure(self, world)
    }
}

/// The parts of a run that are observed.
struct Run {
    hosts: Vec<HostId>,
    /// The connections of each transfer.
    transfers: Vec<Vec<Flow>>,
    ordinary: Vec<Vec<Flow>>,
    probes: Vec<Flow>,
}

impl Run {
    fn measure(&self, chain: &Chain, mut world: World<TcpHost>) -> Outcome {
        let at = |s: u64| Time::ZERO + Duration::from_secs(s);
        world.run_until(at(chain.warm_up_s));
        let before = self.count(chain, &world);
        let mut held_most = 0.0_f64;
        for second in 1..=chain.seconds {
            world.run_until(at(chain.warm_up_s + second));
            held_most = self
                .transfers
                .iter()
                .map(|t| held(&world, t))
                .fold(held_most, f64::max);
        }
        let after = self.count(chain, &world);
        let kbps = |before: &u64, after: &u64| {
            let bytes = (after - before) as f64 * settings().payload_bytes() as f64;
            bytes * 8.0 / 1e3 / chain.seconds as f64
        };
        let rates = |before: &[u64], after: &[u64]| -> Vec<f64> {
            before.iter().zip(after).map(|(b, a)| kbps(b, a)).collect()
        };
        let links = before.links.iter().zip(&after.links);
        let losses = links.map(|(b, a)| (a.1 - b.1) as f64 / ((a.0 - b.0) as f64).max(1.0));
        let flows = before.ordinary.iter().zip(&after.ordinary);
        Outcome {
            transfers_kbps: rates(&before.transfers, &after.transfers),
            ordinary_kbps: flows.map(|(b, a)| rates(b, a)).collect(),
            losses: losses.collect(),
            rtts_ms: self
                .probes
                .iter()
                .map(|probe| rtt_ms(&world, *probe))
                .collect(),
            entered: (entered(&after) - entered(&before)) as f64,
            needed: (after.needed - before.needed) as f64,
            held_most,
        }
    }

    fn count(&self, chain: &Chain, world: &World<TcpHost>) -> Count {
        let delivered = |flow: &Flow| flow.received(world).delivered;
        let links = self.hosts.windows(2).map(|pair| {
            let counts = world.counts(pair[0], pair[1]);
            let lost = counts.queue + counts.lost;
            (counts.delivered + lost, lost)
        });
        let stages = self.transfers.iter().flat_map(|stages| {
            let cuts = chain.cuts.windows(2).map(|cut| (cut[1] - cut[0]) as u64);
            stages.iter().zip(cuts)
        });
        let needed = stages.map(|(flow, links)| flow.received(world).segments * links);
        Count {
            needed: needed.sum(),
            transfers: self
                .transfers
                .iter()
                .map(|stages| delivered(&stages[stages.len() - 1]))
                .collect(),
            ordinary: self
                .ordinary
                .iter()
                .map(|flows| flows.iter().map(delivered).collect())
                .collect(),
            links: links.collect(),
        }
    }
}

/// Counters at a moment.
struct Count {
    transfers: Vec<u64>,
    ordinary: Vec<Vec<u64>>,
    needed: u64,
    /// Number of packets that entered each link, and of those that it lost.
    links: Vec<(u64, u64)>,
}

fn entered(count: &Count) -> u64 {
    count.links.iter().map(|(entered, _)| entered).sum()
}

/// Returns the number of segments that the relays of a transfer hold: those that have arrived and are not acknowledged
/// by the next host. They are in order or out of order, waiting or sent on.
fn held(world: &World<TcpHost>, stages: &[Flow]) -> f64 {
    let pairs = stages.windows(2);
    let held = pairs.map(|pair| {
        let [came, went] = [pair[0], pair[1]].map(|flow| flow.received(world).segments);
        came.saturating_sub(went)
    });
    held.sum::<u64>() as f64
}

/// Returns the round trip: with the data in one direction, and the propagation delay alone in the other, because
/// acknowledgements do not queue.
fn rtt_ms(world: &World<TcpHost>, probe: Flow) -> f64 {
    let delays = probe.deliveries(world).iter();
    crate::stats::mean(delays.map(|d| d.delay().as_secs_f64() * 1e3)) + LINK_MS as f64
}

/// Adds a connection at the end of `before`, after a relay with limited buffers.
pub(super) fn relayed(network: &mut Network, before: Flow, to: HostId, settings: Settings) -> Flow {
    let relay = Relay {
        forward: Forward::InOrder,
        pace: None,
    };
    let flow = network.relay(before, relay, to, settings);
    network.count_only(flow);
    flow
}

/// Returns the settings of TCP, for transfers and ordinary flows alike.
pub(super) fn settings() -> Settings {
    let mut settings = Settings::ns2(Family::Reno).with_window(WINDOW);
    settings.receive_buffer = BUFFER_SEGMENTS;
    settings.send_buffer = BUFFER_SEGMENTS;
    settings
}

/// Returns a link with an error rate.
pub(super) fn link(errors: f64) -> Model {
    let delay = Duration::from_millis(LINK_MS);
    let model = wire(LINK_BPS, delay, QUEUE_PACKETS, errors);
    let model = model.with_jitter(Duration::from_micros(JITTER_US));
    model.expect("a short time")
}

/// Returns a link with all parameters.
pub(super) fn wire(rate_bps: u64, delay: Duration, queue: usize, errors: f64) -> Model {
    let model = Model::default().with_rate(rate_bps, Queue::Packets(queue));
    let model = model.and_then(|model| model.with_delay(delay));
    let model = model.and_then(|model| match errors {
        0.0 => Ok(model),
        p => model.with_loss(LossModel::Bernoulli { p }),
    });
    model.expect("the experiment's numbers are in range")
}
