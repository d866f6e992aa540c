//! Interfaces of this machine: reads their state, and configures those that we have made.
//!
//! Everything refers to the calling thread's network namespace.

mod gateway;
mod route;

pub use gateway::{Address, addresses, addresses_v4, default_gateway};

use crate::sys;
use crate::tap::is_interface_name;
use std::ffi::CString;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

/// The present state of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its index. It changes if the interface is removed and created again.
    pub index: u32,
    /// Its first IPv4 address, and the bits of its network.
    pub address: Option<(Ipv4Addr, u8)>,
    /// Longest packet that it takes.
    pub mtu: usize,
    /// It is switched on.
    pub is_up: bool,
    /// It leads only to this host.
    pub is_loopback: bool,
}

/// Finds the interface `name`; `None` if there is none.
///
/// # Errors
/// Returns `InvalidInput` if this is no valid name of an interface; otherwise the kernel's error.
pub fn find(name: &str) -> io::Result<Option<Interface>> {
    let control = Control::new()?;
    let mut request = Request::new(name)?;
    let c_name = CString::new(name)?;
    // SAFETY: the name is a string with its end, which is only read.
    let index = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
    if index == 0 {
        return Ok(None);
    }
    let read = |request: &mut Request, what| match control.ask(request, what) {
        // The interface has just been removed.
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(false),
        Err(error) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => Ok(false),
        other => other.map(|()| true),
    };
    if !read(&mut request, libc::SIOCGIFFLAGS)? {
        return Ok(None);
    }
    let has = |flag: libc::c_int| request.flags() & flag as libc::c_short != 0;
    let (is_up, is_loopback) = (has(libc::IFF_UP), has(libc::IFF_LOOPBACK));
    if !read(&mut request, libc::SIOCGIFMTU)? {
        return Ok(None);
    }
    let mtu = usize::try_from(request.number()).unwrap_or(0);
    let address = match read(&mut request, libc::SIOCGIFADDR)? {
        false => None,
        true => {
            let address = request.address();
            let has_mask = read(&mut request, libc::SIOCGIFNETMASK)?;
            let mask = if has_mask {
                request.address()
            } else {
                Ipv4Addr::BROADCAST
            };
            Some((address, mask.to_bits().count_ones() as u8))
        }
    };
    Ok(Some(Interface {
        index,
        address,
        mtu,
        is_up,
        is_loopback,
    }))
}

/// Gives an interface an address in a network of `bits`. This and all functions that follow need root.
pub fn set_address(name: &str, address: Ipv4Addr, bits: u8) -> io::Result<()> {
    let control = Control::new()?;
    let mut request = Request::new(name)?;
    request.set_address(address);
    control.ask(&mut request, libc::SIOCSIFADDR)?;
    request.set_address(mask(bits));
    control.ask(&mut request, libc::SIOCSIFNETMASK)
}

/// Gives an interface one more IPv6 address.
pub fn add_address_v6(name: &str, address: Ipv6Addr, bits: u8) -> io::Result<()> {
    let index = find(name)?.ok_or(io::ErrorKind::NotFound)?.index;
    let control = sys::socket(libc::AF_INET6, libc::SOCK_DGRAM)?;
    let request = AddressV6 {
        address: address.octets(),
        bits: bits.into(),
        index: index as libc::c_int,
    };
    // SAFETY: on a socket of IPv6 SIOCSIFADDR reads an `in6_ifreq`, which has this layout; it outlives the call.
    let added = sys::check(unsafe {
        libc::ioctl(
            control.as_raw_fd(),
            libc::SIOCSIFADDR as _,
            &raw const request,
        )
    });
    match added {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map(drop),
    }
}

/// The kernel's `struct in6_ifreq`, of `linux/ipv6.h`.
#[repr(C)]
struct AddressV6 {
    address: [u8; 16],
    bits: u32,
    index: libc::c_int,
}

/// Switches an interface on.
pub fn set_up(name: &str) -> io::Result<()> {
    let control = Control::new()?;
    let mut request = Request::new(name)?;
    control.ask(&mut request, libc::SIOCGIFFLAGS)?;
    let flags = request.flags() | (libc::IFF_UP | libc::IFF_MULTICAST) as libc::c_short;
    request.0.ifr_ifru.ifru_flags = flags;
    control.ask(&mut request, libc::SIOCSIFFLAGS)
}

/// Sets the longest packet that an interface accepts.
pub fn set_mtu(name: &str, mtu: usize) -> io::Result<()> {
    let number = libc::c_int::try_from(mtu).map_err(|_| io::ErrorKind::InvalidInput)?;
    set_number(name, number, libc::SIOCSIFMTU)
}

/// Sets how many packets may wait at an interface.
pub fn set_queue(name: &str, packets: u16) -> io::Result<()> {
    set_number(name, packets.into(), libc::SIOCSIFTXQLEN)
}

/// Routes a network to an interface. If the route already exists, nothing changes. The route disappears with the
/// interface.
pub fn add_route(name: &str, network: IpAddr, bits: u8) -> io::Result<()> {
    match network {
        IpAddr::V4(network) => add_route_v4(name, network, bits),
        IpAddr::V6(network) => route::add_multicast_v6(name, network, bits),
    }
}

fn add_route_v4(name: &str, network: Ipv4Addr, bits: u8) -> io::Result<()> {
    let control = Control::new()?;
    Request::new(name)?;
    let mut device = CString::new(name)?.into_bytes_with_nul();
    let route = Route {
        pad1: 0,
        destination: socket_address(network),
        gateway: socket_address(Ipv4Addr::UNSPECIFIED),
        mask: socket_address(mask(bits)),
        flags: libc::RTF_UP,
        pad2: 0,
        pad3: 0,
        pad4: std::ptr::null_mut(),
        metric: 0,
        device: device.as_mut_ptr().cast(),
        mtu: 0,
        window: 0,
        irtt: 0,
    };
    // SAFETY: SIOCADDRT reads an `rtentry`, which has this layout; it and the name outlive the call.
    let added = sys::check(unsafe {
        libc::ioctl(
            control.0.as_raw_fd(),
            libc::SIOCADDRT as _,
            &raw const route,
        )
    });
    match added {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map(drop),
    }
}

/// The kernel's `struct rtentry`, of `linux/route.h`.
#[repr(C)]
struct Route {
    pad1: libc::c_ulong,
    destination: libc::sockaddr,
    gateway: libc::sockaddr,
    mask: libc::sockaddr,
    flags: libc::c_ushort,
    pad2: libc::c_short,
    pad3: libc::c_ulong,
    pad4: *mut libc::c_void,
    metric: libc::c_short,
    device: *mut libc::c_char,
    mtu: libc::c_ulong,
    window: libc::c_ulong,
    irtt: libc::c_ushort,
}

/// A socket for requests.
struct Control(OwnedFd);

impl Control {
    fn new() -> io::Result<Control> {
        sys::socket(libc::AF_INET, libc::SOCK_DGRAM).map(Control)
    }

    fn ask(&self, request: &mut Request, what: libc::c_ulong) -> io::Result<()> {
        // SAFETY: all requests of this module take an `ifreq`, read it and write to it; ours
        // outlives the call.
        sys::check(unsafe { libc::ioctl(self.0.as_raw_fd(), what as _, &raw mut request.0) })
            .map(drop)
    }
}

/// An interface name, and the value to read or set.
struct Request(libc::ifreq);

impl Request {
    fn new(name: &str) -> io::Result<Request> {
        if !is_interface_name(name) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: all zero is a valid `ifreq`: no name, no flags.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        Ok(Request(request))
    }

    fn flags(&self) -> libc::c_short {
        // SAFETY: any bits are a number, and the request was zeroed before the kernel wrote to it.
        unsafe { self.0.ifr_ifru.ifru_flags }
    }

    fn number(&self) -> libc::c_int {
        // SAFETY: as in `flags`.
        unsafe { self.0.ifr_ifru.ifru_mtu }
    }

    fn address(&self) -> Ipv4Addr {
        // SAFETY: as in `flags`: an address is bytes.
        let address = unsafe { self.0.ifr_ifru.ifru_addr };
        // The port comes first, followed by the address.
        let [_, _, a, b, c, d, ..] = address.sa_data.map(|byte| byte as u8);
        Ipv4Addr::new(a, b, c, d)
    }

    fn set_address(&mut self, address: Ipv4Addr) {
        self.0.ifr_ifru.ifru_addr = socket_address(address);
    }
}

fn set_number(name: &str, number: libc::c_int, what: libc::c_ulong) -> io::Result<()> {
    let mut request = Request::new(name)?;
    request.0.ifr_ifru.ifru_mtu = number;
    Control::new()?.ask(&mut request, what)
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    // SAFETY: all zero is a valid `sockaddr`.
    let mut out: libc::sockaddr = unsafe { mem::zeroed() };
    out.sa_family = libc::AF_INET as libc::sa_family_t;
    for (to, from) in out.sa_data[2..].iter_mut().zip(address.octets()) {
        *to = from as libc::c_char;
    }
    out
}

fn mask(bits: u8) -> Ipv4Addr {
    let shift = 32 - u32::from(bits.min(32));
    Ipv4Addr::from_bits(u32::MAX.checked_shl(shift).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_and_others_are_not() {
        let lo = find("lo").unwrap().expect("every network has it");
        assert!(lo.index > 0 && lo.mtu >= 1_500 && lo.is_loopback);
        if let Some((address, bits)) = lo.address {
            assert!(address.is_loopback());
            assert_eq!(bits, 8);
        }
        assert_eq!(find("no-such-if").unwrap(), None);
        let refused = find("not a name").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        let refused = set_mtu("no-such-if", 1_500).unwrap_err();
        assert!(refused.raw_os_error().is_some());
    }
}
