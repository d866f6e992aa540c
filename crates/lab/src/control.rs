//! Requests to a node through its operator's socket: one line of JSON each way.

use serde_json::Value;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long a request waits: a running node answers in milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns everything about the node whose operator's socket is at `path`.
pub(crate) fn snapshot(path: &Path) -> io::Result<Value> {
    ask(path, &serde_json::json!({"cmd": "snapshot"}))
}

/// Returns the answer of the node whose operator's socket is at `path`.
pub(crate) fn ask(path: &Path, request: &Value) -> io::Result<Value> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let answer: Value = serde_json::from_str(&line)?;
    match answer.get("error").and_then(Value::as_str) {
        Some(error) => Err(io::Error::other(error.to_owned())),
        None => Ok(answer),
    }
}

/// Returns whether all links of the node are up, and it has `links` of them.
pub(crate) fn links_up(status: &Value, links: usize) -> bool {
    let up = |link: &Value| link["state"] == "up";
    let all = status["snapshot"]["links"].as_array();
    all.is_some_and(|all| all.len() == links && all.iter().all(up))
}

/// Returns the number of links of the node that are up.
pub(crate) fn links_up_count(status: &Value) -> usize {
    let all = status["snapshot"]["links"].as_array();
    all.map_or(0, |all| {
        all.iter().filter(|link| link["state"] == "up").count()
    })
}

/// Returns whether the node has a route to `address` by the metric of least expected latency.
pub(crate) fn has_route(status: &Value, address: &str) -> bool {
    let leads = |route: &Value| route["to"] == address && route["metric"] == "expected-latency";
    let routes = status["snapshot"]["routes"].as_array();
    routes.is_some_and(|routes| routes.iter().any(leads))
}

/// Returns the bytes of sealed datagrams that the node has sent to its neighbours: first transmissions and
/// retransmissions of data, coded repair, and control.
pub(crate) fn bytes_out(status: &Value) -> u64 {
    let links = status["snapshot"]["links"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let of = |link: &Value, key: &str| link[key].as_u64().unwrap_or(0);
    let sent = ["data_out_bytes", "repair_out_bytes", "control_out_bytes"];
    links
        .iter()
        .flat_map(|link| sent.map(|key| of(link, key)))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::os::unix::net::UnixListener;

    #[test]
    fn states_are_read_out_of_a_snapshot() {
        let bytes = json!({"data_out_bytes": 100, "repair_out_bytes": 20, "control_out_bytes": 7});
        let link = |state| {
            let mut link = bytes.clone();
            link["state"] = json!(state);
            link
        };
        let route = json!({"to": "10.7.0.6", "metric": "expected-latency"});
        let status = json!({"snapshot": {"links": [link("up"), link("up")], "routes": [route]}});
        assert!(links_up(&status, 2) && !links_up(&status, 1));
        assert!(has_route(&status, "10.7.0.6") && !has_route(&status, "10.7.0.5"));
        assert_eq!(bytes_out(&status), 254);
        let down = json!({"snapshot": {"links": [link("up"), link("probing")], "routes": []}});
        assert!(!links_up(&down, 2) && !has_route(&down, "10.7.0.6"));
        assert_eq!(bytes_out(&json!({})), 0);
        assert!(!links_up(&json!({}), 0));
    }

    #[test]
    fn a_refusal_and_nonsense_are_errors() {
        let dir = crate::files::Scratch::new("control").unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            for answer in ["{\"error\":\"try again\"}\n", "{}\n", "hello\n", ""] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).unwrap();
                assert_eq!(line, "{\"cmd\":\"snapshot\"}\n");
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        assert_eq!(snapshot(&path).unwrap_err().to_string(), "try again");
        assert_eq!(snapshot(&path).unwrap(), json!({}));
        assert!(snapshot(&path).is_err());
        assert!(snapshot(&path).is_err());
        server.join().unwrap();
    }
}
