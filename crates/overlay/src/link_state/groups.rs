//! The node's own records of groups.

use super::own::refresh_interval;
use super::{Claim, Database, LIFETIME_S, Name};
use base::{NodeAddr, Time};
use wire::Full;
use wire::certificate::Certificate;
use wire::groups::{PARTS, Repr, SIGNATURE_BYTES, Setting};
use wire::record::{BODY_BYTES_MAX, Key, RecordKind, RecordSeq};

/// The content of one part of a node's groups.
#[derive(Clone, Copy, Debug)]
pub struct OwnGroups<'a> {
    /// The number of the part.
    pub part: u8,
    /// The groups in which the node has members.
    pub members: &'a [NodeAddr],
    /// How groups are to be carried.
    pub settings: &'a [Setting],
    /// The permits to send and receive, in the format of records.
    pub permits: &'a [u8],
    /// The serial of the certificate whose key signs the record.
    pub certificate_serial: u32,
}

/// One part of the own groups.
#[derive(Clone, Copy, Debug, Default)]
struct OwnPart {
    seq: RecordSeq,
    /// When the part is to be renewed; `None` while it is empty.
    refresh_at: Option<Time>,
}

/// All parts of the own groups.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnParts([OwnPart; PARTS]);

impl OwnParts {
    pub(super) fn seq(&self, kind: RecordKind) -> RecordSeq {
        let part = kind.groups_part().map(usize::from);
        part.map_or(RecordSeq(0), |part| self.0[part].seq)
    }

    /// An edition from before this node's restart is in the network.
    pub(super) fn on_earlier(&mut self, now: Time, key: Key) {
        if let Some(part) = key.kind.groups_part() {
            self.0[usize::from(part)] = OwnPart {
                seq: key.seq,
                refresh_at: Some(now),
            };
        }
    }
}

impl Database {
    /// Makes the next edition of a part of the node's groups and stores it. `sign` is given the
    /// bytes to sign, without [`wire::groups::SIGNATURE_CONTEXT`].
    pub fn originate_groups(
        &mut self,
        now: Time,
        what: OwnGroups<'_>,
        sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_BYTES],
    ) -> Result<Key, Full> {
        let kind = RecordKind::groups(what.part).ok_or(Full)?;
        let seq = self.next_seq(now, self.own_groups.seq(kind));
        let repr = Repr {
            origin: self.own,
            seq,
            lifetime_s: LIFETIME_S,
            certificate_serial: what.certificate_serial,
            part: what.part,
            members: what.members,
            settings: what.settings,
            permits: what.permits,
        };
        let mut body = [0; BODY_BYTES_MAX];
        let len = repr.emit(&mut body, sign)?;
        let claim = Claim::parse(kind, &body[..len]).map_err(|_| Full)?;
        self.store(now, claim.key(), 0, &claim, &body[..len]);
        let says_something =
            !(what.members.is_empty() && what.settings.is_empty() && what.permits.is_empty());
        self.own_groups.0[usize::from(what.part)] = OwnPart {
            seq,
            refresh_at: says_something.then(|| now + refresh_interval(self.own, seq)),
        };
        Ok(claim.key())
    }

    /// Finds out which nodes permits name, if that may have changed. Returns true if it may have.
    pub fn settle_permits(&mut self) -> bool {
        if !self.membership.permits().is_stale() {
            return false;
        }
        let certificates = self.entries.iter();
        let certificates = certificates.filter(|(name, _)| name.kind == RecordKind::CERTIFICATE);
        let certificates =
            certificates.filter_map(|(_, entry)| Certificate::parse(&entry.body).ok());
        let certificates: Vec<_> = certificates.collect();
        self.membership.permits_mut().settle(&certificates);
        true
    }

    /// Returns the parts that are to be renewed even if nothing has changed.
    pub fn groups_to_refresh(&self, now: Time) -> impl Iterator<Item = u8> + '_ {
        let due = move |part: &OwnPart| part.refresh_at.is_some_and(|at| now >= at);
        let parts = self.own_groups.0.iter().enumerate();
        parts
            .filter(move |(_, part)| due(part))
            .map(|(i, _)| i as u8)
    }

    /// Returns true if `name` names a part of the own groups.
    pub(super) fn is_own_groups(&self, name: Name) -> bool {
        name.origin == self.own && name.kind.groups_part().is_some()
    }
}
