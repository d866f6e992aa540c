//! Links over a byte stream where datagrams are blocked: two engines, and between them a model of what a host does.

use crate::world::{Nodes, Plan, addr};
use base::{Burst, ClientId, Duration, Engine, Input, Outbox, Pool, Time, UnderlayAddr};
use overlay::hello::State;
use overlay::request::Operation;
use overlay::snapshot::LinkStatus;
use overlay::{Event, Node, Reply, Request, Settings};

const OPERATOR: ClientId = ClientId(3);
/// The one-way delay of either path.
const DELAY: Duration = Duration::from_millis(10);
const STEP: Duration = Duration::from_millis(5);

/// The output of one engine: what it has sent, and its events.
struct Said {
    pool: Pool,
    sent: Vec<(UnderlayAddr, Burst)>,
    events: Vec<Event>,
}

impl Outbox<Node> for Said {
    fn send(&mut self, to: UnderlayAddr, burst: Burst) {
        self.sent.push((to, burst));
    }
    fn deliver(&mut self, _: ClientId, _: Reply) {}
    fn report(&mut self, event: Event) {
        self.events.push(event);
    }
    fn pool(&self) -> &Pool {
        &self.pool
    }
}

/// Two neighbors. The first one dials the second one.
pub(crate) struct Pair {
    now: Time,
    pub(crate) nodes: [Node; 2],
    said: [Said; 2],
    /// The bursts on their way: time of arrival, receiver, sender's address, and the burst.
    flying: Vec<(Time, usize, UnderlayAddr, Burst)>,
    pub(crate) is_blocked: bool,
    /// If true, the datagrams of the first uplinks are lost. This matters if there are two uplinks.
    is_first_dead: bool,
    /// The address from which everything seems to come, if something between the nodes forwards it.
    seen_from: Option<UnderlayAddr>,
    /// The datagrams of this node are lost.
    is_mute: Option<usize>,
    is_open: bool,
    /// Number of Inits that were sent as datagrams.
    inits: usize,
}

/// Returns the address of an uplink as the uplink with the same number at the other end sees it. No other uplinks are
/// connected.
pub(crate) fn uplink(i: usize, number: u8) -> UnderlayAddr {
    UnderlayAddr {
        socket: number,
        ..sim::attachment(sim::underlay(i as u32), number)
    }
}

pub(crate) fn stream(i: usize) -> UnderlayAddr {
    UnderlayAddr {
        port: 443,
        socket: UnderlayAddr::STREAM,
        ..sim::underlay(i as u32)
    }
}

impl Pair {
    fn new() -> Pair {
        Pair::with_uplinks(1)
    }

    fn with_uplinks(uplinks: u8) -> Pair {
        Pair::with(uplinks, Settings::modern())
    }

    pub(crate) fn with(uplinks: u8, settings: Settings) -> Pair {
        let plan = Plan {
            edges: vec![(0, 1)],
            attachments: vec![(0, uplinks), (1, uplinks)],
            settings,
            ..Plan::of(2)
        };
        let mut world = Nodes::planned(7, plan);
        let said = || Said {
            pool: Pool::new(64, 1024),
            sent: Vec::new(),
            events: Vec::new(),
        };
        Pair {
            now: Time::ZERO,
            nodes: [0, 1].map(|i| world.node(i)),
            said: [said(), said()],
            flying: Vec::new(),
            is_blocked: false,
            is_first_dead: false,
            seen_from: None,
            is_mute: None,
            is_open: false,
            inits: 0,
        }
    }

    fn input(&mut self, i: usize, input: Input<Request>) {
        self.nodes[i].handle(self.now, input, &mut self.said[i]);
        self.nodes[i].flush(self.now, &mut self.said[i]);
        self.carry(i);
    }

    fn carry(&mut self, from: usize) {
        for (to, burst) in core::mem::take(&mut self.said[from].sent) {
            let peer = 1 - from;
            let is_init = !to.is_stream()
                && wire::link::Kind::of(burst.bytes()) == Ok(wire::link::Kind::HandshakeInit);
            self.inits += usize::from(is_init);
            let source = match to.is_stream() {
                true if self.is_open && to == stream(peer) => stream(from),
                false if self.is_blocked || self.is_mute == Some(from) => continue,
                false if self.is_first_dead && to.socket == 0 => continue,
                false if to == uplink(peer, to.socket) => uplink(from, to.socket),
                _ => continue,
            };
            self.flying.push((self.now + DELAY, peer, source, burst));
        }
    }

    fn operate(&mut self, i: usize, operation: Operation) {
        let request = Request::Operate(operation);
        let client = OPERATOR;
        self.input(i, Input::Request { client, request });
    }

    /// Gives both nodes a stream that the first node has dialled.
    pub(crate) fn open(&mut self) {
        self.is_open = true;
        for i in [0, 1] {
            let (neighbor, at) = (addr(1 - i), stream(1 - i));
            let is_dialled = i == 0;
            self.operate(
                i,
                Operation::Tunnel {
                    neighbor,
                    at,
                    is_dialled,
                },
            );
        }
    }

    fn close(&mut self) {
        self.is_open = false;
        // A host delivers nothing more of a stream that has ended.
        self.flying.retain(|(_, _, from, _)| !from.is_stream());
        for i in [0, 1] {
            let (neighbor, at) = (addr(1 - i), stream(1 - i));
            self.operate(i, Operation::TunnelEnded { neighbor, at });
        }
    }

    pub(crate) fn run(&mut self, span: Duration) {
        let until = self.now + span;
        while self.now < until {
            self.now += STEP;
            let now = self.now;
            let (come, flying) = core::mem::take(&mut self.flying)
                .into_iter()
                .partition(|(at, ..)| *at <= now);
            self.flying = flying;
            let come: Vec<(Time, usize, UnderlayAddr, Burst)> = come;
            for (_, i, from, burst) in come {
                let from = self.seen_from.unwrap_or(from);
                self.input(i, Input::Datagrams { from, burst });
            }
            for i in [0, 1] {
                if self.nodes[i]
                    .next_timeout()
                    .is_some_and(|(at, _)| at <= now)
                {
                    self.input(i, Input::Timeout);
                }
            }
        }
    }

    fn link(&self, i: usize) -> LinkStatus {
        let mut links = self.nodes[i].snapshot(self.now).links;
        links.pop().expect("there is one")
    }

    fn runs_over(&self, over: &str) -> bool {
        [0, 1].iter().all(|i| {
            let link = self.link(*i);
            link.state == "up" && link.over == over
        })
    }

    /// Runs until both nodes have the link up over `over`. Returns how long this took.
    pub(crate) fn until(&mut self, over: &str, most: Duration) -> Duration {
        let began = self.now;
        while !self.runs_over(over) {
            assert!(self.now.since(began) < most, "{:#?}", self.link(0));
            self.run(STEP);
        }
        self.now.since(began)
    }

    /// True if the first node has asked for a stream since the last call.
    fn asks(&mut self) -> bool {
        let events = core::mem::take(&mut self.said[0].events);
        assert!(self.said[1].events.drain(..).all(|it| !is_asking(&it)));
        events.iter().any(is_asking)
    }

    /// Returns the price of both directions in addition to their measures, and whether other nodes are told the reason.
    fn price(&self) -> Vec<(u32, bool)> {
        let links = self.nodes[0].network_snapshot(self.now).links;
        assert_eq!(links.len(), 2);
        let price = |link: &overlay::snapshot::KnownLink| (link.price_us, link.over_tcp);
        links.iter().map(price).collect()
    }
}

fn is_asking(event: &Event) -> bool {
    matches!(event, Event::NoDatagrams { .. })
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_link_runs_over_a_stream_while_datagrams_are_blocked_and_returns() {
    let mut pair = Pair::new();
    pair.is_blocked = true;
    pair.run(s(1));
    assert!(!pair.asks(), "an answer may still come");
    pair.run(Duration::from_millis(1_500));
    assert!(pair.asks());
    pair.open();
    assert!(pair.until("tcp", s(1)) < s(1));
    pair.run(s(5));
    assert_eq!(pair.price(), [(16_000, true); 2]);
    assert!(pair.link(0).at.unwrap().ends_with("over TCP"));
    assert!(!pair.asks());
    // The node spends a few datagrams on trials.
    let before = pair.inits;
    pair.run(s(60));
    assert!(pair.runs_over("tcp"));
    let spent = pair.inits - before;
    assert!((30..60).contains(&spent), "{spent}");
    pair.is_blocked = false;
    assert!(pair.until("udp", s(12)) < s(12));
    pair.run(s(5));
    assert_eq!(pair.price(), [(0, false); 2]);
}

/// The silence of a link counts from the last packet that it received, not from the moment at which it went down.
#[test]
fn an_idle_link_that_goes_silent_asks_for_a_stream_as_soon_as_it_is_down() {
    let step = Duration::from_millis(10);
    // Hellos are one second apart. It makes no difference where in that second the silence begins.
    for phase in 0..10 {
        let mut pair = Pair::new();
        pair.run(s(10) + step * (10 * phase));
        pair.is_blocked = true;
        let asked = (1..600).find(|_| {
            pair.run(step);
            pair.asks()
        });
        let after = asked.map(|steps| step * steps);
        assert!(
            after.is_some_and(|after| after <= Duration::from_millis(4_600)),
            "{phase}: {after:?}"
        );
    }
}

/// Both uplinks let no datagrams through for a while. Then the second one does so again.
#[test]
fn a_link_returns_from_a_stream_by_any_of_its_paths() {
    for outage in [s(10), s(100)] {
        let mut pair = Pair::with_uplinks(2);
        pair.run(s(10));
        let paths = pair.link(0).paths;
        assert!(paths.len() == 2 && paths.iter().all(|path| path.state == "up"));
        pair.is_blocked = true;
        pair.run(s(2));
        pair.open();
        pair.until("tcp", s(3));
        pair.run(outage);
        assert!(pair.runs_over("tcp"));
        (pair.is_blocked, pair.is_first_dead) = (false, true);
        assert!(pair.until("udp", s(12)) < s(12));
        pair.run(s(20));
        let over_tcp = |i: usize| {
            pair.link(i)
                .paths
                .iter()
                .any(|path| path.in_use && path.number == 0)
        };
        assert!(!over_tcp(0) && !over_tcp(1));
        assert_eq!((pair.link(0).paths.len(), pair.link(1).paths.len()), (1, 1));
        pair.close();
        pair.run(s(5));
        assert!(pair.runs_over("udp"));
    }
}

#[test]
fn a_path_that_lets_datagrams_through_for_moments_is_tried_ever_more_seldom() {
    let mut pair = Pair::new();
    pair.run(s(2));
    pair.open();
    assert!(pair.runs_over("udp"));
    // A stream that is already open is used as soon as the silence is noticed.
    pair.is_blocked = true;
    assert!(pair.until("tcp", s(5)) < s(5));
    let mut waits = Vec::new();
    for _ in 0..4 {
        pair.is_blocked = false;
        waits.push(pair.until("udp", s(200)).as_millis() / 1_000);
        pair.is_blocked = true;
        pair.until("tcp", s(5));
    }
    assert!(waits[0] <= 12, "{waits:?}");
    let doubles = |pair: &[u64]| pair[1] >= pair[0] * 3 / 2;
    assert!(waits.windows(2).all(doubles), "{waits:?}");
}

#[test]
fn a_stream_that_ends_leaves_the_link_to_datagrams_or_is_asked_for_again() {
    let mut pair = Pair::new();
    pair.is_blocked = true;
    pair.run(s(3));
    pair.open();
    pair.until("tcp", s(1));
    pair.asks();
    pair.close();
    pair.run(s(5));
    assert!(!pair.runs_over("tcp") && pair.asks());
    pair.open();
    pair.until("tcp", s(2));
    pair.is_blocked = false;
    pair.close();
    assert!(pair.until("udp", s(5)) < s(5));
}

#[test]
fn a_stream_that_takes_the_place_of_another_costs_nothing() {
    let mut pair = Pair::new();
    pair.is_blocked = true;
    pair.run(s(3));
    pair.open();
    pair.until("tcp", s(1));
    pair.run(s(2));
    pair.asks();
    let downs = pair.link(0).counts.downs;
    // The host reports the new stream first.
    pair.open();
    let at = UnderlayAddr {
        port: 444,
        ..stream(1)
    };
    let neighbor = addr(1);
    pair.operate(0, Operation::TunnelEnded { neighbor, at });
    pair.run(s(5));
    assert!(pair.runs_over("tcp"));
    assert_eq!(pair.link(0).counts.downs, downs);
    assert!(!pair.asks());
}

#[test]
fn a_path_that_fails_in_one_direction_only_needs_a_stream_too() {
    for mute in [0, 1] {
        let mut pair = Pair::new();
        pair.run(s(2));
        assert!(pair.runs_over("udp") && !pair.asks());
        pair.is_mute = Some(mute);
        let began = pair.now;
        while !pair.asks() {
            pair.run(STEP);
            // An idle link is silent after 3.6 s at most. Whether it has been dialled for 1.5 s is checked once per
            // second.
            assert!(pair.now.since(began) < s(7), "{mute}");
        }
        pair.open();
        pair.until("tcp", s(2));
        pair.run(s(20));
        assert!(pair.runs_over("tcp"), "{mute}");
        pair.is_mute = None;
        pair.until("udp", s(12));
    }
}

#[test]
fn what_is_sent_on_in_the_stream_of_another_moves_no_link() {
    let mut pair = Pair::new();
    pair.run(s(2));
    let before = pair.link(0).at;
    pair.seen_from = Some(stream(7));
    pair.run(s(2));
    assert_eq!(pair.link(0).at, before);
    assert!(pair.runs_over("udp"));
}

#[test]
fn an_idle_path_that_dies_is_known_within_half_a_second_if_it_is_watched() {
    for is_watched in [false, true] {
        let mut pair = Pair::with_uplinks(2);
        pair.run(s(8));
        pair.is_first_dead = true;
        let neighbor = addr(1);
        if is_watched {
            pair.operate(0, Operation::WatchPaths(neighbor));
        }
        pair.run(Duration::from_millis(500));
        let paths = pair.nodes[0].path_healths(pair.now, neighbor);
        let up = |socket| {
            let those = paths.iter().filter(move |path| path.at.socket == socket);
            those.map(|path| path.state == State::Up && path.in_use)
        };
        assert_eq!(paths.len(), 2);
        assert_eq!(up(0).collect::<Vec<_>>(), [!is_watched]);
        assert_eq!(up(1).collect::<Vec<_>>(), [is_watched]);
    }
}
