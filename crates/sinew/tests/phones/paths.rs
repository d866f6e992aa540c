//! Calls that take the paths that their gateway asks for.

use crate::gateway::Sites;
use crate::programs::{missing, quiet};
use crate::sip::speak;
use std::collections::BTreeSet;
use std::time::Duration;

#[test]
fn calls_take_the_paths_that_their_gateway_asks_for() {
    if missing("calls_take_the_paths_that_their_gateway_asks_for", &[]) {
        return;
    }
    let _quiet = quiet();
    let mut sites = Sites::new("phones-paths", &[("near", ""), ("far", "")]);
    for (site, more) in [(sites.a, "--paths disjoint"), (sites.b, "")] {
        let local = format!("--local {}={}:5060 {more}", site.domain, site.phone);
        sites.start_gateway(site, &local, None);
    }
    let callee = sites.callee();
    let mut caller = sites.caller();
    let call = caller.call("sip:callee@b.example").unwrap_or_else(|code| {
        panic!("{code}\n{}\n{}", caller.trace, sites.log("ams"));
    });
    let media = callee.seen()[0].media.unwrap();
    let length = Duration::from_millis(600);
    std::thread::scope(|scope| {
        scope.spawn(|| speak(&caller.rtp, call.media, length));
        speak(&callee.rtp, media, length);
    });
    for (node, expected) in [("ams", "disjoint"), ("fra", "expected-latency")] {
        let flows = sites.land.world.json(&format!("flows --node net/{node}"));
        let media = flows.as_array().unwrap().iter().filter(|flow| {
            (&flow["role"], &flow["link"]) == (&"originates".into(), &"real-time".into())
        });
        let routings: BTreeSet<&str> = media
            .map(|flow| flow["routing"].as_str().unwrap())
            .collect();
        assert_eq!(routings, BTreeSet::from([expected]), "{node}: {flows}");
    }
    assert_eq!(caller.end(&call), Some(200));
}
