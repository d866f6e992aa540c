//! Clients of all kinds: polite, silent, deaf, rude, gone.

use super::client::MAX_WAITING_ANSWERS;
use super::*;
use base::VirtualPort;
use overlay::request::Options;
use wire::data::Remaining;
use wire::ipc::Destination;

const NODE: NodeAddr = NodeAddr(0x0a07_0001);
const PEER: Destination = Destination {
    node: NodeAddr(0x0a07_0002),
    port: VirtualPort(5000),
};

mod streams;

struct World {
    clients: Clients,
    pool: Pool,
}

impl World {
    fn new(max: usize) -> World {
        World {
            clients: Clients::bounded(NODE, max),
            pool: Pool::new(4, 64),
        }
    }

    /// Makes a connection: the id at the node, and the client's end.
    fn connect(&mut self) -> Option<(ClientId, SeqStream)> {
        let (theirs, ours) = SeqStream::pair().unwrap();
        let id = self.clients.next_id()?;
        self.clients.insert(id, ours);
        Some((id, theirs))
    }

    fn greeted(&mut self) -> (ClientId, SeqStream) {
        let (id, stream) = self.connect().unwrap();
        say(
            &stream,
            &ipc::Request::Hello {
                version: ipc::VERSION,
            },
        );
        assert!(matches!(self.clients.read(id, &self.pool), Ok(None)));
        assert!(hear(&stream).starts_with(&[kind::WELCOME]));
        (id, stream)
    }

    fn datagram(&self, bytes: &[u8]) -> Reply {
        let payload = self.pool.copy_of(0, bytes).unwrap();
        Reply::Datagram {
            group: None,
            from: PEER.node,
            port: PEER.port,
            to: VirtualPort(40_000),
            recovered: true,
            remaining: Remaining(9),
            payload,
        }
    }
}

fn say(stream: &SeqStream, request: &ipc::Request<'_>) {
    let mut bytes = [0; 64];
    let len = request.emit(&mut bytes).unwrap();
    stream.send_parts(&[IoSlice::new(&bytes[..len])]).unwrap();
}

/// Returns the next message; empty if there is none.
fn hear(stream: &SeqStream) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    match stream.recv_into(&mut bytes).unwrap() {
        Received::Message(len) => bytes[..len].to_vec(),
        _ => Vec::new(),
    }
}

fn is_closed(stream: &SeqStream) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match stream.recv_into(&mut bytes).unwrap() {
            Received::Closed => return true,
            Received::Empty => return false,
            _ => {}
        }
    }
}

#[test]
fn a_session_from_hello_to_raw() {
    let mut world = World::new(8);
    let (id, stream) = world.greeted();
    let options = Options::default();
    say(&stream, &ipc::Request::Options(options));
    let request = world.clients.read(id, &world.pool).unwrap();
    assert!(matches!(request, Some(Request::Options(o)) if o == options));
    say(&stream, &ipc::Request::Connect(PEER));
    let request = world.clients.read(id, &world.pool).unwrap();
    assert!(matches!(
        request,
        Some(Request::Bind {
            port: ipc::ANY_PORT
        })
    ));
    world
        .clients
        .deliver(
            id,
            Reply::Bound {
                port: VirtualPort(40_000),
            },
        )
        .unwrap();
    assert_eq!(hear(&stream), [kind::BOUND, 0x9c, 0x40]);

    say(&stream, &ipc::Request::SendTo(PEER, b"hi"));
    let Ok(Some(Request::Send { to, port, payload })) = world.clients.read(id, &world.pool) else {
        panic!("a datagram was sent")
    };
    assert_eq!(
        (to, port, payload.bytes()),
        (PEER.node, PEER.port, &b"hi"[..])
    );
    assert!(
        payload.headroom() >= SEALED_HEADROOM
            && payload.capacity() >= SEALED_HEADROOM + 2 + 2 * TAG_BYTES
    );

    world.clients.deliver(id, world.datagram(b"ho")).unwrap();
    assert_eq!(hear(&stream)[ipc::DATAGRAM_HEADER_BYTES..], *b"ho");
    say(&stream, &ipc::Request::Raw);
    assert!(matches!(world.clients.read(id, &world.pool), Ok(None)));
    assert_eq!(hear(&stream), [kind::DONE, kind::RAW]);
    // From here on bytes are payload in both directions, and only those of the peer arrive.
    stream.send_parts(&[IoSlice::new(b"\x01\x02")]).unwrap();
    let request = world.clients.read(id, &world.pool).unwrap();
    assert!(matches!(request, Some(Request::Send { payload, .. }) if payload.bytes() == [1, 2]));
    world.clients.deliver(id, world.datagram(b"raw")).unwrap();
    assert_eq!(hear(&stream), b"raw");
    let stranger = Reply::Datagram {
        group: None,
        from: NodeAddr(0x0a07_0009),
        port: PEER.port,
        to: VirtualPort(40_000),
        recovered: false,
        remaining: Remaining(9),
        payload: world.pool.copy_of(0, b"no").unwrap(),
    };
    assert_eq!(world.clients.deliver(id, stranger), Err(Drop::NoSocket));
}

#[test]
fn a_socket_with_a_range_sends_and_receives_several_at_once() {
    let mut world = World::new(8);
    let (id, stream) = world.greeted();
    let (first, last) = (VirtualPort(100), VirtualPort(200));
    say(&stream, &ipc::Request::BindRange { first, last });
    let request = world.clients.read(id, &world.pool);
    assert!(matches!(request, Ok(Some(Request::BindRange { .. }))));
    world
        .clients
        .deliver(id, Reply::Bound { port: first })
        .unwrap();
    assert_eq!(hear(&stream)[0], kind::BOUND);

    let mut message = vec![kind::SEND_FROM, 0];
    let long = [7; 3_000];
    let sent: [(u16, &[u8]); 3] = [(100, b"one"), (102, b""), (200, &long)];
    for (from, payload) in sent {
        let from = VirtualPort(from);
        message.extend(ipc::Ports { from, to: PEER }.header(payload.len()));
        message.extend(payload);
    }
    stream.send_parts(&[IoSlice::new(&message)]).unwrap();
    for (port, bytes) in sent {
        let request = world.clients.read(id, &world.pool);
        let Ok(Some(Request::SendFrom {
            from,
            to,
            port: to_port,
            payload,
        })) = request
        else {
            panic!("{request:?}")
        };
        assert_eq!((from.0, to, to_port), (port, PEER.node, PEER.port));
        assert_eq!(payload.bytes(), bytes);
        assert_eq!(world.clients.has_sent(id), port != 200);
    }
    assert!(matches!(world.clients.read(id, &world.pool), Ok(None)));
    // Ports of other sockets are refused, and the socket stays usable.
    say(&stream, &ipc::Request::SendTo(PEER, b"hi"));
    say(&stream, &ipc::Request::BindRange { first, last });
    assert!(matches!(world.clients.read(id, &world.pool), Ok(None)));
    assert_eq!(
        hear(&stream)[..2],
        [kind::ERROR, ErrorCode::Unsupported.to_byte()]
    );
    assert_eq!(
        hear(&stream)[..2],
        [kind::ERROR, ErrorCode::AlreadyBound.to_byte()]
    );

    for n in 0..=ipc::BATCH_MAX as u8 {
        world.clients.deliver(id, world.datagram(&[n])).unwrap();
    }
    assert_eq!(world.clients.end_turn(), (0, 0));
    assert_eq!(world.clients.end_turn(), (0, 0));
    for numbers in [
        0..ipc::BATCH_MAX as u8,
        ipc::BATCH_MAX as u8..ipc::BATCH_MAX as u8 + 1,
    ] {
        let message = hear(&stream);
        let Ok(ipc::Reply::Datagrams(batch)) = ipc::Reply::parse(&message) else {
            panic!("{message:?}")
        };
        for (n, (own, header, payload)) in numbers.clone().zip(batch.iter()) {
            assert_eq!((own.0, payload), (40_000, &[n][..]));
            assert_eq!((header.source, header.recovered), (PEER.node, true));
        }
        assert_eq!(batch.iter().count(), numbers.len());
    }
    assert_eq!(hear(&stream), b"", "nothing more");
}

#[test]
fn datagrams_for_a_range_that_nobody_reads_are_counted() {
    let mut world = World::new(8);
    let (id, stream) = world.greeted();
    let (first, last) = (VirtualPort(100), VirtualPort(200));
    say(&stream, &ipc::Request::BindRange { first, last });
    assert!(world.clients.read(id, &world.pool).is_ok());
    let (mut turns, mut lost) = (0, 0);
    while lost == 0 {
        for _ in 0..3 {
            world
                .clients
                .deliver(id, world.datagram(&[0; 1_000]))
                .unwrap();
        }
        (lost, _) = world.clients.end_turn();
        turns += 1;
        assert!(turns < 10_000);
    }
    assert_eq!(lost, 3);
    drop(stream);
    world.clients.deliver(id, world.datagram(b"x")).unwrap();
    assert_eq!(world.clients.end_turn(), (0, 1));
    world.clients.deliver(id, world.datagram(b"x")).unwrap();
    world.clients.remove(id);
    assert_eq!(world.clients.end_turn(), (0, 0));
}

#[test]
fn thousands_that_connect_and_say_nothing_do_not_keep_others_out() {
    let mut world = World::new(32);
    let (polite, stream) = world.greeted();
    let mut silent = Vec::new();
    for _ in 0..4_000 {
        let (_, theirs) = world.connect().expect("the oldest silent one makes room");
        silent.push(theirs);
        if silent.len() > 40 {
            assert!(is_closed(&silent.remove(0)), "it had to go");
        }
        assert!(world.clients.len() <= 32 && world.clients.ungreeted.len() <= 64);
    }
    say(
        &stream,
        &ipc::Request::Bind {
            port: VirtualPort(500),
        },
    );
    assert!(matches!(
        world.clients.read(polite, &world.pool),
        Ok(Some(Request::Bind { .. }))
    ));
    // Clients that have greeted are not disconnected for a newcomer.
    let mut world = World::new(3);
    let greeted: Vec<_> = (0..3).map(|_| world.greeted()).collect();
    assert!(world.connect().is_none());
    assert!(greeted.iter().all(|(_, stream)| !is_closed(stream)));
}

#[test]
fn garbage_is_told_and_ends_the_connection() {
    let garbage: [&[u8]; 7] = [
        b"\xff",
        b"\x02\x00",
        b"GET / HTTP/1.0\r\n",
        b"\x81\x01",
        &[0; 1000],
        b"\x03",
        b"\x01",
    ];
    for bytes in garbage {
        for greeted in [false, true] {
            let mut world = World::new(2);
            let (id, stream) = if greeted {
                world.greeted()
            } else {
                world.connect().unwrap()
            };
            stream.send_parts(&[IoSlice::new(bytes)]).unwrap();
            assert_eq!(
                world.clients.read(id, &world.pool).unwrap_err(),
                Gone,
                "{bytes:?}"
            );
            assert_eq!(
                hear(&stream)[..2],
                [kind::ERROR, ErrorCode::Malformed.to_byte()]
            );
        }
    }
}

#[test]
fn what_comes_before_hello_or_of_another_version_is_refused() {
    for request in [
        ipc::Request::Bind {
            port: VirtualPort(9),
        },
        ipc::Request::Hello { version: 9 },
    ] {
        let mut world = World::new(2);
        let (id, stream) = world.connect().unwrap();
        say(&stream, &request);
        assert_eq!(world.clients.read(id, &world.pool).unwrap_err(), Gone);
        assert_eq!(
            hear(&stream)[..2],
            [kind::ERROR, ErrorCode::Version.to_byte()]
        );
    }
}

#[test]
fn a_datagram_that_is_too_long_is_told_and_nothing_else_suffers() {
    let mut world = World::new(2);
    let (id, stream) = world.greeted();
    let header = PEER.send_to_header();
    let send = |bytes: &[u8]| {
        stream
            .send_parts(&[IoSlice::new(&header), IoSlice::new(bytes)])
            .unwrap();
    };
    let long: Vec<u8> = (0..65_507u32).map(|i| (i % 251) as u8).collect();
    for len in [2_000, 20_000, 65_507] {
        send(&long[..len]);
        match world.clients.read(id, &world.pool) {
            Ok(Some(Request::Send { payload, .. })) => assert!(payload.bytes() == &long[..len]),
            other => panic!("{other:?}"),
        }
    }
    send(&[0; 70_000]);
    say(
        &stream,
        &ipc::Request::Bind {
            port: VirtualPort(500),
        },
    );
    assert!(matches!(
        world.clients.read(id, &world.pool),
        Ok(Some(Request::Bind { .. }))
    ));
    assert_eq!(
        hear(&stream)[..2],
        [kind::ERROR, ErrorCode::TooLong.to_byte()]
    );
}

#[test]
fn a_client_that_stops_reading_loses_datagrams_and_gets_its_answers_later() {
    let mut world = World::new(2);
    let (id, stream) = world.greeted();
    let mut delivered = 0;
    let lost = loop {
        match world.clients.deliver(id, world.datagram(&[7; 1000])) {
            Ok(()) => delivered += 1,
            Err(reason) => break reason,
        }
    };
    assert_eq!(lost, Drop::ClientSlow);
    world.clients.take_changed(|_| {});
    // Its buffer is full, so the answer waits, and the loop is asked to watch for room.
    assert_eq!(
        world.clients.deliver(
            id,
            Reply::Bound {
                port: VirtualPort(5)
            }
        ),
        Ok(())
    );
    let mut watched = Vec::new();
    world
        .clients
        .take_changed(|change| watched.extend(change.is.map(|is| (change.client, is))));
    assert_eq!(
        watched,
        [(
            id,
            Interest {
                read: true,
                write: true
            }
        )]
    );
    assert_eq!(
        world.clients.deliver(id, world.datagram(b"x")),
        Err(Drop::ClientSlow)
    );

    for _ in 0..delivered {
        assert_eq!(hear(&stream).len(), ipc::DATAGRAM_HEADER_BYTES + 1000);
    }
    world.clients.write(id);
    assert_eq!(hear(&stream), [kind::BOUND, 0, 5]);
    world
        .clients
        .take_changed(|change| watched.extend(change.is.map(|is| (change.client, is))));
    assert_eq!(
        watched[1],
        (
            id,
            Interest {
                read: true,
                write: false
            }
        )
    );
    assert_eq!(world.clients.deliver(id, world.datagram(b"x")), Ok(()));
}

#[test]
fn one_that_asks_and_never_reads_is_sent_away() {
    let mut world = World::new(2);
    let (id, stream) = world.greeted();
    while world
        .clients
        .deliver(id, world.datagram(&[7; 1000]))
        .is_ok()
    {}
    let mut asked = 0;
    let ended = loop {
        say(
            &stream,
            &ipc::Request::Bind {
                port: VirtualPort(500),
            },
        );
        match world.clients.read(id, &world.pool) {
            Ok(Some(_)) => world.clients.deliver(
                id,
                Reply::Bound {
                    port: VirtualPort(500),
                },
            ),
            other => break other,
        }
        .unwrap();
        asked += 1;
    };
    assert_eq!(ended.unwrap_err(), Gone);
    assert!(asked <= MAX_WAITING_ANSWERS + 2, "{asked}");
}

#[test]
fn messages_that_need_no_engine_are_handled_in_turns() {
    let mut world = World::new(4);
    let (id, stream) = world.greeted();
    let finish = |n: usize| (0..n).for_each(|_| say(&stream, &ipc::Request::Finish));
    finish(READS_PER_TURN + 1);
    let answers = |world: &mut World| {
        assert!(matches!(world.clients.read(id, &world.pool), Ok(None)));
        core::iter::from_fn(|| Some(hear(&stream)).filter(|heard| !heard.is_empty())).count()
    };
    assert_eq!(
        [answers(&mut world), answers(&mut world)],
        [READS_PER_TURN, 1]
    );
}

#[test]
fn without_buffers_clients_wait_and_nothing_is_lost() {
    let mut world = World {
        clients: Clients::new(NODE),
        pool: Pool::new(1, 1),
    };
    let (id, stream) = world.greeted();
    let taken = world.pool.small().unwrap();
    say(
        &stream,
        &ipc::Request::Bind {
            port: VirtualPort(500),
        },
    );
    assert!(matches!(world.clients.read(id, &world.pool), Ok(None)));
    let mut watched = Vec::new();
    world
        .clients
        .take_changed(|change| watched.extend(change.is));
    assert_eq!(watched, [Interest::NONE], "or the loop would spin");
    world.clients.release_held(&world.pool);
    assert!(world.clients.is_held(id), "there is still no buffer");
    drop(taken);
    world.clients.release_held(&world.pool);
    world
        .clients
        .take_changed(|change| watched.extend(change.is));
    assert_eq!(watched, [Interest::NONE, Interest::READ]);
    assert!(matches!(
        world.clients.read(id, &world.pool),
        Ok(Some(Request::Bind { .. }))
    ));
}

#[test]
fn one_that_vanishes_is_gone_and_the_end_is_told() {
    let mut world = World::new(4);
    let (id, stream) = world.greeted();
    drop(stream);
    assert_eq!(world.clients.read(id, &world.pool).unwrap_err(), Gone);
    world.clients.remove(id);
    assert_eq!(world.clients.deliver(id, Reply::Done), Err(Drop::NoSocket));
    let (_, stream) = world.greeted();
    world.clients.stop();
    assert_eq!(
        hear(&stream)[..2],
        [kind::ERROR, ErrorCode::Stopping.to_byte()]
    );
    assert!(is_closed(&stream) && world.clients.is_empty());
}

#[test]
fn a_process_with_few_descriptors_has_room_for_few_clients() {
    assert_eq!(room(u64::MAX), MAX_CLIENTS);
    assert_eq!(room(1_024), 384);
    assert_eq!(room(100), 1);
}
