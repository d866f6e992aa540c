//! Checks whether a neighbour that does not answer by UDP can be reached by TCP.

use crate::config::Config;
use serde_json::Value;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::thread;
use std::time::Duration;

/// How long a connection may take. Choice: a lost SYN is repeated after 1 s. All connections are tried at the same
/// time.
const PATIENCE: Duration = Duration::from_secs(3);
/// The port that almost every firewall allows.
const PORT: u16 = 443;

/// Tries TCP for a link that is down. Returns the result and what to do; `None` if the configuration has no address of
/// the neighbour.
pub(super) fn look(config: &Config, link: &Value) -> Option<(String, String)> {
    let is_it = |neighbor: &&crate::config::Neighbor| link["peer"] == neighbor.address.to_string();
    let neighbor = config.neighbors.iter().find(is_it)?;
    let endpoints = match neighbor.tcp.is_empty() {
        true => &neighbor.endpoints,
        false => &neighbor.tcp,
    };
    let first = endpoints.first()?;
    let other = web_port(first);
    let is_further = !endpoints.contains(&other);
    let answers = answers(endpoints.iter().chain(is_further.then_some(&other)));
    let (of_endpoints, of_other) = answers.split_at(endpoints.len().min(answers.len()));
    if let Some(place) = of_endpoints.iter().position(|it| *it) {
        let at = &endpoints[place];
        let next = match config.tcp_links {
            true => format!(
                "see the log for why the link over TCP is refused; let UDP through on both hosts, it is faster than TCP, and see that {} runs",
                neighbor.name
            ),
            false => "let UDP through on both hosts to the ports in `listen`, or set `tcp_links = true` on both".to_owned(),
        };
        let heard = format!("no answer by UDP; a TCP connection to {at} succeeds");
        return Some((heard, next));
    }
    if of_other.contains(&true) {
        let heard = format!("no answer by UDP; a TCP connection to {other} succeeds");
        let next = format!(
            "if that is {}, set `tcp = [\"0.0.0.0:{PORT}\"]` there and `tcp = \"{other}\"` of this neighbour here",
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

/// Returns the endpoint of the same host with the port that firewalls allow.
fn web_port(endpoint: &str) -> String {
    let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
    format!("{host}:{PORT}")
}

/// Returns which endpoints accept a connection. The function tries all at once: one after the other, the command would
/// seem to hang.
fn answers<'a>(endpoints: impl Iterator<Item = &'a String>) -> Vec<bool> {
    thread::scope(|scope| {
        let tried: Vec<_> = endpoints
            .map(|at| scope.spawn(move || connect(at).is_ok()))
            .collect();
        let answer = |tried: thread::ScopedJoinHandle<'_, bool>| tried.join().unwrap_or(false);
        tried.into_iter().map(answer).collect()
    })
}

/// Connects to the first address of a host that answers.
fn connect(endpoint: &str) -> io::Result<()> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for at in endpoint.to_socket_addrs()? {
        match TcpStream::connect_timeout(&at, PATIENCE) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn each_endpoint_has_an_answer_of_its_own() {
        let open = TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = [&closed, &open].map(|it| it.local_addr().unwrap().to_string());
        drop(closed);
        let no_port = "127.0.0.1".to_owned();
        let all = [&at[0], &at[1], &no_port];
        assert_eq!(answers(all.into_iter()), [false, true, false]);
        assert!(answers([].into_iter()).is_empty());
    }

    #[test]
    fn the_web_port_is_of_the_same_host() {
        assert_eq!(web_port("example.org:7700"), "example.org:443");
        assert_eq!(web_port("[2001:db8::1]:7700"), "[2001:db8::1]:443");
    }
}
