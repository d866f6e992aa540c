//! The paper's claims about Pastry and Scribe, and this project's own goals for them. All of them are judged with the
//! engine in the simulator; a claim whose paper is about the system says so.

use crate::experiment::{ClaimText, claim};

const ID: &str = "brogle09/pastry";

/// All claims.
pub(in crate::experiment) const CLAIMS: &[ClaimText] = &[
    claim(
        ID,
        "ids-uniform",
        "Brogle09 §I",
        "When peers join the network, they chose a random (uniformly distributed) and unique ID",
        "no two alike; first digits within χ² < 30.6 (15 degrees of freedom, 1 %) on every network",
    ),
    claim(
        ID,
        "prefix-per-hop",
        "Brogle09 §I",
        "On each hop from source to destination, one or more prefixes of the message's destination address are matched",
        "a longer prefix on at least 90 % of hops before the last",
    ),
    claim(
        ID,
        "log-hops",
        "Brogle09 §I, its [10], [12]",
        "routing is performed using Plaxton's method",
        "mean hops ≤ ⌈log₁₆ N⌉ for every N",
    ),
    claim(
        ID,
        "hop-delay",
        "Brogle09 §I",
        "while trying to minimize intermediate hop-delay",
        "the first hop of a route shorter than half the way between two random nodes, at 1000 nodes and more",
    ),
    claim(
        ID,
        "neighbourhood",
        "Brogle09 §I",
        "Peers know more peers in their ID neighborhood than peers further away on the ring",
        "a larger share of the nearest sixteenth of the ring is known than of the rest",
    ),
    claim(
        ID,
        "root-closest",
        "Brogle09 §I",
        "the root for a topic is the Pastry peer numerically closest to the topic ID",
        "every route ends at, and every tree is rooted in, the closest node that lives",
    ),
    claim(
        ID,
        "reverse-path",
        "Brogle09 §I",
        "The reverse of this path is the dissemination path for the multicast messages",
        "the tree's path of at least 95 % of the members is their route to the root",
    ),
    claim(
        ID,
        "scales-participants",
        "Brogle09 §I",
        "Scribe/Pastry scales well for a large number of participants",
        "of the engine alone: nodes that a node knows grow as log₁₆ N: at most 15·⌈log₁₆ N⌉ + 32 in the mean",
    ),
    claim(
        ID,
        "scales-groups",
        "Brogle09 §I",
        "Scribe/Pastry scales well for a large number of … multicast groups",
        "of the engine alone: 100 000 groups of one node: at most 64 bytes each beside the children, and messages per second no more than one per neighbour and beat above those without groups",
    ),
    claim(
        ID,
        "self-organizing",
        "Brogle09 Abstract",
        "a self-organizing Overlay Multicast infrastructure",
        "of the engine alone: a tenth of all nodes dies: every living member is served again within 1 s after the overlay notices",
    ),
    claim(
        ID,
        "self-organizing-alone",
        "Brogle09 Abstract",
        "a self-organizing Overlay Multicast infrastructure",
        "the same by heart-beats alone: within 10 s, and every leaf set is right",
    ),
    claim(
        ID,
        "core-delay",
        "Brogle09 §I",
        "Scribe is a core based Overlay Multicast infrastructure",
        "of the engine alone: mean delay by way of the root less than twice that of the source tree, on both networks at the largest N",
    ),
    claim(
        ID,
        "core-stress",
        "Brogle09 §I",
        "Scribe is a core based Overlay Multicast infrastructure",
        "mean copies on a link that is used below 3, on both networks at the largest N (source trees: 1)",
    ),
    claim(
        ID,
        "each-once",
        "Brogle09 §II",
        "tunneled … and then disseminated among the group subscribers",
        "walking branches from the root, each member is reached exactly once",
    ),
];
