//! Ends streams whose client has vanished.

use core::time::Duration;
use net::poll::{Polled, poll};
use net::unix::{Received, SeqStream};
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::time::Instant;
use wire::ipc::Request;

/// How long the node may take to react. Normally it takes microseconds.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest message about a stream.
const NOTICE_BYTES_MAX: usize = 256;

/// Ends streams prematurely, by the connections that report their ends: the peers get an error and not an end. When it
/// returns, the streams may be closed; before the node has reacted, that would look like an orderly end.
pub fn abandon(notices: &[&SeqStream]) {
    let mut bytes = [0; 8];
    let Ok(len) = Request::Reset.emit(&mut bytes) else {
        return;
    };
    let told = |stream: &SeqStream| {
        let told = stream.set_nonblocking(true);
        told.and_then(|()| stream.send_parts(&[IoSlice::new(&bytes[..len])]))
    };
    let until = Instant::now() + PATIENCE;
    // If nothing can be sent, the node has gone, or the stream has already ended.
    let heard: Vec<&SeqStream> = notices
        .iter()
        .copied()
        .filter(|stream| told(stream).is_ok())
        .collect();
    for stream in heard {
        wait_for_end(stream, until);
    }
}

/// Waits until the node has closed its end.
fn wait_for_end(stream: &SeqStream, until: Instant) {
    let mut buffer = [0; NOTICE_BYTES_MAX];
    loop {
        match stream.recv_into(&mut buffer) {
            Ok(Received::Message(_) | Received::Truncated(_)) => {}
            Ok(Received::Closed) | Err(_) => return,
            Ok(Received::Empty) => {
                let left = until.saturating_duration_since(Instant::now());
                let mut one = [Polled::new(stream.as_fd(), true, false)];
                if left.is_zero() || poll(&mut one, Some(left)).is_err() {
                    return;
                }
            }
        }
    }
}
