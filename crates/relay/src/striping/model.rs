//! Counts verdicts on a model of TCP: connections with CUBIC windows and random losses over a segment.
//!
//! ```text
//!   n connections, windows w1 … wn ──▶ segment (capacity, queue, round trip, loss) ──▶ Look ──▶ Striping
//!             ▲            a round of a round trip's length                │
//!             └──── bytes, round trip, lost packets, and timeouts ◀────────┘
//! ```
//! A level *carries* its mean rate over minutes of the model. A verdict is *too small* if its level carries less than
//! 0.8 of the best level, and *too large* if fewer connections reach 0.95 of the best and the round trip is 20 ms
//! longer than with these.

use super::*;
use base::Rng;

/// Payload of a packet.
const PACKET_BYTES: f64 = 1_448.0;
/// Length of the queue in front of the segment, in seconds.
const QUEUE_S: f64 = 0.05;
/// Number of probes of each segment.
const SEEDS: u32 = 200;
/// Choice: seeds begin here, because the constants were chosen with earlier seeds.
const FIRST_SEED: u64 = 20_000;
/// One probe in this many is followed by a copy.
const COPY_EACH: u64 = 4;
/// The levels.
const LEVELS: [u8; 4] = [1, 2, 4, 8];
/// The kernel's shortest timeout, in seconds.
const TIMEOUT_S: f64 = 0.2;

#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Packets per second.
    capacity: f64,
    loss: f64,
    rtt_s: f64,
}

/// A connection: only what its rate depends on. [RFC 9438]
#[derive(Clone, Copy, Debug)]
struct Connection {
    window: f64,
    threshold: f64,
    /// The window before the last loss.
    most: f64,
    since_s: f64,
    /// Number of packets that still arrive until the next one is lost.
    left: f64,
    /// The time until which its timer runs, and the number of timeouts in a row.
    until_s: f64,
    timeouts: i32,
}

impl Connection {
    fn new(rng: &mut Rng, loss: f64) -> Connection {
        Connection {
            window: 10.0,
            threshold: f64::INFINITY,
            most: 0.0,
            since_s: 0.0,
            left: until_lost(rng, loss),
            until_s: 0.0,
            timeouts: 0,
        }
    }

    /// Grows the window after a round without losses.
    fn grow(&mut self, now_s: f64, rtt_s: f64, queue_s: f64, base_s: f64) {
        if self.window < self.threshold {
            match queue_s > 0.004 + base_s / 8.0 {
                true => {
                    (self.threshold, self.most, self.since_s) = (self.window, self.window, now_s)
                }
                false => self.window = (self.window * 2.0).min(self.threshold),
            }
            return;
        }
        let age_s = now_s - self.since_s;
        let inflection_s = (self.most * 0.3 / 0.4).cbrt();
        let cubic = 0.4 * (age_s + rtt_s - inflection_s).powi(3) + self.most;
        let friendly = self.most * 0.7 + 0.53 * age_s / rtt_s;
        let more = (cubic.max(friendly) - self.window).clamp(0.0, self.window / 2.0);
        self.window += more;
    }

    /// Shrinks the window after a round in which this many of its packets were lost.
    fn shrink(&mut self, rng: &mut Rng, now_s: f64, lost: f64) {
        let most = self.window.max(2.0);
        (self.most, self.since_s) = (most, now_s);
        self.threshold = (most * 0.7).max(2.0);
        // Too few packets are left to signal a loss, or the retransmission is lost, too.
        if lost >= most || rng.chance((lost / most).max(1.0 / most).powi(2)) {
            self.until_s = now_s + TIMEOUT_S * f64::from(1 << self.timeouts.min(6));
            self.timeouts += 1;
            self.window = 1.0;
        } else {
            self.window = self.threshold;
        }
    }
}

fn until_lost(rng: &mut Rng, loss: f64) -> f64 {
    match loss > 0.0 {
        true => ((1.0 - rng.unit()).ln() / (1.0 - loss).ln()).floor(),
        false => f64::INFINITY,
    }
}

/// Connections over a segment, and what was measured since the last look.
struct Model {
    segment: Segment,
    rng: Rng,
    connections: Vec<Connection>,
    now_s: f64,
    rtt_s: f64,
    min_rtt_s: f64,
    seen_s: f64,
    bytes: f64,
    lost: f64,
}

impl Model {
    fn new(segment: Segment, seed: u64) -> Model {
        let mut rng = Rng::new(seed);
        let connections = (0..8).map(|_| Connection::new(&mut rng, segment.loss));
        Model {
            connections: connections.collect(),
            segment,
            rng,
            now_s: 0.0,
            rtt_s: segment.rtt_s,
            min_rtt_s: segment.rtt_s,
            seen_s: 0.0,
            bytes: 0.0,
            lost: 0.0,
        }
    }

    /// Simulates a round trip of this many connections.
    fn round(&mut self, count: usize) {
        let of = self.segment;
        let now_s = self.now_s;
        let active = self.connections[..count].iter();
        let flying = |c: &Connection| if c.until_s > now_s { 0.0 } else { c.window };
        let all: f64 = active.map(flying).sum();
        let (pipe, room) = (of.capacity * of.rtt_s, of.capacity * QUEUE_S);
        let over = (all - pipe - room).max(0.0);
        let queue_s = (all - pipe).clamp(0.0, room) / of.capacity;
        let rtt_s = of.rtt_s + queue_s;
        for at in 0..count {
            let mut c = self.connections[at];
            let sent = flying(&c);
            if sent > 0.0 {
                let mut lost = 0.0;
                c.left -= sent;
                while c.left < 0.0 {
                    lost += 1.0;
                    c.left += 1.0 + until_lost(&mut self.rng, of.loss);
                }
                let share = over * sent / all;
                lost += share.floor();
                lost += f64::from(u8::from(self.rng.chance(share - share.floor())));
                let lost = lost.min(sent);
                self.bytes += (sent - lost) * PACKET_BYTES;
                self.lost += lost;
                match lost > 0.0 {
                    true => c.shrink(&mut self.rng, now_s, lost),
                    false => {
                        c.timeouts = 0;
                        c.grow(now_s, rtt_s, queue_s, of.rtt_s);
                    }
                }
            }
            self.connections[at] = c;
        }
        self.rtt_s += (rtt_s - self.rtt_s) / 4.0;
        self.now_s += rtt_s;
        self.seen_s += rtt_s;
    }

    /// Simulates until the span has passed, and returns what was measured.
    fn look(&mut self, count: u8, span_s: f64) -> Look {
        while self.seen_s < span_s {
            self.round(count.into());
        }
        let look = Look {
            span_us: (self.seen_s * 1e6) as u64,
            bytes: self.bytes as u64,
            idle_permille: 0,
            rtt_us: (self.rtt_s * 1e6) as u32,
            min_rtt_us: (self.min_rtt_s * 1e6) as u32,
            resent: self.lost as u32,
        };
        (self.seen_s, self.bytes, self.lost) = (0.0, 0.0, 0.0);
        look
    }
}

/// The rate of a level, in bits per second, and its round trip, in seconds.
type Truth = [(f64, f64); LEVELS.len()];

fn truth(segment: Segment) -> Truth {
    LEVELS.map(|count| {
        let (mut rate_bps, mut rtt_s) = (0.0, 0.0);
        for seed in 0..4 {
            let mut model = Model::new(segment, 1_000_000 + seed);
            model.look(count, 20.0);
            for _ in 0..80 {
                let look = model.look(count, 0.5);
                rate_bps += look.bytes as f64 * 8e6 / look.span_us as f64 / 320.0;
                rtt_s += f64::from(look.rtt_us) / 1e6 / 320.0;
            }
        }
        (rate_bps, rtt_s)
    })
}

/// Counts of the verdicts of a cell.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    small: u32,
    large: u32,
    settled_s: f64,
    /// The share of the best rate that a copy reaches in the first half minute after the probe.
    copy: f64,
    /// Mean number of connections at the end of the probe.
    connections: f64,
}

fn count(segment: Segment, seeds: u32) -> (Truth, Counts) {
    let truth = truth(segment);
    let best = truth
        .iter()
        .fold(0.0, |best: f64, (rate, _)| best.max(*rate));
    let enough = truth.iter().find(|(rate, _)| *rate >= 0.95 * best);
    let enough_rtt_s = enough.map_or(0.0, |(_, rtt_s)| *rtt_s);
    let of = |count: u8| truth[count.ilog2() as usize];
    let mut counts = Counts::default();
    for seed in FIRST_SEED..FIRST_SEED + u64::from(seeds) {
        let (probe, settled_s) = probed(segment, seed);
        counts.settled_s += settled_s / f64::from(seeds);
        let (rate, rtt_s) = of(probe.active());
        counts.connections += f64::from(probe.active()) / f64::from(seeds);
        counts.small += u32::from(rate < 0.8 * best);
        counts.large += u32::from(rate >= 0.95 * best && rtt_s > enough_rtt_s + 0.02);
        if seed % COPY_EACH != 0 {
            continue;
        }
        let mut copy = probe.go_on(8);
        let mut model = Model::new(segment, seed + 500_000);
        for _ in 0..60 {
            let seen = model.look(copy.active(), 0.5);
            copy.on_look(seen);
            let rate = of(copy.active()).0;
            counts.copy += rate / best / 60.0 * COPY_EACH as f64 / f64::from(seeds);
        }
    }
    (truth, counts)
}

/// The same time as [`crate::PROBE_US`].
const PROBE_S: f64 = crate::PROBE_US as f64 / 1e6;

fn grid() -> Vec<(f64, f64, f64)> {
    let mut all = Vec::new();
    for mbit in [20.0, 100.0] {
        for rtt_ms in [1.0, 10.0, 40.0, 160.0] {
            for loss_pct in [0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0] {
                all.push((mbit, rtt_ms, loss_pct));
            }
        }
    }
    all
}

/// Runs a probe, and returns it and how long it took.
fn probed(segment: Segment, seed: u64) -> (Striping, f64) {
    let mut model = Model::new(segment, seed);
    let mut probe = Striping::new(8, true);
    let span_s = if segment.rtt_s > 0.04 { 0.5 } else { 0.3 };
    while !probe.is_settled() && model.now_s < PROBE_S {
        let look = model.look(probe.active(), span_s);
        probe.on_look(look);
    }
    probe.hurry();
    (probe, model.now_s)
}

/// Returns the ratio of what a probe says that one connection carries to what it does carry; and the least of each six,
/// as in a chain.
fn foretold(segment: Segment, seeds: u64) -> (Vec<f64>, Vec<f64>) {
    let (one_bps, _) = truth(segment)[0];
    let each = (FIRST_SEED..FIRST_SEED + seeds).map(|seed| {
        let probe = probed(segment, seed).0;
        probe.carried().one_bps.unwrap_or(0) as f64 / one_bps
    });
    let each: Vec<f64> = each.collect();
    let least = each
        .chunks(6)
        .map(|six| six.iter().copied().fold(f64::INFINITY, f64::min));
    let least = least.collect();
    (each, least)
}

/// One connection on a lossy segment is off by a quarter in each span of one or two seconds that a level has.
#[test]
fn what_one_connection_carries_is_foretold() {
    for (mbit, rtt_ms, loss_pct) in [(20.0, 20.0, 0.5), (100.0, 20.0, 0.5), (100.0, 40.0, 1.0)] {
        let segment = Segment {
            capacity: mbit * 1e6 / 8.0 / PACKET_BYTES,
            loss: loss_pct / 100.0,
            rtt_s: rtt_ms / 1e3,
        };
        let (each, least) = foretold(segment, 600);
        for (what, all) in [("segments", each), ("chains of six", least)] {
            let off = all.iter().filter(|share| (*share - 1.0).abs() > 0.2);
            let off = off.count() as f64 / all.len() as f64;
            // With the first level alone, the share was 0.45 to 0.65.
            assert!(off <= 0.25, "{off:.2} of {what}: {segment:?}");
        }
    }
}

/// Counts the verdicts of two hundred probes of each segment, and the rates of copies that follow.
#[test]
fn probes_of_segments_that_lose_by_chance_are_seldom_wrong() {
    let (mut small, mut large) = (0, 0);
    for (mbit, rtt_ms, loss_pct) in grid() {
        let segment = Segment {
            capacity: mbit * 1e6 / 8.0 / PACKET_BYTES,
            loss: loss_pct / 100.0,
            rtt_s: rtt_ms / 1e3,
        };
        let (truth, c) = count(segment, SEEDS);
        let rates = truth.map(|(rate_bps, _)| rate_bps / 1e6);
        let cell = format!("{mbit} Mbit/s, {rtt_ms} ms, {loss_pct} %: {rates:.1?}, {c:.2?}");
        (small, large) = (small + c.small, large + c.large);
        assert!(c.small <= SEEDS * 30 / 100, "too small: {cell}");
        assert!(c.large <= SEEDS * 10 / 100, "too large: {cell}");
        assert!(c.copy >= 0.8, "a copy does not mend it: {cell}");
        if loss_pct == 0.0 {
            // On a clean segment a queue settles it as soon as there is one: after slow start and a second or two. On a
            // long path, slow start loses so much that the queue is gone for some seconds, and a second connection is
            // tried.
            let is_near = rtt_ms <= 40.0;
            let (connections, settled_s) = if is_near { (1.05, 3.2) } else { (1.6, 10.0) };
            assert!(
                c.connections < connections && c.settled_s < settled_s,
                "clean: {cell}"
            );
        }
    }
    // These are counts out of 11 200.
    assert!(small <= 250, "{small} too small");
    assert!(large <= 40, "{large} too large");
}
