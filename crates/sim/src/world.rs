//! The world: hosts, wires, faults, and the queries about them.

mod run;
mod stall;

use crate::arrival::Arrivals;
use crate::clock::Clock;
use crate::host::{Host, HostId, Wire, underlay};
use crate::journal::{Answer, Counters, Journal, Leak, Report};
use crate::queue::{Queue, Wake};
use crate::trace::Trace;
use base::impair::{Counts, Line, LossRule, Model};
use base::{Burst, ClientId, Duration, Engine, Map, Pool, Rng, Time, UnderlayAddr};
pub(crate) use stall::Stall;

/// Number of large packet buffers of a world: 4096 of 64 KiB are 256 MiB at most.
pub const POOL_LARGE: usize = 4096;
/// Number of small packet buffers of a world: 131 072 of 2 KiB are 256 MiB at most.
pub const POOL_SMALL: usize = 131_072;
/// Number of wake-ups without time passing, after which the world is considered to stand still.
pub const INSTANT_EVENTS_MAX: u32 = 1 << 20;

/// Hosts with engines, wires between them, and virtual time.
pub struct World<E: Engine> {
    now: Time,
    seed: u64,
    pool: Pool,
    arrivals: Arrivals,
    queue: Queue,
    hosts: Vec<Host<E>>,
    by_addr: Map<UnderlayAddr, HostId>,
    wires: Vec<Wire>,
    /// Future requests, by the number in their wake-up.
    requests: Map<u32, (HostId, ClientId, E::Request)>,
    requests_made: u32,
    /// Forged datagrams that no wire carries, by the number in their wake-up.
    forged: Map<u32, (UnderlayAddr, HostId, Burst)>,
    forged_made: u32,
    /// Hosts that have had inputs since they were last flushed, in order of the first one.
    dirty: Vec<HostId>,
    /// Number of wake-ups since time last passed.
    events_now: u32,
    journal: Journal<E>,
}

impl<E: Engine> World<E> {
    /// Creates an empty world at time zero.
    pub fn new(seed: u64) -> World<E> {
        World::with_pool(seed, Pool::new(POOL_LARGE, POOL_SMALL))
    }

    /// Creates an empty world whose engines take their packet buffers from `pool`.
    pub fn with_pool(seed: u64, pool: Pool) -> World<E> {
        World {
            now: Time::ZERO,
            seed,
            pool,
            arrivals: Arrivals::default(),
            queue: Queue::default(),
            hosts: Vec::new(),
            by_addr: Map::default(),
            wires: Vec::new(),
            requests: Map::default(),
            requests_made: 0,
            forged: Map::default(),
            forged_made: 0,
            dirty: Vec::new(),
            events_now: 0,
            journal: Journal::new(seed),
        }
    }

    /// Chooses how datagrams that arrive together are handed to engines.
    pub fn set_arrivals(&mut self, arrivals: Arrivals) {
        self.arrivals = arrivals;
    }

    /// Adds a host with the address [`underlay`]`(n)`, where n is the number of hosts before it, and a clock that shows
    /// the world's time. Its engine gets a first timeout when time next runs.
    pub fn add_host(&mut self, engine: E) -> HostId {
        let addr = underlay(self.hosts.len() as u32);
        self.add_host_at(addr, Duration::ZERO, engine)
    }

    /// Adds a host with this address, and a clock that is ahead of the world's. Panics if the
    /// address is taken.
    pub fn add_host_at(&mut self, addr: UnderlayAddr, clock_ahead: Duration, engine: E) -> HostId {
        let id = HostId(self.hosts.len() as u32);
        let taken = self.by_addr.insert(addr, id);
        assert!(taken.is_none(), "two hosts with the address {addr}");
        self.hosts.push(Host {
            addr,
            engine: None,
            started: false,
            clock: Clock::new(clock_ahead, 0),
            wires: Map::default(),
            wake_at: Time::FAR,
            dirty: false,
            stall: None,
            pool: None,
        });
        self.restart(id, engine);
        id
    }

    /// Gives a host packet buffers of its own, which can run out as a real node's can: packets that it sends or
    /// receives are copied between its pool and the world's. Replies that its engine gave to clients stay in its
    /// buffers until [`World::take_replies`].
    pub fn set_pool(&mut self, host: HostId, pool: Pool) {
        self.hosts[host.place()].pool = Some(pool);
    }

    /// Returns the pool that a host takes its packet buffers from.
    pub fn pool_of(&self, host: HostId) -> &Pool {
        self.hosts[host.place()].pool.as_ref().unwrap_or(&self.pool)
    }

    /// Gives a host another clock: the host's time jumps to the time that the new clock shows.
    pub fn set_clock(&mut self, host: HostId, clock: Clock) {
        let h = &mut self.hosts[host.place()];
        h.clock = clock;
        // The queued timer may now be early or late, so the host is woken at once to set it anew.
        h.wake_at = self.now;
        self.queue.push(self.now, Wake::Timer(host.0));
    }

    /// Reports every packet to `trace` from now on.
    pub fn set_trace(&mut self, trace: impl Trace + 'static) {
        self.journal.trace = Some(Box::new(trace));
    }

    /// Makes the path between two hosts like `model`, in both directions.
    pub fn link(&mut self, a: HostId, b: HostId, model: &Model) {
        self.link_one_way(a, b, model.clone());
        self.link_one_way(b, a, model.clone());
    }

    /// Changes the path from `from` to `to`, if there is one, to `model` without a restart: waiting packets go on
    /// waiting.
    pub fn follow_one_way(&mut self, from: HostId, to: HostId, model: Model) {
        if let Some(id) = self.wire_id(from, to) {
            self.wires[id as usize].line.follow(model);
        }
    }

    /// Makes the path from one host to another like `model`.
    pub fn link_one_way(&mut self, from: HostId, to: HostId, model: Model) {
        if let Some(id) = self.wire_id(from, to) {
            self.wires[id as usize].line.set_model(model);
            return;
        }
        let ends = (self.hosts[to.place()].addr, self.hosts[from.place()].addr);
        let rng = self.rng_of(&[u64::from(from.0), u64::from(to.0)]);
        self.add_wire((from, to), ends, Line::new(model, rng));
    }

    /// Adds another path from one host to another like `model`, or changes it: what the first host sends to `called`
    /// arrives as if it came from `seen`. Hosts with several attachments have such paths, and each path has its own
    /// impairments.
    pub fn link_by(
        &mut self,
        (from, to): (HostId, HostId),
        (called, seen): (UnderlayAddr, UnderlayAddr),
        model: Model,
    ) {
        if let Some(id) = self.wire_to(from, called) {
            self.wires[id as usize].line.set_model(model);
            return;
        }
        let number = self.hosts[from.place()].wires.len() as u64;
        let rng = self.rng_of(&[u64::from(from.0), u64::from(to.0), number]);
        self.add_wire((from, to), (called, seen), Line::new(model, rng));
    }

    /// Takes down the path of a host to `called`, or brings it up again.
    pub fn set_outage_by(&mut self, from: HostId, called: UnderlayAddr, outage: bool) {
        if let Some(id) = self.wire_to(from, called) {
            self.wires[id as usize].line.set_outage(outage);
        }
    }

    /// Returns what happened to the datagrams that a host has sent to `called`.
    pub fn counts_by(&self, from: HostId, called: UnderlayAddr) -> Counts {
        self.wire_to(from, called)
            .map(|id| self.wires[id as usize].line.pipe().counts())
            .unwrap_or_default()
    }

    /// Returns the bytes of all datagrams that a host has sent to `called`, counted as in [`World::bytes`].
    pub fn bytes_by(&self, from: HostId, called: UnderlayAddr) -> u64 {
        self.wire_to(from, called)
            .map(|id| self.wires[id as usize].bytes)
            .unwrap_or_default()
    }

    fn add_wire(
        &mut self,
        (from, to): (HostId, HostId),
        (called, seen): (UnderlayAddr, UnderlayAddr),
        line: Line<Burst>,
    ) {
        let id = self.wires.len() as u32;
        self.wires.push(Wire {
            line,
            from,
            to,
            seen,
            through: None,
            cut: false,
            bytes: 0,
            queued: Time::FAR,
        });
        self.hosts[from.place()].wires.insert(called, id);
    }

    /// Loses packets on the path from `from` to `to`, if there is one, by a rule of the caller; see
    /// [`base::impair::Pipe::set_loss_rule`].
    pub fn set_loss_rule(&mut self, from: HostId, to: HostId, rule: LossRule) {
        if let Some(id) = self.wire_id(from, to) {
            self.wires[id as usize].line.set_loss_rule(rule);
        }
    }

    /// Links a host to another, in this direction, through the bottleneck of an existing link `of`: both share its
    /// rate, queue, losses and faults. Panics if there is no such link.
    pub fn link_through(&mut self, from: HostId, to: HostId, of: (HostId, HostId)) {
        let through = self.wire_id(of.0, of.1);
        let through = through.expect("the link whose bottleneck is shared exists");
        self.link_one_way(from, to, Model::default());
        let id = self.wire_id(from, to).expect("it was just made");
        self.wires[id as usize].through = Some(through);
    }

    /// Makes a generator of the world's seed and `words`, for a source of randomness that belongs to the world: equal
    /// words give an equal generator, whatever else the world contains.
    pub fn rng_of(&self, words: &[u64]) -> Rng {
        let fold = |seed, word: &u64| Rng::new(seed ^ word).next_u64();
        Rng::new(words.iter().fold(Rng::new(self.seed).next_u64(), fold))
    }

    /// Takes the link between two hosts down, or up again, in both directions.
    pub fn set_outage(&mut self, a: HostId, b: HostId, outage: bool) {
        for (from, to) in [(a, b), (b, a)] {
            if let Some(id) = self.wire_id(from, to) {
                self.wires[id as usize].line.set_outage(outage);
            }
        }
    }

    /// Cuts every path between the hosts of `island` and all other hosts. Earlier partitions remain, so a caller cuts
    /// several islands one after the other.
    pub fn partition(&mut self, island: &[HostId]) {
        for wire in &mut self.wires {
            wire.cut |= island.contains(&wire.from) != island.contains(&wire.to);
        }
    }

    /// Ends all partitions.
    pub fn heal(&mut self) {
        self.wires.iter_mut().for_each(|wire| wire.cut = false);
    }

    /// Takes a host down and returns its engine. The world drops whatever arrives for the host.
    pub fn crash(&mut self, host: HostId) -> Option<E> {
        let host = &mut self.hosts[host.place()];
        host.wake_at = Time::FAR;
        host.stall = None;
        host.engine.take()
    }

    /// Starts a host with a new engine. The new engine replaces an engine that still runs.
    pub fn restart(&mut self, host: HostId, engine: E) {
        let now = self.now;
        let h = &mut self.hosts[host.place()];
        h.engine = Some(engine);
        h.started = false;
        h.stall = None;
        h.wake_at = now;
        self.queue.push(now, Wake::Timer(host.0));
    }

    /// Hands a client's request to a host when time next runs.
    pub fn request(&mut self, host: HostId, client: ClientId, request: E::Request) {
        self.request_at(self.now, host, client, request);
    }

    /// Hands a client's request to a host at `at`, or at once if that has passed.
    pub fn request_at(&mut self, at: Time, host: HostId, client: ClientId, request: E::Request) {
        let id = self.requests_made;
        self.requests_made += 1;
        self.requests.insert(id, (host, client, request));
        self.queue.push(at.max(self.now), Wake::Request(id));
    }

    /// Lets datagrams with the claimed sender `from` arrive at a host at `at`, as an attacker who forges source
    /// addresses could send them. They pass over no wire.
    pub fn forge_at(&mut self, at: Time, from: UnderlayAddr, to: HostId, burst: Burst) {
        let id = self.forged_made;
        self.forged_made += 1;
        self.forged.insert(id, (from, to, burst));
        self.queue.push(at.max(self.now), Wake::Forged(id));
    }

    /// Runs the world up to and including `until`, which then is the present.
    pub fn run_until(&mut self, until: Time) {
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    /// Runs the world for the next `span`.
    pub fn run_for(&mut self, span: Duration) {
        self.run_until(self.now + span);
    }

    /// Returns the present time of the world.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the time of the next wake-up.
    pub fn next_event(&self) -> Option<Time> {
        self.queue.next()
    }

    /// Returns the host's address.
    pub fn addr(&self, host: HostId) -> UnderlayAddr {
        self.hosts[host.place()].addr
    }

    /// Returns the host's engine, unless the host is down.
    pub fn engine(&self, host: HostId) -> Option<&E> {
        self.hosts[host.place()].engine.as_ref()
    }

    /// Returns the hosts, in the order in which they were added.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> + use<E> {
        (0..self.hosts.len() as u32).map(HostId)
    }

    /// Returns the world's packet buffers.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns what has happened so far.
    pub fn counters(&self) -> Counters {
        self.journal.counters
    }

    /// Returns what happened to the datagrams that entered the path from one host to another.
    pub fn counts(&self, from: HostId, to: HostId) -> Counts {
        self.wire_id(from, to)
            .map(|id| self.wires[id as usize].line.pipe().counts())
            .unwrap_or_default()
    }

    /// Returns the bytes of all datagrams that entered the path from one host to another, without UDP and IP headers.
    /// Datagrams that were dropped there count as well.
    pub fn bytes(&self, from: HostId, to: HostId) -> u64 {
        self.wire_id(from, to)
            .map(|id| self.wires[id as usize].bytes)
            .unwrap_or_default()
    }

    /// Returns what engines have reported since the last call.
    pub fn take_events(&mut self) -> Vec<Report<E::Event>> {
        core::mem::take(&mut self.journal.reports)
    }

    /// Returns the replies to clients since the last call.
    pub fn take_replies(&mut self) -> Vec<Answer<E::Reply>> {
        core::mem::take(&mut self.journal.answers)
    }

    /// Returns a hash of every arrival so far: its time, its wire, its length and its first and last bytes. Two runs
    /// with equal digests had the same course.
    pub fn digest(&self) -> u64 {
        self.journal.digest
    }

    /// Ends the world: drops engines, packets under way and records, and checks that every packet buffer was returned.
    pub fn close(self) -> Result<Counters, Leak> {
        let own = self.hosts.iter().filter_map(|host| host.pool.clone());
        let pools: Vec<Pool> = own.chain([self.pool.clone()]).collect();
        let counters = self.journal.counters;
        drop(self);
        let mut leak = Leak::default();
        for pool in &pools {
            let (large, small) = pool.in_use();
            leak.large += large;
            leak.small += small;
            leak.kept_bytes += pool.kept_bytes().0;
        }
        match leak == Leak::default() {
            true => Ok(counters),
            false => Err(leak),
        }
    }

    fn wire_id(&self, from: HostId, to: HostId) -> Option<u32> {
        self.wire_to(from, self.hosts[to.place()].addr)
    }

    fn wire_to(&self, from: HostId, called: UnderlayAddr) -> Option<u32> {
        self.hosts[from.place()].wires.get(&called).copied()
    }
}
