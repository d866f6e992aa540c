//! The node's own records.

use super::{Claim, Database};
use crate::link_state::Name;
use base::{Duration, NodeAddr, Time};
use secure::network::CLOCK_SKEW_S;
use wire::link_state::{LINKS_MAX, Link, Repr, SIGNATURE_BYTES};
use wire::record::{BODY_BYTES_MAX, Key, Record, RecordKind, RecordSeq};
use wire::{Full, Malformed};

/// How long a link-state record is valid. Choice: a node that has gone without notice is forgotten after a quarter of
/// an hour (no route leads there long before). A node that renews its record every five minutes may miss two renewals.
/// At 1024 nodes of degree 8 renewals are 1024 · 170 bytes per 300 s, 4.6 kbit/s on each link.
pub const LIFETIME_S: u16 = 900;

/// From this number on, the number of a record is the second since 1970 in which it was made; this second was in
/// September 2001. An earlier version counted from lower numbers.
const SECONDS_FROM: u32 = 1_000_000_000;

/// The content of a node's link-state record about itself.
#[derive(Clone, Copy, Debug)]
pub struct Origination<'a> {
    /// Its links that are up; only the first [`LINKS_MAX`] are reported.
    pub links: &'a [Link],
    /// How often the node requests a lost packet; 0 to leave it open.
    pub strikes: u8,
    /// The serial of the certificate whose key signs the record.
    pub certificate_serial: u32,
    /// Options in their wire format.
    pub options: &'a [u8],
}

impl Database {
    /// Makes the node's next link-state record and stores it. `sign` is given the bytes to sign,
    /// without [`wire::link_state::SIGNATURE_CONTEXT`].
    pub fn originate(
        &mut self,
        now: Time,
        what: Origination<'_>,
        sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_BYTES],
    ) -> Result<Key, Full> {
        let links = &what.links[..what.links.len().min(LINKS_MAX)];
        let seq = self.next_seq(now, self.own_seq);
        let repr = Repr {
            origin: self.own,
            seq,
            lifetime_s: LIFETIME_S,
            certificate_serial: what.certificate_serial,
            strikes: what.strikes,
            links,
            options: what.options,
        };
        let mut body = [0; BODY_BYTES_MAX];
        let len = repr.emit(&mut body, sign)?;
        let claim = Claim::parse(RecordKind::LINK_STATE, &body[..len]).map_err(|_| Full)?;
        self.own_seq = seq;
        self.store(now, claim.key(), 0, &claim, &body[..len]);
        self.refresh_at = now + refresh_interval(self.own, seq);
        Ok(claim.key())
    }

    /// Returns the number of a record that is made now, after one with the number `before`: the second since 1970, or
    /// `before` plus one if that is more. So a node that has restarted continues above its earlier records, and every
    /// receiver of a record knows its age, because the signature covers the number.
    pub(super) fn next_seq(&self, now: Time, before: RecordSeq) -> RecordSeq {
        let second = u32::try_from(self.unix_s(now)).unwrap_or(u32::MAX);
        RecordSeq(before.0.saturating_add(1).max(second))
    }

    /// Returns the age of a record for which a neighbour reports the age `told_s`: at most the age that its number
    /// implies, so that nobody can make others forget it. Choice: a smaller age from the neighbour is believed, because
    /// the clock of the origin may be behind. The number of a node whose clock was ahead implies no age.
    pub(super) fn age_at_most(&self, now: Time, key: Key, told_s: u16) -> u16 {
        let is_own_word = key.kind == RecordKind::LINK_STATE || key.kind.groups_part().is_some();
        if !is_own_word || key.seq.0 < SECONDS_FROM {
            return told_s;
        }
        let (unix_s, made_s) = (self.unix_s(now), u64::from(key.seq.0));
        if made_s > unix_s + CLOCK_SKEW_S {
            return told_s;
        }
        let since_s = unix_s.saturating_sub(made_s);
        told_s.min(u16::try_from(since_s).unwrap_or(u16::MAX))
    }

    /// Returns the second since 1970 that a node's own clock shows now, as far as its link-state record shows it. The
    /// number of that record is the second in which it was made, or a little more if the node made several in one
    /// second. If a node's clock was ahead and has been corrected, the node continues from the number that others
    /// remember, until its clock has reached that number.
    pub fn clock_of(&self, now: Time, node: NodeAddr) -> Option<u64> {
        if node == self.own {
            return Some(self.unix_s(now));
        }
        let made = self.link_state_of(node)?;
        let is_second = made.seq.0 >= SECONDS_FROM;
        is_second.then(|| u64::from(made.seq.0) + u64::from(made.age_s(now)))
    }

    /// Takes over the smaller age if the same edition arrives again.
    pub(super) fn follow_age(&mut self, now: Time, key: Key, record: &Record<'_>) {
        let entry = self.entries.get_mut(&Name::of(key));
        if let Some(entry) = entry
            && *entry.body == *record.body
            && entry.age_s(now) > record.age_s
        {
            (entry.age_s, entry.stored) = (record.age_s, now);
        }
    }

    fn unix_s(&self, now: Time) -> u64 {
        self.unix_start_s + now.as_micros() / 1_000_000
    }

    /// Returns when the node's own record is to be renewed even if nothing has changed.
    pub fn refresh_at(&self) -> Time {
        self.refresh_at
    }

    /// Stores a certificate that the caller has verified, signed under this root: the node's own, and those of
    /// neighbours. Returns `Some` if it is news that must be flooded.
    pub fn insert_certificate(
        &mut self,
        now: Time,
        root: u8,
        body: &[u8],
    ) -> Result<Option<Key>, Malformed> {
        let claim = Claim::parse(RecordKind::CERTIFICATE, body)?;
        let key = claim.key();
        let held = self.entries.get(&Name::of(key));
        if held.is_some_and(|held| (held.root, held.seq) >= (root, key.seq)) {
            return Ok(None);
        }
        self.store(now, key, 0, &claim, body);
        self.note_root(key, root);
        Ok(Some(key))
    }

    /// Stores a succession or a list of revocations that the caller has verified. Returns `Some` if it is news that
    /// must be flooded.
    pub fn insert_verified(
        &mut self,
        now: Time,
        kind: RecordKind,
        body: &[u8],
    ) -> Result<Option<Key>, Malformed> {
        let claim = Claim::parse(kind, body)?;
        if !super::is_of_root(kind) {
            return Err(Malformed::Kind);
        }
        let key = claim.key();
        let held = self.entries.get(&Name::of(key));
        if held.is_some_and(|held| held.seq >= key.seq) {
            return Ok(None);
        }
        self.store(now, key, 0, &claim, body);
        Ok(Some(key))
    }
}

/// Returns a third of the lifetime, less up to a fifth of it, so that nodes that started together do not always renew
/// together. The result is the same in every run: it depends on the record's name alone.
pub(super) fn refresh_interval(origin: NodeAddr, seq: RecordSeq) -> Duration {
    let third = Duration::from_secs(u64::from(LIFETIME_S) / 3);
    let mixed = (u64::from(origin.0) << 32 | u64::from(seq.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    third - (third.div(5) * (mixed >> 56)).div(256)
}
