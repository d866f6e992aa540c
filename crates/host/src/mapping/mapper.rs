//! Who asks the router for a port, as a state machine without sockets and clock.
//!
//! ```text
//!             ┌── nothing comes, or another version ──▶ the same by NAT-PMP ── nothing ──▶ by UPnP ──┐
//!   place ──▶ ask by PCP ── mapped ──▶ half its life ──▶ ask again                                    │ nothing comes
//!               ▲   └────── refused, or a private address outside ──▶ rest ◀──────────────────────────┘
//!               └──────────────────────────────────────────────────────┘  2 min, twice as long each time, up to 1 h
//! ```
//! The caller hands in datagrams, answers and the time, sends what [`Mapper::next_datagram`], [`Mapper::next_search`] and
//! [`Mapper::next_request`] give after each call, and calls again at [`Mapper::deadline`]. What has come of it is the [`State`].
//! What the protocols say is in [`port_control`] and [`upnp`].
//!
//! A router forgets its mappings when it restarts. Its answers and announcements carry an epoch, the time since it began to
//! know them: if that does not fit its clock, the router is asked at once. So it is if it says unasked that its address or
//! the mapping is another one.
//!
//! Judged: an answer counts if it comes from the router and answers what was asked (nonce and port); the address outside has
//! to be public, since one that is not lies behind a second NAT; life times are clamped.

mod port_control;
mod upnp;

use super::judge::is_public;
use base::{Duration, Time};
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use upnp::Upnp;
pub(super) use upnp::{PATIENCE, Request};
use wire::mapping::pcp;

/// A request is repeated after so long, and then after twice as long each time. [RFC 6886 §3.1] Choice: for PCP too. It
/// has 3 s for a server that may be far away; this one is the next hop.
const AGAIN: Duration = Duration::from_millis(250);
/// Requests of one protocol until the router counts as silent for it: 3.75 s.
const TRIES: u32 = 4;
/// The rest after that, or after a refusal; twice as long each time, up to [`REST_MAX`].
const REST: Duration = Duration::from_secs(120);
const REST_MAX: Duration = Duration::from_secs(3_600);
/// For how long a mapping is asked for. Choice: after a node was killed, a router that gives what was asked closes the port
/// within this time. A node notices within half of it that the router has lost the mapping, and that costs two small
/// datagrams. If a router gives more, the node counts on this much all the same.
const LIFETIME: Duration = Duration::from_secs(1_200);
/// A shorter life counts as this one: a router cannot have itself asked all the time.
const LIFE_MIN: Duration = Duration::from_secs(60);
/// The least time between two rounds of questions to a router that has a mapping. [RFC 6887 §11.2.1]
const RENEW_MIN: Duration = Duration::from_secs(4);

/// Where the node is, and its router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) gateway: Ipv4Addr,
    /// The node's address and UDP port.
    pub(super) own: SocketAddrV4,
}

/// By what the router is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Pcp,
    NatPmp,
    Upnp,
}

impl Protocol {
    pub(super) fn label(self) -> &'static str {
        match self {
            Protocol::Pcp => "PCP",
            Protocol::NatPmp => "NAT-PMP",
            Protocol::Upnp => "UPnP",
        }
    }
}

/// What has come of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// There is nobody to ask.
    #[default]
    Off,
    /// The router is asked for the first time.
    Asking,
    /// What comes to this address and port reaches the node.
    Mapped { at: SocketAddrV4, by: Protocol },
    /// It was mapped, and is no more.
    Lost,
    /// The router says no.
    Refused { why: &'static str },
    /// The router is behind another one: its address outside is not public.
    DoubleNat { outside: Ipv4Addr },
    /// The router answers nothing.
    Silent,
}

/// A state machine that asks one router for one port.
#[derive(Debug)]
pub(super) struct Mapper {
    place: Option<(Place, [u8; pcp::NONCE_BYTES])>,
    state: State,
    protocol: Protocol,
    asking: Option<Asking>,
    mapping: Option<Mapping>,
    /// The next round of questions.
    next_round: Option<Time>,
    /// When the last one began.
    last_round: Option<Time>,
    /// The next rest.
    rest: Duration,
    epoch: Option<(u32, Time)>,
    upnp: Upnp,
    out: Out,
    ignored: BTreeMap<&'static str, u64>,
}

/// What is to be sent.
#[derive(Debug, Default)]
struct Out {
    datagrams: VecDeque<Vec<u8>>,
    searches: VecDeque<Vec<u8>>,
    requests: VecDeque<Request>,
    /// So many there have been.
    exchanges: u64,
}

impl Out {
    /// What was not sent is not to be sent any more.
    fn clear(&mut self) {
        *self = Out {
            exchanges: self.exchanges,
            ..Out::default()
        };
    }
}

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Asking {
    /// NAT-PMP: the address outside is asked for first, and is this one.
    outside: Option<Ipv4Addr>,
    tries: u32,
    due: Time,
}

#[derive(Clone, Copy, Debug)]
struct Mapping {
    at: SocketAddrV4,
    until: Time,
}

impl Default for Mapper {
    fn default() -> Mapper {
        Mapper {
            place: None,
            state: State::Off,
            protocol: Protocol::Pcp,
            asking: None,
            mapping: None,
            next_round: None,
            last_round: None,
            rest: REST,
            epoch: None,
            upnp: Upnp::default(),
            out: Out::default(),
            ignored: BTreeMap::new(),
        }
    }
}

impl Mapper {
    /// What has come of it so far.
    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Until when the port is mapped.
    pub(super) fn until(&self) -> Option<Time> {
        self.mapping.map(|mapping| mapping.until)
    }

    /// Answers that did not count, by reason.
    pub(super) fn ignored(&self) -> &BTreeMap<&'static str, u64> {
        &self.ignored
    }

    /// The next datagram to the router's port [`wire::mapping::PORT`].
    pub(super) fn next_datagram(&mut self) -> Option<Vec<u8>> {
        self.out.datagrams.pop_front()
    }

    /// When [`Mapper::on_timeout`] is to be called.
    pub(super) fn deadline(&self) -> Option<Time> {
        let asking = self.asking.map(|asking| asking.due);
        let until = self.until();
        [asking, self.next_round, until].into_iter().flatten().min()
    }

    /// The node is here now, or has nothing to ask for. Another place is a new beginning; `nonce` is for that, fresh each time.
    pub(super) fn set_place(
        &mut self,
        now: Time,
        place: Option<Place>,
        nonce: [u8; pcp::NONCE_BYTES],
    ) {
        if self.place.map(|(place, _)| place) == place {
            return;
        }
        self.out.clear();
        self.forget();
        if let Some(place) = place {
            self.place = Some((place, nonce));
            self.state = State::Asking;
            self.begin(now, Protocol::Pcp);
        }
    }

    /// Gives back what is mapped, or may be. There is nothing to ask for after that.
    pub(super) fn release(&mut self) {
        let was_asked = self.asking.is_some_and(|asking| asking.tries > 0);
        self.out.clear();
        if self.mapping.is_some() || was_asked {
            self.give_back();
        }
        // It may be asked by another protocol meanwhile.
        self.unmap();
        self.forget();
    }

    /// Nobody is asked. What is to be sent still, and what was counted, stay.
    fn forget(&mut self) {
        *self = Mapper {
            out: core::mem::take(&mut self.out),
            ignored: core::mem::take(&mut self.ignored),
            ..Mapper::default()
        };
    }

    /// Something may be due.
    pub(super) fn on_timeout(&mut self, now: Time) {
        if self.mapping.is_some_and(|mapping| mapping.until <= now) {
            self.mapping = None;
            self.on_upnp_end();
            self.state = State::Lost;
            self.rest = REST;
            self.begin(now, Protocol::Pcp);
        }
        if self.next_round.is_some_and(|at| at <= now) {
            self.begin(now, self.protocol);
        }
        let Some(asking) = self.asking.filter(|asking| asking.due <= now) else {
            return;
        };
        if self.protocol == Protocol::Upnp {
            return self.on_upnp_timeout(now, asking);
        }
        if asking.tries == TRIES {
            return self.on_silence(now);
        }
        self.asking = Some(Asking {
            tries: asking.tries + 1,
            due: now + AGAIN * (1 << asking.tries),
            ..asking
        });
        self.say(lifetime_s());
    }

    /// The router's host says that nobody listens there.
    pub(super) fn on_nobody(&mut self, now: Time) {
        if self.asking.is_some() && self.protocol != Protocol::Upnp {
            if self.mapping.is_none() {
                // It would not listen to the other protocol either.
                self.protocol = Protocol::NatPmp;
            }
            self.on_silence(now);
        }
    }

    fn ignore(&mut self, reason: &'static str) {
        *self.ignored.entry(reason).or_default() += 1;
    }

    /// A round of questions begins.
    fn begin(&mut self, now: Time, protocol: Protocol) {
        self.protocol = protocol;
        self.next_round = None;
        self.last_round = Some(now);
        self.asking = Some(Asking {
            outside: None,
            tries: 0,
            due: now,
        });
        if protocol == Protocol::Upnp {
            self.begin_upnp();
        }
    }

    /// Nothing has come by the protocol in use.
    fn on_silence(&mut self, now: Time) {
        match (self.mapping, self.protocol) {
            (None, Protocol::Pcp) => self.begin(now, Protocol::NatPmp),
            (None, Protocol::NatPmp) => self.begin(now, Protocol::Upnp),
            (None, Protocol::Upnp) => {
                self.protocol = Protocol::Pcp;
                self.rest(now, self.rest, State::Silent);
            }
            // What is mapped stays so until its end, and the router is asked in the middle of what is left.
            (Some(mapping), _) => {
                self.asking = None;
                let left = mapping.until.since(now);
                self.next_round = Some(now + left.div(2).max(RENEW_MIN));
            }
        }
    }

    /// There is no mapping now, and nobody is asked for a while.
    fn rest(&mut self, now: Time, rest: Duration, state: State) {
        self.mapping = None;
        self.asking = None;
        self.state = state;
        self.next_round = Some(now + rest);
        self.rest = (self.rest * 2).min(REST_MAX);
    }

    /// The router refuses, for `lifetime` if it says so.
    fn refuse(&mut self, now: Time, lifetime: Duration, why: &'static str) {
        let rest = self.rest.max(lifetime).min(REST_MAX);
        self.protocol = Protocol::Pcp;
        self.rest(now, rest, State::Refused { why });
    }

    /// The router has mapped the port.
    fn on_given(&mut self, now: Time, at: SocketAddrV4, lifetime: Duration) {
        if !is_public(*at.ip()) {
            // By NAT-PMP and UPnP the address was looked at before.
            return self.on_private(now, *at.ip(), true);
        }
        if at.port() == 0 || lifetime == Duration::ZERO {
            return self.refuse(now, REST, "it gives nothing");
        }
        let life = lifetime.clamp(LIFE_MIN, LIFETIME);
        let until = now + life;
        self.mapping = Some(Mapping { at, until });
        let by = self.protocol;
        self.state = State::Mapped { at, by };
        self.asking = None;
        self.rest = REST;
        self.next_round = Some(now + life.div(2));
    }

    /// Asks that what is mapped, or may be, is not any more.
    fn give_back(&mut self) {
        match self.protocol {
            Protocol::Pcp | Protocol::NatPmp => self.say(0),
            Protocol::Upnp => self.unmap(),
        }
    }

    /// The router's address outside is of no use. What it leads here all the same, if `is_open`, is given back.
    fn on_private(&mut self, now: Time, outside: Ipv4Addr, is_open: bool) {
        if is_open {
            self.give_back();
        }
        if outside.is_unspecified() {
            return self.refuse(now, REST, "it has no address outside");
        }
        self.protocol = Protocol::Pcp;
        self.rest(now, self.rest, State::DoubleNat { outside });
    }
}

/// [`LIFETIME`] as it is said.
fn lifetime_s() -> u32 {
    u32::try_from(LIFETIME.as_millis() / 1_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
