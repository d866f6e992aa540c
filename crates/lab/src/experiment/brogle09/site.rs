//! The paper's two topologies as networks of this machine: a namespace for each host, veth between
//! neighbours. [Brogle09 §III-A, Figures 2 and 3]
//!
//! ```text
//!   chain   source ─ P1 ─ P2 ─ P3 ─ P4 ─ sink
//!
//!   tree    source ─ P2 ─┬─ P3 ─┬─ P5 ─┬─ P6 ─ sink
//!                        │      │      └─ P7 ─ sink
//!                        │      └─ P4 ─ sink
//!                        └─ P1 ─ sink
//! ```
//!
//! The text describes the tree of Figure 3 only by these properties: seven hosts, a longest branch of four, three hosts
//! with an out-degree of two and four with one, leaves P1, P4, P6 and P7. Choice: the caterpillar above, which is the
//! only tree of seven in which each branching host lies on the longest branch.
//!
//! Hosts know only their neighbours: packets are carried further hop by hop. One link in the middle of the longest
//! branch can be emulated, to lose packets: then its two interfaces are TAP devices with `sinew emulate` between them.

use crate::experiment::CellError;
use base::impair::Model;
use net::netns::{Namespace, SetupError};
use std::net::{IpAddr, Ipv4Addr};
use tools::emulate::bridge::Bridge;
use tools::emulate::end::{self, End};
use tools::emulate::{Options, Place};

/// The longest packet here has 1024 bytes of payload and 150 of headers and seals.
const MTU: usize = 1_500;
/// Name of the interfaces of an emulated link.
const EMULATED: &str = "emu";
/// Name of the interface towards the source on every host.
const UP: &str = "above";

/// The topologies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Chain,
    Tree,
}

/// A host of a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) name: &'static str,
    /// The host that its packets come from; `None` for the first, which gets them from the source.
    pub(super) parent: Option<usize>,
}

const fn host(name: &'static str, parent: Option<usize>) -> Host {
    Host { name, parent }
}

const CHAIN: [Host; 4] = [
    host("P1", None),
    host("P2", Some(0)),
    host("P3", Some(1)),
    host("P4", Some(2)),
];
const TREE: [Host; 7] = [
    host("P2", None),
    host("P1", Some(0)),
    host("P3", Some(0)),
    host("P4", Some(2)),
    host("P5", Some(2)),
    host("P6", Some(4)),
    host("P7", Some(4)),
];

impl Shape {
    /// Returns the topology of a cell's coordinate.
    pub(super) fn of(tree: f64) -> Shape {
        match tree == 0.0 {
            true => Shape::Chain,
            false => Shape::Tree,
        }
    }

    /// Returns its hosts, parents before children; the first is the one next to the source.
    pub(super) fn hosts(self) -> &'static [Host] {
        match self {
            Shape::Chain => &CHAIN,
            Shape::Tree => &TREE,
        }
    }

    /// Returns the hosts after a host.
    pub(super) fn children(self, of: usize) -> impl Iterator<Item = usize> {
        let hosts = self.hosts();
        (0..hosts.len()).filter(move |host| hosts[*host].parent == Some(of))
    }

    /// Returns the hosts that have only a sink after them.
    pub(super) fn leaves(self) -> Vec<usize> {
        let all = 0..self.hosts().len();
        all.filter(|host| self.children(*host).next().is_none())
            .collect()
    }

    /// Returns the leaf whose measurements are drawn: the chain's only one, the tree's P6 as in the paper.
    pub(super) fn drawn(self) -> &'static str {
        match self {
            Shape::Chain => "P4",
            Shape::Tree => "P6",
        }
    }

    /// Returns the host in the middle of the longest branch: P3. The link from its parent is the chain's middle link.
    pub(super) fn middle(self) -> usize {
        let found = self.hosts().iter().position(|host| host.name == "P3");
        found.expect("both topologies have a P3")
    }

    /// Returns the host at the far end of the link that can be made lossy: the middle one of the three on the longest
    /// branch.
    pub(super) fn behind_lossy(self) -> usize {
        match self {
            Shape::Chain => self.middle(),
            Shape::Tree => 4,
        }
    }

    /// Returns the number of copies that all hosts together send of a packet, including those to sinks.
    pub(super) fn copies(self) -> usize {
        self.hosts().len() - 1 + self.leaves().len()
    }
}

/// The running networks. Dropping this removes them.
pub(super) struct Site {
    pub(super) shape: Shape,
    emulated: Option<Emulated>,
    nodes: Vec<Namespace>,
    source: Namespace,
    /// One sink for each leaf, in their order.
    sinks: Vec<Namespace>,
}

struct Emulated {
    bridge: Bridge,
    _ends: [End; 2],
}

impl Site {
    /// Creates the networks; the lossy link is an emulated one if `seed` is given, and loses nothing yet.
    pub(super) fn new(shape: Shape, seed: Option<u64>) -> Result<Site, CellError> {
        net::netns::available().map_err(|why| {
            CellError(format!("the experiment needs namespaces of its own: {why}"))
        })?;
        let space = |_| -> Result<Namespace, SetupError> {
            let space = Namespace::new()?;
            for (name, value) in [
                // A host also forwards packets from a source to which it has no route.
                ("net/ipv4/conf/all/rp_filter", "0"),
                ("net/ipv4/conf/default/rp_filter", "0"),
                ("net/ipv4/ip_forward", "1"),
            ] {
                space.sysctl(name, value)?;
            }
            // Kernels without IPv6 do not send such packets anyway.
            let _ = space.sysctl("net/ipv6/conf/default/disable_ipv6", "1");
            Ok(space)
        };
        let spaces =
            |count: usize| -> Result<Vec<_>, SetupError> { (0..count).map(space).collect() };
        let mut site = Site {
            shape,
            emulated: None,
            nodes: spaces(shape.hosts().len()).map_err(failed)?,
            source: space(0).map_err(failed)?,
            sinks: spaces(shape.leaves().len()).map_err(failed)?,
        };
        site.connect(seed)?;
        Ok(site)
    }

    fn connect(&mut self, seed: Option<u64>) -> Result<(), CellError> {
        let shape = self.shape;
        let first = self.nodes.first().expect("a topology has hosts");
        cable(&self.source, &down(0), first, net(0)).map_err(failed)?;
        for (host, Host { parent, .. }) in shape.hosts().iter().enumerate() {
            let Some(parent) = *parent else { continue };
            match seed {
                Some(seed) if host == shape.behind_lossy() => {
                    let between = [&self.nodes[parent], &self.nodes[host]];
                    self.emulated = Some(Emulated::new(between, net(host), seed)?);
                }
                _ => cable(
                    &self.nodes[parent],
                    &down(host),
                    &self.nodes[host],
                    net(host),
                )
                .map_err(failed)?,
            }
        }
        for (leaf, sink) in shape.leaves().into_iter().zip(&self.sinks) {
            cable(&self.nodes[leaf], SINK, sink, SINKS + leaf as u8).map_err(failed)?;
        }
        Ok(())
    }

    /// Sets the model of the emulated link in both directions.
    pub(super) fn impair(&self, words: &str) {
        let model: Model = words.parse().expect("the words are this experiment's own");
        if let Some(emulated) = &self.emulated {
            emulated.bridge.set_model(0, model.clone());
            emulated.bridge.set_model(1, model);
        }
    }

    /// Makes all links except an emulated one like wires: each end has a highest rate, and a queue of this many bytes.
    pub(super) fn wires(&self, rate_kbit: u64, queue_bytes: u64) -> Result<(), CellError> {
        let shape = |space: &Namespace, name: &str| space.shape(name, rate_kbit, queue_bytes);
        shape(&self.source, &down(0)).map_err(failed)?;
        for (host, space) in self.nodes.iter().enumerate() {
            let names = self.outgoing(host);
            let all = names
                .iter()
                .map(String::as_str)
                .chain([self.incoming(host)]);
            for name in all.filter(|name| *name != EMULATED) {
                shape(space, name).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Returns the network of a host.
    pub(super) fn node(&self, host: usize) -> &Namespace {
        &self.nodes[host]
    }

    /// Returns the network of the source.
    pub(super) fn source(&self) -> &Namespace {
        &self.source
    }

    /// Returns the networks of the sinks, in the order of the leaves.
    pub(super) fn sinks(&self) -> &[Namespace] {
        &self.sinks
    }

    /// Returns the address of a host on the side where packets arrive.
    pub(super) fn up(&self, host: usize) -> Ipv4Addr {
        address(net(host), 2)
    }

    /// Returns the source's own address.
    pub(super) fn source_address(&self) -> Ipv4Addr {
        address(net(0), 1)
    }

    /// Returns the address of the sink of a leaf.
    pub(super) fn sink_address(&self, leaf: usize) -> Ipv4Addr {
        address(SINKS + leaf as u8, 2)
    }

    /// Returns the interface of a host at which packets arrive.
    pub(super) fn incoming(&self, host: usize) -> &'static str {
        match self.emulated.is_some() && host == self.shape.behind_lossy() {
            true => EMULATED,
            false => UP,
        }
    }

    /// Returns the interfaces of a host from which packets leave it.
    pub(super) fn outgoing(&self, host: usize) -> Vec<String> {
        let name = |child: usize| match self.incoming(child) {
            EMULATED => EMULATED.to_owned(),
            _ => down(child),
        };
        let children: Vec<String> = self.shape.children(host).map(name).collect();
        match children.is_empty() {
            true => vec![SINK.to_owned()],
            false => children,
        }
    }

    /// Opens something in one of the networks, such as a socket.
    pub(super) fn within<T: Send>(
        space: &Namespace,
        work: impl FnOnce() -> std::io::Result<T> + Send,
    ) -> Result<T, CellError> {
        let done = space.run(work).map_err(failed)?;
        done.map_err(|error| CellError(error.to_string()))
    }
}

/// The interface of a leaf towards its sink.
const SINK: &str = "to-sink";
/// The third number of the sinks' addresses begins here.
const SINKS: u8 = 100;

/// Returns the name of the interface towards a child; the source's is the one towards the first host.
fn down(child: usize) -> String {
    format!("to-{child}")
}

/// Returns the third number of the addresses on the link into a host.
fn net(host: usize) -> u8 {
    host as u8
}

fn address(net: u8, end: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 93, net, end)
}

fn cable(above: &Namespace, name: &str, below: &Namespace, net: u8) -> Result<(), SetupError> {
    above.veth(name, below, UP)?;
    let give = |space: &Namespace, end: u8, device: &str| {
        let address = format!("{}/24", address(net, end));
        space.ip(&["addr", "add", &address, "dev", device])
    };
    give(above, 1, name)?;
    give(below, 2, UP)
}

impl Emulated {
    fn new(between: [&Namespace; 2], net: u8, seed: u64) -> Result<Emulated, CellError> {
        let file = |space: &Namespace| Place::Namespace(space.path().display().to_string());
        let options = Options {
            between: between.map(file),
            models: [Model::default(), Model::default()],
            interface: EMULATED.to_owned(),
            addresses: [1, 2].map(|end| vec![format!("{}/24", address(net, end))]),
            mtu: MTU,
            seed,
            seconds: None,
        };
        let ends = end::open(&options).map_err(|error| CellError(error.to_string()))?;
        let taps = ends.each_ref().map(End::tap);
        let bridge = Bridge::start(taps, &options.models, seed);
        Ok(Emulated {
            bridge: bridge.map_err(|error| CellError(error.to_string()))?,
            _ends: ends,
        })
    }
}

/// Makes an error from a failed step of the setup.
pub(super) fn failed(error: SetupError) -> CellError {
    CellError(error.to_string())
}

/// The group, as in the paper: in the block that stays within an organisation.
pub(super) const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);
/// The port of the group's packets.
pub(super) const PORT: u16 = 5_004;
/// Any address with that port.
pub(super) const ANY: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT);

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(shape: Shape, host: usize) -> usize {
        let parent = shape.hosts()[host].parent;
        1 + parent.map_or(0, |parent| depth(shape, parent))
    }

    #[test]
    fn the_chain_and_the_tree_are_those_of_the_paper() {
        for (shape, hosts, leaves, branching) in [
            (Shape::Chain, 4, vec!["P4"], 0),
            (Shape::Tree, 7, vec!["P1", "P4", "P6", "P7"], 3),
        ] {
            assert_eq!(shape.hosts().len(), hosts);
            let names = shape
                .leaves()
                .into_iter()
                .map(|leaf| shape.hosts()[leaf].name);
            assert!(names.eq(leaves.iter().copied()));
            let out = |host| shape.children(host).count();
            let two = (0..hosts).filter(|host| out(*host) == 2).count();
            assert_eq!(two, branching, "the others have one: a child or a sink");
            assert!((0..hosts).all(|host| out(host) <= 2));
            let deepest = (0..hosts).map(|host| depth(shape, host)).max();
            assert_eq!(deepest, Some(4));
            let parents = shape.hosts().iter().enumerate();
            let mut parents = parents.map(|(place, host)| (place, host.parent));
            assert_eq!(parents.next(), Some((0, None)));
            assert!(parents.all(|(place, parent)| parent.is_some_and(|p| p < place)));
            assert!(leaves.contains(&shape.drawn()));
        }
        assert_eq!((Shape::Chain.copies(), Shape::Tree.copies()), (4, 10));
    }

    #[test]
    fn the_lossy_link_is_the_middle_one_of_the_longest_branch() {
        for (shape, name) in [(Shape::Chain, "P3"), (Shape::Tree, "P5")] {
            let behind = shape.behind_lossy();
            assert_eq!(
                (shape.hosts()[behind].name, depth(shape, behind)),
                (name, 3)
            );
        }
    }
}
