//! The functions that C programs call. For a descriptor of this library, each does what sinew.h says; for any other
//! descriptor, it makes the kernel's call of that name.

use crate::address::{self, Address};
use crate::errno::{self, Errno};
use crate::socket::Socket;
use crate::{sys, table};
use client::Target;
use core::ptr;
use libc::{c_char, c_int, sockaddr, socklen_t, ssize_t};

pub mod data;
pub mod options;

const FAILED: c_int = -1;

/// `socket`
#[unsafe(no_mangle)]
pub extern "C" fn sinew_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    match domain {
        libc::AF_INET => {}
        // Programs that try IPv6 first continue with IPv4; the overlay has no such addresses.
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

/// Adds a new socket to the table, with the flags of `socket` or `accept4`.
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

/// Returns the reason of this thread's last failure, as a sentence.
#[unsafe(no_mangle)]
pub extern "C" fn sinew_error() -> *const c_char {
    // The text stays in place until this thread fails again.
    errno::with_why(|why| why.as_ptr())
}

/// Reads an address that a program passes.
///
/// # Safety
/// `address` points to `length` bytes.
unsafe fn read_address(address: *const sockaddr, length: socklen_t) -> Result<Address, Errno> {
    if address.is_null() || (length as usize) < size_of::<libc::sockaddr_in>() {
        return Err(libc::EINVAL);
    }
    // SAFETY: it is long enough, and may be unaligned.
    let raw = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
    if c_int::from(raw.sin_family) != libc::AF_INET {
        return Err(libc::EAFNOSUPPORT);
    }
    Ok(Address::from_c(&raw))
}

/// Writes an address for a program, as much of it as there is room for.
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

    /// Returns the names that follow `before` in a text.
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
        let source = [
            include_str!("abi.rs"),
            include_str!("abi/data.rs"),
            include_str!("abi/options.rs"),
        ]
        .concat();
        let ours = names(&source, "extern \"C\" fn ");
        assert_eq!(declared, ours);
        assert!(ours.len() > 15, "{ours:?}");
        let exported = source.matches("\n#[unsafe(no_mangle)]\n").count();
        assert_eq!(exported, ours.len());
        // Every exported function is renamed, except the one that returns the reason.
        let renamed = names(include_str!("../include/sinew_rename.h"), ") ");
        let unnamed: Vec<_> = ours.difference(&renamed).collect();
        assert_eq!(unnamed, [&"sinew_error"]);
        assert!(renamed.is_subset(&ours));
    }
}
