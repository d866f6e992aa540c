//! UPnP, for a router that answers neither PCP nor NAT-PMP: a search by UDP, and then one exchange of HTTP after the other.
//!
//! ```text
//!   search ── LOCATION ──▶ description ── services ──▶ address outside ── public ──▶ map ── done ──▶ mapped
//!                                             ▲  none: the next service ◀──┘            ├── 718: another port, a few times
//!                               half its life ┘                                         └── 725: without end
//! ```
//! A host of the local network can answer in the router's name. So an answer counts if it comes from the router's address,
//! and only what is at that address is asked, whatever the answer and the description say.

use super::{AGAIN, Asking, Mapper, Place, Protocol, REST, TRIES, lifetime_s};
use crate::mapping::judge::is_public;
use base::{Duration, Time};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use wire::mapping::upnp::description::{Control, controls};
use wire::mapping::upnp::soap::{self, Action, Outcome};
use wire::mapping::upnp::{Url, http, ssdp};

/// How long one exchange may take. Choice: the router is the next hop; some of them are slow to open a port.
pub(in crate::mapping) const PATIENCE: Duration = Duration::from_secs(3);
/// Ports that are asked for after the first one, when other hosts have them.
const OTHER_PORTS: usize = 4;
/// Those are chosen from here on. [RFC 6335 §6: the dynamic ports]
const DYNAMIC_PORTS: u16 = 49_152;

/// One exchange of HTTP that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::mapping) struct Request {
    /// By which [`Mapper::on_exchange`] knows it.
    pub(in crate::mapping) id: u64,
    pub(in crate::mapping) to: SocketAddrV4,
    pub(in crate::mapping) bytes: Vec<u8>,
}

/// How far it is.
#[derive(Debug, Default)]
pub(super) struct Upnp {
    step: Step,
    /// The exchange that is waited for.
    awaited: Option<u64>,
    /// The service in use.
    control: Option<Control>,
    /// Those after it.
    others: VecDeque<Control>,
    /// The router gives a mapping without end only.
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

/// What is asked for.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    outside: Ipv4Addr,
    port: u16,
    /// So many ports belong to others.
    conflicts: usize,
}

impl Mapper {
    /// The next question to the group [`ssdp::GROUP`].
    pub(in crate::mapping) fn next_search(&mut self) -> Option<Vec<u8>> {
        self.out.searches.pop_front()
    }

    /// The next exchange. Those that were taken are made one after the other.
    pub(in crate::mapping) fn next_request(&mut self) -> Option<Request> {
        self.out.requests.pop_front()
    }

    /// A round begins: with the service in use, if it has mapped the port.
    pub(super) fn begin_upnp(&mut self) {
        let is_known = self.mapping.is_some() && self.upnp.control.is_some();
        if !is_known {
            self.upnp = Upnp::default();
        }
        self.upnp.awaited = None;
        self.upnp.step = match is_known {
            true => Step::Address,
            false => Step::Search,
        };
    }

    /// A search is repeated; an exchange is begun, or was not made within its time.
    pub(super) fn on_upnp_timeout(&mut self, now: Time, asking: Asking) {
        match self.upnp.step {
            Step::Search if asking.tries == TRIES => self.on_silence(now),
            Step::Search => {
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

    /// A datagram has come to the socket by which was searched.
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
        if !is_asked || !matches!(self.upnp.step, Step::Search) {
            // There are several questions, and an answer to each.
            return;
        }
        let Ok(location) = ssdp::location(bytes) else {
            return self.ignore("malformed");
        };
        if *location.at.ip() != place.gateway {
            return self.ignore("elsewhere");
        }
        let bytes = http::get(&location);
        let id = self.request(location.at, bytes);
        self.upnp.step = Step::Describe(location);
        self.wait_for(now, id);
    }

    /// An exchange has ended: with an answer, or with the reason why there is none.
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
            // What was given back needs no answer.
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
                Ok(Outcome::Fault(code)) => self.on_fault(now, code),
                Ok(Outcome::Done) | Err(_) => self.fail(now, "malformed"),
            },
            Step::Map(wanted) => match Outcome::parse(&answer.body, self.map_action(place, wanted))
            {
                Ok(Outcome::Done) => {
                    let at = SocketAddrV4::new(wanted.outside, wanted.port);
                    self.on_given(now, at, super::LIFETIME);
                }
                Ok(Outcome::Fault(soap::ONLY_PERMANENT)) if !self.upnp.is_permanent => {
                    self.upnp.is_permanent = true;
                    self.map(now, place, wanted);
                }
                Ok(Outcome::Fault(soap::CONFLICT)) if wanted.conflicts < OTHER_PORTS => {
                    let pair = [2 * wanted.conflicts, 2 * wanted.conflicts + 1].map(|at| nonce[at]);
                    let wanted = Wanted {
                        port: DYNAMIC_PORTS | u16::from_be_bytes(pair),
                        conflicts: wanted.conflicts + 1,
                        ..wanted
                    };
                    self.map(now, place, wanted);
                }
                Ok(Outcome::Fault(code)) => self.refuse(now, REST, soap::reason(code)),
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
            self.refuse(
                now,
                REST,
                "its UPnP description has no service at its address that maps ports",
            );
        }
    }

    /// The next service is asked for the address outside, if there is one.
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
            Some(outside) => self.on_private(now, outside, self.mapping.is_some()),
            // An uplink that is not connected.
            None => {
                if !self.next_service(now) {
                    let is_open = self.mapping.is_some();
                    self.on_private(now, Ipv4Addr::UNSPECIFIED, is_open);
                }
            }
        }
    }

    /// The service does not tell an address.
    fn on_fault(&mut self, now: Time, code: u16) {
        if !self.next_service(now) {
            self.refuse(now, REST, soap::reason(code));
        }
    }

    fn map(&mut self, now: Time, place: Place, wanted: Wanted) {
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

    /// Gives back what is mapped, or may be.
    pub(super) fn unmap(&mut self) {
        let known = self.mapping.map(|mapping| mapping.at.port());
        let external_port = match (known, &self.upnp.step) {
            (Some(port), _) => port,
            (None, Step::Map(wanted)) => wanted.port,
            (None, _) => return,
        };
        if let Some(control) = &self.upnp.control {
            let bytes = Action::Unmap { external_port }.emit(control);
            self.request(control.url.at, bytes);
        }
    }

    /// The service in use is asked.
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
            // Who makes the exchange ends it in time, and may make another one before.
            due: now + PATIENCE * 3,
        });
    }

    /// The try has failed. What is mapped stays so until its end, and the router is searched for in the next round.
    fn fail(&mut self, now: Time, reason: &'static str) {
        self.ignore(reason);
        if self.mapping.is_some() {
            self.upnp.control = None;
            return self.on_silence(now);
        }
        // It may have done what it was asked for.
        self.unmap();
        self.refuse(now, REST, why(reason));
    }
}

/// What a failure is called where people read it.
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
