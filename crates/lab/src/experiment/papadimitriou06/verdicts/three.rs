//! Scenario 3: what voice does to FTP. [Papadimitriou06 §5.3]

use super::{CLEARLY, CONTENTION};
use crate::experiment::papadimitriou06::scenario::{HEAVY, LIGHT, Point, Scenario, point};
use crate::experiment::papadimitriou06::setup::{FIGURE_1, Transport};
use crate::experiment::papadimitriou06::table::Table;
use crate::experiment::{Size, Verdict};
use Transport::{Real, Udp};

/// The window of an FTP connection: `sim::tcp::Settings::ns2`.
const FTP_WINDOW: u32 = 20;
const FTP: &str = "ftp_goodput_kbps";
const PAPER: [Transport; 4] = Transport::PAPER;
const TCPS: [Transport; 3] = Transport::TCPS;

fn contention(ftp: f64) -> [Point; 2] {
    CONTENTION.map(|calls| point(calls, ftp))
}

/// The claims that both figures have.
fn both(table: &Table<'_>, size: Size, ftp: f64) -> Vec<Verdict> {
    let goodput = |t: Transport, p: Point| table.mean(t, p, FTP);
    let worst = contention(ftp)
        .iter()
        .all(|p| table.least(&PAPER, *p, FTP) == Udp);
    let share = |calls: f64| {
        let p = point(calls, ftp);
        goodput(Udp, p) / goodput(table.most(&TCPS, p, FTP), p)
    };
    let favours = contention(ftp)
        .iter()
        .all(|p| table.most(&PAPER, *p, FTP) == Real);
    let mbps = |(rate_bps, _): (u64, usize)| rate_bps as f64 / 1e6;
    let voice = table.lists(&PAPER, &contention(ftp), "goodput_kbps", 0);
    let through = format!(
        "voice can take from FTP no more than what its own bottleneck lets through, {} of {} Mbit/s: at 120 calls that is \
         about as much over every transport; where there is room, who delivers less voice leaves FTP more, and nobody \
         delivers less than Vegas and Real, whose windows FTP's queue keeps small. Voice, kbit/s: {voice}",
        mbps(FIGURE_1.first),
        mbps(FIGURE_1.second)
    );
    let listed = format!("kbit/s: {}", table.lists(&PAPER, &contention(ftp), FTP, 0));
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
        sharp(table, ftp),
        fair(table, size, ftp),
    ]
}

fn sharp(table: &Table<'_>, ftp: f64) -> Verdict {
    let most = point(120.0, ftp);
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
            "nothing is dropped there: {ftp} windows of {FTP_WINDOW} segments, ns-2's default, never fill a queue of {} \
             packets, whatever is beside them",
            FIGURE_1.second.1
        ),
    })
}

fn fair(table: &Table<'_>, size: Size, ftp: f64) -> Verdict {
    let worst = |t: &Transport| {
        let share = |calls: &f64| {
            let p = point(*calls, ftp);
            table.mean(*t, p, FTP) / table.mean(table.most(&TCPS, p, FTP), p, FTP)
        };
        let calls = Scenario::Three.calls(size);
        calls.iter().map(share).fold(f64::MAX, f64::min)
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
    both(table, size, LIGHT)
}

/// Figure 16.
pub(in crate::experiment::papadimitriou06) fn heavy(table: &Table<'_>, size: Size) -> Vec<Verdict> {
    both(table, size, HEAVY)
}
