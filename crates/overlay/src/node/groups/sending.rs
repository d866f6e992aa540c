//! The paths of packets to groups: to the branches of a tree, and to the group's clients here.

use super::is_urgent;
use crate::event::Drop;
use crate::link::LinkIndex;
use crate::node::Node;
use crate::node::ends::is_unsealed;
use crate::node::receive::{drop_one, drop_some};
use base::{Burst, ClientId, Outbox, Time};
use wire::CLEAR_BYTES;
use wire::data::{Header, Routing};

impl Node {
    /// Sends a run of opened packets to the branches of their group's tree, and to the group's clients here; with
    /// `takes_second`, also on the links of second ways. `came` is the link by which they arrived, `None` for packets
    /// of this node.
    pub(in crate::node) fn send_group(
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
                // Copies must not be added to a path that is already overloaded. On a silent link, which packets of the
                // tree still try, they would protect nobody.
                let is_free = way.is_up() && way.takes_redundancy();
                let fits = longest <= usize::from(way.path.mtu.usable());
                if is_free && fits && !ways.contains(link) {
                    ways.push(*link);
                }
            }
        }
        // No copy has come by another way to the node where packets begin.
        let has_ways = came.is_some() && slot.has_ways();
        slot.second_packets += ((ways.len() - branches) * run.segments()) as u64;
        let is_member = self.groups.is_delivered_here(group, &run, &self.router);
        let mut left = ways.len() + usize::from(is_member);
        if left == 0 && !self.groups.receives(group, &self.router) {
            let packets = run.segments() as u32;
            // The copy by the other way arrived here first, or this way ends at the neighbour from which the packet
            // came.
            let reason = match has_ways {
                true => Drop::DeadEnd,
                false => Drop::NoMember,
            };
            drop_some(reason, packets, out);
        }
        // The branches come first, because they do not have the packet yet. The last recipient gets the run itself.
        let mut run = Some(run);
        for (place, way) in ways.drain(..).enumerate() {
            left -= 1;
            let is_branch = place < branches;
            // With two ways, the other way is the way around.
            if !key.two_ways
                && is_branch
                && self.doubt.is_doubtful(now, self.links.at(way))
                && let Some(run) = &run
            {
                self.send_branch_around(now, (key, way), came, run, out);
            }
            if let Some(part) = share(&mut run, left == 0, out) {
                // A copy that finds no room is not a packet that the tree has failed to deliver.
                self.send_run(now, way, part, is_branch && came.is_none(), out);
            }
        }
        self.ways = ways;
        if is_member && let Some(part) = share(&mut run, true, out) {
            self.deliver_group(now, part, out);
        }
    }

    /// Adds to `clients` the clients that get what was sent to a group or anycast group and port, without the local
    /// sender.
    pub(in crate::node) fn receivers(&self, header: &Header<&[u8]>, clients: &mut Vec<ClientId>) {
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
            // The packet goes to one client, always to the same one.
            return clients.extend(all.take(1));
        }
        clients.extend(all.filter(|client| Some(*client) != sender));
    }

    /// Sends packets of this node to a group.
    pub(in crate::node) fn originate_to_group(
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

/// Returns a copy of the run for a recipient, or the run itself for the last one.
pub(super) fn share(
    run: &mut Option<Burst>,
    is_last: bool,
    out: &mut impl Outbox<Node>,
) -> Option<Burst> {
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
