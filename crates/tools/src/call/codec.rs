//! What the packets of a call look like, by its codec.
//!
//! | codec | payload type | bytes in 20 ms | RTP clock |
//! |---|---|---|---|
//! | PCMU | 0 | 160 | 8000 Hz |
//! | PCMA | 8 | 160 | 8000 Hz |
//! | Opus, 24 kbit/s | 111 | 60 | 48000 Hz |
//!
//! Payload types are those of RFC 3551; Opus has none of its own, and 111 is what most phones take.

use core::fmt;
use core::str::FromStr;
use voice::emodel;
use voice::frames::FRAME_SAMPLES;

/// A codec, always in packets of 20 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codec {
    /// G.711 µ-law.
    #[default]
    Pcmu,
    /// G.711 A-law.
    Pcma,
    /// Opus at 24 kbit/s.
    Opus,
}

/// All of them.
pub const CODECS: [Codec; 3] = [Codec::Pcmu, Codec::Pcma, Codec::Opus];

impl Codec {
    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Codec::Pcmu => "pcmu",
            Codec::Pcma => "pcma",
            Codec::Opus => "opus",
        }
    }

    /// Bytes of 20 ms.
    pub(crate) const fn payload_bytes(self) -> usize {
        match self {
            Codec::Pcmu | Codec::Pcma => FRAME_SAMPLES,
            // 24 000 bit/s × 0.02 s / 8.
            Codec::Opus => 60,
        }
    }

    pub(crate) const fn payload_type(self) -> u8 {
        match self {
            Codec::Pcmu => 0,
            Codec::Pcma => 8,
            Codec::Opus => 111,
        }
    }

    /// From one packet's timestamp to the next one's.
    pub(crate) const fn step(self) -> u32 {
        match self {
            Codec::Pcmu | Codec::Pcma => FRAME_SAMPLES as u32,
            Codec::Opus => 960,
        }
    }

    /// As the E-model knows it.
    pub(crate) const fn rated_as(self) -> emodel::Codec {
        match self {
            Codec::Pcmu => emodel::Codec::Pcmu,
            Codec::Pcma => emodel::Codec::Pcma,
            Codec::Opus => emodel::Codec::Opus,
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Codec {
    type Err = String;

    fn from_str(text: &str) -> Result<Codec, String> {
        let found = CODECS
            .iter()
            .find(|codec| codec.name().eq_ignore_ascii_case(text));
        found
            .copied()
            .ok_or_else(|| format!("`{text}` is not one of pcmu, pcma, opus"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for codec in CODECS {
            assert_eq!(codec.to_string().to_uppercase().parse(), Ok(codec));
        }
        assert!("g729".parse::<Codec>().is_err());
    }
}
