//! The keys of others' sources, and the packets that wait for one.

use crate::ends::{kept, uncover};
use crate::event::Drop;
use base::token_bucket::TokenBucket;
use base::{Burst, Duration, Map, NodeAddr, Pool, Time};
use secure::{OpenError, OpeningKey, Route};
use std::collections::VecDeque;
use wire::data::Header;
use wire::link::{Clear, SessionIndex};
use wire::{CLEAR_BYTES, TAG_BYTES};

/// A source and one of its groups.
pub(crate) type Of = (NodeAddr, NodeAddr);

/// Sources and groups whose keys are held. Choice: those of one take 1 to 33 KiB, two keys with two windows each
/// ([`secure::OpeningKey`]), by how busy it is and whether copies come; 33 MiB at most.
const KEYS_MAX: usize = 1_024;
/// Of two keys, the one that was neither told nor used for so long while the other one opened packets is the former one,
/// and opens nothing any more. What reliable links recover comes seconds late.
const FORMER_FOR: Duration = Duration::from_secs(10);
/// Keys of a source and group that are remembered to be gone. Choice: a source tells two of its keys, and changes
/// them every ten seconds at most, so what was told so late is of no use to anybody honest.
const GONE_MAX: usize = 4;
/// A key that has not opened anything for so long is forgotten. Its source has another one by then, so
/// nobody can be told this one again without what it has opened.
const IDLE: Duration = Duration::from_secs(660);
/// Bytes of packets of one source that wait for a key, and of all.
const WAITING_BYTES_OF_SOURCE: usize = 128 << 10;
const WAITING_BYTES: usize = 1 << 20;
/// For so long a packet waits: as for the end of a handshake, which may be needed first.
const WAITS_FOR: Duration = secure::limits::HALF_OPEN_LIFETIME;
/// Choice: not among the packets that a burst has brought, so that it does not matter whether they came one by one;
/// and the key may be right behind them.
const ASK_AFTER: Duration = Duration::from_millis(1);
/// A source is asked again for the key of a group after so long, while packets come.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// And after it has said that a permit keeps this node out, or that it does not send there: then somebody has
/// invented the packet.
const ASK_REFUSED: Duration = Duration::from_secs(5);
/// Questions per second: whoever invents packets of other sources makes a node ask so often.
const ASKS_PER_S: f64 = 100.0;
/// As many at once: a member of many groups that has just started.
const ASKS_BURST: f64 = 256.0;
/// Sources and groups of which it is remembered when they were asked.
const ASKED_MAX: usize = 1_024;

/// What opens packets to the groups that this node receives.
#[derive(Debug)]
pub(crate) struct ReceivedKeys {
    keys: Map<Of, Received>,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    asked: Map<Of, Asked>,
    asks: TokenBucket,
    /// Keys to be asked for, and when.
    to_ask: Vec<(Of, SessionIndex)>,
    ask_at: Option<Time>,
}

/// The last question to a source for the key of a group.
#[derive(Clone, Copy, Debug)]
struct Asked {
    number: SessionIndex,
    /// It may be asked again.
    again: Time,
    /// It has refused this key. Another one may be asked for at once.
    is_refused: bool,
}

/// The keys of a source for a group. They may come in any order.
#[derive(Debug)]
struct Received {
    one: Held,
    other: Option<Held>,
    /// Keys that have opened packets and are held no longer, newest first. None of them is taken again: what it has
    /// opened is forgotten, and could be repeated.
    gone: [Option<SessionIndex>; GONE_MAX],
    used: Time,
}

#[derive(Debug)]
struct Held {
    key: OpeningKey,
    /// When it was told or opened something last.
    last: Time,
    /// When it opened something last.
    opened: Option<Time>,
    /// Not before then it counts as out of use: another key was told, or has opened its first packet. A source that says
    /// nothing for long may still tell it again.
    since: Time,
    /// This node has left the group since it was told: it opens nothing until it is told again, and what it
    /// has opened stays known.
    is_left: bool,
}

/// A packet whose key is not there yet.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) at: Time,
    /// A whole opened datagram.
    pub(crate) packet: Burst,
    pub(crate) route: Route,
    of: Of,
    number: SessionIndex,
}

impl ReceivedKeys {
    pub(crate) fn new() -> ReceivedKeys {
        ReceivedKeys {
            keys: Map::default(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            asked: Map::default(),
            asks: TokenBucket::new(ASKS_PER_S, ASKS_BURST, Time::ZERO),
            to_ask: Vec::new(),
            ask_at: None,
        }
    }

    /// Opens a packet in place, from its header on. It begins [`CLEAR_BYTES`] later, and ends [`TAG_BYTES`] earlier.
    pub(crate) fn open(&mut self, now: Time, route: Route, packet: &mut [u8]) -> Result<(), Drop> {
        let header = Header::trusted(&*packet);
        let (bound, from) = (header.bound(), header.payload_offset());
        let of = (header.source(), header.destination());
        let clear = Clear::parse(&packet[from..]).map_err(|_| Drop::Malformed)?;
        let received = self.keys.get_mut(&of).ok_or(Drop::EndNoSession)?;
        let (held, other) = received.held(clear.session).ok_or(Drop::EndNoSession)?;
        if held.is_left {
            return Err(Drop::EndNoSession);
        }
        let kind = match held.key.open(route, &mut packet[from..], &bound) {
            Ok(kind) => kind,
            Err(OpenError::Replay) => return Err(Drop::Duplicate),
            Err(_) => return Err(Drop::EndForged),
        };
        held.last = now;
        if held.opened.replace(now).is_none()
            && let Some(other) = other
        {
            other.since = now;
        }
        received.used = now;
        uncover(packet, from, kind);
        Ok(())
    }

    /// There is a key of this source for the group.
    pub(crate) fn has(&self, of: Of) -> bool {
        self.keys.contains_key(&of)
    }

    /// It is this one, or the one before.
    pub(crate) fn has_number(&self, of: Of, number: SessionIndex) -> bool {
        let received = self.keys.get(&of);
        received.is_some_and(|received| {
            let mut all = [Some(&received.one), received.other.as_ref()]
                .into_iter()
                .flatten();
            all.any(|held| held.key.number() == number && !held.is_left)
        })
    }

    /// A source has told a key. True if it had been asked.
    pub(crate) fn insert(&mut self, now: Time, of: Of, key: OpeningKey) -> bool {
        let is_asked_for = self.asked.remove(&of).is_some();
        let told = Held {
            key,
            last: now,
            opened: None,
            since: now,
            is_left: false,
        };
        if let Some(received) = self.keys.get_mut(&of) {
            received.insert(now, told);
            return is_asked_for;
        }
        if self.keys.len() >= KEYS_MAX {
            self.make_room();
        }
        let received = Received {
            one: told,
            other: None,
            gone: [None; GONE_MAX],
            used: now,
        };
        self.keys.insert(of, received);
        is_asked_for
    }

    /// Choice: the source that has most keys here loses the one least lately used, so that one which sends to
    /// thousands of groups takes nothing from others.
    #[cold]
    fn make_room(&mut self) {
        let mut counts: Map<NodeAddr, usize> = Map::default();
        for (source, _) in self.keys.keys() {
            *counts.entry(*source).or_default() += 1;
        }
        let most = counts
            .iter()
            .max_by_key(|(source, count)| (**count, **source));
        let Some((&source, _)) = most else {
            return;
        };
        let its = self.keys.iter().filter(|((of, _), _)| *of == source);
        let oldest = its.min_by_key(|(of, received)| (received.used, **of));
        if let Some((&of, _)) = oldest {
            self.keys.remove(&of);
        }
    }

    /// How many packets of a source under a key have come by the tree, of so many counters from `first` on. None under a
    /// key that was never here or has opened nothing; `None` if it is forgotten what has.
    pub(crate) fn came_by_tree(
        &mut self,
        of: Of,
        number: SessionIndex,
        (first, len): (u32, u16),
    ) -> Option<u16> {
        let Some(received) = self.keys.get_mut(&of) else {
            return Some(0);
        };
        match received.held(number) {
            Some((held, _)) => u16::try_from(held.key.came_by_tree(first, len.into())?).ok(),
            None => (!received.gone.contains(&Some(number))).then_some(0),
        }
    }

    /// Keeps a packet whose key is not there. False if there is no room.
    pub(crate) fn wait(&mut self, now: Time, (packet, route): (&[u8], Route), pool: &Pool) -> bool {
        self.expire_waiting(now);
        let header = Header::trusted(packet);
        let of = (header.source(), header.destination());
        let Ok(clear) = Clear::parse(header.payload()) else {
            return false;
        };
        let number = clear.session;
        let bytes = CLEAR_BYTES + packet.len() + TAG_BYTES;
        let of_source = self.waiting.iter().filter(|one| one.of.0 == of.0);
        let held: usize = of_source.map(|one| one.packet.len()).sum();
        if held + bytes > WAITING_BYTES_OF_SOURCE || self.waiting_bytes + bytes > WAITING_BYTES {
            return false;
        }
        let Some(packet) = kept(packet, pool) else {
            return false;
        };
        self.waiting_bytes += packet.len();
        self.waiting.push_back(Waiting {
            at: now,
            packet,
            route,
            of,
            number,
        });
        true
    }

    /// Takes the packets that have waited for a key.
    pub(crate) fn take_waiting(&mut self, of: Of, number: SessionIndex) -> Vec<Waiting> {
        let all = core::mem::take(&mut self.waiting);
        let (its, rest): (Vec<Waiting>, Vec<Waiting>) = all
            .into_iter()
            .partition(|one| (one.of, one.number) == (of, number));
        self.waiting = rest.into();
        self.waiting_bytes -= its.iter().map(|one| one.packet.len()).sum::<usize>();
        its
    }

    fn expire_waiting(&mut self, now: Time) {
        while let Some(first) = self.waiting.front()
            && now.since(first.at) >= WAITS_FOR
        {
            self.waiting_bytes -= first.packet.len();
            self.waiting.pop_front();
        }
    }

    /// Something has come under a key that is not there: its source is to be asked, but not for each packet.
    pub(crate) fn ask(&mut self, now: Time, of: Of, number: SessionIndex) {
        let is_answer = |asked: &Asked| !asked.is_refused || asked.number == number;
        let last = self.asked.get(&of).filter(|asked| is_answer(asked));
        if last.is_some_and(|asked| now < asked.again) {
            return;
        }
        if self.asked.len() >= ASKED_MAX {
            self.asked.retain(|_, asked| now < asked.again);
        }
        if self.asked.len() >= ASKED_MAX || !self.asks.try_take(now, 1.0) {
            return;
        }
        let asked = Asked {
            number,
            again: now + ASK_AGAIN,
            is_refused: false,
        };
        self.asked.insert(of, asked);
        self.to_ask.push((of, number));
        self.ask_at.get_or_insert(now + ASK_AFTER);
    }

    /// The keys that are to be asked for now.
    pub(crate) fn take_to_ask(&mut self, now: Time) -> Vec<(Of, SessionIndex)> {
        match self.ask_at.take_if(|at| *at <= now) {
            None => Vec::new(),
            Some(_) => core::mem::take(&mut self.to_ask),
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.ask_at
    }

    /// The source does not tell the key that it was asked for. Nobody else's refusal, and none that was not asked for,
    /// changes anything.
    pub(crate) fn on_refused(&mut self, now: Time, of: Of, number: SessionIndex) {
        if let Some(asked) = self.asked.get_mut(&of)
            && asked.number == number
        {
            (asked.again, asked.is_refused) = (now + ASK_REFUSED, true);
        }
    }

    /// This node receives a group no longer. It may again before the keys have changed.
    pub(crate) fn leave(&mut self, group: NodeAddr) {
        let of_group = self.keys.iter_mut().filter(|((_, of), _)| *of == group);
        for (_, received) in of_group {
            received.one.is_left = true;
            if let Some(other) = &mut received.other {
                other.is_left = true;
            }
        }
        self.asked.retain(|(_, of), _| *of != group);
        let waiting = core::mem::take(&mut self.waiting);
        self.waiting = waiting
            .into_iter()
            .filter(|one| one.of.1 != group)
            .collect();
        self.waiting_bytes = self.waiting.iter().map(|one| one.packet.len()).sum();
    }

    /// Slow housekeeping.
    pub(crate) fn expire(&mut self, now: Time) {
        self.expire_waiting(now);
        self.keys
            .retain(|_, received| now.since(received.used) < IDLE);
        self.asked.retain(|_, asked| now < asked.again);
        for received in self.keys.values_mut() {
            received.expire();
        }
    }
}

impl Received {
    /// The key of this number, and the other one.
    fn held(&mut self, number: SessionIndex) -> Option<(&mut Held, Option<&mut Held>)> {
        self.expire();
        let (one, other) = (&mut self.one, self.other.as_mut());
        if one.key.number() == number {
            return Some((one, other));
        }
        let other = other.filter(|other| other.key.number() == number)?;
        Some((other, Some(one)))
    }

    /// One more key takes the place of the one that was of no use for longer. What is known keeps what it has opened.
    fn insert(&mut self, now: Time, told: Held) {
        let number = told.key.number();
        if let Some((known, _)) = self.held(number) {
            if core::mem::take(&mut known.is_left) {
                known.key.renew(&told.key);
            }
            known.last = told.last;
            return;
        }
        if self.gone.contains(&Some(number)) {
            return;
        }
        let former = match self.other.take() {
            Some(other) if other.last > self.one.last => {
                Some(core::mem::replace(&mut self.one, other))
            }
            other => other,
        };
        if let Some(former) = former {
            self.forget(&former);
        }
        self.one.since = now;
        self.other = Some(told);
    }

    fn forget(&mut self, former: &Held) {
        if former.opened.is_some() {
            self.gone.rotate_right(1);
            self.gone[0] = Some(former.key.number());
        }
    }

    fn expire(&mut self) {
        let Some(other) = self.other.take() else {
            return;
        };
        if other.is_former(&self.one) {
            self.forget(&other);
        } else if self.one.is_former(&other) {
            let former = core::mem::replace(&mut self.one, other);
            self.forget(&former);
        } else {
            self.other = Some(other);
        }
    }
}

impl Held {
    /// The other key is in use in its stead.
    fn is_former(&self, other: &Held) -> bool {
        let idle = |opened: Time| opened.since(self.last.max(self.since));
        other.opened.is_some_and(|at| idle(at) >= FORMER_FOR)
    }
}
