//! The sender's side: which packets are covered, and when a repair packet is due.

use super::super::ring::Ring;
use super::field::{BLOCK, Multiples};
use super::{SPAN, TAG_AT, coefficient, tag};
use base::Time;
use std::collections::VecDeque;
use wire::HEADER_BYTES;
use wire::control::{REPAIR_AGE_UNKNOWN, REPAIR_AGES, REPAIR_FRONT_BYTES, Repair};
use wire::data::LaneSeq;

/// Repair packets that wait to be sent: those of one burst of packets. Beyond, none becomes due.
const DUE_MOST: usize = 32;
/// With so many the burst is to end here. Choice: a half, for one packet may earn several.
const DUE_MANY: usize = DUE_MOST / 2;

/// How much repair a lane gets, and over what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// So many repair packets
    pub repairs: u32,
    /// follow so many packets that are covered.
    pub packets: u32,
    /// The newest packets that a repair packet leaves to later ones. A copy that is to survive a run of losses
    /// comes so much later.
    pub lag: u32,
    /// The packets behind them that it covers, at most [`SPAN`].
    pub width: u32,
}

impl Share {
    /// Repair packets per packet.
    pub fn ratio(&self) -> f64 {
        f64::from(self.repairs) / f64::from(self.packets.max(1))
    }
}

/// A packet that is covered.
#[derive(Clone, Copy, Debug)]
struct Covered {
    seq: u64,
    /// Its header as it is combined, the tag in the place of the lane number, and zeros. The rest is in the ring.
    front: [u8; BLOCK],
}

/// A repair packet that is due. It covers what it would have covered at once, however many packets have followed
/// meanwhile: so those of a burst go together behind it.
#[derive(Clone, Copy, Debug)]
struct Due {
    /// The newest packet that was covered.
    newest: u64,
    /// Nothing followed that one, so it is covered too.
    is_silent: bool,
}

/// Combines the packets of a lane into repair packets.
#[derive(Debug, Default)]
pub struct Encoder {
    share: Option<Share>,
    /// The newest packets that are covered, ascending.
    covered: VecDeque<Covered>,
    /// Repair packets that the packets so far have earned, in parts of [`Share::packets`].
    credit: u32,
    due: VecDeque<Due>,
    /// Nothing follows the newest packet, and that has been made up for.
    is_silent: bool,
    seed: u8,
    /// Repair packets made, and their bytes.
    made: u64,
    made_bytes: u64,
}

impl Encoder {
    /// How much repair follows from now on; none ends it.
    pub fn set_share(&mut self, share: Option<Share>) {
        if share.is_none() {
            self.covered.clear();
            self.credit = 0;
            self.due.clear();
        }
        self.share = share;
    }

    /// What is in force.
    pub fn share(&self) -> Option<Share> {
        self.share
    }

    /// Packet `seq`, which the ring has, is covered by what follows.
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
        if self.covered.len() == 2 * SPAN {
            self.covered.pop_front();
        }
        self.covered.push_back(Covered { seq, front });
        self.is_silent = false;
        self.credit += share.repairs;
        let earned = self.credit / share.packets.max(1);
        self.credit %= share.packets.max(1);
        self.owe(earned);
    }

    /// So many repair packets are due, over the packets so far.
    fn owe(&mut self, count: u32) {
        let Some(newest) = self.covered.back().map(|covered| covered.seq) else {
            return;
        };
        let is_silent = self.is_silent;
        let room = DUE_MOST.saturating_sub(self.due.len());
        let due = std::iter::repeat_n(Due { newest, is_silent }, room.min(count as usize));
        self.due.extend(due);
    }

    /// The lane has fallen silent: the last packets are owed half of what the packets of a window get.
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

    /// What is due is not to be sent.
    pub fn forgo(&mut self) {
        self.due.clear();
    }

    /// A repair packet is due.
    pub fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// So many are due that they are to be sent before more packets are covered.
    pub fn is_crowded(&self) -> bool {
        self.due.len() >= DUE_MANY
    }

    /// Repair packets made, and the bytes of their bodies.
    pub fn made(&self) -> (u64, u64) {
        (self.made, self.made_bytes)
    }

    /// Writes the body of the next repair packet that is due, and tells its length.
    pub(in super::super) fn poll(
        &mut self,
        now: Time,
        ring: &Ring,
        out: &mut [u8],
    ) -> Option<usize> {
        let share = self.share?;
        while let Some(due) = self.due.pop_front() {
            let (lag, width) = match due.is_silent {
                true => (0, share.width + share.lag),
                false => (share.lag, share.width),
            };
            let span = (due.newest, lag as usize, width as usize);
            if let Some(len) = self.combine(now, ring, span, out) {
                self.made += 1;
                self.made_bytes += len as u64;
                return Some(len);
            }
        }
        None
    }

    /// A combination of `width` packets up to `newest`, the `lag` newest ones left out.
    fn combine(
        &mut self,
        now: Time,
        ring: &Ring,
        (newest, lag, width): (u64, usize, usize),
        out: &mut [u8],
    ) -> Option<usize> {
        self.seed = self.seed.wrapping_add(1);
        let up_to = self.covered.partition_point(|it| it.seq <= newest);
        let last = up_to.checked_sub(lag + 1)?;
        let newest = self.covered[last].seq;
        let room = out.len().checked_sub(REPAIR_FRONT_BYTES)?;
        let (mut members, mut longest) = (0u64, 0);
        let (mut fronts, mut bodies) = (Multiples::new(), Multiples::new());
        let window = self.covered.range(..=last).rev().take(width.min(SPAN));
        for Covered { seq, front } in window {
            let behind = newest - seq;
            if behind >= SPAN as u64 {
                break;
            }
            let Some((_, packet)) = ring.get(*seq) else {
                continue;
            };
            if packet.len() > room {
                continue;
            }
            let by = coefficient(self.seed, *seq);
            fronts.push(by, front);
            bodies.push(by, &packet[HEADER_BYTES..]);
            members |= 1 << behind;
            longest = longest.max(packet.len());
        }
        if members & 1 == 0 {
            // The newest has left the history, or is too long: what is before it has been covered already.
            return None;
        }
        let (mut ages, mut aged) = ([0; REPAIR_AGES], 0);
        for (age, behind) in ages.iter_mut().zip(Repair::aged(members)) {
            let entry = ring.get(newest - u64::from(behind));
            *age = entry.map_or(REPAIR_AGE_UNKNOWN, |(entry, _)| age_of(now, entry.at));
            aged += 1;
        }
        let ages = &ages[..aged];
        let at = Repair::emit_front(LaneSeq::of(newest), self.seed, members, ages, out).ok()?;
        let sum = out.get_mut(at..at + longest)?;
        sum.fill(0);
        let (front, body) = sum.split_at_mut(HEADER_BYTES);
        fronts.sum_into(front);
        bodies.sum_into(body);
        Some(at + longest)
    }
}

/// Milliseconds since a packet was sent, never too few.
fn age_of(now: Time, sent: Time) -> u8 {
    let ms = now.since(sent).as_nanos().div_ceil(1_000_000);
    u8::try_from(ms).unwrap_or(REPAIR_AGE_UNKNOWN)
}
