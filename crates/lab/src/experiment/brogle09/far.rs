//! The impairments of the Internet on the middle link, all at once: a round trip, losses, an outage. All contenders use
//! the same emulated link.

use super::loads::Load;
use super::overlay::{BESIDE, INSIDE, Overlay};
use super::site::{Shape, Site};
use super::stats::tell;
use super::table::trials;
use super::talk::{Ends, Stream, Told};
use super::{bare, native};
use crate::experiment::{Cell, CellError, Plan, Row, Size};
use std::time::Duration;

/// Round trips of the link, in milliseconds.
pub(super) const ROUND_TRIPS_MS: [f64; 3] = [20.0, 100.0, 200.0];
/// Length of the link's outage in the cells with an outage: there is one in a trial.
pub(super) const OUTAGE_MS: f64 = 250.0;
/// Loss of the link in each direction, in percent, by independent losses.
const LOSS_PCT: f64 = 1.0;
/// The load: 24.8 Mbit/s in packets of 1024 bytes, which is low for every contender.
const LOAD: f64 = 12.0;
/// Time from the beginning of a trial to its outage.
const BEFORE: Duration = Duration::from_millis(1_500);
/// Nodes measure a link from its traffic. Choice: this length of traffic before the first trial, the same for all
/// contenders.
const WARM_UP_S: f64 = 4.0;
const TRIAL_S: f64 = 5.0;

/// Returns a cell for each round trip, without and with outages; a quick run has only those of the chain.
pub(super) fn cells(size: Size) -> Vec<Cell> {
    let shapes: &[f64] = match size {
        Size::Quick => &[0.0],
        Size::Full => &[0.0, 1.0],
    };
    let at = |tree: f64, rtt_ms: f64, outage_ms: f64| {
        Cell::at(&[
            ("tree", tree),
            ("far_rtt_ms", rtt_ms),
            ("outage_ms", outage_ms),
        ])
    };
    let outages = [0.0, OUTAGE_MS];
    let of_shape = |tree: &f64| {
        let tree = *tree;
        ROUND_TRIPS_MS.map(move |rtt_ms| outages.map(|outage_ms| at(tree, rtt_ms, outage_ms)))
    };
    shapes.iter().flat_map(of_shape).flatten().collect()
}

/// Returns whether a cell is one of these.
pub(super) fn is_one(cell: &Cell) -> bool {
    cell.parameters
        .iter()
        .any(|(name, _)| *name == "far_rtt_ms")
}

/// Returns the share of a trial's packets that are sent during its outage, in percent.
pub(super) fn own_pct(outage_ms: f64) -> f64 {
    100.0 * outage_ms / 1e3 / TRIAL_S
}

/// Measures native multicast, bare forwarders, and the overlay with both modes of bridges.
pub(super) fn measure(plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
    native::available()?;
    let rtt_ms = cell.parameter("far_rtt_ms");
    let trouble = Trouble {
        site: Site::new(Shape::of(cell.parameter("tree")), Some(seed))?,
        words: format!("delay={}us loss={LOSS_PCT}%", rtt_ms * 500.0),
        outage: Duration::from_millis(cell.parameter("outage_ms") as u64),
        rate_pps: Load::numbered(LOAD).rate_pps(),
        payload: Load::numbered(LOAD).payload,
        trials: trials(plan.size),
    };
    let site = &trouble.site;
    site.impair(&trouble.words);
    let mut row = Row::of(cell);
    let drawn = site.shape.drawn();
    {
        let _routes = native::Native::start(site)?;
        let ends = native::ends(site)?;
        tell(&mut row, "native", drawn, &trouble.carry(&ends, "native")?);
    }
    {
        let _forwarders = bare::Bare::start(site)?;
        let ends = bare::ends(site)?;
        tell(&mut row, "bare", drawn, &trouble.carry(&ends, "bare")?);
    }
    for kind in [INSIDE, BESIDE] {
        let mut overlay = Overlay::start(&plan.program, site, kind)?;
        overlay.set_deadline((2.5 * rtt_ms) as u64 + 100)?;
        let ends = overlay.ends(site)?;
        let told = trouble.carry(&ends, kind.name);
        overlay.check()?;
        tell(&mut row, kind.name, drawn, &told?);
    }
    Ok(row)
}

struct Trouble {
    site: Site,
    words: String,
    outage: Duration,
    rate_pps: f64,
    payload: usize,
    trials: usize,
}

impl Trouble {
    fn carry(&self, ends: &Ends, who: &str) -> Result<Vec<Told>, CellError> {
        ends.open(who)?;
        ends.run(&self.stream(WARM_UP_S))?;
        let trials = 0..self.trials;
        trials.map(|_| self.trial(ends)).collect()
    }

    fn trial(&self, ends: &Ends) -> Result<Told, CellError> {
        std::thread::scope(|scope| {
            if !self.outage.is_zero() {
                scope.spawn(|| {
                    std::thread::sleep(BEFORE);
                    self.site.impair(&format!("{} outage", self.words));
                    std::thread::sleep(self.outage);
                    self.site.impair(&self.words);
                });
            }
            ends.run(&self.stream(TRIAL_S))
        })
    }

    fn stream(&self, seconds: f64) -> Stream {
        Stream {
            payload: self.payload,
            rate_pps: self.rate_pps,
            packets: (self.rate_pps * seconds) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_cells_are_known_by_their_coordinates() {
        assert_eq!(cells(Size::Quick).len(), 6);
        assert_eq!(cells(Size::Full).len(), 12);
        assert!(cells(Size::Full).iter().all(is_one));
        assert!(!super::super::table::cells().iter().any(is_one));
        assert_eq!(own_pct(OUTAGE_MS), 5.0);
    }
}
