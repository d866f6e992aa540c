//! Flows beside their twins: whether one is worse.

use super::scene::{DEADLINE_MS, Loss, Scene};
use crate::scenario::{Call, Report};

/// What a flow may miss more than its twin: so many percent of the packets, and this share of what the
/// twin misses.
const MORE_PCT: f64 = 0.5;
const MORE_SHARE: f64 = 0.01;
/// How much longer a silence may be.
const LONGER_MS: f64 = 1_000.0;
/// Between two packets of a call.
const INTERVAL_MS: f64 = 20.0;
/// Flows with fewer packets say nothing.
const PACKETS_MIN: usize = 1_000;
/// Both draw their losses apart: so many standard errors of the difference of both counts are chance.
const ERRORS: f64 = 3.0;

/// What became of a flow's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Outcome {
    sent: usize,
    missed_pct: f64,
    silence_ms: f64,
}

/// How many flows were compared with their twins. An error names the first that is worse.
pub(super) fn compare(scene: &Scene, report: &Report, calls: &[Vec<Call>]) -> Result<u64, String> {
    let mut compared = 0;
    let named = |name: String| {
        let place = report.flows.iter().position(|flow| flow.name == name);
        place.map(|place| (&report.flows[place], Outcome::of(&calls[place])))
    };
    for (n, flow) in scene.flows.iter().enumerate() {
        let Some((overlay, outcome)) = named(format!("call {n}")) else {
            continue;
        };
        if overlay.packets.duplicates > 0 {
            let twice = overlay.packets.duplicates;
            return Err(format!("call {n}: {twice} packets were delivered twice"));
        }
        let (Some((_, twin)), Some(loss)) = (named(format!("twin {n}")), flow.loss) else {
            continue;
        };
        if twin.sent < PACKETS_MIN {
            continue;
        }
        compared += 1;
        if let Some(worse) = outcome.worse_than(&twin, loss) {
            let (from, to) = (&overlay.from, &overlay.to);
            return Err(format!("call {n} from {from} to {to}: {worse}"));
        }
    }
    Ok(compared)
}

impl Outcome {
    fn of(calls: &[Call]) -> Outcome {
        let is_missed =
            |fate: &Option<u32>| fate.is_none_or(|us| u64::from(us) > DEADLINE_MS * 1_000);
        let sent = calls.iter().map(Vec::len).sum();
        let (mut missed, mut longest) = (0, 0);
        for call in calls {
            let mut row = 0;
            for fate in call {
                row = if is_missed(fate) { row + 1 } else { 0 };
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

    /// Why it is worse, if it is. `loss` is the most that chance takes from the twin.
    fn worse_than(&self, twin: &Outcome, loss: Loss) -> Option<String> {
        let chance = ERRORS * error_pct(loss, twin.sent);
        let most = twin.missed_pct * (1.0 + MORE_SHARE) + MORE_PCT + chance;
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

/// The standard error of the difference of two shares, in percent, that both lose so much of so many
/// packets. A burstiness b widens a count's variance by (1 + b) / (1 - b).
fn error_pct(loss: Loss, packets: usize) -> f64 {
    let p = loss.permille as f64 / 1_000.0;
    let b = loss.burst_pct as f64 / 100.0;
    let variance = p * (1.0 - p) * (1.0 + b) / (1.0 - b) / packets as f64;
    100.0 * (2.0 * variance).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call of 3000 packets that misses every n-th, and so many in a row.
    fn call(every: usize, row: usize) -> Outcome {
        let fate = |n: usize| (!n.is_multiple_of(every) && n >= row).then_some(20_000);
        Outcome::of(&[(1..=3_000).map(fate).collect()])
    }

    #[test]
    fn what_is_worse_is_noticed() {
        let none = Loss::default();
        let twin = call(100, 0);
        assert!((twin.missed_pct - 1.0).abs() < 1e-9 && twin.silence_ms == 20.0);
        assert_eq!(call(70, 0).worse_than(&twin, none), None);
        let more = call(60, 0).worse_than(&twin, none).unwrap();
        assert!(more.contains("missed 1.67"), "{more}");
        // Where chance takes packets, as much more is chance.
        let loss = Loss {
            permille: 10,
            burst_pct: 0,
        };
        assert_eq!(call(60, 0).worse_than(&twin, loss), None);
        let silent = call(1_000, 60).worse_than(&call(40, 0), none).unwrap();
        assert!(silent.contains("silent for 1180"), "{silent}");
        assert_eq!(call(1_000, 45).worse_than(&call(40, 0), none), None);
    }

    #[test]
    fn late_packets_are_missed() {
        let fates = vec![Some(150_000), Some(150_001), None, Some(1)];
        let outcome = Outcome::of(&[fates]);
        assert_eq!((outcome.missed_pct, outcome.silence_ms), (50.0, 40.0));
    }
}
