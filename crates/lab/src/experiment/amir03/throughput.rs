//! Figure 9: the throughput of one connection over one lossy link, beside the analytical model.

use super::path::{LINK_MBPS, MESSAGE_BYTES, link, mean, run_seed};
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size, Verdict};
use crate::plot::{Axis, Chart, Mark, Series};
use base::{Duration, Time};
use congestion::{Family, model};
use sim::tcp::{Network, Settings, Traffic};

/// The figure.
pub(super) const FIG9: Throughput = Throughput;

const DELAYS_MS: [f64; 2] = [10.0, 50.0];
const LOSSES: [f64; 8] = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0];
/// The model is compared from here on; at less, the link's capacity says what passes.
const MODEL_FROM: f64 = 0.25;
const FAMILIES: [Family; 2] = [Family::NewReno, Family::Sack];
/// Runs of a point.
const RUNS: u32 = 3;
/// Larger than anything that the link and its queue hold: no limit.
const WINDOW: u32 = 1_000;
/// How near TCP is to the model with a round trip of 100 ms.
const NEAR: f64 = 0.1;
/// How far TCP may be above it with one of 20 ms.
const ABOVE: f64 = 0.25;

const NO_LINK: &str = "the node's own reliable link is not among the curves yet";

/// The experiment.
pub(super) struct Throughput;

impl Experiment for Throughput {
    fn id(&self) -> &'static str {
        "amir03/fig9"
    }

    fn title(&self) -> &'static str {
        "Throughput of one connection over a link of 10 Mbit/s, against its loss"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "One link of {LINK_MBPS} Mbit/s with a queue of 50 packets, 10 or 50 ms in each direction, losses on the way of the \
             data; a file without an end in segments of {MESSAGE_BYTES} bytes, {RUNS} runs of {} s for each point. Least \
             timeout 200 ms, clock tick 10 ms, window {WINDOW}. The model is Padhye et al. 1998, equation 30, with the round \
             trip of an empty queue, an acknowledgement for each segment, and at most the link's capacity.",
            seconds(size)
        )
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        let mut cells = Vec::new();
        for delay in DELAYS_MS {
            for loss in LOSSES {
                for family in 0..FAMILIES.len() {
                    for run in 0..RUNS {
                        cells.push(Cell::at(&[
                            ("delay_ms", delay),
                            ("loss", loss),
                            ("family", family as f64),
                            ("run", f64::from(run)),
                        ]));
                    }
                }
            }
        }
        cells
    }

    fn measure(&self, plan: &Plan, cell: &Cell, _: u64) -> Result<Row, CellError> {
        let family = FAMILIES[cell.parameter("family") as usize];
        let (delay, loss) = (cell.parameter("delay_ms"), cell.parameter("loss"));
        let mut network = Network::default();
        let (a, b) = (network.host(), network.host());
        network.link_one_way(a, b, link(delay, loss));
        network.link_one_way(b, a, link(delay, 0.0));
        let mut settings = Settings::ns2(family).with_window(WINDOW);
        settings.segment_bytes = MESSAGE_BYTES;
        let flow = network.connect(a, b, settings, Traffic::unlimited());
        network.count_only(flow);
        let mut world = network.build(run_seed(plan.seed, cell.parameter("run") as u32));
        let seconds = seconds(plan.size);
        world.run_until(Time::ZERO + Duration::from_secs(seconds));
        let bits = flow.received(&world).delivered as f64 * MESSAGE_BYTES as f64 * 8.0;
        let dropped = world.counts(a, b).queue as f64;
        let mut row = Row::of(cell);
        row.set("kbps", bits / seconds as f64 / 1e3);
        row.set(
            "queue_drops_pct",
            100.0 * dropped / flow.sent(&world).segments as f64,
        );
        row.set("timeouts", flow.sent(&world).timeouts as f64);
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let mut series = Vec::new();
        for delay in DELAYS_MS {
            for (n, family) in FAMILIES.iter().enumerate() {
                let points = LOSSES.map(|loss| (loss, value(rows, delay, loss, n, "kbps")));
                series.push(Series {
                    name: format!("{family}, {delay} ms").into(),
                    color: n as u8,
                    mark: Mark::Line,
                    points: points.to_vec(),
                });
            }
            let points = LOSSES.map(|loss| (loss, model_kbps(delay, loss)));
            series.push(Series {
                name: format!("model, {delay} ms").into(),
                color: 4,
                mark: Mark::Dots,
                points: points.to_vec(),
            });
        }
        Findings {
            charts: vec![Chart {
                title: self.title().into(),
                x: Axis {
                    label: "loss rate, %".into(),
                    min: 0.0,
                    max: 2.0,
                },
                y: Axis {
                    label: "throughput, kbit/s".into(),
                    min: 0.0,
                    max: f64::from(LINK_MBPS) * 1e3,
                },
                series,
            }],
            verdicts: vec![
                Verdict::untested("close", NO_LINK),
                near_model(rows),
                saturation(rows),
                Verdict::untested(
                    "fair",
                    "shares of a real link with kernel TCP are `sinew bench`'s to measure",
                ),
                Verdict::untested("buffered", NO_LINK),
            ],
        }
    }
}

/// The seconds of a run.
const fn seconds(size: Size) -> u64 {
    match size {
        Size::Quick => 200,
        Size::Full => 2_000,
    }
}

fn value(rows: &Rows, delay: f64, loss: f64, family: usize, name: &str) -> f64 {
    let place = [
        ("delay_ms", delay),
        ("loss", loss),
        ("family", family as f64),
    ];
    mean(rows.with(&place).map(|row| row.value(name)))
}

/// The model's throughput, at most the link's.
fn model_kbps(delay_ms: f64, loss_percent: f64) -> f64 {
    let packet_ms = MESSAGE_BYTES as f64 * 8.0 / (f64::from(LINK_MBPS) * 1e3);
    let path = model::Path {
        loss: loss_percent / 100.0,
        rtt: Duration::from_secs_f64((2.0 * delay_ms + packet_ms) / 1e3),
        rto: Duration::from_millis(200),
        per_ack: 1.0,
    };
    let kbps = model::padhye(&path, f64::from(WINDOW)) * MESSAGE_BYTES as f64 * 8.0 / 1e3;
    kbps.min(f64::from(LINK_MBPS) * 1e3)
}

fn near_model(rows: &Rows) -> Verdict {
    let mut holds = true;
    let mut said = Vec::new();
    for delay in DELAYS_MS {
        for (n, family) in FAMILIES.iter().enumerate() {
            let compared = LOSSES.iter().filter(|loss| **loss >= MODEL_FROM);
            let off: Vec<f64> = compared
                .map(|loss| value(rows, delay, *loss, n, "kbps") / model_kbps(delay, *loss) - 1.0)
                .collect();
            let low = off.iter().copied().fold(f64::INFINITY, f64::min);
            let high = off.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            holds &= high <= if delay < 50.0 { ABOVE } else { NEAR };
            holds &= delay < 50.0 || low >= -NEAR;
            said.push(format!(
                "{family} at {delay} ms {:+.1} to {:+.1} %",
                100.0 * low,
                100.0 * high
            ));
        }
    }
    Verdict::of("model", holds, said.join("; ")).note(
        "the model loses a whole window with a packet and halves from the mean; with short round trips real windows lose \
         single packets, and timeouts of two round trips cost less than the model's",
    )
}

fn saturation(rows: &Rows) -> Verdict {
    let drops = |delay, loss| value(rows, delay, loss, 0, "queue_drops_pct");
    let (here, model) = (
        value(rows, 10.0, MODEL_FROM, 0, "kbps"),
        model_kbps(10.0, MODEL_FROM),
    );
    let (near, far) = (drops(10.0, MODEL_FROM), drops(50.0, 2.0));
    let text = format!(
        "newreno at 10 ms and {MODEL_FROM} %: {here:.0} kbit/s, model {model:.0}; dropped by the queue {near:.3} %, at 50 ms and \
         2 % {far:.3} %"
    );
    Verdict::of("saturation", here < model && near > 0.0 && far == 0.0, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_limited_by_the_link() {
        assert_eq!(model_kbps(10.0, 0.0), 10_000.0);
        let kbps = model_kbps(50.0, 1.0);
        assert!((900.0..960.0).contains(&kbps), "{kbps}");
    }
}
