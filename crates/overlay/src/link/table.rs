//! The links of a node by index, by neighbour and by session; and which of them want attention.

use super::{Link, Made};
use base::{Duration, Map, NodeAddr, Time};
use wire::link::SessionIndex;

/// A link's place in the node's table. Links are not removed while the node runs: the link to a neighbour that has gone
/// is down. When the table is full, a link that was left long ago gives its place to a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkIndex(pub u16);

/// Maximum number of neighbours of one node: the number that its link-state record can name.
pub const MAX_LINKS: usize = wire::link_state::LINKS_MAX;
/// Places for links. Choice: twice the maximum, because links that were left may still be waited for. A node by which a
/// hundred others enter the network leaves as many links at once as it takes.
const PLACES: usize = 2 * MAX_LINKS;

/// Time after which a link that was left is forgotten, if its place is needed. Choice: longer than anything waits for a
/// link that is down, which is 5 s.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// All links of a node.
#[derive(Debug, Default)]
pub struct Links {
    links: Vec<Link>,
    by_peer: Map<NodeAddr, LinkIndex>,
    by_session: Map<SessionIndex, LinkIndex>,
    /// The last session looked up: bursts come from one neighbour.
    last: Option<(SessionIndex, LinkIndex)>,
    /// When each link needs attention; far away if never. The time moves with every packet in both directions, and
    /// there are few links. Checking all of them once per batch is cheaper than a queue, and no link is woken in vain.
    wake_at: Vec<Time>,
    /// Links whose timers or pending control may have changed in this batch.
    touched: Vec<LinkIndex>,
}

impl Links {
    /// Returns true if no link is up.
    pub(crate) fn are_down(&self) -> bool {
        self.iter().all(|(_, link)| !link.is_up())
    }

    /// Returns true if at least one link is up, and all links that are up run over streams.
    pub(crate) fn are_without_datagrams(&self) -> bool {
        let up = self.iter().filter(|(_, link)| link.is_up());
        let mut over_stream = up.map(|(_, link)| link.is_over_stream()).peekable();
        over_stream.peek().is_some() && over_stream.all(|it| it)
    }

    /// Returns true if the neighbour is one by which the node enters the network, and its address is configured.
    pub(crate) fn is_first(&self, of: NodeAddr) -> bool {
        let link = self.by_peer(of).map(|index| self.at(index));
        link.is_some_and(|link| link.made == Made::First && link.dial.is_some())
    }

    /// The link to `peer`.
    pub fn by_peer(&self, peer: NodeAddr) -> Option<LinkIndex> {
        self.by_peer.get(&peer).copied()
    }

    /// The link whose neighbour sends under `session`.
    #[inline]
    pub fn by_session(&mut self, session: SessionIndex) -> Option<LinkIndex> {
        match self.last {
            Some((last, index)) if last == session => Some(index),
            _ => {
                let index = *self.by_session.get(&session)?;
                self.last = Some((session, index));
                Some(index)
            }
        }
    }

    /// Returns true if the link to this node is up.
    pub(crate) fn is_up(&self, peer: NodeAddr) -> bool {
        self.by_peer(peer)
            .is_some_and(|index| self.at(index).is_up())
    }

    /// Returns true if there may be one more neighbour.
    pub(crate) fn has_room(&self) -> bool {
        self.links.iter().filter(|link| !link.is_left).count() < MAX_LINKS
    }

    /// Adds a link; `None` when there are too many.
    pub fn add(&mut self, link: Link) -> Option<LinkIndex> {
        if !self.has_room() {
            return None;
        }
        if self.links.len() >= PLACES {
            return self.replace(link);
        }
        let index = LinkIndex(self.links.len() as u16);
        self.by_peer.insert(link.peer, index);
        self.links.push(link);
        self.wake_at.push(Time::FAR);
        Some(index)
    }

    fn replace(&mut self, mut link: Link) -> Option<LinkIndex> {
        let gone = |old: &Link| {
            let is_idle = old.is_left && old.path.sessions.is_empty() && !old.touched;
            is_idle && link.since.since(old.since) >= FORGOTTEN_AFTER
        };
        let places = self.links.iter().enumerate();
        let (place, _) = places
            .filter(|(_, old)| gone(old))
            .min_by_key(|(_, old)| old.since)?;
        let index = LinkIndex(place as u16);
        core::mem::swap(&mut self.links[place], &mut link);
        self.by_peer.remove(&link.peer);
        self.by_peer.insert(self.links[place].peer, index);
        self.wake_at[place] = Time::FAR;
        Some(index)
    }

    /// Records that `session` is opened by the link at `index`.
    pub fn enter_session(&mut self, session: SessionIndex, index: LinkIndex) {
        self.by_session.insert(session, index);
    }

    /// Forgets a session.
    pub fn leave_session(&mut self, session: SessionIndex) {
        self.by_session.remove(&session);
        self.last = None;
    }

    /// The link at `index`.
    #[inline]
    pub fn at(&self, index: LinkIndex) -> &Link {
        &self.links[usize::from(index.0)]
    }

    /// The link at `index`.
    #[inline]
    pub fn at_mut(&mut self, index: LinkIndex) -> &mut Link {
        &mut self.links[usize::from(index.0)]
    }

    /// Returns all links with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (LinkIndex, &Link)> {
        self.links
            .iter()
            .enumerate()
            .map(|(i, link)| (LinkIndex(i as u16), link))
    }

    /// Returns all indices, without borrowing the links.
    pub fn indices(&self) -> impl Iterator<Item = LinkIndex> + use<> {
        (0..self.links.len() as u16).map(LinkIndex)
    }

    /// The link's timers or pending control may have changed: this flush looks at it.
    #[inline]
    pub fn touch(&mut self, index: LinkIndex) {
        let link = self.at_mut(index);
        if !link.touched {
            link.touched = true;
            self.touched.push(index);
        }
    }

    /// Removes and returns one of the links touched since the last flush.
    pub fn pop_touched(&mut self) -> Option<LinkIndex> {
        let index = self.touched.pop()?;
        self.at_mut(index).touched = false;
        Some(index)
    }

    /// Notes when the link needs attention next.
    pub fn schedule(&mut self, index: LinkIndex) {
        let at = self.at(index).next_timeout();
        self.wake_at[usize::from(index.0)] = at.unwrap_or(Time::FAR);
    }

    /// Returns a link whose timeout has come. The caller schedules it again.
    pub fn pop_due(&mut self, now: Time) -> Option<LinkIndex> {
        let (i, at) = self.first()?;
        if at > now {
            return None;
        }
        self.wake_at[i] = Time::FAR;
        Some(LinkIndex(i as u16))
    }

    /// When the next link needs attention.
    pub fn next_timeout(&self) -> Option<Time> {
        self.first().map(|(_, at)| at)
    }

    fn first(&self) -> Option<(usize, Time)> {
        let earliest = self.wake_at.iter().copied().enumerate();
        let (i, at) = earliest.min_by_key(|(_, at)| *at)?;
        (at < Time::FAR).then_some((i, at))
    }
}
