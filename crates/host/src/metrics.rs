//! Metrics and status by HTTP, for Prometheus and for people with a browser.
//!
//! ```text
//!   GET /metrics   Prometheus text format
//!   GET /status    the node as JSON, the same as the operator's `snapshot`
//! ```
//!
//! A thread of its own answers one request after the other, HTTP/1.0, and closes. It only reads,
//! and asks the loop by [`crate::Commander`]. Nobody is asked who he is: it belongs on a local
//! address. A request is bounded in bytes and time, so one that dawdles delays the next by
//! [`PATIENCE`] at most.

mod bulk;
mod groups;
mod page;
mod text;

pub use page::Page;
pub use text::render;

use crate::command::Commander;
use crate::log::Lines;
use net::epoll::{Interest, Poller, Waker};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest request, headers included: browsers send about one kilobyte.
pub const MAX_REQUEST_BYTES: usize = 8_192;
/// How long a request, and then its answer, may take.
pub const PATIENCE: Duration = Duration::from_secs(2);

const TOKEN_LISTENER: u64 = 0;
const TOKEN_WAKER: u64 = 1;

/// Why metrics could not be served.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve metrics on {addr}: {error}; choose another `metrics` address or port")]
pub struct MetricsError {
    /// The address wanted.
    pub addr: SocketAddr,
    /// What the system said.
    pub error: io::Error,
}

/// What is served. An error says why there is nothing now.
pub trait Source: Send + 'static {
    /// All numbers, in the text format of Prometheus.
    fn metrics(&self) -> Result<String, String>;
    /// Everything, as JSON.
    fn status(&self) -> Result<String, String>;
}

impl Source for Commander {
    fn metrics(&self) -> Result<String, String> {
        let status = Commander::status(self).map_err(|error| error.to_string())?;
        Ok(render(&status))
    }

    fn status(&self) -> Result<String, String> {
        let status = Commander::status(self).map_err(|error| error.to_string())?;
        serde_json::to_string(&*status).map_err(|error| error.to_string())
    }
}

/// The running server. Dropping it ends the thread.
#[derive(Debug)]
pub struct Metrics {
    thread: Option<JoinHandle<()>>,
    stopping: Arc<AtomicBool>,
    waker: Waker,
    addr: SocketAddr,
}

impl Metrics {
    /// Serves on `addr`.
    pub fn start(
        addr: SocketAddr,
        source: impl Source,
        lines: Lines,
    ) -> Result<Metrics, MetricsError> {
        let fail = |error| MetricsError { addr, error };
        let listener = TcpListener::bind(addr).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let addr = listener.local_addr().map_err(fail)?;
        let (mut poller, waker) = (Poller::new().map_err(fail)?, Waker::new().map_err(fail)?);
        poller
            .add(&listener, TOKEN_LISTENER, Interest::READ)
            .map_err(fail)?;
        poller
            .add(&waker, TOKEN_WAKER, Interest::READ)
            .map_err(fail)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopping);
        let thread = std::thread::Builder::new().name("metrics".into());
        let serve = move || {
            let mut ready = Vec::new();
            while !stop.load(Ordering::Acquire) {
                if let Err(error) = poller.wait(None, &mut ready) {
                    lines.error(&format!("metrics are served no more: {error}"));
                    return;
                }
                if let Ok((stream, _)) = listener.accept() {
                    // Who went away before his answer has no use for it.
                    let _ = serve(stream, &source);
                }
            }
        };
        let thread = Some(thread.spawn(serve).map_err(fail)?);
        Ok(Metrics {
            thread,
            stopping,
            waker,
            addr,
        })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic over there was reported there.
            let _ = thread.join();
        }
    }
}

/// A status line and a body.
struct Answer {
    status: &'static str,
    kind: &'static str,
    body: String,
}

fn serve(mut stream: TcpStream, source: &impl Source) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = read_head(&mut stream)?.unwrap_or_default();
    let (answer, with_body) = answer(&head, source);
    let Answer { status, kind, body } = answer;
    let length = body.len();
    let mut bytes = format!(
        "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    );
    if with_body {
        bytes.push_str(&body);
    }
    stream.write_all(bytes.as_bytes())
}

/// The request up to the empty line; `None` when it is too long or not done in time.
fn read_head(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let end = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut bytes = [0; 1_024];
    while !(head.ends_with(b"\r\n\r\n") || head.ends_with(b"\n\n")) {
        let left = end.saturating_duration_since(Instant::now());
        if head.len() > MAX_REQUEST_BYTES || left.is_zero() {
            return Ok(None);
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => head.extend_from_slice(&bytes[..len]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(String::from_utf8_lossy(&head).into_owned()))
}

/// The answer to a request, and whether its body is wanted.
fn answer(head: &str, source: &impl Source) -> (Answer, bool) {
    let mut words = head.lines().next().unwrap_or_default().split_whitespace();
    let (method, target) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let with_body = method != "HEAD";
    let plain = |status, body: &str| Answer {
        status,
        kind: "text/plain; charset=utf-8",
        body: format!("{body}\n"),
    };
    let path = target.split('?').next().unwrap_or_default();
    let answer = match (method, path) {
        ("GET" | "HEAD", "/metrics" | "/status") => {
            let (kind, body) = match path {
                "/metrics" => ("text/plain; version=0.0.4; charset=utf-8", source.metrics()),
                _ => ("application/json", source.status()),
            };
            match body {
                Ok(body) => Answer {
                    status: "200 OK",
                    kind,
                    body,
                },
                Err(error) => plain("503 Service Unavailable", &error),
            }
        }
        ("GET" | "HEAD", _) => plain("404 Not Found", "ask for /metrics or /status"),
        ("", _) => plain(
            "400 Bad Request",
            "no request of at most 8192 bytes came within 2 s",
        ),
        _ => plain("405 Method Not Allowed", "only GET and HEAD are served"),
    };
    (answer, with_body)
}

#[cfg(test)]
mod tests;
