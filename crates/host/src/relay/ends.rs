//! The keys that the ends of a transfer have and its relays do not.
//!
//! ```text
//!   where it begins: Ephemeral ─▶ order ══ relays ══▶ end: Part ─▶ Ended ══ relays ══▶ first node: verifies
//!   source: Sinks    seals frames, opens what the sinks say
//!   sink:   Inbound  opens frames, seals what it says
//! ```
//! `sinew cp` has no certificate: the node beside it signs its order, and verifies on its behalf what the other ends
//! show. A plain transfer has the same keys; only its frames are not encrypted. A probe's noise, which is discarded,
//! has no keys. Formats and keys: [`wire::relay::Ended`], [`secure::ends`].

#[cfg(test)]
mod tests;

use super::failure::{Failure, FailureKind};
use super::tls::{Trust, random};
use super::transfer::{Over, Shared, Transfer};
use base::NodeAddr;
use secure::ends::{Agreed, Ephemeral, Pair, Speech, StreamKey};
use secure::signature::verify;
use secure::{Certificate, Context};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use wire::TAG_BYTES;
use wire::certificate::{KEY_BYTES, SIGNATURE_BYTES};
use wire::handshake::VersionRange;
use wire::relay::{
    END_VERSIONS, Ended, MESSAGE_HEAD_BYTES, Message, Open, Said, TRANSFER_BYTES, Wrapped,
    WrappedKeys, end_part,
};

/// The key agreement of a node that is an end.
pub(super) struct Part {
    pub(super) beginner: NodeAddr,
    pub(super) agreed: Agreed,
    key: [u8; KEY_BYTES],
    signature: [u8; SIGNATURE_BYTES],
    certificate: Vec<u8>,
}

impl Part {
    /// Creates it for the transfer that has begun at this node with this key.
    pub(super) fn take(
        trust: &Trust,
        transfer: &[u8; TRANSFER_BYTES],
        (beginner, began): (NodeAddr, &[u8; KEY_BYTES]),
    ) -> Result<Part, Failure> {
        let ephemeral = fresh(trust.own())?;
        let pair = Pair {
            transfer: *transfer,
            beginner,
            end: trust.own(),
        };
        let agreed = ephemeral.agree(began, &pair, false);
        let agreed = agreed.ok_or_else(|| no_key(trust.own(), beginner))?;
        let key = ephemeral.public();
        let body = end_part(transfer, (beginner, began), &key);
        Ok(Part {
            beginner,
            agreed,
            key,
            signature: trust.sign(Context::TransferEnd, &body),
            certificate: trust.certificate(),
        })
    }

    /// Returns the message for the node where the transfer began.
    pub(super) fn message(&self, here: NodeAddr) -> Message<'_> {
        Message::Ended(Ended {
            node: here,
            key: self.key,
            signature: self.signature,
            certificate: &self.certificate,
        })
    }
}

/// Creates a key for a transfer that begins here.
pub(super) fn fresh(here: NodeAddr) -> Result<Ephemeral, Failure> {
    let secret = random().map_err(|error| Failure::file(here, "a key", &error))?;
    Ok(Ephemeral::new(secret))
}

/// Creates the key of a stream that begins here, unless it is plain.
pub(super) fn stream_key(here: NodeAddr, plain: bool) -> Result<Option<StreamKey>, Failure> {
    if plain {
        return Ok(None);
    }
    let secret = random().map_err(|error| Failure::file(here, "a key", &error))?;
    Ok(Some(StreamKey::new(secret)))
}

/// Checks that `ended` was signed by the node that it names, for the transfer that has begun here.
pub(super) fn judge(
    trust: &Trust,
    (transfer, began): (&[u8; TRANSFER_BYTES], &[u8; KEY_BYTES]),
    ended: &Ended<'_>,
    unix_s: u64,
) -> Result<(), Failure> {
    let here = trust.own();
    let forbidden = |why: &dyn std::fmt::Display| {
        let text = format!("{} is not believed to be the other end: {why}", ended.node);
        Failure::new(here, FailureKind::Forbidden, text)
    };
    let certificate = Certificate::from_bytes(ended.certificate);
    let certificate = certificate.map_err(|why| forbidden(&why))?;
    let peer = trust.network().verify(&certificate, unix_s);
    let peer = peer.map_err(|why| forbidden(&why))?;
    if peer.address() != ended.node {
        return Err(forbidden(&"it shows the certificate of another node"));
    }
    let body = end_part(transfer, (here, began), &ended.key);
    let key = peer.signing_key();
    match verify(key, Context::TransferEnd, &body, &ended.signature) {
        true => Ok(()),
        false => Err(forbidden(&"the signature is not its own")),
    }
}

/// Creates the failure if the other end speaks none of this node's versions.
pub(super) fn no_version(here: NodeAddr, node: NodeAddr, told: VersionRange) -> Failure {
    let text = format!(
        "the ends of the transfer have no version in common: {node} speaks {} to {}, this node {} to {}; upgrade the \
         older one",
        told.min, told.max, END_VERSIONS.min, END_VERSIONS.max
    );
    Failure::new(here, FailureKind::Unusable, text).about(node)
}

fn no_key(here: NodeAddr, node: NodeAddr) -> Failure {
    let text = format!("{node} has told something else than a key: run one version on all nodes");
    Failure::new(here, FailureKind::Unusable, text)
}

/// An end's message is not authentic.
#[derive(Debug, thiserror::Error)]
pub(super) enum Untrue {
    #[error("a message in the name of {0} is not from {0}: a node on the path has changed it")]
    Forged(NodeAddr),
    #[error("{0} speaks as an end of the transfer, and is none")]
    Stranger(NodeAddr),
    #[error("{0} has told something else than a key: run one version on all nodes")]
    Key(NodeAddr),
    #[error("the key of the data, from {0}, was changed on the way")]
    Wrapped(NodeAddr),
}

impl Untrue {
    /// Returns it as a failure that was noticed here.
    pub(super) fn at(&self, here: NodeAddr) -> Failure {
        let (Untrue::Forged(node)
        | Untrue::Stranger(node)
        | Untrue::Key(node)
        | Untrue::Wrapped(node)) = *self;
        Failure::new(here, FailureKind::Corrupt, self).about(node)
    }
}

/// The sinks, as the source knows them.
pub(super) enum Sinks {
    /// There are no keys, because the sink discards the data.
    Nobody,
    Known(Known),
}

/// The keys agreed on with each sink.
pub(super) struct Known {
    /// The node where the transfer has begun, and the key in its order.
    began: Option<(NodeAddr, Ephemeral)>,
    transfer: [u8; TRANSFER_BYTES],
    /// Ends that have not sent their keys.
    wanted: BTreeSet<NodeAddr>,
    agreed: BTreeMap<NodeAddr, (Agreed, Speech)>,
}

impl Sinks {
    /// Creates the sinks for a source where the transfer has begun, with the ends of its route.
    pub(super) fn of(here: NodeAddr, open: &Open<'_>, key: Ephemeral) -> Sinks {
        let mut wanted = BTreeSet::new();
        ends_of(&open.route, &mut wanted);
        Sinks::Known(Known {
            began: Some((here, key)),
            transfer: open.transfer,
            wanted,
            agreed: BTreeMap::new(),
        })
    }

    /// Creates the sinks for a source that its only sink has requested.
    pub(super) fn one(part: Option<Part>, transfer: [u8; TRANSFER_BYTES]) -> Sinks {
        let Some(part) = part else {
            return Sinks::Nobody;
        };
        let (speech, agreed) = part.agreed.speech();
        Sinks::Known(Known {
            began: None,
            transfer,
            wanted: BTreeSet::new(),
            agreed: BTreeMap::from([(part.beginner, (agreed, speech))]),
        })
    }

    /// Passes a sink's message to `act`, decrypted if the sink has encrypted it.
    pub(super) fn hear<E: From<Untrue>>(
        &mut self,
        message: &Message<'_>,
        act: impl FnOnce(&Message<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Sinks::Known(known) = self else {
            return act(message);
        };
        match message {
            Message::Ended(ended) => Ok(known.on_key(ended)?),
            Message::Said(said) => {
                let mut bytes = said.sealed.to_vec();
                let inner = known.open(said, &mut bytes)?;
                act(&inner)
            }
            Message::Ack(node, _) if known.agreed.contains_key(node) => act(message),
            Message::Ack(node, _) => Err(Untrue::Stranger(*node).into()),
            Message::Kept(node, _)
            | Message::Have(node, _)
            | Message::Done(node, _)
            | Message::Speaks(node, _)
            | Message::Gone(node, _) => Err(Untrue::Forged(*node).into()),
            _ => Ok(()),
        }
    }

    /// Encrypts the stream's key for each sink.
    pub(super) fn wrap(&self, key: &StreamKey) -> Vec<u8> {
        let Sinks::Known(known) = self else {
            return Vec::new();
        };
        let wrapped = known.agreed.iter().map(|(node, (agreed, _))| Wrapped {
            node: *node,
            key: agreed.wrap(key),
        });
        WrappedKeys::to_bytes(&wrapped.collect::<Vec<_>>())
    }
}

impl Known {
    fn on_key(&mut self, ended: &Ended<'_>) -> Result<(), Untrue> {
        let end = ended.node;
        // Each end may send its key once.
        let is_wanted = self.wanted.remove(&end);
        let began = self.began.as_ref().filter(|_| is_wanted);
        let (beginner, key) = began.ok_or(Untrue::Stranger(end))?;
        let pair = Pair {
            transfer: self.transfer,
            beginner: *beginner,
            end,
        };
        let agreed = key.agree(&ended.key, &pair, true);
        let (speech, agreed) = agreed.ok_or(Untrue::Key(end))?.speech();
        self.agreed.insert(end, (agreed, speech));
        Ok(())
    }

    fn open<'a>(&mut self, said: &Said<'_>, bytes: &'a mut [u8]) -> Result<Message<'a>, Untrue> {
        let node = said.node;
        let (_, speech) = self.agreed.get_mut(&node).ok_or(Untrue::Stranger(node))?;
        let opened = speech.open(&said.bound(), bytes);
        let (kind, body) = opened
            .and_then(<[u8]>::split_first)
            .ok_or(Untrue::Forged(node))?;
        let inner = Message::parse(*kind, body).map_err(|_| Untrue::Forged(node))?;
        let is_done = matches!(inner, Message::Done(..));
        match inner {
            Message::Kept(from, _)
            | Message::Have(from, _)
            | Message::Done(from, _)
            | Message::Speaks(from, _)
            | Message::Gone(from, _)
                if from == node && is_done == said.is_done =>
            {
                Ok(inner)
            }
            _ => Err(Untrue::Forged(node)),
        }
    }
}

/// Returns the sink if the message says that it is done. Every node can see this.
pub(super) fn is_done(message: &Message<'_>) -> Option<NodeAddr> {
    match message {
        Message::Done(sink, _) => Some(*sink),
        Message::Said(said) if said.is_done => Some(said.node),
        _ => None,
    }
}

fn ends_of(hop: &wire::relay::Hop<'_>, ends: &mut BTreeSet<NodeAddr>) {
    if hop.path.is_some() {
        ends.insert(hop.node);
    }
    for below in hop.below() {
        ends_of(&below, ends);
    }
}

/// The keys that a sink shares with its source.
pub(super) type Inbound = Shared<Secrets>;

/// The keys, as far as they are known.
pub(super) struct Secrets {
    here: NodeAddr,
    /// While the source's key has not arrived: what will be used to agree on a key with it.
    awaited: Option<(Pair, Ephemeral)>,
    agreed: Option<Agreed>,
    /// True if frames are encrypted.
    is_sealed: bool,
    stream: Option<Arc<StreamKey>>,
}

impl Secrets {
    /// Creates the keys of a node that was asked to be a sink.
    pub(super) fn of(here: NodeAddr, part: Option<Part>, plain: bool) -> Secrets {
        let agreed = part.map(|part| part.agreed);
        Secrets {
            here,
            awaited: None,
            is_sealed: agreed.is_some() && !plain,
            agreed,
            stream: None,
        }
    }

    /// Creates the keys where the transfer has begun: the source is at the end of the route.
    pub(super) fn awaiting(here: NodeAddr, open: &Open<'_>, key: Ephemeral) -> Secrets {
        let mut ends = BTreeSet::new();
        ends_of(&open.route, &mut ends);
        let pair = |source: &NodeAddr| Pair {
            transfer: open.transfer,
            beginner: here,
            end: *source,
        };
        let awaited = ends.first().map(|source| (pair(source), key));
        Secrets {
            here,
            awaited,
            agreed: None,
            is_sealed: !open.plain,
            stream: None,
        }
    }

    /// Takes a message with the source's key, or with that of the stream.
    pub(super) fn hear(&mut self, message: &Message<'_>) -> Result<(), Untrue> {
        match message {
            Message::Ended(ended) => {
                let awaited = self.awaited.take();
                let awaited = awaited.filter(|(pair, _)| pair.end == ended.node);
                let (pair, key) = awaited.ok_or(Untrue::Stranger(ended.node))?;
                let agreed = key.agree(&ended.key, &pair, true);
                self.agreed = Some(agreed.ok_or(Untrue::Key(pair.end))?);
            }
            Message::Wrapped(keys) if self.is_sealed => {
                let own = keys.iter().find(|wrapped| wrapped.node == self.here);
                let agreed = self.agreed.as_ref();
                let key = own.and_then(|own| agreed?.unwrap(&own.key));
                self.stream = Some(Arc::new(key.ok_or(Untrue::Wrapped(self.here))?));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Inbound {
    /// Returns, once the keys are known, what encrypts this sink's messages; none if there are no keys. It can be taken
    /// once.
    pub(super) fn speech(&self, transfer: &Transfer) -> Result<Option<Speech>, Over> {
        self.wait(transfer, |secrets| match &secrets.awaited {
            Some(_) => None,
            None => Some(secrets.agreed.take().map(|agreed| {
                let (speech, agreed) = agreed.speech();
                secrets.agreed = Some(agreed);
                speech
            })),
        })
    }

    /// Decrypts a received frame, if it is encrypted; returns `None` if it is not what the source has sent.
    pub(super) fn open(
        &self,
        offset: u64,
        frame: &mut [u8],
        transfer: &Transfer,
    ) -> Result<Option<()>, Over> {
        let key = self.wait(transfer, |secrets| match secrets.is_sealed {
            true => secrets.stream.clone().map(Some),
            false => Some(None),
        })?;
        Ok(match key {
            None => Some(()),
            Some(key) => key.open(offset, frame).then_some(()),
        })
    }

    /// Returns how many bytes at the end of each frame do not belong to the stream.
    pub(super) fn overhead(&self) -> usize {
        self.with(|secrets| if secrets.is_sealed { TAG_BYTES } else { 0 })
    }
}

/// Sends a sink's message, encrypted for its source if they have agreed on a key.
pub(super) fn say(
    message: &Message<'_>,
    speech: Option<&mut Speech>,
    send: impl FnOnce(&Message<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let (speech, node) = match (speech, message) {
        (
            Some(speech),
            Message::Kept(node, _)
            | Message::Have(node, _)
            | Message::Done(node, _)
            | Message::Speaks(node, _)
            | Message::Gone(node, _),
        ) => (speech, *node),
        _ => return send(message),
    };
    let mut bytes = vec![0; Message::BYTES_MAX];
    let len = message.emit(&mut bytes);
    let len = len.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    bytes.truncate(len);
    // Keep only the kind and the body.
    bytes.drain(1..MESSAGE_HEAD_BYTES);
    let mut said = Said {
        node,
        is_done: matches!(message, Message::Done(..)),
        sealed: &[],
    };
    speech.seal(&said.bound(), &mut bytes);
    said.sealed = &bytes;
    send(&Message::Said(said))
}
