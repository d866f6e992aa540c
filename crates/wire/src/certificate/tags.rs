//! Words with which an operator groups nodes, like `backup` or `site-ams`: rules name all of them at once
//! ([`super::Pattern`]).
//!
//! ```text
//! tags: 1 to 16, ascending, none twice
//! +------------+-------------+
//! | length  1  | tag  1..32  |   of a-z 0-9 - _ .
//! +------------+-------------+
//! ```
//! The signer of the certificate decides about tags; a node cannot request them. All tags together have at most 255
//! bytes, lengths included, because this is the limit of an option's value. The option is not critical: a node of an
//! earlier version skips it, and its rules contain no tags.
//!
//! A delegation names the tags that its issuer may give. Choice: as words among its domains, `_tag.backup` or
//! `_tag.*-lab`, for the same reasons as the bound of rights ([`super::rights`]). An issuer whose delegation has no
//! such word may give none, so delegations of earlier versions give none.

use crate::bytes::{Reader, Writer};
use crate::{Full, Malformed};
use core::fmt;

/// The maximum number of tags in one certificate.
pub const MAX_TAGS: usize = 16;
/// The maximum length of a tag.
pub const MAX_TAG_BYTES: usize = 32;
/// The maximum length of the list of tags: the value of an option.
pub const MAX_TAGS_BYTES: usize = 255;
/// The prefix of a tag, or of a pattern of tags, among the domains of a delegation.
const WORD: &str = "_tag.";

/// Tags in their wire format.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Tags<'a>(&'a [u8]);

impl<'a> Tags<'a> {
    /// No tag. This is never written: the option is then absent.
    pub const NONE: Tags<'static> = Tags(&[]);

    /// Reads tags that fill `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Tags<'a>, Malformed> {
        let mut r = Reader::new(bytes);
        let mut count = 0;
        let mut before: &[u8] = &[];
        while !r.is_empty() {
            let length = r.u8()?;
            let tag = r.take(length.into()).map_err(|_| Malformed::Length)?;
            // No tag is empty, so the first one may follow an empty one.
            if !is_tag(tag) || tag <= before {
                return Err(Malformed::Value);
            }
            (before, count) = (tag, count + 1);
        }
        match count {
            1..=MAX_TAGS => Ok(Tags(bytes)),
            _ => Err(Malformed::Count),
        }
    }

    /// Appends tags, which may be in any order and contain duplicates. Returns [`Full`] also if there are too many, or
    /// if one is not a tag.
    pub fn emit(tags: &[&str], w: &mut Writer<'_>) -> Result<(), Full> {
        let mut tags = tags.to_vec();
        tags.sort_unstable();
        tags.dedup();
        let bytes: usize = tags.iter().map(|tag| 1 + tag.len()).sum();
        let are_tags = tags.iter().all(|tag| is_tag(tag.as_bytes()));
        if tags.len() > MAX_TAGS || bytes > MAX_TAGS_BYTES || !are_tags {
            return Err(Full);
        }
        for tag in tags {
            w.u8(tag.len() as u8)?;
            w.put(tag.as_bytes())?;
        }
        Ok(())
    }

    /// Returns the tags, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut r = Reader::new(self.0);
        core::iter::from_fn(move || {
            let length = r.u8().ok()?;
            core::str::from_utf8(r.take(length.into()).ok()?).ok()
        })
    }

    /// Returns the wire format; `None` if there are no tags.
    pub(super) fn as_bytes(&self) -> Option<&'a [u8]> {
        (!self.0.is_empty()).then_some(self.0)
    }
}

impl fmt::Debug for Tags<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Returns true for a tag: 1 to 32 lower-case letters, digits, and `-`, `_`, `.`. Choice: `none` is not a tag, because
/// users write it to remove tags.
pub fn is_tag(bytes: &[u8]) -> bool {
    let allowed = |b: &u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
    (1..=MAX_TAG_BYTES).contains(&bytes.len()) && bytes.iter().all(allowed) && bytes != b"none"
}

/// Returns the word among the domains of a delegation for a tag, or for all tags that end like `*-lab`; [`Full`] for
/// anything else.
pub fn delegated_tag(pattern: &str) -> Result<String, Full> {
    let end = pattern.strip_prefix('*').unwrap_or(pattern);
    let is_end = end.is_empty() && !pattern.is_empty() || is_tag(end.as_bytes());
    match is_end {
        true => Ok(format!("{WORD}{pattern}")),
        false => Err(Full),
    }
}

/// Returns the pattern of tags that a word among the domains of a delegation contains; `None` for other words.
pub(super) fn pattern_of(word: &str) -> Option<&str> {
    word.strip_prefix(WORD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn emitted(tags: &[&str]) -> Result<Vec<u8>, Full> {
        let mut room = [0xa5; MAX_TAGS_BYTES];
        let mut w = Writer::new(&mut room);
        Tags::emit(tags, &mut w).map(|()| w.written().to_vec())
    }

    #[test]
    fn tags_and_their_bytes_agree_both_ways() {
        let bytes = b"\x06backup\x08site-ams";
        assert_eq!(
            emitted(&["site-ams", "backup", "backup"]).unwrap(),
            *bytes,
            "in order, once"
        );
        let tags = Tags::parse(bytes).unwrap();
        assert_eq!(tags.iter().collect::<Vec<_>>(), ["backup", "site-ams"]);
        for short in 0..bytes.len() {
            let is_whole = short == 7;
            assert_eq!(Tags::parse(&bytes[..short]).is_ok(), is_whole, "{short}");
        }
        let mut small = vec![0; bytes.len() - 1];
        let written = Tags::emit(&["backup", "site-ams"], &mut Writer::new(&mut small));
        assert_eq!(written, Err(Full));
    }

    #[test]
    fn what_is_no_list_of_tags_is_refused() {
        for (bytes, why) in [
            (&b""[..], Malformed::Count),
            (b"\x00", Malformed::Value),
            (b"\x01B", Malformed::Value),
            (b"\x01*", Malformed::Value),
            (b"\x04none", Malformed::Value),
            (b"\x01b\x01b", Malformed::Value),
            (b"\x01b\x01a", Malformed::Value),
            (b"\x02b", Malformed::Length),
        ] {
            assert_eq!(Tags::parse(bytes), Err(why), "{bytes:?}");
        }
        let many: Vec<String> = (0..17).map(|n| format!("t{n:02}")).collect();
        let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(emitted(&many), Err(Full));
        let bytes: Vec<u8> = many.iter().flat_map(|tag| tagged(tag)).collect();
        assert_eq!(Tags::parse(&bytes), Err(Malformed::Count));
        many.pop();
        assert_eq!(
            Tags::parse(&emitted(&many).unwrap())
                .unwrap()
                .iter()
                .count(),
            16
        );
        let long: Vec<String> = (0..8).map(|n| format!("{n}{}", "x".repeat(31))).collect();
        let long: Vec<&str> = long.iter().map(String::as_str).collect();
        assert!(emitted(&long[..7]).is_ok());
        assert_eq!(
            emitted(&long),
            Err(Full),
            "the value of an option has 255 bytes"
        );
        assert_eq!(emitted(&[&"x".repeat(33)]), Err(Full));
    }

    #[test]
    fn a_delegation_names_tags_by_words_that_are_no_domains() {
        for (pattern, word) in [
            ("backup", "_tag.backup"),
            ("*-lab", "_tag.*-lab"),
            ("*", "_tag.*"),
        ] {
            assert_eq!(delegated_tag(pattern).as_deref(), Ok(word));
            assert_eq!(pattern_of(word), Some(pattern));
        }
        for wrong in ["", "Backup", "a*", "**", "tag:x"] {
            assert_eq!(delegated_tag(wrong), Err(Full), "{wrong}");
        }
        assert_eq!(pattern_of("tag.example.org"), None);
    }

    fn tagged(tag: &str) -> Vec<u8> {
        [&[tag.len() as u8], tag.as_bytes()].concat()
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_written_back(
            tags in prop::collection::vec("[a-cA*]{0,3}", 0..20),
        ) {
            let bytes: Vec<u8> = tags.iter().flat_map(|tag| tagged(tag)).collect();
            if let Ok(tags) = Tags::parse(&bytes) {
                let tags: Vec<&str> = tags.iter().collect();
                prop_assert_eq!(emitted(&tags).unwrap(), bytes);
            }
        }
    }
}
