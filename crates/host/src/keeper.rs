//! Stores what a running node has learnt, tells it the time, and reminds of expiry. Root keys and the list of
//! revocations that were flooded to the node are stored, so that a restart does not forget them. If a certificate or a
//! delegation expires soon, the log says so once a day.
//!
//! Root keys go into the network file itself, which then has the content that `sinew net rotate` writes: every program
//! that reads that file finds them there.

use crate::command::Commander;
use crate::files::write_whole;
use crate::log::Lines;
use net::clock::Clock;
use overlay::request::Operation;
use secure::Network;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the keeper checks the node.
const PACE: Duration = Duration::from_secs(5);
/// How often the log mentions that the certificate, or the delegation, expires soon.
const REMINDER: Duration = Duration::from_secs(86_400);

/// The running thread. Dropping this value ends it.
#[derive(Debug)]
pub struct Keeper {
    alive: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Keeps the roots in the file `network`, and the list of revocations in `revocations`. `started` is what the node
    /// started with: the content of that file, and maybe a root that its own certificate has proved and the file does
    /// not have.
    pub fn start(
        network: PathBuf,
        revocations: Option<PathBuf>,
        started: &Network,
        commander: Commander,
        lines: Lines,
    ) -> io::Result<Keeper> {
        let (alive, ended) = sync_channel(0);
        let mut watch = Watch::new(network, revocations, started, commander, lines);
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
            // A panic of that thread was already reported there.
            let _ = thread.join();
        }
    }
}

struct Watch {
    network: PathBuf,
    /// The number of the newest root in the file.
    kept_root: u8,
    revocations: Option<PathBuf>,
    /// The root that signed the list in the file, and its version.
    stored: (u8, u32),
    /// The newest root and the list for which the log already says whether they are kept.
    said: Option<(u8, (u8, u32))>,
    reminded: Option<Instant>,
    reminded_of_delegation: Option<Instant>,
    reminded_of_renewals: Option<Instant>,
    commander: Commander,
    lines: Lines,
}

impl Watch {
    fn new(
        network: PathBuf,
        revocations: Option<PathBuf>,
        started: &Network,
        commander: Commander,
        lines: Lines,
    ) -> Watch {
        // If the file cannot be read, this is reported when something has to be written to it.
        let file = read_network(&network);
        Watch {
            kept_root: file.map_or(0, |file| file.root_number()),
            network,
            revocations,
            stored: started.revocations_edition(),
            said: None,
            reminded: None,
            reminded_of_delegation: None,
            reminded_of_renewals: None,
            commander,
            lines,
        }
    }

    fn run(&mut self, ended: &Receiver<()>) {
        self.look();
        while ended.recv_timeout(PACE) == Err(RecvTimeoutError::Timeout) {
            self.look();
        }
    }

    fn look(&mut self) {
        let unix_s = Clock::new().unix_s();
        // A node that does not answer now is told the time again later.
        let _ = self.commander.operate(Operation::Clock { unix_s });
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
        match status.issuer.filter(|issuer| issuer.delegation_ends_soon) {
            Some(issuer) => {
                self.remind_of_delegation(issuer.delegation_not_after_s, &snapshot.name)
            }
            None => self.reminded_of_delegation = None,
        }
        let renews = status.issuer.filter(|issuer| issuer.renews_end_soon);
        match renews.and_then(|issuer| issuer.renews_not_after_s) {
            Some(not_after_s) => self.remind_of_renewals(not_after_s, &snapshot.name),
            None => self.reminded_of_renewals = None,
        }
        let edition = (snapshot.revocations_root, snapshot.revocations_version);
        if snapshot.root <= self.kept_root && edition <= self.stored {
            return;
        }
        let Ok(trust) = self.commander.trust() else {
            return;
        };
        let news = (trust.root_number(), trust.revocations_edition());
        // A failure is tried again, but reported once: after somebody repairs the file, the node need not be restarted.
        let is_said = self.said.replace(news) == Some(news);
        let mut complain = Vec::new();
        // The roots come first, because a node does not start with a list whose root it does not know.
        if trust.root_number() > self.kept_root {
            complain.extend(self.store_roots(&trust).err());
        }
        if let Some(path) = self.revocations.clone()
            && trust.revocations_edition() > self.stored
        {
            complain.extend(self.store(&path, &trust).err());
        }
        for why in complain.iter().filter(|_| !is_said) {
            self.lines.error(why);
        }
    }

    /// Adds the new roots to the network file. If the file contradicts them, somebody has put it there: it stays, and
    /// the log says so.
    fn store_roots(&mut self, trust: &Network) -> Result<(), String> {
        let (path, root) = (self.network.display(), trust.root_number());
        let known = read_network(&self.network).and_then(|mut stored| {
            let is_news = stored.adopt(trust).map_err(|error| error.to_string())?;
            Ok(is_news.then_some(stored))
        });
        let written = known.and_then(|known| match known {
            Some(known) => write_whole(&self.network, &known.to_text(), 0o644)
                .map_err(|error| format!("cannot write: {error}")),
            // The file already has it: the operator has put it there.
            None => Ok(()),
        });
        written.map_err(|why| format!("{path}: {why}; a restart forgets root key {root}"))?;
        self.lines.say(&format!("root key {root} kept in {path}"));
        self.kept_root = root;
        Ok(())
    }

    fn store(&mut self, path: &Path, trust: &Network) -> Result<(), String> {
        let Some(list) = trust.revocations() else {
            return Ok(());
        };
        let (version, path_text) = (list.fields().version, path.display());
        let (root, _) = trust.revocations_edition();
        // Choice: the older list stays. With this one, the node could not start.
        if root > self.kept_root {
            return Err(format!(
                "{path_text}: revocations, version {version}, are of root key {root}, which is not kept, so they are not \
                 either; a restart forgets both"
            ));
        }
        write_whole(path, &list.to_text(), 0o644).map_err(|error| {
            format!(
                "cannot write {path_text}: {error}; a restart forgets revocations, version {version}"
            )
        })?;
        self.lines.say(&format!(
            "revocations, version {version}, kept in {path_text}"
        ));
        self.stored = trust.revocations_edition();
        Ok(())
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
            (0, None) => "the certificate has EXPIRED: neighbours refuse this node; run `sinew net renew`, \
                          or join again"
                .to_owned(),
            (_, None) => format!(
                "the certificate ends in {} days, and nothing has renewed it: run `sinew net renew`. A node with \
                 [renewal] says in a line of its own why it could not renew it",
                left_s.div_ceil(86_400)
            ),
        });
    }
}

impl Watch {
    fn remind_of_renewals(&mut self, not_after_s: u64, name: &str) {
        let reminded = self.reminded_of_renewals;
        if reminded.is_some_and(|at| at.elapsed() < REMINDER) {
            return;
        }
        self.reminded_of_renewals = Some(Instant::now());
        let left_s = not_after_s.saturating_sub(Clock::new().unix_s());
        let seen = match left_s {
            0 => "has ENDED".to_owned(),
            _ => format!("ends in {} days", left_s.div_ceil(86_400)),
        };
        self.lines.warn(&format!(
            "a delegation by which this issuer renews members of another one {seen}: run `sinew net delegate DIR {name} \
             --renews ISSUER` where the root key is, copy {name}/renews-ISSUER.delegation here, and restart the node"
        ));
    }

    fn remind_of_delegation(&mut self, not_after_s: u64, name: &str) {
        let reminded = self.reminded_of_delegation;
        if reminded.is_some_and(|at| at.elapsed() < REMINDER) {
            return;
        }
        self.reminded_of_delegation = Some(Instant::now());
        let left_s = not_after_s.saturating_sub(Clock::new().unix_s());
        let then = format!(
            "run `sinew net delegate DIR {name}` where the root key is, copy {name}/node.delegation here, and restart the node"
        );
        self.lines.warn(&match left_s {
            0 => format!(
                "the delegation of this issuer has ENDED: it invites nobody and renews no certificates; {then}"
            ),
            _ => format!(
                "the delegation of this issuer ends in {} days: no certificate that it signs lasts longer, and then it \
                 invites nobody and renews none; {then}",
                left_s.div_ceil(86_400)
            ),
        });
    }
}

fn read_network(path: &Path) -> Result<Network, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    Network::from_text(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestNode;
    use overlay::request::Operation;
    use secure::Revocations;

    /// Creates the watch of `node`, whose files are in its directory.
    fn watch(node: &TestNode, started: &Network) -> Watch {
        let (network, list) = (node.dir.join("network.pub"), node.dir.join("revocations"));
        let lines = Lines::new("ams", Clock::new(), true).1;
        Watch::new(network, Some(list), started, node.commander.clone(), lines)
    }

    fn operate(node: &TestNode, operation: Operation) {
        node.commander.operate(operation).unwrap().unwrap();
    }

    #[test]
    fn a_list_is_kept_only_beside_the_root_that_signed_it() {
        let mut node = TestNode::start("keeper-roots");
        let now_s = Clock::new().unix_s();
        let (old, before) = (node.authority.network(), node.authority.revocations(now_s));
        let mut watch = watch(&node, &old);
        node.authority.rotate(&[9; 32], now_s + 900, now_s).unwrap();
        operate(
            &node,
            Operation::Succeed(node.authority.network().chain_bytes()),
        );
        let list = node.authority.revocations(now_s);
        operate(&node, Operation::Revoke(list.as_bytes().to_vec()));
        // There is no network file, so nothing can be added to it.
        let files = (watch.network.clone(), node.dir.join("revocations"));
        std::fs::write(&files.1, before.to_text()).unwrap();
        watch.look();
        let kept = || Revocations::from_text(&std::fs::read_to_string(&files.1).unwrap()).unwrap();
        assert_eq!(kept().as_bytes(), before.as_bytes());

        // After the file is repaired, both are stored without another message.
        std::fs::write(&files.0, old.to_text()).unwrap();
        watch.look();
        let mut started = read_network(&files.0).unwrap();
        assert_eq!(started.root_number(), 1);
        assert_eq!(kept().as_bytes(), list.as_bytes());
        assert_eq!(started.restore(&kept()), Ok(true));
    }

    #[test]
    fn a_root_that_the_certificate_proved_is_kept_as_well() {
        let mut node = TestNode::start("keeper-proved");
        let now_s = Clock::new().unix_s();
        let old = node.authority.network();
        node.authority.rotate(&[9; 32], now_s + 900, now_s).unwrap();
        let started = node.authority.network();
        operate(&node, Operation::Succeed(started.chain_bytes()));
        std::fs::write(node.dir.join("network.pub"), old.to_text()).unwrap();
        let mut watch = watch(&node, &started);
        watch.look();
        assert_eq!(read_network(&watch.network).unwrap().root_number(), 1);
    }
}
