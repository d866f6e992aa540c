//! The figures: the scenario of each, the values that it draws, and the function that judges it.

use super::scenario::{HEAVY, LIGHT, Point, Scenario, point};
use super::setup::{FIGURE_1, SECOND_MBPS, Transport};
use super::table::Table;
use super::verdicts::{five, four, one, partial, three, two};
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size, Verdict};
use crate::plot::{Axis, Chart, Mark, Series};

/// A figure of the paper.
pub(super) struct Figure {
    id: &'static str,
    title: &'static str,
    scenario: Scenario,
    draw: Draw,
    judge: fn(&Table<'_>, Size) -> Vec<Verdict>,
}

/// What a figure draws.
#[derive(Clone, Copy)]
enum Draw {
    /// A value over the number of calls, a line per transport, with a number of FTP flows.
    Calls { ftp: f64, value: Value },
    /// A value of one transport over the number of calls, a line per packet size.
    Sizes { transport: Transport, value: Value },
    /// A value over the errors, a line per transport, with a number of calls.
    Errors { calls: f64, value: Value },
    /// Shares by threshold, a line per transport, with a number of calls.
    Thresholds { calls: f64, value: Value },
}

/// A column of a row, and its label.
#[derive(Clone, Copy)]
struct Value {
    name: &'static str,
    label: &'static str,
}

const GOODPUT: Value = value("goodput_kbps", "goodput of voice, kbit/s");
const INDEX: Value = value("index_300", "real-time performance index");
const WITHIN: Value = value("within_150ms", "share within 150 ms one way");
const FAIRNESS: Value = value("fairness", "fairness index");
const DELAYED: Value = value("delayed_300", "delayed packets rate");
const LOST: Value = value("lost", "packet loss rate");
const UNDELIVERED: Value = value("undelivered", "share not delivered by the end");
const LATE: Value = value("delay_p95_ms", "one-way delay, 95th percentile, ms");
const FTP: Value = value("ftp_goodput_kbps", "goodput of FTP, kbit/s");
/// Values by threshold: the number is appended to the name.
const INDEX_AT: Value = value("index_", "real-time performance index");
const DELAYED_AT: Value = value("delayed_", "delayed packets rate");

const fn value(name: &'static str, label: &'static str) -> Value {
    Value { name, label }
}

const fn over_calls(ftp: f64, value: Value) -> Draw {
    Draw::Calls { ftp, value }
}

const fn sizes(transport: Transport, value: Value) -> Draw {
    Draw::Sizes { transport, value }
}

const fn over_errors(calls: f64, value: Value) -> Draw {
    Draw::Errors { calls, value }
}

const fn thresholds(calls: f64, value: Value) -> Draw {
    Draw::Thresholds { calls, value }
}

macro_rules! figures {
    ($($name:ident $id:literal $title:literal $scenario:ident $draw:expr, $judge:path;)*) => {
        $(
            pub(super) static $name: Figure = Figure {
                id: concat!("papadimitriou06/", $id),
                title: $title,
                scenario: Scenario::$scenario,
                draw: $draw,
                judge: $judge,
            };
        )*
    };
}

figures! {
    FIG2 "fig2" "System goodput of voice over Vegas, Westwood, Real and UDP" One over_calls(0.0, GOODPUT), one::goodput;
    FIG3 "fig3" "Average real-time performance of voice" One over_calls(0.0, INDEX), one::index;
    FIG4 "fig4" "Fairness among calls" One over_calls(0.0, FAIRNESS), one::fairness;
    FIG5 "fig5" "Delayed packets" One over_calls(0.0, DELAYED), one::delayed;
    FIG6 "fig6" "Lost packets" One over_calls(0.0, LOST), one::lost;
    FIG7 "fig7" "Packet sizes over Vegas: goodput" Two sizes(Transport::Vegas, GOODPUT), two::vegas_goodput;
    FIG8 "fig8" "Packet sizes over Vegas: real-time performance" Two sizes(Transport::Vegas, INDEX), two::vegas_index;
    FIG9 "fig9" "Packet sizes over Westwood: goodput" Two sizes(Transport::Westwood, GOODPUT), two::westwood_goodput;
    FIG10 "fig10" "Packet sizes over Westwood: real-time performance" Two sizes(Transport::Westwood, INDEX), two::westwood_index;
    FIG11 "fig11" "Packet sizes over Real: goodput" Two sizes(Transport::Real, GOODPUT), two::real_goodput;
    FIG12 "fig12" "Packet sizes over Real: real-time performance" Two sizes(Transport::Real, INDEX), two::real_index;
    FIG13 "fig13" "Packet sizes over UDP: goodput" Two sizes(Transport::Udp, GOODPUT), two::udp_goodput;
    FIG14 "fig14" "Packet sizes over UDP: real-time performance" Two sizes(Transport::Udp, INDEX), two::udp_index;
    FIG15 "fig15" "Goodput of light FTP traffic beside voice" Three over_calls(LIGHT, FTP), three::light;
    FIG16 "fig16" "Goodput of heavy FTP traffic beside voice" Three over_calls(HEAVY, FTP), three::heavy;
    FIG17 "fig17" "Packet errors, 80 calls: goodput" Four over_errors(80.0, GOODPUT), four::goodput_80;
    FIG18 "fig18" "Packet errors, 80 calls: real-time performance" Four over_errors(80.0, INDEX), four::index_80;
    FIG19 "fig19" "Packet errors, 120 calls: goodput" Four over_errors(120.0, GOODPUT), four::goodput_120;
    FIG20 "fig20" "Packet errors, 120 calls: real-time performance" Four over_errors(120.0, INDEX), four::index_120;
    FIG21 "fig21" "Inter-arrival thresholds, 80 calls: real-time performance" Five thresholds(80.0, INDEX_AT), five::index_80;
    FIG22 "fig22" "Inter-arrival thresholds, 80 calls: delayed packets" Five thresholds(80.0, DELAYED_AT), five::delayed_80;
    FIG23 "fig23" "Inter-arrival thresholds, 120 calls: real-time performance" Five thresholds(120.0, INDEX_AT), five::index_120;
    FIG24 "fig24" "Inter-arrival thresholds, 120 calls: delayed packets" Five thresholds(120.0, DELAYED_AT), five::delayed_120;
    PARTIAL "partial" "A partially reliable class beside Real and UDP, over many seeds" Partial over_calls(0.0, INDEX), partial::all;
}

impl Experiment for Figure {
    fn id(&self) -> &'static str {
        self.id
    }

    fn family(&self) -> &'static str {
        self.scenario.name()
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn method(&self, _size: Size) -> String {
        let ((first, first_queue), (second, second_queue)) = (FIGURE_1.first, FIGURE_1.second);
        let mbps = |bps: u64| bps as f64 / 1e6;
        let swept = match self.scenario {
            Scenario::Three => format!(
                " R2-R3 is run with {SECOND_MBPS:?} Mbit/s and a queue of as many milliseconds each; a claim holds if it does at \
                 more than half of them."
            ),
            _ => {
                " Reno and a partially reliable class are drawn beside the paper's four.".to_owned()
            }
        };
        format!(
            "The simulator's TCP and UDP hosts for 60 s over R1-R2 ({} Mbit/s, {first_queue} packets) and R2-R3 ({} \
             Mbit/s, {second_queue} packets), drop-tail, {} one way without queues; the figure's own capacities are \
             not in the paper's text. Calls are Pareto on/off at 64 kbit/s with equal headers of 40 bytes over all \
             transports, and the same people speak at the same moments over each. A packet is delayed if the gap \
             before it, less the speaker's silence, exceeds the threshold; packets of the last second are not \
             judged. The loss rate counts every loss of a packet of voice on the way, repeated or not, per packet \
             written.{swept}",
            mbps(first),
            mbps(second),
            FIGURE_1.propagation(),
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        self.scenario.cells(size)
    }

    fn measure(&self, plan: &Plan, cell: &Cell, _seed: u64) -> Result<Row, CellError> {
        self.scenario.measure(plan, cell)
    }

    fn conclude(&self, plan: &Plan, rows: &Rows) -> Findings {
        let table = Table(rows);
        let mut charts = match (self.scenario, self.draw) {
            (Scenario::Three, Draw::Calls { ftp, .. }) => {
                // The first drawing has the capacity at which the paper's shape appears, if anywhere; then follows the
                // rest of the sweep.
                let first = three::shape(&table, plan.size, ftp);
                let others = SECOND_MBPS.into_iter().filter(|mbps| *mbps != first);
                let all = [first].into_iter().chain(others);
                let drawn = all.map(|mbps| self.draw.chart(self, &table, plan.size, Some(mbps)));
                drawn.collect()
            }
            _ => vec![self.draw.chart(self, &table, plan.size, None)],
        };
        for value in self.draw.beside() {
            charts.push(self.draw.with(value).chart(self, &table, plan.size, None));
        }
        if self.scenario == Scenario::Partial {
            charts.extend(partial::charts(&table, plan.size));
        }
        Findings {
            charts,
            verdicts: (self.judge)(&table, plan.size),
        }
    }
}

impl Draw {
    fn value(self) -> Value {
        match self {
            Draw::Calls { value, .. }
            | Draw::Sizes { value, .. }
            | Draw::Errors { value, .. }
            | Draw::Thresholds { value, .. } => value,
        }
    }

    fn with(self, value: Value) -> Draw {
        match self {
            Draw::Calls { ftp, .. } => Draw::Calls { ftp, value },
            Draw::Sizes { transport, .. } => Draw::Sizes { transport, value },
            Draw::Errors { calls, .. } => Draw::Errors { calls, value },
            Draw::Thresholds { calls, .. } => Draw::Thresholds { calls, value },
        }
    }

    /// Returns what is drawn additionally: values that the paper's metric hides.
    fn beside(self) -> Vec<Value> {
        match (self, self.value().name) {
            (Draw::Thresholds { .. }, _) => Vec::new(),
            (_, "index_300") => vec![WITHIN],
            (_, "delayed_300") => vec![LATE],
            (_, "lost") => vec![UNDELIVERED],
            _ => Vec::new(),
        }
    }

    /// Draws a chart; `second_mbps` is the capacity of the second link, if it is swept.
    fn chart(
        self,
        figure: &Figure,
        table: &Table<'_>,
        size: Size,
        second_mbps: Option<f64>,
    ) -> Chart {
        let scenario = figure.scenario;
        let (value, transports) = (self.value(), scenario.transports());
        let of = |transport: Transport, point: Point| table.mean(transport, point, value.name);
        let calls = scenario.calls(size);
        let lines = |points: &dyn Fn(Transport) -> Vec<(f64, f64)>| {
            let named = transports.iter().map(|t| (t.name().to_owned(), points(*t)));
            named.collect::<Vec<_>>()
        };
        let (label, series) = match self {
            Draw::Calls { ftp, .. } => {
                let place = |calls: f64| Point {
                    second_mbps,
                    ..point(calls, ftp)
                };
                let at = |t: Transport| calls.iter().map(|c| (*c, of(t, place(*c)))).collect();
                ("VoIP flows", lines(&at))
            }
            Draw::Sizes { transport, .. } => {
                let line = |bytes: f64| {
                    let at = |c: &f64| (*c, of(transport, point(*c, LIGHT).bytes(bytes)));
                    (format!("{bytes} bytes"), calls.iter().map(at).collect())
                };
                ("VoIP flows", [160.0, 300.0, 500.0].map(line).to_vec())
            }
            Draw::Errors { calls, .. } => {
                let at = |t: Transport| {
                    let errors = scenario.errors(size).iter();
                    errors
                        .map(|e| (*e, of(t, point(calls, LIGHT).errors(*e))))
                        .collect()
                };
                ("packet errors, %", lines(&at))
            }
            Draw::Thresholds { calls, .. } => {
                let at = |t: Transport| {
                    let thresholds = super::metrics::THRESHOLDS_MS.iter();
                    let place = point(calls, LIGHT);
                    let mean = |ms: &u64| table.mean(t, place, &format!("{}{ms}", value.name));
                    thresholds.map(|ms| (*ms as f64, mean(ms))).collect()
                };
                ("inter-arrival threshold, ms", lines(&at))
            }
        };
        let mut chart = chart(figure.title, label, value.label, series);
        let errors: Vec<Series> = match self {
            Draw::Calls { ftp, .. } => bars(transports, calls, |t, c| {
                let place = Point {
                    second_mbps,
                    ..point(c, ftp)
                };
                (of(t, place), table.error(t, place, value.name))
            }),
            Draw::Errors { calls, .. } => bars(transports, scenario.errors(size), |t, e| {
                let place = point(calls, LIGHT).errors(e);
                (of(t, place), table.error(t, place, value.name))
            }),
            Draw::Sizes { .. } | Draw::Thresholds { .. } => Vec::new(),
        };
        chart.series.extend(errors);
        if let Some(mbps) = second_mbps {
            chart.title = format!("{}, R2-R3 of {mbps} Mbit/s", figure.title).into();
        }
        chart
    }
}

/// Returns the standard errors of each transport's line, which [`chart`] draws in the same order; none for single
/// rounds.
fn bars(
    transports: &[Transport],
    xs: &[f64],
    of: impl Fn(Transport, f64) -> (f64, f64),
) -> Vec<Series> {
    let bars = transports.iter().enumerate().map(|(place, transport)| {
        let known = xs.iter().map(|x| (*x, of(*transport, *x)));
        let known = known.filter(|(_, (_, error))| *error > 0.0);
        Series {
            name: "".into(),
            color: place as u8,
            mark: Mark::Bars,
            points: known
                .flat_map(|(x, (y, error))| [(x, y - error), (x, y + error)])
                .collect(),
        }
    });
    bars.filter(|series| !series.points.is_empty()).collect()
}

/// Returns a chart of named lines. Axes begin at zero, shares end at one.
pub(super) fn chart(
    title: &'static str,
    x: &'static str,
    y: &'static str,
    lines: Vec<(String, Vec<(f64, f64)>)>,
) -> Chart {
    let all = || lines.iter().flat_map(|(_, points)| points);
    let most = |of: fn(&(f64, f64)) -> f64| all().map(of).fold(0.0, f64::max);
    let highest = most(|(_, y)| *y);
    let series = lines
        .iter()
        .enumerate()
        .map(|(place, (name, points))| Series {
            name: name.clone().into(),
            color: place as u8,
            mark: Mark::Line,
            points: points.clone(),
        });
    Chart {
        title: title.into(),
        x: Axis {
            label: x.into(),
            min: 0.0,
            max: most(|(x, _)| *x),
        },
        y: Axis {
            label: y.into(),
            min: 0.0,
            max: if highest > 0.3 && highest <= 1.0 {
                1.0
            } else {
                highest * 1.05
            },
        },
        series: series.collect(),
    }
}
