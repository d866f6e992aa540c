use super::*;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

fn connect(to: &UdpSocket) -> UdpSocket {
    let socket = socket();
    socket.connect(to.local_addr().unwrap()).unwrap();
    socket
}

fn keys() -> [Key; 2] {
    [Key::new(&[1; 32]), Key::new(&[2; 32])]
}

/// Sends `sizes` of datagrams through `forwarder`, each as one message of `burst` datagrams, and returns the output in
/// order.
fn through(forwarder: &Forwarder, plan: &Blast) -> Vec<Vec<u8>> {
    let (entry, sink) = (socket(), socket());
    let (source, onward) = (connect(&entry), connect(&sink));
    let (stop, never) = (AtomicBool::new(false), AtomicBool::new(false));
    sink.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| forward(forwarder, &entry, &onward, &stop).unwrap());
        let sent = blast(plan, &source, &never).unwrap();
        assert_eq!((sent.packets, sent.lost), (plan.packets, 0));
        let mut buffer = [0; 2048];
        let got = (0..plan.packets)
            .map(|_| {
                let len = sink.recv(&mut buffer).unwrap();
                buffer[..len].to_vec()
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        let report = running.join().unwrap();
        assert_eq!((report.packets, report.lost), (plan.packets, 0));
        assert_eq!(report.bytes, plan.packets * plan.datagram_bytes as u64);
        assert!(report.cpu_ns > 0);
        got
    })
}

#[test]
fn plain_forwarders_pass_everything_on_in_order_with_their_own_counters() {
    for forwarder in [Forwarder::Batched, Forwarder::Offloaded] {
        for burst in [1, 16] {
            let plan = Blast {
                rate_pps: 0,
                burst,
                datagram_bytes: 207,
                packets: 100,
                key: None,
            };
            for (i, datagram) in through(&forwarder, &plan).iter().enumerate() {
                assert_eq!(datagram.len(), 207);
                let counter = i as u32 + 1;
                let clear = [&[0x18, 0, 0, 7], &counter.to_be_bytes()[..]].concat();
                assert_eq!(datagram[..8], clear);
                assert_eq!(datagram[CLEAR_BYTES + 1], 255);
            }
        }
    }
}

#[test]
fn the_sealed_forwarder_opens_with_one_key_and_seals_with_the_other() {
    for burst in [1, 16] {
        let [from, to] = keys();
        let [source, sink] = keys();
        let plan = Blast {
            rate_pps: 0,
            burst,
            datagram_bytes: 207,
            packets: 100,
            key: Some(source),
        };
        for mut datagram in through(&Forwarder::Sealed { from, to }, &plan) {
            assert!(sink.open(&mut datagram), "sealed with the second key");
            assert_eq!(datagram[CLEAR_BYTES + 1], 31);
        }
    }
}

#[test]
fn forged_datagrams_do_not_pass() {
    let [key, _] = keys();
    let mut datagram = [3u8; 60];
    assert!(key.seal(&mut datagram, 9));
    for i in 0..datagram.len() {
        let mut forged = datagram;
        forged[i] ^= 1;
        assert!(!key.open(&mut forged), "byte {i}");
    }
    assert!(key.open(&mut datagram));
}

#[test]
fn the_sink_counts_datagrams_within_bursts() {
    let sink = socket();
    let source = connect(&sink);
    let (stop, never) = (AtomicBool::new(false), AtomicBool::new(false));
    // Some 60 messages: they all wait at the sink before it starts, and it takes up to 64 at once
    // before it looks at `stop` for the second time.
    let plan = Blast {
        rate_pps: 1_000_000,
        burst: 16,
        datagram_bytes: 100,
        packets: 950,
        key: None,
    };
    let _ = batch::prepare(&sink, true);
    blast(&plan, &source, &never).unwrap();
    let report = std::thread::scope(|scope| {
        let counting = scope.spawn(|| count(&sink, &stop).unwrap());
        while sink.peek(&mut [0]).is_ok() {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        counting.join().unwrap()
    });
    assert_eq!((report.packets, report.bytes), (950, 95_000));
}

#[test]
fn impossible_plans_are_refused() {
    let source = connect(&socket());
    for (burst, datagram_bytes) in [(1, 10), (64, 1200)] {
        let plan = Blast {
            rate_pps: 0,
            burst,
            datagram_bytes,
            packets: 1,
            key: None,
        };
        assert!(blast(&plan, &source, &AtomicBool::new(false)).is_err());
    }
}

#[test]
fn a_fan_copies_to_every_branch_and_a_recorder_knows_when_each_copy_came() {
    let (entry, sinks) = (socket(), [socket(), socket()]);
    let source = connect(&entry);
    let onward = [connect(&sinks[0]), connect(&sinks[1])];
    for sink in &sinks {
        Recorder::prepare(sink, 1 << 20).unwrap();
    }
    let stop = crate::epoll::Waker::new().unwrap();
    let before_ns = unix_ns();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| fan(&entry, &onward, &stop).unwrap());
        for i in 0..100u8 {
            source.send(&[i; 40]).unwrap();
        }
        let mut recorder = Recorder::new();
        for sink in &sinks {
            let mut got = Vec::new();
            while got.len() < 100 {
                recorder
                    .take(sink, |bytes, at_ns| {
                        assert_eq!(bytes, [bytes[0]; 40]);
                        assert!((before_ns..=unix_ns()).contains(&at_ns));
                        got.push(bytes[0]);
                    })
                    .unwrap();
            }
            assert!(got.iter().copied().eq(0..100));
        }
        stop.wake();
        let report = running.join().unwrap();
        assert_eq!((report.packets, report.lost, report.bytes), (200, 0, 8_000));
    });
}
