//! The C library: overlay sockets with the calls, the semantics and the errors of BSD sockets.
//!
//! ```text
//!   program ── sinew_sendto(fd, ..) ──▶ abi: C's types        ── not ours ──▶ the kernel's call
//!                                        │
//!                                        ▼
//!                                      table: descriptor ──▶ Socket ──▶ client::{DatagramSocket, ..}
//! ```
//!
//! A socket is a real descriptor, so poll, select and epoll work without this library. Its number never changes, as
//! programs expect: a datagram socket is its connection to the node from the beginning. A stream socket begins as a
//! placeholder descriptor, and when it connects or listens, the new descriptor takes over its number by dup2. Programs
//! use `include/sinew.h`; a test checks that it and this crate match. [Amir06 §III-A]
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
