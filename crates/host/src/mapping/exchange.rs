//! One HTTP exchange with the router: a request, and an answer of bounded size within bounded time. No other host is
//! contacted.

use super::mapper::{PATIENCE, Request};
use base::{Duration, Time};
use net::clock::Clock;
use net::poll::{Polled, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::AsFd;
use std::time;
use wire::mapping::upnp::http::{ANSWER_MAX, Answer};

/// The router, as the next hop, accepts a connection within this time. The thread does nothing else meanwhile.
const CONNECT: time::Duration = time::Duration::from_secs(1);
/// How long the end of the node waits for the router's answer. Choice: some routers drop a request if the connection
/// ends before they have answered.
const LAST_WORD: Duration = Duration::from_secs(1);
/// Number of bytes that are read at once.
const PART: usize = 4 * 1024;

/// A request that was sent.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) id: u64,
    pub(super) stream: TcpStream,
    pub(super) until: Time,
    came: Vec<u8>,
    has_ended: bool,
}

impl Exchange {
    /// Connects from the node's own address, because a router may map ports only to the host that asks.
    pub(super) fn begin(own: Ipv4Addr, request: &Request, now: Time) -> io::Result<Exchange> {
        let mut stream = net::dial::connect_from(own.into(), request.to.into(), CONNECT)?;
        stream.set_nonblocking(true)?;
        // A new connection has room for the request.
        stream.write_all(&request.bytes)?;
        Ok(Exchange {
            id: request.id,
            stream,
            until: now + PATIENCE,
            came: Vec::new(),
            has_ended: false,
        })
    }

    /// Reads what has arrived. Returns true when there is nothing to wait for: then [`Exchange::answer`] returns the
    /// result.
    pub(super) fn read(&mut self) -> bool {
        let mut part = [0; PART];
        while self.came.len() <= ANSWER_MAX {
            match self.stream.read(&mut part) {
                Ok(0) => self.has_ended = true,
                Ok(len) => {
                    self.came.extend_from_slice(&part[..len]);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Some connections end in this way after the last byte.
                Err(_) => self.has_ended = true,
            }
            break;
        }
        !matches!(Answer::parse(&self.came, self.has_ended), Ok(None))
    }

    /// Returns the router's answer, or the reason why there is none.
    pub(super) fn answer(&self) -> Result<Answer<'_>, &'static str> {
        match Answer::parse(&self.came, self.has_ended) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err("timeout"),
            Err(_) if self.came.is_empty() => Err("closed"),
            Err(_) => Err("malformed"),
        }
    }
}

/// Sends the router a request when the node ends, and waits a moment for any answer.
pub(super) fn last_word(clock: &Clock, own: Ipv4Addr, request: &Request) {
    let Ok(mut exchange) = Exchange::begin(own, request, clock.now()) else {
        return;
    };
    let until = clock.now() + LAST_WORD;
    while !exchange.read() {
        let left = time::Duration::from_micros(until.since(clock.now()).as_micros());
        let mut polled = [Polled::new(exchange.stream.as_fd(), true, false)];
        if left.is_zero() || poll(&mut polled, Some(left)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, TcpListener};

    const OWN: Ipv4Addr = Ipv4Addr::LOCALHOST;

    /// Returns what is read from a router that sends these parts, and closes the connection.
    fn read(parts: &[&[u8]]) -> Result<Vec<u8>, &'static str> {
        let listener = TcpListener::bind((OWN, 0)).unwrap();
        let SocketAddr::V4(to) = listener.local_addr().unwrap() else {
            panic!("it is one of IPv4");
        };
        let bytes = b"GET / HTTP/1.1\r\n\r\n".to_vec();
        let request = Request { id: 1, to, bytes };
        let mut exchange = Exchange::begin(OWN, &request, Time::ZERO).unwrap();
        let (mut router, _) = listener.accept().unwrap();
        let mut asked = vec![0; request.bytes.len()];
        router.read_exact(&mut asked).unwrap();
        assert_eq!(asked, request.bytes);
        assert!(!exchange.read(), "nothing has come");
        assert_eq!(exchange.answer(), Err("timeout"));
        std::thread::scope(|scope| {
            scope.spawn(move || parts.iter().try_for_each(|part| router.write_all(part)));
            while !exchange.read() {
                poll(
                    &mut [Polled::new(exchange.stream.as_fd(), true, false)],
                    None,
                )
                .unwrap();
            }
        });
        exchange.answer().map(|it| it.body.into_owned())
    }

    #[test]
    fn an_answer_is_read_however_it_comes() {
        let head = b"HTTP/1.1 200 OK\r\n";
        let length = b"Content-Length: 5\r\n\r\nhe";
        assert_eq!(read(&[head, length, b"llo"]), Ok(b"hello".to_vec()));
        assert_eq!(read(&[head, b"\r\nhello"]), Ok(b"hello".to_vec()));
        assert_eq!(read(&[head, length]), Err("malformed"), "it ends early");
        assert_eq!(read(&[]), Err("closed"));
        assert_eq!(read(&[&vec![b'x'; ANSWER_MAX + 1]]), Err("malformed"));
    }

    #[test]
    fn a_last_word_waits_for_no_router_that_has_none() {
        let listener = TcpListener::bind((OWN, 0)).unwrap();
        let SocketAddr::V4(to) = listener.local_addr().unwrap() else {
            panic!("it is one of IPv4");
        };
        let bytes = b"POST / HTTP/1.1\r\n\r\n".to_vec();
        let request = Request { id: 1, to, bytes };
        std::thread::scope(|scope| {
            let router = scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = Vec::new();
                stream.read_to_end(&mut asked).map(|_| asked)
            });
            last_word(&Clock::new(), OWN, &request);
            assert_eq!(router.join().unwrap().unwrap(), request.bytes);
        });
        drop(listener);
        last_word(&Clock::new(), OWN, &request);
    }
}
