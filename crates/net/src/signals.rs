//! SIGINT and SIGTERM, and SIGHUP, as something that a loop can wait for.
//!
//! Choice: a handler that writes to an eventfd, and not signalfd: that one needs the signals blocked in every thread,
//! and this is not possible for threads that a library has started.

use crate::{epoll, sys};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::{mem, ptr};

const ENDING: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];
/// The eventfds that the handlers write to; -1 if no value is installed.
static TERMINATION: AtomicI32 = AtomicI32::new(-1);
static HANGUP: AtomicI32 = AtomicI32::new(-1);

/// Readable once the process was asked to end. While this value lives, the signals have no other effect.
#[derive(Debug)]
pub struct Termination(Caught);

/// Readable once the process was asked to read its files again, or its terminal has gone. While this value lives, the
/// signal has no other effect.
#[derive(Debug)]
pub struct Hangup(Caught);

/// Signals that write to an eventfd.
#[derive(Debug)]
struct Caught {
    fd: OwnedFd,
    target: &'static AtomicI32,
    before: Vec<(libc::c_int, Action)>,
}

struct Action(libc::sigaction);
impl std::fmt::Debug for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Action({:#x})", self.0.sa_sigaction)
    }
}

impl Termination {
    /// Takes over SIGINT and SIGTERM. Fails with `AlreadyExists` while another value lives.
    pub fn install() -> io::Result<Termination> {
        Caught::install(&TERMINATION, &ENDING, on_termination).map(Termination)
    }

    /// Returns how often a signal arrived since the last call.
    pub fn take(&self) -> u64 {
        self.0.take()
    }
}

impl Hangup {
    /// Takes over SIGHUP. Fails with `AlreadyExists` while another value lives.
    pub fn install() -> io::Result<Hangup> {
        Caught::install(&HANGUP, &[libc::SIGHUP], on_hangup).map(Hangup)
    }

    /// Returns how often the signal arrived since the last call.
    pub fn take(&self) -> u64 {
        self.0.take()
    }
}

impl AsFd for Termination {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

impl AsFd for Hangup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

impl Caught {
    fn install(
        target: &'static AtomicI32,
        signals: &[libc::c_int],
        handler: extern "C" fn(libc::c_int),
    ) -> io::Result<Caught> {
        // SAFETY: no pointers are involved.
        let fd = sys::own(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        target
            .compare_exchange(-1, fd.as_raw_fd(), Ordering::SeqCst, Ordering::SeqCst)
            .map_err(|_| io::Error::from(io::ErrorKind::AlreadyExists))?;
        let action = action(handler);
        let take_over = |signal: &libc::c_int| (*signal, Action(replace(*signal, &action)));
        let before = signals.iter().map(take_over).collect();
        Ok(Caught { fd, target, before })
    }

    fn take(&self) -> u64 {
        epoll::take_count(self.fd.as_fd())
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            replace(*signal, &before.0);
        }
        self.target.store(-1, Ordering::SeqCst);
    }
}

/// Kills the process `pid`. The caller has to know whose id it is.
pub fn kill(pid: u32) -> io::Result<()> {
    send(pid, libc::SIGKILL)
}

/// Kills a process that was started as the first of its group, and all that it has started in it.
pub fn kill_group(first: u32) -> io::Result<()> {
    let first = number(first)?;
    // SAFETY: no pointers are involved.
    sys::check(unsafe { libc::kill(-first, libc::SIGKILL) }).map(drop)
}

/// Stops the process `pid` until [`resume`], as if its machine did something else.
pub fn stop(pid: u32) -> io::Result<()> {
    send(pid, libc::SIGSTOP)
}

/// Continues a process that was stopped by [`stop`].
pub fn resume(pid: u32) -> io::Result<()> {
    send(pid, libc::SIGCONT)
}

fn send(pid: u32, signal: libc::c_int) -> io::Result<()> {
    let pid = number(pid)?;
    // SAFETY: no pointers are involved.
    sys::check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Checks the id of one process. Zero and negative numbers would mean groups, and process 1 is the machine's.
fn number(pid: u32) -> io::Result<libc::pid_t> {
    match libc::pid_t::try_from(pid) {
        Ok(pid) if pid > 1 => Ok(pid),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

extern "C" fn on_termination(_: libc::c_int) {
    wake(&TERMINATION);
}

extern "C" fn on_hangup(_: libc::c_int) {
    wake(&HANGUP);
}

fn wake(target: &AtomicI32) {
    let fd = target.load(Ordering::SeqCst);
    if fd >= 0 {
        // SAFETY: errno belongs to this thread; "signal handlers ... save errno on entry and
        // restore it" [signal-safety(7)].
        unsafe {
            let errno = libc::__errno_location();
            let saved = *errno;
            epoll::add_one(fd);
            *errno = saved;
        }
    }
}

fn action(function: extern "C" fn(libc::c_int)) -> libc::sigaction {
    // SAFETY: all zero is a valid `sigaction`: default handler, empty mask, no flags.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = function as usize;
    action.sa_flags = libc::SA_RESTART;
    action
}

fn replace(signal: libc::c_int, action: &libc::sigaction) -> libc::sigaction {
    // SAFETY: all zero is a valid `sigaction`.
    let mut before: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: both point to `sigaction`s of ours; "sigaction fails with EINVAL for an invalid
    // signal, SIGKILL or SIGSTOP", none of which is used, so `before` is written.
    unsafe { libc::sigaction(signal, ptr::from_ref(action), &raw mut before) };
    before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoll::{Interest, Poller};
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    #[test]
    fn a_signal_wakes_the_loop_and_the_old_handler_comes_back() {
        let termination = Termination::install().unwrap();
        assert!(Termination::install().is_err(), "only one at a time");
        let mut poller = Poller::new().unwrap();
        poller.add(&termination, 1, Interest::READ).unwrap();
        for signal in ENDING {
            // SAFETY: no pointers; the handler is installed.
            assert_eq!(unsafe { libc::raise(signal) }, 0);
        }
        let mut ready = Vec::new();
        poller.wait(None, &mut ready).unwrap();
        assert_eq!(ready[0].token, 1);
        assert_eq!((termination.take(), termination.take()), (2, 0));
        let hangup = Hangup::install().unwrap();
        // SAFETY: no pointers; the handler is installed.
        assert_eq!(unsafe { libc::raise(libc::SIGHUP) }, 0);
        assert_eq!(
            (hangup.take(), hangup.take(), termination.take()),
            (1, 0, 0)
        );
        drop(termination);
        drop(Termination::install().unwrap());
    }

    #[test]
    fn a_group_ends_with_all_that_its_first_process_has_started() {
        let mut first = Command::new("sh")
            .args(["-c", "(sleep 20; echo late) & echo begun; wait"])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(first.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "begun\n");
        kill_group(first.id()).unwrap();
        // The pipe ends when no process has it open.
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
        assert!(!first.wait().unwrap().success());
        assert!(kill_group(0).is_err() && kill_group(1).is_err());
    }
}
