//! Nodes in networks of their own, connected by wires, and places for phones next to them.
//!
//! ```text
//!   place "alice" 10.91.1.2 ── 10.91.1.1 ams (10.90.0.1) ── wire ── (10.90.0.2) mid ── wire ── fra …
//! ```
//!
//! A node has its own address, `10.90.0.N`. Only hosts with a wire to the node can reach it, so packets from one end to
//! the other must cross the overlay.

use crate::world::World;
use net::netns::Namespace;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// A network of nodes. The first node has number 1.
pub(crate) struct Land {
    pub(crate) world: World,
    nodes: Vec<&'static str>,
    places: BTreeMap<&'static str, Namespace>,
    wires: u32,
}

impl Land {
    /// Makes nodes with the domains that each serves, and the links between them. None of them runs.
    pub(crate) fn new(
        test: &str,
        nodes: &[(&'static str, &[&str])],
        links: &[(&'static str, &'static str)],
    ) -> Land {
        let mut land = Land {
            world: World::new(test),
            nodes: nodes.iter().map(|(name, _)| *name).collect(),
            places: BTreeMap::new(),
            wires: 0,
        };
        for (name, domains) in nodes {
            let own = format!("{}/32", land.address(name));
            let at = land.place(name);
            at.ip(&["addr", "add", &own, "dev", "lo"]).unwrap();
            let before = land.nodes.iter().take_while(|other| other != &name);
            let dialled = before.filter(|other| {
                links.contains(&(**other, *name)) || links.contains(&(*name, **other))
            });
            let mut dialled = dialled.copied().collect::<Vec<_>>().join(",");
            if dialled.is_empty() {
                dialled = "none".to_owned();
            }
            let domains = domains.iter().map(|domain| format!(" --domain {domain}"));
            land.world.sinew(&format!(
                "net add net {name} --lab --link {dialled} --address {}:7700{}",
                land.address(name),
                domains.collect::<String>()
            ));
        }
        for (a, b) in links {
            land.wire(a, b);
        }
        land
    }

    /// Starts every node, and waits until each has a route to each other one.
    pub(crate) fn start(&mut self) {
        for name in &self.nodes {
            let world = &mut self.world;
            self.places[name].run(|| world.start(name)).unwrap();
        }
        let addresses = self
            .nodes
            .iter()
            .map(|name| self.world.overlay_address(name));
        let addresses: Vec<String> = addresses.collect();
        for (i, name) in self.nodes.iter().enumerate() {
            for (j, address) in addresses.iter().enumerate() {
                let there = || i == j || self.world.has_route(name, address);
                self.world.wait(&format!("{name} knows {address}"), there);
            }
        }
    }

    /// Returns the network of a node or a phone, and makes it if it does not exist.
    pub(crate) fn place(&mut self, name: &'static str) -> &Namespace {
        self.places
            .entry(name)
            .or_insert_with(|| Namespace::new().unwrap())
    }

    /// Returns the existing network of a node or a phone.
    pub(crate) fn at(&self, name: &str) -> &Namespace {
        &self.places[name]
    }

    /// Returns the address at which other nodes reach a node.
    pub(crate) fn address(&self, node: &str) -> Ipv4Addr {
        let number = self.nodes.iter().position(|name| *name == node).unwrap() + 1;
        Ipv4Addr::new(10, 90, 0, number as u8)
    }

    /// Makes a place next to a node. Returns the address of the place, on interface `eth0`, and the node's address for
    /// it.
    pub(crate) fn beside(&mut self, node: &'static str, name: &'static str) -> [Ipv4Addr; 2] {
        self.wires += 1;
        let net = self.wires as u8;
        let there = Ipv4Addr::new(10, 91, net, 2);
        let here = Ipv4Addr::new(10, 91, net, 1);
        self.place(name);
        let (node_at, place) = (&self.places[node], &self.places[name]);
        let interface = format!("p{net}");
        place.veth("eth0", node_at, &interface).unwrap();
        for (at, address, device) in [(place, there, "eth0"), (node_at, here, &*interface)] {
            at.ip(&["addr", "add", &format!("{address}/24"), "dev", device])
                .unwrap();
        }
        place
            .ip(&["route", "add", "default", "via", &here.to_string()])
            .unwrap();
        [there, here]
    }

    /// Makes a wire between two nodes, and the routes over it.
    fn wire(&mut self, a: &'static str, b: &'static str) {
        self.wires += 1;
        let names = ["a", "b"].map(|end| format!("w{}{end}", self.wires));
        let (at_a, at_b) = (&self.places[a], &self.places[b]);
        at_a.veth(&names[0], at_b, &names[1]).unwrap();
        for (at, name, here, there) in [(at_a, &names[0], a, b), (at_b, &names[1], b, a)] {
            let (here, there) = (
                self.address(here).to_string(),
                self.address(there).to_string(),
            );
            let route = [&format!("{there}/32"), "dev", name, "src", &here];
            at.ip(&[&["route", "add"], &route[..]].concat()).unwrap();
        }
    }
}
