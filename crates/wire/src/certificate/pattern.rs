//! Patterns by which rules name nodes: `from` and `passes` of relays, permits of groups.
//!
//! ```text
//! tag:backup     nodes whose certificates have the tag
//! @example.com   nodes whose certificates have the domain, as it stands there
//! ams            the node of this name
//! *-lab          nodes whose names end so
//! 10.7.0.3       the node with this address
//! ```
//! Every pattern refers to the content of certificates, so no node can choose which patterns match it. A host that is
//! invited without a name chooses the beginning of its own name; a delegation can restrict the end of names. So no
//! pattern may refer to the beginning of names: `cam-*` is refused where a user writes it.
//!
//! Nodes of earlier versions send `cam-*` in their records. Choice: it matches only nodes that the root key itself has
//! certified, because the operator has written their names. If it were ignored, it would exclude all nodes, until the
//! last one is upgraded.

use super::tags::is_tag;
use super::{Certificate, is_domain, is_name};
use base::NodeAddr;

/// The prefix of a tag.
const TAG: &str = "tag:";

/// A pattern that names nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern<'a> {
    /// The node with this address.
    Address(NodeAddr),
    /// Nodes whose names begin with this, as far as the root key has certified them. Only nodes of earlier versions
    /// send it.
    Beginning(&'a str),
    /// Nodes whose certificates have this domain.
    Domain(&'a str),
    /// Nodes whose names end with this.
    Ending(&'a str),
    /// The node with this name.
    Name(&'a str),
    /// Nodes whose certificates have this tag.
    Tag(&'a str),
}

/// Why a word is not a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPattern {
    /// The word begins with `tag:`, and the rest is not a tag.
    #[error("a tag has 1 to 32 lower-case letters, digits, `-`, `_` and `.`")]
    Tag,
    /// The word begins with `@`, and the rest is not a domain.
    #[error(
        "a domain has lower-case letters, digits, `-`, `_` and `.`, and may begin with `*`, as it does in the certificate"
    )]
    Domain,
    /// The word has a star that is not at its beginning.
    #[error(
        "`*` may only stand for how names begin, as in *-lab: write a tag of the nodes' certificates, as tag:backup, or a \
         domain, as @backup.example, for others"
    )]
    Star,
    /// The word is of no known kind.
    #[error(
        "write a name like ams, names that end alike like *-lab, an address, a tag like tag:backup, or a domain like \
         @backup.example"
    )]
    Unknown,
}

impl<'a> Pattern<'a> {
    /// Parses a word that a user has written.
    pub fn parse(word: &'a str) -> Result<Pattern<'a>, BadPattern> {
        let pattern = Pattern::heard(word);
        let wrong = match pattern {
            Pattern::Address(_) => return Ok(pattern),
            Pattern::Tag(tag) => (!is_tag(tag.as_bytes())).then_some(BadPattern::Tag),
            Pattern::Domain(domain) => {
                let is_within = |at| at > 0;
                let is_pattern = domain.rfind('*').is_some_and(is_within);
                (is_pattern || !is_domain(domain.as_bytes())).then_some(BadPattern::Domain)
            }
            Pattern::Beginning(_) => Some(BadPattern::Star),
            Pattern::Ending(name) | Pattern::Name(name) if name.contains('*') => {
                Some(BadPattern::Star)
            }
            Pattern::Ending(name) | Pattern::Name(name) => {
                (!is_name(name) || is_like_address(name)).then_some(BadPattern::Unknown)
            }
        };
        wrong.map_or(Ok(pattern), Err)
    }

    /// Parses a word that another node has sent: if it cannot be decoded, it becomes a name that no node has.
    pub fn heard(word: &'a str) -> Pattern<'a> {
        if let Ok(address) = word.parse() {
            return Pattern::Address(address);
        }
        let domain = || Some(Pattern::Domain(word.strip_prefix('@')?));
        let tag = || Some(Pattern::Tag(word.strip_prefix(TAG)?));
        let ending = || Some(Pattern::Ending(word.strip_prefix('*')?));
        let beginning = || Some(Pattern::Beginning(word.strip_suffix('*')?));
        let found = domain().or_else(tag).or_else(ending);
        found.or_else(beginning).unwrap_or(Pattern::Name(word))
    }

    /// Returns true if the pattern matches the node of this certificate, which must have been verified. Upper and lower
    /// case of names are equal.
    pub fn names(&self, certificate: &Certificate<'_>) -> bool {
        let subject = &certificate.subject;
        match *self {
            Pattern::Address(address) => subject.address == address,
            Pattern::Domain(domain) => subject.domains.iter().any(|of| of == domain),
            Pattern::Tag(tag) => certificate.options.tags().iter().any(|of| of == tag),
            // A node whose name looks like an address is not matched by its name: it could be confused with the node
            // that has the address.
            _ if is_like_address(subject.name) => false,
            Pattern::Name(name) => subject.name.eq_ignore_ascii_case(name),
            Pattern::Ending(end) => {
                let (name, end) = (subject.name.as_bytes(), end.as_bytes());
                let at = name.len().checked_sub(end.len());
                at.is_some_and(|at| name[at..].eq_ignore_ascii_case(end))
            }
            Pattern::Beginning(front) => {
                let name = subject.name.as_bytes().get(..front.len());
                let is_so = name.is_some_and(|name| name.eq_ignore_ascii_case(front.as_bytes()));
                is_so && certificate.options.delegation().is_none()
            }
        }
    }

    /// Returns true if one of the words matches the node of this certificate.
    pub fn any_names(words: &[String], certificate: &Certificate<'_>) -> bool {
        let mut patterns = words.iter().map(|word| Pattern::heard(word));
        patterns.any(|pattern| pattern.names(certificate))
    }
}

/// Returns true for a name that could be confused with an address: digits and dots, or colons and hexadecimal digits.
/// No node may have such a name.
pub fn is_like_address(name: &str) -> bool {
    let is_v4 = |b: u8| b.is_ascii_digit() || b == b'.';
    let is_v6 = |b: u8| b.is_ascii_hexdigit() || b":.".contains(&b);
    !name.is_empty() && (name.bytes().all(is_v4) || name.contains(':') && name.bytes().all(is_v6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::tests::certified;

    const AT: NodeAddr = NodeAddr(0x0a07_0002);

    /// Returns whether the word, which must be valid, matches a node of this name.
    fn named(word: &str, name: &str) -> bool {
        let pattern = Pattern::parse(word).unwrap_or_else(|why| panic!("{word}: {why}"));
        named_by(pattern, name, false)
    }

    fn named_by(pattern: Pattern<'_>, name: &str, is_delegated: bool) -> bool {
        let mut found = None;
        certified(
            (name, AT),
            &["example.org", "*"],
            &["backup"],
            is_delegated,
            |it| {
                found = Some(pattern.names(it));
            },
        );
        found.unwrap()
    }

    #[test]
    fn nodes_are_named_by_what_is_certified_and_by_nothing_that_they_choose() {
        for word in [
            "FRA-lab",
            "*-lab",
            "*-LAB",
            "@example.org",
            "@*",
            "10.7.0.2",
            "tag:backup",
        ] {
            assert!(named(word, "fra-Lab"), "{word}");
        }
        for word in [
            "fra",
            "lab",
            "*-lab2",
            "*x-fra-lab",
            "@org",
            "@a.example.org",
            "10.7.0.1",
            "backup",
            "@backup",
            "tag:back",
            "tag:example.org",
        ] {
            assert!(!named(word, "fra-Lab"), "{word}");
        }
        // A name is not an address, its end does not match an address, and its beginning does not make it a tag.
        assert!(!named("10.7.0.1", "10.7.0.1") && named("10.7.0.2", "10.7.0.1"));
        assert!(!named_by(Pattern::Ending(".7.0.1"), "10.7.0.1", false));
        assert!(!named("tag:other", "tag:other"));
    }

    #[test]
    fn how_names_begin_is_refused_where_it_is_written_and_heard_for_names_that_the_operator_wrote()
    {
        assert_eq!(Pattern::parse("cam-*"), Err(BadPattern::Star));
        let heard = Pattern::heard("cam-*");
        assert_eq!(heard, Pattern::Beginning("cam-"));
        assert!(named_by(heard, "cam-1", false));
        assert!(
            !named_by(heard, "cam-1", true),
            "it may have chosen its name"
        );
        assert!(!named_by(heard, "cam", false));
    }

    #[test]
    fn what_names_no_nodes_is_refused_with_the_reason() {
        for (word, why) in [
            ("b*p", BadPattern::Star),
            ("*a*", BadPattern::Star),
            ("**", BadPattern::Star),
            ("10.7.0.*", BadPattern::Star),
            ("*", BadPattern::Unknown),
            ("", BadPattern::Unknown),
            ("*.0.9", BadPattern::Unknown),
            ("12", BadPattern::Unknown),
            ("fe80::1", BadPattern::Unknown),
            ("@", BadPattern::Domain),
            ("@Example.org", BadPattern::Domain),
            ("@a*", BadPattern::Domain),
            ("tag:", BadPattern::Tag),
            ("tag:*-lab", BadPattern::Tag),
            ("tag:Backup", BadPattern::Tag),
        ] {
            assert_eq!(Pattern::parse(word), Err(why), "{word}");
        }
    }

    #[test]
    fn names_like_addresses() {
        for name in [
            "10.7.0.9",
            "12",
            "1.2",
            ".",
            "::1",
            "fe80::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(is_like_address(name), "{name}");
        }
        for name in ["ams", "10-7", "a.b", "fe80", "x:1", ""] {
            assert!(!is_like_address(name), "{name}");
        }
    }
}
