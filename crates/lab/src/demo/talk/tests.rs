use super::super::judge::judge;
use super::*;
use tools::pace::DEADLINE;
use voice::call::Original;
use voice::g711::Law;

const PACKETS: u32 = 100;

/// Returns the WAV file that a listener hears if a call's packets are sent with `send`.
fn heard(
    original: &Original,
    send: impl Fn(&[u8; FRAME_SAMPLES], u32) -> [u8; FRAME_SAMPLES],
) -> Vec<u8> {
    let direct = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    direct.set_nonblocking(true).unwrap();
    let listener = Listener {
        direct,
        overlays: Vec::new(),
    };
    let to = listener.direct_address().unwrap();
    let clock = Clock::new();
    let schedule = Schedule {
        start: clock.now(),
        calls: 1,
        packets: PACKETS,
    };
    let live = Live::new(1);
    let phone = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut sent = Moments::new(1, PACKETS);
    let arrived = std::thread::scope(|scope| {
        let listening = scope.spawn(|| listener.run(clock, schedule, original.packets(), &live));
        for (index, frame) in (0..).zip(original.packets()) {
            let place = Place { source: 0, index };
            sent.note(0, index, clock.now());
            phone
                .send_to(&place::emit(place, &send(frame, index)), to)
                .unwrap();
            // Packets are sent one after the other, so that none is lost; if the listener fails, the test does.
            while live.arrived[0].load(Ordering::Relaxed) <= u64::from(index)
                && !listening.is_finished()
            {
                std::thread::yield_now();
            }
        }
        live.stop.store(true, Ordering::Release);
        listening.join().unwrap().unwrap()
    });
    let calls = vec![pace::delays_us(&sent, &arrived.ways[0], 0)];
    let judged = judge(
        original,
        (calls, &arrived.altered[0]),
        DEADLINE * 100,
        |_| true,
    );
    let evaluation = judged.unwrap().unwrap().evaluations.swap_remove(0);
    assert_eq!(evaluation.totals.played, PACKETS);
    voice::wav::write(&evaluation.received)
}

#[test]
fn what_is_written_is_what_arrived() {
    let original = Original::new(&voice::sample::speech()[..16_000], Law::Mu).unwrap();
    let whole = heard(&original, |frame, _| *frame);
    let lossless = original
        .evaluate(&vec![Some(1); PACKETS as usize], None)
        .unwrap();
    assert_eq!(whole, voice::wav::write(&lossless.received));
    let altered = heard(&original, |frame, index| match index {
        50 => frame.map(|code| code ^ 0x55),
        _ => *frame,
    });
    assert_ne!(altered, whole);
    // The file has the same length, and the same contents before the altered packet.
    assert_eq!(altered.len(), whole.len());
    assert_eq!(altered[..40 * 320], whole[..40 * 320]);
}
