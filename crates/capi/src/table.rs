//! Which descriptors are overlay sockets.

use crate::socket::Socket;
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::{Arc, PoisonError, RwLock};

/// The kernel bounds it: a process has so many descriptors.
static TABLE: RwLock<BTreeMap<RawFd, Arc<Socket>>> = RwLock::new(BTreeMap::new());

/// The socket of this number; `None` for the kernel's own.
pub(crate) fn find(fd: RawFd) -> Option<Arc<Socket>> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    table.get(&fd).cloned()
}

/// Enters a socket.
pub(crate) fn enter(socket: Socket) -> RawFd {
    let fd = socket.number();
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(stale) = table.insert(fd, Arc::new(socket)) {
        // Somebody has closed that one behind our back, and the kernel has given its number away:
        // closing what it holds would close the new one.
        core::mem::forget(stale);
    }
    fd
}

/// Tells the nodes that the program ends in order: what it has written to its streams is all.
pub(crate) fn finish() {
    // One that is being changed is being opened or closed by another thread.
    if let Ok(table) = TABLE.try_read() {
        table.values().for_each(|socket| socket.finish());
    }
}

/// Takes a socket out; it is closed when nobody uses it any more.
pub(crate) fn remove(fd: RawFd) -> Option<Arc<Socket>> {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    table.remove(&fd)
}
