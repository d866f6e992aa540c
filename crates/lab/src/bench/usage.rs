//! The resources that a process has used, as the kernel reports them: processor time, wake-ups, memory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Processor time and wake-ups of a process, all its threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Time on a processor, in the kernel and outside.
    pub(crate) cpu_ns: u64,
    /// How often a thread slept and was woken.
    pub(crate) wakeups: u64,
}

impl Usage {
    /// Returns what the process `pid` has used since its start. Threads that have ended do not count.
    pub(crate) fn of(pid: u32) -> io::Result<Usage> {
        Usage::of_some(pid, |_| true)
    }

    /// Returns what those of its threads have used that have the name `name`.
    pub(crate) fn of_threads(pid: u32, name: &str) -> io::Result<Usage> {
        Usage::of_some(pid, |path| {
            let called = fs::read_to_string(path.join("comm"));
            called.is_ok_and(|called| called.trim_end() == name)
        })
    }

    fn of_some(pid: u32, counts: impl Fn(&Path) -> bool) -> io::Result<Usage> {
        let mut usage = Usage::default();
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let path = thread?.path();
            if !counts(&path) {
                continue;
            }
            // A thread may end while its files are read.
            let Ok(schedstat) = fs::read_to_string(path.join("schedstat")) else {
                continue;
            };
            usage.cpu_ns += first_number(&schedstat).unwrap_or(0);
            usage.wakeups += status(path.join("status"), "voluntary_ctxt_switches:").unwrap_or(0);
        }
        if usage.cpu_ns == 0 {
            let what = "this kernel does not tell the processor time of threads (schedstat)";
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        Ok(usage)
    }

    /// Returns what was used between `before` and this.
    pub(crate) fn since(self, before: Usage) -> Usage {
        Usage {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            wakeups: self.wakeups.saturating_sub(before.wakeups),
        }
    }
}

/// Returns the processor time of the process `pid` since its start, including ended threads, with a resolution of 10
/// ms.
pub(crate) fn whole_cpu_ns(pid: u32) -> io::Result<u64> {
    stat_cpu_ns(&format!("/proc/{pid}/stat"), 11)
}

/// Returns the processor time of all processes that this one has started and waited for, with a resolution of 10 ms.
pub(crate) fn children_cpu_ns() -> io::Result<u64> {
    stat_cpu_ns("/proc/self/stat", 13)
}

/// Returns the sum of two numbers of a process's `stat`, which follow `skipped` numbers, counted from its state.
fn stat_cpu_ns(path: &str, skipped: usize) -> io::Result<u64> {
    // USER_HZ is 100 on every present Linux platform.
    const TICK_NS: u64 = 10_000_000;
    let stat = fs::read_to_string(path)?;
    // The name, in parentheses, may contain spaces; the count begins after it.
    let behind = stat.rsplit_once(')').map(|(_, behind)| behind);
    let numbers = behind.into_iter().flat_map(str::split_whitespace);
    let mut numbers = numbers.skip(skipped);
    let mut next = || numbers.next()?.parse::<u64>().ok();
    let both = next().zip(next());
    let (user, system) = both.ok_or(io::ErrorKind::InvalidData)?;
    Ok((user + system) * TICK_NS)
}

/// Returns the bytes of memory that the process `pid` has in use.
pub(crate) fn resident_bytes(pid: u32) -> io::Result<u64> {
    let kib = status(format!("/proc/{pid}/status").into(), "VmRSS:")?;
    Ok(kib * 1_024)
}

/// Returns the load: the mean number of processes that wanted to run in the last minute.
pub(crate) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(0.0)
}

/// Returns the number after `key` in a file of lines.
fn status(path: PathBuf, key: &str) -> io::Result<u64> {
    let text = fs::read_to_string(&path)?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .and_then(first_number);
    value.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{}: no `{key}`", path.display()),
        )
    })
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_something() {
        let pid = std::process::id();
        let before = Usage::of(pid).unwrap();
        let mut x = 1u64;
        // Threads of other tests may end in the meantime, and their usage is then no longer counted.
        while Usage::of(pid).unwrap().since(before).cpu_ns == 0 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(resident_bytes(pid).unwrap() > 100_000);
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert!(Usage::of(u32::MAX).is_err());
        assert!(resident_bytes(u32::MAX).is_err());
    }
}
