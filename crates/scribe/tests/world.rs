//! Worlds of many nodes with random delays, loss, churn and partitions. After that nothing disturbs them, and
//! everything must become whole. A failure names its seed (see `seeds`).
mod worlds;

use base::{Duration, NodeAddr, Rng};
use worlds::{World, group};

/// Returns the seeds of a test. A failure names one; if only this seed is put here, the test replays it.
fn seeds(count: u64) -> impl Iterator<Item = u64> {
    1..=count
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Makes some nodes members of each group.
fn join_some(world: &mut World, groups: u32, members: usize, rng: &mut Rng) {
    for g in 0..groups {
        for _ in 0..members {
            let live = world.live();
            let who = live[rng.below(live.len() as u64) as usize];
            world.join(who, group(g));
        }
    }
}

#[test]
fn a_lone_node_is_the_root_of_everything() {
    let mut world = World::new(1);
    let a = world.add_first();
    world.join(a, group(0));
    world.run(ms(10));
    assert_eq!(world.branches(a, group(0)), Some((None, vec![], true)));
    world.leave(a, group(0));
    world.run(ms(10));
    assert_eq!(world.branches(a, group(0)), None);
}

#[test]
fn joins_are_served_within_their_paths_delay() {
    for seed in seeds(6) {
        let mut world = World::of(seed, 60);
        let members: Vec<NodeAddr> = world.live().into_iter().step_by(5).collect();
        for g in 0..8 {
            world.join(members[g as usize], group(g));
        }
        world.run(ms(600));
        for &who in &members {
            for g in 0..8 {
                let begun = world.now();
                world.join(who, group(g));
                let mut waited = Duration::ZERO;
                while !world.is_served(who, group(g)) {
                    world.run(ms(1));
                    waited = world.now().since(begun);
                    assert!(waited < ms(600), "seed {seed}: {who} is not served");
                }
                // Each hop gathers for 2 ms at most; the rest is the delay of the path.
                let path = world.way_up(who, group(g));
                let bound = path + ms(3) * 6;
                assert!(waited <= bound, "seed {seed}: {waited}, path {path}");
            }
        }
        world.run(ms(200));
        world.check_whole("after joins");
    }
}

#[test]
fn rings_and_trees_of_all_sizes_are_whole() {
    for seed in seeds(12) {
        let count = [2, 3, 5, 8, 16, 17, 18, 30, 40, 60, 90, 120][seed as usize % 12];
        let mut rng = Rng::new(seed);
        let mut world = World::of(seed, count);
        join_some(&mut world, 6, 1 + count / 3, &mut rng);
        world.run(Duration::from_secs(3));
        world.check_whole("at the start");
        world.check_safe();
    }
}

#[test]
fn three_hundred_nodes_are_whole() {
    for seed in seeds(1) {
        let mut rng = Rng::new(seed);
        let mut world = World::of(seed, 300);
        join_some(&mut world, 5, 60, &mut rng);
        world.run(Duration::from_secs(4));
        world.check_whole("300 nodes");
    }
}

/// Nodes join, leave and fail while a tenth of all messages is lost; then nothing is lost.
#[test]
fn after_churn_and_loss_everything_is_whole() {
    for seed in seeds(10) {
        let mut rng = Rng::new(seed ^ 0xc0ffee);
        let mut world = World::of(seed, 10 + 4 * (seed as usize % 20));
        join_some(&mut world, 8, 6, &mut rng);
        world.loss = 0.1;
        for _ in 0..60 {
            world.run(ms(50 + rng.below(300)));
            let live = world.live();
            let who = live[rng.below(live.len() as u64) as usize];
            let g = group(rng.below(8) as u32);
            match rng.below(8) {
                0 | 1 => {
                    world.add_by(who);
                }
                2 if live.len() > 5 => world.kill(who, rng.chance(0.5)),
                3 | 4 => world.leave(who, g),
                _ => world.join(who, g),
            }
            world.check_safe();
        }
        world.loss = 0.0;
        world.run(Duration::from_secs(15));
        world.check_whole("after churn");
        world.check_safe();
    }
}

/// The overlay reports that a node is gone: every node that was served through it is soon served again.
#[test]
fn the_loss_of_a_parent_and_of_the_root_is_mended_within_a_second() {
    let mut longest = Duration::ZERO;
    for seed in seeds(8) {
        let mut rng = Rng::new(seed);
        let mut world = World::of(seed, 80);
        join_some(&mut world, 3, 30, &mut rng);
        world.run(Duration::from_secs(3));
        for round in 0..6 {
            let g = group(round % 3);
            let root = world.root_of(g);
            let inner = world.inner_of(g).unwrap_or(root);
            world.kill(if round % 2 == 0 { root } else { inner }, true);
            let begun = world.now();
            while !world.all_served(g) {
                world.run(ms(5));
                let waited = world.now().since(begun);
                assert!(waited < ms(1_000), "seed {seed}: not mended after {waited}");
            }
            longest = longest.max(world.now().since(begun));
            world.run(ms(2_000));
        }
        world.run(Duration::from_secs(4));
        world.check_whole("after failures");
    }
    assert!(longest < ms(700), "the longest took {longest}");
}

/// A closer node enters: from then on it is the only root.
#[test]
fn the_root_moves_when_a_closer_node_enters() {
    for seed in seeds(4) {
        let mut rng = Rng::new(seed);
        let mut world = World::of(seed, 20);
        join_some(&mut world, 20, 5, &mut rng);
        world.run(Duration::from_secs(2));
        let before: Vec<NodeAddr> = (0..20).map(|g| world.root_of(group(g))).collect();
        for _ in 0..20 {
            let live = world.live();
            world.add_by(live[rng.below(live.len() as u64) as usize]);
            world.run(ms(100));
        }
        world.run(Duration::from_secs(4));
        world.check_whole("after entering");
        let moved = (0..20).filter(|g| world.root_of(group(*g)) != before[*g as usize]);
        assert!(
            moved.count() >= 4,
            "seed {seed}: half of the roots should move"
        );
    }
}

#[test]
fn a_parted_network_is_two_rings_and_then_one_again() {
    for seed in seeds(4) {
        let mut rng = Rng::new(seed);
        let mut world = World::of(seed, 24);
        join_some(&mut world, 6, 10, &mut rng);
        world.run(Duration::from_secs(2));
        world.part(2);
        world.run(Duration::from_secs(8));
        world.check_whole_by_side("parted");
        world.heal();
        world.run(Duration::from_secs(20));
        world.check_whole("healed");
    }
}

/// A node that has lost its state and returns under its address is accepted again.
#[test]
fn a_node_that_restarts_is_taken_in_again() {
    for seed in seeds(4) {
        let mut rng = Rng::new(seed);
        let mut world = World::of(seed, 30);
        join_some(&mut world, 5, 12, &mut rng);
        world.run(Duration::from_secs(2));
        let root = world.root_of(group(0));
        let via = world
            .live()
            .into_iter()
            .find(|a| *a != root)
            .expect("30 nodes");
        world.restart(root, via);
        world.run(Duration::from_secs(6));
        world.check_whole("after a restart");
    }
}

#[test]
fn senders_learn_the_root_and_that_it_has_moved() {
    for seed in seeds(4) {
        let mut world = World::of(seed, 50);
        let live = world.live();
        world.loss = 0.1;
        for who in live.iter().step_by(7) {
            for g in 0..10 {
                world.locate(*who, group(g));
            }
        }
        world.run(Duration::from_secs(4));
        world.loss = 0.0;
        world.check_located(&live, 10);
        let root = world.root_of(group(3));
        world.kill(root, true);
        world.run(Duration::from_secs(4));
        world.check_located(&live, 10);
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    let run = |seed| {
        let mut rng = Rng::new(seed);
        let mut world = World::of(seed, 30);
        world.loss = 0.05;
        join_some(&mut world, 5, 8, &mut rng);
        world.run(Duration::from_secs(5));
        world.trace()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}
