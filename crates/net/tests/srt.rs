//! Tests SRT between two sockets of this process, by libsrt. If libsrt is missing, the tests report this and are
//! skipped.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that says when it is skipped"
)]

use net::srt::{self, Error, Listener, Options, Poll, Ready, Refusal, Socket, Wanted};
use std::time::Duration;

/// Time limit for any operation. Only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two checks.
const PACE: Duration = Duration::from_millis(10);

/// Returns the next nonempty events.
#[track_caller]
fn wait(poll: &Poll) -> Vec<Ready> {
    let mut ready = Vec::new();
    poll.wait(PATIENCE, &mut ready).unwrap();
    assert!(!ready.is_empty(), "nothing has come");
    ready
}

/// Waits until a call is answered, and returns whether it was admitted.
#[track_caller]
fn answered(socket: &Socket) -> bool {
    let nothing = Poll::new().unwrap();
    for _ in 0..PATIENCE.as_millis() / PACE.as_millis() {
        if !socket.is_connecting() {
            return socket.is_connected();
        }
        nothing.wait(PACE, &mut Vec::new()).unwrap();
    }
    panic!("nobody answers");
}

fn watched(socket: &Socket) -> Poll {
    let poll = Poll::new().unwrap();
    let wanted = Wanted {
        readable: true,
        writable: false,
    };
    poll.add(socket, wanted).unwrap();
    poll
}

#[test]
fn messages_cross_and_callers_are_decided_on() {
    if let Err(error) = srt::load() {
        eprintln!("SKIPPED: messages_cross_and_callers_are_decided_on: {error}");
        return;
    }
    let listens = Options {
        latency: Duration::from_millis(30),
        ..Options::default()
    };
    let admit = |_, id: &str| match id {
        "studio" => Ok(()),
        "panic" => panic!("a decision that fails is a refusal"),
        _ => Err(Refusal::NotFound),
    };
    let local = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind(local, &listens, Box::new(admit)).unwrap();
    let at = listener.local().unwrap();
    let callers = watched(listener.socket());
    let calls = |id: &str| Options {
        latency: Duration::from_millis(20),
        stream_id: Some(id.to_owned()),
        ..Options::default()
    };
    for (id, word) in [("stage", "404"), ("panic", "500")] {
        let refused = Socket::call(at, &calls(id)).unwrap();
        assert!(!answered(&refused));
        assert!(refused.why_rejected().to_string().contains(word));
    }
    assert!(matches!(listener.accept(), Err(Error::WouldBlock)));
    let caller = Socket::call(at, &calls("studio")).unwrap();
    assert!(answered(&caller));
    wait(&callers);
    let (socket, peer) = listener.accept().unwrap();
    assert!(peer.ip().is_loopback());
    assert_eq!(socket.stream_id(), "studio");

    let mut buffer = [0; 2_000];
    assert!(matches!(
        socket.receive(&mut buffer),
        Err(Error::WouldBlock)
    ));
    let poll = watched(&socket);
    for message in [&[1; 1_316][..], &[2; 188]] {
        caller.send(message, 0).unwrap();
        wait(&poll);
        assert_eq!(socket.receive(&mut buffer).unwrap(), message.len());
        assert_eq!(&buffer[..message.len()], message);
    }
    assert!(matches!(caller.send(&[0; 1_457], 0), Err(Error::Other(_))));
    let stats = socket.stats().unwrap();
    assert_eq!((stats.received_packets, stats.receive_dropped), (2, 0));
    // The longer latency of both ends is used.
    assert_eq!(stats.receive_latency_ms, 30);
    assert_eq!(caller.stats().unwrap().sent_packets, 2);
    drop(caller);
    assert!(wait(&poll)[0].failed);
    assert!(matches!(socket.receive(&mut buffer), Err(Error::Broken)));
}
