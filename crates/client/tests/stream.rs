//! Tests streams and listeners against a node that answers as each test wants.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use base::{NodeAddr, VirtualPort};
use client::{Accepted, Error, Node, Options, ResetReason, Target};
use net::epoll::{Interest, Poller};
use net::unix::{ByteStream, Received, SeqListener, SeqStream};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread::JoinHandle;
use wire::ipc::{ErrorCode, Framing, Reply, Request, kind};

const NODE: NodeAddr = NodeAddr(0x0a07_0001);
const PEER: Target = Target::new(NodeAddr(0x0a07_0002), 5000);

/// The node's end of one connection, blocking.
struct Peer(SeqStream);

impl Peer {
    fn hear(&self) -> Vec<u8> {
        let mut bytes = vec![0; 4_096];
        match self.0.recv_into(&mut bytes).unwrap() {
            Received::Message(len) => bytes[..len].to_vec(),
            Received::Closed => Vec::new(),
            other => panic!("{other:?}"),
        }
    }

    fn say(&self, reply: &Reply<'_>, fds: &[BorrowedFd<'_>]) {
        let mut bytes = [0; 256];
        let len = reply.emit(&mut bytes).unwrap();
        let message = [IoSlice::new(&bytes[..len])];
        self.0.send_with_fds(&message, fds).unwrap();
    }

    /// Does what a well-behaved node does until the client makes a request.
    fn greet(&self) {
        assert_eq!(self.hear()[0], kind::HELLO);
        self.say(&Reply::welcome(NODE, 1_392), &[]);
        assert_eq!(self.hear()[0], kind::OPTIONS);
        let request = kind::OPTIONS;
        self.say(&Reply::Done { request }, &[]);
    }

    /// Opens the stream that the client requests, and returns the node's end of it, blocking.
    fn open(&self) -> ByteStream {
        self.greet();
        let message = self.hear();
        let Ok(Request::ConnectStream(to, Framing::Bytes)) = Request::parse(&message) else {
            panic!("{message:?}");
        };
        assert_eq!((to.node, to.port), (PEER.node, PEER.port));
        let (ours, theirs) = ByteStream::pair().unwrap();
        for end in [&ours, &theirs] {
            end.set_nonblocking(false).unwrap();
        }
        let connected = Reply::Connected {
            framing: Framing::Bytes,
            port: VirtualPort(40_000),
        };
        self.say(&connected, &[theirs.as_fd()]);
        ours
    }
}

/// Creates a node whose only connection is served by `serve` on a thread.
fn node(test: &str, serve: impl FnOnce(Peer) + Send + 'static) -> (Node, JoinHandle<()>) {
    let name = format!("sinew-stream-{}-{test}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
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

#[test]
fn bytes_go_both_ways_and_both_directions_end() {
    let (node, thread) = node("both-ways", |peer| {
        let stream = peer.open();
        let mut bytes = [0; 64];
        assert_eq!(
            stream.recv_into(&mut bytes).unwrap(),
            net::unix::Taken::Bytes(5)
        );
        assert_eq!(stream.recv_into(&mut bytes).unwrap(), net::unix::Taken::End);
        assert_eq!(peer.hear(), [kind::FINISH], "it is said before");
        stream.send(b"answer").unwrap();
        peer.say(&Reply::Finished, &[]);
    });
    let mut stream = node.connect(PEER, Options::stream()).unwrap();
    assert_eq!(stream.local(), Target::new(NODE, 40_000));
    assert_eq!(stream.peer(), PEER);
    stream.write_all(b"hello").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"answer");
    thread.join().unwrap();
    // The end stays the end after the node has forgotten the stream.
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    assert_eq!(
        stream.write(b"x").unwrap_err().kind(),
        ErrorKind::BrokenPipe
    );
}

#[test]
fn the_end_of_the_node_is_not_the_end_of_the_data() {
    let (node, thread) = node("killed", |peer| drop(peer.open()));
    let mut stream = node.connect(PEER, Options::stream()).unwrap();
    thread.join().unwrap();
    let error = stream.read(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    assert!(error.to_string().contains("stopped, or restarted"));
}

#[test]
fn an_end_of_the_descriptor_alone_is_no_end_of_the_data() {
    // The kernel closes the descriptors of a killed node one after the other.
    let (told, waits) = std::sync::mpsc::channel::<()>();
    let (node, thread) = node("half-killed", move |peer| {
        peer.open().send(b"a part").unwrap();
        waits.recv().unwrap_err();
    });
    let mut stream = node.connect(PEER, Options::stream()).unwrap();
    let mut part = Vec::new();
    let error = stream.read_to_end(&mut part).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    assert_eq!(part, b"a part");
    // An end that this end has caused counts as an end.
    stream.shutdown(Shutdown::Both).unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    drop(told);
    thread.join().unwrap();
}

#[test]
fn a_stream_that_is_dropped_has_ended_unless_a_panic_drops_it() {
    for panics in [false, true] {
        let test = if panics { "panics" } else { "drops" };
        let (node, thread) = node(test, move |peer| {
            let _stream = peer.open();
            let said = peer.hear();
            assert_eq!(said.is_empty(), panics, "{said:?}");
        });
        let stream = node.connect(PEER, Options::stream()).unwrap();
        let dropped = std::thread::spawn(move || {
            let _stream = stream;
            assert!(!panics, "in the midst of something");
        });
        assert_eq!(dropped.join().is_err(), panics);
        thread.join().unwrap();
    }
}

#[test]
fn a_reset_tells_its_reason_to_readers_and_writers() {
    let (node, thread) = node("reset", |peer| {
        let stream = peer.open();
        stream.send(b"so far").unwrap();
        let reason = ResetReason::NoRoute;
        peer.say(&Reply::Reset { reason }, &[]);
    });
    let mut stream = node.connect(PEER, Options::stream()).unwrap();
    thread.join().unwrap();
    let mut so_far = [0; 6];
    stream.read_exact(&mut so_far).unwrap();
    let told = [
        stream.read(&mut so_far).unwrap_err(),
        stream.write(b"x").unwrap_err(),
        stream.take_error().unwrap(),
    ];
    for error in told {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert_eq!(error.to_string(), "there is no route to the peer");
    }
}

#[test]
fn a_stream_is_reset_before_it_is_closed() {
    let (node, thread) = node("abort", |peer| {
        let stream = peer.open();
        assert_eq!(peer.hear(), [kind::RESET_STREAM]);
        // The client waits until the node has released the stream.
        let (poller, mut ready) = (Poller::new().unwrap(), Vec::new());
        poller.add(&stream, 0, Interest::READ).unwrap();
        let mut poller = poller;
        poller.wait(Some(base::Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty(), "closed too early");
    });
    let stream = node.connect(PEER, Options::stream()).unwrap();
    stream.reset();
    assert!(stream.take_error().is_some());
    thread.join().unwrap();
}

#[test]
fn refusals_and_resets_of_a_connect_are_told() {
    let refuse = |reply: &'static Reply<'static>| {
        move |peer: Peer| {
            peer.greet();
            peer.hear();
            peer.say(reply, &[]);
        }
    };
    let reset = &Reply::Reset {
        reason: ResetReason::Refused,
    };
    let (node_, thread) = node("refused", refuse(reset));
    let error = node_.connect(PEER, Options::stream()).unwrap_err();
    assert!(matches!(error, Error::Reset(ResetReason::Refused)));
    assert_eq!(error.to_string(), "nobody takes connections at that port");
    thread.join().unwrap();
    let error = &Reply::Error {
        code: ErrorCode::Unsupported,
        text: "no",
    };
    let (node_, thread) = node("unsupported", refuse(error));
    let error = node_.connect(PEER, Options::stream()).unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    thread.join().unwrap();
    // The node answers Connected without a descriptor.
    let lie = &Reply::Connected {
        framing: Framing::Bytes,
        port: VirtualPort(9),
    };
    let (node_, thread) = node("lie", refuse(lie));
    let error = node_.connect(PEER, Options::stream()).unwrap_err();
    assert!(matches!(error, Error::Protocol(_)), "{error}");
    thread.join().unwrap();
}

#[test]
fn a_listener_gives_streams_of_bytes_and_of_messages() {
    let (node, thread) = node("listener", |peer| {
        peer.greet();
        assert_eq!(peer.hear(), [kind::BIND, 0, 0]);
        let port = VirtualPort(40_000);
        peer.say(&Reply::Bound { port }, &[]);
        assert_eq!(peer.hear(), [kind::LISTEN, 0, 0xff, 0xff]);
        let request = kind::LISTEN;
        peer.say(&Reply::Done { request }, &[]);
        let (bytes, bytes_there) = ByteStream::pair().unwrap();
        let (messages, messages_there) = SeqStream::pair().unwrap();
        messages_there.set_nonblocking(false).unwrap();
        let notices = [SeqStream::pair().unwrap(), SeqStream::pair().unwrap()];
        let streams = [
            (Framing::Bytes, bytes_there.as_fd()),
            (Framing::Messages, messages_there.as_fd()),
        ];
        for ((framing, fd), (_, notices)) in streams.into_iter().zip(&notices) {
            let incoming = Reply::Incoming {
                framing,
                from: PEER.node,
                port: PEER.port,
            };
            peer.say(&incoming, &[fd, notices.as_fd()]);
        }
        bytes.send(b"hello").unwrap();
        for message in [b"one".as_slice(), b"three"] {
            messages.send_parts(&[IoSlice::new(message)]).unwrap();
        }
        // One end is announced, and one is not.
        Peer(notices[1].0.as_fd().try_clone_to_owned().unwrap().into()).say(&Reply::Finished, &[]);
    });
    let listener = node.listen(0, Options::stream()).unwrap();
    assert_eq!(listener.local(), Target::new(NODE, 40_000));
    let mut incoming = listener.incoming();
    let Accepted::Bytes(mut bytes) = incoming.next().unwrap().unwrap() else {
        panic!("bytes come first");
    };
    let Accepted::Messages(messages) = incoming.next().unwrap().unwrap() else {
        panic!("then messages");
    };
    assert_eq!((bytes.peer(), messages.peer()), (PEER, PEER));
    assert_eq!(bytes.local(), listener.local());
    thread.join().unwrap();
    bytes.set_nonblocking(false).unwrap();
    let mut hello = [0; 5];
    bytes.read_exact(&mut hello).unwrap();
    assert_eq!(&hello, b"hello");
    assert!(bytes.read(&mut hello).is_err(), "its node is gone");
    let mut message = [0; 8];
    assert_eq!(messages.recv(&mut message).unwrap(), 3);
    assert_eq!(messages.recv(&mut message).unwrap(), 5);
    assert_eq!(&message[..5], b"three");
    assert_eq!(messages.recv(&mut message).unwrap(), 0);
    for bad in [&[][..], &vec![0; 65_508]] {
        let error = messages.send(bad).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    assert!(matches!(incoming.next(), Some(Err(Error::Closed))));
}

#[test]
fn a_listener_can_be_waited_for_and_does_not_wait_itself() {
    let (node, thread) = node("nonblocking", |peer| {
        peer.greet();
        peer.hear();
        let port = VirtualPort(9);
        peer.say(&Reply::Bound { port }, &[]);
        peer.hear();
        let request = kind::LISTEN;
        peer.say(&Reply::Done { request }, &[]);
        assert!(peer.hear().is_empty(), "the listener goes");
    });
    let listener = node.listen(9, Options::stream()).unwrap();
    listener.set_nonblocking(true).unwrap();
    assert!(matches!(listener.accept(), Err(Error::WouldBlock)));
    let (mut poller, mut ready) = (Poller::new().unwrap(), Vec::new());
    poller.add(&listener, 0, Interest::READ).unwrap();
    poller.wait(Some(base::Duration::ZERO), &mut ready).unwrap();
    assert!(ready.is_empty());
    drop(listener);
    thread.join().unwrap();
}
