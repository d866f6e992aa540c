//! `net delegate --renews`: lets an issuer renew certificates of another issuer.
//!
//! The new delegation has the addresses and the limits of the other issuer, and its own serials. The node decides which
//! members it renews by it, and when (`host::admission`).

use super::Delegate;
use super::add::validity;
use super::delegate::CERTIFICATES;
use super::directory::Directory;
use super::register::Delegated;
use super::renew::present;
use crate::date::day;
use crate::failure::{Failure, Outcome};
use crate::identity::{read, write};
use crate::terminal;
use secure::{Certificate, Delegation, Mandate};
use serde_json::json;
use std::path::Path;
use wire::relay::join::ISSUERS_MAX;

/// Returns the name of the file with a delegation for the members of this issuer.
pub(super) fn file_for(issuer: &str) -> String {
    format!("renews-{issuer}.delegation")
}

pub(super) fn run(args: &Delegate, issuer: &str) -> Outcome {
    let mut directory = Directory::open(&args.dir)?;
    let (delegation, certificate) = delegate(&mut directory, args, issuer)?;
    let dir = directory.node(&args.node);
    let file = dir.join(file_for(issuer));
    write(&file, &delegation.to_text())?;
    let configured = configure(&dir.join("node.toml"), &file_for(issuer))?;
    let is_configured = configured.is_some();
    let endpoints = match configured {
        Some(endpoints) => endpoints,
        None => present(&directory, &args.node)?.endpoints,
    };
    let fields = delegation.fields();
    let key = key_text(&certificate);
    if args.json {
        let (first, last) = fields.addresses;
        return terminal::json(&json!({
            "node": args.node, "renews": issuer, "serial": fields.serial, "first": first.to_string(),
            "last": last.to_string(), "not_after_s": fields.not_after_s, "lifetime_s": fields.lifetime_s,
            "delegation": file.display().to_string(), "from": endpoints, "key": key,
        }));
    }
    let dir = args.dir.display();
    let told = tell(&directory.node(issuer).join("node.toml"), &endpoints, &key)?;
    let told = match told {
        true => format!(
            "copy {dir}/{issuer}/node.toml to {issuer}, and restart it: then it tells its members"
        ),
        false => format!(
            "write this into the node.toml of {issuer}, and restart it: then it tells its members\n\n\
             [[issuer.renewed_by]]\nfrom = {endpoints:?}\nkey = \"{key}\""
        ),
    };
    let (node, name, file) = (&args.node, file_for(issuer), file.display());
    let configured = match is_configured {
        true => format!("copy {file} and node.toml to {node}, and restart it"),
        false => format!(
            "copy {file} to {node}, write `renews = [\"{name}\"]` below `[issuer]` in its node.toml, and restart it"
        ),
    };
    terminal::line(&format!(
        "{node} may renew what {issuer} has certified until {}\n{configured}\n{told}",
        day(fields.not_after_s),
    ))
}

/// Makes the delegation, and returns it with the certificate of the node that gets it.
fn delegate(
    directory: &mut Directory,
    args: &Delegate,
    issuer: &str,
) -> Result<(Delegation, Certificate), Failure> {
    let (node, other) = (present(directory, &args.node)?, present(directory, issuer)?);
    if node.name == other.name {
        return Err(Failure::misused(format_args!(
            "{issuer} renews what it has issued itself: name another issuer by --renews"
        )));
    }
    let newest = |name: &str| {
        directory.register.delegated(name).ok_or_else(|| {
            let dir = args.dir.display();
            Failure::misused(format_args!(
                "{name} is no issuer: `sinew net delegate {dir} {name}` makes it one"
            ))
        })
    };
    newest(&node.name)?;
    let before = directory.delegation(newest(&other.name)?.serial)?;
    let certificate = directory.certificate(node.serial)?;
    check_room(
        &directory.node(issuer).join("node.toml"),
        &key_text(&certificate),
    )?;
    let fields = before.fields();
    // The words contain the limits on rights and the tags.
    let domains: Vec<&str> = fields.domains.iter().collect();
    let mandate = Mandate {
        addresses: fields.addresses,
        certificates: CERTIFICATES,
        validity: validity(args.days),
        lifetime_s: fields.lifetime_s,
        names: fields.names,
        domains: &domains,
        groups: None,
        tags: &[],
    };
    let delegation = directory.authority.delegate(&certificate, &mandate);
    let delegation = delegation.map_err(Failure::misused)?;
    let made = delegation.fields();
    directory.register.delegations.push(Delegated {
        node: node.name,
        serial: made.serial,
        first: made.addresses.0,
        last: made.addresses.1,
        not_after_s: made.not_after_s,
        renews: Some(other.name),
    });
    directory.save()?;
    directory.keep_delegation(&delegation)?;
    Ok((delegation, certificate))
}

/// Fails if the configuration of an issuer already names as many other issuers as a node accepts, and this one is not
/// among them.
fn check_room(config: &Path, key: &str) -> Outcome {
    if !config.exists() {
        return Ok(());
    }
    let document: toml_edit::DocumentMut = read(config)?.parse().map_err(Failure::failed)?;
    let issuer = document.get("issuer");
    let told = issuer.and_then(|issuer| issuer.get("renewed_by"));
    let told = told.and_then(toml_edit::Item::as_array_of_tables);
    let others = told.into_iter().flatten().filter(|it| !has_key(it, key));
    match others.count() < ISSUERS_MAX {
        true => Ok(()),
        false => Err(Failure::misused(format_args!(
            "{} names {ISSUERS_MAX} issuers in `[[issuer.renewed_by]]`, as many as a node takes: remove one there, and run \
             this again",
            config.display()
        ))),
    }
}

fn has_key(other: &toml_edit::Table, key: &str) -> bool {
    other.get("key").and_then(toml_edit::Item::as_str) == Some(key)
}

/// Formats the signing key as in configurations.
fn key_text(certificate: &Certificate) -> String {
    let key = certificate.fields().subject.signing_key;
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Adds the renewing node to the configuration of the issuer. Returns false if that is not in this directory.
fn tell(config: &Path, from: &[String], key: &str) -> Result<bool, Failure> {
    if !config.exists() {
        return Ok(false);
    }
    let mut document: toml_edit::DocumentMut = read(config)?.parse().map_err(Failure::failed)?;
    let Some(issuer) = document.get_mut("issuer") else {
        return Ok(false);
    };
    let told = issuer["renewed_by"].or_insert(toml_edit::ArrayOfTables::new().into());
    let Some(told) = told.as_array_of_tables_mut() else {
        return Ok(false);
    };
    told.retain(|other| !has_key(other, key));
    let mut other = toml_edit::Table::new();
    other["from"] = toml_edit::value(toml_edit::Array::from_iter(from.iter().map(String::as_str)));
    other["key"] = toml_edit::value(key);
    told.push(other);
    write(config, &document.to_string())?;
    Ok(true)
}

/// Adds the file to the node's configuration, and returns the endpoints there; `None` if the configuration is not in
/// this directory.
fn configure(config: &Path, file: &str) -> Result<Option<Vec<String>>, Failure> {
    if !config.exists() {
        return Ok(None);
    }
    let mut document: toml_edit::DocumentMut = read(config)?.parse().map_err(Failure::failed)?;
    // The configuration is older than the delegation: `net delegate` writes the section.
    let Some(issuer) = document.get_mut("issuer") else {
        return Ok(None);
    };
    let texts = |item: &toml_edit::Item| -> Vec<String> {
        let all = item.as_array().into_iter().flatten();
        all.filter_map(|it| it.as_str().map(str::to_owned))
            .collect()
    };
    let listed = |key: &str| issuer.get(key).map_or_else(Vec::new, texts);
    let (endpoints, mut renews) = (listed("endpoints"), listed("renews"));
    if !renews.iter().any(|known| known == file) {
        renews.push(file.to_owned());
        issuer["renews"] = toml_edit::value(toml_edit::Array::from_iter(renews));
        write(config, &document.to_string())?;
    }
    Ok(Some(endpoints))
}
