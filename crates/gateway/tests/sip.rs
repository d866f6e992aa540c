//! Calls over two SIP gateways, message by message.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod network;
#[path = "sip/ports.rs"]
mod ports;
#[path = "sip/refused.rs"]
mod refused;
#[path = "sip/streams.rs"]
mod streams;
mod ua;
#[path = "sip/unanswered.rs"]
mod unanswered;

use client::Options;
use gateway::allow::Allowed;
use gateway::domains::{Certified, Table};
use gateway::media::Shadow;
use gateway::sip::{End, Event, Gateway, Lookup, Record, Settings};
use net::poll::Polled;
use network::{DEADLINE, Fate, NODES, Network, VIRTUAL, free_ports};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use ua::{Dialog, Message, Ua};

const PASSES: network::Fates = |_| Fate::Passes;

/// A gateway, and the calls that ended at it.
struct Site {
    gateway: Gateway,
    ended: Mutex<Receiver<Record>>,
}

impl Site {
    fn at(&self) -> SocketAddr {
        self.gateway.local()
    }

    fn ended(&self) -> Record {
        let ended = self.ended.lock().unwrap();
        ended.recv_timeout(Duration::from_secs(20)).unwrap()
    }
}

/// Two sites and a phone at each.
struct World {
    a: Site,
    b: Site,
    alice: Ua,
    bob: Ua,
    _network: Network,
}

fn site(network: &Network, index: usize, change: impl FnOnce(&mut Settings)) -> Site {
    let nodes = ["a", "b"]
        .into_iter()
        .zip(NODES)
        .map(|(name, node)| Certified {
            node,
            name: name.to_owned(),
            domains: vec![format!("{name}.example")],
            latency: Duration::ZERO,
        });
    let (told, ended) = channel();
    let told = Mutex::new(told);
    let nobody: Lookup = Arc::new(|_, _, _| Box::pin(async { Vec::new() }));
    let mut settings = Settings {
        node: network.node(index),
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        public: None,
        media: free_ports(16),
        virtual_media: VIRTUAL,
        options: Options::voice(DEADLINE),
        media_from_lan: false,
        shadow: None,
        domain: ["a.example", "b.example"][index].to_owned(),
        local: Vec::new(),
        direct: Vec::new(),
        reach: Allowed::default(),
        allowed: None,
        domains: Arc::new(Table::new(nodes)),
        lookup: nobody,
        answer_within: gateway::sip::ANSWER_WITHIN,
        realtime: false,
        report: Arc::new(move |event| {
            if let Event::Ended(record) = event {
                let _ = told.lock().unwrap().send(*record);
            }
        }),
        trace: None,
    };
    change(&mut settings);
    Site {
        gateway: Gateway::start(settings).unwrap(),
        ended: Mutex::new(ended),
    }
}

impl World {
    fn new(test: &str) -> World {
        World::with(test, |_| {})
    }

    fn with(test: &str, change: impl FnOnce(&mut Settings)) -> World {
        World::with_fates(test, PASSES, change)
    }

    fn with_fates(test: &str, fates: network::Fates, change: impl FnOnce(&mut Settings)) -> World {
        let network = Network::start(&format!("sip-{test}"), fates);
        let (alice, bob) = (Ua::new("alice"), Ua::new("bob"));
        let local =
            |domain: &str, ua: &Ua| vec![format!("{domain}={}", ua.address()).parse().unwrap()];
        let a = site(&network, 0, |settings| {
            settings.local = local("a.example", &alice);
            change(settings);
        });
        let b = site(&network, 1, |settings| {
            settings.local = local("b.example", &bob);
        });
        World {
            a,
            b,
            alice,
            bob,
            _network: network,
        }
    }

    /// Alice calls Bob. Returns the INVITE as Bob received it.
    fn invite(&mut self, body: &str) -> Message {
        let invite = self.alice.invite("bob@b.example", &[], body);
        self.alice.send(self.a.at(), &invite);
        self.bob.until("INVITE")
    }

    /// Establishes a call. Returns it as both ends see it.
    fn call(&mut self) -> Call {
        let invite = self.invite(&self.alice.sdp(""));
        self.bob.respond(&invite, "200 OK", &self.bob.sdp(""));
        let answer = self.alice.until("SIP/2.0 200");
        let mut caller = Dialog::of_caller(&answer);
        caller.send(&self.alice, "ACK", "");
        self.bob.until("ACK");
        let callee = Dialog::of_callee(&invite, "bob");
        Call {
            caller,
            callee,
            // The addresses to which the two ends send.
            media: [answer.media(), invite.media()],
        }
    }

    /// Alice hangs up.
    fn hang_up(&mut self, call: &mut Call) {
        call.caller.send(&self.alice, "BYE", "");
        let bye = self.bob.until("BYE");
        self.bob.respond(&bye, "200 OK", "");
        self.alice.until("SIP/2.0 200");
        for site in [&self.a, &self.b] {
            assert_eq!(site.ended().end, Some(End::Caller));
            assert!(site.gateway.calls().is_empty());
        }
    }

    fn refused(&mut self, invite: &str) -> Message {
        self.alice.send(self.a.at(), invite);
        self.alice.until("SIP/2.0")
    }
}

struct Call {
    caller: Dialog,
    callee: Dialog,
    media: [SocketAddr; 2],
}

fn packet(seq: u16) -> Vec<u8> {
    let mut bytes = vec![0x80, 0];
    bytes.extend(seq.to_be_bytes());
    bytes.extend((u32::from(seq) * 160).to_be_bytes());
    bytes.extend(7u32.to_be_bytes());
    bytes.resize(172, 0xff);
    bytes
}

/// Checks that speech from one end arrives at the other.
fn heard(from: &Ua, to: SocketAddr, by: &Ua, seq: u16) {
    from.rtp.send_to(&packet(seq), to).unwrap();
    let mut bytes = [0; 500];
    loop {
        let (len, _) = by.rtp.recv_from(&mut bytes).unwrap();
        if bytes[..len] == packet(seq) {
            return;
        }
    }
}

#[test]
fn a_call_crosses_with_its_media_and_ends() {
    let mut w = World::new("crosses");
    let mut call = w.call();
    assert_eq!(call.media[0].ip(), w.a.at().ip());
    heard(&w.alice, call.media[0], &w.bob, 1);
    heard(&w.bob, call.media[1], &w.alice, 1);
    let calls = w.a.gateway.calls();
    assert!(
        calls[0].is_carried && calls[0].peer == Some(NODES[1]),
        "{calls:?}"
    );
    w.hang_up(&mut call);
    let (a, b) = (w.a.gateway.media(), w.b.gateway.media());
    assert_eq!((a.calls, b.calls), (0, 0));
    assert_eq!(a.udp_ports_free, 16, "ports are free again");
}

#[test]
fn the_offer_is_announced_and_the_phone_is_spared_nothing_it_needs() {
    let mut w = World::new("announced");
    let body = w.alice.sdp("a=ptime:20\r\na=x-unknown:1\r\n");
    let invite = w.invite(&body);
    let lines: Vec<&str> = invite.body().lines().collect();
    assert!(lines.contains(&"a=ptime:20") && lines.contains(&"a=x-unknown:1"));
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("a=sinew:1 10.7.0.1 "))
    );
    assert_eq!(invite.media().ip(), w.b.at().ip());
    assert_eq!(invite.one("Supported"), "sinew");
    assert_eq!(invite.one("Max-Forwards"), "69");
    let routes = invite.values("Record-Route");
    assert_eq!(routes.len(), 4, "both faces of both gateways: {routes:?}");
}

#[test]
fn a_cancel_goes_on_and_frees_everything() {
    let mut w = World::new("cancel");
    let body = w.alice.sdp("");
    let invite = w.alice.invite("bob@b.example", &[], &body);
    w.alice.send(w.a.at(), &invite);
    let at_bob = w.bob.until("INVITE");
    w.bob.respond(&at_bob, "180 Ringing", "");
    w.alice.until("SIP/2.0 180");
    let head = invite.split("\r\n\r\n").next().unwrap();
    let kept = head.lines().skip(1).filter(|line| {
        ["Via", "From", "To", "Call-ID"]
            .iter()
            .any(|name| line.starts_with(name))
    });
    let kept: Vec<&str> = kept.collect();
    let cancel = format!(
        "CANCEL sip:bob@b.example SIP/2.0\r\n{}\r\nCSeq: 1 CANCEL\r\nContent-Length: 0\r\n\r\n",
        kept.join("\r\n")
    );
    w.alice.send(w.a.at(), &cancel);
    let cancelled = w.bob.until("CANCEL");
    w.bob.respond(&cancelled, "200 OK", "");
    w.bob.respond(&at_bob, "487 Request Terminated", "");
    w.alice.until("SIP/2.0 487");
    for site in [&w.a, &w.b] {
        assert_eq!(site.ended().end, Some(End::Cancelled));
        assert_eq!(site.gateway.media().calls, 0);
    }
}

#[test]
fn a_refusal_passes_with_its_status() {
    let mut w = World::new("refusal");
    let invite = w.invite(&w.alice.sdp(""));
    w.bob.respond(&invite, "486 Busy Here", "");
    w.alice.until("SIP/2.0 486");
    for site in [&w.a, &w.b] {
        assert_eq!(site.ended().end, Some(End::Refused(486)));
        assert_eq!(site.gateway.media().calls, 0);
    }
}

#[test]
fn a_new_call_where_calls_are_refused_is_told_when_to_try_again() {
    // From now on there is no room for speech; signalling still passes.
    let speech: network::Fates = |bytes| match bytes.len() > 100 && bytes[0] == 0x80 {
        true => Fate::Refused,
        false => Fate::Passes,
    };
    let mut w = World::with_fates("refused", speech, |_| {});
    let call = w.call();
    let patience = std::time::Instant::now() + Duration::from_secs(20);
    let other = Ua::new("alice");
    let refused = loop {
        assert!(
            std::time::Instant::now() < patience,
            "it is let in for ever"
        );
        w.alice.rtp.send_to(&packet(1), call.media[0]).unwrap();
        if w.a.gateway.is_refused(NODES[1]) {
            let invite = other.invite("bob@b.example", &[], &other.sdp(""));
            other.send(w.a.at(), &invite);
            let mut other = other;
            break other.until("SIP/2.0 503");
        }
        std::thread::yield_now();
    };
    assert!(refused.one("Retry-After").parse::<u32>().unwrap() > 0);
    assert!(
        refused.text.contains("no room for one more call"),
        "{}",
        refused.text
    );
}

#[test]
fn media_moves_when_the_callee_says_so() {
    let mut w = World::new("moves");
    let mut call = w.call();
    heard(&w.alice, call.media[0], &w.bob, 1);
    let moved = Ua::new("moved");
    call.callee.send(
        &w.bob,
        "INVITE",
        &ua::sdp(moved.rtp.local_addr().unwrap(), ""),
    );
    let again = w.alice.until("INVITE");
    assert_eq!(again.media(), call.media[0], "the gateway's port stays");
    w.alice.respond(&again, "200 OK", &w.alice.sdp(""));
    w.bob.until("SIP/2.0 200");
    call.callee.send(&w.bob, "ACK", "");
    w.alice.until("ACK");
    heard(&w.alice, call.media[0], &moved, 2);
    heard(&moved, call.media[1], &w.alice, 2);
    // A refusal leaves the media where it is.
    call.callee.send(&w.bob, "INVITE", &w.bob.sdp(""));
    let again = w.alice.until("INVITE");
    w.alice.respond(&again, "488 Not Acceptable Here", "");
    w.bob.until("SIP/2.0 488");
    heard(&w.alice, call.media[0], &moved, 3);
    w.hang_up(&mut call);
}

#[test]
fn an_offer_may_come_with_the_answer() {
    let mut w = World::new("late");
    let invite = w.invite("");
    assert_eq!(invite.body(), "");
    w.bob.respond(&invite, "200 OK", &w.bob.sdp(""));
    let offer = w.alice.until("SIP/2.0 200");
    let mut caller = Dialog::of_caller(&offer);
    caller.send(&w.alice, "ACK", &w.alice.sdp(""));
    let answer = w.bob.until("ACK");
    heard(&w.alice, offer.media(), &w.bob, 1);
    heard(&w.bob, answer.media(), &w.alice, 1);
    assert!(w.a.gateway.calls()[0].is_carried);
}

#[test]
fn media_is_held_and_updated_within_the_dialog() {
    let mut w = World::new("update");
    let mut call = w.call();
    call.caller
        .send(&w.alice, "UPDATE", &w.alice.sdp("a=sendonly\r\n"));
    let update = w.bob.until("UPDATE");
    assert!(update.body().contains("a=sendonly"));
    assert_eq!(update.media(), call.media[1]);
    w.bob
        .respond(&update, "200 OK", &w.bob.sdp("a=recvonly\r\n"));
    let answer = w.alice.until("SIP/2.0 200");
    assert_eq!(answer.media(), call.media[0]);
    heard(&w.alice, call.media[0], &w.bob, 4);
    // A message without a description passes unchanged.
    call.callee.send(&w.bob, "INFO", "");
    let info = w.alice.until("INFO");
    w.alice.respond(&info, "200 OK", "");
    w.bob.until("SIP/2.0 200");
    w.hang_up(&mut call);
}

#[test]
fn shadow_mode_hears_both_ways() {
    let port = *free_ports(1).start();
    let network = Network::start("sip-shadow", PASSES);
    let (mut alice, mut bob) = (Ua::new("alice"), Ua::new("bob"));
    let a = site(&network, 0, |settings| {
        settings.shadow = Some(Shadow {
            fraction: 1.0,
            port,
        });
    });
    let b = site(&network, 1, |settings| {
        settings.local = vec![format!("b.example={}", bob.address()).parse().unwrap()];
        let port = *free_ports(1).start();
        settings.shadow = Some(Shadow {
            fraction: 0.0,
            port,
        });
    });
    let invite = alice.invite("bob@b.example", &[], &alice.sdp(""));
    alice.send(a.at(), &invite);
    let at_bob = bob.until("INVITE");
    assert!(at_bob.lines("Sinew-Shadow").is_empty(), "no phone sees it");
    bob.respond(&at_bob, "200 OK", &bob.sdp(""));
    let answer = alice.until("SIP/2.0 200");
    assert!(answer.lines("Sinew-Shadow").is_empty());
    let mut seq = 0;
    let direct = loop {
        seq += 1;
        heard(&alice, answer.media(), &bob, seq);
        let call = &b.gateway.calls()[0];
        let side = &call.report.as_ref().unwrap().streams[0].sides[0];
        if let Some(direct) = &side.direct {
            break direct.counts.received;
        }
        assert!(seq < 20_000, "it is never mirrored");
    };
    assert!(direct > 0);
}

#[test]
fn what_is_no_call_passes() {
    let mut w = World::new("passes");
    let message = w
        .alice
        .invite("bob@b.example", &["Content-Language: en"], "");
    w.alice
        .send(w.a.at(), &message.replace("INVITE", "MESSAGE"));
    let at_bob = w.bob.until("MESSAGE");
    assert_eq!(at_bob.one("Content-Language"), "en");
    assert!(
        at_bob.lines("Record-Route").is_empty(),
        "it stays out of the way"
    );
    w.bob.respond(&at_bob, "202 Accepted", "");
    w.alice.until("SIP/2.0 202");
    // The request goes to the registrar of the own site, whose challenge comes back.
    let register = w.bob.invite("a.example", &["Expires: 60"], "");
    w.bob
        .send(w.a.at(), &register.replace("INVITE", "REGISTER"));
    let at_registrar = w.alice.until("REGISTER");
    assert_eq!(at_registrar.one("Expires"), "60");
    let challenge = "401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"a\", nonce=\"1\"";
    w.alice.respond(&at_registrar, challenge, "");
    let answer = w.bob.until("SIP/2.0 401");
    assert_eq!(
        answer.one("WWW-Authenticate"),
        "Digest realm=\"a\", nonce=\"1\""
    );
    assert!(w.a.gateway.calls().is_empty() && w.b.gateway.calls().is_empty());
}

#[test]
fn an_early_answer_is_acknowledged_and_heard() {
    let mut w = World::new("early");
    let invite = w.invite(&w.alice.sdp(""));
    let progress = "183 Session Progress\r\nRequire: 100rel\r\nRSeq: 1";
    w.bob.respond(&invite, progress, &w.bob.sdp(""));
    let early = w.alice.until("SIP/2.0 183");
    assert_eq!(early.one("RSeq"), "1");
    heard(&w.bob, invite.media(), &w.alice, 1);
    let mut caller = Dialog::of_caller(&early);
    caller.send(&w.alice, "PRACK", "");
    let prack = w.bob.until("PRACK");
    w.bob.respond(&prack, "200 OK", "");
    w.alice.until("SIP/2.0 200");
    w.bob.respond(&invite, "200 OK", "");
    let answer = w.alice.until("SIP/2.0 200");
    assert_eq!(answer.one("CSeq"), "1 INVITE");
    assert!(w.a.gateway.calls()[0].answered_after.is_some());
    heard(&w.alice, early.media(), &w.bob, 2);
}

#[test]
fn an_end_that_forgets_its_routes_is_known_by_its_dialog() {
    let mut w = World::new("forgets");
    let mut call = w.call();
    let bye = call.caller.request(&w.alice, "BYE", "");
    let bye: Vec<&str> = bye
        .split("\r\n")
        .filter(|line| !line.starts_with("Route"))
        .collect();
    w.alice.send(w.a.at(), &bye.join("\r\n"));
    let bye = w.bob.until("BYE");
    w.bob.respond(&bye, "200 OK", "");
    w.alice.until("SIP/2.0 200");
    assert_eq!(w.a.ended().end, Some(End::Caller));
    assert_eq!(w.b.ended().end, Some(End::Caller));
}

#[test]
fn a_bye_from_elsewhere_ends_nothing() {
    let mut w = World::new("forged");
    let mut call = w.call();
    let mut eve = Ua::at("eve", [127, 0, 0, 9].into());
    let bye = call.caller.request(&eve, "BYE", "");
    eve.send(w.a.at(), &bye);
    eve.until("SIP/2.0 403");
    assert_eq!(w.a.gateway.counters().forged.value(), 1);
    // A host that guesses the call but not its tags gets no answer.
    let guessed = bye.replace("tag=alice", "tag=eve");
    let guessed = guessed.replace("branch=z9hG4bK", "branch=z9hG4bKx");
    eve.send(w.a.at(), &guessed);
    eve.until("SIP/2.0 481");
    heard(&w.alice, call.media[0], &w.bob, 5);
    w.hang_up(&mut call);
}

#[test]
fn the_far_side_of_a_call_does_not_lead_the_gateway_to_other_hosts_of_the_site() {
    let mut w = World::new("led");
    let mut call = w.call();
    // A program that listens at Bob's site.
    let other = TcpListener::bind("127.0.0.9:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let at = other.local_addr().unwrap();
    let bob = w.bob.address();
    let info = call.caller.request(&w.alice, "INFO", "");
    let by_route = info.replacen(
        "From:",
        &format!("Route: <sip:{at};transport=tcp;lr>\r\nFrom:"),
        1,
    );
    let by_target = call.caller.request(&w.alice, "INFO", "");
    let by_target = by_target.replacen(
        &format!("INFO sip:{bob} "),
        &format!("INFO sip:bob@{at};transport=tcp "),
        1,
    );
    for led in [by_route, by_target] {
        assert!(led.contains(&at.to_string()), "{led}");
        w.alice.send(w.a.at(), &led);
        let answer = w.alice.until("SIP/2.0");
        assert!(answer.text.starts_with("SIP/2.0 403"), "{}", answer.text);
    }
    assert_eq!(w.b.gateway.counters().forged.value(), 2);
    let none = other.accept().unwrap_err();
    assert_eq!(none.kind(), std::io::ErrorKind::WouldBlock);
    // Destinations that Bob has named are reached as before.
    call.caller.send(&w.alice, "INFO", "");
    let info = w.bob.until("INFO");
    w.bob.respond(&info, "200 OK", "");
    w.alice.until("SIP/2.0 200");
    w.hang_up(&mut call);
}

#[test]
fn phones_may_name_the_gateway() {
    let mut w = World::with("named", |settings| {
        settings.lookup = Arc::new(|name, port, _| {
            assert_eq!(name, "gateway.a.example");
            let at = (Ipv4Addr::LOCALHOST, port.unwrap()).into();
            Box::pin(async move { vec![at] })
        });
    });
    let route = format!("Route: <sip:gateway.a.example:{};lr>", w.a.at().port());
    let invite = w.alice.invite("bob@b.example", &[&route], &w.alice.sdp(""));
    w.alice.send(w.a.at(), &invite);
    let at_bob = w.bob.until("INVITE");
    assert!(at_bob.lines("Route").is_empty(), "{}", at_bob.text);
}

#[test]
fn without_an_aware_gateway_a_call_is_direct() {
    let carol = Ua::new("carol");
    let mut carol = carol;
    let server = format!("c.example={}", carol.address()).parse().unwrap();
    let mut w = World::with("direct", |settings| settings.direct = vec![server]);
    let invite = w.alice.invite("carol@c.example", &[], &w.alice.sdp(""));
    w.alice.send(w.a.at(), &invite);
    let at_carol = carol.until("INVITE");
    // The INVITE asks for awareness, and keeps the phone's own address.
    assert!(at_carol.body().contains("a=sinew:1 10.7.0.1"));
    assert_eq!(at_carol.media(), w.alice.rtp.local_addr().unwrap());
    // A proxy that refuses announcements gets an INVITE without them. [Amir06 §VI]
    let unsupported = "420 Bad Extension\r\nUnsupported: sinew";
    carol.respond(&at_carol, unsupported, "");
    let at_carol = carol.until("INVITE");
    assert!(!at_carol.body().contains("a=sinew"), "{}", at_carol.text);
    carol.respond(&at_carol, "200 OK", &carol.sdp(""));
    let answer = w.alice.until("SIP/2.0 200");
    assert_eq!(answer.media(), carol.rtp.local_addr().unwrap());
    let calls = w.a.gateway.calls();
    assert!(!calls[0].is_carried, "{calls:?}");
    assert_eq!(w.a.gateway.media().calls, 0, "it takes no ports");
}

#[test]
fn a_gateway_that_is_silent_is_passed_by() {
    // No SIP message arrives at the other node.
    let network = Network::start("sip-silent", |bytes| match bytes.starts_with(b"INVITE") {
        true => Fate::Lost,
        false => Fate::Passes,
    });
    let (mut alice, mut bob) = (Ua::new("alice"), Ua::new("bob"));
    let a = site(&network, 0, |settings| {
        settings.direct = vec![format!("b.example={}", bob.address()).parse().unwrap()];
    });
    let invite = alice.invite("bob@b.example", &[], &alice.sdp(""));
    alice.send(a.at(), &invite);
    let at_bob = bob.until("INVITE");
    bob.respond(&at_bob, "200 OK", &bob.sdp(""));
    let answer = alice.until("SIP/2.0 200");
    assert_eq!(answer.media(), bob.rtp.local_addr().unwrap());
    let call = &a.gateway.calls()[0];
    assert!(!call.is_carried && call.peer.is_none(), "{call:?}");
}

#[test]
fn announcements_are_believed_of_who_serves_the_domain_only() {
    let mut carol = Ua::new("carol");
    let server = format!("c.example={}", carol.address()).parse().unwrap();
    let mut w = World::with("lies", |settings| settings.direct = vec![server]);
    let invite = w.alice.invite("carol@c.example", &[], &w.alice.sdp(""));
    w.alice.send(w.a.at(), &invite);
    let at_carol = carol.until("INVITE");
    // Node b has no certificate for c.example.
    let lie = carol.sdp("a=sinew:1 10.7.0.2 20000/20001 c.example\r\n");
    carol.respond(&at_carol, "200 OK", &lie);
    let answer = w.alice.until("SIP/2.0 200");
    assert_eq!(answer.media(), carol.rtp.local_addr().unwrap());
    assert!(!w.a.gateway.calls()[0].is_carried);
}

#[test]
fn tcp_is_as_good_as_udp() {
    let mut w = World::new("tcp");
    let mut tcp = std::net::TcpStream::connect(w.a.at()).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let invite = w.alice.invite("bob@b.example", &[], &w.alice.sdp(""));
    let invite = invite.replace("SIP/2.0/UDP", "SIP/2.0/TCP");
    // The INVITE is sent in pieces, as TCP may deliver it.
    for piece in invite.as_bytes().chunks(100) {
        tcp.write_all(piece).unwrap();
    }
    let at_bob = w.bob.until("INVITE");
    w.bob.respond(&at_bob, "200 OK", &w.bob.sdp(""));
    let (mut text, mut bytes) = (String::new(), [0; 4_000]);
    while !text.contains("m=audio") {
        let len = tcp.read(&mut bytes).unwrap();
        assert!(len > 0, "closed after {text}");
        text.push_str(std::str::from_utf8(&bytes[..len]).unwrap());
    }
    let start = text.find("SIP/2.0 200").unwrap();
    let answer = Message {
        text: text[start..].to_owned(),
        from: w.a.at(),
    };
    let mut caller = Dialog::of_caller(&answer);
    let ack = caller
        .request(&w.alice, "ACK", "")
        .replace("SIP/2.0/UDP", "SIP/2.0/TCP");
    tcp.write_all(ack.as_bytes()).unwrap();
    w.bob.until("ACK");
    heard(&w.alice, answer.media(), &w.bob, 1);
    // The callee hangs up: the BYE goes back on the caller's connection.
    let mut callee = Dialog::of_callee(&at_bob, "bob");
    callee.send(&w.bob, "BYE", "");
    let len = tcp.read(&mut bytes).unwrap();
    let bye = std::str::from_utf8(&bytes[..len]).unwrap();
    assert!(bye.starts_with("BYE"), "{bye}");
    assert_eq!(w.a.ended().end, Some(End::Callee));
}

#[test]
fn a_gateway_that_stops_hangs_up() {
    let mut w = World::new("stops");
    let _call = w.call();
    // A process that waits for the gateway's threads learns of their end.
    let is_over = || {
        let mut over = [Polled::new(w.a.gateway.over().as_fd(), true, false)];
        net::poll::poll(&mut over, Some(Duration::ZERO)).unwrap() > 0
    };
    assert!(!is_over());
    w.a.gateway.stop();
    assert!(is_over());
    let bye = w.alice.until("BYE");
    assert!(bye.one("Reason").contains("stopped"), "{}", bye.text);
    let bye = w.bob.until("BYE");
    w.bob.respond(&bye, "200 OK", "");
    assert_eq!(w.a.ended().end, Some(End::Stopped));
    assert_eq!(w.b.ended().end, Some(End::Caller));
}
