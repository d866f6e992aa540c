//! Carries bytes in both directions between a TCP connection and a stream of the overlay, until both have ended.
//!
//! ```text
//!   TCP read ──▶ stream write      EOF of one side ──▶ shutdown of the other (half-close)
//!   stream read ──▶ TCP write      an error of one side ──▶ reset of the other, at once
//! ```
//! Until both directions have ended in order, closing the connection resets it: if the process is killed, the kernel
//! closes its connections.
//!
//! Linux reports a connection's error only once, to the first caller. After a reset, the thread that writes may get the
//! error, and the thread that reads sees what looks like an end. So before the reading thread accepts an end, it checks
//! whether the connection still exists.

use client::Stream;
use net::tcp;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// Number of bytes that are carried at once: what the node takes with one read.
const BUFFER_BYTES: usize = 65_536;
/// The stack size of a direction's thread, which has its buffer on the heap and needs little stack.
const STACK_BYTES: usize = 128 * 1024;

/// The numbers of bytes that were carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Bytes from TCP to the overlay.
    pub to_overlay: u64,
    /// Bytes from the overlay to TCP.
    pub to_tcp: u64,
}

/// Carries bytes in both directions until both have ended, or one of them has failed. After a failure both sides are
/// reset.
pub fn carry(tcp: TcpStream, stream: Stream) -> (Carried, io::Result<()>) {
    carry_any(tcp, stream)
}

/// The far side of the connection: a stream, or a fake one in a test.
trait Far: Sync {
    /// Ends the outgoing direction in order.
    fn end(&self) -> io::Result<()>;
    /// Ends both directions at once.
    fn reset(&self);
}

impl Far for Stream {
    fn end(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn reset(&self) {
        Stream::reset(self);
    }
}

fn carry_any<S: Far>(tcp: TcpStream, stream: S) -> (Carried, io::Result<()>)
where
    for<'a> &'a S: Read + Write,
{
    // Interactive programs wait for single bytes.
    let _ = tcp.set_nodelay(true);
    let _ = tcp::keep_alive(&tcp);
    let guarded = tcp::abort_on_close(&tcp, true);
    let pair = Pair {
        tcp,
        stream,
        ends: Mutex::default(),
    };
    let carried = thread::scope(|scope| {
        let outward = thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || pair.outward());
        match guarded.and(outward) {
            Ok(outward) => {
                let to_tcp = pair.inward();
                // A panic of the thread was handled as an error of its direction.
                let to_overlay = outward.join().unwrap_or_default();
                Carried { to_overlay, to_tcp }
            }
            Err(error) => {
                pair.fail(error);
                Carried::default()
            }
        }
    });
    let ends = pair.ends.into_inner();
    match ends.unwrap_or_else(PoisonError::into_inner).first_error {
        Some(error) => (carried, Err(error)),
        // After the end, the kernel still sends the client what is left.
        None => (carried, tcp::abort_on_close(&pair.tcp, false)),
    }
}

/// The two sides of the connection.
struct Pair<S> {
    tcp: TcpStream,
    stream: S,
    ends: Mutex<Ends>,
}

/// How the two directions have ended.
#[derive(Default)]
struct Ends {
    /// The first error; later ones only follow from it.
    first_error: Option<io::Error>,
    /// Whether all bytes were written to TCP without an error.
    wrote_all: bool,
}

impl<S: Far> Pair<S>
where
    for<'a> &'a S: Read + Write,
{
    fn outward(&self) -> u64 {
        let mut carried = 0;
        self.run(|| {
            pour(&self.tcp, &self.stream, &mut carried)?;
            self.end_stream()
        });
        carried
    }

    fn inward(&self) -> u64 {
        let mut carried = 0;
        self.run(|| {
            pour(&self.stream, &self.tcp, &mut carried)?;
            self.ends().wrote_all = true;
            self.tcp.shutdown(Shutdown::Write)
        });
        carried
    }

    /// Runs a direction. A panic counts as an error.
    fn run(&self, direction: impl FnOnce() -> io::Result<()>) {
        match catch_unwind(AssertUnwindSafe(direction)) {
            Ok(Ok(())) => {}
            // The other side has closed already, and has received everything that it wanted.
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotConnected => {}
            Ok(Err(error)) => self.fail(error),
            Err(_) => self.fail(io::Error::other("a thread of the gateway has panicked")),
        }
    }

    /// Ends the stream in order if TCP has ended in order. This holds the lock, so that an error at this moment resets
    /// the stream afterwards.
    fn end_stream(&self) -> io::Result<()> {
        let ends = self.ends();
        if ends.first_error.is_some() {
            return Ok(());
        }
        check_end(&self.tcp, ends.wrote_all)?;
        self.stream.end()
    }

    /// Ends both sides at once, which wakes the other direction from its read or write.
    fn fail(&self, error: io::Error) {
        self.ends().first_error.get_or_insert(error);
        self.stream.reset();
        tcp::abort(&self.tcp);
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks whether an end that a read has found is a real one. A connection that was reset has no peer any more. A
/// connection whose directions have both ended in order has no peer either. But while no write has failed, no write can
/// have consumed the error before the read. A connection that was reset after its end, because data for it came too
/// late, reports a broken pipe.
fn check_end(tcp: &TcpStream, wrote_all: bool) -> io::Result<()> {
    if wrote_all || tcp.peer_addr().is_ok() {
        return Ok(());
    }
    match tcp.take_error()? {
        Some(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(io::ErrorKind::ConnectionReset.into()),
    }
}

fn pour(mut from: impl Read, mut to: impl Write, carried: &mut u64) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let len = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(&buffer[..len])?;
        *carried += len as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    /// A stream whose bytes and errors are controlled by a test.
    #[derive(Clone, Default)]
    struct Fake(Arc<Script>);

    #[derive(Default)]
    struct Script {
        /// The thread that writes waits for this.
        may_go: Mutex<Option<Receiver<()>>>,
        go: Mutex<Option<Sender<()>>>,
        /// Signals that the writing thread has arrived (`came`) and has ended (`gone`).
        came: Mutex<Option<Sender<()>>>,
        gone: Mutex<Option<Receiver<()>>>,
        going: Mutex<Option<Sender<()>>>,
        /// The bytes to read. When the sender has gone, the reader finds the end, or panics.
        bytes: Mutex<Option<Receiver<u8>>>,
        panics: bool,
        told: Mutex<Vec<&'static str>>,
    }

    thread_local! {
        /// Dropped when its thread ends.
        static AT_END: Cell<Option<Sender<()>>> = const { Cell::new(None) };
    }

    fn take<T>(from: &Mutex<Option<T>>) -> Option<T> {
        from.lock().unwrap().take()
    }

    impl Far for Fake {
        fn end(&self) -> io::Result<()> {
            self.0.told.lock().unwrap().push("end");
            // Releases the receiver that waits for the end of this thread.
            AT_END.take();
            Ok(())
        }

        fn reset(&self) {
            take(&self.0.go);
            if let Some(gone) = take(&self.0.gone) {
                assert!(gone.recv().is_err());
            }
            self.0.told.lock().unwrap().push("reset");
        }
    }

    impl Read for &Fake {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let came = self.0.bytes.lock().unwrap().as_ref().map(Receiver::recv);
            match came {
                Some(Ok(byte)) => {
                    buffer[0] = byte;
                    Ok(1)
                }
                _ if self.0.panics => panic!("a fault of the gateway"),
                _ => Ok(0),
            }
        }
    }

    impl Write for &Fake {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            AT_END.set(take(&self.0.going));
            take(&self.0.came);
            if let Some(may_go) = take(&self.0.may_go) {
                assert!(may_go.recv().is_err());
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The thread that writes to TCP gets the error of a reset. Before it reports the error, the thread that reads sees
    /// what looks like an end.
    #[test]
    fn a_reset_that_a_write_was_told_is_no_end_to_the_read() {
        let (mut client, tcp) = pair();
        client.write_all(b"a part").unwrap();
        let [(go, may_go), (going, gone), (came, has_come)] = [(); 3].map(|()| channel::<()>());
        let (byte, bytes) = channel();
        let fake = Fake(Arc::new(Script {
            may_go: Mutex::new(Some(may_go)),
            go: Mutex::new(Some(go)),
            came: Mutex::new(Some(came)),
            gone: Mutex::new(Some(gone)),
            going: Mutex::new(Some(going)),
            bytes: Mutex::new(Some(bytes)),
            ..Script::default()
        }));
        let stream = fake.clone();
        let carrying = thread::spawn(move || carry_any(tcp, stream));
        // The part is about to be written to the overlay when the client resets and the target answers.
        assert!(has_come.recv().is_err());
        tcp::abort_on_close(&client, true).unwrap();
        drop(client);
        byte.send(7).unwrap();
        let (carried, ended) = carrying.join().unwrap();
        assert_eq!(carried.to_overlay, 6);
        let kind = ended.unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::ConnectionReset);
        let told = fake.0.told.lock().unwrap();
        assert!(!told.contains(&"end"), "a part is no whole: {told:?}");
    }

    /// The same case, before the writing thread has recorded the error.
    #[test]
    fn a_read_that_finds_no_connection_has_found_no_end() {
        let (client, mut tcp) = pair();
        tcp::abort_on_close(&client, true).unwrap();
        drop(client);
        // The kernel of this host has handled the reset before the close returns.
        let error = tcp.write(b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(tcp.read(&mut [0; 8]).unwrap(), 0, "it looks like an end");
        let error = check_end(&tcp, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    /// The client has sent everything and closed; the answer finds no receiver.
    #[test]
    fn an_end_is_one_although_a_reset_follows() {
        let (mut client, mut tcp) = pair();
        client.write_all(b"all").unwrap();
        drop(client);
        // The kernel of this host has handled the reset before the write returns.
        tcp.write_all(b"too late").unwrap();
        let mut bytes = Vec::new();
        tcp.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"all");
        assert!(tcp.peer_addr().is_err(), "it was reset");
        check_end(&tcp, false).unwrap();
    }

    #[test]
    fn a_thread_that_panics_has_not_ended_in_order() {
        let (mut client, tcp) = pair();
        let fake = Fake(Arc::new(Script {
            panics: true,
            ..Script::default()
        }));
        let (_, ended) = carry_any(tcp, fake.clone());
        assert!(ended.is_err());
        assert!(client.read(&mut [0; 8]).is_err(), "reset");
        let told = fake.0.told.lock().unwrap();
        assert!(told.contains(&"reset") && !told.contains(&"end"));
    }

    #[test]
    fn ends_in_order_are_ends_whoever_is_first() {
        let (client, mut tcp) = pair();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(tcp.read(&mut [0; 8]).unwrap(), 0);
        check_end(&tcp, false).unwrap();

        let (mut client, mut tcp) = pair();
        tcp.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
        drop(client);
        assert_eq!(tcp.read(&mut [0; 8]).unwrap(), 0);
        assert!(tcp.peer_addr().is_err(), "closed both ways");
        check_end(&tcp, true).unwrap();
    }
}
