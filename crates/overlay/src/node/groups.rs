//! Groups at the node: joins of clients, announcements of groups, and the paths of packets.
//!
//! ```text
//!   clients ─▶ local ─▶ told in records            records ─▶ router ─▶ trees, keys, audits (once per flush)
//!   packet ─▶ judge ─▶ a slot of `trees`, or an edge of `shared` ─▶ branches, and clients here
//! ```
//! The room decides by its own state, the router and the links. Code that sends or delivers belongs to the node and is
//! in the files of this directory. [`joins`] handles the requests of clients and of the operator, [`sending`] the paths
//! of packets. [`keys`] seals and opens, [`audit`] checks that trees deliver what is sent, [`shared`] follows the trees
//! that Scribe builds, [`reports`] and [`status`] report the reception.

mod audit;
mod joins;
mod keys;
mod reports;
mod sending;
mod shared;
mod status;

pub(super) use joins::follow_setting;
pub use reports::REPORTS_PORT;

use self::keys::Keys;
use self::reports::Reporting;
use super::Node;
use super::metric;
use super::receive::Verdict;
use super::router::Router;
use crate::audit::GroupAudits;
use crate::detour::{Edge, path};
use crate::ends::has_seal;
use crate::event::{Drop, Event};
use crate::flow::FlowKey;
use crate::groups::{Errand, Key, Local, Shared, Told, Trees, View};
use crate::link::Links;
use crate::link_state::{Database, OwnGroups};
use crate::request::Operation;
use crate::settings::Settings;
use base::token_bucket::TokenBucket;
use base::{Burst, ClientId, Duration, Map, NodeAddr, Outbox, Time};
use graph::Metric;
use secure::{Context, Identity, Network};
use wire::CLEAR_BYTES;
use wire::data::{Header, LinkProtocol, Routing};
use wire::groups::TreeBuilder;
use wire::record;

/// The shortest time between two editions of this node's groups: a client that joins a thousand groups causes the
/// flooding of a few records, not of a thousand.
const OWN_GROUPS_SPACING: Duration = Duration::from_millis(20);

/// The groups of a node.
pub(super) struct Groups {
    own: NodeAddr,
    /// The joins of this node's clients, and what its operator has set.
    local: Local,
    /// The groups are not announced again before this moment.
    told_after: Time,
    /// Clients that were notified within the last second that they may not send to a group, and when they are notified
    /// again.
    refusing: Map<(ClientId, NodeAddr), Time>,
    /// Packets to groups to which this node may not send.
    refused: Map<NodeAddr, u64>,
    /// How many bytes this node's sources may still send, by group, if the rate is set.
    policers: Map<NodeAddr, (u32, TokenBucket)>,
    trees: Trees,
    /// Packets with a deadline get a second way if it is useful.
    protects: bool,
    shared: Shared,
    /// The nodes to which copies of a packet go along a shared tree: kept only to reuse the memory.
    tree_ends: Vec<NodeAddr>,
    keys: Keys,
    reports: Reporting,
    /// Checks whether trees deliver what is sent.
    audits: GroupAudits,
}

impl Groups {
    pub(super) fn new(
        own: NodeAddr,
        network: &Network,
        seed: &[u8; 32],
        settings: &Settings,
    ) -> Groups {
        Groups {
            own,
            local: Local::default(),
            told_after: Time::ZERO,
            refusing: Map::default(),
            refused: Map::default(),
            policers: Map::default(),
            trees: Trees::default(),
            protects: settings.realtime.aims.protect.chooses(),
            shared: Shared::default(),
            tree_ends: Vec::new(),
            keys: Keys::new(network, seed, settings.sealing),
            reports: Reporting::default(),
            audits: GroupAudits::default(),
        }
    }

    /// Returns the next task for Scribe.
    pub(super) fn next_errand(&mut self) -> Option<Errand> {
        self.shared.next_errand()
    }

    /// Takes in Scribe's reports about its trees.
    pub(super) fn on_scribe(&mut self, now: Time, said: Operation) {
        match said {
            Operation::Edges {
                group,
                ends,
                has_parent,
                is_in_tree,
            } => self.shared.set_edges(group, (ends, has_parent), is_in_tree),
            Operation::Root { group, at } => self.shared.set_root(now, group, at),
            Operation::NoScribe => self.shared.clear(),
            _ => {}
        }
    }

    /// Returns true if this node has clients in the group and may receive it.
    #[inline]
    pub(super) fn receives(&self, group: NodeAddr, router: &Router) -> bool {
        self.local.is_member(group) && router.permits().may_receive(self.own, group)
    }

    /// Returns the member of an anycast group that is nearest by the metric; `None` without members in reach.
    pub(super) fn nearest(
        &self,
        group: NodeAddr,
        metric: Metric,
        router: &Router,
    ) -> Option<NodeAddr> {
        match self.receives(group, router) {
            true => Some(self.own),
            false => router.nearest(group, metric),
        }
    }

    /// Returns true if packets to a group are to be sealed.
    #[inline]
    pub(super) fn seals(&mut self, group: NodeAddr, router: &Router) -> bool {
        self.keys.seals(group, router)
    }

    /// Takes in the announcements of other nodes. Called once per flush, after the node's certificate is in the
    /// database.
    pub(super) fn follow(&mut self, now: Time, router: &mut Router, out: &mut impl Outbox<Node>) {
        let permits = router.database_mut().settle_permits();
        if permits {
            self.trees.on_rules_changed();
            router.touch();
            self.on_all_changed(now);
        }
        let membership = router.database_mut().membership_mut();
        let settings = membership.take_settings_changed();
        if membership.take_carriage_changed() {
            self.trees.on_rules_changed();
        }
        if settings {
            self.sort(router);
            self.on_all_changed(now);
        }
        match router.database_mut().take_key_holders_changed() {
            Some(true) => self.on_all_changed(now),
            Some(false) => self.keys.openable.clear(),
            None => {}
        }
        if permits || settings {
            for (by, (group, prefix)) in router.database_mut().membership_mut().newly_ignored() {
                out.report(Event::GroupsIgnored { by, group, prefix });
            }
        }
        let due: Vec<u8> = router.database().groups_to_refresh(now).collect();
        for part in due {
            self.local.renew(part);
        }
    }

    /// Takes in changes of members. Called after news of the own groups is announced.
    pub(super) fn follow_members(&mut self, now: Time, router: &mut Router) {
        for group in router.database_mut().membership_mut().take_changed() {
            self.trees.on_group_changed(group);
            self.audits.on_changed(Some(group));
            self.keys.on_changed(now, group);
            if group.is_anycast() {
                router.touch();
            }
        }
    }

    /// Permits, settings or nodes have changed: any group may be affected.
    fn on_all_changed(&mut self, now: Time) {
        self.audits.on_changed(None);
        self.keys.on_all_changed(now);
    }

    /// Settings have changed: assigns groups to the other protocol that builds their trees.
    fn sort(&mut self, router: &Router) {
        for (group, to) in self.local.sort(|group| router.builder(group)) {
            self.shared.ask(match to {
                TreeBuilder::Scribe => Errand::Join(group),
                TreeBuilder::LinkState => Errand::Leave(group),
            });
        }
        self.policers.clear();
    }

    /// Announces news of the own groups: `entered` is called with each record.
    pub(super) fn tell(
        &mut self,
        now: Time,
        (identity, network): (&Identity, &Network),
        database: &mut Database,
        mut entered: impl FnMut(record::Key),
    ) {
        if !self.local.is_dirty() || now < self.told_after {
            return;
        }
        self.told_after = now + OWN_GROUPS_SPACING;
        let certificate_serial = identity.certificate().fields().serial;
        while let Some(Told {
            part,
            members,
            settings,
            permits,
        }) = self.local.take_dirty()
        {
            let what = OwnGroups {
                part,
                members,
                settings,
                permits,
                certificate_serial,
            };
            let told = database.originate_groups(now, what, |signed| {
                network.sign(identity, Context::Groups, signed)
            });
            entered(told.expect("parts bound themselves to the room of a record"));
        }
    }

    /// A node no longer belongs to the network.
    pub(super) fn on_revoked(&mut self, node: NodeAddr) {
        self.keys.own.on_revoked(node);
    }

    /// Notes that packets of this node's own to a group, which were sealed at `at`, have not left to a neighbour.
    pub(super) fn excuse(&mut self, at: Time, group: NodeAddr, (next, packets): (NodeAddr, u16)) {
        self.audits.excuse(at, group, (next, packets));
    }

    /// Slow housekeeping.
    pub(super) fn expire(&mut self, now: Time) {
        self.trees.expire(now);
        self.shared.expire(now);
        self.keys.expire(now);
        self.audits.expire(now);
    }

    /// Returns when something is due, with a name for it. Reports wait for the housekeeping if no packets pass.
    pub(super) fn timeouts(&self, housekeeping: Time) -> [(Option<Time>, &'static str); 4] {
        let telling = self.local.is_dirty().then_some(self.told_after);
        let passes = self.trees.iter().len() > 0 || self.shared.passing().len() > 0;
        let reporting = Some(self.reports.due).filter(|due| passes && *due < housekeeping);
        [
            (telling, "groups"),
            (reporting, "groups"),
            (self.keys.next_timeout(), "group key"),
            (self.audits.next_timeout(), "audit"),
        ]
    }

    /// Returns the place of the slot for packets from `source` to a group.
    pub(super) fn slot(
        &mut self,
        now: Time,
        (source, group): (NodeAddr, NodeAddr),
        routing: Routing,
        is_urgent: bool,
        (router, links): (&Router, &Links),
    ) -> Result<u32, Drop> {
        // The stamped packets that get here are only those that take two trees.
        let two_ways = routing == Routing::Stamped;
        let metric = match two_ways {
            true => Metric::ExpectedLatency,
            false => metric(routing).ok_or(Drop::Unsupported)?,
        };
        let key = Key {
            source,
            metric,
            group,
            two_ways,
        };
        let database = router.database();
        let view = View {
            own: self.own,
            topology: database.topology(),
            generation: database.generation(),
            membership: database.membership(),
            links,
            protects: self.protects,
        };
        Ok(self.trees.slot(now, key, is_urgent, view))
    }

    /// Returns true if a packet of a reliable flow of this node finds room on all branches of its group's tree: the
    /// slowest branch sets the pace, as long as it moves at all.
    pub(super) fn has_room(
        &mut self,
        now: Time,
        routing: Routing,
        flow: &FlowKey,
        (router, links): (&Router, &Links),
    ) -> bool {
        let of = (flow.source, flow.destination);
        let Ok(slot) = self.slot(now, of, routing, false, (router, links)) else {
            return true;
        };
        let mut branches = self.trees.at(slot).links(now);
        branches.all(|link| links.at(link).reliable.sender.room(flow) > 0)
    }

    /// Returns true if this node's clients in the group are to get these packets. They already have packets that this
    /// node itself has sealed.
    fn is_delivered_here(&self, group: NodeAddr, run: &Burst, router: &Router) -> bool {
        let header = Header::trusted(&run.segment(0)[CLEAR_BYTES..]);
        self.receives(group, router) && !(header.source() == self.own && has_seal(&header))
    }

    /// Decides on a packet to a multicast group that is new here and in time.
    pub(super) fn judge(
        &mut self,
        now: Time,
        packet: &mut [u8],
        (router, links): (&Router, &Links),
    ) -> Result<Verdict, Drop> {
        let mut header = Header::trusted(&mut *packet);
        let (source, group) = (header.source(), header.destination());
        let routing = header.class().routing;
        // Two trees are a stamp; any other extension belongs to a copy around a link, or to Scribe's tree.
        let is_around = header.has_extension() && routing != Routing::Stamped;
        if is_around && router.builder(group) == TreeBuilder::Scribe {
            return Ok(Verdict::Shared);
        }
        let ttl = header.ttl();
        if ttl <= 1 {
            return match self.receives(group, router) {
                true => Ok(Verdict::Members),
                false => Err(Drop::TtlExceeded),
            };
        }
        header.set_ttl(ttl - 1);
        let (lane, is_urgent) = (header.class().link, is_urgent(&header));
        let slot = self.slot(now, (source, group), routing, is_urgent, (router, links))?;
        Ok(match is_around {
            true => Verdict::Around(slot),
            false => Verdict::Group(slot, self.trees.at(slot).takes_second(lane, is_urgent)),
        })
    }

    /// Returns true if a link belongs to a group's tree, below this node, with a member behind it.
    pub(super) fn is_of_tree(&self, key: Key, edge: Edge, router: &Router) -> bool {
        let database = router.database();
        let topology = database.topology();
        let Some(tree) = self.trees.tree(key, database.generation()) else {
            return false;
        };
        let members = database.membership().receivers(key.group);
        let mut nodes = members.filter_map(|member| topology.index(member));
        nodes.any(|member| {
            let mut up = path(topology, tree, member);
            up.any(|taken| taken == edge)
                && (edge.from == self.own || up.any(|taken| taken.from == self.own))
        })
    }
}

impl Node {
    /// Announces news of the own groups, and takes in the announcements of other nodes. Called once per flush, after
    /// the node's certificate is in the database.
    pub(super) fn update_groups(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        self.groups.follow(now, &mut self.router, out);
        let as_whom = (self.handshakes.identity(), self.handshakes.network());
        let database = self.router.database_mut();
        self.groups.tell(now, as_whom, database, |key| {
            self.flood.on_record_accepted(key, None);
        });
        self.groups.follow_members(now, &mut self.router);
    }
}

/// Returns true if the packet has a deadline and is in the real-time lane: a node protects such packets automatically.
fn is_urgent<B: AsRef<[u8]>>(header: &Header<B>) -> bool {
    header.class().link == LinkProtocol::RealTime && header.remaining().duration().is_some()
}
