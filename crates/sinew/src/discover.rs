//! `sinew discover`: shows the DNS records of a domain's nodes and SIP proxies.

use crate::failure::{Failure, Outcome};
use crate::table::{Align, Table};
use crate::terminal;
use clap::{Args, ValueEnum};
use client::discover::{
    Discover, Endpoint, Error, Found, Origin, Service, Settings, Static, Transport,
};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::net::SocketAddr;

/// Arguments of `sinew discover`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The domain; for SIP also a host with a port, or an address
    pub domain: String,
    /// The kind of host to look for
    #[arg(long, value_enum, default_value = "all")]
    pub service: Wanted,
    /// The name server to ask instead of this host's own
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub server: Option<SocketAddr>,
    /// Hosts of a domain to use without asking the DNS; may be repeated
    #[arg(long = "static", value_name = "DOMAIN=HOST:PORT,..")]
    pub statics: Vec<Static>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wanted {
    /// Nodes and SIP proxies
    All,
    /// Nodes of an overlay
    Nodes,
    /// SIP proxies by UDP and TCP
    Sip,
    /// SIP proxies by UDP
    SipUdp,
    /// SIP proxies by TCP
    SipTcp,
}

/// Looks up the records, and prints them.
pub fn run(args: &Arguments) -> Outcome {
    let settings = Settings {
        server: args.server,
        statics: args.statics.clone(),
        ..Settings::default()
    };
    let discover = Discover::new(settings).map_err(Failure::failed)?;
    let nodes = || ("nodes", discover.nodes(&args.domain));
    let sip = |transport| ("sip", discover.sip(&args.domain, transport));
    let answers = match args.service {
        Wanted::All => vec![nodes(), sip(None)],
        Wanted::Nodes => vec![nodes()],
        Wanted::Sip => vec![sip(None)],
        Wanted::SipUdp => vec![sip(Some(Transport::Udp))],
        Wanted::SipTcp => vec![sip(Some(Transport::Tcp))],
    };
    if args.json {
        let services: Vec<Value> = answers.iter().map(json_of).collect();
        terminal::json(&json!({"domain": args.domain, "services": services}))?;
    } else if let Some(table) = table(&answers) {
        let page = table.page(&terminal::look(), "")?;
        terminal::line(page.to_string().trim_end())?;
    }
    let errors = answers
        .iter()
        .filter_map(|(what, found)| Some((what, found.as_ref().err()?)));
    let errors: Vec<(&&str, &Error)> = errors.collect();
    match errors.last() {
        Some((_, error)) if errors.len() == answers.len() => Err(match error {
            Error::Name(_) | Error::Static(_) => Failure::misused(error),
            error => Failure::failed(error),
        }),
        _ => {
            // The results are on standard output; the errors go to standard error.
            for (what, error) in errors {
                let _ = writeln!(io::stderr(), "{what}: {error}");
            }
            Ok(())
        }
    }
}

fn table(answers: &[(&str, Result<Found, Error>)]) -> Option<Table> {
    let mut table = Table::new(&[
        ("SERVICE", Align::Left),
        ("PRIORITY", Align::Right),
        ("WEIGHT", Align::Right),
        ("SERVER", Align::Left),
        ("ADDRESSES", Align::Left),
        ("FROM", Align::Left),
    ]);
    let found = answers.iter().filter_map(|(_, found)| found.as_ref().ok());
    for endpoint in found.flat_map(|found| &found.endpoints) {
        table.row([
            service(endpoint.service).to_owned(),
            endpoint.priority.to_string(),
            endpoint.weight.to_string(),
            format!("{}:{}", endpoint.host, endpoint.port),
            addresses(endpoint).join(" "),
            origin(endpoint.origin).to_owned(),
        ]);
    }
    (!table.is_empty()).then_some(table)
}

fn json_of((what, found): &(&str, Result<Found, Error>)) -> Value {
    let (endpoints, ttl_s, error) = match found {
        Ok(found) => (
            found.endpoints.as_slice(),
            Some(found.ttl.as_secs_f64()),
            None,
        ),
        Err(error) => (&[][..], None, Some(error.to_string())),
    };
    let endpoints: Vec<Value> = endpoints.iter().map(endpoint_json).collect();
    json!({"service": what, "endpoints": endpoints, "ttl_s": ttl_s, "error": error})
}

fn endpoint_json(endpoint: &Endpoint) -> Value {
    json!({
        "service": service(endpoint.service),
        "host": endpoint.host,
        "port": endpoint.port,
        "addresses": addresses(endpoint),
        "priority": endpoint.priority,
        "weight": endpoint.weight,
        "from": origin(endpoint.origin),
    })
}

fn addresses(endpoint: &Endpoint) -> Vec<String> {
    endpoint.addresses.iter().map(ToString::to_string).collect()
}

const fn service(service: Service) -> &'static str {
    match service {
        Service::Nodes => "node",
        Service::Sip(Transport::Udp) => "sip/udp",
        Service::Sip(Transport::Tcp) => "sip/tcp",
    }
}

const fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Asked => "given",
        Origin::Static => "static",
        Origin::Srv => "srv",
        Origin::Address => "address",
    }
}
