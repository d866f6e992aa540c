//! Connects to the next node of a route: control first, then the request, then the stripes.

use super::allow::Rights;
use super::duplex::Duplex;
use super::failure::{Failure, FailureKind};
use super::legs::Legs;
use super::monitor::Used;
use super::socket::{Data, Socket};
use super::tls::{self, Trust};
use super::transfer::Transfer;
use base::NodeAddr;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use wire::relay::{
    CHECKSUM_VERSION, DATA_PREAMBLE_BYTES, FRAME_BYTES_MAX, Message, Open, Preamble, TICKET_BYTES,
    VERSIONS,
};

/// How long a connection or an answer may take. Choice: a lost SYN is repeated after 1 and 3 s.
pub(super) const PATIENCE: Duration = Duration::from_secs(8);
/// For how long the other host may acknowledge nothing on control before data moves; after that it counts as gone.
/// Choice: as short as possible without misjudging a path that loses every fifth packet each way: there, seven probes
/// in a row stay unanswered once in a thousand times, and at 5 % once in ten million. A node that does not read is a
/// different case: its kernel answers.
const SILENCE: Duration = Duration::from_secs(10);
/// The same while data moves. Then the monitor decides, by all connections to a node. This limit is for the case that
/// the monitor has ended.
const MONITORED_SILENCE: Duration = Duration::from_secs(60);
/// The time before the first probe, and the time between probes.
const ASK_AFTER: Duration = Duration::from_secs(3);
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How many bytes may be unsent in a socket: two frames, so that the next one is ready when one has been sent.
const UNSENT_BYTES: u32 = 2 * FRAME_BYTES_MAX as u32;

/// The next node with its connections.
pub(super) struct Next {
    pub(super) node: NodeAddr,
    pub(super) control: Arc<Duplex>,
    pub(super) data: Vec<Data>,
    /// True if the number of connections in use is adapted.
    pub(super) adapts: bool,
    pub(super) used: Used,
}

/// How to reach the next node.
pub(super) enum Way<'a> {
    /// Over the network.
    Tcp(&'a Trust, Rights<'a>),
    /// The node on this host, through its socket.
    Local(&'a Path),
}

/// Asks the first node of `open.route` for the transfer; `here` is the node that failures name. Each connection belongs
/// to `transfer` from its beginning, so nothing waits any longer once the transfer has failed.
pub(super) fn dial(
    way: &Way<'_>,
    here: NodeAddr,
    open: &Open<'_>,
    transfer: &Transfer,
) -> Result<Next, Failure> {
    let told = open.route;
    let broken = |error: &io::Error| unreachable(here, told.node, error);
    let (trust, legs) = match way {
        Way::Tcp(trust, rights) => {
            let legs = legs((trust, *rights), told.node, told.endpoint)?;
            (Some(*trust), Some(legs))
        }
        Way::Local(_) => (None, None),
    };
    let connect = |stripe: Option<u8>| -> io::Result<Socket> {
        match (way, &legs, stripe) {
            (Way::Tcp(..), Some(legs), Some(stripe)) => legs.connect_stripe(stripe),
            (Way::Tcp(..), Some(legs), None) => legs.connect(),
            (Way::Tcp(..), None, _) => Err(ErrorKind::AddrNotAvailable.into()),
            (Way::Local(path), ..) => UnixStream::connect(path).map(Socket::Unix),
        }
    };
    // Each uplink has at least one connection, unless the user who began the transfer has fixed their number.
    let uplinks = legs.as_ref().map_or(1, Legs::count);
    let uplinks = u8::try_from(uplinks).unwrap_or(told.stripes);
    let mut route = Vec::new();
    let hop = match told.adapts && uplinks > told.stripes {
        true => told.with_stripes(uplinks, &mut route).unwrap_or(told),
        false => told,
    };
    let open = &Open {
        route: hop,
        ..*open
    };
    let asked = ask((connect(None), transfer), trust, here, open);
    let (control, ticket) = asked.map_err(|why| match why {
        Why::Failed(failure) => failure,
        Why::Io(error) => broken(&error),
    })?;
    let version = control.version();
    let stripe = |stripe: u8| -> Result<Data, Failure> {
        if let Some(failure) = transfer.failure() {
            return Err(failure);
        }
        let made = connect(Some(stripe))
            .and_then(|socket| stripe_on(socket, version, &open.transfer, stripe, &ticket));
        let made = made.map_err(|error| broken(&error))?;
        prepare(&made, open.congestion)
            .map_err(|text| Failure::new(here, FailureKind::Unusable, text))?;
        transfer.add_data(std::slice::from_ref(&made));
        Ok(made)
    };
    let data = match hop.stripes {
        1 => vec![stripe(0)?],
        // The first connection of each uplink is made separately: it shows whether the other end has that address.
        count => side_by_side((uplinks, count), here, &stripe)?,
    };
    Ok(Next {
        node: hop.node,
        control,
        data,
        adapts: hop.adapts,
        used: Used::all(),
    })
}

/// Number of connections that are made at the same time. Choice: a node has places for 64 connections from one address
/// that have not proved their identity, so that eight copies may begin at once.
const AT_ONCE: u8 = 8;

/// Makes this many connections, some at the same time, beginning with `first_batch`. Each takes a round trip, and a
/// second more if its first packet is lost.
fn side_by_side<T: Send>(
    (first_batch, count): (u8, u8),
    here: NodeAddr,
    stripe: &(impl Fn(u8) -> Result<T, Failure> + Sync),
) -> Result<Vec<T>, Failure> {
    let mut all = Vec::new();
    while all.len() < count.into() {
        let first = all.len() as u8;
        let made: Vec<Result<T, Failure>> = thread::scope(|scope| {
            let begin = |at| {
                let dialler = thread::Builder::new().name("relay-dial".into());
                dialler.spawn_scoped(scope, move || stripe(at))
            };
            let batch = match first {
                0 if first_batch > 1 => first_batch.min(AT_ONCE),
                _ => AT_ONCE,
            };
            let last = count.min(first.saturating_add(batch));
            let threads: Vec<_> = (first..last).map(begin).collect();
            let made = threads.into_iter().map(|thread| {
                let busy = |text: String| Failure::new(here, FailureKind::Busy, text);
                let thread = thread.map_err(|error| {
                    busy(format!(
                        "no thread could be started: {error}; try again later"
                    ))
                })?;
                let made = thread.join();
                made.unwrap_or_else(|_| Err(busy("a thread has broken".to_owned())))
            });
            // The function waits for all, even after one has failed.
            made.collect()
        });
        for stripe in made {
            all.push(stripe?);
        }
    }
    Ok(all)
}

enum Why {
    Failed(Failure),
    Io(io::Error),
}

impl From<io::Error> for Why {
    fn from(error: io::Error) -> Why {
        Why::Io(error)
    }
}

fn ask(
    (socket, transfer): (io::Result<Socket>, &Transfer),
    trust: Option<&Trust>,
    here: NodeAddr,
    open: &Open<'_>,
) -> Result<(Arc<Duplex>, [u8; TICKET_BYTES]), Why> {
    let local = match open.checksum {
        true => CHECKSUM_VERSION,
        false => *VERSIONS.start(),
    };
    let (control, key) = begin_control(socket?, trust, local)?;
    let control = Arc::new(control);
    transfer.add_control(&control);
    if open.checksum && control.version() < CHECKSUM_VERSION {
        let text = "it runs an earlier version, which cannot compare files by their content: update it, or copy \
                    without --checksum";
        return Err(Why::Failed(Failure::new(
            open.route.node,
            FailureKind::Unusable,
            text,
        )));
    }
    control.send(&Message::Open(*open))?;
    let until = Instant::now() + PATIENCE;
    let Some(answer) = control.receive(Some(until))? else {
        return Err(Why::Io(ErrorKind::UnexpectedEof.into()));
    };
    match answer.message()? {
        Message::Attach {
            ticket,
            certificate,
        } => {
            if let Some(trust) = trust {
                is_node(trust, here, open.route.node, certificate, key).map_err(Why::Failed)?;
            }
            Ok((control, ticket))
        }
        Message::Failed {
            node,
            kind,
            about,
            text,
        } => Err(Why::Failed(Failure::told((node, kind, about), text))),
        _ => Err(Why::Io(ErrorKind::InvalidData.into())),
    }
}

/// Sets up control on a new connection, and returns the key of the other end. A node on this host is addressed in the
/// version `local`, the lowest that is sufficient, because it may run an older program.
fn begin_control(
    socket: Socket,
    trust: Option<&Trust>,
    local: u8,
) -> io::Result<(Duplex, Option<[u8; 32]>)> {
    if let Some(tcp) = socket.tcp() {
        watch(tcp)?;
    }
    let mut data = begin(socket, trust)?;
    if trust.is_none() {
        data.speak(local)?;
    }
    let mut preamble = [0; DATA_PREAMBLE_BYTES];
    let len = Preamble::Control.emit(data.version()?, &mut preamble);
    let len = len.expect("the longer preamble has as many bytes");
    data.write_all(&preamble[..len])?;
    let key = data.peer_key();
    Ok((Duplex::new(data)?, key))
}

/// Sets up control with the first node of `open.route` without requesting anything yet. Also returns that node's key.
pub(super) fn converse(
    way: &Way<'_>,
    here: NodeAddr,
    open: &Open<'_>,
) -> Result<(Duplex, Option<[u8; 32]>), Failure> {
    let hop = open.route;
    let made = match way {
        Way::Local(path) => UnixStream::connect(path)
            .map(Socket::Unix)
            .and_then(|socket| begin_control(socket, None, *VERSIONS.start())),
        Way::Tcp(trust, rights) => {
            let legs = legs((trust, *rights), hop.node, hop.endpoint)?;
            legs.connect()
                .and_then(|socket| begin_control(socket, Some(trust), *VERSIONS.start()))
        }
    };
    made.map_err(|error| unreachable(here, hop.node, &error))
}

/// Checks that a peer that has this key and shows this certificate is that node.
pub(super) fn is_node(
    trust: &Trust,
    here: NodeAddr,
    node: NodeAddr,
    certificate: &[u8],
    key: Option<[u8; 32]>,
) -> Result<(), Failure> {
    let forbidden = |why: &dyn std::fmt::Display| {
        let text = format!("{node} is not believed: {why}");
        Failure::new(here, FailureKind::Forbidden, text)
    };
    let key = key.ok_or_else(|| forbidden(&"it shows no key"))?;
    let judged = trust.judge(certificate, &key);
    let judged = judged.and_then(|who| match who == node {
        true => Ok(()),
        false => Err(tls::Distrust::OtherNode(who)),
    });
    judged.map_err(|why| forbidden(&why))
}

/// Begins a connection, with TLS between nodes.
fn begin(socket: Socket, trust: Option<&Trust>) -> io::Result<Data> {
    socket.set_patience(Some(PATIENCE))?;
    if let Some(tcp) = socket.tcp() {
        tcp.set_nodelay(true)?;
    }
    let Some(trust) = trust else {
        return Ok(Data::plain(socket));
    };
    let mut data = Data::sealed(socket, trust.dialler().map_err(io::Error::other)?);
    data.shake_hands()?;
    Ok(data)
}

fn stripe_on(
    socket: Socket,
    version: u8,
    transfer: &[u8; 16],
    stripe: u8,
    ticket: &[u8; TICKET_BYTES],
) -> io::Result<Data> {
    let mut data = begin(socket, None)?;
    let preamble = Preamble::Data {
        transfer: *transfer,
        stripe,
        proof: relay::proof(ticket, transfer, stripe),
    };
    let mut bytes = [0; DATA_PREAMBLE_BYTES];
    let len = preamble.emit(version, &mut bytes);
    data.speak(version)?;
    data.write_all(&bytes[..len.expect("it has as many bytes")])?;
    data.socket.set_patience(None)?;
    Ok(data)
}

/// Prepares a data connection for sending: no delay for small segments, little unsent, and the requested congestion
/// control.
pub(super) fn prepare(data: &Data, congestion: &str) -> Result<(), String> {
    let Some(tcp) = data.socket.tcp() else {
        return Ok(());
    };
    // If a kernel does not support this, more is queued there.
    let _ = net::tcp::set_unsent_low_water(tcp, UNSENT_BYTES);
    if congestion.is_empty() {
        return Ok(());
    }
    net::tcp::set_congestion_control(tcp, congestion).map_err(|error| {
        let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        let known = known.unwrap_or_default();
        format!(
            "congestion control `{congestion}`: {error}; this host has: {}",
            known.trim()
        )
    })
}

/// Makes a control connection end if the other host is gone without closing it.
pub(super) fn watch(tcp: &TcpStream) -> io::Result<()> {
    net::tcp::keep_alive_within(tcp, ASK_AFTER, ASK_EVERY, SILENCE)
}

/// Leaves this control connection to a monitor, which watches it together with its data. The keepalive probes continue.
pub(super) fn leave_to_monitor(tcp: &TcpStream) -> io::Result<()> {
    net::tcp::keep_alive_within(tcp, ASK_AFTER, ASK_EVERY, MONITORED_SILENCE)
}

pub(super) fn unreachable(here: NodeAddr, node: NodeAddr, error: &io::Error) -> Failure {
    let advice = match error.kind() {
        ErrorKind::ConnectionRefused => {
            ": nothing listens there for bulk data; see `[relay]` in its configuration"
        }
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            ": let TCP through to the port that the node has for UDP"
        }
        ErrorKind::InvalidData if tls::has_no_common_version(error) => {
            ": the two have no version of bulk data in common; upgrade the older one"
        }
        _ => "",
    };
    let text = format!("cannot reach {node} by TCP: {error}{advice}");
    Failure::new(here, FailureKind::Broken, text).about(node)
}

/// Returns where to reach a node by TCP: as the route says, or at the address of this neighbour in the overlay.
fn legs(
    (trust, rights): (&Trust, Rights<'_>),
    node: NodeAddr,
    told: &str,
) -> Result<Legs, Failure> {
    let here = trust.own();
    let known = known(trust, node)?;
    if told.is_empty() {
        return match known {
            Known::At(legs) => Ok(legs),
            Known::No => {
                let text = format!(
                    "{node} is no neighbour of {here}: name the nodes between by --via, or where it is \
                     by --via NODE@HOST:PORT"
                );
                Err(Failure::new(here, FailureKind::NotFound, text).about(node))
            }
            Known::Down => {
                let text = format!("it is not known where {node} is: its link is not up yet");
                Err(Failure::new(here, FailureKind::Broken, text).about(node))
            }
        };
    }
    // The address that is resolved here is the one that is dialled, so a name whose address changes in between leads
    // nowhere else.
    let found = told.to_socket_addrs().map_err(|error| {
        let text = format!("`{told}`, where {node} is said to be: {error}");
        Failure::new(here, FailureKind::NotFound, text)
    })?;
    let is_its_own = |at: &SocketAddr| matches!(&known, Known::At(own) if own.leads_to(*at));
    let mut refused = None;
    let mut permitted = found.filter(|at| {
        let judged = match is_its_own(at) {
            true => Ok(()),
            false => rights.permit(told, *at),
        };
        judged.map_err(|why| refused = Some(why)).is_ok()
    });
    let found = permitted.next();
    found.map(Legs::one).ok_or_else(|| {
        let why = refused.unwrap_or_else(|| "it has no address".to_owned());
        let text = format!(
            "`{told}` is not where this node knows {node} to be, and others may have it dial only what \
             `[relay] allow` of its configuration lists: {why}"
        );
        Failure::new(here, FailureKind::Forbidden, text)
    })
}

/// The overlay's knowledge of the address of a node.
enum Known {
    At(Legs),
    Down,
    No,
}

fn known(trust: &Trust, node: NodeAddr) -> Result<Known, Failure> {
    let status = trust.commander().status();
    let status = status.map_err(|why| Failure::new(trust.own(), FailureKind::Busy, why))?;
    let peer = node.to_string();
    let link = status.snapshot.links.iter().find(|link| link.peer == peer);
    Ok(match link {
        None => Known::No,
        Some(link) => {
            // If the neighbour has dialled a link over TCP, its port is one at which nobody listens.
            let at = match link.over {
                "tcp" => &link.dialled_at,
                _ => &link.at,
            };
            match at.as_ref().and_then(|at| at.parse().ok()) {
                Some(at) => Known::At(Legs::of(link, at)),
                None => Known::Down,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn connections_come_in_their_order_and_the_first_of_each_uplink_before_others() {
        let here = NodeAddr(1);
        let begun = Mutex::new(Vec::new());
        let made = side_by_side((2, 12), here, &|at| {
            begun.lock().unwrap().push(at);
            Ok(at)
        });
        assert_eq!(made, Ok((0..12).collect()));
        let begun = begun.into_inner().unwrap();
        assert!(begun[..2].iter().all(|at| *at < 2), "{begun:?}");
        assert!(begun[2..10].iter().all(|at| *at < 10), "{begun:?}");
        // If one fails, all fail, after those at the same time have finished.
        let begun = Mutex::new(0);
        let failed = side_by_side((1, 12), here, &|at| {
            *begun.lock().unwrap() += 1;
            match at {
                2 => Err(Failure::new(here, FailureKind::Broken, "two")),
                5 => panic!("a thread breaks"),
                _ => Ok(at),
            }
        });
        assert_eq!(failed.unwrap_err().kind, FailureKind::Broken);
        assert_eq!(begun.into_inner().unwrap(), 8);
    }
}
