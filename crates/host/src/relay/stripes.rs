//! Transfers that wait for their stripes, and the stripes that arrive for them.
//!
//! ```text
//!   transfer: expect ─▶ ticket ─▶ dialler ─▶ stripes with a proof ─▶ claim ─▶ collect: all, in order
//! ```

use super::dial::PATIENCE;
use super::socket::Data;
use super::tls::random;
use super::transfer::{LOOK, Transfer};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{self, ErrorKind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use wire::relay::{TICKET_BYTES, TRANSFER_BYTES};

/// The transfers that wait.
#[derive(Default)]
pub(super) struct Stripes {
    waiting: Mutex<BTreeMap<[u8; TRANSFER_BYTES], Waiting>>,
}

struct Waiting {
    ticket: [u8; TICKET_BYTES],
    /// They arrive over the node's own socket; otherwise by TCP.
    is_local: bool,
    /// Each stripe may arrive once.
    wanted: Vec<bool>,
    stripes: SyncSender<(usize, Data)>,
}

/// A connection that says which transfer it belongs to.
pub(super) struct Stripe {
    pub(super) data: Data,
    pub(super) is_local: bool,
    pub(super) transfer: [u8; TRANSFER_BYTES],
    pub(super) stripe: u8,
    pub(super) proof: [u8; TICKET_BYTES],
}

/// A transfer that waits, until this value is dropped.
pub(super) struct Expected<'a> {
    all: &'a Stripes,
    transfer: [u8; TRANSFER_BYTES],
    coming: Receiver<(usize, Data)>,
    count: usize,
    /// The secret that the stripes have to prove to know.
    pub(super) ticket: [u8; TICKET_BYTES],
}

impl Stripes {
    /// Permits this many stripes; none if a transfer of this name already waits.
    pub(super) fn expect(
        &self,
        transfer: [u8; TRANSFER_BYTES],
        is_local: bool,
        count: usize,
    ) -> io::Result<Option<Expected<'_>>> {
        let ticket = random()?;
        let mut waiting = self.waiting();
        let Entry::Vacant(place) = waiting.entry(transfer) else {
            return Ok(None);
        };
        let (stripes, coming) = sync_channel(count);
        place.insert(Waiting {
            ticket,
            is_local,
            wanted: vec![true; count],
            stripes,
        });
        Ok(Some(Expected {
            all: self,
            transfer,
            coming,
            count,
            ticket,
        }))
    }

    /// Passes a stripe to the transfer that waits for it. Returns false if no transfer does.
    pub(super) fn claim(&self, came: Stripe) -> bool {
        let mut all = self.waiting();
        let Some(waiting) = all.get_mut(&came.transfer) else {
            return false;
        };
        let stripe = usize::from(came.stripe);
        let expected = relay::proof(&waiting.ticket, &came.transfer, came.stripe);
        // They are compared as digests, in constant time.
        let proven = blake3::Hash::from_bytes(expected) == came.proof;
        let is_right = proven && came.is_local == waiting.is_local;
        let wanted = waiting.wanted.get_mut(stripe).filter(|_| is_right);
        // The channel has room for all stripes that are wanted.
        wanted.is_some_and(std::mem::take) && waiting.stripes.try_send((stripe, came.data)).is_ok()
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<[u8; TRANSFER_BYTES], Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Expected<'_> {
    /// Waits for all stripes while the transfer runs, and returns them in order.
    pub(super) fn collect(self, transfer: &Transfer) -> io::Result<Vec<Data>> {
        let until = Instant::now() + PATIENCE;
        let mut come = BTreeMap::new();
        while come.len() < self.count {
            let left = until.saturating_duration_since(Instant::now());
            match self.coming.recv_timeout(left.min(LOOK)) {
                Ok((stripe, data)) => drop(come.insert(stripe, data)),
                Err(_) if transfer.has_failed() || left <= LOOK => {
                    return Err(ErrorKind::TimedOut.into());
                }
                Err(_) => {}
            }
        }
        Ok(come.into_values().collect())
    }
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        self.all.waiting().remove(&self.transfer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::socket::Socket;
    use std::os::unix::net::UnixStream;

    fn stripe(expected: &Expected<'_>, stripe: u8, is_local: bool) -> Stripe {
        let (near, _) = UnixStream::pair().unwrap();
        Stripe {
            data: Data::plain(Socket::Unix(near)),
            is_local,
            transfer: expected.transfer,
            stripe,
            proof: relay::proof(&expected.ticket, &expected.transfer, stripe),
        }
    }

    #[test]
    fn each_stripe_is_claimed_once_and_only_with_its_proof() {
        let stripes = Stripes::default();
        let expected = stripes.expect([1; 16], true, 2).unwrap().unwrap();
        let forged = Stripe {
            proof: [0; TICKET_BYTES],
            ..stripe(&expected, 0, true)
        };
        assert!(!stripes.claim(forged));
        assert!(!stripes.claim(stripe(&expected, 2, true)), "only two");
        assert!(!stripes.claim(stripe(&expected, 0, false)), "by TCP");
        assert!(stripes.claim(stripe(&expected, 1, true)));
        assert!(!stripes.claim(stripe(&expected, 1, true)), "again");
        assert!(
            stripes.claim(stripe(&expected, 0, true)),
            "the forged one did no harm"
        );
        let late = stripe(&expected, 0, true);
        assert_eq!(expected.collect(&Transfer::new(1)).unwrap().len(), 2);
        assert!(!stripes.claim(late), "nobody waits any more");
    }

    #[test]
    fn a_second_transfer_of_the_same_name_does_not_disturb_the_first() {
        let stripes = Stripes::default();
        let first = stripes.expect([1; 16], true, 1).unwrap().unwrap();
        assert!(stripes.expect([1; 16], true, 1).unwrap().is_none());
        assert!(stripes.claim(stripe(&first, 0, true)));
        assert_eq!(first.collect(&Transfer::new(1)).unwrap().len(), 1);
        assert!(stripes.expect([1; 16], true, 1).unwrap().is_some());
    }
}
