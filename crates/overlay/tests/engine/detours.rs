//! Detours around a link in doubt that is not the source's own: its near end has no other path than back, and reports
//! that. `--nocapture` shows the gaps.
#![allow(
    clippy::disallowed_macros,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that shows what it measured"
)]

use crate::world::groups::{Cast, GROUP};
use crate::world::streams::Streams;
use crate::world::{Nodes, voice};
use base::{Duration, Time};
use overlay::Settings;
use overlay::event::Drop;

/// The path from 0 to 2 leads through 1; the direct link is long. Node 3 is behind 2.
const EDGES: [(usize, usize); 4] = [(0, 1), (1, 2), (0, 2), (2, 3)];
/// 150 ms until the link is in doubt, some more until the doubt is reported, a copy on the long link, and a packet's
/// interval. Without the report it is 420 ms and the long link.
const GAP_MOST: Duration = Duration::from_millis(290);

fn settled(seed: u64, settings: Settings) -> Nodes {
    let mut nodes = Nodes::with(seed, 4, &EDGES, "delay=4ms", settings);
    nodes.link(0, 2, "delay=75ms");
    nodes.join(3, GROUP);
    nodes.run_ms(10_000 + 137 * seed);
    nodes.arrivals();
    nodes
}

/// The longest gap of a call from 0 to 3 when the link from 1 to 2 falls silent.
fn gap_of_call(seed: u64, settings: Settings) -> Duration {
    let mut nodes = settled(seed, settings);
    let mut call = Streams::calls(&mut nodes, 1, 0, 3, voice());
    call.run(&mut nodes, Duration::from_millis(2_000 + 29 * seed));
    nodes.set_outage(1, 2, true);
    call.run(&mut nodes, Duration::from_millis(1_500));
    nodes.set_outage(1, 2, false);
    call.run(&mut nodes, Duration::from_secs(3));
    call.finish(&mut nodes);
    assert_eq!(call.duplicates, 0);
    nodes.world.close().unwrap();
    call.longest_gap(0)
}

#[test]
fn a_relay_tells_of_a_link_in_doubt_and_the_source_goes_around_it() {
    let gaps = (0..8).map(|seed| gap_of_call(seed, Settings::modern()));
    let worst = gaps.max().unwrap();
    println!("a call whose relay's link falls silent: {worst}");
    assert!(worst <= GAP_MOST, "{worst}");
    // If no node doubts links, the verdict on the link decides.
    let mut settings = Settings::modern();
    settings.hello.doubt_after = Duration::from_secs(3_600);
    let without = gap_of_call(0, settings);
    assert!(without > GAP_MOST, "{without}");
}

#[test]
fn a_branch_in_doubt_is_gone_around_for_all_members_behind_it() {
    let mut worst = Duration::ZERO;
    for seed in 0..8 {
        let mut nodes = settled(seed, Settings::modern());
        nodes.join(2, GROUP);
        nodes.join(1, GROUP);
        nodes.run_ms(500);
        let mut cast = Cast::new(0, 5, voice());
        cast.run_ms(&mut nodes, 2_000 + 29 * seed);
        nodes.set_outage(1, 2, true);
        cast.run_ms(&mut nodes, 1_500);
        nodes.set_outage(1, 2, false);
        cast.run_ms(&mut nodes, 3_000);
        cast.finish(&mut nodes);
        assert_eq!(cast.doubles(), 0);
        worst = worst.max(cast.longest_gap(2)).max(cast.longest_gap(3));
        let (got, sent) = cast.got(1, Time::ZERO, Time::FAR);
        assert_eq!(got, sent, "who is before the link misses nothing");
        nodes.world.close().unwrap();
    }
    println!("a group one of whose branches falls silent: {worst}");
    assert!(worst <= GAP_MOST, "{worst}");
}

#[test]
fn copies_for_a_group_pass_a_child_of_the_far_end_and_it_gets_them_too() {
    // A triangle: the branch to 1 is in doubt at the source itself, and the copy passes through 2, which is 1's child.
    let mut worst = Duration::ZERO;
    for seed in 0..8 {
        let edges = [(0, 1), (1, 2), (0, 2)];
        let mut nodes = Nodes::new(seed, 3, &edges, "delay=4ms");
        nodes.link(0, 2, "delay=40ms");
        nodes.join(1, GROUP);
        nodes.join(2, GROUP);
        nodes.run_ms(10_000 + 137 * seed);
        nodes.arrivals();
        let mut cast = Cast::new(0, 5, voice());
        cast.run_ms(&mut nodes, 2_000 + 29 * seed);
        nodes.set_outage(0, 1, true);
        cast.run_ms(&mut nodes, 1_500);
        cast.finish(&mut nodes);
        assert_eq!(cast.doubles(), 0);
        worst = worst.max(cast.longest_gap(1)).max(cast.longest_gap(2));
        nodes.world.close().unwrap();
    }
    println!("a group whose first link falls silent: {worst}");
    assert!(worst <= GAP_MOST, "{worst}");
}

/// The path from 0 to 2 leads through 1, whose link to 2 becomes longer than the path back and around. 1 knows it at
/// once, and 0 when it has received the record, 40 ms later: packets that 0 sends meanwhile would be sent back.
#[test]
fn what_would_go_back_to_the_neighbour_that_sent_it_goes_on_another_way() {
    for seed in 0..12 {
        let edges = [(0, 1), (1, 2), (0, 2)];
        let mut nodes = Nodes::with(seed, 3, &edges, "delay=4ms", Settings::modern());
        nodes.link(0, 1, "delay=40ms");
        nodes.link(0, 2, "delay=60ms");
        nodes.run_ms(10_000 + 137 * seed);
        nodes.arrivals();
        let mut call = Streams::calls(&mut nodes, 1, 0, 2, voice());
        call.run(&mut nodes, Duration::from_secs(2));
        nodes.link(1, 2, "delay=110ms");
        call.run(&mut nodes, Duration::from_secs(20));
        call.finish(&mut nodes);
        let looped = nodes.count().drops(Drop::Loop);
        println!("{seed}: {looped} would have looped");
        assert_eq!(looped, 0, "seed {seed}");
        assert_eq!(call.duplicates, 0);
        assert!(
            call.fates_of(0).all(|(_, fate)| fate.is_some()),
            "seed {seed}"
        );
        nodes.world.close().unwrap();
    }
}
