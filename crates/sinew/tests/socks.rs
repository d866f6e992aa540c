//! `sinew gateway socks`: programs that use SOCKS reach nodes by name, and targets beyond an exit.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod world;

use client::{Node, Options};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use world::World;

/// A gateway that runs until it is dropped, and its address.
struct Gateway {
    child: Child,
    at: SocketAddr,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn gateway(world: &World, more: &str) -> Gateway {
    let words = format!("gateway socks --listen 127.0.0.1:0 --node net/ams --json {more}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
    command
        .current_dir(&world.dir)
        .args(words.split_whitespace());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    let at = said["at"].as_str().unwrap().parse().unwrap();
    // Its further output is read, so that the process never waits for a reader.
    thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
    Gateway { child, at }
}

/// Answers every connection with one page of HTTP.
fn answer_http(mut stream: impl Read + Write, page: &str) {
    let mut asked = Vec::new();
    let mut byte = [0];
    while !asked.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
        asked.push(byte[0]);
    }
    let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", page.len());
    let _ = stream.write_all((head + page).as_bytes());
}

/// Starts a web server outside the overlay.
fn web_beyond() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            answer_http(stream.unwrap(), "beyond");
        }
    });
    at
}

/// Starts an echo server outside the overlay.
fn echo_beyond() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..len], from);
        }
    });
    at
}

/// Makes two nodes. The second is an exit for the targets in `allow`.
fn nodes(test: &str, allow: &[SocketAddr]) -> World {
    let mut world = World::new(test);
    world.add("ams", 1, "");
    world.add("fra", 2, "");
    let rules: Vec<String> = allow
        .iter()
        .map(|addr| format!("{:?}", addr.to_string()))
        .collect();
    let path = world.node("fra").join("node.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let exit = format!(
        "\n[[exit]]\nallow = [{}, \"localhost:1\"]\n",
        rules.join(", ")
    );
    std::fs::write(&path, text + &exit).unwrap();
    world.start("ams");
    world.start("fra");
    world.wait_for_link("ams", "fra");
    world.wait_for_line("fra", "exit: gateways");
    world.wait("ams knows fra", || {
        world.has_route("ams", "10.7.0.2") && world.has_route("fra", "10.7.0.1")
    });
    world
}

/// Sends the greeting without a user, and a request. Returns the connection, the code of the reply,
/// and the bound address.
fn ask(gateway: &Gateway, command: u8, name: &str, port: u16) -> (TcpStream, u8, SocketAddr) {
    let mut tcp = TcpStream::connect(gateway.at).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut said = vec![5, 1, 0, 5, command, 0, 3, name.len() as u8];
    said.extend(name.bytes());
    said.extend(port.to_be_bytes());
    tcp.write_all(&said).unwrap();
    let mut reply = [0; 12];
    tcp.read_exact(&mut reply).unwrap();
    assert_eq!((&reply[..3], reply[5]), (&[5, 0, 5][..], 1), "{reply:?}");
    let ip = Ipv4Addr::new(reply[6], reply[7], reply[8], reply[9]);
    let bound = SocketAddr::from((ip, u16::from_be_bytes([reply[10], reply[11]])));
    (tcp, reply[3], bound)
}

fn curl(gateway: &Gateway, more: &[&str], url: &str) -> Option<(bool, String)> {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--max-time", "50", "--noproxy", ""]);
    curl.args(["--socks5-hostname", &gateway.at.to_string()]);
    match curl.args(more).arg(url).output() {
        Ok(output) => {
            let both = [output.stdout, output.stderr].concat();
            Some((output.status.success(), String::from_utf8(both).unwrap()))
        }
        Err(_) => {
            eprintln!("SKIPPED: curl by SOCKS is not tested: `curl` is missing, install it");
            None
        }
    }
}

#[test]
fn programs_reach_nodes_by_name_and_listed_targets_by_the_exit() {
    let web = web_beyond();
    let world = nodes("socks", &[web]);
    let at_node = Node::at(world.socket("fra"));
    let listener = at_node.listen(8080, Options::stream()).unwrap();
    thread::spawn(move || {
        while let Ok(stream) = listener.accept_bytes() {
            answer_http(stream, "at the node");
        }
    });
    let inside = gateway(&world, "");
    let outside = gateway(&world, "--exit fra");
    for (url, page) in [
        ("http://fra.sinew:8080/", "at the node"),
        ("http://fra:8080/", "at the node"),
        ("http://10.7.0.2:8080/", "at the node"),
        ("http://10.7.0.2.sinew:8080/", "at the node"),
        (&format!("http://{web}/"), "beyond"),
    ] {
        let Some((good, said)) = curl(&outside, &[], url) else {
            break;
        };
        assert!(good && said == page, "{url}: {said}");
    }
    for (url, by) in [
        (format!("http://{web}/"), &inside),
        ("http://127.0.0.1:9/".to_owned(), &outside),
        ("http://par.sinew/".to_owned(), &outside),
        ("http://fra.sinew:8081/".to_owned(), &outside),
    ] {
        if let Some((good, said)) = curl(by, &[], &url) {
            assert!(!good, "{url}: {said}");
        }
    }
    // The protocol's codes: 2 not allowed, 3 and 4 unreachable, 5 refused, 7 not offered.
    let local = |port| ("127.0.0.1".to_owned(), port);
    for (by, command, (name, port), code) in [
        (&outside, 1, ("fra.sinew".to_owned(), 8080), 0),
        (&outside, 1, ("fra.sinew".to_owned(), 8081), 5),
        (&outside, 1, ("par.sinew".to_owned(), 80), 4),
        (&outside, 1, local(9), 2),
        (&outside, 1, ("localhost".to_owned(), 9), 2),
        (&outside, 1, ("localhost".to_owned(), 1), 5),
        (&inside, 1, ("example.org".to_owned(), 80), 2),
        (&outside, 2, local(web.port()), 7),
    ] {
        let (_, told, _) = ask(by, command, &name, port);
        assert_eq!(told, code, "{command} {name}:{port}");
    }
    world.wait_for_line("fra", "does not list the target");
}

#[test]
fn datagrams_go_to_nodes_and_by_the_exit_and_come_back() {
    let (echo, other) = (echo_beyond(), echo_beyond());
    let world = nodes("socks-udp", &[echo]);
    let socket = Node::at(world.socket("fra"))
        .bind(5000, Options::best_effort())
        .unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while let Ok((len, from, _)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..len], from);
        }
    });
    let gateway = gateway(&world, "--exit fra");
    let (tcp, code, relay) = ask(&gateway, 3, "0.0.0.0", 0);
    assert_eq!(code, 0);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let datagram = |to: SocketAddr, fragment: u8, payload: &[u8]| {
        let SocketAddr::V4(to) = to else { panic!() };
        let mut bytes = vec![0, 0, fragment, 1];
        bytes.extend(to.ip().octets());
        bytes.extend(to.port().to_be_bytes());
        bytes.extend(payload);
        bytes
    };
    let node = SocketAddr::from(([10, 7, 0, 2], 5000));
    let mut buffer = [0; 2_048];
    for to in [node, echo] {
        let sent = datagram(to, 0, b"there and back");
        // Datagrams may be lost.
        world.wait(&format!("{to} answers"), || {
            udp.send_to(&sent, relay).unwrap();
            let heard = udp.recv_from(&mut buffer);
            heard.is_ok_and(|(len, from)| from == relay && buffer[..len] == sent)
        });
    }
    // Garbage, fragments, strangers and unlisted targets get no answer. The datagrams before and
    // after them do.
    while udp.recv_from(&mut buffer).is_ok() {}
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger
        .send_to(&datagram(node, 0, b"stranger"), relay)
        .unwrap();
    for nonsense in [
        b"".to_vec(),
        vec![1; 40],
        vec![0, 0, 0, 1, 10],
        datagram(node, 1, b"fragment"),
        datagram(other, 0, b"not listed"),
    ] {
        udp.send_to(&nonsense, relay).unwrap();
    }
    let last = datagram(node, 0, b"last");
    world.wait("the last one comes back", || {
        udp.send_to(&last, relay).unwrap();
        match udp.recv_from(&mut buffer) {
            Ok((len, _)) => {
                assert_eq!(buffer[..len], last);
                true
            }
            Err(_) => false,
        }
    });
    // The association ends with its connection: its port is free again.
    drop(tcp);
    world.wait("the port is free", || UdpSocket::bind(relay).is_ok());
}

#[test]
fn clients_that_speak_nonsense_stall_or_give_no_password_hinder_nobody() {
    let web = web_beyond();
    let world = nodes("socks-nonsense", &[web]);
    std::fs::write(world.dir.join("password"), "open sesame\n").unwrap();
    let gateway = gateway(&world, "--exit fra --user ann --password-file password");
    let idle: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(gateway.at).unwrap())
        .collect();
    for said in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\x04\x01\0\x50\x7f\0\0\x01\0",
        b"\x05\x01\0",
        b"\x05\x01\x02\x01\x03ann\x04shut",
        b"\x05\x01\x02\x01\x03ann\x0bopen sesame\x05\x09\0\x01",
        b"\x05\x01\x02\x01\x03ann\x0bopen sesame\x05\x01\0\x09",
        &[0xff; 10_000],
    ] {
        let mut tcp = TcpStream::connect(gateway.at).unwrap();
        tcp.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let _ = tcp.write_all(said);
        let mut answer = Vec::new();
        // The connection ends, with or without an error.
        let _ = tcp.read_to_end(&mut answer);
        assert!(answer.len() < 20, "{said:?}: {answer:?}");
    }
    let user = ["--proxy-user", "ann:open sesame"];
    if let Some((good, said)) = curl(&gateway, &user, &format!("http://{web}/")) {
        assert!(good && said == "beyond", "{said}");
    }
    drop(idle);
}
