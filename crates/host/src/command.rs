//! Commands to the loop from other threads: a bounded channel and a wake-up.

use crate::mapping;
use crate::relay::ledger::NotOne;
use crate::relay::{Ledger, Limits};
use crate::status::{GateStatus, IssuerStatus, Status};
use crate::tunnel::Offer;
use base::NodeAddr;
use core::fmt::Debug;
use net::clock::Clock;
use net::epoll::Waker;
use overlay::groups::{Admission, Permit};
use overlay::request::{Operation, RequestError};
use overlay::snapshot::{GroupStatus, NetworkSnapshot, PathHealth};
use secure::{Delegation, Network};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use wire::groups::Setting;

/// Number of commands that may wait for the loop. Choice: enough for a handful of operators and scrapers. The next
/// command is refused, so that the queue cannot grow without end.
const MAX_WAITING: usize = 64;
/// How long a caller waits for an answer. The loop answers within milliseconds. If it does not, it has ended, or has a
/// problem for which a status page must not wait.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a node has set for a group: how it is carried, and who may send and receive.
pub type OwnRules = (Option<Setting>, Option<Permit>);

/// A request to the loop.
#[derive(Debug)]
pub enum Command {
    /// Report everything about the node.
    Status(Sender<Box<Status>>),
    /// Report the network as the node knows it.
    Network(Sender<Box<NetworkSnapshot>>),
    /// Report the groups, or all about one.
    Groups(Option<NodeAddr>, Sender<Vec<GroupStatus>>),
    /// Decide whether a group's traffic fits into the network.
    Admission(Setting, Sender<Admission>),
    /// Report what the node itself has set for a group or a range of groups.
    OwnRules((NodeAddr, u8), Sender<OwnRules>),
    /// Report the trusted roots of the network and their revocations.
    Trust(Sender<Box<Network>>),
    /// Watch the paths to a neighbour closely, and report their state.
    WatchPaths(NodeAddr, Sender<Vec<PathHealth>>),
    /// Use a byte stream that carries a link.
    Tunnel(Box<Offer>),
    /// Pass an operator's request to the engine, and return its answer.
    Operate(Operation, Sender<Result<(), RequestError>>),
    /// End the loop.
    Stop,
}

/// The sending end, for any thread.
#[derive(Clone, Debug)]
pub struct Commander {
    queue: SyncSender<Command>,
    waker: Waker,
    bulk: Arc<OnceLock<Arc<Ledger>>>,
    gate: Arc<OnceLock<Arc<dyn Gatekeeper>>>,
    mapping: Arc<OnceLock<Arc<mapping::Shared>>>,
    issuer: Arc<OnceLock<Vec<Delegation>>>,
}

/// A part of the program that reports about the clients on other hosts.
pub trait Gatekeeper: Debug + Send + Sync {
    /// Returns how these clients are served.
    fn status(&self) -> GateStatus;
}

/// The loop has ended or cannot keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node is stopping or overloaded: try again")]
pub struct Unavailable;

impl Commander {
    /// Creates a commander and the loop's end of the channel.
    pub(crate) fn new(waker: Waker) -> (Commander, Receiver<Command>) {
        let (queue, commands) = sync_channel(MAX_WAITING);
        let commander = Commander {
            queue,
            waker,
            bulk: Arc::default(),
            gate: Arc::default(),
            mapping: Arc::default(),
            issuer: Arc::default(),
        };
        (commander, commands)
    }

    /// Adds the node's relay service to the status. The service is queried on the thread that requests the status,
    /// because the loop never waits for a lock.
    pub(crate) fn tell_of(&self, bulk: &Arc<Ledger>) {
        self.bulk.get_or_init(|| Arc::clone(bulk));
    }

    /// Adds the clients on other hosts to the status, in the same way.
    pub fn tell_of_gate(&self, gate: Arc<dyn Gatekeeper>) {
        self.gate.get_or_init(|| gate);
    }

    /// Adds the router's port mapping for the node to the status.
    pub(crate) fn tell_of_mapping(&self, mapping: &Arc<mapping::Shared>) {
        self.mapping.get_or_init(|| Arc::clone(mapping));
    }

    /// Adds to the status until when the node may issue certificates, by its own delegation, and by the delegations
    /// behind it, for members of other issuers.
    pub(crate) fn tell_of_issuer(&self, delegations: Vec<Delegation>) {
        self.issuer.get_or_init(|| delegations);
    }

    /// Cancels a bulk transfer in which the node takes part; `beginning` is the beginning of its name in the status.
    pub(crate) fn cancel(&self, beginning: &str) -> Result<(), NotOne> {
        self.bulk
            .get()
            .map_or(Err(NotOne::None), |bulk| bulk.cancel(beginning))
    }

    /// Sets the limits within which the relay service begins transfers. Returns false if there is no service.
    pub fn limit_bulk(&self, limits: Limits) -> bool {
        let bulk = self.bulk.get();
        bulk.map(|bulk| bulk.set_limits(limits)).is_some()
    }

    /// Sends a command to the loop.
    pub fn send(&self, command: Command) -> Result<(), Unavailable> {
        self.queue.try_send(command).map_err(|_| Unavailable)?;
        self.waker.wake();
        Ok(())
    }

    /// Returns the present state of the node.
    pub fn status(&self) -> Result<Box<Status>, Unavailable> {
        let mut status = self.ask(Command::Status)?;
        status.bulk = self.bulk.get().map(|bulk| bulk.status());
        status.gate = self.gate.get().map(|gate| gate.status());
        status.mapping = self.mapping.get().map(|mapping| mapping.status());
        if let Some([own, others @ ..]) = self.issuer.get().map(Vec::as_slice) {
            let (network, unix_s) = (self.trust()?, Clock::new().unix_s());
            status.issuer = Some(IssuerStatus::of((own, others), &network, unix_s));
        }
        Ok(status)
    }

    /// Returns the network as the node knows it now.
    pub fn network(&self) -> Result<Box<NetworkSnapshot>, Unavailable> {
        self.ask(Command::Network)
    }

    /// Returns the groups that the node knows, or all about one.
    pub fn groups(&self, only: Option<NodeAddr>) -> Result<Vec<GroupStatus>, Unavailable> {
        self.ask(|answer| Command::Groups(only, answer))
    }

    /// Returns what the node itself has set for a group or a range of groups.
    pub fn own_rules(&self, range: (NodeAddr, u8)) -> Result<OwnRules, Unavailable> {
        self.ask(|answer| Command::OwnRules(range, answer))
    }

    /// Returns whether the traffic that a setting describes fits.
    pub fn admission(&self, setting: Setting) -> Result<Admission, Unavailable> {
        self.ask(|answer| Command::Admission(setting, answer))
    }

    /// Returns the roots of the network and the newest list of revocations, as the node knows them now.
    pub fn trust(&self) -> Result<Box<Network>, Unavailable> {
        self.ask(Command::Trust)
    }

    /// Returns the state of the paths to a neighbour. The node watches them closely for the next second. For a node
    /// that is no neighbour, the list is empty.
    pub fn watch_paths(&self, neighbor: NodeAddr) -> Result<Vec<PathHealth>, Unavailable> {
        self.ask(|answer| Command::WatchPaths(neighbor, answer))
    }

    /// Passes a request of the operator to the engine.
    pub fn operate(&self, operation: Operation) -> Result<Result<(), RequestError>, Unavailable> {
        self.ask(|answer| Command::Operate(operation, answer))
    }

    /// Ends the loop.
    pub fn stop(&self) -> Result<(), Unavailable> {
        self.send(Command::Stop)
    }

    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Result<T, Unavailable> {
        let (answer, answered) = channel();
        self.send(command(answer))?;
        answered.recv_timeout(PATIENCE).map_err(|_| Unavailable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_does_not_keep_up_or_has_gone_is_unavailable() {
        let (commander, commands) = Commander::new(Waker::new().unwrap());
        for _ in 0..MAX_WAITING {
            assert_eq!(commander.stop(), Ok(()));
        }
        assert_eq!(commander.stop(), Err(Unavailable));
        drop(commands);
        assert_eq!(commander.status().err(), Some(Unavailable));
    }
}
