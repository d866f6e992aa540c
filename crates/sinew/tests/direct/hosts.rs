//! Nodes that can reach each other only at the addresses of their own interfaces.
//!
//! ```text
//!   b 10.97.1.2 ──┐
//!                 lan, router 198.51.100.2 ── 198.51.100.1 core, and the node a
//!   c 10.97.1.3 ──┘    masquerade, and nothing from inside to 198.51.100.2 comes back in
//! ```

use super::{DIRECT_GOAL, Nat, Site, network, ping, quiet_site, rules, time_to_link};
use crate::world::nft;
use net::netns::{Namespace, available};

fn ip(at: &Namespace, words: &str) {
    let words: Vec<&str> = words.split(' ').collect();
    at.ip(&words).unwrap();
}

/// Makes a house with the hosts of `b` and `c`. Returns `None` and prints a line if the kernel or
/// nftables cannot.
fn house(test: &str) -> Option<Site> {
    if let Err(why) = available() {
        eprintln!("SKIPPED: {test}: {why}");
        return None;
    }
    let [core, router, b, c] = [0; 4].map(|_| Namespace::new().unwrap());
    router.veth("r1", &core, "c1").unwrap();
    ip(&core, "addr add 198.51.100.1/24 dev c1");
    ip(&router, "addr add 198.51.100.2/24 dev r1");
    ip(&router, "link add lan type bridge");
    for (host, n) in [(&b, 2), (&c, 3)] {
        host.veth("i0", &router, &format!("l{n}")).unwrap();
        ip(&router, &format!("link set l{n} master lan"));
        ip(host, &format!("addr add 10.97.1.{n}/24 dev i0"));
        ip(host, "route add default via 10.97.1.1");
    }
    ip(&router, "addr add 10.97.1.1/24 dev lan");
    ip(&router, "link set lan up");
    router.sysctl("net/ipv4/ip_forward", "1").unwrap();
    if !nft::load(&router, &rules(1, Nat::PortRestricted, None)) {
        eprintln!("SKIPPED: {test}: nftables cannot masquerade here");
        return None;
    }
    Some(Site {
        world: network(test, [("10.97.1.2:7700", 1), ("10.97.1.3:7700", 1)]),
        routers: [router, Namespace::new().unwrap()],
        hosts: [core, b, c],
    })
}

#[test]
fn two_nodes_in_one_house_link_within_it() {
    let Some(mut site) = house("house") else {
        return;
    };
    site.launch();
    let took = time_to_link(&site);
    println!("in one house: direct after {} ms", took.as_millis());
    let links = site.world.json("links --node net/b").to_string();
    assert!(links.contains("10.97.1.3:7700"), "{links}");
}

#[test]
fn a_node_that_is_told_to_says_nothing_of_its_own_addresses() {
    let Some(mut site) = house("quiet-house") else {
        return;
    };
    let path = site.world.node("c").join("node.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text + "\n[settings]\nhost_addresses = false\n").unwrap();
    site.launch();
    let said = ping(&site.world, 40);
    assert_eq!(said["received"], 40, "{said}");
    assert_ne!(site.world.link("b", "c"), "up");
}

/// Both hosts have public addresses of IPv6, at which no neighbour sees them.
#[test]
fn two_nodes_behind_closed_nats_link_by_the_other_family() {
    let Some(mut site) = quiet_site("six", [Nat::Symmetric; 2]) else {
        return;
    };
    let [core, hosts @ ..] = &site.hosts;
    let forward = |at: &Namespace| at.sysctl("net/ipv6/conf/all/forwarding", "1").unwrap();
    forward(core);
    for (n, (host, router)) in (1..).zip(hosts.iter().zip(&site.routers)) {
        forward(router);
        ip(
            core,
            &format!("addr add 2001:db8:9:{n}::1/64 dev c{n} nodad"),
        );
        ip(
            router,
            &format!("addr add 2001:db8:9:{n}::2/64 dev r1 nodad"),
        );
        ip(
            router,
            &format!("addr add 2001:db8:0:{n}::1/64 dev r0 nodad"),
        );
        ip(host, &format!("addr add 2001:db8:0:{n}::2/64 dev i0 nodad"));
        ip(host, &format!("-6 route add default via 2001:db8:0:{n}::1"));
        ip(
            router,
            &format!("-6 route add default via 2001:db8:9:{n}::1"),
        );
        ip(
            core,
            &format!("-6 route add 2001:db8:0:{n}::/64 via 2001:db8:9:{n}::2"),
        );
    }
    for name in ["b", "c"] {
        site.world.listen(name, "0.0.0.0:7700\", \"[::]:7700");
    }
    site.launch();
    let took = time_to_link(&site);
    println!("by the other family: direct after {} ms", took.as_millis());
    let links = site.world.json("links --node net/b").to_string();
    assert!(links.contains("[2001:db8:0:2::2]:7700"), "{links}");
}

#[test]
#[ignore = "measures a goal, on a quiet machine"]
fn goals() {
    if let Some(mut site) = house("house-goal") {
        site.launch();
        let took = time_to_link(&site);
        println!("in one house: direct after {} ms", took.as_millis());
        assert!(took <= DIRECT_GOAL, "{took:?}");
    }
}
