//! The calls as C sees them. Each does for a descriptor of this library what sinew.h says, and for
//! any other one what the kernel's call of that name does.

use crate::address::{self, Address};
use crate::errno::{self, Errno};
use crate::socket::Socket;
use crate::{option, sys, table};
use client::Target;
use core::{ptr, slice};
use libc::{c_char, c_int, c_void, size_t, sockaddr, socklen_t, ssize_t};

const FAILED: c_int = -1;

/// `socket`
#[unsafe(no_mangle)]
pub extern "C" fn sinew_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    match domain {
        libc::AF_INET => {}
        // Programs that try IPv6 first go on with IPv4; the overlay has no such addresses.
        libc::AF_INET6 => return fail(libc::EAFNOSUPPORT),
        // SAFETY: no pointers are involved.
        _ => return unsafe { libc::socket(domain, kind, protocol) },
    }
    let flags = kind & (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    let socket = match (kind & !flags, protocol) {
        (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => Socket::datagram(),
        (kind @ libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => Socket::stream(kind),
        (kind @ libc::SOCK_SEQPACKET, 0) => Socket::stream(kind),
        (libc::SOCK_DGRAM | libc::SOCK_STREAM | libc::SOCK_SEQPACKET, _) => {
            Err(libc::EPROTONOSUPPORT)
        }
        _ => Err(libc::ESOCKTNOSUPPORT),
    };
    answer(socket.and_then(|socket| enter(socket, flags)))
}

/// Enters a new socket with the flags of `socket` or `accept4`.
fn enter(socket: Socket, flags: c_int) -> Result<c_int, Errno> {
    sys::set_nonblocking(socket.number(), flags & libc::SOCK_NONBLOCK != 0)?;
    sys::set_close_on_exec(socket.number(), flags & libc::SOCK_CLOEXEC != 0)?;
    Ok(table::enter(socket))
}

/// `bind`
///
/// # Safety
/// `address` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sinew_bind(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    let Some(socket) = table::find(fd) else {
        // SAFETY: as the caller promises.
        return unsafe { libc::bind(fd, address, length) };
    };
    // SAFETY: as the caller promises.
    let address = unsafe { read_address(address, length) };
    done(address.and_then(|address| socket.bind(address)))
}

/// `connect`
///
/// # Safety
/// `address` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sinew_connect(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    let Some(socket) = table::find(fd) else {
        // SAFETY: as the caller promises.
        return unsafe { libc::connect(fd, address, length) };
    };
    // SAFETY: as the caller promises.
    let address = unsafe { read_address(address, length) };
    done(address.and_then(|address| socket.connect(address)))
}

/// `listen`
#[unsafe(no_mangle)]
pub extern "C" fn sinew_listen(fd: c_int, backlog: c_int) -> c_int {
    match table::find(fd) {
        Some(socket) => done(socket.listen(backlog)),
        // SAFETY: no pointers are involved.
        None => unsafe { libc::listen(fd, backlog) },
    }
}

/// `accept`
///
/// # Safety
/// `address` points to as many bytes as `length` points to, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sinew_accept(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { sinew_accept4(fd, address, length, 0) }
}

/// `accept4`
///
/// # Safety
/// `address` points to as many bytes as `length` points to, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sinew_accept4(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    let Some(socket) = table::find(fd) else {
        // SAFETY: as the caller promises.
        return unsafe { libc::accept4(fd, address, length, flags) };
    };
    answer(socket.accept().and_then(|(accepted, peer)| {
        let number = enter(accepted, flags)?;
        // SAFETY: as the caller promises.
        unsafe { write_address(peer, address, length) };
        Ok(number)
    }))
}

/// `send`
///
/// # Safety
/// `buffer` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sinew_send(
    fd: c_int,
    buffer: *const c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as the caller promises; no address.
    unsafe { sinew_sendto(fd, buffer, length, flags, ptr::null(), 0) }
}

/// `write`
///
/// # Safety
/// `buffer` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sinew_write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t {
    if table::find(fd).is_none() {
        // SAFETY: as the caller promises.
        return unsafe { libc::write(fd, buffer, length) };
    }
    // SAFETY: as the caller promises.
    unsafe { sinew_send(fd, buffer, length, 0) }
}

/// `sendto`
///
/// # Safety
/// `buffer` points to `length` bytes, `to` to `to_length` or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sinew_sendto(
    fd: c_int,
    buffer: *const c_void,
    length: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_length: socklen_t,
) -> ssize_t {
    let Some(socket) = table::find(fd) else {
        // SAFETY: as the caller promises.
        return unsafe { libc::sendto(fd, buffer, length, flags, to, to_length) };
    };
    let to = match to.is_null() || to_length == 0 {
        true => Ok(None),
        // SAFETY: as the caller promises.
        false => unsafe { read_address(to, to_length) }.map(Some),
    };
    let bytes: &[u8] = match (length, buffer.is_null()) {
        (0, _) => &[],
        (_, true) => return fail_len(libc::EFAULT),
        // SAFETY: as the caller promises.
        _ => unsafe { slice::from_raw_parts(buffer.cast(), length) },
    };
    length_or_fail(to.and_then(|to| socket.send(bytes, flags, to)))
}

/// `recv`
///
/// # Safety
/// `buffer` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sinew_recv(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as the caller promises; nowhere to write an address to.
    unsafe { sinew_recvfrom(fd, buffer, length, flags, ptr::null_mut(), ptr::null_mut()) }
}

/// `read`
///
/// # Safety
/// `buffer` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sinew_read(fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t {
    if table::find(fd).is_none() {
        // SAFETY: as the caller promises.
        return unsafe { libc::read(fd, buffer, length) };
    }
    // SAFETY: as the caller promises.
    unsafe { sinew_recv(fd, buffer, length, 0) }
}

/// `recvfrom`
///
/// # Safety
/// `buffer` points to `length` bytes; `from` to as many as `from_length` points to, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sinew_recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_length: *mut socklen_t,
) -> ssize_t {
    let Some(socket) = table::find(fd) else {
        // SAFETY: as the caller promises.
        return unsafe { libc::recvfrom(fd, buffer, length, flags, from, from_length) };
    };
    let bytes: &mut [u8] = match (length, buffer.is_null()) {
        (0, _) => &mut [],
        (_, true) => return fail_len(libc::EFAULT),
        // SAFETY: as the caller promises. What C has not written there is bytes all the same.
        _ => unsafe { slice::from_raw_parts_mut(buffer.cast(), length) },
    };
    length_or_fail(socket.recv(bytes, flags).map(|(len, sender)| {
        if let Some(sender) = sender {
            // SAFETY: as the caller promises.
            unsafe { write_address(sender, from, from_length) };
        }
        len
    }))
}

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
        (Some(_), libc::IPPROTO_IP) if name == libc::IP_TOS => return 0,
        (Some(_), libc::IPPROTO_TCP | libc::IPPROTO_IP) => return fail(libc::ENOPROTOOPT),
        // What the kernel knows of any socket: timeouts, buffers, reuse of addresses.
        // SAFETY: as the caller promises.
        _ => return unsafe { libc::setsockopt(fd, level, name, value, length) },
    };
    if value.is_null() || (length as usize) < size_of::<c_int>() {
        return fail(libc::EINVAL);
    }
    // SAFETY: as the caller promises; C may have put it anywhere.
    let value = unsafe { value.cast::<c_int>().read_unaligned() };
    done(socket.set_option(name, value))
}

/// Options of TCP that ask for what streams of the overlay do anyhow.
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

/// `getsockname`
///
/// # Safety
/// `address` points to as many bytes as `length` points to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sinew_getsockname(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    let Some(socket) = table::find(fd) else {
        // SAFETY: as the caller promises.
        return unsafe { libc::getsockname(fd, address, length) };
    };
    // SAFETY: as the caller promises.
    done(
        socket
            .local()
            .map(|local| unsafe { write_address(local, address, length) }),
    )
}

/// `getpeername`
///
/// # Safety
/// `address` points to as many bytes as `length` points to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sinew_getpeername(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    let Some(socket) = table::find(fd) else {
        // SAFETY: as the caller promises.
        return unsafe { libc::getpeername(fd, address, length) };
    };
    // SAFETY: as the caller promises.
    done(
        socket
            .peer()
            .map(|peer| unsafe { write_address(peer, address, length) }),
    )
}

/// `shutdown`
#[unsafe(no_mangle)]
pub extern "C" fn sinew_shutdown(fd: c_int, how: c_int) -> c_int {
    match table::find(fd) {
        Some(socket) => done(socket.shutdown(how)),
        // SAFETY: no pointers are involved.
        None => unsafe { libc::shutdown(fd, how) },
    }
}

/// `close`
#[unsafe(no_mangle)]
pub extern "C" fn sinew_close(fd: c_int) -> c_int {
    match table::remove(fd) {
        Some(_) => 0,
        // SAFETY: no pointers are involved; the program owns its descriptors.
        None => unsafe { libc::close(fd) },
    }
}

/// What was last refused to this thread, as a sentence.
#[unsafe(no_mangle)]
pub extern "C" fn sinew_error() -> *const c_char {
    // It stays where it is until this thread fails again.
    errno::with_why(|why| why.as_ptr())
}

/// An address that a program gives.
///
/// # Safety
/// `address` points to `length` bytes.
unsafe fn read_address(address: *const sockaddr, length: socklen_t) -> Result<Address, Errno> {
    if address.is_null() || (length as usize) < size_of::<libc::sockaddr_in>() {
        return Err(libc::EINVAL);
    }
    // SAFETY: it is long enough, and may stand anywhere.
    let raw = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
    if c_int::from(raw.sin_family) != libc::AF_INET {
        return Err(libc::EAFNOSUPPORT);
    }
    Ok(Address::from_c(&raw))
}

/// Tells a program an address, as much of it as there is room for.
///
/// # Safety
/// `address` points to as many bytes as `length` points to, or either is null.
unsafe fn write_address(target: Target, address: *mut sockaddr, length: *mut socklen_t) {
    if address.is_null() || length.is_null() {
        return;
    }
    let raw = address::to_c(target);
    let whole = size_of_val(&raw);
    // SAFETY: as the caller promises: no more bytes than `length` says.
    unsafe {
        let len = whole.min(*length as usize);
        ptr::copy_nonoverlapping((&raw const raw).cast::<u8>(), address.cast(), len);
        *length = whole as socklen_t;
    }
}

fn fail(number: Errno) -> c_int {
    sys::set_errno(number);
    FAILED
}

fn fail_len(number: Errno) -> ssize_t {
    fail(number) as ssize_t
}

fn answer(result: Result<c_int, Errno>) -> c_int {
    result.unwrap_or_else(fail)
}

fn done(result: Result<(), Errno>) -> c_int {
    answer(result.map(|()| 0))
}

fn length_or_fail(result: Result<usize, Errno>) -> ssize_t {
    result.map_or_else(fail_len, |len| len as ssize_t)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// The names that follow `before` in a text.
    fn names<'a>(text: &'a str, before: &str) -> BTreeSet<&'a str> {
        let starts = text.match_indices(before).map(|(at, _)| at + before.len());
        let name = |at: usize| {
            let rest = &text[at..];
            let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
            &rest[..end.unwrap_or(rest.len())]
        };
        starts
            .map(name)
            .filter(|name| name.starts_with("sinew_"))
            .collect()
    }

    #[test]
    fn the_header_declares_what_the_library_has() {
        let header = include_str!("../include/sinew.h");
        let declared: BTreeSet<&str> = ["\nint ", "\nssize_t ", "\nconst char *"]
            .iter()
            .flat_map(|kind| names(header, kind))
            .collect();
        let source = include_str!("abi.rs");
        let ours = names(source, "extern \"C\" fn ");
        assert_eq!(declared, ours);
        assert!(ours.len() > 15, "{ours:?}");
        let exported = source.matches("\n#[unsafe(no_mangle)]\n").count();
        assert_eq!(exported, ours.len());
        // What is renamed is there, but for what says why.
        let renamed = names(include_str!("../include/sinew_rename.h"), ") ");
        let unnamed: Vec<_> = ours.difference(&renamed).collect();
        assert_eq!(unnamed, [&"sinew_error"]);
        assert!(renamed.is_subset(&ours));
    }
}
