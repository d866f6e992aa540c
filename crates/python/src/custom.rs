//! Python functions in a simulation: the packets of a flow, the losses of a link, and measurements meanwhile.
//!
//! ```text
//!   engines' thread ── Packets, Rule, Look ──▶ attached to Python ──▶ the function
//!                                                  │ raised: kept in Trouble, the simulation ends
//! ```
//! Only these calls enter Python from the thread of the engines, which wait meanwhile.

use crate::errors::{failed, misused};
use ::lab::scenario::{Custom, Look, LossRule, Moment, PacketSource, Scenario, Sending};
use base::Duration;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The parts of a run that Python decides. The package checks the values.
#[derive(FromPyObject)]
pub(crate) struct Parts {
    /// The packets of a flow: a function of the stream's number, which returns an iterator over nanoseconds and bytes.
    #[pyo3(item)]
    traffic: Vec<(String, Py<PyAny>)>,
    /// The losses of the direction between two nodes: a function of seconds and bytes.
    #[pyo3(item)]
    losses: Vec<(String, String, Py<PyAny>)>,
    /// The interval of the measurements in nanoseconds, and a function of the moment's JSON.
    #[pyo3(item)]
    measure: Option<(u64, Py<PyAny>)>,
    /// Whether the result of each packet is kept.
    #[pyo3(item)]
    packets: bool,
}

/// The first exception that a function has raised, and whether the run must end for another reason.
#[derive(Clone, Default)]
pub(crate) struct Trouble(Arc<Kept>);

#[derive(Default)]
struct Kept {
    raised: Mutex<Option<PyErr>>,
    /// No function is called any more.
    is_over: AtomicBool,
    /// The thread that calls the functions, as Python names it; zero before the first call.
    thread: AtomicU64,
}

impl Trouble {
    /// Calls a function and returns its result; `None` once a function has raised.
    fn ask<T>(&self, function: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
        if self.0.is_over.load(Ordering::Relaxed) {
            return None;
        }
        let asked = Python::attach(|py| {
            if self.0.thread.load(Ordering::Relaxed) == 0 {
                let get_ident = py.import("threading")?.getattr("get_ident")?;
                let thread = get_ident.call0()?.extract()?;
                self.0.thread.store(thread, Ordering::Relaxed);
            }
            function(py)
        });
        match asked {
            Ok(given) => Some(given),
            Err(raised) => {
                self.kept().get_or_insert(raised);
                self.0.is_over.store(true, Ordering::Relaxed);
                None
            }
        }
    }

    /// Ends the run: no further function is called, and a function that computes is interrupted. A function that waits
    /// for the system is not interrupted.
    pub(crate) fn end(&self, py: Python<'_>) {
        if self.0.is_over.swap(true, Ordering::Relaxed) {
            return;
        }
        let thread = self.0.thread.load(Ordering::Relaxed);
        let interrupt = |py: Python<'_>| -> PyResult<()> {
            // The same as PyThreadState_SetAsyncExc, without unsafe code here.
            let ctypes = py.import("ctypes")?;
            let set = ctypes
                .getattr("pythonapi")?
                .getattr("PyThreadState_SetAsyncExc")?;
            let thread = ctypes.getattr("c_ulong")?.call1((thread,))?;
            let exception = py.get_type::<PyKeyboardInterrupt>();
            let exception = ctypes.getattr("py_object")?.call1((exception,))?;
            set.call1((thread, exception)).map(drop)
        };
        if thread != 0 {
            // A function that cannot be interrupted ends by itself.
            let _ = interrupt(py);
        }
    }

    /// Returns whether the run must end.
    pub(crate) fn came(&self) -> bool {
        self.0.is_over.load(Ordering::Relaxed)
    }

    /// Returns the exception that a function has raised, if one has.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.kept().take()
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Option<PyErr>> {
        self.0.raised.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parts {
    /// Replaces parts of a scenario by the functions.
    pub(crate) fn put<'s>(
        self,
        py: Python<'_>,
        scenario: &'s Scenario,
        trouble: &Trouble,
    ) -> PyResult<Custom<'s>> {
        let mut custom = Custom::of(scenario);
        for (flow, function) in self.traffic {
            let count = scenario.flows.iter().find(|known| known.name == flow);
            let numbers = 0..count.map_or(0, |flow| flow.count);
            let iterator = |n| function.bind(py).call1((n,))?.try_iter();
            let iterators: PyResult<Vec<_>> = numbers.map(iterator).collect();
            let mut iterators = iterators?.into_iter().map(Bound::unbind);
            let next = |_| match iterators.next() {
                Some(iterator) => packets(iterator, trouble.clone()),
                None => Box::new(|| None),
            };
            custom.source(&flow, next).map_err(misused)?;
        }
        for (from, to, function) in self.losses {
            let rule = rule(function, trouble.clone());
            custom.loss_rule(&from, &to, rule).map_err(misused)?;
        }
        if let Some((every_ns, function)) = self.measure {
            let every = Duration::from_nanos(every_ns);
            let look = look(function, trouble.clone());
            custom.look(every, look).map_err(misused)?;
        }
        if self.packets {
            custom.keep_packets();
        }
        Ok(custom)
    }
}

fn packets(iterator: Py<PyIterator>, trouble: Trouble) -> PacketSource {
    Box::new(move || {
        let next = trouble.ask(|py| match iterator.bind(py).clone().next() {
            Some(packet) => packet?.extract::<(u64, Option<usize>)>().map(Some),
            None => Ok(None),
        });
        let (at_ns, bytes) = next.flatten()?;
        Some(Sending {
            at: Duration::from_nanos(at_ns),
            bytes,
        })
    })
}

fn rule(function: Py<PyAny>, trouble: Trouble) -> LossRule {
    Box::new(move |at_s, bytes| {
        let is_lost = trouble.ask(|py| function.bind(py).call1((at_s, bytes))?.is_truthy());
        is_lost.unwrap_or(false)
    })
}

fn look(function: Py<PyAny>, trouble: Trouble) -> Look {
    Box::new(move |moment: &Moment| {
        let _ = trouble.ask(|py| {
            let moment = serde_json::to_string(moment).map_err(failed)?;
            function.bind(py).call1((moment,)).map(drop)
        });
    })
}
