//! The sender's side: which packets are covered, and when a repair packet is due.

use super::super::ring::Ring;
use super::field::{BLOCK, Multiples};
use super::{SPAN, TAG_AT, coefficient, tag};
use base::Time;
use core::ops::Range;
use std::collections::VecDeque;
use wire::HEADER_BYTES;
use wire::control::{REPAIR_AGE_UNKNOWN, REPAIR_AGES, REPAIR_FRONT_BYTES, Repair};
use wire::data::LaneSeq;

/// Maximum number of repair packets that wait to be sent: those of one burst of packets. Beyond it, none becomes due.
const DUE_MOST: usize = 32;
/// At this number of due repair packets, the sender sends them before the burst continues. Choice: a half, because one
/// packet may earn several.
const DUE_MANY: usize = DUE_MOST / 2;
/// Number of repair packets that are combined together: each packet of their windows is read once for all of them.
/// Choice: five follow sixteen packets at a share of 30 %, and the sums of four fit the registers.
const ROWS: usize = 4;
/// Maximum number of packets that these repair packets reach over together.
const REACH: usize = 2 * SPAN;

/// How much repair a lane gets, and which packets it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Number of repair packets that follow each [`Share::packets`] packets.
    pub repairs: u32,
    /// Number of covered packets that earn [`Share::repairs`] repair packets.
    pub packets: u32,
    /// Number of newest packets that a repair packet leaves to later ones. A copy comes later by this number of
    /// packets, so that it survives a run of losses.
    pub lag: u32,
    /// Number of packets before these that a repair packet covers, at most [`SPAN`].
    pub width: u32,
}

impl Share {
    /// Returns the number of repair packets per packet.
    pub fn ratio(&self) -> f64 {
        f64::from(self.repairs) / f64::from(self.packets.max(1))
    }
}

/// A covered packet.
#[derive(Clone, Copy, Debug)]
struct Covered {
    seq: u64,
    /// The packet's header as it is combined, with the tag in the place of the lane number, and zeros. The rest of the
    /// packet is in the ring.
    front: [u8; BLOCK],
}

/// A repair packet that is due. It covers the packets that it would have covered if it had been sent at once, however
/// many packets have followed meanwhile. So the repair packets of a burst are sent together, after the burst.
#[derive(Clone, Copy, Debug)]
struct Due {
    /// The newest covered packet when this repair packet became due.
    newest: u64,
    /// The lane fell silent after that packet. So the repair packet covers the newest packets, too.
    is_silent: bool,
}

/// The packets that a repair packet covers, as indices into [`Encoder::covered`].
#[derive(Clone, Copy, Debug)]
struct Window {
    newest: u64,
    first: usize,
    last: usize,
    seed: u8,
}

/// Repair packets that have been made and not yet been fetched.
#[derive(Debug, Default)]
struct Made {
    bodies: [Vec<u8>; ROWS],
    /// The range of bodies that are still to be fetched.
    left: Range<usize>,
}

/// Combines the packets of a lane into repair packets.
#[derive(Debug, Default)]
pub struct Encoder {
    share: Option<Share>,
    /// The newest covered packets, in ascending order.
    covered: VecDeque<Covered>,
    /// The fraction of a repair packet that the packets so far have earned, in parts of [`Share::packets`].
    credit: u32,
    due: VecDeque<Due>,
    ready: Made,
    /// The lane is silent, and the repair packets for its last packets have become due.
    is_silent: bool,
    seed: u8,
    /// Repair packets made, and their bytes.
    made: u64,
    made_bytes: u64,
}

impl Encoder {
    /// Sets how much repair follows from now on. `None` ends the repair.
    pub fn set_share(&mut self, share: Option<Share>) {
        if share.is_none() {
            self.covered.clear();
            self.credit = 0;
            self.due.clear();
            self.ready = Made::default();
        }
        self.share = share;
    }

    /// Returns the share in force.
    pub fn share(&self) -> Option<Share> {
        self.share
    }

    /// Covers packet `seq`, which the ring has, by the repair packets that follow.
    #[inline]
    pub fn cover(&mut self, seq: u64, packet: &[u8]) {
        let Some(share) = self.share else {
            return;
        };
        let Some(header) = packet.first_chunk::<HEADER_BYTES>() else {
            return;
        };
        let mut front = [0; BLOCK];
        front[..HEADER_BYTES].copy_from_slice(header);
        front[TAG_AT..HEADER_BYTES].copy_from_slice(&tag(packet));
        if self.covered.len() == REACH {
            self.covered.pop_front();
        }
        self.covered.push_back(Covered { seq, front });
        self.is_silent = false;
        self.credit += share.repairs;
        let earned = self.credit / share.packets.max(1);
        self.credit %= share.packets.max(1);
        self.owe(earned);
    }

    /// Makes `count` repair packets due, over the packets so far.
    fn owe(&mut self, count: u32) {
        let Some(newest) = self.covered.back().map(|covered| covered.seq) else {
            return;
        };
        let is_silent = self.is_silent;
        let room = DUE_MOST.saturating_sub(self.due.len());
        let due = std::iter::repeat_n(Due { newest, is_silent }, room.min(count as usize));
        self.due.extend(due);
    }

    /// Notes that the lane has fallen silent. The last packets get half of the repair packets that the packets of a
    /// window get.
    pub fn on_silence(&mut self) {
        let Some(share) = self.share.filter(|_| !self.is_silent) else {
            return;
        };
        let last = (share.width + share.lag).min(self.covered.len() as u32);
        let owed = (last * share.repairs).div_ceil(2 * share.packets.max(1));
        self.is_silent = true;
        self.credit = 0;
        self.owe(owed);
    }

    /// Drops the repair packets that are due.
    pub fn forgo(&mut self) {
        self.due.clear();
        self.ready.left = 0..0;
    }

    /// Returns true if a repair packet is due.
    pub fn is_due(&self) -> bool {
        !self.due.is_empty() || !self.ready.left.is_empty()
    }

    /// Returns true if so many repair packets are due that the sender must send them before it covers more packets.
    pub fn is_crowded(&self) -> bool {
        self.due.len() >= DUE_MANY
    }

    /// Returns the number of repair packets made, and the bytes of their bodies.
    pub fn made(&self) -> (u64, u64) {
        (self.made, self.made_bytes)
    }

    /// Writes the body of the next repair packet that is due, and returns its length.
    pub(in super::super) fn poll(
        &mut self,
        now: Time,
        ring: &Ring,
        out: &mut [u8],
    ) -> Option<usize> {
        let share = self.share?;
        loop {
            for at in self.ready.left.by_ref() {
                let body = &self.ready.bodies[at];
                if let Some(out) = out.get_mut(..body.len()) {
                    out.copy_from_slice(body);
                    self.made += 1;
                    self.made_bytes += body.len() as u64;
                    return Some(body.len());
                }
            }
            if self.due.is_empty() {
                return None;
            }
            self.make(now, share, ring, out.len());
        }
    }

    /// Makes the next repair packets that are due, none longer than `room`.
    fn make(&mut self, now: Time, share: Share, ring: &Ring, room: usize) {
        let (mut windows, mut count) = ([None; ROWS], 0);
        while count < ROWS
            && let Some(due) = self.due.pop_front()
        {
            windows[count] = self.window(share, due);
            count += usize::from(windows[count].is_some());
        }
        let [a, b, ..] = windows;
        let made = (&self.covered, &mut self.ready);
        match count {
            0 => {}
            1 => combine::<1, SPAN>(now, ring, [a], room, made),
            2 => combine::<2, REACH>(now, ring, [a, b], room, made),
            _ => combine::<ROWS, REACH>(now, ring, windows, room, made),
        }
    }

    /// Returns the window of a repair packet that is due. Unless the lane is silent, the window leaves out the newest
    /// packets.
    fn window(&mut self, share: Share, due: Due) -> Option<Window> {
        self.seed = self.seed.wrapping_add(1);
        let (lag, width) = match due.is_silent {
            true => (0, share.width + share.lag),
            false => (share.lag, share.width),
        };
        let up_to = self.covered.partition_point(|it| it.seq <= due.newest);
        let last = up_to.checked_sub(lag as usize + 1)?;
        let newest = self.covered[last].seq;
        let reach = newest.saturating_sub(SPAN as u64 - 1);
        let reached = self.covered.partition_point(|it| it.seq < reach);
        let first = (last + 1).saturating_sub(width as usize).max(reached);
        (first <= last).then_some(Window {
            newest,
            first,
            last,
            seed: self.seed,
        })
    }
}

/// Makes the sums of the packets of some windows, which reach over at most `MOST` packets together.
fn combine<const R: usize, const MOST: usize>(
    now: Time,
    ring: &Ring,
    windows: [Option<Window>; R],
    room: usize,
    (covered, made): (&VecDeque<Covered>, &mut Made),
) {
    let all = windows.iter().flatten();
    let from = all.clone().map(|window| window.first).min();
    let to = all.map(|window| window.last).max();
    let room = room.checked_sub(REPAIR_FRONT_BYTES);
    let Some(((from, to), room)) = from.zip(to).zip(room) else {
        return;
    };
    let (mut members, mut longest) = ([0u64; R], [0; R]);
    let (mut fronts, mut bodies) = (Multiples::<R, MOST>::new(), Multiples::<R, MOST>::new());
    for (at, Covered { seq, front }) in (from..).zip(covered.range(from..=to)) {
        let Some((_, packet)) = ring.get(*seq) else {
            continue;
        };
        if packet.len() > room {
            continue;
        }
        let mut by = [0; R];
        for (row, window) in windows.iter().enumerate() {
            if let Some(window) = window
                && (window.first..=window.last).contains(&at)
            {
                by[row] = coefficient(window.seed, *seq);
                members[row] |= 1 << (window.newest - seq);
                longest[row] = packet.len().max(longest[row]);
            }
        }
        fronts.push(by, front);
        bodies.push(by, &packet[HEADER_BYTES..]);
    }
    let mut front_sums: [&mut [u8]; R] = core::array::from_fn(|_| &mut [][..]);
    let mut body_sums: [&mut [u8]; R] = core::array::from_fn(|_| &mut [][..]);
    let mut made_bodies = made.bodies.iter_mut();
    made.left = 0..0;
    for (row, window) in windows.iter().enumerate() {
        // If the newest packet has left the history or is too long, no repair packet is made: the packets before it
        // have been covered already.
        let Some(window) = window.filter(|_| members[row] & 1 == 1) else {
            continue;
        };
        let Some(body) = made_bodies.next() else {
            break;
        };
        made.left.end += 1;
        body.clear();
        body.resize(REPAIR_FRONT_BYTES + longest[row], 0);
        let at = front_of(now, ring, window, members[row], body);
        body.truncate(at + longest[row]);
        let (_, sum) = body.split_at_mut(at);
        (front_sums[row], body_sums[row]) = sum.split_at_mut(HEADER_BYTES);
    }
    fronts.sum_into(&mut front_sums);
    bodies.sum_into(&mut body_sums);
}

/// Writes the part of the body before the sum, and returns its length.
fn front_of(
    now: Time,
    ring: &Ring,
    Window { newest, seed, .. }: Window,
    members: u64,
    out: &mut [u8],
) -> usize {
    let (mut ages, mut aged) = ([0; REPAIR_AGES], 0);
    for (age, behind) in ages.iter_mut().zip(Repair::aged(members)) {
        let entry = ring.get(newest - u64::from(behind));
        *age = entry.map_or(REPAIR_AGE_UNKNOWN, |(entry, _)| age_of(now, entry.at));
        aged += 1;
    }
    let front = Repair::emit_front(LaneSeq::of(newest), seed, members, &ages[..aged], out);
    debug_assert!(front.is_ok(), "there is room, and an age for each");
    front.unwrap_or_default()
}

/// Returns the milliseconds since a packet was sent, rounded up.
fn age_of(now: Time, sent: Time) -> u8 {
    let ms = now.since(sent).as_nanos().div_ceil(1_000_000);
    u8::try_from(ms).unwrap_or(REPAIR_AGE_UNKNOWN)
}
