//! The functions of libsrt, which are looked up at run time.
//!
//! The build needs neither the library nor its headers, and a user who carries no SRT does not need the library. The
//! declarations are the C interface of libsrt 1.5, whose file name promises that it does not change (`libsrt.so.1.5`).

use crate::library::functions;
use libc::{c_char, c_int, c_void, sockaddr};
use std::sync::OnceLock;

/// The library's files, in the order of preference: Debian has it with either of two crypto libraries.
const FILES: [&str; 2] = ["libsrt.so.1.5", "libsrt-gnutls.so.1.5"];
/// The least level that libsrt itself logs on standard error: `LOG_CRIT`. Everything else is an error of a call, and
/// the caller reports it.
const LOG_LEVEL: c_int = 2;

/// The library is missing, or this program cannot use it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoadError {
    /// Its file is not found.
    #[error(
        "SRT needs the library libsrt, and {file} is not found ({why}): install it, `apt-get install libsrt1.5-openssl`"
    )]
    Missing {
        /// The file that was tried first.
        file: &'static str,
        /// The system's error.
        why: String,
    },
    /// It lacks a function.
    #[error("{file} is not libsrt 1.5 ({why}): install it, `apt-get install libsrt1.5-openssl`")]
    Foreign {
        /// The file.
        file: &'static str,
        /// The function that it lacks.
        why: String,
    },
    /// It does not start.
    #[error("libsrt does not start: it has no memory, or no thread")]
    Start,
}

/// `SRT_MSGCTRL`.
#[repr(C)]
pub(super) struct MessageControl {
    pub(super) flags: c_int,
    pub(super) ttl_ms: c_int,
    pub(super) in_order: c_int,
    pub(super) boundary: c_int,
    /// The time at which the message was created, by libsrt's clock; 0 for now.
    pub(super) source_time_us: i64,
    pub(super) packet: i32,
    pub(super) number: i32,
    pub(super) group: *mut c_void,
    pub(super) group_len: usize,
}

/// `SRT_EPOLL_EVENT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct PollEvent {
    pub(super) socket: c_int,
    pub(super) events: c_int,
}

/// `srt_listen_callback_fn`.
pub(super) type OnCaller = unsafe extern "C" fn(
    opaque: *mut c_void,
    socket: c_int,
    version: c_int,
    peer: *const sockaddr,
    stream_id: *const c_char,
) -> c_int;

functions! {
    /// The functions that are used, under their own names.
    Library of "srt.h of libsrt 1.5":
    srt_startup: fn() -> c_int;
    srt_setloglevel: fn(c_int) -> ();
    srt_getversion: fn() -> u32;
    srt_time_now: fn() -> i64;
    srt_create_socket: fn() -> c_int;
    srt_close: fn(c_int) -> c_int;
    srt_bind: fn(c_int, *const sockaddr, c_int) -> c_int;
    srt_listen: fn(c_int, c_int) -> c_int;
    srt_listen_callback: fn(c_int, OnCaller, *mut c_void) -> c_int;
    srt_accept: fn(c_int, *mut sockaddr, *mut c_int) -> c_int;
    srt_connect: fn(c_int, *const sockaddr, c_int) -> c_int;
    srt_getsockname: fn(c_int, *mut sockaddr, *mut c_int) -> c_int;
    srt_getsockstate: fn(c_int) -> c_int;
    srt_getsockflag: fn(c_int, c_int, *mut c_void, *mut c_int) -> c_int;
    srt_setsockflag: fn(c_int, c_int, *const c_void, c_int) -> c_int;
    srt_sendmsg2: fn(c_int, *const c_char, c_int, *mut MessageControl) -> c_int;
    srt_recvmsg2: fn(c_int, *mut c_char, c_int, *mut MessageControl) -> c_int;
    srt_bistats: fn(c_int, *mut c_void, c_int, c_int) -> c_int;
    srt_getlasterror: fn(*mut c_int) -> c_int;
    srt_strerror: fn(c_int, c_int) -> *const c_char;
    srt_getrejectreason: fn(c_int) -> c_int;
    srt_setrejectreason: fn(c_int, c_int) -> c_int;
    srt_rejectreason_str: fn(c_int) -> *const c_char;
    srt_epoll_create: fn() -> c_int;
    srt_epoll_set: fn(c_int, i32) -> i32;
    srt_epoll_add_usock: fn(c_int, c_int, *const c_int) -> c_int;
    srt_epoll_remove_usock: fn(c_int, c_int) -> c_int;
    srt_epoll_uwait: fn(c_int, *mut PollEvent, c_int, i64) -> c_int;
    srt_epoll_release: fn(c_int) -> c_int;
}

/// Returns the library, which is loaded and started once for the whole process. It stays loaded, because its threads
/// run its code.
pub(super) fn library() -> Result<&'static Library, LoadError> {
    static LIBRARY: OnceLock<Result<Library, LoadError>> = OnceLock::new();
    LIBRARY.get_or_init(load).as_ref().map_err(LoadError::clone)
}

fn load() -> Result<Library, LoadError> {
    let mut missing = None;
    for file in FILES {
        // SAFETY: the initializers of libsrt set up its globals and start nothing.
        match unsafe { libloading::Library::new(file) } {
            Ok(found) => return start(file, found),
            Err(error) => {
                missing.get_or_insert(LoadError::Missing {
                    file,
                    why: error.to_string(),
                });
            }
        }
    }
    Err(missing.expect("there is a file to look for"))
}

fn start(file: &'static str, found: libloading::Library) -> Result<Library, LoadError> {
    let library = Library::resolve(&found).map_err(|error| LoadError::Foreign {
        file,
        why: error.to_string(),
    })?;
    // It is never unloaded: a thread of the library would lose its code.
    std::mem::forget(found);
    // SAFETY: to be called before all others, once; it returns -1 when it fails.
    if unsafe { (library.srt_startup)() } < 0 {
        return Err(LoadError::Start);
    }
    // SAFETY: a number of syslog's levels.
    unsafe { (library.srt_setloglevel)(LOG_LEVEL) };
    Ok(library)
}
