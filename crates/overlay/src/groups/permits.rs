//! Permits to send to a group and to receive from it.
//!
//! ```text
//!   permits of any node ──flooding──▶ said ──┐
//!   certificates: rights, names, domains ────┴──▶ limits: range, addresses ──▶ may this node?
//! ```
//! A permit is valid only if the certificate of the node that announces it covers its groups.
//!
//! A word of a permit names nodes by the content of certificates ([`Pattern`]): no node can name itself.
//!
//! All valid permits for a group apply together, including those for a range of groups: each narrows the set of nodes,
//! and none widens what another has narrowed. `// Choice:` this, and not the highest version as for settings: if two
//! operators may both set a group, one cannot let in a node that the other keeps out.
//!
//! Every node that a packet passes checks the permits, so that a node that disobeys gets no farther than its
//! neighbours. A node whose certificate is not known yet is named only by its address.

use super::membership::may_set;
use base::NodeAddr;
use std::collections::{BTreeMap, BTreeSet};
use wire::bytes::Writer;
use wire::certificate::{Certificate, Pattern};
use wire::groups::{self, ITEMS_BYTES_MAX, Words, mask};
use wire::record::RecordKind;

/// The nodes that may send to a group or a range of groups, and those that may receive, as a node announces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    /// The group, or the first of a range.
    pub group: NodeAddr,
    /// The number of bits that the groups of a range have in common; 32 for one group.
    pub prefix: u8,
    /// Words for the nodes that may send; `None` for everybody.
    pub send: Option<Vec<String>>,
    /// Words for the nodes that may receive; `None` for everybody.
    pub receive: Option<Vec<String>>,
}

impl Permit {
    /// Returns true if the permit forbids nothing.
    pub fn is_open(&self) -> bool {
        self.send.is_none() && self.receive.is_none()
    }

    fn covers(&self, group: NodeAddr) -> bool {
        group.0 & mask(self.prefix) == self.group.0
    }

    fn of(permit: &groups::Permit<'_>) -> Permit {
        let words =
            |words: Option<Words<'_>>| Some(words?.iter().map(str::to_owned).collect::<Vec<_>>());
        Permit {
            group: permit.group,
            prefix: permit.prefix,
            send: words(permit.send),
            receive: words(permit.receive),
        }
    }
}

/// Returns permits in the format of a record; `None` if they do not fit into `room` bytes.
pub(crate) fn written(permits: &[Permit], room: usize) -> Option<Vec<u8>> {
    let mut bytes = [0; ITEMS_BYTES_MAX];
    let mut w = Writer::new(&mut bytes);
    for permit in permits {
        let range = (permit.group, permit.prefix);
        let (send, receive) = (permit.send.as_deref(), permit.receive.as_deref());
        groups::Permit::write(&mut w, range, send, receive).ok()?;
    }
    (w.len() <= room).then(|| w.written().to_vec())
}

/// The nodes that a permit names, as addresses.
#[derive(Clone, Debug)]
struct Limit {
    group: NodeAddr,
    prefix: u8,
    send: Option<BTreeSet<NodeAddr>>,
    receive: Option<BTreeSet<NodeAddr>>,
}

/// All permits of the network. No group is limited until a node announces a permit.
#[derive(Clone, Debug, Default)]
pub struct Permits {
    /// Permits by the node that announces them and the record that contains them.
    said: BTreeMap<(NodeAddr, RecordKind), Vec<Permit>>,
    limits: Vec<Limit>,
    /// Permits of nodes that may not announce them: the node, and the group or range.
    ignored: BTreeSet<(NodeAddr, (NodeAddr, u8))>,
    is_stale: bool,
}

impl Permits {
    /// Returns true if the node may send to the group.
    #[inline]
    pub fn may_send(&self, node: NodeAddr, group: NodeAddr) -> bool {
        self.all(group, node, |limit| limit.send.as_ref())
    }

    /// Returns true if the node may receive what is sent to the group.
    #[inline]
    pub fn may_receive(&self, node: NodeAddr, group: NodeAddr) -> bool {
        self.all(group, node, |limit| limit.receive.as_ref())
    }

    #[inline]
    fn all(
        &self,
        group: NodeAddr,
        node: NodeAddr,
        named: impl Fn(&Limit) -> Option<&BTreeSet<NodeAddr>>,
    ) -> bool {
        let of = |limit: &&Limit| group.0 & mask(limit.prefix) == limit.group.0;
        let limits = self.limits.iter().filter(of);
        limits.filter_map(named).all(|nodes| nodes.contains(&node))
    }

    /// Returns the valid permits of a group, with the nodes that announce them.
    pub fn said(&self, group: NodeAddr) -> impl Iterator<Item = (NodeAddr, &Permit)> {
        let said = self.said.iter();
        let said = said.flat_map(|((who, _), permits)| permits.iter().map(|one| (*who, one)));
        let counts = |who, one: &Permit| !self.ignored.contains(&(who, (one.group, one.prefix)));
        said.filter(move |(who, permit)| permit.covers(group) && counts(*who, permit))
    }

    /// Returns the permits that are invalid because the nodes that announce them have no right to do so: the node, and
    /// the group or range.
    pub fn ignored(&self) -> impl Iterator<Item = (NodeAddr, (NodeAddr, u8))> + '_ {
        self.ignored.iter().copied()
    }

    /// Returns the groups and ranges to which permits apply.
    pub fn groups(&self) -> impl Iterator<Item = NodeAddr> + '_ {
        self.limits.iter().map(|limit| limit.group)
    }

    /// Takes in the permits that a node's record now contains.
    pub(super) fn follow<'a>(
        &mut self,
        of: (NodeAddr, RecordKind),
        permits: impl Iterator<Item = groups::Permit<'a>>,
    ) {
        let permits: Vec<Permit> = permits.map(|permit| Permit::of(&permit)).collect();
        let before = match permits.is_empty() {
            true => self.said.remove(&of).unwrap_or_default(),
            false => self.said.insert(of, permits).unwrap_or_default(),
        };
        let now = self.said.get(&of).map_or(&[][..], Vec::as_slice);
        self.is_stale |= before != now;
    }

    /// A certificate has arrived or gone: names may now belong to other nodes.
    pub(crate) fn on_names_changed(&mut self) {
        self.is_stale |= !self.said.is_empty();
    }

    /// Returns true if something has changed since [`Permits::settle`].
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Finds out which nodes the words name.
    pub(crate) fn settle(&mut self, certificates: &[Certificate<'_>]) {
        self.is_stale = false;
        let of: BTreeMap<NodeAddr, &Certificate<'_>> = certificates
            .iter()
            .map(|certificate| (certificate.subject.address, certificate))
            .collect();
        let said = self.said.iter();
        let said = said.flat_map(|((who, _), permits)| permits.iter().map(|one| (*who, one)));
        let (counted, ignored): (Vec<_>, Vec<_>) =
            said.partition(|(who, one)| may_set(of.get(who).copied(), (one.group, one.prefix)));
        let named = |words: &Option<Vec<String>>| {
            let words = words.as_ref()?;
            let nodes = words.iter().flat_map(|word| named(word, certificates));
            Some(nodes.collect::<BTreeSet<_>>())
        };
        let limits = counted.into_iter().map(|(_, permit)| Limit {
            group: permit.group,
            prefix: permit.prefix,
            send: named(&permit.send),
            receive: named(&permit.receive),
        });
        let limits = limits.collect();
        let ignored = ignored.into_iter();
        self.ignored = ignored
            .map(|(who, one)| (who, (one.group, one.prefix)))
            .collect();
        self.limits = limits;
    }
}

/// Returns the nodes that a word names.
fn named<'a>(
    word: &'a str,
    certificates: &'a [Certificate<'a>],
) -> impl Iterator<Item = NodeAddr> + 'a {
    let pattern = Pattern::heard(word);
    let address = match pattern {
        Pattern::Address(address) => Some(address),
        _ => None,
    };
    let named = certificates.iter().filter(move |it| pattern.names(it));
    // An address names its node before its certificate is known.
    address
        .into_iter()
        .chain(named.map(|certificate| certificate.subject.address))
}

#[cfg(test)]
mod tests;
