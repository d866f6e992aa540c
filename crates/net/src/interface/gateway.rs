//! The default router of this machine, and its addresses.

use crate::sys;
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kernel's IPv4 routes, of the calling process's network.
const ROUTES: &str = "/proc/self/net/route";

/// Returns the router of the IPv4 default route with the least metric; none if there is no such route, or if the route
/// needs no router.
///
/// # Errors
/// Returns an error if the routes cannot be read.
pub fn default_gateway() -> io::Result<Option<Ipv4Addr>> {
    std::fs::read_to_string(ROUTES).map(|routes| gateway_of(&routes))
}

/// Finds the gateway in the table. A line has interface, destination, gateway, flags, two counts, metric, mask;
/// addresses are numbers in this machine's byte order, in hexadecimal digits.
fn gateway_of(routes: &str) -> Option<Ipv4Addr> {
    let defaults = routes.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| u32::from_str_radix(fields.get(at)?, 16).ok();
        let metric: u32 = fields.get(6)?.parse().ok()?;
        let is_default = number(1)? == 0 && number(7)? == 0;
        let wanted = u32::from(libc::RTF_UP | libc::RTF_GATEWAY);
        let leads = number(3)? & wanted == wanted;
        let gateway = Ipv4Addr::from(number(2)?.to_ne_bytes());
        (is_default && leads).then_some((metric, gateway))
    });
    defaults
        .min_by_key(|(metric, _)| *metric)
        .map(|(_, gateway)| gateway)
}

/// Returns all IPv4 addresses of this machine's interfaces, with the masks of their networks.
///
/// # Errors
/// Returns the kernel's error.
pub fn addresses_v4() -> io::Result<Vec<(Ipv4Addr, Ipv4Addr)>> {
    entries(|entry| {
        // SAFETY: "ifa_addr points to a structure containing the interface address", and ifa_netmask to one of its
        // mask; both are of the list, or null.
        let (address, mask) = unsafe { (ip(entry.ifa_addr), ip(entry.ifa_netmask)) };
        let of_ipv4 = |ip| match ip {
            IpAddr::V4(ip) => Some(ip),
            IpAddr::V6(_) => None,
        };
        let mask = mask.and_then(of_ipv4).unwrap_or(Ipv4Addr::BROADCAST);
        Some((address.and_then(of_ipv4)?, mask))
    })
}

/// An address of an interface that is up and leads to a network of several hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The interface.
    pub interface: String,
    /// Its address.
    pub ip: IpAddr,
}

/// Returns all addresses of this machine's interfaces, except those that lead to the machine itself or to a single
/// other end.
///
/// # Errors
/// Returns the kernel's error.
pub fn addresses() -> io::Result<Vec<Address>> {
    entries(|entry| {
        let has = |flag: libc::c_int| entry.ifa_flags & flag as libc::c_uint != 0;
        if !has(libc::IFF_UP) || has(libc::IFF_LOOPBACK) || has(libc::IFF_POINTOPOINT) {
            return None;
        }
        // SAFETY: as in `addresses_v4`; "ifa_name points to the null-terminated interface name", which is of the list.
        let (ip, name) = unsafe { (ip(entry.ifa_addr)?, CStr::from_ptr(entry.ifa_name)) };
        let interface = name.to_string_lossy().into_owned();
        Some(Address { interface, ip })
    })
}

/// Collects what `read` finds in the list of the interfaces' addresses.
fn entries<T>(mut read: impl FnMut(&libc::ifaddrs) -> Option<T>) -> io::Result<Vec<T>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs(3) stores the address of a list there, which is freed below.
    sys::check(unsafe { libc::getifaddrs(&raw mut first) })?;
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: "ifa_next: a pointer to the next structure on the list, or NULL if this is the last item".
    while let Some(entry) = unsafe { next.as_ref() } {
        found.extend(read(entry));
        next = entry.ifa_next;
    }
    // SAFETY: the list is ours, and nothing points into it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// Returns the address in a `sockaddr`, if it is IPv4 or IPv6.
///
/// # Safety
/// It is null, or the address of a `sockaddr` that is as long as its family says.
unsafe fn ip(at: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: as the caller says; each begins with its family.
    let family = unsafe { at.as_ref() }?.sa_family;
    if family == libc::AF_INET as u16 {
        // SAFETY: of this family it is a `sockaddr_in`, which is read wherever it stands.
        let address = unsafe { at.cast::<libc::sockaddr_in>().read_unaligned() };
        return Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into());
    }
    if family != libc::AF_INET6 as u16 {
        return None;
    }
    // SAFETY: of this family it is a `sockaddr_in6`, which is read wherever it stands.
    let address = unsafe { at.cast::<libc::sockaddr_in6>().read_unaligned() };
    Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table is as the kernel writes it on a little-endian machine.
    #[cfg(target_endian = "little")]
    #[test]
    fn the_default_route_with_the_least_metric_counts() {
        let head =
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
        let routes = [
            "wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0",
            "eth0\t00000000\t0102A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0",
            "tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0",
            "tun1\t00000000\t0100000A\t0003\t0\t0\t0\t00000080\t0\t0\t0",
            "eth0\t0002A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0",
        ];
        let text = format!("{head}{}\n", routes.join("\n"));
        assert_eq!(gateway_of(&text), Some(Ipv4Addr::new(192, 168, 2, 1)));
        assert_eq!(gateway_of(head), None);
        assert_eq!(gateway_of(""), None);
        assert_eq!(gateway_of(&format!("{head}eth0\t00000000\tx\n")), None);
        let no_router = format!("{head}{}\n", routes[2]);
        assert_eq!(gateway_of(&no_router), None);
    }

    #[test]
    fn this_machine_has_its_loopback_address() {
        let loopback = (Ipv4Addr::LOCALHOST, Ipv4Addr::new(255, 0, 0, 0));
        assert!(addresses_v4().unwrap().contains(&loopback));
        default_gateway().unwrap();
        let others = addresses().unwrap();
        assert!(others.iter().all(|it| !it.ip.is_loopback()), "{others:?}");
    }
}
