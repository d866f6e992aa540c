//! What a node has in its directory.

use super::{Finding, configuration};
use crate::config::Config;
use crate::date::day;
use crate::identity;
use host::files::write_whole;
use secure::network::EXPIRY_NOTICE_S;
use secure::{CertificateError, Identity, Network};
use std::net::{TcpListener, ToSocketAddrs, UdpSocket};
use std::path::Path;

pub(super) fn look(dir: &Path, is_running: bool, findings: &mut Vec<Finding>) {
    let path = configuration(dir);
    let config = match Config::load(&path) {
        Ok(config) => config,
        Err(error) => {
            let next = "write what it expects; `sinew node --check` says so again";
            return findings.push(Finding::bad("configuration", error.to_string(), next));
        }
    };
    findings.push(Finding::good("configuration", path.display().to_string()));
    findings.push(certificate(&config));
    findings.push(disk(&config));
    if !is_running {
        findings.extend(ports(&config));
    }
    findings.extend(neighbors(&config));
}

fn certificate(config: &Config) -> Finding {
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
    let now_s = net::Clock::new().unix_s();
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
    match network.verify(own.certificate(), now_s) {
        Ok(_) if until_s.is_some() => Finding::weak(what, seen, renewed),
        Ok(_)
            if not_after_s.saturating_sub(now_s) > EXPIRY_NOTICE_S || config.renewal.is_some() =>
        {
            Finding::good(what, seen)
        }
        Ok(_) => Finding::weak(what, format!("{seen}: it ends soon"), renewed),
        Err(CertificateError::NotYetValid) => Finding::bad(
            what,
            format!("{seen}: it does not count yet"),
            "set this host's clock",
        ),
        Err(CertificateError::Expired | CertificateError::OldRoot) => {
            Finding::bad(what, format!("{seen}: it has ended"), renewed)
        }
        Err(why) => Finding::bad(what, why.to_string(), "join the network again"),
    }
}

/// The node keeps its certificate and the list of revocations.
fn disk(config: &Config) -> Finding {
    let dir = config.certificate.parent().unwrap_or(Path::new("."));
    let probe = dir.join("doctor.probe");
    let written = write_whole(&probe, "x", 0o600);
    let _ = std::fs::remove_file(&probe);
    match written {
        Ok(()) => Finding::good("disk", format!("{} takes files", dir.display())),
        Err(error) => Finding::bad(
            "disk",
            format!("{}: {error}", dir.display()),
            "make room, or let the node's user write there: a renewed certificate would be lost",
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

/// Names that no name server knows.
fn neighbors(config: &Config) -> Vec<Finding> {
    let endpoints = config
        .neighbors
        .iter()
        .flat_map(|neighbor| &neighbor.endpoints);
    let renewal = config.renewal.iter().flat_map(|renewal| &renewal.from);
    let mut unknown = Vec::new();
    let mut count = 0;
    for endpoint in endpoints.chain(renewal) {
        count += 1;
        if let Err(error) = endpoint.to_socket_addrs() {
            unknown.push(format!("{endpoint}: {error}"));
        }
    }
    match (unknown.is_empty(), count) {
        (true, 0) => vec![],
        (true, _) => vec![Finding::good(
            "names",
            format!("{count} endpoints are known"),
        )],
        (false, _) => unknown
            .into_iter()
            .map(|why| {
                Finding::bad(
                    "names",
                    why,
                    "see /etc/resolv.conf, or write its address instead",
                )
            })
            .collect(),
    }
}
