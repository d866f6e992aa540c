//! ITU-T G.711: 8-bit companded samples, µ-law and A-law.
//!
//! Both laws approximate a logarithm by eight segments per sign. Each segment has 16 equal steps and is twice as wide
//! as the one before it:
//!
//! ```text
//!  bit   7      6 5 4      3 2 1 0
//!      +------+----------+-----------+   µ-law: all bits inverted on the line
//!      | sign | segment  |   step    |   A-law: even bits inverted (xor 0x55)
//!      +------+----------+-----------+
//! ```
//!
//! Linear samples are 16 bits wide here. G.711 uses 14 bits (µ-law) and 13 bits (A-law): the lowest 2 or 3 bits of a
//! sample do not take part in the decision.
//!
//! Choice: the magnitude of a negative sample is its one's complement, as in the ITU's own software library (G.191), so
//! that the two signs quantise as mirror images and −1 becomes zero. The often copied alternative shifts the two's
//! complement first and turns −1 into −8.

/// Which of the two companding laws a call uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Law {
    /// µ-law, RTP payload type 0 (PCMU): North America and Japan.
    #[default]
    Mu,
    /// A-law, RTP payload type 8 (PCMA): the rest of the world.
    A,
}

impl Law {
    /// Encodes one linear sample.
    #[must_use]
    pub fn encode(self, sample: i16) -> u8 {
        match self {
            Law::Mu => mu_encode(sample),
            Law::A => a_encode(sample),
        }
    }

    /// Decodes one code word to a 16-bit linear sample.
    #[must_use]
    pub fn decode(self, code: u8) -> i16 {
        match self {
            Law::Mu => MU_DECODE[usize::from(code)],
            Law::A => A_DECODE[usize::from(code)],
        }
    }

    /// Encodes a run of samples.
    #[must_use]
    pub fn encode_all(self, samples: &[i16]) -> Vec<u8> {
        samples.iter().map(|&sample| self.encode(sample)).collect()
    }

    /// Decodes a run of code words.
    #[must_use]
    pub fn decode_all(self, codes: &[u8]) -> Vec<i16> {
        codes.iter().map(|&code| self.decode(code)).collect()
    }

    /// Returns the static RTP payload type of the law (RFC 3551 §6).
    #[must_use]
    pub fn payload_type(self) -> u8 {
        match self {
            Law::Mu => 0,
            Law::A => 8,
        }
    }

    /// Returns the encoding's name in SDP (RFC 3551 §6).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Law::Mu => "PCMU",
            Law::A => "PCMA",
        }
    }
}

/// µ-law adds 33 (in 14-bit units) so that every segment starts at a power of two.
const MU_BIAS: i32 = 33;
/// The largest biased magnitude that a code word can express.
const MU_MAX: i32 = 0x1fff;

const fn mu_encode(sample: i16) -> u8 {
    let sample = sample as i32;
    let magnitude = if sample < 0 { !sample } else { sample } >> 2;
    let biased = if magnitude + MU_BIAS > MU_MAX {
        MU_MAX
    } else {
        magnitude + MU_BIAS
    };
    // The biased magnitude has 6 to 13 significant bits; the segment is that number minus 6.
    let segment = 32 - 6 - biased.leading_zeros() as i32;
    let step = (biased >> (segment + 1)) & 0x0f;
    let sign = if sample < 0 { 0x80 } else { 0 };
    !((sign | (segment << 4) | step) as u8)
}

const fn mu_decode(code: u8) -> i16 {
    let bits = !code as i32;
    let (segment, step) = ((bits >> 4) & 7, bits & 0x0f);
    // The value is the middle of the step, minus the bias, in 16-bit units.
    let magnitude = ((((2 * step + 33) << segment) - MU_BIAS) << 2) as i16;
    if bits & 0x80 != 0 {
        -magnitude
    } else {
        magnitude
    }
}

/// On the line every even bit is inverted, so that silence is not a run of zeros.
const A_TOGGLE: u8 = 0x55;

const fn a_encode(sample: i16) -> u8 {
    let sample = sample as i32;
    // The magnitude has 11 bits: the lowest step of the first two segments is 16 units of a 16-bit sample.
    let magnitude = if sample < 0 { !sample } else { sample } >> 4;
    let bits = if magnitude < 32 {
        // Segments 0 and 1 share one step width.
        magnitude
    } else {
        let segment = 32 - 4 - magnitude.leading_zeros() as i32;
        (segment << 4) | ((magnitude >> (segment - 1)) & 0x0f)
    };
    let sign = if sample < 0 { 0 } else { 0x80 };
    (sign | bits) as u8 ^ A_TOGGLE
}

const fn a_decode(code: u8) -> i16 {
    let bits = (code ^ A_TOGGLE) as i32;
    let (segment, step) = ((bits >> 4) & 7, bits & 0x0f);
    let magnitude = if segment == 0 {
        (step << 4) + 8
    } else {
        ((step << 4) + 0x108) << (segment - 1)
    } as i16;
    if bits & 0x80 != 0 {
        magnitude
    } else {
        -magnitude
    }
}

static MU_DECODE: [i16; 256] = decode_table(Law::Mu);
static A_DECODE: [i16; 256] = decode_table(Law::A);

const fn decode_table(law: Law) -> [i16; 256] {
    let mut table = [0; 256];
    let mut code = 0;
    while code < 256 {
        table[code] = match law {
            Law::Mu => mu_decode(code as u8),
            Law::A => a_decode(code as u8),
        };
        code += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G.711 table 2a: first code word of each segment (positive), its lower decision value and
    /// its quantised value, both in the table's 14-bit units.
    const MU_TABLE: [(u8, i32, i32); 8] = [
        (0xff, 0, 0),
        (0xef, 31, 33),
        (0xdf, 95, 99),
        (0xcf, 223, 231),
        (0xbf, 479, 495),
        (0xaf, 991, 1023),
        (0x9f, 2015, 2079),
        (0x8f, 4063, 4191),
    ];

    /// G.711 table 1a: first code word of each segment (positive, with the even bits inverted as
    /// on the line), lower decision value and quantised value, in the table's 12-bit units.
    const A_TABLE: [(u8, i32, i32); 8] = [
        (0xd5, 0, 1),
        (0xc5, 32, 33),
        (0xf5, 64, 66),
        (0xe5, 128, 132),
        (0x95, 256, 264),
        (0x85, 512, 528),
        (0xb5, 1024, 1056),
        (0xa5, 2048, 2112),
    ];

    #[test]
    fn mu_law_follows_the_table_of_the_recommendation() {
        for (code, decision, value) in MU_TABLE {
            assert_eq!(i32::from(Law::Mu.decode(code)), value * 4, "{code:#04x}");
            assert_eq!(
                i32::from(Law::Mu.decode(code & 0x7f)),
                -value * 4,
                "{code:#04x}"
            );
            assert_eq!(Law::Mu.encode((decision * 4) as i16), code);
            if decision > 0 {
                assert_eq!(Law::Mu.encode((decision * 4 - 1) as i16), code + 1);
            }
        }
        // At the ends of the scale, the table has 8031, and everything beyond 8159 clips to it.
        assert_eq!(Law::Mu.decode(0x80), 8031 * 4);
        assert_eq!(Law::Mu.encode(i16::MAX), 0x80);
        assert_eq!(Law::Mu.encode(i16::MIN), 0x00);
        assert_eq!(Law::Mu.decode(0x00), -8031 * 4);
    }

    #[test]
    fn a_law_follows_the_table_of_the_recommendation() {
        for (code, decision, value) in A_TABLE {
            assert_eq!(i32::from(Law::A.decode(code)), value * 8, "{code:#04x}");
            assert_eq!(
                i32::from(Law::A.decode(code & 0x7f)),
                -value * 8,
                "{code:#04x}"
            );
            assert_eq!(Law::A.encode((decision * 8) as i16), code);
            if decision > 0 {
                let below = Law::A.encode((decision * 8 - 1) as i16);
                assert_eq!(below ^ A_TOGGLE, (code ^ A_TOGGLE) - 1);
            }
        }
        assert_eq!(Law::A.decode(0xaa), 4032 * 8);
        assert_eq!(Law::A.encode(i16::MAX), 0xaa);
        assert_eq!(Law::A.encode(i16::MIN), 0x2a);
    }

    #[test]
    fn golden_vectors() {
        // 14-bit decision values are odd: 100 is one of them, and its mirror image is −101.
        let samples = [
            0, 8, -8, 100, -101, 1000, -1000, 10_000, -10_000, 32_767, -32_768,
        ];
        let mu = [
            0xff, 0xfe, 0x7e, 0xf2, 0x72, 0xce, 0x4e, 0x9c, 0x1c, 0x80, 0x00,
        ];
        let a = [
            0xd5, 0xd5, 0x55, 0xd3, 0x53, 0xfa, 0x7a, 0xb6, 0x36, 0xaa, 0x2a,
        ];
        assert_eq!(Law::Mu.encode_all(&samples), mu);
        assert_eq!(Law::A.encode_all(&samples), a);
    }

    #[test]
    fn every_code_word_survives_decoding_and_encoding() {
        for law in [Law::Mu, Law::A] {
            for code in 0..=u8::MAX {
                // µ-law has two zeros; the negative one decodes to plain zero.
                let expected = if law == Law::Mu && code == 0x7f {
                    0xff
                } else {
                    code
                };
                assert_eq!(
                    law.encode(law.decode(code)),
                    expected,
                    "{law:?} {code:#04x}"
                );
            }
        }
    }

    #[test]
    fn signs_are_mirror_images_and_the_error_is_at_most_half_a_step() {
        for law in [Law::Mu, Law::A] {
            for sample in 0..=i16::MAX {
                let code = law.encode(sample);
                assert_eq!(law.encode(!sample), code & 0x7f);
                let error = (i32::from(law.decode(code)) - i32::from(sample)).abs();
                // A step is at most 1/16 of the segment's start; the first steps are 8 and 16 wide, and the last µ-law
                // step also contains the clipped samples (32 767 − 32 124).
                let bound = (i32::from(sample) + 132) / 32 + 4;
                assert!(
                    error <= bound.max(8) || sample > 32_635,
                    "{law:?} {sample}: {error}"
                );
            }
        }
    }
}
