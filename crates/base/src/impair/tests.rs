use super::*;
use crate::pool::Pool;
use crate::rng::Rng;
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);

fn parsed(text: &str) -> Model {
    text.parse().unwrap()
}

fn pipe(text: &str, seed: u64) -> Pipe {
    Pipe::new(parsed(text), Rng::new(seed))
}

/// Returns which of `n` packets, one per microsecond, are lost.
fn losses(pipe: &mut Pipe, n: u64) -> Vec<bool> {
    (0..n)
        .map(|i| {
            let verdict = pipe.admit(Time::from_nanos(i * 1_000), 160);
            verdict == Verdict::Drop(Reason::Loss)
        })
        .collect()
}

fn share(hits: usize, of: usize) -> f64 {
    hits as f64 / of as f64
}

#[test]
fn a_clean_pipe_delivers_at_once() {
    let mut pipe = pipe("clean", 1);
    let now = Time::from_nanos(77);
    assert_eq!(pipe.admit(now, 1500), Verdict::Deliver(now));
}

#[test]
fn losses_keep_the_marginal_rate_and_the_burstiness() {
    // Standard deviation of the rates: below 0.0005 for the marginal one of 200 000 packets (three
    // times that with burstiness), 0.005 for the conditional one over 10 000 losses.
    for (text, p, after_loss) in [
        ("loss=5%", 0.05, 0.05),
        ("loss=5% burst=0%", 0.05, 0.05),
        ("loss=5% burst=25%", 0.05, 0.25),
        ("loss=5% burst=75%", 0.05, 0.75),
        ("loss=50% burst=10%", 0.50, 0.10),
    ] {
        let lost = losses(&mut pipe(text, 42), 200_000);
        let all = lost.iter().filter(|&&l| l).count();
        let pairs = lost.windows(2).filter(|w| w[0] && w[1]).count();
        assert!((share(all, lost.len()) - p).abs() < 0.004, "{text}: {all}");
        let conditional = share(pairs, all);
        assert!(
            (conditional - after_loss).abs() < 0.02,
            "{text}: {conditional}"
        );
    }
}

#[test]
fn gilbert_elliott_keeps_its_stationary_rate() {
    let text = "gilbert=1%/20%/0.1%/50%";
    let expected = parsed(text).loss().marginal();
    assert!((expected - (0.5 / 21.0 + 0.001 * 20.0 / 21.0)).abs() < 1e-12);
    let lost = losses(&mut pipe(text, 3), 400_000);
    let measured = share(lost.iter().filter(|&&l| l).count(), lost.len());
    assert!((measured - expected).abs() < 0.002, "{measured} {expected}");
}

#[test]
fn a_trace_is_followed_and_repeated() {
    let lost = losses(&mut pipe("trace=010", 1), 7);
    assert_eq!(lost, [false, true, false, false, true, false, false]);
}

#[test]
fn a_rule_takes_the_place_of_the_losses_and_stays_when_the_model_changes() {
    let mut pipe = pipe("loss=100%", 1);
    let mut n = 0;
    pipe.set_loss_rule(Box::new(move |_, bytes| {
        n += 1;
        assert_eq!(bytes, 160);
        n % 3 == 0
    }));
    assert_eq!(
        losses(&mut pipe, 6),
        [false, false, true, false, false, true]
    );
    pipe.set_model(parsed("loss=100%"));
    assert_eq!(losses(&mut pipe, 3), [false, false, true]);
    assert_eq!(pipe.counts().lost, 3);
}

#[test]
fn the_first_packet_is_lost_as_often_as_any() {
    let first = (0..20_000)
        .filter(|&seed| losses(&mut pipe("loss=20% burst=80%", seed), 1)[0])
        .count();
    assert!((share(first, 20_000) - 0.2).abs() < 0.015, "{first}");
}

#[test]
fn jitter_spreads_evenly_and_keeps_the_order() {
    let mut pipe = pipe("delay=10ms jitter=2ms", 5);
    let (mut sum, mut low, mut high) = (0, u64::MAX, 0);
    // The packets are far enough apart that none has to wait for another one.
    for i in 0..20_000u64 {
        let sent = Time::ZERO + MS * (10 * i);
        let Verdict::Deliver(at) = pipe.admit(sent, 100) else {
            panic!("nothing is lost here")
        };
        let took = at.since(sent).as_micros();
        (sum, low, high) = (sum + took, low.min(took), high.max(took));
    }
    assert!((10_000..10_010).contains(&low) && (11_990..=12_000).contains(&high));
    assert!(
        (10_980..11_020).contains(&(sum / 20_000)),
        "mean {}",
        sum / 20_000
    );
}

#[test]
fn order_is_kept_unless_reordering_is_asked_for() {
    let overtakes = |text: &str| {
        let mut pipe = pipe(text, 9);
        let mut last = Time::ZERO;
        let mut count = 0;
        for i in 0..1000u64 {
            if let Verdict::Deliver(at) = pipe.admit(Time::from_nanos(i * 100_000), 100) {
                count += u32::from(at < last);
                last = at;
            }
        }
        count
    };
    assert_eq!(overtakes("delay=1ms jitter=5ms"), 0);
    assert!(overtakes("delay=1ms jitter=5ms reorder") > 300);
}

#[test]
fn loss_and_jitter_do_not_disturb_each_other() {
    let (mut plain, mut shaken) = (pipe("loss=10%", 8), pipe("loss=10% jitter=3ms", 8));
    assert_eq!(losses(&mut plain, 5000), losses(&mut shaken, 5000));
}

#[test]
fn the_rate_spaces_packets_and_the_queue_drops_the_rest() {
    // 1250 bytes at 10 Mbit/s take 1 ms each; of 60 at once, one is being sent and 50 wait.
    let mut pipe = pipe("rate=10mbit queue=50 delay=5ms", 1);
    let fates: Vec<Verdict> = (0..60).map(|_| pipe.admit(Time::ZERO, 1250)).collect();
    for (i, fate) in fates.iter().enumerate() {
        let expected = if i < 51 {
            Verdict::Deliver(Time::ZERO + MS * (i as u64 + 1 + 5))
        } else {
            Verdict::Drop(Reason::Queue)
        };
        assert_eq!(*fate, expected, "packet {i}");
    }
    // Half a packet later nothing has been sent; after the first one has, there is room for one.
    let later = Time::ZERO + Duration::from_micros(500);
    assert_eq!(pipe.admit(later, 1250), Verdict::Drop(Reason::Queue));
    let free = Time::ZERO + MS;
    assert!(matches!(pipe.admit(free, 1250), Verdict::Deliver(_)));
    assert_eq!(pipe.admit(free, 1250), Verdict::Drop(Reason::Queue));
    assert_eq!((pipe.counts().delivered, pipe.counts().queue), (52, 11));
}

#[test]
fn the_rate_is_kept_over_a_long_overload() {
    let mut pipe = pipe("rate=8mbit queue=20kB", 1);
    let mut last = Time::ZERO;
    // 16 Mbit/s are offered for 10 s: 10 MB pass, and what then still waits, at most 20 kB.
    for i in 0..40_000u64 {
        if let Verdict::Deliver(at) = pipe.admit(Time::from_nanos(i * 250_000), 500) {
            last = at;
        }
    }
    let bytes = pipe.counts().delivered * 500;
    assert!((10_000_000..10_021_000).contains(&bytes), "{bytes}");
    assert!(last.since(Time::ZERO + MS * 10_000) <= MS * 21);
}

#[test]
fn outages_keep_packets_out_by_switch_and_by_schedule() {
    let mut pipe = pipe("delay=1ms outage=10ms..20ms", 1);
    let mut at = |ms: u64| pipe.admit(Time::ZERO + MS * ms, 1);
    assert!(matches!(at(9), Verdict::Deliver(_)));
    assert_eq!(at(10), Verdict::Drop(Reason::Outage));
    assert_eq!(at(19), Verdict::Drop(Reason::Outage));
    assert!(matches!(at(20), Verdict::Deliver(_)));
    pipe.set_outage(true);
    let now = Time::ZERO + MS * 21;
    assert_eq!(pipe.admit(now, 1), Verdict::Drop(Reason::Outage));
    pipe.set_outage(false);
    assert_eq!(pipe.admit(now, 1), Verdict::Deliver(now + MS));
    assert_eq!(pipe.counts().outage, 3);
}

#[test]
fn a_new_model_does_not_wait_for_the_old_one() {
    let mut pipe = pipe("rate=1bit", 1);
    assert!(matches!(pipe.admit(Time::ZERO, 1500), Verdict::Deliver(_)));
    pipe.set_model(Model::default());
    assert_eq!(
        pipe.admit(Time::ZERO + MS, 1),
        Verdict::Deliver(Time::ZERO + MS)
    );
}

#[test]
fn a_line_hands_out_in_order_of_arrival() {
    let mut line = Line::new(
        parsed("delay=1ms jitter=20ms reorder loss=10%"),
        Rng::new(4),
    );
    let mut expected = Vec::new();
    for i in 0..500u64 {
        if let Verdict::Deliver(at) = line.push(Time::from_nanos(i * 50_000), 10, i) {
            expected.push((at, i));
        }
    }
    expected.sort();
    assert_eq!(line.len(), expected.len());
    for (at, item) in expected {
        assert_eq!(line.next(), Some(at));
        assert_eq!(line.pop_due(at - Duration::from_nanos(1)), None);
        assert_eq!(line.pop_due(at), Some(item));
    }
    assert!(line.is_empty() && line.next().is_none());
}

#[test]
fn a_share_of_what_arrives_comes_twice() {
    let mut line = Line::new(
        parsed("delay=1ms jitter=5ms loss=50% duplicate=10%"),
        Rng::new(6),
    );
    for i in 0..10_000u64 {
        line.push(Time::from_nanos(i * 10_000), 10, i);
    }
    let counts = line.pipe().counts();
    assert_eq!(counts.admitted(), 10_000);
    // 500 of the 5000 that arrive come twice; the standard deviation is 21.
    assert!((400..600).contains(&counts.duplicated), "{counts:?}");
    let mut seen = Vec::new();
    while let Some(at) = line.next() {
        seen.extend(line.pop_due(at));
    }
    assert_eq!(seen.len() as u64, counts.delivered + counts.duplicated);
    assert!(seen.is_sorted(), "order is kept, copies included");
}

#[test]
fn copies_do_not_disturb_loss_and_jitter() {
    let fates = |text: &str| {
        let mut pipe = pipe(text, 3);
        let fate = |i| {
            let verdict = pipe.admit(Time::from_nanos(i * 10_000_000), 10);
            if let Verdict::Deliver(at) = verdict {
                assert!(pipe.copy_of(at).is_none_or(|again| again >= at));
            }
            verdict
        };
        (0..1000u64).map(fate).collect::<Vec<_>>()
    };
    let plain = "loss=20% burst=50% delay=1ms jitter=1ms";
    assert_eq!(fates(plain), fates(&format!("{plain} duplicate=50%")));
}

#[test]
fn a_line_is_bounded() {
    let mut line = Line::new(parsed("delay=1s"), Rng::new(4));
    for _ in 0..LINE_PACKETS_MAX {
        assert!(matches!(line.push(Time::ZERO, 1, ()), Verdict::Deliver(_)));
    }
    assert_eq!(line.push(Time::ZERO, 1, ()), Verdict::Drop(Reason::Full));
    assert_eq!(line.pipe().counts().full, 1);
    line.clear();
    assert!(line.is_empty());
}

#[test]
fn a_path_carries_packets_up_to_its_mtu_and_longer_ones_take_nothing_of_its_rate() {
    let mut pipe = pipe("delay=1ms rate=8mbit queue=1 mtu=1300", 1);
    for _ in 0..100 {
        assert_eq!(pipe.admit(Time::ZERO, 1_301), Verdict::Drop(Reason::Mtu));
    }
    let at = Time::ZERO + Duration::from_micros(2_300);
    assert_eq!(pipe.admit(Time::ZERO, 1_300), Verdict::Deliver(at));
    let counts = pipe.counts();
    assert_eq!(
        (counts.too_long, counts.dropped(), counts.delivered),
        (100, 100, 1)
    );
}

#[test]
fn models_print_what_was_read() {
    for text in [
        "clean",
        "loss=5% burst=25% delay=10ms jitter=2ms rate=10mbit queue=50 outage",
        "loss=0.42% burst=72%",
        "delay=5ms mtu=1300 outage",
        "gilbert=1%/20%/0%/50% delay=1500us reorder duplicate=2%",
        "trace=00101 rate=64kbit queue=3000B outage=10s..12s outage=1500ms..2s",
    ] {
        assert_eq!(parsed(text).to_string(), text);
    }
    assert_eq!(parsed("loss=0.05 rate=1.5MBIT queue=64kB").to_string(), {
        "loss=5% rate=1500kbit queue=64000B"
    });
    assert_eq!(parsed("rate=1gbit").to_string(), "rate=1gbit queue=50");
    // Parsing accepts more units than printing uses.
    let text = "delay=5000ms rate=10mbit queue=50 outage=60s..120s";
    assert_eq!(parsed("delay=5s rate=10M outage=1m..2min"), parsed(text));
    assert_eq!(parsed("rate=10Mbit/s").to_string(), "rate=10mbit queue=50");
}

#[test]
fn bad_texts_say_what_was_expected() {
    for (text, part) in [
        ("loss", "`loss` is no impairment"),
        ("los=5%", "expected words like loss=5%"),
        ("loss=101%", "expected a share such as 5% or 0.05"),
        ("loss=5", "expected a share"),
        ("loss=-1%", "expected a share"),
        ("loss=nan", "expected a share"),
        ("loss=", "expected a share"),
        ("loss=1% loss=2%", "given twice"),
        ("burst=5%", "`burst` says nothing without `loss`"),
        ("queue=5", "`queue` says nothing without `rate`"),
        ("loss=5% trace=01", "exclude each other"),
        ("loss=90% burst=10%", "at least 88.89%"),
        ("loss=1% burst=100%", "never ends"),
        ("delay=10", "expected a time such as 10ms"),
        ("delay=10w", "expected a time"),
        ("delay=10h", "above the limit"),
        ("delay=1000s", "above the limit"),
        ("delay=99999999999999999999s", "above the limit"),
        ("rate=0bit", "use `outage`"),
        ("rate=10", "expected a rate"),
        ("rate=1mbit queue=70000", "above the limit of 65536"),
        ("rate=1mbit queue=64k", "packets such as 50, or bytes"),
        ("trace=012", "a row of 0"),
        ("trace=", "a loss trace has 1 to"),
        ("gilbert=1%/2%/3%", "four shares"),
        ("gilbert=1%/2%/3%/4%/5%", "four shares"),
        ("outage=2s..1s", "ends before it begins"),
        ("outage=2s", "10s..12s"),
        ("mtu=0", "expected bytes such as 1300"),
        ("mtu=1kB", "expected bytes such as 1300"),
        ("mtu=1300 mtu=1300", "given twice"),
        ("duplicate=2", "expected a share"),
        ("duplicate", "`duplicate` is no impairment"),
        ("clean loss=5%", "`clean` is no impairment"),
    ] {
        let error = text.parse::<Model>().unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

/// Generates texts of which about one in ten is a model.
const WORDS: &str = "((loss|burst|delay|jitter|rate|queue|outage|gilbert|trace)\
    (=[0-9]{1,3}(%|ms|mbit|kB|\\.|/|[a-z]|s\\.\\.9s|))? |[ -~]{0,3}|reorder|outage ){0,3}";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_model_reads_back_as_itself(
        p in 0.0f64..0.5, b in 0.0f64..0.999, delay in 0u64..10_000_000_000,
        rate in 1u64..u64::MAX, bytes in 0usize..1 << 40, switch: bool,
    ) {
        let model = Model::default()
            .with_loss(LossModel::Conditional { p, burstiness: b }).unwrap()
            .with_delay(Duration::from_nanos(delay)).unwrap()
            .with_jitter(Duration::from_nanos(delay / 3)).unwrap()
            .with_rate(rate, Queue::Bytes(bytes)).unwrap()
            .with_outage(switch)
            .with_reordering(!switch);
        prop_assert_eq!(model.to_string().parse::<Model>(), Ok(model));
    }

    #[test]
    fn no_text_panics(text in WORDS) {
        if let Ok(model) = text.parse::<Model>() {
            prop_assert_eq!(model.to_string().parse::<Model>(), Ok(model));
        }
    }

    /// Whether datagrams are sent singly or as a burst, each has the same fate.
    #[test]
    fn a_burst_fares_as_its_datagrams_do(
        text in "(loss=30% burst=50% )?(delay=1ms )?(jitter=1us )?(rate=1gbit queue=5)?( reorder)?( duplicate=30%)?",
        segments in 1usize..40, last in 1usize..=50, seed: u64,
    ) {
        let pool = Pool::new(1, 64);
        let bytes: Vec<u8> = (0..segments * 50 + last).map(|i| (i / 50) as u8).collect();
        let mut burst = pool.large().unwrap();
        burst.spare_mut()[..bytes.len()].copy_from_slice(&bytes);
        burst.fill(bytes.len(), 50);
        let mut together = Line::new(parsed(&text), Rng::new(seed));
        let mut singly = Line::new(parsed(&text), Rng::new(seed));
        for datagram in bytes.chunks(50) {
            singly.push(Time::ZERO, datagram.len(), datagram.to_vec());
        }
        together.push_burst(Time::ZERO, burst, &pool);
        prop_assert_eq!(together.pipe().counts(), singly.pipe().counts());
        while let Some(at) = together.next() {
            let burst = together.pop_due(at).unwrap();
            for i in 0..burst.segments() {
                prop_assert_eq!(singly.next(), Some(at));
                let expected = singly.pop_due(at).unwrap();
                prop_assert_eq!(burst.segment(i), expected.as_slice());
            }
        }
        prop_assert!(singly.is_empty());
        prop_assert_eq!(pool.in_use(), (0, 0));
    }

    /// Compares with a queue that is simulated packet by packet from the definition.
    #[test]
    fn the_queue_agrees_with_a_naive_one(
        steps in proptest::collection::vec((0u64..3_000_000, 1usize..1500), 1..150),
        limit in 0usize..8,
    ) {
        let model = Model::default().with_rate(4_000_000, Queue::Packets(limit)).unwrap();
        let mut pipe = Pipe::new(model, Rng::new(1));
        let mut now = Time::ZERO;
        let mut accepted: Vec<Time> = Vec::new();
        for (wait, bytes) in steps {
            now += Duration::from_nanos(wait);
            let present = accepted.iter().filter(|left| **left > now).count();
            let start = accepted.last().map_or(now, |left| now.max(*left));
            let left = start + Duration::from_nanos(bytes as u64 * 8 * 250);
            let expected = if present > limit {
                Verdict::Drop(Reason::Queue)
            } else {
                accepted.push(left);
                Verdict::Deliver(left)
            };
            prop_assert_eq!(pipe.admit(now, bytes), expected);
        }
    }
}
