use super::*;
use crate::metric::{Cost, LinkCost, Parameters};
use crate::width::Known;

/// Builds both directions of each link, from: from, to, latency in ms, loss in percent.
fn topology(links: &[(u32, u32, u32, f64)]) -> Topology {
    let mut topology = Topology::new(Parameters::default());
    for &(a, b, ms, percent) in links {
        let link = LinkCost::new(ms * 1_000, percent / 100.0);
        topology.set_link(NodeAddr(a), NodeAddr(b), Some(link));
        topology.set_link(NodeAddr(b), NodeAddr(a), Some(link));
    }
    topology
}

fn ask(src: u32, dst: u32) -> Question {
    Question::new(NodeAddr(src), NodeAddr(dst))
}

fn relays(way: &Way) -> Vec<u32> {
    way.relays().map(|node| node.0).collect()
}

fn stripes(way: &Way) -> Vec<usize> {
    way.segments.iter().map(|segment| segment.stripes).collect()
}

fn mbps(width: Width) -> f64 {
    width.0 as f64 / 1e6
}

#[test]
fn a_chain_gains_n_root_n_by_relays_and_more_by_stripes() {
    let chain: Vec<_> = (0..6).map(|n| (n, n + 1, 10, 0.5)).collect();
    let t = topology(&chain);
    for view in [View::Overlay, View::Path] {
        let question = Question {
            view,
            connections: Connections::InAll(8),
            ..ask(0, 6)
        };
        let plan = plan(&t, &question).unwrap();
        // The gain is n·√n by the paper's formula. With timeouts, which are rarer on each link, it is a bit more.
        let gain = mbps(plan.pipelined.rate) / mbps(plan.direct.rate);
        assert!(gain > 6f64.powf(1.5) && gain < 20.0, "{gain}");
        assert_eq!(relays(&plan.pipelined), [1, 2, 3, 4, 5]);
        assert_eq!(
            plan.direct.confidence,
            Confidence::Added,
            "nobody measured it"
        );
        assert_eq!(plan.pipelined.confidence, Confidence::Model);
        assert_eq!(plan.pipelined.segments[0].rtt_us, 20_000);
        let (segment, past) = (&plan.direct.segments[0], [1, 2, 3, 4, 5].map(NodeAddr));
        assert_eq!((segment.rtt_us, &segment.past[..]), (120_000, &past[..]));
        // With 8 connections over 6 links, two are left: too few for all segments.
        assert_eq!(
            (plan.striped.clone(), plan.choice),
            (plan.pipelined, Choice::Pipelined)
        );
        let question = Question {
            connections: Connections::InAll(12),
            ..question
        };
        let twice = super::plan(&t, &question).unwrap();
        assert_eq!(stripes(&twice.striped), [2; 6]);
        assert_eq!(
            (twice.choice, twice.best().connections()),
            (Choice::Striped, 12)
        );
        // With a limit per segment, no segment is left without, however many there are.
        let each = Question {
            connections: Connections::OnEach(3),
            ..question
        };
        let each = super::plan(&t, &each).unwrap();
        assert_eq!(stripes(&each.striped), [3; 6]);
    }
}

/// Returns which relay is taken, for two paths with these loss percentages on each link and these loads of their
/// relays.
fn relay_of_two(lost: [f64; 2], busy: [u8; 2]) -> Vec<u32> {
    let mut t = topology(&[
        (0, 9, 40, 2.0),
        (0, 1, 10, lost[0]),
        (1, 9, 10, lost[0]),
        (0, 2, 10, lost[1]),
        (2, 9, 10, lost[1]),
    ]);
    for (node, busy) in [1, 2].into_iter().zip(busy) {
        t.set_busy(NodeAddr(node), busy);
    }
    relays(plan(&t, &ask(0, 9)).unwrap().best())
}

#[test]
fn of_relays_that_are_nearly_as_fast_the_less_busy_one_is_taken() {
    assert_eq!(relay_of_two([0.5, 0.52], [0, 0]), [1]);
    assert_eq!(relay_of_two([0.5, 0.52], [2, 0]), [2]);
    assert_eq!(relay_of_two([0.5, 0.52], [3, 1]), [2]);
    assert_eq!(relay_of_two([0.5, 0.52], [2, 2]), [1], "as busy");
    assert_eq!(relay_of_two([0.52, 0.5], [1, 2]), [1]);
    // A less busy relay is not taken at any price.
    assert_eq!(relay_of_two([0.5, 1.0], [3, 0]), [1]);
}

#[test]
fn a_path_gets_no_more_relays_than_reach_the_bound() {
    let t = topology(&[
        (0, 1, 10, 0.1),
        (1, 2, 10, 0.1),
        (2, 3, 10, 2.0),
        (3, 4, 10, 0.1),
    ]);
    let question = Question {
        view: View::Path,
        ..ask(0, 4)
    };
    let path = plan(&t, &question).unwrap();
    assert_eq!(relays(&path.pipelined), [2, 3]);
    assert_eq!(
        path.pipelined.rate,
        path.pipelined.slowest().next().unwrap().one
    );
    let one = Question {
        relays: 1,
        ..question
    };
    let one = plan(&t, &one).unwrap();
    assert_eq!(one.pipelined.relays().count(), 1);
    assert!(one.pipelined.rate < path.pipelined.rate && one.pipelined.rate > one.direct.rate);
    assert!(one.striped.relays().count() <= 1);
    // In the overlay view, no connection skips a node, since there is no link past it.
    let overlay = plan(&t, &ask(0, 4)).unwrap();
    assert_eq!(relays(&overlay.pipelined), [1, 2, 3]);
    assert_eq!(overlay.pipelined.rate, path.pipelined.rate);
    // The worst segment gets the stripes.
    let best = &path.striped;
    let worst = best
        .segments
        .iter()
        .max_by_key(|segment| segment.stripes)
        .unwrap();
    assert_eq!((worst.from, worst.to), (NodeAddr(2), NodeAddr(3)));
    assert!(best.rate > path.pipelined.rate && best.segments.iter().all(|one| one.stripes <= 8));
}

#[test]
fn relays_lead_around_what_is_bad_unless_it_is_hardly_better() {
    let links = [(1, 2, 50, 4.0), (1, 3, 30, 0.1), (3, 2, 30, 0.1)];
    let plan_of = |links: &[_]| plan(&topology(links), &ask(1, 2)).unwrap();
    let around = plan_of(&links);
    assert_eq!(relays(&around.pipelined), [3]);
    assert_eq!(around.direct.confidence, Confidence::Model);
    let four = plan_of(&[links[0], links[1], (3, 4, 28, 0.1), (4, 2, 28, 0.1)]);
    assert_eq!(relays(&four.pipelined), [3, 4]);
    // A gain of a hundredth does not justify a relay.
    let hardly = plan_of(&[(1, 2, 30, 1.0), (1, 3, 30, 0.98), (3, 2, 30, 0.98)]);
    assert_eq!(hardly.pipelined.relays().count(), 0);
    assert_eq!(hardly.pipelined, hardly.direct);
}

#[test]
fn confidence_says_where_a_rate_comes_from() {
    let mut t = topology(&[(1, 2, 10, 0.0), (2, 3, 10, 1.0)]);
    let [a, b, c] = [1, 2, 3].map(NodeAddr);
    let clean = plan(&t, &ask(1, 2)).unwrap();
    assert_eq!(clean.direct.confidence, Confidence::AtLeast);
    let known = |capacity: Option<u64>, one: Option<u64>| Known {
        capacity: capacity.map(Width),
        one: one.map(Width),
        ..Known::default()
    };
    t.set_known(a, b, known(Some(20_000_000), None));
    let told = plan(&t, &ask(1, 2)).unwrap();
    assert_eq!(told.direct.confidence, Confidence::Capacity);
    assert_eq!(
        (told.direct.rate, told.choice),
        (Width(20_000_000), Choice::Direct)
    );
    t.set_known(b, c, known(Some(20_000_000), Some(5_000_000)));
    let through = plan(&t, &ask(1, 3)).unwrap();
    assert_eq!(through.pipelined.confidence, Confidence::Measured);
    assert_eq!(through.pipelined.rate, Width(5_000_000));
    // Four times the measured rate equals the capacity.
    assert_eq!(stripes(&through.striped), [1, 4]);
    assert_eq!(
        (through.striped.rate, through.striped.confidence),
        (Width(20_000_000), Confidence::Capacity)
    );
    let three = Question {
        connections: Connections::InAll(3),
        ..ask(1, 3)
    };
    let three = plan(&t, &three).unwrap();
    assert_eq!(
        (three.striped.rate, three.striped.confidence),
        (Width(10_000_000), Confidence::Scaled)
    );
}

#[test]
fn what_nothing_limits_needs_neither_relays_nor_stripes() {
    let clean = [(1, 2, 60, 0.0), (1, 3, 10, 0.0), (3, 2, 10, 0.0)];
    let direct = plan(&topology(&clean), &ask(1, 2)).unwrap();
    assert_eq!(direct.choice, Choice::Direct);
    assert_eq!(direct.direct.confidence, Confidence::AtLeast);
    let lossy = [(1, 2, 60, 1.0), clean[1], clean[2]];
    let around = plan(&topology(&lossy), &ask(1, 2)).unwrap();
    assert_eq!(
        (around.choice, relays(around.best())),
        (Choice::Pipelined, vec![3])
    );
    assert_eq!(around.best().confidence, Confidence::AtLeast);
}

/// There are three paths over relays, all equally wide: one with two links, one with the least latency, one with the
/// fewest routers.
#[test]
fn of_wide_paths_the_shortest_is_taken_by_any_length() {
    let mut t = topology(&[
        (1, 2, 80, 2.0),
        (1, 3, 40, 0.1),
        (3, 2, 40, 0.1),
        (1, 4, 20, 0.4),
        (4, 5, 20, 0.4),
        (5, 2, 20, 0.4),
        (1, 6, 30, 0.18),
        (6, 7, 30, 0.18),
        (7, 2, 30, 0.18),
    ]);
    let known = |hops: u16| Known {
        physical_hops: Some(hops),
        ..Known::default()
    };
    for (from, to, hops) in [
        (1, 3, 9),
        (3, 2, 9),
        (1, 6, 2),
        (6, 7, 2),
        (1, 4, 7),
        (5, 2, 7),
    ] {
        t.set_known(NodeAddr(from), NodeAddr(to), known(hops));
    }
    let by = |length: Length| {
        let question = Question {
            length,
            ..ask(1, 2)
        };
        plan(&t, &question).unwrap()
    };
    let hops = by(Metric::Hops.into());
    assert_eq!(relays(&hops.pipelined), [3]);
    assert_eq!(hops.shortest.unwrap().length, Cost(2));
    let latency = by(Metric::Latency.into());
    assert_eq!(relays(&latency.pipelined), [4, 5]);
    assert_eq!(latency.shortest.unwrap().length, Cost(60_000_000));
    // The physical links of 7-2 are not known: it counts as 7, the median of 2, 2, 7, 7, 9, 9.
    let physical = by(Length::PhysicalHops);
    assert_eq!(relays(&physical.pipelined), [6, 7]);
    let shortest = physical.shortest.unwrap();
    assert_eq!(shortest.length, Cost(11));
    assert!(shortest.required < shortest.widest && physical.pipelined.rate >= shortest.required);
    let of = |segment: &Segment| (segment.physical_hops, segment.assumed);
    let segments: Vec<_> = physical.pipelined.segments.iter().map(of).collect();
    assert_eq!(segments, [(2, 0), (2, 0), (7, 1)]);
    // Without its last relay the path cannot be the shortest of the wide paths, so the plan says nothing about it.
    let one = Question {
        relays: 1,
        length: Length::PhysicalHops,
        ..ask(1, 2)
    };
    let one = plan(&t, &one).unwrap();
    assert_eq!((relays(&one.pipelined), one.shortest), (vec![3], None));
}

#[test]
fn what_cannot_be_is_told() {
    let t = topology(&[(1, 2, 10, 0.0), (3, 4, 10, 0.0)]);
    assert_eq!(plan(&t, &ask(1, 9)), Err(NoPath::Unknown(NodeAddr(9))));
    assert_eq!(plan(&t, &ask(1, 1)), Err(NoPath::Same(NodeAddr(1))));
    assert_eq!(
        plan(&t, &ask(1, 3)),
        Err(NoPath::Unreachable(NodeAddr(1), NodeAddr(3)))
    );
    let nonsense = Question {
        connections: Connections::InAll(0),
        relays: 0,
        margin: f64::NAN,
        ..ask(1, 2)
    };
    assert_eq!(plan(&t, &nonsense).unwrap().choice, Choice::Direct);
    let more = Question {
        connections: Connections::OnEach(usize::MAX),
        relays: usize::MAX,
        margin: 9.0,
        ..nonsense
    };
    assert!(plan(&t, &more).is_ok());
}

fn carried(one: Option<u64>, together: Option<u64>, is_full: bool) -> Known {
    Known {
        one: one.map(Width),
        together: together.map(Width),
        is_full,
        spread_pct: 20,
        ..Known::default()
    }
}

#[test]
fn what_connections_have_together_is_not_multiplied() {
    let mut t = topology(&[(1, 2, 4, 0.0)]);
    let [a, b] = [1, 2].map(NodeAddr);
    let best = |t: &Topology| plan(t, &ask(1, 2)).unwrap().best().clone();
    // Two connections had no more than one: that is the whole capacity, and one connection is enough.
    t.set_known(a, b, carried(Some(19_000_000), Some(19_000_000), true));
    let full = best(&t);
    assert_eq!((full.rate, full.connections()), (Width(19_000_000), 1));
    assert_eq!(full.confidence, Confidence::Measured);
    let interval = (full.interval.low, full.interval.high);
    assert_eq!(interval, (Width(15_200_000), Width(22_800_000)));
    // One connection had this rate, and nobody has measured several. The plan states the multiple, but the lower bound
    // is the measured rate.
    t.set_known(a, b, carried(Some(5_000_000), None, false));
    let scaled = best(&t);
    assert_eq!(scaled.confidence, Confidence::Scaled);
    assert_eq!(scaled.interval.low, Width(4_000_000));
    assert_eq!(scaled.rate, Width(40_000_000));
    // Four connections together used the whole capacity.
    t.set_known(a, b, carried(Some(5_000_000), Some(18_000_000), true));
    let four = best(&t);
    assert_eq!((four.rate, four.connections()), (Width(18_000_000), 4));
    assert_eq!(four.confidence, Confidence::Measured);
}

/// Plans over a short link that loses a fifth of its packets, and a path around it.
fn short_or_around(short: Known, around: Known) -> Plan {
    let mut t = topology(&[(1, 2, 1, 20.0), (1, 3, 5, 0.5), (3, 2, 5, 0.5)]);
    for (from, to, known) in [(1, 2, short), (1, 3, around), (3, 2, around)] {
        t.set_known(NodeAddr(from), NodeAddr(to), known);
    }
    plan(&t, &ask(1, 2)).unwrap()
}

#[test]
fn nothing_is_claimed_beyond_what_several_have_had() {
    let around = carried(Some(95_000_000), Some(95_000_000), true);
    // One connection had 16 Mbit/s and four together 49, so eight do not have 128.
    let seen = carried(Some(16_000_000), Some(49_000_000), false);
    let planned = short_or_around(seen, around);
    let best = planned.best();
    assert_eq!((best.rate, relays(best)), (Width(95_000_000), vec![3]));
    assert_eq!(best.confidence, Confidence::Measured);
    let mut t = topology(&[(1, 2, 1, 20.0)]);
    t.set_known(NodeAddr(1), NodeAddr(2), seen);
    let alone = plan(&t, &ask(1, 2)).unwrap().best().clone();
    assert_eq!((alone.rate, alone.connections()), (Width(49_000_000), 4));
    assert_eq!(alone.confidence, Confidence::Measured);
    assert_eq!(alone.interval.high, Width(58_800_000));
}

#[test]
fn a_multiple_beats_what_was_measured_only_by_its_low_end() {
    let around = carried(Some(95_000_000), Some(95_000_000), true);
    let one = |bps| carried(Some(bps), Some(bps), false);
    let hoped = short_or_around(one(16_000_000), around);
    assert_eq!(relays(hoped.best()), [3], "128 are hoped for");
    assert_eq!(hoped.best().confidence, Confidence::Measured);
    let sure = short_or_around(one(120_000_000), around);
    assert_eq!(sure.best().confidence, Confidence::Scaled);
    assert_eq!(sure.choice, Choice::Striped);
    // If only one connection was ever measured, more connections are used where one is fastest.
    let neither = short_or_around(one(16_000_000), one(15_000_000));
    assert_eq!(
        (relays(neither.best()), neither.choice),
        (vec![], Choice::Striped)
    );
}

#[test]
fn no_formula_holds_where_losses_do_not_slow_the_sender() {
    let mut t = topology(&[(1, 2, 40, 1.0)]);
    let known = Known {
        by_rate: true,
        ..Known::default()
    };
    t.set_known(NodeAddr(1), NodeAddr(2), known);
    let unknown = plan(&t, &ask(1, 2)).unwrap();
    assert_eq!(unknown.direct.confidence, Confidence::AtLeast);
    assert_eq!(unknown.direct.interval, Interval::OPEN);
    assert!(!unknown.direct.is_known() && unknown.choice == Choice::Direct);
    let back = plan(&t, &ask(2, 1)).unwrap();
    assert_eq!(back.direct.confidence, Confidence::Model);
    let interval = back.direct.interval;
    assert!(interval.low < back.direct.rate && back.direct.rate < interval.high);
}

/// Returns the widest of all paths of single connections over the links, by trying all of them.
fn widest_tried(t: &Topology, from: NodeIndex, to: NodeIndex) -> Width {
    fn on(t: &Topology, path: &mut Vec<NodeIndex>, to: NodeIndex, width: Width) -> Width {
        let at = path[path.len() - 1];
        if at == to {
            return width;
        }
        if path.len() > 1 && t.is_shut(at) {
            return Width::NONE;
        }
        let mut best = Width::NONE;
        for edge in t.links_from(at) {
            if !path.contains(&edge.peer) {
                path.push(edge.peer);
                best = best.max(on(t, path, to, width.min(edge.width())));
                path.pop();
            }
        }
        best
    }
    on(t, &mut vec![from], to, Width::UNLIMITED)
}

/// Returns the best of the m-partitions of every path, with at most the given number of relays [Liu04 §III-B]: a
/// connection from each cut to the next, wherever the overlay has a link for it.
fn widest_partition(t: &Topology, from: NodeIndex, to: NodeIndex, relays: usize) -> Width {
    fn on(t: &Topology, path: &mut Vec<NodeIndex>, to: NodeIndex, relays: usize) -> Width {
        if path.last() == Some(&to) {
            let route = Route::of(t, View::Overlay, path.clone());
            return pipeline(&route.rates, relays + 1).rate;
        }
        let mut best = Width::NONE;
        for edge in t.links_from(path[path.len() - 1]) {
            if !path.contains(&edge.peer) {
                path.push(edge.peer);
                best = best.max(on(t, path, to, relays));
                path.pop();
            }
        }
        best
    }
    on(t, &mut vec![from], to, relays)
}

mod tried {
    use super::*;
    use proptest::prelude::*;

    /// Builds a network from drawn values; the nodes in `shut` do not relay.
    fn drawn(links: Vec<(u32, u32, u32, u32)>, shut: Vec<u32>) -> Topology {
        let links: Vec<_> = links
            .into_iter()
            .filter(|(a, b, ..)| a != b)
            .map(|(a, b, ms, thousandths)| (a, b, ms, f64::from(thousandths) / 10.0))
            .collect();
        let mut t = topology(&links);
        for node in shut {
            t.set_shut(NodeAddr(node), true);
        }
        t
    }

    proptest! {
        /// A search over the links of the overlay finds what the dynamic program finds on the best of all paths, with
        /// any limit on the relays and around nodes that do not relay. So plans need only the search.
        #[test]
        fn a_plan_is_the_best_partition_of_any_path(
            links in proptest::collection::vec((0u32..6, 0u32..6, 1u32..50, 1u32..60), 1..14),
            shut in proptest::collection::vec(0u32..6, 0..3),
            relays in 0usize..5,
        ) {
            let t = drawn(links, shut);
            let question = Question { margin: 0.0, relays, ..ask(0, 1) };
            let ends = (t.index(NodeAddr(0)), t.index(NodeAddr(1)));
            if let (Some(from), Some(to)) = ends {
                let best = widest_partition(&t, from, to, relays);
                let found = widest_within(&t.relaying(from), from, relays + 1).width(to);
                prop_assert_eq!(found, best);
                if let (Ok(plan), true) = (plan(&t, &question), t.link(from, to).is_some()) {
                    prop_assert_eq!(plan.pipelined.rate, best);
                    prop_assert!(plan.pipelined.relays().count() <= relays);
                }
            }
        }

        /// Without a margin, the pipelined way, or the direct one, is as wide as the widest of all.
        #[test]
        fn a_plan_is_the_widest_way_around_those_who_do_not_relay(
            links in proptest::collection::vec((0u32..6, 0u32..6, 1u32..50, 1u32..60), 1..18),
            shut in proptest::collection::vec(0u32..6, 0..3),
        ) {
            let t = drawn(links, shut);
            let question = Question { margin: 0.0, ..ask(0, 1) };
            let ends = (t.index(NodeAddr(0)), t.index(NodeAddr(1)));
            if let (Ok(plan), (Some(from), Some(to))) = (plan(&t, &question), ends) {
                let is_link = t.link(from, to).is_some();
                let best = widest_tried(&t, from, to);
                prop_assert!(plan.pipelined.rate >= best);
                // A connection over several links in a row is not a way of single links.
                prop_assert!(!is_link || plan.pipelined.rate == best);
                for way in [&plan.pipelined, &plan.striped] {
                    prop_assert!(way.relays().all(|relay| !t.is_shut(t.index(relay).unwrap())));
                    prop_assert!(way.interval.low <= way.rate && way.rate <= way.interval.high);
                }
            }
        }
    }
}

#[test]
fn what_is_known_of_relays_counts_where_no_link_leads_to_the_end() {
    let mut t = topology(&[(1, 2, 5, 0.0), (2, 3, 5, 0.0)]);
    let unknown = plan(&t, &ask(1, 3)).unwrap();
    assert!(!unknown.best().is_known() && unknown.choice == Choice::Direct);
    for (from, to) in [(1, 2), (2, 3)] {
        let known = carried(Some(9_000_000), Some(9_000_000), true);
        t.set_known(NodeAddr(from), NodeAddr(to), known);
    }
    let known = plan(&t, &ask(1, 3)).unwrap();
    assert_eq!(
        (known.choice, relays(known.best())),
        (Choice::Pipelined, vec![2])
    );
    assert_eq!(
        (known.best().rate, known.best().connections()),
        (Width(9_000_000), 2)
    );
}

#[test]
fn a_way_that_is_named_has_its_stripes_too() {
    let mut t = topology(&[(1, 2, 10, 2.0), (2, 3, 10, 0.01), (1, 3, 5, 0.0)]);
    let [a, b, c] = [1, 2, 3].map(NodeAddr);
    // The lossy segment gets the connections that the other does not need. No relay is left out, although a link leads
    // past it.
    let stripes = stripes_along(&t, &[a, b, c], Connections::InAll(8)).unwrap();
    assert_eq!(stripes.len(), 2);
    assert!(stripes[0] >= 4 && stripes[1] < stripes[0], "{stripes:?}");
    assert!(stripes.iter().sum::<usize>() <= 8, "{stripes:?}");
    // No loss is known, so one connection is enough. Without a link there is nothing to plan.
    assert_eq!(stripes_along(&t, &[a, c], Connections::InAll(8)), None);
    assert_eq!(stripes_along(&t, &[c, a], Connections::InAll(8)), None);
    // Four connections together used the whole capacity; or two had no more than one.
    t.set_known(a, c, carried(Some(5_000_000), Some(18_000_000), true));
    assert_eq!(
        stripes_along(&t, &[a, c], Connections::InAll(8)),
        Some(vec![4])
    );
    t.set_known(a, c, carried(Some(18_000_000), Some(18_000_000), true));
    assert_eq!(stripes_along(&t, &[a, c], Connections::InAll(8)), None);
}
