//! The beginning of a transfer: `sinew cp`, beside its own node.
//!
//! ```text
//!   push: Tree ─▶ this process ─Unix─▶ node ═▶ ... ═▶ sinks
//!   pull: source ═▶ ... ═▶ node ─Unix─▶ this process ─▶ Place
//! ```

use super::dial::{self, Next, Way};
use super::ends::{Inbound, Secrets, Sinks, fresh, is_done, stream_key};
use super::failure::{Failure, FailureKind};
use super::place::{Manner, Place};
use super::pump::Ends;
use super::sink::{self, Sink};
use super::source::{Feedback, Reading, Source};
use super::stage::{Outward, hear, note, spread};
use super::tls::random;
use super::transfer::{LOOK, Shared, Transfer};
use super::tree::Tree;
use base::NodeAddr;
use relay::{Fan, Reassembly};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
pub use wire::relay::entry::{EntryKind, Total};
use wire::relay::{DIGEST_BYTES, HOPS_MAX, Message, Open};
pub use wire::relay::{Done, Hop, HopRepr, Segment};

/// The parameters of a copy.
#[derive(Clone, Debug)]
pub struct Order {
    /// The local socket of the node to begin at.
    pub socket: PathBuf,
    /// The node to begin at.
    pub node: NodeAddr,
    /// The route from that node, which is its first hop, as [`HopRepr::emit`] encodes it.
    pub route: Vec<u8>,
    /// Data is not encrypted: relays can read it, and need less processor time.
    pub plain: bool,
    /// Give way to other traffic.
    pub scavenge: bool,
    /// Do not continue where an earlier attempt has ended.
    pub fresh: bool,
    /// If something exists under the target's name, it stays, and nothing is copied.
    pub keep: bool,
    /// Entries of a target directory that the source does not have are removed.
    pub delete: bool,
    /// If something cannot be read, only this is left out.
    pub spare: bool,
    /// Nothing is written: the copy only reports what it would do.
    pub dry: bool,
    /// Owners and extended attributes are copied, too.
    pub attributes: bool,
    /// Existing files are compared by their content.
    pub checksum: bool,
    /// The congestion control of senders; empty for the kernel's choice.
    pub congestion: String,
    /// Once it is set, the copy ends with [`FailureKind::Over`], so that it can continue in another way.
    pub stop: Arc<AtomicBool>,
}

/// The progress of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// The sinks have nothing in common yet, not even entries of other copies, so all of the source will be sent.
    Anew,
    /// The totals of all entries, if the source knows them. This comes before any other report about them.
    Total(Total),
    /// An entry that every sink already has; its size if it is a file.
    Kept(EntryKind, u64),
    /// Number of bytes of the next file, or more bytes of the present file, that every sink already has.
    From(u64),
    /// An entry begins; its size if it is a file.
    Entry(u64),
    /// A file is complete: its path relative to the copied directory, and the digest of its content.
    File(&'a [u8], [u8; DIGEST_BYTES]),
    /// Something was not copied: its path, and the reason.
    Spared(&'a [u8], &'a str),
    /// An entry that would be sent, and its size.
    Would(&'a [u8], u64),
    /// A sink would remove something: the sink, and the path.
    Gone(NodeAddr, &'a [u8]),
    /// A sink has everything as it was sent.
    Done(NodeAddr, Done),
    /// The sink for which the others wait, if there is one, and for how long they have waited. It is reported every
    /// second.
    Awaited(Option<(NodeAddr, Duration)>),
    /// Number of bytes of the stream that all sinks have written.
    Written(u64),
    /// The state of a segment: from, to.
    Segment(NodeAddr, NodeAddr, Segment),
}

/// The function that receives the progress.
pub type Report<'a> = &'a (dyn Fn(Progress<'_>) + Sync);

impl Order {
    /// Creates the request. `key` is the public half of a key for this transfer.
    fn open<'a>(&'a self, pull: bool, key: &'a [u8]) -> Result<Open<'a>, Failure> {
        let unusable = |text: &dyn std::fmt::Display| {
            Failure::new(
                self.node,
                FailureKind::Unusable,
                format!("the route: {text}"),
            )
        };
        let transfer = random();
        Ok(Open {
            transfer: transfer.map_err(|error| unusable(&error))?,
            pull,
            plain: self.plain,
            scavenge: self.scavenge,
            fresh: self.fresh,
            keep: self.keep,
            delete: self.delete,
            spare: self.spare,
            dry: self.dry,
            attributes: self.attributes,
            checksum: self.checksum,
            congestion: &self.congestion,
            certificate: &[],
            ordered: key,
            route: Hop::parse(&self.route).map_err(|why| unusable(&why))?,
        })
    }

    fn go_on(&self) -> Result<(), Failure> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(Failure::new(
                self.node,
                FailureKind::Over,
                "it was broken off",
            )),
            false => Ok(()),
        }
    }

    /// Reports progress. Once it is known what will be sent, it also ends the copy if that was requested.
    fn tell(&self, progress: Progress<'_>, transfer: &Transfer, report: Report<'_>) {
        report(progress);
        let says_what_comes = matches!(
            progress,
            Progress::Total(_) | Progress::Entry(_) | Progress::From(_)
        );
        if says_what_comes && let Err(over) = self.go_on() {
            transfer.fail_at_once(over);
        }
    }

    fn dial(&self, open: &Open<'_>, transfer: &Transfer) -> Result<Next, Failure> {
        dial::dial(&Way::Local(&self.socket), self.node, open, transfer)
    }
}

/// The segments that were reported. Nodes on the way may report anything.
#[derive(Default)]
struct Seen(BTreeSet<(NodeAddr, NodeAddr)>);

/// More than sums over many seconds can reach: 16 Tbit/s, 4 EB.
const RATE_BPS_MAX: u64 = 1 << 44;
const BYTES_MAX: u64 = 1 << 62;

impl Seen {
    fn report(&mut self, ends: (NodeAddr, NodeAddr), told: Segment, report: Report<'_>) {
        if self.0.len() < HOPS_MAX {
            self.0.insert(ends);
        }
        if self.0.contains(&ends) {
            let segment = Segment {
                rate_bps: told.rate_bps.min(RATE_BPS_MAX),
                bytes: told.bytes.min(BYTES_MAX),
                ..told
            };
            report(Progress::Segment(ends.0, ends.1, segment));
        }
    }
}

/// Copies `tree` to all ends of the route.
pub fn push(order: &Order, tree: Tree, report: Report<'_>) -> Result<Done, Failure> {
    let key = fresh(order.node)?;
    let public = key.public();
    let open = order.open(false, &public)?;
    let stream_key = stream_key(order.node, open.plain)?;
    let mut tree = tree.sparing(open.spare);
    let sinks = open.route.ends();
    let transfer = Transfer::new(sinks);
    let next = order.dial(&open, &transfer)?;
    let feedback = Feedback::new(sinks, Sinks::of(order.node, &open, key));
    // The lists of what sinks would remove are accepted only if they were requested; otherwise a sink is not
    // trustworthy.
    let feedback = Shared::new(match open.dry && open.delete {
        true => feedback.listing_gone(),
        false => feedback,
    });
    let frames = Shared::new(Fan::new(1, 1, relay::QUEUE_BYTES));
    let here = order.node;
    let at = Ends { here, peer: here };
    let control = &next.control;
    let controls = [Arc::clone(control)];
    thread::scope(|scope| {
        transfer.thread(scope, here, || {
            let mut seen = Seen::default();
            let heard = hear(here, here, control, &transfer, |_, message| {
                note(&feedback, message).map_err(|why| why.at(here))?;
                for (sink, path) in feedback.with(Feedback::take_gone) {
                    report(Progress::Gone(sink, &path));
                }
                if let Some(sink) = is_done(message) {
                    transfer.on_done(sink);
                }
                match *message {
                    Message::Ack(..) => {
                        report(Progress::Written(feedback.with(|f| f.acked())));
                    }
                    Message::Segment(from, to, segment) => {
                        report(Progress::Awaited(feedback.with(|f| f.awaited())));
                        seen.report((from, to), segment, report);
                        order.go_on()?;
                    }
                    _ => {}
                }
                Ok(())
            });
            transfer.note(heard);
        });
        let source = Source {
            here,
            feedback: &feedback,
            frames: &frames,
            transfer: &transfer,
            manner: Reading::of(&open),
            key: stream_key.as_ref(),
            controls: &controls,
        };
        let beyond = open.route.below().next().map(|hop| hop.node);
        let out = Outward {
            beyond,
            ..Outward::own(next.data, next.used, source.key)
        };
        let sent = spread(&frames, 0, out, at, &transfer, || {
            source.run(&mut tree, |told| order.tell(told, &transfer, report))
        });
        if sent.is_err() {
            // The reason may still be on its way.
            transfer.wait(LOOK);
        }
        control.close();
        sent.map_err(|failure| transfer.failure().unwrap_or(failure))
    })
}

/// Copies what is at the end of the route to `place`.
pub fn pull(order: &Order, place: Place, report: Report<'_>) -> Result<Done, Failure> {
    let key = fresh(order.node)?;
    let public = key.public();
    let open = order.open(true, &public)?;
    let transfer = Transfer::new(1);
    let next = order.dial(&open, &transfer)?;
    let inflow = Shared::new(Reassembly::new(next.data.len()));
    let secrets: Inbound = Shared::new(Secrets::awaiting(order.node, &open, key));
    let here = order.node;
    let at = Ends { here, peer: here };
    let control = &next.control;
    thread::scope(|scope| {
        let (transfer, inflow, secrets) = (&transfer, &inflow, &secrets);
        transfer.thread(scope, here, move || {
            let mut seen = Seen::default();
            let heard = hear(here, here, control, transfer, |_, message| {
                let heard = secrets.with(|secrets| secrets.hear(message));
                heard.map_err(|why| why.at(here))?;
                if let Message::Segment(from, to, segment) = *message {
                    seen.report((from, to), segment, report);
                    order.go_on()?;
                }
                Ok(())
            });
            transfer.note(heard);
        });
        for from in next.data {
            transfer.thread(scope, here, move || {
                transfer.note(sink::gather(from, at, (inflow, secrets), transfer))
            });
        }
        let sink = Sink {
            here,
            peer: here,
            control,
            inflow,
            secrets,
            transfer,
        };
        let tell = |told: Progress<'_>| order.tell(told, transfer, report);
        let come = sink.run(place, &Manner::of(&open), tell);
        if let Err(failure) = &come {
            transfer.fail(failure.clone());
        }
        control.close();
        come.map_err(|failure| transfer.failure().unwrap_or(failure))
    })
}
