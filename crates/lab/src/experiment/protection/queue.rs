//! Losses of a full queue: repair would make the queue longer, so the node must not add any.
//!
//! ```text
//!   a ═══╗ 20 calls                     ╔═══ b
//!        ╠══ carries 80 % of the calls ══╣
//!   TCP ─╝ in one of the two cells       ╚─ TCP
//! ```

use super::super::{
    Cell, CellError, ClaimText, Experiment, Findings, Plan, Row, Rows, Size, Verdict, claim,
};
use super::{SOURCE, run_text};
use crate::scenario::Report;
use crate::stats::mean_and_error;

pub(super) const QUEUE: Queue = Queue;
const ID: &str = "protection/queue";
const CALLS: f64 = 20.0;
/// The link's rate as a share of the calls' rate: a call has 64 kbit/s and 75 bytes around each packet.
const QUEUE_SHARE: f64 = 0.8;
const CALL_KBIT: f64 = 64.0 * (160.0 + 47.0 + 28.0) / 160.0;
/// Nothing may be added after this many seconds.
const AFTER_S: u64 = 2;
/// Time from which on TCP is measured.
const FROM_S: u64 = 10;
/// The least share of its fair rate that TCP must have.
const WITHIN: f64 = 0.9;

pub(super) const CLAIMS: &[ClaimText] = &[
    claim(
        ID,
        "silent",
        SOURCE,
        "20 calls over a link that carries 80 % of them, T = 30 ms, alone and beside TCP",
        "no repair packet after two seconds",
    ),
    claim(
        ID,
        "beside-tcp",
        SOURCE,
        "the same with a TCP connection (CUBIC) in the same queue",
        "TCP has at least 90 % of what it has beside calls without any protection, and of the share of one flow in 21",
    ),
];

pub(super) struct Queue;

fn link_kbit() -> u64 {
    (CALL_KBIT * CALLS * QUEUE_SHARE) as u64
}

fn scenario(protect: &str, has_tcp: bool, seconds: u64) -> String {
    let kbit = link_kbit();
    let mut text = format!(
        "[scenario]\nname = \"queue\"\nduration = \"{seconds}s\"\nsettle = \"10s\"\nsealing = false\n\
         [settings]\nprotect = \"{protect}\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n\
         [[link]]\na = \"a\"\nb = \"b\"\npath = \"delay=30ms rate={kbit}kbit\"\n\
         [[flow]]\nname = \"calls\"\nfrom = \"a\"\nto = \"b\"\ncount = {CALLS}\ndeadline = \"90ms\"\n"
    );
    if has_tcp {
        text += "[[flow]]\nname = \"tcp\"\nfrom = \"a\"\nto = \"b\"\ntcp = \"cubic\"\nshared = true\npattern = \"bulk\"\n";
    }
    text + &format!("[measure]\nfrom = \"{}s\"\n", FROM_S.min(seconds / 2))
}

fn runs(size: Size) -> (u64, u64) {
    match size {
        Size::Quick => (3, 60),
        Size::Full => (10, 120),
    }
}

fn goodput(report: &Report) -> f64 {
    let tcp = report.flows.iter().find(|flow| flow.name == "tcp");
    tcp.map_or(0.0, |flow| flow.goodput_bps / 1e3)
}

impl Experiment for Queue {
    fn id(&self) -> &'static str {
        ID
    }

    fn title(&self) -> &'static str {
        "A queue that is full gets no repair"
    }

    fn method(&self, size: Size) -> String {
        let (count, seconds) = runs(size);
        format!(
            "Production nodes in the simulator, {CALLS} calls over a link of {} kbit/s: {count} runs of {seconds} s. TCP is measured from \
             {FROM_S} s on.",
            link_kbit()
        )
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        let cell = |(key, tcp): (&str, f64)| Cell {
            key: key.into(),
            parameters: vec![("tcp", tcp)],
            words: Vec::new(),
        };
        [("alone", 0.0), ("beside TCP", 1.0)].map(cell).into()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let (count, seconds) = runs(plan.size);
        let has_tcp = cell.parameter("tcp") > 0.0;
        let mut row = Row::of(cell);
        let (mut later, mut with, mut without) = (0, Vec::new(), Vec::new());
        for n in 0..count {
            let seed = seed.wrapping_add(n);
            let all = run_text(&scenario("auto", has_tcp, seconds), seed)?;
            // Runs with equal seeds have the same first seconds.
            let begun = run_text(&scenario("auto", has_tcp, AFTER_S), seed)?;
            later += all.overlay.repair.saturating_sub(begun.overlay.repair);
            if has_tcp {
                let bare = run_text(&scenario("off", has_tcp, seconds), seed)?;
                with.push(goodput(&all));
                without.push(goodput(&bare));
            }
        }
        row.set("repair later", later as f64);
        for (name, values) in [("protected", with), ("bare", without)] {
            let (mean, error) = mean_and_error(&values);
            row.set(format!("tcp {name} kbit/s"), mean);
            row.set(format!("tcp {name} error"), error);
        }
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let later: f64 = rows.0.iter().map(|row| row.value("repair later")).sum();
        let silent = match rows.0.is_empty() {
            true => Verdict::untested("silent", "no cell"),
            false => Verdict::of(
                "silent",
                later == 0.0,
                format!("{later:.0} repair packets later"),
            ),
        };
        let tcp = rows.0.iter().find(|row| row.parameter("tcp") > 0.0);
        Findings {
            charts: Vec::new(),
            verdicts: vec![silent, beside_tcp(tcp)],
        }
    }

    fn table(&self, rows: &Rows) -> Vec<Vec<String>> {
        let head = [
            "cell",
            "repair later",
            "TCP, kbit/s",
            "±",
            "without protection",
            "±",
        ];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for row in &rows.0 {
            let mut line = vec![
                row.cell.clone(),
                format!("{:.0}", row.value("repair later")),
            ];
            line.extend(["protected", "bare"].iter().flat_map(|name| {
                let of = ["kbit/s", "error"].map(|what| row.known(&format!("tcp {name} {what}")));
                of.map(|value| value.map_or_else(String::new, |value| format!("{value:.1}")))
            }));
            table.push(line);
        }
        table
    }

    fn files(&self, plan: &Plan) -> Vec<(String, String)> {
        let (_, seconds) = runs(plan.size);
        [("alone.toml", false), ("beside-tcp.toml", true)]
            .map(|(name, has_tcp)| (name.into(), scenario("auto", has_tcp, seconds)))
            .into()
    }
}

fn beside_tcp(row: Option<&Row>) -> Verdict {
    let Some(row) = row else {
        return Verdict::untested("beside-tcp", "no cell");
    };
    let (with, without) = (
        row.value("tcp protected kbit/s"),
        row.value("tcp bare kbit/s"),
    );
    let share = link_kbit() as f64 / (CALLS + 1.0);
    Verdict::of(
        "beside-tcp",
        with >= WITHIN * without && with >= WITHIN * share,
        format!(
            "{with:.1} kbit/s, {without:.1} beside calls without protection; one of 21 flows has {share:.1}"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn both_cells_are_scenarios() {
        for has_tcp in [false, true] {
            let text = scenario("auto", has_tcp, 20);
            let scenario = Scenario::parse("queue", &text);
            assert!(scenario.is_ok(), "{:?}\n{text}", scenario.err());
        }
    }

    #[test]
    fn a_verdict_fails_where_tcp_has_too_little() {
        let judge = |with: f64, without: f64| {
            let mut row = Row::default();
            row.set("tcp protected kbit/s", with);
            row.set("tcp bare kbit/s", without);
            beside_tcp(Some(&row)).holds
        };
        assert_eq!(judge(200.0, 210.0), Some(true));
        assert_eq!(judge(200.0, 230.0), Some(false));
        assert_eq!(judge(50.0, 50.0), Some(false));
        assert_eq!(beside_tcp(None).holds, None);
    }
}
