//! The released formats, as bytes: the present decoders read them, and the present emitters write them.
//!
//! A network is upgraded node by node, so present nodes communicate with old nodes. If a test fails here, do not change
//! the test: "How formats change" in docs/wire.md says what to do instead. [`later`] covers what later versions may
//! add: everything that is marked as optional is skipped.

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

/// Returns the bytes that an emitter writes. The emitter returns their number.
fn written(emit: impl FnOnce(&mut [u8]) -> Result<usize, Full>) -> Vec<u8> {
    let mut bytes = vec![0xa5; 70_000];
    let len = emit(&mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}
