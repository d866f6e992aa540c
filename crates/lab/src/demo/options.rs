//! The options of the demonstration.

use super::DemoError;
use super::layout::{self, Layout};
use base::Duration;
use base::impair::{LossModel, Model};
use std::path::PathBuf;
use tools::progress::Progress;

/// Most calls at once: 100 send 5 000 packets/s on each path, and scoring them takes minutes.
const CALLS_MAX: u32 = 100;
/// Shortest call: P.862 needs speech, and the sample begins with a pause of 0.3 s.
const SECONDS_MIN: u32 = 2;
/// Longest call: ten minutes, as long as the longest recording that is read.
const SECONDS_MAX: u32 = 600;
/// Highest loss: beyond, hellos between the nodes get lost so often that the link stays down.
const LOSS_MAX: f64 = 0.5;

/// The options of the demonstration; the default is what `sinew demo` does without options.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// One link of 60 ms instead of five of 10 ms, and a third path: requests only.
    pub long: bool,
    /// Number of parallel calls on each path.
    pub calls: u32,
    /// Share of the datagrams that the lossy link and the direct path lose, 0.05 for 5 %.
    pub loss: f64,
    /// Probability that the datagram after a lost one is lost too; 0 for independent losses.
    pub burst: f64,
    /// Length of the calls; speech is repeated or cut to it.
    pub seconds: u32,
    /// A WAV file of speech instead of the sample.
    pub speech: Option<PathBuf>,
    /// The folder for the files; created if it does not exist.
    pub out: PathBuf,
    /// The program that is run as `PROGRAM node --config FILE`; `None` for the running one.
    pub program: Option<PathBuf>,
    /// The progress reports on standard error.
    pub progress: Progress,
}

impl Default for DemoOptions {
    fn default() -> DemoOptions {
        DemoOptions {
            long: false,
            calls: 10,
            loss: 0.05,
            burst: 0.25,
            seconds: 36,
            speech: None,
            out: PathBuf::from("sinew-demo"),
            program: None,
            progress: Progress::Silent,
        }
    }
}

impl DemoOptions {
    /// Returns the layout of the calls' paths.
    pub(super) fn layout(&self) -> &'static Layout {
        match self.long {
            true => &layout::LONG,
            false => &layout::CHAIN,
        }
    }

    pub(super) fn check(&self) -> Result<(), DemoError> {
        let bad = |what: String| Err(DemoError::Option(what));
        if !(1..=CALLS_MAX).contains(&self.calls) {
            return bad(format!("{} calls: choose 1 to {CALLS_MAX}", self.calls));
        }
        if !(SECONDS_MIN..=SECONDS_MAX).contains(&self.seconds) {
            return bad(format!(
                "{} s: choose {SECONDS_MIN} to {SECONDS_MAX}",
                self.seconds
            ));
        }
        if !(0.0..=LOSS_MAX).contains(&self.loss) {
            let (loss, max) = (self.loss * 100.0, LOSS_MAX * 100.0);
            return bad(format!("a loss of {loss} %: choose 0 to {max} %"));
        }
        self.impairment(Duration::ZERO).map(drop)
    }

    /// Returns one direction of a link without losses.
    pub(super) fn clean(&self, delay: Duration) -> Result<Model, DemoError> {
        Model::default()
            .with_delay(delay)
            .map_err(|error| DemoError::Option(error.to_string()))
    }

    /// Returns one direction of the lossy path, with this delay.
    pub(super) fn impairment(&self, delay: Duration) -> Result<Model, DemoError> {
        let loss = match (self.loss, self.burst) {
            (0.0, _) => LossModel::None,
            (p, 0.0) => LossModel::Bernoulli { p },
            (p, burstiness) => LossModel::Conditional { p, burstiness },
        };
        let model = Model::default()
            .with_loss(loss)
            .and_then(|m| m.with_delay(delay));
        model.map_err(|error| DemoError::Option(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut DemoOptions)) -> String {
        let mut options = DemoOptions::default();
        change(&mut options);
        options.check().unwrap_err().to_string()
    }

    #[test]
    fn absurd_options_say_what_to_choose() {
        assert!(DemoOptions::default().check().is_ok());
        assert!(refused(|o| o.calls = 0).contains("1 to 100"));
        assert!(refused(|o| o.calls = 101).contains("1 to 100"));
        assert!(refused(|o| o.seconds = 1).contains("2 to 600"));
        assert!(refused(|o| o.loss = 0.6).contains("0 to 50 %"));
        assert!(refused(|o| o.loss = f64::NAN).contains("0 to 50 %"));
        assert!(refused(|o| o.burst = 1.0).contains("never ends"));
    }

    #[test]
    fn a_burstiness_of_zero_means_independent_losses() {
        let mut options = DemoOptions {
            burst: 0.0,
            ..DemoOptions::default()
        };
        let model = options.impairment(Duration::from_millis(10)).unwrap();
        assert_eq!(model.to_string(), "loss=5% delay=10ms");
        options.burst = 0.25;
        let model = options.impairment(Duration::from_millis(50)).unwrap();
        assert_eq!(model.to_string(), "loss=5% burst=25% delay=50ms");
        options.loss = 0.0;
        assert_eq!(
            options.impairment(Duration::ZERO).unwrap().to_string(),
            "clean"
        );
    }
}
