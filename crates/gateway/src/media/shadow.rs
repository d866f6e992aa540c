//! Shadow mode: a fraction of the calls' RTP is also sent directly over UDP, so that both paths can be compared on the
//! same packets.
//!
//! ```text
//!   gateway A ══ RTP ══ overlay ══════════════════════> gateway B: forwarded, and heard
//!      │ └═ note: token ═ overlay ════════════════════>    │ notes whose the token is
//!      └── mirrored: token, RTP ── UDP, directly ────────> └ shadow port: heard, never played
//! ```
//!
//! A note over the overlay, where no node can send in the name of another, contains the token that identifies mirrored
//! packets of one stream. Without the token, nobody can even make a packet count. Note and token are made anew for
//! every stream.
//!
//! ```text
//!   note       0 "SNWS" │ 4 version 1, zeros 3 │ 8 token 16                 over the overlay
//!   mirrored   0 "SNWM" │ 4 token 16 │ 20 the RTP packet as it is           over UDP
//! ```

use super::udp::Sockets;
use base::{Duration, Map, NodeAddr, Time, VirtualPort};
use core::net::SocketAddr;
use voice::media::StreamId;
use voice::rtp::{Header, Packet};
use voice::sdp::Side;

/// The default port for mirrored packets, next to those for media.
pub const SHADOW_PORT: u16 = 19_998;

/// How often the note is sent: it may be lost, and the other gateway may have restarted.
const NOTE_EVERY: Duration = Duration::from_secs(1);

const TOKEN_BYTES: usize = 16;
const NOTE: [u8; 8] = *b"SNWS\x01\0\0\0";
const NOTE_BYTES: usize = NOTE.len() + TOKEN_BYTES;
const MIRRORED: [u8; 4] = *b"SNWM";

/// The settings of shadow mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shadow {
    /// The fraction of the calls over the overlay that are mirrored, 0 to 1. With 0, the gateway only receives what
    /// others mirror.
    pub fraction: f64,
    /// The UDP port for mirrored packets.
    pub port: u16,
}

/// The token that authenticates the mirrored packets of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Token([u8; TOKEN_BYTES]);

/// The plane's part in shadow mode.
#[derive(Debug)]
pub(super) struct Mirror {
    shadow: Shadow,
    pub(super) sockets: Sockets,
    /// The streams and sides of mirrored packets, by token.
    tokens: Map<Token, (StreamId, Side)>,
    /// The accumulated fraction of streams that are due to be mirrored.
    due: f64,
    /// A buffer for the datagram that is being built.
    buffer: Vec<u8>,
}

/// The target of one stream's mirrored packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mirrored {
    to: SocketAddr,
    token: Token,
    next_note: Time,
}

/// A stream's part in shadow mode.
#[derive(Debug, Default)]
pub(super) struct Beside {
    pub(super) mirrored: Option<Mirrored>,
    /// The overlay addresses of the sides, from which a note may come.
    remotes: [Option<(NodeAddr, VirtualPort)>; 2],
    /// The tokens of the other gateway's packets, by side.
    tokens: [Option<Token>; 2],
}

impl Shadow {
    /// Returns settings that mirror this fraction of the calls.
    #[must_use]
    pub fn of(fraction: f64) -> Shadow {
        Shadow {
            fraction,
            port: SHADOW_PORT,
        }
    }
}

impl Mirror {
    pub(super) fn new(shadow: Shadow, sockets: Sockets) -> Mirror {
        Mirror {
            shadow,
            sockets,
            tokens: Map::default(),
            due: 0.0,
            buffer: Vec::new(),
        }
    }

    /// Returns whether the next stream is mirrored. The choice is even, so that a tenth is every tenth.
    pub(super) fn is_due(&mut self) -> bool {
        self.due += self.shadow.fraction.clamp(0.0, 1.0);
        let is_due = self.due >= 1.0;
        if is_due {
            self.due -= 1.0;
        }
        is_due
    }

    /// Sends a packet of a stream directly. Returns true if the kernel accepted it.
    pub(super) fn send(&mut self, mirrored: &Mirrored, packet: &[u8]) -> bool {
        self.buffer.clear();
        self.buffer.extend(MIRRORED);
        self.buffer.extend(mirrored.token.0);
        self.buffer.extend_from_slice(packet);
        self.sockets.send(&self.buffer, mirrored.to).is_ok()
    }

    /// Handles a note for a stream's side, which came from the address of that side.
    pub(super) fn on_note(&mut self, id: StreamId, side: Side, beside: &mut Beside, token: Token) {
        if beside.tokens[side.index()] == Some(token) {
            return;
        }
        if let Some(old) = beside.tokens[side.index()].replace(token) {
            self.tokens.remove(&old);
        }
        // Two streams with the same token would be somebody's mistake; the last one gets it.
        self.tokens.insert(token, (id, side));
    }

    /// Handles a datagram at the shadow port. Returns its stream, its side, and its RTP header.
    pub(super) fn on_datagram(&self, datagram: &[u8]) -> Option<(StreamId, Side, Header)> {
        let rest = datagram.strip_prefix(&MIRRORED)?;
        let (token, packet) = rest.split_first_chunk()?;
        let (id, side) = self.tokens.get(&Token(*token))?;
        let packet = Packet::parse(packet).ok()?;
        Some((*id, *side, packet.header()))
    }

    /// Handles the end of a stream.
    pub(super) fn forget(&mut self, beside: &Beside) {
        for token in beside.tokens.iter().flatten() {
            self.tokens.remove(token);
        }
    }
}

impl Mirrored {
    /// Starts mirroring to `to`, from the next packet on; `None` if the system has no randomness.
    pub(super) fn new(to: SocketAddr) -> Option<Mirrored> {
        let entropy = net::sched::entropy().ok()?;
        let token = entropy.first_chunk()?;
        Some(Mirrored {
            to,
            token: Token(*token),
            next_note: Time::ZERO,
        })
    }

    /// Returns the note, if it must be sent now.
    pub(super) fn note(&mut self, now: Time) -> Option<[u8; NOTE_BYTES]> {
        if now < self.next_note {
            return None;
        }
        self.next_note = now + NOTE_EVERY;
        let mut note = [0; NOTE_BYTES];
        note[..NOTE.len()].copy_from_slice(&NOTE);
        note[NOTE.len()..].copy_from_slice(&self.token.0);
        Some(note)
    }
}

impl Beside {
    /// Records the description of a side on the overlay.
    pub(super) fn on_signal(&mut self, side: Side, at: Option<(NodeAddr, VirtualPort)>) {
        self.remotes[side.index()] = at;
    }

    /// Returns whether a side has this address.
    pub(super) fn is_at(&self, side: Side, from: (NodeAddr, VirtualPort)) -> bool {
        self.remotes[side.index()] == Some(from)
    }
}

/// Returns the token in a datagram of the overlay, if it is a note. No RTP, RTCP, STUN or DTLS begins like one.
pub(super) fn note(datagram: &[u8]) -> Option<Token> {
    let token = datagram.strip_prefix(&NOTE)?;
    token.try_into().ok().map(Token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use voice::rtp::Kind;

    #[test]
    fn a_note_is_said_now_and_then_and_is_nothing_else() {
        let mut mirrored = Mirrored::new(([127, 0, 0, 1], 9).into()).unwrap();
        let said = mirrored.note(Time::ZERO).unwrap();
        assert_eq!(note(&said), Some(mirrored.token));
        assert_eq!(Kind::of(&said), Kind::Other);
        assert_eq!(Kind::of(&MIRRORED), Kind::Other);
        assert_eq!(mirrored.note(Time::ZERO), None);
        assert!(mirrored.note(Time::ZERO + NOTE_EVERY).is_some());
        for len in 0..said.len() {
            assert_eq!(note(&said[..len]), None, "{len}");
        }
        assert_eq!(note(&[&said[..], &[0]].concat()), None);
        let other = Mirrored::new(mirrored.to).unwrap();
        assert_ne!(other.token, mirrored.token);
    }
}
