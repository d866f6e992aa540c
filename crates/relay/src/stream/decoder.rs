//! Reading a stream.

use super::{StreamError, Walk};
use wire::Malformed;
use wire::handshake::VersionRange;
use wire::relay::DIGEST_BYTES;
use wire::relay::entry::{
    Entry, EntryKind, GIVEN_UP, HEAD_BYTES_MAX, HOLE, Item, Owner, PIECE_BYTES_MAX, SAME, Total,
};

/// The longest hole in one piece: hashing it takes a sink a second or so, within which it answers nobody.
pub const HOLE_BYTES_MAX: u64 = 1 << 30;

/// The longest range in one piece that a sink has already: it reads that within a tenth of a second or so.
pub const SAME_BYTES_MAX: u64 = 64 << 20;

/// The attributes of one entry take so much at most, with [`ATTRIBUTE_COST_BYTES`] for each. Choice: the
/// kernel's own limits are 64 KiB of names, and 64 KiB for each value; ext4 has one block for all.
pub const ATTRIBUTES_BYTES_MAX: usize = 256 * 1024;
/// What an attribute, or a piece of one, costs beside its bytes where it waits for its entry.
pub const ATTRIBUTE_COST_BYTES: usize = 64;

/// What a stream says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// It begins.
    Begin,
    /// What all entries will be.
    Total(Total),
    /// Which versions the source speaks.
    Speaks(VersionRange),
    /// The next entry, which the sink has said that it has.
    Kept(Entry<'a>),
    /// The next entry; of a file the content goes on behind so many bytes, no more than the sink has said
    /// that it has. Unless that is 0, it answers by [`Decoder::resume`] or [`Decoder::drop_content`].
    Entry(Entry<'a>, u64),
    /// The next entry is a file, and another one under its path is to be compared.
    Compare,
    /// Who owns the next entry.
    Owner(Owner<'a>),
    /// An extended attribute of the next entry: its name, a piece of its value, and whether more follows.
    Attribute(&'a [u8], &'a [u8], bool),
    /// Something is at the source and is not sent: its path, and why.
    Spared(&'a [u8], &'a str),
    /// Zeros of the file that was named last.
    Hole(u64),
    /// So many bytes of that file are at the same place of the one that was compared. Who has them gives them to
    /// [`Decoder::same`].
    Same(u64),
    /// There is no such file as the one that was named last.
    GivenUp,
    /// Content of the file that was named last.
    Content(&'a [u8]),
    /// The content of that file is complete, and is what was sent: its digest.
    FileEnd([u8; DIGEST_BYTES]),
    /// All is complete, and is what was sent: the digest of heads and contents.
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
    /// The content that comes is not wanted.
    drops: bool,
    /// What was said of the next entry: that it is kept, or from where it goes on.
    kept: bool,
    from: u64,
    /// It is compared, or the file is whose content comes.
    compares: bool,
    attributes: Attributes,
    /// The source has said which versions it speaks.
    has_spoken: bool,
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
    /// Of the file that was named last the sink has what `content` has been given.
    pub fn resume(&mut self, content: blake3::Hasher) {
        self.content = content;
    }

    /// Of the file that was named last the sink has all, and drops what comes: that is not checked.
    pub fn drop_content(&mut self) {
        self.drops = true;
    }

    /// Bytes of what is the same.
    pub fn same(&mut self, bytes: &[u8]) {
        if !self.drops {
            self.content.update(bytes);
        }
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
                    match said(item.bytes(&self.held)) {
                        // A version that knows it may use it; the copy is whole without.
                        Some(Said::Unknown) if self.state == State::Head => continue,
                        Some(said) => {
                            self.hear(said)?;
                            continue;
                        }
                        None => {}
                    }
                    // What was read once is read again, because `item` borrows no longer.
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
                    // In constant time, though nobody gains by the difference.
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

    /// Takes what is said of the next entry, which is said once.
    fn hear(&mut self, said: Said) -> Result<(), StreamError> {
        let is_first = !self.kept && self.from == 0 && !self.compares;
        match (self.state, said) {
            (State::Head, Said::Kept) if is_first => self.kept = true,
            (State::Head, Said::From(offset)) if is_first && offset > 0 => self.from = offset,
            _ => return Err(Malformed::Kind.into()),
        }
        Ok(())
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

/// What was said of the attributes of the next entry.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Attributes {
    None,
    /// So many bytes; the name of the one of which more follows.
    Some(usize, Option<Vec<u8>>),
}

impl Attributes {
    /// The owner comes first.
    fn begin(&mut self) -> Result<(), Malformed> {
        match std::mem::replace(self, Attributes::Some(0, None)) {
            Attributes::None => Ok(()),
            Attributes::Some(..) => Err(Malformed::Kind),
        }
    }

    /// A value that goes on is gone on with before another.
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

    /// An entry follows, behind whole values.
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

/// What stands before an entry.
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
        // It is said at the beginning, where it can be acted upon.
        (State::Head, Item::Total(total))
            if walk.entries() == 0 && !is_said && *attributes == Attributes::None =>
        {
            walk.attribute(&item);
            Ok(Event::Total(total))
        }
        // The same, and once: each answer costs the sink more than the question costs the source.
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
