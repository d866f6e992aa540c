//! Both sides of 3000 handshakes, to be timed: `time target/release/examples/handshakes_classic`, and `_hybrid`.

use base::{NodeAddr, Time, UnderlayAddr};
use secure::{Authority, Handshakes, Identity, Keys, Outcome, PostQuantum, Validity};

const HANDSHAKES: u32 = 3_000;
/// Number of bytes that both sides send.
pub(crate) const CLASSIC_BYTES: usize = 1_706;

/// Makes all handshakes between nodes with this setting. Checks that each sends `expected` bytes.
pub(crate) fn all(wish: PostQuantum, expected: usize) {
    let mut authority = Authority::generate(&[1; 32]);
    let identities = [1, 2].map(|n| {
        let keys = Keys::generate(&[n; 64]);
        let id = authority.network().id();
        let request = keys.request(id, NodeAddr(n.into()), &format!("node-{n}"), &[]);
        let forever = Validity {
            not_before_s: 0,
            not_after_s: u64::MAX,
        };
        let certificate = authority.issue(&request.expect("a good name"), forever);
        Identity::new(keys, certificate.expect("a free address")).expect("they fit")
    });
    for number in 0..HANDSHAKES {
        // The nodes are new each time, because the limits apply to repeated handshakes.
        let mut nodes = identities.clone().map(|identity| {
            let seed = [number as u8; 32];
            let mut node = Handshakes::new(identity, authority.network(), seed, Time::ZERO);
            node.set_post_quantum(wish);
            node
        });
        assert_eq!(shake(&mut nodes), expected);
    }
}

/// Lets two nodes make a session. Returns how many bytes they have sent.
fn shake([a, b]: &mut [Handshakes; 2]) -> usize {
    let now = Time::ZERO;
    let at = UnderlayAddr {
        ip: [0; 16],
        port: 1,
        socket: 0,
        local: 0,
    };
    let mut said = vec![a.dial(now, at, None).expect("the first dial")];
    let (mut bytes, mut sessions, mut is_from_a) = (0, 0, true);
    while !said.is_empty() {
        let mut answers = Vec::new();
        for datagram in said {
            bytes += datagram.len();
            let hears = if is_from_a { &mut *b } else { &mut *a };
            match hears.on_datagram(now, 0, at, &datagram) {
                Outcome::Reply(datagrams) => answers.extend(datagrams),
                Outcome::Established(made) => {
                    sessions += 1;
                    answers.extend(made.reply);
                }
                other => panic!("{other:?}"),
            }
        }
        said = answers;
        is_from_a = !is_from_a;
    }
    assert_eq!(sessions, 2);
    bytes
}
