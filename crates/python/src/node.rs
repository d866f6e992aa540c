//! A running node: its sockets, and questions to it.

use crate::errors::{control, explain, failed, misused, socket};
use crate::scenario::Question;
use crate::sockets::{Listener, Socket, Stream};
use cli::control::Control;
use cli::names::Names;
use cli::service::Service;
use client::{Aim, Delivery, Options, RouteBy, Target};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;
use tools::explain::View;

/// A node.
#[pyclass(frozen, module = "sinew._sinew")]
pub(crate) struct Node {
    node: client::Node,
    /// The name of its operator's socket; `None` for the only node nearby.
    named: Option<PathBuf>,
    /// The names of other nodes, as they were at the first lookup.
    names: Mutex<Names>,
}

/// The options of a socket: a dictionary of the package.
#[derive(FromPyObject)]
pub(crate) struct Wanted {
    #[pyo3(item)]
    service: String,
    #[pyo3(item)]
    deadline_ms: f64,
    #[pyo3(item)]
    paths: Option<String>,
    #[pyo3(item)]
    priority: Option<u8>,
    #[pyo3(item)]
    in_order: bool,
    #[pyo3(item)]
    target: Option<f64>,
    #[pyo3(item)]
    repair: Option<f64>,
}

impl Wanted {
    fn options(&self) -> PyResult<Options> {
        let service = match self.service.as_str() {
            "voice" => Service::Voice,
            "video" => Service::Video,
            "bulk" => Service::Bulk,
            "best-effort" => Service::BestEffort,
            other => {
                return Err(misused(format_args!(
                    "service={other:?}: expected voice, video, bulk or best-effort"
                )));
            }
        };
        let deadline = Duration::try_from_secs_f64(self.deadline_ms / 1e3).map_err(|_| {
            misused(format_args!(
                "deadline_ms={}: expected a number from 0 up",
                self.deadline_ms
            ))
        })?;
        let mut options = service.options(deadline);
        if let Some(word) = &self.paths {
            let by = RouteBy::from_label(word);
            options.routing = by.ok_or_else(|| {
                let known: Vec<&str> = RouteBy::ALL.into_iter().map(RouteBy::label).collect();
                let known = known.join(", ");
                misused(format_args!("paths={word:?}: expected one of {known}"))
            })?;
        }
        if let Some(priority) = self.priority {
            if priority > 7 {
                return Err(misused(format_args!(
                    "priority={priority}: expected a number from 0 to 7"
                )));
            }
            options.priority = priority;
        }
        options.aim = Aim::new(self.target, self.repair).map_err(misused)?;
        if self.in_order {
            options.delivery = Delivery::InOrder;
        }
        Ok(options)
    }
}

#[pymethods]
impl Node {
    /// Finds the node that `text` names, or the only one nearby.
    #[staticmethod]
    fn find(py: Python<'_>, text: Option<String>) -> PyResult<Node> {
        let named = text.as_ref().map(PathBuf::from);
        let node = py.detach(|| match &text {
            Some(text) => client::Node::find(text),
            None => client::Node::from_env(),
        });
        Ok(Node {
            node: node.map_err(socket)?,
            named,
            names: Mutex::default(),
        })
    }

    /// Returns the node's answer to `{"cmd": …}`, as JSON.
    fn ask(&self, py: Python<'_>, question: &str) -> PyResult<String> {
        let question = serde_json::from_str(question).map_err(misused)?;
        let answer = py.detach(|| self.control()?.ask(&question));
        Ok(answer.map_err(control)?.to_string())
    }

    /// Explains why packets take their path, as the node knows the network. Returns JSON.
    fn why(&self, py: Python<'_>, src: &str, dst: &str, asked: Question) -> PyResult<String> {
        let asked = asked.read()?;
        let view = self.view(py)?;
        let told = py.detach(|| tools::explain::why(&view, src, dst, &asked));
        serde_json::to_string(&told.map_err(explain)?).map_err(failed)
    }

    /// Returns how paths would change, as the node knows the network, as JSON.
    fn whatif(
        &self,
        py: Python<'_>,
        edits: &str,
        src: Option<&str>,
        dst: Option<&str>,
        asked: Question,
    ) -> PyResult<String> {
        let asked = asked.read()?;
        let view = self.view(py)?;
        let told = py.detach(|| tools::explain::what_if(&view, edits, src.zip(dst), &asked));
        serde_json::to_string(&told.map_err(explain)?).map_err(failed)
    }

    /// Returns `NODE:PORT` with the address instead of a name.
    fn resolve(&self, py: Python<'_>, target: &str) -> PyResult<String> {
        self.target(py, target).map(|target| target.to_string())
    }

    /// Opens a socket for datagrams, also of groups.
    fn bind(&self, py: Python<'_>, port: u16, wanted: Wanted) -> PyResult<Socket> {
        let options = wanted.options()?;
        let bound = py.detach(|| {
            let socket = self.node.bind_range(port..=port, options)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        bound.map(Socket::new).map_err(socket)
    }

    /// Opens a stream of bytes to `NODE:PORT`.
    fn connect(&self, py: Python<'_>, target: &str, wanted: Wanted) -> PyResult<Stream> {
        let (options, target) = (wanted.options()?, self.target(py, target)?);
        let opened = py.detach(|| self.node.connect(target, options));
        Stream::new(opened.map_err(socket)?)
    }

    /// Accepts streams at a port.
    fn listen(&self, py: Python<'_>, port: u16, wanted: Wanted) -> PyResult<Listener> {
        let options = wanted.options()?;
        let listener = py.detach(|| {
            let listener = self.node.listen(port, options)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        listener.map(Listener::new).map_err(socket)
    }
}

impl Node {
    fn control(&self) -> Result<Control, cli::failure::Failure> {
        Control::find(self.named.as_deref())
    }

    fn view(&self, py: Python<'_>) -> PyResult<View> {
        py.detach(|| cli::why::ask(&mut self.control()?))
            .map_err(control)
    }

    fn target(&self, py: Python<'_>, text: &str) -> PyResult<Target> {
        if let Ok(target) = Target::parse(text) {
            return Ok(target);
        }
        let bad = || {
            misused(format_args!(
                "`{text}`: write it like fra:5000 or 10.7.0.3:5000"
            ))
        };
        let (word, port) = text.rsplit_once(':').ok_or_else(bad)?;
        let port = port.parse().map_err(|_| bad())?;
        let known = self.known(word);
        let address = match known {
            Ok(address) => address,
            Err(_) => {
                let status = py.detach(|| self.control()?.status()).map_err(control)?;
                *self.names() = Names::of(&status);
                self.known(word).map_err(control)?
            }
        };
        Ok(Target::new(address, port))
    }

    fn known(&self, word: &str) -> Result<base::NodeAddr, cli::failure::Failure> {
        self.names().address(word)
    }

    fn names(&self) -> std::sync::MutexGuard<'_, Names> {
        self.names
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
