//! The two MACs of a handshake datagram.
//!
//! mac1 is keyed by the network's root public key. It only proves that the sender knows the network; it limits the cost
//! of unwanted datagrams from outside to one MAC each. mac2 is keyed by a cookie, which is a MAC of the sender's
//! address under a secret of this node. A sender that can show it receives what is sent to that address. The node
//! stores nothing per address.

use base::{Duration, Time, UnderlayAddr};
use ring::{digest, hmac};
use wire::certificate::KEY_BYTES;
use wire::handshake::{COOKIE_BYTES, Cookie, MAC_BYTES};
use wire::link::SessionIndex;

/// The first half of an HMAC-SHA-256.
pub(crate) type Mac = [u8; MAC_BYTES];

/// How long a secret is used to make cookies. It is accepted for the same time afterwards, so a cookie is valid for 60
/// to 120 s: longer than a dial lasts, and so short that collected cookies are of little use.
const ROTATE_AFTER: Duration = Duration::from_secs(60);

/// The key of mac1.
pub(crate) struct NetworkMac(hmac::Key);

/// The secrets from which cookies are made.
pub(crate) struct Cookies {
    current: hmac::Key,
    previous: Option<hmac::Key>,
    rotate_at: Time,
}

impl NetworkMac {
    pub(crate) fn new(root: &[u8; KEY_BYTES]) -> NetworkMac {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(b"sinew mac1 1");
        context.update(root);
        NetworkMac(hmac::Key::new(hmac::HMAC_SHA256, context.finish().as_ref()))
    }
    pub(crate) fn of(&self, bytes: &[u8]) -> Mac {
        half(hmac::sign(&self.0, bytes))
    }
    pub(crate) fn is_of(&self, mac: &Mac, bytes: &[u8]) -> bool {
        equal(mac, &self.of(bytes))
    }

    /// Returns a cookie message with its mac1. The mac1 also covers the mac1 of the Init, so only a node that has seen
    /// the Init can answer it.
    pub(crate) fn cookie(&self, to: SessionIndex, cookie: Mac, init: &Mac) -> [u8; COOKIE_BYTES] {
        let message = Cookie {
            receiver: to,
            cookie,
        };
        let mut bytes = message.to_bytes();
        let (body, mac1) = bytes.split_at_mut(COOKIE_BYTES - MAC_BYTES);
        mac1.copy_from_slice(&self.of_both(body, init));
        bytes
    }
    pub(crate) fn of_both(&self, body: &[u8], init: &Mac) -> Mac {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(body);
        context.update(init);
        half(context.sign())
    }
}

impl Cookies {
    pub(crate) fn new(secret: &[u8; 32], now: Time) -> Cookies {
        Cookies {
            current: key(secret),
            previous: None,
            rotate_at: now + ROTATE_AFTER,
        }
    }

    /// Returns whether the current secret has expired; then [`Cookies::rotate`] is due.
    pub(crate) fn is_stale(&self, now: Time) -> bool {
        now >= self.rotate_at
    }
    pub(crate) fn rotate(&mut self, secret: &[u8; 32], now: Time) {
        // After a long pause, the current secret has also outlived its second period.
        let outlived = now >= self.rotate_at + ROTATE_AFTER;
        let last = core::mem::replace(&mut self.current, key(secret));
        self.previous = (!outlived).then_some(last);
        self.rotate_at = now + ROTATE_AFTER;
    }

    /// Returns the cookie of an address.
    pub(crate) fn cookie(&self, from: UnderlayAddr) -> Mac {
        cookie(&self.current, from)
    }
    /// Returns true if `mac2` over `bytes` is keyed by a valid cookie of `from`.
    pub(crate) fn is_proof(&self, from: UnderlayAddr, mac2: &Mac, bytes: &[u8]) -> bool {
        let shows = |secret| equal(mac2, &keyed_by(&cookie(secret, from), bytes));
        shows(&self.current) || self.previous.as_ref().is_some_and(shows)
    }
}

/// Computes mac2, which is keyed by a cookie.
pub(crate) fn keyed_by(cookie: &Mac, bytes: &[u8]) -> Mac {
    half(hmac::sign(&key(cookie), bytes))
}

fn cookie(secret: &hmac::Key, from: UnderlayAddr) -> Mac {
    let mut context = hmac::Context::with_key(secret);
    context.update(&from.ip);
    context.update(&from.port.to_be_bytes());
    context.update(&[from.socket]);
    half(context.sign())
}

fn key(bytes: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, bytes)
}

fn half(tag: hmac::Tag) -> Mac {
    let mut mac = [0; MAC_BYTES];
    mac.copy_from_slice(&tag.as_ref()[..MAC_BYTES]);
    mac
}

/// Compares in constant time, so that the duration does not reveal the position of a difference.
fn equal(a: &Mac, b: &Mac) -> bool {
    u128::from_ne_bytes(*a) == u128::from_ne_bytes(*b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> UnderlayAddr {
        UnderlayAddr {
            ip: [7; 16],
            port,
            socket: 0,
            local: 0,
        }
    }

    #[test]
    fn a_cookie_is_of_one_address_and_two_turns() {
        let mut cookies = Cookies::new(&[1; 32], Time::ZERO);
        let mac2 = keyed_by(&cookies.cookie(at(1)), b"init");
        assert!(cookies.is_proof(at(1), &mac2, b"init"));
        assert!(!cookies.is_proof(at(2), &mac2, b"init"));
        assert!(!cookies.is_proof(at(1), &mac2, b"inis"));
        let mut now = Time::ZERO;
        for (turn, counts) in [(1, true), (2, false)] {
            assert!(!cookies.is_stale(now));
            now += ROTATE_AFTER;
            assert!(cookies.is_stale(now));
            cookies.rotate(&[turn + 1; 32], now);
            assert_eq!(cookies.is_proof(at(1), &mac2, b"init"), counts, "{turn}");
        }
    }

    #[test]
    fn after_a_pause_no_old_cookie_counts() {
        let mut cookies = Cookies::new(&[1; 32], Time::ZERO);
        let mac2 = keyed_by(&cookies.cookie(at(1)), b"init");
        cookies.rotate(&[2; 32], Time::ZERO + ROTATE_AFTER * 2);
        assert!(!cookies.is_proof(at(1), &mac2, b"init"));
    }

    #[test]
    fn a_cookie_message_answers_one_init() {
        let mac = NetworkMac::new(&[1; 32]);
        let bytes = mac.cookie(SessionIndex::new(5), [9; 16], &[3; 16]);
        let (body, mac1) = wire::handshake::split_mac(&bytes).unwrap();
        assert!(equal(mac1, &mac.of_both(body, &[3; 16])));
        assert!(!equal(mac1, &mac.of_both(body, &[4; 16])));
        let other = NetworkMac::new(&[2; 32]);
        assert!(!equal(mac1, &other.of_both(body, &[3; 16])));
    }
}
