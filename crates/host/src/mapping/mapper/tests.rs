//! Scripted tests: a router that answers as configured, and a clock that jumps to the next deadline.

use super::*;
use std::net::SocketAddr;
use wire::Endpoint;
use wire::mapping::{PORT, nat_pmp};

const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 1);
const PLACE: Place = Place {
    gateway: GATEWAY,
    own: SocketAddrV4::new(Ipv4Addr::new(192, 168, 1, 2), 7_700),
};
const NONCE: [u8; pcp::NONCE_BYTES] = [7; pcp::NONCE_BYTES];
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// The protocols that a router speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaks {
    Pcp,
    NatPmp,
    /// NAT-PMP, and a draft version of PCP.
    Draft,
    Nothing,
}

#[derive(Debug)]
struct Script {
    mapper: Mapper,
    now: Time,
    speaks: Speaks,
    outside: Ipv4Addr,
    /// The result code of its answers if not 0.
    result: u8,
    lifetime_s: u32,
    /// When it was started.
    started: Time,
    /// The external port, while it is mapped.
    mapped: Option<u16>,
    /// Requests that have arrived.
    asked: Vec<Vec<u8>>,
    /// Number of requests that are lost.
    loses: usize,
    /// How often each answer arrives, as if the request had been repeated before the first answer.
    copies: usize,
}

impl Script {
    /// The router has run for a while before the node asks.
    fn new(speaks: Speaks) -> Script {
        let mut script = Script {
            mapper: Mapper::default(),
            now: Time::ZERO + MINUTE,
            speaks,
            outside: OUTSIDE,
            result: 0,
            lifetime_s: 1_200,
            started: Time::ZERO,
            mapped: None,
            asked: Vec::new(),
            loses: 0,
            copies: 1,
        };
        script.mapper.set_place(script.now, Some(PLACE), NONCE);
        script
    }

    fn is_mapped(&self) -> bool {
        matches!(self.mapper.state(), State::Mapped { .. })
    }

    fn epoch_s(&self) -> u32 {
        (self.now.since(self.started).as_millis() / 1_000) as u32
    }

    /// Simulates a time span.
    fn run(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(due) = self.mapper.deadline().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.mapper.on_timeout(self.now);
            self.exchange();
        }
        self.now = until;
    }

    /// Passes requests to the router, and its answers to the node.
    fn exchange(&mut self) {
        while let Some(request) = self.mapper.next_datagram() {
            self.asked.push(request.clone());
            if self.loses > 0 {
                self.loses -= 1;
            } else if let Some(answer) = self.answer(&request) {
                for _ in 0..self.copies {
                    self.say(&answer);
                }
            }
        }
    }

    fn say(&mut self, bytes: &[u8]) {
        let router = SocketAddr::from((GATEWAY, PORT));
        self.mapper.on_datagram(self.now, router, bytes);
    }

    fn answer(&mut self, request: &[u8]) -> Option<Vec<u8>> {
        match (self.speaks, request[0]) {
            (Speaks::Nothing, _) => None,
            (Speaks::Pcp, pcp::VERSION) => {
                let request = pcp::Request::parse(request).unwrap();
                assert_eq!(request.client, PLACE.own.ip().to_ipv6_mapped().octets());
                self.map(request.lifetime_s, request.external.port);
                Some(emitted_pcp(self.given(&request)))
            }
            (Speaks::NatPmp | Speaks::Draft, nat_pmp::VERSION) => {
                let given = match nat_pmp::Request::parse(request).unwrap() {
                    nat_pmp::Request::Address => nat_pmp::Given::Address(self.outside.octets()),
                    nat_pmp::Request::Map(map) => {
                        self.map(map.lifetime_s, map.external_port);
                        nat_pmp::Given::Map(nat_pmp::Map {
                            external_port: self.mapped.unwrap_or(0),
                            lifetime_s: map.lifetime_s.min(self.lifetime_s),
                            ..map
                        })
                    }
                };
                Some(self.emitted_nat_pmp(self.result, Some(given)))
            }
            (Speaks::NatPmp, _) => Some(self.emitted_nat_pmp(1, None)),
            (Speaks::Draft, _) => Some([[1, 0x81, 0, 1], [0; 4]].concat()),
            // [RFC 6887 §9]: the highest supported version is used.
            (Speaks::Pcp, _) => panic!("NAT-PMP to a router that speaks PCP"),
        }
    }

    fn map(&mut self, lifetime_s: u32, port: u16) {
        self.mapped = (lifetime_s > 0 && self.result == 0).then_some(port);
    }

    fn given(&self, request: &pcp::Request) -> pcp::Answer {
        pcp::Answer {
            result: self.result,
            lifetime_s: request.lifetime_s.min(self.lifetime_s),
            epoch_s: self.epoch_s(),
            map: Some(pcp::Map {
                nonce: request.nonce,
                internal_port: request.internal_port,
                external: Endpoint {
                    ip: self.outside.to_ipv6_mapped().octets(),
                    port: request.external.port,
                },
            }),
        }
    }

    fn emitted_nat_pmp(&self, result: u8, given: Option<nat_pmp::Given>) -> Vec<u8> {
        let answer = nat_pmp::Answer {
            result: result.into(),
            epoch_s: self.epoch_s(),
            given: given.filter(|_| result == 0),
        };
        let mut buffer = [0; nat_pmp::MESSAGE_BYTES];
        let len = answer.emit(&mut buffer).unwrap();
        buffer[..len].to_vec()
    }

    /// Restarts the router, which forgets its mappings.
    fn restart(&mut self) {
        self.started = self.now;
        self.mapped = None;
    }

    fn announcement(&self) -> Vec<u8> {
        emitted_pcp(pcp::Answer {
            result: 0,
            lifetime_s: 0,
            epoch_s: self.epoch_s(),
            map: None,
        })
    }

    /// Returns the last request, which is one of PCP.
    fn last(&self) -> pcp::Request {
        pcp::Request::parse(self.asked.last().unwrap()).unwrap()
    }
}

fn emitted_pcp(answer: pcp::Answer) -> Vec<u8> {
    let mut buffer = [0; pcp::REQUEST_BYTES];
    let len = answer.emit(&mut buffer).unwrap();
    buffer[..len].to_vec()
}

fn mapped(port: u16, by: Protocol) -> State {
    let at = SocketAddrV4::new(OUTSIDE, port);
    State::Mapped { at, by }
}

#[test]
fn a_router_that_speaks_pcp_maps_renews_and_gets_it_back() {
    let mut script = Script::new(Speaks::Pcp);
    assert_eq!(script.mapper.state(), State::Asking);
    script.run(SECOND);
    assert_eq!(script.mapper.state(), mapped(7_700, Protocol::Pcp));
    assert_eq!(script.asked.len(), 1);
    assert_eq!(script.last().nonce, NONCE);
    script.run(MINUTE * 9);
    assert_eq!(script.asked.len(), 1);
    script.run(MINUTE);
    assert_eq!(script.asked.len(), 2, "half its life has passed");
    assert_eq!(script.last().external.ip, OUTSIDE.to_ipv6_mapped().octets());
    script.run(MINUTE * 120);
    assert_eq!(script.asked.len(), 2 + 12);
    assert!(script.is_mapped() && script.mapped == Some(7_700));
    script.mapper.release();
    script.exchange();
    assert_eq!((script.last().lifetime_s, script.last().nonce), (0, NONCE));
    assert_eq!((script.mapper.state(), script.mapped), (State::Off, None));
    assert_eq!(script.mapper.deadline(), None);
}

#[test]
fn an_older_router_is_asked_by_nat_pmp() {
    let mut script = Script::new(Speaks::NatPmp);
    script.run(SECOND);
    assert_eq!(script.mapper.state(), mapped(7_700, Protocol::NatPmp));
    assert_eq!(script.asked.len(), 3, "PCP, the address, the port");
    script.run(MINUTE * 10);
    assert_eq!(script.asked.len(), 5, "nobody asks by PCP again");
    script.mapper.release();
    script.exchange();
    assert_eq!(script.mapped, None);
    // The external port and the lifetime are 0.
    assert_eq!(script.asked.last().unwrap()[6..], [0; 6]);
}

#[test]
fn lost_requests_are_repeated_and_twice_as_late_each_time() {
    let mut script = Script::new(Speaks::Pcp);
    script.loses = 3;
    let mut at = Vec::new();
    while !script.is_mapped() {
        let due = script.mapper.deadline().unwrap();
        script.run(due.since(script.now));
        at.push(script.now.since(Time::ZERO + MINUTE).as_millis());
    }
    assert_eq!(at, [0, 250, 750, 1_750]);
    // After the silence comes NAT-PMP: as many tries again for each of its two steps.
    let mut script = Script::new(Speaks::NatPmp);
    script.loses = 4 + 3;
    script.run(SECOND * 10);
    assert_eq!(script.mapper.state(), mapped(7_700, Protocol::NatPmp));
    assert_eq!(script.asked.len(), 4 + 4 + 1);
}

#[test]
fn an_answer_that_comes_more_than_once_counts_once() {
    for (speaks, by, asked) in [
        (Speaks::Pcp, Protocol::Pcp, 1),
        (Speaks::NatPmp, Protocol::NatPmp, 3),
        (Speaks::Draft, Protocol::NatPmp, 3),
    ] {
        let mut script = Script::new(speaks);
        script.copies = 3;
        script.run(SECOND);
        assert_eq!(script.mapper.state(), mapped(7_700, by), "{speaks:?}");
        assert_eq!(script.asked.len(), asked, "{speaks:?}");
    }
    // A refusal arrives when the router already counts as silent for PCP.
    let mut script = Script::new(Speaks::NatPmp);
    script.loses = 4;
    script.run(Duration::from_millis(3_700));
    let refusal = script.emitted_nat_pmp(1, None);
    script.loses = 1;
    script.run(Duration::from_millis(100));
    script.say(&refusal);
    script.run(SECOND);
    assert_eq!(script.mapper.state(), mapped(7_700, Protocol::NatPmp));
}

#[test]
fn a_router_that_answers_nothing_is_asked_again_rarely() {
    let mut script = Script::new(Speaks::Nothing);
    script.run(SECOND * 8);
    assert_eq!(script.mapper.state(), State::Asking, "UPnP is tried");
    script.run(SECOND * 4);
    assert_eq!(script.mapper.state(), State::Silent);
    assert_eq!(script.asked.len(), 8);
    script.run(MINUTE);
    assert_eq!(script.asked.len(), 8);
    // The rests are 2, 4, 8, 16, 32 and 60 minutes, and then an hour each.
    script.run(MINUTE * 60 * 24);
    let rounds = script.asked.len() / 8;
    assert!((24..=29).contains(&rounds), "{rounds}");
    script.speaks = Speaks::Pcp;
    script.run(MINUTE * 61);
    assert!(script.is_mapped());
    // Nobody listens: no request is repeated.
    let mut script = Script::new(Speaks::Nothing);
    script.mapper.on_timeout(script.now);
    script.exchange();
    script.mapper.on_nobody(script.now);
    script.run(SECOND * 4);
    assert_eq!(script.mapper.state(), State::Silent);
    script.run(MINUTE);
    assert_eq!(script.asked.len(), 1);
}

#[test]
fn a_renewal_that_gets_no_answer_is_tried_until_the_mapping_ends() {
    let mut script = Script::new(Speaks::Pcp);
    script.run(SECOND);
    script.speaks = Speaks::Nothing;
    script.run(MINUTE * 19);
    let rounds = (script.asked.len() - 1) / 4;
    assert!(script.is_mapped() && rounds >= 3, "{rounds} rounds");
    script.run(MINUTE);
    assert_eq!(script.mapper.state(), State::Lost);
    assert_eq!(script.mapper.until(), None);
    assert!(script.asked.len() < 1 + 4 * 12 + 8, "rounds are bounded");
    script.run(MINUTE);
    assert_eq!(script.mapper.state(), State::Silent);
}

#[test]
fn a_router_that_has_restarted_is_asked_at_once() {
    for speaks in [Speaks::Pcp, Speaks::NatPmp] {
        let mut script = Script::new(speaks);
        script.run(MINUTE);
        // A consistent announcement changes nothing, nor does one of a clock that is a little fast.
        let announced = |script: &Script| match speaks {
            Speaks::NatPmp => {
                let address = nat_pmp::Given::Address(OUTSIDE.octets());
                script.emitted_nat_pmp(0, Some(address))
            }
            _ => script.announcement(),
        };
        let before = script.asked.len();
        let bytes = announced(&script);
        script.say(&bytes);
        script.run(SECOND);
        assert_eq!(script.asked.len(), before);
        script.restart();
        let bytes = announced(&script);
        script.say(&bytes);
        script.run(SECOND);
        assert!(script.asked.len() > before && script.mapped.is_some());
        // A router that announces all the time is asked every four seconds.
        let before = script.asked.len();
        for _ in 0..80 {
            script.restart();
            let bytes = announced(&script);
            script.say(&bytes);
            script.run(Duration::from_millis(100));
        }
        assert!(script.asked.len() <= before + 2 * 2, "{:?}", script.asked);
    }
}

#[test]
fn what_a_router_tells_unasked_of_its_address_is_asked_for() {
    let moved = Ipv4Addr::new(203, 0, 113, 9);
    for speaks in [Speaks::Pcp, Speaks::NatPmp] {
        let mut script = Script::new(speaks);
        script.run(MINUTE);
        let before = script.asked.len();
        script.outside = moved;
        let told = match speaks {
            Speaks::Pcp => emitted_pcp(script.given(&script.last())),
            _ => script.emitted_nat_pmp(0, Some(nat_pmp::Given::Address(moved.octets()))),
        };
        script.say(&told);
        let State::Mapped { at, .. } = script.mapper.state() else {
            panic!("it is mapped: {speaks:?}");
        };
        assert_eq!(*at.ip(), OUTSIDE, "nobody has asked: {speaks:?}");
        script.run(SECOND);
        let State::Mapped { at, .. } = script.mapper.state() else {
            panic!("it is mapped: {speaks:?}");
        };
        assert_eq!(*at.ip(), moved, "{speaks:?}");
        // A router whose announcements are wrong all the time is asked every four seconds.
        let asked = script.asked.len();
        assert!(asked > before);
        let lie = match speaks {
            Speaks::Pcp => {
                script.outside = OUTSIDE;
                emitted_pcp(script.given(&script.last()))
            }
            _ => script.emitted_nat_pmp(0, Some(nat_pmp::Given::Address(OUTSIDE.octets()))),
        };
        for _ in 0..10 {
            script.say(&lie);
            script.run(Duration::from_millis(100));
        }
        assert_eq!(script.asked.len(), asked);
    }
}

#[test]
fn a_refusal_is_told_and_respected() {
    let mut script = Script::new(Speaks::Pcp);
    script.result = 2;
    script.lifetime_s = 600;
    script.run(MINUTE);
    let why = "it does not allow that";
    assert_eq!(script.mapper.state(), State::Refused { why });
    assert_eq!(script.asked.len(), 1);
    script.run(MINUTE * 8);
    assert_eq!(script.asked.len(), 1, "the error lasts ten minutes");
    script.result = 0;
    script.run(MINUTE * 2);
    assert!(script.is_mapped());
    // A refused renewal ends the mapping.
    script.result = 7;
    script.run(MINUTE * 11);
    let why = "its network has failed";
    assert_eq!(script.mapper.state(), State::Refused { why });
    assert_eq!(script.mapper.until(), None);
    let mut script = Script::new(Speaks::NatPmp);
    script.result = 4;
    script.run(MINUTE);
    let why = "it has no room for another mapping";
    assert_eq!(script.mapper.state(), State::Refused { why });
}

#[test]
fn an_address_that_is_not_public_is_a_second_nat() {
    for speaks in [Speaks::Pcp, Speaks::NatPmp] {
        for outside in [[10, 0, 0, 9], [100, 64, 3, 2], [192, 168, 0, 2]].map(Ipv4Addr::from) {
            let mut script = Script::new(speaks);
            script.outside = outside;
            script.run(MINUTE);
            assert_eq!(script.mapper.state(), State::DoubleNat { outside });
            assert_eq!(script.mapped, None, "it is given back");
        }
    }
    // The same holds when its address becomes private.
    for speaks in [Speaks::Pcp, Speaks::NatPmp] {
        let mut script = Script::new(speaks);
        script.run(MINUTE);
        assert!(script.is_mapped() && script.mapped.is_some());
        let outside = Ipv4Addr::new(10, 0, 0, 9);
        script.outside = outside;
        script.run(MINUTE * 10);
        assert_eq!(script.mapper.state(), State::DoubleNat { outside });
        assert_eq!(script.mapped, None, "{speaks:?}: it is given back");
    }
    let mut script = Script::new(Speaks::NatPmp);
    script.outside = Ipv4Addr::UNSPECIFIED;
    script.run(MINUTE);
    let why = "it has no address outside";
    assert_eq!(script.mapper.state(), State::Refused { why });
}

#[test]
fn only_the_router_answers_and_only_what_was_asked() {
    let mut script = Script::new(Speaks::Nothing);
    script.mapper.on_timeout(script.now);
    script.exchange();
    let good = script.given(&script.last());
    let map = good.map.unwrap();
    let of = |map| {
        emitted_pcp(pcp::Answer {
            map: Some(map),
            ..good
        })
    };
    let wrong = [
        pcp::Map {
            nonce: [8; pcp::NONCE_BYTES],
            ..map
        },
        pcp::Map {
            internal_port: 7_701,
            ..map
        },
    ];
    for wrong in wrong {
        script.say(&of(wrong));
    }
    script.say(&[pcp::VERSION; 7]);
    for other in [(GATEWAY, 5_352), (Ipv4Addr::new(192, 168, 1, 9), PORT)] {
        let from = SocketAddr::from(other);
        script.mapper.on_datagram(script.now, from, &of(map));
    }
    assert_eq!(script.mapper.state(), State::Asking);
    script.say(&of(map));
    assert!(script.is_mapped());
    // The same answer arrives once more without a request.
    script.say(&of(map));
    assert_eq!(script.mapper.state(), mapped(7_700, Protocol::Pcp));
    let ignored = [
        ("malformed", 1),
        ("nonce", 1),
        ("port", 1),
        ("stranger", 2),
        ("unasked", 1),
    ];
    assert_eq!(*script.mapper.ignored(), BTreeMap::from(ignored));
}

#[test]
fn absurd_life_times_are_clamped() {
    for (told_s, renewed_after) in [(1, SECOND * 30), (u32::MAX, MINUTE * 10)] {
        let mut script = Script::new(Speaks::Nothing);
        script.mapper.on_timeout(script.now);
        script.exchange();
        let answer = pcp::Answer {
            lifetime_s: told_s,
            ..script.given(&script.last())
        };
        script.say(&emitted_pcp(answer));
        let next = script.mapper.deadline().unwrap();
        assert_eq!(next.since(script.now), renewed_after);
    }
}

#[test]
fn another_place_is_a_new_beginning() {
    let mut script = Script::new(Speaks::Pcp);
    script.run(SECOND);
    script
        .mapper
        .set_place(script.now, Some(PLACE), [9; pcp::NONCE_BYTES]);
    assert!(script.is_mapped(), "it is the same");
    let gateway = Ipv4Addr::new(192, 168, 1, 254);
    let other = Place { gateway, ..PLACE };
    script
        .mapper
        .set_place(script.now, Some(other), [9; pcp::NONCE_BYTES]);
    assert_eq!(
        (script.mapper.state(), script.mapper.until()),
        (State::Asking, None)
    );
    script.mapper.on_timeout(script.now);
    let request = script.mapper.next_datagram().unwrap();
    let request = pcp::Request::parse(&request).unwrap();
    assert_eq!(request.nonce, [9; pcp::NONCE_BYTES]);
    // An answer of the old router no longer counts.
    let late = emitted_pcp(script.given(&request));
    script.say(&late);
    assert_eq!(script.mapper.state(), State::Asking);
    script.mapper.set_place(script.now, None, NONCE);
    assert_eq!(
        (script.mapper.state(), script.mapper.deadline()),
        (State::Off, None)
    );
}
