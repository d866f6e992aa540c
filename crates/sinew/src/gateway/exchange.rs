//! Reports that two gateways send each other about a call.
//!
//! ```text
//!   phone ─ gateway A ══ overlay ══ gateway B ─ phone
//!              ▲ hears what B's phone said        ▲ hears what A's phone said
//!              └───────── a datagram each, every two seconds ─────────┘
//! ```
//! Each gateway measures the direction whose packets have crossed the overlay, so each has half of the results that the
//! phones get. A report is a datagram of JSON for one call, best effort, to [`REPORT_PORT`] of the peer's node. A
//! gateway accepts it only from the node at the other end of the call, and reads only the known numbers. If a gateway
//! does not report, the other half stays unknown.

use super::record;
use base::NodeAddr;
use client::{DatagramSocket, Error, Node, Options, Target};
use gateway::sip::{Gateway, Record};
use net::epoll::{Interest, Poller, Waker};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// The virtual port for reports, next to that of multicast bridges.
pub const REPORT_PORT: u16 = 1113;
/// Interval of the reports of a call. Choice: the table that a user watches is updated every second.
const EVERY: base::Duration = base::Duration::from_secs(2);
/// Most calls that are reported in one turn; further calls are reported in later turns. 250 datagrams/s of at most 700
/// bytes are 1.4 Mbit/s, as much as the speech of sixteen calls.
const TURN_MAX: usize = 500;
/// Number of turns for which the results of an ended call are kept, because its record needs them.
const KEPT_TURNS: u8 = 3;
/// The longest report that is read.
const REPORT_BYTES_MAX: usize = 4_096;
/// Most streams of a call that are reported. Phones usually agree on one or two.
const STREAMS_MAX: usize = 4;

/// The results of calls at their other ends.
#[derive(Clone, Debug, Default)]
pub struct Far(Arc<Mutex<Known>>);

/// The results by the node at the other end, and the Call-ID.
type Known = HashMap<(NodeAddr, String), Heard>;

#[derive(Debug, Default)]
struct Heard {
    streams: Vec<Value>,
    /// Number of turns since the call ended.
    gone: u8,
}

impl Far {
    /// Returns what the other gateway measured for a call, stream by stream.
    pub fn of(&self, call: &Record) -> Vec<Value> {
        let Some(peer) = call.peer else {
            return Vec::new();
        };
        let heard = self.with(|known| {
            let heard = known.get(&(peer, call.call_id.clone()))?;
            Some(heard.streams.clone())
        });
        heard.unwrap_or_default()
    }

    fn with<T>(&self, work: impl FnOnce(&mut Known) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps the results of these calls. Other calls are forgotten after some turns.
    fn keep(&self, calls: impl Iterator<Item = (NodeAddr, String)>) {
        self.with(|known| {
            known.values_mut().for_each(|heard| heard.gone += 1);
            for call in calls {
                known.entry(call).or_default().gone = 0;
            }
            known.retain(|_, heard| heard.gone <= KEPT_TURNS);
        });
    }

    /// Reads a report. The function ignores it if this node has no such call with the sender.
    fn take(&self, from: NodeAddr, report: &[u8]) {
        let Ok(report) = serde_json::from_slice::<Value>(report) else {
            return;
        };
        let call_id = report["call_id"].as_str().unwrap_or_default().to_owned();
        let streams = report["streams"].as_array().into_iter().flatten();
        let streams: Vec<Value> = streams.take(STREAMS_MAX).map(checked).collect();
        self.with(|known| {
            if let Some(heard) = known.get_mut(&(from, call_id)) {
                heard.streams = streams;
            }
        });
    }
}

/// Returns the known numbers of another gateway's report.
fn checked(stream: &Value) -> Value {
    let mut value = Map::new();
    for direction in record::DIRECTIONS {
        let quality = &stream[direction]["quality"];
        let numbers = record::QUALITY
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), quality[*key].as_f64()?.into())));
        let numbers: Map<String, Value> = numbers.collect();
        if !numbers.is_empty() {
            value.insert(
                direction.to_owned(),
                json!({"over": "overlay", "quality": numbers}),
            );
        }
    }
    value.into()
}

/// Reports what this gateway measured for a call: the directions that came over the overlay.
fn report(call: &Record) -> Option<Vec<u8>> {
    let streams: Vec<Value> = call
        .report
        .as_ref()?
        .streams
        .iter()
        .take(STREAMS_MAX)
        .map(record::heard_over_overlay)
        .collect();
    let report = json!({"call_id": call.call_id, "streams": streams}).to_string();
    (report.len() <= REPORT_BYTES_MAX).then(|| report.into_bytes())
}

/// The thread that sends and receives reports, until this value is dropped.
pub struct Exchange {
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Exchange {
    /// Starts the thread.
    pub fn start(node: Node, gateway: Arc<Gateway>, far: Far) -> io::Result<Exchange> {
        let stop = Arc::new(AtomicBool::new(false));
        let waker = Arc::new(Waker::new()?);
        let poller = Poller::new()?;
        poller.add(&*waker, 0, Interest::READ)?;
        let turns = Turns {
            node,
            gateway,
            far,
            socket: None,
            next: 0,
        };
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("exchange".into());
        let thread = thread.spawn(move || turns.run(poller, &stopped))?;
        Ok(Exchange {
            stop,
            waker,
            thread: Some(thread),
        })
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Turns {
    node: Node,
    gateway: Arc<Gateway>,
    far: Far,
    /// `None` while the node is away, or another program has the port.
    socket: Option<DatagramSocket>,
    /// The call that is reported first in the next turn.
    next: usize,
}

impl Turns {
    fn run(mut self, mut poller: Poller, stop: &AtomicBool) {
        let clock = net::Clock::new();
        let mut due = clock.now();
        let mut ready = Vec::new();
        while !stop.load(Ordering::SeqCst) {
            if clock.now() >= due {
                due = clock.now() + EVERY;
                if self.socket.is_none() {
                    self.socket = bind(&self.node, &poller);
                }
                self.tell();
            }
            if poller
                .wait(Some(due.since(clock.now())), &mut ready)
                .is_err()
            {
                return;
            }
            if !self.hear()
                && let Some(socket) = self.socket.take()
            {
                // The node has gone. The next turn looks for it.
                let _ = poller.remove(&socket);
            }
        }
    }

    fn tell(&mut self) {
        let calls = self.gateway.calls();
        let carried: Vec<(NodeAddr, &Record)> = calls
            .iter()
            .filter_map(|call| Some((call.peer.filter(|_| call.is_carried)?, call)))
            .collect();
        let ids = carried
            .iter()
            .map(|(peer, call)| (*peer, call.call_id.clone()));
        self.far.keep(ids);
        let Some(socket) = &self.socket else { return };
        if self.next >= carried.len() {
            self.next = 0;
        }
        for (peer, call) in carried.iter().skip(self.next).take(TURN_MAX) {
            self.next += 1;
            let Some(report) = report(call) else { continue };
            match socket.send_to(&report, Target::new(*peer, REPORT_PORT)) {
                Ok(()) | Err(Error::Refused { .. }) => {}
                // The node is busy, or has gone. The next turn sends more.
                Err(_) => return,
            }
        }
    }

    /// Reads the reports that have arrived. Returns false if the node has gone.
    fn hear(&self) -> bool {
        let Some(socket) = &self.socket else {
            return true;
        };
        let mut buffer = [0; REPORT_BYTES_MAX];
        for _ in 0..TURN_MAX {
            match socket.recv_from(&mut buffer) {
                Ok((len, from, _)) => self.far.take(from.node, &buffer[..len]),
                Err(Error::WouldBlock) => return true,
                // A gateway of an older version does not listen at the port.
                Err(Error::Refused { .. }) => {}
                Err(_) => return false,
            }
        }
        true
    }
}

fn bind(node: &Node, poller: &Poller) -> Option<DatagramSocket> {
    let socket = node.bind(REPORT_PORT, Options::best_effort()).ok()?;
    socket.set_nonblocking(true).ok()?;
    poller.add(&socket, 1, Interest::READ).ok()?;
    Some(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    const PEER: NodeAddr = NodeAddr(0x0a07_0002);

    fn call() -> Record {
        Record {
            number: 7,
            call_id: "x@y".to_owned(),
            from: "alice".to_owned(),
            to: "bob".to_owned(),
            started: SystemTime::UNIX_EPOCH,
            answered_after: None,
            lasted: Duration::from_secs(3),
            end: None,
            peer: Some(PEER),
            is_carried: true,
            report: None,
        }
    }

    fn told(loss: f64) -> Vec<u8> {
        let quality = json!({"loss": loss, "mos": 4.3, "password": "secret", "r_factor": "high"});
        let report = json!({"call_id": "x@y", "streams": [{"from_caller": {"quality": quality}}]});
        report.to_string().into_bytes()
    }

    #[test]
    fn only_the_node_at_the_other_end_is_believed_and_only_its_numbers() {
        let far = Far::default();
        far.take(PEER, &told(0.5));
        assert!(far.of(&call()).is_empty(), "there is no such call");
        far.keep([(PEER, "x@y".to_owned())].into_iter());
        far.take(NodeAddr(0x0a07_0009), &told(0.9));
        far.take(PEER, b"{nonsense");
        assert!(far.of(&call()).is_empty());
        far.take(PEER, &told(0.25));
        let heard = json!({"from_caller": {"over": "overlay",
                           "quality": {"loss": 0.25, "mos": 4.3}}});
        assert_eq!(far.of(&call()), [heard]);
        let json = record::json(&call(), &far);
        assert_eq!(json["call_id"], "x@y");
    }

    #[test]
    fn a_call_that_has_ended_is_known_for_some_turns() {
        let far = Far::default();
        far.keep([(PEER, "x@y".to_owned())].into_iter());
        far.take(PEER, &told(0.25));
        for _ in 0..KEPT_TURNS {
            far.keep([].into_iter());
            assert_eq!(far.of(&call()).len(), 1);
        }
        far.keep([].into_iter());
        assert!(far.of(&call()).is_empty());
    }
}
