//! What a running node keeps and reminds of: the list of revocations that was flooded to it is
//! stored, so that a restart does not forget it; a certificate that ends soon is said once a day.

use crate::command::Commander;
use crate::files::write_whole;
use crate::log::Lines;
use net::clock::Clock;
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
    /// Keeps the list of revocations in `revocations`, of which the file has version `stored`.
    pub fn start(
        revocations: Option<PathBuf>,
        stored: u32,
        commander: Commander,
        lines: Lines,
    ) -> io::Result<Keeper> {
        let (alive, ended) = sync_channel(0);
        let mut watch = Watch {
            revocations,
            stored,
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
    revocations: Option<PathBuf>,
    stored: u32,
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
            self.remind(snapshot.certificate_not_after_s);
        } else {
            self.reminded = None;
        }
        if let Some(path) = self.revocations.clone()
            && snapshot.revocations_version > self.stored
        {
            self.store(&path);
        }
    }

    fn store(&mut self, path: &Path) {
        let Ok(Some(list)) = self.commander.revocations() else {
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
        self.stored = version;
    }

    fn remind(&mut self, not_after_s: u64) {
        if self.reminded.is_some_and(|at| at.elapsed() < REMINDER) {
            return;
        }
        self.reminded = Some(Instant::now());
        let left_s = not_after_s.saturating_sub(Clock::new().unix_s());
        self.lines.warn(&match left_s {
            0 => "the certificate has EXPIRED: neighbors refuse this node; run `sinew net renew`"
                .to_owned(),
            _ => format!(
                "the certificate ends in {} days: run `sinew net renew` before",
                left_s.div_ceil(86_400)
            ),
        });
    }
}
