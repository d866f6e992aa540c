//! Serves metrics and the status by HTTP, for Prometheus and for people with a browser.
//!
//! ```text
//!   GET /metrics   Prometheus text format
//!   GET /status    the node as JSON, the same as the operator's `snapshot`
//! ```
//!
//! A thread of its own answers requests in HTTP/1.0, and closes each connection after the answer (`server`). It only
//! reads, and queries the loop by [`crate::Commander`]. There is no authentication, so the server belongs on a local
//! address. It answers only requests to its own names ([`Hosts`]). Requests are bounded in bytes, time and number, and
//! a slow one does not delay others.

mod bulk;
mod gate;
mod groups;
mod hosts;
mod page;
mod server;
mod text;

pub use hosts::Hosts;
pub use page::Page;
pub use text::render;

use crate::command::Commander;
use crate::log::Lines;
use net::epoll::Waker;
use server::Server;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest request, headers included: browsers send about one kilobyte.
pub const MAX_REQUEST_BYTES: usize = 8_192;
/// The time limit of a request, and then that of its answer.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// Why metrics could not be served.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve metrics on {addr}: {error}; choose another `metrics` address or port")]
pub struct MetricsError {
    /// The address to listen on.
    pub addr: SocketAddr,
    /// The system's error.
    pub error: io::Error,
}

/// The source of the answers. An error says why there is no answer now.
pub trait Source: Send + 'static {
    /// Returns all metrics, in the text format of Prometheus.
    fn metrics(&self) -> Result<String, String>;
    /// Returns the whole status, as JSON.
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

/// The running server. Dropping this value ends the thread.
#[derive(Debug)]
pub struct Metrics {
    thread: Option<JoinHandle<()>>,
    stopping: Arc<AtomicBool>,
    waker: Waker,
    addr: SocketAddr,
}

impl Metrics {
    /// Serves on `addr`. It answers only requests to one of the names `hosts`.
    pub fn start(
        addr: SocketAddr,
        hosts: Hosts,
        source: impl Source,
        lines: Lines,
    ) -> Result<Metrics, MetricsError> {
        Metrics::start_with(addr, hosts, source, lines, PATIENCE)
    }

    fn start_with(
        addr: SocketAddr,
        hosts: Hosts,
        source: impl Source,
        lines: Lines,
        patience: Duration,
    ) -> Result<Metrics, MetricsError> {
        let fail = |error| MetricsError { addr, error };
        let listener = TcpListener::bind(addr).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let addr = listener.local_addr().map_err(fail)?;
        let waker = Waker::new().map_err(fail)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let server = Server {
            listener,
            waker: waker.clone(),
            stopping: Arc::clone(&stopping),
            source,
            hosts,
            lines,
            patience,
        };
        let thread = std::thread::Builder::new().name("metrics".into());
        let thread = Some(thread.spawn(move || server.run()).map_err(fail)?);
        Ok(Metrics {
            thread,
            stopping,
            waker,
            addr,
        })
    }

    /// Returns the address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of that thread was already reported there.
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

/// Returns the bytes of the answer to a request.
fn answer(head: &str, hosts: &Hosts, source: &impl Source) -> Vec<u8> {
    let mut words = head.lines().next().unwrap_or_default().split_whitespace();
    let (method, target) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let Answer { status, kind, body } = content(method, target, host(head), hosts, source);
    let length = body.len();
    let mut text = format!(
        "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    );
    if method != "HEAD" {
        text.push_str(&body);
    }
    text.into_bytes()
}

/// Returns the host name in the request. Browsers always send it.
fn host(head: &str) -> Option<&str> {
    head.lines().skip(1).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then_some(value)
    })
}

fn content(
    method: &str,
    target: &str,
    host: Option<&str>,
    hosts: &Hosts,
    source: &impl Source,
) -> Answer {
    let plain = |status, body: &str| Answer {
        status,
        kind: "text/plain; charset=utf-8",
        body: format!("{body}\n"),
    };
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET" | "HEAD", _) if host.is_some_and(|host| !hosts.has(host)) => plain(
            "403 Forbidden",
            "ask by an address, localhost, the host's own name, or a name that the node lists in \
             `metrics_hosts`, or the gateway in --metrics-host",
        ),
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
    }
}

#[cfg(test)]
mod tests;
