//! The partially reliable class compared with Real and UDP, over many seeds. [Papadimitriou06 §6]

use crate::experiment::papadimitriou06::figures::chart;
use crate::experiment::papadimitriou06::scenario::{LIGHT, Point, Scenario, point};
use crate::experiment::papadimitriou06::setup::Transport;
use crate::experiment::papadimitriou06::table::Table;
use crate::experiment::{Size, Verdict};
use crate::plot::Chart;
use crate::stats;
use Transport::{Partial, Real, Udp};

const INDEX: &str = "index_300";
const WITHIN: &str = "within_150ms";
const FTP: &str = "ftp_goodput_kbps";
const COMPARED: [Transport; 3] = [Real, Udp, Partial];
/// How far its index may be below the others'.
const MARGIN: f64 = 0.01;
/// The least share of FTP's goodput in competition with Real that it must leave.
const FTP_SHARE: f64 = 0.9;

/// Returns the point at which it is farthest behind the better of the two others, and by how much.
fn farthest(table: &Table<'_>, points: &[Point]) -> (Point, f64) {
    let behind = |p: &Point| {
        let of = |t| table.mean(t, *p, INDEX);
        stats::most([of(Real), of(Udp)]) - of(Partial)
    };
    let worst = points.iter().max_by(|a, b| behind(a).total_cmp(&behind(b)));
    let worst = worst.expect("a scenario has points");
    (*worst, behind(worst))
}

fn told(table: &Table<'_>, points: &[Point], name: &str, digits: usize) -> String {
    let each = points.iter().map(|p| {
        let list = table.list(&COMPARED, *p, name, digits);
        format!("{} calls, {} %: {list}", p.calls, p.errors)
    });
    each.collect::<Vec<_>>().join("; ")
}

fn timely(table: &Table<'_>, claim: &'static str, points: &[Point]) -> Verdict {
    let (at, behind) = farthest(table, points);
    let error = table.error(Partial, at, INDEX);
    Verdict::of(
        claim,
        behind <= MARGIN,
        format!(
            "farthest behind the better of both at {} calls, {} % errors: by {behind:.4} (standard error {error:.4}); {}",
            at.calls,
            at.errors,
            told(table, points, INDEX, 3)
        ),
    )
}

/// Returns all verdicts.
pub(in crate::experiment::papadimitriou06) fn all(table: &Table<'_>, size: Size) -> Vec<Verdict> {
    let (one, four) = (Scenario::One.points(size), Scenario::Four.points(size));
    let ratio = |p: &Point| table.mean(Partial, *p, FTP) / table.mean(Real, *p, FTP);
    let least = stats::least(four.iter().map(ratio));
    let few = |points: &[Point]| {
        let ends = points.iter().filter(|p| p.calls >= 80.0);
        ends.copied().collect::<Vec<_>>()
    };
    vec![
        timely(table, "scenario-1", &one),
        timely(table, "scenario-4", &four),
        Verdict::of(
            "ftp",
            least >= FTP_SHARE,
            format!(
                "at least {least:.3} of FTP's goodput beside Real; kbit/s: {}",
                told(table, &four, FTP, 0)
            ),
        ),
        Verdict::by_construction(
            "on-time",
            format!(
                "scenario 1: {}; scenario 4: {}",
                told(table, &few(&one), WITHIN, 3),
                told(table, &four, WITHIN, 3)
            ),
        ),
    ]
}

/// Returns the charts in addition to the first scenario's index.
pub(in crate::experiment::papadimitriou06) fn charts(table: &Table<'_>, size: Size) -> Vec<Chart> {
    let over_errors = |calls: f64, name: &'static str| {
        let line = |t: &Transport| {
            let errors = Scenario::Four.errors(size).iter();
            let at = |e: &f64| (*e, table.mean(*t, point(calls, LIGHT).errors(*e), name));
            (t.name().to_owned(), errors.map(at).collect())
        };
        COMPARED.iter().map(line).collect::<Vec<_>>()
    };
    let mut charts = Vec::new();
    for (calls, index, within, ftp) in [
        (
            80.0,
            "Index, 80 calls",
            "In time, 80 calls",
            "FTP beside 80 calls",
        ),
        (
            120.0,
            "Index, 120 calls",
            "In time, 120 calls",
            "FTP beside 120 calls",
        ),
    ] {
        for (title, name, label) in [
            (index, INDEX, "real-time performance index"),
            (within, WITHIN, "share within 150 ms one way"),
            (ftp, FTP, "goodput of FTP, kbit/s"),
        ] {
            charts.push(chart(
                title,
                "packet errors, %",
                label,
                over_errors(calls, name),
            ));
        }
    }
    charts
}
