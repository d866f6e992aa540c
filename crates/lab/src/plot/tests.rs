use super::*;
use proptest::prelude::*;

#[test]
fn ticks_are_round_and_inside() {
    assert_eq!(
        ticks(0.0, 36.0, 9),
        [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0]
    );
    assert_eq!(ticks(-0.5, 4.5, 5), [0.0, 1.0, 2.0, 3.0, 4.0]);
    let written = |min, max| {
        ticks(min, max, 5)
            .into_iter()
            .map(number)
            .collect::<Vec<_>>()
    };
    assert_eq!(written(0.0, 0.3), ["0", "0.1", "0.2", "0.3"]);
    assert_eq!(ticks(1.0, 1.0, 5), [1.0]);
    assert_eq!(ticks(0.0, f64::INFINITY, 5), [0.0]);
}

proptest! {
    #[test]
    fn ticks_are_about_as_many_as_wanted(min in -1e6..1e6, span in 1e-3..1e6, wanted in 2usize..20) {
        let ticks = ticks(min, min + span, wanted);
        // Steps are 1, 2 and 5: they are up to 2.5 times as wide as requested, and never narrower.
        prop_assert!(ticks.len() <= wanted + 1);
        prop_assert!(ticks.len() + 1 >= (wanted as f64 / 2.5) as usize);
        prop_assert!(ticks.iter().all(|t| *t >= min - 1e-6 && *t <= min + span + 1e-6));
        prop_assert!(ticks.is_sorted());
    }

    #[test]
    fn the_distribution_counts_what_does_not_exceed(values in prop::collection::vec(0.0..50.0, 0..200), lost in 0usize..20) {
        let total = values.len() + lost;
        let step = 0.5;
        let points = distribution(&values, total, step);
        for &(x, pct) in &points {
            let naive = values.iter().filter(|v| **v <= x + 1e-9).count();
            prop_assert!((pct - 100.0 * naive as f64 / total as f64).abs() < 1e-9);
        }
        prop_assert!(points.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
        let last = points.last().map_or(0.0, |p| p.1);
        prop_assert!((last - 100.0 * values.len() as f64 / total.max(1) as f64).abs() < 1e-9);
    }
}

#[test]
fn a_legend_stands_below_the_title_in_rows_that_fit() {
    let axis = Axis {
        label: "x".into(),
        min: 0.0,
        max: 1.0,
    };
    let series = |name: String| Series {
        name: name.into(),
        color: 0,
        mark: Mark::Line,
        points: Vec::new(),
    };
    let mut chart = Chart {
        title: "a title that is as long as the drawing is wide, or even a little longer".into(),
        x: axis.clone(),
        y: axis,
        series: vec![series("one".into()), series("two".into())],
    };
    assert_eq!(chart.legend().len(), 1);
    chart
        .series
        .extend((0..9).map(|i| series(format!("a longer name, {i}"))));
    let rows = chart.legend();
    assert_eq!(rows.iter().map(Vec::len).sum::<usize>(), 11);
    for row in &rows {
        let width: f64 = row.iter().map(|series| entry_width(series)).sum();
        assert!(LEFT + width <= WIDTH - RIGHT);
    }
    assert_eq!(chart.top(), TOP + LEGEND_ROW * rows.len() as f64);
    chart.series.clear();
    assert_eq!((chart.top(), chart.height()), (TOP, HEIGHT));
}

#[test]
fn a_chart_places_its_points() {
    let axis = |label: &'static str, max| Axis {
        label: label.into(),
        min: 0.0,
        max,
    };
    let series = |mark, points| Series {
        name: "a<b".into(),
        color: 1,
        mark,
        points,
    };
    let chart = Chart {
        title: "loss & delay".into(),
        x: axis("s", 10.0),
        y: axis("ms", 100.0),
        series: vec![
            series(Mark::Line, vec![(0.0, 0.0), (10.0, 100.0)]),
            series(Mark::Steps, vec![(0.0, 0.0), (10.0, 100.0)]),
            series(Mark::Dots, vec![(10.0, 0.0), (f64::NAN, 1.0)]),
        ],
    };
    let svg = chart.svg("a/b");
    // The legend's row is 18 high.
    assert!(svg.contains("viewBox=\"0 0 720 278\""), "{svg}");
    assert!(svg.contains("d=\"M56.0 234.0L708.0 48.0\""), "{svg}");
    assert!(svg.contains("d=\"M56.0 234.0H708.0V48.0\""));
    assert!(svg.contains("d=\"M708.0 234.0h0\""));
    assert!(svg.contains("a&lt;b") && svg.contains("loss &amp; delay"));
    assert!(!svg.contains("NaN"));
    assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
}

#[test]
fn a_line_leaves_the_frame_and_is_interrupted_where_nothing_is_known() {
    let axis = |max| Axis {
        label: "x".into(),
        min: 0.0,
        max,
    };
    let chart = |mark, points: &[(f64, f64)]| {
        let series = Series {
            name: "".into(),
            color: 0,
            mark,
            points: points.to_vec(),
        };
        Chart {
            title: "t".into(),
            x: axis(2.0),
            y: axis(100.0),
            series: vec![series],
        }
    };
    // Without its peak the line would be flat at zero.
    let peak = chart(Mark::Line, &[(0.0, 0.0), (1.0, 200.0), (2.0, 0.0)]).svg("own/peak");
    assert!(
        peak.contains("d=\"M56.0 216.0L382.0 -156.0L708.0 216.0\""),
        "{peak}"
    );
    assert!(peak.contains("<clipPath id=\"frame-own-peak\">"));
    let drawn = peak.find("d=\"M56.0 216.0L").unwrap();
    assert!(peak.find("clip-path=\"url(#frame-own-peak)\"").unwrap() < drawn);
    let gap = [
        (0.0, 50.0),
        (0.5, 50.0),
        (1.0, f64::NAN),
        (1.5, 50.0),
        (2.0, 50.0),
    ];
    let gap = chart(Mark::Line, &gap).svg("gap");
    assert!(
        gap.contains("d=\"M56.0 123.0L219.0 123.0M545.0 123.0L708.0 123.0\""),
        "{gap}"
    );
    assert!(!gap.contains("NaN"));
    let bars = chart(
        Mark::Bars,
        &[(1.0, 0.0), (1.0, 100.0), (2.0, f64::NAN), (2.0, 1.0)],
    );
    let bars = bars.svg("bars");
    assert!(
        bars.contains("d=\"M382.0 216.0V30.0M379.0 216.0h6M379.0 30.0h6\""),
        "{bars}"
    );
}
