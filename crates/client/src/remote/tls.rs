//! TLS as both ends set it up: version 1.3, and the node's Ed25519 key bare (RFC 7250) instead of a
//! certificate, so that there is no name to check and no authority to trust but the pin.

use super::place::KEY_BYTES;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme, version};
use std::sync::Arc;

/// SubjectPublicKeyInfo of an Ed25519 key, before the key. [RFC 8410 §4]
const PUBLIC_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// PKCS #8 of an Ed25519 key, before the key. [RFC 8410 §7]
const SECRET_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// The name that clients say: the key is what counts.
pub(super) const NAME: &str = "node.sinew";

fn public(key: &[u8; KEY_BYTES]) -> Vec<u8> {
    [&PUBLIC_PREFIX[..], key].concat()
}

/// A gate's side, with the node's keys.
pub fn server(secret: &[u8; KEY_BYTES], key: &[u8; KEY_BYTES]) -> Result<Arc<ServerConfig>, Error> {
    let secret = PrivatePkcs8KeyDer::from([&SECRET_PREFIX[..], secret].concat());
    let signing = ring::sign::any_eddsa_type(&secret)?;
    let bare = CertifiedKey::new(vec![CertificateDer::from(public(key))], signing);
    let resolver = AlwaysResolvesServerRawPublicKeys::new(Arc::new(bare));
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    Ok(Arc::new(config))
}

/// The key within what is shown in place of a certificate.
pub(super) fn key(shown: &[u8]) -> Option<&[u8]> {
    shown.strip_prefix(&PUBLIC_PREFIX)
}

/// A client's side, which talks to nobody but who has one of the keys.
pub(super) fn client<'a>(
    keys: impl Iterator<Item = &'a [u8; KEY_BYTES]>,
) -> Result<Arc<ClientConfig>, Error> {
    let provider = provider();
    let pinned = Pinned {
        keys: keys.map(public).collect(),
        algorithms: provider.signature_verification_algorithms,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Takes these keys, and checks that the other side holds the secret half of what it shows.
#[derive(Debug)]
struct Pinned {
    keys: Vec<Vec<u8>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.keys.iter().any(|key| shown.as_ref() == key) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::General(
            "another node answers than the one whose key is pinned".into(),
        ))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken here".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
