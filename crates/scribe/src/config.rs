//! The settings that a node gets at its start, and the limits that it keeps.

use base::{Duration, NodeAddr};

/// The identity and settings of a node.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The address of the node.
    pub own: NodeAddr,
    /// The seed for the jitter of its timers and for its random choices.
    pub seed: u64,
    /// The times and limits.
    pub settings: Settings,
}

/// Times and limits.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The time between two beats to a neighbor.
    pub beat: Duration,
    /// The time of silence after which a neighbor has failed. It is three and a half beats: with one in ten messages
    /// lost, a beat and the question that follows it fail together with probability 0.1 · 0.19, and three such pairs in
    /// a row with 7e-6.
    pub silence: Duration,
    /// The first pause between two questions for rows of routing tables; the pause doubles.
    pub upkeep: Duration,
    /// The longest such pause.
    pub upkeep_most: Duration,
    /// The maximum number of groups that a node is in: with 64 bytes each, 16 MiB.
    pub groups_max: usize,
    /// The maximum number of groups in which one node may be a child of this node.
    pub groups_per_child_max: u32,
    /// The number of children of a group from which newcomers are handed to one of the children.
    pub children_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            beat: Duration::from_secs(1),
            silence: Duration::from_millis(3_500),
            upkeep: Duration::from_secs(2),
            upkeep_most: Duration::from_secs(60),
            groups_max: 262_144,
            groups_per_child_max: 131_072,
            children_max: 128,
        }
    }
}

/// The maximum number of children of a group if no child may take a newcomer, because the newcomer is closer to the id
/// than all of them.
pub(crate) const CHILDREN_HARD_MAX: usize = 1_024;
/// The maximum number of groups whose roots are wanted at the same time.
pub(crate) const LOCATES_MAX: usize = 16_384;
/// How long a root is kept up to date after the last request for it.
pub(crate) const LOCATE_LIFE: Duration = Duration::from_secs(30);
/// How often a known root is requested again: it moves when a closer node enters.
pub(crate) const LOCATE_AGAIN: Duration = Duration::from_secs(2);
/// How soon an unanswered question for a root is repeated.
pub(crate) const LOCATE_RETRY: Duration = Duration::from_millis(200);
/// The maximum number of nodes that are probed before they enter the leaf set: two full sides and what neighbors add,
/// 16 + 48.
pub(crate) const PROBES_MAX: usize = 64;
/// The maximum number of nodes that come into reach while this node enters, and that it handles afterwards.
pub(crate) const MET_MAX: usize = 1_024;
/// The maximum number of probes to one such node.
pub(crate) const PROBE_TRIES: u8 = 3;
/// How long the first probe waits for an answer; each further probe waits twice as long as the one before.
pub(crate) const PROBE_WAIT: Duration = Duration::from_millis(200);
/// The maximum number of failed nodes that are remembered. Other nodes' reports about them are not trusted.
pub(crate) const GONE_MAX: usize = 256;
/// For how long messages of a failed node count as old, because they were sent before it failed.
pub(crate) const GONE_HOLD: Duration = Duration::from_secs(1);
/// The maximum number of neighbors for which state is kept: parents, children and leaves.
pub(crate) const PEERS_MAX: usize = 16_384;
/// How long Joins and Leaves to one neighbor wait for further ones after the last message was sent.
pub(crate) const GATHER: Duration = Duration::from_millis(2);
/// The maximum number of pages of groups to one neighbor at a time: 64 · 1200 bytes.
pub(crate) const PAGES_MAX: usize = 64;
/// The number of unanswered Joins after which a neighbor counts as failed, if nothing else is heard from it.
pub(crate) const JOIN_TRIES: u8 = 4;
/// The longest pause between two Joins.
pub(crate) const JOIN_WAIT_MOST: Duration = Duration::from_secs(1);
/// The maximum number of refusals of one group that are remembered, so that other nodes are asked. After that there is
/// a pause.
pub(crate) const REFUSERS_MAX: usize = 8;
/// The maximum number of groups for which refusals are remembered: 60 bytes each, 1 MB.
pub(crate) const REFUSED_MAX: usize = 16_384;
/// How long a new Join waits at most if older Joins to the same parent are already waiting.
pub(crate) const JOIN_WAIT_NEW: Duration = Duration::from_millis(100);
/// The maximum number of nodes that a routed message may visit: even the 32 digits of an id would never need twice as
/// many.
pub(crate) const HOPS_MAX: u8 = 64;
/// The number of nodes closest to an id from which one is chosen for an alternative path.
pub(crate) const WAYS: usize = 4;
/// Number of beats in which the node reports to a parent that it shares no groups any more, until the parent agrees.
pub(crate) const LEAVING_BEATS: u8 = 4;
/// The maximum number of groups that one neighbor's digests may make this node look at between two beats. To repair a
/// difference in all of 131 072 groups takes about 5 passes over them.
pub(crate) const VISITS_MAX: u32 = 1 << 20;
/// The first pause before entering is tried again.
pub(crate) const ENTER_WAIT: Duration = Duration::from_millis(250);
/// The longest such pause.
pub(crate) const ENTER_WAIT_MOST: Duration = Duration::from_secs(4);
