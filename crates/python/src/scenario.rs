//! Scenarios: parsing, simulation, and questions about their paths.

use crate::custom::{Parts, Trouble};
use crate::errors::{explain, failed, misused};
use crate::work::supervise;
use base::Duration;
use lab::scenario::{self, Files, PacketRecord, Texts, record};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tools::explain::{Asked, Class, View};

/// A checked scenario.
#[pyclass(frozen, module = "sinew._sinew")]
pub(crate) struct Scenario(scenario::Scenario);

#[pymethods]
impl Scenario {
    /// Parses and checks a text; `name` is its name in errors. The files that it names are in the same directory, or
    /// given.
    #[staticmethod]
    #[pyo3(signature = (name, text, files))]
    fn parse(name: &str, text: &str, files: Option<Texts>) -> PyResult<Scenario> {
        let parsed = match files {
            Some(files) => scenario::Scenario::parse_with(name, text, &Files::Given(files)),
            None => scenario::Scenario::parse(name, text),
        };
        parsed.map(Scenario).map_err(misused)
    }

    /// Returns the files that the text names, with their texts.
    #[getter]
    fn files(&self) -> Texts {
        self.0.files.clone()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn about(&self) -> &str {
        &self.0.about
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.0.seed
    }

    #[getter]
    fn duration_s(&self) -> f64 {
        self.0.duration.as_secs_f64()
    }

    #[getter]
    fn nodes(&self) -> Vec<String> {
        let nodes = self.0.nodes.iter();
        nodes.map(|node| node.name.clone()).collect()
    }

    /// Returns the two ends of each link.
    #[getter]
    fn links(&self) -> Vec<(String, String)> {
        let name = |node: usize| self.0.nodes[node].name.clone();
        let links = self.0.links.iter();
        links.map(|link| (name(link.a), name(link.b))).collect()
    }

    #[getter]
    fn flows(&self) -> Vec<String> {
        let flows = self.0.flows.iter();
        flows.map(|flow| flow.name.clone()).collect()
    }

    /// Simulates the scenario. Returns the report's JSON, that of links and events, and the packets.
    #[pyo3(signature = (seed, progress, parts))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        seed: Option<u64>,
        progress: Option<&Bound<'_, PyAny>>,
        parts: Parts,
    ) -> PyResult<(String, String, String, u64, Vec<Columns<'py>>)> {
        let (scenario, seed) = (&self.0, seed.unwrap_or(self.0.seed));
        let trouble = Trouble::default();
        let custom = parts.put(py, scenario, &trouble)?;
        let recorded = supervise(
            py,
            progress,
            |py| trouble.end(py),
            |reins| {
                record(scenario, seed, custom, |share| {
                    reins.go_on(share) && !trouble.came()
                })
            },
        )?;
        if let Some(raised) = trouble.take() {
            return Err(raised);
        }
        let recorded = recorded.ok_or_else(|| failed("the simulation was ended"))?;
        let json = |value: serde_json::Result<String>| value.map_err(failed);
        Ok((
            recorded.report.json(),
            json(serde_json::to_string(&recorded.links))?,
            json(serde_json::to_string(&recorded.events))?,
            recorded.events_left_out,
            recorded.packets.iter().map(|of| columns(py, of)).collect(),
        ))
    }

    /// Explains why packets take their path, as JSON.
    fn why(&self, py: Python<'_>, src: &str, dst: &str, asked: Question) -> PyResult<String> {
        let (view, asked) = (self.view(asked.at_s)?, asked.read()?);
        let told = py.detach(|| tools::explain::why(&view, src, dst, &asked));
        serde_json::to_string(&told.map_err(explain)?).map_err(failed)
    }

    /// Returns how paths change, as JSON.
    fn whatif(
        &self,
        py: Python<'_>,
        edits: &str,
        src: Option<&str>,
        dst: Option<&str>,
        asked: Question,
    ) -> PyResult<String> {
        let (view, asked) = (self.view(asked.at_s)?, asked.read()?);
        let told = py.detach(|| tools::explain::what_if(&view, edits, src.zip(dst), &asked));
        serde_json::to_string(&told.map_err(explain)?).map_err(failed)
    }
}

/// The packets of a stream at a receiver: flow, number of the stream, receiver. Then, as native doubles, when each
/// packet was sent in seconds, and its delay in milliseconds, which is NaN if the packet never arrived.
type Columns<'py> = (
    String,
    usize,
    String,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
);

fn columns<'py>(py: Python<'py>, of: &PacketRecord) -> Columns<'py> {
    let bytes = |column: &mut dyn Iterator<Item = f64>| {
        let bytes: Vec<u8> = column.flat_map(f64::to_ne_bytes).collect();
        PyBytes::new(py, &bytes)
    };
    let delays = of.delay_ms.iter().map(|delay| delay.unwrap_or(f64::NAN));
    (
        of.flow.clone(),
        of.stream,
        of.receiver.clone(),
        bytes(&mut of.sent_s.iter().copied()),
        bytes(&mut { delays }),
    )
}

impl Scenario {
    fn view(&self, at_s: f64) -> PyResult<View> {
        let at = span("at_s", at_s)?;
        if at > self.0.duration {
            return Err(misused(format_args!(
                "at_s={at_s}: the scenario is over after {} s",
                self.0.duration.as_secs_f64()
            )));
        }
        View::new(scenario::snapshot_of(&self.0, at)).map_err(explain)
    }
}

/// The options of a question about paths: metric or paths, deadline, runners-up, moment.
#[derive(FromPyObject)]
pub(crate) struct Question {
    #[pyo3(item)]
    class: String,
    #[pyo3(item)]
    deadline_ms: f64,
    #[pyo3(item)]
    runners_up: usize,
    #[pyo3(item)]
    at_s: f64,
}

impl Question {
    pub(crate) fn read(&self) -> PyResult<Asked> {
        let class: Class = self.class.parse().map_err(misused)?;
        Ok(Asked {
            class,
            deadline: span("deadline_ms", self.deadline_ms)
                .map(|_| Duration::from_micros((self.deadline_ms * 1e3) as u64))?,
            runners_up: self.runners_up,
            ..Asked::default()
        })
    }
}

/// Reads a time in seconds from 0 to a day.
pub(crate) fn span(name: &str, value: f64) -> PyResult<Duration> {
    const DAY_MS: f64 = 86_400e3;
    match (0.0..=DAY_MS).contains(&value) {
        true => Ok(Duration::from_micros((value * 1e6) as u64)),
        false => Err(misused(format_args!(
            "{name}={value}: expected a number from 0 to {DAY_MS}"
        ))),
    }
}
