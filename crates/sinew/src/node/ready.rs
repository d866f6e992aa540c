//! A node that has just started reports when its links are up, and names the links that are not. A moment later it
//! gives back the memory that only the start needed.

use super::memory;
use crate::config::Config;
use base::NodeAddr;
use host::Commander;
use host::log::Lines;
use host::notify::Notify;
use overlay::snapshot::LinkStatus;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Interval of the checks at first. Links need 0.2 to 0.7 s to come up.
const PACE: Duration = Duration::from_millis(100);
/// The node names links that are not up by then.
const SOON: Duration = Duration::from_secs(5);
/// Interval of the checks after that.
const LATER: Duration = Duration::from_secs(1);
/// How long after the links are up, or late, the node gives back memory. By then it has reached its steady state: it
/// has exchanged the first records, and the estimators have their first windows.
const SETTLED: Duration = Duration::from_secs(10);

/// The running thread, which ends when all is reported. Dropping this value ends it, too.
#[derive(Debug)]
pub(super) struct Ready {
    _alive: SyncSender<()>,
}

impl Ready {
    /// Watches the links to the neighbours of the configuration.
    pub(super) fn start(
        config: &Config,
        commander: Commander,
        lines: Lines,
        notify: Arc<Notify>,
        is_realtime: bool,
    ) -> io::Result<Ready> {
        let (alive, ended) = sync_channel(0);
        let neighbors = config.neighbors.iter().map(|n| (n.address, n.name.clone()));
        let neighbors: Vec<(NodeAddr, String)> = neighbors.collect();
        let work = move || {
            let keep = || memory::keep_what_runs(is_realtime);
            watch(&neighbors, &commander, &lines, (&notify, &keep), &ended);
            if ended.recv_timeout(SETTLED) == Err(RecvTimeoutError::Timeout) {
                keep();
            }
        };
        let thread = std::thread::Builder::new().name("ready".into());
        thread.spawn(work)?;
        Ok(Ready { _alive: alive })
    }
}

fn watch(
    neighbors: &[(NodeAddr, String)],
    commander: &Commander,
    lines: &Lines,
    (notify, keep): (&Notify, &dyn Fn()),
    ended: &Receiver<()>,
) {
    if neighbors.is_empty() {
        return lines.say("ready: no neighbour is configured, others may dial this node");
    }
    let start = Instant::now();
    let (mut pace, mut has_kept) = (PACE, false);
    while ended.recv_timeout(pace) == Err(RecvTimeoutError::Timeout) {
        let Ok(status) = commander.status() else {
            continue;
        };
        let links = &status.snapshot.links;
        let missing = missing(neighbors, links);
        let count = count(links);
        if missing.is_empty() {
            notify.status(&count);
            return lines.say(&format!("ready: {count}"));
        }
        // A missing link is no reason to keep the memory that the start needed.
        if !has_kept && start.elapsed() >= SOON + SETTLED {
            has_kept = true;
            keep();
        }
        if pace == PACE && start.elapsed() >= SOON {
            pace = LATER;
            notify.status(&count);
            lines.warn(&format!("{count}; not up: {}", missing.join("; ")));
        }
    }
}

/// Formats how many links are up.
pub(super) fn count(links: &[LinkStatus]) -> String {
    let up = links.iter().filter(|link| link.state == "up").count();
    format!("{up} of {} links up", links.len())
}

/// Lists the neighbours whose links are not up, each with the reason.
fn missing(neighbors: &[(NodeAddr, String)], links: &[LinkStatus]) -> Vec<String> {
    let missing = neighbors.iter().filter_map(|(address, name)| {
        let peer = address.to_string();
        let link = links.iter().find(|link| link.peer == peer);
        match link {
            Some(link) if link.state == "up" => None,
            link => {
                let reason = link.and_then(|link| link.reason.as_deref());
                Some(format!("{name}: {}", reason.unwrap_or("no link")))
            }
        }
    });
    missing.collect()
}
