//! Resolves host names of neighbours on a thread of its own, and passes the addresses to the node.
//!
//! ```text
//!   start: each name --lookup--> addresses --choose family, socket--> Locate to the engine
//!   then:  a link that is up: every 5 min, for names that move
//!          a link that is down: 2 s, doubled up to 60 s; each time the next of its addresses
//! ```
//!
//! A lookup can take half a minute if the name server does not answer, so it runs on a thread of its own. Neighbours
//! that are configured by address are not looked up: the node knows them from the start.

use crate::command::Commander;
use crate::log::Lines;
use base::{NodeAddr, UnderlayAddr};
use net::addr::underlay;
use overlay::request::Operation;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How often the name of a neighbour whose link is up is looked up. Choice: the usual lifetime of a DNS record that
/// changes.
const SETTLED: Duration = Duration::from_secs(300);
/// The first pause between lookups while the link is down.
const FIRST_RETRY: Duration = Duration::from_secs(2);
/// The longest such pause.
const LAST_RETRY: Duration = Duration::from_secs(60);
/// How often the links are checked.
const PACE: Duration = Duration::from_secs(1);

/// A neighbour that is configured by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its overlay address.
    pub neighbor: NodeAddr,
    /// Host names or addresses, each with its port.
    pub endpoints: Vec<String>,
}

/// The running thread. Dropping this value ends it, without waiting for a running lookup.
#[derive(Debug)]
pub struct Resolver {
    _alive: SyncSender<()>,
}

impl Resolver {
    /// Resolves `names` for a node that listens on `listen`.
    pub fn start(
        names: Vec<Named>,
        listen: Vec<SocketAddr>,
        commander: Commander,
        lines: Lines,
    ) -> io::Result<Resolver> {
        let (alive, ended) = sync_channel(0);
        let mut lookups: Vec<Lookup> = names
            .into_iter()
            .map(|named| Lookup::new(named, Instant::now()))
            .collect();
        let work = move || {
            // The first lookup does not wait, because it would delay the start by a second.
            let mut wait = Duration::ZERO;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                wait = PACE;
                let now = Instant::now();
                if !lookups.iter().any(|lookup| lookup.due <= now) {
                    continue;
                }
                let Ok(status) = commander.status() else {
                    continue;
                };
                for lookup in lookups.iter_mut().filter(|lookup| lookup.due <= now) {
                    let peer = lookup.named.neighbor.to_string();
                    let link = status.snapshot.links.iter().find(|link| link.peer == peer);
                    let up = link.is_some_and(|link| link.state == "up");
                    let found = look_up(&lookup.named.endpoints);
                    let step = lookup.step(Instant::now(), up, found, &listen);
                    lookup.tell(step, &commander, &lines);
                }
            }
        };
        std::thread::Builder::new()
            .name("resolve".into())
            .spawn(work)?;
        Ok(Resolver { _alive: alive })
    }
}

/// Returns the socket of the host by which `to` can be reached: one of its address family, or else one that supports
/// both.
pub fn socket_for(to: SocketAddr, listen: &[SocketAddr]) -> Option<u8> {
    let same = |l: &&SocketAddr| l.is_ipv4() == to.is_ipv4();
    let loopback = |l: &&SocketAddr| l.ip().is_loopback() == to.ip().is_loopback();
    let any = |l: &&SocketAddr| l.ip().is_unspecified();
    let fits: [&dyn Fn(&&SocketAddr) -> bool; 4] = [
        &|l| same(l) && loopback(l) && !any(l),
        &|l| same(l) && any(l),
        &|l| same(l),
        // A socket bound to `::` supports IPv4 as well.
        &|l| to.is_ipv4() && l.ip() == IpAddr::from([0u16; 8]),
    ];
    let found = fits
        .iter()
        .find_map(|fits| listen.iter().position(|l| fits(&l)));
    found.and_then(|i| u8::try_from(i).ok())
}

/// Looks up all addresses of all names. Returns an error if there is none.
fn look_up(endpoints: &[String]) -> io::Result<Vec<SocketAddr>> {
    let (mut all, mut failed) = (Vec::new(), None);
    for endpoint in endpoints {
        match endpoint.to_socket_addrs() {
            Ok(found) => all.extend(found),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if all.is_empty() => Err(error),
        _ => Ok(all),
    }
}

/// The names of one neighbour, and what the lookups have found.
#[derive(Debug)]
struct Lookup {
    named: Named,
    due: Instant,
    pause: Duration,
    /// Index of the address that is being tried.
    turn: usize,
    told: Option<UnderlayAddr>,
    last_problem: Option<String>,
}

/// The result of a lookup.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Nothing has changed.
    Keep,
    /// The node is to dial the first address, and may use the others.
    Locate(UnderlayAddr, Vec<UnderlayAddr>),
    /// A problem to report to the operator, once.
    Problem(String),
}

impl Lookup {
    fn new(named: Named, now: Instant) -> Lookup {
        Lookup {
            named,
            due: now,
            pause: FIRST_RETRY,
            turn: 0,
            told: None,
            last_problem: None,
        }
    }

    fn step(
        &mut self,
        now: Instant,
        up: bool,
        found: io::Result<Vec<SocketAddr>>,
        listen: &[SocketAddr],
    ) -> Step {
        if up {
            (self.due, self.pause) = (now + SETTLED, FIRST_RETRY);
        } else {
            self.due = now + self.pause;
            self.pause = (self.pause * 2).min(LAST_RETRY);
        }
        let endpoint = self.named.endpoints.join(", ");
        let found = match found {
            Ok(found) => found,
            Err(error) => return self.problem(format!("cannot resolve {endpoint}: {error}")),
        };
        let reach = |to: &SocketAddr| socket_for(*to, listen).map(|i| underlay(*to, i));
        let reachable: Vec<UnderlayAddr> = found.iter().filter_map(reach).collect();
        if reachable.is_empty() {
            return self.problem(format!(
                "{endpoint} has no address of a family that this node listens on: add one to `listen`"
            ));
        }
        self.last_problem = None;
        // While the link is up, its address is kept as long as the name still resolves to it.
        let stays = self
            .told
            .is_some_and(|told| up && reachable.contains(&told));
        if stays {
            return Step::Keep;
        }
        let mut others = reachable;
        let next = others.remove(self.turn % others.len());
        self.turn = self.turn.wrapping_add(1);
        match self.told.replace(next) {
            Some(before) if before == next => Step::Keep,
            _ => Step::Locate(next, others),
        }
    }

    fn problem(&mut self, what: String) -> Step {
        if self.last_problem.as_ref() == Some(&what) {
            return Step::Keep;
        }
        self.last_problem = Some(what.clone());
        Step::Problem(what)
    }

    fn tell(&mut self, step: Step, commander: &Commander, lines: &Lines) {
        match step {
            Step::Keep => {}
            Step::Problem(what) => lines.warn(&what),
            Step::Locate(at, more) => {
                let neighbor = self.named.neighbor;
                match commander.operate(Operation::Locate { neighbor, at, more }) {
                    Ok(Err(why)) => lines.warn(&format!("{neighbor} at {at}: {why}")),
                    Ok(Ok(())) => {}
                    // The loop is busy: report the address again next time.
                    Err(_) => self.told = None,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addrs(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn lookup() -> (Lookup, Instant) {
        let now = Instant::now();
        let named = Named {
            neighbor: NodeAddr(0x0a07_0002),
            endpoints: vec!["fra:7700".into()],
        };
        (Lookup::new(named, now), now)
    }

    #[test]
    fn the_socket_is_of_the_family_of_the_destination() {
        let listen = addrs(&["0.0.0.0:7700", "[::]:7700", "127.0.0.1:7701"]);
        for (to, expected) in [
            ("192.0.2.1:7700", Some(0)),
            ("[2001:db8::1]:7700", Some(1)),
            ("127.0.0.9:7700", Some(2)),
        ] {
            assert_eq!(socket_for(to.parse().unwrap(), &listen), expected, "{to}");
        }
        let v4 = "192.0.2.1:7700".parse().unwrap();
        assert_eq!(
            socket_for(v4, &addrs(&["[::]:7700"])),
            Some(0),
            "both families"
        );
        assert_eq!(socket_for(v4, &addrs(&["[::1]:7700"])), None);
        let v6 = "[2001:db8::1]:7700".parse().unwrap();
        assert_eq!(socket_for(v6, &addrs(&["0.0.0.0:7700"])), None);
    }

    #[test]
    fn a_link_that_stays_down_tries_the_other_addresses_ever_more_slowly() {
        let (mut lookup, mut now) = lookup();
        let listen = addrs(&["0.0.0.0:7700", "[::]:7700"]);
        let found = || Ok(addrs(&["192.0.2.1:7700", "[2001:db8::1]:7700"]));
        let (first, second) = (
            underlay("192.0.2.1:7700".parse().unwrap(), 0),
            underlay("[2001:db8::1]:7700".parse().unwrap(), 1),
        );
        let mut pauses = Vec::new();
        for i in 0..8 {
            let (expected, other) = if i % 2 == 0 {
                (first, second)
            } else {
                (second, first)
            };
            assert_eq!(
                lookup.step(now, false, found(), &listen),
                Step::Locate(expected, vec![other])
            );
            pauses.push(lookup.due.duration_since(now).as_secs());
            now = lookup.due;
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60, 60]);
        // After the link has come up, the address stays, and the short pauses end.
        assert_eq!(lookup.step(now, true, found(), &listen), Step::Keep);
        assert_eq!(lookup.due.duration_since(now), SETTLED);
        // The name resolves to another address.
        let moved = Ok(addrs(&["192.0.2.9:7700"]));
        let there = underlay("192.0.2.9:7700".parse().unwrap(), 0);
        assert_eq!(
            lookup.step(now, true, moved, &listen),
            Step::Locate(there, vec![])
        );
    }

    #[test]
    fn one_name_that_fails_does_not_hide_the_addresses_of_another() {
        let endpoints = [
            "[::1]:7".to_owned(),
            "127.0.0.1:8".to_owned(),
            "no port".to_owned(),
        ];
        assert_eq!(
            look_up(&endpoints).unwrap(),
            addrs(&["[::1]:7", "127.0.0.1:8"])
        );
        assert!(look_up(&endpoints[2..]).is_err());
    }

    #[test]
    fn a_problem_is_told_once_until_it_changes() {
        let (mut lookup, now) = lookup();
        let listen = addrs(&["0.0.0.0:7700"]);
        let fails = || Err(io::Error::other("no such name"));
        assert!(matches!(
            lookup.step(now, false, fails(), &listen),
            Step::Problem(_)
        ));
        assert_eq!(lookup.step(now, false, fails(), &listen), Step::Keep);
        let six = Ok(addrs(&["[2001:db8::1]:7700"]));
        let Step::Problem(what) = lookup.step(now, false, six, &listen) else {
            panic!()
        };
        assert!(what.contains("`listen`"), "{what}");
        assert_eq!(
            lookup.step(now, false, fails(), &listen),
            Step::Problem("cannot resolve fra:7700: no such name".into())
        );
    }
}
