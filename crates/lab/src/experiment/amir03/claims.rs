//! The claims of the paper: every sentence of [Amir03 §III-IV] that contains a number or a comparison, with the
//! experiment that judges it.
//!
//! The list is older than the experiments and does not depend on their results. The available copy of the paper begins
//! with Table I and ends with Figure 9: the part of §III before the table and the part of §IV after the figure are not
//! in it. Sentences about the paper's set-up are claims as in Amir06's list.

use crate::experiment::{ClaimText, claim};

/// All claims of the paper, in its order.
pub(crate) const CLAIMS: &[ClaimText] = &[
    // §III: simulation.
    claim(
        "amir03/table1",
        "tahoe",
        "Amir03 §III, Table I",
        "average latency under loss: Tahoe 407.49 ms",
        "407.49 ms, within 20 %",
    ),
    claim(
        "amir03/table1",
        "reno",
        "Amir03 §III, Table I",
        "average latency under loss: Reno 217.52 ms",
        "217.52 ms, within 20 %",
    ),
    claim(
        "amir03/table1",
        "newreno",
        "Amir03 §III, Table I",
        "average latency under loss: NewReno 155.76 ms",
        "155.76 ms, within 20 %",
    ),
    claim(
        "amir03/table1",
        "sack",
        "Amir03 §III, Table I",
        "average latency under loss: SACK 144.70 ms",
        "144.70 ms, within 20 %",
    ),
    claim(
        "amir03/table1",
        "fack",
        "Amir03 §III, Table I",
        "average latency under loss: Fack 84.66 ms",
        "84.66 ms, within 20 %",
    ),
    claim(
        "amir03/table1",
        "vegas",
        "Amir03 §III, Table I",
        "average latency under loss: Vegas 74.07 ms",
        "74.07 ms, within 20 %",
    ),
    claim(
        "amir03/table1",
        "redhat",
        "Amir03 §III, Table I",
        "average latency under loss: Redhat 7.1 90.06 ms",
        "90.06 ms",
    ),
    claim(
        "amir03/table1",
        "spines",
        "Amir03 §III, Table I",
        "average latency under loss: Spines 117.55 ms",
        "117.55 ms, within 20 %",
    ),
    claim(
        "amir03/table1",
        "order",
        "Amir03 §III, Table I",
        "Tahoe, Reno, NewReno, SACK, Fack, Vegas: from the highest average latency to the lowest",
        "each lower than the one before",
    ),
    claim(
        "amir03/fig3",
        "identical",
        "Amir03 §III",
        "our modified TCP and the original TCP-Fack in ns2 behave identically with respect to each packet on a \
         point-to-point connection under different loss rates",
        "the same delay for each packet",
    ),
    claim(
        "amir03/fig3",
        "setup-length",
        "Amir03 §III",
        "all the simulations in this section were run for 5000 seconds, sending 1000 byte messages",
        "5000 s, 1000 bytes",
    ),
    claim(
        "amir03/fig3",
        "faster",
        "Amir03 §III, Fig. 3",
        "the average delay for a 500 Kbps data stream increases faster with an end-to-end connection",
        "the end-to-end delay grows more from each loss rate to the next, 0 to 2 %",
    ),
    claim(
        "amir03/fig3",
        "low",
        "Amir03 §III, Fig. 3",
        "a hop-by-hop flow maintains a low average delay even when it experiences a considerable loss rate",
        "under 60 ms up to 2 %",
    ),
    claim(
        "amir03/fig4",
        "magnified",
        "Amir03 §III, Fig. 4",
        "this phenomenon is magnified as the throughput required by the flow increases (1000 Kbps)",
        "end to end over hop by hop: a larger ratio than at 500 kbit/s at every loss rate above 0",
    ),
    claim(
        "amir03/fig5",
        "higher",
        "Amir03 §III, Fig. 5",
        "the jitter of an end-to-end connection is considerably higher than the jitter of a hop-by-hop connection \
         for a 500 Kbps stream",
        "at least twice at every loss rate above 0",
    ),
    claim(
        "amir03/fig5",
        "faster",
        "Amir03 §III, Fig. 5",
        "and increases faster",
        "from the lowest loss rate to 2 % it grows by more ms",
    ),
    claim(
        "amir03/fig5",
        "jitter",
        "Amir03 §III",
        "we computed the jitter as the standard deviation of the packet delay",
        "standard deviation",
    ),
    claim(
        "amir03/fig6",
        "end-60",
        "Amir03 §III, Fig. 6",
        "for a 500 Kbps data stream under 1% loss rate, over 27% of the packets are delayed more than 60 \
         milliseconds (including the 50 milliseconds network delay) for an end-to-end connection",
        "27 %, within 20 %",
    ),
    claim(
        "amir03/fig6",
        "hop-60",
        "Amir03 §III, Fig. 6",
        "for a hop-by-hop connection only about 3% of the packets are delayed more than 60 milliseconds",
        "at most 3.5 %",
    ),
    claim(
        "amir03/fig6",
        "end-100",
        "Amir03 §III, Fig. 6",
        "about 18% of the packets are delayed more than 100 milliseconds by the end-to-end connection",
        "18 %, within 20 %",
    ),
    claim(
        "amir03/fig6",
        "hop-100",
        "Amir03 §III, Fig. 6",
        "for a hop-by-hop connection only 1% of the packets are delayed as much",
        "at most 1.5 %",
    ),
    claim(
        "amir03/fig7",
        "setup-latency",
        "Amir03 §III",
        "the same network of 50 milliseconds delay, hops from 1 to 10, the total path latency constant: two hops of \
         25 milliseconds each, then three hops of 16.66 milliseconds each, and so forth",
        "50 ms / hops",
    ),
    claim(
        "amir03/fig7",
        "setup-late",
        "Amir03 §III, Fig. 7",
        "the percentage of packets delayed more than 60 milliseconds (10 milliseconds more than the path latency) for a 500 \
         Kbps data stream with 1% and 2% packet loss",
        "60 ms, 500 kbit/s, 1 % and 2 %",
    ),
    claim(
        "amir03/fig7",
        "enough",
        "Amir03 §III, Fig. 7",
        "two to four hops appear to be sufficient to capture almost all of the benefit associated with hop-by-hop \
         reliability",
        "four hops take away at least 85 % of what ten do, at 1 % and 2 % loss",
    ),
    claim(
        "amir03/fig7",
        "latency",
        "Amir03 §III",
        "the important factor in obtaining better performance with hop-by-hop reliability is the latency of the lossy \
         link rather than the number of hops",
        "a lossy link of 10 ms among 2 hops is nearer to five equal hops than to two equal hops",
    ),
    claim(
        "amir03/fig7",
        "halving",
        "Amir03 §III",
        "increasing the number of hops from one to two reduces the latency of the lossy link by approximately 50 \
         percent (25 milliseconds in our case)",
        "25 ms, 50 %",
    ),
    claim(
        "amir03/fig7",
        "tenth",
        "Amir03 §III",
        "increasing the number of hops from nine to ten reduces the latency of the lossy link only by approximately 1 \
         percent (0.55 milliseconds)",
        "0.55 ms, 1 % of the path",
    ),
    // §IV: Spines.
    claim(
        "amir03/fig9",
        "setup",
        "Amir03 §IV, Fig. 9",
        "the throughput for a 10 and a 50 millisecond delay link of 10 Mbps capacity under different levels of losses",
        "10 and 50 ms, 10 Mbit/s",
    ),
    claim(
        "amir03/fig9",
        "close",
        "Amir03 §IV, Fig. 9",
        "the throughput achieved by Spines is very close to that of a TCP connection under similar conditions",
        "the reliable link within 15 % of TCP at 10 and 50 ms, 0 to 2 % loss",
    ),
    claim(
        "amir03/fig9",
        "model",
        "Amir03 §IV, Fig. 9",
        "Figure 9 compares it to the analytical TCP model",
        "TCP within 10 % of the model at 50 ms, 0.25 to 2 %; at most 25 % above it at 10 ms",
    ),
    claim(
        "amir03/fig9",
        "saturation",
        "Amir03 §IV, Fig. 9",
        "for a 10 millisecond link, as the throughput of both TCP and Spines approaches the maximum capacity of 10Mbps, \
         they start developing their own additional losses; this is why they appear to achieve less than the analytical \
         model that takes into account only the original losses",
        "at 10 ms and the lowest loss rates less than the model, with queue drops; none at 50 ms and 2 %",
    ),
    claim(
        "amir03/fig9",
        "fair",
        "Amir03 §IV",
        "the link congestion control allows the deployment of Spines in the Internet, providing fairness with external \
         TCP traffic",
        "40 to 60 % of a shared link",
    ),
    claim(
        "amir03/fig9",
        "buffered",
        "Amir03 §IV",
        "packets are buffered before being sent on a Reliable Data Link only in case the congestion control or \
         available link capacity limit the outgoing bandwidth to a lower value than the incoming throughput",
        "nothing waits when the window is not full",
    ),
];
