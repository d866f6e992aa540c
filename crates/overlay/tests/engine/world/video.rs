//! Video to groups: packets of one size at a steady pace, and their fates at a member.

use super::{Nodes, PORT, read};
use base::{ClientId, Duration, NodeAddr, Time};
use overlay::request::{Delivery, Operation, Options};
use overlay::sockets::default_options;
use overlay::{Reply, Request};
use wire::groups::Setting;

/// Bytes of a packet: seven packets of MPEG-TS.
const BYTES: usize = 1_316;

/// Packets to a group at a steady pace, and their fates at the leaf.
pub struct Flow {
    pub from: usize,
    pub group: NodeAddr,
    pub member: ClientId,
    pub every: Duration,
    pub next: Time,
    pub sent: u64,
    pub came: Vec<u64>,
    pub latest: Duration,
    /// When each packet was handed over, and how long after it was sent.
    pub at: Vec<(Time, Duration)>,
}

impl Flow {
    /// Flow number `n` from a node to a member at another, in order.
    pub fn new(
        nodes: &mut Nodes,
        n: u32,
        (from, to): (usize, usize),
        pps: u64,
        deadline: Duration,
    ) -> Flow {
        let flow = Flow {
            from,
            group: NodeAddr(0xef01_0200 + n),
            member: ClientId(100 + n),
            every: Duration::from_nanos(1_000_000_000 / pps),
            // A join takes the same links, and is sent again if it is lost.
            next: nodes.world.now() + Duration::from_millis(1_000),
            sent: 0,
            came: Vec::new(),
            latest: Duration::ZERO,
            at: Vec::new(),
        };
        let options = Options {
            deadline: Some(deadline),
            delivery: Delivery::InOrder,
            ..default_options()
        };
        nodes.request(to, flow.member, Request::Options(options));
        let (group, port) = (flow.group, PORT);
        nodes.request(to, flow.member, Request::Join { group, port });
        nodes.set_sender(from, flow.source(), options);
        flow
    }

    pub fn source(&self) -> ClientId {
        ClientId(self.member.0 + 100)
    }

    pub fn lost(&self) -> u64 {
        self.sent - self.came.len() as u64
    }
}

/// Lets flows send for a time, or only lets packets under way arrive.
pub fn run(nodes: &mut Nodes, flows: &mut [Flow], ms: u64, sending: bool) {
    let until = nodes.world.now() + Duration::from_millis(ms);
    while nodes.world.now() < until {
        let step = (nodes.world.now() + Duration::from_millis(1)).min(until);
        for flow in flows.iter_mut().filter(|_| sending) {
            while flow.next < step {
                let to = (flow.group, PORT);
                nodes.send_to_addr(flow.next, flow.from, flow.source(), to, flow.sent, BYTES);
                flow.sent += 1;
                flow.next += flow.every;
            }
        }
        nodes.world.run_until(step);
        for answer in nodes.world.take_replies() {
            match answer.reply {
                Reply::Datagram { payload, group, .. } => {
                    let of = |flow: &&mut Flow| Some(flow.group) == group;
                    let flow = flows.iter_mut().find(of).unwrap();
                    let (number, sent) = read(payload.bytes());
                    flow.came.push(number);
                    let took = answer.at.since(sent);
                    flow.latest = flow.latest.max(took);
                    flow.at.push((answer.at, took));
                }
                Reply::Refused(why) => panic!("{why}"),
                _ => {}
            }
        }
    }
}

/// Sets at a node how a group is to be carried.
pub fn set_group(nodes: &mut Nodes, at: usize, setting: Setting) {
    let (group, prefix) = (setting.group, setting.prefix);
    let setting = Some(setting);
    nodes.operate(
        at,
        Operation::SetGroup {
            group,
            setting,
            prefix,
        },
    );
}
