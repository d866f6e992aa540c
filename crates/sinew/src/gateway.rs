//! `sinew gateway`: connects programs that do not know the overlay.

mod amt;
pub mod exchange;
mod metrics;
pub(crate) mod multicast;
mod reach;
pub mod record;
mod rist;
mod rtp;
mod sip;
mod srt;
pub mod station;
mod video;
mod wait;

use crate::control::{self, Control};
use crate::failure::{Failure, Outcome};
use crate::forward::reporter;
use crate::names::{Names, as_client, client_socket};
use crate::stop::Stop;
use crate::terminal;
use base::NodeAddr;
use clap::{Args, Subcommand};
use client::{Node, Options};
use gateway::socks::{Counters, NEGOTIATION_TIMEOUT, Nodes, SUFFIX, Settings, Socks};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wire::exit::Host;

/// How long the list of nodes counts as fresh.
const FRESH: Duration = Duration::from_secs(5);
/// The shortest time between two requests for the list, if it lacks a name.
const AGAIN: Duration = Duration::from_millis(500);

/// The subcommands of `sinew gateway`.
#[derive(Debug, Subcommand)]
pub enum Gateway {
    /// Run a SOCKS 5 proxy: programs reach nodes by name, and the Internet through an exit node
    #[command(after_help = "\
Examples:
  sinew gateway socks --node net/ams
  curl --socks5-hostname 127.0.0.1:1080 http://web.sinew:8080/
  sinew gateway socks --listen 127.0.0.1:1081 --exit fra --node net/ams
  curl --socks5-hostname 127.0.0.1:1081 http://example.org/
  ssh -o 'ProxyCommand nc -X 5 -x 127.0.0.1:1080 %h %p' user@web.sinew")]
    Socks(SocksArgs),
    /// Carry calls of unmodified phones and PBXs, by SIP and RTP
    #[command(after_help = "\
Examples:
  sinew gateway sip --local a.example=10.1.0.5:5060 --node net/ams
  sinew gateway sip --listen 10.1.0.1:5060 --local a.example=10.1.0.5 \\
    --records calls.jsonl
  sinew calls --node net/ams")]
    Sip(sip::SipArgs),
    /// Bridge IP multicast, as if the programs of several sites were on one network
    #[command(after_help = "\
Examples:
  sinew gateway multicast --node net/ams                    # for this host
  ffmpeg -re -i film.ts -c copy -f mpegts 'udp://239.1.1.1:5004?pkt_size=1316'
  sinew gateway multicast --node net/fra --interface eth1   # for hosts at eth1
  vlc udp://@239.1.1.1:5004                                 # at one of them
  sinew gateway multicast --groups '239.1.0.0/16,!239.1.9.9' --deadline 150ms")]
    Multicast(multicast::MulticastArgs),
    /// Carry live video that encoders send and decoders receive by SRT
    #[command(after_help = "\
Examples:
  sinew gateway srt --listen 0.0.0.0:7001 --to 239.1.1.1:5004 --node net/ams
  ffmpeg -re -i film.ts -c copy -f mpegts srt://ams.example:7001
  sinew gateway srt --listen 0.0.0.0:7001 --from 239.1.1.1:5004 --node net/fra
  ffplay srt://fra.example:7001
  sinew gateway srt --call encoder.example:9000 --to fra:5004 --latency 80ms
  sinew gateway srt --call cdn.example:9000 --stream-id studio --from :5004 \\
    --passphrase-file secret --status 10s --json")]
    Srt(srt::SrtArgs),
    /// Carry live video that encoders send and decoders receive by RIST
    #[command(after_help = "\
Examples:
  sinew gateway rist --listen 0.0.0.0:1968 --to 239.1.1.1:5004 --node net/ams
  ristsender -i udp://127.0.0.1:5000 -o rist://ams.example:1968
  sinew gateway rist --listen 0.0.0.0:1968 --from 239.1.1.1:5004 --node net/fra
  ristreceiver -i rist://fra.example:1968 -o udp://127.0.0.1:1234
  sinew gateway rist --call cdn.example:1968 --from :5004 \\
    --secret-file secret --key-bits 256 --status 10s --json")]
    Rist(rist::RistArgs),
    /// Carry RTP and transport streams over UDP, on one path or two (SMPTE ST 2022-7)
    #[command(after_help = "\
Examples:
  sinew gateway rtp --in 239.9.1.1:5004@eth1 --in 239.9.1.2:5004@eth2 \\
    --to 239.1.1.1:5004 --node net/ams                   # merge two paths
  sinew gateway rtp --from 239.1.1.1:5004 --out 239.9.2.1:5004@eth1 \\
    --out 239.9.2.2:5004@eth2 --node net/fra             # send on two paths
  sinew gateway rtp --from 239.1.1.1:5004 --out 127.0.0.1:1234   # for a player")]
    Rtp(rtp::RtpArgs),
    /// Relay groups to receivers without a node and without multicast: AMT (RFC 7450)
    #[command(after_help = "\
A receiver runs an AMT gateway, and names this relay: UDP port 2268.

Example:
  sinew gateway amt --advertise 192.0.2.1 --node net/fra")]
    Amt(amt::AmtArgs),
}

/// Arguments of `sinew gateway socks`.
#[derive(Debug, Args)]
pub struct SocksArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:1080")]
    pub listen: SocketAddr,
    /// The exit node for targets outside the overlay, which must list them; default: no such targets
    #[arg(long, value_name = "NODE")]
    pub exit: Option<String>,
    /// Require this user name and the password
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub user: Option<String>,
    /// File with the password
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// The control socket of the node, or its client socket (`*.sock`)
    #[arg(long, value_name = "SOCKET")]
    pub node: Option<PathBuf>,
    /// Print what happens to each connection as JSON, one object in a line
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(command: &Gateway) -> Outcome {
    match command {
        Gateway::Socks(args) => socks(args),
        Gateway::Sip(args) => sip::run(args),
        Gateway::Multicast(args) => multicast::run(args),
        Gateway::Srt(args) => srt::run(args),
        Gateway::Rist(args) => rist::run(args),
        Gateway::Rtp(args) => rtp::run(args),
        Gateway::Amt(args) => amt::run(args),
    }
}

fn socks(args: &SocksArgs) -> Outcome {
    // Each connection takes four descriptors. If the limit stays lower, some connections wait
    // longer.
    let _ = net::sched::raise_descriptors();
    let (node, known) = find(args.node.as_deref())?;
    let exit = args.exit.as_deref().map(|word| known.names().address(word));
    let user = match (&args.user, &args.password_file) {
        (Some(user), Some(path)) => {
            let text = crate::identity::read(path)?;
            let password = text.trim_end_matches(['\r', '\n']).to_owned();
            if [user, &password]
                .iter()
                .any(|word| !(1..=255).contains(&word.len()))
            {
                return Err(Failure::misused(
                    "user and password have 1 to 255 bytes each",
                ));
            }
            Some((user.clone(), password))
        }
        _ => None,
    };
    let open_to_all = !args.listen.ip().is_loopback() && user.is_none();
    let settings = Settings {
        listen: args.listen,
        node,
        nodes: Arc::new(known),
        exit: exit.transpose()?,
        user,
        streams: Options::stream(),
        datagrams: Options::best_effort(),
        patience: NEGOTIATION_TIMEOUT,
    };
    let mut stop = Stop::new()?;
    let server = Socks::bind(settings, Arc::new(reporter(args.json))).map_err(|error| {
        Failure::failed(format_args!(
            "cannot listen on {}: {error}; choose another port by --listen",
            args.listen
        ))
    })?;
    let at = server.local().map_err(Failure::failed)?.to_string();
    if open_to_all {
        let _ = writeln!(
            io::stderr(),
            "whoever reaches {at} may use the overlay: see --user"
        );
    }
    if args.json {
        terminal::json(&json!({"event": "listening", "at": at}))?;
    } else {
        let _ = writeln!(io::stderr(), "listening at {at}");
    }
    while stop.wait_for(&server)? {
        server.serve_next().map_err(Failure::failed)?;
    }
    if args.json {
        terminal::json(&counters(server.counters()))?;
    }
    Ok(())
}

fn counters(counters: &Counters) -> Value {
    let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    json!({
        "event": "stopped",
        "streams": value(&counters.streams),
        "associations": value(&counters.associations),
        "refused": value(&counters.refused),
        "nonsense": value(&counters.nonsense),
        "unknown_users": value(&counters.unknown_users),
        "late": value(&counters.late),
        "turned_away": value(&counters.turned_away),
        "datagrams_dropped": value(&counters.datagrams_dropped),
    })
}

/// Finds the node to be a client of, and what it knows about other nodes.
fn find(path: Option<&Path>) -> Result<(Node, Known), Failure> {
    if let Some(node) = as_client(path)? {
        return Ok((node, Known::default()));
    }
    let control = control::socket(path)?;
    let status = Control::connect(&control)?.status()?;
    let node = Node::at(client_socket(&status)?);
    Ok((node, Known::new(control, &status)))
}

/// The nodes of the overlay, as this node knows them.
#[derive(Default)]
struct Known {
    control: Option<PathBuf>,
    seen: Mutex<Option<Seen>>,
}

struct Seen {
    at: Instant,
    names: Names,
    addresses: BTreeSet<NodeAddr>,
}

impl Known {
    fn new(control: PathBuf, status: &Value) -> Known {
        Known {
            control: Some(control),
            seen: Mutex::new(Some(Seen::of(status))),
        }
    }

    fn names(&self) -> Names {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.as_ref()
            .map_or_else(Names::default, |s| s.names.clone())
    }

    /// Calls `look` with the list of nodes. If the list is old or lacks the node, the function
    /// first gets a fresh one.
    fn find(&self, look: impl Fn(&Seen) -> Option<NodeAddr>) -> Option<NodeAddr> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (age, found) = match &*seen {
            Some(seen) => (seen.at.elapsed(), look(seen)),
            None => (Duration::MAX, None),
        };
        if age < AGAIN || (found.is_some() && age < FRESH) {
            return found;
        }
        // If the node does not answer now, the old list stays.
        if let Some(status) = self.status() {
            *seen = Some(Seen::of(&status));
        }
        seen.as_ref().and_then(look)
    }

    fn status(&self) -> Option<Value> {
        Control::connect(self.control.as_ref()?).ok()?.status().ok()
    }
}

impl Seen {
    fn of(status: &Value) -> Seen {
        let names = Names::of(status);
        Seen {
            at: Instant::now(),
            addresses: names.addresses().collect(),
            names,
        }
    }
}

impl Nodes for Known {
    fn node(&self, host: &Host<'_>) -> Option<NodeAddr> {
        match host {
            Host::Ip(ip) => {
                let std::net::IpAddr::V4(ip) = ip.to_canonical() else {
                    return None;
                };
                let address = NodeAddr(ip.to_bits());
                self.find(|seen| seen.addresses.contains(&address).then_some(address))
            }
            Host::Name(name) => {
                let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
                let word = name.strip_suffix(SUFFIX).unwrap_or(&name);
                match word.parse::<std::net::Ipv4Addr>() {
                    // An address that is written as a name is always an overlay address.
                    Ok(ip) if word.len() < name.len() => {
                        let address = NodeAddr(ip.to_bits());
                        return address.is_node().then_some(address);
                    }
                    Ok(ip) => return self.node(&Host::Ip(ip.into())),
                    Err(_) => {}
                }
                self.find(|seen| seen.names.address(word).ok())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_of_nodes_mean_nodes_and_others_do_not() {
        let status = json!({
            "snapshot": {"name": "ams", "address": "10.7.0.1", "links": []},
            "nodes": [{"name": "web", "address": "10.7.0.3"}],
        });
        let known = Known::new("/nonexistent.ctl".into(), &status);
        let node = |text: &str| {
            let host = match text.parse() {
                Ok(ip) => Host::Ip(ip),
                Err(_) => Host::Name(text),
            };
            known.node(&host).map(|node| node.to_string())
        };
        for (host, expected) in [
            ("web", "10.7.0.3"),
            ("web.sinew", "10.7.0.3"),
            ("WEB.Sinew.", "10.7.0.3"),
            ("ams.sinew", "10.7.0.1"),
            ("10.7.0.3", "10.7.0.3"),
            ("::ffff:10.7.0.3", "10.7.0.3"),
            ("10.7.0.9.sinew", "10.7.0.9"),
        ] {
            assert_eq!(node(host).as_deref(), Some(expected), "{host}");
        }
        for host in [
            "example.org",
            "fra.sinew",
            "10.7.0.9",
            "239.1.1.1.sinew",
            "::1",
        ] {
            assert_eq!(node(host), None, "{host}");
        }
    }
}
