//! A router that maps ports: it answers PCP or NAT-PMP by UDP in its namespace, and opens the mapped port by nftables.

use crate::world::nft;
use net::netns::Namespace;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::Endpoint;
use wire::mapping::{PORT, nat_pmp, pcp};

/// How often a thread checks whether the test has ended.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// The protocol of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Pcp,
    NatPmp,
}

/// A running router, until it is dropped.
pub(crate) struct Gateway {
    /// The port outside that is open.
    pub(crate) open: Arc<Mutex<Option<u16>>>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Answers hosts of `router` at `inside`. It reports `outside` as its address outside, and assigns `port`.
    pub(crate) fn start(
        router: &Namespace,
        speaks: Speaks,
        inside: Ipv4Addr,
        (outside, port): (Ipv4Addr, u16),
    ) -> Gateway {
        let socket = router.run(|| UdpSocket::bind((inside, PORT)).unwrap());
        let socket = socket.unwrap();
        socket.set_read_timeout(Some(LOOK)).unwrap();
        let (open, stopping) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let mut server = Server {
            router: Namespace::open(router.path().to_str().unwrap()).unwrap(),
            speaks,
            outside,
            port,
            open: Arc::clone(&open),
        };
        let stop = Arc::clone(&stopping);
        let serve = move || {
            let mut buffer = [0; 1_100];
            while !stop.load(Ordering::Relaxed) {
                let Ok((len, from)) = socket.recv_from(&mut buffer) else {
                    continue;
                };
                if let Some(answer) = server.answer(&buffer[..len], from) {
                    socket.send_to(&answer, from).unwrap();
                }
            }
        };
        Gateway {
            open,
            stopping,
            thread: Some(std::thread::spawn(serve)),
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

struct Server {
    router: Namespace,
    speaks: Speaks,
    outside: Ipv4Addr,
    port: u16,
    open: Arc<Mutex<Option<u16>>>,
}

impl Server {
    fn answer(&mut self, request: &[u8], from: SocketAddr) -> Option<Vec<u8>> {
        let mut buffer = [0; pcp::REQUEST_BYTES];
        let len = match self.speaks {
            Speaks::Pcp => self.by_pcp(request, from)?.emit(&mut buffer),
            Speaks::NatPmp => self.by_nat_pmp(request, from).emit(&mut buffer),
        };
        Some(buffer[..len.unwrap()].to_vec())
    }

    fn by_pcp(&mut self, request: &[u8], from: SocketAddr) -> Option<pcp::Answer> {
        let request = pcp::Request::parse(request).ok()?;
        self.map(from, request.internal_port, request.lifetime_s);
        Some(pcp::Answer {
            result: 0,
            lifetime_s: request.lifetime_s,
            epoch_s: 1_000,
            map: Some(pcp::Map {
                nonce: request.nonce,
                internal_port: request.internal_port,
                external: Endpoint {
                    ip: self.outside.to_ipv6_mapped().octets(),
                    port: self.port,
                },
            }),
        })
    }

    fn by_nat_pmp(&mut self, request: &[u8], from: SocketAddr) -> nat_pmp::Answer {
        let given = match nat_pmp::Request::parse(request) {
            Ok(nat_pmp::Request::Address) => Some(nat_pmp::Given::Address(self.outside.octets())),
            Ok(nat_pmp::Request::Map(map)) => {
                self.map(from, map.internal_port, map.lifetime_s);
                Some(nat_pmp::Given::Map(nat_pmp::Map {
                    external_port: self.port,
                    ..map
                }))
            }
            Err(_) => None,
        };
        nat_pmp::Answer {
            // The version is not supported.
            result: given.map_or(1, |_| 0),
            epoch_s: 1_000,
            given,
        }
    }

    /// Opens the port to the host that asks, or closes it.
    fn map(&mut self, from: SocketAddr, internal_port: u16, lifetime_s: u32) {
        let is_open = lifetime_s > 0;
        let to = SocketAddr::new(from.ip(), internal_port);
        lead(&self.router, self.port, is_open.then_some(to));
        *self.open.lock().unwrap() = is_open.then_some(self.port);
    }
}

/// Forwards packets to the port outside to this host and port, or drops them.
pub(crate) fn lead(router: &Namespace, port: u16, to: Option<SocketAddr>) {
    let rule = to.map(|to| format!("iifname \"r1\" udp dport {port} dnat to {to};"));
    let rules = format!(
        "table ip mapped\ndelete table ip mapped\ntable ip mapped {{\nchain pre {{\n\
         type nat hook prerouting priority -110;\n{}\n}}\n}}\n",
        rule.unwrap_or_default()
    );
    assert!(nft::load(router, &rules));
}
