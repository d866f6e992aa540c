use super::*;
use base::Rng;
use proptest::prelude::*;
use std::collections::VecDeque;

/// A link over a path of some length, with a round trip of 40 ms and losses.
struct Path {
    mtu: Mtu,
    now: Time,
    truth: u16,
    /// The longest datagram that the host can send in one piece.
    host: u16,
    loss: f64,
    answers: bool,
    rng: Rng,
    under_way: VecDeque<(Time, Probe)>,
    sent: Vec<(Time, u16)>,
    /// Long packets leave all the time.
    is_busy: bool,
}

const RTT: Duration = Duration::from_millis(40);

impl Path {
    fn new(truth: u16, loss: f64, seed: u64) -> Path {
        let mut mtu = Mtu::new(Time::ZERO);
        mtu.on_link_up(Time::ZERO);
        Path {
            mtu,
            now: Time::ZERO,
            truth,
            host: u16::MAX,
            loss,
            answers: true,
            rng: Rng::new(seed),
            under_way: VecDeque::new(),
            sent: Vec::new(),
            is_busy: false,
        }
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            while let Some(probe) = self.mtu.poll(self.now, RTT) {
                self.sent.push((self.now, probe.bytes));
                let both = [self.rng.chance(self.loss), self.rng.chance(self.loss)];
                if probe.bytes > self.host {
                    self.mtu.on_too_long(self.now, probe.bytes);
                } else if self.answers && probe.bytes <= self.truth && both == [false; 2] {
                    self.under_way.push_back((self.now + RTT, probe));
                }
            }
            if self.is_busy {
                self.mtu.on_sent(usize::from(self.mtu.usable()));
            }
            let arrival = self.under_way.front().map(|(at, _)| *at);
            let next = arrival.into_iter().chain(self.mtu.next_timeout()).min();
            let Some(at) = next.filter(|at| *at <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(at);
            if let Some((at, probe)) = self.under_way.front().copied()
                && at <= self.now
            {
                self.under_way.pop_front();
                self.mtu.on_answer(self.now, probe.number, probe.bytes);
            }
        }
    }

    fn is_found(&self) -> bool {
        let (usable, truth) = (self.mtu.usable(), self.truth.min(DEFAULT));
        usable <= truth.max(FLOOR) && usable + PRECISION >= truth
    }
}

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

#[test]
fn a_path_without_trouble_costs_one_probe_and_one_each_ten_seconds_that_carry_long_packets() {
    let mut path = Path::new(1_472, 0.0, 1);
    path.run(secs(100));
    assert_eq!(path.sent, [(Time::ZERO, DEFAULT)]);
    path.is_busy = true;
    path.mtu.on_sent(1_372);
    path.run(secs(100));
    assert!((9..=11).contains(&(path.sent.len() - 1)), "{:?}", path.sent);
    assert!(path.sent.iter().all(|(_, bytes)| *bytes == DEFAULT));
}

#[test]
fn a_small_path_is_found_within_seconds_with_few_probes() {
    for truth in [1_200, 1_232, 1_252, 1_300, 1_322, 1_372, 1_400, 1_438] {
        let mut path = Path::new(truth, 0.0, 1);
        path.run(secs(6));
        assert!(path.is_found(), "{truth}: {}", path.mtu.usable());
        assert!(path.mtu.next_timeout().unwrap() > path.now, "it rests");
        let long = path.sent.iter().filter(|(_, bytes)| *bytes > SHORT).count();
        assert!(long <= 24, "{truth}: {long}");
        // Nothing changes: probes become rare.
        path.sent.clear();
        path.run(secs(3_600));
        assert!(path.is_found(), "{truth}: {}", path.mtu.usable());
        assert!(path.sent.len() < 200, "{truth}: {}", path.sent.len());
    }
}

#[test]
fn a_path_that_shrinks_is_noticed_and_one_that_grows_too() {
    let mut path = Path::new(1_472, 0.0, 1);
    path.is_busy = true;
    path.run(secs(25));
    path.truth = 1_250;
    path.run(secs(15));
    assert!(path.is_found(), "{}", path.mtu.usable());
    path.truth = 1_210;
    path.mtu.suspect(path.now);
    path.run(secs(4));
    assert!(path.is_found(), "{}", path.mtu.usable());
    path.truth = 1_472;
    path.run(secs(60));
    assert_eq!(path.mtu.usable(), DEFAULT);
}

#[test]
fn what_the_host_cannot_send_is_found_within_some_round_trips() {
    for host in [548, 1_199, 1_200, 1_232, 1_352, 1_372, 1_392, 1_432] {
        let mut path = Path::new(host, 0.0, 1);
        path.host = host;
        path.run(RTT * 8);
        assert!(path.is_found() || host < FLOOR, "{host}");
        assert_eq!(path.mtu.proven(), path.mtu.usable());
        assert!(path.mtu.usable() <= host.max(FLOOR));
        // The host's report has an effect, and a wider interface is noticed.
        path.sent.clear();
        path.run(secs(3_600));
        assert!(path.sent.len() < 200, "{host}: {}", path.sent.len());
        (path.host, path.truth) = (u16::MAX, 1_472);
        path.run(RAISE_MOST + secs(1));
        assert_eq!(path.mtu.usable(), DEFAULT);
    }
}

#[test]
fn a_packet_that_the_host_could_not_send_lowers_the_length_at_once() {
    let mut path = Path::new(1_472, 0.0, 1);
    path.run(secs(5));
    assert_eq!((path.mtu.usable(), path.mtu.proven()), (DEFAULT, DEFAULT));
    (path.host, path.truth) = (1_252, 1_252);
    for bytes in [1_100, FLOOR] {
        path.mtu.on_too_long(path.now, bytes);
        assert_eq!(path.mtu.usable(), DEFAULT, "every path carries that");
    }
    path.mtu.on_too_long(path.now, 1_300);
    assert_eq!((path.mtu.usable(), path.mtu.proven()), (FLOOR, FLOOR));
    // Other probes were on their way meanwhile.
    path.mtu.on_too_long(path.now, DEFAULT);
    path.run(RTT * 8);
    assert!(path.is_found(), "{}", path.mtu.usable());
}

#[test]
fn no_more_than_every_path_carries_is_proven_before_an_answer() {
    let mut path = Path::new(1_472, 0.0, 1);
    assert_eq!((path.mtu.usable(), path.mtu.proven()), (DEFAULT, FLOOR));
    path.run(RTT);
    assert_eq!(path.mtu.proven(), DEFAULT);
    path.mtu.suspect(path.now);
    assert_eq!(path.mtu.proven(), FLOOR);
    path.run(secs(2));
    assert_eq!(path.mtu.proven(), DEFAULT);
    path.mtu.on_link_down();
    path.mtu.on_link_up(path.now);
    assert_eq!(path.mtu.proven(), FLOOR);
}

#[test]
fn a_link_that_comes_up_again_finds_at_once_what_it_carries_now() {
    let mut path = Path::new(1_300, 0.0, 1);
    path.run(secs(60));
    assert!(path.is_found());
    path.mtu.on_link_down();
    path.truth = 1_472;
    path.mtu.on_link_up(path.now);
    path.run(secs(1));
    assert_eq!(path.mtu.usable(), DEFAULT);
}

#[test]
fn an_outage_says_nothing_of_lengths() {
    let mut path = Path::new(1_472, 0.0, 1);
    path.is_busy = true;
    path.run(secs(5));
    for _ in 0..50 {
        path.loss = 1.0;
        path.run(secs(3));
        path.loss = 0.0;
        path.run(secs(4));
        assert_eq!(path.mtu.usable(), DEFAULT);
    }
}

#[test]
fn a_neighbour_that_does_not_answer_is_left_alone() {
    let mut path = Path::new(1_300, 0.0, 1);
    path.answers = false;
    path.is_busy = true;
    path.run(secs(300));
    assert_eq!(path.mtu.usable(), DEFAULT);
    assert!(
        path.sent.len() <= 2 * TRIES_DEAF as usize,
        "{:?}",
        path.sent
    );
}

#[test]
fn answers_out_of_the_blue_change_nothing() {
    let mut mtu = Mtu::new(Time::ZERO);
    mtu.on_answer(Time::ZERO, 0, 9_000);
    mtu.on_link_up(Time::ZERO);
    mtu.on_answer(Time::ZERO, 1, 9_000);
    let probe = mtu.poll(Time::ZERO, RTT).unwrap();
    for number in [0, 2, u32::MAX] {
        mtu.on_answer(Time::ZERO, number, DEFAULT);
    }
    assert!(mtu.search.is_some());
    mtu.on_answer(Time::ZERO, probe.number, u16::MAX);
    assert!(mtu.search.is_none());
    assert_eq!(mtu.usable(), DEFAULT);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn whatever_is_lost_the_truth_is_found(
        truth in FLOOR..1_500, loss in 0.0..0.3, seed: u64, is_busy: bool,
    ) {
        let mut path = Path::new(truth, loss, seed);
        path.is_busy = is_busy;
        path.run(secs(40));
        // A length that is too long is given up within seconds, for good.
        prop_assert!(path.mtu.usable() <= truth, "{} of {truth}", path.mtu.usable());
        let mut found = 0;
        for _ in 0..60 {
            path.run(secs(60));
            prop_assert!((FLOOR..=DEFAULT).contains(&path.mtu.usable()));
            prop_assert!(path.mtu.usable() <= truth);
            found += u32::from(path.is_found());
        }
        // Chance rejects a length occasionally.
        prop_assert!(found >= 50, "{found} of 60, {} of {truth}", path.mtu.usable());
    }
}
