use core::net::IpAddr;

use super::*;
use base::{NodeAddr, VirtualPort};

/// A phone's offer that contains most kinds of line.
const OFFER: &str = "v=0\r\n\
o=alice 2890844526 2890844526 IN IP4 host.atlanta.example.com\r\n\
s=\r\n\
c=IN IP4 192.0.2.10\r\n\
t=0 0\r\n\
a=ice-options:trickle\r\n\
a=x-unknown:kept as it is\r\n\
m=audio 49170 RTP/AVP 0 8 97\r\n\
i=speech\r\n\
b=AS:64\r\n\
a=rtpmap:97 iLBC/8000\r\n\
a=candidate:1 1 UDP 2130706431 10.0.1.1 8998 typ host\r\n\
a=rtcp:53020\r\n\
m=video 51372 RTP/AVP 31 32\r\n\
c=IN IP6 2001:db8::1\r\n\
a=rtpmap:32 MPV/90000\r\n\
a=sendonly\r\n";

fn parse(text: &str) -> Sdp<'_> {
    Sdp::parse(text.as_bytes()).expect("a valid description")
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn steer(at: &str, rtp_port: u16, rtcp_port: u16) -> MediaEdit {
    MediaEdit::Steer(Steer {
        ip: ip(at),
        rtp_port,
        rtcp_port,
        announce: None,
    })
}

fn announce() -> Announce {
    let (rtp, rtcp) = (VirtualPort(20000), VirtualPort(20001));
    Announce::new(NodeAddr(0x0a07_0003), rtp, rtcp, "Example.org").expect("it is valid")
}

fn apply(text: &str, rewrite: &Rewrite) -> String {
    let out = rewrite.apply(&parse(text)).expect("it can be steered");
    let again = Sdp::parse(&out).expect("what was written can be read");
    assert_eq!(rewrite.apply(&again).as_ref(), Ok(&out), "once is enough");
    String::from_utf8(out).expect("text stays text")
}

/// Returns a description with a session level and one section.
fn one(session: &str, media: &str) -> String {
    format!("v=0\r\no=- 1 1 IN IP4 10.0.0.1\r\ns=-\r\n{session}t=0 0\r\n{media}")
}

#[test]
fn an_offer_is_understood() {
    let sdp = parse(OFFER);
    let [audio, video] = sdp.media() else {
        panic!("two sections")
    };
    assert_eq!(audio.kind(), MediaKind::Audio);
    assert_eq!(audio.rtp(), Some((Host::Ip(ip("192.0.2.10")), 49170)));
    assert_eq!(audio.rtcp(), Some((Host::Ip(ip("192.0.2.10")), 53020)));
    assert_eq!(audio.direction, Direction::SendReceive);
    assert!(audio.ice && audio.is_steerable() && !audio.is_on_hold());
    let formats: Vec<_> = audio
        .payload_formats()
        .map(|f| (f.payload_type, f.name, f.clock_hz))
        .collect();
    assert_eq!(
        formats,
        [(97, "iLBC", 8000), (0, "PCMU", 8000), (8, "PCMA", 8000)]
    );
    assert_eq!(video.kind(), MediaKind::Video);
    assert_eq!(video.rtp(), Some((Host::Ip(ip("2001:db8::1")), 51372)));
    assert_eq!(video.rtcp(), Some((Host::Ip(ip("2001:db8::1")), 51373)));
    assert!(video.is_on_hold(), "sendonly wants nothing");
    let origin = sdp.origin().expect("it has one");
    assert_eq!(origin.host, Host::Name("host.atlanta.example.com"));
    assert_eq!(sdp.lines().count(), OFFER.lines().count());
}

#[test]
fn steering_changes_what_it_must_and_nothing_else() {
    let rewrite = Rewrite::steer(vec![
        steer("198.51.100.1", 30000, 30001),
        steer("198.51.100.1", 30002, 30003),
    ]);
    let expected = OFFER
        .replace("c=IN IP4 192.0.2.10", "c=IN IP4 198.51.100.1")
        .replace("audio 49170", "audio 30000")
        .replace("a=rtcp:53020", "a=rtcp:30001")
        .replace("video 51372", "video 30002")
        .replace("c=IN IP6 2001:db8::1", "c=IN IP4 198.51.100.1")
        .replace("a=ice-options:trickle\r\n", "")
        .replace(
            "a=candidate:1 1 UDP 2130706431 10.0.1.1 8998 typ host\r\n",
            "",
        );
    assert_eq!(apply(OFFER, &rewrite), expected);

    let keep_all = Rewrite {
        ice: Treatment::Keep,
        ..Rewrite::steer(vec![MediaEdit::Keep, MediaEdit::Keep])
    };
    assert_eq!(apply(OFFER, &keep_all), OFFER);
}

#[test]
fn a_section_gets_its_own_address_when_the_sessions_must_stay() {
    let text = one(
        "c=IN IP4 10.0.0.1\r\n",
        "m=audio 4000 RTP/AVP 0\r\ni=a\r\na=x\r\nm=image 4002 udptl t38\r\n",
    );
    let rewrite = Rewrite::steer(vec![steer("2001:db8::9", 30000, 30001), MediaEdit::Keep]);
    let expected = text.replace(
        "m=audio 4000 RTP/AVP 0\r\ni=a\r\n",
        "m=audio 30000 RTP/AVP 0\r\ni=a\r\nc=IN IP6 2001:db8::9\r\n",
    );
    assert_eq!(apply(&text, &rewrite), expected);
}

#[test]
fn sections_led_to_different_hosts_each_have_their_address() {
    let text = one(
        "c=IN IP4 10.0.0.1\r\n",
        "m=audio 4000 RTP/AVP 0\r\nm=video 4002 RTP/AVP 31\r\nm=audio 0 RTP/AVP 0\r\n",
    );
    let rewrite = Rewrite::steer(vec![
        steer("10.9.9.1", 1000, 1001),
        steer("10.9.9.2", 1002, 1003),
        steer("10.9.9.3", 1004, 1005),
    ]);
    let out = apply(&text, &rewrite);
    let sdp = parse(&out);
    assert_eq!(sdp.media()[0].rtp(), Some((Host::Ip(ip("10.9.9.1")), 1000)));
    assert_eq!(sdp.media()[1].rtp(), Some((Host::Ip(ip("10.9.9.2")), 1002)));
    assert!(sdp.media()[2].is_rejected(), "rejected stays rejected");
    assert_eq!(out.matches("10.9.9.2").count(), 1);
    assert!(!out.contains("10.9.9.3"));
}

#[test]
fn rtcp_is_said_where_it_is_not_the_next_port() {
    let text = one("c=IN IP4 10.0.0.1\r\n", "m=audio 4000 RTP/AVP 0\r\n");
    let rewrite = |rtp, rtcp| Rewrite::steer(vec![steer("10.0.0.9", rtp, rtcp)]);
    assert!(!apply(&text, &rewrite(30000, 30001)).contains("a=rtcp"));
    assert!(apply(&text, &rewrite(30000, 40000)).ends_with("a=rtcp:40000\r\n"));
    assert!(apply(&text, &rewrite(65535, 40000)).ends_with("a=rtcp:40000\r\n"));

    let muxed = format!("{text}a=rtcp-mux\r\n");
    assert!(apply(&muxed, &rewrite(30000, 30000)).ends_with("a=rtcp-mux\r\n"));
    let addressed = format!("{text}a=rtcp:4009 IN IP4 10.0.0.2\r\n");
    assert!(
        apply(&addressed, &rewrite(30000, 30001)).ends_with("a=rtcp:30001 IN IP4 10.0.0.9\r\n")
    );
    let host = parse(&addressed).media()[0].rtcp();
    assert_eq!(host, Some((Host::Ip(ip("10.0.0.2")), 4009)));
}

#[test]
fn the_old_hold_stays_a_hold() {
    for zeros in ["IP4 0.0.0.0", "IP6 ::", "IP4 nowhere.invalid"] {
        let text = one(&format!("c=IN {zeros}\r\n"), "m=audio 4000 RTP/AVP 0\r\n");
        let out = apply(
            &text,
            &Rewrite::steer(vec![steer("10.0.0.9", 30000, 30001)]),
        );
        assert_eq!(out, text.replace("audio 4000", "audio 30000"));
        assert!(parse(&out).media()[0].is_on_hold());
    }
    for (direction, holds) in [("sendonly", true), ("inactive", true), ("recvonly", false)] {
        let text = one(
            &format!("c=IN IP4 10.0.0.1\r\na={direction}\r\n"),
            "m=audio 4000 RTP/AVP 0\r\n",
        );
        assert_eq!(parse(&text).media()[0].is_on_hold(), holds, "{direction}");
    }
}

#[test]
fn keys_pass_and_what_may_be_chosen_is_chosen() {
    let text = one(
        "c=IN IP4 10.0.0.1\r\na=group:BUNDLE 0\r\na=group:LS 0\r\n",
        "m=audio 4000 UDP/TLS/RTP/SAVPF 0\r\na=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:d0Rm\r\n\
         a=fingerprint:sha-256 AA:BB\r\na=setup:actpass\r\na=ice-ufrag:x\r\na=mid:0\r\n",
    );
    let edit = || vec![steer("10.0.0.1", 4000, 4001)];
    let out = apply(&text, &Rewrite::steer(edit()));
    let expected = text
        .replace("a=group:BUNDLE 0\r\n", "")
        .replace("a=ice-ufrag:x\r\n", "");
    assert_eq!(out, expected);
    let all = Rewrite {
        ice: Treatment::Keep,
        bundle: Treatment::Keep,
        setup: Treatment::Strip,
        ..Rewrite::steer(edit())
    };
    assert_eq!(apply(&text, &all), text.replace("a=setup:actpass\r\n", ""));
    assert!(parse(&text).media()[0].is_dtls());
}

#[test]
fn announcements_are_set_taken_out_and_read() {
    let text = one(
        "c=IN IP4 10.0.0.1\r\n",
        "m=audio 4000 RTP/AVP 0\r\na=sinew:1 10.7.0.9 5 old.example x=1\r\na=sinew:2 later\r\n",
    );
    assert_eq!(parse(&text).media()[0].announce, Err(BadAnnounce::Repeated));
    let mut to = Steer {
        ip: ip("10.0.0.1"),
        rtp_port: 4000,
        rtcp_port: 4001,
        announce: Some(announce()),
    };
    let out = apply(&text, &Rewrite::steer(vec![MediaEdit::Steer(to.clone())]));
    assert!(out.ends_with("RTP/AVP 0\r\na=sinew:1 10.7.0.3 20000/20001 example.org\r\n"));
    assert_eq!(parse(&out).media()[0].announce, Ok(Some(announce())));
    to.announce = None;
    let legacy = apply(&out, &Rewrite::steer(vec![MediaEdit::Steer(to)]));
    assert!(legacy.ends_with("RTP/AVP 0\r\n"));
}

#[test]
fn announcements_follow_the_grammar() {
    for (text, expected) in [
        ("1 10.7.0.3 20000/20001 example.org", Ok(())),
        ("1 10.7.0.3 1 a", Ok(())),
        ("1 10.7.0.3 20000/20001 example.org p=1 q=x-y", Ok(())),
        (
            "2 10.7.0.3 20000/20001 example.org",
            Err(BadAnnounce::Version),
        ),
        ("", Err(BadAnnounce::Version)),
        ("1 10.7.0 20000/20001 example.org", Err(BadAnnounce::Node)),
        ("1 239.7.0.3 20000 example.org", Err(BadAnnounce::Node)),
        ("1 10.7.0.3 0 example.org", Err(BadAnnounce::Ports)),
        ("1 10.7.0.3 +1 example.org", Err(BadAnnounce::Ports)),
        ("1 10.7.0.3 1/ example.org", Err(BadAnnounce::Ports)),
        ("1 10.7.0.3 1/2/3 example.org", Err(BadAnnounce::Ports)),
        ("1 10.7.0.3 65536 example.org", Err(BadAnnounce::Ports)),
        ("1 10.7.0.3 20000", Err(BadAnnounce::Domain)),
        ("1 10.7.0.3 20000 exa_mple.org", Err(BadAnnounce::Domain)),
        ("1 10.7.0.3 20000 -a.org", Err(BadAnnounce::Domain)),
        ("1 10.7.0.3 20000 a..org", Err(BadAnnounce::Domain)),
        ("1 10.7.0.3 20000 a.org p", Err(BadAnnounce::Extension)),
        ("1 10.7.0.3 20000 a.org ", Err(BadAnnounce::Extension)),
    ] {
        assert_eq!(
            Announce::parse(text.as_bytes()).map(|_| ()),
            expected,
            "{text:?}"
        );
    }
    let written = announce().to_string();
    let value = written.strip_prefix("sinew:").expect("its name");
    assert_eq!(Announce::parse(value.as_bytes()), Ok(announce()));
}

#[test]
fn line_ends_blank_ends_and_missing_ends_are_kept() {
    let text = "v=0\nc=IN IP4 10.0.0.1\nm=audio 4000 RTP/AVP 0\n\n\n";
    let out = apply(text, &Rewrite::steer(vec![steer("10.0.0.9", 1000, 2000)]));
    assert_eq!(
        out,
        "v=0\nc=IN IP4 10.0.0.9\nm=audio 1000 RTP/AVP 0\na=rtcp:2000\n\n\n"
    );
    let text = "v=0\r\nc=IN IP4 10.0.0.1\r\nm=audio  4000  RTP/AVP  0 ";
    let out = apply(text, &Rewrite::steer(vec![steer("10.0.0.9", 1000, 1001)]));
    assert_eq!(
        out,
        "v=0\r\nc=IN IP4 10.0.0.9\r\nm=audio  1000  RTP/AVP  0 "
    );
    let out = apply(text, &Rewrite::steer(vec![steer("10.0.0.9", 1000, 2000)]));
    assert!(out.ends_with("0 \r\na=rtcp:2000\r\n"));
}

#[test]
fn the_origin_is_changed_by_choice() {
    let text = one("c=IN IP4 10.0.0.1\r\n", "m=audio 4000 RTP/AVP 0\r\n");
    let mut rewrite = Rewrite::steer(vec![MediaEdit::Reject]);
    rewrite.origin = Some(OriginEdit {
        ip: ip("2001:db8::7"),
        version: Some(8),
    });
    let out = apply(&text, &rewrite);
    assert!(out.contains("o=- 1 8 IN IP6 2001:db8::7\r\n"));
    assert!(out.ends_with("m=audio 0 RTP/AVP 0\r\n"));
    let without = parse("v=0\r\no=what is this\r\n");
    assert!(without.origin().is_none());
    rewrite.media.clear();
    assert_eq!(rewrite.apply(&without), Err(RewriteError::NoOrigin));
}

#[test]
fn what_cannot_be_steered_is_refused_whole() {
    let refuse = |media: &str, port| {
        let text = one("c=IN IP4 10.0.0.1\r\n", media);
        Rewrite::steer(vec![steer("10.0.0.9", port, port)]).apply(&parse(&text))
    };
    let not_steerable = Err(RewriteError::NotSteerable { media: 0 });
    for media in [
        "m=audio 4000/2 RTP/AVP 0\r\n",
        "m=audio 4000 TCP/RTP/AVP 0\r\n",
        "m=image 4000 udptl t38\r\n",
        "m=audio 4000 RTP/AVP 0\r\nc=IN IP4 239.1.1.1/127\r\n",
    ] {
        assert_eq!(refuse(media, 1000), not_steerable, "{media}");
    }
    let no_port = Err(RewriteError::NoPort { media: 0 });
    assert_eq!(refuse("m=audio 4000 RTP/AVP 0\r\n", 0), no_port);
    let count = Rewrite::steer(vec![]).apply(&parse(OFFER));
    assert_eq!(
        count,
        Err(RewriteError::Count {
            sections: 2,
            edits: 0
        })
    );
}

#[test]
fn bad_descriptions_are_refused_with_the_line() {
    let media = |line: &str| one("c=IN IP4 10.0.0.1\r\n", line);
    for (text, expected) in [
        (String::new(), SdpError::NoVersion),
        ("v=1\r\n".into(), SdpError::NoVersion),
        ("v=0\r\nx\r\n".into(), SdpError::NotALine { line: 2 }),
        ("v=0\r\n\r\ns=-\r\n".into(), SdpError::NotALine { line: 2 }),
        ("v=0\r\n=x\r\n".into(), SdpError::NotALine { line: 2 }),
        (
            "v=0\r\ns=a\rb\r\n".into(),
            SdpError::ControlByte { line: 2 },
        ),
        (
            "v=0\r\ns=a\0b\r\n".into(),
            SdpError::ControlByte { line: 2 },
        ),
        (
            "v=0\r\nc=IN IP4 ::1\r\n".into(),
            SdpError::BadConnection { line: 2 },
        ),
        (
            "v=0\r\nc=IN IP4 1.2.3.256\r\n".into(),
            SdpError::BadConnection { line: 2 },
        ),
        (
            "v=0\r\nc=ATM NSAP x\r\n".into(),
            SdpError::BadConnection { line: 2 },
        ),
        (
            "v=0\r\nm=audio 4000 RTP/AVP 0\r\n".into(),
            SdpError::NoConnection { line: 2 },
        ),
        (
            media("m=audio 65536 RTP/AVP 0\r\n"),
            SdpError::BadMedia { line: 6 },
        ),
        (
            media("m=audio +1 RTP/AVP 0\r\n"),
            SdpError::BadMedia { line: 6 },
        ),
        (
            media("m=audio 1/0 RTP/AVP 0\r\n"),
            SdpError::BadMedia { line: 6 },
        ),
        (media("m=audio 1\r\n"), SdpError::BadMedia { line: 6 }),
        (
            media("m=audio 1 RTP/AVP 0\r\na=rtcp:0\r\n"),
            SdpError::BadRtcp { line: 7 },
        ),
        (
            media("m=audio 1 RTP/AVP 0\r\na=rtcp:2 IN\r\n"),
            SdpError::BadRtcp { line: 7 },
        ),
        (
            media("m=audio 1 RTP/AVP 0\r\na=rtcp:2\r\na=rtcp:3\r\n"),
            SdpError::Repeated {
                line: 8,
                what: "a=rtcp:",
            },
        ),
        (
            "v=0\r\nc=IN IP4 1.2.3.4\r\nc=IN IP4 1.2.3.5\r\n".into(),
            SdpError::Repeated {
                line: 3,
                what: "c=",
            },
        ),
        (
            "v=0\r\nv=0\r\n".into(),
            SdpError::Repeated {
                line: 2,
                what: "v=",
            },
        ),
    ] {
        assert_eq!(
            Sdp::parse(text.as_bytes()).map(|_| ()),
            Err(expected),
            "{text:?}"
        );
    }
}

#[test]
fn hostile_sizes_are_refused_before_they_cost() {
    let long = format!("v=0\r\ns={}\r\n", "x".repeat(100_000));
    let bytes = long.len();
    assert_eq!(
        Sdp::parse(long.as_bytes()).map(|_| ()),
        Err(SdpError::TooLong { bytes })
    );
    let lines = format!("v=0\n{}", "s=\n".repeat(10_000));
    assert_eq!(
        Sdp::parse(lines.as_bytes()).map(|_| ()),
        Err(SdpError::TooManyLines)
    );
    let sections = format!("v=0\nc=IN IP4 1.2.3.4\n{}", "m=audio 1 R 0\n".repeat(1_000));
    let line = MEDIA_MAX + 3;
    assert_eq!(
        Sdp::parse(sections.as_bytes()).map(|_| ()),
        Err(SdpError::TooManyMedia { line })
    );
    let more = format!("v=0\n{}", "m=a 1 R\n".repeat(10_000));
    let bytes = more.len();
    assert_eq!(
        Sdp::parse(more.as_bytes()).map(|_| ()),
        Err(SdpError::TooLong { bytes })
    );
    let line = format!("v=0\ns={}\n", "x".repeat(60_000));
    assert!(Sdp::parse(line.as_bytes()).is_ok(), "a long line is a line");
}

#[test]
fn every_prefix_is_read_or_refused_and_steered() {
    let text = format!("{OFFER}a=sinew:1 10.7.0.3 20000/20001 example.org\r\n");
    for length in 0..text.len() {
        let Ok(sdp) = Sdp::parse(&text.as_bytes()[..length]) else {
            continue;
        };
        let edits = sdp
            .media()
            .iter()
            .map(|section| match section.is_steerable() {
                true => steer("10.0.0.9", 1000, 2000),
                false => MediaEdit::Keep,
            })
            .collect();
        let out = Rewrite::steer(edits).apply(&sdp).expect("all is RTP");
        assert!(Sdp::parse(&out).is_ok(), "{length}");
    }
}

#[test]
fn a_draft_is_read_as_it_was_meant() {
    let draft = Draft {
        session: 7,
        version: 8,
        ip: ip("10.0.0.1"),
        media: vec![DraftMedia {
            media: "audio",
            rtp_port: 4000,
            rtcp_port: Some(4007),
            formats: vec![(0, "PCMU/8000"), (111, "opus/48000/2")],
            direction: Direction::ReceiveOnly,
            rtcp_mux: true,
            announce: Some(announce()),
        }],
    };
    let bytes = draft.to_bytes();
    let sdp = Sdp::parse(&bytes).expect("it is valid");
    let [audio] = sdp.media() else {
        panic!("one section")
    };
    assert_eq!(audio.rtcp(), Some((Host::Ip(ip("10.0.0.1")), 4007)));
    assert_eq!(audio.direction, Direction::ReceiveOnly);
    assert!(audio.rtcp_mux && audio.is_steerable());
    assert_eq!(audio.announce, Ok(Some(announce())));
    assert_eq!(audio.payload_formats().count(), 2);
}

mod exchanges {
    use super::*;

    fn sdp(media: &[&str]) -> String {
        let sections: String = media.iter().map(|m| format!("m={m}\r\n")).collect();
        one("c=IN IP4 10.0.0.1\r\n", &sections)
    }

    fn ask(exchange: &mut Exchange, by: Side, offer: &[&str], answer: &[&str]) -> Vec<Change> {
        exchange.offer(by, &parse(&sdp(offer))).expect("an offer");
        let answer = sdp(answer);
        exchange
            .answer(by.other(), &parse(&answer))
            .expect("an answer to it")
    }

    const AUDIO: &str = "audio 4000 RTP/AVP 0";
    const VIDEO: &str = "video 4002 RTP/AVP 31";
    const NO_VIDEO: &str = "video 0 RTP/AVP 31";

    #[test]
    fn streams_are_matched_by_their_place() {
        let mut exchange = Exchange::new();
        let changes = ask(
            &mut exchange,
            Side::Caller,
            &[AUDIO, VIDEO],
            &[AUDIO, NO_VIDEO],
        );
        assert_eq!(changes, [Change::Added { media: 0 }]);
        assert!(!exchange.streams()[1].active);

        // The callee adds video and holds audio.
        let held = "audio 4000 RTP/AVP 0\r\na=sendonly";
        let listens = "audio 4000 RTP/AVP 0\r\na=recvonly";
        let changes = ask(
            &mut exchange,
            Side::Callee,
            &[held, VIDEO],
            &[listens, VIDEO],
        );
        assert_eq!(
            changes,
            [Change::Turned { media: 0 }, Change::Added { media: 1 }]
        );
        let audio = &exchange.streams()[0];
        assert!(audio.flows(Side::Callee) && !audio.flows(Side::Caller));

        // The call is resumed at another port, without video.
        let moved = "audio 5000 RTP/AVP 0";
        let changes = ask(
            &mut exchange,
            Side::Callee,
            &[moved, NO_VIDEO],
            &[AUDIO, NO_VIDEO],
        );
        let side = Side::Callee;
        assert_eq!(
            changes,
            [
                Change::Moved { media: 0, side },
                Change::Turned { media: 0 },
                Change::Ended { media: 1 }
            ]
        );
        // A place that carries nothing may be used by another kind of media.
        let text = "text 6000 RTP/AVP 98";
        assert_eq!(
            ask(&mut exchange, Side::Caller, &[AUDIO, text], &[AUDIO, text]),
            [Change::Moved { media: 0, side }]
        );
    }

    #[test]
    fn what_is_not_an_answer_changes_nothing() {
        let mut exchange = Exchange::new();
        let refused = |exchange: &mut Exchange, by, media: &[&str]| {
            exchange.answer(by, &parse(&sdp(media))).map(|_| ())
        };
        let none = Err(ExchangeError::NoOffer { by: Side::Callee });
        assert_eq!(refused(&mut exchange, Side::Callee, &[AUDIO]), none);

        let offer = sdp(&[AUDIO, VIDEO]);
        exchange
            .offer(Side::Caller, &parse(&offer))
            .expect("nothing is open");
        assert_eq!(exchange.open_offer(), Some(Side::Caller));
        for by in Side::BOTH {
            let glare = Err(ExchangeError::OfferOpen { by: Side::Caller });
            assert_eq!(exchange.offer(by, &parse(&offer)), glare);
        }
        let own = Err(ExchangeError::NoOffer { by: Side::Caller });
        assert_eq!(refused(&mut exchange, Side::Caller, &[AUDIO, VIDEO]), own);
        let (offered, answered) = (2, 1);
        let count = Err(ExchangeError::Count { offered, answered });
        assert_eq!(refused(&mut exchange, Side::Callee, &[AUDIO]), count);
        let kind = Err(ExchangeError::Kind { media: 0 });
        assert_eq!(refused(&mut exchange, Side::Callee, &[VIDEO, AUDIO]), kind);
        let savp = "audio 4000 RTP/SAVP 0";
        let protocol = Err(ExchangeError::Protocol { media: 0 });
        assert_eq!(
            refused(&mut exchange, Side::Callee, &[savp, VIDEO]),
            protocol
        );
        assert_eq!(exchange.streams().len(), 0);
        assert_eq!(
            refused(&mut exchange, Side::Callee, &[AUDIO, VIDEO]),
            Ok(())
        );

        let fewer = exchange.offer(Side::Callee, &parse(&sdp(&[AUDIO])));
        assert_eq!(fewer, Err(ExchangeError::Fewer { had: 2, has: 1 }));
        let other = exchange.offer(Side::Callee, &parse(&sdp(&[AUDIO, AUDIO])));
        assert_eq!(other, Err(ExchangeError::Kind { media: 1 }));
        assert_eq!(exchange.open_offer(), None);
    }

    #[test]
    fn an_offer_that_failed_leaves_the_call_as_it_was() {
        let mut exchange = Exchange::new();
        ask(&mut exchange, Side::Callee, &[AUDIO], &[AUDIO]);
        let before = exchange.streams().to_vec();
        // The offer is refused unanswered; or it is answered in a 183, then refused.
        let moved = sdp(&["audio 5000 RTP/AVP 0"]);
        exchange
            .offer(Side::Caller, &parse(&moved))
            .expect("nothing is open");
        assert_eq!(exchange.withdraw(), []);
        let side = Side::Caller;
        let change = [Change::Moved { media: 0, side }];
        assert_eq!(
            ask(&mut exchange, side, &["audio 5000 RTP/AVP 0"], &[AUDIO]),
            change
        );
        assert_eq!(exchange.withdraw(), change);
        assert_eq!(exchange.streams(), before);
    }

    #[test]
    fn an_answer_may_come_again_and_differ() {
        let mut exchange = Exchange::new();
        ask(&mut exchange, Side::Caller, &[AUDIO], &[AUDIO]);
        let again = exchange.answer(Side::Callee, &parse(&sdp(&[AUDIO])));
        assert_eq!(again, Ok(vec![]));
        let side = Side::Callee;
        let moved = exchange.answer(side, &parse(&sdp(&["audio 7000 RTP/AVP 0"])));
        assert_eq!(moved, Ok(vec![Change::Moved { media: 0, side }]));
    }

    #[test]
    fn the_overlay_is_used_when_both_announce_it() {
        let aware = format!("audio 4000 RTP/AVP 0\r\na={}", announce());
        for (answer, is_overlay) in [(aware.as_str(), true), (AUDIO, false)] {
            let mut exchange = Exchange::new();
            ask(&mut exchange, Side::Caller, &[&aware], &[answer]);
            let path = exchange.streams()[0].path();
            assert_eq!(path != Path::Legacy, is_overlay);
        }
    }

    #[test]
    fn a_hold_by_zeros_is_no_move() {
        let mut exchange = Exchange::new();
        ask(&mut exchange, Side::Caller, &[AUDIO], &[AUDIO]);
        let held = "audio 4000 RTP/AVP 0\r\nc=IN IP4 0.0.0.0";
        let changes = ask(&mut exchange, Side::Caller, &[held], &[AUDIO]);
        assert_eq!(changes, [Change::Turned { media: 0 }]);
        assert!(exchange.streams()[0].flows(Side::Caller));
    }
}
