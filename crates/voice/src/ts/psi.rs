//! Tables of a transport stream (ISO/IEC 13818-1, 2.4.4): this module assembles sections from packets, and reads them.

/// Largest section: its length has 12 bits, and three bytes precede it.
const SECTION_BYTES_MAX: usize = 4_096 + 3;
/// Bytes of the header of a section of the long form. The checksum follows the section.
const HEADER_BYTES: usize = 8;
const CRC_BYTES: usize = 4;

/// Assembles the sections of one stream.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    bytes: Vec<u8>,
    /// Whether a section has begun, and all its bytes so far are present.
    has_begun: bool,
}

impl Assembler {
    /// Discards the section that has begun: a packet was lost, so it cannot be completed.
    pub(super) fn lose(&mut self) {
        self.bytes.clear();
        self.has_begun = false;
    }

    /// Adds the payload of a packet; `starts` tells whether a section begins in it. Returns the sections that are
    /// complete now.
    pub(super) fn push(&mut self, payload: &[u8], starts: bool) -> Vec<Vec<u8>> {
        let mut whole = Vec::new();
        if !starts {
            if self.has_begun {
                self.bytes.extend_from_slice(payload);
                self.take(&mut whole);
            }
            return whole;
        }
        // A pointer gives the position of the first new section; the previous one ends before it.
        let [pointer, rest @ ..] = payload else {
            return whole;
        };
        let Some((end, begin)) = rest.split_at_checked(usize::from(*pointer)) else {
            self.lose();
            return whole;
        };
        if self.has_begun {
            self.bytes.extend_from_slice(end);
            self.take(&mut whole);
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(begin);
        self.has_begun = true;
        self.take(&mut whole);
        whole
    }

    /// Takes the complete sections from the front.
    fn take(&mut self, whole: &mut Vec<Vec<u8>>) {
        const STUFFING: u8 = 0xff;
        while let [table, high, low, ..] = self.bytes[..] {
            if table == STUFFING {
                return self.lose();
            }
            let len = 3 + usize::from(u16::from_be_bytes([high & 0x0f, low]));
            if self.bytes.len() < len {
                break;
            }
            whole.push(self.bytes.drain(..len).collect());
        }
        if self.bytes.len() > SECTION_BYTES_MAX {
            self.lose();
        }
    }
}

/// A section of the long form with a correct checksum.
#[derive(Debug)]
pub(super) struct Section<'a> {
    bytes: &'a [u8],
}

impl<'a> Section<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Section<'a>> {
        let is_right = bytes.len() >= HEADER_BYTES + CRC_BYTES && crc(bytes) == 0;
        is_right.then_some(Section { bytes })
    }

    /// Returns whether the table consists of this section alone.
    pub(super) fn is_whole(&self) -> bool {
        self.bytes[6] == 0 && self.bytes[7] == 0
    }

    fn body(&self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES..self.bytes.len() - CRC_BYTES]
    }

    /// For a program association table: returns the streams of the programs' maps. Number 0 is no program.
    pub(super) fn programs(&self) -> impl Iterator<Item = u16> + 'a {
        let (entries, _) = self.body().as_chunks::<4>();
        let programs = entries.iter().filter(|entry| entry[..2] != [0, 0]);
        programs.map(|entry| u16::from_be_bytes([entry[2] & 0x1f, entry[3]]))
    }

    /// For a program map table: returns the streams of the program.
    pub(super) fn streams(&self) -> impl Iterator<Item = u16> + 'a {
        let length = |at: &[u8]| match at {
            [high, low, ..] => usize::from(u16::from_be_bytes([high & 0x0f, *low])),
            _ => 0,
        };
        let body = self.body();
        let described = body.get(2..).map_or(0, length);
        let mut rest = body.get(4 + described..).unwrap_or_default();
        core::iter::from_fn(move || {
            let (&[_, high, low, ref more @ ..], tail) = rest.split_first_chunk::<5>()?;
            rest = tail.get(length(more)..).unwrap_or_default();
            Some(u16::from_be_bytes([high & 0x1f, low]))
        })
    }
}

/// Returns the checksum of tables (ISO/IEC 13818-1, annex A). It is 0 over a section including its own checksum.
pub(super) fn crc(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x04c1_1db7;
    bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 24, |crc, _| {
            let carry = crc & 0x8000_0000 != 0;
            crc << 1 ^ if carry { POLYNOMIAL } else { 0 }
        })
    })
}
