//! Reads a stream.

use super::{StreamError, Walk};
use wire::Malformed;
use wire::handshake::VersionRange;
use wire::relay::DIGEST_BYTES;
use wire::relay::entry::{
    Entry, EntryKind, GIVEN_UP, HEAD_BYTES_MAX, HOLE, Item, Owner, PIECE_BYTES_MAX, SAME, Total,
};

/// The longest hole in one piece. Hashing it takes a sink a second or so, during which the sink does not answer.
pub const HOLE_BYTES_MAX: u64 = 1 << 30;

/// The longest range in one piece that a sink already has: the sink reads it within a tenth of a second or so.
pub const SAME_BYTES_MAX: u64 = 64 << 20;

/// How many bytes the attributes of one entry take at most, including [`ATTRIBUTE_COST_BYTES`] for each. Choice: the
/// kernel's own limits are 64 KiB of names, and 64 KiB for each value; ext4 has one block for all.
pub const ATTRIBUTES_BYTES_MAX: usize = 256 * 1024;
/// The memory that an attribute, or a piece of one, takes in addition to its bytes while it waits for its entry.
pub const ATTRIBUTE_COST_BYTES: usize = 64;

/// An event of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The stream begins.
    Begin,
    /// The totals of all entries.
    Total(Total),
    /// The versions that the source speaks.
    Speaks(VersionRange),
    /// The next entry, which the sink has reported to have.
    Kept(Entry<'a>),
    /// The next entry. If it is a file, its content begins behind this many bytes, no more than the sink has reported
    /// to have. Unless this number is 0, the sink calls [`Decoder::resume`] or [`Decoder::drop_content`].
    Entry(Entry<'a>, u64),
    /// The next entry is a file, and the sink is to compare it with another one under its path.
    Compare,
    /// The owner of the next entry.
    Owner(Owner<'a>),
    /// An extended attribute of the next entry: its name, a piece of its value, and whether more follows.
    Attribute(&'a [u8], &'a [u8], bool),
    /// Something at the source that is not sent: its path, and the reason.
    Spared(&'a [u8], &'a str),
    /// Zeros of the file that was named last.
    Hole(u64),
    /// This many bytes of that file are at the same place of the file that was compared. The sink passes them to
    /// [`Decoder::same`].
    Same(u64),
    /// The file that was named last does not exist.
    GivenUp,
    /// Content of the file that was named last.
    Content(&'a [u8]),
    /// The content of that file is complete and verified: its digest.
    FileEnd([u8; DIGEST_BYTES]),
    /// The stream is complete and verified: the digest of heads and contents.
    End([u8; DIGEST_BYTES]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Begin,
    Head,
    PieceLength,
    Piece(usize),
    Hole,
    Same,
    Digest,
    Ended,
}

/// Reads a stream that comes in pieces of any size.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    walk: Walk,
    content: blake3::Hasher,
    /// The sink does not want the content of the present file.
    drops: bool,
    /// The announcement for the next entry: it is kept, or its content begins at `from`.
    kept: bool,
    from: u64,
    /// The next entry is compared, or the present content is that of a compared file.
    compares: bool,
    attributes: Attributes,
    /// The source has sent which versions it speaks.
    has_spoken: bool,
    /// The beginning of an item that has not arrived completely.
    held: Vec<u8>,
    /// The held item has been returned as an event.
    told: bool,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder {
            state: State::Begin,
            walk: Walk::default(),
            content: blake3::Hasher::new(),
            drops: false,
            kept: false,
            from: 0,
            compares: false,
            attributes: Attributes::None,
            has_spoken: false,
            held: Vec::new(),
            told: false,
        }
    }
}

impl Decoder {
    /// The sink has the bytes of the last file that `content` has been given.
    pub fn resume(&mut self, content: blake3::Hasher) {
        self.content = content;
    }

    /// The sink has all of the last file, and drops its content without checking it.
    pub fn drop_content(&mut self) {
        self.drops = true;
    }

    /// Takes bytes that the sink already has.
    pub fn same(&mut self, bytes: &[u8]) {
        if !self.drops {
            self.content.update(bytes);
        }
    }

    /// Returns the entries so far.
    pub fn walk(&self) -> &Walk {
        &self.walk
    }

    /// Returns true after the end.
    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Returns the next event from `input`, and advances `input` behind it; none until more bytes arrive.
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
                    match said(item.bytes(&self.held)) {
                        // A version that knows the item may use it; the copy is complete without it.
                        Some(Said::Unknown) if self.state == State::Head => continue,
                        Some(said) => {
                            self.hear(said)?;
                            continue;
                        }
                        None => {}
                    }
                    // The item is read a second time, because the borrow of `item` has ended.
                    let (item, _) = Item::read(item.bytes(&self.held))?;
                    let said = (
                        &mut self.kept,
                        &mut self.from,
                        &mut self.compares,
                        &mut self.attributes,
                    );
                    let spoken = &mut self.has_spoken;
                    return act(&mut self.state, &mut self.walk, said, spoken, item).map(Some);
                }
                State::PieceLength => {
                    let Some(bytes) = self.fixed::<4>(input) else {
                        return Ok(None);
                    };
                    let len = u32::from_be_bytes(bytes);
                    self.state = match len {
                        0 => State::Digest,
                        HOLE => State::Hole,
                        SAME if self.compares => State::Same,
                        GIVEN_UP => {
                            self.content.reset();
                            (self.drops, self.compares) = (false, false);
                            self.state = State::Head;
                            return Ok(Some(Event::GivenUp));
                        }
                        len if len > PIECE_BYTES_MAX => return Err(Malformed::Length.into()),
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
                    if !self.drops {
                        self.content.update(bytes);
                    }
                    return Ok(Some(Event::Content(bytes)));
                }
                State::Hole => {
                    let Some(bytes) = self.fixed::<8>(input) else {
                        return Ok(None);
                    };
                    let len = u64::from_be_bytes(bytes);
                    if len > HOLE_BYTES_MAX {
                        return Err(Malformed::Length.into());
                    }
                    if !self.drops {
                        super::zeros(&mut self.content, len);
                    }
                    self.state = State::PieceLength;
                    return Ok(Some(Event::Hole(len)));
                }
                State::Same => {
                    let Some(bytes) = self.fixed::<8>(input) else {
                        return Ok(None);
                    };
                    let len = u64::from_be_bytes(bytes);
                    if len == 0 || len > SAME_BYTES_MAX {
                        return Err(Malformed::Length.into());
                    }
                    self.state = State::PieceLength;
                    return Ok(Some(Event::Same(len)));
                }
                State::Digest => {
                    let Some(told) = self.fixed::<DIGEST_BYTES>(input) else {
                        return Ok(None);
                    };
                    let digest = self.content.finalize();
                    self.content.reset();
                    // The comparison takes constant time, although nobody could gain by a difference.
                    if !core::mem::take(&mut self.drops) && digest != told {
                        return Err(StreamError::Content);
                    }
                    self.walk.complete(&told);
                    self.compares = false;
                    self.state = State::Head;
                    return Ok(Some(Event::FileEnd(told)));
                }
                State::Ended => return Err(StreamError::Excess),
            }
        }
    }

    /// Takes an announcement for the next entry, which may come only once.
    fn hear(&mut self, said: Said) -> Result<(), StreamError> {
        let is_first = !self.kept && self.from == 0 && !self.compares;
        match (self.state, said) {
            (State::Head, Said::Kept) if is_first => self.kept = true,
            (State::Head, Said::From(offset)) if is_first && offset > 0 => self.from = offset,
            _ => return Err(Malformed::Kind.into()),
        }
        Ok(())
    }

    /// Returns where a whole item is, if one has arrived.
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

    /// Returns this many bytes, once they have arrived.
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

/// The attributes so far of the next entry.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Attributes {
    None,
    /// Number of bytes so far, and the name of the attribute whose value continues.
    Some(usize, Option<Vec<u8>>),
}

impl Attributes {
    /// Begins the attributes: the owner comes first.
    fn begin(&mut self) -> Result<(), Malformed> {
        match std::mem::replace(self, Attributes::Some(0, None)) {
            Attributes::None => Ok(()),
            Attributes::Some(..) => Err(Malformed::Kind),
        }
    }

    /// Takes a piece of a value. A value that continues must be completed before another one begins.
    fn take(&mut self, name: &[u8], value: &[u8], goes_on: bool) -> Result<(), Malformed> {
        let Attributes::Some(bytes, open) = self else {
            return Err(Malformed::Kind);
        };
        if open.as_deref().is_some_and(|open| open != name) {
            return Err(Malformed::Kind);
        }
        *bytes += name.len() + value.len() + ATTRIBUTE_COST_BYTES;
        *open = goes_on.then(|| name.to_vec());
        match *bytes <= ATTRIBUTES_BYTES_MAX {
            true => Ok(()),
            false => Err(Malformed::Length),
        }
    }

    /// Ends the attributes at an entry: all values must be complete.
    fn end(&mut self) -> Result<(), Malformed> {
        match std::mem::replace(self, Attributes::None) {
            Attributes::None | Attributes::Some(_, None) => Ok(()),
            Attributes::Some(_, Some(_)) => Err(Malformed::Kind),
        }
    }
}

#[derive(Clone, Copy)]
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

/// An announcement before an entry.
enum Said {
    Kept,
    From(u64),
    Unknown,
}

fn said(item: &[u8]) -> Option<Said> {
    match Item::read(item) {
        Ok((Item::Kept, _)) => Some(Said::Kept),
        Ok((Item::From(offset), _)) => Some(Said::From(offset)),
        Ok((Item::Unknown { .. }, _)) => Some(Said::Unknown),
        _ => None,
    }
}

fn act<'a>(
    state: &mut State,
    walk: &mut Walk,
    (kept, from, compares, attributes): (&mut bool, &mut u64, &mut bool, &mut Attributes),
    has_spoken: &mut bool,
    item: Item<'a>,
) -> Result<Event<'a>, StreamError> {
    let is_said = *kept || *from > 0 || *compares;
    match (*state, item) {
        (State::Begin, Item::Begin) => {
            *state = State::Head;
            Ok(Event::Begin)
        }
        (State::Head, Item::Entry(entry)) => {
            attributes.end()?;
            walk.enter(&entry)?;
            let is_file = entry.kind == EntryKind::File;
            let offset = core::mem::take(from);
            if ((offset > 0 || *compares) && !is_file)
                || (*kept && entry.kind == EntryKind::Directory)
            {
                return Err(Malformed::Value.into());
            }
            if core::mem::take(kept) {
                return Ok(Event::Kept(entry));
            }
            if is_file {
                *state = State::PieceLength;
            }
            Ok(Event::Entry(entry, offset))
        }
        (State::Head, Item::Compare) if !*kept && !*compares => {
            *compares = true;
            Ok(Event::Compare)
        }
        // The totals come at the beginning, where a sink can act upon them.
        (State::Head, Item::Total(total))
            if walk.entries() == 0 && !is_said && *attributes == Attributes::None =>
        {
            walk.attribute(&item);
            Ok(Event::Total(total))
        }
        // The versions come at the beginning, too, and only once: each answer costs the sink more than the question
        // costs the source.
        (State::Head, Item::Speaks(versions))
            if walk.entries() == 0
                && !is_said
                && *attributes == Attributes::None
                && !core::mem::replace(has_spoken, true) =>
        {
            Ok(Event::Speaks(versions))
        }
        (State::Head, Item::Owner(owner)) if !is_said => {
            attributes.begin()?;
            walk.attribute(&item);
            Ok(Event::Owner(owner))
        }
        (
            State::Head,
            Item::Attribute {
                name,
                goes_on,
                value,
            },
        ) if !is_said => {
            attributes.take(name, value, goes_on)?;
            walk.attribute(&item);
            Ok(Event::Attribute(name, value, goes_on))
        }
        (State::Head, Item::Spared { path, why })
            if !is_said && *attributes == Attributes::None =>
        {
            Ok(Event::Spared(path, why))
        }
        (State::Head, Item::End { entries, digest })
            if !is_said && *attributes == Attributes::None =>
        {
            if entries != walk.entries() || entries == 0 || digest != walk.digest() {
                return Err(StreamError::Entries);
            }
            *state = State::Ended;
            Ok(Event::End(digest))
        }
        _ => Err(Malformed::Kind.into()),
    }
}
