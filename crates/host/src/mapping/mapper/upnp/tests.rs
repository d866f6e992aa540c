//! Scripted tests: a router that only speaks UPnP, and a clock that jumps to the next deadline.

use super::*;
use crate::mapping::mapper::State;
use std::collections::BTreeMap;

const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 1);
const PLACE: Place = Place {
    gateway: GATEWAY,
    own: SocketAddrV4::new(Ipv4Addr::new(192, 168, 1, 2), 7_700),
};
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const AT: &str = "http://192.168.1.1:5000/root.xml";

#[derive(Debug)]
struct Script {
    mapper: Mapper,
    now: Time,
    /// The location of its description; none if it does not answer searches.
    location: Option<&'static str>,
    /// Its services and their URLs.
    services: Vec<(&'static str, &'static str)>,
    /// External addresses, by the path of the service.
    outside: BTreeMap<&'static str, &'static str>,
    /// Its fault for a requested port.
    fault: fn(port: u16, lease_s: u32) -> Option<u16>,
    /// Its answer to every HTTP request instead of the real one.
    instead: Option<Result<&'static str, &'static str>>,
    /// Its answer to the mapping of a port is unreadable.
    is_garbled: bool,
    /// The external ports, and for how long they are mapped.
    mapped: BTreeMap<u16, u32>,
    /// The ports that were released, and by which service.
    deleted: Vec<(String, u16)>,
    /// Number of searches, and the exchanges that were made.
    searches: usize,
    asked: Vec<(SocketAddrV4, String)>,
}

impl Script {
    fn new() -> Script {
        let mut script = Script {
            mapper: Mapper::default(),
            now: Time::ZERO + MINUTE,
            location: Some(AT),
            services: vec![("WANIPConnection:1", "/ip")],
            outside: BTreeMap::from([("/ip", "198.51.100.7"), ("/ppp", "198.51.100.7")]),
            fault: |_, _| None,
            instead: None,
            is_garbled: false,
            mapped: BTreeMap::new(),
            deleted: Vec::new(),
            searches: 0,
            asked: Vec::new(),
        };
        script.mapper.set_place(script.now, Some(PLACE), [7; 12]);
        script
    }

    fn run(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(due) = self.mapper.deadline().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.mapper.on_timeout(self.now);
            self.exchange();
        }
        self.now = until;
    }

    fn exchange(&mut self) {
        while self.mapper.next_datagram().is_some() {
            self.mapper.on_nobody(self.now);
            self.mapper.on_timeout(self.now);
        }
        while self.mapper.next_search().is_some() {
            self.searches += 1;
            if let Some(at) = self.location {
                self.find(GATEWAY, at);
            }
        }
        while let Some(request) = self.mapper.next_request() {
            let text = String::from_utf8(request.bytes).unwrap();
            let answer = match self.instead {
                Some(answer) => answer.map(str::to_owned),
                None => Ok(self.answer(&text)),
            };
            self.asked.push((request.to, text));
            let answer = answer
                .as_ref()
                .map_err(|reason| *reason)
                .and_then(|it| http::Answer::parse(it.as_bytes(), true).map_err(|_| "malformed"));
            let answer = answer.map(|it| it.expect("it is whole"));
            self.mapper.on_exchange(self.now, request.id, answer);
        }
    }

    /// Sends an answer that claims that a gateway is at an address.
    fn find(&mut self, from: Ipv4Addr, at: &str) {
        let answer = format!(
            "HTTP/1.1 200 OK\r\nST: urn:schemas-upnp-org:device:InternetGatewayDevice:1\r\nLOCATION: {at}\r\n\r\n"
        );
        let from = SocketAddr::from((from, 1_900));
        self.mapper
            .on_search_answer(self.now, from, answer.as_bytes());
    }

    fn answer(&mut self, request: &str) -> String {
        let path = request.split(' ').nth(1).unwrap();
        let number = |name: &str| -> Option<u32> {
            let (_, rest) = request.split_once(&format!("<{name}>"))?;
            rest.split('<').next()?.parse().ok()
        };
        let port = number("NewExternalPort").and_then(|port| u16::try_from(port).ok());
        if request.starts_with("GET ") {
            if !AT.ends_with(path) {
                return "HTTP/1.1 404 Not Found\r\n\r\n".to_owned();
            }
            let service = |(name, at): &(&str, &str)| {
                format!(
                    "<service><serviceType>urn:schemas-upnp-org:service:{name}</serviceType><controlURL>{at}</controlURL></service>"
                )
            };
            let services: String = self.services.iter().map(service).collect();
            return format!("HTTP/1.1 200 OK\r\n\r\n<root><device>{services}</device></root>");
        }
        let done = |action: &str, results: &str| {
            format!(
                "HTTP/1.1 200 OK\r\n\r\n<e><b><{action}Response>{results}</{action}Response></b></e>"
            )
        };
        if request.contains("#GetExternalIPAddress\"") {
            let ip = self.outside.get(path).copied().unwrap_or_default();
            let ip = format!("<NewExternalIPAddress>{ip}</NewExternalIPAddress>");
            return done("GetExternalIPAddress", &ip);
        }
        let port = port.unwrap();
        let Some(lease_s) = number("NewLeaseDuration") else {
            self.mapped.remove(&port);
            self.deleted.push((path.to_owned(), port));
            return done("DeletePortMapping", "");
        };
        if let Some(code) = (self.fault)(port, lease_s) {
            return format!(
                "HTTP/1.1 500 No\r\n\r\n<e><b><Fault><UPnPError><errorCode>{code}</errorCode></UPnPError></Fault></b></e>"
            );
        }
        if self.is_garbled {
            return "HTTP/1.1 200 OK\r\n\r\n<e/>".to_owned();
        }
        self.mapped.insert(port, lease_s);
        done("AddPortMapping", "")
    }

    fn refused(&self) -> &'static str {
        match self.mapper.state() {
            State::Refused { why } => why,
            state => panic!("{state:?}"),
        }
    }
}

fn mapped(port: u16) -> State {
    State::Mapped {
        at: SocketAddrV4::new(OUTSIDE, port),
        by: Protocol::Upnp,
    }
}

#[test]
fn a_router_that_speaks_nothing_else_maps_renews_and_gets_it_back() {
    let mut script = Script::new();
    script.run(SECOND);
    assert_eq!(script.mapper.state(), mapped(7_700));
    assert_eq!(script.mapped, BTreeMap::from([(7_700, 1_200)]));
    assert_eq!((script.searches, script.asked.len()), (2, 3));
    assert!(
        script
            .asked
            .iter()
            .all(|(to, _)| *to == "192.168.1.1:5000".parse().unwrap())
    );
    assert!(
        script.asked[2]
            .1
            .contains("<NewInternalClient>192.168.1.2<")
    );
    // Half of its lifetime has passed: its external address is checked, and the port is requested again.
    script.run(MINUTE * 10);
    assert_eq!((script.searches, script.asked.len()), (2, 5));
    script.run(MINUTE * 120);
    assert_eq!(script.mapper.state(), mapped(7_700));
    assert_eq!((script.searches, script.asked.len()), (2, 5 + 2 * 12));
    script.mapper.release();
    script.exchange();
    assert!(script.mapped.is_empty());
    assert_eq!(
        (script.mapper.state(), script.mapper.deadline()),
        (State::Off, None)
    );
    assert!(
        script.mapper.ignored().is_empty(),
        "{:?}",
        script.mapper.ignored()
    );
}

#[test]
fn a_router_that_is_not_found_is_searched_for_again_rarely() {
    let mut script = Script::new();
    script.location = None;
    script.run(SECOND * 4);
    assert_eq!(script.mapper.state(), State::Silent);
    assert_eq!((script.searches, script.asked.len()), (2 * 4, 0));
    script.run(MINUTE);
    assert_eq!(script.searches, 2 * 4);
    script.location = Some(AT);
    script.run(MINUTE * 2);
    assert_eq!(script.mapper.state(), mapped(7_700));
}

#[test]
fn a_router_that_gives_no_life_time_maps_without_end() {
    let mut script = Script::new();
    script.fault = |_, lease_s| (lease_s > 0).then_some(soap::ONLY_PERMANENT);
    script.run(SECOND);
    assert_eq!(script.mapper.state(), mapped(7_700));
    assert_eq!(script.mapped, BTreeMap::from([(7_700, 0)]));
    assert_eq!(script.asked.len(), 4);
    script.run(MINUTE * 10);
    assert_eq!(
        script.asked.len(),
        6,
        "it is renewed all the same, and asked as it likes it"
    );
    script.mapper.release();
    script.exchange();
    assert!(script.mapped.is_empty());
    script = Script::new();
    script.fault = |_, _| Some(soap::ONLY_PERMANENT);
    script.run(SECOND);
    assert_eq!(script.refused(), soap::reason(soap::ONLY_PERMANENT));
    assert_eq!(script.asked.len(), 4);
}

#[test]
fn a_port_that_belongs_to_another_host_is_left_to_it() {
    let mut script = Script::new();
    script.fault = |port, _| (port == 7_700).then_some(soap::CONFLICT);
    script.run(SECOND);
    let port = *script.mapped.keys().next().unwrap();
    assert!(port >= DYNAMIC_PORTS);
    assert_eq!(script.mapper.state(), mapped(port));
    script.run(MINUTE * 10);
    assert_eq!(script.mapper.state(), mapped(port), "it stays so");
    assert_eq!(script.asked.len(), 4 + 2);
    script = Script::new();
    script.fault = |_, _| Some(soap::CONFLICT);
    script.run(SECOND);
    assert_eq!(script.refused(), soap::reason(soap::CONFLICT));
    assert_eq!(script.asked.len(), 2 + 1 + OTHER_PORTS);
    assert!(script.mapped.is_empty());
}

#[test]
fn the_service_that_is_connected_is_used() {
    let mut script = Script::new();
    script.services = vec![("WANPPPConnection:1", "/ppp"), ("WANIPConnection:1", "/ip")];
    script.outside.insert("/ip", "0.0.0.0");
    script.run(SECOND);
    assert_eq!(script.mapper.state(), mapped(7_700));
    assert!(
        script.asked[3].1.starts_with("POST /ppp "),
        "{:?}",
        script.asked
    );
    script = Script::new();
    script.outside.clear();
    script.run(SECOND);
    assert_eq!(script.refused(), "it has no address outside");
    script = Script::new();
    script.services = vec![("Layer3Forwarding:1", "/l3f")];
    script.run(SECOND * 4);
    assert!(script.refused().contains("no service"));
}

#[test]
fn an_address_that_is_not_public_is_a_second_nat() {
    let mut script = Script::new();
    script.outside.insert("/ip", "100.64.3.2");
    script.run(SECOND);
    let outside = Ipv4Addr::new(100, 64, 3, 2);
    assert_eq!(script.mapper.state(), State::DoubleNat { outside });
    assert_eq!(script.asked.len(), 2, "no port is asked for");
    // The same holds when its address becomes private.
    script = Script::new();
    script.run(SECOND);
    script.outside.insert("/ip", "10.0.0.9");
    script.run(MINUTE * 10);
    let outside = Ipv4Addr::new(10, 0, 0, 9);
    assert_eq!(script.mapper.state(), State::DoubleNat { outside });
    assert!(script.mapped.is_empty(), "it is given back");
}

#[test]
fn only_the_router_is_believed_and_asked() {
    let mut script = Script::new();
    script.location = None;
    script.run(SECOND);
    let other = Ipv4Addr::new(192, 168, 1, 9);
    script.find(other, "http://192.168.1.9:80/root.xml");
    script.find(other, AT);
    script.find(GATEWAY, "http://192.168.1.9:80/root.xml");
    script.find(GATEWAY, "http://127.0.0.1:22/");
    script.find(GATEWAY, "http://router.example/");
    script.exchange();
    assert!(script.asked.is_empty());
    let ignored = [("elsewhere", 2), ("malformed", 1), ("stranger", 2)];
    assert_eq!(*script.mapper.ignored(), BTreeMap::from(ignored));
    // A service at another address is not asked either.
    script.services = vec![
        ("WANIPConnection:2", "http://192.168.1.9/c"),
        ("WANIPConnection:1", "/ip"),
    ];
    script.find(GATEWAY, AT);
    script.exchange();
    assert_eq!(script.mapper.state(), mapped(7_700));
    assert!(script.asked.iter().all(|(to, _)| *to.ip() == GATEWAY));
    assert_eq!(script.mapper.ignored()["elsewhere"], 3);
}

#[test]
fn what_is_malformed_is_counted_and_ends_the_try() {
    for (instead, reason) in [
        (Ok("HTTP/1.1 200 OK\r\n\r\n<root>"), "malformed"),
        (
            Ok("HTTP/1.1 302 Found\r\nLocation: http://192.168.1.1/\r\n\r\n"),
            "status",
        ),
        (Err("timeout"), "timeout"),
        (Err("closed"), "closed"),
        (Err("malformed"), "malformed"),
    ] {
        let mut script = Script::new();
        script.instead = Some(instead);
        script.run(MINUTE);
        assert_eq!(script.refused(), why(reason));
        assert_eq!((script.searches, script.asked.len()), (8, 1), "{reason}");
        assert_eq!(*script.mapper.ignored(), BTreeMap::from([(reason, 1)]));
        // A mapping is kept until its end, and the router is searched for.
        let mut script = Script::new();
        script.run(SECOND);
        script.instead = Some(instead);
        script.run(MINUTE * 15 + SECOND);
        assert_eq!(script.mapper.state(), mapped(7_700));
        assert!(script.searches > 2, "{reason}");
        script.instead = None;
        script.run(MINUTE * 15);
        assert_eq!(script.mapper.state(), mapped(7_700));
    }
}

#[test]
fn an_exchange_that_nobody_makes_ends_the_try_and_a_late_one_does_not_count() {
    let mut script = Script::new();
    script.mapper.on_timeout(script.now);
    script.mapper.on_nobody(script.now);
    script.mapper.on_timeout(script.now);
    script.find(GATEWAY, AT);
    let request = script.mapper.next_request().unwrap();
    let late = script.mapper.deadline().unwrap();
    script.mapper.on_timeout(late);
    script.mapper.on_exchange(late, request.id, Err("closed"));
    assert_eq!(*script.mapper.ignored(), BTreeMap::from([("timeout", 1)]));
    script.run(MINUTE);
    assert_eq!(script.refused(), why("timeout"));
    assert!(script.asked.is_empty(), "what was read is not read again");
}

fn only_permanent(_: u16, lease_s: u32) -> Option<u16> {
    (lease_s > 0).then_some(soap::ONLY_PERMANENT)
}

#[test]
fn what_the_router_has_mapped_is_given_back_even_if_it_was_not_renewed() {
    let released = |fault: fn(u16, u32) -> Option<u16>, silence| {
        let mut script = Script::new();
        script.fault = fault;
        script.run(SECOND);
        assert_eq!(script.mapper.state(), mapped(7_700));
        script.instead = Some(Err("timeout"));
        script.run(silence);
        assert!(script.deleted.is_empty());
        script.instead = None;
        script.mapper.release();
        script.exchange();
        script.deleted
    };
    let given_back = [("/ip".to_owned(), 7_700)];
    assert_eq!(released(|_, _| None, MINUTE * 12), given_back);
    assert_eq!(released(only_permanent, MINUTE * 12), given_back);
    // The mapping has ended for the node. One without an end still exists; another host may have that of one with an
    // end.
    assert_eq!(released(only_permanent, MINUTE * 60), given_back);
    assert!(released(|_, _| None, MINUTE * 60).is_empty());
}

#[test]
fn what_is_not_renewed_or_renewed_elsewhere_is_given_back_where_it_was() {
    let mut script = Script::new();
    script.run(SECOND);
    script.fault = |_, _| Some(606);
    script.run(MINUTE * 10);
    assert_eq!(script.refused(), soap::reason(606));
    assert_eq!(script.deleted, [("/ip".to_owned(), 7_700)]);
    // One of two uplinks no longer has an address.
    for lost in ["0.0.0.0", "10.0.0.9"] {
        let mut script = Script::new();
        script.services = vec![("WANIPConnection:1", "/ip"), ("WANPPPConnection:1", "/ppp")];
        script.run(SECOND);
        script.outside.insert("/ip", lost);
        script.run(MINUTE * 10);
        assert_eq!(script.mapper.state(), mapped(7_700));
        assert_eq!(script.deleted, [("/ip".to_owned(), 7_700)], "{lost}");
        assert!(script.mapped.contains_key(&7_700), "it is the new one's");
        script.mapper.release();
        script.exchange();
        assert_eq!(script.deleted[1..], [("/ppp".to_owned(), 7_700)]);
    }
}

#[test]
fn a_port_of_which_the_router_has_not_said_that_it_leads_here_is_not_deleted() {
    let mut script = Script::new();
    script.is_garbled = true;
    script.run(SECOND);
    assert_eq!(script.refused(), why("malformed"));
    script.mapper.release();
    script.exchange();
    assert!(script.deleted.is_empty());
    // The router has restarted, and another host has taken the port.
    let mut script = Script::new();
    script.run(SECOND);
    script.fault = |port, _| (port == 7_700).then_some(soap::CONFLICT);
    script.run(MINUTE * 10);
    assert_ne!(script.mapper.state(), mapped(7_700));
    script.mapper.release();
    script.exchange();
    assert!(script.deleted.iter().all(|(_, port)| *port != 7_700));
    assert_eq!(script.deleted.len(), 1, "the other one is");
}

#[test]
fn a_service_behind_a_second_nat_does_not_hide_another_one() {
    let mut script = Script::new();
    script.services = vec![("WANIPConnection:1", "/ip"), ("WANPPPConnection:1", "/ppp")];
    script.outside.insert("/ip", "10.0.0.9");
    script.run(SECOND);
    assert_eq!(script.mapper.state(), mapped(7_700));
    for other in ["192.168.7.7", "0.0.0.0"] {
        let mut script = Script::new();
        script.services = vec![("WANIPConnection:1", "/ip"), ("WANPPPConnection:1", "/ppp")];
        script.outside = BTreeMap::from([("/ip", "10.0.0.9"), ("/ppp", other)]);
        script.run(SECOND);
        let outside = Ipv4Addr::new(10, 0, 0, 9);
        assert_eq!(script.mapper.state(), State::DoubleNat { outside });
    }
}

#[test]
fn a_forged_answer_that_comes_first_does_not_hide_the_routers_own() {
    // Both before and after it is known that the first service is of no use.
    for is_late in [false, true] {
        let mut script = Script::new();
        script.location = None;
        script.run(SECOND);
        script.find(GATEWAY, "http://192.168.1.1:80/admin");
        if is_late {
            script.exchange();
            script.run(SECOND);
        }
        script.find(GATEWAY, AT);
        script.exchange();
        assert_eq!(script.mapper.state(), mapped(7_700), "{is_late}");
        assert_eq!(*script.mapper.ignored(), BTreeMap::from([("status", 1)]));
    }
    let mut script = Script::new();
    script.location = None;
    script.run(SECOND);
    for port in 1..100 {
        script.find(GATEWAY, &format!("http://192.168.1.1:{port}/"));
    }
    script.exchange();
    script.run(SECOND * 3);
    assert_eq!(script.refused(), why("status"));
    assert_eq!(script.asked.len(), LOCATIONS_MAX);
}
