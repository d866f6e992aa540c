//! Descriptions from a grammar: tests check the steered parts, and that nothing else changes.

use core::net::IpAddr;

use base::{NodeAddr, VirtualPort};
use proptest::prelude::*;
use voice::sdp::{Announce, Host, MediaEdit, Rewrite, Sdp, Section, Steer, Treatment};

fn address() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<[u8; 4]>()
            .prop_map(core::net::Ipv4Addr::from)
            .prop_filter("unicast", |ip| !ip.is_multicast())
            .prop_map(|ip| format!("IN IP4 {ip}")),
        any::<[u16; 8]>()
            .prop_map(core::net::Ipv6Addr::from)
            .prop_filter("unicast", |ip| !ip.is_multicast())
            .prop_map(|ip| format!("IN IP6 {ip}")),
        Just("IN IP4 0.0.0.0".to_owned()),
        Just("IN IP4 phone.example.org".to_owned()),
    ]
}

/// Draws lines that pass unchanged through any steering.
fn other_line() -> impl Strategy<Value = String> {
    prop_oneof![
        "[bikt]=[ -~]{0,30}",
        "a=x-[a-z]{1,8}(:[ -~]{0,20})?",
        "a=fmtp:[0-9]{1,2} [a-z=;0-9]{0,20}",
        "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:[A-Za-z0-9+/]{40}",
        "a=fingerprint:sha-256 [0-9A-F:]{10,30}",
        Just("a=rtcp-mux".to_owned()),
        Just("a=sendonly".to_owned()),
        Just("a=inactive".to_owned()),
        Just("a=setup:actpass".to_owned()),
        Just("s=Ünïcödé".to_owned()),
    ]
}

/// Draws lines that default steering removes from the sections that it steers.
fn ice_line() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("a=ice-ufrag:8hhY".to_owned()),
        "a=candidate:1 1 UDP [0-9]{1,9} 10.0.1.1 [0-9]{4} typ host",
        Just("a=sinew:1 10.7.0.3 20000 example.org".to_owned()),
    ]
}

fn section() -> impl Strategy<Value = Vec<String>> {
    let head = (
        prop_oneof![Just("audio"), Just("video"), Just("message")],
        prop_oneof![4 => 1_u16.., 1 => Just(0)],
        prop_oneof![Just("RTP/AVP"), Just("RTP/SAVP"), Just("UDP/TLS/RTP/SAVPF")],
    );
    let lines = prop::collection::vec(other_line(), 0..4);
    let ice = prop::collection::vec(ice_line(), 0..3);
    let rtcp = prop::option::of((1_u16.., prop::option::of(address())));
    (head, prop::option::of(address()), lines, ice, rtcp).prop_map(
        |((media, port, protocol), connection, lines, ice, rtcp)| {
            let mut text = vec![format!("m={media} {port} {protocol} 0 101")];
            text.extend(connection.map(|address| format!("c={address}")));
            text.extend(lines);
            text.extend(ice);
            text.extend(rtcp.map(|(port, address)| match address {
                Some(address) => format!("a=rtcp:{port} {address}"),
                None => format!("a=rtcp:{port}"),
            }));
            text
        },
    )
}

/// Draws a description as its lines, and their line end.
fn description() -> impl Strategy<Value = (Vec<String>, &'static str)> {
    let session = (
        prop_oneof![3 => address().prop_map(|a| format!("c={a}")), 1 => Just(String::new())],
        prop::collection::vec(other_line(), 0..4),
        prop::collection::vec(ice_line(), 0..2),
    );
    let sections = prop::collection::vec(section(), 0..5);
    (session, sections, prop_oneof![Just("\r\n"), Just("\n")]).prop_map(
        |((connection, lines, ice), sections, end)| {
            let mut text = vec!["v=0".to_owned(), "o=- 1 1 IN IP4 10.0.0.1".to_owned()];
            text.extend(Some(connection).filter(|line| !line.is_empty()));
            text.extend(lines);
            text.extend(ice);
            text.extend(sections.into_iter().flatten());
            (text, end)
        },
    )
}

fn edits(sections: &[Section<'_>], seed: u64, one_host: bool) -> Vec<MediaEdit> {
    sections
        .iter()
        .zip(0_u16..)
        .map(|(section, n)| match (seed >> (3 * n)) & 7 {
            0 | 4 => MediaEdit::Keep,
            5 => MediaEdit::Announce(announce()),
            2.. if section.port != 0 && !section.is_steerable() => MediaEdit::Keep,
            1 => MediaEdit::Reject,
            _ => {
                let host = if one_host { 9 } else { 9 + n as u8 % 2 };
                let rtp_port = 30_000 + 2 * n;
                MediaEdit::Steer(Steer {
                    ip: IpAddr::from([198, 51, 100, host]),
                    rtp_port,
                    rtcp_port: rtp_port + 1,
                    announce: None,
                })
            }
        })
        .collect()
}

fn announce() -> Announce {
    let node = NodeAddr(0x0a07_0003);
    Announce::new(node, VirtualPort(500), VirtualPort(501), "example.org")
        .expect("it follows the grammar")
}

/// Returns whether steering may change, insert or remove a line.
fn may_change(line: &str) -> bool {
    ["m=", "c=", "a=rtcp:", "a=ice-", "a=candidate:", "a=sinew:"]
        .iter()
        .any(|start| line.starts_with(start))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn steering_leads_what_it_should_and_keeps_the_rest(
        (lines, end) in description(),
        seed in any::<u64>(),
        one_host in any::<bool>(),
    ) {
        let text = lines.join(end) + end;
        // The grammar sometimes makes a section without an address.
        let sdp = Sdp::parse(text.as_bytes());
        prop_assume!(sdp.is_ok());
        let sdp = sdp.unwrap();
        let rewrite = Rewrite::steer(edits(sdp.media(), seed, one_host));
        let out = rewrite.apply(&sdp);
        prop_assert!(out.is_ok(), "{:?}", out);
        let out = out.unwrap();
        let read = Sdp::parse(&out);
        prop_assert!(read.is_ok(), "{:?}\n{}", read, String::from_utf8_lossy(&out));
        let read = read.unwrap();

        // Each steered section has its new address, and the others are unchanged.
        prop_assert_eq!(read.media().len(), sdp.media().len());
        for ((was, is), edit) in sdp.media().iter().zip(read.media()).zip(&rewrite.media) {
            match edit {
                MediaEdit::Keep => {
                    if was.port != 0 {
                        prop_assert_eq!(is.rtp(), was.rtp());
                        prop_assert_eq!(is.rtcp(), was.rtcp());
                    }
                }
                MediaEdit::Announce(_) if was.port == 0 => prop_assert_eq!(is.port, 0),
                MediaEdit::Announce(to) => {
                    prop_assert_eq!(&is.announce, &Ok(Some(to.clone())));
                    prop_assert_eq!(is.rtp(), was.rtp());
                    prop_assert_eq!(is.rtcp(), was.rtcp());
                }
                MediaEdit::Reject => prop_assert_eq!(is.port, 0),
                MediaEdit::Steer(_) if was.port == 0 => prop_assert_eq!(is.port, 0),
                MediaEdit::Steer(to) => {
                    let zeros = was.connection.unwrap().host.is_unspecified();
                    let (host, port) = is.rtp().unwrap();
                    prop_assert_eq!(port, to.rtp_port);
                    prop_assert_eq!(is.rtcp().unwrap().1, to.rtcp_port);
                    prop_assert_eq!(host.is_unspecified(), zeros);
                    prop_assert!(zeros || host == Host::Ip(to.ip));
                }
            }
            prop_assert_eq!(is.direction, was.direction);
            prop_assert_eq!(is.formats, was.formats);
            prop_assert_eq!(is.is_on_hold() || is.port == 0, was.is_on_hold() || is.port == 0);
        }

        // All other lines stay, in their order and with their line ends.
        let out_text = String::from_utf8(out.clone()).unwrap();
        let kept = |text: &str| -> Vec<String> {
            text.split_inclusive('\n').filter(|line| !may_change(line)).map(str::to_owned).collect()
        };
        prop_assert_eq!(kept(&out_text), kept(&text));

        // A second application changes nothing.
        prop_assert_eq!(rewrite.apply(&read), Ok(out));
    }

    #[test]
    fn nothing_to_do_is_nothing_done((lines, end) in description()) {
        let text = lines.join(end) + end;
        if let Ok(sdp) = Sdp::parse(text.as_bytes()) {
            let keep = Rewrite {
                ice: Treatment::Keep,
                announcements: Treatment::Keep,
                bundle: Treatment::Keep,
                ..Rewrite::steer(vec![MediaEdit::Keep; sdp.media().len()])
            };
            prop_assert_eq!(keep.apply(&sdp), Ok(text.into_bytes()));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Sdp::parse(&bytes);
        let mut text = b"v=0\r\n".to_vec();
        text.extend(bytes);
        let _ = Sdp::parse(&text);
    }
}
