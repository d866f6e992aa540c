//! Scenario 1: voice alone. [Papadimitriou06 §5.1]

use super::{CLEARLY, CLEARLY_RATIO, CONTENTION};
use crate::experiment::papadimitriou06::metrics::THRESHOLD_MS;
use crate::experiment::papadimitriou06::scenario::{Point, Scenario, point};
use crate::experiment::papadimitriou06::setup::{FIGURE_1, SPAN, Transport, VOICE_BPS};
use crate::experiment::papadimitriou06::table::Table;
use crate::experiment::{Size, Verdict};
use crate::stats;
use Transport::{Real, Udp, Vegas, Westwood};
use sim::traffic::{Pattern, Spread};

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
        .all(|p| table.has_least(Westwood, &PAPER, *p, "goodput_kbps"));
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
    let (spread, place, asked) = spread(table, &all);
    let speech_kbps = FIGURE_1.speech_kbps(160.0);
    let needed = FIGURE_1.segments_per_round();
    let delivered = |t: Transport, p: &Point| goodput(t, *p) / table.mean(t, *p, "written_kbps");
    let repaired = all.iter().map(|p| {
        let best = table.most(&TCPS, *p, "goodput_kbps");
        format!(
            "{} calls {:.3}, {:.3}",
            p.calls,
            delivered(Udp, p),
            delivered(best, p)
        )
    });
    let repaired = repaired.collect::<Vec<_>>().join("; ");
    let apart = |p: Point| 100.0 * (goodput(Real, p) / goodput(Vegas, p) - 1.0);
    let of_tcps = contention().map(|p| table.least(&TCPS, p, "goodput_kbps").name());
    vec![
        setup_voice()
        .note("64 kbit/s is the rate of a talkspurt, as ns-2's generator means it; the mean is 27 kbit/s"),
        setup_errors(size),
        Verdict::of("steady", spread < 0.05, format!("largest difference {:.1} %", 100.0 * spread))
            .note("of the goodput of rounds that differ in the seed alone")
        .because(format!(
            "there, at {} calls, what the speakers wrote differs by {:.1} %: Pareto sources of shape 1.5 have no finite \
             variance, and each seed has other speakers",
            place.calls,
            100.0 * asked
        )),
        Verdict::of("udp-slightly-higher", slightly, format!("kbit/s: {listed}")).because(format!(
            "of what was written UDP and the best TCP deliver: {repaired}. A TCP repairs what errors take, and its window \
             is not short while the bottleneck has room: a talkspurt needs {needed:.1} segments per round trip; so UDP can \
             be ahead only where the bottleneck is full, which then carries {speech_kbps:.0} kbit/s of speech for everybody"
        )),
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
        )
        .because(format!(
            "the lowest of the TCPs is {} at 80 calls and {} at 120; UDP is below them where the bottleneck is not full, \
             by the errors that it does not repair",
            of_tcps[0], of_tcps[1]
        )),
        Verdict::of(
            "westwood-wireless",
            below("goodput_kbps") && below("index_300"),
            format!(
                "10 and 20 calls, index: {}; kbit/s: {}",
                table.lists(&TCPS, &little, "index_300", 4),
                table.lists(&TCPS, &little, "goodput_kbps", 1)
            ),
        )
        .because(format!(
            "a call needs a window of {needed:.1} segments in a talkspurt, on a path of {:.0} ms without queues: after a cut \
             the window is still as large, so errors of 1 % limit nobody who speaks at 64 kbit/s, whatever the window's rules",
            2e3 * FIGURE_1.propagation().as_secs_f64()
        )),
        Verdict::of(
            "vegas-real-remarkable",
            ranked,
            format!("kbit/s: {}", table.lists(&TCPS, &contention(), "goodput_kbps", 0)),
        )
        .because(format!(
            "Real differs from Vegas by {:+.1} % at 80 calls, where nobody lacks a window, and {:+.1} % at 120, where both \
             fill the bottleneck of {speech_kbps:.0} kbit/s of speech",
            apart(eighty),
            apart(most)
        )),
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
        )
        .note("reductions after losses; those by γ, before anything is lost, are not among them")
        .because(
            "the rate that the receiver measures is that of a speaker who pauses: it is seldom near its highest, so losses \
             are seldom taken for errors",
        ),
    ]
}

fn setup_voice() -> Verdict {
    let bytes = point(10.0, 0.0).bytes;
    let Pattern::OnOff {
        interval,
        on,
        off,
        spread: Spread::Pareto { shape },
    } = Pattern::pareto(VOICE_BPS, bytes as usize)
    else {
        return Verdict::setup(
            "setup-voice",
            &[("shape of Pareto on/off sources", f64::NAN, 1.5)],
        );
    };
    let parameters = [
        ("shape of Pareto on/off sources", shape, 1.5),
        ("s on", on.as_secs_f64(), 1.0),
        ("s off", off.as_secs_f64(), 1.35),
        (
            "kbit/s in talkspurts",
            8e-3 * bytes / interval.as_secs_f64(),
            64.0,
        ),
        ("bytes", bytes, 160.0),
    ];
    Verdict::setup("setup-voice", &parameters)
}

fn setup_errors(size: Size) -> Verdict {
    let errors_pct: Vec<f64> = everywhere(size).iter().map(|point| point.errors).collect();
    // The common value of all points, if they are equal.
    let errors = match stats::most(&errors_pct) == stats::least(&errors_pct) {
        true => stats::most(&errors_pct) / 100.0,
        false => f64::NAN,
    };
    let parameters = [
        ("of the packets in each direction", errors, 0.01),
        ("s", SPAN.as_secs_f64(), 60.0),
    ];
    Verdict::setup("setup-errors", &parameters)
        .note("between R3 and the sinks of voice; queues are drop-tail")
}

/// Returns the largest relative difference of goodput between rounds, its point, and the difference of the written
/// amounts there.
fn spread(table: &Table<'_>, points: &[Point]) -> (f64, Point, f64) {
    let between = |transport, point, name| {
        let values = table.values(transport, point, name);
        stats::most(&values) / stats::least(&values) - 1.0
    };
    let mut worst = (0.0, point(0.0, 0.0), 0.0);
    for point in points {
        for transport in PAPER {
            let spread = between(transport, *point, "goodput_kbps");
            // A value that was not measured counts as the worst.
            if spread.is_nan() || spread > worst.0 {
                worst = (spread, *point, between(transport, *point, "written_kbps"));
            }
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
    let [eighty, most] = contention();
    let missed = |t: Transport, p: Point| {
        format!(
            "{} {:.3} not there by the end or lost, {:.3} delayed",
            t.name(),
            table.mean(t, p, "undelivered"),
            delayed(t, p)
        )
    };
    let bunches = format!(
        "at 120 calls everybody's windows fill the bottleneck and what it cannot carry is missing over all; the rest is gaps \
         of a round trip between windows that arrive in a bunch: a full queue alone holds {:.0} ms, above the threshold, and \
         Vegas's shorter one less. {}",
        FIGURE_1.first_queue_ms(160.0),
        [Vegas, Westwood, Real, Udp]
            .map(|t| missed(t, most))
            .join("; ")
    );
    vec![
        Verdict::setup("setup-threshold", &[("ms", THRESHOLD_MS as f64, 300.0)]).note(format!(
            "the speaker's silence is taken off: with silence in the gaps every talkspurt begins late: UDP's index at 10 calls would be {:.3} instead of {:.3}",
            table.mean(Udp, point(10.0, 0.0), "plain_index_300"),
            index(Udp, point(10.0, 0.0))
        )),
        Verdict::of("udp-unsatisfactory", at(&|p| best(p) - index(Udp, p) >= CLEARLY), listed.clone())
            .note(hidden.clone())
            .because(format!(
                "80 calls write {:.0} kbit/s and the bottleneck carries {:.0}, so what UDP misses there is the errors and some \
                 drops ({}), and the best TCP's lead is these alone",
                table.mean(Udp, eighty, "written_kbps"),
                FIGURE_1.speech_kbps(160.0),
                missed(Udp, eighty)
            )),
        Verdict::of(
            "westwood-inadequate",
            at(&inadequate),
            format!("{listed}; delayed: {}", table.lists(&TCPS, &contention(), "delayed_300", 3)),
        )
        .because(format!("at 80 calls nobody lacks a window; {bunches}")),
        Verdict::of(
            "real-superior",
            at(&|p| table.has_most(Real, &PAPER, p, "index_300")),
            format!("at all numbers: {}", table.lists(&PAPER, &everywhere(size), "index_300", 3)),
        )
        .note(hidden)
        .because(bunches),
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
        .all(|p| table.has_most(Real, &TCPS, *p, "fairness"));
    let listed = table.lists(&PAPER, &contention(), "fairness", 3);
    let shares = format!(
        "speakers differ, so equal treatment gives no 1 here; of what each asked for: {}",
        table.lists(&PAPER, &contention(), "fairness_of_shares", 3)
    );
    vec![
        Verdict::of("real-fair", excels, listed.clone()).note(shares.clone()).because(
            "where nobody lacks a window everybody gets what he asks for, over every TCP, and the index is that of the \
             speakers: the TCPs are apart only where the bottleneck is full",
        ),
        Verdict::of("vegas-unfair", fair(Real) - fair(Vegas) >= CLEARLY, listed).note(shares),
    ]
}

/// Figure 5.
pub(in crate::experiment::papadimitriou06) fn delayed(
    table: &Table<'_>,
    size: Size,
) -> Vec<Verdict> {
    let [eighty, most] = contention();
    let delayed = |calls: f64| table.mean(Udp, point(calls, 0.0), "delayed_300");
    let few = everywhere(size)
        .into_iter()
        .map(|p| p.calls)
        .filter(|calls| *calls <= 60.0);
    let before = stats::most(few.map(delayed));
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
    let gaps = format!(
        "steady overload thins a constant stream out but makes no gaps of 300 ms in it: those take 15 packets lost in a row, \
         and at 120 calls {:.2} of the packets are lost. By gaps UDP is hardly ever late, whatever the queue holds; one way \
         it is",
        udp("lost")
    );
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
        )
        .because(format!(
            "a queue that remains full, as the paper says, holds every packet for as long; delays vary where it fills and \
             empties: at 80 calls from {:.0} to {:.0} ms",
            table.mean(Udp, eighty, "delay_p5_ms"),
            table.mean(Udp, eighty, "delay_p95_ms")
        )),
    ]
}

/// Figure 6.
pub(in crate::experiment::papadimitriou06) fn lost(table: &Table<'_>, size: Size) -> Vec<Verdict> {
    let lost = |t: Transport, p: Point| table.mean(t, p, "lost");
    let high = contention()
        .iter()
        .all(|p| table.has_most(Westwood, &TCPS, *p, "lost"));
    let [_, most] = contention();
    let written = table.mean(Udp, most, "written_kbps");
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
        .because(format!(
            "120 calls write {written:.0} kbit/s, and the bottleneck carries {:.0}, {:.2} less: who does not back off loses the \
             difference in the network; of what was written over a TCP as much has not arrived by the end ({}), and it was \
             never sent",
            FIGURE_1.speech_kbps(160.0),
            1.0 - FIGURE_1.speech_kbps(160.0) / written,
            table.list(&TCPS, most, "undelivered", 2)
        )),
    ]
}
