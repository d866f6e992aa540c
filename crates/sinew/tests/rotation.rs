//! A running network gets another root key. Real processes, whose files are separate from those of the authority.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod world;

use secure::{Authority, Network};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use world::{World, copy};

/// Makes the authority's own directory, as if it were on another machine: it does not contain the nodes' directories.
fn office(world: &World) -> PathBuf {
    let (net, office) = (world.dir.join("net"), world.dir.join("office"));
    fs::create_dir_all(office.join("issued")).unwrap();
    for file in ["network.key", "network.pub", "network.toml"] {
        copy(&net.join(file), &office.join(file));
    }
    for entry in fs::read_dir(net.join("issued")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        copy(&path, &office.join("issued").join(name));
    }
    for entry in fs::read_dir(&net).unwrap() {
        let path = entry.unwrap().path();
        if path.join("node.toml").exists() {
            fs::create_dir_all(office.join(path.file_name().unwrap())).unwrap();
        }
    }
    office
}

fn snapshot(world: &World, name: &str, key: &str) -> Value {
    world.status(name)["snapshot"][key].clone()
}

/// Returns how often the root was replaced, by the network file of a node.
fn stored(world: &World, name: &str) -> u8 {
    let text = fs::read_to_string(world.node(name).join("network.pub")).unwrap();
    Network::from_text(&text).unwrap().root_number()
}

#[test]
fn a_running_network_gets_another_root_and_the_old_one_ends() {
    let mut world = World::new("rotation");
    world.add("ams", 1, "");
    world.add("fra", 2, "");
    world.add("lon", 3, "");
    for name in ["ams", "fra", "lon"] {
        world.start(name);
    }
    world.wait_for_link("ams", "fra");
    world.wait_for_link("ams", "lon");
    let office = office(&world);
    let told = world.json("net rotate office --overlap 25s --node net/ams");
    assert_eq!(told["told"], true);
    assert_eq!(told["root"], 1);
    let nodes = told["nodes"].as_array().unwrap();
    let given: Vec<bool> = nodes.iter().map(|it| it["told"] == true).collect();
    assert_eq!(given, [true, false, false]);
    for name in ["ams", "fra", "lon"] {
        world.wait(&format!("{name} knows the new root"), || {
            snapshot(&world, name, "root") == 1
        });
        world.wait_for_line(name, "has root key 1 now");
        world.wait(&format!("{name} keeps it"), || stored(&world, name) == 1);
    }
    let roots = ["ams", "fra", "lon"].map(|name| snapshot(&world, name, "certificate_root"));
    assert_eq!(roots, [1, 0, 0].map(Value::from));
    let page = world.sinew("status --node net/fra");
    assert!(page.contains("root key 0, which was REPLACED"), "{page}");
    world.wait_for_line("fra", "counts until");
    let found = world.try_sinew("doctor net/fra");
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(found.contains("which root key 1 replaced"), "{found}");
    world.sinew("net renew office fra --node net/fra");
    assert_eq!(snapshot(&world, "fra", "certificate_root"), 1);

    // A restart loses neither root nor list.
    world.stop("fra");
    world.start("fra");
    assert_eq!(snapshot(&world, "fra", "root"), 1);
    assert_eq!(snapshot(&world, "fra", "revocations_root"), 1);
    world.wait_for_link("ams", "fra");

    // lon is not renewed in time. A later certificate lets it in again.
    world.wait("the links to lon are down", || {
        world.link("ams", "lon") != "up" && world.link("fra", "lon") != "up"
    });
    world.wait("lon is refused", || {
        let refused = world.status("ams")["counters"]["refused"]["old-root"].as_u64();
        refused.is_some_and(|count| count > 0)
    });
    for (name, peer) in [("ams", "fra"), ("fra", "ams")] {
        assert_eq!(world.link(name, peer), "up");
    }
    assert_eq!(world.json("net list office")["nodes"][2]["root"], 1);
    let renewed = office.join("lon/node.cert");
    fs::copy(renewed, world.node("lon").join("node.cert")).unwrap();
    world.hang_up("lon");
    world.wait_for_link("ams", "lon");
    world.wait_for_link("fra", "lon");
    world.ping("lon --node net/ams --count 3");
    assert_eq!(snapshot(&world, "lon", "certificate_expires_soon"), false);

    // A certificate by the old key is refused now.
    let old = fs::read_to_string(office.join("network.key.root-0")).unwrap();
    let mut old = Authority::from_text(&old).unwrap();
    let certificate = fs::read_to_string(world.node("ams").join("node.cert")).unwrap();
    let certificate = secure::Certificate::from_text(&certificate).unwrap();
    let now_s = net::Clock::new().unix_s();
    old.rotate(&[9; 32], now_s + 900, now_s).unwrap();
    assert!(old.revoke(&certificate, now_s).is_err());
    let rival = serde_json::json!({"cmd": "succeed", "network": old.network().to_text()});
    let answer = world.ask("fra", &format!("{rival}\n"));
    assert!(answer.contains("took this place already"), "{answer}");
}

#[test]
fn members_of_an_issuer_renew_themselves_and_hosts_join_under_any_root() {
    let mut world = World::new("rotation-issuer");
    world.add("a", 1, "");
    world.sinew("net delegate net a");
    world.start("a");
    let invite = |world: &World| world.sinew("invite net/a").trim().to_owned();
    let join = |world: &World, token: &str, name: &str, number: u16| {
        let at = world.endpoint(number);
        world.sinew(&format!(
            "join {token} --name {name} --dir net/{name} --listen {at} --start no"
        ));
    };
    let token = invite(&world);
    join(&world, &token, "home", 2);
    world.start("home");
    world.wait_for_link("a", "home");
    for root in 1..=2 {
        // The authority's directory contains the directory of the issuer here, so the issuer has the new files. Once it
        // reads them on request, and once the command sends them.
        let words = ["", "--node net/a"][root as usize - 1];
        let told = world.json(&format!("net rotate net --overlap 100s {words}"));
        assert_eq!(told["issuers"][0]["name"], "a");
        assert_eq!(told["told"], root == 2);
        if root == 1 {
            world.hang_up("a");
            let line = world.wait_for_line("a", "taken: root key 1");
            assert!(
                line.contains("certificate") && line.contains("revocations"),
                "{line}"
            );
        }
        world.wait("home knows the root", || {
            snapshot(&world, "home", "root") == root
        });
        assert_eq!(snapshot(&world, "home", "certificate_root"), root - 1);
        // The node was not asked yet, or without success: the issuer has the old delegation until it restarts.
        world.stop("a");
        world.start("a");
        world.wait("home has renewed itself", || {
            snapshot(&world, "home", "certificate_root") == root
        });
        world.wait_for_link("a", "home");
        let token = invite(&world);
        let name = format!("host{root}");
        join(&world, &token, &name, 2 + root as u16);
        assert_eq!(stored(&world, &name), root as u8);
        world.start(&name);
        world.wait_for_link("a", &name);
        assert_eq!(snapshot(&world, &name, "certificate_root"), root);
    }
}
