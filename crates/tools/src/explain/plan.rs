//! `sinew plan`: how bulk data is best moved from one node to another, the rate that this would reach, and the
//! confidence in that rate. `graph::plan` decides; this module adds names and words.

use super::{ExplainError, Named, View, no_path, percent, rounded};
use crate::table::{COLUMNS, fold};
use base::NodeAddr;
use graph::Metric;
use graph::plan::{self, Choice, Confidence, Connections, Plan, Question, Segment, Way};
use graph::stripes::CONNECTIONS_MAX;
use graph::width::Width;
use serde::Serialize;
use std::fmt;

/// The paths on which relays are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Along {
    /// Over any links of the overlay.
    #[default]
    Overlay,
    /// Along the path of least latency, whose nodes can all reach each other.
    Path,
}

/// What counts as the length of a path. The shortest path among those that are wide enough is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Length {
    /// The number of segments.
    #[default]
    Hops,
    /// The latency.
    Latency,
    /// The physical links.
    PhysicalHops,
}

/// The options of a plan, besides the two ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanAsked {
    /// The paths on which relays are looked for.
    pub along: Along,
    /// Most TCP connections.
    pub connections: Connections,
    /// Most relays in a row.
    pub relays: usize,
    /// The share by which a path may be narrower than the widest one, in order to be shorter.
    pub margin: f64,
    /// What counts as the length of a path.
    pub length: Length,
    /// A probe of unknown rates may be advised. It is not if the probe has just run, or cannot run.
    pub advises_probe: bool,
}

impl Default for PlanAsked {
    fn default() -> PlanAsked {
        PlanAsked {
            along: Along::Overlay,
            connections: plan::CONNECTIONS,
            relays: plan::RELAYS_MAX,
            margin: plan::MARGIN,
            length: Length::Hops,
            advises_probe: false,
        }
    }
}

/// How bulk data is best moved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BulkPlan {
    /// The source of the data.
    pub from: Named,
    /// The destination of the data.
    pub to: Named,
    /// Most connections in all; left out if only each segment had a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<usize>,
    /// Most connections on each segment; left out if only their sum had a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections_per_segment: Option<usize>,
    /// One connection.
    pub direct: WayNumbers,
    /// Single connections in a row.
    pub pipelined: WayNumbers,
    /// Why the plan uses these relays: their path is the shortest of the wide ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortest: Option<Shortest>,
    /// Relays and stripes.
    pub striped: WayNumbers,
    /// The fastest of these: `direct`, `pipelined` or `striped`.
    pub choice: &'static str,
    /// The reason in words.
    pub reason: String,
}

/// The path with single connections in a row. It is the shortest of all that are wide enough.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shortest {
    /// What counts as its length: `hops`, `latency` or `physical-hops`.
    pub by: &'static str,
    /// Its length in links, milliseconds or physical links.
    pub length: f64,
    /// The width of the widest path.
    pub widest_bps: u64,
    /// The width that the path needed: that of the widest path less the margin.
    pub required_bps: u64,
    /// The reason in words.
    pub reason: String,
}

/// One of the ways to move the data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WayNumbers {
    /// The predicted rate.
    pub rate_bps: u64,
    /// The origin of the rate: `measured`, `scaled`, `capacity`, `model`, `added` or `at-least`.
    pub confidence: &'static str,
    /// Lower bound of the expected rate; 0 if nothing is known about a segment.
    pub low_bps: u64,
    /// Upper bound of the expected rate; `None` if no known value limits it.
    pub high_bps: Option<u64>,
    /// Something is known about each segment.
    pub known: bool,
    /// This rate divided by that of one direct connection.
    pub gain: f64,
    /// The names of source, relays and destination.
    pub nodes: Vec<String>,
    /// The addresses of these nodes.
    pub addresses: Vec<String>,
    /// Number of connections of each segment.
    pub stripes: Vec<usize>,
    /// The segments: from each of these nodes to the next.
    pub segments: Vec<SegmentNumbers>,
}

/// Connections from one node to the next.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SegmentNumbers {
    /// The node where the segment begins.
    pub from: String,
    /// The node where the segment ends.
    pub to: String,
    /// Nodes on the way that do not relay.
    pub past: Vec<String>,
    /// Number of connections.
    pub stripes: usize,
    /// The rate of one connection.
    pub connection_bps: u64,
    /// The rate of all connections together.
    pub rate_bps: u64,
    /// The origin of the rate.
    pub confidence: &'static str,
    /// Lower bound of the expected rate.
    pub low_bps: u64,
    /// Upper bound of the expected rate; `None` if no known value limits it.
    pub high_bps: Option<u64>,
    /// The round trip.
    pub rtt_ms: f64,
    /// Loss.
    pub loss_pct: f64,
    /// The physical links that the segment crosses. For links without a known number, one is assumed.
    pub physical_hops: u32,
    /// Number of links without a known number of physical links.
    pub hops_assumed: usize,
    /// The segment is the slowest: it limits the whole transfer.
    pub limits: bool,
}

/// Plans how to move bulk data from one node to another.
///
/// # Errors
/// [`ExplainError`] when a node is not known, both are the same, there is no path, or a number is out
/// of its range.
pub fn plan(
    view: &View,
    src: &str,
    dst: &str,
    asked: &PlanAsked,
) -> Result<BulkPlan, ExplainError> {
    let (src, dst) = view.ends(src, dst)?;
    asked.check()?;
    let question = Question {
        src,
        dst,
        view: match asked.along {
            Along::Overlay => plan::View::Overlay,
            Along::Path => plan::View::Path,
        },
        connections: asked.connections,
        relays: asked.relays,
        margin: asked.margin,
        length: match asked.length {
            Length::Hops => Metric::Hops.into(),
            Length::Latency => Metric::Latency.into(),
            Length::PhysicalHops => graph::width::Length::PhysicalHops,
        },
    };
    let topology = view.topology_between([src, dst]);
    let plan = plan::plan(topology, &question).map_err(|why| no_path(view, why))?;
    let way = |way: &Way| WayNumbers::of(view, way, plan.direct.rate);
    Ok(BulkPlan {
        from: view.named(src),
        to: view.named(dst),
        connections: match asked.connections {
            Connections::InAll(most) => Some(most),
            Connections::OnEach(_) => None,
        },
        connections_per_segment: match asked.connections {
            Connections::InAll(_) => None,
            Connections::OnEach(most) => Some(most),
        },
        direct: way(&plan.direct),
        pipelined: way(&plan.pipelined),
        shortest: plan
            .shortest
            .map(|shortest| Shortest::of(view, asked, &plan.pipelined, shortest)),
        striped: way(&plan.striped),
        choice: plan.choice.as_str(),
        reason: reason(view, asked, &plan),
    })
}

/// Computes what a given way carries, with these connections on each segment. Returns `None` if there is no link from
/// each node to the next. [`WayNumbers::gain`] compares the way with itself.
#[must_use]
pub fn along(view: &View, nodes: &[NodeAddr], stripes: &[usize]) -> Option<WayNumbers> {
    let way = plan::along(view.topology(), nodes, stripes)?;
    Some(WayNumbers::of(view, &way, way.rate))
}

/// Returns how many connections on each segment of a given way are expected to be the fastest. `None` if one connection
/// is as good, or nothing is known.
#[must_use]
pub fn stripes_along(view: &View, nodes: &[NodeAddr]) -> Option<Vec<usize>> {
    plan::stripes_along(view.topology(), nodes, plan::CONNECTIONS)
}

impl PlanAsked {
    fn check(&self) -> Result<(), ExplainError> {
        let bad = |text: String| Err(ExplainError::Misused(text));
        let (Connections::InAll(most) | Connections::OnEach(most)) = self.connections;
        if !(1..=CONNECTIONS_MAX).contains(&most) {
            return bad(format!("{most} connections: use 1 to {CONNECTIONS_MAX}"));
        }
        if self.relays > plan::RELAYS_MAX {
            return bad(format!(
                "{} relays in a row: use up to {}",
                self.relays,
                plan::RELAYS_MAX
            ));
        }
        if !(0.0..=1.0).contains(&self.margin) {
            return bad(format!("margin {}: use 0 to 1", self.margin));
        }
        Ok(())
    }
}

impl BulkPlan {
    /// Returns the chosen way.
    #[must_use]
    pub fn best(&self) -> &WayNumbers {
        match self.choice {
            "direct" => &self.direct,
            "pipelined" => &self.pipelined,
            _ => &self.striped,
        }
    }
}

impl Shortest {
    fn of(view: &View, asked: &PlanAsked, way: &Way, found: plan::Shortest) -> Shortest {
        let (by, length, unit) = match asked.length {
            Length::Hops => ("hops", Metric::Hops.in_natural_unit(found.length), ""),
            Length::Latency => {
                let length = Metric::Latency.in_natural_unit(found.length);
                ("latency", length, " ms")
            }
            Length::PhysicalHops => ("physical-hops", found.length.0 as f64, ""),
        };
        let nodes = way.segments.iter().map(|segment| segment.from);
        let last = way.segments.last().map(|segment| segment.to);
        let nodes: Vec<String> = nodes.chain(last).map(|node| view.name(node)).collect();
        let length = rounded(length);
        let mut reason = format!(
            "of the paths that carry {} or more (the widest less {:.0} %) {} is the shortest by {}: \
             {length}{unit}",
            found.required,
            100.0 * asked.margin,
            nodes.join("-"),
            by.replace('-', " "),
        );
        let assumed: usize = way.segments.iter().map(|segment| segment.assumed).sum();
        if asked.length == Length::PhysicalHops && assumed > 0 {
            let hops = view.topology().assumed_hops();
            let links = match assumed {
                1 => "one link".to_owned(),
                several => format!("each of {several} links"),
            };
            reason += &format!(
                "; {hops} is assumed for {links} that nobody has probed (the median of the known ones, \
                 1 without any)"
            );
        }
        Shortest {
            by,
            length,
            widest_bps: found.widest.0,
            required_bps: found.required.0,
            reason,
        }
    }
}

impl WayNumbers {
    fn of(view: &View, way: &Way, direct: Width) -> WayNumbers {
        let last = way.segments.last().map(|segment| segment.to);
        let nodes = way.segments.iter().map(|segment| segment.from).chain(last);
        let nodes: Vec<_> = nodes.collect();
        WayNumbers {
            rate_bps: way.rate.0,
            confidence: way.confidence.as_str(),
            low_bps: way.interval.low.0,
            high_bps: limited(way.interval.high),
            known: way.is_known(),
            gain: rounded(way.rate.0 as f64 / direct.0.max(1) as f64),
            nodes: nodes.iter().map(|node| view.name(*node)).collect(),
            addresses: nodes.iter().map(ToString::to_string).collect(),
            stripes: way.segments.iter().map(|segment| segment.stripes).collect(),
            segments: way
                .segments
                .iter()
                .map(|segment| SegmentNumbers::of(view, segment, way.rate))
                .collect(),
        }
    }
}

impl SegmentNumbers {
    fn of(view: &View, segment: &Segment, rate: Width) -> SegmentNumbers {
        SegmentNumbers {
            from: view.name(segment.from),
            to: view.name(segment.to),
            past: segment.past.iter().map(|node| view.name(*node)).collect(),
            stripes: segment.stripes,
            connection_bps: segment.one.0,
            rate_bps: segment.rate.0,
            confidence: segment.confidence.as_str(),
            low_bps: segment.interval.low.0,
            high_bps: limited(segment.interval.high),
            rtt_ms: rounded(segment.rtt_us as f64 / 1e3),
            loss_pct: percent(segment.loss),
            physical_hops: segment.physical_hops,
            hops_assumed: segment.assumed,
            limits: segment.rate == rate,
        }
    }
}

/// Returns the reason for the choice of the way, in a sentence.
fn reason(view: &View, asked: &PlanAsked, plan: &Plan) -> String {
    let best = plan.best();
    let slowest: Vec<String> = best
        .slowest()
        .map(|segment| format!("{}-{}", view.name(segment.from), view.name(segment.to)))
        .collect();
    let limit = match slowest.len() {
        0..=3 => slowest.join(" and "),
        several => format!("{} and {} more segments", slowest[0], several - 1),
    };
    let gain = |over: &Way| best.rate.0 as f64 / over.rate.0.max(1) as f64;
    let what = match plan.choice {
        Choice::Pipelined | Choice::Striped
            if plan.direct.confidence == Confidence::AtLeast || best.rate <= plan.direct.rate =>
        {
            format!(
                "no link leads from one to the other: {} taken",
                relays(best.relays().count())
            )
        }
        Choice::Direct if best.confidence == Confidence::AtLeast => {
            "nothing that is known limits one connection, so nothing tells that relays or more \
             connections would be faster"
                .to_owned()
        }
        Choice::Direct => "neither relays nor more connections are faster than one".to_owned(),
        Choice::Pipelined => format!(
            "{} {:.1} times as fast as one connection, since each sees the delay and the losses of its \
             own segment alone; more connections gain nothing",
            relays(best.relays().count()),
            gain(&plan.direct)
        ),
        Choice::Striped => {
            let mut text = format!(
                "{} connections over {} segment{} {:.1} times as fast as one",
                best.connections(),
                best.segments.len(),
                if best.segments.len() == 1 {
                    " are"
                } else {
                    "s are"
                },
                gain(&plan.direct)
            );
            if plan.pipelined.rate > plan.direct.rate {
                text += &format!(
                    ", {:.1} times as fast as {} without stripes",
                    gain(&plan.pipelined),
                    relays(plan.pipelined.relays().count())
                        .trim_end_matches(" is")
                        .trim_end_matches(" are")
                );
            }
            text
        }
    };
    let advice = match best.confidence {
        Confidence::AtLeast if asked.advises_probe => ": `--probe` measures it",
        _ => "",
    };
    format!(
        "{what}; limited by {limit}: {}{advice}",
        sureness(best.confidence)
    )
}

fn relays(count: usize) -> String {
    match count {
        1 => "one relay is".to_owned(),
        count => format!("{count} relays are"),
    }
}

fn sureness(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Measured => "transfers have measured it",
        Confidence::Scaled => {
            "what one connection had, times their number: nobody has seen so many together"
        }
        Confidence::Capacity => "its capacity, as configured",
        Confidence::Model => "by the round trip and the loss of the link",
        Confidence::Added => {
            "by the delays and losses of several links added up, which nobody has measured together"
        }
        Confidence::AtLeast => "nothing that is known limits its rate, so that is unknown",
    }
}

impl fmt::Display for BulkPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = match (self.connections, self.connections_per_segment) {
            (Some(most), _) => format!("{most} connections"),
            (None, most) => format!("{} connections on each segment", most.unwrap_or_default()),
        };
        writeln!(f, "{} to {}, up to {most}\n", self.from.name, self.to.name)?;
        let titles = [
            "  way",
            "rate",
            "gain",
            "confidence",
            "connections",
            "nodes",
        ];
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        for (name, way) in [
            ("direct", &self.direct),
            ("pipelined", &self.pipelined),
            ("striped", &self.striped),
        ] {
            let mark = if name == self.choice { '*' } else { ' ' };
            rows.push(vec![
                format!("{mark} {name}"),
                within(said(way.rate_bps, way.confidence), way),
                match (way.confidence, self.direct.confidence) {
                    ("at-least", _) | (_, "at-least") => "unknown".to_owned(),
                    _ => format!("{:.1}", way.gain),
                },
                sure(way.confidence),
                way.stripes.iter().sum::<usize>().to_string(),
                way.nodes.join("-"),
            ]);
        }
        f.write_str(&fold(&rows, COLUMNS))?;
        writeln!(f, "\nsegments of the {} way", self.choice)?;
        f.write_str(&segments(self.best()))?;
        write!(f, "\nwhy   {}", self.reason)?;
        match &self.shortest {
            Some(shortest) => write!(f, "\npath  {}", shortest.reason),
            None => Ok(()),
        }
    }
}

/// Formats a known rate with the bounds within which it is expected.
fn within(said: String, way: &WayNumbers) -> String {
    match (way.confidence, way.known, way.high_bps) {
        ("at-least", ..) => said,
        (_, false, _) => format!("{said} at most"),
        (_, true, high) => format!(
            "{said} ({} to {})",
            tenth(way.low_bps),
            tenth(high.unwrap_or(way.rate_bps))
        ),
    }
}

/// Formats a rate in Mbit/s, short.
fn tenth(rate_bps: u64) -> String {
    let mbit = rate_bps as f64 / 1e6;
    match mbit < 10.0 {
        true => format!("{mbit:.1}"),
        false => format!("{mbit:.0}"),
    }
}

fn limited(width: Width) -> Option<u64> {
    (width != Width::UNLIMITED).then_some(width.0)
}

fn segments(way: &WayNumbers) -> String {
    let titles = [
        "  segment",
        "stripes",
        "each",
        "together",
        "confidence",
        "rtt",
        "loss",
        "hops",
    ];
    // If no link has a known number, the column is left out.
    let is_known = |segment: &SegmentNumbers| segment.hops_assumed <= segment.past.len();
    let columns = match way.segments.iter().any(is_known) {
        true => titles.len(),
        false => titles.len() - 1,
    };
    let mut rows = vec![
        titles[..columns]
            .iter()
            .map(|&title| title.to_owned())
            .collect(),
    ];
    for segment in &way.segments {
        let mark = if segment.limits { '*' } else { ' ' };
        let past = match segment.past.is_empty() {
            true => String::new(),
            false => format!(" past {}", segment.past.join(", ")),
        };
        let hops = match segment.hops_assumed {
            0 => segment.physical_hops.to_string(),
            _ => format!("{} assumed", segment.physical_hops),
        };
        let mut row = vec![
            format!("{mark} {}-{}{past}", segment.from, segment.to),
            segment.stripes.to_string(),
            said(segment.connection_bps, segment.confidence),
            said(segment.rate_bps, segment.confidence),
            sure(segment.confidence),
            format!("{:.1} ms", segment.rtt_ms),
            format!("{:.2} %", segment.loss_pct),
            hops,
        ];
        row.truncate(columns);
        rows.push(row);
    }
    fold(&rows, COLUMNS)
}

/// Formats the origin of a rate; a dash for an unknown rate.
fn sure(confidence: &'static str) -> String {
    match confidence {
        "at-least" => "-".to_owned(),
        known => known.to_owned(),
    }
}

/// Formats a rate, if it is known. Without loss, the model only has a lower bound, which is no estimate of what the
/// link carries.
fn said(rate_bps: u64, confidence: &str) -> String {
    match confidence {
        "at-least" => "unknown".to_owned(),
        _ => Width(rate_bps).to_string(),
    }
}
