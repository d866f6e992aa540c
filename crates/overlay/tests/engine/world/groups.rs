//! Streams of packets to a group, and the fate of each packet at each member.

use super::{Nodes, PAYLOAD, PORT, addr, read};
use base::{ClientId, Duration, NodeAddr, Time};
use overlay::request::Options;
use overlay::{Reply, Request};
use std::collections::BTreeMap;

pub const GROUP: NodeAddr = NodeAddr(0xef01_0203);
/// The client that sends to groups.
pub const SOURCE: ClientId = ClientId(21);
/// The client that receives.
pub const MEMBER: ClientId = ClientId(22);

/// A source at a node that sends at a steady pace, and the results.
pub struct Cast {
    pub from: usize,
    pub group: NodeAddr,
    pub every: Duration,
    pub options: Options,
    /// When each packet was sent.
    pub sent: Vec<Time>,
    /// The number of arrivals and the first arrival, by node and packet.
    pub came: BTreeMap<(usize, u64), (u32, Time)>,
}

impl Nodes {
    pub fn join(&mut self, i: usize, group: NodeAddr) {
        let port = PORT;
        self.request(i, MEMBER, Request::Join { group, port });
    }

    pub fn leave(&mut self, i: usize, group: NodeAddr) {
        let port = PORT;
        self.request(i, MEMBER, Request::Leave { group, port });
    }
}

impl Cast {
    pub fn new(from: usize, every_ms: u64, options: Options) -> Cast {
        Cast {
            from,
            group: GROUP,
            every: Duration::from_millis(every_ms),
            options,
            sent: Vec::new(),
            came: BTreeMap::new(),
        }
    }

    /// Sends for this time and takes in packets that arrive.
    pub fn run_ms(&mut self, nodes: &mut Nodes, ms: u64) {
        nodes.set_sender(self.from, SOURCE, self.options);
        let until = nodes.world.now() + Duration::from_millis(ms);
        let mut at = nodes.world.now();
        while at < until {
            let number = self.sent.len() as u64;
            let to = (self.group, PORT);
            nodes.send_to_addr(at, self.from, SOURCE, to, number, PAYLOAD);
            self.sent.push(at);
            at += self.every;
            nodes.world.run_until(at.min(until));
            self.take(nodes);
        }
    }

    /// Takes in packets that have arrived.
    pub fn take(&mut self, nodes: &mut Nodes) {
        for answer in nodes.world.take_replies() {
            match answer.reply {
                Reply::Datagram {
                    payload,
                    group,
                    from,
                    ..
                } => {
                    assert_eq!(group, Some(self.group));
                    assert_eq!(from, addr(self.from));
                    let (number, sent) = read(payload.bytes());
                    assert_eq!(self.sent[number as usize], sent);
                    let at = answer.at;
                    let seen = (answer.host.place(), number);
                    self.came.entry(seen).or_insert((0, at)).0 += 1;
                }
                Reply::Refused(why) => panic!("{why}"),
                _ => {}
            }
        }
    }

    /// Lets packets under way arrive.
    pub fn finish(&mut self, nodes: &mut Nodes) {
        nodes.run_ms(1_500);
        self.take(nodes);
    }

    /// Returns how many packets arrived more than once at a node.
    pub fn doubles(&self) -> usize {
        self.came.values().filter(|(times, _)| *times > 1).count()
    }

    /// Returns how many of the packets sent between two times a node received, and how many were sent.
    pub fn got(&self, i: usize, from: Time, until: Time) -> (usize, usize) {
        let sent = self.sent.iter().enumerate();
        let sent = sent.filter(|(_, at)| (from..until).contains(*at));
        let numbers: Vec<u64> = sent.map(|(number, _)| number as u64).collect();
        let got = numbers.iter().filter(|n| self.came.contains_key(&(i, **n)));
        (got.count(), numbers.len())
    }

    /// Returns when a node received each packet, in order of arrival.
    pub fn arrivals(&self, i: usize) -> Vec<Time> {
        let of = self.came.iter().filter(|((node, _), _)| *node == i);
        let mut all: Vec<Time> = of.map(|(_, (_, at))| *at).collect();
        all.sort_unstable();
        all
    }

    /// Returns the longest time between two arrivals at a node.
    pub fn longest_gap(&self, i: usize) -> Duration {
        let all = self.arrivals(i);
        let gaps = all.windows(2).map(|pair| pair[1].since(pair[0]));
        gaps.max().unwrap_or(Duration::from_secs(9_999))
    }
}
