//! Routes of IPv6 multicast, which only netlink can put into the table that matters.
//!
//! Every interface has a route of ff00::/8 in the local table, which is searched first; the first interface wins. A
//! route with a longer prefix wins over it only if it is in the same table, and the older call, SIOCADDRT, only writes
//! the main table.

use super::find;
use crate::sys;
use std::io;
use std::net::Ipv6Addr;
use std::os::fd::AsRawFd;

const TABLE_LOCAL: u8 = 255;
const PROTOCOL_STATIC: u8 = 4;
const TYPE_MULTICAST: u8 = 5;
const ATTRIBUTE_DESTINATION: u16 = 1;
const ATTRIBUTE_INTERFACE: u16 = 4;
/// Size of a netlink header. In an answer, the error number follows it.
const HEADER_BYTES: usize = 16;
/// Size of the whole request: two headers, an address and a number with an attribute's header each.
const REQUEST_BYTES: usize = HEADER_BYTES + 12 + 20 + 8;

/// Routes a network of groups to an interface. If the route already exists, nothing changes.
pub(super) fn add_multicast_v6(name: &str, network: Ipv6Addr, bits: u8) -> io::Result<()> {
    let index = find(name)?.ok_or(io::ErrorKind::NotFound)?.index;
    let request = request(network, bits, index);
    let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW)?;
    let mut answer = [0u8; 256];
    // SAFETY: both buffers are ours, with their lengths; a netlink socket without an address speaks to the
    // kernel, which answers before `send` returns.
    let len = unsafe {
        let fd = socket.as_raw_fd();
        sys::check_len(libc::send(fd, request.as_ptr().cast(), request.len(), 0))?;
        sys::check_len(libc::recv(fd, answer.as_mut_ptr().cast(), answer.len(), 0))?
    };
    let error = answer[..len].get(HEADER_BYTES..HEADER_BYTES + 4);
    let error = error.and_then(|bytes| bytes.first_chunk().copied());
    match -error.map_or(0, i32::from_ne_bytes) {
        0 | libc::EEXIST => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Builds the request: `nlmsghdr`, `rtmsg`, and two attributes. [linux/netlink.h, linux/rtnetlink.h]
fn request(network: Ipv6Addr, bits: u8, index: u32) -> Vec<u8> {
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let mut bytes = Vec::with_capacity(REQUEST_BYTES);
    bytes.extend((REQUEST_BYTES as u32).to_ne_bytes());
    bytes.extend(libc::RTM_NEWROUTE.to_ne_bytes());
    bytes.extend((flags as u16).to_ne_bytes());
    // Number and port of the request are not needed, because there is only one at a time.
    bytes.extend([0; 8]);
    bytes.extend([libc::AF_INET6 as u8, bits, 0, 0]);
    bytes.extend([TABLE_LOCAL, PROTOCOL_STATIC, 0, TYPE_MULTICAST]);
    bytes.extend([0; 4]);
    let mut attribute = |kind: u16, value: &[u8]| {
        bytes.extend((4 + value.len() as u16).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
    };
    attribute(ATTRIBUTE_DESTINATION, &network.octets());
    attribute(ATTRIBUTE_INTERFACE, &index.to_ne_bytes());
    bytes
}
