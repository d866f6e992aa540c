//! Session descriptions (SDP, RFC 8866): this module reads and steers them, and writes them back with nothing else
//! changed.
//!
//! ```text
//!   bytes ──Sdp::parse──> lines ── sections: what each media line says, where RTP and RTCP go
//!                           │              │
//!                           │              └──> Exchange (offer/answer): the call's media legs
//!                           v
//!                 Rewrite::apply: ports, addresses, overlay attributes; every other byte as it came
//! ```
//!
//! Choice: an index of lines over the original bytes instead of a tree of values. The crate sdp-types reads more of the
//! format, but writes back only what it understood: it replaces line ends, spaces, the form of times and the order of
//! lines by its own, and it refuses text that is not UTF-8. A proxy that steers media must understand six kinds of
//! line, and must not change the rest.
//!
//! ## Overlay attributes
//!
//! An overlay-aware end, or a gateway on behalf of another end, announces in a media section the node and the virtual
//! ports at which it receives that section's media. [Amir06 §VI]
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
//! RTCP is sent from the virtual port at which it is received, as RTP is. For example `a=sinew:1 10.7.0.3 20000/20001
//! example.org`. An INVITE whose description has the attribute lists the option tag [`OPTION_TAG`] under `Supported`.
//! An INVITE that insists on the overlay lists it under `Require`; an end that does not support it then answers 420. An
//! answer without the attribute in a section is a refusal for that section: its media is that of a legacy session.

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

/// Longest description that is accepted: the size that one UDP datagram can carry. Offers of browsers, the longest that
/// exist, have 5 to 10 kB.
pub const SDP_BYTES_MAX: usize = 65_535;

/// Most lines that are accepted. At 12 bytes of index each, 2048 · 12 = 24 kB per open description.
pub const LINES_MAX: usize = 2048;

/// Most media sections that are accepted: conferences offer up to some 50 videos in one description. With a pair of
/// ports each, a call takes at most 128 ports.
pub const MEDIA_MAX: usize = 64;

/// A parsed description.
#[derive(Debug, Clone)]
pub struct Sdp<'a> {
    text: &'a [u8],
    lines: Vec<Line>,
    sections: Vec<Section<'a>>,
    origin: Option<Origin<'a>>,
    /// The connection of the session level, with its line.
    connection: Option<(usize, Connection<'a>)>,
}

/// The maker of the description, and its edition (`o=`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin<'a> {
    /// User name, `-` for none.
    pub user: &'a str,
    /// Number of the session, of any length.
    pub session: &'a str,
    /// Edition: grows by one with every change. It is text, because some ends write more than 64 bits.
    pub version: &'a str,
    /// The maker's address.
    pub host: Host<'a>,
    line: usize,
}

impl<'a> Sdp<'a> {
    /// Reads a description. Lines end in CRLF or LF; blank lines are accepted only at the end.
    ///
    /// # Errors
    /// Fails if a line that steers media cannot be read or is repeated. Any other line that is not understood is kept
    /// and is no error.
    pub fn parse(text: &'a [u8]) -> Result<Self, SdpError> {
        parse::description(text)
    }

    /// Returns the bytes that were read.
    #[must_use]
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Returns the maker; `None` if there is no readable `o=` line, which is no error because the line steers nothing.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin<'a>> {
        self.origin.as_ref()
    }

    /// Returns the media sections, in their order.
    #[must_use]
    pub fn media(&self) -> &[Section<'a>] {
        &self.sections
    }

    /// Returns each line as its letter and its value, in order.
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
    /// The description has more bytes than [`SDP_BYTES_MAX`].
    #[error("the description has {bytes} bytes: at most {SDP_BYTES_MAX} are taken")]
    TooLong {
        /// Number of bytes.
        bytes: usize,
    },
    /// The description has more lines than [`LINES_MAX`].
    #[error("the description has more than {LINES_MAX} lines")]
    TooManyLines,
    /// The description has more sections than [`MEDIA_MAX`].
    #[error("line {line}: more than {MEDIA_MAX} media sections")]
    TooManyMedia {
        /// The line of the first section too many.
        line: usize,
    },
    /// The line is not a letter, `=` and a value.
    #[error("line {line} is not of the form LETTER=VALUE")]
    NotALine {
        /// Number of the line.
        line: usize,
    },
    /// The line contains NUL, or a carriage return before its end, which readers understand differently.
    #[error("line {line} has a control byte (NUL or a lone CR) in it")]
    ControlByte {
        /// Number of the line.
        line: usize,
    },
    /// The first line is not `v=0`.
    #[error("the description does not begin with v=0")]
    NoVersion,
    /// A line that may occur once per level is repeated.
    #[error("line {line}: a second {what} line at its level")]
    Repeated {
        /// Number of the second line.
        line: usize,
        /// The beginning of the line.
        what: &'static str,
    },
    /// `m=` cannot be read.
    #[error("line {line}: m= needs MEDIA PORT PROTOCOL FORMATS, with a port of 0 to 65535")]
    BadMedia {
        /// Number of the line.
        line: usize,
    },
    /// `c=` cannot be read.
    #[error("line {line}: c= needs IN IP4 or IN IP6 and an address of that kind")]
    BadConnection {
        /// Number of the line.
        line: usize,
    },
    /// `a=rtcp:` cannot be read.
    #[error("line {line}: a=rtcp: needs a port of 1 to 65535, and IN IP4|IP6 ADDRESS or no more")]
    BadRtcp {
        /// Number of the line.
        line: usize,
    },
    /// A section in use has no address.
    #[error("line {line}: this media has no c= line, nor has the session")]
    NoConnection {
        /// Number of the section's `m=` line.
        line: usize,
    },
}

#[cfg(test)]
mod tests;
