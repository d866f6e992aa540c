//! The rights in a certificate, in the words of the command line: the groups that the node may set, and its tags.

use super::NONE;
use crate::failure::Failure;
use secure::Certificate;
use wire::bytes::Writer;
use wire::certificate::{GroupRange, MAX_RANGES, MAX_RIGHTS_BYTES, Rights};

/// The word for all groups.
const ALL: &str = "all";

/// Reads ranges of groups; `None` if there are no words.
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

/// Returns the groups that the certificate's node may set, in words.
pub(crate) fn described(certificate: &Certificate) -> Vec<String> {
    let groups = certificate.fields().groups();
    match groups.as_slice() {
        [GroupRange::ALL] => vec![ALL.to_owned()],
        groups => groups.iter().map(ToString::to_string).collect(),
    }
}

/// Returns the tags of a certificate.
pub(crate) fn tags(certificate: &Certificate) -> Vec<&str> {
    certificate.fields().options.tags().iter().collect()
}
