//! Brogle09: A Performance Comparison of Native IP Multicast and IP Multicast Tunneled through a
//! Peer-to-Peer Overlay Network.
//!
//! ```text
//!   Table I ── cells ──▶ site (namespaces, veth) ──▶ native: smcrouted        ─┐
//!                                                    bare: epoll forwarders   ─┼─▶ talk: one sender, all
//!                                                    overlay: nodes, bridges  ─┘   sinks, one clock ─▶ row
//! ```
//!
//! | experiment | runs |
//! |---|---|
//! | fig4 | the kernel's own multicast |
//! | fig5 | that, bare forwarders, and the overlay with both kinds of trees, back to back |
//! | compare | the same measurements, loss, round trips and outages on a middle link, and how much is carried at most |
//! | knees | the loads on wires of 100 Mbit/s and hosts with a share of a processor |
//! | pastry | production nodes of `scribe` on generated networks: routes, trees, failures, state |
//!
//! All experiments except `pastry`, which is virtual, run in real time in network namespaces and need root.

mod bare;
mod capacity;
pub(super) mod claims;
mod compare;
mod far;
mod fig4;
mod fig5;
mod figures;
pub(super) mod knees;
mod loads;
mod native;
mod overlay;
pub(super) mod pastry;
mod site;
mod stats;
mod table;
mod talk;
mod verdicts;
mod view;

#[cfg(test)]
mod tests;

use super::Experiment;

/// All experiments of the paper, in its order.
pub(super) const EXPERIMENTS: &[&dyn Experiment] = &[
    &fig4::FIG4,
    &fig5::FIG5,
    &compare::COMPARE,
    &knees::KNEES,
    &pastry::PASTRY,
];
