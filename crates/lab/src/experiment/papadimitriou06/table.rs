//! Rows for figures and verdicts: means over rounds, by transport and point.

use super::scenario::Point;
use super::setup::Transport;
use crate::experiment::Rows;
use crate::stats::{least, mean, most, standard_error};

/// The rows of a scenario.
pub(super) struct Table<'a>(pub(super) &'a Rows);

impl Table<'_> {
    /// Returns the mean over rounds; NaN, for which no comparison holds, if nothing was measured.
    pub(super) fn mean(&self, transport: Transport, point: Point, name: &str) -> f64 {
        mean(self.values(transport, point, name))
    }

    /// Returns the values round by round.
    pub(super) fn values(&self, transport: Transport, point: Point, name: &str) -> Vec<f64> {
        self.0
            .with(&point.of(transport))
            .map(|row| row.value(name))
            .collect()
    }

    /// Returns the standard error of the mean; 0 for a single round, which has none.
    pub(super) fn error(&self, transport: Transport, point: Point, name: &str) -> f64 {
        let values = self.values(transport, point, name);
        standard_error(&values).unwrap_or(0.0)
    }

    /// Returns the mean over rounds and points.
    pub(super) fn over(&self, transport: Transport, points: &[Point], name: &str) -> f64 {
        mean(
            points
                .iter()
                .map(|point| self.mean(transport, *point, name)),
        )
    }

    /// Returns whether a transport has more than each of the others, all of which must be known.
    pub(super) fn has_most(
        &self,
        transport: Transport,
        transports: &[Transport],
        point: Point,
        name: &str,
    ) -> bool {
        let (own, others) = self.against(transport, transports, point, name);
        own > most(others)
    }

    /// Returns whether a transport has less than each of the others, all of which must be known.
    pub(super) fn has_least(
        &self,
        transport: Transport,
        transports: &[Transport],
        point: Point,
        name: &str,
    ) -> bool {
        let (own, others) = self.against(transport, transports, point, name);
        own < least(others)
    }

    /// Returns the value of a transport, and those of the others.
    fn against<'a>(
        &'a self,
        transport: Transport,
        transports: &'a [Transport],
        point: Point,
        name: &'a str,
    ) -> (f64, impl Iterator<Item = f64> + 'a) {
        let mean = move |transport| self.mean(transport, point, name);
        let others = transports.iter().filter(move |t| **t != transport);
        (mean(transport), others.map(move |t| mean(*t)))
    }

    /// Returns the one of `transports` with the most.
    pub(super) fn most(&self, transports: &[Transport], point: Point, name: &str) -> Transport {
        let by = |t: &&Transport| self.mean(**t, point, name);
        let most = transports.iter().max_by(|a, b| by(a).total_cmp(&by(b)));
        *most.expect("somebody is compared")
    }

    /// Returns the one of `transports` with the least.
    pub(super) fn least(&self, transports: &[Transport], point: Point, name: &str) -> Transport {
        let by = |t: &&Transport| self.mean(**t, point, name);
        let least = transports.iter().min_by(|a, b| by(a).total_cmp(&by(b)));
        *least.expect("somebody is compared")
    }

    /// Formats "Vegas 0.912, Westwood 0.87", with this many digits.
    pub(super) fn list(
        &self,
        transports: &[Transport],
        point: Point,
        name: &str,
        digits: usize,
    ) -> String {
        let each = transports.iter().map(|t| {
            let mean = self.mean(*t, point, name);
            format!("{} {mean:.digits$}", t.name())
        });
        each.collect::<Vec<_>>().join(", ")
    }

    /// Formats the same for several numbers of calls: "80 calls: …; 120 calls: …".
    pub(super) fn lists(
        &self,
        transports: &[Transport],
        points: &[Point],
        name: &str,
        digits: usize,
    ) -> String {
        let each = points.iter().map(|point| {
            let list = self.list(transports, *point, name, digits);
            format!("{} calls: {list}", point.calls)
        });
        each.collect::<Vec<_>>().join("; ")
    }
}
