//! Fuzz targets of `gateway`: what SOCKS clients say.

use gateway::socks::message;

use crate::Target;

pub(crate) const TARGETS: &[Target] = &[("gateway_socks", socks), ("gateway_rules", rules)];

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
