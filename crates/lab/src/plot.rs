//! Small plots as inline SVG: axes, lines, dots, and a legend. They need no script, no font, and no other file.
//!
//! Colours are classes (`s0`, `s1`, …), so that the page's style defines them, also for dark screens.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The drawing's size, in its own units; the page scales it.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 12.0;
/// Room for the title; the legend has rows of its own below it.
const TOP: f64 = 30.0;
const LEGEND_ROW: f64 = 18.0;
const BOTTOM: f64 = 44.0;
/// Margin that keeps marks on the frame, such as a line of zeros, from being cut in half.
const FRAME: f64 = 3.0;
/// Lines of at most this many points have a mark at each: more marks would hide the line.
const MARKED_MAX: usize = 32;
/// No point is placed farther outside than this: renderers compute with 32 bits.
const FAR: f64 = 1e5;

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Points joined by straight lines.
    Line,
    /// Each value holds until the next point.
    Steps,
    /// Points alone.
    Dots,
    /// Pairs of points, each joined by a vertical stroke: the range in which a value may lie.
    Bars,
}

/// One set of points.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: Cow<'static, str>,
    /// The index of one of the page's colours.
    pub(crate) color: u8,
    pub(crate) mark: Mark,
    pub(crate) points: Vec<(f64, f64)>,
}

/// One axis. The frame clips values outside its range.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) label: Cow<'static, str>,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// A plot.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: Cow<'static, str>,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
}

impl Chart {
    /// Returns the plot as an `<svg>` element. Its frame needs an id that is unique within the page.
    pub(crate) fn svg(&self, id: &str) -> String {
        let id: String = id
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">\n",
            self.height(),
            escape(&self.title)
        );
        self.draw_axes(&mut out);
        let _ = writeln!(
            out,
            "<clipPath id=\"frame-{id}\"><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/></clipPath>\n\
             <g clip-path=\"url(#frame-{id})\">",
            LEFT - FRAME,
            self.top() - FRAME,
            WIDTH - LEFT - RIGHT + 2.0 * FRAME,
            HEIGHT - TOP - BOTTOM + 2.0 * FRAME
        );
        for series in &self.series {
            self.draw(series, &mut out);
        }
        out.push_str("</g>\n");
        self.draw_legend(&mut out);
        out.push_str("</svg>\n");
        out
    }

    fn draw_axes(&self, out: &mut String) {
        let (top, height) = (self.top(), self.height());
        let (bottom, right) = (height - BOTTOM, WIDTH - RIGHT);
        for y in ticks(self.y.min, self.y.max, 5) {
            let at = self.at_y(y);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                number(y)
            );
        }
        for x in ticks(self.x.min, self.x.max, 9) {
            let at = self.at_x(x);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{at:.1}\" y1=\"{top}\" x2=\"{at:.1}\" y2=\"{bottom}\"/>\
                 <text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 15.0,
                number(x)
            );
        }
        let middle = (top + bottom) / 2.0;
        let _ = writeln!(
            out,
            "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
             <text class=\"label\" transform=\"translate(13 {middle:.1}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            (LEFT + right) / 2.0,
            height - 8.0,
            escape(&self.x.label),
            escape(&self.y.label)
        );
    }

    fn draw(&self, series: &Series, out: &mut String) {
        let color = series.color;
        let is_known = |&(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
        let place = |&(x, y): &(f64, f64)| (self.at_x(x), self.at_y(y));
        if series.mark == Mark::Bars {
            let pairs = series.points.chunks_exact(2);
            let known = pairs.filter(|pair| pair.iter().all(is_known));
            let bar = |pair: &[(f64, f64)]| {
                let ((x, from), (_, to)) = (place(&pair[0]), place(&pair[1]));
                format!(
                    "M{x:.1} {from:.1}V{to:.1}M{:.1} {from:.1}h6M{:.1} {to:.1}h6",
                    x - 3.0,
                    x - 3.0
                )
            };
            let bars: String = known.map(bar).collect();
            let _ = writeln!(out, "<path class=\"bars s{color}\" d=\"{bars}\"/>");
            return;
        }
        // The dots are one path of strokes without length: round caps make them dots.
        let dots = || -> String {
            let places = series
                .points
                .iter()
                .filter(|point| is_known(point))
                .map(place);
            places.map(|(x, y)| format!("M{x:.1} {y:.1}h0")).collect()
        };
        if series.mark == Mark::Dots {
            let _ = writeln!(out, "<path class=\"dots s{color}\" d=\"{}\"/>", dots());
            return;
        }
        let mut path = String::new();
        let mut is_joined = false;
        for point in &series.points {
            let (x, y) = place(point);
            let _ = match (is_known(point), is_joined, series.mark) {
                // An unknown value interrupts the line: its neighbours are not joined.
                (false, ..) => Ok(()),
                (true, false, _) => write!(path, "M{x:.1} {y:.1}"),
                (true, true, Mark::Steps) => write!(path, "H{x:.1}V{y:.1}"),
                (true, true, _) => write!(path, "L{x:.1} {y:.1}"),
            };
            is_joined = is_known(point);
        }
        let _ = writeln!(out, "<path class=\"line s{color}\" d=\"{path}\"/>");
        if series.mark == Mark::Line && series.points.len() <= MARKED_MAX {
            let _ = writeln!(out, "<path class=\"marks s{color}\" d=\"{}\"/>", dots());
        }
    }

    fn draw_legend(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "<text class=\"title\" x=\"{LEFT}\" y=\"16\">{}</text>",
            escape(&self.title)
        );
        for (row, entries) in self.legend().iter().enumerate() {
            let mut left = LEFT;
            let y = TOP + LEGEND_ROW * row as f64 + 4.0;
            for series in entries {
                // The legend uses the mark of the series, so that a line and dots of one colour differ.
                let (class, mark) = match series.mark {
                    Mark::Dots => ("dots", "M{x} {y}h0m7 0h0m7 0h0"),
                    Mark::Bars => ("bars", "M{x} {y}m7 -6v12"),
                    _ => ("line", "M{x} {y}h14"),
                };
                let mark = mark
                    .replace("{x}", &format!("{left:.1}"))
                    .replace("{y}", &format!("{:.1}", y - 4.0));
                let _ = writeln!(
                    out,
                    "<path class=\"{class} s{}\" d=\"{mark}\"/>\
                     <text class=\"tick\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
                    series.color,
                    left + 20.0,
                    escape(&series.name)
                );
                left += entry_width(series);
            }
        }
    }

    /// Returns the series that have a name, in rows that fit.
    fn legend(&self) -> Vec<Vec<&Series>> {
        let mut rows: Vec<Vec<&Series>> = Vec::new();
        let mut left = WIDTH;
        for series in self.series.iter().filter(|series| !series.name.is_empty()) {
            if left + entry_width(series) > WIDTH - RIGHT {
                rows.push(Vec::new());
                left = LEFT;
            }
            left += entry_width(series);
            if let Some(row) = rows.last_mut() {
                row.push(series);
            }
        }
        rows
    }

    /// Returns where the plot begins.
    fn top(&self) -> f64 {
        TOP + LEGEND_ROW * self.legend().len() as f64
    }

    /// Returns the height: the legend's rows make the drawing higher, not the plot smaller.
    fn height(&self) -> f64 {
        HEIGHT + self.top() - TOP
    }

    fn at_x(&self, x: f64) -> f64 {
        (LEFT + self.x.share(x) * (WIDTH - LEFT - RIGHT)).clamp(-FAR, FAR)
    }

    fn at_y(&self, y: f64) -> f64 {
        (self.height() - BOTTOM - self.y.share(y) * (HEIGHT - TOP - BOTTOM)).clamp(-FAR, FAR)
    }
}

/// Returns the width of a legend entry: some 6.5 units per letter at the legend's size, and the mark.
fn entry_width(series: &Series) -> f64 {
    6.5 * series.name.chars().count() as f64 + 36.0
}

impl Axis {
    fn share(&self, value: f64) -> f64 {
        let span = self.max - self.min;
        if span > 0.0 {
            (value - self.min) / span
        } else {
            0.5
        }
    }
}

/// Returns about `wanted` round numbers from `min` to `max`: multiples of 1, 2 or 5 times a power of ten.
pub(crate) fn ticks(min: f64, max: f64, wanted: usize) -> Vec<f64> {
    let span = max - min;
    // The condition is also false if the span is not a number.
    if !(span > 0.0 && span.is_finite()) {
        return vec![min];
    }
    let rough = span / wanted.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|f| f * power >= rough)
        .unwrap_or(10.0);
    let step = factor * power;
    // A range of 0.3 holds three tenths, although 0.3 / 0.1 is a little less than 3.
    let (first, last) = ((min / step - 1e-9).ceil(), (max / step + 1e-9).floor());
    let mut ticks = Vec::new();
    let mut n = first;
    while n <= last {
        ticks.push(n * step);
        n += 1.0;
    }
    ticks
}

/// Returns a distribution: for each distinct value, rounded up to `step`, the percentage of `total` that does not
/// exceed it. Missing values (lost packets) keep it below 100.
pub(crate) fn distribution(values: &[f64], total: usize, step: f64) -> Vec<(f64, f64)> {
    let mut cells: Vec<u64> = values
        .iter()
        .map(|v| (v / step).ceil().max(0.0) as u64)
        .collect();
    cells.sort_unstable();
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (i, cell) in cells.iter().enumerate() {
        if cells.get(i + 1) != Some(cell) {
            points.push((
                *cell as f64 * step,
                100.0 * (i + 1) as f64 / total.max(1) as f64,
            ));
        }
    }
    points
}

/// Formats a tick's number, without the noise of binary fractions.
fn number(value: f64) -> String {
    let rounded = (value * 1e6).round() / 1e6;
    // Minus zero becomes zero.
    format!("{}", rounded + 0.0)
}

/// Escapes text for HTML and SVG.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests;
