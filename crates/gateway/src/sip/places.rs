//! Places for transactions of those who ask, so that none of them has all of the memory.
//!
//! The SIP stack keeps a transaction while it is, and its last answer for [`LINGER`] after that, for
//! repetitions. Both count. Hosts share the places as [`Slots`] has it. When nothing is left the oldest of
//! those answers are forgotten, of the host that has most.

use crate::slots::{Slot, Slots};
use core::time::Duration;
use net::places::Origin;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Places, of some 4 kB each. A call takes one for 64 s by its INVITE, and one for 32 s by its BYE: 66
/// calls a second of one host, which may have a half.
const MOST: usize = 12_800;
/// As long as the stack remembers: 64 T1 (RFC 3261 §17.2.2).
const LINGER: Duration = Duration::from_secs(32);
/// Refusals a second: each is remembered too.
const REFUSALS_PER_S: u32 = 32;

/// The places.
#[derive(Debug)]
pub(crate) struct Places {
    slots: Slots<Origin>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Of transactions that are over, in the order of their ends.
    lingering: VecDeque<(Instant, Slot<Origin>)>,
    /// Refusals since then.
    refused: Option<(Instant, u32)>,
}

/// One place, until some time after this is dropped.
pub(crate) struct Place {
    slot: Option<Slot<Origin>>,
    state: Arc<Mutex<State>>,
    forget: Option<Forget>,
}

/// Has the stack forget an answer.
pub(crate) type Forget = Box<dyn FnOnce() + Send>;

/// There is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// And this may be said.
    Told,
    /// And so many were told already that this one is not.
    Untold,
}

impl Places {
    pub(crate) fn new() -> Places {
        Places {
            slots: Slots::new(MOST),
            state: Arc::default(),
        }
    }

    /// One for a request of this host. Once that is over `forget` may be called, for another one.
    pub(crate) fn take(&self, of: Origin, forget: Forget) -> Result<Place, Full> {
        self.take_at(of, forget, Instant::now())
    }

    fn take_at(&self, of: Origin, forget: Forget, now: Instant) -> Result<Place, Full> {
        let mut state = locked(&self.state);
        // Those that were forgotten are among them still, so there may be more than places.
        while let Some((at, _)) = state.lingering.front()
            && (now >= *at + LINGER || state.lingering.len() > MOST)
        {
            state.lingering.pop_front();
        }
        if let Some(slot) = self.slots.take_for(of) {
            return Ok(Place {
                slot: Some(slot),
                state: Arc::clone(&self.state),
                forget: Some(forget),
            });
        }
        let (since, count) = state.refused.unwrap_or((now, 0));
        let is_over = now.saturating_duration_since(since) >= Duration::from_secs(1);
        let (since, count) = if is_over { (now, 0) } else { (since, count) };
        state.refused = Some((since, count + 1));
        match count < REFUSALS_PER_S {
            true => Err(Full::Told),
            false => Err(Full::Untold),
        }
    }
}

impl core::fmt::Debug for Place {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Place").field(&self.slot).finish()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            if let Some(forget) = self.forget.take() {
                slot.may_end(forget);
            }
            let mut state = locked(&self.state);
            state.lingering.push_back((Instant::now(), slot));
        }
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(n: u8) -> Origin {
        Origin::of([192, 0, 2, n].into())
    }

    fn flood(places: &Places, of: Origin, now: Instant) -> Vec<Place> {
        std::iter::from_fn(|| places.take_at(of, Box::new(|| ()), now).ok()).collect()
    }

    #[test]
    fn a_flood_leaves_room_and_what_is_over_counts_for_as_long_as_it_is_kept() {
        let (places, now) = (Places::new(), Instant::now());
        let take = |n, now| places.take_at(host(n), Box::new(|| ()), now);
        let held = flood(&places, host(0), now);
        assert_eq!(held.len(), MOST / 2);
        assert!(take(9, now).is_ok(), "another host");
        // It is over, and kept by the stack for a while.
        drop(held);
        assert!(take(0, now).is_err());
        let told = (0..100).filter(|_| take(0, now).err() == Some(Full::Told));
        assert!(told.count() < 32);
        let later = Instant::now() + LINGER;
        assert!(take(0, later).is_ok());
        // Of the others nothing is left, and of this one what was just dropped.
        assert_eq!(locked(&places.state).lingering.len(), 1);
    }

    #[test]
    fn a_flood_under_many_addresses_has_its_answers_forgotten_for_others() {
        let (places, now) = (Places::new(), Instant::now());
        // One after the other they take all.
        (0..100).for_each(|n| drop(flood(&places, host(n), now)));
        for _ in 0..100 {
            assert!(places.take_at(host(200), Box::new(|| ()), now).is_ok());
        }
        assert!(places.slots.taken() <= MOST);
        assert!(locked(&places.state).lingering.len() <= MOST + 1);
    }
}
