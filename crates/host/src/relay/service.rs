//! The relay service of a node: which connections it accepts, and in how many transfers it takes part.
//!
//! ```text
//!   doors ──▶ places ──▶ a thread: greeting ─┬─▶ control: Open ─▶ a transfer, on this thread
//!                                            └─▶ data ──▶ to the transfer that waits for it
//! ```
//! A peer that is no node of this network costs a place and a thread while it greets; nothing of it is kept. All events
//! are counted in the [`Ledger`].

#[cfg(test)]
mod tests;

use super::allow::Rights;
use super::dial::prepare;
use super::door::{Door, GREETING_MAX, GREETING_SHARE, Guest};
use super::duplex::{Duplex, Peer, Received};
use super::ends::Part;
use super::failure::{Failure, FailureKind};
use super::greeting::{self, Wish};
use super::ledger::{Entered, Ledger, Limits, TurnedAway};
use super::ordered::{self, Beginner, Counted};
use super::place::Place;
use super::probe;
use super::recent::Recent;
use super::roots::{Keeping, Root, Roots};
use super::socket::Data;
use super::stage::{self, End};
use super::stripes::Stripes;
use super::tls::Trust;
use super::transfer::Transfer;
use super::vain::Vain;
use super::willing::Teller;
use crate::admission::{self, Admission, Admitted, Known, Refused};
use crate::command::Commander;
use crate::control::{ControlError, Listener};
use crate::log::{Fields, Lines, Log};
use crate::tunnel;
use base::NodeAddr;
use net::Clock;
use net::epoll::Waker;
use net::places::Places;
use overlay::snapshot::NamedNode;
use secure::{Certificate, Identity, Network};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use wire::certificate::Pattern;
use wire::relay::{Carried, Message, Open, Ordered};

/// The stack may be small, because a thread has its buffers on the heap.
const STACK_BYTES: usize = 512 << 10;

/// The settings of a service.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The TCP addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// The operator's socket file.
    pub socket: Option<PathBuf>,
    /// The limits of the service.
    pub limits: Limits,
    /// The nodes for whose transfers it passes data on between other nodes.
    pub passes: Passes,
    /// The directories that are served.
    pub roots: Vec<Root>,
    /// The file with a renewed certificate.
    pub certificate: Option<PathBuf>,
    /// The admission of hosts that become nodes by this one.
    pub admission: Option<Arc<Admission>>,
    /// Neighbours whose UDP packets do not get through may make links over TLS.
    pub links: bool,
}

/// The nodes for which a node relays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passes {
    /// For every node of the network.
    All,
    /// For none.
    Nobody,
    /// For transfers that these nodes have begun: by name, by how names end (`*-backup`), by address, or by a tag or a
    /// domain of their certificates (`tag:backup`, `@backup.example`).
    Some(Vec<String>),
}

impl Passes {
    /// Returns true if no node is permitted. An empty list counts as such.
    pub(super) fn is_nobody(&self) -> bool {
        match self {
            Passes::All => false,
            Passes::Nobody => true,
            Passes::Some(words) => words.is_empty(),
        }
    }
}

/// Why a service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The service cannot listen on an address.
    #[error(
        "cannot listen at TCP {listen} for bulk data and links over TCP: {error}; choose another `[relay] listen` or `tcp`"
    )]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// The error that the kernel returned.
        error: io::Error,
    },
    /// The operator's socket cannot be opened.
    #[error(transparent)]
    Socket(#[from] ControlError),
    /// TLS does not accept the node's keys.
    #[error("the node's key: {0}")]
    Key(#[from] rustls::Error),
    /// The system refused another operation.
    #[error("the relay service: {0}")]
    Io(#[from] io::Error),
}

/// A running service. After it is dropped, it accepts no new transfers; running ones end with the process.
#[derive(Debug)]
pub struct Service {
    threads: Vec<JoinHandle<()>>,
    stopping: Arc<AtomicBool>,
    wakers: Vec<Waker>,
    _teller: Teller,
}

impl Service {
    /// Listens, and serves connections on its own threads.
    pub fn start(
        settings: &Settings,
        identity: Identity,
        network: Network,
        commander: Commander,
        lines: Lines,
    ) -> Result<Service, ServeError> {
        let strangers = Arc::new(Places::new(GREETING_MAX, GREETING_SHARE));
        let ledger = Arc::new(Ledger::new(
            identity.address(),
            settings.limits.clone(),
            Arc::clone(&strangers),
        ));
        commander.tell_of(&ledger);
        if let Some(admission) = &settings.admission {
            commander.tell_of_issuer(admission.delegations().cloned().collect());
        }
        let roots = Roots::new(identity.address(), settings.roots.clone());
        let certificate = settings.certificate.clone();
        let teller = Teller::start(commander.clone(), Arc::clone(&ledger), &settings.passes)?;
        let node = Arc::new(Node {
            trust: Trust::new(identity, certificate, network, commander)?,
            roots,
            passes: settings.passes.clone(),
            admission: settings.admission.clone(),
            links: settings.links,
            ledger,
            stripes: Stripes::default(),
            recent: Arc::new(Recent::new()),
            vain: Vain::new(),
            counted: Counted::default(),
            clock: Clock::new(),
            log: Mutex::new(Log::new(lines.clone())),
            lines,
        });
        let mut doors = Vec::new();
        for &listen in &settings.listen {
            let is_of_both = crate::addresses::is_of_both(listen, &settings.listen);
            let bound = net::tcp::listen(listen, is_of_both);
            let listener = bound.map_err(|error| ServeError::Listen { listen, error })?;
            doors.push(Door::tcp(listener, &strangers));
        }
        if let Some(path) = &settings.socket {
            doors.push(Door::unix(Listener::bind(path)?));
        }
        let mut service = Service {
            threads: Vec::new(),
            stopping: Arc::default(),
            wakers: Vec::new(),
            _teller: teller,
        };
        for door in doors {
            let (node, stopping) = (Arc::clone(&node), Arc::clone(&service.stopping));
            let waker = Waker::new()?;
            service.wakers.push(waker.clone());
            let thread = thread::Builder::new().name("relay".into());
            let listen = move || {
                door.listen(&waker, &stopping, &node.ledger, |guest| node.admit(guest));
            };
            service.threads.push(thread.spawn(listen)?);
        }
        Ok(service)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.wakers.iter().for_each(Waker::wake);
        for thread in self.threads.drain(..) {
            // A panic of that thread was already reported there.
            let _ = thread.join();
        }
    }
}

/// The node's knowledge of other nodes.
struct Neighbourhood<'a> {
    nodes: &'a [NamedNode],
    revoked: Network,
}

impl Known for Neighbourhood<'_> {
    fn has_name(&self, name: &str) -> bool {
        let mut names = self.nodes.iter().filter_map(|node| node.name.as_deref());
        names.any(|known| known.eq_ignore_ascii_case(name))
    }

    fn has_address(&self, address: NodeAddr) -> bool {
        let address = address.to_string();
        self.nodes.iter().any(|node| node.address == address)
    }

    fn has_revoked(&self, certificate: &Certificate) -> bool {
        self.revoked.has_revoked(certificate)
    }
}

/// The request of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Copy,
    Probe,
}

struct Node {
    trust: Trust,
    roots: Roots,
    passes: Passes,
    admission: Option<Arc<Admission>>,
    links: bool,
    ledger: Arc<Ledger>,
    stripes: Stripes,
    recent: Arc<Recent>,
    vain: Vain,
    counted: Counted,
    clock: Clock,
    log: Mutex<Log>,
    /// For log lines that strangers cannot provoke.
    lines: Lines,
}

impl Node {
    /// Writes a log line that any peer can provoke.
    fn log(&self, event: &'static str, text: &str) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let fields = || Fields::event(event);
        log.limited(self.clock.now(), "bulk transfers", text, fields);
    }

    /// Starts a thread for a connection.
    fn admit(self: &Arc<Node>, guest: Guest) {
        let node = Arc::clone(self);
        let thread = thread::Builder::new().name("relay-greet".into());
        let started = thread
            .stack_size(STACK_BYTES)
            .spawn(move || node.greet(guest));
        if started.is_err() {
            self.ledger.turn_away(TurnedAway::NoRoom);
            self.log(
                "bulk-refused",
                "a bulk transfer was turned away: no thread could be started",
            );
        }
    }

    /// Reads what the connection wants, and handles it.
    fn greet(&self, guest: Guest) {
        match greeting::hear(&self.trust, &guest) {
            Ok(Wish::Control {
                control,
                key,
                asked,
            }) => self.converse(&control, key, guest, &asked),
            Ok(Wish::Data(stripe)) => {
                if guest.leave() && !self.stripes.claim(stripe) {
                    self.ledger.turn_away(TurnedAway::Unclaimed);
                }
            }
            Ok(Wish::Link(data, key)) => self.link(data, &key, guest),
            // A connection that was shut down was already counted.
            Err(why) if guest.leave() => self.ledger.turn_away(why),
            Err(_) => {}
        }
    }

    /// Carries a link of a node of this network. Until the peer has proved to be one, it keeps a stranger's place, and
    /// gets no answer.
    fn link(&self, mut data: Data, key: &[u8; 32], guest: Guest) {
        let shown = tunnel::read_hello(&mut data);
        let judged = match shown {
            Ok(shown) if self.links => self.trust.judge(&shown, key).ok(),
            Ok(_) => None,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
            Err(_) => {
                if guest.leave() {
                    self.ledger.turn_away(TurnedAway::Ended);
                }
                return;
            }
        };
        let at = data.socket.tcp().and_then(|tcp| tcp.peer_addr().ok());
        let (Some(node), Some(at)) = (judged, at) else {
            if guest.leave() {
                self.ledger.turn_away(TurnedAway::Stranger);
            }
            return;
        };
        let has_answered = tunnel::write_hello(&mut data, &self.trust.certificate()).is_ok();
        if guest.leave() && has_answered {
            // The engine notices the end of the tunnel by its address.
            let _ = tunnel::carry(self.trust.commander(), data, (node, at), false);
        }
    }

    /// Serves a transfer, or answers why not.
    fn converse(
        &self,
        control: &Arc<Duplex>,
        key: Option<[u8; 32]>,
        guest: Guest,
        asked: &Received,
    ) {
        let here = self.trust.own();
        let (open, probe) = match asked.message() {
            Ok(Message::Open(open)) => (open, None),
            Ok(Message::Probe(bytes, open)) => (open, Some(bytes)),
            Ok(asked @ (Message::Join(_) | Message::Renew(_))) => {
                self.welcome(control, &asked, key);
                return control.close();
            }
            _ => {
                let text = "this is not understood: run one version on all nodes";
                control.fail(&Failure::new(here, FailureKind::Unusable, text));
                self.ledger.turn_away(TurnedAway::Malformed);
                return control.close();
            }
        };
        let who = match guest.socket.tcp() {
            None => Ok(here),
            Some(_) => self.judge(&open, key),
        };
        // A peer keeps a stranger's place until it is known whether it is a stranger.
        if !guest.leave() {
            return control.close();
        }
        let served = match who {
            Err(why) => {
                self.ledger.refuse(why.kind);
                Err(why)
            }
            Ok(node) => {
                let control = Arc::clone(control);
                let peer = Peer { node, control };
                match probe {
                    None => self.serve(&open, &peer, key),
                    Some(bytes) => self.probe(bytes, &open, &peer, key),
                }
            }
        };
        if let Err(failure) = served {
            control.fail(&failure);
            self.log(
                "bulk-failed",
                &format!("a bulk transfer has failed: {failure}"),
            );
        }
        control.close();
    }

    /// Answers a host that was invited, or a node whose certificate expires soon. The stranger's place is held until
    /// the answer is sent.
    fn welcome(&self, control: &Duplex, asked: &Message<'_>, key: Option<[u8; 32]>) {
        let here = self.trust.own();
        let admitted = self.admit_by(asked, key);
        let (admitted, line) = match admitted {
            Ok(admitted) => {
                let fields = admitted.certificate.fields();
                let did = match asked {
                    Message::Renew(_) => "renewed",
                    _ => "joined",
                };
                let line = format!(
                    "{} at {} has {did}: certificate {}",
                    fields.subject.name, fields.subject.address, fields.serial
                );
                (admitted, line)
            }
            Err(why) => {
                self.ledger.refuse(why.kind);
                self.log(
                    "admission-refused",
                    &format!("a host was not admitted: {}", why.text),
                );
                return control.fail(&Failure::new(here, why.kind, why.text));
            }
        };
        let is_renewal = matches!(asked, Message::Renew(_));
        let trust = self.trust.network();
        if !admitted.tells_of.is_empty() {
            // If this fails, sending the answer fails, too.
            let _ = admission::tell_of(&admitted.tells_of, |issuers| {
                control.send(&Message::Issuers(issuers))
            });
        }
        let sent = admission::answer(&admitted, (&trust, is_renewal), |joined| {
            control.send(&Message::Joined(joined))
        });
        match sent {
            Ok(()) if admitted.is_repeated => {}
            Ok(()) => self.lines.say(&line),
            Err(error) => self.log(
                "admission-lost",
                &format!("{line}, and has gone before it was told: {error}"),
            ),
        }
    }

    fn admit_by(&self, asked: &Message<'_>, key: Option<[u8; 32]>) -> Result<Admitted, Refused> {
        let here = self.trust.own();
        let refused = |text: String| Refused {
            kind: FailureKind::Forbidden,
            text,
        };
        let admission = self.admission.as_ref().ok_or_else(|| {
            Refused::unable(format!(
                "{here} issues no certificates: see `sinew net delegate`"
            ))
        })?;
        let key = key.ok_or_else(|| refused("it shows no key".to_owned()))?;
        let now_s = self.clock.unix_s();
        let network = self.trust.commander().network().map_err(|why| Refused {
            kind: FailureKind::Busy,
            text: why.to_string(),
        })?;
        let known = Neighbourhood {
            nodes: &network.nodes,
            revoked: self.trust.network(),
        };
        match asked {
            Message::Renew(certificate) => {
                let judged = self.trust.judge_member(certificate, &key);
                judged.map_err(|why| refused(why.to_string()))?;
                let shown = Certificate::from_bytes(certificate);
                let shown = shown.map_err(|why| refused(why.to_string()))?;
                admission.renew_shown(now_s, &shown, &key, &self.trust.network(), &known)
            }
            Message::Join(ask) => admission.join(now_s, ask, &key, &known),
            _ => Err(refused("this is no question for an issuer".to_owned())),
        }
    }

    fn judge(&self, open: &Open<'_>, key: Option<[u8; 32]>) -> Result<NodeAddr, Failure> {
        let here = self.trust.own();
        let forbidden = |why: &dyn std::fmt::Display| {
            let text = format!("the node that asks is not believed: {why}");
            Failure::new(here, FailureKind::Forbidden, text)
        };
        let key = key.ok_or_else(|| forbidden(&"it shows no key"))?;
        let judged = self.trust.judge(open.certificate, &key);
        judged.map_err(|why| forbidden(&why))
    }

    fn serve(&self, open: &Open<'_>, peer: &Peer, key: Option<[u8; 32]>) -> Result<(), Failure> {
        // The transfer begins here, with the key in the request.
        let told = open.ordered.try_into().ok().filter(|_| key.is_none());
        let ordered = told.map(|told| ordered::sign(&self.trust, open, told, self.clock.unix_s()));
        let open = &Open {
            ordered: ordered.as_deref().unwrap_or(open.ordered),
            ..*open
        };
        let entered = self.enter(open, peer, Asks::Copy)?;
        let transfer = entered.account.transfer();
        let part = match self.end(open, key.is_none()) {
            Ok(part) => part,
            Err(why) => {
                entered.refuse(&why);
                return Err(why);
            }
        };
        transfer.add_control(&peer.control);
        let stripes = self.stripes((open, transfer), peer, key);
        let limits = self.ledger.limits();
        let served = stripes.and_then(|stripes| {
            let rights = match key {
                None => Rights::Operator,
                Some(_) => Rights::Others(&limits.allow),
            };
            let trust = (&self.trust, rights);
            let books = (&entered.account, &self.recent);
            stage::run(trust, open, peer, stripes, part, books)
        });
        // The reason is what ended the transfer, and not a connection that broke because of it.
        let served = served.map_err(|why| transfer.failure().unwrap_or(why));
        entered.end(&served);
        served
    }

    /// Measures what the last segment of a route carries, or passes the request on. Both take a place.
    fn probe(
        &self,
        bytes: u64,
        open: &Open<'_>,
        peer: &Peer,
        key: Option<[u8; 32]>,
    ) -> Result<(), Failure> {
        let entered = self.enter(open, peer, Asks::Probe)?;
        let transfer = entered.account.transfer();
        transfer.add_control(&peer.control);
        let limits = self.ledger.limits();
        let rights = match key {
            None => Rights::Operator,
            Some(_) => Rights::Others(&limits.allow),
        };
        let trust = (&self.trust, rights);
        // If a user asks for a probe explicitly, it always runs.
        let is_wanted = bytes == u64::MAX;
        let bytes = bytes.min(limits.probe_bytes);
        let next = probe::is_here(&open.route).then(|| open.route.below().next());
        let to = next.flatten().map(|next| next.node);
        if let Some(to) = to.filter(|to| !is_wanted && self.vain.is(*to, open.congestion, bytes)) {
            let certificate = self.trust.certificate();
            let ends = (self.trust.own(), to);
            probe::answer(&peer.control, ends, Carried::default(), &certificate);
            entered.end(&Ok(()));
            return Ok(());
        }
        let served = if !probe::is_here(&open.route) {
            probe::pass_on(trust, bytes, open, transfer).map(|(from, to, carried)| {
                let certificate = self.trust.certificate();
                probe::answer(&peer.control, (from, to), carried, &certificate);
            })
        } else if bytes == 0 {
            let text = "it sends nothing to find out: `[relay] probe` of its configuration is 0";
            Err(Failure::new(self.trust.own(), FailureKind::Forbidden, text))
        } else {
            let found = Arc::new(AtomicBool::new(false));
            let run = stage::run(
                trust,
                open,
                peer,
                Vec::new(),
                (End::Probe(bytes, Arc::clone(&found)), None),
                (&entered.account, &self.recent),
            );
            // A probe that was broken off shows nothing.
            if let Some(to) = to.filter(|_| run.is_ok()) {
                let has_found = found.load(Ordering::Relaxed);
                self.vain.keep(to, open.congestion, bytes, has_found);
            }
            run
        };
        let served = served.map_err(|why| match transfer.failure() {
            Some(failure) if failure.kind != FailureKind::Over => failure,
            _ => why,
        });
        entered.end(&served);
        served
    }

    /// Enters a transfer into the books, unless it is not permitted or there are too many.
    fn enter(&self, open: &Open<'_>, peer: &Peer, asks: Asks) -> Result<Entered, Failure> {
        let here = self.trust.own();
        let refused = if open.route.node != here {
            let text = format!("this is {here}, and {} is asked for", open.route.node);
            Failure::new(here, FailureKind::Unusable, text)
        } else if let Err(refused) = self.passes_on(open, peer.node, asks) {
            refused
        } else if let Some(entered) = self.ledger.begin(open, peer.node) {
            return Ok(entered);
        } else {
            let text = format!(
                "it has a part in {} transfers already, as many as `[relay] transfers` permits: try \
                 again later",
                self.ledger.limit()
            );
            Failure::new(here, FailureKind::Busy, text)
        };
        self.ledger.refuse(refused.kind);
        Err(refused)
    }

    /// Checks the permission for a transfer that neither ends at this node nor comes from it: it is passed on for the
    /// nodes for which this node relays. Nobody signs a probe that begins at another node, so there the neighbour that
    /// asks decides.
    fn passes_on(&self, open: &Open<'_>, peer: NodeAddr, asks: Asks) -> Result<(), Failure> {
        let here = self.trust.own();
        let forbidden = |text: String| Err(Failure::new(here, FailureKind::Forbidden, text));
        if open.route.path.is_some() || peer == here {
            return Ok(());
        }
        let words = match &self.passes {
            Passes::All => return Ok(()),
            Passes::Nobody => {
                let text = "it relays for nobody: `[relay] passes` of its configuration says so";
                return forbidden(text.to_owned());
            }
            Passes::Some(words) => words,
        };
        let certificate = match asks {
            Asks::Probe if open.ordered.is_empty() => {
                // The certificate was checked when the neighbour connected.
                let certificate = Certificate::from_bytes(open.certificate);
                certificate.map_err(|why| {
                    let text = format!("the node that asks is not believed: {why}");
                    Failure::new(here, FailureKind::Forbidden, text)
                })?
            }
            _ => ordered::judge(&self.trust, open, self.clock.unix_s())?.certificate,
        };
        let fields = certificate.fields();
        match Pattern::any_names(words, &fields) {
            true => Ok(()),
            false => forbidden(format!(
                "it relays for some nodes, and {} is none of them: `[relay] passes` of its configuration \
                 names them",
                fields.subject.name
            )),
        }
    }

    /// Returns this node's role besides passing data on, and the keys that it agrees on with the node that began the
    /// transfer.
    fn end(&self, open: &Open<'_>, is_own: bool) -> Result<(End, Option<Part>), Failure> {
        let Some(path) = open.route.path else {
            return Ok((End::Nothing, None));
        };
        let is_noise = open.ordered.is_empty() && open.route.discard && !open.pull;
        if is_noise {
            return Ok((End::Sink(Place::Discard), None));
        }
        let (beginner, part) = self.part(open, is_own)?;
        let end = match open.pull {
            false if open.route.discard => End::Sink(Place::Discard),
            false => End::Sink(
                self.roots
                    .place(path, Keeping::of(open), beginner.as_ref())?,
            ),
            true => End::Source(Box::new(self.roots.tree(path, beginner.as_ref())?)),
        };
        // An order that is not permitted does not use up its one time.
        if let Some(beginner) = &beginner {
            let order = (beginner, open.transfer);
            self.counted
                .enter(self.trust.own(), order, self.clock.unix_s())?;
        }
        Ok((end, Some(part)))
    }

    /// Returns who began the transfer, unless it is the operator of this node, and the key agreement with that node.
    fn part(&self, open: &Open<'_>, is_own: bool) -> Result<(Option<Beginner>, Part), Failure> {
        let here = self.trust.own();
        if is_own {
            let unusable = |why| Failure::new(here, FailureKind::Unusable, why);
            let ordered = Ordered::parse(open.ordered).map_err(unusable)?;
            let part = Part::take(&self.trust, &open.transfer, (here, &ordered.key))?;
            return Ok((None, part));
        }
        let beginner = ordered::judge(&self.trust, open, self.clock.unix_s())?;
        let part = Part::take(
            &self.trust,
            &open.transfer,
            (beginner.node(), &beginner.key),
        )?;
        Ok((Some(beginner), part))
    }

    /// Waits for the stripes of a transfer, and returns them in order.
    fn stripes(
        &self,
        (open, transfer): (&Open<'_>, &Transfer),
        peer: &Peer,
        key: Option<[u8; 32]>,
    ) -> Result<Vec<Data>, Failure> {
        let here = self.trust.own();
        let broken = |error: io::Error| Failure::broken(here, peer.node, &error);
        let unusable = |text: &str| Failure::new(here, FailureKind::Unusable, text);
        let is_local = key.is_none();
        let expected = self
            .stripes
            .expect(open.transfer, is_local, open.route.stripes.into())
            .map_err(broken)?
            .ok_or_else(|| {
                unusable("a transfer of this name is on its way: a route goes through a node once")
            })?;
        let certificate = match key {
            Some(_) => self.trust.certificate(),
            None => Vec::new(),
        };
        let attach = Message::Attach {
            ticket: expected.ticket,
            certificate: &certificate,
        };
        peer.control.send(&attach).map_err(broken)?;
        let come = expected.collect(transfer).map_err(broken)?;
        for data in come.iter().filter(|_| open.pull) {
            prepare(data, open.congestion).map_err(|text| unusable(&text))?;
        }
        Ok(come)
    }
}
