//! A name server on loopback that answers as a test wants.

#![allow(dead_code, reason = "each test program uses a part of it")]

use hickory_resolver::proto::op::{Message, MessageType, Query, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// The size that fits into a datagram without fragmentation.
const DATAGRAM_BYTES: usize = 1_232;

/// An answer.
pub(crate) enum Reply {
    Records(Vec<Record>),
    NoSuchName,
    Failure,
    /// Exactly these bytes, preceded by the number of the question if requested.
    Bytes(Vec<u8>, bool),
    Silence,
}

type Answer = dyn Fn(&str, RecordType) -> Reply + Send + Sync;

/// A running name server.
pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    asked: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Answers with `answer`, which gets the name, in lower case and without the dot at its end, and the type.
    pub(crate) fn start(
        answer: impl Fn(&str, RecordType) -> Reply + Send + Sync + 'static,
    ) -> Server {
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
    let question = Message::from_vec(question).ok()?;
    let query: &Query = question.queries.first()?;
    asked.fetch_add(1, Ordering::AcqRel);
    let name = query.name().to_ascii().to_ascii_lowercase();
    let mut message = Message::response(question.metadata.id, question.metadata.op_code);
    message.metadata.message_type = MessageType::Response;
    message.metadata.recursion_desired = true;
    message.metadata.recursion_available = true;
    message.add_query(query.clone());
    match answer(name.trim_end_matches('.'), query.query_type()) {
        Reply::Records(records) => {
            message.insert_answers(records);
        }
        Reply::NoSuchName => message.metadata.response_code = ResponseCode::NXDomain,
        Reply::Failure => message.metadata.response_code = ResponseCode::ServFail,
        Reply::Bytes(bytes, numbered) => {
            let id = question.metadata.id.to_be_bytes();
            return Some(match numbered {
                true => [&id[..], &bytes].concat(),
                false => bytes,
            });
        }
        Reply::Silence => return None,
    }
    let whole = message.to_vec().unwrap();
    if whole.len() <= most {
        return Some(whole);
    }
    message.answers.clear();
    message.metadata.truncation = true;
    Some(message.to_vec().unwrap())
}

/// Creates an SRV record.
pub(crate) fn srv(name: &str, ttl_s: u32, numbers: [u16; 3], target: &str) -> Record {
    let [priority, weight, port] = numbers;
    let srv = SRV::new(priority, weight, port, of(target));
    Record::from_rdata(of(name), ttl_s, RData::SRV(srv))
}

/// Creates an address record.
pub(crate) fn address(name: &str, ttl_s: u32, address: &str) -> Record {
    let data = match address.parse().unwrap() {
        IpAddr::V4(v4) => RData::A(A(v4)),
        IpAddr::V6(v6) => RData::AAAA(AAAA(v6)),
    };
    Record::from_rdata(of(name), ttl_s, data)
}

/// Creates a CNAME record.
pub(crate) fn alias(name: &str, target: &str) -> Record {
    Record::from_rdata(of(name), 60, RData::CNAME(CNAME(of(target))))
}

fn of(name: &str) -> Name {
    let labels = name.split('.').filter(|label| !label.is_empty());
    Name::from_labels(labels.map(str::as_bytes)).unwrap()
}
