//! Nodes in networks of their own, wired to each other, and places for phones beside them.
//!
//! ```text
//!   place "alice" 10.91.1.2 ── 10.91.1.1 ams (10.90.0.1) ── wire ── (10.90.0.2) mid ── wire ── fra …
//! ```
//!
//! A node is reached at an address of its own, `10.90.0.N`, by whoever has a wire to it, and by
//! nobody else: what gets from one end to the other went over the overlay.

use crate::world::World;
use net::netns::Namespace;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// A network of nodes, in which the first one has number 1.
pub(crate) struct Land {
    pub(crate) world: World,
    nodes: Vec<&'static str>,
    places: BTreeMap<&'static str, Namespace>,
    wires: u32,
}

impl Land {
    /// Nodes with the domains that each serves, and the links between them; none runs.
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

    /// Starts every node, and waits until each has a route to each.
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

    /// The network of a node or a phone; it is made if there is none.
    pub(crate) fn place(&mut self, name: &'static str) -> &Namespace {
        self.places
            .entry(name)
            .or_insert_with(|| Namespace::new().unwrap())
    }

    /// The network of a node or a phone that was made.
    pub(crate) fn at(&self, name: &str) -> &Namespace {
        &self.places[name]
    }

    /// Where a node is reached by other nodes.
    pub(crate) fn address(&self, node: &str) -> Ipv4Addr {
        let number = self.nodes.iter().position(|name| *name == node).unwrap() + 1;
        Ipv4Addr::new(10, 90, 0, number as u8)
    }

    /// A place beside a node: where the place is, by interface `eth0`, and where the node is for it.
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

    /// A wire between two nodes, and the way to each other over it.
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
