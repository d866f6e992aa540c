//! System calls: UDP in bursts, TCP's options and splice, files below a directory, TAP devices, packet sockets,
//! interfaces, readiness, local message sockets, clocks, scheduling, namespaces, hops to a host; TLS with raw keys
//! ([`raw_key`]), for all code that connects by TCP; SRT by libsrt ([`srt`]), RIST by librist ([`rist`]).
//!
//! ```text
//!   engine thread:  Poller::wait -> udp::Socket::recv_batch -> engine -> SendQueue -> send_batch
//!                        ^              (bursts from the pool, by GRO)      (bursts, by GSO)
//!                        |-- unix::SeqStream (clients), Waker (other threads), Termination
//! ```
//!
//! This is the only crate that talks to the kernel, so unsafe code belongs here. Every block names the rule of the
//! manual page that it relies on. Nothing blocks except [`epoll::Poller::wait`], [`poll::poll`], [`hops::probe`],
//! [`resolver::ask`], [`rist::Receiver::receive`] and the benchmark loops of [`bare`]. Nothing is allocated per packet
//! after warm-up.
//!
//! [`bare`] holds the leanest forwarders that we know how to write over the same calls: the
//! baselines that the node is measured against.

pub mod addr;
pub mod bare;
pub mod beneath;
pub mod clock;
pub mod dial;
pub mod epoll;
pub mod file;
pub mod hops;
pub mod interface;
mod library;
pub mod netns;
pub mod packet;
pub mod places;
pub mod poll;
pub mod quota;
pub mod raw_key;
pub mod resolver;
pub mod rist;
pub mod sched;
pub mod signals;
pub mod splice;
pub mod srt;
mod sys;
pub mod tap;
pub mod tcp;
pub mod terminal;
pub mod udp;
pub mod unix;

pub use clock::Clock;
