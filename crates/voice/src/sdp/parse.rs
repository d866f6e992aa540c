//! Interprets the lines of a description.

use super::announce::{Announce, BadAnnounce};
use super::line::{self, Line};
use super::section::{self, Connection, Direction, RtcpAttribute, Section};
use super::{MEDIA_MAX, Origin, Sdp, SdpError};

pub(super) fn description(text: &[u8]) -> Result<Sdp<'_>, SdpError> {
    let lines = line::index(text)?;
    match lines.first() {
        Some(first) if first.letter == b'v' && first.value(text) == b"0" => {}
        _ => return Err(SdpError::NoVersion),
    }
    let starts = media_starts(&lines)?;
    let session_end = starts.first().copied().unwrap_or(lines.len());
    let session = session_level(text, &lines[..session_end])?;

    let ends = starts.iter().skip(1).copied().chain([lines.len()]);
    let mut sections = Vec::with_capacity(starts.len());
    for (start, end) in starts.iter().copied().zip(ends) {
        sections.push(media_section(text, &lines, start..end, &session)?);
    }
    Ok(Sdp {
        text,
        sections,
        origin: session.origin,
        connection: session.connection,
        lines,
    })
}

fn media_starts(lines: &[Line]) -> Result<Vec<usize>, SdpError> {
    let mut starts = Vec::new();
    for (at, _) in lines.iter().enumerate().filter(|(_, l)| l.letter == b'm') {
        if starts.len() == MEDIA_MAX {
            return Err(SdpError::TooManyMedia { line: at + 1 });
        }
        starts.push(at);
    }
    Ok(starts)
}

/// The values that sections inherit from the session.
#[derive(Default)]
struct Session<'a> {
    origin: Option<Origin<'a>>,
    connection: Option<(usize, Connection<'a>)>,
    direction: Direction,
    ice: bool,
}

fn session_level<'a>(text: &'a [u8], lines: &[Line]) -> Result<Session<'a>, SdpError> {
    let mut session = Session::default();
    for (at, line) in lines.iter().enumerate() {
        let value = line.value(text);
        match line.letter {
            b'v' if at > 0 => return Err(repeated(at, "v=")),
            b'c' if session.connection.is_some() => return Err(repeated(at, "c=")),
            b'o' if session.origin.is_none() => session.origin = parse_origin(value, at),
            b'c' => session.connection = Some((at, connection(value, at)?)),
            b'a' => {
                let (name, _) = line.attribute(text).unwrap_or_default();
                session.direction = Direction::from_name(name).unwrap_or(session.direction);
                session.ice |= is_ice(name);
            }
            _ => {}
        }
    }
    Ok(session)
}

fn media_section<'a>(
    text: &'a [u8],
    all: &[Line],
    range: core::ops::Range<usize>,
    session: &Session<'a>,
) -> Result<Section<'a>, SdpError> {
    let start = range.start;
    let mut section =
        media_line(text, &all[start]).ok_or(SdpError::BadMedia { line: start + 1 })?;
    section.direction = session.direction;
    section.ice = session.ice;
    section.connection = session.connection.map(|(_, connection)| connection);
    for (at, line) in all.iter().enumerate().take(range.end).skip(start + 1) {
        match line.letter {
            b'c' if section.own_connection.is_some() => return Err(repeated(at, "c=")),
            b'c' => {
                section.connection = Some(connection(line.value(text), at)?);
                section.own_connection = Some(at);
            }
            b'a' => attribute(text, line, at, &mut section)?,
            _ => {}
        }
    }
    section.lines = range;
    if section.port != 0 && section.connection.is_none() {
        return Err(SdpError::NoConnection { line: start + 1 });
    }
    Ok(section)
}

/// Reads `m=MEDIA PORT[/NUMBER] PROTOCOL FORMATS`.
fn media_line<'a>(text: &'a [u8], line: &Line) -> Option<Section<'a>> {
    let value = line.value(text);
    let mut fields = line::fields(value);
    let (_, media) = fields.next()?;
    let (port_place, port_field) = fields.next()?;
    let (_, protocol) = fields.next()?;
    let formats = fields.next().map_or(value.len(), |(place, _)| place.start);
    let mut parts = port_field.splitn(2, |&byte| byte == b'/');
    let digits = parts.next()?;
    let port_start = line.value_range().start + port_place.start;
    Some(Section {
        media: core::str::from_utf8(media).ok()?,
        port: line::port(digits)?,
        ports: match parts.next() {
            Some(number) => line::port(number).filter(|&number| number != 0)?,
            None => 1,
        },
        protocol: core::str::from_utf8(protocol).ok()?,
        formats: core::str::from_utf8(&value[formats..]).ok()?,
        connection: None,
        direction: Direction::default(),
        rtcp_mux: false,
        bundle_only: false,
        ice: false,
        announce: Ok(None),
        rtcp: None,
        formats_mapped: Vec::new(),
        lines: 0..0,
        port_range: port_start..port_start + digits.len(),
        own_connection: None,
    })
}

fn attribute<'a>(
    text: &'a [u8],
    line: &Line,
    at: usize,
    section: &mut Section<'a>,
) -> Result<(), SdpError> {
    let Some((name, value)) = line.attribute(text) else {
        return Ok(());
    };
    let value = value.unwrap_or_default();
    match name {
        // The other attributes of a rejected stream have no meaning.
        b"rtcp" if section.port == 0 => {}
        b"rtcp" if section.rtcp.is_some() => return Err(repeated(at, "a=rtcp:")),
        b"rtcp" => {
            let rtcp = RtcpAttribute::parse(value, at);
            section.rtcp = Some(rtcp.ok_or(SdpError::BadRtcp { line: at + 1 })?);
        }
        b"rtcp-mux" => section.rtcp_mux = true,
        b"bundle-only" => section.bundle_only = true,
        b"rtpmap" => section.formats_mapped.extend(section::rtpmap(value)),
        name if name == Announce::NAME.as_bytes() => {
            section.announce = match section.announce {
                Ok(None) => Announce::parse(value).map(Some),
                _ => Err(BadAnnounce::Repeated),
            };
        }
        name => {
            section.direction = Direction::from_name(name).unwrap_or(section.direction);
            section.ice |= is_ice(name);
        }
    }
    Ok(())
}

/// Returns whether it is an attribute of ICE (RFC 8839).
pub(super) fn is_ice(name: &[u8]) -> bool {
    name.starts_with(b"ice-")
        || matches!(
            name,
            b"candidate" | b"remote-candidates" | b"end-of-candidates"
        )
}

fn parse_origin(value: &[u8], line: usize) -> Option<Origin<'_>> {
    let mut fields = line::fields(value).map(|(_, field)| field);
    let mut word = || core::str::from_utf8(fields.next()?).ok();
    let (user, session, version) = (word()?, word()?, word()?);
    let (net, kind, address) = (word()?, word()?, word()?);
    fields.next().is_none().then_some(())?;
    Some(Origin {
        user,
        session,
        version,
        host: section::host(net.as_bytes(), kind.as_bytes(), address.as_bytes())?,
        line,
    })
}

fn connection(value: &[u8], at: usize) -> Result<Connection<'_>, SdpError> {
    Connection::parse(value).ok_or(SdpError::BadConnection { line: at + 1 })
}

fn repeated(at: usize, what: &'static str) -> SdpError {
    SdpError::Repeated { line: at + 1, what }
}
