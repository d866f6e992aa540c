//! What the paper says: every sentence of [Brogle09 §IV] that holds a number or a comparison, with
//! the numbers of the abstract, of the set-up (§III) and of the conclusion (§V), and the experiment
//! that judges it.
//!
//! The list is older than the experiments and is not made from their results. "Load N" is a row of
//! Table I. Where a sentence has no number, the number beside it is our reading, fixed beforehand:
//! "high losses" and "unacceptable" are more than 1 %, "carried" is less than 0.1 %, "acceptable"
//! is the paper's own 10 ms.

use crate::experiment::ClaimText;

const FIG4: &str = "brogle09/fig4";
const FIG5: &str = "brogle09/fig5";
const COMPARE: &str = "brogle09/compare";

/// One claim: experiment, key, source, the words, what they mean as a number.
const fn claim(
    experiment: &'static str,
    key: &'static str,
    source: &'static str,
    text: &'static str,
    expected: &'static str,
) -> ClaimText {
    ClaimText {
        experiment,
        key,
        source,
        text,
        expected,
    }
}

/// All claims of the paper, in its order.
pub(crate) const CLAIMS: &[ClaimText] = &[
    // §III-A: what was built.
    claim(
        FIG4,
        "setup-chain",
        "Brogle09 §III-A, Fig. 2",
        "a chain topology consisting of four hosts; each host has an out-degree of one",
        "4 routers, out-degree 1",
    ),
    claim(
        FIG4,
        "setup-tree",
        "Brogle09 §III-A, Fig. 3",
        "a tree topology with the maximum tree depth of four: three hosts have an out-degree of two, the remaining four an out-degree of one",
        "7 routers, depth 4, three of out-degree 2, four of 1",
    ),
    claim(
        FIG4,
        "setup-loads",
        "Brogle09 §III-B, Table I",
        "payloads of 32, 512 and 1024 bytes, five loads each from 1.0 to 84.8 Mbps, at most 130000 packets",
        "15 loads with the table's packet counts",
    ),
    // §IV-A: native IP multicast.
    claim(
        FIG4,
        "chain-loss",
        "Brogle09 §IV-A, Fig. 4(a)",
        "the measurements with the chain topology show a very small packet loss below 0.2%",
        "loss < 0.2 % in all 15 loads",
    ),
    claim(
        FIG4,
        "chain-loss-small",
        "Brogle09 §IV-A, Fig. 4(a)",
        "most of the packets are lost in case of a packet payload of 32 bytes and higher bandwidth values",
        "the largest loss is at 32 bytes, 24.8 or 49.6 Mbps",
    ),
    claim(
        FIG4,
        "chain-loss-rate",
        "Brogle09 §IV-A, Fig. 4(a)",
        "there is a high loss for high packet rates (small packet payload and high bandwidth)",
        "load 5 loses more than the mean of all",
    ),
    claim(
        FIG4,
        "chain-loss-1024",
        "Brogle09 §IV-A, Fig. 4(a)",
        "for a payload of 1024 bytes, the packet loss rate starts just below 0.2% and then falls down towards 0% for higher bandwidth values",
        "load 11 at 0.1 to 0.2 %, loads 12 to 15 less and falling",
    ),
    claim(
        FIG4,
        "chain-one-packet",
        "Brogle09 §IV-A",
        "for low bandwidth values only a few hundred packets are sent and a single dropped packet has a significant impact on the percentage value",
        "1 of 600 packets is 0.17 %",
    ),
    claim(
        FIG4,
        "chain-latency-load",
        "Brogle09 §IV-A, Fig. 4(b)",
        "the network load has almost no influence on the latency, with negligible differences",
        "per payload the mean's range over loads < 25 % of it",
    ),
    claim(
        FIG4,
        "chain-latency-size",
        "Brogle09 §IV-A, Fig. 4(b)",
        "the delay increases as the payload size increases",
        "mean at 1024 > 512 > 32 bytes",
    ),
    claim(
        FIG4,
        "tree-leaves",
        "Brogle09 §IV-A",
        "the packet losses for P1, P4, P6 and P7 (leaf hosts) were equal",
        "losses of the four leaves within 0.05 points",
    ),
    claim(
        FIG4,
        "tree-loss",
        "Brogle09 §IV-A, Fig. 4(c)",
        "compared to the chain topology, packet loss does not change significantly",
        "tree's loss within 0.1 points of the chain's in each load",
    ),
    claim(
        FIG4,
        "tree-loss-large",
        "Brogle09 §IV-A, Fig. 4(c)",
        "for configurations with higher payload, the packet loss increases a little",
        "tree's loss at 1024 bytes above the chain's, by less than 0.2 points",
    ),
    claim(
        FIG4,
        "tree-loss-1024",
        "Brogle09 §IV-A, Fig. 4(c)",
        "the drop rate behavior for low bandwidth values and for a payload of 1024 bytes is as described in the chain topology",
        "load 11 at 0.1 to 0.2 %, loads 12 to 15 less and falling",
    ),
    claim(
        FIG4,
        "tree-latency-size",
        "Brogle09 §IV-A, Fig. 4(d)",
        "the average delay is now similar for different payload values",
        "means over loads of the three payloads within 25 %",
    ),
    claim(
        FIG4,
        "tree-jitter",
        "Brogle09 §IV-A, Fig. 4(d)",
        "two configurations (traffic characteristics 5 and 10) have a larger jitter than the average; their delay values have a much higher variance",
        "deviation at loads 5 and 10 above that of the other loads' mean, twice at least",
    ),
    claim(
        FIG4,
        "tree-jitter-small",
        "Brogle09 §IV-A, Fig. 4(d)",
        "for such configurations with a small payload and a high network load, the jitter seems to increase",
        "deviation at load 5 above load 1's",
    ),
    // §IV-B: IP multicast tunneled through an overlay network.
    claim(
        FIG5,
        "sizes",
        "Brogle09 §IV-B",
        "the Multicast Middleware generally handles packet sizes of 512 and 1024 bytes very well, while the smaller packet size of 32 bytes together with high bandwidth lead to a high packet drop rate",
        "chain: loss < 0.2 % at 512 and 1024 bytes, > 1 % at load 5",
    ),
    claim(
        FIG5,
        "chain-loss-1024",
        "Brogle09 §IV-B, Fig. 5(a)",
        "packet loss in the chain topology for 1024 bytes packet payload is between 0% and 0.04%",
        "loss <= 0.04 % in loads 11 to 15",
    ),
    claim(
        FIG5,
        "chain-drops",
        "Brogle09 §IV-B, Fig. 5(a)",
        "packet drops occur for 32 bytes packet payload with more than 10 Mbps and 512 bytes packet payload with 75.2 Mbps",
        "drops in loads 4, 5 and 9 and none up to load 3",
    ),
    claim(
        FIG5,
        "chain-18000",
        "Brogle09 §IV-B, §V",
        "the Multicast Middleware seems to be able to process around 18000 incoming packets per second in the chain scenario before it starts to drop packets",
        "the highest load of the table carried with < 0.1 % loss >= 18000 packets/s",
    ),
    claim(
        FIG5,
        "chain-streams",
        "Brogle09 §IV-B",
        "the Multicast Middleware has to process two packet streams in the chain topology, the incoming and the outgoing stream",
        "1 in, 1 out per node",
    ),
    claim(
        FIG5,
        "chain-acceptable-32",
        "Brogle09 §IV-B, Fig. 5(b)",
        "the delays are acceptable (meaning below 10 ms) for bandwidth values of 10 Mbps and below and a payload of 32 bytes",
        "mean < 10 ms in loads 1 to 3",
    ),
    claim(
        FIG5,
        "chain-acceptable-large",
        "Brogle09 §IV-B, Fig. 5(b)",
        "for 512 and 1024 bytes payloads, the latencies are acceptable for all bandwidth values used",
        "mean < 10 ms in loads 6 to 15",
    ),
    claim(
        FIG5,
        "chain-decreasing",
        "Brogle09 §IV-B, Fig. 5(b)",
        "the latencies between 1 to 10 Mbps are decreasing for increasing bandwidth",
        "mean of load 1 > load 2 > load 3",
    ),
    claim(
        FIG5,
        "chain-wakeups",
        "Brogle09 §IV-B",
        "scenarios 1 to 3 result in higher latency for lower packet rates: waking up a thread produces additional latency",
        "latency above native: load 1 > load 3",
    ),
    claim(
        FIG5,
        "chain-wakeups-large",
        "Brogle09 §IV-B",
        "the impact of multithreading on the overall latency is reduced when the packet size is increased: smaller additional latency values in scenarios 6 to 8 and 11 to 13",
        "range of the latency above native over loads 6 to 8 and 11 to 13 below that over 1 to 3",
    ),
    claim(
        FIG5,
        "chain-100mbps",
        "Brogle09 §IV-B",
        "the results in the chain topology with 1024 bytes correspond to the previously determined bandwidth limit of 100 Mbps [total network traffic] with acceptable packet loss",
        "load 13 (2 x 49.6 Mbps) carried with < 0.1 % loss",
    ),
    claim(
        FIG5,
        "tree-loss",
        "Brogle09 §IV-B, Fig. 5(c)",
        "in the tree topology packet loss is at an unacceptable level for 10 Mbps and more with 32 bytes packet payload, above 24.6 Mbps for 512 bytes and more than 49.6 Mbps for 1024 bytes",
        "loss > 1 % in loads 3 to 5, 8 to 10, 14 and 15",
    ),
    claim(
        FIG5,
        "tree-9000",
        "Brogle09 §IV-B, §V",
        "in the tree topology, the Multicast Middleware seems to be able to process at least 9000 incoming packets per second, before it starts to drop packets",
        "the highest load of the table carried with < 0.1 % loss at every leaf >= 9000 packets/s, or the next lower of the table",
    ),
    claim(
        FIG5,
        "tree-streams",
        "Brogle09 §IV-B",
        "in the tree topology, the Multicast Middleware has to process three packet streams, one incoming, and two outgoing",
        "1 in, 2 out at three nodes",
    ),
    claim(
        FIG5,
        "tree-acceptable",
        "Brogle09 §IV-B, Fig. 5(d)",
        "acceptable delays (below 10 ms) for bandwidth values below 10 Mbps for 32 bytes, below 24.8 Mbps for 512 bytes and below 75.2 Mbps for a payload of 1024 bytes",
        "mean < 10 ms in loads 1, 2, 6, 11, 12, 13",
    ),
    claim(
        FIG5,
        "chain-flows",
        "Brogle09 §IV-B",
        "can process incoming packet flows in the chain topology up to 75.2 or 84.8 Mbps with a payload of 512 or 1024 bytes",
        "loss < 0.1 % in loads 9 and 15",
    ),
    claim(
        FIG5,
        "chain-limit-32",
        "Brogle09 §IV-B",
        "the limit is above 10 Mbps in the chain topology for packet payloads of 32 bytes",
        "loss < 0.1 % in load 3",
    ),
    claim(
        FIG5,
        "tree-flows",
        "Brogle09 §IV-B",
        "for the tree topology, incoming flows up to 10 Mbps for 32 bytes, up to 24.8 Mbps for 512 bytes, and up to 49.6 Mbps for 1024 bytes can be handled",
        "loss < 0.1 % in loads 2, 7 and 13",
    ),
    claim(
        FIG5,
        "order-of-magnitude",
        "Brogle09 §IV-B",
        "the Overlay Multicast latency measurements that were still acceptable are an order of a magnitude higher than with native IP Multicast",
        "mean over native's mean in the loads below 10 ms: 5 to 20",
    ),
    claim(
        FIG5,
        "chain-delay",
        "Brogle09 §IV-B",
        "average delays around 0.7 ms are still acceptable for the four hop chain scenario",
        "mean over the carried loads below 10 ms <= 0.7 ms",
    ),
    claim(
        FIG5,
        "tree-delay",
        "Brogle09 §IV-B",
        "in the tree topology, the average still usable delays are around 3 ms",
        "mean over the carried loads below 10 ms <= 3 ms",
    ),
    // §IV-C: the comparison.
    claim(
        COMPARE,
        "chain-1024",
        "Brogle09 §IV-C",
        "the loss rate in the chain topology does not behave very differently between native and overlay for a packet payload size of 1024 bytes",
        "within 0.2 points in loads 11 to 15",
    ),
    claim(
        COMPARE,
        "chain-512",
        "Brogle09 §IV-C",
        "for 512 bytes the values are in the same area up to 75.2 Mbps",
        "within 0.2 points in loads 6 to 9",
    ),
    claim(
        COMPARE,
        "chain-512-above",
        "Brogle09 §IV-C",
        "above this bandwidth [75.2 Mbps, 512 bytes], the Overlay Multicast scheme starts to have high losses",
        "overlay's loss > 1 % in load 10",
    ),
    claim(
        COMPARE,
        "chain-32",
        "Brogle09 §IV-C",
        "for 32 bytes, both scenarios behave quite similar up to a bandwidth of 10 Mbps",
        "within 0.2 points in loads 1 to 3",
    ),
    claim(
        COMPARE,
        "chain-32-above",
        "Brogle09 §IV-C",
        "then native IP Multicast gets only slightly worse with raising bandwidth, whereas the Overlay Multicast scenario has high losses above 10 Mbps",
        "native < 0.5 %, overlay > 1 % in loads 4 and 5",
    ),
    claim(
        COMPARE,
        "chain-delays",
        "Brogle09 §IV-C",
        "delays in the Overlay Multicast scenarios are much higher than for native IP Multicast",
        "overlay's mean at least twice native's in every load",
    ),
    claim(
        COMPARE,
        "tolerable",
        "Brogle09 §IV-C",
        "the introduced delay for most of the bandwidth and packet size scenarios is tolerable",
        "mean < 10 ms in more than half of the 30 loads",
    ),
    claim(
        COMPARE,
        "tree-limits",
        "Brogle09 §IV-C",
        "in the tree, overlay compared to native behaves almost the same, having the bandwidth limit below 24.8 Mbps for 32 bytes and below 75.2 Mbps for 512 and 1024 bytes",
        "tree: loss within 0.2 points of native in loads 1 to 3, 6 to 8, 11 to 13, more than 1 % in 4, 9, 14",
    ),
    claim(
        COMPARE,
        "tree-delays",
        "Brogle09 §IV-C",
        "compared to native IP Multicast, the delays [in the tree] are higher",
        "overlay's mean above native's in every load",
    ),
    claim(
        COMPARE,
        "tree-steady",
        "Brogle09 §IV-C",
        "[in the tree the delays] behave less steady and raise if the bandwidth is augmented",
        "deviation above native's, and the mean of loads 5, 10, 15 above that of 1, 6, 11",
    ),
    claim(
        COMPARE,
        "tree-tolerable",
        "Brogle09 §IV-C",
        "[the tree's delays] are still tolerable for many payload size and bandwidth combinations",
        "mean < 10 ms in at least half of the tree's loads",
    ),
    // Abstract and §V.
    claim(
        COMPARE,
        "abstract-throughput",
        "Brogle09 Abstract",
        "the achievable throughput can be quite high when using Overlay Multicast together with the IP Multicast API",
        "75.2 Mbps or more of 1024 bytes with < 0.1 % loss on the chain",
    ),
    claim(
        COMPARE,
        "abstract-latency",
        "Brogle09 Abstract",
        "the latency introduced by processing and tunneling the captured packets can be negligible",
        "below 1 ms above native in at least one load of each payload",
    ),
    claim(
        COMPARE,
        "conclusion-chain",
        "Brogle09 §V",
        "around 18000 incoming packets per second in the chain topology before it starts to drop packets at a significant level",
        "capacity at < 0.1 % loss, chain, 32 bytes >= 18000 packets/s",
    ),
    claim(
        COMPARE,
        "conclusion-tree",
        "Brogle09 §V",
        "at least 9000 incoming packets per second in the tree topology before it starts to drop packets at a significant level",
        "capacity at < 0.1 % loss at every leaf, tree, 32 bytes >= 9000 packets/s",
    ),
    claim(
        COMPARE,
        "conclusion-chain-1024",
        "Brogle09 §V",
        "incoming streams up to 75.2 Mbps with a packet payload size of 1024 bytes can be supported in the chain topology",
        "loss < 0.1 % in load 14, chain",
    ),
    claim(
        COMPARE,
        "conclusion-tree-1024",
        "Brogle09 §V",
        "at least incoming streams with 49.6 Mbps can be supported in the tree topology with the same payload",
        "loss < 0.1 % in load 13, tree",
    ),
    // Beyond the paper: what this project asks of itself beside native multicast.
    claim(
        COMPARE,
        "goal-loss",
        "goal, after Brogle09 §IV-C",
        "in the loads that native multicast carries, the overlay loses no more than native",
        "loss <= native + 0.05 points at every leaf",
    ),
    claim(
        COMPARE,
        "goal-latency",
        "goal, after Brogle09 §IV-B",
        "what the overlay adds to the latency is what waking as many forwarders adds",
        "added p50 <= 1.25 x that of as many bare epoll forwarders, in the loads that native carries",
    ),
    claim(
        COMPARE,
        "goal-capacity",
        "goal, after Brogle09 §V",
        "the overlay carries as many packets per second as native multicast on the same processors",
        "capacity at < 0.1 % loss >= native's, chain and tree, 32 and 1024 bytes",
    ),
    claim(
        COMPARE,
        "goal-repair",
        "goal",
        "under 1 % loss on a middle link the real-time class leaves next to nothing lost; native multicast cannot repair it",
        "overlay <= 0.03 % at every leaf, native about 1 % behind the link",
    ),
];
