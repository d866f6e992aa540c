//! Messages that expire, over a channel that loses, repeats and reorders packets and stops for a while. Messages arrive
//! in order and once, none is given up too early, and both ends know the counts.

use super::*;

/// Messages with their number at the front, and the naive model: a list of what was written.
struct Messages {
    pair: Pair,
    lifetime: Duration,
    /// When each message was written, and its length.
    written: Vec<(Time, usize)>,
    rng: Rng,
}

impl Messages {
    fn new(link: LinkProtocol, lifetime: Duration, channel: Channel, seed: u64) -> Messages {
        Messages {
            pair: Pair::expiring(link, Framing::Messages, Some(lifetime), channel, seed),
            lifetime,
            written: Vec::new(),
            rng: Rng::new(seed ^ 1),
        }
    }

    fn write(&mut self, most: usize) {
        let len = 4 + self.rng.below(most as u64 - 3) as usize;
        if !self.pair.ends[0].is_open() || (self.pair.credit[0] as usize) < len {
            return;
        }
        let mut bytes = vec![0; len];
        self.rng.fill(&mut bytes);
        bytes[..4].copy_from_slice(&(self.written.len() as u32).to_be_bytes());
        assert!(self.pair.ends[0].sender.write(self.pair.now, &bytes));
        self.pair.credit[0] -= len as u64;
        self.pair.written[0].extend(&bytes);
        self.written.push((self.pair.now, len));
    }

    /// Checks that no message was given up that could have arrived in time.
    fn check_none_too_early(&self) {
        let sender = &self.pair.ends[0].sender;
        let one_way = sender.rtt().smoothed().unwrap_or(Duration::ZERO).div(2);
        // The estimate has fallen since then, by less than this margin.
        let by = self.pair.now + one_way * 4 + Duration::from_millis(100);
        let old = self
            .written
            .partition_point(|(at, _)| *at + self.lifetime <= by);
        assert!(sender.given_up() <= old as u64);
    }

    /// Returns the numbers of the messages that arrived, each checked byte by byte against what was written.
    fn numbers(&self) -> Vec<usize> {
        let starts: Vec<usize> = self
            .written
            .iter()
            .scan(0, |at, (_, len)| Some(core::mem::replace(at, *at + len)))
            .collect();
        let number = |(_, bytes): &(Time, Vec<u8>)| {
            let number = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
            let (from, len) = (starts[number], self.written[number].1);
            assert!(bytes[..] == self.pair.written[0][from..from + len]);
            number
        };
        self.pair.messages[1].iter().map(number).collect()
    }

    /// Lets both ends finish, and checks the result. Returns how many messages were written, and how many arrived.
    fn judge(mut self) -> (usize, usize) {
        self.pair
            .ends
            .iter_mut()
            .for_each(|end| end.sender.finish());
        for _ in 0..120_000 {
            self.pair.step();
            if self.pair.ends.iter().all(Connection::is_over) {
                break;
            }
        }
        let ends = &self.pair.ends;
        assert!(ends.iter().all(Connection::is_over), "{ends:#?}");
        let came = self.numbers();
        assert!(came.is_sorted_by(|a, b| a < b), "in order, and once");
        let (written, missed) = (self.written.len(), self.written.len() - came.len());
        assert_eq!(ends[1].receiver.missed(), missed as u64);
        let given_up = ends[0].sender.given_up();
        // The sender has given up each message that the receiver has missed.
        assert!(given_up >= missed as u64 && given_up <= written as u64);
        (written, came.len())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn messages_that_expire_come_in_order_and_once_or_are_counted(
        link in 0usize..3,
        loss_pct in 0u64..40,
        twice_pct in 0u64..10,
        delay_ms in 0u64..60,
        jitter_ms in 0u64..20,
        lifetime_ms in 1u64..400,
        most in proptest::sample::select(vec![10usize, 200, 3_000, 20_000]),
        every_ms in 1u64..30,
        seed: u64,
    ) {
        let channel = Channel { loss_pct, twice_pct, delay_ms, jitter_ms };
        let lifetime = Duration::from_millis(lifetime_ms);
        let mut messages = Messages::new(LinkProtocol::ALL[link], lifetime, channel, seed);
        for step in 0..4_000 {
            messages.pair.step();
            messages.check_none_too_early();
            if step % every_ms == 0 {
                messages.write(most);
            }
            // From time to time nothing passes for a while.
            let closed = messages.rng.below(1_000) < 2 && messages.pair.channel.loss_pct < 100;
            match (closed, messages.rng.below(100)) {
                (true, _) => messages.pair.channel.loss_pct = 100,
                (false, 0) => messages.pair.channel.loss_pct = loss_pct,
                _ => {}
            }
        }
        messages.pair.channel.loss_pct = loss_pct;
        messages.judge();
    }
}

#[test]
fn what_can_be_there_in_time_comes_and_nothing_waits_for_what_cannot() {
    // With a round trip of 40 ms, a loss is found within 60 ms and the retransmission arrives after 80 ms.
    let channel = Channel {
        loss_pct: 5,
        twice_pct: 0,
        delay_ms: 20,
        jitter_ms: 0,
    };
    for (lifetime_ms, least, longest_ms) in [(150, 0.99, 400), (30, 0.85, 200)] {
        let lifetime = Duration::from_millis(lifetime_ms);
        let mut messages = Messages::new(LinkProtocol::BestEffort, lifetime, channel, 7);
        for step in 0..60_000 {
            messages.pair.step();
            if step % 20 == 0 {
                messages.write(160);
            }
        }
        let sent: Vec<Time> = messages.written.iter().map(|(at, _)| *at).collect();
        let numbers = messages.numbers();
        let came: Vec<Time> = messages.pair.messages[1]
            .iter()
            .map(|(at, _)| *at)
            .collect();
        let longest = numbers
            .iter()
            .zip(&came)
            .map(|(n, at)| at.since(sent[*n]))
            .max();
        let longest = longest.unwrap().as_millis();
        assert!(longest <= longest_ms, "{longest} ms with {lifetime}");
        assert_eq!(messages.lifetime, lifetime);
        let (written, came) = messages.judge();
        let share = came as f64 / written as f64;
        assert!(
            written >= 2_900 && share >= least,
            "{share} with {lifetime}"
        );
    }
}

#[test]
fn a_large_message_is_cut_off_where_it_stands_and_the_next_one_comes() {
    let channel = Channel {
        loss_pct: 0,
        twice_pct: 0,
        delay_ms: 100,
        jitter_ms: 0,
    };
    let mut messages = Messages::new(
        LinkProtocol::BestEffort,
        Duration::from_millis(150),
        channel,
        1,
    );
    for _ in 0..300 {
        messages.pair.step();
    }
    // Ten segments leave at first, and the next ones after 200 ms, which is too late.
    let mut large = vec![7; 60_000];
    large[..4].copy_from_slice(&0u32.to_be_bytes());
    let now = messages.pair.now;
    assert!(messages.pair.ends[0].sender.write(now, &large));
    messages.pair.written[0].extend(&large);
    messages.written.push((now, large.len()));
    for _ in 0..160 {
        messages.pair.step();
    }
    messages.write(100);
    for _ in 0..1_000 {
        messages.pair.step();
    }
    assert_eq!(messages.numbers(), [1]);
    let sender = &messages.pair.ends[0].sender;
    assert_eq!((sender.given_up(), sender.buffered()), (1, 0));
    assert_eq!(messages.judge(), (2, 1));
}

#[test]
fn lies_about_what_has_expired_do_no_harm() {
    let channel = Channel {
        loss_pct: 0,
        twice_pct: 0,
        delay_ms: 1,
        jitter_ms: 0,
    };
    let lifetime = Duration::from_millis(100);
    let say = |pair: &mut Pair, ranges: &[(u32, u32)]| {
        let segment = Segment {
            flags: Flags::ACK.with(Flags::EXPIRES),
            connection: 7,
            window: 100_000,
            ..Segment::default()
        };
        let mut packet = vec![0; 200];
        let len = segment.emit(ranges, &mut packet).unwrap();
        let now = pair.now;
        let parsed = Segment::parse(&packet[..len]).unwrap();
        let reaction = pair.ends[1]
            .on_segment(now, Duration::ZERO, &parsed, false)
            .unwrap();
        pair.ends[1].receiver.ready().unwrap();
        reaction.is_bad
    };
    for framing in [Framing::Bytes, Framing::Messages] {
        let mut pair = Pair::new(LinkProtocol::BestEffort, framing, channel, 1);
        (0..20).for_each(|_| pair.step());
        assert!(say(&mut pair, &[(0, 100)]), "nothing of it expires");
        assert_eq!(pair.ends[1].receiver.acknowledged(), 0);
    }
    let framing = Framing::Messages;
    let mut pair = Pair::expiring(
        LinkProtocol::BestEffort,
        framing,
        Some(lifetime),
        channel,
        1,
    );
    (0..20).for_each(|_| pair.step());
    let beyond = WINDOW_START as u32;
    for wrong in [(100, 100), (100, 90), (10, beyond + 1), (u32::MAX - 9, 0)] {
        assert!(say(&mut pair, &[wrong]) || wrong.1 == 0, "{wrong:?}");
    }
    assert_eq!(pair.ends[1].receiver.acknowledged(), 0);
    // The peer reports as many holes as there may be, and more; then the whole window.
    for hole in 0..2_000u32 {
        assert!(!say(&mut pair, &[(hole * 20 + 10, hole * 20 + 20)]));
    }
    assert!(!say(&mut pair, &[(0, beyond)]));
    assert_eq!(pair.ends[1].receiver.acknowledged(), u64::from(beyond));
    assert_eq!(pair.ends[1].receiver.missed(), 0);
}
