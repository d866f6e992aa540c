//! The identity of a node: two secret keys, and the certificate for them.
//!
//! The keys are made on the node and never leave it. `net request` carries their public halves to the authority, which
//! returns the certificate. A renewed certificate uses the same keys.

use crate::armour::{self, ArmourError};
use crate::certificate::{Certificate, Request};
use crate::signature::{self, Context};
use crate::x25519::X25519;
use base::NodeAddr;
use ed25519_dalek::SigningKey;
use wire::bytes::Writer;
use wire::certificate::{self as format, Domains, KEY_BYTES, NetworkId, Options, SIGNATURE_BYTES};
use wire::{Full, Malformed};
use zeroize::Zeroizing;

const LABEL: &str = "SINEW NODE KEY";
/// The version of the text form.
const VERSION: u8 = 1;

/// The secret keys of a node.
#[derive(Clone)]
pub struct Keys {
    static_secret: Zeroizing<[u8; KEY_BYTES]>,
    static_public: [u8; KEY_BYTES],
    signing: SigningKey,
}

/// A node's keys and its certificate.
#[derive(Clone)]
pub struct Identity {
    keys: Keys,
    certificate: Certificate,
    address: NodeAddr,
}

/// Why keys and certificate do not form an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The certificate is for other keys.
    #[error("the certificate is for another key: put the key file beside its own certificate")]
    OtherKey,
}

/// Why a request could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The address is not one that a node can have.
    #[error("not an address for a node: choose one below 224.0.0.0, like 10.7.0.3")]
    Address,
    /// The name is not valid.
    #[error("not a name for a node: 1 to 63 bytes without control characters")]
    Name,
    /// There are too many domains, or one is not a domain.
    #[error("not a list of domains: at most 16, of lower-case letters, digits, `-`, `_`, `.`, `*`")]
    Domains,
    /// Name and domains together are too long.
    #[error("name and domains are too long together: a certificate has at most 1024 bytes")]
    TooLong,
}

impl Keys {
    /// Makes keys from 64 bytes of entropy, which must be known to nobody else.
    pub fn generate(entropy: &[u8; 64]) -> Keys {
        let (first, second) = entropy.split_at(KEY_BYTES);
        let secret = |half: &[u8]| Zeroizing::new(half.try_into().expect("half of 64 bytes"));
        Keys::from_secrets(secret(first), &secret(second))
    }

    fn from_secrets(static_secret: Zeroizing<[u8; KEY_BYTES]>, signing: &[u8; KEY_BYTES]) -> Keys {
        Keys {
            static_public: X25519::of(&static_secret).public(),
            static_secret,
            signing: SigningKey::from_bytes(signing),
        }
    }

    /// Requests a certificate for these keys.
    pub fn request(
        &self,
        network: NetworkId,
        address: NodeAddr,
        name: &str,
        domains: &[&str],
    ) -> Result<Request, RequestError> {
        if !address.is_node() {
            return Err(RequestError::Address);
        }
        if !format::is_name(name) {
            return Err(RequestError::Name);
        }
        let mut room = [0; format::MAX_CERTIFICATE_BYTES];
        let mut w = Writer::new(&mut room);
        Domains::emit(domains, &mut w).map_err(|Full| RequestError::Domains)?;
        let mut r = wire::bytes::Reader::new(w.written());
        let unsigned = format::Request {
            network,
            subject: format::Subject {
                address,
                name,
                static_key: self.static_public,
                signing_key: self.signing.verifying_key().to_bytes(),
                domains: Domains::parse(&mut r).map_err(|_| RequestError::Domains)?,
            },
            options: Options::NONE,
            signature: [0; SIGNATURE_BYTES],
        };
        // A certificate also contains serial and validity, so a request must leave room for them.
        let mut bytes = [0; format::MAX_CERTIFICATE_BYTES - format::VALIDITY_BYTES];
        let mut w = Writer::new(&mut bytes);
        unsigned
            .emit(&mut w)
            .map_err(|Full| RequestError::TooLong)?;
        seal(&self.signing, Context::Request, w.written_mut());
        Ok(Request::from_bytes(w.written()).expect("what was just written is well formed"))
    }

    /// Returns the public half of the key for handshakes.
    pub fn static_key(&self) -> &[u8; KEY_BYTES] {
        &self.static_public
    }

    /// Returns the secret half of the signing key, for a protocol that makes its own signatures with it: TLS, whose
    /// signatures begin differently from those of all [`Context`]s.
    pub fn signing_secret(&self) -> Zeroizing<[u8; KEY_BYTES]> {
        Zeroizing::new(self.signing.to_bytes())
    }

    /// Returns the text form. It holds the secrets: store it in a file of mode 0600, only on this node.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new([0; 1 + 2 * KEY_BYTES]);
        bytes[0] = VERSION;
        bytes[1..1 + KEY_BYTES].copy_from_slice(self.static_secret.as_slice());
        bytes[1 + KEY_BYTES..].copy_from_slice(self.signing.as_bytes());
        armour::write(LABEL, bytes.as_slice())
    }

    /// Reads the text form.
    pub fn from_text(text: &str) -> Result<Keys, ArmourError> {
        let content = |reason| ArmourError::Content {
            label: LABEL,
            reason,
        };
        let bytes = armour::read(LABEL, text)?;
        match bytes.split_first() {
            Some((&VERSION, secrets)) => {
                let entropy: &[u8; 64] =
                    secrets.try_into().map_err(|_| content(Malformed::Length))?;
                Ok(Keys::generate(entropy))
            }
            Some(_) => Err(content(Malformed::Version)),
            None => Err(content(Malformed::Short)),
        }
    }
}

impl Identity {
    /// Joins keys and the certificate for them. [`crate::Network::verify`] decides whether the certificate is valid: a
    /// node with an expired one must still be able to report that.
    pub fn new(keys: Keys, certificate: Certificate) -> Result<Identity, IdentityError> {
        let subject = certificate.fields().subject;
        let mine = subject.static_key == keys.static_public
            && subject.signing_key == keys.signing.verifying_key().to_bytes();
        if !mine {
            return Err(IdentityError::OtherKey);
        }
        Ok(Identity {
            address: subject.address,
            keys,
            certificate,
        })
    }

    /// For tests: builds the identity that a thief would load.
    #[cfg(test)]
    pub(crate) fn with_foreign_certificate(keys: Keys, certificate: Certificate) -> Identity {
        Identity {
            address: certificate.fields().subject.address,
            keys,
            certificate,
        }
    }

    /// Returns the node's overlay address.
    pub fn address(&self) -> NodeAddr {
        self.address
    }
    /// Returns the node's name.
    pub fn name(&self) -> &str {
        self.certificate.fields().subject.name
    }
    /// Returns the node's certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }
    /// Returns the node's keys.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }
    /// Signs `body` in this node's name.
    pub fn sign(&self, context: Context, body: &[u8]) -> [u8; SIGNATURE_BYTES] {
        signature::sign(&self.keys.signing, context, body)
    }

    pub(crate) fn static_secret(&self) -> &[u8; KEY_BYTES] {
        &self.keys.static_secret
    }
}

/// Shows only the public halves.
impl core::fmt::Debug for Identity {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Identity").field(&self.certificate).finish()
    }
}
/// Shows only the public halves.
impl core::fmt::Debug for Keys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Keys")
            .field("static_public", &self.static_public)
            .finish_non_exhaustive()
    }
}

/// Signs everything before the last 64 bytes, and writes the signature into the last 64 bytes.
pub(crate) fn seal(key: &SigningKey, context: Context, bytes: &mut [u8]) {
    let end = format::signed_part(bytes).len();
    let signature = signature::sign(key, context, &bytes[..end]);
    bytes[end..].copy_from_slice(&signature);
}

/// Does the same with a node's own key.
pub(crate) fn seal_with(identity: &Identity, context: Context, bytes: &mut [u8]) {
    seal(&identity.keys.signing, context, bytes);
}
