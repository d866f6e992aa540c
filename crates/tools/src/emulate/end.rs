//! The two ends of an emulated link: one interface in each network.

use super::{EmulateError, Options};
use net::netns::{Namespace, SetupError};
use net::tap::{self, Tap};
use std::fmt;
use std::fs;
use std::str::FromStr;

/// Length of the queue of frames that wait for the emulator: 2000 are 20 ms at 100 000 packets/s.
/// Under real-time priority the emulator never waits that long for its processor.
const WAITING_FRAMES: &str = "2000";
/// The Ethernet addresses of the two interfaces. They are locally administered, so they belong to
/// no vendor.
const MACS: [&str; 2] = ["02:53:49:4e:45:0a", "02:53:49:4e:45:0b"];
/// Index of the count of transmit drops in a line of `/proc/net/dev`, after the name. These are the
/// frames that the emulator did not take.
const TRANSMIT_DROPS: usize = 11;

/// Where one end of the link is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A network namespace. Its name or, if it contains a slash, its file.
    Namespace(String),
    /// A TAP device of this network. The emulator makes it if it does not exist.
    Device(String),
}

/// The text is not an end of a link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no end of a link: name a network namespace (`ip netns add`), a file of one \
     (`/proc/4711/ns/net`), or a TAP device of this network (`tap:NAME`)"
)]
pub struct BadPlace(String);

impl FromStr for Place {
    type Err = BadPlace;

    fn from_str(text: &str) -> Result<Place, BadPlace> {
        let bad = || BadPlace(text.to_owned());
        match text.strip_prefix("tap:") {
            Some(name) if tap::is_interface_name(name) => Ok(Place::Device(name.to_owned())),
            None if !text.is_empty() && text != "." && text != ".." => {
                Ok(Place::Namespace(text.to_owned()))
            }
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Namespace(name) => f.write_str(name),
            Place::Device(name) => write!(f, "tap:{name}"),
        }
    }
}

/// An interface in its network. Dropping this value removes it, unless it existed before.
pub struct End {
    place: Place,
    network: Namespace,
    tap: std::sync::Arc<Tap>,
}

/// Makes both interfaces, sets their addresses, and brings them up.
pub fn open(options: &Options) -> Result<[End; 2], EmulateError> {
    let [a, b] = &options.between;
    if let (Place::Device(one), Place::Device(other)) = (a, b)
        && one == other
    {
        let what = format!("a link has two ends: `tap:{one}` is named twice");
        return Err(EmulateError::Option(what));
    }
    let ends = [End::open(options, 0)?, End::open(options, 1)?];
    if options.addresses.iter().all(|list| !list.is_empty()) {
        for (end, other) in [(0, 1), (1, 0)] {
            ends[end].know(&options.addresses[other], MACS[other])?;
        }
    }
    Ok(ends)
}

impl End {
    fn open(options: &Options, side: usize) -> Result<End, EmulateError> {
        let place = options.between[side].clone();
        let (network, mut name) = match &place {
            Place::Namespace(name) => (Namespace::open(name)?, options.interface.clone()),
            Place::Device(name) => (Namespace::here()?, name.clone()),
        };
        // Two interfaces in one network cannot have one name.
        if side == 1 && options.between[0] == place {
            name.push('b');
        }
        let tap = network.run(|| Tap::open(&name))?;
        let tap = tap.map_err(|error| EmulateError::Device { name, error })?;
        let end = End {
            place,
            network,
            tap: tap.into(),
        };
        let mtu = options.mtu.to_string();
        end.set(&["mtu", &mtu, "txqueuelen", WAITING_FRAMES])?;
        // Kernels without IPv6 do not know this word, and send no such packets.
        let _ = end.set(&["addrgenmode", "none"]);
        let addresses = &options.addresses[side];
        if !addresses.is_empty() {
            end.set(&["address", MACS[side]])?;
        }
        for address in addresses {
            let mut words = vec!["addr", "replace", address, "dev", end.tap.name()];
            // Nobody else can have the address, and duplicate address detection would send a
            // packet.
            words.extend(address.contains(':').then_some("nodad"));
            end.network.ip(&words)?;
        }
        end.set(&["up"])?;
        Ok(end)
    }

    /// Returns the TAP device of this end.
    pub fn tap(&self) -> std::sync::Arc<Tap> {
        self.tap.clone()
    }

    fn set(&self, words: &[&str]) -> Result<(), SetupError> {
        let command = ["link", "set", "dev", self.tap.name()];
        self.network.ip(&[&command, words].concat())
    }

    /// Enters the other end's addresses as permanent neighbours, so that no packet asks for them.
    fn know(&self, addresses: &[String], mac: &str) -> Result<(), SetupError> {
        for address in addresses {
            let ip = address.split('/').next().unwrap_or(address);
            let device = ["dev", self.tap.name(), "nud", "permanent"];
            let words = [&["neigh", "replace", ip, "lladdr", mac][..], &device].concat();
            self.network.ip(&words)?;
        }
        Ok(())
    }

    /// Frames that the kernel dropped since the interface was made because the emulator did not
    /// take them in time.
    pub fn overrun(&self) -> u64 {
        let read = || fs::read_to_string("/proc/thread-self/net/dev");
        let Ok(Ok(text)) = self.network.run(read) else {
            return 0;
        };
        transmit_drops(&text, self.tap.name()).unwrap_or(0)
    }
}

fn transmit_drops(text: &str, interface: &str) -> Option<u64> {
    let counts = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        (name.trim() == interface).then(|| counts.to_owned())
    };
    let counts = text.lines().find_map(counts)?;
    counts.split_whitespace().nth(TRANSMIT_DROPS)?.parse().ok()
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Namespace(name) => write!(f, "{} in {name}", self.tap.name()),
            Place::Device(_) => f.write_str(self.tap.name()),
        }
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn ends_are_namespaces_files_or_devices() {
        for (text, place) in [
            ("left", Place::Namespace("left".into())),
            ("/proc/1/ns/net", Place::Namespace("/proc/1/ns/net".into())),
            ("tap:vm0", Place::Device("vm0".into())),
        ] {
            assert_eq!(text.parse(), Ok(place.clone()));
            assert_eq!(place.to_string(), text);
        }
        for text in ["", ".", "..", "tap:", "tap:a/b", "tap:sixteen-letters-"] {
            let error = text.parse::<Place>().unwrap_err().to_string();
            assert!(error.contains("ip netns add"), "{error}");
        }
    }

    #[test]
    fn drops_are_found_in_what_the_kernel_prints() {
        let text = "Inter-|   Receive |  Transmit\n face |bytes packets ...\n    \
            lo:  1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  emu0:\
            1 2 3 4 5 6 7 8 9 10 11 4711 13 14 15 16\n";
        assert_eq!(transmit_drops(text, "emu0"), Some(4711));
        assert_eq!(transmit_drops(text, "lo"), Some(12));
        assert_eq!(transmit_drops(text, "emu"), None);
        assert_eq!(transmit_drops("emu0: 1 2", "emu0"), None);
    }
}
