//! Handles a file for which the sinks have another one under its path: sends what differs, and for the rest only that
//! it is the same.
//!
//! ```text
//!   keys of their pieces ─▶ the same?  Same(so many bytes, at most 64 MiB)  |  the piece
//! ```
//! The sinks read their files while this end reads its own: keys are used as they arrive.

use super::{Out, Source, Tell, Unread};
use crate::relay::origin::Progress;
use crate::relay::tree::Head;
use net::beneath::data_from;
use relay::Encoder;
use relay::resume::{self, PIECE_BYTES};
use relay::stream::SAME_BYTES_MAX;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use wire::relay::TRANSFER_BYTES;

impl Source<'_> {
    /// Sends those parts of a file, from a byte on, that the sinks do not have in the file that they compare.
    pub(super) fn differences(
        &self,
        file: &mut File,
        head: &Head,
        behind: u64,
        (encoder, out): (&mut Encoder, &mut Out<'_>),
        tell: Tell<'_>,
    ) -> Result<(), Unread> {
        let mut at = behind;
        let mut same = 0;
        let mut look = Look {
            transfer: &self.manner.transfer,
            is_sparse: head.is_sparse,
            buffer: Vec::new(),
            zeros: None,
        };
        // Earlier pieces are not needed.
        for _ in 0..behind.div_ceil(PIECE_BYTES) {
            self.feedback
                .wait(self.transfer, |f| f.pieces.take_next())?;
        }
        while at < head.size {
            let end = head.size.min((at / PIECE_BYTES + 1) * PIECE_BYTES);
            look.buffer.clear();
            let is_same = at.is_multiple_of(PIECE_BYTES)
                && match self
                    .feedback
                    .wait(self.transfer, |f| f.pieces.take_next())?
                {
                    Some(theirs) => look.is_same(file, (at, end), theirs, encoder)?,
                    None => false,
                };
            if is_same {
                same += end - at;
                tell(Progress::From(end - at));
            }
            if same > 0 && (!is_same || end == head.size || same + PIECE_BYTES > SAME_BYTES_MAX) {
                encoder.same(std::mem::take(&mut same), &mut out.buffer);
                // It is sent separately: a frame has room for more of them than a sink should read without an
                // acknowledgement.
                out.flush()?;
            }
            if !is_same {
                match look.has(end - at) {
                    Some(piece) => self.read_piece(piece, (encoder, out))?,
                    None => self.stretch(file, head, (at, end), (encoder, out))?,
                }
            }
            at = end;
        }
        Ok(())
    }

    /// Sends a piece that was read for its key.
    fn read_piece(
        &self,
        mut piece: &[u8],
        (encoder, out): (&mut Encoder, &mut Out<'_>),
    ) -> Result<(), Unread> {
        while !piece.is_empty() {
            let take = |room: u64, into: &mut Vec<u8>| {
                let room = usize::try_from(room).unwrap_or(usize::MAX);
                let (now, later) = piece.split_at(piece.len().min(room));
                into.extend_from_slice(now);
                piece = later;
                Ok(now.len())
            };
            self.piece(take, encoder, out)?;
        }
        Ok(())
    }
}

/// The state for reading a file while the sinks compare another one.
struct Look<'a> {
    transfer: &'a [u8; TRANSFER_BYTES],
    is_sparse: bool,
    buffer: Vec<u8>,
    /// The key of a whole piece of zeros.
    zeros: Option<u64>,
}

impl Look<'_> {
    /// Returns what was read of a piece of this many bytes, unless its holes have to be found.
    fn has(&self, len: u64) -> Option<&[u8]> {
        let is_read = !self.is_sparse && self.buffer.len() as u64 == len;
        is_read.then_some(&self.buffer[..])
    }

    /// Returns true if the bytes between two positions have this key. Then the encoder takes them.
    fn is_same(
        &mut self,
        file: &mut File,
        (at, end): (u64, u64),
        theirs: u64,
        encoder: &mut Encoder,
    ) -> Result<bool, Unread> {
        let len = end - at;
        let is_hole = self.is_sparse && data_from(&*file, at)?.is_none_or(|(from, _)| from >= end);
        if is_hole {
            let key = match self.zeros.filter(|_| len == PIECE_BYTES) {
                Some(key) => key,
                None => {
                    self.buffer.resize(len as usize, 0);
                    resume::piece_key(self.transfer, &self.buffer)
                }
            };
            self.zeros = self.zeros.or((len == PIECE_BYTES).then_some(key));
            if key == theirs {
                encoder.zeros(len);
            }
            return Ok(key == theirs);
        }
        file.seek(SeekFrom::Start(at))?;
        let read = file.by_ref().take(len).read_to_end(&mut self.buffer)?;
        if read as u64 != len {
            return Err(Unread::Changed);
        }
        let is_same = resume::piece_key(self.transfer, &self.buffer) == theirs;
        if is_same {
            encoder.content(&self.buffer);
        }
        Ok(is_same)
    }
}
