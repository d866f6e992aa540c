//! All streams of a node, by connection and by client; the listeners; and when each stream needs attention.

use super::{
    Budget, Connection, GROWTH_MAX, Key, Phase, ResetReason, STREAMS_MAX, StreamId, Tickets,
};
use base::{ClientId, Duration, Map, NodeAddr, Time, VirtualPort};
use std::collections::{BTreeSet, VecDeque};

/// How long an ended connection is remembered, to answer a peer that has missed the end. This is longer than the
/// silence that a stream survives by default.
const REMEMBERED: Duration = Duration::from_secs(16 * 60);
/// The most ended connections that are remembered, some 60 bytes each: 17 in a second over all that time.
const REMEMBERED_MAX: usize = 16_384;

/// The most connections to this node's listeners that one other node may have: half of all, so that no single node
/// takes every place.
const CALLS_PER_PEER_MAX: u32 = STREAMS_MAX as u32 / 2;

/// A client that takes connections at a port.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) client: ClientId,
    backlog: u16,
    waiting: u16,
}

/// A connection that has ended regularly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// The place up to which all is acknowledged, including the peer's end; and the place of this end.
    pub(crate) acknowledged: u32,
    pub(crate) offset: u32,
    pub(crate) flow_seq: u32,
}

#[derive(Debug, Default)]
struct Slot {
    connection: Option<Box<Connection>>,
    /// When it is woken, if a time is set.
    wake: Option<Time>,
    touched: bool,
}

/// All streams.
#[derive(Debug)]
pub(crate) struct Streams {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_key: Map<Key, u32>,
    by_client: Map<ClientId, u32>,
    /// The number of connections that other nodes have opened, by node.
    calls: Map<NodeAddr, u32>,
    waiting: Map<StreamId, u32>,
    listeners: Map<VirtualPort, Listener>,
    wakes: BTreeSet<(Time, u32)>,
    touched: VecDeque<u32>,
    ended: Map<Key, Ended>,
    ended_order: VecDeque<(Time, Key)>,
    next_stream: u32,
    pub(crate) budget: Budget,
    pub(crate) tickets: Tickets,
}

impl Default for Streams {
    fn default() -> Streams {
        Streams {
            slots: Vec::new(),
            free: Vec::new(),
            by_key: Map::default(),
            by_client: Map::default(),
            calls: Map::default(),
            waiting: Map::default(),
            listeners: Map::default(),
            wakes: BTreeSet::new(),
            touched: VecDeque::new(),
            ended: Map::default(),
            ended_order: VecDeque::new(),
            next_stream: 0,
            budget: Budget { left: GROWTH_MAX },
            tickets: Tickets::default(),
        }
    }
}

impl Streams {
    /// Returns the number of connections.
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there is room for one more.
    pub(crate) fn has_room(&self) -> bool {
        self.len() < STREAMS_MAX
    }

    /// Whether there is room for one more that `peer` opens.
    pub(crate) fn has_room_for(&self, peer: NodeAddr) -> bool {
        let calls = self.calls.get(&peer).copied().unwrap_or(0);
        self.has_room() && calls < CALLS_PER_PEER_MAX
    }

    /// Adds a connection, for which there must be room. This flush visits it.
    pub(crate) fn add(&mut self, connection: Connection) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        self.by_key.insert(connection.key, index);
        if !connection.is_initiator() {
            *self.calls.entry(connection.key.peer).or_default() += 1;
        }
        self.ended.remove(&connection.key);
        if let Some(client) = connection.client {
            self.by_client.insert(client, index);
        }
        self.slots[index as usize].connection = Some(Box::new(connection));
        self.touch(index);
        index
    }

    /// Removes a connection at this end.
    pub(crate) fn remove(&mut self, index: u32) -> Option<Box<Connection>> {
        let slot = self.slots.get_mut(index as usize)?;
        let connection = slot.connection.take()?;
        if let Some(wake) = slot.wake.take() {
            self.wakes.remove(&(wake, index));
        }
        self.by_key.remove(&connection.key);
        if !connection.is_initiator()
            && let Some(calls) = self.calls.get_mut(&connection.key.peer)
        {
            *calls -= 1;
            if *calls == 0 {
                self.calls.remove(&connection.key.peer);
            }
        }
        if let Some(client) = connection.client {
            self.by_client.remove(&client);
        }
        if let Phase::Waiting(stream) = connection.phase {
            self.stop_waiting(stream, connection.key.port);
        }
        let charge = connection.sender.charge() + connection.receiver.charge();
        self.budget.give_back(charge);
        // A touched slot is reused only when the list of touched slots no longer contains it.
        if !slot_is_touched(&self.slots, index) {
            self.free.push(index);
        }
        Some(connection)
    }

    /// Removes a connection that has ended regularly, and remembers it.
    pub(crate) fn retire(&mut self, now: Time, index: u32) {
        let Some(connection) = self.remove(index) else {
            return;
        };
        while let Some((at, key)) = self.ended_order.front().copied()
            && (now.since(at) >= REMEMBERED || self.ended_order.len() >= REMEMBERED_MAX)
        {
            self.ended_order.pop_front();
            self.ended.remove(&key);
        }
        let ended = Ended {
            acknowledged: connection.receiver.acknowledged() as u32,
            offset: connection.sender.end_place() as u32,
            flow_seq: connection.last_flow_seq(),
        };
        self.ended.insert(connection.key, ended);
        self.ended_order.push_back((now, connection.key));
    }

    /// A connection that has ended regularly.
    pub(crate) fn ended(&mut self, key: &Key) -> Option<&mut Ended> {
        self.ended.get_mut(key)
    }

    /// Returns the connection at `index`.
    pub(crate) fn at(&mut self, index: u32) -> Option<&mut Connection> {
        self.slots
            .get_mut(index as usize)?
            .connection
            .as_deref_mut()
    }

    /// Returns the connection at `index`, and the memory that all share.
    pub(crate) fn with_budget(&mut self, index: u32) -> Option<(&mut Connection, &mut Budget)> {
        let connection = self
            .slots
            .get_mut(index as usize)?
            .connection
            .as_deref_mut()?;
        Some((connection, &mut self.budget))
    }

    pub(crate) fn by_key(&self, key: &Key) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn by_client(&self, client: ClientId) -> Option<u32> {
        self.by_client.get(&client).copied()
    }

    /// Returns all connections.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.slots
            .iter()
            .filter_map(|slot| slot.connection.as_deref())
    }

    /// Returns the indices of all connections.
    pub(crate) fn indices(&self) -> Vec<u32> {
        self.by_key.values().copied().collect()
    }

    /// Returns a name for a connection that waits to be accepted, for the listener.
    pub(crate) fn next_stream(&mut self) -> StreamId {
        loop {
            self.next_stream = self.next_stream.wrapping_add(1);
            if !self.waiting.contains_key(&StreamId(self.next_stream)) {
                return StreamId(self.next_stream);
            }
        }
    }

    /// Notes that a connection waits at a listener.
    pub(crate) fn wait(&mut self, stream: StreamId, index: u32, port: VirtualPort) {
        self.waiting.insert(stream, index);
        if let Some(listener) = self.listeners.get_mut(&port) {
            listener.waiting += 1;
        }
    }

    /// Gives a waiting connection to a client that accepts it.
    pub(crate) fn accept(&mut self, now: Time, stream: StreamId, client: ClientId) -> Option<u32> {
        let index = self.waiting.get(&stream).copied()?;
        let connection = self.at(index)?;
        let port = connection.key.port;
        connection.accept(now, client);
        self.stop_waiting(stream, port);
        self.by_client.insert(client, index);
        self.touch(index);
        Some(index)
    }

    /// Returns the waiting connection of this name.
    pub(crate) fn waiting(&self, stream: StreamId) -> Option<u32> {
        self.waiting.get(&stream).copied()
    }

    fn stop_waiting(&mut self, stream: StreamId, port: VirtualPort) {
        if self.waiting.remove(&stream).is_some()
            && let Some(listener) = self.listeners.get_mut(&port)
        {
            listener.waiting = listener.waiting.saturating_sub(1);
        }
    }

    /// Notes that a client takes connections at its port.
    pub(crate) fn listen(&mut self, port: VirtualPort, client: ClientId, backlog: u16) {
        let waiting = self.listeners.get(&port).map_or(0, |known| known.waiting);
        let listener = Listener {
            client,
            backlog: backlog.max(1),
            waiting,
        };
        self.listeners.insert(port, listener);
    }

    /// Returns the client that takes a connection at `port`, if there is room for one more.
    pub(crate) fn listener(&self, port: VirtualPort) -> Result<ClientId, ResetReason> {
        let listener = self.listeners.get(&port).ok_or(ResetReason::Refused)?;
        match listener.waiting < listener.backlog {
            true => Ok(listener.client),
            false => Err(ResetReason::Refused),
        }
    }

    /// Notes that a client takes no more connections. Returns those that wait, to be refused.
    pub(crate) fn stop_listening(&mut self, client: ClientId) -> Vec<u32> {
        // Its socket may have changed its port meanwhile.
        let mut ports = Vec::new();
        self.listeners.retain(|port, listener| {
            let is_its = listener.client == client;
            if is_its {
                ports.push(*port);
            }
            !is_its
        });
        if ports.is_empty() {
            return Vec::new();
        }
        let mut waiting: Vec<(StreamId, u32)> = Vec::new();
        for (stream, index) in &self.waiting {
            let slot = &self.slots[*index as usize];
            let at_port = |connection: &Connection| ports.contains(&connection.key.port);
            if slot.connection.as_deref().is_some_and(at_port) {
                waiting.push((*stream, *index));
            }
        }
        waiting.sort_unstable();
        waiting.into_iter().map(|(_, index)| index).collect()
    }

    /// Notes that the client is not the end of a stream any more.
    pub(crate) fn leave(&mut self, client: ClientId) -> Option<u32> {
        self.by_client.remove(&client)
    }

    /// Lets this flush visit the connection. The connection may be gone, because those that waited for room are named
    /// only by their index.
    pub(crate) fn touch(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index as usize)
            && !slot.touched
            && slot.connection.is_some()
        {
            slot.touched = true;
            self.touched.push_back(index);
        }
    }

    /// Lets this flush visit all connections for which `concerns` holds.
    pub(crate) fn touch_if(&mut self, mut concerns: impl FnMut(&mut Connection) -> bool) {
        for index in 0..self.slots.len() as u32 {
            if self.at(index).is_some_and(&mut concerns) {
                self.touch(index);
            }
        }
    }

    /// Returns one of the connections to visit.
    pub(crate) fn pop_touched(&mut self) -> Option<u32> {
        loop {
            let index = self.touched.pop_front()?;
            let slot = &mut self.slots[index as usize];
            slot.touched = false;
            if slot.connection.is_some() {
                return Some(index);
            }
            self.free.push(index);
        }
    }

    /// Notes when the connection needs attention next: `at_once` if it is to continue in the next batch.
    pub(crate) fn schedule(&mut self, index: u32, at_once: Option<Time>) {
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        let wanted = slot.connection.as_ref().and_then(|c| c.next_timeout());
        let wanted = wanted.into_iter().chain(at_once).min();
        if wanted == slot.wake {
            return;
        }
        if let Some(old) = slot.wake {
            self.wakes.remove(&(old, index));
        }
        slot.wake = wanted;
        if let Some(wake) = wanted {
            self.wakes.insert((wake, index));
        }
    }

    /// Returns a connection whose time has come.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<u32> {
        let &(at, index) = self.wakes.first()?;
        if at > now {
            return None;
        }
        self.wakes.pop_first();
        self.slots[index as usize].wake = None;
        Some(index)
    }

    /// Returns when the next connection needs attention.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.wakes.first().map(|(at, _)| *at)
    }
}

fn slot_is_touched(slots: &[Slot], index: u32) -> bool {
    slots[index as usize].touched
}
