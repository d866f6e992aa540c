//! The session descriptions of one call, as they pass, and the media that follows them.
//!
//! ```text
//!   offer of a phone     ──> announced: node and virtual ports; the phone's own address stays,
//!                            for an end that is not aware                         [Amir06 §VI]
//!   announced offer      ──> led to this gateway's UDP ports; the announcement stays, for an
//!                            aware phone
//!   answer of a phone    ──> announced                 ┐ a section whose answer has no
//!   announced answer     ──> led to the UDP ports      ┘ announcement is that of a legacy session:
//!                                                        it passes as it came, media goes directly
//! ```
//! A side is *local* or *beyond*. A local side is a phone or proxy of the site whose media is UDP. Media of a side
//! beyond is carried by the overlay, or not by this gateway at all. Between two local sides, and between two sides
//! beyond, nothing is steered. A local end that is aware of the overlay announces itself; its announcement passes, and
//! its media does not go through this gateway.

use super::places::{Asker, Ports};
use crate::media::{self, Plane, Report};
use crate::slots::Slot;
use base::{NodeAddr, VirtualPort};
use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;
use voice::live;
use voice::media::{CallError, CallId, Carrier, LocalPorts, Need, Remote, StreamId};
use voice::sdp::{
    Announce, End, Exchange, ExchangeError, MediaEdit, Rewrite, RewriteError, Sdp, SdpError,
    Section, Side, Steer, Treatment,
};

/// Number of sections of one call whose media this gateway carries: sound, pictures, a shared screen and one more.
/// Choice: media of further sections goes directly, as it would without an overlay.
const STREAMS_MAX: usize = 4;

/// The way in which media reaches a side of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// By UDP, at the address that the side is given.
    Local(IpAddr),
    /// By the overlay, if the side announces itself.
    Beyond,
}

/// The reason why a description is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("the session description cannot be read: {0}")]
    Sdp(#[from] SdpError),
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Media(#[from] media::Error),
    #[error("too many media ports of this host")]
    Share,
    #[error("the session description cannot be led here: {0}")]
    Rewrite(#[from] RewriteError),
}

impl Refused {
    /// Returns the SIP status code for this reason.
    pub(crate) fn status(&self) -> u16 {
        match self {
            Refused::Sdp(_) | Refused::Rewrite(_) => 488,
            Refused::Exchange(ExchangeError::OfferOpen { .. }) => 491,
            Refused::Exchange(_) => 488,
            Refused::Call(CallError::Loop) => 482,
            Refused::Call(_) | Refused::Media(_) | Refused::Share => 503,
        }
    }
}

/// The gateway's own part of announcements.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) node: NodeAddr,
    pub(crate) domain: String,
    /// Whether media may come from any host of an end's LAN.
    pub(crate) media_from_lan: bool,
}

/// The source of a description.
pub(crate) struct Source<'a> {
    pub(crate) side: Side,
    /// The address of its signalling, if the transport is UDP or TCP.
    pub(crate) via: Option<IpAddr>,
    /// Returns whether an announcement is trusted: its node serves the domain that it claims.
    pub(crate) is_trusted: &'a dyn Fn(&Announce) -> bool,
}

/// A description that is passed on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) body: Vec<u8>,
    /// Whether any of its streams is announced.
    pub(crate) is_announced: bool,
}

/// The ports of a stream, for both sides, and their share.
#[derive(Debug)]
struct Leased {
    ports: [LocalPorts; 2],
    _share: Slot<Asker>,
}

/// The media of one call.
#[derive(Debug)]
pub(crate) struct Steering {
    plane: Plane,
    id: CallId,
    own: Own,
    reach: [Reach; 2],
    exchange: Exchange,
    streams: BTreeMap<u8, Leased>,
    ports: Ports,
    /// The party that began the call: the ports count as its ports.
    by: Asker,
    /// The remote ends of an offer that is not answered yet.
    pending: Vec<(StreamId, Side, Remote)>,
    /// Whether an offer was answered before: then a refusal of the last offer leaves the media as it was.
    is_answered: bool,
}

impl Steering {
    /// Opens the media of a new call, if one of its sides is local and the other beyond.
    pub(crate) fn open(
        plane: &Plane,
        own: Own,
        reach: [Reach; 2],
        (ports, by): (Ports, Asker),
    ) -> Result<Option<Self>, Refused> {
        let beyond = reach.iter().filter(|reach| **reach == Reach::Beyond);
        if beyond.count() != 1 {
            return Ok(None);
        }
        Ok(Some(Steering {
            id: plane.open()?,
            plane: plane.clone(),
            own,
            reach,
            exchange: Exchange::new(),
            streams: BTreeMap::new(),
            ports,
            by,
            pending: Vec::new(),
            is_answered: false,
        }))
    }

    pub(crate) fn id(&self) -> CallId {
        self.id
    }

    /// Returns whether the overlay carries media of this call.
    pub(crate) fn is_carried(&self) -> bool {
        !self.streams.is_empty()
    }

    pub(crate) fn open_offer(&self) -> Option<Side> {
        self.exchange.open_offer()
    }

    /// Passes an offer on to the other side.
    pub(crate) fn offer(&mut self, from: &Source<'_>, text: &[u8]) -> Result<Passed, Refused> {
        let sdp = Sdp::parse(text)?;
        self.exchange.offer(from.side, &sdp)?;
        self.pending.clear();
        let edits = self.edits(&sdp, |own, media, section| {
            own.offered(from, media, section)
        });
        let passed = edits.and_then(|edits| self.rewrite(from.side.other(), &sdp, edits));
        if passed.is_err() {
            self.withdraw();
        } else if !self.is_answered {
            // Media may arrive before the answer.
            self.signal_pending()?;
        }
        passed
    }

    /// Passes an answer on to the side that offered. `is_final` means that the answer completes the exchange.
    pub(crate) fn answer(
        &mut self,
        from: &Source<'_>,
        text: &[u8],
        is_final: bool,
    ) -> Result<Passed, Refused> {
        let sdp = Sdp::parse(text)?;
        self.exchange.answer(from.side, &sdp)?;
        self.signal_pending()?;
        let edits = self.edits(&sdp, |own, media, section| {
            own.answered(from, media, section)
        })?;
        let passed = self.rewrite(from.side.other(), &sdp, edits)?;
        if is_final {
            self.settle();
        }
        Ok(passed)
    }

    /// Completes the exchange: from now on, media should flow, or is on hold.
    pub(crate) fn settle(&mut self) {
        self.is_answered = true;
        let flows = self
            .exchange
            .streams()
            .iter()
            .any(|stream| Side::BOTH.into_iter().any(|side| stream.flows(side)));
        // The call may have ended by itself; its end is reported elsewhere.
        let _ = self.plane.answered(self.id, flows && self.is_carried());
    }

    /// Withdraws the last offer, because it was refused.
    pub(crate) fn withdraw(&mut self) {
        self.pending.clear();
        self.exchange.withdraw();
    }

    /// Sets the address at which the other gateway receives mirrored media, if this call is one of those that are
    /// mirrored.
    pub(crate) fn mirror(&self, at: SocketAddr) {
        for media in self.streams.keys() {
            self.plane.signal_shadow(self.stream_id(*media), at);
        }
    }

    /// Records that the dialog is alive.
    pub(crate) fn on_dialog(&self) {
        let _ = self.plane.on_dialog(self.id);
    }

    /// Ends the call's media, and returns its report.
    pub(crate) fn close(&mut self) -> Option<Report> {
        self.streams.clear();
        self.plane.close(self.id)
    }

    fn edits(
        &mut self,
        sdp: &Sdp<'_>,
        mut edit: impl FnMut(&mut Self, u8, &Section<'_>) -> Result<MediaEdit, Refused>,
    ) -> Result<Vec<MediaEdit>, Refused> {
        let sections = sdp.media().iter().zip(0u8..);
        sections
            .map(|(section, media)| edit(self, media, section))
            .collect()
    }

    fn offered(
        &mut self,
        from: &Source<'_>,
        media: u8,
        section: &Section<'_>,
    ) -> Result<MediaEdit, Refused> {
        let has_place = self.streams.contains_key(&media) || self.streams.len() < STREAMS_MAX;
        if section.port == 0 || !section.is_steerable() || !has_place {
            return Ok(MediaEdit::Keep);
        }
        let announce = section.announce.clone().ok().flatten();
        let to = from.side.other();
        match (self.reach[from.side.index()], announce) {
            // The end is aware of the overlay: its media is where its announcement says.
            (Reach::Local(_), Some(_)) => Ok(MediaEdit::Keep),
            (Reach::Local(_), None) => {
                // Choice: a host name in c= is not resolved; its media goes directly.
                let Some(remote) = self.remote(from, section, false) else {
                    return Ok(MediaEdit::Keep);
                };
                let ports = self.stream(media)?[to.index()];
                self.expect(media, from.side, remote);
                Ok(self.announced(ports))
            }
            (Reach::Beyond, Some(announce)) if (from.is_trusted)(&announce) => {
                let ports = self.stream(media)?[to.index()];
                self.expect(media, from.side, Remote::announced(&announce));
                Ok(self.led(to, ports, Some(announce)))
            }
            (Reach::Beyond, _) => Ok(MediaEdit::Keep),
        }
    }

    /// Returns where an end of this site receives media, and from where it sends.
    fn remote(&self, from: &Source<'_>, section: &Section<'_>, is_muxed: bool) -> Option<Remote> {
        let remote = Remote::of(&End::of(section), is_muxed, section.is_dtls(), from.via);
        remote.map(|remote| remote.or_from_lan(self.own.media_from_lan))
    }

    fn answered(
        &mut self,
        from: &Source<'_>,
        media: u8,
        section: &Section<'_>,
    ) -> Result<MediaEdit, Refused> {
        let Some(ports) = self.streams.get(&media).map(|leased| leased.ports) else {
            return Ok(MediaEdit::Keep);
        };
        let streams = self.exchange.streams();
        let stream = streams.get(usize::from(media)).filter(|s| s.active);
        let is_muxed = stream.is_some_and(|stream| stream.is_muxed());
        let announce = section.announce.clone().ok().flatten();
        let to = from.side.other();
        let (remote, edit) = match (stream, self.reach[from.side.index()], announce) {
            (Some(_), Reach::Local(_), None) => {
                let remote = self.remote(from, section, is_muxed);
                (remote, self.announced(ports[to.index()]))
            }
            (Some(_), Reach::Beyond, Some(announce)) if (from.is_trusted)(&announce) => {
                let edit = self.led(to, ports[to.index()], None);
                (Some(Remote::announced(&announce)), edit)
            }
            // The stream is rejected, the end is aware of the overlay, or no end is aware: media does not go through
            // this gateway.
            _ => (None, MediaEdit::Keep),
        };
        let Some(remote) = remote else {
            self.end(media);
            return Ok(MediaEdit::Keep);
        };
        let id = self.stream_id(media);
        self.plane.signal(id, from.side, remote)?;
        if let Some(format) = section.payload_formats().next() {
            let settings = live::Settings::default().with_format(&format);
            for side in Side::BOTH {
                self.plane.set_formats(id, side, settings);
            }
        }
        Ok(edit)
    }

    /// Returns the ports of this gateway for a stream, for both sides.
    fn stream(&mut self, media: u8) -> Result<[LocalPorts; 2], Refused> {
        if let Some(leased) = self.streams.get(&media) {
            return Ok(leased.ports);
        }
        let share = self.ports.take(self.by).ok_or(Refused::Share)?;
        let carriers = self.reach.map(|reach| match reach {
            Reach::Local(_) => (Carrier::Udp, Need::Pair),
            Reach::Beyond => (Carrier::Overlay, Need::Pair),
        });
        let ports = self.plane.add_stream(self.stream_id(media), carriers)?;
        let leased = Leased {
            ports,
            _share: share,
        };
        self.streams.insert(media, leased);
        Ok(ports)
    }

    fn stream_id(&self, media: u8) -> StreamId {
        let call = self.id;
        StreamId { call, media }
    }

    fn expect(&mut self, media: u8, side: Side, remote: Remote) {
        self.pending.push((self.stream_id(media), side, remote));
    }

    fn signal_pending(&mut self) -> Result<(), Refused> {
        for (id, side, remote) in std::mem::take(&mut self.pending) {
            self.plane.signal(id, side, remote)?;
        }
        Ok(())
    }

    fn end(&mut self, media: u8) {
        if self.streams.remove(&media).is_some() {
            let _ = self.plane.end_stream(self.stream_id(media));
        }
    }

    fn announced(&self, ports: LocalPorts) -> MediaEdit {
        let (rtp, rtcp) = (VirtualPort(ports.rtp), VirtualPort(ports.rtcp));
        match Announce::new(self.own.node, rtp, rtcp, &self.own.domain) {
            Ok(announce) => MediaEdit::Announce(announce),
            // The node's address and the domain were checked at the start.
            Err(_) => MediaEdit::Keep,
        }
    }

    fn led(&self, to: Side, ports: LocalPorts, announce: Option<Announce>) -> MediaEdit {
        match self.reach[to.index()] {
            Reach::Local(ip) => MediaEdit::Steer(Steer {
                ip,
                rtp_port: ports.rtp,
                rtcp_port: ports.rtcp,
                announce,
            }),
            Reach::Beyond => MediaEdit::Keep,
        }
    }

    fn rewrite(&self, to: Side, sdp: &Sdp<'_>, edits: Vec<MediaEdit>) -> Result<Passed, Refused> {
        let is_announced = edits
            .iter()
            .any(|edit| matches!(edit, MediaEdit::Announce(_)));
        let mut rewrite = Rewrite::steer(edits);
        if self.reach[to.index()] == Reach::Beyond {
            // These parts may refer to the addresses of the original description.
            rewrite.ice = Treatment::Keep;
            rewrite.bundle = Treatment::Keep;
        }
        Ok(Passed {
            body: rewrite.apply(sdp)?,
            is_announced,
        })
    }
}
