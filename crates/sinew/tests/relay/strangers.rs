//! Many connections that send nothing must not delay other copies.

use crate::chain::{Chain, names};
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

/// The most silent connections that one address may have.
const SHARE: usize = 64;

/// Connects from a given address.
fn connect(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

fn turned_away(bulk: &Value, why: &str) -> u64 {
    bulk["turned_away"][why].as_u64().unwrap_or(0)
}

#[test]
fn silent_connections_of_one_address_hold_up_nobody_else() {
    let chain = Chain::new("cp-silent", 2);
    chain.file("data", 1_000_000);
    let at = chain.world.endpoint(2);
    // Nodes of this host connect from 127.0.0.1.
    let from = Ipv4Addr::new(127, 0, 0, 2);
    let mut silent = Vec::new();
    chain.world.wait("more than its share is refused", || {
        silent.extend((0..SHARE).map(|_| connect(from, at)));
        turned_away(&chain.world.status("fra")["bulk"], "address") >= SHARE as u64
    });
    let bulk = &chain.world.status("fra")["bulk"];
    assert!(bulk["greeting"].as_u64() <= Some(SHARE as u64), "{bulk}");
    chain.cp("data fra:copy --stripes 4");
    assert_eq!(names(&chain.root("fra")), ["copy"]);
}

#[test]
fn who_comes_to_full_places_gets_that_of_a_silent_one() {
    let chain = Chain::new("cp-crowd", 2);
    chain.file("data", 1_000_000);
    let at = chain.world.endpoint(2);
    // Five addresses connect, each with its full share. There is room for four of them.
    let crowd = || -> Vec<TcpStream> {
        let from = (2..7).map(|last| Ipv4Addr::new(127, 0, 0, last));
        let each = from.flat_map(|from| (0..SHARE).map(move |_| connect(from, at)));
        each.collect()
    };
    let mut silent = Vec::new();
    chain.world.wait("places are taken from the silent", || {
        silent = crowd();
        turned_away(&chain.world.status("fra")["bulk"], "displaced") > 0
    });
    chain.cp("data fra:copy --stripes 4");
    assert_eq!(names(&chain.root("fra")), ["copy"]);
    drop(silent);
}
