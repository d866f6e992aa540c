//! What floods of SIP cost the gateway in memory. Alone in its process, since it counts what that
//! allocates.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod network;
mod ua;

use client::Options;
use core::time::Duration;
use gateway::allow::Allowed;
use gateway::domains::{Certified, Table};
use gateway::sip::{Gateway, Settings};
use network::{DEADLINE, Fate, NODES, Network, VIRTUAL, free_ports};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use ua::Ua;

/// What all of the gateway may grow by.
const GROWTH_MAX: usize = 16 << 20;

/// What calls offer, and what kind of text that is.
const AUDIO: &str = "Content-Type: application/sdp\r\n";
const OFFER: &str = "v=0\r\no=a 1 1 IN IP4 127.0.1.1\r\ns=-\r\nc=IN IP4 127.0.1.1\r\nt=0 0\r\n\
                     m=audio 40000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";

/// Counts what the process has allocated, and the most of it.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator; the counters need no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller keeps the rules of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `at` came from `alloc` above, with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A gateway of `a.example`, whose registrar never answers.
struct Site {
    gateway: Gateway,
    registrar: Ua,
    /// The socket that asks the gateway whether it is running.
    asker: UdpSocket,
    /// What was allocated before the first flood.
    before: usize,
    _network: Network,
    /// One test at a time: all that the process allocates counts.
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

impl Site {
    fn start(test: &str) -> Site {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let network = Network::start(test, |_| Fate::Passes);
        let registrar = Ua::new("registrar");
        let asker = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 9), 0)).unwrap();
        asker
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let at = registrar.address();
        let nodes = [Certified {
            node: NODES[0],
            name: "a".to_owned(),
            domains: vec!["a.example".to_owned()],
            latency: Duration::ZERO,
        }];
        let settings = Settings {
            node: network.node(0),
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            public: None,
            media: free_ports(16),
            virtual_media: VIRTUAL,
            options: Options::voice(DEADLINE),
            media_from_lan: false,
            shadow: None,
            domain: "a.example".to_owned(),
            local: vec![format!("a.example={at}").parse().unwrap()],
            direct: Vec::new(),
            reach: Allowed::default(),
            allowed: None,
            domains: Arc::new(Table::new(nodes)),
            lookup: Arc::new(|_, _, _| Box::pin(async { Vec::new() })),
            answer_within: gateway::sip::ANSWER_WITHIN,
            realtime: false,
            report: Arc::new(|_| ()),
            trace: None,
        };
        let gateway = Gateway::start(settings).unwrap();
        Site {
            before: LIVE.load(Ordering::Relaxed),
            gateway,
            registrar,
            asker,
            _network: network,
            _alone: alone,
        }
    }

    /// An OPTIONS to the gateway is answered: whatever was said before has been taken up.
    fn is_there(&self, number: usize) {
        let at = self.asker.local_addr().unwrap();
        let to = self.gateway.local();
        let asked = request("OPTIONS", &format!("sip:{to}"), at, number, ("", ""));
        self.asker.send_to(asked.as_bytes(), to).unwrap();
        let mut answer = [0; 9_000];
        let len = self.asker.recv(&mut answer).unwrap();
        assert!(
            answer[..len].starts_with(b"SIP/2.0 200"),
            "{}",
            String::from_utf8_lossy(&answer[..len])
        );
    }

    /// Sends `requests` requests from each of `hosts` hosts, with the fields and the body in `more`. Returns by how
    /// many bytes the memory has grown at most since before the first flood.
    fn flood(
        &self,
        hosts: u16,
        requests: usize,
        (method, uri): (&str, &str),
        more: (&str, &str),
    ) -> usize {
        let to = self.gateway.local();
        MOST.store(LIVE.load(Ordering::Relaxed), Ordering::Relaxed);
        let mut number = 0;
        for host in 0..hosts {
            let host = UdpSocket::bind((Ipv4Addr::from(0x7f00_0100 + u32::from(host)), 0)).unwrap();
            let at = host.local_addr().unwrap();
            for _ in 0..requests {
                number += 1;
                let asked = request(method, uri, at, number, more);
                host.send_to(asked.as_bytes(), to).unwrap();
                if number % 16 == 0 {
                    self.is_there(number);
                }
            }
        }
        self.is_there(number + 1);
        MOST.load(Ordering::Relaxed) - self.before
    }

    /// The same from one host.
    fn flood_from(
        &self,
        host: &UdpSocket,
        requests: usize,
        (method, uri): (&str, &str),
        more: (&str, &str),
    ) -> usize {
        let (at, to) = (host.local_addr().unwrap(), self.gateway.local());
        MOST.store(LIVE.load(Ordering::Relaxed), Ordering::Relaxed);
        for number in 2..2 + requests {
            let asked = request(method, uri, at, number, more);
            host.send_to(asked.as_bytes(), to).unwrap();
            if number % 16 == 0 {
                self.is_there(number);
            }
        }
        self.is_there(1);
        MOST.load(Ordering::Relaxed) - self.before
    }

    /// A host whose call to nobody is refused, and who acknowledges that: it hears what it is told.
    fn proven_host(&self) -> UdpSocket {
        let host = UdpSocket::bind((Ipv4Addr::new(127, 0, 1, 0), 0)).unwrap();
        host.set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        self.calls_in_vain(&host, "sip:b@nobody.example", 1..2);
        host
    }

    /// Calls of a host, one after the other, that are refused; and it acknowledges that.
    fn calls_in_vain(&self, host: &UdpSocket, uri: &str, numbers: core::ops::Range<usize>) {
        let (at, to) = (host.local_addr().unwrap(), self.gateway.local());
        let mut bytes = [0; 9_000];
        for number in numbers {
            let asked = request("INVITE", uri, at, number, (AUDIO, OFFER));
            host.send_to(asked.as_bytes(), to).unwrap();
            let call = format!("Call-ID: {number}@{at}\r\n");
            let refusal = loop {
                let len = host.recv(&mut bytes).unwrap();
                let answer = String::from_utf8_lossy(&bytes[..len]).into_owned();
                if answer.contains(&call) && !answer.starts_with("SIP/2.0 1") {
                    break answer;
                }
            };
            let tagged = refusal.lines().find(|line| line.starts_with("To: "));
            let ack = request("ACK", uri, at, number, ("", ""));
            let ack = ack.replace("To: <sip:a@a.example>", tagged.unwrap());
            host.send_to(ack.as_bytes(), to).unwrap();
        }
        self.is_there(1);
    }

    /// What comes of it while the phone answers each call so.
    fn while_answered<T>(&self, status: &str, of: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            scope.spawn(|| self.registrar.answers_until(status, "END"));
            let came = of();
            self.asker
                .send_to(b"END", self.registrar.address())
                .unwrap();
            came
        })
    }

    /// How many requests have come to the registrar.
    fn registered(&self) -> usize {
        let socket = &self.registrar.sip;
        socket.set_nonblocking(true).unwrap();
        let mut bytes = [0; 65_536];
        let count = core::iter::from_fn(|| socket.recv(&mut bytes).ok()).count();
        socket.set_nonblocking(false).unwrap();
        count
    }
}

fn request(
    method: &str,
    uri: &str,
    at: SocketAddr,
    number: usize,
    (more, body): (&str, &str),
) -> String {
    let len = body.len();
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bK{number}\r\n\
         From: <sip:a@a.example>;tag=flood\r\nTo: <sip:a@a.example>\r\n\
         Call-ID: {number}@{at}\r\nCSeq: 1 {method}\r\nContact: <sip:a@{at}>\r\n\
         Max-Forwards: 70\r\nExpires: 60\r\n{more}Content-Length: {len}\r\n\r\n{body}"
    )
}

#[test]
fn a_flood_of_requests_costs_little_whatever_becomes_of_them() {
    let site = Site::start("sip-memory");
    let register = ("REGISTER", "sip:a.example");
    let refused = site.flood(16, 400, ("REGISTER", "sip:nobody.example"), ("", ""));
    let waiting = site.flood(30, 400, register, ("", ""));
    assert!(site.registered() > 10);
    let fields = "a:\r\n".repeat(500);
    let many = site.flood(30, 50, register, (&fields, ""));
    let long = format!("Subject: {}\r\n", "a".repeat(30_000));
    let long = site.flood(30, 50, register, (&long, ""));
    let counters = site.gateway.counters();
    assert!(counters.overload.value() > 1_000, "it was a flood");
    let growth = [refused, waiting, many, long];
    assert!(
        growth.iter().all(|bytes| *bytes <= GROWTH_MAX),
        "{growth:?}"
    );
}

/// Calls of one host that hears what it is told, and that the operator has not named. The phone says nothing.
#[test]
fn calls_of_one_host_that_nobody_answers_cost_little() {
    let site = Site::start("sip-silent-memory");
    let host = site.proven_host();
    let growth = site.flood_from(&host, 1_000, ("INVITE", "sip:b@a.example"), (AUDIO, OFFER));
    assert_little(&site, growth);
}

/// The same, and it rings.
#[test]
fn calls_of_one_host_that_ring_cost_little() {
    let site = Site::start("sip-ringing-memory");
    let host = site.proven_host();
    let growth = site.while_answered("180 Ringing", || {
        site.flood_from(&host, 1_000, ("INVITE", "sip:b@a.example"), (AUDIO, OFFER))
    });
    assert_little(&site, growth);
}

/// The same, and it is busy.
#[test]
fn calls_of_one_host_that_are_refused_cost_little() {
    let site = Site::start("sip-busy-memory");
    let host = site.proven_host();
    let growth = site.while_answered("486 Busy Here", || {
        MOST.store(LIVE.load(Ordering::Relaxed), Ordering::Relaxed);
        site.calls_in_vain(&host, "sip:b@a.example", 10_000..11_000);
        MOST.load(Ordering::Relaxed) - site.before
    });
    assert!(growth <= GROWTH_MAX, "{growth}");
}

fn assert_little(site: &Site, growth: usize) {
    let counters = site.gateway.counters();
    assert!(growth <= GROWTH_MAX, "{growth}");
    assert!(counters.overload.value() > 500, "it was a flood");
}

/// Calls to a phone that never answers, from hosts that nobody has seen.
#[test]
fn a_flood_of_calls_costs_little() {
    let site = Site::start("sip-calls-memory");
    let invite = ("INVITE", "sip:b@a.example");
    let (kind, offer) = (AUDIO, OFFER);
    let refused = site.flood(16, 200, ("INVITE", "sip:b@nobody.example"), (kind, offer));
    let ringing = site.flood(30, 200, invite, (kind, offer));
    assert!(
        site.registered() > 10,
        "some have reached the phone's server"
    );
    let long = offer.to_owned() + &"a=x\r\n".repeat(5_000);
    let long = site.flood(30, 50, invite, (kind, &long));
    let fields = kind.to_owned() + &"a:\r\n".repeat(500);
    let many = site.flood(30, 50, invite, (&fields, offer));
    // Each host takes the place of another one, and the phone rings.
    let rung = std::thread::scope(|scope| {
        scope.spawn(|| site.registrar.rings_until("END"));
        let rung = site.flood(5_500, 1, invite, (kind, offer));
        site.asker
            .send_to(b"END", site.registrar.address())
            .unwrap();
        rung
    });
    // The same while it says nothing.
    let spread = site.flood(5_500, 1, invite, (kind, offer));
    let counters = site.gateway.counters();
    assert!(counters.overload.value() > 1_000, "it was a flood");
    let growth = [refused, ringing, long, many, spread, rung];
    assert!(
        growth.iter().all(|bytes| *bytes <= GROWTH_MAX),
        "{growth:?}"
    );
}

/// Requests by TCP that are long, come as fast as they can be sent, and are all refused.
fn refused_by_tcp(count: usize) -> impl Iterator<Item = String> {
    let at = SocketAddr::from(([127, 0, 1, 0], 5_060));
    let subject = format!("Subject: {}\r\n", "a".repeat(8_000));
    let refused = "sip:nobody.example";
    let name = format!("From: \"{}\" <", "a".repeat(8_000));
    (0..count).map(move |number| {
        let asked = request("REGISTER", refused, at, number, (&subject, ""));
        let asked = asked.replace("SIP/2.0/UDP", "SIP/2.0/TCP");
        asked.replace("From: <", &name)
    })
}

#[test]
fn a_flood_by_tcp_whose_answers_nobody_reads_costs_little() {
    let site = Site::start("sip-unread-memory");
    let to = site.gateway.local();
    MOST.store(LIVE.load(Ordering::Relaxed), Ordering::Relaxed);
    let mut tcp = TcpStream::connect(to).unwrap();
    let writes = std::thread::spawn(move || {
        let mut asked = refused_by_tcp(usize::MAX);
        while tcp.write_all(asked.next().unwrap().as_bytes()).is_ok() {}
    });
    let growth = || MOST.load(Ordering::Relaxed) - site.before;
    let mut number = 0;
    while !writes.is_finished() && growth() <= GROWTH_MAX {
        number += 1;
        site.is_there(number);
    }
    assert!(growth() <= GROWTH_MAX, "{}", growth());
    assert_eq!(site.gateway.counters().unread.value(), 1);
}

#[test]
fn a_flood_by_tcp_that_is_read_costs_little() {
    let site = Site::start("sip-fast-memory");
    let to = site.gateway.local();
    MOST.store(LIVE.load(Ordering::Relaxed), Ordering::Relaxed);
    let mut tcp = TcpStream::connect(to).unwrap();
    let mut reads = tcp.try_clone().unwrap();
    let reads = std::thread::spawn(move || {
        let mut bytes = vec![0; 65_536];
        while reads.read(&mut bytes).is_ok_and(|len| len > 0) {}
    });
    for asked in refused_by_tcp(2_500) {
        tcp.write_all(asked.as_bytes()).unwrap();
    }
    site.is_there(1);
    let growth = MOST.load(Ordering::Relaxed) - site.before;
    tcp.shutdown(std::net::Shutdown::Both).unwrap();
    reads.join().unwrap();
    assert!(growth <= GROWTH_MAX, "{growth}");
    assert_eq!(site.gateway.counters().flood.value(), 0);
}
