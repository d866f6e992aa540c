//! Reading a stream.

use super::{StreamError, Walk};
use wire::Malformed;
use wire::relay::DIGEST_BYTES;
use wire::relay::entry::{Entry, EntryKind, HEAD_BYTES_MAX, Item, PIECE_BYTES_MAX};

/// What a stream says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// It begins behind so many entries, within the next one behind so many bytes. The sink answers
    /// by [`Decoder::resume`] unless both are 0.
    Begin {
        /// Entries.
        skip: u64,
        /// Bytes of the next one.
        partial: u64,
    },
    /// The next entry.
    Entry(Entry<'a>),
    /// Content of the file that was named last.
    Content(&'a [u8]),
    /// The content of that file is complete, and is what was sent: its digest.
    FileEnd([u8; DIGEST_BYTES]),
    /// All is complete, and is what was sent: the digest of the heads.
    End([u8; DIGEST_BYTES]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Begin,
    Head,
    PieceLength,
    Piece(usize),
    Digest,
    Ended,
}

/// Reads a stream that comes in pieces of any size.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    walk: Walk,
    content: blake3::Hasher,
    /// The beginning of what is not there whole yet.
    held: Vec<u8>,
    /// What is held has been told.
    told: bool,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder {
            state: State::Begin,
            walk: Walk::default(),
            content: blake3::Hasher::new(),
            held: Vec::new(),
            told: false,
        }
    }
}

impl Decoder {
    /// The sink has the entries of `walk`, and of the next one what `content` has been given.
    pub fn resume(&mut self, walk: Walk, content: blake3::Hasher) {
        self.walk = walk;
        self.content = content;
    }

    /// The entries so far.
    pub fn walk(&self) -> &Walk {
        &self.walk
    }

    /// True behind the end.
    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// The next event out of `input`, which moves on behind it; none until more comes.
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Event<'a>>, StreamError> {
        loop {
            if input.is_empty() {
                return Ok(None);
            }
            match self.state {
                State::Begin | State::Head => {
                    let Some(item) = self.item(input)? else {
                        return Ok(None);
                    };
                    // What was read once is read again, because `item` borrows no longer.
                    let (item, _) = Item::read(item.bytes(&self.held))?;
                    return act(&mut self.state, &mut self.walk, item).map(Some);
                }
                State::PieceLength => {
                    let Some(bytes) = self.fixed::<4>(input) else {
                        return Ok(None);
                    };
                    let len = u32::from_be_bytes(bytes);
                    if len > PIECE_BYTES_MAX {
                        return Err(Malformed::Length.into());
                    }
                    self.state = match len {
                        0 => State::Digest,
                        len => State::Piece(len as usize),
                    };
                }
                State::Piece(left) => {
                    let (bytes, rest) = input.split_at(left.min(input.len()));
                    *input = rest;
                    self.state = match left - bytes.len() {
                        0 => State::PieceLength,
                        left => State::Piece(left),
                    };
                    self.content.update(bytes);
                    return Ok(Some(Event::Content(bytes)));
                }
                State::Digest => {
                    let Some(told) = self.fixed::<DIGEST_BYTES>(input) else {
                        return Ok(None);
                    };
                    let digest = self.content.finalize();
                    self.content.reset();
                    // In constant time, though nobody gains by the difference.
                    if digest != told {
                        return Err(StreamError::Content);
                    }
                    self.state = State::Head;
                    return Ok(Some(Event::FileEnd(told)));
                }
                State::Ended => return Err(StreamError::Excess),
            }
        }
    }

    /// Whether a whole item is there, and where.
    fn item<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Place<'a>>, StreamError> {
        if core::mem::take(&mut self.told) {
            self.held.clear();
        }
        let before = self.held.len();
        if before == 0 {
            match Item::read(input) {
                Ok((_, used)) => {
                    let (bytes, rest) = input.split_at(used);
                    *input = rest;
                    return Ok(Some(Place::Input(bytes)));
                }
                Err(Malformed::Short) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let more = input.len().min(HEAD_BYTES_MAX - before.min(HEAD_BYTES_MAX));
        self.held.extend_from_slice(&input[..more]);
        match Item::read(&self.held) {
            Ok((_, used)) => {
                *input = &input[used - before..];
                self.held.truncate(used);
                self.told = true;
                Ok(Some(Place::Held))
            }
            Err(Malformed::Short) if more > 0 => {
                *input = &input[more..];
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// So many bytes, once they are there.
    fn fixed<const N: usize>(&mut self, input: &mut &[u8]) -> Option<[u8; N]> {
        if core::mem::take(&mut self.told) {
            self.held.clear();
        }
        let more = input.len().min(N - self.held.len());
        self.held.extend_from_slice(&input[..more]);
        *input = &input[more..];
        let bytes = self.held.as_slice().try_into().ok()?;
        self.held.clear();
        Some(bytes)
    }
}

enum Place<'a> {
    Input(&'a [u8]),
    Held,
}

impl<'a> Place<'a> {
    fn bytes(self, held: &'a [u8]) -> &'a [u8] {
        match self {
            Place::Input(bytes) => bytes,
            Place::Held => held,
        }
    }
}

fn act<'a>(state: &mut State, walk: &mut Walk, item: Item<'a>) -> Result<Event<'a>, StreamError> {
    match (*state, item) {
        (State::Begin, Item::Begin { skip, partial }) => {
            *state = State::Head;
            Ok(Event::Begin { skip, partial })
        }
        (State::Head, Item::Entry(entry)) => {
            walk.enter(&entry)?;
            if entry.kind == EntryKind::File {
                *state = State::PieceLength;
            }
            Ok(Event::Entry(entry))
        }
        (State::Head, Item::End { entries, digest }) => {
            if entries != walk.entries() || entries == 0 || digest != walk.heads_digest() {
                return Err(StreamError::Entries);
            }
            *state = State::Ended;
            Ok(Event::End(digest))
        }
        _ => Err(Malformed::Kind.into()),
    }
}
