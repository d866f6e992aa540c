//! Notifies the service manager, as defined by sd_notify(3): one datagram with lines to the socket that the environment
//! names. Without such a socket, nothing happens.
//!
//! ```text
//!   Notify     ready, reloading, status, stopping      any thread
//!   Watchdog   "the loop has done a turn"              the loop alone: it has the only value
//! ```
//! A manager with a watchdog ends a process from which it gets no report for `WATCHDOG_USEC`. A thread with a timer
//! would report even if the loop hangs, so the loop reports itself, after a turn.

use base::{Duration, Time};
use net::clock::Clock;
use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The environment variable with the socket's name.
const VARIABLE: &str = "NOTIFY_SOCKET";
/// The environment variables with the time that the manager waits for a report, in microseconds, and with the process
/// that has to report.
const PATIENCE: &str = "WATCHDOG_USEC";
const PROCESS: &str = "WATCHDOG_PID";

/// The service manager.
#[derive(Debug, Default)]
pub struct Notify(Option<(UnixDatagram, SocketAddr)>);

impl Notify {
    /// Returns the manager that has started this process, if it wants to be notified.
    pub fn from_environment() -> Notify {
        let name = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
        Notify::to(name).unwrap_or_default()
    }

    fn to(name: Option<OsString>) -> io::Result<Notify> {
        let Some(name) = name else {
            return Ok(Notify(None));
        };
        // A name that begins with @ is not a file.
        let addr = match name.as_bytes().split_first() {
            Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(&name)?,
        };
        Ok(Notify(Some((UnixDatagram::unbound()?, addr))))
    }

    /// Reports that the node works: its sockets are open.
    pub fn ready(&self, status: &str) {
        self.say(&format!("READY=1\nSTATUS={status}\n"));
    }

    /// Reports that the node reads its files again; [`Notify::ready`] follows.
    pub fn reloading(&self) {
        let now_us = Clock::monotonic_us();
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}\n"));
    }

    /// Reports the state of the node, for people.
    pub fn status(&self, status: &str) {
        self.say(&format!("STATUS={status}\n"));
    }

    /// Reports that the node has begun to stop.
    pub fn stopping(&self) {
        self.say("STOPPING=1\n");
    }

    /// Returns true if the lines were sent, or nobody wants them.
    fn say(&self, lines: &str) -> bool {
        self.0.as_ref().is_none_or(|(socket, addr)| {
            // If the manager has gone, the report is lost.
            socket.send_to_addr(lines.as_bytes(), addr).is_ok()
        })
    }
}

/// A service manager that ends this process if the loop hangs. This value cannot be copied: only the loop has it.
#[derive(Debug)]
pub struct Watchdog {
    notify: Notify,
    every: Duration,
    next: Time,
}

impl Watchdog {
    /// Returns the watchdog of the manager that has started this process, if it has one.
    pub fn from_environment() -> Option<Watchdog> {
        let read = |name| std::env::var(name).ok();
        let (patience, process) = (read(PATIENCE), read(PROCESS));
        let every = every(patience.as_deref(), process.as_deref(), std::process::id())?;
        Some(Watchdog::new(Notify::from_environment(), every))
    }

    /// Reports progress to `notify`, at most once in `every`. The first report comes at once.
    pub(crate) fn new(notify: Notify, every: Duration) -> Watchdog {
        if let Some((socket, _)) = &notify.0 {
            // The loop must not wait for a manager that does not read. If this call fails, it waits as other threads
            // do.
            let _ = socket.set_nonblocking(true);
        }
        Watchdog {
            notify,
            every,
            next: Time::ZERO,
        }
    }

    /// Returns how long the loop may wait: it has to report even if there is nothing to do.
    pub(crate) fn wait(&self, now: Time) -> Duration {
        self.next.since(now)
    }

    /// Notes that the loop has done a turn.
    pub(crate) fn on_turn(&mut self, now: Time) {
        if now >= self.next {
            // A report that the manager could not take is repeated soon.
            let is_sent = self.notify.say("WATCHDOG=1\n");
            self.next = now
                + if is_sent {
                    self.every
                } else {
                    self.every.div(8)
                };
        }
    }
}

/// Returns how often to report: at half of the time that the manager waits, as sd_watchdog_enabled(3) advises.
fn every(patience: Option<&str>, process: Option<&str>, own: u32) -> Option<Duration> {
    if process.is_some_and(|process| process.parse() != Ok(own)) {
        return None;
    }
    let patience_us: u64 = patience?.parse().ok()?;
    (patience_us > 1).then(|| Duration::from_micros(patience_us / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_is_fed_at_half_of_its_patience() {
        let half = |us| Some(Duration::from_micros(us));
        assert_eq!(every(Some("20000000"), None, 7), half(10_000_000));
        assert_eq!(every(Some("20000000"), Some("7"), 7), half(10_000_000));
        // Settings for another process, a watchdog that is off, and nonsense.
        assert_eq!(every(Some("20000000"), Some("8"), 7), None);
        for patience in [None, Some("0"), Some(""), Some("-1")] {
            assert_eq!(every(patience, None, 7), None);
        }
    }

    #[test]
    fn turns_are_reported_once_in_a_period_and_only_turns() {
        let dir = crate::files::test_directory("watchdog");
        let path = dir.join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_nonblocking(true).unwrap();
        let heard = || {
            let mut buffer = [0; 256];
            let length = manager.recv(&mut buffer).ok()?;
            Some(String::from_utf8(buffer[..length].to_vec()).unwrap())
        };
        let every = Duration::from_secs(10);
        let notify = Notify::to(Some(path.into())).unwrap();
        let mut watchdog = Watchdog::new(notify, every);
        let at = |s| Time::ZERO + Duration::from_secs(s);
        assert_eq!((watchdog.wait(at(3)), heard()), (Duration::ZERO, None));
        watchdog.on_turn(at(3));
        assert_eq!(heard().as_deref(), Some("WATCHDOG=1\n"));
        for second in 4..13 {
            watchdog.on_turn(at(second));
        }
        assert_eq!(watchdog.wait(at(12)), Duration::from_secs(1));
        assert_eq!(heard(), None);
        // A loop that hung reports late, and once.
        assert_eq!(watchdog.wait(at(60)), Duration::ZERO);
        watchdog.on_turn(at(60));
        assert!(heard().is_some() && heard().is_none());
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_manager_is_told_by_a_file_or_an_abstract_name() {
        let dir = crate::files::test_directory("notify");
        let path = dir.join("notify");
        let abstract_name = format!("sinew-notify-{}", std::process::id());
        let addr = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        for (manager, name) in [
            (UnixDatagram::bind(&path).unwrap(), path.clone().into()),
            (
                UnixDatagram::bind_addr(&addr).unwrap(),
                OsString::from(format!("@{abstract_name}")),
            ),
        ] {
            let notify = Notify::to(Some(name)).unwrap();
            let heard = || {
                let mut buffer = [0; 256];
                let length = manager.recv(&mut buffer).unwrap();
                String::from_utf8(buffer[..length].to_vec()).unwrap()
            };
            notify.ready("2 of 2 links up");
            assert_eq!(heard(), "READY=1\nSTATUS=2 of 2 links up\n");
            notify.reloading();
            assert!(heard().starts_with("RELOADING=1\nMONOTONIC_USEC="));
        }
        // Nobody listens any longer, or nobody ever did.
        Notify::to(Some(path.into())).unwrap().stopping();
        Notify::to(None).unwrap().stopping();
        std::fs::remove_dir_all(dir).unwrap();
    }
}
