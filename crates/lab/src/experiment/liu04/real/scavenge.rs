//! What a copy does to calls that share its only link: one that scavenges, one that does not, and what
//! the first leaves unused.
//!
//! ```text
//!   a ═══ 20 Mbit/s, 10 ms, a queue of 400 packets ═══ b      20 calls there and back; sinew cp ─▶
//! ```

use crate::bench::copying::Copying;
use crate::bench::credentials::name;
use crate::experiment::liu04::hosts::{Copy, Relays, Site};
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size, Verdict};
use crate::plot::{Axis, Chart, Mark, Series};
use serde_json::Value;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The experiment.
pub(in super::super) const SCAVENGE: Scavenge = Scavenge;

/// With a queue as long as those of many access links: 240 ms of full packets.
const LINK: &str = "rate=20mbit delay=10ms queue=400";
const LINK_BPS: f64 = 20e6;
/// What the kernels use.
const CONGESTION: &str = "cubic";
const CALLS: u32 = 20;
/// What a copy has to find its rate.
const WARM: Duration = Duration::from_secs(5);
/// What a copy carries beside its payload: segments of 1448 bytes in packets of 1500, and TLS.
const PAYLOAD_SHARE: f64 = 1_448.0 / 1_500.0;
/// What calls may lose, and what a copy has to use.
const MOS: f64 = 0.1;
const SHARE: f64 = 0.7;
const ALONE: f64 = 0.9;

/// Who is on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Calls,
    CallsAndScavenger,
    CallsAndCopy,
    Scavenger,
}

const LOADS: [Load; 4] = [
    Load::Calls,
    Load::CallsAndScavenger,
    Load::CallsAndCopy,
    Load::Scavenger,
];

/// The experiment.
pub(in super::super) struct Scavenge;

impl Experiment for Scavenge {
    fn id(&self) -> &'static str {
        "liu04/scavenge"
    }

    fn title(&self) -> &'static str {
        "Calls beside a copy that gives way, and beside one that does not"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "Two network namespaces joined by an emulated link ({LINK}), a node in each, and {CALLS} calls of {} s between them \
             (sinew call, G.711, both ways): alone, beside sinew cp --scavenge, and beside sinew cp with CUBIC; and the \
             scavenging copy alone. Copies begin {} s before. What calls leave is the link's rate less theirs, as the \
             interface counts it.",
            seconds(size),
            WARM.as_secs()
        )
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        (0..LOADS.len())
            .map(|load| Cell::at(&[("load", load as f64)]))
            .collect()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let load = LOADS[cell.parameter("load") as usize];
        let site = Site::chain(&[LINK], CONGESTION, seed)?;
        let relays = Relays::start(&plan.program, &site, &[])?;
        let mut row = Row::of(cell);
        let copying = match load {
            Load::Calls => None,
            _ => {
                let copy = Copy {
                    to: 1,
                    via: Some(Vec::new()),
                    stripes: vec![1],
                    scavenges: load != Load::CallsAndCopy,
                    ..Copy::default()
                };
                Some(relays.begin(&site, &copy)?)
            }
        };
        let calls = (load != Load::Scavenger)
            .then(|| relays.command(&["call", "--answer"], 1).spawn())
            .transpose()
            .map_err(io)?
            .map(Answering);
        sleep(WARM);
        let before = (Instant::now(), site.counted(0, 0)?.1, fed(&copying));
        match &calls {
            None => sleep(Duration::from_secs(seconds(plan.size))),
            Some(_) => row_of_calls(&relays, plan.size, &mut row)?,
        }
        let span = before.0.elapsed().as_secs_f64();
        let rate = |from: u64, to: u64| (to - from) as f64 * 8.0 / span;
        row.set("link_bps", rate(before.1, site.counted(0, 0)?.1));
        row.set("copy_bps", rate(before.2, fed(&copying)));
        drop(calls);
        if let Some(copying) = copying {
            copying.stop().map_err(io)?;
        }
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let mos = (0..3).map(|load| (f64::from(load), value(rows, load, "mos")));
        Findings {
            charts: vec![Chart {
                title: self.title().into(),
                x: Axis {
                    label: "calls alone, beside a scavenging copy, beside an ordinary one".into(),
                    min: -0.5,
                    max: 2.5,
                },
                y: Axis {
                    label: "MOS, the worse direction".into(),
                    min: 1.0,
                    max: 4.5,
                },
                series: vec![Series {
                    name: "calls".into(),
                    color: 0,
                    mark: Mark::Dots,
                    points: mos.collect(),
                }],
            }],
            verdicts: verdicts(rows),
        }
    }

    fn is_real_time(&self) -> bool {
        true
    }
}

/// Somebody who answers calls, until this is dropped.
struct Answering(Child);

impl Drop for Answering {
    fn drop(&mut self) {
        // Fails if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn row_of_calls(relays: &Relays, size: Size, row: &mut Row) -> Result<(), CellError> {
    let (calls, seconds) = (CALLS.to_string(), seconds(size).to_string());
    let words = [
        "call",
        &name(1),
        "--calls",
        &calls,
        "--seconds",
        &seconds,
        "--json",
    ];
    let ended = relays.command(&words, 0).output().map_err(io)?;
    let failed = || {
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        CellError(format!("sinew call: {}", said.trim_end()))
    };
    if !ended.status.success() {
        return Err(failed());
    }
    let told: Value = serde_json::from_slice(&ended.stdout).map_err(|_| failed())?;
    let of = |way: &str, key: &str| told["overlay"][way][key].as_f64().unwrap_or(f64::NAN);
    let worse = ["there", "back"].map(|way| of(way, "mos"));
    row.set("mos", worse[0].min(worse[1]));
    for way in ["there", "back"] {
        row.set(
            format!("{way}_missed_pct"),
            of(way, "lost_pct") + of(way, "late_pct"),
        );
        let delay = told["overlay"][way]["delay_ms"]["p99"].as_f64();
        row.set(format!("{way}_p99_ms"), delay.unwrap_or(f64::NAN));
    }
    Ok(())
}

fn verdicts(rows: &Rows) -> Vec<Verdict> {
    let mos = |load| value(rows, load, "mos");
    let mbit = |load, key| value(rows, load, key) / 1e6;
    let harm = mos(0) - mos(1);
    let left = (LINK_BPS - value(rows, 0, "link_bps")) * PAYLOAD_SHARE;
    let share = value(rows, 1, "copy_bps") / left;
    let alone = value(rows, 3, "copy_bps") / (LINK_BPS * PAYLOAD_SHARE);
    vec![
        Verdict::of(
            "scavenge-voice",
            harm < MOS,
            format!("{harm:.3} MOS lost: {:.3} instead of {:.3}", mos(1), mos(0)),
        )
        .note(format!(
            "beside a copy that does not scavenge: {:.3}, with {:.1} Mbit/s",
            mos(2),
            mbit(2, "copy_bps")
        )),
        Verdict::of(
            "scavenge-share",
            share >= SHARE,
            format!(
                "{:.0} % of {:.1} Mbit/s: {:.1}",
                share * 100.0,
                left / 1e6,
                mbit(1, "copy_bps")
            ),
        ),
        Verdict::of(
            "scavenge-alone",
            alone >= ALONE,
            format!(
                "{:.0} % of the {:.1} Mbit/s that a connection could have",
                alone * 100.0,
                LINK_BPS * PAYLOAD_SHARE / 1e6
            ),
        ),
    ]
}

fn value(rows: &Rows, load: u32, key: &str) -> f64 {
    rows.value(&[("load", f64::from(load))], key)
}

fn fed(copying: &Option<Copying>) -> u64 {
    copying.as_ref().map_or(0, Copying::fed)
}

fn io(error: std::io::Error) -> CellError {
    CellError(format!("sinew: {error}"))
}

fn seconds(size: Size) -> u64 {
    match size {
        Size::Quick => 24,
        Size::Full => 120,
    }
}
