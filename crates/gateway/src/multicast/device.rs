//! The interface of a bridge: a TAP of its own, or a port on an existing interface.
//!
//! ```text
//!   --tap NAME         programs of this host ── IP stack ── NAME ═══ Device
//!   --interface eth1   hosts of a network ── eth1 ═══ packet socket ═══ Device
//! ```
//! A bridge keeps its TAP for its whole life. For another interface, it looks until the interface appears, takes it
//! then, and releases it when it disappears.

use super::bridge::Port;
use super::hello;
use super::train;
use net::interface::{self, Interface};
use net::packet::{self, Frame};
use net::tap::{FRAME_BYTES_MAX, Tap};
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

/// Length of the queue of a TAP that the bridge makes, in frames. A burst of 127 kB from a program without pacing is 97
/// frames, and 4096 frames are 50 ms of 80 000 packets/s.
const QUEUE: u16 = 4_096;

/// The interface to which a bridge attaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A TAP interface, which is made if it does not exist.
    Tap {
        /// The name of the interface.
        name: String,
        /// The address that the interface gets, and the prefix length of its network.
        address: Option<(Ipv4Addr, u8)>,
        /// The IPv6 address of the interface. Without one, programs cannot send to groups beyond the link.
        address_v6: Option<Ipv6Addr>,
        /// Maximum length of a packet that the interface takes.
        mtu: Option<usize>,
        /// Networks of groups that are routed to the interface.
        routes: Vec<(IpAddr, u8)>,
    },
    /// An interface that others make, now or later.
    Interface {
        /// The name of the interface.
        name: String,
    },
}

impl Place {
    /// Returns the name of the interface.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Place::Tap { name, .. } | Place::Interface { name } => name,
        }
    }
}

/// The interface, while it exists.
#[derive(Debug)]
pub struct Device {
    place: Place,
    wire: Option<Wire>,
    interface: Option<Interface>,
}

#[derive(Debug)]
enum Wire {
    Tap {
        tap: Tap,
        buffer: Box<[u8]>,
        /// Whether trains can be sent: the kernel has not refused one.
        takes_trains: Cell<bool>,
    },
    Packet(packet::Port),
}

/// The result of a check of the interface.
#[derive(Debug)]
pub enum Found {
    /// Nothing has changed.
    Same,
    /// The interface exists, and is new or has changed.
    Here {
        /// The properties of the interface.
        port: Port,
        /// Whether the descriptor is new and must be watched.
        is_new: bool,
    },
    /// The interface has disappeared.
    Gone,
}

impl Device {
    /// Makes the TAP, if `place` is one. Any other interface need not exist yet.
    ///
    /// # Errors
    /// The kernel refuses, for example without root, or the interface leads to no network.
    pub fn open(place: Place) -> io::Result<Device> {
        let mut device = Device {
            place,
            wire: None,
            interface: None,
        };
        match device.place {
            Place::Tap { .. } => device.make_tap()?,
            Place::Interface { ref name } => {
                if interface::find(name)?.is_some_and(|found| found.is_loopback) {
                    return Err(io::Error::other(
                        "this interface leads only to this host: name the interface of a network, \
                         or make one for programs of this host with --tap",
                    ));
                }
                // A missing permission is an error now, and not only when the interface appears.
                packet::permitted()?;
            }
        }
        Ok(device)
    }

    /// Checks the interface.
    pub fn look(&mut self) -> io::Result<Found> {
        if self.wire.is_none() {
            self.make_tap()?;
        }
        let now = interface::find(self.place.name())?.filter(|now| now.is_up);
        if now == self.interface {
            return Ok(Found::Same);
        }
        let index = |interface: Option<Interface>| interface.map(|i| i.index);
        let is_new = index(now) != index(self.interface);
        let Some(found) = now else {
            self.interface = None;
            if matches!(self.wire, Some(Wire::Packet(_))) {
                self.wire = None;
            }
            return Ok(Found::Gone);
        };
        if is_new && matches!(self.place, Place::Interface { .. }) {
            self.wire = Some(Wire::Packet(packet::Port::open(found.index, hello::KIND)?));
        }
        if is_new {
            self.configure()?;
        }
        self.interface = now;
        Ok(Found::Here {
            port: Port {
                address: found.address,
                mtu: found.mtu,
                filters_path: self.filters_path(),
            },
            is_new,
        })
    }

    /// Records that the interface has failed: it is opened again at the next check.
    pub fn lose(&mut self) {
        (self.interface, self.wire) = (None, None);
    }

    /// Returns whether the interface exists.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.interface.is_some()
    }

    /// Returns the name of the interface.
    #[must_use]
    pub fn name(&self) -> &str {
        self.place.name()
    }

    /// Takes at most about `max` waiting frames, and passes each to `each`. Returns the number of frames.
    pub fn receive(&mut self, max: usize, mut each: impl FnMut(&mut [u8])) -> io::Result<usize> {
        let mut taken = 0;
        match &mut self.wire {
            Some(Wire::Tap { tap, buffer, .. }) => {
                while taken < max
                    && let Some(len) = tap.receive(buffer)?
                {
                    taken += 1;
                    each(&mut buffer[..len]);
                }
            }
            Some(Wire::Packet(port)) => {
                while taken < max {
                    let came = port.receive(&mut each)?;
                    taken += came;
                    if came < packet::BATCH {
                        break;
                    }
                }
            }
            None => {}
        }
        Ok(taken)
    }

    /// Sends frames back to back to the network. Returns the number of frames that the interface did not take.
    pub fn send(&self, frames: &[Frame<'_>]) -> usize {
        match &self.wire {
            Some(Wire::Tap {
                tap, takes_trains, ..
            }) => send_to_tap(tap, takes_trains, frames),
            Some(Wire::Packet(port)) => {
                let (mut rest, mut failed) = (frames, 0);
                while !rest.is_empty() {
                    // After a frame that is refused, later ones can still succeed.
                    let sent = match port.send_batch(rest) {
                        Ok(sent) if sent > 0 => sent,
                        _ => {
                            failed += 1;
                            1
                        }
                    };
                    rest = &rest[sent..];
                }
                failed
            }
            None => frames.len(),
        }
    }

    /// Returns the number of frames whose network card offload is not supported here.
    #[must_use]
    pub fn unknown(&self) -> u64 {
        match &self.wire {
            Some(Wire::Packet(port)) => port.unknown(),
            _ => 0,
        }
    }

    /// Returns the descriptor, while the interface exists.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.wire.as_ref().map(|wire| match wire {
            Wire::Tap { tap, .. } => tap.as_fd(),
            Wire::Packet(port) => port.as_fd(),
        })
    }

    /// Makes the TAP and switches it on, if the place is a TAP.
    fn make_tap(&mut self) -> io::Result<()> {
        let Place::Tap {
            name, address, mtu, ..
        } = &self.place
        else {
            return Ok(());
        };
        let tap = Tap::open_for_trains(name)?;
        interface::set_queue(name, QUEUE)?;
        if let Some(mtu) = *mtu {
            interface::set_mtu(name, mtu)?;
        }
        if let Some((address, bits)) = *address {
            interface::set_address(name, address, bits)?;
        }
        // Packets that enter here have sources elsewhere. This setting applies only to this interface; later code
        // checks whether another setting overrides it.
        let _ = std::fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "0");
        // Nobody else on this wire can have the same address.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/accept_dad"), "0");
        interface::set_up(name)?;
        let buffer = vec![0; FRAME_BYTES_MAX].into_boxed_slice();
        let takes_trains = Cell::new(true);
        self.wire = Some(Wire::Tap {
            tap,
            buffer,
            takes_trains,
        });
        Ok(())
    }

    /// Gives the TAP, if the place is one, its IPv6 address and its routes. The kernel removes both whenever an
    /// interface is switched off.
    fn configure(&self) -> io::Result<()> {
        let Place::Tap {
            name,
            address_v6,
            routes,
            ..
        } = &self.place
        else {
            return Ok(());
        };
        let mut has_v6 = false;
        if let Some(address) = *address_v6 {
            // A host can lack IPv6. Then it has no programs that need it.
            has_v6 = interface::add_address_v6(name, address, 128).is_ok();
        }
        for &(network, bits) in routes.iter().filter(|(n, _)| n.is_ipv4() || has_v6) {
            interface::add_route(name, network, bits)?;
        }
        Ok(())
    }

    /// Returns whether the kernel checks the reverse path to the sources of packets that enter here: the stricter of
    /// both settings applies.
    fn filters_path(&self) -> bool {
        let is_on = |name: &str| {
            let path = format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
            let text = std::fs::read_to_string(path);
            text.is_ok_and(|text| text.trim() != "0")
        };
        matches!(self.place, Place::Tap { .. }) && (is_on("all") || is_on(self.place.name()))
    }
}

/// Sends frames to a TAP. Frames of one program go together. Returns the number of frames that the TAP did not take.
fn send_to_tap(tap: &Tap, takes_trains: &Cell<bool>, frames: &[Frame<'_>]) -> usize {
    let (mut rest, mut failed) = (frames, 0);
    while !rest.is_empty() {
        let length = if takes_trains.get() {
            train::length(rest)
        } else {
            1
        };
        let (these, after) = rest.split_at(length);
        rest = after;
        if length > 1
            && let Some((head, segment)) = train::head(these)
        {
            let payloads = these.iter().map(|f| &f.body()[train::HEADERS_BYTES..]);
            match tap.send_train(&head, segment, payloads) {
                Ok(()) => continue,
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    // A kernel before 6.2: from now on the frames go one by one.
                    takes_trains.set(false);
                }
                Err(_) => {}
            }
        }
        let refused = |frame: &&Frame<'_>| {
            let parts = [IoSlice::new(frame.head()), IoSlice::new(frame.body())];
            tap.send_parts(parts).is_err()
        };
        failed += these.iter().filter(refused).count();
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_not_bridged() {
        let name = "lo".to_owned();
        let refused = Device::open(Place::Interface { name }).unwrap_err();
        assert!(refused.to_string().contains("--tap"), "{refused}");
    }
}
