//! The keys of other nodes' sources.

use crate::ends::uncover;
use crate::event::Drop;
use crate::group_keys::own::ANSWERED_LATELY;
use base::token_bucket::TokenBucket;
use base::{Duration, Map, NodeAddr, Time};
use core::cmp::Ordering;
use secure::{OpenError, OpeningKey, Route};
use wire::data::Header;
use wire::link::{Clear, SessionIndex};

/// A source and one of its groups.
pub(crate) type Of = (NodeAddr, NodeAddr);

/// Maximum number of combinations of source and group whose keys are held. Choice: the keys of one take 1 to 33 KiB,
/// for two keys with two windows each ([`secure::OpeningKey`]), depending on how busy it is and on whether copies
/// arrive; 33 MiB at most.
const KEYS_MAX: usize = 1_024;
/// If one of two keys was neither received nor used for this long while the other one opened packets, it is the former
/// key and opens nothing any more, unless it is the later one. Packets that reliable links recover arrive seconds late.
const FORMER_FOR: Duration = Duration::from_secs(10);
/// Number of discarded keys of a source and group that are remembered. Choice: a source sends two of its keys, and
/// changes them at most every ten seconds, so an older key is of no use to an honest node.
const GONE_MAX: usize = 4;
/// A key that has not opened anything for this long is forgotten. Its source uses another one by then, so nobody can
/// send this key again to make the node accept repeated packets.
const IDLE: Duration = Duration::from_secs(660);
/// Delay before the node asks for a key. Choice: not in the middle of a burst, so that it does not matter whether its
/// packets arrived one by one; and the key may follow directly behind them.
const ASK_AFTER: Duration = Duration::from_millis(1);
/// The interval after which a source is asked again for the key of a group, while packets arrive. It doubles with each
/// question up to the second value. Choice: a source ignores questions within 50 ms of its last answer, because they
/// have left before that answer arrived. If the round trip is longer than the interval, the source answers twice.
const ASK_AGAIN_FIRST: Duration = Duration::from_millis(80);
const ASK_AGAIN: Duration = Duration::from_millis(250);
const _: () = assert!(
    ASK_AGAIN_FIRST.as_micros() >= ANSWERED_LATELY.as_micros() + 30_000,
    "a second question would be ignored"
);
/// The interval after the source has replied that a permit excludes this node, or that it does not send to the group.
/// In the latter case the packet is forged.
const ASK_REFUSED: Duration = Duration::from_secs(5);
/// A question is remembered for this long after the next one is allowed. The answer may come over a long path.
const ASKED_FOR: Duration = Duration::from_secs(2);
/// Requests per second: a node that forges packets of other sources can cause this many requests.
const ASKS_PER_S: f64 = 100.0;
/// Requests at once: for a member of many groups that has just started.
const ASKS_BURST: f64 = 256.0;
/// Maximum number of combinations of source and group for which the time of the last request is remembered.
const ASKED_MAX: usize = 1_024;

/// The keys that open packets to the groups that this node receives.
#[derive(Debug)]
pub(crate) struct ReceivedKeys {
    keys: Map<Of, Received>,
    asked: Map<Of, Asked>,
    asks: TokenBucket,
    /// Keys to ask for, and when to ask.
    to_ask: Vec<(Of, SessionIndex)>,
    ask_at: Option<Time>,
}

/// The last request to a source for the key of a group.
#[derive(Clone, Copy, Debug)]
struct Asked {
    number: SessionIndex,
    /// The time from which the source may be asked again, and the interval after that question.
    again: Time,
    next: Duration,
    /// The source has refused this key. Another key may be requested at once.
    is_refused: bool,
}

/// The keys of a source for a group. They may arrive in any order.
#[derive(Debug)]
struct Received {
    one: Held,
    other: Option<Held>,
    /// Keys that have opened packets and are no longer held, newest first. None of them is accepted again: the record
    /// of the packets that it has opened is forgotten, and the packets could be repeated.
    gone: [Option<SessionIndex>; GONE_MAX],
    used: Time,
}

#[derive(Debug)]
struct Held {
    key: OpeningKey,
    /// When it was last received or last opened a packet.
    last: Time,
    /// When it first and last opened a packet.
    opened: Option<(Time, Time)>,
    /// When it was first received.
    told: Time,
    /// The earliest time at which the key can count as out of use: when the other key was received, or opened its first
    /// packet. A source that sends nothing for long may still send the key again.
    since: Time,
    /// This node has left the group since it received the key. The key opens nothing until it is received again, and
    /// the packets that it has opened stay known.
    is_left: bool,
}

impl ReceivedKeys {
    pub(crate) fn new() -> ReceivedKeys {
        ReceivedKeys {
            keys: Map::default(),
            asked: Map::default(),
            asks: TokenBucket::new(ASKS_PER_S, ASKS_BURST, Time::ZERO),
            to_ask: Vec::new(),
            ask_at: None,
        }
    }

    /// Opens a packet in place, from its header on. The packet then begins [`wire::CLEAR_BYTES`] later and ends
    /// [`wire::TAG_BYTES`] earlier.
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
        let first = held.opened.map_or(now, |(first, _)| first);
        if held.opened.replace((first, now)).is_none()
            && let Some(other) = other
        {
            other.since = now;
        }
        received.used = now;
        uncover(packet, from, kind);
        Ok(())
    }

    /// Returns true if there is a key of this source for the group.
    pub(crate) fn has(&self, of: Of) -> bool {
        self.keys.contains_key(&of)
    }

    /// Returns true if one of the held keys has this number.
    pub(crate) fn has_number(&self, of: Of, number: SessionIndex) -> bool {
        let received = self.keys.get(&of);
        received.is_some_and(|received| {
            let mut all = [Some(&received.one), received.other.as_ref()]
                .into_iter()
                .flatten();
            all.any(|held| held.key.number() == number && !held.is_left)
        })
    }

    /// A source has sent a key. Returns true if this node had asked for it.
    pub(crate) fn insert(&mut self, now: Time, of: Of, key: OpeningKey) -> bool {
        let asked = self.asked.get(&of).map(|asked| asked.number);
        if asked == Some(key.number()) {
            // An answer with another key does not make the next question due: nobody may have the key that the packets
            // name.
            self.asked.remove(&of);
        }
        let is_asked_for = asked == Some(key.number());
        let told = Held {
            key,
            last: now,
            opened: None,
            told: now,
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

    /// Choice: the source with the most keys here loses its least recently used one, so that a source that sends to
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

    /// Returns how many packets of a source under a key have arrived by the tree, among `len` counters from `first` on.
    /// Zero for a key that this node never had or that has opened nothing; `None` if the record of opened packets is
    /// forgotten.
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

    /// A packet has arrived under an unknown key: the source is to be asked, but not for each packet.
    pub(crate) fn ask(&mut self, now: Time, of: Of, number: SessionIndex) {
        let is_answer = |asked: &Asked| !asked.is_refused || asked.number == number;
        let last = self.asked.get(&of).copied();
        let last = last.filter(is_answer);
        if last.is_some_and(|asked| now < asked.again) {
            return;
        }
        if self.asked.len() >= ASKED_MAX {
            self.asked.retain(|_, asked| now < asked.again);
        }
        if self.asked.len() >= ASKED_MAX || !self.asks.try_take(now, 1.0) {
            return;
        }
        let interval = last.map_or(ASK_AGAIN_FIRST, |asked| asked.next);
        let asked = Asked {
            number,
            again: now + interval,
            next: (interval * 2).min(ASK_AGAIN),
            is_refused: false,
        };
        self.asked.insert(of, asked);
        self.to_ask.push((of, number));
        self.ask_at.get_or_insert(now + ASK_AFTER);
    }

    /// Returns the keys to ask for now.
    pub(crate) fn take_to_ask(&mut self, now: Time) -> Vec<(Of, SessionIndex)> {
        match self.ask_at.take_if(|at| *at <= now) {
            None => Vec::new(),
            Some(_) => core::mem::take(&mut self.to_ask),
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.ask_at
    }

    /// The source refuses the key that it was asked for. A refusal from another node, or one that was not asked for,
    /// changes nothing.
    pub(crate) fn on_refused(&mut self, now: Time, of: Of, number: SessionIndex) {
        if let Some(asked) = self.asked.get_mut(&of)
            && asked.number == number
        {
            (asked.again, asked.is_refused) = (now + ASK_REFUSED, true);
        }
    }

    /// This node no longer receives a group. It may receive the group again before the keys have changed.
    pub(crate) fn leave(&mut self, group: NodeAddr) {
        let of_group = self.keys.iter_mut().filter(|((_, of), _)| *of == group);
        for (_, received) in of_group {
            received.one.is_left = true;
            if let Some(other) = &mut received.other {
                other.is_left = true;
            }
        }
        self.asked.retain(|(_, of), _| *of != group);
    }

    /// Slow housekeeping.
    pub(crate) fn expire(&mut self, now: Time) {
        self.keys
            .retain(|_, received| now.since(received.used) < IDLE);
        self.asked.retain(|_, asked| now < asked.again + ASKED_FOR);
        for received in self.keys.values_mut() {
            received.expire();
        }
    }
}

impl Received {
    /// Returns the key with this number, and the other one.
    fn held(&mut self, number: SessionIndex) -> Option<(&mut Held, Option<&mut Held>)> {
        self.expire();
        let (one, other) = (&mut self.one, self.other.as_mut());
        if one.key.number() == number {
            return Some((one, other));
        }
        let other = other.filter(|other| other.key.number() == number)?;
        Some((other, Some(one)))
    }

    /// Inserts a key: it replaces the one that has been of no use for longer. A key that is already known keeps its
    /// record of opened packets.
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
            Some(other) if self.one.goes_before(&other) => {
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
    /// Returns true if the other key is in use in place of this one. If both have opened packets, only the earlier key
    /// can be the former one: somebody on the path may have withheld a packet under it, and send the packet now.
    fn is_former(&self, other: &Held) -> bool {
        let idle = |opened: Time| opened.since(self.last.max(self.since));
        let is_idle = other.opened.is_some_and(|(_, at)| idle(at) >= FORMER_FOR);
        is_idle && (self.opened.is_none() || self.is_earlier(other) == Some(true))
    }

    /// Returns true if this key is to make room for a third one, and not the other: it is the earlier one or, if that
    /// is not known, was of no use for longer.
    fn goes_before(&self, other: &Held) -> bool {
        self.is_earlier(other).unwrap_or(other.last > self.last)
    }

    /// Returns true if this key is the earlier of two that have opened packets, false if it is the later one. `None` if
    /// their order is not known, because a key has opened nothing, or was received first and used last.
    fn is_earlier(&self, other: &Held) -> Option<bool> {
        let (first, others) = (self.opened?.0, other.opened?.0);
        match (self.told.cmp(&other.told), first.cmp(&others)) {
            (Ordering::Less | Ordering::Equal, Ordering::Less) => Some(true),
            (Ordering::Greater | Ordering::Equal, Ordering::Greater) => Some(false),
            _ => None,
        }
    }
}
