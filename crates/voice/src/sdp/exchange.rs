//! Offer and answer (RFC 3264): the streams of a call, and the changes of an exchange.
//!
//! ```text
//!                   offer(side)                answer(other side)
//!   nothing open ───────────────> offer open ────────────────────> streams, changes
//!        ^                            │  ^                              │
//!        └──────── withdraw ──────────┘  └── another offer, either side ┘
//! ```
//!
//! Streams are matched by their place in the description: an answer has as many sections as its offer, and a later
//! offer has at least as many as the one before. A section with port 0 keeps its place and carries nothing; another
//! stream may take the place.
//!
//! It does not matter which end offers first, so the late offer (INVITE without a description, offer in the 200, answer
//! in the ACK) is no special case. An answer may be repeated: in a 183, then in the 200. With some ends the two differ;
//! each is taken as the answer to the same offer.

use core::net::IpAddr;

use super::Sdp;
use super::announce::Announce;
use super::section::{Direction, Host, MediaKind, Section};

/// An end of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The end that sent the first INVITE.
    Caller,
    /// The end that received it.
    Callee,
}

impl Side {
    /// Both ends.
    pub const BOTH: [Side; 2] = [Side::Caller, Side::Callee];

    /// Returns the other end.
    #[must_use]
    pub fn other(self) -> Side {
        match self {
            Side::Caller => Side::Callee,
            Side::Callee => Side::Caller,
        }
    }

    /// Returns 0 or 1.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// An address in the form of the description.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Address {
    Ip(IpAddr),
    Name(Box<str>),
}

/// One end's description of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    rtp: Option<(Address, u16)>,
    rtcp: Option<(Address, u16)>,
    /// The direction in which the end wants media to flow.
    pub direction: Direction,
    /// Whether the end wants no media, by direction or by an address of zeros.
    pub on_hold: bool,
    /// Whether the end accepts RTCP on the port of RTP.
    pub rtcp_mux: bool,
    /// Where the end receives media in the overlay.
    pub announce: Option<Announce>,
}

impl End {
    /// Returns the contents of a section, in values that outlive the description.
    #[must_use]
    pub fn of(section: &Section<'_>) -> Self {
        let own = |(host, port)| (Address::own(host), port);
        Self {
            rtp: section.rtp().map(own),
            rtcp: section.rtcp().map(own),
            direction: section.direction,
            on_hold: section.is_on_hold(),
            rtcp_mux: section.rtcp_mux,
            announce: section.announce.clone().ok().flatten(),
        }
    }

    /// Returns where the end receives RTP; `None` if it rejects the stream.
    #[must_use]
    pub fn rtp(&self) -> Option<(Host<'_>, u16)> {
        self.rtp.as_ref().map(|(host, port)| (host.host(), *port))
    }

    /// Returns where the end receives RTCP that is not multiplexed.
    #[must_use]
    pub fn rtcp(&self) -> Option<(Host<'_>, u16)> {
        self.rtcp.as_ref().map(|(host, port)| (host.host(), *port))
    }
}

impl Address {
    fn own(host: Host<'_>) -> Self {
        match host {
            Host::Ip(ip) => Address::Ip(ip),
            Host::Name(name) => Address::Name(name.into()),
        }
    }

    fn host(&self) -> Host<'_> {
        match self {
            Address::Ip(ip) => Host::Ip(*ip),
            Address::Name(name) => Host::Name(name),
        }
    }
}

/// One stream of a call, in the state after the last exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// The kind of media.
    pub kind: MediaKind,
    /// The protocol, such as `RTP/AVP`.
    pub protocol: String,
    /// Whether both ends want it, and it is RTP to one receiver.
    pub active: bool,
    ends: [End; 2],
}

/// The kind of path between the ends of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path<'a> {
    /// Both ends announced a node and virtual ports, and use them directly. [Amir06 §VI]
    Overlay {
        /// The caller's announcement.
        caller: &'a Announce,
        /// The callee's announcement.
        callee: &'a Announce,
    },
    /// At least one end did not announce any: the stream uses addresses and ports of the Internet.
    Legacy,
}

impl Stream {
    /// Returns one end's description of the stream.
    #[must_use]
    pub fn end(&self, side: Side) -> &End {
        &self.ends[side.index()]
    }

    /// Returns whether `from` sends and the other end listens.
    #[must_use]
    pub fn flows(&self, from: Side) -> bool {
        let (sender, receiver) = (self.end(from), self.end(from.other()));
        self.active && sender.direction.sends() && !receiver.on_hold
    }

    /// Returns whether RTCP shares the port of RTP, which both ends must have agreed to.
    #[must_use]
    pub fn is_muxed(&self) -> bool {
        self.ends.iter().all(|end| end.rtcp_mux)
    }

    /// Returns the kind of path.
    #[must_use]
    pub fn path(&self) -> Path<'_> {
        match (
            &self.end(Side::Caller).announce,
            &self.end(Side::Callee).announce,
        ) {
            (Some(caller), Some(callee)) => Path::Overlay { caller, callee },
            _ => Path::Legacy,
        }
    }
}

/// A change that an exchange made to the stream at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// The stream carries media, and did not before.
    Added {
        /// Place in the description, from 0.
        media: usize,
    },
    /// The stream carries no media any more.
    Ended {
        /// Place in the description, from 0.
        media: usize,
    },
    /// An end receives the stream at another address, port or virtual port.
    Moved {
        /// Place in the description, from 0.
        media: usize,
        /// The end that moved.
        side: Side,
    },
    /// The direction of the stream changed: hold, resume.
    Turned {
        /// Place in the description, from 0.
        media: usize,
    },
}

/// Why a description does not fit into the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ExchangeError {
    /// An offer is open already (glare): SIP's answer is 491.
    #[error("an offer of the {by:?} is not answered yet: refuse this one with 491")]
    OfferOpen {
        /// The end whose offer is open.
        by: Side,
    },
    /// There is no offer to answer.
    #[error("an answer of the {by:?} without an offer of the other end")]
    NoOffer {
        /// The end that answered.
        by: Side,
    },
    /// Sections are never removed, only rejected.
    #[error("the offer has {has} media sections, the one before had {had}: sections stay")]
    Fewer {
        /// Sections before.
        had: usize,
        /// Sections of this offer.
        has: usize,
    },
    /// An answer has one section for each of the offer.
    #[error("the answer has {answered} media sections, the offer {offered}: they must be as many")]
    Count {
        /// Number of sections of the offer.
        offered: usize,
        /// Number of sections of the answer.
        answered: usize,
    },
    /// A place that is in use has another kind of media.
    #[error("media section {media} (from 0) is of another kind than what it answers or replaces")]
    Kind {
        /// The place of the section, from 0.
        media: usize,
    },
    /// The answer has another protocol than the offer.
    #[error("media section {media} (from 0) is answered in another protocol than was offered")]
    Protocol {
        /// The place of the section, from 0.
        media: usize,
    },
}

/// One section of an offer.
#[derive(Debug, Clone)]
struct Slot {
    kind: MediaKind,
    media: Box<str>,
    protocol: String,
    wanted: bool,
    end: End,
}

#[derive(Debug, Clone)]
struct Offer {
    by: Side,
    slots: Vec<Slot>,
    answered: bool,
    /// The streams before the offer, which are restored if it is withdrawn.
    before: Vec<Stream>,
}

/// The exchanges of one dialog. Memory is bounded by [`super::MEDIA_MAX`] streams.
#[derive(Debug, Clone, Default)]
pub struct Exchange {
    streams: Vec<Stream>,
    offer: Option<Offer>,
}

impl Exchange {
    /// Creates a dialog that has no streams yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the streams in the state after the last answer.
    #[must_use]
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Returns the end that waits for an answer.
    #[must_use]
    pub fn open_offer(&self) -> Option<Side> {
        self.offer
            .as_ref()
            .filter(|offer| !offer.answered)
            .map(|offer| offer.by)
    }

    /// Takes an offer. Nothing changes until it is answered.
    ///
    /// # Errors
    /// Fails if an offer is open, or this one does not continue the one before.
    pub fn offer(&mut self, by: Side, sdp: &Sdp<'_>) -> Result<(), ExchangeError> {
        if let Some(by) = self.open_offer() {
            return Err(ExchangeError::OfferOpen { by });
        }
        let (had, has) = (self.streams.len(), sdp.media().len());
        if has < had {
            return Err(ExchangeError::Fewer { had, has });
        }
        for (media, (stream, section)) in self.streams.iter().zip(sdp.media()).enumerate() {
            if stream.active && stream.kind != section.kind() {
                return Err(ExchangeError::Kind { media });
            }
        }
        self.offer = Some(Offer {
            by,
            slots: sdp.media().iter().map(Slot::of).collect(),
            answered: false,
            before: self.streams.clone(),
        });
        Ok(())
    }

    /// Takes the answer to the last offer, and returns the changes.
    ///
    /// # Errors
    /// Fails if the other end has made no offer, or the answer does not fit it; the streams then remain unchanged.
    pub fn answer(&mut self, by: Side, sdp: &Sdp<'_>) -> Result<Vec<Change>, ExchangeError> {
        let offer = self.offer.as_mut().filter(|offer| offer.by == by.other());
        let offer = offer.ok_or(ExchangeError::NoOffer { by })?;
        let (offered, answered) = (offer.slots.len(), sdp.media().len());
        if offered != answered {
            return Err(ExchangeError::Count { offered, answered });
        }
        let mut streams = Vec::with_capacity(answered);
        for (media, (slot, section)) in offer.slots.iter().zip(sdp.media()).enumerate() {
            if *slot.media != *section.media {
                return Err(ExchangeError::Kind { media });
            }
            if !section.is_rejected() && slot.protocol != section.protocol {
                return Err(ExchangeError::Protocol { media });
            }
            streams.push(slot.answered_by(by, section));
        }
        offer.answered = true;
        let changes = changes(&self.streams, &streams);
        self.streams = streams;
        Ok(changes)
    }

    /// Withdraws the last offer, which was refused or whose request failed: the streams are as they were before it (RFC
    /// 3261 §14.1). Returns the changes, if the offer had been answered.
    pub fn withdraw(&mut self) -> Vec<Change> {
        let Some(offer) = self.offer.take() else {
            return Vec::new();
        };
        let changes = changes(&self.streams, &offer.before);
        self.streams = offer.before;
        changes
    }
}

impl Slot {
    fn of(section: &Section<'_>) -> Self {
        Self {
            kind: section.kind(),
            media: section.media.into(),
            protocol: section.protocol.to_owned(),
            wanted: section.is_steerable(),
            end: End::of(section),
        }
    }

    fn answered_by(&self, by: Side, section: &Section<'_>) -> Stream {
        let mut ends = [self.end.clone(), End::of(section)];
        if by == Side::Caller {
            ends.reverse();
        }
        Stream {
            kind: self.kind,
            protocol: self.protocol.clone(),
            active: self.wanted && section.is_steerable(),
            ends,
        }
    }
}

fn changes(before: &[Stream], after: &[Stream]) -> Vec<Change> {
    let mut changes = Vec::new();
    for media in 0..before.len().max(after.len()) {
        let old = before.get(media).filter(|stream| stream.active);
        let new = after.get(media).filter(|stream| stream.active);
        match (old, new) {
            (None, None) => {}
            (None, Some(_)) => changes.push(Change::Added { media }),
            (Some(_), None) => changes.push(Change::Ended { media }),
            (Some(old), Some(new)) => {
                let moved = Side::BOTH
                    .into_iter()
                    .filter(|&side| is_moved(old, new, side));
                changes.extend(moved.map(|side| Change::Moved { media, side }));
                if Side::BOTH
                    .iter()
                    .any(|&side| old.flows(side) != new.flows(side))
                {
                    changes.push(Change::Turned { media });
                }
            }
        }
    }
    changes
}

/// Returns whether an end moved. An address of zeros is hold and no move.
fn is_moved(old: &Stream, new: &Stream, side: Side) -> bool {
    let (was, is) = (old.end(side), new.end(side));
    let zeros = |end: &End| end.rtp().is_none_or(|(host, _)| host.is_unspecified());
    was.announce != is.announce
        || was.rtcp_mux != is.rtcp_mux
        || (!zeros(is) && (was.rtp != is.rtp || was.rtcp != is.rtcp))
}
