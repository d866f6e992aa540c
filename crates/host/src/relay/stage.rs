//! A transfer at a node: receives data from the node before, and passes it on to those behind.
//!
//! ```text
//!              control ◀──────── messages ────────▶ control
//!   before     data, n stripes ══ pairs, or Fan ══▶ data, m stripes     behind (one, or several)
//!                                       └─────────▶ sink at this node
//! ```
//! In a pull, data flows in the other direction, and a source is at the last node.

use super::account::Account;
use super::allow::Rights;
use super::dial::{self, Next, Way};
use super::duplex::{Duplex, Peer, Received};
use super::ends::{self, Inbound, Part, Secrets, Sinks, Untrue};
use super::failure::{Failure, FailureKind};
use super::monitor::{Monitor, Used};
use super::place::{Manner, Place};
use super::probe::{self, Noise};
use super::pump::{self, Ends, Frames, Lane, Outcome};
use super::recent::Recent;
use super::sink::{self, Inflow, Sink};
use super::socket::Data;
use super::source::{Feedback, Reading, Source};
use super::tls::Trust;
use super::transfer::{Shared, Transfer};
use super::tree::Tree;
use crate::command::Commander;
use base::NodeAddr;
use net::Clock;
use overlay::request::Operation;
use relay::{Fan, QUEUE_BYTES, Reassembly};
use secure::ends::StreamKey;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use wire::certificate::KEY_BYTES;
use wire::handshake::VersionRange;
use wire::link_state::Rates;
use wire::relay::{Message, Open, Ordered, TRANSFER_BYTES};

/// How many bytes of a probe's noise may wait, so that little is left when the probe is over.
const PROBE_QUEUE_BYTES: usize = 512 << 10;

/// The role of a node in addition to passing data on.
pub(super) enum End {
    Nothing,
    Sink(Place),
    Source(Box<Tree>),
    /// Measures what the next segment carries, with at most this many bytes, and notes whether there was a result.
    Probe(u64, Arc<AtomicBool>),
}

/// Runs the transfer that `open` requests until it is over, reports to `before`, and keeps the books.
pub(super) fn run(
    (trust, rights): (&Trust, Rights<'_>),
    open: &Open<'_>,
    before: &Peer,
    stripes: Vec<Data>,
    (end, part): (End, Option<Part>),
    (account, recent): (&Arc<Account>, &Arc<Recent>),
) -> Outcome {
    let transfer = account.transfer();
    transfer.add_data(&stripes);
    let monitor = Monitor::new(trust.own(), &before.control, account, recent, open);
    let certificate = trust.certificate();
    let reached = match before.control.is_in_version_of(&stripes) {
        true => reach((trust, rights), open, transfer),
        false => {
            let text = "its stripes are in another version than control is";
            Err(Failure::new(trust.own(), FailureKind::Unusable, text))
        }
    };
    let stage = Stage {
        trust,
        began: began(open, before, trust.own()),
        here: trust.own(),
        before,
        transfer,
        monitor: &monitor,
        commander: trust.commander(),
        certificate: &certificate,
        pull: open.pull,
    };
    match reached {
        Ok(_) if transfer.has_failed() => {}
        Ok(behind) => stage.serve(behind, stripes, (end, part), open),
        Err(failure) => transfer.fail(failure),
    }
    match transfer.failure() {
        Some(failure) if failure.kind != FailureKind::Over => Err(failure),
        _ => Ok(()),
    }
}

/// The name and the key of a transfer that has begun at this node.
type Began = ([u8; TRANSFER_BYTES], [u8; KEY_BYTES]);

/// Returns them, if the transfer has begun at this node.
fn began(open: &Open<'_>, before: &Peer, here: NodeAddr) -> Option<Began> {
    let is_first = before.node == here;
    let ordered = Ordered::parse(open.ordered).ok().filter(|_| is_first);
    ordered.map(|ordered| (open.transfer, ordered.key))
}

/// Connects to all nodes behind.
fn reach(
    (trust, rights): (&Trust, Rights<'_>),
    open: &Open<'_>,
    transfer: &Transfer,
) -> Result<Vec<Next>, Failure> {
    let certificate = trust.certificate();
    let mut behind = Vec::new();
    for hop in open.route.below() {
        let onward = Open {
            certificate: &certificate,
            route: hop,
            ..*open
        };
        let way = Way::Tcp(trust, rights);
        behind.push(dial::dial(&way, trust.own(), &onward, transfer)?);
    }
    Ok(behind)
}

/// A node that data is sent to: its connections, how many of them are used, and whether their number is adapted.
type Onward = (NodeAddr, Vec<Data>, Used, bool);

/// This node's knowledge of the other ends, if it is an end.
#[derive(Clone, Copy)]
struct Ours<'a> {
    /// For a source: the sinks' reports.
    feedback: &'a Shared<Feedback>,
    /// For a sink: the secrets for its incoming data.
    secrets: &'a Inbound,
}

struct Stage<'a> {
    trust: &'a Trust,
    began: Option<Began>,
    here: NodeAddr,
    before: &'a Peer,
    transfer: &'a Transfer,
    monitor: &'a Monitor,
    commander: &'a Commander,
    certificate: &'a [u8],
    pull: bool,
}

impl Stage<'_> {
    fn serve(
        &self,
        behind: Vec<Next>,
        stripes: Vec<Data>,
        (end, part): (End, Option<Part>),
        open: &Open<'_>,
    ) {
        let controls: Vec<(NodeAddr, Arc<Duplex>)> = behind
            .iter()
            .map(|next| (next.node, Arc::clone(&next.control)))
            .collect();
        if let End::Probe(bytes, found) = end {
            return self.probe(behind, (bytes, &found), open);
        }
        let (here, transfer) = (self.here, self.transfer);
        if let Some(part) = &part {
            let told = self.before.control.send(&part.message(here));
            transfer.note(told.map_err(|error| Failure::broken(here, self.before.node, &error)));
        }
        let mut stripes = stripes;
        if let ([next], End::Nothing, false) = (&behind[..], &end, self.pull)
            && is_pair(stripes.len(), next.data.len(), next.adapts)
        {
            let pairs = stripes.iter_mut().zip(&next.data);
            pairs.for_each(|(from, to)| from.offer(to));
        }
        let is_source = matches!(end, End::Source(_));
        let (of_source, of_sink) = match is_source {
            true => (part, None),
            false => (None, part),
        };
        let known = Sinks::one(of_source, open.transfer);
        let feedback = Shared::new(Feedback::new(1, known));
        let secrets: Inbound = Shared::new(Secrets::of(here, of_sink, open.plain));
        thread::scope(|scope| {
            let controls = &controls;
            let ours = Ours {
                feedback: &feedback,
                secrets: &secrets,
            };
            transfer.thread(scope, here, move || {
                let heard = self.hear_before(controls, ours, is_source);
                self.transfer.note(heard);
                // The program that began the transfer has gone, or has cancelled it.
                controls.iter().for_each(|(_, control)| control.close());
            });
            for (node, control) in controls {
                transfer.thread(scope, here, move || {
                    self.transfer.note(self.hear_behind(*node, control))
                });
            }
            let mut behind = behind;
            let mut towards = Used::all();
            match self.pull {
                true => {
                    let adapts = open.route.adapts;
                    towards = self.monitor.watch(self.before.node, &stripes, adapts);
                }
                false => {
                    for next in &mut behind {
                        next.used = self.monitor.watch(next.node, &next.data, next.adapts);
                    }
                }
            }
            self.guard(self.before.node, &self.before.control, &stripes);
            for next in &behind {
                self.guard(next.node, &next.control, &next.data);
            }
            transfer.thread(scope, here, || {
                let learn = |to, rates| self.learn(to, rates);
                let watch_paths = |to| self.commander.watch_paths(to).ok();
                self.monitor.run(self.transfer, learn, watch_paths)
            });
            transfer.thread(scope, here, move || {
                self.transfer
                    .note(self.move_data(behind, (stripes, towards), end, open, ours))
            });
        });
    }

    fn guard(&self, node: NodeAddr, control: &Duplex, data: &[Data]) {
        // A kernel without this option gives the connection up earlier.
        let _ = control.socket().tcp().map(dial::leave_to_monitor);
        let data = data.iter().map(|data| &data.socket);
        self.monitor.guard(node, data.chain([control.socket()]));
    }

    /// Reads the messages from the node that began the transfer, until the connection closes.
    fn hear_before(
        &self,
        behind: &[(NodeAddr, Arc<Duplex>)],
        ours: Ours<'_>,
        is_source: bool,
    ) -> Outcome {
        let peer = self.before.node;
        self.hear(peer, &self.before.control, |received, message| {
            for (node, control) in behind {
                let passed = control.pass_on(received);
                passed.map_err(|error| Failure::broken(self.here, *node, &error))?;
            }
            match is_source {
                true => note(ours.feedback, message).map_err(|why| why.at(self.here))?,
                false => {
                    let heard = ours.secrets.with(|secrets| secrets.hear(message));
                    heard.map_err(|why| why.at(self.here))?;
                }
            }
            if let (true, Some(sink)) = (self.pull, ends::is_done(message)) {
                self.transfer.on_done(sink);
            }
            Ok(())
        })
    }

    /// Reads the messages of a node behind, until the connection closes.
    fn hear_behind(&self, node: NodeAddr, control: &Duplex) -> Outcome {
        self.hear(node, control, |received, message| {
            if let Message::Segment(from, to, segment) = *message {
                self.monitor.on_segment(from, to, segment);
            }
            if let (Message::Ended(ended), Some((transfer, key))) = (message, &self.began) {
                ends::judge(self.trust, (transfer, key), ended, Clock::new().unix_s())?;
            }
            let done = ends::is_done(message).filter(|_| !self.pull);
            if done.is_some() {
                // The last numbers are sent before the end.
                self.monitor.tell();
            }
            let passed = self.before.control.pass_on(received);
            passed.map_err(|error| Failure::broken(self.here, self.before.node, &error))?;
            if let Some(sink) = done {
                self.transfer.on_done(sink);
            }
            Ok(())
        })
    }

    fn hear(
        &self,
        peer: NodeAddr,
        control: &Duplex,
        act: impl FnMut(&Received, &Message<'_>) -> Outcome,
    ) -> Outcome {
        hear(self.here, peer, control, self.transfer, act)
    }

    fn move_data(
        &self,
        behind: Vec<Next>,
        (stripes, towards): (Vec<Data>, Used),
        end: End,
        open: &Open<'_>,
        ours: Ours<'_>,
    ) -> Outcome {
        let at = |peer| Ends {
            here: self.here,
            peer,
        };
        let before = self.before.node;
        match (end, self.pull) {
            (End::Source(tree), true) => {
                let mut tree = tree.sparing(open.spare);
                let frames = Shared::new(Fan::new(1, 1, QUEUE_BYTES));
                let key = ends::stream_key(self.here, open.plain)?;
                let source = Source {
                    here: self.here,
                    feedback: ours.feedback,
                    frames: &frames,
                    transfer: self.transfer,
                    manner: Reading::of(open),
                    key: key.as_ref(),
                    controls: &[Arc::clone(&self.before.control)],
                };
                let out = Outward::own(stripes, towards, key.as_ref());
                spread(&frames, 0, out, at(before), self.transfer, || {
                    source.run(&mut tree, |_| {}).map(|_| {
                        self.monitor.tell();
                        self.transfer.on_done(before);
                    })
                })
            }
            (End::Nothing, true) => {
                let Some(next) = behind.into_iter().next() else {
                    return Err(self.unusable("data is pulled from one node"));
                };
                let from = (next.node, next.data);
                let adapts = open.route.adapts;
                let to = vec![(before, stripes, towards, adapts)];
                self.pass(from, to, None, (open, ours.secrets))
            }
            (End::Sink(place), false) => {
                let behind = behind
                    .into_iter()
                    .map(|next| (next.node, next.data, next.used, next.adapts));
                let from = (before, stripes);
                self.pass(from, behind.collect(), Some(place), (open, ours.secrets))
            }
            (End::Nothing, false) => {
                let behind = behind
                    .into_iter()
                    .map(|next| (next.node, next.data, next.used, next.adapts));
                let from = (before, stripes);
                self.pass(from, behind.collect(), None, (open, ours.secrets))
            }
            (End::Sink(_), true) | (End::Source(_), false) | (End::Probe(..), _) => {
                Err(self.unusable("a route whose ends are exchanged"))
            }
        }
    }

    /// Sends noise to the next node until it is known what the segment carries, and answers.
    fn probe(&self, behind: Vec<Next>, (bytes, found): (u64, &AtomicBool), open: &Open<'_>) {
        let feedback = &Shared::new(Feedback::new(1, Sinks::Nobody));
        let Some(mut next) = behind.into_iter().next() else {
            return self.transfer.fail(self.unusable("a probe needs a segment"));
        };
        let (here, node, transfer) = (self.here, next.node, self.transfer);
        let at = Ends { here, peer: node };
        let control = Arc::clone(&next.control);
        next.used = self.monitor.watch(node, &next.data, true);
        let is_over = Arc::new(AtomicBool::new(false));
        let noise = match Noise::new(bytes, Arc::clone(&is_over)) {
            Ok(noise) => noise,
            Err(error) => return transfer.fail(Failure::file(here, "noise", &error)),
        };
        thread::scope(|scope| {
            transfer.thread(scope, here, || {
                let heard = self.hear(node, &control, |_, message| {
                    if let Some(sink) = ends::is_done(message) {
                        transfer.on_done(sink);
                    }
                    note(feedback, message).map_err(|why| why.at(here))
                });
                transfer.note(heard);
            });
            transfer.thread(scope, here, || {
                // The requester sends nothing more: if the connection ends, it is gone, or a node on the way has ended
                // the probe.
                let before = self.before.node;
                transfer.note(self.hear(before, &self.before.control, |_, _| Ok(())));
            });
            transfer.thread(scope, here, move || {
                let mut tree = Tree::stream(Box::new(noise));
                let frames = Shared::new(Fan::new(1, 1, PROBE_QUEUE_BYTES));
                let source = Source {
                    here,
                    feedback,
                    frames: &frames,
                    transfer,
                    manner: Reading::of(open),
                    key: None,
                    controls: &[],
                };
                let out = Outward::own(next.data, next.used, None);
                let sent = spread(&frames, 0, out, at, transfer, || {
                    source.run(&mut tree, |_| {})
                });
                transfer.note(sent.map(drop));
            });
            let carried = self.monitor.find_out(transfer);
            found.store(
                carried.one_bps.max(carried.together_bps) > 0,
                Ordering::Relaxed,
            );
            is_over.store(true, Ordering::Relaxed);
            self.monitor.learnt(|to, rates| self.learn(to, rates));
            if transfer.failure().is_none() {
                let certificate = self.certificate;
                probe::answer(&self.before.control, (here, node), carried, certificate);
            }
            // Bytes that still wait to be sent would delay the copy that follows. The node at the other end gets the
            // failure, and resets the connections. If the probe is already done, it stays done.
            transfer.fail_at_once(Failure::new(here, FailureKind::Over, "the probe is over"));
            control.close();
        });
    }

    /// Informs the network what a segment carries. A segment that is no link of the overlay is useless there, and is
    /// refused.
    fn learn(&self, neighbor: NodeAddr, rates: Rates) {
        let _ = self
            .commander
            .operate(Operation::Carried { neighbor, rates });
    }

    fn unusable(&self, text: &str) -> Failure {
        Failure::new(self.here, FailureKind::Unusable, text)
    }

    /// Passes data on to all of `to`, and to a sink here.
    fn pass(
        &self,
        (peer, from): (NodeAddr, Vec<Data>),
        mut to: Vec<Onward>,
        sink: Option<Place>,
        (open, secrets): (&Open<'_>, &Inbound),
    ) -> Outcome {
        let (here, transfer) = (self.here, self.transfer);
        let at = |peer| Ends { here, peer };
        let fits = |(_, out, _, adapts): &Onward| is_pair(from.len(), out.len(), *adapts);
        let is_pipeline = sink.is_none() && to.len() == 1 && to.iter().all(fits);
        if let (true, Some((next, out, ..))) = (is_pipeline, to.pop_if(|_| is_pipeline)) {
            let pairs = from.into_iter().zip(out);
            self.pass_pairs(pairs, at(peer), at(next));
            return Ok(());
        }
        let connections = if to.is_empty() { from.len() } else { 1 };
        let inflow: Inflow = Shared::new(Reassembly::new(connections));
        let inflow = &inflow;
        if to.is_empty() {
            return thread::scope(|scope| {
                for from in from {
                    transfer.thread(scope, here, move || {
                        let into = (inflow, secrets);
                        transfer.note(sink::gather(from, at(peer), into, transfer));
                    });
                }
                self.sink(sink, (inflow, secrets), open)
            });
        }
        let frames: Frames = Shared::new(Fan::new(
            from.len(),
            to.len() + usize::from(sink.is_some()),
            QUEUE_BYTES,
        ));
        let frames = &frames;
        thread::scope(|scope| {
            for from in from {
                transfer.thread(scope, here, move || {
                    transfer.note(pump::gather(from, at(peer), frames, transfer))
                });
            }
            let last = to.len();
            for (branch, (next, out, used, _)) in to.into_iter().enumerate() {
                for (stripe, out) in out.into_iter().enumerate() {
                    let lane = Lane {
                        branch,
                        stripe,
                        used: used.clone(),
                        key: None,
                        beyond: None,
                    };
                    transfer.thread(scope, here, move || {
                        transfer.note(pump::scatter(out, at(next), &lane, frames, transfer));
                    });
                }
            }
            if sink.is_none() {
                return Ok(());
            }
            transfer.thread(scope, here, move || {
                let into = (inflow, secrets);
                transfer.note(sink::branch(at(peer), last, frames, into, transfer));
            });
            self.sink(sink, (inflow, secrets), open)
        })
    }

    /// Passes on what each connection brings over one other connection.
    fn pass_pairs(&self, pairs: impl Iterator<Item = (Data, Data)>, before: Ends, behind: Ends) {
        let (here, transfer) = (self.here, self.transfer);
        let pairs: Vec<_> = pairs.collect();
        let share = QUEUE_BYTES / pairs.len().max(1);
        thread::scope(|scope| {
            for (from, to) in pairs {
                transfer.thread(scope, here, move || {
                    let done = pump::splice(&from, to, share, before, behind.peer, transfer);
                    transfer.note(done);
                });
            }
        });
    }

    fn sink(
        &self,
        place: Option<Place>,
        (inflow, secrets): (&Inflow, &Inbound),
        open: &Open<'_>,
    ) -> Outcome {
        let Some(place) = place else {
            return Err(self.unusable("a route that ends nowhere"));
        };
        let sink = Sink {
            here: self.here,
            peer: self.before.node,
            control: &self.before.control,
            inflow,
            secrets,
            transfer: self.transfer,
        };
        // A thread that waits for more data must learn it at once, and not only see the connection end.
        let done = sink.run(place, &Manner::of(open), |_| {}).map(drop);
        if let Err(failure) = &done {
            self.transfer.fail(failure.clone());
        }
        done
    }
}

/// Returns true if each incoming connection is passed on over one outgoing connection. If the next segment adapts its
/// number of connections, this holds only for a single one.
fn is_pair(from: usize, out: usize, adapts: bool) -> bool {
    from == out && (!adapts || out == 1)
}

/// A sink reports something impossible.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    #[error(transparent)]
    Untrue(#[from] Untrue),
    #[error(transparent)]
    Ack(#[from] relay::window::BadAck),
    #[error(transparent)]
    Keys(#[from] relay::resume::TooMuch),
    #[error("{0} speaks other versions as an end")]
    Version(NodeAddr, VersionRange),
}

impl Unfit {
    /// Returns it as a failure that was noticed here.
    pub(super) fn at(&self, here: NodeAddr) -> Failure {
        match self {
            Unfit::Untrue(untrue) => untrue.at(here),
            Unfit::Version(node, told) => ends::no_version(here, *node, *told),
            _ => Failure::new(here, FailureKind::Corrupt, self),
        }
    }
}

/// Takes a sink's message into the source's feedback.
pub(super) fn note(feedback: &Shared<Feedback>, message: &Message<'_>) -> Result<(), Unfit> {
    feedback.with(|f| f.hear(message))
}

/// Reads a control connection until it ends. An end is a failure unless the transfer is done.
pub(super) fn hear(
    here: NodeAddr,
    peer: NodeAddr,
    control: &Duplex,
    transfer: &Transfer,
    mut act: impl FnMut(&Received, &Message<'_>) -> Outcome,
) -> Outcome {
    let broken = |error: &io::Error| Failure::broken(here, peer, error);
    loop {
        let received = match control.receive(None) {
            Ok(Some(received)) => received,
            Ok(None) if transfer.is_done() => return Ok(()),
            Ok(None) => return Err(broken(&io::ErrorKind::UnexpectedEof.into())),
            Err(error) => return Err(broken(&error)),
        };
        let message = received.message().map_err(|error| broken(&error))?;
        if let Message::Failed {
            node,
            kind,
            about,
            text,
        } = message
        {
            transfer.fail_at_once(Failure::told((node, kind, about), text));
            return Ok(());
        }
        act(&received, &message)?;
    }
}

/// The connections over which a stream is sent.
pub(super) struct Outward<'a> {
    pub(super) data: Vec<Data>,
    pub(super) used: Used,
    /// The key that encrypts its frames.
    pub(super) key: Option<&'a StreamKey>,
    /// The node behind the next one, if the next node may lend its connection to that.
    pub(super) beyond: Option<NodeAddr>,
}

impl<'a> Outward<'a> {
    /// Uses only its own connections.
    pub(super) fn own(data: Vec<Data>, used: Used, key: Option<&'a StreamKey>) -> Outward<'a> {
        Outward {
            data,
            used,
            key,
            beyond: None,
        }
    }
}

/// Sends the frames of a branch over all its connections, encrypted if there is a key, while `work` makes them.
pub(super) fn spread<R>(
    frames: &Frames,
    branch: usize,
    out: Outward<'_>,
    at: Ends,
    transfer: &Transfer,
    work: impl FnOnce() -> Result<R, Failure>,
) -> Result<R, Failure> {
    let Outward {
        data,
        used,
        key,
        beyond,
    } = out;
    thread::scope(|scope| {
        for (stripe, data) in data.into_iter().enumerate() {
            let lane = Lane {
                branch,
                stripe,
                used: used.clone(),
                key,
                beyond,
            };
            transfer.thread(scope, at.here, move || {
                transfer.note(pump::scatter(data, at, &lane, frames, transfer));
            });
        }
        let done = work();
        if let Err(failure) = &done {
            // The sending threads wait for it.
            transfer.fail(failure.clone());
        }
        done
    })
}
