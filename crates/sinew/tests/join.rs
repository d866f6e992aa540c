//! Hosts that join with one line: real processes with real sockets, as an operator uses them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod world;

use clap::Parser;
use secure::{Authority, Certificate, Delegation, Mandate, Validity};
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};
use world::{World, failure};

/// Starts a node that may certify others.
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
    // If the command runs again, for example in a container that restarts, it starts the existing node.
    assert_eq!(world.sinew(&command), said);
    world.start("home");
    world.wait_for_link("a", "home");
    world.ping("home --node net/a --count 3");
    // The same host joins again, as if its answer was lost: it gets the same certificate.
    let certificate = fs::read_to_string(world.node("home").join("node.cert")).unwrap();
    let kept = fs::read_to_string(world.node("home").join("node.toml")).unwrap();
    fs::remove_file(world.node("home").join("node.toml")).unwrap();
    // Another issuer has reported further issuers before; this one reports none.
    let told = world.node("home").join("issuers.json");
    fs::write(&told, "[]").unwrap();
    world.sinew(&command);
    assert!(!told.exists());
    let again = fs::read_to_string(world.node("home").join("node.cert")).unwrap();
    assert_eq!(again, certificate);
    assert_eq!(
        fs::read_to_string(world.node("home").join("node.toml")).unwrap(),
        kept
    );
    // Another host uses the same token.
    let (status, why) = failure(&world.try_sinew(&join(&world, &token, "thief", 3)));
    assert_eq!(status, 1);
    assert!(
        why.contains("this token has been used: ask for a new one"),
        "{why}"
    );
    assert!(!world.node("thief").join("node.cert").exists());
    // A withdrawn token.
    let token = invite(&world, "--uses 2");
    let listed = world.json("invite net/a --list");
    assert_eq!(listed["members"][0]["name"], "home");
    let id = listed["open"][0]["id"].as_str().unwrap();
    world.sinew(&format!("invite net/a --withdraw {}", &id[..8]));
    let (status, why) = failure(&world.try_sinew(&join(&world, &token, "late", 3)));
    assert_eq!(status, 1);
    assert!(why.contains("this token opens nothing here"), "{why}");
    // A name that another node has.
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
    // The root revokes the node: its link goes down, and the issuer does not renew its certificate.
    let shown = world.sinew("invite net/a --show home");
    fs::write(world.dir.join("home.cert"), shown).unwrap();
    world.sinew("net revoke net home --certificate home.cert --node net/a");
    world.wait("the link is down", || world.link("a", "home") != "up");
}

#[test]
fn a_service_shows_its_links_once_they_are_up_and_waits_for_them_no_longer_than_is_said() {
    let mut world = issuer("join-links");
    let token = invite(&world, "");
    world.sinew(&join(&world, &token, "home", 2));
    let shown = |world: &World, name: &str, patience| {
        let look = cli::terminal::look_for(&cli::table::Wish::default());
        let node = world.dir.join("net").join(name);
        cli::show::links_once_up(&node, patience, &look).unwrap()
    };
    // A node that dials no other node has no links, and the function does not wait.
    let none = shown(&world, "a", Duration::from_secs(60));
    assert!(none.contains("no links"), "{none}");
    // Like `systemctl enable --now`, which returns before there are links.
    world.launch("home");
    let links = shown(&world, "home", Duration::from_secs(60));
    let row = links.lines().find(|line| line.starts_with("a ")).unwrap();
    assert!(row.contains(" up "), "{links}");
    world.stop("a");
    world.wait("the link is gone", || world.link("home", "a") != "up");
    let links = shown(&world, "home", Duration::from_millis(100));
    assert!(!links.contains(" up "), "{links}");
}

#[test]
fn an_issuer_says_in_time_that_its_delegation_ends() {
    let mut world = World::new("join-delegation");
    world.add("a", 1, "");
    world.sinew("net delegate net a --days 20");
    let config = world.node("a").join("node.toml");
    let metrics = world.endpoint(9);
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("metrics = \"{metrics}\"\n{text}")).unwrap();
    world.start("a");
    let line = world.wait_for_line("a", "the delegation of this issuer ends in 20 days");
    assert!(line.contains("sinew net delegate DIR a"), "{line}");
    let issuer = &world.status("a")["issuer"];
    assert_eq!(issuer["delegation_ends_soon"], true, "{issuer}");
    let shown = world.sinew("status --node net/a");
    assert!(shown.contains("WRONG") && shown.contains("SOON"), "{shown}");
    let page = world.get(metrics);
    let ends_s = issuer["delegation_not_after_s"].as_u64().unwrap();
    let gauge = format!("sinew_delegation_expiry_timestamp_seconds {ends_s}\n");
    assert!(page.contains(&gauge), "{page}");
    let told = world.try_sinew("doctor net/a").stdout;
    let told = String::from_utf8(told).unwrap();
    assert!(told.contains("weak  delegation"), "{told}");
    // A delegation with enough time gives no warning.
    world.stop("a");
    world.sinew("net delegate net a --days 200");
    world.start("a");
    assert_eq!(world.status("a")["issuer"]["delegation_ends_soon"], false);
    assert_eq!(world.log("a").matches("this issuer ends").count(), 1);
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

/// Lets hosts join at the same time. They become one network: every node knows every other one, over at most eight
/// links each on average, and no two nodes are needed by all others. Returns how long that takes after the last one has
/// started.
fn join_and_find_each_other(test: &str, hosts: u16) -> Duration {
    let mut world = issuer(test);
    let token = invite(&world, &format!("--uses {hosts}"));
    let names: Vec<String> = (0..hosts).map(|n| format!("n{n}")).collect();
    std::thread::scope(|scope| {
        for (name, number) in names.iter().zip(10..) {
            let command = join(&world, &token, name, number);
            let command = format!("{command} --address {}", world.endpoint(number));
            let world = &world;
            scope.spawn(move || world.sinew(&command));
        }
    });
    for name in &names {
        world.launch(name);
    }
    let known = |name: &str| {
        let peers = world.try_sinew(&format!("peers --node net/{name} --json"));
        let peers: serde_json::Value = serde_json::from_slice(&peers.stdout).unwrap_or_default();
        peers.as_array().map_or(0, Vec::len)
    };
    let began = Instant::now();
    let all: Vec<&str> = names.iter().map(String::as_str).chain(["a"]).collect();
    for name in &all {
        world.wait("everybody is known", || known(name) == all.len());
    }
    // Trial links, and the links by which the hosts entered, end when there are others.
    world.wait("no two nodes are needed, by few links", || {
        let of = |name| up(&world, name).into_iter().map(move |to| (name, to));
        let links: Vec<_> = all.iter().copied().flat_map(of).collect();
        let is_whole = |without| reached(&all, &links, without) == all.len() - 2;
        let is_whole = pairs(&all).iter().all(is_whole);
        let degree = links.len() as f64 / all.len() as f64;
        let whole = if is_whole { "whole" } else { "not whole" };
        eprintln!(
            "{hosts} hosts: {whole} after {:.1?}, {degree:.1} links each",
            began.elapsed()
        );
        is_whole && degree <= 8.0
    });
    began.elapsed()
}

/// Returns the neighbours of a node whose links are up.
fn up(world: &World, name: &str) -> Vec<String> {
    let status = world.status(name);
    let links = status["snapshot"]["links"].as_array().unwrap();
    let links = links.iter().filter(|link| link["state"] == "up");
    links
        .map(|link| link["name"].as_str().unwrap().to_owned())
        .collect()
}

fn pairs<'a>(names: &[&'a str]) -> Vec<[&'a str; 2]> {
    let pair = |i: usize| names[i + 1..].iter().map(move |&other| [names[i], other]);
    (0..names.len()).flat_map(pair).collect()
}

/// Returns how many nodes the first remaining node still reaches.
fn reached(all: &[&str], links: &[(&str, String)], without: &[&str; 2]) -> usize {
    let first = *all.iter().find(|name| !without.contains(name)).unwrap();
    let mut seen = BTreeSet::from([first]);
    let mut next = vec![first];
    while let Some(name) = next.pop() {
        for (from, to) in links {
            let to = to.as_str();
            if *from == name && !without.contains(&to) && seen.insert(to) {
                next.push(to);
            }
        }
    }
    seen.len()
}

#[test]
fn hosts_that_join_at_once_find_each_other() {
    join_and_find_each_other("join-mesh", 12);
}

#[test]
#[ignore = "61 nodes at once, on a quiet machine"]
fn sixty_hosts_that_join_at_once_find_each_other() {
    let took = join_and_find_each_other("join-sixty", 60);
    assert!(took <= Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_certificate_is_renewed_before_it_ends_while_the_node_runs() {
    let mut world = World::new("join-renewed");
    world.add("a", 1, "");
    world.sinew("net delegate net a");
    // Make certificates of some seconds, which no command makes.
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
        groups: None,
        tags: &[],
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
    world.ping("home --node net/a --count 3");
    let (mut sent, mut received) = (0, 0);
    // The certificate is renewed twice. The second time, the old one is one that the engine took while it ran.
    world.wait("the certificate was renewed twice", || {
        let said = world.json("ping home --node net/a --count 20 --interval 10ms --timeout 5s");
        sent += said["sent"].as_u64().unwrap();
        received += said["received"].as_u64().unwrap();
        serial() >= first + 2
    });
    eprintln!("{received} of {sent} pings were answered while the certificate was renewed twice");
    assert_eq!(received, sent);
    world.wait_for_link("a", "home");
    world.ping("home --node net/a --count 3");
    assert!(world.log("home").contains("the certificate was renewed"));
}

#[test]
fn tokens_of_other_networks_and_issuers_open_nothing() {
    let one = issuer("join-one");
    let other = issuer("join-other");
    let token = invite(&other, "");
    // The other issuer's token is used at this issuer: the key here is not the one that the token names.
    let (there, here) = (other.endpoint(1).to_string(), one.endpoint(1).to_string());
    assert_ne!(there, here);
    let parsed: cli::invitation::Token = token.parse().unwrap();
    let misled = cli::invitation::Token {
        endpoints: vec![here],
        ..parsed
    };
    let (status, why) = failure(&one.try_sinew(&join(&one, &misled.to_string(), "x", 3)));
    assert_eq!(status, 1);
    assert!(why.contains("something else answers there"), "{why}");
    let nobody = cli::invitation::Token {
        endpoints: vec![one.endpoint(99).to_string()],
        ..misled
    };
    let (status, why) = failure(&one.try_sinew(&join(&one, &nobody.to_string(), "x", 3)));
    assert_eq!(status, 1);
    assert!(why.contains("the token still holds"), "{why}");
    // A node that is no issuer.
    let mut plain = World::new("join-plain");
    plain.add("a", 1, "");
    let (status, why) = failure(&plain.try_sinew("invite net/a"));
    assert_eq!(status, 2);
    assert!(why.contains("issues no certificates"), "{why}");
    plain.start("a");
    let identity =
        Certificate::from_text(&fs::read_to_string(plain.node("a").join("node.cert")).unwrap())
            .unwrap();
    let asked = cli::invitation::Token {
        endpoints: vec![plain.endpoint(1).to_string()],
        issuer: identity.fields().subject.signing_key,
        ..nobody
    };
    let (_, why) = failure(&plain.try_sinew(&join(&plain, &asked.to_string(), "x", 3)));
    assert!(why.contains("issues no certificates"), "{why}");
}

/// Returns the message of `sinew join` if the host's clock is wrong by `wrong_s`.
fn join_by_clock(world: &World, token: &str, name: &str, wrong_s: i64) -> Result<(), String> {
    let words = join(world, token, name, 5);
    let words = words.replace("--dir net/", &format!("--dir {}/net/", world.dir.display()));
    let cli = cli::Cli::try_parse_from(std::iter::once("sinew").chain(words.split(' '))).unwrap();
    let cli::Command::Join(args) = cli.command else {
        panic!("{words}");
    };
    let now_s = net::Clock::new().unix_s().checked_add_signed(wrong_s);
    let done = cli::invitation::join_at(&args, now_s.unwrap());
    done.map_err(|why| why.text().to_owned())
}

#[test]
fn a_host_whose_clock_is_wrong_by_a_year_is_told_of_the_clock() {
    const YEAR_S: i64 = 365 * 86_400;
    let world = issuer("join-clock");
    let token = invite(&world, "");
    let ahead = join_by_clock(&world, &token, "home", YEAR_S).unwrap_err();
    assert!(ahead.contains("check the clock first"), "{ahead}");
    let behind = join_by_clock(&world, &token, "home", -YEAR_S).unwrap_err();
    for words in ["this host's clock shows", "set the clock", "still holds"] {
        assert!(behind.contains(words), "{behind}");
    }
    // The token is still valid, and the certificate is the same.
    join_by_clock(&world, &token, "home", 0).unwrap();
}

#[test]
fn up_makes_a_network_whose_first_node_invites() {
    let mut world = World::new("join-up");
    fs::remove_dir_all(world.dir.join("net")).unwrap();
    let at = world.endpoint(1);
    let said = world.sinew(&format!("up net --node a --address {at} --start no"));
    assert!(said.contains("sinew invite net/a"), "{said}");
    // If the command runs again, nothing is made anew.
    let key = fs::read_to_string(world.node("a").join("node.key")).unwrap();
    let said = world.sinew(&format!(
        "up net --node a --address {at} --start no --invite"
    ));
    assert_eq!(
        fs::read_to_string(world.node("a").join("node.key")).unwrap(),
        key
    );
    world.start("a");
    // The delegation of `up` includes no domains.
    let (status, why) = failure(&world.try_sinew("invite --domain none.example"));
    assert_eq!(status, 2);
    assert!(
        why.contains("may not give the domain `none.example`"),
        "{why}"
    );
    let (status, why) = failure(&world.try_sinew("invite --name a/b"));
    assert_eq!(status, 2);
    assert!(why.contains("is not a name for a node"), "{why}");
    // If a network's root key was moved away, the network is not overwritten.
    let key = world.dir.join("net/network.key");
    fs::rename(&key, world.dir.join("safe.key")).unwrap();
    let (status, why) =
        failure(&world.try_sinew(&format!("up net --node b --address {at} --start no")));
    assert_eq!(status, 2);
    assert!(why.contains("holds a network already"), "{why}");
    for (name, number, said) in [("home", 2, said), ("other", 3, world.sinew("invite"))] {
        let token = said
            .split_whitespace()
            .find(|word| word.starts_with("sinew1-"));
        world.sinew(&join(&world, token.unwrap(), name, number));
        world.start(name);
        world.wait_for_link("a", name);
    }
}
