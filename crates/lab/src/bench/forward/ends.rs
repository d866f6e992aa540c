//! The node between ends that seal from end to end: the cost of that seal per packet that the node forwards.
//!
//! ```text
//!   engine a ──> middle node ── sealed by hops ──────────────────────> engine c
//!   engine a ──> middle node ── sealed from end to end and by hops ──> engine c
//! ```
//! The two chains take turns at the common rate. A sealed packet is longer by its number and its tag, and the node
//! recognizes it by a mark.

use super::chain::{Behind, Chain};
use super::report::Ends;
use super::{Arena, BenchError, Cell, Trial, median};
use base::Duration;

/// Measures the cost of the seal in the cells, one after the other over the same two chains.
pub(super) fn measure(arena: &Arena<'_>, cells: &mut [Cell]) -> Result<(), BenchError> {
    let mut plain = Chain::start(arena, Behind::PlainEnds)?;
    let mut sealed = Chain::start(arena, Behind::Clean)?;
    for cell in cells {
        let (payload, burst) = (cell.payload_bytes, cell.burst);
        arena.progress.step(&format!(
            "{payload} bytes, bursts of {burst}: sealed from end to end"
        ));
        cell.ends = Some(compare(arena, [&mut plain, &mut sealed], cell)?);
    }
    Ok(())
}

fn compare(
    arena: &Arena<'_>,
    [plain, sealed]: [&mut Chain; 2],
    cell: &Cell,
) -> Result<Ends, BenchError> {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..arena.options.repeats {
        without.push(attempt(arena, plain, cell)?);
        with.push(attempt(arena, sealed, cell)?);
    }
    let (without, with) = (median(&mut without), median(&mut with));
    Ok(Ends {
        plain_ns_per_packet: without.ns_per_packet(),
        ns_per_packet: with.ns_per_packet(),
        ratio: with.ns_per_packet() / without.ns_per_packet(),
    })
}

/// Sends one volley at the common rate.
fn attempt(arena: &Arena<'_>, chain: &mut Chain, cell: &Cell) -> Result<Trial, BenchError> {
    super::go_on(&arena.interrupt)?;
    chain.wait(arena)?;
    let shape = arena.shape(cell.payload_bytes, cell.burst, cell.common_pps);
    chain.trial(shape, arena.options.flows, Duration::ZERO)
}
