//! `sinew invite` and `sinew join`: make a host a node with one line of text.
//!
//! ```text
//!   issuer's host                                        new host
//!   sinew invite DIR                                     sinew join TOKEN
//!     token ───── by any way that others cannot read ─────▶ key made here
//!     DIR/issuer/invitations                                 │ TLS to the issuer's key
//!   sinew node (DIR) ◀──────── secret, keys, name ───────────┤
//!                    ───────── certificate, neighbours ─────▶│ node.cert, node.toml; the node starts
//! ```

mod invite;
mod join;
#[cfg(test)]
mod tests;
mod token;

pub use invite::{Invite, run as invite};
pub(crate) use join::host_name;
pub use join::{Join, run as join, run_at as join_at};
pub use token::{BadToken, Token};
