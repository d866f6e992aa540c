//! Counts the physical links to each neighbour. A thread of its own probes them, and passes the numbers to the node.
//!
//! ```text
//!   loop ── link up, neighbour moved ──▶ bounded queue ──▶ Schedule ── one at a time ──▶ net::hops::probe
//!   loop ◀── Operation::Hops ─── Findings ◀─────────────────────────────────────────────────┘
//! ```
//!
//! A neighbour is probed when its link comes up or its address changes, every ten minutes while the link stays up, and
//! a minute later if the loop did not take the result. Neighbours are probed one at a time, because a probe takes up to
//! three seconds. A neighbour whose number is configured is not probed. The thread ends with the loop.

use crate::command::Commander;
use crate::driver::Driver;
use crate::log::Lines;
use crate::resolve::socket_for;
use crate::status::Status;
use base::NodeAddr;
use net::hops::{HopsError, probe};
use overlay::request::Operation;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU8;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often a neighbour whose link stays up is probed again. Choice: routes of the Internet stay the same for hours,
/// and some twenty datagrams in ten minutes are no burden.
const AGAIN: Duration = Duration::from_secs(600);
/// The least time between two probes of one neighbour, regardless of how often its link comes up.
const REST: Duration = Duration::from_secs(60);
/// How soon the thread asks a loop again that was too busy to answer.
const BUSY: Duration = Duration::from_secs(5);

/// Probes the neighbours of a node that listens on `listen`, except those in `configured`, until its loop ends. It has
/// to be called before the loop runs.
///
/// # Errors
/// Returns the system's error if it cannot start a thread.
pub fn start(
    driver: &mut Driver,
    listen: Vec<SocketAddr>,
    configured: BTreeSet<NodeAddr>,
    lines: Lines,
) -> io::Result<()> {
    let links_up = driver.links_up();
    let mut prober = Prober {
        schedule: Schedule::new(configured),
        findings: Findings::default(),
        commander: driver.commander(),
        listen,
        lines,
    };
    let thread = std::thread::Builder::new().name("hops".into());
    thread.spawn(move || prober.run(&links_up)).map(drop)
}

struct Prober {
    schedule: Schedule,
    findings: Findings,
    commander: Commander,
    listen: Vec<SocketAddr>,
    lines: Lines,
}

impl Prober {
    fn run(&mut self, links_up: &Receiver<NodeAddr>) {
        loop {
            match links_up.recv_timeout(self.schedule.wait(Instant::now())) {
                Ok(neighbor) => self.schedule.ask(Instant::now(), neighbor),
                Err(RecvTimeoutError::Timeout) => self.probe_next(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Probes the neighbour that is due, at its present address.
    fn probe_next(&mut self) {
        let Ok(status) = self.commander.status() else {
            return self.schedule.put_off(Instant::now());
        };
        let up = addresses(&status);
        self.schedule.keep_to(Instant::now(), up.keys().copied());
        let Some(neighbor) = self.schedule.take_due(Instant::now()) else {
            return;
        };
        let at = up[&neighbor];
        let (operation, problem) = self.findings.on_probe(neighbor, at.ip(), self.probe(at));
        if let Some(problem) = problem {
            self.lines.say(&problem);
        }
        self.schedule.on_probed(Instant::now(), neighbor);
        if let Some(Err(_)) = operation.map(|operation| self.commander.operate(operation)) {
            self.findings.on_untold(neighbor);
            self.schedule.ask(Instant::now(), neighbor);
        }
    }

    /// Probes from the source address of the node's own packets to this neighbour, if the operator has configured one.
    fn probe(&self, at: SocketAddr) -> Result<Option<NonZeroU8>, HopsError> {
        let socket = socket_for(at, &self.listen).map(|i| self.listen[usize::from(i)].ip());
        probe(at.ip(), socket.filter(|ip| !ip.is_unspecified()))
    }
}

/// Returns the addresses of the neighbours whose links are up.
fn addresses(status: &Status) -> BTreeMap<NodeAddr, SocketAddr> {
    let up = status
        .snapshot
        .links
        .iter()
        .filter(|link| link.state == "up");
    let known = up.filter_map(|link| {
        let at = link.at.as_ref()?.parse().ok()?;
        Some((link.peer.parse().ok()?, at))
    });
    known.collect()
}

/// When each neighbour is probed. There are at most as many neighbours as a node has links.
#[derive(Debug)]
struct Schedule {
    configured: BTreeSet<NodeAddr>,
    due: BTreeMap<NodeAddr, Instant>,
    last: BTreeMap<NodeAddr, Instant>,
}

impl Schedule {
    fn new(configured: BTreeSet<NodeAddr>) -> Schedule {
        Schedule {
            configured,
            due: BTreeMap::new(),
            last: BTreeMap::new(),
        }
    }

    /// Schedules a probe, because the link to a neighbour has come up or has changed its address.
    fn ask(&mut self, now: Instant, neighbor: NodeAddr) {
        if !self.configured.contains(&neighbor) {
            let rested = self.last.get(&neighbor).map(|last| *last + REST);
            let soon = rested.map_or(now, |rested| rested.max(now));
            let due = self.due.entry(neighbor).or_insert(soon);
            *due = soon.min(*due);
        }
    }

    /// Keeps the schedule to the neighbours whose links are up. A neighbour that was not reported because the queue was
    /// full is added here.
    fn keep_to(&mut self, now: Instant, up: impl Iterator<Item = NodeAddr>) {
        let up: BTreeSet<NodeAddr> = up.collect();
        self.due.retain(|neighbor, _| up.contains(neighbor));
        for neighbor in up {
            if !self.due.contains_key(&neighbor) {
                self.ask(now, neighbor);
            }
        }
    }

    /// Returns how long there is nothing to do.
    fn wait(&self, now: Instant) -> Duration {
        let next = self.due.values().min();
        next.map_or(AGAIN, |due| due.saturating_duration_since(now))
    }

    /// Takes the neighbour that has been due for the longest time.
    fn take_due(&mut self, now: Instant) -> Option<NodeAddr> {
        let (neighbor, due) = self.due.iter().min_by_key(|(_, due)| **due)?;
        let neighbor = (*due <= now).then_some(*neighbor)?;
        self.due.remove(&neighbor);
        Some(neighbor)
    }

    fn on_probed(&mut self, now: Instant, neighbor: NodeAddr) {
        self.last.insert(neighbor, now);
        self.due.insert(neighbor, now + AGAIN);
    }

    /// Postpones all probes, because the loop cannot answer now.
    fn put_off(&mut self, now: Instant) {
        for due in self.due.values_mut() {
            *due = (*due).max(now + BUSY);
        }
    }
}

/// The results of probes, and what was reported of them.
#[derive(Debug, Default)]
struct Findings {
    /// The address and the number that the node got last, for each neighbour.
    told: BTreeMap<NodeAddr, (IpAddr, NonZeroU8)>,
    /// Neighbours for which the last report did not reach the node: the next result is reported even if it is
    /// unchanged.
    untold: BTreeSet<NodeAddr>,
    problems: BTreeMap<NodeAddr, String>,
}

impl Findings {
    /// Returns what to report to the node, and what to the operator.
    ///
    /// Choice: a number is kept if a later probe of the same address gets no answer. Routers answer only when they have
    /// time, and paths seldom become longer or shorter.
    fn on_probe(
        &mut self,
        neighbor: NodeAddr,
        at: IpAddr,
        probed: Result<Option<NonZeroU8>, HopsError>,
    ) -> (Option<Operation>, Option<String>) {
        let (hops, problem) = match probed {
            Ok(hops) => (hops, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let before = self.told.get(&neighbor).copied();
        let at_place = before.filter(|(place, _)| *place == at);
        let hops = hops.or(at_place.map(|(_, hops)| hops));
        match hops {
            Some(hops) => self.told.insert(neighbor, (at, hops)),
            None => self.told.remove(&neighbor),
        };
        let is_untold = self.untold.remove(&neighbor);
        let news = is_untold || before.map(|(_, hops)| hops) != hops;
        let operation = news.then_some(Operation::Hops { neighbor, hops });
        (operation, self.new_problem(neighbor, problem))
    }

    /// Notes that a report did not reach the node.
    fn on_untold(&mut self, neighbor: NodeAddr) {
        self.untold.insert(neighbor);
    }

    /// Returns a problem only if it differs from the last one, so that it is reported once.
    fn new_problem(&mut self, neighbor: NodeAddr, problem: Option<String>) -> Option<String> {
        let Some(problem) = problem else {
            self.problems.remove(&neighbor);
            return None;
        };
        let before = self.problems.insert(neighbor, problem.clone());
        let is_new = before.as_ref() != Some(&problem);
        is_new.then(|| format!("hops to {neighbor}: {problem}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{AMS, FRA};

    const LON: NodeAddr = NodeAddr(0x0a07_0003);
    const SECOND: Duration = Duration::from_secs(1);

    fn count(hops: u8) -> Option<NonZeroU8> {
        NonZeroU8::new(hops)
    }

    #[test]
    fn a_link_that_comes_up_is_probed_and_then_every_ten_minutes() {
        let mut now = Instant::now();
        let mut schedule = Schedule::new(BTreeSet::from([LON]));
        assert_eq!((schedule.wait(now), schedule.take_due(now)), (AGAIN, None));
        for neighbor in [FRA, LON, FRA] {
            schedule.ask(now, neighbor);
        }
        assert_eq!(schedule.wait(now), Duration::ZERO);
        assert_eq!(schedule.take_due(now), Some(FRA));
        assert_eq!(
            schedule.take_due(now),
            None,
            "what is configured is not probed"
        );
        schedule.on_probed(now, FRA);
        assert_eq!(schedule.wait(now), AGAIN);
        // The link goes up, down and up again: it is probed once in a minute.
        schedule.ask(now + SECOND, FRA);
        assert_eq!(schedule.wait(now), REST);
        assert_eq!(schedule.take_due(now + REST - SECOND), None);
        now += REST;
        assert_eq!(schedule.take_due(now), Some(FRA));
        schedule.on_probed(now, FRA);
        assert_eq!(schedule.take_due(now + AGAIN), Some(FRA));
    }

    #[test]
    fn the_schedule_follows_the_links_that_are_up() {
        let now = Instant::now();
        let mut schedule = Schedule::new(BTreeSet::from([LON]));
        schedule.ask(now, FRA);
        schedule.put_off(now);
        assert_eq!(schedule.wait(now), BUSY);
        // A neighbour whose link is down is not probed. A neighbour that was missed is.
        schedule.keep_to(now, [AMS, LON].into_iter());
        assert_eq!(schedule.take_due(now + BUSY), Some(AMS));
        assert_eq!(schedule.take_due(now + BUSY), None);
        schedule.on_probed(now, AMS);
        schedule.keep_to(now, [AMS].into_iter());
        assert_eq!(schedule.wait(now), AGAIN, "what is planned stays");
    }

    #[test]
    fn a_number_stays_while_the_neighbour_stays_where_it_is() {
        let [here, there]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse().unwrap());
        let mut findings = Findings::default();
        let mut told = |at, probed| match findings.on_probe(FRA, at, Ok(probed)) {
            (None, None) => None,
            (Some(Operation::Hops { neighbor, hops }), None) => {
                assert_eq!(neighbor, FRA);
                Some(hops)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(told(here, None), None, "it was not known before");
        assert_eq!(told(here, count(12)), Some(count(12)));
        assert_eq!(told(here, count(12)), None);
        assert_eq!(told(here, None), None, "filtered at the moment");
        assert_eq!(told(here, count(13)), Some(count(13)));
        assert_eq!(told(there, count(13)), None, "as far as before");
        assert_eq!(told(here, None), Some(None), "another place");
        assert_eq!(told(here, count(13)), Some(count(13)));
        let mut again = |at, probed| {
            findings.on_untold(FRA);
            match findings.on_probe(FRA, at, Ok(probed)).0 {
                Some(Operation::Hops { hops, .. }) => hops,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(again(here, None), count(13), "filtered at the moment");
        assert_eq!(again(there, None), None);
        assert_eq!(again(there, None), None, "also that there is none");
        assert!(findings.on_probe(FRA, there, Ok(None)).0.is_none());
    }

    #[test]
    fn a_problem_is_told_once_until_it_changes() {
        let here = "192.0.2.1".parse().unwrap();
        let mut findings = Findings::default();
        let mut said = |probed| findings.on_probe(FRA, here, probed).1;
        let fails = |what: &str| {
            let error = io::Error::other(what.to_owned());
            Err(HopsError::Send { to: here, error })
        };
        let text = said(fails("no route")).unwrap();
        assert!(text.starts_with("hops to 10.7.0.2: cannot send"), "{text}");
        assert_eq!(said(fails("no route")), None);
        assert!(said(fails("not permitted")).is_some());
        assert_eq!(said(Ok(None)), None);
        assert!(said(fails("not permitted")).is_some());
    }
}
