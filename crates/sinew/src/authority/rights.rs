//! What certificates say in addition to the identity of a node, as the command line has it: the groups that it may set, and its tags.

use super::NONE;
use crate::failure::Failure;
use secure::Certificate;
use wire::bytes::Writer;
use wire::certificate::{GroupRange, MAX_RANGES, MAX_RIGHTS_BYTES, Rights};

/// The word for every group.
const ALL: &str = "all";

/// The ranges that words name; none without words.
pub(crate) fn ranges(words: &[String]) -> Result<Option<Vec<GroupRange>>, Failure> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ranges = match words.as_slice() {
        [] => return Ok(None),
        [NONE] => Vec::new(),
        [ALL] => vec![GroupRange::ALL],
        words => words
            .iter()
            .map(|word| range(word))
            .collect::<Result<_, _>>()?,
    };
    let mut room = [0; MAX_RIGHTS_BYTES];
    match Rights::emit(&ranges, &mut Writer::new(&mut room)) {
        Ok(()) => Ok(Some(ranges)),
        Err(wire::Full) => Err(Failure::misused(format_args!(
            "--may-set-groups: a certificate holds {MAX_RANGES} ranges: name wider ones"
        ))),
    }
}

fn range(word: &str) -> Result<GroupRange, Failure> {
    word.parse().map_err(|why| {
        Failure::misused(format_args!(
            "--may-set-groups {word}: {why}, or `all`, or `none`"
        ))
    })
}

/// The groups that a certificate lets its node set, in words.
pub(crate) fn described(certificate: &Certificate) -> Vec<String> {
    let groups = certificate.fields().groups();
    match groups.as_slice() {
        [GroupRange::ALL] => vec![ALL.to_owned()],
        groups => groups.iter().map(ToString::to_string).collect(),
    }
}

/// The tags of a certificate.
pub(crate) fn tags(certificate: &Certificate) -> Vec<&str> {
    certificate.fields().options.tags().iter().collect()
}
