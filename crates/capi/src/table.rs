//! The table of descriptors that are overlay sockets.

use crate::socket::Socket;
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::{Arc, PoisonError, RwLock};

/// It is bounded by the number of descriptors that a process may have.
static TABLE: RwLock<BTreeMap<RawFd, Arc<Socket>>> = RwLock::new(BTreeMap::new());

/// Returns the socket with this number; `None` for the kernel's own descriptors.
pub(crate) fn find(fd: RawFd) -> Option<Arc<Socket>> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    table.get(&fd).cloned()
}

/// Adds a socket.
pub(crate) fn enter(socket: Socket) -> RawFd {
    let fd = socket.number();
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(stale) = table.insert(fd, Arc::new(socket)) {
        // The program has closed that descriptor without this library, and the kernel has reused its number: closing
        // what the old socket holds would close the new one.
        core::mem::forget(stale);
    }
    fd
}

/// Informs the nodes that the program ends in order: the data that it has written to its streams is complete.
pub(crate) fn finish() {
    // If the table is locked, another thread is opening or closing a socket.
    if let Ok(table) = TABLE.try_read() {
        table.values().for_each(|socket| socket.finish());
    }
}

/// Removes a socket. It is closed when nobody uses it any longer.
pub(crate) fn remove(fd: RawFd) -> Option<Arc<Socket>> {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    table.remove(&fd)
}
