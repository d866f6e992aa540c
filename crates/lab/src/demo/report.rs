//! The report: one HTML file that contains everything, including the plots.

use super::judge::Judged;
use super::layout::Way;
use super::result::DemoResult;
use crate::plot::{Axis, Chart, Mark, Series, distribution, escape};
use std::fmt::Write as _;
use tools::pace::count_calls;
use voice::frames::FRAME_US;
use voice::score::Scores;

/// Index of the colour of the codec alone, in the page's style.
const CEILING: u8 = 2;
/// Resolution of delays: tenths of a millisecond.
const DELAY_STEP_MS: f64 = 0.1;
/// Most packets that are drawn individually on each path: the slowest ones.
const DOTS_MAX: usize = 4_000;
const STYLE: &str = include_str!("report.css");

/// The contents of the report in addition to the table.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    /// The calls of each path, in the order of the result.
    pub(super) judged: &'a [Judged],
    /// Scores of the codec alone, one per segment.
    pub(super) ceiling: &'a Scores,
    /// How late packets were sent: 99th percentile in microseconds.
    pub(super) behind_p99_us: u64,
    /// Number of nodes that were killed externally and restarted.
    pub(super) restarts: u32,
}

/// Returns the page.
pub(super) fn page(result: &DemoResult, evidence: &Evidence<'_>) -> String {
    let scenario = &result.scenario;
    let mut out = String::new();
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Sinew demo</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>{}</h1>\n\
         <p>The same calls, directly and over the overlay: {} of {} s, {}, in packets of {} ms; one link loses {} % of its packets, after a lost \
         one the next with {} %.</p>\n",
        escape(&result.headline()),
        count_calls(scenario.calls),
        scenario.seconds,
        escape(&scenario.codec),
        scenario.packet_ms,
        scenario.loss_pct,
        scenario.burst_pct,
    );
    out.push_str(&topology(result));
    out.push_str(&table(result));
    if let Some(line) = result.codec_line() {
        let _ = writeln!(out, "<p>{}</p>", escape(&line));
    }
    out.push_str(&players(result));
    for (n, chart) in charts(result, evidence).iter().enumerate() {
        let _ = writeln!(out, "<figure>\n{}</figure>", chart.svg(&n.to_string()));
    }
    out.push_str(&method(result, evidence));
    out.push_str("</body>\n</html>\n");
    out
}

/// Returns players for the first call.
fn players(result: &DemoResult) -> String {
    let mut out = String::from("<h2>Listen to the first call</h2>\n<div class=\"players\">\n");
    let heard = result
        .ways
        .iter()
        .map(|(way, _)| (way.key, format!("what was heard {}", way.phrase)));
    for (file, what) in std::iter::once(("reference", "what was said".into())).chain(heard) {
        let _ = writeln!(
            out,
            "<p><a href=\"{file}.wav\">{what}</a><br>\
             <audio controls preload=\"none\" src=\"{file}.wav\"></audio></p>"
        );
    }
    out + "</div>\n"
}

fn table(result: &DemoResult) -> String {
    let mut out = String::from("<div class=\"scroll\">\n<table>\n");
    let rows = result.rows();
    let columns = rows.first().map_or(0, Vec::len);
    for (i, row) in rows.iter().enumerate() {
        let tag = if i == 0 { "th" } else { "td" };
        out.push_str("<tr>");
        // A row without values in the last columns gets empty cells.
        for column in 0..columns {
            let cell = row.get(column).map_or("", String::as_str);
            let _ = write!(out, "<{tag}>{}</{tag}>", escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n</div>\n");
    out
}

/// Draws the chain above and the direct path below.
fn topology(result: &DemoResult) -> String {
    let scenario = &result.scenario;
    let nodes: Vec<&str> = scenario.chain.split('-').collect();
    let at = |i: usize| 60.0 + 600.0 * i as f64 / (nodes.len() - 1).max(1) as f64;
    let mut out = String::from(
        "<figure>\n<svg viewBox=\"0 0 720 150\" role=\"img\" aria-label=\"the two paths\">\n",
    );
    for (i, pair) in nodes.windows(2).enumerate() {
        let lossy = pair.join("-") == scenario.lossy_link;
        let middle = f64::midpoint(at(i), at(i + 1));
        let _ = writeln!(
            out,
            "<path class=\"line s1{}\" d=\"M{:.0} 50H{:.0}\"/>\
             <text class=\"tick\" x=\"{middle:.0}\" y=\"38\" text-anchor=\"middle\">{} ms</text>",
            if lossy { " lossy" } else { "" },
            at(i) + 16.0,
            at(i + 1) - 16.0,
            scenario.hop_delay_ms,
        );
        if lossy {
            let _ = writeln!(
                out,
                "<text class=\"tick\" x=\"{middle:.0}\" y=\"70\" text-anchor=\"middle\">{} % loss</text>",
                scenario.loss_pct
            );
        }
    }
    for (i, name) in nodes.iter().enumerate() {
        let x = at(i);
        let _ = writeln!(
            out,
            "<circle class=\"node\" cx=\"{x:.0}\" cy=\"50\" r=\"16\"/>\
             <text class=\"name\" x=\"{x:.0}\" y=\"55\" text-anchor=\"middle\">{}</text>",
            escape(name)
        );
    }
    let overlays = result.ways.len() - 1;
    if overlays > 1 {
        let _ = writeln!(
            out,
            "<text class=\"tick\" x=\"360\" y=\"14\" text-anchor=\"middle\">{overlays} overlays like \
             this one: with requests only, and protected</text>"
        );
    }
    let _ = writeln!(
        out,
        "<path class=\"line s0 lossy\" d=\"M60 70V115H660V70\"/>\
         <text class=\"tick\" x=\"360\" y=\"108\" text-anchor=\"middle\">direct UDP: {} ms, {} % loss</text>\
         <text class=\"tick\" x=\"360\" y=\"138\" text-anchor=\"middle\">every packet is sent on \
         all paths at the same moment</text>\n</svg>\n</figure>",
        scenario.direct_delay_ms, scenario.loss_pct
    );
    out
}

/// The calls of one path, and how they are drawn.
type Drawn<'a> = (&'static Way, &'a Judged);

fn charts(result: &DemoResult, evidence: &Evidence<'_>) -> Vec<Chart> {
    let seconds = f64::from(result.scenario.seconds);
    let ways = result.ways.iter().map(|(way, _)| *way);
    let drawn: Vec<Drawn<'_>> = ways.zip(evidence.judged).collect();
    vec![
        loss_chart(&drawn, seconds),
        delay_chart(&drawn, seconds, result.scenario.deadline_ms),
        distribution_chart(&drawn, result.scenario.deadline_ms),
        score_chart(&drawn, evidence.ceiling),
    ]
}

fn series(way: &Way, mark: Mark, points: Vec<(f64, f64)>) -> Series {
    Series {
        name: way.head.into(),
        color: way.color,
        mark,
        points,
    }
}

fn loss_chart(drawn: &[Drawn<'_>], seconds: f64) -> Chart {
    let series: Vec<Series> = drawn
        .iter()
        .map(|(way, judged)| series(way, Mark::Steps, missed_by_second(judged)))
        .collect();
    let highest = highest(&series);
    Chart {
        title: "Lost or late, over time".into(),
        x: Axis {
            label: "time in the calls, s".into(),
            min: 0.0,
            max: seconds,
        },
        y: Axis {
            label: "missed, %".into(),
            min: 0.0,
            max: (1.1 * highest).max(1.0),
        },
        series,
    }
}

fn delay_chart(drawn: &[Drawn<'_>], seconds: f64, deadline_ms: f64) -> Chart {
    // The path with the fewest dots, the direct one, is drawn on top of the others.
    let series: Vec<Series> = drawn
        .iter()
        .rev()
        .map(|(way, judged)| series(way, Mark::Dots, slow_packets(judged)))
        .collect();
    let highest = highest(&series).max(deadline_ms);
    Chart {
        title: "Delay over time: slow packets, and one of the others each second".into(),
        x: Axis {
            label: "time in the calls, s".into(),
            min: 0.0,
            max: seconds,
        },
        y: Axis {
            label: "one-way delay, ms".into(),
            min: 0.0,
            max: 1.05 * highest,
        },
        series,
    }
}

fn distribution_chart(drawn: &[Drawn<'_>], deadline_ms: f64) -> Chart {
    let of = |judged: &Judged| {
        let values: Vec<f64> = delays_ms(judged).map(|(_, ms)| ms).collect();
        let sent = judged.calls.iter().map(Vec::len).sum();
        distribution(&values, sent, DELAY_STEP_MS)
    };
    let curves: Vec<_> = drawn
        .iter()
        .map(|(way, judged)| (*way, of(judged)))
        .collect();
    let end = |points: &[(f64, f64)]| points.last().copied().unwrap_or_default();
    let ends = || curves.iter().map(|(_, points)| end(points));
    let right = ends().map(|(ms, _)| ms).fold(deadline_ms, f64::max) * 1.05;
    // The ends of the curves differ most: show them, and the same range again below.
    let lowest = ends().map(|(_, share)| share).fold(100.0, f64::min);
    let bottom = (lowest - (100.0 - lowest) - 1.0).floor().max(0.0);
    let curve = |(way, mut points): (&Way, Vec<(f64, f64)>)| {
        let (_, top) = end(&points);
        // The curve starts at the bottom, and is level to the right edge.
        if let Some(first) = points.iter().position(|p| p.1 >= bottom) {
            let at = points[first].0;
            points.drain(..first);
            points.insert(0, (at, bottom));
        }
        points.push((right, top));
        series(way, Mark::Steps, points)
    };
    Chart {
        title: "Arrived within a delay".into(),
        x: Axis {
            label: "one-way delay, ms".into(),
            min: 0.0,
            max: right,
        },
        y: Axis {
            label: "of all sent, %".into(),
            min: bottom,
            max: 100.0,
        },
        series: curves.into_iter().map(curve).collect(),
    }
}

fn score_chart(drawn: &[Drawn<'_>], ceiling: &Scores) -> Chart {
    let per_call = ceiling.0.len().max(1);
    let of = |judged: &Judged| -> Vec<(f64, f64)> {
        let all = judged.evaluations.iter().flat_map(|e| &e.scores.0);
        all.enumerate()
            .map(|(i, score)| (i as f64 + 1.0, f64::from(score.0)))
            .collect()
    };
    let scored: Vec<Series> = drawn
        .iter()
        .map(|(way, judged)| series(way, Mark::Dots, of(judged)))
        .collect();
    let segments = scored.iter().map(|s| s.points.len()).fold(1, usize::max);
    let points = scored.iter().flat_map(|s| &s.points);
    let lowest = points.map(|p| p.1).fold(2.0, f64::min);
    let ceiling = (0..segments).filter_map(|i| {
        let score = ceiling.0.get(i % per_call)?;
        Some((i as f64 + 1.0, f64::from(score.0)))
    });
    let codec = Series {
        name: "codec alone".into(),
        color: CEILING,
        mark: Mark::Line,
        points: ceiling.collect(),
    };
    Chart {
        title: "PESQ by segment, call after call".into(),
        x: Axis {
            label: "segment of 12 s".into(),
            min: 0.0,
            max: segments as f64 + 1.0,
        },
        y: Axis {
            label: "raw P.862".into(),
            min: lowest.floor(),
            max: 4.6,
        },
        series: std::iter::once(codec).chain(scored).collect(),
    }
}

/// Returns the percentage of the packets of all calls that were lost or late, second by second.
fn missed_by_second(judged: &Judged) -> Vec<(f64, f64)> {
    let deadline_us = judged.deadline.as_micros();
    let mut seconds: Vec<(u32, u32)> = Vec::new();
    for call in &judged.calls {
        for (index, delay) in call.iter().enumerate() {
            let second = (index as u64 * FRAME_US / 1_000_000) as usize;
            if seconds.len() <= second {
                seconds.resize(second + 1, (0, 0));
            }
            let missed = delay.is_none_or(|us| us > deadline_us);
            seconds[second].0 += u32::from(missed);
            seconds[second].1 += 1;
        }
    }
    let share = |(missed, all): (u32, u32)| 100.0 * f64::from(missed) / f64::from(all.max(1));
    let mut points: Vec<(f64, f64)> = seconds
        .iter()
        .enumerate()
        .map(|(s, counts)| (s as f64, share(*counts)))
        .collect();
    // The last step needs a width too.
    points.extend(points.last().map(|&(second, share)| (second + 1.0, share)));
    points
}

/// Returns, for every packet that arrived, the time in the call in seconds and the delay in milliseconds.
fn delays_ms(judged: &Judged) -> impl Iterator<Item = (f64, f64)> + '_ {
    judged.calls.iter().flat_map(|call| {
        let packets = call.iter().enumerate();
        packets.filter_map(|(index, delay)| {
            let seconds = (index as u64 * FRAME_US) as f64 / 1e6;
            delay.map(|us| (seconds, us as f64 / 1e3))
        })
    })
}

/// Returns one packet per call and second, and the slowest of all packets that took 2 ms more than the median.
fn slow_packets(judged: &Judged) -> Vec<(f64, f64)> {
    let mut sorted: Vec<f64> = delays_ms(judged).map(|(_, ms)| ms).collect();
    sorted.sort_by(f64::total_cmp);
    let Some(&median) = sorted.get(sorted.len() / 2) else {
        return Vec::new();
    };
    let (mut slow, mut points): (Vec<_>, Vec<_>) =
        delays_ms(judged).partition(|&(_, ms)| ms > median + 2.0);
    points.retain(|&(seconds, _)| seconds.fract() == 0.0);
    slow.sort_by(|a, b| b.1.total_cmp(&a.1));
    slow.truncate(DOTS_MAX);
    points.extend(slow);
    points
}

fn highest(series: &[Series]) -> f64 {
    series
        .iter()
        .flat_map(|s| &s.points)
        .map(|p| p.1)
        .fold(0.0, f64::max)
}

fn method(result: &DemoResult, evidence: &Evidence<'_>) -> String {
    let scenario = &result.scenario;
    let mut out = format!(
        "<h2>How it was measured</h2>\n<ul>\n\
         <li>{} nodes ran as processes of their own on this machine, with certificates, sealed \
         datagrams and all; each link was delayed, and {} impaired in both directions, inside the \
         nodes. The direct path is real UDP through an emulator of the same model, with the same \
         loss, that delays {} ms.</li>\n\
         <li>Each call sends a packet of 160 bytes of speech, behind 12 bytes of RTP header, every \
         20 ms; the calls' phases are spread evenly. One process sends and receives, so one clock \
         times both ends. 99 % of the packets were sent at most {:.2} ms after their moment.</li>\n\
         <li>A packet is played {} ms after it was sent; what is not there by then is concealed \
         (ITU-T G.711 Appendix I). R and MOS follow ITU-T G.107 for the delay from mouth to ear.</li>\n\
         <li>PESQ (ITU-T P.862) compares each 12 s of what was heard with what was said ({}); p5 is \
         the 5th percentile over the segments of all calls. MOS-LQO is the same by P.862.1.</li>\n\
         <li>Bytes on the wire: for the overlay all sealed datagrams that the nodes sent to each \
         other, coded repair, repetitions and control included, divided by the number of hops; for the direct \
         path the UDP payloads.</li>\n",
        scenario.nodes as usize * (result.ways.len() - 1),
        escape(&scenario.lossy_link),
        scenario.direct_delay_ms,
        evidence.behind_p99_us as f64 / 1e3,
        scenario.deadline_ms,
        escape(&scenario.speech),
    );
    if evidence.restarts > 0 {
        let _ = writeln!(
            out,
            "<li>{} times a node was killed from outside and started again; its bytes until then \
             are not counted.</li>",
            evidence.restarts
        );
    }
    out.push_str("</ul>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::judge::judge;
    use crate::demo::result::tests::{example, example_long};
    use tools::pace::DEADLINE;
    use voice::call::Original;
    use voice::g711::Law;

    fn judged(original: &Original, call: Vec<Option<u64>>) -> Judged {
        judge(original, (vec![call], &[]), DEADLINE, |_| true)
            .unwrap()
            .unwrap()
    }

    #[test]
    fn the_page_is_whole_and_loads_nothing() {
        let original = Original::new(&voice::sample::speech()[..16_000], Law::Mu).unwrap();
        let mut lossy = vec![Some(50_000); 100];
        lossy[50..55].fill(None);
        let late: Vec<_> = (0..100)
            .map(|i| Some(if i == 70 { 101_000 } else { 50_000 }))
            .collect();
        let judged = [judged(&original, lossy), judged(&original, late)];
        let mut result = example();
        result.scenario.speech = "<my \"file\">.wav".into();
        let evidence = Evidence {
            judged: &judged,
            ceiling: &original.ceiling(),
            behind_p99_us: 250,
            restarts: 1,
        };
        let page = page(&result, &evidence);
        assert_eq!(page.matches("<svg").count(), 5);
        for row in page.lines().filter(|line| line.starts_with("<tr><td>")) {
            assert_eq!(row.matches("<td>").count(), 4, "{row}");
        }
        for tag in ["svg", "figure", "table", "ul", "style", "body", "html"] {
            let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
            assert_eq!(
                page.matches(&open).count(),
                page.matches(&close).count(),
                "{tag}"
            );
        }
        for outside in ["http:", "https:", "src=\"/", "@import", "<script", "<link"] {
            assert!(!page.contains(outside), "{outside}");
        }
        // Drawings refer only to elements within the page.
        assert_eq!(page.matches("url(").count(), page.matches("url(#").count());
        // The page loads nothing except the recordings in its folder.
        for recording in ["reference.wav", "direct.wav", "overlay.wav"] {
            let player = format!("<audio controls preload=\"none\" src=\"{recording}\">");
            assert!(page.contains(&player), "{player}");
        }
        assert_eq!(page.matches("src=").count(), 3);
        assert!(page.contains(&format!("<h1>{}</h1>", result.headline())));
        assert!(page.contains("&lt;my &quot;file&quot;&gt;.wav"));
        assert!(page.contains("at most 0.25 ms after") && page.contains("killed from outside"));
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }

    #[test]
    fn a_third_way_is_drawn_and_heard() {
        let original = Original::new(&voice::sample::speech()[..16_000], Law::Mu).unwrap();
        let whole = || judged(&original, vec![Some(60_000); 100]);
        let evidence = Evidence {
            judged: &[whole(), whole(), whole()],
            ceiling: &original.ceiling(),
            behind_p99_us: 0,
            restarts: 0,
        };
        let page = page(&example_long(), &evidence);
        // There are plots of loss over time and of delays, each with its entry in the legend.
        assert_eq!(page.matches("class=\"line s3\"").count(), 4);
        assert_eq!(page.matches("src=\"requests.wav\"").count(), 1);
        assert!(page.contains("PESQ of the codec alone"));
    }

    #[test]
    fn missed_packets_are_counted_by_the_second() {
        let original = Original::new(&voice::sample::speech()[..16_000], Law::Mu).unwrap();
        let mut call = vec![Some(50_000); 100];
        call[49] = None;
        call[50] = Some(100_001);
        call[51] = Some(100_000);
        let judged = judged(&original, call);
        assert_eq!(
            missed_by_second(&judged),
            [(0.0, 2.0), (1.0, 2.0), (2.0, 2.0)]
        );
        let slow = slow_packets(&judged);
        assert_eq!(slow, [(0.0, 50.0), (1.0, 100.001), (1.02, 100.0)]);
    }

    #[test]
    fn an_empty_path_makes_no_strange_plots() {
        let original = Original::new(&voice::sample::speech()[..16_000], Law::Mu).unwrap();
        let nothing = || judged(&original, vec![None; 100]);
        let evidence = Evidence {
            judged: &[nothing(), nothing(), nothing()],
            ceiling: &original.ceiling(),
            behind_p99_us: 0,
            restarts: 0,
        };
        for result in [example(), example_long()] {
            let page = page(&result, &evidence);
            assert!(!page.contains("NaN") && !page.contains("inf"));
        }
    }
}
