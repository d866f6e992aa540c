//! Streams between a client and an engine that outputs what each test wants.

use super::*;
use net::unix::{ByteStream, Taken, shutdown_write};
use overlay::stream::{Framing, ResetReason, StreamId, StreamReply, StreamRequest};
use std::os::fd::OwnedFd;
use wire::ipc::PAYLOAD_BYTES_MAX;

const STREAM: StreamId = StreamId(7);

impl World {
    fn tell(&mut self, id: ClientId, reply: StreamReply) {
        self.clients.deliver(id, Reply::Stream(reply)).unwrap();
    }

    fn give(&mut self, id: ClientId, bytes: &[u8]) {
        let payload = self.pool.copy_of(0, bytes).unwrap();
        self.tell(id, StreamReply::Bytes { payload });
    }

    fn asks(&mut self) -> Vec<(ClientId, Request)> {
        core::iter::from_fn(|| self.clients.take_ask()).collect()
    }

    /// Returns the next request of the client's stream to the engine.
    fn read(&mut self, id: ClientId) -> Option<StreamRequest> {
        match self.clients.read_stream(id, &self.pool).unwrap() {
            Some(Request::Stream(request)) => Some(request),
            Some(other) => panic!("{other:?}"),
            None => None,
        }
    }

    /// Returns what the client's connection and stream are watched for.
    fn watched(&mut self, id: ClientId) -> (Option<Interest>, Option<Interest>) {
        self.clients.take_changed(|_| {});
        let client = self.clients.clients.get_mut(&id).unwrap();
        (client.watched, client.end().unwrap().watched)
    }

    /// Creates a client with an open stream: its id, its connection, and its end.
    fn connected(&mut self, framing: Framing) -> (ClientId, SeqStream, OwnedFd) {
        let (id, stream) = self.greeted();
        say(&stream, &ipc::Request::ConnectStream(PEER, framing));
        let request = self.clients.read(id, &self.pool).unwrap();
        assert!(matches!(
            request,
            Some(Request::Stream(StreamRequest::Connect { to, port, framing: f }))
                if (to, port, f) == (PEER.node, PEER.port, framing)
        ));
        let port = VirtualPort(40_000);
        self.tell(id, StreamReply::Connected { port });
        let (reply, [data, more]) = heard(&stream);
        assert_eq!(reply, [kind::CONNECTED, framing.to_byte(), 0x9c, 0x40]);
        assert!(more.is_none());
        (id, stream, data.unwrap())
    }

    fn listening(&mut self) -> (ClientId, SeqStream) {
        let (id, stream) = self.greeted();
        let port = VirtualPort(500);
        say(&stream, &ipc::Request::Listen { backlog: 9 });
        assert!(matches!(self.clients.read(id, &self.pool), Ok(None)));
        let error = [kind::ERROR, ErrorCode::NotBound.to_byte()];
        assert_eq!(hear(&stream)[..2], error);
        self.clients.deliver(id, Reply::Bound { port }).unwrap();
        assert_eq!(hear(&stream)[0], kind::BOUND);
        say(&stream, &ipc::Request::Listen { backlog: 9 });
        assert!(matches!(
            self.clients.read(id, &self.pool),
            Ok(Some(Request::Stream(StreamRequest::Listen { backlog: 9 })))
        ));
        self.tell(id, StreamReply::Listening);
        assert_eq!(hear(&stream), [kind::DONE, kind::LISTEN]);
        (id, stream)
    }
}

fn heard(stream: &SeqStream) -> (Vec<u8>, [Option<OwnedFd>; 2]) {
    let mut bytes = vec![0; 256];
    match stream.recv_with_fds(&mut bytes).unwrap() {
        (Received::Message(len), fds) => (bytes[..len].to_vec(), fds),
        other => panic!("{other:?}"),
    }
}

/// Returns the client's end of a stream of bytes, non-blocking.
fn bytes_of(fd: OwnedFd) -> ByteStream {
    let stream = ByteStream::from(fd);
    stream.set_nonblocking(true).unwrap();
    stream
}

fn written(request: Option<StreamRequest>) -> Vec<u8> {
    match request {
        Some(StreamRequest::Write { payload }) => payload.bytes().to_vec(),
        other => panic!("{other:?}"),
    }
}

fn taken(stream: &ByteStream) -> Result<Vec<u8>, Taken> {
    let mut bytes = vec![0; 65_536];
    match stream.recv_into(&mut bytes).unwrap() {
        Taken::Bytes(len) => Ok(bytes[..len].to_vec()),
        other => Err(other),
    }
}

#[test]
fn a_stream_from_connect_to_the_end_of_both_directions() {
    let mut world = World::new(8);
    let (id, control, data) = world.connected(Framing::Bytes);
    let data = bytes_of(data);
    assert_eq!(data.send(b"hello").unwrap(), 5);
    assert!(world.read(id).is_none(), "no credit yet");
    assert_eq!(world.watched(id).1, Some(Interest::NONE));
    world.tell(id, StreamReply::Credit { bytes: 3 });
    assert_eq!(world.watched(id).1, Some(Interest::READ));
    assert_eq!(written(world.read(id)), b"hel");
    assert!(world.read(id).is_none(), "the credit is used up");
    world.tell(id, StreamReply::Credit { bytes: 100 });
    assert_eq!(written(world.read(id)), b"lo");

    world.give(id, b"answer");
    assert_eq!(taken(&data).unwrap(), b"answer");
    let asks = world.asks();
    let [(of, Request::Stream(StreamRequest::Consumed { bytes: 6 }))] = &asks[..] else {
        panic!("{asks:?}");
    };
    assert_eq!(*of, id);

    shutdown_write(&data).unwrap();
    assert!(matches!(world.read(id), Some(StreamRequest::Finish)));
    assert!(world.read(id).is_none());
    world.give(id, b"last");
    world.tell(id, StreamReply::Finished);
    assert_eq!(hear(&control), [kind::FINISHED]);
    assert_eq!(taken(&data).unwrap(), b"last");
    assert_eq!(taken(&data), Err(Taken::End));
    // Nothing more can happen on it.
    let asks = world.asks();
    assert!(
        matches!(&asks[..], [.., (of, Request::Close)] if *of == id),
        "{asks:?}"
    );
    assert!(world.clients.is_empty() && is_closed(&control));
    assert_eq!(world.pool.in_use(), (0, 0));
}

#[test]
fn a_client_that_closes_has_all_of_what_it_wrote_read_first() {
    let mut world = World::new(8);
    let (id, control, data) = world.connected(Framing::Bytes);
    let data = bytes_of(data);
    data.send(b"first and last").unwrap();
    say(&control, &ipc::Request::Finish);
    drop((control, data));
    assert!(matches!(world.clients.read(id, &world.pool), Ok(None)));
    world.clients.hang_up(id);
    assert!(world.read(id).is_none(), "no credit");
    let asks = world.asks();
    let [(_, Request::Stream(StreamRequest::Leave))] = asks[..] else {
        panic!("{asks:?}");
    };
    assert!(world.read(id).is_none() && world.asks().is_empty(), "once");
    assert_eq!(world.watched(id), (None, None), "or the loop would spin");
    world.tell(id, StreamReply::Credit { bytes: 6 });
    assert_eq!(world.clients.take_resumed(), [id]);
    assert_eq!(written(world.read(id)), b"first ");
    assert!(world.read(id).is_none());
    world.tell(id, StreamReply::Credit { bytes: 60 });
    assert_eq!(world.clients.take_resumed(), [id]);
    assert_eq!(written(world.read(id)), b"and last");
    assert!(matches!(world.read(id), Some(StreamRequest::Finish)));
    assert_eq!(
        world.clients.read_stream(id, &world.pool).unwrap_err(),
        Gone
    );
}

#[test]
fn a_client_that_goes_without_a_word_has_not_ended_its_stream() {
    // The kernel closes the descriptors of a killed process.
    for (credit, says) in [(100, true), (100, false), (3, false)] {
        let mut world = World::new(8);
        let (id, control, data) = world.connected(Framing::Bytes);
        world.tell(id, StreamReply::Credit { bytes: credit });
        let data = bytes_of(data);
        data.send(b"a part").unwrap();
        if says {
            // It is not read before the stream has ended.
            say(&control, &ipc::Request::Finish);
        }
        drop((control, data));
        world.clients.hang_up(id);
        let part = written(world.read(id));
        assert_eq!(part, &b"a part"[..part.len()]);
        match (credit, world.read(id)) {
            (100, Some(StreamRequest::Finish)) => assert!(says),
            (100, Some(StreamRequest::Reset)) => assert!(!says),
            (3, None) => {
                let asks = world.asks();
                let [
                    (_, Request::Stream(StreamRequest::Reset)),
                    (_, Request::Close),
                ] = &asks[..]
                else {
                    panic!("{asks:?}");
                };
            }
            (_, other) => panic!("{credit}: {other:?}"),
        }
    }
}

#[test]
fn a_client_that_does_not_read_is_waited_for_and_nothing_is_lost() {
    let mut world = World::new(8);
    let (id, control, data) = world.connected(Framing::Bytes);
    let data = bytes_of(data);
    let mut given = Vec::new();
    let kept = |world: &mut World| {
        let client = world.clients.clients.get_mut(&id).unwrap();
        client.end().unwrap().kept_bytes()
    };
    while kept(&mut world) < 200_000 {
        let piece: Vec<u8> = (0..1_300).map(|i| (given.len() + i) as u8).collect();
        world.give(id, &piece);
        given.extend(piece);
    }
    world.tell(id, StreamReply::Finished);
    assert_eq!(world.watched(id).1.map(|i| i.write), Some(true));
    let mut got = Vec::new();
    loop {
        match taken(&data) {
            Ok(bytes) => got.extend(bytes),
            Err(Taken::Empty) => world.clients.write_stream(id),
            Err(end) => {
                assert_eq!(end, Taken::End);
                break;
            }
        }
    }
    assert!(got == given, "{} of {}", got.len(), given.len());
    assert_eq!(hear(&control), [kind::FINISHED]);
    let mut consumed = 0;
    for (_, request) in world.asks() {
        if let Request::Stream(StreamRequest::Consumed { bytes }) = request {
            consumed += bytes as usize;
        }
    }
    assert_eq!(consumed, given.len());
}

#[test]
fn one_that_closes_with_bytes_unread_or_stops_reading_for_good_resets_its_stream() {
    let mut world = World::new(8);
    let (id, _control, data) = world.connected(Framing::Bytes);
    world.tell(id, StreamReply::Credit { bytes: 100 });
    world.give(id, b"never read");
    drop(data);
    world.clients.hang_up(id);
    assert!(matches!(world.read(id), Some(StreamRequest::Reset)));
    assert_eq!(
        world.clients.read_stream(id, &world.pool).unwrap_err(),
        Gone
    );

    let (id, control, data) = world.connected(Framing::Bytes);
    world.asks();
    drop(data);
    world.give(id, b"for nobody");
    let asks = world.asks();
    let [
        (_, Request::Stream(StreamRequest::Reset)),
        (_, Request::Close),
    ] = &asks[..]
    else {
        panic!("{asks:?}");
    };
    assert_eq!(hear(&control), [kind::RESET, ResetReason::Peer.to_byte()]);
}

#[test]
fn a_reset_is_told_before_the_stream_ends() {
    let mut world = World::new(8);
    let (id, control, data) = world.connected(Framing::Bytes);
    let data = bytes_of(data);
    world.give(id, b"so far");
    world.tell(id, StreamReply::Reset(ResetReason::Unknown));
    assert_eq!(
        hear(&control),
        [kind::RESET, ResetReason::Unknown.to_byte()]
    );
    assert_eq!(taken(&data).unwrap(), b"so far");
    assert_eq!(taken(&data), Err(Taken::End));
    // If a client has written something that nobody has read, the kernel reports an error.
    let (id, _control, data) = world.connected(Framing::Bytes);
    let data = bytes_of(data);
    data.send(b"unread").unwrap();
    world.tell(id, StreamReply::Reset(ResetReason::Timeout));
    assert_eq!(taken(&data), Err(Taken::Reset));
    assert!(world.clients.is_empty());
}

#[test]
fn one_that_is_refused_may_try_again() {
    let mut world = World::new(8);
    let (id, stream) = world.greeted();
    for reason in [ResetReason::Refused, ResetReason::Timeout] {
        say(&stream, &ipc::Request::ConnectStream(PEER, Framing::Bytes));
        assert!(world.clients.read(id, &world.pool).unwrap().is_some());
        world.tell(id, StreamReply::Reset(reason));
        assert_eq!(hear(&stream), [kind::RESET, reason.to_byte()]);
    }
    say(&stream, &ipc::Request::ConnectStream(PEER, Framing::Bytes));
    assert!(world.clients.read(id, &world.pool).unwrap().is_some());
    let refused = Reply::Refused(RequestError::Unsupported);
    world.clients.deliver(id, refused).unwrap();
    let error = [kind::ERROR, ErrorCode::Unsupported.to_byte()];
    assert_eq!(hear(&stream)[..2], error);
    say(
        &stream,
        &ipc::Request::Bind {
            port: VirtualPort(500),
        },
    );
    assert!(world.clients.read(id, &world.pool).unwrap().is_some());
}

#[test]
fn a_listener_is_handed_streams_that_work_without_it() {
    let mut world = World::new(8);
    let (listener, at) = world.listening();
    let incoming = |framing| StreamReply::Incoming {
        stream: STREAM,
        from: PEER.node,
        port: PEER.port,
        framing,
    };
    world.tell(listener, incoming(Framing::Bytes));
    let asks = world.asks();
    let [(id, Request::Stream(StreamRequest::Accept { stream: STREAM }))] = &asks[..] else {
        panic!("{asks:?}");
    };
    let id = *id;
    world.tell(
        id,
        StreamReply::Connected {
            port: VirtualPort(500),
        },
    );
    let (reply, [Some(data), Some(notices)]) = heard(&at) else {
        panic!("two descriptors come with it");
    };
    assert_eq!(reply, [kind::INCOMING, 0, 0x13, 0x88, 10, 7, 0, 2]);
    drop(at);
    assert_eq!(world.clients.read(listener, &world.pool).unwrap_err(), Gone);
    world.clients.remove(listener);

    let data = bytes_of(data);
    world.tell(id, StreamReply::Credit { bytes: 100 });
    data.send(b"hello").unwrap();
    assert_eq!(written(world.read(id)), b"hello");
    world.tell(id, StreamReply::Reset(ResetReason::Peer));
    assert_eq!(
        hear(&SeqStream::from(notices)),
        [kind::RESET, ResetReason::Peer.to_byte()]
    );
    assert!(world.clients.is_empty());
}

#[test]
fn streams_for_which_there_is_no_place_are_refused() {
    let mut world = World::new(2);
    let (listener, at) = world.listening();
    let (_other, _stream) = world.greeted();
    let incoming = || StreamReply::Incoming {
        stream: STREAM,
        from: PEER.node,
        port: PEER.port,
        framing: Framing::Bytes,
    };
    world.tell(listener, incoming());
    let asks = world.asks();
    let [(of, Request::Stream(StreamRequest::Decline { stream: STREAM }))] = &asks[..] else {
        panic!("{asks:?}");
    };
    assert_eq!(*of, listener);

    // The listener has closed before the stream was open.
    let mut world = World::new(8);
    let (listener, at2) = world.listening();
    world.tell(listener, incoming());
    let (id, _) = world.asks().remove(0);
    drop((at, at2));
    world.clients.remove(listener);
    world.tell(
        id,
        StreamReply::Connected {
            port: VirtualPort(500),
        },
    );
    let asks = world.asks();
    let [
        (_, Request::Stream(StreamRequest::Reset)),
        (_, Request::Close),
    ] = &asks[..]
    else {
        panic!("{asks:?}");
    };
    assert!(world.clients.is_empty());
}

#[test]
fn messages_keep_their_bounds_and_wait_for_credit_as_a_whole() {
    let mut world = World::new(8);
    let (id, _control, data) = world.connected(Framing::Messages);
    let data = SeqStream::from(data);
    data.set_nonblocking(true).unwrap();
    let long = vec![7; PAYLOAD_BYTES_MAX];
    for message in [b"short".as_slice(), &long] {
        data.send_parts(&[IoSlice::new(message)]).unwrap();
    }
    world.tell(id, StreamReply::Credit { bytes: 1_000 });
    assert_eq!(written(world.read(id)), b"short");
    assert!(world.read(id).is_none());
    assert_eq!(world.watched(id).1, Some(Interest::NONE));
    let credit = PAYLOAD_BYTES_MAX as u32 - 995;
    world.tell(id, StreamReply::Credit { bytes: credit - 1 });
    assert!(world.read(id).is_none(), "a byte too little");
    world.tell(id, StreamReply::Credit { bytes: 1 });
    assert_eq!(written(world.read(id)).len(), PAYLOAD_BYTES_MAX);
    world.give(id, b"one");
    world.give(id, b"two");
    assert_eq!((hear(&data), hear(&data)), (b"one".into(), b"two".into()));
    let too_long = vec![7; PAYLOAD_BYTES_MAX + 1];
    data.send_parts(&[IoSlice::new(&too_long)]).unwrap();
    world.tell(id, StreamReply::Credit { bytes: 100_000 });
    assert!(matches!(world.read(id), Some(StreamRequest::Reset)));
}

#[test]
fn thousands_of_streams_opened_and_dropped_leave_nothing() {
    let mut world = World::new(64);
    let (listener, at) = world.listening();
    for turn in 0..2_000 {
        world.tell(
            listener,
            StreamReply::Incoming {
                stream: StreamId(turn),
                from: PEER.node,
                port: PEER.port,
                framing: Framing::Bytes,
            },
        );
        let (id, _) = world.asks().remove(0);
        world.tell(
            id,
            StreamReply::Connected {
                port: VirtualPort(500),
            },
        );
        drop(heard(&at));
        world.tell(id, StreamReply::Credit { bytes: 100 });
        world.clients.hang_up(id);
        assert!(matches!(world.read(id), Some(StreamRequest::Reset)));
        assert_eq!(
            world.clients.read_stream(id, &world.pool).unwrap_err(),
            Gone
        );
        world.clients.remove(id);
        world.clients.take_changed(|_| {});
        world.clients.take_resumed();
    }
    assert_eq!(world.clients.len(), 1);
    assert!(!world.clients.has_asks());
    assert_eq!(world.pool.in_use(), (0, 0));
}

#[test]
fn programs_with_a_stream_or_a_listener_get_no_datagrams() {
    let mut world = World::new(8);
    let (listener, connection) = world.listening();
    let (stream, other, _data) = world.connected(Framing::Bytes);
    for (id, connection) in [(listener, &connection), (stream, &other)] {
        let long = world.datagram(&[7; 1_000]);
        assert_eq!(world.clients.deliver(id, long), Err(Drop::NoSocket));
        assert_eq!(hear(connection), [0; 0]);
    }
}

#[test]
fn a_listener_whose_own_call_is_refused_keeps_its_port() {
    let mut world = World::new(8);
    let (id, stream) = world.listening();
    let bound = world.clients.clients[&id].port;
    assert!(bound.is_some());
    say(&stream, &ipc::Request::ConnectStream(PEER, Framing::Bytes));
    assert!(world.clients.read(id, &world.pool).unwrap().is_some());
    // What would be refused now would pass for the peer's answer.
    say(&stream, &ipc::Request::Options(Default::default()));
    assert!(world.clients.read(id, &world.pool).unwrap().is_none());
    assert_eq!(
        hear(&stream)[..2],
        [kind::ERROR, ErrorCode::AlreadyBound.to_byte()]
    );
    world.tell(id, StreamReply::Reset(ResetReason::Refused));
    assert_eq!(world.clients.clients[&id].port, bound);
}

#[test]
fn a_stream_waits_for_a_large_buffer() {
    let mut world = World::new(8);
    world.pool = Pool::new(1, 64);
    let (id, _connection, data) = world.connected(Framing::Bytes);
    let bytes = 1_000;
    world.tell(id, StreamReply::Credit { bytes });
    ByteStream::from(data.try_clone().unwrap())
        .send(b"x")
        .unwrap();
    let large = world.pool.large();
    assert!(world.read(id).is_none());
    world.clients.release_held(&world.pool);
    let is_read = |watched: Option<Interest>| watched.is_some_and(|interest| interest.read);
    assert!(!is_read(world.watched(id).1), "or the loop would spin");
    drop(large);
    world.clients.release_held(&world.pool);
    assert!(is_read(world.watched(id).1));
    assert!(matches!(world.read(id), Some(StreamRequest::Write { .. })));
}
