//! Nodes that fail during calls.

use crate::gateway::Sites;
use crate::programs::{missing, quiet};
use crate::sip::{longest_gap, missed, speak};
use std::time::{Duration, Instant};

#[test]
fn a_call_goes_on_when_a_middle_node_dies() {
    if missing("a_call_goes_on_when_a_middle_node_dies", &[]) {
        return;
    }
    let _quiet = quiet();
    let between = [("near", "delay=5ms"), ("far", "delay=15ms")];
    let mut sites = Sites::with_gateways("phones-middle", &between);
    let callee = sites.callee();
    let mut caller = sites.caller();
    let call = caller.call("sip:callee@b.example").unwrap_or_else(|code| {
        panic!("{code}\n{}\n{}", caller.trace, sites.log("ams"));
    });
    let media = callee.seen()[0].media.unwrap();
    assert_eq!(media.ip(), sites.b.gateway, "{}", callee.seen()[0].invite.0);
    let length = Duration::from_secs(6);
    let (back, there) = std::thread::scope(|scope| {
        let back = scope.spawn(|| speak(&caller.rtp, call.media, length));
        let there = scope.spawn(|| speak(&callee.rtp, media, length));
        std::thread::sleep(Duration::from_secs(2));
        sites.land.world.kill("near");
        (back.join().unwrap(), there.join().unwrap())
    });
    for (heard, way) in [(&there, "ams to fra"), (&back, "fra to ams")] {
        let gap = longest_gap(heard);
        println!(
            "middle node killed, {way}: {} packets heard, {} missed, longest gap {} ms",
            heard.len(),
            missed(heard),
            gap.as_millis()
        );
        // On a machine without other load the gap is half a second at most. A dropped call has a
        // gap until its end.
        assert!(gap < Duration::from_secs(2), "{way}: {gap:?}");
        let spoken = heard.last().unwrap().0 - heard[0].0;
        assert!(
            spoken > Duration::from_secs(5),
            "{way} ended after {spoken:?}"
        );
    }
    // No end has hung up.
    assert!(callee.seen()[0].ended.is_none());
    assert_eq!(caller.end(&call), Some(200));
    let released = || sites.media_ports("ams") == 0 && sites.media_ports("fra") == 0;
    sites.land.world.wait("the ports are released", released);
}

#[test]
fn who_is_left_hears_that_the_call_is_over_when_the_ingress_node_dies() {
    if missing("who_is_left_hears_that_the_call_is_over", &[]) {
        return;
    }
    let _quiet = quiet();
    let mut sites = Sites::with_gateways("phones-ingress", &[("mid", "")]);
    let callee = sites.callee();
    let mut caller = sites.caller();
    let call = caller.call("sip:callee@b.example").unwrap();
    let media = callee.seen()[0].media.unwrap();
    assert!(sites.media_ports("fra") > 0);
    let length = Duration::from_secs(14);
    let died = std::thread::scope(|scope| {
        scope.spawn(|| speak(&callee.rtp, media, length));
        scope.spawn(|| speak(&caller.rtp, call.media, length));
        std::thread::sleep(Duration::from_secs(1));
        let died = Instant::now();
        sites.land.world.kill("ams");
        sites.kill_gateway("ams");
        died
    });
    let seen = callee.seen();
    let ended = seen[0].ended.unwrap_or_else(|| {
        panic!("no BYE\n{}", sites.log("fra"));
    });
    println!(
        "ingress node killed: BYE after {:.1} s",
        (ended - died).as_secs_f32()
    );
    let released = || sites.media_ports("fra") == 0;
    sites.land.world.wait("the ports are released", released);
    // The remaining gateway reports the end of the call.
    assert_eq!(
        sites.events("fra", "ended").len(),
        1,
        "{}",
        sites.log("fra")
    );
}
