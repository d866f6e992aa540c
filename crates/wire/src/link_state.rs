//! The body of a link-state record: all links of one node, signed by it. [Amir06 §III-A]
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                            origin                             |   0
//! +---------------------------------------------------------------+
//! |                        sequence number                        |   4
//! +-------------------------------+-------------------------------+
//! |          lifetime, s          |     certificate serial ..     |   8
//! +-------------------------------+---------------+---------------+
//! |     .. certificate serial     |    strikes    |   n links     |  12
//! +-------------------------------+---------------+---------------+
//! |                           neighbour                           |  16, n times
//! +-----------------------------------------------+---------------+
//! |                  latency, us                  |    loss ..    |
//! +---------------+---------------+---------------+---------------+
//! |    .. loss    | availability  |
//! +-+-------------+---------------+-------------------------------+
//! |C|    type     |    length     | value ... (options)           |
//! +-+-------------+---------------+-------------------------------+
//! |                     signature, 64 bytes                       |
//! +---------------------------------------------------------------+
//! ```
//!
//! The signature is Ed25519 by the origin over [`SIGNATURE_CONTEXT`] and all that stands before
//! it. Strikes are how often the
//! origin asks for a packet that a real-time lane has lost; 0 where that is not told. Options that are not
//! known here are kept and flooded unchanged, unless they are critical (C): then the record is
//! not used. Latency, loss and [`Availability`] are those of the direction from the origin to the
//! neighbour.

mod bulk;
mod hosts;
mod protection;

pub use protection::{
    OPTION_PROTECTION, PROTECTION_ENTRIES_MAX, Protection, REPAIR_16THS, RUN_256THS,
    write_protections,
};

pub use hosts::{HOSTS_MAX, OPTION_HOSTS, write_hosts};

pub use bulk::{
    Bulk, OPTION_BULK, OPTION_RATES, RATES_ENTRY_BYTES, Rates, SPREAD_MAX, Sending, write_bulk,
    write_link_rates,
};

use crate::bytes::{Reader, Writer};
use crate::control::CRITICAL;
use crate::record::{BODY_BYTES_MAX, Key, RecordKind, RecordSeq};
use crate::{Availability, Endpoint, Full, Latency, Loss, Malformed};
use base::NodeAddr;
use core::cmp::Reverse;
use core::num::NonZeroU8;

/// What stands in front of the signed bytes when they are signed.
pub const SIGNATURE_CONTEXT: &[u8] = b"sinew link state 1";
/// Bytes of the signature.
pub const SIGNATURE_BYTES: usize = 64;
/// Bytes in front of the links.
pub const FIXED_BYTES: usize = 16;
/// Bytes of one link.
pub const LINK_BYTES: usize = 10;
/// The most links of one node. With all of them and options a body is as long as it may be:
/// 16 + 96 · 10 + 160 + 64 = 1200 bytes.
pub const LINKS_MAX: usize = 96;
/// The most bytes of options.
pub const OPTIONS_BYTES_MAX: usize = 160;

const _: () = assert!(
    FIXED_BYTES + LINKS_MAX * LINK_BYTES + OPTIONS_BYTES_MAX + SIGNATURE_BYTES == BODY_BYTES_MAX
);

/// The option that tells which links carry less than is taken for granted: `n` times the place of a
/// link in the record (1 byte) and the longest datagram that it carries (2 bytes), what UDP carries.
/// Links that are not named carry [`USABLE_BYTES_DEFAULT`].
///
/// ```text
/// +---------------+---------------+---------------+-------------------------------+
/// | 0 0 0 0 0 0 0 1 |    3 n      |    place      |             bytes             | ...
/// +---------------+---------------+---------------+-------------------------------+
/// ```
pub const OPTION_USABLE: u8 = 1;
/// The option that tells what links can carry in this direction, where that is configured: `n` times
/// the place of a link in the record (1 byte) and its capacity in kbit/s (4 bytes). It has what room
/// [`OPTION_USABLE`] leaves.
///
/// ```text
/// +---------------+---------------+---------------+-------------------------------+
/// | 0 0 0 0 0 0 1 0 |    5 n      |    place      |       kbit/s (4 bytes)        | ...
/// +---------------+---------------+---------------+-------------------------------+
/// ```
pub const OPTION_CAPACITY: u8 = 2;
/// The option that tells the physical links which links cross in this direction, routers on the way and
/// one more [Liu04 §IV-C]: `n` times the place of a link in the record (1 byte) and their number
/// (1 byte, not 0). It has what room the others leave.
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// | 0 0 0 0 0 1 0 0 |    2 n      |    place      |     hops      | ...
/// +---------------+---------------+---------------+---------------+
/// ```
pub const OPTION_HOPS: u8 = 4;
/// The option that tells which version of the program the origin runs, for people: ASCII that can be
/// seen, as `0.1.0`. It has what room the others leave.
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// | 0 0 0 0 0 1 0 1 |  n, 1 to 24   |            text, n bytes            |
/// +---------------+---------------+---------------+---------------+
/// ```
pub const OPTION_VERSION: u8 = 5;
/// The option that says that the origin seals from end to end: what is for it comes sealed from whoever
/// knows how, and what comes from it is sealed. Whoever gets something in its name that is not, drops it.
/// It stands before the others, which have what room it leaves. The boot is another one after each start
/// of the origin: keys that were agreed on before are gone then.
///
/// ```text
/// +---------------+---------------+---------------+-------------------------------+
/// | 0 0 0 0 1 0 0 0 |       5       |  version, 1   |        boot (4 bytes)         |
/// +---------------+---------------+---------------+-------------------------------+
/// ```
pub const OPTION_SEALS: u8 = 8;
/// The option that tells where neighbours see the origin: `n` times an [`Endpoint`], at most
/// [`ENDPOINTS_MAX`]. Nodes that have traffic for the origin and no link to it may dial it there.
///
/// ```text
/// +---------------+---------------+---------------+-------------------------------+
/// | 0 0 0 0 1 0 1 0 |   18 n      |   address (16 bytes), port (2 bytes)  | ...
/// +---------------+---------------+---------------+-------------------------------+
/// ```
pub const OPTION_ENDPOINTS: u8 = 10;
/// The option that tells which links run over a byte stream (TCP) in this direction: `n` times the place of a link in
/// the record (1 byte), each above the one before. For people: their cost is in the record. It has what room the
/// others leave.
///
/// ```text
/// +---------------+---------------+---------------+
/// | 0 0 0 0 1 1 0 0 |       n       |    place      | ...
/// +---------------+---------------+---------------+
/// ```
pub const OPTION_TUNNELS: u8 = 12;
/// The option that tells over which links packets to the origin are being lost, as far as it can tell by now: bit `i` of
/// byte `k`, from the lowest, is the link with the place `8 k + i` in the record, in the direction from the neighbour to
/// the origin. Bytes of zero at the end are left out. An origin that watches its links tells it though there is none,
/// and whoever gets a record without it goes by the losses of the links. It has what room the others leave.
///
/// ```text
/// +---------------+---------------+---------------+
/// | 0 0 0 0 1 1 0 1 |  n, 0 to 12   |     bits      | ...
/// +---------------+---------------+---------------+
/// ```
pub const OPTION_ALARMS: u8 = 13;
/// The option that says that the origin answers how many of another end's datagrams it has opened
/// ([`crate::transport::Tally`]). It has what room the first three leave.
///
/// ```text
/// +---------------+---------------+---------------+
/// | 0 0 0 0 1 1 1 0 |       1       |  version, 1   |
/// +---------------+---------------+---------------+
/// ```
pub const OPTION_TALLIES: u8 = 14;
/// The option that says that the origin opens what is sealed for a group, asks for keys of groups and tells its own
/// ([`crate::transport::GroupKey`]), and sends to groups sealed where all members can. It has what room the first
/// three leave.
///
/// ```text
/// +---------------+---------------+---------------+
/// | 0 0 0 0 1 1 1 1 |       1       |  version, 1   |
/// +---------------+---------------+---------------+
/// ```
pub const OPTION_GROUP_KEYS: u8 = 15;
/// The option that says that the origin answers how many packets under a key of a group it has opened
/// ([`crate::transport::Tally::AskedOfKey`]), and takes packets to a group from their source alone
/// ([`crate::transport::group_copy()`]). It has what room the others leave.
///
/// ```text
/// +---------------+---------------+---------------+
/// | 0 0 0 1 0 0 0 0 |       1       |  version, 1   |
/// +---------------+---------------+---------------+
/// ```
pub const OPTION_GROUP_TALLIES: u8 = 16;
/// The option that says that the origin offers itself as a neighbour to whoever finds that a link to it is worth having,
/// and finds such links itself. Bit `i` of byte `k` after the version, from the lowest, is the link with the place
/// `8 k + i` in the record: the origin keeps it. A link that neither end keeps may be ended by either. Bytes of zero at the
/// end are left out. There is always room for it.
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// | 0 0 0 1 0 0 1 0 | n, 1 to 13  |  version, 1   |     bits      | ...
/// +---------------+---------------+---------------+---------------+
/// ```
pub const OPTION_OFFER: u8 = 18;
/// The most endpoints of an origin: one of each family, or two that a NAT has given it.
pub const ENDPOINTS_MAX: usize = 2;
/// The version of the seal from end to end, as the option has it.
pub const SEALS_VERSION: u8 = 1;
/// The version of [`OPTION_TALLIES`].
pub const TALLIES_VERSION: u8 = 1;
/// The version of [`OPTION_GROUP_KEYS`].
pub const GROUP_KEYS_VERSION: u8 = 1;
/// The version of [`OPTION_GROUP_TALLIES`].
pub const GROUP_TALLIES_VERSION: u8 = 1;
/// The version of [`OPTION_OFFER`].
pub const OFFER_VERSION: u8 = 1;
/// The longest version that is told: `100.100.100-rc.100+build` has as many.
pub const VERSION_BYTES_MAX: usize = 24;
/// Bytes of an entry of a capacity.
pub const CAPACITY_ENTRY_BYTES: usize = 5;
/// Bytes of an entry of physical hops.
pub const HOPS_ENTRY_BYTES: usize = 2;
/// Bytes of an entry of what a link carries less than others.
pub const USABLE_ENTRY_BYTES: usize = 3;
/// Bytes of [`OPTION_SEALS`].
pub const SEALS_BYTES: usize = 7;
/// Links that it can name: 7 + 2 · 3 + 15 + 2 + 43 · 3 = 159 bytes of options.
pub const USABLE_ENTRIES_MAX: usize =
    (OPTIONS_BYTES_MAX - SEALS_BYTES - 2 * WORD_BYTES - OFFER_BYTES - 2) / USABLE_ENTRY_BYTES;
/// Bytes of [`OPTION_OFFER`] that names all links.
const OFFER_BYTES: usize = 2 + 1 + LINKS_MAX / 8;
/// Bytes of [`OPTION_TALLIES`], and of [`OPTION_GROUP_KEYS`]: there is always room for them.
const WORD_BYTES: usize = 3;
/// The longest sealed datagram that a link is taken to carry: a packet with 1392 bytes of payload.
pub const USABLE_BYTES_DEFAULT: u16 = 1_439;

/// One link of the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The other end.
    pub neighbor: NodeAddr,
    /// One-way delay.
    pub latency: Latency,
    /// Share of packets lost before recovery.
    pub loss: Loss,
    /// What its outages of late cost, and whether the neighbour is heard.
    pub availability: Availability,
}

/// A part of a record that a node may or may not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt<'a> {
    /// What it is.
    pub kind: u8,
    /// What it says.
    pub value: &'a [u8],
}

/// A view of a record's body. Everything but the signature itself has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState<'a> {
    /// Whose links these are.
    pub origin: NodeAddr,
    /// Which edition this is.
    pub seq: RecordSeq,
    /// For how long the record is valid, counted from its making.
    pub lifetime_s: u16,
    /// The certificate whose key has signed.
    pub certificate_serial: u32,
    /// How often the origin asks for a lost packet of a real-time lane; 0 if that is not told.
    pub strikes: u8,
    body: &'a [u8],
    links: &'a [u8],
    options: &'a [u8],
}

impl<'a> LinkState<'a> {
    /// Reads a body. An option that is critical and not known here is [`Malformed::Critical`].
    pub fn parse(body: &'a [u8]) -> Result<LinkState<'a>, Malformed> {
        let unsigned = body
            .len()
            .checked_sub(SIGNATURE_BYTES)
            .ok_or(Malformed::Short)?;
        let mut r = Reader::new(&body[..unsigned]);
        let origin = NodeAddr(r.u32()?);
        let seq = RecordSeq(r.u32()?);
        let lifetime_s = r.u16()?;
        let certificate_serial = r.u32()?;
        let strikes = r.u8()?;
        let count = usize::from(r.u8()?);
        if count > LINKS_MAX {
            return Err(Malformed::Count);
        }
        let links = r.take(count * LINK_BYTES)?;
        let options = r.rest();
        if options.len() > OPTIONS_BYTES_MAX {
            return Err(Malformed::Count);
        }
        check_options(options)?;
        Ok(LinkState {
            origin,
            seq,
            lifetime_s,
            certificate_serial,
            strikes,
            body,
            links,
            options,
        })
    }

    /// What the record is called.
    pub const fn key(&self) -> Key {
        Key {
            kind: RecordKind::LINK_STATE,
            origin: self.origin,
            seq: self.seq,
        }
    }

    /// The links, as the origin ordered them.
    pub fn links(&self) -> impl ExactSizeIterator<Item = Link> + Clone + use<'a> {
        let (links, _) = self.links.as_chunks();
        links.iter().map(|&bytes| Link::from_bytes(bytes))
    }

    /// The links that are told to carry less than others, by place, with the bytes that they carry.
    /// What names no link of the record, or more than others carry, is passed over.
    pub fn usable(&self) -> impl Iterator<Item = (usize, u16)> + Clone + use<'a> {
        let count = self.links().len();
        let told = self.options().find(|option| option.kind == OPTION_USABLE);
        let (entries, _) = told.map_or(&[][..], |option| option.value).as_chunks();
        let read = |&[place, a, b]: &[u8; USABLE_ENTRY_BYTES]| {
            (usize::from(place), u16::from_be_bytes([a, b]))
        };
        let counts =
            move |(place, bytes): &(usize, u16)| *place < count && *bytes < USABLE_BYTES_DEFAULT;
        entries.iter().map(read).filter(counts)
    }

    /// The links whose capacity is told, by place, with their capacity in kbit/s. What names no link
    /// of the record is passed over.
    pub fn capacities(&self) -> impl Iterator<Item = (usize, u32)> + Clone + use<'a> {
        let count = self.links().len();
        let told = self.options().find(|option| option.kind == OPTION_CAPACITY);
        let (entries, _) = told.map_or(&[][..], |option| option.value).as_chunks();
        let read = |&[place, a, b, c, d]: &[u8; CAPACITY_ENTRY_BYTES]| {
            (usize::from(place), u32::from_be_bytes([a, b, c, d]))
        };
        let entries = entries.iter().map(read);
        entries.filter(move |(place, kbps)| *place < count && *kbps > 0)
    }

    /// The links of which it is told how many physical links they cross, by place. What names no link
    /// of the record, or says none, is passed over.
    pub fn hops(&self) -> impl Iterator<Item = (usize, NonZeroU8)> + Clone + use<'a> {
        let count = self.links().len();
        let told = self.options().find(|option| option.kind == OPTION_HOPS);
        let (entries, _) = told.map_or(&[][..], |option| option.value).as_chunks();
        let read = |&[place, hops]: &[u8; HOPS_ENTRY_BYTES]| {
            Some((usize::from(place), NonZeroU8::new(hops)?))
        };
        let entries = entries.iter().filter_map(read);
        entries.filter(move |(place, _)| *place < count)
    }

    /// The version of the program that the origin runs, if it tells one that can be shown: what is too
    /// long, or could upset a terminal, is passed over.
    pub fn version(&self) -> Option<&'a str> {
        let told = self
            .options()
            .find(|option| option.kind == OPTION_VERSION)?;
        core::str::from_utf8(told.value)
            .ok()
            .filter(|text| is_version(text))
    }

    /// The origin seals from end to end in a way that is known here: its boot.
    pub fn seals(&self) -> Option<u32> {
        let mut options = self.options();
        let told = options.find(|option| option.kind == OPTION_SEALS)?;
        match *told.value {
            [SEALS_VERSION, a, b, c, d] => Some(u32::from_be_bytes([a, b, c, d])),
            _ => None,
        }
    }

    /// The origin answers how much it has opened, in a way that is known here.
    pub fn tallies(&self) -> bool {
        let mut options = self.options();
        let told = options.find(|option| option.kind == OPTION_TALLIES);
        told.is_some_and(|option| option.value == [TALLIES_VERSION])
    }

    /// The origin opens what is sealed for a group, in a way that is known here.
    pub fn has_group_keys(&self) -> bool {
        let mut options = self.options();
        let told = options.find(|option| option.kind == OPTION_GROUP_KEYS);
        told.is_some_and(|option| option.value == [GROUP_KEYS_VERSION])
    }

    /// The origin answers how much it has opened of what was sent to groups, in a way that is known here.
    pub fn tallies_groups(&self) -> bool {
        let mut options = self.options();
        let told = options.find(|option| option.kind == OPTION_GROUP_TALLIES);
        told.is_some_and(|option| option.value == [GROUP_TALLIES_VERSION])
    }

    /// Where neighbours see the origin. What cannot be dialled is passed over; what leads to the own host is for the reader to
    /// judge.
    pub fn endpoints(&self) -> impl Iterator<Item = Endpoint> + Clone + use<'a> {
        let mut options = self.options();
        let told = options.find(|option| option.kind == OPTION_ENDPOINTS);
        let (entries, _) = told.map_or(&[][..], |option| option.value).as_chunks();
        let entries = entries.iter().take(ENDPOINTS_MAX);
        entries
            .map(Endpoint::from_bytes)
            .filter(|endpoint| endpoint.is_dialable() || endpoint.is_loopback())
    }

    /// The links that run over a byte stream, by place. What names no link of the record is passed over.
    pub fn tunnels(&self) -> impl Iterator<Item = usize> + Clone + use<'a> {
        let count = self.links().len();
        let mut options = self.options();
        let told = options.find(|option| option.kind == OPTION_TUNNELS);
        let places = told.map_or(&[][..], |option| option.value).iter();
        let places = places.map(|place| usize::from(*place));
        places.filter(move |place| *place < count)
    }

    /// The links over which packets to the origin are being lost, by place, if the origin watches them. What names no
    /// link of the record is passed over.
    pub fn alarms(&self) -> Option<impl Iterator<Item = usize> + Clone + use<'a>> {
        let count = self.links().len();
        let told = self.options().find(|option| option.kind == OPTION_ALARMS)?;
        Some((0..count).filter(|place| is_set(told.value, *place)))
    }

    /// The links that the origin keeps, by place, if it offers itself as a neighbour in a way that is known here. What names
    /// no link of the record is passed over.
    pub fn offer(&self) -> Option<impl Iterator<Item = usize> + Clone + use<'a>> {
        let count = self.links().len();
        let told = self.options().find(|option| option.kind == OPTION_OFFER)?;
        match told.value {
            [OFFER_VERSION, bits @ ..] => Some((0..count).filter(|place| is_set(bits, *place))),
            _ => None,
        }
    }

    /// The options, known and unknown.
    pub fn options(&self) -> impl Iterator<Item = Opt<'a>> + Clone + use<'a> {
        let mut r = Reader::new(self.options);
        core::iter::from_fn(move || Opt::read(&mut r).ok())
    }

    /// All bytes of the body: what is stored and flooded.
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The bytes that the origin has signed, after [`SIGNATURE_CONTEXT`].
    pub fn signed_bytes(&self) -> &'a [u8] {
        &self.body[..self.body.len() - SIGNATURE_BYTES]
    }

    /// The signature over them.
    pub fn signature(&self) -> &'a [u8; SIGNATURE_BYTES] {
        self.body
            .last_chunk()
            .expect("parse has seen the whole signature")
    }
}

impl Link {
    fn from_bytes([n0, n1, n2, n3, t0, t1, t2, p0, p1, availability]: [u8; LINK_BYTES]) -> Link {
        Link {
            neighbor: NodeAddr(u32::from_be_bytes([n0, n1, n2, n3])),
            latency: Latency::from_micros(u32::from_be_bytes([0, t0, t1, t2])),
            loss: Loss(u16::from_be_bytes([p0, p1])),
            availability: Availability(availability),
        }
    }

    fn write(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.u32(self.neighbor.0)?;
        w.u24(self.latency.micros())?;
        w.u16(self.loss.0)?;
        w.u8(self.availability.0)
    }
}

impl<'a> Opt<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Opt<'a>, Malformed> {
        let kind = r.u8()?;
        let length = r.u8()?;
        let value = r.take(usize::from(length))?;
        Ok(Opt { kind, value })
    }
}

/// Bit `place` of `bits`, from the lowest of the first byte.
fn is_set(bits: &[u8], place: usize) -> bool {
    let byte = bits.get(place / 8).copied().unwrap_or(0);
    byte >> (place % 8) & 1 == 1
}

/// These places as bits after `before`, with the number of bytes of both.
fn bits_of(before: Option<u8>, places: &[u8]) -> ([u8; 1 + LINKS_MAX / 8], usize) {
    let mut bytes = [0; 1 + LINKS_MAX / 8];
    let first = usize::from(before.is_some());
    bytes[0] = before.unwrap_or(0);
    let mut len = first;
    for &place in places
        .iter()
        .filter(|place| usize::from(**place) < LINKS_MAX)
    {
        let byte = first + usize::from(place / 8);
        bytes[byte] |= 1 << (place % 8);
        len = len.max(byte + 1);
    }
    (bytes, len)
}

fn check_options(options: &[u8]) -> Result<(), Malformed> {
    let mut r = Reader::new(options);
    while !r.is_empty() {
        if Opt::read(&mut r)?.kind & CRITICAL != 0 {
            return Err(Malformed::Critical);
        }
    }
    Ok(())
}

/// A body to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr<'a> {
    /// Whose links these are.
    pub origin: NodeAddr,
    /// Which edition this is.
    pub seq: RecordSeq,
    /// For how long the record is valid.
    pub lifetime_s: u16,
    /// The certificate whose key signs.
    pub certificate_serial: u32,
    /// How often the origin asks for a lost packet; 0 to leave it open.
    pub strikes: u8,
    /// At most [`LINKS_MAX`].
    pub links: &'a [Link],
    /// Options as they stand on the wire, at most [`OPTIONS_BYTES_MAX`]; see [`write_option`].
    pub options: &'a [u8],
}

impl Repr<'_> {
    /// Bytes of the body, signature included.
    pub const fn body_bytes(&self) -> usize {
        FIXED_BYTES + self.links.len() * LINK_BYTES + self.options.len() + SIGNATURE_BYTES
    }

    /// Writes the body at the front of `body` and returns its length. `sign` is given the bytes
    /// to be signed, without [`SIGNATURE_CONTEXT`].
    pub fn emit(
        &self,
        body: &mut [u8],
        sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_BYTES],
    ) -> Result<usize, Full> {
        let fits = self.links.len() <= LINKS_MAX
            && self.options.len() <= OPTIONS_BYTES_MAX
            && self.body_bytes() <= body.len();
        if !fits {
            return Err(Full);
        }
        let mut w = Writer::new(body);
        w.u32(self.origin.0)?;
        w.u32(self.seq.0)?;
        w.u16(self.lifetime_s)?;
        w.u32(self.certificate_serial)?;
        w.u8(self.strikes)?;
        w.u8(self.links.len() as u8)?;
        for link in self.links {
            link.write(&mut w)?;
        }
        w.put(self.options)?;
        let signature = sign(w.written());
        w.put(&signature)?;
        Ok(w.len())
    }
}

/// Appends an option: for [`Repr::options`]. All or nothing.
pub fn write_option(w: &mut Writer<'_>, option: Opt<'_>) -> Result<(), Full> {
    let length = u8::try_from(option.value.len()).map_err(|_| Full)?;
    if w.room() < 2 + option.value.len() {
        return Err(Full);
    }
    w.u8(option.kind)?;
    w.u8(length)?;
    w.put(option.value)
}

/// Appends [`OPTION_SEALS`].
pub fn write_seals(w: &mut Writer<'_>, boot: u32) -> Result<(), Full> {
    let [a, b, c, d] = boot.to_be_bytes();
    let (kind, value) = (OPTION_SEALS, &[SEALS_VERSION, a, b, c, d][..]);
    write_option(w, Opt { kind, value })
}

/// Appends [`OPTION_TALLIES`]. Nothing where there is no room.
pub fn write_tallies(w: &mut Writer<'_>) -> Result<(), Full> {
    if w.room() < 3 {
        return Ok(());
    }
    let (kind, value) = (OPTION_TALLIES, &[TALLIES_VERSION][..]);
    write_option(w, Opt { kind, value })
}

/// Appends [`OPTION_GROUP_KEYS`]. Nothing where there is no room.
pub fn write_group_keys(w: &mut Writer<'_>) -> Result<(), Full> {
    if w.room() < 3 {
        return Ok(());
    }
    let (kind, value) = (OPTION_GROUP_KEYS, &[GROUP_KEYS_VERSION][..]);
    write_option(w, Opt { kind, value })
}

/// Appends [`OPTION_GROUP_TALLIES`]. Nothing where there is no room.
pub fn write_group_tallies(w: &mut Writer<'_>) -> Result<(), Full> {
    if w.room() < 3 {
        return Ok(());
    }
    let (kind, value) = (OPTION_GROUP_TALLIES, &[GROUP_TALLIES_VERSION][..]);
    write_option(w, Opt { kind, value })
}

/// Appends [`OPTION_ENDPOINTS`] for the first [`ENDPOINTS_MAX`] of these, as far as there is room. Nothing for none.
pub fn write_endpoints(w: &mut Writer<'_>, endpoints: &[Endpoint]) -> Result<(), Full> {
    let room = w.room().saturating_sub(2) / Endpoint::BYTES;
    let endpoints = &endpoints[..endpoints.len().min(ENDPOINTS_MAX).min(room)];
    if endpoints.is_empty() {
        return Ok(());
    }
    let value: Vec<u8> = endpoints.iter().flat_map(|it| it.to_bytes()).collect();
    let kind = OPTION_ENDPOINTS;
    write_option(
        w,
        Opt {
            kind,
            value: &value,
        },
    )
}

/// Appends [`OPTION_TUNNELS`] for these links by place, as far as there is room. Nothing for none.
pub fn write_tunnels(w: &mut Writer<'_>, places: &[u8]) -> Result<(), Full> {
    let room = w.room().saturating_sub(2).min(u8::MAX.into());
    match &places[..places.len().min(room)] {
        [] => Ok(()),
        value => {
            let kind = OPTION_TUNNELS;
            write_option(w, Opt { kind, value })
        }
    }
}

/// Appends [`OPTION_ALARMS`] for these links by place, if there is room for all.
pub fn write_alarms(w: &mut Writer<'_>, places: &[u8]) -> Result<(), Full> {
    write_bits(w, OPTION_ALARMS, bits_of(None, places))
}

/// Appends [`OPTION_OFFER`] with these links, by place, as those that are kept. There is room for
/// all if it is written before what takes the room that others leave.
pub fn write_offer(w: &mut Writer<'_>, places: &[u8]) -> Result<(), Full> {
    write_bits(w, OPTION_OFFER, bits_of(Some(OFFER_VERSION), places))
}

fn write_bits(
    w: &mut Writer<'_>,
    kind: u8,
    (bytes, len): ([u8; 1 + LINKS_MAX / 8], usize),
) -> Result<(), Full> {
    if w.room() < 2 + len {
        return Ok(());
    }
    let value = &bytes[..len];
    write_option(w, Opt { kind, value })
}

/// Appends [`OPTION_USABLE`] for these links by place; of more than [`USABLE_ENTRIES_MAX`] those
/// that carry least. Nothing for none.
pub fn write_usable(w: &mut Writer<'_>, links: &[(u8, u16)]) -> Result<(), Full> {
    if links.is_empty() {
        return Ok(());
    }
    let mut links = links.to_vec();
    links.sort_by_key(|&(place, bytes)| (bytes, place));
    links.truncate(USABLE_ENTRIES_MAX);
    links.sort_unstable();
    let entry = |&(place, bytes): &(u8, u16)| {
        let [a, b] = bytes.to_be_bytes();
        [place, a, b]
    };
    let value: Vec<u8> = links.iter().flat_map(entry).collect();
    let kind = OPTION_USABLE;
    write_option(
        w,
        Opt {
            kind,
            value: &value,
        },
    )
}

/// Appends [`OPTION_CAPACITY`] for these links by place, with their capacity in kbit/s; of more than
/// there is room for, the narrowest. Nothing for none.
pub fn write_capacities(w: &mut Writer<'_>, links: &[(u8, u32)]) -> Result<(), Full> {
    let room = w.room().saturating_sub(2).min(u8::MAX.into()) / CAPACITY_ENTRY_BYTES;
    if links.is_empty() || room == 0 {
        return Ok(());
    }
    let mut links = links.to_vec();
    links.sort_by_key(|&(place, kbps)| (kbps, place));
    links.truncate(room);
    links.sort_unstable();
    let entry = |&(place, kbps): &(u8, u32)| {
        let [a, b, c, d] = kbps.to_be_bytes();
        [place, a, b, c, d]
    };
    let value: Vec<u8> = links.iter().flat_map(entry).collect();
    let kind = OPTION_CAPACITY;
    write_option(
        w,
        Opt {
            kind,
            value: &value,
        },
    )
}

/// Appends [`OPTION_HOPS`] for these links by place; of more than there is room for, those of the most
/// hops. Nothing for none.
///
/// Choice: whoever is not told takes a link for one of usual length, and errs most with the longest.
pub fn write_hops(w: &mut Writer<'_>, links: &[(u8, NonZeroU8)]) -> Result<(), Full> {
    let room = w.room().saturating_sub(2).min(u8::MAX.into()) / HOPS_ENTRY_BYTES;
    if links.is_empty() || room == 0 {
        return Ok(());
    }
    let mut links = links.to_vec();
    links.sort_by_key(|&(place, hops)| (Reverse(hops), place));
    links.truncate(room);
    links.sort_unstable();
    let value: Vec<u8> = links
        .iter()
        .flat_map(|&(place, hops)| [place, hops.get()])
        .collect();
    let kind = OPTION_HOPS;
    write_option(
        w,
        Opt {
            kind,
            value: &value,
        },
    )
}

/// Appends [`OPTION_VERSION`]. Nothing where there is no room, or it is none that may be told.
pub fn write_version(w: &mut Writer<'_>, version: &str) -> Result<(), Full> {
    if !is_version(version) || w.room() < 2 + version.len() {
        return Ok(());
    }
    let (kind, value) = (OPTION_VERSION, version.as_bytes());
    write_option(w, Opt { kind, value })
}

fn is_version(text: &str) -> bool {
    (1..=VERSION_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests;
