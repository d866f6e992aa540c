//! Pure graph algorithms over the link-state database: a snapshot and a question in, paths and
//! the reason out.
//!
//! ```text
//!   link-state records ──▶ Topology ──▶ spf::Tree (one per metric) ──▶ table::Tables ──▶ next hop
//!        (from, to,           │              ▲ update: only what a change touches
//!         LinkCost)           └──▶ explain::answer ──▶ path, runners-up, all numbers
//! ```
//!
//! - [`metric`]: what a link costs, in whole numbers, so that every node of a network computes the
//!   same routes from the same records, to the last bit.
//! - [`topology`]: the directed graph, by dense indices.
//! - [`spf`]: shortest-path trees, from scratch and incrementally.
//! - [`width`]: paths whose narrowest link is wide, for bulk data.
//! - [`pipeline`], [`stripes`]: where to relay on a path, by connections in a row and side by side.
//! - [`plan`]: how to move bulk data from here to there, from all of these.
//! - [`table`]: the next hop to every destination, for each metric in use.
//! - [`paths`]: single paths, and the next shortest ones.
//! - [`explain`]: why packets go where they go, and what would be if links were otherwise.
//! - [`disjoint`]: k paths that share no node, of the least total cost.
//! - [`dissemination`]: one path while the network is calm, more links where there is trouble.
//! - [`protection`]: what the protection of a link leaves lost, by the time that packets have left.
//! - [`delivery`]: which share of the packets on a path arrives in time under real-time recovery.
//! - [`best`]: the path that delivers the most in time, proved, and the routing study around it.
//! - [`redundant`]: two ways from a source to each node, as far apart as the network lets them be.
//! - [`mod@reference`]: whose clock the nodes go by.
//! - [`stamp`]: the links of some paths together, as a source stamps them.
//! - [`generate`]: networks to try all this on.
//!
//! ```text
//!   Topology + Question ──▶ best_route ──▶ path, what it delivers, what none can exceed
//!   Topology + k        ──▶ disjoint   ──▶ paths ──▶ stamp::Subgraph
//! ```
//!
//! Additive metrics are safe to route by table, hop by hop: every cost is positive, so the
//! distance to the destination falls at each hop and no packet comes by twice. Ties are broken by
//! node address alone, in such a way that the hops which the nodes choose one by one are the path
//! which the source sees in its own tree (see [`spf`]). Best routes, disjoint and wide paths are not
//! safe by table: the source stamps them.
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
