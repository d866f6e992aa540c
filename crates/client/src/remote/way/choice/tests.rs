use super::*;

const RTT: Duration = Duration::from_millis(30);
const STEP: Duration = Duration::from_millis(10);
const MINUTE: Duration = Duration::from_secs(60);

/// The properties of the path in a run.
#[derive(Clone, Copy)]
struct Passes {
    /// Datagrams are sent, and arrive from the gate.
    out: bool,
    back: bool,
    /// Number of a hundred passing datagrams that are lost in each direction.
    lost: u32,
    rtt: Duration,
}

const NOTHING: Passes = Passes {
    out: false,
    back: false,
    lost: 0,
    rtt: RTT,
};
const CALL: Passes = Passes {
    out: true,
    back: true,
    ..NOTHING
};
/// UDP is blocked, although there are datagrams to be sent.
const BLOCKED: Passes = Passes {
    out: true,
    lost: 100,
    ..NOTHING
};

/// A way with a clock of its own, and the answers.
struct Run {
    choice: Choice,
    now: Time,
    challenge: u32,
    left: u32,
    drawn: u32,
    answers: Vec<(Time, u32)>,
}

impl Run {
    fn new() -> Run {
        Run {
            choice: Choice::new(Time::ZERO),
            now: Time::ZERO,
            challenge: 1,
            left: 0,
            drawn: 1,
            answers: Vec::new(),
        }
    }

    fn is_lost(&mut self, of_hundred: u32) -> bool {
        self.drawn = self
            .drawn
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        (self.drawn >> 8) % 100 < of_hundred
    }

    /// Continues for `span`, with a datagram every 20 ms. Returns how many probes were sent, and how long the way was
    /// up.
    fn go(&mut self, span: Duration, passes: Passes) -> (u32, Duration) {
        let (end, mut probes, mut up) = (self.now + span, 0, Duration::ZERO);
        while self.now < end {
            while let Some(place) = self.answers.iter().position(|(at, _)| *at <= self.now) {
                let (_, number) = self.answers.remove(place);
                self.choice.on_answer(self.now, number, self.challenge);
            }
            if self.now.as_nanos().is_multiple_of(20_000_000) && self.choice.is_up() {
                if passes.out {
                    self.choice.on_carried();
                }
                if passes.back && !self.is_lost(passes.lost) {
                    self.choice.on_heard(self.now);
                }
            }
            while let Some(act) = self.choice.poll(self.now) {
                match act {
                    Act::Probe { number, .. } => {
                        probes += 1;
                        if !self.is_lost(passes.lost) && !self.is_lost(passes.lost) {
                            self.answers.push((self.now + passes.rtt, number));
                        }
                    }
                    Act::Leave => self.left += 1,
                }
            }
            if self.choice.is_up() {
                up += STEP;
            }
            self.now += STEP;
        }
        (probes, up)
    }

    /// Returns how long it takes to leave the way.
    fn until_left(&mut self, passes: Passes) -> Duration {
        let died = self.now;
        while self.choice.is_up() {
            self.go(STEP, passes);
            assert!(self.now.since(died) < MINUTE);
        }
        self.now.since(died)
    }
}

#[test]
fn it_is_used_once_a_probe_was_answered_and_keeps_saying_so() {
    let mut run = Run::new();
    assert!(!run.choice.is_up());
    let first = run.choice.poll(Time::ZERO);
    let (number, challenge) = (1, 0);
    assert_eq!(first, Some(Act::Probe { number, challenge }));
    assert_eq!(run.choice.poll(Time::ZERO), None, "one at a time");
    run.now = Time::ZERO + RTT;
    run.choice.on_answer(run.now, number, 1);
    assert!(run.choice.is_up());
    assert_eq!(run.choice.rtt(), Some(RTT));
    // The gate's challenge is repeated at once, but the same one only once.
    let (number, challenge) = (2, 1);
    let second = run.choice.poll(run.now);
    assert_eq!(second, Some(Act::Probe { number, challenge }));
    run.choice.on_answer(run.now + RTT, 2, 1);
    assert_eq!(run.choice.poll(run.now + RTT), None);
    let (idle, _) = run.go(MINUTE, NOTHING);
    assert!((4..=5).contains(&idle), "{idle}");
    let (busy, _) = run.go(MINUTE, CALL);
    assert!((50..=60).contains(&busy), "{busy}");
    assert_eq!((run.left, run.choice.probes().1), (0, 0));
}

#[test]
fn one_that_dies_in_a_call_is_left_within_two_seconds_and_a_round_trip_and_comes_back() {
    for rtt in [10, 30, 150, 300, 600].map(Duration::from_millis) {
        let mut run = Run::new();
        run.go(Duration::from_secs(31), Passes { rtt, ..CALL });
        run.answers.clear();
        let left = run.until_left(BLOCKED);
        let bound = Duration::from_millis(2_050) + rtt.saturating_sub(WAIT_MIN);
        assert!(left <= bound, "{} of {}", left, rtt);
        assert_eq!(run.left, 1);
        // There are four attempts within half a minute: at 2, 4, 8, 16 s, each with three probes.
        let (probes, _) = run.go(Duration::from_secs(32), BLOCKED);
        assert!((6..=12).contains(&probes), "{probes}");
        assert_eq!(run.left, 1, "it was not up again");
        run.go(BACK_OFF_MAX, CALL);
        assert!(run.choice.is_up());
    }
}

#[test]
fn one_that_only_comes_is_left_too() {
    let mut run = Run::new();
    run.go(Duration::from_secs(31), CALL);
    // Nothing passes towards the gate any longer; what the gate sends still arrives.
    let died = run.now;
    while run.choice.is_up() {
        run.choice.on_heard(run.now);
        while let Some(act) = run.choice.poll(run.now) {
            run.left += u32::from(act == Act::Leave);
        }
        run.now += STEP;
    }
    assert!(run.now.since(died) < Duration::from_secs(6), "{}", run.now);
    assert_eq!(run.left, 1);
}

#[test]
fn losses_do_not_end_it() {
    // For sending only, and for calls: the share of ten minutes in which the way is up.
    for (lost, back, at_least) in [
        (20, false, 0.99),
        (20, true, 0.999),
        (30, false, 0.97),
        (30, true, 0.999),
        (40, true, 0.99),
    ] {
        let mut run = Run::new();
        let lossy = Passes { lost, back, ..CALL };
        while !run.choice.is_up() {
            run.go(STEP, lossy);
        }
        let (_, up) = run.go(Duration::from_secs(600), lossy);
        let share = up.as_secs_f64() / 600.0;
        assert!(share >= at_least, "{lost} % lost, {back}: {share}");
    }
    // The outage lasts 0.8 s.
    let mut run = Run::new();
    for _ in 0..100 {
        run.go(Duration::from_millis(9_370), CALL);
        run.go(Duration::from_millis(800), BLOCKED);
    }
    assert_eq!(run.left, 0);
}

#[test]
fn where_udp_is_blocked_ever_fewer_probes_are_sent() {
    let mut run = Run::new();
    let (first, _) = run.go(MINUTE, BLOCKED);
    let (hour, _) = run.go(Duration::from_secs(3_600), BLOCKED);
    assert!(first <= 18, "{first}");
    assert!(hour <= 3 * 3_600 / 64, "{hour}");
    assert_eq!(run.left, 0);
}

#[test]
fn one_that_is_up_for_a_moment_only_is_not_tried_ever_faster() {
    let mut run = Run::new();
    let mut gaps = Vec::new();
    run.go(Duration::from_millis(100), CALL);
    for _ in 0..4 {
        run.until_left(BLOCKED);
        run.answers.clear();
        let since = run.now;
        while !run.choice.is_up() {
            run.go(STEP, CALL);
        }
        gaps.push(run.now.since(since));
    }
    assert!(
        gaps.is_sorted() && gaps[3] > Duration::from_secs(14),
        "{gaps:?}"
    );
}

#[test]
fn a_single_loss_and_a_late_answer_do_not_matter() {
    let mut choice = Choice::new(Time::ZERO);
    assert!(choice.poll(Time::ZERO).is_some());
    choice.on_answer(Time::ZERO + RTT, 1, 0);
    let challenge = 0;
    let at = choice.next_timeout();
    let number = 2;
    assert_eq!(choice.poll(at), Some(Act::Probe { number, challenge }));
    let missed = choice.next_timeout();
    assert_eq!(missed, at + WAIT_MIN);
    assert!(choice.is_doubtful(missed));
    let number = 3;
    assert_eq!(choice.poll(missed), Some(Act::Probe { number, challenge }));
    choice.on_answer(missed + RTT, 2, 0);
    assert!(choice.is_up() && !choice.is_doubtful(missed + RTT));
    // An answer without a probe proves nothing.
    let mut other = Choice::new(Time::ZERO);
    other.on_answer(Time::ZERO, 0, 5);
    other.on_answer(Time::ZERO, 77, 5);
    assert!(!other.is_up());
    let (number, challenge) = (1, 5);
    let first = other.poll(Time::ZERO);
    assert_eq!(first, Some(Act::Probe { number, challenge }));
}

#[test]
fn what_is_not_wanted_is_said_once_and_taken_back() {
    let mut run = Run::new();
    run.go(Duration::from_secs(5), CALL);
    run.choice.want(run.now, false);
    assert!(!run.choice.is_up());
    let (probes, up) = run.go(MINUTE, CALL);
    assert_eq!((probes, up, run.left), (0, Duration::ZERO, 1));
    run.choice.want(run.now, false);
    run.choice.want(run.now, true);
    run.go(Duration::from_millis(100), CALL);
    assert!(run.choice.is_up());
    assert_eq!(run.left, 1);
}
