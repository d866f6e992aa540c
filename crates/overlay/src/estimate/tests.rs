use super::*;
use base::{Duration, Rng, Time};
use proptest::prelude::*;

/// Runs `packets` numbers through `loss`, each lost with probability `p`; returns the next number.
fn pass(loss: &mut Loss, rng: &mut Rng, from: u64, packets: u64, p: f64) -> u64 {
    for seq in from..from + packets {
        if !rng.chance(p) {
            loss.on_packet(seq);
        }
    }
    from + packets
}

fn at_ms(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// Adds one sample every 100 ms from `from_ms` on. Returns the time of the next sample.
fn measure(rtt: &mut Rtt, from_ms: u64, samples: u64, sample_ms: u64) -> u64 {
    for i in 0..samples {
        rtt.on_sample(at_ms(from_ms + 100 * i), Duration::from_millis(sample_ms));
    }
    from_ms + 100 * samples
}

#[test]
fn the_average_settles_and_absurd_samples_do_not_count() {
    let mut rtt = Rtt::default();
    assert_eq!(
        (rtt.smoothed(), rtt.least(), rtt.present()),
        (None, None, None)
    );
    assert_eq!(rtt.patience(Duration::from_secs(1)), Duration::from_secs(1));
    let now = measure(&mut rtt, 0, 100, 40);
    rtt.on_sample(at_ms(now), Duration::from_secs(4000));
    assert_eq!(rtt.smoothed(), Some(Duration::from_millis(40)));
    assert!(rtt.deviation() < Duration::from_micros(1));
    measure(&mut rtt, now, 40, 80);
    let smoothed = rtt.smoothed().unwrap();
    assert!(smoothed > Duration::from_millis(79), "{smoothed}");
}

#[test]
fn after_an_overload_the_average_is_slow_the_least_at_once_and_the_present_soon() {
    let mut rtt = Rtt::default();
    let ms = |ms| Some(Duration::from_millis(ms));
    let now = measure(&mut rtt, 0, 20, 40);
    let now = measure(&mut rtt, now, 100, 2_000);
    assert_eq!(
        rtt.least(),
        ms(2_000),
        "ten seconds long is what the link is like"
    );
    let now = measure(&mut rtt, now, 1, 40);
    assert_eq!(rtt.least(), ms(40));
    assert!(rtt.present() > ms(1_500), "one may be chance");
    let now = measure(&mut rtt, now, 2, 40);
    assert_eq!(rtt.present(), ms(40));
    assert!(rtt.smoothed() > ms(1_000));
    measure(&mut rtt, now, 60, 40);
    assert!(rtt.smoothed() < ms(42));
}

#[test]
fn a_longer_path_is_believed_when_the_window_has_passed() {
    let mut rtt = Rtt::default();
    let ms = |ms| Some(Duration::from_millis(ms));
    let now = measure(&mut rtt, 0, 20, 40);
    let now = measure(&mut rtt, now, 39, 90);
    assert_eq!(rtt.least(), ms(40), "not yet 4 s");
    let now = measure(&mut rtt, now, 41, 90);
    assert_eq!(
        rtt.least(),
        ms(90),
        "more than 8 s after the first half began"
    );
    // A single sample of an idle link counts, however long ago the one before was.
    rtt.on_sample(at_ms(now + 60_000), Duration::from_millis(200));
    assert_eq!(rtt.least(), ms(200));
}

#[test]
fn a_packet_is_lost_when_three_later_ones_have_arrived() {
    let mut loss = Loss::default();
    loss.on_run(1, 10);
    loss.on_packet(12);
    loss.on_packet(13);
    assert_eq!(loss.totals(), (12, 0));
    loss.on_packet(14);
    assert_eq!(loss.totals(), (13, 1));
    assert_eq!(loss.rate(), 1.0 / FEWEST_PACKETS as f64);
}

#[test]
fn reordering_is_not_loss_and_a_late_arrival_takes_a_loss_back() {
    let mut loss = Loss::default();
    for seq in [1, 2, 5, 4, 3, 6, 7, 9, 10, 8] {
        loss.on_packet(seq);
    }
    assert_eq!(loss.totals(), (10, 0));
    loss.on_run(12, 5);
    assert_eq!(loss.totals(), (15, 1));
    loss.on_packet(11);
    loss.on_packet(11);
    assert_eq!(loss.totals(), (16, 0));
    assert_eq!(loss.rate(), 0.0);
}

#[test]
fn the_rate_rises_at_once_and_falls_with_clean_packets_only() {
    let (mut loss, mut rng) = (Loss::default(), Rng::new(1));
    let mut seq = pass(&mut loss, &mut rng, 0, 50_000, 0.01);
    assert!((0.006..0.015).contains(&loss.rate()), "{}", loss.rate());
    seq = pass(&mut loss, &mut rng, seq, 1_500, 0.10);
    let high = loss.rate();
    assert!((0.06..0.15).contains(&high), "{high}");
    // 500 packets without loss are half of what 50 losses at 10 % took.
    seq = pass(&mut loss, &mut rng, seq, 750, 0.0);
    assert!(loss.rate() < high * 0.9 && loss.rate() > high / 3.0);
    pass(&mut loss, &mut rng, seq, 1_000_000, 0.0);
    assert!(loss.rate() < 0.0001);
}

#[test]
fn an_outage_fills_half_of_the_history_at_most() {
    let (mut loss, mut rng) = (Loss::default(), Rng::new(2));
    let seq = pass(&mut loss, &mut rng, 0, 100_000, 0.01);
    let (_, lost) = loss.totals();
    loss.on_run(seq + 1_000_000, 10_000);
    assert!(loss.totals().1 >= lost + 1_000_000);
    assert!(loss.rate() < 0.02, "{}", loss.rate());
    // Far below, far above, all of it at once: bounded work and no panic.
    for far in [0, u64::MAX / 2, u64::MAX - 200, 5] {
        loss.on_run(far, 100);
    }
    assert!(loss.rate() <= 1.0);
}

#[test]
fn what_is_told_leaves_out_what_may_be_late_and_most_of_an_outage() {
    let mut loss = Loss::default();
    for seq in (0..100).filter(|seq| ![10, 20, 21].contains(seq)) {
        loss.on_packet(seq);
    }
    assert_eq!(loss.told(), (97, 3));
    loss.on_run(140, 10);
    assert_eq!(loss.totals(), (107, 43));
    assert_eq!(loss.told(), (107, 6), "three of the forty in a row");
    // Five places late: from now on a gap may be filled that late.
    loss.on_run(151, 5);
    loss.on_packet(150);
    loss.on_run(157, 4);
    assert_eq!(loss.told(), (117, 6));
    loss.on_run(161, 10);
    assert_eq!(loss.told(), (127, 7));
}

#[test]
fn a_new_session_starts_anywhere_and_keeps_the_rate() {
    let (mut loss, mut rng) = (Loss::default(), Rng::new(3));
    pass(&mut loss, &mut rng, 0, 100_000, 0.05);
    let before = loss.rate();
    loss.on_new_session();
    loss.on_run(0, 20);
    assert!((loss.rate() - before).abs() < 0.01);
    let (_, lost) = loss.totals();
    loss.on_run(20, 1000);
    assert_eq!(loss.totals().1, lost);
}

#[test]
fn losing_everything_but_every_fifth_reads_four_fifths() {
    let mut loss = Loss::default();
    for seq in (0..5_000).step_by(5) {
        loss.on_packet(seq);
    }
    assert!((0.75..0.85).contains(&loss.rate()), "{}", loss.rate());
    assert!((loss.share().share() - loss.rate()).abs() < 1e-4);
}

/// The last packet of a gap arrives late, in one run: none of them was ever lost.
#[test]
fn a_late_run_counts_in_its_order() {
    let (mut whole, mut single) = (Loss::default(), Loss::default());
    let mut seq = 0;
    for gap in [0, 12, 16, 12, 14] {
        seq += gap;
        whole.on_packet(seq);
        single.on_packet(seq);
        seq += 1;
    }
    whole.on_run(seq - 4, 4);
    (seq - 4..seq).for_each(|late| single.on_packet(late));
    assert_eq!(whole.totals(), single.totals());
    assert_eq!(whole.rate(), single.rate());
}

/// Numbers in the order in which they arrive when each is up to `most` places late, some lost.
fn jittered(rng: &mut Rng, packets: u64, most: u64, p: f64) -> Vec<u64> {
    let mut arrivals: Vec<(u64, u64)> = (0..packets)
        .filter(|_| !rng.chance(p))
        .collect::<Vec<_>>()
        .into_iter()
        .map(|seq| (seq * 1_000 + rng.below(most * 1_000), seq))
        .collect();
    arrivals.sort_unstable();
    arrivals.into_iter().map(|(_, seq)| seq).collect()
}

#[test]
fn packets_that_come_sixty_places_late_are_not_lost() {
    for (p, most) in [(0.0, 60), (0.01, 60), (0.05, 60), (0.01, 300)] {
        let (mut loss, mut rng) = (Loss::default(), Rng::new(4));
        let order = jittered(&mut rng, 30_000, most, p);
        for (i, seq) in order.into_iter().enumerate() {
            loss.on_packet(seq);
            let read = loss.rate();
            assert!(
                i < 10_000 || (p / 2.0..=p * 2.0).contains(&read),
                "{p}, {most}: {read} after {i}"
            );
        }
    }
}

#[test]
fn runs_of_losses_are_read_right() {
    // Runs of 33 on average, 5 % lost.
    let (p, burst) = (0.05, 0.97);
    let (mut loss, mut rng, mut seq) = (Loss::default(), Rng::new(6), 0);
    let reads = pass_in_runs(
        &mut loss,
        &mut rng,
        &mut seq,
        400_000,
        1.0 / (1.0 - burst),
        Loss::rate,
    );
    let late = &reads[300..];
    let good = late
        .iter()
        .filter(|read| (p / 2.0..p * 2.0).contains(*read))
        .count();
    assert!(good * 100 > late.len() * 95, "{good} of {}", late.len());
}

#[test]
fn a_link_that_begins_to_lose_is_known_within_ten_seconds_of_a_call() {
    for before in [0.0, 0.0005] {
        let (mut loss, mut rng) = (Loss::default(), Rng::new(7));
        let seq = pass(&mut loss, &mut rng, 0, 180_000, before);
        pass(&mut loss, &mut rng, seq, 500, 0.05);
        let read = loss.rate();
        assert!((0.025..0.1).contains(&read), "{before}: {read}");
    }
}

#[test]
fn losses_that_have_ended_are_forgotten_and_one_does_not_bring_them_back() {
    for p in [0.02, 0.1, 0.2] {
        let (mut loss, mut rng) = (Loss::default(), Rng::new(9));
        let seq = pass(&mut loss, &mut rng, 0, 20_000, p);
        // Twice, because recent runs may be rarer than on average.
        let due = (RUNS_DUE as f64 * 2.0 / p) as u64;
        let seq = pass(&mut loss, &mut rng, seq, due, 0.0);
        let read = loss.rate();
        assert!(read < p / 50.0, "{p}: {read}");
        // One packet is lost. Later, as many packets are lost as at first.
        let seq = pass(&mut loss, &mut rng, seq + 1, 20, 0.0);
        assert!(loss.rate() < p / 10.0, "{p}: {}", loss.rate());
        pass(&mut loss, &mut rng, seq, 20_000, p);
        let read = loss.rate();
        assert!((p / 2.0..p * 2.0).contains(&read), "{p}: {read}");
    }
}

#[test]
fn losses_that_swing_hardly_ever_seem_to_have_ended() {
    for each in [100, 1_000] {
        let (mut loss, mut rng, mut seq) = (Loss::default(), Rng::new(10), 0);
        let mut reads = Vec::new();
        for turn in 0..20_000 {
            seq = pass(&mut loss, &mut rng, seq, each, [0.01, 0.08][turn % 2]);
            reads.push(loss.rate());
        }
        let low = reads.iter().filter(|read| **read < 0.005).count();
        assert!(low * 1_000 <= reads.len(), "{each}: {low}");
    }
}

/// The packets of a link that loses 5 % of them in runs of this mean length; returns the value read at each hundredth
/// packet.
fn pass_in_runs(
    loss: &mut Loss,
    rng: &mut Rng,
    seq: &mut u64,
    count: u64,
    run: f64,
    read: fn(&Loss) -> f64,
) -> Vec<f64> {
    let (p, burst) = (0.05, 1.0 - 1.0 / run);
    let (mut was_lost, mut reads) = (false, Vec::new());
    for n in 0..count {
        let chance = if was_lost {
            burst
        } else {
            p * (1.0 - burst) / (1.0 - p)
        };
        was_lost = rng.chance(chance);
        if !was_lost {
            loss.on_packet(*seq);
        }
        *seq += 1;
        if n % 100 == 99 {
            reads.push(read(loss));
        }
    }
    reads
}

#[test]
fn runs_that_become_longer_are_known_after_ten_of_them_and_steady_ones_stay_as_they_are() {
    let (mut loss, mut rng, mut seq) = (Loss::default(), Rng::new(8), 0);
    pass_in_runs(&mut loss, &mut rng, &mut seq, 20_000, 1.05, Loss::run);
    // A second of twenty calls: a dozen runs.
    let reads = pass_in_runs(&mut loss, &mut rng, &mut seq, 1_000, 4.0, Loss::run);
    assert!(reads[9] > 2.5, "{reads:?}");
    for run in [1.05, 2.0, 4.0] {
        let (mut loss, mut seq) = (Loss::default(), 0);
        pass_in_runs(&mut loss, &mut rng, &mut seq, 20_000, run, Loss::run);
        let reads = pass_in_runs(&mut loss, &mut rng, &mut seq, 1_000_000, run, Loss::run);
        let odd = reads.iter().filter(|read| **read > run * 2.0).count();
        assert!(odd * 1_000 <= reads.len(), "{odd} of runs of {run}");
    }
}

/// The estimator by definition, which remembers everything.
#[derive(Default)]
struct Model {
    arrived: Vec<u64>,
}

impl Model {
    fn lost(&self) -> Vec<u64> {
        let later = |s: u64| self.arrived.iter().filter(|&&a| a > s).count();
        let (Some(&low), Some(&high)) = (self.arrived.iter().min(), self.arrived.iter().max())
        else {
            return Vec::new();
        };
        (low..high)
            .filter(|s| !self.arrived.contains(s) && later(*s) >= REORDER_PACKETS as usize)
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Losses in any pattern (gaps within the bound), arrivals displaced by up to 15 places and
    /// some twice: the same packets count as lost as by the definition.
    #[test]
    fn the_maps_agree_with_the_definition(
        steps in proptest::collection::vec((1u64..12, 0usize..4, any::<bool>()), 1..150),
        start in 0u64..1 << 40,
    ) {
        let mut order: Vec<u64> = Vec::new();
        let mut seq = start;
        for &(gap, back, twice) in &steps {
            let at = order.len().saturating_sub(back);
            let at = if at == 0 && !order.is_empty() { 1 } else { at };
            order.insert(at, seq);
            if twice {
                order.push(seq);
            }
            // Three of four steps are in order.
            seq += if gap < 9 { 1 } else { gap - 8 };
        }
        let (mut loss, mut model) = (Loss::default(), Model::default());
        for &s in &order {
            loss.on_packet(s);
            if !model.arrived.contains(&s) {
                model.arrived.push(s);
            }
            prop_assert_eq!(loss.totals().0, model.arrived.len() as u64);
        }
        prop_assert_eq!(loss.totals().1, model.lost().len() as u64);
    }

    /// A run counts the same as its packets one by one.
    #[test]
    fn runs_equal_single_packets(runs in proptest::collection::vec((0u64..30, 1u64..100, 0u64..9), 1..60)) {
        let (mut whole, mut single) = (Loss::default(), Loss::default());
        let mut seq = 1000;
        for (gap, count, back) in runs {
            seq += gap;
            let first = seq - back;
            whole.on_run(first, count);
            (first..first + count).for_each(|s| single.on_packet(s));
            seq = seq.max(first + count);
        }
        prop_assert_eq!(whole.totals().0, single.totals().0);
        prop_assert_eq!(whole.totals().1, single.totals().1);
        prop_assert!((whole.rate() - single.rate()).abs() < 1e-9);
    }
}

#[test]
fn all_round_trips_of_late_say_that_a_path_is_longer() {
    let mut rtt = Rtt::default();
    let ms = Duration::from_millis;
    let now = measure(&mut rtt, 0, 20, 40);
    let now = measure(&mut rtt, now, 5, 240);
    assert!(
        rtt.usually_longer() < ms(20) && !rtt.is_longer(),
        "not yet half a second"
    );
    let now = measure(&mut rtt, now, 6, 240);
    assert_eq!(rtt.usually_longer(), ms(200));
    assert!(rtt.is_longer());
    assert_eq!(rtt.longer_by(), ms(200));
    // A fuller path varies.
    let mut fuller = rtt.clone();
    measure(&mut fuller, now, 1, 300);
    assert_eq!(
        (fuller.is_longer(), fuller.longer_by()),
        (true, Duration::ZERO)
    );
    // When the path is shorter again, the estimate returns.
    measure(&mut rtt, now, 1, 40);
    assert!(rtt.usually_longer() < ms(40) && !rtt.is_longer());
    assert_eq!(rtt.longer_by(), Duration::ZERO);
}

#[test]
fn answers_of_a_host_that_has_stalled_are_no_longer_path() {
    let mut rtt = Rtt::default();
    let now = measure(&mut rtt, 0, 20, 40);
    // For two seconds there is no answer, then all of them arrive at once.
    for late in 0..20 {
        rtt.on_sample(
            at_ms(now + 2_000),
            Duration::from_millis(2_000 - 100 * late),
        );
        assert!(!rtt.is_longer(), "{late}");
    }
    measure(&mut rtt, now + 2_100, 20, 40);
    assert!(rtt.usually_longer() < Duration::from_millis(20));
}

#[test]
fn jitter_makes_no_path_longer() {
    let mut rng = Rng::new(7);
    let mut rtt = Rtt::default();
    for i in 0..20_000 {
        let jitter_us = rng.below(60_000) + rng.below(60_000);
        rtt.on_sample(at_ms(100 * i), Duration::from_micros(20_000 + jitter_us));
        assert!(!rtt.is_longer(), "{i}");
    }
}
