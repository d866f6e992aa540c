//! One link: everything that this node keeps about one neighbour, and the links by index, by
//! neighbour and by session.
//!
//! ```text
//!   no session --Established--> session, hello probing --hellos in a row--> up <--a hello-- tried
//!        ^                                                                   |                ^
//!        '---- dial again <---- down (closing, or tried for long) <----------'--- silence ----'
//! ```
//! A session outlives an outage: after silence the hellos go on, and the link comes up again with
//! the same keys unless the neighbour has restarted and brings a new session.
//!
//! A link has one [`Path`] in use, and spares where there are several uplinks. It is up as long as one of
//! them is; lanes, counts and what is told to others belong to the link.

mod alarmed;
mod dialling;
mod fallback;
mod hellos;
mod impairment;
mod lateness;
mod opening;
mod path;
mod paths;
mod protection;
mod sending;
mod spread;
mod table;
mod verifications;

pub(crate) use dialling::{Dialling, Obstacle};
pub(crate) use fallback::Fallback;
pub use impairment::Impairment;
pub(crate) use opening::Opening;
pub use path::{MAX_PATHS, Path, PathId};
pub(crate) use paths::{Choice, is_same_far_end, place_mut};
pub(crate) use spread::Shares;
pub use table::{LinkIndex, Links, MAX_LINKS};
pub(crate) use verifications::Verifications;

use crate::aims::ToldAims;
use crate::announce::Announce;
use crate::carried::Carried;
use crate::event::Drop;
use crate::hello;
use crate::lately::Lately;
use crate::realtime::{Ahead, History, Pilot, Protect, Receiver, Rest, RoundTrip};
use crate::reliable::Lane;
use crate::settings::{Settings, Uplinks};
use base::{Duration, NodeAddr, Time, UnderlayAddr};
use congestion::brake::{Brake, Echo};
use core::num::NonZeroU8;
use core::ops::Range;
use graph::metric::{LinkCost, Parameters};
use std::collections::VecDeque;
use wire::control::ClockOffset;
use wire::data::Class;
use wire::link::{Kind, SessionIndex};
use wire::{CLEAR_BYTES, TAG_BYTES};

/// Silence after which a neighbour whose link is down is dialled again: at once when the silence of
/// an active link has taken it down.
const SILENT: Duration = Duration::from_millis(300);
/// The step from the dial of one place of a neighbour to that of the next. [RFC 8305 §5]
const DIAL_STEP: Duration = Duration::from_millis(250);
/// The shortest rest between two dials of all its places.
const DIAL_REST: Duration = Duration::from_secs(1);
/// So many dials without an answer double the rest between two, up to [`DIAL_REST_MAX`]: an Init
/// has 1152 bytes, and a neighbour may be gone for days.
const DIALS_PER_STEP: u32 = 8;
const DIAL_REST_MAX: Duration = Duration::from_secs(8);

/// A link that has held packets back for so long has less room than it is given. Choice: a step of the load is
/// over by then.
const FULL_AFTER: Duration = Duration::from_secs(1);

/// What a link may lose and have no trouble. Choice: what recovery leaves of twice as much is not heard.
const LOSS_NOTABLE: f64 = 0.005;

/// The mark of control datagrams, above that of every priority.
pub const MARK_CONTROL: u8 = 9;

/// The mark of packets of a class: one more than the priority, because 0 is none.
pub const fn mark(class: Class) -> u8 {
    class.priority + 1
}

/// Everything about one neighbour.
#[derive(Debug)]
pub struct Link {
    /// The neighbour.
    pub peer: NodeAddr,
    /// Its name, as its certificate says.
    pub name: String,
    /// Where the configuration says that it is; dialled when there is no session.
    pub dial: Option<UnderlayAddr>,
    /// And where else it is.
    pub(crate) dial_more: Vec<UnderlayAddr>,
    /// The configuration had it and has it no more: there is no link unless the neighbour dials and may.
    pub(crate) is_left: bool,
    /// How it has come to be.
    pub(crate) made: Made,
    /// It is not dialled for now, though it is known where.
    pub(crate) is_resting: bool,
    /// Where the neighbour says that it is, as far as it is dialled there as well.
    pub(crate) announced: Vec<UnderlayAddr>,
    /// What the link can carry, in kbit/s, as configured; 0 if that is not known.
    pub capacity_kbps: u32,
    /// What transfers have carried to the neighbour.
    pub carried: Option<Carried>,
    /// The physical links that it crosses to the neighbour, once that is known.
    pub hops: Option<NonZeroU8>,
    /// The path in use, for what this end sends.
    pub path: Path,
    /// The others.
    pub(crate) spares: Vec<Path>,
    pub(crate) choice: Choice,
    opening: Opening,
    uplinks: Uplinks,
    /// Which of them bulk data takes.
    shares: Shares,
    /// The neighbour takes sessions of further paths.
    pub(crate) peer_knows_paths: bool,
    hello_settings: hello::Settings,
    parameters: Parameters,
    /// Others know of an alarm, and have been told of it then.
    alarm_told: Option<Time>,
    /// When the link's cost is told to others.
    pub announce: Announce,
    /// The real-time lane to the neighbour.
    pub history: History,
    /// Chooses how its packets are protected.
    pub(crate) pilot: Pilot,
    /// What the neighbour has been told of flows that are to be repaired otherwise.
    pub(crate) told_aims: ToldAims,
    /// What had gone when its plan began: bytes of real-time packets, and of repair packets.
    plan_began: (u64, u64),
    /// Packets that its history could not keep for long enough.
    pub(crate) overrun: Lately,
    /// The neighbour takes repair packets.
    pub(crate) peer_takes_repair: bool,
    /// When the neighbour was told last what has become of its packets, and how many had come.
    reported: (Time, u64),
    /// In what runs the way to the neighbour loses, as it tells.
    runs_told: protection::RunsTold,
    strikes: u8,
    takes_repair: bool,
    /// The mark of the last packet of the real-time lane.
    lane_mark: u8,
    /// Which of its packets are sent twice at once.
    ahead: Option<Ahead>,
    /// The real-time lane from the neighbour.
    pub receiver: Receiver,
    /// Holds the real-time lane to the neighbour back when it meets congestion.
    pub brake: Option<Brake>,
    /// What the neighbour has told last of the network's clock, and when.
    pub(crate) clock_told: Option<(ClockOffset, Time)>,
    /// What the own clock is ahead of the neighbour's by the network's, as stamps wrap.
    clocks_us: Option<u32>,
    /// What the neighbour has told last of what arrived there and what was lost.
    told: Option<(u32, u32)>,
    /// The last hellos that were sent, by their stamps, for what the link carries until the answer.
    asked: VecDeque<(u32, Echo)>,
    /// The reliable lane, both ways.
    pub reliable: Lane,
    /// What the signatures of its records may cost.
    pub(crate) verifications: Verifications,
    /// What the link has carried.
    pub counts: Counts,
    /// The number of this node's start, which its hellos carry.
    boot: u32,
    /// The number of the neighbour's start; another one means that it has restarted.
    pub peer_boot: Option<u32>,
    /// What becomes of dialling it.
    pub(crate) dialling: Dialling,
    /// The byte stream beside its datagrams.
    pub(crate) fallback: Fallback,
    /// Since when the link is up, or down.
    pub(crate) since: Time,
    /// Why the link went down last.
    pub(crate) down_why: Option<&'static str>,
    /// The link is on the list of those to look at in this flush.
    pub(crate) touched: bool,
    /// Packets may be sent twice at once.
    copies_ahead: bool,
    copies_rest: Rest,
    /// Since when the brake of the real-time lane holds packets back.
    full_since: Option<Time>,
    /// The link that has carried last what this one had no room for, and when.
    pub(crate) passed: Option<(LinkIndex, Time)>,
    /// Its price tells of it.
    is_priced_full: bool,
}

/// How a link has come to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// It is configured.
    Hand,
    /// It is configured as one by which the node enters the network.
    First,
    /// This node has made it by itself.
    Found,
    /// The neighbour has dialled.
    Came,
}

/// What a link has carried since the node started. Bytes are those of sealed datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Data datagrams sent.
    pub data_out: u64,
    /// Their bytes.
    pub data_out_bytes: u64,
    /// Of these bytes those of real-time packets that went for the first time.
    pub realtime_out_bytes: u64,
    /// Data datagrams received.
    pub data_in: u64,
    /// Their bytes.
    pub data_in_bytes: u64,
    /// Of the data datagrams, both ways, those that nodes have sent each other on their own account.
    #[serde(skip)]
    pub own: u64,
    /// Control datagrams sent.
    pub control_out: u64,
    /// Their bytes.
    pub control_out_bytes: u64,
    /// Repair packets sent.
    pub repair_out: u64,
    /// Their bytes.
    pub repair_out_bytes: u64,
    /// Copies of data datagrams that went by a second path.
    pub copies_out: u64,
    /// Their bytes.
    pub copies_out_bytes: u64,
    /// Copies that should have gone and did not: no buffer, longer than the path takes, or no session.
    pub copies_unsent: u64,
    /// Bytes of the data datagrams that went by a path beside the one in use, to share the load.
    pub spread_out_bytes: u64,
    /// Times that another path was taken.
    pub path_changes: u64,
    /// Times that the link came up.
    pub ups: u64,
    /// Times that it went down.
    pub downs: u64,
}

/// A datagram that was opened, and whether its session or address asks for attention.
#[derive(Clone, Debug)]
pub struct Received {
    /// The path that it came by.
    pub path: PathId,
    /// Where the plaintext stands.
    pub plaintext: Range<usize>,
    /// Data or control.
    pub kind: Kind,
    /// It is the first of a session that this node dialled.
    pub confirms: bool,
    /// The neighbour has moved to another address below.
    pub moved: bool,
    /// It has shown that packets are being lost.
    pub alarmed: bool,
}

impl Link {
    /// A link without a session.
    pub fn new(peer: NodeAddr, name: &str, settings: &Settings, boot: u32, now: Time) -> Link {
        let mut realtime = settings.realtime.clone();
        if realtime.aims.protect == Protect::Off {
            (realtime.strikes, realtime.copies_ahead) = (0, false);
        }
        Link {
            peer,
            name: name.to_owned(),
            dial: None,
            dial_more: Vec::new(),
            is_left: false,
            made: Made::Came,
            is_resting: false,
            announced: Vec::new(),
            capacity_kbps: 0,
            carried: None,
            hops: None,
            path: Path::new(PathId(0), settings.hello, settings.metric, now),
            spares: Vec::new(),
            choice: Choice::default(),
            opening: Opening::default(),
            uplinks: settings.uplinks,
            shares: Shares::new(settings.spread_bulk),
            peer_knows_paths: false,
            hello_settings: settings.hello,
            parameters: settings.parameters(),
            alarm_told: None,
            announce: Announce::new(settings.announce),
            history: History::new(realtime.clone()),
            pilot: Pilot::new(realtime.aims),
            told_aims: ToldAims::default(),
            plan_began: (0, 0),
            overrun: Lately::default(),
            peer_takes_repair: false,
            reported: (now, 0),
            runs_told: protection::RunsTold::default(),
            strikes: realtime.strikes,
            lane_mark: 0,
            // The paper's nodes have requests alone, so theirs are not told that repair is of use.
            takes_repair: realtime.aims.protect.repairs(),
            ahead: None,
            copies_ahead: realtime.copies_ahead,
            copies_rest: Rest::default(),
            full_since: None,
            passed: None,
            is_priced_full: false,
            receiver: Receiver::new(realtime),
            brake: settings.brake.map(Brake::new),
            clock_told: None,
            clocks_us: None,
            told: None,
            asked: VecDeque::new(),
            reliable: Lane::new(settings.reliable),
            verifications: Verifications::new(now),
            counts: Counts::default(),
            boot,
            peer_boot: None,
            dialling: Dialling::default(),
            fallback: Fallback::default(),
            since: now,
            down_why: None,
            touched: false,
        }
    }

    /// The other end is heard, and hears this one.
    pub fn is_up(&self) -> bool {
        self.path.is_up()
    }

    /// The link carries data and has fallen silent: it may have failed, and nobody knows yet. Or it has become much longer,
    /// and routes do not know. Where a spare carries copies meanwhile, nobody needs to; but an idle one that was well a second
    /// ago says nothing of a neighbour that may be dead. It counts once it was heard after the doubt began.
    #[inline]
    pub fn is_in_doubt(&self, now: Time) -> bool {
        let silent = self.path.hello.doubted_since(now);
        if silent.is_none() && !self.path.is_late(now) {
            return false;
        }
        let is_heard = |place: usize| silent.is_none_or(|since| self.spares[place].heard >= since);
        !self.best_spare(now).is_some_and(is_heard)
    }

    /// The link's datagrams travel inside a byte stream.
    #[inline]
    pub fn is_over_stream(&self) -> bool {
        self.path.is_over_stream()
    }

    /// The neighbour is reached there from now on.
    pub(crate) fn move_to(&mut self, now: Time, at: UnderlayAddr) {
        self.fallback.on_moved(now, self.path.at, at);
        self.path.at = Some(at);
    }

    /// Packets are sent over the link and taken from it: it is up, or was a moment ago and is tried
    /// by what has no other way.
    #[inline]
    pub fn carries(&self) -> bool {
        self.path.carries()
    }

    /// It has room for what is not needed: what congestion has dropped is not helped by more.
    pub(crate) fn takes_redundancy(&self) -> bool {
        self.brake.as_ref().is_none_or(Brake::allows_redundancy)
    }

    /// What an answer of the neighbour takes at present; zero before the first is measured.
    pub fn rtt(&self) -> Duration {
        self.path.rtt()
    }

    /// What an answer to a request takes.
    pub fn round_trip(&self) -> RoundTrip {
        self.path.round_trip()
    }

    /// What the link takes from the time of a packet that is sent.
    #[inline]
    pub fn way_there(&self) -> Duration {
        self.path.way_there()
    }

    /// What it has taken from that of one that came by a path; zero before it is measured.
    #[inline]
    pub fn way_here_by(&self, path: PathId) -> Duration {
        self.path_of(path).unwrap_or(&self.path).way_here()
    }

    /// What the link suffers at present, in a word: nothing comes, packets wait, or some are lost.
    pub(crate) fn trouble(&self) -> Option<&'static str> {
        let is_queued = self.brake.as_ref().is_some_and(Brake::is_queued);
        let lost = self
            .path
            .loss
            .rate()
            .max(self.path.hello.loss_out().share());
        match self.path.hello.state() {
            _ if self.path.sessions.is_empty() => Some("outage"),
            hello::State::Down => Some("outage"),
            _ if is_queued => Some("queue"),
            _ if lost >= LOSS_NOTABLE => Some("loss"),
            _ => None,
        }
    }

    /// For how long nothing has come from the neighbour; none if nothing ever has.
    pub(crate) fn silence(&self, now: Time) -> Option<Duration> {
        self.paths().filter_map(|path| path.silence(now)).min()
    }

    /// The neighbour is to be dialled now: there is no session, the session is old, or nothing has
    /// come for so long that the neighbour may have restarted and lost its keys, or a stream was opened because
    /// datagrams get through in one direction at most. It may be at so many places, which are dialled a short step apart:
    /// the first that answers is used. [RFC 8305]
    pub(crate) fn wants_dial(&self, now: Time, places: usize) -> bool {
        let path = &self.path;
        let rest = match self.next_step(now, places) {
            Some(_) => DIAL_STEP,
            None => {
                let rounds = path.dials / DIALS_PER_STEP / places.max(1) as u32;
                (DIAL_REST * (1 << rounds.min(3))).min(DIAL_REST_MAX)
            }
        };
        let rested = path.dialled.is_none_or(|at| now.since(at) >= rest);
        rested && (self.is_lost(now) || path.sessions.wants_rekey(now))
    }

    /// When the next one of so many places is to be dialled, if some of them have been.
    pub(crate) fn next_step(&self, now: Time, places: usize) -> Option<Time> {
        let is_between = !(self.path.dials as usize).is_multiple_of(places.max(1));
        let dialled = self.path.dialled.filter(|_| is_between)?;
        let next = match dialled + DIAL_STEP {
            // All of them are being dialled.
            past if past <= now => now + DIAL_STEP,
            next => next,
        };
        self.is_lost(now).then_some(next)
    }

    /// There is no session, or nothing has come under it for so long that the neighbour may have lost its keys.
    fn is_lost(&self, now: Time) -> bool {
        let is_silent = now.since(self.path.heard) >= SILENT || self.fallback.stream().is_some();
        self.path.sessions.is_empty() || (!self.is_up() && is_silent)
    }

    /// Looks whether the link has room for what it is given. To be called about once per second.
    pub(crate) fn note_room(&mut self, now: Time) {
        let is_full = self
            .brake
            .as_ref()
            .is_some_and(|brake| brake.rate_bps().is_some());
        self.full_since = is_full.then(|| self.full_since.unwrap_or(now));
        let lasts = self
            .full_since
            .is_some_and(|since| now.since(since) >= FULL_AFTER);
        if !lasts {
            self.is_priced_full = false;
            return;
        }
        let is_new = !core::mem::replace(&mut self.is_priced_full, true);
        self.path.hello.on_too_full(now, is_new);
    }

    /// What the direction to the neighbour costs at the moment: what leaves here is lost as the
    /// neighbour measures it.
    pub fn measured_cost(&self, now: Time) -> LinkCost {
        self.path.measured_cost(now)
    }

    /// Opens a datagram of the neighbour in place, and learns from its number and its origin.
    #[inline]
    pub fn open(
        &mut self,
        now: Time,
        from: UnderlayAddr,
        session: SessionIndex,
        datagram: &mut [u8],
    ) -> Result<Received, Drop> {
        let holds = |path: &Path| path.sessions.by_index(session).is_some();
        let spare = match self.spares.is_empty() || holds(&self.path) {
            true => None,
            false => self.spares.iter().position(holds),
        };
        let path = match spare {
            Some(place) => &mut self.spares[place],
            None => &mut self.path,
        };
        let (opened, is_newest) = path.open(now, datagram)?;
        let alarmed = path.has_news_of_runs() && path.note_runs(now);
        let received = Received {
            path: path.id,
            plaintext: opened.plaintext,
            kind: opened.kind,
            confirms: opened.confirms,
            moved: false,
            alarmed: alarmed && self.alarm_told.is_none(),
        };
        if spare.is_some() {
            return Ok(received);
        }
        self.dialling.on_heard();
        // Only the newest datagram tells where the neighbour is, so that a straggler from its old
        // address does not move it back. A stream belongs to one neighbour: what another one sends on in it moves nobody.
        let is_own = !from.is_stream() || self.fallback.stream() == Some(from);
        if !is_newest || !is_own || self.path.at == Some(from) {
            return Ok(received);
        }
        let moved = !self.path.leads_to(from);
        self.move_to(now, from);
        Ok(Received { moved, ..received })
    }

    /// Notes a data packet that came by a path.
    #[inline]
    pub(crate) fn on_data_received(
        &mut self,
        now: Time,
        path: PathId,
        (is_own, plaintext_bytes): (bool, usize),
    ) {
        self.counts.own += u64::from(is_own);
        if let Some(path) = self.path_of_mut(path) {
            path.hello.on_data_received(now);
        }
        self.counts.data_in += 1;
        self.counts.data_in_bytes += (plaintext_bytes + CLEAR_BYTES + TAG_BYTES) as u64;
    }

    /// Data datagrams of clients, both ways.
    pub(crate) fn client_packets(&self) -> u64 {
        let all = self.counts.data_in + self.counts.data_out;
        all.saturating_sub(self.counts.own)
    }

    /// When the link wants attention next.
    pub fn next_timeout(&self) -> Option<Time> {
        // A neighbour that is nowhere is told nothing: what is due for it waits until it is back.
        let lanes = [self.history.next_timeout(), self.receiver.next_timeout()];
        let lanes = lanes.into_iter().flatten().min();
        let spares = self.spares.iter().filter_map(Path::next_timeout).min();
        [
            self.path.next_timeout(),
            spares,
            lanes.filter(|_| self.path.at.is_some()),
            self.reliable.next_timeout().filter(|_| self.is_up()),
            self.announce.next_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Begins the lanes anew: the neighbour has restarted, or this is the first session with it.
    pub fn reset_lanes(&mut self, now: Time) {
        if let Some(brake) = &mut self.brake {
            brake.reset(now);
        }
        self.told = None;
        // The brake counts from zero again.
        self.asked.clear();
        self.history.reset();
        self.pilot.reset();
        self.told_aims.forget();
        self.runs_told = protection::RunsTold::default();
        self.plan_begins();
        self.receiver.reset();
        self.reliable.restart();
    }
}
