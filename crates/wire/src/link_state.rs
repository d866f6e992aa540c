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
//! The signature is Ed25519 by the origin over [`SIGNATURE_CONTEXT`] and everything before the signature. Strikes are
//! how often the origin requests a packet that a real-time lane has lost; 0 if it is not reported. Unknown options are
//! kept and flooded unchanged, unless they are critical (C): then the record is not used. Latency, loss and
//! [`Availability`] are for the direction from the origin to the neighbor.

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

/// The prefix of the signed bytes for signing.
pub const SIGNATURE_CONTEXT: &[u8] = b"sinew link state 1";
/// Number of bytes of the signature.
pub const SIGNATURE_BYTES: usize = 64;
/// Number of bytes in front of the links.
pub const FIXED_BYTES: usize = 16;
/// Number of bytes of one link.
pub const LINK_BYTES: usize = 10;
/// The maximum number of links of one node. With all links and options, a body has its maximum length: 16 + 96 · 10 +
/// 160 + 64 = 1200 bytes.
pub const LINKS_MAX: usize = 96;
/// The maximum number of bytes of options.
pub const OPTIONS_BYTES_MAX: usize = 160;

const _: () = assert!(
    FIXED_BYTES + LINKS_MAX * LINK_BYTES + OPTIONS_BYTES_MAX + SIGNATURE_BYTES == BODY_BYTES_MAX
);

/// One link of the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The other end.
    pub neighbor: NodeAddr,
    /// The one-way delay.
    pub latency: Latency,
    /// The share of packets lost before recovery.
    pub loss: Loss,
    /// The price of the link's recent outages, and whether the neighbor is heard.
    pub availability: Availability,
}

/// A part of a record that a node may or may not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt<'a> {
    /// The kind of the option.
    pub kind: u8,
    /// The content of the option.
    pub value: &'a [u8],
}

/// A view of a record's body. Everything but the signature itself has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState<'a> {
    /// The node whose links these are.
    pub origin: NodeAddr,
    /// The version of the record.
    pub seq: RecordSeq,
    /// How long the record is valid, from its making.
    pub lifetime_s: u16,
    /// The serial of the certificate whose key has signed.
    pub certificate_serial: u32,
    /// How often the origin requests a lost packet of a real-time lane; 0 if it is not reported.
    pub strikes: u8,
    body: &'a [u8],
    links: &'a [u8],
    options: &'a [u8],
}

impl<'a> LinkState<'a> {
    /// Reads a body. An unknown critical option gives [`Malformed::Critical`].
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

    /// Returns the record's key.
    pub const fn key(&self) -> Key {
        Key {
            kind: RecordKind::LINK_STATE,
            origin: self.origin,
            seq: self.seq,
        }
    }

    /// Returns the links, in the origin's order.
    pub fn links(&self) -> impl ExactSizeIterator<Item = Link> + Clone + use<'a> {
        let (links, _) = self.links.as_chunks();
        links.iter().map(|&bytes| Link::from_bytes(bytes))
    }

    /// Returns the links that are reported to carry less than others, by place, with the bytes that they carry. Entries
    /// that name no link of the record, or more than others carry, are skipped.
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

    /// Returns the links with a reported capacity, by place, with their capacity in kbit/s. Entries that name no link
    /// of the record are skipped.
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

    /// Returns the links with a reported number of physical links, by place. Entries that name no link of the record,
    /// or no physical link, are skipped.
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

    /// Returns the version of the origin's program, if it reports one that can be displayed: a version that is too
    /// long, or could disturb a terminal, is ignored.
    pub fn version(&self) -> Option<&'a str> {
        let told = self
            .options()
            .find(|option| option.kind == OPTION_VERSION)?;
        core::str::from_utf8(told.value)
            .ok()
            .filter(|text| is_version(text))
    }

    /// Returns the origin's boot, if it seals from end to end in a supported way.
    pub fn seals(&self) -> Option<u32> {
        let mut options = self.options();
        let told = options.find(|option| option.kind == OPTION_SEALS)?;
        match *told.value {
            [SEALS_VERSION, a, b, c, d] => Some(u32::from_be_bytes([a, b, c, d])),
            _ => None,
        }
    }

    /// Returns true if the origin reports how much it has opened, in a supported way.
    pub fn tallies(&self) -> bool {
        let mut options = self.options();
        let told = options.find(|option| option.kind == OPTION_TALLIES);
        told.is_some_and(|option| option.value == [TALLIES_VERSION])
    }

    /// Returns true if the origin opens what is sealed for a group, in a supported way.
    pub fn has_group_keys(&self) -> bool {
        let mut options = self.options();
        let told = options.find(|option| option.kind == OPTION_GROUP_KEYS);
        told.is_some_and(|option| option.value == [GROUP_KEYS_VERSION])
    }

    /// Returns true if the origin reports how much it has opened of what was sent to groups, in a supported way.
    pub fn tallies_groups(&self) -> bool {
        let mut options = self.options();
        let told = options.find(|option| option.kind == OPTION_GROUP_TALLIES);
        told.is_some_and(|option| option.value == [GROUP_TALLIES_VERSION])
    }

    /// Returns the addresses at which neighbors see the origin. Addresses that cannot be dialled are skipped; the
    /// reader must judge addresses of its own host.
    pub fn endpoints(&self) -> impl Iterator<Item = Endpoint> + Clone + use<'a> {
        let mut options = self.options();
        let told = options.find(|option| option.kind == OPTION_ENDPOINTS);
        let (entries, _) = told.map_or(&[][..], |option| option.value).as_chunks();
        let entries = entries.iter().take(ENDPOINTS_MAX);
        entries
            .map(Endpoint::from_bytes)
            .filter(|endpoint| endpoint.is_dialable() || endpoint.is_loopback())
    }

    /// Returns the links that run over a byte stream, by place. Entries that name no link of the record are skipped.
    pub fn tunnels(&self) -> impl Iterator<Item = usize> + Clone + use<'a> {
        let count = self.links().len();
        let mut options = self.options();
        let told = options.find(|option| option.kind == OPTION_TUNNELS);
        let places = told.map_or(&[][..], |option| option.value).iter();
        let places = places.map(|place| usize::from(*place));
        places.filter(move |place| *place < count)
    }

    /// Returns the links over which packets to the origin are being lost, by place, if the origin watches them. Entries
    /// that name no link of the record are skipped.
    pub fn alarms(&self) -> Option<impl Iterator<Item = usize> + Clone + use<'a>> {
        let count = self.links().len();
        let told = self.options().find(|option| option.kind == OPTION_ALARMS)?;
        Some((0..count).filter(|place| is_set(told.value, *place)))
    }

    /// Returns the links that the origin keeps, by place, if it offers itself as a neighbor in a supported way. Entries
    /// that name no link of the record are skipped.
    pub fn offer(&self) -> Option<impl Iterator<Item = usize> + Clone + use<'a>> {
        let count = self.links().len();
        let told = self.options().find(|option| option.kind == OPTION_OFFER)?;
        match told.value {
            [OFFER_VERSION, bits @ ..] => Some((0..count).filter(|place| is_set(bits, *place))),
            _ => None,
        }
    }

    /// Returns the options, known and unknown.
    pub fn options(&self) -> impl Iterator<Item = Opt<'a>> + Clone + use<'a> {
        let mut r = Reader::new(self.options);
        core::iter::from_fn(move || Opt::read(&mut r).ok())
    }

    /// Returns all bytes of the body, which are stored and flooded.
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Returns the bytes that the origin has signed, after [`SIGNATURE_CONTEXT`].
    pub fn signed_bytes(&self) -> &'a [u8] {
        &self.body[..self.body.len() - SIGNATURE_BYTES]
    }

    /// Returns the signature over the signed bytes.
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

/// Returns bit `place` of `bits`, counted from the lowest of the first byte.
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

/// A body for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr<'a> {
    /// The node whose links these are.
    pub origin: NodeAddr,
    /// The version of the record.
    pub seq: RecordSeq,
    /// How long the record is valid.
    pub lifetime_s: u16,
    /// The serial of the certificate whose key signs.
    pub certificate_serial: u32,
    /// How often the origin requests a lost packet; 0 to leave it open.
    pub strikes: u8,
    /// The links, at most [`LINKS_MAX`].
    pub links: &'a [Link],
    /// The options in their wire format, at most [`OPTIONS_BYTES_MAX`]; see [`write_option`].
    pub options: &'a [u8],
}

impl Repr<'_> {
    /// Returns the number of bytes of the body, signature included.
    pub const fn body_bytes(&self) -> usize {
        FIXED_BYTES + self.links.len() * LINK_BYTES + self.options.len() + SIGNATURE_BYTES
    }

    /// Writes the body at the front of `body` and returns its length. `sign` gets the bytes to be signed, without
    /// [`SIGNATURE_CONTEXT`].
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
