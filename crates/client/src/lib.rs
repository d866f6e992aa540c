//! The socket-like interface for applications: overlay addresses, and real descriptors.
//!
//! ```no_run
//! use client::{Node, Options, Target};
//! use core::time::Duration;
//!
//! let node = Node::at("/run/sinew/ams.sock");
//! let socket = node.bind(5000, Options::voice(Duration::from_millis(100)))?;
//! socket.send_to(b"hello", Target::parse("10.7.0.3:5000")?)?;
//! let mut buffer = [0; 2048];
//! let (len, from, _) = socket.recv_from(&mut buffer)?;
//! println!("{len} bytes from {from}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! One [`DatagramSocket`] is one connection to the node over a Unix socket that keeps message boundaries: its
//! descriptor works with poll and epoll. Calls block unless the socket is set to non-blocking. Only receiving blocks
//! for ever; all other calls fail with [`Error::Timeout`] if the node hangs. A node that was stopped or killed closes
//! its sockets ([`Error::Closed`]): bind again when it is back. The semantics are those of UDP sockets, with a class, a
//! deadline and a delivery option per socket. [Amir06 §III-A]
//!
//! ```no_run
//! use client::{Node, Options, Target};
//! use std::io::{Read, Write};
//!
//! let node = Node::at("/run/sinew/ams.sock");
//! let mut stream = node.connect(Target::parse("10.7.0.3:5000")?, Options::stream())?;
//! stream.write_all(b"hello")?;
//! stream.shutdown(std::net::Shutdown::Write)?;
//! let mut answer = Vec::new();
//! stream.read_to_end(&mut answer)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Stream`] is reliable and in order, with the semantics of TCP; a [`Listener`] accepts streams. If a stream ends
//! prematurely, calls fail with `ConnectionReset` and give the reason; a clean end of the data differs from the end of
//! the node.
//!
//! A [`RangeSocket`] has a range of ports over one connection. It is for gateways, which act for thousands of callers.
#![forbid(unsafe_code)]

mod connection;
pub mod discover;
mod error;
mod group;
mod locate;
mod options;
mod range;
pub mod remote;
mod room;
mod socket;
mod stream;
mod target;

pub use error::Error;
pub use group::{GroupSocket, Incoming};
pub use locate::{NODE_VARIABLE, SYSTEM, sockets_below};
pub use net::unix::How;
pub use options::{Aim, Delivery, LinkProtocol, Options, RouteBy, Routing, Scheme, StreamControl};
pub use range::{Batch, RangeSocket, Sending, Told};
pub use socket::{DatagramSocket, Info, Node};
pub use stream::{Accepted, Expired, Listener, MessageStream, Stream};
pub use target::{BadTarget, Target};
pub use wire::ipc::{ErrorCode, Framing, ResetReason};
