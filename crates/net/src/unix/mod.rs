//! Local message sockets (SOCK_SEQPACKET): how clients reach their node.
//!
//! ```text
//!   SeqListener::bind(path, mode) -> accept -> SeqStream     (node)
//!                                    SeqStream::connect      (client)
//! ```
//!
//! A message arrives whole or not at all, in order, and file permissions say who may connect.

mod listener;
mod stream;
#[cfg(test)]
mod tests;

pub use listener::{BindError, SeqListener};
pub use stream::{Peer, Received, SeqStream};
