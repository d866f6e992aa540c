//! One point: calls over a path, scored.

use super::{CALLS, DEADLINE_MS, LINE, LINE_CALLS, LINKS, PATH_MS, Path};
use crate::experiment::amir06::chain::{self, Chain, INTERVAL_MS, Loss, PACKET_BYTES, STREAMS};
use crate::experiment::amir06::speech;
use crate::experiment::{Cell, CellError, Plan, Row};
use crate::scenario::Call;
use base::Rng;
use std::fmt::Write as _;
use voice::score::{RawPesq, Scores};

/// Resamplings for the standard error of a percentile.
const RESAMPLINGS: u32 = 200;

/// Measures a cell.
pub(super) fn point(plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
    let speech = speech::prepared(plan)?;
    let loss = Loss {
        percent: cell.parameter("loss"),
        burst_percent: cell.parameter("burst"),
    };
    let packets = speech.original.packets().len() as u32;
    let calls = match Path::of(cell) {
        Path::Direct if loss == LINE => direct(loss, LINE_CALLS, packets, seed)?,
        Path::Direct => direct(loss, CALLS, packets, seed)?,
        Path::Paper => overlay("paper", loss, packets, seed)?,
        Path::Default => overlay("modern", loss, packets, seed)?,
    };
    let (mut scores, mut sent, mut lost, mut late) = (Scores::default(), 0.0, 0.0, 0.0);
    for call in &calls {
        let delays_us: Vec<Option<u64>> = call.iter().map(|us| us.map(u64::from)).collect();
        let deadline_us = u64::from(DEADLINE_MS) * 1_000;
        let evaluation = speech.original.evaluate(&delays_us, Some(deadline_us));
        let evaluation = evaluation.map_err(|error| CellError(error.to_string()))?;
        sent += f64::from(evaluation.totals.sent);
        lost += f64::from(evaluation.totals.lost);
        late += f64::from(evaluation.totals.late);
        scores.extend(evaluation.scores.0);
    }
    let mut row = Row::of(cell);
    row.set("sent", sent);
    row.set("lost", lost / sent);
    row.set("missed", (lost + late) / sent);
    row.set("intervals", scores.0.len() as f64);
    let of = |score: Option<RawPesq>| score.map_or(f64::NAN, |score| f64::from(score.0));
    row.set("mean", of(scores.raw_mean()));
    row.set("p5", of(scores.raw_p5()));
    let (mean, p5) = errors(&scores, seed);
    row.set("mean_error", mean);
    row.set("p5_error", p5);
    row.set("codec_alone", of(speech.original.ceiling().raw_mean()));
    row.set("speech", speech.source.code());
    row.set("speech_s", f64::from(packets * INTERVAL_MS) / 1e3);
    Ok(row)
}

/// Calls by UDP, each over a path of its own.
fn direct(loss: Loss, calls: u32, packets: u32, seed: u64) -> Result<Vec<Call>, CellError> {
    let mut text = chain::head("direct", "paper", packets * INTERVAL_MS);
    text += "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n";
    for n in 0..calls {
        let _ = write!(
            text,
            "[[flow]]\nname = \"{n}\"\nfrom = \"a\"\nto = \"b\"\npacket = {PACKET_BYTES}\n\
             direct = true\npath = \"delay={PATH_MS}ms rate=10mbit{}\"\n",
            loss.words()
        );
    }
    Ok(chain::simulate("direct", &text, seed)?.calls)
}

/// Calls over five links, the third of which loses; ten at a time.
fn overlay(
    profile: &'static str,
    loss: Loss,
    packets: u32,
    seed: u64,
) -> Result<Vec<Call>, CellError> {
    let chain = Chain {
        profile,
        lossy: (0..LINKS).map(|n| n == LINKS / 2).collect(),
        loss,
        streams: STREAMS,
        packets,
        deadline_ms: DEADLINE_MS,
    };
    let mut calls = Vec::new();
    for run in 0..CALLS / STREAMS {
        calls.extend(chain.run(seed.wrapping_add(u64::from(run)))?.calls);
    }
    Ok(calls)
}

/// Standard errors of mean and 5th percentile, by resampling: those of a percentile have no
/// formula without knowing the distribution.
fn errors(scores: &Scores, seed: u64) -> (f64, f64) {
    let mut rng = Rng::new(seed);
    let (mut means, mut fifths) = (Vec::new(), Vec::new());
    let count = scores.0.len() as u64;
    for _ in 0..RESAMPLINGS {
        let drawn = (0..count).map(|_| scores.0[rng.below(count) as usize]);
        let drawn = Scores(drawn.collect());
        means.extend(drawn.raw_mean().map(|score| f64::from(score.0)));
        fifths.extend(drawn.raw_p5().map(|score| f64::from(score.0)));
    }
    (deviation(&means), deviation(&fifths))
}

fn deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|value| (value - mean).powi(2));
    (squares.sum::<f64>() / (n - 1.0)).sqrt()
}
