//! Turns the answers of name servers into servers or addresses, and determines for how long both are valid.

use super::name::host_name;
use super::order::Srv;
use super::resolver::{Answered, Resolver};
use base::Duration;
use core::str::FromStr;
use domain::base::{Name, Rtype, ToName};
use domain::rdata::{A, Aaaa, Soa, Srv as SrvData};
use std::net::IpAddr;
use std::sync::Arc;

/// Largest number of records of one answer that are used: those with the lowest priority numbers. Choice: 64 servers
/// are more than anybody runs behind one name, and an answer with thousands is an attack or a mistake.
pub const RECORDS_MAX: usize = 64;
/// Largest number of addresses of one host that are used.
pub const ADDRESSES_MAX: usize = 16;
/// How long a negative answer is valid if the answer does not say.
const NOTHING_TTL: Duration = Duration::from_secs(30);
/// How long a failure is remembered: calls meanwhile fail at once, and a name server that recovers is noticed soon.
const FAILURE_TTL: Duration = Duration::from_secs(2);
/// Maximum number of questions for one name. Another question follows if an answer has an alias, but not the records of
/// the name to which the alias leads.
const ALIASES_MAX: usize = 8;

/// A question to a name server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Question {
    Srv(String),
    Addresses(String),
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Servers, in no particular order.
    Servers(Vec<Srv>),
    /// The domain declares that it has no such service.
    NoService,
    Addresses(Vec<IpAddr>),
    /// There is no such record.
    Nothing,
    /// No name server could answer.
    Failed(Arc<str>),
}

/// Asks. Returns the answer, and for how long it is valid.
pub(super) async fn ask(resolver: &Resolver, question: &Question) -> (Answer, Duration) {
    match question {
        Question::Srv(name) => asked(servers(resolver, name).await),
        Question::Addresses(name) => asked(addresses(resolver, name).await),
    }
}

/// An answer and for how long it is valid, or the reason why there is none.
type Outcome = Result<(Answer, Duration), String>;

fn asked(outcome: Outcome) -> (Answer, Duration) {
    outcome.unwrap_or_else(|why| (Answer::Failed(why.into()), FAILURE_TTL))
}

async fn servers(resolver: &Resolver, name: &str) -> Outcome {
    let Some(answered) = records(resolver, name, Rtype::SRV).await? else {
        return Ok((Answer::Nothing, NOTHING_TTL));
    };
    let (mut servers, mut refused) = (Vec::new(), false);
    let records = answered.message.answer().map_err(unreadable)?;
    for record in records.limit_to_in::<SrvData<_>>() {
        let record = record.map_err(unreadable)?;
        if *record.owner() != answered.owner {
            continue;
        }
        let srv = record.data();
        if srv.target().is_root() {
            refused = true;
            continue;
        }
        // A name that no host has, or port 0, is not a server.
        if let (Some(target), 1..) = (host_name(&srv.target().to_string()), srv.port()) {
            servers.push(Srv {
                priority: srv.priority(),
                weight: srv.weight(),
                port: srv.port(),
                target,
            });
        }
    }
    servers.sort();
    servers.dedup();
    servers.truncate(RECORDS_MAX);
    let answer = match (servers.is_empty(), refused) {
        (false, _) => Answer::Servers(servers),
        (true, true) => Answer::NoService,
        (true, false) => Answer::Nothing,
    };
    Ok((answer, answered.ttl()?))
}

async fn addresses(resolver: &Resolver, name: &str) -> Outcome {
    let mut found = Addresses::default();
    found.extend(resolver.hosts(name));
    if !found.0.is_empty() {
        return Ok((found.answer(), NOTHING_TTL));
    }
    let (v4, v6) = tokio::join!(
        records(resolver, name, Rtype::A),
        records(resolver, name, Rtype::AAAA)
    );
    let (mut ttl, mut failure) = (None::<Duration>, None);
    for answered in [v4, v6] {
        match answered {
            Ok(Some(answered)) => {
                found.extend(answered.addresses()?);
                let counts = answered.ttl()?;
                ttl = Some(ttl.map_or(counts, |ttl| ttl.min(counts)));
            }
            Ok(None) => {}
            Err(why) => failure = Some(why),
        }
    }
    match (found.0.is_empty(), failure) {
        (true, Some(why)) => Err(why),
        _ => Ok((found.answer(), ttl.unwrap_or(NOTHING_TTL))),
    }
}

/// A message, and the name whose records in it count: the requested name, or the name to which its aliases lead.
struct Records {
    message: Answered,
    owner: Name<Vec<u8>>,
}

/// Asks for records, and follows aliases. Returns `None` if there can be no such name.
async fn records(resolver: &Resolver, name: &str, kind: Rtype) -> Result<Option<Records>, String> {
    // The dot makes the name absolute, so that the search domains of this host do not apply.
    let Ok(mut owner) = Name::<Vec<u8>>::from_str(&format!("{name}.")) else {
        return Ok(None);
    };
    for _ in 0..ALIASES_MAX {
        let message = resolver.ask(&owner, kind).await?;
        let Some(canonical) = message.canonical_name() else {
            return Err("the name has too many aliases, or they go round in circles".into());
        };
        let canonical: Name<Vec<u8>> = canonical.to_name();
        let mut answer = message.answer().map_err(unreadable)?;
        let has_it = answer.any(|record| {
            record.is_ok_and(|record| record.owner() == canonical && record.rtype() == kind)
        });
        let is_asked = canonical == owner;
        owner = canonical;
        if has_it || is_asked {
            return Ok(Some(Records { message, owner }));
        }
    }
    Err("the name has too many aliases".into())
}

impl Records {
    fn addresses(&self) -> Result<Vec<IpAddr>, String> {
        let answer = self.message.answer().map_err(unreadable)?;
        let mut found = Vec::new();
        for record in answer.limit_to_in::<A>() {
            let record = record.map_err(unreadable)?;
            if *record.owner() == self.owner {
                found.push(IpAddr::V4(record.data().addr()));
            }
        }
        for record in answer.limit_to_in::<Aaaa>() {
            let record = record.map_err(unreadable)?;
            if *record.owner() == self.owner {
                found.push(IpAddr::V6(record.data().addr()));
            }
        }
        Ok(found)
    }

    /// Returns for how long the message is valid: the shortest TTL of its records, aliases included. If it has no
    /// records, the zone says for how long that is valid [RFC 2308 §5].
    fn ttl(&self) -> Result<Duration, String> {
        let answer = self.message.answer().map_err(unreadable)?;
        let lives = answer.filter_map(|record| record.ok().map(|record| record.ttl().as_secs()));
        if let Some(shortest) = lives.min() {
            return Ok(Duration::from_secs(shortest.into()));
        }
        let authority = self.message.authority().map_err(unreadable)?;
        let mut zones = authority.limit_to_in::<Soa<_>>().filter_map(Result::ok);
        let counts = zones
            .next()
            .map(|soa| soa.ttl().min(soa.data().minimum()).as_secs());
        Ok(counts.map_or(NOTHING_TTL, |s| Duration::from_secs(s.into())))
    }
}

/// Addresses that a host can have, each once.
#[derive(Default)]
struct Addresses(Vec<IpAddr>);

impl Addresses {
    fn extend(&mut self, addresses: Vec<IpAddr>) {
        for address in addresses {
            if is_host(address) && !self.0.contains(&address) && self.0.len() < ADDRESSES_MAX {
                self.0.push(address);
            }
        }
    }

    fn answer(self) -> Answer {
        match self.0.is_empty() {
            true => Answer::Nothing,
            false => Answer::Addresses(self.0),
        }
    }
}

fn unreadable(error: domain::base::wire::ParseError) -> String {
    format!("the answer cannot be read: {error}")
}

/// Returns false for an address that no single host has.
fn is_host(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let everybody = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(address.is_unspecified() || address.is_multicast() || everybody)
}
