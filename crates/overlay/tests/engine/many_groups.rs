//! Many groups at once, which members join and leave all the time. The tests check what each member gets from its first
//! packet on, and when that packet arrives. `--nocapture` shows what was measured.
#![allow(
    clippy::disallowed_macros,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that shows what it measured"
)]

use crate::world::{Nodes, PORT, read};
use base::{ClientId, Duration, NodeAddr, Pool, Rng, Time};
use overlay::request::{Delivery, Options};
use overlay::sockets::default_options;
use overlay::{Reply, Request};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

const LEAVES: usize = 10;
/// The source, two relays, and the leaves behind both relays.
const FIRST_LEAF: usize = 3;
const BYTES: usize = 1_316;
const SOURCE: ClientId = ClientId(50);
const MEMBER: ClientId = ClientId(51);
const HOP_MS: u64 = 10;

fn group(g: usize) -> NodeAddr {
    NodeAddr(0xef02_0000 + g as u32)
}

/// One stay of a leaf in a group.
struct Stay {
    joined: Time,
    first: Option<(Time, u64)>,
    last: u64,
    came: u64,
}

#[derive(Default)]
struct Course {
    stays: BTreeMap<(usize, usize), Stay>,
    lost: u64,
    came: u64,
    waits: Vec<Duration>,
    silent: usize,
}

impl Course {
    fn take(&mut self, nodes: &mut Nodes) {
        for answer in nodes.world.take_replies() {
            match answer.reply {
                Reply::Datagram {
                    payload,
                    group: Some(to),
                    ..
                } => {
                    let (number, _) = read(payload.bytes());
                    let at = (answer.host.place(), (to.0 & 0xffff) as usize);
                    let Some(stay) = self.stays.get_mut(&at) else {
                        continue;
                    };
                    if stay.first.is_none() {
                        stay.first = Some((answer.at, number));
                        self.waits.push(answer.at.since(stay.joined));
                    }
                    stay.last = number;
                    stay.came += 1;
                }
                Reply::Refused(why) => panic!("{why}"),
                _ => {}
            }
        }
    }

    fn end(&mut self, at: (usize, usize)) {
        let stay = self.stays.remove(&at).unwrap();
        match stay.first {
            Some((_, first)) => {
                self.lost += stay.last + 1 - first - stay.came;
                self.came += stay.came;
            }
            None => self.silent += 1,
        }
    }
}

/// Runs `groups` groups of 250 kbit/s each for `seconds`, with 20 joins per second and stays of one to four seconds.
fn run(groups: usize, seconds: u64, path: &str) -> Course {
    let relays = [(0, 1), (0, 2)];
    let leaves = (FIRST_LEAF..FIRST_LEAF + LEAVES).flat_map(|leaf| [(1, leaf), (2, leaf)]);
    let edges: Vec<_> = relays.into_iter().chain(leaves).collect();
    let count = FIRST_LEAF + LEAVES;
    let mut nodes = Nodes::new(1, count, &edges, path);
    for i in 0..count {
        nodes.world.set_pool(nodes.hosts[i], Pool::of_node());
    }
    nodes.run_ms(5_000);
    let options = Options {
        deadline: Some(Duration::from_millis(300)),
        delivery: Delivery::InOrder,
        ..default_options()
    };
    nodes.set_sender(0, SOURCE, options);
    for leaf in FIRST_LEAF..count {
        nodes.request(leaf, MEMBER, Request::Options(options));
    }
    let every = Duration::from_nanos(1_000_000_000 * BYTES as u64 * 8 / 250_000);
    let start = nodes.world.now();
    let mut sent = vec![0u64; groups];
    let mut rng = Rng::new(7);
    let mut course = Course::default();
    let mut leaving: BTreeMap<(Time, usize, usize), ()> = BTreeMap::new();
    // A member that joins within the first 16 packets of a flow waits for the earlier packets, which are not sent to
    // it. Therefore joins begin later.
    let mut next_join = start + Duration::from_millis(1_500);
    let end = start + Duration::from_secs(seconds);
    while nodes.world.now() < end {
        let now = nodes.world.now();
        let step = now + Duration::from_millis(1);
        for (g, sent) in sent.iter_mut().enumerate() {
            loop {
                // The groups do not all send at the same moment.
                let at = start + Duration::from_micros(211 * g as u64) + every * *sent;
                if at >= step {
                    break;
                }
                nodes.send_to_addr(at, 0, SOURCE, (group(g), PORT), *sent, BYTES);
                *sent += 1;
            }
        }
        if now >= next_join && now + Duration::from_secs(6) < end {
            next_join += Duration::from_millis(50);
            let leaf = FIRST_LEAF + rng.below(LEAVES as u64) as usize;
            let g = rng.below(groups as u64) as usize;
            if let Entry::Vacant(stay) = course.stays.entry((leaf, g)) {
                stay.insert(Stay {
                    joined: now,
                    first: None,
                    last: 0,
                    came: 0,
                });
                let (group, port) = (group(g), PORT);
                nodes.request(leaf, MEMBER, Request::Join { group, port });
                let until = now + Duration::from_millis(1_000 + rng.below(3_000));
                leaving.insert((until, leaf, g), ());
            }
        }
        while let Some((&(at, leaf, g), ())) = leaving.first_key_value()
            && at <= now
        {
            leaving.pop_first();
            nodes.request(
                leaf,
                MEMBER,
                Request::Leave {
                    group: group(g),
                    port: PORT,
                },
            );
            course.end((leaf, g));
        }
        nodes.world.run_until(step);
        course.take(&mut nodes);
    }
    assert_eq!(nodes.world.counters().no_slot, 0);
    course.waits.sort_unstable();
    println!(
        "{groups} groups, {path}: {} stays, {} packets, lost {}, silent {}, first packet after {} in the median, {} at most",
        course.waits.len(),
        course.came,
        course.lost,
        course.silent,
        course.waits[course.waits.len() / 2],
        course.waits.last().unwrap(),
    );
    nodes.world.close().unwrap();
    course
}

fn check(course: &Course, stays: usize) {
    assert!(course.waits.len() >= stays, "{}", course.waits.len());
    assert_eq!((course.lost, course.silent), (0, 0));
    // The delay of the path of two hops. The join needs it once, and the packet needs it once.
    let way = Duration::from_millis(2 * HOP_MS);
    let latest = *course.waits.last().unwrap();
    assert!(latest <= Duration::from_millis(100) + way * 2, "{latest}");
}

#[test]
fn who_joins_and_leaves_gets_all_between() {
    check(&run(40, 12, "delay=10ms loss=1%"), 60);
}

/// 200 groups, 50 Mbit/s in all.
#[test]
#[ignore = "takes minutes"]
fn two_hundred_groups_and_twenty_joins_in_a_second() {
    for path in ["delay=10ms", "delay=10ms loss=1%"] {
        check(&run(200, 60, path), 1_000);
    }
}
