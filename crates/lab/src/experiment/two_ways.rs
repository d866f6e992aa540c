//! Video to a group over two paths: the effect of outages, losses and a node failure, compared with one path.
//!
//! ```text
//!       ┌─ lossy ─ b ─ lossy ─ c ─ lossy ─┐
//!   a ──┤                                 ├── d ◀── clean ── e      a ▶ d, i: the video, to a group
//!       └─ lossy ─ g ─ lossy ─ h ─ lossy ─┘   │                     e ▶ d: the bystander
//!                                  └── lossy ─┴── i (also behind c)
//! ```
//!
//! The lower path is a tenth longer, so a single path is the upper one, which has the faults. The nodes are production
//! nodes in the simulator, with the packet buffers of a real node.

use super::{
    Cell, CellError, ClaimText, Experiment, Findings, Plan, Row, Rows, Size, Verdict, claim,
};
use crate::scenario::{Scenario, Simulation};
use base::Duration;

/// The experiments.
pub(super) const EXPERIMENTS: &[&dyn Experiment] = &[&TWO_WAYS];

const TWO_WAYS: TwoWays = TwoWays;
const ID: &str = "video/two-ways";
const SOURCE: &str = "SMPTE ST 2022-7";
/// Bytes of a packet: seven packets of MPEG-TS.
const BYTES: u32 = 1_316;
/// Loss of each hop, in percent, in both directions.
const LOSS_PCT: f64 = 2.0;
const OUTAGE_MS: u64 = 250;
const OUTAGE_EVERY_MS: u64 = 20_000;

/// The promises.
pub(super) const CLAIMS: &[ClaimText] = &[
    claim(
        ID,
        "outage-two",
        SOURCE,
        "the middle link of a way is out for 250 ms every 20 s, 2 % loss on each of three hops, two ways",
        "missed nothing, the bystander nothing",
    ),
    claim(
        ID,
        "outage-one",
        SOURCE,
        "the same with one way",
        "missed no more than what was sent during outages and 0.001 %, the bystander nothing",
    ),
    claim(
        ID,
        "death-two",
        SOURCE,
        "a node of a way dies without a word, two ways",
        "missed nothing, the bystander nothing",
    ),
    claim(
        ID,
        "death-one",
        SOURCE,
        "the same with one way",
        "missed no more than 500 ms of packets and 0.001 %, the bystander nothing",
    ),
];

struct TwoWays;

fn seconds(size: Size) -> u64 {
    match size {
        Size::Quick => 20,
        Size::Full => 60,
    }
}

/// Returns the scenario of a cell.
fn scenario(cell: &Cell, size: Size) -> String {
    let (pps, rtt_ms) = (cell.parameter("pps"), cell.parameter("rtt ms"));
    let deadline_ms = (rtt_ms * 2.5) as u64 + 100;
    let seconds = seconds(size);
    let mut text = format!(
        "[scenario]\nname = \"two-ways\"\nduration = \"{seconds}s\"\nsettle = \"10s\"\nsealing = false\n"
    );
    for node in ["a", "b", "c", "d", "e", "g", "h", "i"] {
        text += &format!("[[node]]\nname = \"{node}\"\n");
    }
    let hop_us = rtt_ms * 1_000.0 / 6.0;
    for (way, times) in [
        (["ab", "bc", "cd", "ci"], 1.0),
        (["ag", "gh", "hd", "hi"], 1.1),
    ] {
        for link in way {
            let (a, b) = link.split_at(1);
            let us = (hop_us * times) as u64;
            text += &format!(
                "[[link]]\na = \"{a}\"\nb = \"{b}\"\npath = \"delay={us}us loss={LOSS_PCT}%\"\n"
            );
        }
    }
    text += "[[link]]\na = \"d\"\nb = \"e\"\npath = \"delay=5ms\"\n";
    let flow = |from: &str, more: &str, pps: f64| {
        let kbit = pps * f64::from(BYTES) * 8.0 / 1_000.0;
        format!(
            "[[flow]]\nname = \"{from}\"\nfrom = \"{from}\"\nto = \"d\"\n{more}pattern = \"cbr\"\nrate = \"{kbit}kbit\"\n\
             packet = {BYTES}\ndeadline = \"{deadline_ms}ms\"\ndelivery = \"in-order\"\n"
        )
    };
    let routing = match cell.parameter("ways") > 1.0 {
        true => "routing = \"disjoint\"\n",
        false => "",
    };
    text += &flow("a", &format!("also = [\"i\"]\n{routing}"), pps);
    text += &flow("e", "", 125.0);
    if cell.parameter("dies") > 0.0 {
        text += "[[fault]]\nat = \"5s\"\nkind = \"crash\"\nnode = \"c\"\n";
    } else {
        for (kind, at_ms) in [("link-down", 5_000), ("link-up", 5_000 + OUTAGE_MS)] {
            text += &format!(
                "[[fault]]\nat = \"{at_ms}ms\"\nevery = \"{OUTAGE_EVERY_MS}ms\"\nkind = \"{kind}\"\na = \"b\"\nb = \"c\"\n"
            );
        }
    }
    text
}

/// Returns how many packets both members together may miss.
fn allowed(row: &Row, size: Size) -> f64 {
    if row.parameter("ways") > 1.0 {
        return 0.0;
    }
    let own_ms = match row.parameter("dies") > 0.0 {
        true => 500.0,
        false => {
            let outages = (seconds(size) * 1_000 - 5_000).div_ceil(OUTAGE_EVERY_MS);
            (outages * OUTAGE_MS) as f64
        }
    };
    2.0 * row.parameter("pps") * own_ms / 1_000.0 + row.value("video sent") * 1e-5
}

impl Experiment for TwoWays {
    fn id(&self) -> &'static str {
        ID
    }

    fn title(&self) -> &'static str {
        "Video to a group over two ways: outages and a node that dies"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "Production nodes in the simulator with the packet buffers of a real node, {} s of packets of {BYTES} bytes from a to a group \
             with two members, each behind three hops that lose {LOSS_PCT} % by either of two ways, in order, deadline 2.5 round trips of \
             the way and 100 ms. The middle link of the shorter way is out for {OUTAGE_MS} ms every {} s, or its second node dies \
             after 5 s and stays away. Missed is lost or late, of both members.",
            seconds(size),
            OUTAGE_EVERY_MS / 1_000
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let rates: &[f64] = match size {
            Size::Quick => &[1_000.0, 5_000.0],
            Size::Full => &[1_000.0, 2_500.0, 5_000.0, 10_000.0],
        };
        let cell = |ways: f64, dies: f64, rtt: f64, pps: f64| Cell {
            key: format!("ways={ways} dies={dies} rtt={rtt} pps={pps}"),
            parameters: vec![
                ("ways", ways),
                ("dies", dies),
                ("rtt ms", rtt),
                ("pps", pps),
            ],
            words: Vec::new(),
        };
        let mut cells = Vec::new();
        for ways in [2.0, 1.0] {
            for pps in rates {
                cells.extend([20.0, 100.0, 200.0].map(|rtt| cell(ways, 0.0, rtt, *pps)));
                cells.push(cell(ways, 1.0, 60.0, *pps));
            }
        }
        cells
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let text = scenario(cell, plan.size);
        let scenario =
            Scenario::parse("two-ways", &text).map_err(|error| CellError(error.to_string()))?;
        let mut simulation = Simulation::new(&scenario, seed);
        simulation.give_buffers_of_nodes();
        while simulation.run_for(Duration::from_secs(3_600)) {}
        let report = simulation.finish();
        let mut row = Row::of(cell);
        for (flow, name) in report.flows.iter().zip(["video", "beside"]) {
            let packets = &flow.packets;
            row.set(format!("{name} sent"), packets.sent as f64);
            row.set(
                format!("{name} missed"),
                (packets.lost + packets.late) as f64,
            );
            let delay = |value: Option<f64>| value.unwrap_or(f64::NAN);
            row.set(format!("{name} p50 ms"), delay(packets.delay_ms.p50));
            row.set(format!("{name} p99 ms"), delay(packets.delay_ms.p99));
        }
        Ok(row)
    }

    fn conclude(&self, plan: &Plan, rows: &Rows) -> Findings {
        let of = |ways: f64, dies: f64| -> Vec<&Row> {
            let is_one =
                |row: &&Row| row.parameter("ways") == ways && row.parameter("dies") == dies;
            rows.0.iter().filter(is_one).collect()
        };
        let judge = |key, ways, dies| verdict(key, &of(ways, dies), plan.size);
        Findings {
            charts: Vec::new(),
            verdicts: vec![
                judge("outage-two", 2.0, 0.0),
                judge("outage-one", 1.0, 0.0),
                judge("death-two", 2.0, 1.0),
                judge("death-one", 1.0, 1.0),
            ],
        }
    }

    fn table(&self, rows: &Rows) -> Vec<Vec<String>> {
        let head = [
            "cell",
            "sent",
            "missed",
            "p50 ms",
            "p99 ms",
            "beside missed",
        ];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for row in &rows.0 {
            let line = [
                row.cell.clone(),
                format!("{:.0}", row.value("video sent")),
                format!("{:.0}", row.value("video missed")),
                format!("{:.1}", row.value("video p50 ms")),
                format!("{:.1}", row.value("video p99 ms")),
                format!("{:.0}", row.value("beside missed")),
            ];
            table.push(line.to_vec());
        }
        table
    }

    fn files(&self, plan: &Plan) -> Vec<(String, String)> {
        let file = |cell: Cell| {
            let name = cell.key.replace([' ', '='], "-");
            (format!("{name}.toml"), scenario(&cell, plan.size))
        };
        self.cells(plan.size).into_iter().map(file).collect()
    }
}

/// Returns a verdict on whether all rows stay within the limits, and the bystander missed nothing.
fn verdict(key: &'static str, rows: &[&Row], size: Size) -> Verdict {
    let holds = |row: &&&Row| {
        row.value("video missed") <= allowed(row, size) && row.value("beside missed") == 0.0
    };
    let good = rows.iter().filter(holds).count();
    let excess = |row: &Row| row.value("video missed") - allowed(row, size);
    let worst = rows.iter().max_by(|a, b| excess(a).total_cmp(&excess(b)));
    let Some(worst) = worst else {
        return Verdict::untested(key, "no cell");
    };
    let text = format!(
        "{good} of {} cells; the worst is {}: missed {:.0} of {:.0} (at most {:.0}); beside missed {:.0} in all",
        rows.len(),
        worst.cell,
        worst.value("video missed"),
        worst.value("video sent"),
        allowed(worst, size),
        rows.iter()
            .map(|row| row.value("beside missed"))
            .sum::<f64>(),
    );
    let missed = rows.iter().filter(|row| !holds(row));
    let missed: Vec<&str> = missed.map(|row| row.cell.as_str()).collect();
    Verdict::of(key, good == rows.len(), text).because(format!("missed by {}", missed.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_fails_for_one_packet_of_two_ways_and_for_the_bystanders() {
        let judge = |ways: f64, missed: f64, beside: f64| {
            let cell = Cell {
                key: String::new(),
                parameters: vec![
                    ("ways", ways),
                    ("dies", 0.0),
                    ("rtt ms", 20.0),
                    ("pps", 1_000.0),
                ],
                words: Vec::new(),
            };
            let mut row = Row::of(&cell);
            row.set("video sent", 100_000.0);
            row.set("video missed", missed);
            row.set("beside missed", beside);
            verdict("outage-two", &[&row], Size::Quick).holds
        };
        assert_eq!(judge(2.0, 0.0, 0.0), Some(true));
        assert_eq!(judge(2.0, 1.0, 0.0), Some(false));
        assert_eq!(judge(2.0, 0.0, 1.0), Some(false));
        // The limit is that of two members with 250 ms of 1000/s, and one of 100 000.
        assert_eq!(judge(1.0, 501.0, 0.0), Some(true));
        assert_eq!(judge(1.0, 502.0, 0.0), Some(false));
    }

    #[test]
    fn every_cell_is_a_scenario() {
        for size in [Size::Quick, Size::Full] {
            for cell in TWO_WAYS.cells(size) {
                let text = scenario(&cell, size);
                let scenario = Scenario::parse("two-ways", &text);
                assert!(scenario.is_ok(), "{}: {:?}", cell.key, scenario.err());
            }
        }
    }
}
