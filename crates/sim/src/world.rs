//! The world: hosts, wires, faults, and what can be asked of them.

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

/// Large packet buffers of a world: 4096 of 64 KiB are 256 MiB at most.
pub const POOL_LARGE: usize = 4096;
/// Small packet buffers of a world: 131 072 of 2 KiB are 256 MiB at most.
pub const POOL_SMALL: usize = 131_072;
/// Wake-ups without time passing, after which the world is taken to stand still.
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
    /// Requests to come, by the number in their wake-up.
    requests: Map<u32, (HostId, ClientId, E::Request)>,
    requests_made: u32,
    /// Datagrams from nowhere, by the number in their wake-up.
    forged: Map<u32, (UnderlayAddr, HostId, Burst)>,
    forged_made: u32,
    /// Hosts that have had inputs since they were last flushed, in order of the first one.
    dirty: Vec<HostId>,
    /// Wake-ups since time last passed.
    events_now: u32,
    journal: Journal<E>,
}

impl<E: Engine> World<E> {
    /// An empty world at time zero.
    pub fn new(seed: u64) -> World<E> {
        World::with_pool(seed, Pool::new(POOL_LARGE, POOL_SMALL))
    }

    /// An empty world whose engines take their packet buffers from `pool`.
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

    /// Adds a host with the address [`underlay`]`(n)`, n hosts being there before it, and a clock
    /// that shows the world's time. Its engine gets a first timeout when time next runs.
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

    /// Gives a host packet buffers of its own, which can end as a real node's do: what it sends, and what
    /// comes, is copied. What its engine has told clients stays in them until [`World::take_replies`].
    pub fn set_pool(&mut self, host: HostId, pool: Pool) {
        self.hosts[host.place()].pool = Some(pool);
    }

    /// Where a host's packet buffers come from.
    pub fn pool_of(&self, host: HostId) -> &Pool {
        self.hosts[host.place()].pool.as_ref().unwrap_or(&self.pool)
    }

    /// Gives a host another clock: its time jumps to what that one shows.
    pub fn set_clock(&mut self, host: HostId, clock: Clock) {
        let h = &mut self.hosts[host.place()];
        h.clock = clock;
        // Of the timer that is queued nobody knows any more whether it is early or late.
        h.wake_at = self.now;
        self.queue.push(self.now, Wake::Timer(host.0));
    }

    /// Tells `trace` of every packet from now on.
    pub fn set_trace(&mut self, trace: impl Trace + 'static) {
        self.journal.trace = Some(Box::new(trace));
    }

    /// Makes the path between two hosts like `model`, in both directions.
    pub fn link(&mut self, a: HostId, b: HostId, model: &Model) {
        self.link_one_way(a, b, model.clone());
        self.link_one_way(b, a, model.clone());
    }

    /// Has the path from `from` to `to`, if there is one, become this one bit by bit: what waits goes on waiting.
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

    /// Makes a further path from one host to another like `model`, or changes it: what the first sends to `called`
    /// arrives as if it came from `seen`. Hosts with several attachments have such paths, each with its own fate.
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

    /// Takes down what a host sends to `called`, or brings it up again.
    pub fn set_outage_by(&mut self, from: HostId, called: UnderlayAddr, outage: bool) {
        if let Some(id) = self.wire_to(from, called) {
            self.wires[id as usize].line.set_outage(outage);
        }
    }

    /// What became of the datagrams that a host has sent to `called`.
    pub fn counts_by(&self, from: HostId, called: UnderlayAddr) -> Counts {
        self.wire_to(from, called)
            .map(|id| self.wires[id as usize].line.pipe().counts())
            .unwrap_or_default()
    }

    /// Bytes of all datagrams that a host has sent to `called`, as [`World::bytes`] counts them.
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

    /// Loses packets on the path from `from` to `to`, if there is one, by a rule of the caller's; see
    /// [`base::impair::Pipe::set_loss_rule`].
    pub fn set_loss_rule(&mut self, from: HostId, to: HostId, rule: LossRule) {
        if let Some(id) = self.wire_id(from, to) {
            self.wires[id as usize].line.set_loss_rule(rule);
        }
    }

    /// Links a host to another, in this direction, through the bottleneck of a link that exists: what
    /// goes here and what goes there share its rate, queue and losses, and what happens to it. Panics if there
    /// is no such link.
    pub fn link_through(&mut self, from: HostId, to: HostId, of: (HostId, HostId)) {
        let through = self.wire_id(of.0, of.1);
        let through = through.expect("the link whose bottleneck is shared exists");
        self.link_one_way(from, to, Model::default());
        let id = self.wire_id(from, to).expect("it was just made");
        self.wires[id as usize].through = Some(through);
    }

    /// A generator made of the world's seed and `words`, for a source of randomness that belongs
    /// to the world: equal words, equal generator, whatever else the world contains.
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

    /// Cuts every path between the hosts of `island` and the others. Earlier partitions remain, so
    /// several islands are cut one after the other.
    pub fn partition(&mut self, island: &[HostId]) {
        for wire in &mut self.wires {
            wire.cut |= island.contains(&wire.from) != island.contains(&wire.to);
        }
    }

    /// Ends all partitions.
    pub fn heal(&mut self) {
        self.wires.iter_mut().for_each(|wire| wire.cut = false);
    }

    /// Takes a host down: its engine is handed back, and what arrives for it is dropped.
    pub fn crash(&mut self, host: HostId) -> Option<E> {
        let host = &mut self.hosts[host.place()];
        host.wake_at = Time::FAR;
        host.stall = None;
        host.engine.take()
    }

    /// Starts a host with a new engine, in place of the one that it may have.
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

    /// Lets datagrams arrive at a host at `at` that say they are from `from`, as whoever writes
    /// what he likes into his packets can make them. No wire is asked.
    pub fn forge_at(&mut self, at: Time, from: UnderlayAddr, to: HostId, burst: Burst) {
        let id = self.forged_made;
        self.forged_made += 1;
        self.forged.insert(id, (from, to, burst));
        self.queue.push(at.max(self.now), Wake::Forged(id));
    }

    /// Lets everything happen up to and including `until`, which then is the present.
    pub fn run_until(&mut self, until: Time) {
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    /// Lets everything happen in the next `span`.
    pub fn run_for(&mut self, span: Duration) {
        self.run_until(self.now + span);
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.now
    }

    /// When something happens next.
    pub fn next_event(&self) -> Option<Time> {
        self.queue.next()
    }

    /// The host's address.
    pub fn addr(&self, host: HostId) -> UnderlayAddr {
        self.hosts[host.place()].addr
    }

    /// The host's engine, unless it is down.
    pub fn engine(&self, host: HostId) -> Option<&E> {
        self.hosts[host.place()].engine.as_ref()
    }

    /// The hosts, in order of being added.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> + use<E> {
        (0..self.hosts.len() as u32).map(HostId)
    }

    /// Where packet buffers come from.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        self.journal.counters
    }

    /// What became of the datagrams that entered the path from one host to another.
    pub fn counts(&self, from: HostId, to: HostId) -> Counts {
        self.wire_id(from, to)
            .map(|id| self.wires[id as usize].line.pipe().counts())
            .unwrap_or_default()
    }

    /// Bytes of all datagrams that entered the path from one host to another, without what UDP and
    /// IP add; those that were dropped there count as well.
    pub fn bytes(&self, from: HostId, to: HostId) -> u64 {
        self.wire_id(from, to)
            .map(|id| self.wires[id as usize].bytes)
            .unwrap_or_default()
    }

    /// What engines have reported since this was last asked.
    pub fn take_events(&mut self) -> Vec<Report<E::Event>> {
        core::mem::take(&mut self.journal.reports)
    }

    /// What clients have been told since this was last asked.
    pub fn take_replies(&mut self) -> Vec<Answer<E::Reply>> {
        core::mem::take(&mut self.journal.answers)
    }

    /// A number made of every arrival so far: when, where, how long, and how it began. Two runs
    /// with equal numbers went the same way.
    pub fn digest(&self) -> u64 {
        self.journal.digest
    }

    /// Ends the world: drops engines, packets under way and records, and checks that every packet
    /// buffer came back.
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
