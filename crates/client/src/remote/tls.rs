//! TLS as both ends set it up: version 1.3, and the node's key bare ([`raw_key`]) instead of a
//! certificate, so that there is no name to check and no authority to trust but the pin.

use super::place::KEY_BYTES;
use net::raw_key::{self, Verifier};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::{ClientConfig, Error, ServerConfig, version};
use std::sync::Arc;

/// The name that clients say: the key is what counts.
pub(super) const NAME: &str = "node.sinew";

/// A gate's side, with the node's secret.
///
/// # Errors
/// The secret is no Ed25519 key.
pub fn server(secret: &[u8; KEY_BYTES]) -> Result<Arc<ServerConfig>, Error> {
    let resolver = AlwaysResolvesServerRawPublicKeys::new(raw_key::certified(secret)?);
    let config = ServerConfig::builder_with_provider(raw_key::provider())
        .with_protocol_versions(&[&version::TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    Ok(Arc::new(config))
}

/// A client's side, which talks to nobody but who has one of the keys.
pub(super) fn client<'a>(
    keys: impl Iterator<Item = &'a [u8; KEY_BYTES]>,
) -> Result<Arc<ClientConfig>, Error> {
    let config = ClientConfig::builder_with_provider(raw_key::provider())
        .with_protocol_versions(&[&version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Verifier::pinned(keys.copied()))
        .with_no_client_auth();
    Ok(Arc::new(config))
}
