//! The comparison: native multicast, bare forwarders and the overlay in the same networks, also with loss on a middle
//! link, and the highest rate of each. [Brogle09 §IV-C, §V]

use super::capacity;
use super::far;
use super::fig4::packets;
use super::fig5::{self, FAMILY};
use super::figures::{self, Drawn};
use super::table;
use super::verdicts::compare;
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size};

/// The comparison.
pub(super) const COMPARE: Compare = Compare;

/// The experiment.
pub(super) struct Compare;

impl Experiment for Compare {
    fn id(&self) -> &'static str {
        "brogle09/compare"
    }

    fn family(&self) -> &'static str {
        FAMILY
    }

    fn title(&self) -> &'static str {
        "Native multicast, bare forwarders and the overlay side by side"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "The measurements of brogle09/fig5. {} Beside them, loads with 1 % loss in each direction of the \
             middle link of the longest branch, by an emulated link that all contenders cross; the same loss with \
             round trips of 20, 100 and 200 ms, without and with an outage of 250 ms in each trial of 5 s, the \
             group's deadline 2.5 round trips and 100 ms; and a search \
             for the highest rate at which less than 0.1 % is lost at every leaf and latency does not grow, \
             with everything on this machine's processors.",
            packets(size)
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        [
            table::cells(),
            table::lossy_cells(size),
            far::cells(size),
            capacity::cells(),
        ]
        .concat()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        if capacity::is_one(cell) {
            capacity::measure(plan, cell)
        } else if far::is_one(cell) {
            far::measure(plan, cell, seed)
        } else {
            fig5::load(plan, cell, seed)
        }
    }

    fn conclude(&self, plan: &Plan, rows: &Rows) -> Findings {
        let drawn = [
            ("native", "native"),
            ("bare", "bare"),
            ("overlay", "overlay"),
        ];
        let drawn = drawn.map(|(who, name)| Drawn { who, name });
        Findings {
            charts: figures::four(rows, &drawn),
            verdicts: compare::verdicts(plan, rows),
        }
    }

    fn is_real_time(&self) -> bool {
        true
    }
}
