//! The options of a link-state record, except those of bulk data, hosts and protection: their types and layout, and how
//! they are written. Their total length is bounded: see [`OPTIONS_BYTES_MAX`].

use super::{LINKS_MAX, OPTIONS_BYTES_MAX, Opt};
use crate::bytes::Writer;
use crate::{Endpoint, Full};
use core::cmp::Reverse;
use core::num::NonZeroU8;

/// The option that names the links that carry shorter datagrams than usual: `n` times the place of a link in the record
/// (1 byte) and the longest datagram that it carries (2 bytes), which is what UDP carries. Links that are not named
/// carry [`USABLE_BYTES_DEFAULT`].
///
/// ```text
/// +---------------+---------------+---------------+-------------------------------+
/// | 0 0 0 0 0 0 0 1 |    3 n      |    place      |             bytes             | ...
/// +---------------+---------------+---------------+-------------------------------+
/// ```
pub const OPTION_USABLE: u8 = 1;
/// The option with the capacity of links in this direction, where it is configured: `n` times the place of a link in
/// the record (1 byte) and its capacity in kbit/s (4 bytes). It uses the room that [`OPTION_USABLE`] leaves.
///
/// ```text
/// +---------------+---------------+---------------+-------------------------------+
/// | 0 0 0 0 0 0 1 0 |    5 n      |    place      |       kbit/s (4 bytes)        | ...
/// +---------------+---------------+---------------+-------------------------------+
/// ```
pub const OPTION_CAPACITY: u8 = 2;
/// The option with the number of physical links that a link crosses in this direction, which is the number of routers
/// on the path plus one [Liu04 §IV-C]: `n` times the place of a link in the record (1 byte) and the number (1 byte, not
/// 0). It uses the room that the other options leave.
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// | 0 0 0 0 0 1 0 0 |    2 n      |    place      |     hops      | ...
/// +---------------+---------------+---------------+---------------+
/// ```
pub const OPTION_HOPS: u8 = 4;
/// The option with the version of the origin's program, for people: printable ASCII, such as `0.1.0`. It uses the room
/// that the other options leave.
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// | 0 0 0 0 0 1 0 1 |  n, 1 to 24   |            text, n bytes            |
/// +---------------+---------------+---------------+---------------+
/// ```
pub const OPTION_VERSION: u8 = 5;
/// The option that says that the origin seals from end to end: packets for it come sealed from every node that supports
/// it, and packets from it are sealed. A node that gets an unsealed packet in the origin's name drops it. The option
/// comes before the others, which use the room that it leaves. The boot changes with each start of the origin: keys
/// that were agreed on before are then gone.
///
/// ```text
/// +---------------+---------------+---------------+-------------------------------+
/// | 0 0 0 0 1 0 0 0 |       5       |  version, 1   |        boot (4 bytes)         |
/// +---------------+---------------+---------------+-------------------------------+
/// ```
pub const OPTION_SEALS: u8 = 8;
/// The option with the addresses at which neighbors see the origin: `n` times an [`Endpoint`], at most
/// [`ENDPOINTS_MAX`]. Nodes that have traffic for the origin and no link to it may dial it there.
///
/// ```text
/// +---------------+---------------+---------------+-------------------------------+
/// | 0 0 0 0 1 0 1 0 |   18 n      |   address (16 bytes), port (2 bytes)  | ...
/// +---------------+---------------+---------------+-------------------------------+
/// ```
pub const OPTION_ENDPOINTS: u8 = 10;
/// The option that names the links that run over a byte stream (TCP) in this direction: `n` times the place of a link
/// in the record (1 byte), in rising order. It is for people: the cost of these links is in the record. It uses the
/// room that the other options leave.
///
/// ```text
/// +---------------+---------------+---------------+
/// | 0 0 0 0 1 1 0 0 |       n       |    place      | ...
/// +---------------+---------------+---------------+
/// ```
pub const OPTION_TUNNELS: u8 = 12;
/// The option that names the links over which packets to the origin are being lost, as far as the origin knows: bit `i`
/// of byte `k`, from the lowest, is the link with the place `8 k + i` in the record, in the direction from the neighbor
/// to the origin. Zero bytes at the end are left out. An origin that watches its links sends the option even if there
/// is no such link; for a record without it, readers use the losses of the links. It uses the room that the other
/// options leave.
///
/// ```text
/// +---------------+---------------+---------------+
/// | 0 0 0 0 1 1 0 1 |  n, 0 to 12   |     bits      | ...
/// +---------------+---------------+---------------+
/// ```
pub const OPTION_ALARMS: u8 = 13;
/// The option that says that the origin reports how many of another end's datagrams it has opened
/// ([`crate::transport::Tally`]). It uses the room that the first three options leave.
///
/// ```text
/// +---------------+---------------+---------------+
/// | 0 0 0 0 1 1 1 0 |       1       |  version, 1   |
/// +---------------+---------------+---------------+
/// ```
pub const OPTION_TALLIES: u8 = 14;
/// The option that says that the origin opens what is sealed for a group, requests keys of groups and gives its own
/// ([`crate::transport::GroupKey`]), and seals what it sends to groups if all members can open it. It uses the room
/// that the first three options leave.
///
/// ```text
/// +---------------+---------------+---------------+
/// | 0 0 0 0 1 1 1 1 |       1       |  version, 1   |
/// +---------------+---------------+---------------+
/// ```
pub const OPTION_GROUP_KEYS: u8 = 15;
/// The option that says that the origin reports how many packets under a key of a group it has opened
/// ([`crate::transport::Tally::AskedOfKey`]), and accepts packets to a group directly from their source
/// ([`crate::transport::group_copy()`]). It uses the room that the other options leave.
///
/// ```text
/// +---------------+---------------+---------------+
/// | 0 0 0 1 0 0 0 0 |       1       |  version, 1   |
/// +---------------+---------------+---------------+
/// ```
pub const OPTION_GROUP_TALLIES: u8 = 16;
/// The option that says that the origin offers itself as a neighbor to every node for which a link to it is worthwhile,
/// and finds such links itself. Bit `i` of byte `k` after the version, from the lowest, is the link with the place
/// `8 k + i` in the record: the origin keeps this link. Either end may end a link that neither end keeps. Zero bytes at
/// the end are left out. There is always room for this option.
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// | 0 0 0 1 0 0 1 0 | n, 1 to 13  |  version, 1   |     bits      | ...
/// +---------------+---------------+---------------+---------------+
/// ```
pub const OPTION_OFFER: u8 = 18;
/// The maximum number of endpoints of an origin: one of each family, or two that a NAT has given it.
pub const ENDPOINTS_MAX: usize = 2;
/// The version of the seal from end to end in the option.
pub const SEALS_VERSION: u8 = 1;
/// The version of [`OPTION_TALLIES`].
pub const TALLIES_VERSION: u8 = 1;
/// The version of [`OPTION_GROUP_KEYS`].
pub const GROUP_KEYS_VERSION: u8 = 1;
/// The version of [`OPTION_GROUP_TALLIES`].
pub const GROUP_TALLIES_VERSION: u8 = 1;
/// The version of [`OPTION_OFFER`].
pub const OFFER_VERSION: u8 = 1;
/// The maximum length of a reported version: `100.100.100-rc.100+build` has this length.
pub const VERSION_BYTES_MAX: usize = 24;
/// Number of bytes of an entry of a capacity.
pub const CAPACITY_ENTRY_BYTES: usize = 5;
/// Number of bytes of an entry of physical hops.
pub const HOPS_ENTRY_BYTES: usize = 2;
/// Number of bytes of an entry of a link that carries shorter datagrams.
pub const USABLE_ENTRY_BYTES: usize = 3;
/// Number of bytes of [`OPTION_SEALS`].
pub const SEALS_BYTES: usize = 7;
/// The maximum number of links in [`OPTION_USABLE`]: 7 + 2 · 3 + 15 + 2 + 43 · 3 = 159 bytes of options.
pub const USABLE_ENTRIES_MAX: usize =
    (OPTIONS_BYTES_MAX - SEALS_BYTES - 2 * WORD_BYTES - OFFER_BYTES - 2) / USABLE_ENTRY_BYTES;
/// Number of bytes of [`OPTION_OFFER`] that names all links.
const OFFER_BYTES: usize = 2 + 1 + LINKS_MAX / 8;
/// Number of bytes of [`OPTION_TALLIES`], and of [`OPTION_GROUP_KEYS`]: there is always room for them.
const WORD_BYTES: usize = 3;
/// The longest sealed datagram that a link is assumed to carry: a packet with 1392 bytes of payload.
pub const USABLE_BYTES_DEFAULT: u16 = 1_439;

/// Appends an option to the bytes for [`super::Repr::options`]. Appends all or nothing.
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

/// Appends [`OPTION_TALLIES`]. Appends nothing if there is no room.
pub fn write_tallies(w: &mut Writer<'_>) -> Result<(), Full> {
    if w.room() < 3 {
        return Ok(());
    }
    let (kind, value) = (OPTION_TALLIES, &[TALLIES_VERSION][..]);
    write_option(w, Opt { kind, value })
}

/// Appends [`OPTION_GROUP_KEYS`]. Appends nothing if there is no room.
pub fn write_group_keys(w: &mut Writer<'_>) -> Result<(), Full> {
    if w.room() < 3 {
        return Ok(());
    }
    let (kind, value) = (OPTION_GROUP_KEYS, &[GROUP_KEYS_VERSION][..]);
    write_option(w, Opt { kind, value })
}

/// Appends [`OPTION_GROUP_TALLIES`]. Appends nothing if there is no room.
pub fn write_group_tallies(w: &mut Writer<'_>) -> Result<(), Full> {
    if w.room() < 3 {
        return Ok(());
    }
    let (kind, value) = (OPTION_GROUP_TALLIES, &[GROUP_TALLIES_VERSION][..]);
    write_option(w, Opt { kind, value })
}

/// Appends [`OPTION_ENDPOINTS`] for the first [`ENDPOINTS_MAX`] of these, as far as there is room. Appends nothing if
/// there are none.
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

/// Appends [`OPTION_TUNNELS`] for these links by place, as far as there is room. Appends nothing if there are none.
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

/// Appends [`OPTION_OFFER`] with these links, by place, as those that are kept. There is room for all if it is written
/// before the options that use the remaining room.
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

/// Appends [`OPTION_USABLE`] for these links by place. If there are more than [`USABLE_ENTRIES_MAX`], those that carry
/// least are kept. Appends nothing if there are none.
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

/// Appends [`OPTION_CAPACITY`] for these links by place, with their capacity in kbit/s. If there are more than fit, the
/// narrowest are kept. Appends nothing if there are none.
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

/// Appends [`OPTION_HOPS`] for these links by place. If there are more than fit, those with the most hops are kept.
/// Appends nothing if there are none.
///
/// Choice: a reader without a number assumes a link of usual length, and its error is largest for the longest links.
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

/// Appends [`OPTION_VERSION`]. Appends nothing if there is no room, or if the version must not be reported.
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

/// Returns these places as bits after `before`, with the number of bytes of both.
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
