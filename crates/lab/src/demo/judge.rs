//! Computes scores from times: `voice` evaluates each call, and the calls of a path are combined.

use super::result::{Ceiling, PathResult, Score};
use base::Duration;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use tools::quality::{Call, Quality, round};
use voice::call::{Altered, CallError, Evaluation, Original};
use voice::score::Scores;

/// The calls of one path with their evaluations.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) deadline: Duration,
    pub(crate) calls: Vec<Call>,
    pub(crate) evaluations: Vec<Evaluation>,
}

/// Scores calls on all processors: `calls` has the arrival times of packets, `altered` the payloads that arrived
/// altered. `go_on` gets the number of finished calls after each, and returns whether to continue.
///
/// # Errors
/// Fails if a call does not fit the speech. Returns `Ok(None)` if `go_on` returned false.
pub(crate) fn judge(
    original: &Original,
    (calls, altered): (Vec<Call>, &[Altered]),
    deadline: Duration,
    mut go_on: impl FnMut(usize) -> bool,
) -> Result<Option<Judged>, CallError> {
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism()
        .map_or(1, |n| n.get())
        .min(calls.len());
    let (done, results) = channel();
    let results = std::thread::scope(|scope| {
        for _ in 0..workers {
            let (done, next, calls) = (done.clone(), &next, &calls);
            scope.spawn(move || {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(call) = calls.get(i) else { return };
                    let deadline_us = Some(deadline.as_micros());
                    let as_sent = Altered::new();
                    let altered = altered.get(i).unwrap_or(&as_sent);
                    let evaluation = original.evaluate_heard(call, altered, deadline_us);
                    // The receiver no longer exists if the work was stopped.
                    if done.send((i, evaluation)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let results = collect(&results, calls.len(), &mut go_on);
        // The other threads stop before their next call.
        next.store(calls.len(), Ordering::Relaxed);
        results
    })?;
    Ok(results.map(|evaluations| Judged {
        deadline,
        calls,
        evaluations,
    }))
}

fn collect(
    results: &Receiver<(usize, Result<Evaluation, CallError>)>,
    count: usize,
    go_on: &mut impl FnMut(usize) -> bool,
) -> Result<Option<Vec<Evaluation>>, CallError> {
    let mut evaluations: Vec<Option<Evaluation>> = (0..count).map(|_| None).collect();
    for done in 1..=count {
        let Ok((i, evaluation)) = results.recv() else {
            return Ok(None);
        };
        evaluations[i] = Some(evaluation?);
        if !go_on(done) {
            return Ok(None);
        }
    }
    Ok(evaluations.into_iter().collect())
}

/// Combines the calls of a path. docs/demo.md defines each number.
pub(crate) fn summary(judged: &Judged, wire_bytes_ratio: f64) -> PathResult {
    let scores = scores(judged);
    PathResult {
        quality: Quality::of(&judged.calls, judged.deadline),
        pesq: pesq(&scores).rounded(),
        mos_lqo: mos_lqo(&scores).rounded(),
        wire_bytes_ratio: round(wire_bytes_ratio, 3),
    }
}

/// Returns the scores of the codec alone.
pub(crate) fn ceiling(original: &Original) -> Ceiling {
    Ceiling {
        pesq: pesq(&original.ceiling()).rounded(),
    }
}

fn scores(judged: &Judged) -> Scores {
    let mut scores = Scores::default();
    for evaluation in &judged.evaluations {
        scores.extend(evaluation.scores.0.iter().copied());
    }
    scores
}

/// Returns the scores. An original has at least one segment that can be scored, and every call has its length.
fn pesq(scores: &Scores) -> Score {
    let of = |score: Option<voice::score::RawPesq>| score.map_or(f64::NAN, |s| f64::from(s.0));
    Score {
        mean: of(scores.raw_mean()),
        p5: of(scores.raw_p5()),
    }
}

fn mos_lqo(scores: &Scores) -> Score {
    let of = |score: Option<voice::score::MosLqo>| score.map_or(f64::NAN, |s| f64::from(s.0));
    Score {
        mean: of(scores.lqo_mean()),
        p5: of(scores.lqo_p5()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tools::pace::DEADLINE;
    use voice::g711::Law;

    /// Returns two seconds of the sample that contain speech.
    fn original() -> Original {
        Original::new(&voice::sample::speech()[..16_000], Law::Mu).unwrap()
    }

    #[test]
    fn calls_are_put_together_in_their_order() {
        let original = original();
        let good: Call = vec![Some(50_000); 100];
        let mut bad = good.clone();
        bad[40..60].fill(None);
        bad[60] = Some(100_001);
        let mut seen = Vec::new();
        let judged = judge(&original, (vec![good, bad], &[]), DEADLINE, |done| {
            seen.push(done);
            true
        });
        let judged = judged.unwrap().unwrap();
        assert_eq!(seen, [1, 2]);
        assert_eq!(
            [judged.evaluations[0].lost(), judged.evaluations[1].lost()],
            [0, 20]
        );
        let summary = summary(&judged, 1.234_56);
        assert_eq!(
            (summary.quality.lost_pct, summary.wire_bytes_ratio),
            (10.0, 1.235)
        );
        let ceiling = ceiling(&original);
        let [p5, mean, best] = [summary.pesq.p5, summary.pesq.mean, ceiling.pesq.mean];
        assert!(p5 < mean && mean < best, "{p5} {mean} {best}");
    }

    #[test]
    fn it_stops_when_it_is_told_and_refuses_what_does_not_fit() {
        let original = original();
        let calls = || vec![vec![Some(1); 100]; 5];
        assert!(
            judge(&original, (calls(), &[]), DEADLINE, |_| false)
                .unwrap()
                .is_none()
        );
        assert!(
            judge(&original, (vec![vec![Some(1); 99]], &[]), DEADLINE, |_| {
                true
            })
            .is_err()
        );
    }
}
