//! PCP and NAT-PMP: their requests, and the meaning of the answers.

use super::{Asking, Mapper, Place, Protocol, RENEW_MIN, REST};
use crate::mapping::judge::{fits, is_public};
use base::{Duration, Time};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use wire::Endpoint;
use wire::mapping::{Answer, PORT, UNSUPPORTED_VERSION, nat_pmp, pcp};

impl Mapper {
    /// Handles a datagram.
    pub(in crate::mapping) fn on_datagram(&mut self, now: Time, from: SocketAddr, bytes: &[u8]) {
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

    fn on_other_version(&mut self, now: Time) {
        match (self.asking, self.protocol) {
            (Some(_), Protocol::Pcp) => self.begin(now, Protocol::NatPmp),
            // Each PCP request gets this answer, and some may be late. A router that supports neither protocol ends up
            // as silent.
            _ => self.ignore("unasked"),
        }
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
            // A router reports in this way that it has changed the mapping. [RFC 6887 §14.2]
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
            // The older protocol may work.
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
        if self.protocol != Protocol::NatPmp {
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

    /// Handles an announcement. After a restart, a router announces how long it has kept its mappings. With NAT-PMP it
    /// also announces its external address when that changes [RFC 6886 §3.2.1]. The mapper asks after a restart even
    /// while it rests after a refusal, because the router may have another configuration.
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

    /// Asks soon. A router's announcement that nobody requested is not used, but is a reason to ask.
    fn ask_soon(&mut self, now: Time) {
        let rested = self.last_round.map(|last| last + RENEW_MIN);
        let soon = rested.map_or(now, |rested| rested.max(now));
        self.next_round = Some(self.next_round.map_or(soon, |next| next.min(soon)));
    }

    /// Sends the present request by datagram. A lifetime of zero releases the mapping.
    pub(super) fn say(&mut self, lifetime_s: u32) {
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
                return self.out.datagrams.push_back(request.to_bytes().to_vec());
            }
            (Protocol::Upnp, _) => return,
            (Protocol::NatPmp, None) if lifetime_s > 0 => nat_pmp::Request::Address,
            (Protocol::NatPmp, _) => nat_pmp::Request::Map(nat_pmp::Map {
                internal_port,
                // [RFC 6886 §3.4]
                external_port: if lifetime_s > 0 { port } else { 0 },
                lifetime_s,
            }),
        };
        let len = request.emit(&mut buffer).expect("no message is longer");
        self.out.datagrams.push_back(buffer[..len].to_vec());
    }
}
