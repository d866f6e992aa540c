//! Packets whose source has stamped their path: copies instead of one next hop.
//!
//! ```text
//!   judge_packet ── stamp good? new? in time? ──▶ ways on ──▶ none:    dead end
//!                                                             one:     as any packet
//!                                                             several: a copy of the run for each
//! ```
//!
//! A node keeps no state about stamps: each packet says what this node does with it. Two things ensure that copies end:
//! a subgraph has no cycle, and a packet that has already been here is a duplicate. The latter ends a flood.

use super::Node;
use super::receive::{Verdict, drop_one, drop_some};
use crate::event::Drop;
use crate::link::{LinkIndex, Links};
use base::{Burst, NodeAddr, Outbox, Time};
use wire::data::Header;
use wire::stamp::{BadStamp, Stamp};
use wire::{CLEAR_BYTES, HEADER_BYTES};

/// The link that a stamp names from here, or why no packet can take it.
enum Way {
    Open(LinkIndex),
    Down,
    Missing,
}

/// Returns the reason that is counted for a bad stamp.
impl From<BadStamp> for Drop {
    fn from(why: BadStamp) -> Drop {
        match why {
            BadStamp::Malformed(_) => Drop::StampMalformed,
            BadStamp::TooLong => Drop::StampTooLong,
            BadStamp::Loops => Drop::StampLoops,
        }
    }
}

/// Checks the stamp of a packet to `to` that `came` from a neighbour: this node and the link must be in it. The stamp
/// of a packet to a group must be two trees, and only a packet to a group may have that one.
pub(super) fn check(
    stamp: Option<&[u8]>,
    to: NodeAddr,
    own: NodeAddr,
    came: NodeAddr,
) -> Result<(), Drop> {
    match Stamp::parse(stamp.unwrap_or_default())? {
        Stamp::TwoTrees if to.is_multicast() => Ok(()),
        Stamp::Subgraph(_) | Stamp::Flooding if !to.is_node() => Err(Drop::Unsupported),
        Stamp::TwoTrees => Err(Drop::Unsupported),
        Stamp::Subgraph(graph) if !graph.has_link(came, own) => Err(Drop::StampStray),
        Stamp::Subgraph(_) | Stamp::Flooding => Ok(()),
    }
}

/// Returns true if the packet goes over every link. Each node must recognize such a packet, however many copies arrive.
pub(super) fn is_flood<B: AsRef<[u8]>>(header: &Header<B>) -> bool {
    let stamp = Stamp::parse(header.extension().unwrap_or_default());
    matches!(stamp, Ok(Stamp::Flooding))
}

impl Node {
    /// Decides where copies of a packet go.
    pub(super) fn judge_stamped(
        &self,
        header: &Header<&mut [u8]>,
        out: &mut impl Outbox<Node>,
    ) -> Result<Verdict, Drop> {
        let (mut first, mut open, mut reason) = (None, 0, Some(Drop::DeadEnd));
        let from = Some(self.links.at(self.came).peer);
        each_way(&self.links, self.addr, from, header, |way| match way {
            Way::Open(link) => {
                first.get_or_insert(link);
                open += 1;
            }
            Way::Down => reason = Some(Drop::LinkDown),
            Way::Missing => {
                reason = None;
                drop_one(Drop::StampNoLink, out);
            }
        });
        match (first, open) {
            (Some(link), 1) => Ok(Verdict::Forward(link)),
            (Some(_), _) => Ok(Verdict::Copies),
            (None, _) => reason.map_or(Ok(Verdict::Done), Err),
        }
    }

    /// Forwards a run of opened packets: a copy over each of the links that their stamps name. `came` is the link by
    /// which they arrived, `None` for packets of this node.
    pub(super) fn send_copies(
        &mut self,
        now: Time,
        came: Option<LinkIndex>,
        mut run: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        while !run.is_empty() {
            let alike = alike(&run);
            if alike == run.segments() {
                return self.copy_run(now, came, run, out);
            }
            let front = run.split_front(alike);
            self.copy_run(now, came, front, out);
        }
    }

    /// The same for a run with one stamp.
    fn copy_run(
        &mut self,
        now: Time,
        came: Option<LinkIndex>,
        run: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        let mut ways = core::mem::take(&mut self.ways);
        let header = Header::trusted(&run.segment(0)[CLEAR_BYTES..]);
        let from = came.map(|link| self.links.at(link).peer);
        each_way(&self.links, self.addr, from, &header, |way| {
            if let Way::Open(link) = way {
                ways.push(link);
            }
        });
        if let Some(last) = ways.pop() {
            for link in ways.drain(..) {
                match out.pool().copy_burst(&run) {
                    Some(copy) => self.send_run(now, link, copy, came.is_none(), out),
                    None => drop_some(Drop::NoBuffer, run.segments() as u32, out),
                }
            }
            self.send_run(now, last, run, came.is_none(), out);
        }
        self.ways = ways;
    }
}

/// Returns how many packets at the front of a run have the same stamp and source.
fn alike(run: &Burst) -> usize {
    let key = |i: usize| {
        let packet = &run.segment(i)[CLEAR_BYTES..];
        let header = Header::trusted(packet);
        (
            header.source(),
            &packet[HEADER_BYTES..header.payload_offset()],
        )
    };
    let first = key(0);
    (0..run.segments()).take_while(|&i| key(i) == first).count()
}

/// Calls `take` for each link that the packet's stamp names from here, except for the way back.
fn each_way<B: AsRef<[u8]>>(
    links: &Links,
    own: NodeAddr,
    came: Option<NodeAddr>,
    header: &Header<B>,
    mut take: impl FnMut(Way),
) {
    let source = header.source();
    let is_back = |to: NodeAddr| Some(to) == came || to == source;
    match Stamp::parse(header.extension().unwrap_or_default()) {
        Ok(Stamp::Subgraph(graph)) => {
            for to in graph.next(own).filter(|to| !is_back(*to)) {
                take(match links.by_peer(to) {
                    Some(index) if links.at(index).carries() => Way::Open(index),
                    Some(_) => Way::Down,
                    None => Way::Missing,
                });
            }
        }
        Ok(Stamp::Flooding) => {
            let up = links.iter().filter(|(_, link)| link.carries());
            for (index, _) in up.filter(|(_, link)| !is_back(link.peer)) {
                take(Way::Open(index));
            }
        }
        // For a group's packets, the trees decide.
        Ok(Stamp::TwoTrees) | Err(_) => {}
    }
}
