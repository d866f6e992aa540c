//! The route of a copy: a path, or a tree to several nodes.

mod tree;

use super::Copy;
use super::branches::Branches;
use super::doubt::Achieved;
use super::retry::Avoided;
use crate::control::Control;
use crate::failure::Failure;
use crate::names::Names;
use crate::probe::Prober;
use crate::show::text;
use base::NodeAddr;
use graph::spf::Tree;
use graph::{Metric, Topology};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tools::explain::{self, PlanAsked, View};
use wire::bytes::Writer;
use wire::relay::{HopRepr, STRIPES_MAX};

/// The nodes where data ends, or begins for a pull, and the paths there.
pub(super) type Ends = BTreeMap<NodeAddr, Vec<u8>>;

/// The longest route that is sent.
const ROUTE_BYTES_MAX: usize = 32 * 1024;

/// A link with at least this loss is lossy, in 65 536ths. Choice: half a thousandth is the smallest loss that can be
/// measured reliably.
const LOSSY: u16 = 32;
/// Data below this rate passes through a relay's memory at little cost. Choice: at a gigabit per second this takes a
/// few per cent of a processor.
const SLOW_KBPS: u32 = 1_000_000;

/// How routes from the own node are found.
pub(super) struct Route {
    own: NodeAddr,
    via: Vec<(NodeAddr, String)>,
    direct: bool,
    discard: bool,
    pull: bool,
    stripes: Vec<u8>,
    /// All links of the overlay, except those of nodes at which the copy was cancelled.
    all: Ways,
    /// The same without what should be avoided; `None` if there is nothing to avoid.
    around: Option<Ways>,
}

/// The links that a route may use.
struct Ways {
    /// The network, for plans.
    view: View,
    /// The topology for transfers that begin here: without the nodes that do not relay for this node.
    relaying: Topology,
    own: NodeAddr,
}

impl Ways {
    fn new(own: NodeAddr, view: View) -> Ways {
        // The copy begins on this host, in either direction.
        let topology = view.topology_between([own, own]);
        let relaying = topology.index(own).map(|own| topology.relaying(own));
        Ways {
            relaying: relaying.unwrap_or_default(),
            view,
            own,
        }
    }

    /// Returns the links without the segments for which `keeps` is false.
    fn without(&self, own: NodeAddr, keeps: impl Fn(NodeAddr, NodeAddr) -> bool) -> Option<Ways> {
        let mut network = self.view.snapshot().clone();
        network
            .links
            .retain(|link| match (link.from.parse(), link.to.parse()) {
                (Ok(from), Ok(to)) => keeps(from, to),
                _ => false,
            });
        Some(Ways::new(own, View::new(network).ok()?))
    }

    /// Returns the path of least latency from here. If only nodes that do not relay lead to the end, the path uses them
    /// nevertheless: what they have announced may be outdated.
    fn shortest(&self, end: NodeAddr) -> Option<Vec<NodeAddr>> {
        let all = self.view.topology();
        [&self.relaying, all].into_iter().find_map(|topology| {
            let (from, to) = (topology.index(self.own)?, topology.index(end)?);
            let path = Tree::new(topology, from, Metric::Latency).path(to);
            let nodes = path.into_iter().map(|node| topology.addr(node));
            Some(nodes.collect()).filter(|nodes: &Vec<_>| !nodes.is_empty())
        })
    }
}

/// The expected rate of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prediction {
    /// The rate of the slowest segment, in bits per second.
    pub(super) rate_bps: u64,
    /// The range within which the rate is expected. There is no upper bound if no known value limits the rate.
    pub(super) low_bps: u64,
    pub(super) high_bps: Option<u64>,
    /// The origin of the rate; see `sinew plan`.
    pub(super) confidence: &'static str,
    /// Something is known about every segment.
    pub(super) is_known: bool,
}

/// How the rates of segments are measured.
pub(super) struct Probes<'a> {
    /// Bytes that may be sent over a segment; `None` if nothing is measured.
    pub(super) bytes: Option<u64>,
    /// The relay socket of the own node.
    pub(super) socket: &'a Path,
    pub(super) congestion: &'a str,
}

/// A planned route, ready to be requested.
pub(super) struct Planned {
    pub(super) bytes: Vec<u8>,
    /// The expected rate of the route.
    pub(super) predicted: Option<Prediction>,
    /// The route uses nothing that should be avoided.
    pub(super) is_around: bool,
}

impl Route {
    pub(super) fn new(
        control: &mut Control,
        status: &Value,
        names: &Names,
        args: &Copy,
        (avoided, achieved): (&Avoided, &Achieved),
    ) -> Result<Route, Failure> {
        let own = text(&status["snapshot"]["address"]);
        let own: NodeAddr = own.parse().map_err(Failure::failed)?;
        let mut via = Vec::new();
        for word in &args.via {
            let (name, at) = word.split_once('@').unwrap_or((word, ""));
            let node = names.address(name)?;
            if node != own {
                via.push((node, at.to_owned()));
            }
        }
        let mut network = crate::why::ask(control)?.snapshot().clone();
        if let Some(control) = &args.congestion {
            let view = View::new(network).and_then(|view| view.with_congestion(control));
            network = view.map_err(crate::why::failure)?.snapshot().clone();
        }
        achieved.put_into(&mut network);
        let mut all = Ways::new(own, View::new(network).map_err(crate::why::failure)?);
        if !avoided.cancelled.is_empty() {
            let is_out = |node| avoided.cancelled.contains(&node);
            let rest = all.without(own, |from, to| !is_out(from) && !is_out(to));
            all = rest.unwrap_or(all);
        }
        let around = match avoided.is_empty() {
            true => None,
            false => all.without(own, |from, to| !avoided.has(from, to)),
        };
        Ok(Route {
            own,
            via,
            direct: args.direct,
            discard: args.discard,
            pull: args
                .paths
                .first()
                .is_some_and(|word| super::remote(word).is_some()),
            // Several connections would take several times as much as one.
            stripes: match args.scavenge && args.stripes.is_empty() {
                true => vec![1],
                false => args.stripes.clone(),
            },
            all,
            around,
        })
    }

    /// Measures the segments to these ends, if that is wanted: one end after the other, and each segment once.
    pub(super) fn refine(
        &mut self,
        ends: &Ends,
        probes: &Probes<'_>,
        names: &Names,
        tell: &(dyn Fn(String) + Sync),
    ) -> Result<(), Failure> {
        let Some(bytes) = probes.bytes else {
            return Ok(());
        };
        let prober = Prober {
            socket: probes.socket.to_owned(),
            own: self.own,
            bytes,
            congestion: probes.congestion,
            tell,
            names,
        };
        let mut tried = BTreeSet::new();
        for &end in ends.keys() {
            let (src, dst) = match self.pull {
                true => (end, self.own),
                false => (self.own, end),
            };
            let view = self.all.view.clone();
            let view = match self.is_free() {
                true => prober.refine(view, (src, dst), &PlanAsked::default(), &mut tried)?,
                false => {
                    let mut nodes = self.path(&self.all, end)?;
                    if self.pull {
                        nodes.reverse();
                    }
                    prober.refine_along(view, &nodes, &mut tried)?
                }
            };
            self.all = Ways::new(self.own, view);
        }
        Ok(())
    }

    pub(super) fn own(&self) -> NodeAddr {
        self.own
    }

    /// Returns the route to these ends.
    pub(super) fn to(&self, ends: &Ends) -> Result<Planned, Failure> {
        if !self.via.is_empty() && ends.len() > 1 {
            return Err(Failure::misused(
                "--via leads to one node: leave it out for several",
            ));
        }
        let reaches = |ways: &&Ways| ends.keys().all(|end| ways.shortest(*end).is_some());
        let around = self.around.as_ref().filter(|_| self.is_free());
        let ways = around.filter(reaches).unwrap_or(&self.all);
        let branches = self.branches(ways, ends)?;
        let segments = branches.segments();
        if self.stripes.len() > 1 && (ends.len() > 1 || segments != self.stripes.len()) {
            return Err(Failure::misused(format_args!(
                "--stripes has {} numbers, and the route {segments} segments",
                self.stripes.len()
            )));
        }
        let shape = Shape {
            route: self,
            ends,
            branches: &branches,
        };
        Ok(Planned {
            bytes: shape.hop(self.own, None)?,
            predicted: self.pace(ways, ends, &branches),
            is_around: !std::ptr::eq(ways, &raw const self.all),
        })
    }

    /// Returns one of these ends to which no path is known.
    pub(super) fn unreached(&self, ends: &Ends) -> Option<NodeAddr> {
        let mut unreached = ends.keys().filter(|end| self.all.shortest(**end).is_none());
        unreached.next().copied().filter(|_| self.is_free())
    }

    /// Returns true if the user did not choose the path.
    fn is_free(&self) -> bool {
        self.via.is_empty() && !self.direct
    }

    /// Returns the path and the stripes that are expected to be the fastest, from here to `end`. `None` if the shortest
    /// path is as good.
    fn plan(&self, ways: &Ways, end: NodeAddr) -> Option<(Vec<NodeAddr>, Vec<u8>)> {
        let (src, dst) = match self.pull {
            true => (end, self.own),
            false => (self.own, end),
        };
        let asked = PlanAsked::default();
        let plan = explain::plan(&ways.view, &src.to_string(), &dst.to_string(), &asked).ok()?;
        // Choice: without known loss, there is no reason to expect that more connections are faster.
        let is_neighbor = plan
            .direct
            .segments
            .first()
            .is_some_and(|s| s.past.is_empty());
        let way = match (plan.best().confidence, is_neighbor) {
            ("at-least", true) => &plan.direct,
            ("at-least", false) => &plan.pipelined,
            _ => plan.best(),
        };
        if way.segments.iter().any(|segment| !segment.past.is_empty()) {
            return None;
        }
        let nodes: Option<Vec<NodeAddr>> = way.addresses.iter().map(|a| a.parse().ok()).collect();
        let stripes = way.stripes.iter().copied().map(count);
        let (mut nodes, mut stripes) = (nodes?, stripes.collect::<Vec<_>>());
        if self.pull {
            nodes.reverse();
            stripes.reverse();
        }
        Some((nodes, stripes))
    }

    /// Returns the stripes that are expected to be the fastest on a named path, from here on; empty if one connection
    /// each is as good.
    fn stripes_along(&self, ways: &Ways, path: &[NodeAddr]) -> Vec<u8> {
        let mut nodes = path.to_vec();
        if self.pull {
            nodes.reverse();
        }
        let stripes = explain::stripes_along(&ways.view, &nodes).unwrap_or_default();
        let mut stripes: Vec<u8> = stripes.into_iter().map(count).collect();
        if self.pull {
            stripes.reverse();
        }
        stripes
    }

    /// Predicts the rate of a path.
    fn predict(&self, ways: &Ways, path: &[NodeAddr], branches: &Branches) -> Option<Prediction> {
        let mut nodes = path.to_vec();
        let behind = path.get(1..).unwrap_or_default().iter();
        let mut stripes: Vec<usize> = behind.map(|n| branches.stripes(*n).into()).collect();
        if self.pull {
            nodes.reverse();
            stripes.reverse();
        }
        let way = explain::along(&ways.view, &nodes, &stripes)?;
        Some(Prediction {
            rate_bps: way.rate_bps,
            low_bps: way.low_bps,
            high_bps: way.high_bps,
            confidence: way.confidence,
            is_known: way.known,
        })
    }

    /// Returns true if the segment between these hops may need more connections than planned: it is known to lose
    /// packets, or to be slow. A known loss of zero is not enough, because small losses are hard to measure: one packet
    /// in a thousand halves the rate of a connection, and a probe of some seconds loses few packets.
    fn may_need_more(&self, before: NodeAddr, node: NodeAddr) -> bool {
        let (from, to) = match self.pull {
            true => (node.to_string(), before.to_string()),
            false => (before.to_string(), node.to_string()),
        };
        let links = self.all.view.snapshot().links.iter();
        let mut these = links.filter(|link| link.from == from && link.to == to);
        these.any(|link| {
            let known_kbps = link.measured_kbps.max(link.together_kbps);
            link.loss >= LOSSY || known_kbps.is_some_and(|kbps| kbps < SLOW_KBPS)
        })
    }

    /// Returns the path from here to a node.
    fn path(&self, ways: &Ways, end: NodeAddr) -> Result<Vec<NodeAddr>, Failure> {
        let mut path = vec![self.own];
        if !self.via.is_empty() || self.direct {
            path.extend(self.via.iter().map(|(node, _)| *node));
            if path.last() != Some(&end) {
                path.push(end);
            }
        } else {
            path = ways.shortest(end).ok_or_else(|| {
                Failure::failed(format_args!(
                    "the overlay has no way to {end}: see `sinew links`, or name where it is by \
                     --via NODE@HOST:PORT"
                ))
            })?;
        }
        let different: BTreeSet<&NodeAddr> = path.iter().collect();
        match different.len() == path.len() {
            true => Ok(path),
            false => Err(Failure::misused("--via goes through a node twice")),
        }
    }
}

struct Shape<'a> {
    route: &'a Route,
    ends: &'a Ends,
    branches: &'a Branches,
}

impl Shape<'_> {
    /// Encodes a hop and all hops below it. The segment to it begins at `before`; the own node has none.
    fn hop(&self, node: NodeAddr, before: Option<NodeAddr>) -> Result<Vec<u8>, Failure> {
        let mut below = Vec::new();
        for next in self.branches.below(node) {
            below.extend(self.hop(next, Some(node))?);
        }
        let via = self.route.via.iter().find(|(via, _)| *via == node);
        let path = self.ends.get(&node);
        let adapts = before.is_some() && self.route.stripes.is_empty();
        let is_open = before.is_some_and(|before| self.route.may_need_more(before, node));
        let stripes = self.branches.stripes(node);
        let hop = HopRepr {
            node,
            stripes: if adapts {
                offered(stripes, is_open)
            } else {
                stripes
            },
            adapts,
            endpoint: via.map_or("", |(_, at)| at.as_str()),
            path: path.map(Vec::as_slice),
            discard: self.route.discard && !self.route.pull && path.is_some(),
            below: &below,
        };
        let mut bytes = vec![0; ROUTE_BYTES_MAX];
        let mut w = Writer::new(&mut bytes);
        let written = hop.emit(&mut w).map(|()| w.len());
        let len = written.map_err(|_| {
            Failure::misused(match self.route.pull {
                true => {
                    "the path at the node, with the patterns of --exclude, is too long: name fewer patterns, or \
                     shorter ones"
                }
                false => "the route or its paths are too long: copy to fewer nodes at once",
            })
        })?;
        bytes.truncate(len);
        Ok(bytes)
    }
}

fn count(stripes: usize) -> u8 {
    u8::try_from(stripes)
        .unwrap_or(STRIPES_MAX)
        .min(STRIPES_MAX)
}

/// Returns how many connections the sender of a segment may use if `planned` are planned. `is_open` is true if more may
/// be needed.
///
/// Choice: as many as a probe tries. The plan takes the fewest that would reach the measured rate, and a measurement of
/// some seconds can be off by chance. The sender adds connections only while they help, and idle ones cost little.
/// Otherwise a plan of one is kept: relays pass on single connections within the kernel.
fn offered(planned: u8, is_open: bool) -> u8 {
    match (planned, is_open) {
        (0 | 1, false) => 1,
        (several, _) => several.clamp(relay::PROBE_STRIPES, STRIPES_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::relay::Hop;

    fn node(n: u8) -> NodeAddr {
        NodeAddr(0x0a07_0000 + u32::from(n))
    }

    fn network(links: Vec<overlay::snapshot::KnownLink>) -> overlay::snapshot::NetworkSnapshot {
        let empty = serde_json::json!({
            "teller": null, "profile": "", "detect_us": 0, "late_us": 0, "nodes": [],
            "links": [], "holds": [], "rule": {
                "spacing_s": 0.0, "worse_s": 0.0, "worse_unclear_s": 0.0, "better_s": 0.0,
                "better_unclear_s": 0.0, "better_max_s": 0.0,
            },
        });
        let empty: overlay::snapshot::NetworkSnapshot = serde_json::from_value(empty).unwrap();
        overlay::snapshot::NetworkSnapshot { links, ..empty }
    }

    fn route() -> Route {
        Route {
            own: node(1),
            via: Vec::new(),
            direct: false,
            discard: false,
            pull: false,
            stripes: Vec::new(),
            all: ways(&[(1, 2, 1), (2, 3, 1), (2, 4, 1)]),
            around: None,
        }
    }

    fn ways(links: &[(u8, u8, u32)]) -> Ways {
        let links: Vec<_> = links.iter().map(|(a, b, us)| (*a, *b, *us, None)).collect();
        measured(&links)
    }

    /// Makes links from origin, destination, latency, and the rate of one connection.
    fn measured(links: &[(u8, u8, u32, Option<u32>)]) -> Ways {
        type Told = (u8, u8, u32, Option<u32>);
        let link = |&(from, to, latency_us, measured_kbps): &Told| overlay::snapshot::KnownLink {
            from: node(from).to_string(),
            to: node(to).to_string(),
            latency_us,
            loss: 0,
            price_us: 0,
            strikes: 0,
            run_256ths: None,
            repair_16ths: 0,
            capacity_kbps: None,
            measured_kbps,
            together_kbps: None,
            together_is_all: false,
            spread_pct: 0,
            hops: None,
            over_tcp: false,
        };
        let links = links.iter().map(link).collect();
        Ways::new(node(1), View::new(network(links)).unwrap())
    }

    fn ends(nodes: &[u8]) -> Ends {
        let path = |n: &u8| format!("/p{n}").into_bytes();
        nodes.iter().map(|n| (node(*n), path(n))).collect()
    }

    /// Returns the nodes of a route, each before the nodes below it.
    fn nodes(planned: &Planned) -> Vec<NodeAddr> {
        fn put(hop: &Hop<'_>, nodes: &mut Vec<NodeAddr>) {
            nodes.push(hop.node);
            hop.below().for_each(|below| put(&below, nodes));
        }
        let mut nodes = Vec::new();
        put(&Hop::parse(&planned.bytes).unwrap(), &mut nodes);
        nodes
    }

    #[test]
    fn patterns_that_are_too_many_are_what_is_too_long() {
        let long = Ends::from([(node(3), vec![b'x'; ROUTE_BYTES_MAX])]);
        for (pull, text) in [(true, "--exclude"), (false, "fewer nodes")] {
            let route = Route { pull, ..route() };
            let why = route.to(&long).map(drop).unwrap_err();
            assert!(why.text().contains(text), "{}", why.text());
        }
    }

    #[test]
    fn what_several_ends_share_is_shared_by_them() {
        // A chain of 90 Mbit/s is compared with a star whose ends get half of `each`.
        let planned = |each: u32| {
            let route = Route {
                all: measured(&[
                    (1, 2, 1, Some(each)),
                    (2, 3, 1, Some(90_000)),
                    (1, 3, 9, Some(each)),
                ]),
                stripes: vec![1],
                ..route()
            };
            let planned = route.to(&ends(&[2, 3])).unwrap();
            let first = Hop::parse(&planned.bytes).unwrap();
            let below = first.below().count();
            (below, planned.predicted.unwrap().rate_bps / 1_000)
        };
        assert_eq!(planned(100_000), (1, 90_000));
        assert_eq!(planned(190_000), (1, 90_000), "hardly faster");
        assert_eq!(planned(250_000), (2, 125_000));
    }

    #[test]
    fn what_is_avoided_is_gone_around_where_there_is_a_way() {
        let one = |planned: &Planned| {
            let first = Hop::parse(&planned.bytes).unwrap();
            first.below().next().unwrap().node
        };
        let route = Route {
            around: Some(ways(&[(1, 5, 1), (5, 3, 1)])),
            ..route()
        };
        let around = route.to(&ends(&[3])).unwrap();
        assert_eq!((one(&around), around.is_around), (node(5), true));
        // No other path leads there.
        let same = route.to(&ends(&[4])).unwrap();
        assert_eq!((one(&same), same.is_around), (node(2), false));
        let named = Route {
            via: vec![(node(2), String::new())],
            ..route
        };
        assert!(!named.to(&ends(&[3])).unwrap().is_around);
    }

    #[test]
    fn several_ends_share_the_way_as_far_as_it_is_the_same() {
        let planned = route().to(&ends(&[2, 3, 4])).unwrap();
        let first = Hop::parse(&planned.bytes).unwrap();
        assert_eq!((first.node, first.ends(), first.path), (node(1), 3, None));
        let second = first.below().next().unwrap();
        assert_eq!((second.node, second.path), (node(2), Some(&b"/p2"[..])));
        let last: Vec<_> = second.below().map(|hop| (hop.node, hop.path)).collect();
        assert_eq!(
            last,
            [(node(3), Some(&b"/p3"[..])), (node(4), Some(&b"/p4"[..]))]
        );
    }

    #[test]
    fn several_ends_are_planned_where_the_slowest_of_them_gains() {
        let far = |fast: Option<u32>| Route {
            all: measured(&[
                (1, 2, 1, Some(1_000)),
                (2, 3, 1, Some(80_000)),
                (2, 4, 1, Some(90_000)),
                (1, 5, 9, fast),
                (5, 2, 9, Some(30_000)),
            ]),
            ..route()
        };
        let planned = far(Some(40_000)).to(&ends(&[3, 4])).unwrap();
        assert_eq!(nodes(&planned), [1, 5, 2, 3, 4].map(node));
        let predicted = planned.predicted.unwrap();
        assert!(predicted.is_known);
        assert!(predicted.rate_bps >= 30_000_000, "{predicted:?}");
        let first = Hop::parse(&planned.bytes).unwrap();
        assert_eq!((first.ends(), first.below().count()), (2, 1));
        // A path that is not faster is not used.
        let planned = far(Some(900)).to(&ends(&[3, 4])).unwrap();
        assert_eq!(nodes(&planned), [1, 2, 3, 4].map(node));
        let predicted = planned.predicted.unwrap();
        assert!(predicted.rate_bps < 10_000_000, "{predicted:?}");
        // One end is on the path to the other end.
        let planned = far(Some(40_000)).to(&ends(&[2, 3])).unwrap();
        assert_eq!(nodes(&planned), [1, 5, 2, 3].map(node));
        let first = Hop::parse(&planned.bytes).unwrap();
        let second = first.below().next().unwrap().below().next().unwrap();
        assert_eq!((second.node, second.path), (node(2), Some(&b"/p2"[..])));
    }

    #[test]
    fn the_control_that_is_asked_for_decides_what_is_predicted() {
        let mut network = measured(&[(1, 2, 10_000, Some(80_000))])
            .view
            .snapshot()
            .clone();
        network.links[0].loss = 655;
        network.nodes = vec![overlay::snapshot::NamedNode {
            address: node(1).to_string(),
            name: None,
            bulk: Some(overlay::snapshot::KnownBulk {
                by_rate: true,
                ..Default::default()
            }),
            refused: None,
        }];
        let nodes = [node(1), node(2)];
        let told = |network: &overlay::snapshot::NetworkSnapshot, control: Option<&str>| {
            let view = View::new(network.clone()).unwrap();
            let view = match control {
                Some(control) => view.with_congestion(control).unwrap(),
                None => view,
            };
            let way = explain::along(&view, &nodes, &[1]).unwrap();
            (way.confidence, way.rate_bps)
        };
        // The node's own congestion control reached 80 Mbit/s, so another control of the same kind does so, too.
        for control in [None, Some("bbr")] {
            assert_eq!(told(&network, control), ("measured", 80_000_000));
        }
        let (confidence, rate_bps) = told(&network, Some("cubic"));
        assert_eq!(confidence, "model");
        assert!(rate_bps < 20_000_000, "{rate_bps}");
        // A link's whole capacity is the same for every control.
        network.links[0].together_kbps = Some(5_000);
        network.links[0].together_is_all = true;
        assert_eq!(told(&network, Some("cubic")), ("measured", 5_000_000));
        // Without measurements, nothing is known about a control that does not slow down for losses.
        let link = &mut network.links[0];
        (link.measured_kbps, link.together_kbps) = (None, None);
        link.together_is_all = false;
        network.nodes[0].bulk = None;
        assert_eq!(told(&network, None).0, "model");
        assert_eq!(told(&network, Some("bbr")).0, "at-least");
    }

    #[test]
    fn what_is_named_is_the_way() {
        let via = Route {
            via: vec![(node(5), "h:1".to_owned()), (node(2), String::new())],
            stripes: vec![1, 4, 2],
            ..route()
        };
        let planned = via.to(&ends(&[3])).unwrap();
        let mut hop = Hop::parse(&planned.bytes).unwrap();
        let mut seen = Vec::new();
        while let Some(next) = hop.below().next() {
            seen.push((next.node, next.endpoint, next.stripes));
            hop = next;
        }
        assert_eq!(
            seen,
            [(node(5), "h:1", 1), (node(2), "", 4), (node(3), "", 2)]
        );
        assert!(via.to(&ends(&[3, 4])).is_err());
        assert!(via.to(&ends(&[5])).is_err(), "back where it was");
        let direct = Route {
            direct: true,
            ..route()
        };
        let planned = direct.to(&ends(&[4])).unwrap();
        let below = Hop::parse(&planned.bytes).unwrap().below().next();
        assert_eq!(below.map(|hop| hop.node), Some(node(4)));
        assert!(route().to(&ends(&[9])).is_err(), "no way there");
    }

    #[test]
    fn the_shortest_way_is_that_of_least_latency_over_those_who_relay() {
        let ways = ways(&[(1, 2, 5_000), (1, 3, 1_000), (3, 2, 1_000), (2, 4, 100)]);
        let path = |ways: &Ways| ways.shortest(node(4)).unwrap();
        assert_eq!(path(&ways), [1, 3, 2, 4].map(node));
        let mut network = ways.view.snapshot().clone();
        network.nodes = vec![overlay::snapshot::NamedNode {
            address: node(3).to_string(),
            name: None,
            bulk: Some(overlay::snapshot::KnownBulk {
                closed: true,
                ..Default::default()
            }),
            refused: None,
        }];
        let closed = Ways::new(node(1), View::new(network).unwrap());
        assert_eq!(path(&closed), [1, 2, 4].map(node));
        assert_eq!(closed.shortest(node(3)), Some(vec![node(1), node(3)]));
        assert_eq!(closed.shortest(node(9)), None);
        // A node that relays for some, but not for the node that gave the snapshot, is no relay for transfers of the
        // latter.
        let mut network = closed.view.snapshot().clone();
        network.teller = Some(node(1).to_string());
        network.nodes[0].bulk = Some(overlay::snapshot::KnownBulk {
            for_some: true,
            refuses_teller: true,
            ..Default::default()
        });
        let refusing = Ways::new(node(1), View::new(network).unwrap());
        assert_eq!(path(&refusing), [1, 2, 4].map(node));
        let plan = |from: u8| {
            let (from, to) = (node(from).to_string(), node(4).to_string());
            let plan = explain::plan(&refusing.view, &from, &to, &PlanAsked::default());
            plan.unwrap().best().addresses.clone()
        };
        assert!(!plan(1).contains(&node(3).to_string()));
        assert!(plan(3).contains(&node(3).to_string()), "it sends its own");
    }

    #[test]
    fn what_gives_way_has_one_connection() {
        let planned = Route {
            stripes: vec![1],
            ..route()
        };
        let planned = planned.to(&ends(&[2])).unwrap();
        let hop = Hop::parse(&planned.bytes).unwrap().below().next().unwrap();
        assert_eq!((hop.stripes, hop.adapts), (1, false));
        let free = route().to(&ends(&[2])).unwrap();
        let hop = Hop::parse(&free.bytes).unwrap().below().next().unwrap();
        assert!(hop.adapts);
    }

    #[test]
    fn where_more_than_one_helps_the_sender_finds_out_how_many() {
        let planned = [0, 1, 2, 5, 8, 20, STRIPES_MAX];
        let all = |is_open| planned.map(|planned| offered(planned, is_open));
        assert_eq!(all(false), [1, 1, 8, 8, 8, 20, STRIPES_MAX]);
        assert_eq!(all(true), [8, 8, 8, 8, 8, 20, STRIPES_MAX]);
        let mut network = route().all.view.snapshot().clone();
        network.links[0].loss = 327;
        let offers = |network| {
            let route = Route {
                all: Ways::new(node(1), View::new(network).unwrap()),
                ..route()
            };
            let planned = route.to(&ends(&[3])).unwrap();
            let first = Hop::parse(&planned.bytes).unwrap().below().next().unwrap();
            let second = first.below().next().unwrap();
            (first.stripes, second.stripes)
        };
        assert_eq!(offers(network.clone()), (8, 1));
        // A probe has measured 19 Mbit/s with one connection as the whole capacity. That may be due to slow start.
        for (kbps, stripes) in [(19_000, 8), (9_000_000, 1)] {
            let link = &mut network.links[0];
            (link.loss, link.measured_kbps) = (0, Some(kbps));
            (link.together_kbps, link.together_is_all) = (Some(kbps), true);
            assert_eq!(offers(network.clone()), (stripes, 1), "{kbps}");
        }
    }
}
