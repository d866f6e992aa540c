//! Possible helps for a call: nodes, cities, a node half way, a direct link.

use super::super::View;
use super::super::places::{self, is_same};
use super::super::view::link;
use super::Adviser;
use base::NodeAddr;
use graph::explain::Route;
use graph::generate::cities::{CITIES, Site};
use graph::{Metric, paths};

/// Most nodes that are tried, and most cities, those with the shortest detour first. Each trial computes two paths and
/// their plans.
const TRIED_MAX: usize = 24;
/// A city is tried only if the path over it is longer by less than this factor.
const DETOUR_MAX: f64 = 1.5;

/// A further node, before it is evaluated.
pub(super) struct Prospect {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) node: NodeAddr,
    pub(super) links: Vec<Planned>,
}

/// A prospect, and the delay from end to end over its new links and over existing ones.
type Detour = (f64, Prospect);

impl Prospect {
    /// Returns true if a path uses one of the prospect's links. A prospect without links is on every path.
    pub(super) fn is_on(&self, route: &Route) -> bool {
        let mut links = self.links.iter();
        self.links.is_empty() || links.any(|planned| self.uses(planned, route))
    }

    /// Returns true if a path uses this link of the prospect.
    pub(super) fn uses(&self, planned: &Planned, route: &Route) -> bool {
        let (a, b) = (planned.node, self.node);
        let mut legs = route.legs.iter().map(|leg| (leg.from, leg.to));
        legs.any(|leg| leg == (a, b) || leg == (b, a))
    }
}

/// A link from a node to the prospect that does not exist yet.
#[derive(Clone, Copy)]
pub(super) struct Planned {
    pub(super) node: NodeAddr,
    pub(super) latency_us: f64,
    pub(super) by: &'static str,
}

/// Returns how much longer the link of the two nodes is than the map predicts, at least 1. Links of a city are assumed
/// to be longer by the same factor.
pub(super) fn stretch(view: &View, (a, b): (NodeAddr, NodeAddr)) -> f64 {
    let places = place(view, a).zip(place(view, b));
    let link = link(view.topology(), a, b);
    match places.zip(link) {
        Some(((a, b), link)) if !is_same(&a, &b) => {
            (f64::from(link.latency_us) / places::latency_us(&a, &b)).max(1.0)
        }
        _ => 1.0,
    }
}

fn place(view: &View, node: NodeAddr) -> Option<Site> {
    places::place(&view.name(node))
}

/// Returns the prospects with the shortest detour.
fn nearest(mut found: Vec<Detour>) -> Vec<Prospect> {
    found.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    found.truncate(TRIED_MAX);
    found.into_iter().map(|(_, prospect)| prospect).collect()
}

impl Adviser<'_> {
    /// Returns everything that may help.
    pub(super) fn prospects(&self) -> Vec<Prospect> {
        let mut all = nearest(self.nodes());
        all.extend(nearest(self.cities()));
        all.extend(self.half_way());
        all.extend(self.direct());
        all.push(self.other_paths());
        all
    }

    /// Returns a direct link between the two ends, if there is none yet.
    fn direct(&self) -> Option<Prospect> {
        let (src, dst) = self.ends;
        let lacks = link(self.view.topology(), src, dst).is_none();
        let planned = self.planned(src, dst).filter(|_| lacks)?;
        Some(Prospect {
            kind: "link",
            name: format!("{}-{}", self.view.name(src), self.view.name(dst)),
            node: dst,
            links: vec![planned],
        })
    }

    /// Returns the prospect that needs no further link or node: another path over the existing links.
    fn other_paths(&self) -> Prospect {
        Prospect {
            kind: "paths",
            name: "--paths best".to_owned(),
            node: self.ends.1,
            links: Vec::new(),
        }
    }

    /// Returns the nodes that are not on the path and lack a link to an end.
    fn nodes(&self) -> Vec<Detour> {
        let topology = self.view.topology();
        let nodes = topology.nodes().map(|node| topology.addr(node));
        let others = nodes.filter(|node| self.today.nodes().all(|on_path| on_path != *node));
        let prospect = |node: NodeAddr| {
            let (mut detour_us, mut links) = (0.0, Vec::new());
            for end in [self.ends.0, self.ends.1] {
                if let Some(link) = link(topology, end, node) {
                    detour_us += f64::from(link.latency_us);
                } else {
                    let planned = self.planned(end, node)?;
                    detour_us += planned.latency_us;
                    links.push(planned);
                }
            }
            let prospect = |links| Prospect {
                kind: "node",
                name: self.view.name(node),
                node,
                links,
            };
            (!links.is_empty()).then(|| (detour_us, prospect(links)))
        };
        others.filter_map(prospect).collect()
    }

    /// Estimates the link of two nodes: by the map, or as not longer than existing links. Returns `None` if neither is
    /// known.
    fn planned(&self, end: NodeAddr, node: NodeAddr) -> Option<Planned> {
        let places = place(self.view, end).zip(place(self.view, node));
        if let Some((a, b)) = places {
            return Some(Planned {
                node: end,
                latency_us: places::latency_us(&a, &b) * self.stretch,
                by: "map",
            });
        }
        let shortest = paths::shortest(self.view.topology(), end, node, Metric::Latency, 1).ok()?;
        let hops = shortest.first()?.hops.iter();
        Some(Planned {
            node: end,
            latency_us: hops.map(|hop| f64::from(hop.link.latency_us)).sum(),
            by: "links",
        })
    }

    /// Returns the cities between the ends in which there is no node.
    fn cities(&self) -> Vec<Detour> {
        let (view, (src, dst)) = (self.view, self.ends);
        let Some((a, b)) = place(view, src).zip(place(view, dst)) else {
            return Vec::new();
        };
        let topology = view.topology();
        let nodes = topology.nodes().map(|node| topology.addr(node));
        let taken: Vec<Site> = nodes.filter_map(|node| place(view, node)).collect();
        let direct_us = places::latency_us(&a, &b);
        let free = CITIES
            .iter()
            .filter(|city| taken.iter().all(|site| !is_same(site, city)));
        let legs = |city: &Site| [&a, &b].map(|end| places::latency_us(end, city));
        let near = free.filter(|city| legs(city).iter().sum::<f64>() < direct_us * DETOUR_MAX);
        let prospect = |city: &Site| {
            let links = legs(city).into_iter().zip([src, dst]);
            let prospect = Prospect {
                kind: "city",
                name: city.name.to_owned(),
                node: self.unused(),
                links: links
                    .map(|(latency_us, node)| Planned {
                        node,
                        latency_us: latency_us * self.stretch,
                        by: "map",
                    })
                    .collect(),
            };
            (legs(city).iter().sum(), prospect)
        };
        near.map(prospect).collect()
    }

    /// Returns a node half way on the link of the path that leaves most packets lost.
    fn half_way(&self) -> Option<Prospect> {
        let legs = self.today.legs.iter().zip(&self.missed.legs);
        let (worst, _) = legs.max_by(|(_, a), (_, b)| a.share.total_cmp(&b.share))?;
        let half = |node| Planned {
            node,
            latency_us: f64::from(worst.link.latency_us) / 2.0,
            by: "half",
        };
        let (from, to) = (self.view.name(worst.from), self.view.name(worst.to));
        Some(Prospect {
            kind: "half-way",
            name: format!("half way on {from}-{to}"),
            node: self.unused(),
            links: vec![half(worst.from), half(worst.to)],
        })
    }

    /// Returns an address that no node has.
    fn unused(&self) -> NodeAddr {
        let topology = self.view.topology();
        let free = (1..=u32::MAX).rev().map(NodeAddr);
        let mut free = free.filter(|addr| topology.index(*addr).is_none());
        free.next().unwrap_or(NodeAddr(u32::MAX))
    }
}
