//! Pure graph algorithms over the link-state database. The input is a snapshot and a question; the output is paths and
//! the reason for them.
//!
//! ```text
//!   link-state records ──▶ Topology ──▶ spf::Tree (one per metric) ──▶ table::Tables ──▶ next hop
//!        (from, to,           │              ▲ update: only what a change touches
//!         LinkCost)           └──▶ explain::answer ──▶ path, runners-up, all numbers
//! ```
//!
//! - [`metric`]: the costs of a link, in whole numbers. So every node of a network computes the same routes from the
//!   same records, to the last bit.
//! - [`topology`]: the directed graph, with dense indices.
//! - [`spf`]: shortest-path trees, computed from scratch and incrementally.
//! - [`width`]: paths whose narrowest link is wide, for bulk data.
//! - [`pipeline`], [`stripes`]: where to relay on a path, with connections in a row and side by side.
//! - [`plan`]: how to move bulk data from one node to another, built from all of these.
//! - [`table`]: the next hop to every destination, for each metric in use.
//! - [`paths`]: single paths, and the next shortest paths.
//! - [`explain`]: why packets take their path, and which path they would take if links were different.
//! - [`disjoint`]: k paths that share no node, with the least total cost.
//! - [`dissemination`]: one path while the network is calm, and more links where there is trouble.
//! - [`protection`]: the loss that remains under the protection of a link, as a function of the time that packets have
//!   left.
//! - [`delivery`]: the share of the packets on a path that arrives in time under real-time recovery.
//! - [`best`]: the path that delivers the most packets in time, with a proof, and the routing study around it.
//! - [`redundant`]: two paths from a source to each node, as far apart as the network allows.
//! - [`mod@reference`]: the node whose clock the network follows.
//! - [`stamp`]: the links of several paths together, in the form that a source stamps into packets.
//! - [`generate`]: artificial networks to try these algorithms on.
//!
//! ```text
//!   Topology + Question ──▶ best_route ──▶ path, what it delivers, what none can exceed
//!   Topology + k        ──▶ disjoint   ──▶ paths ──▶ stamp::Subgraph
//! ```
//!
//! Additive metrics are safe to route by table, hop by hop: every cost is positive, so the distance to the destination
//! falls at each hop and no packet visits a node twice. Ties are broken by node address alone. Because of this, the
//! hops that the nodes choose one by one form the same path that the source sees in its own tree (see [`spf`]). Best
//! routes, disjoint paths and wide paths are not safe by table: the source stamps them.
#![forbid(unsafe_code)]

pub mod best;
pub mod delivery;
pub mod disjoint;
pub mod dissemination;
pub mod explain;
pub mod generate;
pub mod metric;
pub mod paths;
pub mod pipeline;
pub mod plan;
pub mod protection;
pub mod redundant;
pub mod reference;
pub mod spf;
pub mod stamp;
pub mod stripes;
pub mod table;
pub mod topology;
pub mod width;

pub use metric::{Cost, LinkCost, Metric, Parameters};
pub use topology::{Change, NodeIndex, Topology};
