//! `sinew up`: makes a network and its first node, which may invite others, and starts that node.

use crate::authority::{Add, DEFAULT_PORT, Delegate, Init, add, delegate, init, listen_here};
use crate::failure::{Failure, Outcome};
use crate::invitation::{Invite, host_name, invite};
use crate::launch::{Launch, SERVICES, Start};
use crate::terminal;
use clap::Args;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

/// Arguments of `sinew up`.
#[derive(Debug, Args)]
pub struct Up {
    /// The network's directory, created if missing; default: net, or /etc/sinew for a service
    pub dir: Option<PathBuf>,
    /// The name of a new network
    #[arg(long, default_value = "net")]
    pub name: String,
    /// The node's name; default: that of this host
    #[arg(long)]
    pub node: Option<String>,
    /// Address at which other hosts reach this one; default: its Internet address, port 7700
    #[arg(long = "address", value_name = "HOST:PORT", num_args = 1..)]
    pub addresses: Vec<String>,
    /// Also print a token for the next host, as `sinew invite` does
    #[arg(long)]
    pub invite: bool,
    /// How it starts.
    #[command(flatten)]
    pub launch: Launch,
}

/// Runs the command.
pub fn run(args: &Up) -> Outcome {
    let start = args.launch.how()?;
    let dir = match (&args.dir, start) {
        (Some(dir), _) => dir.clone(),
        (None, Start::Service) => PathBuf::from(SERVICES),
        (None, Start::Here | Start::No) => PathBuf::from("net"),
    };
    let node = args.node.clone().unwrap_or_else(host_name);
    let config = dir.join(&node).join("node.toml");
    if !config.exists() {
        make(args, &dir, &node)?;
        if let Some(sockets) = args.launch.sockets(&node)? {
            move_sockets(&config, &node, &sockets)?;
        }
        let network = dir.display();
        terminal::line(&format!(
            "network {} is in {network}; its root key is {network}/network.key: move it off this host, and \
             back it up\n\
             {node} is its first node, and may invite others: sinew invite {}",
            args.name,
            dir.join(&node).display()
        ))?;
    }
    if args.invite {
        // The invitation comes before the start, because this command may become the node.
        invite(&Invite::of(&dir.join(&node))?)?;
    }
    if start == Start::No {
        return terminal::line(&format!(
            "run it with: sinew node --config {}",
            config.display()
        ));
    }
    args.launch.start(&node, &config, false)
}

fn make(args: &Up, dir: &Path, node: &str) -> Outcome {
    let addresses = match args.addresses.is_empty() {
        false => args.addresses.clone(),
        true => own_addresses()?,
    };
    if !dir.join("network.key").exists() {
        init(&Init {
            dir: dir.to_owned(),
            name: args.name.clone(),
            prefix: "10.7.0.0/24".parse().expect("it is a range"),
            json: false,
        })?;
    }
    add(&Add {
        dir: dir.to_owned(),
        node: node.to_owned(),
        addresses: addresses.clone(),
        overlay: None,
        link: None,
        days: 365,
        domains: Vec::new(),
        groups: Vec::new(),
        tags: Vec::new(),
        request: None,
        lab: false,
        json: false,
    })?;
    delegate(&Delegate {
        dir: dir.to_owned(),
        node: node.to_owned(),
        renews: None,
        endpoints: Vec::new(),
        names: String::new(),
        domains: Vec::new(),
        groups: Vec::new(),
        tags: Vec::new(),
        days: 365,
        lifetime: 30,
        json: false,
    })?;
    let config = dir.join(node).join("node.toml");
    let listen = listen_here(&addresses, net::udp::has_ipv6());
    let listen = listen.iter().map(ToString::to_string);
    edit(&config, |document| {
        document["listen"] = toml_edit::value(toml_edit::Array::from_iter(listen));
        document["direct_links"] = toml_edit::value(true);
        document["find_links"] = toml_edit::value(true);
    })
}

/// Returns the addresses from which this host would send to the Internet, one of each family. The
/// function sends nothing.
fn own_addresses() -> Result<Vec<String>, Failure> {
    // No host has an address of documentation, so the route to it is the route to the Internet.
    let own = |from: &str, to: &str| {
        let socket = UdpSocket::bind(from).ok()?;
        net::udp::prefer_lasting(&socket);
        socket.connect(to).ok()?;
        let ip = socket.local_addr().ok()?.ip();
        (!ip.is_unspecified()).then(|| SocketAddr::new(ip, DEFAULT_PORT))
    };
    let all = [
        own("0.0.0.0:0", "192.0.2.1:9"),
        own("[::]:0", "[2001:db8::1]:9").filter(is_public),
    ];
    match all.iter().flatten().count() {
        0 => Err(Failure::misused(
            "this host has no address that others reach: say one by --address HOST:PORT",
        )),
        _ => Ok(all.into_iter().flatten().map(|at| at.to_string()).collect()),
    }
}

/// Returns true for an address of IPv6 that hosts of other sites can reach.
fn is_public(at: &SocketAddr) -> bool {
    matches!(at, SocketAddr::V6(at) if at.ip().octets()[0] & 0xe0 == 0x20)
}

/// Moves the sockets of a service to the place where commands look for them.
fn move_sockets(config: &Path, node: &str, sockets: &str) -> Outcome {
    edit(config, |document| {
        document["client_socket"] = toml_edit::value(format!("{sockets}/{node}.sock"));
        document["control_socket"] = toml_edit::value(format!("{sockets}/{node}.ctl"));
    })
}

fn edit(config: &Path, change: impl FnOnce(&mut toml_edit::DocumentMut)) -> Outcome {
    let text = crate::identity::read(config)?;
    let mut document: toml_edit::DocumentMut = text.parse().map_err(Failure::failed)?;
    change(&mut document);
    fs::write(config, document.to_string()).map_err(|error| {
        Failure::failed(format_args!("cannot write {}: {error}", config.display()))
    })
}
