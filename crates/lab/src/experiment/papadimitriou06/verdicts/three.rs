//! Scenario 3: the effect of voice on FTP. [Papadimitriou06 §5.3]
//!
//! The paper's text does not give the capacity of the link that voice and FTP share, which determines their effect on
//! each other. So each claim is judged at every capacity of a sweep and holds if it does at more than half of them. The
//! figure shows the capacity at which most of its claims hold, where the paper's shape appears, if anywhere; this
//! choice affects the drawing and no verdict.

use super::{CLEARLY, CONTENTION};
use crate::experiment::papadimitriou06::scenario::{HEAVY, LIGHT, Point, Scenario, point};
use crate::experiment::papadimitriou06::setup::{FIGURE_1, SECOND_MBPS, Transport};
use crate::experiment::papadimitriou06::table::Table;
use crate::experiment::{Size, Verdict};
use crate::stats::least;
use Transport::{Real, Udp};

/// The window of an FTP connection: `sim::tcp::Settings::ns2`.
const FTP_WINDOW: u32 = 20;
const FTP: &str = "ftp_goodput_kbps";
const PAPER: [Transport; 4] = Transport::PAPER;
const TCPS: [Transport; 3] = Transport::TCPS;

/// A point of the sweep: the number of FTP flows, and the rate of the second link in Mbit/s.
#[derive(Clone, Copy)]
struct Place {
    ftp: f64,
    mbps: f64,
}

impl Place {
    fn at(self, calls: f64) -> Point {
        point(calls, self.ftp).second(self.mbps)
    }

    fn contention(self) -> [Point; 2] {
        CONTENTION.map(|calls| self.at(calls))
    }
}

/// Judges the claims at each capacity.
fn sweep(table: &Table<'_>, size: Size, ftp: f64) -> [(f64, Vec<Verdict>); SECOND_MBPS.len()] {
    SECOND_MBPS.map(|mbps| (mbps, both(table, size, Place { ftp, mbps })))
}

fn holding(verdicts: &[Verdict]) -> usize {
    verdicts.iter().filter(|v| v.holds == Some(true)).count()
}

/// Returns the capacity at which most claims hold; among equal ones the largest, which is that of the other scenarios.
pub(in crate::experiment::papadimitriou06) fn shape(
    table: &Table<'_>,
    size: Size,
    ftp: f64,
) -> f64 {
    let sweep = sweep(table, size, ftp);
    let best = sweep.iter().max_by_key(|(_, verdicts)| holding(verdicts));
    best.map_or(f64::NAN, |(mbps, _)| *mbps)
}

/// Judges the claims over the sweep.
fn over_all(table: &Table<'_>, size: Size, ftp: f64) -> Vec<Verdict> {
    let sweep = sweep(table, size, ftp);
    let drawn = shape(table, size, ftp);
    let (_, there) = sweep
        .iter()
        .find(|(mbps, _)| *mbps == drawn)
        .expect("it is one of them");
    let whole = match holding(there) == there.len() {
        true => format!("all claims of the figure hold together at {drawn} Mbit/s"),
        false => format!(
            "at no capacity do all claims of the figure hold; at {drawn} Mbit/s, which is drawn first, {} of {} do",
            holding(there),
            there.len()
        ),
    };
    let judged = there.iter().enumerate().map(|(n, verdict)| {
        let holds_at = |v: &&(f64, Vec<Verdict>)| v.1[n].holds == Some(true);
        let at: Vec<String> = sweep
            .iter()
            .filter(holds_at)
            .map(|v| v.0.to_string())
            .collect();
        let listed = match at.is_empty() {
            true => "at none".to_owned(),
            false => format!("at {}", at.join(", ")),
        };
        let text = format!(
            "{listed} of {SECOND_MBPS:?} Mbit/s; at {drawn}: {}",
            verdict.measured
        );
        let note = match verdict.note.is_empty() {
            true => whole.clone(),
            false => format!("{whole}; at {drawn} Mbit/s {}", verdict.note),
        };
        Verdict::of(verdict.claim, 2 * at.len() > SECOND_MBPS.len(), text).note(note)
    });
    judged.collect()
}

/// Judges the claims that both figures have, at one capacity.
fn both(table: &Table<'_>, size: Size, place: Place) -> Vec<Verdict> {
    let goodput = |t: Transport, p: Point| table.mean(t, p, FTP);
    let worst = place
        .contention()
        .iter()
        .all(|p| table.has_least(Udp, &PAPER, *p, FTP));
    let share = |calls: f64| {
        let p = place.at(calls);
        goodput(Udp, p) / goodput(table.most(&TCPS, p, FTP), p)
    };
    let favours = place
        .contention()
        .iter()
        .all(|p| table.has_most(Real, &PAPER, *p, FTP));
    let voice = table.lists(&PAPER, &place.contention(), "goodput_kbps", 0);
    let through = format!(
        "voice can take from FTP no more than what its own bottleneck lets through, {} of {} Mbit/s: at 120 calls that is \
         about as much over every transport; where there is room, who delivers less voice leaves FTP more. Voice, kbit/s: {voice}",
        FIGURE_1.first.0 as f64 / 1e6,
        place.mbps
    );
    let listed = format!(
        "kbit/s: {}",
        table.lists(&PAPER, &place.contention(), FTP, 0)
    );
    vec![
        Verdict::of("udp-negative", worst, listed.clone()).because(through.clone()),
        Verdict::of(
            "udp-contention",
            share(10.0) - share(120.0) >= CLEARLY,
            format!(
                "beside UDP over beside the best TCP: {:.4} at 10 calls, {:.4} at 120",
                share(10.0),
                share(120.0)
            ),
        )
        .because(through.clone()),
        Verdict::of("real-favours", favours, listed).because(through),
        sharp(table, place),
        fair(table, size, place),
    ]
}

fn sharp(table: &Table<'_>, place: Place) -> Verdict {
    let most = place.at(120.0);
    let reduced = |t: Transport| table.mean(t, most, "ftp_cuts_per_mb");
    let holds = TCPS.iter().all(|t| reduced(Udp) > reduced(*t));
    let cuts = table.list(&PAPER, most, "ftp_cuts_per_mb", 2);
    let reductions = format!("window reductions of FTP per megabyte at 120 calls, beside {cuts}");
    let dropped = table.mean(Udp, most, "second_queue_lost");
    Verdict::of("sharp", holds, reductions).because(match dropped > 0.0 {
        true => "FTP fills the queue of R2 itself and is cut for that; what comes through the bottleneck of voice is as much \
                 over every transport"
            .to_owned(),
        false => format!(
            "nothing is dropped there: {} windows of {FTP_WINDOW} segments, ns-2's default, never fill a queue of {} \
             packets, whatever is beside them",
            place.ftp,
            FIGURE_1.with_second_mbps(place.mbps).second.1
        ),
    })
}

fn fair(table: &Table<'_>, size: Size, place: Place) -> Verdict {
    let worst = |t: &Transport| {
        let share = |calls: &f64| {
            let p = place.at(*calls);
            table.mean(*t, p, FTP) / table.mean(table.most(&TCPS, p, FTP), p, FTP)
        };
        let calls = Scenario::Three.calls(size);
        least(calls.iter().map(share))
    };
    let each = TCPS.map(|t| format!("{} {:.3}", t.name(), worst(&t)));
    Verdict::of(
        "tcp-fair",
        TCPS.iter().all(|t| worst(t) >= 0.9),
        format!(
            "FTP's goodput over that beside the best, at worst: {}",
            each.join(", ")
        ),
    )
}

/// Figure 15.
pub(in crate::experiment::papadimitriou06) fn light(table: &Table<'_>, size: Size) -> Vec<Verdict> {
    over_all(table, size, LIGHT)
}

/// Figure 16.
pub(in crate::experiment::papadimitriou06) fn heavy(table: &Table<'_>, size: Size) -> Vec<Verdict> {
    over_all(table, size, HEAVY)
}
