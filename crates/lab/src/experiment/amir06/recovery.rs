//! Figures 4 and 5: the remaining loss after the real-time protocol, on one link and on two. [Amir06 §IV-A]
//!
//! A packet is missed if it is lost and then its request or its retransmission is lost: p(1−(1−p)²) = 2p² − p³ per
//! link. The paper's estimate also requires that the very next packet arrives, a factor 1 − p, though any later one
//! reveals the loss as well: hence its 2p² − 3p³.

use super::chain::{BURSTS, Chain, LINK_MS, Loss, Outcome, PACKET_BYTES, STREAMS};
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size, Verdict};
use crate::plot::{Axis, Chart, Mark, Series};
use overlay::realtime::Settings;

/// Figure 4: one link.
pub(super) const FIG4: Recovery = Recovery {
    id: "amir06/fig4",
    title: "What real-time recovery leaves of a loss on one link",
    links: 1,
};
/// Figure 5: two links.
pub(super) const FIG5: Recovery = Recovery {
    id: "amir06/fig5",
    title: "What real-time recovery leaves of losses on two links",
    links: 2,
};

/// Number of measurements of each point, with separate seeds, for its standard error.
const SEEDS: u32 = 10;
/// Losses in percent.
const FULL_GRID: [f64; 11] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];
const QUICK_GRID: [f64; 6] = [0.0, 1.0, 2.0, 5.0, 7.0, 10.0];
/// No packet is too late: only losses are counted. Histories forget much sooner.
const DEADLINE_MS: u32 = 1_000;
/// The tolerance for equality: this share of the expected value, or [`ERRORS`] standard errors if that is more.
const TOLERANCE: f64 = 0.1;
const ERRORS: f64 = 3.0;

/// One of the two figures.
pub(super) struct Recovery {
    id: &'static str,
    title: &'static str,
    links: usize,
}

impl Experiment for Recovery {
    fn id(&self) -> &'static str {
        self.id
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn method(&self, size: Size) -> String {
        format!(
            "A chain of {} production nodes in the simulator, with the paper's timers and recovery, \
             joined by links of {LINK_MS} ms that lose packets in both directions alike. {STREAMS} \
             streams send {} packets of {PACKET_BYTES} bytes per point in all, in {SEEDS} runs with \
             seeds of their own; error bounds are standard errors over these runs, and at least \
             what independent losses would have. Burstiness is the chance that the packet after a \
             lost one is lost too, the share of losses staying the same; 0 % are independent losses.",
            self.links + 1,
            packets(size) * STREAMS * SEEDS,
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let grid = match size {
            Size::Quick => QUICK_GRID.as_slice(),
            Size::Full => FULL_GRID.as_slice(),
        };
        let cell = |loss: f64, burst| Cell::at(&[("loss", loss), ("burst", burst)]);
        let bursts = |loss: &f64| BURSTS.map(|burst| cell(*loss, burst));
        grid.iter().flat_map(bursts).collect()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let chain = Chain {
            profile: "paper",
            lossy: vec![true; self.links],
            loss: Loss {
                percent: cell.parameter("loss"),
                burst_percent: cell.parameter("burst"),
            },
            streams: STREAMS,
            packets: packets(plan.size),
            deadline_ms: DEADLINE_MS,
        };
        let mut sums = Sums::default();
        for run in 0..SEEDS {
            sums.add(&chain.run(seed.wrapping_add(u64::from(run)))?);
        }
        let p = cell.parameter("loss") / 100.0;
        Ok(sums.row(cell, exact(p, self.links)))
    }

    fn conclude(&self, plan: &Plan, rows: &Rows) -> Findings {
        let points = Points { rows, of: self };
        let mut verdicts = vec![points.burstiness()];
        if self.links == 1 {
            verdicts.extend([
                setup(plan.size),
                buffer(),
                points.one_request(),
                points.no_loss(),
                points.share("request-lost", "request_lost", |p| p.powi(2) - p.powi(3)),
                points.share("retransmission-lost", "retransmission_lost", |p| {
                    p.powi(2) - 2.0 * p.powi(3) + p.powi(4)
                }),
                points.quadratic(),
                points.exact("exact"),
                points.factor_ten(),
            ]);
        } else {
            verdicts.push(points.exact("two-links"));
        }
        Findings {
            charts: vec![points.chart()],
            verdicts,
        }
    }
}

/// Returns the packets of one stream in one run; the paper has two million per point in total.
fn packets(size: Size) -> u32 {
    match size {
        Size::Quick => 6_000,
        Size::Full => 20_000,
    }
}

/// Returns the remaining share of independent losses after a number of links.
fn exact(p: f64, links: usize) -> f64 {
    let one = p * (1.0 - (1.0 - p).powi(2));
    1.0 - (1.0 - one).powi(links as i32)
}

/// Returns the paper's estimate. [Amir06 §IV-A]
fn estimate(p: f64, links: usize) -> f64 {
    let one = 2.0 * p.powi(2) - 3.0 * p.powi(3);
    1.0 - (1.0 - one).powi(links as i32)
}

/// The sums over the runs of a cell.
#[derive(Default)]
struct Sums {
    sent: f64,
    residuals: Vec<f64>,
    lost: f64,
    requested: f64,
    retransmitted: f64,
    recovered: f64,
    links_down: f64,
}

impl Sums {
    fn add(&mut self, outcome: &Outcome) {
        let (sent, lost) = (outcome.sent(), outcome.lost());
        let overlay = &outcome.report.overlay;
        self.sent += sent;
        self.lost += lost;
        self.residuals.push(lost / sent);
        self.requested += overlay.requested as f64;
        self.retransmitted += overlay.retransmitted as f64;
        self.recovered += overlay.recovered as f64;
        self.links_down += overlay.links_down as f64;
    }

    fn row(&self, cell: &Cell, expected: f64) -> Row {
        let mut row = Row::of(cell);
        let n = self.residuals.len() as f64;
        let mean = self.residuals.iter().sum::<f64>() / n;
        let squares = self.residuals.iter().map(|r| (r - mean).powi(2));
        let scatter = (squares.sum::<f64>() / (n - 1.0) / n).sqrt();
        // A few losses in few runs may by chance scatter less than they should.
        let independent = (expected / self.sent).sqrt();
        row.set("sent", self.sent);
        row.set("residual", self.lost / self.sent);
        row.set("residual_error", scatter.max(independent));
        row.set("requested", self.requested);
        row.set("retransmitted", self.retransmitted);
        row.set("recovered", self.recovered);
        row.set(
            "request_lost",
            (self.requested - self.retransmitted) / self.sent,
        );
        row.set(
            "retransmission_lost",
            (self.retransmitted - self.recovered) / self.sent,
        );
        row.set("links_down", self.links_down);
        row
    }
}

/// All points of a figure.
struct Points<'a> {
    rows: &'a Rows,
    of: &'a Recovery,
}

/// A measured share compared with an expected one.
struct Against {
    measured: f64,
    error: f64,
    expected: f64,
}

impl Against {
    fn fits(&self) -> bool {
        let bound = (TOLERANCE * self.expected).max(ERRORS * self.error);
        (self.measured - self.expected).abs() <= bound
    }

    fn off(&self) -> f64 {
        self.measured / self.expected - 1.0
    }
}

impl Points<'_> {
    fn chart(&self) -> Chart {
        let percent =
            |points: Vec<(f64, f64)>| points.into_iter().map(|(x, y)| (x, 100.0 * y)).collect();
        let measured = |(i, burst): (usize, &f64)| Series {
            name: format!("{burst} % burstiness").into(),
            color: i as u8,
            mark: Mark::Line,
            points: percent(self.rows.line(&[("burst", *burst)], "loss", "residual")),
        };
        let curve = |name: &'static str, color, of: fn(f64, usize) -> f64| Series {
            name: name.into(),
            color,
            mark: Mark::Dots,
            points: (0..=40)
                .map(|n| f64::from(n) / 4.0)
                .map(|x| (x, 100.0 * of(x / 100.0, self.of.links)))
                .collect(),
        };
        let mut series: Vec<Series> = BURSTS.iter().enumerate().map(measured).collect();
        series.push(curve("the paper's estimate", 4, estimate));
        series.push(curve("exact", 5, exact));
        Chart {
            title: self.of.title.into(),
            x: Axis {
                label: "loss of each link, %".into(),
                min: 0.0,
                max: 10.0,
            },
            y: Axis {
                label: "not recovered, %".into(),
                min: 0.0,
                max: 2.0 * self.of.links as f64,
            },
            series,
        }
    }

    /// Compares each point's residual loss with the value that is expected at its loss.
    fn against(&self, expected: impl Fn(f64) -> f64) -> Vec<(&Row, Against)> {
        let all = self.rows.0.iter().map(|row| {
            let against = Against {
                measured: row.value("residual"),
                error: row.value("residual_error"),
                expected: expected(row.parameter("loss") / 100.0),
            };
            (row, against)
        });
        all.collect()
    }

    fn exact(&self, claim: &'static str) -> Verdict {
        let all = self.against(|p| exact(p, self.of.links));
        let (holds, text) = told(&all);
        let verdict = Verdict::of(claim, holds, text);
        match failing(&all).as_str() {
            "" => verdict,
            points => verdict.note(format!(
                "outside of both bounds: {points}. One of some hundred points is expected to be \
                 outside by chance; the formula is for independent losses"
            )),
        }
    }

    fn quadratic(&self) -> Verdict {
        let all = self.against(|p| estimate(p, self.of.links));
        let (holds, text) = told(&all);
        let shift = "the estimate counts a loss only if the very next packet arrives and reveals \
                     it (a factor 1 − p); any later packet reveals it too, so 2p² − p³ is left: \
                     2p³ more, 2.6 % of the estimate at 2.5 % loss and 12 % at 10 %";
        let note = match failing(&all).as_str() {
            "" => shift.to_owned(),
            points => format!("it fits but for {points}: {shift}"),
        };
        Verdict::of("quadratic", holds, text).note(note)
    }

    /// Judges a share of all packets against the paper's term for it, pooled over burstiness.
    fn share(&self, claim: &'static str, name: &str, term: fn(f64) -> f64) -> Verdict {
        let mut text = Vec::new();
        let mut failing = Vec::new();
        for loss in self.losses() {
            let rows: Vec<&Row> = self.rows.with(&[("loss", loss)]).collect();
            let mean =
                |name: &str| rows.iter().map(|r| r.value(name)).sum::<f64>() / rows.len() as f64;
            let errors = rows.iter().map(|row| row.value("residual_error").powi(2));
            let against = Against {
                measured: mean(name),
                error: errors.sum::<f64>().sqrt() / rows.len() as f64,
                expected: term(loss / 100.0),
            };
            text.push(format!(
                "{:.3} % ({:.3} %) at {loss} %",
                100.0 * against.measured,
                100.0 * against.expected
            ));
            if !against.fits() {
                failing.push(format!("{loss} % ({:+.0} %)", 100.0 * against.off()));
            }
        }
        let holds = !text.is_empty() && failing.is_empty();
        let verdict = Verdict::of(claim, holds, text.join("; "));
        let why = "the paper's term has a factor 1 − p for the next packet, which need not arrive: a \
                   later one reveals the loss as well";
        match failing.is_empty() {
            true => verdict.note(format!("in brackets the paper's term. Differences: {why}")),
            false => verdict.note(format!(
                "in brackets the paper's term, which does not fit within 10 % or 3 standard errors \
                 at a loss of {}: {why}",
                failing.join(", ")
            )),
        }
    }

    fn burstiness(&self) -> Verdict {
        let mut widest: (f64, String) = (0.0, String::new());
        let mut failing = Vec::new();
        for loss in self.losses() {
            let value = |burst, name| self.rows.value(&[("loss", loss), ("burst", burst)], name);
            let base = value(BURSTS[0], "residual");
            for burst in &BURSTS[1..] {
                let errors = [BURSTS[0], *burst].map(|burst| value(burst, "residual_error"));
                let against = Against {
                    measured: value(*burst, "residual"),
                    error: errors[0].hypot(errors[1]),
                    expected: base,
                };
                let (off, error) = (against.off(), against.error / base);
                let point = format!(
                    "{:+.1} % ± {:.1} % at {loss} % loss, {burst} % burstiness",
                    100.0 * off,
                    100.0 * error
                );
                if off.abs() >= widest.0 && against.expected > 0.0 {
                    widest = (off.abs(), point.clone());
                }
                if !against.fits() {
                    failing.push(point);
                }
            }
        }
        let text = format!("widest from independent losses: {}", widest.1);
        let holds = !widest.1.is_empty() && failing.is_empty();
        let verdict = Verdict::of("burstiness", holds, text);
        let why = "a retransmission comes a round trip after the packet that revealed the gap, which \
                   arrived; so a burst on the link is over when it comes, and bursts of \
                   retransmissions are lost together without being lost more often";
        match failing.is_empty() {
            true => verdict.note(why),
            false => verdict.note(format!(
                "different: {}. Expected was none: {why}",
                failing.join("; ")
            )),
        }
    }

    fn one_request(&self) -> Verdict {
        let sum = |name: &str| self.rows.0.iter().map(|row| row.value(name)).sum::<f64>();
        // Every lost packet was either recovered or stayed missing.
        let lost: f64 = self
            .rows
            .0
            .iter()
            .map(|row| row.value("residual") * row.value("sent"))
            .sum();
        let missing = lost + sum("recovered");
        let text = format!(
            "{} requests for {missing:.0} packets that were lost at first",
            sum("requested")
        );
        let holds = !self.rows.0.is_empty() && sum("requested") <= missing;
        Verdict::of("one-request", holds, text)
            .note("the last packets of a run may be lost without a later one to reveal it, and are not asked for")
    }

    fn no_loss(&self) -> Verdict {
        let sum = |name: &str| {
            self.rows
                .with(&[("loss", 0.0)])
                .map(|row| row.value(name))
                .sum::<f64>()
        };
        let text = format!(
            "{} requests, {} retransmissions in {} packets",
            sum("requested"),
            sum("retransmitted"),
            sum("sent")
        );
        Verdict::of(
            "no-loss-no-traffic",
            sum("sent") > 0.0 && sum("requested") + sum("retransmitted") == 0.0,
            text,
        )
    }

    fn factor_ten(&self) -> Verdict {
        let line = |burst: &f64| {
            let at = [("loss", 5.0), ("burst", *burst)];
            (
                self.rows.value(&at, "residual"),
                self.rows.value(&at, "residual_error"),
            )
        };
        let all: Vec<(f64, f64)> = BURSTS.iter().map(line).collect();
        // "About 0.5 %" means a value that rounds to it.
        let holds = |(residual, error): &(f64, f64)| {
            (residual - 0.005).abs() <= (0.000_5_f64).max(ERRORS * error)
        };
        let text: Vec<String> = BURSTS
            .iter()
            .zip(&all)
            .map(|(burst, (residual, error))| {
                format!(
                    "{:.3} ± {:.3} % at {burst} %",
                    100.0 * residual,
                    100.0 * error
                )
            })
            .collect();
        Verdict::of("factor-ten", all.iter().all(holds), text.join("; "))
    }

    fn losses(&self) -> Vec<f64> {
        let line = self.rows.line(&[("burst", BURSTS[0])], "loss", "residual");
        line.into_iter().map(|(loss, _)| loss).collect()
    }
}

/// Returns whether all points fit, and a text with the widest differences.
fn told(all: &[(&Row, Against)]) -> (bool, String) {
    let fitting = all.iter().filter(|(_, against)| against.fits()).count();
    let shown: Vec<String> = all
        .iter()
        .filter(|(row, _)| [1.0, 5.0, 10.0].contains(&row.parameter("loss")))
        .filter(|(row, _)| [BURSTS[0], BURSTS[3]].contains(&row.parameter("burst")))
        .map(|(row, against)| {
            format!(
                "{:.3} ± {:.3} % ({:.3} %) at {}",
                100.0 * against.measured,
                100.0 * against.error,
                100.0 * against.expected,
                at(row)
            )
        })
        .collect();
    let text = format!(
        "{fitting} of {} points fit: {}",
        all.len(),
        shown.join("; ")
    );
    (!all.is_empty() && fitting == all.len(), text)
}

fn failing(all: &[(&Row, Against)]) -> String {
    let failing = all.iter().filter(|(_, against)| !against.fits());
    let shown =
        failing.map(|(row, against)| format!("{} ({:+.0} %)", at(row), 100.0 * against.off()));
    shown.collect::<Vec<_>>().join(", ")
}

fn at(row: &Row) -> String {
    format!(
        "{} % loss, {} % burstiness",
        row.parameter("loss"),
        row.parameter("burst")
    )
}

fn setup(size: Size) -> Verdict {
    Verdict::setup(
        "setup",
        &[
            ("ms", f64::from(LINK_MS), 10.0),
            ("streams", f64::from(STREAMS), 10.0),
            (
                "packets per point",
                f64::from(packets(size) * STREAMS * SEEDS),
                2e6,
            ),
            ("bytes each", f64::from(PACKET_BYTES), 160.0),
        ],
    )
}

fn buffer() -> Verdict {
    let settings = Settings::paper();
    let bytes = settings.history_packets * u64::from(PACKET_BYTES);
    let parameters = [
        ("packets", settings.history_packets as f64, 1_000.0),
        ("bytes of voice", bytes as f64, 160_000.0),
    ];
    Verdict::setup("buffer", &parameters).note(format!("kept for {}", settings.cover))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_lacks_two_p_cubed() {
        for p in [0.01, 0.05, 0.1] {
            let (exact, estimate) = (exact(p, 1), estimate(p, 1));
            assert!((exact - estimate - 2.0 * p.powi(3)).abs() < 1e-12);
        }
        // Two links lose the packets that either of them loses.
        assert!((exact(0.05, 2) - 0.009_726).abs() < 1e-6);
    }

    #[test]
    fn a_point_fits_within_a_tenth_or_three_errors() {
        let fits = |measured, error| {
            let expected = 0.01;
            Against {
                measured,
                error,
                expected,
            }
            .fits()
        };
        assert!(fits(0.010_9, 0.0) && fits(0.009_1, 0.0) && fits(0.013, 0.001_1));
        assert!(!fits(0.011_1, 0.0) && !fits(0.014, 0.001_1));
        assert!(!fits(f64::NAN, 0.0), "what was not measured does not fit");
    }
}
