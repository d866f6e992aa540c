//! A network between a client and a gate, with TCP and UDP at the same port. The test can impair
//! each of them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// Datagrams longer than this are data; probes are shorter.
const PROBE_BYTES: usize = 100;

#[derive(Default)]
pub(crate) struct Faults {
    /// TCP carries nothing, as if its next segment were lost every time.
    held: Mutex<bool>,
    released: Condvar,
    /// UDP drops longer datagrams, if this is not 0.
    pub(crate) longest: AtomicUsize,
    /// UDP carries nothing.
    pub(crate) is_blocked: AtomicBool,
    /// Each tenth datagram with data is lost.
    pub(crate) is_lossy: AtomicBool,
    /// Datagrams with data that arrived here, and how many of them were lost.
    data: AtomicU64,
    pub(crate) lost: AtomicU64,
    /// The NAT forgets the port: the next datagram leaves from another one.
    pub(crate) forgets: AtomicBool,
}

impl Faults {
    pub(crate) fn hold_tcp(&self, hold: bool) {
        *self.held.lock().unwrap() = hold;
        self.released.notify_all();
    }

    fn wait(&self) {
        let held = self.held.lock().unwrap();
        drop(self.released.wait_while(held, |held| *held).unwrap());
    }

    fn passes(&self, len: usize) -> bool {
        let longest = self.longest.load(Ordering::SeqCst);
        if self.is_blocked.load(Ordering::SeqCst) || (longest > 0 && len > longest) {
            return false;
        }
        if len < PROBE_BYTES || !self.is_lossy.load(Ordering::SeqCst) {
            return true;
        }
        let is_lost = self.data.fetch_add(1, Ordering::SeqCst) % 10 == 9;
        self.lost.fetch_add(u64::from(is_lost), Ordering::SeqCst);
        !is_lost
    }
}

/// Forwards both protocols to `gate` from another address, at the same port.
pub(crate) fn network(gate: SocketAddr) -> (SocketAddr, Arc<Faults>) {
    let SocketAddr::V4(gate) = gate else {
        panic!("not of IPv4");
    };
    let other = Ipv4Addr::from_bits(gate.ip().to_bits() ^ 0x0080_0000);
    let at = SocketAddr::from((other, gate.port()));
    let faults = Arc::new(Faults::default());
    let listener = TcpListener::bind(at).unwrap();
    let of_tcp = Arc::clone(&faults);
    thread::spawn(move || {
        for here in listener.incoming() {
            let (here, there) = (here.unwrap(), TcpStream::connect(gate).unwrap());
            let back = (there.try_clone().unwrap(), here.try_clone().unwrap());
            for (from, to) in [(here, there), back] {
                let faults = Arc::clone(&of_tcp);
                thread::spawn(move || carry(from, to, &faults));
            }
        }
    });
    let socket = UdpSocket::bind(at).unwrap();
    let of_udp = Arc::clone(&faults);
    thread::spawn(move || datagrams(&socket, gate.into(), &of_udp));
    (at, faults)
}

fn carry(mut from: TcpStream, mut to: TcpStream, faults: &Faults) {
    let mut buffer = [0; 16_384];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        faults.wait();
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Forwards the datagrams of one client, whose address is that of the last received datagram.
fn datagrams(socket: &UdpSocket, gate: SocketAddr, faults: &Arc<Faults>) {
    let client = Arc::new(Mutex::new(None));
    let outside = |client: &Arc<Mutex<Option<SocketAddr>>>| {
        let outside = Arc::new(UdpSocket::bind("0.0.0.0:0").unwrap());
        outside
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let (from, back) = (Arc::clone(&outside), socket.try_clone().unwrap());
        let (client, faults) = (Arc::clone(client), Arc::clone(faults));
        thread::spawn(move || {
            let mut buffer = [0; 2_048];
            while let Ok(len) = from.recv(&mut buffer) {
                let to: Option<SocketAddr> = *client.lock().unwrap();
                // A datagram to a forgotten port is lost.
                let is_current = Arc::strong_count(&from) > 1;
                if let Some(to) = to
                    && is_current
                    && faults.passes(len)
                {
                    let _ = back.send_to(&buffer[..len], to);
                }
            }
        });
        outside
    };
    let mut way = outside(&client);
    let mut buffer = [0; 2_048];
    while let Ok((len, from)) = socket.recv_from(&mut buffer) {
        *client.lock().unwrap() = Some(from);
        if faults.forgets.swap(false, Ordering::SeqCst) {
            way = outside(&client);
        }
        if faults.passes(len) {
            let _ = way.send_to(&buffer[..len], gate);
        }
    }
}
