//! Who asks the router for a port, as a state machine without sockets and clock.
//!
//! ```text
//!             ┌── nothing comes, or another version ──▶ the same by NAT-PMP ──┐
//!   place ──▶ ask by PCP ── mapped ──▶ half its life ──▶ ask again            │ nothing comes
//!               ▲   └────── refused, or a private address outside ──▶ rest ◀──┘
//!               └──────────────────────────────────────────────────────┘  2 min, twice as long each time, up to 1 h
//! ```
//! The caller hands in datagrams and the time, sends what [`Mapper::next_datagram`] gives after each call, and calls again
//! at [`Mapper::deadline`]. What has come of it is the [`State`].
//!
//! A router forgets its mappings when it restarts. Its answers and announcements carry an epoch, the time since it began to
//! know them: if that does not fit its clock, the router is asked at once. So it is if it says unasked that its address or
//! the mapping is another one.
//!
//! Judged: an answer counts if it comes from the router and answers what was asked (nonce and port); the address outside has
//! to be public, since one that is not lies behind a second NAT; life times are clamped.

use super::judge::{fits, is_public};
use base::{Duration, Time};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use wire::Endpoint;
use wire::mapping::{Answer, PORT, UNSUPPORTED_VERSION, nat_pmp, pcp};

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
}

impl Protocol {
    pub(super) fn label(self) -> &'static str {
        match self {
            Protocol::Pcp => "PCP",
            Protocol::NatPmp => "NAT-PMP",
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
    out: VecDeque<Vec<u8>>,
    ignored: BTreeMap<&'static str, u64>,
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
            out: VecDeque::new(),
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

    /// The next datagram to the router's port [`PORT`].
    pub(super) fn next_datagram(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
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
        let ignored = core::mem::take(&mut self.ignored);
        *self = Mapper {
            ignored,
            ..Mapper::default()
        };
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
            self.say(0);
        }
        let out = core::mem::take(&mut self.out);
        let ignored = core::mem::take(&mut self.ignored);
        *self = Mapper {
            out,
            ignored,
            ..Mapper::default()
        };
    }

    /// Something may be due.
    pub(super) fn on_timeout(&mut self, now: Time) {
        if self.mapping.is_some_and(|mapping| mapping.until <= now) {
            self.mapping = None;
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
        if asking.tries == TRIES {
            return self.on_silence(now);
        }
        self.asking = Some(Asking {
            tries: asking.tries + 1,
            due: now + AGAIN * (1 << asking.tries),
            ..asking
        });
        let lifetime_s = LIFETIME.as_millis() / 1_000;
        self.say(u32::try_from(lifetime_s).unwrap_or(u32::MAX));
    }

    /// The router's host says that nobody listens there.
    pub(super) fn on_nobody(&mut self, now: Time) {
        if self.asking.is_some() {
            if self.mapping.is_none() {
                // It would not listen to the other protocol either.
                self.protocol = Protocol::NatPmp;
            }
            self.on_silence(now);
        }
    }

    /// A datagram has come.
    pub(super) fn on_datagram(&mut self, now: Time, from: SocketAddr, bytes: &[u8]) {
        let Some((place, nonce)) = self.place else {
            return;
        };
        let router = SocketAddr::new(IpAddr::V4(place.gateway), PORT);
        if from != router {
            return self.ignore("stranger");
        }
        match Answer::parse(bytes) {
            Err(_) => self.ignore("malformed"),
            Ok(Answer::Other(_)) => self.on_other_version(now),
            Ok(Answer::Pcp(answer)) => self.on_pcp(now, place, nonce, answer),
            Ok(Answer::NatPmp(answer)) => self.on_nat_pmp(now, place, answer),
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
    }

    /// Nothing has come by the protocol in use.
    fn on_silence(&mut self, now: Time) {
        match (self.mapping, self.protocol) {
            (None, Protocol::Pcp) => self.begin(now, Protocol::NatPmp),
            (None, Protocol::NatPmp) => {
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

    fn on_other_version(&mut self, now: Time) {
        match (self.asking, self.protocol) {
            (Some(_), Protocol::Pcp) => self.begin(now, Protocol::NatPmp),
            // Each request of PCP gets this answer, and some may be late. Who speaks neither protocol ends as silent.
            _ => self.ignore("unasked"),
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

    fn on_pcp(
        &mut self,
        now: Time,
        place: Place,
        nonce: [u8; pcp::NONCE_BYTES],
        answer: pcp::Answer,
    ) {
        let Some(map) = answer.map else {
            return self.on_announcement(now, answer.epoch_s, None);
        };
        if map.nonce != nonce {
            return self.ignore("nonce");
        }
        if map.internal_port != place.own.port() {
            return self.ignore("port");
        }
        let outside = map.external.ipv4();
        let at = outside.map(|ip| SocketAddrV4::new(ip.into(), map.external.port));
        if self.asking.is_none() || self.protocol != Protocol::Pcp {
            // A router tells so that it has changed the mapping. [RFC 6887 §14.2]
            let is_other = self.mapping.is_some_and(|known| Some(known.at) != at);
            return match answer.result == 0 && self.asking.is_none() && is_other {
                true => self.ask_soon(now),
                false => self.ignore("unasked"),
            };
        }
        self.epoch = Some((answer.epoch_s, now));
        let lifetime = Duration::from_secs(answer.lifetime_s.into());
        match answer.result {
            0 => match at {
                Some(at) => self.on_given(now, at, lifetime),
                None => self.refuse(now, REST, "its address outside is not one of IPv4"),
            },
            // It may do by the older protocol.
            1 | 4 => self.begin(now, Protocol::NatPmp),
            result => self.refuse(now, lifetime, pcp::reason(result)),
        }
    }

    fn on_nat_pmp(&mut self, now: Time, place: Place, answer: nat_pmp::Answer) {
        let Some(asking) = self.asking else {
            return match answer.given {
                Some(nat_pmp::Given::Address(ip)) => {
                    self.on_announcement(now, answer.epoch_s, Some(ip.into()));
                }
                _ => self.ignore("unasked"),
            };
        };
        if answer.result == UNSUPPORTED_VERSION {
            return self.on_other_version(now);
        }
        if self.protocol == Protocol::Pcp {
            return self.ignore("unasked");
        }
        self.epoch = Some((answer.epoch_s, now));
        match (answer.given, asking.outside) {
            (None, _) => self.refuse(now, REST, nat_pmp::reason(answer.result)),
            (Some(nat_pmp::Given::Address(ip)), None) => {
                let outside = Ipv4Addr::from(ip);
                if is_public(outside) {
                    self.asking = Some(Asking {
                        outside: Some(outside),
                        tries: 0,
                        due: now,
                    });
                    self.on_timeout(now);
                } else {
                    self.on_private(now, outside, self.mapping.is_some());
                }
            }
            (Some(nat_pmp::Given::Map(map)), Some(outside)) => {
                if map.internal_port != place.own.port() {
                    return self.ignore("port");
                }
                let lifetime = Duration::from_secs(map.lifetime_s.into());
                let at = SocketAddrV4::new(outside, map.external_port);
                self.on_given(now, at, lifetime);
            }
            (Some(_), _) => self.ignore("unasked"),
        }
    }

    /// The router has mapped the port.
    fn on_given(&mut self, now: Time, at: SocketAddrV4, lifetime: Duration) {
        if !is_public(*at.ip()) {
            // By NAT-PMP the address was looked at before.
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

    /// The router's address outside is of no use. What it leads here all the same, if `is_open`, is given back.
    fn on_private(&mut self, now: Time, outside: Ipv4Addr, is_open: bool) {
        if is_open {
            self.say(0);
        }
        if outside.is_unspecified() {
            return self.refuse(now, REST, "it has no address outside");
        }
        self.protocol = Protocol::Pcp;
        self.rest(now, self.rest, State::DoubleNat { outside });
    }

    /// The router says unasked for how long it has known its mappings, as it does after a restart, and by NAT-PMP its address
    /// outside, as it does when that changes [RFC 6886 §3.2.1]. Who rests after a refusal asks after a restart too: the
    /// router may have another configuration.
    fn on_announcement(&mut self, now: Time, epoch_s: u32, outside: Option<Ipv4Addr>) {
        if self.asking.is_some() {
            return;
        }
        let fits = self.epoch.is_some_and(|known| fits(known, epoch_s, now));
        self.epoch = Some((epoch_s, now));
        let known = self.mapping.map(|mapping| *mapping.at.ip());
        let has_moved = known.is_some() && outside.is_some() && known != outside;
        if !fits || has_moved {
            self.ask_soon(now);
        }
    }

    /// What a router tells unasked is not taken over: it is a reason to ask.
    fn ask_soon(&mut self, now: Time) {
        let rested = self.last_round.map(|last| last + RENEW_MIN);
        let soon = rested.map_or(now, |rested| rested.max(now));
        self.next_round = Some(self.next_round.map_or(soon, |next| next.min(soon)));
    }

    /// Sends what is asked now; without a life time what is given back.
    fn say(&mut self, lifetime_s: u32) {
        let Some((place, nonce)) = self.place else {
            return;
        };
        let mut buffer = [0; nat_pmp::MESSAGE_BYTES];
        let known = self.mapping.map(|mapping| mapping.at);
        let port = known.map_or(place.own.port(), |at| at.port());
        let internal_port = place.own.port();
        let request = match (self.protocol, self.asking.and_then(|it| it.outside)) {
            (Protocol::Pcp, _) => {
                let outside = known.map_or(Ipv4Addr::UNSPECIFIED, |at| *at.ip());
                let request = pcp::Request {
                    lifetime_s,
                    client: place.own.ip().to_ipv6_mapped().octets(),
                    nonce,
                    internal_port,
                    external: Endpoint {
                        ip: outside.to_ipv6_mapped().octets(),
                        port,
                    },
                };
                return self.out.push_back(request.to_bytes().to_vec());
            }
            (Protocol::NatPmp, None) if lifetime_s > 0 => nat_pmp::Request::Address,
            (Protocol::NatPmp, _) => nat_pmp::Request::Map(nat_pmp::Map {
                internal_port,
                // [RFC 6886 §3.4]
                external_port: if lifetime_s > 0 { port } else { 0 },
                lifetime_s,
            }),
        };
        let len = request.emit(&mut buffer).expect("no message is longer");
        self.out.push_back(buffer[..len].to_vec());
    }
}

#[cfg(test)]
mod tests;
