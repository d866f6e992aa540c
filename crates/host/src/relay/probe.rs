//! Measures what a segment carries before a large copy: for some seconds a node sends noise to the next one, over one
//! connection, two, four, eight, and the next one discards it. [Liu04 §IV-A]
//!
//! ```text
//!   asker ── Probe(bytes, route) ──▶ nodes ──▶ node before the last ══ noise ══▶ last node: discards
//!         ◀───────────────────── Carried(one, together, is that all, round trip) ──┘
//! ```
//! At the last node and at the sending node it is a transfer like any other, with a place and its limits. It ends as
//! soon as more connections carry no more ([`relay::Striping`]), after [`relay::PROBE_US`], or when the bytes are used
//! up. The result goes to the requester and to the network.

use super::allow::Rights;
use super::dial::{self, PATIENCE, Way};
use super::duplex::Duplex;
use super::failure::{Failure, FailureKind};
use super::tls::{Trust, random};
use super::transfer::Transfer;
use base::NodeAddr;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
pub use wire::relay::Carried;
use wire::relay::{Hop, Message, Open};

/// How long an answer may take: for the connections, the measurement, and what the segment has in its queues.
const ANSWER: Duration = Duration::from_micros(2 * relay::PROBE_US);
/// Number of random bytes from which the noise is made.
const BLOCK_BYTES: usize = 64 << 10;

/// The parameters of a probe.
#[derive(Clone, Debug)]
pub struct Question {
    /// The local socket of the node to ask.
    pub socket: std::path::PathBuf,
    /// The node to ask.
    pub node: NodeAddr,
    /// The route from that node, which ends with the segment, as for a copy that is discarded.
    pub route: Vec<u8>,
    /// Number of bytes that may be sent.
    pub bytes: u64,
    /// The congestion control of the sender; empty for the kernel's choice.
    pub congestion: String,
}

/// Asks the own node, and waits for the answer: from, to, and what the connections between them carry.
pub fn ask(question: &Question) -> Result<(NodeAddr, NodeAddr, Carried), Failure> {
    let unusable =
        |text: &dyn std::fmt::Display| Failure::new(question.node, FailureKind::Unusable, text);
    let open = Open {
        transfer: random().map_err(|error| unusable(&error))?,
        pull: false,
        plain: true,
        scavenge: false,
        fresh: true,
        keep: false,
        delete: false,
        spare: false,
        dry: false,
        attributes: false,
        checksum: false,
        congestion: &question.congestion,
        certificate: &[],
        ordered: &[],
        route: Hop::parse(&question.route).map_err(|why| unusable(&why))?,
    };
    let way = Way::Local(Path::new(&question.socket));
    forward(
        &way,
        question.node,
        (question.bytes, &open),
        &Transfer::new(1),
    )
}

/// Returns true if the segment to be measured begins at this node. Otherwise the request is passed on.
pub(super) fn is_here(route: &Hop<'_>) -> bool {
    let next = route.below().next();
    next.is_some_and(|next| next.path.is_some() && next.below().next().is_none())
}

/// Asks the next node on behalf of the requester.
pub(super) fn pass_on(
    (trust, rights): (&Trust, Rights<'_>),
    bytes: u64,
    open: &Open<'_>,
    transfer: &Transfer,
) -> Result<(NodeAddr, NodeAddr, Carried), Failure> {
    let here = trust.own();
    let next = open
        .route
        .below()
        .next()
        .ok_or_else(|| Failure::new(here, FailureKind::Unusable, "a probe needs a segment"))?;
    let certificate = trust.certificate();
    let onward = Open {
        certificate: &certificate,
        route: next,
        ..*open
    };
    forward(&Way::Tcp(trust, rights), here, (bytes, &onward), transfer)
}

fn forward(
    way: &Way<'_>,
    here: NodeAddr,
    (bytes, open): (u64, &Open<'_>),
    transfer: &Transfer,
) -> Result<(NodeAddr, NodeAddr, Carried), Failure> {
    let node = open.route.node;
    let broken = |error: &io::Error| dial::unreachable(here, node, error);
    let (control, key) = dial::converse(way, here, open)?;
    let control = Arc::new(control);
    transfer.add_control(&control);
    let sent = control.send(&Message::Probe(bytes, *open));
    sent.map_err(|error| broken(&error))?;
    let until = Instant::now() + ANSWER + PATIENCE;
    let answer = control
        .receive(Some(until))
        .map_err(|error| broken(&error))?;
    let answer = answer.ok_or_else(|| broken(&io::ErrorKind::UnexpectedEof.into()))?;
    match answer.message().map_err(|error| broken(&error))? {
        Message::Carried(from, to, carried, certificate) => {
            if let Way::Tcp(trust, _) = way {
                dial::is_node(trust, here, node, certificate, key)?;
            }
            Ok((from, to, carried))
        }
        Message::Failed {
            node,
            kind,
            about,
            text,
        } => Err(Failure::told((node, kind, about), text)),
        _ => Err(broken(&io::ErrorKind::InvalidData.into())),
    }
}

/// Answers the requester.
pub(super) fn answer(
    control: &Duplex,
    (from, to): (NodeAddr, NodeAddr),
    carried: Carried,
    certificate: &[u8],
) {
    // If the requester no longer listens, it needs no answer.
    let _ = control.send(&Message::Carried(from, to, carried, certificate));
}

/// Bytes that cannot be compressed on the way, until they are used up or the probe is over.
pub(super) struct Noise {
    block: Vec<u8>,
    left: u64,
    is_over: Arc<AtomicBool>,
}

impl Noise {
    pub(super) fn new(bytes: u64, is_over: Arc<AtomicBool>) -> io::Result<Noise> {
        let seed: [u8; 32] = random()?;
        let mut block = vec![0; BLOCK_BYTES];
        blake3::Hasher::new_keyed(&seed)
            .finalize_xof()
            .fill(&mut block);
        Ok(Noise {
            block,
            left: bytes,
            is_over,
        })
    }
}

impl Read for Noise {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.is_over.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let len = into.len().min(self.block.len());
        let len = len.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        into[..len].copy_from_slice(&self.block[..len]);
        self.left -= len as u64;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_ends_with_its_bytes_or_when_it_is_over() {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut noise = Noise::new(100_000, Arc::clone(&is_over)).unwrap();
        let mut all = Vec::new();
        noise.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), 100_000);
        let zeros = all.iter().filter(|byte| **byte == 0).count();
        assert!(zeros < 1_000, "{zeros}");
        let mut noise = Noise::new(100_000, Arc::clone(&is_over)).unwrap();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(noise.read(&mut [0; 10]).unwrap(), 0);
    }
}
