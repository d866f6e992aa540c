//! The speech for the scores of figures 1, 2, 9 and 10: a recording if one is named, else the people recorded for
//! Asterisk if Debian's package is installed, else the shipped sample.

use crate::experiment::{CellError, Plan, Size};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use voice::SAMPLE_RATE_HZ;
use voice::call::Original;
use voice::g711::Law;
use voice::score::SEGMENT_SAMPLES;
use voice::wav;

/// The folder of the recordings in Debian's asterisk-core-sounds-en-wav: short messages, one woman.
const RECORDINGS: &str = "/usr/share/asterisk/sounds/en_US_f_Allison";
/// The beginnings of the names of recordings there that do not contain speech.
const NOT_SPEECH: [&str; 5] = [
    "ascending",
    "beep",
    "descending",
    "tt-monkeys.",
    "tt-weasels.",
];
/// Pause between two recordings. Choice: as between two phrases.
const PAUSE_SAMPLES: usize = SAMPLE_RATE_HZ as usize / 5;
/// Longest file that is read: half an hour of stereo at 48 kHz and 16 bits.
const FILE_BYTES_MAX: u64 = 400 << 20;
/// Seconds of speech that are scored together.
pub(super) const SECONDS_PER_SEGMENT: f64 = (SEGMENT_SAMPLES / SAMPLE_RATE_HZ as usize) as f64;

/// The source of the speech.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The named file.
    File,
    /// People recorded for Asterisk.
    Recorded,
    /// The synthetic voices that ship with the product.
    Sample,
}

/// Speech that is ready for scoring.
pub(super) struct Speech {
    pub(super) source: Source,
    pub(super) original: Original,
}

impl Source {
    /// Returns the source as a number for a row.
    pub(super) fn code(self) -> f64 {
        match self {
            Source::File => 0.0,
            Source::Recorded => 1.0,
            Source::Sample => 2.0,
        }
    }

    /// Returns the meaning of a row's number in words.
    pub(super) fn words(code: f64) -> &'static str {
        match code {
            0.0 => "the recording that was named",
            1.0 => "recorded human speech (asterisk-core-sounds-en-wav)",
            _ => "the shipped synthetic sample, since asterisk-core-sounds-en-wav is not installed",
        }
    }
}

/// Returns the seconds of speech per call: five minutes as in the paper, or one.
pub(super) fn seconds(size: Size) -> u32 {
    match size {
        Size::Quick => 60,
        Size::Full => 300,
    }
}

/// The speech that was prepared last: preparing five minutes takes seconds, and all cells use the same.
type Prepared = Option<((Option<PathBuf>, u32), Arc<Speech>)>;
static PREPARED: Mutex<Prepared> = Mutex::new(None);

/// Returns the speech of a run.
///
/// # Errors
/// Fails if the named recording cannot be scored.
pub(super) fn prepared(plan: &Plan) -> Result<Arc<Speech>, CellError> {
    let key = (plan.speech.clone(), seconds(plan.size));
    // A panic leaves no incomplete state here: an existing entry is complete.
    let mut prepared = PREPARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((known, speech)) = &*prepared
        && *known == key
    {
        return Ok(speech.clone());
    }
    let speech = Arc::new(load(plan.speech.as_deref(), seconds(plan.size))?);
    *prepared = Some((key, speech.clone()));
    Ok(speech)
}

fn load(named: Option<&Path>, seconds: u32) -> Result<Speech, CellError> {
    let samples = (seconds * SAMPLE_RATE_HZ) as usize;
    let (source, recording) = match named {
        Some(path) => (Source::File, read(path)?),
        None => match recordings(Path::new(RECORDINGS), samples) {
            Some(recording) => (Source::Recorded, recording),
            None => (Source::Sample, voice::sample::speech()),
        },
    };
    if recording.len() < SEGMENT_SAMPLES {
        let path = named.unwrap_or(Path::new(RECORDINGS)).display();
        let has = recording.len() as f64 / f64::from(SAMPLE_RATE_HZ);
        return Err(CellError(format!(
            "{path}: {has:.1} s of speech are less than one scored interval of \
             {SECONDS_PER_SEGMENT} s: use a longer recording"
        )));
    }
    // The speech consists of whole intervals of the recording, repeated or cut.
    let whole = recording.len() - recording.len() % SEGMENT_SAMPLES;
    let pcm: Vec<i16> = recording[..whole]
        .iter()
        .copied()
        .cycle()
        .take(samples)
        .collect();
    let original = Original::new(&pcm, Law::Mu).map_err(|error| CellError(error.to_string()))?;
    Ok(Speech { source, original })
}

fn read(path: &Path) -> Result<Vec<i16>, CellError> {
    let failed = |why: String| CellError(format!("{}: {why}", path.display()));
    let bytes = bytes_of(path).map_err(|error| failed(error.to_string()))?;
    let speech = wav::read_speech(&bytes).map_err(|error| failed(error.to_string()))?;
    Ok(speech.pcm)
}

/// Reads a named recording's file, which must not be too long.
pub(in crate::experiment) fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
        let mib = FILE_BYTES_MAX >> 20;
        let why = format!("not a file of up to {mib} MiB: name a WAV file of talking people");
        return Err(io::Error::other(why));
    }
    fs::read(path)
}

/// Returns the recordings of a folder in the order of their names, one after the other, up to `samples`; `None` if the
/// folder has fewer.
fn recordings(folder: &Path, samples: usize) -> Option<Vec<i16>> {
    let entries = fs::read_dir(folder).ok()?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".wav"))
        .filter(|name| !NOT_SPEECH.iter().any(|other| name.starts_with(other)))
        .collect();
    names.sort();
    let mut pcm = Vec::with_capacity(samples);
    for name in names {
        // An unreadable file is treated as missing.
        if let Ok(recording) = read(&folder.join(name)) {
            pcm.extend(recording);
            pcm.extend([0; PAUSE_SAMPLES]);
        }
        if pcm.len() >= samples {
            pcm.truncate(samples);
            return Some(pcm);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Scratch;

    fn wav_of(samples: usize) -> Vec<u8> {
        let speech = voice::sample::speech();
        wav::write(
            &speech
                .iter()
                .copied()
                .cycle()
                .take(samples)
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn what_is_too_short_or_no_speech_is_refused() {
        let scratch = Scratch::new("lab-speech").unwrap();
        let path = scratch.path().join("short.wav");
        for (bytes, why) in [
            (
                wav_of(16_000),
                "2.0 s of speech are less than one scored interval of 12 s",
            ),
            (wav_of(100), "less than one scored interval"),
            (wav::write(&vec![0; 200_000]), "silent"),
            (b"RIFF".to_vec(), "not a WAV file"),
            (Vec::new(), "not a WAV file"),
        ] {
            fs::write(&path, bytes).unwrap();
            let error = load(Some(&path), 12).err().unwrap().to_string();
            assert!(
                error.contains(why) && error.contains("short.wav"),
                "{error}"
            );
        }
        for path in [scratch.path().to_owned(), scratch.path().join("none.wav")] {
            assert!(load(Some(&path), 12).is_err());
        }
    }

    #[test]
    fn recordings_follow_each_other_by_name() {
        let scratch = Scratch::new("lab-recordings").unwrap();
        for name in ["b.wav", "a.wav", "beep.wav"] {
            fs::write(scratch.path().join(name), wav_of(8_000)).unwrap();
        }
        fs::write(scratch.path().join("aa.wav"), b"no recording").unwrap();
        let together = recordings(scratch.path(), 17_000).unwrap();
        assert_eq!(together.len(), 17_000);
        let spoken = |from: usize| &together[from..from + 6_000];
        assert_eq!(spoken(0), spoken(8_000 + PAUSE_SAMPLES));
        assert!(
            recordings(scratch.path(), 30_000).is_none(),
            "there is not enough"
        );
    }

    #[test]
    fn a_recording_is_repeated_in_whole_intervals() {
        let scratch = Scratch::new("lab-repeated").unwrap();
        let path = scratch.path().join("speech.wav");
        fs::write(&path, wav_of(SEGMENT_SAMPLES + 4_000)).unwrap();
        let speech = load(Some(&path), 24).unwrap();
        assert_eq!(speech.source, Source::File);
        let packets = speech.original.packets();
        assert_eq!(packets.len(), 1_200);
        assert_eq!(packets[..600], packets[600..]);
    }
}
