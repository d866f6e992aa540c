//! `sinew join`: makes this host a node of the network that issued a token.

use super::token::Token;
use crate::authority::{
    Joined, check_node_name, fresh_keys, is_endpoint, is_file_name, joined, listen_here,
};
use crate::date::{day, span, until};
use crate::failure::{Failure, Outcome};
use crate::identity::{FileError, read_secret_as, write, write_secret};
use crate::launch::{Launch, Start};
use crate::terminal;
use clap::Args;
use host::relay::join::{Ask, AskError, Given, ask};
use host::renewal::told;
use secure::{Certificate, CertificateError, Identity, Keys, Network};
use serde_json::json;
use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The longest token that is read. A token usually has some 200 characters.
const TOKEN_CHARS_MAX: u64 = 8_192;

/// Arguments of `sinew join`.
#[derive(Debug, Args)]
pub struct Join {
    /// The token from `sinew invite`; `-` reads it from standard input, which hides it from lists of
    /// processes
    pub token: String,
    /// The node's name; default: that of this host
    #[arg(long)]
    pub name: Option<String>,
    /// Address at which other nodes reach it; omit it for a host behind NAT
    #[arg(long = "address", value_name = "HOST:PORT", num_args = 1..)]
    pub addresses: Vec<String>,
    /// The UDP address to listen on; default: all of IPv4 and IPv6, port 7700 or that of its address
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// The node's directory; default: NAME, or /etc/sinew/NAME for a service
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// How it starts.
    #[command(flatten)]
    pub launch: Launch,
    /// Print JSON about the node
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &Join) -> Outcome {
    run_at(args, net::Clock::new().unix_s())
}

/// Runs the command at the time `now_s`, in seconds of the host's clock.
pub fn run_at(args: &Join, now_s: u64) -> Outcome {
    let token = token(&args.token)?;
    let network = Network::new(token.root).map_err(Failure::failed)?;
    let wanted = match &args.name {
        Some(name) => name.clone(),
        None => host_name(),
    };
    if check_node_name(&wanted).is_err() {
        return Err(Failure::misused(format_args!(
            "`{wanted}` is not a name for a node: give one by --name"
        )));
    }
    let mut dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => args.launch.dir(&wanted)?,
    };
    if let Some(member) = member(&dir, &network, now_s)? {
        tell(args, &member, &dir.join("node.toml"))?;
        let config = dir.join("node.toml");
        return args.launch.start(member.name(), &config, args.json);
    }
    if now_s > token.expires_s {
        return Err(Failure::failed(format_args!(
            "this host's clock shows {}, and by it this token expired on {}, {} ago: check the clock first; if it is \
             right, ask for a new token",
            until(now_s),
            until(token.expires_s),
            span((now_s - token.expires_s) as f64)
        )));
    }
    let bad = args.addresses.iter().find(|address| !is_endpoint(address));
    if let Some(bad) = bad {
        return Err(Failure::misused(format_args!(
            "--address `{bad}`: write a host name or address and a port, like ams.example.net:7700"
        )));
    }
    let keys = keys(&dir)?;
    let asked = Ask::Join {
        secret: &token.secret,
        name: &wanted,
        endpoints: &args.addresses,
    };
    let given = ask(&token.endpoints, token.issuer, &keys, &asked).map_err(not_given)?;
    let (given, network) = checked(given, &network, now_s)?;
    let identity = Identity::new(keys, given.certificate.clone()).map_err(Failure::failed)?;
    // The directory of a service gets the name that the issuer gave to the host.
    if args.dir.is_none() && args.launch.how()? == Start::Service && identity.name() != wanted {
        let named = args.launch.dir(identity.name())?;
        fs::rename(&dir, &named).map_err(|error| FileError::Write {
            path: named.clone(),
            error,
        })?;
        dir = named;
    }
    let config = dir.join("node.toml");
    install(args, &token, &dir, &network, &identity, &given)?;
    tell(args, &identity, &config)?;
    args.launch.start(identity.name(), &config, args.json)
}

/// Returns the node of this network that the directory already holds. If the command is run again, by a user or by a
/// container that restarts, it starts that node. If the node's certificate has expired, the node joins again and keeps
/// its key.
fn member(dir: &Path, network: &Network, now_s: u64) -> Result<Option<Identity>, Failure> {
    let config = dir.join("node.toml");
    if !config.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(dir.join("node.cert")).unwrap_or_default();
    let certificate = Certificate::from_text(&text);
    if certificate
        .as_ref()
        .is_ok_and(|it| it.fields().not_after_s < now_s)
    {
        return Ok(None);
    }
    let of = fs::read_to_string(dir.join("network.pub")).unwrap_or_default();
    let is_same = Network::from_text(&of).is_ok_and(|it| it.root_key() == network.root_key());
    let Some(certificate) = certificate.ok().filter(|_| is_same) else {
        return Err(Failure::misused(format_args!(
            "{} is of another network or was made by hand: start it with `sinew node --config {0}`, or choose another --dir",
            config.display()
        )));
    };
    let identity = Identity::new(keys(dir)?, certificate).map_err(Failure::failed)?;
    Ok(Some(identity))
}

fn token(text: &str) -> Result<Token, Failure> {
    if text != "-" {
        return text.parse().map_err(Failure::misused);
    }
    let mut read = String::new();
    let taken = std::io::stdin()
        .take(TOKEN_CHARS_MAX)
        .read_to_string(&mut read);
    taken.map_err(|error| Failure::failed(format_args!("cannot read the token: {error}")))?;
    read.parse().map_err(Failure::misused)
}

/// Returns the name of this host, if a node can have it.
pub(crate) fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let first = name.trim().split('.').next().unwrap_or_default();
    match check_node_name(first).is_ok() {
        true => first.to_owned(),
        false => "node".to_owned(),
    }
}

/// Returns the key in the directory, where an earlier failed attempt may have left it, or a new key.
fn keys(dir: &Path) -> Result<Keys, Failure> {
    let fail = |error| FileError::Write {
        path: dir.to_owned(),
        error,
    };
    let mut made = fs::DirBuilder::new();
    made.mode(0o700).recursive(true).create(dir).map_err(fail)?;
    let path = dir.join("node.key");
    if path.exists() {
        return Ok(read_secret_as(&path, Keys::from_text)?);
    }
    let keys = fresh_keys()?;
    write_secret(&path, &keys.to_text())?;
    Ok(keys)
}

fn not_given(why: AskError) -> Failure {
    let advice = match &why {
        AskError::Refused { .. } | AskError::Nowhere => "",
        AskError::Unreachable { error, .. } => match error.kind() {
            std::io::ErrorKind::InvalidData => {
                ": something else answers there than the node that has made the token"
            }
            _ => {
                ": let TCP through to it, see that the node runs, and try again; the token still holds"
            }
        },
    };
    Failure::failed(format_args!("{why}{advice}"))
}

/// Returns the parts of the answer that are valid in this network, and the network with the root keys and revocations
/// of the answer.
fn checked(mut given: Given, network: &Network, now_s: u64) -> Result<(Given, Network), Failure> {
    let mut network = network.clone();
    let rooted = network.extend(&given.chain);
    rooted.map_err(|why| Failure::failed(format_args!("the root keys that came: {why}")))?;
    network.learn(&given.certificate);
    if let Some(list) = &given.revocations {
        network.restore(list).map_err(Failure::failed)?;
    }
    let verified = network.verify(&given.certificate, now_s);
    verified.map_err(|why| not_counting(&given.certificate, why, now_s))?;
    // The data of other nodes goes into a configuration, so it must be checked.
    for (_, _, endpoints) in &mut given.neighbors {
        endpoints.retain(|endpoint| is_endpoint(endpoint));
    }
    given
        .neighbors
        .retain(|(_, name, endpoints)| is_file_name(name) && !endpoints.is_empty());
    let own = given.certificate.fields().subject.name;
    if !is_file_name(own) {
        return Err(Failure::failed(format_args!(
            "the issuer gave this host a name that is none: {own:?}"
        )));
    }
    match given.neighbors.is_empty() {
        true => Err(Failure::failed("no node was named that could be dialled")),
        false => Ok((given, network)),
    }
}

/// If a certificate that was just signed has expired or is not valid yet, a clock is wrong.
fn not_counting(certificate: &Certificate, why: CertificateError, now_s: u64) -> Failure {
    match why {
        CertificateError::NotYetValid | CertificateError::Expired => {
            let fields = certificate.fields();
            Failure::failed(format_args!(
                "this host's clock shows {}, and the issuer gave it a certificate from {} until {}: set the clock, by \
                 NTP best (`timedatectl set-ntp true`), and run this again; the token still holds",
                until(now_s),
                until(fields.not_before_s),
                until(fields.not_after_s)
            ))
        }
        why => Failure::failed(format_args!(
            "the certificate that came does not count: {why}"
        )),
    }
}

fn install(
    args: &Join,
    token: &Token,
    dir: &Path,
    network: &Network,
    identity: &Identity,
    given: &Given,
) -> Outcome {
    write(&dir.join("node.cert"), &given.certificate.to_text())?;
    write(&dir.join("network.pub"), &network.to_text())?;
    // Files in the directory from an earlier join belong to another issuer, or to another network.
    let certificate = dir.join("node.cert");
    let kept = told::forget(&certificate).and_then(|()| told::write(&certificate, &given.others));
    kept.map_err(Failure::failed)?;
    if let Some(list) = &given.revocations {
        write(&dir.join("revocations"), &list.to_text())?;
    }
    // A node that joins again keeps its configuration.
    if dir.join("node.toml").exists() {
        return Ok(());
    }
    let listen = match args.listen {
        Some(at) => vec![at],
        None => listen_here(&args.addresses, net::udp::has_ipv6()),
    };
    let sockets = args.launch.sockets(identity.name())?;
    let text = joined(&Joined {
        name: identity.name(),
        endpoints: &args.addresses,
        listen: &listen,
        sockets: sockets.as_deref(),
        neighbors: &given.neighbors,
        issuer: token.issuer,
        from: &token.endpoints,
    });
    // This file comes last: a directory that has it is complete.
    Ok(write(&dir.join("node.toml"), &text)?)
}

fn tell(args: &Join, identity: &Identity, config: &Path) -> Outcome {
    let fields = identity.certificate().fields();
    if args.json {
        return terminal::json(&json!({
            "name": identity.name(), "address": identity.address().to_string(),
            "serial": fields.serial, "not_after_s": fields.not_after_s,
            "config": config.display().to_string(),
        }));
    }
    terminal::line(&format!(
        "this host is {} with overlay address {}, certificate {} until {}; renewed by itself",
        identity.name(),
        identity.address(),
        fields.serial,
        day(fields.not_after_s)
    ))?;
    match args.launch.how()? {
        Start::No => terminal::line(&format!(
            "run it with: sinew node --config {}",
            config.display()
        )),
        _ => Ok(()),
    }
}
