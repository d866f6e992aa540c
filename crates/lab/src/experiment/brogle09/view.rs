//! Rows by topology and number of load, and their presentation in verdicts.

use super::loads::LOADS;
use crate::experiment::{Row, Rows, Size, Verdict};
use crate::stats;

/// "Carried", here and in the claims: the loss is less than this, in percent.
pub(super) const CARRIED_PCT: f64 = 0.1;
/// "High", "unacceptable": the loss is more than this, in percent.
pub(super) const HIGH_PCT: f64 = 1.0;
/// "Acceptable (meaning below 10 ms)" [Brogle09 §IV-B].
pub(super) const ACCEPTABLE_US: f64 = 10_000.0;
/// A load whose sender achieved a smaller share of its rate counts as another load.
pub(super) const REACHED: f64 = 0.97;

pub(super) const CHAIN: f64 = 0.0;
pub(super) const TREE: f64 = 1.0;

/// Rows with queries.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    rows: &'a Rows,
    tree: f64,
    loss_pct: f64,
}

impl<'a> View<'a> {
    /// Creates a view of a topology, without loss on any link.
    pub(super) fn of(rows: &'a Rows, tree: f64) -> View<'a> {
        View {
            rows,
            tree,
            loss_pct: 0.0,
        }
    }

    /// Creates a view of a topology with a lossy link.
    pub(super) fn lossy(rows: &'a Rows, tree: f64) -> View<'a> {
        View {
            loss_pct: 1.0,
            ..View::of(rows, tree)
        }
    }

    /// Returns all its rows, in the order of the table.
    pub(super) fn all(self) -> impl Iterator<Item = &'a Row> {
        let at = [("tree", self.tree), ("loss_pct", self.loss_pct)];
        self.rows.with(&at)
    }

    /// Returns a number of one load; NaN if it was not measured.
    pub(super) fn at(self, no: u32, name: &str) -> f64 {
        let found = self.all().find(|row| row.parameter("no") == f64::from(no));
        found.map_or(f64::NAN, |row| row.value(name))
    }

    /// Returns a number of some loads.
    pub(super) fn each(self, nos: &[u32], name: &str) -> Vec<f64> {
        nos.iter().map(|no| self.at(*no, name)).collect()
    }

    /// Returns the mean of a number over some loads.
    pub(super) fn mean(self, nos: &[u32], name: &str) -> f64 {
        stats::mean(self.each(nos, name))
    }

    /// Returns the largest and smallest value of a number over some loads.
    pub(super) fn range(self, nos: &[u32], name: &str) -> (f64, f64) {
        let each = self.each(nos, name);
        (stats::most(&each), stats::least(&each))
    }

    /// Formats numbers of some loads: `1: 0.02, 2: 0.00 %`.
    pub(super) fn words(self, nos: &[u32], name: &str, unit: &str) -> String {
        let digits = if unit == "%" { 3 } else { 0 };
        let word = |no: &u32| format!("{no}: {:.digits$}", self.at(*no, name));
        let all: Vec<String> = nos.iter().map(word).collect();
        format!("{} {unit}", all.join(", "))
    }

    /// Returns the loads whose rate this sender reached.
    pub(super) fn reached(self, who: &str) -> Vec<u32> {
        let achieved = format!("{who}_achieved_pps");
        let reaches = |no: &u32| self.at(*no, &achieved) >= REACHED * self.at(*no, "offered_pps");
        numbers().into_iter().filter(reaches).collect()
    }

    /// Returns the highest rate of the table that arrives everywhere, except for the loss that "carried" permits.
    pub(super) fn carried_pps(self, who: &str) -> f64 {
        let loss = format!("{who}_worst_loss_pct");
        let rates = numbers().into_iter().filter_map(|no| {
            let is_carried = self.at(no, &loss) < CARRIED_PCT;
            is_carried.then(|| self.at(no, &format!("{who}_achieved_pps")))
        });
        rates.fold(0.0, f64::max)
    }
}

/// Returns the numbers of all loads.
pub(super) fn numbers() -> Vec<u32> {
    LOADS.iter().map(|load| load.no).collect()
}

/// Returns a verdict on the loads that are sent.
pub(super) fn setup(claim: &'static str, size: Size) -> Verdict {
    let mut payloads: Vec<usize> = LOADS.iter().map(|load| load.payload).collect();
    payloads.dedup();
    let most = LOADS.iter().map(|load| load.packets(size)).max();
    Verdict::setup(
        claim,
        &[
            ("loads", LOADS.len() as f64, 15.0),
            ("sizes", payloads.len() as f64, 3.0),
            (
                "bytes at most",
                payloads.iter().copied().max().unwrap_or(0) as f64,
                1_024.0,
            ),
            ("packets at most", most.unwrap_or(0) as f64, 130_000.0),
        ],
    )
}
