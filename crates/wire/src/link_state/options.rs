//! The options of a link-state record, but those of bulk data, hosts and protection: their types and layout, and how they are
//! written. What room they take is bounded: see [`OPTIONS_BYTES_MAX`].

use super::{LINKS_MAX, OPTIONS_BYTES_MAX, Opt};
use crate::bytes::Writer;
use crate::{Endpoint, Full};
use core::cmp::Reverse;
use core::num::NonZeroU8;

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

/// Appends an option: for [`super::Repr::options`]. All or nothing.
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

pub(super) fn is_version(text: &str) -> bool {
    (1..=VERSION_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic())
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
