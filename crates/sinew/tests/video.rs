//! Video by SRT, RIST and RTP across real nodes: with encoders and decoders of this test, and with real programs if
//! they are installed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that says when it is skipped"
)]

mod world;

use net::rist;
use net::srt::{self, Options, PAYLOAD_BYTES_TS, Poll, Socket, Wanted};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use world::World;

/// The group of the streams.
const GROUP: &str = "239.1.1.1:5004";
/// The time between two packets of an encoder: 5 Mbit/s.
const INTERVAL: Duration = Duration::from_millis(2);
/// Packets of a stream.
const COUNT: u32 = 600;
/// How long one wait for a packet lasts before the next check.
const MOMENT: Duration = Duration::from_millis(50);

/// A gateway that reports its events as JSON. It ends with the test.
struct Gateway {
    child: Child,
    lines: Receiver<Value>,
}

impl Gateway {
    fn start(world: &World, words: &str) -> Gateway {
        let mut child = world.begin(&format!("gateway {words} --status 1s --json"));
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap();
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        Gateway { child, lines }
    }

    /// Returns the next line for which `holds` is true.
    fn wait(&self, world: &World, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        world.wait(what, || {
            found = self.lines.try_iter().find(&holds);
            found.is_some()
        });
        found.unwrap()
    }

    fn event(&self, world: &World, event: &str) -> Value {
        self.wait(world, &format!("the gateway says {event}"), |line| {
            line["event"] == event
        })
    }

    /// Returns the address at which the gateway listens.
    fn listening(&self, world: &World) -> SocketAddr {
        let line = self.event(world, "listening");
        line["at"].as_str().unwrap().parse().unwrap()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns true if libsrt is available; otherwise prints a line.
fn has_srt(test: &str) -> bool {
    let loaded = srt::load();
    if let Err(error) = &loaded {
        eprintln!("SKIPPED: {test}: {error}");
    }
    loaded.is_ok()
}

/// Makes three nodes in a row, with links that delay and lose packets.
fn row(test: &str) -> World {
    let mut world = World::new(test);
    world.add("a", 1, "--lab --link none");
    world.add("b", 2, "--lab --link a");
    world.add("c", 3, "--lab --link b");
    world.impair("a", "b", "delay=10ms loss=2%");
    world.impair("b", "c", "delay=10ms loss=2%");
    for name in ["a", "b", "c"] {
        world.start(name);
    }
    world.wait_for_link("a", "b");
    world.wait_for_link("b", "c");
    // The far end of the row learns a moment later that a link is up.
    let (first, last) = (world.overlay_address("a"), world.overlay_address("c"));
    world.wait("each end has a route to the other", || {
        world.has_route("a", &last) && world.has_route("c", &first)
    });
    world
}

/// Waits until the first node knows that the group has a member.
fn wait_for_member(world: &World) {
    world.wait("the group has a member", || {
        let groups = world.json("groups --node net/a");
        let groups = groups.as_array().unwrap();
        groups
            .iter()
            .any(|group| !group["members"].as_array().unwrap().is_empty())
    });
}

/// Connects to a listener.
fn call(world: &World, at: SocketAddr, options: &Options) -> Socket {
    let socket = Socket::call(at, options).unwrap();
    world.wait("the listener answers", || {
        assert!(
            socket.is_connected() || socket.is_connecting(),
            "{}",
            socket.why_rejected()
        );
        socket.is_connected()
    });
    socket
}

/// Returns why a listener refuses.
fn refusal(world: &World, at: SocketAddr, options: &Options) -> String {
    let socket = Socket::call(at, options).unwrap();
    world.wait("the listener refuses", || {
        assert!(!socket.is_connected());
        !socket.is_connecting()
    });
    socket.why_rejected().to_string()
}

fn options(stream_id: &str) -> Options {
    Options {
        latency: Duration::from_millis(60),
        stream_id: Some(stream_id.to_owned()),
        ..Options::default()
    }
}

/// Makes seven packets of a transport stream. The first one carries the number.
fn datagram(number: u32) -> Vec<u8> {
    let packets = (0..7).flat_map(|n| {
        let counter = (7 * number + n) % 16;
        let mut packet = [0xaa; 188];
        packet[..4].copy_from_slice(&[0x47, 1, 1, 0x10 | counter as u8]);
        packet[4..8].copy_from_slice(&number.to_be_bytes());
        packet
    });
    packets.collect()
}

fn number(datagram: &[u8]) -> u32 {
    u32::from_be_bytes(datagram[4..8].try_into().unwrap())
}

/// Sends a stream at its pace.
fn send(mut each: impl FnMut(u32, &[u8])) {
    for number in 0..COUNT {
        each(number, &datagram(number));
        std::thread::sleep(INTERVAL);
    }
}

/// Receives the datagrams that have arrived, and appends their numbers.
fn receive(poll: &Poll, socket: &Socket, numbers: &mut Vec<u32>) {
    let mut buffer = [0; 2_000];
    poll.wait(MOMENT, &mut Vec::new()).unwrap();
    while let Ok(len) = socket.receive(&mut buffer) {
        assert_eq!(len, PAYLOAD_BYTES_TS);
        numbers.push(number(&buffer[..len]));
    }
}

fn poll(socket: &Socket) -> Poll {
    let poll = Poll::new().unwrap();
    let messages = Wanted {
        readable: true,
        writable: false,
    };
    poll.add(socket, messages).unwrap();
    poll
}

#[test]
fn an_encoder_reaches_decoders_by_srt() {
    if !has_srt("an_encoder_reaches_decoders_by_srt") {
        return;
    }
    let world = row("srt");
    let here = world.endpoint(0).ip();
    let entry = Gateway::start(
        &world,
        &format!("srt --listen {here}:0 --to studio={GROUP} --latency 1s --node net/a"),
    );
    let exit = Gateway::start(
        &world,
        &format!("srt --listen {here}:0 --from {GROUP} --latency 1s --node net/c"),
    );
    let (entry_at, exit_at) = (entry.listening(&world), exit.listening(&world));
    let decoders = [(); 2].map(|()| call(&world, exit_at, &options("anything")));
    wait_for_member(&world);
    let encoder = call(&world, entry_at, &options("#!::r=studio,m=publish"));
    let sender = std::thread::spawn(move || {
        send(|_, datagram| encoder.send(datagram, 0).unwrap());
        encoder
    });
    let polls = decoders.each_ref().map(poll);
    let mut numbers = [Vec::new(), Vec::new()];
    world.wait("the decoders have all", || {
        for ((poll, socket), numbers) in polls.iter().zip(&decoders).zip(&mut numbers) {
            receive(poll, socket, numbers);
        }
        numbers
            .iter()
            .all(|numbers| numbers.last() == Some(&(COUNT - 1)))
    });
    for numbers in &numbers {
        assert_eq!(numbers, &(0..COUNT).collect::<Vec<_>>());
    }
    let encoder = sender.join().unwrap();
    let all =
        |seen: &Value| seen["packets"] == COUNT && seen["tr101290"]["continuity_count_error"] == 0;
    let status = entry.wait(&world, "all has entered", |line| {
        all(&line["connections"][0])
    });
    assert_eq!(status["connections"][0]["stream"], GROUP);
    assert!(status["connections"][0]["srt"]["rtt_ms"].as_f64().unwrap() > 0.0);
    let status = exit.wait(&world, "all has left", |line| all(&line["streams"][0]));
    assert_eq!(status["streams"][0]["receivers"], 2);
    assert!(
        status["streams"][0]["recovered"].as_u64().unwrap() > 0,
        "{status}"
    );
    // The gateway notices that the encoder has gone, and then lets another one send.
    drop(encoder);
    entry.event(&world, "disconnected");
    call(&world, entry_at, &options("studio"));
}

/// The message that an end has gone overtakes the packets that libsrt holds back for its latency.
#[test]
fn what_an_encoder_has_sent_last_enters_after_it_has_gone() {
    if !has_srt("what_an_encoder_has_sent_last_enters_after_it_has_gone") {
        return;
    }
    let mut world = World::new("last");
    world.add("a", 1, "");
    world.start("a");
    let here = world.endpoint(0).ip();
    let gateway = Gateway::start(
        &world,
        &format!("srt --listen {here}:0 --to {GROUP} --latency 2s --node net/a"),
    );
    let encoder = call(&world, gateway.listening(&world), &options("studio"));
    gateway.event(&world, "connected");
    for number in 0..COUNT {
        encoder.send(&datagram(number), 0).unwrap();
    }
    world.wait("the gateway has all", || {
        let stats = encoder.stats().unwrap();
        stats.sent_packets >= COUNT.into() && stats.send_buffer_packets == 0
    });
    drop(encoder);
    let ended = gateway.event(&world, "disconnected");
    assert_eq!(ended["packets"], COUNT, "{ended}");
    assert_eq!(ended["tr101290"]["continuity_count_error"], 0);
}

#[test]
fn strangers_are_refused_and_counted() {
    if !has_srt("strangers_are_refused_and_counted") {
        return;
    }
    let mut world = World::new("strangers");
    world.add("a", 1, "");
    world.start("a");
    let here = world.endpoint(0).ip();
    let secret = world.dir.join("secret");
    std::fs::write(&secret, "correct horse\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&secret, mode).unwrap();
    let gateway = Gateway::start(
        &world,
        &format!(
            "srt --listen {here}:0 --to studio={GROUP} --from other={GROUP} --connections 2 \
             --passphrase-file secret --node net/a"
        ),
    );
    let at = gateway.listening(&world);
    let known = |id: &str| Options {
        passphrase: Some("correct horse".to_owned()),
        ..options(id)
    };
    let wrong = Options {
        passphrase: Some("wrong battery".to_owned()),
        ..options("studio")
    };
    assert!(refusal(&world, at, &wrong).contains("passphrase"));
    assert!(refusal(&world, at, &options("studio")).contains("passphrase"));
    assert!(refusal(&world, at, &known("nothing")).contains("404"));
    assert!(refusal(&world, at, &known("#!::r=other,m=publish")).contains("405"));
    assert!(refusal(&world, at, &known("#!::nonsense")).contains("400"));
    let encoder = call(&world, at, &known("studio"));
    gateway.event(&world, "connected");
    assert!(refusal(&world, at, &known("studio")).contains("409"));
    let decoder = call(&world, at, &known("other"));
    gateway.event(&world, "connected");
    assert!(refusal(&world, at, &known("other")).contains("402"));
    // Strangers begin thousands of handshakes and go, and others send arbitrary data.
    let stranger = UdpSocket::bind((here, 0)).unwrap();
    for n in 0..5_000_u32 {
        let mut induction = [0_u8; 64];
        induction[0] = 0x80;
        // Version 4, an ordinary socket, the first step of a handshake, and the caller's own number.
        induction[19] = 4;
        induction[23] = 2;
        induction[34..36].copy_from_slice(&[0x20, 0]);
        induction[39] = 1;
        induction[40..44].copy_from_slice(&(n + 1).to_be_bytes());
        let junk = n.to_be_bytes().repeat(20);
        let bytes = if n % 2 == 0 { &induction[..] } else { &junk };
        stranger.send_to(bytes, at).unwrap();
    }
    // A decoder that sends is ignored, and data that is no transport stream is counted as such.
    decoder.send(&[1; 100], 0).unwrap();
    encoder.send(&[0x48; PAYLOAD_BYTES_TS], 0).unwrap();
    gateway.event(&world, "unwanted");
    let status = gateway.wait(&world, "all is counted", |line| {
        let sent = line["connections"].as_array().into_iter().flatten();
        let errors = |c: &Value| c["tr101290"]["sync_byte_error"] == 7;
        line["drops"]["unwanted"] == 1 && { sent }.any(errors)
    });
    assert_eq!(status["connections"].as_array().unwrap().len(), 2);
    // A caller with a slow answer asks again, and is counted again.
    for (why, least) in [("refused", 5), ("handshake", 2)] {
        assert!(status["drops"][why].as_u64().unwrap() >= least, "{status}");
    }
    world.assert_all_run();
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program of a protocol's makers. Returns `None` and prints a line if it is not installed.
fn tool(program: &str, package: &str, words: &[&str]) -> Option<Running> {
    let mut command = Command::new(program);
    command.args(words);
    command.stdout(Stdio::null()).stdin(Stdio::null());
    let Ok(child) = command.stderr(Stdio::null()).spawn() else {
        eprintln!("SKIPPED: {program} is not tested: install {package}");
        return None;
    };
    Some(Running(child))
}

/// Starts `srt-live-transmit` from one address to another.
fn transmit(from: &str, to: &str) -> Option<Running> {
    tool("srt-live-transmit", "srt-tools", &["-q", from, to])
}

/// The sockets from which and to which programs send a stream, by UDP.
struct Ends {
    source: UdpSocket,
    sink: UdpSocket,
}

impl Ends {
    fn open(world: &World) -> Ends {
        let here = world.endpoint(0).ip();
        let sink = UdpSocket::bind((here, 0)).unwrap();
        sink.set_read_timeout(Some(MOMENT)).unwrap();
        net::udp::enlarge(&sink);
        let source = UdpSocket::bind((here, 0)).unwrap();
        Ends { source, sink }
    }

    fn sink(&self) -> SocketAddr {
        self.sink.local_addr().unwrap()
    }

    /// Sends to a program at `port`. After the first datagram has arrived, all others must arrive in order.
    fn carry(self, world: &World, port: SocketAddr) {
        let Ends { source, sink } = self;
        let mut buffer = [0; 2_000];
        let mut sent = 0;
        world.wait("the stream begins", || {
            source.send_to(&datagram(sent), port).unwrap();
            sent += 1;
            sink.recv(&mut buffer)
                .is_ok_and(|len| len == PAYLOAD_BYTES_TS)
        });
        let sender = std::thread::spawn(move || {
            for number in sent..sent + COUNT {
                source.send_to(&datagram(number), port).unwrap();
                std::thread::sleep(INTERVAL);
            }
        });
        let mut last = number(&buffer);
        world.wait("the stream has come", || {
            while let Ok(len) = sink.recv(&mut buffer) {
                let number = number(&buffer[..len]);
                assert_eq!((len, number), (PAYLOAD_BYTES_TS, last + 1));
                last = number;
            }
            last == sent + COUNT - 1
        });
        sender.join().unwrap();
    }
}

#[test]
fn the_tool_of_srt_sends_and_receives() {
    if !has_srt("the_tool_of_srt_sends_and_receives") {
        return;
    }
    let world = row("srt-tool");
    let here = world.endpoint(0).ip();
    let ends = Ends::open(&world);
    // The gateway calls the tool at one end, and the tool calls the gateway at the other.
    let tool_listens = world.endpoint(90);
    let port = world.endpoint(91);
    let from = format!("udp://{port}");
    let Some(_encoder) = transmit(&from, &format!("srt://{tool_listens}?mode=listener")) else {
        return;
    };
    let there = world.overlay_address("c");
    world.wait("a knows the way", || world.has_route("a", &there));
    let entry = format!("srt --call {tool_listens} --to {there}:5004 --latency 1s --node net/a");
    let entry = Gateway::start(&world, &entry);
    let exit = format!("srt --listen {here}:0 --from :5004 --latency 1s --node net/c");
    let exit = Gateway::start(&world, &exit);
    let exit_at = exit.listening(&world);
    let to = format!("udp://{}", ends.sink());
    let _decoder = transmit(&format!("srt://{exit_at}?mode=caller"), &to);
    entry.event(&world, "connected");
    exit.event(&world, "connected");
    ends.carry(&world, port);
}

/// Returns true if librist is available; otherwise prints a line.
fn has_rist(test: &str) -> bool {
    let loaded = rist::load();
    if let Err(error) = &loaded {
        eprintln!("SKIPPED: {test}: {error}");
    }
    loaded.is_ok()
}

#[test]
fn an_encoder_reaches_decoders_by_rist() {
    if !has_rist("an_encoder_reaches_decoders_by_rist") {
        return;
    }
    let world = row("rist");
    let secret = world.node("a").join("secret");
    std::fs::write(&secret, "a good secret\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&secret, mode).unwrap();
    let sealed = format!("--latency 1s --secret-file {}", secret.display());
    let [enters, leaves, player] = [83, 84, 85].map(|port| world.endpoint(port));
    let entry = format!("rist --listen {enters} --to {GROUP} {sealed} --node net/a");
    let entry = Gateway::start(&world, &entry);
    // One player calls the gateway, and the gateway calls the other player.
    let exit = format!("rist --listen {leaves} --from {GROUP} {sealed} --node net/c");
    let exit = Gateway::start(&world, &exit);
    let calls = format!("rist --call {player} --from {GROUP} {sealed} --node net/b");
    let calls = Gateway::start(&world, &calls);
    let options = rist::Options {
        profile: rist::Profile::Main,
        latency: Duration::from_millis(60),
        secret: Some(("a good secret".to_owned(), 128)),
    };
    let open = |end| rist::Receiver::open(&[end], &options).unwrap();
    let players = [
        open(rist::End::Call(leaves.to_string())),
        open(rist::End::Listen(player)),
    ];
    let encoder = rist::Sender::open(&[rist::End::Call(enters.to_string())], &options).unwrap();
    for gateway in [&entry, &exit, &calls] {
        gateway.event(&world, "connected");
    }
    wait_for_member(&world);
    let mut buffer = [0; 2_000];
    // The library needs a moment before it lets data pass: send until the first datagram has arrived everywhere.
    let mut first = 0;
    let mut numbers = [Vec::new(), Vec::new()];
    world.wait("the stream begins", || {
        assert!(encoder.send(&datagram(first)));
        first += 1;
        for (player, numbers) in players.iter().zip(&mut numbers) {
            while let Some(packet) = player.receive(&mut buffer, MOMENT / 10).unwrap() {
                assert_eq!(packet.len, PAYLOAD_BYTES_TS);
                numbers.push(number(&buffer));
            }
        }
        numbers.iter().all(|numbers| !numbers.is_empty())
    });
    let sender = std::thread::spawn(move || {
        for number in first..first + COUNT {
            encoder.send(&datagram(number));
            std::thread::sleep(INTERVAL);
        }
        encoder
    });
    world.wait("each player has the last", || {
        for (player, numbers) in players.iter().zip(&mut numbers) {
            while let Some(_packet) = player.receive(&mut buffer, MOMENT / 10).unwrap() {
                numbers.push(number(&buffer));
            }
        }
        let last = Some(first + COUNT - 1);
        numbers
            .iter()
            .all(|numbers| numbers.last().copied() == last)
    });
    let _encoder = sender.join().unwrap();
    for numbers in numbers {
        let all: Vec<u32> = (numbers[0]..first + COUNT).collect();
        assert_eq!(numbers, all);
    }
    let status = entry.wait(&world, "all is counted", |line| {
        line["packets"]
            .as_u64()
            .is_some_and(|packets| packets >= u64::from(COUNT))
    });
    assert_eq!(status["tr101290"]["sync_byte_error"], 0);
    assert_eq!(status["connected"], 1);
}

#[test]
fn two_encoders_by_rist_do_not_mix() {
    if !has_rist("two_encoders_by_rist_do_not_mix") {
        return;
    }
    let mut world = World::new("rist-two");
    world.add("a", 1, "");
    world.start("a");
    let sink = UdpSocket::bind((world.endpoint(0).ip(), 0)).unwrap();
    sink.set_read_timeout(Some(MOMENT / 10)).unwrap();
    let enters = world.endpoint(83);
    let entry = format!("rist --listen {enters} --to {GROUP} --node net/a");
    let entry = Gateway::start(&world, &entry);
    let out = sink.local_addr().unwrap();
    let exit = format!("rtp --from {GROUP} --out {out} --node net/a");
    let _exit = Gateway::start(&world, &exit);
    wait_for_member(&world);
    let options = rist::Options {
        profile: rist::Profile::Main,
        latency: Duration::from_millis(60),
        secret: None,
    };
    let open = || rist::Sender::open(&[rist::End::Call(enters.to_string())], &options).unwrap();
    let mut buffer = [0; 2_000];
    // Returns by which encoder the next packet is, if one arrives.
    let mut arrived = || sink.recv(&mut buffer).ok().map(|_| buffer[0]);
    let first = open();
    world.wait("the first encoder has the stream", || {
        first.send(&[1; 188]);
        arrived() == Some(1)
    });
    let second = open();
    let (mut refused, mut said) = (None, Vec::new());
    world.wait("the second encoder is refused", || {
        first.send(&[1; 188]);
        second.send(&[2; 188]);
        let is_second = arrived() == Some(2);
        said.extend(entry.lines.try_iter());
        // On a machine that stands still for two seconds, the first may be lost.
        let is_lost = said.iter().any(|line| line["event"] == "disconnected");
        assert!(!is_second || is_lost, "{said:?}");
        refused = said.iter().find(|line| line["event"] == "refused").cloned();
        refused.is_some()
    });
    let peer: IpAddr = refused.unwrap()["peer"].as_str().unwrap().parse().unwrap();
    assert!(peer.is_loopback(), "{peer}");
    entry.wait(&world, "its packets are counted", |line| {
        line["drops"]["second_sender"].as_u64() > Some(0)
    });
    // When the first has gone, the other one gets the stream.
    drop(first);
    world.wait("the second encoder has the stream", || {
        second.send(&[2; 188]);
        arrived() == Some(2)
    });
}

#[test]
fn the_tools_of_rist_send_and_receive() {
    if !has_rist("the_tools_of_rist_send_and_receive") {
        return;
    }
    let world = row("rist-tool");
    let ends = Ends::open(&world);
    let [port, enters, leaves] = [86, 87, 88].map(|port| world.endpoint(port));
    // The latency is a second, here and in the tests of SRT. On a busy machine the tools stand still for longer than
    // the usual buffer lasts, and then they skip packets.
    let entry = format!("rist --listen {enters} --to {GROUP} --latency 1s --node net/a");
    let _entry = Gateway::start(&world, &entry);
    let exit = format!("rist --listen {leaves} --from {GROUP} --latency 1s --node net/c");
    let _exit = Gateway::start(&world, &exit);
    let url = |scheme: &str, at: SocketAddr| format!("{scheme}://{at}");
    let (from, into) = (format!("udp://@{port}"), url("rist", enters));
    let words = ["-p", "1", "-b", "1000", "-i", &from, "-o", &into];
    let Some(_encoder) = tool("ristsender", "rist-tools", &words) else {
        return;
    };
    let (out, to) = (url("rist", leaves), url("udp", ends.sink()));
    let words = ["-p", "1", "-b", "1000", "-i", &out, "-o", &to];
    let _decoder = tool("ristreceiver", "rist-tools", &words).unwrap();
    ends.carry(&world, port);
}

/// Makes a datagram of RTP.
fn rtp(seq: u32) -> Vec<u8> {
    let header = voice::rtp::Header {
        marker: false,
        payload_type: 33,
        seq: seq as u16,
        timestamp: seq,
        ssrc: 7,
    };
    [&header.to_bytes()[..], &datagram(seq)].concat()
}

#[test]
fn two_ways_in_and_two_ways_out_carry_one_stream() {
    let world = row("pair");
    let here = world.endpoint(0).ip();
    let ways = [world.endpoint(81), world.endpoint(82)];
    let sinks = [(); 2].map(|()| UdpSocket::bind((here, 0)).unwrap());
    for sink in &sinks {
        sink.set_nonblocking(true).unwrap();
        net::udp::enlarge(sink);
    }
    let [one, other] = ways;
    let entry = format!("rtp --in {one} --in {other} --to {GROUP} --node net/a");
    let entry = Gateway::start(&world, &entry);
    let [out, out_too] = sinks.each_ref().map(|sink| sink.local_addr().unwrap());
    let exit = format!("rtp --from {GROUP} --out {out} --out {out_too} --node net/c");
    let exit = Gateway::start(&world, &exit);
    entry.event(&world, "running");
    exit.event(&world, "running");
    wait_for_member(&world);
    let source = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let sender = std::thread::spawn(move || {
        send(|number, _| {
            // Every second packet goes over one path only, in turn; the first and the last go over both.
            for (index, way) in ways.iter().enumerate() {
                let is_lost = number % 4 == 1 + 2 * index as u32 && number + 1 < COUNT;
                if !is_lost {
                    source.send_to(&rtp(number), way).unwrap();
                }
            }
        });
    });
    let mut buffer = [0; 2_000];
    let mut numbers = [Vec::new(), Vec::new()];
    world.wait("each way has brought all", || {
        for (sink, numbers) in sinks.iter().zip(&mut numbers) {
            while let Ok(len) = sink.recv(&mut buffer) {
                let number = number(&buffer[12..]);
                assert_eq!(&buffer[..len], rtp(number));
                numbers.push(number);
            }
        }
        numbers
            .iter()
            .all(|numbers| numbers.last() == Some(&(COUNT - 1)))
    });
    for numbers in numbers {
        assert_eq!(numbers, (0..COUNT).collect::<Vec<_>>());
    }
    sender.join().unwrap();
    let status = entry.wait(&world, "all is counted", |line| line["packets"] == COUNT);
    assert_eq!(
        status["merged"],
        json!({"sent": COUNT, "lost": 0, "restarts": 0})
    );
    for leg in status["legs"].as_array().unwrap() {
        assert!(
            leg["lost"].as_u64().unwrap() >= u64::from(COUNT / 4 - 1),
            "{status}"
        );
    }
    let status = exit.wait(&world, "all has left", |line| line["packets"] == COUNT);
    assert_eq!(status["tr101290"]["continuity_count_error"], 0);
    assert_eq!(status["dropped"], 0);
}

#[test]
fn who_may_not_receive_a_group_is_told_so_and_may_when_the_permit_is_taken_back() {
    let world = row("permits");
    let here = world.endpoint(0).ip();
    world.sinew("group set 239.1.0.0/16 --send a --receive b,@nobody.example --node net/a");
    // As long as no node uses the group, there is nothing to show.
    let is_limited = || {
        let shown = world.try_sinew("group show 239.1.1.1 --node net/c");
        String::from_utf8_lossy(&shown.stdout).contains("may receive")
    };
    world.wait("c knows who may", is_limited);
    let shown = world.sinew("group show 239.1.1.1 --node net/c");
    assert!(
        shown.contains("a may send, b, @nobody.example may receive"),
        "{shown}"
    );
    let words = format!("rtp --from {GROUP} --out {here}:9 --node net/c");
    let refused = Gateway::start(&world, &words);
    let told = refused.event(&world, "node_away");
    let text = told["text"].as_str().unwrap();
    assert!(text.contains("may not receive 239.1.1.1"), "{text}");
    // A program that may not send gets an error from its node.
    let enters = world.endpoint(89);
    let other = Gateway::start(
        &world,
        &format!("rtp --in {enters} --to {GROUP} --node net/c"),
    );
    other.event(&world, "running");
    let source = UdpSocket::bind((here, 0)).unwrap();
    let told = other.wait(&world, "the node refuses", |line| {
        source.send_to(&datagram(0), enters).unwrap();
        line["event"] == "node_away"
    });
    let text = told["text"].as_str().unwrap();
    assert!(text.contains("may not send to 239.1.1.1"), "{text}");
    world.sinew("group set 239.1.0.0/16 --send * --receive * --node net/a");
    world.wait("c may", || !is_limited());
    // The gateway joins again by itself.
    wait_for_member(&world);
    let why = world.sinew("why a 239.1.1.1 --node net/a");
    assert!(why.contains("all may send"), "{why}");
    assert!(why.contains("to c"), "{why}");
}
