//! `sinew node`: a running node, with the engine's thread and the threads beside it.
//!
//! ```text
//!   this thread: Driver (real-time priority)     threads: log, control, metrics, resolve, hops, keeper, relay,
//!                                                         ready, reload, mapping
//! ```

mod memory;
mod ready;
mod reload;
mod start;

use crate::config::{self, Accept, Config, Profile, RandomLosses, RelaysCanRead};
use crate::exits::Serving;
use crate::failure::{Failure, Outcome};
use crate::identity;
use base::{Duration, UnderlayAddr};
use clap::Args;
use gateway::allow::Rule;
use host::addresses::Looker;
use host::admission::{Admission, Books};
use host::clients::{DESCRIPTORS_EACH, DESCRIPTORS_KEPT, MAX_CLIENTS};
use host::control::{Control, Files, Operator};
use host::keeper::Keeper;
use host::log::{Format, Lines};
use host::mapping::{Mapping, Wishes};
use host::metrics::{Hosts, Metrics};
use host::notify::{Notify, Watchdog};
use host::relay::{Limits, ServeError, Service, Settings};
use host::renewal::{Place, Renewal, Source};
use host::resolve::{Named, Resolver, socket_for};
use host::tunnel::{Dialler, Targets};
use host::{Driver, Setup};
use net::addr::underlay;
use net::clock::Clock;
use net::sched::{self, Scheduling};
use net::signals::{Hangup, Termination};
use overlay::node::{Neighbor, Node};
use overlay::request::{Operation, RequestError};
use overlay::settings::Sealing;
use ready::Ready;
use reload::{Reloader, Running, Shared};
use secure::{Delegation, Identity, Issuer, Network};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use wire::exit::Host;

/// The real-time priority that the node requests: above other programs, below the kernel's own threads, which have 50.
const PRIORITY: u8 = 10;

/// Arguments of `sinew node`.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Print only the reason for the end
    #[arg(long)]
    pub quiet: bool,
    /// How the log is written: text, json, or journal (for systemd: with priorities, without times)
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: Format,
    /// Only check the configuration and the files that it names
    #[arg(long)]
    pub check: bool,
}

/// Runs a node until it is told to stop.
pub fn run(args: &NodeArgs) -> Outcome {
    let config = Config::load(&args.config).map_err(Failure::misused)?;
    let (identity, network) = start::credentials(&config)?;
    start::check_neighbors(&args.config, &config, &identity)?;
    if args.check {
        return check(args, &config, &identity, &network);
    }
    start::check_alone(&config)?;
    let clock = Clock::new();
    let (_flushed, lines) = Lines::formatted(identity.name(), clock, args.quiet, args.log_format);
    lines.set_level(config.log_level.unwrap_or_default());
    if let Some(path) = &config.log_file {
        lines.append_to(path).map_err(|error| {
            Failure::misused(format_args!("cannot write {}: {error}", path.display()))
        })?;
    }
    start::check_certificate(&identity, &network, clock, &lines)?;
    let termination = Termination::install()
        .map_err(|error| Failure::failed(format_args!("cannot wait for signals: {error}")))?;
    let hangup = Hangup::install()
        .map_err(|error| Failure::failed(format_args!("cannot wait for signals: {error}")))?;
    take_descriptors(&lines);
    let (scheduling, is_realtime) = if config.realtime_priority {
        take_priority(&lines)
    } else {
        ("normal, as configured".into(), false)
    };
    let node = node(&config, identity.clone(), network.clone(), clock)?;
    let setup = Setup {
        log: lines.clone(),
        listen: config.listen.clone(),
        client_socket: config
            .client_socket
            .clone()
            .map(|path| (path, config.client_socket_mode)),
        offload: config.offload,
        dscp: config.dscp,
        scheduling,
    };
    let mut driver =
        Driver::open(&setup, clock, node, Some(termination)).map_err(start::not_opened)?;
    for (neighbor, model) in config.impairments() {
        let operation = Operation::Impair {
            neighbor,
            model: Some(model),
        };
        driver.operate(operation).map_err(Failure::failed)?;
    }
    for (neighbor, hops) in config.hops() {
        let hops = Some(hops);
        let operation = Operation::Hops { neighbor, hops };
        driver.operate(operation).map_err(Failure::failed)?;
    }
    if let Some(multicast) = &config.multicast {
        let bridge = crate::bridge::Bridge::open(multicast, identity.address(), &lines)?;
        driver.take_in(Box::new(bridge)).map_err(Failure::failed)?;
    }
    for group in &config.groups {
        for operation in group.wanted().operations().map_err(Failure::misused)? {
            match driver.operate(operation) {
                // Calls must not wait for the administrator, so the node starts nevertheless.
                Err(why @ RequestError::MayNotSet { .. }) => {
                    lines.warn(&format!(
                        "`[[group]]` is ignored: {why}; then restart this node"
                    ));
                }
                done => done.map_err(Failure::failed)?,
            }
        }
    }
    if config.probe_hops {
        let configured = config.hops().map(|(neighbor, _)| neighbor).collect();
        let listen = config.listen.clone();
        host::hops::start(&mut driver, listen, configured, lines.clone())
            .map_err(|error| Failure::failed(format_args!("cannot start a thread: {error}")))?;
    }
    let dialler = tunnels(&config, &identity, &network, &mut driver, &lines)?;
    let exits = exits(&config, &lines)?;
    let mapping = mapping(&config, &driver, &lines)?;
    let looker = looker(&config, &driver)?;
    let told = (dialler, exits, mapping.wishes());
    let running = running(args, &config, &identity, &driver, &lines, told)?;
    let credentials = (&identity, &network);
    let services = Services::start(&config, credentials, &driver, &lines, &running)?;
    lines.say(&first_line(&config, &identity, &driver));
    let attended = Attended::start(&config, &driver, &lines, (hangup, running), is_realtime)?;
    attended.notify.ready("running");
    driver.report_to(Watchdog::from_environment());
    memory::keep_what_runs(is_realtime);
    let ended = driver.run();
    attended.notify.stopping();
    drop(services);
    drop((mapping, looker));
    ended.map_err(Failure::failed)
}

/// Checks what a start would check, as far as that is possible without a start.
fn check(args: &NodeArgs, config: &Config, identity: &Identity, network: &Network) -> Outcome {
    let verified = network.verify(identity.certificate(), Clock::new().unix_s());
    verified.map_err(|why| Failure::misused(format_args!("this node's own certificate: {why}")))?;
    if let Some(issuer) = &config.issuer {
        admission_by(issuer, identity, network)?;
    }
    node(config, identity.clone(), network.clone(), Clock::new())?;
    crate::terminal::line(&format!(
        "{} is good: {} with overlay address {}",
        args.config.display(),
        identity.name(),
        identity.address()
    ))
}

/// The threads that communicate with the operator and the service manager, until this value is dropped.
struct Attended {
    notify: Arc<Notify>,
    _ready: Ready,
    _reloader: Reloader,
}

impl Attended {
    fn start(
        config: &Config,
        driver: &Driver,
        lines: &Lines,
        (hangup, running): (Hangup, Shared),
        is_realtime: bool,
    ) -> Result<Attended, Failure> {
        let notify = Arc::new(Notify::from_environment());
        let ready = Ready::start(
            config,
            driver.commander(),
            lines.clone(),
            Arc::clone(&notify),
            is_realtime,
        );
        Ok(Attended {
            _ready: ready.map_err(no_thread)?,
            _reloader: Reloader::start(hangup, running).map_err(no_thread)?,
            notify,
        })
    }
}

/// Collects the state of the running node that a reload can change.
fn running(
    args: &NodeArgs,
    config: &Config,
    identity: &Identity,
    driver: &Driver,
    lines: &Lines,
    (dialler, exits, mapping): (Option<Dialler>, Option<Serving>, Wishes),
) -> Result<Shared, Failure> {
    let names = names(config, &config.listen);
    let resolver = (!names.is_empty()).then(|| {
        let listen = config.listen.clone();
        Resolver::start(names, listen, driver.commander(), lines.clone()).map_err(no_thread)
    });
    let running = Running {
        path: args.config.clone(),
        config: config.clone(),
        address: identity.address(),
        commander: driver.commander(),
        lines: lines.clone(),
        notify: Notify::from_environment(),
        resolver: resolver.transpose()?,
        dialler,
        exits,
        mapping,
    };
    Ok(Arc::new(Mutex::new(running)))
}

fn no_thread(error: std::io::Error) -> Failure {
    Failure::failed(format_args!("cannot start a thread: {error}"))
}

/// Starts the requests for a port mapping at the router, if the configuration wants one.
fn mapping(config: &Config, driver: &Driver, lines: &Lines) -> Result<Mapping, Failure> {
    let listen = driver
        .local_addrs()
        .unwrap_or_else(|_| config.listen.clone());
    let makes_links = config.direct_links || config.find_links;
    let mapping = Mapping::start(
        config.map_port,
        listen,
        makes_links,
        driver.commander(),
        lines.clone(),
    );
    mapping.map_err(no_thread)
}

/// Starts to look up the node's addresses on this host's interfaces, if other nodes may make links to it.
fn looker(config: &Config, driver: &Driver) -> Result<Option<Looker>, Failure> {
    if !config.direct_links && !config.find_links {
        return Ok(None);
    }
    let listen = driver
        .local_addrs()
        .unwrap_or_else(|_| config.listen.clone());
    let looker = Looker::start(listen, driver.commander());
    looker.map(Some).map_err(no_thread)
}

/// Serves the exits of the configuration. Exits that are added later need the clients' socket, too.
fn exits(config: &Config, lines: &Lines) -> Result<Option<Serving>, Failure> {
    let is_listed = config.exits != config::Exits::default();
    match &config.client_socket {
        Some(socket) => {
            let serving = Serving::start(&config.exits, socket, lines);
            serving.map(Some).map_err(no_thread)
        }
        None if is_listed || config.clients.is_some() => Err(Failure::misused(
            "`[[exit]]` and `[clients]` need `client_socket`: they are ordinary clients of the node",
        )),
        None => Ok(None),
    }
}

/// The services beside the event loop, until this value is dropped.
struct Services {
    _control: Option<Control>,
    _metrics: Option<Metrics>,
    _keeper: Keeper,
    _relay: Option<Service>,
    _renewal: Option<Renewal>,
}

impl Services {
    fn start(
        config: &Config,
        (identity, network): (&Identity, &Network),
        driver: &Driver,
        lines: &Lines,
        running: &Shared,
    ) -> Result<Services, Failure> {
        let commander = || driver.commander();
        let files = Files {
            certificate: Some(config.certificate.clone()),
            revocations: config.revocations.clone(),
            network: Some(config.network.clone()),
        };
        let control = config.control_socket.as_ref().map(|path| {
            let keys = identity.keys().clone();
            let operator = Operator::new(commander(), keys, identity.address(), files);
            let operator = operator.reloading(reload::asked(running));
            Control::start(path, operator, lines.clone()).map_err(Failure::misused)
        });
        let metrics = config.metrics.map(|addr| {
            if !addr.ip().is_loopback() {
                lines.warn(&format!("metrics are open to everybody who reaches {addr}"));
            }
            let hosts = Hosts::new(&config.metrics_hosts);
            Metrics::start(addr, hosts, commander(), lines.clone()).map_err(Failure::misused)
        });
        if let (Some(clients), Some(socket)) = (&config.clients, &config.client_socket) {
            let realtime = config.realtime_priority;
            let sockets = (socket.as_path(), config.control_socket.as_deref());
            crate::gate::start(clients, realtime, &commander(), sockets, identity, lines)
                .map_err(Failure::for_good)?;
        }
        let relay = relay(config, identity, network, driver, lines)?;
        let renewal = config.renewal.as_ref().map(|renewal| {
            let own = Place {
                endpoints: renewal.from.clone(),
                key: renewal.key,
            };
            let others = renewal.others.iter().map(place);
            let issuers = core::iter::once(own).chain(others);
            let source = Source {
                issuers: issuers.collect(),
                file: config.certificate.clone(),
            };
            Renewal::start(source, identity.clone(), commander(), lines.clone())
        });
        let keeper = Keeper::start(
            config.network.clone(),
            config.revocations.clone(),
            network,
            commander(),
            lines.clone(),
        );
        Ok(Services {
            _control: control.transpose()?,
            _metrics: metrics.transpose()?,
            _keeper: keeper.map_err(no_thread)?,
            _relay: relay,
            _renewal: renewal.transpose().map_err(no_thread)?,
        })
    }
}

/// Starts the service for bulk data, unless it is switched off. If a default address is taken by another program, the
/// node runs without the service and logs a warning.
fn relay(
    config: &Config,
    identity: &Identity,
    network: &Network,
    driver: &Driver,
    lines: &Lines,
) -> Result<Option<Service>, Failure> {
    let admission = config.issuer.as_ref();
    let admission = admission.map(|issuer| admission_by(issuer, identity, network));
    let admission = admission.transpose()?;
    let is_bulk = config.relay.transfers > 0 || admission.is_some();
    if !is_bulk {
        host::relay::decline(&driver.commander());
        if !config.tcp_links {
            return Ok(None);
        }
    }
    let control = config.control_socket.as_ref().filter(|_| is_bulk);
    let listen = config.relay.listen.as_ref();
    let mut addresses = listen.unwrap_or(&config.listen).clone();
    if config.tcp_links {
        addresses.extend(&config.tcp);
        addresses.sort_unstable();
        addresses.dedup();
    }
    let settings = Settings {
        listen: addresses,
        socket: control.map(|path| path.with_extension(host::relay::SUFFIX)),
        limits: limits(&config.relay),
        passes: config.relay.passes.open(),
        roots: config.relay.roots.iter().map(config::Root::open).collect(),
        certificate: Some(config.certificate.clone()),
        admission: admission.map(Arc::new),
        links: config.tcp_links,
    };
    let missing = settings.roots.iter().filter(|root| !root.path.is_dir());
    for root in missing {
        lines.warn(&format!(
            "bulk data: {} is no directory: make it, or change `[relay] roots`",
            root.path.display()
        ));
    }
    let (identity, network) = (identity.clone(), network.clone());
    match Service::start(
        &settings,
        identity,
        network,
        driver.commander(),
        lines.clone(),
    ) {
        Ok(service) => Ok(Some(service)),
        Err(error @ ServeError::Listen { listen: at, .. })
            if listen.is_none() && config.issuer.is_none() && !config.tcp.contains(&at) =>
        {
            lines.error(&format!("NO BULK DATA, AND NO LINKS OVER TCP: {error}"));
            host::relay::decline(&driver.commander());
            Ok(None)
        }
        Err(error @ ServeError::Io(_)) => Err(Failure::failed(error)),
        Err(error) => Err(Failure::misused(error)),
    }
}

/// Opens tunnels to neighbours whose UDP is blocked, if the configuration allows it.
fn tunnels(
    config: &Config,
    identity: &Identity,
    network: &Network,
    driver: &mut Driver,
    lines: &Lines,
) -> Result<Option<Dialler>, Failure> {
    if !config.tcp_links {
        return Ok(None);
    }
    let wanted = driver.tunnels_wanted();
    let own = (identity.clone(), Some(config.certificate.clone()));
    let dialler = Dialler::start(
        wanted,
        targets(config),
        own,
        network.clone(),
        driver.commander(),
        lines.clone(),
    );
    let dialler = dialler
        .map_err(|error| Failure::failed(format_args!("cannot dial neighbours by TCP: {error}")))?;
    Ok(Some(dialler))
}

/// Returns the addresses at which neighbours are dialled by TCP; by default, the same as by UDP.
fn targets(config: &Config) -> Targets {
    let target = |neighbor: &config::Neighbor| {
        let endpoints = match neighbor.tcp.is_empty() {
            true => &neighbor.endpoints,
            false => &neighbor.tcp,
        };
        (!endpoints.is_empty()).then(|| (neighbor.address, endpoints.clone()))
    };
    config.neighbors.iter().filter_map(target).collect()
}

/// Returns the limits for new transfers.
fn limits(relay: &config::Relay) -> Limits {
    Limits {
        transfers: relay.transfers,
        probe_bytes: relay.probe,
        allow: allowed(&relay.allow),
    }
}

/// Returns the rule for targets that the node dials for other nodes.
fn allowed(rules: &[Rule]) -> host::relay::Allowed {
    let rules = gateway::allow::Allowed::new(rules.to_vec());
    host::relay::Allowed::by(move |host, at| {
        let judged = rules.permit(&Host::Name(host), at.ip(), at.port());
        judged.map_err(|why| why.to_string())
    })
}

fn place(other: &config::OtherIssuer) -> Place {
    Place {
        endpoints: other.from.clone(),
        key: other.key,
    }
}

/// Reads the delegations that make this node an issuer.
fn admission_by(
    issuer: &config::Issuer,
    identity: &Identity,
    network: &Network,
) -> Result<Admission, Failure> {
    let open = |file: &Path, dir: &Path| {
        let delegation = identity::read_as(file, Delegation::from_text);
        let delegation = delegation.map_err(Failure::misused)?;
        let first_serial = delegation.fields().serials.0;
        let signs = Issuer::new(identity.clone(), delegation).map_err(Failure::misused)?;
        let books = Books::open(dir, first_serial).map_err(Failure::misused)?;
        Ok((signs.of_network(network), books))
    };
    let (signs, books) = open(&issuer.delegation, &issuer.books)?;
    let others = issuer.renews.iter();
    let others = others.map(|file| open(file, &issuer.books_of(file)));
    let others = others.collect::<Result<Vec<_>, Failure>>()?;
    let renewed_by = issuer.renewed_by.iter().map(place).collect();
    let admission = Admission::new(signs, issuer.endpoints.clone(), books).renewed_by(renewed_by);
    admission.renewing(others).map_err(Failure::misused)
}

/// Descriptors that a node requests: those of its clients, and some for everything else.
pub const DESCRIPTORS: u64 = DESCRIPTORS_EACH * MAX_CLIENTS as u64 + DESCRIPTORS_KEPT;

/// Raises the limit of descriptors for as many clients as the node may have. Logs a warning if the limit stays lower.
fn take_descriptors(lines: &Lines) {
    match sched::raise_descriptors() {
        Ok(granted) if granted >= DESCRIPTORS => {}
        Ok(granted) => lines.warn(&format!(
            "only {granted} descriptors are permitted, so fewer clients than {}: raise LimitNOFILE \
             or `ulimit -n`",
            MAX_CLIENTS
        )),
        Err(error) => lines.warn(&format!("cannot raise the limit of descriptors: {error}")),
    }
}

/// Requests real-time scheduling [Amir06 §V-A], and logs a warning if it is not granted. Returns the scheduling in
/// words, and whether it is real-time.
fn take_priority(lines: &Lines) -> (String, bool) {
    let scheduling = sched::real_time(PRIORITY);
    let is_realtime = matches!(scheduling, Scheduling::RealTime { .. });
    if !is_realtime {
        let _ = sched::timer_slack(Duration::from_micros(1));
        lines.warn(&scheduling.to_string());
    }
    (scheduling.to_string(), is_realtime)
}

/// Returns true for the superuser.
pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// The setting that `relays_can_read` sets.
const SEAL_ENDS: &str = "seal_ends";

fn node(
    config: &Config,
    identity: Identity,
    network: Network,
    clock: Clock,
) -> Result<Node, Failure> {
    let mut settings = match config.profile {
        Profile::Modern => overlay::Settings::modern(),
        Profile::Paper => overlay::Settings::paper(),
    };
    if let Some(strikes) = config.realtime.strikes {
        settings.realtime.strikes = strikes;
    }
    if let Some(family) = config.reliable.congestion {
        settings.reliable.family = family;
    }
    if let Some(flows) = config.reliable.flows {
        settings.reliable.flows_max = flows;
    }
    if let Some(losses) = config.reliable.random_losses {
        settings.reliable.spares_random_losses = losses == RandomLosses::Spared;
    }
    match config.relays_can_read {
        None => {}
        Some(RelaysCanRead::IfNeeded) => settings.sealing = Sealing::On,
        Some(RelaysCanRead::Never) => settings.sealing = Sealing::Always,
        Some(RelaysCanRead::Always) => settings.sealing = Sealing::Off,
    }
    settings.direct_links = config.direct_links;
    settings.find_links = config.find_links;
    // A setting must not override what the node promises by `relays_can_read`.
    if config.relays_can_read.is_some() && config.settings.contains_key(SEAL_ENDS) {
        return Err(Failure::misused(format!(
            "[settings] {SEAL_ENDS}: `relays_can_read` decides that: leave out one of them"
        )));
    }
    for (key, value) in &config.settings {
        let set = settings.set(key, value);
        set.map_err(|why| Failure::misused(format!("[settings] {why}")))?;
    }
    let neighbors = config.neighbors.iter();
    let neighbors = neighbors.map(|neighbor| as_neighbor(neighbor, &config.listen));
    let sockets = (0u8..).zip(&config.listen);
    let sockets = sockets.map(|(socket, addr)| underlay(*addr, socket));
    let mut node = Node::new(overlay::node::Config {
        neighbors: neighbors.collect(),
        identity,
        network,
        accept: match &config.accept {
            Accept::Any => None,
            Accept::Only(list) => Some(list.clone()),
        },
        settings,
        lab: config.lab,
        seed: crate::authority::directory::entropy()?,
        unix_start_s: clock
            .unix_s()
            .saturating_sub(clock.now().as_nanos() / 1_000_000_000),
    });
    node.set_sockets(sockets.collect());
    node.set_first(&first_of(&config.neighbors));
    Ok(node)
}

/// Returns the neighbours by which the node enters the network.
fn first_of(neighbors: &[config::Neighbor]) -> Vec<base::NodeAddr> {
    let first = neighbors.iter().filter(|neighbor| neighbor.first);
    first.map(|neighbor| neighbor.address).collect()
}

/// Converts a neighbour for the engine of a node that listens on `listen`.
fn as_neighbor(neighbor: &config::Neighbor, listen: &[SocketAddr]) -> Neighbor {
    let mut numeric = neighbor.endpoints.iter().map(|it| numeric(it, listen));
    Neighbor {
        capacity_kbps: neighbor.capacity_kbps(),
        reliable: neighbor.reliable(),
        addr: neighbor.address,
        name: neighbor.name.clone(),
        at: numeric.next().flatten(),
        more: numeric.flatten().collect(),
    }
}

/// Converts an endpoint that needs no name server.
fn numeric(endpoint: &str, listen: &[SocketAddr]) -> Option<UnderlayAddr> {
    let addr: SocketAddr = endpoint.parse().ok()?;
    Some(underlay(addr, socket_for(addr, listen)?))
}

/// Returns the neighbours whose names must be looked up, or that have more than one address to try.
fn names(config: &Config, listen: &[SocketAddr]) -> Vec<Named> {
    let needs = |endpoints: &[String]| match endpoints {
        [] => false,
        [one] => numeric(one, listen).is_none(),
        _ => true,
    };
    let named = config
        .neighbors
        .iter()
        .filter(|neighbor| needs(&neighbor.endpoints));
    named
        .map(|neighbor| Named {
            neighbor: neighbor.address,
            endpoints: neighbor.endpoints.clone(),
        })
        .collect()
}

fn first_line(config: &Config, identity: &Identity, driver: &Driver) -> String {
    let listen: Vec<String> = match driver.local_addrs() {
        Ok(bound) => bound.iter().map(SocketAddr::to_string).collect(),
        Err(_) => config.listen.iter().map(SocketAddr::to_string).collect(),
    };
    let mut line = format!(
        "sinew {}: node {} with overlay address {}, listening on {}",
        env!("CARGO_PKG_VERSION"),
        identity.name(),
        identity.address(),
        listen.join(", ")
    );
    for (what, path) in [
        ("clients at", &config.client_socket),
        ("operator at", &config.control_socket),
    ] {
        if let Some(path) = path {
            line += &format!(", {what} {}", path.display());
        }
    }
    if let Some(metrics) = config.metrics {
        line += &format!(", metrics at http://{metrics}/metrics");
    }
    if config.lab {
        line += ", LAB: links may be impaired";
    }
    line
}
