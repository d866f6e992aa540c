//! What a cell measured: numbers and series, and tables of them.

use super::Cell;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The measurements of one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// The cell's key.
    pub(crate) cell: String,
    /// The cell's coordinates.
    pub(crate) parameters: BTreeMap<String, f64>,
    /// Single numbers, by name.
    pub(crate) values: BTreeMap<String, f64>,
    /// Series of points, by name: distributions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) series: BTreeMap<String, Vec<(f64, f64)>>,
}

/// The rows of all cells, in the order of the grid.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rows(pub(crate) Vec<Row>);

impl Row {
    /// An empty row for a cell.
    pub(crate) fn of(cell: &Cell) -> Row {
        let parameters = cell.parameters.iter();
        Row {
            cell: cell.key.clone(),
            parameters: parameters.map(|(k, v)| ((*k).to_owned(), *v)).collect(),
            ..Row::default()
        }
    }

    /// With one more number.
    pub(crate) fn set(&mut self, name: impl Into<String>, value: f64) {
        self.values.insert(name.into(), value);
    }

    /// A number by its name; NaN, which no comparison holds for, if it is not there.
    pub(crate) fn value(&self, name: &str) -> f64 {
        self.values.get(name).copied().unwrap_or(f64::NAN)
    }

    /// A coordinate.
    pub(crate) fn parameter(&self, name: &str) -> f64 {
        self.parameters.get(name).copied().unwrap_or(f64::NAN)
    }

    /// A series; empty if it is not there.
    pub(crate) fn points(&self, name: &str) -> &[(f64, f64)] {
        self.series.get(name).map_or(&[], Vec::as_slice)
    }
}

impl Rows {
    /// All rows with these coordinates.
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

    /// A number of the first row with these coordinates; NaN if there is none.
    pub(crate) fn value(&self, parameters: &[(&'static str, f64)], name: &str) -> f64 {
        let row = self.with(parameters).next();
        row.map_or(f64::NAN, |row| row.value(name))
    }

    /// A number over a coordinate, of the rows with some other coordinates: a line of a chart.
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

    /// The rows as comma-separated values: a column for each coordinate and number. Series follow in
    /// a block of their own.
    pub(crate) fn csv(&self) -> String {
        let names = |of: fn(&Row) -> &BTreeMap<String, f64>| -> BTreeSet<&String> {
            self.0.iter().flat_map(|row| of(row).keys()).collect()
        };
        let (parameters, values) = (names(|r| &r.parameters), names(|r| &r.values));
        let head = parameters.iter().chain(&values).map(|name| quoted(name));
        let mut out = head.collect::<Vec<_>>().join(",") + "\n";
        for row in &self.0 {
            let cells = parameters.iter().map(|name| row.parameters.get(*name));
            let cells = cells.chain(values.iter().map(|name| row.values.get(*name)));
            let cells = cells.map(|value| value.map_or_else(String::new, f64::to_string));
            out += &(cells.collect::<Vec<_>>().join(",") + "\n");
        }
        out
    }

    /// The series as comma-separated values, a line for each point; nothing if there are none.
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
