//! Figure 5: loss and latency of IP multicast through the overlay, compared with native multicast and bare forwarders.
//! [Brogle09 §IV-B]

use super::fig4::packets;
use super::figures::{self, Drawn};
use super::overlay::{KINDS, REFUSED};
use super::table::{self, Bout, trials};
use super::verdicts::overlay;
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size};

/// The figure.
pub(super) const FIG5: Fig5 = Fig5;
/// The family, whose measurements `brogle09/compare` draws too.
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
             load is carried {} times by native multicast, by as many bare epoll forwarders as there are hosts, \
             and by the overlay, one after the other: trees by link state with bridges in the nodes (overlay) and as \
             processes of their own (beside), and trees by Scribe. The kernel notes \
             arrivals at the receiver's interface, on the sender's clock. Nodes and forwarders have real-time \
             priority.",
            packets(size),
            trials(size)
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

/// Measures one load: all contenders, one directly after the other.
pub(super) fn load(plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
    super::overlay::available(&plan.program)?;
    let mut bout = Bout::new(plan, cell, seed)?;
    bout.native()?;
    bout.bare()?;
    for kind in KINDS {
        // Trees that nodes do not support are missing from the row; the verdicts concern other trees.
        bout.overlay(kind)
            .or_else(|why| why.0.contains(REFUSED).then_some(()).ok_or(why))?;
    }
    Ok(bout.row())
}
