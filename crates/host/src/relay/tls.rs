//! TLS 1.3 between nodes. Each uses its own Ed25519 key as a raw public key (RFC 7250) instead of a certificate.
//!
//! A node already has a certificate, which the network's root has signed and which names that key. It is sent over the
//! connection and checked as between neighbours ([`Trust::judge`]): it must belong to this network, be valid now, and
//! not be revoked. An additional X.509 certificate would only repeat this, in a second format that nobody here could
//! revoke.
//!
//! The handshake also agrees on the version of what follows: each side names those that it speaks (ALPN), and the
//! highest that both name is used. Nobody between two nodes can change that. A node that names none uses the lowest,
//! because it is older than version ranges.

use crate::command::Commander;
use base::NodeAddr;
use net::clock::Clock;
use net::raw_key::{self, KEY_BYTES, Verifier};
use overlay::request::Operation;
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::pki_types::ServerName;
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, Connection, Error, ServerConfig,
    ServerConnection, version,
};
use secure::{Certificate, CertificateError, Context, Identity, Keys, Network};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use wire::certificate::SIGNATURE_BYTES;
use wire::relay::{PROTOCOL, VERSIONS};

/// The server name, because TLS needs one: only the key matters.
const NAME: &str = "relay.sinew";

/// The identity of this node, and whom it trusts.
pub(crate) struct Trust {
    identity: Identity,
    /// The file with a renewed certificate.
    certificate_file: Option<PathBuf>,
    network: Network,
    commander: Commander,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

/// Why another node is not trusted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Distrust {
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("it shows the certificate of another node's key")]
    OtherKey,
    #[error("{0} answers there, and not the node that was meant")]
    OtherNode(NodeAddr),
}

impl Trust {
    pub(crate) fn new(
        identity: Identity,
        certificate_file: Option<PathBuf>,
        network: Network,
        commander: Commander,
    ) -> Result<Trust, Error> {
        let (client, server) = configurations(&identity, VERSIONS)?;
        Ok(Trust {
            identity,
            certificate_file,
            network,
            commander,
            client,
            server,
        })
    }

    pub(crate) fn commander(&self) -> &Commander {
        &self.commander
    }

    /// Returns this node's own address.
    pub(crate) fn own(&self) -> NodeAddr {
        self.identity.address()
    }

    /// Returns this node's certificate, the renewed one if there is one.
    pub(crate) fn certificate(&self) -> Vec<u8> {
        let stored = self.certificate_file.as_ref().and_then(|path| {
            let text = std::fs::read_to_string(path).ok()?;
            let certificate = Certificate::from_text(&text).ok()?;
            Identity::new(self.identity.keys().clone(), certificate).ok()
        });
        let identity = stored.as_ref().unwrap_or(&self.identity);
        identity.certificate().as_bytes().to_vec()
    }

    /// Signs in this node's name.
    pub(crate) fn sign(&self, context: Context, body: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.identity.sign(context, body)
    }

    /// Returns the network with what the node has learned since it started. If the loop does not answer, returns the
    /// network as of the start.
    pub(crate) fn network(&self) -> Network {
        let now = self.commander.trust();
        now.map_or_else(|_| self.network.clone(), |network| *network)
    }

    /// Returns the owner of this certificate, shown by a peer that has proved to have `key`. If it proves a newer root,
    /// the engine is informed: where UDP is blocked, a node that was off meets other nodes first here.
    pub(crate) fn judge(&self, shown: &[u8], key: &[u8; KEY_BYTES]) -> Result<NodeAddr, Distrust> {
        let certificate = Certificate::from_bytes(shown).map_err(CertificateError::Malformed)?;
        let mut network = self.network();
        if network.learn(&certificate) {
            let succeed = Operation::Succeed(network.chain_bytes());
            // If the loop does not answer, it learns of it by the next certificate.
            let _ = self.commander.operate(succeed);
        }
        let peer = network.verify(&certificate, Clock::new().unix_s())?;
        if peer.signing_key() != key {
            return Err(Distrust::OtherKey);
        }
        Ok(peer.address())
    }

    /// Checks in the same way a member that asks this node, its issuer, for the next certificate, and has proved to
    /// have `key`. A certificate of an old root is accepted for that even after its time, because the result depends on
    /// the issuer's books, which the old root does not write.
    pub(crate) fn judge_member(
        &self,
        shown: &[u8],
        key: &[u8; KEY_BYTES],
    ) -> Result<NodeAddr, Distrust> {
        match self.judge(shown, key) {
            Err(Distrust::Certificate(CertificateError::OldRoot)) => {
                let certificate =
                    Certificate::from_bytes(shown).map_err(CertificateError::Malformed)?;
                let subject = certificate.fields().subject;
                match subject.signing_key == *key {
                    true => Ok(subject.address),
                    false => Err(Distrust::OtherKey),
                }
            }
            judged => judged,
        }
    }

    pub(crate) fn dialler(&self) -> Result<Connection, Error> {
        let name = ServerName::try_from(NAME).expect("it is a name");
        ClientConnection::new(Arc::clone(&self.client), name).map(Connection::from)
    }

    pub(crate) fn acceptor(&self) -> Result<Connection, Error> {
        ServerConnection::new(Arc::clone(&self.server)).map(Connection::from)
    }
}

/// Begins TLS from a host that is to become a node, or wants its next certificate, to the node with this key.
pub(crate) fn newcomer(keys: &Keys, issuer: [u8; KEY_BYTES]) -> Result<Connection, Error> {
    let bare = raw_key::certified(&keys.signing_secret())?;
    let config = client(&bare, Verifier::pinned([issuer]), VERSIONS)?;
    let name = ServerName::try_from(NAME).expect("it is a name");
    ClientConnection::new(Arc::new(config), name).map(Connection::from)
}

/// Returns unpredictable random bytes.
pub(crate) fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let provider = raw_key::provider();
    let filled = provider.secure_random.fill(&mut bytes);
    filled.map_err(|_| std::io::Error::other("the system has no entropy"))?;
    Ok(bytes)
}

/// Returns the key that the other side of a connection has proved to have.
pub(crate) fn peer_key(tls: &Connection) -> Option<[u8; KEY_BYTES]> {
    raw_key::shown(tls.peer_certificates()?.first()?)
}

/// Returns the version to use with the other side after the handshake.
pub(crate) fn version_of(tls: &Connection) -> Option<u8> {
    let Some(chosen) = tls.alpn_protocol() else {
        return Some(*VERSIONS.start());
    };
    let text = std::str::from_utf8(chosen).ok()?;
    text.strip_prefix(PROTOCOL)?.parse().ok()
}

/// Returns true if the other side has ended the handshake because it speaks none of the named versions.
pub(super) fn has_no_common_version(error: &std::io::Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref());
    error
        == Some(&Error::AlertReceived(
            AlertDescription::NoApplicationProtocol,
        ))
}

/// Returns the protocol names, the highest version first, because the acceptor takes the first one that both name.
fn protocols(versions: RangeInclusive<u8>) -> Vec<Vec<u8>> {
    let named = versions.rev().map(|version| format!("{PROTOCOL}{version}"));
    named.map(String::into_bytes).collect()
}

/// Creates the TLS configurations. They accept any key: the certificate, which is sent first over the connection, says
/// whose key it is.
fn configurations(
    identity: &Identity,
    versions: RangeInclusive<u8>,
) -> Result<(Arc<ClientConfig>, Arc<ServerConfig>), Error> {
    let bare = raw_key::certified(&identity.keys().signing_secret())?;
    let client = client(&bare, Verifier::any(), versions.clone())?;
    let mut server = ServerConfig::builder_with_provider(raw_key::provider())
        .with_protocol_versions(&[&version::TLS13])?
        .with_client_cert_verifier(Verifier::any())
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(bare)));
    // A data connection has one direction: nothing may be sent back on it.
    server.send_tls13_tickets = 0;
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.alpn_protocols = protocols(versions);
    Ok((Arc::new(client), Arc::new(server)))
}

fn client(
    bare: &Arc<CertifiedKey>,
    verifier: Arc<Verifier>,
    versions: RangeInclusive<u8>,
) -> Result<ClientConfig, Error> {
    let shown = AlwaysResolvesClientRawPublicKeys::new(Arc::clone(bare));
    let mut client = ClientConfig::builder_with_provider(raw_key::provider())
        .with_protocol_versions(&[&version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(shown));
    client.resumption = Resumption::disabled();
    client.alpn_protocols = protocols(versions);
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::socket::{Data, Socket};
    use crate::testing::{AMS, FRA, TestNode, identity};
    use secure::Authority;
    use std::io;
    use std::os::unix::net::UnixStream;

    /// Creates the two ends of a connection that has not sent anything yet.
    fn ends((client, server): (ClientConfig, ServerConfig)) -> [Data; 2] {
        let name = ServerName::try_from(NAME).unwrap();
        let dialler = ClientConnection::new(Arc::new(client), name).unwrap();
        let acceptor = ServerConnection::new(Arc::new(server)).unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        [
            Data::sealed(Socket::Unix(near), dialler.into()),
            Data::sealed(Socket::Unix(far), acceptor.into()),
        ]
    }

    /// Completes a handshake, and returns the version that each end uses then.
    fn shake_hands(ends: [Data; 2]) -> [io::Result<(Data, u8)>; 2] {
        let shake = |mut end: Data| {
            std::thread::spawn(move || {
                end.shake_hands()?;
                let version = end.version()?;
                Ok((end, version))
            })
        };
        ends.map(shake).map(|end| end.join().unwrap())
    }

    fn versions(ends: [Data; 2]) -> [Option<u8>; 2] {
        shake_hands(ends).map(|end| end.ok().map(|(_, version)| version))
    }

    #[test]
    fn the_highest_version_that_both_speak_is_spoken_or_both_are_told_that_there_is_none() {
        let mut authority = Authority::generate(&[7; 32]);
        let (ams, fra) = (
            identity(&mut authority, [1; 64], AMS),
            identity(&mut authority, [2; 64], FRA),
        );
        let made = |versions: Option<RangeInclusive<u8>>, identity: &Identity| {
            let range = versions.clone().unwrap_or(VERSIONS);
            let (client, server) = configurations(identity, range).unwrap();
            let (mut client, mut server) = ((*client).clone(), (*server).clone());
            if versions.is_none() {
                client.alpn_protocols.clear();
                server.alpn_protocols.clear();
            }
            (client, server)
        };
        let talk = |dials: Option<RangeInclusive<u8>>, accepts: Option<RangeInclusive<u8>>| {
            ends((made(dials, &ams).0, made(accepts, &fra).1))
        };
        let all_speak = |version: u8| [Some(version); 2];
        assert_eq!(versions(talk(Some(6..=7), Some(6..=8))), all_speak(7));
        assert_eq!(versions(talk(Some(6..=8), Some(6..=7))), all_speak(7));
        assert_eq!(versions(talk(Some(6..=8), Some(6..=6))), all_speak(6));
        // Programs from before version ranges.
        assert_eq!(versions(talk(None, Some(6..=7))), all_speak(6));
        assert_eq!(versions(talk(Some(6..=7), None)), all_speak(6));
        assert_eq!(*VERSIONS.start(), 6, "version 6 stays");

        let [told, refused] = shake_hands(talk(Some(8..=9), Some(6..=7))).map(Result::err);
        assert!(has_no_common_version(&told.unwrap()));
        assert!(!has_no_common_version(&refused.unwrap()));

        // The preamble must name the version that was agreed on.
        let [dialler, _acceptor] = shake_hands(talk(Some(6..=7), Some(6..=7)));
        let (mut dialler, _) = dialler.unwrap();
        let other = dialler.speak(6).unwrap_err();
        assert_eq!(other.kind(), io::ErrorKind::InvalidData);
        dialler.speak(7).unwrap();
    }

    #[test]
    fn a_newer_root_is_learned_here_too_and_an_issuer_knows_its_members_by_an_old_one() {
        let mut node = TestNode::start("tls-roots");
        let old = identity(&mut node.authority, [2; 64], FRA);
        let (network, commander) = (node.authority.network(), node.commander.clone());
        let trust = Trust::new(node.identity.clone(), None, network, commander).unwrap();
        let key = old.certificate().fields().subject.signing_key;
        let shown = old.certificate().as_bytes();
        assert_eq!(trust.judge(shown, &key).unwrap(), FRA);
        let now_s = Clock::new().unix_s();
        node.authority.rotate(&[19; 32], now_s - 1, now_s).unwrap();
        let new = identity(&mut node.authority, [2; 64], FRA);
        let newer = new.certificate().as_bytes();
        assert_eq!(trust.judge(newer, &key).unwrap(), FRA);
        assert_eq!(node.commander.trust().unwrap().root_number(), 1);
        let ended = trust.judge(shown, &key);
        assert!(matches!(
            ended,
            Err(Distrust::Certificate(CertificateError::OldRoot))
        ));
        assert_eq!(trust.judge_member(shown, &key).unwrap(), FRA);
        let other = trust.judge_member(shown, &[9; KEY_BYTES]);
        assert!(matches!(other, Err(Distrust::OtherKey)));
    }
}
