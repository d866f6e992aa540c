//! Fuzz targets of `gateway`: what SOCKS clients say, and what phones say.

use gateway::socks::message;

use crate::Target;

pub(crate) const TARGETS: &[Target] = &[
    ("gateway_socks", socks),
    ("gateway_rules", rules),
    ("gateway_sip", sip),
];

/// No reader takes more than there is, and a datagram that is understood has its payload at its end.
fn socks(data: &[u8]) {
    let takes = [
        message::greeting(data).map(|read| read.map(|(_, used)| used)),
        message::user(data).map(|read| read.map(|(_, used)| used)),
        message::request(data).map(|read| read.map(|(_, used)| used)),
    ];
    for used in takes.into_iter().flatten().flatten() {
        assert!(used <= data.len());
    }
    if let Ok(Some((from, payload))) = message::datagram(data) {
        let (header, len) = message::datagram_header(&from);
        assert_eq!([&header[..len], payload].concat(), data);
    }
}

/// A rule that is understood is written as one that means the same.
fn rules(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else {
        return;
    };
    if let Ok(rule) = text.parse::<gateway::allow::Rule>() {
        assert_eq!(rule.to_string().parse(), Ok(rule));
    }
}

/// A message that passes can be read by the next gateway, which passes it on too, and no bytes come
/// in but what a gateway writes.
fn sip(data: &[u8]) {
    let Some(passed) = gateway::sip::passed_on(data, "192.0.2.1:5060") else {
        return;
    };
    // A header line grows by its full name, a gateway adds a Via and a Record-Route.
    assert!(
        passed.len() <= 3 * data.len() + 1_000,
        "{} of {}",
        passed.len(),
        data.len()
    );
    if let Some(again) = gateway::sip::passed_on(&passed, "192.0.2.2:5060") {
        assert!(again.len() <= passed.len() + 1_000);
    }
}
