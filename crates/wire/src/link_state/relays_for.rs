//! For whom the origin relays bulk data, if it does not for all: so that a plan leaves out a relay that would refuse. [Liu04 §IV-D]
//!
//! ```text
//! +---------------+---------------+-----------------------------------------------+
//! | 0 0 0 1 0 1 0 0 |    3 n      |                     mark                      | n times
//! +---------------+---------------+-----------------------------------------------+
//! ```
//! A mark stands for a word of the rule. The words themselves would not fit: a tag has up to 32 bytes, a domain more,
//! and all options of a record share 160. A node makes the marks of all words that name it, and looks for one of them.
//! It may find one by chance. Then it takes the relay for one that may relay for it, asks, and is refused, as if nothing
//! had been told. The other error is impossible: a node that is named finds its mark.

use super::{LinkState, Opt, write_option};
use crate::Full;
use crate::bytes::Writer;
use crate::certificate::{Certificate, Pattern, is_like_address};

/// The option that tells for whom the origin relays, if for some nodes only. Without it nobody knows, and the origin
/// says so when it is asked. It has what room [`super::OPTION_PROTECTION`] and all before leave, as a whole or not at all.
pub const OPTION_RELAYS_FOR: u8 = 20;
/// Bytes of a mark. Choice: a node has some thirty marks, most of them of how its name ends. Against sixteen of a relay
/// one of them is found by chance in one case of 35 000; with two bytes, in one of 137.
pub const MARK_BYTES: usize = 3;
/// The most marks that are told: 50 bytes with the head, a third of the room of all options.
pub const MARKS_MAX: usize = 16;

/// What a word is before its text, so that a tag is not taken for a name.
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
    /// Ascending; zero behind `count`.
    marks: [[u8; MARK_BYTES]; MARKS_MAX],
}

impl RelaysFor {
    /// What these words of a rule come to. None if it cannot be told: there are too many of them, none, or one that
    /// has no mark.
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

    /// False if no word names the node of this certificate, so that the origin refuses what it begins. True if one
    /// names it, or seems to.
    pub fn may_name(&self, certificate: &Certificate<'_>) -> bool {
        let has = |sort, text: &[u8]| self.marks().contains(&mark(sort, text));
        let subject = &certificate.subject;
        let (name, tags) = (subject.name.as_bytes(), certificate.options.tags());
        // As in [`Pattern::names`].
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
        // Nobody can write it in a rule any more.
        Pattern::Beginning(_) => return None,
    })
}

/// FNV-1a of 32 bits, folded to 24. No secret depends on it: who knows a word can make its mark.
fn mark(sort: Sort, text: &[u8]) -> [u8; MARK_BYTES] {
    const START: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    // In names, and in nothing else that is compared, upper and lower case are one.
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
    /// For whom the origin relays, if it tells. Only a record that says "for some nodes only" means it.
    pub(super) fn relays_for(&self) -> Option<RelaysFor> {
        let mut options = self.options();
        let told = options.find(|option| option.kind == OPTION_RELAYS_FOR)?;
        let (marks, rest) = told.value.as_chunks();
        // What is longer than known here may name others: who leaves them out leaves out a relay that is willing.
        rest.is_empty()
            .then(|| RelaysFor::of_marks(marks.to_vec()))?
    }
}

/// Appends [`OPTION_RELAYS_FOR`]. Nothing where there is no room.
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

    /// Whether a node of this name with a domain and a tag is among these, by marks and by words.
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
