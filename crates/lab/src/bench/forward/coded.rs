//! The node with a coded lane after it: the cost of repair packets per packet that it forwards.
//!
//! ```text
//!   engine a ──> middle node ── 100 packets, and nothing else ───────> engine c
//!   engine a ──> middle node ── 100 packets, and 30 repair packets ──> engine c, loses 5, repairs them
//! ```
//! The two chains take turns at the common rate. The second one's receiver sends no requests: on a link without delay,
//! requests would recover everything, and nothing would be coded.

use super::chain::{self, Behind, Chain};
use super::report::Coded;
use super::{Arena, BenchError, Cell, Trial, median};

/// Most volleys until one has a plan all along: the plan is checked once a second, losses are known after the first
/// check, and the lane is idle between two volleys.
const VOLLEYS_MAX: usize = 40;
/// The plan is in force when there are this many repair packets per packet.
const SHARE_MIN: f64 = 0.9 * chain::CODED;

/// Measures the cost of repair in the cells, one after the other over the same two chains.
pub(super) fn measure(arena: &Arena<'_>, cells: &mut [Cell]) -> Result<(), BenchError> {
    let mut plain = Chain::start(arena, Behind::Clean)?;
    let mut coded = Chain::start(arena, Behind::Coded)?;
    for cell in cells {
        let (payload, burst) = (cell.payload_bytes, cell.burst);
        arena.progress.step(&format!(
            "{payload} bytes, bursts of {burst}: 30 repair packets per 100 packets"
        ));
        cell.coded = Some(compare(arena, [&mut plain, &mut coded], cell)?);
    }
    Ok(())
}

fn compare(
    arena: &Arena<'_>,
    [plain, coded]: [&mut Chain; 2],
    cell: &Cell,
) -> Result<Coded, BenchError> {
    let (mut without, mut with, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..arena.options.repeats {
        without.push(attempt(arena, plain, cell)?.0);
        let (trial, share) = attempt_in_force(arena, coded, cell)?;
        with.push(trial);
        shares.push(share);
    }
    let (without, with) = (median(&mut without), median(&mut with));
    Ok(Coded {
        repair: shares.iter().sum::<f64>() / shares.len() as f64,
        plain_ns_per_packet: without.ns_per_packet(),
        ns_per_packet: with.ns_per_packet(),
        ratio: with.ns_per_packet() / without.ns_per_packet(),
        residual_pct: 100.0 * with.outcome.loss(),
    })
}

/// Sends volleys until the plan is in force during all of one.
fn attempt_in_force(
    arena: &Arena<'_>,
    chain: &mut Chain,
    cell: &Cell,
) -> Result<(Trial, f64), BenchError> {
    let mut share = 0.0;
    for _ in 0..VOLLEYS_MAX {
        let (trial, repaired) = attempt(arena, chain, cell)?;
        share = repaired;
        if share >= SHARE_MIN {
            return Ok((trial, share));
        }
    }
    let (_, reason) = chain.repairs()?;
    let what =
        format!("{share:.2} repair packets per packet after {VOLLEYS_MAX} volleys: {reason}");
    Err(BenchError::Start(what))
}

/// Sends one volley at the common rate. Returns also the repair packets per packet.
fn attempt(arena: &Arena<'_>, chain: &mut Chain, cell: &Cell) -> Result<(Trial, f64), BenchError> {
    super::go_on(&arena.interrupt)?;
    chain.wait(arena)?;
    let shape = arena.shape(cell.payload_bytes, cell.burst, cell.common_pps);
    let (before, _) = chain.repairs()?;
    let trial = chain.trial(shape, arena.options.flows, chain::PATIENCE)?;
    let (after, _) = chain.repairs()?;
    Ok((
        trial,
        (after - before) as f64 / trial.outcome.sent.max(1) as f64,
    ))
}
