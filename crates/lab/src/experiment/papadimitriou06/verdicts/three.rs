//! Scenario 3: what voice does to FTP. [Papadimitriou06 §5.3]

use super::CONTENTION;
use crate::experiment::papadimitriou06::scenario::{HEAVY, LIGHT, Point, Scenario, point};
use crate::experiment::papadimitriou06::setup::Transport;
use crate::experiment::papadimitriou06::table::Table;
use crate::experiment::{Size, Verdict};
use Transport::{Real, Udp};

const FTP: &str = "ftp_goodput_kbps";
const PAPER: [Transport; 4] = Transport::PAPER;
const TCPS: [Transport; 3] = Transport::TCPS;

fn contention(ftp: f64) -> [Point; 2] {
    CONTENTION.map(|calls| point(calls, ftp))
}

/// The claims that both figures have.
fn both(table: &Table<'_>, ftp: f64) -> Vec<Verdict> {
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
    let listed = format!("kbit/s: {}", table.lists(&PAPER, &contention(ftp), FTP, 0));
    vec![
        Verdict::of("udp-negative", worst, listed.clone()),
        Verdict::of(
            "udp-contention",
            share(120.0) < share(10.0),
            format!(
                "beside UDP over beside the best TCP: {:.3} at 10 calls, {:.3} at 120",
                share(10.0),
                share(120.0)
            ),
        ),
        Verdict::of("real-favours", favours, listed),
    ]
}

/// Figure 15.
pub(in crate::experiment::papadimitriou06) fn light(table: &Table<'_>, size: Size) -> Vec<Verdict> {
    let most = point(120.0, LIGHT);
    let mut verdicts = both(table, LIGHT);
    let sharp = table.most(&PAPER, most, "ftp_cuts_per_mb") == Udp;
    let cuts = table.list(&PAPER, most, "ftp_cuts_per_mb", 2);
    let reductions = format!("window reductions of FTP per megabyte at 120 calls, beside {cuts}");
    verdicts.push(Verdict::of("sharp", sharp, reductions));
    let calls = Scenario::Three.calls(size);
    let worst = |t: &Transport| {
        let share = |calls: &f64| {
            let p = point(*calls, LIGHT);
            table.mean(*t, p, FTP) / table.mean(table.most(&TCPS, p, FTP), p, FTP)
        };
        calls.iter().map(share).fold(f64::MAX, f64::min)
    };
    let each = TCPS.iter().map(|t| format!("{} {:.3}", t.name(), worst(t)));
    verdicts.push(Verdict::of(
        "tcp-fair",
        TCPS.iter().all(|t| worst(t) >= 0.9),
        format!(
            "FTP's goodput over that beside the best, at worst: {}",
            each.collect::<Vec<_>>().join(", ")
        ),
    ));
    verdicts
}

/// Figure 16.
pub(in crate::experiment::papadimitriou06) fn heavy(table: &Table<'_>, _: Size) -> Vec<Verdict> {
    both(table, HEAVY)
}
