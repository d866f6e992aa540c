//! The way of datagrams beside the connection: encrypted, over UDP. This module uses neither sockets nor clocks; the
//! pumps of both ends, and the gate's thread, move the bytes.
//!
//! ```text
//!              AskWay / Way over TLS            an answer, the round trip is known
//!   (none) ───────────────────────▶ proving ──────────────────────────────────────▶ up
//!                                    ▲   │ MISSES_FIRST probes without an answer    │ too many without one
//!                   back-off is over │   ▼                                          ▼
//!                                    └─ down ◀──────────── NoWay over TLS ──────────┘
//! ```
//!
//! While it is up, each direction independently sends what fits by it: a client as soon as one probe was answered, a
//! gate as soon as the client's address is proven ([`Peer`]). Trials show what fits ([`Length`]), and a message of
//! several datagrams is split accordingly ([`split()`]). Everything else, and what is too long for the path, goes by
//! TLS, as everything does while the way is not up. A datagram is sent by one of the two and never by both, so the
//! receiver need not remove duplicates.
//!
//! If datagrams must arrive, or must arrive in order, there is no way: TLS loses nothing and keeps the order
//! ([`Wish`]). [Amir06 §III-A]

mod choice;
mod length;
mod losses;
mod peer;
mod seals;
mod split;
mod wish;

pub use choice::{Act, Choice};
pub use length::{Attempt, GateLength, Length, Says, fits, padding};
pub use losses::Losses;
pub use peer::Peer;
pub use seals::{Came, Keys, Opened, Seals};
pub use split::split;
pub use wish::Wish;

use wire::ipc::kind;
use wire::remote::way::Sealed;

/// Returns true if a message is a datagram, or several.
pub fn is_datagram(message: &[u8], is_raw: bool) -> bool {
    is_raw
        || [true, false].map(|from_client| as_sealed(message, false, from_client).is_some())
            != [false; 2]
}

/// Returns a message in the form for a way, if it may go by it: it must be a datagram, and nothing that has to keep its
/// place among other messages.
pub fn as_sealed(message: &[u8], is_raw: bool, from_client: bool) -> Option<Sealed<'_>> {
    match (is_raw, message.first()?, from_client) {
        (true, ..) => Some(Sealed::Payload(message)),
        (false, &(kind::SEND_TO | kind::SEND_FROM), true)
        | (false, &(kind::DATAGRAM | kind::DATAGRAMS), false) => Some(Sealed::Message(message)),
        _ => None,
    }
}

/// Returns the message that arrived by a way, if it may arrive by it: it must be a datagram in the same mode.
pub fn as_message<'a>(sealed: Sealed<'a>, is_raw: bool, from_client: bool) -> Option<&'a [u8]> {
    let (message, said_raw) = match sealed {
        Sealed::Message(message) => (message, false),
        Sealed::Payload(message) => (message, true),
        Sealed::Probe(_) | Sealed::Answer(_) | Sealed::Trial(_) | Sealed::Tried(_) => {
            return None;
        }
    };
    let is_one = said_raw == is_raw && as_sealed(message, is_raw, from_client).is_some();
    is_one.then_some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_datagrams_go_by_it_and_in_their_own_mode() {
        for (message, from_client, may) in [
            (&[kind::SEND_TO, 1][..], true, true),
            (&[kind::SEND_FROM], true, true),
            (&[kind::DATAGRAM], false, true),
            (&[kind::DATAGRAMS], false, true),
            (&[kind::DATAGRAM], true, false),
            (&[kind::SEND_TO], false, false),
            (&[kind::BIND, 0, 1], true, false),
            (&[kind::BOUND, 0, 1], false, false),
            (&[], true, false),
        ] {
            let sealed = as_sealed(message, false, from_client);
            assert_eq!(sealed.is_some(), may, "{message:?}");
            let came = as_message(Sealed::Message(message), false, from_client);
            assert_eq!(came.is_some(), may, "{message:?}");
            // A late message from before the change of mode is no payload, and vice versa.
            assert_eq!(
                as_message(Sealed::Message(message), true, from_client),
                None
            );
            assert_eq!(
                as_message(Sealed::Payload(message), false, from_client),
                None
            );
        }
        let payload = [kind::BIND, 7];
        assert_eq!(
            as_sealed(&payload, true, true),
            Some(Sealed::Payload(&payload))
        );
        assert_eq!(
            as_message(Sealed::Payload(&payload), true, false),
            Some(&payload[..])
        );
        // An empty payload would look like the end.
        assert_eq!(as_message(Sealed::Payload(&[]), true, true), None);
        let probe = Sealed::Probe(Default::default());
        assert_eq!(as_message(probe, true, true), None);
    }
}
