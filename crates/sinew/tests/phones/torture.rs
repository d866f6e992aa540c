//! The messages of RFC 4475, and what a proxy does with them.

use net::netns::Namespace;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::sip::Message;

/// One message of the RFC.
#[derive(Debug)]
pub(crate) struct Torture {
    pub(crate) name: &'static str,
    pub(crate) section: &'static str,
    /// The expected result: `good`, `none`, codes, or several alternatives separated by `|`.
    want: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// The result of a message: the code of the final response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fate(pub(crate) Option<u16>);

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(code) => code.fmt(f),
            None => "none".fmt(f),
        }
    }
}

impl Torture {
    /// Returns whether the RFC permits this result.
    pub(crate) fn allows(&self, Fate(code): Fate) -> bool {
        self.want.split('|').any(|want| match want {
            "good" => code.is_some_and(|code| code != 400),
            "none" => code.is_none(),
            want => code.is_some_and(|code| code.to_string() == want),
        })
    }

    pub(crate) fn want(&self) -> &'static str {
        self.want
    }
}

/// Returns all messages.
pub(crate) fn messages() -> Vec<Torture> {
    let text = include_str!("torture.txt").trim_end_matches('\n');
    let messages = text.split("\n=== ").skip(1).map(|section| {
        let (head, text) = section.split_once('\n').unwrap();
        let mut words = head.split(' ');
        let mut word = || words.next().unwrap();
        Torture {
            name: word(),
            section: word(),
            want: word(),
            bytes: expand(text),
        }
    });
    messages.collect()
}

/// Converts the notation into the bytes of a message.
fn expand(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in text.split('\n') {
        match line
            .strip_prefix("{sdp ")
            .and_then(|rest| rest.strip_suffix('}'))
        {
            Some(address) => bytes.extend(description(address).bytes()),
            None => expand_line(line, &mut bytes),
        }
        bytes.extend(b"\r\n");
    }
    bytes
}

fn expand_line(mut line: &str, bytes: &mut Vec<u8>) {
    while let Some((before, tag)) = line.split_once('<') {
        bytes.extend(before.bytes());
        if let Some(rest) = tag.strip_prefix("hex>") {
            let (digits, rest) = rest.split_once("</hex>").unwrap();
            let pairs = digits.as_bytes().chunks(2);
            let pairs = pairs.map(|pair| std::str::from_utf8(pair).unwrap());
            bytes.extend(pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()));
            line = rest;
        } else if let Some(rest) = tag.strip_prefix("repeat count=") {
            let (count, rest) = rest.split_once('>').unwrap();
            let (what, rest) = rest.split_once("</repeat>").unwrap();
            bytes.extend(what.repeat(count.parse().unwrap()).bytes());
            line = rest;
        } else {
            bytes.push(b'<');
            line = tag;
        }
    }
    bytes.extend(line.bytes());
}

fn description(address: &str) -> String {
    format!(
        "v=0\r\no=mhandley 29739 7272939 IN IP4 {address}\r\ns=-\r\nc=IN IP4 {address}\r\n\
         t=0 0\r\nm=audio 49217 RTP/AVP 0 12\r\nm=video 3227 RTP/AVP 31\r\na=rtpmap:31 LPC"
    )
}

/// How long the test waits for answers after the last message.
const QUIET: Duration = Duration::from_secs(3);

/// Sends all messages by UDP, each in a datagram, and returns the result of each.
pub(crate) fn send_by_udp(
    network: &Namespace,
    from: Ipv4Addr,
    to: SocketAddr,
) -> BTreeMap<&'static str, Fate> {
    // Most responses go to the port that `Via` names, 5060 without one.
    let socket = network
        .run(|| UdpSocket::bind((from, 5060)))
        .unwrap()
        .unwrap();
    let messages = messages();
    let mut fates = fates(&messages);
    let mut hear = |patience| {
        socket.set_read_timeout(Some(patience)).unwrap();
        let mut buffer = [0; 65_536];
        match socket.recv_from(&mut buffer) {
            Ok((len, _)) => note(&Message::parse(&buffer[..len]), &messages, &mut fates),
            Err(_) => return false,
        }
        true
    };
    for message in &messages {
        socket.send_to(&message.bytes, to).unwrap();
        while hear(Duration::from_millis(10)) {}
    }
    let until = Instant::now() + QUIET;
    while Instant::now() < until {
        hear(Duration::from_millis(100));
    }
    fates
}

/// Sends all messages by TCP, each over its own connection, and returns the result of each.
pub(crate) fn send_by_tcp(network: &Namespace, to: SocketAddr) -> BTreeMap<&'static str, Fate> {
    let messages = messages();
    let mut fates = fates(&messages);
    let connections = messages.iter().map(|message| {
        let mut tcp = network.run(|| TcpStream::connect(to)).unwrap().unwrap();
        // The gateway may close the connection before everything is sent.
        let _ = tcp.write_all(&message.bytes);
        tcp
    });
    let connections: Vec<TcpStream> = connections.collect();
    std::thread::sleep(QUIET);
    for mut tcp in connections {
        tcp.set_read_timeout(Some(Duration::from_millis(10)))
            .unwrap();
        let mut buffer = [0; 65_536];
        while let Ok(len @ 1..) = tcp.read(&mut buffer) {
            // Several responses may come together.
            let text = Message::parse(&buffer[..len]).0;
            for part in text.split("SIP/2.0 ").skip(1) {
                note(&Message(format!("SIP/2.0 {part}")), &messages, &mut fates);
            }
        }
    }
    fates
}

fn fates(messages: &[Torture]) -> BTreeMap<&'static str, Fate> {
    messages
        .iter()
        .map(|message| (message.name, Fate(None)))
        .collect()
}

/// Assigns a response to its message by its Call-ID, which begins with the message's name.
fn note(said: &Message, messages: &[Torture], fates: &mut BTreeMap<&'static str, Fate>) {
    let id = said.call_id();
    let of = messages.iter().find(|message| {
        let text = String::from_utf8_lossy(&message.bytes);
        match id.split_once('.') {
            // The Call-ID of mpart01 does not.
            Some((name, _)) if !id.starts_with("3d9485ad") => name == message.name,
            _ if id.is_empty() => message.name == "insuf",
            _ => text.contains(id),
        }
    });
    if let (Some(message), Some(code @ 200..)) = (of, said.status()) {
        fates.insert(message.name, Fate(Some(code)));
    }
}

#[test]
fn the_messages_are_those_of_the_rfc() {
    let messages = messages();
    assert_eq!(messages.len(), 49);
    let find = |name| {
        messages
            .iter()
            .find(|message| message.name == name)
            .unwrap()
    };
    // The lengths are right, except where the RFC makes them wrong on purpose.
    let liars = ["clerr", "ncl", "mcl01", "dblreq", "inv2543"];
    for message in messages
        .iter()
        .filter(|message| !liars.contains(&message.name))
    {
        let text = Message::parse(&message.bytes);
        let bytes = message
            .bytes
            .windows(4)
            .position(|four| four == b"\r\n\r\n");
        let bytes = message.bytes.len() - bytes.unwrap() - 4;
        let said = text.one("Content-Length", "l").parse();
        assert_eq!(said, Ok(bytes), "{}", message.name);
    }
    assert_eq!(find("longreq").bytes.len(), 3515);
    assert!(find("intmeth").bytes.contains(&0));
}
