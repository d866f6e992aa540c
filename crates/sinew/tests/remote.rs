//! Clients that connect through a node's gate, as from another host.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "../../client/tests/dns/mod.rs"]
mod dns;
#[path = "remote/lossy.rs"]
mod lossy;
mod world;

use client::discover::{Discover, Settings};
use client::remote::WayReport;
use client::remote::{Keyring, Place};
use client::{Accepted, DatagramSocket, Node, Options, Sending, Target};
use dns::{Reply, Server, address, srv};
use domain::base::Rtype;
use socket2::{Domain, Socket, Type};
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use world::{World, failure};

/// Makes two nodes with gates.
fn two_gates(test: &str) -> World {
    let mut world = World::new(test);
    for (name, number) in [("ams", 1), ("fra", 2)] {
        world.add(name, number, "");
        let gate = world.endpoint(100 + number);
        let said = world.json(&format!("net clients net/{name} --listen {gate}"));
        assert_eq!(said["listen"], gate.to_string());
        world.start(name);
        world.wait_for_line(name, "by TLS and token");
    }
    world.wait_for_link("ams", "fra");
    world.wait("both have routes", || {
        world.has_route("ams", "10.7.0.2") && world.has_route("fra", "10.7.0.1")
    });
    world
}

fn place(world: &World, name: &str) -> Place {
    let file = world.node(name).join(format!("{name}.remote"));
    Place::load(&file).unwrap().unwrap()
}

fn remote(world: &World, name: &str) -> Node {
    Node::remote(place(world, name)).unwrap()
}

fn bytes(len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn datagrams_streams_and_listeners_work_as_at_the_node_itself() {
    let world = two_gates("remote");
    let (ams, fra) = (remote(&world, "ams"), remote(&world, "fra"));

    let options = Options::voice(Duration::from_secs(1));
    let (a, b) = (
        ams.bind(0, options).unwrap(),
        fra.bind(500, options).unwrap(),
    );
    assert_eq!(b.local().to_string(), "10.7.0.2:500");
    a.send_to(b"hello", b.local()).unwrap();
    let mut buffer = [0; 2_000];
    let (len, from, info) = b.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..len], from), (&b"hello"[..], a.local()));
    assert!(info.remaining.is_some());
    // The longest datagram crosses the network in fragments.
    let mut room = vec![0; 65_507];
    for len in [0, 1_400, 20_000, 65_507] {
        let long = bytes(len, len as u32);
        // On a busy machine datagrams may be lost.
        world.wait(&format!("{len} bytes arrive"), || {
            a.send_to(&long, b.local()).unwrap();
            b.set_nonblocking(true).unwrap();
            let came = std::iter::repeat_with(|| b.recv_from(&mut room).ok())
                .take(4)
                .flatten()
                .last();
            came.is_some_and(|(got, ..)| got == len) && room[..len] == long
        });
    }
    b.set_nonblocking(false).unwrap();
    let too_long = a.send_to(&[0; 65_508], b.local()).unwrap_err();
    assert!(matches!(too_long, client::Error::TooLong { .. }));
    let taken = fra.bind(500, options).unwrap_err().to_string();
    assert!(taken.contains("in use"), "{taken}");

    // A stream with far more bytes than all buffers on the path, in both directions, and both ends.
    let listener = fra.listen(600, Options::stream()).unwrap();
    let (there, back) = (bytes(3_000_000, 1), bytes(1_000_000, 2));
    let (expected, answer) = (there.clone(), back.clone());
    let server = thread::spawn(move || {
        let mut stream = listener.accept_bytes().unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        assert!(got == expected, "other bytes came");
        stream.write_all(&answer).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        // Wait until the other side has closed as well.
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
        listener
    });
    let to = Target::parse("10.7.0.2:600").unwrap();
    let mut stream = ams.connect(to, Options::stream()).unwrap();
    assert_eq!(stream.peer(), to);
    stream.write_all(&there).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert!(got == back, "other bytes came back");
    drop(stream);
    let listener = server.join().unwrap();

    // Messages keep their bounds, and a stream that is cut off is not a complete one.
    let stream = ams.connect_messages(to, Options::stream()).unwrap();
    let Accepted::Messages(other) = listener.accept().unwrap() else {
        panic!("not a stream of messages");
    };
    for len in [1, 65_507, 7] {
        stream.send(&bytes(len, len as u32)).unwrap();
    }
    let mut room = vec![0; 65_507];
    for len in [1, 65_507, 7] {
        assert_eq!(other.recv(&mut room).unwrap(), len);
        assert!(room[..len] == bytes(len, len as u32));
    }
    other.reset();
    let error = stream.recv(&mut room).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    let nobody = Target::parse("10.7.0.2:601").unwrap();
    let refused = ams.connect(nobody, Options::stream()).unwrap_err();
    assert!(matches!(refused, client::Error::Reset(_)), "{refused}");
}

#[test]
fn who_has_not_token_and_key_gets_nowhere_and_hinders_nobody() {
    let mut world = two_gates("gate");
    let good = place(&world, "ams");
    let options = Options::best_effort();
    let why = |place: Place| {
        let error = Node::remote(place).unwrap().bind(0, options).unwrap_err();
        error.to_string()
    };
    let wrong_token = Place {
        token: [7; 32],
        ..good.clone()
    };
    assert!(why(wrong_token.clone()).contains("token is wrong"));
    // With fra's key at ams's gate, the gate is not the one that the client wants.
    let wrong_key = Place {
        key: place(&world, "fra").key,
        ..good.clone()
    };
    let error = why(wrong_key);
    assert!(error.contains("another node answers"), "{error}");
    let nobody = Place {
        endpoint: world.endpoint(99).to_string(),
        ..good.clone()
    };
    assert!(why(nobody).contains("refused"));

    let gate: SocketAddr = good.endpoint.parse().unwrap();
    // All connections come from one address, which is not that of the client: each address has a limited number of
    // places.
    let stranger = SocketAddr::from(([127, 0, 0, 77], 0));
    let connect = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&stranger.into()).unwrap();
        socket.connect(&gate.into()).unwrap();
        socket
    };
    let sockets: Vec<Socket> = (0..40).map(|_| connect()).collect();
    let ams = Node::remote(good).unwrap();
    let socket = ams.bind(0, options).unwrap();
    socket.send_to(b"x", socket.local()).unwrap();
    assert_eq!(socket.recv_from(&mut [0; 8]).unwrap().0, 1);
    drop(sockets);
    // Send garbage, until the address has failed so often that the gate refuses it.
    world.wait("this address has to wait", || {
        let mut stream = TcpStream::connect(gate).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP"));
        ams.bind(0, options).is_err()
    });
    // Existing clients stay, and clients of the node's own socket are not affected.
    socket.send_to(b"y", socket.local()).unwrap();
    assert_eq!(socket.recv_from(&mut [0; 8]).unwrap().0, 1);
    world.ping("fra --count 2 --node net/ams");
    world.assert_all_run();

    world.stop("ams");
    // The node announces that it stops, and then the connection ends.
    assert!(socket.recv_from(&mut [0; 8]).is_err());
}

/// Forwards TCP to `to`, until the returned streams are dropped, or shut down on both sides.
fn wire_to(to: SocketAddr) -> (SocketAddr, mpsc::Receiver<[TcpStream; 2]>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let (carried, wires) = mpsc::channel();
    thread::spawn(move || {
        for here in listener.incoming() {
            let (here, there) = (here.unwrap(), TcpStream::connect(to).unwrap());
            let clone = |tcp: &TcpStream| tcp.try_clone().unwrap();
            for (mut from, mut to) in [(clone(&here), clone(&there)), (clone(&there), clone(&here))]
            {
                thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
            let _ = carried.send([here, there]);
        }
    });
    (at, wires)
}

/// Returns the path of the datagrams of the node's only socket, once the gate has answered.
fn only_way(node: &Node) -> WayReport {
    let ways = node.ways();
    assert!(ways.len() <= 1, "{ways:?}");
    ways.first().copied().unwrap_or_default()
}

/// Returns the number at the front of a received datagram; `None` if none has arrived.
fn number(socket: &DatagramSocket) -> Option<u32> {
    let mut buffer = [0; 2_000];
    socket.recv_from(&mut buffer).ok()?;
    Some(u32::from_be_bytes(*buffer.first_chunk().unwrap()))
}

#[test]
fn datagrams_do_not_wait_for_tcp_and_go_by_it_where_udp_is_blocked() {
    let world = two_gates("ways");
    let good = place(&world, "ams");
    let (at, faults) = lossy::network(good.endpoint.parse().unwrap());
    let node = Node::remote(Place {
        endpoint: at.to_string(),
        ..good.clone()
    })
    .unwrap();
    let options = Options::best_effort();
    let far = node.bind(0, options).unwrap();
    let near = Node::at(world.socket("ams")).bind(0, options).unwrap();
    for socket in [&far, &near] {
        socket.set_nonblocking(true).unwrap();
    }
    // A socket that only receives needs no path by UDP.
    assert!(node.ways().is_empty());
    let mut datagram = [7; 300];
    let mut send = |from: &DatagramSocket, to: &DatagramSocket, i: u32| {
        datagram[..4].copy_from_slice(&i.to_be_bytes());
        from.send_to(&datagram, to.local()).unwrap();
    };
    send(&far, &near, 0);
    world.wait("it arrives, and asks for a way", || number(&near).is_some());
    world.wait("datagrams go by UDP", || only_way(&node).is_udp);
    world.wait("the node sends by UDP as well", || {
        let status = world.json("status --node net/ams");
        status["gate"]["ways_told"][0]["way"] == "udp"
    });

    // TCP carries nothing at all, and one datagram in ten is lost. No datagram waits for another one, because each has
    // arrived before the next is sent.
    faults.hold_tcp(true);
    faults.is_lossy.store(true, Ordering::SeqCst);
    let mut came = 0;
    for i in 0..100 {
        let (from, to) = if i % 2 == 0 {
            (&far, &near)
        } else {
            (&near, &far)
        };
        let lost = faults.lost.load(Ordering::SeqCst);
        send(from, to, i);
        world.wait("one more has come, or was lost", || match number(to) {
            Some(got) => {
                assert_eq!(got, i, "out of order or late");
                came += 1;
                true
            }
            None => faults.lost.load(Ordering::SeqCst) > lost,
        });
    }
    let lost = faults.lost.load(Ordering::SeqCst);
    assert_eq!((came, lost), (90, 10));
    let report = only_way(&node);
    assert_eq!(
        (report.sent, report.sent_by_tls, report.strange),
        (50, 0, 0),
        "but for the first"
    );
    assert!(report.rtt.is_some());
    faults.is_lossy.store(false, Ordering::SeqCst);

    // The NAT in between forgets the port: the node follows as soon as the client proves the new address.
    faults.forgets.store(true, Ordering::SeqCst);
    send(&far, &near, 0);
    world.wait("it arrives all the same", || number(&near).is_some());
    world.wait("the node has followed", || {
        send(&near, &far, 1);
        number(&far).is_some()
    });
    faults.hold_tcp(false);
    world.wait("nothing is on its way", || number(&far).is_none());

    // UDP is blocked: once the client knows that, no further datagram is lost.
    faults.is_blocked.store(true, Ordering::SeqCst);
    world.wait("datagrams go by TLS", || {
        send(&far, &near, 2);
        !only_way(&node).is_udp
    });
    world.wait("the node has heard of it", || {
        send(&near, &far, 2);
        number(&far).is_some()
    });
    let by_tls = only_way(&node).sent_by_tls;
    for i in 1_000..1_020 {
        for (from, to) in [(&far, &near), (&near, &far)] {
            send(from, to, i);
            world.wait("none is lost", || {
                std::iter::from_fn(|| number(to)).any(|got| got == i)
            });
        }
    }
    assert!(only_way(&node).sent_by_tls >= by_tls + 20);
    faults.is_blocked.store(false, Ordering::SeqCst);
    world.wait("and by UDP again", || only_way(&node).is_udp);

    let status = world.json("status --node net/ams");
    let gate = &status["gate"];
    assert!(gate["received"].as_u64() >= Some(40), "{gate}");
    assert!(gate["sent"].as_u64() >= Some(40), "{gate}");
    assert_eq!(
        (&gate["drops"]["seal"], &gate["drops"]["unknown"]),
        (&0.into(), &0.into())
    );
    let page = world.sinew("status --node net/ams");
    assert!(page.contains("datagrams of 1 of 1 socket by UDP"), "{page}");

    // A gate without UDP: a relay that carries only TCP.
    let (at, _wires) = wire_to(good.endpoint.parse().unwrap());
    let node = Node::remote(Place {
        endpoint: at.to_string(),
        ..good
    })
    .unwrap();
    let far = node.bind(0, options).unwrap();
    send(&far, &near, 0);
    world.wait("it comes", || number(&near) == Some(0));
    world.wait("the gate has answered", || !node.ways().is_empty());
    for i in 0..20 {
        send(&far, &near, i);
        world.wait("it comes", || number(&near) == Some(i));
    }
    let report = only_way(&node);
    assert_eq!(
        (report.is_udp, report.sent, report.sent_by_tls),
        (false, 0, 20)
    );
}

#[test]
fn no_datagram_fares_worse_by_udp_than_by_tls() {
    let world = two_gates("no-worse");
    let good = place(&world, "ams");
    let (at, faults) = lossy::network(good.endpoint.parse().unwrap());
    let remote = || {
        let endpoint = at.to_string();
        Node::remote(Place {
            endpoint,
            ..good.clone()
        })
        .unwrap()
    };
    let local = Node::at(world.socket("ams"));
    let near = local.bind(0, Options::best_effort()).unwrap();
    near.set_nonblocking(true).unwrap();
    let arrives = |what: &str, to: &DatagramSocket, datagram: &[u8]| {
        let mut room = [0; 2_000];
        world.wait(what, || {
            let came = to.recv_from(&mut room).map(|(len, ..)| len).unwrap_or(0);
            room[..came] == *datagram
        });
    };

    // The path's longest datagram is shorter than usual. No long datagram is lost, in either direction, and short ones
    // go by UDP once the limit is known.
    faults.longest.store(1_000, Ordering::SeqCst);
    let node = remote();
    let far = node.bind(0, Options::best_effort()).unwrap();
    far.set_nonblocking(true).unwrap();
    let mut sent = 0_u32;
    let mut both_ways = |len: usize| {
        for (from, to) in [(&far, &near), (&near, &far)] {
            sent += 1;
            let datagram = bytes(len, sent);
            from.send_to(&datagram, to.local()).unwrap();
            arrives("none is swallowed", to, &datagram);
        }
    };
    world.wait("the length of the path is known", || {
        both_ways(1_400);
        both_ways(300);
        (980..=1_000).contains(&only_way(&node).longest)
    });
    world.wait("what fits goes by UDP both ways", || {
        let sent = || {
            world.json("status --node net/ams")["gate"]["sent"]
                .as_u64()
                .unwrap()
        };
        let (before, mine) = (sent(), only_way(&node).sent);
        both_ways(900);
        sent() > before && only_way(&node).sent > mine
    });
    let before = only_way(&node);
    both_ways(1_200);
    let after = only_way(&node);
    assert_eq!(
        (after.sent, after.sent_by_tls),
        (before.sent, before.sent_by_tls + 1)
    );
    drop(far);
    faults.longest.store(0, Ordering::SeqCst);

    // Batches are split, and TCP delays none of their datagrams.
    let node = remote();
    let range = node
        .bind_range(3_000..=3_063, Options::best_effort())
        .unwrap();
    range.set_nonblocking(true).unwrap();
    let packet = bytes(172, 7);
    let target = |port: u16| Target {
        port: base::VirtualPort(port),
        ..near.local()
    };
    let batch = |port: u16| {
        let mut sending = Sending::new();
        for i in 0..20 {
            assert!(sending.push(3_000 + i, target(port), &packet));
        }
        range.send_batch(&mut sending).unwrap();
    };
    world.wait("it goes by UDP", || {
        range.send_from(3_000, &[1; 700], near.local()).unwrap();
        only_way(&node).longest >= 1_400
    });
    world.wait("nothing is on its way", || number(&near).is_none());
    faults.hold_tcp(true);
    let before = only_way(&node);
    batch(near.local().port.0);
    for _ in 0..20 {
        arrives("each of the batch comes", &near, &packet);
    }
    let after = only_way(&node);
    assert_eq!(
        (after.sent - before.sent, after.sent_by_tls),
        (20, before.sent_by_tls)
    );
    // Back to the sockets, one port each, in one turn of the node's loop or several.
    let mut got = 0;
    for port in 3_000..3_020 {
        near.send_to(&packet, target(port)).unwrap();
    }
    let mut room = [0; 2_000];
    world.wait("they come by UDP", || {
        got += std::iter::from_fn(|| range.recv_from(&mut room).ok()).count();
        got == 20
    });
    // A datagram that is too long waits for TCP, and later datagrams do not wait for it.
    range
        .send_from(3_000, &bytes(1_500, 1), near.local())
        .unwrap();
    batch(near.local().port.0);
    for _ in 0..20 {
        arrives("each behind it comes", &near, &packet);
    }
    faults.hold_tcp(false);
    arrives("it comes too", &near, &bytes(1_500, 1));
    drop(range);

    // The reliable class and ordered delivery do not use UDP; unordered payloads do.
    let node = remote();
    let reliable = node.bind(0, Options::stream()).unwrap();
    for i in 0..50 {
        reliable.send_to(&[i; 300], near.local()).unwrap();
        arrives("it comes", &near, &[i; 300]);
    }
    assert!(node.ways().is_empty());
    drop(reliable);
    let raw = node.bind(0, Options::best_effort()).unwrap();
    let by = raw.local();
    let (raw, _) = raw.into_raw(near.local()).unwrap();
    let raw = fs::File::from(raw);
    let mut i = 0;
    world.wait("payloads go by UDP both ways", || {
        i += 1;
        let payload = bytes(400, i);
        let sent = || {
            world.json("status --node net/ams")["gate"]["sent"]
                .as_u64()
                .unwrap()
        };
        let (before, mine) = (sent(), only_way(&node).sent);
        (&raw).write_all(&payload).unwrap();
        arrives("a payload comes", &near, &payload);
        near.send_to(&payload, by).unwrap();
        let len = (&raw).read(&mut room).unwrap();
        assert!(room[..len] == payload);
        sent() > before && only_way(&node).sent > mine
    });
    let report = only_way(&node);
    assert_eq!((report.late, report.strange, report.full), (0, 0, 0));
}

#[test]
fn a_client_that_is_cut_off_is_an_error_at_both_ends_and_not_an_end() {
    let world = two_gates("cut");
    let good = place(&world, "ams");
    let (at, wires) = wire_to(good.endpoint.parse().unwrap());
    let by_wire = Place {
        endpoint: at.to_string(),
        ..good
    };
    let fra = Node::at(world.socket("fra"));
    let listener = fra.listen(800, Options::stream()).unwrap();
    let mut stream = Node::remote(by_wire)
        .unwrap()
        .connect(listener.local(), Options::stream())
        .unwrap();
    let mut accepted = listener.accept_bytes().unwrap();
    stream.write_all(b"half of a sentence").unwrap();
    let mut got = [0; 18];
    accepted.read_exact(&mut got).unwrap();
    for tcp in wires.recv().unwrap() {
        let _ = tcp.shutdown(Shutdown::Both);
    }
    for end in [&mut accepted, &mut stream] {
        let error = end.read(&mut got).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
}

#[test]
fn tools_reach_a_node_by_its_gate_and_what_they_sent_arrives() {
    let world = two_gates("remote-tools");
    let listener = remote(&world, "fra")
        .listen(700, Options::stream())
        .unwrap();
    let file = world.dir.join("sent");
    let sent = bytes(500_000, 3);
    fs::write(&file, &sent).unwrap();
    let server = thread::spawn(move || {
        let mut got = Vec::new();
        listener
            .accept_bytes()
            .unwrap()
            .read_to_end(&mut got)
            .unwrap();
        got
    });
    world.sinew(&format!(
        "send 10.7.0.2:700 {} --node net/ams/ams.remote",
        file.display()
    ));
    assert!(server.join().unwrap() == sent);
    let by_gate = "--node net/ams/ams.remote";
    world.ping(&format!("10.7.0.2 --count 2 {by_gate}"));
    world.json(&format!("trace 10.7.0.2 {by_gate}"));
    for (words, expected) in [
        ("net clients net/ams --listen 0.0.0.0:7443", "--endpoint"),
        ("net clients net/ams --listen 127.0.0.1:7443", "[clients]"),
    ] {
        let (status, text) = failure(&world.try_sinew(words));
        assert!(status == 2 && text.contains(expected), "{words}: {text}");
    }
}

#[test]
fn operators_look_and_act_from_other_hosts_as_their_files_permit() {
    let mut world = World::new("remote-operator");
    world.add("ams", 1, "--lab");
    world.add("fra", 2, "");
    let gate = world.endpoint(101);
    // Files of either kind can be made later, too.
    world.sinew(&format!("net clients net/ams --listen {gate}"));
    let before = fs::read_to_string(world.node("ams").join("ams.remote")).unwrap();
    let made = world.json(&format!(
        "net clients net/ams --listen {gate} --observe --operate"
    ));
    let after = fs::read_to_string(world.node("ams").join("ams.remote")).unwrap();
    assert_eq!(before, after, "clients have their token still");
    for name in ["ams", "fra"] {
        world.start(name);
    }
    world.wait_for_link("ams", "fra");
    let file = |kind: &str| made[kind].as_str().unwrap().to_owned();
    let (client, observer, operator) = (file("remote"), file("observer"), file("operator"));

    for looks in [&observer, &operator] {
        let status = world.json(&format!("status --node {looks}"));
        assert_eq!(status["snapshot"]["name"], "ams");
        for command in [
            "links",
            "peers",
            "routes",
            "flows",
            "groups",
            "why ams fra",
            "plan ams fra",
        ] {
            let said = world.sinew(&format!("{command} --node {looks}"));
            assert!(!said.is_empty(), "{command}");
        }
    }
    // The text of the file works as well, as in an environment variable.
    let text = fs::read_to_string(world.dir.join(&observer)).unwrap();
    let line = text.lines().nth(1).unwrap();
    let status = world.json(&format!("status --node {line}"));
    assert_eq!(status["snapshot"]["name"], "ams");

    let impaired = || world.status("ams")["snapshot"]["links"][0]["impairment"].clone();
    let impair = |node: &str| world.try_sinew(&format!("lab impair ams fra loss=1% --node {node}"));
    let (status, why) = failure(&impair(&observer));
    assert!(status != 0 && why.contains("may only look"), "{why}");
    assert_eq!(impaired(), serde_json::Value::Null);
    let done = impair(&operator);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(impaired(), "loss=1%");

    // Each file permits only its own purpose.
    let (_, why) = failure(&world.try_sinew(&format!("status --node {client}")));
    assert!(why.contains("this file is for programs"), "{why}");
    let (_, why) = failure(&world.try_sinew(&format!("ping 10.7.0.2 --count 1 --node {observer}")));
    assert!(why.contains("programs need NAME.remote"), "{why}");
    // Commands in the name of the node must run on its host.
    let (_, why) = failure(&world.try_sinew(&format!("cp a fra:/b --node {operator}")));
    assert!(why.contains("on the node's own host"), "{why}");
    // Observers that stay connected leave room for the node's own host.
    let places: Vec<_> = (0..20)
        .map(|_| {
            client::remote::Remote::new(Place::load(&world.dir.join(&observer)).unwrap().unwrap())
        })
        .map(|remote| Arc::new(remote.unwrap()).operate(Instant::now() + Duration::from_secs(10)))
        .collect();
    let open = places.iter().filter(|place| place.is_ok()).count();
    assert!((1..=4).contains(&open), "{open}");
    assert_eq!(world.status("ams")["snapshot"]["name"], "ams");
}

/// Starts a name server that knows the gates of `world`: first a host where nothing listens, then ams, then fra.
fn name_server(world: &World) -> Server {
    let [nobody, ams, fra] = [99, 101, 102].map(|number| world.endpoint(number));
    Server::start(move |name, kind| {
        let records = match (name, kind) {
            ("_sinew._udp.example.org", Rtype::SRV) => vec![
                srv(name, 60, [30, 0, fra.port()], "gates.example.org."),
                srv(name, 60, [20, 0, ams.port()], "gates.example.org."),
                srv(name, 60, [10, 0, nobody.port()], "gates.example.org."),
            ],
            ("gates.example.org", Rtype::A) => {
                vec![address(name, 60, &nobody.ip().to_string())]
            }
            _ => Vec::new(),
        };
        Reply::Records(records)
    })
}

#[test]
fn a_program_finds_its_node_by_a_domain_and_another_one_when_that_is_gone() {
    let mut world = two_gates("domain");
    let server = name_server(&world);
    let found = world.json(&format!(
        "discover example.org --service nodes --server {}",
        server.at
    ));
    let endpoints = found["services"][0]["endpoints"].as_array().unwrap();
    let ports: Vec<u64> = endpoints
        .iter()
        .map(|e| e["port"].as_u64().unwrap())
        .collect();
    assert_eq!(ports, [7_799, 7_801, 7_802]);
    assert_eq!(endpoints[1]["from"], "srv");
    let nothing = world.try_sinew(&format!("discover x.test --server {}", server.at));
    assert_eq!(failure(&nothing).0, 1);

    // A client without the key of ams does not connect to it, whatever the DNS says.
    let settings = Settings {
        server: Some(server.at),
        ..Settings::default()
    };
    let discover = Discover::new(settings).unwrap();
    let only_fra = Keyring::from(&place(&world, "fra"));
    let fra = Node::discover_with(&discover, "example.org", only_fra).unwrap();
    let socket = fra.bind(0, Options::best_effort()).unwrap();
    assert_eq!(socket.local().node.to_string(), "10.7.0.2");

    let keys = world.dir.join("keys");
    let both: String = ["ams", "fra"]
        .map(|name| format!("{}\n", place(&world, name)))
        .concat();
    fs::write(&keys, both).unwrap();
    let text = format!(
        "dns:example.org?keys={}&server={}",
        keys.display(),
        server.at
    );
    // The name is resolved each time, and gives the same gate, as the sockets of a program must have.
    let bind = || {
        Node::find(&text)
            .unwrap()
            .bind(0, Options::best_effort())
            .unwrap()
    };
    let sockets = [bind(), bind(), bind()];
    assert!(
        sockets
            .iter()
            .all(|socket| socket.local().node.to_string() == "10.7.0.1")
    );
    sockets[0].send_to(b"hello", socket.local()).unwrap();
    let mut buffer = [0; 100];
    assert_eq!(socket.recv_from(&mut buffer).unwrap().1, sockets[0].local());
    world.stop("ams");
    assert_eq!(bind().local().node.to_string(), "10.7.0.2");
    let error = Node::find(&format!(
        "dns:x.test?keys={}&server={}",
        keys.display(),
        server.at
    ))
    .unwrap()
    .bind(0, Options::best_effort())
    .unwrap_err();
    assert!(
        error.to_string().contains("nothing is known of x.test"),
        "{error}"
    );
    world.stop("fra");
    let error = Node::find(&text)
        .unwrap()
        .bind(0, Options::best_effort())
        .unwrap_err();
    assert!(
        error.to_string().contains("found by dns:example.org"),
        "{error}"
    );
}
