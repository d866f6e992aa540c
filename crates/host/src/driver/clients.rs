//! The loop's part in serving clients: it accepts them, reads their requests, removes them, and decides what each
//! descriptor is watched for.

use super::{Driver, TOKEN_CLIENTS, TOKEN_STREAMS};
use crate::clients::{
    ACCEPTS_PER_TURN, Change, Clients, READS_PER_TURN, STREAM_READS_PER_TURN, Which,
};
use crate::log::Fields;
use base::{ClientId, Engine, Input, Outbox};
use net::epoll::{Interest, Ready};
use overlay::Request;
use overlay::event::{Drop, Event};
use std::os::fd::AsFd;

impl Driver {
    pub(super) fn accept(&mut self) {
        let Some(listener) = &mut self.listener else {
            return;
        };
        for _ in 0..ACCEPTS_PER_TURN {
            match listener.accept() {
                Ok(Some(stream)) => {
                    let Some(id) = self.io.clients.next_id() else {
                        Clients::refuse(&stream);
                        continue;
                    };
                    let token = TOKEN_CLIENTS + u64::from(id.0);
                    if self
                        .poller
                        .add(stream.as_fd(), token, Interest::READ)
                        .is_ok()
                    {
                        self.io.clients.insert(id, stream);
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    let text = format!("a client was turned away: {error}");
                    let fields = || Fields::event("client-turned-away").with("why", &error);
                    let label = "clients turned away";
                    self.io.log.limited(self.io.now, label, &text, fields);
                    return;
                }
            }
        }
    }

    pub(super) fn on_client(&mut self, id: ClientId, event: &Ready) {
        if event.writable {
            self.io.clients.write(id);
        }
        if event.closed && self.io.clients.is_held(id) {
            // The client's last data cannot be taken yet, and nobody waits for it. Its hang-up would keep
            // waking the loop.
            if !self.io.clients.deafen(id) {
                self.close_client(id);
            }
        } else if event.readable || event.closed {
            self.read_client(id);
        }
    }

    fn read_client(&mut self, id: ClientId) {
        let mut taken = 0;
        // A message of several datagrams is taken completely, because the poller does not report the rest.
        while taken < READS_PER_TURN || self.io.clients.has_sent(id) {
            taken += 1;
            match self.io.clients.read(id, &self.io.pool) {
                Ok(Some(request)) => {
                    let input = Input::Request {
                        client: id,
                        request,
                    };
                    self.station.handle(self.io.now, input, &mut self.io);
                }
                Ok(None) => return,
                Err(_gone) => return self.close_client(id),
            }
        }
    }

    /// Handles a client's stream that is ready.
    pub(super) fn on_stream(&mut self, id: ClientId, event: &Ready) {
        if event.writable {
            self.io.clients.write_stream(id);
        }
        if event.hung_up {
            self.io.clients.hang_up(id);
        }
        if event.readable || event.closed {
            self.read_stream(id);
        }
    }

    fn read_stream(&mut self, id: ClientId) {
        let mut reads = 0;
        // The poller reports a stream again that has more, but not one that the client has closed, which can also be
        // the finding of a read. The data that it still holds is bounded by the kernel's buffer and by the credit.
        while reads < STREAM_READS_PER_TURN || self.io.clients.is_hung_up(id) {
            reads += 1;
            match self.io.clients.read_stream(id, &self.io.pool) {
                Ok(Some(request)) => {
                    let input = Input::Request {
                        client: id,
                        request,
                    };
                    self.station.handle(self.io.now, input, &mut self.io);
                }
                Ok(None) => return,
                Err(_gone) => return self.close_client(id),
            }
        }
    }

    /// Passes to the engine the requests of the clients' streams that result from the engine's output.
    pub(super) fn ask_for_streams(&mut self) {
        for id in self.io.clients.take_resumed() {
            self.read_stream(id);
        }
        self.ask_in_turn();
    }

    fn ask_in_turn(&mut self) {
        while let Some((client, request)) = self.io.clients.take_ask() {
            let input = Input::Request { client, request };
            self.station.handle(self.io.now, input, &mut self.io);
        }
    }

    fn close_client(&mut self, id: ClientId) {
        // The engine must see that the stream has finished before it sees that the client is gone.
        self.ask_in_turn();
        // Closing the descriptor removes it from the poller.
        self.io.clients.remove(id);
        let input = Input::Request {
            client: id,
            request: Request::Close,
        };
        self.station.handle(self.io.now, input, &mut self.io);
    }

    /// Delivers what has arrived for clients in this turn.
    pub(super) fn hand_over(&mut self) {
        let (slow, gone) = self.io.clients.end_turn();
        for (reason, packets) in [(Drop::ClientSlow, slow), (Drop::NoSocket, gone)] {
            if packets > 0 {
                self.io.report(Event::Dropped { reason, packets });
            }
        }
    }

    pub(super) fn watch_clients(&mut self) {
        self.io.clients.release_held(&self.io.pool);
        let poller = &self.poller;
        self.io.clients.take_changed(|change| {
            let Change {
                client,
                which,
                fd,
                was,
                is,
            } = change;
            let token = u64::from(client.0)
                + match which {
                    Which::Connection => TOKEN_CLIENTS,
                    Which::Stream => TOKEN_STREAMS,
                };
            // It can fail only if the kernel has no memory.
            let _ = match (was, is) {
                (None, None) => Ok(()),
                (None, Some(interest)) => poller.add(fd, token, interest),
                (Some(_), Some(interest)) => poller.modify(fd, token, interest),
                (Some(_), None) => poller.remove(fd),
            };
        });
    }
}
