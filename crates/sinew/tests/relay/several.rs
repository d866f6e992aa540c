//! One source, several targets: a bad one costs only itself.

use crate::chain::{Chain, names};
use crate::world::failure;
use std::fs;

#[test]
fn a_target_that_refuses_or_is_away_costs_only_itself() {
    let mut chain = Chain::new("cp-bad-target", 3);
    let data = fs::read(chain.file("data", 3_000_000)).unwrap();
    let has = |chain: &Chain, name: &str, file: &str| {
        fs::read(chain.root(name).join(file)).is_ok_and(|found| found == data)
    };
    // fra is the way to lon, and refuses itself.
    let (status, text) = failure(&chain.try_cp("data fra:none/ lon:copy"));
    assert!(status == 1 && text.contains("fra: "), "{text}");
    assert!(text.contains("then to fra:none/"), "{text}");
    assert!(has(&chain, "lon", "copy"));
    assert!(names(&chain.root("fra")).is_empty());
    let (status, text) = failure(&chain.try_cp("data fra:first lon:none/"));
    assert!(status == 1 && text.contains("lon: "), "{text}");
    assert!(has(&chain, "fra", "first"));
    // All of them refuse: each is told.
    let (status, text) = failure(&chain.try_cp("data fra:none/ lon:none/"));
    let told = text.matches("is no directory").count();
    assert!(status == 1 && told >= 2, "{text}");
    // lon is away, and comes back when fra has it.
    chain.world.kill("lon");
    let copy = chain.begin_cp("data fra:second lon:second --give-up 120s");
    chain
        .world
        .wait("fra has it", || has(&chain, "fra", "second"));
    chain.world.start("lon");
    let output = copy.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(has(&chain, "lon", "second"));
}
