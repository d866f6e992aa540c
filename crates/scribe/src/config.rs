//! What a node is told at its start, and the limits that it keeps.

use base::{Duration, NodeAddr};

/// Who a node is.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Its address.
    pub own: NodeAddr,
    /// The seed of its timers' jitter and its choices.
    pub seed: u64,
    /// Times and limits.
    pub settings: Settings,
}

/// Times and limits.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Between two beats to a neighbour.
    pub beat: Duration,
    /// A neighbour that was not heard for so long has failed. Three beats and a half: with one in
    /// ten messages lost, a beat and the question that follows it fail together with probability
    /// 0.1 · 0.19, and three such in a row with 7e-6.
    pub silence: Duration,
    /// The first pause between two questions for rows of routing tables; it doubles.
    pub upkeep: Duration,
    /// The longest such pause.
    pub upkeep_most: Duration,
    /// Groups that a node is in: with 64 bytes each, 16 MiB.
    pub groups_max: usize,
    /// Groups in which one node may be child here.
    pub groups_per_child_max: u32,
    /// Children of a group before newcomers are handed to one of them.
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

/// Children of a group when none of them may take a newcomer: it is closer to the id than all.
pub(crate) const CHILDREN_HARD_MAX: usize = 1_024;
/// Groups whose roots are wanted at the same time.
pub(crate) const LOCATES_MAX: usize = 16_384;
/// How long a root is kept up to date after it was last asked for.
pub(crate) const LOCATE_LIFE: Duration = Duration::from_secs(30);
/// How often a known root is asked for again: it moves when a closer node enters.
pub(crate) const LOCATE_AGAIN: Duration = Duration::from_secs(2);
/// How soon an unanswered question for a root is asked again.
pub(crate) const LOCATE_RETRY: Duration = Duration::from_millis(200);
/// Nodes whose answer is waited for before they enter the leaf set: two full sides and what
/// neighbours add, 16 + 48.
pub(crate) const PROBES_MAX: usize = 64;
/// Nodes that come into reach while this one enters, and are looked at afterwards.
pub(crate) const MET_MAX: usize = 1_024;
/// Questions to one such node.
pub(crate) const PROBE_TRIES: u8 = 3;
/// How long the first of them waits; then twice as long, and again.
pub(crate) const PROBE_WAIT: Duration = Duration::from_millis(200);
/// Nodes that failed and are not believed from hearsay.
pub(crate) const GONE_MAX: usize = 256;
/// For how long what a node says after it failed is taken for old: it was on its way.
pub(crate) const GONE_HOLD: Duration = Duration::from_secs(1);
/// Neighbours of which state is kept: parents, children and leaves.
pub(crate) const PEERS_MAX: usize = 16_384;
/// How long Joins and Leaves to one neighbour wait for others after the last ones went.
pub(crate) const GATHER: Duration = Duration::from_millis(2);
/// Pages of groups to one neighbour at a time: 64 · 1200 bytes.
pub(crate) const PAGES_MAX: usize = 64;
/// Joins that a neighbour leaves unanswered before it counts as failed, if nothing else is heard.
pub(crate) const JOIN_TRIES: u8 = 4;
/// The longest pause between two of them.
pub(crate) const JOIN_WAIT_MOST: Duration = Duration::from_secs(1);
/// Refusals of one group that are remembered, so that others are asked: then there is a pause.
pub(crate) const REFUSERS_MAX: usize = 8;
/// Groups of which refusals are remembered: 60 bytes each, 1 MB.
pub(crate) const REFUSED_MAX: usize = 16_384;
/// How long a new Join waits at most, when older ones to the same parent wait already.
pub(crate) const JOIN_WAIT_NEW: Duration = Duration::from_millis(100);
/// Nodes that a routed message may come by: twice the 32 digits would never be needed.
pub(crate) const HOPS_MAX: u8 = 64;
/// Of how many nodes that are closest to an id one is chosen for another way there.
pub(crate) const WAYS: usize = 4;
/// Beats in which a parent is told that nothing is left, until it agrees.
pub(crate) const LEAVING_BEATS: u8 = 4;
/// Groups that one neighbour's digests may let this node look at between two beats. Mending a
/// difference in all of 131 072 groups takes about 5 passes over them.
pub(crate) const VISITS_MAX: u32 = 1 << 20;
/// How often entering is tried again, at first and at most.
pub(crate) const ENTER_WAIT: Duration = Duration::from_millis(250);
/// The longest pause.
pub(crate) const ENTER_WAIT_MOST: Duration = Duration::from_secs(4);
