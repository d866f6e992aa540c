//! Baselines: the leanest forwarders that we can write over the same system calls.
//!
//! ```text
//!   blast -> [socket] forward [connected socket] -> count
//!            batched:    recvmmsg                 -> sendmmsg, a datagram a message
//!            offloaded:  recvmmsg, GRO, in place  -> sendmmsg, GSO, singles gathered as well
//!            sealed:     the same, each datagram opened with one key and sealed with another
//!
//!   any sender -> [socket] fan [connected sockets] -> Recorder      a tree's node, by epoll
//! ```
//!
//! The difference between a node's cost and that of these is the cost of its protocol. The baselines must be as good as
//! possible, because a slow baseline flatters what is compared with it: blocking sockets (one system call per wake-up,
//! no epoll), a connected socket for sending (no route lookup per message), no copies, one destination, no counters
//! except the result.
//!
//! Datagrams have the shape of a link's: 8 clear bytes (kind, session, counter), followed by what is or would be
//! ciphertext, followed by a tag of 16.

mod batch;
mod blast;
mod count;
mod fan;
mod forward;
mod recorder;
#[cfg(test)]
mod tests;

pub use blast::{Blast, blast};
pub use count::count;
pub use fan::fan;
pub use forward::{Forwarder, forward};
pub use recorder::{Recorder, unix_ns};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// Bytes in front of each datagram that stay readable: kind, session, low half of the counter.
pub const CLEAR_BYTES: usize = 8;
/// Bytes of the tag behind each datagram.
pub const TAG_BYTES: usize = 16;
/// The shortest datagram: the hop count behind the clear bytes is rewritten.
pub const DATAGRAM_BYTES_MIN: usize = CLEAR_BYTES + 2 + TAG_BYTES;

/// The result of a loop. Processor time and wake-ups are those of its thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Datagrams forwarded, sent, or counted.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Processor time, in the kernel and outside.
    pub cpu_ns: u64,
    /// How often the thread slept and was woken.
    pub wakeups: u64,
    /// Datagrams that could not be decrypted, or that the kernel did not accept.
    pub lost: u64,
}

impl Report {
    /// Returns the processor time per packet, in nanoseconds.
    pub fn ns_per_packet(&self) -> f64 {
        self.cpu_ns as f64 / self.packets.max(1) as f64
    }
}

/// An AES-256-GCM key for one direction of a link.
pub struct Key(Box<LessSafeKey>);

impl Key {
    /// Creates the key from these 32 bytes.
    pub fn new(bytes: &[u8; 32]) -> Key {
        let key = UnboundKey::new(&AES_256_GCM, bytes);
        let key = key.expect("the key has 32 bytes");
        Key(Box::new(LessSafeKey::new(key)))
    }

    /// Encrypts a datagram in place: writes `counter` into the clear bytes and the tag at the end.
    fn seal(&self, datagram: &mut [u8], counter: u64) -> bool {
        datagram[4..8].copy_from_slice(&(counter as u32).to_be_bytes());
        let (clear, rest) = datagram.split_at_mut(CLEAR_BYTES);
        let (text, tag) = rest.split_at_mut(rest.len() - TAG_BYTES);
        let aad = Aad::from(&*clear);
        match self.0.seal_in_place_separate_tag(nonce(counter), aad, text) {
            Ok(sealed) => {
                tag.copy_from_slice(sealed.as_ref());
                true
            }
            Err(_) => false,
        }
    }

    /// Decrypts a datagram in place. In a benchmark, its counter does not exceed 32 bits.
    fn open(&self, datagram: &mut [u8]) -> bool {
        let (clear, rest) = datagram.split_at_mut(CLEAR_BYTES);
        let counter = u32::from_be_bytes([clear[4], clear[5], clear[6], clear[7]]);
        let aad = Aad::from(&*clear);
        self.0
            .open_in_place(nonce(counter.into()), aad, rest)
            .is_ok()
    }
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Measures the processor time and the wake-ups of the calling thread.
struct Meter {
    cpu: base::Duration,
    wakeups: u64,
}

impl Meter {
    fn start() -> Meter {
        Meter {
            cpu: crate::sched::thread_cpu(),
            wakeups: crate::sched::thread_wakeups(),
        }
    }

    fn stop(self, report: &mut Report) {
        report.wakeups = crate::sched::thread_wakeups() - self.wakeups;
        report.cpu_ns = (crate::sched::thread_cpu() - self.cpu).as_nanos();
    }
}
