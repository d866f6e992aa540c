//! The packets of one path: the latest ones individually, the older ones only as counts.
//!
//! ```text
//!   packets:  ... counted: Tally ... | window n, closing | window n+1, being sent
//!                                     └ 10 s, and the deadline and TAIL for its last answers
//! ```
//!
//! A packet is kept until its window is evaluated. At most two windows of 500 packets, 48 bytes
//! each, are 48 kB for a call and path, 10 MB for 100 calls on both paths, however long the calls
//! last.

use super::clocks::{Offset, Packet, Sample};
use super::codec::Codec;
use super::probe::Hearing;
use super::tally::Tally;
use super::{BothWays, WINDOW_PACKETS};
use base::{Duration, Time};
use std::collections::VecDeque;

/// One path.
#[derive(Debug)]
pub(crate) struct Path {
    calls: usize,
    /// The number of the first window that is not evaluated yet.
    first: u32,
    windows: VecDeque<Vec<Vec<Packet>>>,
    /// Answers that have arrived.
    pub(crate) answers: u64,
    /// Counts of the whole call, there and back.
    whole: [Tally; 2],
    /// Counts since the last report, there and back.
    recent: [Tally; 2],
}

impl Path {
    pub(crate) fn new(calls: u32, codec: Codec, deadline: Duration) -> Path {
        let tally = Tally::new(calls, codec, deadline);
        Path {
            calls: calls as usize,
            first: 0,
            windows: VecDeque::new(),
            answers: 0,
            whole: [tally.clone(), tally.clone()],
            recent: [tally.clone(), tally],
        }
    }

    pub(crate) fn on_sent(&mut self, call: u32, index: u32, now: Time) {
        let number = index / WINDOW_PACKETS;
        while number >= self.first && self.windows.len() as u32 <= number - self.first {
            let window = vec![vec![Packet::default(); WINDOW_PACKETS as usize]; self.calls];
            self.windows.push_back(window);
        }
        if let Some(packet) = self.packet(call, index) {
            packet.sent = Some(now);
        }
    }

    /// Processes an answer to packet `index`. `recovered` is true if the answer was lost and
    /// recovered; `heard` is its content.
    pub(crate) fn on_answer(
        &mut self,
        now: Time,
        call: u32,
        index: u32,
        recovered: bool,
        heard: &[Hearing],
    ) {
        let Some(packet) = self.packet(call, index) else {
            return;
        };
        if packet.sent.is_none() {
            // An answer to a packet that was never sent is a forgery.
            return;
        }
        if packet.answered.is_none() {
            packet.answered = Some(now);
            packet.recovered_back = recovered;
        }
        self.answers += 1;
        for hearing in heard {
            let packet = self.packet(call, hearing.index);
            let packet = packet.filter(|packet| packet.sent.is_some());
            if let Some(packet) = packet.filter(|packet| packet.heard_us.is_none()) {
                packet.heard_us = Some(hearing.at_us);
                packet.recovered_there = hearing.recovered;
            }
        }
    }

    /// Returns the packets of the window that is evaluated next.
    pub(crate) fn oldest(&self) -> impl Iterator<Item = &Packet> {
        self.windows.front().into_iter().flatten().flatten()
    }

    /// Evaluates the oldest window, with clocks that differ by `offset`, and forgets it.
    pub(crate) fn close(&mut self, offset: &Offset) {
        let Some(window) = self.windows.pop_front() else {
            return;
        };
        self.first += 1;
        for (i, call) in window.iter().enumerate() {
            let (mut there, mut back): (Vec<Sample>, Vec<Sample>) = Default::default();
            for (out, home) in call.iter().filter_map(|packet| offset.samples(packet)) {
                there.push(out);
                back.extend(home);
            }
            for tallies in [&mut self.whole, &mut self.recent] {
                tallies[0].push(i, &there);
                tallies[1].push(i, &back);
            }
        }
    }

    /// Returns true when every sent packet is evaluated.
    pub(crate) fn is_judged(&self) -> bool {
        self.windows.is_empty()
    }

    pub(crate) fn whole(&self) -> BothWays {
        BothWays::of(&self.whole)
    }

    /// Returns the results since the last call of this function.
    pub(crate) fn take_recent(&mut self) -> BothWays {
        let both = BothWays::of(&self.recent);
        self.recent.iter_mut().for_each(Tally::clear);
        both
    }

    fn packet(&mut self, call: u32, index: u32) -> Option<&mut Packet> {
        let number = (index / WINDOW_PACKETS).checked_sub(self.first)?;
        let window = self.windows.get_mut(number as usize)?;
        window
            .get_mut(call as usize)?
            .get_mut((index % WINDOW_PACKETS) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::DEADLINE;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn heard(index: u32) -> Hearing {
        Hearing {
            index,
            at_us: 1_000_000 + index * 20_000,
            recovered: index == 1,
        }
    }

    fn judge(path: &mut Path) -> BothWays {
        let mut offset = Offset::default();
        offset.learn(path.oldest());
        path.close(&offset);
        path.whole()
    }

    #[test]
    fn a_lost_answer_is_made_up_for_by_the_next() {
        let mut path = Path::new(1, Codec::Pcmu, DEADLINE);
        for index in 0..3 {
            path.on_sent(0, index, at(20 * u64::from(index)));
        }
        // Packet 1 was heard and its answer was lost; packet 3 was never sent.
        path.on_answer(at(80), 0, 0, true, &[heard(0)]);
        path.on_answer(
            at(120),
            0,
            2,
            false,
            &[heard(2), heard(1), heard(0), heard(3)],
        );
        path.on_answer(at(999), 0, 2, true, &[heard(2)]);
        path.on_answer(at(999), 0, 3, false, &[]);
        path.on_answer(at(999), 5, 0, false, &[]);
        path.on_answer(at(999), 0, 5 * WINDOW_PACKETS, false, &[]);
        assert_eq!(path.answers, 3);
        let both = judge(&mut path);
        assert!(path.is_judged());
        assert_eq!((both.there.sent, both.there.lost_pct), (3, 0.0));
        assert_eq!(both.there.lost_before_recovery_pct, 33.333);
        assert_eq!((both.back.sent, both.back.lost_pct), (3, 33.333));
        assert_eq!(both.back.lost_before_recovery_pct, 66.667);
    }

    #[test]
    fn a_long_call_is_judged_window_by_window_in_memory_that_does_not_grow() {
        let mut path = Path::new(2, Codec::Opus, DEADLINE);
        let mut offset = Offset::default();
        for index in 0..20 * WINDOW_PACKETS {
            let sent = at(20 * u64::from(index));
            for call in 0..2 {
                path.on_sent(call, index, sent);
                // Every tenth packet of the second call is lost.
                if call == 0 || index % 10 > 0 {
                    path.on_answer(
                        at(20 * u64::from(index) + 80),
                        call,
                        index,
                        false,
                        &[heard(index)],
                    );
                }
            }
            if index % WINDOW_PACKETS == 25 && index > WINDOW_PACKETS {
                offset.learn(path.oldest());
                path.close(&offset);
            }
            assert!(path.windows.len() <= 2);
        }
        let recent = path.take_recent();
        assert_eq!(recent.there.lost_pct, 5.0);
        assert_eq!(recent, path.whole());
        path.close(&offset);
        assert!(path.is_judged());
        assert_eq!(path.take_recent().there.sent, u64::from(2 * WINDOW_PACKETS));
        assert_eq!(path.whole().there.sent, u64::from(40 * WINDOW_PACKETS));
        path.close(&offset);
        assert_eq!(path.take_recent().there.sent, 0);
    }
}
