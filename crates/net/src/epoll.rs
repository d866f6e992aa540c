//! Readiness of descriptors, and waking the loop from other threads.
//!
//! Level-triggered: data that was not read now is reported again, so a bounded receive loop may leave data behind.
//!
//! Timeouts are in nanoseconds, by a timer descriptor in the same set. A loop that is woken by packets moves its
//! deadline with each of them, and setting the timer every time costs more than the wait (most of all on virtual
//! machines, where it leaves the guest). Therefore, while packets arrive fast, a timer that would expire too early is
//! left alone. When it expires, it is set again without informing the caller: once per timeout, not once per packet.

use crate::{clock, sys};
use base::Duration;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::Arc;

/// Number of events taken per call; more stay ready and are returned by the next one.
pub const EVENTS_MAX: usize = 64;
/// A timer that expires too early is left alone if this many waits are expected before, judging by the last one: a
/// useless wake-up costs about as much as setting the timer this often.
const WAITS_PER_TIMER: u64 = 8;
/// The timer descriptor's own token.
const TIMER_TOKEN: u64 = u64::MAX;

/// Waits for descriptors to become ready.
pub struct Poller {
    epoll: Arc<OwnedFd>,
    timer: OwnedFd,
    /// When the timer expires, in nanoseconds on the monotonic clock.
    armed_ns: Option<u64>,
    /// When the last wait began.
    waited_ns: u64,
    events: Box<[libc::epoll_event; EVENTS_MAX]>,
}

/// The events to wait for. Hang-up and errors are always reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Wait until there is something to read.
    pub read: bool,
    /// Wait until there is room to write.
    pub write: bool,
}

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token that [`Poller::add`] got.
    pub token: u64,
    /// There is something to read, or the end of the stream.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// The other side is gone, or an error is pending. Data may still be readable.
    pub closed: bool,
    /// The other side is gone in both directions, or an error is pending: nothing that is sent will arrive.
    pub hung_up: bool,
}

impl Interest {
    /// Reading only.
    pub const READ: Interest = Interest {
        read: true,
        write: false,
    };
    /// Reading and writing.
    pub const READ_WRITE: Interest = Interest {
        read: true,
        write: true,
    };
    /// Neither: only hang-up and errors.
    pub const NONE: Interest = Interest {
        read: false,
        write: false,
    };

    fn bits(self) -> u32 {
        let read = if self.read {
            libc::EPOLLIN | libc::EPOLLRDHUP
        } else {
            0
        };
        let write = if self.write { libc::EPOLLOUT } else { 0 };
        (read | write) as u32
    }
}

impl Poller {
    /// Creates a poller that watches nothing yet.
    pub fn new() -> io::Result<Poller> {
        // SAFETY: no pointers are involved.
        let epoll = sys::own(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: no pointers are involved.
        let timer = sys::own(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        let poller = Poller {
            epoll: Arc::new(epoll),
            timer,
            armed_ns: None,
            waited_ns: 0,
            events: Box::new([libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX]),
        };
        // Edge-triggered, so that an expiration need not be read.
        let interest = (libc::EPOLLIN | libc::EPOLLET) as u32;
        let timer = poller.timer.as_fd();
        poller.control(libc::EPOLL_CTL_ADD, timer, TIMER_TOKEN, interest)?;
        Ok(poller)
    }

    /// Watches `fd` until it is removed or closed; what becomes ready is reported with `token`.
    /// `u64::MAX` is the poller's own and refused.
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        add(&self.epoll, fd.as_fd(), token, interest)
    }

    /// Returns a handle by which other threads add descriptors, while this one waits.
    pub fn registry(&self) -> Registry {
        Registry(self.epoll.clone())
    }

    /// Changes what is waited for on a watched `fd`.
    pub fn modify(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd.as_fd(), token, interest.bits())
    }

    /// Stops watching `fd`.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd.as_fd(), 0, 0)
    }

    /// Waits until something is ready or `timeout` has passed; `None` waits for ever. `ready` is
    /// replaced by what is ready: nothing after a timeout or a signal.
    pub fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        if timeout == Some(Duration::ZERO) {
            self.take(0, ready)?;
            return Ok(());
        }
        let now_ns = clock::read(libc::CLOCK_MONOTONIC);
        let deadline_ns = timeout.map(|span| now_ns.saturating_add(span.as_nanos()));
        let patience_ns = (now_ns - self.waited_ns).saturating_mul(WAITS_PER_TIMER);
        self.waited_ns = now_ns;
        loop {
            if let Some(deadline_ns) = deadline_ns
                && self.armed_ns.is_none_or(|armed_ns| {
                    armed_ns > deadline_ns
                        || (armed_ns < deadline_ns && armed_ns.saturating_sub(now_ns) < patience_ns)
                })
            {
                arm(&self.timer, deadline_ns)?;
                self.armed_ns = Some(deadline_ns);
            }
            let gone_off = self.take(-1, ready)?;
            let too_early = gone_off
                && ready.is_empty()
                && deadline_ns.is_none_or(|at| clock::read(libc::CLOCK_MONOTONIC) < at);
            if !too_early {
                return Ok(());
            }
        }
    }

    /// Takes what is ready, or becomes ready within `wait_ms`, where -1 means for ever. Returns true if the timer has
    /// expired.
    fn take(&mut self, wait_ms: libc::c_int, ready: &mut Vec<Ready>) -> io::Result<bool> {
        // SAFETY: "maxevents" is the length of the array.
        let waited = sys::check(unsafe {
            libc::epoll_wait(
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                EVENTS_MAX as libc::c_int,
                wait_ms,
            )
        });
        let count = match waited {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            other => other? as usize,
        };
        let events = &self.events[..count];
        ready.extend(
            events
                .iter()
                .filter(|event| event.u64 != TIMER_TOKEN)
                .map(|event| {
                    let any = |bits: i32| event.events & bits as u32 != 0;
                    Ready {
                        token: event.u64,
                        readable: any(libc::EPOLLIN | libc::EPOLLRDHUP),
                        writable: any(libc::EPOLLOUT),
                        closed: any(libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP),
                        hung_up: any(libc::EPOLLHUP | libc::EPOLLERR),
                    }
                }),
        );
        let gone_off = ready.len() < count;
        if gone_off {
            self.armed_ns = None;
        }
        Ok(gone_off)
    }

    fn control(&self, op: i32, fd: BorrowedFd<'_>, token: u64, events: u32) -> io::Result<()> {
        control(&self.epoll, op, fd, token, events)
    }
}

/// Adds descriptors to a [`Poller`] from any thread. A running wait reports them, too.
#[derive(Clone, Debug)]
pub struct Registry(Arc<OwnedFd>);

impl Registry {
    /// Does the same as [`Poller::add`].
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        add(&self.0, fd.as_fd(), token, interest)
    }
}

fn add(epoll: &OwnedFd, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
    if token == TIMER_TOKEN {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    control(epoll, libc::EPOLL_CTL_ADD, fd, token, interest.bits())
}

fn control(
    epoll: &OwnedFd,
    op: i32,
    fd: BorrowedFd<'_>,
    token: u64,
    events: u32,
) -> io::Result<()> {
    let mut event = libc::epoll_event { events, u64: token };
    // SAFETY: the kernel only reads `event` during the call.
    sys::check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), op, fd.as_raw_fd(), &raw mut event) })
        .map(drop)
}

/// Sets the timer to a time of the monotonic clock. An earlier expiration is forgotten.
fn arm(timer: &OwnedFd, at_ns: u64) -> io::Result<()> {
    let zero = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let spec = libc::itimerspec {
        it_interval: zero,
        it_value: libc::timespec {
            // 2^64 ns are 1.8e10 s: they fit.
            tv_sec: (at_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (at_ns % 1_000_000_000) as libc::c_long,
        },
    };
    let flags = libc::TFD_TIMER_ABSTIME;
    // SAFETY: the kernel reads `spec` during the call; the old value may be null.
    sys::check(unsafe {
        libc::timerfd_settime(timer.as_raw_fd(), flags, &raw const spec, ptr::null_mut())
    })
    .map(drop)
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Wakes a [`Poller`] from any thread. Clones wake the same one. Several wakes before a drain count as one event.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Creates a waker, which has to be added to a poller for reading.
    pub fn new() -> io::Result<Waker> {
        // SAFETY: no pointers are involved.
        let fd = sys::own(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        Ok(Waker(Arc::new(fd)))
    }

    /// Makes the waker readable.
    pub fn wake(&self) {
        add_one(self.0.as_raw_fd());
    }

    /// Makes it unreadable again. Returns how often it was woken since the last call.
    pub fn drain(&self) -> u64 {
        take_count(self.0.as_fd())
    }
}

/// Adds one to an eventfd. A signal handler may call it. It can fail only if 2^64-2 wakes were not drained, and then it
/// is readable anyway.
pub(crate) fn add_one(eventfd: libc::c_int) {
    let one = 1u64;
    // SAFETY: "write(2) adds the 8-byte integer value supplied in its buffer to the counter";
    // write is async-signal-safe.
    unsafe { libc::write(eventfd, (&raw const one).cast(), 8) };
}

/// Takes the count out of an eventfd; 0 if it is not readable.
pub(crate) fn take_count(eventfd: BorrowedFd<'_>) -> u64 {
    let mut count = 0u64;
    // SAFETY: "each successful read(2) returns an 8-byte integer", into 8 bytes of ours.
    let len = unsafe { libc::read(eventfd.as_raw_fd(), (&raw mut count).cast(), 8) };
    if len == 8 { count } else { 0 }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_from_another_thread_ends_an_endless_wait() {
        let (mut poller, waker) = (Poller::new().unwrap(), Waker::new().unwrap());
        poller.add(&waker, 7, Interest::READ).unwrap();
        let other = waker.clone();
        let thread = std::thread::spawn(move || other.wake());
        let mut ready = Vec::new();
        poller.wait(None, &mut ready).unwrap();
        assert_eq!(
            (ready.len(), ready[0].token, ready[0].readable),
            (1, 7, true)
        );
        thread.join().unwrap();
        assert_eq!((waker.drain(), waker.drain()), (1, 0));
    }

    #[test]
    fn a_descriptor_that_another_thread_adds_ends_a_wait() {
        let (mut poller, waker) = (Poller::new().unwrap(), Waker::new().unwrap());
        let registry = poller.registry();
        assert!(registry.add(&waker, u64::MAX, Interest::READ).is_err());
        waker.wake();
        let thread = std::thread::spawn(move || {
            registry.add(&waker, 5, Interest::READ).unwrap();
            waker
        });
        let mut ready = Vec::new();
        poller.wait(None, &mut ready).unwrap();
        assert_eq!((ready.len(), ready[0].token), (1, 5));
        thread.join().unwrap();
    }

    #[test]
    fn a_timeout_reports_nothing_and_does_not_come_early() {
        let clock = crate::Clock::new();
        let mut poller = Poller::new().unwrap();
        let mut ready = vec![Ready {
            token: 1,
            readable: true,
            writable: true,
            closed: true,
            hung_up: true,
        }];
        for timeout in [Duration::from_nanos(1), Duration::from_micros(300)] {
            let start = clock.now();
            poller.wait(Some(timeout), &mut ready).unwrap();
            assert_eq!(ready, []);
            assert!(clock.now().since(start) >= timeout);
        }
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert_eq!(ready, []);
    }

    #[test]
    fn an_old_timeout_does_not_end_a_later_wait() {
        let (clock, mut poller) = (crate::Clock::new(), Poller::new().unwrap());
        let (waker, mut ready) = (Waker::new().unwrap(), Vec::new());
        poller.add(&waker, 1, Interest::READ).unwrap();
        let early = Some(Duration::from_micros(50));
        // The timer stays set for the early time, whether that has passed or not.
        waker.wake();
        poller.wait(early, &mut ready).unwrap();
        assert_eq!(ready.len(), 1);
        waker.drain();
        let (start, later) = (clock.now(), Duration::from_millis(2));
        poller.wait(Some(later), &mut ready).unwrap();
        assert_eq!(ready, []);
        assert!(clock.now().since(start) >= later);
        // This deadline is earlier than the time that the timer is set for.
        waker.wake();
        poller
            .wait(Some(Duration::from_secs(3_600)), &mut ready)
            .unwrap();
        waker.drain();
        poller.wait(early, &mut ready).unwrap();
        assert_eq!(ready, []);
        // There is no timeout: only the second wake can end this wait.
        waker.wake();
        poller.wait(early, &mut ready).unwrap();
        waker.drain();
        let other = waker.clone();
        let thread = std::thread::spawn(move || other.wake());
        poller.wait(None, &mut ready).unwrap();
        assert_eq!(ready.len(), 1);
        thread.join().unwrap();
    }

    #[test]
    fn a_timer_that_goes_off_during_a_look_is_set_again() {
        let (clock, mut poller) = (crate::Clock::new(), Poller::new().unwrap());
        let (waker, mut ready) = (Waker::new().unwrap(), Vec::new());
        poller.add(&waker, 1, Interest::READ).unwrap();
        waker.wake();
        let early = Duration::from_micros(1);
        poller.wait(Some(early), &mut ready).unwrap();
        waker.drain();
        let start = clock.now();
        while clock.now().since(start) < early * 100 {
            poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        }
        // Without a timer this would never end.
        poller.wait(Some(early * 200), &mut ready).unwrap();
        assert_eq!(ready, []);
    }

    #[test]
    fn interest_can_change_and_end() {
        let mut poller = Poller::new().unwrap();
        let (a, b) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut ready = Vec::new();
        poller.add(&a, 3, Interest::READ).unwrap();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert_eq!(ready, []);
        poller.modify(&a, 3, Interest::READ_WRITE).unwrap();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready[0].writable && !ready[0].readable && !ready[0].closed);
        drop(b);
        poller.wait(None, &mut ready).unwrap();
        assert!(ready[0].closed);
        poller.remove(&a).unwrap();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert_eq!(ready, []);
        assert!(poller.add(&a, u64::MAX, Interest::READ).is_err());
    }
}
