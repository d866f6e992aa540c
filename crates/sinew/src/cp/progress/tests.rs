//! Tests the texts about a copy, and the use of the reports of its ends.

use super::*;

#[test]
fn what_was_predicted_is_told_beside_what_came_of_it() {
    let predicted = |is_known| Prediction {
        rate_bps: 12_000_000,
        low_bps: 9_000_000,
        high_bps: Some(15_000_000),
        confidence: "model",
        is_known,
    };
    assert_eq!(foretold(predicted(false), 1e6), ", unknown before");
    assert_eq!(
        foretold(predicted(true), 10_800_000.0),
        ", 12.0 Mbit/s predicted (9.0 to 15.0, model): -10 %"
    );
}

#[test]
fn what_is_expected_is_said_with_its_range_and_its_time() {
    let predicted = Prediction {
        rate_bps: 12_000_000,
        low_bps: 9_000_000,
        high_bps: Some(15_000_000),
        confidence: "measured",
        is_known: true,
    };
    assert_eq!(
        expected(Some(predicted), Some(36_000_000)),
        "expects 12.0 Mbit/s (9.0 to 15.0, measured): 24s for all 36.0 MB"
    );
    let open = Prediction {
        high_bps: None,
        ..predicted
    };
    assert_eq!(
        expected(Some(open), None),
        "expects 12.0 Mbit/s (9.0 or more, measured)"
    );
    assert!(expected(None, Some(5)).contains("unknown"));
}

#[test]
fn which_file_it_is_and_the_digest_of_a_single_one_are_told() {
    let args = crate::transfers::parse(&["a", "b:x"].map(str::to_owned)).unwrap();
    let meter = Meter::new(&args, None);
    let total = Total {
        files: 3,
        bytes: 40,
        room: 40,
    };
    meter.on(Progress::Total(total));
    meter.on(Progress::Kept(EntryKind::Link, 0));
    meter.on(Progress::Kept(EntryKind::File, 10));
    let line = || meter.line(&mut meter.state(), meter.now(), 80);
    assert!(line().ends_with("  file 2 of 3"), "{}", line());
    assert!(line().starts_with("[..........] 0 %"), "{}", line());
    meter.on(Progress::File(b"", [0xab; 32]));
    assert!(line().ends_with("  file 3 of 3"), "{}", line());
    let text = meter.text(&meter.state(), ("to", &["b:x".to_owned()]), 40, 1.0);
    let digest = format!("\n  BLAKE3 {}", "ab".repeat(32));
    assert!(text.ends_with(&digest), "{text}");
}

#[test]
fn what_the_last_segment_has_carried_counts_before_it_is_acknowledged() {
    let told = |bytes, rate_bps| Told {
        last: Segment {
            bytes,
            rate_bps,
            ..Segment::default()
        },
        ..Told::default()
    };
    let node = NodeAddr;
    let state = State {
        written: 500_000,
        segments: BTreeMap::from([
            ((node(1), node(2)), told(12_000_000, 20_000_000)),
            ((node(2), node(3)), told(9_700_000, 16_000_000)),
        ]),
        ..State::default()
    };
    let at = |ms| base::Time::ZERO + base::Duration::from_millis(ms);
    assert_eq!(state.arrived(at(0)), 9_700_000);
    assert_eq!(state.arrived(at(500)), 10_700_000, "it goes on meanwhile");
    assert_eq!(state.arrived(at(9_000)), 11_700_000, "but not for ever");
    assert_eq!(State::default().arrived(at(0)), 0);
}

#[test]
fn the_end_for_which_the_others_wait_is_named_and_then_left() {
    let args = crate::transfers::parse(&["a", "b:x"].map(str::to_owned)).unwrap();
    let meter = Meter::new(&args, Some(9_000));
    let told = |seconds| {
        let awaited = (NodeAddr(2), Duration::from_secs(seconds));
        assert!(!meter.on(Progress::Awaited(Some(awaited))));
        let line = meter.line(&mut meter.state(), meter.now(), 80);
        (line.contains("waits for 0.0.0.2"), meter.stalled())
    };
    assert_eq!(told(1), (false, None), "it may go on");
    assert_eq!(told(2), (true, None));
    assert_eq!(told(29), (true, None));
    assert_eq!(told(30), (true, Some(NodeAddr(2))));
    meter.on(Progress::Awaited(None));
    assert_eq!(meter.stalled(), None);
    assert!(!meter.has_moved());
}

#[test]
fn the_segment_that_is_never_idle_limits() {
    let told = |waited, starved| Told {
        seconds: 10,
        waited,
        starved,
        ..Told::default()
    };
    let node = NodeAddr;
    let segments = BTreeMap::from([
        ((node(1), node(2)), told(9_000, 500)),
        ((node(2), node(3)), told(100, 0)),
        ((node(3), node(4)), told(0, 8_000)),
    ]);
    assert_eq!(limiting(&segments), Some((node(2), node(3))));
    assert_eq!(limiting(&BTreeMap::new()), None);
}

#[test]
fn what_is_to_come_is_all_where_nothing_is_there_and_else_what_the_ends_lack() {
    let args = crate::transfers::parse(&["a", "b:x"].map(str::to_owned)).unwrap();
    let many = 1 << 30;
    let anew = Meter::new(&args, Some(many));
    assert!(!anew.on(Progress::Anew));
    anew.on(Progress::Entry(0));
    assert_eq!(anew.to_come(), None, "a directory says nothing");
    anew.on(Progress::File(b"empty", [0; 32]));
    anew.on(Progress::Entry(10));
    assert_eq!(anew.to_come(), Some(many));
    assert!(args.probe_bytes(&anew).is_some());
    // The first file is new or changed, and the ends have some of the later files.
    for is_kept in [false, true] {
        let again = Meter::new(&args, Some(many));
        again.on(Progress::Entry(0));
        if is_kept {
            again.on(Progress::Kept(EntryKind::File, 10));
        }
        again.on(Progress::Entry(1_000));
        assert_eq!(again.to_come(), Some(1_000));
        assert_eq!(args.probe_bytes(&again), None);
    }
    let goes_on = Meter::new(&args, Some(many));
    goes_on.on(Progress::Anew);
    goes_on.on(Progress::From(many - 5));
    goes_on.on(Progress::Entry(many));
    assert_eq!(goes_on.to_come(), Some(5));
    goes_on.on(Progress::Written(5));
    assert_eq!(goes_on.to_come(), Some(0));
}
