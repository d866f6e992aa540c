//! Packets of speech: 20 ms, 160 samples, 50 per second. [Amir06 §II-A]

use crate::g711::Law;

/// Number of samples of one packet, which is also its number of bytes under G.711.
pub const FRAME_SAMPLES: usize = 160;
/// Duration of one packet.
pub const FRAME_US: u64 = 20_000;

/// Returns the number of packets that carry `samples` samples; the last may be partly silence.
#[must_use]
pub fn count(samples: usize) -> usize {
    samples.div_ceil(FRAME_SAMPLES)
}

/// Cuts speech into the samples of each packet; the last packet is filled up with silence.
pub fn split(pcm: &[i16]) -> impl ExactSizeIterator<Item = [i16; FRAME_SAMPLES]> + '_ {
    pcm.chunks(FRAME_SAMPLES).map(|chunk| {
        let mut frame = [0; FRAME_SAMPLES];
        frame[..chunk.len()].copy_from_slice(chunk);
        frame
    })
}

/// Cuts speech into packets and encodes them. Returns the payloads of a call.
#[must_use]
pub fn encode(law: Law, pcm: &[i16]) -> Vec<[u8; FRAME_SAMPLES]> {
    split(pcm)
        .map(|frame| frame.map(|sample| law.encode(sample)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_frame_is_filled_up_with_silence() {
        let pcm: Vec<i16> = (1..=330).collect();
        let frames: Vec<_> = split(&pcm).collect();
        assert_eq!(frames.len(), 3);
        assert_eq!(frames.len(), count(pcm.len()));
        assert_eq!(frames[1][0], 161);
        assert_eq!(frames[2][9], 330);
        assert!(frames[2][10..].iter().all(|&s| s == 0));
        assert_eq!(split(&[]).len(), 0);
        assert_eq!(count(0), 0);
    }

    #[test]
    fn a_packet_of_silence_is_all_ones_under_mu_law() {
        assert_eq!(encode(Law::Mu, &[0; 160]), [[0xff; 160]]);
        assert_eq!(encode(Law::A, &[0; 160]), [[0xd5; 160]]);
    }
}
