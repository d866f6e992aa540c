//! Scenario 1: voice alone. [Papadimitriou06 §5.1]

use super::{CLEARLY, CLEARLY_RATIO, CONTENTION};
use crate::experiment::papadimitriou06::metrics::THRESHOLD_MS;
use crate::experiment::papadimitriou06::scenario::{Point, Scenario, point};
use crate::experiment::papadimitriou06::setup::{FIGURE_1, SPAN, Transport, VOICE_BPS};
use crate::experiment::papadimitriou06::table::Table;
use crate::experiment::{Size, Verdict};
use Transport::{Real, Udp, Vegas, Westwood};

const PAPER: [Transport; 4] = Transport::PAPER;
const TCPS: [Transport; 3] = Transport::TCPS;

fn contention() -> [Point; 2] {
    CONTENTION.map(|calls| point(calls, 0.0))
}

fn everywhere(size: Size) -> Vec<Point> {
    Scenario::One.points(size)
}

/// Figure 2.
pub(in crate::experiment::papadimitriou06) fn goodput(
    table: &Table<'_>,
    size: Size,
) -> Vec<Verdict> {
    let goodput = |t: Transport, p: Point| table.mean(t, p, "goodput_kbps");
    let all = everywhere(size);
    let best_tcp = |p: Point| goodput(table.most(&TCPS, p, "goodput_kbps"), p);
    let listed = table.lists(&PAPER, &all, "goodput_kbps", 0);
    let over = |p: &Point| goodput(Udp, *p) / best_tcp(*p);
    let slightly = all.iter().all(|p| (1.0..1.15).contains(&over(p)));
    let [eighty, most] = contention();
    let few = point(10.0, 0.0);
    let deficit = |p: Point| 1.0 - goodput(Westwood, p) / best_tcp(p);
    let lowest = contention()
        .iter()
        .all(|p| table.least(&PAPER, *p, "goodput_kbps") == Westwood);
    let little = [few, point(20.0, 0.0)];
    let below = |name: &str| {
        let of = |t| table.over(t, &little, name);
        of(Westwood) < of(Vegas) && of(Westwood) < of(Real)
    };
    let ranked = contention().iter().all(|p| {
        goodput(Real, *p) >= goodput(Vegas, *p) && goodput(Vegas, *p) > goodput(Westwood, *p)
    });
    let cuts = |t: Transport| table.over(t, &little, "cuts_per_1000");
    let sent = |t: Transport| table.mean(t, most, "sent");
    let first = |t: Transport| table.mean(t, most, "first_sent");
    let steady = (sent(Udp) - 1.0).abs() < 0.005 && TCPS.iter().all(|t| first(*t) < 0.98);
    let spread = spread(table, &all);
    vec![
        Verdict::of(
            "setup-voice",
            VOICE_BPS == 64_000,
            "Pareto on/off, shape 1.5, 1.0 s and 1.35 s, 64 kbit/s in talkspurts, 160 bytes",
        )
        .note("64 kbit/s is the rate of a talkspurt, as ns-2's generator means it; the mean is 27 kbit/s"),
        Verdict::of(
            "setup-errors",
            SPAN.as_secs_f64() == 60.0,
            "0.01 in both directions between R3 and the sinks of voice, drop-tail, 60 s",
        ),
        Verdict::of("setup-steady", spread < 0.05, format!("largest difference {:.1} %", 100.0 * spread))
            .note("of the goodput of rounds that differ in the seed alone; Pareto sources of shape 1.5 have no finite variance, and each seed has other speakers"),
        Verdict::of("udp-slightly-higher", slightly, format!("kbit/s: {listed}")),
        Verdict::of(
            "udp-steady",
            steady,
            format!(
                "120 calls: sent per written over UDP {:.3}; first sent by the end: {}",
                sent(Udp),
                table.list(&TCPS, most, "first_sent", 3)
            ),
        ),
        Verdict::of(
            "westwood-deficient",
            lowest && deficit(most) > deficit(few),
            format!(
                "kbit/s at 80: {}; at 120: {}; Westwood's deficit against the best TCP: {:.1} % at 10, {:.1} % at 120",
                table.list(&PAPER, eighty, "goodput_kbps", 0),
                table.list(&PAPER, most, "goodput_kbps", 0),
                100.0 * deficit(few),
                100.0 * deficit(most)
            ),
        ),
        Verdict::of(
            "westwood-wireless",
            below("goodput_kbps") && below("index_300"),
            format!(
                "10 and 20 calls, index: {}; kbit/s: {}",
                table.lists(&TCPS, &little, "index_300", 4),
                table.lists(&TCPS, &little, "goodput_kbps", 1)
            ),
        )
        .note(
            "a call needs a window of two segments on a path of 60 ms without queues: what errors take from a window \
             hardly limits anybody who speaks at 64 kbit/s",
        ),
        Verdict::of("vegas-real-remarkable", ranked, format!("kbit/s: {}", table.lists(&TCPS, &contention(), "goodput_kbps", 0))),
        Verdict::of(
            "real-classifies",
            cuts(Real) * CLEARLY_RATIO < cuts(Transport::Reno),
            format!(
                "window reductions per 1000 packets at 10 and 20 calls: Real {:.1}, Reno {:.1}, Westwood {:.1}, Vegas {:.1}",
                cuts(Real),
                cuts(Transport::Reno),
                cuts(Westwood),
                cuts(Vegas)
            ),
        ),
    ]
}

/// The largest relative difference of goodput between rounds.
fn spread(table: &Table<'_>, points: &[Point]) -> f64 {
    let mut worst = 0.0_f64;
    for point in points {
        for transport in PAPER {
            let values = table.values(transport, *point, "goodput_kbps");
            let most = values.iter().copied().fold(f64::MIN, f64::max);
            let least = values.iter().copied().fold(f64::MAX, f64::min);
            worst = worst.max(most / least - 1.0);
        }
    }
    worst
}

/// Figure 3.
pub(in crate::experiment::papadimitriou06) fn index(table: &Table<'_>, size: Size) -> Vec<Verdict> {
    let index = |t: Transport, p: Point| table.mean(t, p, "index_300");
    let delayed = |t: Transport, p: Point| table.mean(t, p, "delayed_300");
    let at = |holds: &dyn Fn(Point) -> bool| contention().iter().all(|p| holds(*p));
    let best = |p: Point| index(table.most(&TCPS, p, "index_300"), p);
    let listed = table.lists(&PAPER, &contention(), "index_300", 3);
    let hidden = format!(
        "within 150 ms one way: {}",
        table.lists(&PAPER, &contention(), "within_150ms", 3)
    );
    let inadequate = |p: Point| {
        let others = [Vegas, Real];
        others.iter().all(|t| {
            index(*t, p) - index(Westwood, p) >= CLEARLY && delayed(Westwood, p) > delayed(*t, p)
        })
    };
    vec![
        Verdict::of("setup-threshold", THRESHOLD_MS == 300, "300 ms, the speaker's silence taken off").note(format!(
            "with silence in the gaps every talkspurt begins late: UDP's index at 10 calls would be {:.3} instead of {:.3}",
            table.mean(Udp, point(10.0, 0.0), "plain_index_300"),
            index(Udp, point(10.0, 0.0))
        )),
        Verdict::of("udp-unsatisfactory", at(&|p| best(p) - index(Udp, p) >= CLEARLY), listed.clone()).note(hidden.clone()),
        Verdict::of(
            "westwood-inadequate",
            at(&inadequate),
            format!("{listed}; delayed: {}", table.lists(&TCPS, &contention(), "delayed_300", 3)),
        ),
        Verdict::of(
            "real-superior",
            at(&|p| table.most(&PAPER, p, "index_300") == Real),
            format!("at all numbers: {}", table.lists(&PAPER, &everywhere(size), "index_300", 3)),
        )
        .note(hidden),
        Verdict::of(
            "vegas-efficient",
            at(&|p| index(Vegas, p) > index(Westwood, p) && index(Vegas, p) > index(Udp, p)),
            listed,
        ),
    ]
}

/// Figure 4.
pub(in crate::experiment::papadimitriou06) fn fairness(table: &Table<'_>, _: Size) -> Vec<Verdict> {
    let [_, most] = contention();
    let fair = |t: Transport| table.mean(t, most, "fairness");
    let excels = contention()
        .iter()
        .all(|p| table.most(&TCPS, *p, "fairness") == Real);
    let listed = table.lists(&PAPER, &contention(), "fairness", 3);
    let shares = format!(
        "speakers differ, so equal treatment gives no 1 here; of what each asked for: {}",
        table.lists(&PAPER, &contention(), "fairness_of_shares", 3)
    );
    vec![
        Verdict::of("real-fair", excels, listed.clone()).note(shares.clone()),
        Verdict::of("vegas-unfair", fair(Real) - fair(Vegas) >= CLEARLY, listed).note(shares),
    ]
}

/// Figure 5.
pub(in crate::experiment::papadimitriou06) fn delayed(
    table: &Table<'_>,
    size: Size,
) -> Vec<Verdict> {
    let [_, most] = contention();
    let delayed = |calls: f64| table.mean(Udp, point(calls, 0.0), "delayed_300");
    let few = everywhere(size)
        .into_iter()
        .map(|p| p.calls)
        .filter(|calls| *calls <= 60.0);
    let before = few.map(delayed).fold(0.0, f64::max);
    let significant = CONTENTION
        .iter()
        .all(|calls| delayed(*calls) >= 0.05 && delayed(*calls) > before);
    let udp = |name: &str| table.mean(Udp, most, name);
    let propagation_ms = FIGURE_1.propagation().as_secs_f64() * 1e3;
    let (mean, p5, p50, p95) = (
        udp("delay_mean_ms"),
        udp("delay_p5_ms"),
        udp("delay_p50_ms"),
        udp("delay_p95_ms"),
    );
    let gaps = "equal overload thins a constant stream out but makes no gaps of 300 ms in it: by gaps UDP is hardly \
                ever late, whatever the queue holds; one way it is";
    vec![
        Verdict::of(
            "udp-delayed",
            significant,
            format!(
                "UDP, delayed: {}",
                table.lists(&[Udp], &everywhere(size), "delayed_300", 4)
            ),
        )
        .note(format!(
            "{gaps}: within 150 ms {}",
            table.lists(&[Udp], &contention(), "within_150ms", 3)
        )),
        Verdict::of(
            "queueing",
            mean - propagation_ms > mean / 2.0,
            format!("{mean:.0} ms in the mean, {propagation_ms:.0} ms of them propagation"),
        ),
        Verdict::of(
            "overflowed",
            udp("first_queue_lost") > 0.0 && p50 > 150.0,
            format!(
                "{:.0} packets dropped at R1, median delay {p50:.0} ms",
                udp("first_queue_lost")
            ),
        ),
        Verdict::of(
            "udp-variable",
            p95 > 150.0 && p95 - p5 > 75.0,
            format!("5th percentile {p5:.0} ms, 95th {p95:.0} ms"),
        ),
    ]
}

/// Figure 6.
pub(in crate::experiment::papadimitriou06) fn lost(table: &Table<'_>, size: Size) -> Vec<Verdict> {
    let lost = |t: Transport, p: Point| table.mean(t, p, "lost");
    let high = contention()
        .iter()
        .all(|p| table.most(&TCPS, *p, "lost") == Westwood);
    let modest = |p: &Point| lost(Udp, *p) <= lost(table.most(&TCPS, *p, "lost"), *p) + 0.02;
    vec![
        Verdict::of("westwood-loss", high, table.lists(&TCPS, &contention(), "lost", 4)).note(format!(
            "of them in queues, not by errors: {}",
            table.lists(&TCPS, &contention(), "queue_lost", 4)
        )),
        Verdict::of(
            "udp-loss",
            everywhere(size).iter().all(modest),
            table.lists(&PAPER, &everywhere(size), "lost", 3),
        )
        .note("what 120 calls offer exceeds the bottleneck; who does not back off loses the difference in the network"),
    ]
}
