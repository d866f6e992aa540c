//! Local message sockets (SOCK_SEQPACKET): how clients reach their node.
//!
//! ```text
//!   SeqListener::bind(path, mode) -> accept -> SeqStream     (node)
//!                                    SeqStream::connect      (client)
//! ```
//!
//! A message arrives whole or not at all, in order, and file permissions say who may connect.
//!
//! Choice: a message per call. recvmmsg and sendmmsg save 15 and 27 % at 16 messages; who has many
//! packets at once gains more by putting several into one message.

mod listener;
mod stream;
#[cfg(test)]
mod tests;

pub use listener::{BindError, SeqListener};
pub use stream::{How, Peer, Received, SeqStream};
