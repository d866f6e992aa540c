//! The records that a node believes: those signed by a root, or by an origin whose certificate a root has signed.

use crate::link_state::{Claim, Judgement};
use base::{Map, NodeAddr};
use secure::{
    Certificate, CertificateError, Context, Identity, Network, Peer, Revocations, SuccessionError,
};

/// The key that may sign the records of one origin, from its verified certificate.
#[derive(Clone, Debug)]
pub(super) struct Signer {
    serial: u32,
    /// The root under which the certificate was signed.
    pub(super) root: u8,
    pub(super) key: [u8; 32],
    not_after_s: u64,
}

impl Signer {
    pub(super) fn of(peer: &Peer) -> Signer {
        Signer {
            serial: peer.serial(),
            root: peer.root(),
            key: *peer.signing_key(),
            not_after_s: peer.not_after_s(),
        }
    }
}

/// The signers of all origins whose certificates are in the database.
pub(super) type Signers = Map<NodeAddr, Signer>;

/// Proves records by the network's root keys and the certificates seen so far.
pub(in crate::node) struct Proof<'a> {
    pub(super) own: &'a Identity,
    pub(super) network: &'a Network,
    pub(super) signers: &'a Signers,
    pub(super) unix_s: u64,
}

impl Proof<'_> {
    pub(in crate::node) fn judge(&self, claim: &Claim<'_>) -> Judgement {
        let good = match claim {
            Claim::Certificate { body, .. } => match self.judge_certificate(body) {
                // The succession is on its way.
                Err(CertificateError::NewerRoot) => return Judgement::NoCertificate,
                Err(CertificateError::BadSignature) => return self.judge_nobodys(body),
                Ok(peer) if !self.is_foreign(&peer) => return self.rank(&peer),
                _ => false,
            },
            Claim::Revocations { root, .. } if *root > self.network.root_number() => {
                return Judgement::NoCertificate;
            }
            Claim::Revocations { root, list, .. } => {
                *root == self.network.root_number()
                    && Revocations::from_bytes(list)
                        // A copy, because only the node itself applies the list.
                        .is_ok_and(|list| self.network.clone().apply(&list).is_ok())
            }
            Claim::Succession(succession) => match self.network.clone().succeed(succession) {
                Err(SuccessionError::Gap) => return Judgement::NoCertificate,
                Err(SuccessionError::Rival) => return Judgement::Rival(succession.number),
                judged => judged.is_ok(),
            },
            Claim::LinkState(state) => match self.signers.get(&state.origin) {
                // The certificate, or a renewed one, is on its way.
                None => return Judgement::NoCertificate,
                Some(signer) if signer.serial < state.certificate_serial => {
                    return Judgement::NoCertificate;
                }
                Some(signer) => {
                    let signed = (state.signed_bytes(), state.signature());
                    self.proves(signer, Context::LinkState, signed)
                }
            },
            Claim::Groups(groups) => match self.signers.get(&groups.origin) {
                None => return Judgement::NoCertificate,
                Some(signer) if signer.serial < groups.certificate_serial => {
                    return Judgement::NoCertificate;
                }
                Some(signer) => {
                    let signed = (groups.signed_bytes(), groups.signature());
                    self.proves(signer, Context::Groups, signed)
                }
            },
        };
        if good {
            Judgement::Good
        } else {
            Judgement::Refused
        }
    }

    /// No known root has signed the certificate: another root of the same number may have.
    fn judge_nobodys(&self, certificate: &[u8]) -> Judgement {
        let certificate = Certificate::from_bytes(certificate);
        let rival = certificate.map(|certificate| self.network.rival_of(&certificate));
        match rival {
            Ok(Some(number)) => Judgement::Rival(number),
            _ => Judgement::Refused,
        }
    }

    /// Returns true if the certificate gives this node's own address to another key. A thief of the root key has made
    /// such a certificate, and here nobody but the node itself signs for it.
    fn is_foreign(&self, peer: &Peer) -> bool {
        let key = self.own.certificate().fields().subject.signing_key;
        peer.address() == self.own.address() && *peer.signing_key() != key
    }

    fn rank(&self, peer: &Peer) -> Judgement {
        let signer = self.signers.get(&peer.address());
        match signer.is_some_and(|signer| peer.root() < signer.root) {
            true => Judgement::Outdated,
            false => Judgement::Certified(peer.root()),
        }
    }

    fn proves(&self, signer: &Signer, what: Context, signed: (&[u8], &[u8; 64])) -> bool {
        let (bytes, signature) = signed;
        self.unix_s <= signer.not_after_s
            && self.network.counts(signer.root, self.unix_s)
            && self.network.proves(&signer.key, what, bytes, signature)
    }

    /// Returns the owner of the certificate, if it is valid now.
    pub(in crate::node) fn peer(&self, certificate: &[u8]) -> Option<Peer> {
        self.judge_certificate(certificate).ok()
    }

    fn judge_certificate(&self, certificate: &[u8]) -> Result<Peer, CertificateError> {
        let certificate = Certificate::from_bytes(certificate)?;
        match self.network.verify(&certificate, self.unix_s) {
            Err(CertificateError::NewerRoot) => self.judge_by_its_proof(&certificate),
            verified => verified,
        }
    }

    /// Judges a certificate of the next root, which contains the proof of that root. A certificate of a later root
    /// waits: there is no known key to check its signature.
    fn judge_by_its_proof(&self, certificate: &Certificate) -> Result<Peer, CertificateError> {
        let fields = certificate.fields();
        let succession = fields.options.succession();
        let succession = succession.ok_or(CertificateError::NewerRoot)?;
        let mut network = self.network.clone();
        match network.succeed(&succession) {
            Ok(_) => network.verify(certificate, self.unix_s),
            Err(SuccessionError::Gap) => Err(CertificateError::NewerRoot),
            Err(_) => Err(CertificateError::BadSignature),
        }
    }
}
