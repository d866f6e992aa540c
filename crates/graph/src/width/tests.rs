use super::*;
use crate::metric::{LinkCost, Metric, Parameters};
use crate::paths::NoPath;
use crate::topology::Topology;
use base::NodeAddr;

/// Returns a link with this latency in milliseconds that loses 1 %.
fn ms(ms: u32) -> LinkCost {
    LinkCost::new(ms * 1_000, 0.01)
}

fn topology(links: &[(u32, u32, u32)]) -> Topology {
    let links = links
        .iter()
        .map(|&(from, to, latency)| (NodeAddr(from), NodeAddr(to), ms(latency)));
    Topology::from_links(Parameters::default(), links)
}

fn nodes(path: &Path) -> Vec<u32> {
    path.nodes().map(|node| node.0).collect()
}

#[test]
fn the_width_is_the_formula() {
    for latency_us in [1, 500, 10_000, 40_000, 300_000, u32::MAX] {
        for loss in [1u16, 66, 655, 6_554, 65_535] {
            let rtt_s = 2.0 * f64::from(latency_us) / 1e6;
            let p = f64::from(loss) / 65_536.0;
            let formula = 1_460.0 * 8.0 * 1.5f64.sqrt() / (rtt_s * p.sqrt());
            let got = model::square_root([LinkCost::of_share(latency_us, loss)]).0 as f64;
            assert!(
                (got - formula).abs() <= 1.0 + formula * 1e-9,
                "{got} {formula}"
            );
        }
    }
    let perfect = of_link(LinkCost::default());
    let lossy = of_link(LinkCost::of_share(1, 1));
    assert!(perfect > lossy && perfect.0 < 3_000_000_000_000);
    assert!(of_link(LinkCost::of_share(u32::MAX, u16::MAX)) > Width::NONE);
}

#[test]
fn a_width_reads_well() {
    for (rate, text) in [
        (2_000, "2 kbit/s"),
        (7_154_000, "7.2 Mbit/s"),
        (71_540_000, "72 Mbit/s"),
        (71_540_000_000, "72 Gbit/s"),
        (u64::MAX, "unlimited"),
    ] {
        assert_eq!(Width(rate).to_string(), text);
    }
}

/// The paths from 1 to 4: the one over 2 is wide and long, the one over 3 as wide and short, and the direct link
/// narrow.
const WAYS: [(u32, u32, u32); 6] = [
    (1, 2, 10),
    (2, 5, 20),
    (5, 4, 10),
    (1, 3, 20),
    (3, 4, 15),
    (1, 4, 34),
];

#[test]
fn the_shortest_of_the_widest_is_taken_and_narrower_ones_on_request() {
    let t = topology(&WAYS);
    let [a, d] = [1, 4].map(NodeAddr);
    let widest = shortest_widest(&t, a, d, Metric::Latency).unwrap();
    assert_eq!(nodes(&widest), [1, 3, 4]);
    assert_eq!(widest.width(), of_link(ms(20)));
    let relaxed = |width| shortest_of_width(&t, a, d, Metric::Latency, width);
    assert_eq!(nodes(&relaxed(of_link(ms(34))).unwrap()), [1, 4]);
    assert_eq!(nodes(&relaxed(Width::NONE).unwrap()), [1, 4]);
    assert_eq!(relaxed(of_link(ms(19))), Err(NoPath::Unreachable(a, d)));
    assert_eq!(
        shortest_widest(&t, d, a, Metric::Hops),
        Err(NoPath::Unreachable(d, a))
    );
    assert_eq!(
        shortest_widest(&t, a, a, Metric::Hops),
        Err(NoPath::Same(a))
    );
}

#[test]
fn few_links_cost_width() {
    let t = topology(&WAYS);
    let [a, d] = [1, 4].map(|n| t.index(NodeAddr(n)).unwrap());
    let within = |hops| {
        let limited = widest_within(&t, a, hops);
        let path = limited.path(&t, d, Metric::Latency);
        assert_eq!(
            path.as_ref().map(Path::width),
            Some(limited.width(d)).filter(|w| *w != Width::NONE)
        );
        path.map(|path| nodes(&path))
    };
    assert_eq!(within(0), None);
    assert_eq!(within(1), Some(vec![1, 4]));
    for hops in [2, 3, 4, usize::MAX] {
        assert_eq!(within(hops), Some(vec![1, 3, 4]), "no longer than it needs");
    }
    let here = widest_within(&t, a, 3);
    assert_eq!(here.width(a), Width::UNLIMITED);
    assert_eq!(here.path(&t, a, Metric::Hops).unwrap().hops.len(), 0);
}
