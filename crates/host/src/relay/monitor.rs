//! How the segments that begin at a node fare, once per second, for who has begun the transfer and
//! for the node's own books; and the scavenger's brake.
//!
//! What TCP tells of its connections says which segment limits a pipeline: one that has always
//! something to send, to an end that always takes it, is as fast as the network lets it be; the
//! others wait for it.

use super::account::Account;
use super::duplex::Duplex;
use super::socket::{Data, Socket};
use super::transfer::Transfer;
use base::NodeAddr;
use net::clock::Clock;
use relay::pace::{Pacer, Sample, TICK};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wire::relay::{Message, Segment};

/// How often a segment is told of.
const TELL: base::Duration = base::Duration::from_secs(1);

/// A segment that was idle for less than this share of 1000 of a second was held back by the network
/// for the rest of it. Choice: one that idles more has its windows from other times.
const IDLE_PERMILLE: u16 = 250;
/// So long must the network have held it back for its rate to tell something.
const UNIDLE_LEAST_US: u64 = 3_000_000;

/// The connections of one segment, at the end that sends.
struct Sending {
    to: NodeAddr,
    stripes: Vec<Stripe>,
    last: Totals,
    /// What it has carried while only the network held it back, and how long that was.
    unidle_bytes: u64,
    unidle_us: u64,
}

struct Stripe {
    socket: Arc<Socket>,
    pacer: Pacer,
}

#[derive(Clone, Copy, Default)]
struct Totals {
    bytes: u64,
    resent: u64,
    busy_us: u64,
    shut_us: u64,
    rtt_us: u32,
}

/// Watches what a node sends for one transfer.
pub(super) struct Monitor {
    here: NodeAddr,
    /// Towards who has begun the transfer.
    teller: Arc<Duplex>,
    account: Arc<Account>,
    clock: Clock,
    state: Mutex<State>,
    scavenge: bool,
}

struct State {
    segments: Vec<Sending>,
    told: base::Time,
}

impl Monitor {
    pub(super) fn new(
        here: NodeAddr,
        teller: &Arc<Duplex>,
        account: &Arc<Account>,
        scavenge: bool,
    ) -> Monitor {
        let clock = Clock::new();
        Monitor {
            here,
            teller: Arc::clone(teller),
            account: Arc::clone(account),
            clock,
            state: Mutex::new(State {
                segments: Vec::new(),
                told: clock.now(),
            }),
            scavenge,
        }
    }

    /// A segment begins here. One within the host has nothing to tell.
    pub(super) fn watch(&self, to: NodeAddr, data: &[Data]) {
        let stripes: Vec<Stripe> = data
            .iter()
            .filter(|data| data.socket.tcp().is_some())
            .map(|data| Stripe {
                socket: Arc::clone(&data.socket),
                pacer: Pacer::default(),
            })
            .collect();
        if stripes.is_empty() {
            return;
        }
        if self.scavenge {
            for stripe in &stripes {
                stripe.pace(stripe.pacer.rate_bps());
            }
        }
        self.with(|state| {
            state.segments.push(Sending {
                to,
                stripes,
                last: Totals::default(),
                unidle_bytes: 0,
                unidle_us: 0,
            });
        });
    }

    /// Watches until the transfer is over.
    pub(super) fn run(&self, transfer: &Transfer) {
        let tick = match self.scavenge {
            true => Duration::from_nanos(TICK.as_nanos()),
            false => Duration::from_nanos(TELL.as_nanos()),
        };
        while !transfer.wait(tick) {
            let now = self.clock.now();
            if self.scavenge {
                self.with(|state| state.segments.iter_mut().for_each(|s| s.pace(now)));
            }
            if self.with(|state| now.since(state.told) >= TELL) {
                self.tell();
            }
        }
    }

    /// Tells of all segments.
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
            // Who does not listen any more is found by those who have to know.
            let _ = self.teller.send(&Message::Segment(self.here, to, segment));
        }
    }

    /// What a node behind tells of a segment there.
    pub(super) fn on_segment(&self, from: NodeAddr, to: NodeAddr, segment: Segment) {
        self.account.on_segment(from, to, segment);
    }

    /// What one connection has carried over each segment, where only the network held it back.
    pub(super) fn measured(&self) -> Vec<(NodeAddr, u64)> {
        self.with(|state| {
            let known = state
                .segments
                .iter()
                .filter(|s| s.unidle_us >= UNIDLE_LEAST_US);
            let one = known.map(|s| {
                let all_bps = s.unidle_bytes * 8_000_000 / s.unidle_us;
                (s.to, all_bps / s.stripes.len() as u64)
            });
            one.filter(|_| !self.scavenge).collect()
        })
    }

    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sending {
    fn segment(&mut self, span_us: u64) -> Segment {
        let mut now = Totals::default();
        for stripe in &self.stripes {
            let info = stripe.info();
            now.bytes += info.acked;
            now.resent += u64::from(info.resent);
            now.busy_us += info.busy_us;
            now.shut_us += info.window_limited_us;
            now.rtt_us = now.rtt_us.max(info.rtt_us);
        }
        let last = std::mem::replace(&mut self.last, now);
        let all_us = span_us * self.stripes.len() as u64;
        let share = |us: u64| u16::try_from((us * 1_000 / all_us).min(1_000)).unwrap_or(1_000);
        let busy = share(now.busy_us.saturating_sub(last.busy_us));
        let segment = Segment {
            bytes: now.bytes,
            rate_bps: now.bytes.saturating_sub(last.bytes) * 8_000_000 / span_us,
            rtt_us: now.rtt_us,
            resent: u32::try_from(now.resent).unwrap_or(u32::MAX),
            waited: share(now.shut_us.saturating_sub(last.shut_us)),
            starved: 1_000 - busy,
        };
        let is_whole = span_us >= TELL.as_micros();
        let idle = segment.waited + segment.starved;
        if is_whole && idle < IDLE_PERMILLE {
            self.unidle_bytes += now.bytes.saturating_sub(last.bytes);
            self.unidle_us += span_us * u64::from(1_000 - idle) / 1_000;
        }
        segment
    }

    fn pace(&mut self, now: base::Time) {
        for stripe in &mut self.stripes {
            let info = stripe.info();
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
    /// What the kernel tells; nothing of a connection that is gone.
    fn info(&self) -> net::tcp::Info {
        let tcp = self.socket.tcp();
        tcp.and_then(|tcp| net::tcp::info(tcp).ok())
            .unwrap_or_default()
    }

    fn pace(&self, rate_bps: u64) {
        if let Some(tcp) = self.socket.tcp() {
            let _ = net::tcp::set_pacing_rate(tcp, rate_bps);
        }
    }
}
