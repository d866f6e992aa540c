//! Figures 4 and 5 on hosts as slow as the paper's: wires of 100 Mbit/s, and a share of a processor for each host.
//! [Brogle09 §III-A, §IV]
//!
//! ```text
//!   host P1: node, so much of a processor ── 100 Mbit/s ── host P2 … each with a queue behind it
//! ```
//!
//! With this machine's full processors, nodes carry every load of Table I, so the paper's limits do not show. The
//! necessary slowness of a host is the one number that is chosen here: the share at which the chain carries the paper's
//! limit, 10 Mbit/s of 32 bytes and not 24.8. Everything else is tested at that share.

use super::loads::{LOADS, Load};
use super::native;
use super::overlay::{INSIDE, Overlay};
use super::site::{Shape, Site};
use super::stats::tell;
use super::talk::Stream;
use super::view::{CARRIED_PCT, HIGH_PCT};
use crate::experiment::{
    Cell, CellError, ClaimText, Experiment, Findings, Plan, Row, Rows, Size, Verdict, claim,
};
use crate::plot::{Axis, Chart, Mark, Series};
use crate::stats::{every, most};

/// The experiment.
pub(super) const KNEES: Knees = Knees;
const ID: &str = "brogle09/knees";
const WIRE_KBIT: u64 = 100_000;
/// Choice: 256 KiB, 21 ms of such a wire; the paper does not mention its queues.
const QUEUE_BYTES: u64 = 256 << 10;
/// The shares of a processor per host that are tried, in percent.
const QUICK_PCT: [f64; 3] = [10.0, 20.0, 30.0];
const FULL_PCT: [f64; 6] = [5.0, 10.0, 15.0, 20.0, 30.0, 40.0];
/// Marks loads on the wires alone: the kernel forwards, and no process needs a share.
const NATIVE: f64 = 100.0;

/// The paper's claims about limits.
pub(crate) const CLAIMS: &[ClaimText] = &[
    claim(
        ID,
        "native",
        "Brogle09 §IV-A, Fig. 4(a)",
        "native multicast: a very small packet loss below 0.2%",
        "wires of 100 Mbit/s: loss < 0.2 % in all 15 loads, chain and tree",
    ),
    claim(
        ID,
        "chain-small",
        "Brogle09 §IV-B, Fig. 5(a)",
        "the limit is above 10 Mbps in the chain topology for packet payloads of 32 bytes; drops with more than 10 Mbps",
        "at some share load 3 loses < 0.1 % and load 4 > 1 %",
    ),
    claim(
        ID,
        "chain-large",
        "Brogle09 §IV-B, §V",
        "the chain carries up to 75.2 Mbps with a payload of 1024 bytes",
        "at that share loads 11 to 14 lose < 0.1 %",
    ),
    claim(
        ID,
        "chain-middle",
        "Brogle09 §IV-B, Fig. 5(a)",
        "packet drops occur for 512 bytes packet payload with 75.2 Mbps",
        "at that share load 8 loses < 0.1 %, load 10 > 1 %",
    ),
    claim(
        ID,
        "tree-small",
        "Brogle09 §IV-B, Fig. 5(c)",
        "in the tree packet loss is at an unacceptable level for 10 Mbps and more with 32 bytes",
        "at that share load 2 loses < 0.1 %, load 3 > 1 %",
    ),
    claim(
        ID,
        "tree-large",
        "Brogle09 §IV-B, Fig. 5(c)",
        "in the tree packet loss is at an unacceptable level for more than 49.6 Mbps for 1024 bytes",
        "at that share load 13 loses < 0.1 %, loads 14 and 15 > 1 %",
    ),
];

/// The experiment.
pub(super) struct Knees;

fn cell(tree: f64, load: &Load, share_pct: f64) -> Cell {
    Cell::at(&[
        ("tree", tree),
        ("no", f64::from(load.no)),
        ("payload", load.payload as f64),
        ("mbps", load.mbps),
        ("share_pct", share_pct),
    ])
}

impl Experiment for Knees {
    fn id(&self) -> &'static str {
        ID
    }

    fn title(&self) -> &'static str {
        "Where hosts as slow as the paper's begin to lose"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "The networks and loads of brogle09/fig5, {}, but every interface sends at 100 Mbit/s with a queue of \
             256 KiB (tbf; a packet that finds no queue leaves at once, so wires bound rates and do not delay), and \
             each host's node gets a share of one processor (control groups, turns of a millisecond) and no real-time \
             priority. Native multicast has the wires alone: the kernel forwards in nobody's share.",
            match size {
                Size::Full => "the paper's packets",
                Size::Quick => "a fifth of the packets",
            }
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let shares: &[f64] = match size {
            Size::Quick => &QUICK_PCT,
            Size::Full => &FULL_PCT,
        };
        let mut cells = Vec::new();
        for tree in [0.0, 1.0] {
            for share in [NATIVE].iter().chain(shares) {
                cells.extend(LOADS.iter().map(|load| cell(tree, load, *share)));
            }
        }
        cells
    }

    fn measure(&self, plan: &Plan, cell: &Cell, _: u64) -> Result<Row, CellError> {
        native::available()?;
        let load = Load::numbered(cell.parameter("no"));
        let site = Site::new(Shape::of(cell.parameter("tree")), None)?;
        site.wires(WIRE_KBIT, QUEUE_BYTES)?;
        let stream = Stream {
            payload: load.payload,
            rate_pps: load.rate_pps(),
            packets: load.packets(plan.size),
        };
        let mut row = Row::of(cell);
        row.set("offered_pps", load.rate_pps());
        let drawn = site.shape.drawn();
        let share = cell.parameter("share_pct");
        if share == NATIVE {
            let _routes = native::Native::start(&site)?;
            let ends = native::ends(&site)?;
            ends.open("native")?;
            tell(&mut row, "native", drawn, &[ends.run(&stream)?]);
            return Ok(row);
        }
        let share = Some(share as u32);
        let mut overlay = Overlay::on_hosts(&plan.program, &site, INSIDE, share)?;
        let ends = overlay.ends(&site)?;
        ends.open("overlay")?;
        let told = ends.run(&stream)?;
        overlay.check()?;
        tell(&mut row, "overlay", drawn, &[told]);
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let knees = Seen { rows };
        let share = knees.share();
        Findings {
            charts: [(0.0, "chain"), (1.0, "tree, P6")]
                .map(|(tree, place)| chart(rows, tree, place, share))
                .into(),
            verdicts: verdicts(knees, share),
        }
    }

    fn is_real_time(&self) -> bool {
        true
    }
}

/// The rows, with queries.
#[derive(Clone, Copy)]
struct Seen<'a> {
    rows: &'a Rows,
}

impl Seen<'_> {
    fn loss(self, tree: f64, share: f64, no: u32) -> f64 {
        let who = if share == NATIVE { "native" } else { "overlay" };
        let at = [("tree", tree), ("no", f64::from(no)), ("share_pct", share)];
        self.rows.value(&at, &format!("{who}_worst_loss_pct"))
    }

    fn shares(self) -> Vec<f64> {
        let mut shares: Vec<f64> = self
            .rows
            .with(&[])
            .map(|row| row.parameter("share_pct"))
            .collect();
        shares.retain(|share| *share != NATIVE);
        shares.sort_by(f64::total_cmp);
        shares.dedup();
        shares
    }

    /// Returns the least share at which the chain's limit is the paper's; if there is none, the share whose limit is
    /// the next above.
    fn share(self) -> f64 {
        let shares = self.shares();
        let carries = |share: &&f64| self.loss(0.0, **share, 3) < CARRIED_PCT;
        shares.iter().find(carries).copied().unwrap_or(f64::NAN)
    }

    fn words(self, tree: f64, share: f64, nos: &[u32]) -> String {
        let word = |no: &u32| format!("{no}: {:.2}", self.loss(tree, share, *no));
        let words: Vec<String> = nos.iter().map(word).collect();
        format!("{share} % of a processor: {} % lost", words.join(", "))
    }

    /// Judges whether every load of `carried` arrives, and too little of every load of `lost`.
    fn verdict(
        self,
        claim: &'static str,
        (tree, share): (f64, f64),
        carried: &[u32],
        lost: &[u32],
    ) -> Verdict {
        let each = |nos: &[u32]| -> Vec<f64> {
            nos.iter().map(|no| self.loss(tree, share, *no)).collect()
        };
        let holds = every(&each(carried), |pct| *pct < CARRIED_PCT)
            // The list of loads that must be lost may be empty.
            && each(lost).iter().all(|pct| *pct > HIGH_PCT);
        Verdict::of(
            claim,
            holds,
            self.words(tree, share, &[carried, lost].concat()),
        )
    }
}

fn verdicts(knees: Seen<'_>, share: f64) -> Vec<Verdict> {
    let native = |tree: f64| -> Vec<f64> {
        LOADS
            .iter()
            .map(|load| knees.loss(tree, NATIVE, load.no))
            .collect()
    };
    let losses = [native(0.0), native(1.0)].concat();
    let most = most(&losses);
    let all = knees.shares().into_iter();
    let all: Vec<String> = all
        .map(|share| knees.words(0.0, share, &[2, 3, 4, 5]))
        .collect();
    let (chain, tree) = ((0.0, share), (1.0, share));
    vec![
        Verdict::of(
            "native",
            every(&losses, |pct| *pct < 0.2),
            format!("{most:.3} % at most"),
        ),
        knees
            .verdict("chain-small", chain, &[3], &[4])
            .note(all.join("; ")),
        knees.verdict("chain-large", chain, &[11, 12, 13, 14], &[]),
        knees.verdict("chain-middle", chain, &[8], &[10]),
        knees.verdict("tree-small", tree, &[2], &[3]),
        knees.verdict("tree-large", tree, &[13], &[14, 15]),
    ]
}

fn chart(rows: &Rows, tree: f64, place: &str, share: f64) -> Chart {
    let mut series = Vec::new();
    for (share, who) in [(NATIVE, "native"), (share, "overlay")] {
        for payload in [32.0, 512.0, 1_024.0] {
            let at = [("tree", tree), ("payload", payload), ("share_pct", share)];
            series.push(Series {
                name: format!("{who}, {payload} bytes").into(),
                color: series.len() as u8,
                mark: Mark::Line,
                points: rows.line(&at, "mbps", &format!("{who}_worst_loss_pct")),
            });
        }
    }
    Chart {
        title: format!("Packet loss, {place}, {share} % of a processor per host").into(),
        x: Axis {
            label: "bandwidth, Mbit/s".into(),
            min: 0.0,
            max: 90.0,
        },
        y: Axis {
            label: "lost, %".into(),
            min: 0.0,
            max: 100.0,
        },
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(lost_from: [(f64, u32); 2]) -> Rows {
        let mut rows = Vec::new();
        for cell in KNEES.cells(Size::Quick) {
            let mut row = Row::of(&cell);
            let (tree, no) = (cell.parameter("tree"), cell.parameter("no"));
            let first = lost_from
                .iter()
                .find(|(of, _)| *of == tree)
                .map(|one| one.1);
            let is_lost = no < 6.0 && first.is_some_and(|first| no >= f64::from(first));
            let share = cell.parameter("share_pct");
            let who = if share == NATIVE { "native" } else { "overlay" };
            let is_lost = is_lost && share == QUICK_PCT[0];
            row.set(
                format!("{who}_worst_loss_pct"),
                if is_lost { 20.0 } else { 0.0 },
            );
            rows.push(row);
        }
        Rows(rows)
    }

    #[test]
    fn the_share_is_that_whose_chain_has_the_papers_limit_and_the_tree_is_judged_at_it() {
        let found = rows([(0.0, 4), (1.0, 3)]);
        let knees = Seen { rows: &found };
        assert_eq!(knees.share(), QUICK_PCT[0]);
        let holds = |key: &str| {
            let all = verdicts(knees, knees.share());
            all.iter()
                .find(|one| one.claim == key)
                .and_then(|one| one.holds)
        };
        assert_eq!(holds("chain-small"), Some(true));
        assert_eq!(holds("tree-small"), Some(true));
        assert_eq!(
            holds("tree-large"),
            Some(false),
            "nothing of 1024 bytes is lost"
        );
        let fast = rows([(0.0, 5), (1.0, 5)]);
        let knees = Seen { rows: &fast };
        let small = &verdicts(knees, knees.share())[1];
        assert_eq!(small.holds, Some(false), "{}", small.measured);
    }
}
