//! The end of a transfer: puts frames in order, decodes entries, and writes files.
//!
//! ```text
//!   stripe 1: open ─┐
//!   stripe 2: open ─┴─▶ Reassembly ─▶ Decoder ─▶ Writing        Have, Ack ..., Done ─▶ source
//! ```

use super::duplex::Duplex;
use super::ends::{self, Inbound};
use super::failure::{Failure, FailureKind};
use super::origin::Progress;
use super::place::{Kept, Manner, Place, Writing};
use super::pump::{Ends, Frames, Outcome, corrupt, read_frame};
use super::socket::Data;
use super::transfer::{Over, Shared, Transfer};
use base::NodeAddr;
use relay::stage::Next;
use relay::stream::StreamError;
use relay::{Decoder, Event, Reassembly};
use secure::ends::Speech;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::bytes::Writer;
use wire::handshake::VersionRange;
use wire::relay::entry::EntryKind;
use wire::relay::{Done, END_VERSIONS, FRAME_HEAD_BYTES, GONE_VERSION, KEYS_MAX, Keys, Message};

/// Number of bytes that are written before they are acknowledged, a sixteenth of the window. Each relay decrypts,
/// encrypts and passes on every acknowledgement, which costs as much as a frame. The end is reported separately.
pub(super) const ACK_BYTES: u64 = relay::WINDOW_BYTES / 16;
/// Written bytes are acknowledged after this time in any case: so a slow copy shows its progress, and before a pause
/// everything is acknowledged.
const ACK_AFTER: Duration = Duration::from_millis(250);

/// The reason for which a frame cannot be decrypted.
const CHANGED: &str = "what came is not what was sent: it was changed on the way";

/// The frames that have arrived at a sink.
pub(super) type Inflow = Shared<Reassembly>;

/// A sink.
pub(super) struct Sink<'a> {
    pub(super) here: NodeAddr,
    /// The node that data comes from.
    pub(super) peer: NodeAddr,
    /// The control connection towards the source.
    pub(super) control: &'a Arc<Duplex>,
    pub(super) inflow: &'a Inflow,
    pub(super) secrets: &'a Inbound,
    pub(super) transfer: &'a Transfer,
}

/// The next event of the incoming data.
enum Came {
    Frame(Vec<u8>),
    Nothing,
    /// No frame arrives, and the bytes written so far have to be acknowledged.
    Pause,
    End,
}

/// Number of bytes of the stream that are written.
struct Written {
    bytes: u64,
    acked: u64,
    acked_at: Instant,
}

impl Written {
    /// Returns true if they have to be acknowledged, because of their number or because of the time.
    fn is_due(&self) -> bool {
        let has_waited = self.bytes > self.acked && self.acked_at.elapsed() >= ACK_AFTER;
        self.bytes - self.acked >= ACK_BYTES || has_waited
    }
}

/// Creates the failure if the stream is not what was sent, or a compared file has changed.
fn corrupted(here: NodeAddr, why: StreamError, writing: &mut Writing) -> Failure {
    let changed = match why {
        StreamError::Content => writing.differs(),
        _ => None,
    };
    changed.unwrap_or_else(|| Failure::new(here, FailureKind::Corrupt, why))
}

/// Waits until a frame may be inserted.
fn room(inflow: &Inflow, transfer: &Transfer) -> Result<(), Over> {
    let has_room = |r: &mut Reassembly| r.has_room().then_some(());
    inflow.wait(transfer, has_room)
}

/// Receives the frames of one connection.
pub(super) fn gather(
    mut from: Data,
    at: Ends,
    (inflow, secrets): (&Inflow, &Inbound),
    transfer: &Transfer,
) -> Outcome {
    loop {
        let read = read_frame(&mut from, 0, &transfer.spare);
        match read.map_err(|error| Failure::broken(at.here, at.peer, &error))? {
            Err(end) => {
                return inflow
                    .with(|r| r.on_end(end))
                    .map_err(|why| corrupt(at, why));
            }
            Ok((frame, mut bytes)) => {
                transfer.traffic().on_came(FRAME_HEAD_BYTES + bytes.len());
                match secrets.open(frame.offset, &mut bytes, transfer) {
                    Err(Over) => return Ok(()),
                    Ok(None) => return Err(corrupt(at, CHANGED)),
                    Ok(Some(())) => {}
                }
                if let Err(Over) = room(inflow, transfer) {
                    return Ok(());
                }
                let put = inflow.with(|r| r.insert(frame.offset, bytes));
                put.map_err(|why| corrupt(at, why))?;
            }
        }
    }
}

/// Receives the frames of a relay's branch, if a sink is at a relay.
pub(super) fn branch(
    at: Ends,
    branch: usize,
    frames: &Frames,
    (inflow, secrets): (&Inflow, &Inbound),
    transfer: &Transfer,
) -> Outcome {
    loop {
        let next = frames.wait(transfer, |fan| match fan.next(branch) {
            Next::Nothing => None,
            other => Some(other),
        });
        match next {
            Err(Over) => return Ok(()),
            Ok(Next::End(end)) => {
                return inflow
                    .with(|r| r.on_end(end))
                    .map_err(|why| corrupt(at, why));
            }
            Ok(Next::Frame(packed)) => {
                if let Err(Over) = room(inflow, transfer) {
                    return Ok(());
                }
                let head = packed.first_chunk::<FRAME_HEAD_BYTES>();
                let frame = head.and_then(|head| wire::relay::Frame::parse(head).ok());
                let Some(frame) = frame else {
                    return Err(corrupt(at, "a frame without a head"));
                };
                transfer.traffic().on_came(packed.len());
                let mut bytes = packed[FRAME_HEAD_BYTES..].to_vec();
                match secrets.open(frame.offset, &mut bytes, transfer) {
                    Err(Over) => return Ok(()),
                    Ok(None) => return Err(corrupt(at, CHANGED)),
                    Ok(Some(())) => {}
                }
                let put = inflow.with(|r| r.insert(frame.offset, bytes));
                put.map_err(|why| corrupt(at, why))?;
            }
            Ok(Next::Nothing) => {}
        }
    }
}

impl Sink<'_> {
    /// Writes what arrives to its target, and informs the source when everything is there.
    pub(super) fn run(
        &self,
        place: Place,
        manner: &Manner,
        mut tell: impl FnMut(Progress<'_>),
    ) -> Result<Done, Failure> {
        let here = self.here;
        let (mut writing, there) = Writing::begin(here, place, manner)?;
        let speech = self.secrets.speech(self.transfer);
        let mut speech = speech.map_err(|Over| self.over())?;
        if there.keys.is_empty() {
            tell(Progress::Anew);
        }
        for keys in there.keys.chunks(KEYS_MAX) {
            self.tell_keys(keys, &mut speech)?;
        }
        self.say(&Message::Have(here, there.have), &mut speech)?;
        let overhead = self.secrets.overhead();
        let mut decoder = Decoder::default();
        let mut written = Written {
            bytes: 0,
            acked: 0,
            acked_at: Instant::now(),
        };
        let (mut content, mut path) = (0, Vec::new());
        let (mut compares, mut at) = (false, 0);
        let mut digest = None;
        // True if the source accepts the list of what would be removed.
        let mut lists = false;
        loop {
            if writing.is_awaited(at) {
                self.tell_keys(&writing.keys(), &mut speech)?;
            }
            // Remaining keys are computed while there is nothing else to do.
            let is_asked = writing.is_asked();
            let next = self.inflow.wait(self.transfer, |r| match r.take() {
                Some(bytes) => Some(Came::Frame(bytes)),
                None if r.is_complete() => Some(Came::End),
                None if is_asked => Some(Came::Nothing),
                None => written.is_due().then_some(Came::Pause),
            });
            let bytes = match next {
                Err(Over) => return Err(self.over()),
                Ok(Came::End) => break,
                Ok(Came::Frame(bytes)) => bytes,
                Ok(Came::Pause) => {
                    self.acknowledge(&mut written, &mut speech, &mut tell)?;
                    continue;
                }
                Ok(Came::Nothing) => {
                    self.tell_keys(&writing.keys(), &mut speech)?;
                    continue;
                }
            };
            let mut input = &bytes[..bytes.len().saturating_sub(overhead)];
            loop {
                let event = decoder.next(&mut input);
                match event.map_err(|why| corrupted(here, why, &mut writing))? {
                    None => break,
                    // It is handled when it is known that nothing follows.
                    Some(Event::End(told)) => digest = Some(told),
                    Some(event) => {
                        let mut begun = None;
                        let mut same = None;
                        match &event {
                            Event::Compare => compares = true,
                            Event::Same(len) => {
                                tell(Progress::From(*len));
                                same = Some(*len);
                                at += len;
                            }
                            Event::Total(total) => {
                                tell(Progress::Total(*total));
                                if self.transfer.has_failed() {
                                    return Err(self.over());
                                }
                            }
                            Event::Speaks(versions) => {
                                lists = self.agree(*versions, &mut speech)? >= GONE_VERSION;
                            }
                            Event::Kept(entry) => tell(Progress::Kept(entry.kind, entry.size)),
                            Event::Entry(entry, behind) => {
                                if *behind > 0 {
                                    tell(Progress::From(*behind));
                                }
                                begun = (entry.kind == EntryKind::File)
                                    .then_some((*behind, entry.size));
                                tell(Progress::Entry(entry.size));
                                if self.transfer.has_failed() {
                                    return Err(self.over());
                                }
                                path.clear();
                                path.extend_from_slice(entry.path);
                            }
                            Event::Content(bytes) => {
                                content += bytes.len() as u64;
                                at += bytes.len() as u64;
                            }
                            Event::Hole(len) => {
                                content += len;
                                at += len;
                            }
                            Event::FileEnd(digest) => tell(Progress::File(&path, *digest)),
                            Event::Spared(path, why) if !why.is_empty() => {
                                tell(Progress::Spared(path, why));
                            }
                            Event::GivenUp => {
                                let why = "it could not be read to its end, or has changed";
                                tell(Progress::Spared(&path, why));
                            }
                            _ => {}
                        }
                        let ends = matches!(event, Event::FileEnd(_) | Event::GivenUp);
                        writing.on_event(&event)?;
                        if !matches!(event, Event::Content(..)) {
                            self.tell_gone((&mut writing, lists), &mut speech, &mut tell)?;
                        }
                        if ends && writing.end_answer() {
                            self.tell_keys(&[], &mut speech)?;
                        }
                        if let Some(len) = same {
                            writing.same(len, &mut |bytes| decoder.same(bytes))?;
                        }
                        if let Some((from, size)) = begun {
                            match writing.content(from)? {
                                Kept::Beginning(content) => decoder.resume(*content),
                                Kept::Whole => decoder.drop_content(),
                            }
                            at = from;
                            if std::mem::take(&mut compares) {
                                writing.compare((from, size));
                            }
                        }
                    }
                }
            }
            written.bytes += bytes.len() as u64;
            self.transfer.spare.put(bytes);
            if written.is_due() {
                self.acknowledge(&mut written, &mut speech, &mut tell)?;
            }
        }
        let Some(digest) = digest.filter(|_| decoder.has_ended()) else {
            let text = "the stream has ended before all was said; run it again";
            return Err(Failure::new(here, FailureKind::Corrupt, text));
        };
        writing.on_event(&Event::End(digest))?;
        self.tell_gone((&mut writing, lists), &mut speech, &mut tell)?;
        let done = Done {
            bytes: content,
            entries: decoder.walk().entries(),
            digest,
        };
        self.say(&Message::Done(here, done), &mut speech)?;
        self.transfer.on_done(here);
        Ok(done)
    }

    fn acknowledge(
        &self,
        written: &mut Written,
        speech: &mut Option<Speech>,
        tell: &mut impl FnMut(Progress<'_>),
    ) -> Outcome {
        (written.acked, written.acked_at) = (written.bytes, Instant::now());
        self.say(&Message::Ack(self.here, written.acked), speech)?;
        tell(Progress::Written(written.acked));
        Ok(())
    }

    /// Answers the source's versions with its own. The highest version that both speak is used.
    fn agree(&self, versions: VersionRange, speech: &mut Option<Speech>) -> Result<u8, Failure> {
        let Some(common) = END_VERSIONS.common(versions) else {
            return Err(ends::no_version(self.here, self.peer, versions));
        };
        // If the data is discarded, there are no keys, and nothing is agreed on.
        if speech.is_some() {
            self.say(&Message::Speaks(self.here, END_VERSIONS), speech)?;
        }
        Ok(common)
    }

    /// Reports what would be removed, here and to a source that accepts the list.
    fn tell_gone(
        &self,
        (writing, lists): (&mut Writing, bool),
        speech: &mut Option<Speech>,
        tell: &mut impl FnMut(Progress<'_>),
    ) -> Outcome {
        for path in writing.gone() {
            tell(Progress::Gone(self.here, &path));
            if lists && speech.is_some() {
                self.say(&Message::Gone(self.here, &path), speech)?;
            }
        }
        Ok(())
    }

    fn tell_keys(&self, keys: &[u64], speech: &mut Option<Speech>) -> Outcome {
        let mut bytes = vec![0; 8 * keys.len()];
        let mut w = Writer::new(&mut bytes);
        let written = keys.iter().try_for_each(|key| w.u64(*key)).is_ok();
        debug_assert!(written, "there is room for all");
        let keys = Keys::parse(&bytes).expect("they are no more than fit");
        self.say(&Message::Kept(self.here, keys), speech)
    }

    fn say(&self, message: &Message<'_>, speech: &mut Option<Speech>) -> Outcome {
        let said = ends::say(message, speech.as_mut(), |message| {
            self.control.send(message)
        });
        said.map_err(|error| Failure::broken(self.here, self.peer, &error))
    }

    /// Returns the failure of another thread.
    fn over(&self) -> Failure {
        let failure = self.transfer.failure();
        failure.unwrap_or_else(|| Failure::new(self.here, FailureKind::Broken, "it has ended"))
    }
}
