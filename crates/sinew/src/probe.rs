//! Before a large copy, and for `sinew plan --probe`: the nodes measure the unknown rates of the paths that could be
//! the fastest. They measure one path at a time, with all its segments together, as the copy would use them. See
//! `host::relay::probe`.

use crate::failure::Failure;
use crate::names::Names;
use base::NodeAddr;
use graph::spf::Tree;
use graph::{Metric, Topology};
use host::relay::probe::{Carried, Question};
use overlay::snapshot::KnownLink;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::thread;
use tools::explain::{self, Connections, PlanAsked, SegmentNumbers, View, WayNumbers};
use wire::bytes::Writer;
use wire::relay::HopRepr;

/// Most paths that are measured, each for some seconds.
const WAYS_MAX: usize = 4;
/// Most segments that are measured at the same time: each is a transfer at two nodes, and one at each node on the path
/// there.
const SEGMENTS_MAX: usize = 8;
/// The longest route that is sent: the nodes of a path with nothing but their addresses.
const ROUTE_BYTES_MAX: usize = 2_048;
/// A rate counts as known if its interval is no wider than this share of it.
const SURE: f64 = 0.7;

/// The settings of a measurement.
pub(crate) struct Prober<'a> {
    /// The relay socket of the node on this host.
    pub(crate) socket: PathBuf,
    /// The address of that node.
    pub(crate) own: NodeAddr,
    /// Bytes that may be sent over a segment.
    pub(crate) bytes: u64,
    /// The senders' congestion control; empty for the kernels' choice.
    pub(crate) congestion: &'a str,
    /// Gets the results in words.
    pub(crate) tell: &'a (dyn Fn(String) + Sync),
    /// The names of the nodes.
    pub(crate) names: &'a Names,
}

/// The two ends of a segment: from and to.
type Ends = (NodeAddr, NodeAddr);

impl Prober<'_> {
    /// Returns the view with the measured rates of the best paths from one node to another. Segments in `tried` are not
    /// measured again.
    pub(crate) fn refine(
        &self,
        view: View,
        (src, dst): Ends,
        asked: &PlanAsked,
        tried: &mut BTreeSet<Ends>,
    ) -> Result<View, Failure> {
        let mut view = view;
        for _ in 0..WAYS_MAX {
            let plan = explain::plan(&view, &src.to_string(), &dst.to_string(), asked);
            let Ok(plan) = plan else {
                break;
            };
            // Without known rates, the path of least latency is the best choice.
            let topology = view.topology_between([src, dst]);
            let least = least_latency(topology, src, dst);
            let least = least.and_then(|nodes| explain::along(&view, &nodes, &[1]));
            let ways = [plan.best(), &plan.direct, &plan.pipelined, &plan.striped];
            let hoped = hoped(&view, (src, dst), asked, tried);
            let ways: Vec<&WayNumbers> = ways.into_iter().chain(&hoped).chain(&least).collect();
            let Some(open) = worth_trying(&ways, tried) else {
                break;
            };
            view = self.find_out(view, open, tried)?;
        }
        Ok(relied_on(view, (src, dst), asked, tried))
    }

    /// Returns the view with the measured rates of the segments of this path.
    pub(crate) fn refine_along(
        &self,
        view: View,
        nodes: &[NodeAddr],
        tried: &mut BTreeSet<Ends>,
    ) -> Result<View, Failure> {
        let Some(way) = explain::along(&view, nodes, &[1]) else {
            return Ok(view);
        };
        let open = unknown(&way, tried);
        self.find_out(view, open, tried)
    }

    fn find_out(
        &self,
        view: View,
        open: Vec<Ends>,
        tried: &mut BTreeSet<Ends>,
    ) -> Result<View, Failure> {
        // The own node requests the measurements.
        let topology = view.topology_between([self.own; 2]);
        let asked: Vec<(Ends, Option<Vec<u8>>)> = open
            .into_iter()
            .map(|ends| (ends, self.route(topology, ends)))
            .collect();
        let answers: Vec<(Ends, Result<Carried, String>)> = thread::scope(|scope| {
            let running: Vec<_> = asked
                .into_iter()
                .map(|(ends, route)| (ends, scope.spawn(move || self.ask(route))))
                .collect();
            let answered = running.into_iter().map(|(ends, thread)| {
                let answer = thread.join();
                (ends, answer.unwrap_or_else(|_| Err("it broke".to_owned())))
            });
            answered.collect()
        });
        let mut network = view.snapshot().clone();
        for (ends, answer) in answers {
            tried.insert(ends);
            (self.tell)(self.words(ends, &answer));
            let (from, to) = (ends.0.to_string(), ends.1.to_string());
            let links = network.links.iter_mut();
            let link = links
                .filter(|link| link.from == from && link.to == to)
                .last();
            if let (Some(link), Ok(carried)) = (link, answer) {
                let kbps = |bps: u64| u32::try_from(bps / 1_000).ok().filter(|kbps| *kbps > 0);
                link.measured_kbps = kbps(carried.one_bps);
                link.together_kbps = kbps(carried.together_bps);
                link.together_is_all = carried.is_full;
                link.spread_pct = carried.spread_pct;
            }
        }
        View::new(network).map_err(crate::why::failure)
    }

    fn ask(&self, route: Option<Vec<u8>>) -> Result<Carried, String> {
        let question = Question {
            socket: self.socket.clone(),
            node: self.own,
            route: route.ok_or("no way leads there")?,
            bytes: self.bytes,
            congestion: self.congestion.to_owned(),
        };
        let answer = host::relay::probe::ask(&question);
        let (_, _, carried) = answer.map_err(|failure| failure.text)?;
        match carried.one_bps.max(carried.together_bps) {
            0 => Err("too little went through to tell".to_owned()),
            _ => Ok(carried),
        }
    }

    /// Returns the route to the node where the segment begins, and over the segment.
    fn route(&self, topology: &Topology, (from, to): Ends) -> Option<Vec<u8>> {
        let mut nodes = match self.own == from {
            true => vec![from],
            false => least_latency(topology, self.own, from)?,
        };
        nodes.push(to);
        chain(&nodes)
    }

    fn words(&self, (from, to): Ends, answer: &Result<Carried, String>) -> String {
        let name = |node: NodeAddr| self.names.name(&node.to_string()).to_owned();
        let said = match answer {
            Err(why) => format!("is not found out: {why}"),
            Ok(carried) => {
                let mbit = |bps: u64| format!("{:.1} Mbit/s", bps as f64 / 1e6);
                match (carried.one_bps, carried.is_full) {
                    (0, _) => format!("has {}", mbit(carried.together_bps)),
                    (_, true) => format!("has {}, and no more", mbit(carried.together_bps)),
                    (one, false) => format!(
                        "has {} for one connection, {} or more for several",
                        mbit(one),
                        mbit(carried.together_bps)
                    ),
                }
            }
        };
        format!("{} to {} {said}", name(from), name(to))
    }
}

/// Returns the path that would be the fastest if every unmeasured segment reached its upper bound. If a measurement
/// disproves this, the next call returns the next such path, until the fastest is a known one. A segment whose
/// measurement failed is left out. If one connection was measured, several connections may reach a multiple of its
/// rate.
fn hoped(
    view: &View,
    (src, dst): Ends,
    asked: &PlanAsked,
    tried: &BTreeSet<Ends>,
) -> Option<WayNumbers> {
    let mut network = view.snapshot().clone();
    network.links.retain(|link| !is_in_vain(link, tried));
    for link in &mut network.links {
        let is_more = link.together_is_all || link.together_kbps != link.measured_kbps;
        let is_several = link.together_kbps.is_some() && is_more;
        if let (Some(one), false) = (link.measured_kbps, is_several) {
            let (Connections::InAll(many) | Connections::OnEach(many)) = asked.connections;
            let many = u32::try_from(many).unwrap_or(u32::MAX);
            link.together_kbps = Some(one.saturating_mul(many));
        }
        if link.measured_kbps.is_none() && link.together_kbps.is_none() {
            let ends = [link.from.parse().ok()?, link.to.parse().ok()?];
            let most = explain::along(view, &ends, &[1]).and_then(|way| way.high_bps);
            let kbps = most.and_then(|bps| u32::try_from(bps / 1_000).ok());
            link.measured_kbps = Some(kbps.unwrap_or(u32::MAX));
        }
    }
    let view_of_hope = View::new(network).ok()?;
    let plan = explain::plan(&view_of_hope, &src.to_string(), &dst.to_string(), asked).ok()?;
    let nodes: Option<Vec<NodeAddr>> = plan
        .best()
        .addresses
        .iter()
        .map(|a| a.parse().ok())
        .collect();
    explain::along(view, &nodes?, &plan.best().stripes)
}

/// Returns true if a measurement of the link has failed.
fn is_in_vain(link: &KnownLink, tried: &BTreeSet<Ends>) -> bool {
    let ends = link.from.parse().ok().zip(link.to.parse().ok());
    let is_tried = ends.is_some_and(|ends| tried.contains(&ends));
    is_tried && link.measured_kbps.is_none() && link.together_kbps.is_none()
}

/// Returns the view for plans. Choice: if nothing is known about the planned path, and the measurement failed, a
/// measured path is used if there is one: a path that carries so little that a few seconds are not enough to measure it
/// is not suitable for a large copy.
fn relied_on(view: View, (src, dst): Ends, asked: &PlanAsked, tried: &BTreeSet<Ends>) -> View {
    let (src, dst) = (src.to_string(), dst.to_string());
    let plan = |view: &View| explain::plan(view, &src, &dst, asked).ok();
    if plan(&view).is_none_or(|plan| plan.best().known) {
        return view;
    }
    let mut network = view.snapshot().clone();
    network.links.retain(|link| !is_in_vain(link, tried));
    let others = View::new(network).ok();
    let measured = |view: &View| {
        plan(view).is_some_and(|plan| {
            plan.best()
                .segments
                .iter()
                .all(|s| s.confidence == "measured")
        })
    };
    others.filter(measured).unwrap_or(view)
}

/// Returns the path of least latency over nodes that relay.
fn least_latency(topology: &Topology, from: NodeAddr, to: NodeAddr) -> Option<Vec<NodeAddr>> {
    let (from, to) = (topology.index(from)?, topology.index(to)?);
    let path = Tree::new(&topology.relaying(from), from, Metric::Latency).path(to);
    let nodes = path.into_iter().map(|node| topology.addr(node)).collect();
    Some(nodes).filter(|nodes: &Vec<_>| !nodes.is_empty())
}

/// Returns the segments to measure next: those of the first path that could be faster than every known one.
fn worth_trying(ways: &[&WayNumbers], tried: &BTreeSet<Ends>) -> Option<Vec<Ends>> {
    let is_known = |way: &&&WayNumbers| way.segments.iter().all(is_sure);
    let known = ways.iter().filter(is_known).map(|way| way.rate_bps).max();
    let best = known.unwrap_or(0);
    let open = ways.iter().filter(|way| {
        let is_way = way.segments.iter().all(|segment| segment.past.is_empty());
        is_way && way.high_bps.is_none_or(|high| high > best)
    });
    let mut open = open.map(|way| unknown(way, tried));
    open.find(|segments| !segments.is_empty())
}

fn unknown(way: &WayNumbers, tried: &BTreeSet<Ends>) -> Vec<Ends> {
    let pairs = way.addresses.windows(2);
    let ends = pairs.map(|pair| Some((pair[0].parse().ok()?, pair[1].parse().ok()?)));
    let unsure = way.segments.iter().zip(ends);
    let unsure = unsure.filter(|(segment, _)| !is_sure(segment));
    let unsure = unsure.filter_map(|(_, ends)| ends);
    let fresh = unsure.filter(|ends| !tried.contains(ends));
    fresh.take(SEGMENTS_MAX).collect()
}

fn is_sure(segment: &SegmentNumbers) -> bool {
    let width = segment
        .high_bps
        .map(|high| high.saturating_sub(segment.low_bps));
    let is_narrow = width.is_some_and(|width| width as f64 <= SURE * segment.rate_bps as f64);
    segment.confidence == "measured" && is_narrow
}

/// Returns a route over these nodes; its last segment is measured.
fn chain(nodes: &[NodeAddr]) -> Option<Vec<u8>> {
    let mut below = Vec::new();
    for (at, &node) in nodes.iter().enumerate().rev() {
        let is_last = at + 1 == nodes.len();
        let hop = HopRepr {
            node,
            stripes: if is_last { relay::PROBE_STRIPES } else { 1 },
            adapts: is_last,
            endpoint: "",
            path: is_last.then_some(&[][..]),
            discard: is_last,
            below: &below,
        };
        let mut bytes = vec![0; ROUTE_BYTES_MAX];
        let mut w = Writer::new(&mut bytes);
        hop.emit(&mut w).ok()?;
        let len = w.len();
        bytes.truncate(len);
        below = bytes;
    }
    Some(below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::relay::Hop;

    fn segment(confidence: &'static str, low: u64, rate: u64, high: Option<u64>) -> SegmentNumbers {
        SegmentNumbers {
            from: String::new(),
            to: String::new(),
            past: Vec::new(),
            stripes: 1,
            connection_bps: rate,
            rate_bps: rate,
            confidence,
            low_bps: low,
            high_bps: high,
            rtt_ms: 1.0,
            loss_pct: 0.0,
            physical_hops: 1,
            hops_assumed: 1,
            limits: true,
        }
    }

    /// Makes a path over these nodes with equal segments.
    fn way(nodes: &[u32], of: &SegmentNumbers) -> WayNumbers {
        let addresses: Vec<String> = nodes.iter().map(|n| NodeAddr(*n).to_string()).collect();
        WayNumbers {
            rate_bps: of.rate_bps,
            confidence: of.confidence,
            low_bps: of.low_bps,
            high_bps: of.high_bps,
            known: true,
            gain: 1.0,
            nodes: addresses.clone(),
            addresses,
            stripes: vec![1; nodes.len() - 1],
            segments: vec![of.clone(); nodes.len() - 1],
        }
    }

    #[test]
    fn what_could_be_faster_than_what_is_known_is_tried() {
        let [a, b, c] = [1, 2, 3].map(NodeAddr);
        let direct = way(&[1, 2], &segment("measured", 8, 10, Some(12)));
        let slow = way(&[1, 3, 2], &segment("model", 1, 5, Some(9)));
        let fast = way(&[1, 3, 2], &segment("model", 5, 9, Some(30)));
        let none = BTreeSet::new();
        assert_eq!(worth_trying(&[&direct, &slow], &none), None);
        let both = vec![(a, c), (c, b)];
        assert_eq!(worth_trying(&[&direct, &fast], &none), Some(both));
        let tried = BTreeSet::from([(a, c)]);
        assert_eq!(worth_trying(&[&direct, &fast], &tried), Some(vec![(c, b)]));
        let unknown = way(&[1, 2], &segment("at-least", 0, 900, None));
        assert_eq!(worth_trying(&[&unknown], &none), Some(vec![(a, b)]));
        let old = way(&[1, 2], &segment("measured", 4, 10, Some(16)));
        assert_eq!(worth_trying(&[&old], &none), Some(vec![(a, b)]));
    }

    fn network(links: &[(u32, u32, u16, Option<u32>)]) -> View {
        let link = |&(from, to, loss, kbps): &(u32, u32, u16, Option<u32>)| KnownLink {
            from: NodeAddr(from).to_string(),
            to: NodeAddr(to).to_string(),
            latency_us: 5_000,
            loss,
            price_us: 0,
            strikes: 0,
            run_256ths: None,
            repair_16ths: 0,
            capacity_kbps: None,
            measured_kbps: kbps,
            together_kbps: kbps,
            together_is_all: kbps.is_some(),
            spread_pct: 10,
            hops: None,
            over_tcp: false,
        };
        let empty = serde_json::json!({
            "teller": null, "profile": "", "detect_us": 0, "late_us": 0, "nodes": [],
            "links": [], "holds": [], "rule": {
                "spacing_s": 0.0, "worse_s": 0.0, "worse_unclear_s": 0.0, "better_s": 0.0,
                "better_unclear_s": 0.0, "better_max_s": 0.0,
            },
        });
        let mut network: overlay::snapshot::NetworkSnapshot =
            serde_json::from_value(empty).unwrap();
        network.links = links.iter().map(link).collect();
        View::new(network).unwrap()
    }

    #[test]
    fn where_a_probe_found_nothing_out_the_next_way_is_tried_and_relied_on() {
        let [a, b] = [1, 2].map(NodeAddr);
        let asked = PlanAsked::default();
        let unknown = network(&[(1, 2, 0, None), (1, 3, 0, None), (3, 2, 0, None)]);
        let none = BTreeSet::new();
        let tried = BTreeSet::from([(a, b)]);
        let nodes = |way: &WayNumbers| way.addresses.len();
        let hope = |tried| hoped(&unknown, (a, b), &asked, tried).unwrap();
        assert_eq!((nodes(&hope(&none)), nodes(&hope(&tried))), (2, 3));
        let best = |view: View, tried| {
            let view = relied_on(view, (a, b), &asked, tried);
            let plan = explain::plan(&view, &a.to_string(), &b.to_string(), &asked);
            nodes(plan.unwrap().best())
        };
        assert_eq!(best(unknown.clone(), &tried), 2, "nothing is better");
        let around = [
            (1, 2, 0, None),
            (1, 3, 0, Some(95_000)),
            (3, 2, 0, Some(95_000)),
        ];
        assert_eq!(best(network(&around), &tried), 3);
        assert_eq!(best(network(&around), &none), 2, "it may be anything");
    }

    #[test]
    fn a_probe_is_advised_only_to_a_reader_who_can_still_run_one() {
        let unknown = network(&[(1, 2, 0, None)]);
        let [a, b] = [1, 2].map(|node| NodeAddr(node).to_string());
        for advises_probe in [true, false] {
            let asked = PlanAsked {
                advises_probe,
                ..PlanAsked::default()
            };
            let plan = explain::plan(&unknown, &a, &b, &asked).unwrap();
            assert!(
                plan.reason.contains("so that is unknown"),
                "{}",
                plan.reason
            );
            assert_eq!(plan.reason.contains("`--probe`"), advises_probe);
        }
    }

    #[test]
    fn the_route_ends_with_the_segment() {
        let bytes = chain(&[1, 2, 3].map(|n| NodeAddr(0x0a07_0000 + n))).unwrap();
        let first = Hop::parse(&bytes).unwrap();
        let second = first.below().next().unwrap();
        let last = second.below().next().unwrap();
        assert_eq!((first.stripes, second.stripes), (1, 1));
        assert!(last.discard && last.adapts && last.path == Some(&[][..]));
        assert_eq!(last.stripes, relay::PROBE_STRIPES);
    }
}
