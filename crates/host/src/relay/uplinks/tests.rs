use super::*;
use net::tcp::Info;

fn info(unacked: u32, acked: u64, silent_ms: u32) -> Info {
    Info {
        unacked,
        acked,
        silent_ms,
        ..Info::default()
    }
}

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

#[test]
fn what_was_idle_for_long_is_not_lost_in_its_first_round_trip() {
    let mut silence = Silence::new(at(0));
    let mut is_lost = |now, info| silence.look(now, &info).is_lost;
    assert!(!is_lost(at(0), info(0, 5_000, 0)));
    assert!(!is_lost(at(30_000), info(0, 5_000, 30_000)));
    // It retransmits, and no answer can have arrived yet.
    assert!(!is_lost(at(30_500), info(10, 5_000, 30_500)));
    assert!(!is_lost(at(31_000), info(10, 9_000, 20)));
    // A node whose program reads nothing still answers keepalive probes.
    assert!(!is_lost(at(42_000), info(10, 9_000, 900)));
}

#[test]
fn what_is_acknowledged_no_more_is_lost() {
    let mut silence = Silence::new(at(0));
    let mut is_lost = |now, info| silence.look(now, &info).is_lost;
    assert!(!is_lost(at(0), info(10, 5_000, 0)));
    for ms in (500..10_500).step_by(500) {
        let lost = is_lost(at(ms), info(10, 6_000, ms as u32));
        assert!(!lost, "{ms}");
    }
    assert!(is_lost(at(10_500), info(12, 6_000, 10_500)));
}

#[test]
fn quiet_is_on_which_nothing_moves_either_way() {
    let mut silence = Silence::new(at(0));
    let mut quiet = |ms, acked, received| {
        let told = Info {
            received,
            ..info(0, acked, 0)
        };
        silence.look(at(ms), &told).quiet
    };
    assert_eq!(quiet(500, 9, 0), Duration::ZERO);
    assert_eq!(quiet(1_000, 9, 4), Duration::ZERO);
    assert_eq!(quiet(1_500, 9, 4), QUIET);
    assert_eq!(quiet(2_000, 10, 4), Duration::ZERO);
}

#[test]
fn the_overlay_is_asked_each_half_second_and_later_more_seldom_if_nothing_is_under_way() {
    let asked = |is_pending| {
        let mut schedule = Schedule {
            ask: at(0),
            rests_until: at(0),
        };
        let due = (0..=60_000).step_by(250).filter(|ms| {
            let look = WireLook {
                quiet: Duration::from_millis(*ms),
                is_pending,
                is_lost: false,
                heard: Duration::ZERO,
            };
            schedule.is_due(at(*ms), &look)
        });
        due.collect::<Vec<u64>>()
    };
    let halves = |until| (500..=until).step_by(500).collect::<Vec<u64>>();
    assert_eq!(asked(true), halves(60_000));
    let idle = asked(false);
    assert_eq!(idle[..10], halves(5_000));
    assert_eq!(
        idle[10..],
        [10_000, 18_000, 26_000, 34_000, 42_000, 50_000, 58_000]
    );
}

#[test]
fn connections_between_the_same_addresses_are_quiet_together() {
    let pair = || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    };
    let [(one, mut far), (other, _idle)] = [pair(), pair()];
    let to = NodeAddr(7);
    let mut wires = Wires::default();
    for tcp in [one, other] {
        wires.add(at(0), to, &Arc::new(Socket::Tcp(tcp)));
    }
    assert_eq!(wires.all.len(), 1);
    let quiet = |found| match found {
        Found::Quiet(quiet) => quiet.into_iter().map(|(_, span)| span).collect::<Vec<_>>(),
        Found::Lost(_) | Found::Gone(_) => panic!("one pair of addresses is no choice"),
    };
    assert_eq!(quiet(wires.look(at(0))), []);
    assert_eq!(quiet(wires.look(at(600))), [Duration::from_millis(600)]);
    std::io::Write::write_all(&mut far, &[0; 100]).unwrap();
    assert_eq!(quiet(wires.look(at(1_200))), []);
    let ends = wires.all[0].ends;
    assert_eq!(quiet(wires.look(at(1_700))), [Duration::from_millis(500)]);
    wires.on_no_choice(at(1_700), ends);
    assert_eq!(quiet(wires.look(at(2_500))), []);
}

/// Returns a path of a healthy neighbour: from, at.
fn path(from: &str, to: &str, in_use: bool) -> PathHealth {
    let underlay = |text: &str| net::addr::underlay(text.parse().unwrap(), 0);
    PathHealth {
        from: Some(underlay(from)),
        at: underlay(to),
        state: State::Up,
        silence: Some(Duration::from_millis(90)),
        in_use,
    }
}

fn dead(path: PathHealth) -> PathHealth {
    PathHealth {
        state: State::Down,
        silence: Some(Duration::from_millis(1_200)),
        ..path
    }
}

#[test]
fn a_pair_of_addresses_is_lost_if_all_its_paths_are_and_another_is_in_use() {
    const PAIR: [&str; 2] = ["10.2.0.1", "10.2.0.2"];
    let used = path("10.1.0.1:7700", "10.1.0.2:7700", true);
    let this = path("10.2.0.1:7700", "10.2.0.2:7700", false);
    let any = |to, in_use| path("0.0.0.0:7700", to, in_use);
    let with = |path: PathHealth, state, ms: Option<u64>| PathHealth {
        state,
        silence: ms.map(Duration::from_millis),
        ..path
    };
    let stream = |path: PathHealth| PathHealth {
        at: UnderlayAddr {
            socket: UnderlayAddr::STREAM,
            ..path.at
        },
        ..path
    };
    let second = Duration::from_secs(1);
    let table: &[(&str, &[PathHealth], Duration, bool)] = &[
        ("it is dead", &[used, dead(this)], second, true),
        ("it is up", &[used, this], second, false),
        (
            "asked",
            &[used, with(this, State::Probing, Some(1_200))],
            second,
            false,
        ),
        (
            "opened just now",
            &[used, with(this, State::Down, Some(200))],
            second,
            false,
        ),
        (
            "never heard",
            &[used, with(this, State::Down, None)],
            second,
            false,
        ),
        ("it is not listed", &[used], second, false),
        ("no neighbour", &[], second, false),
        ("all are dead", &[dead(used), dead(this)], second, false),
        (
            "in use, but asked",
            &[with(used, State::Probing, Some(200)), dead(this)],
            second,
            false,
        ),
        (
            "the other is a stream",
            &[stream(used), dead(this)],
            second,
            false,
        ),
        ("it is a stream", &[used, stream(dead(this))], second, false),
        (
            "TCP outlives UDP",
            &[used, with(this, State::Down, Some(9_000))],
            second,
            false,
        ),
        (
            "both since long",
            &[used, with(this, State::Down, Some(9_000))],
            second * 8,
            true,
        ),
        (
            "any socket",
            &[
                any("10.1.0.2:7700", true),
                dead(any("10.2.0.2:7700", false)),
            ],
            second,
            true,
        ),
        (
            "any socket, two paths to it",
            &[
                any("10.2.0.2:7700", true),
                dead(any("10.2.0.2:7700", false)),
            ],
            second,
            false,
        ),
        (
            "any socket, two dead paths to it",
            &[
                any("10.1.0.2:7700", true),
                dead(any("10.2.0.2:7700", false)),
                dead(any("10.2.0.2:7700", false)),
            ],
            second,
            true,
        ),
        (
            "of another own address",
            &[used, dead(path("10.3.0.1:7700", "10.2.0.2:7700", false))],
            second,
            false,
        ),
    ];
    for (what, paths, quiet, lost) in table {
        let pair = PAIR.map(|ip| ip.parse().unwrap());
        assert_eq!(is_lost(paths, pair, *quiet), *lost, "{what}");
    }
}

#[test]
fn as_many_connections_are_used_as_it_takes_to_have_all_uplinks() {
    let least = |ends: &[u8]| Uplinks::of(ends.iter().copied()).least();
    assert_eq!(least(&[1, 1, 1]), 1);
    assert_eq!(least(&[1, 2, 3, 1]), 3);
    // The second and third connections fell back to the first uplink.
    assert_eq!(least(&[1, 1, 1, 4, 1]), 4);
    assert_eq!(least(&[1, 1, 3, 1]), 3);
    assert_eq!(least(&[]), 1);
    assert_eq!(Uplinks::of([7, 7, 9, 7]).each(), [0, 0, 1, 0]);
}

/// Two connections to one node, control and data, which are silent at different times.
#[test]
fn a_node_is_gone_when_no_connection_to_it_is_heard_and_one_alone_does_not_decide() {
    let heard = |ms: u64| WireLook {
        quiet: Duration::ZERO,
        is_pending: true,
        is_lost: false,
        heard: Duration::from_millis(ms),
    };
    let gone = |awake_ms, each: &[u64]| {
        let each = each.iter().map(|ms| heard(*ms));
        Wires::is_gone(Duration::from_millis(awake_ms), each)
    };
    assert!(!gone(60_000, &[30_000, 200]));
    assert!(!gone(60_000, &[9_900, 30_000]));
    assert!(gone(60_000, &[10_000, 30_000]));
    // The process has just woken up: it may have missed answers.
    assert!(!gone(500, &[60_000, 60_000]));
    assert!(!gone(60_000, &[]));
}
