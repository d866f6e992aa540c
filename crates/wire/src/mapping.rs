//! Port mapping: what a node and the router in front of it say to each other, by UDP at the router's port [`PORT`].
//!
//! ```text
//!   node ── PCP, version 2: open this port ──▶ router          [`pcp`], RFC 6887
//!   node ◀── its port and address outside, for how long ──
//!
//!   node ── NAT-PMP, version 0: your address outside? ──▶      [`nat_pmp`], RFC 6886, the older one
//!   node ── open this port ──▶
//! ```
//! Both share the port, and the first byte of every message is the version. This module has only the messages that a node
//! sends and those that it may receive. The formats are not the project's own: a router may add options and bytes at the
//! end, and the node skips them. What a router speaks that knows neither is another thing: [`upnp`].

pub mod nat_pmp;
pub mod pcp;
pub mod upnp;

use crate::Malformed;

/// Where a router listens.
pub const PORT: u16 = 5351;
/// Where a router tells all hosts that it has restarted. [RFC 6886 §3.2.1, RFC 6887 §14.1.1]
pub const ANNOUNCEMENT_PORT: u16 = 5350;
/// No message is longer. [RFC 6887 §7]
pub const MESSAGE_MAX: usize = 1_100;
/// Of a mapping; the code of UDP.
const UDP: u8 = 17;
/// In the byte of the operation: it is an answer.
const ANSWER: u8 = 0x80;
/// The version is not spoken, in both protocols.
pub const UNSUPPORTED_VERSION: u16 = 1;

/// What a router says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// By PCP.
    Pcp(pcp::Answer),
    /// By NAT-PMP.
    NatPmp(nat_pmp::Answer),
    /// It does not speak the version that it was asked in, but this one.
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
        // A server of the drafts of PCP.
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
