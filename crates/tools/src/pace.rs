//! Threads that send and receive at exact times, and the times at which they do.
//!
//! Every packet has a moment of its own, counted from the start of the calls and not from the
//! packet before it, so that a thread which was late once is on time again with the next one. The
//! calls' phases are spread evenly over one packet's duration, as calls that begin by chance are.

use base::{Duration, Time};
use net::Clock;
use net::sched;
use voice::frames::FRAME_US;

/// Real-time priority of the threads with exact times, if the system permits it. It is above the
/// priority that the nodes ask for: a late time stamp would be counted as their delay.
const PRIORITY: u8 = 30;
/// Time between two packets of a call.
pub const FRAME: Duration = Duration::from_micros(FRAME_US);

/// How long after its sending a packet is played. A packet that has not arrived by then is
/// concealed.
/// "Set the network latency threshold for the G.711 codec to be 100 msec" [Amir06 §V-B].
pub const DEADLINE: Duration = Duration::from_millis(100);

/// Asks for real-time priority and exact timers. Both are optional: if the system refuses them, the
/// times are only less exact.
pub fn prepare_thread() {
    let _ = sched::real_time(PRIORITY);
    let _ = sched::timer_slack(Duration::from_nanos(1));
}

/// When each packet of each call is due.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// When the first packet is due.
    pub start: Time,
    /// Number of calls. Their phases are evenly apart.
    pub calls: u32,
    /// Packets of each call.
    pub packets: u32,
}

impl Schedule {
    /// When packet `index` of `call` is due.
    pub fn due(&self, call: u32, index: u32) -> Time {
        let phase = (FRAME * u64::from(call)).div(u64::from(self.calls));
        self.start + FRAME * u64::from(index) + phase
    }

    /// Packets of all calls.
    pub fn total(&self) -> u64 {
        u64::from(self.calls) * u64::from(self.packets)
    }

    /// Call and index of the `n`-th packet, in the order in which they are due.
    pub fn place(&self, n: u64) -> (u32, u32) {
        let calls = u64::from(self.calls.max(1));
        ((n % calls) as u32, (n / calls) as u32)
    }

    /// When the `n`-th packet is due.
    pub fn due_nth(&self, n: u64) -> Time {
        let (call, index) = self.place(n);
        self.due(call, index)
    }
}

/// "1 call", "10 calls".
pub fn count_calls(calls: u32) -> String {
    format!("{calls} call{}", if calls == 1 { "" } else { "s" })
}

/// Sleeps until `at`. Returns how late the thread woke up.
pub fn sleep_until(clock: Clock, at: Time) -> Duration {
    let left = at.since(clock.now());
    if left > Duration::ZERO {
        std::thread::sleep(std::time::Duration::from_nanos(left.as_nanos()));
    }
    clock.now().since(at)
}

/// One moment per packet of every call: when it was sent, or when it first arrived.
#[derive(Clone, Debug)]
pub struct Moments {
    packets: u32,
    /// The moments, call by call; [`Time::FAR`] if the event did not happen.
    times: Vec<Time>,
}

impl Moments {
    /// Starts with no moment for any of the `packets` packets of each of `calls` calls.
    pub fn new(calls: u32, packets: u32) -> Moments {
        Moments {
            packets,
            times: vec![Time::FAR; calls as usize * packets as usize],
        }
    }

    /// Records the first time of a packet. Returns false if the packet has a time already, or does
    /// not exist.
    pub fn note(&mut self, call: u32, index: u32, at: Time) -> bool {
        match self
            .position(call, index)
            .and_then(|i| self.times.get_mut(i))
        {
            Some(time) if *time == Time::FAR => {
                *time = at;
                true
            }
            _ => false,
        }
    }

    /// The moments of one call, packet by packet.
    pub fn call(&self, call: u32) -> impl ExactSizeIterator<Item = Option<Time>> + '_ {
        let from = call as usize * self.packets as usize;
        let until = from + self.packets as usize;
        let times = self.times.get(from..until).unwrap_or_default();
        times
            .iter()
            .map(|&time| (time != Time::FAR).then_some(time))
    }

    fn position(&self, call: u32, index: u32) -> Option<usize> {
        (index < self.packets).then(|| call as usize * self.packets as usize + index as usize)
    }
}

/// One-way delays of a call in microseconds: `None` for a packet that was not sent or did not
/// arrive.
pub fn delays_us(sent: &Moments, arrived: &Moments, call: u32) -> Vec<Option<u64>> {
    let pairs = sent.call(call).zip(arrived.call(call));
    pairs
        .map(|(sent, arrived)| Some(arrived?.since(sent?).as_micros()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_even_and_order_is_that_of_time() {
        let schedule = Schedule {
            start: Time::from_nanos(5),
            calls: 3,
            packets: 4,
        };
        let due: Vec<Time> = (0..schedule.total()).map(|n| schedule.due_nth(n)).collect();
        assert_eq!(due.len(), 12);
        assert!(due.is_sorted());
        assert_eq!(schedule.due(0, 1).since(schedule.due(0, 0)), FRAME);
        assert_eq!(schedule.due(1, 0).as_nanos(), 5 + 20_000_000 / 3);
        let gaps = due.windows(2).map(|w| w[1].since(w[0]).as_nanos());
        assert!(
            gaps.into_iter()
                .all(|gap| gap.abs_diff(20_000_000 / 3) <= 1)
        );
    }

    #[test]
    fn the_first_arrival_counts_and_strange_packets_do_not() {
        let (mut sent, mut arrived) = (Moments::new(2, 3), Moments::new(2, 3));
        let at = Time::from_nanos;
        for index in 0..3 {
            assert!(sent.note(1, index, at(u64::from(index) * 1_000_000)));
        }
        assert!(arrived.note(1, 0, at(50_000_000)));
        assert!(!arrived.note(1, 0, at(51_000_000)), "a copy");
        assert!(arrived.note(1, 2, at(52_000_000)));
        assert!(!arrived.note(1, 3, at(1)), "no such packet");
        assert!(!arrived.note(2, 0, at(1)), "no such call");
        assert!(arrived.note(0, 1, at(1)));
        assert_eq!(
            delays_us(&sent, &arrived, 1),
            [Some(50_000), None, Some(50_000)]
        );
        assert_eq!(delays_us(&sent, &arrived, 0), [None; 3], "nothing was sent");
    }
}
