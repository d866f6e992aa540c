//! The nodes for which the origin relays bulk data, if it does not relay for all, so that a plan leaves out a relay
//! that would refuse. [Liu04 §IV-D]
//!
//! ```text
//! +---------------+---------------+-----------------------------------------------+
//! | 0 0 0 1 0 1 0 0 |    3 n      |                     mark                      | n times
//! +---------------+---------------+-----------------------------------------------+
//! ```
//! A mark stands for a word of the rule. The words themselves would not fit: a tag has up to 32 bytes, a domain more,
//! and all options of a record share 160. A node computes the marks of all words that match it, and looks for one of
//! them. It may find one by chance. Then it assumes that the relay may relay for it, asks, and is refused, as if
//! nothing had been reported. The opposite error is impossible: a node that a word matches always finds its mark.

use super::{LinkState, Opt, write_option};
use crate::Full;
use crate::bytes::Writer;
use crate::certificate::{Certificate, Pattern, is_like_address};

/// The option with the nodes for which the origin relays, if it relays only for some. Without it, nodes do not know,
/// and the origin answers when it is asked. It uses the room that [`super::OPTION_PROTECTION`] and all options before
/// it leave, as a whole or not at all.
pub const OPTION_RELAYS_FOR: u8 = 20;
/// Number of bytes of a mark. Choice: a node has some thirty marks, most of them for the ends of its name. Against
/// sixteen marks of a relay, one of them is found by chance in one case of 35 000; with two bytes, in one of 137.
pub const MARK_BYTES: usize = 3;
/// The maximum number of marks: 50 bytes with the head, a third of the room of all options.
pub const MARKS_MAX: usize = 16;

/// The kind of a word, which is prepended to its text, so that a tag is not confused with a name.
#[derive(Clone, Copy)]
enum Sort {
    Address = 1,
    Domain,
    Ending,
    Name,
    Tag,
}

/// The nodes for which the origin relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelaysFor {
    count: u8,
    /// The marks, ascending; zero after `count`.
    marks: [[u8; MARK_BYTES]; MARKS_MAX],
}

impl RelaysFor {
    /// Returns the marks of these words of a rule; `None` if they cannot be represented: there are too many or no
    /// words, or one has no mark.
    pub fn of(words: &[String]) -> Option<RelaysFor> {
        let marks: Option<Vec<_>> = words
            .iter()
            .map(|word| of_pattern(Pattern::heard(word)))
            .collect();
        RelaysFor::of_marks(marks?)
    }

    fn of_marks(mut found: Vec<[u8; MARK_BYTES]>) -> Option<RelaysFor> {
        found.sort_unstable();
        found.dedup();
        let mut marks = [[0; MARK_BYTES]; MARKS_MAX];
        let told = marks
            .get_mut(..found.len())
            .filter(|told| !told.is_empty())?;
        told.copy_from_slice(&found);
        let count = found.len() as u8;
        Some(RelaysFor { count, marks })
    }

    /// Returns false if no word matches the node of this certificate, so that the origin refuses its transfers. Returns
    /// true if a word matches it, or seems to.
    pub fn may_name(&self, certificate: &Certificate<'_>) -> bool {
        let has = |sort, text: &[u8]| self.marks().contains(&mark(sort, text));
        let subject = &certificate.subject;
        let (name, tags) = (subject.name.as_bytes(), certificate.options.tags());
        // This is the same rule as in [`Pattern::names`].
        let has_name = !is_like_address(subject.name);
        has(Sort::Address, &subject.address.0.to_be_bytes())
            || subject
                .domains
                .iter()
                .any(|of| has(Sort::Domain, of.as_bytes()))
            || tags.iter().any(|of| has(Sort::Tag, of.as_bytes()))
            || has_name && has(Sort::Name, name)
            || has_name && (0..=name.len()).any(|at| has(Sort::Ending, &name[at..]))
    }

    fn marks(&self) -> &[[u8; MARK_BYTES]] {
        &self.marks[..usize::from(self.count)]
    }
}

fn of_pattern(pattern: Pattern<'_>) -> Option<[u8; MARK_BYTES]> {
    Some(match pattern {
        Pattern::Address(address) => mark(Sort::Address, &address.0.to_be_bytes()),
        Pattern::Domain(domain) => mark(Sort::Domain, domain.as_bytes()),
        Pattern::Ending(end) => mark(Sort::Ending, end.as_bytes()),
        Pattern::Name(name) => mark(Sort::Name, name.as_bytes()),
        Pattern::Tag(tag) => mark(Sort::Tag, tag.as_bytes()),
        // A rule can no longer contain such a pattern.
        Pattern::Beginning(_) => return None,
    })
}

/// Computes FNV-1a of 32 bits, folded to 24. No secret depends on it: anybody who knows a word can compute its mark.
fn mark(sort: Sort, text: &[u8]) -> [u8; MARK_BYTES] {
    const START: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    // Upper and lower case are equal in names, and in nothing else that is compared.
    let fold = |byte: u8| match sort {
        Sort::Ending | Sort::Name => byte.to_ascii_lowercase(),
        Sort::Address | Sort::Domain | Sort::Tag => byte,
    };
    let text = text.iter().map(|byte| fold(*byte));
    let hash = core::iter::once(sort as u8)
        .chain(text)
        .fold(START, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(PRIME)
        });
    let [top, a, b, c] = hash.to_be_bytes();
    [a, b, c ^ top]
}

impl LinkState<'_> {
    /// Returns the nodes for which the origin relays, if it reports them. This is only meaningful in a record that says
    /// "for some nodes only".
    pub(super) fn relays_for(&self) -> Option<RelaysFor> {
        let mut options = self.options();
        let told = options.find(|option| option.kind == OPTION_RELAYS_FOR)?;
        let (marks, rest) = told.value.as_chunks();
        // A longer list than supported here may name other nodes; to ignore them would leave out a willing relay.
        rest.is_empty()
            .then(|| RelaysFor::of_marks(marks.to_vec()))?
    }
}

/// Appends [`OPTION_RELAYS_FOR`]. Appends nothing if there is no room.
pub fn write_relays_for(w: &mut Writer<'_>, nodes: &RelaysFor) -> Result<(), Full> {
    let value = nodes.marks().as_flattened();
    if w.room() < 2 + value.len() {
        return Ok(());
    }
    let kind = OPTION_RELAYS_FOR;
    write_option(w, Opt { kind, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::tests::certified;
    use base::NodeAddr;

    const AT: NodeAddr = NodeAddr(0x0a07_0002);

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    /// Returns whether a node of this name with a domain and a tag matches the rule, by marks and by words.
    fn judged(rule: &[&str], name: &str) -> (bool, bool) {
        let (mut by_marks, mut by_words) = (None, None);
        certified((name, AT), &["example.org"], &["backup"], false, |it| {
            by_marks = Some(RelaysFor::of(&words(rule)).unwrap().may_name(it));
            by_words = Some(Pattern::any_names(&words(rule), it));
        });
        (by_marks.unwrap(), by_words.unwrap())
    }

    #[test]
    fn a_node_finds_its_mark_if_and_only_if_a_word_names_it() {
        for rule in [
            &["FRA-lab"][..],
            &["x", "*-Lab"],
            &["*fra-lab"],
            &["@example.org", "y"],
            &["tag:backup"],
            &["10.7.0.2"],
        ] {
            assert_eq!(judged(rule, "fra-lab"), (true, true), "{rule:?}");
        }
        for rule in [
            &["fra", "lab", "*-lab2", "*x-fra-lab"][..],
            &["@org", "@backup", "@EXAMPLE.org", "tag:Backup"],
            &["backup", "*backup", "tag:example.org", "10.7.0.3"],
        ] {
            assert_eq!(judged(rule, "fra-lab"), (false, false), "{rule:?}");
        }
        assert_eq!(judged(&["*.7.0.9", "10.7.0.9"], "10.7.0.9"), (false, false));
    }

    #[test]
    fn what_is_too_long_or_nothing_is_not_told() {
        let many = |n: usize| (0..n).map(|i| format!("n{i}")).collect::<Vec<_>>();
        assert!(RelaysFor::of(&many(MARKS_MAX)).is_some());
        assert_eq!(RelaysFor::of(&many(MARKS_MAX + 1)), None);
        assert_eq!(RelaysFor::of(&[]), None);
        assert_eq!(RelaysFor::of(&words(&["cam-*"])), None);
        assert_eq!(
            RelaysFor::of(&words(&["b", "a", "B"])),
            RelaysFor::of(&words(&["a", "b"]))
        );
        let most = RelaysFor::of(&many(MARKS_MAX)).unwrap();
        let mut bytes = [0; 2 + MARKS_MAX * MARK_BYTES];
        let mut w = Writer::new(&mut bytes[1..]);
        write_relays_for(&mut w, &most).unwrap();
        assert_eq!(w.len(), 0, "a part of it would be another rule");
        let mut w = Writer::new(&mut bytes);
        write_relays_for(&mut w, &most).unwrap();
        assert_eq!(w.len(), 50);
    }
}
