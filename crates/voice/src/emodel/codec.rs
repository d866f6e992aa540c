//! The parameters of a codec that the E-model needs: Ie, Bpl, and the delay that the codec adds.

use super::Parameters;

/// A codec of telephone calls, with its concealment of lost packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// G.711 µ-law with the concealment of its Appendix I.
    Pcmu,
    /// G.711 A-law with the concealment of its Appendix I.
    Pcma,
    /// G.722. Choice: rated as G.711. It is better, but this is the narrowband scale, which ends
    /// at G.711; the wideband scale of G.107.1 goes to R = 129 and cannot be compared with it.
    G722,
    /// G.723.1 at 6.3 kbit/s with silence suppression.
    G723,
    /// G.729 Annex A with silence suppression (Annex B).
    G729,
    /// Opus at 24 kbit/s and more, without forward error correction. Choice: rated as G.711 with concealment. ITU-T has
    /// no values for Opus; the reason is the same as for G.722, and this crate assumes that its concealment is no
    /// better than that of G.711 Appendix I.
    Opus,
}

impl Codec {
    /// Returns the codec with the name of an `a=rtpmap` line.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        const NAMES: [(&str, Codec); 6] = [
            ("PCMU", Codec::Pcmu),
            ("PCMA", Codec::Pcma),
            ("G722", Codec::G722),
            ("G723", Codec::G723),
            ("G729", Codec::G729),
            ("opus", Codec::Opus),
        ];
        let same = |(known, _): &&(&str, Codec)| known.eq_ignore_ascii_case(name);
        NAMES.iter().find(same).map(|(_, codec)| *codec)
    }

    /// Returns Ie and Bpl of ITU-T G.113 Appendix I, except for the choices above.
    #[must_use]
    pub fn impairment(self) -> (f64, f64) {
        match self {
            Codec::Pcmu | Codec::Pcma | Codec::G722 | Codec::Opus => (0.0, 25.1),
            Codec::G723 => (15.0, 16.1),
            Codec::G729 => (11.0, 19.0),
        }
    }

    /// Returns the delay of the codec itself, in addition to filling a packet: lookahead, filters, or concealment that
    /// holds samples back.
    #[must_use]
    pub fn lookahead_us(self) -> u64 {
        match self {
            Codec::Pcmu | Codec::Pcma => 3_750,
            Codec::G722 => 1_625,
            Codec::G723 => 7_500,
            Codec::G729 => 5_000,
            Codec::Opus => 6_500,
        }
    }
}

impl Parameters {
    /// Returns the parameters of a packet call with this codec; otherwise as [`Parameters::for_call`].
    #[must_use]
    pub fn for_codec(codec: Codec, delay_us: u64, missed: f64, burst_ratio: f64) -> Self {
        let (equipment_impairment, loss_robustness) = codec.impairment();
        Self {
            equipment_impairment,
            loss_robustness,
            ..Self::for_call(delay_us, missed, burst_ratio, super::Concealment::AppendixI)
        }
    }
}
