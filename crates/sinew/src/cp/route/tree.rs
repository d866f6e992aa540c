//! The tree of paths to several ends: the choice between two trees, and the expected rate.

use super::{Ends, Prediction, Route, Ways};
use crate::cp::branches::Branches;
use crate::failure::Failure;
use base::NodeAddr;
use tools::explain::MARGIN;

impl Route {
    /// Returns the paths to all of these ends, as a tree.
    ///
    /// Choice: a copy to several ends uses the overlay's shortest paths, which share most of their segments, unless the
    /// planned path of each end is expected to reach a higher rate at the slowest end.
    pub(super) fn branches(&self, ways: &Ways, ends: &Ends) -> Result<Branches, Failure> {
        let planned = match self.is_free() {
            true => Some(self.joined(ways, ends, |end| self.plan(ways, end))?),
            false => None,
        };
        if let Some(planned) = &planned
            && ends.len() == 1
        {
            return Ok(planned.clone());
        }
        let shared = self.joined(ways, ends, |_| None)?;
        let pace = |branches: &Branches| {
            let pace = self.pace(ways, ends, branches);
            pace.filter(|pace| pace.is_known).map(|pace| pace.rate_bps)
        };
        let is_faster = |planned: &Branches| match (pace(planned), pace(&shared)) {
            (Some(planned), Some(shared)) => planned as f64 > shared as f64 * (1.0 + MARGIN),
            (planned, _) => planned.is_some(),
        };
        Ok(planned.filter(is_faster).unwrap_or(shared))
    }

    /// Joins the planned paths to these ends, or the shortest ones if there is no plan. Each path leaves the tree where
    /// it differs.
    fn joined(
        &self,
        ways: &Ways,
        ends: &Ends,
        plan: impl Fn(NodeAddr) -> Option<(Vec<NodeAddr>, Vec<u8>)>,
    ) -> Result<Branches, Failure> {
        let mut branches = Branches::default();
        for &end in ends.keys() {
            let (path, stripes) = match plan(end) {
                Some(planned) => planned,
                None => {
                    let path = self.path(ways, end)?;
                    let stripes = self.stripes_along(ways, &path);
                    (path, stripes)
                }
            };
            let stripes = match self.stripes.is_empty() {
                true => stripes,
                false => self.stripes.clone(),
            };
            branches.join(&path, &stripes);
        }
        Ok(branches)
    }

    /// Predicts the rate at the slowest of the ends, which limits all ends.
    ///
    /// Choice: the segments from one node share its sending rate in equal parts. The rates were measured one at a time,
    /// and nothing shows that the node can send more than the fastest of them.
    pub(super) fn pace(&self, ways: &Ways, ends: &Ends, branches: &Branches) -> Option<Prediction> {
        let mut all = Vec::new();
        for &end in ends.keys() {
            let path = branches.path(end);
            all.push(self.predict(ways, &path, branches)?);
            for segment in path.windows(2) {
                let share = branches.below(segment[0]).count() as u64;
                if share > 1 {
                    all.push(self.predict(ways, segment, branches)?.shared(share));
                }
            }
        }
        let is_known = all.iter().all(|pace| pace.is_known);
        let slowest = all.into_iter().min_by_key(|pace| pace.rate_bps);
        slowest.map(|pace| Prediction { is_known, ..pace })
    }
}

impl Prediction {
    /// Divides the rates by `share`.
    fn shared(self, share: u64) -> Prediction {
        Prediction {
            rate_bps: self.rate_bps / share,
            low_bps: self.low_bps / share,
            high_bps: self.high_bps.map(|high| high / share),
            ..self
        }
    }
}
