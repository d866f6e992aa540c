//! Which hosts a node dials on behalf of others. It knows the nodes of its network. With arbitrary addresses, another
//! node could make it scan ports of hosts that only this node reaches, including its own.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// The rule for connections that another node requests. It decides by the address to be dialled, and by the name in the
/// request, if there is one.
#[derive(Clone)]
pub struct Allowed(Arc<Judge>);

/// Decides whether a host, as named in the request, may be dialled at this address. An error says why not.
type Judge = dyn Fn(&str, SocketAddr) -> Result<(), String> + Send + Sync;

impl Allowed {
    /// Creates the rule from a function.
    pub fn by(
        judge: impl Fn(&str, SocketAddr) -> Result<(), String> + Send + Sync + 'static,
    ) -> Allowed {
        Allowed(Arc::new(judge))
    }
}

impl Default for Allowed {
    /// Permits known nodes only.
    fn default() -> Allowed {
        Allowed::by(|_, _| Err("nothing is listed".to_owned()))
    }
}

impl fmt::Debug for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Allowed")
    }
}

/// The addresses that may be dialled for the requester.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rights<'a> {
    /// The operator of the node, who uses its own socket, may have dialled whatever the node can reach.
    Operator,
    /// Another node is limited by the rule.
    Others(&'a Allowed),
}

impl Rights<'_> {
    /// Checks an address that the overlay does not know as the node's. `told` is the address in the request: HOST:PORT.
    pub(super) fn permit(self, told: &str, at: SocketAddr) -> Result<(), String> {
        let host = told.rsplit_once(':').map_or(told, |(host, _)| host);
        match self {
            Rights::Operator => Ok(()),
            Rights::Others(allowed) => (allowed.0)(host, at),
        }
    }
}
