//! A simulated network's members: keys and certificates drawn from a seed, and the configuration of each node.

mod memo;

use base::{NodeAddr, Rng};
use overlay::{Config, Neighbor, Settings};
use secure::{Authority, Changes, Identity, Keys, Network, Validity};
use std::sync::Arc;

/// Wall time at a world's beginning: any fixed value is possible.
pub(crate) const UNIX_START_S: u64 = 1_800_000_000;
/// Certificates are valid for as long as a world can last: a year.
pub(crate) const VALIDITY: Validity = Validity {
    not_before_s: 0,
    not_after_s: UNIX_START_S + 365 * 86_400,
};

/// The members of a network. Equal generators make equal members.
pub(crate) struct Members {
    authority: Authority,
    network: Network,
    identities: Vec<Identity>,
}

impl Members {
    /// Creates a network whose members share the results of signature checks. Without `sealing`, the network has no
    /// secrets.
    pub(crate) fn new(rng: &mut Rng, sealing: bool) -> Members {
        let mut root = [0; 32];
        rng.fill(&mut root);
        let authority = Authority::generate(&root);
        let network = if sealing {
            let memo = Arc::new(memo::Shared::default());
            authority.network().with_memo(memo)
        } else {
            authority.network().unsealed()
        };
        Members {
            authority,
            network,
            identities: Vec::new(),
        }
    }

    /// Adds a node; panics if its name or address is taken or cannot be certified.
    pub(crate) fn add(&mut self, rng: &mut Rng, name: &str, address: NodeAddr) {
        let mut entropy = [0; 64];
        rng.fill(&mut entropy);
        let keys = Keys::generate(&entropy);
        let request = keys.request(self.network.id(), address, name, &[]);
        let request = request.expect("the node's name and address can be certified");
        let certificate = self.authority.issue(&request, VALIDITY);
        let certificate = certificate.expect("no two nodes have one name or address");
        let identity = Identity::new(keys, certificate);
        self.identities
            .push(identity.expect("the certificate was issued for these keys"));
    }

    /// Takes the right to set groups from the `i`-th node: its certificate excludes it from now on.
    pub(crate) fn disentitle(&mut self, i: usize) {
        let identity = &self.identities[i];
        let certificate = identity.certificate();
        let changes = Changes {
            groups: Some(&[]),
            ..Changes::default()
        };
        let renewed = self.authority.renew_for(certificate, &changes, VALIDITY);
        let renewed = renewed.expect("this authority has signed it before");
        let keys = identity.keys().clone();
        self.identities[i] = Identity::new(keys, renewed).expect("it is for the same keys");
    }

    /// Returns the keys and certificate of the `i`-th node.
    pub(crate) fn identity(&self, i: usize) -> &Identity {
        &self.identities[i]
    }

    /// Returns the network as its members know it.
    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    /// Returns the configuration of the `i`-th node for a start that draws its entropy from `rng`.
    pub(crate) fn config(
        &self,
        i: usize,
        mut rng: Rng,
        neighbors: Vec<Neighbor>,
        settings: Settings,
    ) -> Config {
        let mut seed = [0; 32];
        rng.fill(&mut seed);
        Config {
            identity: self.identities[i].clone(),
            network: self.network.clone(),
            neighbors,
            accept: None,
            settings,
            lab: true,
            seed,
            unix_start_s: UNIX_START_S,
        }
    }
}
