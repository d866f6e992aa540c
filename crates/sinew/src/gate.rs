//! The gate of a running node, at which clients on other hosts connect. It exists only if the configuration has
//! `[clients]`. Also `sinew net clients`, which configures it.
//!
//! ```text
//!   node's host:  net clients DIR ──▶ node.toml [clients], clients.token, NAME.remote
//!   other host:   SINEW_NODE=NAME.remote program
//!   net clients DIR --observe ──▶ observer.token, NAME.observer.remote: sinew status --node NAME.observer.remote
//! ```

use crate::config::{Clients, Config};
use crate::failure::{Failure, Outcome};
use crate::identity::{self, read_secret_as, write, write_secret};
use crate::terminal;
use clap::Args;
use client::remote::{Place, TOKEN_BYTES};
use gateway::remote::{GREETING_TIMEOUT, Gate, Operators, Settings, WayClient, WayDrop};
use host::command::{Commander, Gatekeeper};
use host::control::OBSERVE;
use host::log::Lines;
use host::status::{GateStatus, GateWay};
use secure::Identity;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use toml_edit::DocumentMut;

/// The name of the token's file, next to the configuration.
const TOKEN_FILE: &str = "clients.token";
/// Most clients in the status.
const WAYS_TOLD: usize = 32;

/// Arguments of `sinew net clients`.
#[derive(Debug, Args)]
pub struct NetClients {
    /// The node's directory
    pub dir: PathBuf,
    /// Address at which the node accepts clients from other hosts
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: SocketAddr,
    /// Address at which the clients reach it, if different
    #[arg(long, value_name = "HOST:PORT")]
    pub endpoint: Option<String>,
    /// Also make a file for people on other hosts who may look at the node: status, links, why
    #[arg(long)]
    pub observe: bool,
    /// Also make a file for people on other hosts who may do what you can do here
    #[arg(long)]
    pub operate: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Opens the gate and serves it on its own threads, until the process ends.
pub fn start(
    clients: &Clients,
    realtime: bool,
    commander: &Commander,
    (node, control): (&Path, Option<&Path>),
    identity: &Identity,
    lines: &Lines,
) -> Outcome {
    let secret = identity.keys().signing_secret();
    let settings = Settings {
        listen: clients.listen,
        token: token(&clients.token_file)?,
        operators: Operators {
            socket: control.map(Path::to_owned),
            observing: OBSERVE,
            observer: clients
                .observer_token_file
                .as_deref()
                .map(token)
                .transpose()?,
            operator: clients
                .operator_token_file
                .as_deref()
                .map(token)
                .transpose()?,
        },
        secret: *secret,
        node: node.to_owned(),
        patience: GREETING_TIMEOUT,
        udp_port: clients.udp_port,
        realtime,
    };
    let gate = Arc::new(Gate::bind(&settings).map_err(Failure::failed)?);
    let at = gate.local().map_err(Failure::failed)?;
    lines.say(&format!("clients of other hosts at {at}, by TLS and token"));
    if let Some(error) = gate.without_udp() {
        lines.warn(&format!(
            "their datagrams stay inside TLS, where one that is lost delays those behind it: cannot \
             use UDP port {}: {error}; name another one by `udp_port` in `[clients]`",
            clients.udp_port.unwrap_or(at.port())
        ));
    }
    commander.tell_of_gate(Arc::new(GateReport(Arc::clone(&gate))));
    let lines = lines.clone();
    let thread = thread::Builder::new().name("gate".into());
    let started = thread.spawn(move || {
        let error = gate.serve();
        lines.say(&format!(
            "clients of other hosts are not served any more: {error}"
        ));
    });
    started
        .map(drop)
        .map_err(|error| Failure::failed(format_args!("cannot start a thread: {error}")))
}

/// The gate's part of the status.
#[derive(Debug)]
struct GateReport(Arc<Gate>);

impl Gatekeeper for GateReport {
    fn status(&self) -> GateStatus {
        let gate = &self.0;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = gate.counters();
        let (clients, ways) = gate.clients_with_ways(WAYS_TOLD);
        let mut status = GateStatus {
            connections: gate.open(),
            welcomed: of(&counters.welcomed),
            turned_away: BTreeMap::from([
                ("wrong-token", of(&counters.wrong_token)),
                ("nonsense", of(&counters.nonsense)),
                ("late", of(&counters.late)),
                ("busy", of(&counters.turned_away)),
                ("displaced", of(&counters.displaced)),
            ]),
            udp_port: gate.udp_port(),
            ways,
            ways_told: clients.iter().map(told).collect(),
            ..GateStatus::default()
        };
        if let Some(counters) = gate.ways() {
            status.received = of(&counters.received);
            status.sent = of(&counters.sent);
            status.sent_by_tls = of(&counters.sent_by_tls);
            let drops = WayDrop::ALL.map(|why| (why.label(), counters.dropped(why)));
            status.drops = drops.into();
        }
        status
    }
}

fn told(client: &WayClient) -> GateWay {
    GateWay {
        way: if client.at.is_some() { "udp" } else { "tls" },
        at: client.at.map(|at| at.to_string()),
        rtt_ms: client.rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
        loss_pct: client.loss * 100.0,
    }
}

fn token(path: &Path) -> Result<[u8; TOKEN_BYTES], Failure> {
    Ok(read_secret_as(path, |text| {
        let bytes = client::remote::from_hex(text.trim());
        bytes.ok_or("not a token of 64 hexadecimal digits: `sinew net clients` makes one")
    })?)
}

/// A kind of file for other hosts: the end of its name, its key in `[clients]`, the file of its token, its purpose, and
/// what to do with it.
struct Kind {
    of: &'static str,
    key: &'static str,
    token: &'static str,
    for_what: &'static str,
    next: &'static str,
    file: fn(&Clients) -> Option<&PathBuf>,
}

const CLIENT: Kind = Kind {
    of: "",
    key: "token_file",
    token: TOKEN_FILE,
    for_what: "programs on other hosts reach",
    next: "for programs: SINEW_NODE=",
    file: |clients| Some(&clients.token_file),
};
const OBSERVER: Kind = Kind {
    of: ".observer",
    key: "observer_token_file",
    token: "observer.token",
    for_what: "you look from other hosts at",
    next: "to look at the node: sinew status --node ",
    file: |clients| clients.observer_token_file.as_ref(),
};
const OPERATOR: Kind = Kind {
    of: ".operator",
    key: "operator_token_file",
    token: "operator.token",
    for_what: "you operate from other hosts",
    next: "to operate the node, with all rights: sinew reload --node ",
    file: |clients| clients.operator_token_file.as_ref(),
};

/// Runs `sinew net clients`.
pub fn run(args: &NetClients) -> Outcome {
    let path = args.dir.join("node.toml");
    let config = Config::load(&path).map_err(Failure::misused)?;
    let identity = identity::identity(&config.key, &config.certificate)?;
    let endpoint = match &args.endpoint {
        Some(endpoint) => endpoint.clone(),
        None if args.listen.ip().is_unspecified() => {
            return Err(Failure::misused(
                "say by --endpoint HOST:PORT how clients reach this host",
            ));
        }
        None => args.listen.to_string(),
    };
    if let Some(clients) = &config.clients
        && clients.listen != args.listen
    {
        return Err(Failure::misused(format_args!(
            "{} has `[clients]` with listen = \"{}\": change it there, or say the same",
            path.display(),
            clients.listen
        )));
    }
    let kinds = [
        (true, CLIENT),
        (args.observe, OBSERVER),
        (args.operate, OPERATOR),
    ];
    let kinds: Vec<Kind> = kinds
        .into_iter()
        .filter_map(|(is, kind)| is.then_some(kind))
        .collect();
    configure(&path, args.listen, &kinds)?;
    let config = Config::load(&path).map_err(Failure::misused)?;
    let name = identity.name();
    let mut made = Vec::new();
    for kind in &kinds {
        let token_file = config.clients.as_ref().and_then(kind.file);
        let token_file = token_file.ok_or_else(|| {
            Failure::failed(format_args!("{} has no {}", path.display(), kind.key))
        })?;
        if !token_file.exists() {
            let token = crate::authority::directory::entropy()?;
            let hex: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
            write_secret(token_file, &(hex + "\n"))?;
            give(token_file, &args.dir)?;
        }
        let place = Place {
            endpoint: endpoint.clone(),
            token: token(token_file)?,
            key: identity.certificate().fields().subject.signing_key,
        };
        let remote = args.dir.join(format!("{name}{}.remote", kind.of));
        let text = format!(
            "# By this file {} node {name}: SINEW_NODE={name}{}.remote. A secret.\n{place}\n",
            kind.for_what, kind.of
        );
        write_secret(&remote, &text)?;
        made.push((
            kind,
            token_file.display().to_string(),
            remote.display().to_string(),
        ));
    }
    tell(args, name, &made)
}

/// Writes the keys that `[clients]` lacks.
fn configure(path: &Path, listen: SocketAddr, kinds: &[Kind]) -> Outcome {
    let text = identity::read(path)?;
    let mut document: DocumentMut = text.parse().map_err(Failure::misused)?;
    let is_new = document.get("clients").is_none();
    let clients = document["clients"].or_insert(toml_edit::table());
    if is_new {
        clients["listen"] = toml_edit::value(listen.to_string());
        if let Some(table) = clients.as_table_mut() {
            table
                .decor_mut()
                .set_prefix("\n# Clients on other hosts, who have a token.\n");
        }
    }
    let mut is_changed = is_new;
    for kind in kinds {
        if clients.get(kind.key).is_none() {
            clients[kind.key] = toml_edit::value(kind.token);
            is_changed = true;
        }
    }
    if is_changed {
        write(path, &document.to_string())?;
        give(path, path.parent().unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

/// Makes the file readable for the node's own user, whoever runs this command: the file gets the owner of the node's
/// directory.
fn give(file: &Path, dir: &Path) -> Outcome {
    let fail = |error| Failure::failed(format_args!("{}: {error}", file.display()));
    let (of, is) = (
        fs::metadata(dir).map_err(fail)?,
        fs::metadata(file).map_err(fail)?,
    );
    match (of.uid(), of.gid()) == (is.uid(), is.gid()) {
        true => Ok(()),
        false => chown(file, Some(of.uid()), Some(of.gid())).map_err(fail),
    }
}

fn tell(args: &NetClients, name: &str, made: &[(&Kind, String, String)]) -> Outcome {
    if args.json {
        let of = |kind: &str| made.iter().find(|(it, ..)| it.key == kind);
        let file = |kind: &str| of(kind).map(|(.., remote)| remote);
        return terminal::json(&json!({
            "name": name, "listen": args.listen.to_string(),
            "token_file": of("token_file").map(|(_, token, _)| token),
            "remote": file("token_file"),
            "observer": file("observer_token_file"),
            "operator": file("operator_token_file"),
        }));
    }
    terminal::line(&format!(
        "{name} takes clients of other hosts at {} once it is started again",
        args.listen
    ))?;
    for (kind, _, remote) in made {
        terminal::line(&format!("{}{remote}", kind.next))?;
    }
    Ok(())
}
