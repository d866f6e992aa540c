//! The option of a link-state record that reports how the real-time lanes of its links are protected.
//!
//! ```text
//! +---------------+---------------+---------------+---------------+---------------+
//! | 0 0 0 1 0 0 0 1 |    1 + 2 n    |  of the rest  |     place     |   of that     | ...
//! +---------------+---------------+---------------+---------------+---------------+
//!
//!   a protection   |Q|A| repair |  run  |
//! ```
//! The first byte applies to all links that are not named; each further pair contains the place of a link in the record
//! and the protection of that link. Most links of a node are alike, so 3 bytes are enough for all of them.
//!
//! Run is the mean length of a run of losses in the direction from the origin to the neighbor, one of [`RUN_256THS`].
//! Repair is how many repair packets per packet the origin may send in that direction for a single call, one of
//! [`REPAIR_16THS`]; 0 if it sends none. A says that the origin requests packets that it misses in the direction from
//! the neighbor, as often as the record says. Q says that the origin sends no repair because a queue in front of the link
//! drops packets: the ends of a flow should not add any either. Earlier versions do not set Q, and ignore it.

use super::{LINKS_MAX, LinkState, Opt, write_option};
use crate::Full;
use crate::bytes::Writer;

/// The option that reports how the real-time lanes of the links are protected. It uses the room that the first options
/// leave.
pub const OPTION_PROTECTION: u8 = 17;
/// The maximum number of links that are named: 67 bytes. The others are reported with the value of most links.
pub const PROTECTION_ENTRIES_MAX: usize = 32;
/// The mean lengths of runs that are distinguished, in 256ths of a packet. The first means that it is not known.
///
/// Choice: steps of a third and more. The mean over 50 runs is off by a tenth, and the loss that repair leaves about
/// doubles with each step.
pub const RUN_256THS: [u16; 8] = [0, 256, 341, 427, 512, 717, 1_024, 1_536];
/// The numbers of repair packets per 16 packets. Higher codes belong to later versions, and count as none.
pub const REPAIR_16THS: [u8; 5] = [0, 4, 8, 16, 32];

/// The protection of a link's real-time lane, in the form of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protection {
    run: u8,
    repair: u8,
    asks: bool,
    is_queued: bool,
}

impl Protection {
    /// Rounds known values to those that can be represented: the mean length of a run of losses in 256ths of a packet
    /// to the nearest one, 0 if it is not known; repair packets per 16 packets down.
    pub fn new(run_256ths: u16, repair_16ths: u8, asks: bool) -> Protection {
        let nearest = |code: &usize| RUN_256THS[*code].abs_diff(run_256ths);
        let run = match run_256ths {
            0 => 0,
            _ => (1..RUN_256THS.len()).min_by_key(nearest).unwrap_or(0),
        };
        let allowed = REPAIR_16THS.iter().rposition(|told| *told <= repair_16ths);
        Protection {
            run: run as u8,
            repair: allowed.unwrap_or(0) as u8,
            asks,
            is_queued: false,
        }
    }

    /// Returns the same protection with the statement whether a queue in front of the link drops packets.
    pub const fn with_queue(self, is_queued: bool) -> Protection {
        Protection { is_queued, ..self }
    }

    /// Returns true if the link has no repair because a queue in front of it drops packets.
    pub const fn is_queued(self) -> bool {
        self.is_queued
    }

    /// Returns the mean length of a run of losses in 256ths of a packet, if it is known.
    pub fn run_256ths(self) -> Option<u16> {
        Some(RUN_256THS[usize::from(self.run)]).filter(|run| *run > 0)
    }

    /// Returns the number of repair packets per 16 packets.
    pub fn repair_16ths(self) -> u8 {
        let told = REPAIR_16THS.get(usize::from(self.repair));
        told.copied().unwrap_or(0)
    }

    /// Returns true if the origin requests packets that it misses.
    pub const fn asks(self) -> bool {
        self.asks
    }

    /// Returns the byte in a record.
    pub const fn to_byte(self) -> u8 {
        (self.is_queued as u8) << 7 | (self.asks as u8) << 6 | self.repair << 3 | self.run
    }

    /// Reads the byte of a record.
    pub const fn from_byte(byte: u8) -> Protection {
        Protection {
            run: byte & 7,
            repair: byte >> 3 & 7,
            asks: byte & 0x40 != 0,
            is_queued: byte & 0x80 != 0,
        }
    }
}

impl<'a> LinkState<'a> {
    /// Returns the protections of the links' lanes, link by link, if the origin reports them. Entries that name no link
    /// of the record are skipped, and the last entry for a link counts.
    pub fn protections(&self) -> Option<impl ExactSizeIterator<Item = Protection> + use<'a>> {
        let mut options = self.options();
        let told = options.find(|option| option.kind == OPTION_PROTECTION)?;
        let (rest, named) = told.value.split_first()?;
        let mut all = [Protection::from_byte(*rest); LINKS_MAX];
        let (named, _) = named.as_chunks();
        for [place, byte] in named {
            if let Some(link) = all.get_mut(usize::from(*place)) {
                *link = Protection::from_byte(*byte);
            }
        }
        Some(all.into_iter().take(self.links().len()))
    }
}

/// Appends [`OPTION_PROTECTION`] for all links of a record by place, the most important ones first. If there are more
/// than fit, the first ones are named. Appends nothing if there are none.
pub fn write_protections(w: &mut Writer<'_>, links: &[(u8, Protection)]) -> Result<(), Full> {
    let count = |byte: u8| links.iter().filter(|it| it.1.to_byte() == byte).count();
    let bytes = links.iter().map(|it| it.1.to_byte());
    // Of equally frequent values, the lowest is used, whatever the order.
    let rest = bytes.max_by_key(|byte| (count(*byte), core::cmp::Reverse(*byte)));
    let (Some(rest), Some(room)) = (rest, w.room().checked_sub(3)) else {
        return Ok(());
    };
    let others = links.iter().filter(|it| it.1.to_byte() != rest);
    let named = others.take(PROTECTION_ENTRIES_MAX.min(room / 2));
    let mut named: Vec<[u8; 2]> = named.map(|(place, it)| [*place, it.to_byte()]).collect();
    named.sort_unstable();
    let value: Vec<u8> = core::iter::once(rest).chain(named.concat()).collect();
    let kind = OPTION_PROTECTION;
    write_option(
        w,
        Opt {
            kind,
            value: &value,
        },
    )
}
