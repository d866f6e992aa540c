use super::*;
use graph::metric::Repair;
use graph::protection::Lane;
use overlay::realtime::MAX_STRIKES;
use overlay::settings::Settings;
use overlay::snapshot::{DampingRule, KnownLink, NamedNode, NetworkSnapshot};

const A: NodeAddr = NodeAddr(1);
const B: NodeAddr = NodeAddr(2);
const C: NodeAddr = NodeAddr(3);

/// Makes a view with `a`, `b` and a link of 5 % loss between them, which requests `strikes`
/// times and announces this lane; `c` has no link.
fn view(protect: &str, strikes: u8, lane: Option<Lane>) -> View {
    let settings = Settings::modern();
    let node = |(name, addr): (&str, NodeAddr)| NamedNode {
        address: addr.to_string(),
        name: Some(name.to_owned()),
        bulk: None,
        refused: None,
    };
    let link = |(from, to): (NodeAddr, NodeAddr)| KnownLink {
        from: from.to_string(),
        to: to.to_string(),
        latency_us: 10_000,
        loss: LinkCost::new(0, 0.05).loss,
        price_us: 0,
        strikes,
        run_256ths: lane.map(|lane| lane.run_256ths),
        repair_16ths: lane.map_or(0, |lane| lane.repair_16ths),
        capacity_kbps: None,
        measured_kbps: None,
        together_kbps: None,
        together_is_all: false,
        spread_pct: 0,
        hops: None,
        over_tcp: false,
    };
    let snapshot = NetworkSnapshot {
        teller: None,
        profile: settings.name.to_owned(),
        detect_us: 2_000,
        late_us: 100_000,
        loss_us: 0,
        protect: Some(protect.to_owned()),
        aims: None,
        lanes: Vec::new(),
        nodes: [("a", A), ("b", B), ("c", C)].map(node).into(),
        links: [(A, B), (B, A)].map(link).into(),
        diverted: Vec::new(),
        rule: DampingRule::of(&settings.announce),
        holds: Vec::new(),
    };
    View::new(snapshot).unwrap()
}

fn after(view: &View, edits: &str, (from, to): (NodeAddr, NodeAddr)) -> LinkCost {
    link(&edited(view, edits).unwrap().topology, from, to).unwrap()
}

#[test]
fn a_protected_link_asks_as_often_as_its_own_end_does() {
    for strikes in [0, 1, 3] {
        let view = view("requests", strikes, None);
        for way in [(A, B), (B, A)] {
            let before = link(view.topology(), way.0, way.1).unwrap();
            for edits in [
                "a-b protect=requests",
                "a-b protect=auto",
                "a-b protect=off, a-b protect=hop",
            ] {
                assert_eq!(after(&view, edits, way), before, "{strikes}: {edits}");
            }
            let off = after(&view, "a-b protect=off", way);
            // If nobody announces requests, the cost does not depend on them.
            let strikes = off.repair.map(|repair| repair.strikes);
            assert_eq!(strikes, before.repair.map(|_| 0));
        }
        let added = after(&view, "a-c delay=5ms protect=auto", (C, A));
        let asks = added.repair.map(|repair| repair.strikes);
        assert_eq!(asks, (strikes > 0).then_some(strikes));
    }
}

#[test]
fn both_directions_of_a_network_that_is_off_are_asked_over_the_new_loss() {
    let lane = |repair_16ths| Lane {
        run_256ths: 300,
        repair_16ths,
    };
    let view = view("off", 0, Some(lane(0)));
    let loss = LinkCost::new(0, 0.08).loss;
    for way in [(A, B), (B, A)] {
        let link = after(&view, "a-b loss=8% protect=auto", way);
        assert_eq!(link.loss, loss);
        let expected = Repair::new(MAX_STRIKES, loss, loss).with_lane(Some(lane(16)));
        assert_eq!(link.repair, Some(expected));
    }
}
