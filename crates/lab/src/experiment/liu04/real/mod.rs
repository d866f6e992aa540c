//! The chain of [Liu04 §V-A] with real relays and kernel TCP: a connection from end to end, one over
//! each link, and `sinew cp` through a relay at every host.
//!
//! ```text
//!   a ═ b ═ c ═ d ═ e ═ f ═ g     six emulated links of 20 Mbit/s, 10 ms and 0.5 % loss each way
//!   └──────────────────────▶     one connection, forwarded by the kernels
//!   └─▶ └─▶ └─▶ └─▶ └─▶ └─▶      one over each link, none through another
//!   └─▶─▶─▶─▶─▶─▶──────────      sinew cp, TLS from relay to relay
//! ```
//! The experiment also measures a chain in which one link loses more, with stripes; and one in which no link loses
//! anything and one has a lower rate, so that capacity is the limit.

pub(super) mod scavenge;
mod verdicts;

use crate::experiment::liu04::hosts::{Copy, Relays, Site, Spans, Stream, rates};
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size};
use crate::plot::{Axis, Chart, Mark, Series};
use graph::pipeline::{Rate, Rates};
use graph::stripes::stripes_of;
use graph::width::Width;
use std::time::Duration;

/// The experiment.
pub(super) const REAL: Real = Real;

/// Links of the chain. [Liu04 §V-A]
const LINKS: usize = 6;
/// The kernel's congestion controls, in the order of the cells' numbers.
const CONGESTION: [&str; 3] = ["reno", "cubic", "bbr"];
/// The model of every link.
const LINK: &str = "rate=20mbit delay=10ms loss=0.5% queue=100";
/// The model of the worst link in cells with stripes, and its index.
const WORST: &str = "rate=20mbit delay=10ms loss=2% queue=100";
const WORST_AT: usize = 3;
/// The model of links in cells where capacity is the limit, and that of the slowest.
const LOSSLESS: &str = "rate=20mbit delay=10ms queue=100";
const NARROW: &str = "rate=8mbit delay=10ms queue=100";
/// The rate of a link. [Liu04 §V-A]
const LINK_BPS: u64 = 20_000_000;
/// Number of connections for stripes in addition to one per link.
const SPARE: usize = 2;
const WARM: Duration = Duration::from_secs(3);
/// Time for six connections in a row, each with its slow start.
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
            "Seven network namespaces in a row, joined by six emulated links ({LINK}, both ways). For each congestion control of the \
             kernels one connection from end to end, then six at the same time, one over each link, measured for {0} s after {1} s; \
             then sinew cp --probe from the first host to the last through all others, over one connection on each segment, measured \
             for as long after {2} s by what arrives. Nobody has copied anything before: its prediction is that after the probe. With \
             stripes, one link loses 2 %, and the placement is the optimum for {3} connections of the rates that single connections \
             had. Where capacity limits, no link loses anything, one carries 8 Mbit/s, and sinew cp --probe chooses relays and \
             connections.",
            span(size).as_secs(),
            WARM.as_secs(),
            COPY_WARM.as_secs(),
            LINKS + SPARE,
        )
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        let all = |links: Links| (0..CONGESTION.len()).map(move |kind| cell(kind, links));
        let plain = all(Links::Alike).chain([cell(0, Links::OneWorse)]);
        plain.chain(all(Links::OneNarrow)).collect()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let congestion = CONGESTION[cell.parameter("congestion") as usize];
        let links = Links::ALL[cell.parameter("links") as usize];
        let site = Site::chain(&links.words(), congestion, seed)?;
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
        let placed = match links {
            Links::OneWorse => stripes(&alone),
            _ => ([1; LINKS], slowest),
        };
        row.set("optimum_bps", placed.1);
        row.set("stripes", placed.0.iter().map(|n| f64::from(*n)).sum());
        let free = Copy {
            to: LINKS,
            probes: true,
            ..Copy::default()
        };
        let copy = match links {
            Links::OneNarrow => free,
            _ => Copy {
                via: Some((1..LINKS).collect()),
                stripes: placed.0.to_vec(),
                ..free
            },
        };
        let mut relays = Relays::start(&plan.program, &site, &[])?;
        let spans = Spans {
            warm: COPY_WARM,
            span: span(plan.size),
        };
        let copied = relays.copy(&site, &copy, spans)?;
        row.set("relays_bps", copied.rate_bps);
        row.set("relays_whole_bps", copied.whole_bps);
        row.set("predicted_bps", copied.predicted_bps);
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
                    .map(|kind| (kind as f64, value(rows, kind, Links::Alike, key) / 1e6))
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

/// The properties of the chain's links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    Alike,
    /// One link loses more: it gets the stripes.
    OneWorse,
    /// No link loses anything, and one has a lower rate.
    OneNarrow,
}

impl Links {
    /// All kinds, in the order of the cells' numbers.
    const ALL: [Links; 3] = [Links::Alike, Links::OneWorse, Links::OneNarrow];

    fn words(self) -> [&'static str; LINKS] {
        let (all, one) = match self {
            Links::Alike => (LINK, LINK),
            Links::OneWorse => (LINK, WORST),
            Links::OneNarrow => (LOSSLESS, NARROW),
        };
        let mut words = [all; LINKS];
        words[WORST_AT] = one;
        words
    }
}

fn coordinates(congestion: usize, links: Links) -> [(&'static str, f64); 2] {
    let links = Links::ALL.iter().position(|one| *one == links);
    [
        ("congestion", congestion as f64),
        ("links", links.unwrap_or(0) as f64),
    ]
}

fn cell(congestion: usize, links: Links) -> Cell {
    Cell::at(&coordinates(congestion, links))
}

fn value(rows: &Rows, congestion: usize, links: Links, key: &str) -> f64 {
    rows.value(&coordinates(congestion, links), key)
}

/// Returns the optimal stripes for links with these rates, and their total rate.
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
