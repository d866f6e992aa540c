//! The part of HTTP that one request to a router needs: one answer per connection, of bounded size, and no redirects.
//!
//! ```text
//! GET /rootDesc.xml HTTP/1.1         POST /ctl/IPConn HTTP/1.1
//! Host: 192.168.1.1:5000             Host: 192.168.1.1:5000
//! Connection: close                  Content-Type, Content-Length, SOAPAction; the message
//!
//! HTTP/1.1 200 OK                    the body ends at Content-Length, at the last chunk, or with the connection
//! ```

use super::Url;
use crate::Malformed;
use std::borrow::Cow;

/// The maximum length of an answer, with its head. Choice: descriptions have 2 to 20 kB.
pub const ANSWER_MAX: usize = 64 * 1024;
/// The maximum length of a head.
const HEAD_MAX: usize = 8 * 1024;

/// Returns the request that fetches a description.
pub fn get(url: &Url) -> Vec<u8> {
    let (at, path) = (url.at, &url.path);
    format!("GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n").into_bytes()
}

/// Returns the request that calls an action.
pub(super) fn post(url: &Url, action: &str, body: &str) -> Vec<u8> {
    let (at, path, len) = (url.at, &url.path, body.len());
    format!(
        "POST {path} HTTP/1.1\r\nHost: {at}\r\nContent-Type: text/xml; charset=\"utf-8\"\r\nContent-Length: {len}\r\n\
         SOAPAction: \"{action}\"\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The answer of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The status code; 200 means success.
    pub status: u16,
    /// The body after the head, without its chunk framing.
    pub body: Cow<'a, [u8]>,
}

impl<'a> Answer<'a> {
    /// Reads what has arrived so far; `None` if more is needed. `is_all` is true when the connection has ended.
    pub fn parse(bytes: &'a [u8], is_all: bool) -> Result<Option<Answer<'a>>, Malformed> {
        if bytes.len() > ANSWER_MAX {
            return Err(Malformed::Length);
        }
        let Some((head_ends, begins)) = empty_line(bytes) else {
            return match is_all || bytes.len() > HEAD_MAX {
                true => Err(Malformed::Short),
                false => Ok(None),
            };
        };
        let head = Head::parse(&bytes[..head_ends])?;
        let body = &bytes[begins..];
        let whole = if head.is_chunked() {
            unchunked(body)?.map(Cow::Owned)
        } else if let Some(len) = head.value("content-length") {
            let len: usize = len.parse().map_err(|_| Malformed::Value)?;
            if len > ANSWER_MAX {
                return Err(Malformed::Length);
            }
            body.get(..len).map(Cow::Borrowed)
        } else {
            is_all.then_some(Cow::Borrowed(body))
        };
        match whole {
            Some(body) => Ok(Some(Answer {
                status: head.status,
                body,
            })),
            None if is_all => Err(Malformed::Short),
            None => Ok(None),
        }
    }
}

/// The lines before the body.
pub(super) struct Head<'a> {
    pub(super) status: u16,
    lines: &'a str,
}

impl<'a> Head<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Head<'a>, Malformed> {
        if bytes.len() > HEAD_MAX {
            return Err(Malformed::Length);
        }
        let text = core::str::from_utf8(bytes).map_err(|_| Malformed::Text)?;
        let (first, lines) = text.split_once('\n').unwrap_or((text, ""));
        let mut words = first.split_ascii_whitespace();
        if !words.next().is_some_and(|it| it.starts_with("HTTP/1.")) {
            return Err(Malformed::Version);
        }
        let status = words.next().ok_or(Malformed::Short)?;
        let status = status.parse().map_err(|_| Malformed::Value)?;
        Ok(Head { status, lines })
    }

    /// Returns the first value with this name; upper and lower case are equal.
    pub(super) fn value(&self, name: &str) -> Option<&'a str> {
        let mut fields = self.lines.lines().filter_map(|line| line.split_once(':'));
        let field = fields.find(|(it, _)| it.trim().eq_ignore_ascii_case(name));
        field.map(|(_, value)| value.trim())
    }

    fn is_chunked(&self) -> bool {
        let coding = self.value("transfer-encoding");
        coding.is_some_and(|it| it.eq_ignore_ascii_case("chunked"))
    }
}

/// Returns where the head ends, and where the body begins, at an empty line. Some routers end their lines without a
/// carriage return.
pub(super) fn empty_line(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut begins = 0;
    for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        if matches!(&bytes[begins..at], b"" | b"\r") {
            return Some((begins, at + 1));
        }
        begins = at + 1;
    }
    None
}

/// Returns the body without its chunk framing; `None` while the last chunk is missing. [RFC 9112 §7.1] Bytes after it
/// are ignored.
fn unchunked(mut bytes: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
    /// The maximum length of the line before a chunk.
    const LINE_MAX: usize = 64;
    let mut body = Vec::new();
    loop {
        let Some(at) = bytes.iter().take(LINE_MAX).position(|it| *it == b'\n') else {
            return match bytes.len() >= LINE_MAX {
                true => Err(Malformed::Value),
                false => Ok(None),
            };
        };
        let line = core::str::from_utf8(&bytes[..at]).map_err(|_| Malformed::Text)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        if size.starts_with('+') {
            return Err(Malformed::Value);
        }
        let size = usize::from_str_radix(size, 16).map_err(|_| Malformed::Value)?;
        if size == 0 {
            return Ok(Some(body));
        }
        if size > ANSWER_MAX {
            return Err(Malformed::Length);
        }
        let rest = &bytes[at + 1..];
        let Some((chunk, rest)) = rest.split_at_checked(size) else {
            return Ok(None);
        };
        body.extend_from_slice(chunk);
        bytes = match rest {
            [b'\r', b'\n', rest @ ..] | [b'\n', rest @ ..] => rest,
            [] | [b'\r'] => return Ok(None),
            _ => return Err(Malformed::Length),
        };
    }
}
