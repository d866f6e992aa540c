//! An attacker on the path, who sees every datagram, has no key, and sends anything from any address.
//!
//! The attacker replays datagrams that have arrived, sooner or much later, at their place or another, forges data that
//! looks like a handshake or a sealed datagram, changes bits and truncates. The attacker does not hold datagrams back:
//! that would make packets late, and no node could detect it.

use super::party::Party;
use base::{Duration, Rng, UnderlayAddr};
use sim::trace::{Fate, Packet};
use sim::{HostId, World};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use wire::link::Kind;

/// Number of datagrams that the attacker remembers of each of the two kinds.
const REMEMBERED: usize = 512;
/// Most datagrams sent at once.
const VOLLEY: u64 = 24;

/// The datagrams that the attacker has seen.
#[derive(Default)]
struct Seen {
    handshakes: VecDeque<Copied>,
    sealed: VecDeque<Copied>,
}

#[derive(Clone)]
struct Copied {
    from: UnderlayAddr,
    to: UnderlayAddr,
    bytes: Vec<u8>,
}

/// The attacker.
#[derive(Clone, Default)]
pub(super) struct Intruder(Rc<RefCell<Seen>>);

impl Intruder {
    /// Notes a packet of the world's trace.
    pub(super) fn observe(&self, packet: &Packet<'_>) {
        if packet.fate != Fate::Arrived {
            return;
        }
        let mut seen = self.0.borrow_mut();
        let shelf = match Kind::of(packet.bytes) {
            Ok(kind) if kind.is_sealed() => &mut seen.sealed,
            _ => &mut seen.handshakes,
        };
        if shelf.len() >= REMEMBERED {
            shelf.pop_front();
        }
        shelf.push_back(Copied {
            from: packet.from,
            to: packet.to,
            bytes: packet.bytes.to_vec(),
        });
    }

    /// Sends a volley within the next moments, and returns the number of datagrams.
    pub(super) fn strike(&self, rng: &mut Rng, world: &mut World<Party>) -> u64 {
        let count = 1 + rng.below(VOLLEY);
        let mut sent = 0;
        for _ in 0..count {
            let Some(mut copied) = self.pick(rng) else {
                continue;
            };
            deform(rng, &mut copied);
            let places: Vec<HostId> = world.hosts().collect();
            let to = match places.iter().find(|host| world.addr(**host) == copied.to) {
                Some(host) if !rng.chance(0.1) => *host,
                _ => places[rng.below(places.len() as u64) as usize],
            };
            let at = world.now() + Duration::from_micros(rng.below(50_000));
            if let Some(burst) = world.pool().copy_of(0, &copied.bytes)
                && !burst.is_empty()
            {
                world.forge_at(at, copied.from, to, burst);
                sent += 1;
            }
        }
        sent
    }

    fn pick(&self, rng: &mut Rng) -> Option<Copied> {
        let seen = self.0.borrow();
        let shelf = if rng.chance(0.5) {
            &seen.handshakes
        } else {
            &seen.sealed
        };
        let last = shelf.len().checked_sub(1)? as u64;
        shelf.get(rng.below(last + 1) as usize).cloned()
    }
}

fn deform(rng: &mut Rng, copied: &mut Copied) {
    let bytes = &mut copied.bytes;
    match rng.below(8) {
        // The datagram stays unchanged.
        0..=3 => {}
        4 => {
            for _ in 0..1 + rng.below(3) {
                let at = rng.below(bytes.len().max(1) as u64) as usize;
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << rng.below(8);
                }
            }
        }
        5 => bytes.truncate(1 + rng.below(bytes.len().max(1) as u64) as usize),
        // The first byte gives its kind; the rest is noise.
        6 => rng.fill(&mut bytes[1..]),
        _ => copied.from.port = copied.from.port.wrapping_add(1 + rng.below(3) as u16),
    }
}
