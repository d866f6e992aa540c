//! What the paper says: every sentence of [Liu04 §V] that holds a number or a comparison, those of
//! §III that its figures show, and those of §VI that can be tested, with the experiment that judges
//! each.
//!
//! The list is older than the experiments and is not made from their results. The figures' curves are
//! not in the text, so nothing is held against their numbers.

use crate::experiment::{ClaimText, claim};

/// All claims of the paper, in its order.
pub(crate) const CLAIMS: &[ClaimText] = &[
    // §III: pipelines.
    claim(
        "liu04/fig8",
        "bound",
        "Liu04 §III-A",
        "the throughput of a pipeline of sequential TCP connections is bounded from above by the \"slowest\" link",
        "at most the rate of one connection over the slowest link alone, and a quarter for chance",
    ),
    claim(
        "liu04/fig8",
        "non-decreasing",
        "Liu04 §III-B",
        "T*[n,m] is a non-decreasing function of m",
        "the model's rate never falls with one more connection",
    ),
    // §V.
    claim(
        "liu04/fig8",
        "back-pressure",
        "Liu04 §V",
        "sender side TCP can adjust the maximum window size and stop sending data when the receiver's TCP buffer is full",
        "relays hold no more than their buffers",
    ),
    claim(
        "liu04/fig8",
        "similar",
        "Liu04 §V",
        "we performed these experiments several times and got similar results each time",
        "hop by hop, each run within 35 % of their mean",
    ),
    claim(
        "liu04/fig8",
        "setup-links",
        "Liu04 §V-A",
        "a chain topology which consists of 6 duplex links; each link has a capacity of 20Mbps and a 10ms propagation delay",
        "6 links, 20 Mbit/s, 10 ms",
    ),
    claim(
        "liu04/fig8",
        "setup-background",
        "Liu04 §V-A",
        "on each link we add 40, 80 or 120 background TCP flows from one end of the link to the other",
        "40, 80, 120",
    ),
    claim(
        "liu04/fig8",
        "most-congested",
        "Liu04 §V-A",
        "links with 120 background TCP flows are the most congested links and those with 40 background TCP flows are the \
         least congested",
        "every link with more flows loses a larger share",
    ),
    claim(
        "liu04/fig8",
        "negligible",
        "Liu04 §V-A",
        "the number of the background TCP flows is large enough to ignore TCP pipeline's impact on link loss rates",
        "hop by hop, no link's loss is off by more than 5 %",
    ),
    claim(
        "liu04/fig8",
        "rises",
        "Liu04 §V-A, Fig. 8",
        "the throughput increases as the number of relay nodes increases",
        "more with each relay, 0 to 5",
    ),
    claim(
        "liu04/fig8",
        "boost",
        "Liu04 §V-A, Fig. 8",
        "which shows the performance boost brought by TCP pipelining",
        "hop by hop more than one connection",
    ),
    claim(
        "liu04/fig9",
        "similar",
        "Liu04 §V",
        "we performed these experiments several times and got similar results each time",
        "in every network the pairs gain in the mean",
    ),
    claim(
        "liu04/fig9",
        "setup-network",
        "Liu04 §V-B",
        "our underlying network consists of 50 nodes and 217 edges; all links have the same capacity of 10Mbps; we randomly \
         choose 20 nodes to form an overlay network",
        "50, 217, 10 Mbit/s, 20",
    ),
    claim(
        "liu04/fig9",
        "setup-losses",
        "Liu04 §V-B",
        "the loss rate is randomly set between 0 and 0.02",
        "0 to 2 %",
    ),
    claim(
        "liu04/fig9",
        "unchanged",
        "Liu04 §V-B",
        "the widest paths do not change every time the upper limit increases",
        "each pair keeps its path at some step",
    ),
    claim(
        "liu04/fig9",
        "same-from-7",
        "Liu04 §V-B",
        "and keep the same when the upper limit is larger than 7",
        "no widest path has more than 7 hops",
    ),
    claim(
        "liu04/fig9",
        "one-hop",
        "Liu04 §V-B",
        "when the maximum hops is set to 1, the underlying path between the sender and the receiver is used",
        "one connection",
    ),
    claim(
        "liu04/fig9",
        "wider",
        "Liu04 §V-B",
        "when the limit on the maximum relay hops used is increased, wider relay paths can be found",
        "no path gets narrower, every pair's gets wider",
    ),
    claim(
        "liu04/fig9",
        "trend",
        "Liu04 §V-B, Fig. 9",
        "and the achieved throughput shows an obvious increasing trend",
        "most pairs gain half or more from 1 to 8 hops",
    ),
    claim(
        "liu04/fig9",
        "order",
        "goal, after Liu04 §III-A",
        "a path that is wider by the model carries more",
        "by the formula with timeouts, no step to a wider path carries less, 5 % for chance",
    ),
    claim(
        "liu04/fig10",
        "width-logical",
        "Liu04 Fig. 10(a)",
        "width of a shortest width-constrained path decreases as we relax the width constraint",
        "never rises with the margin, for each pair",
    ),
    claim(
        "liu04/fig10",
        "hops-logical",
        "Liu04 Fig. 10(b)",
        "logical hop count of a shortest width-constrained path decreases as we relax the width constraint",
        "never rises with the margin, falls in the mean",
    ),
    claim(
        "liu04/fig10",
        "trade-logical",
        "Liu04 §V-B, Fig. 10",
        "as we relax the width requirement, we can find shorter path in terms of relay segments at the expense of smaller width",
        "most pairs have a shorter and narrower path at the largest margin",
    ),
    claim(
        "liu04/fig10",
        "similar-logical",
        "Liu04 §V",
        "we performed these experiments several times and got similar results each time",
        "in no network the paths get longer in the mean",
    ),
    claim(
        "liu04/fig11",
        "width-physical",
        "Liu04 Fig. 11(a)",
        "width of a shortest width-constrained path decreases as we relax the width constraint",
        "never rises with the margin, for each pair",
    ),
    claim(
        "liu04/fig11",
        "hops-physical",
        "Liu04 Fig. 11(b)",
        "physical hop count of a shortest width-constrained path decreases as we relax the width constraint",
        "never rises with the margin, falls in the mean",
    ),
    claim(
        "liu04/fig11",
        "trade-physical",
        "Liu04 §V-B, Fig. 11",
        "we observe the similar results when we use physical hop counts as the metric for the path length",
        "most pairs have a shorter and narrower path at the largest margin",
    ),
    claim(
        "liu04/fig11",
        "similar-physical",
        "Liu04 §V",
        "we performed these experiments several times and got similar results each time",
        "in no network the paths get longer in the mean",
    ),
    // §VI: impact on the underlay network.
    claim(
        "liu04/impact",
        "small-portion",
        "Liu04 §VI",
        "an application level relay has negligible impact on the underlay network; this can be justified when the amount of \
         traffic employing application relay constitutes a small portion of the total network traffic",
        "one relayed transfer beside 20 flows on each link takes 6 % of their goodput or less",
    ),
    claim(
        "liu04/impact",
        "away",
        "Liu04 §VI",
        "traffic is routed away from the most congested links; application level relays in fact help achieve network load \
         balancing",
        "load more even, and less loss on the congested link, when users are relayed around it",
    ),
    claim(
        "liu04/impact",
        "local-recovery",
        "Liu04 §VI",
        "the local recovery eliminates unnecessary packet retransmissions on all links along an end-end path triggered by packet \
         losses on just one link",
        "fewer packets on the links for a delivered segment, at each rate of errors on the last link",
    ),
    claim(
        "liu04/impact",
        "wireless",
        "Liu04 §VI",
        "this saving is significant especially when there are wireless links on the path",
        "5 % or more of all packets with 10 % errors on the last of six links",
    ),
    claim(
        "liu04/impact",
        "feedback",
        "Liu04 §VI",
        "TCP connections on relay segments experience much smaller feedback delays and reacts faster than end-end connections",
        "90 % of what a stream leaves is taken earlier",
    ),
    claim(
        "liu04/impact",
        "local-rate",
        "Liu04 §VI",
        "local rate control is more efficient in obtaining available bandwidth",
        "more of the capacity is used after the stream has ended",
    ),
    claim(
        "liu04/impact",
        "stability",
        "Liu04 §VI",
        "and at the same time helps to maintain network stability",
        "",
    ),
    claim(
        "liu04/impact",
        "caching",
        "Liu04 §VI",
        "for some data intensive applications, such as multicast and web server caching, an application relay can greatly reduce \
         the amount the traffic crossing the network",
        "",
    ),
    claim(
        "liu04/impact",
        "better",
        "Liu04 §VI",
        "application relay users can achieve better performance than regular users",
        "more goodput than end to end over the same path",
    ),
    claim(
        "liu04/impact",
        "fairness",
        "Liu04 §VI",
        "splitting a long connection into multiple smaller connections actually provides better fairness in a MANET",
        "Jain's index over all flows is higher when long transfers are relayed",
    ),
    claim(
        "liu04/impact",
        "users-of-congested",
        "Liu04 §VI",
        "by moving traffic to less congested path, application relays in fact help to improve the performance of those regular \
         users that have to use the congested path",
        "more goodput for ordinary flows when users are relayed around",
    ),
    claim(
        "liu04/impact",
        "parallel",
        "Liu04 §VI",
        "parallel TCP breaks, at the application layer, the fairness that TCP tries to maintain at the transport layer",
        "a user with 16 connections has more than twice an ordinary flow's goodput",
    ),
    // What real relays have to reach.
    claim(
        "liu04/real",
        "real-gain",
        "goal, after Liu04 §III-A",
        "the pipeline of n connections carries n·√n times as much as one from end to end",
        "six links, Reno: at least 8 times (the model has 14.7, before capacities limit)",
    ),
    claim(
        "liu04/real",
        "real-slowest",
        "goal, after Liu04 §III-A",
        "a pipeline carries what its slowest segment carries",
        "at least 90 % of what one connection over the slowest link carries alone",
    ),
    claim(
        "liu04/real",
        "real-predicted",
        "goal",
        "what a transfer will achieve is known before it, by the probe",
        "six lossy links, Reno: predicted within 20 % of achieved",
    ),
    claim(
        "liu04/real",
        "real-capacity",
        "goal",
        "what a transfer will achieve is known before it, by the probe, where capacity limits",
        "one link of 8 Mbit/s, no losses, each congestion control: predicted within 20 % of achieved, and at least 90 % of what \
         one connection over the slowest link carries alone",
    ),
    claim(
        "liu04/real",
        "real-stripes",
        "goal, after Liu04 §III-C",
        "stripes on the worst segment lift the end-to-end rate as the optimum predicts",
        "within 15 % of the optimum over the rates of single connections",
    ),
    // What a copy has to reach on kinds of links as users have them.
    claim(
        "liu04/kinds",
        "kinds-predicted",
        "goal",
        "a copy has what was predicted after the probe",
        "achieved within 25 % of the prediction, in each cell",
    ),
    claim(
        "liu04/kinds",
        "kinds-best",
        "goal",
        "no other placement would have been much faster",
        "at least 0.9 times the best of all placements tried, in each cell",
    ),
    claim(
        "liu04/kinds",
        "kinds-round-trip",
        "goal",
        "where one connection is enough, a copy does no more to others than one connection does",
        "in each cell where single connections are within 3 % of the best: at most 20 ms more in the mean round trip of any link",
    ),
    claim(
        "liu04/kinds",
        "kinds-gigabit",
        "goal",
        "the same over a link of 1 Gbit/s, 80 ms and 0.01 % loss",
        "within 25 % of the prediction and at least 0.9 times the best; runs have 300 Mbit/s unless --set mbit=1000 says otherwise",
    ),
    claim(
        "liu04/scavenge",
        "scavenge-voice",
        "goal",
        "a copy that scavenges does not hurt calls on the same link",
        "5 calls on 2, 20 and 200 Mbit/s lose at most 0.02 MOS, the worse direction",
    ),
    claim(
        "liu04/scavenge",
        "scavenge-ping",
        "goal",
        "nor the round trips of others",
        "at most 15 ms more in the mean, beside these calls",
    ),
    claim(
        "liu04/scavenge",
        "scavenge-share",
        "goal",
        "and it uses what the calls leave",
        "at least 85 % of what 5 calls leave, at each rate",
    ),
    claim(
        "liu04/scavenge",
        "scavenge-alone",
        "goal",
        "alone it uses the link",
        "at least 90 % of the link, at each rate",
    ),
];
