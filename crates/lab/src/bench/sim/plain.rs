//! Plain UDP hosts in a row, and the bare heap as a baseline.

use super::{DELAY_NS, HOPS, INTERVAL_NS, RATE_BPS, Speed, cpu};
use crate::bench::BenchError;
use base::impair::{Model, Queue};
use base::{Duration, Rng};
use sim::traffic::{Pattern, Source};
use sim::{Arrivals, UdpHost, World};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Size of a link's queue. No packet waits in it, since packets arrive more slowly than the link sends.
const QUEUE: usize = 100;

/// Sends `packets` from one end to the other.
pub(super) fn measure(packets: u64, payload: usize) -> Result<Speed, BenchError> {
    let mut world = World::new(1);
    // Each packet is an arrival of its own, as in ns-3.
    world.set_arrivals(Arrivals::Single);
    let interval = Duration::from_nanos(INTERVAL_NS);
    let hosts: Vec<_> = (0..=HOPS as u32)
        .map(|i| {
            let next = sim::underlay(i + 1);
            world.add_host(match i {
                0 => {
                    let source = Source::new(Pattern::Cbr { interval }, Rng::new(1));
                    UdpHost::default().sending(source, next, payload, interval * packets)
                }
                i if (i as usize) < HOPS => UdpHost::default().forwarding(next),
                _ => UdpHost::default(),
            })
        })
        .collect();
    let model = Model::default()
        .with_delay(Duration::from_nanos(DELAY_NS))
        .and_then(|model| model.with_rate(RATE_BPS, Queue::Packets(QUEUE)))
        .map_err(|error| BenchError::Start(error.to_string()))?;
    for pair in hosts.windows(2) {
        world.link(pair[0], pair[1], &model);
    }
    let span = interval * packets + Duration::from_secs(1);
    let ((), cpu_s) = cpu::timed(|| {
        world.run_for(span);
        Ok(())
    })?;
    let received = world.engine(hosts[HOPS]).map(|host| host.received());
    if received.is_none_or(|received| received.datagrams != packets) {
        return Err(BenchError::Start("plain hosts lost packets".to_owned()));
    }
    let events = world.counters().events;
    Ok(Speed::new(events, packets * HOPS as u64, cpu_s))
}

/// Passes as many events through a binary heap, with as many waiting as packets are under way in the chain: no
/// simulator with such a queue takes less time.
pub(super) fn heap(events: u64) -> Result<Speed, BenchError> {
    let waiting = HOPS as u64 * DELAY_NS / INTERVAL_NS;
    let (taken, cpu_s) = cpu::timed(|| {
        let mut heap: BinaryHeap<Reverse<(u64, u64, u32)>> = (0..waiting)
            .map(|n| Reverse((n * INTERVAL_NS, n, n as u32)))
            .collect();
        let (mut serial, mut taken) = (waiting, 0);
        while taken < events
            && let Some(Reverse((at, _, who))) = heap.pop()
        {
            heap.push(Reverse((at + DELAY_NS, serial, std::hint::black_box(who))));
            serial += 1;
            taken += 1;
        }
        Ok(taken)
    })?;
    Ok(Speed::new(taken, 0, cpu_s))
}
