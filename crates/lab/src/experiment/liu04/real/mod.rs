//! The chain of [Liu04 §V-A] with real relays and kernel TCP: a connection from end to end, one over
//! each link, and `sinew cp` through a relay at every host.
//!
//! ```text
//!   a ═ b ═ c ═ d ═ e ═ f ═ g     six emulated links of 20 Mbit/s, 10 ms and 0.5 % loss each way
//!   └──────────────────────▶     one connection, forwarded by the kernels
//!   └─▶ └─▶ └─▶ └─▶ └─▶ └─▶      one over each link, none through another
//!   └─▶─▶─▶─▶─▶─▶──────────      sinew cp, TLS from relay to relay
//! ```

mod copy;
pub(super) mod scavenge;
mod site;
mod stream;
mod verdicts;

use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size};
use crate::plot::{Axis, Chart, Mark, Series};
use copy::{Copy, Relays};
use graph::pipeline::{Rate, Rates};
use graph::stripes::stripes_of;
use graph::width::Width;
use site::Site;
use std::time::Duration;
use stream::{Stream, rates};

/// The experiment.
pub(super) const REAL: Real = Real;

/// Links of the chain. [Liu04 §V-A]
const LINKS: usize = 6;
/// The kernel's congestion controls, by the cells' number.
const CONGESTION: [&str; 3] = ["reno", "cubic", "bbr"];
/// What every link is like.
const LINK: &str = "rate=20mbit delay=10ms loss=0.5% queue=100";
/// What the worst one is like where stripes are asked for, and which it is.
const WORST: &str = "rate=20mbit delay=10ms loss=2% queue=100";
const WORST_AT: usize = 3;
/// The rate of a link. [Liu04 §V-A]
const LINK_BPS: u64 = 20_000_000;
/// Connections in all for stripes: as many as links, and so many more.
const SPARE: usize = 2;
const WARM: Duration = Duration::from_secs(3);
/// Six connections one after the other, each from its slow start.
const COPY_WARM: Duration = Duration::from_secs(6);

/// The experiment.
pub(super) struct Real;

impl Experiment for Real {
    fn id(&self) -> &'static str {
        "liu04/real"
    }

    fn title(&self) -> &'static str {
        "Kernel TCP over six emulated links: one connection, and a relay at every host"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "Seven network namespaces in a row, joined by six emulated links ({LINK}, both ways). For each congestion control \
             one connection from end to end, then six at the same time, one over each link, measured for {} s after {} s; then \
             sinew cp from the first host to the last through all others, twice, measured for as long after {} s by what arrives: before \
             the first nobody has measured the links but by hellos, before the second the first one has. With stripes, one link loses 2 %, \
             and the placement is the optimum for {} connections of the rates that single connections had.",
            span(size).as_secs(),
            WARM.as_secs(),
            COPY_WARM.as_secs(),
            LINKS + SPARE,
        )
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        let plain = (0..CONGESTION.len()).map(|kind| cell(kind, false));
        plain.chain([cell(0, true)]).collect()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let congestion = CONGESTION[cell.parameter("congestion") as usize];
        let is_striped = cell.parameter("stripes") != 0.0;
        let mut links = [LINK; LINKS];
        if is_striped {
            links[WORST_AT] = WORST;
        }
        let site = Site::new(&links, seed)?;
        let mut row = Row::of(cell);
        let stream = |from: usize, to: usize| Stream {
            from,
            to,
            congestion,
            warm: WARM,
            span: span(plan.size),
        };
        row.set("direct_bps", rates(&site, &[stream(0, LINKS)])?[0]);
        let segments: Vec<Stream<'_>> = (0..LINKS).map(|link| stream(link, link + 1)).collect();
        let alone = rates(&site, &segments)?;
        for (link, rate) in alone.iter().enumerate() {
            row.set(format!("segment{link}_bps"), *rate);
        }
        let slowest = alone.iter().copied().fold(f64::INFINITY, f64::min);
        row.set("slowest_bps", slowest);
        let placed = match is_striped {
            true => stripes(&alone),
            false => ([1; LINKS], slowest),
        };
        row.set("optimum_bps", placed.1);
        let mut relays = Relays::start(&plan.program, &site)?;
        let copy = Copy {
            bytes: u64::MAX,
            congestion,
            stripes: &placed.0,
            scavenges: false,
        };
        let spans = (COPY_WARM, span(plan.size));
        let first = relays.copy(&site, &copy, spans)?;
        let second = relays.copy(&site, &copy, spans)?;
        row.set("first_bps", first.rate_bps);
        row.set("first_predicted_bps", first.predicted_bps);
        row.set("relays_bps", second.rate_bps);
        row.set("relays_whole_bps", second.whole_bps);
        row.set("predicted_bps", second.predicted_bps);
        row.set("stripes", placed.0.iter().map(|n| f64::from(*n)).sum());
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let bars = [
            ("one connection", "direct_bps"),
            ("the slowest segment", "slowest_bps"),
            ("relays", "relays_bps"),
        ];
        let series: Vec<Series> = bars
            .iter()
            .enumerate()
            .map(|(i, (name, key))| Series {
                name: (*name).into(),
                color: i as u8,
                mark: Mark::Dots,
                points: (0..CONGESTION.len())
                    .map(|kind| (kind as f64, value(rows, kind, false, key) / 1e6))
                    .collect(),
            })
            .collect();
        let points = series.iter().flat_map(|series| &series.points);
        let most = points.map(|point| point.1).fold(1.0, f64::max);
        Findings {
            charts: vec![Chart {
                title: self.title().into(),
                x: Axis {
                    label: "congestion control: Reno, CUBIC, BBR".into(),
                    min: -0.5,
                    max: CONGESTION.len() as f64 - 0.5,
                },
                y: Axis {
                    label: "throughput, Mbit/s".into(),
                    min: 0.0,
                    max: most * 1.1,
                },
                series,
            }],
            verdicts: verdicts::verdicts(rows),
        }
    }

    fn is_real_time(&self) -> bool {
        true
    }
}

fn cell(congestion: usize, stripes: bool) -> Cell {
    Cell::at(&[
        ("congestion", congestion as f64),
        ("stripes", f64::from(u8::from(stripes))),
    ])
}

fn value(rows: &Rows, congestion: usize, stripes: bool, key: &str) -> f64 {
    let at = [
        ("congestion", congestion as f64),
        ("stripes", f64::from(u8::from(stripes))),
    ];
    rows.value(&at, key)
}

/// The optimal stripes for links of these rates, and what they carry.
fn stripes(alone: &[f64]) -> ([u8; LINKS], f64) {
    let rates = Rates::new(LINKS, |i, j| {
        let slowest = alone[i..j].iter().copied().fold(f64::INFINITY, f64::min);
        Rate {
            one: Width(slowest as u64),
            most: Width(LINK_BPS),
        }
    });
    let rates = rates.expect("the chain is no longer than a path may be");
    let placed = stripes_of(&rates, LINKS + SPARE);
    let mut stripes = [1; LINKS];
    for (stripe, segment) in stripes.iter_mut().zip(&placed.stripes) {
        *stripe = *segment as u8;
    }
    (stripes, placed.rate.0 as f64)
}

fn span(size: Size) -> Duration {
    match size {
        Size::Quick => Duration::from_secs(12),
        Size::Full => Duration::from_secs(60),
    }
}
