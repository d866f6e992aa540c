//! The size and the RTP header of a call's packets, by codec.
//!
//! | codec | payload type | bytes in 20 ms | RTP clock |
//! |---|---|---|---|
//! | PCMU | 0 | 160 | 8000 Hz |
//! | PCMA | 8 | 160 | 8000 Hz |
//! | Opus, 24 kbit/s | 111 | 60 | 48000 Hz |
//!
//! Payload types are those of RFC 3551. Opus has no type assigned there; most phones use 111.

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

/// All codecs.
pub const CODECS: [Codec; 3] = [Codec::Pcmu, Codec::Pcma, Codec::Opus];

impl Codec {
    /// Returns the name as it is written on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Codec::Pcmu => "pcmu",
            Codec::Pcma => "pcma",
            Codec::Opus => "opus",
        }
    }

    /// Returns the payload bytes of 20 ms.
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

    /// Returns the difference between the timestamps of two consecutive packets.
    pub(crate) const fn step(self) -> u32 {
        match self {
            Codec::Pcmu | Codec::Pcma => FRAME_SAMPLES as u32,
            Codec::Opus => 960,
        }
    }

    /// Returns the corresponding codec of the E-model.
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
