//! Voice between clients of real nodes: 50 numbered packets per second, for as long as a test
//! wants. If the node of an end stops, the end looks for it again, as a phone does.

use client::{DatagramSocket, Error, Node, Options, Target};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time between two packets.
pub(crate) const INTERVAL: Duration = Duration::from_millis(20);
/// The deadline of a packet.
const DEADLINE: Duration = Duration::from_millis(200);
/// The time between two attempts to find a node that has gone.
const RETRY: Duration = Duration::from_millis(20);
/// After this much silence the listener checks whether the stream is over.
const LOOK: base::Duration = base::Duration::from_millis(20);
/// Bytes of a packet: the number, and filling up to the size of speech.
const BYTES: usize = 160;

/// The records of both ends.
#[derive(Debug)]
struct Notes {
    start: Instant,
    stop: AtomicBool,
    /// Packets that are due, sent or not.
    due: AtomicU64,
    /// When each packet first arrived, by its number.
    arrived: Mutex<Vec<Option<Duration>>>,
    reconnected: AtomicU64,
}

/// A running stream.
pub(crate) struct Stream {
    pub(crate) name: String,
    notes: Arc<Notes>,
    ends: Vec<JoinHandle<()>>,
}

/// A client's node by its socket file, and the client's port.
#[derive(Clone, Debug)]
struct Home {
    node: Node,
    port: u16,
}

impl Home {
    /// Connects to the node, with retries. Returns `None` once the stream is over.
    fn bind(&self, notes: &Notes) -> Option<DatagramSocket> {
        while !notes.stop.load(Ordering::Acquire) {
            match self.node.bind(self.port, Options::voice(DEADLINE)) {
                Ok(socket) => {
                    socket.set_nonblocking(true).unwrap();
                    return Some(socket);
                }
                // The node has gone, or does not know yet that the last socket of its client has
                // gone.
                Err(Error::NoNode { .. } | Error::Closed | Error::Refused { .. }) => {
                    std::thread::sleep(RETRY);
                }
                Err(error) => panic!("{error}"),
            }
        }
        None
    }
}

impl Stream {
    /// Starts to send from a client of the node behind `from` to one of the node behind `to`.
    pub(crate) fn begin(name: &str, from: PathBuf, to: PathBuf, port: u16) -> Stream {
        let notes = Arc::new(Notes {
            start: Instant::now(),
            stop: AtomicBool::new(false),
            due: AtomicU64::new(0),
            arrived: Mutex::default(),
            reconnected: AtomicU64::new(0),
        });
        let home = |path| Home {
            node: Node::at(path),
            port,
        };
        // The listener must exist before the first packet.
        let listener = home(to);
        let ear = listener.bind(&notes).unwrap();
        let target = ear.local();
        let (hear, say) = (Arc::clone(&notes), Arc::clone(&notes));
        let speaker = home(from);
        let ends = vec![
            std::thread::spawn(move || listen(&listener, ear, &hear)),
            std::thread::spawn(move || speak(&speaker, target, &say)),
        ];
        Stream {
            name: name.to_owned(),
            notes,
            ends,
        }
    }

    /// Returns the number of packets that are due so far.
    pub(crate) fn due(&self) -> u64 {
        self.notes.due.load(Ordering::Acquire)
    }

    /// Waits until `count` more packets are due.
    pub(crate) fn run(&self, count: u64) {
        let until = self.due() + count;
        while self.due() < until {
            std::thread::sleep(INTERVAL);
        }
    }

    /// Returns how often an end has found its node again.
    pub(crate) fn reconnected(&self) -> u64 {
        self.notes.reconnected.load(Ordering::Acquire)
    }

    /// Returns the number of the last packet that has arrived.
    pub(crate) fn last(&self) -> Option<u64> {
        let arrived = self.notes.arrived.lock().unwrap();
        let last = arrived.iter().rposition(Option::is_some)?;
        Some(last as u64)
    }

    /// Returns the first packet with at least the number `from` that has arrived, and how long
    /// after `since`.
    pub(crate) fn first_from(&self, from: u64, since: Instant) -> Option<(u64, Duration)> {
        let arrived = self.notes.arrived.lock().unwrap();
        let at = |n: usize| Some((n as u64, arrived[n]?));
        let (n, after) = (from as usize..arrived.len()).find_map(at)?;
        let since = since.saturating_duration_since(self.notes.start);
        Some((n, after.saturating_sub(since)))
    }

    /// Returns how many packets of the numbers `from..to` have not arrived.
    pub(crate) fn lost(&self, from: u64, to: u64) -> u64 {
        let arrived = self.notes.arrived.lock().unwrap();
        let came = |n: u64| arrived.get(n as usize).is_some_and(Option::is_some);
        (from..to).filter(|n| !came(*n)).count() as u64
    }

    /// Returns the longest run of packets of the numbers `from..to` that have not arrived.
    pub(crate) fn gap(&self, from: u64, to: u64) -> u64 {
        let arrived = self.notes.arrived.lock().unwrap();
        let (mut longest, mut run) = (0, 0);
        for n in from..to {
            let came = arrived.get(n as usize).is_some_and(Option::is_some);
            run = if came { 0 } else { run + 1 };
            longest = longest.max(run);
        }
        longest
    }

    /// Returns the longest time without an arrival, among the packets of the numbers `from..to`.
    pub(crate) fn silence(&self, from: u64, to: u64) -> Duration {
        let arrived = self.notes.arrived.lock().unwrap();
        let mut at: Vec<Duration> = (from..to)
            .filter_map(|n| *arrived.get(n as usize)?)
            .collect();
        at.sort_unstable();
        let gaps = at.windows(2).map(|pair| pair[1] - pair[0]);
        gaps.max().unwrap_or(Duration::MAX)
    }

    /// Ends the stream. Packets in flight are lost.
    pub(crate) fn end(&mut self) {
        self.notes.stop.store(true, Ordering::Release);
        for end in self.ends.drain(..) {
            let ended = end.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.end();
    }
}

/// Sends each packet at its time. A sender that is a little late catches up. If it is later than
/// the deadline, it continues from the present time, because the machine did not run. Without a
/// node it sends nothing.
fn speak(home: &Home, to: Target, notes: &Notes) {
    let mut socket = home.node.bind(0, Options::voice(DEADLINE)).ok();
    let mut retry_at = Instant::now();
    let mut due = notes.start;
    for n in 0u64.. {
        due += INTERVAL;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let now = Instant::now();
        if now.saturating_duration_since(due) > DEADLINE {
            due = now;
        }
        if notes.stop.load(Ordering::Acquire) {
            return;
        }
        if socket.is_none() && Instant::now() >= retry_at {
            retry_at = Instant::now() + RETRY;
            socket = home.node.bind(0, Options::voice(DEADLINE)).ok();
            let found = u64::from(socket.is_some());
            notes.reconnected.fetch_add(found, Ordering::AcqRel);
        }
        let mut packet = [0; BYTES];
        packet[..8].copy_from_slice(&n.to_be_bytes());
        let sent = socket.as_ref().map(|socket| socket.send_to(&packet, to));
        match sent {
            None | Some(Ok(())) => {}
            Some(Err(Error::Closed)) => socket = None,
            Some(Err(error)) => panic!("{error}"),
        }
        notes.due.store(n + 1, Ordering::Release);
    }
}

/// Records the packets that arrive, until the stream is over.
fn listen(home: &Home, ear: DatagramSocket, notes: &Notes) {
    let mut ear = Some(ear);
    let mut ready = Vec::new();
    let mut buffer = [0; 2 * BYTES];
    while let Some(socket) = &ear {
        let mut poller = net::epoll::Poller::new().unwrap();
        poller.add(socket, 0, net::epoll::Interest::READ).unwrap();
        while !notes.stop.load(Ordering::Acquire) {
            match socket.recv_from(&mut buffer) {
                Ok((len, ..)) => note(&buffer[..len], notes),
                Err(Error::WouldBlock) => poller.wait(Some(LOOK), &mut ready).unwrap(),
                Err(Error::Closed | Error::Refused { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        ear = home.bind(notes);
        let found = u64::from(ear.is_some());
        notes.reconnected.fetch_add(found, Ordering::AcqRel);
    }
}

fn note(packet: &[u8], notes: &Notes) {
    let (number, _) = packet.split_first_chunk().unwrap();
    let n = u64::from_be_bytes(*number) as usize;
    let mut arrived = notes.arrived.lock().unwrap();
    if arrived.len() <= n {
        arrived.resize(n + 1, None);
    }
    arrived[n].get_or_insert_with(|| notes.start.elapsed());
}
