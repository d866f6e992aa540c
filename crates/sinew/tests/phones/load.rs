//! Many calls by sipp through a pair of gateways, and the additional set-up time of each call.

use crate::gateway::Sites;
use crate::programs::{SIPP, alone, missing};
use crate::sip::{Callee, Caller};
use crate::sipp::{Load, kept};
use std::time::Duration;

fn put_on(test: &str, calls: u32) {
    let _alone = alone();
    let sites = Sites::with_gateways(test, &[("mid", "")]);
    let dir = kept(test);
    let load = Load {
        from: (sites.land.at("alice"), sites.a.phone),
        by: sites.a.sip(),
        to: (sites.land.at("bob"), sites.b.phone),
        domain: "b.example",
        calls_per_s: 50,
        calls,
        length: Duration::from_secs(2),
    };
    let borne = load.run(&dir);
    println!("50 calls/s: {borne:?}; traces in {}", dir.display());
    assert_eq!(
        (borne.created, borne.successful),
        (calls.into(), calls.into()),
        "{borne:?}"
    );
    assert_eq!(borne.failed, 0);
    let released = || sites.media_ports("ams") == 0 && sites.media_ports("fra") == 0;
    sites.land.world.wait("the ports are released", released);
    let ended = sites.events("fra", "ended");
    assert_eq!(ended.len(), calls as usize);
}

#[test]
fn fifty_calls_a_second_are_borne_for_five_seconds() {
    if !missing("fifty_calls_a_second", &[SIPP]) {
        put_on("phones-load", 250);
    }
}

/// `cargo test -p sinew --test phones -- --ignored --nocapture for_a_minute`
#[test]
#[ignore = "takes a minute and a half"]
fn fifty_calls_a_second_are_borne_for_a_minute() {
    if !missing("fifty_calls_a_second_for_a_minute", &[SIPP]) {
        put_on("phones-minute", 3000);
    }
}

/// Makes calls one after the other. Returns the set-up times, sorted: until ringing, and until
/// answered.
fn set_up(caller: &mut Caller, uri: &str, calls: usize) -> [Vec<Duration>; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..calls {
        let call = caller.call(uri).unwrap();
        times[0].push(call.times.ringing.unwrap());
        times[1].push(call.times.answered.unwrap());
        assert_eq!(caller.end(&call), Some(200));
    }
    for times in &mut times {
        times.sort_unstable();
    }
    times
}

/// `cargo test -p sinew --release --test phones -- --ignored --nocapture post_dial_delay`
#[test]
#[ignore = "measures: wants a machine that does nothing else"]
fn post_dial_delay() {
    if missing("post_dial_delay", &[]) {
        return;
    }
    let _alone = alone();
    const CALLS: usize = 300;
    let (networks, [here, there]) = crate::plain::pair();
    let direct = {
        let _callee = Callee::new(&networks[1], there);
        let mut caller = Caller::new(&networks[0], here, (there, 5060).into());
        set_up(&mut caller, &format!("sip:callee@{there}"), CALLS)
    };
    let sites = Sites::with_gateways("phones-delay", &[("mid", "")]);
    let _callee = sites.callee();
    let mut caller = sites.caller();
    let by_gateways = set_up(&mut caller, "sip:callee@b.example", CALLS);
    let ms = |times: &[Duration], share: f64| {
        let at = ((times.len() - 1) as f64 * share) as usize;
        times[at].as_secs_f64() * 1e3
    };
    for (i, what) in ["180", "200"].into_iter().enumerate() {
        let [d, g] = [&direct[i], &by_gateways[i]];
        println!(
            "INVITE to {what}: directly {:.2} ms (p90 {:.2}), by two gateways and three nodes \
             {:.2} ms (p90 {:.2}), added {:.2} ms",
            ms(d, 0.5),
            ms(d, 0.9),
            ms(g, 0.5),
            ms(g, 0.9),
            ms(g, 0.5) - ms(d, 0.5)
        );
        assert!(ms(g, 0.5) - ms(d, 0.5) < 5.0);
    }
}
