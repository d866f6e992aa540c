//! Acknowledgements that wait for the next segment, and the probes meanwhile.

use super::*;

/// Returns two ends with a good channel between them.
fn quiet(delay_ms: u64) -> Pair {
    let channel = Channel {
        loss_pct: 0,
        twice_pct: 0,
        delay_ms,
        jitter_ms: 0,
    };
    Pair::new(LinkProtocol::BestEffort, Framing::Bytes, channel, 1)
}

/// Lets one end write bytes that are lost. Returns how long it takes until that end probes, beyond two round trips.
fn asks_after(pair: &mut Pair) -> Duration {
    let rtt = pair.ends[0].sender.rtt().present().unwrap();
    let from = pair.now;
    pair.channel.loss_pct = 100;
    pair.write(0, 160);
    pair.flush(0);
    pair.channel.loss_pct = 0;
    let before = pair.posted[1];
    while pair.posted[1] == before {
        pair.step();
    }
    pair.now.since(from).saturating_sub(rtt * 2)
}

/// Returns two ends after one has written 160 bytes every 20 ms, for two seconds.
fn thin(is_old: bool) -> Pair {
    let mut pair = quiet(3);
    pair.is_old = is_old;
    for _ in 0..100 {
        pair.step();
    }
    pair.posted = [0; 2];
    for step in 0..2_000 {
        if step % 20 == 0 {
            pair.write(0, 160);
        }
        pair.step();
    }
    assert_eq!(pair.posted[1], 100, "nothing is asked for or sent again");
    pair
}

#[test]
fn a_thin_stream_is_acknowledged_every_second_time_where_its_sender_lets_it() {
    let pair = thin(false);
    assert!((45..=55).contains(&pair.posted[0]), "{}", pair.posted[0]);
    // The wait of an acknowledgement is no part of the round trip.
    let rtt = pair.ends[0].sender.rtt().smoothed().unwrap();
    assert!(rtt <= Duration::from_millis(9), "{rtt}");
    assert!(
        thin(true).posted[0] >= 99,
        "an older sender is answered at once"
    );
}

#[test]
fn a_gap_and_what_stands_alone_are_acknowledged_at_once() {
    let mut pair = thin(false);
    let step_until_heard = |pair: &mut Pair, most: u64| {
        let (before, from) = (pair.posted[0], pair.now);
        while pair.posted[0] == before && pair.now < from + Duration::from_millis(most) {
            pair.step();
        }
        pair.now.since(from)
    };
    for _ in 0..1_000 {
        pair.step();
    }
    pair.write(0, 160);
    let alone = step_until_heard(&mut pair, 100);
    assert!(alone <= Duration::from_millis(5), "{alone}");
    for _ in 0..100 {
        pair.step();
    }
    // The second of three segments in a thin stream is lost. The third one shows the loss.
    for number in 0..3 {
        pair.channel.loss_pct = if number == 1 { 100 } else { 0 };
        pair.write(0, 160);
        pair.flush(0);
        pair.channel.loss_pct = 0;
        if number < 2 {
            for _ in 0..20 {
                pair.step();
            }
        }
    }
    let gap = step_until_heard(&mut pair, 100);
    assert!(gap <= Duration::from_millis(4), "{gap}");
    let told = pair.ends[1].ranges(&mut [(0, 0); RANGES_MAX]);
    assert_eq!(told, 1, "the gap is told");
}

#[test]
fn the_tail_of_a_thin_stream_is_asked_for_later_only_if_the_peer_lets_it_wait() {
    let mut new = thin(false);
    let after = asks_after(&mut new);
    assert!(after >= Duration::from_millis(29), "{after}");
    let mut old = thin(true);
    let after = asks_after(&mut old);
    assert!(after <= Duration::from_millis(7), "{after}");
}

#[test]
fn a_dialogue_never_waits_and_what_is_lost_of_it_is_asked_for_as_soon_as_ever() {
    let mut pair = quiet(5);
    while !pair.ends[0].is_open() || pair.credit[0] == 0 {
        pair.step();
    }
    // The handshake does not count as a gap of a stream.
    let mut heard = [0; 2];
    pair.write(0, 100);
    for _ in 0..1_000 {
        pair.step();
        for (i, heard) in heard.iter_mut().enumerate() {
            if pair.read[i].len() > *heard {
                *heard = pair.read[i].len();
                pair.write(i, 100);
            }
        }
    }
    assert!(heard[0] > 5_000, "{heard:?}");
    assert_eq!(pair.patient, 0);
    // The next request comes when the answer to the last one has arrived.
    while pair.read[0].len() == heard[0] {
        pair.step();
        if pair.read[1].len() > heard[1] {
            heard[1] = pair.read[1].len();
            pair.write(1, 100);
        }
    }
    let after = asks_after(&mut pair);
    assert!(after <= Duration::from_millis(7), "{after}");
}

#[test]
fn all_that_leaves_after_a_wait_echoes_the_same() {
    let mut pair = thin(false);
    let mut is_held = false;
    for _ in 0..2 {
        let before = pair.posted[0];
        pair.write(0, 160);
        (0..10).for_each(|_| pair.step());
        is_held = pair.posted[0] == before;
        if is_held {
            break;
        }
        (0..10).for_each(|_| pair.step());
    }
    assert!(is_held);
    pair.write(1, 4_000);
    pair.flush(1);
    let answers = pair.way.iter().filter(|(_, _, to, _)| *to == 0);
    let echoes: Vec<u32> = answers
        .map(|(.., packet)| Segment::parse(packet).unwrap().segment.echo_us)
        .collect();
    assert!(echoes.len() >= 3, "{echoes:?}");
    assert!(
        echoes.iter().all(|echo| *echo == echoes[0] && *echo != 0),
        "{echoes:?}"
    );
}
