//! Messages that no phone sends, sent to a gateway: RFC 4475.

use crate::gateway::Sites;
use crate::programs::{missing, quiet};
use crate::sip::Callee;
use crate::torture::{Fate, messages, send_by_tcp, send_by_udp};

#[test]
fn torture_leaves_no_mark() {
    if missing("torture_leaves_no_mark", &[]) {
        return;
    }
    let _quiet = quiet();
    let mut sites = Sites::new("phones-torture", &[("mid", "")]);
    // A callee that answers everything serves the domains of the messages, so the test sees what is
    // passed on.
    for site in [sites.a, sites.b] {
        let mut local = format!("--local {}={}", site.domain, site.phone);
        for domain in ["example.com", "example.net", "example.org", "company.com"] {
            local += &format!(" --local {domain}={}", site.proxy);
        }
        sites.start_gateway(site, &local, None);
    }
    let answering =
        [sites.a, sites.b].map(|site| Callee::new(sites.land.at(site.place), site.proxy));
    // TCP goes to the other gateway: at the same gateway the messages would be the same
    // transactions.
    let udp = send_by_udp(sites.land.at("alice"), sites.a.phone, sites.a.sip());
    let tcp = send_by_tcp(sites.land.at("bob"), sites.b.sip());
    drop(answering);
    let callee = sites.callee();
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
    for node in ["ams", "fra"] {
        assert!(sites.runs(node), "{}", sites.log(node));
    }
    // The gateway still carries calls.
    let mut caller = sites.caller();
    let call = caller.call("sip:callee@b.example").unwrap_or_else(|code| {
        panic!("{code}\n{}\n{}", caller.trace, sites.log("ams"));
    });
    assert_eq!(caller.end(&call), Some(200));
    assert_eq!(callee.seen().len(), 1);
}
