//! An issuer has stopped for good, and its members get their certificates from another one: real
//! processes over real sockets.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod world;

use secure::{Authority, Certificate, Delegation, Mandate, Validity};
use std::fs;
use wire::certificate::Delegation as Fields;
use world::World;

/// Makes the delegation of `a` again, for certificates of some seconds, which no command makes.
fn shorten(world: &World, lifetime_s: u32) {
    let net = world.dir.join("net");
    let read = |name: &str| fs::read_to_string(net.join(name)).unwrap();
    let mut authority = Authority::from_text(&read("network.key")).unwrap();
    let certificate = Certificate::from_text(&read("a/node.cert")).unwrap();
    let made = Delegation::from_text(&read("a/node.delegation")).unwrap();
    let fields = made.fields();
    let mandate = Mandate {
        addresses: fields.addresses,
        certificates: 1_000,
        validity: Validity {
            not_before_s: fields.not_before_s,
            not_after_s: fields.not_after_s,
        },
        lifetime_s,
        names: "",
        domains: &[],
        groups: Some(&[]),
        tags: &[],
    };
    let short = authority.delegate(&certificate, &mandate).unwrap();
    fs::write(net.join("a/node.delegation"), short.to_text()).unwrap();
    // Later delegations have higher serials.
    fs::write(net.join("network.key"), authority.to_text().as_str()).unwrap();
}

fn certificate(world: &World, name: &str) -> Certificate {
    let text = fs::read_to_string(world.node(name).join("node.cert")).unwrap();
    Certificate::from_text(&text).unwrap()
}

#[test]
fn a_member_of_a_dead_issuer_is_renewed_by_another_one_before_its_certificate_ends() {
    let mut world = World::new("renewal-dead");
    world.add("a", 1, "");
    world.add("b", 2, "");
    world.sinew("net delegate net a");
    world.sinew("net delegate net b");
    shorten(&world, 27);
    world.sinew("net delegate net b --renews a");
    world.start("a");
    world.start("b");
    let token = world.sinew("invite net/a");
    let (home, other) = (world.endpoint(3), world.endpoint(2));
    world.sinew(&format!(
        "join {} --name home --dir net/home --listen {home} --start no",
        token.trim()
    ));
    let config = world.node("home").join("node.toml");
    let text = fs::read_to_string(&config).unwrap();
    let b = certificate(&world, "b");
    let address = b.fields().subject.address;
    let link =
        format!("[[neighbor]]\nname = \"b\"\naddress = \"{address}\"\nendpoint = \"{other}\"\n");
    fs::write(&config, format!("{text}\n{link}")).unwrap();
    // The node's own issuer has reported the other one.
    let told = fs::read_to_string(world.node("home").join("issuers.json")).unwrap();
    assert!(told.contains(&other.to_string()), "{told}");
    world.start("home");
    world.wait_for_link("b", "home");
    let first = certificate(&world, "home");
    world.kill("a");
    world.ping("home --node net/b --count 3");
    let (mut sent, mut received) = (0, 0);
    world.wait("the other issuer has renewed the certificate", || {
        let said = world.json("ping home --node net/b --count 20 --interval 10ms --timeout 5s");
        sent += said["sent"].as_u64().unwrap();
        received += said["received"].as_u64().unwrap();
        certificate(&world, "home") != first
    });
    let second = certificate(&world, "home");
    let (before, after) = (first.fields(), second.fields());
    assert_eq!(after.subject, before.subject);
    let by = Fields::parse(after.options.delegation().unwrap()).unwrap();
    assert_eq!(by.issuer, b.fields().subject.signing_key);
    // The renewal was in time: home always had a valid certificate.
    assert!(after.not_before_s <= before.not_after_s);
    let clock = net::Clock::new();
    world.wait("the first certificate has ended", || {
        let said = world.json("ping home --node net/b --count 20 --interval 10ms --timeout 5s");
        sent += said["sent"].as_u64().unwrap();
        received += said["received"].as_u64().unwrap();
        clock.unix_s() > before.not_after_s
    });
    eprintln!("{received} of {sent} pings were answered while the certificate changed its issuer");
    assert_eq!(received, sent);
    assert_eq!(world.link("b", "home"), "up");
    world.wait_for_line("home", "by another issuer, because its own did not");

    // The books of the other issuer have the renewed certificate, and all certificates that must be
    // revoked.
    let listed = world.json("invite net/b --list");
    assert_eq!(listed["members"].as_array().unwrap().len(), 0);
    let renewed = &listed["renewed_for_others"][0];
    assert_eq!(
        (&renewed["name"], &renewed["by"]),
        (&"home".into(), &"renews-a".into())
    );
    fs::write(
        world.dir.join("home.cert"),
        world.sinew("invite net/b --show home"),
    )
    .unwrap();
    world.sinew("net revoke net home --certificate home.cert --node net/b");
    world.wait("the link is down", || world.link("b", "home") != "up");
}
