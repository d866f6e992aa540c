//! Two nodes, a lossy link both ways, virtual time: ten voice streams from A to B.

use super::super::{Answer, Arrival, History, HistoryStats, NACK_SEQS, Receiver, ReceiverStats};
use super::super::{Settings, Strike};
use super::{ms, packet};
use base::impair::{Line, LossModel, Model};
use base::{Duration, Rng, Time};
use wire::control::{Builder, Message, Messages};
use wire::data::{Header, Remaining};

/// The one-way delay of the link: the paper's 10 ms.
pub(super) const ONE_WAY: Duration = ms(10);
/// Ten streams, a packet each per 20 ms, evenly phased.
pub(super) const SPACING: Duration = ms(2);
/// The bytes of a packet's payload in this world: its number.
const ID: usize = 8;
/// A packet of 160 bytes of voice on the wire.
const SEALED_PACKET: usize = SEALED + wire::HEADER_BYTES + 160;
/// Clear bytes and tag.
const SEALED: usize = wire::CLEAR_BYTES + wire::TAG_BYTES;

type Packet = [u8; wire::HEADER_BYTES + ID];

#[derive(Clone)]
enum ToB {
    Data(Packet),
    Control(Vec<u8>),
}

/// The run to make.
pub(super) struct Plan {
    pub(super) settings: Settings,
    pub(super) loss: f64,
    pub(super) burstiness: f64,
    pub(super) packets: u64,
    /// The remaining time of every packet when it is sent.
    pub(super) remaining: Remaining,
    /// The delay behind B.
    pub(super) rest_of_path: Duration,
    /// Packets of a spurt, and the silence after it.
    pub(super) spurts: Option<(u64, Duration)>,
    pub(super) seed: u64,
}

/// The results. Delays are from first sending to first arrival.
pub(super) struct Outcome {
    /// Delays by packet; `None` if it never arrived.
    pub(super) delays: Vec<Option<Duration>>,
    pub(super) recovered: Vec<Duration>,
    pub(super) sender: HistoryStats,
    pub(super) receiver: ReceiverStats,
    pub(super) original_bytes: u64,
    pub(super) retransmitted_bytes: u64,
    pub(super) control_bytes: u64,
}

impl Outcome {
    /// Returns the share of packets that were not there within `limit`.
    pub(super) fn residual(&self, limit: Duration) -> f64 {
        share(&self.delays, limit)
    }

    /// The standard error of the residual, from the scatter of 100 batches: losses come in
    /// bursts, and one lost request concerns several packets.
    pub(super) fn standard_error(&self, limit: Duration) -> f64 {
        let batches: Vec<f64> = self
            .delays
            .chunks(self.delays.len().div_ceil(100))
            .map(|batch| share(batch, limit))
            .collect();
        let n = batches.len() as f64;
        let mean = batches.iter().sum::<f64>() / n;
        let variance = batches.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (variance / n).sqrt()
    }

    /// Bytes sent for recovery per byte of originals: from A, and from B.
    pub(super) fn overhead(&self) -> f64 {
        (self.retransmitted_bytes + self.control_bytes) as f64 / self.original_bytes as f64
    }
}

fn share(delays: &[Option<Duration>], limit: Duration) -> f64 {
    let missing = delays
        .iter()
        .filter(|d| d.is_none_or(|d| d > limit))
        .count();
    missing as f64 / delays.len() as f64
}

fn send_again(now: Time, answer: Answer<'_>, to_b: &mut Line<ToB>, out: &mut Outcome) {
    if let Answer::Send {
        plaintext,
        remaining,
        copies,
    } = answer
    {
        let mut bytes: Packet = *plaintext.first_chunk().unwrap();
        Header::trusted(&mut bytes[..]).set_remaining(remaining);
        for _ in 0..copies {
            out.retransmitted_bytes += SEALED_PACKET as u64;
            to_b.push(now, SEALED_PACKET, ToB::Data(bytes));
        }
    }
}

struct World<'a> {
    plan: &'a Plan,
    history: History,
    receiver: Receiver,
    to_b: Line<ToB>,
    to_a: Line<Vec<u8>>,
    blank: Packet,
    sent_at: Vec<Time>,
    next_send: Time,
    out: Outcome,
}

pub(super) fn run(plan: &Plan) -> Outcome {
    let loss = LossModel::Conditional {
        p: plan.loss,
        burstiness: plan.burstiness,
    };
    let model = Model::default()
        .with_delay(ONE_WAY)
        .and_then(|m| m.with_loss(loss))
        .unwrap();
    let mut rng = Rng::new(plan.seed);
    let mut world = World {
        plan,
        history: History::new(plan.settings.clone()),
        receiver: Receiver::new(plan.settings.clone()),
        to_b: Line::new(model.clone(), rng.fork()),
        to_a: Line::new(model, rng.fork()),
        blank: *packet(0, ID, plan.remaining).first_chunk().unwrap(),
        sent_at: Vec::new(),
        next_send: Time::ZERO + ms(1),
        out: Outcome {
            delays: vec![None; plan.packets as usize],
            recovered: Vec::new(),
            sender: HistoryStats::default(),
            receiver: ReceiverStats::default(),
            original_bytes: 0,
            retransmitted_bytes: 0,
            control_bytes: 0,
        },
    };
    while let Some(now) = world.next_moment() {
        world.at_sender(now);
        world.at_receiver(now);
    }
    world.out.sender = world.history.stats();
    world.out.receiver = world.receiver.stats();
    assert_eq!(
        world.receiver.missing_len(),
        0,
        "everything is decided in the end"
    );
    world.out
}

impl World<'_> {
    fn next_moment(&self) -> Option<Time> {
        let moments = [
            (self.next_send != Time::FAR).then_some(self.next_send),
            self.to_b.next(),
            self.to_a.next(),
            self.history.next_timeout(),
            self.receiver.next_timeout(),
        ];
        moments.into_iter().flatten().min()
    }

    fn at_sender(&mut self, now: Time) {
        while let Some(datagram) = self.to_a.pop_due(now) {
            for message in Messages::new(&datagram) {
                if let Ok(Message::Nack(nack)) = message {
                    for seq in nack.missing() {
                        self.on_request(now, seq, Strike::from_wire(nack.strike));
                    }
                }
            }
        }
        while let Some(answer) = self.history.poll_repeat(now) {
            send_again(now, answer, &mut self.to_b, &mut self.out);
        }
        if now >= self.next_send {
            self.send(now);
        }
        if let Some(probe) = self.history.on_timeout(now) {
            let mut buffer = [0; 64];
            let mut builder = Builder::new(&mut buffer);
            builder.tail_probe(probe).unwrap();
            let len = builder.len();
            self.out.control_bytes += (len + SEALED) as u64;
            self.to_b
                .push(now, len + SEALED, ToB::Control(buffer[..len].to_vec()));
        }
    }

    fn send(&mut self, now: Time) {
        let id = self.sent_at.len() as u64;
        let mut bytes = self.blank;
        bytes[wire::HEADER_BYTES..].copy_from_slice(&id.to_be_bytes());
        self.history.record(now, &mut bytes);
        self.sent_at.push(now);
        self.out.original_bytes += SEALED_PACKET as u64;
        self.to_b.push(now, SEALED_PACKET, ToB::Data(bytes));
        self.next_send += SPACING;
        if let Some((length, silence)) = self.plan.spurts
            && (id + 1).is_multiple_of(length)
        {
            self.next_send += silence;
        }
        if id + 1 == self.plan.packets {
            self.next_send = Time::FAR;
        }
    }

    fn on_request(&mut self, now: Time, seq: wire::data::LaneSeq, strike: Strike) {
        let rest = self.plan.rest_of_path;
        let answer = self
            .history
            .answer(now, seq, strike, ONE_WAY, |_| Some(rest));
        send_again(now, answer, &mut self.to_b, &mut self.out);
    }

    fn at_receiver(&mut self, now: Time) {
        while let Some(datagram) = self.to_b.pop_due(now) {
            match datagram {
                ToB::Data(bytes) => self.on_data(now, &bytes),
                ToB::Control(bytes) => {
                    for message in Messages::new(&bytes) {
                        if let Ok(Message::TailProbe(probe)) = message {
                            self.receiver.on_tail_probe(now, probe.next);
                        }
                    }
                }
            }
        }
        let mut seqs = [0; NACK_SEQS];
        while let Some((strike, n)) = self.receiver.poll_nack(now, ONE_WAY * 2, &mut seqs) {
            let mut buffer = [0; 1024];
            let mut builder = Builder::new(&mut buffer);
            assert_eq!(builder.nack(strike.wire(), &seqs[..n]), Ok(n));
            let len = builder.len();
            self.out.control_bytes += (len + SEALED) as u64;
            self.to_a.push(now, len + SEALED, buffer[..len].to_vec());
        }
    }

    fn on_data(&mut self, now: Time, bytes: &[u8]) {
        let header = Header::parse(bytes).unwrap();
        let id: [u8; 8] = *header.payload().first_chunk().unwrap();
        let id = u64::from_be_bytes(id) as usize;
        let left = header.remaining().minus(ONE_WAY);
        let rest = self.plan.rest_of_path;
        let arrival = self
            .receiver
            .on_packet(now, header.lane_seq(), left, || rest);
        let delay = now.since(self.sent_at[id]);
        // The header is right: the deadline less what has passed, within two roundings.
        if let (Some(left), Some(total)) = (left.duration(), self.plan.remaining.duration()) {
            let truth = total.saturating_sub(delay);
            assert!(left.max(truth) - left.min(truth) <= Duration::from_micros(100));
        }
        if arrival.is_fresh() {
            assert_eq!(self.out.delays[id], None, "a packet goes on once");
            self.out.delays[id] = Some(delay);
        }
        if matches!(arrival, Arrival::Recovered { .. }) {
            self.out.recovered.push(delay);
        }
    }
}
