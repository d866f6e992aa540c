//! The link-state database: what every node reports about its links, and the graph that follows from it.
//! [Amir06 §III-A]
//!
//! ```text
//!   record from a neighbour
//!      |  format  ->  newer than ours?  ->  signature (the caller's)  ->  stored
//!      v                                                                    |
//!   Verdict: what flooding has to do                     two-way edges -> Topology, generation
//! ```
//!
//! A record has a kind, an origin and a sequence number; the highest number wins. Only the origin can sign it, so a
//! node is believed only about its own end of a link. An edge counts when both ends report it, each with the cost of
//! the direction in which it sends.
//!
//! Records grow old while they travel and while they are held; the origin renews its own at a third of the lifetime. No
//! node deletes the record of a node that has gone: its neighbours stop reporting their links to it, so no route leads
//! there, and its record ends by age.
//!
//! A record in this node's own name that it did not make is from before a restart: the node continues with a higher
//! number.
//!
//! | kind | origin | number | ends |
//! |---|---|---|---|
//! | link state | the node | counted by it | at its lifetime |
//! | groups, in parts | the node | counted by it | at its lifetime |
//! | certificate | the node | its serial; one of a newer root wins against all of older ones | an hour after the node's last link state |
//! | revocations | the number of the root that signed: 0 for the first | its version | with the first list of a later root |
//! | succession | the number of the new root | 1 | never |

mod claim;
mod doubt;
mod edges;
mod groups;
mod own;
mod pending;
mod usable;

pub use claim::{Claim, Judgement, Reason, Verdict};
pub(crate) use edges::Followed;
pub use groups::OwnGroups;
pub use own::{LIFETIME_S, Origination};
pub use pending::MAX_PENDING;
use pending::Pending;
pub use usable::Told;

use crate::groups::Membership;
use crate::link::LinkIndex;
use base::{Duration, Map, NodeAddr, Time};
use graph::{Change, Parameters, Topology};
use std::collections::{BTreeMap, BTreeSet};
use wire::link_state::{Link, Protection};
use wire::record::{Key, Record, RecordKind, RecordSeq};

/// Maximum number of nodes of one network. "Tens to hundreds of nodes" [Amir06 §III]; with 1024 of them a database
/// holds at most 1024 · (1200 + 1200) bytes of records, 2.4 MB.
pub const MAX_ORIGINS: usize = 1_024;
/// How long a certificate is kept after the last link state of its origin: a node that comes back
/// within an hour need not be introduced again.
const CERTIFICATE_LINGERS_S: u16 = 3_600;

/// The subject of a record, whatever its edition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// The kind of record.
    pub kind: RecordKind,
    /// The node that the record is about.
    pub origin: NodeAddr,
}

impl Name {
    /// The name without the edition.
    pub const fn of(key: Key) -> Name {
        Name {
            kind: key.kind,
            origin: key.origin,
        }
    }

    /// Returns the name of an edition.
    pub const fn at(self, seq: RecordSeq) -> Key {
        Key {
            kind: self.kind,
            origin: self.origin,
            seq,
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    seq: RecordSeq,
    body: Box<[u8]>,
    /// The age that the record had when it was stored at `stored`.
    age_s: u16,
    stored: Time,
    lifetime_s: u16,
    /// The links of a link-state record.
    links: Vec<Link>,
    /// Neighbours whose packets the origin loses at present, if it watches that.
    alarms: Option<Box<[NodeAddr]>>,
    /// How the lanes of its links are protected, link by link; empty if the record does not report it.
    protections: Box<[Protection]>,
    /// How often the origin requests a lost packet; 0 if the record does not report it.
    strikes: u8,
    /// The version of the program that the origin runs, if the record reports it.
    version: Option<Box<str>>,
    /// The root under which a certificate was signed.
    root: u8,
}

impl Entry {
    /// Returns the rank by which the later of two certificates of one node is recognized.
    fn rank(&self) -> (u8, RecordSeq, &[u8]) {
        (self.root, self.seq, &self.body)
    }

    fn age_s(&self, now: Time) -> u16 {
        let held_s = now.since(self.stored).as_millis() / 1_000;
        self.age_s
            .saturating_add(u16::try_from(held_s).unwrap_or(u16::MAX))
    }
}

/// All records that a node holds, and what follows from them.
#[derive(Clone, Debug)]
pub struct Database {
    own: NodeAddr,
    own_seq: RecordSeq,
    /// Wall time at [`Time::ZERO`], in seconds since 1970.
    unix_start_s: u64,
    refresh_at: Time,
    own_groups: groups::OwnParts,
    membership: Membership,
    entries: BTreeMap<Name, Entry>,
    pending: Vec<Pending>,
    topology: Topology,
    /// Links that carry shorter datagrams than others, and the smallest of these lengths.
    usable: BTreeMap<(NodeAddr, NodeAddr), u16>,
    least_usable: u16,
    /// The links in front of which queues drop packets, as their senders report.
    queued: BTreeSet<(NodeAddr, NodeAddr)>,
    /// Nodes that seal from end to end, and the number that distinguishes their present start from earlier ones.
    sealers: Map<NodeAddr, u32>,
    /// Nodes that answer how many packets they have opened.
    tellers: BTreeSet<NodeAddr>,
    /// Nodes that answer how many packets to groups have arrived at them.
    group_tellers: BTreeSet<NodeAddr>,
    /// Nodes that open packets sealed for groups.
    key_holders: BTreeSet<NodeAddr>,
    key_holders_changed: Option<bool>,
    /// Further reports about links, if there are any.
    told: BTreeMap<(NodeAddr, NodeAddr), Told>,
    /// The roles of nodes in bulk data, as they report them.
    bulk: BTreeMap<NodeAddr, wire::link_state::Bulk>,
    /// The addresses at which neighbours of nodes see them.
    endpoints: BTreeMap<NodeAddr, Vec<wire::Endpoint>>,
    hosts: BTreeMap<NodeAddr, Vec<wire::Endpoint>>,
    /// Nodes that offer themselves as neighbours, and the neighbours to which they keep the links.
    offers: BTreeMap<NodeAddr, Vec<NodeAddr>>,
    /// Nodes that some neighbour does not hear: at most as many as have reported their links.
    doubts: BTreeMap<NodeAddr, doubt::Doubt>,
    doubt_after: Duration,
    is_denial_due: bool,
    changes: Vec<Change>,
    rebuilt: bool,
    generation: u64,
}

impl Database {
    /// The empty database of the node `own`, with the paper's parameters of expected latency.
    pub fn new(own: NodeAddr) -> Database {
        Database::with_parameters(own, Parameters::default())
    }

    /// The empty database of the node `own`.
    pub fn with_parameters(own: NodeAddr, parameters: Parameters) -> Database {
        Database {
            own,
            own_seq: RecordSeq(0),
            unix_start_s: 0,
            refresh_at: Time::ZERO,
            own_groups: groups::OwnParts::default(),
            membership: Membership::default(),
            entries: BTreeMap::new(),
            pending: Vec::new(),
            topology: Topology::new(parameters),
            usable: BTreeMap::new(),
            least_usable: crate::mtu::DEFAULT,
            queued: BTreeSet::new(),
            sealers: Map::default(),
            tellers: BTreeSet::new(),
            group_tellers: BTreeSet::new(),
            key_holders: BTreeSet::new(),
            key_holders_changed: None,
            told: BTreeMap::new(),
            bulk: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            hosts: BTreeMap::new(),
            offers: BTreeMap::new(),
            doubts: BTreeMap::new(),
            doubt_after: Duration::from_millis(300),
            is_denial_due: false,
            changes: Vec::new(),
            rebuilt: false,
            generation: 0,
        }
    }

    /// Wall time at [`Time::ZERO`], in seconds since 1970: own records are numbered by it.
    pub fn set_clock(&mut self, unix_start_s: u64) {
        self.unix_start_s = unix_start_s;
    }

    /// Judges a record that arrived over the link `from`, and stores it if it is news. `verify` is called for news
    /// only, so that a signature is checked once per record and node.
    pub fn on_record(
        &mut self,
        now: Time,
        from: LinkIndex,
        record: &Record<'_>,
        verify: impl FnOnce(&Claim<'_>) -> Judgement,
    ) -> Verdict {
        let claim = match Claim::parse(record.kind, record.body) {
            Ok(claim) => claim,
            Err(why) => return Verdict::dropped(None, Reason::Malformed(why)),
        };
        let key = claim.key();
        let age_s = match is_of_root(key.kind) {
            // A node of an earlier version reports how long it has held the record.
            true => 0,
            false => self.age_at_most(now, key, record.age_s),
        };
        let record = &Record { age_s, ..*record };
        if let Some(verdict) = self.without_verification(now, key, record, &claim) {
            if matches!(verdict, Verdict::Known(_)) {
                self.follow_age(now, key, record);
            }
            return verdict;
        }
        let mut root = 0;
        match verify(&claim) {
            Judgement::Good => {}
            Judgement::Certified(under) => root = under,
            Judgement::Outdated => {
                return match self.entries.get(&Name::of(key)) {
                    Some(held) => Verdict::Stale(Name::of(key).at(held.seq)),
                    None => Verdict::dropped(Some(key), Reason::Refused),
                };
            }
            Judgement::Refused => return Verdict::dropped(Some(key), Reason::Refused),
            Judgement::Rival(root) => return Verdict::dropped(Some(key), Reason::Rival(root)),
            Judgement::NoCertificate => return self.hold_back(now, from, record),
            Judgement::TooMany => return Verdict::dropped(None, Reason::TooMany),
        }
        if Name::of(key) == self.own_name() {
            self.own_seq = key.seq;
            self.refresh_at = now;
            return Verdict::Own(key);
        }
        if self.is_own_groups(Name::of(key)) {
            self.own_groups.on_earlier(now, key);
            return Verdict::Own(key);
        }
        if key.kind == RecordKind::CERTIFICATE
            && let Some(held) = self.entries.get(&Name::of(key))
            && (root, key.seq, record.body) < held.rank()
        {
            return Verdict::Stale(Name::of(key).at(held.seq));
        }
        self.store(now, key, record.age_s, &claim, record.body);
        self.note_root(key, root);
        Verdict::Accepted(key)
    }

    /// Notes that a certificate was stored that was signed under this root.
    fn note_root(&mut self, key: Key, root: u8) {
        if let Some(entry) = self.entries.get_mut(&Name::of(key)) {
            entry.root = root;
        }
    }

    /// Removes records that have grown too old. Returns true if any were removed. Call it about once per second.
    pub fn expire(&mut self, now: Time) -> bool {
        self.forget_pending(now);
        let own = self.own;
        for name in self.names_of(RecordKind::CERTIFICATE) {
            let accompanied = name.origin == own || self.link_state_of(name.origin).is_some();
            if let (true, Some(entry)) = (accompanied, self.entries.get_mut(&name)) {
                (entry.age_s, entry.stored) = (0, now);
            }
        }
        let old: Vec<Name> = self
            .entries
            .iter()
            .filter(|(name, entry)| {
                name.origin != own && !is_of_root(name.kind) && entry.age_s(now) >= entry.lifetime_s
            })
            .map(|(name, _)| *name)
            .collect();
        for &name in &old {
            self.remove(name);
        }
        !old.is_empty()
    }

    /// Removes the records of a node whose certificate has been revoked.
    pub fn remove_origin(&mut self, origin: NodeAddr) {
        self.forget_words_of(origin);
        self.remove(Name {
            kind: RecordKind::CERTIFICATE,
            origin,
        });
    }

    /// Forgets what a node has reported under a key that it no longer has.
    pub fn forget_words_of(&mut self, origin: NodeAddr) {
        let parts = (0..wire::groups::PARTS as u8).filter_map(RecordKind::groups);
        for kind in [RecordKind::LINK_STATE].into_iter().chain(parts) {
            self.remove(Name { kind, origin });
        }
    }

    /// Removes the lists of revocations of the roots before this one: the list of this root is in force.
    pub fn forget_lists_before(&mut self, root: u8) {
        for before in 0..root {
            self.remove(Name {
                kind: claim::list_kind(before),
                origin: NodeAddr(u32::from(before)),
            });
        }
    }

    /// Returns a record as it is to be sent, with its present age.
    pub fn record(&self, now: Time, name: Name) -> Option<(RecordSeq, Record<'_>)> {
        let entry = self.entries.get(&name)?;
        let record = Record {
            kind: name.kind,
            // After 18 hours, a node of an earlier version would drop it as too old, and confirm it.
            age_s: match is_of_root(name.kind) {
                true => 0,
                false => entry.age_s(now),
            },
            body: &entry.body,
        };
        Some((entry.seq, record))
    }

    /// Returns the editions of all records, link state first.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = Key> + '_ {
        self.entries.iter().map(|(name, entry)| name.at(entry.seq))
    }

    /// Returns the body of the certificate of a node, if it is known.
    pub fn certificate(&self, of: NodeAddr) -> Option<&[u8]> {
        let name = Name {
            kind: RecordKind::CERTIFICATE,
            origin: of,
        };
        self.entries.get(&name).map(|entry| &*entry.body)
    }

    /// Returns the links that a node reports.
    pub fn links_of(&self, node: NodeAddr) -> Option<&[Link]> {
        self.link_state_of(node).map(|entry| entry.links.as_slice())
    }

    /// Returns how many of these nodes name each node as a neighbour. A node that names another several times counts
    /// once.
    pub fn times_named(&self, by: impl Fn(NodeAddr) -> bool) -> BTreeMap<NodeAddr, usize> {
        let mut times = BTreeMap::new();
        for node in self.nodes().filter(|node| by(*node)) {
            let links = self.links_of(node).unwrap_or_default();
            let mut named: Vec<NodeAddr> = links.iter().map(|link| link.neighbor).collect();
            named.sort_unstable();
            named.dedup();
            for neighbor in named {
                *times.entry(neighbor).or_default() += 1;
            }
        }
        times
    }

    /// Returns the version of the program that a node runs, if the node reports it.
    pub fn version_of(&self, node: NodeAddr) -> Option<&str> {
        self.link_state_of(node)?.version.as_deref()
    }

    /// Returns the nodes that have reported their links.
    pub fn nodes(&self) -> impl Iterator<Item = NodeAddr> + '_ {
        self.entries
            .keys()
            .filter(|name| name.kind == RecordKind::LINK_STATE)
            .map(|name| name.origin)
    }

    /// Returns how many nodes have reported their links.
    pub fn len(&self) -> usize {
        self.nodes().count()
    }

    /// Returns true if no node has reported its links.
    pub fn is_empty(&self) -> bool {
        self.nodes().next().is_none()
    }

    /// Returns which nodes are in which group.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// The same, for a caller that follows the changes.
    pub fn membership_mut(&mut self) -> &mut Membership {
        &mut self.membership
    }

    /// The graph of the edges that both of their ends report.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Changes with the topology, and with nothing else.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the verdict on a record that needs no check of its signature.
    fn without_verification(
        &self,
        now: Time,
        key: Key,
        record: &Record<'_>,
        claim: &Claim<'_>,
    ) -> Option<Verdict> {
        let name = Name::of(key);
        let held = self.entries.get(&name);
        let is_groups = self.is_own_groups(name);
        if is_groups || name == self.own_name() {
            let own_seq = match is_groups {
                true => self.own_groups.seq(name.kind),
                false => self.own_seq,
            };
            return match held {
                Some(own) if key.seq < own_seq => Some(Verdict::Stale(name.at(own.seq))),
                Some(own) if key.seq == own_seq && *own.body == *record.body => {
                    Some(Verdict::Known(key))
                }
                _ => None,
            };
        }
        match held {
            Some(held) if key.seq == held.seq && *held.body == *record.body => {
                return Some(Verdict::Known(key));
            }
            // Another record of the same root: refused, and counted, once it is verified.
            Some(_) if name.kind == RecordKind::SUCCESSION => {}
            // An attacker who has stolen an old root key can write any serial. The root takes precedence over the
            // serial, and only a check of the signature shows which root it is.
            Some(_) if name.kind == RecordKind::CERTIFICATE => {}
            // Choice: an origin that has lost its state can make two records with one number. All nodes then take the
            // same one of the two. If that is not the origin's own, the origin learns of it and continues with a higher
            // number.
            Some(held) if (key.seq, record.body) < (held.seq, &*held.body) => {
                return Some(Verdict::Stale(name.at(held.seq)));
            }
            Some(_) => {}
            None if self.count(name.kind) >= MAX_ORIGINS => {
                return Some(Verdict::dropped(None, Reason::Full));
            }
            None => {}
        }
        let old = record.age_s >= self.lifetime_s(now, claim);
        old.then(|| Verdict::dropped(Some(key), Reason::Expired))
    }

    fn lifetime_s(&self, _now: Time, claim: &Claim<'_>) -> u16 {
        match claim {
            Claim::LinkState(state) => state.lifetime_s,
            Claim::Groups(groups) => groups.lifetime_s,
            Claim::Certificate { certificate, .. } => {
                match self.link_state_of(certificate.subject.address) {
                    // The lifetime counts from the node's last link state, and that is present.
                    Some(_) => u16::MAX,
                    None => CERTIFICATE_LINGERS_S,
                }
            }
            Claim::Revocations { .. } | Claim::Succession(_) => u16::MAX,
        }
    }

    fn store(&mut self, now: Time, key: Key, age_s: u16, claim: &Claim<'_>, body: &[u8]) {
        let (lifetime_s, links): (u16, Vec<Link>) = match claim {
            Claim::LinkState(state) => (state.lifetime_s, state.links().collect()),
            Claim::Groups(groups) => (groups.lifetime_s, Vec::new()),
            Claim::Certificate { .. } => (CERTIFICATE_LINGERS_S, Vec::new()),
            Claim::Revocations { .. } | Claim::Succession(_) => (u16::MAX, Vec::new()),
        };
        let entry = Entry {
            seq: key.seq,
            body: body.into(),
            age_s,
            stored: now,
            lifetime_s,
            alarms: match claim {
                Claim::LinkState(state) => state.alarms().map(|places| {
                    let neighbors = places.map(|place| links[place].neighbor);
                    neighbors.collect()
                }),
                _ => None,
            },
            links,
            protections: match claim {
                Claim::LinkState(state) => state.protections().into_iter().flatten().collect(),
                _ => Box::default(),
            },
            strikes: match claim {
                Claim::LinkState(state) => state.strikes,
                _ => 0,
            },
            version: match claim {
                Claim::LinkState(state) => state.version().map(Box::from),
                _ => None,
            },
            root: 0,
        };
        let before = self.entries.insert(Name::of(key), entry);
        if key.kind == RecordKind::LINK_STATE {
            let before = before.map_or_else(Vec::new, |entry| entry.links);
            // Whatever the record says, its origin has reported something.
            self.doubts.remove(&key.origin);
            self.follow_links(key.origin, &before);
            self.weigh_silences(now, key.origin, &before);
            if let Claim::LinkState(state) = claim {
                self.follow_options(key.origin, Some(state));
            }
        } else if let Claim::Groups(groups) = claim {
            let before = before.as_ref().map(|entry| &*entry.body);
            let certificate = certificate_of(&self.entries, key.origin);
            let certificate = certificate.as_ref();
            self.membership
                .follow(groups.key(), before, Some(groups), certificate);
        } else if let Claim::Certificate { certificate, .. } = claim {
            let node = certificate.subject.address;
            self.membership.on_certificate(node, Some(certificate));
        }
    }

    fn remove(&mut self, name: Name) {
        let gone = self.entries.remove(&name);
        if let Some(entry) = &gone
            && name.kind == RecordKind::LINK_STATE
        {
            self.doubts.remove(&name.origin);
            self.follow_links(name.origin, &entry.links);
            self.follow_options(name.origin, None);
            self.forget_silences(&entry.links);
        } else if let Some(part) = gone
            && name.kind.groups_part().is_some()
        {
            let key = name.at(part.seq);
            self.membership.follow(key, Some(&part.body), None, None);
        } else if name.kind == RecordKind::CERTIFICATE {
            self.membership.on_certificate(name.origin, None);
        }
    }

    fn link_state_of(&self, origin: NodeAddr) -> Option<&Entry> {
        self.entries.get(&Name {
            kind: RecordKind::LINK_STATE,
            origin,
        })
    }

    fn own_name(&self) -> Name {
        Name {
            kind: RecordKind::LINK_STATE,
            origin: self.own,
        }
    }

    fn names_of(&self, kind: RecordKind) -> Vec<Name> {
        let names = self.entries.keys().filter(|name| name.kind == kind);
        names.copied().collect()
    }

    fn count(&self, kind: RecordKind) -> usize {
        let (low, high) = (NodeAddr(0), NodeAddr(u32::MAX));
        let range = Name { kind, origin: low }..=Name { kind, origin: high };
        self.entries.range(range).count()
    }
}

/// Returns true if the root of the network has made the record: such a record does not grow old.
fn is_of_root(kind: RecordKind) -> bool {
    let kinds = [
        RecordKind::REVOCATIONS,
        RecordKind::LATER_REVOCATIONS,
        RecordKind::SUCCESSION,
    ];
    kinds.contains(&kind)
}

/// Returns the certificate of a node, if it is known.
fn certificate_of(
    entries: &BTreeMap<Name, Entry>,
    node: NodeAddr,
) -> Option<wire::certificate::Certificate<'_>> {
    let name = Name {
        kind: RecordKind::CERTIFICATE,
        origin: node,
    };
    wire::certificate::Certificate::parse(&entries.get(&name)?.body).ok()
}

#[cfg(test)]
pub(crate) mod tests;
