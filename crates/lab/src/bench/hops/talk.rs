//! Writers with a steady rate, and readers that know when each message was due.

use crate::bench::BenchError;
use client::MessageStream;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tools::interrupt::Interrupt;

/// The first bytes of a message hold the time at which it was due.
const STAMP_BYTES: usize = 8;
/// Time from the start of the threads to the first message.
const LEAD: Duration = Duration::from_millis(20);
/// The priority of a node: all parts of a chain have the same.
const PRIORITY: u8 = 10;

/// The messages to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) bytes: usize,
    pub(super) interval: Duration,
    pub(super) span: Duration,
}

/// The path of the messages.
pub(super) enum Way {
    Overlay {
        to: MessageStream,
        from: MessageStream,
    },
    Kernel {
        to: TcpStream,
        from: TcpStream,
    },
}

/// One contender.
pub(super) struct Contender {
    name: String,
    way: Way,
}

/// What happened to a contender's messages.
pub(super) struct Told {
    pub(super) name: String,
    pub(super) sent: u64,
    /// The time from when a message was due to its delivery in order, in the order of the messages.
    pub(super) delays: Vec<Duration>,
}

impl Contender {
    pub(super) fn new(name: String, way: Way) -> Contender {
        Contender { name, way }
    }
}

impl Way {
    fn write(&self, message: &[u8]) -> io::Result<()> {
        match self {
            Way::Overlay { to, .. } => to.send(message),
            Way::Kernel { to, .. } => (&*to).write_all(message),
        }
    }

    /// Reads a message. Returns false at the end.
    fn read(&self, message: &mut [u8]) -> io::Result<bool> {
        match self {
            Way::Overlay { from, .. } => match from.recv(message)? {
                0 => Ok(false),
                len if len == message.len() => Ok(true),
                len => Err(io::Error::other(format!("a message of {len} bytes came"))),
            },
            Way::Kernel { from, .. } => match (&*from).read_exact(message) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
                done => done.map(|()| true),
            },
        }
    }

    fn finish(&self) -> io::Result<()> {
        match self {
            Way::Overlay { to, .. } => to.shutdown_write(),
            Way::Kernel { to, .. } => to.shutdown(Shutdown::Write),
        }
    }
}

/// Lets all contenders write at the same time, one after the other within each interval.
pub(super) fn run(
    plan: &Plan,
    contenders: &[Contender],
    interrupt: &Interrupt,
) -> Result<Vec<Told>, BenchError> {
    let (origin, stop) = (Instant::now(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let stop = &stop;
        let share = plan.interval / contenders.len().max(1) as u32;
        let threads: Vec<_> = contenders
            .iter()
            .zip(0..)
            .map(|(contender, place)| {
                let first = LEAD + share * place;
                let way = &contender.way;
                let writing = scope.spawn(move || write(plan, way, origin, first, stop));
                let reading = scope.spawn(move || read(plan, way, origin));
                (&contender.name, writing, reading)
            })
            .collect();
        let asked = interrupt.wait(base::Duration::from_secs_f64(plan.span.as_secs_f64()));
        stop.store(!matches!(asked, Ok(false)), Ordering::Relaxed);
        let mut told = Vec::new();
        for (name, writing, reading) in threads {
            let sent = writing
                .join()
                .unwrap_or_else(|panic| resume_unwind(panic))?;
            let delays = reading
                .join()
                .unwrap_or_else(|panic| resume_unwind(panic))?;
            let name = name.clone();
            told.push(Told { name, sent, delays });
        }
        Ok(told)
    })
}

/// Writes messages and returns how many.
fn write(
    plan: &Plan,
    way: &Way,
    origin: Instant,
    first: Duration,
    stop: &AtomicBool,
) -> io::Result<u64> {
    // The priority is optional: without it some messages leave later than they are due.
    let _ = net::sched::real_time(PRIORITY);
    let mut message = vec![0x5a; plan.bytes];
    let mut sent = 0;
    let mut due = first;
    while due < first + plan.span && !stop.load(Ordering::Relaxed) {
        sleep((origin + due).saturating_duration_since(Instant::now()));
        message[..STAMP_BYTES].copy_from_slice(&(due.as_nanos() as u64).to_be_bytes());
        way.write(&message)?;
        sent += 1;
        due += plan.interval;
    }
    way.finish()?;
    Ok(sent)
}

/// Returns the delays of all messages.
fn read(plan: &Plan, way: &Way, origin: Instant) -> io::Result<Vec<Duration>> {
    let _ = net::sched::real_time(PRIORITY);
    let mut message = vec![0; plan.bytes];
    let mut delays = Vec::new();
    while way.read(&mut message)? {
        let stamp = message.first_chunk::<STAMP_BYTES>().copied();
        let due = Duration::from_nanos(u64::from_be_bytes(stamp.unwrap_or_default()));
        delays.push(origin.elapsed().saturating_sub(due));
    }
    Ok(delays)
}
