//! A reliable link and TCP in one bottleneck.
//!
//! ```text
//!   a ═╗ n bulk streams                              ╔═ b
//!      ╠══ 10 Mbit/s, 10 ms, 50 packets, losses ═════╣
//!   TCP╝ n connections                               ╚═ TCP
//! ```
//!
//! Two closed loops without noise keep their phases: the same flow meets the full queue each time, whatever the seed
//! (Floyd and Jacobson 1992). So hosts and path add a random delay of up to the time of one packet at the bottleneck,
//! as they advise. The same cells are also run without it and with more of it.

use super::super::{Cell, Findings, Plan, Rows, Size, Verdict, claim};
use super::{CellError, ClaimText, Experiment, LINKS, Row, SOURCE};
use super::{chart, flow, head, link, links, run, stream, verdict};

const WARM_S: u64 = 10;
const MBIT: f64 = 10.0;
/// TCP's families, as a coordinate.
const TCPS: [&str; 3] = ["newreno", "cubic", "bbr"];
/// Noise of the delay each way, in ms: none; the time of one packet at the bottleneck, which is judged; more of it.
const NOISES_MS: [f64; 3] = [0.0, NOISE_MS, 3.0];
const NOISE_MS: f64 = 1.2;
/// The goals: the streams' share of what both have, and the use of the link by both together.
const SHARE: [f64; 2] = [0.4, 0.6];
const USED: f64 = 0.9;

pub(super) struct Shares;
const ID: &str = "streams/shares";

pub(super) const CLAIMS: &[ClaimText] = &[
    claim(
        ID,
        "share",
        SOURCE,
        "streams of a link as it comes beside as many TCP connections of NewReno, CUBIC or BBR, without other losses",
        "a share of 40 to 60 %",
    ),
    claim(
        ID,
        "used",
        SOURCE,
        "both together, without other losses",
        "at least 90 % of the bottleneck",
    ),
];

fn scenario(cell: &Cell, size: Size) -> String {
    let (count, loss) = (cell.parameter("n") as usize, cell.parameter("loss %"));
    let tcp = TCPS[cell.parameter("tcp") as usize];
    let noise = match cell.parameter("noise ms") {
        0.0 => String::new(),
        ms => format!(" jitter={}us", (1e3 * ms).round()),
    };
    let seconds = match size {
        Size::Quick => 40,
        Size::Full => 130,
    };
    let mut text = head("shares", seconds, &["a", "b"]);
    text += match links(cell.parameter("links")) {
        "" => "[reliable]\n",
        table => table,
    };
    text += &format!("flows = {count}\n");
    text += &link(
        "a",
        "b",
        &format!("delay=10ms rate=10mbit queue=50 loss={loss}%{noise}"),
    );
    let more = format!("count = {count}\npattern = \"bulk\"\n");
    text += &stream("streams", "a", "b", &more);
    text += &format!(
        "[[flow]]\nname = \"tcp\"\nfrom = \"a\"\nto = \"b\"\ntcp = \"{tcp}\"\nshared = true\n{more}"
    );
    text + &format!("[measure]\nfrom = \"{WARM_S}s\"\n")
}

impl Experiment for Shares {
    fn id(&self) -> &'static str {
        ID
    }

    fn title(&self) -> &'static str {
        "Streams of a reliable link beside as many TCP connections in one bottleneck"
    }

    fn method(&self, _: Size) -> String {
        "Production nodes in the simulator with a link of 10 Mbit/s, 10 ms and 50 packets, and through the same queue the simulator's TCP \
         with the numbers of today's kernels. Each way takes up to 1.2 ms more, at random: what a packet takes at the bottleneck. \
         The link behaves like as many flows as it carries (`reliable.flows`). With 1 % loss of \
         single packets no share is judged: TCP leaves what it cannot use. `sinew bench fairness` does the same with real nodes and the \
         kernel's TCP."
            .into()
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let counts: &[f64] = match size {
            Size::Quick => &[1.0, 4.0],
            Size::Full => &[1.0, 2.0, 4.0, 8.0],
        };
        let mut cells = Vec::new();
        for links in [0.0, 1.0] {
            for tcp in 0..TCPS.len() {
                for n in counts {
                    let cell = |loss: f64, noise: f64| {
                        let at = [("links", links), ("tcp", tcp as f64), ("n", *n)];
                        Cell::at(&[&at[..], &[("loss %", loss), ("noise ms", noise)]].concat())
                    };
                    cells.extend(NOISES_MS.map(|noise| cell(0.0, noise)));
                    cells.push(cell(1.0, NOISE_MS));
                }
            }
        }
        cells
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let report = run(&scenario(cell, plan.size), seed)?;
        let mut row = Row::of(cell);
        let mbit = |name| flow(&report, name).map(|flow| flow.goodput_bps / 1e6);
        let (streams, tcp) = (mbit("streams")?, mbit("tcp")?);
        row.set("streams mbit/s", streams);
        row.set("tcp mbit/s", tcp);
        row.set("share", streams / (streams + tcp));
        row.set("used", (streams + tcp) / MBIT);
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let at = |links, noise| [("links", links), ("loss %", 0.0), ("noise ms", noise)];
        let judged: Vec<&Row> = rows.with(&at(0.0, NOISE_MS)).collect();
        let share = |row: &Row| row.value("share");
        let half = (SHARE[1] - SHARE[0]) / 2.0;
        let used = |row: &Row| row.value("used");
        let shares = |links, noise| {
            let of = |row: &Row| format!("{:.0}", 100.0 * share(row));
            rows.with(&at(links, noise))
                .map(of)
                .collect::<Vec<_>>()
                .join(", ")
        };
        let share: Verdict = verdict(
            "share",
            &judged,
            |row| (share(row) - 0.5).abs() / half,
            |row| format!("{:.1} %", 100.0 * share(row)),
        );
        Findings {
            charts: vec![chart("Share of the streams", "share", &rows.0, "share")],
            verdicts: vec![
                share
                    .because(
                        "beside BBR a link has what CUBIC has beside it: the kernel's own has 54 % of one beside one and 10 % of four beside \
                         four through the emulator (`sinew bench fairness --kernel`)",
                    )
                    .note(format!(
                        "without noise {} %, with up to 3 ms {} %; links with BBR have {} %",
                        shares(0.0, NOISES_MS[0]),
                        shares(0.0, NOISES_MS[2]),
                        shares(1.0, NOISE_MS)
                    )),
                verdict(
                    "used",
                    &judged,
                    |row| USED / used(row),
                    |row| format!("{:.1} %", 100.0 * used(row)),
                ),
            ],
        }
    }

    fn table(&self, rows: &Rows) -> Vec<Vec<String>> {
        let head = [
            "links", "TCP", "n", "loss %", "noise", "streams", "TCP", "share",
        ];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for row in &rows.0 {
            table.push(vec![
                LINKS[row.parameter("links") as usize].to_owned(),
                TCPS[row.parameter("tcp") as usize].to_owned(),
                row.parameter("n").to_string(),
                row.parameter("loss %").to_string(),
                row.parameter("noise ms").to_string(),
                format!("{:.2}", row.value("streams mbit/s")),
                format!("{:.2}", row.value("tcp mbit/s")),
                format!("{:.0} %", 100.0 * row.value("share")),
            ]);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs one bulk stream, and one connection of CUBIC in parallel if `tcp`. Returns the rates of both, in Mbit/s.
    fn beside(reliable: &str, mbit: u32, path: &str, tcp: bool, seed: u64) -> (f64, f64) {
        beside_on(
            reliable,
            &format!("delay=10ms rate={mbit}mbit {path}"),
            tcp,
            seed,
        )
    }

    fn beside_on(reliable: &str, path: &str, tcp: bool, seed: u64) -> (f64, f64) {
        let mut text = head("short", 60, &["a", "b"]) + reliable;
        text += &link("a", "b", path);
        text += &stream("stream", "a", "b", "pattern = \"bulk\"\n");
        if tcp {
            text += "[[flow]]\nname = \"tcp\"\nfrom = \"a\"\nto = \"b\"\ntcp = \"cubic\"\nshared = true\npattern = \"bulk\"\n";
        }
        text += "[measure]\nfrom = \"10s\"\n";
        let report = run(&text, seed).unwrap();
        let mbit = |name| flow(&report, name).map_or(0.0, |flow| flow.goodput_bps / 1e6);
        (mbit("stream"), mbit("tcp"))
    }

    #[test]
    fn a_short_queue_is_no_bad_cable_and_tcp_lives_beside_the_stream() {
        const CUT: &str = "[reliable]\nrandom_losses = \"cut\"\n";
        for queue in [1, 2, 3, 5, 8, 16] {
            // Without randomness the two keep a phase, which has as much effect as their controls, so the test takes
            // the mean of three.
            let mean = |reliable| {
                let delays = ["9ms", "10ms", "11ms"];
                let each = delays.map(|delay| {
                    let path = format!("delay={delay} rate=10mbit queue={queue}");
                    beside_on(reliable, &path, true, 1)
                });
                let sum = each
                    .iter()
                    .fold((0.0, 0.0), |sum, has| (sum.0 + has.0, sum.1 + has.1));
                (sum.0 / 3.0, sum.1 / 3.0)
            };
            let (stream, tcp) = mean("");
            let (_, fair) = mean(CUT);
            let words =
                format!("queue {queue}: {stream} and {tcp}; {fair} if each loss is congestion");
            assert!(tcp > 0.75 * fair, "{words}");
        }
    }

    #[test]
    fn a_bad_cable_with_a_queue_is_filled() {
        for (mbit, queue) in [(10, 14), (50, 72)] {
            for seed in 1..=5 {
                let path = format!("queue={queue} loss=1%");
                let (stream, _) = beside("", mbit, &path, false, seed);
                assert!(stream > 0.9 * f64::from(mbit), "{mbit} {seed}: {stream}");
            }
        }
    }
}
