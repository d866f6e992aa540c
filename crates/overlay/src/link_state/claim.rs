//! The content of a record, and the result of judging it.

use base::NodeAddr;
use wire::Malformed;
use wire::certificate::{Certificate, Revocations, Succession};
use wire::groups::Groups;
use wire::link_state::LinkState;
use wire::record::{Key, RecordKind, RecordSeq, split_root};

/// A record whose format is valid and whose signature has not been checked.
#[derive(Clone, Debug)]
pub enum Claim<'a> {
    /// A node's links.
    LinkState(LinkState<'a>),
    /// A part of a node's groups.
    Groups(Groups<'a>),
    /// A node's certificate.
    Certificate {
        /// The parsed certificate.
        certificate: Certificate<'a>,
        /// The bytes as received.
        body: &'a [u8],
    },
    /// The list of revoked certificates.
    Revocations {
        /// The number of the root that signed it.
        root: u8,
        /// The parsed list.
        revocations: Revocations<'a>,
        /// The signed bytes.
        list: &'a [u8],
    },
    /// A change to another root key of the network.
    Succession(Succession),
}

/// The judgement on a claim by the code that knows the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Signed by the node that the record is about, or by the root.
    Good,
    /// A valid certificate, under the root of this number.
    Certified(u8),
    /// A valid certificate, but of an older root than one that its node has shown before.
    Outdated,
    /// This node does not know the certificate, or the succession of the root, that contains the key for checking the
    /// signature.
    NoCertificate,
    /// The record is not signed by a node that may sign it.
    Refused,
    /// Signed by a proven root that contradicts another known one: the number of the root.
    Rival(u8),
    /// The record is not checked: the node has checked too many records of the neighbour lately.
    TooMany,
}

/// Why a record was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The record was older than its lifetime when it arrived.
    Expired,
    /// A limit is reached: [`super::MAX_ORIGINS`] or [`super::MAX_PENDING`].
    Full,
    /// Its bytes do not parse, or its kind is unknown.
    Malformed(Malformed),
    /// Its signature or certificate is not valid.
    Refused,
    /// The record belongs to a proven root that contradicts another known one: the number of the root.
    Rival(u8),
    /// The node has checked too many records of its neighbour lately; the neighbour may send it again.
    TooMany,
}

/// The result of judging a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The record is new: flood it.
    Accepted(Key),
    /// The record is not kept.
    Dropped {
        /// The edition to confirm, so that it is not sent again; `None` if a later attempt may succeed.
        confirm: Option<Key>,
        /// Why.
        reason: Reason,
    },
    /// This node holds the same edition.
    Known(Key),
    /// The record is in this node's own name, and from before a restart: make a new one with a higher number.
    Own(Key),
    /// The record waits for the certificate of its origin.
    Pending,
    /// This node holds this newer edition, which the sender lacks.
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

    /// Returns the name of the record.
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
