//! Reads libFuzzer's output about one target, and formats its row.
//!
//! ```text
//!   #12      INITED cov: 210 ft: 344 corp: 9/412b exec/s: 0 rss: 40Mb
//!   #81231   DONE   cov: 305 ft: 811 corp: 61/3011b lim: 412 exec/s: 27077 rss: 92Mb
//! ```
//! Coverage is the number of edges that inputs have reached: at first those of the corpus, at last all of them. It
//! counts edges in all crates that the target calls.

/// The result of one target, or the sum of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    runs: u64,
    /// Edges that the stored inputs reach, and edges that all inputs reach at last.
    edges: (u64, u64),
    /// Inputs that reach something that no other input does: stored ones, and all at last.
    inputs: (u64, u64),
    /// How the program ended, if it failed.
    pub(crate) failure: Option<String>,
}

impl Progress {
    pub(crate) const HEADER: &str =
        "target                          runs    edges   of corpus   inputs   new";

    /// Reads libFuzzer's output.
    pub(crate) fn read(said: &str) -> Progress {
        let mut progress = Progress::default();
        let mut is_first = true;
        for line in said.lines() {
            let Some((runs, rest)) = status(line) else {
                continue;
            };
            progress.runs = runs;
            // Not all lines have all numbers: `pulse` has none before the first input.
            let edges = after(rest, "cov:").unwrap_or(progress.edges.1);
            let inputs = after(rest, "corp:").unwrap_or(progress.inputs.1);
            if is_first && rest.starts_with("INITED") {
                (progress.edges.0, progress.inputs.0) = (edges, inputs);
                is_first = false;
            }
            (progress.edges.1, progress.inputs.1) = (edges, inputs);
        }
        progress
    }

    pub(crate) fn add(&mut self, other: &Progress) {
        self.runs += other.runs;
        self.edges.0 += other.edges.0;
        self.edges.1 += other.edges.1;
        self.inputs.0 += other.inputs.0;
        self.inputs.1 += other.inputs.1;
    }

    pub(crate) fn row(&self, name: &str) -> String {
        let (new, ended) = (self.inputs.1.saturating_sub(self.inputs.0), &self.failure);
        let ended = ended
            .as_deref()
            .map_or(String::new(), |why| format!("   FAILED: {why}"));
        format!(
            "{name:<24}{:>12}{:>9}{:>12}{:>9}{new:>6}{ended}",
            self.runs, self.edges.1, self.edges.0, self.inputs.1
        )
    }
}

/// Returns the crate of a target, whose name is the beginning of the target's name.
pub(crate) fn crate_of(target: &str) -> &str {
    target.split('_').next().unwrap_or(target)
}

/// Returns the number of runs at the front of a status line, and the rest of the line.
fn status(line: &str) -> Option<(u64, &str)> {
    let (runs, rest) = line.strip_prefix('#')?.split_once(char::is_whitespace)?;
    Some((runs.parse().ok()?, rest.trim_start()))
}

/// Returns the number after a word.
fn after(text: &str, word: &str) -> Option<u64> {
    let (_, rest) = text.split_once(word)?;
    let digits: String = rest
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
INFO: Running with entropic power schedule (0xFF, 100).
INFO:       12 files found in fuzz/corpus/wire_data
INFO: seed corpus: files: 12 min: 1b max: 412b total: 1500b rss: 38Mb
#13\tINITED cov: 210 ft: 344 corp: 9/1412b exec/s: 0 rss: 40Mb
#64\tNEW    cov: 214 ft: 350 corp: 10/1420b lim: 4096 exec/s: 0 rss: 41Mb L: 8/412 MS: 2 ChangeBit-EraseBytes-
#65536\tpulse  cov: 304 ft: 800 corp: 60/3000b lim: 412 exec/s: 21845 rss: 91Mb
#81231\tDONE   cov: 305 ft: 811 corp: 61/3011b lim: 412 exec/s: 27077 rss: 92Mb
Done 81231 runs in 4 second(s)
";

    #[test]
    fn the_last_line_counts_and_the_first_says_what_the_corpus_meets() {
        let progress = Progress::read(SAID);
        let expected = Progress {
            runs: 81_231,
            edges: (210, 305),
            inputs: (9, 61),
            failure: None,
        };
        assert_eq!(progress, expected);
        let row = progress.row("wire_data");
        let columns: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(columns, ["wire_data", "81231", "305", "210", "61", "52"]);
        assert_eq!(row.len(), Progress::HEADER.len());
    }

    #[test]
    fn what_fails_at_once_has_met_nothing_and_says_so() {
        let mut progress = Progress::read("==1==ERROR: AddressSanitizer\n#oops\n");
        assert_eq!(progress, Progress::default());
        progress.failure = Some("exit status: 77".to_owned());
        assert!(
            progress
                .row("wire_data")
                .ends_with("FAILED: exit status: 77")
        );
    }

    #[test]
    fn the_sum_of_a_crate_has_all_of_its_targets() {
        let one = Progress::read(SAID);
        let mut sum = one.clone();
        sum.add(&one);
        assert_eq!(
            (sum.runs, sum.edges, sum.inputs),
            (162_462, (420, 610), (18, 122))
        );
        assert_eq!(
            (crate_of("wire_data"), crate_of("voice_ts")),
            ("wire", "voice")
        );
    }
}
