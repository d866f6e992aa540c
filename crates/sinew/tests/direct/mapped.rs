//! Routers that map a port to a node, by each of the protocols.

use super::{Nat, quiet_site, time_to_link};
use crate::gateway::{Gateway, Speaks};
use crate::igd::Igd;
use std::fs;
use std::net::Ipv4Addr;

/// One router maps a port, which opens it to the symmetric NAT of the other one. The other router is itself behind a
/// NAT.
#[test]
fn a_symmetric_nat_opens_where_the_router_maps_a_port() {
    let Some(mut site) = quiet_site("mapped", [Nat::Symmetric; 2]) else {
        return;
    };
    let at = |text: &str| -> Ipv4Addr { text.parse().unwrap() };
    let given = [(at("198.51.100.2"), 40_001), (at("100.64.3.2"), 40_002)];
    let [b_router, c_router] = &site.routers;
    let b_gateway = Gateway::start(b_router, Speaks::Pcp, at("10.97.1.1"), given[0]);
    let c_gateway = Gateway::start(c_router, Speaks::NatPmp, at("10.97.2.1"), given[1]);
    // A server has a router, too, and the address from which it asks is public.
    site.hosts[0]
        .ip(&["route", "add", "default", "via", "198.51.100.2"])
        .unwrap();
    site.launch();
    let world = &site.world;
    let mapping = |name: &str| world.status(name)["mapping"].clone();
    world.wait("both routers are asked", || {
        mapping("b")["state"] == "mapped" && mapping("c")["state"] == "double-nat"
    });
    let told = mapping("b");
    assert_eq!(told["at"], "198.51.100.2:40001", "{told}");
    assert_eq!(told["by"], "PCP", "{told}");
    assert_eq!(*c_gateway.open.lock().unwrap(), None, "it is of no use");
    let told = mapping("a");
    assert_eq!(told["state"], "off", "{told}");
    assert_eq!(told["why"], "this host has a public address", "{told}");
    let took = time_to_link(&site);
    println!(
        "symmetric-symmetric, mapped: direct after {} ms",
        took.as_millis()
    );
    let links = site.world.json("links --node net/c").to_string();
    assert!(links.contains("198.51.100.2:40001"), "{links}");
    // The node gives back a mapping at once when it is no longer wanted, and all mappings at its end.
    let open = || *b_gateway.open.lock().unwrap();
    assert_eq!(open(), Some(40_001));
    site.world.configure("b", "map_port = false");
    let taken = site.world.sinew("reload --node net/b");
    assert!(taken.contains("map_port"), "{taken}");
    site.world.wait("the port is closed", || open().is_none());
    let path = site.world.node("b").join("node.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("map_port = false", "map_port = true")).unwrap();
    site.world.sinew("reload --node net/b");
    site.world.wait("the port is open", || open().is_some());
    site.world.stop("b");
    site.world.wait("the port is closed", || open().is_none());
}

/// The same with a router that knows only UPnP. Another host has the port already.
#[test]
fn a_symmetric_nat_opens_where_the_router_maps_a_port_by_upnp() {
    let Some(mut site) = quiet_site("upnp", [Nat::Symmetric; 2]) else {
        return;
    };
    let at = |text: &str| -> Ipv4Addr { text.parse().unwrap() };
    let igd = Igd::start(&site.routers[0], at("10.97.1.1"), at("198.51.100.2"));
    site.launch();
    let mapping = |name: &str| site.world.status(name)["mapping"].clone();
    site.world.wait("both routers are asked", || {
        mapping("b")["state"] == "mapped" && mapping("c")["state"] == "silent"
    });
    let (told, open) = (mapping("b"), || *igd.open.lock().unwrap());
    let outside = format!("198.51.100.2:{}", open().unwrap());
    assert_eq!(told["at"], outside, "{told}");
    assert_eq!(told["by"], "UPnP", "{told}");
    let shown = site.world.sinew("status --node net/b");
    assert!(shown.contains(&format!("{outside} by UPnP")), "{shown}");
    let took = time_to_link(&site);
    println!(
        "symmetric-symmetric, mapped by UPnP: direct after {} ms",
        took.as_millis()
    );
    let links = site.world.json("links --node net/c").to_string();
    assert!(links.contains(&outside), "{links}");
    site.world.stop("b");
    site.world.wait("the port is closed", || open().is_none());
}
