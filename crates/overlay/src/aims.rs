//! What senders want of the repair of their flows, and how that reaches every link of a way.
//!
//! ```text
//!   socket, group ─▶ entry ── FlowAims ──▶ relay ── FlowAims ──▶ relay ──▶ exit
//!                      │ pilot of the lane    │ pilot of the lane   │ pilot
//! ```
//! An overlay header has no room for it. So a node tells each neighbour to which it sends packets of such a flow, with a hello,
//! and again from time to time ([`FLOW_AIM_LASTS`]); the neighbour does the same. A node of an earlier version skips the
//! message: from there on lanes are repaired by the settings of their nodes.
//!
//! An aim is a wish. What a lane may spend is bounded by its node's own settings, see [`crate::realtime::Pilot`].

use crate::flow::FlowKey;
use base::{Map, Time};
use wire::Aim;
use wire::control::{FLOW_AIM_LASTS, FlowAim};

/// Flows of which a node knows an aim. Choice: a quarter of the flows that it knows at all; what does not find room is
/// repaired by the node's settings.
const KNOWN_MOST: usize = 1_024;
/// Flows of which one neighbour is told.
const TOLD_MOST: usize = 256;
/// Flows that one hello tells of: it stays below 300 bytes.
pub(crate) const TOLD_AT_ONCE: usize = 16;

/// The aims of flows that begin or pass here.
#[derive(Debug, Default)]
pub(crate) struct FlowAims {
    known: Map<FlowKey, (Aim, Time)>,
}

impl FlowAims {
    /// The sender of a flow, or the node before, says what it wants. What is new finds no room where there are too many.
    pub(crate) fn note(&mut self, now: Time, key: FlowKey, aim: Aim) {
        let until = now + FLOW_AIM_LASTS;
        let has_room = self.known.len() < KNOWN_MOST;
        match self.known.get_mut(&key) {
            Some(known) => *known = (aim, until),
            None if aim.is_said() && has_room => {
                self.known.insert(key, (aim, until));
            }
            None => {}
        }
    }

    /// What the sender of a flow wants, if it says anything.
    #[inline]
    pub(crate) fn of(&self, key: &FlowKey) -> Option<Aim> {
        if self.known.is_empty() {
            return None;
        }
        self.known.get(key).map(|(aim, _)| *aim)
    }

    /// Forgets what was told long ago. To be called about once per second.
    pub(crate) fn expire(&mut self, now: Time) {
        self.known.retain(|_, (_, until)| *until > now);
    }
}

/// What one neighbour has been told.
#[derive(Debug, Default)]
pub(crate) struct ToldAims {
    told: Map<FlowKey, Told>,
}

#[derive(Debug)]
struct Told {
    aim: Aim,
    /// A packet of the flow has been sent to the neighbour last.
    sent: Time,
    told: Option<Time>,
}

impl ToldAims {
    /// A packet of a flow goes to the neighbour.
    pub(crate) fn on_sent(&mut self, now: Time, key: FlowKey, aim: Aim) {
        let has_room = self.told.len() < TOLD_MOST;
        match self.told.get_mut(&key) {
            Some(told) if told.aim == aim => told.sent = now,
            Some(told) => {
                *told = Told {
                    aim,
                    sent: now,
                    told: None,
                }
            }
            None if has_room => {
                let told = Told {
                    aim,
                    sent: now,
                    told: None,
                };
                self.told.insert(key, told);
            }
            None => {}
        }
    }

    /// What the neighbour is to be told now, by `tell`, which says whether it had room.
    pub(crate) fn tell(&mut self, now: Time, mut tell: impl FnMut(FlowAim) -> bool) {
        if self.told.is_empty() {
            return;
        }
        self.told
            .retain(|_, told| now.since(told.sent) < FLOW_AIM_LASTS);
        let again = FLOW_AIM_LASTS.div(3);
        let due = self
            .told
            .iter_mut()
            .filter(|(_, told)| told.told.is_none_or(|at| now.since(at) >= again));
        for (key, told) in due.take(TOLD_AT_ONCE) {
            let aim = FlowAim {
                source: (key.source, key.source_port),
                destination: (key.destination, key.destination_port),
                aim: told.aim,
            };
            if !tell(aim) {
                return;
            }
            told.told = Some(now);
        }
    }

    /// The neighbour knows nothing any more.
    pub(crate) fn forget(&mut self) {
        self.told.clear();
    }
}

/// The flow that it is about.
pub(crate) fn key_of(aim: &FlowAim) -> FlowKey {
    FlowKey {
        source: aim.source.0,
        source_port: aim.source.1,
        destination: aim.destination.0,
        destination_port: aim.destination.1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Duration, NodeAddr, VirtualPort};

    fn at(s: u64) -> Time {
        Time::ZERO + Duration::from_secs(s)
    }

    fn flow(n: u32) -> FlowKey {
        FlowKey {
            source: NodeAddr(n),
            source_port: VirtualPort(1),
            destination: NodeAddr(7),
            destination_port: VirtualPort(2),
        }
    }

    fn strict() -> Aim {
        Aim::new(Some(0.000_1), None).unwrap()
    }

    #[test]
    fn an_aim_holds_until_it_is_not_told_any_more() {
        let mut aims = FlowAims::default();
        aims.note(at(1), flow(1), Aim::default());
        assert_eq!(aims.of(&flow(1)), None, "it says nothing");
        aims.note(at(1), flow(1), strict());
        aims.expire(at(30));
        assert_eq!(aims.of(&flow(1)), Some(strict()));
        aims.expire(at(31));
        assert_eq!(aims.of(&flow(1)), None);
    }

    #[test]
    fn flows_without_end_take_bounded_memory() {
        let (mut aims, mut told) = (FlowAims::default(), ToldAims::default());
        for n in 0..10_000 {
            aims.note(at(1), flow(n), strict());
            told.on_sent(at(1), flow(n), strict());
        }
        assert_eq!((aims.known.len(), told.told.len()), (KNOWN_MOST, TOLD_MOST));
        assert_eq!(aims.of(&flow(0)), Some(strict()), "the first ones stay");
    }

    #[test]
    fn a_neighbour_is_told_at_once_then_now_and_then_and_of_what_still_passes() {
        let mut told = ToldAims::default();
        let count = |told: &mut ToldAims, s: u64| {
            let mut count = 0;
            told.tell(at(s), |_| {
                count += 1;
                true
            });
            count
        };
        told.on_sent(at(1), flow(1), strict());
        told.on_sent(at(1), flow(2), strict());
        assert_eq!(count(&mut told, 1), 2);
        assert_eq!(count(&mut told, 2), 0);
        told.on_sent(at(9), flow(1), strict());
        assert_eq!(count(&mut told, 11), 2);
        // What has changed does not wait.
        told.on_sent(at(12), flow(1), Aim::default());
        assert_eq!(count(&mut told, 12), 1);
        assert_eq!(count(&mut told, 32), 1, "the second flow has ended");
        let mut again = ToldAims::default();
        again.on_sent(at(1), flow(1), strict());
        again.tell(at(1), |_| false);
        assert_eq!(count(&mut again, 2), 1, "there was no room");
    }
}
