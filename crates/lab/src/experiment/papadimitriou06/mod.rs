//! Papadimitriou06: Assessment of Internet voice transport with TCP.
//!
//! ```text
//!   scenario ── cells ──▶ network (sim: TCP, UDP, routers) ──▶ calls ──▶ metrics ──▶ row
//!                                                                                    │
//!                 fig2 … fig24: each draws and judges a part of its scenario's rows ◀─┘
//! ```
//!
//! | figures | scenario |
//! |---|---|
//! | fig2 to fig6 | voice alone |
//! | fig7 to fig14 | packets of 160, 300 and 500 bytes beside light FTP traffic |
//! | fig15, fig16 | what voice does to FTP |
//! | fig17 to fig20 | packet errors |
//! | fig21 to fig24 | thresholds of the metric |
//! | partial | beyond the paper: its future work, over many seeds |

pub(super) mod claims;
mod figures;
mod metrics;
mod network;
mod scenario;
mod setup;
mod table;
mod verdicts;

use super::Experiment;

/// All experiments of the paper, in its order.
pub(super) const EXPERIMENTS: &[&dyn Experiment] = &[
    &figures::FIG2,
    &figures::FIG3,
    &figures::FIG4,
    &figures::FIG5,
    &figures::FIG6,
    &figures::FIG7,
    &figures::FIG8,
    &figures::FIG9,
    &figures::FIG10,
    &figures::FIG11,
    &figures::FIG12,
    &figures::FIG13,
    &figures::FIG14,
    &figures::FIG15,
    &figures::FIG16,
    &figures::FIG17,
    &figures::FIG18,
    &figures::FIG19,
    &figures::FIG20,
    &figures::FIG21,
    &figures::FIG22,
    &figures::FIG23,
    &figures::FIG24,
    &figures::PARTIAL,
];
