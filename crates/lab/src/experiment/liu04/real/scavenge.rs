//! The effect of a copy on calls that share its only link: one copy that scavenges, one that does not, and the capacity
//! that the first leaves unused.
//!
//! ```text
//!   a ═══ 2, 20 or 200 Mbit/s, 10 ms, a queue of 240 ms ═══ b      5 calls there and back; pings; sinew cp ─▶
//! ```

use crate::bench::copying::Copying;
use crate::bench::credentials::name;
use crate::experiment::liu04::hosts::{Copy, Pings, Relays, Site};
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size, Verdict};
use crate::plot::{Axis, Chart, Mark, Series};
use serde_json::Value;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The experiment.
pub(in super::super) const SCAVENGE: Scavenge = Scavenge;

/// The rates of the link.
const RATES: [f64; 3] = [2.0, 20.0, 200.0];
/// A queue as long as those of many access links: 240 ms of full packets.
const QUEUE_PKTS_PER_MBIT: f64 = 20.0;
/// The congestion control of the kernels.
const CONGESTION: &str = "cubic";
const CALLS: u32 = 5;
/// The time for a copy to reach its rate.
const WARM: Duration = Duration::from_secs(5);
/// The share of payload in a copy's traffic: segments of 1448 bytes in packets of 1500, and TLS.
const PAYLOAD_SHARE: f64 = 1_448.0 / 1_500.0;
/// The largest losses of calls and pings, and the least use by a copy.
const MOS: f64 = 0.02;
const PING_MS: f64 = 15.0;
const SHARE: f64 = 0.85;
const ALONE: f64 = 0.9;

/// The traffic on the link.
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
            "Two network namespaces joined by an emulated link ({}), a node in each, and {CALLS} calls of {} s between them \
             (sinew call, G.711, both ways): alone, beside sinew cp --background, and beside sinew cp with CUBIC; and the \
             background copy alone. Copies begin {} s before. What calls leave is the link's rate less theirs, as the \
             interface counts it. Pings are means of 20 round trips in a second while the calls last.",
            RATES.map(link).join("; "),
            seconds(size),
            WARM.as_secs()
        )
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        let cell = |mbit: f64, load: usize| Cell::at(&[("load", load as f64), ("mbit", mbit)]);
        let rates = RATES.into_iter();
        rates
            .flat_map(|mbit| (0..LOADS.len()).map(move |load| cell(mbit, load)))
            .collect()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let load = LOADS[cell.parameter("load") as usize];
        let link = link(cell.parameter("mbit"));
        let site = Site::chain(&[&link], CONGESTION, seed)?;
        let pings = Pings::start(&site)?;
        let relays = Relays::start(&plan.program, &site, &[])?;
        let mut row = Row::of(cell);
        let copying = match load {
            Load::Calls => None,
            _ => {
                let copy = Copy {
                    to: 1,
                    via: Some(Vec::new()),
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
        row.set("ping_ms", pings.between(before.0, Instant::now())[0]);
        drop(calls);
        if let Some(copying) = copying {
            copying.stop().map_err(io)?;
        }
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let series = RATES.iter().enumerate().map(|(color, &mbit)| {
            let at = At { rows, mbit };
            let mos = LOADS[..3].iter().map(|load| {
                let place = f64::from(*load as u8);
                (place, at.value(*load, "mos"))
            });
            Series {
                name: format!("{mbit} Mbit/s").into(),
                color: color as u8,
                mark: Mark::Dots,
                points: mos.filter(|(_, mos)| mos.is_finite()).collect(),
            }
        });
        Findings {
            charts: vec![Chart {
                title: self.title().into(),
                x: Axis {
                    label: "calls alone, beside a copy in the background, beside an ordinary one"
                        .into(),
                    min: -0.5,
                    max: 2.5,
                },
                y: Axis {
                    label: "MOS, the worse direction".into(),
                    min: 1.0,
                    max: 4.5,
                },
                series: series.collect(),
            }],
            verdicts: verdicts(rows),
        }
    }

    fn is_real_time(&self) -> bool {
        true
    }
}

/// Returns the link in the emulator's words.
fn link(mbit: f64) -> String {
    let queue = (mbit * QUEUE_PKTS_PER_MBIT).round();
    format!("rate={mbit}mbit delay=10ms queue={queue}")
}

/// A process that answers calls, until this is dropped.
struct Answering(Child);

impl Drop for Answering {
    fn drop(&mut self) {
        // This fails if it has already ended.
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
        // Intermediate reports are JSON too.
        "--every",
        "0",
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
    let harm = |at: &At| at.value(Load::Calls, "mos") - at.value(Load::CallsAndScavenger, "mos");
    let added =
        |at: &At| at.value(Load::CallsAndScavenger, "ping_ms") - at.value(Load::Calls, "ping_ms");
    let left = |at: &At| (at.bps() - at.value(Load::Calls, "link_bps")) * PAYLOAD_SHARE;
    let share = |at: &At| at.value(Load::CallsAndScavenger, "copy_bps") / left(at);
    let alone = |at: &At| at.value(Load::Scavenger, "copy_bps") / (at.bps() * PAYLOAD_SHARE);
    let beside = |at: &At| {
        format!(
            "{} Mbit/s: MOS {:.3}, ping {:.1} ms, {:.1} Mbit/s",
            at.mbit,
            at.value(Load::CallsAndCopy, "mos"),
            at.value(Load::CallsAndCopy, "ping_ms"),
            at.value(Load::CallsAndCopy, "copy_bps") / 1e6
        )
    };
    let ordinary: Vec<String> = RATES.map(|mbit| beside(&At { rows, mbit })).into();
    vec![
        each(rows, "scavenge-voice", |at| {
            let (before, with) = (
                at.value(Load::Calls, "mos"),
                at.value(Load::CallsAndScavenger, "mos"),
            );
            let text = format!("{:.3} MOS lost, {with:.3} instead of {before:.3}", harm(at));
            (harm(at) <= MOS, text)
        })
        .note(format!(
            "beside a copy that does not give way: {}",
            ordinary.join("; ")
        )),
        each(rows, "scavenge-ping", |at| {
            let text = format!(
                "{:+.1} ms to {:.1}",
                added(at),
                at.value(Load::Calls, "ping_ms")
            );
            (added(at) <= PING_MS, text)
        }),
        each(rows, "scavenge-share", |at| {
            let text = format!("{:.0} % of {:.1} Mbit/s", share(at) * 100.0, left(at) / 1e6);
            (share(at) >= SHARE, text)
        }),
        each(rows, "scavenge-alone", |at| {
            let text = format!(
                "{:.0} % of {:.1} Mbit/s",
                alone(at) * 100.0,
                at.bps() * PAYLOAD_SHARE / 1e6
            );
            (alone(at) >= ALONE, text)
        }),
    ]
}

/// The measurements at one rate of the link.
struct At<'a> {
    rows: &'a Rows,
    mbit: f64,
}

impl At<'_> {
    fn bps(&self) -> f64 {
        self.mbit * 1e6
    }

    fn value(&self, load: Load, key: &str) -> f64 {
        let load = load as u8;
        let cell = [("load", f64::from(load)), ("mbit", self.mbit)];
        self.rows.value(&cell, key)
    }
}

/// Returns a verdict over the rates, which holds if it does at each.
fn each(rows: &Rows, claim: &'static str, judge: impl Fn(&At<'_>) -> (bool, String)) -> Verdict {
    let judged = RATES.map(|mbit| {
        let (holds, text) = judge(&At { rows, mbit });
        let mark = if holds { "" } else { "NOT " };
        (holds, format!("{mark}{mbit} Mbit/s: {text}"))
    });
    let holds = judged.iter().all(|(holds, _)| *holds);
    let said = judged.map(|(_, text)| text);
    Verdict::of(claim, holds, said.join("; "))
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

#[cfg(test)]
mod tests {
    use super::*;
    use base::impair::Model;

    /// Returns rows in which the four measures have these values at each rate.
    fn rows(with: [f64; 4]) -> Rows {
        let [mos, ping_ms, copy_share, alone_share] = with;
        let cell = |mbit: f64, load: Load| {
            let place = f64::from(load as u8);
            let mut row = Row::of(&Cell::at(&[("load", place), ("mbit", mbit)]));
            let is_beside = load != Load::Calls;
            row.set("mos", if is_beside { 4.344 - mos } else { 4.344 });
            row.set("ping_ms", if is_beside { 20.0 + ping_ms } else { 20.0 });
            row.set("link_bps", 0.25 * mbit * 1e6);
            let share = match load {
                Load::Scavenger => alone_share,
                _ => 0.75 * copy_share,
            };
            row.set("copy_bps", share * mbit * 1e6 * PAYLOAD_SHARE);
            row
        };
        let rates = RATES.into_iter();
        Rows(
            rates
                .flat_map(|mbit| LOADS.map(|load| cell(mbit, load)))
                .collect(),
        )
    }

    #[test]
    fn each_bar_is_held_against_every_rate() {
        let holds = |with| -> Vec<_> {
            let verdicts = verdicts(&rows(with));
            verdicts.iter().map(|verdict| verdict.holds).collect()
        };
        let [yes, no] = [true, false].map(Some);
        assert_eq!(holds([0.019, 14.9, 0.851, 0.901]), [yes; 4]);
        assert_eq!(holds([0.021, 14.9, 0.851, 0.901]), [no, yes, yes, yes]);
        assert_eq!(holds([0.019, 15.1, 0.851, 0.901]), [yes, no, yes, yes]);
        assert_eq!(holds([0.019, 14.9, 0.849, 0.899]), [yes, yes, no, no]);
        // At one of the rates.
        let mut some = rows([0.019, 14.9, 0.851, 0.901]);
        let slow = some.0.iter_mut().find(|row| {
            row.parameter("mbit") == 2.0
                && row.parameter("load") == Load::CallsAndScavenger as u8 as f64
        });
        slow.unwrap().set("mos", 4.3);
        assert_eq!(verdicts(&some)[0].holds, Some(false));
        some.0.retain(|row| row.parameter("mbit") != 200.0);
        assert_eq!(verdicts(&some)[1].holds, Some(false), "it was not measured");
    }

    #[test]
    fn links_are_such_as_can_be_emulated() {
        for mbit in RATES {
            let model = link(mbit).parse::<Model>();
            assert!(model.is_ok(), "{mbit}: {model:?}");
        }
    }
}
