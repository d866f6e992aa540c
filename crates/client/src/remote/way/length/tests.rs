use super::*;

const WAIT: Duration = Duration::from_millis(250);
const RTT: Duration = Duration::from_millis(30);
const STEP: Duration = Duration::from_millis(10);
const MISSES: usize = 4;

/// A path with a length limit, its gate, and messages of one length.
struct Run {
    length: Length,
    now: Time,
    path: usize,
    gate: GateLength,
    said: Option<Says>,
    answers: Vec<(Time, u32, usize)>,
    trials: u32,
    swallowed: u32,
}

impl Run {
    fn new(path: usize) -> Run {
        Run {
            length: Length::default(),
            now: Time::ZERO + Duration::from_secs(1_000),
            path,
            gate: GateLength::default(),
            said: None,
            answers: Vec::new(),
            trials: 0,
            swallowed: 0,
        }
    }

    /// Continues for `span` with a message of `len` bytes every 20 ms. Returns how many went by UDP.
    fn go(&mut self, span: Duration, len: Option<usize>) -> u32 {
        let (end, mut by_udp) = (self.now + span, 0);
        while self.now < end {
            while let Some(place) = self.answers.iter().position(|(at, ..)| *at <= self.now) {
                let (_, number, len) = self.answers.remove(place);
                assert!(self.length.on_tried(self.now, number, len));
            }
            let is_due = self.now.as_nanos().is_multiple_of(20_000_000);
            if let Some(len) = len.filter(|_| is_due) {
                if fits(len, self.length.longest(self.now)) {
                    by_udp += 1;
                    self.swallowed += u32::from(len + AROUND_BYTES > self.path);
                }
                self.length.on_carried(self.now, len);
            }
            while let Some(trial) = self.length.poll(self.now, WAIT, MISSES) {
                self.trials += 1;
                assert!(trial.len <= DATAGRAM_BYTES_MAX);
                if trial.len <= self.path {
                    self.gate.on_trial(self.now, trial.says.longest as u16);
                    self.said = Some(trial.says);
                    self.answers.push((self.now + RTT, trial.number, trial.len));
                }
            }
            self.now += STEP;
        }
        by_udp
    }

    fn gate(&self) -> usize {
        self.gate.longest(self.now)
    }
}

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn what_is_short_needs_no_trial() {
    let mut run = Run::new(576 - 28);
    let len = UNTRIED_BYTES_MAX - AROUND_BYTES;
    assert_eq!(run.go(MINUTE, Some(len)), 3_000);
    assert_eq!((run.trials, run.swallowed), (0, 0));
}

#[test]
fn a_long_path_is_used_after_a_round_trip_and_known_to_both() {
    let mut run = Run::new(1_472);
    // Seven packets of a transport stream, with what is around them.
    assert!(run.go(SECOND, Some(1_328)) >= 48);
    assert_eq!(run.gate(), DATAGRAM_BYTES_MAX);
    run.go(MINUTE, Some(1_328));
    assert_eq!(run.swallowed, 0);
    assert!((55..=70).contains(&run.trials), "{}", run.trials);
}

#[test]
fn a_short_path_swallows_nothing_and_is_found() {
    for path in [548, 560, 1_000, 1_232, 1_372, 1_451] {
        let mut run = Run::new(path);
        run.go(Duration::from_secs(12), Some(1_400));
        let found = run.length.longest(run.now);
        assert!(
            found <= path && found + EXACT_BYTES >= path,
            "{path}: {found}"
        );
        assert_eq!((run.swallowed, run.gate()), (0, found));
        // The limit grows, which is found, too.
        run.path = 1_452;
        run.go(MINUTE, Some(1_400));
        run.go(MINUTE, Some(1_400));
        assert_eq!(run.gate(), 1_452, "{path}");
    }
}

#[test]
fn a_path_that_shrinks_swallows_for_two_seconds_and_no_more() {
    let mut run = Run::new(1_452);
    run.go(MINUTE, Some(1_400));
    run.path = 1_300;
    run.go(Duration::from_secs(10), Some(1_400));
    assert!((1..=105).contains(&run.swallowed), "{}", run.swallowed);
    let found = run.gate();
    assert!((1_284..=1_300).contains(&found), "{found}");
    // While no long messages were carried, the length was not checked: the first message is not risked.
    let mut run = Run::new(1_452);
    run.go(MINUTE, Some(1_400));
    run.go(MINUTE, None);
    let trials = run.trials;
    run.go(MINUTE, Some(100));
    assert_eq!(run.trials, trials);
    run.path = 1_300;
    run.go(MINUTE, Some(1_400));
    assert_eq!(run.swallowed, 0);
}

#[test]
fn what_the_kernel_refuses_is_learnt_and_raw_is_told() {
    let mut run = Run::new(1_452);
    run.length.set_raw();
    run.go(SECOND, None);
    assert_eq!(run.trials, 1);
    assert!(run.said.is_some_and(|says| says.is_raw));
    run.go(MINUTE, Some(1_400));
    let len = 1_400 + AROUND_BYTES;
    run.length.refuse(run.now, len);
    assert!(!fits(1_400, run.length.longest(run.now)));
    run.length.begin();
    assert_eq!(run.length.longest(run.now), UNTRIED_BYTES_MAX);
    run.go(SECOND, None);
    assert!(run.said.is_some_and(|says| says.is_raw));
    // An answer without a trial shows nothing.
    assert!(!run.length.on_tried(run.now, 0, DATAGRAM_BYTES_MAX));
}
