//! Tests with a member without deeds, and with deeds.

use super::treason::Deed;
use super::*;

fn lived(seed: u64, deeds: Vec<Deed>) -> Outcome {
    let mut scene = Scene::draw(seed);
    scene.treason.deeds = deeds;
    let lived = Life::begin(seed, &scene, true, None, None).lived(None);
    lived.unwrap_or_else(|worse| panic!("seed {seed}: {}", worse.why))
}

#[test]
fn a_member_without_deeds_is_a_node_like_any_other() {
    for seed in 0..6 {
        let outcome = lived(seed, Vec::new());
        assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
        assert!(outcome.unfinished.is_none(), "{:?}", outcome.unfinished);
        assert_eq!(outcome.past.forged, 0);
        let lost: usize = outcome.flows.iter().map(|(_, lost, _)| lost).sum();
        assert!(lost <= 2, "seed {seed}: {:?}", outcome.flows);
    }
}

#[test]
fn what_a_member_does_is_done_and_noticed() {
    let swallows = Deed::Swallow {
        pct: 100,
        spares_handshakes: true,
    };
    let (mut lost, mut forged) = (0, 0);
    for seed in 0..6 {
        lost += lived(seed, vec![swallows])
            .flows
            .iter()
            .map(|(_, lost, _)| lost)
            .sum::<usize>();
        forged += lived(seed, vec![Deed::Forge { per_s: 200 }]).past.forged;
    }
    assert!(lost > 250, "{lost}");
    assert!(forged > 6_000, "{forged}");
}
