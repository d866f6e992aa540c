//! Answers of routers, each in its own form.

use super::description::{Control, Kind, controls};
use super::http::{ANSWER_MAX, Answer, get};
use super::soap::{Action, Outcome};
use super::*;
use proptest::prelude::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn location() -> Url {
    url("http://192.168.1.1:5000/dev/root.xml")
}

/// Returns a description with nested devices, as in the architecture, and with these services in the innermost device.
fn description(base: &str, services: &[(&str, &str)]) -> String {
    let services: String = services
        .iter()
        .map(|(kind, at)| {
            format!(
                "<service><serviceType>urn:schemas-upnp-org:service:{kind}</serviceType>\
                 <serviceId>urn:upnp-org:serviceId:x</serviceId><SCPDURL>/x.xml</SCPDURL>\
                 <controlURL>{at}</controlURL><eventSubURL>/e</eventSubURL></service>\r\n"
            )
        })
        .collect();
    format!(
        "<?xml version=\"1.0\"?>\r\n<root xmlns=\"urn:schemas-upnp-org:device-1-0\">\r\n\
         <specVersion><major>1</major><minor>0</minor></specVersion>{base}\r\n\
         <device><deviceType>urn:schemas-upnp-org:device:InternetGatewayDevice:1</deviceType>\
         <friendlyName>A &amp; B</friendlyName>\
         <serviceList><service><serviceType>urn:schemas-upnp-org:service:Layer3Forwarding:1</serviceType>\
         <controlURL>/l3f</controlURL></service></serviceList>\
         <deviceList><device><deviceList><device><serviceList>{services}</serviceList>\
         </device></deviceList></device></deviceList></device></root>\r\n"
    )
}

fn found(base: &str, services: &[(&str, &str)]) -> Result<Vec<String>, Malformed> {
    let controls = controls(description(base, services).as_bytes(), &location())?;
    Ok(controls.iter().map(|it| it.url.to_string()).collect())
}

#[test]
fn an_address_is_one_of_ipv4_and_ends_no_line() {
    for (text, read) in [
        ("http://192.168.1.1/a", "http://192.168.1.1:80/a"),
        ("HTTP://192.168.1.1:5000", "http://192.168.1.1:5000/"),
        (" http://10.0.0.1:8/?a=b#c\r\n", "http://10.0.0.1:8/?a=b"),
    ] {
        assert_eq!(url(text).to_string(), read);
    }
    for wrong in [
        "",
        "http://",
        "https://192.168.1.1/",
        "ftp://192.168.1.1/",
        "http://router.local/",
        "http://[fe80::1]/",
        "http://user@192.168.1.1/",
        "http://192.168.1.1:0/",
        "http://192.168.1.1:65536/",
        "http://192.168.1.1/a b",
        "http://192.168.1.1/a\r\nHost: b",
        "http://192.168.1.1/ä",
        "ħttp://192.168.1.1/",
    ] {
        assert!(Url::parse(wrong).is_err(), "{wrong}");
    }
    let long = format!("http://192.168.1.1/{}", "a".repeat(PATH_MAX));
    assert_eq!(Url::parse(&long), Err(Malformed::Length));
}

#[test]
fn a_relative_address_is_at_the_same_host() {
    for (text, read) in [
        ("/ctl", "http://192.168.1.1:5000/ctl"),
        ("ctl?x", "http://192.168.1.1:5000/dev/ctl?x"),
        ("http://10.0.0.9:1/c", "http://10.0.0.9:1/c"),
        ("HTTP://10.0.0.9/c", "http://10.0.0.9:80/c"),
        (
            "/ctl?u=http://x/",
            "http://192.168.1.1:5000/ctl?u=http://x/",
        ),
    ] {
        assert_eq!(location().join(text).unwrap().to_string(), read);
    }
    assert!(location().join("//10.0.0.9/c").is_err());
    assert!(location().join("https://10.0.0.9/c").is_err());
    assert!(location().join("/c\r\nX: y").is_err());
    assert_eq!(url("http://10.0.0.1").join("c").unwrap().path, "/c");
}

#[test]
fn a_search_is_answered_with_a_location() {
    let search = String::from_utf8(ssdp::search(1)).unwrap();
    assert!(search.starts_with("M-SEARCH * HTTP/1.1\r\n") && search.ends_with(":1\r\n\r\n"));
    let st = "ST: urn:schemas-upnp-org:device:InternetGatewayDevice:1";
    let at = "http://192.168.1.1:5000/dev/root.xml";
    for answer in [
        format!("HTTP/1.1 200 OK\r\nCACHE-CONTROL: max-age=120\r\n{st}\r\nLOCATION: {at}\r\n\r\n"),
        format!("HTTP/1.1 200 OK\nlocation:{at}\nst:{}\n\n", &st[3..]),
        format!("HTTP/1.0 200\r\nLocation: {at}\r\n{st}"),
        format!("HTTP/1.1 200 OK\r\nEXT:\r\n{st}\r\nLocation:   {at}  \r\n\r\nmore"),
    ] {
        assert_eq!(
            ssdp::location(answer.as_bytes()),
            Ok(location()),
            "{answer}"
        );
    }
    for wrong in [
        String::new(),
        "HTTP/1.1".into(),
        format!("HTTP/1.1 200 OK\r\n{st}\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\nLOCATION: {at}\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\nST: upnp:rootdevice\r\nLOCATION: {at}\r\n\r\n"),
        format!("HTTP/1.1 500 No\r\n{st}\r\nLOCATION: {at}\r\n\r\n"),
        format!("NOTIFY * HTTP/1.1\r\n{st}\r\nLOCATION: {at}\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\n{st}\r\nLOCATION: http://router/\r\n\r\n"),
        format!(
            "HTTP/1.1 200 OK\r\n{st}\r\nLOCATION: {at}\r\n{}\r\n",
            "x".repeat(1_500)
        ),
    ] {
        assert!(ssdp::location(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

#[test]
fn services_are_found_wherever_they_are() {
    let both = [("WANPPPConnection:1", "/ppp"), ("WANIPConnection:1", "/ip")];
    let at = |path: &str| format!("http://192.168.1.1:5000{path}");
    assert_eq!(found("", &both), Ok(vec![at("/ip"), at("/ppp")]));
    assert_eq!(
        found("", &[("WANIPConnection:2", "c")]),
        Ok(vec![at("/dev/c")])
    );
    assert_eq!(
        found("", &[("WANCommonInterfaceConfig:1", "/c")]),
        Ok(vec![])
    );
    let base = "<URLBase>http://192.168.1.1:49000/</URLBase>";
    let read = found(
        base,
        &[("WANIPConnection:1", "igd/c"), ("WANPPPConnection:1", "/p")],
    );
    let at = |path: &str| format!("http://192.168.1.1:49000{path}");
    assert_eq!(read, Ok(vec![at("/igd/c"), at("/p")]));
    let elsewhere = found("", &[("WANIPConnection:1", "http://10.0.0.9:22/c")]);
    assert_eq!(
        elsewhere,
        Ok(vec!["http://10.0.0.9:22/c".to_owned()]),
        "for the caller to judge"
    );
    assert_eq!(
        found("<URLBase> </URLBase>", &both[..1]).unwrap(),
        ["http://192.168.1.1:5000/ppp"]
    );
    // This document has prefixes instead of a default name space, no declaration, Latin-1, a mark at the front and
    // zeros at the end.
    let odd = b"\xef\xbb\xbf\r\n<u:root xmlns:u='urn:schemas-upnp-org:device-1-0'><u:device><u:friendlyName>Caf\xe9</u:friendlyName>\
        <u:serviceList><u:service><u:serviceType>\n urn:schemas-upnp-org:service:WANIPConnection:1 </u:serviceType>\
        <u:controlURL>/c?a=1&amp;b=2</u:controlURL></u:service></u:serviceList></u:device></u:root>\n\0\0";
    let read = controls(odd, &location()).unwrap();
    assert_eq!(
        (read[0].kind, read[0].url.path.as_str()),
        (Kind::Ip1, "/c?a=1&b=2")
    );
}

#[test]
fn a_mistake_in_an_address_costs_only_that_address() {
    let at = |path: &str| vec![format!("http://192.168.1.1:5000{path}")];
    for wrong in ["", "/a b", "http://router/c", "https://192.168.1.1/c"] {
        let services = [("WANPPPConnection:1", wrong), ("WANIPConnection:1", "/ip")];
        assert_eq!(found("", &services), Ok(at("/ip")), "{wrong}");
        assert_eq!(found("", &services[..1]), Ok(vec![]), "{wrong}");
    }
    for base in ["http://router/", "//10.0.0.9/", "https://192.168.1.1/"] {
        let base = format!("<URLBase>{base}</URLBase>");
        let read = found(&base, &[("WANIPConnection:1", "ip")]);
        assert_eq!(read, Ok(at("/dev/ip")), "{base}");
    }
}

#[test]
fn a_description_that_is_not_one_is_malformed() {
    let many = vec![("WANIPConnection:1", "/c"); 9];
    assert_eq!(found("", &many), Err(Malformed::Count));
    let bomb = "<!DOCTYPE r [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;'>]><root>&b;</root>";
    let deep = "<a>".repeat(ANSWER_MAX / 3);
    let nested = format!("{}{}", "<a>".repeat(4_000), "</a>".repeat(4_000));
    for text in ["", "<html><body>", "<root>", "no XML", bomb, &deep] {
        assert!(controls(text.as_bytes(), &location()).is_err());
    }
    assert_eq!(controls(nested.as_bytes(), &location()), Ok(vec![]));
    let long = format!("<root>{}</root>", "<a/>".repeat(NODES_MAX as usize));
    assert!(controls(long.as_bytes(), &location()).is_err());
}

#[test]
fn an_answer_ends_at_its_length_its_last_chunk_or_with_the_connection() {
    let read = |text: &str, is_all| -> Result<Option<(u16, String)>, Malformed> {
        let answer = Answer::parse(text.as_bytes(), is_all)?;
        Ok(answer.map(|it| (it.status, String::from_utf8(it.body.into_owned()).unwrap())))
    };
    let hello = |status| Ok(Some((status, "hello".to_owned())));
    for (text, status) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200),
        (
            "HTTP/1.0 500 Internal Server Error\ncontent-length:5\n\nhello",
            500,
        ),
        (
            "HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n",
            200,
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\nContent-Length: 9\r\n\r\n05 \nhello\n0\n",
            200,
        ),
    ] {
        assert_eq!(read(text, false), hello(status), "{text}");
        for end in 0..text.len() - 5 {
            let part = read(&text[..end], false);
            assert_eq!(part, Ok(None), "{end} of {text}");
            assert!(read(&text[..end], true).is_err(), "{end} of {text}");
        }
    }
    let open = "HTTP/1.1 200 OK\r\nServer: x\r\n\r\nhello";
    assert_eq!(read(open, false), Ok(None));
    assert_eq!(read(open, true), hello(200));
    for wrong in [
        "SSH-2.0-x\r\n\r\n",
        "HTTP/1.1 ok\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello",
    ] {
        assert!(read(wrong, false).is_err(), "{wrong}");
    }
    assert!(
        read(&"x".repeat(9_000), false).is_err(),
        "a head without an end"
    );
    assert_eq!(
        Answer::parse(&vec![b'x'; ANSWER_MAX + 1], false),
        Err(Malformed::Length)
    );
}

#[test]
fn an_action_is_one_request() {
    let control = Control {
        kind: Kind::Ppp1,
        url: url("http://192.168.1.1:5000/ctl?a"),
    };
    let own = "192.168.1.2:7700".parse().unwrap();
    let (external_port, lease_s) = (7_701, 1_200);
    let map = Action::Map {
        external_port,
        own,
        lease_s,
    };
    let request = String::from_utf8(map.emit(&control)).unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("POST /ctl?a HTTP/1.1\r\nHost: 192.168.1.1:5000\r\n"),
        "{head}"
    );
    assert!(
        head.contains(&format!("Content-Length: {}\r\n", body.len())),
        "{head}"
    );
    let action = "SOAPAction: \"urn:schemas-upnp-org:service:WANPPPConnection:1#AddPortMapping\"";
    assert!(head.contains(action), "{head}");
    xml(body.as_bytes(), |document| {
        let call = document
            .descendants()
            .find(|it| it.tag_name().name() == "AddPortMapping");
        let call = call.unwrap();
        assert_eq!(call.tag_name().namespace(), Some(Kind::Ppp1.name()));
        let arguments = call
            .children()
            .map(|it| (it.tag_name().name(), it.text().unwrap_or("")));
        let expected = [
            ("NewRemoteHost", ""),
            ("NewExternalPort", "7701"),
            ("NewProtocol", "UDP"),
            ("NewInternalPort", "7700"),
            ("NewInternalClient", "192.168.1.2"),
            ("NewEnabled", "1"),
            ("NewPortMappingDescription", "sinew"),
            ("NewLeaseDuration", "1200"),
        ];
        assert!(arguments.eq(expected), "the service fixes their order");
        Ok(())
    })
    .unwrap();
    let get = String::from_utf8(get(&control.url)).unwrap();
    assert_eq!(
        get,
        "GET /ctl?a HTTP/1.1\r\nHost: 192.168.1.1:5000\r\nConnection: close\r\n\r\n"
    );
}

#[test]
fn an_outcome_is_told_in_an_envelope() {
    let envelope = |body: &str| {
        format!(
            "<?xml version=\"1.0\"?><s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body>{body}\
             </s:Body></s:Envelope>"
        )
    };
    let address = |ip: &str| {
        envelope(&format!(
            "<u:GetExternalIPAddressResponse xmlns:u=\"urn:x\"><NewExternalIPAddress>{ip}</NewExternalIPAddress>\
             </u:GetExternalIPAddressResponse>"
        ))
    };
    let read = |text: &str| Outcome::parse(text.as_bytes(), Action::Address);
    let ip = Ipv4Addr::new(198, 51, 100, 7);
    assert_eq!(
        read(&address("198.51.100.7")),
        Ok(Outcome::Address(Some(ip)))
    );
    assert_eq!(read(&address("0.0.0.0")), Ok(Outcome::Address(None)));
    assert_eq!(read(&address("")), Ok(Outcome::Address(None)));
    assert!(read(&address("2001:db8::1")).is_err());
    assert!(read(&address("198.51.100")).is_err());
    let fault = envelope(
        "<s:Fault><faultcode>s:Client</faultcode><faultstring>UPnPError</faultstring><detail>\
         <UPnPError xmlns=\"urn:schemas-upnp-org:control-1-0\"><errorCode> 718 </errorCode>\
         <errorDescription>ConflictInMappingEntry</errorDescription></UPnPError></detail></s:Fault>",
    );
    assert_eq!(read(&fault), Ok(Outcome::Fault(soap::CONFLICT)));
    assert_eq!(read(&envelope("<s:Fault/>")), Ok(Outcome::Fault(0)));
    let unmap = Action::Unmap { external_port: 1 };
    let done = envelope("<u:DeletePortMappingResponse xmlns:u=\"urn:x\"/>");
    assert_eq!(Outcome::parse(done.as_bytes(), unmap), Ok(Outcome::Done));
    assert_eq!(
        read(&done),
        Err(Malformed::Kind),
        "the answer to something else"
    );
    assert!(
        read("<s:Envelope><s:Body/></s:Envelope>").is_err(),
        "a prefix that nobody has declared"
    );
}

proptest! {
    #[test]
    fn no_bytes_are_more_than_malformed(bytes in prop::collection::vec(any::<u8>(), 0..600), is_all: bool) {
        let _ = ssdp::location(&bytes);
        let _ = Answer::parse(&bytes, is_all);
        let _ = controls(&bytes, &location());
        let _ = Outcome::parse(&bytes, Action::Address);
    }

    /// The input is nearly well-formed.
    #[test]
    fn no_bytes_in_the_middle_are_more_than_malformed(
        at in 0_usize..1_000,
        bytes in prop::collection::vec(any::<u8>(), 0..20),
        head in "HTTP/1\\.1 [0-9]{0,4}[\r\n:]{0,3}(content-length: [0-9]{0,6}|transfer-encoding: chunked)\r\n\r\n[0-9a-f\r\n]{0,20}",
    ) {
        let mut text = description("", &[("WANIPConnection:1", "/c")]).into_bytes();
        let at = at % text.len();
        text.splice(at..at, bytes);
        if let Ok(found) = controls(&text, &location()) {
            prop_assert!(found.iter().all(|it| it.url.path.bytes().all(|it| it.is_ascii_graphic())));
        }
        let _ = Answer::parse(head.as_bytes(), true);
        let _ = ssdp::location(head.as_bytes());
    }

    #[test]
    fn an_address_is_the_same_when_it_is_written_and_read_again(text in "(http://[0-9.]{1,12}(:[0-9]{1,5})?)?[ -~/]{0,20}") {
        if let Ok(read) = location().join(&text) {
            prop_assert_eq!(Url::parse(&read.to_string()), Ok(read));
        }
    }
}
