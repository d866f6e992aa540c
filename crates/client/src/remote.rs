//! A node on another host: the same sockets, over TLS to the node's gate.
//!
//! ```text
//!   program ── socket ──┐ pair of Unix sockets                      ┌── node's Unix socket
//!                       └─ pump ═══ TLS: wire::remote ═══ pump ─────┘
//!                       (a thread here)            (a thread of the gate)
//! ```
//!
//! What a program holds is one end of a pair of Unix sockets, as it is with a node on its own host;
//! a thread carries what passes between the other end and the gate. So descriptors are real ones,
//! and nothing above knows the difference. Datagrams go beside TLS, sealed over UDP, where that
//! works ([`way`]). The gate shows the node's own key (a raw public key, RFC
//! 7250), which the client has pinned; the token lets the client in. [Amir06 §III-A]

mod abandon;
mod channel;
mod dial;
mod domain;
mod keyring;
mod place;
mod pump;
mod report;
mod settle;
pub mod tls;
pub mod way;

pub use abandon::abandon;
pub use channel::{Channel, ChannelError};
pub use dial::Remote;
pub use domain::Domain;
pub(crate) use domain::{Named, shared};
pub use keyring::{BadKeyring, KEYS_MAX, Keyring};
pub use place::from_hex;
pub use place::{BadPlace, KEY_BYTES, Place, TOKEN_BYTES};
pub use pump::{Beside, Ground, Pump};
pub use report::{ClientWays, WayReport};
pub use settle::settle;

use core::time::Duration;

/// How long connecting, the handshake and the greeting may take, together.
pub const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// After how long without anything said an end says that it is there.
const PING_AFTER: Duration = Duration::from_secs(15);
/// After how long without anything heard an end is taken for dead: three pings and a little.
const DEAD_AFTER: Duration = Duration::from_secs(50);
