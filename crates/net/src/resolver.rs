//! Checks whether the resolver of this system finds anything, as configured by /etc/resolv.conf and /etc/nsswitch.conf.

use std::ffi::{CStr, CString};
use std::ptr;

/// The resolver's answer for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The name has addresses.
    Known,
    /// A name server has answered that the name has none.
    Unknown,
    /// No name server answers, in the words of the system.
    Nobody(String),
}

/// Asks for the addresses of `name`. This blocks, often for 10 s and more if no name server answers.
pub fn ask(name: &str) -> Answer {
    let Ok(name) = CString::new(name) else {
        return Answer::Unknown;
    };
    let mut found: *mut libc::addrinfo = ptr::null_mut();
    // SAFETY: the name ends in a zero byte and outlives the call; service and hints may be null, and the result is
    // ours.
    let code =
        unsafe { libc::getaddrinfo(name.as_ptr(), ptr::null(), ptr::null(), &raw mut found) };
    if code == 0 {
        // SAFETY: a list that the call has just returned, freed once.
        unsafe { libc::freeaddrinfo(found) };
    }
    match code {
        0 => Answer::Known,
        libc::EAI_NONAME | libc::EAI_NODATA => Answer::Unknown,
        code => {
            // SAFETY: the text for a code is static and ends in a zero byte.
            let text = unsafe { CStr::from_ptr(libc::gai_strerror(code)) };
            Answer::Nobody(text.to_string_lossy().into_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_host_are_known_without_a_server_and_nonsense_is_not() {
        assert_eq!(ask("localhost"), Answer::Known);
        assert_eq!(ask("127.0.0.1"), Answer::Known);
        assert_eq!(ask("no\0name"), Answer::Unknown);
    }
}
