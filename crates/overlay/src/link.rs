//! One link: everything that this node keeps about one neighbour. Also the table of links by index, by neighbour and by
//! session.
//!
//! ```text
//!   no session --Established--> session, hello probing --hellos in a row--> up <--a hello-- tried
//!        ^                                                                   |                ^
//!        '---- dial again <---- down (closing, or tried for long) <----------'--- silence ----'
//! ```
//! A session survives an outage: after silence the hellos continue, and the link comes up again with the same keys,
//! unless the neighbour has restarted and makes a new session.
//!
//! A link has one [`Path`] in use, and spares if there are several uplinks. It is up as long as one of its paths is up.
//! Lanes, counts and announcements belong to the link.

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

/// Silence after which the node dials a neighbour again whose link is down: at once when the silence of an active link
/// has taken it down.
const SILENT: Duration = Duration::from_millis(300);
/// The time between dialling one address of a neighbour and the next. [RFC 8305 §5]
const DIAL_STEP: Duration = Duration::from_millis(250);
/// The shortest rest between two dials of all its addresses.
const DIAL_REST: Duration = Duration::from_secs(1);
/// After this many dials without an answer, the rest between two dials doubles, up to [`DIAL_REST_MAX`]: an Init has
/// 1152 bytes, and a neighbour may be gone for days.
const DIALS_PER_STEP: u32 = 8;
const DIAL_REST_MAX: Duration = Duration::from_secs(8);

/// A link that has held packets back for this long has less room than the load needs. Choice: a step of the load is
/// over by then.
const FULL_AFTER: Duration = Duration::from_secs(1);

/// The packet loss that a link may have without trouble. Choice: what recovery leaves of twice this loss is not
/// audible.
const LOSS_NOTABLE: f64 = 0.005;

/// The mark of control datagrams, above the mark of every priority.
pub const MARK_CONTROL: u8 = 9;

/// Returns the mark of packets of a class: one more than the priority, because 0 means no mark.
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
    /// The configured address; dialled when there is no session.
    pub dial: Option<UnderlayAddr>,
    /// Further addresses of the neighbour.
    pub(crate) dial_more: Vec<UnderlayAddr>,
    /// The configuration had this neighbour and no longer has it: there is no link unless the neighbour dials and may
    /// do so.
    pub(crate) is_left: bool,
    /// How the link has come to be.
    pub(crate) made: Made,
    /// The node does not dial the neighbour for now, though it knows an address.
    pub(crate) is_resting: bool,
    /// The addresses that the neighbour announces, as far as the node dials them too.
    pub(crate) announced: Vec<UnderlayAddr>,
    /// The configured capacity of the link, in kbit/s; 0 if it is not known.
    pub capacity_kbps: u32,
    /// The rates that transfers to the neighbour have reached.
    pub carried: Option<Carried>,
    /// The number of physical links to the neighbour, once it is known.
    pub hops: Option<NonZeroU8>,
    /// The path by which this end sends.
    pub path: Path,
    /// The other paths.
    pub(crate) spares: Vec<Path>,
    pub(crate) choice: Choice,
    opening: Opening,
    uplinks: Uplinks,
    /// The paths that bulk data takes.
    shares: Shares,
    /// The neighbour accepts sessions of further paths.
    pub(crate) peer_knows_paths: bool,
    hello_settings: hello::Settings,
    parameters: Parameters,
    /// When this node reported an alarm that others still know.
    alarm_told: Option<Time>,
    /// When the link's cost is announced.
    pub announce: Announce,
    /// The real-time lane to the neighbour.
    pub history: History,
    /// Chooses how packets of the real-time lane are protected.
    pub(crate) pilot: Pilot,
    /// The aims of flows with special repair that the neighbour has been sent.
    pub(crate) told_aims: ToldAims,
    /// Bytes of real-time packets and of repair packets that had been sent when the pilot's plan began.
    plan_began: (u64, u64),
    /// Packets that the history could not keep for long enough.
    pub(crate) overrun: Lately,
    /// The neighbour accepts repair packets.
    pub(crate) peer_takes_repair: bool,
    /// How often the neighbour requests a packet that it misses, as it announces. While that is not known, as often as
    /// this node.
    pub(crate) peer_strikes: Option<u8>,
    /// When this node last reported the fate of the neighbour's packets to it, and how many had arrived then.
    reported: (Time, u64),
    /// The runs of losses in the direction to the neighbour, as the neighbour reports them.
    runs_told: protection::RunsTold,
    strikes: u8,
    takes_repair: bool,
    /// The mark of the last packet of the real-time lane.
    lane_mark: u8,
    /// The choice of packets of the lane that are sent twice at once.
    ahead: Option<Ahead>,
    /// The real-time lane from the neighbour.
    pub receiver: Receiver,
    /// Holds the real-time lane to the neighbour back when it meets congestion.
    pub brake: Option<Brake>,
    /// The neighbour's last report of the network's clock, and when it arrived.
    pub(crate) clock_told: Option<(ClockOffset, Time)>,
    /// The difference by which the own clock is ahead of the neighbour's, by the network's clock; it wraps as stamps
    /// do.
    clocks_us: Option<u32>,
    /// The neighbour's last report of how many datagrams arrived there and how many were lost.
    told: Option<(u32, u32)>,
    /// The last hellos that were sent, by their stamps, to find what the link carried until the answer.
    asked: VecDeque<(u32, Echo)>,
    /// The reliable lane, in both directions.
    pub reliable: Lane,
    /// The budget for checking the signatures of the neighbour's records.
    pub(crate) verifications: Verifications,
    /// Totals of what the link has carried.
    pub counts: Counts,
    /// The number of this node's start, which its hellos carry.
    boot: u32,
    /// The number of the neighbour's start; a changed number means that it has restarted.
    pub peer_boot: Option<u32>,
    /// The result of dialling the neighbour.
    pub(crate) dialling: Dialling,
    /// The byte stream in addition to the link's datagrams.
    pub(crate) fallback: Fallback,
    /// When the link came up or went down.
    pub(crate) since: Time,
    /// Why the link last went down.
    pub(crate) down_why: Option<&'static str>,
    /// The link is on the list of links that this flush looks at.
    pub(crate) touched: bool,
    /// Packets may be sent twice at once.
    copies_ahead: bool,
    copies_rest: Rest,
    /// When the brake of the real-time lane began to hold packets back.
    full_since: Option<Time>,
    /// The link that has last carried packets for which this one had no room, and when.
    pub(crate) passed: Option<(LinkIndex, Time)>,
    /// The link's price includes the lack of room.
    is_priced_full: bool,
}

/// How a link has come to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// The link is configured.
    Hand,
    /// The link is configured as one by which the node enters the network.
    First,
    /// This node has made it by itself.
    Found,
    /// The neighbour has dialled.
    Came,
}

/// Totals of what a link has carried since the node started. Bytes are those of sealed datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Data datagrams sent.
    pub data_out: u64,
    /// Their bytes.
    pub data_out_bytes: u64,
    /// The part of these bytes that belongs to real-time packets sent for the first time.
    pub realtime_out_bytes: u64,
    /// Data datagrams received.
    pub data_in: u64,
    /// Their bytes.
    pub data_in_bytes: u64,
    /// The data datagrams in both directions that nodes have sent each other on their own behalf.
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
    /// Copies of data datagrams that were sent by a second path.
    pub copies_out: u64,
    /// Their bytes.
    pub copies_out_bytes: u64,
    /// Copies that should have been sent and were not: no buffer, longer than the path carries, or no session.
    pub copies_unsent: u64,
    /// Bytes of the data datagrams that were sent by a path other than the one in use, to share the load.
    pub spread_out_bytes: u64,
    /// Number of changes of the path in use.
    pub path_changes: u64,
    /// Number of times that the link came up.
    pub ups: u64,
    /// Number of times that the link went down.
    pub downs: u64,
}

/// A datagram that was opened, and whether its session or address needs attention.
#[derive(Clone, Debug)]
pub struct Received {
    /// The path by which it arrived.
    pub path: PathId,
    /// The position of the plaintext.
    pub plaintext: Range<usize>,
    /// Data or control.
    pub kind: Kind,
    /// True for the first datagram of a session that this node dialled.
    pub confirms: bool,
    /// The neighbour has moved to another underlay address.
    pub moved: bool,
    /// The datagram has shown that packets are being lost.
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
            peer_strikes: None,
            reported: (now, 0),
            runs_told: protection::RunsTold::default(),
            strikes: realtime.strikes,
            lane_mark: 0,
            // Nodes of the paper profile use requests alone, so their neighbours do not learn that repair packets are
            // useful.
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

    /// Returns true if the other end is heard, and hears this one.
    pub fn is_up(&self) -> bool {
        self.path.is_up()
    }

    /// Returns true if the link carries data and either has fallen silent, so that it may have failed, or has become
    /// much longer than routes know. There is no doubt if a spare carries copies meanwhile. But an idle spare that
    /// worked a second ago says nothing about a neighbour that may have failed: a spare counts once it was heard after
    /// the doubt began.
    #[inline]
    pub fn is_in_doubt(&self, now: Time) -> bool {
        let silent = self.path.hello.doubted_since(now);
        if silent.is_none() && !self.path.is_late(now) {
            return false;
        }
        let is_heard = |place: usize| silent.is_none_or(|since| self.spares[place].heard >= since);
        !self.best_spare(now).is_some_and(is_heard)
    }

    /// Returns true if the link's datagrams travel inside a byte stream.
    #[inline]
    pub fn is_over_stream(&self) -> bool {
        self.path.is_over_stream()
    }

    /// The neighbour is reached at `at` from now on.
    pub(crate) fn move_to(&mut self, now: Time, at: UnderlayAddr) {
        self.fallback.on_moved(now, self.path.at, at);
        self.path.at = Some(at);
    }

    /// Returns true if packets are sent over the link and accepted from it: the link is up, or it was up a moment ago
    /// and packets without another path try it.
    #[inline]
    pub fn carries(&self) -> bool {
        self.path.carries()
    }

    /// Returns true if the link has room for redundant packets. If congestion drops packets, more packets do not help.
    pub(crate) fn takes_redundancy(&self) -> bool {
        self.brake.as_ref().is_none_or(Brake::allows_redundancy)
    }

    /// Returns the time until an answer of the neighbour arrives at present; zero before the first is measured.
    pub fn rtt(&self) -> Duration {
        self.path.rtt()
    }

    /// Returns the time until the answer to a request arrives.
    pub fn round_trip(&self) -> RoundTrip {
        self.path.round_trip()
    }

    /// Returns the delay by which the link shortens the remaining time of a packet that is sent.
    #[inline]
    pub fn way_there(&self) -> Duration {
        self.path.way_there()
    }

    /// Returns the delay by which the link has shortened the remaining time of a packet that arrived by `path`; zero
    /// before it is measured.
    #[inline]
    pub fn way_here_by(&self, path: PathId) -> Duration {
        self.path_of(path).unwrap_or(&self.path).way_here()
    }

    /// Returns the present trouble of the link in a word: nothing arrives, packets wait, or some are lost.
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

    /// Returns how long nothing has arrived from the neighbour; `None` if nothing ever has.
    pub(crate) fn silence(&self, now: Time) -> Option<Duration> {
        self.paths().filter_map(|path| path.silence(now)).min()
    }

    /// Returns true if the neighbour is to be dialled now. Either there is no session, or the session is old, or
    /// nothing has arrived for so long that the neighbour may have restarted and lost its keys, or a stream was opened
    /// because datagrams get through in at most one direction. The neighbour may be at any of `places` addresses. The
    /// node dials them a short step apart and uses the first that answers. [RFC 8305]
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

    /// Returns when the next one of `places` addresses is to be dialled, if only some of them have been.
    pub(crate) fn next_step(&self, now: Time, places: usize) -> Option<Time> {
        let is_between = !(self.path.dials as usize).is_multiple_of(places.max(1));
        let dialled = self.path.dialled.filter(|_| is_between)?;
        let next = match dialled + DIAL_STEP {
            // All addresses are being dialled.
            past if past <= now => now + DIAL_STEP,
            next => next,
        };
        self.is_lost(now).then_some(next)
    }

    /// Returns true if there is no session, or if nothing has arrived for so long that the neighbour may have lost its
    /// keys.
    fn is_lost(&self, now: Time) -> bool {
        let is_silent = now.since(self.path.heard) >= SILENT || self.fallback.stream().is_some();
        self.path.sessions.is_empty() || (!self.is_up() && is_silent)
    }

    /// Checks whether the link has room for its load. To be called about once per second.
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

    /// Returns the cost of the direction to the neighbour at the moment. The neighbour measures the loss of that
    /// direction.
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
        // Only the newest datagram shows where the neighbour is, so that a straggler from its old address does not move
        // it back. A stream belongs to one neighbour: datagrams that another neighbour forwards in it move nobody.
        let is_own = !from.is_stream() || self.fallback.stream() == Some(from);
        if !is_newest || !is_own || self.path.at == Some(from) {
            return Ok(received);
        }
        let moved = !self.path.leads_to(from);
        self.move_to(now, from);
        Ok(Received { moved, ..received })
    }

    /// Notes a data packet that arrived by a path.
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

    /// Returns the number of data datagrams of clients, in both directions.
    pub(crate) fn client_packets(&self) -> u64 {
        let all = self.counts.data_in + self.counts.data_out;
        all.saturating_sub(self.counts.own)
    }

    /// Returns when the link needs attention next.
    pub fn next_timeout(&self) -> Option<Time> {
        // Nothing can be sent to a neighbour without a known address: what is due waits until the neighbour is back.
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

    /// Restarts the lanes: the neighbour has restarted, or this is the first session with it.
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
