//! The measurements of a cell: numbers and series, and tables of them.
//!
//! A row has finite numbers only. A value that was not measured is left out: readers get NaN, for which no comparison
//! holds, and JSON, which has no NaN, restores exactly what was written.

use super::Cell;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The measurements of one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// The cell's key.
    pub(crate) cell: String,
    /// The cell's numeric coordinates.
    pub(crate) parameters: BTreeMap<String, f64>,
    /// Its coordinates that are words.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) words: BTreeMap<String, String>,
    /// Single numbers, by name.
    values: BTreeMap<String, f64>,
    /// Series of points, by name: distributions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    series: BTreeMap<String, Vec<(f64, f64)>>,
}

/// The rows of all cells, in the order of the grid.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rows(pub(crate) Vec<Row>);

impl Row {
    /// Creates an empty row for a cell.
    pub(crate) fn of(cell: &Cell) -> Row {
        let (parameters, words) = (cell.parameters.iter(), cell.words.iter());
        Row {
            cell: cell.key.clone(),
            parameters: parameters.map(|(k, v)| ((*k).to_owned(), *v)).collect(),
            words: words.map(|(k, v)| ((*k).to_owned(), v.clone())).collect(),
            ..Row::default()
        }
    }

    /// Adds a number; removes it if the value is not finite, because nothing was measured.
    pub(crate) fn set(&mut self, name: impl Into<String>, value: f64) {
        let name = name.into();
        match value.is_finite() {
            true => self.values.insert(name, value),
            false => self.values.remove(&name),
        };
    }

    /// Adds a series of the finite points.
    pub(crate) fn draw(
        &mut self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) {
        let points = points.into_iter();
        let points = points.filter(|(x, y)| x.is_finite() && y.is_finite());
        self.series.insert(name.into(), points.collect());
    }

    /// Returns a number by its name, if it was measured.
    pub(crate) fn known(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }

    /// Returns all numbers with their names.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&str, f64)> {
        self.values
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
    }

    /// Returns all series with their names.
    pub(crate) fn all_series(&self) -> impl Iterator<Item = (&str, &[(f64, f64)])> {
        let all = self.series.iter();
        all.map(|(name, points)| (name.as_str(), points.as_slice()))
    }

    /// Returns a number by its name; NaN, for which no comparison holds, if it is missing.
    pub(crate) fn value(&self, name: &str) -> f64 {
        self.known(name).unwrap_or(f64::NAN)
    }

    /// Returns a coordinate.
    pub(crate) fn parameter(&self, name: &str) -> f64 {
        self.parameters.get(name).copied().unwrap_or(f64::NAN)
    }

    /// Returns a series; it is empty if it is missing.
    pub(crate) fn points(&self, name: &str) -> &[(f64, f64)] {
        self.series.get(name).map_or(&[], Vec::as_slice)
    }
}

impl Rows {
    /// Returns all rows with these coordinates.
    pub(crate) fn with<'a>(
        &'a self,
        parameters: &[(&'static str, f64)],
    ) -> impl Iterator<Item = &'a Row> + use<'a> {
        let parameters = parameters.to_vec();
        let fits = move |row: &&Row| {
            let mut wanted = parameters.iter();
            wanted.all(|(name, value)| row.parameter(name) == *value)
        };
        self.0.iter().filter(fits)
    }

    /// Returns a number of the first row with these coordinates; NaN if there is none.
    pub(crate) fn value(&self, parameters: &[(&'static str, f64)], name: &str) -> f64 {
        let row = self.with(parameters).next();
        row.map_or(f64::NAN, |row| row.value(name))
    }

    /// Returns a number over a coordinate, of the rows with some other coordinates: a line of a chart.
    pub(crate) fn line(
        &self,
        parameters: &[(&'static str, f64)],
        over: &str,
        name: &str,
    ) -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> = self
            .with(parameters)
            .map(|row| (row.parameter(over), row.value(name)))
            .filter(|(x, y)| x.is_finite() && y.is_finite())
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }

    /// Returns the range of the same number by its standard error, for [`Mark::Bars`]; rows without an error are left
    /// out.
    ///
    /// [`Mark::Bars`]: crate::plot::Mark::Bars
    pub(crate) fn bars(
        &self,
        parameters: &[(&'static str, f64)],
        over: &str,
        name: &str,
        error: &str,
    ) -> Vec<(f64, f64)> {
        let bar = |row: &Row| {
            let (x, y) = (row.parameter(over), row.value(name));
            row.known(error)
                .map(|error| [(x, y - error), (x, y + error)])
        };
        let bars = self.with(parameters).filter_map(bar);
        bars.flatten().collect()
    }

    /// Returns the rows as comma-separated values: a column for each coordinate and number. Series follow in a separate
    /// block.
    pub(crate) fn csv(&self) -> String {
        fn names<'r, V: 'r>(
            rows: &'r [Row],
            of: fn(&'r Row) -> &'r BTreeMap<String, V>,
        ) -> BTreeSet<&'r String> {
            rows.iter().flat_map(|row| of(row).keys()).collect()
        }
        let rows = &self.0;
        let (parameters, values) = (names(rows, |r| &r.parameters), names(rows, |r| &r.values));
        let words = names(rows, |r| &r.words);
        let head = parameters.iter().chain(&words).chain(&values);
        let head = head.map(|name| quoted(name));
        let mut out = head.collect::<Vec<_>>().join(",") + "\n";
        for row in rows {
            let number = |value: Option<&f64>| value.map_or_else(String::new, f64::to_string);
            let numbers = parameters
                .iter()
                .map(|name| number(row.parameters.get(*name)));
            let texts = words.iter().map(|name| row.words.get(*name));
            let texts = texts.map(|word| word.map_or_else(String::new, |word| quoted(word)));
            let measured = values.iter().map(|name| number(row.values.get(*name)));
            let cells: Vec<String> = numbers.chain(texts).chain(measured).collect();
            out += &(cells.join(",") + "\n");
        }
        out
    }

    /// Returns the series as comma-separated values, a line for each point; `None` if there are none.
    pub(crate) fn series_csv(&self) -> Option<String> {
        let mut out = String::from("cell,series,x,y\n");
        let empty = out.len();
        for row in &self.0 {
            for (name, points) in &row.series {
                for (x, y) in points {
                    out += &format!("{},{},{x},{y}\n", quoted(&row.cell), quoted(name));
                }
            }
        }
        (out.len() > empty).then_some(out)
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
