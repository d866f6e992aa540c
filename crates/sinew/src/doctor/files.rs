//! Checks the files in a node's directory.

use super::clock::HostClock;
use super::{Finding, disk, names};
use crate::config::Config;
use crate::date::day;
use crate::identity;
use host::admission::ends_s;
use secure::network::{EXPIRY_NOTICE_S, notice_s};
use secure::{CertificateError, Delegation, Identity, Network};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;

pub(super) fn look(
    (path, config): (&Path, &Config),
    clock: HostClock,
    is_running: bool,
    findings: &mut Vec<Finding>,
) {
    findings.push(Finding::good("configuration", path.display().to_string()));
    findings.push(certificate(config, clock));
    findings.extend(delegations(config, clock));
    findings.extend(disk::look(config));
    if !is_running {
        findings.extend(ports(config));
    }
    findings.extend(names::configured(config));
}

fn certificate(config: &Config, clock: HostClock) -> Finding {
    let what = "certificate";
    let read = identity::identity(&config.key, &config.certificate).and_then(|own| {
        let certificate = Some(own.certificate());
        let network =
            identity::network(&config.network, config.revocations.as_deref(), certificate)?;
        Ok((own, network))
    });
    let (own, network): (Identity, Network) = match read {
        Ok(read) => read,
        Err(error) => {
            return Finding::bad(
                what,
                error.to_string(),
                "copy the node's files again, or join again",
            );
        }
    };
    let root = network.root_of(own.certificate());
    let until_s = root.and_then(|root| network.counts_until_s(root));
    let not_after_s = own.certificate().fields().not_after_s;
    let not_after_s = not_after_s.min(until_s.unwrap_or(u64::MAX));
    let of_root = match (root, until_s) {
        (Some(root), Some(_)) => {
            format!(
                ", by root key {root}, which root key {} replaced",
                network.root_number()
            )
        }
        _ => String::new(),
    };
    let seen = format!(
        "{} is {}, until {}{of_root}",
        own.name(),
        own.address(),
        day(not_after_s)
    );
    let renewed = match config.renewal {
        Some(_) => {
            "the node renews it while it counts, and its log says why not; one that has ended needs a new \
             token: `sinew join TOKEN --dir DIR`"
        }
        None => "run `sinew net renew` where the root key is",
    };
    let now_s = clock.now_s;
    match network.verify(own.certificate(), now_s) {
        Ok(_) if until_s.is_some() => Finding::weak(what, seen, renewed),
        Ok(_) if not_after_s.saturating_sub(now_s) > notice_s(own.certificate()) => {
            Finding::good(what, seen)
        }
        Ok(_) => Finding::weak(what, format!("{seen}: it ends soon"), renewed),
        Err(CertificateError::NotYetValid) => Finding::bad(
            what,
            format!("{seen}: it does not count yet"),
            "set this host's clock first: see above",
        ),
        Err(CertificateError::Expired | CertificateError::OldRoot) => {
            let next = match clock.may_be_ahead() {
                true => format!("check the clock first, see above. If it is right: {renewed}"),
                false => renewed.to_owned(),
            };
            Finding::bad(what, format!("{seen}: it has ended"), next)
        }
        Err(why) => Finding::bad(what, why.to_string(), "join the network again"),
    }
}

/// Checks the delegations of an issuer. Returns nothing for other nodes.
fn delegations(config: &Config, clock: HostClock) -> Vec<Finding> {
    let Some(issuer) = &config.issuer else {
        return Vec::new();
    };
    let mut findings = vec![delegation(config, &issuer.delegation, false, clock)];
    let renews = issuer.renews.iter();
    findings.extend(renews.map(|file| delegation(config, file, true, clock)));
    findings
}

/// Checks a delegation of the issuer: its own, or one by which it only renews certificates of another issuer.
fn delegation(config: &Config, file: &Path, is_for_other: bool, clock: HostClock) -> Finding {
    let what = "delegation";
    let (may, next, ended) = match is_for_other {
        true => (
            "may renew members of another issuer",
            "run `sinew net delegate DIR NODE --renews ISSUER` where the root key is, copy renews-ISSUER.delegation here, and \
             restart the node",
            "this issuer renews none of those members",
        ),
        false => (
            "may certify",
            "run `sinew net delegate DIR NODE` where the root key is, copy node.delegation here, and restart the node",
            "this issuer invites nobody and renews nothing",
        ),
    };
    let read = identity::read_as(file, Delegation::from_text).and_then(|delegation| {
        let network = identity::network(&config.network, config.revocations.as_deref(), None)?;
        Ok((delegation, network))
    });
    let (delegation, network) = match read {
        Ok(read) => read,
        Err(error) => return Finding::bad(what, error.to_string(), next),
    };
    let ends_s = ends_s(&delegation, &network);
    let seen = format!("{may} until {}", day(ends_s));
    match ends_s.checked_sub(clock.now_s) {
        Some(left_s) if left_s > EXPIRY_NOTICE_S => Finding::good(what, seen),
        Some(_) => Finding::weak(
            what,
            format!("{seen}: that is soon, and no certificate that it signs lasts longer"),
            next,
        ),
        None => Finding::bad(
            what,
            format!("{seen}: it has ended, so {ended}"),
            match clock.may_be_ahead() {
                true => format!("check the clock first, see above. If it is right: {next}"),
                false => next.to_owned(),
            },
        ),
    }
}

fn ports(config: &Config) -> Vec<Finding> {
    let tcp = config.relay.listen.as_ref().unwrap_or(&config.listen);
    let udp = config.listen.iter().map(|at| {
        let bound = UdpSocket::bind(at).map(drop);
        bound.map_err(|error| format!("UDP {at}: {error}"))
    });
    let tcp = tcp.iter().map(|at| {
        let bound = TcpListener::bind(at).map(drop);
        bound.map_err(|error| format!("TCP {at}: {error}"))
    });
    let failed: Vec<String> = udp.chain(tcp).filter_map(Result::err).collect();
    match failed.is_empty() {
        true => vec![Finding::good("ports", "free; the node is not running")],
        false => failed
            .into_iter()
            .map(|why| {
                let next =
                    "end the program that has it (`ss -lnup`, `ss -lntp`), or change `listen`";
                Finding::bad("ports", why, next)
            })
            .collect(),
    }
}
