//! A thousand calls that were opened and closed leave nothing behind. The test is alone in its process, because it
//! counts the process's descriptors.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod network;

use network::{Fate, Gateway, Network};
use voice::media::{Carrier, Need, StreamId};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_thousand_calls_leave_no_descriptor_and_no_port() {
    let network = Network::start("leaks", |_| Fate::Passes);
    let gateway = Gateway::start(&network, 0, 400);
    let plane = &gateway.plane;
    let sides = [(Carrier::Udp, Need::Pair), (Carrier::Overlay, Need::Pair)];
    let (before, ports) = (descriptors(), plane.counters().udp_ports_free);
    for round in 0..10 {
        let calls = [(); 100].map(|()| plane.open().unwrap());
        for call in calls {
            plane
                .add_stream(StreamId { call, media: 0 }, sides)
                .unwrap();
        }
        assert_eq!(descriptors(), before + 200);
        for (n, call) in calls.into_iter().enumerate() {
            if n % 3 == round % 3 {
                plane.end_stream(StreamId { call, media: 0 }).unwrap();
            }
            assert_eq!(plane.close(call).unwrap().streams.len(), 1);
        }
    }
    assert_eq!(descriptors(), before);
    let counters = plane.counters();
    assert_eq!((counters.calls, counters.opened), (0, 1_000));
    assert_eq!(counters.udp_ports_free, ports);
}
