//! What a connection may ask for.
//!
//! A connection to the operator's socket may ask for everything: the file's permissions decide who can connect. The gate for
//! clients on other hosts connects on behalf of observers, too. It gives up the right to change anything before it carries
//! what an observer says, so nothing that the observer sends can take it back.

/// What a connection may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Everything.
    Operate,
    /// What changes nothing. No request leads back.
    Observe,
}

/// The request by which a connection gives up the right to change anything, and its answer.
pub const OBSERVE: (&str, &str) = (r#"{"cmd":"observe"}"#, r#"{"done":"observe"}"#);
