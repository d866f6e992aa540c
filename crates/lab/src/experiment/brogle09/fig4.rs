//! Figure 4: loss and latency of native IP multicast over the chain and the tree.
//! [Brogle09 §IV-A]

use super::figures::{self, Drawn};
use super::table::{self, Bout};
use super::verdicts::native;
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size};

/// The figure.
pub(super) const FIG4: Fig4 = Fig4;

/// The experiment.
pub(super) struct Fig4;

impl Experiment for Fig4 {
    fn id(&self) -> &'static str {
        "brogle09/fig4"
    }

    fn title(&self) -> &'static str {
        "Native IP multicast over a chain of four and a tree of seven"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "Every host is a network namespace, neighbours are joined by veth, routes are smcrouted's static \
             ones. {} A paced sender of plain UDP to 239.1.1.1 in a namespace before the first host, a member \
             in one behind every leaf; the kernel notes arrivals, on the sender's clock. Sender and recorder \
             have real-time priority. Forwarding over veth takes place in the sender's own processor time: \
             where that is used up the sender falls behind its rate, and nothing is lost.",
            packets(size)
        )
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        table::cells()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let mut bout = Bout::new(plan, cell, seed)?;
        bout.native()?;
        Ok(bout.row())
    }

    fn conclude(&self, plan: &Plan, rows: &Rows) -> Findings {
        let drawn = [Drawn {
            who: "native",
            name: "native",
        }];
        Findings {
            charts: figures::four(rows, &drawn),
            verdicts: native::verdicts(plan, rows),
        }
    }

    fn is_real_time(&self) -> bool {
        true
    }
}

/// Describes how many packets a load has.
pub(super) fn packets(size: Size) -> &'static str {
    match size {
        Size::Full => "Each load has the paper's packet count.",
        Size::Quick => "Each load has a fifth of the paper's packets, 200 at least.",
    }
}
