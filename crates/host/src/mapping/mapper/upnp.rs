//! UPnP, for a router that answers neither PCP nor NAT-PMP: a search by UDP, followed by one HTTP exchange after the
//! other.
//!
//! ```text
//!   search ── LOCATION ──▶ description ── services ──▶ address outside ── public ──▶ map ── done ──▶ mapped
//!     ▲                       │               ▲  not public, none: the next one ◀──┘   ├── 718: another port, a few times
//!     └── of no use: the next ┘ half its life ┘                                        └── 725: without end
//! ```
//! A host of the local network can answer in the router's name. Therefore, an answer counts only if it comes from the
//! router's address, and requests go only to that address, regardless of what the answer and the description say. An
//! answer that leads nowhere does not end the search, so a few forged answers that come first do not hide the router's
//! own.
//!
//! A UPnP request to delete a port does not say whose port it is. Therefore, a port is deleted only if the router has
//! confirmed that it leads here, and only by the service that has confirmed it. It is not deleted if its time has
//! ended, or if it has belonged to another host since.

use super::{AGAIN, Asking, Mapper, Place, Protocol, REST, TRIES, lifetime_s};
use crate::mapping::judge::is_public;
use base::{Duration, Time};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use wire::mapping::pcp;
use wire::mapping::upnp::description::{Control, controls};
use wire::mapping::upnp::soap::{self, Action, Outcome};
use wire::mapping::upnp::{Url, http, ssdp};

/// The time limit of one exchange. Choice: the router is the next hop, but some routers are slow to open a port.
pub(in crate::mapping) const PATIENCE: Duration = Duration::from_secs(3);
/// Number of other ports that are requested after the first one, if other hosts have them.
const OTHER_PORTS: usize = 4;
/// The other ports are chosen from this one upwards. [RFC 6335 §6: the dynamic ports]
const DYNAMIC_PORTS: u16 = 49_152;
/// Number of different descriptions that are read of those which one search finds. Choice: a router has one or two.
const LOCATIONS_MAX: usize = 4;

/// An HTTP exchange that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::mapping) struct Request {
    /// The number by which [`Mapper::on_exchange`] identifies it.
    pub(in crate::mapping) id: u64,
    pub(in crate::mapping) to: SocketAddrV4,
    pub(in crate::mapping) bytes: Vec<u8>,
}

/// The progress of UPnP.
#[derive(Debug, Default)]
pub(super) struct Upnp {
    step: Step,
    /// Number of searches in this round.
    searches: u32,
    /// The locations of descriptions in this round's answers, and those of them that were not read yet.
    locations: Vec<Url>,
    unread: VecDeque<Url>,
    /// Why a description of this round was of no use, if one was.
    unfit: Option<&'static str>,
    /// The exchange that is awaited.
    awaited: Option<u64>,
    /// The service in use.
    control: Option<Control>,
    /// The services to try after it.
    others: VecDeque<Control>,
    /// The external address of an earlier service, which is not public.
    private: Option<Ipv4Addr>,
    /// The router only supports mappings without an end.
    is_permanent: bool,
    /// The port that the router has mapped, until it is given back.
    held: Option<Held>,
}

/// A port that the router leads to this node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    /// The service that has mapped it.
    control: Control,
    port: u16,
    is_permanent: bool,
}

#[derive(Clone, Debug, Default)]
enum Step {
    #[default]
    Search,
    Describe(Url),
    Address,
    Map(Wanted),
}

/// The mapping that is being requested.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    outside: Ipv4Addr,
    port: u16,
    /// Number of requested ports that belong to other hosts.
    conflicts: usize,
}

impl Mapper {
    /// Returns the next search to the group [`ssdp::GROUP`].
    pub(in crate::mapping) fn next_search(&mut self) -> Option<Vec<u8>> {
        self.out.searches.pop_front()
    }

    /// Returns the next exchange. The caller makes exchanges one after the other.
    pub(in crate::mapping) fn next_request(&mut self) -> Option<Request> {
        self.out.requests.pop_front()
    }

    /// Begins a round. If the service in use has mapped the port, the round begins with it.
    pub(super) fn begin_upnp(&mut self) {
        let is_known = self.mapping.is_some() && self.upnp.control.is_some();
        let before = core::mem::take(&mut self.upnp);
        self.upnp = match is_known {
            true => Upnp {
                step: Step::Address,
                control: before.control,
                others: before.others,
                is_permanent: before.is_permanent,
                held: before.held,
                ..Upnp::default()
            },
            false => Upnp {
                held: before.held,
                ..Upnp::default()
            },
        };
    }

    /// Notes that the time of the mapping is over. A mapping without an end stays.
    pub(super) fn on_upnp_end(&mut self) {
        self.upnp.held.take_if(|held| !held.is_permanent);
    }

    /// Repeats a search, or begins an exchange, or handles that an exchange was not made in time.
    pub(super) fn on_upnp_timeout(&mut self, now: Time, asking: Asking) {
        match self.upnp.step {
            Step::Search if asking.tries == TRIES => match self.upnp.unfit {
                Some(why) if self.mapping.is_none() => self.refuse(now, REST, why),
                _ => self.on_silence(now),
            },
            Step::Search => {
                self.upnp.searches = asking.tries + 1;
                self.asking = Some(Asking {
                    tries: asking.tries + 1,
                    due: now + AGAIN * (1 << asking.tries),
                    ..asking
                });
                let searches = ssdp::VERSIONS.map(ssdp::search);
                self.out.searches.extend(searches);
            }
            Step::Address if asking.tries == 0 => self.act(now, Action::Address),
            _ => self.fail(now, "timeout"),
        }
    }

    /// Handles a datagram to the socket that searches.
    pub(in crate::mapping) fn on_search_answer(
        &mut self,
        now: Time,
        from: SocketAddr,
        bytes: &[u8],
    ) {
        let Some((place, _)) = self.place else {
            return;
        };
        if from.ip() != IpAddr::V4(place.gateway) {
            return self.ignore("stranger");
        }
        let is_asked = self.asking.is_some() && self.protocol == Protocol::Upnp;
        if !is_asked || self.upnp.searches == 0 {
            return;
        }
        let Ok(location) = ssdp::location(bytes) else {
            return self.ignore("malformed");
        };
        if *location.at.ip() != place.gateway {
            return self.ignore("elsewhere");
        }
        let known = &mut self.upnp.locations;
        if known.contains(&location) || known.len() == LOCATIONS_MAX {
            // Each search has several questions, and each gets an answer.
            return;
        }
        known.push(location.clone());
        self.upnp.unread.push_back(location);
        if matches!(self.upnp.step, Step::Search) {
            self.describe(now);
        }
    }

    /// Reads the next of the descriptions that were found. Returns true if there is one.
    fn describe(&mut self, now: Time) -> bool {
        let Some(location) = self.upnp.unread.pop_front() else {
            return false;
        };
        let bytes = http::get(&location);
        let id = self.request(location.at, bytes);
        self.upnp.step = Step::Describe(location);
        self.wait_for(now, id);
        true
    }

    /// Handles a description that is of no use: the next one is read, or the search continues to its end.
    fn pass_description(&mut self, now: Time, why: &'static str) {
        self.upnp.unfit = Some(why);
        if self.describe(now) {
            return;
        }
        let tries = self.upnp.searches;
        self.upnp.step = Step::Search;
        self.asking = Some(Asking {
            outside: None,
            tries,
            due: now + AGAIN * (1 << tries.saturating_sub(1)),
        });
    }

    /// Handles the end of an exchange: the answer, or the reason why there is none.
    pub(in crate::mapping) fn on_exchange(
        &mut self,
        now: Time,
        id: u64,
        answer: Result<http::Answer<'_>, &'static str>,
    ) {
        let Some((place, nonce)) = self.place else {
            return;
        };
        if self.upnp.awaited != Some(id) || self.asking.is_none() {
            // The answer to a release is not needed.
            return;
        }
        self.upnp.awaited = None;
        let answer = match answer {
            Ok(answer) => answer,
            Err(reason) => return self.fail(now, reason),
        };
        match self.upnp.step.clone() {
            Step::Search => {}
            Step::Describe(location) => self.on_description(now, place, &location, &answer),
            Step::Address => match Outcome::parse(&answer.body, Action::Address) {
                Ok(Outcome::Address(outside)) => self.on_address(now, place, outside),
                Ok(Outcome::Fault(code)) => self.pass_service(now, soap::reason(code)),
                Ok(Outcome::Done) | Err(_) => self.fail(now, "malformed"),
            },
            Step::Map(wanted) => match Outcome::parse(&answer.body, self.map_action(place, wanted))
            {
                Ok(Outcome::Done) => self.on_mapped(now, wanted),
                Ok(Outcome::Fault(soap::ONLY_PERMANENT)) if !self.upnp.is_permanent => {
                    self.upnp.is_permanent = true;
                    self.map(now, place, wanted);
                }
                Ok(Outcome::Fault(soap::CONFLICT)) => self.on_conflict(now, (place, nonce), wanted),
                Ok(Outcome::Fault(code)) => self.deny(now, soap::reason(code)),
                Ok(Outcome::Address(_)) | Err(_) => self.fail(now, "malformed"),
            },
        }
    }

    fn on_description(
        &mut self,
        now: Time,
        place: Place,
        location: &Url,
        answer: &http::Answer<'_>,
    ) {
        if answer.status != 200 {
            return self.fail(now, "status");
        }
        let Ok(found) = controls(&answer.body, location) else {
            return self.fail(now, "malformed");
        };
        for control in found {
            match *control.url.at.ip() == place.gateway {
                true => self.upnp.others.push_back(control),
                false => self.ignore("elsewhere"),
            }
        }
        if !self.next_service(now) {
            self.pass_description(now, NO_SERVICE);
        }
    }

    /// Handles that the router has mapped the port. Another port that it had mapped before is released.
    fn on_mapped(&mut self, now: Time, wanted: Wanted) {
        let Some(control) = self.upnp.control.clone() else {
            return;
        };
        let held = Held {
            control,
            port: wanted.port,
            is_permanent: self.upnp.is_permanent,
        };
        if self
            .upnp
            .held
            .as_ref()
            .is_some_and(|it| it.port != held.port)
        {
            self.unmap();
        }
        self.upnp.held = Some(held);
        let at = SocketAddrV4::new(wanted.outside, wanted.port);
        self.on_given(now, at, super::LIFETIME);
    }

    /// Handles that another host has the port: another port is requested, a few times.
    fn on_conflict(
        &mut self,
        now: Time,
        (place, nonce): (Place, [u8; pcp::NONCE_BYTES]),
        wanted: Wanted,
    ) {
        let control = self.upnp.control.as_ref();
        self.upnp
            .held
            .take_if(|held| (Some(&held.control), held.port) == (control, wanted.port));
        if wanted.conflicts == OTHER_PORTS {
            return self.deny(now, soap::reason(soap::CONFLICT));
        }
        let pair = [2 * wanted.conflicts, 2 * wanted.conflicts + 1].map(|at| nonce[at]);
        let wanted = Wanted {
            port: DYNAMIC_PORTS | u16::from_be_bytes(pair),
            conflicts: wanted.conflicts + 1,
            ..wanted
        };
        self.map(now, place, wanted);
    }

    /// Asks the next service for the external address, if there is one.
    fn next_service(&mut self, now: Time) -> bool {
        let Some(control) = self.upnp.others.pop_front() else {
            return false;
        };
        self.upnp.control = Some(control);
        self.upnp.step = Step::Address;
        self.act(now, Action::Address);
        true
    }

    fn on_address(&mut self, now: Time, place: Place, outside: Option<Ipv4Addr>) {
        match outside {
            Some(outside) if is_public(outside) => {
                let known = self.mapping.map(|mapping| mapping.at.port());
                let wanted = Wanted {
                    outside,
                    port: known.unwrap_or(place.own.port()),
                    conflicts: 0,
                };
                self.map(now, place, wanted);
            }
            Some(outside) => {
                self.upnp.private.get_or_insert(outside);
                self.pass_service(now, NO_ADDRESS);
            }
            // The uplink is not connected.
            None => self.pass_service(now, NO_ADDRESS),
        }
    }

    /// Handles that a service has no usable address, for this reason: the next one is asked. After the last one, an
    /// address that is not public is the most informative result.
    fn pass_service(&mut self, now: Time, why: &'static str) {
        if self.next_service(now) {
            return;
        }
        match self.upnp.private {
            Some(outside) => self.on_private(now, outside, true),
            None => self.deny(now, why),
        }
    }

    /// Handles that the router does not map the port, or no longer does. A port that it had mapped before is released.
    fn deny(&mut self, now: Time, why: &'static str) {
        self.unmap();
        self.refuse(now, REST, why);
    }

    fn map(&mut self, now: Time, place: Place, wanted: Wanted) {
        // Two services may be two descriptions of one table of ports, so the mapping of one service is released before
        // the other is used.
        let is_elsewhere = |held: &Held| {
            held.port == wanted.port && Some(&held.control) != self.upnp.control.as_ref()
        };
        if self.upnp.held.as_ref().is_some_and(is_elsewhere) {
            self.unmap();
            self.mapping = None;
        }
        self.upnp.step = Step::Map(wanted);
        self.act(now, self.map_action(place, wanted));
    }

    fn map_action(&self, place: Place, wanted: Wanted) -> Action {
        Action::Map {
            external_port: wanted.port,
            own: place.own,
            lease_s: if self.upnp.is_permanent {
                0
            } else {
                lifetime_s()
            },
        }
    }

    /// Releases what the router has mapped, if there is anything.
    pub(super) fn unmap(&mut self) {
        if let Some(held) = self.upnp.held.take() {
            let external_port = held.port;
            let bytes = Action::Unmap { external_port }.emit(&held.control);
            self.request(held.control.url.at, bytes);
        }
    }

    /// Sends an action to the service in use.
    fn act(&mut self, now: Time, action: Action) {
        let Some(control) = &self.upnp.control else {
            return;
        };
        let bytes = action.emit(control);
        let id = self.request(control.url.at, bytes);
        self.wait_for(now, id);
    }

    fn request(&mut self, to: SocketAddrV4, bytes: Vec<u8>) -> u64 {
        self.out.exchanges += 1;
        let id = self.out.exchanges;
        self.out.requests.push_back(Request { id, to, bytes });
        id
    }

    fn wait_for(&mut self, now: Time, id: u64) {
        self.upnp.awaited = Some(id);
        self.asking = Some(Asking {
            outside: None,
            tries: TRIES,
            // The thread that makes the exchange ends it in time, and may make another one before.
            due: now + PATIENCE * 3,
        });
    }

    /// Handles that an exchange has failed. A mapping is kept until its end, and the next round searches for the router
    /// again.
    fn fail(&mut self, now: Time, reason: &'static str) {
        self.ignore(reason);
        self.upnp.awaited = None;
        if matches!(self.upnp.step, Step::Describe(_)) {
            return self.pass_description(now, why(reason));
        }
        if self.mapping.is_some() {
            self.upnp.control = None;
            return self.on_silence(now);
        }
        self.refuse(now, REST, why(reason));
    }
}

const NO_SERVICE: &str = "its UPnP description has no service at its address that maps ports";
const NO_ADDRESS: &str = "it has no address outside";

/// Returns the text for a failure, for people.
fn why(reason: &str) -> &'static str {
    match reason {
        "timeout" => "its UPnP service does not answer in time",
        "closed" => "its UPnP service takes no connection, or ends it",
        "status" => "it does not give its UPnP description",
        _ => "what its UPnP service says cannot be understood",
    }
}

#[cfg(test)]
mod tests;
