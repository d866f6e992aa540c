//! Seals and opens ten million datagrams of 207 bytes in one session. An engine has no clock, so it is timed from
//! outside. The user time divided by ten million is the cost of one seal and one open together. `seal_ring` does the
//! same with plain ring.
//!
//! ```sh
//! cargo build --release -p secure --examples
//! time target/release/examples/seal_session; time target/release/examples/seal_ring
//! ```

use base::{NodeAddr, Time, UnderlayAddr};
use secure::{Authority, Handshakes, Identity, Keys, Outcome, Session, Validity};
use wire::link::Kind;

const DATAGRAMS: usize = 10_000_000;
const BYTES: usize = 207;

fn main() {
    let (mut here, mut there) = sessions();
    let mut datagram = [7; BYTES];
    for _ in 0..DATAGRAMS {
        here.seal(Kind::Data, &mut datagram).expect("few enough");
        there.open(&mut datagram).expect("sealed just before");
    }
    assert_eq!(here.sealed(), DATAGRAMS as u64);
}

/// Returns the two ends of one session.
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
    let Outcome::Established(here) = a.on_datagram(now, 0, at, &response.concat()) else {
        panic!("the response was refused");
    };
    let finish = here.reply.concat();
    let Outcome::Established(there) = b.on_datagram(now, 0, at, &finish) else {
        panic!("the finish was refused");
    };
    (here.session, there.session)
}
