//! The clocks of a host.

use base::Time;

/// The monotonic clock, counted from the creation of this value. All copies return the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_ns: u64,
}

impl Clock {
    /// Creates a clock that stands at [`Time::ZERO`].
    #[allow(clippy::new_without_default)]
    pub fn new() -> Clock {
        Clock {
            start_ns: read(libc::CLOCK_MONOTONIC),
        }
    }

    /// Returns the time since the creation. It never goes back. The call takes 20-50 ns, without entering the kernel.
    #[inline]
    pub fn now(&self) -> Time {
        Time::from_nanos(read(libc::CLOCK_MONOTONIC).saturating_sub(self.start_ns))
    }

    /// Returns the kernel's monotonic clock itself in microseconds, which service managers need.
    pub fn monotonic_us() -> u64 {
        read(libc::CLOCK_MONOTONIC) / 1_000
    }

    /// Returns milliseconds since 1970, for logs. It may jump when the operator sets the machine's clock.
    pub fn unix_ms(&self) -> u64 {
        read(libc::CLOCK_REALTIME) / 1_000_000
    }

    /// Returns seconds since 1970, for the validity of certificates. It may jump when the operator sets the machine's
    /// clock.
    pub fn unix_s(&self) -> u64 {
        read(libc::CLOCK_REALTIME) / 1_000_000_000
    }
}

/// Returns whether a program such as an NTP daemon keeps the machine's clock synchronised, as that program has told the
/// kernel; none if the kernel does not report it.
pub fn is_synchronised() -> Option<bool> {
    // SAFETY: all zero is a valid `timex`, which asks and sets nothing: "modes: zero".
    let mut told: libc::timex = unsafe { core::mem::zeroed() };
    // SAFETY: a structure of the right size, which is ours.
    let state = unsafe { libc::adjtimex(&raw mut told) };
    (state >= 0).then_some(told.status & libc::STA_UNSYNC == 0)
}

/// Returns nanoseconds on one of the kernel's clocks.
pub(crate) fn read(clock: libc::clockid_t) -> u64 {
    let mut ts = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: "the time value of the specified clock" is written to `ts`, which is ours. The
    // clocks used here exist on every kernel, so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut ts) };
    nanos(ts)
}

/// Converts a time that the kernel has written to nanoseconds.
pub(crate) fn nanos(ts: libc::timespec) -> u64 {
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_agree_and_time_does_not_go_back() {
        let clock = Clock::new();
        let copy = clock;
        let (a, b, c) = (clock.now(), copy.now(), clock.now());
        assert!(a <= b && b <= c);
        assert!(clock.unix_s() > 1_600_000_000, "after 2020");
    }
}
