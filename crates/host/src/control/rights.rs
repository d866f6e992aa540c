//! The requests that a connection may make.
//!
//! A connection to the operator's socket may make all requests: the file's permissions decide who can connect. The gate
//! for clients on other hosts also connects on behalf of observers. It gives up the right to change anything before it
//! forwards the observer's first request, so the observer cannot regain that right.

/// The rights of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Everything.
    Operate,
    /// Only requests that change nothing. No request restores the other rights.
    Observe,
}

/// The request by which a connection gives up the right to change anything, and the answer to it.
pub const OBSERVE: (&str, &str) = (r#"{"cmd":"observe"}"#, r#"{"done":"observe"}"#);
