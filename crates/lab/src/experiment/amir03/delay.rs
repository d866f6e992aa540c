//! Figures 3, 4 and 5: delay and jitter of a stream against the loss rate, end to end and hop by hop.

use super::path::{HOPS, Joined, MESSAGE_BYTES, Path, Summary, run_seed};
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size, Verdict};
use crate::plot::{Axis, Chart, Mark, Series};
use crate::stats::{mean, most};
use congestion::Family;
use sim::tcp::Settings;

/// Figure 3: the mean at 500 kbit/s.
pub(super) const FIG3: Delay = Delay {
    id: "amir03/fig3",
    title: "Mean delay of a 500 kbit/s stream, end to end and hop by hop",
    figure: Figure::Mean,
};
/// Figure 4: the mean at 1000 kbit/s.
pub(super) const FIG4: Delay = Delay {
    id: "amir03/fig4",
    title: "Mean delay of a 1000 kbit/s stream, end to end and hop by hop",
    figure: Figure::Faster,
};
/// Figure 5: the jitter at 500 kbit/s.
pub(super) const FIG5: Delay = Delay {
    id: "amir03/fig5",
    title: "Jitter of a 500 kbit/s stream, end to end and hop by hop",
    figure: Figure::Jitter,
};

const LOSSES: [f64; 9] = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0];
/// Number of runs of a point.
const RUNS: u32 = 4;
/// "A low average delay": the limit is a fifth more than the path's latency. [Amir03 §III]
const LOW_MS: f64 = 60.0;
/// "Considerably higher": the least factor.
const CONSIDERABLY: f64 = 2.0;

/// One of the three figures.
pub(super) struct Delay {
    id: &'static str,
    title: &'static str,
    figure: Figure,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Figure {
    Mean,
    Faster,
    Jitter,
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
            "1000-byte messages over five hops of 10 ms and 10 Mbit/s, the third with losses; one FACK connection end to end, \
             or five of the modified FACK with relays that forward out of order, buffers without pressure and the order \
             restored at the end; and production nodes with their reliable links (one run). {RUNS} runs of {} s for each point, the same losses for both; parameters as Table I, least \
             timeout 1 s. At 1000 kbit/s and more than about 1 % the end-to-end connection is slower than the stream: its \
             delay grows with the length of the run and is no property of the protocol.",
            seconds(size, Joined::EndToEnd)
        )
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        let rates: &[f64] = match self.figure {
            Figure::Faster => &[500.0, 1000.0],
            _ => &[500.0],
        };
        let mut cells = Vec::new();
        for rate in rates {
            for loss in LOSSES {
                for joined in Joined::ALL {
                    for run in 0..runs(joined) {
                        cells.push(Cell::at(&[
                            ("kbps", *rate),
                            ("loss", loss),
                            ("joined", joined.number()),
                            ("run", f64::from(run)),
                        ]));
                    }
                }
            }
        }
        cells
    }

    fn measure(&self, plan: &Plan, cell: &Cell, _: u64) -> Result<Row, CellError> {
        let joined = Joined::of(cell);
        let settings = Settings::of_2003(Family::Fack);
        let mut path = Path::equal(HOPS, cell.parameter("loss"), joined, settings);
        path.rate_bps = cell.parameter("kbps") as u64 * 1000;
        path.seconds = seconds(plan.size, joined);
        let run = cell.parameter("run") as u32;
        let summary = Summary::of(&path.delays_ms(run_seed(plan.seed, run))?);
        let mut row = Row::of(cell);
        row.set("packets", summary.packets);
        row.set("mean_ms", summary.mean_ms);
        row.set("jitter_ms", summary.jitter_ms);
        row.set("over_60_pct", summary.over_60_pct);
        row.set("over_100_pct", summary.over_100_pct);
        row.set("over_500_pct", summary.over_500_pct);
        if self.figure == Figure::Mean && joined == Joined::EndToEnd && run == 0 {
            row.set(
                "differing",
                f64::from(differing(&path, run_seed(plan.seed, run))?),
            );
        }
        Ok(row)
    }

    fn conclude(&self, plan: &Plan, rows: &Rows) -> Findings {
        let (rate, value) = match self.figure {
            Figure::Mean => (500.0, "mean_ms"),
            Figure::Faster => (1000.0, "mean_ms"),
            Figure::Jitter => (500.0, "jitter_ms"),
        };
        let [end, hop, node] = Joined::ALL.map(|joined| line(rows, rate, joined, value));
        let verdicts = match self.figure {
            Figure::Mean => vec![
                identical(rows),
                length(plan.size),
                faster("faster", &end, &hop),
                low(rows, &hop, &node),
            ],
            Figure::Faster => vec![magnified(rows, &end, &hop, &node)],
            Figure::Jitter => vec![
                higher(&end, &hop, &node),
                grows_faster(&end, &hop),
                Verdict::by_construction("jitter", "the standard deviation of the delays"),
            ],
        };
        Findings {
            charts: vec![self.chart([end, hop, node])],
            verdicts,
        }
    }
}

/// Returns the number of runs of a point. A production node does more for a packet than a simulated TCP.
const fn runs(joined: Joined) -> u32 {
    match joined {
        Joined::EndToEnd | Joined::HopByHop => RUNS,
        Joined::Nodes => 1,
    }
}

/// Returns the seconds of a run.
const fn seconds(size: Size, joined: Joined) -> u64 {
    match (size, joined) {
        (Size::Quick, Joined::Nodes) => 100,
        (Size::Quick, _) => 400,
        (Size::Full, _) => 5_000,
    }
}

/// Returns how many packets the modified connection delivers at another moment than the original one, on a
/// point-to-point link with the path's latency.
fn differing(path: &Path, seed: u64) -> Result<u32, CellError> {
    let settings = path.settings.clone();
    let mut single = Path::equal(1, path.loss_percent, Joined::EndToEnd, settings);
    single.seconds = path.seconds.min(1_000);
    let original = single.delays_ms(seed)?;
    single.modified = true;
    let modified = single.delays_ms(seed)?;
    let alike = original.iter().zip(&modified).filter(|(a, b)| a == b);
    Ok((original.len().max(modified.len()) - alike.count()) as u32)
}

/// Returns a value over the loss, the mean of the runs.
fn line(rows: &Rows, rate: f64, joined: Joined, value: &str) -> Vec<(f64, f64)> {
    let at = |loss: f64| {
        let place = [("kbps", rate), ("loss", loss), ("joined", joined.number())];
        mean(rows.with(&place).map(|row| row.value(value)))
    };
    LOSSES.map(|loss| (loss, at(loss))).to_vec()
}

fn last(line: &[(f64, f64)]) -> f64 {
    line.last().map_or(f64::NAN, |point| point.1)
}

fn ends(line: &[(f64, f64)]) -> String {
    let at = |n: usize| line.get(n).copied().unwrap_or((f64::NAN, f64::NAN));
    let middle = line.len() / 2;
    let points = [at(0), at(middle), at(line.len().saturating_sub(1))];
    let said = points.map(|(loss, ms)| format!("{ms:.1} ms at {loss} %"));
    said.join(", ")
}

fn both(end: &[(f64, f64)], hop: &[(f64, f64)]) -> String {
    format!("end to end {}; hop by hop {}", ends(end), ends(hop))
}

fn identical(rows: &Rows) -> Verdict {
    let compared = rows.0.iter().filter(|row| row.known("differing").is_some());
    let (mut places, mut differing) = (0, 0.0);
    for row in compared {
        places += 1;
        differing += row.value("differing");
    }
    let text = format!("{differing} packets delivered at another moment, at {places} loss rates");
    Verdict::of("identical", differing == 0.0 && places > 1, text)
        .note("one link of 50 ms; the same losses for both")
}

fn length(size: Size) -> Verdict {
    let seconds = seconds(size, Joined::EndToEnd) as f64;
    let parameters = [
        ("s", seconds, 5_000.0),
        ("bytes in a message", MESSAGE_BYTES as f64, 1_000.0),
    ];
    Verdict::setup("setup-length", &parameters).note(format!("{RUNS} runs"))
}

fn faster(claim: &'static str, end: &[(f64, f64)], hop: &[(f64, f64)]) -> Verdict {
    let steps = |line: &[(f64, f64)]| -> Vec<f64> {
        line.windows(2).map(|pair| pair[1].1 - pair[0].1).collect()
    };
    let holds = steps(end)
        .iter()
        .zip(steps(hop))
        .all(|(end, hop)| *end > hop);
    Verdict::of(claim, holds, both(end, hop))
}

fn by_nodes(node: &[(f64, f64)]) -> String {
    format!("this overlay's reliable links: {}", ends(node))
}

fn low(rows: &Rows, hop: &[(f64, f64)], node: &[(f64, f64)]) -> Verdict {
    let highest = most(hop.iter().map(|point| point.1));
    let highest_loss = LOSSES[LOSSES.len() - 1];
    let place = [
        ("kbps", 500.0),
        ("loss", highest_loss),
        ("joined", Joined::HopByHop.number()),
    ];
    let each = rows.with(&place).map(|row| {
        let (mean, late) = (row.value("mean_ms"), row.value("over_500_pct"));
        format!("{mean:.1} ms ({late:.2} % over 500 ms)")
    });
    let each = each.collect::<Vec<_>>().join(", ");
    Verdict::of("low", highest < LOW_MS, format!("hop by hop {}", ends(hop))).note(format!(
        "54 ms of it are the path: 50 ms, and five times 0.8 ms to send a segment at 10 Mbit/s. The rest is one FACK \
         connection over the lossy hop: relays add nothing; {}",
        by_nodes(node)
    ))
    .because(format!("its runs at {highest_loss} %, one by one: {each}"))
}

fn magnified(rows: &Rows, end: &[(f64, f64)], hop: &[(f64, f64)], node: &[(f64, f64)]) -> Verdict {
    let slow_end = line(rows, 500.0, Joined::EndToEnd, "mean_ms");
    let slow_hop = line(rows, 500.0, Joined::HopByHop, "mean_ms");
    let ratio = |end: &[(f64, f64)], hop: &[(f64, f64)]| -> Vec<f64> {
        end.iter()
            .zip(hop)
            .skip(1)
            .map(|(end, hop)| end.1 / hop.1)
            .collect()
    };
    let (fast, slow) = (ratio(end, hop), ratio(&slow_end, &slow_hop));
    let holds = fast.iter().zip(&slow).all(|(fast, slow)| fast > slow);
    let at = |ratios: &[f64], n: usize| ratios.get(n).copied().unwrap_or(f64::NAN);
    let one = LOSSES.iter().position(|loss| *loss == 1.0).unwrap_or(1) - 1;
    let text = format!(
        "end to end over hop by hop at 1 %: {:.2} at 1000 kbit/s, {:.2} at 500; at 2 %: {:.2} and {:.2}. {}",
        at(&fast, one),
        at(&slow, one),
        at(&fast, fast.len() - 1),
        at(&slow, slow.len() - 1),
        both(end, hop)
    );
    let worst = line(rows, 1000.0, Joined::Nodes, "over_500_pct");
    let worst = most(worst.iter().map(|point| point.1));
    Verdict::of("magnified", holds, text).note(format!(
        "{}; at most {worst:.3} % over 500 ms",
        by_nodes(node)
    ))
}

fn higher(end: &[(f64, f64)], hop: &[(f64, f64)], node: &[(f64, f64)]) -> Verdict {
    let mut pairs = end.iter().zip(hop).skip(1);
    let holds = pairs.all(|(end, hop)| end.1 >= CONSIDERABLY * hop.1);
    Verdict::of("higher", holds, both(end, hop)).note(by_nodes(node))
}

fn grows_faster(end: &[(f64, f64)], hop: &[(f64, f64)]) -> Verdict {
    let grown = |line: &[(f64, f64)]| last(line) - line.get(1).map_or(f64::NAN, |p| p.1);
    let (by_end, by_hop) = (grown(end), grown(hop));
    let text =
        format!("from 0.25 to 2 %: end to end by {by_end:.1} ms, hop by hop by {by_hop:.1} ms");
    Verdict::of("faster", by_end > by_hop, text)
}

impl Delay {
    fn chart(&self, lines: [Vec<(f64, f64)>; 3]) -> Chart {
        let points = lines.iter().flatten().map(|point| point.1);
        let highest = points.fold(100.0, f64::max);
        let named = Joined::ALL.iter().zip(lines).enumerate();
        let series = named.map(|(n, (joined, points))| Series {
            name: joined.label().into(),
            color: n as u8,
            mark: Mark::Line,
            points,
        });
        Chart {
            title: self.title.into(),
            x: Axis {
                label: "loss rate, %".into(),
                min: 0.0,
                max: 2.0,
            },
            y: Axis {
                label: match self.figure {
                    Figure::Jitter => "standard deviation of the delay, ms".into(),
                    _ => "mean delay, ms".into(),
                },
                min: 0.0,
                max: (highest / 100.0).ceil() * 100.0,
            },
            series: series.collect(),
        }
    }
}
