//! A snapshot prepared for questions: a topology, and names for its nodes.

use super::protection::Protections;
use super::{ExplainError, Named};
use base::NodeAddr;
use graph::metric::Repair;
use graph::protection::Lane;
use graph::width::{Known, Width};
use graph::{LinkCost, Parameters, Topology};
use overlay::snapshot::{KnownLink, NetworkSnapshot};
use std::collections::{BTreeMap, BTreeSet};
use wire::link_state::Sending;

/// The network as a node or a scenario reports it.
#[derive(Clone, Debug)]
pub struct View {
    snapshot: NetworkSnapshot,
    topology: Topology,
    /// The topology for transfers that the node that gave the snapshot begins, if some nodes relay only for certain
    /// others and not for it.
    of_teller: Option<(NodeAddr, Topology)>,
    protections: Protections,
    names: BTreeMap<NodeAddr, String>,
}

/// Returns the link from one node to another, if it exists.
pub(super) fn link(topology: &Topology, from: NodeAddr, to: NodeAddr) -> Option<LinkCost> {
    let ends = topology.index(from).zip(topology.index(to));
    let edge = ends.and_then(|(from, to)| topology.link(from, to));
    edge.map(|edge| edge.link)
}

impl View {
    /// Builds the view of a snapshot.
    ///
    /// # Errors
    /// [`ExplainError::Snapshot`] when an address in it is invalid.
    pub fn new(snapshot: NetworkSnapshot) -> Result<View, ExplainError> {
        let address = |text: &str| -> Result<NodeAddr, ExplainError> {
            text.parse()
                .map_err(|why| ExplainError::Snapshot(format!("`{text}`: {why}")))
        };
        let mut topology = Topology::new(Parameters {
            detect_us: snapshot.detect_us,
            late_us: snapshot.late_us,
            loss_us: snapshot.loss_us,
        });
        let (mut names, mut by_rate) = (BTreeMap::new(), BTreeSet::new());
        for node in &snapshot.nodes {
            let addr = address(&node.address)?;
            topology.add_node(addr);
            if let Some(bulk) = node.bulk {
                topology.set_shut(addr, bulk.is_shut());
                topology.set_busy(addr, bulk.load);
                if bulk.by_rate {
                    by_rate.insert(addr);
                }
            }
            if let Some(name) = &node.name {
                names.insert(addr, name.clone());
            }
        }
        let lost = |link: &KnownLink| ((link.from.clone(), link.to.clone()), link.loss);
        let losses: BTreeMap<_, u16> = snapshot.links.iter().map(lost).collect();
        for link in &snapshot.links {
            let back = losses.get(&(link.to.clone(), link.from.clone()));
            let back = back.copied().unwrap_or_default();
            let lane = link.run_256ths.map(|run_256ths| Lane {
                run_256ths,
                repair_16ths: link.repair_16ths,
            });
            let cost = LinkCost {
                price_us: link.price_us,
                repair: (link.strikes > 0 || lane.is_some())
                    .then(|| Repair::new(link.strikes, link.loss, back).with_lane(lane)),
                ..LinkCost::of_share(link.latency_us, link.loss)
            };
            let (from, to) = (address(&link.from)?, address(&link.to)?);
            topology.set_link(from, to, Some(cost));
            let width = |kbps: u32| Width(u64::from(kbps) * 1_000);
            let known = Known {
                capacity: link.capacity_kbps.map(width),
                one: link.measured_kbps.map(width),
                together: link.together_kbps.map(width),
                is_full: link.together_is_all,
                spread_pct: link.spread_pct,
                by_rate: by_rate.contains(&from),
                physical_hops: link.hops.map(|hops| u16::from(hops.get())),
            };
            topology.set_known(from, to, known);
        }
        let teller = snapshot.teller.as_deref().map(address).transpose()?;
        let mut of_teller = None;
        for node in snapshot.nodes.iter() {
            if let Some(teller) = teller
                && node.bulk.is_some_and(|bulk| bulk.refuses_teller)
            {
                let (_, topology) = of_teller.get_or_insert_with(|| (teller, topology.clone()));
                topology.set_shut(address(&node.address)?, true);
            }
        }
        Ok(View {
            protections: Protections::of(&snapshot),
            snapshot,
            topology,
            of_teller,
            names,
        })
    }

    /// Returns the view for connections whose senders all use this congestion control of the kernel. Measurements of a
    /// connection with another kind of control are dropped, because they do not apply; the total capacity of a link is
    /// kept.
    ///
    /// # Errors
    /// [`ExplainError::Snapshot`] when an address in it is invalid.
    pub fn with_congestion(&self, control: &str) -> Result<View, ExplainError> {
        let by_rate = Sending::of_control(control) == Sending::ByRate;
        let mut network = self.snapshot.clone();
        let mut others = BTreeSet::new();
        for node in &mut network.nodes {
            let bulk = node.bulk.get_or_insert_default();
            if bulk.by_rate != by_rate {
                others.insert(node.address.clone());
            }
            bulk.by_rate = by_rate;
        }
        for link in &mut network.links {
            if others.contains(&link.from) {
                link.measured_kbps = None;
                link.together_kbps = link.together_kbps.filter(|_| link.together_is_all);
            }
        }
        View::new(network)
    }

    /// Returns the snapshot from which the view was built.
    #[must_use]
    pub fn snapshot(&self) -> &NetworkSnapshot {
        &self.snapshot
    }

    /// Returns the topology.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the topology for bulk data between two nodes, without the relays that refuse it. A transfer begins at
    /// one of its ends. If that end did not give the snapshot, the snapshot does not say whom the relays refuse.
    #[must_use]
    pub fn topology_between(&self, ends: [NodeAddr; 2]) -> &Topology {
        let of_teller = self.of_teller.as_ref();
        let begins = of_teller.filter(|(teller, _)| ends.contains(teller));
        begins.map_or(&self.topology, |(_, topology)| topology)
    }

    /// Returns the protection of the links.
    pub(super) fn protections(&self) -> &Protections {
        &self.protections
    }

    /// Returns why the node that gave the snapshot sends nothing from `from` to `to`.
    pub(super) fn refused(&self, (from, to): (NodeAddr, NodeAddr)) -> Option<String> {
        let teller = self.snapshot.teller.as_deref();
        let to = to.to_string();
        let mut nodes = self.snapshot.nodes.iter();
        let node = nodes.find(|node| node.address == to)?;
        let is_his = teller == Some(&from.to_string());
        node.refused.clone().filter(|_| is_his)
    }

    /// Returns the node that a word names, by its name or its overlay address.
    ///
    /// # Errors
    /// [`ExplainError::Misused`] when no node has this name, or several have it.
    pub fn address(&self, word: &str) -> Result<NodeAddr, ExplainError> {
        if let Ok(addr) = word.parse::<NodeAddr>() {
            if self.topology.index(addr).is_some() {
                return Ok(addr);
            }
            return Err(ExplainError::Misused(format!(
                "nothing is known of a node {addr}; known are {}",
                self.known()
            )));
        }
        let mut called = self.names.iter().filter(|(_, name)| *name == word);
        match (called.next(), called.next()) {
            (Some((addr, _)), None) => Ok(*addr),
            (Some(_), Some(_)) => Err(ExplainError::Misused(format!(
                "two nodes are called `{word}`: use the overlay address"
            ))),
            (None, _) => Err(ExplainError::Misused(format!(
                "no node `{word}` is known; known are {}",
                self.known()
            ))),
        }
    }

    /// Returns the two nodes that the words name.
    pub(super) fn ends(&self, src: &str, dst: &str) -> Result<(NodeAddr, NodeAddr), ExplainError> {
        Ok((self.address(src)?, self.address(dst)?))
    }

    /// Returns the node's name, or its address if the name is not known or not unique.
    pub fn name(&self, node: NodeAddr) -> String {
        match self.names.get(&node) {
            Some(name) if self.names.values().filter(|other| *other == name).count() == 1 => {
                name.clone()
            }
            _ => node.to_string(),
        }
    }

    /// Returns name and address.
    pub(super) fn both(&self, node: NodeAddr) -> String {
        match self.names.get(&node) {
            Some(name) => format!("{name} ({node})"),
            None => node.to_string(),
        }
    }

    pub(super) fn named(&self, node: NodeAddr) -> Named {
        Named {
            name: self.name(node),
            address: node.to_string(),
        }
    }

    /// Lists some nodes by name, for errors.
    fn known(&self) -> String {
        const SHOWN: usize = 20;
        let nodes = self.topology.nodes();
        let mut names: Vec<String> = nodes.map(|n| self.name(self.topology.addr(n))).collect();
        names.sort();
        let rest = names.len().saturating_sub(SHOWN);
        names.truncate(SHOWN);
        match (names.is_empty(), rest) {
            (true, _) => "none".to_owned(),
            (_, 0) => names.join(", "),
            _ => format!("{} and {rest} more", names.join(", ")),
        }
    }
}
