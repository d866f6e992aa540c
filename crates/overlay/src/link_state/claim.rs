//! What a record claims, and what came of it.

use base::NodeAddr;
use wire::Malformed;
use wire::certificate::{Certificate, Revocations, Succession};
use wire::groups::Groups;
use wire::link_state::LinkState;
use wire::record::{Key, RecordKind, RecordSeq, split_root};

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
        /// The number of the root that signed it.
        root: u8,
        /// As parsed.
        revocations: Revocations<'a>,
        /// As it was signed.
        list: &'a [u8],
    },
    /// How the network got another root key.
    Succession(Succession),
}

/// What whoever knows the keys says of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Signed by whom it is about, or by the root.
    Good,
    /// A certificate that counts, under the root of this number.
    Certified(u8),
    /// A certificate that counts, of an older root than one that its node has shown before.
    Outdated,
    /// The certificate, or the succession of the root, with the key to check it by is not known here.
    NoCertificate,
    /// Signed by nobody who may.
    Refused,
    /// Of a root that was proved, and in whose place another one is known: its number.
    Rival(u8),
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
    /// It is of a root that was proved, and in whose place another one is known: its number.
    Rival(u8),
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
                Ok(Claim::Revocations {
                    root: 0,
                    revocations,
                    list: body,
                })
            }
            RecordKind::LATER_REVOCATIONS => {
                let (root, list) = split_root(body)?;
                let revocations = Revocations::parse(list)?;
                Ok(Claim::Revocations {
                    root,
                    revocations,
                    list,
                })
            }
            RecordKind::SUCCESSION => Ok(Claim::Succession(Succession::parse(body)?)),
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
            Claim::Revocations {
                root, revocations, ..
            } => Key {
                kind: list_kind(*root),
                origin: NodeAddr(u32::from(*root)),
                seq: RecordSeq(revocations.version),
            },
            Claim::Succession(succession) => Key {
                kind: RecordKind::SUCCESSION,
                origin: NodeAddr(u32::from(succession.number)),
                seq: RecordSeq(1),
            },
        }
    }
}

/// The kind of record in which the list of revocations of a root is flooded.
pub(super) fn list_kind(root: u8) -> RecordKind {
    match root {
        0 => RecordKind::REVOCATIONS,
        _ => RecordKind::LATER_REVOCATIONS,
    }
}
