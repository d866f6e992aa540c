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
mod options;
mod protection;
mod relays_for;

pub use protection::{
    OPTION_PROTECTION, PROTECTION_ENTRIES_MAX, Protection, REPAIR_16THS, RUN_256THS,
    write_protections,
};

pub use options::{
    CAPACITY_ENTRY_BYTES, ENDPOINTS_MAX, GROUP_KEYS_VERSION, GROUP_TALLIES_VERSION,
    HOPS_ENTRY_BYTES, OFFER_VERSION, OPTION_ALARMS, OPTION_CAPACITY, OPTION_ENDPOINTS,
    OPTION_GROUP_KEYS, OPTION_GROUP_TALLIES, OPTION_HOPS, OPTION_OFFER, OPTION_SEALS,
    OPTION_TALLIES, OPTION_TUNNELS, OPTION_USABLE, OPTION_VERSION, SEALS_BYTES, SEALS_VERSION,
    TALLIES_VERSION, USABLE_BYTES_DEFAULT, USABLE_ENTRIES_MAX, USABLE_ENTRY_BYTES,
    VERSION_BYTES_MAX, write_alarms, write_capacities, write_endpoints, write_group_keys,
    write_group_tallies, write_hops, write_offer, write_option, write_seals, write_tallies,
    write_tunnels, write_usable, write_version,
};

pub use hosts::{HOSTS_MAX, OPTION_HOSTS, write_hosts};

pub use relays_for::{MARK_BYTES, MARKS_MAX, OPTION_RELAYS_FOR, RelaysFor, write_relays_for};

pub use bulk::{
    Bulk, OPTION_BULK, OPTION_RATES, RATES_ENTRY_BYTES, Rates, SPREAD_MAX, Sending, write_bulk,
    write_link_rates,
};

use crate::bytes::{Reader, Writer};
use crate::control::CRITICAL;
use crate::record::{BODY_BYTES_MAX, Key, RecordKind, RecordSeq};
use crate::{Availability, Endpoint, Full, Latency, Loss, Malformed};
use base::NodeAddr;
use core::num::NonZeroU8;
use options::is_version;

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

#[cfg(test)]
mod tests;
