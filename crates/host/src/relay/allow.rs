//! Which hosts a node dials for others. Nodes of its network it knows; with any other address one could
//! have it try the ports of hosts that only it reaches, its own among them.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Where a connection may go that another node asks for: judged by the address that is dialled, and
/// by the name that was said, if it was one.
#[derive(Clone)]
pub struct Allowed(Arc<Judge>);

/// Whether a host, as it was said, may be dialled at this address, and why not.
type Judge = dyn Fn(&str, SocketAddr) -> Result<(), String> + Send + Sync;

impl Allowed {
    /// What this says.
    pub fn by(
        judge: impl Fn(&str, SocketAddr) -> Result<(), String> + Send + Sync + 'static,
    ) -> Allowed {
        Allowed(Arc::new(judge))
    }
}

impl Default for Allowed {
    /// Nodes that are known, and nobody else.
    fn default() -> Allowed {
        Allowed::by(|_, _| Err("nothing is listed".to_owned()))
    }
}

impl fmt::Debug for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Allowed")
    }
}

/// What the one who asks may have dialled.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rights<'a> {
    /// The operator of the node, by its own socket: whatever the node can.
    Operator,
    /// Another node.
    Others(&'a Allowed),
}

impl Rights<'_> {
    /// An address at which the overlay does not know the node, and how it was said: HOST:PORT.
    pub(super) fn permit(self, told: &str, at: SocketAddr) -> Result<(), String> {
        let host = told.rsplit_once(':').map_or(told, |(host, _)| host);
        match self {
            Rights::Operator => Ok(()),
            Rights::Others(allowed) => (allowed.0)(host, at),
        }
    }
}
