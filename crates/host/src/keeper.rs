//! What a running node keeps and reminds of: root keys and the list of revocations that were flooded to it
//! are stored, so that a restart does not forget them; a certificate that ends soon is said once a day.
//!
//! Roots go into the network file itself, which then has what `sinew net rotate` writes there: whatever reads that file
//! knows them without being told where else to look.

use crate::command::Commander;
use crate::files::write_whole;
use crate::log::Lines;
use net::clock::Clock;
use secure::Network;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the node is looked at.
const PACE: Duration = Duration::from_secs(5);
/// How often the end of the certificate is said.
const REMINDER: Duration = Duration::from_secs(86_400);

/// The running thread. Dropping it ends it.
#[derive(Debug)]
pub struct Keeper {
    alive: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Keeps the roots in the file `network`, and the list of revocations in `revocations`. What the files have by now
    /// is `stored`.
    pub fn start(
        network: PathBuf,
        revocations: Option<PathBuf>,
        stored: &Network,
        commander: Commander,
        lines: Lines,
    ) -> io::Result<Keeper> {
        let (alive, ended) = sync_channel(0);
        let mut watch = Watch {
            network,
            stored_root: stored.root_number(),
            revocations,
            stored: stored.revocations_edition(),
            reminded: None,
            commander,
            lines,
        };
        let thread = std::thread::Builder::new().name("keeper".into());
        let thread = thread.spawn(move || watch.run(&ended))?;
        Ok(Keeper {
            alive: Some(alive),
            thread: Some(thread),
        })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.alive.take());
        if let Some(thread) = self.thread.take() {
            // A panic over there was reported there.
            let _ = thread.join();
        }
    }
}

struct Watch {
    network: PathBuf,
    /// The number of the newest root in the file.
    stored_root: u8,
    revocations: Option<PathBuf>,
    /// The root that signed the list in the file, and its version.
    stored: (u8, u32),
    reminded: Option<Instant>,
    commander: Commander,
    lines: Lines,
}

impl Watch {
    fn run(&mut self, ended: &Receiver<()>) {
        self.look();
        while ended.recv_timeout(PACE) == Err(RecvTimeoutError::Timeout) {
            self.look();
        }
    }

    fn look(&mut self) {
        let Ok(status) = self.commander.status() else {
            return;
        };
        let snapshot = &status.snapshot;
        if snapshot.certificate_expires_soon {
            let of_old_root = snapshot
                .certificate_root
                .filter(|root| *root < snapshot.root);
            self.remind(snapshot.certificate_not_after_s, of_old_root);
        } else {
            self.reminded = None;
        }
        let edition = (snapshot.revocations_root, snapshot.revocations_version);
        if snapshot.root <= self.stored_root && edition <= self.stored {
            return;
        }
        let Ok(trust) = self.commander.trust() else {
            return;
        };
        // First, because a list of a later root says nothing without it.
        if trust.root_number() > self.stored_root {
            self.store_roots(&trust);
        }
        if let Some(path) = self.revocations.clone()
            && trust.revocations_edition() > self.stored
        {
            self.store(&path, &trust);
        }
    }

    /// A file that says otherwise was put there by somebody: it stays, and he is told.
    fn store_roots(&mut self, trust: &Network) {
        let path = self.network.display();
        let (root, lasting) = (trust.root_number(), "a restart forgets root key");
        let stored = std::fs::read_to_string(&self.network);
        let stored = stored.map_err(|error| error.to_string());
        let known = stored.and_then(|text| {
            let mut stored = Network::from_text(&text).map_err(|error| error.to_string())?;
            let is_news = stored.adopt(trust).map_err(|error| error.to_string())?;
            Ok(is_news.then_some(stored))
        });
        let written = known.and_then(|known| match known {
            Some(known) => write_whole(&self.network, &known.to_text(), 0o644)
                .map_err(|error| format!("cannot write: {error}")),
            // It was there already: the operator has brought it.
            None => Ok(()),
        });
        match written {
            Ok(()) => self.lines.say(&format!("root key {root} kept in {path}")),
            Err(why) => self
                .lines
                .error(&format!("{path}: {why}; {lasting} {root}")),
        }
        self.stored_root = root;
    }

    fn store(&mut self, path: &Path, trust: &Network) {
        let Some(list) = trust.revocations() else {
            return;
        };
        let version = list.fields().version;
        let path_text = path.display();
        match write_whole(path, &list.to_text(), 0o644) {
            Ok(()) => {
                self.lines.say(&format!("revocations, version {version}, kept in {path_text}"));
            }
            Err(error) => self.lines.error(&format!(
                "cannot write {path_text}: {error}; a restart forgets revocations, version {version}"
            )),
        }
        // One that cannot be written is said once per version.
        self.stored = trust.revocations_edition();
    }

    fn remind(&mut self, not_after_s: u64, of_old_root: Option<u8>) {
        if self.reminded.is_some_and(|at| at.elapsed() < REMINDER) {
            return;
        }
        self.reminded = Some(Instant::now());
        let left_s = not_after_s.saturating_sub(Clock::new().unix_s());
        self.lines.warn(&match (left_s, of_old_root) {
            (_, Some(root)) => format!(
                "the certificate is of root key {root}, which was replaced, and counts until {}: run `sinew net renew` before",
                crate::date::until(not_after_s)
            ),
            (0, None) => "the certificate has EXPIRED: neighbors refuse this node; run `sinew net renew`"
                .to_owned(),
            (_, None) => format!(
                "the certificate ends in {} days: run `sinew net renew` before",
                left_s.div_ceil(86_400)
            ),
        });
    }
}
