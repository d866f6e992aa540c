//! Media ports: one call and one host have their share.

use super::*;

/// Returns a description with this many sections of audio.
fn sections(ua: &Ua, count: u16) -> String {
    let port = ua.rtp.local_addr().unwrap().port();
    let more: String = (1..count)
        .map(|n| format!("m=audio {} RTP/AVP 0\r\n", port.wrapping_add(2 * n).max(1)))
        .collect();
    ua.sdp(&more)
}

#[test]
fn a_call_with_many_sections_takes_few_ports() {
    let mut w = World::new("sections");
    let invite = w.invite(&sections(&w.alice, 64));
    let announced = |message: &Message| message.body().matches("a=sinew:1 ").count();
    assert_eq!(announced(&invite), 4, "{}", invite.body());
    assert_eq!(invite.body().matches("m=audio ").count(), 64);
    for site in [&w.a, &w.b] {
        assert_eq!(site.gateway.media().udp_ports_free, 8);
    }
    w.bob.respond(&invite, "200 OK", &sections(&w.bob, 64));
    let answer = w.alice.until("SIP/2.0 200");
    assert_eq!(answer.media().ip(), w.a.at().ip());
    assert_eq!(w.a.gateway.media().udp_ports_free, 8);
}

#[test]
fn one_host_leaves_media_ports_for_others() {
    let mut w = World::new("share");
    for _ in 0..2 {
        let body = sections(&w.alice, 4);
        let invite = w.alice.invite("bob@b.example", &[], &body);
        w.alice.send(w.a.at(), &invite);
    }
    // There are ports for eight streams. Alice may have six.
    let refused = w.alice.until("SIP/2.0 503");
    assert!(
        refused.one("Reason").contains("media ports"),
        "{}",
        refused.text
    );
    let eve = Ua::at("eve", [127, 0, 0, 9].into());
    eve.send(w.a.at(), &eve.invite("bob@b.example", &[], &eve.sdp("")));
    let eve_s = loop {
        let invite = w.bob.until("INVITE");
        if invite.one("From").contains("eve") {
            break invite;
        }
    };
    assert!(eve_s.body().contains("a=sinew:1 "), "{}", eve_s.body());
}

#[test]
fn a_call_that_ends_gives_its_share_back() {
    let mut w = World::new("share-back");
    for _ in 0..6 {
        let body = sections(&w.alice, 4);
        let invite = w.invite(&body);
        w.bob.respond(&invite, "486 Busy Here", "");
        w.alice.until("SIP/2.0 486");
    }
    assert_eq!(w.a.gateway.media().udp_ports_free, 16);
}
