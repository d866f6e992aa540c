//! The thread between two TAP devices: two lines, one per direction.
//!
//! ```text
//!   wait ── frame waits ──▶ take up to 64 of each side into their lines
//!     ▲ └── one is due ───▶ let it arrive at the other side, and note how late that was
//!     └─────────────────────┘
//! ```
//!
//! The thread waits by epoll with a timer under real-time priority. This releases packets closer to
//! their times than a loop that never sleeps: on a machine that does other work, the scheduler
//! takes the processor from such a loop when it has used up its share.

use base::histogram::Histogram;
use base::impair::{Counts, Line, Model};
use base::{Rng, Time};
use net::Clock;
use net::epoll::{Interest, Poller, Waker};
use net::sched;
use net::tap::{ETHERNET_BYTES, FRAME_BYTES_MAX, Tap};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Frames that are taken at once from each side. The limit keeps due frames from waiting: 64 take
/// some 300 µs.
const READS_PER_TURN: usize = 64;
/// Real-time priority of the thread. It is above everything that may send through the link from
/// this machine: a packet that waits for the emulator would be delayed by more than the model says.
const PRIORITY: u8 = 40;
const TOKEN_WAKER: u64 = 2;

/// A running bridge. Dropping it ends its thread.
pub struct Bridge {
    stopping: Arc<AtomicBool>,
    orders: Arc<Mutex<[Option<Model>; 2]>>,
    waker: Waker,
    thread: Option<JoinHandle<io::Result<Carried>>>,
}

/// What a bridge carried in both directions.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    /// The scheduling that its thread got.
    pub scheduling: String,
    /// Forward, then back.
    pub ways: [Way; 2],
}

/// One direction.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// Packets that a program handed in.
    pub packets_in: u64,
    /// Bytes of these packets, counted as IP packets.
    pub bytes_in: u64,
    /// What the model did to them.
    pub counts: Counts,
    /// Packets that the kernel refused to deliver.
    pub refused: u64,
    /// Packets that were still in the line at the end.
    pub under_way: u64,
    /// How long after its time each packet was delivered.
    pub late_ns: Histogram,
}

impl Bridge {
    /// Carries frames from the first device to the second after the first model, and back after
    /// the second.
    pub fn start(taps: [Arc<Tap>; 2], models: &[Model; 2], seed: u64) -> io::Result<Bridge> {
        let (poller, waker) = (Poller::new()?, Waker::new()?);
        for (token, tap) in taps.iter().enumerate() {
            poller.add(&**tap, token as u64, Interest::READ)?;
        }
        poller.add(&waker, TOKEN_WAKER, Interest::READ)?;
        let mut rng = Rng::new(seed);
        let lines = models
            .each_ref()
            .map(|model| Line::new(model.clone(), rng.fork()));
        let orders = Arc::new(Mutex::new([None, None]));
        let stopping = Arc::new(AtomicBool::new(false));
        let joint = Joint {
            taps,
            lines,
            clock: Clock::new(),
            carried: Carried::default(),
            orders: orders.clone(),
            waker: waker.clone(),
            frame: vec![0; FRAME_BYTES_MAX].into(),
        };
        let stop = stopping.clone();
        let thread = std::thread::Builder::new().name("emulate".into());
        Ok(Bridge {
            stopping,
            orders,
            waker,
            thread: Some(thread.spawn(move || joint.run(poller, &stop))?),
        })
    }

    /// Sets the model of one direction. Packets in the line arrive as the old model decided.
    pub fn set_model(&self, way: usize, model: Model) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)[way] = Some(model);
        self.waker.wake();
    }

    /// Returns false once a device has gone, or failed.
    pub fn is_running(&self) -> bool {
        self.thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
    }

    /// Ends the bridge and returns what it carried. Packets that are still in the line are lost.
    pub fn stop(mut self) -> io::Result<Carried> {
        self.join().unwrap_or_else(|| Ok(Carried::default()))
    }

    fn join(&mut self) -> Option<io::Result<Carried>> {
        self.stopping.store(true, Ordering::Release);
        self.waker.wake();
        let ended = self.thread.take()?.join();
        Some(ended.unwrap_or_else(|_| Err(io::Error::other("its thread panicked"))))
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.join();
    }
}

/// The state of the thread.
struct Joint {
    taps: [Arc<Tap>; 2],
    /// The line of each device. It leads from the device with the same index to the other one.
    lines: [Line<Box<[u8]>>; 2],
    clock: Clock,
    carried: Carried,
    orders: Arc<Mutex<[Option<Model>; 2]>>,
    waker: Waker,
    frame: Box<[u8]>,
}

impl Joint {
    fn run(mut self, mut poller: Poller, stopping: &AtomicBool) -> io::Result<Carried> {
        self.carried.scheduling = sched::real_time(PRIORITY).to_string();
        // This is a refinement: without it, times are less exact by 50 µs.
        let _ = sched::timer_slack(base::Duration::from_nanos(1));
        let mut ready = Vec::new();
        while !stopping.load(Ordering::Acquire) {
            self.release(0);
            self.release(1);
            let next = self.lines.iter().filter_map(Line::next).min();
            let timeout = next.map(|at: Time| at.since(self.clock.now()));
            poller.wait(timeout, &mut ready)?;
            for event in &ready {
                match event.token {
                    TOKEN_WAKER => self.obey(),
                    way => self.take(way as usize)?,
                }
            }
        }
        for (way, line) in self.carried.ways.iter_mut().zip(&self.lines) {
            way.counts = line.pipe().counts();
            way.under_way = line.len() as u64;
        }
        Ok(self.carried)
    }

    fn obey(&mut self) {
        self.waker.drain();
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        for (line, order) in self.lines.iter_mut().zip(orders.iter_mut()) {
            if let Some(model) = order.take() {
                line.set_model(model);
            }
        }
    }

    /// Takes the frames that wait at a device into the device's line.
    fn take(&mut self, way: usize) -> io::Result<()> {
        let counts = &mut self.carried.ways[way];
        for _ in 0..READS_PER_TURN {
            let Some(len) = self.taps[way].receive(&mut self.frame)? else {
                break;
            };
            let bytes = len.saturating_sub(ETHERNET_BYTES);
            counts.packets_in += 1;
            counts.bytes_in += bytes as u64;
            // The line counts the result by itself.
            let _ = self.lines[way].push(self.clock.now(), bytes, self.frame[..len].into());
        }
        Ok(())
    }

    /// Delivers the frames that are due.
    fn release(&mut self, way: usize) {
        let (line, counts) = (&mut self.lines[way], &mut self.carried.ways[way]);
        while let Some(due) = line.next() {
            let now = self.clock.now();
            let Some(frame) = line.pop_due(now) else {
                break;
            };
            counts.late_ns.record(now.since(due).as_nanos());
            if self.taps[1 - way].send(&frame).is_err() {
                counts.refused += 1;
            }
        }
    }
}
