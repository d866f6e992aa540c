//! What the gateway refuses: requests that cannot go on, strangers, and more calls than there is room for.

use super::*;

#[test]
fn what_cannot_go_on_is_told_why() {
    let mut w = World::new("why");
    let body = w.alice.sdp("");
    let alice = Ua::new("alice");
    for (to, more, status) in [
        ("bob@b.example", "Max-Forwards: 0", "SIP/2.0 483"),
        ("bob@nowhere.example", "Max-Forwards: 70", "SIP/2.0 404"),
        ("bob@b.example", "Proxy-Require: foo", "SIP/2.0 420"),
        (&w.a.at().to_string(), "Max-Forwards: 70", "SIP/2.0 404"),
    ] {
        let invite = alice.invite(to, &[more], &body);
        let invite = invite.replace(&alice.address().to_string(), &w.alice.address().to_string());
        let answer = w.refused(&invite);
        assert!(answer.text.starts_with(status), "{to}: {}", answer.text);
        assert!(answer.one("To").contains("tag="));
        if status.ends_with("420") {
            assert_eq!(answer.one("Unsupported"), "foo");
        }
    }
    let bad = w
        .alice
        .invite("bob@b.example", &[], "v=0\r\nm=audio x RTP/AVP 0\r\n");
    let answer = w.refused(&bad);
    assert!(answer.text.starts_with("SIP/2.0 488"), "{}", answer.text);
    assert!(answer.one("Reason").contains("line 2"), "{}", answer.text);
    assert!(w.a.gateway.calls().is_empty());
    // This asks the gateway itself whether it is there.
    let options = w.alice.invite(&w.a.at().to_string(), &[], "");
    let answer = w.refused(&options.replace("INVITE", "OPTIONS"));
    assert!(answer.text.starts_with("SIP/2.0 200"), "{}", answer.text);
}

/// Makes a host known: it acknowledges a refusal, so it receives answers and is no longer a stranger.
fn acquaint(at: SocketAddr, ua: &mut Ua) {
    let invite = ua.invite("bob@nowhere.example", &[], "");
    ua.send(at, &invite);
    let answer = ua.until("SIP/2.0 404");
    let to = format!("To: {}", answer.one("To"));
    let ack = invite.replace("INVITE", "ACK");
    ua.send(at, &ack.replace("To: <sip:bob@nowhere.example>", &to));
}

#[test]
fn unanswered_calls_of_one_host_are_bounded() {
    let mut w = World::new("ringing");
    acquaint(w.a.at(), &mut w.bob);
    let mut bytes = [0; 4_000];
    let refused = (0..2_000).find(|_| {
        // A call within the site takes no ports. Alice receives it and does not answer.
        let invite = w.bob.invite("anybody@a.example", &[], "");
        w.bob.send(w.a.at(), &invite);
        let (len, _) = w.bob.sip.recv_from(&mut bytes).unwrap();
        let answer = std::str::from_utf8(&bytes[..len]).unwrap();
        assert!(
            answer.starts_with("SIP/2.0 100") || answer.starts_with("SIP/2.0 503"),
            "{answer}"
        );
        answer.starts_with("SIP/2.0 503")
    });
    assert_eq!(refused, Some(1_024));
    assert_eq!(w.a.gateway.counters().overload.value(), 1);
    // Other hosts can still call.
    let mut eve = Ua::at("eve", [127, 0, 0, 9].into());
    let message = eve.invite(&w.a.at().to_string(), &[], "");
    eve.send(w.a.at(), &message.replace("INVITE", "OPTIONS"));
    eve.until("SIP/2.0 200");
}

#[test]
fn hosts_that_only_ring_leave_room_for_others() {
    let w = World::new("ring-flood");
    let mut bytes = [0; 4_000];
    // Returns the first answer to a call within the site, which takes no ports and which nobody answers.
    let mut ring = |ua: &Ua| {
        let invite = ua.invite("anybody@a.example", &[], "");
        ua.send(w.a.at(), &invite);
        let call_id = invite.lines().find(|line| line.starts_with("Call-ID"));
        loop {
            let (len, _) = ua.sip.recv_from(&mut bytes).unwrap();
            let answer = std::str::from_utf8(&bytes[..len]).unwrap();
            if answer.contains(call_id.unwrap()) {
                return answer[..11].to_owned();
            }
        }
    };
    let hosts = |first: u8, count: u8| {
        (0..count).map(move |n| Ua::at("flood", [127, 0, 0, first + n].into()))
    };
    let mut eve = Ua::at("eve", [127, 0, 0, 9].into());
    // Strangers share few places, and still there is one for the next host.
    for host in hosts(20, 4) {
        (0..40).for_each(|_| drop(ring(&host)));
    }
    let calls = w.a.gateway.calls().len();
    assert!((40..=64).contains(&calls), "{calls}");
    assert_eq!(ring(&eve), "SIP/2.0 100");
    // The operator has named none of these hosts, so each may have 96 calls: 2304 together.
    for mut host in hosts(24, 24) {
        acquaint(w.a.at(), &mut host);
        (0..120).for_each(|_| drop(ring(&host)));
    }
    acquaint(w.a.at(), &mut eve);
    for _ in 0..60 {
        assert_eq!(ring(&eve), "SIP/2.0 100");
    }
    // The calls take half of the table, of which a few places stay free for the next host.
    let calls = w.a.gateway.calls().len();
    assert!((1_921..=2_048).contains(&calls), "{calls}");
}

/// Sends INVITEs from a number of addresses, none of which has sent anything before.
fn invented(at: SocketAddr, to: &str, addresses: u32) {
    for n in 0..addresses {
        let host = Ua::at("invented", Ipv4Addr::from(0x7f00_0200 + n).into());
        host.send(at, &host.invite(to, &[], ""));
    }
}

#[test]
fn of_calls_that_had_to_go_nothing_stays_though_the_callee_rings() {
    let mut w = World::new("invented");
    let alice = std::mem::replace(&mut w.alice, Ua::new("nobody"));
    let mut eve = Ua::at("eve", [127, 0, 0, 9].into());
    acquaint(w.a.at(), &mut eve);
    std::thread::scope(|scope| {
        scope.spawn(|| alice.rings_until("END"));
        for _ in 0..8 {
            invented(w.a.at(), "anybody@a.example", 150);
        }
        let calls = || w.a.gateway.calls().len();
        // When she gets her answer, the gateway has taken up everything that was sent before.
        let asks = (0..20_000).take_while(|n| *n == 0 || calls() > 64);
        asks.for_each(|_| {
            let message = eve.invite(&w.a.at().to_string(), &[], "");
            eve.send(w.a.at(), &message.replace("INVITE", "OPTIONS"));
            eve.until("SIP/2.0 200");
        });
        eve.send(alice.address(), "END");
        assert!((1..=64).contains(&calls()), "{}", calls());
    });
}

#[test]
fn a_call_is_changed_while_invented_hosts_ring() {
    let mut w = World::new("changed");
    let mut call = w.call();
    call.callee
        .send(&w.bob, "INVITE", &w.bob.sdp("a=sendonly\r\n"));
    let at_alice = w.alice.until("INVITE");
    invented(w.b.at(), "anybody@b.example", 150);
    w.bob.until("INVITE sip:anybody");
    w.alice
        .respond(&at_alice, "200 OK", &w.alice.sdp("a=recvonly\r\n"));
    w.bob.until("SIP/2.0 200");
    call.caller.send(&w.alice, "BYE", "");
    let bye = w.bob.until("BYE");
    w.bob.respond(&bye, "200 OK", "");
    w.alice.until("SIP/2.0 200");
}

#[test]
fn strangers_may_not_use_it() {
    let only = Allowed::new(vec!["192.0.2.0/24:*".parse().unwrap()]);
    let mut w = World::with("strangers", |settings| settings.allowed = Some(only));
    let invite = w.alice.invite("bob@b.example", &[], &w.alice.sdp(""));
    let answer = w.refused(&invite);
    assert!(answer.text.starts_with("SIP/2.0 403"), "{}", answer.text);
    // A request that claims to be within a dialog is refused as well.
    let tagged = w
        .alice
        .invite("bob@b.example", &[], "")
        .replace("INVITE", "MESSAGE");
    let answer =
        w.refused(&tagged.replace("To: <sip:bob@b.example>", "To: <sip:bob@b.example>;tag=1"));
    assert!(answer.text.starts_with("SIP/2.0 403"), "{}", answer.text);
    assert_eq!(w.a.gateway.counters().not_allowed.value(), 2);
}

#[test]
fn calls_beyond_the_ports_are_refused_and_told_so() {
    let mut w = World::with("ports", |settings| settings.media = free_ports(2));
    let mut call = w.call();
    let answer = w.refused(&w.alice.invite("bob@b.example", &[], &w.alice.sdp("")));
    assert!(answer.text.starts_with("SIP/2.0 503"), "{}", answer.text);
    assert!(answer.one("Reason").contains("ports"), "{}", answer.text);
    w.a.ended();
    w.hang_up(&mut call);
    // The ports are free again.
    let mut call = w.call();
    w.hang_up(&mut call);
}
