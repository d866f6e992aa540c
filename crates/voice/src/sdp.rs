//! Session descriptions (SDP, RFC 8866): read, steered, and written back with nothing else changed.
//!
//! ```text
//!   bytes ──Sdp::parse──> lines ── sections: what each media line says, where RTP and RTCP go
//!                           │              │
//!                           │              └──> Exchange (offer/answer): the call's media legs
//!                           v
//!                 Rewrite::apply: ports, addresses, overlay attributes; every other byte as it came
//! ```
//!
//! Choice: an index of lines over the original bytes instead of a tree of values. The crate
//! sdp-types reads more of the format, but writes back what it understood: line ends, spaces, the
//! form of times and the order of lines become its own, and it refuses text that is not UTF-8. What
//! a proxy that steers media must understand is six kinds of line, and the rest is not its own.
//!
//! ## Overlay attributes
//!
//! An overlay-aware end, or a gateway on behalf of one that is not, says in a media section at
//! which node, by which virtual ports, it takes that section's media. [Amir06 §VI]
//!
//! ```text
//!   overlay-attribute = "a=sinew:" version SP node SP ports SP domain *(SP extension) CRLF
//!   version           = "1"                      ; another version is read as no announcement
//!   node              = IPv4address              ; of the overlay's own plan, not of the Internet
//!   ports             = port ["/" port]          ; RTP, then RTCP; one port carries both
//!   port              = %x31-39 *4DIGIT          ; 1 to 65535
//!   domain            = label *("." label)       ; at most 253 characters; the node serves it, and
//!                                                ; its certificate names it
//!   label             = alnum [*61(alnum / "-") alnum]
//!   alnum             = ALPHA / DIGIT
//!   extension         = token "=" token          ; of a later version; ignored
//!   token             = <token of RFC 8866>
//! ```
//!
//! RTCP is sent from the virtual port at which it is taken, as RTP is.
//! For example `a=sinew:1 10.7.0.3 20000/20001 example.org`. An INVITE whose description has the
//! attribute lists the option tag [`OPTION_TAG`] under `Supported`; one that insists lists it under
//! `Require`, and gets 420 from who does not know it. An answer without the attribute in a section
//! is a refusal for that section: its media is that of a legacy session.

mod announce;
mod draft;
mod exchange;
mod line;
mod parse;
mod rewrite;
mod section;

pub use announce::{Announce, BadAnnounce};
pub use draft::{Draft, DraftMedia};
pub use exchange::{Change, End, Exchange, ExchangeError, Path, Side, Stream};
pub use rewrite::{MediaEdit, OriginEdit, Rewrite, RewriteError, Steer, Treatment};
pub use section::{Connection, Direction, Host, MediaKind, PayloadFormat, Section};

use line::Line;

/// The SIP option tag of overlay negotiation. [Amir06 §VI]
pub const OPTION_TAG: &str = "sinew";

/// Longest description taken: what one UDP datagram can carry. Offers of browsers, the longest
/// there are, have 5 to 10 kB.
pub const SDP_BYTES_MAX: usize = 65_535;

/// Most lines taken. At 12 bytes of index each, 2048 · 12 = 24 kB per description that is open.
pub const LINES_MAX: usize = 2048;

/// Most media sections taken: conferences offer up to some 50 videos in one description. With a
/// pair of ports each, a call takes at most 128 ports.
pub const MEDIA_MAX: usize = 64;

/// A description, read.
#[derive(Debug, Clone)]
pub struct Sdp<'a> {
    text: &'a [u8],
    lines: Vec<Line>,
    sections: Vec<Section<'a>>,
    origin: Option<Origin<'a>>,
    /// Of the session level, with its line.
    connection: Option<(usize, Connection<'a>)>,
}

/// Who made the description, and which edition of it this is (`o=`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin<'a> {
    /// User name, `-` for none.
    pub user: &'a str,
    /// Number of the session, of any length.
    pub session: &'a str,
    /// Edition: grows by one with every change. As text, for some ends write more than 64 bits.
    pub version: &'a str,
    /// The maker's address.
    pub host: Host<'a>,
    line: usize,
}

impl<'a> Sdp<'a> {
    /// Reads a description. Lines end in CRLF or LF; blank lines are taken at the end only.
    ///
    /// # Errors
    /// When what steers media cannot be read, or is said twice; what is not understood otherwise
    /// is kept and no error.
    pub fn parse(text: &'a [u8]) -> Result<Self, SdpError> {
        parse::description(text)
    }

    /// The bytes that were read.
    #[must_use]
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Who made it; `None` when there is no `o=` line that can be read: it steers nothing.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin<'a>> {
        self.origin.as_ref()
    }

    /// The media sections, in their order.
    #[must_use]
    pub fn media(&self) -> &[Section<'a>] {
        &self.sections
    }

    /// Each line as its letter and its value, in order.
    pub fn lines(&self) -> impl Iterator<Item = (char, &'a [u8])> + '_ {
        self.lines
            .iter()
            .filter(|line| !line.is_blank())
            .map(|line| (char::from(line.letter), line.value(self.text)))
    }
}

/// Why a description was refused. Lines count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SdpError {
    /// More bytes than [`SDP_BYTES_MAX`].
    #[error("the description has {bytes} bytes: at most {SDP_BYTES_MAX} are taken")]
    TooLong {
        /// Bytes that came.
        bytes: usize,
    },
    /// More lines than [`LINES_MAX`].
    #[error("the description has more than {LINES_MAX} lines")]
    TooManyLines,
    /// More sections than [`MEDIA_MAX`].
    #[error("line {line}: more than {MEDIA_MAX} media sections")]
    TooManyMedia {
        /// Of the first section too many.
        line: usize,
    },
    /// Not a letter, `=` and a value.
    #[error("line {line} is not of the form LETTER=VALUE")]
    NotALine {
        /// Which.
        line: usize,
    },
    /// NUL, or a carriage return within a line, which readers understand differently.
    #[error("line {line} has a control byte (NUL or a lone CR) in it")]
    ControlByte {
        /// Which.
        line: usize,
    },
    /// The first line is not `v=0`.
    #[error("the description does not begin with v=0")]
    NoVersion,
    /// A line that may be there once per level is there again.
    #[error("line {line}: a second {what} line at its level")]
    Repeated {
        /// Of the second.
        line: usize,
        /// The line's beginning.
        what: &'static str,
    },
    /// `m=` cannot be read.
    #[error("line {line}: m= needs MEDIA PORT PROTOCOL FORMATS, with a port of 0 to 65535")]
    BadMedia {
        /// Which.
        line: usize,
    },
    /// `c=` cannot be read.
    #[error("line {line}: c= needs IN IP4 or IN IP6 and an address of that kind")]
    BadConnection {
        /// Which.
        line: usize,
    },
    /// `a=rtcp:` cannot be read.
    #[error("line {line}: a=rtcp: needs a port of 1 to 65535, and IN IP4|IP6 ADDRESS or no more")]
    BadRtcp {
        /// Which.
        line: usize,
    },
    /// A section in use has no address.
    #[error("line {line}: this media has no c= line, nor has the session")]
    NoConnection {
        /// Of the section's `m=`.
        line: usize,
    },
}

#[cfg(test)]
mod tests;
