//! The loop's tunnels: one for each neighbour, found by its address in the engine.
//!
//! ```text
//!   offered ─┬─ none yet, or of the same side ──────────────▶ taken; the one before it ends
//!            └─ both sides have dialled: that of the node with the lower address stays, at both ends alike
//! ```

use super::carrier::STRIDE_BYTES;
use base::{Burst, Duration, NodeAddr, Time, UnderlayAddr};
use net::unix::SeqStream;
use overlay::event::Drop;
use overlay::link::MAX_LINKS;
use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Largest number of tunnels: one for each link.
pub const TUNNELS_MAX: usize = MAX_LINKS;
/// A tunnel that has carried nothing for this time is no longer of use: its link uses datagrams. An idle link sends a
/// hello once a second. Choice: if datagrams fail again within that time, the tunnel is still open.
pub(super) const LINGER: Duration = Duration::from_secs(30);

/// A connection whose other end has proved its identity.
#[derive(Debug)]
pub struct Offer {
    /// The neighbour.
    pub peer: NodeAddr,
    /// The far end of the TCP connection, as an address for the engine.
    pub at: UnderlayAddr,
    /// True if this node has dialled it.
    pub is_dialled: bool,
    /// The loop's end of the socket to the tunnel's thread.
    pub socket: SeqStream,
    /// Counts of the packets that the thread has dropped.
    pub counts: Arc<Counts>,
}

/// Counts of what a tunnel's thread has dropped.
#[derive(Debug, Default)]
pub struct Counts {
    full: AtomicU64,
    late: AtomicU64,
}

impl Counts {
    /// Adds to the counts.
    pub(super) fn add(&self, full: u64, late: u64) {
        self.full.fetch_add(full, Ordering::Relaxed);
        self.late.fetch_add(late, Ordering::Relaxed);
    }

    /// Returns what was dropped since the last call: because there was no room, and because of age.
    fn take(&self) -> [(Drop, u32); 2] {
        let take = |count: &AtomicU64| {
            let count = count.swap(0, Ordering::Relaxed);
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        [
            (Drop::TunnelFull, take(&self.full)),
            (Drop::TunnelLate, take(&self.late)),
        ]
    }
}

/// All tunnels of a node.
#[derive(Debug)]
pub struct Tunnels {
    own: NodeAddr,
    next: u32,
    open: Vec<Tunnel>,
}

#[derive(Debug)]
struct Tunnel {
    number: u32,
    offer: Offer,
    /// When the tunnel last carried something.
    used: Time,
}

/// A tunnel that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The neighbour.
    pub peer: NodeAddr,
    /// Its address in the engine.
    pub at: UnderlayAddr,
}

impl Tunnels {
    /// Creates an empty table of the node with this address.
    pub fn new(own: NodeAddr) -> Tunnels {
        Tunnels {
            own,
            next: 0,
            open: Vec::new(),
        }
    }

    /// Returns the number of open tunnels.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns true if there is no open tunnel.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Adds a tunnel. Returns its number, and the tunnel that it replaces. Returns none if the offered tunnel has to
    /// end.
    pub fn take(&mut self, now: Time, offer: Offer) -> Option<(u32, Option<Ended>)> {
        let before = (self.open.iter()).position(|it| it.offer.peer == offer.peer);
        let ended = match before {
            Some(place) if self.prefers(&self.open[place].offer, &offer) => return None,
            Some(place) => Some(self.open.swap_remove(place).ended()),
            None if self.open.len() >= TUNNELS_MAX => return None,
            None => None,
        };
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.open.push(Tunnel {
            number,
            offer,
            used: now,
        });
        Some((number, ended))
    }

    /// Returns true if the existing tunnel stays. Both ends decide in the same way, so that one connection is left.
    fn prefers(&self, there: &Offer, offered: &Offer) -> bool {
        let is_of_lower = |it: &Offer| it.is_dialled == (self.own < it.peer);
        there.is_dialled != offered.is_dialled && is_of_lower(there)
    }

    /// Returns the loop's end of a tunnel.
    pub fn socket(&self, number: u32) -> Option<&SeqStream> {
        let tunnel = self.open.iter().find(|it| it.number == number)?;
        Some(&tunnel.offer.socket)
    }

    /// Notes that something has arrived. Returns the address that it came from.
    pub fn came(&mut self, now: Time, number: u32) -> Option<UnderlayAddr> {
        let tunnel = self.open.iter_mut().find(|it| it.number == number)?;
        tunnel.used = now;
        Some(tunnel.offer.at)
    }

    /// Sends a burst, or returns why it is dropped.
    pub fn send(&mut self, now: Time, to: UnderlayAddr, burst: &Burst) -> Result<(), Drop> {
        let mut open = self.open.iter_mut();
        let tunnel = open.find(|it| it.offer.at.remote() == to.remote());
        let tunnel = tunnel.ok_or(Drop::TunnelEnded)?;
        tunnel.used = now;
        let stride = u16::try_from(burst.stride()).map_err(|_| Drop::TooLong)?;
        let stride: [u8; STRIDE_BYTES] = stride.to_be_bytes();
        let parts = [IoSlice::new(&stride), IoSlice::new(burst.bytes())];
        let sent = tunnel.offer.socket.send_parts(&parts);
        sent.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => Drop::TunnelFull,
            _ => Drop::TunnelEnded,
        })
    }

    /// Removes a tunnel, because its thread or its connection has ended.
    pub fn end(&mut self, number: u32) -> Option<Ended> {
        let place = self.open.iter().position(|it| it.number == number)?;
        Some(self.open.swap_remove(place).ended())
    }

    /// Ends a tunnel that has carried nothing for long. The caller repeats this until it returns `None`.
    pub fn expire(&mut self, now: Time) -> Option<Ended> {
        let is_idle = |it: &Tunnel| now.since(it.used) >= LINGER;
        let place = self.open.iter().position(is_idle)?;
        Some(self.open.swap_remove(place).ended())
    }

    /// Returns what threads have dropped since the last call.
    pub fn dropped(&self) -> impl Iterator<Item = (Drop, u32)> + '_ {
        let counts = self.open.iter().flat_map(|it| it.offer.counts.take());
        counts.filter(|(_, packets)| *packets > 0)
    }
}

impl Tunnel {
    fn ended(self) -> Ended {
        let (peer, at) = (self.offer.peer, self.offer.at);
        Ended { peer, at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::unix::Received;

    const LOW: NodeAddr = NodeAddr(1);
    const HIGH: NodeAddr = NodeAddr(2);

    fn offer(peer: NodeAddr, port: u16, is_dialled: bool) -> (Offer, SeqStream) {
        let (socket, thread) = SeqStream::pair().unwrap();
        let at = UnderlayAddr {
            port,
            socket: UnderlayAddr::STREAM,
            ..UnderlayAddr::default()
        };
        let counts = Arc::default();
        let offer = Offer {
            peer,
            at,
            is_dialled,
            socket,
            counts,
        };
        (offer, thread)
    }

    fn port_of(tunnels: &Tunnels) -> u16 {
        assert_eq!(tunnels.len(), 1);
        tunnels.open[0].offer.at.port
    }

    #[test]
    fn of_two_that_both_sides_have_dialled_one_stays_at_both_ends() {
        for low_first in [true, false] {
            let (mut at_low, mut at_high) = (Tunnels::new(LOW), Tunnels::new(HIGH));
            let mut offers = [(1, true), (2, false)];
            if !low_first {
                offers.reverse();
            }
            for (port, by_low) in offers {
                at_low.take(Time::ZERO, offer(HIGH, port, by_low).0);
                at_high.take(Time::ZERO, offer(LOW, port, !by_low).0);
            }
            assert_eq!((port_of(&at_low), port_of(&at_high)), (1, 1));
        }
    }

    #[test]
    fn a_later_one_of_the_same_side_takes_the_place_of_the_one_before() {
        let mut tunnels = Tunnels::new(LOW);
        let (first, _) = offer(HIGH, 1, true);
        let ended = Ended {
            peer: HIGH,
            at: first.at,
        };
        assert_eq!(tunnels.take(Time::ZERO, first), Some((0, None)));
        let (second, _) = offer(HIGH, 2, true);
        assert_eq!(tunnels.take(Time::ZERO, second), Some((1, Some(ended))));
        assert_eq!(port_of(&tunnels), 2);
        assert!(tunnels.end(0).is_none() && tunnels.end(1).is_some());
    }

    #[test]
    fn bursts_go_to_the_thread_and_idle_tunnels_end() {
        let mut tunnels = Tunnels::new(LOW);
        let (offer, thread) = offer(HIGH, 7, true);
        let at = offer.at;
        tunnels.take(Time::ZERO, offer);
        let pool = base::Pool::new(1, 1);
        let burst = pool.copy_of(0, b"datagram").unwrap();
        let now = Time::ZERO + Duration::from_secs(10);
        assert_eq!(tunnels.send(now, at, &burst), Ok(()));
        let mut bytes = [0; 16];
        assert_eq!(thread.recv_into(&mut bytes).unwrap(), Received::Message(10));
        assert_eq!(&bytes[..10], b"\0\x08datagram");
        let other = UnderlayAddr { port: 8, ..at };
        assert_eq!(tunnels.send(now, other, &burst), Err(Drop::TunnelEnded));
        assert_eq!(tunnels.expire(now + Duration::from_secs(29)), None);
        let ended = Ended { peer: HIGH, at };
        assert_eq!(tunnels.expire(now + LINGER), Some(ended));
        assert!(tunnels.is_empty());
        // Its thread notices the end.
        assert_eq!(thread.recv_into(&mut bytes).unwrap(), Received::Closed);
    }

    #[test]
    fn a_thread_that_does_not_keep_up_costs_datagrams_and_no_wait() {
        let mut tunnels = Tunnels::new(LOW);
        let (offer, _thread) = offer(HIGH, 7, true);
        let (at, counts) = (offer.at, Arc::clone(&offer.counts));
        tunnels.take(Time::ZERO, offer);
        let pool = base::Pool::new(1, 1);
        let burst = pool.copy_of(0, &[0; 1_400]).unwrap();
        let sends = (0..100_000).map(|_| tunnels.send(Time::ZERO, at, &burst));
        assert_eq!(
            sends.into_iter().find_map(Result::err),
            Some(Drop::TunnelFull)
        );
        counts.add(2, 3);
        let dropped: Vec<_> = tunnels.dropped().collect();
        assert_eq!(dropped, [(Drop::TunnelFull, 2), (Drop::TunnelLate, 3)]);
        assert_eq!(tunnels.dropped().count(), 0);
    }
}
