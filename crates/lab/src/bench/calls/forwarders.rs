//! The baseline for the gateways: as many bare forwarders as there are planes and nodes, with a separate chain for each
//! direction.

use super::phones::Phones;
use crate::bench::BenchError;
use crate::bench::relay::{Options, Relay};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

/// Number of stations: two planes and two nodes.
const STATIONS: usize = 4;

/// Running forwarders.
pub(super) struct Forwarders {
    entries: [SocketAddr; 2],
    /// The forwarders end when these are closed.
    lifelines: Vec<UnixStream>,
    threads: Vec<JoinHandle<Result<(), BenchError>>>,
}

impl Forwarders {
    pub(super) fn start(phones: &Phones) -> Result<Forwarders, BenchError> {
        let mut forwarders = Forwarders {
            entries: [phones.at(1), phones.at(0)],
            lifelines: Vec::new(),
            threads: Vec::new(),
        };
        for side in [0, 1] {
            for _ in 0..STATIONS {
                let relay = Relay::open(&Options {
                    listen: (Ipv4Addr::LOCALHOST, 0).into(),
                    to: forwarders.entries[side],
                    cpu: None,
                })?;
                relay.enlarge();
                forwarders.entries[side] = relay.at()?;
                let (ours, theirs) = UnixStream::pair()?;
                forwarders.lifelines.push(ours);
                forwarders
                    .threads
                    .push(std::thread::spawn(move || relay.run(theirs)));
            }
        }
        Ok(forwarders)
    }

    /// Returns the address at which the packets of a side enter.
    pub(super) fn entry(&self, side: usize) -> SocketAddr {
        self.entries[side]
    }
}

impl Drop for Forwarders {
    fn drop(&mut self) {
        self.lifelines.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
