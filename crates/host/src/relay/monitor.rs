//! Monitors the segments that begin at a node, once per second. It reports their state to the node that began the
//! transfer and to this node's books, decides how many of their connections are used, and runs the scavenger's brake.
//!
//! TCP's information about its connections shows which segment limits a pipeline: a segment that always has something
//! to send, to an end that always accepts it, is as fast as the network permits. The other segments wait for it.

use super::account::Account;
use super::duplex::Duplex;
use super::failure::{Failure, FailureKind};
use super::recent::Recent;
use super::socket::{Data, Socket};
use super::totals::Totals;
use super::transfer::Transfer;
use super::uplinks::{self, Found, Uplinks, Wires};
use base::NodeAddr;
use net::clock::Clock;
use overlay::snapshot::PathHealth;
use relay::pace::{Pacer, Sample, TICK};
use relay::striping::{LOOK_US, Look, Striping};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wire::link_state::Rates;
use wire::relay::{Carried, Message, Open, Segment};

/// How often a segment is reported.
const TELL: base::Duration = base::Duration::from_secs(1);

/// If the round trip of the segment is shorter than this, a probe is measured more often, because TCP reaches its rate
/// sooner.
const PROBE_NEAR_US: u32 = 40_000;
/// How often such a probe is measured.
const LOOK_NEAR_US: u64 = 300_000;
/// How often the network is informed of what the segments carry, while they carry it.
const LEARN: base::Duration = base::Duration::from_secs(10);

/// The connections of one segment, at the sending end.
struct Sending {
    to: NodeAddr,
    stripes: Vec<Stripe>,
    /// How many of them are used, for the threads that send on them.
    used: Used,
    striping: Striping,
    told: Totals,
    looked: Totals,
    /// True if the congestion control is the kernel's default. The rates of another congestion control do not apply to
    /// other transfers.
    is_usual: bool,
}

struct Stripe {
    socket: Arc<Socket>,
    pacer: Pacer,
    /// Which of the pairs of the hosts' addresses it connects.
    uplink: u8,
    /// The kernel's last information.
    info: net::tcp::Info,
}

/// How many connections of a segment are used: always the first ones.
#[derive(Clone, Debug)]
pub(super) struct Used(Arc<AtomicUsize>);

impl Used {
    /// Uses all connections.
    pub(super) fn all() -> Used {
        Used(Arc::new(AtomicUsize::new(usize::MAX)))
    }

    /// Returns true if the connection with this number is used.
    pub(super) fn has(&self, stripe: usize) -> bool {
        stripe < self.0.load(Ordering::Relaxed)
    }

    fn set(&self, count: u8) {
        self.0.store(usize::from(count), Ordering::Relaxed);
    }
}

/// Monitors what a node sends for one transfer.
pub(super) struct Monitor {
    here: NodeAddr,
    /// The control connection towards the node that began the transfer.
    teller: Arc<Duplex>,
    account: Arc<Account>,
    clock: Clock,
    state: Mutex<State>,
    recent: Arc<Recent>,
    scavenge: bool,
    /// The congestion control that was requested, or none.
    congestion: String,
}

struct State {
    segments: Vec<Sending>,
    wires: Wires,
    told: base::Time,
    looked: base::Time,
    learnt: base::Time,
}

impl Monitor {
    pub(super) fn new(
        here: NodeAddr,
        teller: &Arc<Duplex>,
        account: &Arc<Account>,
        recent: &Arc<Recent>,
        open: &Open<'_>,
    ) -> Monitor {
        let clock = Clock::new();
        Monitor {
            here,
            teller: Arc::clone(teller),
            account: Arc::clone(account),
            clock,
            state: Mutex::new(State {
                segments: Vec::new(),
                wires: Wires::default(),
                told: clock.now(),
                looked: clock.now(),
                learnt: clock.now(),
            }),
            recent: Arc::clone(recent),
            scavenge: open.scavenge,
            congestion: open.congestion.to_owned(),
        }
    }

    /// Begins to watch a segment that begins here. If it `adapts`, it chooses how many connections it uses. A segment
    /// within the host has nothing to report.
    pub(super) fn watch(&self, to: NodeAddr, data: &[Data], adapts: bool) -> Used {
        let tcp = || {
            data.iter()
                .filter_map(|data| Some((data, data.socket.tcp()?)))
        };
        let ip = |at: std::io::Result<SocketAddr>| at.ok().map(|at| at.ip());
        let uplinks =
            Uplinks::of(tcp().map(|(_, tcp)| (ip(tcp.local_addr()), ip(tcp.peer_addr()))));
        let stripe = |((data, _), uplink): ((&Data, _), &u8)| Stripe {
            socket: Arc::clone(&data.socket),
            pacer: Pacer::default(),
            uplink: *uplink,
            info: net::tcp::Info::default(),
        };
        let stripes: Vec<Stripe> = tcp().zip(uplinks.each()).map(stripe).collect();
        let used = Used::all();
        let Some(most) = u8::try_from(stripes.len()).ok().filter(|most| *most > 0) else {
            return used;
        };
        let before = self.recent.of(to, &self.congestion);
        let before = before.filter(|_| adapts && !self.scavenge);
        let striping =
            before.map_or_else(|| Striping::new(most, adapts), |before| before.go_on(most));
        let striping = striping.over(uplinks.least());
        used.set(striping.active());
        if self.scavenge {
            for stripe in &stripes {
                stripe.pace(stripe.pacer.rate_bps());
            }
        }
        self.with(|state| {
            state.segments.push(Sending {
                to,
                is_usual: self.congestion.is_empty(),
                stripes,
                used: used.clone(),
                striping,
                told: Totals::default(),
                looked: Totals::default(),
            });
        });
        used
    }

    /// Watches these connections to a node: the transfer ends if one of their uplinks is lost.
    pub(super) fn guard<'a>(&self, to: NodeAddr, sockets: impl Iterator<Item = &'a Arc<Socket>>) {
        let now = self.clock.now();
        self.with(|state| sockets.for_each(|socket| state.wires.add(now, to, socket)));
    }

    /// Watches until the transfer is over. `learn` gets what the segments carry, periodically and at the end.
    /// `watch_paths` makes the overlay watch the paths to a node closely, and returns what it knows about them.
    pub(super) fn run(
        &self,
        transfer: &Transfer,
        learn: impl Fn(NodeAddr, Rates),
        watch_paths: impl Fn(NodeAddr) -> Option<Vec<PathHealth>>,
    ) {
        let tick = match self.scavenge {
            true => Duration::from_nanos(TICK.as_nanos()),
            false => Duration::from_micros(LOOK_US),
        };
        while !transfer.wait(tick) {
            let now = self.clock.now();
            if self.scavenge {
                self.with(|state| state.segments.iter_mut().for_each(|s| s.pace(now)));
            } else {
                self.with(|state| state.look(now));
            }
            if self.with(|state| now.since(state.told) >= TELL) {
                self.tell();
            }
            if !transfer.has_failed()
                && let Some(failure) = self.lost(now, &watch_paths)
            {
                // No other node could know a better reason, so there is no wait for one.
                transfer.fail_at_once(failure);
            }
            if self.with(|state| now.since(state.learnt) >= LEARN) {
                self.with(|state| state.learnt = now);
                self.learnt(&learn);
            }
        }
        self.learnt(&learn);
    }

    /// Returns a failure if an uplink is dead or a node is gone.
    fn lost(
        &self,
        now: base::Time,
        watch_paths: &impl Fn(NodeAddr) -> Option<Vec<PathHealth>>,
    ) -> Option<Failure> {
        // Only this node's uplink is to blame: the next attempt may use the same route.
        let uplink = |text: String| {
            Some(Failure::new(self.here, FailureKind::Broken, text).about(self.here))
        };
        let quiet = match self.with(|state| state.wires.look(now)) {
            Found::Gone(to) => {
                let error = std::io::ErrorKind::TimedOut.into();
                return Some(Failure::broken(self.here, to, &error));
            }
            Found::Lost(to) => return uplink(format!("one of the uplinks to {to} is silent")),
            Found::Quiet(quiet) => quiet,
        };
        for ((to, ends), span) in quiet {
            let paths = watch_paths(to)?;
            if uplinks::is_lost(&paths, ends, span) {
                let [from, at] = ends;
                return uplink(format!(
                    "the uplink to {to} from {from} to {at} is dead, and another one is not"
                ));
            }
            if !uplinks::have_choice(&paths) {
                self.with(|state| state.wires.on_no_choice(now, (to, ends)));
            }
        }
        None
    }

    /// Watches a probe until it has its result, or until its time is up.
    pub(super) fn find_out(&self, transfer: &Transfer) -> Carried {
        let begun = self.clock.now();
        let mut rtt_us = 0;
        let is_cut_short = loop {
            let tick = match rtt_us > PROBE_NEAR_US {
                true => Duration::from_micros(LOOK_US),
                false => Duration::from_micros(LOOK_NEAR_US),
            };
            if transfer.wait(tick) {
                // The bytes are used up. A span in which they ran out shows nothing.
                break true;
            }
            let now = self.clock.now();
            let is_settled = self.with(|state| {
                state.look(now);
                let segment = state.segments.first();
                rtt_us = segment.map_or(0, |s| s.looked.min_rtt_us);
                segment.is_none_or(|s| s.striping.is_settled())
            });
            if is_settled || now.since(begun).as_micros() >= relay::PROBE_US {
                break false;
            }
        };
        self.with(|state| {
            let Some(segment) = state.segments.first_mut() else {
                return Carried::default();
            };
            match is_cut_short {
                true => segment.striping.close(),
                false => segment.striping.hurry(),
            }
            let carried = segment.striping.carried();
            Carried {
                one_bps: carried.one_bps.unwrap_or(0),
                together_bps: carried.together_bps.unwrap_or(0),
                is_full: carried.is_full,
                spread_pct: carried.spread_pct,
                rtt_us,
            }
        })
    }

    /// Reports what the segments carry. A scavenger measures only what other traffic leaves, which is no capacity.
    pub(super) fn learnt(&self, learn: impl Fn(NodeAddr, Rates)) {
        if self.scavenge {
            return;
        }
        let all: Vec<_> = self.with(|state| {
            // Results of an earlier transfer do not become newer by this one.
            let news = || state.segments.iter().filter(|s| s.striping.has_judged());
            let free = news().filter(|s| s.striping.is_free());
            free.for_each(|s| self.recent.keep(s.to, &self.congestion, &s.striping));
            news().map(Sending::carried).collect()
        });
        let known = all.into_iter().filter_map(|(to, rates)| Some((to, rates?)));
        known.for_each(|(to, rates)| learn(to, rates));
    }

    /// Reports all segments.
    pub(super) fn tell(&self) {
        let now = self.clock.now();
        let told: Vec<(NodeAddr, Segment)> = self.with(|state| {
            let span_us = now.since(state.told).as_micros().max(1);
            state.told = now;
            self.account.on_second(span_us);
            let segments = state.segments.iter_mut();
            segments.map(|s| (s.to, s.segment(span_us))).collect()
        });
        for (to, segment) in told {
            self.account.on_segment(self.here, to, segment);
            // If the other side no longer listens, other parts of the transfer notice it.
            let _ = self.teller.send(&Message::Segment(self.here, to, segment));
        }
    }

    /// Notes the report of a node behind about a segment there.
    pub(super) fn on_segment(&self, from: NodeAddr, to: NodeAddr, segment: Segment) {
        self.account.on_segment(from, to, segment);
    }

    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn look(&mut self, now: base::Time) {
        let span_us = now.since(self.looked).as_micros();
        self.looked = now;
        self.segments.iter_mut().for_each(|s| s.look(span_us));
    }
}

impl Sending {
    /// Returns the connections in use. Connections used earlier may still retransmit, which does not count.
    fn active(&self) -> &[Stripe] {
        &self.stripes[..self.stripes.len().min(self.striping.active().into())]
    }

    /// Gets the kernel's information about each connection.
    fn ask(&mut self) {
        for stripe in &mut self.stripes {
            let tcp = stripe.socket.tcp();
            let told = tcp.and_then(|tcp| net::tcp::info(tcp).ok());
            // A connection that is gone has no information.
            stripe.info = told.unwrap_or_default();
        }
    }

    /// Sums over the connections: the bytes of all of them, and the state of those in use.
    fn totals(&self) -> Totals {
        let mut now = Totals::default();
        for stripe in &self.stripes {
            let info = &stripe.info;
            now.bytes += info.acked;
            now.resent += u64::from(info.resent);
        }
        let mut uplinks: Vec<(u32, u32)> = Vec::new();
        for stripe in self.active() {
            let info = &stripe.info;
            now.each_us.push((info.busy_us, info.window_limited_us));
            let place = usize::from(stripe.uplink);
            uplinks.resize(uplinks.len().max(place + 1), (0, 0));
            let (rtt, least) = &mut uplinks[place];
            *rtt = info.rtt_us.max(*rtt);
            *least = match *least {
                0 => info.min_rtt_us,
                least => least.min(info.min_rtt_us),
            };
        }
        now.note_round_trips(&uplinks);
        now
    }

    fn look(&mut self, span_us: u64) {
        self.ask();
        let now = self.totals();
        let last = std::mem::replace(&mut self.looked, now.clone());
        let (waited, starved) = now.shares(&last, span_us);
        let before = self.striping.active();
        self.striping.on_look(Look {
            span_us,
            bytes: now.bytes.saturating_sub(last.bytes),
            idle_permille: waited + starved,
            rtt_us: now.rtt_us,
            min_rtt_us: now.min_rtt_us,
            resent: u32::try_from(now.resent.saturating_sub(last.resent)).unwrap_or(u32::MAX),
        });
        let active = self.striping.active();
        if active != before {
            self.used.set(active);
            // Sums over other connections start again.
            (self.looked, self.told) = (
                self.totals(),
                Totals {
                    bytes: self.told.bytes,
                    ..self.totals()
                },
            );
        }
    }

    fn segment(&mut self, span_us: u64) -> Segment {
        self.ask();
        let now = self.totals();
        let last = std::mem::replace(&mut self.told, now.clone());
        let (waited, starved) = now.least_idle(&last, span_us);
        Segment {
            bytes: now.bytes,
            rate_bps: now.bytes.saturating_sub(last.bytes) * 8_000_000 / span_us,
            rtt_us: now.rtt_us,
            resent: u32::try_from(now.resent).unwrap_or(u32::MAX),
            waited,
            starved,
            stripes: self.striping.active().into(),
        }
    }

    /// Returns what is known of the segment now.
    fn carried(&self) -> (NodeAddr, Option<Rates>) {
        let carried = self.striping.carried();
        let kbps = |bps: Option<u64>| {
            let kbps = bps.unwrap_or(0) / 1_000;
            u32::try_from(kbps).unwrap_or(u32::MAX)
        };
        let rates = Rates {
            one_kbps: kbps(carried.one_bps.filter(|_| self.is_usual)),
            // The rate of another congestion control differs from that of the default, unless it was the whole
            // capacity.
            together_kbps: kbps(
                carried
                    .together_bps
                    .filter(|_| self.is_usual || carried.is_full),
            ),
            is_full: carried.is_full,
            spread_pct: carried.spread_pct,
        };
        // If a fixed number of several connections was used, they may have taken the shares of other traffic.
        let is_fair = self.striping.is_free() || self.stripes.len() == 1;
        let is_told = is_fair && (rates.one_kbps > 0 || rates.together_kbps > 0);
        (
            self.to,
            carried.together_bps.filter(|_| is_told).map(|_| rates),
        )
    }

    fn pace(&mut self, now: base::Time) {
        self.ask();
        for stripe in &mut self.stripes {
            let info = &stripe.info;
            let sample = Sample {
                rtt_us: info.rtt_us,
                min_rtt_us: info.min_rtt_us,
                delivered: info.acked,
                sent: info.sent.into(),
                resent: info.resent.into(),
            };
            let before = stripe.pacer.rate_bps();
            let rate = stripe.pacer.on_sample(now, sample);
            if rate != before {
                stripe.pace(rate);
            }
        }
    }
}

impl Stripe {
    fn pace(&self, rate_bps: u64) {
        if let Some(tcp) = self.socket.tcp() {
            let _ = net::tcp::set_pacing_rate(tcp, rate_bps);
        }
    }
}
