//! Tests the socket with a range of ports against a node that answers as each test wants.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use base::{NodeAddr, VirtualPort};
use client::{Batch, Error, Node, Options, RangeSocket, Sending, Target};
use core::time::Duration;
use net::epoll::{Interest, Poller};
use net::unix::{Received, SeqListener, SeqStream};
use std::io::IoSlice;
use std::thread::JoinHandle;
use wire::data::Remaining;
use wire::ipc::{Datagram, ErrorCode, Ports, Reply, Request, kind};

const NODE: NodeAddr = NodeAddr(0x0a07_0001);
const PEER: Target = Target::new(NodeAddr(0x0a07_0002), 5000);

fn hear(stream: &SeqStream) -> Vec<u8> {
    let mut bytes = vec![0; 70_000];
    match stream.recv_into(&mut bytes).unwrap() {
        Received::Message(len) => bytes[..len].to_vec(),
        other => panic!("{other:?}"),
    }
}

fn say(stream: &SeqStream, reply: &Reply<'_>) {
    let mut bytes = [0; 256];
    let len = reply.emit(&mut bytes).unwrap();
    stream.send_parts(&[IoSlice::new(&bytes[..len])]).unwrap();
}

/// Sends what has arrived for each port, in one message.
fn datagrams(stream: &SeqStream, came: &[(u16, &[u8])]) {
    let header = Datagram {
        source: PEER.node,
        source_port: PEER.port,
        recovered: true,
        remaining: Remaining(250),
        group: None,
    };
    let mut message = vec![kind::DATAGRAMS, 0];
    for (port, payload) in came {
        message.extend_from_slice(&header.header_for(VirtualPort(*port), payload.len()));
        message.extend(*payload);
    }
    stream.send_parts(&[IoSlice::new(&message)]).unwrap();
}

/// Returns the datagrams of one message of the client.
fn sent(message: &[u8]) -> Vec<(Ports, Vec<u8>)> {
    let Ok(Request::SendFrom(batch)) = Request::parse(message) else {
        panic!("{message:?}")
    };
    let owned = batch
        .iter()
        .map(|(ports, payload)| (ports, payload.to_vec()));
    owned.collect()
}

/// Creates a node whose only connection is served by `serve` once its range is bound, or refused.
fn bind(
    test: &str,
    answer: Reply<'static>,
    serve: impl FnOnce(SeqStream) + Send + 'static,
) -> (Result<RangeSocket, Error>, JoinHandle<()>) {
    let name = format!("sinew-range-{}-{test}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut listener = SeqListener::bind(&path, 0o600).unwrap();
    let node = Node::at(&path);
    let thread = std::thread::spawn(move || {
        let mut poller = Poller::new().unwrap();
        poller.add(&listener, 0, Interest::READ).unwrap();
        poller.wait(None, &mut Vec::new()).unwrap();
        let stream = listener.accept().unwrap().unwrap();
        stream.set_nonblocking(false).unwrap();
        assert_eq!(hear(&stream)[0], kind::HELLO);
        say(&stream, &Reply::welcome(NODE, 65_507));
        assert_eq!(hear(&stream)[0], kind::OPTIONS);
        let request = kind::OPTIONS;
        say(&stream, &Reply::Done { request });
        assert_eq!(hear(&stream), [kind::BIND_RANGE, 0, 0, 100, 0, 200]);
        say(&stream, &answer);
        serve(stream);
    });
    let socket = node.bind_range(100..=200, Options::voice(Duration::from_millis(100)));
    (socket, thread)
}

const BOUND: Reply<'_> = Reply::Bound {
    port: VirtualPort(100),
};

#[test]
fn one_by_one_and_several_at_once() {
    let (socket, thread) = bind("both", BOUND, |stream| {
        for (port, payload) in [(100, &b"one"[..]), (200, b"")] {
            let heard = sent(&hear(&stream));
            assert_eq!(heard.len(), 1);
            let (ports, bytes) = &heard[0];
            assert_eq!(
                (ports.from.0, ports.to.port, &bytes[..]),
                (port, PEER.port, payload)
            );
        }
        let many = sent(&hear(&stream));
        let from: Vec<u16> = many.iter().map(|(ports, _)| ports.from.0).collect();
        assert_eq!(from, (100..164).collect::<Vec<_>>());
        datagrams(&stream, &[(100, b"pong"), (101, b"a longer one")]);
        datagrams(&stream, &[(102, b"more")]);
        let code = ErrorCode::NotBound;
        say(&stream, &Reply::Error { code, text: "no" });
        datagrams(&stream, &[(103, b"x"), (104, b"y")]);
    });
    let socket = socket.unwrap();
    assert_eq!((socket.node(), socket.ports()), (NODE, 100..=200));
    socket.send_from(100, b"one", PEER).unwrap();
    socket.send_from(200, b"", PEER).unwrap();
    let too_long = socket.send_from(100, &[0; 65_504], PEER);
    assert!(matches!(too_long, Err(Error::TooLong { max: 65_503, .. })));
    let mut sending = Sending::new();
    socket.send_batch(&mut sending).unwrap();
    for port in 100..164 {
        assert!(sending.push(port, PEER, b"voice"));
    }
    assert!(!sending.push(164, PEER, b"voice"), "no more in one message");
    socket.send_batch(&mut sending).unwrap();
    assert!(sending.is_empty());

    let mut buffer = [0; 8];
    let (len, port, from, info) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..len], port, from), (&b"pong"[..], 100, PEER));
    assert_eq!(
        (info.remaining, info.recovered),
        (Some(Duration::from_millis(25)), true)
    );
    let (len, port, ..) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!(
        (&buffer[..len], port),
        (&b"a longer"[..], 101),
        "cut, as recvfrom does"
    );
    let (len, port, ..) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..len], port), (&b"more"[..], 102));
    let mut batch = Batch::new();
    assert_eq!(batch.iter().count(), 0);
    let refused = socket.recv_batch(&mut batch);
    assert!(matches!(
        refused,
        Err(Error::Refused {
            code: ErrorCode::NotBound,
            ..
        })
    ));
    socket.recv_batch(&mut batch).unwrap();
    let came: Vec<_> = batch
        .iter()
        .map(|(port, _, _, payload)| (port, payload))
        .collect();
    assert_eq!(came, [(103, &b"x"[..]), (104, b"y")]);
    thread.join().unwrap();
    assert!(matches!(socket.recv_batch(&mut batch), Err(Error::Closed)));
    assert_eq!(batch.iter().count(), 0);
    assert!(matches!(
        socket.send_from(100, b"", PEER),
        Err(Error::Closed)
    ));
}

#[test]
fn a_long_datagram_has_a_message_of_its_own() {
    let mut sending = Sending::new();
    assert!(
        sending.push(100, PEER, &[7; 60_000]),
        "the first always has room"
    );
    assert!(!sending.push(101, PEER, b""));
    sending.clear();
    assert!(
        !sending.push(100, PEER, &[7; 65_504]),
        "no message can hold it"
    );
    assert!(sending.push(100, PEER, b"short") && sending.len() == 1);
    assert!(!sending.push(101, PEER, &[7; 60_000]));
}

#[test]
fn a_range_that_is_taken_is_refused_and_nothing_waits() {
    let code = ErrorCode::PortInUse;
    let taken = Reply::Error {
        code,
        text: "taken",
    };
    let (socket, thread) = bind("taken", taken, |_| {});
    assert!(matches!(
        socket,
        Err(Error::Refused {
            code: ErrorCode::PortInUse,
            ..
        })
    ));
    thread.join().unwrap();
    let (socket, thread) = bind("empty", BOUND, |stream| drop(hear(&stream)));
    let socket = socket.unwrap();
    socket.set_nonblocking(true).unwrap();
    assert!(matches!(
        socket.recv_from(&mut [0; 8]),
        Err(Error::WouldBlock)
    ));
    socket.send_from(100, b"the end", PEER).unwrap();
    thread.join().unwrap();
}
