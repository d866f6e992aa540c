//! Sockets of a node. None of them waits: each call does what is possible now, or raises `BlockingIOError`. The package
//! waits for the descriptor, with `select` or an event loop, so that signals and other tasks can run.

use crate::errors::{misused, socket};
use crate::held::{Held, locked};
use client::{Batch, RangeSocket, Sending, Target};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Mutex;

/// Most bytes that one read of a stream returns.
const READ_BYTES_MAX: usize = 1 << 20;

/// A socket for datagrams.
#[pyclass(frozen, module = "sinew._sinew")]
pub(crate) struct Socket {
    open: Held<RangeSocket>,
    batch: Mutex<Batch>,
}

impl Socket {
    pub(crate) fn new(socket: RangeSocket) -> Socket {
        Socket {
            open: Held::new(socket),
            batch: Mutex::default(),
        }
    }

    fn with<T>(&self, work: impl FnOnce(&RangeSocket) -> PyResult<T>) -> PyResult<T> {
        self.open.with(work)
    }
}

/// Returns the descriptor of an open object, or -1.
fn descriptor<T>(held: &Held<T>, of: impl FnOnce(&T) -> i32) -> i32 {
    held.with(|open| Ok(of(open))).unwrap_or(-1)
}

#[pymethods]
impl Socket {
    fn fileno(&self) -> i32 {
        descriptor(&self.open, |socket| socket.as_fd().as_raw_fd())
    }

    fn close(&self) {
        self.open.close();
    }

    #[getter]
    fn node(&self) -> PyResult<String> {
        self.with(|socket| Ok(socket.node().to_string()))
    }

    #[getter]
    fn port(&self) -> PyResult<u16> {
        self.with(|socket| Ok(*socket.ports().start()))
    }

    #[getter]
    fn max_payload(&self) -> PyResult<usize> {
        self.with(|socket| Ok(socket.max_payload()))
    }

    fn join(&self, group: &str, port: u16) -> PyResult<()> {
        let group = group.parse().map_err(misused)?;
        self.with(|open| open.join(group, port).map_err(socket))
    }

    fn leave(&self, group: &str, port: u16) -> PyResult<()> {
        let group = group.parse().map_err(misused)?;
        self.with(|open| open.leave(group, port).map_err(socket))
    }

    /// Sends datagrams to one target, beginning at index `first` of the list. Returns how many were sent. If the
    /// function raises, none was sent.
    fn send(&self, target: &str, payloads: &Bound<'_, PyList>, first: usize) -> PyResult<usize> {
        let target = Target::parse(target).map_err(misused)?;
        self.with(|open| {
            let (port, most) = (*open.ports().start(), open.max_payload());
            let (mut sending, mut sent) = (Sending::new(), 0);
            loop {
                for payload in payloads.iter().skip(first + sent) {
                    let payload = payload.cast::<PyBytes>()?;
                    let bytes = payload.as_bytes();
                    if bytes.len() > most {
                        return Err(misused(client::Error::TooLong {
                            len: bytes.len(),
                            max: most,
                        }));
                    }
                    if !sending.push(port, target, bytes) {
                        break;
                    }
                }
                let gathered = sending.len();
                match open.send_batch(&mut sending) {
                    _ if gathered == 0 => return Ok(sent),
                    Ok(()) => sent += gathered,
                    Err(client::Error::WouldBlock) if sent > 0 => return Ok(sent),
                    Err(error) => return Err(socket(error)),
                }
            }
        })
    }

    /// Returns the datagrams of a batch: payload, sender, remaining seconds of the deadline or none, whether it was
    /// recovered, and the group or none.
    fn recv<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        // The batch is taken out, not locked: making objects may run Python code, which may let another thread call
        // this function.
        let mut batch = std::mem::take(&mut *locked(&self.batch));
        self.with(|open| open.recv_batch(&mut batch).map_err(socket))?;
        let came = PyList::empty(py);
        // Most datagrams of a batch have one sender.
        let mut last: Option<(Target, Bound<'py, PyAny>)> = None;
        for (_, from, info, payload) in batch.iter() {
            let sender = match &last {
                Some((target, sender)) if *target == from => sender.clone(),
                _ => from.to_string().into_pyobject(py)?.into_any(),
            };
            last = Some((from, sender.clone()));
            let left_s = info.remaining.map(|left| left.as_secs_f64());
            let group = info.group.map(|group| group.to_string());
            let bytes = PyBytes::new(py, payload);
            let entry = (bytes, sender, left_s, info.recovered, group);
            came.append(entry.into_pyobject(py)? as Bound<'py, PyTuple>)?;
        }
        *locked(&self.batch) = batch;
        Ok(came)
    }
}

/// A reliable stream of bytes.
#[pyclass(frozen, module = "sinew._sinew")]
pub(crate) struct Stream(Held<client::Stream>);

impl Stream {
    pub(crate) fn new(stream: client::Stream) -> PyResult<Stream> {
        stream.set_nonblocking(true)?;
        Ok(Stream(Held::new(stream)))
    }

    fn with<T>(&self, work: impl FnOnce(&client::Stream) -> PyResult<T>) -> PyResult<T> {
        self.0.with(work)
    }
}

#[pymethods]
impl Stream {
    fn fileno(&self) -> i32 {
        descriptor(&self.0, AsRawFd::as_raw_fd)
    }

    /// Delivers the written data and the end of the stream.
    fn close(&self) {
        self.0.close();
    }

    #[getter]
    fn local(&self) -> PyResult<String> {
        self.with(|stream| Ok(stream.local().to_string()))
    }

    #[getter]
    fn peer(&self) -> PyResult<String> {
        self.with(|stream| Ok(stream.peer().to_string()))
    }

    /// Returns up to `most` bytes that have arrived; empty at the end of the peer's data.
    fn read<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = vec![0; most.clamp(1, READ_BYTES_MAX)];
        let len = self.with(|stream| {
            let mut stream = stream;
            stream.read(&mut bytes).map_err(PyErr::from)
        })?;
        Ok(PyBytes::new(py, &bytes[..len]))
    }

    /// Writes as many bytes as are accepted now. Returns their number.
    fn write(&self, bytes: &[u8]) -> PyResult<usize> {
        self.with(|stream| {
            let mut stream = stream;
            stream.write(bytes).map_err(PyErr::from)
        })
    }

    /// Ends the data of this end.
    fn write_eof(&self) -> PyResult<()> {
        self.with(|stream| stream.shutdown(Shutdown::Write).map_err(PyErr::from))
    }

    /// Ends the stream at once; the peer gets an error.
    fn reset(&self) -> PyResult<()> {
        self.with(|stream| {
            stream.reset();
            Ok(())
        })
    }
}

/// A port that accepts streams.
#[pyclass(frozen, module = "sinew._sinew")]
pub(crate) struct Listener(Held<client::Listener>);

impl Listener {
    pub(crate) fn new(listener: client::Listener) -> Listener {
        Listener(Held::new(listener))
    }
}

#[pymethods]
impl Listener {
    fn fileno(&self) -> i32 {
        descriptor(&self.0, AsRawFd::as_raw_fd)
    }

    fn close(&self) {
        self.0.close();
    }

    #[getter]
    fn local(&self) -> PyResult<String> {
        self.0.with(|listener| Ok(listener.local().to_string()))
    }

    fn accept(&self) -> PyResult<Stream> {
        let accepted = self
            .0
            .with(|listener| listener.accept_bytes().map_err(socket));
        Stream::new(accepted?)
    }
}
