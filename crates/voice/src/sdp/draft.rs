//! Writes a new description: for probe calls, and for ends that are programs of this project.

use core::fmt::Write;
use core::net::IpAddr;

use super::Direction;
use super::announce::Announce;
use super::rewrite::connection_value;

/// A description to be written. The caller provides the text: letters, digits, and no line ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Number of the session.
    pub session: u64,
    /// Edition of the description.
    pub version: u64,
    /// The maker's address, which receives all media.
    pub ip: IpAddr,
    /// The media sections.
    pub media: Vec<DraftMedia>,
}

/// A media section to be written, in RTP without keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftMedia {
    /// `audio` or `video`.
    pub media: &'static str,
    /// The port of RTP; 0 rejects the stream.
    pub rtp_port: u16,
    /// The port of RTCP, if it is not the next one.
    pub rtcp_port: Option<u16>,
    /// Payload type, with its name and clock as in `PCMU/8000`.
    pub formats: Vec<(u8, &'static str)>,
    /// The direction in which media flows.
    pub direction: Direction,
    /// Whether RTP and RTCP may share the port.
    pub rtcp_mux: bool,
    /// The overlay announcement. [Amir06 §VI]
    pub announce: Option<Announce>,
}

impl Draft {
    /// Returns the description's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let at = connection_value(self.ip);
        let mut text = format!(
            "v=0\r\no=- {} {} {at}\r\ns=-\r\nc={at}\r\nt=0 0\r\n",
            self.session, self.version
        );
        for media in &self.media {
            media.write(&mut text);
        }
        text.into_bytes()
    }
}

impl DraftMedia {
    fn write(&self, text: &mut String) {
        let mut line = |arguments: core::fmt::Arguments<'_>| {
            text.write_fmt(arguments)
                .and_then(|()| text.write_str("\r\n"))
                .expect("a string takes what is written to it");
        };
        let numbers: String = self.formats.iter().map(|(n, _)| format!(" {n}")).collect();
        line(format_args!(
            "m={} {} RTP/AVP{numbers}",
            self.media, self.rtp_port
        ));
        for (number, name) in &self.formats {
            line(format_args!("a=rtpmap:{number} {name}"));
        }
        line(format_args!("a={}", self.direction.name()));
        if let Some(port) = self.rtcp_port {
            line(format_args!("a=rtcp:{port}"));
        }
        if self.rtcp_mux {
            line(format_args!("a=rtcp-mux"));
        }
        if let Some(announce) = &self.announce {
            line(format_args!("a={announce}"));
        }
    }
}
