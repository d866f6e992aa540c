//! Reports changes: a line in the log, the status, and the endpoint for the loop.

use super::mapper::{Mapper, Place, Protocol, State};
use super::{Shared, Wish, lock};
use crate::command::Commander;
use crate::log::Lines;
use crate::status::MappingStatus;
use base::{Duration, Time};
use net::clock::Clock;
use overlay::request::Operation;
use std::net::SocketAddrV4;
use std::sync::Arc;
use wire::Endpoint;

/// After this time, the thread reports again to a loop that was too busy to answer.
const BUSY: Duration = Duration::from_secs(5);

pub(super) struct Voice {
    commander: Commander,
    lines: Lines,
    shared: Arc<Shared>,
    /// The last state in the log.
    said: State,
    /// The mapping that the status shows.
    shown: Option<Shown>,
    told: Told,
}

/// The values that the status is derived from.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shown {
    wish: Wish,
    state: State,
    off: &'static str,
    place: Option<Place>,
    until: Option<Time>,
    ignored: u64,
}

impl Voice {
    pub(super) fn new(commander: Commander, lines: Lines, shared: Arc<Shared>) -> Voice {
        Voice {
            commander,
            lines,
            shared,
            said: State::Off,
            shown: None,
            told: Told::default(),
        }
    }

    /// Returns when to report to the loop again.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.told.again
    }

    /// Reports changes to the log, the status and the loop. `off` says why nothing is requested.
    pub(super) fn tell(
        &mut self,
        clock: &Clock,
        mapper: &Mapper,
        place: Option<Place>,
        off: &'static str,
    ) {
        let now = clock.now();
        let state = mapper.state();
        if state != self.said {
            self.say(state, place, off);
            self.said = state;
        }
        let shown = Shown {
            wish: *lock(&self.shared.wish),
            state,
            off,
            place,
            until: mapper.until(),
            ignored: mapper.ignored().values().sum(),
        };
        if self.shown != Some(shown) {
            let left_s = |until: Time| until.since(now).as_millis() / 1_000;
            let until_s = shown.until.map(|until| clock.unix_s() + left_s(until));
            *lock(&self.shared.status) = status(shown, until_s, mapper);
            self.shown = Some(shown);
        }
        let mapped = match state {
            State::Mapped { at, .. } => Some(at),
            _ => None,
        };
        if self.told.is_due(now, mapped) {
            let endpoint = mapped.map(|at| Endpoint {
                ip: at.ip().to_ipv6_mapped().octets(),
                port: at.port(),
            });
            let done = self.commander.operate(Operation::Mapped(endpoint));
            self.told.note(clock.now(), mapped, done.is_ok());
        }
    }

    fn say(&self, state: State, place: Option<Place>, off: &str) {
        let router = place.map(|place| place.gateway.to_string());
        let router = router.unwrap_or_else(|| "the router".to_owned());
        let lines = &self.lines;
        match (state, self.said) {
            (State::Mapped { at, by }, _) => lines.say(&format!(
                "port mapping: the router {router} leads {at} to this node, by {}",
                by.label()
            )),
            (State::Lost, _) => lines.warn(&format!(
                "port mapping: the router {router} does not answer any more, and the mapping has ended"
            )),
            (State::Refused { why }, _) => lines.warn(&format!(
                "port mapping: the router {router} refuses: {why}"
            )),
            (State::DoubleNat { outside }, _) => lines.warn(&format!(
                "port mapping: of no use, and not announced: the router {router} has the address {outside} outside, \
                 which is not public, so there is a second NAT in front of it"
            )),
            (State::Silent, _) => lines.say(&format!(
                "port mapping: the router {router} answers neither PCP, NAT-PMP nor UPnP"
            )),
            (State::Off, State::Mapped { .. }) => {
                lines.say(&format!("port mapping: given back: {off}"));
            }
            (State::Asking, State::Mapped { .. }) => lines.say(
                "port mapping: the router or this host's address is another one: asking anew",
            ),
            (State::Off | State::Asking, _) => {}
        }
    }
}

fn status(shown: Shown, until_s: Option<u64>, mapper: &Mapper) -> MappingStatus {
    let (mut at, mut by, mut why) = (None, None, None);
    let state = match shown.state {
        State::Off => {
            why = Some(shown.off.to_owned());
            "off"
        }
        State::Asking => "asking",
        State::Mapped {
            at: outside,
            by: protocol,
        } => {
            (at, by) = (Some(outside.to_string()), Some(Protocol::label(protocol)));
            "mapped"
        }
        State::Lost => "lost",
        State::Refused { why: said } => {
            why = Some(said.to_owned());
            "refused"
        }
        State::DoubleNat { outside } => {
            why = Some(format!("the router's address outside is {outside}"));
            "double-nat"
        }
        State::Silent => "silent",
    };
    MappingStatus {
        wanted: shown.wish.label(),
        state,
        why,
        gateway: shown.place.map(|place| place.gateway.to_string()),
        own: shown.place.map(|place| place.own.to_string()),
        at,
        by,
        until_s,
        ignored: mapper.ignored().clone(),
    }
}

/// The loop's knowledge of the mapping.
#[derive(Debug)]
struct Told {
    /// None if it is unknown whether the last report has arrived: a command that got no answer may still be carried out
    /// later.
    known: Option<Option<SocketAddrV4>>,
    /// When to report to the loop again. It is set only while `known` is none.
    again: Option<Time>,
}

impl Default for Told {
    /// The loop starts with no mapping.
    fn default() -> Told {
        Told {
            known: Some(None),
            again: None,
        }
    }
}

impl Told {
    fn is_due(&self, now: Time, mapped: Option<SocketAddrV4>) -> bool {
        self.known != Some(mapped) && self.again.is_none_or(|at| at <= now)
    }

    fn note(&mut self, now: Time, mapped: Option<SocketAddrV4>, is_done: bool) {
        self.known = is_done.then_some(mapped);
        self.again = (!is_done).then(|| now + BUSY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn what_may_have_arrived_is_told_again_even_if_it_is_as_before() {
        let mapped = Some(SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, 7), 7_700));
        let (now, later) = (Time::ZERO, Time::ZERO + BUSY);
        let mut told = Told::default();
        assert!(!told.is_due(now, None) && told.is_due(now, mapped));
        told.note(now, mapped, false);
        assert_eq!(told.again, Some(later));
        // The mapping has ended in the meantime, and the command may still wait in the queue.
        assert!(!told.is_due(now, None) && told.is_due(later, None));
        told.note(later, None, true);
        assert!(!told.is_due(later, None));
        assert_eq!(told.again, None, "nothing is waited for");
    }
}
