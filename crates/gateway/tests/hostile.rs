//! Clients of the SOCKS server and of the gate that send nonsense, are slow, or send nothing at all.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use base::{NodeAddr, VirtualPort};
use client::remote::Place;
use client::{Node, Options, Target};
use core::time::Duration;
use gateway::remote::{Gate, Operators, Settings as GateSettings, WayDrop};
use gateway::socks::{Nodes, Settings, Socks};
use net::unix::{Received, SeqListener};
use socket2::{Domain, Socket, Type};
use std::cell::Cell;
use std::io::{IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use wire::data::Remaining;
use wire::exit::Host;
use wire::ipc::{Datagram, MESSAGE_BYTES_MAX, Reply, Request, kind};

/// How long the servers wait for slow clients.
const PATIENCE: Duration = Duration::from_millis(300);

struct Nobody;

impl Nodes for Nobody {
    fn node(&self, _: &Host<'_>) -> Option<NodeAddr> {
        None
    }
}

/// Returns a server whose node does not exist, and its address.
fn socks(user: Option<(&str, &str)>) -> (Arc<Socks>, SocketAddr) {
    socks_with(user, PATIENCE)
}

fn socks_with(user: Option<(&str, &str)>, patience: Duration) -> (Arc<Socks>, SocketAddr) {
    let settings = Settings {
        listen: ([127, 0, 0, 1], 0).into(),
        node: Node::at("/nonexistent/node.sock"),
        nodes: Arc::new(Nobody),
        exit: Some(NodeAddr(0x0a07_0002)),
        user: user.map(|(name, word)| (name.to_owned(), word.to_owned())),
        streams: Options::stream(),
        datagrams: Options::best_effort(),
        patience,
    };
    let server = Arc::new(Socks::bind(settings, Arc::new(|_| ())).unwrap());
    let serving = Arc::clone(&server);
    thread::spawn(move || while serving.serve_next().is_ok() {});
    let at = server.local().unwrap();
    (server, at)
}

/// Sends `said`, and returns the answer up to the close of the connection by the server.
fn say(at: SocketAddr, said: &[u8]) -> Vec<u8> {
    let mut tcp = TcpStream::connect(at).unwrap();
    // A server that has received enough may have closed by now.
    let _ = tcp.write_all(said);
    answer(tcp)
}

fn answer(mut tcp: TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    // The connection ends in order, or by a reset if there was more than the server has read.
    let _ = tcp.read_to_end(&mut answer);
    answer
}

/// Sends one byte after the other, until the server closes the connection.
fn drip(at: SocketAddr, said: impl Iterator<Item = u8>) -> Vec<u8> {
    let mut tcp = TcpStream::connect(at).unwrap();
    tcp.set_nodelay(true).unwrap();
    tcp.set_read_timeout(Some(PATIENCE / 10)).unwrap();
    for byte in said {
        if tcp.write_all(&[byte]).is_err() || matches!(tcp.read(&mut [0; 64]), Ok(0)) {
            break;
        }
    }
    tcp.set_read_timeout(None).unwrap();
    answer(tcp)
}

/// Waits until a condition is true: a server counts a client when it releases it, and the client may notice the end
/// earlier.
fn wait_until(holds: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("it never came to that");
}

fn assert_counted(counter: &AtomicU64, count: u64) {
    wait_until(|| counter.load(Ordering::Relaxed) == count);
}

#[test]
fn socks_clients_that_speak_nonsense_are_told_and_counted() {
    let (server, at) = socks(None);
    let refused = |code| vec![5, 0, 5, code, 0, 1, 0, 0, 0, 0, 0, 0];
    let mut nonsense = 0;
    for (said, told) in [
        // Another protocol, another version, a reserved byte, unknown commands and addresses.
        (&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], vec![]),
        (b"\x04\x01\0\x50\x7f\0\0\x01\0", vec![]),
        (b"\x05\x01\0\x05\x01\x07\x01\x7f\0\0\x01\0\x50", vec![5, 0]),
        (b"\x05\x01\0\x05\x09\0\x01\x7f\0\0\x01\0\x50", vec![5, 0]),
        (b"\x05\x01\0\x05\x01\0\x09\x7f\0\0\x01\0\x50", vec![5, 0]),
        (&[0xff; 100_000], vec![]),
    ] {
        assert_eq!(say(at, said), told, "{said:?}");
        nonsense += 1;
    }
    assert_counted(&server.counters().nonsense, nonsense);
    // These are understood but refused: no such node, no BIND, and a node that does not exist.
    for (said, code) in [
        (&b"\x05\x01\0\x05\x01\0\x03\x09web.sinew\0\x50"[..], 4),
        (b"\x05\x01\0\x05\x01\0\x03\x0aweb.sinew.\0\x50", 4),
        (b"\x05\x01\0\x05\x02\0\x01\x7f\0\0\x01\0\x50", 7),
        (b"\x05\x01\0\x05\x01\0\x01\x7f\0\0\x01\0\x50", 1),
        (b"\x05\x01\0\x05\x03\0\x01\0\0\0\0\0\0", 1),
    ] {
        assert_eq!(say(at, said), refused(code), "{said:?}");
    }
    assert_counted(&server.counters().refused, 5);
}

#[test]
fn socks_clients_without_the_password_are_not_let_in() {
    let (server, at) = socks(Some(("ann", "open sesame")));
    for (said, told) in [
        (&b"\x05\x01\0"[..], vec![5, 0xff]),
        (b"\x05\0", vec![5, 0xff]),
        (b"\x05\x01\x02\x01\x03ann\x04shut", vec![5, 2, 1, 1]),
        (b"\x05\x01\x02\x01\x03ann\0", vec![5, 2, 1, 1]),
        (b"\x05\x01\x02\x01\x03ann\x0copen sesame2", vec![5, 2, 1, 1]),
        (b"\x05\x01\x02\x01\x02an\x0bopen sesame", vec![5, 2, 1, 1]),
    ] {
        assert_eq!(say(at, said), told, "{said:?}");
    }
    assert_counted(&server.counters().unknown_users, 6);
    let good = b"\x05\x02\0\x02\x01\x03ann\x0bopen sesame\x05\x02\0\x01\x7f\0\0\x01\0\x50";
    assert_eq!(say(at, good)[..6], [5, 2, 1, 0, 5, 7]);
}

#[test]
fn slow_socks_clients_are_let_go_and_hinder_nobody() {
    let (server, at) = socks(None);
    let silent = TcpStream::connect(at).unwrap();
    let half = {
        let mut tcp = TcpStream::connect(at).unwrap();
        tcp.write_all(b"\x05\x01\0\x05\x01\0\x03\x09web").unwrap();
        tcp
    };
    let gone = TcpStream::connect(at).unwrap();
    gone.shutdown(Shutdown::Write).unwrap();
    // The server does not wait for the other clients.
    assert_eq!(
        say(at, b"\x05\x01\0\x05\x02\0\x01\0\0\0\0\0\0")[..4],
        [5, 0, 5, 7]
    );
    assert_eq!(answer(gone), []);
    // A client that sends one byte after the other has no more time than one that sends nothing.
    assert_eq!(
        drip(at, [5, 255].into_iter().chain(core::iter::repeat(1))),
        []
    );
    assert_eq!(answer(silent), []);
    assert_eq!(answer(half), [5, 0]);
    assert_counted(&server.counters().late, 4);
}

/// More silent clients of one host than there are places keep nobody out, not even others of the same host.
#[test]
fn silent_socks_clients_lose_their_places_to_those_who_ask() {
    // Each of them takes three descriptors of this process.
    let _ = net::sched::raise_descriptors();
    let (server, at) = socks_with(None, Duration::from_secs(600));
    let silent: Vec<TcpStream> = (0..600).map(|_| TcpStream::connect(at).unwrap()).collect();
    let asks = b"\x05\x01\0\x05\x02\0\x01\0\0\0\0\0\0";
    assert_eq!(say(at, asks)[..4], [5, 0, 5, 7]);
    assert_eq!(server.counters().turned_away.load(Ordering::Relaxed), 0);
    // The oldest ones had to go.
    assert_eq!(answer(silent.into_iter().next().unwrap()), []);
}

/// The keys of RFC 8032 §7.1, test 1.
const SECRET: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
const PUBLIC: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

/// Returns a gate whose node does not exist, and how to reach it.
fn gate() -> (Arc<Gate>, Place) {
    gate_with(PATIENCE)
}

fn gate_with(patience: Duration) -> (Arc<Gate>, Place) {
    gate_of("/nonexistent/node.sock".into(), patience)
}

fn gate_of(node: PathBuf, patience: Duration) -> (Arc<Gate>, Place) {
    let key = client::remote::from_hex(PUBLIC).unwrap();
    let settings = GateSettings {
        listen: ([127, 0, 0, 1], 0).into(),
        token: [7; 32],
        operators: Operators::default(),
        secret: client::remote::from_hex(SECRET).unwrap(),
        node,
        patience,
        udp_port: None,
        realtime: false,
    };
    let gate = Arc::new(Gate::bind(&settings).unwrap());
    let serving = Arc::clone(&gate);
    thread::spawn(move || serving.serve());
    let place = Place {
        endpoint: gate.local().unwrap().to_string(),
        token: [7; 32],
        key,
    };
    (gate, place)
}

/// Runs a node that sends every datagram back, to one client.
fn echo(mut listener: SeqListener) {
    let client = loop {
        if let Some(client) = listener.accept().unwrap() {
            break client;
        }
        thread::sleep(Duration::from_millis(5));
    };
    client.set_nonblocking(false).unwrap();
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    while let Ok(Received::Message(len)) = client.recv_into(&mut buffer) {
        let request = Request::parse(&buffer[..len]).unwrap();
        let reply = match request {
            Request::SendTo(to, payload) => {
                let datagram = Datagram {
                    source: to.node,
                    source_port: to.port,
                    recovered: false,
                    remaining: Remaining::NONE,
                    group: None,
                };
                Reply::Datagram(datagram, payload)
            }
            Request::Hello { version } => Reply::Welcome {
                version,
                node: NodeAddr(1),
                payload_bytes_max: 60_000,
            },
            Request::Options(_) => Reply::Done {
                request: kind::OPTIONS,
            },
            Request::Bind { .. } => Reply::Bound {
                port: VirtualPort(7),
            },
            other => panic!("{other:?}"),
        };
        let mut said = vec![0; MESSAGE_BYTES_MAX];
        let len = reply.emit(&mut said).unwrap();
        client.send_parts(&[IoSlice::new(&said[..len])]).unwrap();
    }
}

#[test]
fn datagrams_go_by_udp_and_strangers_there_are_counted_and_not_answered() {
    let path = std::env::temp_dir().join(format!("gate-udp-{}.sock", std::process::id()));
    let listener = SeqListener::bind(&path, 0o600).unwrap();
    let serving = thread::spawn(move || echo(listener));
    let (gate, place) = gate_of(path, PATIENCE);
    let node = Node::remote(place.clone()).unwrap();
    let socket = node.bind(0, Options::best_effort()).unwrap();
    let exchanged = Cell::new(0);
    let exchange = || {
        let (mut payload, mut buffer) = ([1; 1_100], [0; 2_000]);
        payload[0] = exchanged.get() as u8;
        let to = Target::parse("10.7.0.3:9").unwrap();
        socket.send_to(&payload, to).unwrap();
        let (len, ..) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!(buffer[..len], payload);
        exchanged.set(exchanged.get() + 1);
    };
    let ways = gate.ways().unwrap();
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let at_gate = || [&ways.received, &ways.sent, &ways.sent_by_tls].map(of);
    let at_client = || {
        let report = node.ways().first().copied().unwrap_or_default();
        [report.came, report.sent, report.sent_by_tls]
    };
    // The first datagram goes by TLS, and the client requests the way. The next ones go by TLS until the maximum length
    // of a datagram on the way is known.
    exchange();
    wait_until(|| node.ways().first().is_some_and(|way| way.is_udp));
    wait_until(|| gate.clients_with_ways(1).0[0].at.is_some());
    wait_until(|| {
        let before = (at_gate(), at_client());
        exchange();
        // An answer can arrive before the other threads have counted it.
        let has_sent = |now: [u64; 3], before: [u64; 3]| now[1] + now[2] > before[1] + before[2];
        wait_until(|| has_sent(at_gate(), before.0) && has_sent(at_client(), before.1));
        at_gate()[1] > before.0[1] && at_client()[1] > before.1[1]
    });
    wait_until(|| at_gate()[0] == at_client()[1] && at_client()[0] == at_gate()[1]);
    let (gate_before, client_before) = (at_gate(), at_client());
    for _ in 0..100 {
        exchange();
    }
    let by_udp = |before: [u64; 3]| [before[0] + 100, before[1] + 100, before[2]];
    wait_until(|| at_gate() == by_udp(gate_before) && at_client() == by_udp(client_before));
    // A datagram that is too long for a way goes by TLS.
    let long = vec![9; 20_000];
    socket
        .send_to(&long, Target::parse("10.7.0.3:9").unwrap())
        .unwrap();
    let mut room = vec![0; 30_000];
    assert_eq!(socket.recv_from(&mut room).unwrap().0, long.len());
    wait_until(|| at_gate()[2] == gate_before[2] + 1);
    assert_eq!(at_gate()[0], gate_before[0] + 100);
    // Datagrams of strangers: one of no known kind, and one of no client.
    let at: SocketAddr = place.endpoint.parse().unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    for first in [0x00, 0x18] {
        stranger.send_to(&[first; 200], at).unwrap();
    }
    wait_until(|| [WayDrop::Malformed, WayDrop::Unknown].map(|why| ways.dropped(why)) == [1, 1]);
    stranger.set_nonblocking(true).unwrap();
    assert!(stranger.recv(&mut [0; 2_000]).is_err());
    drop(socket);
    serving.join().unwrap();
    wait_until(|| gate.clients_with_ways(1).1 == 0);
}

fn why(place: &Place) -> String {
    let node = Node::remote(place.clone()).unwrap();
    let error = node.bind(0, Options::best_effort()).unwrap_err();
    error.to_string()
}

/// The start of a TLS record up to its length, with nothing after it.
const TLS_BEGINS: &[u8] = &[0x16, 0x03, 0x01, 0x02, 0x00];

#[test]
fn who_says_nothing_sensible_at_the_gate_is_let_go_and_counted() {
    let (gate, place) = gate();
    let at: SocketAddr = place.endpoint.parse().unwrap();
    let (silent, half) = (TcpStream::connect(at).unwrap(), {
        let mut tcp = TcpStream::connect(at).unwrap();
        tcp.write_all(TLS_BEGINS).unwrap();
        tcp
    });
    let gone = TcpStream::connect(at).unwrap();
    gone.shutdown(Shutdown::Write).unwrap();
    assert!(why(&place).contains("does not answer at its gate"));
    assert_eq!(answer(gone), []);
    for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 100_000]] {
        let told = say(at, nonsense);
        // The answer is empty or an alert of TLS.
        assert!(told.is_empty() || told[0] == 0x15, "{told:?}");
    }
    assert_counted(&gate.counters().nonsense, 2);
    let dripped = drip(at, TLS_BEGINS.iter().copied().chain(core::iter::repeat(1)));
    assert!(dripped.is_empty() || dripped[0] == 0x15, "{dripped:?}");
    assert_eq!((answer(silent), answer(half)), (vec![], vec![]));
    let wrong = Place {
        token: [8; 32],
        ..place.clone()
    };
    assert!(why(&wrong).contains("the token is wrong"));
    assert_counted(&gate.counters().wrong_token, 1);
    assert_eq!(gate.counters().welcomed.load(Ordering::Relaxed), 0);
    wait_until(|| gate.open() == 0);
}

/// Connects from a chosen loopback address.
fn connect_from(last: u8, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let from = SocketAddr::from(([127, 0, 0, last], 0));
    socket.bind(&from.into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

#[test]
fn a_stranger_who_holds_many_connections_keeps_nobody_from_the_gate() {
    // The gate itself is patient, so the limit on places decides.
    let (gate, place) = gate_with(Duration::from_secs(3_600));
    let at: SocketAddr = place.endpoint.parse().unwrap();
    let (share, most) = (
        gateway::remote::GREETING_SHARE,
        gateway::remote::MAX_GREETING,
    );
    let crowd = |last: u8| -> Vec<TcpStream> {
        let many = 0..most + share;
        many.map(|_| connect_from(last, at)).collect()
    };
    let stranger = crowd(2);
    assert!(why(&place).contains("does not answer at its gate"));
    let counters = gate.counters();
    wait_until(|| counters.turned_away.load(Ordering::Relaxed) > 0);
    // Connections of other addresses take the places of the silent ones.
    let more: Vec<_> = (3..=6).map(crowd).collect();
    assert!(why(&place).contains("does not answer at its gate"));
    wait_until(|| counters.displaced.load(Ordering::Relaxed) > 0);
    drop((stranger, more));
    wait_until(|| gate.open() == 0);
}
