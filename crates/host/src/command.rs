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
use overlay::groups::Admission;
use overlay::request::{Operation, RequestError};
use overlay::snapshot::{GroupStatus, NetworkSnapshot, PathHealth};
use secure::{Delegation, Network};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use wire::groups::Setting;

/// Commands that may wait for the loop. Choice: a handful of operators and scrapers; the next one
/// is refused instead of queued without end.
const MAX_WAITING: usize = 64;
/// How long an answer is waited for. The loop answers within milliseconds; one that does not has
/// ended, or is in trouble that a status page shall not wait for.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the loop is asked to do.
#[derive(Debug)]
pub enum Command {
    /// Tell everything about the node.
    Status(Sender<Box<Status>>),
    /// Tell the network as the node knows it.
    Network(Sender<Box<NetworkSnapshot>>),
    /// Tell the groups, or all about one.
    Groups(Option<NodeAddr>, Sender<Vec<GroupStatus>>),
    /// Judge how a group is to be carried.
    Admission(Setting, Sender<Admission>),
    /// Tell what the node believes: the roots of its network, and what they have revoked.
    Trust(Sender<Box<Network>>),
    /// Watch the paths to a neighbour closely, and tell how they fare.
    WatchPaths(NodeAddr, Sender<Vec<PathHealth>>),
    /// A byte stream is there that carries a link.
    Tunnel(Box<Offer>),
    /// An operator's request to the engine, and where its answer goes.
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

/// Who knows of the clients on other hosts.
pub trait Gatekeeper: Debug + Send + Sync {
    /// How they are served.
    fn status(&self) -> GateStatus;
}

/// The loop is gone or does not keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node is stopping or overloaded: try again")]
pub struct Unavailable;

impl Commander {
    /// A commander and the loop's end of the channel.
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

    /// Has the status tell of the node's relay service. It is asked on the thread that wants to know:
    /// the loop waits for nobody's lock.
    pub(crate) fn tell_of(&self, bulk: &Arc<Ledger>) {
        self.bulk.get_or_init(|| Arc::clone(bulk));
    }

    /// Has the status tell of the clients on other hosts, in the same way.
    pub fn tell_of_gate(&self, gate: Arc<dyn Gatekeeper>) {
        self.gate.get_or_init(|| gate);
    }

    /// Has the status tell of the port that the router leads to the node.
    pub(crate) fn tell_of_mapping(&self, mapping: &Arc<mapping::Shared>) {
        self.mapping.get_or_init(|| Arc::clone(mapping));
    }

    /// Has the status tell until when the node may certify, by its delegation, and by those for members of other issuers
    /// behind it.
    pub(crate) fn tell_of_issuer(&self, delegations: Vec<Delegation>) {
        self.issuer.get_or_init(|| delegations);
    }

    /// Ends a transfer of bulk data in which the node has a part; `beginning` is that of its name in the status.
    pub(crate) fn cancel(&self, beginning: &str) -> Result<(), NotOne> {
        self.bulk
            .get()
            .map_or(Err(NotOne::None), |bulk| bulk.cancel(beginning))
    }

    /// Has the relay service begin transfers by these limits; false if there is no service.
    pub fn limit_bulk(&self, limits: Limits) -> bool {
        let bulk = self.bulk.get();
        bulk.map(|bulk| bulk.set_limits(limits)).is_some()
    }

    /// Gives a command to the loop.
    pub fn send(&self, command: Command) -> Result<(), Unavailable> {
        self.queue.try_send(command).map_err(|_| Unavailable)?;
        self.waker.wake();
        Ok(())
    }

    /// The node as it is now.
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

    /// The network as the node knows it now.
    pub fn network(&self) -> Result<Box<NetworkSnapshot>, Unavailable> {
        self.ask(Command::Network)
    }

    /// The groups that the node knows of, or all about one.
    pub fn groups(&self, only: Option<NodeAddr>) -> Result<Vec<GroupStatus>, Unavailable> {
        self.ask(|answer| Command::Groups(only, answer))
    }

    /// Whether what a setting asks for fits.
    pub fn admission(&self, setting: Setting) -> Result<Admission, Unavailable> {
        self.ask(|answer| Command::Admission(setting, answer))
    }

    /// The roots of the network and the newest list of revocations, as the node knows them now.
    pub fn trust(&self) -> Result<Box<Network>, Unavailable> {
        self.ask(Command::Trust)
    }

    /// How the paths to a neighbour fare, which are watched closely for the next second; none to another node.
    pub fn watch_paths(&self, neighbor: NodeAddr) -> Result<Vec<PathHealth>, Unavailable> {
        self.ask(|answer| Command::WatchPaths(neighbor, answer))
    }

    /// Asks the engine as its operator.
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
