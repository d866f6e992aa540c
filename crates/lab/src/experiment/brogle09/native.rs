//! Native IP multicast: smcrouted sets static routes in every host, and the kernel forwards. [Brogle09 §III-A]

use super::site::{GROUP, PORT, Site, failed};
use super::talk::{Ends, Sink, group_sender, group_sink};
use crate::experiment::CellError;
use crate::files::Scratch;
use std::fmt::Write as _;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const DAEMON: &str = "smcrouted";
/// How long to wait: a route exists some ten milliseconds after the daemon has started.
const PATIENCE: Duration = Duration::from_secs(10);
const ASK_EVERY: Duration = Duration::from_millis(10);

/// Daemons with their routes; they end when this is dropped.
pub(super) struct Native {
    daemons: Vec<Child>,
    // This field is dropped last: it holds the daemons' files.
    scratch: Scratch,
}

/// Checks whether the daemon is installed.
pub(super) fn available() -> Result<(), CellError> {
    let found = Command::new(DAEMON)
        .arg("-v")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    found.map(drop).map_err(|error| {
        let why = format!(
            "native multicast needs `{DAEMON}`, which does not run ({error}): apt-get install smcroute"
        );
        CellError(why)
    })
}

impl Native {
    /// Starts a daemon in every host of the site, and waits for its route.
    pub(super) fn start(site: &Site) -> Result<Native, CellError> {
        available()?;
        let scratch = Scratch::new("smcroute").map_err(|error| CellError(error.to_string()))?;
        let mut native = Native {
            daemons: Vec::new(),
            scratch,
        };
        for host in 0..site.shape.hosts().len() {
            let daemon = native.spawn(site, host);
            let daemon = daemon.map_err(|error| CellError(format!("{DAEMON}: {error}")))?;
            native.daemons.push(daemon);
        }
        native.wait(site)?;
        Ok(native)
    }

    fn spawn(&self, site: &Site, host: usize) -> std::io::Result<Child> {
        let file = |suffix: &str| self.scratch.path().join(format!("{host}.{suffix}"));
        let config = config(site.incoming(host), &site.outgoing(host), site);
        crate::files::write(&file("conf"), config.as_bytes())?;
        let mut command = site.node(host).command(DAEMON)?;
        // Ready files would be in a folder of the system, so this option is not used; all files have names of this
        // process.
        command
            .args(["-n", "-N", "-l", "err", "-i", &format!("sinew-lab-{host}")])
            .arg("-f")
            .arg(file("conf"))
            .arg("-P")
            .arg(file("pid"))
            .arg("-u")
            .arg(file("sock"));
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(file("log"))?)
            .spawn()
    }

    fn wait(&mut self, site: &Site) -> Result<(), CellError> {
        let begun = Instant::now();
        for host in 0..self.daemons.len() {
            let read = || std::fs::read_to_string("/proc/thread-self/net/ip_mr_cache");
            while routes(&Site::within(site.node(host), read)?) == 0 {
                let ended = self.daemons[host].try_wait();
                let log = self.scratch.path().join(format!("{host}.log"));
                let log = || std::fs::read_to_string(&log).unwrap_or_default();
                if let Ok(Some(status)) = ended {
                    return Err(CellError(format!(
                        "{DAEMON} has ended: {status}\n{}",
                        log()
                    )));
                }
                if begun.elapsed() > PATIENCE {
                    let name = site.shape.hosts()[host].name;
                    let why = format!("{DAEMON} has set no route at {name} after 10 s\n{}", log());
                    return Err(CellError(why));
                }
                std::thread::sleep(ASK_EVERY);
            }
        }
        Ok(())
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            // This fails for a process that has already ended. Its routes disappear with its socket.
            let _ = daemon.kill();
        }
        for daemon in &mut self.daemons {
            let _ = daemon.wait();
        }
    }
}

/// Returns a daemon's configuration: one static route, on these interfaces only.
fn config(incoming: &str, outgoing: &[String], site: &Site) -> String {
    let mut text = format!("phyint {incoming} enable\n");
    for name in outgoing {
        let _ = writeln!(text, "phyint {name} enable");
    }
    let (source, to) = (site.source_address(), outgoing.join(" "));
    let _ = writeln!(
        text,
        "mroute from {incoming} source {source} group {GROUP} to {to}"
    );
    text
}

/// Counts the routes in the kernel's table, which has a line of titles.
fn routes(table: &str) -> usize {
    table.lines().skip(1).count()
}

/// Returns the sender at the source, and a member of the group at each sink.
pub(super) fn ends(site: &Site) -> Result<Ends, CellError> {
    let source = site.source();
    source
        .ip(&["route", "replace", "239.0.0.0/8", "dev", "to-0"])
        .map_err(failed)?;
    let sender = Site::within(source, || group_sender((GROUP, PORT)))?;
    let mut sinks = Vec::new();
    for (leaf, space) in site.shape.leaves().into_iter().zip(site.sinks()) {
        let socket = Site::within(space, || group_sink(PORT, site.sink_address(leaf)))?;
        let name = site.shape.hosts()[leaf].name;
        sinks.push(Sink { name, socket });
    }
    Ends::new(sender, sinks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_table_has_a_title_and_a_line_for_each_route() {
        let title = "Group    Origin   Iif     Pkts    Bytes    Wrong Oifs\n";
        assert_eq!((routes(""), routes(title)), (0, 0));
        let route = format!("{title}010101EF 0100005D 0          0        0        0  1:1\n");
        assert_eq!(routes(&route), 1);
    }
}
