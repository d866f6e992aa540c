//! Gives some processes a share of a processor, by a control group of the kernel, to simulate slower hosts.
//!
//! Both versions of control groups are supported; the one that has the processor's controller is used. Needs root. It
//! does not limit processes with real-time priority.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The mount points of version 2, and of version 1's processor controller.
const UNIFIED: &str = "/sys/fs/cgroup";
const VERSION_1: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];
/// The shortest time that the kernel gives at once: the shorter the turns, the more a group resembles a slower
/// processor instead of one that stops.
const LEAST_US: u64 = 1_000;

/// A group of processes that together get a share of one processor. Dropping it removes the group; its processes must
/// have ended by then.
#[derive(Debug)]
pub struct Quota {
    folder: PathBuf,
}

impl Quota {
    /// Creates a group that gets `percent` of a processor.
    pub fn new(percent: u32) -> io::Result<Quota> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (root, is_unified) = root()?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = root.join(format!("sinew-lab-{}-{number}", std::process::id()));
        fs::create_dir(&folder)?;
        let quota = Quota { folder };
        let (time_us, period_us) = turn(percent);
        if is_unified {
            quota.write("cpu.max", &format!("{time_us} {period_us}"))?;
        } else {
            quota.write("cpu.cfs_period_us", &period_us.to_string())?;
            quota.write("cpu.cfs_quota_us", &time_us.to_string())?;
        }
        Ok(quota)
    }

    /// Puts a process with all its threads into the group.
    pub fn add(&self, pid: u32) -> io::Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        fs::write(self.folder.join(name), text)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // Killed processes leave the group with a delay. If they do not, an empty folder is left.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// Returns where groups are made, and whether they are of version 2.
fn root() -> io::Result<(PathBuf, bool)> {
    let unified = Path::new(UNIFIED);
    let controllers = fs::read_to_string(unified.join("cgroup.controllers")).unwrap_or_default();
    if controllers.split_whitespace().any(|name| name == "cpu") {
        // Groups below have the controller only if their parent passes it down.
        fs::write(unified.join("cgroup.subtree_control"), "+cpu")?;
        return Ok((unified.to_owned(), true));
    }
    let found = VERSION_1.iter().map(Path::new);
    let mut found = found.filter(|path| path.join("cpu.cfs_quota_us").exists());
    match found.next() {
        Some(path) => Ok((path.to_owned(), false)),
        None => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "there is no control group with the processor's controller here",
        )),
    }
}

/// Returns the time that is given, and the period, in microseconds.
fn turn(percent: u32) -> (u64, u64) {
    let percent = u64::from(percent.clamp(1, 100));
    (LEAST_US, LEAST_US * 100 / percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_given_in_the_shortest_turns_there_are() {
        assert_eq!(turn(100), (1_000, 1_000));
        assert_eq!(turn(25), (1_000, 4_000));
        assert_eq!(turn(0), turn(1));
    }
}
