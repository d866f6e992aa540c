//! Fuzz targets of `voice`.

use voice::g711::Law;

use crate::Target;

pub(crate) const TARGETS: &[Target] = &[("voice_g711", g711)];

/// Any bytes are G.711; what was decoded survives a second trip unchanged.
fn g711(data: &[u8]) {
    for law in [Law::A, Law::Mu] {
        let pcm = law.decode_all(data);
        assert_eq!(pcm.len(), data.len());
        assert_eq!(law.decode_all(&law.encode_all(&pcm)), pcm);
    }
}
