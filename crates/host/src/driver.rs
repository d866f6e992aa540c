//! The event loop itself.
//!
//! ```text
//!   wait (ns timeout of the engine) -> take what is ready, bounded -> handle ... -> send
//!                                   -> timers -> flush -> send what these had to say
//! ```

mod clients;
mod residents;
mod tunnels;

use crate::clients::Clients;
use crate::command::{Command, Commander};
use crate::counters::Counters;
use crate::log::{Lines, Log};
use crate::notify::Watchdog;
use crate::outbox::{Io, OPERATOR};
use crate::resident::Desk;
use crate::station::Station;
use crate::status::{HostStatus, KnownNode, Status, UdpStatus};
use crate::tunnel::Tunnels;
use base::{Burst, ClientId, Duration, Engine, Input, NodeAddr, Pool, Time, UnderlayAddr};
use net::clock::Clock;
use net::epoll::{Interest, Poller, Ready, Waker};
use net::signals::Termination;
use net::udp::{LARGER_BUFFERS, Options, SMALL_BUFFER_BYTES, SendQueue, Socket};
use net::unix::{BindError, SeqListener};
use overlay::link::MAX_LINKS;
use overlay::request::{Operation, RequestError};
use overlay::{Node, Reply, Request};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};

/// Messages taken from one UDP socket per turn. With GRO each may hold 64 datagrams, so a turn handles at most 2048: at
/// 1.5 µs each this takes about 3 ms, which is the longest that a timer waits.
const MESSAGES_PER_TURN: usize = 32;

const TOKEN_WAKER: u64 = 1;
const TOKEN_LISTENER: u64 = 2;
const TOKEN_SIGNAL: u64 = 3;
const TOKEN_UDP: u64 = 16;
const TOKEN_RESIDENTS: u64 = 64;
const TOKEN_TUNNELS: u64 = 1 << 34;
const TOKEN_CLIENTS: u64 = 1 << 32;
const TOKEN_STREAMS: u64 = 1 << 33;
/// How often one turn passes requests to the engine that result from what the engine has just output: Accept, Consumed
/// and what follows from them. The rest is handled in the next turn, which begins at once.
const ASKS_PER_TURN: usize = 4;

/// Everything that a loop needs in addition to its engine.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where the node writes its log.
    pub log: Lines,
    /// The addresses to listen on in the underlay, one socket each, at most 16.
    pub listen: Vec<SocketAddr>,
    /// The clients' socket file and its permissions.
    pub client_socket: Option<(PathBuf, u32)>,
    /// Receive and send whole bursts in one system call, where the kernel can.
    pub offload: bool,
    /// Mark packets with their class (DSCP) for routers.
    pub dscp: bool,
    /// The scheduling class of the loop's thread, for the status.
    pub scheduling: String,
}

/// The DSCP value for each mark: for packets without a class, for the priorities 0 to 7, and for control. Voice and
/// equally urgent packets are marked as expedited forwarding, control as network control. Between them are low latency
/// data and video. [RFC 4594]
const DSCP: [u8; 10] = [0, 0, 0, 18, 34, 46, 46, 46, 46, 48];

/// Why a loop could not start or continue.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A UDP socket could not be opened.
    #[error("cannot listen on {addr}: {}", refused(.addr, .error))]
    Listen {
        /// The address to listen on.
        addr: SocketAddr,
        /// The error that the kernel returned.
        error: io::Error,
    },
    /// The clients' socket could not be opened.
    #[error(transparent)]
    ClientSocket(#[from] BindError),
    /// The kernel refused another operation.
    #[error("the event loop failed: {0}")]
    Io(#[from] io::Error),
}

/// Explains why the address cannot be used, and what to do.
fn refused(addr: &SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrNotAvailable => format!(
            "this host has no address {}: choose one of `ip address` for `listen`, or 0.0.0.0",
            addr.ip()
        ),
        io::ErrorKind::AddrInUse => format!(
            "another program has UDP port {}: choose another `listen` port",
            addr.port()
        ),
        _ => format!("{error}; choose another `listen` address or port"),
    }
}

/// A running node: the engine, its sockets, and its clock.
pub struct Driver {
    station: Station,
    io: Io,
    clock: Clock,
    poller: Poller,
    sockets: Vec<Socket>,
    /// Sockets whose kernel buffer is full: they wait to be writable.
    blocked: Vec<bool>,
    listener: Option<SeqListener>,
    commands: Receiver<Command>,
    commander: Commander,
    waker: Waker,
    termination: Option<Termination>,
    received: Vec<(UnderlayAddr, Burst)>,
    /// The engine got an input after its flush: the next turn begins at once.
    again: bool,
    lodgers: Vec<residents::Lodger>,
    /// Since when each node has been reachable without a break. The entry of this node itself counts from its start.
    reachable_since: BTreeMap<NodeAddr, Time>,
    /// Clients and residents know the present state of the node.
    state_is_told: bool,
    /// Some clients or residents have asked to be informed of the state.
    reach_is_watched: bool,
    wakeups: u64,
    scheduling: String,
    /// When the loop checks the tunnels next.
    tunnels_at: Time,
    watchdog: Option<Watchdog>,
}

/// The version of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Driver {
    /// Opens the sockets. The times that the engine gets are those of `clock`.
    pub fn open(
        setup: &Setup,
        clock: Clock,
        mut node: Node,
        termination: Option<Termination>,
    ) -> Result<Driver, HostError> {
        node.set_version(VERSION);
        let poller = Poller::new()?;
        let waker = Waker::new()?;
        poller.add(&waker, TOKEN_WAKER, Interest::READ)?;
        let mut sockets = Vec::new();
        for (i, &addr) in setup.listen.iter().enumerate().take(16) {
            let options = Options {
                socket: i as u8,
                gro: setup.offload,
                gso: setup.offload,
                dual_stack: crate::addresses::is_of_both(addr, &setup.listen),
            };
            let socket =
                Socket::bind(addr, options).map_err(|error| HostError::Listen { addr, error })?;
            poller.add(&socket, TOKEN_UDP + i as u64, Interest::READ)?;
            warn_of_small_buffer(&socket, &setup.log);
            sockets.push(socket);
        }
        let listener = match &setup.client_socket {
            Some((path, mode)) => {
                let listener = SeqListener::bind(path, *mode)?;
                poller.add(&listener, TOKEN_LISTENER, Interest::READ)?;
                Some(listener)
            }
            None => None,
        };
        if let Some(termination) = &termination {
            poller.add(termination, TOKEN_SIGNAL, Interest::READ)?;
        }
        let queue = || match setup.dscp {
            true => SendQueue::marking(&DSCP),
            false => SendQueue::new(),
        };
        let (commander, commands) = Commander::new(waker.clone());
        let io = Io {
            now: clock.now(),
            pool: Pool::of_node(),
            queues: sockets.iter().map(|_| queue()).collect(),
            clients: Clients::new(node.address()),
            tunnels: Tunnels::new(node.address()),
            tunnels_wanted: None,
            counters: Counters::default(),
            log: Log::new(setup.log.clone()),
            desks: Vec::new(),
            links_up: None,
            routes_changed: false,
            operator_reply: None,
        };
        let node_address = node.address();
        let seed = u64::from(node_address.0) << 32 ^ clock.unix_s();
        Ok(Driver {
            station: Station::new(node, seed),
            io,
            clock,
            poller,
            blocked: vec![false; sockets.len()],
            sockets,
            listener,
            commands,
            commander,
            waker,
            termination,
            received: Vec::new(),
            again: false,
            lodgers: Vec::new(),
            reachable_since: BTreeMap::from([(node_address, clock.now())]),
            state_is_told: false,
            reach_is_watched: false,
            wakeups: 0,
            scheduling: setup.scheduling.clone(),
            tunnels_at: clock.now(),
            watchdog: None,
        })
    }

    /// Returns a handle with which other threads query and command the loop.
    pub fn commander(&self) -> Commander {
        self.commander.clone()
    }

    /// Returns a queue of the neighbours whose links come up or change their address, from now on. One thread may ask.
    /// The queue has room for as many as the node has links; a neighbour that does not fit is not reported.
    pub fn links_up(&mut self) -> Receiver<NodeAddr> {
        let (queue, links_up) = sync_channel(MAX_LINKS);
        self.io.links_up = Some(queue);
        links_up
    }

    /// Reports each turn to `watchdog`, from now on.
    pub fn report_to(&mut self, watchdog: Option<Watchdog>) {
        self.watchdog = watchdog;
    }

    /// Returns the addresses that the UDP sockets are bound to.
    pub fn local_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        self.sockets.iter().map(Socket::local_addr).collect()
    }

    /// Runs until a command or a signal stops it.
    pub fn run(&mut self) -> Result<(), HostError> {
        let mut ready: Vec<Ready> = Vec::new();
        let mut going = true;
        // The engine dials its neighbours before the first wait.
        self.turn(&[], &mut going)?;
        while going {
            let now = self.clock.now();
            let timeout = match core::mem::take(&mut self.again) || self.io.clients.has_asks() {
                true => Some(Duration::ZERO),
                false => self.station.next_timeout().map(|(at, _)| at.since(now)),
            };
            let report = self.watchdog.as_ref().map(|watchdog| watchdog.wait(now));
            let others = self.residents_wait(now).into_iter().chain(report);
            let timeout = timeout.into_iter().chain(others).min();
            self.poller.wait(timeout, &mut ready)?;
            self.wakeups += 1;
            self.turn(&ready, &mut going)?;
            if let Some(watchdog) = &mut self.watchdog {
                watchdog.on_turn(self.io.now);
            }
        }
        self.stop()
    }

    /// Informs neighbours and clients that the node stops, and sends what is still to be sent.
    fn stop(&mut self) -> Result<(), HostError> {
        self.io.now = self.clock.now();
        // The engine never refuses it. A neighbour that misses the farewell notices the silence.
        self.leave_residents();
        let _ = self.operate(Operation::Farewell);
        self.station.flush(self.io.now, &mut self.io);
        self.io.clients.stop();
        self.send()?;
        self.io.log.line("stopped");
        Ok(())
    }

    /// Runs one turn: inputs, timers, flush, outputs.
    fn turn(&mut self, ready: &[Ready], going: &mut bool) -> Result<(), HostError> {
        self.io.now = self.clock.now();
        for event in ready {
            match event.token {
                TOKEN_WAKER => {
                    self.waker.drain();
                    *going &= self.take_commands();
                }
                TOKEN_LISTENER => self.accept(),
                TOKEN_SIGNAL => {
                    let signalled = self.termination.as_ref().is_some_and(|t| t.take() > 0);
                    *going &= !signalled;
                }
                token if token >= TOKEN_TUNNELS => self.on_tunnel((token - TOKEN_TUNNELS) as u32),
                token if token >= TOKEN_STREAMS => {
                    self.on_stream(ClientId((token - TOKEN_STREAMS) as u32), event);
                }
                token if token >= TOKEN_CLIENTS => {
                    self.on_client(ClientId((token - TOKEN_CLIENTS) as u32), event);
                }
                token if token >= TOKEN_RESIDENTS => {
                    self.on_resident((token - TOKEN_RESIDENTS) as usize);
                }
                token => {
                    let i = (token - TOKEN_UDP) as usize;
                    if event.writable {
                        self.unblock(i)?;
                    }
                    self.receive(i);
                }
            }
        }
        // Forwarded packets do not wait for what the node itself has to send.
        self.send()?;
        self.hand_over();
        if self.serve_residents()? {
            self.send()?;
            self.hand_over();
        }
        let now = self.io.now;
        if self.station.next_timeout().is_some_and(|(at, _)| at <= now) {
            self.station.handle(now, Input::Timeout, &mut self.io);
        }
        self.ask_for_streams();
        self.station.flush(now, &mut self.io);
        for _ in 0..ASKS_PER_TURN {
            if !self.io.clients.has_asks() {
                break;
            }
            self.ask_for_streams();
            self.station.flush(now, &mut self.io);
        }
        self.send()?;
        self.hand_over();
        if self.io.desks.iter().any(Desk::has_received) && self.serve_residents()? {
            self.send()?;
        }
        if core::mem::take(&mut self.io.routes_changed) {
            self.note_reachable();
            self.state_is_told = false;
        }
        self.tend_tunnels();
        self.tell_state();
        self.watch_clients();
        Ok(())
    }

    /// Reports the state of the node in the overlay to clients and residents, if it has changed.
    fn tell_state(&mut self) {
        let has_places = self.station.take_has_places();
        let has_untold = self.io.clients.has_untold();
        if core::mem::replace(&mut self.state_is_told, true) && !has_places && !has_untold {
            return;
        }
        if !self.reach_is_watched && (has_untold || !self.io.desks.is_empty()) {
            self.reach_is_watched = true;
            // The engine never refuses it.
            let _ = self.operate(Operation::WatchReach);
        }
        // The node itself is one of them.
        let reaches = self.reachable_since.len() > 1;
        self.io.clients.tell_state(reaches, has_places);
        for desk in &mut self.io.desks {
            desk.tell(reaches, has_places);
        }
        self.again |= self.io.desks.iter().any(Desk::has_received);
    }

    /// Notes which nodes have become reachable, and forgets those that are no longer reachable.
    fn note_reachable(&mut self) {
        let node = self.station.node();
        let before = core::mem::take(&mut self.reachable_since);
        let reachable = node.reachable().chain([node.address()]);
        let since = |node| before.get(&node).copied().unwrap_or(self.io.now);
        self.reachable_since = reachable.map(|node| (node, since(node))).collect();
    }

    fn receive(&mut self, i: usize) {
        let Some(socket) = self.sockets.get_mut(i) else {
            return;
        };
        // Errors of a datagram socket concern single packets; the socket stays usable.
        let _ = socket.recv_batch(&self.io.pool, &mut self.received, MESSAGES_PER_TURN);
        for (from, burst) in self.received.drain(..) {
            self.station
                .handle(self.io.now, Input::Datagrams { from, burst }, &mut self.io);
        }
    }

    fn send(&mut self) -> Result<(), HostError> {
        for i in 0..self.sockets.len() {
            let queue = &mut self.io.queues[i];
            if queue.is_empty() {
                continue;
            }
            if self.blocked[i] {
                queue.keep(&self.io.pool);
                continue;
            }
            let sent = self.sockets[i].send_batch(queue);
            if sent.gso_refused {
                let what = "the network device refuses bursts (GSO): sending packets one by one";
                self.io.log.line(what);
            }
            for (to, bytes) in self.sockets[i].too_long() {
                let input = Input::TooLong { to, bytes };
                self.station.handle(self.io.now, input, &mut self.io);
                self.again = true;
            }
            if sent.blocked {
                self.blocked[i] = true;
                self.io.queues[i].keep(&self.io.pool);
                let token = TOKEN_UDP + i as u64;
                self.poller
                    .modify(&self.sockets[i], token, Interest::READ_WRITE)?;
            }
        }
        Ok(())
    }

    fn unblock(&mut self, i: usize) -> Result<(), HostError> {
        if core::mem::take(&mut self.blocked[i]) {
            let token = TOKEN_UDP + i as u64;
            self.poller
                .modify(&self.sockets[i], token, Interest::READ)?;
        }
        Ok(())
    }

    /// Handles commands of other threads. Returns false if the loop has to end.
    fn take_commands(&mut self) -> bool {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Stop => return false,
                // The thread that asked may have ended.
                Command::Status(answer) => drop(answer.send(Box::new(self.status()))),
                Command::Network(answer) => {
                    let snapshot = self.station.node().network_snapshot(self.clock.now());
                    let _ = answer.send(Box::new(snapshot));
                }
                Command::Groups(only, answer) => {
                    let groups = self.station.group_statuses(self.clock.now(), only);
                    let _ = answer.send(groups);
                }
                Command::Admission(setting, answer) => {
                    let _ = answer.send(self.station.node().admission(&setting));
                }
                Command::OwnRules(range, answer) => {
                    let _ = answer.send(self.station.node().own_rules(range));
                }
                Command::Trust(answer) => {
                    let _ = answer.send(Box::new(self.station.node().network().clone()));
                }
                Command::WatchPaths(neighbor, answer) => {
                    // A node that is no neighbour has no paths to report.
                    let _ = self.operate(Operation::WatchPaths(neighbor));
                    let healths = self.station.node().path_healths(self.io.now, neighbor);
                    let _ = answer.send(healths);
                }
                Command::Tunnel(offer) => self.take_tunnel(*offer),
                Command::Operate(operation, answer) => {
                    let _ = answer.send(self.operate(operation));
                }
            }
        }
        true
    }

    /// Sends the engine a request of its operator.
    pub fn operate(&mut self, operation: Operation) -> Result<(), RequestError> {
        let request = Request::Operate(operation);
        let input = Input::Request {
            client: OPERATOR,
            request,
        };
        self.station.handle(self.io.now, input, &mut self.io);
        match self.io.operator_reply.take() {
            Some(Reply::Refused(why)) => Err(why),
            _ => Ok(()),
        }
    }

    /// Returns everything about the present state of the node, except its relay service, which [`Commander`] adds.
    pub fn status(&self) -> Status {
        let mut udp = UdpStatus::default();
        for (socket, queue) in self.sockets.iter().zip(&self.io.queues) {
            udp.add(
                socket.counters(),
                socket.kernel_drops().unwrap_or(0),
                queue.dropped(),
            );
        }
        let (buffers_large, buffers_small) = self.io.pool.in_use();
        let (kept_bytes, kept_bytes_limit) = self.io.pool.kept_bytes();
        let listen = self.local_addrs().unwrap_or_default();
        // Programs that ask for it may run in another directory.
        let client_socket = self.listener.as_ref().map(|listener| {
            let path = listener.path();
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            path.display().to_string()
        });
        let host = HostStatus {
            version: VERSION,
            pid: std::process::id(),
            listen: listen.iter().map(SocketAddr::to_string).collect(),
            client_socket,
            clients: self.io.clients.len(),
            tunnels: self.io.tunnels.len(),
            scheduling: self.scheduling.clone(),
            cpu_s: net::sched::thread_cpu().as_secs_f64(),
            wakeups: self.wakeups,
            buffers_large,
            buffers_small,
            kept_bytes,
            kept_bytes_limit,
            udp,
        };
        let snapshot = self.station.node().snapshot(self.io.now);
        let at = (self.io.now, Clock::new().unix_s());
        Status {
            nodes: KnownNode::all(self.station.node().database(), &snapshot, at, |node| {
                let since = self.reachable_since.get(&node)?;
                Some(self.io.now.since(*since))
            }),
            snapshot,
            counters: self.io.counters.clone(),
            host,
            groups: self.station.group_totals(self.io.now),
            bridges: self.bridges(),
            bulk: None,
            gate: None,
            mapping: None,
            issuer: None,
        }
    }

    /// Returns how often the loop woke up, for benchmarks.
    pub fn wakeups(&self) -> u64 {
        self.wakeups
    }

    /// Returns the counters of the UDP sockets.
    pub fn socket_counters(&self) -> impl Iterator<Item = &net::udp::Counters> {
        self.sockets.iter().map(Socket::counters)
    }
}

/// Warns if the kernel buffers too little for a node that is not scheduled for a moment.
fn warn_of_small_buffer(socket: &Socket, lines: &Lines) {
    if let Ok((receive, _)) = socket.kernel_buffers()
        && receive < SMALL_BUFFER_BYTES
    {
        lines.warn(&format!(
            "the kernel holds only {} kB for this node, so packets are lost while this machine is busy: run {LARGER_BUFFERS}",
            receive / 1_000
        ));
    }
}

impl core::fmt::Debug for Driver {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Driver {
            station, sockets, ..
        } = self;
        f.debug_struct("Driver")
            .field("node", &station.node().address())
            .field("sockets", sockets)
            .finish_non_exhaustive()
    }
}
