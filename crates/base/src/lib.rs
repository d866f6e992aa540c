//! The common base of all engines of Sinew: time, randomness, ids, packet buffers, and the seam between a protocol and
//! the world that drives it.
//!
//! ```text
//!          host (sockets)      sim (virtual time)      a test's recorder
//!                 \                  |                   /
//!                  `---- Input ---> Engine ---> Outbox -'
//! ```
//!
//! Nothing here uses a socket, a clock, a thread or a file: [`Time`] is an argument, entropy is a seed, and packets are
//! [`Burst`]s from a bounded [`Pool`].
#![deny(unsafe_code)]

pub mod engine;
pub mod histogram;
pub mod ids;
pub mod impair;
pub mod map;
pub mod pool;
pub mod rng;
pub mod seq;
pub mod time;
pub mod token_bucket;

pub use engine::{Engine, Input, Outbox};
pub use ids::{ClientId, NodeAddr, UnderlayAddr, VirtualPort};
pub use map::{Map, Set};
pub use pool::{Burst, Pool};
pub use rng::Rng;
pub use time::{Duration, Time};
