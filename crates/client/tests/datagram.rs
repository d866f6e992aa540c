//! Tests the datagram socket against a node that answers as each test wants.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use base::{NodeAddr, VirtualPort};
use client::{DatagramSocket, Error, Node, Options, Target};
use core::time::Duration;
use net::epoll::{Interest, Poller};
use net::unix::{Received, SeqListener, SeqStream};
use std::io::IoSlice;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::JoinHandle;
use wire::data::Remaining;
use wire::ipc::{Datagram, ErrorCode, Reply, Request, kind};

const NODE: NodeAddr = NodeAddr(0x0a07_0001);
const PEER: Target = Target::new(NodeAddr(0x0a07_0002), 5000);

/// The node's end of one connection, blocking.
struct Peer(SeqStream);

impl Peer {
    fn hear(&self) -> Vec<u8> {
        let mut bytes = vec![0; 4_096];
        match self.0.recv_into(&mut bytes).unwrap() {
            Received::Message(len) => bytes[..len].to_vec(),
            other => panic!("{other:?}"),
        }
    }

    fn say(&self, reply: &Reply<'_>) {
        let mut bytes = [0; 4_096];
        let len = reply.emit(&mut bytes).unwrap();
        self.say_bytes(&bytes[..len]);
    }

    fn say_bytes(&self, bytes: &[u8]) {
        self.0.send_parts(&[IoSlice::new(bytes)]).unwrap();
    }

    fn datagram(&self, payload: &[u8]) {
        let header = Datagram {
            source: PEER.node,
            source_port: PEER.port,
            recovered: false,
            remaining: Remaining(250),
            group: None,
        };
        self.say(&Reply::Datagram(header, payload));
    }

    /// Does what a well-behaved node does until the socket is bound.
    fn greet(&self) {
        assert_eq!(self.hear()[0], kind::HELLO);
        self.say(&Reply::Welcome {
            version: wire::ipc::VERSION,
            node: NODE,
            payload_bytes_max: 1_392,
        });
        assert_eq!(self.hear()[0], kind::OPTIONS);
        self.say(&Reply::Done {
            request: kind::OPTIONS,
        });
        let message = self.hear();
        let Ok(Request::Bind { port }) = Request::parse(&message) else {
            panic!("{message:?}")
        };
        self.say(&Reply::Bound {
            port: if port.0 == 0 {
                VirtualPort(40_000)
            } else {
                port
            },
        });
    }
}

/// Creates a node whose only connection is served by `serve` on a thread.
fn node(test: &str, serve: impl FnOnce(Peer) + Send + 'static) -> (Node, JoinHandle<()>) {
    let name = format!("sinew-client-{}-{test}.sock", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    let mut listener = SeqListener::bind(&path, 0o600).unwrap();
    let node = Node::at(&path);
    let thread = std::thread::spawn(move || {
        let mut poller = Poller::new().unwrap();
        poller.add(&listener, 0, Interest::READ).unwrap();
        poller.wait(None, &mut Vec::new()).unwrap();
        let stream = listener.accept().unwrap().unwrap();
        stream.set_nonblocking(false).unwrap();
        serve(Peer(stream));
    });
    (node, thread)
}

fn bind(node: &Node) -> Result<DatagramSocket, Error> {
    node.bind(0, Options::voice(Duration::from_millis(100)))
}

#[test]
fn datagrams_go_and_come_with_what_is_told_of_them() {
    let (node, thread) = node("both-ways", |peer| {
        peer.greet();
        let message = peer.hear();
        let Ok(Request::SendTo(to, payload)) = Request::parse(&message) else {
            panic!()
        };
        assert_eq!(
            (to.node, to.port, payload),
            (PEER.node, PEER.port, &b"ping"[..])
        );
        peer.datagram(b"pong");
        peer.datagram(b"a longer one than there is room for");
    });
    let socket = bind(&node).unwrap();
    assert_eq!(socket.local(), Target::new(NODE, 40_000));
    assert_eq!(socket.max_payload(), 1_392);
    socket.send_to(b"ping", PEER).unwrap();
    let mut buffer = [0; 8];
    let (len, from, info) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..len], from), (&b"pong"[..], PEER));
    assert_eq!(info.remaining, Some(Duration::from_millis(25)));
    let (len, ..) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"a longer", "cut, as recvfrom does");
    thread.join().unwrap();
    assert!(matches!(socket.recv_from(&mut buffer), Err(Error::Closed)));
    assert!(matches!(socket.send_to(b"x", PEER), Err(Error::Closed)));
}

#[test]
fn what_was_sent_to_a_group_tells_it_and_is_cut_by_a_short_buffer() {
    const GROUP: NodeAddr = NodeAddr(0xef01_0203);
    let sizes = [0, 1, 3, 4, 5, 9, 10, 11, 100];
    let (node, thread) = node("group", move |peer| {
        peer.greet();
        for _ in sizes {
            let header = Datagram {
                source: PEER.node,
                source_port: PEER.port,
                recovered: true,
                remaining: Remaining(250),
                group: Some(GROUP),
            };
            peer.say(&Reply::Datagram(header, b"0123456789"));
        }
    });
    let socket = bind(&node).unwrap();
    for size in sizes {
        let mut buffer = vec![b'x'; size];
        let (len, from, info) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!(
            (from, info.group, info.recovered),
            (PEER, Some(GROUP), true)
        );
        assert_eq!(len, size.min(10));
        assert_eq!(buffer[..len], b"0123456789"[..len]);
    }
    thread.join().unwrap();
}

#[test]
fn too_long_a_datagram_never_leaves() {
    let (node, thread) = node("too-long", |peer| peer.greet());
    let socket = bind(&node).unwrap();
    let error = socket.send_to(&[0; 1_393], PEER).unwrap_err();
    assert!(
        matches!(
            error,
            Error::TooLong {
                len: 1_393,
                max: 1_392
            }
        ),
        "{error}"
    );
    thread.join().unwrap();
}

#[test]
fn what_comes_while_an_answer_is_awaited_is_kept_in_order() {
    let (node, thread) = node("kept", |peer| {
        peer.greet();
        assert_eq!(peer.hear()[0], kind::OPTIONS);
        for payload in [b"1", b"2"] {
            peer.datagram(payload);
        }
        peer.say(&Reply::Done {
            request: kind::OPTIONS,
        });
        peer.datagram(b"3");
    });
    let socket = bind(&node).unwrap();
    socket.set_options(Options::best_effort()).unwrap();
    thread.join().unwrap();
    let mut received = Vec::new();
    for _ in 0..3 {
        let mut buffer = [0; 8];
        let (len, ..) = socket.recv_from(&mut buffer).unwrap();
        received.extend_from_slice(&buffer[..len]);
    }
    assert_eq!(received, b"123");
}

#[test]
fn a_non_blocking_socket_says_when_there_is_nothing() {
    let (node, thread) = node("non-blocking", |peer| {
        peer.greet();
        assert_eq!(peer.hear().last(), Some(&b'x'));
        peer.datagram(b"y");
    });
    let socket = bind(&node).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut buffer = [0; 8];
    assert!(matches!(
        socket.recv_from(&mut buffer),
        Err(Error::WouldBlock)
    ));
    socket.send_to(b"x", PEER).unwrap();
    // The descriptor shows when it is worth trying again.
    let mut poller = Poller::new().unwrap();
    poller.add(&socket, 0, Interest::READ).unwrap();
    poller.wait(None, &mut Vec::new()).unwrap();
    assert_eq!(socket.recv_from(&mut buffer).unwrap().0, 1);
    thread.join().unwrap();
}

#[test]
fn refusals_are_told_with_the_nodes_own_words() {
    let (node, thread) = node("refused", |peer| {
        peer.hear();
        peer.say(&Reply::Error {
            code: ErrorCode::TooManySockets,
            text: "the node is full",
        });
    });
    let error = bind(&node).unwrap_err();
    assert!(matches!(
        &error,
        Error::Refused {
            code: ErrorCode::TooManySockets,
            ..
        }
    ));
    assert!(error.to_string().contains("the node is full"), "{error}");
    thread.join().unwrap();
}

#[test]
fn a_refusal_of_a_datagram_comes_with_the_next_receive() {
    let (node, thread) = node("late-refusal", |peer| {
        peer.greet();
        peer.hear();
        peer.say(&Reply::Error {
            code: ErrorCode::Unsupported,
            text: "no such node",
        });
        peer.datagram(b"on");
    });
    let socket = bind(&node).unwrap();
    socket.send_to(b"x", PEER).unwrap();
    let mut buffer = [0; 8];
    let error = socket.recv_from(&mut buffer).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Refused {
                code: ErrorCode::Unsupported,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(
        socket.recv_from(&mut buffer).unwrap().0,
        2,
        "the socket goes on"
    );
    thread.join().unwrap();
}

#[test]
fn a_node_that_speaks_nonsense_is_an_error_and_not_a_guess() {
    let nonsense: [&[u8]; 5] = [
        b"\x00",
        b"HTTP/1.0 200 OK",
        &[kind::WELCOME],
        &[kind::BOUND, 1, 2],
        &[0xff; 900],
    ];
    for (i, bytes) in nonsense.into_iter().enumerate() {
        let (node, thread) = node(&format!("nonsense-{i}"), move |peer| {
            peer.hear();
            peer.say_bytes(bytes);
        });
        assert!(
            matches!(bind(&node).unwrap_err(), Error::Protocol(_)),
            "{bytes:?}"
        );
        thread.join().unwrap();
    }
    let (node, thread) = node("short-datagram", |peer| {
        peer.greet();
        peer.say_bytes(&[kind::DATAGRAM, 0, 0]);
    });
    let socket = bind(&node).unwrap();
    assert!(matches!(
        socket.recv_from(&mut [0; 8]),
        Err(Error::Protocol(_))
    ));
    thread.join().unwrap();
}

#[test]
fn no_node_is_told_with_the_remedy_and_one_that_goes_is_closed() {
    let path = std::env::temp_dir().join(format!("sinew-client-{}-none", std::process::id()));
    let error = bind(&Node::at(&path)).unwrap_err();
    assert!(error.to_string().contains("sinew node --config"), "{error}");
    let (node, thread) = node("goes", |peer| drop(peer.hear()));
    assert!(matches!(bind(&node).unwrap_err(), Error::Closed));
    thread.join().unwrap();
}

/// Creates a node that hangs at once, or after it has bound a socket; its client has little patience.
fn hanging(test: &str, greet: bool) -> (Node, JoinHandle<()>, mpsc::Sender<()>) {
    let (over, wait) = mpsc::channel();
    let (node, thread) = node(test, move |peer| {
        if greet {
            peer.greet();
        }
        // It waits until the test drops its end.
        let _ = wait.recv();
    });
    (node.with_timeout(Duration::from_millis(50)), thread, over)
}

fn is_timeout<T: std::fmt::Debug>(result: Result<T, Error>) -> bool {
    let error = result.unwrap_err();
    let text = error.to_string();
    matches!(error, Error::Timeout { .. }) && text.contains("has not answered for 0.05 s")
}

#[test]
fn a_node_that_hangs_does_not_hang_its_clients() {
    let (node, thread, over) = hanging("hangs", false);
    assert!(is_timeout(bind(&node)));
    drop(over);
    thread.join().unwrap();

    let (node, thread, over) = hanging("hangs-later", true);
    let socket = bind(&node).unwrap();
    assert!(is_timeout(socket.set_options(Options::best_effort())));
    let full = loop {
        if let Err(error) = socket.send_to(&[0; 1_000], PEER) {
            break Err::<(), Error>(error);
        }
    };
    assert!(is_timeout(full));
    assert!(is_timeout(socket.set_options(Options::best_effort())));
    // A caller that does not want to wait gets the error at once.
    socket.set_nonblocking(true).unwrap();
    assert!(matches!(socket.send_to(b"x", PEER), Err(Error::WouldBlock)));
    drop(over);
    thread.join().unwrap();
}

#[test]
fn a_node_that_accepts_nobody_is_told_as_one_that_hangs() {
    let path = std::env::temp_dir().join(format!("sinew-client-{}-backlog", std::process::id()));
    let listener = SeqListener::bind(&path, 0o600).unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = SeqStream::connect(&path) {
        waiting.push(stream);
    }
    let node = Node::at(&path).with_timeout(Duration::from_millis(50));
    assert!(is_timeout(bind(&node)));
    drop(listener);
}

#[test]
fn options_change_on_a_non_blocking_socket_too() {
    let (node, thread) = node("non-blocking-options", |peer| {
        peer.greet();
        assert_eq!(peer.hear()[0], kind::OPTIONS);
        peer.say(&Reply::Done {
            request: kind::OPTIONS,
        });
    });
    let socket = bind(&node).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket.set_options(Options::best_effort()).unwrap();
    thread.join().unwrap();
}
