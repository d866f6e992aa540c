//! A file of frozen bytes: a line for each value, `name: hex`.
//!
//! The present encoding of a value must equal the line in the file, and the line must be decoded as that value. A value
//! of a new format has no line yet: the test fails with the lines to add. Existing lines never change. Only transcripts
//! of handshakes may be recorded again, as the test of `secure` says.

use std::fmt::Write as _;

/// Advice for a difference.
const ADVICE: &str = "This format has been released, and nodes use it: it does not change. Add a new version, option or \
kind beside it, as \"How formats change\" in docs/wire.md says, and leave these bytes as they are. Only a transcript of \
a handshake may be recorded anew, if nothing but the order of random numbers has changed";

pub(crate) struct Fixtures {
    format: &'static str,
    lines: Vec<(&'static str, Vec<u8>)>,
    /// Number of the lines for which there is a value.
    held: usize,
    /// The lines for values that have none.
    missing: String,
}

/// Opens the file of a format, in the crate whose test this is.
macro_rules! open {
    ($format:literal) => {
        $crate::fixture::Fixtures::of(
            $format,
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/fixtures/v1/",
                $format,
                ".txt"
            )),
        )
    };
}
pub(crate) use open;

impl Fixtures {
    pub(crate) fn of(format: &'static str, text: &'static str) -> Fixtures {
        let lines = text.lines().map(|line| {
            let (name, hex) = line.split_once(": ").unwrap();
            (name, bytes_of(hex))
        });
        Fixtures {
            format,
            lines: lines.collect(),
            held: 0,
            missing: String::new(),
        }
    }

    /// Checks a value. `written` is its present encoding. `read` decodes the bytes that it gets, and asserts that the
    /// result is the same value.
    pub(crate) fn hold(&mut self, name: &str, written: &[u8], read: impl FnOnce(&[u8])) {
        let Some((_, frozen)) = self.lines.iter().find(|(line, _)| *line == name) else {
            writeln!(self.missing, "{name}: {}", hex_of(written)).unwrap();
            return;
        };
        assert_eq!(
            hex_of(written),
            hex_of(frozen),
            "`{name}` of {} is written otherwise than it was. {ADVICE}",
            self.format
        );
        read(frozen);
        self.held += 1;
    }

    /// Returns the bytes of one line.
    #[allow(dead_code, reason = "each test program uses a part of it")]
    pub(crate) fn line(&self, name: &str) -> Vec<u8> {
        let line = self.lines.iter().find(|(line, _)| *line == name);
        line.unwrap().1.clone()
    }

    /// Checks that all values have lines, and that there are no other lines.
    pub(crate) fn end(self) {
        let Fixtures {
            format, missing, ..
        } = &self;
        assert!(
            missing.is_empty(),
            "{format}.txt has no lines for these values. If they are new, add:\n{missing}\nOtherwise: {ADVICE}"
        );
        assert_eq!(
            self.held,
            self.lines.len(),
            "{format}.txt has lines that no value belongs to. {ADVICE}"
        );
    }
}

fn hex_of(bytes: &[u8]) -> String {
    let mut hex = String::new();
    for byte in bytes {
        write!(hex, "{byte:02x}").unwrap();
    }
    hex
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().as_chunks::<2>().0;
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.iter().map(byte).collect()
}
