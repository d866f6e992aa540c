//! A name server on loopback that answers as a test wants.

#![allow(dead_code, reason = "each test program uses a part of it")]

use domain::base::iana::{Class, Rcode};
use domain::base::name::{NameBuilder, ToName};
use domain::base::{Message, MessageBuilder, Name, Rtype, Ttl};
use domain::rdata::{A, Aaaa, AllRecordData, Cname, Srv};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// The size that fits into a datagram without fragmentation.
const DATAGRAM_BYTES: usize = 1_232;

/// A record with names and data of its own.
pub(crate) type Record = domain::base::Record<Name<Vec<u8>>, AllRecordData<Vec<u8>, Name<Vec<u8>>>>;

/// An answer.
pub(crate) enum Reply {
    Records(Vec<Record>),
    NoSuchName,
    Failure,
    /// Exactly these bytes, preceded by the number of the question if requested.
    Bytes(Vec<u8>, bool),
    Silence,
}

type Answer = dyn Fn(&str, Rtype) -> Reply + Send + Sync;

/// A running name server.
pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    asked: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Answers with `answer`, which gets the name, in lower case and without the dot at its end, and the type.
    pub(crate) fn start(answer: impl Fn(&str, Rtype) -> Reply + Send + Sync + 'static) -> Server {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            // Another program may use the same port for TCP.
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
                break (udp, tcp);
            }
        };
        let at = udp.local_addr().unwrap();
        let (asked, stop) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let answer: Arc<Answer> = Arc::new(answer);
        let mut threads = Vec::new();
        let ends = (Arc::clone(&answer), Arc::clone(&asked), Arc::clone(&stop));
        threads.push(std::thread::spawn(move || {
            let (answer, asked, stop) = ends;
            let mut buffer = [0; 4_096];
            while let Ok((len, from)) = udp.recv_from(&mut buffer) {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                if let Some(said) = reply(&*answer, &asked, &buffer[..len], DATAGRAM_BYTES) {
                    let _ = udp.send_to(&said, from);
                }
            }
        }));
        let ends = (answer, Arc::clone(&asked), Arc::clone(&stop));
        threads.push(std::thread::spawn(move || {
            let (answer, asked, stop) = ends;
            for stream in tcp.incoming() {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                let (answer, asked) = (Arc::clone(&answer), Arc::clone(&asked));
                // The thread ends with the client's connection.
                std::thread::spawn(move || serve(stream.unwrap(), &*answer, &asked));
            }
        }));
        Server {
            at,
            asked,
            stop,
            threads,
        }
    }

    /// Returns how many questions have arrived.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Acquire)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let waker = UdpSocket::bind("127.0.0.1:0").unwrap();
        let _ = waker.send_to(&[], self.at);
        let _ = TcpStream::connect(self.at);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(std::thread::panicking() || ended.is_ok());
        }
    }
}

fn serve(mut stream: TcpStream, answer: &Answer, asked: &AtomicUsize) {
    let mut len = [0; 2];
    while stream.read_exact(&mut len).is_ok() {
        let mut question = vec![0; u16::from_be_bytes(len).into()];
        if stream.read_exact(&mut question).is_err() {
            return;
        }
        if let Some(said) = reply(answer, asked, &question, 65_535) {
            let whole = [&(said.len() as u16).to_be_bytes()[..], &said].concat();
            if stream.write_all(&whole).is_err() {
                return;
            }
        }
    }
}

fn reply(answer: &Answer, asked: &AtomicUsize, question: &[u8], most: usize) -> Option<Vec<u8>> {
    let question = Message::from_octets(question).ok()?;
    let asks = question.first_question()?;
    asked.fetch_add(1, Ordering::AcqRel);
    let name = asks.qname().to_string().to_ascii_lowercase();
    let (records, code) = match answer(name.trim_end_matches('.'), asks.qtype()) {
        Reply::Records(records) => (records, Rcode::NOERROR),
        Reply::NoSuchName => (Vec::new(), Rcode::NXDOMAIN),
        Reply::Failure => (Vec::new(), Rcode::SERVFAIL),
        Reply::Bytes(bytes, numbered) => {
            let id = question.header().id().to_be_bytes();
            return Some(match numbered {
                true => [&id[..], &bytes].concat(),
                false => bytes,
            });
        }
        Reply::Silence => return None,
    };
    let message = |records: &[Record], is_cut: bool| {
        let message = MessageBuilder::new_vec();
        let mut message = message.start_answer(&question, code).unwrap();
        message.header_mut().set_ra(true);
        message.header_mut().set_tc(is_cut);
        for record in records {
            message.push(record).unwrap();
        }
        message.finish()
    };
    let whole = message(&records, false);
    if whole.len() <= most {
        return Some(whole);
    }
    Some(message(&[], true))
}

/// Creates an SRV record.
pub(crate) fn srv(name: &str, ttl_s: u32, numbers: [u16; 3], target: &str) -> Record {
    let [priority, weight, port] = numbers;
    let srv = Srv::new(priority, weight, port, of(target));
    record(name, ttl_s, srv)
}

/// Creates an address record.
pub(crate) fn address(name: &str, ttl_s: u32, address: &str) -> Record {
    match address.parse().unwrap() {
        IpAddr::V4(v4) => record(name, ttl_s, A::new(v4)),
        IpAddr::V6(v6) => record(name, ttl_s, Aaaa::new(v6)),
    }
}

/// Creates a CNAME record.
pub(crate) fn alias(name: &str, target: &str) -> Record {
    record(name, 60, Cname::new(of(target)))
}

fn record(
    name: &str,
    ttl_s: u32,
    data: impl Into<AllRecordData<Vec<u8>, Name<Vec<u8>>>>,
) -> Record {
    Record::new(of(name), Class::IN, Ttl::from_secs(ttl_s), data.into())
}

fn of(name: &str) -> Name<Vec<u8>> {
    let mut built = NameBuilder::new_vec();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        built.append_label(label.as_bytes()).unwrap();
    }
    built.into_name().unwrap().to_name()
}
