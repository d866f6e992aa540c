//! The sending side of a link. Packets enter their lane and are sealed for the path in use. Control datagrams take a
//! path by which they surely arrive.
//!
//! ```text
//!   run ──▶ brake ──▶ lane (number, history, repair) ──▶ sealed ──▶ path in use
//!                                            '── copy ──▶ sealed ──▶ spare, while the path is in doubt
//! ```

use super::paths::goes_beside;
use super::{Link, MARK_CONTROL, PathId, mark};
use crate::aims::FlowAims;
use crate::ends::is_own;
use crate::event::Event;
use crate::flow::FlowKey;
use crate::node::Node;
use base::{Burst, Duration, NodeAddr, Outbox, Pool, Time};
use congestion::brake::{Packet, Verdict};
use wire::data::{Header, LinkProtocol};
use wire::link::Kind;
use wire::{CLEAR_BYTES, TAG_BYTES};

impl Link {
    /// Enters the packets of a run in their lane and seals them in place, up to the first packet after which repair is
    /// to follow at once. Returns how many it sealed; `None` if there is no session to seal with. `rest_of_path` is the
    /// delay from the neighbour to a packet's destination, `aims` are those of flows. Packets that also take a second
    /// path are left in `copies`.
    #[inline]
    pub(crate) fn seal_packets(
        &mut self,
        now: Time,
        run: &mut Burst,
        (pool, copies): (&Pool, &mut Vec<Burst>),
        rest_of_path: impl Fn(NodeAddr) -> Duration,
        aims: &FlowAims,
    ) -> Option<usize> {
        if !self.carries() {
            return None;
        }
        self.path.hello.on_data_sent(now);
        self.path.mtu.on_sent(run.stride());
        if !run.is_empty() {
            let first = Header::trusted(&run.segment(0)[CLEAR_BYTES..]);
            let mark = mark(first.class());
            if first.class().link == LinkProtocol::RealTime {
                self.lane_mark = mark;
            }
            run.set_mark(mark);
        }
        let beside = self.beside(now);
        let (mut sealed, mut bytes) = (0, 0);
        while sealed < run.segments() && !(sealed > 0 && self.ends_run()) {
            let datagram = run.segment_mut(sealed);
            let end = datagram.len() - TAG_BYTES;
            let packet = &mut datagram[CLEAR_BYTES..end];
            let header = Header::trusted(&*packet);
            self.counts.own += u64::from(is_own(&header));
            if header.class().link == LinkProtocol::RealTime {
                self.counts.realtime_out_bytes += (end + TAG_BYTES) as u64;
                self.history.record(now, packet);
                self.protect(now, packet, &rest_of_path, aims);
                if let Some((_, in_doubt)) = beside
                    && goes_beside(packet, in_doubt)
                {
                    let copy = pool.copy_of(0, datagram);
                    self.counts.copies_unsent += u64::from(copy.is_none());
                    copies.extend(copy);
                }
            }
            if self.path.sessions.seal(Kind::Data, datagram).is_err() {
                // The copies must not leave by another link with its next run.
                copies.clear();
                return None;
            }
            sealed += 1;
            bytes += datagram.len();
        }
        self.counts.data_out += sealed as u64;
        self.counts.data_out_bytes += bytes as u64;
        Some(sealed)
    }

    /// Returns how many packets at the front of a run may go, as far as the brake is concerned, and the brake's verdict
    /// on the next one, if there is one.
    #[inline]
    pub(crate) fn admitted(&mut self, now: Time, run: &Burst) -> (usize, Option<Verdict>) {
        let way_there = self.way_there();
        let Some(brake) = &mut self.brake else {
            return (run.segments(), None);
        };
        let mut judge = |i: usize| {
            let packet = &run.segment(i)[CLEAR_BYTES..];
            let header = Header::trusted(packet);
            let class = header.class();
            if class.link != LinkProtocol::RealTime {
                return Verdict::Sent;
            }
            let left = header.remaining().duration().unwrap_or(Duration::MAX);
            let packet = Packet {
                bytes: CLEAR_BYTES + packet.len(),
                priority: class.priority,
                flow: FlowKey::of(&header).hash(),
                is_elastic: is_elastic(&header),
                slack: left.saturating_sub(way_there),
            };
            brake.admit(now, &packet)
        };
        let mut stop = None;
        let goes = |i: &usize| {
            let verdict = judge(*i);
            stop = (verdict != Verdict::Sent).then_some(verdict);
            stop.is_none()
        };
        let sent = (0..run.segments()).take_while(goes).count();
        if let Some(until) = brake.watches(now) {
            self.path.hello.watch(now, until);
        }
        (sent, stop)
    }

    /// Hands sealed datagrams to the underlay network, or to the emulated one in front of it.
    #[inline]
    pub fn transmit(&mut self, now: Time, burst: Burst, out: &mut impl Outbox<Node>) {
        self.path.transmit(now, burst, out);
    }

    /// Seals and sends a control datagram by the path on which it surely arrives. `plaintext` has spare room around it.
    pub fn transmit_control(&mut self, now: Time, plaintext: Burst, out: &mut impl Outbox<Node>) {
        let id = self.sure_path(now).id;
        self.transmit_control_by(now, id, plaintext, out);
    }

    /// The same by a certain path, for datagrams about the path itself.
    pub(crate) fn transmit_control_by(
        &mut self,
        now: Time,
        id: PathId,
        mut plaintext: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        plaintext.set_mark(MARK_CONTROL);
        let peer = self.peer;
        let Some(path) = self.path_of_mut(id) else {
            return;
        };
        if let Some(bytes) = path.seal_control(&mut plaintext) {
            out.report(Event::Control { peer, bytes });
            path.transmit(now, plaintext, out);
            self.counts.control_out += 1;
            self.counts.control_out_bytes += u64::from(bytes);
        }
    }

    /// The same for a datagram with a repair packet, which takes the same path as the packets that it repairs.
    pub(crate) fn transmit_repair(
        &mut self,
        now: Time,
        mut plaintext: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        plaintext.set_mark(self.lane_mark);
        let peer = self.peer;
        let path = self.sure_path(now);
        if let Some(bytes) = path.seal_control(&mut plaintext) {
            out.report(Event::Repair { peer, bytes });
            path.transmit(now, plaintext, out);
            self.counts.repair_out += 1;
            self.counts.repair_out_bytes += u64::from(bytes);
        }
    }
}

/// Returns true if a packet belongs to something that slows down on request: a stream, or a long datagram. For a packet
/// that is sealed from end to end, the payload's kind decides.
fn is_elastic(header: &Header<&[u8]>) -> bool {
    header.has_transport() && header.payload().first() != Some(&Kind::Data.byte())
}
