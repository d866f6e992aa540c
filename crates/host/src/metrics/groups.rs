//! The metrics of groups and bridges.

use super::page::Page;
use crate::status::{BridgeStatus, GroupsStatus, ScribeStatus};
use overlay::snapshot::SourceTotals;
use std::fmt::Display;

pub(super) fn groups(page: &mut Page, status: &GroupsStatus) {
    let totals = &status.totals;
    page.gauge(
        "sinew_groups_joined",
        "Groups that clients of this node are in.",
        totals.joined,
    );
    page.family(
        "sinew_group_trees",
        "gauge",
        "Trees of groups that pass this node, by who builds them.",
    );
    page.sample(&[("tree", &"link-state")], totals.link_state_trees);
    page.sample(&[("tree", &"scribe")], totals.scribe_trees);
    page.gauge(
        "sinew_group_starved_members",
        "Members that get each packet of this node a second time, because the tree brings them too few.",
        totals.starved,
    );
    page.counter(
        "sinew_group_starved_found_total",
        "How often a tree brought a member less than its links say.",
        totals.starved_found,
    );
    page.counter(
        "sinew_group_copies_total",
        "Packets that this node has sent a second time to a member of a group.",
        totals.starved_packets,
    );
    for (name, help, value) in SOURCES {
        page.family(&format!("sinew_group_source_{name}"), "gauge", help);
        for source in &totals.sources {
            page.sample(&[("group", &source.group)], value(source));
        }
    }
    if let Some(scribe) = &status.scribe {
        of_scribe(page, scribe);
    }
}

type OfSource = (&'static str, &'static str, fn(&SourceTotals) -> f64);

// These are gauges, because a source that is idle for a minute is forgotten, and starts again at zero.
const SOURCES: &[OfSource] = &[
    (
        "packets",
        "Packets that clients of this node have sent to a group.",
        |s| s.packets as f64,
    ),
    ("bytes", "Their bytes, headers included.", |s| {
        s.bytes as f64
    }),
    (
        "receivers",
        "Nodes that receive them, as they have told.",
        |s| f64::from(s.receivers),
    ),
    (
        "worst_loss_ratio",
        "Share lost for good by the receiver that lost most.",
        |s| s.worst_lost_pct / 1e2,
    ),
    ("sealed", "1 if they are sealed from end to end.", |s| {
        f64::from(u8::from(s.sealed))
    }),
];

fn of_scribe(page: &mut Page, scribe: &ScribeStatus) {
    for (name, help, value) in [
        ("leaves", "Nodes of the leaf set.", scribe.leaves),
        ("peers", "Neighbours of which state is kept.", scribe.peers),
        (
            "pending_joins",
            "Joins that no parent has accepted.",
            scribe.pending,
        ),
    ] {
        page.gauge(&format!("sinew_scribe_{name}"), help, value);
    }
    page.family(
        "sinew_scribe_messages_total",
        "counter",
        "Messages of Scribe, by direction.",
    );
    page.sample(&[("direction", &"in")], scribe.received);
    page.sample(&[("direction", &"out")], scribe.sent);
    page.counter(
        "sinew_scribe_refused_children_total",
        "Children refused, one per group.",
        scribe.refused,
    );
    page.counter(
        "sinew_scribe_repaired_parents_total",
        "Parents lost and replaced, one per group.",
        scribe.repaired,
    );
    page.family(
        "sinew_scribe_drops_total",
        "counter",
        "Messages of Scribe that were not used, by reason.",
    );
    for (reason, count) in &scribe.drops {
        page.sample(&[("reason", reason)], count);
    }
}

type OfBridge = fn(&BridgeStatus) -> u64;

pub(super) fn bridges(page: &mut Page, bridges: &[BridgeStatus]) {
    if bridges.is_empty() {
        return;
    }
    let mut each = |name: &str, kind: &str, help: &str, value: OfBridge| {
        page.family(&format!("sinew_bridge_{name}"), kind, help);
        for bridge in bridges {
            page.sample(&[("interface", &bridge.interface)], value(bridge));
        }
    };
    each("up", "gauge", "1 while the interface is there.", |b| {
        b.is_here.into()
    });
    each(
        "forwarding",
        "gauge",
        "1 while the bridge carries; 0 on a network where another one does.",
        |b| (b.role == "forwarding").into(),
    );
    each(
        "groups",
        "gauge",
        "Groups that have members on the network.",
        |b| b.groups as u64,
    );
    each("joined", "gauge", "Groups joined in the overlay.", |b| {
        b.joined as u64
    });
    each(
        "refused_groups",
        "gauge",
        "Groups with members on the network that the node refuses.",
        |b| b.refused as u64,
    );
    each(
        "refused_sends",
        "gauge",
        "Groups to which the network sends and of which the node takes nothing.",
        |b| b.refused_sends as u64,
    );
    each(
        "cut_off",
        "gauge",
        "1 while the node reaches no other node.",
        |b| b.is_cut_off.into(),
    );
    each(
        "fragmented_packets_total",
        "counter",
        "Packets that were cut in parts for the network.",
        |b| b.fragmented,
    );
    each(
        "igmp_messages_total",
        "counter",
        "IGMP and MLD messages heard, right ones.",
        |b| b.igmp,
    );
    let both: [(&str, &str, [OfBridge; 2]); 2] = [
        (
            "sinew_bridge_packets_total",
            "Packets that crossed: in from the network, out onto it.",
            [|b| b.captured, |b| b.injected],
        ),
        (
            "sinew_bridge_bytes_total",
            "Their bytes.",
            [|b| b.captured_bytes, |b| b.injected_bytes],
        ),
    ];
    for (name, help, values) in both {
        page.family(name, "counter", help);
        for bridge in bridges {
            for (direction, value) in ["in", "out"].iter().zip(values) {
                let labels: [(&str, &dyn Display); 2] =
                    [("interface", &bridge.interface), ("direction", direction)];
                page.sample(&labels, value(bridge));
            }
        }
    }
    page.family(
        "sinew_bridge_drops_total",
        "counter",
        "What did not cross, by reason.",
    );
    for bridge in bridges {
        for (reason, count) in &bridge.drops {
            let labels: [(&str, &dyn Display); 2] =
                [("interface", &bridge.interface), ("reason", reason)];
            page.sample(&labels, count);
        }
    }
}
