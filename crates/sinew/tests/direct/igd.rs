//! A router that knows only UPnP: it answers searches, sends its description, and opens ports by nftables.

use crate::gateway::{LOOK, lead};
use net::netns::Namespace;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, spawn};
use wire::mapping::upnp::ssdp::GROUP;

/// Another host of the house has this port outside.
const TAKEN: &str = "7700";
const SERVICE: &str = "urn:schemas-upnp-org:service:WANIPConnection:1";

/// A running router, until it is dropped.
pub(crate) struct Igd {
    /// The port outside that is open.
    pub(crate) open: Arc<Mutex<Option<u16>>>,
    router: Namespace,
    at: SocketAddr,
    stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Igd {
    /// Answers hosts of `router` at `inside`. It reports `outside` as its address outside.
    pub(crate) fn start(router: &Namespace, inside: Ipv4Addr, outside: Ipv4Addr) -> Igd {
        let sockets = router.run(|| {
            let searched = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, GROUP.port())).unwrap();
            searched.join_multicast_v4(GROUP.ip(), &inside).unwrap();
            (searched, TcpListener::bind((inside, 0)).unwrap())
        });
        let (searched, listener) = sockets.unwrap();
        searched.set_read_timeout(Some(LOOK)).unwrap();
        let at = listener.local_addr().unwrap();
        let (open, stopping) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let again = || Namespace::open(router.path().to_str().unwrap()).unwrap();
        let server = Server {
            router: again(),
            outside,
            open: Arc::clone(&open),
        };
        let [stop, stop_too] = [Arc::clone(&stopping), Arc::clone(&stopping)];
        Igd {
            open,
            router: again(),
            at,
            stopping,
            threads: vec![
                spawn(move || found(&searched, at, &stop)),
                spawn(move || {
                    for stream in listener.incoming() {
                        if stop_too.load(Ordering::Relaxed) {
                            return;
                        }
                        server.serve(stream.unwrap());
                    }
                }),
            ],
        }
    }
}

impl Drop for Igd {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        let at = self.at;
        // The connection wakes the thread that accepts.
        let woken = self.router.run(|| TcpStream::connect(at).is_ok()).unwrap();
        let ended = self.threads.drain(..).all(|it| it.join().is_ok());
        assert!((woken && ended) || std::thread::panicking());
    }
}

/// Answers searches for a gateway of version 1.
fn found(searched: &UdpSocket, at: SocketAddr, stop: &AtomicBool) {
    let device = "urn:schemas-upnp-org:device:InternetGatewayDevice:1";
    let mut buffer = [0; 1_500];
    while !stop.load(Ordering::Relaxed) {
        let Ok((len, from)) = searched.recv_from(&mut buffer) else {
            continue;
        };
        let search = String::from_utf8_lossy(&buffer[..len]);
        if search.starts_with("M-SEARCH") && search.contains(device) {
            let answer = format!(
                "HTTP/1.1 200 OK\r\nST: {device}\r\nLOCATION: http://{at}/root.xml\r\n\r\n"
            );
            searched.send_to(answer.as_bytes(), from).unwrap();
        }
    }
}

struct Server {
    router: Namespace,
    outside: Ipv4Addr,
    open: Arc<Mutex<Option<u16>>>,
}

impl Server {
    fn serve(&self, mut stream: TcpStream) {
        let from = stream.peer_addr().unwrap();
        let request = read(&mut stream);
        if request.is_empty() {
            return;
        }
        let answer = match request.starts_with("GET /root.xml ") {
            true => {
                let text = format!(
                    "<root><device><serviceList><service><serviceType>{SERVICE}</serviceType>\
                     <controlURL>/ctl</controlURL></service></serviceList></device></root>"
                );
                let (one, other) = text.split_at(20);
                format!(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{one}\r\n{:x}\r\n{other}\r\n0\r\n\r\n",
                    one.len(),
                    other.len()
                )
            }
            false => self.act(&request, from),
        };
        stream.write_all(answer.as_bytes()).unwrap();
    }

    fn act(&self, request: &str, from: SocketAddr) -> String {
        let argument = |name: &str| {
            let (_, rest) = request.split_once(&format!("<{name}>"))?;
            rest.split('<').next()
        };
        let port = |name: &str| argument(name).unwrap().parse::<u16>().unwrap();
        let called = |action: &str| request.contains(&format!("\"{SERVICE}#{action}\""));
        if called("GetExternalIPAddress") {
            let ip = self.outside;
            let result = format!("<NewExternalIPAddress>{ip}</NewExternalIPAddress>");
            return done("GetExternalIPAddress", &result);
        }
        let outside = port("NewExternalPort");
        if called("DeletePortMapping") {
            lead(&self.router, outside, None);
            *self.open.lock().unwrap() = None;
            return done("DeletePortMapping", "");
        }
        assert!(called("AddPortMapping"), "{request}");
        assert_eq!(argument("NewInternalClient"), Some(&*from.ip().to_string()));
        if argument("NewExternalPort") == Some(TAKEN) {
            return answer(
                "500 Internal Server Error",
                "<s:Fault><detail><UPnPError><errorCode>718</errorCode></UPnPError></detail></s:Fault>",
            );
        }
        let to = SocketAddr::new(from.ip(), port("NewInternalPort"));
        lead(&self.router, outside, Some(to));
        *self.open.lock().unwrap() = Some(outside);
        done("AddPortMapping", "")
    }
}

/// Reads the whole request, whose length is in its head. Returns an empty text if the request ends early.
fn read(stream: &mut TcpStream) -> String {
    let (mut text, mut part) = (String::new(), [0; 2_048]);
    loop {
        let len = stream.read(&mut part).unwrap();
        if len == 0 {
            return String::new();
        }
        text.push_str(core::str::from_utf8(&part[..len]).unwrap());
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lengths = head
                .lines()
                .filter_map(|it| it.strip_prefix("Content-Length: "));
            let len: usize = lengths.map(|it| it.parse::<usize>().unwrap()).sum();
            if body.len() >= len {
                return text;
            }
        }
        assert!(len > 0, "the request ends early: {text}");
    }
}

fn done(action: &str, result: &str) -> String {
    let body = format!("<u:{action}Response xmlns:u=\"{SERVICE}\">{result}</u:{action}Response>");
    answer("200 OK", &body)
}

fn answer(status: &str, body: &str) -> String {
    let body = format!(
        "<?xml version=\"1.0\"?><s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body>{body}</s:Body></s:Envelope>"
    );
    let len = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\n\r\n{body}")
}
