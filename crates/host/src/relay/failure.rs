//! Why a transfer has failed: where, who has to act, and what to do.

use base::NodeAddr;
use std::fmt;
use std::io::{self, ErrorKind};
pub use wire::relay::FailureKind;
use wire::relay::Message;

/// Why a transfer has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The node at which it failed.
    pub node: NodeAddr,
    /// The kind of failure, which says who has to act.
    pub kind: FailureKind,
    /// The node that could not be reached or was lost, if that is the reason. If it is `node` itself, one of its
    /// uplinks was lost.
    pub about: Option<NodeAddr>,
    /// The event and its remedy, for people.
    pub text: String,
}

impl Failure {
    pub(super) fn new(node: NodeAddr, kind: FailureKind, text: impl fmt::Display) -> Failure {
        Failure {
            node,
            kind,
            about: None,
            text: text.to_string(),
        }
    }

    /// Creates a failure as another node reports it. Control characters are replaced, because the text will be
    /// displayed.
    pub(super) fn told(
        (node, kind, about): (NodeAddr, FailureKind, Option<NodeAddr>),
        text: &str,
    ) -> Failure {
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        Failure {
            node,
            kind,
            about,
            text: text.chars().map(shown).collect(),
        }
    }

    /// Returns the same failure, caused by another node.
    pub(super) fn about(self, peer: NodeAddr) -> Failure {
        Failure {
            about: Some(peer),
            ..self
        }
    }

    /// Creates the failure of a broken connection to `peer`.
    pub(super) fn broken(node: NodeAddr, peer: NodeAddr, error: &io::Error) -> Failure {
        Failure::lost(node, peer, error).about(peer)
    }

    /// Creates the failure of a broken connection to one of two nodes, if it is unknown which one.
    pub(super) fn either_broken(
        node: NodeAddr,
        (a, b): (NodeAddr, NodeAddr),
        error: &io::Error,
    ) -> Failure {
        Failure::lost(node, format_args!("{a} or {b}"), error)
    }

    fn lost(node: NodeAddr, peer: impl fmt::Display, error: &io::Error) -> Failure {
        // Badly encrypted or malformed data does not mean that the connection was interrupted.
        let kind = match error.kind() {
            ErrorKind::InvalidData => FailureKind::Corrupt,
            _ => FailureKind::Broken,
        };
        let text = match error.kind() {
            ErrorKind::UnexpectedEof => format!("the connection to {peer} has ended"),
            _ => format!("the connection to {peer} broke: {error}"),
        };
        let advice = "; run the same command again to go on from here";
        Failure::new(node, kind, text + advice)
    }

    /// Creates the failure of a file operation.
    pub(super) fn file(node: NodeAddr, what: impl fmt::Display, error: &io::Error) -> Failure {
        let kind = match error.kind() {
            ErrorKind::NotFound => FailureKind::NotFound,
            ErrorKind::PermissionDenied | ErrorKind::CrossesDevices => FailureKind::Forbidden,
            _ => FailureKind::File,
        };
        let advice = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "; make room and run the same command again to go on from here"
            }
            // This is openat2's error for a path that leads outside.
            ErrorKind::CrossesDevices => "; it leads out of the directory that is served",
            _ => "",
        };
        Failure::new(node, kind, format!("{what}: {error}{advice}"))
    }

    pub(super) fn message(&self) -> Message<'_> {
        Message::Failed {
            node: self.node,
            kind: self.kind,
            about: self.about,
            text: &self.text,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.text)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_tell_does_nothing_to_a_terminal() {
        let who = (NodeAddr(1), FailureKind::File, None);
        let failure = Failure::told(who, "a\u{1b}[2J\nb\u{9b}c");
        assert_eq!(failure.text, "a [2J b c");
    }
}
