//! Figure 5: loss and latency of IP multicast through the overlay, beside native multicast and
//! bare forwarders. [Brogle09 §IV-B]

use super::fig4::packets;
use super::figures::{self, Drawn};
use super::overlay::{REFUSED, Trees};
use super::table::{self, Bout};
use super::verdicts::overlay;
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size};

/// The figure.
pub(super) const FIG5: Fig5 = Fig5;
/// Whose measurements `brogle09/compare` draws too.
pub(super) const FAMILY: &str = "brogle09/table1";

/// The experiment.
pub(super) struct Fig5;

impl Experiment for Fig5 {
    fn id(&self) -> &'static str {
        "brogle09/fig5"
    }

    fn family(&self) -> &'static str {
        FAMILY
    }

    fn title(&self) -> &'static str {
        "IP multicast through the overlay over the same chain and tree"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "Every host is a network namespace with a node process, neighbours are joined by veth. The first \
             host and the leaves run a bridge; sender and receivers are plain multicast programs on the TAP \
             interfaces of those bridges, so every packet is captured, sealed, carried and injected. {} Each \
             load is carried by native multicast, by as many bare epoll forwarders as there are hosts, and by \
             the overlay with trees by link state and by Scribe, one after the other. The kernel notes \
             arrivals at the receiver's interface, on the sender's clock. Nodes and forwarders have real-time \
             priority.",
            packets(size)
        )
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        table::cells()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        load(plan, cell, seed)
    }

    fn conclude(&self, plan: &Plan, rows: &Rows) -> Findings {
        let drawn = [Drawn {
            who: "overlay",
            name: "overlay",
        }];
        Findings {
            charts: figures::four(rows, &drawn),
            verdicts: overlay::verdicts(plan, rows),
        }
    }

    fn is_real_time(&self) -> bool {
        true
    }
}

/// Measures one load: all contenders, back to back.
pub(super) fn load(plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
    super::overlay::available(&plan.program)?;
    let mut bout = Bout::new(plan, cell, seed)?;
    bout.native()?;
    bout.bare()?;
    bout.overlay(Trees::LinkState)?;
    // What is missing of it is missing from the row; the verdicts are about the other.
    bout.overlay(Trees::Scribe)
        .or_else(|why| why.0.contains(REFUSED).then_some(()).ok_or(why))?;
    Ok(bout.row())
}
