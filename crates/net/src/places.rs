//! Places for connections that have not yet said what they want.
//!
//! ```text
//!   take ── the source has its share ─────────▶ refused
//!     │ └── all are taken ──▶ the longest silent one goes, else the one that greets for longest
//!     ▼
//!   silent ── first byte ──▶ greeting ── leave        overdue: both have their time, then they go
//! ```
//! This is a pure table: it knows no sockets and no clock. Nobody waits for a place, so a listener never blocks, and a
//! stranger can delay others only for as long as it takes them to displace it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a connection may be silent. A client sends something as soon as it is connected. Choice: if its first
/// segment is lost, TCP sends it again after 200 ms to 1 s, or after 3 s if the handshake was repeated, too [RFC 6298
/// §5.7]; a round trip is added.
const SILENCE: Duration = Duration::from_secs(4);
/// How long a connection may take to say what it wants, from its first byte on. Choice: handshake and request are two
/// answers, for each of which a dialler has 8 s.
const GREETING: Duration = Duration::from_secs(16);

/// The origin of a connection, as the unit of shares.
///
/// Choice: an IPv4 address is one host, or one site that shares it and its conflicts; with IPv6, a host has a /64 to
/// itself and may use any address in it [RFC 4291 §2.5.4].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The host itself, through the operator's socket.
    Operator,
    /// The host with this address.
    V4([u8; 4]),
    /// The host with this network.
    V6([u8; 8]),
}

/// Why a connection gets no place, or has lost it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its origin already has its share.
    Address,
    /// It took too long.
    Late,
    /// Too many connections are still ending.
    NoRoom,
    /// It sent nothing.
    Silent,
}

impl Origin {
    /// Returns the origin of an address.
    pub fn of(address: IpAddr) -> Origin {
        match address.to_canonical() {
            IpAddr::V4(address) => Origin::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Origin::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

/// The places. `H` is a handle to end a connection.
#[derive(Debug)]
pub struct Places<H> {
    most: usize,
    share: usize,
    table: Mutex<Table<H>>,
}

#[derive(Debug)]
struct Table<H> {
    next: u64,
    /// The places in use, in the order of arrival.
    taken: BTreeMap<u64, Place<H>>,
    /// Number of connections that a thread serves, including those that have lost their place.
    served: usize,
}

#[derive(Debug)]
struct Place<H> {
    origin: Origin,
    handle: H,
    until: Instant,
    is_silent: bool,
}

/// A connection that got a place.
#[derive(Debug)]
pub struct LetIn<H> {
    /// Its place.
    pub place: u64,
    /// The connection that has to give up its place.
    pub displaced: Option<H>,
}

impl<H> Places<H> {
    /// Creates this many places, of which one origin may have a share.
    pub fn new(most: usize, share: usize) -> Places<H> {
        Places {
            most,
            share,
            table: Mutex::new(Table {
                next: 0,
                taken: BTreeMap::new(),
                served: 0,
            }),
        }
    }

    /// Takes a place for a connection, unless its origin has its share.
    pub fn take(&self, origin: Origin, handle: H, now: Instant) -> Result<LetIn<H>, Why> {
        let mut table = self.table();
        let places = table.taken.values();
        if places.filter(|place| place.origin == origin).count() >= self.share {
            return Err(Why::Address);
        }
        // A displaced connection ends within a moment. Choice: as many may be ending as are greeting.
        if table.served >= 2 * self.most {
            return Err(Why::NoRoom);
        }
        let displaced = match table.taken.len() < self.most {
            true => None,
            false => table.displace(),
        };
        let place = table.next;
        table.next += 1;
        table.served += 1;
        let is_silent = origin != Origin::Operator;
        let until = now + if is_silent { SILENCE } else { GREETING };
        table.taken.insert(
            place,
            Place {
                origin,
                handle,
                until,
                is_silent,
            },
        );
        Ok(LetIn { place, displaced })
    }

    /// Notes that its first byte has arrived.
    pub fn spoke(&self, place: u64, now: Instant) {
        if let Some(place) = self.table().taken.get_mut(&place) {
            place.is_silent = false;
            place.until = now + GREETING;
        }
    }

    /// Notes that a connection leaves. Returns false if it had lost its place before.
    pub fn leave(&self, place: u64) -> bool {
        let mut table = self.table();
        table.served -= 1;
        table.taken.remove(&place).is_some()
    }

    /// Makes room if the process has run out of descriptors.
    pub fn displace(&self) -> Option<H> {
        self.table().displace()
    }

    /// Removes the connections whose time is over, and returns why.
    pub fn overdue(&self, now: Instant) -> Vec<(H, Why)> {
        let mut table = self.table();
        let over = table.taken.iter().filter(|(_, place)| place.until <= now);
        let over: Vec<u64> = over.map(|(number, _)| *number).collect();
        let over = over.iter().filter_map(|number| table.taken.remove(number));
        over.map(|place| {
            let why = match place.is_silent {
                true => Why::Silent,
                false => Why::Late,
            };
            (place.handle, why)
        })
        .collect()
    }

    /// Returns when the time of the next connection is over.
    pub fn next_until(&self) -> Option<Instant> {
        self.table().taken.values().map(|place| place.until).min()
    }

    /// Returns true if no place is taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many places are taken.
    pub fn len(&self) -> usize {
        self.table().taken.len()
    }

    fn table(&self) -> MutexGuard<'_, Table<H>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H> Table<H> {
    fn displace(&mut self) -> Option<H> {
        let silent = self.taken.iter().find(|(_, place)| place.is_silent);
        let first = silent.or_else(|| self.taken.iter().next());
        let first = *first?.0;
        self.taken.remove(&first).map(|place| place.handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(last: u8) -> Origin {
        Origin::of([192, 0, 2, last].into())
    }

    #[test]
    fn an_origin_has_a_share_and_others_have_the_rest() {
        let (places, now) = (Places::new(8, 3), Instant::now());
        let taken: Vec<u64> = (0..3)
            .map(|n| places.take(from(1), n, now).unwrap().place)
            .collect();
        let refused = places.take(from(1), 9, now);
        assert_eq!(refused.unwrap_err(), Why::Address);
        assert!(places.take(from(2), 4, now).unwrap().displaced.is_none());
        // A connection that leaves makes room for the next one of the same origin.
        assert!(places.leave(taken[1]));
        assert!(places.take(from(1), 5, now).is_ok());
        assert_eq!(places.len(), 4);
    }

    #[test]
    fn the_longest_silent_one_goes_and_then_the_one_that_greets_for_longest() {
        let (places, now) = (Places::new(3, 3), Instant::now());
        let taken: Vec<u64> = (0..3)
            .map(|n| places.take(from(n), n, now).unwrap().place)
            .collect();
        places.spoke(taken[0], now);
        let third = places.take(from(3), 3, now).unwrap();
        assert_eq!(third.displaced, Some(1));
        places.spoke(taken[2], now);
        places.spoke(third.place, now);
        let fourth = places.take(from(4), 4, now).unwrap();
        assert_eq!(fourth.displaced, Some(0));
        // The displaced connection learns it when its thread ends, and is not counted twice.
        assert!(!places.leave(taken[0]) && places.leave(taken[2]));
        assert_eq!(places.len(), 2);
    }

    #[test]
    fn silence_and_greeting_have_their_time() {
        let (places, now) = (Places::new(8, 8), Instant::now());
        let silent = places.take(from(1), "silent", now).unwrap().place;
        let late = places.take(from(2), "late", now).unwrap().place;
        places.take(Origin::Operator, "operator", now).unwrap();
        assert_eq!(places.next_until(), Some(now + SILENCE));
        assert!(places.overdue(now).is_empty());
        places.spoke(late, now + SILENCE);
        let over = places.overdue(now + SILENCE);
        assert_eq!(over, [("silent", Why::Silent)]);
        assert_eq!(places.next_until(), Some(now + GREETING));
        let over = places.overdue(now + SILENCE + GREETING);
        assert_eq!(over, [("late", Why::Late), ("operator", Why::Late)]);
        assert!(!places.leave(silent) && places.is_empty());
    }

    #[test]
    fn those_that_are_ending_are_bounded_too() {
        let (places, now) = (Places::new(2, 2), Instant::now());
        let first = places.take(from(0), 0, now).unwrap().place;
        for n in 1..4 {
            places.take(from(n), n, now).unwrap();
        }
        let refused = places.take(from(9), 9, now);
        assert_eq!(refused.unwrap_err(), Why::NoRoom);
        places.leave(first);
        assert!(places.take(from(9), 9, now).is_ok());
    }

    #[test]
    fn a_network_of_64_bits_is_one_origin_and_a_mapped_address_is_what_it_maps() {
        let of = |text: &str| Origin::of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:ffff:ffff:ffff"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), from(1));
        assert_ne!(from(1), from(2));
    }
}
