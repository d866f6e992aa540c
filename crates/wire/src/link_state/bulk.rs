//! The part of a record that is for bulk data: the rates that transfers have reached over the origin's links, and
//! whether the origin relays. [Liu04 §IV]
//!
//! ```text
//! +---------------+---------------+---------------+-+-------------+
//! | 0 0 0 0 0 1 1 0 |    6 n      |    place      |F|   spread    |   F: together is all that the link has
//! +---------------+---------------+---------------+-+-------------+
//! |       one connection          |         together              | ...
//! +-------------------------------+-------------------------------+
//!
//! +---------------+---------------+---------------+
//! | 0 0 0 0 0 1 1 1 |      1      |0|S|how|C| load|   C: it relays for nobody; S: for some nodes only;
//! +---------------+---------------+---------------+   load: quarters, 4 full
//! ```
//! A rate has 16 bits: five of an exponent e and eleven of a number m, m · 2^e kbit/s; 0 if it is not known. The
//! rounding error is less than a thousandth, far below the variation of rates from hour to hour.

use super::{LinkState, Opt, RelaysFor, write_option};
use crate::Full;
use crate::bytes::Writer;

/// The option with the rates that transfers have reached over links.
pub const OPTION_RATES: u8 = 6;
/// The option that says whether the origin relays, and how it sends.
pub const OPTION_BULK: u8 = 7;
/// Number of bytes of an entry of [`OPTION_RATES`].
pub const RATES_ENTRY_BYTES: usize = 6;
/// The maximum spread, in per cent; a wider spread is reported as this.
pub const SPREAD_MAX: u8 = 127;

const FLAG_FULL: u8 = 0x80;
const MANTISSA_BITS: u32 = 11;
const FLAG_CLOSED: u8 = 0x08;
const FLAG_SOME: u8 = 0x40;
const LOAD_MASK: u8 = 0x07;
const HOW_SHIFT: u32 = 4;

/// The rates that transfers have reached over a link in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// The rate of one connection, in kbit/s; 0 if it is not known.
    pub one_kbps: u32,
    /// The rate of all connections of a transfer together, in kbit/s; 0 if it is not known.
    pub together_kbps: u32,
    /// More connections would not increase the rate: `together` is all that the link has for a transfer.
    pub is_full: bool,
    /// The uncertainty of the rates, in per cent.
    pub spread_pct: u8,
}

/// How a node's kernel determines the rate of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sending {
    /// Not reported.
    #[default]
    Unknown,
    /// By losses, which slow it down: reno, cubic.
    ByLoss,
    /// By measurement: bbr. No formula of losses applies to it.
    ByRate,
}

impl Sending {
    /// Returns the way of sending of the kernel's congestion control with this name.
    pub fn of_control(name: &str) -> Sending {
        match name {
            "reno" | "cubic" | "htcp" | "bic" | "westwood" | "highspeed" | "scalable" | "hybla"
            | "illinois" | "dctcp" => Sending::ByLoss,
            name if name.starts_with("bbr") => Sending::ByRate,
            _ => Sending::Unknown,
        }
    }
}

/// A node's part in bulk data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bulk {
    /// The node relays for nobody.
    pub is_closed: bool,
    /// The node relays only for some nodes, and refuses the others.
    pub is_for_some: bool,
    /// The nodes for which it relays, if it reports them; otherwise they have to ask.
    pub relays_for: Option<RelaysFor>,
    /// How many quarters of its places for transfers are taken; [`Bulk::LOAD_FULL`] if all are taken.
    pub load: u8,
    /// How the node's connections send.
    pub sending: Sending,
}

impl Bulk {
    /// The load at which no place is free.
    pub const LOAD_FULL: u8 = 4;

    fn to_byte(self) -> u8 {
        let closed = if self.is_closed { FLAG_CLOSED } else { 0 };
        let how = match self.sending {
            Sending::Unknown => 0,
            Sending::ByLoss => 1,
            Sending::ByRate => 2,
        };
        let some = if self.is_for_some { FLAG_SOME } else { 0 };
        some | how << HOW_SHIFT | closed | self.load.min(Bulk::LOAD_FULL)
    }

    fn from_byte(byte: u8) -> Bulk {
        Bulk {
            is_closed: byte & FLAG_CLOSED != 0,
            is_for_some: byte & FLAG_SOME != 0,
            relays_for: None,
            load: (byte & LOAD_MASK).min(Bulk::LOAD_FULL),
            sending: match byte >> HOW_SHIFT & 3 {
                1 => Sending::ByLoss,
                2 => Sending::ByRate,
                _ => Sending::Unknown,
            },
        }
    }
}

impl<'a> LinkState<'a> {
    /// Returns the links with reported rates, by place. Entries that name no link of the record, or contain no rate,
    /// are skipped.
    pub fn rates(&self) -> impl Iterator<Item = (usize, Rates)> + Clone + use<'a> {
        let count = self.links().len();
        let told = self.options().find(|option| option.kind == OPTION_RATES);
        let (entries, _) = told.map_or(&[][..], |option| option.value).as_chunks();
        let read = |&[place, flags, a, b, c, d]: &[u8; RATES_ENTRY_BYTES]| {
            let rates = Rates {
                one_kbps: unpacked(u16::from_be_bytes([a, b])),
                together_kbps: unpacked(u16::from_be_bytes([c, d])),
                is_full: flags & FLAG_FULL != 0,
                spread_pct: flags & !FLAG_FULL,
            };
            (usize::from(place), rates)
        };
        let says = move |(place, rates): &(usize, Rates)| {
            *place < count && (rates.one_kbps > 0 || rates.together_kbps > 0)
        };
        entries.iter().map(read).filter(says)
    }

    /// Returns the origin's part in bulk data, if it is reported.
    pub fn bulk(&self) -> Option<Bulk> {
        let told = self.options().find(|option| option.kind == OPTION_BULK)?;
        let bulk = Bulk::from_byte(*told.value.first()?);
        let relays_for = bulk.is_for_some.then(|| self.relays_for()).flatten();
        Some(Bulk { relays_for, ..bulk })
    }
}

/// Appends [`OPTION_RATES`] for these links by place. If there are more than fit, the slowest are kept. Appends nothing
/// if there are none.
pub fn write_link_rates(w: &mut Writer<'_>, links: &[(u8, Rates)]) -> Result<(), Full> {
    let room = w.room().saturating_sub(2).min(u8::MAX.into()) / RATES_ENTRY_BYTES;
    if links.is_empty() || room == 0 {
        return Ok(());
    }
    let mut links = links.to_vec();
    links.sort_by_key(|(place, rates)| (rates.together_kbps.max(rates.one_kbps), *place));
    links.truncate(room);
    links.sort_by_key(|(place, _)| *place);
    let entry = |(place, rates): &(u8, Rates)| {
        let full = if rates.is_full { FLAG_FULL } else { 0 };
        let [a, b] = packed(rates.one_kbps).to_be_bytes();
        let [c, d] = packed(rates.together_kbps).to_be_bytes();
        let flags = full | rates.spread_pct.min(SPREAD_MAX);
        [*place, flags, a, b, c, d]
    };
    let value: Vec<u8> = links.iter().flat_map(entry).collect();
    let kind = OPTION_RATES;
    let value = &value[..];
    write_option(w, Opt { kind, value })
}

/// Appends [`OPTION_BULK`]; [`super::write_relays_for`] reports for which nodes it relays. Appends nothing if there is
/// no room.
pub fn write_bulk(w: &mut Writer<'_>, bulk: Bulk) -> Result<(), Full> {
    if w.room() < 3 {
        return Ok(());
    }
    let (kind, value) = (OPTION_BULK, &[bulk.to_byte()][..]);
    write_option(w, Opt { kind, value })
}

fn packed(kbps: u32) -> u16 {
    let exponent = (u32::BITS - kbps.leading_zeros()).saturating_sub(MANTISSA_BITS);
    // The exponent is at most 21 in five bits, and eleven bits are left of the number.
    (exponent << MANTISSA_BITS | kbps >> exponent) as u16
}

fn unpacked(rate: u16) -> u32 {
    let mantissa = u64::from(rate & ((1 << MANTISSA_BITS) - 1));
    let kbps = mantissa << (rate >> MANTISSA_BITS);
    u32::try_from(kbps).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::{Link, RecordSeq, Repr, SIGNATURE_BYTES};
    use super::*;
    use crate::record::BODY_BYTES_MAX;
    use base::NodeAddr;
    use proptest::prelude::*;

    fn told(options: &[u8], links: u32) -> (Vec<(usize, Rates)>, Option<Bulk>) {
        let links: Vec<Link> = (0..links)
            .map(|i| Link {
                neighbor: NodeAddr(i + 2),
                ..Link::default()
            })
            .collect();
        let repr = Repr {
            origin: NodeAddr(1),
            seq: RecordSeq(1),
            lifetime_s: 1,
            certificate_serial: 1,
            strikes: 0,
            links: &links,
            options,
        };
        let mut body = [0; BODY_BYTES_MAX];
        let len = repr.emit(&mut body, |_| [0; SIGNATURE_BYTES]).unwrap();
        let state = LinkState::parse(&body[..len]).unwrap();
        (state.rates().collect(), state.bulk())
    }

    #[test]
    fn rates_and_a_node_s_part_are_told_byte_for_byte() {
        let rates = Rates {
            one_kbps: 20_000,
            together_kbps: 80_000,
            is_full: true,
            spread_pct: 15,
        };
        let bulk = Bulk {
            is_closed: true,
            is_for_some: true,
            relays_for: None,
            load: 3,
            sending: Sending::ByRate,
        };
        let mut bytes = [0; 32];
        let mut w = Writer::new(&mut bytes);
        write_link_rates(&mut w, &[]).unwrap();
        write_link_rates(&mut w, &[(1, rates)]).unwrap();
        write_bulk(&mut w, bulk).unwrap();
        // 20 000 = 1250 · 2^4, 80 000 = 1250 · 2^6.
        let expected = [6, 6, 1, 0x8f, 0x24, 0xe2, 0x34, 0xe2, 7, 1, 0x6b];
        assert_eq!(w.written(), expected);
        assert_eq!(told(&expected, 2), (vec![(1, rates)], Some(bulk)));
        assert_eq!(told(&expected, 1).0, [], "of no link");
        assert_eq!(told(&[7, 0], 1).1, None, "empty");
        assert_eq!(told(&[6, 6, 0, 0x8f, 0, 0, 0, 0], 1).0, [], "says nothing");
    }

    #[test]
    fn of_more_links_than_there_is_room_for_the_slowest_are_told() {
        let rates = |i: u8| Rates {
            one_kbps: 1_000 - u32::from(i),
            ..Rates::default()
        };
        let links: Vec<_> = (0..96).map(|i| (i, rates(i))).collect();
        let mut bytes = [0; super::super::OPTIONS_BYTES_MAX];
        let mut w = Writer::new(&mut bytes);
        write_link_rates(&mut w, &links).unwrap();
        let rates = told(w.written(), 96).0;
        assert_eq!((rates.len(), rates[0].0), ((160 - 2) / 6, 96 - 26));
    }

    proptest! {
        #[test]
        fn a_rate_loses_less_than_a_thousandth(kbps: u32) {
            let back = unpacked(packed(kbps));
            prop_assert!(back <= kbps && kbps - back <= kbps / 1_024, "{back}");
        }
    }
}
