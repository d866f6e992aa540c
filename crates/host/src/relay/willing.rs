//! Informs the network whether this node relays, for whom, how busy it is, and how its connections send. Plans are
//! based on that. [Liu04 §IV-D]
//!
//! ```text
//!   Ledger ── places taken ──▶ once per second, if a quarter more or less ──▶ Operation::Bulk ──▶ record
//! ```

use super::ledger::Ledger;
use super::service::Passes;
use crate::command::{Command, Commander};
use overlay::request::Operation;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use wire::link_state::{Bulk, RelaysFor, Sending};

/// How often the node's load is checked. Choice: transfers last for minutes, and each record goes to every node of the
/// network.
const LOOK: Duration = Duration::from_secs(1);

/// The thread that informs the network, until this value is dropped.
#[derive(Debug)]
pub(super) struct Teller {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Teller {
    /// Starts it for a service that relays for these nodes.
    pub(super) fn start(
        commander: Commander,
        ledger: Arc<Ledger>,
        passes: &Passes,
    ) -> std::io::Result<Teller> {
        let (stop, stopped) = mpsc::channel();
        let passes = passes.clone();
        let work = move || tell(&commander, &ledger, &passes, &stopped);
        let thread = thread::Builder::new()
            .name("relay-tell".into())
            .spawn(work)?;
        Ok(Teller {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of that thread was already reported there.
            let _ = thread.join();
        }
    }
}

/// Informs the network that a node without a service relays for nobody.
pub fn decline(commander: &Commander) {
    let bulk = Bulk {
        is_closed: true,
        ..Bulk::default()
    };
    let (answer, _) = mpsc::channel();
    // Without a loop there is no network to inform.
    let _ = commander.send(Command::Operate(Operation::Bulk(bulk), answer));
}

fn tell(commander: &Commander, ledger: &Ledger, passes: &Passes, stopped: &Receiver<()>) {
    let relays_for = match passes {
        Passes::Some(words) => RelaysFor::of(words),
        Passes::All | Passes::Nobody => None,
    };
    let mut told = None;
    loop {
        let now = Bulk {
            is_closed: passes.is_nobody() || ledger.limit() == 0,
            is_for_some: matches!(passes, Passes::Some(_)),
            relays_for,
            load: load(ledger.active(), ledger.limit()),
            // An operator may change it without restarting the node.
            sending: sending(),
        };
        if told != Some(now) && matches!(commander.operate(Operation::Bulk(now)), Ok(Ok(()))) {
            told = Some(now);
        }
        if stopped.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// Returns how many quarters of the places are taken. The largest value means that none is free.
fn load(active: usize, limit: usize) -> u8 {
    let full = usize::from(Bulk::LOAD_FULL);
    let quarters = active.saturating_mul(full).checked_div(limit);
    quarters.map_or(Bulk::LOAD_FULL, |quarters| quarters.min(full) as u8)
}

/// Returns how the kernel's connections send, unless a transfer requests something else.
fn sending() -> Sending {
    let probe = TcpListener::bind(("127.0.0.1", 0)).and_then(net::tcp::congestion_control);
    probe.map_or(Sending::Unknown, |name| Sending::of_control(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_where_no_place_is_free_all_quarters_are_taken() {
        let loads: Vec<u8> = (0..=8).map(|active| load(active, 8)).collect();
        assert_eq!(loads, [0, 0, 1, 1, 2, 2, 3, 3, 4]);
        assert_eq!((load(63, 64), load(64, 64), load(0, 1)), (3, 4, 0));
        assert_eq!(load(0, 0), Bulk::LOAD_FULL);
    }

    #[test]
    fn the_kernel_s_name_says_how_it_sends() {
        let kinds = ["cubic", "bbr", "bbr3", "vegas"].map(Sending::of_control);
        assert_eq!(
            kinds,
            [
                Sending::ByLoss,
                Sending::ByRate,
                Sending::ByRate,
                Sending::Unknown
            ]
        );
        let name = TcpListener::bind(("127.0.0.1", 0)).and_then(net::tcp::congestion_control);
        assert!(!name.unwrap().is_empty());
    }
}
