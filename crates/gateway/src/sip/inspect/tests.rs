use super::*;
use core::time::Duration;

/// The cost of a message in the tests.
const COST: usize = 2_048;

fn gate() -> Arc<Gate> {
    Gate::new(Arc::default())
}

/// Simulates a message of this length, which is taken up at once.
fn ask(gate: &Gate, from: IpAddr, bytes: usize, tag: Option<&str>) {
    assert!(gate.lets(from, COST, Instant::now()));
    gate.taken_up(from);
    gate.heard(from, bytes, tag);
}

fn answer(call: usize) -> Vec<u8> {
    format!(
        "SIP/2.0 404 Not Found\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
         From: <sip:a@a.example>;tag=a\r\nTo: <sip:b@b.example>;tag=told{call}\r\n\
         Call-ID: {call}\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

/// Sends the answers of `calls` calls in turn, as often as timer G repeats them: 11 times in 32 s. Returns the number
/// of bytes that were sent.
fn tell(gate: &Gate, to: IpAddr, calls: usize) -> usize {
    let answers = (0..11).flat_map(|_| (0..calls).map(answer));
    let told = answers.filter(|answer| gate.may_tell(to, answer, Instant::now()));
    told.map(|answer| answer.len()).sum()
}

#[test]
fn a_source_has_its_rate_and_others_theirs() {
    let gate = gate();
    let [one, other] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
    let now = Instant::now();
    let lets = |from, now| {
        let may = gate.lets(from, COST, now);
        if may {
            gate.taken_up(from);
        }
        may
    };
    let passed = (0..3 * BURST as usize).filter(|_| lets(one, now));
    assert_eq!(passed.count(), BURST as usize);
    assert!(lets(other, now));
    let later = now + Duration::from_millis(10);
    let passed = (0..100).filter(|_| lets(one, later));
    assert_eq!(passed.count(), 20);
    assert_eq!(gate.locked().waiting, 0);
}

#[test]
fn answers_amplify_little_however_many_calls_they_are_of() {
    for calls in [1, 8, 9, 40] {
        let (gate, at) = (gate(), IpAddr::from([192, 0, 2, 1]));
        let asked = answer(0).len();
        (0..calls).for_each(|_| ask(&gate, at, asked, None));
        let told = tell(&gate, at, calls);
        // Each answer is sent once, and then as often as the credit permits.
        assert!(told >= calls * asked, "{calls}: {told}");
        assert!(told <= 3 * calls * (asked + 4), "{calls}: {told}");
        assert!(gate.counters.unproven.value() > 0);
        // A guessed tag proves nothing, but a known one does.
        ask(&gate, at, asked, Some("guessed"));
        assert!(tell(&gate, at, calls) <= 2 * asked);
        if calls == 1 {
            ask(&gate, at, asked, Some("told0"));
            assert_eq!(tell(&gate, at, calls), 11 * asked);
        }
    }
}

#[test]
fn a_first_answer_does_not_use_up_what_its_repetitions_need() {
    let (gate, at) = (gate(), IpAddr::from([192, 0, 2, 1]));
    // Trying, ringing, and the answer, each as long as the request.
    ask(&gate, at, answer(0).len(), None);
    let now = Instant::now();
    assert!((0..3).all(|n| gate.may_tell(at, &answer(n), now)));
    assert!((0..2).all(|_| gate.may_tell(at, &answer(2), now)));
    assert!(!gate.may_tell(at, &answer(2), now));
}

#[test]
fn who_was_forgotten_for_others_is_still_told_its_answers() {
    let (gate, at) = (gate(), IpAddr::from([192, 0, 2, 1]));
    ask(&gate, at, 400, None);
    for n in 0..=SOURCES_MAX as u32 {
        ask(
            &gate,
            IpAddr::from((0x0b00_0000 + n).to_be_bytes()),
            400,
            None,
        );
    }
    assert!(!gate.locked().sources.contains_key(&at));
    assert!(gate.may_tell(at, &answer(0), Instant::now()));
    assert!(!gate.may_tell(at, &answer(0), Instant::now()), "once");
    // Answers do not create additional sources either.
    for n in 0..=SOURCES_MAX as u32 {
        let to = IpAddr::from((0x0c00_0000 + n).to_be_bytes());
        assert!(gate.may_tell(to, &answer(0), Instant::now()));
    }
    assert!(gate.locked().sources.len() <= SOURCES_MAX);
    // Requests are not limited like answers.
    let other = IpAddr::from([192, 0, 2, 2]);
    assert!((0..20).all(|_| gate.may_tell(
        other,
        b"OPTIONS sip:a@b SIP/2.0\r\n\r\n",
        Instant::now()
    )));
}

#[test]
fn what_waits_is_bounded_for_each_and_for_all() {
    let gate = gate();
    let now = Instant::now();
    let source = |n: usize| IpAddr::from([192, 0, 2, n as u8]);
    let flood = |n| (0..500).filter(|_| gate.lets(source(n), COST, now)).count();
    assert_eq!(flood(0), WAITING_OF_ONE_MAX / COST);
    assert_eq!(
        (1..20).map(flood).sum::<usize>(),
        (WAITING_MAX - WAITING_OF_ONE_MAX) / COST
    );
    gate.taken_up(source(0));
    assert!(!gate.lets(source(30), 2 * COST, now), "it is too long");
    assert!(gate.lets(source(30), COST, now));
    assert!(!gate.lets(source(31), COST, now));
    // A message that never passed is not taken up.
    gate.taken_up(source(99));
    assert_eq!(gate.locked().waiting, WAITING_MAX);
}

/// A socket that has no room for anything.
struct Full;

#[async_trait::async_trait]
impl UdpSocket for Full {
    async fn recv_from(&self, _: &mut [u8]) -> rsipstack::Result<(usize, SocketAddr)> {
        core::future::pending().await
    }

    async fn send_to(&self, _: &[u8], _: SocketAddr) -> rsipstack::Result<usize> {
        core::future::pending().await
    }

    fn local_addr(&self) -> rsipstack::Result<SocketAddr> {
        Ok(([192, 0, 2, 1], 5060).into())
    }
}

#[test]
fn only_the_loop_of_the_stack_does_not_wait_for_room() {
    let gated = Gated {
        socket: Full,
        gate: gate(),
        is_spoofable: false,
    };
    let once = |sending: &mut (dyn Future<Output = rsipstack::Result<usize>> + Unpin)| {
        let mut context = core::task::Context::from_waker(core::task::Waker::noop());
        core::pin::Pin::new(sending).poll(&mut context)
    };
    let to = ([192, 0, 2, 2], 5060).into();
    assert!(once(&mut gated.send_to(b"BYE", to)).is_pending());
    let mut sending = pin!(inside::serve(gated.send_to(b"BYE", to)));
    assert!(matches!(once(&mut sending), Poll::Ready(Ok(3))));
}

#[test]
fn a_message_of_a_stream_waits_and_is_not_lost() {
    let (gate, from, now) = (gate(), IpAddr::from([192, 0, 2, 1]), Instant::now());
    for _ in 0..BURST as usize {
        assert_eq!(gate.wait(from, now), None);
        assert_eq!(gate.lets_wait(from, COST, now), Pass::Now);
        gate.taken_up(from);
    }
    let wait = gate.wait(from, now).unwrap();
    assert!(wait <= Duration::from_millis(1), "{wait:?}");
    assert_eq!(gate.lets_wait(from, COST, now), Pass::After(AGAIN));
    assert_eq!(gate.wait(from, now + 2 * wait), None);
    assert_eq!(gate.counters.flood.value(), 0);
    let passes = gate.lets_wait(from, WAITING_OF_ONE_MAX + 1, now + wait);
    assert_eq!((passes, gate.counters.flood.value()), (Pass::Never, 1));
}
