//! SIP by TCP: peers that do not read, that send fast, that hold connections, and the gateway's own connections.

use super::*;
use socket2::{Domain, Socket, Type};
use std::io::BufRead;
use std::io::BufReader;
use std::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(20);

/// Connects from a loopback address, with as little room for what arrives as the kernel permits.
fn connect_from(last: u8, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(1).unwrap();
    let from = SocketAddr::from(([127, 0, 0, last], 0));
    socket.bind(&from.into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let tcp = TcpStream::from(socket);
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    tcp
}

fn by_tcp(text: &str) -> String {
    text.replace("SIP/2.0/UDP", "SIP/2.0/TCP")
}

/// Returns an OPTIONS to the gateway itself.
fn options(ua: &Ua, at: SocketAddr) -> String {
    let text = ua.invite(&at.to_string(), &[], "");
    text.replace("INVITE", "OPTIONS")
}

/// Reads one message without a body. Returns its first line; `None` if the connection has ended.
fn next_message(tcp: &mut impl BufRead) -> Option<String> {
    let mut first = String::new();
    loop {
        let mut line = String::new();
        match tcp.read_line(&mut line) {
            Ok(0) | Err(_) => return None,
            Ok(_) if line == "\r\n" => return Some(first),
            Ok(_) if first.is_empty() => first = line,
            Ok(_) => {}
        }
    }
}

/// Returns whether an OPTIONS on this connection is answered.
fn is_served(ua: &Ua, tcp: &TcpStream, at: SocketAddr) -> bool {
    let mut writer = tcp;
    let asked = by_tcp(&options(ua, at));
    if writer.write_all(asked.as_bytes()).is_err() {
        return false;
    }
    let answer = next_message(&mut BufReader::new(tcp));
    answer.is_some_and(|line| line.starts_with("SIP/2.0 200"))
}

#[test]
fn a_peer_that_does_not_read_delays_nobody() {
    let w = World::new("unread");
    let at = w.a.at();
    // The stack itself answers a CANCEL for which there is no INVITE.
    let name = format!("From: \"{}\" <", "a".repeat(8_000));
    let cancel = w.alice.invite("bob@b.example", &[], "");
    let cancel = by_tcp(&cancel.replace("INVITE", "CANCEL")).replace("From: <", &name);
    let unread = connect_from(8, at);
    let writes = std::thread::spawn(move || {
        let mut unread = unread;
        while unread.write_all(cancel.as_bytes()).is_ok() {}
    });
    let mut eve = Ua::at("eve", [127, 0, 0, 9].into());
    while !writes.is_finished() {
        eve.send(at, &options(&eve, at));
        eve.until("SIP/2.0 200");
    }
    assert_eq!(w.a.gateway.counters().unread.value(), 1);
}

#[test]
fn a_peer_that_sends_fast_is_slowed_down_and_loses_nothing() {
    const COUNT: usize = 2_500;
    let w = World::new("fast");
    let at = w.a.at();
    let mut tcp = TcpStream::connect(at).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(tcp.try_clone().unwrap());
    let writes = std::thread::spawn(move || {
        let eve = Ua::new("eve");
        for _ in 0..COUNT {
            tcp.write_all(by_tcp(&options(&eve, at)).as_bytes())
                .unwrap();
        }
        tcp
    });
    for answered in 0..COUNT {
        let line = next_message(&mut reader);
        assert!(
            line.is_some_and(|line| line.starts_with("SIP/2.0 200")),
            "{answered}"
        );
    }
    writes.join().unwrap();
    assert_eq!(w.a.gateway.counters().flood.value(), 0);
}

#[test]
fn connections_that_ask_for_nothing_keep_nobody_out() {
    let _ = net::sched::raise_descriptors();
    let w = World::new("silent-tcp");
    let at = w.a.at();
    let eve = Ua::at("eve", [127, 0, 0, 9].into());
    let asked = connect_from(9, at);
    assert!(is_served(&eve, &asked, at));
    // They come from many hosts, and are twice as many as there are places.
    let silent: Vec<TcpStream> = (10..26)
        .flat_map(|host| (0..64).map(move |_| connect_from(host, at)))
        .collect();
    let new = connect_from(8, at);
    assert!(
        is_served(&eve, &new, at),
        "it got the place of a silent one"
    );
    assert!(is_served(&eve, &asked, at), "it had asked for something");
    // One host has its share, however silent the others are.
    let many: Vec<TcpStream> = (0..160).map(|_| connect_from(7, at)).collect();
    let last = many.last().unwrap();
    assert!(!is_served(&eve, last, at));
    assert!(w.a.gateway.counters().overload.value() > 512);
    drop(silent);
}

#[test]
fn a_call_to_a_phone_with_tcp_goes_out_and_comes_back_on_one_connection() {
    let mut w = World::new("tcp-out");
    let phone = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = phone.local_addr().unwrap();
    let uri = format!("carol@{at};transport=tcp");
    for _ in 0..2 {
        let message = w.alice.invite(&uri, &[], "");
        w.alice
            .send(w.a.at(), &message.replace("INVITE", "MESSAGE"));
    }
    let (tcp, _) = phone.accept().unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(tcp.try_clone().unwrap());
    for _ in 0..2 {
        let text = whole(&mut reader);
        let request = Message {
            text,
            from: w.a.at(),
        };
        assert!(request.text.starts_with("MESSAGE"), "{}", request.text);
        answer_by_tcp(&tcp, &request, "202 Accepted");
        w.alice.until("SIP/2.0 202");
    }
    phone.set_nonblocking(true).unwrap();
    assert!(phone.accept().is_err(), "the connection is used again");
}

#[test]
fn a_gateway_that_stops_hangs_up_by_tcp_too() {
    let mut w = World::new("tcp-stops");
    let tcp = TcpStream::connect(w.a.at()).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let invite = by_tcp(&w.alice.invite("bob@b.example", &[], &w.alice.sdp("")));
    (&tcp).write_all(invite.as_bytes()).unwrap();
    let at_bob = w.bob.until("INVITE");
    w.bob.respond(&at_bob, "200 OK", "");
    let mut reader = BufReader::new(tcp.try_clone().unwrap());
    while !whole(&mut reader).starts_with("SIP/2.0 200") {}
    w.a.gateway.stop();
    let bye = whole(&mut reader);
    assert!(bye.starts_with("BYE"), "{bye}");
}

/// Reads the head of a message. It must have no body.
fn whole(tcp: &mut impl BufRead) -> String {
    let mut text = String::new();
    while !text.ends_with("\r\n\r\n") {
        assert!(tcp.read_line(&mut text).unwrap() > 0, "closed after {text}");
    }
    text
}

fn answer_by_tcp(mut tcp: &TcpStream, request: &Message, status: &str) {
    let names = ["Via", "From", "To", "Call-ID", "CSeq"];
    let lines: Vec<String> = names.iter().flat_map(|name| request.lines(name)).collect();
    let head = lines.join("\r\n");
    let text = format!("SIP/2.0 {status}\r\n{head}\r\nContent-Length: 0\r\n\r\n");
    tcp.write_all(text.as_bytes()).unwrap();
}
