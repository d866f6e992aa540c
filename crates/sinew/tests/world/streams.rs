//! Voice between clients of real nodes: 50 packets per second, numbered, for as long as a test
//! wants. An end whose node dies looks for it again, as a phone does.

use client::{DatagramSocket, Error, Node, Options, Target};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From one packet to the next.
pub(crate) const INTERVAL: Duration = Duration::from_millis(20);
/// How long after sending a packet is of use.
const DEADLINE: Duration = Duration::from_millis(200);
/// From one look for a node that is gone to the next.
const RETRY: Duration = Duration::from_millis(20);
/// After so much silence the listener looks whether it is over.
const LOOK: base::Duration = base::Duration::from_millis(20);
/// Bytes of a packet: the number, and as many as speech needs.
const BYTES: usize = 160;

/// What both ends note.
#[derive(Debug)]
struct Notes {
    start: Instant,
    stop: AtomicBool,
    /// Packets whose moment has come, sent or not.
    due: AtomicU64,
    /// When each packet arrived first, by its number.
    arrived: Mutex<Vec<Option<Duration>>>,
    reconnected: AtomicU64,
}

/// A stream that runs.
pub(crate) struct Stream {
    pub(crate) name: String,
    notes: Arc<Notes>,
    ends: Vec<JoinHandle<()>>,
}

/// Where a client lives: its node's socket file, and its port.
#[derive(Clone, Debug)]
struct Home {
    node: Node,
    port: u16,
}

impl Home {
    /// Connects to the node, again and again; nothing once the stream is over.
    fn bind(&self, notes: &Notes) -> Option<DatagramSocket> {
        while !notes.stop.load(Ordering::Acquire) {
            match self.node.bind(self.port, Options::voice(DEADLINE)) {
                Ok(socket) => {
                    socket.set_nonblocking(true).unwrap();
                    return Some(socket);
                }
                // The node is gone, or does not know yet that its client's last socket is.
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
    /// Begins to speak from a client of the node behind `from` to one of the node behind `to`.
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
        // Somebody listens before anybody speaks.
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

    /// Packets whose moment has come so far.
    pub(crate) fn due(&self) -> u64 {
        self.notes.due.load(Ordering::Acquire)
    }

    /// Waits until `count` more packets were due.
    pub(crate) fn run(&self, count: u64) {
        let until = self.due() + count;
        while self.due() < until {
            std::thread::sleep(INTERVAL);
        }
    }

    /// How often an end has found its node again.
    pub(crate) fn reconnected(&self) -> u64 {
        self.notes.reconnected.load(Ordering::Acquire)
    }

    /// The number of the last packet that has arrived.
    pub(crate) fn last(&self) -> Option<u64> {
        let arrived = self.notes.arrived.lock().unwrap();
        let last = arrived.iter().rposition(Option::is_some)?;
        Some(last as u64)
    }

    /// The first packet of those from number `from` that has arrived, and how long after the
    /// moment `since`.
    pub(crate) fn first_from(&self, from: u64, since: Instant) -> Option<(u64, Duration)> {
        let arrived = self.notes.arrived.lock().unwrap();
        let at = |n: usize| Some((n as u64, arrived[n]?));
        let (n, after) = (from as usize..arrived.len()).find_map(at)?;
        let since = since.saturating_duration_since(self.notes.start);
        Some((n, after.saturating_sub(since)))
    }

    /// Packets of the numbers `from..to` that have not arrived.
    pub(crate) fn lost(&self, from: u64, to: u64) -> u64 {
        let arrived = self.notes.arrived.lock().unwrap();
        let came = |n: u64| arrived.get(n as usize).is_some_and(Option::is_some);
        (from..to).filter(|n| !came(*n)).count() as u64
    }

    /// The most packets in a row, of the numbers `from..to`, that have not arrived.
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

    /// The longest time without an arrival, among the packets of the numbers `from..to`.
    pub(crate) fn silence(&self, from: u64, to: u64) -> Duration {
        let arrived = self.notes.arrived.lock().unwrap();
        let mut at: Vec<Duration> = (from..to)
            .filter_map(|n| *arrived.get(n as usize)?)
            .collect();
        at.sort_unstable();
        let gaps = at.windows(2).map(|pair| pair[1] - pair[0]);
        gaps.max().unwrap_or(Duration::MAX)
    }

    /// Ends it. Whatever is still on its way is lost.
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

/// Sends each packet at its moment. A speaker that is a little late catches up, one that is later
/// than a packet is of use goes on from there: the machine did not run. Without a node it is silent.
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

/// Notes what arrives, until the stream is over.
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
