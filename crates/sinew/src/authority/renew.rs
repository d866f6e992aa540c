//! `net renew` and `net revoke`: changes to a certificate after it was issued. Both can send the result to a running
//! node at once. If the node does not accept it, the result is still in the directory. The command then reports it as
//! not delivered, and delivers it when it is run again.

use super::add::validity;
use super::directory::Directory;
use super::register::{Delegated, Entry};
use super::{Renew, Revoke};
use crate::control::{self, Control};
use crate::date::day;
use crate::failure::{Failure, Outcome};
use crate::identity::{read_as, write};
use crate::show::text;
use crate::terminal;
use secure::{Certificate, Network};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

pub(super) fn run_renew(args: &Renew) -> Outcome {
    let mut directory = Directory::open(&args.dir)?;
    let entry = present(&directory, &args.node)?;
    // This comes first, so that no serial is used for a certificate that no node takes.
    let control = holder(args.socket.as_deref(), &entry)?;
    let old = directory.certificate(entry.serial)?;
    let renewed = directory
        .authority
        .renew(&old, validity(args.days))
        .map_err(Failure::failed)?;
    let path = replace(&mut directory, &entry.name, &renewed)?;
    let network = directory.authority.network();
    // The next step may wait for a node. Other commands need not wait for it.
    drop(directory);
    let told = control.map(|control| hand_over(control, &network, &renewed));
    let (serial, not_after_s) = (renewed.fields().serial, renewed.fields().not_after_s);
    let answer = json!({
        "name": args.node, "serial": serial, "not_after_s": not_after_s,
        "certificate": path.display().to_string(),
    });
    let done = format!(
        "{} has certificate {serial}, until {}",
        args.node,
        day(not_after_s)
    );
    let otherwise = format!(
        "give it to the running node with --node SOCKET, or copy {} to it and restart",
        path.display()
    );
    tell(
        args.json,
        answer,
        &done,
        "the running node has it",
        &otherwise,
        told,
    )
}

pub(super) fn run_revoke(args: &Revoke) -> Outcome {
    let mut directory = Directory::open(&args.dir)?;
    let members = match &args.certificate {
        Some(path) => Some(certificates_in(path, &args.node)?),
        None if directory.register.node(&args.node).is_none() => {
            return Err(unknown(&args.node));
        }
        None => None,
    };
    let socket = match args
        .socket
        .as_deref()
        .map(|given| control::socket(Some(given)))
    {
        // A wrong name is an error now. That no node runs does not stop the command.
        Some(Err(why @ Failure::Misused(_))) => return Err(why),
        socket => socket,
    };
    let now_s = net::Clock::new().unix_s();
    let mut serials = Vec::new();
    // Old certificates stay valid until they expire, even if they were renewed.
    let is_registered = members.is_none();
    let certificates = match members {
        Some(certificates) => certificates,
        None => directory.certificates_of(&args.node)?,
    };
    for certificate in certificates {
        let fields = certificate.fields();
        if fields.not_after_s >= now_s {
            serials.push(fields.serial);
            directory
                .authority
                .revoke(&certificate, now_s)
                .map_err(Failure::failed)?;
        }
    }
    // The holder of an issuer's key could certify others. So everything that the issuer has certified becomes invalid,
    // and also what another issuer has renewed of that, because the other issuer cannot tell it from certificates of
    // the true issuer.
    let delegations = directory.register.delegations.clone();
    let is_its =
        |given: &Delegated| given.node == args.node || given.renews.as_ref() == Some(&args.node);
    for given in delegations
        .iter()
        .filter(|given| is_registered && is_its(given))
    {
        let delegation = directory.delegation(given.serial)?;
        serials.push(given.serial);
        directory
            .authority
            .revoke_delegation(&delegation, now_s)
            .map_err(Failure::failed)?;
    }
    for node in directory
        .register
        .nodes
        .iter_mut()
        .filter(|node| is_registered && node.name == args.node)
    {
        node.revoked = true;
    }
    serials.sort_unstable();
    let list = directory.authority.revocations(now_s);
    directory.save()?;
    directory.spread(&list)?;
    let network = directory.authority.network();
    drop(directory);
    let told = socket.map(|socket| {
        let mut control = Control::connect(&socket?)?;
        bring_roots(&mut control, &network)?;
        let question = json!({"cmd": "revoke", "list": list.to_text()});
        control.ask(&question).map(drop)
    });
    let version = list.fields().version;
    let answer = json!({
        "name": args.node, "serials": serials, "version": version,
        "list": args.dir.join("revocations").display().to_string(),
    });
    let done = format!("{} is revoked, list version {version}", args.node);
    let otherwise = format!(
        "its links stay until a running node has the list: run `sinew net revoke {} {} --node SOCKET`, \
         or copy {}/revocations to a running node and send it SIGHUP",
        args.dir.display(),
        args.node,
        args.dir.display()
    );
    let told_so = "the running node has it and tells the others";
    tell(args.json, answer, &done, told_so, &otherwise, told)
}

/// Reads the certificates of a node that an issuer has certified: all in one file, one after the other.
fn certificates_in(path: &Path, name: &str) -> Result<Vec<Certificate>, Failure> {
    let blocks = |text: &str| {
        let begins = format!("-----BEGIN {}-----", Certificate::LABEL);
        let each = text.split(&begins).skip(1);
        let each: Result<Vec<_>, _> = each
            .map(|rest| Certificate::from_text(&format!("{begins}{rest}")))
            .collect();
        match each {
            Ok(found) if found.is_empty() => Certificate::from_text(text).map(|one| vec![one]),
            other => other,
        }
    };
    let certificates = read_as(path, blocks)?;
    let other = certificates
        .iter()
        .find(|it| it.fields().subject.name != name);
    match other {
        None => Ok(certificates),
        Some(other) => Err(Failure::misused(format_args!(
            "{} has a certificate of `{}`, not of `{name}`",
            path.display(),
            other.fields().subject.name
        ))),
    }
}

/// Returns a node of the register that is not revoked.
pub(super) fn present(directory: &Directory, name: &str) -> Result<Entry, Failure> {
    let entry = directory.register.node(name).cloned();
    let entry = entry.ok_or_else(|| unknown(name))?;
    if entry.revoked {
        return Err(Failure::misused(format_args!(
            "{name} is revoked: to let it back in, `sinew net add` it again, with a new key"
        )));
    }
    Ok(entry)
}

/// Connects to the running node that shall get a certificate, if `socket` names one. Fails if it is not the node of
/// `entry`.
pub(super) fn holder(socket: Option<&Path>, entry: &Entry) -> Result<Option<Control>, Failure> {
    let Some(socket) = socket else {
        return Ok(None);
    };
    let mut control = Control::find(Some(socket))?;
    let status = control.status()?;
    let (address, name) = (&status["snapshot"]["address"], &status["snapshot"]["name"]);
    if *address != entry.address.to_string() {
        return Err(Failure::misused(format_args!(
            "--node: {} runs at {}, and the certificate is for {}: name that node's directory or \
             socket",
            text(name),
            control.at(),
            entry.name
        )));
    }
    Ok(Some(control))
}

/// Replaces a node's certificate by a new one, and returns the path of its file.
pub(super) fn replace(
    directory: &mut Directory,
    name: &str,
    certificate: &Certificate,
) -> Result<PathBuf, Failure> {
    let nodes = directory.register.nodes.iter_mut();
    for node in nodes.filter(|node| node.name == name) {
        node.serial = certificate.fields().serial;
    }
    directory.save_key()?;
    directory.keep(certificate)?;
    directory.save_register()?;
    let path = directory.node(name).join("node.cert");
    write(&path, &certificate.to_text())?;
    // An earlier rotation may have failed to write these files.
    directory.hand_public(name)?;
    Ok(path)
}

/// Sends a certificate to the node that uses it.
pub(super) fn hand_over(
    mut control: Control,
    network: &Network,
    certificate: &Certificate,
) -> Outcome {
    bring_roots(&mut control, network)?;
    let question = json!({"cmd": "renew", "certificate": certificate.to_text()});
    control.ask(&question).map(drop)
}

/// Sends a node the root keys that it needs to check the next message. The node may have them already. A network that
/// was never rotated has none to send, and earlier versions of the node do not know the request.
fn bring_roots(control: &mut Control, network: &Network) -> Outcome {
    if network.successions().is_empty() {
        return Ok(());
    }
    let question = json!({"cmd": "succeed", "network": network.to_text()});
    control.ask(&question).map(drop)
}

/// Prints what was done and whether a running node has accepted it. `told` is `None` if the user named no node.
pub(super) fn tell(
    as_json: bool,
    mut answer: Value,
    done: &str,
    told_so: &str,
    otherwise: &str,
    told: Option<Outcome>,
) -> Outcome {
    let failed = match &told {
        Some(Err(why)) => Some(why.text().to_owned()),
        _ => None,
    };
    if as_json {
        answer["told"] = json!(matches!(told, Some(Ok(()))));
        answer["not_told_because"] = json!(failed);
        terminal::json(&answer)?;
    } else if failed.is_none() {
        terminal::line(&match told {
            Some(_) => format!("{done}; {told_so}"),
            None => format!("{done}; registered, NOT delivered: {otherwise}"),
        })?;
    }
    match failed {
        None => Ok(()),
        Some(why) => Err(Failure::Undelivered(format!(
            "{done}; registered, NOT delivered: {why}. Run this again when the node answers; {otherwise}"
        ))),
    }
}

fn unknown(name: &str) -> Failure {
    Failure::misused(format_args!(
        "no node `{name}` in this network: see `sinew net list`; one that an issuer has certified is \
         named with `--certificate`"
    ))
}
