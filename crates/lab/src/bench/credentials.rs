//! A separate network for each benchmark: a root key that is not kept, and nodes with names and addresses from one
//! small plan.

use super::BenchError;
use base::NodeAddr;
use secure::{Authority, Identity, Keys, Network, Validity};
use std::net::Ipv4Addr;

/// The network exists for minutes. Nodes warn 30 days before a certificate expires.
const VALID_S: u64 = 60 * 86_400;
/// Certificates stay valid on a machine whose clock is set back in the meantime.
const EARLY_S: u64 = 86_400;

/// The network and its authority.
pub(crate) struct Issuer {
    authority: Authority,
    validity: Validity,
}

impl Issuer {
    /// Creates a new network.
    pub(crate) fn new(unix_s: u64) -> Result<Issuer, BenchError> {
        Ok(Issuer {
            authority: Authority::generate(&net::sched::entropy()?),
            validity: Validity {
                not_before_s: unix_s.saturating_sub(EARLY_S),
                not_after_s: unix_s + VALID_S,
            },
        })
    }

    /// Returns the network as its nodes know it.
    pub(crate) fn network(&self) -> Network {
        self.authority.network()
    }

    /// Returns the keys and certificate of the `i`-th node.
    pub(crate) fn identity(&mut self, i: usize) -> Result<Identity, BenchError> {
        self.identity_of(&name(i), address(i))
    }

    /// Returns the keys and certificate of a node.
    pub(crate) fn identity_of(
        &mut self,
        name: &str,
        address: NodeAddr,
    ) -> Result<Identity, BenchError> {
        let start = |error: &dyn std::fmt::Display| BenchError::Start(error.to_string());
        let mut entropy = [0; 64];
        for half in entropy.chunks_mut(32) {
            half.copy_from_slice(&net::sched::entropy()?);
        }
        let keys = Keys::generate(&entropy);
        let id = self.authority.network().id();
        let request = keys
            .request(id, address, name, &[])
            .map_err(|e| start(&e))?;
        let certificate = self
            .authority
            .issue(&request, self.validity)
            .map_err(|e| start(&e))?;
        Identity::new(keys, certificate).map_err(|e| start(&e))
    }
}

/// Returns the overlay address of the `i`-th node, from 10.7.0.1 up.
pub(crate) fn address(i: usize) -> NodeAddr {
    NodeAddr(u32::from(Ipv4Addr::new(10, 7, 0, i as u8 + 1)))
}

/// Returns the name of the `i`-th node: `a`, `b`, …
pub(crate) fn name(i: usize) -> String {
    char::from(b'a' + (i % 26) as u8).to_string()
}
