//! A minimal SIP for tests: just enough to make a call, to answer one, and to send garbage.
//!
//! Real phones are in `phone`. This module does what they cannot: it measures to the microsecond,
//! checks the media packet by packet, and sends messages that no phone sends.

use net::netns::Namespace;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the test waits for an answer. Only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time after which a request is sent again: T1 of RFC 3261.
const AGAIN: Duration = Duration::from_millis(500);
/// The time between two packets of speech.
const FRAME: Duration = Duration::from_millis(20);

/// A message, as text.
#[derive(Debug, Clone)]
pub(crate) struct Message(pub(crate) String);

impl Message {
    pub(crate) fn parse(bytes: &[u8]) -> Message {
        Message(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Returns the method of a request; `SIP/2.0` of a response.
    pub(crate) fn method(&self) -> &str {
        self.0.split(' ').next().unwrap_or("")
    }

    pub(crate) fn status(&self) -> Option<u16> {
        let rest = self.0.strip_prefix("SIP/2.0 ")?;
        rest.split(' ').next()?.trim().parse().ok()
    }

    /// Returns the values of a header field, whose compact form is `short`, unchanged.
    pub(crate) fn all(&self, name: &str, short: &str) -> Vec<&str> {
        let head = self.0.split("\r\n\r\n").next().unwrap_or("");
        let fields = head
            .split("\r\n")
            .skip(1)
            .filter_map(|line| line.split_once(':'));
        let named = fields.filter(|(field, _)| {
            let field = field.trim();
            field.eq_ignore_ascii_case(name) || field.eq_ignore_ascii_case(short)
        });
        named.map(|(_, value)| value.trim()).collect()
    }

    pub(crate) fn one(&self, name: &str, short: &str) -> &str {
        self.all(name, short).first().copied().unwrap_or("")
    }

    pub(crate) fn call_id(&self) -> &str {
        self.one("Call-ID", "i")
    }

    pub(crate) fn body(&self) -> &str {
        self.0.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }

    /// Returns the address for audio in the description.
    pub(crate) fn media(&self) -> Option<SocketAddr> {
        let field = |start: &str| {
            self.body()
                .lines()
                .find_map(|line| line.strip_prefix(start))
        };
        let ip = field("c=IN IP4 ")?.trim();
        let port = field("m=audio ")?.split(' ').next()?;
        format!("{ip}:{port}").parse().ok()
    }
}

/// Makes the description of audio at an address, with further lines at its end.
pub(crate) fn description(at: SocketAddr, more: &str) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 {ip}\r\ns=-\r\nc=IN IP4 {ip}\r\nt=0 0\r\n\
         m=audio {} RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\na=sendrecv\r\n{more}",
        at.port(),
        ip = at.ip()
    )
}

fn sockets(network: &Namespace, ip: Ipv4Addr) -> (UdpSocket, UdpSocket) {
    let bind = || {
        let sip = UdpSocket::bind((ip, 5060));
        let rtp = UdpSocket::bind((ip, 0));
        Ok::<_, std::io::Error>((sip?, rtp?))
    };
    network.run(bind).unwrap().unwrap()
}

/// When a call reached each state, from its INVITE on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times {
    pub(crate) ringing: Option<Duration>,
    pub(crate) answered: Option<Duration>,
}

/// A caller.
#[derive(Debug)]
pub(crate) struct Caller {
    sip: UdpSocket,
    pub(crate) rtp: UdpSocket,
    /// The destination of all requests.
    next_hop: SocketAddr,
    calls: u32,
    /// Further lines of its descriptions; below, of its INVITEs' headers.
    pub(crate) announces: String,
    pub(crate) supports: String,
    /// The messages that were sent and received, for debugging.
    pub(crate) trace: String,
}

/// An answered call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) times: Times,
    /// The destination of the media.
    pub(crate) media: SocketAddr,
    pub(crate) answer: Message,
    from: String,
    target: String,
    routes: String,
}

impl Caller {
    pub(crate) fn new(network: &Namespace, ip: Ipv4Addr, next_hop: SocketAddr) -> Caller {
        let (sip, rtp) = sockets(network, ip);
        Caller {
            sip,
            rtp,
            next_hop,
            calls: 0,
            announces: String::new(),
            supports: String::new(),
            trace: String::new(),
        }
    }

    /// Makes a call. Returns the code if the call is refused.
    pub(crate) fn call(&mut self, uri: &str) -> Result<Call, u16> {
        self.calls += 1;
        let here = self.sip.local_addr().unwrap();
        let id = format!("{}-{}@{}", self.calls, std::process::id(), here.ip());
        let from = format!("<sip:caller@{here}>;tag=f{}", self.calls);
        let body = description(self.rtp.local_addr().unwrap(), &self.announces);
        let head = |method: &str, to: &str, branch: u32| {
            format!(
                "Via: SIP/2.0/UDP {here};branch=z9hG4bK{id}{branch};rport\r\n\
                 Max-Forwards: 70\r\nFrom: {from}\r\nTo: {to}\r\nCall-ID: {id}\r\n\
                 CSeq: 1 {method}\r\nContact: <sip:caller@{here}>\r\n"
            )
        };
        let invite = format!(
            "INVITE {uri} SIP/2.0\r\n{}{}Content-Type: application/sdp\r\n\
             Content-Length: {}\r\n\r\n{body}",
            head("INVITE", &format!("<{uri}>"), 1),
            self.supports,
            body.len()
        );
        let started = Instant::now();
        let mut times = Times::default();
        self.send(&invite);
        let (mut sent, mut heard) = (started, false);
        let answer = loop {
            assert!(started.elapsed() < PATIENCE, "no answer:\n{}", self.trace);
            if !heard && sent.elapsed() > AGAIN {
                self.send(&invite);
                sent = Instant::now();
            }
            let Some(message) = self.receive(AGAIN) else {
                continue;
            };
            if message.call_id() != id || message.one("CSeq", "").ends_with("BYE") {
                continue;
            }
            heard = true;
            match message.status() {
                Some(101..=199) => {
                    times.ringing.get_or_insert_with(|| started.elapsed());
                }
                Some(200..=299) => {
                    times.answered = Some(started.elapsed());
                    break message;
                }
                Some(code @ 300..) => {
                    let ack = head("ACK", message.one("To", "t"), 1);
                    self.send(&format!(
                        "ACK {uri} SIP/2.0\r\n{ack}Content-Length: 0\r\n\r\n"
                    ));
                    return Err(code);
                }
                _ => {}
            }
        };
        let target = answer.one("Contact", "m");
        let target = target.split(['<', '>']).nth(1).unwrap_or(target).to_owned();
        let mut routes = String::new();
        for route in answer.all("Record-Route", "").iter().rev() {
            for route in route.split(',').rev() {
                write!(routes, "Route: {}\r\n", route.trim()).unwrap();
            }
        }
        let call = Call {
            id,
            times,
            media: answer
                .media()
                .unwrap_or_else(|| panic!("no media:\n{}", answer.0)),
            answer,
            from,
            target,
            routes,
        };
        self.request(&call, "ACK", 1);
        Ok(call)
    }

    /// Ends a call, and returns the code of the answer.
    pub(crate) fn end(&mut self, call: &Call) -> Option<u16> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            self.request(call, "BYE", 2);
            let sent = Instant::now();
            while sent.elapsed() < AGAIN {
                let Some(message) = self.receive(AGAIN) else {
                    continue;
                };
                if message.call_id() == call.id && message.one("CSeq", "").ends_with("BYE") {
                    return message.status();
                }
            }
        }
        None
    }

    fn request(&mut self, call: &Call, method: &str, cseq: u32) {
        let here = self.sip.local_addr().unwrap();
        let text = format!(
            "{method} {target} SIP/2.0\r\nVia: SIP/2.0/UDP {here};branch=z9hG4bK{id}{method};rport\r\n\
             {routes}Max-Forwards: 70\r\nFrom: {from}\r\nTo: {to}\r\nCall-ID: {id}\r\n\
             CSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n",
            target = call.target,
            id = call.id,
            routes = call.routes,
            from = call.from,
            to = call.answer.one("To", "t"),
        );
        self.send(&text);
    }

    fn send(&mut self, text: &str) {
        self.trace += &format!("--> {}\n{text}\n", self.next_hop);
        self.sip.send_to(text.as_bytes(), self.next_hop).unwrap();
    }

    fn receive(&mut self, patience: Duration) -> Option<Message> {
        self.sip.set_read_timeout(Some(patience)).unwrap();
        let mut buffer = [0; 65_536];
        let (len, from) = self.sip.recv_from(&mut buffer).ok()?;
        let message = Message::parse(&buffer[..len]);
        self.trace += &format!("<-- {from}\n{}\n", message.0);
        Some(message)
    }
}

/// Makes a response to a request, and returns it with its destination.
fn respond(
    request: &Message,
    from: SocketAddr,
    code: &str,
    more: &str,
    body: &str,
) -> (String, SocketAddr) {
    let mut text = format!("SIP/2.0 {code}\r\n");
    for (name, short) in [("Via", "v"), ("Record-Route", "")] {
        for value in request.all(name, short) {
            write!(text, "{name}: {value}\r\n").unwrap();
        }
    }
    let mut to = request.one("To", "t").to_owned();
    if !to.contains(";tag=") {
        to += ";tag=callee";
    }
    write!(
        text,
        "From: {}\r\nTo: {to}\r\nCall-ID: {}\r\nCSeq: {}\r\n{more}Content-Length: {}\r\n\r\n{body}",
        request.one("From", "f"),
        request.call_id(),
        request.one("CSeq", ""),
        body.len()
    )
    .unwrap();
    (text, from)
}

/// What a callee has seen of a call.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// The caller's address for media.
    pub(crate) media: Option<SocketAddr>,
    pub(crate) invite: Message,
    pub(crate) ended: Option<Instant>,
}

/// A callee that rings at once and answers at once, for every call, until it is dropped.
#[derive(Debug)]
pub(crate) struct Callee {
    pub(crate) rtp: UdpSocket,
    calls: Arc<Mutex<BTreeMap<String, Seen>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Callee {
    pub(crate) fn new(network: &Namespace, ip: Ipv4Addr) -> Callee {
        Callee::who_announces(network, ip, "")
    }

    /// Makes a callee whose descriptions also have these lines.
    pub(crate) fn who_announces(network: &Namespace, ip: Ipv4Addr, lines: &str) -> Callee {
        let (sip, rtp) = sockets(network, ip);
        let calls = Arc::new(Mutex::new(BTreeMap::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let media = description(rtp.local_addr().unwrap(), lines);
        let (calls_too, stop_too) = (Arc::clone(&calls), Arc::clone(&stop));
        let thread = std::thread::spawn(move || answer(&sip, &media, &calls_too, &stop_too));
        Callee {
            rtp,
            calls,
            stop,
            thread: Some(thread),
        }
    }

    /// Returns what the callee has seen of its calls. The Call-ID may differ from the caller's.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.calls.lock().unwrap().values().cloned().collect()
    }
}

impl Drop for Callee {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

fn answer(
    sip: &UdpSocket,
    description: &str,
    calls: &Mutex<BTreeMap<String, Seen>>,
    stop: &AtomicBool,
) {
    let here = sip.local_addr().unwrap();
    sip.set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let mut buffer = [0; 65_536];
    let contact = format!("Contact: <sip:callee@{here}>\r\n");
    while !stop.load(Ordering::Relaxed) {
        let Ok((len, from)) = sip.recv_from(&mut buffer) else {
            continue;
        };
        let request = Message::parse(&buffer[..len]);
        let send = |(text, to): (String, SocketAddr)| {
            let _ = sip.send_to(text.as_bytes(), to);
        };
        match request.method() {
            "INVITE" => {
                let seen = Seen {
                    media: request.media(),
                    invite: request.clone(),
                    ended: None,
                };
                calls
                    .lock()
                    .unwrap()
                    .insert(request.call_id().to_owned(), seen);
                send(respond(&request, from, "180 Ringing", &contact, ""));
                let more = format!("{contact}Content-Type: application/sdp\r\n");
                send(respond(&request, from, "200 OK", &more, description));
            }
            "BYE" => {
                if let Some(seen) = calls.lock().unwrap().get_mut(request.call_id()) {
                    seen.ended.get_or_insert_with(Instant::now);
                }
                send(respond(&request, from, "200 OK", "", ""));
            }
            "ACK" | "SIP/2.0" => {}
            _ => send(respond(&request, from, "200 OK", "", "")),
        }
    }
}

/// Received packets of speech: the time and the number of each.
pub(crate) type Heard = Vec<(Instant, u16)>;

/// Sends speech from `rtp` to `to` for this time, and returns what arrived meanwhile.
pub(crate) fn speak(rtp: &UdpSocket, to: SocketAddr, length: Duration) -> Heard {
    let mut heard = Heard::new();
    let started = Instant::now();
    let mut seq = 0_u16;
    let mut buffer = [0; 2048];
    while started.elapsed() < length {
        let next = started + FRAME * u32::from(seq);
        let left = next.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let mut packet = vec![0x80, 0];
            packet.extend(seq.to_be_bytes());
            packet.extend((u32::from(seq) * 160).to_be_bytes());
            packet.extend(0x5176_0000_u32.to_be_bytes());
            packet.extend([0xff; 160]);
            let _ = rtp.send_to(&packet, to);
            seq += 1;
            continue;
        }
        rtp.set_read_timeout(Some(left)).unwrap();
        if let Ok((len, _)) = rtp.recv_from(&mut buffer)
            && len == 172
        {
            heard.push((Instant::now(), u16::from_be_bytes([buffer[2], buffer[3]])));
        }
    }
    heard
}

/// Returns the longest time in which nothing arrived.
pub(crate) fn longest_gap(heard: &Heard) -> Duration {
    let gaps = heard.windows(2).map(|pair| pair[1].0 - pair[0].0);
    gaps.max().unwrap_or(Duration::MAX)
}

/// Returns how many packets between the first and the last number never came.
pub(crate) fn missed(heard: &Heard) -> usize {
    let mut numbers: Vec<u16> = heard.iter().map(|(_, seq)| *seq).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let span = numbers.last().zip(numbers.first());
    span.map_or(0, |(last, first)| {
        usize::from(last - first) + 1 - numbers.len()
    })
}
