//! The rights that a certificate gives its node for the whole network: the groups for which its settings and permits
//! are valid.
//!
//! ```text
//! rights: up to 8 ranges, ascending, none within another
//! +------------------+------------+
//! | first group   4  | prefix  1  |   one range: 239.1.0.0/16 is ef 01 00 00 10
//! +------------------+------------+
//!
//! certificate without the option       all groups, as before there were rights; but see below
//! option with no range                 no group
//! ```
//! The option is not critical. A node of an earlier version skips it and believes every member, as before. If the
//! option were critical, that node would refuse the certificate, and a network could not be upgraded node by node.
//!
//! A delegation restricts the rights that its issuer may give. Choice: the restriction is a word among the delegation's
//! domains, `_groups` or `_groups.ef01000010`, because a delegation has no options, and nodes of earlier versions
//! refuse a longer one. They take the word for a domain that nobody serves. Rights beyond the bound are invalid. Under
//! a bounded delegation, a certificate without the option has no rights, so that an issuer cannot extend rights by
//! omitting the option. A delegation without the word restricts nothing: certificates that were signed under it stay
//! valid as before.

use crate::bytes::{Reader, Writer};
use crate::groups::{is_group, mask};
use crate::{Full, Malformed};
use base::NodeAddr;
use core::fmt;
use core::str::FromStr;

/// The maximum number of ranges in one certificate.
pub const MAX_RANGES: usize = 8;
/// Number of bytes of a range: the first group and the length of the prefix.
const RANGE_BYTES: usize = 5;
/// The maximum length of rights.
pub const MAX_RIGHTS_BYTES: usize = MAX_RANGES * RANGE_BYTES;
/// The word that restricts a delegation, and the separator before each range in it.
const BOUND: &str = "_groups";
const BOUND_SEPARATOR: char = '.';
/// Number of hexadecimal digits of a range in a word.
const DIGITS: usize = 2 * RANGE_BYTES;
/// The longest word.
const MAX_WORD_BYTES: usize = BOUND.len() + MAX_RANGES * (1 + DIGITS);

/// A range of groups that share their first bits, written `239.1.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupRange {
    first: NodeAddr,
    prefix: u8,
}

/// The text or the numbers are not a range of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a range of groups: write it like 239.1.0.0/16, from 224.0.0.0 on")]
pub struct BadRange;

/// Ranges of groups in their wire format.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Rights<'a>(&'a [u8]);

impl GroupRange {
    /// The range of all groups: multicast and anycast.
    pub const ALL: GroupRange = GroupRange {
        first: NodeAddr(0xe000_0000),
        prefix: 3,
    };

    /// Returns the groups from `first` on that share `prefix` bits with it.
    pub fn new(first: NodeAddr, prefix: u8) -> Result<GroupRange, BadRange> {
        let is_range =
            is_group(first) && (3..=32).contains(&prefix) && first.0 & !mask(prefix) == 0;
        match is_range {
            true => Ok(GroupRange { first, prefix }),
            false => Err(BadRange),
        }
    }

    /// Returns true if this range contains all groups of the other one.
    pub fn covers(self, other: GroupRange) -> bool {
        self.prefix <= other.prefix && other.first.0 & mask(self.prefix) == self.first.0
    }

    fn bytes(self) -> [u8; RANGE_BYTES] {
        let [a, b, c, d] = self.first.0.to_be_bytes();
        [a, b, c, d, self.prefix]
    }

    fn of(bytes: [u8; RANGE_BYTES]) -> Result<GroupRange, BadRange> {
        let [a, b, c, d, prefix] = bytes;
        GroupRange::new(NodeAddr(u32::from_be_bytes([a, b, c, d])), prefix)
    }
}

impl FromStr for GroupRange {
    type Err = BadRange;
    fn from_str(text: &str) -> Result<GroupRange, BadRange> {
        let (first, prefix) = text.split_once('/').unwrap_or((text, "32"));
        let first = first.parse().map_err(|_| BadRange)?;
        GroupRange::new(first, prefix.parse().map_err(|_| BadRange)?)
    }
}

impl fmt::Display for GroupRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix {
            32 => self.first.fmt(f),
            prefix => write!(f, "{}/{prefix}", self.first),
        }
    }
}

impl<'a> Rights<'a> {
    /// Rights for no group.
    pub const NONE: Rights<'static> = Rights(&[]);

    /// Reads rights that fill `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Rights<'a>, Malformed> {
        let (ranges, rest) = bytes.as_chunks::<RANGE_BYTES>();
        if !rest.is_empty() {
            return Err(Malformed::Length);
        }
        if ranges.len() > MAX_RANGES {
            return Err(Malformed::Count);
        }
        let rights = Rights(bytes);
        let is_range = |range: &[u8; RANGE_BYTES]| GroupRange::of(*range).is_ok();
        if !ranges.iter().all(is_range) || !rights.iter().is_sorted_by(follows) {
            return Err(Malformed::Value);
        }
        Ok(rights)
    }

    /// Appends rights to `ranges`, which may be in any order and contain each other. Returns [`Full`] also if there are
    /// too many.
    pub fn emit(ranges: &[GroupRange], w: &mut Writer<'_>) -> Result<(), Full> {
        let mut ranges = ranges.to_vec();
        // Wider ranges come first, so that each covered range comes after the range that covers it.
        ranges.sort_unstable();
        ranges.dedup_by(|later, earlier| earlier.covers(*later));
        if ranges.len() > MAX_RANGES {
            return Err(Full);
        }
        ranges.iter().try_for_each(|range| w.put(&range.bytes()))
    }

    /// Returns the ranges, ascending.
    pub fn iter(&self) -> impl Iterator<Item = GroupRange> + use<'a> {
        let (ranges, _) = self.0.as_chunks::<RANGE_BYTES>();
        // The ranges were checked when they were parsed.
        ranges
            .iter()
            .filter_map(|range| GroupRange::of(*range).ok())
    }

    /// Returns true if settings and permits for the whole range are valid.
    pub fn covers(&self, range: GroupRange) -> bool {
        self.iter().any(|own| own.covers(range))
    }

    /// Returns the wire format.
    pub(super) fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Debug for Rights<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The groups for which a delegation lets an issuer give rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound(Vec<GroupRange>);

impl Bound {
    /// Parses the word of a delegation; `None` if it is an ordinary domain. A word that looks like a bound and cannot
    /// be parsed lets an issuer give no rights.
    pub(super) fn read(word: &str) -> Option<Bound> {
        let rest = word.strip_prefix(BOUND)?;
        if rest.is_empty() {
            return Some(Bound(Vec::new()));
        }
        let ranges = rest.strip_prefix(BOUND_SEPARATOR)?.split(BOUND_SEPARATOR);
        let ranges: Option<Vec<GroupRange>> = ranges.map(range_of).collect();
        let ranges = ranges.filter(|ranges| ranges.len() <= MAX_RANGES);
        Some(Bound(ranges.unwrap_or_default()))
    }

    /// Returns the word for a delegation; [`Full`] if there are too many ranges.
    pub fn word(ranges: &[GroupRange]) -> Result<String, Full> {
        let mut room = [0; MAX_RIGHTS_BYTES];
        let mut w = Writer::new(&mut room);
        Rights::emit(ranges, &mut w)?;
        let mut word = String::with_capacity(MAX_WORD_BYTES);
        word.push_str(BOUND);
        let mut r = Reader::new(w.written());
        while let Ok(range) = r.array::<RANGE_BYTES>() {
            word.push(BOUND_SEPARATOR);
            word.extend(range.map(|byte| format!("{byte:02x}")));
        }
        Ok(word)
    }

    /// Returns the ranges.
    pub fn ranges(&self) -> &[GroupRange] {
        &self.0
    }

    /// Returns true if the issuer may give rights for the whole range.
    pub fn covers(&self, range: GroupRange) -> bool {
        self.0.iter().any(|own| own.covers(range))
    }
}

/// Returns true for a word that no domain may have.
pub(super) fn is_bound(word: &str) -> bool {
    Bound::read(word).is_some()
}

fn range_of(digits: &str) -> Option<GroupRange> {
    if digits.len() != DIGITS {
        return None;
    }
    let mut bytes = [0; RANGE_BYTES];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    GroupRange::of(bytes).ok()
}

fn follows(one: &GroupRange, next: &GroupRange) -> bool {
    one < next && !one.covers(*next)
}

#[cfg(test)]
mod tests;
