//! The destinations for which the node has reported that there is no room.

use crate::{Error, Target};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use wire::ipc::{ErrorCode, Room};

/// The node repeats the report every second: after this time without a report, the refusal is over.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3);
/// Number of destinations that are remembered. If more are refused at once, the program learns only about some.
const REFUSED_MAX: usize = 4_096;

/// How often a sender checks for reports of the node.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The destinations for which there is no room, by the own port and the target.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    refused: Mutex<BTreeMap<(u16, Target), Instant>>,
    looked: Mutex<Option<Instant>>,
}

impl Rooms {
    /// Takes a report of the node.
    pub(crate) fn hear(&self, room: &Room) {
        let to = Target {
            node: room.to.node,
            port: room.to.port,
        };
        let key = (room.from.0, to);
        let now = Instant::now();
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if room.is_there {
            refused.remove(&key);
            return;
        }
        if refused.len() >= REFUSED_MAX {
            refused.retain(|_, told| now.duration_since(*told) < FORGOTTEN_AFTER);
        }
        if refused.len() < REFUSED_MAX {
            refused.insert(key, now);
        }
    }

    /// Returns true if it is time to check again.
    pub(crate) fn is_due(&self) -> bool {
        let now = Instant::now();
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = looked.is_none_or(|at| now.duration_since(at) >= LOOK_EVERY);
        if is_due {
            *looked = Some(now);
        }
        is_due
    }

    /// Returns true if a flow for which `concerns` holds is refused.
    pub(crate) fn refuse(&self, concerns: impl Fn(u16, Target) -> bool) -> bool {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused
            .iter()
            .any(|((from, to), told)| concerns(*from, *to) && told.elapsed() < FORGOTTEN_AFTER)
    }
}

/// Returns the error for a sender.
pub(crate) fn no_room(to: Target) -> Error {
    Error::Refused {
        code: ErrorCode::NoRoom,
        text: format!(
            "a link on the way to {to} has no room for this flow: `sinew flows` names it"
        ),
    }
}
