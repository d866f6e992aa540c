//! The state that the threads of one transfer share at one node: whether it continues, and how it failed.
//!
//! ```text
//!   thread: Err(failure) ──▶ fail: first one counts ──▶ told to all neighbours of the transfer
//!                                                   └─▶ every socket shut, so nobody waits on
//!   Transfer::thread: no thread can be had ──▶ fail
//! ```
//! A broken connection is often only the consequence of a failure whose reason is on its way over control, so the
//! transfer waits a moment for that reason.

use super::account::Traffic;
use super::duplex::Duplex;
use super::failure::{Failure, FailureKind};
use super::socket::{Data, Socket};
use base::NodeAddr;
use std::collections::BTreeSet;
use std::fmt;
use std::net::Shutdown;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;
use wire::relay::FRAME_BYTES_MAX;

/// How long to wait for the reason of a broken connection. Choice: the reason was sent before the connection was shut
/// down, so it is as far away as the other side.
const REASON: Duration = Duration::from_secs(1);
/// How often threads that wait for each other check whether the transfer continues.
pub(super) const LOOK: Duration = Duration::from_millis(200);

/// A buffer that is shorter than this is not worth keeping.
const SPARE_BYTES_MIN: usize = FRAME_BYTES_MAX / 2;
/// How many bytes of buffers are kept: as many as a queue holds.
const SPARE_BYTES: usize = relay::QUEUE_BYTES;

/// A transfer at one node.
pub(super) struct Transfer {
    pub(super) spare: Spare,
    traffic: Traffic,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    failure: Option<Failure>,
    /// All sinks have reported that they are done: connections that end from now on are no failure.
    done: bool,
    sinks: usize,
    /// The sinks that are done.
    dones: BTreeSet<NodeAddr>,
    controls: Vec<Arc<Duplex>>,
    sockets: Vec<Arc<Socket>>,
}

impl Transfer {
    /// Creates a transfer that is over when this many sinks are done.
    pub(super) fn new(sinks: usize) -> Transfer {
        Transfer {
            spare: Spare::default(),
            traffic: Traffic::default(),
            state: Mutex::new(State {
                failure: None,
                done: false,
                sinks,
                dones: BTreeSet::new(),
                controls: Vec::new(),
                sockets: Vec::new(),
            }),
            changed: Condvar::new(),
        }
    }

    /// Returns the counters for the threads that move its bytes.
    pub(super) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a control connection that gets a failure, and is closed with it.
    pub(super) fn add_control(&self, control: &Arc<Duplex>) {
        let mut state = self.state();
        state.controls.push(Arc::clone(control));
        let failure = state.failure.clone();
        drop(state);
        if let Some(failure) = failure {
            control.fail(&failure);
            control.close();
        }
    }

    /// Adds data connections that are closed with a failure.
    pub(super) fn add_data(&self, data: &[Data]) {
        let mut state = self.state();
        for data in data {
            state.sockets.push(Arc::clone(&data.socket));
            if state.failure.is_some() {
                data.socket.shutdown(Shutdown::Both);
            }
        }
    }

    /// Notes a failure, unless the transfer has failed before or is done.
    pub(super) fn fail(&self, failure: Failure) {
        if failure.kind == FailureKind::Broken && self.wait(REASON) {
            return;
        }
        self.fail_at_once(failure);
    }

    /// Notes a failure without waiting for a better reason, for example if another node has reported it.
    pub(super) fn fail_at_once(&self, failure: Failure) {
        let mut state = self.state();
        if state.failure.is_some() || state.done {
            return;
        }
        state.failure = Some(failure.clone());
        self.changed.notify_all();
        let (controls, sockets) = (state.controls.clone(), state.sockets.clone());
        drop(state);
        for control in &controls {
            control.fail(&failure);
        }
        controls.iter().for_each(|control| control.close());
        for socket in sockets {
            socket.shutdown(Shutdown::Both);
        }
    }

    /// Starts a thread of the transfer at `here`. If the system cannot start it, the transfer fails.
    pub(super) fn thread<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        here: NodeAddr,
        work: impl FnOnce() + Send + 'scope,
    ) {
        let started = thread::Builder::new()
            .name("relay-move".into())
            .spawn_scoped(scope, work);
        if let Err(error) = started {
            let text = format!("no thread could be started: {error}; try again later");
            self.fail(Failure::new(here, FailureKind::Busy, text));
        }
    }

    /// Notes the result of a thread's work.
    pub(super) fn note(&self, result: Result<(), Failure>) {
        if let Err(failure) = result {
            self.fail(failure);
        }
    }

    /// Notes that a sink is done.
    pub(super) fn on_done(&self, sink: NodeAddr) {
        let mut state = self.state();
        if state.dones.len() < state.sinks {
            state.dones.insert(sink);
        }
        if state.dones.len() == state.sinks && state.failure.is_none() {
            state.done = true;
            self.changed.notify_all();
        }
    }

    /// Returns how it has failed.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.state().failure.clone()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.state().failure.is_some()
    }

    /// Returns true if all sinks are done.
    pub(super) fn is_done(&self) -> bool {
        self.state().done
    }

    /// Waits for its end, but not longer than `span`. Returns true if it has ended.
    pub(super) fn wait(&self, span: Duration) -> bool {
        let goes_on = |state: &mut State| state.failure.is_none() && !state.done;
        let waited = self.changed.wait_timeout_while(self.state(), span, goes_on);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.failure.is_some() || state.done
    }
}

impl fmt::Debug for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer").finish_non_exhaustive()
    }
}

/// Used buffers of frames, for reuse: fresh ones would cost a page fault for every page.
#[derive(Default)]
pub(super) struct Spare {
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl Spare {
    /// Returns a buffer of `len` bytes with arbitrary content.
    pub(super) fn take(&self, len: usize) -> Vec<u8> {
        let Some(mut buffer) = self.pop(len) else {
            return vec![0; len];
        };
        // Frames of one length need no clearing.
        buffer.resize(len, 0);
        buffer
    }

    /// Returns an empty buffer with room for this many bytes.
    pub(super) fn take_empty(&self, room: usize) -> Vec<u8> {
        let mut buffer = self.pop(room).unwrap_or_else(|| Vec::with_capacity(room));
        buffer.clear();
        buffer
    }

    /// Takes back a buffer that is no longer needed.
    pub(super) fn put(&self, buffer: Vec<u8>) {
        let mut buffers = self.buffers();
        let kept: usize = buffers.iter().map(Vec::capacity).sum();
        if buffer.capacity() >= SPARE_BYTES_MIN && kept + buffer.capacity() <= SPARE_BYTES {
            buffers.push(buffer);
        }
    }

    /// Returns the last buffer, if it has so much room. The lengths of frames differ only at the end of a file, so a
    /// buffer that is too short is useless for later frames, too.
    fn pop(&self, room: usize) -> Option<Vec<u8>> {
        self.buffers()
            .pop()
            .filter(|buffer| buffer.capacity() >= room)
    }

    fn buffers(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A value whose changes the threads of a transfer wait for.
pub(super) struct Shared<T> {
    held: Mutex<Held<T>>,
    changed: Condvar,
}

struct Held<T> {
    value: T,
    /// Number of threads that wait for a change.
    waiting: usize,
}

/// The transfer has failed meanwhile.
#[derive(Debug)]
pub(super) struct Over;

impl<T> Shared<T> {
    pub(super) fn new(value: T) -> Shared<T> {
        Shared {
            held: Mutex::new(Held { value, waiting: 0 }),
            changed: Condvar::new(),
        }
    }

    /// Reads or changes the value, and wakes the threads that wait.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        let mut held = self.lock();
        let result = act(&mut held.value);
        self.wake(held);
        result
    }

    /// Tries until `attempt` returns something, while the transfer runs.
    pub(super) fn wait<R>(
        &self,
        transfer: &Transfer,
        mut attempt: impl FnMut(&mut T) -> Option<R>,
    ) -> Result<R, Over> {
        let mut held = self.lock();
        loop {
            if let Some(result) = attempt(&mut held.value) {
                self.wake(held);
                return Ok(result);
            }
            if transfer.has_failed() {
                return Err(Over);
            }
            held.waiting += 1;
            let waited = self.changed.wait_timeout(held, LOOK);
            held = waited.unwrap_or_else(PoisonError::into_inner).0;
            held.waiting -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held<T>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the waiting threads. If no thread waits, this saves the system call; and the lock is released first.
    fn wake(&self, held: MutexGuard<'_, Held<T>>) {
        let is_awaited = held.waiting > 0;
        drop(held);
        if is_awaited {
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use wire::relay::Message;

    fn failure(kind: FailureKind, text: &str) -> Failure {
        Failure::new(NodeAddr(1), kind, text)
    }

    #[test]
    fn the_first_failure_counts_but_a_reason_comes_before_what_broke() {
        let transfer = Arc::new(Transfer::new(1));
        let other = Arc::clone(&transfer);
        let broken = thread::spawn(move || other.fail(failure(FailureKind::Broken, "broke")));
        transfer.fail(failure(FailureKind::File, "the disk is full"));
        transfer.fail(failure(FailureKind::Busy, "later"));
        broken.join().unwrap();
        assert_eq!(transfer.failure().unwrap().text, "the disk is full");
        assert!(transfer.has_failed() && !transfer.is_done());
        let shared = Shared::new(0);
        assert!(shared.wait(&transfer, |_| None::<()>).is_err());
    }

    #[test]
    fn buffers_of_whole_frames_are_used_again_up_to_a_bound() {
        let spare = Spare::default();
        spare.put(vec![7; SPARE_BYTES_MIN - 1]);
        assert_eq!(spare.take(1), [0], "a short one is not kept");
        spare.put(vec![7; SPARE_BYTES_MIN]);
        assert!(spare.take_empty(SPARE_BYTES_MIN).is_empty());
        spare.put(vec![7; SPARE_BYTES_MIN]);
        assert_eq!(spare.take(2), [7, 7]);
        spare.put(vec![7; SPARE_BYTES_MIN]);
        let longer = spare.take(SPARE_BYTES_MIN + 1);
        assert_eq!(longer.len(), SPARE_BYTES_MIN + 1);
        for _ in 0..2 * SPARE_BYTES / SPARE_BYTES_MIN {
            spare.put(vec![7; SPARE_BYTES_MIN]);
        }
        assert_eq!(spare.buffers().len(), SPARE_BYTES / SPARE_BYTES_MIN);
    }

    #[test]
    fn what_ends_when_all_are_done_is_no_failure() {
        let transfer = Transfer::new(2);
        for _ in 0..2 {
            transfer.on_done(NodeAddr(1));
            assert!(
                !transfer.is_done(),
                "one sink is one, however often it says so"
            );
        }
        transfer.on_done(NodeAddr(2));
        transfer.fail(failure(FailureKind::Broken, "the end"));
        assert!(transfer.is_done() && transfer.failure().is_none());
    }

    #[test]
    fn a_failure_is_told_and_ends_all_waiting() {
        let (near, far) = UnixStream::pair().unwrap();
        let duplex = |stream| Arc::new(Duplex::new(Data::plain(Socket::Unix(stream))).unwrap());
        let (near, far) = (duplex(near), duplex(far));
        let transfer = Transfer::new(1);
        transfer.add_control(&near);
        transfer.fail(failure(FailureKind::InUse, "somebody else writes"));
        let told = far.receive(None).unwrap().unwrap();
        let Ok(Message::Failed { kind, text, .. }) = told.message() else {
            panic!("something else");
        };
        assert_eq!((kind, text), (FailureKind::InUse, "somebody else writes"));
        assert!(far.receive(None).unwrap().is_none());
    }
}
