//! The order of a transfer: signed at the node where it begins, checked at the nodes where it ends.
//!
//! ```text
//!   cp ─socket─▶ first node: signs transfer, direction, time and ends ══▶ relays pass that on ══▶ end: `from` of its root
//! ```
//! A relay cannot begin a transfer in another node's name: the signature covers each end and its path, and the key that
//! the ends use to agree on theirs ([`super::ends`]). It is valid for [`GOOD_FOR_S`], and only once.

use super::failure::{Failure, FailureKind};
use super::tls::Trust;
use base::NodeAddr;
use secure::signature::verify;
use secure::{Certificate, Context, Network};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use wire::certificate::{KEY_BYTES, Pattern, SIGNATURE_BYTES};
use wire::relay::{
    DIGEST_BYTES, Hop, ORDER_BYTES_MAX, ORDERED_BYTES_MAX, Open, Ordered, TRANSFER_BYTES,
};

/// How old, or how far ahead, an order may be. Choice: what two clocks may differ by in the rest of the network.
const GOOD_FOR_S: u64 = 300;
/// Number of orders of one node that are remembered while they are valid, so that none is accepted twice. Choice: 7 per
/// second. If a node begins more, its own oldest orders are forgotten, and nobody else's.
const REMEMBERED: usize = 4_096;

/// The node at which a transfer has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Beginner {
    pub(super) certificate: Certificate,
    /// The key for this transfer.
    pub(super) key: [u8; KEY_BYTES],
    /// The last second in which its order is valid.
    pub(super) good_until_s: u64,
}

impl Beginner {
    pub(super) fn node(&self) -> NodeAddr {
        self.certificate.fields().subject.address
    }

    pub(super) fn name(&self) -> &str {
        self.certificate.fields().subject.name
    }

    /// Returns true if one of these words of `from` or `passes` names it.
    pub(super) fn is_among(&self, words: &[String]) -> bool {
        Pattern::any_names(words, &self.certificate.fields())
    }
}

/// Orders that were accepted, by the node that began them.
#[derive(Debug, Default)]
pub(super) struct Counted(Mutex<BTreeMap<NodeAddr, VecDeque<Order>>>);

/// The name of the transfer, and the last second of the order.
type Order = ([u8; TRANSFER_BYTES], u64);

impl Counted {
    /// Accepts an order that is carried out here, once.
    pub(super) fn enter(
        &self,
        here: NodeAddr,
        (beginner, transfer): (&Beginner, [u8; TRANSFER_BYTES]),
        unix_s: u64,
    ) -> Result<(), Failure> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for orders in counted.values_mut() {
            orders.retain(|(_, until_s)| *until_s >= unix_s);
        }
        counted.retain(|_, orders| !orders.is_empty());
        let orders = counted.entry(beginner.node()).or_default();
        if orders.iter().any(|(known, _)| *known == transfer) {
            let text =
                "who began the transfer is not believed: its order has been carried out already";
            return Err(Failure::new(here, FailureKind::Forbidden, text));
        }
        orders.push_back((transfer, beginner.good_until_s));
        if orders.len() > REMEMBERED {
            orders.pop_front();
        }
        Ok(())
    }
}

/// Signs an order at the node where `open` begins: `open` itself contains only the key.
pub(super) fn sign(trust: &Trust, open: &Open<'_>, key: [u8; KEY_BYTES], unix_s: u64) -> Vec<u8> {
    write((open, key), unix_s, &trust.certificate(), |body| {
        trust.sign(Context::Transfer, body)
    })
}

fn write(
    (open, key): (&Open<'_>, [u8; KEY_BYTES]),
    unix_s: u64,
    certificate: &[u8],
    sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_BYTES],
) -> Vec<u8> {
    let mut ends = Vec::new();
    mark_all(&open.route, &mut ends);
    let mut ordered = Ordered {
        unix_s,
        key,
        ends: &ends,
        signature: [0; SIGNATURE_BYTES],
        certificate,
    };
    let mut body = [0; ORDERED_BYTES_MAX];
    let of = (&open.transfer, open.flags());
    let len = ordered.signed_part(of, &mut body);
    let len = len.expect("a route has no more ends than fit");
    ordered.signature = sign(&body[..len]);
    let mut bytes = vec![0; ORDER_BYTES_MAX];
    let len = ordered
        .emit(&mut bytes)
        .expect("nor has an order more bytes");
    bytes.truncate(len);
    bytes
}

/// Returns who began the transfer in which this node takes part, as an end or on the way to ends.
pub(super) fn judge(trust: &Trust, open: &Open<'_>, unix_s: u64) -> Result<Beginner, Failure> {
    read((trust.own(), &trust.network()), open, unix_s)
}

fn read(
    (here, network): (NodeAddr, &Network),
    open: &Open<'_>,
    unix_s: u64,
) -> Result<Beginner, Failure> {
    let forbidden = |why: &dyn std::fmt::Display| {
        let text = format!("who began the transfer is not believed: {why}");
        Failure::new(here, FailureKind::Forbidden, text)
    };
    let ordered = Ordered::parse(open.ordered)
        .map_err(|_| forbidden(&"it does not say so: run one version on all nodes"))?;
    let certificate = Certificate::from_bytes(ordered.certificate);
    let certificate = certificate.map_err(|why| forbidden(&why))?;
    let peer = network.verify(&certificate, unix_s);
    let peer = peer.map_err(|why| forbidden(&why))?;
    let mut body = [0; ORDERED_BYTES_MAX];
    let of = (&open.transfer, open.flags());
    let len = ordered.signed_part(of, &mut body);
    let body = &body[..len.expect("what was parsed has no more ends than fit")];
    if !verify(
        peer.signing_key(),
        Context::Transfer,
        body,
        &ordered.signature,
    ) {
        return Err(forbidden(&"the signature is not its own"));
    }
    if unix_s.abs_diff(ordered.unix_s) > GOOD_FOR_S {
        return Err(forbidden(
            &"its order is older or newer than five minutes: set the clocks of both nodes",
        ));
    }
    let mut marks = Vec::new();
    mark_all(&open.route, &mut marks);
    if !marks.iter().all(|mark| ordered.ends.contains(mark)) {
        return Err(forbidden(&"it has ordered another path"));
    }
    Ok(Beginner {
        certificate: peer.certificate().clone(),
        key: ordered.key,
        good_until_s: ordered.unix_s.saturating_add(GOOD_FOR_S),
    })
}

fn mark_all(hop: &Hop<'_>, ends: &mut Vec<[u8; DIGEST_BYTES]>) {
    if hop.path.is_some() {
        ends.push(mark(hop));
    }
    for below in hop.below() {
        mark_all(&below, ends);
    }
}

fn mark(hop: &Hop<'_>) -> [u8; DIGEST_BYTES] {
    let mut hash = blake3::Hasher::new();
    hash.update(&hop.node.0.to_be_bytes());
    hash.update(&[u8::from(hop.discard)]);
    hash.update(hop.path.unwrap_or_default());
    *hash.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{AMS, FRA, hop, identity, open};
    use net::Clock;
    use secure::Authority;
    use wire::bytes::Writer;
    use wire::relay::HopRepr;

    const LON: NodeAddr = NodeAddr(0x0a07_0003);

    /// Encodes a hop that discards its data.
    fn discarding(node: NodeAddr, path: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 256];
        let mut w = Writer::new(&mut bytes);
        let repr = HopRepr {
            node,
            stripes: 1,
            adapts: false,
            endpoint: "",
            path: Some(path),
            discard: true,
            below: &[],
        };
        repr.emit(&mut w).unwrap();
        w.written().to_vec()
    }

    #[test]
    fn a_relay_begins_nothing_in_another_s_name() {
        let mut authority = Authority::generate(&[7; 32]);
        let ams = identity(&mut authority, [1; 64], AMS);
        let fra = identity(&mut authority, [2; 64], FRA);
        let network = authority.network();
        // ams ─▶ fra, which keeps it too ─▶ lon
        let last = hop(LON, Some(b"in/data"), &[]);
        let route = hop(FRA, Some(b"data"), &last);
        let now_s = Clock::new().unix_s();
        let order_at = |unix_s: u64| {
            let sign = |body: &[u8]| ams.sign(Context::Transfer, body);
            write(
                (&open(&route, &[]), [5; 32]),
                unix_s,
                ams.certificate().as_bytes(),
                sign,
            )
        };
        let ordered = order_at(now_s);
        let judged = |open: &Open<'_>| {
            let beginner = read((LON, &network), open, now_s);
            beginner.map_err(|failure| failure.text)
        };
        for (route, at_s) in [(&last, now_s), (&route, now_s + 300), (&last, now_s - 300)] {
            let beginner = judged(&open(route, &order_at(at_s))).unwrap();
            assert_eq!((beginner.node(), beginner.name()), (AMS, ams.name()));
            assert_eq!(beginner.key, [5; 32]);
        }
        let refused = |open: &Open<'_>, why: &str| {
            let text = judged(open).unwrap_err();
            assert!(text.contains(why), "{text}");
        };
        // A relay on the way to an end checks the ends behind it.
        let passing = |end: &[u8]| hop(FRA, None, end);
        assert_eq!(
            judged(&open(&passing(&last), &ordered)).unwrap().node(),
            AMS
        );
        refused(
            &open(&passing(&hop(LON, Some(b"etc"), &[])), &ordered),
            "another path",
        );
        refused(&open(&last, &[]), "does not say so");
        refused(&open(&last, &order_at(now_s + 301)), "five minutes");
        refused(&open(&last, &order_at(now_s - 301)), "five minutes");
        // The order does not match another path, node, direction or transfer.
        refused(
            &open(&hop(LON, Some(b"etc"), &[]), &ordered),
            "another path",
        );
        refused(
            &open(&hop(AMS, Some(b"data"), &[]), &ordered),
            "another path",
        );
        let pull = Open {
            pull: true,
            ..open(&last, &ordered)
        };
        refused(&pull, "not its own");
        let change: [fn(&mut Open<'_>); 8] = [
            |open| open.plain = true,
            |open| open.scavenge = true,
            |open| open.fresh = true,
            |open| open.keep = true,
            |open| open.delete = true,
            |open| open.spare = true,
            |open| open.dry = true,
            |open| open.attributes = true,
        ];
        for change in change {
            let mut changed = open(&last, &ordered);
            change(&mut changed);
            refused(&changed, "not its own");
        }
        refused(
            &open(&discarding(LON, b"in/data"), &ordered),
            "another path",
        );
        let other = Open {
            transfer: [8; TRANSFER_BYTES],
            ..open(&last, &ordered)
        };
        refused(&other, "not its own");
        // The order is signed with the node's own key but shows another node's certificate.
        let sign = |body: &[u8]| fra.sign(Context::Transfer, body);
        let forged = write(
            (&open(&last, &[]), [5; 32]),
            now_s,
            ams.certificate().as_bytes(),
            sign,
        );
        refused(&open(&last, &forged), "not its own");
        let mut stranger = Authority::generate(&[8; 32]);
        let stranger = identity(&mut stranger, [3; 64], AMS);
        let sign = |body: &[u8]| stranger.sign(Context::Transfer, body);
        let foreign = write(
            (&open(&last, &[]), [5; 32]),
            now_s,
            stranger.certificate().as_bytes(),
            sign,
        );
        refused(&open(&last, &foreign), "not believed");
        for at in 0..ordered.len() {
            let mut changed = ordered.clone();
            changed[at] ^= 1;
            assert!(judged(&open(&last, &changed)).is_err(), "byte {at}");
            assert!(judged(&open(&last, &ordered[..at])).is_err(), "{at} bytes");
        }
        // The order is accepted once, while it is valid.
        let counted = Counted::default();
        let beginner = judged(&open(&last, &ordered)).unwrap();
        let enter = |name: u8, unix_s: u64| {
            let entered = counted.enter(LON, (&beginner, [name; TRANSFER_BYTES]), unix_s);
            entered.is_ok()
        };
        assert!(enter(7, now_s) && enter(8, now_s) && !enter(7, now_s + 300));
        assert!(enter(7, now_s + 301), "it is not good any more");
        // Orders of other nodes do not displace its own.
        let other = Beginner {
            certificate: fra.certificate().clone(),
            ..beginner.clone()
        };
        for name in 0..2 * REMEMBERED as u128 {
            let name = name.to_be_bytes();
            counted.enter(LON, (&other, name), now_s).unwrap();
        }
        assert!(!enter(7, now_s));
    }
}
