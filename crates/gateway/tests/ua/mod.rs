//! Ends of calls, as far as a test needs them: messages as text, one socket each.

#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "a test that cannot go on says where"
)]

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long a test waits for something that must come. Only a failure takes this long.
const PATIENCE: Duration = Duration::from_secs(20);

/// An end: a socket for SIP and one for RTP.
pub struct Ua {
    pub sip: UdpSocket,
    pub rtp: UdpSocket,
    pub tag: &'static str,
    /// Messages that were received; [`Ua::recv`] ignores their retransmissions.
    seen: Vec<String>,
}

/// A SIP message.
#[derive(Clone, Debug)]
pub struct Message {
    pub text: String,
    pub from: SocketAddr,
}

impl Ua {
    pub fn new(tag: &'static str) -> Ua {
        Ua::at(tag, [127, 0, 0, 1].into())
    }

    pub fn at(tag: &'static str, ip: IpAddr) -> Ua {
        let [sip, rtp] = [(); 2].map(|()| {
            let socket = UdpSocket::bind((ip, 0)).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket
        });
        Ua {
            sip,
            rtp,
            tag,
            seen: Vec::new(),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.sip.local_addr().unwrap()
    }

    pub fn send(&self, to: SocketAddr, text: &str) {
        self.sip.send_to(text.as_bytes(), to).unwrap();
    }

    /// Returns the next message that is neither a retransmission nor a 100.
    pub fn recv(&mut self) -> Message {
        let mut bytes = [0; 9_000];
        loop {
            let (len, from) = self.sip.recv_from(&mut bytes).unwrap();
            let text = String::from_utf8(bytes[..len].to_vec()).unwrap();
            if text.starts_with("SIP/2.0 100") || self.seen.contains(&text) {
                continue;
            }
            self.seen.push(text.clone());
            return Message { text, from };
        }
    }

    /// Returns the next message that begins with `start`, and ignores others before it.
    pub fn until(&mut self, start: &str) -> Message {
        loop {
            let message = self.recv();
            if message.text.starts_with(start) {
                return message;
            }
        }
    }

    /// Returns a description of audio at this end's RTP socket.
    pub fn sdp(&self, more: &str) -> String {
        sdp(self.rtp.local_addr().unwrap(), more)
    }

    /// Answers a request, with a tag of this end and its Contact.
    pub fn respond(&self, request: &Message, status: &str, body: &str) {
        let mut head = vec![format!("SIP/2.0 {status}")];
        for name in ["Via", "Record-Route", "From"] {
            head.extend(request.lines(name));
        }
        let to = request.one("To");
        head.push(match to.contains("tag=") {
            true => format!("To: {to}"),
            false => format!("To: {to};tag={}", self.tag),
        });
        for name in ["Call-ID", "CSeq"] {
            head.extend(request.lines(name));
        }
        head.push(format!("Contact: <sip:{}>", self.address()));
        self.send(request.from, &with_body(&head, body));
    }

    /// Answers every INVITE with ringing, and nothing else, until a message begins with `end`.
    pub fn rings_until(&self, end: &str) {
        self.answers_until("180 Ringing", end);
    }

    /// Answers whoever calls so, and nothing else, until a message begins so.
    pub fn answers_until(&self, status: &str, end: &str) {
        let mut bytes = [0; 65_536];
        while let Ok((len, from)) = self.sip.recv_from(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..len]).into_owned();
            if text.starts_with("INVITE") {
                self.respond(&Message { text, from }, status, "");
            } else if text.starts_with(end) {
                break;
            }
        }
    }

    /// Returns an INVITE outside any dialog.
    pub fn invite(&self, to: &str, more: &[&str], body: &str) -> String {
        let at = self.address();
        let mut head = vec![
            format!("INVITE sip:{to} SIP/2.0"),
            format!("Via: SIP/2.0/UDP {at};branch={}", branch()),
            format!("From: <sip:{}@a.example>;tag={}", self.tag, self.tag),
            format!("To: <sip:{to}>"),
            format!("Call-ID: {}@{at}", branch()),
            "CSeq: 1 INVITE".to_owned(),
            format!("Contact: <sip:{at}>"),
        ];
        head.extend(more.iter().map(|line| (*line).to_owned()));
        with_body(&head, body)
    }
}

impl Message {
    /// Returns the complete lines of a header.
    pub fn lines(&self, name: &str) -> Vec<String> {
        let head = self.text.split("\r\n\r\n").next().unwrap();
        let is_it = |line: &&str| {
            let named = line.split_once(':');
            named.is_some_and(|(found, _)| found.eq_ignore_ascii_case(name))
        };
        head.split("\r\n")
            .filter(is_it)
            .map(str::to_owned)
            .collect()
    }

    /// Returns the values of a header, also if one line has several.
    pub fn values(&self, name: &str) -> Vec<String> {
        let lines = self.lines(name);
        let values = lines.iter().map(|line| line.split_once(':').unwrap().1);
        values
            .flat_map(|value| value.split(','))
            .map(|value| value.trim().to_owned())
            .collect()
    }

    pub fn one(&self, name: &str) -> String {
        let lines = self.lines(name);
        assert_eq!(lines.len(), 1, "{name} in {}", self.text);
        lines[0].split_once(':').unwrap().1.trim().to_owned()
    }

    pub fn body(&self) -> &str {
        self.text.split_once("\r\n\r\n").unwrap().1
    }

    /// Returns the address to which audio is to be sent.
    pub fn media(&self) -> SocketAddr {
        let line = |start: &str| {
            let found = self.body().lines().find_map(|l| l.strip_prefix(start));
            found.unwrap().to_owned()
        };
        let ip: IpAddr = line("c=IN IP4 ").parse().unwrap();
        let port = line("m=audio ").split(' ').next().unwrap().parse().unwrap();
        SocketAddr::new(ip, port)
    }
}

/// A dialog as seen by one of its ends, for requests within it.
pub struct Dialog {
    uri: String,
    routes: Vec<String>,
    from: String,
    to: String,
    call_id: String,
    pub cseq: u32,
    next: SocketAddr,
}

impl Dialog {
    /// Returns the caller's dialog, from the answer.
    pub fn of_caller(answer: &Message) -> Dialog {
        let mut routes = answer.values("Record-Route");
        routes.reverse();
        Dialog {
            uri: uri(&answer.one("Contact")),
            routes,
            from: answer.one("From"),
            to: answer.one("To"),
            call_id: answer.one("Call-ID"),
            cseq: 1,
            next: answer.from,
        }
    }

    /// Returns the callee's dialog, from the INVITE and the callee's tag.
    pub fn of_callee(invite: &Message, tag: &str) -> Dialog {
        Dialog {
            uri: uri(&invite.one("Contact")),
            routes: invite.values("Record-Route"),
            from: format!("{};tag={tag}", invite.one("To")),
            to: invite.one("From"),
            call_id: invite.one("Call-ID"),
            cseq: 0,
            next: invite.from,
        }
    }

    /// Returns a request. An ACK has the number of the last request.
    pub fn request(&mut self, ua: &Ua, method: &str, body: &str) -> String {
        if method != "ACK" {
            self.cseq += 1;
        }
        let at = ua.address();
        let mut head = vec![
            format!("{method} {} SIP/2.0", self.uri),
            format!("Via: SIP/2.0/UDP {at};branch={}", branch()),
        ];
        head.extend(self.routes.iter().map(|route| format!("Route: {route}")));
        head.extend([
            format!("From: {}", self.from),
            format!("To: {}", self.to),
            format!("Call-ID: {}", self.call_id),
            format!("CSeq: {} {method}", self.cseq),
            format!("Contact: <sip:{at}>"),
            "Max-Forwards: 70".to_owned(),
        ]);
        with_body(&head, body)
    }

    pub fn send(&mut self, ua: &Ua, method: &str, body: &str) {
        let text = self.request(ua, method, body);
        ua.send(self.next, &text);
    }
}

fn uri(contact: &str) -> String {
    let inner = contact.split_once('<').unwrap().1;
    inner.split_once('>').unwrap().0.to_owned()
}

fn branch() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("z9hG4bK{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns a description of audio at an address.
pub fn sdp(at: SocketAddr, more: &str) -> String {
    let (ip, port) = (at.ip(), at.port());
    format!(
        "v=0\r\no=- 1 1 IN IP4 {ip}\r\ns=-\r\nc=IN IP4 {ip}\r\nt=0 0\r\n\
         m=audio {port} RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n{more}"
    )
}

fn with_body(head: &[String], body: &str) -> String {
    let kind = match body.is_empty() {
        true => "",
        false => "Content-Type: application/sdp\r\n",
    };
    let len = body.len();
    format!(
        "{}\r\n{kind}Content-Length: {len}\r\n\r\n{body}",
        head.join("\r\n")
    )
}
