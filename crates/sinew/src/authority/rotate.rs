//! `net rotate`: replaces the root key of the network, and issues everything that the authority has certified again
//! with the new key.
//!
//! ```text
//!   network.key ──▶ network.key.root-N      the old one, for as long as it may be wanted
//!   new network.key ──▶ network.pub (with the succession), revocations ──▶ here, each NODE/, a running node
//!                  └──▶ a certificate for each node, a delegation for each issuer ──▶ each NODE/
//! ```
//! A running node that gets the new root key and list spreads them to all other nodes. Each node needs its own new
//! certificate while the old one is still valid.

use super::Rotate;
use super::directory::{Directory, entropy};
use super::register::Delegated;
use super::renews::file_for;
use crate::control::Control;
use crate::failure::{Failure, Outcome};
use crate::terminal;
use host::date::until;
use secure::{Certificate, Delegation, Network, Revocations, Validity};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The result of a rotation.
#[derive(Debug)]
struct Rotated {
    network: Network,
    until_s: u64,
    list: Revocations,
    /// The file of the previous root key.
    old_key: PathBuf,
    certificates: Vec<Certificate>,
    /// The nodes without a new certificate, because their certificate had expired.
    expired: Vec<String>,
    delegations: Vec<Again>,
    /// The nodes whose directories could not be written, with the reasons.
    unwritten: Vec<(String, String)>,
}

/// A delegation that was issued again.
#[derive(Debug)]
struct Again {
    /// The issuer.
    node: String,
    /// The name of its file in the issuer's directory.
    file: String,
    /// The other issuer whose members it renews, if it is for renewals.
    renews: Option<String>,
    delegation: Delegation,
}

/// What a running node has accepted.
#[derive(Debug)]
struct Told {
    /// The name of the node, if it is in the register and has accepted its certificate.
    renewed: Option<String>,
}

pub(super) fn run(args: &Rotate) -> Outcome {
    // This comes first, so that no root key is made that no node gets.
    let control = match &args.socket {
        Some(socket) => Some(Control::find(Some(socket))?),
        None => None,
    };
    let mut directory = Directory::open(&args.dir)?;
    let rotated = rotate(&mut directory, args)?;
    // The next step may wait for a node. Other commands need not wait for it.
    drop(directory);
    let told = control.map(|control| tell_node(control, &rotated));
    report(args, &rotated, told)
}

fn rotate(directory: &mut Directory, args: &Rotate) -> Result<Rotated, Failure> {
    let now_s = net::Clock::new().unix_s();
    let until_s = now_s.saturating_add(args.overlap.as_millis() / 1_000);
    check_clock(directory, now_s, until_s)?;
    let before = directory.authority.network().root_number();
    let old_key = directory.keep_root(before)?;
    let authority = &mut directory.authority;
    authority
        .rotate(&entropy()?, until_s, now_s)
        .map_err(Failure::failed)?;
    let list = authority.revocations(now_s);
    let (certificates, expired) = certify(directory, args.days, now_s)?;
    let delegations = delegate(directory, &certificates, now_s)?;
    let mut rotated = Rotated {
        network: directory.authority.network(),
        until_s,
        list,
        old_key,
        certificates,
        expired,
        delegations,
        unwritten: Vec::new(),
    };
    directory.save_key()?;
    keep(directory, &rotated).map_err(|why| half_done(&args.dir, &rotated, &why))?;
    rotated.unwritten = hand_out(directory, &rotated);
    Ok(rotated)
}

/// Fails if the clock is earlier than a time that this directory has recorded. With such a clock, the old root key
/// would be valid for a shorter time than requested, or not at all, and nobody could extend it.
fn check_clock(directory: &Directory, now_s: u64, until_s: u64) -> Outcome {
    let network = directory.authority.network();
    let rotated_s = network.successions().iter().map(|it| it.issued_s);
    let certificates = directory.certificates()?;
    let certified_s = certificates.iter().map(|it| it.fields().not_before_s);
    match rotated_s.chain(certified_s).max() {
        Some(seen_s) if now_s < seen_s => Err(Failure::failed(format_args!(
            "the clock of this machine is wrong: it says {}, and something was signed here at {}. Certificates of the \
             old root key would end at {}: set the clock first",
            until(now_s),
            until(seen_s),
            until(until_s)
        ))),
        _ => Ok(()),
    }
}

/// Writes everything into the authority's own directory. The register comes last, because it names the other files.
/// After an interruption, the previous certificates are still in force.
fn keep(directory: &Directory, rotated: &Rotated) -> Outcome {
    directory.publish(&rotated.list)?;
    for certificate in &rotated.certificates {
        directory.keep(certificate)?;
    }
    for again in &rotated.delegations {
        directory.keep_delegation(&again.delegation)?;
    }
    directory.save_register()
}

fn half_done(dir: &Path, rotated: &Rotated, why: &Failure) -> Failure {
    let (number, dir) = (rotated.network.root_number(), dir.display());
    Failure::failed(format_args!(
        "root key {number} is made, and not all files are written: {}. Do not run this again: mend that, and then run \
         `sinew net renew {dir} NODE` for each node",
        why.text()
    ))
}

/// Writes the copies for the nodes. If one node's directory cannot be written, the others still get their files.
fn hand_out(directory: &Directory, rotated: &Rotated) -> Vec<(String, String)> {
    let mut unwritten = Vec::new();
    for node in &directory.register.nodes {
        let name = node.name.as_str();
        let mut certificates = rotated.certificates.iter();
        let certificate = certificates.find(|it| it.fields().subject.name == name);
        let delegations = rotated.delegations.iter();
        let mut done = directory.hand_public(name);
        if let Some(certificate) = certificate {
            done = done.and(directory.hand(name, "node.cert", &certificate.to_text()));
        }
        for again in delegations.filter(|again| again.node == name) {
            done = done.and(directory.hand(name, &again.file, &again.delegation.to_text()));
        }
        if let Err(why) = done {
            unwritten.push((name.to_owned(), why.text().to_owned()));
        }
    }
    unwritten
}

/// Certifies the nodes of the register again, and updates their entries. Returns the certificates, and the names of the
/// nodes whose certificates have expired. They get none: a rotation must not let a node back in.
fn certify(
    directory: &mut Directory,
    days: Option<u32>,
    now_s: u64,
) -> Result<(Vec<Certificate>, Vec<String>), Failure> {
    let (mut certificates, mut expired) = (Vec::new(), Vec::new());
    for at in 0..directory.register.nodes.len() {
        let entry = &directory.register.nodes[at];
        if entry.revoked {
            continue;
        }
        let old = directory.certificate(entry.serial)?;
        let not_after_s = old.fields().not_after_s;
        if not_after_s < now_s {
            expired.push(entry.name.clone());
            continue;
        }
        let valid = Validity {
            not_before_s: now_s,
            not_after_s: days.map_or(not_after_s, |days| now_s + u64::from(days) * 86_400),
        };
        let renewed = directory.authority.renew(&old, valid);
        let renewed = renewed.map_err(Failure::failed)?;
        directory.register.nodes[at].serial = renewed.fields().serial;
        certificates.push(renewed);
    }
    Ok((certificates, expired))
}

/// Issues the newest delegations of each issuer again, until the same end of validity. Delegations for renewals come
/// last: their serials must be higher than those of the other issuer, because nodes accept no lower serial.
fn delegate(
    directory: &mut Directory,
    certificates: &[Certificate],
    now_s: u64,
) -> Result<Vec<Again>, Failure> {
    let register = &directory.register;
    let is_present = |name: &str| register.node(name).is_some_and(|node| !node.revoked);
    let own = certificates.iter();
    let own = own.filter_map(|it| register.delegated(it.fields().subject.name));
    // The revocation of an issuer also covers renewals of its members by other issuers.
    let renewing = register.renewing().into_iter();
    let renewing = renewing.filter(|it| it.renews.as_deref().is_some_and(is_present));
    let newest: Vec<Delegated> = own
        .chain(renewing)
        .filter(|it| it.not_after_s >= now_s)
        .cloned()
        .collect();
    let mut made = Vec::new();
    for given in newest {
        let mut certificates = certificates.iter();
        let certificate = certificates.find(|it| it.fields().subject.name == given.node);
        let Some(certificate) = certificate else {
            continue;
        };
        let before = directory.delegation(given.serial)?;
        let again = directory
            .authority
            .delegate_again(certificate, &before, now_s);
        let again = again.map_err(Failure::failed)?;
        made.push(Again {
            node: given.node.clone(),
            file: match &given.renews {
                Some(issuer) => file_for(issuer),
                None => "node.delegation".to_owned(),
            },
            renews: given.renews.clone(),
            delegation: again.clone(),
        });
        directory.register.delegations.push(Delegated {
            serial: again.fields().serial,
            ..given
        });
    }
    Ok(made)
}

/// Sends the roots first, then the list, then the node's own certificate.
fn tell_node(mut control: Control, rotated: &Rotated) -> Result<Told, Failure> {
    let network = rotated.network.to_text();
    control.ask(&json!({"cmd": "succeed", "network": network}))?;
    control.ask(&json!({"cmd": "revoke", "list": rotated.list.to_text()}))?;
    let status = control.status()?;
    let address = &status["snapshot"]["address"];
    let mut certificates = rotated.certificates.iter();
    let own = certificates.find(|it| *address == it.fields().subject.address.to_string());
    if let Some(own) = own {
        control.ask(&json!({"cmd": "renew", "certificate": own.to_text()}))?;
    }
    Ok(Told {
        renewed: own.map(|own| own.fields().subject.name.to_owned()),
    })
}

fn report(args: &Rotate, rotated: &Rotated, told: Option<Result<Told, Failure>>) -> Outcome {
    let renewed = match &told {
        Some(Ok(told)) => told.renewed.as_deref(),
        _ => None,
    };
    let not_told = match &told {
        Some(Err(why)) => Some(why.text().to_owned()),
        _ => None,
    };
    if args.json {
        let mut answer = as_json(&args.dir, rotated, renewed);
        answer["told"] = json!(matches!(told, Some(Ok(_))));
        answer["not_told_because"] = json!(not_told);
        terminal::json(&answer)?;
    } else if not_told.is_none() {
        let dir = args.dir.display();
        let spread = match &told {
            Some(_) => "the running node has it and tells the others".to_owned(),
            None => format!("no node has the new root key yet: {}", bring(&args.dir)),
        };
        let text = in_words(rotated, renewed, &format!("{dir}"));
        terminal::line(&format!("{text}{spread}"))?;
    }
    let number = rotated.network.root_number();
    let mut failed = String::new();
    if let Some(why) = not_told {
        failed += &format!(
            ", NOT delivered: {why}. Do not run this again, but {}",
            bring(&args.dir)
        );
    }
    for (node, why) in &rotated.unwritten {
        let dir = args.dir.display();
        failed += &format!(
            ", NOT written for {node}: {why}. Do not run this again: mend that, and run `sinew net renew {dir} {node}`"
        );
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::Undelivered(format!(
            "root key {number} is made{failed}"
        ))),
    }
}

/// Describes another way to bring the rotation to a node.
fn bring(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "run `sinew net renew {dir} NODE --node SOCKET`, or copy {dir}/network.pub and \
         {dir}/revocations to a running node and send it SIGHUP"
    )
}

fn in_words(rotated: &Rotated, renewed: Option<&str>, dir: &str) -> String {
    let number = rotated.network.root_number();
    let mut text = format!(
        "the network has root key {number}; what root key {} signed counts until {}\n\
         the old key is {}: delete it after that, or now if it was stolen\n",
        number - 1,
        until(rotated.until_s),
        rotated.old_key.display()
    );
    let names = rotated.certificates.iter();
    let names = names.map(|it| it.fields().subject.name);
    let left: Vec<&str> = names.filter(|name| Some(*name) != renewed).collect();
    if !left.is_empty() {
        text += &format!(
            "give these nodes their new certificates by then, with `sinew net renew {dir} NODE --node SOCKET`, or copy \
             {dir}/NODE/node.cert to them and send SIGHUP: {}\n",
            left.join(", ")
        );
    }
    if !rotated.expired.is_empty() {
        text += &format!(
            "the certificates of these nodes have expired, so they got none; `sinew net renew {dir} NODE` makes one: {}\n",
            rotated.expired.join(", ")
        );
    }
    for again in &rotated.delegations {
        let (node, file) = (&again.node, &again.file);
        text += &match &again.renews {
            None => format!(
                "{node} is an issuer: copy {dir}/{node}/{file} to it and restart it; its members renew themselves then\n"
            ),
            Some(other) => format!(
                "{node} may renew members of {other}: copy {dir}/{node}/{file} to it and restart it; then it can renew \
                 them when {other} is lost\n"
            ),
        };
    }
    text
}

fn as_json(dir: &Path, rotated: &Rotated, renewed: Option<&str>) -> Value {
    let nodes: Vec<Value> = rotated
        .certificates
        .iter()
        .map(|certificate| {
            let fields = certificate.fields();
            let name = fields.subject.name;
            json!({
                "name": name, "serial": fields.serial, "not_after_s": fields.not_after_s,
                "certificate": dir.join(name).join("node.cert").display().to_string(),
                "told": renewed == Some(name),
            })
        })
        .collect();
    let issuers: Vec<Value> = rotated
        .delegations
        .iter()
        .map(|again| {
            json!({
                "name": again.node, "serial": again.delegation.fields().serial,
                "delegation": dir.join(&again.node).join(&again.file).display().to_string(),
            })
        })
        .collect();
    let unwritten: Vec<Value> = rotated
        .unwritten
        .iter()
        .map(|(node, why)| json!({"name": node, "why": why}))
        .collect();
    json!({
        "expired": rotated.expired, "unwritten": unwritten, "root": rotated.network.root_number(), "old_counts_until_s": rotated.until_s,
        "old_key": rotated.old_key.display().to_string(), "version": rotated.list.fields().version,
        "network": dir.join("network.pub").display().to_string(), "nodes": nodes, "issuers": issuers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::NodeAddr;
    use secure::{Authority, Keys, Mandate};

    #[test]
    fn members_of_an_issuer_are_said_to_renew_themselves_once() {
        let validity = Validity {
            not_before_s: 1_790_000_000,
            not_after_s: 1_800_000_000,
        };
        let mut authority = Authority::generate(&[1; 32]);
        let id = authority.network().id();
        let request = Keys::generate(&[2; 64]).request(id, NodeAddr(0x0a07_0001), "fra", &[]);
        let certificate = authority.issue(&request.unwrap(), validity).unwrap();
        let mandate = Mandate {
            addresses: (NodeAddr(0x0a07_0080), NodeAddr(0x0a07_0083)),
            certificates: 1,
            validity,
            lifetime_s: 60,
            names: "",
            domains: &[],
            groups: None,
            tags: &[],
        };
        let delegation = authority.delegate(&certificate, &mandate).unwrap();
        let again = |file: &str, renews: Option<&str>| Again {
            node: "fra".into(),
            file: file.into(),
            renews: renews.map(str::to_owned),
            delegation: delegation.clone(),
        };
        let list = authority.revocations(validity.not_before_s);
        authority
            .rotate(&[3; 32], validity.not_after_s, validity.not_before_s)
            .unwrap();
        let text = in_words(
            &Rotated {
                network: authority.network(),
                until_s: validity.not_after_s,
                list,
                old_key: "old".into(),
                certificates: Vec::new(),
                expired: Vec::new(),
                delegations: vec![
                    again("node.delegation", None),
                    again("renews-ams.delegation", Some("ams")),
                ],
                unwritten: Vec::new(),
            },
            None,
            "net",
        );
        let (mut own, mut other) = (0, 0);
        for line in text.lines() {
            own += usize::from(line.contains("its members renew themselves"));
            other += usize::from(
                line.starts_with("fra may renew members of ams: copy net/fra/renews-ams"),
            );
        }
        assert_eq!((own, other), (1, 1), "{text}");
    }
}
