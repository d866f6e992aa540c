//! Figures of an own experiment: measures over a coordinate or another measure, with a line for each and for each value
//! of a third.

use super::super::{Row, Rows};
use super::spread_of;
use crate::plot::{Axis, Chart, Mark, Series};
use std::collections::BTreeMap;

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) title: Option<String>,
    pub(super) x: String,
    pub(super) y: Vec<String>,
    /// The coordinate that has a line for each of its values.
    pub(super) by: Option<String>,
    pub(super) x_label: String,
    pub(super) y_label: String,
}

/// The name of a line, its points, and the ends of their errors in pairs.
type Line = (String, Vec<(f64, f64)>, Vec<(f64, f64)>);

impl Figure {
    /// Creates a figure of all measures over a coordinate.
    pub(super) fn of_all(x: &str, measures: &[&str]) -> Figure {
        Figure {
            title: None,
            x: x.to_owned(),
            y: measures.iter().map(|name| (*name).to_owned()).collect(),
            by: None,
            x_label: x.to_owned(),
            y_label: measures.join(", "),
        }
    }

    /// Returns the drawing; `title` is for a figure that has none.
    pub(super) fn chart(&self, title: &str, rows: &Rows) -> Chart {
        let mut lines: BTreeMap<(usize, usize), Line> = BTreeMap::new();
        let mut groups: Vec<String> = Vec::new();
        for row in &rows.0 {
            let group = self.by.as_ref().map(|by| format!("{by}={}", word(row, by)));
            let group = group.unwrap_or_default();
            let place = match groups.iter().position(|known| *known == group) {
                Some(place) => place,
                None => {
                    groups.push(group.clone());
                    groups.len() - 1
                }
            };
            for (n, y) in self.y.iter().enumerate() {
                let name = match (self.y.len(), group.is_empty()) {
                    (1, false) => group.clone(),
                    (_, true) => y.clone(),
                    (_, false) => format!("{y} {group}"),
                };
                let line = lines
                    .entry((place, n))
                    .or_insert_with(|| (name, Vec::new(), Vec::new()));
                let point = (number(row, &self.x), number(row, y));
                line.1.push(point);
                if let Some(error) = row.known(&spread_of(y)) {
                    let ends = [point.1 - error, point.1 + error];
                    line.2.extend(ends.map(|y| (point.0, y)));
                }
            }
        }
        let points = || {
            let drawn = lines
                .values()
                .flat_map(|(_, points, errors)| points.iter().chain(errors));
            drawn.filter(|(x, y)| x.is_finite() && y.is_finite())
        };
        let axis = |label: &str, values: &dyn Fn(&(f64, f64)) -> f64| {
            let least = points().map(values).fold(f64::INFINITY, f64::min);
            let most = points().map(values).fold(f64::NEG_INFINITY, f64::max);
            // The axis begins at zero, unless that would leave the drawing half empty.
            let min = if least >= 0.0 && least < most / 2.0 {
                0.0
            } else {
                least
            };
            Axis {
                label: label.to_owned().into(),
                min: if min.is_finite() { min } else { 0.0 },
                max: if most.is_finite() && most > min {
                    most
                } else {
                    min.max(0.0) + 1.0
                },
            }
        };
        Chart {
            title: self
                .title
                .clone()
                .unwrap_or_else(|| title.to_owned())
                .into(),
            x: axis(&self.x_label, &|point| point.0),
            y: axis(&self.y_label, &|point| point.1),
            series: lines
                .into_values()
                .enumerate()
                .flat_map(|(color, (name, mut points, errors))| {
                    points.sort_by(|a, b| a.0.total_cmp(&b.0));
                    let series = |name: String, mark, points| Series {
                        name: name.into(),
                        color: color as u8,
                        mark,
                        points,
                    };
                    [
                        series(name, Mark::Line, points),
                        series(String::new(), Mark::Bars, errors),
                    ]
                })
                .filter(|series| series.mark != Mark::Bars || !series.points.is_empty())
                .collect(),
        }
    }
}

fn number(row: &Row, name: &str) -> f64 {
    row.known(name).unwrap_or_else(|| row.parameter(name))
}

/// Returns the value of a coordinate, for a reader.
fn word(row: &Row, name: &str) -> String {
    let word = row.words.get(name).cloned();
    word.unwrap_or_else(|| row.parameter(name).to_string())
}
