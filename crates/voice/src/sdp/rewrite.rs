//! Steering: a description with other ports and addresses, and every other byte unchanged.
//!
//! ```text
//!   m=audio 49170 RTP/AVP 0     port of each steered section
//!   c=IN IP4 192.0.2.1          its own address; or the session's, when all that rest on it agree;
//!                               else a c= line is put into the section
//!   a=rtcp:49171                when there is one, or when RTCP is not at the port after RTP
//!   a=sinew:1 …                 set, kept or taken out; or set, and nothing else changed
//!   a=candidate:…               and other ICE, setup, bundle: taken out or kept, by choice
//! ```
//!
//! An address of zeros stays: it is the old form of hold, and a real address would resume the call. Keys of SRTP
//! (`a=crypto`, `a=fingerprint`) are never changed. Applying the same rewriting twice has the same result as applying
//! it once.

use core::net::IpAddr;
use std::collections::BTreeMap;

use super::announce::Announce;
use super::section::Section;
use super::{SDP_BYTES_MAX, Sdp, parse};

/// Whether lines of a kind stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Treatment {
    /// The line is passed unchanged.
    Keep,
    /// The line is removed.
    Strip,
}

/// Where one section's media is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steer {
    /// The address that receives the media.
    pub ip: IpAddr,
    /// The port of RTP.
    pub rtp_port: u16,
    /// The port of RTCP; it equals that of RTP only if the two are multiplexed.
    pub rtcp_port: u16,
    /// The announcement to an overlay-aware end. [Amir06 §VI]
    pub announce: Option<Announce>,
}

/// The change to one section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaEdit {
    /// The section is passed unchanged.
    Keep,
    /// The section's port becomes 0.
    Reject,
    /// The section's media is sent elsewhere. A section that is already rejected stays rejected.
    Steer(Steer),
    /// The section is passed unchanged except for the announcement, which is set: an end that is not aware of the
    /// overlay uses the address that the maker gave. [Amir06 §VI]
    Announce(Announce),
}

/// A new maker of the description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginEdit {
    /// The address that replaces the maker's own.
    pub ip: IpAddr,
    /// The edition, for a description that the maker did not change; `None` keeps it.
    pub version: Option<u64>,
}

/// A set of changes to a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    /// One edit for each section.
    pub media: Vec<MediaEdit>,
    /// The `o=` line; `None` keeps it.
    pub origin: Option<OriginEdit>,
    /// `a=ice-…`, `a=candidate` and similar lines: they would send media around this node.
    pub ice: Treatment,
    /// `a=setup` (DTLS, TCP): without it SRTP by DTLS cannot begin.
    pub setup: Treatment,
    /// `a=group:BUNDLE` and `a=bundle-only`: several sections on one port.
    pub bundle: Treatment,
    /// Existing overlay attributes of sections for which none is set: an end that is not aware of the overlay does not
    /// need them.
    pub announcements: Treatment,
}

/// Why a description cannot be steered. It can still be passed unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RewriteError {
    /// The number of edits is not that of the sections.
    #[error("the description has {sections} media sections but {edits} edits were given")]
    Count {
        /// Number of sections.
        sections: usize,
        /// Number of edits.
        edits: usize,
    },
    /// The section is not audio or video in RTP from one port to one receiver.
    #[error(
        "media section {media} (from 0) is not unicast RTP audio or video on one port: keep it"
    )]
    NotSteerable {
        /// The place of the section, from 0.
        media: usize,
    },
    /// The new port is 0.
    #[error("media section {media} (from 0) cannot be led to port 0: reject it instead")]
    NoPort {
        /// The place of the section, from 0.
        media: usize,
    },
    /// There is no `o=` line to change.
    #[error("the description has no o= line that can be read: leave the origin as it is")]
    NoOrigin,
    /// The result would have more than [`SDP_BYTES_MAX`] bytes.
    #[error("the rewritten description has {bytes} bytes: at most {SDP_BYTES_MAX} are written")]
    TooLong {
        /// The number of bytes that it would have.
        bytes: usize,
    },
}

impl Rewrite {
    /// Creates a rewriting that steers the sections; it removes ICE, bundling and other announcements.
    #[must_use]
    pub fn steer(media: Vec<MediaEdit>) -> Self {
        Self {
            media,
            origin: None,
            ice: Treatment::Strip,
            setup: Treatment::Keep,
            bundle: Treatment::Strip,
            announcements: Treatment::Strip,
        }
    }

    /// Returns the rewritten description.
    ///
    /// # Errors
    /// Fails if it is not possible; it never rewrites a part only.
    pub fn apply(&self, sdp: &Sdp<'_>) -> Result<Vec<u8>, RewriteError> {
        self.check(sdp)?;
        let mut edits = Edits::default();
        if let Some(origin) = &self.origin {
            edit_origin(sdp, origin, &mut edits)?;
        }
        self.edit_session_connection(sdp, &mut edits);
        for (section, edit) in sdp.sections.iter().zip(&self.media) {
            match edit {
                MediaEdit::Keep => {}
                MediaEdit::Reject => edit_port(sdp, section, 0, &mut edits),
                MediaEdit::Steer(_) if section.port == 0 => {}
                MediaEdit::Steer(steer) => self.edit_section(sdp, section, steer, &mut edits),
                MediaEdit::Announce(_) if section.port == 0 => {}
                MediaEdit::Announce(own) => edit_announce(sdp, section, own, &mut edits),
            }
        }
        self.strip(sdp, &mut edits);
        let text = edits.write(sdp);
        match text.len() {
            ..=SDP_BYTES_MAX => Ok(text),
            bytes => Err(RewriteError::TooLong { bytes }),
        }
    }

    fn check(&self, sdp: &Sdp<'_>) -> Result<(), RewriteError> {
        let (sections, edits) = (sdp.sections.len(), self.media.len());
        if sections != edits {
            return Err(RewriteError::Count { sections, edits });
        }
        for (media, (section, edit)) in sdp.sections.iter().zip(&self.media).enumerate() {
            let MediaEdit::Steer(steer) = edit else {
                continue;
            };
            if section.port != 0 && !section.is_steerable() {
                return Err(RewriteError::NotSteerable { media });
            }
            if steer.rtp_port == 0 || steer.rtcp_port == 0 {
                return Err(RewriteError::NoPort { media });
            }
        }
        Ok(())
    }

    /// Returns the sections in use, with the steering of those that are steered.
    fn in_use<'s, 'a>(
        &'s self,
        sdp: &'s Sdp<'a>,
    ) -> impl Iterator<Item = (&'s Section<'a>, Option<&'s Steer>)> {
        let sections = sdp.sections.iter().zip(&self.media);
        sections.filter_map(|(section, edit)| match edit {
            // A section that is only bundled has no port either, and uses another section's address.
            _ if section.port == 0 => None,
            MediaEdit::Reject => None,
            MediaEdit::Keep | MediaEdit::Announce(_) => Some((section, None)),
            MediaEdit::Steer(steer) => Some((section, Some(steer))),
        })
    }

    /// Edits the session's address, which serves the sections that have none of their own. It is changed if all of
    /// those sections are steered; sections that differ from the first one get an address of their own.
    fn edit_session_connection(&self, sdp: &Sdp<'_>, edits: &mut Edits) {
        let Some((line, connection)) = &sdp.connection else {
            return;
        };
        if connection.host.is_unspecified() {
            return;
        }
        let resting = || {
            self.in_use(sdp)
                .filter(|(section, _)| section.own_connection.is_none())
        };
        let all_led = resting().all(|(_, steer)| steer.is_some());
        // Choice: if no section uses the line, it still follows the first steered section, for ends that read no other
        // line.
        let first = resting()
            .find_map(|(_, steer)| steer)
            .or_else(|| self.in_use(sdp).find_map(|(_, steer)| steer))
            .filter(|_| all_led)
            .map(|steer| steer.ip);
        if let Some(ip) = first {
            edits.connection(*line, connection.host.ip(), ip);
        }
        let holds = first.or(connection.host.ip());
        for (section, steer) in resting() {
            let Some(ip) = steer.map(|steer| steer.ip) else {
                continue;
            };
            if Some(ip) != holds {
                let after = after_title(sdp, section);
                edits.insert(after, format!("c={}", connection_value(ip)));
            }
        }
    }

    fn edit_section(&self, sdp: &Sdp<'_>, section: &Section<'_>, steer: &Steer, edits: &mut Edits) {
        edit_port(sdp, section, steer.rtp_port, edits);
        if let (Some(line), Some(connection)) = (section.own_connection, section.connection)
            && !connection.host.is_unspecified()
        {
            edits.connection(line, connection.host.ip(), steer.ip);
        }
        edit_rtcp(sdp, section, steer, edits);
        if let Some(announce) = &steer.announce {
            edit_announce(sdp, section, announce, edits);
        }
    }

    /// Removes lines: from the steered sections, and from the session if all sections are steered.
    fn strip(&self, sdp: &Sdp<'_>, edits: &mut Edits) {
        let led_only = self.in_use(sdp).all(|(_, steer)| steer.is_some());
        let session_end = sdp.sections.first().map_or(0, |first| first.lines.start);
        let session = if led_only { 0..session_end } else { 0..0 };
        for line in session {
            self.strip_line(sdp, line, edits, false);
        }
        for (section, edit) in sdp.sections.iter().zip(&self.media) {
            let MediaEdit::Steer(steer) = edit else {
                continue;
            };
            for line in section.lines.clone() {
                self.strip_line(sdp, line, edits, steer.announce.is_some());
            }
        }
    }

    fn strip_line(&self, sdp: &Sdp<'_>, at: usize, edits: &mut Edits, announced: bool) {
        let Some((name, value)) = sdp.lines[at].attribute(sdp.text) else {
            return;
        };
        let treatment = match name {
            b"setup" => self.setup,
            b"bundle-only" => self.bundle,
            b"group" if value.is_some_and(|value| value.starts_with(b"BUNDLE")) => self.bundle,
            name if parse::is_ice(name) => self.ice,
            name if name == Announce::NAME.as_bytes() && !announced => self.announcements,
            _ => Treatment::Keep,
        };
        if treatment == Treatment::Strip {
            edits.drop_line(at);
        }
    }
}

fn edit_origin(sdp: &Sdp<'_>, edit: &OriginEdit, edits: &mut Edits) -> Result<(), RewriteError> {
    let origin = sdp.origin.as_ref().ok_or(RewriteError::NoOrigin)?;
    let version = edit.version.map(|version| version.to_string());
    let value = format!(
        "{} {} {} {}",
        origin.user,
        origin.session,
        version.as_deref().unwrap_or(origin.version),
        connection_value(edit.ip)
    );
    edits.replace(origin.line, value);
    Ok(())
}

fn edit_port(sdp: &Sdp<'_>, section: &Section<'_>, port: u16, edits: &mut Edits) {
    if section.port == port {
        return;
    }
    let line = section.lines.start;
    let value = sdp.lines[line].value_range();
    let mut text = sdp.text[value.start..section.port_range.start].to_vec();
    text.extend(port.to_string().bytes());
    text.extend(&sdp.text[section.port_range.end..value.end]);
    edits.replace(line, text);
}

fn edit_rtcp(sdp: &Sdp<'_>, section: &Section<'_>, steer: &Steer, edits: &mut Edits) {
    let port = steer.rtcp_port;
    match section.rtcp {
        Some(rtcp) => {
            let host = rtcp.host.map(|host| host.ip());
            if rtcp.port == port && host.is_none_or(|ip| ip == Some(steer.ip)) {
                return;
            }
            let value = match host {
                Some(_) => format!("rtcp:{port} {}", connection_value(steer.ip)),
                None => format!("rtcp:{port}"),
            };
            edits.replace(rtcp.line, value);
        }
        None => {
            let is_next = steer.rtp_port.checked_add(1) == Some(port);
            let is_shared = section.rtcp_mux && port == steer.rtp_port;
            if !is_next && !is_shared {
                edits.insert(last_line(sdp, section), format!("a=rtcp:{port}"));
            }
        }
    }
}

fn edit_announce(sdp: &Sdp<'_>, section: &Section<'_>, announce: &Announce, edits: &mut Edits) {
    let value = announce.to_string();
    let mut present = section.lines.clone().filter(|&at| {
        let attribute = sdp.lines[at].attribute(sdp.text);
        attribute.is_some_and(|(name, _)| name == Announce::NAME.as_bytes())
    });
    match present.next() {
        Some(first) if sdp.lines[first].value(sdp.text) == value.as_bytes() => {}
        Some(first) => edits.replace(first, value),
        None => edits.insert(last_line(sdp, section), format!("a={value}")),
    }
    present.for_each(|at| edits.drop_line(at));
}

/// Returns a value such as `IN IP4 192.0.2.1`.
pub(super) fn connection_value(ip: IpAddr) -> String {
    let kind = if ip.is_ipv4() { "IP4" } else { "IP6" };
    format!("IN {kind} {ip}")
}

/// Returns where `c=` belongs: after `m=` and its title.
fn after_title(sdp: &Sdp<'_>, section: &Section<'_>) -> usize {
    let start = section.lines.start;
    let titles = sdp.lines[start + 1..section.lines.end]
        .iter()
        .take_while(|line| line.letter == b'i');
    start + titles.count()
}

fn last_line(sdp: &Sdp<'_>, section: &Section<'_>) -> usize {
    let lines = section.lines.clone();
    let last = lines.rev().find(|&at| !sdp.lines[at].is_blank());
    last.expect("a section begins with its m= line")
}

/// The edits of single lines; all other lines stay.
#[derive(Default)]
struct Edits {
    /// The new value; `None` removes the line.
    lines: BTreeMap<usize, Option<Vec<u8>>>,
    /// Lines to insert after a line.
    inserted: BTreeMap<usize, Vec<String>>,
}

impl Edits {
    fn replace(&mut self, line: usize, value: impl Into<Vec<u8>>) {
        self.lines.insert(line, Some(value.into()));
    }

    fn drop_line(&mut self, line: usize) {
        self.lines.insert(line, None);
    }

    fn insert(&mut self, after: usize, line: String) {
        self.inserted.entry(after).or_default().push(line);
    }

    fn connection(&mut self, line: usize, was: Option<IpAddr>, ip: IpAddr) {
        if was != Some(ip) {
            self.replace(line, connection_value(ip));
        }
    }

    fn write(&self, sdp: &Sdp<'_>) -> Vec<u8> {
        let text = sdp.text;
        // An inserted line has the line end of the first line.
        let first_end = sdp
            .lines
            .first()
            .map_or(&[][..], |line| line.line_end(text));
        let line_end = if first_end.is_empty() {
            b"\r\n"
        } else {
            first_end
        };
        let mut out = Vec::with_capacity(text.len() + 256);
        for (at, line) in sdp.lines.iter().enumerate() {
            match self.lines.get(&at) {
                None => out.extend(line.whole(text)),
                Some(None) => {}
                Some(Some(value)) => {
                    out.extend([line.letter, b'=']);
                    out.extend(value);
                    out.extend(line.line_end(text));
                }
            }
            for inserted in self.inserted.get(&at).into_iter().flatten() {
                if !out.ends_with(b"\n") {
                    out.extend(line_end);
                }
                out.extend(inserted.as_bytes());
                out.extend(line_end);
            }
        }
        out
    }
}
