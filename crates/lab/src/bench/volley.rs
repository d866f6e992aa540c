//! Sends bursts at an even pace and counts what arrives at the other end, in one loop of one thread: the measured
//! program never waits for a wake-up of the measurement.
//!
//! ```text
//!   due?  ──yes──> send one burst, one system call
//!     └───no────> take what has arrived
//! ```

use base::{Burst, Duration, Pool, Time, UnderlayAddr};
use net::Clock;
use net::udp::{SendQueue, Socket};
use std::collections::VecDeque;

/// If the sender is delayed for longer than this, the schedule moves by the delay. Otherwise everything that was missed
/// would be sent at once, which would be another load than the requested one.
const STALL: Duration = Duration::from_millis(2);
/// Number of bursts sent in a row without checking for arrivals.
const BURSTS_IN_A_ROW: u32 = 4;
/// Packets that have not arrived after this time without arrivals count as lost.
const SILENCE: Duration = Duration::from_millis(60);
/// A rate is carried if the packets under way when the last packet was sent are at most this much time of it; a growing
/// queue only seems to lose nothing.
const UNDER_WAY: Duration = Duration::from_millis(10);
/// Number of packets that may be under way at any rate: a turn of the forwarder.
const UNDER_WAY_MIN: u64 = 2_048;
/// The loss from which on a rate no longer counts as carried.
pub(crate) const LOSS_MAX: f64 = 0.001;

/// The receiving end of a volley.
pub(crate) trait Sink {
    /// Takes a few messages and returns how many there were.
    fn step(&mut self) -> usize;
    /// Returns the number of packets that have arrived.
    fn arrived(&self) -> u64;
}

/// The result of one volley.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) sent: u64,
    pub(crate) arrived: u64,
    /// Time from the first packet to the last, without the time in which the sender was delayed.
    pub(crate) span: Duration,
    /// Packets under way when the last one was sent.
    pub(crate) under_way: u64,
}

impl Outcome {
    /// Returns the packets sent per second.
    pub(crate) fn rate_pps(&self) -> f64 {
        self.sent as f64 / self.span.as_secs_f64().max(1e-9)
    }

    /// Returns the share that was lost.
    pub(crate) fn loss(&self) -> f64 {
        1.0 - self.arrived as f64 / self.sent.max(1) as f64
    }

    /// Returns whether the rate was carried, over a path that itself takes `delay`.
    pub(crate) fn is_carried(&self, delay: Duration) -> bool {
        let waiting = (self.rate_pps() * (UNDER_WAY + delay).as_secs_f64()) as u64;
        self.loss() < LOSS_MAX && self.under_way <= waiting.max(UNDER_WAY_MIN)
    }
}

/// Sends `bursts` at `rate_pps` by `fire`, and waits for the last to arrive; `patience` is the longest time that
/// packets may be under way on an emulated network.
pub(crate) fn volley(
    bursts: VecDeque<Burst>,
    rate_pps: u64,
    patience: Duration,
    mut fire: impl FnMut(Burst),
    sink: &mut impl Sink,
) -> Outcome {
    let clock = Clock::new();
    let before = sink.arrived();
    let mut outcome = Outcome::default();
    let (mut origin, mut held_up) = (clock.now(), Duration::ZERO);
    let (start, mut seen) = (origin, origin);
    let mut in_a_row = 0;
    for burst in bursts {
        let due = origin + pace(outcome.sent, rate_pps);
        let mut now = clock.now();
        while now < due {
            in_a_row = 0;
            sink.step();
            seen = now;
            now = clock.now();
        }
        // One turn of this loop takes at most some 100 µs.
        let gap = now.since(seen.max(due));
        if gap > STALL {
            held_up += gap;
            origin += gap;
        }
        seen = now;
        in_a_row += 1;
        if in_a_row % BURSTS_IN_A_ROW == 0 {
            sink.step();
        }
        outcome.sent += burst.segments() as u64;
        fire(burst);
    }
    let end: Time = clock.now();
    outcome.span = end.since(start).saturating_sub(held_up);
    outcome.under_way = outcome.sent.saturating_sub(sink.arrived() - before);
    let mut heard = end;
    let mut count = sink.arrived();
    while sink.arrived() - before < outcome.sent && clock.now().since(heard) < SILENCE + patience {
        sink.step();
        if sink.arrived() > count {
            count = sink.arrived();
            heard = clock.now();
        }
    }
    outcome.arrived = sink.arrived() - before;
    outcome
}

fn pace(packets: u64, rate_pps: u64) -> Duration {
    Duration::from_nanos((u128::from(packets) * 1_000_000_000 / u128::from(rate_pps.max(1))) as u64)
}

/// Counts packets at a socket, whatever they contain.
pub(crate) struct Counting {
    socket: Socket,
    pool: Pool,
    received: Vec<(UnderlayAddr, Burst)>,
    arrived: u64,
}

impl Counting {
    pub(crate) fn new(socket: Socket) -> Counting {
        Counting {
            socket,
            pool: Pool::new(64, 64),
            received: Vec::new(),
            arrived: 0,
        }
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }
}

impl Sink for Counting {
    fn step(&mut self) -> usize {
        let _ = self
            .socket
            .recv_batch(&self.pool, &mut self.received, BURSTS_IN_A_ROW as usize);
        let count = self.received.len();
        self.arrived += self
            .received
            .drain(..)
            .map(|(_, b)| b.segments() as u64)
            .sum::<u64>();
        count
    }

    fn arrived(&self) -> u64 {
        self.arrived
    }
}

/// Returns `packets` datagrams in bursts, each a copy of `template`.
pub(crate) fn copies(pool: &Pool, template: &[u8], stride: usize, packets: u64) -> VecDeque<Burst> {
    let per_burst = template.len() / stride;
    let mut bursts = VecDeque::new();
    let mut open: Option<Burst> = None;
    for _ in 0..packets.div_ceil(per_burst as u64) {
        let fits = |burst: &mut Burst| burst.spare_mut().len() >= template.len();
        if !open.as_mut().is_some_and(fits) {
            cut(open.take(), per_burst, &mut bursts);
            open = pool.large();
        }
        let Some(burst) = &mut open else { break };
        for datagram in template.chunks(stride) {
            burst.append(datagram);
        }
    }
    cut(open, per_burst, &mut bursts);
    bursts
}

/// Cuts a buffer into bursts.
pub(crate) fn cut(filled: Option<Burst>, per_burst: usize, bursts: &mut VecDeque<Burst>) {
    let Some(mut rest) = filled else { return };
    while rest.segments() > per_burst {
        bursts.push_back(rest.split_front(per_burst));
    }
    if !rest.is_empty() {
        bursts.push_back(rest);
    }
}

/// Sends one burst by a socket, in one system call.
pub(crate) fn send(socket: &mut Socket, queue: &mut SendQueue, to: UnderlayAddr, burst: Burst) {
    queue.push(to, burst);
    socket.send_batch(queue);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts fired packets, except one in `loses`.
    #[derive(Default)]
    struct Echo {
        fired: std::rc::Rc<std::cell::Cell<u64>>,
    }

    impl Sink for Echo {
        fn step(&mut self) -> usize {
            0
        }
        fn arrived(&self) -> u64 {
            self.fired.get()
        }
    }

    #[test]
    fn bursts_are_whole_and_everything_is_sent() {
        let pool = Pool::new(8, 0);
        let bursts = copies(&pool, &[7; 16 * 207], 207, 1_000);
        assert!(
            bursts
                .iter()
                .all(|burst| burst.segments() == 16 && burst.stride() == 207)
        );
        assert_eq!(bursts.len(), 63);
        let mut sink = Echo::default();
        let fired = sink.fired.clone();
        let fire = |burst: Burst| fired.set(fired.get() + burst.segments() as u64);
        let outcome = volley(bursts, 10_000_000, Duration::ZERO, fire, &mut sink);
        assert_eq!((outcome.sent, outcome.arrived), (1_008, 1_008));
        assert!(outcome.is_carried(Duration::ZERO));
    }

    #[test]
    fn loss_and_a_growing_queue_are_no_success() {
        let span = Duration::from_millis(100);
        let good = Outcome {
            sent: 100_000,
            arrived: 99_950,
            span,
            under_way: 9_000,
        };
        assert!(good.is_carried(Duration::ZERO));
        let lost = Outcome {
            arrived: 99_900,
            ..good
        };
        assert!(!lost.is_carried(Duration::from_millis(10)));
        let waiting = Outcome {
            under_way: 11_000,
            ..good
        };
        assert!(!waiting.is_carried(Duration::ZERO));
        assert!(waiting.is_carried(Duration::from_millis(10)));
    }
}
