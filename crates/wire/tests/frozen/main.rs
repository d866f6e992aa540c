//! The formats that have been released, as bytes: today's decoders read them, and today's emitters write them.
//!
//! A network is upgraded node by node, so nodes of today talk with nodes of then. A test that fails here is no test to be
//! mended: "How formats change" in docs/wire.md says what to do instead. What later versions may add is in
//! [`later`]: everything that is marked as optional is skipped.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod bulk;
mod clients;
mod control;
mod fixture;
mod handshake;
mod later;
mod packets;
mod records;
mod scribe;
mod transport;

use base::NodeAddr;
use fixture::{Fixtures, open};
use wire::Full;

const A: NodeAddr = NodeAddr(0x0a07_0001);
const B: NodeAddr = NodeAddr(0x0a07_0002);
const C: NodeAddr = NodeAddr(0x0a07_0003);
/// 239.1.2.3
const GROUP: NodeAddr = NodeAddr(0xef01_0203);

/// The bytes that an emitter writes. It gives their number.
fn written(emit: impl FnOnce(&mut [u8]) -> Result<usize, Full>) -> Vec<u8> {
    let mut bytes = vec![0xa5; 70_000];
    let len = emit(&mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}
