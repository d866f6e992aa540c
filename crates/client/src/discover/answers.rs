//! The boundary to hickory-resolver: converts its answers to plain values.

use super::name::host_name;
use super::order::Srv;
use super::{Error, QUESTIONS_MAX, Settings};
use base::Duration;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
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
/// How long one attempt at a name server may take; there are two attempts.
const TIMEOUT: core::time::Duration = core::time::Duration::from_millis(1_200);

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

/// Creates a resolver. It must be created and used within a tokio runtime.
pub(super) fn resolver(settings: &Settings) -> Result<TokioResolver, Error> {
    let none = |error: NetError| Error::NoNameServer(error.to_string());
    let mut builder = match settings.server {
        Some(server) => {
            let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
            let connections = connections.map(|mut connection| {
                connection.port = server.port();
                connection
            });
            let server = NameServerConfig::new(server.ip(), true, connections.into());
            let config = ResolverConfig::from_name_servers(vec![server]);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        }
        None => TokioResolver::builder_tokio().map_err(none)?,
    };
    set(builder.options_mut());
    builder.build().map_err(none)
}

fn set(options: &mut ResolverOpts) {
    options.timeout = TIMEOUT;
    options.attempts = 2;
    // Answers are cached in this library, within bounds of its own.
    options.cache_size = 0;
    options.max_active_requests = QUESTIONS_MAX;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    // With EDNS0 some dozens of servers fit into a datagram.
    options.edns0 = true;
}

/// Asks, and returns for how long the answer is valid.
pub(super) async fn ask(resolver: &TokioResolver, question: &Question) -> (Answer, Duration) {
    let name = match question {
        Question::Srv(name) | Question::Addresses(name) => name,
    };
    // The dot at the end excludes the search domains of this host.
    let Ok(name) = Name::from_ascii(format!("{name}.")) else {
        return (Answer::Nothing, NOTHING_TTL);
    };
    let answered = match question {
        Question::Srv(_) => resolver.lookup(name, RecordType::SRV).await,
        Question::Addresses(_) => {
            let found = resolver.lookup_ip(name).await;
            found.map(|found| found.as_lookup().clone())
        }
    };
    let records = match &answered {
        Ok(lookup) => lookup.answers(),
        Err(error) => return failed(error),
    };
    let ttl_s = records.iter().map(|record| record.ttl).min();
    let ttl = ttl_s.map_or(NOTHING_TTL, |s| Duration::from_secs(s.into()));
    let answer = match question {
        Question::Srv(_) => servers(records),
        Question::Addresses(_) => addresses(records),
    };
    (answer, ttl)
}

fn failed(error: &NetError) -> (Answer, Duration) {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => {
            let ttl = none.negative_ttl;
            let ttl = ttl.map_or(NOTHING_TTL, |s| Duration::from_secs(s.into()));
            (Answer::Nothing, ttl)
        }
        error => (Answer::Failed(error.to_string().into()), FAILURE_TTL),
    }
}

fn servers(records: &[Record]) -> Answer {
    let (mut servers, mut refused) = (Vec::new(), false);
    for record in records {
        let RData::SRV(srv) = &record.data else {
            continue;
        };
        if srv.target.is_root() {
            refused = true;
            continue;
        }
        // A server with an impossible host name or with port 0 is skipped.
        if let (Some(target), 1..) = (host_name(&srv.target.to_ascii()), srv.port) {
            servers.push(Srv {
                priority: srv.priority,
                weight: srv.weight,
                port: srv.port,
                target,
            });
        }
    }
    servers.sort();
    servers.dedup();
    servers.truncate(RECORDS_MAX);
    match (servers.is_empty(), refused) {
        (false, _) => Answer::Servers(servers),
        (true, true) => Answer::NoService,
        (true, false) => Answer::Nothing,
    }
}

fn addresses(records: &[Record]) -> Answer {
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in records.iter().filter_map(|record| record.data.ip_addr()) {
        if is_host(address) && !addresses.contains(&address) && addresses.len() < ADDRESSES_MAX {
            addresses.push(address);
        }
    }
    match addresses.is_empty() {
        true => Answer::Nothing,
        false => Answer::Addresses(addresses),
    }
}

/// Returns false for addresses that no single host has.
fn is_host(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let everybody = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(address.is_unspecified() || address.is_multicast() || everybody)
}
