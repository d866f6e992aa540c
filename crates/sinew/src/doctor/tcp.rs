//! Whether a neighbour that does not answer by UDP is there by TCP.

use crate::config::Config;
use serde_json::Value;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long a connection may take. Choice: a lost SYN is repeated after 1 s.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long all of a neighbour's may take: a doctor who waits longer is taken for one who hangs.
const PATIENCE_ALL: Duration = Duration::from_secs(6);
/// What firewalls let through when they let anything through.
const PORT: u16 = 443;

/// What TCP says of a link that is down, and what to do; none if it is not said where the neighbour is.
pub(super) fn look(config: &Config, link: &Value) -> Option<(String, String)> {
    let is_it = |neighbor: &&crate::config::Neighbor| link["peer"] == neighbor.address.to_string();
    let neighbor = config.neighbors.iter().find(is_it)?;
    let endpoints = match neighbor.tcp.is_empty() {
        true => &neighbor.endpoints,
        false => &neighbor.tcp,
    };
    let first = endpoints.first()?;
    let until = Instant::now() + PATIENCE_ALL;
    if let Some(at) = endpoints.iter().find(|at| connect(at, until).is_ok()) {
        let next = match config.tcp_links {
            true => format!(
                "see the log for why the link over TCP is refused; let UDP through on both hosts, it is faster than TCP, and see that {} runs",
                neighbor.name
            ),
            false => "let UDP through on both hosts to the ports in `listen`, or set `tcp_links = true` on both".to_owned(),
        };
        let heard = format!("UDP is blocked, TCP to {at} works: links over it will be slower");
        return Some((heard, next));
    }
    let host = first
        .rsplit_once(':')
        .map_or(first.as_str(), |(host, _)| host);
    let other = format!("{host}:{PORT}");
    if !endpoints.contains(&other) && connect(&other, until).is_ok() {
        let heard = format!("something takes TCP at {other}");
        let next = format!(
            "if that is {}, set `tcp = [\"0.0.0.0:{PORT}\"]` there and `tcp = \"{other}\"` of this neighbor here",
            neighbor.name
        );
        return Some((heard, next));
    }
    let heard = format!(
        "neither UDP nor TCP has an answer from {}",
        endpoints.join(", ")
    );
    let next = format!(
        "see that {} runs, and let UDP or TCP through on both hosts to the ports in `listen`",
        neighbor.name
    );
    Some((heard, next))
}

/// Connects to the first address of a host that answers.
fn connect(endpoint: &str, until: Instant) -> io::Result<()> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for at in endpoint.to_socket_addrs()? {
        let left = until
            .saturating_duration_since(Instant::now())
            .min(PATIENCE);
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&at, left) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}
