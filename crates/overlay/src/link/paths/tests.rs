//! The choice of the spare that takes the place of the path in use.

use super::*;
use crate::Settings;
use base::NodeAddr;
use wire::control::{Echo, Hello};

const RTT: Duration = Duration::from_millis(10);

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(10_000 + ms)
}

fn stamp(at: Time) -> u32 {
    at.as_micros() as u32
}

/// A hello arrives that answers one of a round trip before.
fn hear(path: &mut Path, now: Time, hello: Hello) -> Option<crate::hello::Event> {
    let hello = Hello {
        interval_ms: 50,
        stamp_us: stamp(now),
        ..hello
    };
    path.hello.on_hello(now, Duration::ZERO, &hello)
}

fn heard() -> Hello {
    Hello {
        i_hear_you: true,
        ..Hello::default()
    }
}

fn answered(now: Time) -> Hello {
    Hello {
        echo: Some(Echo {
            stamp_us: stamp(now - RTT),
            hold_us: 0,
        }),
        ..heard()
    }
}

/// A link with a path in use and two spares, all of which are up.
fn three_paths() -> Link {
    let settings = Settings {
        uplinks: Uplinks::One,
        ..Settings::modern()
    };
    let mut link = Link::new(NodeAddr(2), "b", &settings, 1, at(0));
    for id in PathId::all().skip(1).take(2) {
        link.spares
            .push(Path::new(id, settings.hello, settings.metric, at(0)));
    }
    for (port, path) in (1..).zip(link.paths_mut()) {
        path.at = Some(UnderlayAddr {
            port,
            ..UnderlayAddr::default()
        });
        for ms in (0..5_000).step_by(50) {
            let _ = hear(path, at(ms), answered(at(ms)));
        }
    }
    assert!(link.paths().all(Path::is_up));
    link
}

/// Both spares are heard, and only one of them has answered since: for the other one, it is unknown whether what is
/// sent arrives.
#[test]
fn where_the_neighbour_hears_nothing_a_spare_that_was_proved_takes_over() {
    let mut link = three_paths();
    let doubts = Hello {
        doubts: true,
        ..heard()
    };
    let _ = hear(&mut link.path, at(5_000), doubts);
    link.watch_spares(at(5_000));
    assert_eq!(link.choice.doubted, Some(at(5_000)));
    let _ = hear(&mut link.spares[0], at(5_100), heard());
    let _ = hear(&mut link.spares[1], at(5_100), answered(at(5_100)));
    let event = hear(&mut link.path, at(5_200), Hello::default());
    assert!(event.is_some() && !link.path.is_up(), "{event:?}");
    link.watch_spares(at(5_200));
    let proved = link.spares[1].at;
    let changed = link.choose_path(at(5_200)).map(|changed| changed.to);
    assert_eq!(changed, proved);
    assert_eq!(link.choice.doubted, None, "the new path is in no doubt");
}

#[test]
fn one_far_end_is_the_same_by_both_uplinks_and_another_one_by_a_stream() {
    let at = |socket: u8, port: u16| UnderlayAddr {
        socket,
        port,
        ..UnderlayAddr::default()
    };
    assert!(is_same_far_end(at(0, 7_700), at(1, 7_700)));
    assert!(!is_same_far_end(at(0, 7_700), at(0, 7_701)));
    let stream = at(UnderlayAddr::STREAM, 7_700);
    assert!(!is_same_far_end(at(0, 7_700), stream));
}
