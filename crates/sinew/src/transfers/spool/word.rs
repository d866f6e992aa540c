//! Serializes the words and paths of a task: as text or, if they are not UTF-8, as lists of bytes.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Word {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&OsStr> for Word {
    fn from(word: &OsStr) -> Word {
        match word.to_str() {
            Some(text) => Word::Text(text.to_owned()),
            None => Word::Bytes(word.as_bytes().to_vec()),
        }
    }
}

impl From<Word> for OsString {
    fn from(word: Word) -> OsString {
        match word {
            Word::Text(text) => text.into(),
            Word::Bytes(bytes) => OsString::from_vec(bytes),
        }
    }
}

/// Serializes several words.
pub(super) mod list {
    use super::{Deserialize, Deserializer, OsString, Serializer, Word};

    pub(in super::super) fn serialize<S: Serializer>(
        words: &[OsString],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(words.iter().map(|word| Word::from(word.as_os_str())))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<OsString>, D::Error> {
        let words = Vec::<Word>::deserialize(from)?;
        Ok(words.into_iter().map(OsString::from).collect())
    }
}

/// Serializes a path.
pub(super) mod path {
    use super::{Deserialize, Deserializer, OsString, Serialize, Serializer, Word};
    use std::path::{Path, PathBuf};

    pub(in super::super) fn serialize<S: Serializer>(
        path: &Path,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        Word::from(path.as_os_str()).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<PathBuf, D::Error> {
        Ok(OsString::from(Word::deserialize(from)?).into())
    }
}

#[cfg(test)]
mod tests {
    use crate::transfers::spool::Job;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::path::PathBuf;

    #[test]
    fn jobs_of_any_bytes_come_back_and_those_of_text_are_text() {
        let odd = || OsString::from_vec(b"/d/\xff\xfe".to_vec());
        let job = |word: OsString| Job {
            words: vec!["-n".into(), word.clone()],
            directory: PathBuf::from(word),
            notify: None,
            begun_s: 5,
        };
        for job in [job(odd()), job("a b".into())] {
            let text = serde_json::to_string(&job).unwrap();
            assert_eq!(serde_json::from_str::<Job>(&text).unwrap(), job);
        }
        let text = serde_json::to_string(&job("a".into())).unwrap();
        assert!(
            text.contains(r#""words":["-n","a"],"directory":"a""#),
            "{text}"
        );
    }
}
