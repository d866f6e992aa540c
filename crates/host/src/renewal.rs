//! A node that an issuer has certified asks this issuer for the next certificate before the present one expires, and
//! uses it without a restart.
//!
//! ```text
//!   |<------------------ lifetime ------------------>|
//!   issued                        due: a third is left      ends
//!                                  └ ask, again and again ──▶ the engine, node.cert
//! ```
//! The last third of the lifetime leaves time in which the issuer may be unreachable: ten of the default thirty days.
//! If two thirds of that time have passed and the issuer still cannot be reached, or gives no certificate that expires
//! later, the node also asks other issuers.
//!
//! When the root key of the network is replaced, the certificate expires together with the old root. Then the node does
//! not wait for the last third. It asks soon, at a time of its own, so that not all nodes ask at once. It repeats this
//! until the issuer has a delegation of the new root.

#[cfg(test)]
mod tests;
pub mod told;

pub use told::Place;

use crate::command::Commander;
use crate::files::write_whole;
use crate::log::Lines;
use crate::relay::join::{Ask, AskError, Given, ask};
use base::NodeAddr;
use net::clock::Clock;
use overlay::request::Operation;
use secure::{Certificate, Identity, Network};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::certificate::Delegation;

/// How long the thread sleeps at most. Within this time it notices another root, or a clock that was set.
const LOOK_EVERY_S: u64 = 5;
/// The pause after a failure, as a part of the lifetime, or of the time that is left under an old root. The pause is at
/// least [`AGAIN_S`] and at most [`AGAIN_S_MAX`].
const AGAIN_PART: u64 = 100;
/// Before the certificate expires, a pause is at most this part of the time that is left. For an issuer may give
/// shorter lifetimes than the present certificate's, and its certificate is accepted only if it expires later.
const AGAIN_PART_LEFT: u64 = 10;
/// The longest pause between two attempts.
const AGAIN_S_MAX: u64 = 3_600;
/// Within this part of the time that the old root has left, the nodes of a network ask for certificates of a new root.
const SPREAD_PART: u64 = 10;
/// The least and the longest such time, in seconds. The least one is needed because an issuer serves one node at a
/// time.
const SPREAD_S: (u64, u64) = (10, 3_600);
/// The shortest pause between two attempts. Choice: a refusal costs the issuer a handshake.
const AGAIN_S: u64 = 1;
/// Under an old root, all members of an issuer may wait for it at once, as long as it has no new delegation. Then the
/// shortest pause grows from the first number to the second, and half of it differs from node to node.
const CROWD_AGAIN_S: (u64, u64) = (10, 60);

/// Other issuers are asked when this part is left of the time in which the node asks its own issuer. Choice: if an
/// issuer is away for some days, no other issuer keeps books of its members. With the default, the last three of ten
/// days are enough for an operator to help.
const OTHERS_PART: u64 = 3;

/// The issuers of the next certificate, and the file that stores it.
#[derive(Clone, Debug)]
pub struct Source {
    /// The node's own issuer, followed by others that may renew its certificate.
    pub issuers: Vec<Place>,
    /// The file of the node's certificate. A file beside it lists the other issuers that the node was told about.
    pub file: PathBuf,
}

impl Source {
    /// Returns the issuers in the order in which to ask them. The first one is the signer of the present certificate,
    /// even if the node joined through another issuer, because serials must not decrease.
    fn in_order(&self, present: &Certificate) -> Vec<Place> {
        let delegation = present.fields().options.delegation();
        let delegation = delegation.and_then(|bytes| Delegation::parse(bytes).ok());
        let signer = delegation.map(|it| it.issuer);
        let mut issuers = self.issuers.clone();
        for told in told::read(&self.file) {
            if issuers.iter().all(|known| known.key != told.key) {
                issuers.push(told);
            }
        }
        issuers.sort_by_key(|place| Some(place.key) != signer);
        issuers
    }
}

/// The running thread. Dropping this value ends it.
#[derive(Debug)]
pub struct Renewal {
    alive: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Renewal {
    /// Renews the certificate of `identity` in time.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn start(
        source: Source,
        identity: Identity,
        commander: Commander,
        lines: Lines,
    ) -> io::Result<Renewal> {
        let (alive, ended) = sync_channel(0);
        let mut renewer = Renewer::new(source, identity, commander, lines);
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
            // A panic of that thread was already reported there.
            let _ = thread.join();
        }
    }
}

struct Renewer {
    source: Source,
    identity: Identity,
    commander: Commander,
    lines: Lines,
    /// Set if the certificate has to be renewed under a newer root.
    outdated: Option<Outdated>,
    /// How many attempts have failed in a row, and the last warning about it.
    failures: u32,
    warned: Option<String>,
}

/// The certificate was issued under an old root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outdated {
    /// The number of the newest root.
    newest: u8,
    /// The last second in which the certificate is valid.
    until_s: u64,
    /// When it is this node's turn to ask.
    due_s: u64,
}

impl Renewer {
    fn new(source: Source, identity: Identity, commander: Commander, lines: Lines) -> Renewer {
        Renewer {
            source,
            identity,
            commander,
            lines,
            outdated: None,
            failures: 0,
            warned: None,
        }
    }

    fn run(&mut self, ended: &Receiver<()>) {
        let mut not_before_s = 0;
        loop {
            let now_s = Clock::new().unix_s();
            let due_s = self.due_s(now_s).max(not_before_s);
            let wait_s = due_s.saturating_sub(now_s).min(LOOK_EVERY_S);
            if ended.recv_timeout(Duration::from_secs(wait_s)) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let now_s = Clock::new().unix_s();
            if now_s < due_s {
                continue;
            }
            // An operator may have replaced the file meanwhile.
            self.look_at_file();
            if now_s < self.due_s(now_s) {
                continue;
            }
            not_before_s = now_s + AGAIN_S;
            if let Err(why) = self.renew(now_s) {
                not_before_s = now_s + self.pause_s(now_s);
                self.failures += 1;
                // Each cause is logged once, because it may last for days.
                if self.warned.as_ref() != Some(&why) {
                    let text = format!("the certificate was not renewed: {why}");
                    self.lines.warn(&text);
                    self.warned = Some(why);
                }
            }
        }
    }

    /// Returns when to ask for the next certificate: when a third of the lifetime is left, or the root has changed.
    fn due_s(&mut self, now_s: u64) -> u64 {
        let fields = self.identity.certificate().fields();
        let last_third_s = fields.not_after_s - self.lifetime_s() / 3;
        // If the loop does not answer now, it will answer next time.
        if let Ok(trust) = self.commander.trust() {
            self.outdated = self.outdated(&trust, now_s);
        }
        let by_root_s = self.outdated.map_or(u64::MAX, |outdated| outdated.due_s);
        last_third_s.min(by_root_s)
    }

    fn outdated(&self, trust: &Network, now_s: u64) -> Option<Outdated> {
        let root = trust.root_of(self.identity.certificate())?;
        let newest = trust.root_number();
        let until_s = trust.counts_until_s(root)?;
        // The turn was assigned when the new root was noticed.
        let noticed = self.outdated.filter(|it| it.newest == newest);
        Some(noticed.unwrap_or_else(|| Outdated {
            newest,
            until_s,
            due_s: now_s + turn_s(self.identity.address(), until_s.saturating_sub(now_s)),
        }))
    }

    fn lifetime_s(&self) -> u64 {
        let fields = self.identity.certificate().fields();
        fields.not_after_s - fields.not_before_s
    }

    /// Returns the pause after a failure.
    fn pause_s(&self, now_s: u64) -> u64 {
        let Some(outdated) = self.outdated else {
            let longest_s = self.lifetime_s() / AGAIN_PART;
            let ends_s = self.identity.certificate().fields().not_after_s;
            let pause_s = match ends_s.saturating_sub(now_s) {
                0 => longest_s,
                left_s => longest_s.min(left_s / AGAIN_PART_LEFT),
            };
            return pause_s.clamp(AGAIN_S, AGAIN_S_MAX);
        };
        let left_s = outdated.until_s.saturating_sub(now_s);
        let span_s = self.lifetime_s().min(left_s);
        let shortest_s = crowd_pause_s(self.identity.address(), self.failures);
        (span_s / AGAIN_PART).clamp(shortest_s, AGAIN_S_MAX)
    }

    /// Returns from when on other issuers are asked, too, if the own issuer cannot be reached or cannot renew the
    /// certificate.
    fn others_from_s(&mut self, now_s: u64) -> u64 {
        let due_s = self.due_s(now_s);
        let not_after_s = self.identity.certificate().fields().not_after_s;
        let until_s = self.outdated.map_or(u64::MAX, |outdated| outdated.until_s);
        let ends_s = not_after_s.min(until_s);
        ends_s - ends_s.saturating_sub(due_s) / OTHERS_PART
    }

    fn renew(&mut self, now_s: u64) -> Result<(), String> {
        let present = self.identity.certificate().clone();
        let keys = self.identity.keys().clone();
        let (given, is_by_other) = self.find(now_s, &present, |place| {
            ask(&place.endpoints, place.key, &keys, &Ask::Renew(&present))
        })?;
        self.take(given)?;
        let serial = self.identity.certificate().fields().serial;
        let by = match is_by_other {
            true => ", by another issuer, because its own did not",
            false => "",
        };
        self.lines
            .say(&format!("the certificate was renewed: {serial}{by}"));
        Ok(())
    }

    /// Calls `ask` for each issuer that may be asked at this second, until one gives a certificate. Also returns true
    /// if the own issuer has failed, and another one has given it.
    fn find(
        &mut self,
        now_s: u64,
        present: &Certificate,
        mut ask: impl FnMut(&Place) -> Result<Given, AskError>,
    ) -> Result<(Given, bool), String> {
        let others_from_s = self.others_from_s(now_s);
        let mut failed = Vec::new();
        let own = self.source.issuers.first().map(|own| own.key);
        for (at, place) in self.source.in_order(present).iter().enumerate() {
            let is_own = own == Some(place.key);
            let (why, is_forbidden) = match ask(place) {
                Ok(given) => match self.gains_nothing(&given, present, now_s >= others_from_s) {
                    None => return Ok((given, at > 0 && !is_own)),
                    Some(why) => (why.to_owned(), false),
                },
                Err(why) => (why.to_string(), why.is_forbidden()),
            };
            failed.push(why);
            // If a node's own issuer refuses the renewal, the node does not ask issuers that know less about it.
            if at == 0 && (is_own && is_forbidden || now_s < others_from_s) {
                break;
            }
        }
        Err(match failed.is_empty() {
            true => AskError::Nowhere.to_string(),
            false => failed.join("; another issuer: "),
        })
    }

    /// Returns why the certificate of an issuer does not help, if it does not. As long as other issuers are not asked,
    /// any different certificate is accepted.
    fn gains_nothing(
        &self,
        given: &Given,
        present: &Certificate,
        has_others: bool,
    ) -> Option<&'static str> {
        let is_same = given.certificate == *present;
        if self.outdated.is_some() {
            return is_same.then_some(
                "the issuer has no delegation of the new root key yet: bring it the one that `sinew net rotate` or `sinew \
                 net delegate` has made, and start it again",
            );
        }
        let ends_s = given.certificate.fields().not_after_s;
        let is_later = ends_s > present.fields().not_after_s;
        (is_same || has_others && !is_later).then_some(
            "the issuer gives no certificate that ends later than the present one: if its delegation ends soon, make that \
             again by `sinew net delegate`, and restart the issuer",
        )
    }

    /// Uses the certificate in the file, which an operator may have renewed meanwhile, if the engine accepts it or has
    /// already accepted it.
    fn look_at_file(&mut self) {
        let stored = std::fs::read_to_string(&self.source.file);
        let stored = stored
            .ok()
            .and_then(|text| Certificate::from_text(&text).ok());
        let serial = self.identity.certificate().fields().serial;
        let newer = stored.filter(|stored| stored.fields().serial > serial);
        let keys = self.identity.keys().clone();
        let Some(Ok(identity)) = newer.map(|newer| Identity::new(keys, newer)) else {
            return;
        };
        let serial = identity.certificate().fields().serial;
        let status = self.commander.status();
        if status.is_ok_and(|status| status.snapshot.certificate_serial == serial) {
            self.hold(identity);
        } else if self
            .operate(Operation::Renew(Box::new(identity.clone())))
            .is_ok()
        {
            let file = self.source.file.display();
            self.lines
                .say(&format!("certificate {serial} taken from {file}"));
            self.hold(identity);
        }
    }

    /// Notes that the engine uses this identity now.
    fn hold(&mut self, identity: Identity) {
        self.identity = identity;
        self.outdated = None;
        self.failures = 0;
        self.warned = None;
    }

    fn take(&mut self, given: Given) -> Result<(), String> {
        let fields = given.certificate.fields();
        if fields.subject.address != self.identity.address() {
            return Err(format!("it is for {}", fields.subject.address));
        }
        if !given.chain.is_empty() {
            self.operate(Operation::Succeed(given.chain))?;
        }
        let text = given.certificate.to_text();
        let (keys, others) = (self.identity.keys().clone(), given.others);
        let identity = Identity::new(keys, given.certificate).map_err(|why| why.to_string())?;
        self.operate(Operation::Renew(Box::new(identity.clone())))?;
        self.hold(identity);
        // Without the file there are fewer issuers to ask if the own one is lost. The certificate is valid all the
        // same.
        let is_told = told::write(&self.source.file, &others);
        if let Err(error) = is_told {
            self.lines
                .warn(&format!("other issuers are not kept: {error}"));
        }
        let file = &self.source.file;
        write_whole(file, &text, 0o644)
            .map_err(|error| format!("{}: {error}; a restart takes the old one", file.display()))
    }

    fn operate(&self, operation: Operation) -> Result<(), String> {
        let taken = self.commander.operate(operation);
        let taken = taken.map_err(|why| why.to_string())?;
        taken.map_err(|why| why.to_string())
    }
}

/// Returns after how many seconds it is this node's turn to ask for a certificate of a new root, if the old one is
/// valid for `left_s` more. Nodes with consecutive addresses get turns that are far apart.
fn turn_s(address: NodeAddr, left_s: u64) -> u64 {
    let (shortest, longest) = SPREAD_S;
    share_s(address, (left_s / SPREAD_PART).clamp(shortest, longest))
}

/// Returns the shortest pause of a node under an old root after this many failures.
fn crowd_pause_s(address: NodeAddr, failures: u32) -> u64 {
    let (shortest, longest) = CROWD_AGAIN_S;
    let reach_s = (shortest << failures.min(8)).min(longest);
    (reach_s / 2 + share_s(address, reach_s / 2 + 1)).max(shortest)
}

/// Returns this node's own share of `spread_s`, which is less than all of it.
fn share_s(address: NodeAddr, spread_s: u64) -> u64 {
    let mixed = address.0.wrapping_mul(0x9e37_79b9);
    (u64::from(mixed) * spread_s) >> 32
}
