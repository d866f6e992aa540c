//! Stalls: hosts whose processor is taken away for a while, as on a machine that is busy with other work.
//!
//! ```text
//!   datagrams ─▶ socket buffer (full: dropped) ─┐
//!   requests, timers ───────────────────────────┴─ wait ─▶ until: all at once, datagrams first
//! ```
//!
//! A stalled host handles nothing. Arriving datagrams wait in its socket buffer as far as there is room, and are
//! handled late. Links are not affected: packets that were sent before stay under way.

use super::World;
use crate::host::HostId;
use crate::queue::Wake;
use crate::trace::Fate;
use base::{Burst, Engine, Time, UnderlayAddr};
use std::collections::VecDeque;

/// A host that is not scheduled.
#[derive(Debug)]
pub(crate) struct Stall {
    until: Time,
    /// Number of datagrams that the socket's buffer can hold.
    room: usize,
    /// Number of datagrams in the buffer.
    waiting: usize,
    /// The waiting datagrams, each with its arrival time.
    held: VecDeque<(Time, UnderlayAddr, Burst)>,
}

impl<E: Engine> World<E> {
    /// Lets a host handle nothing until `until`. Up to `room` datagrams wait for it; later ones are dropped. A second
    /// call can only make a stall longer.
    pub fn stall(&mut self, host: HostId, until: Time, room: usize) {
        if until <= self.now {
            return;
        }
        let h = &mut self.hosts[host.place()];
        let stall = h.stall.get_or_insert_with(|| {
            Box::new(Stall {
                until,
                room,
                waiting: 0,
                held: VecDeque::new(),
            })
        });
        (stall.until, stall.room) = (stall.until.max(until), room);
        h.wake_at = stall.until;
        self.queue.push(h.wake_at, Wake::Timer(host.0));
    }

    /// Returns the time until which a host handles nothing.
    pub fn stalled_until(&self, host: HostId) -> Option<Time> {
        let stall = self.hosts[host.place()].stall.as_ref();
        stall
            .map(|stall| stall.until)
            .filter(|until| *until > self.now)
    }

    /// Ends a stall that is over: the engine gets the datagrams that waited.
    pub(super) fn end_stall(&mut self, id: HostId) {
        let host = &mut self.hosts[id.place()];
        let now = self.now;
        let Some(stall) = host.stall.take_if(|stall| stall.until <= now) else {
            return;
        };
        for (came, from, mut burst) in stall.held {
            burst.set_waited(now.since(came));
            self.hand_over(id, from, burst);
        }
    }

    /// Keeps what has arrived at a stalled host for later.
    pub(super) fn hold(&mut self, id: HostId, from: UnderlayAddr, mut burst: Burst) {
        let host = &mut self.hosts[id.place()];
        let Some(stall) = &mut host.stall else {
            return;
        };
        let datagrams = burst.segments();
        let kept = datagrams.min(stall.room.saturating_sub(stall.waiting));
        stall.waiting += kept;
        let mut lost = None;
        if kept == datagrams {
            stall.held.push_back((self.now, from, burst));
        } else {
            if kept > 0 {
                stall
                    .held
                    .push_back((self.now, from, burst.split_front(kept)));
            }
            lost = Some(burst);
        }
        if let Some(burst) = lost {
            self.journal.counters.buffer_full += burst.segments() as u64;
            let (now, addr) = (self.now, self.hosts[id.place()].addr);
            self.journal
                .trace_all(now, from, addr, &burst, Fate::BufferFull);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::udp;
    use crate::{UdpHost, World, underlay};
    use base::{ClientId, Duration, Time};

    const MS: Duration = Duration::from_millis(1);

    /// Runs two hosts 10 ms apart. The second gets a packet of 100 bytes every 20 ms from the first, and is stalled
    /// from 95 ms until 195 ms. Returns when each packet arrived, in ms.
    fn arrivals(room: usize) -> (Vec<u64>, u64) {
        let mut world = World::new(1);
        let a = world.add_host(UdpHost::default());
        let b = world.add_host(UdpHost::default().listening(ClientId(0)));
        world.link(a, b, &"delay=10ms".parse().unwrap());
        for n in 0..15u64 {
            let mut payload = world.pool().small().unwrap();
            payload.fill(100, 100);
            let to = underlay(1);
            world.request_at(
                Time::ZERO + MS * (20 * n),
                a,
                ClientId(1),
                udp::Send { to, payload },
            );
        }
        world.run_until(Time::ZERO + MS * 95);
        world.stall(b, Time::ZERO + MS * 195, room);
        assert_eq!(world.stalled_until(b), Some(Time::ZERO + MS * 195));
        world.run_until(Time::ZERO + MS * 1_000);
        assert_eq!(world.stalled_until(b), None);
        let answers = world.take_replies();
        let times = answers.iter().map(|answer| answer.at.as_micros() / 1_000);
        let times = times.collect();
        drop(answers);
        (times, world.close().unwrap().buffer_full)
    }

    #[test]
    fn what_arrives_meanwhile_is_late_and_beyond_the_buffer_lost() {
        let early = [10, 30, 50, 70, 90];
        let late = [210, 230, 250, 270, 290];
        let (times, dropped) = arrivals(100);
        assert_eq!(times, [&early[..], &[195; 5], &late].concat());
        assert_eq!(dropped, 0);
        let (times, dropped) = arrivals(2);
        assert_eq!(times, [&early[..], &[195; 2], &late].concat());
        assert_eq!(dropped, 3);
        let (times, dropped) = arrivals(0);
        assert_eq!((times.len(), dropped), (10, 5));
    }

    #[test]
    fn a_stalled_host_sends_later_and_a_crash_ends_its_stall() {
        let mut world = World::new(1);
        let a = world.add_host(UdpHost::default());
        let b = world.add_host(UdpHost::default().listening(ClientId(0)));
        world.link(a, b, &"delay=10ms".parse().unwrap());
        world.run_for(MS);
        world.stall(a, Time::ZERO + MS * 50, 10);
        // A shorter stall changes nothing. Nor does a stall in the past.
        world.stall(a, Time::ZERO + MS * 20, 10);
        world.stall(a, Time::ZERO, 10);
        let mut payload = world.pool().small().unwrap();
        payload.fill(100, 100);
        let to = underlay(1);
        world.request(a, ClientId(1), udp::Send { to, payload });
        world.run_for(MS * 100);
        assert_eq!(world.take_replies()[0].at, Time::ZERO + MS * 60);
        world.stall(b, Time::ZERO + MS * 900, 10);
        world.restart(b, UdpHost::default().listening(ClientId(0)));
        assert_eq!(world.stalled_until(b), None);
    }
}
