//! The requests to the router for a port, as a state machine without sockets and clock.
//!
//! ```text
//!             ┌── nothing comes, or another version ──▶ the same by NAT-PMP ── nothing ──▶ by UPnP ──┐
//!   place ──▶ ask by PCP ── mapped ──▶ half its life ──▶ ask again                                    │ nothing comes
//!               ▲   └────── refused, or a private address outside ──▶ rest ◀──────────────────────────┘
//!               └──────────────────────────────────────────────────────┘  2 min, twice as long each time, up to 1 h
//! ```
//! The caller passes in datagrams, answers and the time. After each call it sends what [`Mapper::next_datagram`],
//! [`Mapper::next_search`] and [`Mapper::next_request`] return, and it calls again at [`Mapper::deadline`]. The result
//! is the [`State`]. The protocols themselves are in [`port_control`] and [`upnp`].
//!
//! A router forgets its mappings when it restarts. Its answers and announcements contain an epoch, the time since it
//! began to keep its mappings. If the epoch does not fit the local clock, the router is asked at once. The same happens
//! if it announces without a request that its address or the mapping has changed.
//!
//! Checks: an answer counts if it comes from the router and matches the request (nonce and port). The external address
//! has to be public, because an address that is not lies behind a second NAT. Lifetimes are clamped.

mod port_control;
mod upnp;

use super::judge::is_public;
use base::{Duration, Time};
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use upnp::Upnp;
pub(super) use upnp::{PATIENCE, Request};
use wire::mapping::pcp;

/// A request is repeated after this time, and then after twice as long each time. [RFC 6886 §3.1] Choice: the same for
/// PCP. The RFC has 3 s for PCP, for a server that may be far away; this one is the next hop.
const AGAIN: Duration = Duration::from_millis(250);
/// Number of requests by one protocol until the router counts as silent for it: 3.75 s.
const TRIES: u32 = 4;
/// The rest after that, or after a refusal. It doubles each time, up to [`REST_MAX`].
const REST: Duration = Duration::from_secs(120);
const REST_MAX: Duration = Duration::from_secs(3_600);
/// The requested lifetime of a mapping. Choice: after a node was killed, a router that grants the requested time closes
/// the port within it. A node notices within half of it that the router has lost the mapping, and that costs two small
/// datagrams. If a router grants more, the node uses this value all the same.
const LIFETIME: Duration = Duration::from_secs(1_200);
/// A shorter lifetime counts as this one, so that a router cannot cause requests all the time.
const LIFE_MIN: Duration = Duration::from_secs(60);
/// The least time between two rounds of requests to a router that has a mapping. [RFC 6887 §11.2.1]
const RENEW_MIN: Duration = Duration::from_secs(4);

/// The node's address, and its router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) gateway: Ipv4Addr,
    /// The node's address and UDP port.
    pub(super) own: SocketAddrV4,
}

/// The protocol by which the router is asked.
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

/// The result so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// There is no router to ask.
    #[default]
    Off,
    /// The router is asked for the first time.
    Asking,
    /// Packets to this address and port reach the node.
    Mapped { at: SocketAddrV4, by: Protocol },
    /// The port was mapped, and is no longer.
    Lost,
    /// The router refuses.
    Refused { why: &'static str },
    /// The router is behind another one: its external address is not public.
    DoubleNat { outside: Ipv4Addr },
    /// The router does not answer.
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
    /// When the next round of requests begins.
    next_round: Option<Time>,
    /// When the last round began.
    last_round: Option<Time>,
    /// Length of the next rest.
    rest: Duration,
    epoch: Option<(u32, Time)>,
    upnp: Upnp,
    out: Out,
    ignored: BTreeMap<&'static str, u64>,
}

/// Messages that are to be sent.
#[derive(Debug, Default)]
struct Out {
    datagrams: VecDeque<Vec<u8>>,
    searches: VecDeque<Vec<u8>>,
    requests: VecDeque<Request>,
    /// Number of exchanges so far.
    exchanges: u64,
}

impl Out {
    /// Drops what was not sent yet.
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
    /// With NAT-PMP, the external address is requested first. This is the answer.
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
    /// Returns the result so far.
    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Returns until when the port is mapped.
    pub(super) fn until(&self) -> Option<Time> {
        self.mapping.map(|mapping| mapping.until)
    }

    /// Returns the number of ignored answers, by reason.
    pub(super) fn ignored(&self) -> &BTreeMap<&'static str, u64> {
        &self.ignored
    }

    /// Returns the next datagram to the router's port [`wire::mapping::PORT`].
    pub(super) fn next_datagram(&mut self) -> Option<Vec<u8>> {
        self.out.datagrams.pop_front()
    }

    /// Returns when [`Mapper::on_timeout`] is to be called.
    pub(super) fn deadline(&self) -> Option<Time> {
        let asking = self.asking.map(|asking| asking.due);
        let until = self.until();
        [asking, self.next_round, until].into_iter().flatten().min()
    }

    /// Sets where the node is; none if there is nothing to ask. A new place starts from the beginning. `nonce` is for
    /// that case, and has to be fresh each time.
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

    /// Releases what is or may be mapped. Nothing is requested after that.
    pub(super) fn release(&mut self) {
        let was_asked = self.asking.is_some_and(|asking| asking.tries > 0);
        self.out.clear();
        if self.mapping.is_some() || was_asked {
            self.give_back();
        }
        // There may still be a UPnP mapping, although another protocol is in use now.
        self.unmap();
        self.forget();
    }

    /// Stops requesting. Messages that are still to be sent, and the counts, are kept.
    fn forget(&mut self) {
        *self = Mapper {
            out: core::mem::take(&mut self.out),
            ignored: core::mem::take(&mut self.ignored),
            ..Mapper::default()
        };
    }

    /// Does what is due at this time.
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

    /// Handles an ICMP error: nobody listens at the router's port.
    pub(super) fn on_nobody(&mut self, now: Time) {
        if self.asking.is_some() && self.protocol != Protocol::Upnp {
            if self.mapping.is_none() {
                // Then nobody would listen for the other protocol either.
                self.protocol = Protocol::NatPmp;
            }
            self.on_silence(now);
        }
    }

    fn ignore(&mut self, reason: &'static str) {
        *self.ignored.entry(reason).or_default() += 1;
    }

    /// Begins a round of requests.
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

    /// Handles that no answer came by the present protocol.
    fn on_silence(&mut self, now: Time) {
        match (self.mapping, self.protocol) {
            (None, Protocol::Pcp) => self.begin(now, Protocol::NatPmp),
            (None, Protocol::NatPmp) => self.begin(now, Protocol::Upnp),
            (None, Protocol::Upnp) => {
                self.protocol = Protocol::Pcp;
                self.rest(now, self.rest, State::Silent);
            }
            // A mapping is kept until its end, and the router is asked again in the middle of the time that is left.
            (Some(mapping), _) => {
                self.asking = None;
                let left = mapping.until.since(now);
                self.next_round = Some(now + left.div(2).max(RENEW_MIN));
            }
        }
    }

    /// Notes that there is no mapping now, and rests for a while.
    fn rest(&mut self, now: Time, rest: Duration, state: State) {
        self.mapping = None;
        self.asking = None;
        self.state = state;
        self.next_round = Some(now + rest);
        self.rest = (self.rest * 2).min(REST_MAX);
    }

    /// Handles a refusal by the router, for `lifetime` if the router gives a time.
    fn refuse(&mut self, now: Time, lifetime: Duration, why: &'static str) {
        let rest = self.rest.max(lifetime).min(REST_MAX);
        self.protocol = Protocol::Pcp;
        self.rest(now, rest, State::Refused { why });
    }

    /// Handles that the router has mapped the port.
    fn on_given(&mut self, now: Time, at: SocketAddrV4, lifetime: Duration) {
        if !is_public(*at.ip()) {
            // With NAT-PMP and UPnP the address was checked before.
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

    /// Requests that what is or may be mapped is released.
    fn give_back(&mut self) {
        match self.protocol {
            Protocol::Pcp | Protocol::NatPmp => self.say(0),
            Protocol::Upnp => self.unmap(),
        }
    }

    /// Handles that the router's external address is of no use. If `is_open`, the router has mapped the port all the
    /// same, and the mapping is released.
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

/// Returns [`LIFETIME`] in seconds, as in requests.
fn lifetime_s() -> u32 {
    u32::try_from(LIFETIME.as_millis() / 1_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
