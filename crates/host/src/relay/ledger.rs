//! The past and present transfers of a node's relay service, for its status and its metrics.
//!
//! ```text
//!   Service ── begin ──▶ Account ── bytes, and once per second a rate and segments ──▶ end: done, or failed
//!      └────── refuse, turn_away ──▶ Ledger ── status ──▶ whoever asks
//! ```
//! The threads that move bytes count them, once per frame or splice, in two atomics of their transfer (`account`); the
//! ledger adds them up. An account is also a transfer's place among those in which the service takes part at the same
//! time.

use super::account::{Account, Role};
use super::allow::Allowed;
use super::failure::{Failure, FailureKind};
use super::socket::Socket;
use crate::status::BulkStatus;
use base::NodeAddr;
use net::places::{Places, Why};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::relay::Open;

/// Why a connection was closed before it said what it wants, or because of what it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnedAway {
    /// Its address has the largest permitted number of connections that are greeting.
    Address,
    /// It lost its place to a later connection.
    Displaced,
    /// The other side closed it.
    Ended,
    /// It took too long.
    Late,
    /// It sent something that is not understood.
    Malformed,
    /// There was no thread or descriptor for it.
    NoRoom,
    /// It sent nothing.
    Silent,
    /// It is a stripe for which no transfer waits, or without its proof.
    Unclaimed,
    /// It wants to carry a link, but the peer is no node of this network, or this node takes no links over TCP.
    Stranger,
}

impl TurnedAway {
    /// All reasons, in the order of their numbers.
    pub const ALL: [TurnedAway; 9] = [
        TurnedAway::Address,
        TurnedAway::Displaced,
        TurnedAway::Ended,
        TurnedAway::Late,
        TurnedAway::Malformed,
        TurnedAway::NoRoom,
        TurnedAway::Silent,
        TurnedAway::Unclaimed,
        TurnedAway::Stranger,
    ];

    /// Converts the reason for which a connection has no place, or lost it.
    pub(super) fn from_place(why: Why) -> TurnedAway {
        match why {
            Why::Address => TurnedAway::Address,
            Why::Late => TurnedAway::Late,
            Why::NoRoom => TurnedAway::NoRoom,
            Why::Silent => TurnedAway::Silent,
        }
    }

    /// Returns a short stable word for metrics and JSON.
    pub fn label(self) -> &'static str {
        match self {
            TurnedAway::Address => "address",
            TurnedAway::Displaced => "displaced",
            TurnedAway::Ended => "ended",
            TurnedAway::Late => "late",
            TurnedAway::Malformed => "malformed",
            TurnedAway::NoRoom => "no-room",
            TurnedAway::Silent => "silent",
            TurnedAway::Stranger => "stranger",
            TurnedAway::Unclaimed => "unclaimed",
        }
    }
}

/// Why no transfer is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotOne {
    #[error("this node has a part in no such transfer: `sinew status` shows those under way")]
    None,
    #[error("write 8 hexadecimal digits of its name or more, as `sinew status` shows them")]
    Short,
    #[error("the names of several transfers begin so: write more of it")]
    Several,
}

/// Number of digits of a transfer's name that identify it: as many as the status shows. Therefore, a missing or short
/// argument cannot cancel a wrong transfer.
const DIGITS_MIN: usize = 8;

/// The limits of a service, and what it dials. They may change while it runs; running transfers continue.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Largest number of running transfers.
    pub transfers: usize,
    /// Number of bytes of a probe that measures what a segment carries.
    pub probe_bytes: u64,
    /// The addresses that are dialled for other nodes, in addition to known nodes.
    pub allow: Allowed,
}

/// The books of a relay service.
#[derive(Debug)]
pub struct Ledger {
    here: NodeAddr,
    limits: Mutex<Limits>,
    greeting: Arc<Places<Arc<Socket>>>,
    turned_away: [AtomicU64; TurnedAway::ALL.len()],
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    next: u64,
    running: BTreeMap<u64, Arc<Account>>,
    done: u64,
    failed: BTreeMap<&'static str, u64>,
    refused: BTreeMap<&'static str, u64>,
    /// The sums of transfers that are over.
    sums: Sums,
}

/// Number of bytes, by what was done with them.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    passed: u64,
    taken: u64,
    given: u64,
}

impl Ledger {
    /// Creates the books of a node with these limits.
    pub(super) fn new(
        here: NodeAddr,
        limits: Limits,
        greeting: Arc<Places<Arc<Socket>>>,
    ) -> Ledger {
        Ledger {
            here,
            limits: Mutex::new(limits),
            greeting,
            turned_away: Default::default(),
            books: Mutex::default(),
        }
    }

    /// Enters a transfer that `before` requests. Returns none if the largest number is already running.
    pub(super) fn begin(self: &Arc<Ledger>, open: &Open<'_>, before: NodeAddr) -> Option<Entered> {
        let limit = self.limit();
        let mut books = self.books();
        if books.running.len() >= limit {
            return None;
        }
        let (place, account) = (books.next, Arc::new(Account::new(open, before)));
        books.next += 1;
        books.running.insert(place, Arc::clone(&account));
        Some(Entered {
            ledger: Arc::clone(self),
            place,
            account,
        })
    }

    /// Returns the largest number of running transfers.
    pub(super) fn limit(&self) -> usize {
        self.limits().transfers
    }

    /// Returns the limits for transfers that begin now.
    pub(super) fn limits(&self) -> Limits {
        let limits = self.limits.lock();
        limits.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the limits from now on.
    pub(crate) fn set_limits(&self, limits: Limits) {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// Returns the number of running transfers.
    pub(super) fn active(&self) -> usize {
        self.books().running.len()
    }

    /// Notes that a transfer was refused before it began.
    pub(super) fn refuse(&self, kind: FailureKind) {
        *self.books().refused.entry(kind.label()).or_default() += 1;
    }

    /// Notes that a connection was closed.
    pub(super) fn turn_away(&self, why: TurnedAway) {
        self.turned_away[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Cancels the running transfer whose name begins with this, as the status shows it.
    pub(crate) fn cancel(&self, beginning: &str) -> Result<(), NotOne> {
        let is_digit = |b: u8| b.is_ascii_hexdigit();
        if beginning.len() < DIGITS_MIN || !beginning.bytes().all(is_digit) {
            return Err(NotOne::Short);
        }
        let beginning = beginning.to_ascii_lowercase();
        let one = {
            let books = self.books();
            let mut called = books.running.values().filter(|a| a.is_called(&beginning));
            let one = called.next().ok_or(NotOne::None)?;
            match called.next() {
                Some(_) => return Err(NotOne::Several),
                None => Arc::clone(one),
            }
        };
        // Other nodes are informed, which may take a moment.
        one.cancel(self.here);
        Ok(())
    }

    /// Returns the present status.
    pub fn status(&self) -> BulkStatus {
        let turned_away = TurnedAway::ALL.map(|why| {
            let count = self.turned_away[why as usize].load(Ordering::Relaxed);
            (why.label(), count)
        });
        let greeting = self.greeting.len();
        let books = self.books();
        let mut sums = books.sums;
        for account in books.running.values() {
            sums.add(account);
        }
        let running = books.running.values();
        BulkStatus {
            active: books.running.len(),
            limit: self.limit(),
            done: books.done,
            failed: books.failed.clone(),
            refused: books.refused.clone(),
            greeting,
            turned_away: turned_away.into_iter().filter(|(_, n)| *n > 0).collect(),
            passed_bytes: sums.passed,
            taken_bytes: sums.taken,
            given_bytes: sums.given,
            transfers: running.map(|account| account.status()).collect(),
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sums {
    fn add(&mut self, account: &Account) {
        let (came, went) = account.traffic().bytes();
        match account.role() {
            Role::Relay => self.passed += went,
            Role::Source => self.given += went,
            Role::Sink => {
                self.taken += came;
                // A sink may also pass data on; at the end of the route this is zero.
                self.passed += went;
            }
        }
    }
}

/// A transfer's place in the books, until this value is dropped.
pub(super) struct Entered {
    ledger: Arc<Ledger>,
    place: u64,
    pub(super) account: Arc<Account>,
}

impl Entered {
    /// Notes that it was refused before anything was moved.
    pub(super) fn refuse(self, why: &Failure) {
        self.ledger.refuse(why.kind);
    }

    /// Notes that it is over.
    pub(super) fn end(self, how: &Result<(), Failure>) {
        let mut books = self.ledger.books();
        match how {
            Ok(()) => books.done += 1,
            Err(why) => *books.failed.entry(why.kind.label()).or_default() += 1,
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut books = self.ledger.books();
        books.running.remove(&self.place);
        books.sums.add(&self.account);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::bytes::Writer;
    use wire::relay::{Hop, HopRepr};

    const BEFORE: NodeAddr = NodeAddr(0x0a07_0001);
    const HERE: NodeAddr = NodeAddr(0x0a07_0002);
    const BEHIND: NodeAddr = NodeAddr(0x0a07_0003);

    fn limits(transfers: usize) -> Limits {
        Limits {
            transfers,
            probe_bytes: 0,
            allow: Allowed::default(),
        }
    }

    fn ledger(limit: usize) -> Arc<Ledger> {
        let places = Places::new(1, 1);
        Arc::new(Ledger::new(HERE, limits(limit), Arc::new(places)))
    }

    /// Enters a transfer with these properties: whether it ends here, whether it goes on, and whether it is a pull.
    fn enter(ledger: &Arc<Ledger>, ends: bool, goes_on: bool, pull: bool) -> Option<Entered> {
        let hop = |node, ends: bool, below: &[u8]| {
            let mut bytes = [0; 64];
            let hop = HopRepr {
                node,
                stripes: 1,
                adapts: false,
                endpoint: "",
                path: ends.then_some(b"copy"),
                discard: false,
                below,
            };
            let mut w = Writer::new(&mut bytes);
            hop.emit(&mut w).unwrap();
            let len = w.len();
            bytes[..len].to_vec()
        };
        let below = match goes_on {
            true => hop(BEHIND, true, &[]),
            false => Vec::new(),
        };
        let route = hop(HERE, ends, &below);
        let open = Open {
            transfer: [0xa5; 16],
            pull,
            plain: false,
            scavenge: true,
            fresh: false,
            keep: false,
            delete: false,
            spare: false,
            dry: false,
            attributes: false,
            checksum: false,
            congestion: "",
            certificate: &[],
            ordered: &[],
            route: Hop::parse(&route).unwrap(),
        };
        ledger.begin(&open, BEFORE)
    }

    #[test]
    fn bytes_count_by_what_the_node_does_and_stay_when_the_transfer_is_over() {
        let ledger = ledger(8);
        let mut all = Vec::new();
        for (ends, goes_on, pull) in [
            (false, true, false),
            (false, true, true),
            (true, true, false),
            (true, false, true),
        ] {
            let entered = enter(&ledger, ends, goes_on, pull).unwrap();
            entered.account.traffic().on_came(1_000);
            entered.account.traffic().on_went(1 << all.len());
            all.push(entered);
        }
        let check = || {
            let status = ledger.status();
            let sums = (status.passed_bytes, status.taken_bytes, status.given_bytes);
            assert_eq!(sums, (1 + 2 + 4, 1_000, 8));
            status
        };
        let status = check();
        assert_eq!((status.active, status.limit), (4, 8));
        let of = |at: usize| {
            let t = &status.transfers[at];
            (t.role, t.from.as_deref(), t.to.join(" "), t.bytes)
        };
        assert_eq!(of(0), ("relay", Some("10.7.0.1"), "10.7.0.3".into(), 1));
        assert_eq!(of(1), ("relay", Some("10.7.0.3"), "10.7.0.1".into(), 2));
        assert_eq!(of(2), ("sink", Some("10.7.0.1"), "10.7.0.3".into(), 1_000));
        assert_eq!(of(3), ("source", None, "10.7.0.1".into(), 8));
        assert!(status.transfers[0].id == "a5".repeat(16) && status.transfers[0].scavenge);
        // The beginning matches all of them.
        assert_eq!(ledger.cancel("a5a5a5a5"), Err(NotOne::Several));
        assert_eq!(ledger.cancel("b5b5b5b5"), Err(NotOne::None));
        all.truncate(1);
        for short in ["", "a5a5a5a", "a5a5a5a5-"] {
            assert_eq!(ledger.cancel(short), Err(NotOne::Short), "{short}");
        }
        assert!(!all[0].account.transfer().has_failed());
        assert_eq!(ledger.cancel("A5a5a5a5a"), Ok(()));
        let failure = all[0].account.transfer().failure().unwrap();
        assert_eq!((failure.node, failure.kind), (HERE, FailureKind::Cancelled));
        all.clear();
        assert!(check().transfers.is_empty());
    }

    #[test]
    fn there_is_room_for_so_many_and_each_end_is_counted() {
        let ledger = ledger(2);
        let first = enter(&ledger, false, true, false).unwrap();
        let second = enter(&ledger, false, true, false).unwrap();
        assert!(enter(&ledger, false, true, false).is_none());
        first.end(&Ok(()));
        let third = enter(&ledger, true, false, false).unwrap();
        second.end(&Err(Failure::new(HERE, FailureKind::Broken, "it broke")));
        third.refuse(&Failure::new(HERE, FailureKind::Forbidden, "outside"));
        ledger.turn_away(TurnedAway::Silent);
        let status = ledger.status();
        assert_eq!((status.active, status.done), (0, 1));
        assert_eq!(status.failed, [("broken", 1)].into());
        assert_eq!(status.refused, [("forbidden", 1)].into());
        assert_eq!(status.turned_away, [("silent", 1)].into());
    }

    #[test]
    fn every_reason_stands_at_its_number() {
        for (place, why) in TurnedAway::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, place, "{}", why.label());
        }
    }
}
