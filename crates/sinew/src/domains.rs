//! Finds the nodes of the overlay that serve a domain, and stays up to date by asking a running
//! node.
//!
//! ```text
//!   thread ── {"cmd":"snapshot"} every two seconds ──▶ operator's socket of the node
//!      └──▶ Table ◀── serving("example.org"), which waits for nobody
//! ```
//!
//! The node checks certificates and reports the domains that they name (`nodes` of its status); see
//! [`gateway::domains`] for their meaning.

use crate::control::Control;
use crate::show::{list, text};
use base::NodeAddr;
use gateway::domains::{Certified, Domains, Serving, Table};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The interval of the questions. Choice: the neighbours of a lost node notice the loss within a
/// second. A new call must not try the node for much longer, and a status costs a node a
/// millisecond.
const EVERY: Duration = Duration::from_secs(2);

/// The nodes of the overlay and their domains as a node knows them, updated regularly until this
/// value is dropped.
#[derive(Debug)]
pub struct Watch {
    table: Arc<Mutex<Arc<Table>>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches the node whose operator's socket is `control` and whose status was `status` just
    /// now. If the node does not answer, the old state stays.
    pub fn start(control: PathBuf, status: &Value) -> std::io::Result<Watch> {
        Watch::looking(EVERY, control, status)
    }

    fn looking(every: Duration, control: PathBuf, status: &Value) -> std::io::Result<Watch> {
        let table = Arc::new(Mutex::new(Arc::new(table(status))));
        let (stop, stopped) = channel();
        let kept = Arc::clone(&table);
        let run = move || {
            let mut connection = None;
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let mut open = match connection.take() {
                    Some(open) => open,
                    None => match Control::connect(&control) {
                        Ok(open) => open,
                        Err(_) => continue,
                    },
                };
                if let Ok(status) = open.status() {
                    let new = Arc::new(self::table(&status));
                    *kept.lock().unwrap_or_else(PoisonError::into_inner) = new;
                    connection = Some(open);
                }
            }
        };
        let thread = std::thread::Builder::new().name("domains".into());
        Ok(Watch {
            table,
            stop: Some(stop),
            thread: Some(thread.spawn(run)?),
        })
    }

    /// Returns all nodes that can be reached now.
    pub fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Domains for Watch {
    fn serving(&self, domain: &str) -> Vec<Serving> {
        self.table().serving(domain)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The thread has reported its own panic.
            let _ = thread.join();
        }
    }
}

/// Returns the reachable nodes in a node's status.
pub fn table(status: &Value) -> Table {
    let nodes = list(&status["nodes"]).iter().filter_map(|node| {
        let domains = list(&node["domains"]).iter().map(text);
        let latency_ms = node["expected_latency_ms"].as_f64()?;
        Some(Certified {
            node: text(&node["address"]).parse::<NodeAddr>().ok()?,
            name: text(&node["name"]).to_owned(),
            domains: domains.map(str::to_owned).collect(),
            latency: Duration::try_from_secs_f64(latency_ms / 1e3).ok()?,
        })
    });
    Table::new(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;

    fn status(latency_ms: &Value) -> Value {
        json!({"nodes": [
            {"address": "10.7.0.1", "name": "ams", "domains": [], "expected_latency_ms": 0.0},
            {"address": "10.7.0.2", "name": "fra", "domains": ["example.org"],
             "expected_latency_ms": latency_ms},
            {"address": "10.7.0.3", "name": "par", "domains": ["example.org"],
             "expected_latency_ms": 20.5},
            {"address": "10.7.0.4", "name": null, "domains": ["example.org"]},
            {"address": "x", "name": "bad", "domains": ["example.org"],
             "expected_latency_ms": -1.0},
        ]})
    }

    fn names(domains: &dyn Domains) -> Vec<String> {
        let found = domains.serving("sip.example.org").into_iter();
        found.map(|serving| serving.name).collect()
    }

    #[test]
    fn nodes_that_can_be_reached_serve_what_their_certificates_name() {
        assert_eq!(names(&table(&status(&json!(20.25)))), ["fra", "par"]);
        assert_eq!(names(&table(&status(&json!(21)))), ["par", "fra"]);
        assert_eq!(names(&table(&status(&Value::Null))), ["par"]);
        assert_eq!(names(&table(&json!({}))), [""; 0]);
    }

    #[test]
    fn what_changes_is_noticed_and_a_node_that_is_gone_has_not_changed() {
        let dir = crate::testing::directory("domains");
        let path = dir.join("ams.ctl");
        let listener = UnixListener::bind(&path).unwrap();
        let watch = Watch::looking(Duration::from_millis(1), path, &status(&json!(1))).unwrap();
        assert_eq!(names(&watch), ["fra", "par"]);
        let (stream, _) = listener.accept().unwrap();
        drop(listener);
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        for _ in 0..2 {
            stream.read_line(&mut line).unwrap();
            let answer = format!("{}\n", status(&Value::Null));
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
        }
        // The second question came after the first answer was processed.
        assert_eq!(names(&watch), ["par"]);
        drop(stream);
        assert_eq!(names(&watch), ["par"]);
        drop(watch);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
