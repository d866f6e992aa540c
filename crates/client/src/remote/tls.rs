//! The TLS configuration of both ends: version 1.3, and the node's raw public key ([`raw_key`]) instead of a
//! certificate, so that there is no name to check and no authority to trust except the pin.
//!
//! Both ends name the extensions of version 1 that they support ([`WITH_WAYS`], followed by older ones). A gate or a
//! client of an earlier version names nothing and is not affected; later versions name this, too.

use super::place::KEY_BYTES;
use net::raw_key::{self, Verifier};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::{ClientConfig, Error, ServerConfig, version};
use std::sync::Arc;
use wire::remote::{WITH_WAYS, WITHOUT_TRIALS};

/// The server name that clients send: only the key matters.
pub(super) const NAME: &str = "node.sinew";

/// The supported names, the preferred one first.
const KNOWN: [&[u8]; 2] = [WITH_WAYS, WITHOUT_TRIALS];

/// Creates a gate's configuration, with the node's secret.
///
/// # Errors
/// Returns an error if the secret is no Ed25519 key.
pub fn server(secret: &[u8; KEY_BYTES], with_ways: bool) -> Result<Arc<ServerConfig>, Error> {
    let resolver = AlwaysResolvesServerRawPublicKeys::new(raw_key::certified(secret)?);
    let mut config = ServerConfig::builder_with_provider(raw_key::provider())
        .with_protocol_versions(&[&version::TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    if with_ways {
        config.alpn_protocols = KNOWN.map(<[u8]>::to_vec).into();
    }
    Ok(Arc::new(config))
}

/// Creates a client's configuration, which only accepts servers that have one of the keys.
pub(super) fn client<'a>(
    keys: impl Iterator<Item = &'a [u8; KEY_BYTES]>,
) -> Result<Arc<ClientConfig>, Error> {
    let mut config = ClientConfig::builder_with_provider(raw_key::provider())
        .with_protocol_versions(&[&version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Verifier::pinned(keys.copied()))
        .with_no_client_auth();
    config.alpn_protocols = KNOWN.map(<[u8]>::to_vec).into();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::from_hex;
    use rustls::{ClientConnection, ServerConnection};
    use wire::remote::way::{KEYS_BYTES, LABEL};

    /// The keys of RFC 8032 §7.1, test 1.
    const SECRET: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    const PUBLIC: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

    /// Completes a handshake in which both ends name these.
    fn shaken(by_client: &[&[u8]], by_gate: &[&[u8]]) -> (ClientConnection, ServerConnection) {
        let names = |names: &[&[u8]]| names.iter().map(|name| name.to_vec()).collect();
        let mut client = client([&from_hex(PUBLIC).unwrap()].into_iter()).unwrap();
        let mut server = server(&from_hex(SECRET).unwrap(), true).unwrap();
        assert_eq!(client.alpn_protocols, server.alpn_protocols);
        Arc::get_mut(&mut client).unwrap().alpn_protocols = names(by_client);
        Arc::get_mut(&mut server).unwrap().alpn_protocols = names(by_gate);
        let mut client = ClientConnection::new(client, NAME.try_into().unwrap()).unwrap();
        let mut server = ServerConnection::new(server).unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            let mut bytes = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut bytes).unwrap();
            }
            server.read_tls(&mut &bytes[..]).unwrap();
            server.process_new_packets().unwrap();
            bytes.clear();
            while server.wants_write() {
                server.write_tls(&mut bytes).unwrap();
            }
            client.read_tls(&mut &bytes[..]).unwrap();
            client.process_new_packets().unwrap();
        }
        (client, server)
    }

    #[test]
    fn both_ends_know_of_ways_or_neither_speaks_of_them() {
        // Present versions, versions before trials, and versions before ways or with UDP switched off.
        let (former, none): (&[&[u8]], &[&[u8]]) = (&[WITHOUT_TRIALS], &[]);
        let today: &[&[u8]] = &KNOWN;
        for (client, gate, agreed) in [
            (today, today, Some(WITH_WAYS)),
            (today, former, Some(WITHOUT_TRIALS)),
            (former, today, Some(WITHOUT_TRIALS)),
            (today, none, None),
            (none, today, None),
            (none, none, None),
        ] {
            let (client, server) = shaken(client, gate);
            assert_eq!(client.alpn_protocol(), agreed);
            assert_eq!(server.alpn_protocol(), agreed);
        }
        let (client, server) = shaken(today, today);
        let keys = |number: u32| {
            let (context, none) = (number.to_be_bytes(), [0; KEYS_BYTES]);
            let ours = client.export_keying_material(none, LABEL, Some(&context));
            let theirs = server.export_keying_material(none, LABEL, Some(&context));
            assert_eq!(ours, theirs);
            ours.unwrap()
        };
        assert_ne!(keys(0), keys(1));
        assert_ne!(keys(0)[..32], keys(0)[32..]);
    }
}
