//! `sinew gateway multicast`: carries unchanged programs that use IP multicast over the overlay.

use super::wait::Wait;
use crate::failure::{Failure, Outcome};
use crate::quantity;
use crate::service;
use crate::terminal;
use clap::Args;
use client::Options;
use gateway::multicast::flood::Limit;
use gateway::multicast::igmp::querier::HOST_GROUPS;
use gateway::multicast::overlay::Link as _;
use gateway::multicast::report::Carried;
use gateway::multicast::{
    self, ByNode, Event, Overlay as _, Place, Report, Rules, Service, Settings, Start, hello,
};
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

/// The name of the interface that the gateway makes by default.
const TAP: &str = "sinew0";
/// Most sources in one `--join`.
const SOURCES_MAX: usize = 64;

/// Arguments of `sinew gateway multicast`.
#[derive(Debug, Args)]
pub struct MulticastArgs {
    /// Make this TAP interface, for programs of this host [default: sinew0, unless --interface]
    #[arg(long, value_name = "NAME", conflicts_with = "interface")]
    pub tap: Option<String>,
    /// Bridge the network at this interface, which may appear later
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// The TAP's address [default: the node's overlay address]
    #[arg(long, value_name = "ADDRESS[/BITS]", value_parser = network, conflicts_with = "interface")]
    pub address: Option<(Ipv4Addr, u8)>,
    /// The TAP's IPv6 address [default: fd53:696e:6577:: and the overlay address]
    #[arg(long, value_name = "ADDRESS", value_parser = address_v6, conflicts_with = "interface")]
    pub address6: Option<Ipv6Addr>,
    /// The TAP's longest packet, in bytes
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(68..=65_521), conflicts_with = "interface")]
    pub mtu: Option<u16>,
    /// Groups that may cross; `!` marks exceptions [default: organisation and global scope: 239.0.0.0/8
    /// except 239.255.0.0/16, 232.0.0.0/8, and scopes 8 and e of IPv6]
    #[arg(long, value_name = "LIST", default_value_t, hide_default_value = true)]
    pub groups: Rules,
    /// Deadline of a packet; until then, losses are repaired and order is kept
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = deadline)]
    pub deadline: base::Duration,
    /// The service that packets need across the overlay
    #[arg(long, alias = "class", value_enum, default_value_t = service::Service::Video)]
    pub service: service::Service,
    /// Loss target and repair limit
    #[command(flatten)]
    pub protection: service::Protection,
    /// Deliver packets as they arrive, without waiting for late ones
    #[arg(long)]
    pub unordered: bool,
    /// Drop packets with TTL 1, as a router does
    #[arg(long)]
    pub router_ttl: bool,
    /// Do not send queries for members, only listen to reports
    #[arg(long)]
    pub no_querier: bool,
    /// Join this group on the network, for switches that forward it only to members; may be repeated
    #[arg(long, value_name = "GROUP[@SOURCE,..]", value_parser = wanted)]
    pub join: Vec<(IpAddr, Vec<IpAddr>)>,
    /// Groups, and sources of source-specific groups, that one host, by its Ethernet address, may be the first to join
    #[arg(long, value_name = "NUMBER", default_value_t = HOST_GROUPS)]
    pub host_groups: usize,
    /// Highest rate of one source
    #[arg(long, value_name = "RATE", default_value = "1gbit", value_parser = source_rate)]
    pub source_rate: u64,
    /// Priority among several bridges of one network; the lowest carries the traffic
    #[arg(long, value_name = "NUMBER", default_value_t = hello::PRIORITY)]
    pub priority: u8,
    /// Print the status at this interval; a bare number is in seconds
    #[arg(long, value_name = "TIME", value_parser = status)]
    pub status: Option<base::Duration>,
    /// The control socket of the node, or its client socket (`*.sock`)
    #[arg(long, value_name = "SOCKET")]
    pub node: Option<PathBuf>,
    /// Print what happens as JSON, one object in a line
    #[arg(long)]
    pub json: bool,
}

pub(super) fn deadline(text: &str) -> Result<base::Duration, String> {
    let ms = base::Duration::from_millis;
    quantity::within(quantity::millis(text)?, ms(10), ms(60_000))
}

fn status(text: &str) -> Result<base::Duration, String> {
    let s = base::Duration::from_secs;
    quantity::within(quantity::seconds(text)?, s(1), s(86_400))
}

fn source_rate(text: &str) -> Result<u64, String> {
    let rate = quantity::rate_or_mbit(text)?;
    match rate {
        0 => Err("a source that may send nothing is better not let in: see --groups".to_owned()),
        rate => Ok(rate),
    }
}

/// Runs the bridge until Ctrl-C.
pub(super) fn run(args: &MulticastArgs) -> Outcome {
    let (node, _) = super::find(args.node.as_deref())?;
    let options = options(args);
    let overlay = ByNode { node, options };
    let place = place(args, &overlay)?;
    let name = place.name().to_owned();
    let wait = Wait::new()?;
    let as_json = args.json;
    let start = Start {
        overlay,
        place,
        realtime: true,
        tell: Box::new(move |event| tell(&event, as_json)),
    };
    let mut service =
        Service::start(start, |node, seed| settings(args, node, seed)).map_err(Failure::failed)?;
    let event = match is_up(&name) {
        true => "bridging",
        false => "waiting",
    };
    if args.json {
        terminal::json(
            &json!({"event": event, "interface": name, "groups": args.groups.to_string()}),
        )?;
    } else if event == "bridging" {
        let _ = writeln!(io::stderr(), "bridging {} at {name}", args.groups);
    } else {
        let _ = writeln!(
            io::stderr(),
            "{name} is not there yet, or down: waiting for it, to bridge {} there",
            args.groups
        );
    }
    let ended = wait.run(args.status, service.over(), || {
        show("status", &service.report(), args.json)
    });
    show("stopped", &service.stop(), args.json)?;
    ended
}

/// Returns true if the interface exists and is switched on, as far as the kernel reports.
fn is_up(name: &str) -> bool {
    net::interface::find(name).is_ok_and(|found| found.is_some_and(|found| found.is_up))
}

pub(crate) fn options(args: &MulticastArgs) -> Options {
    let deadline = Duration::from_nanos(args.deadline.as_nanos());
    // Packets stay in order, whatever the service, because programs see them so on one network.
    let mut options = Options {
        deadline: Some(deadline),
        aim: args.protection.aim(),
        delivery: multicast::options(deadline).delivery,
        ..args.service.options(deadline)
    };
    if args.unordered {
        options.delivery = client::Delivery::AsItComes;
    }
    options
}

fn place(args: &MulticastArgs, overlay: &ByNode) -> Result<Place, Failure> {
    let node = match (&args.interface, args.address) {
        (None, _) => overlay.connect()?.node(),
        _ => base::NodeAddr::default(),
    };
    Ok(place_at(args, node))
}

/// Returns the interface of a bridge of this node.
pub(crate) fn place_at(args: &MulticastArgs, node: base::NodeAddr) -> Place {
    if let Some(name) = &args.interface {
        return Place::Interface { name: name.clone() };
    }
    let own = (Ipv4Addr::from_bits(node.0), 32);
    let address = args.address.unwrap_or(own);
    Place::Tap {
        name: args.tap.clone().unwrap_or_else(|| TAP.to_owned()),
        address: Some(address),
        address_v6: Some(args.address6.unwrap_or_else(|| own_v6(node))),
        mtu: args.mtu.map(usize::from),
        routes: args.groups.networks().collect(),
    }
}

/// Choice: the address has a prefix for local use [RFC 4193], "Sinew" in letters. It appears on no network but the
/// TAP's. Hosts elsewhere see it as a source. If a host is in two networks of Sinew, their addresses differ by those of
/// the nodes.
fn own_v6(node: base::NodeAddr) -> Ipv6Addr {
    let [high, low] = [(node.0 >> 16) as u16, node.0 as u16];
    Ipv6Addr::new(0xfd53, 0x696e, 0x6577, 0, 0, 0, high, low)
}

fn address_v6(text: &str) -> Result<Ipv6Addr, String> {
    let address: Option<Ipv6Addr> = text.parse().ok();
    let is_host = |a: &Ipv6Addr| !a.is_multicast() && !a.is_unspecified() && !a.is_loopback();
    let is_far = |a: &Ipv6Addr| !a.is_unicast_link_local();
    let address = address.filter(|a| is_host(a) && is_far(a));
    address.ok_or_else(|| {
        format!("{text:?} is no address that hosts elsewhere know, like fd12:3456:789a::1")
    })
}

pub(crate) fn settings(args: &MulticastArgs, node: base::NodeAddr, seed: u64) -> Settings {
    Settings {
        rules: args.groups.clone(),
        asks: !args.no_querier,
        wants: args.join.clone(),
        router_ttl: args.router_ttl,
        host_groups: args.host_groups,
        limit: Limit {
            bits_per_s: args.source_rate as f64,
            ..Limit::default()
        },
        priority: args.priority,
        ..Settings::new(node, seed)
    }
}

fn tell(event: &Event, as_json: bool) {
    // If the output pipe is closed, the command ends at its next wait.
    let _ = match as_json {
        true => {
            let line = json!({"event": event.label(), "text": event.to_string()});
            writeln!(io::stdout(), "{line}")
        }
        false => writeln!(io::stderr(), "{event}"),
    };
}

fn show(event: &str, report: &Report, as_json: bool) -> Outcome {
    if as_json {
        let mut value = value(report);
        value["event"] = json!(event);
        return terminal::json(&value);
    }
    let counters = &report.counters;
    let _ = writeln!(
        io::stderr(),
        "{}: {}{}, {} groups with members{}{}, {} packets to the overlay, {} from it; dropped: {}",
        report.interface,
        report.role.label(),
        if report.is_cut_off { ", cut off" } else { "" },
        report.groups,
        match report.refused {
            0 => String::new(),
            refused => format!(" ({refused} of them refused by the node)"),
        },
        match report.refused_sends {
            0 => String::new(),
            groups => format!(" (of {groups} groups the node takes nothing)"),
        },
        counters.captured,
        counters.injected,
        counters.drops,
    );
    Ok(())
}

/// Returns the bridge's state and counters as JSON. It lists only the reasons for drops that occurred.
fn value(report: &Report) -> Value {
    let counters = &report.counters;
    let drops = counters.drops.iter().filter(|&(_, count)| count > 0);
    let drops: Map<_, _> = drops
        .map(|(reason, count)| (reason.label().to_owned(), json!(count)))
        .collect();
    let members: Vec<_> = report
        .members
        .iter()
        .map(|member| json!({"group": member.group, "sources": member.sources}))
        .collect();
    json!({
        "interface": report.interface,
        "is_here": report.is_here,
        "role": report.role.label(),
        "is_querier": report.is_querier,
        "querier": report.other_querier.map(|(address, _)| address),
        "querier_v6": report.other_querier_v6.map(|(address, _)| address),
        "connected": report.connected,
        "cut_off": report.is_cut_off,
        "groups": report.groups,
        "joined": report.joined,
        "refused": report.refused,
        "refused_sends": report.refused_sends,
        "carried": report.carried.iter().map(carried).collect::<Vec<_>>(),
        "members": members,
        "captured": counters.captured,
        "captured_bytes": counters.captured_bytes,
        "injected": counters.injected,
        "injected_bytes": counters.injected_bytes,
        "fragmented": counters.fragmented,
        "igmp": counters.igmp,
        "drops": drops,
        "cpu_s": report.cpu.as_secs_f64(),
    })
}

/// Returns what the bridge did with the packets of one of the overlay's groups.
fn carried(carried: &Carried) -> Value {
    let drops = carried.tally.drops.iter().filter(|&(_, count)| count > 0);
    let drops: Map<_, _> = drops
        .map(|(reason, count)| (reason.label().to_owned(), json!(count)))
        .collect();
    json!({
        "group": carried.by.to_string(),
        "ip": carried.ip,
        "captured": carried.tally.captured,
        "injected": carried.tally.injected,
        "drops": drops,
    })
}

fn network(text: &str) -> Result<(Ipv4Addr, u8), String> {
    let bad = || format!("{text:?} is no address, like 10.1.0.1/24");
    let (address, bits) = text.split_once('/').unwrap_or((text, "32"));
    let address: Ipv4Addr = address.parse().map_err(|_| bad())?;
    let bits = bits.parse().ok().filter(|bits| (1..=32).contains(bits));
    let is_host = !address.is_multicast() && !address.is_unspecified();
    Ok((address, bits.filter(|_| is_host).ok_or_else(bad)?))
}

fn wanted(text: &str) -> Result<(IpAddr, Vec<IpAddr>), String> {
    let bad = || format!("{text:?} is no group, like 239.1.1.1, ff1e::101, or 232.1.1.1@10.0.0.5");
    let (group, sources) = match text.split_once('@') {
        Some((group, sources)) => (group, sources.split(',').collect()),
        None => (text, Vec::new()),
    };
    let group: IpAddr = group.parse().map_err(|_| bad())?;
    let sources = sources.into_iter().map(str::parse);
    let sources = sources
        .collect::<Result<Vec<IpAddr>, _>>()
        .map_err(|_| bad())?;
    let is_other = |source: &IpAddr| source.is_ipv4() != group.is_ipv4();
    if !group.is_multicast() || sources.len() > SOURCES_MAX || sources.iter().any(is_other) {
        return Err(bad());
    }
    Ok((group, sources))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway::multicast::drops::Drops;

    #[test]
    fn addresses_and_joins_are_read_or_refused_with_the_word() {
        let own = Ipv4Addr::new(10, 1, 0, 1);
        assert_eq!(network("10.1.0.1/24"), Ok((own, 24)));
        assert_eq!(network("10.1.0.1"), Ok((own, 32)));
        for text in ["10.1.0.1/33", "10.1.0.1/0", "239.1.1.1/8", "x", "0.0.0.0/8"] {
            assert!(network(text).is_err_and(|said| said.contains(text)));
        }
        let group = Ipv4Addr::new(232, 1, 1, 1);
        let group = IpAddr::from(group);
        assert_eq!(wanted("232.1.1.1"), Ok((group, vec![])));
        assert_eq!(wanted("232.1.1.1@10.1.0.1"), Ok((group, vec![own.into()])));
        assert!(wanted("ff3e::8000:1@fd00::5").is_ok_and(|(_, sources)| sources.len() == 1));
        assert_eq!(
            own_v6(base::NodeAddr(0x0a07_0003)).to_string(),
            "fd53:696e:6577::a07:3"
        );
        assert!(address_v6("fe80::1").is_err() && address_v6("fd00::1").is_ok());
        for text in [
            "10.1.0.1",
            "232.1.1.1@",
            "232.1.1.1@x",
            "ff3e::8000:1@10.0.0.5",
        ] {
            assert!(wanted(text).is_err_and(|said| said.contains(text)));
        }
    }

    #[test]
    fn a_report_has_the_drops_that_occurred() {
        let value = value(&Report::default());
        assert_eq!(value["drops"], json!({}));
        assert_eq!(value["role"], "listening");
        assert_eq!(Drops::default().to_string(), "none");
    }
}
