//! Where a transfer begins: `sinew cp`, beside a node of its own.
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

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Order {
    /// The local socket of the node to begin at.
    pub socket: PathBuf,
    /// That node.
    pub node: NodeAddr,
    /// The route from that node on, which is its first hop, as [`HopRepr::emit`] writes it.
    pub route: Vec<u8>,
    /// Data is not sealed: relays can read it, and cost less.
    pub plain: bool,
    /// Give way to others.
    pub scavenge: bool,
    /// Do not go on where an earlier attempt has ended.
    pub fresh: bool,
    /// What is there under the target's name stays, and nothing is copied.
    pub keep: bool,
    /// What a directory has there and has not here is removed.
    pub delete: bool,
    /// What cannot be read costs only itself.
    pub spare: bool,
    /// Nothing is written: only what would be is told.
    pub dry: bool,
    /// Owners and extended attributes are kept, too.
    pub attributes: bool,
    /// Files that are there are compared by their content.
    pub checksum: bool,
    /// The congestion control of senders; empty for the kernel's choice.
    pub congestion: String,
    /// Once it is set, the copy is broken off with [`FailureKind::Over`], so that it can go on otherwise.
    pub stop: Arc<AtomicBool>,
}

/// What happens meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Nothing is at all sinks already, not even entries of others, so all of the source is to come.
    Anew,
    /// What all entries are together, if the source knows it: before anything else that is told of them.
    Total(Total),
    /// An entry that every sink has already, of so many bytes if it is a file.
    Kept(EntryKind, u64),
    /// Of the next file, or of the one that began last, every sink has so many bytes, or so many more.
    From(u64),
    /// An entry begins, of so many bytes if it is a file.
    Entry(u64),
    /// A file is complete: its path below what is copied, and the digest of its content.
    File(&'a [u8], [u8; DIGEST_BYTES]),
    /// Something was not copied: its path, and why.
    Spared(&'a [u8], &'a str),
    /// An entry that would be sent, of so many bytes.
    Would(&'a [u8], u64),
    /// A sink would remove something: which one, and the path.
    Gone(NodeAddr, &'a [u8]),
    /// A sink has all, as it was sent.
    Done(NodeAddr, Done),
    /// The sink for which the others wait, if there is one, and for how long they have: told every second.
    Awaited(Option<(NodeAddr, Duration)>),
    /// All sinks have written so many bytes of the stream.
    Written(u64),
    /// How a segment fares: from, to.
    Segment(NodeAddr, NodeAddr, Segment),
}

/// Who is told.
pub type Report<'a> = &'a (dyn Fn(Progress<'_>) + Sync);

impl Order {
    /// `key` is the public half of one for this transfer.
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

    /// Tells, and breaks the copy off before more is copied if that is wanted once it is known what is to come.
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

/// The segments that were told of. Nodes on the way tell what they like.
#[derive(Default)]
struct Seen(BTreeSet<(NodeAddr, NodeAddr)>);

/// More than a sum of many seconds can be off by: 16 Tbit/s, 4 EB.
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
    // What a sink would remove is of interest where it was asked for, and a lie elsewhere.
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
            // The reason may be on its way still.
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
