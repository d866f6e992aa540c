//! The speech that is sent, the speech that is heard, and how much worse that is.
//!
//! A phone starts and ends with silence, so that nothing is lost during the set-up of the call. What was heard is cut
//! to what was sent, segment by segment: the buffers of phones delay it, more after they were once empty.
//! [Amir06 §II-C] scores segments of 12 s.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use voice::SAMPLE_RATE_HZ;
use voice::g711::Law;
use voice::score::{RawPesq, Reference, SEGMENT_SAMPLES};

/// Silence before the speech, and after it.
const SILENCE: usize = SAMPLE_RATE_HZ as usize * 3 / 2;
/// The longest delay of heard speech: buffers, and the path.
const LATEST: usize = 3 * SAMPLE_RATE_HZ as usize;
/// The least resemblance that still counts as the same speech.
pub(crate) const RESEMBLES: f32 = 0.7;
/// Loudness is compared in pieces of 10 ms.
const STRETCH: usize = 80;

/// A piece of speech.
#[derive(Debug)]
pub(crate) struct Speech {
    pcm: Vec<i16>,
    reference: Reference,
}

impl Speech {
    /// Makes speech of this many segments of the repository's recording.
    pub(crate) fn of(segments: usize) -> Speech {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/speech.wav");
        let mut pcm = voice::wav::read_speech(&fs::read(path).unwrap())
            .unwrap()
            .pcm;
        assert!(pcm.len() >= segments * SEGMENT_SAMPLES);
        pcm.truncate(segments * SEGMENT_SAMPLES);
        let reference = Reference::new(&pcm).unwrap();
        Speech { pcm, reference }
    }

    /// Writes the file that a phone plays.
    pub(crate) fn write(&self, dir: &Path) -> PathBuf {
        let mut pcm = vec![0; SILENCE];
        pcm.extend(&self.pcm);
        pcm.resize(pcm.len() + SILENCE, 0);
        let path = dir.join("said.wav");
        fs::write(&path, voice::wav::write(&pcm)).unwrap();
        path
    }

    /// Returns the score that the codec alone leaves: no path can do better.
    pub(crate) fn ceiling(&self) -> RawPesq {
        let coded = self.pcm.iter();
        let coded = coded.map(|&sample| Law::Mu.decode(Law::Mu.encode(sample)));
        let coded: Vec<i16> = coded.collect();
        self.reference.score(&coded).raw_mean().unwrap()
    }

    /// Returns the quality of what was heard.
    pub(crate) fn score(&self, heard: &[i16]) -> RawPesq {
        let mut heard = heard.to_vec();
        heard.resize(heard.len().max(self.pcm.len() + LATEST), 0);
        let segments = self.reference.segments().collect::<Vec<_>>();
        let cut = segments.into_iter().flat_map(|said| {
            let at = self.find(&heard, &said);
            heard[at..at + said.len()].to_vec()
        });
        let cut: Vec<i16> = cut.collect();
        self.reference.score(&cut).raw_mean().unwrap()
    }

    /// Returns how much the loudness of what was heard follows what was sent, in pieces of three seconds: 1 for the
    /// same, 0 for silence. If a host pauses for half a second, the later speech is shifted and the score is bad, but
    /// the resemblance is not.
    pub(crate) fn resemblance(&self, heard: &[i16]) -> f32 {
        let (said, heard) = (loudness(&self.pcm), loudness(heard));
        let alike = |piece: &[f32], at: usize| correlation(piece, heard.get(at..).unwrap_or(&[]));
        let pieces = said.chunks_exact(3 * SAMPLE_RATE_HZ as usize / STRETCH);
        let best = pieces.clone().enumerate().map(|(i, piece)| {
            let lags = 0..=(SILENCE + LATEST) / STRETCH;
            let at = lags.map(|lag| alike(piece, i * piece.len() + lag));
            at.fold(0.0, f32::max)
        });
        best.sum::<f32>() / pieces.len() as f32
    }

    /// Finds where a segment begins in `heard`: first by loudness, then by the samples.
    fn find(&self, heard: &[i16], said: &Range<usize>) -> usize {
        let segment = &self.pcm[said.clone()];
        let (loud, heard_loud) = (loudness(segment), loudness(heard));
        let last = (heard.len() - segment.len()).min(said.start + SILENCE + LATEST);
        let lags = said.start / STRETCH..=last / STRETCH;
        let rough = best(lags, |lag| {
            product(&loud, heard_loud.get(lag..).unwrap_or(&[]))
        });
        let rough = rough * STRETCH;
        let near = rough.saturating_sub(4 * STRETCH)..=(rough + 4 * STRETCH).min(last);
        let samples: Vec<f32> = segment.iter().map(|&sample| sample.into()).collect();
        let heard: Vec<f32> = heard.iter().map(|&sample| sample.into()).collect();
        best(near, |lag| product(&samples, &heard[lag..]))
    }
}

/// Returns the lag with the greatest value of `of`.
fn best(lags: impl Iterator<Item = usize>, of: impl Fn(usize) -> f32) -> usize {
    let rated = lags.map(|lag| (of(lag), lag));
    rated.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap().1
}

fn product(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns how similar two curves are: 1 if one is a multiple of the other, 0 if one is empty.
fn correlation(a: &[f32], b: &[f32]) -> f32 {
    let Some(b) = b.get(..a.len()) else {
        return 0.0;
    };
    let centred = |of: &[f32]| {
        let mean = of.iter().sum::<f32>() / of.len() as f32;
        of.iter().map(|value| value - mean).collect::<Vec<_>>()
    };
    let (a, b) = (centred(a), centred(b));
    let most = (product(&a, &a) * product(&b, &b)).sqrt();
    if most > 0.0 {
        product(&a, &b) / most
    } else {
        0.0
    }
}

/// Returns the loudness of each piece, less the mean.
fn loudness(samples: &[i16]) -> Vec<f32> {
    let of = |stretch: &[i16]| stretch.iter().map(|&s| f32::from(s).abs()).sum::<f32>();
    let loud: Vec<f32> = samples.chunks_exact(STRETCH).map(of).collect();
    let mean = loud.iter().sum::<f32>() / loud.len() as f32;
    loud.iter().map(|loud| loud - mean).collect()
}

#[test]
fn what_is_heard_late_is_found() {
    let speech = Speech::of(1);
    let ceiling = speech.ceiling();
    assert!(ceiling.0 > 4.0, "{ceiling}");
    for late in [0, 1, 799, 12_345] {
        let mut heard = vec![0; late];
        heard.extend(&speech.pcm);
        assert!(speech.score(&heard).0 > ceiling.0 - 0.01, "{late} samples");
    }
}

#[test]
fn speech_resembles_itself_where_a_part_is_moved_or_lost_and_nothing_else_does() {
    let speech = Speech::of(1);
    let late = |at: usize, by: usize| {
        let mut heard = speech.pcm.clone();
        heard.splice(at..at, std::iter::repeat_n(0, by));
        heard
    };
    assert!(speech.resemblance(&late(0, 12_345)) > 0.95);
    // A pause of 300 ms in the middle of twelve seconds.
    assert!(speech.resemblance(&late(SEGMENT_SAMPLES / 2 + 12_000, 2_400)) > RESEMBLES);
    let mut half = late(0, 12_000);
    half.truncate(12_000 + SEGMENT_SAMPLES / 2);
    let backwards: Vec<i16> = speech.pcm.iter().rev().copied().collect();
    for other in [vec![], vec![0; SEGMENT_SAMPLES], half, backwards] {
        assert!(speech.resemblance(&other) < RESEMBLES);
    }
}
