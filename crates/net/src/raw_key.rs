//! TLS 1.3 with a raw Ed25519 key (RFC 7250) in place of a certificate: no names, no X.509 authorities. The two sides
//! know from elsewhere whose key it is.
//!
//! ```text
//!   shows    certified(secret, key) ──▶ resolver of a client's or a server's side
//!   checks   Verifier::pinned(keys)     nobody but who has one of these keys
//!            Verifier::any()            anybody; `shown` tells the key, to be judged afterwards
//! ```
//! In each case the other side proves that it has the secret half of what it shows.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::sync::Arc;

/// Size of a key, and of its secret.
pub const KEY_BYTES: usize = 32;

/// SubjectPublicKeyInfo of an Ed25519 key, before the key. [RFC 8410 §4]
const PUBLIC_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// PKCS #8 of an Ed25519 key, before the key. [RFC 8410 §7]
const SECRET_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// Returns the cryptography of all TLS connections here.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Creates what a side with this secret shows in place of a certificate.
///
/// # Errors
/// Returns an error if the secret is no Ed25519 key.
pub fn certified(secret: &[u8; KEY_BYTES]) -> Result<Arc<CertifiedKey>, Error> {
    let secret = PrivatePkcs8KeyDer::from([&SECRET_PREFIX[..], secret].concat());
    let signing = ring::sign::any_eddsa_type(&secret)?;
    let public = signing.public_key();
    let public = public.ok_or_else(|| Error::General("a key without its public half".into()))?;
    let bare = CertificateDer::from(public.as_ref().to_vec());
    Ok(Arc::new(CertifiedKey::new(vec![bare], signing)))
}

/// Returns the key in what a side shows in place of a certificate.
pub fn shown(certificate: &[u8]) -> Option<[u8; KEY_BYTES]> {
    certificate.strip_prefix(&PUBLIC_PREFIX)?.try_into().ok()
}

/// Checks the other side's key.
#[derive(Debug)]
pub struct Verifier {
    /// The accepted keys; `None` accepts any key.
    pinned: Option<Vec<[u8; KEY_BYTES]>>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    /// Accepts one of these keys.
    pub fn pinned(keys: impl IntoIterator<Item = [u8; KEY_BYTES]>) -> Arc<Verifier> {
        Arc::new(Verifier {
            pinned: Some(keys.into_iter().collect()),
            provider: provider(),
        })
    }

    /// Accepts any key.
    pub fn any() -> Arc<Verifier> {
        Arc::new(Verifier {
            pinned: None,
            provider: provider(),
        })
    }

    fn takes(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let Some(key) = shown(certificate) else {
            return Err(Error::General("not the key of a node".into()));
        };
        match &self.pinned {
            Some(keys) if !keys.contains(&key) => Err(Error::General(
                "another node answers than the one whose key is pinned".into(),
            )),
            _ => Ok(()),
        }
    }

    fn has_signed(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

fn no_tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(Error::General("TLS 1.2 is not spoken here".into()))
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.takes(shown).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.has_signed(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.takes(shown).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.has_signed(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [RFC 8032 §7.1], TEST 1.
    const SECRET: [u8; KEY_BYTES] = [
        0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c,
        0xc4, 0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae,
        0x7f, 0x60,
    ];
    const KEY: [u8; KEY_BYTES] = [
        0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07,
        0x3a, 0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07,
        0x51, 0x1a,
    ];

    #[test]
    fn what_is_shown_is_the_key_of_the_secret() {
        let certified = certified(&SECRET).unwrap();
        let certificate = certified.end_entity_cert().unwrap();
        assert_eq!(certificate[..12], PUBLIC_PREFIX);
        assert_eq!(shown(certificate), Some(KEY));
        assert_eq!(shown(&certificate[..43]), None);
        assert_eq!(shown(&[0x30; 44]), None);
    }

    #[test]
    fn only_what_is_pinned_is_taken() {
        let certified = certified(&SECRET).unwrap();
        let certificate = certified.end_entity_cert().unwrap();
        assert!(Verifier::any().takes(certificate).is_ok());
        assert!(
            Verifier::pinned([[1; KEY_BYTES], KEY])
                .takes(certificate)
                .is_ok()
        );
        assert!(
            Verifier::pinned([[1; KEY_BYTES]])
                .takes(certificate)
                .is_err()
        );
        assert!(Verifier::pinned([]).takes(certificate).is_err());
        let other = CertificateDer::from(vec![0x30; 44]);
        assert!(Verifier::any().takes(&other).is_err());
    }
}
