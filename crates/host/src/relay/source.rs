//! The beginning of a transfer: entries into one stream, the stream into frames, and these over
//! whichever connection takes them.
//!
//! ```text
//!   Tree ─▶ Encoder ─▶ frames ≤ Window ─▶ stripes           Have, Ack, Done ◀─ sinks
//! ```

use super::failure::{Failure, FailureKind};
use super::pump::Frames;
use super::transfer::{Over, Shared, Transfer};
use super::tree::{Content, Head, Located, Tree, Walker};
use base::NodeAddr;
use relay::stream::piece_head;
use relay::{Encoder, Walk, Window, resume};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use wire::relay::entry::EntryKind;
use wire::relay::{DIGEST_BYTES, Done, FRAME_BYTES_MAX, FRAME_HEAD_BYTES, Frame, FrameKind, Have};

/// A piece shorter than this goes into the next frame: what stands before it would weigh more.
const PIECE_BYTES_MIN: usize = 1_024;

/// What the sinks have said.
pub(super) struct Feedback {
    sinks: usize,
    haves: BTreeMap<NodeAddr, Have>,
    window: Window,
    dones: BTreeMap<NodeAddr, Done>,
}

impl Feedback {
    pub(super) fn new(sinks: usize) -> Feedback {
        Feedback {
            sinks,
            haves: BTreeMap::new(),
            window: Window::new(sinks),
            dones: BTreeMap::new(),
        }
    }

    pub(super) fn on_have(&mut self, from: NodeAddr, have: Have) {
        if self.haves.len() < self.sinks {
            self.haves.entry(from).or_insert(have);
        }
    }

    pub(super) fn on_ack(
        &mut self,
        from: NodeAddr,
        offset: u64,
    ) -> Result<(), relay::window::BadAck> {
        self.window.on_ack(from, offset)
    }

    pub(super) fn on_done(&mut self, from: NodeAddr, done: Done) {
        self.dones.insert(from, done);
    }

    /// What all sinks have written.
    pub(super) fn acked(&self) -> u64 {
        self.window.acked()
    }
}

/// A source.
pub(super) struct Source<'a> {
    pub(super) here: NodeAddr,
    pub(super) feedback: &'a Shared<Feedback>,
    pub(super) frames: &'a Frames,
    pub(super) transfer: &'a Transfer,
}

/// What a source tells besides.
pub(super) enum Told {
    /// The stream begins behind so many entries, and so many bytes of the next.
    Begins(u64, u64),
    /// An entry, of so many bytes if it is a file.
    Entry(u64),
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

impl Source<'_> {
    /// Sends all, and waits until every sink has it.
    pub(super) fn run(&self, tree: &mut Tree, tell: impl FnMut(Told)) -> Result<Done, Failure> {
        self.send(tree, tell).map_err(|stop| match stop {
            Stop::Failed(failure) => failure,
            Stop::Over => {
                let failure = self.transfer.failure();
                failure
                    .unwrap_or_else(|| Failure::new(self.here, FailureKind::Broken, "it has ended"))
            }
        })
    }

    fn send(&self, tree: &mut Tree, mut tell: impl FnMut(Told)) -> Result<Done, Stop> {
        let haves: Vec<Have> = self.feedback.wait(self.transfer, |f| {
            (f.haves.len() == f.sinks).then(|| f.haves.values().copied().collect())
        })?;
        let mut positions = Vec::new();
        for have in &haves {
            positions.push(match tree.can_rewind() {
                true => position(tree, have).map_err(|at| self.unread(at))?,
                false => (0, 0),
            });
        }
        let (skip, partial) = resume::begin(positions);
        tell(Told::Begins(skip, partial));
        let mut walker = tree.walk();
        let mut walk = Walk::default();
        for _ in 0..skip {
            let head = walker.next().map_err(|at| self.unread(at))?;
            let entered = head.map(|head| walk.enter(&head.entry()));
            if !matches!(entered, Some(Ok(()))) {
                return Err(self.changed("it").into());
            }
        }
        let mut out = Out {
            source: self,
            buffer: Vec::with_capacity(FRAME_HEAD_BYTES + FRAME_BYTES_MAX),
            offset: 0,
        };
        out.begin();
        let mut encoder = Encoder::begin(walk, partial, blake3::Hasher::new(), &mut out.buffer);
        let mut behind = partial;
        while let Some(head) = walker.next().map_err(|at| self.unread(at))? {
            tell(Told::Entry(head.size));
            let written = encoder.entry(&head.entry(), &mut out.buffer);
            written.map_err(|why| Failure::new(self.here, FailureKind::File, why))?;
            out.flush_if_full()?;
            if head.kind == EntryKind::File {
                self.content(&mut walker, &head, behind, &mut encoder, &mut out)?;
            }
            behind = 0;
        }
        let digest = encoder.end(&mut out.buffer);
        out.flush()?;
        let total = out.offset;
        let ended = self.frames.with(|fan| fan.on_end(total));
        ended.map_err(|why| Failure::new(self.here, FailureKind::Corrupt, why))?;
        self.wait_for_sinks(digest)
    }

    fn wait_for_sinks(&self, digest: [u8; DIGEST_BYTES]) -> Result<Done, Stop> {
        let dones: Vec<(NodeAddr, Done)> = self.feedback.wait(self.transfer, |f| {
            (f.dones.len() == f.sinks).then(|| f.dones.iter().map(|(n, d)| (*n, *d)).collect())
        })?;
        for (node, done) in &dones {
            if done.digest != digest {
                let text = "what it has is not what was sent: the digests differ";
                return Err(Failure::new(*node, FailureKind::Corrupt, text).into());
            }
        }
        let first = dones.first().map(|(_, done)| *done);
        first.ok_or_else(|| {
            Failure::new(self.here, FailureKind::Unusable, "there is no sink").into()
        })
    }

    /// The content of a file, from some byte on.
    fn content(
        &self,
        walker: &mut Walker<'_>,
        head: &Head,
        behind: u64,
        encoder: &mut Encoder,
        out: &mut Out<'_>,
    ) -> Result<(), Stop> {
        let at = |error| self.unread((named(head), error));
        match walker.content() {
            None => return Err(self.changed(&named(head).to_string_lossy()).into()),
            Some(Content::Stream(mut stream)) => {
                // Whoever waits at the other end gets what is there.
                out.flush()?;
                while self
                    .piece(&mut stream, (u64::MAX, false), encoder, out)
                    .map_err(at)??
                    > 0
                {
                    out.flush()?;
                }
            }
            Some(Content::File(mut file)) => {
                if behind > 0 {
                    skip_over(&mut file, behind, encoder).map_err(at)?;
                }
                let mut read = behind;
                while read <= head.size {
                    // One more than it had: then it has grown.
                    let most = head.size - read + 1;
                    match self
                        .piece(&mut file, (most, true), encoder, out)
                        .map_err(at)??
                    {
                        0 => break,
                        len => read += len as u64,
                    }
                }
                let now = file.metadata().map_err(at)?;
                let entry = head.entry();
                let then = (head.size, entry.mtime_s, i64::from(entry.mtime_ns));
                if read != head.size || then != (now.len(), now.mtime(), now.mtime_nsec()) {
                    return Err(self.changed(&named(head).to_string_lossy()).into());
                }
            }
        }
        encoder.file_end(&mut out.buffer);
        out.flush_if_full()?;
        Ok(())
    }

    /// Reads a piece, at most `most` bytes, into the frame that is being filled; 0 at the end.
    fn piece(
        &self,
        from: &mut impl Read,
        (most, is_file): (u64, bool),
        encoder: &mut Encoder,
        out: &mut Out<'_>,
    ) -> io::Result<Result<usize, Over>> {
        if out.room() < PIECE_BYTES_MIN
            && let Err(Over) = out.flush()
        {
            return Ok(Err(Over));
        }
        let start = out.buffer.len() + 4;
        let room = (out.room() - 4) as u64;
        out.buffer.resize(start, 0);
        // A file fills it, without its being cleared first. A stream gives what there is.
        let len = match is_file {
            true => from
                .by_ref()
                .take(most.min(room))
                .read_to_end(&mut out.buffer)?,
            false => read_some(from, most.min(room), &mut out.buffer)?,
        };
        match len {
            0 => out.buffer.truncate(start - 4),
            len => {
                out.buffer[start - 4..start].copy_from_slice(&piece_head(len as u32));
                encoder.content(&out.buffer[start..]);
            }
        }
        Ok(Ok(len))
    }

    fn unread(&self, (path, error): (PathBuf, io::Error)) -> Failure {
        Failure::file(self.here, format_args!("`{}`", path.display()), &error)
    }

    fn changed(&self, what: &str) -> Failure {
        let text = format!("`{what}` has changed while it was copied: run the same command again");
        Failure::new(self.here, FailureKind::File, text)
    }
}

/// One read, of at most `most` bytes, behind what is there.
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

fn named(head: &Head) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    match head.path.is_empty() {
        true => PathBuf::from("the file"),
        false => PathBuf::from(std::ffi::OsStr::from_bytes(&head.path)),
    }
}

/// Frames on their way out.
struct Out<'a> {
    source: &'a Source<'a>,
    /// Room for a head, then what is to be sent.
    buffer: Vec<u8>,
    offset: u64,
}

impl Out<'_> {
    fn begin(&mut self) {
        self.buffer.clear();
        self.buffer.resize(FRAME_HEAD_BYTES, 0);
    }

    fn room(&self) -> usize {
        (FRAME_HEAD_BYTES + FRAME_BYTES_MAX).saturating_sub(self.buffer.len())
    }

    /// Sends once a frame is full. Heads may have gone beyond it.
    fn flush_if_full(&mut self) -> Result<(), Over> {
        match self.room() {
            0 => self.flush(),
            _ => Ok(()),
        }
    }

    /// Sends what there is, when window and queue have room.
    fn flush(&mut self) -> Result<(), Over> {
        let fresh = self.source.transfer.spare.take(0);
        let mut full = std::mem::replace(&mut self.buffer, fresh);
        self.begin();
        while full.len() > FRAME_HEAD_BYTES {
            let end = full.len().min(FRAME_HEAD_BYTES + FRAME_BYTES_MAX);
            // A head at the end of a frame may have made it longer than a frame is.
            let beyond = full.split_off(end);
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
            // What is held is counted by its length.
            let short = packed.as_slice().into();
            source
                .transfer
                .spare
                .put(std::mem::replace(&mut packed, short));
        }
        let packed = Arc::new(packed);
        source.feedback.wait(source.transfer, |f| {
            let fits = f.window.room() >= len as u64;
            fits.then(|| f.window.on_sent(len as u64))
        })?;
        source.frames.wait(source.transfer, |fan| {
            fan.has_room(len).then(|| fan.push(len, &packed))
        })?;
        self.offset += len as u64;
        Ok(())
    }
}

/// How much of what a sink has is what is here.
fn position(tree: &mut Tree, have: &Have) -> Located<(u64, u64)> {
    if (have.entries, have.partial) == (0, 0) {
        return Ok((0, 0));
    }
    let mut walker = tree.walk();
    let mut walk = Walk::default();
    for _ in 0..have.entries {
        let Some(head) = walker.next()? else {
            return Ok((0, 0));
        };
        if walk.enter(&head.entry()).is_err() {
            return Ok((0, 0));
        }
    }
    if have.partial == 0 {
        let same = resume::entries_match(have, &walk, None);
        return Ok(if same { (have.entries, 0) } else { (0, 0) });
    }
    let Some(head) = walker.next()? else {
        return Ok((0, 0));
    };
    let mut with_next = walk.clone();
    let entered = with_next.enter(&head.entry()).is_ok();
    if !entered || !resume::entries_match(have, &walk, Some(&with_next)) {
        return Ok((0, 0));
    }
    let Some(Content::File(file)) = walker.content() else {
        return Ok((0, 0));
    };
    let mut content = blake3::Hasher::new();
    let hashed = super::place::hash(&file, have.partial, &mut content);
    let hashed = hashed.map_err(|error| (named(&head), error))?;
    match hashed == have.partial && content.finalize() == have.partial_digest {
        true => Ok((have.entries, have.partial)),
        false => Ok((have.entries, 0)),
    }
}

/// Hashes the content that the sinks have.
fn skip_over(file: &mut File, behind: u64, encoder: &mut Encoder) -> io::Result<()> {
    let mut buffer = vec![0; FRAME_BYTES_MAX];
    let mut left = behind;
    while left > 0 {
        let wanted = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        match file.read(&mut buffer[..wanted])? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            len => {
                encoder.content(&buffer[..len]);
                left -= len as u64;
            }
        }
    }
    file.seek(SeekFrom::Start(behind)).map(drop)
}
