//! Voice as messages that expire, in competition with file transfers: the partially reliable class of [Papadimitriou06
//! §6] with production nodes.
//!
//! ```text
//!   a ── 6 Mbit/s, 10 ms ── r1 ── 24 Mbit/s, 10 ms, 100 packets ── r2 ── 5 ms, errors ── b      n calls, by the overlay
//!                           20 TCP connections ────▶
//! ```

use super::super::{Cell, Findings, Plan, Rows, Size, Verdict, claim};
use super::{CellError, ClaimText, Experiment, Row, SOURCE};
use super::{chart, flow, head, link, run, verdict};

const WARM_S: u64 = 5;
/// A delay that is not noticed. [Papadimitriou06 Table II]
const DEADLINE_MS: u64 = 150;
const TCPS: usize = 20;
/// The carriers of the calls, as a coordinate.
const CARRIERS: [(&str, &str); 3] = [
    ("datagrams", "class = \"best-effort\"\n"),
    ("a stream", "class = \"reliable\"\nstream = true\n"),
    (
        "messages that expire",
        "class = \"reliable\"\nstream = true\nexpires = true\n",
    ),
];
const STREAM: f64 = 1.0;
const EXPIRING: f64 = 2.0;
/// The goals: calls in time if their links have their share of the path, and the share that TCP keeps.
const IN_TIME: f64 = 0.99;
const TCP_SHARE: f64 = 0.9;
const FRESH: f64 = 0.9;

pub(super) struct Messages;
const ID: &str = "streams/messages";

pub(super) const CLAIMS: &[ClaimText] = &[
    claim(
        ID,
        "in-time",
        SOURCE,
        "messages that expire, over links that behave like as many flows as there are calls, 0 to 5 % errors",
        "at least 99 % within 150 ms",
    ),
    claim(
        ID,
        "fresh",
        SOURCE,
        "what comes of messages that expire where links have less than the calls need",
        "at least 90 % of it within 150 ms",
    ),
    claim(
        ID,
        "tcp",
        SOURCE,
        "TCP beside messages that expire",
        "at least 90 % of what it has beside the streams",
    ),
];

fn scenario(cell: &Cell, size: Size) -> String {
    let (calls, errors) = (cell.parameter("calls"), cell.parameter("errors %"));
    let seconds = match size {
        Size::Quick => 25,
        Size::Full => 65,
    };
    let mut text = head("messages", seconds, &["a", "r1", "r2", "b"]);
    text += &format!("[reliable]\nflows = {}\n", cell.parameter("flows"));
    text += &link("a", "r1", "delay=10ms rate=6mbit queue=600");
    text += &link("r1", "r2", "delay=10ms rate=24mbit queue=100");
    text += &link("r2", "b", &format!("delay=5ms loss={errors}%"));
    let carrier = CARRIERS[cell.parameter("carrier") as usize].1;
    text += &format!(
        "[[flow]]\nname = \"voice\"\nfrom = \"a\"\nto = \"b\"\ncount = {calls}\npattern = \"pareto\"\nrate = \"64kbit\"\n\
         packet = 160\ndeadline = \"{DEADLINE_MS}ms\"\n{carrier}"
    );
    text += &format!(
        "[[flow]]\nname = \"tcp\"\nfrom = \"r1\"\nto = \"r2\"\ntcp = \"newreno\"\nshared = true\ncount = {TCPS}\n\
         pattern = \"bulk\"\n"
    );
    text + &format!("[measure]\nfrom = \"{WARM_S}s\"\n")
}

/// Returns the row of the same point with another carrier.
fn other<'a>(rows: &'a Rows, row: &Row, carrier: f64) -> Option<&'a Row> {
    let at = ["calls", "errors %", "flows"].map(|key| (key, row.parameter(key)));
    rows.with(&[&at[..], &[("carrier", carrier)]].concat())
        .next()
}

impl Experiment for Messages {
    fn id(&self) -> &'static str {
        ID
    }

    fn title(&self) -> &'static str {
        "Voice as messages that expire, as a stream and as datagrams, beside file transfers"
    }

    fn method(&self, _: Size) -> String {
        "Production nodes in the simulator, four in a row: 80 and 20 calls of 64 kbit/s in talkspurts of Pareto's distribution, and \
         20 NewReno connections of today's kernels through the queue of the second link. Errors are of single packets of the last link, \
         both ways. Reliable links behave like one flow each, or like 64: then calls have what as many connections would have."
            .into()
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let errors: &[f64] = match size {
            Size::Quick => &[0.0, 5.0],
            Size::Full => &[0.0, 1.0, 3.0, 5.0],
        };
        let mut cells = Vec::new();
        for flows in [1.0, 64.0] {
            for calls in [20.0, 80.0] {
                for errors in errors {
                    cells.extend((0..CARRIERS.len()).map(|carrier| {
                        let at = [("flows", flows), ("calls", calls), ("errors %", *errors)];
                        Cell::at(&[&at[..], &[("carrier", carrier as f64)]].concat())
                    }));
                }
            }
        }
        cells
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let report = run(&scenario(cell, plan.size), seed)?;
        let mut row = Row::of(cell);
        let voice = &flow(&report, "voice")?.packets;
        let in_time = voice.received.saturating_sub(voice.late) as f64;
        row.set("in time", in_time / voice.sent.max(1) as f64);
        row.set("came", voice.received as f64 / voice.sent.max(1) as f64);
        row.set("p99 ms", voice.delay_ms.p99.unwrap_or(f64::NAN));
        row.set("tcp mbit/s", flow(&report, "tcp")?.goodput_bps / 1e6);
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let of = |at: &[(&'static str, f64)]| -> Vec<&Row> { rows.with(at).collect() };
        let in_time = |row: &Row| row.value("in time");
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let beside_stream = |row: &Row, name: &str| {
            other(rows, row, STREAM).map_or(f64::NAN, |stream| stream.value(name))
        };
        let tcp = |row: &Row| row.value("tcp mbit/s") / beside_stream(row, "tcp mbit/s");
        let fresh = |row: &Row| in_time(row) / row.value("came");
        let few: Vec<&Row> = of(&[("carrier", EXPIRING), ("flows", 1.0)]);
        let datagrams: Vec<String> = of(&[("carrier", 0.0)])
            .into_iter()
            .map(|row| percent(in_time(row)))
            .collect();
        let timely: Verdict = verdict(
            "in-time",
            &of(&[("carrier", EXPIRING), ("flows", 64.0)]),
            |row| IN_TIME / in_time(row),
            |row| percent(in_time(row)),
        );
        Findings {
            charts: vec![chart("Within 150 ms", "share", &rows.0, "in time")],
            verdicts: vec![
                timely.note(format!("of datagrams {}", datagrams.join(", "))),
                verdict(
                    "fresh",
                    &few,
                    |row| FRESH / fresh(row),
                    |row| percent(fresh(row)),
                )
                .because(
                    "what has left its sender waits in the lanes of the links, which know no deadline of a stream and hold 64 packets \
                     at least; and a link has its share in packets, of which calls have short ones",
                ),
                verdict(
                    "tcp",
                    &of(&[("carrier", EXPIRING)]),
                    |row| TCP_SHARE / tcp(row),
                    |row| percent(tcp(row)),
                ),
            ],
        }
    }

    fn table(&self, rows: &Rows) -> Vec<Vec<String>> {
        let head = [
            "flows", "calls", "errors %", "by", "in time", "came", "p99", "TCP",
        ];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for row in &rows.0 {
            let mut line: Vec<String> = ["flows", "calls", "errors %"]
                .map(|key| row.parameter(key).to_string())
                .into();
            line.push(CARRIERS[row.parameter("carrier") as usize].0.to_owned());
            let share = |key: &str| format!("{:.1} %", 100.0 * row.value(key));
            line.extend([share("in time"), share("came")]);
            line.push(format!("{:.0}", row.value("p99 ms")));
            line.push(format!("{:.2}", row.value("tcp mbit/s")));
            table.push(line);
        }
        table
    }

    fn files(&self, plan: &Plan) -> Vec<(String, String)> {
        let file = |cell: Cell| {
            let name = cell.key.replace([' ', '=', '%'], "-");
            (format!("{name}.toml"), scenario(&cell, plan.size))
        };
        self.cells(plan.size).into_iter().map(file).collect()
    }
}
