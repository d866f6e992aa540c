//! A node that was certified by an issuer asks it for the next certificate before the present one
//! ends, and takes it while it runs.
//!
//! ```text
//!   |<------------------ lifetime ------------------>|
//!   issued                        due: a third is left      ends
//!                                  └ ask, again and again ──▶ the engine, node.cert
//! ```
//! A third leaves the issuer time to be away: ten days of the thirty that are the default.

use crate::command::Commander;
use crate::files::write_whole;
use crate::log::Lines;
use crate::relay::join::{Ask, Given, ask};
use net::clock::Clock;
use overlay::request::Operation;
use secure::{Certificate, Identity};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::certificate::KEY_BYTES;

/// How long the thread sleeps at most: a clock that was set is noticed within it.
const LOOK_EVERY_S: u64 = 3_600;
/// After a failure it tries again when this part of the lifetime has passed, [`AGAIN_S`] at least and
/// an hour at most.
const AGAIN_PART: u64 = 100;
/// The shortest pause between two attempts. Choice: a refusal costs the issuer a handshake.
const AGAIN_S: u64 = 1;

/// Where the next certificate is to be had, and where it goes.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where the issuer is reached, by TCP.
    pub endpoints: Vec<String>,
    /// Its signing key.
    pub issuer: [u8; KEY_BYTES],
    /// The file of the node's certificate.
    pub file: PathBuf,
}

/// The running thread. Dropping it ends it.
#[derive(Debug)]
pub struct Renewal {
    alive: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Renewal {
    /// Renews the certificate of `identity` in time.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(
        source: Source,
        identity: Identity,
        commander: Commander,
        lines: Lines,
    ) -> io::Result<Renewal> {
        let (alive, ended) = sync_channel(0);
        let mut renewer = Renewer {
            source,
            identity,
            commander,
            lines,
        };
        let thread = std::thread::Builder::new().name("renewal".into());
        Ok(Renewal {
            alive: Some(alive),
            thread: Some(thread.spawn(move || renewer.run(&ended))?),
        })
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        drop(self.alive.take());
        if let Some(thread) = self.thread.take() {
            // A panic over there was reported there.
            let _ = thread.join();
        }
    }
}

struct Renewer {
    source: Source,
    identity: Identity,
    commander: Commander,
    lines: Lines,
}

impl Renewer {
    fn run(&mut self, ended: &Receiver<()>) {
        let mut wait_s = self.due_in_s();
        loop {
            let wait = Duration::from_secs(wait_s.min(LOOK_EVERY_S));
            if ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            wait_s = self.due_in_s();
            if wait_s > 0 {
                continue;
            }
            wait_s = match self.renew() {
                Ok(()) => self.due_in_s().max(AGAIN_S),
                Err(why) => {
                    let text = format!("the certificate was not renewed: {why}");
                    self.lines.warn(&text);
                    (self.lifetime_s() / AGAIN_PART).clamp(AGAIN_S, LOOK_EVERY_S)
                }
            };
        }
    }

    /// Seconds until a third of the lifetime is left.
    fn due_in_s(&self) -> u64 {
        let fields = self.identity.certificate().fields();
        let due_s = fields.not_after_s - self.lifetime_s() / 3;
        due_s.saturating_sub(Clock::new().unix_s())
    }

    fn lifetime_s(&self) -> u64 {
        let fields = self.identity.certificate().fields();
        fields.not_after_s - fields.not_before_s
    }

    fn renew(&mut self) -> Result<(), String> {
        let present = self.present();
        let Source {
            endpoints, issuer, ..
        } = &self.source;
        let keys = self.identity.keys();
        let given = ask(endpoints, *issuer, keys, &Ask::Renew(&present));
        self.take(given.map_err(|why| why.to_string())?)
    }

    /// The certificate in the file, which an operator may have renewed meanwhile.
    fn present(&self) -> Certificate {
        let stored = std::fs::read_to_string(&self.source.file);
        let stored = stored
            .ok()
            .and_then(|text| Certificate::from_text(&text).ok());
        let newer = stored
            .filter(|stored| stored.fields().serial > self.identity.certificate().fields().serial);
        newer.unwrap_or_else(|| self.identity.certificate().clone())
    }

    fn take(&mut self, given: Given) -> Result<(), String> {
        let fields = given.certificate.fields();
        if fields.subject.address != self.identity.address() {
            return Err(format!("it is for {}", fields.subject.address));
        }
        let text = given.certificate.to_text();
        let (serial, keys) = (fields.serial, self.identity.keys().clone());
        let identity = Identity::new(keys, given.certificate).map_err(|why| why.to_string())?;
        let operation = Operation::Renew(Box::new(identity.clone()));
        let taken = self.commander.operate(operation);
        taken
            .map_err(|why| why.to_string())?
            .map_err(|why| why.to_string())?;
        self.identity = identity;
        let file = &self.source.file;
        write_whole(file, &text, 0o644)
            .map_err(|error| format!("{}: {error}; a restart takes the old one", file.display()))?;
        self.lines
            .say(&format!("the certificate was renewed: {serial}"));
        Ok(())
    }
}
