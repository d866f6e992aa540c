//! What the paper says: every sentence of [Papadimitriou06 §5] that holds a number or a comparison,
//! and the set-up of §4.2 and §4.3, each with the experiment that judges it.
//!
//! The list is older than the experiments and is not made from their results. The paper's figures
//! have no numbers in their text, so most claims are comparisons; what stands under "expected" says
//! beforehand what has to be seen for a sentence to hold. The words that are left open there mean:
//!
//! | word | means |
//! |---|---|
//! | few flows, little contention | 10 and 20 VoIP flows |
//! | increased contention | 80 and 120 VoIP flows |
//! | index | the real-time performance index, averaged over flows |
//! | clearly | by at least 0.02 of a share, or 2 % of a goodput |

use crate::experiment::ClaimText;

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

const SCENARIO_1: &str = "Papadimitriou06 §5.1";
const SCENARIO_2: &str = "Papadimitriou06 §5.2";
const SCENARIO_3: &str = "Papadimitriou06 §5.3";
const SCENARIO_4: &str = "Papadimitriou06 §5.4";
const SCENARIO_5: &str = "Papadimitriou06 §5.5";

/// All claims of the paper, in its order.
pub(crate) const CLAIMS: &[ClaimText] = &[
    // §4.2, §4.3: the set-up that all scenarios share.
    claim(
        "papadimitriou06/fig2",
        "setup-voice",
        "Papadimitriou06 §4.2",
        "Pareto on/off sources, shape 1.5, means of 1.0 s on and 1.35 s off, 64 kbps, packets of 160 bytes",
        "1.5, 1.0 s, 1.35 s, 64 kbit/s, 160 bytes",
    ),
    claim(
        "papadimitriou06/fig2",
        "setup-errors",
        "Papadimitriou06 §4.2",
        "Bernoulli errors of 0.01 per packet in both directions on the access links to the main sinks; droptail routers; 60 s",
        "0.01 both ways, droptail, 60 s",
    ),
    claim(
        "papadimitriou06/fig2",
        "setup-steady",
        "Papadimitriou06 §4.2",
        "insignificant variation in the results, leading to almost perfect statistical confidence",
        "goodput of equal cells with different seeds within 5 % of each other",
    ),
    claim(
        "papadimitriou06/fig3",
        "setup-threshold",
        "Papadimitriou06 §4.3",
        "the inter-arrival threshold is 300 ms; arriving packets exceeding it are delayed packets",
        "300 ms",
    ),
    // §5.1: TCP against UDP, without cross traffic.
    claim(
        "papadimitriou06/fig2",
        "udp-slightly-higher",
        SCENARIO_1,
        "UDP achieves slightly higher goodput performance in comparison with the TCP protocols",
        "UDP's goodput highest at every number of flows, by less than 15 % over the best TCP",
    ),
    claim(
        "papadimitriou06/fig2",
        "udp-steady",
        SCENARIO_1,
        "UDP transmits steadily at application rate, while TCP purposely backs off in periods of congestion",
        "packets sent per packet written: 1.00 for UDP; segments first sent by the end < 0.98 for each TCP at 120 flows",
    ),
    claim(
        "papadimitriou06/fig2",
        "westwood-deficient",
        SCENARIO_1,
        "the goodput results outline the deficiency of TCP-Westwood, especially with increased contention",
        "Westwood's goodput lowest at 80 and 120 flows; its deficit against the best TCP larger at 120 than at 10",
    ),
    claim(
        "papadimitriou06/fig2",
        "westwood-wireless",
        SCENARIO_1,
        "TCP-Westwood fails to deliver high performance in wired/wireless scenarios, diminished by unnecessary congestion-oriented responses to wireless link errors",
        "Westwood's goodput and index below Vegas's and Real's with little contention",
    ),
    claim(
        "papadimitriou06/fig2",
        "vegas-real-remarkable",
        SCENARIO_1,
        "Vegas and especially Real respond appropriately to wireless errors and achieve remarkable goodput rates",
        "goodput Real >= Vegas > Westwood at 80 and 120 flows",
    ),
    claim(
        "papadimitriou06/fig2",
        "real-classifies",
        SCENARIO_1,
        "TCP-Real classifies packet drops: low jitter and a high receiving rate indicate a random (usually wireless) error",
        "without congestion Real reduces its window clearly less often than a TCP that does not classify",
    ),
    claim(
        "papadimitriou06/fig3",
        "udp-unsatisfactory",
        SCENARIO_1,
        "the high goodput of UDP is not reflected in the real-time performance; it is not satisfactory, especially during increased contention",
        "UDP's index clearly below the best TCP's at 80 and 120 flows",
    ),
    claim(
        "papadimitriou06/fig3",
        "westwood-inadequate",
        SCENARIO_1,
        "in line with UDP, TCP-Westwood exhibits inadequate real-time performance, due to low goodput and an increased number of delayed packets",
        "Westwood's index clearly below Vegas's and Real's at 80 and 120 flows; more delayed packets than either",
    ),
    claim(
        "papadimitriou06/fig3",
        "real-superior",
        SCENARIO_1,
        "TCP-Real achieves superior performance",
        "Real's index the highest at 80 and 120 flows",
    ),
    claim(
        "papadimitriou06/fig3",
        "vegas-efficient",
        SCENARIO_1,
        "TCP-Vegas takes advantage of its congestion avoidance, providing efficient transport services for VoIP",
        "Vegas's index above Westwood's and UDP's at 80 and 120 flows",
    ),
    claim(
        "papadimitriou06/fig4",
        "real-fair",
        SCENARIO_1,
        "TCP-Real excels in bandwidth sharing, even for a large number of flows",
        "Real's fairness index the highest of the TCPs at 80 and 120 flows",
    ),
    claim(
        "papadimitriou06/fig4",
        "vegas-unfair",
        SCENARIO_1,
        "Vegas occasionally trades fairness for performance (Figure 4: 120 flows), since competing connections may converge to different windows",
        "Vegas's fairness index clearly below Real's at 120 flows",
    ),
    claim(
        "papadimitriou06/fig5",
        "udp-delayed",
        SCENARIO_1,
        "over UDP a significant proportion of voice data (especially for 80 and 120 flows) reaches the recipient exceeding the delay requirements",
        "UDP's delayed rate at 80 and 120 flows >= 0.05 and above that at 10 to 60",
    ),
    claim(
        "papadimitriou06/fig5",
        "queueing",
        SCENARIO_1,
        "the significant delay is primarily due to the increased queuing delays",
        "UDP at 120 flows: mean one-way delay less propagation > half of the mean one-way delay",
    ),
    claim(
        "papadimitriou06/fig5",
        "overflowed",
        SCENARIO_1,
        "UDP results in rapidly growing queues and bottleneck overflows; the buffers remain overflowed and a considerable proportion of the packets arrive late",
        "at 120 flows the bottleneck drops, and the median one-way delay is above 150 ms",
    ),
    claim(
        "papadimitriou06/fig5",
        "udp-variable",
        SCENARIO_1,
        "UDP results in long and variable delays",
        "at 120 flows: one-way p95 > 150 ms, and p95 - p5 > 75 ms",
    ),
    claim(
        "papadimitriou06/fig6",
        "westwood-loss",
        SCENARIO_1,
        "the high packet loss rate of TCP-Westwood indicates that it is unable to recover effectively from excessive congestion",
        "Westwood's loss rate the highest of the TCPs at 80 and 120 flows",
    ),
    claim(
        "papadimitriou06/fig6",
        "udp-loss",
        SCENARIO_1,
        "UDP does not exhibit excessive packet loss (relatively to TCP)",
        "UDP's loss rate within 0.02 of the highest TCP's, or below, at every number of flows",
    ),
    // §5.2: the size of voice packets, beside light FTP traffic.
    claim(
        "papadimitriou06/fig7",
        "setup",
        SCENARIO_2,
        "packets of 160, 300 and 500 bytes (20, 40 and 65 ms of speech), with 20 FTP flows over TCP-Reno",
        "160, 300, 500 bytes; 20 FTP flows",
    ),
    claim(
        "papadimitriou06/fig7",
        "vegas-no-gain",
        SCENARIO_2,
        "TCP-Vegas does not exhibit any performance gains for packet sizes above 160 bytes",
        "Vegas's goodput at 300 and 500 bytes not clearly above that at 160, mean over flows",
    ),
    claim(
        "papadimitriou06/fig7",
        "vegas-small",
        SCENARIO_2,
        "small segments favour frequent throughput estimations; Vegas adjusts its rate more accurately, avoiding packet drops",
        "share of segments dropped at the bottlenecks at 160 bytes below that at 500",
    ),
    claim(
        "papadimitriou06/fig8",
        "vegas-long-degrade",
        SCENARIO_2,
        "long voice-data segments degrade voice quality over Vegas",
        "Vegas's index at 500 bytes clearly below that at 160, mean over flows",
    ),
    claim(
        "papadimitriou06/fig9",
        "westwood-gains",
        SCENARIO_2,
        "nearly all protocols achieve higher goodput for longer segments, most intense in TCP-Westwood",
        "Westwood's goodput at 500 bytes above that at 160, by the largest ratio of the four protocols",
    ),
    claim(
        "papadimitriou06/fig10",
        "westwood-occasionally",
        SCENARIO_2,
        "large packets occasionally improve VoIP performance over TCP-Westwood, although the benefits are not so noticeable",
        "Westwood's index at 300 or 500 bytes above that at 160 at some number of flows; by less than 0.1 in the mean",
    ),
    claim(
        "papadimitriou06/fig11",
        "real-slight-gain",
        SCENARIO_2,
        "slight gains in goodput for TCP-Real with longer segments",
        "Real's goodput at 500 bytes above that at 160, by less than 15 %, mean over flows",
    ),
    claim(
        "papadimitriou06/fig12",
        "real-long-degrade",
        SCENARIO_2,
        "long voice-data segments degrade voice quality over TCP-Real",
        "Real's index at 500 bytes clearly below that at 160, mean over flows",
    ),
    claim(
        "papadimitriou06/fig13",
        "udp-slight-gain",
        SCENARIO_2,
        "slight gains in goodput for UDP with longer segments",
        "UDP's goodput at 500 bytes above that at 160, by less than 15 %, mean over flows",
    ),
    claim(
        "papadimitriou06/fig14",
        "udp-long-degrade",
        SCENARIO_2,
        "long voice-data segments degrade voice quality over UDP",
        "UDP's index at 500 bytes clearly below that at 160, mean over flows",
    ),
    claim(
        "papadimitriou06/fig14",
        "large-sensitive",
        SCENARIO_2,
        "large packets exhibit an increased sensitivity to packet errors",
        "over UDP at 10 flows the share of lost packets at 500 bytes above that at 160",
    ),
    // §5.3: what voice does to FTP.
    claim(
        "papadimitriou06/fig15",
        "udp-negative",
        SCENARIO_3,
        "UDP has a negative impact on the interfering FTP flows (light cross traffic)",
        "FTP goodput beside UDP the lowest at 80 and 120 VoIP flows",
    ),
    claim(
        "papadimitriou06/fig15",
        "udp-contention",
        SCENARIO_3,
        "this impact becomes more significant when contention increases and UDP steals bandwidth from the FTP flows",
        "FTP goodput beside UDP over that beside the best TCP falls from 10 to 120 VoIP flows",
    ),
    claim(
        "papadimitriou06/fig15",
        "sharp",
        SCENARIO_3,
        "UDP's free-rate transmitting policy forces the interfering TCP flows to sharp window adjustments",
        "window reductions of FTP per megabyte delivered beside UDP the highest at 120 VoIP flows",
    ),
    claim(
        "papadimitriou06/fig15",
        "tcp-fair",
        SCENARIO_3,
        "all TCP protocols included are relatively fair to the FTP flows",
        "FTP goodput beside each TCP at least 90 % of the best at every number of VoIP flows",
    ),
    claim(
        "papadimitriou06/fig15",
        "real-favours",
        SCENARIO_3,
        "TCP-Real mostly favours other applications sharing common network resources (light)",
        "FTP goodput beside Real the highest at 80 and 120 VoIP flows",
    ),
    claim(
        "papadimitriou06/fig16",
        "udp-negative",
        SCENARIO_3,
        "UDP has a negative impact on the interfering FTP flows (heavy cross traffic)",
        "FTP goodput beside UDP the lowest at 80 and 120 VoIP flows",
    ),
    claim(
        "papadimitriou06/fig16",
        "udp-contention",
        SCENARIO_3,
        "this impact becomes more significant when contention increases (heavy)",
        "FTP goodput beside UDP over that beside the best TCP falls from 10 to 120 VoIP flows",
    ),
    claim(
        "papadimitriou06/fig16",
        "real-favours",
        SCENARIO_3,
        "TCP-Real mostly favours other applications sharing common network resources (heavy)",
        "FTP goodput beside Real the highest at 80 and 120 VoIP flows",
    ),
    // §5.4: packet errors.
    claim(
        "papadimitriou06/fig17",
        "setup",
        SCENARIO_4,
        "packet error rates of 0.01 to 0.05 and without errors; 80 and 120 VoIP flows beside 20 FTP flows",
        "0, 0.01 ... 0.05; 80, 120; 20 FTP",
    ),
    claim(
        "papadimitriou06/fig17",
        "tcp-diminished",
        SCENARIO_4,
        "as the error rate increases, system goodput over TCP naturally decreases (80 flows)",
        "each TCP's goodput at 0.05 below that at 0",
    ),
    claim(
        "papadimitriou06/fig17",
        "eighty-more",
        SCENARIO_4,
        "the degradation of goodput is more intense in the situation of 80 flows",
        "goodput at 0.05 over that at 0, mean over TCPs, lower with 80 than with 120 flows",
    ),
    claim(
        "papadimitriou06/fig17",
        "vegas-westwood-less",
        SCENARIO_4,
        "TCP-Vegas and especially TCP-Westwood are less responsive to the diverse packet error rates",
        "goodput at 0.05 over that at 0: Westwood > Vegas > Real, 80 flows",
    ),
    claim(
        "papadimitriou06/fig18",
        "quality",
        SCENARIO_4,
        "consequently voice quality is degraded (80 flows)",
        "each TCP's index at 0.05 clearly below that at 0",
    ),
    claim(
        "papadimitriou06/fig18",
        "eighty-more",
        SCENARIO_4,
        "the degradation of real-time performance is more intense in the situation of 80 flows",
        "index at 0 less that at 0.05, mean over TCPs, larger with 80 than with 120 flows",
    ),
    claim(
        "papadimitriou06/fig18",
        "real-limited",
        SCENARIO_4,
        "TCP-Real surprisingly demonstrates limited efficiency at relatively high packet error rates (0.03-0.05) despite its error classification",
        "80 flows: Real's index at 0.03 to 0.05 falls short of that at 0 by more than Vegas's or Westwood's does",
    ),
    claim(
        "papadimitriou06/fig18",
        "udp-minor",
        SCENARIO_4,
        "UDP exhibits minor implications in the event of increasing wireless errors (80 flows)",
        "UDP's index at 0.05 at most 0.06 below that at 0: what the errors themselves take",
    ),
    claim(
        "papadimitriou06/fig19",
        "tcp-diminished",
        SCENARIO_4,
        "as the error rate increases, system goodput over TCP naturally decreases (120 flows)",
        "each TCP's goodput at 0.05 below that at 0",
    ),
    claim(
        "papadimitriou06/fig20",
        "quality",
        SCENARIO_4,
        "consequently voice quality is degraded (120 flows)",
        "each TCP's index at 0.05 clearly below that at 0",
    ),
    claim(
        "papadimitriou06/fig20",
        "real-improved",
        SCENARIO_4,
        "the performance of TCP-Real is noticeably improved when contention is increased",
        "at 0.03 to 0.05 Real's rank among the protocols, or its distance to the best, better with 120 than with 80 flows",
    ),
    claim(
        "papadimitriou06/fig20",
        "udp-minor",
        SCENARIO_4,
        "UDP exhibits minor implications in the event of increasing wireless errors (120 flows)",
        "UDP's index at 0.05 at most 0.06 below that at 0: what the errors themselves take",
    ),
    // §5.5: the inter-arrival threshold.
    claim(
        "papadimitriou06/fig21",
        "setup",
        SCENARIO_5,
        "thresholds of 100 to 400 ms; 80 and 120 VoIP flows with 20 FTP flows",
        "100 ... 400 ms; 80, 120; 20 FTP",
    ),
    claim(
        "papadimitriou06/fig21",
        "most-sensitive",
        SCENARIO_5,
        "TCP-Vegas and TCP-Real are most sensitive to the adjustments of the threshold (80 flows)",
        "index at 400 ms less that at 100 ms: the two largest are Vegas's and Real's",
    ),
    claim(
        "papadimitriou06/fig21",
        "two-hundred",
        SCENARIO_5,
        "200 ms and above leads to respectable real-time performance gains for Vegas and Real (80 flows)",
        "index at 200 ms clearly above that at 100 ms, for both",
    ),
    claim(
        "papadimitriou06/fig21",
        "satisfied",
        SCENARIO_5,
        "with 80 flows a user who is not annoyed by impairments at 200 ms will be generally satisfied by the overall quality",
        "index at 200 ms >= 0.9 for every protocol",
    ),
    claim(
        "papadimitriou06/fig21",
        "acceptable",
        SCENARIO_5,
        "a user with stringent requirements (threshold at 100 ms) will perceive only acceptable quality",
        "index at 100 ms between 0.7 and 0.95 for every TCP",
    ),
    claim(
        "papadimitriou06/fig21",
        "perceived-difference",
        SCENARIO_5,
        "the difference in perceived quality is significant, if VoIP runs over TCP-Vegas or TCP-Real",
        "index at 200 ms less that at 100 ms >= 0.05 for both",
    ),
    claim(
        "papadimitriou06/fig21",
        "udp-less",
        SCENARIO_5,
        "UDP generally exhibits less sensitivity to such adjustments than the TCP protocols (80 flows)",
        "index at 400 ms less that at 100 ms smallest for UDP",
    ),
    claim(
        "papadimitriou06/fig22",
        "delayed-exclusively",
        SCENARIO_5,
        "diverse threshold adjustments affect delayed packets exclusively, and consequently real-time performance",
        "index + delayed rate the same at all thresholds",
    ),
    claim(
        "papadimitriou06/fig22",
        "below-two-hundred",
        SCENARIO_5,
        "all TCP protocols exhibit a slight inefficiency below 200 ms, reflected in the delayed packets (80 flows)",
        "each TCP's delayed rate at 100 ms above that at 200 ms, by less than 0.2",
    ),
    claim(
        "papadimitriou06/fig23",
        "most-sensitive",
        SCENARIO_5,
        "TCP-Vegas and TCP-Real are most sensitive to the adjustments of the threshold (120 flows)",
        "index at 400 ms less that at 100 ms: the two largest are Vegas's and Real's",
    ),
    claim(
        "papadimitriou06/fig23",
        "two-hundred",
        SCENARIO_5,
        "200 ms and above leads to respectable real-time performance gains for Vegas and Real (120 flows)",
        "index at 200 ms clearly above that at 100 ms, for both",
    ),
    claim(
        "papadimitriou06/fig23",
        "udp-less",
        SCENARIO_5,
        "UDP generally exhibits less sensitivity to such adjustments than the TCP protocols (120 flows)",
        "index at 400 ms less that at 100 ms smallest for UDP",
    ),
    claim(
        "papadimitriou06/fig24",
        "below-two-hundred",
        SCENARIO_5,
        "all TCP protocols exhibit a slight inefficiency below 200 ms, reflected in the delayed packets (120 flows)",
        "each TCP's delayed rate at 100 ms above that at 200 ms, by less than 0.2",
    ),
    // §6: the future work, as one more curve.
    claim(
        "papadimitriou06/partial",
        "scenario-1",
        "beyond Papadimitriou06 §6",
        "a partially reliable protocol as an extension of TCP-Real: as timely as TCP-Real and UDP where voice is alone",
        "index in scenario 1 not below Real's or UDP's by more than 0.01 at any number of flows",
    ),
    claim(
        "papadimitriou06/partial",
        "scenario-4",
        "beyond Papadimitriou06 §6",
        "as timely as TCP-Real and UDP under packet errors beside FTP",
        "index in scenario 4 not below Real's or UDP's by more than 0.01 at any error rate",
    ),
    claim(
        "papadimitriou06/partial",
        "ftp",
        "beyond Papadimitriou06 §6",
        "without starving others",
        "FTP goodput in scenario 4 at least 90 % of what it has beside Real",
    ),
    claim(
        "papadimitriou06/partial",
        "on-time",
        "beyond Papadimitriou06 §6",
        "the share of voice within 150 ms one way, from the application's write",
        "reported beside, for every protocol",
    ),
];
