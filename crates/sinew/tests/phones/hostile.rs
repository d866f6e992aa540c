//! What no phone says, said to a gateway: RFC 4475.

use crate::gateway::Sites;
use crate::programs::{missing, quiet};
use crate::torture::{Fate, messages, send_by_tcp, send_by_udp};

#[test]
fn torture_leaves_no_mark() {
    if missing("torture_leaves_no_mark", &[]) {
        return;
    }
    let _quiet = quiet();
    let mut sites = Sites::with_gateways("phones-torture", &[("mid", "")]);
    let callee = sites.callee();
    let at = sites.land.at("alice");
    let udp = send_by_udp(at, sites.a.phone, sites.a.sip());
    let tcp = send_by_tcp(at, sites.a.sip());
    println!(
        "{:<12} {:<9} {:<10} {:<6} {:<6}",
        "message", "RFC 4475", "wanted", "UDP", "TCP"
    );
    for message in messages() {
        let [by_udp, by_tcp]: [Fate; 2] = [udp[message.name], tcp[message.name]];
        let so = |fate| if message.allows(fate) { " " } else { "!" };
        println!(
            "{:<12} {:<9} {:<10} {by_udp:>4}{} {by_tcp:>4}{}",
            message.name,
            message.section,
            message.want(),
            so(by_udp),
            so(by_tcp)
        );
    }
    assert!(sites.runs("ams"), "{}", sites.log("ams"));
    // And it still does what it is for.
    let mut caller = sites.caller();
    let call = caller.call("sip:callee@b.example").unwrap_or_else(|code| {
        panic!("{code}\n{}\n{}", caller.trace, sites.log("ams"));
    });
    assert_eq!(caller.end(&call), Some(200));
    assert_eq!(callee.seen().len(), 1);
}
