//! A socket at one end of a stream: a client of a node, which reopens its socket when the node is back, or plain UDP.

use super::session::{Caller, Load, Taker};
use client::{DatagramSocket, Node, Options, RouteBy, Routing, Target};
use net::epoll::{Interest, Poller};
use std::io;
use std::net::UdpSocket;
use std::path::PathBuf;

/// How long to wait for a node: a running node answers at once; meanwhile other sockets must wait.
const BIND_PATIENCE: std::time::Duration = std::time::Duration::from_millis(500);
/// Number of datagrams taken from one socket before the other sockets are read.
const READS_PER_TURN: usize = 64;
/// Longest datagram.
pub(super) const DATAGRAM_BYTES_MAX: usize = 2_048;

/// A socket at one end of a stream.
pub(super) enum End {
    /// A client of a node, which has a socket while the node runs.
    Overlay(Box<Client>),
    Direct(UdpSocket),
    /// The two ends of a reliable stream.
    Calling(Box<Caller>),
    Taking(Box<Taker>),
}

/// A client, with its socket while its node runs.
pub(super) struct Client {
    node: Node,
    port: u16,
    options: Options,
    socket: Option<DatagramSocket>,
}

impl End {
    /// Creates a client that is opened when its node runs.
    pub(super) fn overlay(socket: PathBuf, port: u16, options: Options) -> End {
        End::Overlay(Box::new(Client {
            node: Node::at(socket).with_timeout(BIND_PATIENCE),
            port,
            options,
            socket: None,
        }))
    }

    /// Creates the sending end of a reliable stream.
    pub(super) fn calling(socket: PathBuf, to: Target, options: Options, load: Load) -> End {
        let node = Node::at(socket).with_timeout(BIND_PATIENCE);
        End::Calling(Box::new(Caller::new(node, to, options, load)))
    }

    /// Creates the receiving end of a reliable stream.
    pub(super) fn taking(socket: PathBuf, port: u16, options: Options, load: Load) -> End {
        let node = Node::at(socket).with_timeout(BIND_PATIENCE);
        End::Taking(Box::new(Taker::new(node, port, options, load)))
    }

    /// Waits until the connection that [`End::open`] began is made or has failed.
    pub(super) fn settle(&mut self) {
        if let End::Calling(caller) = self {
            caller.settle();
        }
    }

    /// Opens the socket of a client that has none, if its node runs. Returns whether it has one now and had none
    /// before.
    pub(super) fn open(&mut self) -> bool {
        let client = match self {
            End::Overlay(client) => client,
            End::Direct(_) => return false,
            End::Calling(caller) => return caller.open(),
            End::Taking(taker) => return taker.open(),
        };
        if client.socket.is_some() {
            return false;
        }
        let Ok(bound) = client.node.bind(client.port, client.options) else {
            return false;
        };
        let opened = bound.set_nonblocking(true).is_ok();
        client.socket = opened.then_some(bound);
        opened
    }

    /// Registers the end with the poller.
    pub(super) fn watch(&mut self, poller: &Poller, token: u64) -> io::Result<()> {
        match self {
            End::Taking(taker) => taker.watch(poller, token),
            End::Calling(_) => Ok(()),
            End::Direct(socket) => poller.add(socket, token, Interest::READ),
            End::Overlay(client) => match &client.socket {
                Some(socket) => poller.add(socket, token, Interest::READ),
                None => Ok(()),
            },
        }
    }

    /// Takes everything that has arrived.
    pub(super) fn take_all(&mut self, mut take: impl FnMut(&[u8])) {
        if let End::Taking(taker) = self {
            return taker.take_all(take);
        }
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        for _ in 0..READS_PER_TURN {
            let len = match self {
                End::Calling(_) | End::Taking(_) => return,
                End::Direct(socket) => match socket.recv(&mut buffer) {
                    Ok(len) => len,
                    Err(_) => return,
                },
                End::Overlay(client) => {
                    let socket = &mut client.socket;
                    match socket.as_ref().map(|socket| socket.recv_from(&mut buffer)) {
                        Some(Ok((len, ..))) => len,
                        None | Some(Err(client::Error::WouldBlock)) => return,
                        Some(Err(client::Error::Refused { .. })) => continue,
                        Some(Err(_)) => {
                            // Closing the descriptor removes it from the poller.
                            *socket = None;
                            return;
                        }
                    }
                }
            };
            take(&buffer[..len]);
        }
    }

    /// Sends waiting data of a reliable stream. Returns whether some is left.
    pub(super) fn flush(&mut self) -> bool {
        match self {
            End::Calling(caller) => caller.flush(),
            End::Overlay(_) | End::Direct(_) | End::Taking(_) => false,
        }
    }

    /// Writes as much bulk as the node accepts.
    pub(super) fn write_bulk(&mut self) {
        if let End::Calling(caller) = self {
            caller.write_bulk();
        }
    }

    /// Takes the answers that have arrived at the calling end.
    pub(super) fn take_answers(&mut self, take: impl FnMut(&[u8])) {
        if let End::Calling(caller) = self {
            caller.take_answers(take);
        }
    }

    /// Sends a packet. Returns whether the node refused it. A packet that cannot be sent is lost, except on reliable
    /// streams, which let it wait.
    pub(super) fn send(&mut self, packet: &[u8], to: Target) -> bool {
        match self {
            End::Calling(caller) => caller.send(packet),
            End::Taking(_) => true,
            End::Direct(socket) => {
                let _ = socket.send(packet);
                false
            }
            End::Overlay(client) => {
                let sent = client.socket.as_ref().map(|s| s.send_to(packet, to));
                match sent {
                    None | Some(Ok(()) | Err(client::Error::WouldBlock)) => false,
                    Some(Err(client::Error::Refused { .. })) => true,
                    Some(Err(_)) => {
                        client.socket = None;
                        false
                    }
                }
            }
        }
    }
}

/// Converts the scenario's options to the client's.
pub(super) fn options_of(options: &overlay::request::Options) -> Options {
    Options {
        link: options.class.link,
        // The scenario's options always define how packets are routed.
        routing: options
            .route_by()
            .unwrap_or(RouteBy::Table(Routing::ExpectedLatency)),
        priority: options.class.priority,
        deadline: options
            .deadline
            .map(|deadline| std::time::Duration::from_nanos(deadline.as_nanos())),
        delivery: options.delivery,
        ttl: options.ttl,
        give_up: options
            .give_up
            .map(|give_up| std::time::Duration::from_nanos(give_up.as_nanos())),
        control: options.control,
        early: options.early,
        aim: options.aim,
    }
}
