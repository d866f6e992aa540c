use super::*;
use graph::metric::Repair;
use graph::protection::Lane;
use graph::{LinkCost, Parameters};

const OWN: NodeAddr = node(1);

const fn node(i: u32) -> NodeAddr {
    NodeAddr(0x0a07_0000 + i)
}

/// Paths from 1 to 4: by 2 (20 ms), by 3 (30 ms) and directly (50 ms, lossy).
fn topology() -> Topology {
    let links = [
        (1, 2, 10, 0.0),
        (2, 4, 10, 0.0),
        (1, 3, 10, 0.0),
        (3, 4, 20, 0.0),
        (1, 4, 50, 0.1),
    ];
    let both = links.iter().flat_map(|&(a, b, ms, p)| {
        let cost = LinkCost::new(ms * 1_000, p);
        [(node(a), node(b), cost), (node(b), node(a), cost)]
    });
    Topology::from_links(Parameters::default(), both)
}

fn wish(scheme: Scheme) -> Wish {
    Wish {
        to: node(4),
        scheme,
        link: LinkProtocol::RealTime,
        deadline: Some(Duration::from_millis(100)),
    }
}

fn told(stamp: Option<&[u8]>) -> Vec<(u32, u32)> {
    match Stamp::parse(stamp.unwrap()) {
        Ok(Stamp::Subgraph(graph)) => {
            let ends = graph.links().map(|(from, to)| (from.0 & 0xff, to.0 & 0xff));
            let mut ends: Vec<(u32, u32)> = ends.collect();
            ends.sort_unstable();
            ends
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_scheme_has_its_links() {
    let t = topology();
    let links = |scheme| {
        let mut stamps = Stamps::default();
        told(stamps.stamp(Time::ZERO, OWN, wish(scheme), 1, &t))
    };
    assert_eq!(links(Scheme::Best), [(1, 2), (2, 4)]);
    assert_eq!(links(Scheme::Disjoint), [(1, 2), (1, 3), (2, 4), (3, 4)]);
    assert_eq!(links(Scheme::Disjoint3).len(), 5);
    let mut stamps = Stamps::default();
    let flood = stamps.stamp(Time::ZERO, OWN, wish(Scheme::Flooding), 1, &t);
    assert_eq!(Stamp::parse(flood.unwrap()), Ok(Stamp::Flooding));
    assert_eq!(stamps.stats(), Stats::default());
}

#[test]
fn a_stamp_is_computed_once_per_topology_and_the_old_one_serves_during_the_rest() {
    let (mut t, mut stamps) = (topology(), Stamps::default());
    let best = wish(Scheme::Best);
    let start = Time::ZERO + Duration::from_secs(1);
    let first = told(stamps.stamp(start, OWN, best, 1, &t));
    assert_eq!(first, told(stamps.stamp(start, OWN, best, 1, &t)));
    assert_eq!(stamps.stats().computed, 1);
    t.set_link(node(1), node(2), None);
    assert_eq!(first, told(stamps.stamp(start, OWN, best, 2, &t)));
    // A stamp of another scheme has to wait as well.
    let other = wish(Scheme::Disjoint);
    assert_eq!(stamps.stamp(start, OWN, other, 2, &t), None);
    let rested = start + Duration::from_secs(1);
    assert_eq!(
        told(stamps.stamp(rested, OWN, best, 2, &t)),
        [(1, 3), (3, 4)]
    );
    assert_eq!(stamps.stats().computed, 2);
}

#[test]
fn a_disjoint_path_that_was_in_use_stays_until_things_have_settled() {
    let (mut t, mut stamps) = (topology(), Stamps::default());
    t.set_link(node(1), node(4), None);
    let at = |s| Time::ZERO + Duration::from_secs(s);
    let wish = wish(Scheme::Disjoint);
    let mut links =
        |s, generation, t: &Topology| told(stamps.stamp(at(s), OWN, wish, generation, t));
    let both = [(1, 2), (1, 3), (2, 4), (3, 4)];
    assert_eq!(links(1, 1, &t), both);
    // The last link of the first path fails, and there is a shorter path to the other's second link.
    t.set_link(node(2), node(4), None);
    t.set_link(node(1), node(5), Some(LinkCost::new(1_000, 0.0)));
    t.set_link(node(5), node(3), Some(LinkCost::new(1_000, 0.0)));
    assert_eq!(links(2, 2, &t), [(1, 3), (1, 5), (3, 4), (5, 3)]);
    assert_eq!(links(6, 2, &t).len(), 4);
    assert_eq!(links(7, 2, &t), [(1, 5), (3, 4), (5, 3)]);
    // A path with a missing link is useless.
    t.set_link(node(1), node(5), None);
    assert_eq!(links(8, 3, &t), [(1, 3), (3, 4)]);
}

#[test]
fn without_a_path_or_a_deadline_there_is_none_and_that_is_remembered() {
    let (t, mut stamps) = (topology(), Stamps::default());
    let nobody = Wish {
        to: node(9),
        ..wish(Scheme::Disjoint)
    };
    let timeless = Wish {
        deadline: None,
        ..wish(Scheme::Best)
    };
    for (i, wish) in [nobody, timeless, nobody, timeless].into_iter().enumerate() {
        let now = Time::ZERO + Duration::from_secs(i as u64);
        assert_eq!(stamps.stamp(now, OWN, wish, 1, &t), None);
    }
    let expected = Stats {
        computed: 2,
        failed: 2,
    };
    assert_eq!(stamps.stats(), expected);
}

#[test]
fn they_are_bounded_and_the_least_lately_wanted_goes() {
    let (t, mut stamps) = (topology(), Stamps::default());
    let to = |i: u32| Wish {
        deadline: Some(Duration::from_millis(100 + u64::from(i))),
        ..wish(Scheme::Best)
    };
    for i in 0..=STAMPS_MAX as u32 {
        let now = Time::ZERO + Duration::from_secs(u64::from(i));
        assert!(stamps.stamp(now, OWN, to(i), 1, &t).is_some());
    }
    assert_eq!(stamps.entries.len(), STAMPS_MAX);
    assert!(!stamps.entries.contains_key(&to(0)));
}

#[test]
fn a_path_that_does_not_fit_is_none() {
    let path: Vec<NodeAddr> = (1..=65).map(node).collect();
    assert_eq!(bytes_of(std::slice::from_ref(&path)), None);
    assert!(bytes_of(&[path[..64].to_vec()]).is_some());
    assert_eq!(bytes_of(&[]), None);
}

/// Two chains from 1 to 4, by 2 and 5 and by 3 and 6, with these losses on the source's links and the destination's.
fn square(source: f64, destination: f64) -> Topology {
    let links = [
        (1, 2, 5, source),
        (1, 3, 6, source),
        (2, 5, 20, 0.0),
        (3, 6, 20, 0.0),
        (5, 4, 5, destination),
        (6, 4, 5, destination),
    ];
    let both = links.iter().flat_map(|&(a, b, ms, p)| {
        let cost = LinkCost::new(ms * 1_000, p);
        [(node(a), node(b), cost), (node(b), node(a), cost)]
    });
    Topology::from_links(Parameters::default(), both)
}

#[test]
fn a_targeted_stamp_is_one_path_in_calm_and_all_links_of_an_end_from_trouble_to_the_end_of_the_hold()
 {
    let (calm, bad) = (square(0.0, 0.0), square(0.2, 0.0));
    let mut stamps = Stamps::default();
    let at = |s| Time::ZERO + Duration::from_secs(s);
    let wish = wish(Scheme::Targeted);
    let mut links =
        |s, generation, t: &Topology| told(stamps.stamp(at(s), OWN, wish, generation, t));
    let one = [(1, 2), (2, 5), (5, 4)];
    let two = [(1, 2), (1, 3), (2, 5), (3, 6), (5, 4), (6, 4)];
    assert_eq!(links(1, 1, &calm), one);
    assert_eq!(links(2, 2, &bad), two);
    // The topology has no trouble any more, and stays unchanged.
    assert_eq!(links(5, 3, &calm), two);
    assert_eq!(links(11, 3, &calm), two);
    assert_eq!(links(12, 3, &calm), one);
    assert_eq!(stamps.stats().failed, 0);
}

#[test]
fn a_targeted_stamp_that_is_calm_is_computed_once_and_one_in_trouble_once_per_hold() {
    let (calm, bad) = (square(0.0, 0.0), square(0.0, 0.2));
    for (t, computed) in [(calm, 1), (bad, 6)] {
        let mut stamps = Stamps::default();
        for s in 0..60 {
            let now = Time::ZERO + Duration::from_secs(s);
            stamps.stamp(now, OWN, wish(Scheme::Targeted), 1, &t);
        }
        assert_eq!(stamps.stats().computed, computed);
    }
}

/// Forty neighbours at each end are more than a stamp holds.
#[test]
fn a_targeted_stamp_takes_as_many_ways_as_fit() {
    let mut t = Topology::new(Parameters::default());
    for i in 0..40 {
        let [a, b] = [100 + i, 200 + i].map(node);
        let (end, middle) = (LinkCost::new(5_000, 0.2), LinkCost::new(20_000, 0.0));
        t.set_link(OWN, a, Some(end));
        t.set_link(a, b, Some(middle));
        t.set_link(b, node(4), Some(end));
    }
    let mut stamps = Stamps::default();
    let links = told(stamps.stamp(Time::ZERO, OWN, wish(Scheme::Targeted), 1, &t));
    let of_source = links.iter().filter(|(from, _)| *from == 1).count();
    assert!((10..=40).contains(&of_source), "{links:?}");
}

/// Requests are too late on a direct link of 80 ms that loses 5 %, so a detour that loses 2 % looked better.
#[test]
fn the_best_path_is_the_one_on_which_protection_leaves_least() {
    let best = |repair_16ths| {
        let links = [(1, 4, 80, 0.05), (1, 2, 65, 0.01), (2, 4, 65, 0.01)];
        let both = links.iter().flat_map(|&(a, b, ms, p)| {
            let link = LinkCost::new(ms * 1_000, p);
            let lane = Lane {
                run_256ths: 341,
                repair_16ths,
            };
            let repair = Repair::new(5, link.loss, link.loss).with_lane(Some(lane));
            let repair = Some(repair);
            let link = LinkCost { repair, ..link };
            [(node(a), node(b), link), (node(b), node(a), link)]
        });
        let parameters = crate::Settings::modern().parameters();
        let t = Topology::from_links(parameters, both);
        let wish = Wish {
            deadline: Some(Duration::from_millis(150)),
            ..wish(Scheme::Best)
        };
        told(Stamps::default().stamp(Time::ZERO, OWN, wish, 1, &t))
    };
    assert_eq!(best(16), [(1, 4)]);
    assert_eq!(best(0), [(1, 2), (2, 4)]);
}
