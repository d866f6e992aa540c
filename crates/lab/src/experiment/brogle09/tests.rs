//! Both baselines in real namespaces: the baselines of the comparison must work.

use super::site::{Shape, Site};
use super::stats::worst_loss_pct;
use super::talk::{Ends, Stream, Told};
use super::{bare, native};

fn site(shape: Shape, seed: Option<u64>) -> Option<Site> {
    match (Site::new(shape, seed), native::available()) {
        (Ok(site), Ok(())) => Some(site),
        (Err(why), _) | (_, Err(why)) => {
            eprintln!("SKIPPED: {why}");
            None
        }
    }
}

fn talk(ends: &Ends) -> Told {
    ends.open("the way").unwrap();
    let stream = Stream {
        payload: 512,
        rate_pps: 1_000.0,
        packets: 300,
    };
    ends.run(&stream).unwrap()
}

#[test]
fn native_multicast_and_bare_forwarders_reach_every_leaf_of_both_topologies() {
    for (shape, leaves) in [
        (Shape::Chain, vec!["P4"]),
        (Shape::Tree, vec!["P1", "P4", "P6", "P7"]),
    ] {
        let Some(site) = site(shape, None) else {
            return;
        };
        let routes = native::Native::start(&site).unwrap();
        let by_kernel = talk(&native::ends(&site).unwrap());
        drop(routes);
        let forwarders = bare::Bare::start(&site).unwrap();
        let by_process = talk(&bare::ends(&site).unwrap());
        drop(forwarders);
        for told in [by_kernel, by_process] {
            assert_eq!(told.sent, 300);
            let names = told.sinks.iter().map(|sink| sink.name);
            assert!(names.eq(leaves.iter().copied()));
            assert!(told.sinks.iter().all(|sink| sink.duplicates == 0));
            assert!(told.sinks.iter().all(|sink| sink.arrived == 300));
        }
    }
}

#[test]
fn a_lossy_link_takes_from_what_is_behind_it_and_native_multicast_does_not_repair_it() {
    let Some(site) = site(Shape::Tree, Some(5)) else {
        return;
    };
    let _routes = native::Native::start(&site).unwrap();
    let ends = native::ends(&site).unwrap();
    ends.open("the way").unwrap();
    site.impair("loss=30%");
    let stream = Stream {
        payload: 32,
        rate_pps: 2_000.0,
        packets: 500,
    };
    let told = ends.run(&stream).unwrap();
    for sink in &told.sinks {
        match sink.name {
            // Of 500 packets, 150 losses are expected; the bound is seven deviations wide.
            "P6" | "P7" => assert!((270..430).contains(&sink.arrived), "{}", sink.arrived),
            _ => assert_eq!(sink.arrived, 500, "{}", sink.name),
        }
    }
    assert!(worst_loss_pct(&told) > 10.0);
}
