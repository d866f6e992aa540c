//! Keys that the ends of a transfer have and its relays have not.
//!
//! ```text
//!   where it begins: Ephemeral ─▶ order ══ relays ══▶ end: Part ─▶ Ended ══ relays ══▶ first node: verifies
//!   source: Sinks    seals frames, hears what the sinks say, and believes what has their MAC
//!   sink:   Inbound  opens frames, says what it has, with a MAC
//! ```
//! `sinew cp` has no certificate: the node beside it signs its order, and verifies for it what the other ends
//! show. A transfer that is plain has the same keys and MACs; only its frames are not sealed. Noise that is
//! discarded has neither. Formats and keys: [`wire::relay::Ended`], [`secure::ends`].

use super::failure::{Failure, FailureKind};
use super::tls::{Trust, random};
use super::transfer::{Over, Shared, Transfer};
use base::NodeAddr;
use secure::ends::{Agreed, Ephemeral, StreamKey, Transcript};
use secure::signature::verify;
use secure::{Certificate, Context};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::TAG_BYTES;
use wire::certificate::{KEY_BYTES, SIGNATURE_BYTES};
use wire::relay::{
    Ended, MAC_BYTES, Message, Open, TRANSFER_BYTES, Wrapped, WrappedKeys, end_part, said,
};

/// The part of a node that is an end.
pub(super) struct Part {
    pub(super) beginner: NodeAddr,
    pub(super) agreed: Agreed,
    key: [u8; KEY_BYTES],
    signature: [u8; SIGNATURE_BYTES],
    certificate: Vec<u8>,
}

impl Part {
    /// In the transfer that has begun at this node, with this key.
    pub(super) fn take(
        trust: &Trust,
        transfer: &[u8; TRANSFER_BYTES],
        (beginner, began): (NodeAddr, &[u8; KEY_BYTES]),
    ) -> Result<Part, Failure> {
        let ephemeral = fresh(trust.own())?;
        let agreed = ephemeral.agree(began, transfer, false);
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

    /// What the beginner is told.
    pub(super) fn message(&self, here: NodeAddr) -> Message<'_> {
        Message::Ended(Ended {
            node: here,
            key: self.key,
            signature: self.signature,
            certificate: &self.certificate,
        })
    }
}

/// A key for a transfer that begins here.
pub(super) fn fresh(here: NodeAddr) -> Result<Ephemeral, Failure> {
    let secret = random().map_err(|error| Failure::file(here, "a key", &error))?;
    Ok(Ephemeral::new(secret))
}

/// The key of a stream that begins here, unless it is to be plain.
pub(super) fn stream_key(here: NodeAddr, plain: bool) -> Result<Option<StreamKey>, Failure> {
    if plain {
        return Ok(None);
    }
    let secret = random().map_err(|error| Failure::file(here, "a key", &error))?;
    Ok(Some(StreamKey::new(secret)))
}

/// That `ended` was signed by the node that it names, for the transfer that has begun here.
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

fn no_key(here: NodeAddr, node: NodeAddr) -> Failure {
    let text = format!("{node} has told something else than a key: run one version on all nodes");
    Failure::new(here, FailureKind::Unusable, text)
}

/// What an end says is not its own.
#[derive(Debug, thiserror::Error)]
pub(super) enum Untrue {
    #[error("what {0} is said to have it has not said itself: a node on the path has changed it")]
    Mac(NodeAddr),
    #[error("{0} speaks as an end of the transfer, and is none")]
    Stranger(NodeAddr),
    #[error("{0} has told something else than a key: run one version on all nodes")]
    Key(NodeAddr),
}

/// The sinks, as the source knows them.
pub(super) enum Sinks {
    /// Nothing is agreed on: what comes is discarded there.
    Nobody,
    /// Where the transfer has begun.
    Known {
        key: Option<Ephemeral>,
        transfer: [u8; TRANSFER_BYTES],
        wanted: BTreeSet<NodeAddr>,
        agreed: BTreeMap<NodeAddr, (Agreed, Transcript)>,
    },
}

impl Sinks {
    /// A source where the transfer has begun, with the ends of its route.
    pub(super) fn of(open: &Open<'_>, key: Ephemeral) -> Sinks {
        let mut wanted = BTreeSet::new();
        ends_of(&open.route, &mut wanted);
        Sinks::Known {
            key: Some(key),
            transfer: open.transfer,
            wanted,
            agreed: BTreeMap::new(),
        }
    }

    /// A source that was asked by its only sink.
    pub(super) fn one(part: Option<Part>, transfer: [u8; TRANSFER_BYTES]) -> Sinks {
        let Some(part) = part else {
            return Sinks::Nobody;
        };
        let transcript = part.agreed.transcript();
        Sinks::Known {
            key: None,
            transfer,
            wanted: BTreeSet::new(),
            agreed: BTreeMap::from([(part.beginner, (part.agreed, transcript))]),
        }
    }

    /// What a sink says of itself counts only if this takes it.
    pub(super) fn hear(&mut self, message: &Message<'_>) -> Result<(), Untrue> {
        let Sinks::Known {
            key,
            transfer,
            wanted,
            agreed,
        } = self
        else {
            return Ok(());
        };
        let (node, mac) = match message {
            Message::Ended(ended) => {
                // Once.
                if !wanted.remove(&ended.node) {
                    return Err(Untrue::Stranger(ended.node));
                }
                let key = key.as_ref().ok_or(Untrue::Stranger(ended.node))?;
                let both = key.agree(&ended.key, transfer, true);
                let both = both.ok_or(Untrue::Key(ended.node))?;
                let transcript = both.transcript();
                agreed.insert(ended.node, (both, transcript));
                return Ok(());
            }
            Message::Kept(node, _) => (node, None),
            Message::Have(node, _, mac) | Message::Done(node, _, mac) => (node, Some(mac)),
            _ => return Ok(()),
        };
        let (_, transcript) = agreed.get_mut(node).ok_or(Untrue::Stranger(*node))?;
        if let Some((kind, bytes)) = said(message) {
            transcript.say(kind, &bytes);
        }
        match mac.is_none_or(|mac| transcript.is_tagged(mac)) {
            true => Ok(()),
            false => Err(Untrue::Mac(*node)),
        }
    }

    /// The stream's key for all of them.
    pub(super) fn wrap(&self, key: &StreamKey) -> Vec<u8> {
        let Sinks::Known { agreed, .. } = self else {
            return Vec::new();
        };
        let wrapped = agreed.iter().map(|(node, (agreed, _))| Wrapped {
            node: *node,
            key: agreed.wrap(key),
        });
        WrappedKeys::to_bytes(&wrapped.collect::<Vec<_>>())
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

/// What a sink shares with its source.
pub(super) type Inbound = Shared<Secrets>;

/// The same, once it is known.
pub(super) struct Secrets {
    here: NodeAddr,
    /// Where the source is whose key has not come yet, and with what that will be agreed on.
    awaited: Option<(NodeAddr, Ephemeral, [u8; TRANSFER_BYTES])>,
    agreed: Option<Agreed>,
    /// Frames are sealed.
    is_sealed: bool,
    stream: Option<Arc<StreamKey>>,
}

impl Secrets {
    /// Of a node that was asked to be a sink.
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

    /// Where the transfer has begun: the source is at the end of the route.
    pub(super) fn awaiting(here: NodeAddr, open: &Open<'_>, key: Ephemeral) -> Secrets {
        let mut ends = BTreeSet::new();
        ends_of(&open.route, &mut ends);
        let awaited = ends.first().map(|source| (*source, key, open.transfer));
        Secrets {
            here,
            awaited,
            agreed: None,
            is_sealed: !open.plain,
            stream: None,
        }
    }

    /// The source tells its key, or that of the stream.
    pub(super) fn hear(&mut self, message: &Message<'_>) -> Result<(), Untrue> {
        match message {
            Message::Ended(ended) => {
                let awaited = self.awaited.take();
                let awaited = awaited.filter(|(source, ..)| *source == ended.node);
                let (source, key, transfer) = awaited.ok_or(Untrue::Stranger(ended.node))?;
                let agreed = key.agree(&ended.key, &transfer, true);
                self.agreed = Some(agreed.ok_or(Untrue::Key(source))?);
            }
            Message::Wrapped(keys) if self.is_sealed => {
                let own = keys.iter().find(|wrapped| wrapped.node == self.here);
                let agreed = self.agreed.as_ref();
                let key = own.and_then(|own| agreed?.unwrap(&own.key));
                self.stream = Some(Arc::new(key.ok_or(Untrue::Mac(self.here))?));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Inbound {
    /// Where what this sink says is kept, once that is known; nothing is kept where nothing is agreed on.
    pub(super) fn transcript(&self, transfer: &Transfer) -> Result<Option<Transcript>, Over> {
        self.wait(transfer, |secrets| match &secrets.awaited {
            Some(_) => None,
            None => Some(secrets.agreed.as_ref().map(Agreed::transcript)),
        })
    }

    /// Opens a frame that has come, if it is sealed; `None` if it is not what the source has sent.
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

    /// So many bytes at the end of each frame are none of the stream.
    pub(super) fn overhead(&self) -> usize {
        self.with(|secrets| if secrets.is_sealed { TAG_BYTES } else { 0 })
    }
}

/// What a sink says next, with its MAC where there is one.
pub(super) fn with_mac<'a>(
    mut message: Message<'a>,
    transcript: Option<&mut Transcript>,
) -> Message<'a> {
    let mut tag = [0; MAC_BYTES];
    if let (Some(transcript), Some((kind, bytes))) = (transcript, said(&message)) {
        transcript.say(kind, &bytes);
        tag = transcript.tag();
    }
    if let Message::Have(_, _, mac) | Message::Done(_, _, mac) = &mut message {
        *mac = tag;
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::bytes::Writer;
    use wire::relay::{Done, Have, Hop, HopRepr, Keys};

    const LON: NodeAddr = NodeAddr(0x0a07_0003);
    const PAR: NodeAddr = NodeAddr(0x0a07_0004);

    fn open(route: &[u8]) -> Open<'_> {
        Open {
            transfer: [7; TRANSFER_BYTES],
            pull: false,
            plain: false,
            scavenge: false,
            fresh: false,
            keep: false,
            delete: false,
            spare: false,
            dry: false,
            congestion: "",
            certificate: &[],
            ordered: &[],
            route: Hop::parse(route).unwrap(),
        }
    }

    fn route() -> Vec<u8> {
        let mut bytes = vec![0; 256];
        let repr = HopRepr {
            node: LON,
            stripes: 1,
            adapts: false,
            endpoint: "",
            path: Some(b"data"),
            discard: false,
            below: &[],
        };
        let mut w = Writer::new(&mut bytes);
        repr.emit(&mut w).unwrap();
        w.written().to_vec()
    }

    fn ended(node: NodeAddr, key: &Ephemeral) -> Message<'static> {
        Message::Ended(Ended {
            node,
            key: key.public(),
            signature: [0; SIGNATURE_BYTES],
            certificate: &[],
        })
    }

    /// A source that has heard its sink's key, and what the sink shares with it.
    fn pair() -> (Sinks, Agreed) {
        let route = route();
        let open = open(&route);
        let (source, sink) = (Ephemeral::new([1; 32]), Ephemeral::new([2; 32]));
        let agreed = sink.agree(&source.public(), &open.transfer, false).unwrap();
        let mut sinks = Sinks::of(&open, source);
        sinks.hear(&ended(LON, &sink)).unwrap();
        (sinks, agreed)
    }

    #[test]
    fn a_sink_is_believed_and_nobody_who_speaks_for_it() {
        let have = Message::Have(LON, Have::default(), [0; MAC_BYTES]);
        let done = Done {
            bytes: 1,
            entries: 1,
            digest: [9; 32],
        };
        let done = Message::Done(LON, done, [0; MAC_BYTES]);
        let keys = [0; 8];
        let kept = Message::Kept(LON, Keys::parse(&keys).unwrap());
        let (mut sinks, agreed) = pair();
        let mut transcript = agreed.transcript();
        for message in [&kept, &have, &done] {
            let said = with_mac(*message, Some(&mut transcript));
            sinks.hear(&said).unwrap();
        }
        // Without a MAC, with one of something else, with a key more, and in the name of another.
        let is_refused = |told: &[Message<'_>]| {
            let (mut sinks, _) = pair();
            told.iter().any(|message| sinks.hear(message).is_err())
        };
        assert!(is_refused(&[have]) && is_refused(&[done]));
        let true_have = with_mac(have, Some(&mut agreed.transcript()));
        assert!(!is_refused(&[true_have]));
        assert!(is_refused(&[kept, true_have]), "it has told no key");
        let Message::Have(_, mut other, mac) = true_have else {
            unreachable!("it is what it was")
        };
        other.partial = 1;
        assert!(is_refused(&[Message::Have(LON, other, mac)]));
        assert!(is_refused(&[Message::Have(PAR, Have::default(), mac)]));
        assert!(
            is_refused(&[ended(PAR, &Ephemeral::new([3; 32]))]),
            "no end"
        );
        assert!(is_refused(&[ended(LON, &Ephemeral::new([3; 32]))]), "twice");
    }

    #[test]
    fn a_sink_opens_what_its_source_has_sealed() {
        let (sinks, agreed) = pair();
        let key = StreamKey::new([5; 32]);
        let wrapped = sinks.wrap(&key);
        let message = Message::Wrapped(WrappedKeys::parse(&wrapped).unwrap());
        let secrets = |node, agreed| Secrets {
            here: node,
            awaited: None,
            agreed: Some(agreed),
            is_sealed: true,
            stream: None,
        };
        let mut other = secrets(PAR, pair().1);
        assert!(other.hear(&message).is_err(), "it is for another");
        let mut sink = secrets(LON, agreed);
        sink.hear(&message).unwrap();
        let (inbound, transfer) = (Inbound::new(sink), Transfer::new(1));
        let mut frame = vec![1; 100 + inbound.overhead()];
        key.seal(300, &mut frame);
        let mut elsewhere = frame.clone();
        let opened = inbound.open(300, &mut frame, &transfer).unwrap();
        assert!(opened.is_some() && frame[..100] == [1; 100]);
        let opened = inbound.open(301, &mut elsewhere, &transfer).unwrap();
        assert!(opened.is_none());
    }
}
