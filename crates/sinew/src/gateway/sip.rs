//! `sinew gateway sip`: connects unchanged phones and PBXs over the overlay.

use super::exchange::{Exchange, Far};
use super::metrics::Numbers;
use super::reach::Reach;
use super::record;
use super::station::Station;
use super::wait::stopped;
use crate::control::{self, Control};
use crate::domains::Watch;
use crate::failure::{Failure, Outcome};
use crate::names::client_socket;
use crate::quantity;
use crate::service;
use crate::stop::{Stop, Which};
use crate::terminal;
use clap::Args;
use client::discover::{self, Discover, Found};
use client::{Node, Options};
use gateway::allow::{Allowed, Rule};
use gateway::domains::Domains;
use gateway::media::{OVERLAY_PORTS, SHADOW_PORT, Shadow};
use gateway::sip::{Direction, Event, Gateway, Lookup, Server, Settings, Trace, Transport};
use host::log::Lines;
use host::metrics::{Hosts, Metrics};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// [`gateway::media::UDP_PORTS`], as users write the range.
const MEDIA_PORTS: &str = "20000-32767";
// A client that asks its node for any port gets none of the gateway's ports.
const _: () = assert!(*OVERLAY_PORTS.end() < overlay::sockets::EPHEMERAL_FIRST);
/// The suffix of a domain for the overlay's own names.
const OWN_DOMAIN: &str = "sinew";

/// Arguments of `sinew gateway sip`.
#[derive(Debug, Args)]
pub struct SipArgs {
    /// Where to listen for SIP, by UDP and TCP
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5060")]
    pub listen: SocketAddr,
    /// The proxy, PBX or phone of a domain of this site; may be repeated
    #[arg(long, value_name = "DOMAIN=HOST[:PORT]")]
    pub local: Vec<Server>,
    /// The proxy of another domain, for calls that the overlay does not reach; default: by DNS
    #[arg(long, value_name = "DOMAIN=HOST[:PORT]")]
    pub direct: Vec<Server>,
    /// The name server to ask instead of this host's own
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub dns: Option<SocketAddr>,
    /// A network whose hosts may use the gateway; default: private networks
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    pub allow: Vec<Rule>,
    /// A network that requests may be led to although its addresses are loopback, link-local or of
    /// another special kind, and by requests from other sites within a call; may be repeated
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    pub reach: Vec<Rule>,
    /// The address by which the gateway is reached from beyond this site's NAT
    #[arg(long, value_name = "ADDRESS")]
    pub public: Option<IpAddr>,
    /// UDP ports for media
    #[arg(long, value_name = "FIRST-LAST", default_value = MEDIA_PORTS, value_parser = ports)]
    pub media_ports: RangeInclusive<u16>,
    /// Take a phone's media from any address of its IPv4 /24 or IPv6 /64, not only from the one that
    /// it names or that its signalling comes from
    #[arg(long)]
    pub media_from_lan: bool,
    /// Deadline of a packet from phone to phone across the overlay
    #[arg(long, value_name = "TIME", default_value = "150ms",
          value_parser = quantity::call_deadline)]
    pub deadline: base::Duration,
    /// Loss target and repair limit
    #[command(flatten)]
    pub protection: service::Protection,
    /// The paths of the calls' packets across the overlay
    #[command(flatten)]
    pub(crate) paths: service::Paths,
    /// Also send this share of the calls' speech over the plain path, to compare; the other gateway
    /// needs the option too, at least with 0%
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    pub shadow: Option<f64>,
    /// Append a line of JSON for each call that ended to this file
    #[arg(long, value_name = "FILE")]
    pub records: Option<PathBuf>,
    /// Write every SIP message to this file
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Serve metrics for Prometheus, and /status, by HTTP
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,
    /// A name that the metrics may be asked for by, beside addresses, localhost and this host's own
    /// name; may be repeated
    #[arg(long, value_name = "NAME")]
    pub metrics_host: Vec<String>,
    /// The control socket of the node
    #[arg(long, value_name = "SOCKET")]
    pub node: Option<PathBuf>,
    /// Print what happens as JSON, one object in a line
    #[arg(long)]
    pub json: bool,
}

/// Runs the gateway until Ctrl-C.
pub(super) fn run(args: &SipArgs) -> Outcome {
    let control = control::socket(args.node.as_deref())?;
    let status = Control::connect(&control)?.status()?;
    let node = Node::at(client_socket(&status)?);
    let watch = Watch::start(control.clone(), &status).map_err(Failure::failed)?;
    let unnamed = unnamed(args, &status, &watch);
    let watch: Arc<dyn Domains> = Arc::new(watch);
    let records = args.records.as_deref().map(append).transpose()?;
    let far = Far::default();
    let settings = Settings {
        node: node.clone(),
        listen: args.listen,
        public: args.public,
        media: args.media_ports.clone(),
        virtual_media: OVERLAY_PORTS,
        options: options(args),
        media_from_lan: args.media_from_lan,
        shadow: args.shadow.map(|fraction| Shadow {
            fraction,
            port: SHADOW_PORT,
        }),
        domain: own_domain(&status),
        local: args.local.clone(),
        direct: args.direct.clone(),
        reach: Allowed::new(args.reach.clone()),
        allowed: (!args.allow.is_empty()).then(|| Allowed::new(args.allow.clone())),
        domains: watch,
        lookup: lookup(args.dns)?,
        answer_within: gateway::sip::ANSWER_WITHIN,
        realtime: true,
        report: Arc::new(reporter(args.json, records, far.clone())),
        trace: args.trace.as_deref().map(trace).transpose()?,
    };
    let mut stop = Stop::new()?;
    let gateway = Arc::new(Gateway::start(settings).map_err(Failure::failed)?);
    let station = Station::open(
        &control.with_extension(super::station::SUFFIX),
        (gateway.clone(), far.clone()),
        options(args),
    )?;
    let _exchange = Exchange::start(node, gateway.clone(), far.clone()).map_err(Failure::failed)?;
    let as_json = args.json;
    let reach = Reach::start(control.clone(), &options(args), move |text| {
        let _ = warn(as_json, text);
    });
    let reach = reach.map_err(Failure::failed)?;
    let (_flushed, lines) = Lines::new("gateway", net::Clock::new(), false);
    let source = |addr| {
        let numbers = Numbers(gateway.clone(), far.clone(), reach.reached.clone());
        let hosts = Hosts::new(&args.metrics_host);
        Metrics::start(addr, hosts, numbers, lines.clone())
    };
    let _metrics = args
        .metrics
        .map(source)
        .transpose()
        .map_err(Failure::failed)?;
    if args.local.is_empty() {
        let _ = writeln!(
            io::stderr(),
            "calls from other sites reach nobody here: name your PBX by --local DOMAIN=HOST:PORT"
        );
    }
    let at = gateway.local().to_string();
    if args.json {
        terminal::json(&json!({"event": "listening", "at": at}))?;
    } else {
        let _ = writeln!(io::stderr(), "SIP at {at}, by UDP and TCP");
    }
    for text in unnamed {
        warn(args.json, &text)?;
    }
    let ended = loop {
        match stop.wait_for_either(&station, gateway.over())? {
            None => break Ok(()),
            Some(Which::First) => station.serve_next(),
            Some(Which::Second) => break Err(stopped()),
        }
    };
    gateway.stop();
    if args.json {
        let mut counters = record::counters(&gateway);
        counters["event"] = json!("stopped");
        terminal::json(&counters)?;
    }
    ended
}

/// Returns the options of the sockets for media.
fn options(args: &SipArgs) -> Options {
    let voice = Options::voice(Duration::from_nanos(args.deadline.as_nanos()));
    Options {
        routing: args.paths.chosen().unwrap_or(voice.routing),
        aim: args.protection.aim(),
        ..voice
    }
}

fn warn(as_json: bool, text: &str) -> Outcome {
    if as_json {
        return terminal::json(&json!({"event": "warning", "text": text}));
    }
    let _ = writeln!(io::stderr(), "WARNING: {text}");
    Ok(())
}

/// Returns warnings for local domains that the node's certificate does not name: other sites find
/// the path to a domain only by certificates.
fn unnamed(args: &SipArgs, status: &Value, domains: &Watch) -> Vec<String> {
    let name = status["snapshot"]["name"].as_str().unwrap_or("NODE");
    let own = status["snapshot"]["address"].as_str().unwrap_or_default();
    let Ok(own) = own.parse() else {
        return Vec::new();
    };
    let local = args.local.iter().map(|server| server.domain.as_str());
    let unnamed = local.filter(|domain| !domains.serves(own, domain));
    unnamed
        .map(|domain| {
            format!(
                "calls from other sites cannot come in for {domain}: the certificate of {name} does \
                 not name it; run `sinew net set DIR {name} --domain {domain} --node ..` where the \
                 network's directory is"
            )
        })
        .collect()
}

/// Returns the first domain in this node's certificate. Without one, the function returns a name
/// that stands for the node.
fn own_domain(status: &Value) -> String {
    let own = &status["snapshot"]["address"];
    let nodes = status["nodes"].as_array().into_iter().flatten();
    let node = nodes.into_iter().find(|node| node["address"] == *own);
    let named = node
        .and_then(|node| node["domains"][0].as_str())
        .map(|domain| domain.trim_start_matches("*.").to_owned());
    let name = status["snapshot"]["name"].as_str().unwrap_or("node");
    named
        .filter(|domain| domain != "*")
        .unwrap_or_else(|| format!("{name}.{OWN_DOMAIN}"))
}

fn network(text: &str) -> Result<Rule, String> {
    let bad = |_| format!("{text:?} is no network, like 10.1.0.0/16 or [2001:db8::]/32");
    format!("{text}:*").parse::<Rule>().map_err(bad)
}

fn share(text: &str) -> Result<f64, String> {
    let percent = text.trim_end_matches('%').parse::<f64>().ok();
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    let share = percent.map(|percent| percent / 100.0);
    share.ok_or_else(|| format!("{text:?} is no share, like 10%"))
}

fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let bad = || format!("{text:?} is no range of ports, like {MEDIA_PORTS}");
    let (first, last) = text.split_once('-').ok_or_else(bad)?;
    let port = |text: &str| text.parse().map_err(|_| bad());
    let (first, last): (u16, u16) = (port(first)?, port(last)?);
    match first > 0 && first < last {
        true => Ok(first..=last),
        false => Err(bad()),
    }
}

fn append(path: &Path) -> Result<File, Failure> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map_err(|error| Failure::failed(format_args!("{}: {error}", path.display())))
}

/// Makes the lookup of names by DNS, SRV records first.
fn lookup(server: Option<SocketAddr>) -> Result<Lookup, Failure> {
    let settings = discover::Settings {
        server,
        ..discover::Settings::default()
    };
    let discover = Discover::new(settings).map_err(Failure::failed)?;
    Ok(Arc::new(move |name: String, port, transport| {
        let name = port.map_or(name.clone(), |port| format!("{name}:{port}"));
        let transport = match transport {
            Transport::Tcp => discover::Transport::Tcp,
            _ => discover::Transport::Udp,
        };
        let found = discover.sip_async(&name, Some(transport));
        Box::pin(async move {
            let found = found.await;
            let at = found.iter().flat_map(Found::addresses);
            at.map(|(_, at)| at).collect()
        })
    }))
}

/// Reports events: ended calls, as text or as call detail records.
fn reporter(as_json: bool, records: Option<File>, far: Far) -> impl Fn(Event) + Send + Sync {
    let records = records.map(Mutex::new);
    move |event| {
        let (line, is_record) = match &event {
            Event::Answered(call) => (record::event("answered", call, &far), false),
            Event::Ended(call) => (record::event("ended", call, &far), true),
            Event::Warning(text) => (json!({"event": "warning", "text": text}), false),
        };
        if let Some(file) = records.as_ref().filter(|_| is_record) {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = writeln!(file, "{line}") {
                let _ = writeln!(
                    io::stderr(),
                    "a call's record could not be written: {error}"
                );
            }
        }
        // If the output pipe is closed, the command ends at its next wait.
        let _ = match (as_json, &event) {
            (true, _) => writeln!(io::stdout(), "{line}"),
            (false, Event::Warning(text)) => writeln!(io::stderr(), "{text}"),
            (false, Event::Answered(_)) => Ok(()),
            (false, Event::Ended(call)) => writeln!(io::stderr(), "{}", record::line(call, &far)),
        };
    }
}

fn trace(path: &Path) -> Result<Trace, Failure> {
    let file = Mutex::new(append(path)?);
    Ok(Arc::new(move |direction, at, message| {
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let arrow = match direction {
            Direction::In => "<--",
            Direction::Out => "-->",
        };
        let at = at.map_or_else(|| "?".to_owned(), |at| at.to_string());
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        // A trace that cannot be written must not stop calls.
        let _ = writeln!(file, "{:.6} {arrow} {at}\n{message}\n", since.as_secs_f64());
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway::media::UDP_PORTS;

    /// A test call is made with the deadline that the gateway's calls have.
    #[test]
    fn test_calls_and_the_sip_gateway_have_the_same_deadline() {
        use clap::Command;
        let calls = crate::call::Call::augment_args(Command::new("test-call"));
        let calls = calls.get_matches_from(["test-call", "fra"]);
        let gateway = SipArgs::augment_args(Command::new("sip"));
        let gateway = gateway.get_matches_from(["sip"]);
        for words in [calls, gateway] {
            let deadline = words.get_one::<base::Duration>("deadline");
            assert_eq!(deadline, Some(&tools::call::DEADLINE));
        }
    }

    #[test]
    fn no_client_that_asks_for_any_port_gets_one_of_the_gateway_s() {
        assert!(*OVERLAY_PORTS.end() < overlay::sockets::EPHEMERAL_FIRST);
        assert!(!OVERLAY_PORTS.contains(&SHADOW_PORT));
        assert_eq!(ports(MEDIA_PORTS), Ok(UDP_PORTS));
    }
}
