//! Groups at the node: joins of clients, what is told of them, and the way of packets.
//!
//! ```text
//!   clients ─▶ local ─▶ told in records            records ─▶ router ─▶ trees, keys, audits (once per flush)
//!   packet ─▶ judge_group ─▶ a slot of `trees`, or an edge of `shared` ─▶ branches, and clients here
//! ```
//! The room decides by its own state, the router and the links. What sends or delivers is the node's, in the files of
//! this directory: [`keys`] seals and opens, [`audit`] asks whether trees bring what is sent, [`shared`] follows the trees
//! that Scribe builds, [`reports`] and [`status`] tell how receivers fare.

use super::receive::{Verdict, drop_one, drop_some};
mod audit;
mod keys;
mod reports;
mod shared;
mod status;

pub use reports::REPORTS_PORT;

use self::keys::Keys;
use self::reports::Reporting;
use super::Node;
use super::ends::is_unsealed;
use super::metric;
use super::router::Router;
use crate::audit::GroupAudits;
use crate::detour::{Edge, path};
use crate::ends::has_seal;
use crate::event::{Drop, Event};
use crate::flow::FlowKey;
use crate::groups::{Change, Errand, Key, Local, Membership, Permit, Shared, Told, Trees, View};
use crate::link::{LinkIndex, Links};
use crate::link_state::{Database, OwnGroups};
use crate::request::{Operation, Options, Reply, RequestError};
use crate::settings::Settings;
use base::token_bucket::TokenBucket;
use base::{Burst, ClientId, Duration, Map, NodeAddr, Outbox, Time, VirtualPort};
use graph::Metric;
use secure::{Context, Identity, Network};
use wire::CLEAR_BYTES;
use wire::certificate::GroupRange;
use wire::data::{Header, LinkProtocol, Routing};
use wire::groups::{Setting, TreeBuilder, Ways};
use wire::ipc::Scheme;
use wire::record;

/// The least time between two editions of this node's groups: a client that joins a thousand
/// groups floods some records, not a thousand.
const OWN_GROUPS_SPACING: Duration = Duration::from_millis(20);

/// How often a client that sends to a group to which it may not is told so.
const REFUSED_AGAIN: Duration = Duration::from_secs(1);

/// A source may be ahead of its group's rate by so much: an encoder's burst.
const POLICED_BURST: Duration = Duration::from_millis(250);

/// Of so many it is remembered that they were told: beyond, all are forgotten, and are told once more.
const REFUSING_MAX: usize = 1_024;

/// The groups of a node.
pub(super) struct Groups {
    own: NodeAddr,
    /// The joins of this node's clients, and what its operator has set.
    local: Local,
    /// They are not told again before this moment.
    told_after: Time,
    /// Clients that were told within the last second that they may not send to a group, and when again.
    refusing: Map<(ClientId, NodeAddr), Time>,
    /// What this node's sources may still send, in bytes, by group, where the rate is set.
    policers: Map<NodeAddr, (u32, TokenBucket)>,
    trees: Trees,
    /// Packets with a deadline get a second way where it is of use.
    protects: bool,
    shared: Shared,
    /// The nodes to which copies of a packet go along a shared tree: kept for its memory alone.
    tree_ends: Vec<NodeAddr>,
    keys: Keys,
    reports: Reporting,
    /// Whether trees bring what is sent.
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

    /// A client joins a group.
    pub(super) fn join(
        &mut self,
        client: ClientId,
        (group, port): (NodeAddr, VirtualPort),
        router: &mut Router,
    ) -> Result<Reply, RequestError> {
        if !router.permits().may_receive(self.own, group) {
            return Err(RequestError::MayNotReceive { group });
        }
        let change = self
            .local
            .join(client, group, port, router.builder(group))?;
        self.on_own_change(group, change, router);
        Ok(Reply::Joined)
    }

    /// A client leaves a group.
    pub(super) fn leave(
        &mut self,
        client: ClientId,
        (group, port): (NodeAddr, VirtualPort),
        router: &mut Router,
    ) -> Result<Reply, RequestError> {
        let change = self.local.leave(client, group, port);
        self.on_own_change(group, change, router);
        Ok(Reply::Left)
    }

    /// A client is gone, and with it its joins.
    pub(super) fn close(&mut self, client: ClientId, router: &mut Router) {
        for group in self.local.close(client) {
            self.on_own_change(group, Change::Left, router);
        }
    }

    fn on_own_change(&mut self, group: NodeAddr, change: Change, router: &mut Router) {
        if change != Change::Nothing && group.is_anycast() {
            router.touch();
        }
        if change == Change::Left {
            self.keys.received.leave(group);
        }
        if group.is_multicast() && router.builder(group) == TreeBuilder::Scribe {
            match change {
                Change::Entered => self.shared.ask(Errand::Join(group)),
                Change::Left => self.shared.ask(Errand::Leave(group)),
                Change::Nothing => {}
            }
        }
    }

    /// Places for groups have become free since a client's join was refused for want of one.
    pub(super) fn take_has_places(&mut self) -> bool {
        self.local.take_has_places()
    }

    /// What Scribe is to do next.
    pub(super) fn next_errand(&mut self) -> Option<Errand> {
        self.shared.next_errand()
    }

    /// Takes in what Scribe says of its trees.
    pub(super) fn on_scribe(&mut self, now: Time, said: Operation) {
        match said {
            Operation::Edges {
                group,
                ends,
                has_parent,
                is_in_tree,
            } => self.shared.set_edges(group, (ends, has_parent), is_in_tree),
            Operation::Root { group, at } => self.shared.set_root(now, group, at),
            _ => self.shared.clear(),
        }
    }

    /// How a group is to be carried, or no more in a way of its own.
    pub(super) fn set(
        &mut self,
        unix_s: u64,
        (group, prefix): (NodeAddr, u8),
        setting: Option<Setting>,
        (identity, database): (&Identity, &Database),
    ) -> Result<Reply, RequestError> {
        if !wire::groups::is_group(group) {
            return Err(RequestError::NotAGroup);
        }
        match setting {
            None => drop(self.local.unset(group, prefix)),
            Some(setting) => {
                check_may_set(identity, group, prefix)?;
                // Above what anybody has said, and of two operators the later one.
                let known = database.membership().said_of(group, prefix);
                let above = known.map_or(0, |(_, known)| known.version.saturating_add(1));
                let version = above.max(unix_s as u32);
                self.local.set(Setting { version, ..setting })?;
            }
        }
        Ok(Reply::Done)
    }

    /// Who may send to a group and receive.
    pub(super) fn permit(
        &mut self,
        permit: Permit,
        identity: &Identity,
    ) -> Result<Reply, RequestError> {
        if !wire::groups::is_group(permit.group) {
            return Err(RequestError::NotAGroup);
        }
        if !permit.is_open() {
            check_may_set(identity, permit.group, permit.prefix)?;
        }
        self.local.permit(permit)?;
        Ok(Reply::Done)
    }

    /// This node has clients in the group, and may receive it.
    #[inline]
    pub(super) fn receives(&self, group: NodeAddr, router: &Router) -> bool {
        self.local.is_member(group) && router.permits().may_receive(self.own, group)
    }

    /// The member of an anycast group that is nearest by the metric; none without members in reach.
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

    /// A client of this node has sent to a group to which it may not: it is told so, but not for each packet.
    pub(super) fn refuse_sending(
        &mut self,
        now: Time,
        client: ClientId,
        group: NodeAddr,
    ) -> Result<(), RequestError> {
        let again = self.refusing.get(&(client, group));
        if again.is_some_and(|again| now < *again) {
            return Ok(());
        }
        if self.refusing.len() >= REFUSING_MAX {
            self.refusing.clear();
        }
        self.refusing.insert((client, group), now + REFUSED_AGAIN);
        Err(RequestError::MayNotSend { group })
    }

    /// A source here may send so many bytes to a group now. What it sends above the group's rate
    /// would take what was promised to others.
    pub(super) fn police(
        &mut self,
        now: Time,
        group: NodeAddr,
        bytes: usize,
        router: &Router,
    ) -> bool {
        let setting = router.database().membership().setting(group);
        let Some(kbps) = setting
            .map(|setting| setting.rate_kbps)
            .filter(|kbps| *kbps > 0)
        else {
            return true;
        };
        let rate = f64::from(kbps) * 125.0;
        let burst = rate * POLICED_BURST.as_secs_f64();
        let new = || (kbps, TokenBucket::new(rate, burst, now));
        let policer = self.policers.entry(group).or_insert_with(new);
        if policer.0 != kbps {
            *policer = new();
        }
        policer.1.try_take(now, bytes as f64)
    }

    /// What goes to a group is to be sealed.
    #[inline]
    pub(super) fn seals(&mut self, group: NodeAddr, router: &Router) -> bool {
        self.keys.seals(group, router)
    }

    /// Takes in what others tell. Called once per flush, after the node's certificate is in the database.
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

    /// The same of the members. After what is new of the own groups is told.
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

    /// Permits, settings or nodes have changed: any group may be concerned.
    fn on_all_changed(&mut self, now: Time) {
        self.audits.on_changed(None);
        self.keys.on_all_changed(now);
    }

    /// Settings have changed: groups go from one builder of trees to the other.
    fn sort(&mut self, router: &Router) {
        for (group, to) in self.local.sort(|group| router.builder(group)) {
            self.shared.ask(match to {
                TreeBuilder::Scribe => Errand::Join(group),
                TreeBuilder::LinkState => Errand::Leave(group),
            });
        }
        self.policers.clear();
    }

    /// Tells what is new of the own groups: `entered` hears of each record.
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

    /// A node is of the network no more.
    pub(super) fn on_revoked(&mut self, node: NodeAddr) {
        self.keys.own.on_revoked(node);
    }

    /// Packets of this node's own to a group that were sealed at `at` have not left to a neighbour.
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

    /// When something is due, and what. Reports wait for the housekeeping if nothing passes.
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

    /// The place of the way that packets from `source` to a group take from here.
    pub(super) fn slot(
        &mut self,
        now: Time,
        (source, group): (NodeAddr, NodeAddr),
        routing: Routing,
        is_urgent: bool,
        (router, links): (&Router, &Links),
    ) -> Result<u32, Drop> {
        // Of stamped packets only those get here that are to take two trees.
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

    /// A packet of a reliable flow of this node finds room on all branches of its group's tree: the slowest sets the
    /// pace, as long as it moves at all.
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

    /// This node's clients in the group are to get these packets. They have had those that it has sealed itself.
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
        // Two trees are a stamp; another extension is that of a copy around a link, or of Scribe's tree.
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

    /// A link is of a group's tree, below this node, with a member behind it.
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

/// What this node's certificate does not cover the others would ignore. That it says something no more is always
/// possible.
fn check_may_set(identity: &Identity, group: NodeAddr, prefix: u8) -> Result<(), RequestError> {
    let own = identity.certificate().fields();
    match GroupRange::new(group, prefix).is_ok_and(|range| own.may_set(range)) {
        true => Ok(()),
        false => Err(RequestError::MayNotSet { group, prefix }),
    }
}

impl Node {
    /// Tells what is new of the own groups, and takes in what others tell. Called once per flush,
    /// after the node's certificate is in the database.
    pub(super) fn update_groups(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        self.groups.follow(now, &mut self.router, out);
        let as_whom = (self.handshakes.identity(), self.handshakes.network());
        let database = self.router.database_mut();
        self.groups.tell(now, as_whom, database, |key| {
            self.flood.on_record_accepted(key, None);
        });
        self.groups.follow_members(now, &mut self.router);
    }

    /// Sends a run of opened packets to the branches of their group's tree, and to the group's
    /// clients here; with `takes_second`, also on the links of second ways. `came` is the link that they came by, none for
    /// packets of this node.
    pub(super) fn send_group(
        &mut self,
        now: Time,
        (slot, takes_second): (u32, bool),
        came: Option<LinkIndex>,
        run: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        let upstream = came.map(|link| self.links.at(link).peer);
        let slot = self.groups.trees.at_mut(slot);
        slot.count(now, upstream, run.segments() as u64, run.len() as u64);
        let key = slot.key;
        let group = key.group;
        let mut ways = core::mem::take(&mut self.ways);
        let links = &self.links;
        let is_open = |link: &LinkIndex| Some(*link) != came && links.at(*link).carries();
        ways.extend(slot.links(now).filter(is_open));
        let branches = ways.len();
        if takes_second {
            let longest = run.segment(0).len();
            for link in slot.second_links().iter().filter(|link| is_open(link)) {
                let way = links.at(*link);
                // Copies are no load for a path that has too much already.
                let brake = way.brake.as_ref();
                let is_free = brake.is_none_or(|brake| brake.allows_redundancy());
                let fits = longest <= usize::from(way.path.mtu.usable());
                if is_free && fits && !ways.contains(link) {
                    ways.push(*link);
                }
            }
        }
        let has_ways = slot.has_ways();
        slot.second_packets += ((ways.len() - branches) * run.segments()) as u64;
        let is_member = self.groups.is_delivered_here(group, &run, &self.router);
        let mut left = ways.len() + usize::from(is_member);
        if left == 0 && !self.groups.receives(group, &self.router) {
            let packets = run.segments() as u32;
            // The other way has come by here first, or this one ends at the neighbour that it came from.
            let reason = match has_ways {
                true => Drop::DeadEnd,
                false => Drop::NoMember,
            };
            drop_some(reason, packets, out);
        }
        // The branches first: for them the packet is not there yet. The last one gets the run.
        let mut run = Some(run);
        for (place, way) in ways.drain(..).enumerate() {
            left -= 1;
            let is_branch = place < branches;
            // Of two ways the other one is the way around.
            if !key.two_ways
                && is_branch
                && self.doubt.is_doubtful(now, self.links.at(way))
                && let Some(run) = &run
            {
                self.send_branch_around(now, (key, way), came, run, out);
            }
            if let Some(part) = share(&mut run, left == 0, out) {
                // A copy that finds no room is no packet that the tree has not brought.
                self.send_run(now, way, part, is_branch && came.is_none(), out);
            }
        }
        self.ways = ways;
        if is_member && let Some(part) = share(&mut run, true, out) {
            self.deliver_group(now, part, out);
        }
    }

    /// The clients who get what was sent to a group or anycast group and port, into `clients`; who
    /// has sent it from here is not among them.
    pub(super) fn receivers(&self, header: &Header<&[u8]>, clients: &mut Vec<ClientId>) {
        let (group, port) = (header.destination(), header.destination_port());
        let sender = match header.source() == self.addr {
            true => self
                .sockets
                .bound(header.source_port())
                .map(|(client, _)| client),
            false => None,
        };
        let all = self.groups.local.subscribers(group, port);
        if group.is_anycast() {
            // One is enough, and always the same.
            return clients.extend(all.take(1));
        }
        clients.extend(all.filter(|client| Some(*client) != sender));
    }

    /// Sends packets of this node to a group.
    pub(super) fn originate_to_group(
        &mut self,
        now: Time,
        packet: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        if !is_unsealed(&packet) {
            return self.send_to_group(now, packet, out);
        }
        let group = Header::trusted(&packet.bytes()[CLEAR_BYTES..]).destination();
        let mut packet = Some(packet);
        let own = match self.groups.receives(group, &self.router) {
            true => share(&mut packet, false, out),
            false => None,
        };
        if let Some(packet) = packet
            && let Some(sealed) = self.seal_to_group(now, group, packet, out)
        {
            let is_starved = !self.groups.audits.copied(group).is_empty();
            let copy = is_starved.then(|| out.pool().copy_burst(&sealed));
            self.send_to_group(now, sealed, out);
            if let Some(copy) = copy.flatten() {
                self.copy_to_starved(now, group, &copy, out);
            }
        }
        if let Some(own) = own {
            self.deliver_own(now, own, out);
        }
    }

    fn send_to_group(&mut self, now: Time, packet: Burst, out: &mut impl Outbox<Node>) {
        let header = Header::trusted(&packet.bytes()[CLEAR_BYTES..]);
        let (group, routing) = (header.destination(), header.class().routing);
        if header.has_extension() && routing != Routing::Stamped {
            return self.send_shared(now, true, packet, out);
        }
        let (lane, is_urgent) = (header.class().link, is_urgent(&header));
        let ways = (&self.router, &self.links);
        match self
            .groups
            .slot(now, (self.addr, group), routing, is_urgent, ways)
        {
            Ok(slot) => {
                let takes_second = self.groups.trees.at(slot).takes_second(lane, is_urgent);
                self.send_group(now, (slot, takes_second), None, packet, out);
            }
            Err(reason) => drop_one(reason, out),
        }
    }
}

/// Packets with a deadline in the real-time lane: those that a node protects by itself.
fn is_urgent<B: AsRef<[u8]>>(header: &Header<B>) -> bool {
    header.class().link == LinkProtocol::RealTime && header.remaining().duration().is_some()
}

/// What the group says of the options of who sends to it.
pub(super) fn follow_setting(membership: &Membership, group: NodeAddr, options: &mut Options) {
    if let Some(setting) = membership.setting(group) {
        let scheme = match setting.ways {
            Ways::Two => Some(Scheme::Disjoint),
            Ways::Auto | Ways::One | Ways::Targeted => options.scheme,
        };
        options.class = setting.class;
        if let Some(scheme) = scheme {
            *options = options.routed_by(scheme);
        }
        options.aim = setting.aim.or(options.aim);
        if setting.deadline_ms > 0 {
            options.deadline = Some(Duration::from_millis(setting.deadline_ms.into()));
        }
    }
}

/// A copy of the run for one who gets it, the run itself for the last.
fn share(run: &mut Option<Burst>, is_last: bool, out: &mut impl Outbox<Node>) -> Option<Burst> {
    if is_last {
        return run.take();
    }
    let whole = run.as_ref()?;
    let copy = out.pool().copy_burst(whole);
    if copy.is_none() {
        drop_some(Drop::NoBuffer, whole.segments() as u32, out);
    }
    copy
}
