//! Streams of packets at a steady pace, and the fate of each packet.

use super::{Nodes, PAYLOAD, read};
use base::{ClientId, Duration, Rng, Time, VirtualPort};
use overlay::Reply;
use overlay::request::Options;

/// How far ahead packets are scheduled.
const SLICE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
pub struct Stream {
    pub from: usize,
    pub to: usize,
    pub interval: Duration,
    /// The time of the first packet, after the beginning.
    pub phase: Duration,
    pub options: Options,
}

#[derive(Debug)]
pub struct Streams {
    streams: Vec<Stream>,
    start: Time,
    /// Delays by stream and packet.
    delays: Vec<Vec<Option<Duration>>>,
    pub duplicates: u64,
    /// Packets that are marked as lost and recovered on a hop.
    pub recovered: u64,
}

impl Streams {
    /// `count` streams of 50 packets/s from one node to another, phased evenly over 20 ms.
    pub fn calls(
        nodes: &mut Nodes,
        count: u64,
        from: usize,
        to: usize,
        options: Options,
    ) -> Streams {
        let interval = Duration::from_millis(20);
        let stream = |i| Stream {
            from,
            to,
            interval,
            phase: (interval * i).div(count),
            options,
        };
        Streams::begin(nodes, (0..count).map(stream).collect())
    }

    /// Opens the sockets; packets are sent when [`Streams::run`] is called.
    pub fn begin(nodes: &mut Nodes, streams: Vec<Stream>) -> Streams {
        for i in 0..streams.len() {
            Streams::open(nodes, &streams, i);
        }
        Streams {
            start: nodes.world.now(),
            delays: vec![Vec::new(); streams.len()],
            streams,
            duplicates: 0,
            recovered: 0,
        }
    }

    /// Opens the sockets of the stream again, as clients do when their node has restarted.
    pub fn reopen(&self, nodes: &mut Nodes, node: usize) {
        for (i, stream) in self.streams.iter().enumerate() {
            if stream.from == node || stream.to == node {
                Streams::open(nodes, &self.streams, i);
            }
        }
    }

    fn open(nodes: &mut Nodes, streams: &[Stream], i: usize) {
        let (stream, to) = (&streams[i], receiver(i));
        nodes.bind_to(stream.to, to.0, to.1, stream.options);
        nodes.set_sender(stream.from, client(i), stream.options);
    }

    pub fn run(&mut self, nodes: &mut Nodes, span: Duration) {
        let end = nodes.world.now() + span;
        while nodes.world.now() < end {
            let until = (nodes.world.now() + SLICE).min(end);
            self.schedule(nodes, until);
            nodes.world.run_until(until);
            self.collect(nodes);
        }
    }

    /// Lets packets under way arrive.
    pub fn finish(&mut self, nodes: &mut Nodes) {
        nodes.run_ms(1_000);
        self.collect(nodes);
    }

    /// Schedules the packets that are due until then. The caller, which also runs the world, takes the packets that
    /// arrive.
    pub fn schedule(&mut self, nodes: &mut Nodes, until: Time) {
        for (i, stream) in self.streams.iter().enumerate() {
            loop {
                let n = self.delays[i].len() as u64;
                let at = self.start + stream.phase + stream.interval * n;
                if at >= until {
                    break;
                }
                let (to, number) = ((stream.to, receiver(i).1), (i as u64) << 32 | n);
                nodes.send_to(at, stream.from, client(i), to, number, PAYLOAD);
                self.delays[i].push(None);
            }
        }
    }

    fn collect(&mut self, nodes: &mut Nodes) {
        nodes.count();
        for answer in nodes.world.take_replies() {
            if let Reply::Datagram {
                payload, recovered, ..
            } = answer.reply
            {
                self.recovered += u64::from(recovered);
                let (number, sent) = read(payload.bytes());
                let (i, n) = ((number >> 32) as usize, number as u32);
                assert_eq!(answer.client, receiver(i).0, "a packet of another stream");
                let delay = &mut self.delays[i][n as usize];
                self.duplicates += u64::from(delay.is_some());
                *delay = Some(answer.at.since(sent));
            }
        }
    }

    /// Returns the fates of stream `i`'s packets: when each was sent, and how long it took.
    pub fn fates_of(&self, i: usize) -> impl Iterator<Item = (Time, Option<Duration>)> + '_ {
        let delays = self.delays[i].iter().enumerate();
        delays.map(move |(n, delay)| (self.sent_at(i, n), *delay))
    }

    pub fn sent(&self) -> u64 {
        self.delays.iter().map(|d| d.len() as u64).sum()
    }

    /// Returns the fates of all packets in the order of sending.
    pub fn fates(&self) -> Vec<Option<Duration>> {
        let mut all: Vec<(Time, usize, Option<Duration>)> = Vec::new();
        for (i, delays) in self.delays.iter().enumerate() {
            let at = |n: usize| self.sent_at(i, n);
            all.extend(delays.iter().enumerate().map(|(n, d)| (at(n), i, *d)));
        }
        all.sort_unstable();
        all.into_iter().map(|(.., delay)| delay).collect()
    }

    /// Returns how many packets of all streams did not arrive within `limit`.
    pub fn missed(&self, limit: Duration) -> u64 {
        let is_missed = |d: &&Option<Duration>| d.is_none_or(|d| d > limit);
        self.delays.iter().flatten().filter(is_missed).count() as u64
    }

    /// Returns how many packets of stream `i` that were sent within a time did not arrive.
    pub fn lost_between(&self, i: usize, from: Time, until: Time) -> usize {
        let delays = self.delays[i].iter().enumerate();
        let lost =
            delays.filter(|(n, d)| d.is_none() && (from..until).contains(&self.sent_at(i, *n)));
        lost.count()
    }

    /// Returns the first arrival of stream `i` at or after a time.
    pub fn arrival_after(&self, i: usize, at: Time) -> Option<Time> {
        self.arrivals(i).into_iter().find(|arrival| *arrival >= at)
    }

    /// Returns the longest time without an arrival on stream `i`.
    pub fn longest_gap(&self, i: usize) -> Duration {
        let arrivals = self.arrivals(i);
        let gaps = arrivals.windows(2).map(|pair| pair[1].since(pair[0]));
        gaps.max().unwrap_or(Duration::MAX)
    }

    fn arrivals(&self, i: usize) -> Vec<Time> {
        let delays = self.delays[i].iter().enumerate();
        let mut arrivals: Vec<Time> = delays
            .filter_map(|(n, d)| Some(self.sent_at(i, n) + (*d)?))
            .collect();
        arrivals.sort_unstable();
        arrivals
    }

    fn sent_at(&self, i: usize, n: usize) -> Time {
        let stream = &self.streams[i];
        self.start + stream.phase + stream.interval * n as u64
    }
}

/// Returns the sending client of stream `i`.
fn client(i: usize) -> ClientId {
    ClientId(100 + i as u32)
}

/// Returns the receiving client of stream `i` and its port.
fn receiver(i: usize) -> (ClientId, VirtualPort) {
    (ClientId(1_000 + i as u32), VirtualPort(6_000 + i as u16))
}

/// Returns the standard error of the mean of `values`, which depend on their neighbours: by the bootstrap over blocks
/// of `block` values.
pub fn standard_error(values: &[bool], block: usize) -> f64 {
    let blocks: Vec<f64> = values
        .chunks_exact(block)
        .map(|b| b.iter().filter(|v| **v).count() as f64 / block as f64)
        .collect();
    let mut rng = Rng::new(1);
    let mut draw = || {
        let sum: f64 = (0..blocks.len())
            .map(|_| blocks[rng.below(blocks.len() as u64) as usize])
            .sum();
        sum / blocks.len() as f64
    };
    let means: Vec<f64> = (0..1_000).map(|_| draw()).collect();
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    let squares: f64 = means.iter().map(|m| (m - mean) * (m - mean)).sum();
    (squares / means.len() as f64).sqrt()
}
