//! Three bare sealed forwarders in a chain, one in the place of each node, with a plain sender.

use super::{Arena, BenchError, Trial};
use crate::bench::go_on;
use net::bare::{Blast, Forwarder, Key, blast, count, forward};
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Most trials of the search for the limit.
pub(super) const SEARCH_TRIALS_MAX: usize = 10;
/// The rate at which the search begins: 0.5 Gbit/s of datagrams of 1400 bytes.
const FIRST_PPS: u64 = 50_000;
/// The largest loss at which a rate counts as carried: a stream would retransmit the lost packets.
const LOST_PCT_MAX: f64 = 1.0;
/// Time in which packets that are queued when the sender ends are forwarded.
const DRAIN: Duration = Duration::from_millis(50);
/// Keys of the four hops between sender, forwarders and counter.
const KEYS: [[u8; 32]; 4] = [[1; 32], [2; 32], [3; 32], [4; 32]];

/// Returns the offered rate that carries most, in datagrams per second; 0 means flooding.
pub(super) fn limit(arena: &Arena<'_>) -> Result<u64, BenchError> {
    let flooded = trial(arena, 0)?;
    let (mut carried, mut refused) = (0, None::<u64>);
    let mut best = (flooded.rate_bps(), 0);
    let mut offered = FIRST_PPS;
    for _ in 1..SEARCH_TRIALS_MAX {
        go_on(&arena.interrupt)?;
        let trial = trial(arena, offered)?;
        if trial.lost_pct <= LOST_PCT_MAX {
            carried = carried.max(offered);
            if trial.rate_bps() > best.0 {
                best = (trial.rate_bps(), offered);
            }
        } else {
            refused = Some(refused.map_or(offered, |refused| refused.min(offered)));
        }
        offered = match refused {
            None => offered * 2,
            Some(refused) if refused * 10 <= carried * 11 => break,
            Some(refused) => (carried + refused) / 2,
        };
    }
    Ok(best.1)
}

/// Sends one span of datagrams at this rate.
pub(super) fn trial(arena: &Arena<'_>, rate_pps: u64) -> Result<Trial, BenchError> {
    let row = &arena.row;
    let any_port = |host: usize, towards: usize| (row.ip(host, towards), 0);
    let source = row.within(0, || UdpSocket::bind(any_port(0, 1)))??;
    let sink = row.within(2, || UdpSocket::bind(any_port(2, 1)))??;
    // The first and the last forwarder are on the hosts of sender and counter.
    let entries = [
        row.within(0, || UdpSocket::bind(any_port(0, 1)))??,
        row.within(1, || UdpSocket::bind(row.any()))??,
        row.within(2, || UdpSocket::bind(any_port(2, 1)))??,
    ];
    let onward = [
        row.within(0, || UdpSocket::bind(row.any()))??,
        row.within(1, || UdpSocket::bind(row.any()))??,
        row.within(2, || UdpSocket::bind(row.any()))??,
    ];
    source.connect(entries[0].local_addr()?)?;
    onward[0].connect((row.ip(1, 0), entries[1].local_addr()?.port()))?;
    onward[1].connect(entries[2].local_addr()?)?;
    onward[2].connect(sink.local_addr()?)?;

    let datagram_bytes = arena.options.datagram;
    let burst = net::udp::DATAGRAM_BYTES_MAX / datagram_bytes;
    let plan = Blast {
        rate_pps,
        burst: burst.min(net::udp::GSO_SEGMENTS_MAX),
        datagram_bytes,
        packets: u64::MAX,
        key: Some(Key::new(&KEYS[0])),
    };
    let (stop_source, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| -> Result<Trial, BenchError> {
        let (stop, stop_source) = (&stop, &stop_source);
        let counting = scope.spawn({
            let sink = &sink;
            move || count(sink, stop)
        });
        let forwarding: Vec<_> = (0..3)
            .map(|i| {
                let (entry, onward) = (&entries[i], &onward[i]);
                scope.spawn(move || {
                    let [from, to] = [i, i + 1].map(|key| Key::new(&KEYS[key]));
                    forward(&Forwarder::Sealed { from, to }, entry, onward, stop)
                })
            })
            .collect();
        let sending = scope.spawn({
            let source = &source;
            move || blast(&plan, source, stop_source)
        });
        let began = Instant::now();
        std::thread::sleep(arena.options.span());
        stop_source.store(true, Ordering::Relaxed);
        let joined = |result: std::thread::Result<io::Result<net::bare::Report>>| {
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let sent = joined(sending.join());
        let seconds = began.elapsed().as_secs_f64();
        std::thread::sleep(DRAIN);
        stop.store(true, Ordering::Relaxed);
        let counted = joined(counting.join())?;
        let mut cpu_ns = 0;
        for forwarder in forwarding {
            cpu_ns += joined(forwarder.join())?.cpu_ns;
        }
        let sent = sent?;
        let payload = datagram_bytes - wire::HEADROOM - wire::TAG_BYTES;
        Ok(Trial {
            bytes: counted.packets * payload as u64,
            seconds,
            lost_pct: 100.0 * (1.0 - counted.packets as f64 / sent.packets.max(1) as f64),
            cpu_ns,
        })
    })
}
