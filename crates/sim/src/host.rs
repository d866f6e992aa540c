//! A host: an engine with an address, a clock, and an outbox that leads onto the wires.

use crate::clock::Clock;
use crate::journal::{Answer, Journal, Report};
use crate::queue::{Queue, Wake};
use crate::trace::{Fate, Packet};
use crate::world::Stall;
use base::impair::{Line, Verdict};
use base::pool::COPY_BYTES_MAX;
use base::{Burst, ClientId, Engine, Map, Outbox, Pool, Time, UnderlayAddr};
use core::fmt;

/// A host of a world, numbered from zero in the order of being added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub(crate) u32);

/// Returns the default address of the `n`th host: 10.0.0.0 + n + 1, port 7000.
pub fn underlay(n: u32) -> UnderlayAddr {
    let mut ip = [0; 16];
    ip[10..12].fill(0xff);
    ip[12..].copy_from_slice(&(0x0a00_0001 + n % 0x00ff_fffe).to_be_bytes());
    UnderlayAddr {
        ip,
        port: 7000,
        socket: 0,
        local: 0,
    }
}

/// Returns the address of a host's `n`th attachment to the underlay, used through the sender's own socket of the same
/// number. The first attachment has the host's address.
pub fn attachment(addr: UnderlayAddr, n: u8) -> UnderlayAddr {
    let mut at = UnderlayAddr { socket: n, ..addr };
    at.ip[12] = at.ip[12].wrapping_add(n);
    at
}

impl HostId {
    /// The host's number.
    pub fn place(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host {}", self.0)
    }
}

pub(crate) struct Host<E> {
    pub(crate) addr: UnderlayAddr,
    /// `None` while the host is down.
    pub(crate) engine: Option<E>,
    /// False until the engine has had its first timeout.
    pub(crate) started: bool,
    pub(crate) clock: Clock,
    /// The wire to each address.
    pub(crate) wires: Map<UnderlayAddr, u32>,
    /// The time for which its timer is queued; [`Time::FAR`] if none is queued.
    pub(crate) wake_at: Time,
    /// Whether it has had inputs since its last flush.
    pub(crate) dirty: bool,
    /// The stall, with the datagrams that wait for its end.
    pub(crate) stall: Option<Box<Stall>>,
    /// Its own packet buffers. `None` if it uses the world's, which hardly ever run out.
    pub(crate) pool: Option<Pool>,
}

/// One direction of a path between two hosts.
pub(crate) struct Wire {
    pub(crate) line: Line<Burst>,
    pub(crate) from: HostId,
    pub(crate) to: HostId,
    /// The source address of its datagrams, as the receiving end sees it.
    pub(crate) seen: UnderlayAddr,
    /// The wire whose rate, queue and losses it shares, if it has none of its own.
    pub(crate) through: Option<u32>,
    /// Cut by a partition.
    pub(crate) cut: bool,
    /// Bytes of all datagrams that were handed in, without what UDP and IP add.
    pub(crate) bytes: u64,
    /// The time for which its next arrival is queued; [`Time::FAR`] if none is.
    pub(crate) queued: Time,
}

impl Wire {
    /// Queues the next arrival unless an earlier wake-up is queued.
    pub(crate) fn schedule(&mut self, id: u32, queue: &mut Queue) {
        if let Some(at) = self.line.next()
            && at < self.queued
        {
            self.queued = at;
            queue.push(at, Wake::Wire(id));
        }
    }
}

/// The outbox of one host while its engine runs.
pub(crate) struct Desk<'a, E: Engine> {
    pub(crate) now: Time,
    pub(crate) host: HostId,
    pub(crate) addr: UnderlayAddr,
    pub(crate) wires_to: &'a Map<UnderlayAddr, u32>,
    pub(crate) wires: &'a mut [Wire],
    pub(crate) queue: &'a mut Queue,
    pub(crate) journal: &'a mut Journal<E>,
    /// The host's pool.
    pub(crate) pool: &'a Pool,
    /// The world's pool, which holds packets under way.
    pub(crate) under_way: &'a Pool,
}

/// Moves a burst into a buffer of the pool `to`, unless both pools are the same: the burst leaves its host.
fn moved(burst: Burst, from: &Pool, to: &Pool) -> Option<Burst> {
    match from.is_same(to) {
        true => Some(burst),
        false => {
            let mut copy = to.copy_burst(&burst)?;
            copy.set_mark(burst.mark());
            Some(copy)
        }
    }
}

/// Copies an arriving burst into a buffer of the host's own pool, as a receive call fills it: a short datagram into a
/// small slot, anything else into a large one. Returns `None` if no slot is free.
pub(crate) fn received(burst: &Burst, pool: &Pool) -> Option<Burst> {
    let short = burst.segments() == 1 && burst.len() <= COPY_BYTES_MAX;
    let copy = short.then(|| pool.copy_of(0, burst.bytes())).flatten();
    let mut slot = match copy {
        Some(copy) => copy,
        None => {
            let mut slot = pool.for_receiving()?;
            slot.spare_mut()[..burst.len()].copy_from_slice(burst.bytes());
            slot.fill(burst.len(), burst.stride());
            slot
        }
    };
    slot.set_waited(burst.waited());
    Some(slot)
}

impl<E: Engine> Desk<'_, E> {
    fn trace_all(&mut self, to: UnderlayAddr, burst: &Burst, fate: Fate) {
        self.journal.trace_all(self.now, self.addr, to, burst, fate);
    }

    /// Lends a wire the pipe of the wire whose bottleneck it shares, or returns that pipe.
    fn swap_pipes(&mut self, id: u32, through: Option<u32>) {
        if let Some(other) = through
            && let Ok([mine, its]) = self.wires.get_disjoint_mut([id as usize, other as usize])
        {
            mine.line.swap_pipes(&mut its.line);
        }
    }
}

impl<E: Engine> Outbox<E> for Desk<'_, E> {
    fn send(&mut self, to: UnderlayAddr, burst: Burst) {
        let datagrams = burst.segments() as u64;
        self.journal.counters.sent += datagrams;
        let burst = match moved(burst, self.pool, self.under_way) {
            Some(burst) => burst,
            None => {
                self.journal.counters.no_slot += datagrams;
                return;
            }
        };
        let Some(&id) = self.wires_to.get(&to) else {
            self.journal.counters.no_path += datagrams;
            return self.trace_all(to, &burst, Fate::NoPath);
        };
        let wire = &mut self.wires[id as usize];
        wire.bytes += burst.len() as u64;
        let through = wire.through;
        let is_cut = |id: u32| self.wires[id as usize].cut;
        if is_cut(id) || through.is_some_and(is_cut) {
            self.journal.counters.cut += datagrams;
            return self.trace_all(to, &burst, Fate::Cut);
        }
        self.swap_pipes(id, through);
        let wire = &mut self.wires[id as usize];
        match &mut self.journal.trace {
            None => wire.line.push_burst(self.now, burst, self.under_way),
            Some(trace) => {
                let (at, from) = (self.now, self.addr);
                let mut witness = |bytes: &[u8], verdict, again| {
                    let fate = match verdict {
                        Verdict::Deliver(arrives) => Fate::Sent { arrives, again },
                        Verdict::Drop(reason) => Fate::Dropped(reason),
                    };
                    trace.packet(&Packet {
                        at,
                        from,
                        to,
                        bytes,
                        fate,
                    });
                };
                let line = &mut wire.line;
                line.push_burst_before(at, burst, self.under_way, Some(&mut witness));
            }
        }
        self.swap_pipes(id, through);
        self.wires[id as usize].schedule(id, self.queue);
    }

    fn deliver(&mut self, client: ClientId, reply: E::Reply) {
        self.journal.answer(Answer {
            at: self.now,
            host: self.host,
            client,
            reply,
        });
    }

    fn report(&mut self, event: E::Event) {
        self.journal.report(Report {
            at: self.now,
            host: self.host,
            event,
        });
    }

    fn pool(&self) -> &Pool {
        self.pool
    }
}
