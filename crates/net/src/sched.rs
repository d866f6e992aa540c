//! Where and when this process runs, the resources that it has used, and entropy.
//!
//! A node that shares its machine requests real-time priority, as the paper's daemons did [Amir06 §V-A]. If the system
//! refuses, the result says what the thread got instead, so that the caller can report it.

use crate::clock;
use crate::sys;
use base::Duration;
use std::fmt;
use std::fs;
use std::io;
use std::mem;
use std::ptr;
use std::slice;

/// The scheduling class that the calling thread has got.
#[derive(Debug)]
pub enum Scheduling {
    /// SCHED_RR at this priority, 1 to 99. It is lower than requested if the resource limit requires it.
    RealTime {
        /// The priority granted.
        priority: u8,
    },
    /// Time-sharing as before, because the system refused.
    Normal {
        /// The system's error.
        why: io::Error,
    },
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheduling::RealTime { priority } => write!(f, "real time, priority {priority}"),
            Scheduling::Normal { why } => write!(
                f,
                "no real-time priority ({why}): packets will wait when this machine is busy; run \
                 as root, or give CAP_SYS_NICE or a `ulimit -r`"
            ),
        }
    }
}

/// Gives the calling thread real-time priority (SCHED_RR, 1 to 99), or the highest that the
/// resource limit permits. Threads and processes that it starts are of normal priority.
pub fn real_time(priority: u8) -> Scheduling {
    let wanted = priority.clamp(1, 99);
    match set_policy(libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, wanted) {
        Ok(()) => Scheduling::RealTime { priority: wanted },
        Err(why) => match priority_limit().min(wanted) {
            0 => Scheduling::Normal { why },
            less => match set_policy(libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, less) {
                Ok(()) => Scheduling::RealTime { priority: less },
                Err(why) => Scheduling::Normal { why },
            },
        },
    }
}

/// Gives the calling thread normal, time-sharing priority again.
pub fn time_sharing() -> io::Result<()> {
    set_policy(libc::SCHED_OTHER, 0)
}

fn set_policy(policy: libc::c_int, priority: u8) -> io::Result<()> {
    // SAFETY: all zero is a valid `sched_param`.
    let mut param: libc::sched_param = unsafe { mem::zeroed() };
    param.sched_priority = priority.into();
    // SAFETY: "if pid equals zero, the scheduling policy and parameters of the calling thread
    // will be set"; `param` is only read.
    sys::check(unsafe { libc::sched_setscheduler(0, policy, &raw const param) }).map(drop)
}

/// Returns the real-time priority that an unprivileged process may take.
fn priority_limit() -> u8 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes `limit`, which is ours.
    unsafe { libc::getrlimit(libc::RLIMIT_RTPRIO, &raw mut limit) };
    limit.rlim_cur.min(99) as u8
}

/// Sets by how much the kernel may deliberately delay a wake-up of the calling thread. The default is 50 µs for threads
/// of normal priority, and none for real-time threads.
pub fn timer_slack(slack: Duration) -> io::Result<()> {
    // Zero would select the default.
    let ns = slack.as_nanos().clamp(1, u64::from(u32::MAX)) as libc::c_ulong;
    // SAFETY: no pointers are involved.
    sys::check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns) }).map(drop)
}

/// Returns the processors on which the calling thread may run.
pub fn processors() -> io::Result<Vec<usize>> {
    // SAFETY: all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    let bytes = size_of::<libc::cpu_set_t>();
    // SAFETY: "cpusetsize is the length (in bytes) of the data pointed to by mask"; pid 0 is the
    // calling thread.
    sys::check(unsafe { libc::sched_getaffinity(0, bytes, &raw mut set) })?;
    let all = 0..libc::CPU_SETSIZE as usize;
    // SAFETY: the index is below CPU_SETSIZE.
    Ok(all
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect())
}

/// Lets the calling thread run on one processor only.
pub fn pin(cpu: usize) -> io::Result<()> {
    confine(&[cpu])
}

/// Lets the calling thread, and threads and processes that it starts, run on these processors only.
pub fn confine(cpus: &[usize]) -> io::Result<()> {
    if cpus.iter().any(|cpu| *cpu >= libc::CPU_SETSIZE as usize) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    for &cpu in cpus {
        // SAFETY: the index is below CPU_SETSIZE.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: as in `processors`; the set is only read.
    sys::check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) })
        .map(drop)
}

/// Raises the limit of open descriptors to the highest that is permitted, and returns it. Each client of a node takes
/// one, and the usual soft limit of 1024 is meant for programs that use select(2).
pub fn raise_descriptors() -> io::Result<u64> {
    let mut limit = limit_of_descriptors()?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` outlives the call, which reads it.
    sys::check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    Ok(limit.rlim_cur)
}

/// Returns the number of descriptors that the process may have open.
pub fn descriptors() -> io::Result<u64> {
    limit_of_descriptors().map(|limit| limit.rlim_cur)
}

fn limit_of_descriptors() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` outlives the call, which fills it.
    sys::check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    Ok(limit)
}

/// Prevents all memory of the process, present and future, from being paged out. Pages that were never touched still
/// take no memory.
pub fn lock_memory() -> io::Result<()> {
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: no pointers are involved.
    sys::check(unsafe { libc::mlockall(flags) }).map(drop)
}

/// Permits memory of the process to be paged out and released again.
pub fn unlock_memory() -> io::Result<()> {
    // SAFETY: no pointers are involved.
    sys::check(unsafe { libc::munlockall() }).map(drop)
}

/// Releases the memory of the code and constants of the program and its libraries, unless it is locked. Code that runs
/// again is mapped again from the page cache when it is used. Most of a program runs only once, at the start.
/// Breakpoints of a debugger are lost.
pub fn give_back_code() {
    // SAFETY: the function is of the type that is wanted, and takes no data.
    unsafe { libc::dl_iterate_phdr(Some(give_back_of), ptr::null_mut()) };
}

/// Does the same for one loaded file.
unsafe extern "C" fn give_back_of(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    _: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: "the info argument is a pointer to a structure", and valid during the call.
    let info = unsafe { &*info };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: "dlpi_phdr: pointer to array of ELF program headers, dlpi_phnum: number of items".
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let in_page = page_bytes() - 1;
    for segment in headers {
        if segment.p_type != libc::PT_LOAD || segment.p_flags & libc::PF_W != 0 {
            continue;
        }
        // If an object was linked for another address, the difference is negative.
        let begun = info.dlpi_addr.wrapping_add(segment.p_vaddr);
        let start = begun as usize & !in_page;
        let end = begun.wrapping_add(segment.p_memsz) as usize;
        // SAFETY: nobody writes there, and "subsequent accesses of pages in the range will succeed", with "the
        // up-to-date contents of the underlying mapped file". Where the kernel refuses, as for its own code, all stays
        // as it is.
        unsafe {
            libc::madvise(
                ptr::without_provenance_mut(start),
                end.saturating_sub(start),
                libc::MADV_DONTNEED,
            )
        };
    }
    0
}

/// Returns the processor time that the calling thread has used, in the kernel and outside.
pub fn thread_cpu() -> Duration {
    Duration::from_nanos(clock::read(libc::CLOCK_THREAD_CPUTIME_ID))
}

/// Returns the processor time that all threads of the process have used.
pub fn process_cpu() -> Duration {
    Duration::from_nanos(clock::read(libc::CLOCK_PROCESS_CPUTIME_ID))
}

/// Returns how often the calling thread has waited for something and was woken.
pub fn thread_wakeups() -> u64 {
    // SAFETY: all zero is a valid `rusage`.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes `usage`, which is ours.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nvcsw as u64
}

/// Returns how many bytes of memory the process uses now.
pub fn resident_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/statm")?;
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "/proc/self/statm");
    pages
        .map(|pages| pages * page_bytes() as u64)
        .ok_or_else(malformed)
}

/// Returns the page size.
fn page_bytes() -> usize {
    // SAFETY: no pointers are involved.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Returns 32 unpredictable bytes, to seed an engine's generator.
pub fn entropy() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    // SAFETY: the buffer is ours and of the length given. "If the urandom source has been
    // initialized, reads of up to 256 bytes will always return as many bytes as requested".
    let len =
        sys::check_len(unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) })?;
    if len == bytes.len() {
        Ok(bytes)
    } else {
        Err(io::ErrorKind::Interrupted.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn priority_is_granted_or_refused_with_a_reason_and_is_not_inherited() {
        std::thread::spawn(|| {
            match real_time(10) {
                Scheduling::RealTime { priority } => assert!((1..=10).contains(&priority)),
                refused => {
                    assert!(refused.to_string().contains("CAP_SYS_NICE"));
                    return;
                }
            }
            // SAFETY: no pointers are involved.
            let policy = || unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
            assert_eq!(policy(), libc::SCHED_RR);
            let child = std::thread::spawn(policy);
            assert_eq!(child.join().unwrap(), libc::SCHED_OTHER);
            time_sharing().unwrap();
            assert_eq!(policy(), libc::SCHED_OTHER);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_pinned_thread_may_run_on_that_processor_only() {
        std::thread::spawn(|| {
            let cpu = *processors().unwrap().last().unwrap();
            pin(cpu).unwrap();
            assert_eq!(processors().unwrap(), [cpu]);
            assert!(pin(usize::MAX).is_err());
            timer_slack(Duration::from_nanos(1)).unwrap();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn code_that_was_given_back_runs_on() {
        // Constants that nothing else reads, in pages that are not mapped together with their neighbours.
        static CONSTANTS: [u64; 1 << 15] = [7; 1 << 15];
        let middle = &raw const CONSTANTS[1 << 14];
        let is_mapped = || {
            let mut entry = [0; 8];
            let pages = File::open("/proc/self/pagemap").unwrap();
            let at = (middle.addr() / page_bytes() * entry.len()) as u64;
            pages.read_exact_at(&mut entry, at).unwrap();
            u64::from_le_bytes(entry) >> 63 == 1
        };
        let read = || std::hint::black_box(&CONSTANTS)[1 << 14];
        assert_eq!((read(), is_mapped()), (7, true));
        // Locked memory is not released.
        if lock_memory().is_ok() {
            give_back_code();
            assert!(is_mapped());
        }
        unlock_memory().unwrap();
        give_back_code();
        assert!(!is_mapped());
        assert_eq!((read(), is_mapped()), (7, true));
    }

    #[test]
    fn use_of_time_and_memory_is_told() {
        let (before, mut x) = (thread_cpu(), 1u64);
        while thread_cpu() == before {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(process_cpu() >= thread_cpu().saturating_sub(before));
        assert!(resident_bytes().unwrap() > 100_000);
        assert_ne!(entropy().unwrap(), entropy().unwrap());
    }
}
