//! Round trips over each link, all the time: the effect of a copy on other traffic on its path.
//!
//! ```text
//!   near end ── 20 datagrams a second ──▶ far end, which sends them back      one pair for each link
//! ```

use super::site::{Site, address};
use crate::experiment::CellError;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const PORT: u16 = 9_100;
const EVERY: Duration = Duration::from_millis(50);
/// How long a thread waits before it checks whether to end.
const LOOK: Duration = Duration::from_millis(200);

/// A round trip: when its datagram was sent, and how long it took.
type Sample = (Instant, Duration);

/// Running pings. Dropping this ends them.
pub(in super::super) struct Pings {
    links: Vec<Arc<Mutex<Vec<Sample>>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Pings {
    /// Starts pings over all links of a site.
    pub(in super::super) fn start(site: &Site) -> Result<Pings, CellError> {
        let mut pings = Pings {
            links: Vec::new(),
            stop: Arc::default(),
            threads: Vec::new(),
        };
        for link in 0..site.links().len() {
            pings
                .over(site, link)
                .map_err(|error| CellError(format!("pings over link {link}: {error}")))?;
        }
        Ok(pings)
    }

    fn over(&mut self, site: &Site, link: usize) -> io::Result<()> {
        let open = |end: usize, port: u16| -> io::Result<UdpSocket> {
            let bind = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port));
            let inside = site.host(site.links()[link].ends[end]);
            let socket = inside.run(bind).map_err(io::Error::other)??;
            socket.set_read_timeout(Some(LOOK))?;
            Ok(socket)
        };
        let port = PORT + link as u16;
        let (near, far) = (open(0, 0)?, open(1, port)?);
        near.connect((address(link, 1), port))?;
        let samples = Arc::<Mutex<Vec<Sample>>>::default();
        let (sender, into) = (near.try_clone()?, Arc::clone(&samples));
        let begun = Instant::now();
        let works: [Box<dyn Fn() + Send>; 3] = [
            Box::new(move || answer(&far)),
            Box::new(move || ask(&sender, begun)),
            Box::new(move || hear(&near, begun, &into)),
        ];
        for work in works {
            let stop = Arc::clone(&self.stop);
            self.threads.push(thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    work();
                }
            }));
        }
        self.links.push(samples);
        Ok(())
    }

    /// Returns the mean round trip over each link of datagrams that were sent in a span of time, in milliseconds; NaN
    /// if none came back.
    pub(in super::super) fn between(&self, from: Instant, to: Instant) -> Vec<f64> {
        let mean = |samples: &Arc<Mutex<Vec<Sample>>>| {
            let samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
            let within = samples.iter().filter(|(at, _)| (from..to).contains(at));
            crate::stats::mean(within.map(|(_, took)| took.as_secs_f64() * 1e3))
        };
        self.links.iter().map(mean).collect()
    }
}

impl Drop for Pings {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn answer(socket: &UdpSocket) {
    let mut datagram = [0; 8];
    if let Ok((len, from)) = socket.recv_from(&mut datagram) {
        // A failed answer counts as a lost datagram.
        let _ = socket.send_to(&datagram[..len], from);
    }
}

/// Sends a datagram that contains its time of sending.
fn ask(socket: &UdpSocket, begun: Instant) {
    let at = begun.elapsed().as_nanos() as u64;
    let _ = socket.send(&at.to_be_bytes());
    thread::sleep(EVERY);
}

fn hear(socket: &UdpSocket, begun: Instant, into: &Mutex<Vec<Sample>>) {
    let mut datagram = [0; 8];
    if let Ok(8) = socket.recv(&mut datagram) {
        let at = begun + Duration::from_nanos(u64::from_be_bytes(datagram));
        let mut samples = into.lock().unwrap_or_else(PoisonError::into_inner);
        samples.push((at, at.elapsed()));
    }
}
