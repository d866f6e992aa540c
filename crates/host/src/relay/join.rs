//! The other side of [`crate::admission`]: a host asks an issuer for its certificate.

use super::dial::{PATIENCE, watch};
use super::duplex::{Duplex, Received};
use super::failure::FailureKind;
use super::socket::{Data, Socket};
use super::tls;
use crate::renewal::Place;
use base::NodeAddr;
use secure::{Certificate, Keys, Revocations};
use std::io::{self, ErrorKind, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Instant;
use wire::bytes::{Reader, Writer};
use wire::certificate::KEY_BYTES;
use wire::relay::join::{Endpoints, Join, SECRET_BYTES};
use wire::relay::{DATA_PREAMBLE_BYTES, Message, Preamble};

/// The request of a host.
#[derive(Clone, Copy, Debug)]
pub enum Ask<'a> {
    /// To become a node.
    Join {
        /// The secret of the invitation.
        secret: &'a [u8; SECRET_BYTES],
        /// The name that it wants.
        name: &'a str,
        /// The endpoints at which other nodes reach it.
        endpoints: &'a [String],
    },
    /// To get the next certificate after this one.
    Renew(&'a Certificate),
}

/// The issuer's answer to a host.
#[derive(Clone, Debug)]
pub struct Given {
    /// Its certificate.
    pub certificate: Certificate,
    /// The newest list of revocations, if there is one.
    pub revocations: Option<Revocations>,
    /// Nodes that it can dial: address, name, endpoints.
    pub neighbors: Vec<(NodeAddr, String, Vec<String>)>,
    /// Other issuers that may renew the certificate.
    pub others: Vec<Place>,
    /// The successions of the root key, for [`secure::Network::extend`]; empty if there are none, or none is needed.
    pub chain: Vec<u8>,
}

/// Why the host gets nothing.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The issuer refuses.
    #[error("the issuer refuses: {text}")]
    Refused {
        /// [`FailureKind::Forbidden`] if the certificate must not be issued; otherwise this issuer cannot give it, and
        /// another one may.
        kind: FailureKind,
        /// Why, and what to do.
        text: String,
    },
    /// The issuer cannot be reached, or something else answers.
    #[error("{endpoint}: {error}")]
    Unreachable {
        /// The endpoint that was tried last.
        endpoint: String,
        /// The error.
        error: io::Error,
    },
    /// There is no endpoint.
    #[error("it is not said where the issuer is")]
    Nowhere,
}

impl AskError {
    /// Returns true if the issuer refuses in general to give the certificate.
    pub(crate) fn is_forbidden(&self) -> bool {
        let forbidden = FailureKind::Forbidden;
        matches!(self, AskError::Refused { kind, .. } if *kind == forbidden)
    }
}

/// Asks the issuer whose signing key is `issuer`, at each of its endpoints in turn.
///
/// # Errors
/// Returns the issuer's refusal, or the error at the last endpoint.
pub fn ask(
    endpoints: &[String],
    issuer: [u8; KEY_BYTES],
    keys: &Keys,
    ask: &Ask<'_>,
) -> Result<Given, AskError> {
    let mut last = AskError::Nowhere;
    for endpoint in endpoints {
        match ask_at(endpoint, issuer, keys, ask) {
            Ok(given) => return Ok(given),
            Err(Why::Refused(kind, text)) => return Err(AskError::Refused { kind, text }),
            Err(Why::Io(error)) => {
                last = AskError::Unreachable {
                    endpoint: endpoint.clone(),
                    error,
                };
            }
        }
    }
    Err(last)
}

enum Why {
    Refused(FailureKind, String),
    Io(io::Error),
}

impl From<io::Error> for Why {
    fn from(error: io::Error) -> Why {
        Why::Io(error)
    }
}

fn ask_at(
    endpoint: &str,
    issuer: [u8; KEY_BYTES],
    keys: &Keys,
    ask: &Ask<'_>,
) -> Result<Given, Why> {
    let tcp = connect(endpoint)?;
    tcp.set_nodelay(true)?;
    watch(&tcp)?;
    let socket = Socket::Tcp(tcp);
    socket.set_patience(Some(PATIENCE))?;
    let sealed = tls::newcomer(keys, issuer).map_err(io::Error::other)?;
    let mut data = Data::sealed(socket, sealed);
    data.shake_hands()?;
    let mut preamble = [0; DATA_PREAMBLE_BYTES];
    let len = Preamble::Control.emit(data.version()?, &mut preamble);
    data.write_all(&preamble[..len.expect("the longer preamble has as many bytes")])?;
    let control = Duplex::new(data)?;
    match ask {
        Ask::Renew(certificate) => control.send(&Message::Renew(certificate.as_bytes()))?,
        Ask::Join {
            secret,
            name,
            endpoints,
        } => {
            let mut room = vec![0; Message::BYTES_MAX];
            let mut w = Writer::new(&mut room);
            let invalid = |_| io::Error::from(ErrorKind::InvalidInput);
            Endpoints::emit(endpoints, &mut w).map_err(invalid)?;
            let endpoints = Endpoints::parse(&mut Reader::new(w.written()));
            control.send(&Message::Join(Join {
                secret: **secret,
                static_key: *keys.static_key(),
                name,
                endpoints: endpoints.map_err(io::Error::other)?,
            }))?;
        }
    }
    let until = Instant::now() + PATIENCE;
    let (answer, others) = answer(&control, until)?;
    control.close();
    let answer = answer.ok_or_else(|| io::Error::from(ErrorKind::UnexpectedEof))?;
    let malformed = |error| io::Error::new(ErrorKind::InvalidData, error);
    match answer.message()? {
        Message::Failed { kind, text, .. } => Err(Why::Refused(kind, text.to_owned())),
        Message::Joined(joined) => Ok(Given {
            certificate: Certificate::from_bytes(joined.certificate).map_err(malformed)?,
            revocations: match joined.revocations {
                [] => None,
                bytes => Some(Revocations::from_bytes(bytes).map_err(malformed)?),
            },
            others,
            chain: joined.chain.to_vec(),
            neighbors: joined
                .neighbors
                .iter()
                .map(|node| {
                    let endpoints = node.endpoints.iter().map(str::to_owned).collect();
                    (node.address, node.name.to_owned(), endpoints)
                })
                .collect(),
        }),
        _ => Err(io::Error::from(ErrorKind::InvalidData).into()),
    }
}

/// Returns the issuer's answer, and the other issuers that it names before the answer.
fn answer(control: &Duplex, until: Instant) -> io::Result<(Option<Received>, Vec<Place>)> {
    let mut others = Vec::new();
    let mut answer = control.receive_any(Some(until))?;
    if let Some(first) = &answer
        && let Ok(Message::Issuers(issuers)) = first.message()
    {
        others = issuers.iter().map(Place::of).collect();
        answer = control.receive(Some(until))?;
    }
    Ok((answer, others))
}

/// Connects to the first of its addresses that answers.
fn connect(endpoint: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
    for addr in endpoint.to_socket_addrs()? {
        match TcpStream::connect_timeout(&addr, PATIENCE) {
            Ok(tcp) => return Ok(tcp),
            Err(error) => last = error,
        }
    }
    Err(last)
}
