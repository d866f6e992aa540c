//! The text form of keys and certificates: base64 between two lines that name the content.
//!
//! ```text
//! -----BEGIN SINEW NODE KEY-----
//! AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8w
//! -----END SINEW NODE KEY-----
//! ```
//!
//! | label | holds | secret |
//! |---|---|---|
//! | `SINEW NETWORK KEY` | [`crate::Authority`]: root key, next serial, revocations, successions | yes: offline, mode 0600 |
//! | `SINEW NODE KEY` | [`crate::Keys`]: static and signing key | yes: mode 0600 |
//! | `SINEW NETWORK` | [`crate::Network`]: first root public key, successions | no |
//! | `SINEW CERTIFICATE` | [`crate::Certificate`] | no |
//! | `SINEW CERTIFICATE REQUEST` | [`crate::Request`] | no |
//! | `SINEW REVOCATIONS` | [`crate::Revocations`] | no |
//!
//! Text around a block is ignored, so notes and several blocks can share a file.

use zeroize::Zeroizing;

/// Why a text has no readable block of the wanted kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArmourError {
    /// There is no block with this label.
    #[error("no `-----BEGIN {0}-----` block: this is not the file that is wanted here")]
    Missing(&'static str),
    /// The block has no end line.
    #[error("the {0} block has no end line: the file was cut short, copy it again")]
    Cut(&'static str),
    /// The block contains a character that is not base64, or its end is invalid.
    #[error("the {0} block is not base64: the file was damaged, copy it again")]
    NotBase64(&'static str),
    /// The bytes are not valid content for the label.
    #[error("the {label} block cannot be read ({reason}): damaged, or from another version")]
    Content {
        /// The content that the label names.
        label: &'static str,
        /// The error in the content.
        reason: wire::Malformed,
    },
}

/// Number of characters per line, as in PEM.
const LINE: usize = 64;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the text form of `bytes`. The text is wiped from memory when dropped, as it may hold a secret.
pub fn write(label: &'static str, bytes: &[u8]) -> Zeroizing<String> {
    // The buffer is allocated at its full size, so that no copy of a secret stays behind in an outgrown buffer.
    let characters = bytes.len().div_ceil(3) * 4;
    let room = characters + characters.div_ceil(LINE) + 2 * (label.len() + 20);
    let mut text = Zeroizing::new(String::with_capacity(room));
    text.push_str(&format!("-----BEGIN {label}-----\n"));
    for line in bytes.chunks(LINE / 4 * 3) {
        line.chunks(3).for_each(|three| encode(three, &mut text));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

/// Returns the bytes of the first block with this label.
pub fn read(label: &'static str, text: &str) -> Result<Zeroizing<Vec<u8>>, ArmourError> {
    let begin = format!("-----BEGIN {label}-----");
    let end = format!("-----END {label}-----");
    let (_, block) = text.split_once(&begin).ok_or(ArmourError::Missing(label))?;
    let (block, _) = block.split_once(&end).ok_or(ArmourError::Cut(label))?;
    decode(block).ok_or(ArmourError::NotBase64(label))
}

fn encode(three: &[u8], text: &mut String) {
    let byte = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
    let word = byte(0) << 16 | byte(1) << 8 | byte(2);
    for i in 0..4 {
        let six = (word >> (18 - 6 * i)) as usize & 63;
        text.push(if i <= three.len() {
            char::from(ALPHABET[six])
        } else {
            '='
        });
    }
}

fn decode(block: &str) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(block.len() / 4 * 3 + 3));
    let (mut word, mut bits, mut sextets, mut padding) = (0u32, 0, 0usize, 0usize);
    for c in block.bytes().filter(|c| !c.is_ascii_whitespace()) {
        if c == b'=' {
            padding += 1;
            continue;
        }
        if padding > 0 {
            return None;
        }
        word = word << 6 | value(c)?;
        bits += 6;
        sextets += 1;
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits) as u8);
            word &= (1 << bits) - 1;
        }
    }
    // Each value has only one valid form: whole groups of four, and no bits left over.
    let whole = (sextets + padding).is_multiple_of(4) && padding <= 2;
    (whole && word == 0).then_some(bytes)
}

fn value(c: u8) -> Option<u32> {
    Some(match c {
        b'A'..=b'Z' => u32::from(c - b'A'),
        b'a'..=b'z' => u32::from(c - b'a') + 26,
        b'0'..=b'9' => u32::from(c - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LABEL: &str = "SINEW TEST";

    fn body(text: &str) -> String {
        text.lines().filter(|l| !l.starts_with('-')).collect()
    }

    /// These are the vectors of RFC 4648 §10.
    #[test]
    fn the_standard_vectors() {
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, coded) in vectors {
            let text = write(LABEL, plain.as_bytes());
            assert_eq!(body(&text), coded);
            assert_eq!(read(LABEL, &text).unwrap().as_slice(), plain.as_bytes());
        }
    }

    #[test]
    fn what_is_not_a_block_says_what_to_do() {
        let read = |text: &str| read(LABEL, text).unwrap_err();
        assert_eq!(read("nothing"), ArmourError::Missing(LABEL));
        assert_eq!(
            read("-----BEGIN SINEW TEST-----\nZg==\n"),
            ArmourError::Cut(LABEL)
        );
        for bad in [
            "Z", "Zg", "Zg=", "Zg===", "Z===", "Zh==", "Zm9=", "Z!==", "Zg==Zg==",
        ] {
            let text = format!("-----BEGIN SINEW TEST-----\n{bad}\n-----END SINEW TEST-----");
            assert_eq!(read(&text), ArmourError::NotBase64(LABEL), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn bytes_survive_notes_around_them(bytes: Vec<u8>) {
            let text = format!("a note\r\n{}another", write(LABEL, &bytes).replace('\n', "\r\n"));
            let back = read(LABEL, &text).unwrap();
            prop_assert_eq!(back.as_slice(), bytes.as_slice());
        }
    }
}
