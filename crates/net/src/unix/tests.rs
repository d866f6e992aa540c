use super::*;
use crate::epoll::{Interest, Poller};
use std::fs;
use std::io::{ErrorKind, IoSlice};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

/// A directory for one test, which is removed when the test ends.
struct Dir(PathBuf);
impl Dir {
    fn new(test: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("net-unix-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        Dir(dir)
    }
    fn socket(&self) -> PathBuf {
        self.0.join("node.sock")
    }
}
impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Leaves the socket file behind as a killed process does.
fn kill(listener: SeqListener) {
    let path = listener.path().to_owned();
    let aside = path.with_extension("aside");
    fs::rename(&path, &aside).unwrap();
    drop(listener);
    fs::rename(&aside, &path).unwrap();
}

#[test]
fn messages_keep_their_bounds_and_the_peer_is_known() {
    let dir = Dir::new("bounds");
    let mut listener = SeqListener::bind(&dir.socket(), 0o600).unwrap();
    assert!(listener.accept().unwrap().is_none());
    let client = SeqStream::connect(&dir.socket()).unwrap();
    let node = listener.accept().unwrap().unwrap();
    let mut buffer = [0; 64];
    assert_eq!(node.recv_into(&mut buffer).unwrap(), Received::Empty);
    client
        .send_parts(&[IoSlice::new(b"head"), IoSlice::new(b"body")])
        .unwrap();
    client.send_parts(&[IoSlice::new(b"next")]).unwrap();
    assert_eq!(node.recv_into(&mut buffer).unwrap(), Received::Message(8));
    assert_eq!(&buffer[..8], b"headbody");
    assert_eq!(node.recv_into(&mut buffer).unwrap(), Received::Message(4));
    assert_eq!(node.peer().unwrap().pid, std::process::id() as i32);
    drop(client);
    assert_eq!(node.recv_into(&mut buffer).unwrap(), Received::Closed);
    let broken = node.send_parts(&[IoSlice::new(b"x")]).unwrap_err();
    assert_eq!(broken.kind(), ErrorKind::BrokenPipe);
}

#[test]
fn a_message_longer_than_the_buffer_is_reported_with_its_length() {
    let (a, b) = SeqStream::pair().unwrap();
    a.send_parts(&[IoSlice::new(&[7; 100])]).unwrap();
    a.send_parts(&[IoSlice::new(&[8; 10])]).unwrap();
    let mut buffer = [0; 10];
    assert_eq!(b.recv_into(&mut buffer).unwrap(), Received::Truncated(100));
    assert_eq!(buffer, [7; 10]);
    assert_eq!(b.recv_into(&mut buffer).unwrap(), Received::Message(10));
    assert_eq!(buffer, [8; 10]);
}

#[test]
fn what_was_said_last_is_heard_though_not_everything_was_read() {
    let pairs = [(); 3].map(|()| SeqStream::pair().unwrap());
    for (a, b) in &pairs {
        b.send_parts(&[IoSlice::new(b"not read")]).unwrap();
        a.send_parts(&[IoSlice::new(b"why")]).unwrap();
    }
    let [first, second, third] = pairs.map(|(a, b)| {
        drop(a);
        b
    });
    let mut buffer = [0; 8];
    assert_eq!(first.recv_into(&mut buffer).unwrap(), Received::Message(3));
    assert_eq!(first.recv_into(&mut buffer).unwrap(), Received::Closed);
    let (with_fds, _) = second.recv_with_fds(&mut buffer).unwrap();
    assert_eq!(with_fds, Received::Message(3));
    assert_eq!(third.peek_len().unwrap(), Received::Truncated(3));
    assert_eq!(&buffer[..3], b"why");
}

#[test]
fn waiting_ends_when_it_was_said_to() {
    let (a, b) = SeqStream::pair().unwrap();
    a.set_nonblocking(false).unwrap();
    let moment = Some(std::time::Duration::ZERO);
    a.set_timeouts(moment, moment).unwrap();
    assert_eq!(a.recv_into(&mut [0; 8]).unwrap(), Received::Empty);
    let full = loop {
        if let Err(error) = a.send_parts(&[IoSlice::new(&[0; 65_536])]) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    a.set_timeouts(None, None).unwrap();
    b.send_parts(&[IoSlice::new(b"x")]).unwrap();
    assert_eq!(a.recv_into(&mut [0; 8]).unwrap(), Received::Message(1));
}

#[test]
fn a_full_peer_blocks_and_the_poller_tells_when_it_has_room() {
    let (a, b) = SeqStream::pair().unwrap();
    let message = [0; 65_536];
    let mut sent = 0;
    let full = loop {
        match a.send_parts(&[IoSlice::new(&message)]) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    assert!(sent > 0);
    let mut poller = Poller::new().unwrap();
    poller.add(&a, 1, Interest::READ_WRITE).unwrap();
    let mut buffer = vec![0; 65_536];
    for _ in 0..sent {
        assert_eq!(b.recv_into(&mut buffer).unwrap(), Received::Message(65_536));
    }
    let mut ready = Vec::new();
    poller.wait(None, &mut ready).unwrap();
    assert!(ready[0].writable);
    a.send_parts(&[IoSlice::new(&message)]).unwrap();
}

#[test]
fn the_file_has_the_mode_asked_for_and_goes_with_the_listener() {
    let dir = Dir::new("mode");
    for mode in [0o600, 0o660, 0o666] {
        let listener = SeqListener::bind(&dir.socket(), mode).unwrap();
        let file = fs::metadata(dir.socket()).unwrap();
        assert_eq!(file.permissions().mode() & 0o777, mode);
        drop(listener);
        assert!(!dir.socket().exists());
    }
}

#[test]
fn a_stale_file_is_replaced_and_a_live_node_is_not() {
    let dir = Dir::new("stale");
    kill(SeqListener::bind(&dir.socket(), 0o600).unwrap());
    assert!(dir.socket().exists());
    let live = SeqListener::bind(&dir.socket(), 0o600).unwrap();
    let refused = SeqListener::bind(&dir.socket(), 0o600).unwrap_err();
    assert!(matches!(refused, BindError::InUse(_)), "{refused}");
    assert!(
        SeqStream::connect(&dir.socket()).is_ok(),
        "the live one still answers"
    );
    drop(live);
    let other_type = UnixListener::bind(dir.socket()).unwrap();
    let refused = SeqListener::bind(&dir.socket(), 0o600).unwrap_err();
    assert!(matches!(refused, BindError::InUse(_)), "{refused}");
    assert!(UnixStream::connect(dir.socket()).is_ok());
    drop(other_type);
    SeqListener::bind(&dir.socket(), 0o600).expect("a dead stream socket is stale as well");
}

#[test]
fn only_sockets_are_ever_removed() {
    let dir = Dir::new("file");
    fs::write(dir.socket(), "precious").unwrap();
    let refused = SeqListener::bind(&dir.socket(), 0o600).unwrap_err();
    assert!(matches!(refused, BindError::NotASocket(_)), "{refused}");
    assert_eq!(fs::read(dir.socket()).unwrap(), b"precious");
    fs::remove_file(dir.socket()).unwrap();
    let first = SeqListener::bind(&dir.socket(), 0o600).unwrap();
    fs::remove_file(dir.socket()).unwrap();
    let second = SeqListener::bind(&dir.socket(), 0o600).unwrap();
    drop(first);
    assert!(dir.socket().exists(), "the file of another listener stays");
    drop(second);
}

#[test]
fn two_that_start_at_once_do_not_take_the_file_from_each_other() {
    let dir = Dir::new("race");
    for _ in 0..20 {
        kill(SeqListener::bind(&dir.socket(), 0o600).unwrap());
        let bind = || SeqListener::bind(&dir.socket(), 0o600);
        let bound = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(bind));
            threads.map(|thread| thread.join().unwrap())
        });
        let winners = bound.iter().filter(|result| result.is_ok()).count();
        assert_eq!(winners, 1);
        SeqStream::connect(&dir.socket()).expect("the winner answers");
    }
}

#[test]
fn whoever_binds_waits_for_others_in_the_directory() {
    let dir = Dir::new("lock");
    let held = fs::File::open(&dir.0).unwrap();
    // SAFETY: no pointers are involved.
    let locked = unsafe { libc::flock(held.as_raw_fd(), libc::LOCK_EX) };
    assert_eq!(locked, 0);
    let refused = SeqListener::bind_within(&dir.socket(), 0o600, 2).unwrap_err();
    assert!(matches!(refused, BindError::Locked(_)), "{refused}");
    assert!(!dir.socket().exists());
    drop(held);
    SeqListener::bind_within(&dir.socket(), 0o600, 1).unwrap();
}

#[test]
fn paths_that_do_not_fit_are_refused() {
    let long = PathBuf::from(format!("/tmp/{}", "x".repeat(110)));
    let refused = SeqListener::bind(&long, 0o600).unwrap_err();
    assert!(matches!(refused, BindError::TooLong(_)), "{refused}");
    assert!(SeqStream::connect(&long).is_err());
    let nowhere = PathBuf::from("/nonexistent/node.sock");
    assert!(matches!(
        SeqListener::bind(&nowhere, 0o600),
        Err(BindError::Io { .. })
    ));
}
