//! The edge: asks name servers over UDP, and over TCP if an answer does not fit. The crate `domain` sends and
//! receives. This module decides which server to ask, and for how long to wait.
//!
//! ```text
//!   hosts file ── has the name ──▶ addresses
//!        │ has not
//!        ▼
//!   server 1 ── no answer, or failure ──▶ server 2 ──▶ … ──▶ server 1 again ──▶ … ──▶ error
//! ```

use super::{Error, QUESTIONS_MAX, Settings};
use bytes::Bytes;
use core::time::Duration;
use domain::base::iana::Rcode;
use domain::base::{Message, MessageBuilder, Name, Rtype};
use domain::net::client::dgram_stream::{Config, Connection};
use domain::net::client::protocol::{TcpConnect, UdpConnect};
use domain::net::client::request::{RequestMessage, SendRequest};
use domain::resolv::stub::conf::ResolvConf;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};

/// How long to wait for one answer of one server.
const TIMEOUT: Duration = Duration::from_millis(1_200);
/// How often each server is asked. The C library asks as often.
const ATTEMPTS: usize = 2;
/// The most servers that are asked. The C library uses as many.
const SERVERS_MAX: usize = 3;
/// The most bytes of the hosts file that are read. Block lists with 100 000 names are smaller.
const HOSTS_BYTES_MAX: u64 = 16 << 20;

/// A question, ready to be sent.
type Request = RequestMessage<Vec<u8>>;
/// An answer.
pub(super) type Answered = Message<Bytes>;

/// The name servers of this host.
#[derive(Debug)]
pub(super) struct Resolver {
    servers: Vec<Connection<UdpConnect, Request>>,
    /// Whether the hosts file of this host counts. It does not if the user has named a server.
    reads_hosts: bool,
}

impl Resolver {
    /// Uses the server that `settings` names, or those of `/etc/resolv.conf`.
    ///
    /// Call it, and use the resolver, within one tokio runtime: it starts tasks there, which end when the resolver is
    /// dropped.
    pub(super) fn new(settings: &Settings) -> Result<Resolver, Error> {
        let servers = match settings.server {
            Some(server) => vec![server],
            None => configured()?,
        };
        let connect = |at: &SocketAddr| {
            let (connection, transport) =
                Connection::with_config(UdpConnect::new(*at), TcpConnect::new(*at), config());
            tokio::spawn(transport.run());
            connection
        };
        Ok(Resolver {
            servers: servers.iter().take(SERVERS_MAX).map(connect).collect(),
            reads_hosts: settings.server.is_none(),
        })
    }

    /// Asks for the records of one kind. The answer says that there are some, or that there are none; if no server
    /// gives such an answer, the error says why.
    pub(super) async fn ask(&self, name: &Name<Vec<u8>>, kind: Rtype) -> Result<Answered, String> {
        let mut why = String::from("no name server answered in time");
        for server in core::iter::repeat_n(&self.servers, ATTEMPTS).flatten() {
            let mut sent = server.send_request(request(name, kind)?);
            match tokio::time::timeout(TIMEOUT, sent.get_response()).await {
                Ok(Ok(answer)) => match answer.header().rcode() {
                    Rcode::NOERROR | Rcode::NXDOMAIN => return Ok(answer),
                    code => why = format!("the name server says {code}"),
                },
                Ok(Err(error)) => why = error.to_string(),
                Err(_) => {}
            }
        }
        Err(why)
    }

    /// Returns the addresses that the hosts file has for a name.
    pub(super) fn hosts(&self, name: &str) -> Vec<IpAddr> {
        let mut bytes = Vec::new();
        if self.reads_hosts
            && let Ok(file) = std::fs::File::open("/etc/hosts")
        {
            // If the file cannot be read to its end, the part before counts.
            let _ = file.take(HOSTS_BYTES_MAX).read_to_end(&mut bytes);
        }
        in_hosts(&String::from_utf8_lossy(&bytes), name)
    }
}

/// Returns the servers of `/etc/resolv.conf`.
fn configured() -> Result<Vec<SocketAddr>, Error> {
    let mut conf = ResolvConf::new();
    let parsed = conf.parse_file("/etc/resolv.conf");
    let servers: Vec<SocketAddr> = conf.servers.iter().map(|server| server.addr).collect();
    // The parser stops at a line that it does not know. The servers above that line count.
    match (servers.is_empty(), parsed) {
        (false, _) => Ok(servers),
        (true, Err(error)) => Err(Error::NoNameServer(error.to_string())),
        (true, Ok(())) => Err(Error::NoNameServer("/etc/resolv.conf names none".into())),
    }
}

fn config() -> Config {
    let mut config = Config::new();
    // The loop over the servers repeats a question. Each question leaves from a new port, with a new number.
    config.dgram_mut().set_max_retries(0);
    config.dgram_mut().set_read_timeout(TIMEOUT);
    config.dgram_mut().set_max_parallel(QUESTIONS_MAX);
    config.stream_mut().set_response_timeout(TIMEOUT);
    config
}

fn request(name: &Name<Vec<u8>>, kind: Rtype) -> Result<Request, String> {
    let mut message = MessageBuilder::new_vec();
    message.header_mut().set_rd(true);
    let mut message = message.question();
    message
        .push((name, kind))
        .map_err(|error| error.to_string())?;
    Request::new(message.into_message()).map_err(|error| error.to_string())
}

/// Returns the addresses of `name` in the text of a hosts file: lines of an address and names, `#` starts a comment.
fn in_hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let entries = text.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address: IpAddr = words.next()?.parse().ok()?;
        words
            .any(|word| word.trim_end_matches('.').eq_ignore_ascii_case(name))
            .then_some(address)
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_file_has_addresses_names_and_comments() {
        let text = "127.0.0.1 localhost\n# 192.0.2.9 ams.example\n::1\tip6-localhost  localhost # ams.example\n\
                    192.0.2.1  other Ams.Example. # comment\nno address ams.example\n192.0.2.2 ams.example\n";
        let of = |name| in_hosts(text, name);
        let parsed = |texts: &[&str]| -> Vec<IpAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        assert_eq!(of("localhost"), parsed(&["127.0.0.1", "::1"]));
        assert_eq!(of("ams.example"), parsed(&["192.0.2.1", "192.0.2.2"]));
        assert_eq!(of("example"), parsed(&[]));
    }
}
