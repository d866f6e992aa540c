//! The lines of a description, as positions in its bytes.

use core::ops::Range;

use super::{LINES_MAX, SDP_BYTES_MAX, SdpError};

/// One line. The offsets fit, because [`SDP_BYTES_MAX`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    /// `v`, `o`, `m`, …; 0 for a blank line.
    pub(super) letter: u8,
    /// Where the line begins.
    start: u16,
    /// Where its text ends and its line end begins.
    end: u16,
    /// Where the next line begins.
    next: u32,
}

impl Line {
    pub(super) fn is_blank(&self) -> bool {
        self.letter == 0
    }

    /// Returns the position of the value after `=`.
    pub(super) fn value_range(&self) -> Range<usize> {
        let end = usize::from(self.end);
        (usize::from(self.start) + 2).min(end)..end
    }

    pub(super) fn value<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.value_range()]
    }

    /// Returns the line including its line end.
    pub(super) fn whole<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[usize::from(self.start)..self.next as usize]
    }

    pub(super) fn line_end<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[usize::from(self.end)..self.next as usize]
    }

    /// Returns an attribute's name, and the value after the colon if there is one.
    pub(super) fn attribute<'a>(&self, text: &'a [u8]) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        if self.letter != b'a' {
            return None;
        }
        let value = self.value(text);
        match value.iter().position(|&byte| byte == b':') {
            Some(colon) => Some((&value[..colon], Some(&value[colon + 1..]))),
            None => Some((value, None)),
        }
    }
}

/// Finds the lines of a description.
pub(super) fn index(text: &[u8]) -> Result<Vec<Line>, SdpError> {
    if text.len() > SDP_BYTES_MAX {
        return Err(SdpError::TooLong { bytes: text.len() });
    }
    let mut lines: Vec<Line> = Vec::with_capacity(text.len().div_ceil(24).min(LINES_MAX));
    let mut start = 0;
    while start < text.len() {
        if lines.len() == LINES_MAX {
            return Err(SdpError::TooManyLines);
        }
        let number = lines.len() + 1;
        let line = line_at(text, start, number)?;
        let after_blank = lines.last().is_some_and(Line::is_blank);
        if after_blank && !line.is_blank() {
            return Err(SdpError::NotALine { line: number - 1 });
        }
        start = line.next as usize;
        lines.push(line);
    }
    Ok(lines)
}

fn line_at(text: &[u8], start: usize, number: usize) -> Result<Line, SdpError> {
    let rest = &text[start..];
    let (length, next) = match rest.iter().position(|&byte| byte == b'\n') {
        Some(at) => (at - usize::from(rest[..at].ends_with(b"\r")), at + 1),
        None => (rest.len(), rest.len()),
    };
    let line = &rest[..length];
    if line.iter().any(|&byte| byte == 0 || byte == b'\r') {
        return Err(SdpError::ControlByte { line: number });
    }
    let letter = match line {
        [] => 0,
        [letter, b'=', ..] if letter.is_ascii_alphabetic() => *letter,
        _ => return Err(SdpError::NotALine { line: number }),
    };
    Ok(Line {
        letter,
        start: start as u16,
        end: (start + length) as u16,
        next: (start + next) as u32,
    })
}

/// Returns the fields of a value, split at spaces, with their positions in it.
pub(super) fn fields(value: &[u8]) -> impl Iterator<Item = (Range<usize>, &[u8])> {
    let mut at = 0;
    value.split(|&byte| byte == b' ').filter_map(move |field| {
        let start = at;
        at += field.len() + 1;
        (!field.is_empty()).then_some((start..start + field.len(), field))
    })
}

/// Reads a decimal number of at most five digits that fits a port.
pub(super) fn port(digits: &[u8]) -> Option<u16> {
    if digits.is_empty() || digits.len() > 5 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    core::str::from_utf8(digits).ok()?.parse().ok()
}
