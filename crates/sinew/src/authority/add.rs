//! `net init` and `net add`: a new network, and a new node's directory.

use super::configuration::{self, check_endpoint, neighbor};
use super::directory::{Directory, entropy};
use super::register::{Entry, Register, check_node_name, is_file_name};
use super::rights::{described, ranges, tags};
use super::{Add, Init, NONE};
use crate::date::day;
use crate::failure::{Failure, Outcome};
use crate::identity::{FileError, read_as, write, write_secret};
use crate::terminal;
use base::NodeAddr;
use secure::{Certificate, Grants, Keys, Request, Validity};
use serde_json::json;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use wire::certificate::GroupRange;

/// File names in a network's directory that no node may have.
const RESERVED: [&str; 2] = ["issued", "lock"];

/// A node that was added.
#[derive(Debug)]
pub struct Added {
    /// The node's entry in the register.
    pub entry: Entry,
    /// The node's certificate.
    pub certificate: Certificate,
    /// Earlier nodes whose configuration got one more neighbour.
    pub extended: Vec<String>,
}

pub(super) fn run_init(args: &Init) -> Outcome {
    let directory = init(args)?;
    if args.json {
        let id = id_text(&directory);
        return terminal::json(&json!({
            "name": args.name, "prefix": args.prefix.to_string(), "id": id,
            "directory": args.dir.display().to_string(),
        }));
    }
    let dir = args.dir.display();
    terminal::line(&format!(
        "network {} is in {dir}\n\
         its root key is {dir}/network.key: keep it offline and back it up\n\
         add nodes with: sinew net add {dir} NODE --address HOST:PORT",
        args.name
    ))
}

/// Makes a network.
pub(crate) fn init(args: &Init) -> Result<Directory, Failure> {
    if !is_file_name(&args.name) {
        return Err(Failure::misused(format_args!(
            "`{}` is not a name for a network: use up to 63 letters, digits, `-`, `_` and `.`",
            args.name
        )));
    }
    let register = Register {
        name: args.name.clone(),
        prefix: args.prefix,
        nodes: Vec::new(),
        delegations: Vec::new(),
    };
    Directory::create(&args.dir, register)
}

pub(super) fn run_add(args: &Add) -> Outcome {
    let Added {
        entry,
        certificate,
        extended,
    } = add(args)?;
    let node = args.dir.join(&args.node);
    let config = node.join("node.toml");
    let not_after_s = certificate.fields().not_after_s;
    if args.json {
        return terminal::json(&json!({
            "name": entry.name, "address": entry.address.to_string(), "serial": entry.serial,
            "not_after_s": not_after_s, "endpoints": entry.endpoints,
            "config": config.display().to_string(), "extended": extended,
            "may_set_groups": described(&certificate), "tags": tags(&certificate),
        }));
    }
    let until = day(not_after_s);
    let mut text = format!(
        "{} is {}, certificate {} until {until}\n",
        entry.name, entry.address, entry.serial
    );
    for name in &extended {
        let dir = args.dir.join(name);
        let _ = writeln!(
            text,
            "{}/node.toml has a neighbour more, because {} cannot dial {name}: restart {name}",
            dir.display(),
            entry.name
        );
    }
    let _ = match &args.request {
        None => write!(
            text,
            "run it with: sinew node --config {}",
            config.display()
        ),
        Some(_) => write!(
            text,
            "copy the files of {} beside its node.key\n\
             run it there with: sinew node --config node.toml",
            node.display()
        ),
    };
    terminal::line(&text)
}

/// Adds a node to the network in `args.dir`.
pub fn add(args: &Add) -> Result<Added, Failure> {
    check_node_name(&args.node)?;
    if RESERVED.contains(&args.node.as_str()) {
        return Err(Failure::misused(format_args!(
            "`{}` is not a name for a node: the network's directory has a file of that name",
            args.node
        )));
    }
    for address in &args.addresses {
        check_endpoint(address)?;
    }
    let mut directory = Directory::open(&args.dir)?;
    let known = directory.register.node(&args.node).cloned();
    if known.as_ref().is_some_and(|known| !known.revoked) {
        return Err(Failure::misused(format_args!(
            "{} is in the network already: choose another name, or `sinew net revoke` it first",
            args.node
        )));
    }
    check_free(&directory.register, &args.node, &args.addresses)?;
    let links = links(&directory.register, args)?;
    let (request, keys) = match &args.request {
        Some(path) => (foreign_request(path, args)?, None),
        None => {
            let address = address(&directory.register, args, known.as_ref())?;
            let (request, keys) = own_request(&directory, args, address)?;
            (request, Some(keys))
        }
    };
    let address = request.fields().subject.address;
    check_address(&directory.register, address, &args.node)?;
    let validity = validity(args.days);
    // At least one node must be able to set groups. Later nodes get this right only on request.
    let groups = match ranges(&args.groups)? {
        Some(groups) => groups,
        None if others(&directory.register, &args.node).next().is_none() => vec![GroupRange::ALL],
        None => Vec::new(),
    };
    let tags: Vec<&str> = args.tags.iter().map(String::as_str).collect();
    let grants = Grants {
        groups: &groups,
        tags: &tags,
    };
    let certificate = directory
        .authority
        .issue_with(&request, &grants, validity)
        .map_err(Failure::failed)?;
    let entry = Entry {
        name: args.node.clone(),
        address,
        endpoints: args.addresses.clone(),
        serial: certificate.fields().serial,
        revoked: false,
    };
    directory
        .register
        .nodes
        .retain(|node| node.name != entry.name);
    directory.register.nodes.push(entry.clone());
    directory.save()?;
    directory.keep(&certificate)?;
    write_node(
        &directory,
        args,
        &entry,
        &certificate,
        keys.as_ref(),
        &links,
    )?;
    let extended = extend_unreachable(&directory, &entry, &links)?;
    Ok(Added {
        entry,
        certificate,
        extended,
    })
}

/// Returns a validity from now for this number of days.
pub(super) fn validity(days: u32) -> Validity {
    let not_before_s = net::Clock::new().unix_s();
    Validity {
        not_before_s,
        not_after_s: not_before_s + u64::from(days) * 86_400,
    }
}

fn write_node(
    directory: &Directory,
    args: &Add,
    entry: &Entry,
    certificate: &Certificate,
    keys: Option<&Keys>,
    links: &[Entry],
) -> Outcome {
    let dir = directory.node(&entry.name);
    let fail = |error| FileError::Write {
        path: dir.clone(),
        error,
    };
    fs::DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(&dir)
        .map_err(fail)?;
    if let Some(keys) = keys {
        write_secret(&dir.join("node.key"), &keys.to_text())?;
    }
    write(&dir.join("node.cert"), &certificate.to_text())?;
    write(
        &dir.join("network.pub"),
        &directory.authority.network().to_text(),
    )?;
    if let Some(list) = directory.revocations()? {
        write(&dir.join("revocations"), &list)?;
    }
    let config = configuration::text(&directory.register.name, entry, args.lab, links);
    Ok(write(&dir.join("node.toml"), &config)?)
}

/// Adds the new node as a neighbour of earlier nodes if it cannot dial them: then they must dial
/// it.
fn extend_unreachable(
    directory: &Directory,
    entry: &Entry,
    links: &[Entry],
) -> Result<Vec<String>, Failure> {
    let mut extended = Vec::new();
    if entry.endpoints.is_empty() {
        return Ok(extended);
    }
    for link in links.iter().filter(|link| link.endpoints.is_empty()) {
        let path = directory.node(&link.name).join("node.toml");
        let text = crate::identity::read(&path)?;
        write(&path, &(text + &neighbor(entry)))?;
        extended.push(link.name.clone());
    }
    Ok(extended)
}

fn own_request(
    directory: &Directory,
    args: &Add,
    address: NodeAddr,
) -> Result<(Request, Keys), Failure> {
    let keys = fresh_keys()?;
    let domains: Vec<&str> = args.domains.iter().map(String::as_str).collect();
    let id = directory.authority.network().id();
    let request = keys
        .request(id, address, &args.node, &domains)
        .map_err(Failure::misused)?;
    Ok((request, keys))
}

/// Generates fresh random keys.
pub(crate) fn fresh_keys() -> Result<Keys, Failure> {
    let mut bytes = [0; 64];
    let (first, second) = bytes.split_at_mut(32);
    first.copy_from_slice(&entropy()?);
    second.copy_from_slice(&entropy()?);
    Ok(Keys::generate(&bytes))
}

fn foreign_request(path: &Path, args: &Add) -> Result<Request, Failure> {
    let request = read_as(path, Request::from_text)?;
    let subject = request.fields().subject;
    if subject.name != args.node {
        return Err(Failure::misused(format_args!(
            "the request is of `{}`, not of `{}`",
            subject.name, args.node
        )));
    }
    if args
        .overlay
        .is_some_and(|address| address != subject.address)
    {
        return Err(Failure::misused(format_args!(
            "the request asks for {}: leave --overlay out, or let the node ask anew",
            subject.address
        )));
    }
    if !args.domains.is_empty() {
        return Err(Failure::misused(
            "the request names the domains: leave --domain out",
        ));
    }
    Ok(request)
}

fn address(register: &Register, args: &Add, known: Option<&Entry>) -> Result<NodeAddr, Failure> {
    let free = || {
        register.free_address().ok_or_else(|| {
            Failure::failed(format_args!("no address is free in {}", register.prefix))
        })
    };
    args.overlay
        .or(known.map(|node| node.address))
        .map_or_else(free, Ok)
}

fn check_address(register: &Register, address: NodeAddr, name: &str) -> Outcome {
    let taken = register
        .nodes
        .iter()
        .find(|node| node.address == address && node.name != name);
    if let Some(node) = taken {
        return Err(Failure::misused(format_args!(
            "{address} is the address of {}",
            node.name
        )));
    }
    let delegated = register.delegations.iter();
    if let Some(given) = delegated
        .into_iter()
        .find(|given| (given.first..=given.last).contains(&address))
    {
        return Err(Failure::misused(format_args!(
            "{address} is for the nodes that {} certifies: it gives {} to {}",
            given.node, given.first, given.last
        )));
    }
    if !register.prefix.contains(address) {
        return Err(Failure::misused(format_args!(
            "{address} is not in the network's range {}",
            register.prefix
        )));
    }
    Ok(())
}

fn links(register: &Register, args: &Add) -> Result<Vec<Entry>, Failure> {
    match &args.link {
        Some(list) => find_links(register, &args.node, list),
        None => Ok(others(register, &args.node).cloned().collect()),
    }
}

/// Returns all nodes of the network except one, and except revoked ones.
fn others<'r>(register: &'r Register, name: &str) -> impl Iterator<Item = &'r Entry> + Clone {
    let nodes = register.nodes.iter();
    nodes.filter(move |node| !node.revoked && node.name != name)
}

/// Returns the nodes in a list of links for the node `name`.
pub(super) fn find_links(
    register: &Register,
    name: &str,
    list: &str,
) -> Result<Vec<Entry>, Failure> {
    if list == NONE {
        return Ok(Vec::new());
    }
    let others = others(register, name);
    let find = |name: &str| {
        let found = others.clone().find(|node| node.name == name).cloned();
        found.ok_or_else(|| {
            let names: Vec<&str> = others.clone().map(|node| node.name.as_str()).collect();
            Failure::misused(format_args!(
                "--link: no node `{name}`; there are: {}",
                if names.is_empty() {
                    "none".into()
                } else {
                    names.join(", ")
                }
            ))
        })
    };
    list.split(',').map(|name| find(name.trim())).collect()
}

/// Fails if another node uses one of these addresses, or has a name that differs only in capitals:
/// for file systems and the DNS that is the same name.
pub(super) fn check_free(register: &Register, name: &str, addresses: &[String]) -> Outcome {
    for other in others(register, name) {
        if other.name.eq_ignore_ascii_case(name) {
            return Err(Failure::misused(format_args!(
                "{name} differs from {} in capitals alone: choose another name",
                other.name
            )));
        }
        let shared = addresses.iter().find(|a| other.endpoints.contains(a));
        if let Some(address) = shared {
            return Err(Failure::misused(format_args!(
                "{} is reached at {address} already: choose another --address for {name}",
                other.name
            )));
        }
    }
    Ok(())
}

/// Returns the network's id as hexadecimal digits.
pub(super) fn id_text(directory: &Directory) -> String {
    let id = directory.authority.network().id();
    id.0.iter().map(|byte| format!("{byte:02x}")).collect()
}
