//! The interface of a bridge: a TAP of its own, or a port on one that is there.
//!
//! ```text
//!   --tap NAME         programs of this host ── IP stack ── NAME ═══ Device
//!   --interface eth1   hosts of a network ── eth1 ═══ packet socket ═══ Device
//! ```
//! A TAP is held for good; another interface is looked for while it is not there, taken when it comes,
//! and let go when it goes.

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

/// Frames that may wait at a TAP that was made: a burst of 127 kB of a program that does not pace
/// is 97, and 4096 are 50 ms of 80 000 packets/s.
const QUEUE: u16 = 4_096;

/// Where a bridge is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A TAP interface, made if it is not there.
    Tap {
        /// Its name.
        name: String,
        /// The address that it is given, and the bits of its network.
        address: Option<(Ipv4Addr, u8)>,
        /// Its address of IPv6, without which programs cannot send to groups beyond the link.
        address_v6: Option<Ipv6Addr>,
        /// Longest packet that it shall take.
        mtu: Option<usize>,
        /// Networks of groups that are led to it.
        routes: Vec<(IpAddr, u8)>,
    },
    /// An interface that others made, now or later.
    Interface {
        /// Its name.
        name: String,
    },
}

impl Place {
    /// The interface's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Place::Tap { name, .. } | Place::Interface { name } => name,
        }
    }
}

/// The interface, when it is there.
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
        /// The kernel has not refused trains.
        takes_trains: Cell<bool>,
    },
    Packet(packet::Port),
}

/// What a look at the interface found.
#[derive(Debug)]
pub enum Found {
    /// Nothing new.
    Same,
    /// It is there, or is changed; `is_new` when its descriptor is another one.
    Here {
        /// What it is like.
        port: Port,
        /// The descriptor is to be watched.
        is_new: bool,
    },
    /// It is gone.
    Gone,
}

impl Device {
    /// Makes the TAP, if it is to be one; another interface need not be there yet.
    ///
    /// # Errors
    /// What the kernel says: without root it refuses.
    pub fn open(place: Place) -> io::Result<Device> {
        let mut device = Device {
            place,
            wire: None,
            interface: None,
        };
        match device.place {
            Place::Tap { .. } => device.make_tap()?,
            // Whether it may be done at all is known before it has to be.
            Place::Interface { .. } => packet::permitted()?,
        }
        Ok(device)
    }

    /// Looks at the interface.
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

    /// The interface has failed: it is looked for anew.
    pub fn lose(&mut self) {
        (self.interface, self.wire) = (None, None);
    }

    /// Whether it is there.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.interface.is_some()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.place.name()
    }

    /// Takes frames that wait, at most about `max`, and gives each to `each`. How many there were.
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

    /// Puts frames onto the network, back to back; how many it did not take.
    pub fn send(&self, frames: &[Frame<'_>]) -> usize {
        match &self.wire {
            Some(Wire::Tap {
                tap, takes_trains, ..
            }) => send_to_tap(tap, takes_trains, frames),
            Some(Wire::Packet(port)) => {
                let (mut rest, mut failed) = (frames, 0);
                while !rest.is_empty() {
                    // Of those that follow one that is not taken, some may be.
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

    /// Frames that were left to a network card in a way that nobody undoes here.
    #[must_use]
    pub fn unknown(&self) -> u64 {
        match &self.wire {
            Some(Wire::Packet(port)) => port.unknown(),
            _ => 0,
        }
    }

    /// The descriptor, while it is there.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.wire.as_ref().map(|wire| match wire {
            Wire::Tap { tap, .. } => tap.as_fd(),
            Wire::Packet(port) => port.as_fd(),
        })
    }

    /// Makes the TAP and sets it up, if it is to be one.
    fn make_tap(&mut self) -> io::Result<()> {
        let Place::Tap {
            name,
            address,
            address_v6,
            mtu,
            routes,
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
        // What comes in here is of sources elsewhere. The setting is this interface's alone, and
        // whether another one overrides it is looked at later.
        let _ = std::fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "0");
        // Nobody else is on its wire who could have the same address.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/accept_dad"), "0");
        interface::set_up(name)?;
        let mut has_v6 = false;
        if let Some(address) = *address_v6 {
            // A host may be without IPv6: it then has no programs that miss it.
            has_v6 = interface::add_address_v6(name, address, 128).is_ok();
        }
        for &(network, bits) in routes.iter().filter(|(n, _)| n.is_ipv4() || has_v6) {
            interface::add_route(name, network, bits)?;
        }
        let buffer = vec![0; FRAME_BYTES_MAX].into_boxed_slice();
        let takes_trains = Cell::new(true);
        self.wire = Some(Wire::Tap {
            tap,
            buffer,
            takes_trains,
        });
        Ok(())
    }

    /// Whether the kernel checks the way back to sources of what comes in here: the stricter of both
    /// settings counts.
    fn filters_path(&self) -> bool {
        let is_on = |name: &str| {
            let path = format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
            let text = std::fs::read_to_string(path);
            text.is_ok_and(|text| text.trim() != "0")
        };
        matches!(self.place, Place::Tap { .. }) && (is_on("all") || is_on(self.place.name()))
    }
}

/// Lets frames arrive at a TAP, those of one program together; how many it did not take.
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
                    // A kernel before 6.2: one by one from here on.
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
