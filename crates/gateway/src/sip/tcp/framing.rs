//! Where a message ends in a stream. [RFC 3261 §18.3]
//!
//! The limit is that of the SIP stack. Each byte is searched once, however small the pieces are in which it arrives.

/// Maximum length of a message.
pub(super) const MESSAGE_MAX: usize = 65_535;
/// What a peer sends to learn whether the connection is alive, and the answer to it. [RFC 5626 §4.4.1]
const PING: &[u8] = b"\r\n\r\n";
pub(super) const PONG: &[u8] = b"\r\n";
const HEAD_END: &[u8] = b"\r\n\r\n";

/// What is at the front of the bytes that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Front {
    /// The peer asks whether the connection is alive.
    Ping,
    /// A message of this length.
    Message(usize),
    /// More bytes are needed.
    Partial,
}

/// The bytes are no message, or a message that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bad;

/// The bytes of a stream that have arrived.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    bytes: Vec<u8>,
    /// Number of bytes at the front that do not contain the end of the head.
    searched: usize,
    /// The length of the message at the front, once its head is there.
    whole: Option<usize>,
}

impl Arrived {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns what is at the front. A ping is taken off, and so is an answer to a ping.
    pub(super) fn front(&mut self) -> Result<Front, Bad> {
        if self.searched == 0 && self.whole.is_none() {
            if self.bytes.starts_with(PING) {
                self.take(PING.len());
                return Ok(Front::Ping);
            }
            let answers = self.bytes.chunks(PONG.len());
            let answers = answers.take_while(|bytes| *bytes == PONG).count();
            self.take(answers * PONG.len());
        }
        let whole = match self.whole {
            Some(whole) => whole,
            None => match self.head_end() {
                Some(end) => whole(&self.bytes[..end])?,
                None if self.bytes.len() > MESSAGE_MAX => return Err(Bad),
                None => return Ok(Front::Partial),
            },
        };
        self.whole = Some(whole);
        Ok(match self.bytes.len() >= whole {
            true => Front::Message(whole),
            false => Front::Partial,
        })
    }

    /// Returns the first bytes.
    pub(super) fn first(&self, len: usize) -> &[u8] {
        self.bytes.get(..len).unwrap_or(&self.bytes)
    }

    /// Takes the first bytes off.
    pub(super) fn take(&mut self, len: usize) {
        self.bytes.drain(..len.min(self.bytes.len()));
        if self.bytes.is_empty() {
            // After a long message, its memory is released.
            self.bytes = Vec::new();
        }
        self.searched = 0;
        self.whole = None;
    }

    fn head_end(&mut self) -> Option<usize> {
        let from = self.searched;
        let rest = self.bytes.get(from..).unwrap_or_default();
        let at = rest.windows(HEAD_END.len()).position(|w| w == HEAD_END);
        self.searched = self.bytes.len().saturating_sub(HEAD_END.len() - 1);
        at.map(|at| from + at + HEAD_END.len())
    }
}

/// Returns the length of the message with this head. Without Content-Length, it has no body.
fn whole(head: &[u8]) -> Result<usize, Bad> {
    let body = head.split(|byte| *byte == b'\n').find_map(length);
    let whole = head.len().checked_add(body.unwrap_or(Ok(0))?);
    whole.filter(|whole| *whole <= MESSAGE_MAX).ok_or(Bad)
}

/// Returns the value of the line, if it is Content-Length.
fn length(line: &[u8]) -> Option<Result<usize, Bad>> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = line.split_at(colon);
    let name = name.trim_ascii();
    if !name.eq_ignore_ascii_case(b"content-length") && !name.eq_ignore_ascii_case(b"l") {
        return None;
    }
    let value = str::from_utf8(value).ok();
    let value = value.and_then(|value| value.strip_prefix(':')?.trim().parse().ok());
    Some(value.ok_or(Bad))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "INFO sip:b@b.example SIP/2.0\r\nl : 4\r\n\r\n";

    fn arrived(text: &str) -> Arrived {
        let mut arrived = Arrived::default();
        arrived.push(text.as_bytes());
        arrived
    }

    #[test]
    fn messages_and_pings_are_told_apart_in_pieces_of_any_length() {
        let text = format!("\r\n{HEAD}body\r\n\r\n{HEAD}more\r\n");
        for piece in [1, 2, 3, 7, text.len()] {
            let (mut arrived, mut found) = (Arrived::default(), Vec::new());
            for piece in text.as_bytes().chunks(piece) {
                arrived.push(piece);
                while let Ok(front) = arrived.front() {
                    match front {
                        Front::Partial => break,
                        Front::Ping => {}
                        Front::Message(len) => {
                            found.push(String::from_utf8(arrived.first(len).to_vec()).unwrap());
                            arrived.take(len);
                        }
                    }
                }
            }
            assert_eq!(found, ["body", "more"].map(|body| format!("{HEAD}{body}")));
            assert!(arrived.first(1).is_empty(), "{piece}");
        }
        assert_eq!(arrived("\r\n\r\n").front(), Ok(Front::Ping));
    }

    #[test]
    fn a_message_that_is_too_long_or_has_no_length_is_bad() {
        for length in ["-1", "x", "65535", "18446744073709551615", ""] {
            let head = HEAD.replace(": 4", &format!(": {length}"));
            assert_eq!(arrived(&head).front(), Err(Bad), "{length}");
        }
        let mut endless = arrived(&"a".repeat(MESSAGE_MAX));
        assert_eq!(endless.front(), Ok(Front::Partial));
        endless.push(b"a");
        assert_eq!(endless.front(), Err(Bad));
    }
}
