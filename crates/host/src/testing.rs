//! Shared parts of tests: a real node on a thread, identities, and the messages that open a copy.

use crate::command::Commander;
use crate::driver::{Driver, Setup};
use crate::files::test_directory;
use crate::log::Lines;
use base::NodeAddr;
use net::clock::Clock;
use overlay::node::{Config, Neighbor, Node};
use overlay::settings::Settings;
use secure::{Authority, Identity, Keys, Network, Validity};
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use wire::bytes::Writer;
use wire::relay::{Hop, HopRepr, Open, TRANSFER_BYTES};

pub(crate) const AMS: NodeAddr = NodeAddr(0x0a07_0001);
pub(crate) const FRA: NodeAddr = NodeAddr(0x0a07_0002);
/// The domain in every certificate.
pub(crate) const DOMAIN: &str = "example.org";

/// A running node `ams` with one neighbour, `fra`, which never answers.
pub(crate) struct TestNode {
    pub(crate) authority: Authority,
    pub(crate) identity: Identity,
    pub(crate) commander: Commander,
    pub(crate) dir: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl TestNode {
    pub(crate) fn start(test: &str) -> TestNode {
        let dir = test_directory(test);
        let mut authority = Authority::generate(&[7; 32]);
        let identity = identity(&mut authority, [1; 64], AMS);
        let (network, ours) = (authority.network(), identity.clone());
        let client_socket = Some((dir.join("ams.sock"), 0o600));
        let (told, commander) = channel();
        let thread = std::thread::spawn(move || {
            let mut driver = driver(ours, network, client_socket);
            told.send(driver.commander()).unwrap();
            driver.run().unwrap();
        });
        let commander = commander.recv().unwrap();
        TestNode {
            authority,
            identity,
            commander,
            dir,
            thread: Some(thread),
        }
    }
}

/// Creates a loop with an engine of `identity`, whose one neighbour never answers.
pub(crate) fn driver(
    identity: Identity,
    network: Network,
    client_socket: Option<(PathBuf, u32)>,
) -> Driver {
    let clock = Clock::new();
    let node = Node::new(Config {
        identity,
        network,
        neighbors: vec![Neighbor {
            more: Vec::new(),
            capacity_kbps: 0,
            reliable: Default::default(),
            addr: FRA,
            name: "fra".into(),
            at: None,
        }],
        accept: None,
        settings: Settings::modern(),
        lab: true,
        seed: [3; 32],
        unix_start_s: clock.unix_s(),
    });
    let setup = Setup {
        log: Lines::new("ams", clock, true).1,
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        client_socket,
        offload: true,
        dscp: true,
        scheduling: "normal".into(),
    };
    Driver::open(&setup, clock, node, None).unwrap()
}

impl Drop for TestNode {
    fn drop(&mut self) {
        let _ = self.commander.stop();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
        std::fs::remove_dir_all(&self.dir).unwrap();
    }
}

/// Creates a node's keys and certificate, valid for a day.
pub(crate) fn identity(authority: &mut Authority, secret: [u8; 64], addr: NodeAddr) -> Identity {
    let keys = Keys::generate(&secret);
    let name = if addr == AMS { "ams" } else { "fra" };
    let request = keys.request(authority.network().id(), addr, name, &[DOMAIN]);
    let request = request.unwrap();
    let certificate = authority.issue(&request, validity()).unwrap();
    Identity::new(keys, certificate).unwrap()
}

/// Returns the validity from now for a day.
pub(crate) fn validity() -> Validity {
    let now_s = Clock::new().unix_s();
    Validity {
        not_before_s: now_s - 60,
        not_after_s: now_s + 86_400,
    }
}

/// Encodes a hop of a route that stores under this path, or passes data on.
pub(crate) fn hop(node: NodeAddr, path: Option<&[u8]>, below: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 256];
    let repr = HopRepr {
        node,
        stripes: 1,
        adapts: false,
        endpoint: "",
        path,
        discard: false,
        below,
    };
    let mut w = Writer::new(&mut bytes);
    repr.emit(&mut w).unwrap();
    w.written().to_vec()
}

/// Returns the message that opens a plain copy by this route.
pub(crate) fn open<'a>(route: &'a [u8], ordered: &'a [u8]) -> Open<'a> {
    Open {
        transfer: [7; TRANSFER_BYTES],
        pull: false,
        plain: false,
        scavenge: false,
        fresh: false,
        keep: false,
        delete: false,
        spare: false,
        dry: false,
        attributes: false,
        checksum: false,
        congestion: "",
        certificate: &[],
        ordered,
        route: Hop::parse(route).unwrap(),
    }
}
