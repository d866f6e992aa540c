//! Keeps parents and children in step: one digest between two neighbors, however many groups they share.
//!
//! ```text
//!   child                                   parent
//!     |-- Keep (all, count, digest) --------->|   equal: both live, and agree on every group
//!     |<------------------------------ Kept --|
//!     |-- Keep (all, count, digest) --------->|   a Join or Leave was lost, or one restarted
//!     |<--------------------------- Differs --|
//!     |-- Keep (a sixteenth) … 16 times ----->|   until what differs fits in a page
//!     |<------------------- Kept, Differs … --|
//!     |-- Groups (a page) ------------------->|   takes and drops children until it agrees
//! ```

use super::Scribe;
use crate::event::Dropped;
use crate::outlet::Outlet;
use crate::tree::{Share, Tree};
use base::{NodeAddr, Time};
use wire::scribe::{ADDRESSES_MAX, Addresses, Digest, Message};

const FIRST: NodeAddr = NodeAddr(0);
const LAST: NodeAddr = NodeAddr(u32::MAX);
/// The number of parts into which a range is cut.
const PARTS: usize = 16;

fn is_all(digest: &Digest) -> bool {
    digest.first == FIRST && digest.last == LAST
}

fn digest(first: NodeAddr, last: NodeAddr, share: Share) -> Digest {
    Digest {
        first,
        last,
        count: share.count,
        digest: share.digest,
    }
}

impl Scribe {
    /// Sends a parent the digest of all groups with it.
    pub(super) fn keep(&mut self, parent: NodeAddr, out: &mut impl Outlet) {
        let share = self.peers.get(&parent).map_or(Share::default(), |p| p.up);
        self.say(parent, &Message::Keep(digest(FIRST, LAST, share)), out);
    }

    /// Asks a child which groups it shares, all of them.
    pub(super) fn ask_all(&mut self, child: NodeAddr, out: &mut impl Outlet) {
        let all = Message::Differs {
            first: FIRST,
            last: LAST,
        };
        self.say(child, &all, out);
    }

    pub(super) fn on_keep(
        &mut self,
        now: Time,
        from: NodeAddr,
        theirs: Digest,
        out: &mut impl Outlet,
    ) -> Result<(), Dropped> {
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.kept = now;
        }
        let mine = match self.peers.get_mut(&from) {
            None => Share::default(),
            Some(peer) if is_all(&theirs) => peer.down,
            Some(peer) => {
                let range = self.trees.range(theirs.first..=theirs.last);
                let mut visits = 0;
                let children = range.inspect(|_| visits += 1);
                let children = children.filter(|(_, tree)| tree.has_child(from));
                let share = Share::of(children.map(|(group, _)| *group));
                if !peer.pay(visits) {
                    return Err(Dropped::Flood);
                }
                share
            }
        };
        let answer = if (mine.count, mine.digest) == (theirs.count, theirs.digest) {
            Message::Kept(theirs)
        } else {
            Message::Differs {
                first: theirs.first,
                last: theirs.last,
            }
        };
        self.say(from, &answer, out);
        Ok(())
    }

    pub(super) fn on_kept(&mut self, from: NodeAddr, agreed: Digest) -> Result<(), Dropped> {
        let Some(peer) = self.peers.get_mut(&from) else {
            return Err(Dropped::Stale);
        };
        if is_all(&agreed) && (agreed.count, agreed.digest) == (peer.up.count, peer.up.digest) {
            // Any pending group is included in the digest that they agree on.
            peer.leaving = 0;
            let mut after = self.pending.split_off(&(from, FIRST));
            let mut rest = after.split_off(&(from, LAST));
            self.pending.append(&mut rest);
            for (_, group) in after {
                self.refused.remove(&group);
            }
        }
        Ok(())
    }

    pub(super) fn on_differs(
        &mut self,
        from: NodeAddr,
        first: NodeAddr,
        last: NodeAddr,
        out: &mut impl Outlet,
    ) -> Result<(), Dropped> {
        let Some(peer) = self.peers.get_mut(&from) else {
            // The sender still treats this node as its child, and is told that it has none.
            let groups = Addresses::new(&[]);
            let page = Message::Groups {
                first,
                last,
                groups,
            };
            self.say(from, &page, out);
            return Ok(());
        };
        let mut visits = 0;
        let range = self.trees.range(first..=last).inspect(|_| visits += 1);
        let shared = range.filter(|(_, tree)| tree.parent() == Some(from));
        let groups: Vec<NodeAddr> = shared.map(|(group, _)| *group).collect();
        if !peer.pay(visits) {
            return Err(Dropped::Flood);
        }
        if groups.len() <= ADDRESSES_MAX {
            let groups = Addresses::new(&groups);
            let page = Message::Groups {
                first,
                last,
                groups,
            };
            self.say(from, &page, out);
            return Ok(());
        }
        let part = groups.len().div_ceil(PARTS);
        let mut begin = first;
        for (i, chunk) in groups.chunks(part).enumerate() {
            // The parts leave no gaps, so that a group which only the parent has is in one of them.
            let end = match groups.get((i + 1) * part) {
                Some(next) => NodeAddr(next.0 - 1),
                None => last,
            };
            let share = Share::of(chunk.iter().copied());
            self.say(from, &Message::Keep(digest(begin, end, share)), out);
            begin = NodeAddr(end.0.wrapping_add(1));
        }
        Ok(())
    }

    pub(super) fn on_groups(
        &mut self,
        now: Time,
        from: NodeAddr,
        first: NodeAddr,
        last: NodeAddr,
        groups: Addresses<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), Dropped> {
        let peer = self.child_peer(now, from)?;
        peer.kept = now;
        if peer.down.count > 0 {
            let mut visits = 0;
            let listed: Vec<NodeAddr> = groups.iter().collect();
            let range = self.trees.range(first..=last).inspect(|_| visits += 1);
            let lost = |(group, tree): &(&NodeAddr, &Tree)| {
                tree.has_child(from) && listed.binary_search(group).is_err()
            };
            let lost: Vec<NodeAddr> = range.filter(lost).map(|(group, _)| *group).collect();
            let peer = self.peers.get_mut(&from);
            if !peer.is_some_and(|peer| peer.pay(visits)) {
                return Err(Dropped::Flood);
            }
            for group in lost {
                self.drop_child(now, from, group);
            }
        }
        self.take_children(now, from, groups.iter(), false, out);
        Ok(())
    }
}
