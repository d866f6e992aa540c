//! Running node processes: they find each other, carry packets, report their state, and stop.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod world;

use serde_json::json;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use world::{World, failure};

#[test]
fn three_nodes_find_each_other_and_carry_pings_and_traces() {
    let mut world = World::new("nodes");
    world.add("ams", 1, "--lab");
    world.add("fra", 2, "--lab");
    world.add("lon", 3, "--link fra");
    for name in ["lon", "fra", "ams"] {
        world.start(name);
    }
    let first = world.wait_for_line("ams", "listening");
    for expected in [
        "node ams",
        "10.7.0.1",
        &world.endpoint(1).to_string(),
        "ams.ctl",
        "LAB",
    ] {
        assert!(first.contains(expected), "{expected}: {first}");
    }
    world.wait_for_link("ams", "fra");
    world.wait_for_link("fra", "lon");
    world.wait("ams has a route to lon", || {
        world
            .json("routes --node net/ams")
            .to_string()
            .contains("10.7.0.3")
    });

    let ping = world.ping("lon --count 3 --node net/ams");
    assert_eq!(
        (&ping["sent"], &ping["to"]),
        (&json!(3), &json!("10.7.0.3"))
    );
    assert!(ping["rtt_ms"]["median"].as_f64().unwrap() > 0.0);
    world.ping("10.7.0.3 --count 3 --class voice --node net/ams/ams.ctl");
    world.ping("10.7.0.3 --count 1 --node net/ams/ams.sock");
    for routing in ["best", "disjoint", "disjoint-3", "flooding", "targeted"] {
        world.ping(&format!("lon --count 3 --routing {routing} --node net/ams"));
    }
    // A request without room for its time stamp is refused, with the length that fits.
    let long = "ping lon --count 1 --size 1392 --routing disjoint --node net/ams";
    let (status, text) = failure(&world.try_sinew(long));
    assert!(status == 1 && text.contains("at most 1372 bytes"), "{text}");
    let mut trace = json!(null);
    world.wait("a trace finds both hops", || {
        trace = world.json("trace 10.7.0.3 --count 2 --timeout 5s --node net/ams");
        trace["hops"]
            .as_array()
            .is_some_and(|hops| hops.iter().all(|hop| hop["received"] == 2))
    });
    let hops = trace["hops"].as_array().unwrap();
    let nodes: Vec<&str> = hops
        .iter()
        .map(|hop| hop["node"].as_str().unwrap())
        .collect();
    assert_eq!(
        (nodes, &trace["reached"]),
        (vec!["10.7.0.2", "10.7.0.3"], &json!(true)),
        "{trace}"
    );

    // Users see tables.
    let links = world.sinew("links --node net/fra");
    assert!(
        links.contains("ams") && links.contains("lon") && links.contains("up"),
        "{links}"
    );
    world.wait("both links show as up", || {
        world.sinew("status --node net/fra").contains("2 of 2 up")
    });
    assert!(world.sinew("flows --node net/fra").contains("lon:7"));
    // Three nodes run here, so the user must choose one.
    let (status, text) = failure(&world.try_sinew("status"));
    assert!(
        status == 2 && text.contains("--node") && text.contains("lon.ctl"),
        "{text}"
    );
    let (status, text) = failure(&world.try_sinew("links --node net/ams/ams.sock"));
    assert!(
        status == 2 && text.contains("name its control socket, like net/ams/ams.ctl"),
        "{status} {text}"
    );
    let peers = world.json("peers --node net/ams");
    let names: Vec<&str> = peers
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["ams", "fra", "lon"]);
    assert_eq!(peers[2]["path"], json!(["ams", "fra", "lon"]), "{peers}");
    assert!(
        peers[0]["here"] == true && peers[2]["reachable_s"].is_number(),
        "{peers}"
    );
    let table = world.sinew("nodes --node net/ams");
    assert!(
        table.contains("by fra") && table.lines().all(|l| l.chars().count() <= 80),
        "{table}"
    );
    let (status, text) = failure(&world.try_sinew("ping nowhere --node net/ams"));
    assert!(status == 2 && text.contains("nowhere"), "{text}");
    let nobody = "ping 10.7.0.99 --count 1 --timeout 50ms --node net/ams";
    let (status, text) = failure(&world.try_sinew(nobody));
    assert!(status == 1 && text.contains("does not answer"), "{text}");
}

/// ```text
///   ams (prefer) ── fra (prefer) ── par (off)
///                        │         ╱ no link
///                   lon (require) ──── rom (off): no link
/// ```
#[test]
fn nodes_have_post_quantum_keys_where_both_want_them_and_say_why_not() {
    let mut world = World::new("post-quantum");
    world.add("ams", 1, "");
    world.add("fra", 2, "");
    world.add("par", 3, "--link fra");
    world.add("lon", 4, "--link fra,par");
    world.add("rom", 5, "--link lon");
    for (name, wish) in [("ams", "prefer"), ("fra", "prefer"), ("lon", "require")] {
        let path = world.node(name).join("node.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        let setting = format!("{text}\n[settings]\npost_quantum = \"{wish}\"\n");
        std::fs::write(&path, setting).unwrap();
    }
    for name in ["fra", "ams", "par", "lon", "rom"] {
        world.start(name);
    }
    for (a, b) in [("ams", "fra"), ("par", "fra"), ("lon", "fra")] {
        world.wait_for_link(a, b);
    }
    let link = |at: &str, with: &str| {
        let links = world.json(&format!("links --node net/{at}"));
        let mut links = links.as_array().unwrap().iter();
        links.find(|link| link["name"] == with).unwrap().clone()
    };
    assert_eq!(link("ams", "fra")["post_quantum"], true);
    assert_eq!(link("fra", "par")["post_quantum"], false);
    assert_eq!(link("lon", "fra")["post_quantum"], true);
    world.ping("fra --count 3 --node net/ams");
    world.wait("the ends have such keys too", || {
        let ends = &world.status("ams")["snapshot"]["ends"];
        let mut ends = ends.as_array().unwrap().iter();
        ends.any(|end| end["node"] == "10.7.0.2" && end["post_quantum"] == true)
    });
    let table = world.sinew("links --node net/fra --wide");
    assert!(
        table.contains("post-quantum") && table.contains("classic"),
        "{table}"
    );

    // The dialler of either side has the reason, and the dialled node has it in its log.
    let says = |at: &str, with: &str, reason: &str| {
        world.wait(&format!("{at} says of {with}: {reason}"), || {
            let link = link(at, with);
            let told = link["reason"].as_str().unwrap_or_default();
            link["state"] != "up" && told.contains(reason)
        });
    };
    says("lon", "par", "10.7.0.3 makes no post-quantum session");
    says("rom", "lon", "10.7.0.4 makes post-quantum sessions alone");
    world.wait_for_line("lon", "10.7.0.5 makes no post-quantum session");
    let people = world.sinew("links --node net/lon");
    assert!(people.contains("post_quantum"), "{people}");
}

#[test]
fn links_are_impaired_in_a_laboratory_only() {
    let mut world = World::new("impair");
    world.add("ams", 1, "--lab");
    world.add("fra", 2, "--lab");
    world.add("lon", 3, "");
    // At first only two nodes run: a third one would offer a path around the slow link, and pings
    // might take it.
    for name in ["ams", "fra"] {
        world.start(name);
    }
    world.wait_for_link("ams", "fra");
    let told = world.json("lab impair ams fra delay=30ms loss=1% --both");
    let directions = json!([{"from": "ams", "to": "fra"}, {"from": "fra", "to": "ams"}]);
    assert_eq!(told["directions"], directions);
    let impairment = |name: &str| world.status(name)["snapshot"]["links"][0]["impairment"].clone();
    assert_eq!(impairment("ams"), "loss=1% delay=30ms");
    assert_eq!(impairment("fra"), "loss=1% delay=30ms");
    world.sinew("lab impair ams fra delay=30ms --both");
    let ping = world.ping("fra --count 1 --node net/ams");
    assert!(ping["rtt_ms"]["min"].as_f64().unwrap() >= 60.0, "{ping}");
    world.sinew("lab impair ams fra --clear --both");
    assert!(impairment("ams").is_null() && impairment("fra").is_null());
    world.start("lon");
    world.wait_for_link("ams", "lon");
    for (words, status, expected) in [
        ("lab impair lon ams loss=5%", 1, "lab = true"),
        ("lab impair ams par loss=5%", 1, "this node has: fra, lon"),
        ("lab impair par ams loss=5%", 1, "found: ams, fra, lon"),
        ("lab impair ams fra loss=5", 2, "5%"),
        ("lab impair fra ams loss=5% --node net/ams", 2, "not `fra`"),
        ("lab impair ams fra", 2, "WORD"),
    ] {
        let (got, text) = failure(&world.try_sinew(words));
        assert!(
            got == status && text.contains(expected),
            "{words}: {got} {text}"
        );
    }
}

#[test]
fn metrics_are_served_and_a_signal_ends_a_node_cleanly() {
    let mut world = World::new("metrics");
    world.add("ams", 1, "");
    world.add("fra", 2, "");
    let config = world.node("ams").join("node.toml");
    let metrics = world.endpoint(9);
    let text = std::fs::read_to_string(&config).unwrap();
    let text = text.replace(
        "# metrics = \"127.0.0.1:9700\"",
        &format!("metrics = \"{metrics}\""),
    );
    std::fs::write(&config, text).unwrap();
    world.start("ams");
    world.start("fra");
    world.wait_for_link("ams", "fra");
    let mut stream = TcpStream::connect(metrics).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(
        page.contains("sinew_link_up{peer=\"10.7.0.2\",name=\"fra\"} 1\n"),
        "{page}"
    );

    world.terminate("fra");
    assert!(world.wait_for_end("fra").success());
    assert!(!world.control("fra").exists() && !world.node("fra").join("fra.sock").exists());
    world.wait_for_line("fra", "stopped");
    world.wait_for_line("ams", "the neighbour is stopping");
    // A killed node leaves its files. They are no obstacle to a restart.
    world.start("fra");
    world.wait_for_link("ams", "fra");
    world.kill("fra");
    assert!(world.control("fra").exists());
    world.start("fra");
    world.wait_for_link("ams", "fra");
    world.stop("ams");
}

#[test]
fn a_neighbor_is_found_by_its_host_name() {
    let mut world = World::new("names");
    // The name stands for an address that all tests share, so the port must belong to this test
    // alone.
    let port = 10_000 + std::process::id() % 20_000;
    world.sinew(&format!("net add net ams --address localhost:{port}"));
    world.add("fra", 2, "");
    world.start("ams");
    world.start("fra");
    world.wait_for_link("ams", "fra");
    let links = world.json("links --node net/fra");
    assert_eq!(links[0]["at"], format!("127.0.0.1:{port}"));
}

#[test]
fn two_nodes_do_not_share_an_address_or_a_socket() {
    let mut world = World::new("shared");
    world.add("ams", 1, "");
    world.start("ams");
    // Start the same configuration again.
    let pid = world.status("ams")["host"]["pid"].clone();
    let (status, text) = failure(&world.try_sinew("node --config net/ams/node.toml"));
    assert_eq!(status, 2, "{text}");
    assert!(
        text.contains(&format!("ams already runs (pid {pid})")),
        "{text}"
    );
    // Start another node at the same address.
    world.add("fra", 2, "");
    let config = world.node("fra").join("node.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let (theirs, ours) = (world.endpoint(1).to_string(), world.endpoint(2).to_string());
    std::fs::write(&config, text.replacen(&ours, &theirs, 1)).unwrap();
    let (status, text) = failure(&world.try_sinew("node --config net/fra/node.toml"));
    assert!(
        status == 2 && text.contains("cannot listen") && text.contains("another program"),
        "{status} {text}"
    );
    assert_eq!(
        world.status("ams")["snapshot"]["name"],
        "ams",
        "the first one goes on"
    );
}

#[test]
fn a_node_started_by_a_relative_path_is_found_from_other_directories() {
    let world = World::new("relative");
    world.add("a", 1, "");
    let mut node = world.begin("node --config net/a/node.toml");
    let socket = world.control("a");
    world.wait("the node answers", || UnixStream::connect(&socket).is_ok());
    let status = world.status("a");
    let clients = status["host"]["client_socket"].as_str().unwrap();
    assert!(Path::new(clients).is_absolute(), "{clients}");
    node.kill().unwrap();
    node.wait().unwrap();
}

#[test]
fn a_bad_configuration_names_file_line_and_remedy() {
    let world = World::new("config");
    world.add("ams", 1, "");
    let path = world.node("ams").join("node.toml");
    let good = std::fs::read_to_string(&path).unwrap();
    for (from, to, expected) in [
        ("listen = [", "listen = 7 # [", "line 6"),
        ("node.key", "missing.key", "missing.key"),
        ("node.cert", "node.key", "SINEW CERTIFICATE"),
    ] {
        std::fs::write(&path, good.replace(from, to)).unwrap();
        let (status, text) = failure(&world.try_sinew("node --config net/ams/node.toml"));
        assert!(
            status == 2 && text.contains(expected),
            "{to}: {status} {text}"
        );
    }
    // The next errors do not go away with time.
    std::fs::write(&path, &good).unwrap();
    let key = world.node("ams").join("node.key");
    let open = |mode| std::fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
    open(0o644);
    let (status, text) = failure(&world.try_sinew("node --config net/ams/node.toml"));
    assert!(status == 2 && text.contains("chmod 600"), "{status} {text}");
    open(0o600);
    let elsewhere = good.replace(&world.endpoint(1).to_string(), "192.0.2.77:7701");
    std::fs::write(&path, elsewhere).unwrap();
    let (status, text) = failure(&world.try_sinew("node --config net/ams/node.toml"));
    assert!(
        status == 2 && text.contains("no address 192.0.2.77"),
        "{status} {text}"
    );
    world.sinew("net init other --name other");
    std::fs::write(
        &path,
        good.replace("network.pub", "../../other/network.pub"),
    )
    .unwrap();
    let (status, text) = failure(&world.try_sinew("node --config net/ams/node.toml"));
    assert!(
        status == 2 && text.contains("another network"),
        "{status} {text}"
    );
    std::fs::write(&path, good.replace("listen =", "lisen =")).unwrap();
    let (status, text) = failure(&world.try_sinew("node --config net/ams/node.toml"));
    assert!(
        status == 2 && text.contains("did you mean `listen`?"),
        "{status} {text}"
    );
    let (status, text) = failure(&world.try_sinew("node --config nothing.toml"));
    assert!(status == 2 && text.contains("sinew net add"), "{text}");
}

#[test]
fn a_node_says_when_its_links_are_up_and_names_those_that_are_not() {
    let mut world = World::new("ready");
    world.add("ams", 1, "");
    world.add("fra", 2, "");
    world.add("lon", 3, "--link fra");
    world.start("ams");
    world.wait_for_line("ams", "ready: no neighbour is configured");
    world.start("lon");
    let line = world.wait_for_line("lon", "0 of 1 links up");
    assert!(
        line.contains("warning lon: ") && line.contains("fra: dialling"),
        "{line}"
    );
    world.start("fra");
    world.wait_for_line("fra", "links up");
    world.wait_for_line("lon", "ready: 1 of 1 links up");
    let link = &world.status("lon")["snapshot"]["links"][0];
    assert!(link["reason"].is_null() && link["heard_s"].is_number());
}

#[test]
fn commands_that_are_typed_behind_the_nodes_wait_for_what_is_coming() {
    let mut world = World::new("pasted");
    world.add("ams", 1, "");
    world.add("fra", 2, "");
    world.add("par", 3, "--link fra");
    for name in ["ams", "fra", "par"] {
        world.launch(name);
    }
    // The commands run at once, as in the README: no link is up yet, and there is not even a
    // socket.
    let ping = world.json("ping par --count 3 --timeout 5000ms --node net/ams");
    assert_eq!(ping["received"], 3, "{ping}");
    world.stop("fra");
    world.launch("fra");
    let links = world.json("links --node net/fra");
    let states = links.as_array().unwrap().iter().map(|link| &link["state"]);
    let states: Vec<&serde_json::Value> = states.collect();
    assert!(
        !states.is_empty() && states.iter().all(|state| **state == "up"),
        "{links}"
    );
}

#[test]
fn a_hangup_has_the_files_read_again_and_ends_nothing() {
    let mut world = World::new("reload");
    world.add("ams", 1, "");
    world.add("fra", 2, "--link none");
    world.start("ams");
    world.start("fra");
    let path = world.node("fra").join("node.toml");
    let good = std::fs::read_to_string(&path).unwrap();
    world.hang_up("fra");
    let line = world.wait_for_line("fra", "node.toml again");
    assert!(!line.contains("taken"), "{line}");

    // A file with a mistake changes nothing.
    std::fs::write(&path, good.replace("listen", "lisen")).unwrap();
    world.hang_up("fra");
    world.wait_for_line("fra", "is not taken, and the node goes on as before");
    let output = world.try_sinew("reload --node net/fra");
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{why}");
    assert!(why.contains("did you mean `listen`?"), "{why}");

    // One more neighbour, a log file, and a key that takes effect at the next start.
    let neighbor = format!(
        "dscp = true\nlog_file = \"fra.log\"\n[[neighbor]]\nname = \"ams\"\naddress = \"10.7.0.1\"\nendpoint = \"{}\"\n",
        world.endpoint(1)
    );
    std::fs::write(&path, good.clone() + &neighbor).unwrap();
    world.hang_up("fra");
    world.wait_for_link("fra", "ams");
    let log = world.node("fra").join("fra.log");
    let text = || std::fs::read_to_string(&log).unwrap_or_default();
    world.wait("the log tells of it", || {
        text().contains("taken: log_file, neighbor ams; takes effect at the next start: dscp")
    });

    // A renewed certificate, and a renamed log file.
    world.sinew("net renew net fra");
    std::fs::rename(&log, log.with_extension("old")).unwrap();
    world.hang_up("fra");
    world.wait("the certificate is taken", || {
        text().contains("log_file, opened again, certificate")
    });
    assert_eq!(world.link("fra", "ams"), "up");
    assert_eq!(world.status("fra")["counters"]["links_down"], 0);

    // The neighbour is removed from the file.
    let without = format!("dscp = true\nlog_file = \"fra.log\"\n{good}");
    std::fs::write(&path, without + "[relay]\ntransfers = 3\nroots = ['.']\n").unwrap();
    let told = world.json("reload --node net/fra");
    let taken = [
        "log_file, opened again",
        "neighbour ams is listed no more",
        "transfers of relay",
    ];
    assert_eq!(told["taken"], serde_json::json!(taken), "{told}");
    assert_eq!(told["later"], serde_json::json!(["dscp", "relay"]));
    assert_eq!(world.status("fra")["bulk"]["limit"], 3);
    assert_eq!(world.json("links --node net/fra"), serde_json::json!([]));
    world.stop("fra");
}

#[test]
fn no_packet_is_lost_while_a_node_reads_its_files_again() {
    const PACKETS: u64 = 500;
    let mut world = World::new("reload-packets");
    world.add("ams", 1, "");
    world.add("fra", 2, "");
    world.add("lon", 3, "--link fra");
    for name in ["ams", "fra", "lon"] {
        world.start(name);
    }
    world.wait_for_link("ams", "fra");
    world.wait_for_link("lon", "fra");
    world.ping("lon --count 1 --node net/ams");
    let path = world.node("fra").join("node.toml");
    let good = std::fs::read_to_string(&path).unwrap();
    let ping = format!("ping lon --count {PACKETS} --interval 10ms --timeout 30s --node net/ams");
    // All packets pass the node that reloads. Each has a number, and its answer has the same
    // number.
    let (ping, reloads) = std::thread::scope(|scope| {
        let ping = scope.spawn(|| world.json(&ping));
        let mut reloads = 0;
        while !ping.is_finished() {
            reloads += 1;
            let level = ["warning", "info"][reloads % 2];
            let more = format!(
                "[relay]\ntransfers = {}\n[[exit]]\nport = {}\nto = \"127.0.0.1:22\"\n",
                3 + reloads,
                2_000 + reloads
            );
            let changed = format!("log_level = \"{level}\"\n{good}{more}");
            std::fs::write(&path, changed).unwrap();
            world.sinew("net renew net fra");
            let told = world.json("reload --node net/fra");
            assert!(told["taken"].as_array().unwrap().len() >= 3, "{told}");
        }
        (ping.join().unwrap(), reloads)
    });
    eprintln!("{reloads} reloads during {PACKETS} packets");
    assert!(reloads >= 2, "{reloads}");
    assert_eq!(
        (&ping["sent"], &ping["received"]),
        (&json!(PACKETS), &json!(PACKETS))
    );
}

#[test]
fn the_service_manager_is_told_of_start_reload_and_end() {
    let mut world = World::new("notify");
    world.add("ams", 1, "");
    let path = world.dir.join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager
        .set_read_timeout(Some(std::time::Duration::from_secs(30)))
        .unwrap();
    let heard = |word: &str| {
        let mut buffer = [0; 1024];
        loop {
            let length = manager
                .recv(&mut buffer)
                .unwrap_or_else(|e| panic!("{word}: {e}"));
            if String::from_utf8_lossy(&buffer[..length]).contains(word) {
                return;
            }
        }
    };
    // The interval is much shorter than in the unit. Nothing else in this node would wake it.
    let variables = [
        ("NOTIFY_SOCKET", path.to_str().unwrap()),
        ("WATCHDOG_USEC", "400000"),
    ];
    world.launch_with("ams", &variables);
    heard("READY=1");
    for _ in 0..3 {
        heard("WATCHDOG=1");
    }
    world.hang_up("ams");
    heard("RELOADING=1");
    heard("READY=1");
    world.terminate("ams");
    heard("STOPPING=1");
    assert!(world.wait_for_end("ams").success());
}

#[test]
fn the_units_of_services_are_those_that_the_documentation_quotes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let unit = read("packaging/sinew@.service");
    let gateway = read("packaging/sinew-gateway@.service");
    for unit in [&unit, &gateway] {
        assert!(read("docs/operation.md").contains(&format!("```ini\n{unit}```")));
    }
    // The two units have the same restrictions.
    let (_, walls) = unit.split_once("\nCapabilityBoundingSet=\n").unwrap();
    assert!(gateway.ends_with(walls), "{walls}");
    for line in [
        "Type=notify",
        "RuntimeDirectory=sinew/%i",
        "RestartPreventExitStatus=2",
        "WatchdogSec=20",
    ] {
        assert!(unit.lines().any(|l| l == line), "{line}");
    }
    // The unit gives the node enough descriptors, so it does not warn.
    let descriptors = unit.lines().find_map(|l| l.strip_prefix("LimitNOFILE="));
    let descriptors: u64 = descriptors.unwrap().parse().unwrap();
    assert!(descriptors >= cli::node::DESCRIPTORS, "{descriptors}");
}

#[test]
fn the_release_program_is_small_and_its_first_build_is_announced() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    // With debug information the program has 115 MB, without it 27 MB.
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    assert_eq!(
        manifest["profile"]["release"]["strip"].as_str(),
        Some("debuginfo")
    );
    let readme = read("README.md");
    let (before, _) = readme.split_once("cargo build --release").unwrap();
    assert!(before.contains("first build takes"), "{before}");
}
