//! Random histories of whole networks, as `sinew sim world` runs them.
#![allow(clippy::unwrap_used)]

use lab::worlds::{Options, Report, WorldsError, run};
use tools::progress::Progress;

fn lived(first: u64, seeds: u64, tell: bool) -> Report {
    let options = Options {
        first,
        seeds,
        jobs: None,
        trace: None,
        tell,
        messy: false,
        hostile: false,
        again: 0,
    };
    run(&options, Progress::Silent).unwrap()
}

/// All worlds are in one test, because they handle the signals of the process while they run.
#[test]
fn nothing_happens_in_500_worlds_that_must_not() {
    let report = lived(0, 500, false);
    assert!(report.is_clean(), "{report}");
    assert!(report.nodes > 2_000 && report.forged > 10_000, "{report}");
    // This is the part of the packets that arrives with faults; without faults, all arrive.
    assert!(report.received * 2 > report.sent, "{report}");

    let again = lived(7, 1, true);
    assert_eq!(again.trace_hash, lived(7, 1, false).trace_hash);
    assert_ne!(again.trace_hash, lived(8, 1, false).trace_hash);
    assert!(again.told.iter().any(|line| line.contains("whole after")));

    let path = std::env::temp_dir().join(format!("worlds-{}.jsonl", std::process::id()));
    let options = Options {
        first: 7,
        seeds: 1,
        jobs: None,
        trace: Some(path.clone()),
        tell: false,
        messy: false,
        hostile: false,
        again: 0,
    };
    let traced = run(&options, Progress::Silent).unwrap();
    assert_eq!(traced.trace_hash, again.trace_hash);
    let trace = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(trace.lines().count() as u64 > traced.sent);

    // None of the first 200 messy worlds is worse than its twins except by chance: most repetitions of it are not.
    let messy = Options {
        first: 0,
        seeds: 200,
        trace: None,
        messy: true,
        again: 6,
        ..options.clone()
    };
    let messy = run(&messy, Progress::Silent).unwrap();
    let is_chance = |again: Option<u64>| again.is_some_and(|again| again <= 3);
    assert!(
        messy.failed.iter().all(|world| is_chance(world.again)),
        "{messy}"
    );
    assert!(messy.failed.len() <= 2 && messy.compared > 400, "{messy}");

    // A hostile member does no harm except what docs/security.md lists as open, though it does much that could be
    // harmful.
    let hostile = Options {
        first: 0,
        seeds: 36,
        trace: None,
        hostile: true,
        ..options.clone()
    };
    let hostile_worlds = run(&hostile, Progress::Silent).unwrap();
    let open = ["black-hole", "lies"];
    let mut kinds = hostile_worlds.kinds.keys();
    assert!(
        kinds.all(|kind| open.contains(&kind.as_str())),
        "{hostile_worlds}"
    );
    assert!(
        hostile_worlds.forged > 50_000 && hostile_worlds.failures < 12,
        "{hostile_worlds}"
    );

    for (seeds, jobs) in [(0, None), (2, Some(1)), (1, Some(0)), (1, Some(1_000))] {
        let wrong = Options {
            seeds,
            jobs,
            ..options.clone()
        };
        let refused = run(&wrong, Progress::Silent);
        assert!(matches!(refused, Err(WorldsError::Option(_))), "{wrong:?}");
    }
}
