//! `net set`: changes domains, rights, addresses or links of a node in the network. The node's key, name and overlay
//! address stay. Only other domains or rights need a new certificate.

use super::add::{check_free, find_links};
use super::configuration::check_endpoint;
use super::directory::Directory;
use super::edit;
use super::register::Entry;
use super::renew::{hand_over, holder, present, replace, tell};
use super::rights::ranges;
use super::{NONE, Set};
use crate::failure::{Failure, Outcome};
use secure::{Certificate, Changes, Validity};
use serde_json::json;
use wire::certificate::GroupRange;

pub(super) fn run(args: &Set) -> Outcome {
    for address in &args.addresses {
        check_endpoint(address)?;
    }
    let groups = ranges(&args.groups)?;
    let certifies = !args.domains.is_empty() || groups.is_some() || !args.tags.is_empty();
    if !certifies && args.addresses.is_empty() && args.link.is_none() {
        return Err(Failure::misused(
            "say what to set: --domain DOMAIN, --may-set-groups RANGE, --tag TAG, --address HOST:PORT or --link NODE,..",
        ));
    }
    let mut directory = Directory::open(&args.dir)?;
    let entry = present(&directory, &args.node)?;
    let addresses = match args.addresses.is_empty() {
        true => entry.endpoints.clone(),
        false => args.addresses.clone(),
    };
    check_free(&directory.register, &args.node, &addresses)?;
    let links = match &args.link {
        Some(list) => Some(find_links(&directory.register, &args.node, list)?),
        None => None,
    };
    // Connect before anything is changed, as for a renewal.
    let control = match certifies {
        false if args.socket.is_some() => {
            return Err(Failure::misused(
                "--node is for a new certificate, with --domain, --may-set-groups or --tag: the node reads other addresses and \
                 links from its configuration, on SIGHUP",
            ));
        }
        false => None,
        true => holder(args.socket.as_deref(), &entry)?,
    };
    let certificate = match certifies {
        false => None,
        true => Some(certify(
            &mut directory,
            &entry,
            (&args.domains, &args.tags),
            groups.as_deref(),
        )?),
    };
    let changed = configure(&mut directory, &entry, addresses, links.as_deref())?;
    let network = directory.authority.network();
    drop(directory);
    let told = certificate.as_ref();
    let told = told.and_then(|it| control.map(|control| hand_over(control, &network, it)));
    report(args, certificate.as_ref(), &changed, told)
}

/// Issues a certificate for the same key and time with these domains, tags and rights. An option that is not given
/// leaves the old value; an empty list removes it.
fn certify(
    directory: &mut Directory,
    entry: &Entry,
    (domains, tags): (&[String], &[String]),
    groups: Option<&[GroupRange]>,
) -> Result<Certificate, Failure> {
    let old = directory.certificate(entry.serial)?;
    let validity = Validity {
        not_before_s: net::Clock::new().unix_s(),
        not_after_s: old.fields().not_after_s,
    };
    let [domains, tags] = [domains, tags].map(|words| {
        let words = words.iter().map(String::as_str);
        words.collect::<Vec<&str>>()
    });
    let changes = Changes {
        domains: said(&domains),
        groups,
        tags: said(&tags),
    };
    let authority = &mut directory.authority;
    let certified = authority.renew_for(&old, &changes, validity);
    let certificate = certified.map_err(|why| {
        Failure::misused(format_args!(
            "{why}; or see `sinew net renew`, if it has ended"
        ))
    })?;
    replace(directory, &entry.name, &certificate)?;
    Ok(certificate)
}

fn said<'a>(words: &'a [&'a str]) -> Option<&'a [&'a str]> {
    match words {
        [] => None,
        [NONE] => Some(&[]),
        words => Some(words),
    }
}

/// Updates addresses and links in the register and in the configurations. Returns the nodes whose configuration has
/// changed.
fn configure(
    directory: &mut Directory,
    entry: &Entry,
    addresses: Vec<String>,
    links: Option<&[Entry]>,
) -> Result<Vec<String>, Failure> {
    let now = Entry {
        endpoints: addresses,
        ..entry.clone()
    };
    let nodes = directory.register.nodes.iter_mut();
    for node in nodes.filter(|node| node.name == entry.name) {
        node.endpoints.clone_from(&now.endpoints);
    }
    directory.save()?;
    let mut changed = Vec::new();
    let mut edited = |name: &str, done: bool| {
        if done && !changed.iter().any(|known| known == name) {
            changed.push(name.to_owned());
        }
    };
    let own = directory.node(&entry.name).join("node.toml");
    if own.exists() {
        edited(
            &entry.name,
            edit::listen(&own, &entry.endpoints, &now.endpoints)?,
        );
        if let Some(links) = links {
            edited(&entry.name, edit::neighbors(&own, links)?);
        }
    }
    for other in &directory.register.nodes {
        let path = directory.node(&other.name).join("node.toml");
        if other.name == entry.name || !path.exists() {
            continue;
        }
        let is_linked = links.is_some_and(|links| links.iter().any(|l| l.name == other.name));
        // A node that cannot be dialled dials the others.
        let adds = is_linked && other.endpoints.is_empty() && !now.endpoints.is_empty();
        edited(&other.name, edit::neighbor(&path, &now, adds)?);
    }
    Ok(changed)
}

fn report(
    args: &Set,
    certificate: Option<&Certificate>,
    changed: &[String],
    told: Option<Outcome>,
) -> Outcome {
    let serial = certificate.map(|certificate| certificate.fields().serial);
    let answer = json!({"name": args.node, "serial": serial, "configurations": changed});
    let mut done = match serial {
        Some(serial) => format!("{} has certificate {serial}", args.node),
        None => format!("{} is set", args.node),
    };
    if !changed.is_empty() {
        done += &format!(
            "; node.toml of {} has changed: send SIGHUP to that node, or restart it",
            changed.join(", ")
        );
    }
    let dir = args.dir.join(&args.node);
    let otherwise = format!(
        "run `sinew net renew {} {} --node SOCKET`, or copy {}/node.cert to it and send it SIGHUP",
        args.dir.display(),
        args.node,
        dir.display()
    );
    match certificate {
        Some(_) => tell(
            args.json,
            answer,
            &done,
            "the running node has it",
            &otherwise,
            told,
        ),
        None if args.json => crate::terminal::json(&answer),
        None => crate::terminal::line(&done),
    }
}
