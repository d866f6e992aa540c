//! One search: which questions are asked, and in which order. [RFC 3263 §4]

use super::answers::{self, Answer, Question};
use super::name::{Host, HostPort};
use super::resolver::Resolver;
use super::{Cache, Endpoint, Error, Found, Origin, Service, Settings, Srv, Transport, Wanted};
use base::{Rng, Time};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// Number of answers that are kept: with at most 64 servers of 253 characters each, one takes 20 kB, all take 20 MB.
const ANSWERS_MAX: usize = 1_024;
/// Largest number of servers whose addresses are looked up for one search. A client that has tried this many gives up.
const ENDPOINTS_MAX: usize = 16;

/// The shared state of searches.
#[derive(Debug)]
pub(super) struct Search {
    settings: Settings,
    clock: net::Clock,
    cache: Mutex<Cache<Question, Answer>>,
    rng: Mutex<Rng>,
    /// It is created anew after a failure, because this host may have got other name servers.
    resolver: Mutex<Option<Arc<Resolver>>>,
}

/// A server without addresses yet, and until when the information about it is valid.
struct Lead {
    endpoint: Endpoint,
    until: Time,
}

/// The records of one service.
enum Told {
    Servers(Vec<Lead>),
    NoService,
    Nothing(Time),
    Failed(Arc<str>),
}

impl Search {
    pub(super) fn new(settings: Settings, seed: [u8; 32]) -> Search {
        let [a, b, c, d, e, f, g, h, ..] = seed;
        Search {
            settings,
            clock: net::Clock::new(),
            cache: Mutex::new(Cache::new(ANSWERS_MAX)),
            rng: Mutex::new(Rng::new(u64::from_le_bytes([a, b, c, d, e, f, g, h]))),
            resolver: Mutex::default(),
        }
    }

    pub(super) fn patience(&self) -> Duration {
        self.settings.patience
    }

    pub(super) async fn run(self: &Arc<Search>, wanted: &Wanted) -> Result<Found, Error> {
        use Transport::{Tcp, Udp};
        let services: &[Service] = match wanted {
            Wanted::Nodes(_) => &[Service::Nodes],
            Wanted::Sip(_, Some(Udp)) => &[Service::Sip(Udp)],
            Wanted::Sip(_, Some(Tcp)) => &[Service::Sip(Tcp)],
            // Choice: no NAPTR. It would only say in which order these two are preferred, and every SIP server accepts
            // datagrams. [RFC 3263 §4.1]
            Wanted::Sip(_, None) => &[Service::Sip(Udp), Service::Sip(Tcp)],
        };
        let asked: HostPort = wanted.domain().parse()?;
        let leads = self.leads(&asked, services).await?;
        self.with_addresses(leads, &asked.host).await
    }

    /// Returns the servers of a domain, in order.
    async fn leads(
        self: &Arc<Search>,
        asked: &HostPort,
        services: &'static [Service],
    ) -> Result<Vec<Lead>, Error> {
        let own = |origin| lead(services[0], asked.clone(), 0, origin);
        let Host::Name(domain) = &asked.host else {
            return Ok(vec![own(Origin::Asked)]);
        };
        if asked.port.is_some() {
            return Ok(vec![own(Origin::Asked)]);
        }
        let known: Vec<Lead> = services
            .iter()
            .flat_map(|s| self.known(*s, domain))
            .collect();
        if !known.is_empty() {
            return Ok(known);
        }
        let (mut leads, mut until) = (Vec::new(), Time::FAR);
        let (mut no_service, mut failure) = (false, None);
        for service in services {
            match self.told(*service, domain).await? {
                Told::Servers(servers) => leads.extend(servers),
                Told::NoService => no_service = true,
                Told::Nothing(counts) => until = until.min(counts),
                Told::Failed(why) => failure = Some(why),
            }
        }
        match (leads.is_empty(), failure, no_service) {
            (false, ..) => Ok(leads),
            (true, Some(why), _) => Err(Error::NoAnswer {
                domain: domain.clone(),
                why: why.to_string(),
            }),
            (true, None, true) => Err(Error::NoService(domain.clone())),
            (true, None, false) => Ok(vec![Lead {
                until,
                ..own(Origin::Address)
            }]),
        }
    }

    /// Returns the configured servers.
    fn known(&self, service: Service, domain: &str) -> Vec<Lead> {
        let of = |name: &str| {
            self.settings
                .statics
                .iter()
                .find(|known| known.name == name)
        };
        let known = of(&format!("{service}.{domain}")).or_else(|| of(domain));
        let hosts = known.map_or(&[][..], |known| &known.hosts);
        let numbered = (0u16..).zip(hosts.iter().cloned());
        numbered
            .map(|(n, host)| lead(service, host, n, Origin::Static))
            .collect()
    }

    /// Returns what the SRV records of one service say.
    async fn told(self: &Arc<Search>, service: Service, domain: &str) -> Result<Told, Error> {
        // If the domain is so long that the service does not fit in front, there is no such record.
        let name = format!("{service}.{domain}");
        let (until, answer) = self.answer(Question::Srv(name)).await?;
        Ok(match answer {
            Answer::Servers(records) => {
                let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
                let ordered = super::order(records, |most| rng.below(u64::from(most) + 1) as u32);
                let leads = ordered.into_iter().map(|record| Lead {
                    endpoint: from_record(service, record),
                    until,
                });
                Told::Servers(leads.collect())
            }
            Answer::NoService => Told::NoService,
            Answer::Failed(why) => Told::Failed(why),
            Answer::Nothing | Answer::Addresses(_) => Told::Nothing(until),
        })
    }

    /// Looks up the addresses, and returns the servers that have any.
    async fn with_addresses(
        self: &Arc<Search>,
        mut leads: Vec<Lead>,
        asked: &Host,
    ) -> Result<Found, Error> {
        leads.truncate(ENDPOINTS_MAX);
        let mut asking = JoinSet::new();
        for (i, lead) in leads.iter_mut().enumerate() {
            match lead.endpoint.host.parse::<IpAddr>() {
                Ok(address) => lead.endpoint.addresses.push(address),
                Err(_) => {
                    let (search, host) = (Arc::clone(self), lead.endpoint.host.clone());
                    let question = Question::Addresses(host);
                    asking.spawn(async move { (i, search.answer(question).await) });
                }
            }
        }
        let mut failure = None;
        // A task ends early only by a panic, which was reported there.
        while let Some(Ok((i, answer))) = asking.join_next().await {
            let (until, answer) = answer?;
            let lead = &mut leads[i];
            lead.until = lead.until.min(until);
            match answer {
                Answer::Addresses(addresses) => lead.endpoint.addresses = addresses,
                Answer::Failed(why) => failure = Some(why),
                _ => {}
            }
        }
        let now = self.clock.now();
        let until = leads.iter().map(|lead| lead.until).min().unwrap_or(now);
        let endpoints: Vec<Endpoint> = leads
            .into_iter()
            .map(|lead| lead.endpoint)
            .filter(|endpoint| !endpoint.addresses.is_empty())
            .collect();
        match (endpoints.is_empty(), failure) {
            (false, _) => Ok(Found {
                endpoints,
                ttl: Duration::from_nanos(until.since(now).min(super::TTL_MAX).as_nanos()),
            }),
            (true, Some(why)) => Err(Error::NoAnswer {
                domain: asked.to_string(),
                why: why.to_string(),
            }),
            (true, None) => Err(Error::NotFound(asked.to_string())),
        }
    }

    /// Returns the answer to a question, cached or new, and until when it is valid.
    async fn answer(&self, question: Question) -> Result<(Time, Answer), Error> {
        {
            let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((until, answer)) = cache.find(self.clock.now(), &question) {
                return Ok((until, answer.clone()));
            }
        }
        let resolver = self.resolver()?;
        let (answer, ttl) = answers::ask(&resolver, &question).await;
        if matches!(answer, Answer::Failed(_)) {
            *self.resolver.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let until = cache.keep(self.clock.now(), question, answer.clone(), ttl);
        Ok((until, answer))
    }

    fn resolver(&self) -> Result<Arc<Resolver>, Error> {
        let mut kept = self.resolver.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(resolver) = &*kept {
            return Ok(Arc::clone(resolver));
        }
        let resolver = Arc::new(Resolver::new(&self.settings)?);
        *kept = Some(Arc::clone(&resolver));
        Ok(resolver)
    }
}

/// Returns a server that was named without the DNS.
fn lead(service: Service, at: HostPort, priority: u16, origin: Origin) -> Lead {
    Lead {
        endpoint: Endpoint {
            service,
            host: at.host.to_string(),
            port: at.port.unwrap_or(service.default_port()),
            addresses: Vec::new(),
            priority,
            weight: 0,
            origin,
        },
        until: Time::FAR,
    }
}

fn from_record(service: Service, record: Srv) -> Endpoint {
    Endpoint {
        service,
        host: record.target,
        port: record.port,
        addresses: Vec::new(),
        priority: record.priority,
        weight: record.weight,
        origin: Origin::Srv,
    }
}
