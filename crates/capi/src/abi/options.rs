//! Options of a socket.

use super::{done, fail};
use crate::{option, table};
use base::NodeAddr;
use core::ptr;
use libc::{c_int, c_void, socklen_t};

/// `setsockopt`
///
/// # Safety
/// `value` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sinew_setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    let ours = table::find(fd);
    let socket = match (&ours, level) {
        (Some(socket), option::SOL_SINEW) => socket,
        (Some(_), libc::IPPROTO_TCP) if TCP_TAKEN.contains(&name) => return 0,
        (Some(_), libc::IPPROTO_IP) if IP_TAKEN.contains(&name) => return 0,
        (Some(socket), libc::IPPROTO_IP)
            if matches!(name, libc::IP_ADD_MEMBERSHIP | libc::IP_DROP_MEMBERSHIP) =>
        {
            if value.is_null() || (length as usize) < size_of::<libc::in_addr>() {
                return fail(libc::EINVAL);
            }
            // Both forms, ip_mreq and ip_mreqn, begin with the group; the interface is always the overlay.
            // SAFETY: as the caller promises; C may pass an unaligned address.
            let group = unsafe { value.cast::<libc::in_addr>().read_unaligned() };
            let group = NodeAddr(u32::from_be(group.s_addr));
            let joins = name == libc::IP_ADD_MEMBERSHIP;
            return done(socket.set_membership(group, joins));
        }
        (Some(_), libc::IPPROTO_TCP | libc::IPPROTO_IP) => return fail(libc::ENOPROTOOPT),
        // The kernel handles the general options of any socket: timeouts, buffers, reuse of addresses.
        // SAFETY: as the caller promises.
        _ => return unsafe { libc::setsockopt(fd, level, name, value, length) },
    };
    if value.is_null() || (length as usize) < size_of::<c_int>() {
        return fail(libc::EINVAL);
    }
    // SAFETY: as the caller promises; C may pass an unaligned address.
    let value = unsafe { value.cast::<c_int>().read_unaligned() };
    done(socket.set_option(name, value))
}

/// IP options that are accepted without effect: what a socket sends to a group does not return to it, and the overlay's
/// time to live is `SINEW_TTL`.
const IP_TAKEN: [c_int; 4] = [
    libc::IP_TOS,
    libc::IP_MULTICAST_IF,
    libc::IP_MULTICAST_LOOP,
    libc::IP_MULTICAST_TTL,
];

/// TCP options that are accepted because streams of the overlay behave so anyway.
const TCP_TAKEN: [c_int; 7] = [
    libc::TCP_NODELAY,
    libc::TCP_CORK,
    libc::TCP_QUICKACK,
    libc::TCP_KEEPIDLE,
    libc::TCP_KEEPINTVL,
    libc::TCP_KEEPCNT,
    libc::TCP_USER_TIMEOUT,
];

/// `getsockopt`
///
/// # Safety
/// `value` points to as many bytes as `length` points to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sinew_getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    let ours = table::find(fd);
    let number = match (&ours, level) {
        (Some(socket), option::SOL_SINEW) => socket.option(name),
        (Some(socket), libc::SOL_SOCKET) if name == libc::SO_TYPE => Ok(socket.kind()),
        (Some(_), libc::SOL_SOCKET) if name == libc::SO_DOMAIN => Ok(libc::AF_INET),
        (Some(socket), libc::SOL_SOCKET) if name == libc::SO_ERROR => Ok(socket.take_error()),
        (Some(socket), libc::SOL_SOCKET) if name == libc::SO_ACCEPTCONN => {
            Ok(socket.is_listening().into())
        }
        (Some(_), libc::IPPROTO_TCP) if name == libc::TCP_NODELAY => Ok(1),
        (Some(_), libc::IPPROTO_TCP | libc::IPPROTO_IP) => Err(libc::ENOPROTOOPT),
        // SAFETY: as the caller promises.
        _ => return unsafe { libc::getsockopt(fd, level, name, value, length) },
    };
    done(number.and_then(|number| {
        if value.is_null() || length.is_null() {
            return Err(libc::EFAULT);
        }
        // SAFETY: as the caller promises: no more bytes than `length` says.
        unsafe {
            let bytes = number.to_ne_bytes();
            let len = bytes.len().min(*length as usize);
            ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), len);
            *length = len as socklen_t;
        }
        Ok(())
    }))
}
