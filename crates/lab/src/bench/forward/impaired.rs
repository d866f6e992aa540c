//! The node with a bad link after it: the highest share of its own limit at which it recovers.
//!
//! ```text
//!   100 % of the limit ──no, twice──> 90 % ──no, twice──> ... 10 %       the first that holds
//! ```
//!
//! At its limit without loss a node has no time left for requests and answers, and the emulated link also costs some
//! time; packets lost there are lost at its socket and give no information about recovery.

use super::chain::{self, Behind, Chain};
use super::report::Impaired;
use super::{Arena, BenchError, Cell, Trial};
use crate::bench::go_on;

/// Shares of the node's limit, in percent, tried in this order until one holds.
const SHARES_PCT: [u64; 10] = [100, 90, 80, 70, 60, 50, 40, 30, 20, 10];
/// A failure is repeated, because the machine may have done other work.
const TRIES: usize = 2;

/// One trial over the bad link.
struct Try {
    trial: Trial,
    lost_on_link: u64,
}

impl Try {
    /// Returns whether recovery kept up: next to nothing is missing, and no queue grows.
    fn holds(&self) -> bool {
        self.trial.outcome.is_carried(chain::OUT_DELAY)
    }
}

/// Finds the rate at which the node of `cell` recovers.
pub(super) fn measure(arena: &Arena<'_>, cell: &Cell) -> Result<Impaired, BenchError> {
    let (payload, burst) = (cell.payload_bytes, cell.burst);
    let limit = cell.forwarders.first().map_or(0, |node| node.max_pps);
    arena.progress.step(&format!(
        "{payload} bytes, bursts of {burst}: 1 % loss, 20 ms"
    ));
    let mut chain = Chain::start(arena, Behind::Lossy(Box::new(chain::lossy()?)))?;
    // The first volley teaches the estimators the link's properties, at a rate without overload.
    attempt(arena, &mut chain, cell, limit / 4)?;
    let mut last = None;
    'search: for (i, share) in SHARES_PCT.into_iter().enumerate() {
        for _ in 0..TRIES {
            let rate = limit * share / 100;
            let text = format!("1 % loss, 20 ms: {rate} packets/s");
            arena
                .progress
                .draw(i as f64 / SHARES_PCT.len() as f64, &text);
            let tried = last.insert(attempt(arena, &mut chain, cell, rate)?);
            arena.progress.step(&format!(
                "{text}: {} sent at {:.0}/s, {} lost by the link, {} arrived, {} under way at the end",
                tried.trial.outcome.sent,
                tried.trial.outcome.rate_pps(),
                tried.lost_on_link,
                tried.trial.outcome.arrived,
                tried.trial.outcome.under_way,
            ));
            if tried.holds() {
                break 'search;
            }
        }
    }
    arena.progress.clear();
    let last = last.expect("there are shares, and each is tried");
    let outcome = last.trial.outcome;
    Ok(Impaired {
        rate_pps: outcome.rate_pps() as u64,
        share_of_max_pct: 100.0 * outcome.rate_pps() / limit.max(1) as f64,
        recovers: last.holds(),
        sent: outcome.sent,
        lost_on_link_pct: 100.0 * last.lost_on_link as f64 / outcome.sent.max(1) as f64,
        residual_pct: 100.0 * outcome.loss(),
        ns_per_packet: last.trial.ns_per_packet(),
    })
}

/// Sends one volley over the bad link.
fn attempt(
    arena: &Arena<'_>,
    chain: &mut Chain,
    cell: &Cell,
    rate_pps: u64,
) -> Result<Try, BenchError> {
    go_on(&arena.interrupt)?;
    // An overload may have taken down the link.
    chain.wait(arena)?;
    let shape = arena.shape(cell.payload_bytes, cell.burst, rate_pps.max(1));
    let lost_before = chain.lost_on_link()?;
    let trial = chain.trial(shape, arena.options.flows, chain::PATIENCE)?;
    Ok(Try {
        trial,
        lost_on_link: chain.lost_on_link()? - lost_before,
    })
}
