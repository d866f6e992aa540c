//! One point: calls over a path, with their scores.

use super::{DEADLINE_MS, LINE, LINE_CALLS, LINKS, PATH_MBPS, PATH_MS, Path, SCORED};
use crate::experiment::amir06::chain::{
    self, Chain, Frame, INTERVAL_MS, Loss, Outcome, PACKET_BYTES, STREAMS,
};
use crate::experiment::amir06::speech;
use crate::experiment::{Cell, CellError, Plan, Row};
use crate::scenario::Call;
use crate::stats::deviation;
use base::Rng;
use std::fmt::Write as _;
use voice::call::Altered;
use voice::score::{RawPesq, Scores};

/// Number of resamplings for the standard error of a percentile.
const RESAMPLINGS: u32 = 200;

/// Measures a cell.
pub(super) fn point(plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
    let speech = speech::prepared(plan)?;
    let loss = Loss {
        percent: cell.parameter("loss"),
        burst_percent: cell.parameter("burst"),
    };
    let said = speech.original.packets();
    let packets = said.len() as u32;
    let (runs, count) = (super::runs(plan.size), super::calls(plan.size));
    let calls = match Path::of(cell) {
        Path::Direct if loss == LINE => direct(loss, LINE_CALLS * count, said, seed)?,
        Path::Direct => direct(loss, count, said, seed)?,
        Path::Paper => overlay("paper", loss, (runs, said), seed)?,
        Path::Default => overlay("modern", loss, (runs, said), seed)?,
    };
    let (mut of_calls, mut sent, mut lost, mut late) = (Vec::new(), 0.0, 0.0, 0.0);
    for (call, altered) in &calls {
        let delays_us: Vec<Option<u64>> = call.iter().map(|us| us.map(u64::from)).collect();
        let deadline_us = u64::from(DEADLINE_MS) * 1_000;
        let evaluation = speech
            .original
            .evaluate_heard(&delays_us, altered, Some(deadline_us));
        let evaluation = evaluation.map_err(|error| CellError(error.to_string()))?;
        sent += f64::from(evaluation.totals.sent);
        lost += f64::from(evaluation.totals.lost);
        late += f64::from(evaluation.totals.late);
        of_calls.push(evaluation.scores);
    }
    let scores = together(&of_calls);
    let mut row = Row::of(cell);
    row.set("sent", sent);
    row.set("lost", lost / sent);
    row.set("missed", (lost + late) / sent);
    row.set("intervals", scores.0.len() as f64);
    let of = |score: Option<RawPesq>| score.map_or(f64::NAN, |score| f64::from(score.0));
    row.set("mean", of(scores.raw_mean()));
    row.set("p5", of(scores.raw_p5()));
    let (mean, p5) = errors(&moments(&of_calls), seed);
    row.set("mean_error", mean);
    row.set("p5_error", p5);
    row.set("codec_alone", of(speech.original.ceiling().raw_mean()));
    row.set("speech", speech.source.code());
    row.set("speech_s", f64::from(packets * INTERVAL_MS) / 1e3);
    Ok(row)
}

/// A call's packets, and the payloads that arrived altered.
type Heard = (Call, Altered);

fn heard(outcome: Outcome) -> impl Iterator<Item = Heard> {
    outcome.calls.into_iter().zip(outcome.altered)
}

/// Runs calls by UDP, each over a path of its own.
fn direct(loss: Loss, calls: u32, said: &[Frame], seed: u64) -> Result<Vec<Heard>, CellError> {
    let mut text = chain::head("direct", "paper", said.len() as u32 * INTERVAL_MS);
    text += "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n";
    for n in 0..calls {
        let _ = write!(
            text,
            "[[flow]]\nname = \"{n}\"\nfrom = \"a\"\nto = \"b\"\npacket = {PACKET_BYTES}\n\
             direct = true\npath = \"delay={PATH_MS}ms rate={PATH_MBPS}mbit{}\"\n",
            loss.words()
        );
    }
    Ok(heard(chain::simulate_talk("direct", &text, seed, said)?).collect())
}

/// Runs calls over five links, the third of which has losses; ten at a time, of which some are scored.
fn overlay(
    profile: &'static str,
    loss: Loss,
    (runs, said): (u32, &[Frame]),
    seed: u64,
) -> Result<Vec<Heard>, CellError> {
    let chain = Chain {
        profile,
        lossy: (0..LINKS).map(|n| n == LINKS / 2).collect(),
        loss,
        streams: STREAMS,
        packets: said.len() as u32,
        deadline_ms: DEADLINE_MS,
    };
    let mut calls = Vec::new();
    for run in 0..runs {
        let streams = heard(chain.talk(seed.wrapping_add(u64::from(run)), said)?);
        // The scored calls have phases as far apart as possible.
        let apart = (STREAMS / SCORED) as usize;
        calls.extend(streams.step_by(apart).take(SCORED as usize));
    }
    Ok(calls)
}

fn together(calls: &[Scores]) -> Scores {
    Scores(calls.iter().flat_map(|call| &call.0).copied().collect())
}

/// Returns the scores that are not independent: those of the calls that shared a link, for the same interval. They had
/// the same losses and do not count as independent.
fn moments(calls: &[Scores]) -> Vec<Vec<RawPesq>> {
    let of_run = |run: &[Scores]| {
        let intervals = run.iter().map(|call| call.0.len()).max().unwrap_or(0);
        let at = |n: usize| {
            run.iter()
                .filter_map(|call| call.0.get(n).copied())
                .collect()
        };
        (0..intervals).map(at).collect::<Vec<Vec<RawPesq>>>()
    };
    calls.chunks(SCORED as usize).flat_map(of_run).collect()
}

/// Returns the standard errors of mean and 5th percentile, by resampling: those of a percentile have no formula without
/// the distribution.
fn errors(moments: &[Vec<RawPesq>], seed: u64) -> (f64, f64) {
    let mut rng = Rng::new(seed);
    let (mut means, mut fifths) = (Vec::new(), Vec::new());
    let count = moments.len() as u64;
    for _ in 0..RESAMPLINGS {
        let drawn = (0..count).flat_map(|_| &moments[rng.below(count) as usize]);
        let drawn = Scores(drawn.copied().collect());
        means.extend(drawn.raw_mean().map(|score| f64::from(score.0)));
        fifths.extend(drawn.raw_p5().map(|score| f64::from(score.0)));
    }
    (deviation(&means), deviation(&fifths))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_shared_a_link_are_resampled_together() {
        let call = |scores: [f32; 3]| Scores(scores.map(RawPesq).to_vec());
        let calls = [
            call([1.0, 2.0, 3.0]),
            call([1.0, 2.0, 3.0]),
            call([4.0; 3]),
            call([4.0; 3]),
        ];
        let moments = moments(&calls);
        assert_eq!(moments.len(), 6);
        assert!(
            moments
                .iter()
                .all(|scores| scores.len() == 2 && scores[0] == scores[1])
        );
        let (together, _) = errors(&moments, 1);
        let alone: Vec<Vec<RawPesq>> = moments
            .into_iter()
            .flatten()
            .map(|score| vec![score])
            .collect();
        let (independent, _) = errors(&alone, 1);
        assert!(together > 1.2 * independent, "{together} {independent}");
    }
}
