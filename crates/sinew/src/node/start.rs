//! Checks before a node starts. An error that these checks find does not go away with time, so a service manager need
//! not try again (exit status 2).

use crate::config::Config;
use crate::control::Control;
use crate::failure::{Failure, Outcome};
use crate::identity;
use crate::show::text;
use host::HostError;
use host::log::Lines;
use net::clock::Clock;
use secure::{CertificateError, Identity, Network};
use std::path::Path;

/// Reads the node's identity and its network.
pub(super) fn credentials(config: &Config) -> Result<(Identity, Network), Failure> {
    let identity = identity::identity(&config.key, &config.certificate);
    let identity = identity.map_err(Failure::misused)?;
    let own = Some(identity.certificate());
    let network = identity::network(&config.network, config.revocations.as_deref(), own);
    let network = network.map_err(Failure::misused)?;
    Ok((identity, network))
}

/// Fails for a certificate that can never be valid here. Logs an error for one that is not valid now.
pub(super) fn check_certificate(
    identity: &Identity,
    network: &Network,
    clock: Clock,
    lines: &Lines,
) -> Outcome {
    match network.verify(identity.certificate(), clock.unix_s()) {
        Ok(_) => Ok(()),
        // The operator may renew the certificate or set the clock while the node runs.
        Err(
            why @ (CertificateError::Expired
            | CertificateError::NotYetValid
            | CertificateError::OldRoot),
        ) => {
            // With a clock that is wrong by a year, a certificate seems to have expired, or not to be valid yet.
            let today = crate::date::day(clock.unix_s());
            lines.error(&format!(
                "NO NEIGHBOR WILL TALK TO THIS NODE: {why} (by this host's clock it is {today})"
            ));
            Ok(())
        }
        Err(why) => Err(Failure::misused(format_args!(
            "this node's own certificate: {why}"
        ))),
    }
}

/// Fails if the node is listed as its own neighbour.
pub(super) fn check_neighbors(path: &Path, config: &Config, identity: &Identity) -> Outcome {
    let mut neighbors = config.neighbors.iter();
    match neighbors.find(|n| n.address == identity.address()) {
        None => Ok(()),
        Some(own) => Err(Failure::misused(format_args!(
            "{}, line {}: neighbour `{}` has this node's own address {}",
            path.display(),
            own.line,
            own.name,
            own.address
        ))),
    }
}

/// Fails if the node runs already.
pub(super) fn check_alone(config: &Config) -> Outcome {
    let Some(path) = &config.control_socket else {
        return Ok(());
    };
    // Opening the socket reports any other obstacle.
    let Ok(status) = Control::connect(path).and_then(|mut control| control.status()) else {
        return Ok(());
    };
    let name = text(&status["snapshot"]["name"]);
    let pid = match status["host"]["pid"].as_u64() {
        Some(pid) => format!(" (pid {pid})"),
        None => String::new(),
    };
    Err(Failure::misused(format_args!(
        "{name} already runs{pid} and answers at {}: stop it first",
        path.display()
    )))
}

/// Converts the error of a loop that could not be opened: an address or a file is not available, or the kernel refused.
pub(super) fn not_opened(error: HostError) -> Failure {
    match error {
        HostError::Io(_) => Failure::failed(error),
        HostError::Listen { .. } | HostError::ClientSocket(_) => Failure::misused(error),
    }
}
