//! Rights in certificates: whose settings and permits of groups count, and when that changes.
#![allow(clippy::unwrap_used)]

use crate::world::groups::{Cast, GROUP};
use crate::world::{Nodes, VALID, addr, chain, voice};
use base::{NodeAddr, Time};
use overlay::Reply;
use overlay::groups::Permit;
use overlay::request::{Operation, RequestError};
use secure::{Changes, Identity};
use wire::certificate::GroupRange;
use wire::groups::{Setting, TreeBuilder};

/// All of class D, which is the range that the worst member sets.
const CLASS_D: (NodeAddr, u8) = (NodeAddr(0xe000_0000), 4);

fn settled(seed: u64) -> Nodes {
    let mut nodes = Nodes::new(seed, 4, &chain(4), "delay=10ms");
    nodes.run_ms(2_000);
    nodes
}

/// Gives node `i` a certificate for its keys that lets it set these groups.
fn entitle(nodes: &mut Nodes, i: usize, groups: &[&str]) {
    let groups: Vec<GroupRange> = groups.iter().map(|text| text.parse().unwrap()).collect();
    let certificate = nodes.certificate(i);
    let changes = Changes {
        groups: Some(&groups),
        ..Changes::default()
    };
    let renewed = nodes.authority.renew_for(&certificate, &changes, VALID);
    let identity = Identity::new(nodes.identity(i).keys().clone(), renewed.unwrap()).unwrap();
    nodes.operate(i, Operation::Renew(Box::new(identity)));
    nodes.run_ms(500);
}

fn set(nodes: &mut Nodes, i: usize, (group, prefix): (NodeAddr, u8), rate_kbps: u32) {
    let setting = Setting {
        prefix,
        rate_kbps,
        ..Setting::of(group)
    };
    let setting = Some(setting);
    nodes.operate(
        i,
        Operation::SetGroup {
            group,
            prefix,
            setting,
        },
    );
    nodes.run_ms(500);
}

fn keep_out(nodes: &mut Nodes, i: usize, send: Option<&str>) {
    nodes.operate(
        i,
        Operation::Permit(Permit {
            group: GROUP,
            prefix: 32,
            send: send.map(|word| vec![word.to_owned()]),
            receive: None,
        }),
    );
    nodes.run_ms(500);
}

/// Returns the rate of the group as each node knows it.
fn rates(nodes: &Nodes) -> Vec<Option<u32>> {
    let setting = |i| {
        nodes
            .running(i)
            .unwrap()
            .database()
            .membership()
            .setting(GROUP)
    };
    (0..4).map(|i| setting(i).map(|s| s.rate_kbps)).collect()
}

#[test]
fn a_setting_counts_as_long_as_its_node_s_certificate_covers_it() {
    let mut nodes = settled(1);
    set(&mut nodes, 0, (GROUP, 32), 100);
    assert_eq!(rates(&nodes), [Some(100); 4]);
    // This setting is made later, so it has a higher version. Both nodes have certificates from before rights existed.
    set(&mut nodes, 2, (GROUP, 32), 200);
    assert_eq!(rates(&nodes), [Some(200); 4]);
    entitle(&mut nodes, 2, &[]);
    assert_eq!(rates(&nodes), [Some(100); 4], "it still says so");
    for i in 0..4 {
        let [group] = nodes
            .running(i)
            .unwrap()
            .group_statuses(nodes.world.now(), Some(GROUP))
            .try_into()
            .unwrap();
        assert_eq!(group.ignored.len(), 1);
        assert_eq!(group.ignored[0].said_by, addr(2).to_string());
    }
    assert_eq!(nodes.count().ignored, vec![(addr(2), GROUP); 4]);
    entitle(&mut nodes, 2, &["239.192.0.0/14"]);
    assert_eq!(rates(&nodes), [Some(100); 4], "other groups");
    entitle(&mut nodes, 2, &["224.0.0.0/3"]);
    assert_eq!(rates(&nodes), [Some(200); 4]);
}

#[test]
fn a_node_without_the_right_is_told_at_once_and_a_wide_range_is_more_than_its_parts() {
    let mut nodes = settled(2);
    entitle(&mut nodes, 1, &["239.0.0.0/8"]);
    nodes.world.take_replies();
    let range = (NodeAddr(0xef00_0000), 8);
    set(&mut nodes, 1, range, 300);
    set(&mut nodes, 1, CLASS_D, 1);
    keep_out(&mut nodes, 1, Some("nobody"));
    entitle(&mut nodes, 1, &[]);
    keep_out(&mut nodes, 1, Some("nobody"));
    // A node may take back what it has said.
    keep_out(&mut nodes, 1, None);
    let replies = nodes.world.take_replies();
    let refused = |(group, prefix): (NodeAddr, u8)| {
        let refused = RequestError::MayNotSet { group, prefix };
        format!("{:?}", Reply::Refused(refused))
    };
    let told: Vec<String> = replies
        .iter()
        .map(|one| format!("{:?}", one.reply))
        .collect();
    let done = format!("{:?}", Reply::Done);
    let wanted = [
        done.clone(),
        refused(CLASS_D),
        done.clone(),
        done.clone(),
        refused((GROUP, 32)),
        done,
    ];
    assert_eq!(told, wanted);
}

#[test]
fn a_permit_counts_as_long_as_its_node_s_certificate_covers_it() {
    let mut nodes = settled(3);
    nodes.join(3, GROUP);
    let may_send = |nodes: &Nodes| {
        let may = |i| {
            let membership = nodes.running(i).unwrap().database().membership();
            membership.permits().may_send(addr(0), GROUP)
        };
        [0, 1, 2, 3].map(may)
    };
    keep_out(&mut nodes, 1, Some("nobody"));
    assert_eq!(may_send(&nodes), [false; 4]);
    entitle(&mut nodes, 1, &[]);
    assert_eq!(may_send(&nodes), [true; 4], "it is still said");
    let mut cast = Cast::new(0, 5, voice());
    cast.run_ms(&mut nodes, 1_000);
    cast.finish(&mut nodes);
    assert_eq!(cast.got(3, Time::ZERO, Time::FAR), (200, 200));
    entitle(&mut nodes, 1, &[&GROUP.to_string()]);
    assert_eq!(may_send(&nodes), [false; 4]);
}

#[test]
fn a_narrow_setting_without_right_does_not_hide_a_wide_one() {
    let mut nodes = settled(4);
    set(&mut nodes, 0, CLASS_D, 100);
    set(&mut nodes, 2, (GROUP, 32), 200);
    assert_eq!(rates(&nodes), [Some(200); 4]);
    entitle(&mut nodes, 2, &[]);
    assert_eq!(rates(&nodes), [Some(100); 4]);
    let setting = nodes
        .running(3)
        .unwrap()
        .database()
        .membership()
        .setting(GROUP);
    assert_eq!(setting.unwrap().tree, TreeBuilder::LinkState);
}

#[test]
fn a_node_that_starts_later_judges_as_the_others_do() {
    let mut nodes = settled(5);
    set(&mut nodes, 0, (GROUP, 32), 100);
    set(&mut nodes, 2, (GROUP, 32), 200);
    entitle(&mut nodes, 2, &[]);
    nodes.crash(3);
    nodes.run_ms(2_000);
    nodes.restart(3);
    nodes.run_ms(5_000);
    assert_eq!(rates(&nodes), [Some(100); 4]);
}
