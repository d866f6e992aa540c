//! The input and output files of the demonstration.

use super::report::{self, Evidence};
use super::{DemoError, DemoOptions, DemoResult};
use crate::files;
use std::fs;
use std::path::{Path, PathBuf};
use voice::SAMPLE_RATE_HZ;
use voice::call::Original;
use voice::g711::Law;
use voice::wav;

const SAMPLE: &str = "the shipped sample";
/// Longest file that is read. Ten minutes of 96 kHz, eight channels and four bytes are 1.8 GB, but speech is not
/// recorded so; half an hour of stereo at 48 kHz and 16 bits fits.
const SPEECH_BYTES_MAX: u64 = 400 << 20;

/// Room for report and numbers: at most 8 000 dots of 20 bytes, and as much for everything else.
const REPORT_BYTES: usize = 400 << 10;

/// The speech of the calls.
pub(super) struct Said {
    pub(super) name: String,
    path: PathBuf,
    /// The samples, with the length of the calls: the recording repeated, or cut.
    pcm: Vec<i16>,
    pub(super) original: Original,
}

impl Said {
    pub(super) fn load(options: &DemoOptions) -> Result<Said, DemoError> {
        let samples = (options.seconds * SAMPLE_RATE_HZ) as usize;
        let (name, path, recording) = match &options.speech {
            None => (
                SAMPLE.to_owned(),
                PathBuf::from(SAMPLE),
                voice::sample::speech(),
            ),
            Some(path) => (path.display().to_string(), path.clone(), read_speech(path)?),
        };
        let pcm: Vec<i16> = recording.iter().copied().cycle().take(samples).collect();
        let original = Original::new(&pcm, Law::Mu).map_err(|error| speech(&path, error))?;
        Ok(Said {
            name,
            path,
            pcm,
            original,
        })
    }

    pub(super) fn error(&self, why: &str) -> DemoError {
        speech(&self.path, why)
    }
}

fn read_speech(path: &Path) -> Result<Vec<i16>, DemoError> {
    let metadata = fs::metadata(path).map_err(|error| speech(path, error))?;
    if !metadata.is_file() {
        return Err(speech(
            path,
            "not a file: name a WAV file of talking people",
        ));
    }
    if metadata.len() > SPEECH_BYTES_MAX {
        let mib = SPEECH_BYTES_MAX >> 20;
        return Err(speech(
            path,
            format!("longer than {mib} MiB: cut it (sox IN OUT trim 0 60)"),
        ));
    }
    let bytes = fs::read(path).map_err(|error| speech(path, error))?;
    let read = wav::read_speech(&bytes).map_err(|error| speech(path, error))?;
    Ok(read.pcm)
}

fn speech(path: &Path, why: impl ToString) -> DemoError {
    DemoError::Speech {
        path: path.to_owned(),
        why: why.to_string(),
    }
}

/// The folder of the results.
#[derive(Debug)]
pub(super) struct Output {
    dir: PathBuf,
}

impl Output {
    /// Creates the folder and writes everything into it that is known before the calls, so that an error about the
    /// folder appears before a minute has passed.
    pub(super) fn prepare(dir: &Path, said: &Said, ways: usize) -> Result<Output, DemoError> {
        let output = Output {
            dir: dir.to_owned(),
        };
        fs::create_dir_all(dir).map_err(|error| DemoError::Write {
            path: dir.to_owned(),
            error,
        })?;
        let reference = wav::write(&said.pcm);
        output.put("reference.wav", &reference)?;
        // The recording of each path has the same length.
        output.reserve(ways * reference.len() + REPORT_BYTES)?;
        Ok(output)
    }

    /// Checks that there is room for `bytes` more.
    fn reserve(&self, bytes: usize) -> Result<(), DemoError> {
        self.put("room", &vec![0xa5; bytes])?;
        let path = self.dir.join("room");
        fs::remove_file(&path).map_err(|error| DemoError::Write { path, error })
    }

    pub(super) fn report(&self) -> PathBuf {
        self.dir.join("report.html")
    }

    pub(super) fn write(
        &self,
        result: &DemoResult,
        evidence: &Evidence<'_>,
    ) -> Result<(), DemoError> {
        for ((way, _), judged) in result.ways.iter().zip(evidence.judged) {
            // The options require at least one call.
            let heard = judged.evaluations.first().map(|e| e.received.as_slice());
            let name = format!("{}.wav", way.key);
            self.put(&name, &wav::write(heard.unwrap_or_default()))?;
        }
        self.put("result.json", (result.json() + "\n").as_bytes())?;
        self.put("report.html", report::page(result, evidence).as_bytes())
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), DemoError> {
        let path = self.dir.join(name);
        files::write(&path, bytes).map_err(|error| DemoError::Write { path, error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Scratch;

    fn options(speech: &Path) -> DemoOptions {
        DemoOptions {
            speech: Some(speech.to_owned()),
            seconds: 2,
            ..DemoOptions::default()
        }
    }

    fn refusal(path: &Path) -> String {
        Said::load(&options(path))
            .map(drop)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn speech_is_cut_or_repeated_to_the_length_of_the_calls() {
        let said = Said::load(&DemoOptions {
            seconds: 3,
            ..DemoOptions::default()
        })
        .unwrap();
        assert_eq!(
            (said.pcm.len(), said.original.packets().len()),
            (24_000, 150)
        );
        let dir = Scratch::new("speech").unwrap();
        let file = dir.path().join("short.wav");
        let second = &voice::sample::speech()[4_000..12_000];
        fs::write(&file, wav::write(second)).unwrap();
        let said = Said::load(&options(&file)).unwrap();
        assert_eq!(said.pcm.len(), 16_000);
        assert_eq!(said.pcm[..8_000], said.pcm[8_000..]);
    }

    #[test]
    fn recordings_that_are_none_are_refused_by_name() {
        let dir = Scratch::new("bad-speech").unwrap();
        let file = dir.path().join("file.wav");
        assert!(refusal(&file).contains("file.wav: No such file"));
        assert!(refusal(dir.path()).contains("not a file"));
        fs::write(&file, b"hello").unwrap();
        assert!(refusal(&file).contains("not a WAV file"));
        fs::write(&file, wav::write(&[0; 16_000])).unwrap();
        assert!(refusal(&file).contains("silent"));
    }

    #[test]
    fn a_folder_that_cannot_be_is_told_before_the_calls() {
        let said = Said::load(&DemoOptions {
            seconds: 2,
            ..DemoOptions::default()
        })
        .unwrap();
        let dir = Scratch::new("output").unwrap();
        let file = dir.path().join("file");
        fs::write(&file, b"").unwrap();
        for bad in [
            file.clone(),
            file.join("below"),
            PathBuf::from("/proc/sinew"),
        ] {
            let error = Output::prepare(&bad, &said, 2).unwrap_err().to_string();
            assert!(
                error.contains("cannot write") && error.contains("--out DIR"),
                "{error}"
            );
        }
        let good = dir.path().join("new/folder");
        Output::prepare(&good, &said, 2).unwrap();
        let files: Vec<_> = fs::read_dir(&good)
            .unwrap()
            .map(|f| f.unwrap().file_name())
            .collect();
        assert_eq!(files, ["reference.wav"]);
    }
}
