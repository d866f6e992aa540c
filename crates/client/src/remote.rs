//! A node on another host: the same sockets, over TLS to the node's gate.
//!
//! ```text
//!   program ── socket ──┐ pair of Unix sockets                      ┌── node's Unix socket
//!                       └─ pump ═══ TLS: wire::remote ═══ pump ─────┘
//!                       (a thread here)            (a thread of the gate)
//! ```
//!
//! A program holds one end of a pair of Unix sockets, as with a node on its own host. A thread carries data between the
//! other end and the gate. Therefore, descriptors are real ones, and the layers above see no difference. Where it
//! works, datagrams are sent beside TLS, encrypted over UDP ([`way`]). The gate shows the node's own key (a raw public
//! key, RFC 7250), which the client has pinned; the token lets the client in. [Amir06 §III-A]

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

/// How long connecting, the handshake and the greeting may take together.
pub const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// The time without sending after which an end sends a ping.
const PING_AFTER: Duration = Duration::from_secs(15);
/// The silence after which an end counts as dead: three pings and a little more.
const DEAD_AFTER: Duration = Duration::from_secs(50);
