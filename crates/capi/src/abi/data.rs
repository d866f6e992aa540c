//! Sending and receiving.

use super::{fail_len, length_or_fail, read_address, write_address};
use crate::table;
use core::{ptr, slice};
use libc::{c_int, c_void, size_t, sockaddr, socklen_t, ssize_t};

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
    // SAFETY: as the caller promises; there is no address.
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
    // SAFETY: as the caller promises; there is no place for an address.
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
        // SAFETY: as the caller promises. Memory that C has not written is still bytes.
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
