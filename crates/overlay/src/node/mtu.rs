//! Probes of the paths to the neighbours, and the consequences when one carries less, or more again.

use super::Node;
use super::receive::{drop_one, drop_some};
use crate::event::Drop;
use crate::link::{Link, LinkIndex, PathId, place_mut};
use crate::mtu::{DEFAULT, Probe, SHORT};
use base::{Outbox, Time, UnderlayAddr};
use wire::control::{Builder, MESSAGE_HEADER_BYTES, MtuAnswer, MtuProbe};
use wire::{CLEAR_BYTES, TAG_BYTES};

const _: () = assert!(DEFAULT as usize <= base::pool::SMALL_BYTES);

impl Node {
    /// Sends the probes of a link that are due.
    pub(super) fn probe_mtu(&mut self, now: Time, index: LinkIndex, out: &mut impl Outbox<Node>) {
        let link = self.links.at_mut(index);
        let before = link.path.mtu.usable();
        for place in 0..=link.spares.len() {
            link.probe_path(now, place.checked_sub(1), out);
        }
        self.on_mtu(index, before, out);
    }

    /// This host cannot send datagrams of this length to a neighbour in one piece.
    pub(super) fn on_too_long(
        &mut self,
        now: Time,
        to: UnderlayAddr,
        bytes: u16,
        out: &mut impl Outbox<Node>,
    ) {
        for index in self.links.indices() {
            let link = self.links.at_mut(index);
            let before = link.path.mtu.usable();
            let path = link.paths_mut().find(|path| path.leads_to(to));
            let is_of_link = path.map(|path| path.mtu.on_too_long(now, bytes)).is_some();
            if is_of_link {
                self.links.touch(index);
                self.on_mtu(index, before, out);
            }
        }
    }

    /// Answers a neighbour's probe, by the path on which it arrived. The answer is never longer than the probe.
    pub(super) fn answer_mtu(
        &mut self,
        now: Time,
        (index, path): (LinkIndex, PathId),
        MtuProbe { number, bytes }: MtuProbe,
        out: &mut impl Outbox<Node>,
    ) {
        let mut plaintext = [0; MESSAGE_HEADER_BYTES + MtuAnswer::BYTES];
        let mut builder = Builder::new(&mut plaintext);
        if builder.mtu_answer(MtuAnswer { number, bytes }).is_ok() {
            let link = self.links.at_mut(index);
            if bytes == SHORT
                && let Some(path) = link.path_of_mut(path)
            {
                path.forgive();
            }
            link.send_control_by(now, path, &plaintext, out);
        }
    }

    /// The link's MTU was `before` until now. If it has changed, others are notified, and packets of the reliable lane
    /// that no longer fit leave the lane. Their sources send them again, cut to the new length.
    pub(super) fn on_mtu(&mut self, index: LinkIndex, before: u16, out: &mut impl Outbox<Node>) {
        let link = self.links.at_mut(index);
        let usable = link.path.mtu.usable();
        if usable == before {
            return;
        }
        self.own_record.note();
        if usable > before || link.reliable.sender.is_empty() {
            return;
        }
        let (sender, mut packets) = (&mut link.reliable.sender, Vec::new());
        sender.give_up(|packet| packets.push(packet));
        let mut too_long = 0;
        for packet in packets {
            if CLEAR_BYTES + packet.bytes.len() + TAG_BYTES <= usize::from(usable) {
                sender.push_again(packet);
            } else {
                sender.recycle(packet);
                too_long += 1;
            }
        }
        self.links.touch(index);
        if too_long > 0 {
            drop_some(Drop::TooLong, too_long, out);
        }
    }
}

impl Link {
    /// Sends the probes that are due on a path: the spare in a place, or the path in use.
    fn probe_path(&mut self, now: Time, place: Option<usize>, out: &mut impl Outbox<Node>) {
        loop {
            let path = place_mut(&mut self.path, &mut self.spares, place);
            let (id, rtt) = (path.id, path.rtt());
            let probe = path.mtu.poll(now, rtt).filter(|_| path.is_up());
            let Some(Probe { number, bytes }) = probe else {
                return;
            };
            let mut plaintext = [0; DEFAULT as usize - CLEAR_BYTES - TAG_BYTES];
            let len = usize::from(bytes) - CLEAR_BYTES - TAG_BYTES;
            let mut builder = Builder::new(&mut plaintext[..len]);
            if builder.mtu_probe(MtuProbe { number, bytes }).is_err() {
                continue;
            }
            match out.pool().copy_of(CLEAR_BYTES, &plaintext[..len]) {
                Some(mut burst) => {
                    burst.set_dont_fragment();
                    self.transmit_control_by(now, id, burst, out);
                }
                None => drop_one(Drop::NoBuffer, out),
            }
        }
    }
}
