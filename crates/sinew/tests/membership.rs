//! Which nodes may join a network: certificates of other networks, expired, renewed, revoked.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that shows what it measured, and says where it cannot go on"
)]

mod world;

use secure::{Authority, Certificate, Validity};
use std::fs;
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use world::streams::Stream;
use world::{World, copy, failure};

/// Returns how many handshakes a node has refused for a reason.
fn refused(world: &World, node: &str, reason: &str) -> u64 {
    world.status(node)["counters"]["refused"][reason]
        .as_u64()
        .unwrap_or(0)
}

#[test]
fn a_node_of_another_network_is_refused_counted_and_explained() {
    let mut world = World::new("foreign");
    world.add("ams", 1, "");
    // A node of another network dials ours.
    world.sinew("net init other --name other");
    let (there, here) = (world.endpoint(1), world.endpoint(2));
    world.sinew(&format!("net add other ams --address {there}"));
    world.sinew(&format!("net add other eve --address {here} --link ams"));
    fs::rename(world.dir.join("other/eve"), world.dir.join("net/eve")).unwrap();
    world.start("ams");
    world.start("eve");
    world.wait("ams refuses", || refused(&world, "ams", "mac") > 0);
    world.wait("the log tells why", || {
        let log = world.log("ams");
        log.contains(&format!("handshake with {here} refused")) && log.contains("another network")
    });
    assert_ne!(world.link("eve", "ams"), "up");
    let links = world.json("links --node net/ams");
    assert_eq!(
        links.as_array().map(Vec::len),
        Some(0),
        "not a byte of state: {links}"
    );
}

#[test]
fn garbage_from_outside_is_counted_and_nothing_comes_back() {
    let mut world = World::new("garbage");
    world.add("ams", 1, "");
    world.start("ams");
    let socket = UdpSocket::bind(world.endpoint(3)).unwrap();
    socket.set_nonblocking(true).unwrap();
    let garbage: [&[u8]; 4] = [b"hello", &[0x10; 1400], &[0x18; 64], &[0xff; 3]];
    for datagram in garbage {
        socket.send_to(datagram, world.endpoint(1)).unwrap();
    }
    let heard = |status: &serde_json::Value| {
        let counters = &status["counters"];
        let sum = |table: &str| -> u64 {
            let table = counters[table].as_object().unwrap();
            table.values().map(|count| count.as_u64().unwrap()).sum()
        };
        sum("drops") + sum("refused")
    };
    world.wait("all of it is counted", || heard(&world.status("ams")) >= 4);
    assert!(
        socket.recv_from(&mut [0; 2000]).is_err(),
        "nobody is answered"
    );
}

/// The authority gives a node another certificate: `valid` gives its first and last second, from the present one.
fn certify(world: &World, name: &str, valid: impl Fn(u64) -> (u64, u64)) {
    let key = world.dir.join("net/network.key");
    let mut authority = Authority::from_text(&fs::read_to_string(&key).unwrap()).unwrap();
    let path = world.node(name).join("node.cert");
    let good = Certificate::from_text(&fs::read_to_string(&path).unwrap()).unwrap();
    let (not_before_s, not_after_s) = valid(net::Clock::new().unix_s());
    let validity = Validity {
        not_before_s,
        not_after_s,
    };
    let renewed = authority.renew(&good, validity).unwrap();
    fs::write(&path, renewed.to_text()).unwrap();
    fs::write(&key, authority.to_text().as_str()).unwrap();
}

#[test]
fn an_expired_certificate_is_refused_and_a_renewed_one_lets_the_node_in() {
    let mut world = World::new("expired");
    world.add("ams", 1, "");
    world.add("fra", 2, "");
    // It expired a minute ago.
    certify(&world, "fra", |now_s| (now_s - 3_600, now_s - 60));
    world.start("ams");
    world.start("fra");
    world.wait("ams refuses", || refused(&world, "ams", "expired") > 0);
    world.wait_for_line("ams", "sinew net renew");
    world.wait_for_line("fra", "NO NEIGHBOR WILL TALK");
    assert!(world.sinew("status --node net/fra").contains("EXPIRED"));

    let told = world.json("net renew net fra --node net/fra/fra.ctl");
    assert_eq!(told["told"], true);
    world.wait_for_link("ams", "fra");
    let soon = |name| world.status(name)["snapshot"]["certificate_expires_soon"].clone();
    assert_eq!((soon("ams"), soon("fra")), (false.into(), false.into()));
}

#[test]
fn a_renewal_does_not_interrupt_a_link() {
    let mut world = World::new("renewed");
    world.add("ams", 1, "");
    world.add("fra", 2, "");
    let days = |days: u64| days * 86_400;
    certify(&world, "ams", |now_s| (now_s - days(80), now_s + days(10)));
    world.start("ams");
    world.start("fra");
    world.wait_for_link("ams", "fra");
    assert!(world.sinew("status --node net/ams").contains("SOON"));
    world.wait_for_line("ams", "ends in 10 days");
    world.sinew("net renew net ams --node net/ams/ams.ctl");
    assert!(!world.sinew("status --node net/ams").contains("SOON"));
    world.ping("fra --count 3 --node net/ams");
    for (name, peer) in [("ams", "fra"), ("fra", "ams")] {
        assert_eq!(world.link(name, peer), "up");
        assert_eq!(world.status(name)["counters"]["links_down"], 0);
    }
}

#[test]
fn a_revoked_node_is_dropped_everywhere_and_stays_out() {
    let mut world = World::new("revoked");
    world.add("ams", 1, "");
    world.add("fra", 2, "");
    world.add("lon", 3, "--link fra");
    for name in ["ams", "fra", "lon"] {
        world.start(name);
    }
    world.wait_for_link("ams", "fra");
    world.wait_for_link("fra", "lon");
    // The list is sent to a node that is no neighbour of the revoked one. It spreads by flooding.
    world.sinew("net revoke net lon --node net/ams/ams.ctl");
    world.wait("fra knows", || {
        world.status("fra")["snapshot"]["revocations_version"] == 1
    });
    world.wait("the link is down", || world.link("fra", "lon") != "up");
    world.wait("fra refuses", || refused(&world, "fra", "revoked") > 0);
    world.wait_for_line("fra", "certificate revoked");
    world.wait_for_link("ams", "fra");
    let list = world.json("net list net");
    assert_eq!(list["nodes"][2]["state"], "revoked");

    // After a restart the node still knows the revocation, even with the file that it had at first.
    let kept = world.node("fra").join("revocations");
    fs::remove_file(&kept).unwrap();
    world.stop("fra");
    world.stop("ams");
    copy(&world.dir.join("net/revocations"), &kept);
    world.start("fra");
    world.wait("fra refuses again", || {
        refused(&world, "fra", "revoked") > 0
    });
    assert_ne!(world.link("fra", "lon"), "up");
}

#[test]
fn a_list_that_was_flooded_is_kept_in_a_file() {
    let mut world = World::new("kept");
    world.add("ams", 1, "");
    world.add("fra", 2, "");
    world.add("eve", 4, "--link none");
    world.start("ams");
    world.start("fra");
    world.wait_for_link("ams", "fra");
    world.sinew("net revoke net eve");
    // Delete the list, as if fra's directory were on another machine.
    let kept = world.node("fra").join("revocations");
    fs::remove_file(&kept).unwrap();
    world.sinew("net revoke net eve --node net/ams/ams.ctl");
    let _ = fs::remove_file(&kept);
    world.wait("fra keeps the list", || kept.exists());
    world.wait_for_line("fra", "revocations, version");
}

#[test]
fn a_revocation_is_delivered_by_the_nodes_directory_or_told_as_not_delivered() {
    let mut world = World::new("delivered");
    world.add("ams", 1, "");
    world.add("fra", 2, "");
    world.start("fra");
    // No node runs in ams: the register has the revocation, the network does not.
    let words = "net revoke net fra --node net/ams";
    let (status, text) = failure(&world.try_sinew(words));
    assert!(
        status == 3 && text.contains("NOT delivered"),
        "{status} {text}"
    );
    let output = world.try_sinew(&format!("{words} --json"));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), &told["told"]),
        (Some(3), &false.into())
    );
    assert_eq!(world.json("net list net")["nodes"][1]["state"], "revoked");

    // fra has a list in its own directory, and has not read it, so it keeps running.
    let kept = world.node("ams").join("revocations");
    fs::remove_file(kept).unwrap();
    world.start("ams");
    world.wait_for_link("ams", "fra");
    let told = world.json(words);
    assert_eq!(told["told"], true, "the same command again delivers it");
    world.wait("the link is down", || world.link("ams", "fra") != "up");
}

#[test]
fn a_certificate_is_renewed_by_the_nodes_directory_and_no_serial_is_spent_on_nobody() {
    let mut world = World::new("renewing");
    world.add("ams", 1, "");
    world.add("fra", 2, "");
    let serial = |world: &World| world.json("net list net")["nodes"][0]["serial"].clone();
    let before = serial(&world);
    let (status, text) = failure(&world.try_sinew("net renew net ams --node net/ams"));
    assert!(
        status == 1 && text.contains("no running node"),
        "{status} {text}"
    );
    assert_eq!(serial(&world), before);
    world.start("ams");
    world.start("fra");
    let (status, text) = failure(&world.try_sinew("net renew net ams --node net/fra"));
    assert!(status == 2 && text.contains("for ams"), "{status} {text}");
    assert_eq!(serial(&world), before);
    assert_eq!(world.json("net renew net ams --node net/ams")["told"], true);
    assert_ne!(serial(&world), before);
}

/// Twenty calls from `ams` by `lon` to `fra`, with counted packets.
///
/// ```text
///   ams ── lon ── fra        and at lon: evil, which is revoked; nyc, an issuer whose key is stolen, with mia, which it
///                            has certified; par, which gets no certificate of the new root
/// ```
struct Calls {
    world: World,
    calls: Vec<Stream>,
}

/// Packets that may be in flight, and so are not lost yet.
const TAIL: u64 = 10;
/// Nodes that are out must stay out: the check continues for this many packets of each call.
const AFTERWARDS: u64 = 100;

impl Calls {
    fn begin() -> Calls {
        let mut world = World::new("calls-beside");
        world.add("ams", 1, "");
        for (name, number) in [("lon", 2), ("fra", 3), ("evil", 4), ("nyc", 5), ("par", 6)] {
            let to = if name == "lon" { "ams" } else { "lon" };
            world.add(name, number, &format!("--link {to}"));
        }
        world.sinew("net delegate net nyc");
        for name in ["ams", "lon", "fra", "evil", "nyc", "par"] {
            world.start(name);
        }
        world.wait_for_link("lon", "nyc");
        let token = world.sinew("invite net/nyc");
        let (token, at) = (token.trim(), world.endpoint(7));
        world.sinew(&format!(
            "join {token} --name mia --dir net/mia --listen {at} --start no"
        ));
        world.start("mia");
        world.wait_for_link("nyc", "mia");
        for name in ["ams", "fra", "evil", "par"] {
            world.wait_for_link("lon", name);
        }
        let fra = world.overlay_address("fra");
        world.wait("ams has a route to fra", || world.has_route("ams", &fra));
        let call = |n: u16| {
            let (from, to) = (world.socket("ams"), world.socket("fra"));
            Stream::begin("call", from, to, 5_000 + n)
        };
        let calls: Vec<Stream> = (0..20).map(call).collect();
        calls[0].run(AFTERWARDS);
        Calls { world, calls }
    }

    /// Runs the command `act`, and waits until no honest node has a link to a node in `out`. Returns how long that took,
    /// how many packets the calls have lost, and how many they have sent.
    fn during(&self, act: &str, after: Duration, out: &[&str]) -> (Duration, u64, u64) {
        let from: Vec<u64> = self.calls.iter().map(Stream::due).collect();
        self.world.sinew(act);
        let acted = Instant::now();
        let is_out = |name: &str| {
            let honest = ["ams", "lon", "fra"];
            honest.iter().all(|at| self.world.link(at, name) != "up")
        };
        self.world
            .wait("they are out", || out.iter().all(|name| is_out(name)));
        let took = acted.elapsed().saturating_sub(after);
        self.calls[0].run(AFTERWARDS);
        let ends = self.calls.iter().map(|call| call.due() - TAIL);
        let spans = || {
            self.calls
                .iter()
                .zip(from.iter().copied().zip(ends.clone()))
        };
        let lost = spans().map(|(call, (from, to))| call.lost(from, to));
        let sent = spans().map(|(_, (from, to))| to - from);
        let (lost, sent) = (lost.sum(), sent.sum());
        println!("{act}: {out:?} out after {took:?}, calls lost {lost} of {sent} packets");
        (took, lost, sent)
    }
}

#[test]
#[ignore = "needs a quiet machine"]
fn goals_calls_outlive_revocations_a_stolen_issuer_and_a_new_root() {
    let mut calls = Calls::begin();
    let tell = "--node net/ams/ams.ctl";
    let at_once = Duration::ZERO;
    let revoked = calls.during(&format!("net revoke net evil {tell}"), at_once, &["evil"]);
    let stolen = calls.during(
        &format!("net revoke net nyc {tell}"),
        at_once,
        &["nyc", "mia"],
    );
    // Honest nodes get their new certificates within the overlap, the others do not.
    let overlap = Duration::from_secs(10);
    calls
        .world
        .sinew(&format!("net rotate net --overlap 10s {tell}"));
    for name in ["lon", "fra"] {
        calls.world.hang_up(name);
    }
    let rotated = calls.during("net list net", overlap, &["par"]);
    for (took, lost, _) in [revoked, stolen, rotated] {
        assert!(took < Duration::from_secs(2), "{took:?}");
        assert_eq!(lost, 0);
    }
    calls.calls.clear();
    calls.world.assert_all_run();
}
