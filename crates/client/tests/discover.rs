//! Tests finding services by domains, with name servers that are good, bad and silent.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod dns;

use client::discover::{Discover, Endpoint, Error, Found, Origin, Service, Settings, Transport};
use dns::{Reply, Server, address, alias, srv};
use domain::base::Rtype;
use std::time::Duration;

/// Creates a discovery that only asks `server`.
fn discover(server: &Server) -> Discover {
    with(server, &[])
}

fn with(server: &Server, statics: &[&str]) -> Discover {
    let statics = statics.iter().map(|text| text.parse().unwrap());
    Discover::new(Settings {
        server: Some(server.at),
        statics: statics.collect(),
        // No test waits this long for an answer unless the machine hangs.
        patience: Duration::from_secs(30),
    })
    .unwrap()
}

fn hosts(found: &Found) -> Vec<String> {
    let at = found.endpoints.iter();
    at.map(|e| format!("{} {}:{}", e.service, e.host, e.port))
        .collect()
}

/// A zone with records of every kind.
fn zone(name: &str, kind: Rtype) -> Reply {
    let records = match (name, kind) {
        ("_sinew._udp.example.org", Rtype::SRV) => vec![
            srv(name, 300, [20, 0, 7_443], "late.example.org."),
            srv(name, 300, [10, 100, 7_444], "ams.example.org."),
        ],
        ("_sip._udp.example.org", Rtype::SRV) => {
            vec![srv(name, 300, [10, 0, 5_070], "Proxy.example.org.")]
        }
        ("_sip._tcp.example.org", Rtype::SRV) => vec![
            srv(name, 300, [0, 0, 5_071], "proxy.example.org."),
            srv(name, 300, [1, 0, 5_072], "gone.example.org."),
        ],
        ("_sip._udp.none.test" | "_sip._tcp.none.test", Rtype::SRV) => {
            vec![srv(name, 300, [0, 0, 0], ".")]
        }
        ("ams.example.org", Rtype::A) => vec![
            address(name, 30, "192.0.2.1"),
            address(name, 30, "192.0.2.2"),
        ],
        ("ams.example.org", Rtype::AAAA) => vec![address(name, 60, "2001:db8::1")],
        ("late.example.org" | "proxy.example.org" | "plain.test", Rtype::A) => {
            vec![address(name, 60, "192.0.2.3")]
        }
        ("www.plain.test", _) => vec![
            alias(name, "plain.test."),
            address("plain.test.", 5, "192.0.2.3"),
        ],
        ("late.example.org" | "proxy.example.org" | "plain.test", _) => Vec::new(),
        _ => return Reply::NoSuchName,
    };
    Reply::Records(records)
}

#[test]
fn records_say_where_and_in_which_order() {
    let server = Server::start(zone);
    let discover = discover(&server);
    let found = discover.nodes("Example.org.").unwrap();
    let [ams, late] = &found.endpoints[..] else {
        panic!("{found:?}");
    };
    let expected = Endpoint {
        service: Service::Nodes,
        host: "ams.example.org".into(),
        port: 7_444,
        addresses: ["192.0.2.1", "192.0.2.2", "2001:db8::1"]
            .map(|a| a.parse().unwrap())
            .into(),
        priority: 10,
        weight: 100,
        origin: Origin::Srv,
    };
    assert_eq!(*ams, expected);
    assert_eq!((late.port, late.priority), (7_443, 20));
    assert!(found.ttl <= Duration::from_secs(30), "{:?}", found.ttl);
    let addresses: Vec<String> = found.addresses().map(|(_, at)| at.to_string()).collect();
    assert_eq!(addresses[2..], ["[2001:db8::1]:7444", "192.0.2.3:7443"]);

    // The server without an address is left out.
    let both = discover.sip("example.org", None).unwrap();
    let expected = [
        "_sip._udp proxy.example.org:5070",
        "_sip._tcp proxy.example.org:5071",
    ];
    assert_eq!(hosts(&both), expected);
    let tcp = discover.sip("example.org", Some(Transport::Tcp)).unwrap();
    assert_eq!(hosts(&tcp), expected[1..]);
}

#[test]
fn without_records_the_domain_itself_is_the_host() {
    let server = Server::start(zone);
    let discover = discover(&server);
    let sip = |domain: &str| discover.sip(domain, None);
    let found = sip("plain.test").unwrap();
    assert_eq!(hosts(&found), ["_sip._udp plain.test:5060"]);
    assert_eq!(found.endpoints[0].origin, Origin::Address);
    let found = sip("www.plain.test").unwrap();
    assert_eq!(found.addresses().count(), 1, "{found:?}");
    assert!(found.ttl <= Duration::from_secs(5), "{found:?}");
    assert_eq!(
        discover.nodes("plain.test").unwrap().endpoints[0].port,
        7_443
    );

    // With a port, or an address, there is nothing to look for.
    let found = sip("example.org:5080");
    assert_eq!(found, Err(Error::NotFound("example.org".into())));
    let found = sip("plain.test:5080").unwrap();
    assert_eq!(hosts(&found), ["_sip._udp plain.test:5080"]);
    let before = server.asked();
    let found = discover
        .sip("[2001:db8::9]:5081", Some(Transport::Tcp))
        .unwrap();
    assert_eq!(hosts(&found), ["_sip._tcp 2001:db8::9:5081"]);
    assert_eq!(found.endpoints[0].origin, Origin::Asked);
    assert_eq!(server.asked(), before);

    assert_eq!(sip("none.test"), Err(Error::NoService("none.test".into())));
    assert_eq!(
        sip("nowhere.test"),
        Err(Error::NotFound("nowhere.test".into()))
    );
    assert_eq!(sip("no name"), Err(Error::Name("no name".into())));
    let long = "a.".repeat(126) + "b";
    assert!(
        matches!(sip(&long), Err(Error::NotFound(_))),
        "with a label in front it is too long"
    );
}

#[test]
fn an_alias_without_its_records_is_followed() {
    let server = Server::start(|name, kind| match (name, kind) {
        ("www.test", _) => Reply::Records(vec![alias(name, "far.test.")]),
        ("far.test", Rtype::A) => Reply::Records(vec![
            address(name, 7, "192.0.2.4"),
            // Records of other names do not count.
            address("other.test", 7, "192.0.2.5"),
        ]),
        ("far.test", _) => Reply::Records(Vec::new()),
        _ => Reply::NoSuchName,
    });
    let found = discover(&server).sip("www.test", None).unwrap();
    let at: Vec<String> = found.addresses().map(|(_, at)| at.to_string()).collect();
    assert_eq!(at, ["192.0.2.4:5060"]);
}

#[test]
fn configuration_is_asked_first() {
    let server = Server::start(zone);
    let known = [
        "example.org=192.0.2.9,late.example.org:99",
        "_sip._tcp.example.org=192.0.2.8:1",
    ];
    let discover = with(&server, &known);
    let found = discover.nodes("example.ORG").unwrap();
    assert_eq!(
        hosts(&found),
        [
            "_sinew._udp 192.0.2.9:7443",
            "_sinew._udp late.example.org:99"
        ]
    );
    assert_eq!(
        (found.endpoints[1].priority, found.endpoints[1].origin),
        (1, Origin::Static)
    );
    let found = discover.sip("example.org", Some(Transport::Tcp)).unwrap();
    assert_eq!(hosts(&found), ["_sip._tcp 192.0.2.8:1"]);
    // Only the address of the host with a name was requested: A and AAAA.
    assert_eq!(server.asked(), 2);
}

#[test]
fn answers_are_kept_also_that_there_is_none() {
    let server = Server::start(zone);
    let discover = discover(&server);
    for domain in ["example.org", "none.test", "nowhere.test", "plain.test"] {
        let first = discover.sip(domain, None);
        let asked = server.asked();
        for _ in 0..5 {
            let again = discover.sip(domain, None);
            assert_eq!(again.is_ok(), first.is_ok());
        }
        assert_eq!(server.asked(), asked, "{domain}");
    }
}

#[test]
fn hostile_answers_are_survived() {
    let server = Server::start(|name, kind| match (name, kind) {
        // Aliases that never end: to themselves, to each other, without end.
        ("_sip._udp.self.test" | "self.test", _) => Reply::Records(vec![alias(name, name)]),
        ("a.loop.test", _) => Reply::Records(vec![alias(name, "b.loop.test.")]),
        (name, _) if name.ends_with("loop.test") => {
            Reply::Records(vec![alias(name, "a.loop.test.")])
        }
        (name, _) if name.ends_with("deep.test") => {
            let next = format!(
                "x{}.deep.test.",
                name.len() + usize::from(name.len() % 7 > 3)
            );
            Reply::Records(vec![alias(name, &next)])
        }
        // The reply has as many records as fit into a message.
        ("_sip._udp.many.test", _) => Reply::Records(
            (0..1_500)
                .map(|n| srv(name, 60, [n, 0, 1 + n], "h."))
                .collect(),
        ),
        ("h", Rtype::A) => Reply::Records(
            (0..2_000)
                .map(|n: u32| address("h.", 60, &format!("10.0.{}.{}", n / 250, n % 250)))
                .collect(),
        ),
        ("h", _) => Reply::Records(Vec::new()),
        // A header that promises 10 000 answers and has none.
        ("_sip._udp.liar.test", _) => Reply::Bytes(
            b"\x81\x80\0\x01\x27\x10\0\0\0\0\x01h\0\0\x21\0\x01".to_vec(),
            true,
        ),
        ("_sip._udp.garbage.test", _) => Reply::Bytes(vec![0xff; 400], false),
        ("_sip._udp.short.test", _) => Reply::Bytes(b"\x81".to_vec(), true),
        ("_sip._udp.failure.test", _) => Reply::Failure,
        // Impossible host names, no port, and broadcast and unspecified addresses.
        ("_sip._udp.strange.test", _) => Reply::Records(vec![
            srv(name, 60, [0, 0, 5_060], "a b.test."),
            srv(name, 60, [0, 0, 0], "h."),
            srv(name, 60, [1, 0, 5_060], "all.test."),
        ]),
        ("all.test", Rtype::A) => Reply::Records(
            ["239.1.2.3", "0.0.0.0", "255.255.255.255", "192.0.2.7"]
                .map(|a| address(name, 60, a))
                .into(),
        ),
        _ => Reply::NoSuchName,
    });
    let discover = Discover::new(Settings {
        server: Some(server.at),
        patience: Duration::from_secs(2),
        ..Settings::default()
    })
    .unwrap();
    let udp = |domain: &str| discover.sip(domain, Some(Transport::Udp));
    for domain in ["self.test", "x.loop.test", "x.deep.test"] {
        let error = udp(domain).unwrap_err();
        assert!(
            matches!(error, Error::NotFound(_) | Error::NoAnswer { .. }),
            "{domain}: {error}"
        );
    }
    for domain in ["liar.test", "garbage.test", "short.test", "failure.test"] {
        let error = udp(domain).unwrap_err();
        assert!(matches!(error, Error::NoAnswer { .. }), "{domain}: {error}");
    }
    let many = udp("many.test").unwrap();
    assert_eq!(many.endpoints.len(), 16);
    assert_eq!(many.endpoints[15].priority, 15, "the first of them");
    assert_eq!(many.addresses().count(), 16 * 16);
    let strange = udp("strange.test").unwrap();
    let at: Vec<String> = strange.addresses().map(|(_, at)| at.to_string()).collect();
    assert_eq!(at, ["192.0.2.7:5060"]);
}

#[test]
fn silence_is_waited_for_as_long_as_was_said() {
    let server = Server::start(|_, _| Reply::Silence);
    let discover = Discover::new(Settings {
        server: Some(server.at),
        patience: Duration::from_millis(100),
        ..Settings::default()
    })
    .unwrap();
    let error = discover.nodes("example.org").unwrap_err();
    assert!(matches!(error, Error::NoAnswer { .. }), "{error}");
}

#[test]
fn any_runtime_can_ask() {
    let server = Server::start(zone);
    let discover = discover(&server);
    // Two runtimes one after the other: the end of the first one does not affect the thread.
    for _ in 0..2 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let found = runtime.block_on(async {
            let nodes = discover.nodes_async("example.org");
            let sip = discover.sip_async("none.test", None);
            (nodes.await, sip.await)
        });
        assert_eq!(found.0.unwrap().endpoints.len(), 2);
        assert_eq!(found.1, Err(Error::NoService("none.test".into())));
    }
}
