//! Port mapping: the messages between a node and the router in front of it, by UDP at the router's port [`PORT`].
//!
//! ```text
//!   node ── PCP, version 2: open this port ──▶ router          [`pcp`], RFC 6887
//!   node ◀── its port and address outside, for how long ──
//!
//!   node ── NAT-PMP, version 0: your address outside? ──▶      [`nat_pmp`], RFC 6886, the older one
//!   node ── open this port ──▶
//! ```
//! Both protocols share the port, and the first byte of every message is the version. This module only has the messages
//! that a node sends, and those that it may receive. The formats are not the project's own: a router may add options
//! and bytes at the end, and the node skips them. Routers that support neither may support another protocol: [`upnp`].

pub mod nat_pmp;
pub mod pcp;
pub mod upnp;

use crate::Malformed;

/// The port at which a router listens.
pub const PORT: u16 = 5351;
/// The port at which a router announces to all hosts that it has restarted. [RFC 6886 §3.2.1, RFC 6887 §14.1.1]
pub const ANNOUNCEMENT_PORT: u16 = 5350;
/// The maximum length of a message. [RFC 6887 §7]
pub const MESSAGE_MAX: usize = 1_100;
/// The protocol code of UDP in a mapping.
const UDP: u8 = 17;
/// The bit in the operation's byte that marks an answer.
const ANSWER: u8 = 0x80;
/// The result code of both protocols for an unsupported version.
pub const UNSUPPORTED_VERSION: u16 = 1;

/// An answer of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An answer by PCP.
    Pcp(pcp::Answer),
    /// An answer by NAT-PMP.
    NatPmp(nat_pmp::Answer),
    /// The router does not support the version of the request, but this one.
    Other(u8),
}

impl Answer {
    /// Reads a datagram from the router.
    pub fn parse(bytes: &[u8]) -> Result<Answer, Malformed> {
        match bytes.first() {
            None => Err(Malformed::Short),
            Some(&pcp::VERSION) => pcp::Answer::parse(bytes).map(Answer::Pcp),
            Some(&nat_pmp::VERSION) => nat_pmp::Answer::parse(bytes).map(Answer::NatPmp),
            Some(&version) => match bytes {
                [_, operation, _, 1, ..] if operation & ANSWER != 0 => Ok(Answer::Other(version)),
                _ => Err(Malformed::Version),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_tells_the_protocol() {
        assert_eq!(Answer::parse(&[]), Err(Malformed::Short));
        // This is a server of the drafts of PCP.
        let mut draft = [0; 24];
        (draft[0], draft[1], draft[3]) = (1, 0x81, 1);
        assert_eq!(Answer::parse(&draft), Ok(Answer::Other(1)));
        draft[1] = 1;
        assert_eq!(Answer::parse(&draft), Err(Malformed::Version), "a request");
        draft[1] = 0x81;
        draft[3] = 0;
        assert_eq!(Answer::parse(&draft), Err(Malformed::Version));
        let refusal = [0, 0x81, 0, 1, 0, 0, 0, 9];
        let Ok(Answer::NatPmp(answer)) = Answer::parse(&refusal) else {
            panic!("no answer");
        };
        assert_eq!((answer.result, answer.epoch_s), (UNSUPPORTED_VERSION, 9));
    }
}
