//! `net renew` and `net revoke`: what happens to a certificate after it was issued. Either can be
//! told to a running node at once.

use super::add::validity;
use super::directory::Directory;
use super::{Renew, Revoke};
use crate::control::Control;
use crate::date::day;
use crate::failure::{Failure, Outcome};
use crate::identity::write;
use crate::terminal;
use serde_json::json;

pub(super) fn run_renew(args: &Renew) -> Outcome {
    let mut directory = Directory::open(&args.dir)?;
    let entry = directory
        .register
        .node(&args.node)
        .cloned()
        .ok_or_else(|| unknown(&args.node))?;
    if entry.revoked {
        return Err(Failure::failed(format_args!(
            "{0} is revoked: to let it back in, `sinew net add` it again, with a new key",
            args.node
        )));
    }
    let old = directory.certificate(entry.serial)?;
    let renewed = directory
        .authority
        .renew(&old, validity(args.days))
        .map_err(Failure::failed)?;
    let (serial, not_after_s) = (renewed.fields().serial, renewed.fields().not_after_s);
    for node in directory
        .register
        .nodes
        .iter_mut()
        .filter(|node| node.name == args.node)
    {
        node.serial = serial;
    }
    directory.save()?;
    directory.keep(&renewed)?;
    let path = directory.node(&args.node).join("node.cert");
    write(&path, &renewed.to_text())?;
    // What follows may wait for a node; other commands need not.
    drop(directory);
    if let Some(socket) = &args.socket {
        let question = json!({"cmd": "renew", "certificate": renewed.to_text()});
        Control::connect(socket)?.ask(&question)?;
    }
    if args.json {
        return terminal::json(&json!({
            "name": args.node, "serial": serial, "not_after_s": not_after_s,
            "certificate": path.display().to_string(), "told": args.socket.is_some(),
        }));
    }
    let until = day(not_after_s);
    let next = match &args.socket {
        Some(_) => "the running node has it".to_owned(),
        None => format!(
            "give it to the running node with --node SOCKET, or copy {} to it and restart",
            path.display()
        ),
    };
    terminal::line(&format!(
        "{} has certificate {serial}, until {until}; {next}",
        args.node
    ))
}

pub(super) fn run_revoke(args: &Revoke) -> Outcome {
    let mut directory = Directory::open(&args.dir)?;
    if directory.register.node(&args.node).is_none() {
        return Err(unknown(&args.node));
    }
    let now_s = net::Clock::new().unix_s();
    let mut serials = Vec::new();
    // Certificates that were renewed count until they expire.
    for certificate in directory.certificates_of(&args.node)? {
        let fields = certificate.fields();
        if fields.not_after_s >= now_s {
            serials.push(fields.serial);
            directory
                .authority
                .revoke(&certificate, now_s)
                .map_err(Failure::failed)?;
        }
    }
    for node in directory
        .register
        .nodes
        .iter_mut()
        .filter(|node| node.name == args.node)
    {
        node.revoked = true;
    }
    serials.sort_unstable();
    let list = directory.authority.revocations(now_s);
    directory.save()?;
    directory.spread(&list)?;
    drop(directory);
    if let Some(socket) = &args.socket {
        Control::connect(socket)?.ask(&json!({"cmd": "revoke", "list": list.to_text()}))?;
    }
    let version = list.fields().version;
    if args.json {
        return terminal::json(&json!({
            "name": args.node, "serials": serials, "version": version,
            "list": args.dir.join("revocations").display().to_string(),
            "told": args.socket.is_some(),
        }));
    }
    let next = match &args.socket {
        Some(_) => "the running node has it and tells the others".to_owned(),
        None => format!(
            "give it to any running node: sinew net revoke {} {} --node SOCKET",
            args.dir.display(),
            args.node
        ),
    };
    terminal::line(&format!(
        "{} is revoked, list version {version}; {next}",
        args.node
    ))
}

fn unknown(name: &str) -> Failure {
    Failure::misused(format_args!(
        "no node `{name}` in this network: see `sinew net list`"
    ))
}
