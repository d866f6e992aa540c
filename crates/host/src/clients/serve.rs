//! Serves streams: turns the engine's replies into descriptors that clients get.
//!
//! ```text
//!   Connected (client asked) ──▶ pair made, one end beside Connected to the client
//!   Incoming (to a listener) ──▶ a client of its own, Accept ──▶ Connected ──▶ pair made, one end
//!                                and one of a pair for notices beside Incoming to the listener
//!   Finished ──▶ the client reads to the end       Reset ──▶ told, closed, gone
//!   Finish ◀── the client says so, then ends       Reset ◀── the client ends without a word
//! ```
//! Requests to the engine that result from its replies wait in a queue, because the engine is still working while it
//! delivers. The loop takes them from there.

use super::client::Client;
use super::stream::{End, Offer, Read, Role, Wrote};
use super::{Clients, Gone};
use base::{ClientId, NodeAddr, Pool, VirtualPort};
use net::unix::SeqStream;
use overlay::event::Drop;
use overlay::request::{Request, RequestError};
use overlay::stream::{Framing, ResetReason, StreamId, StreamReply, StreamRequest};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use wire::ipc::{self, kind};

/// Number of reads from one stream per turn, of 64 KiB each: half a megabyte. The kernel and the engine copy it in some
/// 100 µs, so that no stream starves the others and no timer waits long.
pub const STREAM_READS_PER_TURN: usize = 8;

impl Clients {
    /// Takes the next request of the streams to the engine.
    pub fn take_ask(&mut self) -> Option<(ClientId, Request)> {
        if let Some(ask) = self.asks.pop_front() {
            return Some(ask);
        }
        while let Some(id) = self.consuming.pop() {
            let end = self.clients.get_mut(&id).and_then(Client::end);
            let bytes = end.map_or(0, |end| core::mem::take(&mut end.consumed));
            if bytes > 0 {
                return Some((id, Request::Stream(StreamRequest::Consumed { bytes })));
            }
        }
        None
    }

    /// Returns true if [`Clients::take_ask`] or [`Clients::take_resumed`] would return something.
    pub fn has_asks(&self) -> bool {
        !(self.asks.is_empty() && self.consuming.is_empty() && self.resumed.is_empty())
    }

    /// Takes the clients whose streams have to be read although no descriptor will be reported as ready.
    pub fn take_resumed(&mut self) -> Vec<ClientId> {
        core::mem::take(&mut self.resumed)
    }

    /// Returns true if a client has closed its stream, so that only the data that it wrote before is left.
    pub fn is_hung_up(&mut self, id: ClientId) -> bool {
        let end = self.clients.get_mut(&id).and_then(Client::end);
        end.is_some_and(|end| end.is_hung_up())
    }

    /// Notes that a client has closed its connection. If it has a stream, it keeps the stream. Returns false for other
    /// clients.
    pub fn deafen(&mut self, id: ClientId) -> bool {
        match self.clients.get_mut(&id) {
            Some(client) if matches!(client.role, Role::Stream(_)) => {
                client.deaf = true;
                self.changed.push(id);
                true
            }
            _ => false,
        }
    }

    /// Returns the next request of a client's stream to the engine, if there is one.
    pub fn read_stream(&mut self, id: ClientId, pool: &Pool) -> Result<Option<Request>, Gone> {
        let client = self.clients.get_mut(&id).ok_or(Gone)?;
        let Some(end) = client.end() else {
            return Ok(None);
        };
        let before = end.interest();
        let mut read = end.read(pool);
        if let Read::Ended { closed } = read {
            read = Read::Ask(Request::Stream(match closed && !client.has_finished() {
                false => StreamRequest::Finish,
                // The client's process was killed: the peer must not take the data for complete.
                true => StreamRequest::Reset,
            }));
        }
        let Some(end) = client.end() else {
            return Ok(None);
        };
        if matches!(read, Read::NoBuffer) && !core::mem::replace(&mut end.held, true) {
            self.held_streams.push(id);
        }
        if end.interest() != before {
            self.changed.push(id);
        }
        match read {
            Read::Ask(request) => {
                if end.is_done() {
                    // Both directions have ended: the engine has nothing more to send.
                    self.asks.push_back((id, request));
                    self.close(id);
                    return Ok(None);
                }
                Ok(Some(request))
            }
            Read::Left => {
                match client.has_finished() {
                    true => {
                        let leave = Request::Stream(StreamRequest::Leave);
                        self.asks.push_back((id, leave));
                    }
                    false => self.abort(id, ResetReason::Peer),
                }
                Ok(None)
            }
            Read::Nothing | Read::NoBuffer | Read::Ended { .. } => Ok(None),
            Read::Gone => Err(Gone),
        }
    }

    /// Writes to a client's stream, because it may have room again.
    pub fn write_stream(&mut self, id: ClientId) {
        let Some(end) = self.clients.get_mut(&id).and_then(Client::end) else {
            return;
        };
        let wrote = end.flush();
        self.after_write(id, wrote);
    }

    /// Notes that a client has closed its stream.
    pub fn hang_up(&mut self, id: ClientId) {
        if let Some(end) = self.clients.get_mut(&id).and_then(Client::end) {
            end.hang_up();
            self.changed.push(id);
        }
    }

    pub(super) fn on_refused(&mut self, id: ClientId, why: &RequestError) -> Result<(), Drop> {
        let client = self.clients.get_mut(&id).ok_or(Drop::NoSocket)?;
        client.forget_range();
        match client.role {
            // The stream has ended before it was accepted.
            Role::Accepting(_) => self.close(id),
            Role::Connecting(_) => {
                client.role = Role::Socket;
                client.refuse(why);
                self.changed.push(id);
            }
            Role::Socket | Role::Stream(_) => {
                client.refuse(why);
                self.changed.push(id);
            }
        }
        Ok(())
    }

    pub(super) fn on_stream(&mut self, id: ClientId, reply: StreamReply) -> Result<(), Drop> {
        let client = self.clients.get_mut(&id).ok_or(Drop::NoSocket)?;
        match reply {
            StreamReply::Listening => {
                client.listens = true;
                client.answer(&ipc::Reply::Done {
                    request: kind::LISTEN,
                });
                self.changed.push(id);
            }
            StreamReply::Incoming {
                stream,
                from,
                port,
                framing,
            } => self.on_incoming(id, stream, (from, port), framing),
            StreamReply::Connected { port } => self.on_connected(id, port),
            StreamReply::Credit { bytes } => {
                let end = client.end().ok_or(Drop::NoSocket)?;
                end.add_credit(bytes);
                if end.is_hung_up() {
                    self.resumed.push(id);
                }
                self.changed.push(id);
            }
            StreamReply::Bytes { payload } => {
                let end = client.end().ok_or(Drop::NoSocket)?;
                let wrote = end.write(&payload);
                self.after_write(id, wrote);
            }
            StreamReply::Finished => {
                let end = client.end().ok_or(Drop::NoSocket)?;
                let wrote = end.finish();
                self.after_write(id, wrote);
            }
            StreamReply::Expired { given_up, missed } => {
                client.answer(&ipc::Reply::Expired { given_up, missed });
                self.changed.push(id);
            }
            StreamReply::Reset(reason) => self.on_reset(id, reason),
        }
        Ok(())
    }

    /// Accepts a stream for a listener, under a client id of its own.
    fn on_incoming(
        &mut self,
        listener: ClientId,
        stream: StreamId,
        (from, port): (NodeAddr, VirtualPort),
        framing: Framing,
    ) {
        let decline = Request::Stream(StreamRequest::Decline { stream });
        let Some(id) = self.next_id() else {
            self.asks.push_back((listener, decline));
            return;
        };
        let Ok((ours, notices)) = SeqStream::pair() else {
            self.asks.push_back((listener, decline));
            return;
        };
        let offer = Offer {
            listener,
            from,
            port,
            framing,
            notices,
        };
        self.clients.insert(id, Client::accepting(ours, offer));
        let accept = Request::Stream(StreamRequest::Accept { stream });
        self.asks.push_back((id, accept));
    }

    /// Gives the application its end of an open stream.
    fn on_connected(&mut self, id: ClientId, port: VirtualPort) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let (end, handed) = match core::mem::replace(&mut client.role, Role::Socket) {
            Role::Connecting(framing) => match End::pair(framing) {
                Ok((end, theirs)) => {
                    client.port = Some(port);
                    let reply = ipc::Reply::Connected { framing, port };
                    (Some(end), hand(client, &reply, &[theirs.as_fd()]))
                }
                Err(error) => (None, Err(error)),
            },
            Role::Accepting(offer) => match End::pair(offer.framing) {
                Ok((end, theirs)) => {
                    let reply = ipc::Reply::Incoming {
                        framing: offer.framing,
                        from: offer.from,
                        port: offer.port,
                    };
                    let fds = [theirs.as_fd(), offer.notices.as_fd()];
                    let listener = self.clients.get(&offer.listener);
                    let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
                    let handed = listener
                        .ok_or_else(gone)
                        .and_then(|listener| hand(listener, &reply, &fds));
                    (Some(end), handed)
                }
                Err(error) => (None, Err(error)),
            },
            // The engine reports this once.
            role @ (Role::Socket | Role::Stream(_)) => {
                client.role = role;
                return;
            }
        };
        match (end, handed) {
            (Some(end), Ok(())) => {
                if let Some(client) = self.clients.get_mut(&id) {
                    client.role = Role::Stream(Box::new(end));
                }
                self.changed.push(id);
            }
            // The node is out of descriptors, or nobody takes the stream: the peer is informed.
            _ => self.abort(id, ResetReason::Exhausted),
        }
    }

    fn on_reset(&mut self, id: ClientId, reason: ResetReason) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if let Role::Connecting(_) = client.role {
            // The client may try again, or connect elsewhere.
            client.role = Role::Socket;
            // A listener keeps its port.
            client.port = client.port.filter(|_| client.listens);
            client.reset(reason);
            self.changed.push(id);
        } else {
            client.reset(reason);
            self.close(id);
        }
    }

    fn after_write(&mut self, id: ClientId, wrote: Wrote) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        match wrote {
            Wrote::Fine => {}
            Wrote::All => {
                client.answer(&ipc::Reply::Finished);
                if let Some(end) = client.end() {
                    end.end_output();
                    if end.is_done() {
                        return self.close(id);
                    }
                }
            }
            Wrote::Broken => return self.abort(id, ResetReason::Peer),
        }
        if let Some(end) = client.end() {
            if end.consumed > 0 && self.consuming.last() != Some(&id) {
                self.consuming.push(id);
            }
            self.changed.push(id);
        }
    }

    /// Ends a stream that cannot continue, and informs both sides.
    fn abort(&mut self, id: ClientId, reason: ResetReason) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.reset(reason);
        }
        self.asks
            .push_back((id, Request::Stream(StreamRequest::Reset)));
        self.close(id);
    }

    /// Removes a client, and informs the engine.
    fn close(&mut self, id: ClientId) {
        self.clients.remove(&id);
        self.asks.push_back((id, Request::Close));
    }
}

/// Sends a client a message with descriptors attached. Waiting answers have to be sent first, so nothing can be kept
/// for later: a client that does not read gets no streams.
fn hand(client: &Client, reply: &ipc::Reply<'_>, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    if !client.waiting.is_empty() {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let mut bytes = [0; 16];
    let len = reply
        .emit(&mut bytes)
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    client
        .stream
        .send_with_fds(&[IoSlice::new(&bytes[..len])], fds)
}
