//! What is looked at before a node starts: what is wrong here does not mend by waiting, so a
//! service manager need not try again (exit status 2).

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

/// Who the node is, and of which network.
pub(super) fn credentials(config: &Config) -> Result<(Identity, Network), Failure> {
    let identity = identity::identity(&config.key, &config.certificate);
    let identity = identity.map_err(Failure::misused)?;
    let own = Some(identity.certificate());
    let network = identity::network(&config.network, config.revocations.as_deref(), own);
    let network = network.map_err(Failure::misused)?;
    Ok((identity, network))
}

/// Fails for a certificate that can never count here, and says loudly of one that does not now.
pub(super) fn check_certificate(
    identity: &Identity,
    network: &Network,
    clock: Clock,
    lines: &Lines,
) -> Outcome {
    match network.verify(identity.certificate(), clock.unix_s()) {
        Ok(_) => Ok(()),
        // It may be renewed while the node runs, or the clock be set.
        Err(
            why @ (CertificateError::Expired
            | CertificateError::NotYetValid
            | CertificateError::OldRoot),
        ) => {
            // A clock that is wrong by a year looks like a certificate that has ended, or has not begun.
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

/// Fails for a node that is to be its own neighbour.
pub(super) fn check_neighbors(path: &Path, config: &Config, identity: &Identity) -> Outcome {
    let mut neighbors = config.neighbors.iter();
    match neighbors.find(|n| n.address == identity.address()) {
        None => Ok(()),
        Some(own) => Err(Failure::misused(format_args!(
            "{}, line {}: neighbor `{}` has this node's own address {}",
            path.display(),
            own.line,
            own.name,
            own.address
        ))),
    }
}

/// Fails for a node that runs already.
pub(super) fn check_alone(config: &Config) -> Outcome {
    let Some(path) = &config.control_socket else {
        return Ok(());
    };
    // What else may be in the way is told where the socket is opened.
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

/// A loop that could not be opened: an address or a file that cannot be had, or the kernel.
pub(super) fn not_opened(error: HostError) -> Failure {
    match error {
        HostError::Io(_) => Failure::failed(error),
        HostError::Listen { .. } | HostError::ClientSocket(_) => Failure::misused(error),
    }
}
