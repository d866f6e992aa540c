//! Figures 6 and 7: the delays of packets at 5 % loss, over one link and over two. [Amir06 §IV-A]
//!
//! ```text
//!   share            T = 10 ms a link: as sent
//!   1 ┤        ┌──── 3T + Δ: lost, asked for and sent again; Δ until a later packet reveals it
//!     │ ┌──────┘     5T + Δ… on two links, 6T + 2Δ if on both
//!     └─┴──────┴──▶ ms; what never arrives is missing at the top
//! ```

use super::chain::{BURSTS, Chain, INTERVAL_MS, LINK_MS, Loss, PACKET_BYTES, STREAMS};
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size, Verdict};
use crate::plot::{Axis, Chart, Mark, Series};
use crate::stats::{every, mean, quantile};

/// Figure 6: one link.
pub(super) const FIG6: Delay = Delay {
    id: "amir06/fig6",
    title: "Delays over one link that loses 5 %",
    links: 1,
};
/// Figure 7: two links.
pub(super) const FIG7: Delay = Delay {
    id: "amir06/fig7",
    title: "Delays over two links that lose 5 % each",
    links: 2,
};

/// The loss in percent. [Amir06 §IV-A]
const LOSS: f64 = 5.0;
/// No packet is too late: delays are measured to the end.
const DEADLINE_MS: u32 = 1_000;
/// Distance between points of a distribution; the x axis ends at the second value.
const STEP_MS: f64 = 0.5;
const X_MAX_MS: f64 = 100.0;
/// Number of runs per point, for standard errors.
const SEEDS: u32 = 10;
/// Number of standard errors by which a share may differ by chance.
const ERRORS: f64 = 3.0;

/// One of the two figures.
pub(super) struct Delay {
    id: &'static str,
    title: &'static str,
    links: usize,
}

impl Experiment for Delay {
    fn id(&self) -> &'static str {
        self.id
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn method(&self, size: Size) -> String {
        format!(
            "A chain of {} production nodes in the simulator, with the paper's timers and recovery; \
             each link takes {LINK_MS} ms and loses {LOSS} % in both directions. {STREAMS} streams \
             send {} packets of {PACKET_BYTES} bytes per burstiness, in {SEEDS} runs; the delay of \
             each is the exact time from client to client. Δ is what a packet that was recovered \
             once took beyond three times {LINK_MS} ms (and {LINK_MS} ms for each other link).",
            self.links + 1,
            packets(size) * STREAMS * SEEDS
        )
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        let cell =
            |streams: u32, burst| Cell::at(&[("streams", f64::from(streams)), ("burst", burst)]);
        let mut cells: Vec<Cell> = BURSTS.map(|burst| cell(STREAMS, burst)).to_vec();
        if self.links == 1 {
            // The losses of a single stream are detected later.
            cells.push(cell(1, BURSTS[0]));
        }
        cells
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let streams = cell.parameter("streams") as u32;
        let chain = Chain {
            profile: "paper",
            lossy: vec![true; self.links],
            loss: Loss {
                percent: LOSS,
                burst_percent: cell.parameter("burst"),
            },
            streams,
            packets: packets(plan.size),
            deadline_ms: DEADLINE_MS,
        };
        let (mut delays_ms, mut sent) = (Vec::new(), 0.0);
        for run in 0..SEEDS {
            let outcome = chain.run(seed.wrapping_add(u64::from(run)))?;
            sent += outcome.sent();
            let arrived = outcome.calls.iter().flatten().flatten();
            delays_ms.extend(arrived.map(|us| f64::from(*us) / 1e3));
        }
        delays_ms.sort_by(f64::total_cmp);
        Ok(self.row(cell, sent, &delays_ms))
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let ten = |burst: f64| {
            rows.with(&[("streams", f64::from(STREAMS)), ("burst", burst)])
                .next()
        };
        let all: Vec<&Row> = BURSTS.iter().filter_map(|burst| ten(*burst)).collect();
        let nothing = Row::default();
        let uniform = all.first().copied().unwrap_or(&nothing);
        let verdicts = if self.links == 1 {
            let one = rows.with(&[("streams", 1.0)]).next();
            vec![
                step_curve(uniform),
                aggregation(uniform, one),
                first_gap(uniform),
                ninety_five(uniform),
                thirty(uniform),
                half_percent(uniform),
                uniform_constant(uniform),
                burstiness("burstiness-delays", &all),
            ]
        } else {
            vec![
                one_percent(uniform),
                twice(uniform),
                burstiness("burstiness", &all),
            ]
        };
        Findings {
            charts: vec![self.chart(&all, 0.0), self.chart(&all, 94.0)],
            verdicts,
        }
    }
}

/// Returns the number of packets of one stream in one run.
fn packets(size: Size) -> u32 {
    match size {
        Size::Quick => 4_000,
        Size::Full => 20_000,
    }
}

impl Delay {
    /// Returns the delay of a packet that is not lost.
    fn direct_ms(&self) -> f64 {
        f64::from(LINK_MS) * self.links as f64
    }

    /// Returns the delay from which on a packet was recovered on two links.
    fn twice_ms(&self) -> f64 {
        // Both recoveries together take 6T + 2Δ, where Δ is at least one interval of the lane.
        f64::from(6 * LINK_MS)
    }

    fn row(&self, cell: &Cell, sent: f64, sorted_ms: &[f64]) -> Row {
        let mut row = Row::of(cell);
        let direct = self.direct_ms();
        let until = |ms: f64| sorted_ms.partition_point(|delay| *delay <= ms);
        let share = |count: usize| count as f64 / sent;
        // A packet with a delay of half a link more than the direct delay was recovered.
        let as_sent = until(direct + 0.5 * f64::from(LINK_MS));
        let once = match self.links {
            1 => &sorted_ms[as_sent..],
            _ => &sorted_ms[as_sent..sorted_ms.partition_point(|ms| *ms < self.twice_ms())],
        };
        row.set("sent", sent);
        row.set("as_sent", share(as_sent));
        row.set("within_11_ms", share(until(11.0)));
        row.set("recovered", share(sorted_ms.len() - as_sent));
        row.set("lost", 1.0 - share(sorted_ms.len()));
        if self.links > 1 {
            let twice = &sorted_ms[as_sent + once.len()..];
            row.set("twice", share(twice.len()));
            row.set("twice_median_ms", quantile(twice, 0.5));
        }
        let shift = direct + f64::from(2 * LINK_MS);
        row.set("recovered_mean_ms", mean(&sorted_ms[as_sent..]));
        row.set("detection_mean_ms", mean(once) - shift);
        for (name, q) in [("5", 0.05), ("50", 0.5), ("95", 0.95)] {
            row.set(format!("detection_p{name}_ms"), quantile(once, q) - shift);
        }
        row.set(
            "recovered_36_ms",
            once.partition_point(|ms| *ms <= 36.0) as f64 / once.len() as f64,
        );
        let steps = (X_MAX_MS / STEP_MS) as u32;
        let points = (0..=steps).map(|n| {
            let ms = f64::from(n) * STEP_MS;
            (ms, 100.0 * share(until(ms)))
        });
        row.draw("arrived_pct", points);
        row
    }

    fn chart(&self, all: &[&Row], from_pct: f64) -> Chart {
        let measured = |(i, row): (usize, &&Row)| Series {
            name: format!("{} % burstiness", row.parameter("burst")).into(),
            color: i as u8,
            mark: Mark::Steps,
            points: row.points("arrived_pct").to_vec(),
        };
        let mut series: Vec<Series> = all.iter().enumerate().map(measured).collect();
        series.push(Series {
            name: "the paper's steps".into(),
            color: 4,
            mark: Mark::Dots,
            points: self.steps(),
        });
        Chart {
            title: match from_pct {
                0.0 => self.title.into(),
                _ => format!("{}: the slowest", self.title).into(),
            },
            x: Axis {
                label: "one-way delay, ms".into(),
                min: 0.0,
                max: X_MAX_MS,
            },
            y: Axis {
                label: "arrived by then, % of sent".into(),
                min: from_pct,
                max: 100.0,
            },
            series,
        }
    }

    /// Returns the paper's step curve, composed over the links, with Δ of one packet interval; it is drawn where it is
    /// flat. [Amir06 §IV-A]
    fn steps(&self) -> Vec<(f64, f64)> {
        let p = LOSS / 100.0;
        let recovered = estimated_recovered(p);
        let (direct, step) = (
            self.direct_ms(),
            f64::from(2 * LINK_MS) + lane_interval_ms(STREAMS),
        );
        let n = self.links;
        let shares: Vec<f64> = (0..=n)
            .map(|k| binomial(n, k) * recovered.powi(k as i32) * (1.0 - p).powi((n - k) as i32))
            .collect();
        let until = |ms: f64| {
            let steps = ((ms - direct) / step).floor();
            let come = shares.iter().take((steps + 1.0).max(0.0) as usize);
            100.0 * come.sum::<f64>()
        };
        (0..=50)
            .map(|n| f64::from(2 * n))
            .map(|ms| (ms, until(ms)))
            .collect()
    }
}

/// [Amir06 §IV-A] Returns the share that is recovered: p − 2p² + 3p³.
fn estimated_recovered(p: f64) -> f64 {
    p - 2.0 * p.powi(2) + 3.0 * p.powi(3)
}

fn binomial(n: usize, k: usize) -> f64 {
    (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product()
}

/// Returns the time between two packets on a link.
fn lane_interval_ms(streams: u32) -> f64 {
    f64::from(INTERVAL_MS) / f64::from(streams)
}

/// Returns by how much a share of the packets may differ by chance.
fn bound(row: &Row, share: f64) -> f64 {
    ERRORS * (share * (1.0 - share) / row.value("sent")).sqrt()
}

fn percent(share: f64) -> String {
    format!("{:.3} %", 100.0 * share)
}

fn step_curve(row: &Row) -> Verdict {
    let p = LOSS / 100.0;
    let lost = 2.0 * p.powi(2) - 3.0 * p.powi(3);
    let steps = [
        ("as_sent", 1.0 - p),
        ("recovered", estimated_recovered(p)),
        ("lost", lost),
    ];
    // The limits are those of the losses of figure 4.
    let holds = steps.iter().all(|(name, share)| {
        let off = (row.value(name) - share).abs();
        off <= (0.1 * share).max(bound(row, *share))
    });
    let text = format!(
        "{} as sent, {} recovered, {} lost",
        percent(row.value("as_sent")),
        percent(row.value("recovered")),
        percent(row.value("lost"))
    );
    Verdict::of("step-curve", holds, text).note(format!(
        "the paper's steps at {LOSS} %: {}, {}, {}; of the lost the exact share is 2p² − p³ = {} \
         (see figure 4)",
        percent(1.0 - p),
        percent(estimated_recovered(p)),
        percent(lost),
        percent(2.0 * p.powi(2) - p.powi(3))
    ))
}

fn aggregation(ten: &Row, one: Option<&Row>) -> Verdict {
    let one = one.map_or(f64::NAN, |row| row.value("detection_mean_ms"));
    let ten = ten.value("detection_mean_ms");
    let text = format!("Δ of {STREAMS} streams {ten:.2} ms, of one stream {one:.2} ms (means)");
    Verdict::of("aggregation", ten < one, text)
}

fn first_gap(row: &Row) -> Verdict {
    let interval = lane_interval_ms(STREAMS);
    let median = row.value("detection_p50_ms");
    let text = format!("Δ median {median:.2} ms, a packet every {interval} ms");
    Verdict::of(
        "first-gap",
        (median - interval).abs() < 0.1 * interval,
        text,
    )
}

fn ninety_five(row: &Row) -> Verdict {
    let share = row.value("within_11_ms");
    let text = format!("{} within 11 ms", percent(share));
    Verdict::of("ninety-five", share >= 0.95 - bound(row, 0.95), text)
}

fn thirty(row: &Row) -> Verdict {
    let (mid, within) = (row.value("detection_p50_ms"), row.value("recovered_36_ms"));
    let text = format!(
        "recovered packets: {} between 30 and 36 ms, median {:.1} ms",
        percent(within),
        30.0 + mid
    );
    Verdict::of("thirty", within > 0.5 && mid > 0.0, text)
}

fn half_percent(row: &Row) -> Verdict {
    let lost = row.value("lost");
    let holds = (lost - 0.005).abs() <= (0.000_5_f64).max(bound(row, 0.005));
    Verdict::of("half-percent", holds, percent(lost))
}

fn uniform_constant(row: &Row) -> Verdict {
    let (low, high) = (row.value("detection_p5_ms"), row.value("detection_p95_ms"));
    let text = format!(
        "5th to 95th percentile: {:.1} to {:.1} ms",
        30.0 + low,
        30.0 + high
    );
    Verdict::of("uniform-constant", high - low <= 4.0, text)
}

fn burstiness(claim: &'static str, all: &[&Row]) -> Verdict {
    let means: Vec<f64> = all
        .iter()
        .map(|row| row.value("recovered_mean_ms"))
        .collect();
    let steps: Vec<f64> = means.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let last = steps.last().copied().unwrap_or(f64::NAN);
    let holds = every(&steps, |step| *step > 0.0 && *step <= last);
    let shown = all.iter().zip(&means);
    let shown: Vec<String> = shown
        .map(|(row, mean)| format!("{mean:.2} ms at {} %", row.parameter("burst")))
        .collect();
    Verdict::of(claim, holds, format!("recovered packets, mean: {}", shown.join(", "))).note(
        "a burst must end before anything reveals it: Δ is in the mean the packet interval divided by \
         the chance that the next packet arrives, 1 − burstiness",
    )
}

fn one_percent(row: &Row) -> Verdict {
    let lost = row.value("lost");
    let holds = (lost - 0.01).abs() <= (0.001_f64).max(bound(row, 0.01));
    Verdict::of("one-percent", holds, percent(lost))
}

fn twice(row: &Row) -> Verdict {
    let (share, median) = (row.value("twice"), row.value("twice_median_ms"));
    let text = format!("{} at {median:.1} ms (median)", percent(share));
    let by_chance = bound(row, share);
    let holds = (0.002 - by_chance..=0.002_5 + by_chance).contains(&share)
        && (60.0..=70.0).contains(&median);
    Verdict::of("twice", holds, text).note(
        "lost and recovered on both links: (p − 2p² + p³)² = 0.204 %; the paper's 0.25 % is p², which \
         counts what was not recovered as well",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_steps_end_where_losses_begin() {
        let p = LOSS / 100.0;
        let lost = 1.0 - (1.0 - p) - estimated_recovered(p);
        for (figure, top) in [(FIG6, 1.0 - lost), (FIG7, (1.0 - lost).powi(2))] {
            let steps = figure.steps();
            assert_eq!(steps[0].1, 0.0);
            assert!(steps.is_sorted_by(|a, b| a.1 <= b.1));
            assert!((steps.last().unwrap().1 - 100.0 * top).abs() < 1e-9);
        }
    }
}
