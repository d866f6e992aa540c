//! `net delegate`: lets a node certify others, within the limits that the root key signs here.

use super::Delegate;
use super::add::validity;
use super::configuration::{check_endpoint, issuer};
use super::directory::Directory;
use super::register::Delegated;
use super::renew::present;
use super::renews;
use super::rights::ranges;
use crate::date::day;
use crate::failure::{Failure, Outcome};
use crate::identity::{read, write};
use crate::terminal;
use secure::{Delegation, Mandate};
use serde_json::json;
use std::path::Path;

/// Most certificates that one delegation may sign. Choice: a thousand nodes, renewed every twenty days for three years.
pub(super) const CERTIFICATES: u32 = 65_536;

/// The result of `net delegate`.
pub(crate) struct Made {
    delegation: Delegation,
    /// The node's configuration is in this directory and names the delegation.
    is_configured: bool,
    /// Other issuers that renew the node's members by earlier delegations.
    renewed_by: Vec<String>,
}

pub(super) fn run(args: &Delegate) -> Outcome {
    if let Some(issuer) = &args.renews {
        return renews::run(args, issuer);
    }
    let Made {
        delegation,
        is_configured,
        renewed_by,
    } = delegate(args)?;
    let fields = delegation.fields();
    let (first, last) = fields.addresses;
    let dir = args.dir.join(&args.node);
    if args.json {
        return terminal::json(&json!({
            "node": args.node, "serial": fields.serial, "first": first.to_string(),
            "last": last.to_string(), "not_after_s": fields.not_after_s,
            "lifetime_s": fields.lifetime_s, "names": fields.names,
            "domains": fields.domains.iter().filter(|it| fields.permits(it)).collect::<Vec<_>>(),
            "may_set_groups": fields.bound().map(|bound| bound.ranges().iter().map(ToString::to_string).collect::<Vec<_>>()),
            "tags": fields.tags().collect::<Vec<_>>(),
            "delegation": dir.join("node.delegation").display().to_string(),
            "renewed_by": renewed_by,
        }));
    }
    let dir = dir.display();
    let configured = match is_configured {
        true => format!(
            "{dir}/node.toml has `[issuer]` now: start {} again",
            args.node
        ),
        false => format!("copy {dir}/node.delegation and node.toml to {}", args.node),
    };
    let mut text = format!(
        "{} may certify {first} to {last} until {}\n{configured}\ninvite with: sinew invite {dir}",
        args.node,
        day(fields.not_after_s)
    );
    // The new serials of this issuer are higher than those of the other delegations, and nodes accept no lower serial.
    for other in &renewed_by {
        let (dir, node) = (args.dir.display(), &args.node);
        text += &format!(
            "\n{other} can renew its new certificates only after: sinew net delegate {dir} {other} --renews {node}"
        );
    }
    terminal::line(&text)
}

/// Makes the delegation and writes it into the node's directory.
pub(crate) fn delegate(args: &Delegate) -> Result<Made, Failure> {
    let mut directory = Directory::open(&args.dir)?;
    let entry = present(&directory, &args.node)?;
    let endpoints = match args.endpoints.is_empty() {
        true => entry.endpoints.clone(),
        false => args.endpoints.clone(),
    };
    if endpoints.is_empty() {
        return Err(Failure::misused(format_args!(
            "invited hosts could not reach {}: give it an address, or name one by --endpoint",
            args.node
        )));
    }
    endpoints
        .iter()
        .try_for_each(|endpoint| check_endpoint(endpoint))?;
    // A node with an earlier delegation keeps the addresses of that one.
    let addresses = match directory.register.delegated(&args.node) {
        Some(given) => (given.first, given.last),
        None => directory.register.free_block().ok_or_else(|| {
            Failure::failed(format_args!(
                "no addresses are left for an issuer in {}",
                directory.register.prefix
            ))
        })?,
    };
    let validity = validity(args.days);
    let domains: Vec<&str> = args.domains.iter().map(String::as_str).collect();
    let groups = ranges(&args.groups)?.unwrap_or_default();
    let tags: Vec<&str> = args.tags.iter().map(String::as_str).collect();
    let mandate = Mandate {
        addresses,
        certificates: CERTIFICATES,
        validity,
        lifetime_s: args.lifetime.saturating_mul(86_400),
        names: &args.names,
        domains: &domains,
        groups: Some(&groups),
        tags: &tags,
    };
    let certificate = directory.certificate(entry.serial)?;
    let delegation = directory.authority.delegate(&certificate, &mandate);
    let delegation = delegation.map_err(Failure::misused)?;
    directory.register.delegations.push(Delegated {
        node: args.node.clone(),
        serial: delegation.fields().serial,
        first: addresses.0,
        last: addresses.1,
        not_after_s: validity.not_after_s,
        renews: None,
    });
    let renewing = directory.register.renewing();
    let renewed_by = renewing
        .iter()
        .filter(|it| it.renews.as_ref() == Some(&args.node))
        .map(|it| it.node.clone())
        .collect();
    directory.save()?;
    directory.keep_delegation(&delegation)?;
    let dir = directory.node(&args.node);
    write(&dir.join("node.delegation"), &delegation.to_text())?;
    let is_configured = configure(&dir.join("node.toml"), endpoints)?;
    Ok(Made {
        delegation,
        is_configured,
        renewed_by,
    })
}

/// Adds the issuer's section to the node's configuration. Returns false if the configuration is not in this directory.
fn configure(config: &Path, endpoints: Vec<String>) -> Result<bool, Failure> {
    if !config.exists() {
        return Ok(false);
    }
    let text = read(config)?;
    if !text.lines().any(|line| line.trim() == "[issuer]") {
        write(config, &(text + &issuer(&endpoints)))?;
        return Ok(true);
    }
    let mut document: toml_edit::DocumentMut = text.parse().map_err(Failure::failed)?;
    let endpoints: toml_edit::Array = endpoints.into_iter().collect();
    document["issuer"]["endpoints"] = toml_edit::value(endpoints);
    write(config, &document.to_string())?;
    Ok(true)
}
