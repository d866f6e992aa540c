//! The way of a copy: a path, or, to several nodes, a tree.

use super::Copy;
use super::retry::Avoided;
use crate::control::Control;
use crate::failure::Failure;
use crate::names::Names;
use crate::show::text;
use base::NodeAddr;
use overlay::snapshot::NetworkSnapshot;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tools::explain::{self, PlanAsked, View};
use wire::bytes::Writer;
use wire::relay::{HopRepr, STRIPES_MAX};

/// Where data ends, or begins when it is pulled: nodes, and paths there.
pub(super) type Ends = BTreeMap<NodeAddr, Vec<u8>>;

/// The longest route that is written.
const ROUTE_BYTES_MAX: usize = 32 * 1024;

/// How routes from the own node are found.
pub(super) struct Route {
    own: NodeAddr,
    via: Vec<(NodeAddr, String)>,
    direct: bool,
    discard: bool,
    pull: bool,
    stripes: Vec<u8>,
    /// Whatever the overlay has.
    all: Ways,
    /// The same without what is to be avoided, if anything is.
    around: Option<Ways>,
}

/// What a route may take.
struct Ways {
    /// The node before each on the shortest way from here, as the overlay sees it.
    before: BTreeMap<NodeAddr, NodeAddr>,
    /// The network, for plans.
    view: View,
}

impl Ways {
    fn new(own: NodeAddr, view: View) -> Ways {
        Ways {
            before: shortest(own, view.snapshot()),
            view,
        }
    }

    /// Without what is avoided.
    fn without(&self, own: NodeAddr, avoided: &Avoided) -> Option<Ways> {
        let mut network = self.view.snapshot().clone();
        network
            .links
            .retain(|link| match (link.from.parse(), link.to.parse()) {
                (Ok(from), Ok(to)) => !avoided.has(from, to),
                _ => false,
            });
        Some(Ways::new(own, View::new(network).ok()?))
    }
}

/// What a route is expected to carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prediction {
    /// The slowest segment, in bits per second.
    pub(super) rate_bps: u64,
    /// Why it is believed; see `sinew plan`.
    pub(super) confidence: &'static str,
}

/// A route, ready to be asked for.
pub(super) struct Planned {
    pub(super) bytes: Vec<u8>,
    /// What it is expected to carry.
    pub(super) predicted: Option<Prediction>,
    /// It takes nothing that was to be avoided.
    pub(super) is_around: bool,
}

impl Route {
    pub(super) fn new(
        control: &mut Control,
        status: &Value,
        names: &Names,
        args: &Copy,
        avoided: &Avoided,
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
        let all = Ways::new(own, crate::why::ask(control)?);
        let around = match avoided.is_empty() {
            true => None,
            false => all.without(own, avoided),
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
            stripes: args.stripes.clone(),
            all,
            around,
        })
    }

    pub(super) fn own(&self) -> NodeAddr {
        self.own
    }

    /// The route to these ends.
    pub(super) fn to(&self, ends: &Ends) -> Result<Planned, Failure> {
        if !self.via.is_empty() && ends.len() > 1 {
            return Err(Failure::misused(
                "--via leads to one node: leave it out for several",
            ));
        }
        let reaches = |ways: &&Ways| ends.keys().all(|end| ways.before.contains_key(end));
        let around = self.around.as_ref().filter(|_| self.is_free());
        let ways = around.filter(reaches).unwrap_or(&self.all);
        let plan = match ends.keys().next() {
            Some(end) if ends.len() == 1 && self.is_free() => self.plan(ways, *end),
            _ => None,
        };
        let mut below: BTreeMap<NodeAddr, BTreeSet<NodeAddr>> = BTreeMap::new();
        let mut stripes = self.stripes.clone();
        let mut path = Vec::new();
        for &end in ends.keys() {
            path = match &plan {
                Some((path, _)) => path.clone(),
                None => self.path(ways, end)?,
            };
            for pair in path.windows(2) {
                below.entry(pair[0]).or_default().insert(pair[1]);
            }
        }
        if let (Some((_, planned)), true) = (plan, stripes.is_empty()) {
            stripes = planned;
        }
        let segments: usize = below.values().map(BTreeSet::len).sum();
        if stripes.len() > 1 && (ends.len() > 1 || segments != stripes.len()) {
            return Err(Failure::misused(format_args!(
                "--stripes has {} numbers, and the route {segments} segments",
                stripes.len()
            )));
        }
        let shape = Shape {
            route: self,
            ends,
            below: &below,
            stripes: &stripes,
        };
        Ok(Planned {
            bytes: shape.hop(self.own, 0)?,
            predicted: match ends.len() {
                1 => self.predict(ways, &path, &shape),
                _ => None,
            },
            is_around: !std::ptr::eq(ways, &raw const self.all),
        })
    }

    /// Nothing was said about the way.
    fn is_free(&self) -> bool {
        self.via.is_empty() && !self.direct
    }

    /// The way and the stripes that are expected to be the fastest, from here to `end`; none if the
    /// shortest way is as good as any.
    fn plan(&self, ways: &Ways, end: NodeAddr) -> Option<(Vec<NodeAddr>, Vec<u8>)> {
        let (src, dst) = match self.pull {
            true => (end, self.own),
            false => (self.own, end),
        };
        let asked = PlanAsked::default();
        let plan = explain::plan(&ways.view, &src.to_string(), &dst.to_string(), &asked).ok()?;
        // Choice: where no loss is known, nothing says that more connections would be faster.
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
        let count = |n: &usize| {
            u8::try_from(*n)
                .unwrap_or(STRIPES_MAX)
                .clamp(1, STRIPES_MAX)
        };
        let (mut nodes, mut stripes) = (nodes?, way.stripes.iter().map(count).collect::<Vec<_>>());
        if self.pull {
            nodes.reverse();
            stripes.reverse();
        }
        Some((nodes, stripes))
    }

    /// What a path is expected to carry: its slowest segment.
    fn predict(&self, ways: &Ways, path: &[NodeAddr], shape: &Shape<'_>) -> Option<Prediction> {
        let asked = PlanAsked {
            relays: 0,
            connections: 1,
            ..PlanAsked::default()
        };
        let mut slowest: Option<Prediction> = None;
        for (segment, pair) in path.windows(2).enumerate() {
            let (from, to) = match self.pull {
                true => (pair[1], pair[0]),
                false => (pair[0], pair[1]),
            };
            let plan = explain::plan(&ways.view, &from.to_string(), &to.to_string(), &asked);
            let one = plan.ok()?.direct;
            let stripes = u64::from(shape.stripes(segment + 1));
            let segment = Prediction {
                rate_bps: one.rate_bps.saturating_mul(stripes),
                confidence: one.confidence,
            };
            slowest = slowest
                .filter(|slow| slow.rate_bps <= segment.rate_bps)
                .or(Some(segment));
        }
        slowest
    }

    /// From here to a node.
    fn path(&self, ways: &Ways, end: NodeAddr) -> Result<Vec<NodeAddr>, Failure> {
        let mut path = vec![self.own];
        if !self.via.is_empty() || self.direct {
            path.extend(self.via.iter().map(|(node, _)| *node));
            if path.last() != Some(&end) {
                path.push(end);
            }
        } else {
            let mut back = Vec::new();
            let mut at = end;
            while at != self.own {
                back.push(at);
                at = *ways.before.get(&at).ok_or_else(|| {
                    Failure::failed(format_args!(
                        "the overlay has no way to {end}: see `sinew links`, or name where it is by \
                         --via NODE@HOST:PORT"
                    ))
                })?;
            }
            path.extend(back.into_iter().rev());
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
    below: &'a BTreeMap<NodeAddr, BTreeSet<NodeAddr>>,
    stripes: &'a [u8],
}

impl Shape<'_> {
    /// A hop and all below it; `depth` segments lead to it from the own node.
    fn hop(&self, node: NodeAddr, depth: usize) -> Result<Vec<u8>, Failure> {
        let mut below = Vec::new();
        for &next in self.below.get(&node).into_iter().flatten() {
            below.extend(self.hop(next, depth + 1)?);
        }
        let via = self.route.via.iter().find(|(via, _)| *via == node);
        let path = self.ends.get(&node);
        let hop = HopRepr {
            node,
            stripes: self.stripes(depth),
            endpoint: via.map_or("", |(_, at)| at.as_str()),
            path: path.map(Vec::as_slice),
            discard: self.route.discard && !self.route.pull && path.is_some(),
            below: &below,
        };
        let mut bytes = vec![0; ROUTE_BYTES_MAX];
        let mut w = Writer::new(&mut bytes);
        let written = hop.emit(&mut w).map(|()| w.len());
        let len = written.map_err(|_| {
            Failure::misused("the route or its paths are too long: copy to fewer nodes at once")
        })?;
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Connections to a hop: one within this host.
    fn stripes(&self, depth: usize) -> u8 {
        let Some(segment) = depth.checked_sub(1) else {
            return 1;
        };
        let own = self.stripes.get(segment).or(self.stripes.last());
        own.copied().unwrap_or(1)
    }
}

/// The node before each, on the way of least latency from `own`.
fn shortest(own: NodeAddr, network: &NetworkSnapshot) -> BTreeMap<NodeAddr, NodeAddr> {
    let mut links: BTreeMap<NodeAddr, Vec<(NodeAddr, u64)>> = BTreeMap::new();
    for link in &network.links {
        if let (Ok(from), Ok(to)) = (link.from.parse(), link.to.parse()) {
            // A link without latency is a hop all the same.
            let cost = u64::from(link.latency_us) + 1;
            links.entry(from).or_default().push((to, cost));
        }
    }
    let mut before = BTreeMap::new();
    let mut known: BTreeMap<NodeAddr, u64> = BTreeMap::from([(own, 0)]);
    let mut front = BTreeSet::from([(0, own)]);
    while let Some((cost, node)) = front.pop_first() {
        for &(next, more) in links.get(&node).into_iter().flatten() {
            let through = cost + more;
            let best = known.get(&next).copied();
            if best.is_none_or(|best| through < best) {
                if let Some(best) = best {
                    front.remove(&(best, next));
                }
                known.insert(next, through);
                front.insert((through, next));
                before.insert(next, node);
            }
        }
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::relay::Hop;

    fn node(n: u8) -> NodeAddr {
        NodeAddr(0x0a07_0000 + u32::from(n))
    }

    fn network(links: Vec<overlay::snapshot::KnownLink>) -> NetworkSnapshot {
        let empty = serde_json::json!({
            "teller": null, "profile": "", "detect_us": 0, "late_us": 0, "nodes": [],
            "links": [], "holds": [], "rule": {
                "spacing_s": 0.0, "worse_s": 0.0, "worse_unclear_s": 0.0, "better_s": 0.0,
                "better_unclear_s": 0.0, "better_max_s": 0.0,
            },
        });
        let empty: NetworkSnapshot = serde_json::from_value(empty).unwrap();
        NetworkSnapshot { links, ..empty }
    }

    fn route() -> Route {
        Route {
            own: node(1),
            via: Vec::new(),
            direct: false,
            discard: false,
            pull: false,
            stripes: Vec::new(),
            all: ways([(2, 1), (3, 2), (4, 2)]),
            around: None,
        }
    }

    fn ways<const N: usize>(before: [(u8, u8); N]) -> Ways {
        Ways {
            before: before.map(|(n, b)| (node(n), node(b))).into(),
            view: View::new(network(Vec::new())).unwrap(),
        }
    }

    fn ends(nodes: &[u8]) -> Ends {
        let path = |n: &u8| format!("/p{n}").into_bytes();
        nodes.iter().map(|n| (node(*n), path(n))).collect()
    }

    #[test]
    fn what_is_avoided_is_gone_around_where_there_is_a_way() {
        let one = |planned: &Planned| {
            let first = Hop::parse(&planned.bytes).unwrap();
            first.below().next().unwrap().node
        };
        let route = Route {
            around: Some(ways([(5, 1), (3, 5)])),
            ..route()
        };
        let around = route.to(&ends(&[3])).unwrap();
        assert_eq!((one(&around), around.is_around), (node(5), true));
        // Nothing else leads there.
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
    fn the_shortest_way_is_that_of_least_latency() {
        let link = |from: u8, to: u8, latency_us| overlay::snapshot::KnownLink {
            from: node(from).to_string(),
            to: node(to).to_string(),
            latency_us,
            loss: 0,
            price_us: 0,
            strikes: 0,
            capacity_kbps: None,
            measured_kbps: None,
            hops: None,
        };
        let network = network(vec![
            link(1, 2, 50),
            link(1, 3, 10),
            link(3, 2, 10),
            link(2, 4, 1),
        ]);
        let before = shortest(node(1), &network);
        assert_eq!(
            before,
            BTreeMap::from([(node(3), node(1)), (node(2), node(3)), (node(4), node(2))])
        );
    }
}
