//! What sealing and opening a datagram costs, beside bare ring on the same bytes.
//!
//! ```sh
//! cargo run --release -p secure --example seal_cost [BYTES]
//! ```
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    clippy::print_stdout,
    reason = "a measurement is outside the engine: it reads the clock and prints"
)]

use base::{NodeAddr, Time, UnderlayAddr};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use secure::{Authority, Handshakes, Identity, Keys, Outcome, Session, Validity};
use std::time::Instant;
use wire::link::{Kind, SEAL_BYTES};

/// Datagrams sealed and then opened per turn: they stay in the cache, as a burst does.
const BURST: usize = 64;
const TURNS: usize = 2_000;
const ROUNDS: usize = 7;

fn main() {
    let bytes = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let bytes: usize = bytes.unwrap_or(207).max(SEAL_BYTES);
    println!("{bytes} bytes per datagram, the best of {ROUNDS} rounds, ns each");
    println!("            seal   open   both");
    let ring = best(|| ring_round(bytes));
    let ours = best(|| session_round(bytes));
    for (name, (seal, open)) in [("bare ring", ring), ("session", ours)] {
        println!("{name:10} {seal:6.0} {open:6.0} {:6.0}", seal + open);
    }
}

fn best(mut round: impl FnMut() -> (f64, f64)) -> (f64, f64) {
    (0..ROUNDS)
        .map(|_| round())
        .min_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)))
        .expect("at least one round")
}

/// Nanoseconds per seal and per open.
fn turns(
    bytes: usize,
    mut seal: impl FnMut(&mut [u8]),
    mut open: impl FnMut(&mut [u8]),
) -> (f64, f64) {
    let mut burst = vec![vec![7u8; bytes]; BURST];
    let (mut sealing, mut opening) = (0, 0);
    for _ in 0..TURNS {
        let start = Instant::now();
        burst.iter_mut().for_each(|datagram| seal(datagram));
        let middle = Instant::now();
        burst.iter_mut().for_each(|datagram| open(datagram));
        sealing += (middle - start).as_nanos();
        opening += middle.elapsed().as_nanos();
    }
    let each = |ns: u128| ns as f64 / (TURNS * BURST) as f64;
    (each(sealing), each(opening))
}

fn ring_round(bytes: usize) -> (f64, f64) {
    let key = || LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[7; 32]).expect("32 bytes"));
    let (sealing, opening) = (key(), key());
    let nonce = |counter: &mut u64| {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&counter.to_be_bytes());
        *counter += 1;
        Nonce::assume_unique_for_key(nonce)
    };
    let (mut sealed, mut opened) = (0, 0);
    turns(
        bytes,
        |datagram| {
            let (front, rest) = datagram.split_at_mut(8);
            let (plaintext, room) = rest.split_at_mut(rest.len() - 16);
            let tag = sealing
                .seal_in_place_separate_tag(nonce(&mut sealed), Aad::from(&*front), plaintext)
                .expect("short enough");
            room.copy_from_slice(tag.as_ref());
        },
        |datagram| {
            let (front, rest) = datagram.split_at_mut(8);
            opening
                .open_in_place(nonce(&mut opened), Aad::from(&*front), rest)
                .expect("sealed just before");
        },
    )
}

fn session_round(bytes: usize) -> (f64, f64) {
    let (mut here, mut there) = sessions();
    turns(
        bytes,
        |datagram| {
            here.seal(Kind::Data, datagram).expect("few enough");
        },
        |datagram| {
            there.open(datagram).expect("sealed just before");
        },
    )
}

/// Two ends of one session.
fn sessions() -> (Session, Session) {
    let mut authority = Authority::generate(&[1; 32]);
    let mut node = |n: u8| {
        let keys = Keys::generate(&[n; 64]);
        let address = NodeAddr(0x0a07_0000 | u32::from(n));
        let id = authority.network().id();
        let request = keys.request(id, address, "node", &[]).expect("a good name");
        let validity = Validity {
            not_before_s: 0,
            not_after_s: 1,
        };
        let certificate = authority.issue(&request, validity).expect("a good request");
        let identity = Identity::new(keys, certificate).expect("its own certificate");
        Handshakes::new(identity, authority.network(), [n; 32], Time::ZERO)
    };
    let (mut a, mut b) = (node(1), node(2));
    let (now, at) = (Time::ZERO, UnderlayAddr::default());
    let init = a.dial(now, at, None).expect("the first dial");
    let Outcome::Reply(response) = b.on_datagram(now, 0, at, &init) else {
        panic!("no response");
    };
    let Outcome::Established(here) = a.on_datagram(now, 0, at, &response) else {
        panic!("the response was refused");
    };
    let finish = here.reply.expect("the dialler finishes");
    let Outcome::Established(there) = b.on_datagram(now, 0, at, &finish) else {
        panic!("the finish was refused");
    };
    (here.session, there.session)
}
