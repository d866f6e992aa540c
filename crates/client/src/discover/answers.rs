//! The edge: what name servers say, by hickory-resolver, made plain.

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

/// The most records of one answer that count: those of the lowest priorities. Choice: 64 servers are
/// more than anybody runs behind one name, and an answer of thousands is an attack or a mistake.
pub const RECORDS_MAX: usize = 64;
/// The most addresses of one host that count.
pub const ADDRESSES_MAX: usize = 16;
/// For how long it counts that there is nothing, where the answer does not tell.
const NOTHING_TTL: Duration = Duration::from_secs(30);
/// For how long it counts that nobody could answer: calls that come meanwhile fail at once, and a
/// name server that is back is noticed soon.
const FAILURE_TTL: Duration = Duration::from_secs(2);
/// How long one name server is waited for, once; it is asked twice.
const TIMEOUT: core::time::Duration = core::time::Duration::from_millis(1_200);

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Question {
    Srv(String),
    Addresses(String),
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Servers, in no order.
    Servers(Vec<Srv>),
    /// The domain says that it has no such service.
    NoService,
    Addresses(Vec<IpAddr>),
    /// There is no such record.
    Nothing,
    /// Nobody could answer.
    Failed(Arc<str>),
}

/// Ready to ask. Must be made, and used, within a tokio runtime.
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
    // Answers are kept here, within bounds of our own.
    options.cache_size = 0;
    options.max_active_requests = QUESTIONS_MAX;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    // So that some dozens of servers fit into a datagram.
    options.edns0 = true;
}

/// Asks, and tells for how long the answer counts.
pub(super) async fn ask(resolver: &TokioResolver, question: &Question) -> (Answer, Duration) {
    let name = match question {
        Question::Srv(name) | Question::Addresses(name) => name,
    };
    // The dot at the end: the names that are searched on this host have nothing to do with it.
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
        // A name that no host has, or no port, is nobody's server.
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

/// False for what no single host has.
fn is_host(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let everybody = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(address.is_unspecified() || address.is_multicast() || everybody)
}
