//! The tests' own caller and callee over a path without a gateway: the baseline for the gateway,
//! and a test of both.

use crate::programs::{missing, quiet};
use crate::sip::{Callee, Caller, longest_gap, missed, speak};
use net::netns::Namespace;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Makes two networks with a wire between them.
pub(crate) fn pair() -> ([Namespace; 2], [Ipv4Addr; 2]) {
    let networks = [0; 2].map(|_| Namespace::new().unwrap());
    networks[0].veth("eth0", &networks[1], "eth0").unwrap();
    let addresses = [1, 2].map(|n| Ipv4Addr::new(10, 92, 0, n));
    for (network, address) in networks.iter().zip(addresses) {
        let address = format!("{address}/24");
        network
            .ip(&["addr", "add", &address, "dev", "eth0"])
            .unwrap();
    }
    (networks, addresses)
}

#[test]
fn a_call_of_the_tests_own_is_answered_heard_and_ended() {
    if missing("a_call_of_the_tests_own", &[]) {
        return;
    }
    let _quiet = quiet();
    let (networks, [here, there]) = pair();
    let callee = Callee::new(&networks[1], there);
    let mut caller = Caller::new(&networks[0], here, (there, 5060).into());
    let call = caller.call(&format!("sip:callee@{there}")).unwrap();
    assert!(call.times.ringing <= call.times.answered);
    let seen = &callee.seen()[0];
    let length = Duration::from_millis(300);
    let (heard, heard_there) = std::thread::scope(|scope| {
        let there = scope.spawn(|| speak(&callee.rtp, seen.media.unwrap(), length));
        (
            speak(&caller.rtp, call.media, length),
            there.join().unwrap(),
        )
    });
    for heard in [heard, heard_there] {
        assert!(heard.len() > 5, "{}", heard.len());
        assert_eq!(missed(&heard), 0);
        assert!(longest_gap(&heard) < Duration::from_secs(1));
    }
    assert_eq!(caller.end(&call), Some(200));
    assert!(callee.seen()[0].ended.is_some());
}
