//! Clients that vanish, flood, send garbage or stop reading, and one client beside them that must
//! not suffer.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod world;

use client::{Node, Options, Target};
use net::unix::SeqStream;
use std::io::IoSlice;
use std::path::PathBuf;
use std::time::Duration;
use world::World;

fn two_nodes(test: &str) -> World {
    let mut world = World::new(test);
    world.add("ams", 1, "");
    world.add("fra", 2, "");
    world.start("ams");
    world.start("fra");
    world.wait_for_link("ams", "fra");
    world.wait("ams has a route to fra", || {
        world
            .json("routes --node net/ams")
            .to_string()
            .contains("10.7.0.2")
    });
    world
}

fn socket(world: &World, name: &str) -> PathBuf {
    world.node(name).join(format!("{name}.sock"))
}

#[test]
fn thousands_of_half_open_clients_and_garbage_leave_the_node_as_it_was() {
    let world = two_nodes("half-open");
    let path = socket(&world, "ams");
    let connect = || loop {
        // A full backlog of the kernel means: try again in a moment.
        match SeqStream::connect(&path) {
            Ok(stream) => return stream,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                std::thread::yield_now();
            }
            Err(error) => panic!("{error}"),
        }
    };
    for round in 0..8 {
        let silent: Vec<SeqStream> = (0..300).map(|_| connect()).collect();
        if round % 2 == 1 {
            for (i, stream) in silent.iter().enumerate() {
                // The node may have closed the connection after the earlier garbage.
                let _ = stream.send_parts(&[IoSlice::new(&[i as u8; 9])]);
            }
        }
        world.ping("fra --count 2 --node net/ams");
    }
    world.wait("all of them are gone", || {
        world.status("ams")["host"]["clients"] == 0
    });
    let status = world.status("ams");
    assert_eq!(status["snapshot"]["sockets"], 0);
    let buffers = status["host"]["buffers_small"].as_u64().unwrap();
    assert!(buffers < 100, "{buffers} buffers are still in use");
}

#[test]
fn a_client_that_stops_reading_loses_its_own_datagrams_only() {
    let world = two_nodes("deaf");
    let options = Options::best_effort();
    let deaf = Node::at(socket(&world, "fra"))
        .bind(5_000, options)
        .unwrap();
    let flood = Node::at(socket(&world, "ams")).bind(0, options).unwrap();
    let to = Target::parse("10.7.0.2:5000").unwrap();
    assert_eq!(deaf.local(), to);
    let slow = |world: &World| {
        world.status("fra")["counters"]["drops"]["client_slow"]
            .as_u64()
            .unwrap()
    };
    world.wait("datagrams are dropped for the deaf client", || {
        for _ in 0..500 {
            flood.send_to(&[7; 1_000], to).unwrap();
        }
        slow(&world) > 0
    });
    world.ping("10.7.0.2 --count 5 --node net/ams");
    // A client that reads again continues where the buffer ends.
    let mut buffer = [0; 2_000];
    deaf.set_nonblocking(true).unwrap();
    let mut received = 0;
    while deaf.recv_from(&mut buffer).is_ok() {
        received += 1;
    }
    assert!(received > 100, "{received}");
    deaf.set_nonblocking(false).unwrap();
    let before = slow(&world);
    flood.send_to(b"again", to).unwrap();
    let (len, from, _) = deaf.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..len], from), (&b"again"[..], flood.local()));
    assert_eq!(slow(&world), before);
}

#[test]
fn ports_belong_to_one_client_until_it_goes() {
    let world = two_nodes("ports");
    let node = Node::at(socket(&world, "ams"));
    let options = Options::voice(Duration::from_millis(100));
    let first = node.bind(500, options).unwrap();
    for (port, expected) in [(500, "in use"), (7, "below 16")] {
        let error = node.bind(port, options).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    drop(first);
    let mut own = None;
    world.wait("the port is free again", || {
        own = node.bind(500, options).ok();
        own.is_some()
    });
    let own = own.unwrap();
    // A second node on this host has its own ports.
    let other = Node::at(socket(&world, "fra")).bind(500, options).unwrap();
    own.send_to(b"to the other", other.local()).unwrap();
    let mut buffer = [0; 100];
    let (len, from, info) = other.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..len], from), (&b"to the other"[..], own.local()));
    assert!(info.remaining.unwrap() <= Duration::from_millis(100));
}

#[test]
fn clients_are_told_when_the_node_stops() {
    let mut world = two_nodes("stops");
    let socket = Node::at(socket(&world, "ams"))
        .bind(500, Options::best_effort())
        .unwrap();
    world.stop("ams");
    let mut buffer = [0; 100];
    let error = socket.recv_from(&mut buffer).unwrap_err();
    assert!(error.to_string().contains("stopping"), "{error}");
    assert!(matches!(
        socket.recv_from(&mut buffer),
        Err(client::Error::Closed)
    ));
}
