//! Errors in the form that C programs expect.

use client::{Error, ResetReason};
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::io;

/// A value of `errno`.
pub(crate) type Errno = libc::c_int;

thread_local! {
    /// The reason for which the last call of this thread failed, for `sinew_error`.
    static WHY: RefCell<CString> = RefCell::default();
}

/// Notes the reason of a failure, and returns its `errno`.
pub(crate) fn of(error: &Error) -> Errno {
    say(&error.to_string());
    number(error)
}

/// Notes a sentence for `sinew_error`.
pub(crate) fn say(text: &str) {
    WHY.with_borrow_mut(|why| *why = CString::new(text).unwrap_or_default());
}

/// Passes the sentence of this thread's last failure to `f`.
pub(crate) fn with_why<T>(f: impl FnOnce(&CStr) -> T) -> T {
    WHY.with_borrow(|why| f(why))
}

/// Returns the `errno` of a system error.
pub(crate) fn of_io(error: &io::Error) -> Errno {
    use io::ErrorKind::*;
    error.raw_os_error().unwrap_or(match error.kind() {
        WouldBlock => libc::EAGAIN,
        BrokenPipe => libc::EPIPE,
        ConnectionReset => libc::ECONNRESET,
        TimedOut => libc::ETIMEDOUT,
        Interrupted => libc::EINTR,
        _ => libc::EIO,
    })
}

fn number(error: &Error) -> Errno {
    use client::ErrorCode as Code;
    match error {
        Error::NoNode { .. } | Error::NotFound(_) | Error::Closed | Error::Protocol(_) => {
            libc::ENETDOWN
        }
        Error::Refused { code, .. } => match code {
            Code::PortInUse => libc::EADDRINUSE,
            Code::AlreadyBound => libc::EINVAL,
            Code::NotBound => libc::ENOTCONN,
            Code::TooLong => libc::EMSGSIZE,
            Code::Unsupported => libc::EOPNOTSUPP,
            Code::TooManySockets => libc::ENFILE,
            Code::Forbidden => libc::EACCES,
            Code::NoRoom => libc::ENOBUFS,
            _ => libc::ENETDOWN,
        },
        // For sending, this is the result of SO_SNDTIMEO.
        Error::Timeout { .. } | Error::WouldBlock => libc::EAGAIN,
        Error::TooLong { .. } => libc::EMSGSIZE,
        Error::Gate { .. } | Error::Discover(_) => libc::ENETDOWN,
        Error::Descriptors => libc::EMFILE,
        Error::Reset(why) => match why {
            ResetReason::Refused => libc::ECONNREFUSED,
            ResetReason::Timeout => libc::ETIMEDOUT,
            ResetReason::NoRoute => libc::EHOSTUNREACH,
            ResetReason::Exhausted => libc::ENOBUFS,
            ResetReason::Peer | ResetReason::Unknown | ResetReason::Protocol => libc::ECONNRESET,
        },
        Error::Io(error) => of_io(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_a_number_and_a_sentence() {
        let refused = Error::Refused {
            code: client::ErrorCode::PortInUse,
            text: "taken".into(),
        };
        assert_eq!(of(&refused), libc::EADDRINUSE);
        with_why(|why| assert!(why.to_str().unwrap().contains("taken")));
        assert_eq!(number(&Error::WouldBlock), libc::EAGAIN);
        let no_room = Error::Refused {
            code: client::ErrorCode::NoRoom,
            text: String::new(),
        };
        assert_eq!(number(&no_room), libc::ENOBUFS);
    }
}
