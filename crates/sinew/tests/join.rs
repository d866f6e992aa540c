//! Hosts that join by one line: real processes over real sockets, as an operator has them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod world;

use secure::{Authority, Certificate, Delegation, Mandate, Validity};
use std::collections::BTreeSet;
use std::fs;
use world::{World, failure};

/// A running node that may certify others.
fn issuer(test: &str) -> World {
    let mut world = World::new(test);
    world.add("a", 1, "");
    world.sinew("net delegate net a");
    world.start("a");
    world
}

fn invite(world: &World, more: &str) -> String {
    world
        .sinew(&format!("invite net/a {more}"))
        .trim()
        .to_owned()
}

fn join(world: &World, token: &str, name: &str, number: u16) -> String {
    let at = world.endpoint(number);
    format!("join {token} --name {name} --dir net/{name} --listen {at} --start no")
}

#[test]
fn a_host_that_was_invited_is_a_node_and_one_that_was_not_is_none() {
    let mut world = issuer("join");
    let token = invite(&world, "");
    let command = join(&world, &token, "home", 2);
    let said = world.sinew(&command);
    assert!(
        said.contains("this host is home with overlay address 10.7.0."),
        "{said}"
    );
    // Run again, as by a container that starts anew, it starts what is there.
    assert_eq!(world.sinew(&command), said);
    world.start("home");
    world.wait_for_link("a", "home");
    world.ping("home --node net/a --count 3");
    // The same host again, whose answer was lost: the same certificate.
    let certificate = fs::read_to_string(world.node("home").join("node.cert")).unwrap();
    let kept = fs::read_to_string(world.node("home").join("node.toml")).unwrap();
    fs::remove_file(world.node("home").join("node.toml")).unwrap();
    world.sinew(&command);
    let again = fs::read_to_string(world.node("home").join("node.cert")).unwrap();
    assert_eq!(again, certificate);
    assert_eq!(
        fs::read_to_string(world.node("home").join("node.toml")).unwrap(),
        kept
    );
    // Another host with the same token.
    let (status, why) = failure(&world.try_sinew(&join(&world, &token, "thief", 3)));
    assert_eq!(status, 1);
    assert!(
        why.contains("this token has been used: ask for a new one"),
        "{why}"
    );
    assert!(!world.node("thief").join("node.cert").exists());
    // One that was withdrawn.
    let token = invite(&world, "--uses 2");
    let listed = world.json("invite net/a --list");
    assert_eq!(listed["members"][0]["name"], "home");
    let id = listed["open"][0]["id"].as_str().unwrap();
    world.sinew(&format!("invite net/a --withdraw {}", &id[..8]));
    let (status, why) = failure(&world.try_sinew(&join(&world, &token, "late", 3)));
    assert_eq!(status, 1);
    assert!(why.contains("this token opens nothing here"), "{why}");
    // A name that is taken.
    let token = invite(&world, "");
    let again = format!(
        "{} --dir net/other",
        join(&world, &token, "a", 3).replace("--dir net/a", "")
    );
    let (_, why) = failure(&world.try_sinew(&again));
    assert!(
        why.contains("another node is called `a`: choose a name by --name"),
        "{why}"
    );
    // Revoked by the root, it is out, and the issuer renews nothing for it.
    let shown = world.sinew("invite net/a --show home");
    fs::write(world.dir.join("home.cert"), shown).unwrap();
    world.sinew("net revoke net home --certificate home.cert --node net/a");
    world.wait("the link is down", || world.link("a", "home") != "up");
}

#[test]
fn many_hosts_join_at_once_by_one_token_and_no_more_than_it_says() {
    const HOSTS: u16 = 12;
    let world = issuer("join-many");
    let token = invite(&world, &format!("--uses {HOSTS}"));
    let joined: Vec<bool> = std::thread::scope(|scope| {
        let joins = (0..HOSTS + 3).map(|n| {
            let command = join(&world, &token, &format!("n{n}"), 10 + n);
            let world = &world;
            scope.spawn(move || world.try_sinew(&command).status.success())
        });
        let joins: Vec<_> = joins.collect();
        joins.into_iter().map(|join| join.join().unwrap()).collect()
    });
    assert_eq!(
        joined.iter().filter(|joined| **joined).count(),
        usize::from(HOSTS)
    );
    let listed = world.json("invite net/a --list");
    let members = listed["members"].as_array().unwrap();
    let each = |key: &str| {
        members
            .iter()
            .map(|it| it[key].to_string())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(each("address").len(), usize::from(HOSTS));
    assert_eq!(each("serial").len(), usize::from(HOSTS));
    assert_eq!(listed["open"].as_array().unwrap().len(), 0);
}

#[test]
fn a_certificate_is_renewed_before_it_ends_while_the_node_runs() {
    let mut world = World::new("join-renewed");
    world.add("a", 1, "");
    world.sinew("net delegate net a");
    // Certificates of some seconds, which no command makes.
    let read = |name: &str| fs::read_to_string(world.dir.join("net").join(name)).unwrap();
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
        lifetime_s: 12,
        names: "",
        domains: &[],
    };
    let short = authority.delegate(&certificate, &mandate).unwrap();
    fs::write(world.node("a").join("node.delegation"), short.to_text()).unwrap();
    world.start("a");
    let token = invite(&world, "");
    world.sinew(&join(&world, &token, "home", 2));
    world.start("home");
    world.wait_for_link("a", "home");
    let serial = || {
        let text = fs::read_to_string(world.node("home").join("node.cert")).unwrap();
        Certificate::from_text(&text).unwrap().fields().serial
    };
    let first = serial();
    // Twice: the second time with a certificate that the engine took while it ran.
    world.wait("the certificate was renewed twice", || {
        serial() >= first + 2
    });
    world.wait_for_link("a", "home");
    world.ping("home --node net/a --count 3");
    assert!(world.log("home").contains("the certificate was renewed"));
}

#[test]
fn tokens_of_other_networks_and_issuers_open_nothing() {
    let one = issuer("join-one");
    let other = issuer("join-other");
    let token = invite(&other, "");
    // The other issuer's token at this one's door: the key there is not the one that the token names.
    let (there, here) = (other.endpoint(1).to_string(), one.endpoint(1).to_string());
    assert_ne!(there, here);
    let parsed: sinew::invitation::Token = token.parse().unwrap();
    let misled = sinew::invitation::Token {
        endpoints: vec![here],
        ..parsed
    };
    let (status, why) = failure(&one.try_sinew(&join(&one, &misled.to_string(), "x", 3)));
    assert_eq!(status, 1);
    assert!(why.contains("something else answers there"), "{why}");
    let nobody = sinew::invitation::Token {
        endpoints: vec![one.endpoint(99).to_string()],
        ..misled
    };
    let (status, why) = failure(&one.try_sinew(&join(&one, &nobody.to_string(), "x", 3)));
    assert_eq!(status, 1);
    assert!(why.contains("the token still holds"), "{why}");
    // A node that issues nothing.
    let mut plain = World::new("join-plain");
    plain.add("a", 1, "");
    let (status, why) = failure(&plain.try_sinew("invite net/a"));
    assert_eq!(status, 2);
    assert!(why.contains("issues no certificates"), "{why}");
    plain.start("a");
    let identity =
        Certificate::from_text(&fs::read_to_string(plain.node("a").join("node.cert")).unwrap())
            .unwrap();
    let asked = sinew::invitation::Token {
        endpoints: vec![plain.endpoint(1).to_string()],
        issuer: identity.fields().subject.signing_key,
        ..nobody
    };
    let (_, why) = failure(&plain.try_sinew(&join(&plain, &asked.to_string(), "x", 3)));
    assert!(why.contains("issues no certificates"), "{why}");
}

#[test]
fn up_makes_a_network_whose_first_node_invites() {
    let mut world = World::new("join-up");
    fs::remove_dir_all(world.dir.join("net")).unwrap();
    let at = world.endpoint(1);
    let said = world.sinew(&format!("up net --node a --address {at} --start no"));
    assert!(said.contains("sinew invite net/a"), "{said}");
    // Again: nothing is made anew.
    let key = fs::read_to_string(world.node("a").join("node.key")).unwrap();
    world.sinew(&format!("up net --node a --address {at} --start no"));
    assert_eq!(
        fs::read_to_string(world.node("a").join("node.key")).unwrap(),
        key
    );
    world.start("a");
    // The delegation of `up` gives no domains.
    let (status, why) = failure(&world.try_sinew("invite --domain none.example"));
    assert_eq!(status, 2);
    assert!(
        why.contains("may not give the domain `none.example`"),
        "{why}"
    );
    let (status, why) = failure(&world.try_sinew("invite --name a/b"));
    assert_eq!(status, 2);
    assert!(why.contains("gives no such name"), "{why}");
    // A network whose root key was moved away is not overwritten.
    let key = world.dir.join("net/network.key");
    fs::rename(&key, world.dir.join("safe.key")).unwrap();
    let (status, why) =
        failure(&world.try_sinew(&format!("up net --node b --address {at} --start no")));
    assert_eq!(status, 1);
    assert!(why.contains("holds a network already"), "{why}");
    let token = world.sinew("invite").trim().to_owned();
    world.sinew(&join(&world, &token, "home", 2));
    world.start("home");
    world.wait_for_link("a", "home");
}
