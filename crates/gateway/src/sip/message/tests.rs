use super::*;
use rsipstack::sip::SipMessage;

fn request(lines: &str) -> Request {
    let head = "INVITE sip:bob@b.example SIP/2.0\r\n\
                Via: SIP/2.0/UDP 192.0.2.5:5060;branch=z9hG4bK1;rport\r\n\
                From: <sip:alice@a.example>;tag=a\r\nTo: <sip:bob@b.example>\r\n\
                Call-ID: 1@a\r\nCSeq: 7 INVITE\r\n";
    let text = format!("{head}{lines}Content-Length: 0\r\n\r\n");
    match SipMessage::try_from(text.as_str()).unwrap() {
        SipMessage::Request(request) => request,
        SipMessage::Response(_) => panic!("a request"),
    }
}

fn values(request: &Request, name: &str) -> Vec<String> {
    let headers = request.headers.iter();
    let named = headers.filter(|h| h.name().eq_ignore_ascii_case(name));
    named.map(|h| h.value().to_owned()).collect()
}

#[test]
fn hops_are_counted_down_and_end() {
    let mut r = request("Max-Forwards: 1\r\n");
    assert!(count_hop(&mut r));
    assert_eq!(values(&r, "Max-Forwards"), ["0"]);
    assert!(!count_hop(&mut r));
    let mut r = request("");
    assert!(count_hop(&mut r));
    assert_eq!(values(&r, "Max-Forwards"), ["70"]);
    // A very high value does not let the request loop for longer.
    let mut r = request("Max-Forwards: 4000000000\r\n");
    assert!(count_hop(&mut r));
    assert_eq!(values(&r, "Max-Forwards"), ["70"]);
}

#[test]
fn own_routes_go_and_others_stay_in_order() {
    let is_own = |uri: &Uri| uri.host().to_string() == "192.0.2.1";
    let mut r = request(
        "Route: <sip:192.0.2.1;lr;call=1f>, <sip:192.0.2.1:5060;lr>,\r\n \
         <sip:p1.example;lr>\r\nRoute: <sip:192.0.2.1;lr>\r\nX-After: 1\r\n",
    );
    assert_eq!(pop_own_routes(&mut r, is_own).unwrap(), Some(0x1f));
    let routes = values(&r, "Route");
    assert_eq!(routes, ["<sip:p1.example;lr>", "<sip:192.0.2.1;lr>"]);
    // A Route of ours that is not on top is not removed.
    assert_eq!(pop_own_routes(&mut r, is_own).unwrap(), None);
    assert_eq!(values(&r, "Route"), routes);
}

#[test]
fn a_via_goes_on_and_comes_off_also_from_a_shared_line() {
    let mut r = request("");
    let own = "192.0.2.1:5060".try_into().unwrap();
    push_via(&mut r, Transport::Udp, &own);
    let vias = values(&r, "Via");
    assert!(
        vias[0].starts_with("SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK"),
        "{vias:?}"
    );
    assert_eq!(vias.len(), 2);
    let text = "SIP/2.0 200 OK\r\nv: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK2, SIP/2.0/UDP \
                192.0.2.5;branch=z9hG4bK1\r\nf: <sip:a@a>;tag=a\r\nt: <sip:b@b>;tag=b\r\n\
                i: 1\r\nCSeq: 7 INVITE\r\nl: 0\r\n\r\n";
    let SipMessage::Response(mut response) = SipMessage::try_from(text).unwrap() else {
        panic!("a response");
    };
    pop_via(&mut response);
    let left: Vec<_> = response
        .headers
        .iter()
        .filter(|h| h.name() == "Via")
        .collect();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].value(), "SIP/2.0/UDP 192.0.2.5;branch=z9hG4bK1");
    pop_via(&mut response);
    assert!(response.via_header().is_err());
}

#[test]
fn record_routes_come_on_top_and_name_the_call() {
    let mut r = request("Record-Route: <sip:p1.example;lr>\r\n");
    push_record_route(
        &mut r,
        &"192.0.2.1:5060".try_into().unwrap(),
        Transport::Udp,
        31,
    );
    push_record_route(
        &mut r,
        &"10.7.0.1.sinew".try_into().unwrap(),
        Transport::Tcp,
        31,
    );
    assert_eq!(
        values(&r, "Record-Route"),
        [
            "<sip:10.7.0.1.sinew;transport=tcp;lr;call=1f>",
            "<sip:192.0.2.1:5060;lr;call=1f>",
            "<sip:p1.example;lr>"
        ]
    );
    let uris: Vec<Uri> = record_routes(&r)
        .into_iter()
        .map(|route| route.uri)
        .collect();
    assert_eq!(call_of(&uris[0]), Some(31));
    assert_eq!(call_of(&uris[2]), None);
}

#[test]
fn only_a_bare_description_is_led() {
    let of = |lines: &str| {
        let mut r = request(lines);
        r.body = b"v=0\r\n".to_vec();
        description(&r, &r.body).is_some()
    };
    assert!(of("Content-Type: application/SDP; charset=utf-8\r\n"));
    assert!(of("c: application/sdp\r\n"));
    assert!(!of("Content-Type: multipart/mixed; boundary=x\r\n"));
    assert!(!of(
        "Content-Type: application/sdp\r\nContent-Encoding: gzip\r\n"
    ));
    assert!(!of(""));
}

#[test]
fn requirements_that_are_not_known_are_named() {
    let r = request("Proxy-Require: sinew, foo\r\nProxy-Require: bar\r\n");
    assert_eq!(unknown_requirements(&r, &["sinew"]), ["foo", "bar"]);
    let mut r = request("Supported: 100rel\r\n");
    add_supported(&mut r, "sinew");
    add_supported(&mut r, "sinew");
    assert_eq!(values(&r, "Supported"), ["100rel", "sinew"]);
}
