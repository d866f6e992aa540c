//! The highest rate of packets per second that is carried: a search tries rates between one that is carried and one
//! that is not, until the two are close.

use super::overlay::{KINDS, Overlay, REFUSED};
use super::site::{Shape, Site};
use super::stats::worst_loss_pct;
use super::talk::{ABSENT, Ends, Stream, Told};
use super::view::{ACCEPTABLE_US, CARRIED_PCT};
use super::{bare, native};
use crate::bench::forward::search::Search;
use crate::experiment::{Cell, CellError, Plan, Row, Size};

/// Payloads, in bytes.
pub(super) const PAYLOADS: [f64; 2] = [32.0, 1_024.0];
/// The rate at which a search begins.
const START_PPS: u64 = 16_000;
/// A failed rate is tried again: the machine may have done other work.
const TRIES: usize = 2;
/// The share of a trial at whose end the latency shows whether a queue has grown.
const END_SHARE: usize = 10;
/// Most trials, where failures count twice.
const TRIALS_MAX: usize = 24;
/// Rates above a found limit that are tried once more, as factors of it. A found limit is not always the highest: the
/// machine was busy for longer, or packets arrive just not fast enough to travel in bursts, which cost less. If one of
/// these rates is carried, the search continues from there.
const AGAIN: [f64; 3] = [1.25, 1.75, 2.25];
const SEARCHES_MAX: usize = 3;

/// Returns a cell for each topology and payload.
pub(super) fn cells() -> Vec<Cell> {
    let cell = |tree| PAYLOADS.map(|payload| at(tree, payload));
    [0.0, 1.0].into_iter().flat_map(cell).collect()
}

fn at(tree: f64, payload: f64) -> Cell {
    Cell::at(&[("tree", tree), ("payload", payload), ("capacity", 1.0)])
}

/// Returns whether a cell is one of these.
pub(super) fn is_one(cell: &Cell) -> bool {
    cell.parameters.iter().any(|(name, _)| *name == "capacity")
}

/// Searches for each contender, one after the other.
pub(super) fn measure(plan: &Plan, cell: &Cell) -> Result<Row, CellError> {
    let site = Site::new(Shape::of(cell.parameter("tree")), None)?;
    let payload = cell.parameter("payload") as usize;
    let mut row = Row::of(cell);
    {
        let _routes = native::Native::start(&site)?;
        let ends = native::ends(&site)?;
        row.set("native_pps", search(plan, &ends, payload, "native")?);
    }
    {
        let _forwarders = bare::Bare::start(&site)?;
        let ends = bare::ends(&site)?;
        row.set("bare_pps", search(plan, &ends, payload, "bare")?);
    }
    for kind in KINDS {
        let who = kind.name;
        let mut overlay = match Overlay::start(&plan.program, &site, kind) {
            Err(why) if why.0.contains(REFUSED) => continue,
            started => started?,
        };
        let ends = overlay.ends(&site)?;
        let carried = search(plan, &ends, payload, who);
        overlay.check()?;
        row.set(format!("{who}_pps"), carried?);
    }
    Ok(row)
}

/// Returns the highest rate that is carried.
fn search(plan: &Plan, ends: &Ends, payload: usize, who: &str) -> Result<f64, CellError> {
    ends.open(who)?;
    let seconds = match plan.size {
        Size::Quick => 0.4,
        Size::Full => 2.0,
    };
    let mut trial = |rate: u64| {
        let stream = Stream {
            payload,
            rate_pps: rate as f64,
            packets: (rate as f64 * seconds) as u64,
        };
        let mut told = ends.run(&stream)?;
        for _ in 1..TRIES {
            if !is_carried(&told) {
                told = ends.run(&stream)?;
            }
        }
        Ok((is_carried(&told), told.achieved_pps as u64))
    };
    let mut best = 0;
    let mut from = START_PPS;
    for _ in 0..SEARCHES_MAX {
        best = climb(from, best, &mut trial)?;
        if best == 0 {
            break;
        }
        let mut carried = None;
        for more in AGAIN {
            let rate = (best as f64 * more) as u64;
            if trial(rate)?.0 {
                carried = Some(rate);
                break;
            }
        }
        match carried {
            Some(rate) => from = rate,
            None => break,
        }
    }
    Ok(best as f64)
}

/// Returns the highest rate of a search that begins at the rate `from`, if it is above `best`.
fn climb(
    from: u64,
    best: u64,
    trial: &mut impl FnMut(u64) -> Result<(bool, u64), CellError>,
) -> Result<u64, CellError> {
    let mut search = Search::from(from);
    for _ in 0..TRIALS_MAX {
        let Some(rate) = search.next() else { break };
        let (carried, achieved_pps) = trial(rate)?;
        search.tell(carried, achieved_pps);
    }
    Ok(search.best().max(best))
}

/// Returns whether a rate is carried: next to nothing is lost, and no queue grows, which would only seem to lose
/// nothing.
fn is_carried(told: &Told) -> bool {
    let end_is_prompt = told.sinks.iter().all(|sink| {
        let from = sink.latencies_ns.len() - sink.latencies_ns.len() / END_SHARE;
        let end = sink.latencies_ns.get(from..).unwrap_or_default();
        let mut end: Vec<u32> = end.iter().copied().filter(|ns| *ns != ABSENT).collect();
        end.sort_unstable();
        let middle = end.get(end.len() / 2).copied().unwrap_or(0);
        f64::from(middle) / 1e3 < ACCEPTABLE_US
    });
    worst_loss_pct(told) < CARRIED_PCT && end_is_prompt
}

#[cfg(test)]
mod tests {
    use super::super::talk::Arrivals;
    use super::*;

    fn told(lost: usize, last_ns: u32) -> Told {
        let mut latencies_ns = vec![50_000; 1_000];
        latencies_ns[900..].fill(last_ns);
        latencies_ns[..lost].fill(ABSENT);
        Told {
            sent: 1_000,
            sinks: vec![Arrivals {
                name: "P4",
                arrived: 1_000 - lost as u64,
                latencies_ns,
                duplicates: 0,
            }],
            ..Told::default()
        }
    }

    #[test]
    fn a_rate_is_carried_if_little_is_lost_and_the_end_is_not_late() {
        assert!(is_carried(&told(0, 60_000)));
        assert!(
            !is_carried(&told(1, 60_000)),
            "one of a thousand is too many"
        );
        assert!(!is_carried(&told(0, 10_000_000)), "a queue has grown");
    }

    #[test]
    fn its_cells_are_known_by_their_coordinates() {
        assert!(cells().iter().all(is_one));
        assert!(!super::super::table::cells().iter().any(is_one));
    }
}
