//! The wishes of senders for the repair of their flows, and the way in which these wishes reach every link of a path.
//!
//! ```text
//!   socket, group ─▶ entry ── FlowAims ──▶ relay ── FlowAims ──▶ relay ──▶ exit
//!                      │ pilot of the lane    │ pilot of the lane   │ pilot
//! ```
//! An overlay header has no room for an aim. So a node sends the aims of a flow to each neighbour to which it sends
//! packets of the flow: with a hello, and again from time to time ([`FLOW_AIM_LASTS`]). The neighbour does the same. A
//! node of an earlier version skips the message; from there on, lanes are repaired by the settings of their nodes.
//!
//! An aim is a wish. The settings of a node limit what its lanes may spend, see [`crate::realtime::Pilot`].

use crate::flow::FlowKey;
use base::{ClientId, Map, NodeAddr, Time};
use graph::protection::{ALL, TARGET};
use wire::Aim;
use wire::control::{FLOW_AIM_LASTS, FlowAim};
use wire::data::Header;

/// Maximum number of flows whose aim a node knows. Choice: a quarter of the flows that a node knows at all. Further
/// flows are repaired by the node's settings.
const KNOWN_MOST: usize = 1_024;
/// The same for one client or one neighbour: the number of flows that a node reports to one neighbour.
const KNOWN_OF_ONE: usize = TOLD_MOST;
/// Maximum number of flows that a node reports to one neighbour.
const TOLD_MOST: usize = 256;
/// Number of flows in one hello, so that the hello stays below 300 bytes.
pub(crate) const TOLD_AT_ONCE: usize = 16;
/// A new aim is sent with this many hellos, because a hello may be lost.
const TIMES: u8 = 3;

/// The origin of an aim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Teller {
    /// A client of this node, for a flow that begins here.
    Client(ClientId),
    /// A neighbour, for a flow that passes.
    Neighbour(NodeAddr),
}

/// The aims of flows that begin or pass here.
#[derive(Debug, Default)]
pub(crate) struct FlowAims {
    known: Map<FlowKey, Known>,
    /// Number of known aims by origin.
    of_one: Map<Teller, usize>,
}

#[derive(Debug)]
struct Known {
    aim: Aim,
    until: Time,
    by: Teller,
}

impl FlowAims {
    /// Notes what the sender of a flow, or a neighbour, wants. A new flow is ignored if there are too many.
    ///
    ///  Any member can send an aim for any flow. So, while the aim of a passing flow is valid, only the origin that
    /// sent it first can change it. If another origin sends the same aim, the aim lasts longer: the flow then takes
    /// another path.
    pub(crate) fn note(&mut self, now: Time, key: FlowKey, aim: Aim, by: Teller) {
        if self.known.is_empty() && !aim.is_said() {
            return;
        }
        let until = now + FLOW_AIM_LASTS;
        let has_room = self.known.len() < KNOWN_MOST;
        match self.known.get_mut(&key) {
            Some(known) if known.aim == aim && aim.is_said() => known.until = until,
            // A withdrawn aim is forgotten when all neighbours have been notified.
            Some(known) if known.aim == aim => {}
            Some(known) => {
                let may = known.by == by || matches!(by, Teller::Client(_)) || known.until <= now;
                if may {
                    *known = Known { aim, until, by };
                }
            }
            None if aim.is_said() && has_room => {
                let of_one = self.of_one.entry(by).or_default();
                if *of_one < KNOWN_OF_ONE {
                    *of_one += 1;
                    self.known.insert(key, Known { aim, until, by });
                }
            }
            None => {}
        }
    }

    /// Returns what the sender of a flow wants, if it has an aim.
    #[inline]
    pub(crate) fn of(&self, key: &FlowKey) -> Option<Aim> {
        if self.known.is_empty() {
            return None;
        }
        self.known.get(key).map(|known| known.aim)
    }

    /// Returns the aim of the flow of a packet.
    #[inline]
    pub(crate) fn of_packet<B: AsRef<[u8]>>(&self, header: &Header<B>) -> Option<(FlowKey, Aim)> {
        if self.known.is_empty() {
            return None;
        }
        let key = FlowKey::of(header);
        self.of(&key).map(|aim| (key, aim))
    }

    /// Forgets old aims. To be called about once per second.
    pub(crate) fn expire(&mut self, now: Time) {
        if self.known.is_empty() {
            return;
        }
        self.known.retain(|_, known| known.until > now);
        self.of_one.clear();
        for known in self.known.values() {
            *self.of_one.entry(known.by).or_default() += 1;
        }
    }
}

/// The aims that one neighbour has been sent.
#[derive(Debug, Default)]
pub(crate) struct ToldAims {
    told: Map<FlowKey, Told>,
}

#[derive(Debug)]
struct Told {
    aim: Aim,
    /// When a packet of the flow was last sent to the neighbour.
    sent: Time,
    /// When the neighbour was last sent the aim, and how often, up to [`TIMES`].
    told: Time,
    times: u8,
}

impl ToldAims {
    /// Notes that a packet of a flow goes to the neighbour.
    pub(crate) fn on_sent(&mut self, now: Time, key: FlowKey, aim: Aim) {
        let has_room = self.told.len() < TOLD_MOST;
        let new = Told {
            aim,
            sent: now,
            told: now,
            times: 0,
        };
        match self.told.get_mut(&key) {
            Some(told) if told.aim == aim => told.sent = now,
            Some(told) => *told = new,
            None if has_room => {
                self.told.insert(key, new);
            }
            None => {}
        }
    }

    /// Passes the aims that the neighbour is to be sent now to `tell`, which returns whether it had room. The aims that
    /// were sent least often come first.
    pub(crate) fn tell(&mut self, now: Time, mut tell: impl FnMut(FlowAim) -> bool) {
        if self.told.is_empty() {
            return;
        }
        self.told
            .retain(|_, told| now.since(told.sent) < FLOW_AIM_LASTS);
        let again = FLOW_AIM_LASTS.div(3);
        let mut left = TOLD_AT_ONCE;
        for times in 0..=TIMES {
            let due = self.told.iter_mut().filter(|(_, told)| {
                let is_again = times < TIMES || now.since(told.told) >= again;
                // An aim that has just been sent for the first time is due for the second time with the next hello.
                told.times == times && is_again && (times == 0 || told.told < now)
            });
            for (key, told) in due {
                if left == 0 {
                    return;
                }
                let aim = FlowAim {
                    source: (key.source, key.source_port),
                    destination: (key.destination, key.destination_port),
                    aim: told.aim,
                };
                if !tell(aim) {
                    return;
                }
                (told.told, told.times) = (now, (told.times + 1).min(TIMES));
                left -= 1;
            }
        }
    }

    /// The neighbour has lost its state.
    pub(crate) fn forget(&mut self) {
        self.told.clear();
    }
}

/// Returns true if less is to be repaired than nodes promise each other. Packet loss is then not held against a relay.
pub(crate) fn asks_less(aim: Aim) -> bool {
    let promised = TARGET as f64 / ALL as f64;
    aim.most().is_some() || aim.target().is_some_and(|target| target > promised)
}

/// Returns the flow of an aim.
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
    use base::{Duration, VirtualPort};

    const OWN: Teller = Teller::Client(ClientId(1));
    const FIRST: Teller = Teller::Neighbour(NodeAddr(8));
    const OTHER: Teller = Teller::Neighbour(NodeAddr(9));

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

    fn bare() -> Aim {
        Aim::new(None, Some(0.0)).unwrap()
    }

    #[test]
    fn an_aim_holds_until_it_is_not_told_any_more() {
        let mut aims = FlowAims::default();
        aims.note(at(1), flow(1), Aim::default(), OWN);
        assert_eq!(aims.of(&flow(1)), None, "it says nothing");
        aims.note(at(1), flow(1), strict(), OWN);
        aims.expire(at(30));
        assert_eq!(aims.of(&flow(1)), Some(strict()));
        aims.expire(at(31));
        assert_eq!(aims.of(&flow(1)), None);
        // A withdrawn aim is kept while neighbours may still know it.
        aims.note(at(32), flow(1), strict(), OWN);
        for s in 33..70 {
            aims.note(at(s), flow(1), Aim::default(), OWN);
            aims.expire(at(s));
            let told = (s < 63).then_some(Aim::default());
            assert_eq!(aims.of(&flow(1)), told, "{s}");
        }
    }

    #[test]
    fn flows_without_end_take_bounded_memory_and_leave_room_for_those_of_others() {
        let (mut aims, mut told) = (FlowAims::default(), ToldAims::default());
        for n in 0..10_000 {
            aims.note(at(1), flow(n), strict(), FIRST);
            told.on_sent(at(1), flow(n), strict());
        }
        assert_eq!(aims.known.len(), KNOWN_OF_ONE);
        assert_eq!(told.told.len(), TOLD_MOST);
        assert_eq!(aims.of(&flow(0)), Some(strict()), "the first ones stay");
        (10_000..20_000).for_each(|n| aims.note(at(2), flow(n), strict(), OWN));
        assert_eq!(aims.known.len(), 2 * KNOWN_OF_ONE);
        for by in 100..200 {
            let by = Teller::Neighbour(NodeAddr(by));
            (20_000..30_000).for_each(|n| aims.note(at(2), flow(n), strict(), by));
        }
        (30_000..40_000).for_each(|n| aims.note(at(2), flow(n), strict(), OTHER));
        (40_000..50_000).for_each(|n| {
            aims.note(at(2), flow(n), strict(), Teller::Client(ClientId(n)));
        });
        assert_eq!(aims.known.len(), KNOWN_MOST);
        aims.expire(at(60));
        aims.note(at(60), flow(1), strict(), FIRST);
        assert_eq!(aims.of(&flow(1)), Some(strict()));
    }

    #[test]
    fn nobody_changes_what_another_has_said() {
        let mut aims = FlowAims::default();
        aims.note(at(1), flow(1), strict(), FIRST);
        for aim in [bare(), Aim::default()] {
            aims.note(at(2), flow(1), aim, OTHER);
            assert_eq!(aims.of(&flow(1)), Some(strict()));
        }
        // The flow now takes another path, and the aim is the same.
        aims.note(at(30), flow(1), strict(), OTHER);
        aims.expire(at(40));
        assert_eq!(aims.of(&flow(1)), Some(strict()));
        aims.note(at(41), flow(1), bare(), FIRST);
        assert_eq!(aims.of(&flow(1)), Some(bare()));
        aims.expire(at(72));
        aims.note(at(72), flow(1), strict(), OTHER);
        assert_eq!(aims.of(&flow(1)), Some(strict()), "it has ended");
        // Two clients have the same port, one after the other.
        aims.note(at(73), flow(2), bare(), OWN);
        aims.note(at(74), flow(2), strict(), Teller::Client(ClientId(2)));
        assert_eq!(aims.of(&flow(2)), Some(strict()));
    }

    #[test]
    fn what_is_new_is_told_thrice_then_now_and_then_and_as_long_as_it_passes() {
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
        let all: Vec<_> = (1..6).map(|s| count(&mut told, s)).collect();
        assert_eq!(all, [2, 2, 2, 0, 0]);
        told.on_sent(at(9), flow(1), strict());
        assert_eq!(count(&mut told, 12), 0);
        assert_eq!(count(&mut told, 13), 2);
        // A changed aim is sent at once.
        told.on_sent(at(14), flow(1), Aim::default());
        let all: Vec<_> = (14..19).map(|s| count(&mut told, s)).collect();
        assert_eq!(all, [1, 1, 1, 0, 0]);
        assert_eq!(count(&mut told, 32), 1, "the second flow has ended");
        let mut again = ToldAims::default();
        again.on_sent(at(1), flow(1), strict());
        again.tell(at(1), |_| false);
        assert_eq!(count(&mut again, 2), 1, "there was no room");
    }

    #[test]
    fn each_of_many_flows_is_told() {
        let mut told = ToldAims::default();
        let mut known = std::collections::BTreeMap::new();
        for hello in 1..=3 * TOLD_MOST / TOLD_AT_ONCE {
            let now = Time::ZERO + Duration::from_millis(100 * hello as u64);
            (0..TOLD_MOST as u32).for_each(|n| told.on_sent(now, flow(n), strict()));
            told.tell(now, |aim| {
                *known.entry(aim.source).or_insert(0) += 1;
                true
            });
            let rounds = hello * TOLD_AT_ONCE / TOLD_MOST;
            let least = known.values().min().copied().unwrap_or_default();
            assert!(
                rounds == 0 || known.len() == TOLD_MOST && least >= rounds,
                "{hello}"
            );
        }
    }
}
