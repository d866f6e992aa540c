//! Fuzz targets of `voice`.

use voice::g711::Law;

use crate::Target;

pub(crate) const TARGETS: &[Target] = &[("voice_g711", g711), ("voice_wav", wav)];

/// Any bytes are G.711; what was decoded survives a second trip unchanged.
fn g711(data: &[u8]) {
    for law in [Law::A, Law::Mu] {
        let pcm = law.decode_all(data);
        assert_eq!(pcm.len(), data.len());
        assert_eq!(law.decode_all(&law.encode_all(&pcm)), pcm);
    }
}

/// Any bytes are refused with an error, or are speech within the limits.
fn wav(data: &[u8]) {
    if let Ok(speech) = voice::wav::read_speech(data) {
        assert!(speech.pcm.len() <= 600 * 8_000 + 8_000);
        let again = voice::wav::read_speech(&voice::wav::write(&speech.pcm));
        assert_eq!(again.is_ok(), !speech.pcm.is_empty());
    }
}
