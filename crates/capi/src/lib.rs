//! The C library: overlay sockets with the calls, the semantics and the errors of BSD sockets.
//!
//! ```text
//!   program ── sinew_sendto(fd, ..) ──▶ abi: C's types        ── not ours ──▶ the kernel's call
//!                                        │
//!                                        ▼
//!                                      table: descriptor ──▶ Socket ──▶ client::{DatagramSocket, ..}
//! ```
//!
//! A socket is a real descriptor, so poll, select and epoll need nothing of this library. Its number
//! stays the same for life, as programs expect: a datagram socket is its connection to the node from
//! the beginning; a stream socket begins as a descriptor that stands for it, and what connects or
//! listens takes over its number by dup2. `include/sinew.h` is what programs see; a test holds it and
//! this crate together. [Amir06 §III-A]
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "the boundary: pointers of C")]
pub mod abi;
mod address;
mod connecting;
mod errno;
mod option;
mod socket;
#[allow(unsafe_code, reason = "the kernel's calls")]
mod sys;
mod table;
