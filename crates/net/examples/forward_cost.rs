//! Prints the processor time per packet of the bare forwarders over loopback, and of the node's
//! own sockets (`Poller`, `udp::Socket`, `SendQueue`) with no engine between them.
//!
//! `cargo run --release -p net --example forward_cost [seconds per run] [repeats] [priority]`
//!
//! The forwarder's time includes what loopback does on its behalf: the delivery to the sink. Runs are interleaved and
//! the median is printed, because machines are shared. With a priority, all threads are real-time threads (if
//! permitted), and other processes of the machine wait for them.
#![allow(clippy::print_stdout)]

use base::{Burst, Pool, UnderlayAddr};
use net::bare::{Blast, Forwarder, Key, Report, blast, count, forward};
use net::epoll::{Interest, Poller};
use net::udp::{Options, SendQueue, Socket};
use net::{addr, sched};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

/// The forwarder of a row.
#[derive(Clone, Copy)]
enum Row {
    Batched,
    Offloaded,
    Sealed,
    Sockets,
}

const ROWS: [(Row, &str); 4] = [
    (Row::Batched, "recvmmsg/sendmmsg"),
    (Row::Offloaded, "GRO, in place, GSO"),
    (Row::Sealed, "the same, opened and sealed"),
    (Row::Sockets, "Socket and SendQueue"),
];

/// Datagrams per second, datagrams per GSO message, and bytes of each.
const PATTERNS: [(u64, usize, usize); 5] = [
    (10_000, 1, 207),
    (40_000, 1, 207),
    (80_000, 16, 207),
    (40_000, 1, 1247),
    (80_000, 16, 1247),
];

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|arg| arg.parse().ok());
    let seconds = args.next().unwrap_or(1);
    let repeats = args.next().unwrap_or(3);
    if let Some(priority) = args.next() {
        PRIORITY.store(priority.min(99) as u8, Ordering::Relaxed);
    }
    println!("{}", take_priority());
    println!(
        "median of {repeats} interleaved runs of {seconds} s over loopback; load {}",
        load()
    );
    for (rate_pps, burst, bytes) in PATTERNS {
        println!("\n{bytes} bytes, {rate_pps} packets/s, {burst} per message");
        let mut results = ROWS.map(|_| Vec::new());
        for _ in 0..repeats {
            for ((row, _), results) in ROWS.iter().zip(&mut results) {
                results.push(run(*row, rate_pps, burst, bytes, rate_pps * seconds));
            }
        }
        for ((_, name), results) in ROWS.iter().zip(&mut results) {
            results.sort_by(|(a, _), (b, _)| a.ns_per_packet().total_cmp(&b.ns_per_packet()));
            let (report, arrived) = &results[results.len() / 2];
            println!(
                "{name:>28}: {:6.0} ns/packet ({:.0} to {:.0}), {:5.1} packets per wake-up, {:.2} % lost",
                report.ns_per_packet(),
                results[0].0.ns_per_packet(),
                results[results.len() - 1].0.ns_per_packet(),
                report.packets as f64 / report.wakeups.max(1) as f64,
                100.0 - 100.0 * *arrived as f64 / (rate_pps * seconds) as f64,
            );
        }
    }
    println!("\nload {}", load());
}

/// Makes one run. Returns the forwarder's report, and how many packets the sink has seen.
fn run(row: Row, rate_pps: u64, burst: usize, bytes: usize, packets: u64) -> (Report, u64) {
    let (from, to) = (Key::new(&[1; 32]), Key::new(&[2; 32]));
    let local = || UdpSocket::bind("127.0.0.1:0").expect("loopback has ports");
    let sink = local();
    let (done, end) = (AtomicBool::new(false), AtomicBool::new(false));
    let plan = Blast {
        rate_pps,
        burst,
        datagram_bytes: bytes,
        packets,
        key: matches!(row, Row::Sealed).then(|| Key::new(&[1; 32])),
    };
    thread::scope(|scope| {
        let counting = scope.spawn(|| {
            take_priority();
            count(&sink, &end).expect("the sink counts")
        });
        let entry = local();
        let source = local();
        let forwarding = if let Row::Sockets = row {
            let (tell, told) = std::sync::mpsc::channel();
            let sink_addr = addr::underlay(sink.local_addr().expect("bound"), 0);
            let done = &done;
            let thread = scope.spawn(move || {
                take_priority();
                let any = "127.0.0.1:0".parse().expect("an address");
                let socket = Socket::bind(any, Options::default()).expect("loopback has ports");
                tell.send(socket.local_addr().expect("bound"))
                    .expect("awaited");
                sockets(socket, sink_addr, done)
            });
            source
                .connect(told.recv().expect("told"))
                .expect("loopback");
            thread
        } else {
            source
                .connect(entry.local_addr().expect("bound"))
                .expect("loopback");
            let onward = local();
            onward
                .connect(sink.local_addr().expect("bound"))
                .expect("loopback");
            let forwarder = match row {
                Row::Batched => Forwarder::Batched,
                Row::Sealed => Forwarder::Sealed { from, to },
                _ => Forwarder::Offloaded,
            };
            let done = &done;
            scope.spawn(move || {
                take_priority();
                forward(&forwarder, &entry, &onward, done).expect("it forwards")
            })
        };
        // Both threads are in their loops before the first packet.
        thread::sleep(Duration::from_millis(30));
        blast(&plan, &source, &end).expect("it sends");
        thread::sleep(Duration::from_millis(100));
        done.store(true, Ordering::Relaxed);
        let report = forwarding.join().expect("it forwards");
        end.store(true, Ordering::Relaxed);
        (report, counting.join().expect("it counts").packets)
    })
}

/// Runs the loop of a node without its engine.
fn sockets(mut socket: Socket, to: UnderlayAddr, done: &AtomicBool) -> Report {
    let pool = Pool::new(256, 4096);
    let mut queue = SendQueue::new();
    let mut poller = Poller::new().expect("epoll");
    poller.add(&socket, 0, Interest::READ).expect("it is open");
    let mut ready = Vec::new();
    let mut bursts: Vec<(UnderlayAddr, Burst)> = Vec::new();
    let mut report = Report::default();
    let (cpu, wakeups) = (sched::thread_cpu(), sched::thread_wakeups());
    while !done.load(Ordering::Relaxed) {
        let wait = base::Duration::from_millis(50);
        poller.wait(Some(wait), &mut ready).expect("epoll waits");
        socket
            .recv_batch(&pool, &mut bursts, 64)
            .expect("it receives");
        for (_, mut burst) in bursts.drain(..) {
            report.packets += burst.segments() as u64;
            report.bytes += burst.len() as u64;
            for i in 0..burst.segments() {
                let datagram = burst.segment_mut(i);
                datagram[1..4].copy_from_slice(&[0, 0, 7]);
                datagram[9] = datagram[9].wrapping_sub(1);
            }
            queue.push(to, burst);
        }
        socket.send_batch(&mut queue);
    }
    report.wakeups = sched::thread_wakeups() - wakeups;
    report.cpu_ns = (sched::thread_cpu() - cpu).as_nanos();
    report
}

/// The priority that every thread requests by `real_time`; 0 for none.
static PRIORITY: AtomicU8 = AtomicU8::new(0);

fn take_priority() -> String {
    match PRIORITY.load(Ordering::Relaxed) {
        0 => "normal priority".to_owned(),
        priority => sched::real_time(priority).to_string(),
    }
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}
