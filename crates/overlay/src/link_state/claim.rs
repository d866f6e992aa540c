//! What a record claims, and what came of it.

use base::NodeAddr;
use wire::Malformed;
use wire::certificate::{Certificate, Revocations};
use wire::groups::Groups;
use wire::link_state::LinkState;
use wire::record::{Key, RecordKind, RecordSeq};

/// A record whose format is right and whose signature has not been looked at.
#[derive(Clone, Debug)]
pub enum Claim<'a> {
    /// A node's links.
    LinkState(LinkState<'a>),
    /// A part of a node's groups.
    Groups(Groups<'a>),
    /// A node's certificate.
    Certificate {
        /// As parsed.
        certificate: Certificate<'a>,
        /// As it came.
        body: &'a [u8],
    },
    /// The list of revoked certificates.
    Revocations {
        /// As parsed.
        revocations: Revocations<'a>,
        /// As it came.
        body: &'a [u8],
    },
}

/// What whoever knows the keys says of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Signed by whom it is about, or by the root.
    Good,
    /// The certificate with the key to check it by is not known here.
    NoCertificate,
    /// Signed by nobody who may.
    Refused,
    /// Not looked at: the neighbour has had too many looked at lately.
    TooMany,
}

/// Why a record was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was older than its lifetime when it came.
    Expired,
    /// A bound is reached: [`super::MAX_ORIGINS`] or [`super::MAX_PENDING`].
    Full,
    /// Its bytes were not understood, or its kind is unknown.
    Malformed(Malformed),
    /// Its signature or certificate is not good.
    Refused,
    /// Its neighbour has had too many checked lately; it may send it again.
    TooMany,
}

/// What came of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is news: flood it on.
    Accepted(Key),
    /// It is not kept.
    Dropped {
        /// What to confirm, so that it is not sent again: nothing, when another time may do.
        confirm: Option<Key>,
        /// Why.
        reason: Reason,
    },
    /// We hold the same edition.
    Known(Key),
    /// It is in our own name, and from before we restarted: make a new one, above it.
    Own(Key),
    /// It waits for the certificate of its origin.
    Pending,
    /// We hold this newer edition: the sender lacks it.
    Stale(Key),
}

impl Verdict {
    pub(super) const fn dropped(confirm: Option<Key>, reason: Reason) -> Verdict {
        Verdict::Dropped { confirm, reason }
    }
}

impl<'a> Claim<'a> {
    /// Reads the body of a record.
    pub fn parse(kind: RecordKind, body: &'a [u8]) -> Result<Claim<'a>, Malformed> {
        match kind {
            RecordKind::LINK_STATE => {
                let state = LinkState::parse(body)?;
                state
                    .origin
                    .is_node()
                    .then_some(Claim::LinkState(state))
                    .ok_or(Malformed::Value)
            }
            RecordKind::CERTIFICATE => {
                let certificate = Certificate::parse(body)?;
                Ok(Claim::Certificate { certificate, body })
            }
            RecordKind::REVOCATIONS => {
                let revocations = Revocations::parse(body)?;
                Ok(Claim::Revocations { revocations, body })
            }
            kind if kind.groups_part().is_some() => {
                let groups = Groups::parse(kind, body)?;
                let is_node = groups.origin.is_node();
                is_node
                    .then_some(Claim::Groups(groups))
                    .ok_or(Malformed::Value)
            }
            kind if kind.is_critical() => Err(Malformed::Critical),
            _ => Err(Malformed::Kind),
        }
    }

    /// What the record is called.
    pub fn key(&self) -> Key {
        match self {
            Claim::LinkState(state) => state.key(),
            Claim::Groups(groups) => groups.key(),
            Claim::Certificate { certificate, .. } => Key {
                kind: RecordKind::CERTIFICATE,
                origin: certificate.subject.address,
                seq: RecordSeq(certificate.serial),
            },
            Claim::Revocations { revocations, .. } => Key {
                kind: RecordKind::REVOCATIONS,
                origin: NodeAddr(0),
                seq: RecordSeq(revocations.version),
            },
        }
    }
}
