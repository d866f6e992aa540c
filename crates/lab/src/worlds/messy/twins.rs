//! Compares flows with their twins: whether one is worse.

use super::scene::{DEADLINE_MS, Loss, STREAM_DEADLINE_MS, Scene};
use super::tcp;
use crate::scenario::{Call, FaultKind, Flow, Report, Scenario};
use base::Duration;
use sim::traffic::Pattern;

/// How much more than its twin a flow may miss: this percentage of the packets, plus this share of the twin's misses.
const MORE_PCT: f64 = 0.5;
const MORE_SHARE: f64 = 0.01;
/// How much longer a silence may be.
const LONGER_MS: f64 = 1_000.0;
/// Time between two packets of a call.
pub(super) const INTERVAL_MS: f64 = 20.0;
/// Number of packets in three seconds: longer than TCP takes to recover from most losses.
const BATCH: usize = 150;
/// Flows with fewer packets are not compared.
const PACKETS_MIN: usize = 1_000;
/// Both draw their losses separately: this many standard errors of the difference of both counts are attributed to
/// chance.
const ERRORS: f64 = 3.0;

/// The results of a flow's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Outcome {
    sent: usize,
    missed_pct: f64,
    silence_ms: f64,
}

/// Makes the delays of a flow's packets count from when they were due: a packet that a source sends late because its
/// host was stalled is late for the listener, whatever the carrier. `calls` are those of each stream to each receiver
/// in turn.
pub(super) fn count_from_due(scenario: &Scenario, flow: &Flow, calls: &mut [Call]) {
    let (Pattern::Cbr { interval } | Pattern::OnOff { interval, .. }) = flow.pattern;
    let stalls: Vec<(Duration, Duration)> = scenario
        .faults
        .iter()
        .filter_map(|fault| match fault.kind {
            FaultKind::Stall(node, span) if node == flow.from => Some((fault.at, fault.at + span)),
            _ => None,
        })
        .collect();
    // A stall that ends during another one lasts until that one's end.
    let ready = |due: Duration| {
        let mut at = due;
        for _ in 0..=stalls.len() {
            let during = stalls
                .iter()
                .filter(|(from, to)| (*from..*to).contains(&at));
            at = during.map(|(_, to)| *to).max().unwrap_or(at);
        }
        at
    };
    let receivers = flow.receivers().count();
    for (n, call) in calls.iter_mut().enumerate() {
        let phase = (interval * (n / receivers) as u64).div(flow.count as u64);
        for (i, fate) in call.iter_mut().enumerate() {
            let due = flow.start + phase + interval * i as u64;
            let waited = ready(due).as_micros() - due.as_micros();
            let waited = u32::try_from(waited).unwrap_or(u32::MAX);
            *fate = fate.map(|us| us.saturating_add(waited));
        }
    }
}

/// Returns how many flows were compared with their twins, each receiver separately. An error names the first flow that
/// is worse.
pub(super) fn compare(
    scene: &Scene,
    scenario: &Scenario,
    report: &Report,
    calls: &[Vec<Call>],
) -> Result<u64, String> {
    let mut compared = 0;
    let place = |name: String| report.flows.iter().position(|flow| flow.name == name);
    for (n, flow) in scene.flows.iter().enumerate() {
        let Some(overlay) = place(format!("call {n}")) else {
            continue;
        };
        if report.flows[overlay].packets.duplicates > 0 {
            let twice = report.flows[overlay].packets.duplicates;
            return Err(format!("call {n}: {twice} packets were delivered twice"));
        }
        for (i, receiver) in flow.receivers.iter().enumerate() {
            let (Some(link), Some(loss)) = (receiver.direct, receiver.loss) else {
                continue;
            };
            // The streams of a group follow each other, each with all receivers in turn.
            let mine = calls[overlay].iter().skip(i).step_by(flow.receivers.len());
            let (outcome, twin, chance_pct) = if flow.is_stream {
                let flow = &scenario.flows[overlay];
                let mut twin = tcp::twin(scenario, flow, link, report.seed);
                count_from_due(scenario, flow, &mut twin);
                let chance_pct = ERRORS * batch_error_pct(&calls[overlay], &twin);
                let of = |calls: &[Call]| Outcome::of(calls, STREAM_DEADLINE_MS);
                (of(&calls[overlay]), of(&twin), chance_pct)
            } else {
                let Some(twin) = place(scene.twin_name(n, i)) else {
                    continue;
                };
                let twin = Outcome::of(&calls[twin], DEADLINE_MS);
                let chance_pct = ERRORS * error_pct(loss, twin.sent);
                (Outcome::of(mine, DEADLINE_MS), twin, chance_pct)
            };
            if twin.sent < PACKETS_MIN {
                continue;
            }
            compared += 1;
            if let Some(worse) = outcome.worse_than(&twin, chance_pct) {
                let kind = if flow.is_stream { "stream" } else { "call" };
                let (from, to) = (flow.from, receiver.to);
                return Err(format!("{kind} {n} from n{from} to n{to}: {worse}"));
            }
        }
    }
    Ok(compared)
}

impl Outcome {
    fn of<'c>(calls: impl IntoIterator<Item = &'c Call>, deadline_ms: u64) -> Outcome {
        let (mut sent, mut missed, mut longest) = (0, 0, 0);
        for call in calls {
            let mut row = 0;
            sent += call.len();
            for fate in call {
                row = if is_missed(fate, deadline_ms) {
                    row + 1
                } else {
                    0
                };
                missed += usize::from(row > 0);
                longest = longest.max(row);
            }
        }
        Outcome {
            sent,
            missed_pct: 100.0 * missed as f64 / (sent as f64).max(1.0),
            silence_ms: f64::from(longest) * INTERVAL_MS,
        }
    }

    /// Returns why the flow is worse, if it is, beyond the effect of chance.
    fn worse_than(&self, twin: &Outcome, chance_pct: f64) -> Option<String> {
        let most = twin.missed_pct * (1.0 + MORE_SHARE) + MORE_PCT + chance_pct;
        if self.missed_pct > most {
            return Some(format!(
                "missed {:.2} %, its twin {:.2} (at most {most:.2}); silence {:.0} ms, twin {:.0}",
                self.missed_pct, twin.missed_pct, self.silence_ms, twin.silence_ms
            ));
        }
        (self.silence_ms > twin.silence_ms + LONGER_MS).then(|| {
            format!(
                "silent for {:.0} ms, its twin for {:.0}; missed {:.2} %, twin {:.2}",
                self.silence_ms, twin.silence_ms, self.missed_pct, twin.missed_pct
            )
        })
    }
}

/// Returns whether a packet was lost or late.
pub(super) fn is_missed(fate: &Option<u32>, deadline_ms: u64) -> bool {
    fate.is_none_or(|us| u64::from(us) > deadline_ms * 1_000)
}

/// Returns the standard error of the difference between the misses of streams and of their twins, in percent, from
/// pieces of [`BATCH`] packets: TCP's reaction to a loss affects more than one packet.
fn batch_error_pct(calls: &[Call], twins: &[Call]) -> f64 {
    let missed = |batch: &[Option<u32>]| {
        let missed = batch
            .iter()
            .filter(|fate| is_missed(fate, STREAM_DEADLINE_MS));
        missed.count() as f64 / batch.len() as f64
    };
    let pairs = calls.iter().zip(twins);
    let more: Vec<f64> = pairs
        .flat_map(|(call, twin)| call.chunks(BATCH).zip(twin.chunks(BATCH)))
        .map(|(call, twin)| missed(call) - missed(twin))
        .collect();
    let count = (more.len() as f64).max(2.0);
    let mean = more.iter().sum::<f64>() / count;
    let variance = more.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (count - 1.0);
    100.0 * (variance / count).sqrt()
}

/// Returns the standard error of the difference of two shares, in percent, if both have this loss over this many
/// packets. A burstiness b multiplies a count's variance by (1 + b) / (1 - b).
fn error_pct(loss: Loss, packets: usize) -> f64 {
    let p = loss.permille as f64 / 1_000.0;
    let b = loss.burst_pct as f64 / 100.0;
    let variance = p * (1.0 - p) * (1.0 + b) / (1.0 - b) / packets as f64;
    100.0 * (2.0 * variance).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a call of 3000 packets that misses every n-th, and the first `row` in a row.
    fn call(every: usize, row: usize) -> Outcome {
        let fate = |n: usize| (!n.is_multiple_of(every) && n >= row).then_some(20_000);
        let fates = (1..=3_000).map(fate).collect();
        Outcome::of(&[fates], DEADLINE_MS)
    }

    #[test]
    fn what_is_worse_is_noticed() {
        let none = 0.0;
        let twin = call(100, 0);
        assert!((twin.missed_pct - 1.0).abs() < 1e-9 && twin.silence_ms == 20.0);
        assert_eq!(call(70, 0).worse_than(&twin, none), None);
        let more = call(60, 0).worse_than(&twin, none).unwrap();
        assert!(more.contains("missed 1.67"), "{more}");
        // With random losses, a larger difference is attributed to chance.
        let loss = Loss {
            permille: 10,
            burst_pct: 0,
        };
        let chance_pct = ERRORS * error_pct(loss, 3_000);
        assert!((chance_pct - 0.7707).abs() < 1e-3, "{chance_pct}");
        assert_eq!(call(60, 0).worse_than(&twin, chance_pct), None);
        let silent = call(1_000, 60).worse_than(&call(40, 0), none).unwrap();
        assert!(silent.contains("silent for 1180"), "{silent}");
        assert_eq!(call(1_000, 45).worse_than(&call(40, 0), none), None);
    }

    #[test]
    fn what_a_stalled_source_sends_late_is_late() {
        let text = "[scenario]\nname = 'pair'\nduration = '1s'\n[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n\
                    [[link]]\na = 'a'\nb = 'b'\npath = 'delay=10ms'\n\
                    [[flow]]\nfrom = 'a'\nto = 'b'\ncount = 2\n\
                    [[fault]]\nat = '100ms'\nkind = 'stall'\nnode = 'a'\nfor = '200ms'\n\
                    [[fault]]\nat = '200ms'\nkind = 'stall'\nnode = 'a'\nfor = '150ms'\n\
                    [[fault]]\nat = '600ms'\nkind = 'stall'\nnode = 'b'\nfor = '200ms'\n";
        let scenario = Scenario::parse("pair", text).unwrap();
        let mut calls: Vec<Call> = vec![vec![Some(10_000); 50]; 2];
        calls[0][6] = None;
        count_from_due(&scenario, &scenario.flows[0], &mut calls);
        // The packets are due at 80, 100 and 120 ms, and at 340 and 360; those that were due before 350 are sent at
        // 350.
        let of = |n: usize, places: [usize; 5]| places.map(|i| calls[n][i].map(|us| us / 1_000));
        let first = [Some(10), Some(260), None, Some(20), Some(10)];
        assert_eq!(of(0, [4, 5, 6, 17, 18]), first);
        // The other call's packets are due 10 ms later.
        let second = [Some(10), Some(250), Some(230), Some(10), Some(10)];
        assert_eq!(of(1, [4, 5, 6, 17, 18]), second);
        assert_eq!(calls[0][32], Some(10_000));
    }

    #[test]
    fn late_packets_are_missed() {
        let fates = vec![Some(150_000), Some(150_001), None, Some(1)];
        let outcome = Outcome::of(&[fates], DEADLINE_MS);
        assert_eq!((outcome.missed_pct, outcome.silence_ms), (50.0, 40.0));
    }
}
