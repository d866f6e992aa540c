//! The beginning of a transfer: encodes entries into one stream, cuts the stream into frames, and sends these over
//! whichever connection takes them.
//!
//! ```text
//!   Tree ─▶ Encoder ─▶ frames ≤ Window ─▶ stripes: seal     Have, Ack, Done ◀─ sinks
//! ```

mod checked;
mod compared;

use super::attributes::{self, Names};
use super::awaited::Awaited;
use super::duplex::Duplex;
use super::ends::Sinks;
use super::failure::{Failure, FailureKind};
use super::origin::Progress;
use super::pump::Frames;
use super::stage::Unfit;
use super::transfer::{Over, Shared, Transfer};
use super::tree::{Content, Found, Head, Tree, Walker};
use base::NodeAddr;
use checked::Sent;
use net::beneath::data_from;
use net::file;
use relay::resume::{self, COMPARED_BYTES_MIN, Pieces, There, TooMuch};
use relay::stream::HOLE_BYTES_MAX;
use relay::stream::piece_head;
use relay::{Encoder, Window};
use secure::ends::StreamKey;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::TAG_BYTES;
use wire::relay::entry::EntryKind;
use wire::relay::{
    DIGEST_BYTES, Done, END_VERSIONS, FRAME_BYTES_MAX, FRAME_HEAD_BYTES, Frame, FrameKind, Have,
    Keys, Message, Open, TRANSFER_BYTES, WrappedKeys,
};

/// A piece that would be shorter than this goes into the next frame, because its head would weigh too much.
const PIECE_BYTES_MIN: usize = 1_024;

/// Pieces of long files end at multiples of this. Then both ends hash whole groups of chunks, which takes a fifth less
/// time, and a sink writes whole pages, which takes a quarter less. Choice: a frame has room for one such piece; with
/// three pieces of half the length, both took some hundredths longer.
const ROUND_BYTES: u64 = FRAME_BYTES_MAX as u64 / 2;

/// Size of a frame with the longest such piece.
const ROUND_FRAME_BYTES: usize = FRAME_HEAD_BYTES + 4 + ROUND_BYTES as usize + TAG_BYTES;

/// The sinks' reports.
pub(super) struct Feedback {
    sinks: usize,
    known: Sinks,
    there: There<NodeAddr>,
    pieces: Pieces<NodeAddr>,
    window: Window,
    awaited: Awaited,
    dones: BTreeMap<NodeAddr, Done>,
    /// True if the lists of what sinks would remove are wanted. `gone` holds what was reported since the last call.
    lists_gone: bool,
    gone: Vec<(NodeAddr, Vec<u8>)>,
}

impl Feedback {
    pub(super) fn new(sinks: usize, known: Sinks) -> Feedback {
        Feedback {
            sinks,
            known,
            there: There::new(sinks),
            pieces: Pieces::new(sinks),
            window: Window::new(sinks),
            awaited: Awaited::default(),
            dones: BTreeMap::new(),
            lists_gone: false,
            gone: Vec::new(),
        }
    }

    /// Returns the same feedback, which keeps what sinks would remove until [`Feedback::take_gone`].
    pub(super) fn listing_gone(self) -> Feedback {
        Feedback {
            lists_gone: true,
            ..self
        }
    }

    /// Takes what sinks have reported that they would remove. The caller does this after each message, so that the list
    /// stays short.
    pub(super) fn take_gone(&mut self) -> Vec<(NodeAddr, Vec<u8>)> {
        std::mem::take(&mut self.gone)
    }

    /// Takes a message of a sink.
    pub(super) fn hear(&mut self, message: &Message<'_>) -> Result<(), Unfit> {
        let mut known = std::mem::replace(&mut self.known, Sinks::Nobody);
        let heard = known.hear(message, |message| self.on_message(message));
        self.known = known;
        heard
    }

    fn on_message(&mut self, message: &Message<'_>) -> Result<(), Unfit> {
        match *message {
            Message::Kept(node, keys) => self.on_keys(node, keys)?,
            Message::Have(node, have) => self.on_have(node, have),
            Message::Ack(node, offset) => self.on_ack(node, offset)?,
            Message::Done(node, done) => self.on_done(node, done),
            Message::Gone(node, path) if self.lists_gone => self.gone.push((node, path.to_vec())),
            Message::Speaks(node, versions) if END_VERSIONS.common(versions).is_none() => {
                return Err(Unfit::Version(node, versions));
            }
            _ => {}
        }
        Ok(())
    }

    fn on_have(&mut self, from: NodeAddr, have: Have) {
        self.there.on_have(from, have);
        if self.there.has_told(from) {
            self.awaited.add(from);
        }
    }

    fn on_keys(&mut self, from: NodeAddr, keys: Keys<'_>) -> Result<(), TooMuch> {
        match self.pieces.is_asked() {
            true => self.pieces.on_keys(from, keys.iter()),
            false => self.there.on_keys(from, keys.iter()),
        }
    }

    fn on_ack(&mut self, from: NodeAddr, offset: u64) -> Result<(), relay::window::BadAck> {
        self.window.on_ack(from, offset)?;
        self.awaited.on_ack(Instant::now(), from, offset);
        Ok(())
    }

    fn on_done(&mut self, from: NodeAddr, done: Done) {
        self.dones.insert(from, done);
        self.awaited.on_done(from);
    }

    /// Returns how many bytes all sinks have written.
    pub(super) fn acked(&self) -> u64 {
        self.window.acked()
    }

    /// Returns the sink for which the others wait, and for how long they have waited.
    pub(super) fn awaited(&self) -> Option<(NodeAddr, Duration)> {
        self.awaited.get(Instant::now())
    }
}

/// A source.
pub(super) struct Source<'a> {
    pub(super) here: NodeAddr,
    pub(super) feedback: &'a Shared<Feedback>,
    pub(super) frames: &'a Frames,
    pub(super) transfer: &'a Transfer,
    pub(super) manner: Reading,
    pub(super) key: Option<&'a StreamKey>,
    /// The control connections towards the sinks, for that key, encrypted for each of them.
    pub(super) controls: &'a [Arc<Duplex>],
}

/// How a source reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// The transfer's name.
    pub(super) transfer: [u8; TRANSFER_BYTES],
    /// If something cannot be read, only this is left out.
    pub(super) spare: bool,
    /// No content is sent: the source only reports what it would send.
    pub(super) dry: bool,
    /// Owners and extended attributes are sent.
    pub(super) attributes: bool,
    /// A sink has a file if it has its content, regardless of the time.
    pub(super) checksum: bool,
}

impl Reading {
    /// Returns what `open` requests.
    pub(super) fn of(open: &Open<'_>) -> Reading {
        Reading {
            transfer: open.transfer,
            spare: open.spare,
            dry: open.dry,
            attributes: open.attributes,
            checksum: open.checksum,
        }
    }
}

/// Why the source stops.
enum Stop {
    Over,
    Failed(Failure),
}

impl From<Over> for Stop {
    fn from(_: Over) -> Stop {
        Stop::Over
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

/// The function that receives the progress.
type Tell<'a> = &'a mut dyn FnMut(Progress<'_>);

/// Why a file's content ends early.
enum Unread {
    Over,
    Changed,
    Io(io::Error),
}

impl From<Over> for Unread {
    fn from(_: Over) -> Unread {
        Unread::Over
    }
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Unread {
        Unread::Io(error)
    }
}

impl Source<'_> {
    /// Sends everything, and waits until every sink has it.
    pub(super) fn run(
        &self,
        tree: &mut Tree,
        mut tell: impl FnMut(Progress<'_>),
    ) -> Result<Done, Failure> {
        self.send(tree, &mut tell).map_err(|stop| match stop {
            Stop::Failed(failure) => failure,
            Stop::Over => {
                let failure = self.transfer.failure();
                failure
                    .unwrap_or_else(|| Failure::new(self.here, FailureKind::Broken, "it has ended"))
            }
        })
    }

    fn send(&self, tree: &mut Tree, tell: Tell<'_>) -> Result<Done, Stop> {
        // Meanwhile the sinks check what they have.
        let total = tree.total(|| self.transfer.has_failed());
        let mut shared = self.feedback.wait(self.transfer, |f| f.there.take())?;
        self.tell_key()?;
        if !tree.can_rewind() {
            shared = resume::Shared::default();
        }
        if shared.keys.is_empty() {
            tell(Progress::Anew);
        }
        let mut out = Out {
            source: self,
            buffer: Vec::with_capacity(ROUND_FRAME_BYTES),
            offset: 0,
        };
        out.begin();
        let mut encoder = Encoder::begin(&mut out.buffer);
        encoder.speaks(END_VERSIONS, &mut out.buffer);
        if let Some(total) = total {
            tell(Progress::Total(total));
            if self.transfer.has_failed() {
                return Err(Stop::Over);
            }
            encoder.total(total, &mut out.buffer);
            // It is sent separately: a sink without room for it then gets nothing else.
            out.flush()?;
        }
        let mut walker = tree.walk();
        let mut names = Names::default();
        let mut sent = Sent::default();
        while let Some(found) = walker.next().map_err(|at| self.unread(at))? {
            match found {
                Found::Spared(path, why) => self.spare(&path, &why, &mut encoder, &mut out, tell),
                Found::Entry(head) => {
                    let from = (&mut walker, (&shared, &mut sent), &mut names);
                    self.entry(from, &head, &mut encoder, &mut out, tell)?;
                }
            }
            out.flush_if_full()?;
        }
        let digest = encoder.end(&mut out.buffer);
        out.flush()?;
        let total = out.offset;
        let ended = self.frames.with(|fan| fan.on_end(total));
        ended.map_err(|why| Failure::new(self.here, FailureKind::Corrupt, why))?;
        self.wait_for_sinks(digest, tell)
    }

    /// Sends the stream's key. All sinks have reported what they have, so the keys of all of them are known.
    fn tell_key(&self) -> Result<(), Failure> {
        let Some(key) = self.key else { return Ok(()) };
        let wrapped = self.feedback.with(|f| f.known.wrap(key));
        let unfit = |why| Failure::new(self.here, FailureKind::Unusable, why);
        let keys = WrappedKeys::parse(&wrapped).map_err(unfit)?;
        for control in self.controls {
            let sent = control.send(&Message::Wrapped(keys));
            sent.map_err(|error| Failure::broken(self.here, self.here, &error))?;
        }
        Ok(())
    }

    /// Sends one entry, with its content from the first byte that one of the sinks lacks.
    fn entry(
        &self,
        (walker, (shared, sent), names): (
            &mut Walker<'_>,
            (&resume::Shared, &mut Sent),
            &mut Names,
        ),
        head: &Head,
        encoder: &mut Encoder,
        out: &mut Out<'_>,
        tell: Tell<'_>,
    ) -> Result<(), Stop> {
        let entry = head.entry();
        let key = resume::key(&self.manner.transfer, &entry);
        let bad = |why| Failure::new(self.here, FailureKind::File, why);
        let is_there = self.is_there(walker, (shared, sent), head);
        if head.has_names && !is_there {
            sent.insert(head.path.clone());
        }
        if is_there || (self.manner.dry && head.kind != EntryKind::Directory) {
            if !self.attributes((walker, names), head, encoder, out, tell)? {
                return Ok(());
            }
            match is_there {
                true => tell(Progress::Kept(head.kind, head.size)),
                false => tell(Progress::Would(&head.path, head.size)),
            }
            return Ok(encoder.kept(&entry, &mut out.buffer).map_err(bad)?);
        }
        let mut content = None;
        let mut behind = 0;
        if head.kind == EntryKind::File {
            content = match walker.content() {
                Ok(Some(content)) => Some(content),
                Ok(None) => return Err(self.changed(&named(head).to_string_lossy()).into()),
                Err(error) if self.manner.spare => {
                    walker.forget(&head.path);
                    self.spare(&head.path, &error.to_string(), encoder, out, tell);
                    return Ok(());
                }
                Err(error) => return Err(self.unread((named(head), error)).into()),
            };
        }
        if !self.attributes((walker, names), head, encoder, out, tell)? {
            return Ok(());
        }
        let begun = content.as_ref();
        let begun = begun.and_then(|content| proven(content, shared.begun(key)));
        if let Some((bytes, hasher)) = begun {
            behind = bytes;
            encoder.from(behind, hasher, &mut out.buffer);
            tell(Progress::From(behind));
        }
        let compares = head.size.saturating_sub(behind) >= COMPARED_BYTES_MIN
            && matches!(content, Some(Content::File(_)))
            && shared
                .keys
                .contains(&resume::path_key(&self.manner.transfer, &head.path));
        if compares {
            self.feedback
                .wait(self.transfer, |f| f.pieces.ask().then_some(()))?;
            encoder.compare(&mut out.buffer);
        }
        encoder.entry(&entry, &mut out.buffer).map_err(bad)?;
        tell(Progress::Entry(head.size));
        if self.transfer.has_failed() {
            return Err(Stop::Over);
        }
        let Some(content) = content else {
            return Ok(());
        };
        if compares {
            // The sinks read their files meanwhile.
            out.flush()?;
        }
        match self.content(content, (head, behind, compares), (encoder, out), tell)? {
            Ok(()) => {
                let digest = encoder.file_end(&mut out.buffer);
                tell(Progress::File(&head.path, digest));
            }
            Err(why) if self.manner.spare => {
                encoder.give_up(&mut out.buffer);
                walker.forget(&head.path);
                tell(Progress::Spared(&head.path, &why.text));
            }
            Err(why) => return Err(why.into()),
        }
        Ok(())
    }

    /// Sends the attributes of an entry, if that is requested. Returns false if they cannot be read and the entry is
    /// left out.
    fn attributes(
        &self,
        (walker, names): (&mut Walker<'_>, &mut Names),
        head: &Head,
        encoder: &mut Encoder,
        out: &mut Out<'_>,
        tell: Tell<'_>,
    ) -> Result<bool, Stop> {
        let Some(seat) = walker.seat().filter(|_| self.manner.attributes) else {
            return Ok(true);
        };
        match attributes::tell(seat, names, encoder, &mut out.buffer) {
            Ok(()) => Ok(true),
            Err(error) if self.manner.spare && head.kind != EntryKind::Directory => {
                walker.forget(&head.path);
                self.spare(&head.path, &error.to_string(), encoder, out, tell);
                Ok(false)
            }
            Err(error) => Err(self.unread((named(head), error)).into()),
        }
    }

    fn spare(
        &self,
        path: &[u8],
        why: &str,
        encoder: &mut Encoder,
        out: &mut Out<'_>,
        tell: Tell<'_>,
    ) {
        if !why.is_empty() {
            tell(Progress::Spared(path, why));
        }
        encoder.spared(path, why, &mut out.buffer);
    }

    /// Waits for the sinks. Each sink that is complete is reported at once, because the fate of the others does not
    /// change that.
    fn wait_for_sinks(&self, digest: [u8; DIGEST_BYTES], tell: Tell<'_>) -> Result<Done, Stop> {
        let mut told = BTreeSet::new();
        loop {
            let (sinks, next) = self.feedback.wait(self.transfer, |f| {
                let next = f.dones.iter().find(|(node, _)| !told.contains(*node));
                let next = next.map(|(node, done)| (*node, *done));
                (next.is_some() || told.len() >= f.sinks).then_some((f.sinks, next))
            })?;
            let Some((node, done)) = next else {
                let text = "there is no sink";
                return Err(Failure::new(self.here, FailureKind::Unusable, text).into());
            };
            if done.digest != digest {
                let text = "what it has is not what was sent: the digests differ";
                return Err(Failure::new(node, FailureKind::Corrupt, text).into());
            }
            told.insert(node);
            tell(Progress::Done(node, done));
            if told.len() == sinks {
                return Ok(done);
            }
        }
    }

    /// Sends the content of a file from a byte on. Returns what is wrong with the file, if anything.
    fn content(
        &self,
        content: Content,
        (head, behind, compares): (&Head, u64, bool),
        (encoder, out): (&mut Encoder, &mut Out<'_>),
        tell: Tell<'_>,
    ) -> Result<Result<(), Failure>, Stop> {
        let sent = match content {
            Content::Stream(mut stream) => {
                // A reader at the other end gets what is there without delay.
                out.flush()?;
                loop {
                    let read = |most, into: &mut Vec<u8>| read_some(&mut stream, most, into);
                    match self.piece(read, encoder, out) {
                        Ok(0) => break Ok(()),
                        Ok(_) => out.flush()?,
                        Err(why) => break Err(why),
                    }
                }
            }
            Content::File(mut file) => {
                let out = (encoder, out);
                self.file(&mut file, head, (behind, compares), out, tell)
            }
        };
        match sent {
            Ok(()) => Ok(Ok(())),
            Err(Unread::Over) => Err(Stop::Over),
            Err(Unread::Changed) => Ok(Err(self.changed(&named(head).to_string_lossy()))),
            Err(Unread::Io(error)) => Ok(Err(self.unread((named(head), error)))),
        }
    }

    fn file(
        &self,
        file: &mut File,
        head: &Head,
        (behind, compares): (u64, bool),
        (encoder, out): (&mut Encoder, &mut Out<'_>),
        tell: Tell<'_>,
    ) -> Result<(), Unread> {
        match compares {
            true => self.differences(file, head, behind, (encoder, out), tell)?,
            false => self.stretch(file, head, (behind, head.size), (encoder, out))?,
        }
        let now = file.metadata()?;
        let entry = head.entry();
        let then = (head.size, entry.mtime_s, i64::from(entry.mtime_ns));
        match then == (now.len(), now.mtime(), now.mtime_nsec()) {
            true => Ok(()),
            false => Err(Unread::Changed),
        }
    }

    /// Sends the content of a file from one byte to another.
    fn stretch(
        &self,
        file: &mut File,
        head: &Head,
        (mut at, until): (u64, u64),
        (encoder, out): (&mut Encoder, &mut Out<'_>),
    ) -> Result<(), Unread> {
        while at < until {
            let (begin, end) = match head.is_sparse {
                true => data_from(&*file, at)?.unwrap_or((until, until)),
                false => (at, until),
            };
            while at < begin.min(until) {
                let hole = (begin.min(until) - at).min(HOLE_BYTES_MAX);
                encoder.hole(hole, &mut out.buffer);
                out.flush_if_full()?;
                at += hole;
            }
            file.seek(SeekFrom::Start(at))?;
            while at < end.min(until) {
                let wanted = out.round(at, end.min(until) - at)?;
                let read =
                    |most: u64, into: &mut Vec<u8>| file::append(&*file, most.min(wanted), into);
                match self.piece(read, encoder, out)? {
                    0 => return Err(Unread::Changed),
                    len => at += len as u64,
                }
            }
        }
        Ok(())
    }

    /// Reads a piece into the present frame; `read` reads at most this many bytes. Returns 0 at the end.
    fn piece(
        &self,
        read: impl FnOnce(u64, &mut Vec<u8>) -> io::Result<usize>,
        encoder: &mut Encoder,
        out: &mut Out<'_>,
    ) -> Result<usize, Unread> {
        if out.room() < PIECE_BYTES_MIN {
            out.flush()?;
        }
        let room = (out.room() - 4) as u64;
        let len = put_piece(&mut out.buffer, |into| read(room, into))?;
        encoder.content(&out.buffer[out.buffer.len() - len..]);
        Ok(len)
    }

    fn unread(&self, (path, error): (PathBuf, io::Error)) -> Failure {
        Failure::file(self.here, format_args!("`{}`", path.display()), &error)
    }

    fn changed(&self, what: &str) -> Failure {
        let text = format!("`{what}` has changed while it was copied: run the same command again");
        Failure::new(self.here, FailureKind::File, text)
    }
}

/// Returns the length of the next piece of a file with `left` bytes from position `at`, if there is `room` for it with
/// its head: all of them, or up to a round position; 0 if there is too little room.
fn round(at: u64, left: u64, room: usize) -> u64 {
    let room = room.saturating_sub(piece_head(0).len()) as u64;
    match left <= room {
        true => left,
        false => ((at + room) / ROUND_BYTES * ROUND_BYTES).saturating_sub(at),
    }
}

/// Appends the head of a piece, and the bytes that are read. At the end, or if nothing can be read, nothing is
/// appended: what follows in the stream says so.
fn put_piece(
    buffer: &mut Vec<u8>,
    read: impl FnOnce(&mut Vec<u8>) -> io::Result<usize>,
) -> io::Result<usize> {
    let start = buffer.len() + 4;
    buffer.resize(start, 0);
    let read = read(buffer);
    match read {
        Ok(len) if len > 0 => buffer[start - 4..start].copy_from_slice(&piece_head(len as u32)),
        _ => buffer.truncate(start - 4),
    }
    read
}

/// Reads once, at most `most` bytes, and appends them.
fn read_some(from: &mut impl Read, most: u64, into: &mut Vec<u8>) -> io::Result<usize> {
    let start = into.len();
    into.resize(start + most as usize, 0);
    loop {
        match from.read(&mut into[start..]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => {
                into.truncate(start + result.as_ref().map_or(0, |len| *len));
                return result;
            }
        }
    }
}

/// Returns the shortest of these beginnings of a file, with its hasher, if the file begins with each of them.
fn proven(content: &Content, begun: &[Have]) -> Option<(u64, blake3::Hasher)> {
    let Content::File(file) = content else {
        return None;
    };
    let (mut at, mut hasher, mut shortest) = (0, blake3::Hasher::new(), None);
    for have in begun {
        let read = super::place::hash(file, have.partial - at, &mut hasher).ok()?;
        at += read;
        if at < have.partial || hasher.finalize() != have.partial_digest {
            return None;
        }
        shortest.get_or_insert_with(|| (at, hasher.clone()));
    }
    shortest
}

fn named(head: &Head) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    match head.path.is_empty() {
        true => PathBuf::from("the file"),
        false => PathBuf::from(std::ffi::OsStr::from_bytes(&head.path)),
    }
}

/// Frames that are being sent.
struct Out<'a> {
    source: &'a Source<'a>,
    /// Room for a head, followed by the bytes to be sent.
    buffer: Vec<u8>,
    offset: u64,
}

impl Out<'_> {
    fn begin(&mut self) {
        self.buffer.clear();
        self.buffer.resize(FRAME_HEAD_BYTES, 0);
    }

    fn room(&self) -> usize {
        self.frame_end().saturating_sub(self.buffer.len())
    }

    /// Returns where a frame ends in the buffer at the latest, because the tag follows.
    fn frame_end(&self) -> usize {
        FRAME_HEAD_BYTES + FRAME_BYTES_MAX - self.overhead()
    }

    fn overhead(&self) -> usize {
        self.source.key.map_or(0, |_| TAG_BYTES)
    }

    /// Returns how many of the `left` bytes from this position of a file go into the next piece. If the present frame
    /// has no room for them, it is sent.
    fn round(&mut self, at: u64, left: u64) -> Result<u64, Over> {
        match round(at, left, self.room()) {
            0 => {
                self.flush()?;
                Ok(round(at, left, self.room()))
            }
            wanted => Ok(wanted),
        }
    }

    /// Sends the frame once it is full. Heads may have made it too long.
    fn flush_if_full(&mut self) -> Result<(), Over> {
        match self.room() {
            0 => self.flush(),
            _ => Ok(()),
        }
    }

    /// Sends what there is, when window and queue have room.
    fn flush(&mut self) -> Result<(), Over> {
        let fresh = self.source.transfer.spare.take_empty(ROUND_FRAME_BYTES);
        let mut full = std::mem::replace(&mut self.buffer, fresh);
        self.begin();
        while full.len() > FRAME_HEAD_BYTES {
            let end = full.len().min(self.frame_end());
            // A head at the end of a frame may have made it longer than a frame may be.
            let beyond = full.split_off(end);
            full.resize(end + self.overhead(), 0);
            self.push(full)?;
            full = [&[0; FRAME_HEAD_BYTES][..], &beyond].concat();
        }
        Ok(())
    }

    fn push(&mut self, mut packed: Vec<u8>) -> Result<(), Over> {
        let len = packed.len() - FRAME_HEAD_BYTES;
        let frame = Frame {
            kind: FrameKind::Data,
            len: len as u32,
            offset: self.offset,
        };
        packed[..FRAME_HEAD_BYTES].copy_from_slice(&frame.to_bytes());
        let source = self.source;
        if packed.len() < FRAME_BYTES_MAX / 2 {
            // Waiting frames are counted by their length.
            let short = packed.as_slice().into();
            source
                .transfer
                .spare
                .put(std::mem::replace(&mut packed, short));
        }
        let packed = Arc::new(packed);
        source.feedback.wait(source.transfer, |f| {
            f.awaited.hold(Instant::now());
            let fits = f.window.room() >= len as u64;
            fits.then(|| f.window.on_sent(len as u64))
        })?;
        source.frames.wait(source.transfer, |fan| {
            fan.has_room(len).then(|| fan.push(len, &packed))
        })?;
        source.feedback.with(|f| f.awaited.let_go());
        self.offset += len as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_long_files_end_at_round_places() {
        let whole = FRAME_BYTES_MAX - TAG_BYTES;
        let (behind, size) = (1_000, 1_000_000);
        let (mut at, mut ends) = (behind, Vec::new());
        while at < size {
            let piece = round(at, size - at, whole);
            assert!(piece > 0 && piece as usize + 4 <= whole);
            at += piece;
            ends.push(at);
        }
        assert_eq!(ends.pop(), Some(size));
        assert_eq!(ends[0], 2 * ROUND_BYTES, "as far as there is room");
        for pair in ends.windows(2) {
            assert_eq!(pair[1], pair[0] + ROUND_BYTES);
        }
        // A short piece goes into the rest of a frame. If it does not fit, it goes into the next one.
        assert_eq!(round(0, 100, 104), 100);
        assert_eq!(round(0, 100, 103), 0);
        assert_eq!(round(ROUND_BYTES - 50, 100, 103), 50);
        assert_eq!(round(0, 100, 0), 0);
    }

    #[test]
    fn of_a_piece_that_cannot_be_read_nothing_is_left() {
        let mut buffer = b"before".to_vec();
        let failed = put_piece(&mut buffer, |into| {
            into.extend_from_slice(b"some");
            Err(ErrorKind::Other.into())
        });
        assert!(failed.is_err());
        assert_eq!(buffer, b"before");
        assert_eq!(put_piece(&mut buffer, |_| Ok(0)).unwrap(), 0);
        assert_eq!(buffer, b"before");
        let whole = put_piece(&mut buffer, |into| {
            into.extend_from_slice(b"some");
            Ok(4)
        });
        assert_eq!(whole.unwrap(), 4);
        assert_eq!(buffer, [&b"before"[..], &piece_head(4), b"some"].concat());
    }
}
